#include "graph_maker.h"
#include "testing/catch.h"

using namespace tsc;
using namespace tsc::lowering::testing;

TEST_CASE("embedding reads rows at run-time indices") {
  GraphMaker maker;
  const NodeRef table = maker.input("table", DType::f32, {100, 16});
  const NodeRef ids = maker.input("ids", DType::i64, {2, 5});
  maker.output(maker.call("aten.embedding.default", {table, ids}));
  CHECK(body_of(maker.lower(), 0) == R"(    var_ranges = {z0: 10, z1: 16}
    index0 = z0
    index1 = 16*indirect0 + z1
    index2 = 16*z0 + z1
    def body(self, ops):
        get_index = self.get_index('index0')
        load = ops.load('ids', get_index)
        set_indirect0 = self.set_indirect0(load)
        get_index_1 = self.get_index('index1')
        load_1 = ops.load('table', get_index_1)
        get_index_2 = self.get_index('index2')
        store = ops.store('buf0', get_index_2, load_1, None)
        return store)");
}

TEST_CASE("a range as index is no run-time index") {
  GraphMaker maker;
  const NodeRef table = maker.input("table", DType::f32, {100, 16});
  const NodeRef ids = maker.call("aten.arange.default", {10});
  maker.output(maker.call("aten.embedding.default", {table, ids}));
  CHECK(body_of(maker.lower(), 0).find("indirect") == std::string::npos);
}

TEST_CASE("indexed dimensions that are not adjacent come first") {
  GraphMaker maker;
  const NodeRef x = maker.input("x", DType::f32, {4, 5, 6});
  const NodeRef i = maker.input("i", DType::i64, {3});
  const NodeRef j = maker.input("j", DType::i64, {3});
  maker.output(maker.call("aten.index.Tensor", {x, Argument::List{i, graph::None{}, j}}));
  const ir::Module module = maker.lower();
  CHECK(summary(module) == "op0 pointwise buf0 f32 [3, 5] [5, 1] <- i, j, x\n");
  CHECK(body_of(module, 0).find("index1 = 30*indirect0 + indirect1 + 6*z1\n") != std::string::npos);
}

TEST_CASE("an index in the middle stands where the dimension stood") {
  GraphMaker maker;
  const NodeRef x = maker.input("x", DType::f32, {4, 5, 6});
  const NodeRef i = maker.input("i", DType::i64, {2, 3});
  maker.output(maker.call("aten.index.Tensor", {x, Argument::List{graph::None{}, i}}));
  const ir::Module module = maker.lower();
  CHECK(summary(module) == "op0 pointwise buf0 f32 [4, 2, 3, 6] [36, 18, 6, 1] <- i, x\n");
  CHECK(body_of(module, 0).find("index1 = 6*indirect0 + 30*z0 + z2\n") != std::string::npos);
}

TEST_CASE("gather reads along one dimension") {
  GraphMaker maker;
  const NodeRef x = maker.input("x", DType::f32, {4, 5});
  const NodeRef i = maker.input("i", DType::i64, {4, 2});
  maker.output(maker.call("aten.gather.default", {x, 1, i}));
  CHECK(body_of(maker.lower(), 0).find("index1 = indirect0 + 5*z0\n") != std::string::npos);
}

TEST_CASE("cat chooses by masks, each input read under its own") {
  GraphMaker maker;
  const NodeRef x = maker.input("x", DType::f32, {4, 3});
  const NodeRef y = maker.input("y", DType::f32, {4, 5});
  maker.output(maker.call("aten.cat.default", {Argument::List{x, y}, 1}));
  CHECK(body_of(maker.lower(), 0) == R"(    var_ranges = {z0: 4, z1: 8}
    index0 = z1
    index1 = 3*z0 + z1
    index2 = 5*z0 + z1 - 3
    index3 = 8*z0 + z1
    def body(self, ops):
        get_index = self.get_index('index0')
        index_expr = ops.index_expr(get_index, torch.int64)
        constant = ops.constant(3, torch.int64)
        lt = ops.lt(index_expr, constant)
        masked_subblock1 = self.masked_subblock1(lt, 0.0)
        get_index_1 = self.get_index('index0')
        index_expr_1 = ops.index_expr(get_index_1, torch.int64)
        constant_1 = ops.constant(3, torch.int64)
        ge = ops.ge(index_expr_1, constant_1)
        masked_subblock2 = self.masked_subblock2(ge, 0.0)
        where = ops.where(lt, masked_subblock1, masked_subblock2)
        get_index_2 = self.get_index('index3')
        store = ops.store('buf0', get_index_2, where, None)
        return store
    def masked_subblock1(self, ops):
        get_index = self.get_index('index1')
        load = ops.load('x', get_index)
        return load
    def masked_subblock2(self, ops):
        get_index = self.get_index('index2')
        load = ops.load('y', get_index)
        return load)");
}

TEST_CASE("padding reads inside and fills outside") {
  GraphMaker maker;
  const NodeRef x = maker.input("x", DType::f32, {4});
  maker.output(maker.call("aten.constant_pad_nd.default", {x, Argument::List{1, 2}, 7}));
  const std::string body = body_of(maker.lower(), 0);
  CHECK(body.find("index0 = z0 - 1\n") != std::string::npos);
  CHECK(body.find("logical_and = ops.logical_and(ge, lt)") != std::string::npos);
  CHECK(body.find("self.masked_subblock1(logical_and, 7.0)") != std::string::npos);
}

TEST_CASE("slice_scatter takes the written part from the source") {
  GraphMaker maker;
  const NodeRef x = maker.input("x", DType::f32, {8});
  const NodeRef y = maker.input("y", DType::f32, {3});
  maker.output(maker.call("aten.slice_scatter.default", {x, y, 0, 2, 8, 2}));
  const std::string body = body_of(maker.lower(), 0);
  CHECK(body.find("ops.eq(") != std::string::npos);
  CHECK(body.find("index2 = ((z0//2)) - 1\n") != std::string::npos);
}

TEST_CASE("scatter_add adds into a copy") {
  GraphMaker maker;
  const NodeRef x = maker.input("x", DType::f32, {10, 4});
  const NodeRef i = maker.input("i", DType::i64, {3, 4});
  const NodeRef s = maker.input("s", DType::f32, {3, 4});
  const NodeRef sum = maker.call("aten.scatter_add.default", {x, 0, i, s});
  maker.output(maker.call("aten.neg.default", {sum}));
  const ir::Module module = maker.lower();
  CHECK(summary(module) == "op0 pointwise buf0 f32 [10, 4] [4, 1] <- x\n"
                           "op1 scatter buf1 => buf0 f32 [10, 4] [4, 1] <- i, s\n"
                           "op2 pointwise buf2 f32 [10, 4] [4, 1] <- buf1\n");
  CHECK(body_of(module, 1).find("ops.store('buf1', get_index_2, load_1, 'atomic_add')") !=
        std::string::npos);
}

TEST_CASE("index_put writes at index tuples") {
  GraphMaker maker;
  const NodeRef x = maker.input("x", DType::f32, {10, 4});
  const NodeRef i = maker.input("i", DType::i64, {3});
  const NodeRef v = maker.input("v", DType::f32, {4});
  maker.output(maker.call("aten.index_put.default", {x, Argument::List{i}, v}));
  const ir::Module module = maker.lower();
  CHECK(summary(module) == "op0 pointwise buf0 f32 [10, 4] [4, 1] <- x\n"
                           "op1 scatter buf1 => buf0 f32 [10, 4] [4, 1] <- i, v\n");
  CHECK(body_of(module, 1).find("index2 = 4*indirect0 + z1\n") != std::string::npos);
}
