// Launches of several kernels over sizes that only the launch knows, and operators over lists that
// are refused.
#include "driver/compile.h"
#include "driver/reference.h"
#include "graph/read.h"
#include "runtime/session.h"
#include "testing/catch.h"

using namespace tsc;

namespace {

/// Two equal pointwise kernels, one with other loops, sums of rows and of columns, all over s0 and
/// s1.
constexpr const char *kSymbolic = R"({
  "format": "tsc-graph", "version": 1, "symbols": {"s0": [1, 4096], "s1": [1, 4096]},
  "nodes": [
    {"name": "a", "op": "placeholder", "val": {"dtype": "float32", "size": ["s0"]}},
    {"name": "b", "op": "placeholder", "val": {"dtype": "float32", "size": ["s0"]}},
    {"name": "c", "op": "placeholder", "val": {"dtype": "bfloat16", "size": ["s1", 3]}},
    {"name": "d", "op": "placeholder", "val": {"dtype": "float32", "size": [5, "s1"]}},
    {"name": "exp", "op": "call_function", "target": "aten.exp.default", "args": [{"node": "a"}]},
    {"name": "exp_1", "op": "call_function", "target": "aten.exp.default", "args": [{"node": "b"}]},
    {"name": "sigmoid", "op": "call_function", "target": "aten.sigmoid.default", "args": [{"node": "c"}]},
    {"name": "sum", "op": "call_function", "target": "aten.sum.dim_IntList", "args": [{"node": "d"}, [1]]},
    {"name": "amax", "op": "call_function", "target": "aten.amax.default", "args": [{"node": "c"}, [0]]},
    {"name": "output", "op": "output", "args": [[{"node": "exp"}, {"node": "exp_1"}, {"node": "sigmoid"},
      {"node": "sum"}, {"node": "amax"}]]}]})";

std::vector<tensor::HostTensor> inputs_of(int64_t s0, int64_t s1) {
  return {tensor::random_tensor(tensor::DType::f32, {s0}, {.seed = 1}),
          tensor::random_tensor(tensor::DType::f32, {s0}, {.seed = 2}),
          tensor::random_tensor(tensor::DType::bf16, {s1, 3}, {.seed = 3}),
          tensor::random_tensor(tensor::DType::f32, {5, s1}, {.seed = 4})};
}

std::string error_of(const std::string &nodes) {
  try {
    driver::compile(graph::parse_graph(
                        R"({"format": "tsc-graph", "version": 1, "nodes": [
      {"name": "a", "op": "placeholder", "val": {"dtype": "float32", "size": [3]}},
      {"name": "b", "op": "placeholder", "val": {"dtype": "float32", "size": [3]}},)" +
                            nodes +
                            R"({"name": "output", "op": "output", "args": [[{"node": "a"}]]}]})",
                        "g.json"),
                    {});
  } catch (const std::exception &error) {
    return error.what();
  }
  return "";
}

} // namespace

TEST_CASE("one launch of several kernels serves every size") {
  const driver::Compilation compilation =
      driver::compile(graph::parse_graph(kSymbolic, "g.json"), {});
  size_t launched_together = 0;
  for (const program::Kernel &kernel : compilation.program.kernels)
    launched_together += kernel.plan.find("kernels in one launch: 2 x") != std::string::npos;
  REQUIRE(launched_together == 1);
  for (const bool plan_of_gpu : {false, true}) {
    runtime::SessionOptions options;
    options.plan = plan_of_gpu ? runtime::Plan::cuda : runtime::Plan::serial;
    const auto session = runtime::Session::create(compilation.program, {}, options);
    for (const auto &[s0, s1] : {std::pair<int64_t, int64_t>{1, 1},
                                 {1023, 1},
                                 {1024, 64},
                                 {1025, 31},
                                 {4096, 4096},
                                 {7, 1000}}) {
      const std::vector<tensor::HostTensor> inputs = inputs_of(s0, s1);
      const auto expected = driver::run_reference(compilation, inputs, {});
      const auto outputs = session->run(inputs);
      REQUIRE(outputs.size() == expected.size());
      for (size_t i = 0; i < outputs.size(); ++i) {
        tensor::AgreementRule rule;
        const tensor::Agreement agreement = tensor::compare(outputs[i], expected[i], nullptr, rule);
        INFO("sizes " << s0 << " and " << s1 << ", output " << i << ": " << agreement.reason);
        CHECK(agreement.ok);
      }
    }
  }
}

TEST_CASE("sorts share a launch with each other alone: its blocks ask for their memory") {
  const driver::Compilation compilation =
      driver::compile(graph::parse_graph(R"({"format": "tsc-graph", "version": 1, "nodes": [
      {"name": "a", "op": "placeholder", "val": {"dtype": "float32", "size": [6, 100]}},
      {"name": "b", "op": "placeholder", "val": {"dtype": "float32", "size": [6, 100]}},
      {"name": "c", "op": "placeholder", "val": {"dtype": "float32", "size": [77]}},
      {"name": "sort", "op": "call_function", "target": "aten.sort.default", "args": [{"node": "a"}, 1, false]},
      {"name": "s0", "op": "call_function", "target": "operator.getitem", "args": [{"node": "sort"}, 0]},
      {"name": "sort_1", "op": "call_function", "target": "aten.sort.default", "args": [{"node": "b"}, 1, true]},
      {"name": "s1", "op": "call_function", "target": "operator.getitem", "args": [{"node": "sort_1"}, 0]},
      {"name": "p1", "op": "call_function", "target": "operator.getitem", "args": [{"node": "sort_1"}, 1]},
      {"name": "exp", "op": "call_function", "target": "aten.exp.default", "args": [{"node": "c"}]},
      {"name": "output", "op": "output", "args": [[{"node": "s0"}, {"node": "s1"}, {"node": "p1"}, {"node": "exp"}]]}]})",
                                         "g.json"),
                      {});
  REQUIRE(compilation.program.kernels.size() == 2);
  std::vector<tensor::HostTensor> inputs;
  for (const std::vector<int64_t> &sizes : {std::vector<int64_t>{6, 100}, {6, 100}, {77}})
    inputs.push_back(tensor::random_tensor(tensor::DType::f32, sizes, {.seed = inputs.size() + 1}));
  const auto expected = driver::run_reference(compilation, inputs, {});
  for (const runtime::Plan plan : {runtime::Plan::serial, runtime::Plan::cuda}) {
    runtime::SessionOptions options;
    options.plan = plan;
    const auto outputs = runtime::Session::create(compilation.program, {}, options)->run(inputs);
    REQUIRE(outputs.size() == expected.size());
    for (size_t i = 0; i < outputs.size(); ++i) {
      const auto agreement = tensor::compare(outputs[i], expected[i], nullptr, {});
      INFO("output " << i << ": " << agreement.reason);
      CHECK(agreement.ok);
    }
  }
}

TEST_CASE("lists that cannot be computed are refused") {
  CHECK(error_of(R"({"name": "f", "op": "call_function", "target": "aten._foreach_add.List",
                     "args": [[{"node": "a"}, {"node": "b"}], [{"node": "a"}]]},)") ==
        "error TSC-O077: aten._foreach_add.List: other has 1 elements, the list has 2\n  at node "
        "f\n  "
        "next: pass lists of one length");
  CHECK(error_of(R"({"name": "f", "op": "call_function", "target": "aten._foreach_exp.default",
                     "args": [[]]},)") == "error TSC-O076: aten._foreach_exp.default of an empty "
                                          "list\n  at node f\n  next: pass one or "
                                          "more tensors");
  CHECK(error_of(R"({"name": "f", "op": "call_function", "target": "aten._foreach_exp_.default",
                     "args": [[{"node": "a"}, {"node": "a"}]]},)") ==
        "error TSC-O078: aten._foreach_exp_.default writes to a twice: what the second element "
        "reads is not said\n  at node f\n  next: pass each tensor once");
  CHECK(error_of(R"({"name": "f", "op": "call_function", "target": "aten._foreach_mul_.List",
                     "args": [[{"node": "a"}, {"node": "b"}], [{"node": "a"}, {"node": "a"}]]},)") ==
        "error TSC-O078: aten._foreach_mul_.List writes to a, which another element reads: before "
        "or after is not said\n  at node f\n  next: pass a clone of it");
}

TEST_CASE("a tensor for all elements, or one of scalars, is what each element is computed with") {
  // Eager mode reads such tensors on the host, so PyTorch exports no such call from there.
  const driver::Compilation compilation =
      driver::compile(graph::parse_graph(R"({"format": "tsc-graph", "version": 1, "nodes": [
      {"name": "a", "op": "placeholder", "val": {"dtype": "float32", "size": [5]}},
      {"name": "b", "op": "placeholder", "val": {"dtype": "float32", "size": [3]}},
      {"name": "s", "op": "placeholder", "val": {"dtype": "float32", "size": []}},
      {"name": "t", "op": "placeholder", "val": {"dtype": "float32", "size": [2]}},
      {"name": "f", "op": "call_function", "target": "aten._foreach_add.Tensor",
       "args": [[{"node": "a"}, {"node": "b"}], {"node": "s"}], "kwargs": {"alpha": 2}},
      {"name": "f0", "op": "call_function", "target": "operator.getitem", "args": [{"node": "f"}, 0]},
      {"name": "g0", "op": "call_function", "target": "aten.add.Tensor",
       "args": [{"node": "a"}, {"node": "s"}], "kwargs": {"alpha": 2}},
      {"name": "h", "op": "call_function", "target": "aten._foreach_addcmul.Tensor",
       "args": [[{"node": "a"}, {"node": "b"}], [{"node": "a"}, {"node": "b"}], [{"node": "a"}, {"node": "b"}], {"node": "t"}]},
      {"name": "h1", "op": "call_function", "target": "operator.getitem", "args": [{"node": "h"}, 1]},
      {"name": "square", "op": "call_function", "target": "aten.mul.Tensor", "args": [{"node": "b"}, {"node": "b"}]},
      {"name": "second", "op": "call_function", "target": "aten.select.int", "args": [{"node": "t"}, 0, 1]},
      {"name": "scaled", "op": "call_function", "target": "aten.mul.Tensor", "args": [{"node": "square"}, {"node": "second"}]},
      {"name": "k1", "op": "call_function", "target": "aten.add.Tensor", "args": [{"node": "b"}, {"node": "scaled"}]},
      {"name": "output", "op": "output", "args": [[{"node": "f0"}, {"node": "g0"}, {"node": "h1"}, {"node": "k1"}]]}]})",
                                         "g.json"),
                      {});
  std::vector<tensor::HostTensor> inputs;
  for (const std::vector<int64_t> &sizes : {std::vector<int64_t>{5}, {3}, {}, {2}})
    inputs.push_back(tensor::random_tensor(tensor::DType::f32, sizes, {.seed = inputs.size() + 1}));
  const auto outputs = driver::run_reference(compilation, inputs, {});
  REQUIRE(outputs.size() == 4);
  for (const size_t i : {0, 2}) {
    const auto agreement = tensor::compare(outputs[i], outputs[i + 1], nullptr, {});
    INFO(agreement.reason);
    CHECK(agreement.ok);
  }
}
