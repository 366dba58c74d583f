#include "graph_maker.h"
#include "ops/passes/passes.h"
#include "support/diagnostic.h"
#include "testing/catch.h"

using namespace tsc;
using namespace tsc::lowering::testing;

TEST_CASE("operands are converted to the dtype of computation, numbers are typed by it") {
  GraphMaker maker;
  const NodeRef x = maker.input("x", DType::i64, {16});
  const NodeRef y = maker.input("y", DType::f32, {16});
  const NodeRef sum = maker.call("aten.add.Tensor", {x, y});
  maker.output(maker.call("aten.mul.Tensor", {sum, 3}));
  CHECK(body_of(maker.lower(), 0) == R"(    var_ranges = {z0: 16}
    index0 = z0
    def body(self, ops):
        get_index = self.get_index('index0')
        load = ops.load('x', get_index)
        to_dtype = ops.to_dtype(load, torch.float32, src_dtype = torch.int64)
        get_index_1 = self.get_index('index0')
        load_1 = ops.load('y', get_index_1)
        add = ops.add(to_dtype, load_1)
        constant = ops.constant(3.0, torch.float32)
        mul = ops.mul(add, constant)
        get_index_2 = self.get_index('index0')
        store = ops.store('buf0', get_index_2, mul, None)
        return store)");
}

TEST_CASE("half values are rounded in front of a comparison") {
  const auto lower = [](const target::Policy &policy) {
    GraphMaker maker;
    const NodeRef x = maker.input("x", DType::bf16, {16});
    const NodeRef y = maker.input("y", DType::bf16, {16});
    const NodeRef sum = maker.call("aten.add.Tensor", {x, y});
    maker.output(maker.call("aten.lt.Tensor", {sum, y}));
    return body_of(maker.lower(policy), 0);
  };
  // Whatever the policy: what is compared in f32 is not what PyTorch compares.
  for (const target::Policy &policy : {target::default_policy(), target::inductor_2_5_policy()})
    CHECK(lower(policy) == R"(    var_ranges = {z0: 16}
    index0 = z0
    def body(self, ops):
        get_index = self.get_index('index0')
        load = ops.load('x', get_index)
        get_index_1 = self.get_index('index0')
        load_1 = ops.load('y', get_index_1)
        add = ops.add(load, load_1)
        to_dtype = ops.to_dtype(add, torch.bfloat16, src_dtype = torch.float32)
        lt = ops.lt(to_dtype, load_1)
        get_index_2 = self.get_index('index0')
        store = ops.store('buf0', get_index_2, lt, None)
        return store)");
}

TEST_CASE("broadcast operands are read at index 0 of their repeated dimensions") {
  GraphMaker maker;
  const NodeRef x = maker.input("x", DType::f32, {4, 1});
  const NodeRef y = maker.input("y", DType::f32, {8});
  maker.output(maker.call("aten.sub.Tensor", {x, y}));
  CHECK(body_of(maker.lower(), 0) == R"(    var_ranges = {z0: 4, z1: 8}
    index0 = z0
    index1 = z1
    index2 = 8*z0 + z1
    def body(self, ops):
        get_index = self.get_index('index0')
        load = ops.load('x', get_index)
        get_index_1 = self.get_index('index1')
        load_1 = ops.load('y', get_index_1)
        sub = ops.sub(load, load_1)
        get_index_2 = self.get_index('index2')
        store = ops.store('buf0', get_index_2, sub, None)
        return store)");
}

TEST_CASE("where takes numbers in the result's dtype") {
  GraphMaker maker;
  const NodeRef x = maker.input("x", DType::f32, {8});
  const NodeRef positive = maker.call("aten.gt.Scalar", {x, 0});
  maker.output(maker.call("aten.where.ScalarOther", {positive, x, 0}));
  CHECK(body_of(maker.lower(), 0) == R"(    var_ranges = {z0: 8}
    index0 = z0
    def body(self, ops):
        get_index = self.get_index('index0')
        load = ops.load('x', get_index)
        constant = ops.constant(0.0, torch.float32)
        gt = ops.gt(load, constant)
        constant_1 = ops.constant(0.0, torch.float32)
        where = ops.where(gt, load, constant_1)
        get_index_1 = self.get_index('index0')
        store = ops.store('buf0', get_index_1, where, None)
        return store)");
}

TEST_CASE("arithmetic on bools is logic") {
  GraphMaker maker;
  const NodeRef x = maker.input("x", DType::boolean, {8});
  const NodeRef y = maker.input("y", DType::boolean, {8});
  const NodeRef sum = maker.call("aten.add.Tensor", {x, y});
  maker.output(maker.call("aten.mul.Tensor", {sum, x}));
  const std::string body = body_of(maker.lower(), 0);
  CHECK(body.find("logical_or = ops.logical_or(load, load_1)") != std::string::npos);
  CHECK(body.find("logical_and = ops.logical_and(logical_or, load)") != std::string::npos);
}

TEST_CASE("every operator without a lowering is reported at once") {
  GraphMaker maker;
  const NodeRef x = maker.input("x", DType::f32, {4, 8});
  maker.output(maker.call("aten.silu.default", {x}));
  maker.output(maker.call("aten.softplus.default", {x}));
  lowering::LoweringOptions options;
  options.policy = &target::default_policy();
  try {
    lowering::lower(ops::infer_shapes(maker.graph(), {}), options); // composites, not decomposed
    FAIL("silu and softplus have no lowering");
  } catch (const support::UserError &error) {
    REQUIRE(error.diagnostics().size() == 2);
    CHECK(error.exit_code() == support::ExitCode::unsupported);
    CHECK(support::to_string(error.diagnostics()[0]) ==
          "error TSC-O060: operator aten.silu.default has no lowering\n"
          "  at node node_1\n"
          "  next: see docs/operators.md for the operators that tsc compiles");
  }
}
