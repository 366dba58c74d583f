#include "graph/export_graph.h"

#include "graph/export_values.h"
#include "support/text.h"

namespace tsc::graph {

using support::UserError;

namespace {

/// "torch.ops.aten.add.Tensor" -> "aten.add.Tensor", "_operator.mul" -> "operator.mul".
std::string target_name(std::string_view target) {
  constexpr std::string_view kOps = "torch.ops.";
  if (support::starts_with(target, kOps))
    return std::string(target.substr(kOps.size()));
  if (support::starts_with(target, "_operator."))
    return std::string(target.substr(1));
  return std::string(target);
}

bool is_higher_order(std::string_view target) {
  return support::starts_with(target, "higher_order.");
}

std::string_view text_member(const JsonValue &object, std::string_view name) {
  const JsonValue *value = optional_member(object, name);
  return value == nullptr ? std::string_view() : expect_string(*value);
}

void index_by_key(const JsonValue *object,
                  std::unordered_map<std::string_view, const JsonValue *> &index) {
  if (object == nullptr)
    return;
  index.reserve(expect_object(*object).count);
  for (const JsonValue &value : *object)
    index.emplace(value.key, &value);
}

} // namespace

std::string NodeNames::unique(const std::string &base) {
  if (reserved_.count(base) == 0 && take(base))
    return base;
  for (size_t &next = next_[base];;) {
    std::string name = base + "_" + std::to_string(++next);
    if (reserved_.count(name) == 0 && take(name))
      return name;
  }
}

Graph ExportGraphReader::read(const JsonValue &graph,
                              const std::vector<std::string> &placeholder_names) {
  expect_only_keys(graph, {"inputs", "outputs", "nodes", "tensor_values", "sym_int_values",
                           "sym_bool_values", "is_single_tensor_return", "custom_obj_values",
                           "sym_float_values"});
  index_values(graph);
  const JsonValue &inputs = expect_array(member(graph, "inputs"));
  const JsonValue &nodes = expect_array(member(graph, "nodes"));
  graph_.nodes.reserve(size_t{inputs.count} + nodes.count + nodes.count / 4 + 1);
  size_t position = 0;
  for (const JsonValue &input : inputs) {
    std::string name = position < placeholder_names.size() ? placeholder_names[position] : "";
    ++position;
    read_input(input, name);
  }
  for (const JsonValue &node : nodes)
    read_node(node);
  owner_ = nullptr;
  read_outputs(graph);
  return std::move(graph_);
}

void ExportGraphReader::index_values(const JsonValue &graph) {
  index_by_key(&member(graph, "tensor_values"), tensors_);
  index_by_key(&member(graph, "sym_int_values"), sym_ints_);
  index_by_key(&member(graph, "sym_bool_values"), sym_bools_);
  index_by_key(optional_member(graph, "sym_float_values"), sym_floats_);
  for (const auto *index : {&tensors_, &sym_ints_, &sym_bools_, &sym_floats_})
    for (const auto &entry : *index)
      names_.reserve(entry.first);
}

NodeRef ExportGraphReader::lookup(const JsonValue &name) const {
  auto found = ids_.find(expect_string(name));
  if (found == ids_.end())
    fail_at(name, "TSC-G010", "'" + std::string(name.string) + "' is used before it is defined",
            "the graph's nodes must stand in execution order");
  return {found->second};
}

void ExportGraphReader::bind(const JsonValue &name, NodeId id) {
  if (!ids_.emplace(expect_string(name), id).second)
    fail_at(name, "TSC-G011", "the name '" + std::string(name.string) + "' is given twice");
}

NodeId ExportGraphReader::append(Node node, const JsonValue &at) {
  if (!names_.take(node.name))
    fail_at(at, "TSC-G011", "the name '" + node.name + "' is given twice");
  node.origins = {node.name};
  graph_.nodes.push_back(std::move(node));
  return static_cast<NodeId>(graph_.nodes.size() - 1);
}

std::optional<Value> ExportGraphReader::value_of(const JsonValue &name,
                                                 std::string_view kind) const {
  auto find = [&](const auto &index) -> const JsonValue & {
    auto found = index.find(expect_string(name));
    if (found == index.end())
      fail_at(name, "TSC-G015",
              "'" + std::string(name.string) + "' has no entry in the graph's values");
    return *found->second;
  };
  if (kind == "as_tensor")
    return Value{read_export_tensor_meta(find(tensors_), symbols_)};
  if (kind == "as_sym_int")
    return Value{read_export_sym_int(find(sym_ints_), symbols_)};
  // Symbolic floats and booleans are no integer expressions: their value is what the node computes.
  const JsonValue &choice =
      expect_union(kind == "as_sym_float" ? find(sym_floats_) : find(sym_bools_));
  if (choice.key == "as_float")
    return Value{expect_number(choice)};
  if (choice.key == "as_bool")
    return Value{expect_boolean(choice)};
  if (choice.key != "as_expr")
    fail_at(choice, "TSC-G007",
            "the kind of value '" + std::string(choice.key) + "' is not known here");
  return std::nullopt;
}

void ExportGraphReader::read_input(const JsonValue &input, const std::string &name) {
  const JsonValue &choice = expect_union(input);
  Node node;
  node.kind = NodeKind::placeholder;
  const JsonValue *bound = nullptr;
  if (choice.key == "as_tensor") {
    expect_only_keys(choice, {"name"});
    bound = &member(choice, "name");
    node.value = value_of(*bound, "as_tensor");
  } else if (choice.key == "as_custom_obj") {
    expect_only_keys(choice, {"name", "class_fqn"});
    bound = &member(choice, "name");
    node.value = Value{CustomObject{"", std::string(expect_string(member(choice, "class_fqn")))}};
  } else if (choice.key == "as_sym_int" || choice.key == "as_sym_float" ||
             choice.key == "as_sym_bool") {
    const JsonValue &symbol = expect_union(choice);
    if (symbol.key != "as_name")
      fail_at(symbol, "TSC-G015", "a graph input is the constant of a symbolic value");
    bound = &symbol;
    node.value = value_of(symbol, choice.key);
  } else if (choice.key == "as_none") {
    node.value = Value{None{}};
  } else if (choice.key == "as_int") {
    node.value = Value{Expr(expect_integer(choice))};
  } else if (choice.key == "as_float") {
    node.value = Value{expect_number(choice)};
  } else if (choice.key == "as_bool") {
    node.value = Value{expect_boolean(choice)};
  } else if (choice.key == "as_string") {
    node.value = Value{std::string(expect_string(choice))};
  } else {
    fail_at(choice, "TSC-G007",
            "a graph input cannot be of kind '" + std::string(choice.key) + "'");
  }
  if (bound != nullptr)
    node.name = expect_name(*bound);
  else
    node.name = name.empty() ? "arg" + std::to_string(graph_.nodes.size()) : name;
  node.target = node.name;
  NodeId id = append(std::move(node), input);
  if (bound != nullptr)
    bind(*bound, id);
}

/// The one value that a node yields, if it stands for the node itself; else nullptr.
const JsonValue *ExportGraphReader::own_value(const JsonValue &node) const {
  const JsonValue &outputs = expect_array(member(node, "outputs"));
  if (outputs.count != 1 || is_tuple_of_one(node))
    return nullptr;
  const JsonValue &choice = expect_union(*outputs.begin());
  if (choice.key == "as_tensor")
    return &member(choice, "name");
  bool symbolic =
      choice.key == "as_sym_int" || choice.key == "as_sym_float" || choice.key == "as_sym_bool";
  if (!symbolic)
    return nullptr;
  const JsonValue &name = expect_union(choice);
  return name.key == "as_name" ? &name : nullptr;
}

/// The name of a node that the file leaves unnamed and that is not called as its value: after its
/// operator, as torch.export.load does.
std::string ExportGraphReader::name_after_operator(const JsonValue &node) {
  std::string name(target_name(expect_name(member(node, "target"))));
  name = name.substr(name.find('.') + 1); // the operator with its overload, without its namespace
  for (char &c : name) {
    bool upper = c >= 'A' && c <= 'Z';
    bool plain = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
    c = upper ? static_cast<char>(c - 'A' + 'a') : plain ? c : '_';
  }
  const JsonValue &outputs = member(node, "outputs");
  if (outputs.count == 1 && expect_union(*outputs.begin()).key == "as_none")
    name += "_unused";
  return names_.unique(name);
}

void ExportGraphReader::name_node(const JsonValue &value, Node &node) {
  const JsonValue *given = optional_member(value, "name");
  if (given == nullptr)
    given = own_value(value);
  if (given == nullptr) {
    node.name = name_after_operator(value);
    return;
  }
  node.name = expect_name(*given);
  if (!names_.take(node.name))
    fail_at(*given, "TSC-G011", "the name '" + node.name + "' is given twice");
}

void ExportGraphReader::read_node(const JsonValue &value) {
  size_t first = graph_.nodes.size();
  Node node;
  try {
    expect_only_keys(
        value, {"target", "inputs", "outputs", "metadata", "is_hop_single_tensor_return", "name"});
    name_node(value, node);
    node.origins = {node.name};
    node.target = target_name(expect_name(member(value, "target")));
    if (const JsonValue *metadata = optional_member(value, "metadata")) {
      for (const JsonValue &entry : expect_object(*metadata))
        expect_string(entry);
      node.stack_trace = text_member(*metadata, "stack_trace");
      node.nn_module_stack = text_member(*metadata, "nn_module_stack");
    }
    read_node_inputs(member(value, "inputs"), node);
    first = graph_.nodes.size();
    graph_.nodes.push_back(node);
    read_node_outputs(value, expect_array(member(value, "outputs")), static_cast<NodeId>(first));
  } catch (const UserError &error) {
    problems_.add(error, node.name, node.stack_trace);
    // Later nodes may use this one: what it would have defined is defined, so that one mistake is
    // one problem. The graph itself is thrown away.
    if (first == graph_.nodes.size())
      graph_.nodes.push_back(node);
    const JsonValue *outputs = value.kind == JsonKind::object ? value.find("outputs") : nullptr;
    if (outputs == nullptr || outputs->kind != JsonKind::array)
      return;
    for (const JsonValue &output : *outputs)
      for (const JsonValue &choice : output) {
        const JsonValue *list = choice.kind == JsonKind::array ? &choice : &output;
        for (const JsonValue &element : *list)
          for (const JsonValue &name : element)
            if (name.kind == JsonKind::string)
              ids_.emplace(name.string, static_cast<NodeId>(first));
      }
  }
}

void ExportGraphReader::read_node_inputs(const JsonValue &inputs, Node &node) {
  bool higher_order = is_higher_order(node.target);
  owner_ = &node;
  for (const JsonValue &input : expect_array(inputs)) {
    expect_only_keys(input, {"name", "arg", "kind"});
    std::string_view name = expect_string(member(input, "name"));
    int64_t kind = 0;
    if (const JsonValue *number = optional_member(input, "kind")) {
      kind = expect_integer(*number);
      if (kind < 0 || kind > 2)
        fail_at(*number, "TSC-G007", "the argument kind " + std::to_string(kind) + " is unknown");
    }
    Argument value = read_argument(member(input, "arg"));
    bool positional = name.empty() || (!higher_order && kind == 1);
    if (positional) {
      node.args.push_back(std::move(value));
      continue;
    }
    for (const auto &keyword : node.kwargs)
      if (keyword.first == name)
        fail_at(input, "TSC-G011", "the argument '" + std::string(name) + "' is given twice");
    node.kwargs.emplace_back(std::string(name), std::move(value));
  }
}

Argument ExportGraphReader::read_graph_argument(const JsonValue &value) {
  if (owner_ == nullptr)
    fail_at(value, "TSC-G007", "a graph cannot be returned");
  expect_only_keys(value, {"name", "graph"});
  std::string name(expect_name(member(value, "name")));
  Graph subgraph = ExportGraphReader(problems_, symbols_).read(member(value, "graph"), {});
  subgraph.name = name;
  for (const Node &node : subgraph.nodes) {
    if (node.kind == NodeKind::placeholder)
      subgraph.inputs.push_back(
          {InputKind::user, static_cast<NodeId>(subgraph.inputs.size()), "", true, {}});
  }
  auto found = graph_.subgraphs.find(name);
  // One graph may be called several times; it is then written out at each call.
  if (found != graph_.subgraphs.end() && !(found->second == subgraph))
    fail_at(value, "TSC-G011", "two different subgraphs are called '" + name + "'");
  graph_.subgraphs.emplace(name, std::move(subgraph));
  Node node;
  node.kind = NodeKind::get_attr;
  node.name = names_.unique(name);
  node.target = name;
  node.stack_trace = owner_->stack_trace;
  node.nn_module_stack = owner_->nn_module_stack;
  node.origins = {node.name};
  graph_.nodes.push_back(std::move(node));
  return NodeRef{static_cast<NodeId>(graph_.nodes.size() - 1)};
}

void ExportGraphReader::read_outputs(const JsonValue &graph) {
  Argument::List list;
  for (const JsonValue &output : expect_array(member(graph, "outputs"))) {
    try {
      list.push_back(read_argument(output));
    } catch (const UserError &error) {
      problems_.add(error, "output");
    }
  }
  const JsonValue *single = optional_member(graph, "is_single_tensor_return");
  Node node;
  node.kind = NodeKind::output;
  node.target = "output";
  node.name = names_.unique("output");
  for (const Argument &argument : list)
    graph_.outputs.push_back({OutputKind::user, argument, ""});
  if (single != nullptr && expect_boolean(*single)) {
    if (list.size() != 1)
      fail_at(*single, "TSC-G015",
              "a graph that returns a single tensor has " + std::to_string(list.size()) +
                  " outputs");
    node.args = {list[0]};
  } else {
    node.args = {Argument(std::move(list))};
  }
  node.origins = {node.name};
  graph_.nodes.push_back(std::move(node));
}

} // namespace tsc::graph
