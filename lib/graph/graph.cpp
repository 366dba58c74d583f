#include "graph/graph.h"

#include "support/diagnostic.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace tsc::graph {

namespace {

/// NaN is what it is: an argument equals itself.
bool same_number(double a, double b) {
  return std::memcmp(&a, &b, sizeof a) == 0 || (std::isnan(a) && std::isnan(b));
}

template <class Content> bool same_value(const Content &a, const Content &b) {
  if (a.index() != b.index())
    return false;
  const double *x = std::get_if<double>(&a), *y = std::get_if<double>(&b);
  return x && y ? same_number(*x, *y) : a == b;
}

bool same_tensor(const tensor::HostTensor &a, const tensor::HostTensor &b) {
  if (a.dtype() != b.dtype() || a.sizes() != b.sizes())
    return false;
  tensor::HostTensor x = a.contiguous(), y = b.contiguous();
  return x.size_in_bytes() == 0 || std::memcmp(x.data(), y.data(), x.size_in_bytes()) == 0;
}

bool same_node(const Node &a, const Node &b) {
  return a.name == b.name && a.kind == b.kind && a.target == b.target && a.args == b.args &&
         a.kwargs == b.kwargs && a.value == b.value && a.stack_trace == b.stack_trace &&
         a.nn_module_stack == b.nn_module_stack && a.origins == b.origins;
}

bool same_input(const InputSpec &a, const InputSpec &b) {
  return a.kind == b.kind && a.node == b.node && a.target == b.target &&
         a.persistent == b.persistent && a.constant == b.constant;
}

bool same_output(const OutputSpec &a, const OutputSpec &b) {
  return a.kind == b.kind && a.value == b.value && a.target == b.target;
}

bool same_range(const SymbolRange &a, const SymbolRange &b) {
  return a.symbol == b.symbol && a.low == b.low && a.high == b.high && a.name == b.name &&
         a.hint == b.hint;
}

} // namespace

std::string to_string(const Assertion &assertion) {
  std::string text = assertion.message;
  if (!assertion.node.empty())
    text += " (node " + assertion.node + ")";
  return assertion.source_line.empty() ? text : text + " in " + assertion.source_line;
}

bool operator==(const Complex &a, const Complex &b) {
  return same_number(a.real, b.real) && same_number(a.imaginary, b.imaginary);
}
bool operator==(const Argument &a, const Argument &b) { return same_value(a.value, b.value); }
bool operator==(const Argument::Dictionary &a, const Argument::Dictionary &b) {
  return a.entries == b.entries;
}
bool operator==(const Value &a, const Value &b) { return same_value(a.value, b.value); }

std::map<std::string, const tensor::HostTensor *> constants_of(const Graph &graph) {
  std::map<std::string, const tensor::HostTensor *> result;
  auto add = [&](const std::string &name) {
    auto found = graph.weights.find(name);
    if (found != graph.weights.end())
      result.emplace(name, &found->second);
  };
  for (const InputSpec &input : graph.inputs)
    if (input.kind == InputKind::constant_tensor)
      add(input.target);
  for (const Node &node : graph.nodes)
    if (node.kind == NodeKind::get_attr)
      add(node.target);
  return result;
}

bool operator==(const Graph &a, const Graph &b) {
  auto constants = constants_of(a), others = constants_of(b);
  return a.name == b.name && a.stage == b.stage &&
         std::ranges::equal(a.nodes, b.nodes, same_node) &&
         std::ranges::equal(a.inputs, b.inputs, same_input) &&
         std::ranges::equal(a.outputs, b.outputs, same_output) && a.structure == b.structure &&
         std::ranges::equal(a.symbols, b.symbols, same_range) && a.subgraphs == b.subgraphs &&
         std::ranges::equal(constants, others, [](const auto &x, const auto &y) {
           return x.first == y.first && same_tensor(*x.second, *y.second);
         });
}

symbolic::Ranges Graph::ranges() const {
  symbolic::Ranges ranges;
  for (const SymbolRange &range : symbols)
    ranges.set(range.symbol, {range.low, range.high});
  return ranges;
}

void for_each_node(const Argument &argument, const std::function<void(NodeRef)> &visit) {
  if (const NodeRef *reference = argument.node())
    visit(*reference);
  else if (const Argument::List *list = argument.list())
    for (const Argument &element : *list)
      for_each_node(element, visit);
  else if (const Argument::Dictionary *dictionary = argument.dictionary())
    for (const auto &entry : dictionary->entries)
      for_each_node(entry.second, visit);
}

std::vector<uint32_t> count_users(const Graph &graph) {
  std::vector<uint32_t> users(graph.nodes.size(), 0);
  // Who was the last to use each node: a node that uses another twice counts once.
  std::vector<size_t> last_user(graph.nodes.size(), SIZE_MAX);
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    auto visit = [&](NodeRef reference) {
      support::require(reference.id < users.size(), "count_users", "a reference leaves the graph");
      if (last_user[reference.id] != i)
        ++users[reference.id];
      last_user[reference.id] = i;
    };
    for (const Argument &argument : graph.nodes[i].args)
      for_each_node(argument, visit);
    for (const auto &keyword : graph.nodes[i].kwargs)
      for_each_node(keyword.second, visit);
  }
  return users;
}

} // namespace tsc::graph
