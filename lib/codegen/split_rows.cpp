#include "codegen/split_rows.h"

#include "codegen/plan.h"
#include "codegen/plan_steps.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace tsc::codegen {

namespace {

using ir::Op;
using ir::ReductionKind;

constexpr int64_t kSmallestRow = 1 << 15;  // elements that a block would take: some 10 microseconds
constexpr int64_t kSmallestPart = 1 << 11; // elements of a part: enough for a block
constexpr int64_t kMostParts = 4096; // of a row: one block merges them in a few loads a thread
constexpr int kBlocksPerMultiprocessor = 8;
constexpr int kBlocksForAnyLength = 1; // a multiprocessor, of rows that may turn out short
/// Scans: elements that one block had better carry along itself, and those of a part.
constexpr int64_t kLongestScan = 1 << 16, kSmallestScanPart = 1 << 10, kScanPartBytes = 1 << 15;
constexpr int64_t kLargestScanPart = 1 << 15, kMostScanParts = 1 << 13;
constexpr int64_t kScanPartsOfAnyLength = 1 << 12;
/// Tuples of a row that leave a multiprocessor room for another: while one loads, one combines.
constexpr int64_t kHeldTuplesBytes = 1 << 15;
/// Of parts that look back at those before them: elements a thread keeps, and threads. The larger a
/// part, the less waiting counts, if nothing but sums is to be done: then two blocks' parts fill
/// the registers of a multiprocessor. (Measured on an H200: sums of 67108864 floats 203 us in the
/// smaller parts, 166 in the larger ones; logarithms of sums 171 and 249, maxima and their places
/// 138 and 172, rows that start anywhere 75 and 83.)
constexpr int64_t kThreadElements = 16, kThreadBytes = 128, kWideThreadBytes = 96;
constexpr int64_t kTuplePartBytes = 1 << 14, kSmallestLookBack = 1 << 10;
constexpr int64_t kFewestThreads = 1 << 7, kSomeThreads = 1 << 8, kMostThreads = 1 << 9;
constexpr int kLookBackBlocks = 4; // a multiprocessor, that are wanted of short rows
/// Columns that are scanned: a thread carries a part of one. Threads a multiprocessor that hide
/// what memory takes, and elements that are worth a thread, and three kernels.
constexpr int64_t kColumnThreads = 1024, kSmallestColumnPart = 64;
constexpr int64_t kSmallestColumns = 1 << 20;
/// Columns that look back: bytes of tuples a thread has, and columns whose parts keep a GPU busy
/// while each waits for the one before.
constexpr int64_t kColumnBytes = 64, kFewestColumns = 2048;
constexpr int64_t kWholeRuns = 256; // parts are multiples of it where runs are vectors

/// Rows that one block takes at a time where neighbouring threads take neighbouring rows.
int64_t rows_per_block(bool columns) { return columns ? kColumnsPerBlock : 1; }

bool few_blocks(int64_t blocks, const target::Target &target) {
  return blocks > 0 && blocks * 2 <= target.multiprocessors;
}

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

bool is_store(const Value &value) {
  return value.op == Op::store || value.op == Op::store_reduction;
}
bool finds_position(const Value &value) {
  return value.op == Op::reduction &&
         (value.reduction == ReductionKind::argmax || value.reduction == ReductionKind::argmin);
}
/// A reduction or a scan: what needs all of a row before others go on.
bool is_barrier(const Value &value) { return value.op == Op::reduction || value.op == Op::scan; }

/// Whether parts of a row can be worked on apart.
bool is_divisible(const ir::Module &module, const KernelGraph &graph) {
  const auto reads = [&](BufferId buffer, Expr index, bool elsewhere_only) {
    return std::any_of(graph.values.begin(), graph.values.end(), [&](const Value &value) {
      return value.op == Op::load && module.storage_of(value.buffer) == module.storage_of(buffer) &&
             !(elsewhere_only &&
               symbolic::simplify(value.index - index, graph.ranges).is_integer(0));
    });
  };
  for (const Value &value : graph.values) {
    if (value.op == Op::sort || (value.op == Op::set_indirect && value.phase > 0))
      return false;
    // Kernels before the last one that reads must not write there; in the last one, blocks do not
    // wait for each other.
    if (is_store(value) && reads(value.buffer, value.index, value.level == Level::element))
      return false;
  }
  return true;
}

/// How a row is divided: parts of `length` of the outermost element loop, the last one what is
/// left.
struct Division {
  int64_t parts = 1;
  Expr length = 0;
};

/// As many parts of a size that the launch knows.
Division in_parts(const KernelGraph &graph, int64_t parts) {
  return {parts, symbolic::ceil_div(graph.element_sizes[0], parts)};
}

/// Parts that fill the GPU with blocks, leave each of them enough elements and keep vectors whole:
/// equal ones where the size has a fitting divisor.
Division divide(const ir::Module &module, const KernelGraph &graph, int64_t blocks, bool columns,
                const target::Target &target) {
  if (!graph.elements().is_integer()) {
    const auto expected = likely(module, graph.elements());
    if (!expected)
      return in_parts(graph,
                      ceil_div(int64_t{target.multiprocessors} * kBlocksForAnyLength, blocks));
    const int64_t most =
        std::min({kMostParts, likely(module, graph.element_sizes[0]).value_or(1),
                  *expected * rows_per_block(columns) / kSmallestPart,
                  int64_t{target.multiprocessors} * kBlocksPerMultiprocessor / blocks});
    return in_parts(graph, std::max<int64_t>(1, most));
  }
  const double wanted = static_cast<double>(target.multiprocessors) * kBlocksPerMultiprocessor /
                        static_cast<double>(blocks);
  const int64_t outermost = *graph.element_sizes[0].as_integer();
  const int64_t elements = *graph.elements().as_integer();
  const bool vectors = !columns && graph.element_sizes.size() == 1;
  const auto are_few = [&](int64_t parts) {
    return elements / parts * rows_per_block(columns) >= kSmallestPart;
  };
  constexpr double kFarFromWanted = 1; // twice, or half
  double best = 1e30;
  Division result{1, outermost};
  for (int64_t parts = 2; parts <= std::min(kMostParts, outermost); ++parts) {
    if (outermost % parts != 0 || !are_few(parts))
      continue;
    double cost = std::fabs(std::log2(static_cast<double>(parts) / wanted));
    for (int64_t width = 4; vectors && width <= 16; width *= 2)
      cost += outermost % width == 0 && outermost / parts % width != 0 ? 1.5 : 0;
    if (cost < best) {
      best = cost;
      result = {parts, outermost / parts};
    }
  }
  const int64_t most =
      std::min({kMostParts, outermost, elements * rows_per_block(columns) / kSmallestPart,
                std::max<int64_t>(1, static_cast<int64_t>(wanted))});
  const double even = std::fabs(std::log2(static_cast<double>(result.parts) /
                                          static_cast<double>(std::max<int64_t>(1, most))));
  if (most < 2 || (result.parts > 1 && std::min(even, best) <= kFarFromWanted))
    return result;
  const int64_t unit = vectors ? std::min<int64_t>(kWholeRuns, kSmallestPart) : 1;
  const int64_t length = ceil_div(ceil_div(outermost, most), unit) * unit;
  return {ceil_div(outermost, length), length};
}

/// Bytes of the widest elements that are scanned, of each member at least four.
int64_t scanned_bytes(const KernelGraph &graph) {
  size_t widest = 4;
  for (const Value &value : graph.values) {
    size_t bytes = 0;
    for (size_t k = 0; value.op == Op::scan && k < scanned_members(value); ++k)
      bytes += std::max<size_t>(4, tensor::size_in_bytes(member_dtype(value, k)));
    widest = std::max(widest, bytes);
  }
  return static_cast<int64_t>(widest);
}

/// Of rows that are scanned: parts that a block holds.
std::optional<Division> divide_scan(const KernelGraph &graph, std::optional<int64_t> known_rows,
                                    const target::Target &target) {
  if (!graph.elements().is_integer()) // a thread a part
    return in_parts(graph, kScanPartsOfAnyLength);
  const int64_t elements = *graph.elements().as_integer();
  const int64_t rows = known_rows.value_or(1);
  const int64_t fills = int64_t{target.multiprocessors} * kBlocksPerMultiprocessor;
  int64_t length = std::clamp(ceil_div(elements * std::min(rows, fills), fills), kSmallestScanPart,
                              kScanPartBytes / scanned_bytes(graph));
  length = std::max(length, ceil_div(elements, kMostScanParts));
  length = ceil_div(length, kWholeRuns) * kWholeRuns;
  if (length > kLargestScanPart || length >= elements)
    return std::nullopt;
  return Division{ceil_div(elements, length), length};
}

/// The same of columns: enough parts for the threads that a GPU runs at once.
std::optional<Division> divide_columns(int64_t rows, int64_t elements,
                                       const target::Target &target) {
  const int64_t parts =
      std::min(target.multiprocessors * kColumnThreads / rows, elements / kSmallestColumnPart);
  if (parts < 2 || rows * elements < kSmallestColumns)
    return std::nullopt;
  const int64_t length = ceil_div(elements, parts);
  return Division{ceil_div(elements, length), length};
}

Expr flat_row(const KernelGraph &graph) {
  Expr flat = 0, inner = 1;
  for (size_t i = graph.row_variables.size(); i-- > 0;) {
    flat = flat + graph.row_variables[i] * inner;
    inner = inner * graph.row_sizes[i];
  }
  return flat;
}

ReductionKind reduction_of(ir::ScanKind kind) {
  switch (kind) {
  case ir::ScanKind::sum:
    return ReductionKind::sum;
  case ir::ScanKind::prod:
    return ReductionKind::prod;
  case ir::ScanKind::max:
    return ReductionKind::max;
  case ir::ScanKind::min:
    return ReductionKind::min;
  case ir::ScanKind::logsumexp:
  case ir::ScanKind::combine: // Splitter::store_last
    break;
  }
  return ReductionKind::online_softmax_reduce;
}

/// What changes nothing when it is scanned with others.
tensor::Scalar identity_of(ir::ScanKind kind, DType dtype) {
  if (kind == ir::ScanKind::sum || kind == ir::ScanKind::prod) {
    const int64_t neutral = kind == ir::ScanKind::prod;
    return tensor::is_floating(dtype) ? tensor::Scalar(static_cast<double>(neutral))
                                      : tensor::Scalar(neutral);
  }
  const bool lowest = kind != ir::ScanKind::min;
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (tensor::is_floating(dtype))
    return lowest ? -kInfinity : kInfinity;
  if (!tensor::is_signed(dtype) && lowest)
    return int64_t{0};
  const int bits = 8 * static_cast<int>(tensor::size_in_bytes(dtype));
  const int64_t highest = INT64_MAX >> (64 - bits);
  if (lowest || tensor::is_signed(dtype))
    return lowest ? -highest - 1 : highest;
  return static_cast<int64_t>(2 * static_cast<uint64_t>(highest) + 1); // of 64 bits: -1, cast
}

/// Kernels in the place of one. For each phase whose walk reduces or scans: one that reduces parts
/// of rows, and one that merges them; then one that computes the elements, if any are stored.
class Splitter {
public:
  Splitter(ir::Module &module, const KernelGraph &graph, Expr parts, Expr length)
      : module_(module), graph_(graph), parts_(parts), length_(length), row_(flat_row(graph)),
        part_(symbolic::symbol(symbolic::SymbolSort::row, graph.row_variables.size())) {}

  std::vector<KernelGraph> split() {
    bool stores_elements = false;
    for (const ValueId id : graph_.stores)
      stores_elements = stores_elements || graph_[id].level == Level::element;
    uint32_t last = 0;
    for (ValueId id = 0; id < graph_.values.size(); ++id)
      if (is_barrier(graph_[id])) {
        add_barrier(id);
        last = std::max(last, graph_[id].phase);
      }
    std::vector<KernelGraph> result;
    for (uint32_t phase = 0; phase <= last; ++phase) {
      if (std::none_of(barriers_.begin(), barriers_.end(),
                       [&](const Barrier &barrier) { return phase_of(barrier) == phase; }))
        continue;
      result.push_back(parts_graph(phase));
      result.push_back(merge_graph(phase, stores_elements || phase < last));
    }
    if (stores_elements)
      result.push_back(elements_graph());
    return result;
  }

  /// One kernel for all: a block a part, each of which looks back at those before it. `threads` of
  /// a block, `length` and `columns`: as LookBack has them.
  KernelGraph look_back(int threads, int64_t length, int columns = 0) {
    std::vector<ValueId> moved;
    KernelGraph graph = over_parts(graph_.phases, moved);
    for (const ValueId id : graph_.stores)
      graph.stores.push_back(moved[id]);
    finish(graph);
    int64_t members = 0;
    for (const Value &value : graph.values)
      if (value.op == Op::scan)
        members += static_cast<int64_t>(scanned_members(value));
    const Expr rows = graph_.rows();
    const BufferId exchange =
        add_buffer("exchange", DType::i64, look_back_words(rows, parts_, members));
    module_.buffers[exchange].role = ir::Buffer::Role::exchange;
    graph.look_back = {exchange, threads, length, part_, row_, parts_, rows, columns};
    return graph;
  }

private:
  /// A reduction or a scan, and where its parts are, and the results: for each item of a tuple, or
  /// of a place (the value, then the position). A scan's results are what its parts start from.
  struct Barrier {
    ValueId id = ir::kNone;
    std::vector<BufferId> partials, results;
  };

  ir::Module &module_;
  const KernelGraph &graph_;
  Expr parts_, length_, row_, part_;
  std::vector<Barrier> barriers_;
  bool has_stored_ = false; // what depends on no reduction

  uint32_t phase_of(const Barrier &barrier) const { return graph_[barrier.id].phase; }
  const Barrier &barrier_of(ValueId id) const {
    return *std::find_if(barriers_.begin(), barriers_.end(),
                         [&](const Barrier &barrier) { return barrier.id == id; });
  }

  BufferId add_buffer(const char *stem, DType dtype, Expr count) {
    ir::Buffer buffer;
    buffer.name = stem + std::to_string(module_.buffers.size());
    buffer.dtype = tensor::is_reduced_float(dtype) ? DType::f32 : dtype;
    buffer.layout = tensor::contiguous_layout({count});
    buffer.role = ir::Buffer::Role::computed;
    module_.buffers.push_back(std::move(buffer));
    return static_cast<BufferId>(module_.buffers.size() - 1);
  }
  void add_barrier(ValueId id) {
    const Value &value = graph_[id];
    const Expr rows = graph_.rows(), all = rows * parts_;
    Barrier barrier{id, {}, {}};
    if (value.combine) {
      for (const DType type : value.combine.code->types) {
        barrier.partials.push_back(add_buffer("parts", type, all));
        barrier.results.push_back(add_buffer("starts", type, all));
      }
    } else if (value.op == Op::scan) {
      barrier.partials = {add_buffer("parts", total_dtype(value), all)};
      barrier.results = {add_buffer("starts", total_dtype(value), all)};
    } else if (finds_position(value)) {
      barrier.partials = {add_buffer("parts", value.source_dtype, all),
                          add_buffer("parts", DType::i64, all)};
      barrier.results = {add_buffer("merged", DType::i64, rows)};
    } else {
      for (size_t i = 0; i < ir::tuple_size(value.reduction); ++i) {
        barrier.partials.push_back(add_buffer("parts", value.dtype, all));
        barrier.results.push_back(add_buffer("merged", value.dtype, rows));
      }
    }
    barriers_.push_back(std::move(barrier));
  }

  // ---- values

  static ValueId add(KernelGraph &graph, Value value) {
    graph.values.push_back(std::move(value));
    return static_cast<ValueId>(graph.values.size() - 1);
  }
  ValueId load(KernelGraph &graph, BufferId buffer, Expr index, ValueId guard = ir::kNone) const {
    Value value;
    value.op = Op::load;
    value.buffer = buffer;
    value.dtype = module_.buffer(buffer).dtype;
    value.index = index;
    value.guard = guard;
    return add(graph, std::move(value));
  }
  void store(KernelGraph &graph, Op op, BufferId buffer, Expr index, ValueId stored) const {
    Value value;
    value.op = op;
    value.dtype = module_.buffer(buffer).dtype;
    value.buffer = buffer;
    value.index = index;
    value.args = {stored};
    graph.stores.push_back(add(graph, std::move(value)));
  }
  static ValueId compute(KernelGraph &graph, Op op, DType dtype, std::vector<ValueId> args) {
    Value value;
    value.op = op;
    value.dtype = dtype;
    value.args = std::move(args);
    return add(graph, std::move(value));
  }
  static ValueId item(KernelGraph &graph, ValueId tuple, DType dtype, uint32_t number) {
    const ValueId id = compute(graph, Op::get_item, dtype, {tuple});
    graph.values[id].item = number;
    return id;
  }
  static ValueId constant(KernelGraph &graph, tensor::Scalar number, DType dtype) {
    const ValueId id = compute(graph, Op::constant, dtype, {});
    graph.values[id].constant = number;
    return id;
  }
  static ValueId position(KernelGraph &graph, Expr index) {
    const ValueId id = compute(graph, Op::index_expr, DType::i64, {});
    graph.values[id].index = index;
    return id;
  }
  static void renumber(Value &value, const std::vector<ValueId> &moved) {
    for (ValueId &arg : value.args)
      arg = moved[arg];
    value.guard = value.guard == ir::kNone ? ir::kNone : moved[value.guard];
  }

  /// The reduction that `id` is, or is an item of, if it belongs to a phase before `phase`.
  const Barrier *earlier(ValueId id, uint32_t phase) const {
    const ValueId tuple = graph_[id].op == Op::get_item ? graph_[id].args[0] : id;
    return graph_[tuple].op == Op::reduction && graph_[tuple].phase < phase ? &barrier_of(tuple)
                                                                            : nullptr;
  }
  /// What a reduction of an earlier phase gave; nothing for a tuple, whose items are asked for.
  ValueId result(KernelGraph &graph, ValueId id, const Barrier &barrier) const {
    if (id == barrier.id && barrier.results.size() > 1)
      return ir::kNone;
    return load(graph, barrier.results[graph_[id].op == Op::get_item ? graph_[id].item : 0], row_);
  }

  // ---- kernels

  /// The graph over parts of rows; what was reduced before `phase` is loaded. No stores.
  KernelGraph over_parts(uint32_t phase, std::vector<ValueId> &moved) const {
    KernelGraph graph = graph_;
    graph.values.clear();
    graph.stores.clear();
    const Expr outermost = graph.element_variables[0], size = graph.element_sizes[0];
    if (size == length_ * parts_)
      graph.element_sizes[0] = length_;
    else
      graph.element_sizes[0] = symbolic::minimum(length_, size - part_ * length_);
    if (!size.is_integer())
      graph.element_sizes[0] = symbolic::maximum(0, graph.element_sizes[0]);
    graph.ranges.set_size(outermost, length_);
    graph.ranges.set_size(part_, parts_);
    // Outermost: neighbouring rows stay neighbours where columns are reduced.
    graph.row_variables.insert(graph.row_variables.begin(), part_);
    graph.row_sizes.insert(graph.row_sizes.begin(), parts_);
    const symbolic::Substitution place = {{outermost, part_ * length_ + outermost}};
    moved.assign(graph_.values.size(), ir::kNone);
    for (ValueId id = 0; id < graph_.values.size(); ++id) {
      if (const Barrier *barrier = earlier(id, phase)) {
        moved[id] = result(graph, id, *barrier);
        continue;
      }
      Value value = graph_[id];
      renumber(value, moved);
      value.index = symbolic::simplify(symbolic::substitute(value.index, place), graph.ranges);
      moved[id] = add(graph, std::move(value));
    }
    return graph;
  }
  static void finish(KernelGraph &graph) {
    remove_dead_values(graph);
    assign_phases(graph);
  }

  KernelGraph parts_graph(uint32_t phase) const {
    std::vector<ValueId> moved;
    KernelGraph graph = over_parts(phase, moved);
    start_scans(graph, moved, phase);
    const Expr index = row_ * parts_ + part_;
    for (const Barrier &barrier : barriers_) {
      const Value &value = graph_[barrier.id];
      if (value.phase != phase)
        continue;
      const ValueId id = moved[barrier.id];
      if (value.combine) {
        store_last(graph, barrier, id, index);
      } else if (value.op == Op::scan) {
        store(graph, Op::store_reduction, barrier.partials[0], index, total(graph, value, moved));
      } else if (finds_position(value)) {
        const Expr inside = symbolic::numel(std::span<const Expr>(graph_.element_sizes).subspan(1));
        const ValueId first = position(graph, part_ * length_ * inside);
        store(graph, Op::store_reduction, barrier.partials[0], index,
              item(graph, id, value.source_dtype, 0));
        store(graph, Op::store_reduction, barrier.partials[1], index,
              compute(graph, Op::add, DType::i64, {id, first}));
      } else {
        const bool tuple = barrier.partials.size() > 1;
        for (uint32_t i = 0; i < barrier.partials.size(); ++i)
          store(graph, Op::store_reduction, barrier.partials[i], index,
                tuple ? item(graph, id, value.dtype, i) : id);
      }
    }
    finish(graph);
    return graph;
  }
  /// What a part's scan of tuples comes to: where its last element stands.
  void store_last(KernelGraph &graph, const Barrier &barrier, ValueId scan, Expr index) const {
    const ValueId place = position(graph, graph.element_variables[0]);
    const ValueId end = position(graph, graph.element_sizes[0] - 1);
    const ValueId is_last = compute(graph, Op::eq, DType::boolean, {place, end});
    for (uint32_t i = 0; i < barrier.partials.size(); ++i) {
      const DType type = member_dtype(graph[scan], i);
      store(graph, Op::store, barrier.partials[i], index, item(graph, scan, type, i));
      graph.values[graph.stores.back()].guard = is_last;
    }
  }
  /// What a part adds to those behind it.
  ValueId total(KernelGraph &graph, const Value &scan, const std::vector<ValueId> &moved) const {
    const ValueId id = compute(graph, Op::reduction, total_dtype(scan), {moved[scan.args[0]]});
    graph.values[id].reduction = reduction_of(scan.scan);
    graph.values[id].source_dtype = scan.dtype;
    if (scan.scan != ir::ScanKind::logsumexp)
      return id;
    return compute(graph, Op::add, scan.dtype,
                   {item(graph, id, scan.dtype, 0),
                    compute(graph, Op::log, scan.dtype, {item(graph, id, scan.dtype, 1)})});
  }

  /// The parts that belong to `phase` to one result a row, and what is computed of those.
  /// `is_asked_for`: kernels behind this one load them.
  KernelGraph merge_graph(uint32_t phase, bool is_asked_for) {
    KernelGraph graph = graph_;
    const Expr part = symbolic::symbol(symbolic::SymbolSort::reduced);
    const Expr index = row_ * parts_ + part;
    graph.element_variables = {part};
    graph.element_sizes = {parts_};
    graph.ranges.set_size(part, parts_);
    graph.values.clear();
    graph.stores.clear();
    std::vector<ValueId> moved(graph_.values.size(), ir::kNone);
    const auto is_known = [&](ValueId id) { return id == ir::kNone || moved[id] != ir::kNone; };
    for (ValueId id = 0; id < graph_.values.size(); ++id) {
      const Value &source = graph_[id];
      if (const Barrier *barrier = earlier(id, phase)) {
        moved[id] = result(graph, id, *barrier);
      } else if (is_barrier(source) && source.phase == phase) {
        Value value = source;
        value.args.clear();
        for (const BufferId partial : barrier_of(id).partials)
          value.args.push_back(load(graph, partial, index));
        if (value.op == Op::scan && !value.combine)
          value.dtype = total_dtype(source);
        if (value.reduction == ReductionKind::welford_reduce)
          value.reduction = ReductionKind::welford_combine;
        value.source_dtype = graph.values[value.args[0]].dtype;
        moved[id] = add(graph, std::move(value));
      } else if (source.level == Level::row && is_known(source.guard) &&
                 std::all_of(source.args.begin(), source.args.end(), is_known)) {
        Value value = source;
        renumber(value, moved);
        moved[id] = add(graph, std::move(value));
      }
    }
    for (const ValueId id : graph_.stores) {
      const Value &value = graph_[id];
      if (value.level == Level::row &&
          (value.phase == phase + 1 || (value.phase == 0 && !has_stored_)))
        graph.stores.push_back(moved[id]);
    }
    has_stored_ = true;
    for (const Barrier &barrier : barriers_) {
      const Value &value = graph_[barrier.id];
      if (value.phase != phase || !is_asked_for)
        continue;
      const ValueId id = moved[barrier.id];
      if (value.op == Op::scan) {
        for (uint32_t i = 0; i < barrier.results.size(); ++i)
          store(graph, Op::store, barrier.results[i], index,
                value.combine ? item(graph, id, member_dtype(value, i), i) : id);
        continue;
      }
      const bool tuple = barrier.results.size() > 1;
      for (uint32_t i = 0; i < barrier.results.size(); ++i)
        store(graph, Op::store_reduction, barrier.results[i], row_,
              tuple ? item(graph, id, value.dtype, i) : id);
    }
    finish(graph);
    return graph;
  }

  KernelGraph elements_graph() const {
    std::vector<ValueId> moved;
    KernelGraph graph = over_parts(graph_.phases, moved);
    for (const ValueId id : graph_.stores)
      if (graph_[id].level == Level::element)
        graph.stores.push_back(moved[id]);
    start_scans(graph, moved, graph_.phases);
    finish(graph);
    return graph;
  }
  /// Scans of phases before `phase` go on in a part where the part before it ended. Moves values.
  void start_scans(KernelGraph &graph, std::vector<ValueId> &moved, uint32_t phase) const {
    KernelGraph starts = graph;
    starts.values.clear();
    std::vector<std::pair<ValueId, std::vector<ValueId>>> of_scan; // where it is, its arguments
    for (const Barrier &barrier : barriers_) {
      const Value &scan = graph_[barrier.id];
      if (scan.op != Op::scan || scan.phase >= phase)
        continue;
      const ValueId follows =
          compute(starts, Op::ge, DType::boolean,
                  {position(starts, part_), constant(starts, int64_t{1}, DType::i64)});
      std::vector<ValueId> before;
      for (const BufferId result : barrier.results)
        before.push_back(load(starts, result, row_ * parts_ + part_ - 1, follows));
      if (scan.combine) {
        before.push_back(follows);
        of_scan.emplace_back(moved[barrier.id], std::move(before));
        continue;
      }
      const ValueId nothing = constant(starts, identity_of(scan.scan, scan.dtype), scan.dtype);
      of_scan.push_back({moved[barrier.id],
                         {compute(starts, Op::where, scan.dtype, {follows, before[0], nothing})}});
    }
    if (of_scan.empty())
      return;
    // They come first: arguments stand before their users.
    const auto count = static_cast<ValueId>(starts.values.size());
    for (Value value : graph.values) {
      for (ValueId &arg : value.args)
        arg += count;
      value.guard = value.guard == ir::kNone ? ir::kNone : value.guard + count;
      starts.values.push_back(std::move(value));
    }
    for (ValueId &id : starts.stores)
      id += count;
    for (const auto &[scan, start] : of_scan)
      for (const ValueId argument : start)
        starts.values[scan + count].args.push_back(argument);
    for (ValueId &id : moved)
      id = id == ir::kNone ? id : id + count;
    graph = std::move(starts);
  }
};

/// Whether parts of scanned rows can be blocks of one launch: everything that needs all of a row is
/// a scan, and how many parts there are is known when shapes are bound.
bool may_look_back(const KernelGraph &graph, const target::Target &target) {
  const auto is_of_data = [](Expr size) {
    const auto symbols = symbolic::free_symbols(size);
    return std::any_of(symbols.begin(), symbols.end(),
                       [](Expr symbol) { return symbol.is_symbol(symbolic::SymbolSort::data); });
  };
  return !target.is_host && graph.element_sizes.size() == 1 && !is_of_data(graph.rows()) &&
         !is_of_data(graph.elements()) &&
         std::none_of(graph.values.begin(), graph.values.end(),
                      [](const Value &value) { return value.op == Op::reduction; }) &&
         std::all_of(graph.stores.begin(), graph.stores.end(),
                     [&](ValueId id) { return graph[id].level == Level::element; });
}

struct LookBackPart {
  int64_t length = 0; // elements: whole runs, and one less where rows start anywhere
  int threads = 0;
};
/// What is kept of an element: what is scanned, and what is loaded once for before and after.
int64_t kept_bytes(const KernelGraph &graph) {
  const auto bytes = [](const Value &value) {
    return std::max<int64_t>(4, static_cast<int64_t>(tensor::size_in_bytes(value.dtype)));
  };
  std::vector<bool> used_later(graph.values.size(), false);
  for (const Value &value : graph.values)
    for (const ValueId arg : value.args)
      used_later[arg] = used_later[arg] || value.phase > 0;
  int64_t result = 0;
  for (ValueId id = 0; id < graph.values.size(); ++id)
    if (graph[id].op == Op::scan ||
        (graph[id].op == Op::load && used_later[id] && graph[id].level == Level::element))
      result += bytes(graph[id]);
  return result;
}
LookBackPart choose_part(const KernelGraph &graph, std::optional<int64_t> rows,
                         std::optional<int64_t> elements, const target::Target &target) {
  constexpr int64_t kRun = 16;
  const int64_t bytes = std::max<int64_t>(4, kept_bytes(graph));
  const auto known = graph.elements().as_integer();
  const bool anywhere = known && *known % kRun != 0 && !graph.rows().is_integer(1);
  int scans = 0;
  bool costly = false;
  for (const Value &value : graph.values)
    if (value.op == Op::scan) {
      ++scans;
      costly = costly || value.scan == ir::ScanKind::logsumexp;
    }
  int64_t threads = bytes > 4 ? kFewestThreads : kSomeThreads, each = kThreadElements;
  if (scans == 1 && !costly && !anywhere) {
    threads = kMostThreads;
    each = bytes > 4 ? std::max<int64_t>(1, kWideThreadBytes / bytes) : kThreadBytes / bytes;
  }
  LookBackPart part;
  part.length = threads * each;
  if (combines(graph)) // as many runs as threads
    part.length = static_cast<int64_t>(
        std::bit_floor(static_cast<uint64_t>(kTuplePartBytes / scanned_bytes(graph))));
  if (rows && elements) {
    const int64_t wanted = int64_t{target.multiprocessors} * kLookBackBlocks;
    while (part.length > kSmallestLookBack && *rows * ceil_div(*elements, part.length) < wanted) {
      part.length /= 2;
      threads = std::max(kFewestThreads, threads / 2);
    }
  }
  part.threads = static_cast<int>(threads);
  if (anywhere && !combines(graph)) // of tuples a total has all that threads hold
    part.length -= kRun;
  return part;
}

/// Columns of tuples: a part of so many neighbours a block.
struct ColumnParts {
  int columns = 0;
  int64_t length = 0;
};
/// Nothing if other ways take less: few columns, whose parts would wait for one another in a chain,
/// and so many that each is one thread's.
std::optional<ColumnParts> divide_among_columns(const ir::Module &module, const KernelGraph &graph,
                                                const target::Target &target) {
  const auto is_of_tuples = [](const Value &value) {
    return value.op != Op::scan || value.combine;
  };
  const auto rows = graph.rows().as_integer(), elements = graph.elements().as_integer();
  if (!may_look_back(graph, target) || !prefers_columns(module, graph) ||
      !std::all_of(graph.values.begin(), graph.values.end(), is_of_tuples) ||
      (rows && (*rows < kFewestColumns || *rows >= target.multiprocessors * kColumnThreads)))
    return std::nullopt;
  size_t widest = 1;
  for (const Value &value : graph.values)
    if (value.level == Level::element && value.buffer != ir::kNone)
      widest = std::max(widest, tensor::size_in_bytes(module.buffer(value.buffer).dtype));
  ColumnParts parts;
  parts.columns = widest < 4 ? 64 : 32; // whole lines, or sectors
  const int64_t lanes = kColumnPartBlock / parts.columns;
  int64_t each = std::clamp<int64_t>(kColumnBytes / scanned_bytes(graph), 2, 16);
  if (elements)
    each = std::min(each, ceil_div(*elements, lanes));
  parts.length = lanes * each;
  return parts;
}

bool has_scan(const KernelGraph &graph) {
  return std::any_of(graph.values.begin(), graph.values.end(),
                     [](const Value &value) { return value.op == Op::scan; });
}

/// Kernels in the place of one.
int64_t kernels_of(const KernelGraph &graph) {
  std::vector<bool> phases(graph.phases, false);
  int64_t count = 0;
  for (const Value &value : graph.values)
    if (is_barrier(value) && !phases[value.phase]) {
      phases[value.phase] = true;
      count += 2;
    }
  return count + std::any_of(graph.stores.begin(), graph.stores.end(),
                             [&](ValueId id) { return graph[id].level == Level::element; });
}

} // namespace

bool may_split_rows(const scheduler::Group &group, const target::Target &target) {
  return std::any_of(group.bodies.begin(), group.bodies.end(), [&](const ir::LoopBody &body) {
    const Expr all = symbolic::numel(body.sizes), rows = symbolic::numel(body.iteration_sizes());
    bool reduces = false, scans = false, combines = false;
    for (const ir::BodyOp &op : body.ops) {
      // Reductions over everything may come with all loops counted as iteration loops.
      reduces = reduces || op.op == Op::store_reduction;
      scans = scans || op.op == Op::scan;
      combines = combines || op.combine;
    }
    if (!reduces && !scans)
      return false;
    if (!all.is_integer() || !rows.is_integer())
      return true;
    if (scans && all.value() >= kSmallestColumns)
      return true;
    if (combines && rows.value() >= kFewestColumns)
      return all.value() >= kSmallestRow;
    if (all.value() < kSmallestRow ||
        (scans && rows.value() > 0 && all.value() / rows.value() > kLongestScan))
      return all.value() >= kSmallestRow;
    return !body.is_reduction() || few_blocks(rows.value() / kColumnsPerBlock + 1, target);
  });
}

std::optional<std::vector<KernelGraph>>
split_rows(ir::Module &module, const scheduler::Group &group, const target::Target &target) {
  const KernelGraph graph = build_kernel_graph(module, group, {.two_pass_statistics = false});
  if (!graph.reduces || graph.rows().is_integer(0) || graph.element_sizes.empty() ||
      !is_divisible(module, graph))
    return std::nullopt;
  const auto likely_rows = likely(module, graph.rows()),
             likely_elements = likely(module, graph.elements());
  const int64_t longest = longest_row(graph).value_or(INT64_MAX);
  if (has_scan(graph)) {
    if (const auto columns = divide_among_columns(module, graph, target)) {
      const Expr parts = symbolic::ceil_div(graph.elements(), columns->length);
      return std::vector{Splitter(module, graph, parts, columns->length)
                             .look_back(kColumnPartBlock, columns->length, columns->columns)};
    }
    if (likely_rows && likely_elements && graph.element_sizes.size() == 1 &&
        prefers_columns(module, graph)) {
      auto division = divide_columns(*likely_rows, *likely_elements, target);
      if (!division)
        return std::nullopt;
      if (!graph.elements().is_integer())
        division = in_parts(graph, division->parts);
      return Splitter(module, graph, division->parts, division->length).split();
    }
    const bool few = likely_rows && few_blocks(*likely_rows, target) && likely_elements &&
                     *likely_elements >= kSmallestRow;
    const int64_t held = combines(graph) ? kHeldTuplesBytes / scanned_bytes(graph) : kLongestScan;
    if (!few && longest <= held)
      return std::nullopt;
    if (may_look_back(graph, target) && !prefers_columns(module, graph)) {
      const LookBackPart part = choose_part(graph, likely_rows, likely_elements, target);
      const Expr parts = symbolic::ceil_div(graph.elements(), part.length);
      return std::vector{
          Splitter(module, graph, parts, part.length).look_back(part.threads, part.length)};
    }
    const auto division = divide_scan(graph, likely_rows, target);
    if (!division || graph.element_sizes.size() > 1)
      return std::nullopt;
    return Splitter(module, graph, division->parts, division->length).split();
  }
  if (!likely_rows)
    return std::nullopt;
  const bool columns = prefers_columns(module, graph);
  const int64_t blocks = ceil_div(std::max<int64_t>(1, *likely_rows), rows_per_block(columns));
  // Of each kernel a launch: the more there are, the more a block would have to do alone. Rows that
  // may have any size are divided for one more launch, not for several.
  const int64_t kernels = kernels_of(graph);
  if (!few_blocks(blocks, target) || kernels == 0 || (!likely_elements && kernels > 2) ||
      likely_elements.value_or(longest) < kSmallestRow * kernels / 2 / rows_per_block(columns))
    return std::nullopt;
  const Division division = divide(module, graph, blocks, columns, target);
  if (division.parts * blocks < std::min<int64_t>(blocks * 4, target.multiprocessors / 4))
    return std::nullopt;
  return Splitter(module, graph, division.parts, division.length).split();
}

} // namespace tsc::codegen
