// What the verifier between passes finds in graphs that are broken on purpose.
#include "ops/passes/verify_graph.h"
#include "sample_graph.h"
#include "testing/catch.h"

#include <functional>
#include <stdexcept>

using namespace tsc;

namespace {

/// y = exp(x); z = sum(y, 0).
graph::Graph sound() {
  ops::testing::SampleGraph sample;
  const graph::Argument x = sample.input("x", tensor::DType::f32, {4, 8});
  const graph::Argument y = sample.call("y", "aten.exp.default", {x});
  const graph::Argument z =
      sample.call("z", "aten.sum.dim_IntList", {y, graph::Argument::List{int64_t{0}}});
  return ops::infer_shapes(sample.finish({z}), {});
}

std::string said_after(const std::function<void(graph::Graph &)> &change) {
  graph::Graph graph = sound();
  change(graph);
  try {
    ops::verify_graph(graph, "a pass", true);
  } catch (const std::logic_error &error) {
    return error.what();
  }
  return "";
}

graph::TensorMeta &meta(graph::Graph &graph, size_t node) {
  return std::get<graph::TensorMeta>(graph.nodes[node].value->value);
}

const std::string kHead = "internal error in verifier after a pass at ";

} // namespace

TEST_CASE("a sound graph is sound") {
  CHECK(said_after([](graph::Graph &) {}).empty());
}

TEST_CASE("a pass that breaks a graph is named with the node") {
  CHECK(said_after([](graph::Graph &graph) { graph.nodes[1].args[0] = graph::NodeRef{2}; }) ==
        kHead + "y: aten.exp.default: it refers to a node that does not stand before it");
  CHECK(said_after([](graph::Graph &graph) { graph.nodes[2].name = "y"; }) ==
        kHead + "y: aten.sum.dim_IntList: another node has this name");
  CHECK(said_after([](graph::Graph &graph) {
          std::swap(graph.nodes[0], graph.nodes[1]);
        }).find(kHead) == 0);
  CHECK(said_after([](graph::Graph &graph) {
          graph.nodes[3].kind = graph::NodeKind::call_function;
        }).find("the output node is not the last one") != std::string::npos);
  CHECK(said_after([](graph::Graph &graph) { graph.nodes[2].value.reset(); }) ==
        kHead + "z: aten.sum.dim_IntList: it has no value");
  CHECK(said_after([](graph::Graph &graph) { meta(graph, 2).layout.sizes[0] = 7; }) ==
        kHead + "z: aten.sum.dim_IntList: its value is not what the rule gives");
  CHECK(said_after([](graph::Graph &graph) { meta(graph, 1).dtype = tensor::DType::f64; }) ==
        kHead + "y: aten.exp.default: its value is not what the rule gives");
  CHECK(said_after([](graph::Graph &graph) { meta(graph, 1).layout.strides.pop_back(); }) ==
        kHead + "y: aten.exp.default: 2 sizes, 1 strides");
  CHECK(said_after([](graph::Graph &graph) { meta(graph, 1).layout.sizes[0] = -4; }) ==
        kHead + "y: aten.exp.default: the size -4 is negative");
  CHECK(said_after([](graph::Graph &graph) { graph.inputs[0].node = 1; }) ==
        "internal error in verifier after a pass: an input of the signature is no placeholder");
  CHECK(said_after([](graph::Graph &graph) { graph.outputs[0].value = graph::NodeRef{40}; }) ==
        "internal error in verifier after a pass: an output of the signature is no node");
}
