// The strides of results, where a file records others than the rules of operators find.
#include "ops/passes/passes.h"
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

/// x in channels last, rolled; the file says that the result has `strides`.
graph::Graph rolled(std::vector<symbolic::Expr> strides, bool is_used = false) {
  SampleGraph sample;
  const Argument x = sample.input("x", DType::f32, {2, 3, 4, 5});
  const Argument y = sample.call("y", "aten.roll.default", {x, List{1}, List{2}});
  List results = {y};
  if (is_used)
    results.push_back(sample.call("z", "aten.neg.default", {y}));
  graph::Graph graph = sample.finish(results);
  graph::TensorMeta given = *graph.nodes[0].value->tensor();
  given.layout.strides = {60, 1, 15, 3};
  graph.nodes[0].value = graph::Value{given};
  graph::TensorMeta recorded;
  recorded.layout = tensor::contiguous_layout({2, 3, 4, 5});
  recorded.layout.strides = std::move(strides);
  graph.nodes[1].value = graph::Value{recorded};
  return run_graph_passes(std::move(graph), {});
}

std::vector<symbolic::Expr> strides_of(const graph::Graph &graph, size_t output) {
  return graph.node(graph.outputs[output].value.node()->id).value->tensor()->layout.strides;
}

} // namespace

TEST_CASE("results lie as the file says") {
  using Strides = std::vector<symbolic::Expr>;
  CHECK(strides_of(rolled({60, 1, 15, 3}), 0) == Strides{60, 1, 15, 3}); // as inferred
  CHECK(strides_of(rolled({60, 20, 5, 1}), 0) == Strides{60, 20, 5, 1});
  CHECK(strides_of(rolled({1, 40, 10, 2}), 0) == Strides{1, 40, 10, 2});
}

TEST_CASE("strides that are no dense tensor's are not a result's") {
  using Strides = std::vector<symbolic::Expr>;
  CHECK(strides_of(rolled({120, 40, 10, 2}), 0) == Strides{60, 1, 15, 3});
  CHECK(strides_of(rolled({0, 20, 5, 1}), 0) == Strides{60, 1, 15, 3});
}

TEST_CASE("what else is computed of a result sees it as it was inferred") {
  const graph::Graph graph = rolled({60, 20, 5, 1}, true);
  using Strides = std::vector<symbolic::Expr>;
  CHECK(strides_of(graph, 0) == Strides{60, 20, 5, 1});
  CHECK(strides_of(graph, 1) == Strides{60, 1, 15, 3});
}
