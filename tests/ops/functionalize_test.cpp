#include "sample_graph.h"
#include "support/diagnostic.h"
#include "testing/catch.h"

using namespace tsc;
using namespace tsc::ops;
using graph::Argument;
using graph::InputKind;
using graph::OutputKind;
using tensor::DType;
using testing::calls_of;
using testing::SampleGraph;
using List = Argument::List;

TEST_CASE("writes to a fresh tensor need no output") {
  SampleGraph sample;
  Argument x = sample.input("x", DType::f32, {4});
  Argument y = sample.call("y", "aten.exp.default", {x});
  sample.call("z", "aten.add_.Tensor", {y, 1});
  Argument w = sample.call("w", "aten.mul.Tensor", {y, 2});
  graph::Graph graph = run_graph_passes(sample.finish({w}), {});
  CHECK(calls_of(graph) == "y = aten.exp.default(%x)\n"
                           "add = aten.add.Tensor(%y, 1)\n"
                           "w = aten.mul.Tensor(%add, 2)\n");
  CHECK(graph.outputs.size() == 1);
}

TEST_CASE("mutated buffers and inputs become outputs, in front") {
  SampleGraph sample;
  Argument x = sample.input("x", DType::f32, {4});
  Argument count = sample.input("count", DType::i64, {}, InputKind::buffer);
  sample.call("a", "aten.add_.Tensor", {count, 1});
  sample.call("b", "aten.mul_.Tensor", {x, 2});
  Argument y = sample.call("y", "aten.neg.default", {x});
  graph::Graph graph = run_graph_passes(sample.finish({y}), {});
  CHECK(calls_of(graph) == "add = aten.add.Tensor(%count, 1)\n"
                           "mul = aten.mul.Tensor(%x, 2)\n"
                           "y = aten.neg.default(%mul)\n");
  REQUIRE(graph.outputs.size() == 3);
  CHECK(graph.outputs[0].kind == OutputKind::input_mutation);
  CHECK(graph.outputs[0].target == "x");
  CHECK(graph.outputs[1].kind == OutputKind::buffer_mutation);
  CHECK(graph.outputs[1].target == "module.count");
  CHECK(graph.outputs[2].kind == OutputKind::user);
  CHECK(graph.nodes.back().args[0].list()->size() == 3);
}

TEST_CASE("a write through views reaches the base and other views of it") {
  SampleGraph sample;
  Argument x = sample.input("x", DType::f32, {4, 6});
  Argument base = sample.call("base", "aten.clone.default", {x});
  Argument other = sample.call("other", "aten.transpose.int", {base, 0, 1});
  Argument part = sample.call("part", "aten.slice.Tensor", {base, 1, 2, 4});
  Argument row = sample.call("row", "aten.select.int", {part, 0, 1});
  sample.call("w", "aten.fill_.Scalar", {row, 7.0});
  Argument y = sample.call("y", "aten.neg.default", {other});
  Argument z = sample.call("z", "aten.neg.default", {part});
  graph::Graph graph = run_graph_passes(sample.finish({y, z, row}), {});
  CHECK(calls_of(graph) ==
        "part = aten.slice.Tensor(%x, 1, 2, 4)\n"
        "full = aten.full.default([2], 7.0), kwargs = {dtype: torch.float32, device: cuda:0})\n"
        "select_scatter = aten.select_scatter.default(%part, %full, 0, 1)\n"
        "slice_scatter = aten.slice_scatter.default(%x, %select_scatter, 1, 2, 4, 1)\n"
        "permute_1 = aten.permute.default(%slice_scatter, [1, 0])\n"
        "y = aten.neg.default(%permute_1)\n"
        "z = aten.neg.default(%select_scatter)\n");
}

TEST_CASE("a view of what was written sees the same memory as older views") {
  SampleGraph sample;
  Argument x = sample.input("x", DType::f32, {4, 6});
  Argument base = sample.call("base", "aten.exp.default", {x});
  Argument all = sample.call("all", "aten.view.default", {base, List{24}});
  sample.call("w1", "aten.add_.Tensor", {base, 1});
  Argument row = sample.call("row", "aten.select.int", {base, 0, 2});
  sample.call("w2", "aten.mul_.Tensor", {row, 3});
  Argument y = sample.call("y", "aten.neg.default", {all});
  graph::Graph graph = run_graph_passes(sample.finish({y}), {});
  CHECK(calls_of(graph) == "base = aten.exp.default(%x)\n"
                           "add = aten.add.Tensor(%base, 1)\n"
                           "row = aten.select.int(%add, 0, 2)\n"
                           "mul = aten.mul.Tensor(%row, 3)\n"
                           "select_scatter = aten.select_scatter.default(%add, %mul, 0, 2)\n"
                           "view = aten.view.default(%select_scatter, [24])\n"
                           "y = aten.neg.default(%view)\n");
}

TEST_CASE("a copy keeps the old value of an input that is written later") {
  SampleGraph sample;
  Argument x = sample.input("x", DType::f32, {4});
  Argument old = sample.call("old", "aten.clone.default", {x});
  sample.call("w", "aten.zero_.default", {x});
  graph::Graph graph = run_graph_passes(sample.finish({old}), {});
  CHECK(calls_of(graph).find("old = aten.clone.default(%x)") != std::string::npos);
  CHECK(graph.outputs.size() == 2);
}

TEST_CASE("the stored value takes the dtype of the memory") {
  SampleGraph sample;
  Argument x = sample.input("x", DType::f16, {4});
  Argument y = sample.call("y", "aten.exp.default", {x});
  Argument wide = sample.input("wide", DType::f32, {4});
  Argument z = sample.call("z", "aten.copy_.default", {y, wide});
  graph::Graph graph = run_graph_passes(sample.finish({z}), {});
  CHECK(calls_of(graph).find("prims.convert_element_type.default(%wide, torch.float16)") !=
        std::string::npos);
}

TEST_CASE("a write that does not fit, or goes through an unsupported view, says so") {
  SampleGraph sample;
  Argument x = sample.input("x", DType::f32, {4, 4});
  Argument y = sample.call("y", "aten.exp.default", {x});
  Argument d = sample.call("d", "aten.diagonal.default", {y});
  sample.call("w", "aten.zero_.default", {d});
  CHECK_THROWS_WITH(run_graph_passes(sample.finish({y}), {}),
                    "error TSC-O006: aten.zero_.default writes through aten.diagonal.default, "
                    "which is not supported\n"
                    "  at node w\n"
                    "  in File \"model.py\", line 3, in forward: y = f(x)\n"
                    "  next: write to the tensor itself, or to a slice, view or permutation of it");
  SampleGraph larger;
  Argument a = larger.input("a", DType::f32, {4});
  Argument b = larger.input("b", DType::f32, {3, 4});
  larger.call("w", "aten.add_.Tensor", {a, b});
  CHECK_THROWS_WITH(run_graph_passes(larger.finish({b}), {}),
                    "error TSC-O047: aten.add_.Tensor would store sizes [3, 4] in [4]\n"
                    "  at node w\n"
                    "  in File \"model.py\", line 2, in forward: y = f(x)\n"
                    "  next: make the result's sizes those of the tensor that is written");
}
