// Which updates may be stored into the memory of the mutated input that they end in.
#include "graph/data_symbols.h"
#include "lowering/build.h"
#include "lowering/in_place.h"
#include "lowering/registry.h"
#include "symbolic/loops.h"

#include <algorithm>
#include <array>
#include <set>

namespace tsc::lowering {

namespace {

using graph::NodeId;

template <size_t n>
bool is_one_of(std::string_view key, const std::array<std::string_view, n> &keys) {
  return std::find(keys.begin(), keys.end(), key) != keys.end();
}

std::string_view key_of(const graph::Node &node) {
  const bool call = node.kind == graph::NodeKind::call_function;
  const ops::Operator *row = call ? ops::find_operator(node.target) : nullptr;
  return row != nullptr ? row->lowering : std::string_view();
}

/// Views that see each element of what they view once at most.
bool is_view(std::string_view key) {
  static constexpr std::array<std::string_view, 7> kKeys = {
      "view", "permute", "unsqueeze", "squeeze", "slice", "select", "diagonal"};
  return is_one_of(key, kKeys);
}
bool is_region_update(std::string_view key) {
  return key == "slice_scatter" || key == "select_scatter";
}
bool is_update(std::string_view key) {
  static constexpr std::array<std::string_view, 4> kKeys = {"index_put", "scatter", "scatter_add",
                                                            "scatter_reduce"};
  return is_region_update(key) || is_one_of(key, kKeys);
}

const graph::NodeRef *argument_node(const graph::Node &node, size_t position) {
  return position < node.args.size() ? node.args[position].node() : nullptr;
}

class Planner {
public:
  Planner(Context &context, NodeId input, NodeId end)
      : context_(context), input_(input), end_(end) {}

  void run() {
    if (end_ == input_ || !collect() || !place())
      return;
    for (const NodeId node : path_) {
      if (is_update(key_of(context_.graph.node(node)))) {
        context_.in_place.emplace(
            node, InPlaceUpdate{input_, places_.at(node), regions_.count(node) != 0});
      }
    }
  }

private:
  Context &context_;
  NodeId input_, end_;
  std::set<NodeId> path_;                          // ascending
  std::map<NodeId, NodeId> regions_;               // region update -> the view of its region
  std::unordered_map<NodeId, TensorValue> places_; // where in the input's memory a node lies

  /// Gathers the nodes between the input and the end of the chain. False if one of them is neither
  /// a view nor an update.
  bool collect() {
    std::vector<NodeId> stack = {end_};
    while (!stack.empty()) {
      const NodeId id = stack.back();
      stack.pop_back();
      if (id == input_ || path_.count(id) != 0)
        continue;
      const graph::Node &node = context_.graph.node(id);
      const std::string_view key = key_of(node);
      const graph::NodeRef *self = argument_node(node, 0);
      if (self == nullptr || (!is_view(key) && !is_update(key)) || begins_where_data_says(node))
        return false;
      path_.insert(id);
      stack.push_back(self->id);
      if (const std::optional<NodeId> region = updated_region(id)) {
        regions_.emplace(id, *region);
        stack.push_back(argument_node(node, 1)->id);
      }
    }
    return true;
  }

  /// True of a region that no layout and no index map places before the program runs.
  bool begins_where_data_says(const graph::Node &node) const {
    const std::string_view key = key_of(node);
    const char *begin = key == "slice" || key == "slice_scatter"     ? "start"
                        : key == "select" || key == "select_scatter" ? "index"
                                                                     : nullptr;
    if (begin == nullptr)
      return false;
    const ops::Call call(context_.graph, node, ops::find_operator(node.target)->schema);
    return call.has(begin) && graph::depends_on_data(call.size(begin));
  }

  /// The view of the region that node `id` replaces, if what replaces it is an update of that very
  /// view: slice_scatter(p, index_put(slice(p, ..), ..), ..).
  std::optional<NodeId> updated_region(NodeId id) {
    const graph::Node &node = context_.graph.node(id);
    const NodeId self = argument_node(node, 0)->id;
    const graph::NodeRef *at = is_region_update(key_of(node)) ? argument_node(node, 1) : nullptr;
    while (at != nullptr && at->id > self) {
      const graph::Node &inner = context_.graph.node(at->id);
      const std::string_view key = key_of(inner);
      if (!is_view(key) && !is_update(key))
        return std::nullopt;
      const graph::NodeRef *next = argument_node(inner, 0);
      if (next != nullptr && next->id == self && is_region_of(inner, node))
        return at->id;
      at = next;
    }
    return std::nullopt;
  }

  /// True if `view` sees what `update` replaces.
  bool is_region_of(const graph::Node &view, const graph::Node &update) const {
    const std::string_view expected = key_of(update) == "slice_scatter" ? "slice" : "select";
    if (key_of(view) != expected)
      return false;
    const ops::Call seen(context_.graph, view, ops::find_operator(view.target)->schema);
    const ops::Call replaced(context_.graph, update, ops::find_operator(update.target)->schema);
    const auto &parameters = seen.schema().parameters;
    return std::all_of(parameters.begin() + 1, parameters.end(), [&](const auto &parameter) {
      return seen[parameter.name] == replaced[parameter.name];
    });
  }

  /// Follows the views from the input on. False if the chain does not end in the whole input.
  bool place() {
    const graph::TensorMeta &meta = *context_.graph.node(input_).value->tensor();
    TensorValue whole; // not realized: views of it are index maps
    whole.storage = std::make_shared<Storage>();
    whole.storage->sizes = whole.sizes = meta.layout.sizes;
    whole.storage->dtype = whole.dtype = meta.dtype;
    places_.emplace(input_, whole);
    for (const NodeId id : path_) {
      const graph::Node &node = context_.graph.node(id);
      const TensorValue &self = places_.at(argument_node(node, 0)->id);
      if (!is_update(key_of(node))) {
        places_.emplace(id, view_of(id, self));
        continue;
      }
      places_.emplace(id, self);
      const auto region = regions_.find(id);
      if (region != regions_.end() &&
          !same_place(places_.at(region->second), places_.at(argument_node(node, 1)->id)))
        return false;
    }
    return same_place(places_.at(end_), whole);
  }

  TensorValue view_of(NodeId id, const TensorValue &self) {
    const graph::Node &node = context_.graph.node(id);
    const ops::Operator &row = *ops::find_operator(node.target);
    NodeValue &argument = context_.values[argument_node(node, 0)->id];
    context_.current = id;
    argument = self;
    const ops::Call call(context_.graph, node, row.schema, context_.ranges);
    NodeValue result = registry().at(row.lowering)(context_, call);
    argument = Poison{};
    return std::get<TensorValue>(result);
  }

  bool same_place(const TensorValue &a, const TensorValue &b) const {
    if (a.sizes != b.sizes)
      return false;
    symbolic::Ranges ranges = *context_.ranges;
    for (size_t k = 0; k < a.sizes.size(); ++k)
      ranges.set_size(ir::variable(k), a.sizes[k]);
    const std::vector<Expr> first = a.index.value_or(identity_index(a.sizes.size()));
    const std::vector<Expr> second = b.index.value_or(identity_index(b.sizes.size()));
    for (size_t k = 0; k < first.size(); ++k)
      if (first[k] != second[k] &&
          symbolic::simplify(first[k], ranges) != symbolic::simplify(second[k], ranges))
        return false;
    return true;
  }
};

bool is_mutation(graph::OutputKind kind) {
  return kind == graph::OutputKind::buffer_mutation || kind == graph::OutputKind::input_mutation ||
         kind == graph::OutputKind::parameter_mutation;
}

} // namespace

void plan_in_place(Context &context) {
  for (const graph::OutputSpec &output : context.graph.outputs) {
    const graph::NodeRef *end = output.value.node();
    if (!is_mutation(output.kind) || end == nullptr)
      continue;
    for (const graph::InputSpec &input : context.graph.inputs) {
      const graph::Node &node = context.graph.node(input.node);
      const bool by_name = output.kind == graph::OutputKind::input_mutation;
      const graph::TensorMeta *meta = node.value ? node.value->tensor() : nullptr;
      if ((by_name ? node.name : input.target) == output.target && meta != nullptr)
        Planner(context, input.node, end->id).run();
    }
  }
}

} // namespace tsc::lowering
