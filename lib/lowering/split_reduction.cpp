#include "lowering/split_reduction.h"

#include "ir/body.h"
#include "lowering/build.h"
#include "lowering/realize.h"
#include "symbolic/loops.h"

#include <algorithm>
#include <limits>

namespace tsc::lowering {

namespace {

using ir::ReductionKind;

// What the seed's generation of TorchInductor aims at.
constexpr int64_t kMinElementsPerThread = 32, kMaxElementsPerThread = 512;
constexpr int64_t kThreads = 8 * 32;       // of a block
constexpr int64_t kLongestWholeRow = 8192; // contiguous elements
constexpr int64_t kRowsPerThread = 4;      // of a column
constexpr int64_t kColumnsPerBlock = 128;
constexpr int64_t kCloseForRows = 30, kCloseForColumns = 20, kCloseForMaximum = 50;

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// The divisor of `value` nearest to `target`, the smaller of two equally near ones.
int64_t nearest_divisor(int64_t value, int64_t target) {
  int64_t best = 1;
  const auto consider = [&](int64_t divisor) {
    const int64_t distance = std::abs(divisor - target), known = std::abs(best - target);
    if (distance < known || (distance == known && divisor < best))
      best = divisor;
  };
  for (int64_t divisor = 1; divisor * divisor <= value; ++divisor) {
    if (value % divisor == 0) {
      consider(divisor);
      consider(value / divisor);
    }
  }
  return best;
}

/// An even division if one is near the wanted elements per thread.
int64_t elements_per_thread(int64_t length, int64_t wanted, int64_t close) {
  const int64_t divisor = nearest_divisor(length, wanted);
  return std::abs(divisor - wanted) < close ? std::max(divisor, kMinElementsPerThread) : wanted;
}

int64_t largest_elements_per_thread(int64_t length) {
  const int64_t divisor = nearest_divisor(length, kMaxElementsPerThread);
  return std::abs(divisor - kMaxElementsPerThread) < kCloseForMaximum ? divisor
                                                                      : kMaxElementsPerThread;
}

/// Rows of `length` contiguous elements, `results` of them.
int64_t row_splits(const target::Target &target, int64_t length, int64_t results) {
  const int64_t multiprocessors = target.multiprocessors;
  const int64_t threads = multiprocessors * target.max_threads_per_multiprocessor;
  if (results >= 2 * multiprocessors || length <= kLongestWholeRow)
    return 1;
  int64_t elements = kMinElementsPerThread;
  if (length * results >= kMaxElementsPerThread * threads) {
    elements = largest_elements_per_thread(length);
  } else if (length * results > kMinElementsPerThread * threads) {
    const int64_t blocks = ceil_div(threads / (2 * kThreads), results);
    elements = elements_per_thread(length, ceil_div(length, kThreads * blocks), kCloseForRows);
  }
  return ceil_div(length, elements * kThreads);
}

/// Columns of `length` elements far apart, `results` of them.
int64_t column_splits(const target::Target &target, int64_t length, int64_t results) {
  const int64_t threads = int64_t{target.multiprocessors} * target.max_threads_per_multiprocessor;
  int64_t elements = kMinElementsPerThread;
  if (length * results >= kMaxElementsPerThread * threads) {
    elements = largest_elements_per_thread(length);
  } else if (length * results >= kMinElementsPerThread * threads) {
    const int64_t blocks = ceil_div(threads / kThreads, ceil_div(results, kColumnsPerBlock));
    elements =
        elements_per_thread(length, ceil_div(length, kRowsPerThread * blocks), kCloseForColumns);
  }
  return ceil_div(length, kRowsPerThread * elements);
}

std::vector<Expr> joined(const std::vector<Expr> &a, const std::vector<Expr> &b) {
  std::vector<Expr> all = a;
  all.insert(all.end(), b.begin(), b.end());
  return all;
}

/// What the reduction reads, as a body over its results and the reduced elements; layouts of all
/// buffers in it are fixed.
ir::LoopBody reads_of(Context &context, const ReductionSpec &spec) {
  const LoopId whole = view_loop(context, spec.source_dtype,
                                 joined(spec.sizes, spec.reduction_sizes), spec.inputs[0]);
  const ir::LoopBody body = ir::trace_value(context.module, whole);
  bool decided = false;
  for (const ir::BodyOp &op : body.ops) {
    if (op.op == Op::load &&
        context.module.buffer(op.buffer).layout_kind == ir::LayoutKind::flexible) {
      decide_layout(context, op.buffer);
      decided = true;
    }
  }
  return decided ? ir::trace_value(context.module, whole) : body;
}

enum class Reads : uint8_t { none, rows, columns };

/// How the reads that mention every loop lie in memory: rows if the elements of one result are
/// neighbours in most of them.
Reads classify_reads(Context &context, const ReductionSpec &spec) {
  const ir::LoopBody body = reads_of(context, spec);
  const symbolic::Ranges ranges = body.ranges(context.module);
  std::vector<Expr> loops, reduced;
  for (size_t i = 0; i < body.variables.size(); ++i) {
    if (body.sizes[i].is_integer(1))
      continue;
    loops.push_back(body.variables[i]);
    if (i >= spec.sizes.size())
      reduced.push_back(body.variables[i]);
  }
  int columns = 0, rows = 0;
  std::vector<std::pair<BufferId, uint32_t>> seen;
  for (const ir::BodyOp &op : body.ops) {
    if (op.op != Op::load ||
        std::find(seen.begin(), seen.end(), std::pair{op.buffer, op.index}) != seen.end())
      continue;
    seen.emplace_back(op.buffer, op.index);
    const Expr index = symbolic::simplify(body.indices[op.index], ranges);
    const auto mentioned = [&](Expr loop) { return symbolic::depends_on(index, loop); };
    if (!std::all_of(loops.begin(), loops.end(), mentioned))
      continue;
    const std::vector<Expr> strides = symbolic::stride_vars(index, reduced);
    const bool far_apart = std::all_of(strides.begin(), strides.end(), [](Expr stride) {
      return !stride.is_integer() || stride.value() > 1;
    });
    ++(far_apart ? columns : rows);
  }
  return rows + columns == 0 ? Reads::none : rows > columns ? Reads::rows : Reads::columns;
}

/// The value that changes no result; what elements past the end of the last part count as.
tensor::Scalar neutral(const ReductionSpec &spec) {
  const bool floating = tensor::is_floating(spec.source_dtype);
  const auto limit = [&](bool largest) -> tensor::Scalar {
    if (floating)
      return largest ? std::numeric_limits<double>::infinity()
                     : -std::numeric_limits<double>::infinity();
    if (spec.source_dtype == DType::boolean)
      return largest;
    if (spec.source_dtype == DType::u8)
      return int64_t{largest ? 255 : 0};
    const auto bits = static_cast<int>(8 * tensor::size_in_bytes(spec.source_dtype));
    const int64_t most = std::numeric_limits<int64_t>::max() >> (64 - bits);
    return largest ? most : -most - 1;
  };
  switch (spec.kind) {
  case ReductionKind::max:
    return limit(false);
  case ReductionKind::min:
    return limit(true);
  case ReductionKind::prod:
    return floating ? tensor::Scalar(1.0) : tensor::Scalar(int64_t{1});
  case ReductionKind::any:
    return false;
  case ReductionKind::all:
    return true;
  default:
    return floating ? tensor::Scalar(0.0) : tensor::Scalar(int64_t{0});
  }
}

/// Inputs over parts: element `block * part + position` of the reduced ones, none past the end.
ReductionSpec parts_of(Context &context, const ReductionSpec &spec, int64_t splits) {
  const int64_t length = symbolic::numel(spec.reduction_sizes).value();
  const int64_t block = ceil_div(length, splits);
  const size_t rank = spec.sizes.size();
  ReductionSpec parts = spec;
  parts.sizes.push_back(splits);
  parts.reduction_sizes = {block};
  if (tensor::is_reduced_float(spec.dtype))
    parts.dtype = DType::f32;
  const Expr element = Expr(block) * ir::variable(rank) + ir::variable(rank + 1);
  const Expr flat[] = {Expr(length)};
  const Expr position[] = {element};
  std::vector<Expr> index = identity_index(rank);
  for (const Expr reduced : symbolic::reshape_index(spec.reduction_sizes, flat, position))
    index.push_back(reduced);
  for (Operand &input : parts.inputs)
    input = reindexed(input, index);
  if (block * splits == length)
    return parts;
  const std::vector<Expr> domain = joined(parts.sizes, parts.reduction_sizes);
  const auto masked = [&](const Operand &value, const tensor::Scalar &elsewhere) {
    const Operand mask =
        elementwise_operand(context, Op::lt, DType::boolean, domain,
                            {index_operand(context, element, DType::i32, domain),
                             index_operand(context, Expr(length), DType::i32, domain)});
    return masked_operand(context, spec.source_dtype, domain, mask, value, elsewhere);
  };
  if (spec.kind == ReductionKind::welford_reduce) { // absent elements must not count
    parts.kind = ReductionKind::welford_combine;
    parts.inputs.push_back(constant_operand(context, 0.0, spec.source_dtype));
    parts.inputs.push_back(constant_operand(context, 1.0, spec.source_dtype));
  }
  for (Operand &input : parts.inputs)
    input = masked(input, neutral(spec));
  return parts;
}

bool splits_in_lowering(const Context &context, const ReductionSpec &spec) {
  return context.policy.split_reductions && context.target &&
         result_device(context).type == tensor::DeviceType::cuda &&
         spec.kind != ReductionKind::argmax && spec.kind != ReductionKind::argmin &&
         symbolic::numel(spec.sizes).is_integer() &&
         symbolic::numel(spec.reduction_sizes).is_integer();
}

} // namespace

int64_t number_of_splits(Context &context, const ReductionSpec &spec) {
  if (!splits_in_lowering(context, spec))
    return 1;
  const target::Target &target = *context.target;
  const int64_t results = symbolic::numel(spec.sizes).value();
  const int64_t length = symbolic::numel(spec.reduction_sizes).value();
  if (results == 1)
    return row_splits(target, length, results);
  if (results == 0 || length <= kMinElementsPerThread ||
      results >= int64_t{target.multiprocessors} * 2 * 32)
    return 1;
  switch (classify_reads(context, spec)) {
  case Reads::rows:
    return row_splits(target, length, results);
  case Reads::columns:
    return column_splits(target, length, results);
  case Reads::none:
    break;
  }
  return 1;
}

std::optional<std::vector<bool>> dimensions_of_rows(Context &context, const ReductionSpec &spec) {
  const size_t rank = spec.sizes.size(), reduced = spec.reduction_sizes.size();
  if (!context.policy.reductions_take_values || reduced < 2 || ir::tuple_size(spec.kind) > 1 ||
      spec.kind == ReductionKind::argmax || spec.kind == ReductionKind::argmin)
    return std::nullopt;
  const LoopId whole = view_loop(context, spec.source_dtype,
                                 joined(spec.sizes, spec.reduction_sizes), spec.inputs[0]);
  const ir::LoopBody body = ir::trace_value(context.module, whole);
  for (const ir::BodyOp &op : body.ops) {
    if (op.op != Op::load)
      continue;
    const ir::Buffer &buffer = context.module.buffer(op.buffer);
    const auto *reduction =
        buffer.operation == ir::kNone
            ? nullptr
            : std::get_if<ir::Reduction>(&context.module.operations[buffer.operation].kind);
    if (reduction == nullptr)
      continue;
    std::vector<bool> of_row(reduced);
    Expr elements(1), rows = symbolic::numel(spec.sizes);
    for (size_t k = 0; k < reduced; ++k) {
      of_row[k] = !symbolic::depends_on(body.indices[op.index], body.variables[rank + k]);
      (of_row[k] ? elements : rows) *= spec.reduction_sizes[k];
    }
    const bool leaves_rows = elements != symbolic::numel(spec.reduction_sizes);
    if (leaves_rows && elements == symbolic::numel(reduction->reduction_sizes) &&
        !elements.is_integer(1) && !rows.is_integer(1) &&
        rows == symbolic::numel(buffer.layout.sizes))
      return of_row;
  }
  return std::nullopt;
}

std::vector<TensorValue> reduce_in_rows(Context &context, const ReductionSpec &spec,
                                        const std::vector<bool> &of_row) {
  const size_t rank = spec.sizes.size();
  ReductionSpec parts = spec, last = spec;
  parts.reduction_sizes.clear();
  last.reduction_sizes.clear();
  for (size_t k = 0; k < of_row.size(); ++k) {
    (of_row[k] ? parts : last).reduction_sizes.push_back(spec.reduction_sizes[k]);
    if (!of_row[k])
      parts.sizes.push_back(spec.reduction_sizes[k]);
  }
  if (tensor::is_reduced_float(spec.dtype))
    parts.dtype = DType::f32;
  std::vector<Expr> index = identity_index(rank);
  size_t row = rank, element = parts.sizes.size();
  for (const bool is_of_row : of_row)
    index.push_back(ir::variable(is_of_row ? element++ : row++));
  for (Operand &input : parts.inputs)
    input = reindexed(input, index);
  last.source_dtype = parts.dtype;
  last.inputs.clear();
  for (TensorValue &part : register_reduction(context, parts)) {
    realize(context, *part.storage);
    last.inputs.push_back(operand_of(context, part));
  }
  return register_reduction(context, last);
}

std::vector<TensorValue> reduce_in_parts(Context &context, const ReductionSpec &spec,
                                         int64_t splits) {
  ReductionSpec last = spec;
  const ReductionSpec parts = parts_of(context, spec, splits);
  last.reduction_sizes = {splits};
  last.source_dtype = parts.dtype;
  last.inputs.clear();
  for (TensorValue &part : reduce(context, parts)) {
    realize(context, *part.storage);
    last.inputs.push_back(operand_of(context, part));
  }
  if (ir::tuple_size(spec.kind) > 1)
    last.kind = ReductionKind::welford_combine;
  return register_reduction(context, last);
}

} // namespace tsc::lowering
