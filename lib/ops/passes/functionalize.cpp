#include "ops/passes/functionalize.h"

#include "ops/families/storage_bounds.h"
#include "ops/passes/memory.h"
#include "ops/passes/recorded_strides.h"
#include "ops/table/in_place_forms.h"
#include "ops/table/pointwise_rules.h"
#include "ops/table/precision.h"
#include "ops/table/rewrite.h"
#include "ops/table/shape_rules.h"
#include "ops/table/source_line.h"
#include "support/diagnostic.h"

#include <algorithm>

namespace tsc::ops {

using graph::NodeKind;

constexpr std::string_view kStrided = "aten.as_strided.default", kSelect = "aten.select.int";

graph::OutputKind mutation_of(graph::InputKind kind) {
  if (kind == graph::InputKind::user)
    return graph::OutputKind::input_mutation;
  return kind == graph::InputKind::parameter ? graph::OutputKind::parameter_mutation
                                             : graph::OutputKind::buffer_mutation;
}

namespace {

bool has_writes(const Graph &graph) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(), [&](const Node &node) {
    if (node.kind != NodeKind::call_function)
      return false;
    const Operator &row = *find_operator(node.target);
    return row.effect == Effect::mutates && mutates(row, Call(graph, node, row.schema));
  });
}

/// Throws TSC-O080 where an input gets other sizes or strides in place: whoever gave it keeps it as
/// it was.
void check_inputs_keep_their_layout(const Graph &graph) {
  for (const Node &node : graph.nodes) {
    if (node.kind != NodeKind::call_function || node.args.empty() || !node.args[0].node() ||
        !is_view_in_place(node.target))
      continue;
    const Node &input = graph.node(node.args[0].node()->id);
    if (input.kind != NodeKind::placeholder || !input.value || !node.value)
      continue;
    const TensorMeta *before = input.value->tensor(), *after = node.value->tensor();
    if (before && after && before->layout != after->layout)
      throw support::UserError(
          support::ExitCode::unsupported,
          support::Diagnostic{"TSC-O080",
                              node.target + " gives the input " + input.name +
                                  " other sizes or strides, which its owner would not see",
                              "", "", node.name, source_line(node),
                              "take a view of it (without the underscore) and return that"});
  }
}

/// The bytes of a weight, [first, last).
struct Bytes {
  const std::byte *first = nullptr, *last = nullptr;
};
Bytes bytes_of(const tensor::HostTensor &weight) {
  if (weight.numel() == 0)
    return {};
  int64_t reach = 1; // elements
  for (size_t i = 0; i < weight.sizes().size(); ++i)
    reach += (weight.sizes()[i] - 1) * weight.strides()[i];
  return {weight.data(),
          weight.data() + static_cast<size_t>(reach) * tensor::size_in_bytes(weight.dtype())};
}
bool same_memory(const tensor::HostTensor &a, const tensor::HostTensor &b) {
  return a.numel() != 0 && a.data() == b.data() && a.dtype() == b.dtype() &&
         a.sizes() == b.sizes() && a.strides() == b.strides();
}

class Functionalize {
public:
  explicit Functionalize(Graph graph) : rewrite_(std::move(graph)), memory_(rewrite_.builder()) {}

  Graph run() {
    find_weights();
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
      const auto tied = tied_.find(id);
      slots_.push_back(tied != tied_.end() ? slots_[tied->second]
                                           : rewrite_.mapped(Argument(NodeRef{id})));
      note(slots_.back(), rewrite_.source().node(id).value);
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
  std::vector<std::pair<NodeId, const tensor::HostTensor *>> weights_; // inputs that came with data

  /// A view in PyTorch, or one for some sizes, of which nothing here says how it lies in the memory
  /// of what it views: a copy took its place. Or either, where the file records other strides for
  /// what it views than were inferred.
  struct Doubt {
    NodeId viewed, copy;
    size_t writes; // to what is viewed, when it was taken
    const Node *view;
  };
  std::vector<Doubt> doubts_;
  std::unordered_map<NodeId, NodeId> tied_; // input -> an earlier input that is the same tensor

  /// Buffers that are one tensor under two names are one memory, that of the first name.
  void find_weights() {
    const tensor::TensorMap &weights = rewrite_.builder().graph().weights;
    std::unordered_map<const std::byte *, std::pair<NodeId, const tensor::HostTensor *>> first;
    for (const graph::InputSpec &input : rewrite_.source().inputs) {
      const auto weight = weights.find(input.target);
      if (input.target.empty() || weight == weights.end())
        continue;
      weights_.emplace_back(input.node, &weight->second);
      const auto [same, inserted] =
          first.emplace(weight->second.data(), std::pair{input.node, &weight->second});
      if (!inserted && same_memory(*same->second.second, weight->second))
        tied_.emplace(input.node, same->second.first);
    }
  }

  /// Throws TSC-O075 if an input that was written shares a part of its memory with another one.
  void check_shared_memory() {
    const std::vector<uint32_t> users = graph::count_users(rewrite_.source());
    for (const auto &[written, weight] : weights_) {
      if (!memory_.was_written(slots_[written].node()->id))
        continue;
      const Bytes own = bytes_of(*weight);
      for (const auto &[node, other_weight] : weights_) {
        const Bytes other = bytes_of(*other_weight);
        const bool overlap = own.first < other.last && other.first < own.last;
        if (overlap && users[node] != 0 && !same_memory(*weight, *other_weight))
          refuse_shared(written, node);
      }
    }
  }
  [[noreturn]] void refuse_shared(NodeId written, NodeId other) const {
    const Graph &source = rewrite_.source();
    throw support::UserError(
        support::ExitCode::unsupported,
        support::Diagnostic{"TSC-O075",
                            "the graph writes to " + source.node(written).name +
                                ", a part of whose memory is " + source.node(other).name,
                            "", "", source.node(written).name, "",
                            "register one of them and take a view of it in forward(), or clone() "
                            "the other"});
  }

  /// The slots of a node whose value in PyTorch is `value`.
  void note(const Argument &slots, const std::optional<Value> &value) {
    if (const NodeRef *slot = slots.node())
      memory_.note(slot->id, value ? value->tensor() : nullptr);
    const Arguments *list = slots.list();
    const Value::List *values = value ? value->list() : nullptr;
    for (size_t i = 0; list && i < list->size(); ++i)
      note((*list)[i], values && i < values->size() ? std::optional((*values)[i]) : std::nullopt);
  }

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

  Arguments strided_arguments(const Node &old, const Node &node) {
    const Call call = rewrite_.call(node, *find_operator(node.target));
    const NodeRef *viewed = old.args.empty() ? nullptr : old.args[0].node();
    const NodeRef *slot = viewed ? slots_[viewed->id].node() : nullptr;
    if (!slot) {
      call.tensor("self"); // says that it is none
      throw support::InternalError("ops", node.target, "a tensor without a slot");
    }
    return memory_.strided_arguments(slot->id, call);
  }

  void visit(NodeId id, const Node &old) {
    GraphBuilder &builder = rewrite_.builder();
    builder.set_source(old);
    memory_.set_source(old);
    Node node = with_present_arguments(old);
    if (old.target == kStrided || old.target == "aten.as_strided_.default") {
      node.args = strided_arguments(old, node);
      node.kwargs.clear();
      node.target = kStrided;
    }
    builder.set_source(node);
    memory_.set_source(node);
    const Operator &row = *find_operator(node.target);
    if (row.effect == Effect::mutates && mutates(row, rewrite_.call(node, row))) {
      rewrite_.replace(id, mutate(old, node, row));
    } else if (old.target == "operator.getitem" && node.args[0].list()) {
      // The slot, not its present value: later writes are seen through it.
      const Argument &list = slots_[old.args[0].node()->id];
      rewrite_.replace(
          id, list.list()->at(static_cast<size_t>(rewrite_.call(node, row).integer("index"))));
    } else if (row.effect == Effect::view && row.decompose && node.target != kStrided &&
               node.target != kSelect) { // these two are only held to their operand
      const Argument result = lie_as_in_pytorch(old)
                                  ? as_slots(old, row.decompose(builder, rewrite_.call(node, row)))
                                  : view_anew(old, node, row);
      doubt(old, result);
      rewrite_.replace(id, result);
    } else {
      if (node.value && row.effect != Effect::assertion)
        node.value = infer_value(builder.graph(), node, builder.shared_ranges());
      rewrite_.replace(id, NodeRef{builder.append(std::move(node))});
    }
    builder.set_source(old); // `node` goes; what is presented at the end stands for the last node
    memory_.set_source(old);
  }

  /// Notes a copy that may be a view in PyTorch, and a view that may be a copy.
  void doubt(const Node &old, const Argument &result) {
    const NodeRef *viewed = old.args.empty() ? nullptr : old.args[0].node();
    const NodeRef *slot = viewed ? slots_[viewed->id].node() : nullptr;
    const NodeRef *copy = result.node();
    if (!slot || !copy)
      return;
    const Graph &graph = rewrite_.builder().graph();
    const bool is_view = chain_of_views(graph, copy->id).back() ==
                         chain_of_views(graph, memory_.present(slot->id)).back();
    if (!rewrite_.source().node(viewed->id).recorded_strides.empty() &&
        is_view != is_view_as_recorded(rewrite_.source(), old, *find_operator(old.target),
                                       rewrite_.builder().shared_ranges()))
      doubts_.push_back({slot->id, copy->id, memory_.writes(slot->id), &old});
    if (is_view)
      return;
    const std::vector<Expr> &from = rewrite_.builder().meta(*slot).layout.sizes,
                            &to = rewrite_.builder().meta(result).layout.sizes;
    if (old.target == "aten.view.default" ||
        !same_size(symbolic::numel(from), symbolic::numel(to), rewrite_.builder().ranges()))
      doubts_.push_back({slot->id, copy->id, memory_.writes(slot->id), &old});
  }
  /// Throws TSC-O081 where it matters whether such a copy is a view.
  void check_doubts() {
    for (const Doubt &doubt : doubts_)
      if (memory_.writes(doubt.viewed) != doubt.writes || memory_.was_written(doubt.copy))
        throw support::UserError(
            support::ExitCode::unsupported,
            support::Diagnostic{"TSC-O081",
                                "nothing says how the view " + doubt.view->name +
                                    ", which is written to, lies in what it views",
                                "", "", doubt.view->name, source_line(*doubt.view),
                                "write before the view is taken, or export with fixed sizes"});
  }

  /// Calls `function` with each slot that the arguments of `old` name.
  template <class Function> void for_each_slot(const Node &old, const Function &function) {
    const auto visit = [&](NodeRef argument) {
      graph::for_each_node(slots_[argument.id], function);
    };
    for (const Argument &argument : old.args)
      graph::for_each_node(argument, visit);
    for (const auto &keyword : old.kwargs)
      graph::for_each_node(keyword.second, visit);
  }

  /// A view operator that had nothing to do yields its argument: then the slot stays the argument's
  /// own.
  Argument as_slots(const Node &old, const Argument &result) {
    std::unordered_map<NodeId, NodeId> slots; // by value
    for_each_slot(old, [&](NodeRef slot) { slots.emplace(memory_.present(slot.id), slot.id); });
    return map_references(result, [&](NodeRef value) -> Argument {
      const auto slot = slots.find(value.id);
      return slot == slots.end() ? value : NodeRef{slot->second};
    });
  }

  /// Whether the values of the arguments of `old` have the strides of the tensors that they stand
  /// for, on which it depends what is a view and what a copy.
  bool lie_as_in_pytorch(const Node &old) {
    bool same = true;
    for_each_slot(old, [&](NodeRef slot) {
      const std::optional<Value> &value =
          rewrite_.builder().graph().node(memory_.present(slot.id)).value;
      const TensorMeta *meta = value ? value->tensor() : nullptr;
      same = same && (!meta || meta->layout.strides == memory_.meta(slot.id).layout.strides);
    });
    return same;
  }

  /// What `old` yields where it does not depend on the strides of values that were written: what is
  /// a view in PyTorch is viewed again, what is a copy is a value of its own.
  Argument view_anew(const Node &old, const Node &node, const Operator &row) {
    GraphBuilder &builder = rewrite_.builder();
    const DecomposedAlone alone =
        decompose_alone(rewrite_.source(), old, row, builder.shared_ranges());
    Argument computed; // when it is needed
    const size_t count = builder.graph().nodes.size();
    const auto fresh = [&](size_t position) {
      if (computed.is_none())
        computed = row.decompose(builder, rewrite_.call(node, row));
      const Argument value = computed.list() ? computed.list()->at(position) : computed;
      const bool is_old = chain_of_views(builder.graph(), value.node()->id).back() < count;
      return is_old ? builder.call("aten.clone.default", {value}) : value;
    };
    const Arguments *list = alone.result.list();
    if (!list) {
      std::optional<Argument> view = seen_again(alone, alone.result, old);
      return view ? *view : fresh(0);
    }
    Arguments results;
    for (size_t i = 0; i < list->size(); ++i) {
      std::optional<Argument> view = seen_again(alone, (*list)[i], old);
      results.push_back(view ? *view : fresh(i));
    }
    return results;
  }

  /// `result` as views of the argument that it is a view of; nothing if it is a copy.
  std::optional<Argument> seen_again(const DecomposedAlone &alone, const Argument &result,
                                     const Node &old) {
    GraphBuilder &builder = rewrite_.builder();
    std::vector<NodeId> chain = chain_of_views(alone.graph, result.node()->id);
    if (alone.graph.node(chain.back()).kind != NodeKind::placeholder)
      return std::nullopt;
    NodeId slot = slots_[alone.arguments[chain.back()]].node()->id;
    chain.pop_back();
    for (; !chain.empty(); chain.pop_back()) {
      Node view = alone.graph.node(chain.back());
      const TensorMeta meta = *view.value->tensor();
      view.args[0] = NodeRef{memory_.viewed_value(slot, view.target)};
      if (view.name != old.name)
        view.name = builder.fresh_name(view.target);
      view.value = infer_value(builder.graph(), view, builder.shared_ranges());
      slot = builder.append(std::move(view));
      memory_.note(slot, &meta);
    }
    return NodeRef{slot};
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
      if (const Arguments *written = unmapped[parameter.name].list()) {
        check_order_is_free(unmapped, parameter, *written);
        store_list(call, parameter, *written, value, count);
        continue;
      }
      const std::optional<NodeId> slot = written_slot(call, unmapped[parameter.name], parameter);
      if (!slot)
        continue;
      if (value.node() == nullptr || value.node()->id != memory_.present(*slot))
        store(call, call.tensor(parameter.name), *slot, value, count);
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
    if (!slot) {
      call.tensor(parameter.name); // says that it is none
      throw support::InternalError("ops", call.node().target, "a tensor without a slot");
    }
    return slot->id;
  }

  /// An element that reads what another one writes sees it before or after, as PyTorch's kernel for
  /// the device has it.
  void check_order_is_free(const Call &call, const Parameter &parameter, const Arguments &written) {
    const auto slot_of = [&](const Argument &argument) -> std::optional<NodeId> {
      const NodeRef *slot = argument.node() ? slots_[argument.node()->id].node() : nullptr;
      return slot ? std::optional(slot->id) : std::nullopt;
    };
    const auto check = [&](const Argument &read, size_t place) {
      const std::optional<NodeId> slot = slot_of(read);
      for (size_t i = 0; slot && i < written.size(); ++i)
        if (i != place && slot_of(written[i]) == slot)
          call.fail("TSC-O078",
                    call.node().target + " writes to " +
                        rewrite_.source().node(read.node()->id).name +
                        ", which another element reads: before or after is not said",
                    "pass a clone of it");
    };
    for (const Parameter &other : call.schema().parameters) {
      if (other.name == parameter.name)
        continue;
      if (const Arguments *list = call[other.name].list())
        for (size_t i = 0; i < list->size(); ++i)
          check((*list)[i], i);
      else if (written.size() > 1)
        check(call[other.name], written.size());
    }
  }

  /// The elements of a list: all values were computed from what was there before.
  void store_list(const Call &call, const Parameter &parameter, const Arguments &written,
                  const Argument &values, size_t first_new) {
    GraphBuilder &builder = rewrite_.builder();
    const std::vector<TensorMeta> before = call.tensors(parameter.name);
    std::vector<NodeId> slots;
    for (size_t i = 0; i < written.size(); ++i) {
      const std::optional<NodeId> slot = written_slot(call, written[i], parameter);
      if (std::find(slots.begin(), slots.end(), *slot) != slots.end())
        call.fail("TSC-O078",
                  call.node().target + " writes to " +
                      rewrite_.source().node(written[i].node()->id).name +
                      " twice: what the second element reads is not said",
                  "pass each tensor once");
      slots.push_back(*slot);
      const Argument value = builder.item(values, static_cast<int64_t>(i));
      if (value.node() == nullptr || value.node()->id != memory_.present(*slot))
        store(call, before[i], *slot, value, first_new);
    }
  }

  /// Stores `value` in the argument, which is as `before` says; nodes before `first_new` existed
  /// before the call.
  void store(const Call &call, const TensorMeta &before, NodeId slot, Argument value,
             size_t first_new) {
    GraphBuilder &builder = rewrite_.builder();
    const std::string list = builder.graph().node(value.node()->id).list;
    value = convert(builder, value, before.dtype);
    if (value.node()->id < first_new) // a value has one slot
      value = builder.call("aten.clone.default", {value});
    if (!list.empty())
      builder.mark_element(value, list);
    const std::vector<Expr> sizes = builder.meta(value).layout.sizes;
    if (sizes != before.layout.sizes)
      call.fail("TSC-O047",
                call.node().target + " would store sizes " + print_sizes(sizes) + " in " +
                    print_sizes(before.layout.sizes),
                "make the result's sizes those of the tensor that is written");
    const Node &memory = builder.graph().node(memory_.root(slot));
    if (memory.kind == NodeKind::get_attr)
      call.fail("TSC-O073", call.node().target + " writes to the constant " + memory.target,
                "clone() it before, or make it a buffer of the model");
    memory_.write(slot, value.node()->id, call);
  }

  /// Mutated inputs become outputs, in front of the others.
  void finish(const Node &old) {
    check_shared_memory();
    check_doubts();
    rewrite_.builder().set_source(old); // views that are taken anew for the results
    Arguments values;
    for (const graph::InputSpec &input : rewrite_.source().inputs) {
      const NodeRef *slot = slots_[input.node].node();
      if (!slot || !memory_.was_written(slot->id) || tied_.count(input.node) != 0)
        continue;
      graph::OutputSpec output;
      output.kind = mutation_of(input.kind);
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
  check_inputs_keep_their_layout(graph);
  if (!has_writes(graph))
    return graph;
  return Functionalize(std::move(graph)).run();
}

} // namespace tsc::ops
