#include "ops/table/rewrite.h"

#include "support/diagnostic.h"

namespace tsc::ops {

Argument map_references(const Argument &argument,
                        const std::function<Argument(graph::NodeRef)> &replacement) {
  if (const graph::NodeRef *reference = argument.node())
    return replacement(*reference);
  if (const Argument::Dictionary *dictionary = argument.dictionary()) {
    Argument::Dictionary result;
    for (const auto &entry : dictionary->entries)
      result.entries.emplace_back(entry.first, map_references(entry.second, replacement));
    return result;
  }
  const Arguments *list = argument.list();
  if (!list)
    return argument;
  Arguments result;
  result.reserve(list->size());
  for (const Argument &item : *list)
    result.push_back(map_references(item, replacement));
  return result;
}

namespace {

/// Everything of `source` but nodes, inputs and outputs.
Graph take_header(Graph &source) {
  Graph result;
  result.name = source.name;
  result.stage = source.stage;
  result.symbols = source.symbols;
  result.structure = std::move(source.structure);
  result.subgraphs = std::move(source.subgraphs);
  result.weights = std::move(source.weights);
  result.assertions = std::move(source.assertions);
  result.equal_sizes = std::move(source.equal_sizes);
  result.nodes.reserve(source.nodes.size());
  return result;
}

} // namespace

Rewrite::Rewrite(Graph source, std::unordered_set<std::string_view> composites)
    : source_(std::move(source)), result_(take_header(source_)),
      ranges_(std::make_shared<const symbolic::Ranges>(source_.ranges())),
      builder_(result_, ranges_, std::move(composites)), replacements_(source_.nodes.size()) {
  for (const Node &node : source_.nodes)
    builder_.reserve_name(node.name);
}

Argument Rewrite::mapped(const Argument &argument) const {
  return map_references(argument,
                        [this](graph::NodeRef reference) { return replacements_[reference.id]; });
}

Node Rewrite::take_mapped(graph::NodeId old) {
  Node &node = source_.nodes[old];
  Node result;
  result.name = node.name;
  result.kind = node.kind;
  result.target = node.target;
  result.args = node.args;
  result.kwargs = node.kwargs;
  result.value = node.value;
  result.list = node.list;
  result.stack_trace = std::move(node.stack_trace);
  result.nn_module_stack = std::move(node.nn_module_stack);
  result.origins = node.origins.empty() ? std::vector<std::string>{node.name} : node.origins;
  for (Argument &argument : result.args)
    argument = mapped(argument);
  for (auto &keyword : result.kwargs)
    keyword.second = mapped(keyword.second);
  return result;
}

void Rewrite::replace(graph::NodeId old, Argument with) {
  if (!source_.nodes[old].list.empty())
    builder_.mark_element(with, source_.nodes[old].list);
  replacements_[old] = std::move(with);
}

void Rewrite::replace_uses(graph::NodeId old, Argument with) {
  inputs_[old] = replacements_[old].node()->id;
  replacements_[old] = std::move(with);
}

void Rewrite::copy(graph::NodeId old) {
  replace(old, graph::NodeRef{builder_.append(take_mapped(old))});
}

Call Rewrite::call(const Node &mapped_node, const Operator &row) const {
  return Call(builder_.graph(), mapped_node, row.schema, ranges_);
}

Graph Rewrite::take() {
  for (graph::InputSpec input : source_.inputs) {
    auto kept = inputs_.find(input.node);
    const graph::NodeRef *reference = replacements_[input.node].node();
    if (kept != inputs_.end())
      input.node = kept->second;
    else if (reference)
      input.node = reference->id;
    else
      throw support::InternalError("rewrite", input.target, "an input has no node");
    result_.inputs.push_back(std::move(input));
  }
  for (graph::OutputSpec output : source_.outputs) {
    output.value = mapped(output.value);
    result_.outputs.push_back(std::move(output));
  }
  return std::move(result_);
}

} // namespace tsc::ops
