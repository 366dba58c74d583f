#include "graph/check_signature.h"
#include "graph/graph_json.h"
#include "graph/output_structure.h"
#include "graph/problems.h"

#include <algorithm>
#include <charconv>
#include <unordered_map>

namespace tsc::graph {

using support::UserError;
using tensor::HostTensor;

namespace {

class GraphJsonReader {
public:
  /// `names`: of the whole file.
  GraphJsonReader(const JsonValue &root, Problems &problems, SymbolNames &names)
      : root_(root), problems_(problems), names_(names),
        values_([this](const JsonValue &name) { return lookup(name); }) {
    values_.names = &names;
  }

  Graph read() {
    if (const JsonValue *name = optional_member(root_, "name"))
      graph_.name = expect_string(*name);
    read_stage();
    read_symbols();
    read_subgraphs();
    read_constants();
    const JsonValue &nodes = expect_array(member(root_, "nodes"));
    graph_.nodes.reserve(nodes.count);
    for (const JsonValue &node : nodes)
      read_node(node);
    check_order(nodes);
    if (problems_.any()) // the signature would repeat them
      return {};
    read_signature();
    check_signature(graph_, json_pointer(root_) + "/signature/outputs", problems_);
    return std::move(graph_);
  }

private:
  NodeRef lookup(const JsonValue &name) {
    auto found = ids_.find(std::string(expect_string(name)));
    if (found == ids_.end())
      fail_at(name, "TSC-G010", "'" + std::string(name.string) + "' is used before it is defined",
              "nodes must stand in execution order");
    return {found->second};
  }

  void read_stage() {
    const JsonValue *stage = optional_member(root_, "stage");
    if (stage == nullptr)
      return;
    graph_.stage = expect_string(*stage);
    if (!graph_.stage.empty() && graph_.stage != "post_grad")
      fail_at(*stage, "TSC-G007", "the stage '" + graph_.stage + "' is not known",
              "leave it out, or say 'post_grad'");
  }

  void read_symbols() {
    const JsonValue *symbols = optional_member(root_, "symbols");
    if (symbols == nullptr)
      return;
    for (const JsonValue &range : expect_object(*symbols)) {
      if (const uint32_t count = expect_array(range).count; count != 2 && count != 3)
        fail_at(range, "TSC-G006",
                "a range is [lowest, highest], where highest may be null, or "
                "[lowest, highest, likely value]");
      if (!is_symbol_name(range.key))
        fail_at(range, "TSC-G016", "'" + std::string(range.key) + "' is no symbol's name");
      SymbolRange result;
      result.symbol = names_.symbol_of(range.key);
      result.name = names_.name_of(result.symbol);
      result.low = expect_integer(range.begin()[0]);
      if (!range.begin()[1].is_null())
        result.high = expect_integer(range.begin()[1]);
      if (result.low > result.high)
        fail_at(range, "TSC-G015", "the range of '" + std::string(range.key) + "' is empty");
      if (range.count == 3)
        result.hint = std::clamp(expect_integer(range.begin()[2]), result.low, result.high);
      values_.symbols.insert(std::string(range.key));
      graph_.symbols.push_back(result);
    }
  }

  void read_subgraphs() {
    const JsonValue *subgraphs = optional_member(root_, "subgraphs");
    if (subgraphs == nullptr)
      return;
    for (const JsonValue &subgraph : expect_object(*subgraphs)) {
      expect_only_keys(
          subgraph, {"name", "stage", "symbols", "subgraphs", "constants", "nodes", "signature"});
      std::string name(subgraph.key);
      GraphJsonReader reader(subgraph, problems_, names_);
      reader.values_.outer = &values_; // its symbols hold inside
      graph_.subgraphs.emplace(name, reader.read());
      values_.subgraphs.insert(name);
    }
  }

  void read_constants() {
    const JsonValue *constants = optional_member(root_, "constants");
    if (constants == nullptr)
      return;
    for (const JsonValue &constant : expect_object(*constants)) {
      try {
        graph_.weights.emplace(std::string(constant.key), read_constant(constant));
      } catch (const UserError &error) {
        problems_.add(error);
      }
    }
  }

  /// {"dtype": ..., "size": [...], "data": [numbers in row-major order]}, or "bytes" for "data".
  HostTensor read_constant(const JsonValue &constant) {
    expect_only_keys(constant, {"dtype", "size", "data", "bytes"});
    const JsonValue &dtype = member(constant, "dtype");
    std::optional<DType> type = tensor::parse_dtype(expect_string(dtype));
    if (!type)
      fail_at(dtype, "TSC-G012", "unknown dtype '" + std::string(dtype.string) + "'");
    std::vector<int64_t> sizes;
    int64_t count = read_sizes(member(constant, "size"), sizes);
    if (!is_listed(*type))
      return read_bytes(member(constant, "bytes"), *type, count, std::move(sizes));
    const JsonValue &data = expect_array(member(constant, "data"));
    if (count != static_cast<int64_t>(data.count))
      fail_at(data, "TSC-G023",
              "a constant of " + std::to_string(count) + " elements lists " +
                  std::to_string(data.count));
    HostTensor tensor(*type, sizes);
    int64_t index = 0;
    for (const JsonValue &element : data)
      if (element.kind == JsonKind::integer)
        tensor.set_int64(index++, element.integer);
      else if (element.kind == JsonKind::boolean)
        tensor.set_int64(index++, element.boolean ? 1 : 0);
      else
        tensor.set_double(index++, expect_number(element));
    return tensor;
  }

  /// Fills `sizes`; the number of elements.
  int64_t read_sizes(const JsonValue &value, std::vector<int64_t> &sizes) {
    int64_t count = 1, extent = 1;
    for (const JsonValue &size : expect_array(value)) {
      if (expect_integer(size) < 0)
        fail_at(size, "TSC-G013", "a tensor has the negative size " + std::to_string(size.integer));
      // Empty dimensions count as 1, so that the strides stay within 64 bits.
      if (__builtin_mul_overflow(extent, std::max<int64_t>(size.integer, 1), &extent) ||
          extent > INT32_MAX)
        fail_at(size, "TSC-G014", "a constant has more elements than it can list");
      count *= size.integer;
      sizes.push_back(size.integer);
    }
    return count;
  }

  /// Two hexadecimal digits a byte, little-endian elements in row-major order.
  HostTensor read_bytes(const JsonValue &value, DType dtype, int64_t count,
                        std::vector<int64_t> sizes) {
    std::string_view text = expect_string(value);
    size_t needed = static_cast<size_t>(count) * tensor::size_in_bytes(dtype);
    if (text.size() != 2 * needed)
      fail_at(value, "TSC-G023",
              "a constant of " + std::to_string(needed) + " bytes gives " +
                  std::to_string(text.size()) + " hexadecimal digits");
    HostTensor tensor(dtype, std::move(sizes));
    for (size_t i = 0; i < needed; ++i) {
      unsigned byte = 0;
      auto parsed = std::from_chars(text.data() + 2 * i, text.data() + 2 * i + 2, byte, 16);
      if (parsed.ec != std::errc() || parsed.ptr != text.data() + 2 * i + 2)
        fail_at(value, "TSC-G006",
                "expected hexadecimal digits, found '" + std::string(text.substr(2 * i, 2)) + "'");
      tensor.data()[i] = static_cast<std::byte>(byte);
    }
    return tensor;
  }

  NodeKind read_kind(const JsonValue &op) {
    std::string_view text = expect_string(op);
    if (text == "placeholder")
      return NodeKind::placeholder;
    if (text == "get_attr")
      return NodeKind::get_attr;
    if (text == "call_function")
      return NodeKind::call_function;
    if (text == "output")
      return NodeKind::output;
    fail_at(op, "TSC-G007", "the kind of node '" + std::string(text) + "' is not known",
            "it is placeholder, get_attr, call_function or output");
  }

  void read_node(const JsonValue &value) {
    Node node;
    try {
      const JsonValue &name = member(value, "name");
      node.name = expect_name(name);
      if (ids_.count(node.name) != 0)
        fail_at(name, "TSC-G011", "the name '" + node.name + "' is given twice");
      expect_only_keys(value, {"name", "op", "target", "args", "kwargs", "val", "stack_trace",
                               "nn_module_stack", "origins"});
      if (const JsonValue *trace = optional_member(value, "stack_trace"))
        node.stack_trace = expect_string(*trace);
      node.kind = read_kind(member(value, "op"));
      read_details(value, node);
    } catch (const UserError &error) {
      problems_.add(error, node.name, node.stack_trace);
    }
    ids_.emplace(node.name, static_cast<NodeId>(graph_.nodes.size()));
    graph_.nodes.push_back(std::move(node));
  }

  void read_details(const JsonValue &value, Node &node) {
    if (const JsonValue *stack = optional_member(value, "nn_module_stack"))
      node.nn_module_stack = expect_string(*stack);
    read_target(value, node);
    if (const JsonValue *args = optional_member(value, "args"))
      for (const JsonValue &argument : expect_array(*args))
        node.args.push_back(values_.read_argument(argument));
    if (const JsonValue *kwargs = optional_member(value, "kwargs"))
      for (const JsonValue &argument : expect_object(*kwargs))
        node.kwargs.emplace_back(std::string(argument.key), values_.read_argument(argument));
    if (node.kind == NodeKind::output && (node.args.size() != 1 || !node.kwargs.empty()))
      fail_at(value, "TSC-G015", "the output node takes exactly one argument: the list of results");
    if (const JsonValue *result = value.find("val"))
      node.value = values_.read_value(*result);
    else if (node.kind == NodeKind::placeholder)
      fail_at(value, "TSC-G005", "the key 'val' is missing; placeholders need it");
    node.origins = {node.name};
    if (const JsonValue *origins = optional_member(value, "origins")) {
      node.origins.clear();
      for (const JsonValue &origin : expect_array(*origins))
        node.origins.emplace_back(expect_string(origin));
    }
  }

  void read_target(const JsonValue &value, Node &node) {
    const JsonValue *target = optional_member(value, "target");
    if (target != nullptr)
      node.target = expect_name(*target);
    else if (node.kind == NodeKind::placeholder)
      node.target = node.name;
    else if (node.kind == NodeKind::output)
      node.target = "output";
    else
      node.target = expect_name(member(value, "target"));
    if (node.kind == NodeKind::get_attr && graph_.subgraphs.count(node.target) == 0 &&
        graph_.weights.count(node.target) == 0)
      fail_at(*target, "TSC-G010", "there is no subgraph and no constant '" + node.target + "'");
  }

  /// Placeholders first, one output, at the end.
  void check_order(const JsonValue &nodes) {
    bool seen_other = false;
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      NodeKind kind = graph_.nodes[i].kind;
      const JsonValue &at = nodes.begin()[i];
      if (kind == NodeKind::placeholder && seen_other)
        fail_at(at, "TSC-G015", "a placeholder stands after other nodes");
      seen_other = seen_other || kind != NodeKind::placeholder;
      if (kind == NodeKind::output && i + 1 != graph_.nodes.size())
        fail_at(at, "TSC-G015", "a node stands after the output node");
    }
    if (graph_.nodes.empty() || graph_.nodes.back().kind != NodeKind::output)
      fail_at(nodes, "TSC-G015", "the last node must be the output node");
  }

  void read_signature() {
    const JsonValue *signature = optional_member(root_, "signature");
    const JsonValue *inputs = nullptr, *outputs = nullptr;
    if (signature != nullptr) {
      expect_only_keys(*signature, {"inputs", "outputs", "structure"});
      inputs = optional_member(*signature, "inputs");
      outputs = optional_member(*signature, "outputs");
    }
    NodeId placeholders = 0;
    while (graph_.nodes[placeholders].kind == NodeKind::placeholder)
      ++placeholders;
    if (inputs == nullptr) {
      for (NodeId id = 0; id < placeholders; ++id)
        graph_.inputs.push_back({InputKind::user, id, "", true, {}});
    } else {
      if (expect_array(*inputs).count != placeholders)
        fail_at(*inputs, "TSC-G015",
                "the signature names " + std::to_string(inputs->count) + " inputs, the graph has " +
                    std::to_string(placeholders));
      for (const JsonValue &input : *inputs)
        graph_.inputs.push_back(read_input(input));
    }
    if (outputs == nullptr)
      default_outputs();
    else
      for (const JsonValue &output : expect_array(*outputs))
        graph_.outputs.push_back(read_output(output));
    const JsonValue *structure = signature == nullptr ? nullptr : signature->find("structure");
    if (structure != nullptr)
      graph_.structure = read_structure(*structure, graph_.outputs);
  }

  InputSpec read_input(const JsonValue &value) {
    expect_only_keys(value, {"node", "kind", "target", "persistent", "constant"});
    InputSpec spec;
    const JsonValue &name = member(value, "node");
    spec.node = lookup(name).id;
    if (spec.node != graph_.inputs.size())
      fail_at(name, "TSC-G015", "the signature's inputs must stand in the placeholders' order");
    const JsonValue &kind = member(value, "kind");
    std::optional<InputKind> parsed = parse_input_kind(expect_string(kind));
    if (!parsed)
      fail_at(kind, "TSC-G007", "the kind of input '" + std::string(kind.string) + "' is not known",
              "it is user, parameter, buffer, constant, token or custom_object");
    spec.kind = *parsed;
    if (spec.kind == InputKind::parameter || spec.kind == InputKind::buffer ||
        spec.kind == InputKind::constant_tensor)
      spec.target = expect_string(member(value, "target"));
    else if (const JsonValue *target = optional_member(value, "target"))
      spec.target = expect_string(*target);
    if (const JsonValue *persistent = optional_member(value, "persistent"))
      spec.persistent = expect_boolean(*persistent);
    if (const JsonValue *constant = value.find("constant"))
      spec.constant = values_.read_argument(*constant);
    return spec;
  }

  OutputSpec read_output(const JsonValue &value) {
    expect_only_keys(value, {"kind", "value", "target"});
    OutputSpec spec;
    const JsonValue &kind = member(value, "kind");
    std::optional<OutputKind> parsed = parse_output_kind(expect_string(kind));
    if (!parsed)
      fail_at(kind, "TSC-G007",
              "the kind of output '" + std::string(kind.string) + "' is not known",
              "it is user, buffer_mutation, input_mutation, parameter_mutation, token, loss or "
              "gradient");
    spec.kind = *parsed;
    spec.value = values_.read_argument(member(value, "value"));
    if (const JsonValue *target = optional_member(value, "target"))
      spec.target = expect_string(*target);
    return spec;
  }

  void default_outputs() {
    const Argument &result = graph_.nodes.back().args[0];
    if (const Argument::List *list = result.list())
      for (const Argument &element : *list)
        graph_.outputs.push_back({OutputKind::user, element, ""});
    else
      graph_.outputs.push_back({OutputKind::user, result, ""});
  }

  const JsonValue &root_;
  Problems &problems_;
  SymbolNames &names_;
  Graph graph_;
  GraphJsonValues values_;
  std::unordered_map<std::string, NodeId> ids_;
};

/// Names that a graph and its subgraphs declare, where they can be read.
void collect_names(const JsonValue &graph, std::vector<std::string> &names) {
  if (graph.kind != JsonKind::object)
    return;
  if (const JsonValue *symbols = graph.find("symbols");
      symbols && symbols->kind == JsonKind::object)
    for (const JsonValue &range : *symbols)
      if (is_symbol_name(range.key))
        names.emplace_back(range.key);
  const JsonValue *subgraphs = graph.find("subgraphs");
  if (subgraphs && subgraphs->kind == JsonKind::object)
    for (const JsonValue &subgraph : *subgraphs)
      collect_names(subgraph, names);
}

} // namespace

bool is_graph_json(const JsonValue &root) {
  const JsonValue *format = root.find("format");
  return format != nullptr && format->kind == JsonKind::string &&
         format->string == kGraphJsonFormat;
}

Graph read_graph_json(const JsonValue &root, const std::string &label) {
  Problems problems;
  Graph graph;
  try {
    expect_only_keys(root, {"format", "version", "name", "stage", "symbols", "subgraphs",
                            "constants", "nodes", "signature"});
    const JsonValue &version = member(root, "version");
    if (expect_integer(version) != kGraphJsonVersion)
      fail_unsupported_at(version, "TSC-G008",
                          "graph JSON of version " + std::to_string(version.integer) +
                              " is not supported, only version 1 is",
                          "use a tsc of the age of the file");
    std::vector<std::string> declared;
    collect_names(root, declared);
    SymbolNames names;
    names.declare(declared);
    graph = GraphJsonReader(root, problems, names).read();
  } catch (const UserError &error) {
    problems.add(error);
  }
  problems.throw_if_any(label);
  return graph;
}

} // namespace tsc::graph
