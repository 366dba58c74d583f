// Products of 16-bit floats whose rows do not start at whole vectors are filled up with zeros where
// that pays: libraries have no fast kernel for them (5000 x 4999 x 3001 on an H200: 104 TFLOP/s of
// 700). What computes a factor fills it up on the way; of a weight it is done once.
#include "ops/passes/align_products.h"

#include "ops/table/rewrite.h"
#include "ops/table/shape_rules.h"

#include <algorithm>
#include <optional>
#include <string>
#include <unordered_set>

namespace tsc::ops {

namespace {

constexpr int64_t kVector = 8; // elements

int64_t fill_of(int64_t size) { return (kVector - size % kVector) % kVector; }

/// A factor with numbers for its sizes, [batch,] rows, columns.
struct Factor {
  const TensorMeta *meta = nullptr;
  bool is_weight = false;
  int64_t batch = 1, rows = 0, columns = 0;

  /// Which of the two has neighbours in memory.
  bool lies_along_columns() const { return !meta->layout.strides[first()].is_integer(1); }
  /// Whether lines start at whole vectors.
  bool is_aligned() const {
    for (size_t k = 0; k < meta->layout.rank(); ++k)
      if (k != first() + (lies_along_columns() ? 1 : 0) && !meta->layout.sizes[k].is_integer(1) &&
          !(meta->layout.strides[k].is_integer() && meta->layout.strides[k].value() % kVector == 0))
        return false;
    return meta->layout.offset.is_integer() && meta->layout.offset.value() % kVector == 0;
  }
  double bytes() const { return 2.0 * static_cast<double>(batch * rows * columns); }

private:
  size_t first() const { return meta->layout.rank() - 2; }
};

/// `weights`: names of the inputs that are none of the user's. The factor's meta is the node's:
/// good until the graph grows.
std::optional<Factor> factor_of(const Graph &graph, const Argument &argument,
                                const std::unordered_set<std::string> &weights) {
  const graph::NodeRef *ref = argument.node();
  if (ref == nullptr)
    return std::nullopt;
  Factor factor;
  const Node *node = &graph.node(ref->id);
  factor.meta = node->value ? node->value->tensor() : nullptr;
  if (factor.meta == nullptr ||
      (factor.meta->dtype != DType::f16 && factor.meta->dtype != DType::bf16))
    return std::nullopt;
  const std::vector<Expr> &sizes = factor.meta->layout.sizes;
  if (sizes.size() < 2 ||
      !std::all_of(sizes.begin(), sizes.end(), [](Expr size) { return size.is_integer(); }))
    return std::nullopt;
  factor.rows = sizes[sizes.size() - 2].value();
  factor.columns = sizes.back().value();
  factor.batch = sizes.size() > 2 ? sizes[0].value() : 1;
  while (node->target == "aten.permute.default" && !node->args.empty() && node->args[0].node())
    node = &graph.node(node->args[0].node()->id);
  factor.is_weight = weights.count(node->name) != 0;
  return factor;
}

/// How far rows, terms and columns of a product are filled up; whether the left factor, whose lines
/// lie along its rows, is turned: a copy, too, but of what is multiplied alone, where filled rows
/// are cut off the results again.
struct Fill {
  int64_t rows = 0, terms = 0, columns = 0;
  bool turns_left = false;
  bool any() const { return turns_left || rows + terms + columns > 0; }
};

class Products {
public:
  Products(Rewrite &rewrite, const PassOptions &options) : rewrite_(rewrite), options_(options) {
    for (const graph::InputSpec &input : rewrite.source().inputs)
      if (input.kind != graph::InputKind::user)
        weights_.insert(rewrite.source().node(input.node).name);
  }

  /// What stands for the product, if it is filled up.
  std::optional<Argument> aligned(const Node &node) {
    const size_t first = node.target == "aten.addmm.default" ? 1 : 0;
    if (node.args.size() < first + 2)
      return std::nullopt;
    const Graph &graph = rewrite_.builder().graph();
    const std::optional<Factor> left = factor_of(graph, node.args[first], weights_),
                                right = factor_of(graph, node.args[first + 1], weights_);
    if (!left || !right)
      return std::nullopt;
    const Fill fill = fill_for(*left, *right);
    if (!fill.any() || (first == 1 && fill.rows + fill.columns > 0) || !pays(*left, *right, fill))
      return std::nullopt;
    if (options_.choices)
      options_.choices->push_back(
          node.name + ": rows of its factors start anywhere; " +
          (fill.turns_left ? "the left one turned, and " : "") + "filled up with zeros by " +
          std::to_string(fill.rows) + " rows, " + std::to_string(fill.terms) + " terms, " +
          std::to_string(fill.columns) +
          " columns, which is cheaper than a library's kernel for such rows");
    const size_t rank = left->meta->layout.rank();
    Node product = node;
    GraphBuilder &builder = rewrite_.builder();
    product.args[first] = fill.turns_left ? turned(node.args[first], rank)
                                          : filled(node.args[first], fill.rows, fill.terms);
    product.args[first + 1] = filled(node.args[first + 1], fill.terms, fill.columns);
    Argument result = builder.call(node.target, product.args, product.kwargs);
    const auto cut = [&](size_t dimension, int64_t fills, int64_t size) {
      if (fills > 0)
        result =
            builder.call("aten.slice.Tensor", {result, static_cast<int64_t>(dimension), 0, size});
    };
    cut(rank - 2, fill.rows, left->rows);
    cut(rank - 1, fill.columns, right->columns);
    return result;
  }

private:
  Rewrite &rewrite_;
  const PassOptions &options_;
  std::unordered_set<std::string> weights_;

  static Fill fill_for(const Factor &left, const Factor &right) {
    Fill fill;
    if ((left.lies_along_columns() && !left.is_aligned()) ||
        (!right.lies_along_columns() && !right.is_aligned()))
      fill.terms = fill_of(left.columns);
    if (!left.lies_along_columns() && !left.is_aligned()) {
      fill.turns_left = fill.terms == 0 && fill_of(left.columns) == 0;
      fill.rows = fill.turns_left ? 0 : fill_of(left.rows);
    }
    if (right.lies_along_columns() && !right.is_aligned())
      fill.columns = fill_of(right.columns);
    return fill;
  }
  bool pays(const Factor &left, const Factor &right, const Fill &fill) const {
    ProductCopies work;
    const double rows = static_cast<double>(left.batch * left.rows),
                 columns = static_cast<double>(right.columns);
    work.operations = 2 * rows * columns * static_cast<double>(left.columns);
    work.bytes = left.bytes() + right.bytes() + 2 * rows * columns;
    constexpr int64_t kTile = 128;
    const auto tiles = [](int64_t size) { return (size + kTile - 1) / kTile; };
    work.tiles = static_cast<double>(left.batch * tiles(left.rows) * tiles(right.columns));
    work.tile_bytes = 2 * static_cast<double>(left.columns * (std::min(left.rows, kTile) +
                                                              std::min(right.columns, kTile)));
    if (left.batch == 1)
      work.shared_terms = static_cast<double>(left.columns);
    const auto copy = [&](double bytes) {
      work.copied_bytes += 2 * bytes;
      ++work.copies;
    };
    if ((fill.turns_left || fill.rows + fill.terms > 0) && !left.is_weight)
      copy(left.bytes());
    if (fill.terms + fill.columns > 0 && !right.is_weight)
      copy(right.bytes());
    if (fill.rows + fill.columns > 0)
      copy(2 * rows * columns);
    return options_.pays_to_align(work);
  }
  /// The same matrices, stored row by row: terms are the channels of a sample's rows.
  Argument turned(const Argument &factor, size_t rank) {
    GraphBuilder &builder = rewrite_.builder();
    const Arguments exchanged{0, 2, 1};
    const Argument whole = rank == 2 ? builder.call("aten.unsqueeze.default", {factor, 0}) : factor;
    const Argument channels = builder.call("aten.permute.default", {whole, exchanged});
    const Argument stored = builder.emit("tsc.channels_innermost.default", {channels});
    const Argument rows = builder.call("aten.permute.default", {stored, exchanged});
    return rank == 2 ? builder.call("aten.squeeze.dims", {rows, Arguments{0}}) : rows;
  }
  Argument filled(const Argument &factor, int64_t rows, int64_t columns) {
    return rows + columns == 0
               ? factor
               : rewrite_.builder().call("aten.constant_pad_nd.default",
                                         {factor, Arguments{0, columns, 0, rows}, 0});
  }
};

bool is_product(std::string_view target) {
  return target == "aten.mm.default" || target == "aten.bmm.default" ||
         target == "aten.addmm.default" || target == "aten.mm.dtype" || target == "aten.bmm.dtype";
}

} // namespace

graph::Graph align_products(graph::Graph graph, const PassOptions &options) {
  if (!options.pays_to_align ||
      std::none_of(graph.nodes.begin(), graph.nodes.end(),
                   [](const Node &node) { return is_product(node.target); }))
    return graph;
  Rewrite rewrite(std::move(graph));
  Products products(rewrite, options);
  bool changed = false;
  for (graph::NodeId id = 0; id < rewrite.source().nodes.size(); ++id) {
    if (!is_product(rewrite.source().node(id).target)) {
      rewrite.copy(id);
      continue;
    }
    Node node = rewrite.take_mapped(id);
    rewrite.builder().set_source(node);
    if (std::optional<Argument> result = products.aligned(node)) {
      rewrite.replace(id, std::move(*result));
      changed = true;
    } else {
      rewrite.replace(id, graph::NodeRef{rewrite.builder().append(std::move(node))});
    }
  }
  graph::Graph result = rewrite.take();
  return changed ? decompose_keeping(std::move(result), {}, {options.product_kernels}) : result;
}

} // namespace tsc::ops
