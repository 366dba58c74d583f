// Draws and the state that they start from.
#include "sample_graph.h"
#include "testing/catch.h"

using namespace tsc;
using namespace tsc::ops;
using graph::Argument;
using tensor::DType;
using testing::calls_of;
using testing::SampleGraph;
using List = Argument::List;

TEST_CASE("equal random operators are never one, and each has its stream") {
  SampleGraph sample;
  Argument x = sample.input("x", DType::f32, {4});
  Argument unused = sample.call("unused", "aten.rand.default", {List{4}});
  Argument a = sample.call("a", "aten.rand.default", {List{4}});
  Argument b = sample.call("b", "aten.rand.default", {List{4}});
  Argument y = sample.call("y", "aten.add.Tensor", {a, b});
  Argument z = sample.call("z", "aten.mul.Tensor", {x, y});
  graph::Graph graph = run_graph_passes(sample.finish({z}), {});
  // The node that clean-up removed keeps its number: those of the others do not move.
  CHECK(calls_of(graph) ==
        "random_uniform_1 = tsc.random_uniform.default(%random_state, 1, [4], 0.0, 1.0), kwargs = "
        "{dtype: torch.float32, device: cuda:0})\n"
        "random_uniform_2 = tsc.random_uniform.default(%random_state, 2, [4], 0.0, 1.0), kwargs = "
        "{dtype: torch.float32, device: cuda:0})\n"
        "y = aten.add.Tensor(%random_uniform_1, %random_uniform_2)\n"
        "z = aten.mul.Tensor(%x, %y)\n"
        "iota = prims.iota.default(2), kwargs = {start: 0, step: 1, dtype: torch.int64, device: "
        "cuda:0, requires_grad: False})\n"
        "add = aten.add.Tensor(%random_state, %iota)\n");
  REQUIRE(graph.inputs.size() == 2);
  CHECK(graph.inputs[1].kind == graph::InputKind::random_state);
  CHECK(graph.node(graph.inputs[1].node).name == "random_state");
  REQUIRE(graph.outputs.size() == 2);
  CHECK(graph.outputs[0].kind == graph::OutputKind::input_mutation);
  CHECK(graph.outputs[0].target == "random_state");
  CHECK(graph.outputs[1].kind == graph::OutputKind::user);
}

TEST_CASE("a graph that draws nothing has no random state") {
  SampleGraph sample;
  Argument x = sample.input("x", DType::f32, {4});
  Argument y = sample.call("y", "aten.dropout.default", {x, 0.5, false});
  Argument z = sample.call("z", "aten.relu.default", {y});
  graph::Graph graph = run_graph_passes(sample.finish({z}), {});
  CHECK(graph.inputs.size() == 1);
  CHECK(graph.outputs.size() == 1);
}

TEST_CASE("conditions on sizes are decided by ranges, or computed") {
  SampleGraph sample;
  const symbolic::Expr n = symbolic::symbol(symbolic::SymbolSort::size, 0);
  Argument x = sample.input("x", DType::f32, {n, 3});
  Argument size = sample.call("size", "aten.sym_size.int", {x, 0});
  Argument known = sample.call("known", "operator.gt", {size, 1});
  Argument open = sample.call("open", "operator.ge", {size, 5});
  Argument a = sample.call("a", "torch.sym_ite", {known, size, 7});
  Argument b = sample.call("b", "torch.sym_ite", {open, size, 7});
  Argument first = sample.call("first", "aten.full.default", {List{a}, 1.0});
  Argument second = sample.call("second", "aten.full.default", {List{b}, 1.0});
  graph::Graph raw = sample.finish({first, second});
  raw.symbols = {{n, 2, 9}};
  graph::Graph graph = run_graph_passes(std::move(raw), {});
  auto size_of = [&](size_t output, int64_t value) {
    const graph::TensorMeta &meta =
        *graph.node(graph.outputs[output].value.node()->id).value->tensor();
    return symbolic::evaluate(meta.layout.sizes[0], {{n, value}});
  };
  CHECK(size_of(0, 4) == 4);
  CHECK(size_of(1, 4) == 7);
  CHECK(size_of(1, 5) == 5);
  CHECK(size_of(1, 9) == 9);
}
