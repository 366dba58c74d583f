// Questions about a kernel's values: what it sorts, scans and feeds its reductions with.
#include "codegen/kernel_graph.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

namespace tsc::codegen {

using ir::Op;

bool KernelGraph::sorts() const {
  return std::any_of(values.begin(), values.end(),
                     [](const Value &value) { return value.op == Op::sort; });
}

bool KernelGraph::sorts_packed() const {
  bool packed = sorts();
  for (ValueId id = 0; id < values.size() && packed; ++id) {
    if (values[id].op != Op::sort)
      continue;
    switch (values[id].dtype) {
    case tensor::DType::boolean:
    case tensor::DType::u8:
    case tensor::DType::i8:
    case tensor::DType::u16:
    case tensor::DType::i16:
    case tensor::DType::f16:
    case tensor::DType::bf16:
      break;
    case tensor::DType::u32:
    case tensor::DType::i32:
      packed = !finds_positions(id);
      break;
    default:
      packed = false;
    }
  }
  return packed;
}

bool KernelGraph::finds_positions(ValueId id) const {
  return std::any_of(values.begin(), values.end(), [&](const Value &value) {
    return value.op == Op::get_item && value.args[0] == id;
  });
}

std::optional<int64_t> likely(const ir::Module &module, Expr size) {
  if (size.is_integer())
    return size.value();
  symbolic::Ranges values;
  for (const Expr symbol : symbolic::free_symbols(size)) {
    const auto range = std::find_if(module.symbols.begin(), module.symbols.end(),
                                    [&](const auto &row) { return row.symbol == symbol; });
    if (range == module.symbols.end() || !range->hint)
      return std::nullopt;
    values.set(symbol, {*range->hint, *range->hint});
  }
  // A hint decides nothing but plans: what no memory has for it is not known, no error.
  constexpr int64_t kMost = int64_t{1} << 31;
  const symbolic::Interval value = symbolic::bounds(size, values);
  const bool is_number = value.low == value.high && value.low >= 0 && value.high <= kMost;
  return is_number ? std::optional(value.low) : std::nullopt;
}

std::optional<double> exact_factor(const KernelGraph &graph, const Value &value) {
  constexpr int kMost = 126; // neither number nor reciprocal is subnormal in float32
  if (value.op != Op::truediv || !tensor::is_floating(value.dtype))
    return std::nullopt;
  const Value &divisor = graph[value.args[1]];
  const auto *number = std::get_if<double>(&divisor.constant);
  if (divisor.op != Op::constant || number == nullptr || !std::isfinite(*number))
    return std::nullopt;
  int exponent = 0;
  const bool is_power = std::fabs(std::frexp(*number, &exponent)) == 0.5;
  return is_power && std::abs(exponent) <= kMost ? std::optional(1 / *number) : std::nullopt;
}

bool combines(const KernelGraph &graph) {
  return std::any_of(graph.values.begin(), graph.values.end(),
                     [](const Value &value) { return static_cast<bool>(value.combine); });
}

size_t scanned_members(const Value &scan) {
  return scan.combine ? scan.combine.code->types.size() : 1;
}

DType member_dtype(const Value &scan, size_t member) {
  return scan.combine ? scan.combine.code->types[member] : scan.dtype;
}

DType total_dtype(const Value &scan) {
  const bool adds_up = scan.scan == ir::ScanKind::sum || scan.scan == ir::ScanKind::prod;
  return adds_up && tensor::is_floating(scan.dtype) ? DType::f64 : scan.dtype;
}

Expr words_of_member(Expr rows, Expr parts) {
  return Expr(2) * rows * (parts + symbolic::ceil_div(parts, kPartsTogether));
}

Expr look_back_words(Expr rows, Expr parts, int64_t member) {
  constexpr int64_t kCounter = 2; // one word: the others are read by twos
  return Expr(kCounter) + Expr(member) * words_of_member(rows, parts);
}

std::vector<bool> fed_values(const KernelGraph &graph) {
  std::vector<bool> fed(graph.values.size(), false);
  for (ValueId id = static_cast<ValueId>(graph.values.size()); id-- > 0;) {
    if (!fed[id] && graph[id].op != Op::reduction)
      continue;
    for (const ValueId arg : graph[id].args)
      fed[arg] = true;
    if (graph[id].guard != ir::kNone)
      fed[graph[id].guard] = true;
  }
  return fed;
}

std::vector<bool> decided_by_data(const KernelGraph &graph) {
  std::vector<bool> loaded(graph.values.size(), false);
  for (ValueId id = 0; id < graph.values.size(); ++id)
    loaded[id] =
        graph[id].op == Op::load || std::any_of(graph[id].args.begin(), graph[id].args.end(),
                                                [&](ValueId arg) { return loaded[arg]; });
  return loaded;
}

std::vector<bool> varying(const KernelGraph &graph, Expr variable) {
  std::vector<bool> varies(graph.values.size(), false);
  for (ValueId id = 0; id < graph.values.size(); ++id) {
    const Value &value = graph[id];
    varies[id] =
        symbolic::depends_on(value.index, variable) ||
        (value.guard != ir::kNone && varies[value.guard]) ||
        std::any_of(value.args.begin(), value.args.end(), [&](ValueId arg) { return varies[arg]; });
  }
  return varies;
}

} // namespace tsc::codegen
