#include "ops/passes/write_out_products.h"

#include "ops/passes/decompose.h"
#include "ops/table/pointwise_rules.h"
#include "ops/table/precision.h"
#include "ops/table/rewrite.h"
#include "ops/table/shape_rules.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>

namespace tsc::ops {

namespace {

constexpr int64_t kMostOfEdge = 8;       // elements
constexpr int64_t kFewestResults = 4096; // below, whatever does it takes as long as a launch

/// Of a factor's last two dimensions; 0 where a size is a symbol.
int64_t edge(const TensorMeta &factor, size_t from_end) {
  return factor.layout.sizes[factor.layout.rank() - from_end].as_integer().value_or(0);
}

/// Whether the product of `a` and `b` has few terms, and few rows or columns.
bool is_small(const TensorMeta &a, const TensorMeta &b, const symbolic::Ranges &ranges) {
  const size_t rank = a.layout.rank();
  if (a.dtype != b.dtype || !tensor::is_floating(a.dtype) || rank != b.layout.rank() || rank < 2)
    return false;
  const auto fits = [](int64_t size) { return size >= 1 && size <= kMostOfEdge; };
  const int64_t rows = edge(a, 2), terms = edge(a, 1), columns = edge(b, 1);
  if (!fits(terms) || (!fits(rows) && !fits(columns)))
    return false;
  std::vector<Expr> sizes(a.layout.sizes.begin(), a.layout.sizes.end() - 1);
  sizes.push_back(b.layout.sizes.back());
  const auto count = symbolic::bounds(symbolic::numel(sizes), ranges);
  return count.high >= kFewestResults;
}

/// Instructions an element that `argument` is computed with, of what is not in memory: what is
/// summed elsewhere, products and inputs are. Nobody knows more than a few steps of it.
int work_of(const graph::Graph &graph, const Argument &argument, int steps = 12) {
  constexpr int kCostly = 12, kMuch = 128; // beyond, nothing asks how much
  static constexpr std::array<std::string_view, 21> kFunctions = {
      "exp",   "exp2", "expm1",   "log",  "log1p", "log2",   "erf",
      "erfc",  "tanh", "sigmoid", "sin",  "cos",   "tan",    "atan",
      "atan2", "pow",  "rsqrt",   "sqrt", "div",   "lgamma", "reciprocal"};
  static constexpr std::array<std::string_view, 21> kSteps = {
      "add",        "sub",     "mul",     "neg",   "abs",
      "where",      "maximum", "minimum", "relu",  "eq",
      "ne",         "lt",      "le",      "gt",    "ge",
      "sign",       "clone",   "floor",   "round", "convert_element_type",
      "logical_and"};
  const graph::NodeRef *used = argument.node();
  if (used == nullptr || steps == 0)
    return 0;
  const Node &node = graph.node(used->id);
  const size_t first = node.target.find('.') + 1, last = node.target.find('.', first);
  const std::string_view name =
      std::string_view(node.target).substr(first, last == std::string::npos ? last : last - first);
  const auto is_one_of = [&](const auto &names) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  const Operator *row = find_operator(node.target);
  const bool sees = row != nullptr && row->effect == Effect::view;
  if (node.kind != graph::NodeKind::call_function ||
      (!sees && !is_one_of(kFunctions) && !is_one_of(kSteps)))
    return 0;
  int work = sees ? 0 : is_one_of(kFunctions) ? kCostly : 1;
  for (const Argument &each : node.args)
    if (work < kMuch)
      work += work_of(graph, each, steps - 1);
  return work;
}

/// Whether a vector's elements may be computed anew for each row of the other factor while that
/// comes from memory; `along`: its elements lie along the terms, else a thread has one of the
/// vector's for a run of them.
bool may_be_computed_again(const graph::Graph &graph, const Argument &vector,
                           const TensorMeta &other, size_t along) {
  constexpr int kOfByte = 7, kRunBytes = 16; // instructions that a byte of memory hides
  const int hidden = kOfByte * (other.layout.strides[along].is_integer(1)
                                    ? static_cast<int>(tensor::size_in_bytes(other.dtype))
                                    : kRunBytes);
  return work_of(graph, vector) <= hidden;
}

/// Whether one factor is a vector: a sum over the other one, which is read once. A single row of
/// 16-bit floats times columns that lie along the terms has a kernel of its own.
bool is_of_vector(const TensorMeta &a, const TensorMeta &b) {
  const size_t rank = a.layout.rank();
  if (a.dtype != b.dtype || !tensor::is_floating(a.dtype) || rank != b.layout.rank() || rank < 2)
    return false;
  const bool has_kernel =
      rank == 2 && tensor::size_in_bytes(a.dtype) == 2 && b.layout.strides[rank - 2].is_integer(1);
  return edge(b, 1) == 1 || (edge(a, 2) == 1 && !has_kernel);
}

/// How many columns `b` has, or rows `a`, where these are few and the other factor is large and
/// lies along the terms: as many sums read it once, where libraries take a tile's width for them.
/// 0: neither. `of_columns`: which.
int64_t few_vectors(const TensorMeta &a, const TensorMeta &b, bool &of_columns) {
  constexpr int64_t kMost = 4, kLarge = 1 << 20; // elements of the other factor
  const size_t rank = a.layout.rank();
  if (a.dtype != b.dtype || !tensor::is_floating(a.dtype) || rank != b.layout.rank() || rank < 2)
    return 0;
  const auto is_large = [](const TensorMeta &factor, size_t along) {
    const auto count = symbolic::numel(factor.layout.sizes).as_integer();
    return factor.layout.strides[along].is_integer(1) && count && *count >= kLarge;
  };
  const int64_t rows = edge(a, 2), columns = edge(b, 1);
  of_columns = columns >= 2 && columns <= kMost && rows > kMost && is_large(a, rank - 1);
  if (of_columns)
    return columns;
  // Few rows of 16-bit floats have a kernel of their own.
  const bool of_rows = rows >= 2 && rows <= kMost && columns > kMost && is_large(b, rank - 2) &&
                       tensor::size_in_bytes(a.dtype) > 2;
  return of_rows ? rows : 0;
}

/// In f32 or wider.
Argument written_out(GraphBuilder &builder, const Argument &a, const Argument &b) {
  const Argument left = builder.call("aten.unsqueeze.default", {widen(builder, a), -1});
  const Argument right = builder.call("aten.unsqueeze.default", {widen(builder, b), -3});
  const Argument products = builder.call(kMul, {left, right});
  return builder.call("aten.sum.dim_IntList", {products, Arguments{-2}, false});
}

/// The same with a sum of its own for each of `count` columns of b, or rows of a.
Argument vector_by_vector(GraphBuilder &builder, const Argument &a, const Argument &b,
                          int64_t count, bool of_columns) {
  const Argument along = of_columns ? Argument(-1) : Argument(-2);
  Arguments parts;
  for (int64_t i = 0; i < count; ++i) {
    const Argument vector =
        builder.call("aten.slice.Tensor", {of_columns ? b : a, along, i, i + 1});
    parts.push_back(of_columns ? written_out(builder, a, vector) : written_out(builder, vector, b));
  }
  return builder.call("aten.cat.default", {parts, along});
}

} // namespace

graph::Graph write_out_products(graph::Graph graph, const PassOptions &options) {
  const auto is_product = [](const Node &node) {
    return node.target == "aten.mm.default" || node.target == "aten.bmm.default" ||
           node.target == "aten.mm.dtype" || node.target == "aten.bmm.dtype" ||
           (node.target == "aten.addmm.default" && node.args.size() == 3 && node.kwargs.empty());
  };
  if (!options.product_kernels || std::none_of(graph.nodes.begin(), graph.nodes.end(), is_product))
    return graph;
  Rewrite rewrite(std::move(graph));
  bool changed = false;
  for (graph::NodeId id = 0; id < rewrite.source().nodes.size(); ++id) {
    if (!is_product(rewrite.source().node(id))) {
      rewrite.copy(id);
      continue;
    }
    Node node = rewrite.take_mapped(id);
    GraphBuilder &builder = rewrite.builder();
    builder.set_source(node);
    const size_t first = node.target == "aten.addmm.default" ? 1 : 0; // behind what is added
    const TensorMeta a = builder.meta(node.args[first]), b = builder.meta(node.args[first + 1]);
    const TensorMeta *result = node.value ? node.value->tensor() : nullptr;
    bool of_columns = false;
    const auto is_cheap = [&](size_t factor) { // of the two
      const TensorMeta &other = factor == 0 ? b : a;
      return may_be_computed_again(builder.graph(), node.args[first + factor], other,
                                   other.layout.rank() - (factor == 0 ? 2 : 1));
    };
    const bool is_column = a.layout.rank() >= 2 && b.layout.rank() >= 2 && edge(b, 1) == 1;
    const bool sums = result != nullptr && (is_small(a, b, builder.ranges()) ||
                                            (is_of_vector(a, b) && is_cheap(is_column ? 1 : 0)));
    int64_t few = result == nullptr || sums ? 0 : few_vectors(a, b, of_columns);
    if (few > 0 && !is_cheap(of_columns ? 1 : 0))
      few = 0;
    if (sums || few > 0) {
      Argument sum = few > 0 ? vector_by_vector(builder, node.args[first], node.args[first + 1],
                                                few, of_columns)
                             : written_out(builder, node.args[first], node.args[first + 1]);
      if (first > 0)
        sum = builder.call(kAdd, {widen(builder, node.args[0]), sum});
      rewrite.replace(id, convert(builder, sum, result->dtype));
      changed = true;
    } else {
      rewrite.replace(id, graph::NodeRef{builder.append(std::move(node))});
    }
  }
  graph::Graph made = rewrite.take();
  return changed ? decompose_keeping(std::move(made), {}, {options.product_kernels}) : made;
}

} // namespace tsc::ops
