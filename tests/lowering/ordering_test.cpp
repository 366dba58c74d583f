#include "graph_maker.h"
#include "testing/catch.h"

using namespace tsc;
using namespace tsc::lowering::testing;

namespace {

NodeRef item(GraphMaker &maker, NodeRef pair, int which) {
  return maker.call("operator.getitem", {pair, which});
}

const ir::Sort &sort_of(const ir::Module &module, size_t operation) {
  return std::get<ir::Sort>(module.operations.at(operation).kind);
}

} // namespace

TEST_CASE("a sort is two operations over one input, and top-k stores a window") {
  GraphMaker maker;
  const NodeRef x = maker.input("x", DType::f32, {6, 40, 3});
  const NodeRef top = maker.call("aten.topk.default", {x, 5, 1});
  maker.output(item(maker, top, 0));
  maker.output(item(maker, top, 1));
  const ir::Module module = maker.lower();
  CHECK(summary(module) == "op0 sort buf0 f32 [6, 5, 3] [15, 3, 1] <- x\n"
                           "op1 sort buf1 i64 [6, 5, 3] [15, 3, 1] <- x\n");
  CHECK(sort_of(module, 0).descending);
  CHECK(sort_of(module, 0).axis == 1);
  CHECK_FALSE(sort_of(module, 0).positions);
  CHECK(sort_of(module, 1).positions);
  CHECK(body_of(module, 1) ==
        "    var_ranges = {z0: 6, z1: 3, z2: 40}\n"
        "    index0 = 120*z0 + z1 + 3*z2\n"
        "    index1 = z2\n"
        "    index2 = 5\n"
        "    index3 = 15*z0 + z1 + 3*z2\n"
        "    def body(self, ops):\n"
        "        get_index = self.get_index('index0')\n"
        "        load = ops.load('x', get_index)\n"
        "        sort = ops.sort((torch.float32, torch.int64), (load,), True, True)\n"
        "        getitem = sort[1]\n"
        "        get_index_1 = self.get_index('index1')\n"
        "        index_expr = ops.index_expr(get_index_1, torch.int64)\n"
        "        get_index_2 = self.get_index('index2')\n"
        "        index_expr_1 = ops.index_expr(get_index_2, torch.int64)\n"
        "        lt = ops.lt(index_expr, index_expr_1)\n"
        "        get_index_3 = self.get_index('index3')\n"
        "        store = ops.store('buf1', get_index_3, getitem, lt, None)\n"
        "        return store");
}

TEST_CASE("kthvalue stores the one place") {
  GraphMaker maker;
  const NodeRef x = maker.input("x", DType::i64, {6, 40});
  const NodeRef found = maker.call("aten.kthvalue.default", {x, 7});
  maker.output(item(maker, found, 0));
  const ir::Module module = maker.lower();
  CHECK(sort_of(module, 0).first == graph::Expr(6));
  CHECK(module.buffer(module.operations[0].outputs[0]).layout.sizes ==
        std::vector<graph::Expr>{6, 1});
}

TEST_CASE("rows of more than 8192 elements are sorted in chunks") {
  GraphMaker maker;
  const NodeRef x = maker.input("x", DType::f32, {2, 8193});
  maker.output(item(maker, maker.call("aten.sort.default", {x}), 0));
  const ir::Module module = maker.lower();
  size_t sorts = 0;
  for (size_t i = 0; i < module.operations.size(); ++i)
    if (std::holds_alternative<ir::Sort>(module.operations[i].kind)) {
      ++sorts;
      CHECK(sort_of(module, i).length == graph::Expr(4096));
    }
  CHECK(sorts == 2); // values and positions
}

TEST_CASE("rows that digits sort are one call; what nobody takes is left out") {
  struct Case {
    DType dtype;
    std::vector<graph::Expr> sizes;
    bool values, positions;
    std::string expected;
  };
  const std::vector<Case> cases = {
      {DType::f32,
       {2, 40000},
       true,
       true,
       "op0 tsc.sort_rows buf0 f32 [2, 40000] [40000, 1] <- x[40000, 1]\n"},
      {DType::f32,
       {2, 40000},
       true,
       false,
       "op0 tsc.sort_rows buf0 f32 [2, 40000] [40000, 1] <- x[40000, 1]\n"},
      {DType::bf16,
       {2, 20000},
       false,
       true,
       "op0 tsc.sort_rows buf0 i64 [2, 20000] [20000, 1] <- x[20000, 1]\n"},
  };
  for (const Case &one : cases) {
    GraphMaker maker;
    const NodeRef x = maker.input("x", one.dtype, one.sizes);
    const NodeRef sorted = maker.call("aten.sort.default", {x, -1, true});
    if (one.values)
      maker.output(item(maker, sorted, 0));
    if (one.positions)
      maker.output(item(maker, sorted, 1));
    const ir::Module module = maker.lower();
    CHECK(summary(module) == one.expected);
    const auto &call = std::get<ir::Extern>(module.operations.at(0).kind);
    CHECK(call.library == ir::Library::sort);
    CHECK(call.descending);
    CHECK(call.values == one.values);
    CHECK(call.positions == one.positions);
    CHECK(module.operations[0].outputs.size() == size_t{one.values} + size_t{one.positions});
  }
}
