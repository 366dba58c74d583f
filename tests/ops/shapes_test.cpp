// The shape rules against the values that PyTorch recorded, dtypes, sizes, strides and offsets.
#include "graph/read.h"
#include "ops/passes/passes.h"
#include "ops/table/builder.h"
#include "ops/table/shape_rules.h"
#include "sample_graph.h"
#include "support/text.h"
#include "testing/catch.h"

#include <map>

using namespace tsc;
using namespace tsc::ops;

namespace {

const std::string kRoot = TSC_SOURCE_DIR;
const char *const kGraphs[] = {"/tests/ops/shapes.pt2",
                               "/tests/ops/shapes_core.pt2",
                               "/graphs/anchors/gpt2/model.pt2",
                               "/graphs/anchors/layernorm_gelu",
                               "/graphs/anchors/mlp_gelu",
                               "/graphs/anchors/seed_add_sum",
                               "/graphs/anchors/seed_mm_chain",
                               "/graphs/anchors/seed_sum",
                               "/graphs/anchors/softmax",
                               "/graphs/gpt2_small/default.pt2",
                               "/graphs/gpt2_small/decomposed.pt2"};

graph::Graph read(const std::string &name) {
  bool folder = name.find('.') == std::string::npos;
  return graph::read_graph(kRoot + name + (folder ? "/model.json" : ""));
}

graph::Graph without_values(graph::Graph graph) {
  for (graph::Node &node : graph.nodes)
    if (node.kind == graph::NodeKind::call_function)
      node.value.reset();
  return graph;
}

std::string describe(const graph::TensorMeta &meta) {
  return std::string(tensor::short_name(meta.dtype)) + print_sizes(meta.layout.sizes) +
         " strides " + print_sizes(meta.layout.strides) + " offset " +
         symbolic::print(meta.layout.offset) + " on " + tensor::to_string(meta.device);
}

} // namespace

TEST_CASE("inferred values are PyTorch's, strides included") {
  for (const char *name : kGraphs) {
    graph::Graph recorded = read(name);
    graph::Graph inferred = infer_shapes(without_values(recorded), {});
    size_t compared = 0;
    for (size_t i = 0; i < recorded.nodes.size(); ++i) {
      const graph::Node &node = recorded.nodes[i];
      if (node.kind != graph::NodeKind::call_function || !node.value || !node.value->tensor())
        continue;
      INFO(name << ": " << node.name << " = " << node.target);
      REQUIRE(inferred.nodes[i].value);
      REQUIRE(inferred.nodes[i].value->tensor());
      CHECK(describe(*inferred.nodes[i].value->tensor()) == describe(*node.value->tensor()));
      ++compared;
    }
    CHECK(compared > 0);
  }
}

TEST_CASE("einsum lies in memory as PyTorch's") {
  const std::map<char, int64_t> sizes = {{'a', 2}, {'b', 3}, {'c', 4}, {'d', 5}, {'h', 3},
                                         {'i', 4}, {'j', 2}, {'k', 5}, {'z', 6}};
  struct Row {
    std::string equation;
    std::vector<symbolic::Expr> strides; // of PyTorch 2.11, of contiguous operands
  };
  const Row rows[] = {{"ab,bz->abz", {18, 6, 1}},   {"ij,jk->ik", {5, 1}},
                      {"bij,bjk->ibk", {5, 20, 1}}, {"bhij,bjhd->bihd", {60, 5, 20, 1}},
                      {"i,j->ji", {4, 1}},          {"ij,kj->ki", {4, 1}},
                      {"abc,cd->dab", {6, 3, 1}},   {"abz,zc->cab", {6, 3, 1}},
                      {"ab,bc,cd->da", {1, 5}},     {"abc,abd->cdab", {5, 1, 60, 20}},
                      {"abc,bd->adc", {20, 1, 5}},  {"ab->ba", {1, 3}}};
  for (const Row &row : rows) {
    INFO(row.equation);
    testing::SampleGraph sample;
    graph::Argument::List operands;
    for (const std::string &labels :
         support::split(row.equation.substr(0, row.equation.find('-')), ',')) {
      std::vector<symbolic::Expr> shape;
      for (const char label : labels)
        shape.emplace_back(sizes.at(label));
      operands.push_back(
          sample.input("x" + std::to_string(operands.size()), tensor::DType::f32, shape));
    }
    const graph::Argument result =
        sample.call("e", "aten.einsum.default", {row.equation, operands});
    const graph::Graph graph = infer_shapes(sample.finish({result}), {});
    CHECK(graph.node(result.node()->id).value->tensor()->layout.strides == row.strides);
  }
}

TEST_CASE("a graph without recorded values ends as the same graph") {
  for (const char *name : kGraphs) {
    INFO(name);
    graph::Graph with = run_graph_passes(read(name), {});
    graph::Graph without = run_graph_passes(without_values(read(name)), {});
    CHECK(graph::to_json(with) == graph::to_json(without));
  }
}

TEST_CASE("what the passes leave is lowered as it is, with values and origins") {
  for (const char *name : kGraphs) {
    graph::Graph graph = run_graph_passes(read(name), {});
    for (const graph::Node &node : graph.nodes) {
      if (node.kind != graph::NodeKind::call_function)
        continue;
      INFO(name << ": " << node.name << " = " << node.target);
      const Operator *row = find_operator(node.target);
      REQUIRE(row != nullptr);
      CHECK_FALSE(row->lowering.empty());
      CHECK(row->lowering != "attention");
      CHECK(node.value.has_value());
      CHECK_FALSE(node.origins.empty());
    }
  }
}
