#include "graph/export_reader.h"

#include "graph/check_signature.h"
#include "graph/data_symbols.h"
#include "graph/export_graph.h"
#include "graph/export_values.h"
#include "graph/output_structure.h"

#include <set>

namespace tsc::graph {

using support::UserError;

namespace {

constexpr int64_t kSchemaMajor = 8;
constexpr const char *kSaveAgain =
    "load it with the PyTorch that wrote it, and save it again with PyTorch 2.8 to 2.11: "
    "torch.export.save(torch.export.load(OLD), NEW)";

void check_schema_version(const JsonValue &root) {
  const JsonValue &version = member(root, "schema_version");
  int64_t major = expect_integer(member(version, "major"));
  int64_t minor = expect_integer(member(version, "minor"));
  if (major != kSchemaMajor)
    fail_unsupported_at(version, "TSC-G008",
                        "torch.export schema " + std::to_string(major) + "." +
                            std::to_string(minor) + " is not supported, only schema 8 is",
                        kSaveAgain);
}

struct InputRow {
  std::string_view key, target_key;
  InputKind kind;
};
constexpr InputRow kInputs[] = {
    {"parameter", "parameter_name", InputKind::parameter},
    {"buffer", "buffer_name", InputKind::buffer},
    {"tensor_constant", "tensor_constant_name", InputKind::constant_tensor},
    {"custom_obj", "custom_obj_name", InputKind::custom_object},
    {"token", "", InputKind::token},
};

struct OutputRow {
  std::string_view key, target_key;
  OutputKind kind;
};
constexpr OutputRow kOutputs[] = {
    {"loss_output", "", OutputKind::loss},
    {"buffer_mutation", "buffer_name", OutputKind::buffer_mutation},
    {"parameter_mutation", "parameter_name", OutputKind::parameter_mutation},
    {"gradient_to_parameter", "parameter_name", OutputKind::gradient},
    {"gradient_to_user_input", "user_input_name", OutputKind::gradient},
    {"user_input_mutation", "user_input_name", OutputKind::input_mutation},
    {"token", "", OutputKind::token},
};

Argument read_constant(const JsonValue &value) {
  const JsonValue &choice = expect_union(value);
  if (choice.key == "as_none")
    return None{};
  if (choice.key == "as_int")
    return expect_integer(choice);
  if (choice.key == "as_float")
    return expect_number(choice);
  if (choice.key == "as_string")
    return std::string(expect_string(choice));
  if (choice.key == "as_bool")
    return expect_boolean(choice);
  fail_at(choice, "TSC-G007",
          "a constant input cannot be of kind '" + std::string(choice.key) + "'");
}

/// The name in an argument of any kind; nullptr if it has none.
const JsonValue *argument_name(const JsonValue &argument) {
  const JsonValue &choice = expect_union(argument);
  if (choice.kind != JsonKind::object)
    return nullptr;
  const JsonValue *name = choice.find("name");
  return name != nullptr ? name : choice.find("as_name");
}

/// An input's specification, and where the placeholder's name stands in it (nullptr: unnamed
/// constant).
struct NamedInput {
  InputSpec spec;
  const JsonValue *name = nullptr;
};

NamedInput read_input_spec(const JsonValue &value) {
  const JsonValue &choice = expect_union(value);
  NamedInput input;
  if (choice.key == "user_input") {
    expect_only_keys(choice, {"arg"});
    input.name = argument_name(member(choice, "arg"));
    return input;
  }
  if (choice.key == "constant_input") {
    expect_only_keys(choice, {"name", "value"});
    input.name = &member(choice, "name");
    input.spec.constant = read_constant(member(choice, "value"));
    return input;
  }
  for (const InputRow &row : kInputs) {
    if (choice.key != row.key)
      continue;
    if (row.kind == InputKind::buffer) {
      expect_only_keys(choice, {"arg", "buffer_name", "persistent"});
      input.spec.persistent = expect_boolean(member(choice, "persistent"));
    } else {
      expect_only_keys(choice, {"arg", row.target_key});
    }
    input.spec.kind = row.kind;
    if (!row.target_key.empty())
      input.spec.target = expect_string(member(choice, row.target_key));
    input.name = &member(member(choice, "arg"), "name");
    return input;
  }
  fail_at(choice, "TSC-G007", "the kind of input '" + std::string(choice.key) + "' is not known",
          "export the model with PyTorch 2.8 to 2.11");
}

OutputSpec read_output_spec(const JsonValue &value, ExportGraphReader &reader) {
  const JsonValue &choice = expect_union(value);
  OutputSpec spec;
  if (choice.key == "user_output") {
    expect_only_keys(choice, {"arg"});
    spec.value = reader.read_argument(member(choice, "arg"));
    return spec;
  }
  for (const OutputRow &row : kOutputs) {
    if (choice.key != row.key)
      continue;
    expect_only_keys(choice, {"arg", row.target_key});
    spec.kind = row.kind;
    spec.value = reader.lookup(member(member(choice, "arg"), "name"));
    if (!row.target_key.empty())
      spec.target = expect_string(member(choice, row.target_key));
    return spec;
  }
  fail_at(choice, "TSC-G007", "the kind of output '" + std::string(choice.key) + "' is not known",
          "export the model with PyTorch 2.8 to 2.11");
}

std::vector<NamedInput> read_input_specs(const JsonValue &graph, const JsonValue &signature) {
  const JsonValue &specs = expect_array(member(signature, "input_specs"));
  const JsonValue &inputs = expect_array(member(graph, "inputs"));
  if (specs.count != inputs.count)
    fail_at(specs, "TSC-G015",
            "the signature names " + std::to_string(specs.count) + " inputs, the graph has " +
                std::to_string(inputs.count));
  std::vector<NamedInput> result;
  result.reserve(specs.count);
  for (uint32_t i = 0; i < specs.count; ++i) {
    result.push_back(read_input_spec(specs.begin()[i]));
    result.back().spec.node = i;
    const JsonValue *in_graph = argument_name(inputs.begin()[i]);
    const JsonValue *in_signature = result.back().name;
    if (in_graph != nullptr && in_signature != nullptr &&
        expect_string(*in_graph) != expect_string(*in_signature))
      fail_at(*in_signature, "TSC-G015",
              "the signature calls the input '" + std::string(in_signature->string) +
                  "', the graph calls it '" + std::string(in_graph->string) + "'");
  }
  return result;
}

/// Floats are no part of a size: "zf0", and "zuf0" of the data.
bool is_float_name(std::string_view text) {
  const size_t word = text.substr(0, 2) == "zf" ? 2 : text.substr(0, 3) == "zuf" ? 3 : 0;
  return word != 0 && text.size() > word &&
         text.find_first_not_of("0123456789", word) == std::string_view::npos;
}

bool is_integer_symbol(std::string_view text) {
  return is_symbol_name(text) && !is_float_name(text);
}

std::vector<std::string> names_of_ranges(const JsonValue &constraints) {
  std::vector<std::string> names;
  for (const JsonValue &constraint : expect_object(constraints))
    if (is_integer_symbol(constraint.key))
      names.emplace_back(constraint.key);
  return names;
}

std::vector<SymbolRange> read_ranges(const JsonValue &constraints, SymbolNames &names) {
  std::vector<SymbolRange> ranges;
  for (const JsonValue &constraint : expect_object(constraints)) {
    expect_only_keys(constraint, {"min_val", "max_val"});
    const JsonValue *low = optional_member(constraint, "min_val");
    const JsonValue *high = optional_member(constraint, "max_val");
    SymbolRange range;
    // Sizes are not negative; what item() reads may be.
    const bool is_integer = is_integer_symbol(constraint.key);
    if (is_integer)
      range.symbol = names.symbol_of(constraint.key);
    const bool of_data = is_integer && is_data_symbol(range.symbol);
    if (of_data)
      range.low = INT64_MIN;
    if (low != nullptr)
      range.low = std::max<int64_t>(expect_integer(*low), of_data ? INT64_MIN : 0);
    if (high != nullptr)
      range.high = expect_integer(*high);
    if (range.low > range.high)
      fail_at(constraint, "TSC-G015",
              "the range of '" + std::string(constraint.key) +
                  "' is empty: " + std::to_string(range.low) + " to " + std::to_string(range.high));
    // Ranges of derived expressions ("2*s0") follow from those of their symbols.
    if (!is_integer)
      continue;
    range.name = names.name_of(range.symbol);
    ranges.push_back(range);
  }
  return ranges;
}

void collect_symbols(const Value &value, std::vector<Expr> &symbols) {
  auto add = [&](Expr expression) {
    if (!expression.is_integer())
      for (Expr symbol : symbolic::free_symbols(expression))
        symbols.push_back(symbol);
  };
  if (const Expr *size = std::get_if<Expr>(&value.value))
    add(*size);
  if (const Value::List *list = value.list())
    for (const Value &item : *list)
      collect_symbols(item, symbols);
  if (const TensorMeta *meta = value.tensor()) {
    for (Expr size : meta->layout.sizes)
      add(size);
    for (Expr stride : meta->layout.strides)
      add(stride);
    add(meta->layout.offset);
  }
}

/// Symbols that sizes in `part` use and no constraint names have no upper bound.
void declare_symbols(Graph &graph, const Graph &part, const SymbolNames &names) {
  std::set<Expr, symbolic::ExprLess> known;
  for (const SymbolRange &range : graph.symbols)
    known.insert(range.symbol);
  std::vector<Expr> used;
  for (const Node &node : part.nodes)
    if (node.value)
      collect_symbols(*node.value, used);
  for (Expr symbol : used)
    if (known.insert(symbol).second)
      graph.symbols.push_back({symbol, 0, INT64_MAX, names.name_of(symbol)});
  for (const auto &entry : part.subgraphs)
    declare_symbols(graph, entry.second, names);
}

} // namespace

bool is_export_program(const JsonValue &root) {
  return root.find("graph_module") != nullptr && root.find("schema_version") != nullptr;
}

Graph read_export_program(const JsonValue &root, const std::string &label) {
  Problems problems;
  Graph graph;
  try {
    check_schema_version(root);
    expect_only_keys(root, {"graph_module", "opset_version", "range_constraints", "schema_version",
                            "verifiers", "torch_version", "guards_code", "dialect"});
    const JsonValue &module = member(root, "graph_module");
    expect_only_keys(module, {"graph", "signature", "module_call_graph", "metadata",
                              "treespec_namedtuple_fields"});
    const JsonValue &signature = member(module, "signature");
    expect_only_keys(signature, {"input_specs", "output_specs"});
    std::vector<NamedInput> inputs = read_input_specs(member(module, "graph"), signature);
    std::vector<std::string> names;
    names.reserve(inputs.size());
    for (const NamedInput &input : inputs)
      names.emplace_back(input.name == nullptr ? std::string_view() : expect_name(*input.name));
    SymbolNames symbols;
    symbols.declare(names_of_ranges(member(root, "range_constraints")));
    ExportGraphReader reader(problems, symbols);
    graph = reader.read(member(module, "graph"), names);
    graph.outputs.clear();
    for (NamedInput &input : inputs)
      graph.inputs.push_back(std::move(input.spec));
    for (const JsonValue &spec : expect_array(member(signature, "output_specs")))
      graph.outputs.push_back(read_output_spec(spec, reader));
    graph.structure = read_treespec(module, graph.outputs);
    graph.symbols = read_ranges(member(root, "range_constraints"), symbols);
    declare_symbols(graph, graph, symbols);
    for (SymbolRange &range : graph.symbols)
      if (const auto hint = symbols.hint_of(range.symbol);
          hint && *hint >= range.low && *hint <= range.high)
        range.hint = hint;
    if (!problems.any())
      check_signature(graph, json_pointer(signature) + "/output_specs", problems);
  } catch (const UserError &error) {
    problems.add(error);
  }
  problems.throw_if_any(label);
  return graph;
}

} // namespace tsc::graph
