#include "ops/passes/convolution_layouts.h"

#include "ops/families/convolution.h"
#include "ops/passes/convolution_choice.h"
#include "ops/table/memory_format.h"
#include "ops/table/operator.h"

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <map>
#include <numeric>
#include <set>

namespace tsc::ops {
namespace {

using graph::Graph;
using graph::Node;
using graph::NodeId;
using graph::NodeKind;

constexpr std::string_view kConvolution = "aten.convolution.default";
constexpr size_t kFewest = 4; // dimensions of values that are turned together: two of them spatial
/// Operations that take as long as moving one byte (docs/performance.md: 40 TFLOP/s, 4 TB/s).
constexpr double kOperationsAByte = 10;
constexpr double kTensorOperationsAByte = 200; // of 16-bit floats
constexpr int64_t kTile = 128;                 // rows and columns that products are cut into

const TensorMeta *tensor_of(const Graph &graph, NodeId id) {
  const Node &node = graph.node(id);
  return node.value ? node.value->tensor() : nullptr;
}

/// Of a value, its samples as many as are likely; 0 where other sizes are not known.
double bytes_of(const Graph &graph, const TensorMeta &meta) {
  std::vector<Expr> sizes = meta.layout.sizes;
  if (!sizes.empty())
    sizes[0] = likely_size(sizes[0], graph);
  const Expr count = symbolic::numel(sizes);
  return count.is_integer() ? static_cast<double>(tensor::size_in_bytes(meta.dtype)) *
                                  static_cast<double>(count.value())
                            : 0;
}
/// Of reading and writing a value that lies otherwise; one whose channels or positions are one lies
/// either way.
double turn_of(const Graph &graph, const TensorMeta &meta) {
  const std::vector<Expr> &sizes = meta.layout.sizes;
  const bool is_turned = sizes.size() >= 3 && sizes.size() <= 5 && !is_channels_last(meta.layout);
  if (!is_turned || sizes[1].is_integer(1) ||
      std::all_of(sizes.begin() + 2, sizes.end(), [](Expr size) { return size.is_integer(1); }))
    return 0;
  return 2 * bytes_of(graph, meta);
}

/// Operations of products with an image's outputs as rows and its positions as columns that tiles
/// do for nothing; nothing where `c` is no such product, or its rows are no whole runs.
std::optional<double> empty_operations(const Convolution &c) {
  const Expr positions = symbolic::numel(c.positions);
  if (c.transposed || !c.groups.is_integer(1) || is_channels_last(c.result.layout) ||
      !c.outputs().is_integer() || !c.channels().is_integer() || !positions.is_integer() ||
      !c.batch().is_integer() || more_to_runs(positions, word_of(c)) != 0 ||
      more_to_runs(c.channels(), word_of(c)) != 0 ||
      choose_way(c, Facilities{.product_kernels = true}) != Way::product)
    return std::nullopt;
  const auto filled = [](int64_t count) { return (count + kTile - 1) / kTile * kTile; };
  const double done = static_cast<double>(filled(c.outputs().value())) *
                      static_cast<double>(filled(positions.value())),
               wanted = static_cast<double>(c.outputs().value()) *
                        static_cast<double>(positions.value());
  return 2 * static_cast<double>(c.batch().value() * c.channels().value()) * (done - wanted);
}

/// Whether `c`, in groups of a few outputs, is a sum at each output wherever its channels lie.
bool is_sum_outside(Convolution c) {
  if (c.groups.is_integer(1) || is_channels_last(c.result.layout) ||
      symbolic::floor_div(c.outputs(), c.groups).is_integer(1)) // depthwise: lies as its input does
    return false;
  c.channels_outside = true;
  return choose_way(c, Facilities{.product_kernels = true}) == Way::sum;
}

/// Of one kind of dtypes: float32, or 16-bit floats.
class Layouts {
public:
  Layouts(const Graph &graph, bool reduced)
      : graph_(graph), reduced_(reduced), set_(graph.nodes.size()),
        ranges_(std::make_shared<const symbolic::Ranges>(graph.ranges())) {
    std::iota(set_.begin(), set_.end(), NodeId{0});
  }

  ConvolutionLayouts choose() {
    for (NodeId id = 0; id < graph_.nodes.size(); ++id)
      visit(id);
    for (const graph::InputSpec &input : graph_.inputs)
      if (input.target.empty() && is_spatial(input.node))
        turns_[input.node] += turn_of(graph_, *tensor_of(graph_, input.node));
    for (const graph::OutputSpec &output : graph_.outputs)
      if (const graph::NodeRef *node = output.value.node(); node && is_spatial(node->id))
        turns_[node->id] += turn_of(graph_, *tensor_of(graph_, node->id));
    return decide();
  }

private:
  const Graph &graph_;
  const bool reduced_;
  std::vector<NodeId> set_; // by NodeId: another of its set, the first's is itself
  std::shared_ptr<const symbolic::Ranges> ranges_;
  static constexpr double kAlways = 1e30;  // bytes: channels lie innermost in any case
  std::map<NodeId, double> saved_, turns_; // bytes, by a node of the set
  std::vector<NodeId> convolutions_;
  std::set<NodeId> sums_; // of convolutions_: as fast either way, if no product is in their set
  std::vector<NodeId> phases_; // transposed ones: they follow what is chosen for others

  bool is_ours(tensor::DType dtype) const {
    return reduced_ ? tensor::is_reduced_float(dtype) : dtype == tensor::DType::f32;
  }
  /// A value that has channels and two spatial dimensions or more.
  bool is_spatial(NodeId id) const {
    const TensorMeta *meta = tensor_of(graph_, id);
    return meta != nullptr && is_ours(meta->dtype) && meta->layout.rank() >= kFewest;
  }

  NodeId set_of(NodeId id) {
    while (set_[id] != id)
      id = set_[id] = set_[set_[id]];
    return id;
  }
  void join(NodeId a, NodeId b) {
    const NodeId first = set_of(a), second = set_of(b);
    set_[std::max(first, second)] = std::min(first, second);
  }

  void visit(NodeId id) {
    const Node &node = graph_.node(id);
    if (node.kind != NodeKind::call_function)
      return;
    const bool convolves = node.target == kConvolution;
    const TensorMeta *result = convolves ? tensor_of(graph_, id) : nullptr;
    if (result != nullptr && is_ours(result->dtype))
      add_convolution(id, node);
    const bool spatial = is_spatial(id);
    if (reduced_ && spatial && // what walks through a value otherwise
        (node.target == "aten.permute.default" || node.target == "aten.transpose.int"))
      saved_[id] += kAlways;
    for (const NodeId read : reads_of(node, convolves)) {
      if (!is_spatial(read))
        continue;
      if (spatial)
        join(id, read);
      else if (is_reshape(node)) // rows of values in the order of memory
        turns_[read] += turn_of(graph_, *tensor_of(graph_, read));
    }
  }
  static bool is_reshape(const Node &node) {
    return node.target == "aten.view.default" || node.target == "aten.reshape.default" ||
           node.target == "aten._unsafe_view.default";
  }
  /// Tensors that it reads: of a convolution the input alone, its weights lie as they like.
  static std::vector<NodeId> reads_of(const Node &node, bool convolves) {
    std::vector<NodeId> reads;
    const auto add = [&](const graph::Argument &argument) {
      if (const graph::NodeRef *reference = argument.node())
        reads.push_back(reference->id);
      if (const graph::Argument::List *list = argument.list())
        for (const graph::Argument &item : *list)
          if (const graph::NodeRef *reference = item.node())
            reads.push_back(reference->id);
    };
    for (size_t i = 0; i < (convolves ? 1 : node.args.size()); ++i)
      add(node.args[i]);
    if (!convolves)
      for (const auto &[name, argument] : node.kwargs)
        add(argument);
    return reads;
  }

  void add_convolution(NodeId id, const Node &node) {
    const Operator *row = find_operator(node.target);
    const Call call(graph_, node, row->schema, ranges_);
    Convolution c = of_likely_batch(convolution_of(call), graph_);
    if (slides(c))
      c = as_plain(c);
    const Expr elements = symbolic::numel(c.input.layout.sizes);
    if (reduced_) {
      const std::optional<double> empty = empty_operations(c);
      convolutions_.push_back(id);
      if (is_sum_outside(c)) {
        sums_.insert(id);
        return;
      }
      saved_[id] += empty ? *empty / kTensorOperationsAByte : kAlways;
      return;
    }
    if (c.transposed && c.rank() + 2 >= kFewest &&
        goes_by_phases(c, Facilities{.product_kernels = true})) {
      phases_.push_back(id); // its parts have channels innermost, and are joined either way
      return;
    }
    if (c.transposed || !elements.is_integer() ||
        !symbolic::numel(c.result.layout.sizes).is_integer()) {
      if (node.args[0].node()) // stays as it is: what goes in and what comes out is turned
        turns_[node.args[0].node()->id] += turn_of(graph_, c.input);
      turns_[id] += turn_of(graph_, c.result);
      return;
    }
    convolutions_.push_back(id);
    // Its neighbours are turned for themselves: what has three dimensions is mostly no image.
    if (c.rank() + 2 < kFewest)
      turns_[id] += turn_of(graph_, c.input) + turn_of(graph_, c.result);
    if (const std::optional<ColumnsSaved> saved = columns_saved(c)) {
      saved_[id] += saved->bytes - saved->more_operations / kOperationsAByte;
      // A pass over what the library's product of columns gives, or several of parts.
      if (call.has("bias") || saved->bytes > 2 * static_cast<double>(kLargestColumns))
        saved_[id] += 2 * bytes_of(graph_, c.result);
    }
  }

  ConvolutionLayouts decide() {
    std::map<NodeId, double> saved, turns;
    for (const auto &[id, bytes] : saved_)
      saved[set_of(id)] += bytes;
    for (const auto &[id, bytes] : turns_)
      turns[set_of(id)] += bytes;
    ConvolutionLayouts result;
    result.inside.assign(graph_.nodes.size(), false);
    result.outside.assign(graph_.nodes.size(), false);
    std::map<NodeId, size_t> counts;
    if (reduced_) {
      decide_outside(saved, turns, result);
      return result;
    }
    for (const NodeId id : convolutions_) {
      const NodeId set = set_of(id);
      ++counts[set];
      result.inside[id] = saved[set] > turns[set];
    }
    for (const NodeId id : phases_)
      result.inside[id] = saved[set_of(id)] > turns[set_of(id)];
    for (const auto &[set, count] : counts) {
      char text[256];
      std::snprintf(text, sizeof text,
                    "%zu convolution%s of float32, from %s on: channels lie %s: columns would be "
                    "%.1f MB that are moved, turning inputs and outputs is %.1f MB",
                    count, count == 1 ? "" : "s", graph_.node(first_of(set)).name.c_str(),
                    saved[set] > turns[set] ? "innermost" : "as they come", saved[set] * 1e-6,
                    turns[set] * 1e-6);
      result.choices.emplace_back(text);
    }
    return result;
  }
  void decide_outside(std::map<NodeId, double> &saved, std::map<NodeId, double> &turns,
                      ConvolutionLayouts &result) {
    std::map<NodeId, size_t> counts;
    std::set<NodeId> with_products;
    for (const NodeId id : convolutions_)
      if (sums_.count(id) == 0)
        with_products.insert(set_of(id));
    for (const NodeId id : sums_)
      if (with_products.count(set_of(id)) > 0)
        saved[set_of(id)] += kAlways;
    for (const NodeId id : convolutions_) {
      const NodeId set = set_of(id);
      result.outside[id] = saved[set] < turns[set];
      counts[set] += result.outside[id];
    }
    for (const auto &[set, count] : counts) {
      if (count == 0)
        continue;
      char text[256];
      std::snprintf(text, sizeof text,
                    "%zu convolution%s of 16-bit floats, from %s on: %s, channels lie as they "
                    "come: empty tiles are as %.1f MB that are moved, turning inputs and outputs "
                    "is %.1f MB",
                    count, count == 1 ? "" : "s", graph_.node(first_of(set)).name.c_str(),
                    with_products.count(set) > 0 ? "a product an image" : "sums in groups",
                    saved[set] * 1e-6, turns[set] * 1e-6);
      result.choices.emplace_back(text);
    }
  }
  NodeId first_of(NodeId set) {
    return *std::find_if(convolutions_.begin(), convolutions_.end(),
                         [&](NodeId id) { return set_of(id) == set; });
  }
};

} // namespace

ConvolutionLayouts choose_convolution_layouts(const Graph &graph) {
  ConvolutionLayouts chosen = Layouts(graph, false).choose(),
                     reduced = Layouts(graph, true).choose();
  chosen.outside = std::move(reduced.outside);
  std::move(reduced.choices.begin(), reduced.choices.end(), std::back_inserter(chosen.choices));
  return chosen;
}

} // namespace tsc::ops
