#include "graph_maker.h"
#include "testing/catch.h"

using namespace tsc;
using namespace tsc::lowering::testing;

TEST_CASE("a mutated input's new value is stored into it") {
  GraphMaker maker;
  const NodeRef x = maker.input("x", DType::f32, {8});
  const NodeRef y = maker.input("y", DType::f32, {8});
  maker.mutate("x", maker.call("aten.add.Tensor", {x, y}));
  const ir::Module module = maker.lower();
  CHECK(summary(module) == "op0 pointwise buf0 => x f32 [8] [1] <- x, y\n");
  CHECK(module.outputs[0].target == "x");
  CHECK(module.storage_of(std::get<ir::BufferView>(module.outputs[0].value).buffer) ==
        module.inputs[0]);
}

TEST_CASE("an unchanged input is not stored") {
  GraphMaker maker;
  const NodeRef x = maker.input("x", DType::f32, {8});
  maker.mutate("x", x);
  maker.output(maker.call("aten.neg.default", {x}));
  CHECK(summary(maker.lower()) == "op0 pointwise buf0 f32 [8] [1] <- x\n");
}

TEST_CASE("a new value that reads another mutated input is computed before the mutations") {
  GraphMaker maker;
  const NodeRef x = maker.input("x", DType::f32, {8});
  const NodeRef y = maker.input("y", DType::f32, {8});
  maker.mutate("x", maker.call("aten.neg.default", {y}));
  maker.mutate("y", maker.call("aten.exp.default", {x}));
  CHECK(summary(maker.lower()) == "op0 pointwise buf0 f32 [8] [1] <- y\n"
                                  "op1 pointwise buf1 f32 [8] [1] <- x\n"
                                  "op2 pointwise buf2 => x f32 [8] [1] <- buf0\n"
                                  "op3 pointwise buf3 => y f32 [8] [1] <- buf1\n");
}

TEST_CASE("a new value that reads its own input elsewhere is computed first") {
  GraphMaker maker;
  const NodeRef x = maker.input("x", DType::f32, {8});
  const NodeRef back = maker.call("aten.flip.default", {x, Argument::List{0}});
  maker.mutate("x", maker.call("aten.neg.default", {back}));
  CHECK(summary(maker.lower(target::default_policy(), false)) ==
        "op0 pointwise buf0 f32 [8] [1] <- x\n"
        "op1 pointwise buf1 => x f32 [8] [1] <- buf0\n");
}

TEST_CASE("two inputs that swap their memory are copied first") {
  GraphMaker maker;
  const NodeRef x = maker.input("x", DType::f32, {8});
  const NodeRef y = maker.input("y", DType::f32, {8});
  maker.mutate("x", y);
  maker.mutate("y", x);
  CHECK(summary(maker.lower()) == "op0 pointwise buf0 f32 [8] [1] <- y\n"
                                  "op1 pointwise buf1 f32 [8] [1] <- x\n"
                                  "op2 pointwise buf2 => x f32 [8] [1] <- buf0\n"
                                  "op3 pointwise buf3 => y f32 [8] [1] <- buf1\n");
}

TEST_CASE("a returned old value is kept before its input is overwritten") {
  GraphMaker maker;
  const NodeRef x = maker.input("x", DType::f32, {8});
  const NodeRef old = maker.call("aten.clone.default", {x});
  maker.mutate("x", maker.call("aten.neg.default", {x}));
  maker.output(old);
  CHECK(summary(maker.lower()) == "op0 pointwise buf0 f32 [8] [1] <- x\n"
                                  "op1 pointwise buf1 => x f32 [8] [1] <- x\n");
}
