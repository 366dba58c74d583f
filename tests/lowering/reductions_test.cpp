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

TEST_CASE("short reductions whose elements are read back stay reductions") {
  GraphMaker maker;
  const NodeRef x = maker.input("x", DType::f32, {5, 64});
  maker.output(maker.call("aten._softmax.default", {x, 0, false}));
  CHECK(summary(maker.lower()) == "op0 max buf0 f32 [1, 64] [64, 1] <- x\n"
                                  "op1 sum buf1 f32 [1, 64] [64, 1] <- x, buf0\n"
                                  "op2 pointwise buf2 f32 [5, 64] [64, 1] <- x, buf0, buf1\n");
  CHECK(summary(maker.lower(target::inductor_2_5_policy())).find("op0 pointwise") == 0);
}

TEST_CASE("the shortest rows are written out unless what reads them back is reduced again") {
  const auto lowered = [](bool again) {
    GraphMaker maker;
    const NodeRef x = maker.input("x", DType::f32, {64, 3});
    const NodeRef most = maker.call("aten.amax.default", {x, Argument::List{1}, true});
    const NodeRef distance = maker.call("aten.sub.Tensor", {x, most});
    maker.output(again ? maker.call("aten.sum.dim_IntList", {distance, Argument::List{1}})
                       : distance);
    return summary(maker.lower());
  };
  CHECK(lowered(false) == "op0 pointwise buf0 f32 [64, 3] [3, 1] <- x\n");
  CHECK(lowered(true) == "op0 max buf0 f32 [64, 1] [1, 64] <- x\n"
                         "op1 sum buf1 f32 [64] [1] <- x, buf0\n");
}

TEST_CASE("so do those of what such reductions yield, and a maximum beside its place") {
  GraphMaker maker;
  const NodeRef x = maker.input("x", DType::f32, {64, 5});
  const NodeRef probabilities = maker.call("aten._softmax.default", {x, -1, false});
  const NodeRef squares = maker.call("aten.mul.Tensor", {probabilities, probabilities});
  maker.output(maker.call("aten.sum.dim_IntList", {squares, Argument::List{-1}}));
  CHECK(summary(maker.lower()) == "op0 max buf0 f32 [64, 1] [1, 64] <- x\n"
                                  "op1 sum buf1 f32 [64, 1] [1, 64] <- x, buf0\n"
                                  "op2 sum buf2 f32 [64] [1] <- x, buf0, buf1\n");
  GraphMaker places;
  const NodeRef y = places.input("y", DType::f32, {64, 5});
  places.output(places.call("aten.amax.default", {y, Argument::List{1}}));
  places.output(places.call("aten.argmax.default", {y, 1}));
  CHECK(summary(places.lower()) == "op0 max buf0 f32 [64] [1] <- y\n"
                                   "op1 argmax buf1 i64 [64] [1] <- y\n");
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

namespace {

/// Sum over rows of contiguous elements, or over columns.
ir::Module sum_of(int64_t results, int64_t length, bool rows) {
  GraphMaker maker;
  const NodeRef x = rows ? maker.input("x", DType::f32, {results, length})
                         : maker.input("x", DType::f32, {length, results});
  maker.output(maker.call("aten.sum.dim_IntList", {x, Argument::List{rows ? 1 : 0}}));
  return maker.lower(target::inductor_2_5_policy());
}

} // namespace

TEST_CASE("under inductor-2.5 long reductions with few results are two operations") {
  struct Case {
    int64_t results, length;
    bool rows;
    int64_t splits; // what TorchInductor's reduction_split_factor says for 108 multiprocessors
  };
  for (const Case &c : {
           Case{1, 8192, true, 1},         Case{1, 8193, true, 2},
           Case{1, 100003, true, 13},      Case{1, 1000000, true, 123},
           Case{4, 1048576, true, 128},    Case{64, 1000000, true, 7},
           Case{215, 9000, true, 2},       Case{216, 9000, true, 1},
           Case{2, 16777216, true, 216},   Case{3, 123456789, true, 942},
           Case{1, 134217728, true, 1024}, Case{7, 2000003, true, 62},
           Case{100, 50000, true, 7},      Case{13, 9973, true, 2},
           Case{128, 33, false, 1},        Case{2, 33, false, 1},
           Case{1000, 1000, false, 8},     Case{64, 1000000, false, 863},
           Case{256, 65536, false, 512},   Case{6911, 100, false, 1},
           Case{6912, 100, false, 1},      Case{1000, 4099, false, 33},
           Case{300, 123457, false, 286},  Case{4096, 2048, false, 16},
           Case{128, 1048576, false, 512},
       }) {
    INFO(c.results << " results of " << c.length << (c.rows ? " in rows" : " in columns"));
    const ir::Module module = sum_of(c.results, c.length, c.rows);
    REQUIRE(module.operations.size() == (c.splits > 1 ? 2 : 1));
    const auto &last = std::get<ir::Reduction>(module.operations.back().kind);
    CHECK(last.reduction_sizes[0] == ir::Expr(c.splits > 1 ? c.splits : c.length));
  }
}

TEST_CASE("what reads a row's number and reduces all of the row is one operation") {
  GraphMaker maker; // as the place of a window's largest is found
  const NodeRef x = maker.input("x", DType::f32, {3, 20, 30});
  const NodeRef largest = maker.call("aten.amax.default", {x, Argument::List{1, 2}, true});
  const NodeRef above = maker.call("aten.sub.Tensor", {x, largest});
  maker.output(maker.call("aten.amin.default", {above, Argument::List{1, 2}}));
  const ir::Module module = maker.lower(target::default_policy());
  REQUIRE(module.operations.size() == 2);
  for (const ir::Operation &operation : module.operations)
    CHECK(std::get<ir::Reduction>(operation.kind).reduction_sizes.size() == 2);
}

TEST_CASE("the last part of a split reduction is masked, half types add up in f32 in between") {
  GraphMaker maker;
  const NodeRef x = maker.input("x", DType::bf16, {3, 10007});
  maker.output(maker.call("aten.amax.default", {x, Argument::List{1}}));
  const ir::Module module = maker.lower(target::inductor_2_5_policy());
  CHECK(summary(module) == "op0 max buf0 f32 [3, 2] [2, 1] <- x\n"
                           "op1 max buf1 bf16 [3] [1] <- buf0\n");
  CHECK(body_of(module, 0) == R"(    var_ranges = {z0: 3, z1: 2, z2: 5004}
    index0 = 5004*z1 + z2
    index1 = 10007*z0 + 5004*z1 + z2
    index2 = 2*z0 + z1
    def body(self, ops):
        get_index = self.get_index('index0')
        index_expr = ops.index_expr(get_index, torch.int32)
        constant = ops.constant(10007, torch.int32)
        lt = ops.lt(index_expr, constant)
        masked_subblock1 = self.masked_subblock1(lt, -inf)
        reduction = ops.reduction(torch.float32, torch.bfloat16, 'max', masked_subblock1)
        get_index_1 = self.get_index('index2')
        store_reduction = ops.store_reduction('buf0', get_index_1, reduction)
        return store_reduction
    def masked_subblock1(self, ops):
        get_index = self.get_index('index1')
        load = ops.load('x', get_index)
        return load)");
}

TEST_CASE("what does not split: positions of extremes, the CPU, the default policy") {
  GraphMaker maker;
  const NodeRef x = maker.input("x", DType::f32, {100003});
  maker.output(maker.call("aten.argmax.default", {x}));
  CHECK(maker.lower(target::inductor_2_5_policy()).operations.size() == 1);
  GraphMaker other;
  const NodeRef y = other.input("x", DType::f32, {100003});
  other.output(other.call("aten.sum.default", {y}));
  CHECK(other.lower().operations.size() == 1);
  CHECK(other.lower(target::inductor_2_5_policy()).operations.size() == 2);
}

TEST_CASE("Welford's split in parts combines them, and weighs absent elements with nothing") {
  GraphMaker maker;
  const NodeRef x = maker.input("x", DType::f32, {2, 10007});
  const NodeRef pair = maker.call("aten.var_mean.correction", {x, Argument::List{1}},
                                  {{"correction", 0}, {"keepdim", true}});
  maker.output(maker.call("operator.getitem", {pair, 0}));
  const ir::Module module = maker.lower(target::inductor_2_5_policy());
  REQUIRE(module.operations.size() >= 6);
  for (int i = 0; i < 6; ++i)
    CHECK(std::get<ir::Reduction>(module.operations[i].kind).kind ==
          ir::ReductionKind::welford_combine);
  const std::string body = body_of(module, 0);
  CHECK(body.find("ops.constant(1.0, torch.float32)") != std::string::npos);
  CHECK(body.find("masked_subblock3 = self.masked_subblock3(lt_2, 0.0)") != std::string::npos);
}
