// Graphs that are sound, and yet no program can run them.
#include "driver/compile.h"
#include "graph/read.h"

#include "testing/catch.h"

using namespace tsc;

TEST_CASE("a size that no input's dimension gives is refused, not compiled") {
  graph::Graph graph = graph::parse_graph(R"({
    "format": "tsc-graph", "version": 1, "symbols": {"s0": [2, 1024], "s1": [1, null]},
    "nodes": [
      {"name": "x", "op": "placeholder", "val": {"dtype": "float32", "size": ["s0", "s0*s1"]}},
      {"name": "relu", "op": "call_function", "target": "aten.relu.default", "args": [{"node": "x"}]},
      {"name": "output", "op": "output", "args": [[{"node": "relu"}]]}]})",
                                          "g.json");
  CHECK_THROWS_WITH(
      driver::compile(std::move(graph), {}),
      "error TSC-K004: no dimension of an input is exactly s1: nothing gives it a value when the "
      "program runs\n  next: make it static, or pass a tensor that has it as a dimension");
}
