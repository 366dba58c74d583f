// What nodes take and yield: the Argument union of schema 8.
#include "graph/export_graph.h"
#include "graph/export_values.h"
#include "support/text.h"

namespace tsc::graph {

using support::UserError;

namespace {

/// "torch.ops.aten.add.Tensor" as FX prints an operator that is an argument.
std::string operator_name(std::string_view text) {
  constexpr std::string_view kOps = "torch.ops.";
  return std::string(support::starts_with(text, kOps) ? text.substr(kOps.size()) : text);
}

template <class Read> Argument read_each(const JsonValue &list, Read read) {
  Argument::List result;
  result.reserve(expect_array(list).count);
  for (const JsonValue &element : list)
    result.push_back(read(element));
  return result;
}

} // namespace

/// A higher-order operator that yields a tuple of one says so; then a getitem unpacks it.
bool is_tuple_of_one(const JsonValue &node) {
  const JsonValue *single = optional_member(node, "is_hop_single_tensor_return");
  return single != nullptr && !expect_boolean(*single) &&
         support::starts_with(expect_string(member(node, "target")), "torch.ops.higher_order.") &&
         member(node, "outputs").count == 1;
}

/// SymIntArgument, SymFloatArgument, SymBoolArgument.
Argument ExportGraphReader::read_symbolic(const JsonValue &value) const {
  const JsonValue &choice = expect_union(value);
  if (choice.key == "as_name")
    return lookup(choice);
  if (choice.key == "as_int")
    return expect_integer(choice);
  if (choice.key == "as_float")
    return expect_number(choice);
  if (choice.key == "as_bool")
    return expect_boolean(choice);
  fail_at(choice, "TSC-G007",
          "the kind of symbolic argument '" + std::string(choice.key) + "' is not known here");
}

Argument ExportGraphReader::read_list(const JsonValue &list) {
  auto tensor = [this](const JsonValue &element) -> Argument {
    expect_only_keys(element, {"name"});
    return lookup(member(element, "name"));
  };
  std::string_view kind = list.key;
  if (kind == "as_tensors")
    return read_each(list, tensor);
  if (kind == "as_nested_tensors")
    return read_each(list, [&](const JsonValue &inner) { return read_each(inner, tensor); });
  if (kind == "as_optional_tensors")
    return read_each(list, [&](const JsonValue &element) { return read_argument(element); });
  if (kind == "as_ints")
    return read_each(list, [](const JsonValue &e) { return Argument(expect_integer(e)); });
  if (kind == "as_int_lists")
    return read_each(list, [](const JsonValue &inner) {
      return read_each(inner, [](const JsonValue &e) { return Argument(expect_integer(e)); });
    });
  if (kind == "as_floats")
    return read_each(list, [](const JsonValue &e) { return Argument(expect_number(e)); });
  if (kind == "as_bools")
    return read_each(list, [](const JsonValue &e) { return Argument(expect_boolean(e)); });
  if (kind == "as_strings")
    return read_each(list,
                     [](const JsonValue &e) { return Argument(std::string(expect_string(e))); });
  if (kind == "as_sym_ints" || kind == "as_sym_floats" || kind == "as_sym_bools")
    return read_each(list, [this](const JsonValue &e) { return read_symbolic(e); });
  fail_at(list, "TSC-G007", "the kind of argument '" + std::string(kind) + "' is not known",
          "export the model with PyTorch 2.8 to 2.11");
}

/// A node's value, or an object that the file keeps under this name.
Argument ExportGraphReader::read_custom_object(const JsonValue &value) const {
  expect_only_keys(value, {"name", "class_fqn"});
  const JsonValue &name = member(value, "name");
  std::string_view class_name = expect_string(member(value, "class_fqn"));
  if (ids_.count(expect_string(name)) != 0)
    return lookup(name);
  return CustomObject{std::string(expect_name(name)), std::string(class_name)};
}

Argument ExportGraphReader::read_argument(const JsonValue &value) {
  const JsonValue &choice = expect_union(value);
  std::string_view kind = choice.key;
  if (kind == "as_tensor") {
    expect_only_keys(choice, {"name"});
    return lookup(member(choice, "name"));
  }
  if (kind == "as_none")
    return None{};
  if (kind == "as_int")
    return expect_integer(choice);
  if (kind == "as_float")
    return expect_number(choice);
  if (kind == "as_bool")
    return expect_boolean(choice);
  if (kind == "as_string")
    return std::string(expect_string(choice));
  if (kind == "as_scalar_type")
    return read_export_dtype(choice);
  if (kind == "as_memory_format")
    return read_export_memory_format(choice);
  if (kind == "as_layout")
    return read_export_layout(choice);
  if (kind == "as_device")
    return read_export_device(choice);
  if (kind == "as_sym_int" || kind == "as_sym_float" || kind == "as_sym_bool")
    return read_symbolic(choice);
  if (kind == "as_optional_tensor")
    return read_argument(choice);
  if (kind == "as_operator")
    return operator_name(expect_string(choice));
  if (kind == "as_complex") {
    expect_only_keys(choice, {"real", "imag"});
    return Complex{expect_number(member(choice, "real")), expect_number(member(choice, "imag"))};
  }
  if (kind == "as_custom_obj")
    return read_custom_object(choice);
  if (kind == "as_string_to_argument") {
    Argument::Dictionary dictionary;
    for (const JsonValue &entry : expect_object(choice))
      dictionary.entries.emplace_back(std::string(entry.key), read_argument(entry));
    return dictionary;
  }
  if (kind == "as_graph")
    return read_graph_argument(choice);
  if (choice.kind == JsonKind::array || choice.kind == JsonKind::null)
    return read_list(choice);
  fail_at(choice, "TSC-G007", "the kind of argument '" + std::string(kind) + "' is not known",
          "export the model with PyTorch 2.8 to 2.11");
}

void ExportGraphReader::add_getitem(NodeId owner, size_t index, const JsonValue &name,
                                    std::optional<Value> value) {
  // The exporter makes up a name for what nothing reads; FX has no node for it.
  std::string unused = graph_.nodes[owner].name + "_unused_" + std::to_string(index);
  if (expect_string(name) == unused)
    return;
  Node node;
  node.name = expect_name(name);
  node.target = "operator.getitem";
  node.args = {NodeRef{owner}, Argument(static_cast<int64_t>(index))};
  node.value = std::move(value);
  node.stack_trace = graph_.nodes[owner].stack_trace;
  node.nn_module_stack = graph_.nodes[owner].nn_module_stack;
  bind(name, append(std::move(node), name));
}

/// A list among the outputs: a getitem for the list, and one for each of its tensors.
std::optional<Value> ExportGraphReader::read_output_list(const JsonValue &list, NodeId owner) {
  Value::List values;
  size_t position = 0;
  for (const JsonValue &element : expect_array(list)) {
    expect_only_keys(element, {"name"});
    const JsonValue &name = member(element, "name");
    values.push_back(*value_of(name, "as_tensor"));
    add_getitem(owner, position++, name, values.back());
  }
  return Value{std::move(values)};
}

std::optional<Value> ExportGraphReader::read_output(const JsonValue &output, NodeId owner,
                                                    size_t index) {
  const JsonValue &choice = expect_union(output);
  if (choice.key == "as_none")
    return Value{None{}};
  if (choice.key == "as_tensor") {
    expect_only_keys(choice, {"name"});
    const JsonValue &name = member(choice, "name");
    std::optional<Value> value = value_of(name, choice.key);
    add_getitem(owner, index, name, value);
    return value;
  }
  if (choice.key == "as_sym_int" || choice.key == "as_sym_float" || choice.key == "as_sym_bool") {
    const JsonValue &name = expect_union(choice);
    if (name.key != "as_name") {
      Argument constant = read_symbolic(choice);
      if (const auto *integer = std::get_if<int64_t>(&constant.value))
        return Value{Expr(*integer)};
      return std::nullopt;
    }
    std::optional<Value> value = value_of(name, choice.key);
    add_getitem(owner, index, name, value);
    return value;
  }
  if (choice.key == "as_tensors") {
    Node list;
    list.name = names_.unique("getitem");
    list.origins = {list.name};
    list.target = "operator.getitem";
    list.args = {NodeRef{owner}, Argument(static_cast<int64_t>(index))};
    list.stack_trace = graph_.nodes[owner].stack_trace;
    list.nn_module_stack = graph_.nodes[owner].nn_module_stack;
    graph_.nodes.push_back(std::move(list));
    auto id = static_cast<NodeId>(graph_.nodes.size() - 1);
    std::optional<Value> value = read_output_list(choice, id);
    graph_.nodes[id].value = value;
    return value;
  }
  fail_at(choice, "TSC-G007", "a node cannot yield a '" + std::string(choice.key) + "'",
          "export the model with PyTorch 2.8 to 2.11");
}

void ExportGraphReader::read_node_outputs(const JsonValue &node, const JsonValue &outputs,
                                          NodeId id) {
  if (const JsonValue *name = own_value(node)) {
    graph_.nodes[id].value = value_of(*name, expect_union(*outputs.begin()).key);
    bind(*name, id);
    return;
  }
  if (outputs.count == 0) {
    graph_.nodes[id].value = Value{None{}};
    return;
  }
  if (outputs.count == 1 && !is_tuple_of_one(node)) {
    const JsonValue &choice = expect_union(*outputs.begin());
    if (choice.key == "as_none") {
      graph_.nodes[id].value = Value{None{}};
      return;
    }
    if (choice.key == "as_tensors") {
      std::optional<Value> value = read_output_list(choice, id);
      graph_.nodes[id].value = std::move(value);
      return;
    }
  }
  Value::List values;
  bool complete = true;
  size_t index = 0;
  for (const JsonValue &output : outputs) {
    std::optional<Value> value = read_output(output, id, index++);
    complete = complete && value.has_value();
    values.push_back(value.value_or(Value{}));
  }
  if (complete)
    graph_.nodes[id].value = Value{std::move(values)};
}

} // namespace tsc::graph
