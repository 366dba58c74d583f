#include "files.h"
#include "round_trip.h"

using namespace tsc::graph;
using tsc::testing::file_text;
using tsc::testing::source_path;

namespace {

/// The JSON blocks of docs/graph-format.md.
std::vector<std::string> documented_examples() {
  std::string text = file_text("docs/graph-format.md");
  std::vector<std::string> examples;
  const std::string open = "```json\n";
  for (size_t at = text.find(open); at != std::string::npos; at = text.find(open, at)) {
    at += open.size();
    examples.push_back(text.substr(at, text.find("```", at) - at));
  }
  return examples;
}

} // namespace

TEST_CASE("every example of docs/graph-format.md is read, and written back the same") {
  std::vector<std::string> examples = documented_examples();
  CHECK(examples.size() == 7);
  for (const std::string &example : examples) {
    INFO(example);
    check_round_trip(parse_graph(example, "docs/graph-format.md"));
  }
}

TEST_CASE("write, read, write gives the same bytes") {
  for (const char *name : {"seed_sum/model.json", "layernorm_gelu/model.json", "gpt2/model.pt2"}) {
    INFO(name);
    check_round_trip(read_graph(source_path(std::string("graphs/anchors/") + name)));
  }
  for (const char *name : {"tiny", "branch"}) {
    INFO(name);
    check_round_trip(read_graph(source_path(std::string("tests/graph/data/") + name + ".pt2")));
  }
  for (const char *name : {"seed_000", "seed_001", "seed_002", "seed_004"}) {
    INFO(name);
    std::string path = std::string("graphs/") + name + ".json";
    CHECK(to_json(read_graph(source_path(path))) == file_text(path));
  }
}

TEST_CASE("the graphs behind the seed logs hold what the logs say") {
  Graph graph = read_graph(source_path("graphs/seed_000.json"));
  CHECK(graph.stage == "post_grad");
  CHECK(graph.name == "seed_000");
  REQUIRE(graph.nodes.size() == 3);
  const TensorMeta &input = *graph.nodes[0].value->tensor();
  CHECK(input.dtype == DType::f16);
  CHECK(input.layout.strides == std::vector<Expr>{65536, 4096, 256, 1});
  CHECK(to_string(input.device) == "cuda:0");
  CHECK(graph.inputs.size() == 1);
  CHECK(graph.outputs.size() == 1);
  CHECK(graph.outputs[0].value == Argument(NodeRef{1}));
}

TEST_CASE("signature, symbols and constants are read") {
  Graph graph = parse_graph(documented_examples()[4], "example");
  REQUIRE(graph.inputs.size() == 5);
  CHECK(graph.inputs[0].kind == InputKind::parameter);
  CHECK(graph.inputs[0].target == "layer.weight");
  CHECK(graph.inputs[1].kind == InputKind::buffer);
  CHECK_FALSE(graph.inputs[1].persistent);
  CHECK(graph.inputs[2].kind == InputKind::constant_tensor);
  CHECK(graph.inputs[4].constant == Argument(true));
  CHECK(graph.outputs[0].kind == OutputKind::buffer_mutation);
  CHECK(graph.outputs[0].target == "count");
  CHECK(graph.weights.at("scale").get_double(1) == 2.0);

  Graph symbolic = parse_graph(documented_examples()[3], "example");
  REQUIRE(symbolic.symbols.size() == 2);
  CHECK(symbolic.symbols[0].low == 2);
  CHECK(symbolic.symbols[0].high == 1024);
  CHECK(symbolic.symbols[1].high == INT64_MAX);
  CHECK(symbolic.ranges().interval_of(tsc::symbolic::symbol(tsc::symbolic::SymbolSort::size, 0)) ==
        tsc::symbolic::Interval{2, 1024});
  CHECK(symbolic.nodes[0].value->tensor()->layout.sizes[1] == tsc::symbolic::parse("4*s1"));
}

TEST_CASE("a chain of 100,000 nodes is read, printed and written") {
  std::string json = R"({"format": "tsc-graph", "version": 1, "nodes": [
{"name": "n0", "op": "placeholder", "val": {"dtype": "float32", "size": [8]}})";
  constexpr int kNodes = 100000;
  for (int i = 1; i <= kNodes; ++i)
    json += ",\n{\"name\": \"n" + std::to_string(i) +
            "\", \"op\": \"call_function\", \"target\": \"aten.relu.default\", \"args\": "
            "[{\"node\": \"n" +
            std::to_string(i - 1) + "\"}]}";
  json += ",\n{\"name\": \"output\", \"op\": \"output\", \"args\": [[{\"node\": \"n" +
          std::to_string(kNodes) + "\"}]]}]}";
  Graph graph = parse_graph(json, "chain");
  CHECK(graph.nodes.size() == kNodes + 2);
  CHECK(to_text(graph).size() > 100 * kNodes);
  CHECK(to_text(parse_graph(to_json(graph), "again")) == to_text(graph));
}
