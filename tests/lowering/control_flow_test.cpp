// Numbers that the data decides, as loops have them.
#include "graph/read.h"
#include "graph_maker.h"
#include "ops/passes/passes.h"
#include "testing/catch.h"

using namespace tsc;
using namespace tsc::lowering::testing;

namespace {

/// x [8] and n, an integer of the data that is u0 (0 to 6); `nodes` stand behind them.
ir::Module lower(const std::string &nodes) {
  graph::Graph graph = graph::parse_graph(R"({
    "format": "tsc-graph", "version": 1, "symbols": {"u0": [0, 6]},
    "nodes": [
      {"name": "x", "op": "placeholder", "val": {"dtype": "float32", "size": [8]}},
      {"name": "n", "op": "placeholder", "val": {"dtype": "int64", "size": []}},
      {"name": "item", "op": "call_function", "target": "aten.item.default", "args": [{"node": "n"}],
       "val": {"int": "u0"}},
      )" + nodes + "]}",
                                          "g.json");
  return lowering::lower(ops::run_graph_passes(std::move(graph), {}), {});
}

} // namespace

TEST_CASE("a number of the data is read from memory by what depends on it") {
  const ir::Module module = lower(R"(
      {"name": "add", "op": "call_function", "target": "aten.add.Tensor",
       "args": [{"node": "x"}, {"node": "item"}]},
      {"name": "output", "op": "output", "args": [[{"node": "add"}]]})");
  CHECK(summary(module) == R"(op0 pointwise buf0 i64 [] [] <- n
op1 pointwise buf1 f32 [8] [1] <- x, buf0
op2 pointwise buf2 => failure i64 [] [] <- failure, buf0
)");
  CHECK(body_of(module, 1) == R"(    var_ranges = {z0: 8}
    index0 = z0
    index1 = 0
    def body(self, ops):
        get_index = self.get_index('index0')
        load = ops.load('x', get_index)
        get_index_1 = self.get_index('index1')
        load_1 = ops.load('buf0', get_index_1)
        to_dtype = ops.to_dtype(load_1, torch.float32, src_dtype = torch.int64)
        add = ops.add(load, to_dtype)
        get_index_2 = self.get_index('index0')
        store = ops.store('buf1', get_index_2, add, None)
        return store)");
  REQUIRE(module.assertions.size() == 1);
  CHECK(module.assertions[0].message == "the number that aten.item.default reads: 0 <= u0 <= 6");
}

TEST_CASE("an index that the data decides is held to its dimension") {
  const ir::Module module = lower(R"(
      {"name": "two", "op": "call_function", "target": "aten.narrow.default",
       "args": [{"node": "x"}, 0, {"node": "item"}, 2]},
      {"name": "output", "op": "output", "args": [[{"node": "two"}]]})");
  const std::string body = body_of(module, 1);
  INFO(body);
  CHECK(body.find("set_indirect0 = self.set_indirect0(add)") != std::string::npos);
  REQUIRE(module.checks.size() == 1);
  CHECK_FALSE(module.checks[0].wraps);
  CHECK(ir::failure_text(module.checks[0], 9, 8) ==
        "index 9, computed from input 'n', is not in [0, 8) (node two)");
}
