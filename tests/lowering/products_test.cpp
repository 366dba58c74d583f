#include "graph_maker.h"
#include "testing/catch.h"

using namespace tsc;
using namespace tsc::lowering::testing;

TEST_CASE("transposed operands go to the library as they lie") {
  GraphMaker maker;
  const NodeRef x = maker.input("x", DType::f32, {64, 128});
  const NodeRef w = maker.input("w", DType::f32, {16, 128});
  const NodeRef b = maker.input("b", DType::f32, {16});
  const NodeRef t = maker.call("aten.permute.default", {w, Argument::List{1, 0}});
  maker.output(maker.call("aten.addmm.default", {b, x, t}));
  const ir::Module module = maker.lower();
  CHECK(summary(module) ==
        "op0 extern_kernels.addmm buf0 f32 [64, 16] [16, 1] <- x[128, 1], w[1, 128], b[1]\n");
}

TEST_CASE("an operand without a unit stride is copied") {
  GraphMaker maker;
  const NodeRef x = maker.input("x", DType::f32, {64, 128}, {512, 2});
  const NodeRef w = maker.input("w", DType::f32, {128, 16});
  maker.output(maker.call("aten.mm.default", {x, w}));
  CHECK(summary(maker.lower()) ==
        "op0 pointwise buf0 f32 [64, 128] [128, 1] <- x\n"
        "op1 extern_kernels.mm buf1 f32 [64, 16] [16, 1] <- buf0[128, 1], w[16, 1]\n");
}

TEST_CASE("a view of a product is strided, a copy only where strides cannot say it") {
  GraphMaker maker;
  const NodeRef x = maker.input("x", DType::f32, {64, 128});
  const NodeRef w = maker.input("w", DType::f32, {128, 32});
  const NodeRef product = maker.call("aten.mm.default", {x, w});
  const NodeRef heads = maker.call("aten.view.default", {product, Argument::List{8, 8, 4, 8}});
  const NodeRef turned = maker.call("aten.permute.default", {heads, Argument::List{0, 2, 1, 3}});
  const NodeRef copied = maker.call("aten.clone.default", {turned},
                                    {{"memory_format", graph::MemoryFormat::contiguous}});
  const NodeRef batch = maker.call("aten.view.default", {copied, Argument::List{32, 8, 8}});
  maker.output(maker.call("aten.bmm.default", {batch, batch}));
  CHECK(
      summary(maker.lower()) ==
      "op0 extern_kernels.mm buf0 f32 [64, 32] [32, 1] <- x[128, 1], w[32, 1]\n"
      "op1 pointwise buf1 f32 [8, 4, 8, 8] [256, 64, 8, 1] <- buf0\n"
      "op2 extern_kernels.bmm buf2 f32 [32, 8, 8] [64, 8, 1] <- buf1[64, 8, 1], buf1[64, 8, 1]\n");
}

TEST_CASE("beta 0 drops the added matrix") {
  GraphMaker maker;
  const NodeRef x = maker.input("x", DType::f32, {64, 128});
  const NodeRef w = maker.input("w", DType::f32, {128, 16});
  const NodeRef b = maker.input("b", DType::f32, {16});
  maker.output(maker.call("aten.addmm.default", {b, x, w}, {{"beta", 0}, {"alpha", 2}}));
  const ir::Module module = maker.lower();
  const auto &library = std::get<ir::Extern>(module.operations[0].kind);
  CHECK(library.inputs.size() == 2);
  CHECK(library.alpha == 2.0);
}
