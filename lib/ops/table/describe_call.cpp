#include "ops/table/describe_call.h"

#include "graph/symbol_names.h"
#include "ops/table/shape_rules.h"
#include "support/text.h"

namespace tsc::ops {
namespace {

constexpr size_t kMostElements = 8; // of a list: its kind and its first elements say enough

/// "float32[2, 3]"; "" for what is no tensor.
std::string type_of(const Graph &graph, const Argument &argument) {
  const graph::NodeRef *reference = argument.node();
  if (!reference || !graph.node(reference->id).value)
    return "";
  const TensorMeta *meta = graph.node(reference->id).value->tensor();
  if (!meta)
    return "";
  return std::string(tensor::torch_name(meta->dtype)).substr(6) + print_sizes(meta->layout.sizes);
}

struct ArgumentPrinter {
  const Graph &graph;

  std::string operator()(graph::None) const { return "None"; }
  std::string operator()(bool value) const { return value ? "True" : "False"; }
  std::string operator()(int64_t value) const { return std::to_string(value); }
  std::string operator()(double value) const { return support::python_repr(value); }
  std::string operator()(const std::string &value) const { return support::python_repr(value); }
  std::string operator()(Expr value) const {
    return symbolic::print(value, graph::symbol_writer(graph.symbols));
  }
  std::string operator()(graph::NodeRef value) const { return graph.node(value.id).name; }
  std::string operator()(DType value) const { return std::string(tensor::torch_name(value)); }
  std::string operator()(const tensor::Device &value) const {
    return support::python_repr(tensor::to_string(value));
  }
  std::string operator()(graph::MemoryFormat value) const {
    static const char *const kNames[] = {"contiguous", "channels_last", "channels_last_3d",
                                         "preserve"};
    return std::string("torch.") + kNames[static_cast<size_t>(value)] + "_format";
  }
  std::string operator()(const graph::TensorLayoutKind &value) const { return value.name; }
  std::string operator()(const graph::GraphRef &value) const { return value.name; }
  std::string operator()(const graph::Complex &value) const { return graph::python_repr(value); }
  std::string operator()(const graph::CustomObject &value) const {
    return value.name + ", an object of " + value.class_name;
  }
  std::string operator()(const Argument::Dictionary &dictionary) const {
    std::vector<std::string> parts;
    for (const auto &entry : dictionary.entries) {
      if (parts.size() == kMostElements) {
        parts.push_back("and " + std::to_string(dictionary.entries.size() - kMostElements) +
                        " more");
        break;
      }
      parts.push_back(support::python_repr(entry.first) + ": " +
                      describe_argument(graph, entry.second));
    }
    return "{" + support::join(parts, ", ") + "}";
  }
  std::string operator()(const Argument::List &list) const {
    std::vector<std::string> parts;
    for (const Argument &item : list) {
      if (parts.size() == kMostElements) {
        parts.push_back("and " + std::to_string(list.size() - kMostElements) + " more");
        break;
      }
      const std::string type = type_of(graph, item);
      parts.push_back(describe_argument(graph, item) + (type.empty() ? "" : ": " + type));
    }
    return "[" + support::join(parts, ", ") + "]";
  }
};

} // namespace

std::string describe_argument(const Graph &graph, const Argument &argument) {
  return std::visit(ArgumentPrinter{graph}, argument.value);
}

std::vector<DescribedArgument> describe_arguments(const Graph &graph, const Node &node) {
  const Operator *row = find_operator(node.target);
  std::vector<DescribedArgument> described;
  const auto add = [&](std::string name, const Argument &argument) {
    described.push_back(
        {std::move(name), describe_argument(graph, argument), type_of(graph, argument)});
  };
  for (size_t i = 0; i < node.args.size(); ++i)
    add(row && i < row->schema.parameters.size() ? row->schema.parameters[i].name : "",
        node.args[i]);
  for (const auto &keyword : node.kwargs)
    add(keyword.first, keyword.second);
  return described;
}

std::string describe_call(const std::string &target,
                          const std::vector<DescribedArgument> &arguments) {
  std::vector<std::string> parts;
  for (const DescribedArgument &argument : arguments)
    parts.push_back((argument.name.empty() ? "" : argument.name + "=") + argument.value +
                    (argument.type.empty() ? "" : ": " + argument.type));
  return target + "(" + support::join(parts, ", ") + ")";
}

std::string describe_schema(std::string_view target, const Schema &schema) {
  const Graph none;
  std::vector<std::string> parts;
  bool keyword_only = false;
  for (const Parameter &parameter : schema.parameters) {
    if (parameter.keyword_only && !keyword_only)
      parts.push_back("*");
    keyword_only = parameter.keyword_only;
    parts.push_back(
        parameter.type + " " + parameter.name +
        (parameter.default_value ? "=" + describe_argument(none, *parameter.default_value) : ""));
  }
  return std::string(target) + "(" + support::join(parts, ", ") + ")";
}

} // namespace tsc::ops
