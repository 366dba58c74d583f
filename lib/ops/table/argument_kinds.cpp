#include "ops/table/argument_kinds.h"

#include "ops/table/describe_call.h"
#include "ops/table/source_line.h"

#include <algorithm>

namespace tsc::ops {
namespace {

template <class... Kinds> bool holds(const Argument &argument) {
  return (std::holds_alternative<Kinds>(argument.value) || ...);
}

/// `type` without marks: "SymInt", "ScalarType".
bool is_single(const Argument &argument, std::string_view type) {
  using graph::NodeRef;
  if (type == "Tensor")
    return holds<NodeRef>(argument);
  if (type == "int" || type == "SymInt")
    return holds<NodeRef, bool, int64_t, Expr>(argument);
  if (type == "Scalar" || type == "number")
    return holds<NodeRef, bool, int64_t, double, Expr, graph::Complex>(argument);
  if (type == "float")
    return holds<NodeRef, bool, int64_t, double, Expr>(argument);
  if (type == "bool")
    return holds<NodeRef, bool, int64_t, Expr>(argument);
  if (type == "str")
    return holds<std::string>(argument);
  if (type == "ScalarType")
    return holds<DType>(argument);
  if (type == "Device") // a device without a number is a text in some graphs
    return holds<tensor::Device, std::string>(argument);
  if (type == "MemoryFormat")
    return holds<graph::MemoryFormat>(argument);
  if (type == "Layout")
    return holds<graph::TensorLayoutKind>(argument);
  return true; // Any, Generator and what is to come
}

bool is_kind(const Argument &argument, std::string_view type) {
  if (!type.empty() && type.back() == '?') {
    if (argument.is_none())
      return true;
    type.remove_suffix(1);
  }
  if (type.empty() || type.back() != ']')
    return is_single(argument, type);
  const size_t open = type.rfind('[');
  const std::string_view element = type.substr(0, open);
  const Argument::List *list = argument.list();
  if (!list) // a node may yield a list; int[1] takes an int
    return holds<graph::NodeRef>(argument) ||
           (open + 2 < type.size() && is_kind(argument, element));
  for (const Argument &item : *list)
    if (!is_kind(item, element))
      return false;
  return true;
}

/// Python's arithmetic: x + 2 is aten.add.Tensor(x, 2), the number a tensor of rank 0. So is 3 in
/// x.copy_(3), and what is converted.
bool is_operand(const Call &call, const Parameter &parameter) {
  const Schema &schema = call.schema();
  const std::string_view target = call.node().target;
  if (parameter.name == "src")
    return target == "aten.copy_.default" || target == "aten.copy.default";
  if (parameter.name == "self" &&
      (target == "aten._to_copy.default" || target.substr(0, 8) == "aten.to."))
    return true;
  const auto is_other = [](const Parameter &p) { return p.name == "other" && p.type == "Tensor"; };
  return is_other(parameter) ||
         (parameter.name == "self" && parameter.type == "Tensor" &&
          std::any_of(schema.parameters.begin(), schema.parameters.end(), is_other));
}

} // namespace

std::vector<support::Diagnostic> check_argument_kinds(const Call &call) {
  std::vector<support::Diagnostic> problems;
  for (const Parameter &parameter : call.schema().parameters) {
    const Argument &argument = call[parameter.name];
    // What is left out has its default, or None where the type allows it.
    if (is_kind(argument, parameter.type) ||
        (is_operand(call, parameter) && is_kind(argument, "Scalar")) ||
        (parameter.default_value && argument == *parameter.default_value))
      continue;
    const Node &node = call.node();
    problems.push_back({"TSC-O017",
                        node.target + ": argument '" + parameter.name + "' is " +
                            describe_argument(call.graph(), argument) + ", the schema says " +
                            parameter.type,
                        "", "", node.name, source_line(node),
                        "the form that tsc knows: " + describe_schema(node.target, call.schema())});
  }
  return problems;
}

} // namespace tsc::ops
