#include "module_builder.h"
#include "testing/catch.h"

using namespace tsc;
using namespace tsc::ir;
using tsc::ir::testing::identity;
using tsc::ir::testing::ModuleBuilder;

namespace {

const std::vector<Expr> kSizes = {4, 8};

} // namespace

TEST_CASE("operands are evaluated left to right, each value once") {
  ModuleBuilder b;
  const LoopId x = b.load(b.buffer("x", DType::f32, {4, 8}));
  const LoopId y = b.load(b.buffer("y", DType::f32, {8}));
  const LoopId neg = b.node(Op::neg, DType::f32, kSizes, {b.at(x)});
  const LoopId mul = b.node(Op::mul, DType::f32, kSizes, {b.at(neg), {y, {variable(1)}}});
  const LoopId sum = b.node(Op::add, DType::f32, kSizes, {b.at(mul), b.at(neg)});
  const BufferId out = b.buffer("buf0", DType::f32, {4, 8});
  const LoopBody body = trace(b.module, b.operation(Pointwise{b.at(sum)}, out));
  CHECK(to_text(b.module, body, "op0_loop_body") == R"(class op0_loop_body:
    var_ranges = {z0: 4, z1: 8}
    index0 = 8*z0 + z1
    index1 = z1
    def body(self, ops):
        get_index = self.get_index('index0')
        load = ops.load('x', get_index)
        neg = ops.neg(load)
        get_index_1 = self.get_index('index1')
        load_1 = ops.load('y', get_index_1)
        mul = ops.mul(neg, load_1)
        add = ops.add(mul, neg)
        get_index_2 = self.get_index('index0')
        store = ops.store('buf0', get_index_2, add, None)
        return store)");
}

TEST_CASE("a node read at two indices is evaluated twice") {
  ModuleBuilder b;
  const LoopId x = b.load(b.buffer("x", DType::f32, {4, 8}));
  const LoopId exp = b.node(Op::exp, DType::f32, kSizes, {b.at(x)});
  const LoopId sum =
      b.node(Op::add, DType::f32, kSizes, {b.at(exp), {exp, {Expr(3) - variable(0), variable(1)}}});
  const BufferId out = b.buffer("buf0", DType::f32, {4, 8});
  const LoopBody body = trace(b.module, b.operation(Pointwise{b.at(sum)}, out));
  REQUIRE(body.ops.size() == 6);
  CHECK(body.ops[0].op == Op::load);
  CHECK(body.ops[3].op == Op::exp);
  CHECK(symbolic::print(body.indices[1]) == "-8*z0 + z1 + 24");
}

TEST_CASE("a masked value is a block of its own and shares nothing with the body") {
  ModuleBuilder b;
  const LoopId x = b.load(b.buffer("x", DType::f32, {4, 8}));
  const LoopId position = b.node(Op::index_expr, DType::i64, kSizes, {});
  b.module.loops[position].expr = variable(1);
  const LoopId five = b.constant(int64_t{5}, DType::i64);
  const LoopId mask = b.node(Op::lt, DType::boolean, kSizes, {b.at(position), {five, {}}});
  const LoopId masked = b.node(Op::masked, DType::f32, kSizes, {b.at(mask), b.at(x)});
  const LoopId sum = b.node(Op::add, DType::f32, kSizes, {b.at(x), b.at(masked)});
  const BufferId out = b.buffer("buf0", DType::f32, {4, 8});
  const LoopBody body = trace(b.module, b.operation(Pointwise{b.at(sum)}, out));
  CHECK(to_text(b.module, body, "op0_loop_body") == R"(class op0_loop_body:
    var_ranges = {z0: 4, z1: 8}
    index0 = 8*z0 + z1
    index1 = z1
    def body(self, ops):
        get_index = self.get_index('index0')
        load = ops.load('x', get_index)
        get_index_1 = self.get_index('index1')
        index_expr = ops.index_expr(get_index_1, torch.int64)
        constant = ops.constant(5, torch.int64)
        lt = ops.lt(index_expr, constant)
        masked_subblock1 = self.masked_subblock1(lt, 0.0)
        add = ops.add(load, masked_subblock1)
        get_index_2 = self.get_index('index0')
        store = ops.store('buf0', get_index_2, add, None)
        return store
    def masked_subblock1(self, ops):
        get_index = self.get_index('index0')
        load = ops.load('x', get_index)
        return load)");
}

TEST_CASE("a run-time index is bound, wrapped by its extent, before it is used") {
  ModuleBuilder b;
  const LoopId table = b.load(b.buffer("table", DType::f32, {10, 8}));
  const LoopId rows = b.load(b.buffer("rows", DType::i64, {4}));
  LoopNode view;
  view.op = Op::view;
  view.dtype = DType::f32;
  view.sizes = kSizes;
  view.operands = {{table, {operand_value(1), variable(1)}}, {rows, {variable(0)}}};
  view.indirect_extents = {10};
  b.module.loops.push_back(view);
  const LoopId gathered = static_cast<LoopId>(b.module.loops.size() - 1);
  const BufferId out = b.buffer("buf0", DType::f32, {4, 8});
  const LoopBody body = trace(b.module, b.operation(Pointwise{b.at(gathered)}, out));
  CHECK(to_text(b.module, body, "op0_loop_body") == R"(class op0_loop_body:
    var_ranges = {z0: 4, z1: 8}
    index0 = z0
    index1 = 8*indirect0 + z1
    index2 = 8*z0 + z1
    def body(self, ops):
        get_index = self.get_index('index0')
        load = ops.load('rows', get_index)
        set_indirect0 = self.set_indirect0(load)
        get_index_1 = self.get_index('index1')
        load_1 = ops.load('table', get_index_1)
        get_index_2 = self.get_index('index2')
        store = ops.store('buf0', get_index_2, load_1, None)
        return store)");
  CHECK(
      body.ranges(b.module).interval_of(symbolic::symbol(symbolic::SymbolSort::indirect, 0)).high ==
      9);
}

TEST_CASE("a tuple-valued reduction stores one item") {
  ModuleBuilder b;
  const LoopId x = b.load(b.buffer("x", DType::f32, {4, 8}));
  const BufferId out = b.buffer("buf1", DType::f32, {4});
  Reduction reduction;
  reduction.kind = ReductionKind::welford_reduce;
  reduction.reduction_sizes = {8};
  reduction.inputs = {b.at(x)};
  reduction.item = 1;
  const LoopBody body = trace(b.module, b.operation(reduction, out));
  CHECK(body.iteration_count == 1);
  CHECK(to_text(b.module, body, "op1_loop_body") == R"(class op1_loop_body:
    var_ranges = {z0: 4, z1: 8}
    index0 = 8*z0 + z1
    index1 = z0
    def body(self, ops):
        get_index = self.get_index('index0')
        load = ops.load('x', get_index)
        reduction = ops.reduction(torch.float32, torch.float32, 'welford_reduce', load)
        getitem = reduction[0]
        getitem_1 = reduction[1]
        getitem_2 = reduction[2]
        get_index_1 = self.get_index('index1')
        store_reduction = ops.store_reduction('buf1', get_index_1, getitem_1)
        return store_reduction)");
}

TEST_CASE("a scan runs along the last loop and stores at the scanned axis") {
  ModuleBuilder b;
  const LoopId x = b.load(b.buffer("x", DType::f32, {4, 8}));
  const BufferId out = b.buffer("buf0", DType::f32, {4, 8});
  Scan scan;
  scan.axis = 0;
  scan.inputs = {{x, {variable(1), variable(0)}}};
  const LoopBody body = trace(b.module, b.operation(scan, out));
  CHECK(body.iteration_count == 1);
  CHECK(to_text(b.module, body, "op0_loop_body") == R"(class op0_loop_body:
    var_ranges = {z0: 8, z1: 4}
    index0 = z0 + 8*z1
    def body(self, ops):
        get_index = self.get_index('index0')
        load = ops.load('x', get_index)
        scan1 = self.scan1((torch.float32,), (load,))
        getitem = scan1[0]
        get_index_1 = self.get_index('index0')
        store = ops.store('buf0', get_index_1, getitem, None)
        return store)");
}

TEST_CASE("a scan of tuples has its combine function as data, and stores one member") {
  ModuleBuilder b;
  const LoopId x = b.load(b.buffer("x", DType::f32, {4, 8})),
               y = b.load(b.buffer("y", DType::i64, {4, 8}));
  std::vector<LoopId> operands; // floats 0 and 2, ints 1 and 3
  for (int64_t k = 0; k < 4; ++k) {
    operands.push_back(b.node(Op::operand, k % 2 ? DType::i64 : DType::f32, {1}, {}));
    b.module.loops.back().constant = k;
  }
  const auto both = [&](Op op, DType dtype, LoopId left, LoopId right) {
    return b.node(op, dtype, {1}, {b.at(left), b.at(right)});
  };
  Scan scan;
  scan.kind = ScanKind::combine;
  scan.axis = 1;
  scan.inputs = {b.at(x), b.at(y)};
  scan.combined = {{both(Op::mul, DType::f32, operands[2], operands[0]), {Expr(0)}},
                   {both(Op::maximum, DType::i64, operands[1], operands[3]), {Expr(0)}}};
  scan.item = 1;
  scan.backwards = true;
  const LoopBody body = trace(b.module, b.operation(scan, b.buffer("buf1", DType::i64, {4, 8})));
  CHECK(to_text(b.module, body, "op1_loop_body") == R"(class op1_loop_body:
    var_ranges = {z0: 4, z1: 8}
    index0 = 8*z0 + z1
    index1 = 8*z0 - z1 + 7
    def body(self, ops):
        get_index = self.get_index('index0')
        load = ops.load('x', get_index)
        get_index_1 = self.get_index('index0')
        load_1 = ops.load('y', get_index_1)
        scan1 = self.scan1((torch.float32, torch.int64), (load, load_1))
        getitem = scan1[0]
        getitem_1 = scan1[1]
        get_index_2 = self.get_index('index1')
        store = ops.store('buf1', get_index_2, getitem_1, None)
        return store)");
  scan.item = 0; // the other operation has a function of its own, which is the same
  const LoopBody other = trace(b.module, b.operation(scan, b.buffer("buf0", DType::f32, {4, 8})));
  CHECK(other.ops[2] == body.ops[2]);
  const Combine &code = *body.ops[2].combine.code;
  CHECK(code.types == std::vector<DType>{DType::f32, DType::i64});
  REQUIRE(code.ops.size() == 6);
  CHECK(code.ops[code.results[0]].op == Op::mul);
  CHECK(code.ops[code.ops[code.results[0]].args[0]].constant == tensor::Scalar(int64_t{2}));
  CHECK(code.ops[code.results[1]].op == Op::maximum);
}

TEST_CASE("a chain of 100,000 operations traces without recursion") {
  ModuleBuilder b;
  LoopId value = b.load(b.buffer("x", DType::f32, {4, 8}));
  for (int i = 0; i < 100'000; ++i)
    value = b.node(i % 2 ? Op::neg : Op::exp, DType::f32, kSizes, {b.at(value)});
  const BufferId out = b.buffer("buf0", DType::f32, {4, 8});
  const LoopBody body = trace(b.module, b.operation(Pointwise{b.at(value)}, out));
  CHECK(body.ops.size() == 100'002);
  CHECK(body.indices.size() == 1);
  CHECK(body.ops.back().args == std::vector<uint32_t>{100'000});
}

TEST_CASE("diamonds are shared, not doubled at every level") {
  ModuleBuilder b;
  LoopId value = b.load(b.buffer("x", DType::f32, {4, 8}));
  for (int i = 0; i < 64; ++i)
    value = b.node(Op::add, DType::f32, kSizes, {b.at(value), b.at(value)});
  CHECK(trace_value(b.module, value).ops.size() == 65);
}

TEST_CASE("a scatter binds its indices before its value") {
  ModuleBuilder b;
  const LoopId source = b.load(b.buffer("source", DType::f32, {3, 8}));
  const LoopId rows = b.load(b.buffer("rows", DType::i64, {3}));
  const BufferId target = b.buffer("buf0", DType::f32, {10, 8});
  const BufferId out = b.buffer("buf1", DType::f32, {10, 8});
  b.module.buffers[out].layout_kind = LayoutKind::mutation;
  b.module.buffers[out].mutates = target;
  Scatter scatter;
  scatter.sizes = {3, 8};
  scatter.value = b.at(source);
  scatter.indices = {{rows, {variable(0)}}};
  scatter.extents = {10};
  scatter.index = {operand_value(1), variable(1)};
  scatter.mode = StoreMode::atomic_add;
  const LoopBody body = trace(b.module, b.operation(scatter, out));
  CHECK(to_text(b.module, body, "op1_loop_body") == R"(class op1_loop_body:
    var_ranges = {z0: 3, z1: 8}
    index0 = z0
    index1 = 8*z0 + z1
    index2 = 8*indirect0 + z1
    def body(self, ops):
        get_index = self.get_index('index0')
        load = ops.load('rows', get_index)
        set_indirect0 = self.set_indirect0(load)
        get_index_1 = self.get_index('index1')
        load_1 = ops.load('source', get_index_1)
        get_index_2 = self.get_index('index2')
        store = ops.store('buf1', get_index_2, load_1, 'atomic_add')
        return store)");
  CHECK(b.module.storage_of(out) == target);
}
