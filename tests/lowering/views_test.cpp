#include "graph_maker.h"
#include "testing/catch.h"

using namespace tsc;
using namespace tsc::lowering::testing;

TEST_CASE("views of an input are strided reads in the output's memory order") {
  GraphMaker maker;
  const NodeRef x = maker.input("x", DType::f32, {6, 8});
  const NodeRef rows = maker.call("aten.slice.Tensor", {x, 0, 1, 5, 2});
  const NodeRef turned = maker.call("aten.permute.default", {rows, Argument::List{1, 0}});
  maker.output(maker.call("aten.exp.default", {turned}));
  CHECK(body_of(maker.lower(), 0) == R"(    var_ranges = {z0: 2, z1: 8}
    index0 = 16*z0 + z1 + 8
    index1 = 8*z0 + z1
    def body(self, ops):
        get_index = self.get_index('index0')
        load = ops.load('x', get_index)
        exp = ops.exp(load)
        get_index_1 = self.get_index('index1')
        store = ops.store('buf0', get_index_1, exp, None)
        return store)");
}

TEST_CASE("views of an unrealized value are index maps") {
  GraphMaker maker;
  const NodeRef x = maker.input("x", DType::f32, {6, 8});
  const NodeRef exp = maker.call("aten.exp.default", {x});
  const NodeRef flat = maker.call("aten.view.default", {exp, Argument::List{2, 24}});
  const NodeRef row = maker.call("aten.select.int", {flat, 0, -1});
  maker.output(maker.call("aten.neg.default", {row}));
  CHECK(body_of(maker.lower(), 0) == R"(    var_ranges = {z0: 24}
    index0 = z0 + 24
    index1 = z0
    def body(self, ops):
        get_index = self.get_index('index0')
        load = ops.load('x', get_index)
        exp = ops.exp(load)
        neg = ops.neg(exp)
        get_index_1 = self.get_index('index1')
        store = ops.store('buf0', get_index_1, neg, None)
        return store)");
}

TEST_CASE("a returned view of an input needs no operation") {
  GraphMaker maker;
  const NodeRef x = maker.input("x", DType::f32, {6, 8});
  maker.output(maker.call("aten.permute.default", {x, Argument::List{1, 0}}));
  const ir::Module module = maker.lower();
  CHECK(module.operations.empty());
  const auto &view = std::get<ir::BufferView>(module.outputs[0].value);
  CHECK(module.buffer(view.buffer).name == "x");
  CHECK(view.layout.sizes == std::vector<graph::Expr>{8, 6});
  CHECK(view.layout.strides == std::vector<graph::Expr>{1, 8});
}

TEST_CASE("a returned view of a computed value shares its buffer") {
  GraphMaker maker;
  const NodeRef x = maker.input("x", DType::f32, {6, 8});
  const NodeRef exp = maker.call("aten.exp.default", {x});
  maker.output(exp);
  maker.output(maker.call("aten.unsqueeze.default", {exp, 1}));
  const ir::Module module = maker.lower();
  CHECK(summary(module) == "op0 pointwise buf0 f32 [6, 8] [8, 1] <- x\n");
  CHECK(std::get<ir::BufferView>(module.outputs[1].value).buffer ==
        std::get<ir::BufferView>(module.outputs[0].value).buffer);
}

TEST_CASE("an expanded operand is read with stride 0") {
  GraphMaker maker;
  const NodeRef x = maker.input("x", DType::f32, {6, 1});
  const NodeRef wide = maker.call("aten.expand.default", {x, Argument::List{6, 8}});
  maker.output(maker.call("aten.exp.default", {wide}));
  CHECK(body_of(maker.lower(), 0).find("index0 = z0\n") != std::string::npos);
}

TEST_CASE("flip reads backwards, diagonal along both dimensions") {
  GraphMaker maker;
  const NodeRef x = maker.input("x", DType::f32, {8, 8});
  maker.output(maker.call("aten.flip.default", {x, Argument::List{1}}));
  const NodeRef diagonal = maker.call("aten.diagonal.default", {x, 1});
  maker.output(maker.call("aten.exp.default", {diagonal}));
  const ir::Module module = maker.lower(target::default_policy(), false);
  CHECK(body_of(module, 0).find("index0 = 8*z0 - z1 + 7\n") != std::string::npos);
  CHECK(body_of(module, 1).find("index0 = 9*z0 + 1\n") != std::string::npos);
}
