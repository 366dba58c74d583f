#include "files.h"
#include "graph/read.h"
#include "support/diagnostic.h"
#include "tensor/zip_archive.h"
#include "testing/catch.h"

#include <limits>

using namespace tsc::graph;
using tsc::support::ExitCode;
using tsc::support::UserError;
using tsc::testing::file_text;
using tsc::testing::replaced;
using tsc::testing::source_path;

namespace {

const char *kTensor =
    R"({"dtype": 7, "sizes": [{"as_int": 2}, {"as_int": 3}], "requires_grad": false,
  "device": {"type": "cuda", "index": 0}, "strides": [{"as_int": 3}, {"as_int": 1}],
  "storage_offset": {"as_int": 0}, "layout": 7})";

const char *kProgram = R"json({"graph_module": {"graph": {
  "inputs": [{"as_tensor": {"name": "x"}}, {"as_sym_int": {"as_name": "n"}}],
  "outputs": [{"as_tensor": {"name": "f"}}],
  "nodes": [{"target": "@TARGET@", "inputs": [@INPUTS@], "outputs": [@OUTPUTS@],
    "metadata": {"stack_trace": "File \"m.py\", line 7, in forward\n    return f(x)"}, "name": "f"}],
  "tensor_values": {"x": @TENSOR@, "f": @TENSOR@, "g": @TENSOR@, "h": @TENSOR@},
  "sym_int_values": {"n": {"as_expr": {"expr_str": "Symbol('s0', integer=True)", "hint": null}},
                     "m": {"as_int": 5}},
  "sym_float_values": {}, "sym_bool_values": {}, "is_single_tensor_return": false, "custom_obj_values": {}},
"signature": {
  "input_specs": [{"user_input": {"arg": {"as_tensor": {"name": "x"}}}},
                  {"user_input": {"arg": {"as_sym_int": {"as_name": "n"}}}}],
  "output_specs": [{"user_output": {"arg": {"as_tensor": {"name": "f"}}}}]},
"module_call_graph": [], "metadata": {}, "treespec_namedtuple_fields": {}},
"opset_version": {"aten": 10}, "range_constraints": {"s0": {"min_val": 2, "max_val": null}},
"schema_version": {"major": 8, "minor": 17}, "verifiers": ["ATEN"], "torch_version": "2.11.0",
"guards_code": []})json";

/// A program f(x, n) whose one node takes `inputs` and yields `outputs` (JSON lists' contents).
std::string program(const std::string &inputs,
                    const std::string &outputs = R"({"as_tensor": {"name": "f"}})",
                    const std::string &target = "torch.ops.aten.f.default") {
  std::string text = replaced(kProgram, "@TARGET@", target);
  text = replaced(text, "@INPUTS@", inputs);
  text = replaced(text, "@OUTPUTS@", outputs);
  for (int i = 0; i < 4; ++i)
    text = replaced(text, "@TENSOR@", kTensor);
  return text;
}

std::string input(const std::string &argument, int kind = 1, const std::string &name = "a") {
  return R"({"name": ")" + name + R"(", "arg": {)" + argument + R"(}, "kind": )" +
         std::to_string(kind) + "}";
}

/// The arguments of the node in the text form.
std::string printed(const std::string &argument) {
  Graph graph = parse_graph(program(input(argument)), "m.json");
  std::string text = to_text(graph);
  size_t begin = text.find("(args = (") + 9;
  return text.substr(begin, text.find("), kwargs") - begin);
}

std::string report(const std::string &text) {
  try {
    parse_graph(text, "m.json");
  } catch (const UserError &error) {
    return error.what();
  }
  return "nothing";
}

} // namespace

TEST_CASE("every kind of argument of schema 8 is read") {
  CHECK(printed(R"("as_none": true)") == "None,");
  CHECK(printed(R"("as_tensor": {"name": "x"})") == "%x,");
  CHECK(printed(R"("as_tensors": [{"name": "x"}, {"name": "x"}])") == "[%x, %x],");
  CHECK(printed(R"("as_int": -4)") == "-4,");
  CHECK(printed(R"("as_ints": [1, 2])") == "[1, 2],");
  CHECK(printed(R"("as_ints": [])") == "[],");
  CHECK(printed(R"("as_float": 1.0)") == "1.0,");
  CHECK(printed(R"("as_float": "-Infinity")") == "-inf,");
  CHECK(printed(R"("as_float": 3)") == "3.0,");
  CHECK(printed(R"("as_floats": [0.5, 1e-05])") == "[0.5, 1e-05],");
  CHECK(printed(R"("as_string": "tanh")") == "tanh,");
  CHECK(printed(R"("as_strings": ["a", "b"])") == "[a, b],");
  CHECK(printed(R"("as_sym_int": {"as_name": "n"})") == "%n,");
  CHECK(printed(R"("as_sym_int": {"as_int": 7})") == "7,");
  CHECK(printed(R"("as_sym_ints": [{"as_name": "n"}, {"as_int": 8}])") == "[%n, 8],");
  CHECK(printed(R"("as_sym_float": {"as_float": 2.5})") == "2.5,");
  CHECK(printed(R"("as_sym_floats": [{"as_float": 2.5}])") == "[2.5],");
  CHECK(printed(R"("as_sym_bool": {"as_bool": true})") == "True,");
  CHECK(printed(R"("as_sym_bools": [{"as_bool": false}])") == "[False],");
  CHECK(printed(R"("as_scalar_type": 13)") == "torch.bfloat16,");
  CHECK(printed(R"("as_memory_format": 4)") == "torch.preserve_format,");
  CHECK(printed(R"("as_layout": 7)") == "torch.strided,");
  CHECK(printed(R"("as_device": {"type": "cuda", "index": 1})") == "cuda:1,");
  CHECK(printed(R"("as_device": {"type": "cpu", "index": null})") == "cpu,");
  CHECK(printed(R"("as_bool": true)") == "True,");
  CHECK(printed(R"("as_bools": [true, false])") == "[True, False],");
  CHECK(printed(R"("as_optional_tensor": {"as_none": true})") == "None,");
  CHECK(printed(R"("as_optional_tensors": [{"as_tensor": {"name": "x"}}, {"as_none": true}])") ==
        "[%x, None],");
  CHECK(printed(R"("as_nested_tensors": [[{"name": "x"}], []])") == "[[%x], []],");
  CHECK(printed(R"("as_int_lists": [[1, 2], [3]])") == "[[1, 2], [3]],");
  CHECK(printed(R"("as_operator": "torch.ops.aten.sin.default")") == "aten.sin.default,");
}

TEST_CASE("arguments that no operator takes are read, too") {
  CHECK(printed(R"("as_complex": {"real": 0.5, "imag": -2.0})") == "(0.5-2j),");
  CHECK(printed(R"("as_complex": {"real": 0.0, "imag": 1.0})") == "1j,");
  CHECK(printed(R"("as_complex": {"real": -0.0, "imag": "NaN"})") == "(-0+nanj),");
  CHECK(printed(R"("as_custom_obj": {"name": "_custom_obj_0", "class_fqn": "c.D"})") ==
        "_custom_obj_0,");
  CHECK(printed(R"("as_custom_obj": {"name": "x", "class_fqn": "c.D"})") == "%x,");
  CHECK(printed(R"("as_string_to_argument": {"b": {"as_tensor": {"name": "x"}},
                    "a": {"as_string_to_argument": {"c": {"as_ints": [1]}}}})") ==
        "{b: %x, a: {c: [1]}},");
}

TEST_CASE("what no schema has is refused with its place") {
  CHECK(report(program(input(R"("as_novelty": 1)"))) ==
        "error TSC-G007: the kind of argument 'as_novelty' is not known\n"
        "  at m.json: /graph_module/graph/nodes/0/inputs/0/arg/as_novelty (node f)\n"
        "  in File \"m.py\", line 7, in forward: return f(x)\n"
        "  next: export the model with PyTorch 2.8 to 2.11");
}

TEST_CASE("positional and keyword arguments, targets of every kind") {
  Graph graph = parse_graph(
      program(input(R"("as_tensor": {"name": "x"})") + "," + input(R"("as_int": 1)", 2, "dim")),
      "m.json");
  const Node &node = graph.nodes[2];
  CHECK(node.target == "aten.f.default");
  CHECK(node.args.size() == 1);
  REQUIRE(node.kwargs.size() == 1);
  CHECK(node.kwargs[0].first == "dim");
  CHECK(node.origins == std::vector<std::string>{"f"});
  CHECK(node.stack_trace == "File \"m.py\", line 7, in forward\n    return f(x)");
  auto target = [](const std::string &name) {
    return parse_graph(program("", R"({"as_tensor": {"name": "f"}})", name), "m.json")
        .nodes[2]
        .target;
  };
  CHECK(target("_operator.mul") == "operator.mul");
  CHECK(target("torch.sym_float") == "torch.sym_float");
  CHECK(target("math.ceil") == "math.ceil");
  CHECK(target("torch.ops.mine.f.default") == "mine.f.default");
}

TEST_CASE("several results become getitem nodes, unused ones do not") {
  std::string outputs = R"({"as_tensor": {"name": "g"}}, {"as_tensor": {"name": "f_unused_1"}},
                           {"as_none": true}, {"as_tensor": {"name": "h"}}, {"as_sym_int": {"as_name": "m"}})";
  std::string text = replaced(program("", outputs), R"("h": )",
                              std::string(R"("f_unused_1": )") + kTensor + R"(, "h": )");
  text = replaced(text, R"("outputs": [{"as_tensor": {"name": "f"}}])",
                  R"("outputs": [{"as_tensor": {"name": "h"}}])");
  text = replaced(text, R"({"user_output": {"arg": {"as_tensor": {"name": "f"}}}})",
                  R"({"user_output": {"arg": {"as_tensor": {"name": "h"}}}})");
  Graph graph = parse_graph(text, "m.json");
  CHECK(to_text(graph) == "graph():\n"
                          "    %x : [num_users=0] = placeholder[target=x]\n"
                          "    %n : [num_users=0] = placeholder[target=n]\n"
                          "    %f : [num_users=3] = "
                          "call_function[target=torch.ops.aten.f.default](args = (), kwargs = {})\n"
                          "    %g : [num_users=0] = call_function[target=operator.getitem](args = "
                          "(%f, 0), kwargs = {})\n"
                          "    %h : [num_users=1] = call_function[target=operator.getitem](args = "
                          "(%f, 3), kwargs = {})\n"
                          "    %m : [num_users=0] = call_function[target=operator.getitem](args = "
                          "(%f, 4), kwargs = {})\n"
                          "    return (h,)");
  const Value::List &values = *graph.nodes[2].value->list();
  REQUIRE(values.size() == 5);
  CHECK(values[1].tensor() != nullptr);
  CHECK(std::holds_alternative<None>(values[2].value));
  CHECK(std::get<Expr>(values[4].value) == Expr(5));
}

TEST_CASE("symbols, ranges and signatures are read") {
  Graph graph = parse_graph(program(""), "m.json");
  REQUIRE(graph.symbols.size() == 1);
  CHECK(graph.symbols[0].low == 2);
  CHECK(graph.symbols[0].high == INT64_MAX);
  CHECK(std::get<Expr>(graph.nodes[1].value->value) ==
        tsc::symbolic::symbol(tsc::symbolic::SymbolSort::size, 0));
  REQUIRE(graph.inputs.size() == 2);
  CHECK(graph.inputs[1].kind == InputKind::user);
  // A symbol that no constraint names has no upper bound.
  Graph unnamed =
      parse_graph(replaced(program(""), R"("s0": {"min_val": 2, "max_val": null})", ""), "m.json");
  REQUIRE(unnamed.symbols.size() == 1);
  CHECK(unnamed.symbols[0].low == 0);
  // Floats and derived expressions have ranges, too.
  Graph floats =
      parse_graph(replaced(program(""), R"("range_constraints": {)",
                           R"("range_constraints": {"zuf0": {"min_val": null, "max_val": null},
                                          "2*s0": {"min_val": 4, "max_val": 8}, )"),
                  "m.json");
  CHECK(floats.symbols.size() == 1);
}

namespace {

/// A program of every kind of input and output.
std::string whole_signature() {
  std::string text = program("");
  std::string tensors;
  for (const char *name : {"p", "b", "c", "t"})
    tensors += std::string("\"") + name + "\": " + kTensor + ", ";
  text = replaced(text, R"("tensor_values": {)", R"("tensor_values": {)" + tensors);
  text = replaced(text,
                  R"("inputs": [{"as_tensor": {"name": "x"}}, {"as_sym_int": {"as_name": "n"}}])",
                  R"("inputs": [{"as_tensor": {"name": "t"}}, {"as_tensor": {"name": "p"}},
                       {"as_tensor": {"name": "b"}}, {"as_tensor": {"name": "c"}},
                       {"as_custom_obj": {"name": "o", "class_fqn": "__torch__.C"}},
                       {"as_tensor": {"name": "x"}}, {"as_sym_int": {"as_name": "n"}},
                       {"as_none": true}, {"as_int": 3}, {"as_float": "Infinity"},
                       {"as_bool": true}, {"as_string": "mean"}])");
  text = replaced(text, R"([{"user_input": {"arg": {"as_tensor": {"name": "x"}}}},
                  {"user_input": {"arg": {"as_sym_int": {"as_name": "n"}}}}])",
                  R"([{"token": {"arg": {"name": "t"}}},
                      {"parameter": {"arg": {"name": "p"}, "parameter_name": "layer.weight"}},
                      {"buffer": {"arg": {"name": "b"}, "buffer_name": "count", "persistent": false}},
                      {"tensor_constant": {"arg": {"name": "c"}, "tensor_constant_name": "scale"}},
                      {"custom_obj": {"arg": {"name": "o", "class_fqn": "__torch__.C"}, "custom_obj_name": "obj"}},
                      {"user_input": {"arg": {"as_tensor": {"name": "x"}}}},
                      {"user_input": {"arg": {"as_sym_int": {"as_name": "n"}}}},
                      {"constant_input": {"name": "mask", "value": {"as_none": true}}},
                      {"constant_input": {"name": "count", "value": {"as_int": 3}}},
                      {"constant_input": {"name": "scale", "value": {"as_float": "Infinity"}}},
                      {"constant_input": {"name": "flag", "value": {"as_bool": true}}},
                      {"constant_input": {"name": "mode", "value": {"as_string": "mean"}}}])");
  text = replaced(text, R"("outputs": [{"as_tensor": {"name": "f"}}],
  "nodes")",
                  R"("outputs": [{"as_tensor": {"name": "t"}}, {"as_tensor": {"name": "f"}},
                       {"as_tensor": {"name": "f"}}, {"as_tensor": {"name": "f"}}, {"as_tensor": {"name": "f"}},
                       {"as_tensor": {"name": "f"}}, {"as_tensor": {"name": "f"}},
                       {"as_sym_int": {"as_name": "n"}}, {"as_none": true}, {"as_int": 3},
                       {"as_float": 0.5}, {"as_bool": false}, {"as_string": "s"}],
  "nodes")");
  return replaced(text, R"([{"user_output": {"arg": {"as_tensor": {"name": "f"}}}}])",
                  R"([{"token": {"arg": {"name": "t"}}},
                      {"buffer_mutation": {"arg": {"name": "f"}, "buffer_name": "count"}},
                      {"user_input_mutation": {"arg": {"name": "f"}, "user_input_name": "x"}},
                      {"parameter_mutation": {"arg": {"name": "f"}, "parameter_name": "layer.weight"}},
                      {"loss_output": {"arg": {"name": "f"}}},
                      {"gradient_to_parameter": {"arg": {"name": "f"}, "parameter_name": "layer.weight"}},
                      {"gradient_to_user_input": {"arg": {"name": "f"}, "user_input_name": "x"}},
                      {"user_output": {"arg": {"as_sym_int": {"as_name": "n"}}}},
                      {"user_output": {"arg": {"as_none": true}}},
                      {"user_output": {"arg": {"as_int": 3}}},
                      {"user_output": {"arg": {"as_float": 0.5}}},
                      {"user_output": {"arg": {"as_bool": false}}},
                      {"user_output": {"arg": {"as_string": "s"}}}])");
}

} // namespace

TEST_CASE("the whole signature is read, and survives graph JSON") {
  Graph graph = parse_graph(whole_signature(), "m.json");
  using Kind = InputKind;
  std::vector<Kind> kinds;
  for (const InputSpec &input : graph.inputs)
    kinds.push_back(input.kind);
  CHECK(kinds == std::vector<Kind>{Kind::token, Kind::parameter, Kind::buffer,
                                   Kind::constant_tensor, Kind::custom_object, Kind::user,
                                   Kind::user, Kind::user, Kind::user, Kind::user, Kind::user,
                                   Kind::user});
  CHECK(graph.inputs[1].target == "layer.weight");
  CHECK_FALSE(graph.inputs[2].persistent);
  CHECK(graph.inputs[3].target == "scale");
  CHECK(graph.inputs[4].target == "obj");
  CHECK(std::get<CustomObject>(graph.nodes[4].value->value).class_name == "__torch__.C");
  CHECK(graph.inputs[6].constant == std::nullopt);
  CHECK(graph.inputs[7].constant == Argument(None{}));
  CHECK(graph.inputs[9].constant == Argument(std::numeric_limits<double>::infinity()));
  CHECK(graph.inputs[11].constant == Argument("mean"));
  CHECK(graph.nodes[11].name == "mode");
  REQUIRE(graph.outputs.size() == 13);
  CHECK(graph.outputs[0].kind == OutputKind::token);
  CHECK(graph.outputs[0].value == Argument(NodeRef{0}));
  CHECK(graph.outputs[1].kind == OutputKind::buffer_mutation);
  CHECK(graph.outputs[1].target == "count");
  CHECK(graph.outputs[2].kind == OutputKind::input_mutation);
  CHECK(graph.outputs[3].kind == OutputKind::parameter_mutation);
  CHECK(graph.outputs[4].kind == OutputKind::loss);
  CHECK(graph.outputs[5].kind == OutputKind::gradient);
  CHECK(graph.outputs[6].target == "x");
  CHECK(graph.outputs[12].value == Argument("s"));
  CHECK(to_text(graph).find("return (t, f, f, f, f, f, f, n, None, 3, 0.5, False, 's')") !=
        std::string::npos);
  Graph again = parse_graph(to_json(graph), "again");
  CHECK(again == graph);
}

TEST_CASE("signatures that the graph contradicts") {
  const std::string specs = "\n  at m.json: /graph_module/signature/output_specs";
  CHECK(report(replaced(program(""), R"([{"user_output": {"arg": {"as_tensor": {"name": "f"}}}}])",
                        "[]")) ==
        "error TSC-G015: the signature names 0 outputs, the graph returns 1" + specs);
  CHECK(report(replaced(program(""), R"("user_output": {"arg": {"as_tensor": {"name": "f"}}})",
                        R"("user_output": {"arg": {"as_tensor": {"name": "x"}}})")) ==
        "error TSC-G015: the signature's output 0 is not what the graph returns there" + specs +
            "/0");
  CHECK(report(replaced(whole_signature(), R"("buffer_name": "count"}})",
                        R"("buffer_name": "q"}})")) ==
        "error TSC-G026: the mutated buffer 'q' is no input of the graph" + specs +
            "/1\n  next: name a buffer, parameter or input as the signature's inputs do");
  CHECK(report(replaced(whole_signature(),
                        R"({"user_input": {"arg": {"as_tensor": {"name": "x"}}}},)", "")) ==
        "error TSC-G015: the signature names 11 inputs, the graph has 12\n"
        "  at m.json: /graph_module/signature/input_specs");
  CHECK(report(replaced(program(""), R"("user_output": {"arg": {"as_tensor": {"name": "f"}}})",
                        R"("user_output": {"arg": {"as_graph": {"name": "g", "graph": {}}}})")) ==
        "error TSC-G007: a graph cannot be returned" + specs + "/0/user_output/arg/as_graph");
}

TEST_CASE("strides and offsets that leave what can be counted") {
  const std::string place = "\n  at m.json: /graph_module/graph/tensor_values/x/strides";
  CHECK(report(replaced(program(""), R"("strides": [{"as_int": 3})",
                        R"("strides": [{"as_int": -3})")) ==
        "error TSC-G013: a tensor has the negative stride -3" + place);
  CHECK(report(replaced(program(""), R"("strides": [{"as_int": 3})",
                        R"("strides": [{"as_int": 9223372036854775807})")) ==
        "error TSC-G014: a tensor has more than 2^63 - 1 bytes" + place);
}

TEST_CASE("subgraphs are read with their get_attr nodes") {
  Graph graph = read_graph(source_path("tests/graph/data/branch.pt2"));
  REQUIRE(graph.subgraphs.size() == 2);
  const Graph &branch = graph.subgraphs.at("true_graph_0");
  CHECK(branch.inputs.size() == 1);
  CHECK(branch.outputs.size() == 1);
  CHECK(to_text(branch) ==
        "graph():\n"
        "    %x : [num_users=1] = placeholder[target=x]\n"
        "    %sin : [num_users=1] = call_function[target=torch.ops.aten.sin.default](args = (%x,), "
        "kwargs = {})\n"
        "    %add : [num_users=1] = call_function[target=torch.ops.aten.add.Tensor](args = (%sin, "
        "1), kwargs = {})\n"
        "    return (add,)");
}

TEST_CASE("broken programs") {
  CHECK(report(replaced(program(""), "\"major\": 8", "\"major\": 7"))
            .find("error TSC-G008: torch.export schema 7.17 is not supported, only schema 8 is\n"
                  "  at m.json: /schema_version\n  next: load it with the PyTorch that wrote it") ==
        0);
  CHECK(report(replaced(program(""), "\"verifiers\"", "\"verifier\"")) ==
        "error TSC-G007: the key 'verifier' is not known here\n  at m.json: /verifier\n"
        "  next: did you mean 'verifiers'?");
  CHECK(
      report(program(input(R"("as_tensor": {"name": "f"})")))
          .find("error TSC-G010: 'f' is used before it is defined\n"
                "  at m.json: /graph_module/graph/nodes/0/inputs/0/arg/as_tensor/name (node f)") ==
      0);
  CHECK(report(program("", R"({"as_tensor": {"name": "x"}})"))
            .find("error TSC-G011: the name 'x' is given twice") == 0);
  CHECK(report(program("", R"({"as_tensor": {"name": "q"}})"))
            .find("error TSC-G015: 'q' has no entry in the graph's values") == 0);
  CHECK(
      report(replaced(program(""), R"("sizes": [{"as_int": 2})", R"("sizes": [{"as_int": -2})")) ==
      "error TSC-G013: a tensor has the negative size -2\n"
      "  at m.json: /graph_module/graph/tensor_values/x/sizes");
  CHECK(report(replaced(program(""), R"("sizes": [{"as_int": 2})",
                        R"("sizes": [{"as_int": 4611686018427387904})")) ==
        "error TSC-G014: a tensor has more than 2^63 - 1 bytes\n"
        "  at m.json: /graph_module/graph/tensor_values/x/sizes");
  CHECK(report(replaced(program(""), R"("layout": 7)", R"("layout": 2)")) ==
        "error TSC-G019: tensors of layout torch.sparse_csr are not supported\n"
        "  at m.json: /graph_module/graph/tensor_values/x/layout\n"
        "  next: convert the tensor with .to_dense() before export");
  CHECK(report(replaced(program(""), R"({"as_tensor": {"name": "x"}}}},)",
                        R"({"as_tensor": {"name": "y"}}}},)")) ==
        "error TSC-G015: the signature calls the input 'y', the graph calls it 'x'\n"
        "  at m.json: /graph_module/signature/input_specs/0/user_input/arg/as_tensor/name");
  CHECK(report(replaced(program(""), "Symbol('s0', integer=True)", "Symbol('s0'"))
            .find("error TSC-G016: cannot read the size expression 'Symbol('s0'': expected ')' at "
                  "column 12\n"
                  "  at m.json: /graph_module/graph/sym_int_values/n/as_expr/expr_str") == 0);
}

TEST_CASE("one mistake in a node is one problem, and later ones are still found") {
  const std::string bytes = file_text("graphs/anchors/gpt2/model.pt2");
  const tsc::tensor::ZipArchive archive(
      {nullptr, reinterpret_cast<const std::byte *>(bytes.data()), bytes.size()}, "model.pt2");
  std::string text{archive.read_text(*archive.find("gpt2/models/model.json")).text()};
  text = replaced(text, R"("as_ints": [)", R"("as_intz": [)");
  text = replaced(text, "\"as_float\": ", "\"as_flaot\": ");
  try {
    parse_graph(text, "m.json");
    FAIL("no error");
  } catch (const UserError &error) {
    CHECK(error.diagnostics().size() == 2);
  }
}

TEST_CASE("every prefix of a program is an error, never a crash") {
  std::string text = program(input(R"("as_tensor": {"name": "x"})"));
  for (size_t length = 0; length < text.size(); ++length)
    CHECK_THROWS_AS(parse_graph(text.substr(0, length), "m.json"), UserError);
}

TEST_CASE("exports keep the structure of what the model gives") {
  for (const char *version : {"2.8", "2.9", "2.10", "2.11"}) {
    INFO(version);
    const Graph graph =
        read_graph(source_path("tests/graph/data/" + std::string(version) + "/nested.pt2"));
    REQUIRE(graph.structure);
    CHECK(tsc::tensor::to_json(*graph.structure) ==
          R"({"tuple":[{"dict":[["sum","*"],["list",{"list":[{"record":"Pair","fields":)"
          R"([["left","*"],["right","*"]]},"*",{"tuple":["*","*","*"]}]}]]},"*","*"]})");
    CHECK(tsc::tensor::paths_of(*graph.structure) ==
          std::vector<std::string>{"0.sum", "0.list.0.left", "0.list.0.right", "0.list.1",
                                   "0.list.2.0", "0.list.2.1", "0.list.2.2", "1", "2"});
  }
  const Graph single = read_graph(source_path("tests/graph/data/2.11/weights.pt2"));
  REQUIRE(single.structure);
  CHECK(tsc::tensor::paths_of(*single.structure) == std::vector<std::string>{""});
}
