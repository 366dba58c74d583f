#include "graph_maker.h"
#include "testing/catch.h"

using namespace tsc;
using namespace tsc::lowering::testing;

TEST_CASE("seed 000 lowers to one reduction with the log's body") {
  const ir::Module module = lower_file("graphs/seed_000.json", target::inductor_2_5_policy());
  CHECK(summary(module) == "op0 sum buf0 f16 [1024, 16, 16] [256, 16, 1] <- arg0_1\n");
  CHECK(body_of(module, 0) == R"(    var_ranges = {z0: 262144, z1: 256}
    index0 = 256*z0 + z1
    index1 = z0
    def body(self, ops):
        get_index = self.get_index('index0')
        load = ops.load('arg0_1', get_index)
        reduction = ops.reduction(torch.float16, torch.float16, 'sum', load)
        get_index_1 = self.get_index('index1')
        store_reduction = ops.store_reduction('buf0', get_index_1, reduction)
        return store_reduction)");
}

TEST_CASE("seed 002 lowers to the log's four operations") {
  const ir::Module module = lower_file("graphs/seed_002.json", target::inductor_2_5_policy());
  CHECK(summary(module) ==
        "op0 pointwise buf0 bf16 [2048, 256] [256, 1] <- arg2_1, arg1_1\n"
        "op1 extern_kernels.mm buf1 bf16 [128, 256] [256, 1] <- arg0_1[1, 128], buf0[256, 1]\n"
        "op2 pointwise buf2 bf16 [128, 256] [256, 1] <- arg3_1, arg4_1, buf1\n"
        "op3 extern_kernels.mm buf3 bf16 [2048, 256] [256, 1] <- arg0_1[128, 1], buf2[256, 1]\n");
  CHECK(body_of(module, 0) == R"(    var_ranges = {z0: 2048, z1: 256}
    index0 = 256*z0 + z1
    index1 = z0
    def body(self, ops):
        get_index = self.get_index('index0')
        load = ops.load('arg2_1', get_index)
        get_index_1 = self.get_index('index1')
        load_1 = ops.load('arg1_1', get_index_1)
        mul = ops.mul(load, load_1)
        get_index_2 = self.get_index('index0')
        store = ops.store('buf0', get_index_2, mul, None)
        return store)");
  CHECK(body_of(module, 2) == R"(    var_ranges = {z0: 128, z1: 256}
    index0 = z0
    index1 = z1
    index2 = 256*z0 + z1
    def body(self, ops):
        get_index = self.get_index('index0')
        load = ops.load('arg3_1', get_index)
        neg = ops.neg(load)
        get_index_1 = self.get_index('index1')
        load_1 = ops.load('arg4_1', get_index_1)
        mul = ops.mul(neg, load_1)
        exp = ops.exp(mul)
        get_index_2 = self.get_index('index2')
        load_2 = ops.load('buf1', get_index_2)
        mul_1 = ops.mul(exp, load_2)
        get_index_3 = self.get_index('index2')
        store = ops.store('buf2', get_index_3, mul_1, None)
        return store)");
}

TEST_CASE("seed 004's worked example: the addition is inlined into the reduction") {
  const ir::Module module = lower_file("graphs/seed_004.json");
  CHECK(summary(module) == "op0 sum buf0 f32 [64] [1] <- arg0_1, arg1_1\n");
  CHECK(body_of(module, 0) == R"(    var_ranges = {z0: 64, z1: 128}
    index0 = 128*z0 + z1
    index1 = z0
    def body(self, ops):
        get_index = self.get_index('index0')
        load = ops.load('arg0_1', get_index)
        get_index_1 = self.get_index('index0')
        load_1 = ops.load('arg1_1', get_index_1)
        add = ops.add(load, load_1)
        reduction = ops.reduction(torch.float32, torch.float32, 'sum', add)
        get_index_2 = self.get_index('index1')
        store_reduction = ops.store_reduction('buf0', get_index_2, reduction)
        return store_reduction)");
}
