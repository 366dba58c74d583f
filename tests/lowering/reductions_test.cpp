#include "graph_maker.h"
#include "testing/catch.h"

using namespace tsc;
using namespace tsc::lowering::testing;

TEST_CASE("a short reduction is unrolled") {
  GraphMaker maker;
  const NodeRef x = maker.input("x", DType::f32, {64, 3});
  maker.output(maker.call("aten.sum.dim_IntList", {x, Argument::List{-1}}));
  CHECK(body_of(maker.lower(), 0) == R"(    var_ranges = {z0: 64}
    index0 = 3*z0
    index1 = 3*z0 + 1
    index2 = 3*z0 + 2
    index3 = z0
    def body(self, ops):
        get_index = self.get_index('index0')
        load = ops.load('x', get_index)
        get_index_1 = self.get_index('index1')
        load_1 = ops.load('x', get_index_1)
        add = ops.add(load, load_1)
        get_index_2 = self.get_index('index2')
        load_2 = ops.load('x', get_index_2)
        add_1 = ops.add(add, load_2)
        get_index_3 = self.get_index('index3')
        store = ops.store('buf0', get_index_3, add_1, None)
        return store)");
}

TEST_CASE("a reduction over nothing is its neutral element") {
  GraphMaker maker;
  const NodeRef x = maker.input("x", DType::f32, {4, 0});
  maker.output(maker.call("aten.sum.dim_IntList", {x, Argument::List{1}}));
  maker.output(maker.call("aten.prod.dim_int", {x, 1}));
  const ir::Module module = maker.lower();
  CHECK(body_of(module, 0).find("constant = ops.constant(0.0, torch.float32)") !=
        std::string::npos);
  CHECK(body_of(module, 1).find("constant = ops.constant(1.0, torch.float32)") !=
        std::string::npos);
}

TEST_CASE("a maximum over nothing is refused") {
  GraphMaker maker;
  const NodeRef x = maker.input("x", DType::f32, {4, 0});
  maker.output(maker.call("aten.amax.default", {x, Argument::List{1}}));
  CHECK_THROWS(maker.lower());
}

TEST_CASE("softmax lowers to maximum, sum and one elementwise kernel") {
  GraphMaker maker;
  const NodeRef x = maker.input("x", DType::f32, {64, 128});
  maker.output(maker.call("aten._softmax.default", {x, -1, false}));
  CHECK(summary(maker.lower()) == "op0 max buf0 f32 [64, 1] [1, 64] <- x\n"
                                  "op1 sum buf1 f32 [64, 1] [1, 64] <- x, buf0\n"
                                  "op2 pointwise buf2 f32 [64, 128] [128, 1] <- x, buf0, buf1\n");
}

TEST_CASE("mean and variance are Welford's, in f32 for half types") {
  GraphMaker maker;
  const NodeRef x = maker.input("x", DType::bf16, {64, 128});
  const NodeRef pair = maker.call("aten.var_mean.correction", {x, Argument::List{1}},
                                  {{"correction", 0}, {"keepdim", true}});
  maker.output(maker.call("operator.getitem", {pair, 0}));
  maker.output(maker.call("operator.getitem", {pair, 1}));
  const ir::Module module = maker.lower();
  CHECK(summary(module) == "op0 welford_reduce buf0 f32 [64, 1] [1, 64] <- x\n"
                           "op1 welford_reduce buf1 f32 [64, 1] [1, 64] <- x\n"
                           "op2 welford_reduce buf2 f32 [64, 1] [1, 64] <- x\n"
                           "op3 pointwise buf3 bf16 [64, 1] [1, 1] <- buf1\n"
                           "op4 pointwise buf4 bf16 [64, 1] [1, 1] <- buf0\n");
  CHECK(body_of(module, 3).find("constant = ops.constant(128.0, torch.float32)") !=
        std::string::npos);
}

TEST_CASE("argmax over everything runs over the flattened tensor") {
  GraphMaker maker;
  const NodeRef x = maker.input("x", DType::f32, {64, 128});
  maker.output(maker.call("aten.argmax.default", {x}));
  const ir::Module module = maker.lower();
  CHECK(summary(module) == "op0 argmax buf0 i64 [] [] <- x\n");
  CHECK(body_of(module, 0) == R"(    var_ranges = {z0: 8192}
    index0 = z0
    index1 = 0
    def body(self, ops):
        get_index = self.get_index('index0')
        load = ops.load('x', get_index)
        reduction = ops.reduction(torch.int64, torch.float32, 'argmax', load)
        get_index_1 = self.get_index('index1')
        store_reduction = ops.store_reduction('buf0', get_index_1, reduction)
        return store_reduction)");
}

TEST_CASE("a cumulative sum scans its dimension") {
  GraphMaker maker;
  const NodeRef x = maker.input("x", DType::f32, {64, 128});
  maker.output(maker.call("aten.cumsum.default", {x, 0}));
  const ir::Module module = maker.lower();
  CHECK(summary(module) == "op0 scan buf0 f32 [64, 128] [128, 1] <- x\n");
  CHECK(body_of(module, 0).find("index0 = z0 + 128*z1") != std::string::npos);
}
