#include "sample_graph.h"
#include "testing/catch.h"

using namespace tsc;
using namespace tsc::ops;
using graph::Argument;
using tensor::DType;
using testing::calls_of;
using testing::SampleGraph;
using List = Argument::List;

namespace {

graph::Graph sample_with_waste() {
  SampleGraph sample;
  Argument x = sample.input("x", DType::f32, {4, 8});
  Argument i = sample.input("i", DType::i64, {4, 8});
  sample.call("dead", "aten.sin.default", {x});
  Argument a = sample.call("a", "aten.permute.default", {x, List{0, 1}});
  Argument b = sample.call("b", "aten.mul.Tensor", {a, 1});
  Argument c = sample.call("c", "aten.exp.default", {b});
  Argument d = sample.call("d", "aten.exp.default", {x});
  Argument e = sample.call("e", "aten.add.Tensor", {c, d});
  Argument f = sample.call("f", "aten.add.Tensor", {e, 0}); // kept: -0.0 + 0 is 0
  Argument g = sample.call("g", "aten.add.Tensor", {i, 0});
  Argument h = sample.call("h", "aten.add.Tensor", {f, g});
  return sample.finish({h});
}

} // namespace

TEST_CASE("clean-up removes what changes nothing, equal calls and dead nodes") {
  CHECK(calls_of(run_graph_passes(sample_with_waste(), {})) == "c = aten.exp.default(%x)\n"
                                                               "e = aten.add.Tensor(%c, %c)\n"
                                                               "f = aten.add.Tensor(%e, 0)\n"
                                                               "h = aten.add.Tensor(%f, %i)\n");
}

TEST_CASE("clean-up tells 0.0 from -0.0") {
  SampleGraph sample;
  Argument x = sample.input("x", DType::f32, {4});
  Argument a = sample.call("a", "aten.sub.Tensor", {x, -0.0}); // -0.0 - -0.0 is 0.0
  Argument b = sample.call("b", "aten.mul.Tensor", {a, 0.0});
  Argument c = sample.call("c", "aten.mul.Tensor", {a, -0.0});
  Argument d = sample.call("d", "aten.sub.Tensor", {b, 0.0});
  CHECK(calls_of(run_graph_passes(sample.finish({c, d}), {})) == "a = aten.sub.Tensor(%x, -0.0)\n"
                                                                 "b = aten.mul.Tensor(%a, 0.0)\n"
                                                                 "c = aten.mul.Tensor(%a, -0.0)\n");
}

TEST_CASE("clean-up leaves post-grad graphs alone, and all graphs when it is off") {
  graph::Graph graph = sample_with_waste();
  graph.stage = "post_grad";
  size_t nodes = graph.nodes.size();
  CHECK(run_graph_passes(graph, {}).nodes.size() == nodes);
  PassOptions off;
  off.cleanup = false;
  CHECK(run_graph_passes(sample_with_waste(), off).nodes.size() == nodes);
}

TEST_CASE("empty tensors are never merged") {
  SampleGraph sample;
  Argument x = sample.input("x", DType::f32, {4});
  Argument a = sample.call("a", "aten.empty.memory_format", {List{4}});
  Argument b = sample.call("b", "aten.empty.memory_format", {List{4}});
  Argument c = sample.call("c", "aten.add.Tensor", {a, b});
  Argument d = sample.call("d", "aten.add.Tensor", {c, x});
  graph::Graph graph = run_graph_passes(sample.finish({d}), {});
  CHECK(calls_of(graph).find("c = aten.add.Tensor(%a, %b)") != std::string::npos);
}

TEST_CASE("what moves elements stays though sizes and strides are the same") {
  SampleGraph sample;
  Argument x = sample.input("x", DType::f32, {4});
  Argument a = sample.call("a", "aten.flip.default", {x, List{0}});
  Argument b = sample.call("b", "aten.exp.default", {x});
  Argument c = sample.call("c", "aten.slice.Tensor", {b, 0, 0, 2});
  Argument d = sample.call("d", "aten.as_strided.default", {c, List{2}, List{1}, 2});
  CHECK(calls_of(run_graph_passes(sample.finish({a, d}), {})) ==
        "a = aten.flip.default(%x, [0])\n"
        "b = aten.exp.default(%x)\n"
        "d = aten.as_strided.default(%b, [2], [1], 2)\n");
}
