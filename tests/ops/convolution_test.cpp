// Which way a convolution takes, and the memory that its columns may take.
#include "sample_graph.h"
#include "testing/catch.h"

#include <algorithm>

using namespace tsc;
using namespace tsc::ops;
using graph::Argument;
using tensor::DType;
using testing::calls_of;
using testing::SampleGraph;
using List = Argument::List;
using Sizes = std::vector<symbolic::Expr>;

namespace {

graph::Graph convolution(DType dtype, const Sizes &input, const Sizes &weight, int64_t padding = 0,
                         int64_t groups = 1) {
  SampleGraph sample;
  Argument x = sample.input("x", dtype, input);
  Argument w = sample.input("w", dtype, weight);
  Argument y = sample.call("y", "aten.convolution.default",
                           {x, w, graph::None{}, List{1, 1}, List{padding, padding}, List{1, 1},
                            false, List{0, 0}, groups});
  return run_graph_passes(sample.finish({y}), {});
}

size_t count(const graph::Graph &graph, std::string_view target) {
  return static_cast<size_t>(
      std::count_if(graph.nodes.begin(), graph.nodes.end(),
                    [&](const graph::Node &node) { return node.target == target; }));
}

} // namespace

TEST_CASE("a convolution of one tap is a product of views") {
  CHECK(calls_of(convolution(DType::f32, {1, 8, 5, 7}, {6, 8, 1, 1})) ==
        "view = aten.view.default(%w, [6, 8])\n"
        "view_3 = aten.view.default(%x, [8, 35])\n"
        "mm = aten.mm.default(%view, %view_3)\n"
        "view_6 = aten.view.default(%mm, [1, 6, 5, 7])\n");
}

TEST_CASE("a convolution of many outputs multiplies columns, one of few adds up") {
  const graph::Graph columns = convolution(DType::f32, {2, 8, 5, 7}, {6, 8, 3, 3}, 1);
  CHECK(count(columns, "tsc.windows.default") == 1);
  CHECK(count(columns, "aten.bmm.default") == 1);
  const graph::Graph few = convolution(DType::f32, {2, 8, 5, 7}, {4, 8, 3, 3}, 1);
  CHECK(count(few, "tsc.windows.default") == 1);
  CHECK(count(few, "aten.bmm.default") == 0);
  CHECK(count(few, "aten.sum.dim_IntList") == 1);
  const graph::Graph depthwise = convolution(DType::f32, {2, 64, 5, 7}, {64, 1, 3, 3}, 1, 64);
  CHECK(count(depthwise, "aten.sum.dim_IntList") == 1);
  const graph::Graph integers = convolution(DType::i64, {2, 8, 5, 7}, {6, 8, 3, 3}, 1);
  CHECK(count(integers, "aten.sum.dim_IntList") == 1);
}

TEST_CASE("columns take 256 MiB at most") {
  // A sample's columns: 64 * 9 * 112 * 112 floats, 28.9 MB; nine fit.
  const graph::Graph batch = convolution(DType::f32, {32, 64, 112, 112}, {64, 64, 3, 3}, 1);
  CHECK(count(batch, "aten.bmm.default") == 4);
  CHECK(count(batch, "aten.cat.default") == 1);
  // One sample's: 1.85 GB, 1.8 MB a row of the result; 148 rows fit.
  const graph::Graph rows = convolution(DType::f32, {1, 64, 1024, 784}, {64, 64, 3, 3}, 1);
  CHECK(count(rows, "aten.mm.default") == 7);
  for (const graph::Node &node : rows.nodes)
    if (node.target == "tsc.windows.default") {
      const tensor::Layout &layout = node.value->tensor()->layout;
      CHECK(symbolic::numel(layout.sizes).value() * 4 <= int64_t{256} << 20);
    }
  // Two samples: 74 rows fit. Eight would take more parts than are worth it: a sum.
  const graph::Graph two = convolution(DType::f32, {2, 64, 1024, 784}, {64, 64, 3, 3}, 1);
  CHECK(count(two, "aten.bmm.default") == 14);
  const graph::Graph large = convolution(DType::f32, {8, 64, 1024, 784}, {64, 64, 3, 3}, 1);
  CHECK(count(large, "aten.bmm.default") == 0);
  CHECK(count(large, "aten.sum.dim_IntList") == 1);
}
