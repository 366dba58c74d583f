#include "ops/functionalize.h"

#include "ops/pointwise_rules.h"
#include "ops/precision.h"
#include "ops/rewrite.h"
#include "ops/shape_rules.h"
#include "ops/source_line.h"
#include "support/diagnostic.h"

#include <algorithm>

namespace tsc::ops {

using graph::NodeId;
using graph::NodeKind;
using graph::NodeRef;

namespace {

/// Nodes of the new graph that stand for memory, each with the node that holds its present value. A
/// view remembers the node that it views; when its memory has been written to since, it is taken
/// anew from there.
class Memory {
public:
  explicit Memory(GraphBuilder &builder) : builder_(&builder) {}

  /// The node that holds the present value of `slot`'s memory, seen as `slot` sees it.
  NodeId present(NodeId slot) {
    std::vector<NodeId> stale; // innermost last
    NodeId at = slot;
    while (true) {
      Slot &state = slot_of(at);
      if (!state.viewed || state.version == slot_of(state.root).version)
        break;
      stale.push_back(at);
      at = *state.viewed;
    }
    for (size_t i = stale.size(); i-- > 0;) {
      Node view = builder_->graph().node(stale[i]);
      NodeId base = slot_of(*slot_of(stale[i]).viewed).value;
      view.args[0] = NodeRef{base};
      Argument again = builder_->emit(view.target, view.args, view.kwargs);
      const Slot state = slot_of(stale[i]);
      set_value(stale[i], again.node()->id, slot_of(state.root).version);
    }
    return slot_of(slot).value;
  }

  /// `value` is written to the memory that `slot` sees.
  void write(NodeId slot, NodeId value, const Call &call) {
    NodeId root = slot_of(slot).root;
    NodeId at = slot, written = value;
    std::vector<std::pair<NodeId, NodeId>> updates;
    while (slot_of(at).viewed) {
      NodeId viewed = *slot_of(at).viewed;
      updates.emplace_back(at, written);
      NodeId before = present(viewed);
      written = write_through(at, before, written, call);
      at = viewed;
    }
    size_t version = slot_of(root).version + 1;
    set_value(root, written, version);
    for (const auto &update : updates)
      set_value(update.first, update.second, version);
  }

  /// Makes the slot of a node that was just appended: a view is of the memory as it is now.
  void note(NodeId id) { slot_of(id); }

  bool was_written(NodeId slot) { return slot_of(slot_of(slot).root).version != 0; }

private:
  struct Slot {
    std::optional<NodeId> viewed; // of a view: the node that it views
    NodeId root = 0;
    NodeId value = 0;
    size_t version = 0; // of the root when `value` was taken; a root's: how often it was written to
  };
  GraphBuilder *builder_;
  std::unordered_map<NodeId, Slot> slots_;
  std::unordered_map<NodeId, NodeId> owners_; // a node that holds a slot's value -> the slot

  void set_value(NodeId slot, NodeId value, size_t version) {
    Slot &state = slot_of(slot);
    state.value = value;
    state.version = version;
    owners_[value] = slot;
  }

  /// Slots are made when they are first looked at. Chains of views are followed to the first known
  /// slot.
  Slot &slot_of(NodeId id) {
    auto found = slots_.find(id);
    if (found != slots_.end())
      return found->second;
    std::vector<NodeId> chain = {id};
    while (true) {
      std::optional<NodeId> viewed = viewed_by(chain.back());
      if (!viewed)
        break;
      chain.push_back(*viewed);
      if (slots_.count(*viewed) != 0)
        break;
    }
    for (size_t i = chain.size(); i-- > 0;) {
      if (slots_.count(chain[i]) != 0)
        continue;
      Slot slot;
      slot.viewed = viewed_by(chain[i]);
      slot.value = chain[i];
      slot.root = slot.viewed ? slots_.at(*slot.viewed).root : chain[i];
      slot.version = slot.viewed ? slots_.at(slot.root).version : 0;
      slots_.emplace(chain[i], slot);
    }
    return slots_.at(id);
  }

  std::optional<NodeId> viewed_by(NodeId id) const {
    const Node &node = builder_->graph().node(id);
    if (node.kind != NodeKind::call_function || node.args.empty() || !node.args[0].node())
      return std::nullopt;
    if (find_operator(node.target)->effect != Effect::view)
      return std::nullopt;
    NodeId viewed = node.args[0].node()->id;
    auto owner = owners_.find(viewed);
    return owner == owners_.end() ? viewed : owner->second;
  }

  /// The value of what `view` views, `before`, once `written` has been stored through the view.
  NodeId write_through(NodeId view, NodeId before, NodeId written, const Call &call) {
    const Node node = builder_->graph().node(view);
    const TensorMeta base = *builder_->graph().node(before).value->tensor();
    Argument value = NodeRef{written};
    std::string_view target = node.target;
    auto argument = [&](size_t i, Argument fallback) {
      return i < node.args.size() ? node.args[i] : fallback;
    };
    Argument result;
    if (target == "aten.slice.Tensor")
      result = builder_->call("aten.slice_scatter.default",
                              {NodeRef{before}, value, argument(1, 0), argument(2, graph::None{}),
                               argument(3, graph::None{}), argument(4, 1)});
    else if (target == "aten.select.int")
      result = builder_->call("aten.select_scatter.default",
                              {NodeRef{before}, value, node.args.at(1), node.args.at(2)});
    else if (target == "aten.view.default" || target == "aten.unsqueeze.default" ||
             target == "aten.squeeze.dims")
      result = builder_->call("aten.reshape.default", {value, sizes_argument(base.layout.sizes)});
    else if (target == "aten.permute.default")
      result = builder_->call("aten.permute.default", {value, inverse(node, base.layout.rank())});
    else if (target == "aten.expand.default" &&
             builder_->meta(value).layout.sizes == base.layout.sizes)
      result = value;
    else
      throw support::UserError(
          support::ExitCode::unsupported,
          support::Diagnostic{
              "TSC-O006",
              call.node().target + " writes through " + node.target + ", which is not supported",
              "", "", call.node().name, source_line(call.node()),
              "write to the tensor itself, or to a slice, view or permutation of it"});
    return result.node()->id;
  }

  static Argument inverse(const Node &permute, size_t rank) {
    std::vector<size_t> order(rank);
    const Arguments &dims = *permute.args.at(1).list();
    for (size_t i = 0; i < dims.size(); ++i) {
      int64_t dim = std::get<int64_t>(dims[i].value);
      order[static_cast<size_t>(dim < 0 ? dim + static_cast<int64_t>(rank) : dim)] = i;
    }
    return ints_argument(order);
  }
};

bool has_writes(const Graph &graph) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(), [&](const Node &node) {
    if (node.kind != NodeKind::call_function)
      return false;
    const Operator &row = *find_operator(node.target);
    return row.effect == Effect::mutates && mutates(row, Call(graph, node, row.schema));
  });
}

class Functionalize {
public:
  explicit Functionalize(Graph graph) : rewrite_(std::move(graph)), memory_(rewrite_.builder()) {}

  Graph run() {
    for (NodeId id = 0; id < rewrite_.source().nodes.size(); ++id) {
      const Node &old = rewrite_.source().node(id);
      if (old.kind == NodeKind::output)
        finish(old);
      else if (old.kind != NodeKind::call_function)
        rewrite_.copy(id);
      else
        visit(id, old);
      if (old.kind == NodeKind::output)
        continue;
      slots_.push_back(rewrite_.mapped(Argument(NodeRef{id})));
      graph::for_each_node(slots_.back(), [this](NodeRef slot) { memory_.note(slot.id); });
    }
    Graph graph = rewrite_.take();
    graph.outputs = std::move(outputs_);
    return graph;
  }

private:
  Rewrite rewrite_;
  Memory memory_;
  std::vector<Argument> slots_; // old node -> node or list of nodes of the new graph, as first made
  std::vector<graph::OutputSpec> outputs_;

  Argument present(const Argument &argument) {
    return map_references(argument, [this](NodeRef reference) -> Argument {
      return map_references(slots_[reference.id], [this](NodeRef slot) -> Argument {
        return NodeRef{memory_.present(slot.id)};
      });
    });
  }

  Node with_present_arguments(const Node &old) {
    Node node = old;
    if (node.origins.empty())
      node.origins = {old.name};
    for (Argument &argument : node.args)
      argument = present(argument);
    for (auto &keyword : node.kwargs)
      keyword.second = present(keyword.second);
    return node;
  }

  void visit(NodeId id, const Node &old) {
    GraphBuilder &builder = rewrite_.builder();
    builder.set_source(old);
    Node node = with_present_arguments(old);
    builder.set_source(node);
    const Operator &row = *find_operator(old.target);
    if (row.effect == Effect::mutates && mutates(row, rewrite_.call(node, row))) {
      rewrite_.replace(id, mutate(old, node, row));
    } else if (old.target == "operator.getitem" && node.args[0].list()) {
      // The slot, not its present value: later writes are seen through it.
      const Argument &list = slots_[old.args[0].node()->id];
      rewrite_.replace(id,
                       list.list()->at(static_cast<size_t>(std::get<int64_t>(old.args[1].value))));
    } else if (row.effect == Effect::view && row.decompose) {
      rewrite_.replace(id, as_view(old, row.decompose(builder, rewrite_.call(node, row))));
    } else {
      if (node.value && row.effect != Effect::assertion)
        node.value = infer_value(builder.graph(), node, builder.shared_ranges());
      rewrite_.replace(id, NodeRef{builder.append(std::move(node))});
    }
  }

  /// A view operator that had nothing to do yields its argument: then the slot stays the argument's
  /// own.
  Argument as_view(const Node &old, Argument result) {
    const NodeRef *reference = result.node();
    for (const Argument &argument : old.args) {
      if (!reference || !argument.node())
        continue;
      const NodeRef *slot = slots_[argument.node()->id].node();
      if (slot && memory_.present(slot->id) == reference->id)
        return *slot;
    }
    return result;
  }

  /// Computes results and new values with the functional operator and writes the new values; yields
  /// the results, the slots that were written standing for written arguments.
  Argument mutate(const Node &old, const Node &node, const Operator &row) {
    GraphBuilder &builder = rewrite_.builder();
    const Call call = rewrite_.call(node, row);
    const Call unmapped(rewrite_.source(), old, row.schema);
    const size_t count = builder.graph().nodes.size();
    const Argument computed = builder.call(row.functional, node.args, node.kwargs);
    const size_t value_count = find_operator(row.functional)->schema.returns.size();
    const Schema &schema = row.schema;
    Arguments results;
    int64_t next = 0;
    auto next_value = [&] { return value_count == 1 ? computed : builder.item(computed, next++); };
    for (const Parameter &result : schema.returns)
      results.push_back(is_written(result) ? Argument() : next_value());
    for (const Parameter &parameter : schema.parameters) {
      if (!is_written(parameter))
        continue;
      const Argument value = next_value();
      const std::optional<NodeId> slot = written_slot(call, unmapped[parameter.name], parameter);
      if (!slot)
        continue;
      if (value.node() == nullptr || value.node()->id != memory_.present(*slot))
        store(call, parameter, *slot, value, count);
      for (size_t i = 0; i < results.size(); ++i)
        if (schema.returns[i].alias == parameter.alias)
          results[i] = NodeRef{*slot};
    }
    return results.size() == 1 ? results[0] : Argument(std::move(results));
  }

  /// The slot of an argument that is written; nothing for an optional one that is not given.
  std::optional<NodeId> written_slot(const Call &call, const Argument &argument,
                                     const Parameter &parameter) {
    if (argument.is_none() && parameter.type.back() == '?')
      return std::nullopt;
    const NodeRef *slot = argument.node() ? slots_[argument.node()->id].node() : nullptr;
    if (!slot)
      call.tensor(parameter.name); // says that it is none
    return slot->id;
  }

  /// Stores `value` in the argument; nodes before `first_new` existed before the call.
  void store(const Call &call, const Parameter &parameter, NodeId slot, Argument value,
             size_t first_new) {
    GraphBuilder &builder = rewrite_.builder();
    const TensorMeta before = call.tensor(parameter.name);
    value = convert(builder, value, before.dtype);
    if (value.node()->id < first_new) // a value has one slot
      value = builder.call("aten.clone.default", {value});
    const std::vector<Expr> sizes = builder.meta(value).layout.sizes;
    if (sizes != before.layout.sizes)
      call.fail("TSC-O047",
                call.node().target + " would store sizes " + print_sizes(sizes) + " in " +
                    print_sizes(before.layout.sizes),
                "make the result's sizes those of the tensor that is written");
    memory_.write(slot, value.node()->id, call);
  }

  /// Mutated inputs become outputs, in front of the others.
  void finish(const Node &old) {
    Arguments values;
    for (const graph::InputSpec &input : rewrite_.source().inputs) {
      const NodeRef *slot = slots_[input.node].node();
      if (!slot || !memory_.was_written(slot->id))
        continue;
      graph::OutputSpec output;
      output.kind = input.kind == graph::InputKind::buffer ? graph::OutputKind::buffer_mutation
                    : input.kind == graph::InputKind::parameter
                        ? graph::OutputKind::parameter_mutation
                        : graph::OutputKind::input_mutation;
      output.target = input.target.empty() ? rewrite_.source().node(input.node).name : input.target;
      output.value = NodeRef{memory_.present(slot->id)};
      values.push_back(output.value);
      outputs_.push_back(std::move(output));
    }
    for (graph::OutputSpec output : rewrite_.source().outputs) {
      output.value = present(output.value);
      outputs_.push_back(std::move(output));
    }
    Node node = with_present_arguments(old);
    if (!values.empty()) {
      const Arguments *list = node.args.at(0).list();
      Arguments rest = list ? *list : Arguments{node.args[0]};
      values.insert(values.end(), rest.begin(), rest.end());
      node.args = {values};
    }
    rewrite_.builder().append(std::move(node));
  }
};

} // namespace

graph::Graph functionalize(graph::Graph graph, const PassOptions &) {
  if (!has_writes(graph))
    return graph;
  return Functionalize(std::move(graph)).run();
}

} // namespace tsc::ops
