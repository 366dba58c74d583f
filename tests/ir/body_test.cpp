#include "module_builder.h"
#include "testing/catch.h"

#include <limits>

using namespace tsc;
using namespace tsc::ir;
using tsc::ir::testing::ModuleBuilder;

TEST_CASE("loops that every access walks alike are merged") {
  ModuleBuilder b;
  const LoopId x = b.load(b.buffer("x", DType::f16, {1024, 16, 16, 256}));
  const BufferId out = b.buffer("buf0", DType::f16, {1024, 16, 16});
  Reduction reduction;
  reduction.source_dtype = DType::f16;
  reduction.reduction_sizes = {256};
  reduction.inputs = {b.at(x)};
  const LoopBody body = trace(b.module, b.operation(reduction, out));
  CHECK(body.variables.size() == 4);
  const LoopBody merged = simplify_and_reorder(b.module, body);
  CHECK(merged.iteration_count == 1);
  CHECK(to_text(b.module, merged, "op0_loop_body") == R"(class op0_loop_body:
    var_ranges = {z0: 262144, z1: 256}
    index0 = 256*z0 + z1
    index1 = z0
    def body(self, ops):
        get_index = self.get_index('index0')
        load = ops.load('x', get_index)
        reduction = ops.reduction(torch.float16, torch.float16, 'sum', load)
        get_index_1 = self.get_index('index1')
        store_reduction = ops.store_reduction('buf0', get_index_1, reduction)
        return store_reduction)");
}

TEST_CASE("a reduction to a single element keeps its loops as reduction loops") {
  ModuleBuilder b;
  const LoopId x = b.load(b.buffer("x", DType::f32, {5, 7}));
  const LoopId row = b.load(b.buffer("row", DType::f32, {7}));
  const LoopId sum = b.node(Op::add, DType::f32, {5, 7}, {b.at(x), {row, {variable(1)}}});
  const BufferId out = b.buffer("buf0", DType::f32, {});
  Reduction reduction;
  reduction.kind = ReductionKind::sum;
  reduction.source_dtype = DType::f32;
  reduction.reduction_sizes = {5, 7};
  reduction.inputs = {b.at(sum)};
  const LoopBody body =
      simplify_and_reorder(b.module, trace(b.module, b.operation(reduction, out)));
  CHECK(body.iteration_count == 0);
  CHECK(body.sizes == std::vector<Expr>{5, 7});
}

TEST_CASE("a loop that one access does not share stays") {
  ModuleBuilder b;
  const LoopId x = b.load(b.buffer("x", DType::f32, {4, 8}));
  const LoopId row = b.load(b.buffer("row", DType::f32, {8}));
  const LoopId sum = b.node(Op::add, DType::f32, {4, 8}, {b.at(x), {row, {variable(1)}}});
  const BufferId out = b.buffer("buf0", DType::f32, {4, 8});
  const LoopBody body =
      simplify_and_reorder(b.module, trace(b.module, b.operation(Pointwise{b.at(sum)}, out)));
  CHECK(body.sizes == std::vector<Expr>{4, 8});
}

TEST_CASE("loops nest by the strides of the accesses") {
  ModuleBuilder b;
  const BufferId x = b.buffer("x", DType::f32, {8, 4});
  const BufferId out = b.buffer("buf0", DType::f32, {4, 8});
  b.module.buffers[out].layout.strides = {1, 4}; // as x transposed
  const LoopId load = b.load(x);
  const LoopId transposed =
      b.node(Op::neg, DType::f32, {4, 8}, {{load, {variable(1), variable(0)}}});
  const LoopBody body = simplify_and_reorder(
      b.module, trace(b.module, b.operation(Pointwise{b.at(transposed)}, out)));
  REQUIRE(body.sizes == std::vector<Expr>{32});
  CHECK(symbolic::print(body.indices[0]) == "z0");
  CHECK(body.indices.size() == 1);
}

TEST_CASE("reindexing renumbers indices by first use") {
  ModuleBuilder b;
  const LoopId x = b.load(b.buffer("x", DType::f32, {4, 8}));
  const BufferId out = b.buffer("buf0", DType::f32, {4, 8});
  const LoopBody body = trace(b.module, b.operation(Pointwise{b.at(x)}, out));
  const Expr q = symbolic::symbol(symbolic::SymbolSort::whole_reduced, 0);
  const std::vector<Expr> old = {symbolic::floor_div(q, 8), symbolic::mod(q, 8)};
  const LoopBody flat = reindex(body, {q}, {32}, 1, old);
  REQUIRE(flat.indices.size() == 1);
  CHECK(symbolic::print(flat.indices[0]) == "q0");
}

TEST_CASE("names follow FX: builtins start at _1") {
  ModuleBuilder b;
  const LoopId x = b.load(b.buffer("x", DType::f32, {8}));
  const LoopId abs = b.node(Op::abs, DType::f32, {8}, {b.at(x)});
  const LoopId infinity = b.constant(-std::numeric_limits<double>::infinity(), DType::f32);
  const LoopId larger = b.node(Op::maximum, DType::f32, {8}, {b.at(abs), {infinity, {}}});
  const LoopId half = b.node(Op::to_dtype, DType::f16, {8}, {b.at(larger)});
  const BufferId out = b.buffer("buf0", DType::f16, {8});
  const LoopBody body = trace(b.module, b.operation(Pointwise{b.at(half)}, out));
  CHECK(to_text(b.module, body, "op0_loop_body") == R"(class op0_loop_body:
    var_ranges = {z0: 8}
    index0 = z0
    def body(self, ops):
        get_index = self.get_index('index0')
        load = ops.load('x', get_index)
        abs_1 = ops.abs(load)
        constant = ops.constant(-inf, torch.float32)
        maximum = ops.maximum(abs_1, constant)
        to_dtype = ops.to_dtype(maximum, torch.float16, src_dtype = torch.float32)
        get_index_1 = self.get_index('index0')
        store = ops.store('buf0', get_index_1, to_dtype, None)
        return store)");
}

TEST_CASE("the newer dialect returns nothing from a plain reduction") {
  ModuleBuilder b;
  const LoopId x = b.load(b.buffer("x", DType::f32, {4, 8}));
  const BufferId out = b.buffer("buf0", DType::f32, {4});
  Reduction reduction;
  reduction.reduction_sizes = {8};
  reduction.inputs = {b.at(x)};
  const LoopBody body =
      trace(b.module, b.operation(reduction, out), symbolic::SymbolSort::log_loop);
  BodyTextOptions options;
  options.newer_dialect = true;
  const std::string text = to_text(b.module, body, "op0_loop_body", options);
  CHECK(text.substr(text.rfind('\n')) == "\n        return None");
}
