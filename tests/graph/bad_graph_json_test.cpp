#include "files.h"
#include "graph/read.h"
#include "support/diagnostic.h"
#include "testing/catch.h"

using namespace tsc::graph;
using tsc::support::ExitCode;
using tsc::support::UserError;
using tsc::testing::replaced;

namespace {

const std::string kGood = R"json({"format": "tsc-graph", "version": 1, "nodes": [
  {"name": "x", "op": "placeholder", "val": {"dtype": "float32", "size": [2, 3]}},
  {"name": "a", "op": "call_function", "target": "aten.relu.default", "args": [{"node": "x"}], "kwargs": {},
   "stack_trace": "File \"m.py\", line 3, in forward\n    return x.relu()"},
  {"name": "output", "op": "output", "args": [[{"node": "a"}]]}]})json";

/// What reading kGood with `from` replaced by `to` reports.
std::string report(const std::string &from, const std::string &to) {
  try {
    parse_graph(replaced(kGood, from, to), "g.json");
  } catch (const UserError &error) {
    return error.what();
  }
  return "nothing";
}

} // namespace

TEST_CASE("text that is no graph") {
  parse_graph(kGood, "g.json");
  const char *unrecognized =
      "error TSC-G001: this is no graph file\n  at g.json\n"
      "  next: give tsc's graph JSON, a torch.export model.json, or a .pt2 archive written by "
      "torch.export.save";
  CHECK_THROWS_WITH(parse_graph("", "g.json"), unrecognized);
  CHECK_THROWS_WITH(parse_graph("hello", "g.json"), unrecognized);
  CHECK_THROWS_WITH(parse_graph("{\"a\": 1}", "g.json"), unrecognized);
  CHECK_THROWS_WITH(parse_graph("[1]", "g.json"), unrecognized);
  CHECK_THROWS_WITH(read_graph("/nonexistent/g.json"),
                    "error TSC-T002: cannot read the file: No such file or directory\n"
                    "  at /nonexistent/g.json");
}

TEST_CASE("broken JSON says where") {
  CHECK_THROWS_WITH(
      parse_graph("{\"format\": \"tsc-graph\",\n \"version\": ", "g.json"),
      "error TSC-G002: the JSON breaks off\n  at g.json: line 2, column 13 (byte 36)\n"
      "  next: copy the file again; it is not complete");
  CHECK_THROWS_WITH(
      parse_graph("{\"format\": tsc}", "g.json"),
      "error TSC-G002: the JSON is malformed\n  at g.json: line 1, column 13 (byte 12)");
  CHECK(report("\"kwargs\": {}", R"("kwargs": {"a": 1, "a": 2})") ==
        "error TSC-G003: the key 'a' appears twice in one JSON object\n"
        "  at g.json: an object under /nodes/kwargs\n  next: remove one of the two");
  CHECK_THROWS_WITH(parse_graph("{\"a\":" + std::string(1000000, '['), "g.json"),
                    "error TSC-G004: the JSON is nested more than 256 levels deep\n  at g.json\n"
                    "  next: no graph needs such nesting; check what wrote the file");
}

TEST_CASE("every prefix of a graph is an error, never a crash") {
  for (size_t length = 0; length < kGood.size(); ++length)
    CHECK_THROWS_AS(parse_graph(kGood.substr(0, length), "g.json"), UserError);
}

TEST_CASE("names that are missing, doubled or used too early") {
  CHECK(report("[{\"node\": \"x\"}]", "[{\"node\": \"y\"}]") ==
        "error TSC-G010: 'y' is used before it is defined\n"
        "  at g.json: /nodes/1/args/0/node (node a)\n"
        "  in File \"m.py\", line 3, in forward: return x.relu()\n"
        "  next: nodes must stand in execution order");
  CHECK(report("[{\"node\": \"x\"}]", "[{\"node\": \"a\"}]").find("'a' is used before") !=
        std::string::npos); // a cycle
  CHECK(
      report("\"name\": \"a\"", "\"name\": \"x\"")
          .find(
              "error TSC-G011: the name 'x' is given twice\n  at g.json: /nodes/1/name (node x)") ==
      0);
  CHECK(
      report("\"name\": \"a\"", "\"name\": \"a b\"")
          .find("error TSC-G018: a name is empty, or has white space or control characters in it\n"
                "  at g.json: /nodes/1/name") == 0);
  CHECK(report("\"size\": [2, 3]", "\"size\": [\"s0\", 3]") ==
        "error TSC-G010: the symbol 's0' is not declared\n"
        "  at g.json: /nodes/0/val/size/0 (node x)\n  next: add it to 'symbols' with its range");
  CHECK(report("\"op\": \"call_function\"", "\"op\": \"get_attr\"")
            .find("error TSC-G010: there is no subgraph and no constant 'aten.relu.default'\n"
                  "  at g.json: /nodes/1/target (node a)") == 0);
}

TEST_CASE("sizes that cannot be") {
  CHECK(
      report("\"size\": [2, 3]", "\"size\": [2, -3]") ==
      "error TSC-G013: a tensor has the negative size -3\n  at g.json: /nodes/0/val/size (node x)");
  CHECK(report("\"size\": [2, 3]", "\"size\": [4294967296, 4294967296]") ==
        "error TSC-G014: a tensor has more than 2^63 - 1 bytes\n"
        "  at g.json: /nodes/0/val/size (node x)");
  CHECK(report("\"size\": [2, 3]", "\"size\": [99999999999999999999]") ==
        "error TSC-G006: expected an integer or the text of a size expression\n"
        "  at g.json: /nodes/0/val/size/0 (node x)");
  CHECK(report("\"size\": [2, 3]", "\"size\": [2, 3], \"stride\": [1]") ==
        "error TSC-G015: a tensor of 2 sizes has 1 strides\n"
        "  at g.json: /nodes/0/val/stride (node x)");
  CHECK(report("\"size\": [2, 3]", "\"size\": [2, 3], \"stride\": [3, -1]") ==
        "error TSC-G013: a tensor has the negative stride -1\n  at g.json: /nodes/0/val (node x)");
  CHECK(report("\"size\": [2, 3]", "\"size\": [2, 3], \"offset\": -1") ==
        "error TSC-G013: a tensor has the negative offset -1\n  at g.json: /nodes/0/val (node x)");
  CHECK(report("\"size\": [2, 3]", "\"size\": [2, 3], \"stride\": [4611686018427387904, 1]") ==
        "error TSC-G014: a tensor has more than 2^63 - 1 bytes\n"
        "  at g.json: /nodes/0/val (node x)");
}

TEST_CASE("unknown words come with the word that was meant") {
  CHECK(report("\"float32\"", "\"flaot32\"") ==
        "error TSC-G012: unknown dtype 'flaot32'\n  at g.json: /nodes/0/val/dtype (node x)\n"
        "  next: did you mean 'float32'?");
  CHECK(report("\"kwargs\"", "\"kwarg\"") ==
        "error TSC-G007: the key 'kwarg' is not known here\n  at g.json: /nodes/1/kwarg (node a)\n"
        "  next: did you mean 'kwargs'?");
  CHECK(report("\"op\": \"call_function\"", "\"op\": \"call_module\"")
            .find("error TSC-G007: the kind of node 'call_module' is not known\n"
                  "  at g.json: /nodes/1/op (node a)") == 0);
  CHECK(report("{\"node\": \"x\"}]", "{\"nod\": \"x\"}]")
            .find("error TSC-G007: the kind of argument 'nod' is not known") == 0);
  CHECK(report("\"version\": 1", "\"version\": 2") ==
        "error TSC-G008: graph JSON of version 2 is not supported, only version 1 is\n"
        "  at g.json: /version\n  next: use a tsc of the age of the file");
  CHECK(report("{\"node\": \"x\"}]", "{\"device\": \"tpu\"}]")
            .find("error TSC-G019: the device 'tpu' is not supported") == 0);
}

TEST_CASE("a graph's order and signature are checked") {
  CHECK(report("\"op\": \"placeholder\", \"val\": {\"dtype\": \"float32\", \"size\": [2, 3]}",
               "\"op\": \"placeholder\"") ==
        "error TSC-G005: the key 'val' is missing; placeholders need it\n"
        "  at g.json: /nodes/0 (node x)");
  CHECK(
      report("[{\"node\": \"a\"}]]}]", "[{\"node\": \"a\"}]]}], \"signature\": {\"inputs\": []}") ==
      "error TSC-G015: the signature names 0 inputs, the graph has 1\n"
      "  at g.json: /signature/inputs");
  CHECK(report(",\n  {\"name\": \"output\", \"op\": \"output\", \"args\": [[{\"node\": \"a\"}]]}",
               "") == "error TSC-G015: the last node must be the output node\n  at g.json: /nodes");
  CHECK(report("\"nodes\": [", "\"symbols\": {\"s0\": [5, 2]}, \"nodes\": [") ==
        "error TSC-G015: the range of 's0' is empty\n  at g.json: /symbols/s0");
  CHECK(
      report("\"nodes\": [",
             R"("constants": {"c": {"dtype": "float32", "size": [3], "data": [1]}}, "nodes": [)") ==
      "error TSC-G023: a constant of 3 elements lists 1\n  at g.json: /constants/c/data");
}

TEST_CASE("all problems of a file are in one report") {
  std::string text = replaced(kGood, "\"float32\"", "\"float33\"");
  text = replaced(text, "\"kwargs\": {}", "\"kwargs\": {\"dim\": {\"node\": \"nobody\"}}");
  text = replaced(text, "[[{\"node\": \"a\"}]]", "[[{\"expr\": \"s7\"}]]");
  try {
    parse_graph(text, "g.json");
    FAIL("no error");
  } catch (const UserError &error) {
    REQUIRE(error.diagnostics().size() == 3);
    CHECK(error.exit_code() == ExitCode::bad_input);
    CHECK(error.diagnostics()[0].code == "TSC-G012");
    CHECK(error.diagnostics()[1].code == "TSC-G010");
    CHECK(error.diagnostics()[1].place == "/nodes/1/kwargs/dim/node");
    CHECK(error.diagnostics()[2].code == "TSC-G010");
  }
}

TEST_CASE("layouts that leave what can be counted") {
  const char *text = "error TSC-G014: a tensor has more than 2^63 - 1 bytes\n"
                     "  at g.json: /nodes/0/val (node x)";
  CHECK(report("\"size\": [2, 3]",
               "\"size\": [2, 3], \"stride\": [9223372036854775807, 4611686018427387904]") == text);
  CHECK(report("\"size\": [2, 3]", "\"size\": [2, 3], \"offset\": 9223372036854775807") == text);
  CHECK(report("\"size\": [2, 3]", "\"size\": [3037000500, 3037000500]") ==
        "error TSC-G014: a tensor has more than 2^63 - 1 bytes\n"
        "  at g.json: /nodes/0/val/size (node x)");
}

TEST_CASE("a signature must say what the graph says") {
  const std::string end = "[{\"node\": \"a\"}]]}]";
  auto outputs = [&](const std::string &list) {
    return report(end, end + ", \"signature\": {\"outputs\": [" + list + "]}");
  };
  CHECK(outputs(R"({"kind": "user", "value": {"node": "a"}})") == "nothing");
  CHECK(outputs("") == "error TSC-G015: the signature names 0 outputs, the graph returns 1\n"
                       "  at g.json: /signature/outputs");
  CHECK(outputs(R"({"kind": "user", "value": {"node": "x"}})") ==
        "error TSC-G015: the signature's output 0 is not what the graph returns there\n"
        "  at g.json: /signature/outputs/0");
  std::string next = "\n  at g.json: /signature/outputs/0\n"
                     "  next: name a buffer, parameter or input as the signature's inputs do";
  CHECK(outputs(R"({"kind": "buffer_mutation", "value": {"node": "a"}, "target": "x"})") ==
        "error TSC-G026: the mutated buffer 'x' is no input of the graph" + next);
  CHECK(outputs(R"({"kind": "parameter_mutation", "value": {"node": "a"}, "target": "w"})") ==
        "error TSC-G026: the mutated parameter 'w' is no input of the graph" + next);
  CHECK(outputs(R"({"kind": "input_mutation", "value": {"node": "a"}, "target": "a"})") ==
        "error TSC-G026: the mutated input 'a' is no input of the graph" + next);
  CHECK(outputs(R"({"kind": "gradient", "value": {"node": "a"}, "target": "w"})") ==
        "error TSC-G026: the gradient's parameter or input 'w' is no input of the graph" + next);
  CHECK(outputs(R"({"kind": "gradient", "value": {"node": "a"}, "target": "x"})") == "nothing");
}

TEST_CASE("a structure must hold the results that the graph gives") {
  const auto with = [](const std::string &structure) {
    return report("{\"node\": \"a\"}]]}]}",
                  "{\"node\": \"a\"}]]}], \"signature\": {\"structure\": " + structure + "}}");
  };
  for (const char *sound : {R"("*")", R"({"tuple": ["*"]})", R"({"list": [null, "*"]})",
                            R"({"dict": [["logits", "*"], ["more", {"tuple": []}]]})",
                            R"({"record": "Pair", "fields": [["left", "*"], ["right", null]]})"})
    CHECK(with(sound) == "nothing");
  const std::string next = "\n  next: leave it out, or write it as docs/graph-format.md says";
  CHECK(with(R"({"tuple": ["*", "*"]})") ==
        "error TSC-G070: the structure of results has 2 of them, the graph gives 1\n  at g.json: "
        "/signature/structure" +
            next);
  CHECK(with("null").rfind("error TSC-G070: the structure of results has 0 of them", 0) == 0);
  for (const char *unknown :
       {R"("x")", "3", "[]", "{}", R"({"set": ["*"]})", R"({"fields": [["a", "*"]]})",
        R"({"tuple": ["*"], "list": []})", R"({"record": "Pair", "tuple": ["*"]})"})
    CHECK(with(unknown).rfind("error TSC-G070: the structure of results ", 0) == 0);
  CHECK(with(R"({"dict": ["*"]})") ==
        "error TSC-G070: the structure of results has a part here that is no pair of a key and "
        "what it is of\n  at g.json: /signature/structure/dict/0" +
            next);
  std::string deep = "\"*\"";
  for (int i = 0; i < 100; ++i)
    deep = "{\"tuple\": [" + deep + "]}";
  CHECK(with(deep).rfind("error TSC-G070: ", 0) == 0);
}

TEST_CASE("arguments and constants of rare kinds that are malformed") {
  auto argument = [](const std::string &json) { return report("{\"node\": \"x\"}]", json + "]"); };
  CHECK(argument(R"({"complex": [1]})")
            .find("error TSC-G006: a complex number is [real, imaginary]\n"
                  "  at g.json: /nodes/1/args/0/complex (node a)") == 0);
  CHECK(argument(R"({"custom_object": {"name": "o"}})")
            .find("error TSC-G005: the key 'class' is missing\n"
                  "  at g.json: /nodes/1/args/0/custom_object (node a)") == 0);
  CHECK(argument(R"({"dict": {"a": {"node": "y"}}})")
            .find("error TSC-G010: 'y' is used before it is defined\n"
                  "  at g.json: /nodes/1/args/0/dict/a/node (node a)") == 0);
  auto constant = [](const std::string &json) {
    return report("\"nodes\": [", "\"constants\": {\"c\": " + json + "}, \"nodes\": [");
  };
  CHECK(constant(R"({"dtype": "complex64", "size": [1], "bytes": "00"})") ==
        "error TSC-G023: a constant of 8 bytes gives 2 hexadecimal digits\n"
        "  at g.json: /constants/c/bytes");
  CHECK(constant(R"({"dtype": "float8_e5m2", "size": [2], "bytes": "0x+1"})") ==
        "error TSC-G006: expected hexadecimal digits, found '0x'\n"
        "  at g.json: /constants/c/bytes");
  CHECK(constant(R"({"dtype": "complex64", "size": [1], "data": [1]})") ==
        "error TSC-G005: the key 'bytes' is missing\n  at g.json: /constants/c");
  CHECK(constant(R"({"dtype": "float32", "size": [65536, 65536], "data": []})") ==
        "error TSC-G014: a constant has more elements than it can list\n"
        "  at g.json: /constants/c/size/1");
}

TEST_CASE("nesting costs no stack") {
  std::string lists = std::string(200, '[') + std::string(200, ']');
  CHECK(report("\"kwargs\": {}", "\"kwargs\": {\"dim\": " + lists + "}") == "nothing");
  std::string dictionaries;
  for (int i = 0; i < 120; ++i)
    dictionaries += "{\"dict\": {\"a\": ";
  CHECK(report("\"kwargs\": {}", "\"kwargs\": {\"dim\": " + dictionaries + "1" +
                                     std::string(240, '}') + "}") == "nothing");
}

TEST_CASE("ten thousand mistakes are a short report") {
  std::string nodes;
  for (int i = 0; i < 10000; ++i)
    nodes +=
        R"({"name": "n)" + std::to_string(i) +
        R"(", "op": "call_function", "target": "aten.relu.default", "args": [{"node": "?"}]},)";
  std::string text = report("{\"name\": \"output\"", nodes + "{\"name\": \"output\"");
  CHECK(text.size() < 20000);
  CHECK(text.find("and see 9950 more problems") != std::string::npos);
}
