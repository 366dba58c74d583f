// The text form of torch.fx: Graph.__str__, Node.format_node and _format_arg of PyTorch 2.11.
#include "graph/graph.h"

#include "graph/symbol_names.h"
#include "support/diagnostic.h"
#include "support/text.h"

#include <cmath>

namespace tsc::graph {

namespace {

std::string_view memory_format_name(MemoryFormat format) {
  switch (format) {
  case MemoryFormat::contiguous:
    return "torch.contiguous_format";
  case MemoryFormat::channels_last:
    return "torch.channels_last";
  case MemoryFormat::channels_last_3d:
    return "torch.channels_last_3d";
  case MemoryFormat::preserve:
    break;
  }
  return "torch.preserve_format";
}

/// How Python prints an argument: str() inside a call, repr() inside the returned tuple.
struct ArgumentPrinter {
  const Graph &graph;
  bool quoted; // repr: strings in quotes, nodes without %
  std::string &text;

  void print(const Argument &argument) { std::visit(*this, argument.value); }

  void operator()(None) { text += "None"; }
  void operator()(bool value) { text += value ? "True" : "False"; }
  void operator()(int64_t value) { text += std::to_string(value); }
  void operator()(double value) { text += support::python_repr(value); }
  void operator()(const std::string &value) {
    text += quoted ? support::python_repr(std::string_view(value)) : value;
  }
  void operator()(Expr value) { text += symbolic::print(value, symbol_writer(graph.symbols)); }
  void operator()(NodeRef value) {
    if (!quoted)
      text += '%';
    text += graph.node(value.id).name;
  }
  void operator()(DType value) { text += tensor::torch_name(value); }
  void operator()(const Device &value) { text += tensor::to_string(value); }
  void operator()(MemoryFormat value) { text += memory_format_name(value); }
  void operator()(const TensorLayoutKind &value) { text += value.name; }
  void operator()(const GraphRef &value) { text += value.name; }
  void operator()(const Complex &value) { text += python_repr(value); }
  void operator()(const CustomObject &value) { text += value.name; }
  void operator()(const Argument::Dictionary &dictionary) {
    text += '{';
    for (size_t i = 0; i < dictionary.entries.size(); ++i) {
      if (i != 0)
        text += ", ";
      text += dictionary.entries[i].first + ": ";
      print(dictionary.entries[i].second);
    }
    text += '}';
  }
  void operator()(const Argument::List &list) {
    text += '[';
    print_elements(list);
    text += ']';
  }
  void print_elements(const Argument::List &list) {
    for (size_t i = 0; i < list.size(); ++i) {
      if (i != 0)
        text += ", ";
      print(list[i]);
    }
  }
  void print_tuple(const Argument::List &list) {
    text += '(';
    print_elements(list);
    text += list.size() == 1 ? ",)" : ")";
  }
};

/// Operators live in torch.ops; what stands outside carries its module's name.
bool is_outside_torch_ops(const std::string &target) {
  return support::starts_with(target, "operator.") || support::starts_with(target, "torch.") ||
         support::starts_with(target, "math.");
}

void print_call(const Graph &graph, const Node &node, std::string &text) {
  text += "call_function[target=";
  if (!is_outside_torch_ops(node.target))
    text += "torch.ops.";
  text += node.target;
  text += "](args = ";
  ArgumentPrinter printer{graph, false, text};
  printer.print_tuple(node.args);
  text += ", kwargs = {";
  for (size_t i = 0; i < node.kwargs.size(); ++i) {
    if (i != 0)
      text += ", ";
    text += node.kwargs[i].first;
    text += ": ";
    printer.print(node.kwargs[i].second);
  }
  text += "})";
}

void print_output(const Graph &graph, const Node &node, std::string &text) {
  support::require(node.args.size() == 1, "to_text", "the output node takes one argument");
  text += "return ";
  const Argument::List *list = node.args[0].list();
  ArgumentPrinter printer{graph, list != nullptr, text};
  if (list != nullptr)
    printer.print_tuple(*list);
  else if (const NodeRef *reference = node.args[0].node())
    text += graph.node(reference->id).name;
  else
    printer.print(node.args[0]);
}

} // namespace

std::string python_repr(const Complex &value) {
  auto part = [](double number) {
    std::string text = support::python_repr(number);
    bool whole = text.size() > 2 && text.compare(text.size() - 2, 2, ".0") == 0;
    return whole ? text.substr(0, text.size() - 2) : text;
  };
  std::string imaginary = part(value.imaginary) + "j";
  if (value.real == 0 && !std::signbit(value.real))
    return imaginary;
  return "(" + part(value.real) + (imaginary[0] == '-' ? "" : "+") + imaginary + ")";
}

std::string to_text(const Graph &graph) {
  std::vector<uint32_t> users = count_users(graph);
  std::string text = "graph():";
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node &node = graph.nodes[i];
    text += "\n    ";
    if (node.kind == NodeKind::output) {
      print_output(graph, node, text);
      continue;
    }
    text += "%" + node.name + " : [num_users=" + std::to_string(users[i]) + "] = ";
    if (node.kind == NodeKind::placeholder)
      text += "placeholder[target=" + node.target + "]";
    else if (node.kind == NodeKind::get_attr)
      text += "get_attr[target=" + node.target + "]";
    else
      print_call(graph, node, text);
  }
  return text;
}

} // namespace tsc::graph
