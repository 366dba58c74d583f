#include "sample_graph.h"
#include "support/diagnostic.h"
#include "testing/catch.h"

using namespace tsc;
using namespace tsc::ops;
using tensor::DType;
using testing::SampleGraph;

namespace {

std::string message_of(const graph::Graph &graph) {
  try {
    run_graph_passes(graph, {});
  } catch (const support::UserError &error) {
    return error.what();
  }
  return "no error";
}

} // namespace

TEST_CASE("all unknown operators are in one report, each once") {
  SampleGraph sample;
  graph::Argument x = sample.input("x", DType::f32, {2, 3});
  graph::Argument a = sample.call("a", "aten.no_such_thing.default", {x});
  graph::Argument b = sample.call("b", "aten.ad.Tensor", {a, x});
  graph::Argument c = sample.call("c", "aten.no_such_thing.default", {b});
  graph::Graph graph = sample.finish({c});
  CHECK(message_of(graph) ==
        "error TSC-O001: the operator aten.no_such_thing.default is not supported (2 calls)\n"
        "  at node a\n"
        "  in File \"model.py\", line 1, in forward: y = f(x)\n"
        "  next: docs/operators.md lists what is supported\n"
        "error TSC-O001: the operator aten.ad.Tensor is not supported (1 call)\n"
        "  at node b\n"
        "  in File \"model.py\", line 2, in forward: y = f(x)\n"
        "  next: did you mean aten.add.Tensor? docs/operators.md lists what is supported");
  try {
    check_operators(graph, {});
    FAIL("no error");
  } catch (const support::UserError &error) {
    CHECK(error.exit_code() == support::ExitCode::unsupported);
  }
}

TEST_CASE("arguments that contradict the schema are reported together") {
  SampleGraph sample;
  graph::Argument x = sample.input("x", DType::f32, {2, 3});
  graph::Argument a = sample.call("a", "aten.neg.default", {x, x});
  graph::Argument b = sample.call("b", "aten.softmax.int", {a}, {{"dims", 1}});
  CHECK(message_of(sample.finish({b})) ==
        "error TSC-O010: aten.neg.default takes 1 arguments, 2 given\n"
        "  at node a\n"
        "  in File \"model.py\", line 1, in forward: y = f(x)\n"
        "  next: the form that tsc knows: aten.neg.default(Tensor self)\n"
        "error TSC-O011: aten.softmax.int has no argument 'dims'\n"
        "  at node b\n"
        "  in File \"model.py\", line 2, in forward: y = f(x)\n"
        "  next: the form that tsc knows: aten.softmax.int(Tensor self, int dim, ScalarType? "
        "dtype=None)");
}

TEST_CASE("sizes that do not fit are reported, all of them") {
  SampleGraph sample;
  graph::Argument x = sample.input("x", DType::f32, {2, 3});
  graph::Argument y = sample.input("y", DType::f32, {4, 3});
  graph::Argument a = sample.call("a", "aten.add.Tensor", {x, y});
  graph::Argument b = sample.call("b", "aten.mm.default", {x, y});
  graph::Argument c = sample.call("c", "aten.view.default", {x, graph::Argument::List{4, -1}});
  graph::Argument d = sample.call("d", "aten.neg.default", {a}); // depends on what failed
  CHECK(message_of(sample.finish({b, c, d})) ==
        "error TSC-O020: aten.add.Tensor: sizes [2, 3] and [4, 3] do not broadcast (dimension 0)\n"
        "  at node a\n"
        "  in File \"model.py\", line 2, in forward: y = f(x)\n"
        "  next: make the sizes equal, or one of them 1\n"
        "error TSC-O040: aten.mm.default: sizes [2, 3] and [4, 3] do not multiply\n"
        "  at node b\n"
        "  in File \"model.py\", line 3, in forward: y = f(x)\n"
        "  next: make the last size of the first equal the second last of the second\n"
        "error TSC-O022: aten.view.default: sizes [4, -1] do not hold the 6 elements of [2, 3]\n"
        "  at node c\n"
        "  in File \"model.py\", line 4, in forward: y = f(x)\n"
        "  next: choose sizes with the same product");
}

TEST_CASE("a recorded value that contradicts the rules is an error") {
  SampleGraph sample;
  graph::Argument x = sample.input("x", DType::f32, {2, 3});
  graph::Argument a = sample.call("a", "aten.sum.dim_IntList", {x, graph::Argument::List{1}});
  graph::Graph graph = sample.finish({a});
  graph::TensorMeta wrong;
  wrong.layout = tensor::contiguous_layout({3});
  graph.nodes[1].value = graph::Value{wrong};
  CHECK(message_of(graph) == "error TSC-O050: aten.sum.dim_IntList yields torch.float32 [2], the "
                             "file says torch.float32 [3]\n"
                             "  at node a\n"
                             "  in File \"model.py\", line 1, in forward: y = f(x)\n"
                             "  next: correct the node's val, or leave it out");
}
