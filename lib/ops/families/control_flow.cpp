// Branches and loops. What they yield is what their subgraphs do, each result in memory of its own.
#include "ops/families/control_flow.h"

#include "ops/table/builder.h"
#include "ops/table/shape_rules.h"
#include "ops/table/table.h"

#include <algorithm>

namespace tsc::ops {

using graph::NodeKind;

bool is_control_flow(const Node &node) {
  return node.kind == NodeKind::call_function &&
         (node.target == kCond || node.target == kWhileLoop);
}

std::vector<std::string> subgraph_names(const Node &node) {
  std::vector<std::string> names;
  for (const Argument &argument : node.args)
    if (const auto *reference = std::get_if<graph::GraphRef>(&argument.value))
      names.push_back(reference->name);
  return names;
}

namespace {

/// What the subgraph that `argument` names yields, as it stands: its placeholders have the values
/// that the file gives them.
Value value_of_subgraph(const Call &call, std::string_view parameter) {
  const Argument &argument = call[parameter];
  const auto *direct = std::get_if<graph::GraphRef>(&argument.value);
  const graph::NodeRef *node = argument.node();
  const std::string name = direct ? direct->name : node ? call.graph().node(node->id).target : "";
  const auto found = call.graph().subgraphs.find(name);
  if (found == call.graph().subgraphs.end())
    call.fail("TSC-O125",
              call.node().target + ": argument '" + std::string(parameter) + "' is no subgraph",
              "name one of the graph's subgraphs");
  Graph subgraph = with_values(found->second);
  const Node &output = subgraph.nodes.back();
  const auto value_of = [&](const Argument &item) {
    return item.node() ? subgraph.node(item.node()->id).value.value_or(Value{}) : Value{};
  };
  const Arguments *list = output.args.at(0).list();
  if (!list)
    return value_of(output.args[0]);
  Value::List values;
  for (const Argument &item : *list)
    values.push_back(value_of(item));
  return Value{std::move(values)};
}

/// Dense, from element 0: each result has memory of its own. A subgraph may return one tensor
/// instead of a tuple.
Value as_fresh(const Call &call, Value value) {
  if (Value::List *list = std::get_if<Value::List>(&value.value)) {
    for (Value &item : *list)
      item = as_fresh(call, std::move(item));
    return value;
  }
  TensorMeta *meta = std::get_if<TensorMeta>(&value.value);
  if (!meta)
    call.refuse("TSC-O125", call.node().target + ": a subgraph yields something not a tensor",
                "make it a tensor: torch.tensor(number)");
  meta->layout.offset = 0;
  if (!is_non_overlapping_and_dense(meta->layout, call.ranges()))
    meta->layout.strides = tensor::contiguous_strides(meta->layout.sizes);
  return value;
}

ShapeRule yields(std::string_view subgraph) {
  return [subgraph](const Call &call) {
    const std::optional<Value> &recorded = call.node().value;
    const bool known = recorded && !std::holds_alternative<graph::None>(recorded->value);
    return as_fresh(call, known ? *recorded : value_of_subgraph(call, subgraph));
  };
}

} // namespace

void add_control_flow(Table &table) {
  table.add("higher_order::cond(Any pred, Any true_graph, Any false_graph, Any operands=[]) -> Any")
      .shape(yields("true_graph"))
      .lowers("cond");
  table
      .add(
          "higher_order::while_loop(Any cond_graph, Any body_graph, Any carried, Any others=[]) -> "
          "Any")
      .shape(yields("body_graph"))
      .lowers("while_loop");
}

} // namespace tsc::ops
