#include "interpret/interpret.h"
#include "support/diagnostic.h"
#include "testing/catch.h"

#include <cmath>
#include <limits>

using namespace tsc;
using ir::BufferId;
using ir::Expr;
using ir::LoopId;
using ir::Op;
using ir::Operand;
using tensor::DType;
using tensor::HostTensor;

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
const double kNan = std::numeric_limits<double>::quiet_NaN();

Expr i(size_t k) { return ir::variable(k); }

std::vector<Expr> identity_index(size_t rank) {
  std::vector<Expr> index;
  for (size_t k = 0; k < rank; ++k)
    index.push_back(i(k));
  return index;
}

/// Builds modules by hand.
struct ModuleBuilder {
  ir::Module module;

  BufferId buffer(std::string name, DType dtype, std::vector<Expr> sizes) {
    ir::Buffer made;
    made.name = std::move(name);
    made.dtype = dtype;
    made.layout = tensor::contiguous_layout(std::move(sizes));
    module.buffers.push_back(made);
    return static_cast<BufferId>(module.buffers.size() - 1);
  }
  BufferId input(DType dtype, std::vector<Expr> sizes) {
    BufferId id = buffer("in" + std::to_string(module.inputs.size()), dtype, std::move(sizes));
    module.buffers[id].role = ir::Buffer::Role::input;
    module.inputs.push_back(id);
    return id;
  }
  LoopId add(ir::LoopNode node) {
    module.loops.push_back(std::move(node));
    return static_cast<LoopId>(module.loops.size() - 1);
  }
  LoopId load(BufferId buffer) {
    ir::LoopNode node;
    node.op = Op::load;
    node.dtype = module.buffers[buffer].dtype;
    node.sizes = module.buffers[buffer].layout.sizes;
    node.buffer = buffer;
    return add(node);
  }
  LoopId constant(DType dtype, tensor::Scalar value) {
    ir::LoopNode node;
    node.op = Op::constant;
    node.dtype = dtype;
    node.constant = value;
    return add(node);
  }
  LoopId index_value(DType dtype, std::vector<Expr> sizes, Expr e) {
    ir::LoopNode node;
    node.op = Op::index_expr;
    node.dtype = dtype;
    node.sizes = std::move(sizes);
    node.expr = e;
    return add(node);
  }
  /// All operands at the node's own index; scalars at the empty index.
  LoopId op(Op op, DType dtype, std::vector<LoopId> operands) {
    ir::LoopNode node;
    node.op = op;
    node.dtype = dtype;
    for (LoopId operand : operands)
      if (module.loops[operand].sizes.size() > node.sizes.size())
        node.sizes = module.loops[operand].sizes;
    for (LoopId operand : operands)
      node.operands.push_back({operand, identity_index(module.loops[operand].sizes.size())});
    return add(node);
  }
  LoopId view(LoopId of, std::vector<Expr> sizes, std::vector<Expr> index) {
    ir::LoopNode node;
    node.op = Op::view;
    node.dtype = module.loops[of].dtype;
    node.sizes = std::move(sizes);
    node.operands.push_back({of, std::move(index)});
    return add(node);
  }
  BufferId operation(decltype(ir::Operation::kind) kind, DType dtype, std::vector<Expr> sizes) {
    BufferId id = buffer("buf" + std::to_string(module.operations.size()), dtype, std::move(sizes));
    ir::Operation made;
    made.name = "op" + std::to_string(module.operations.size());
    made.kind = std::move(kind);
    made.outputs = {id};
    module.operations.push_back(made);
    return id;
  }
  BufferId store(LoopId value, DType dtype, std::vector<Expr> sizes) {
    ir::Pointwise pointwise{{value, identity_index(module.loops[value].sizes.size())}};
    return operation(pointwise, dtype, sizes);
  }
  void output(BufferId id) {
    const ir::Buffer &made = module.buffers[id];
    ir::Output out;
    out.value = ir::BufferView{id, made.layout, made.dtype};
    module.outputs.push_back(out);
  }
};

HostTensor floats(DType dtype, std::vector<int64_t> sizes, const std::vector<double> &values) {
  HostTensor made(dtype, std::move(sizes));
  for (size_t k = 0; k < values.size(); ++k)
    made.set_double(static_cast<int64_t>(k), values[k]);
  return made;
}

HostTensor integers(DType dtype, std::vector<int64_t> sizes, const std::vector<int64_t> &values) {
  HostTensor made(dtype, std::move(sizes));
  for (size_t k = 0; k < values.size(); ++k)
    made.set_int64(static_cast<int64_t>(k), values[k]);
  return made;
}

std::vector<double> doubles_of(const HostTensor &from) {
  std::vector<double> values;
  for (int64_t k = 0; k < from.numel(); ++k)
    values.push_back(from.get_double(k));
  return values;
}

std::vector<int64_t> integers_of(const HostTensor &from) {
  std::vector<int64_t> values;
  for (int64_t k = 0; k < from.numel(); ++k)
    values.push_back(from.get_int64(k));
  return values;
}

/// Equal, NaN to NaN, and zeros with their signs.
bool same(const std::vector<double> &a, const std::vector<double> &b) {
  if (a.size() != b.size())
    return false;
  for (size_t k = 0; k < a.size(); ++k) {
    bool both_nan = std::isnan(a[k]) && std::isnan(b[k]);
    if (!both_nan && (a[k] != b[k] || std::signbit(a[k]) != std::signbit(b[k])))
      return false;
  }
  return true;
}

std::vector<double> elementwise(Op op, DType dtype, DType result,
                                const std::vector<std::vector<double>> &columns) {
  ModuleBuilder builder;
  std::vector<LoopId> operands;
  std::vector<HostTensor> inputs;
  auto count = static_cast<int64_t>(columns[0].size());
  for (const std::vector<double> &column : columns) {
    operands.push_back(builder.load(builder.input(dtype, {count})));
    inputs.push_back(floats(dtype, {count}, column));
  }
  builder.output(builder.store(builder.op(op, result, operands), result, {count}));
  return doubles_of(interpret::run(builder.module, inputs).outputs[0]);
}

std::vector<int64_t> integer_elementwise(Op op, DType dtype, DType result,
                                         const std::vector<std::vector<int64_t>> &columns) {
  ModuleBuilder builder;
  std::vector<LoopId> operands;
  std::vector<HostTensor> inputs;
  auto count = static_cast<int64_t>(columns[0].size());
  for (const std::vector<int64_t> &column : columns) {
    operands.push_back(builder.load(builder.input(dtype, {count})));
    inputs.push_back(integers(dtype, {count}, column));
  }
  builder.output(builder.store(builder.op(op, result, operands), result, {count}));
  return integers_of(interpret::run(builder.module, inputs).outputs[0]);
}

HostTensor reduce(ir::ReductionKind kind, const HostTensor &input, DType result, size_t item = 0) {
  ModuleBuilder builder;
  std::vector<Expr> sizes(input.sizes().begin(), input.sizes().end());
  LoopId load = builder.load(builder.input(input.dtype(), sizes));
  ir::Reduction reduction;
  reduction.kind = kind;
  reduction.source_dtype = input.dtype();
  reduction.reduction_sizes = {sizes.back()};
  reduction.inputs = {{load, identity_index(sizes.size())}};
  reduction.item = item;
  sizes.pop_back();
  builder.output(builder.operation(reduction, result, sizes));
  return interpret::run(builder.module, {input}).outputs[0];
}

} // namespace

TEST_CASE("a row softmax as separate operations") {
  ModuleBuilder b;
  std::vector<Expr> sizes = {3, 4}, rows = {3};
  BufferId x = b.input(DType::f32, sizes);
  LoopId load = b.load(x);
  auto reduce_over = [&](ir::ReductionKind kind, LoopId value) {
    ir::Reduction reduction;
    reduction.kind = kind;
    reduction.reduction_sizes = {4};
    reduction.inputs = {{value, {i(0), i(1)}}};
    return b.operation(reduction, DType::f32, rows);
  };
  BufferId high = reduce_over(ir::ReductionKind::max, load);
  LoopId wide = b.view(b.load(high), sizes, {i(0)});
  LoopId shifted = b.op(Op::exp, DType::f32, {b.op(Op::sub, DType::f32, {load, wide})});
  BufferId total = reduce_over(ir::ReductionKind::sum, shifted);
  LoopId wide_total = b.view(b.load(total), sizes, {i(0)});
  b.output(b.store(b.op(Op::truediv, DType::f32, {shifted, wide_total}), DType::f32, sizes));
  std::vector<double> values = {1, 2, 3, 4, 0, 0, 0, 0, -1, 5, -kInf, 2};
  std::vector<double> got =
      doubles_of(interpret::run(b.module, {floats(DType::f32, {3, 4}, values)}).outputs[0]);
  for (size_t row = 0; row < 3; ++row) {
    double sum = 0;
    for (size_t k = 0; k < 4; ++k)
      sum += std::exp(values[4 * row + k]);
    for (size_t k = 0; k < 4; ++k)
      CHECK(std::fabs(got[4 * row + k] - std::exp(values[4 * row + k]) / sum) < 1e-7);
  }
}

TEST_CASE("elementwise floats follow PyTorch at the edges") {
  CHECK(same(elementwise(Op::maximum, DType::f32, DType::f32, {{1, kNan, 2}, {kNan, 1, 3}}),
             {kNan, kNan, 3}));
  CHECK(same(elementwise(Op::minimum, DType::f32, DType::f32, {{1, kNan, 2}, {kNan, 1, 3}}),
             {kNan, kNan, 2}));
  CHECK(same(elementwise(Op::mod, DType::f32, DType::f32, {{-5, 5, 5.5, -0.0}, {3, -3, kInf, 3}}),
             {1, -1, 5.5, -0.0}));
  CHECK(same(elementwise(Op::fmod, DType::f32, DType::f32, {{-5, 5}, {3, -3}}), {-2, 2}));
  CHECK(same(elementwise(Op::floordiv, DType::f32, DType::f32, {{-5, 5, 1, -1}, {3, -3, 0, 0}}),
             {-2, -2, kInf, -kInf}));
  CHECK(same(elementwise(Op::truncdiv, DType::f32, DType::f32, {{-5}, {3}}), {-1}));
  CHECK(same(elementwise(Op::round, DType::f32, DType::f32, {{0.5, 1.5, 2.5, -0.5}}),
             {0, 2, 2, -0.0}));
  CHECK(same(elementwise(Op::sign, DType::f32, DType::f32, {{-3, 0, 7, kNan}}), {-1, 0, 1, 0}));
  CHECK(same(elementwise(Op::relu, DType::f32, DType::f32, {{-3, 7, kNan}}), {0, 7, kNan}));
  CHECK(same(elementwise(Op::fma, DType::f64, DType::f64, {{2}, {3}, {4}}), {10}));
  CHECK(same(elementwise(Op::isnan, DType::f32, DType::boolean, {{kNan, kInf, 0}}), {1, 0, 0}));
  CHECK(same(elementwise(Op::signbit, DType::f32, DType::boolean, {{-0.0, 0.0, -1}}), {1, 0, 1}));
  CHECK(same(elementwise(Op::lt, DType::f32, DType::boolean, {{1, kNan, 2}, {2, 1, kNan}}),
             {1, 0, 0}));
  CHECK(same(elementwise(Op::logical_and, DType::f32, DType::boolean, {{0.5, kNan, 0}, {1, 1, 1}}),
             {1, 1, 0}));
  CHECK(same(elementwise(Op::nextafter, DType::bf16, DType::bf16, {{1, 1, 0}, {2, 0, -1}}),
             {1.0078125, 0.99609375, -9.183549615799121e-41}));
  CHECK(same(elementwise(Op::exp, DType::f32, DType::f32, {{89, -kInf}}), {kInf, 0}));
}

TEST_CASE("integers are exact and wrap in their dtype") {
  int64_t big = INT64_MAX, least = INT64_MIN;
  auto binary = [](Op op, DType dtype, int64_t a, int64_t b) {
    return integer_elementwise(op, dtype, dtype, {{a}, {b}})[0];
  };
  CHECK(binary(Op::add, DType::i64, big, 1) == least);
  CHECK(binary(Op::add, DType::i8, 127, 1) == -128);
  CHECK(binary(Op::sub, DType::u8, 0, 1) == 255);
  CHECK(binary(Op::mul, DType::i32, 1 << 30, 4) == 0);
  CHECK(binary(Op::add, DType::i64, (int64_t{1} << 53) + 1, 0) == (int64_t{1} << 53) + 1);
  CHECK(binary(Op::floordiv, DType::i32, -7, 2) == -4);
  CHECK(binary(Op::truncdiv, DType::i32, -7, 2) == -3);
  CHECK(binary(Op::truncdiv, DType::i64, least, -1) == least);
  CHECK(binary(Op::mod, DType::i32, -7, 3) == 2);
  CHECK(binary(Op::fmod, DType::i32, -7, 3) == -1);
  CHECK(binary(Op::pow, DType::i64, 3, 4) == 81);
  CHECK(binary(Op::pow, DType::i64, 2, -1) == 0);
  CHECK(binary(Op::bitwise_left_shift, DType::i32, 1, 31) == INT32_MIN);
  CHECK(binary(Op::bitwise_left_shift, DType::i32, 1, 32) == 0);
  CHECK(binary(Op::bitwise_right_shift, DType::i32, -8, 40) == -1);
  CHECK(binary(Op::bitwise_right_shift, DType::u8, 200, 3) == 25);
  CHECK(integer_elementwise(Op::abs, DType::i8, DType::i8, {{-128, -5}}) ==
        std::vector<int64_t>{-128, 5});
  CHECK(integer_elementwise(Op::bitwise_not, DType::boolean, DType::boolean, {{1, 0}}) ==
        std::vector<int64_t>{0, 1});
  CHECK(integer_elementwise(Op::lt, DType::i64, DType::boolean, {{big - 1}, {big}}) ==
        std::vector<int64_t>{1});
}

TEST_CASE("casts round, truncate and wrap") {
  auto cast = [](DType from, DType to, double value) {
    ModuleBuilder b;
    LoopId x = b.load(b.input(from, {1}));
    LoopId made = b.op(Op::to_dtype, to, {x});
    b.module.loops[made].source_dtype = from;
    b.output(b.store(made, to, {1}));
    return interpret::run(b.module, {floats(from, {1}, {value})}).outputs[0].get_double(0);
  };
  CHECK(cast(DType::f32, DType::i32, -2.7) == -2);
  CHECK(cast(DType::f32, DType::u8, 300.5) == 44);
  CHECK(cast(DType::f32, DType::boolean, kNan) == 1);
  CHECK(cast(DType::f32, DType::bf16, 1.00390625) == 1.0); // half way: to even
  CHECK(cast(DType::i32, DType::f32, 16777217) == 16777216);
  CHECK(cast(DType::i32, DType::i8, 200) == -56);
  ModuleBuilder b;
  LoopId made = b.op(Op::to_dtype_bitcast, DType::i32, {b.load(b.input(DType::f32, {1}))});
  b.module.loops[made].source_dtype = DType::f32;
  b.output(b.store(made, DType::i32, {1}));
  CHECK(interpret::run(b.module, {floats(DType::f32, {1}, {1.0})}).outputs[0].get_int64(0) ==
        0x3f800000);
}

TEST_CASE("buffers round where they are stored, unless asked not to") {
  ModuleBuilder b;
  BufferId x = b.input(DType::bf16, {1});
  LoopId twice = b.op(Op::add, DType::bf16, {b.load(x), b.constant(DType::bf16, 0.00390625)});
  BufferId stored = b.store(twice, DType::bf16, {1});
  b.output(b.store(b.op(Op::sub, DType::bf16, {b.load(stored), b.load(x)}), DType::bf16, {1}));
  std::vector<HostTensor> inputs = {floats(DType::bf16, {1}, {1.0})};
  CHECK(interpret::run(b.module, inputs).outputs[0].get_double(0) == 0.0);
  HostTensor exact = interpret::run(b.module, inputs, false).outputs[0];
  CHECK(exact.dtype() == DType::f64);
  CHECK(exact.get_double(0) == 0.00390625);
}

TEST_CASE("f32 is computed in f32: what is computed again equals what was stored") {
  ModuleBuilder b;
  const BufferId x = b.input(DType::f32, {4});
  const auto sine = [&] { return b.op(Op::sin, DType::f32, {b.load(x)}); };
  const BufferId stored = b.store(sine(), DType::f32, {4});
  b.output(b.store(b.op(Op::eq, DType::boolean, {b.load(stored), sine()}), DType::boolean, {4}));
  const HostTensor same =
      interpret::run(b.module, {floats(DType::f32, {4}, {0.1, 1.1, 2.1, 3.1})}).outputs[0];
  for (int64_t i = 0; i < 4; ++i)
    CHECK(same.get_int64(i) == 1);
}

TEST_CASE("reductions of every kind") {
  using Kind = ir::ReductionKind;
  HostTensor x = floats(DType::f32, {2, 4}, {1, -2, 5, 3, 2, kNan, 7, kNan});
  CHECK(same(doubles_of(reduce(Kind::sum, x, DType::f32)), {7, kNan}));
  CHECK(same(doubles_of(reduce(Kind::prod, x, DType::f32)), {-30, kNan}));
  CHECK(same(doubles_of(reduce(Kind::max, x, DType::f32)), {5, kNan}));
  CHECK(same(doubles_of(reduce(Kind::min, x, DType::f32)), {-2, kNan}));
  CHECK(integers_of(reduce(Kind::argmax, x, DType::i64)) == std::vector<int64_t>{2, 1});
  CHECK(integers_of(reduce(Kind::argmin, x, DType::i64)) == std::vector<int64_t>{1, 1});
  HostTensor ties = floats(DType::f32, {2, 3}, {1, 1, 0, -kInf, -kInf, -kInf});
  CHECK(integers_of(reduce(Kind::argmax, ties, DType::i64)) == std::vector<int64_t>{0, 0});
  CHECK(integers_of(reduce(Kind::argmin, ties, DType::i64)) == std::vector<int64_t>{2, 0});
  HostTensor n = integers(DType::i64, {2, 3}, {INT64_MAX, 1, 0, 6, 3, 5});
  CHECK(integers_of(reduce(Kind::sum, n, DType::i64)) == std::vector<int64_t>{INT64_MIN, 14});
  CHECK(integers_of(reduce(Kind::xor_sum, n, DType::i64)) ==
        std::vector<int64_t>{INT64_MAX - 1, 0});
  CHECK(integers_of(reduce(Kind::max, n, DType::i64)) == std::vector<int64_t>{INT64_MAX, 6});
  CHECK(integers_of(reduce(Kind::argmax, n, DType::i64)) == std::vector<int64_t>{0, 0});
  HostTensor truth = integers(DType::boolean, {3, 2}, {0, 0, 0, 1, 1, 1});
  CHECK(integers_of(reduce(Kind::any, truth, DType::boolean)) == std::vector<int64_t>{0, 1, 1});
  CHECK(integers_of(reduce(Kind::all, truth, DType::boolean)) == std::vector<int64_t>{0, 0, 1});
}

TEST_CASE("Welford and online softmax yield tuples") {
  using Kind = ir::ReductionKind;
  HostTensor x = floats(DType::f32, {1, 4}, {1, 2, 3, 6});
  CHECK(doubles_of(reduce(Kind::welford_reduce, x, DType::f32, 0)) == std::vector<double>{3});
  CHECK(doubles_of(reduce(Kind::welford_reduce, x, DType::f32, 1)) == std::vector<double>{14});
  CHECK(doubles_of(reduce(Kind::welford_reduce, x, DType::f32, 2)) == std::vector<double>{4});
  HostTensor y =
      floats(DType::f64, {4, 3}, {-kInf, 0, 1, -kInf, -kInf, -kInf, kNan, 1, 2, kInf, 0, 0});
  CHECK(same(doubles_of(reduce(Kind::online_softmax_reduce, y, DType::f64, 0)),
             {1, -kInf, kNan, kInf}));
  std::vector<double> sums = doubles_of(reduce(Kind::online_softmax_reduce, y, DType::f64, 1));
  CHECK(std::fabs(sums[0] - (std::exp(-1.0) + 1)) < 1e-15);
  CHECK(std::isnan(sums[1]));
  CHECK(std::isnan(sums[2]));
  CHECK(std::isnan(sums[3]));

  ModuleBuilder b; // two halves of {1, 2, 3, 6}
  ir::Reduction combine;
  combine.kind = Kind::welford_combine;
  combine.reduction_sizes = {2};
  std::vector<HostTensor> inputs;
  for (std::vector<double> part : {std::vector<double>{1.5, 4.5}, {0.5, 4.5}, {2, 2}}) {
    combine.inputs.push_back({b.load(b.input(DType::f32, {2})), {i(0)}});
    inputs.push_back(floats(DType::f32, {2}, part));
  }
  combine.item = 1;
  b.output(b.operation(combine, DType::f32, {}));
  CHECK(doubles_of(interpret::run(b.module, inputs).outputs[0]) == std::vector<double>{14});
}

TEST_CASE("empty and single-element shapes") {
  using Kind = ir::ReductionKind;
  HostTensor none(DType::f32, {2, 0});
  CHECK(same(doubles_of(reduce(Kind::sum, none, DType::f32)), {0, 0}));
  CHECK(same(doubles_of(reduce(Kind::prod, none, DType::f32)), {1, 1}));
  CHECK(same(doubles_of(reduce(Kind::max, none, DType::f32)), {-kInf, -kInf}));
  CHECK(integers_of(reduce(Kind::all, HostTensor(DType::boolean, {1, 0}), DType::boolean)) ==
        std::vector<int64_t>{1});
  CHECK(reduce(Kind::sum, HostTensor(DType::f32, {0, 3}), DType::f32).numel() == 0);
  CHECK(elementwise(Op::neg, DType::f32, DType::f32, {{}}).empty());
  ModuleBuilder b;
  b.output(b.store(b.op(Op::neg, DType::f32, {b.load(b.input(DType::f32, {}))}), DType::f32, {}));
  CHECK(doubles_of(interpret::run(b.module, {floats(DType::f32, {}, {3})}).outputs[0]) ==
        std::vector<double>{-3});
}

TEST_CASE("scans run along their axis") {
  auto scan = [](ir::ScanKind kind, size_t axis, const HostTensor &input) {
    ModuleBuilder b;
    std::vector<Expr> sizes(input.sizes().begin(), input.sizes().end());
    LoopId load = b.load(b.input(input.dtype(), sizes));
    ir::Scan made;
    made.kind = kind;
    made.axis = axis;
    // Loops: the other dimension, then the scanned one.
    made.inputs = {
        {load, axis == 1 ? std::vector<Expr>{i(0), i(1)} : std::vector<Expr>{i(1), i(0)}}};
    b.output(b.operation(made, input.dtype(), sizes));
    return interpret::run(b.module, {input}).outputs[0];
  };
  HostTensor x = floats(DType::f32, {2, 3}, {1, 2, 3, 4, 5, 6});
  CHECK(doubles_of(scan(ir::ScanKind::sum, 1, x)) == std::vector<double>{1, 3, 6, 4, 9, 15});
  CHECK(doubles_of(scan(ir::ScanKind::sum, 0, x)) == std::vector<double>{1, 2, 3, 5, 7, 9});
  CHECK(doubles_of(scan(ir::ScanKind::prod, 1, x)) == std::vector<double>{1, 2, 6, 4, 20, 120});
  HostTensor y = floats(DType::f32, {1, 4}, {1, 3, kNan, 2});
  CHECK(same(doubles_of(scan(ir::ScanKind::max, 1, y)), {1, 3, kNan, kNan}));
  HostTensor n = integers(DType::i64, {1, 2}, {INT64_MAX, 1});
  CHECK(integers_of(scan(ir::ScanKind::sum, 1, n)) == std::vector<int64_t>{INT64_MAX, INT64_MIN});
  HostTensor z = floats(DType::f64, {1, 3}, {0, 0, -kInf});
  std::vector<double> logs = doubles_of(scan(ir::ScanKind::logsumexp, 1, z));
  CHECK(std::fabs(logs[1] - std::log(2.0)) < 1e-15);
  CHECK(logs[2] == logs[1]);
}

TEST_CASE("scans of tuples combine in the order of the row") {
  // (a, b) then (c, d): (a c, b c + d), of [2, 3] along each dimension, forwards and backwards
  const HostTensor x = floats(DType::f32, {2, 3}, {1, 2, 3, 4, 5, 6}),
                   y = floats(DType::f32, {2, 3}, {1, 0, 2, 1, 3, 1});
  const auto scan = [&](size_t axis, size_t item, bool backwards) {
    ModuleBuilder b;
    const LoopId left = b.load(b.input(DType::f32, {2, 3})),
                 right = b.load(b.input(DType::f32, {2, 3}));
    std::vector<LoopId> operands;
    for (int64_t k = 0; k < 4; ++k) {
      operands.push_back(b.op(Op::operand, DType::f32, {}));
      b.module.loops.back().constant = k;
    }
    const LoopId product = b.op(Op::mul, DType::f32, {operands[1], operands[2]});
    ir::Scan made;
    made.kind = ir::ScanKind::combine;
    made.axis = axis;
    made.item = item;
    made.backwards = backwards;
    for (const LoopId input : {left, right})
      made.inputs.push_back(
          {input, axis == 1 ? std::vector<Expr>{i(0), i(1)} : std::vector<Expr>{i(1), i(0)}});
    made.combined = {{b.op(Op::mul, DType::f32, {operands[0], operands[2]}), {}},
                     {b.op(Op::add, DType::f32, {product, operands[3]}), {}}};
    b.output(b.operation(made, DType::f32, {Expr(2), Expr(3)}));
    return doubles_of(interpret::run(b.module, {x, y}).outputs[0]);
  };
  CHECK(scan(1, 0, false) == std::vector<double>{1, 2, 6, 4, 20, 120});
  CHECK(scan(1, 1, false) == std::vector<double>{1, 2, 8, 1, 8, 49});
  CHECK(scan(0, 1, false) == std::vector<double>{1, 0, 2, 5, 3, 13});
  CHECK(scan(1, 1, true) == std::vector<double>{8, 2, 1, 49, 8, 1});
  CHECK(scan(0, 0, true) == std::vector<double>{4, 10, 18, 1, 2, 3});
}

TEST_CASE("a masked region is evaluated only where its mask holds") {
  // constant_pad of [1, 2, 3] by 2 on both sides: the load would leave the buffer elsewhere.
  ModuleBuilder b;
  LoopId load = b.load(b.input(DType::f32, {3}));
  LoopId moved = b.view(load, {7}, {i(0) - 2});
  LoopId at = b.index_value(DType::i64, {7}, i(0));
  LoopId low = b.op(Op::ge, DType::boolean, {at, b.constant(DType::i64, int64_t{2})});
  LoopId high = b.op(Op::lt, DType::boolean, {at, b.constant(DType::i64, int64_t{5})});
  LoopId inside = b.op(Op::logical_and, DType::boolean, {low, high});
  LoopId masked = b.op(Op::masked, DType::f32, {inside, moved});
  b.module.loops[masked].constant = 9.0;
  b.output(b.store(masked, DType::f32, {7}));
  CHECK(doubles_of(interpret::run(b.module, {floats(DType::f32, {3}, {1, 2, 3})}).outputs[0]) ==
        std::vector<double>{9, 9, 1, 2, 3, 9, 9});
}

TEST_CASE("run-time indices wrap, and are checked") {
  ModuleBuilder b;
  LoopId table = b.load(b.input(DType::f32, {4, 2}));
  LoopId index = b.load(b.input(DType::i64, {3}));
  ir::LoopNode view;
  view.op = Op::view;
  view.dtype = DType::f32;
  view.sizes = {3, 2};
  view.operands = {{table, {ir::operand_value(1), i(1)}}, {index, {i(0)}}};
  view.indirect_extents = {4};
  b.output(b.store(b.add(view), DType::f32, {3, 2}));
  b.module.operations[0].origins = {0};
  b.module.origins.push_back({"embedding", "aten.embedding.default", ""});
  HostTensor rows = floats(DType::f32, {4, 2}, {0, 1, 10, 11, 20, 21, 30, 31});
  CHECK(doubles_of(
            interpret::run(b.module, {rows, integers(DType::i64, {3}, {2, 0, -1})}).outputs[0]) ==
        std::vector<double>{20, 21, 0, 1, 30, 31});
  CHECK_THROWS_WITH(interpret::run(b.module, {rows, integers(DType::i64, {3}, {2, 4, 0})}),
                    "error TSC-R127: a value is out of range: index 4 is not in [-4, 4)\n"
                    "  next: give values in that range");
}

TEST_CASE("scatter writes and adds into an existing buffer") {
  for (bool adds : {false, true}) {
    ModuleBuilder b;
    BufferId target = b.store(b.constant(DType::f32, 1.0), DType::f32, {4});
    LoopId index = b.load(b.input(DType::i64, {3}));
    LoopId value = b.load(b.input(DType::f32, {3}));
    ir::Scatter scatter;
    scatter.sizes = {3};
    scatter.value = {value, {i(0)}};
    scatter.indices = {{index, {i(0)}}};
    scatter.extents = {4};
    scatter.index = {ir::operand_value(1)};
    scatter.mode = adds ? ir::StoreMode::atomic_add : ir::StoreMode::plain;
    BufferId mutation = b.operation(scatter, DType::f32, {4});
    b.module.buffers[mutation].layout_kind = ir::LayoutKind::mutation;
    b.module.buffers[mutation].mutates = target;
    b.output(target);
    std::vector<HostTensor> inputs = {integers(DType::i64, {3}, {3, -4, 3}),
                                      floats(DType::f32, {3}, {5, 6, 7})};
    CHECK(doubles_of(interpret::run(b.module, inputs).outputs[0]) ==
          (adds ? std::vector<double>{7, 1, 1, 13} : std::vector<double>{6, 1, 1, 7}));
  }
}

TEST_CASE("matrix products: strides, batches, alpha, beta, integers") {
  auto product = [](DType dtype, const std::vector<HostTensor> &inputs, std::vector<Expr> sizes,
                    bool transpose_b, double alpha, double beta) {
    ModuleBuilder b;
    ir::Extern call;
    call.alpha = alpha;
    call.beta = beta;
    for (const HostTensor &input : inputs) {
      std::vector<Expr> shape(input.sizes().begin(), input.sizes().end());
      BufferId id = b.input(dtype, shape);
      tensor::Layout layout = b.module.buffers[id].layout;
      if (transpose_b && call.inputs.size() == 1) {
        std::swap(layout.sizes[0], layout.sizes[1]);
        std::swap(layout.strides[0], layout.strides[1]);
      }
      call.inputs.push_back({id, layout, dtype});
    }
    b.output(b.operation(call, dtype, std::move(sizes)));
    return interpret::run(b.module, inputs).outputs[0];
  };
  HostTensor a = floats(DType::f32, {2, 3}, {1, 2, 3, 4, 5, 6});
  HostTensor w = floats(DType::f32, {2, 3}, {1, 0, 1, 0, 1, 0});
  HostTensor bias = floats(DType::f32, {2}, {10, 20});
  CHECK(doubles_of(product(DType::f32, {a, w}, {2, 2}, true, 1, 0)) ==
        std::vector<double>{4, 2, 10, 5});
  CHECK(doubles_of(product(DType::f32, {a, w, bias}, {2, 2}, true, 2, 0.5)) ==
        std::vector<double>{13, 14, 25, 20});
  HostTensor batch = floats(DType::f32, {2, 1, 2}, {1, 2, 3, 4});
  HostTensor columns = floats(DType::f32, {2, 2, 1}, {1, 1, 2, 0});
  CHECK(doubles_of(product(DType::f32, {batch, columns}, {2, 1, 1}, false, 1, 0)) ==
        std::vector<double>{3, 6});
  HostTensor n = integers(DType::i64, {1, 2}, {INT64_MAX, 1});
  HostTensor ones = integers(DType::i64, {2, 1}, {1, 1});
  CHECK(integers_of(product(DType::i64, {n, ones}, {1, 1}, false, 1, 0)) ==
        std::vector<int64_t>{INT64_MIN});
  HostTensor hollow(DType::f32, {2, 0}), empty(DType::f32, {0, 2});
  CHECK(doubles_of(product(DType::f32, {hollow, empty}, {2, 2}, false, 1, 0)) ==
        std::vector<double>{0, 0, 0, 0});
}

TEST_CASE("sizes are bound from the inputs and checked") {
  ModuleBuilder b;
  Expr s0 = symbolic::symbol(symbolic::SymbolSort::size, 0);
  LoopId x = b.load(b.input(DType::f32, {s0, 2}));
  LoopId y = b.load(b.input(DType::f32, {2 * s0}));
  LoopId flat =
      b.view(x, {2 * s0}, {symbolic::floor_div(i(0), 2), symbolic::modular_index(i(0), 1, 2)});
  b.output(b.store(b.op(Op::add, DType::f32, {flat, y}), DType::f32, {2 * s0}));
  ir::Output size;
  size.value = s0 * s0;
  b.module.outputs.push_back(size);
  b.module.symbols.push_back({s0, 1, 8});
  HostTensor two = floats(DType::f32, {2, 2}, {1, 2, 3, 4});
  interpret::Result result =
      interpret::run(b.module, {two, floats(DType::f32, {4}, {10, 20, 30, 40})});
  CHECK(doubles_of(result.outputs[0]) == std::vector<double>{11, 22, 33, 44});
  CHECK(result.outputs[1].get_int64(0) == 4);
  CHECK_THROWS_WITH(interpret::run(b.module, {two, HostTensor(DType::f32, {5})}),
                    "error TSC-R101: input \"in1\", dimension 0: size 5, expected 4, the value of "
                    "2*s0\n  next: pass a tensor of that shape");
  CHECK_THROWS_WITH(interpret::run(b.module, {two, HostTensor(DType::f32, {4, 1})}),
                    "error TSC-R101: input in1 has shape [4, 1], but the graph takes [2*s0]\n"
                    "  at node in1\n  next: pass a tensor of that shape");
  CHECK_THROWS_WITH(
      interpret::run(b.module, {HostTensor(DType::f32, {9, 2}), HostTensor(DType::f32, {18})}),
      "error TSC-R102: input \"in0\", dimension 0: size 9 is outside [1, 8], the range of s0\n"
      "  next: pass inputs of sizes in that range");
}

TEST_CASE("a weight that is missing is an error only when it is read") {
  ModuleBuilder b;
  BufferId weight = b.input(DType::f32, {2});
  b.module.buffers[weight].weight = "linear.weight";
  b.output(b.store(b.constant(DType::f32, 1.0), DType::f32, {}));
  CHECK(interpret::run(b.module, {HostTensor(DType::f32, {0})}).outputs.size() == 1);
  b.output(b.store(b.load(weight), DType::f32, {2}));
  CHECK_THROWS_WITH(interpret::run(b.module, {HostTensor(DType::f32, {0})}),
                    "error TSC-R104: a tensor that the graph reads was not given\n  at op1\n"
                    "  next: pass every weight and input (tsc run --weights, --inputs)");
}

TEST_CASE("a chain of 100,000 operations does not overflow the stack") {
  ModuleBuilder b;
  LoopId value = b.load(b.input(DType::f64, {3}));
  LoopId one = b.constant(DType::f64, 1.0);
  for (int k = 0; k < 100000; ++k)
    value = b.op(Op::add, DType::f64, {value, one});
  b.output(b.store(value, DType::f64, {3}));
  CHECK(doubles_of(interpret::run(b.module, {floats(DType::f64, {3}, {0, 1, 2})}).outputs[0]) ==
        std::vector<double>{100000, 100001, 100002});
}

TEST_CASE("domains larger than a chunk") {
  ModuleBuilder b;
  LoopId x = b.load(b.input(DType::f32, {70, 130}));
  LoopId turned = b.view(x, {130, 70}, {i(1), i(0)});
  LoopId position = b.index_value(DType::f32, {130, 70}, 70 * i(0) + i(1));
  b.output(b.store(b.op(Op::sub, DType::f32, {turned, position}), DType::f32, {130, 70}));
  HostTensor input(DType::f32, {70, 130});
  for (int64_t k = 0; k < input.numel(); ++k)
    input.set_double(k, static_cast<double>(k));
  HostTensor result = interpret::run(b.module, {input}).outputs[0];
  int64_t wrong = 0;
  for (int64_t row = 0; row < 130; ++row) {
    for (int64_t column = 0; column < 70; ++column)
      wrong += result.get_double(70 * row + column) !=
                       static_cast<double>(130 * column + row - (70 * row + column))
                   ? 1
                   : 0;
  }
  CHECK(wrong == 0);
}

namespace {

/// reduce_scatter of one vector over `size` ranks.
ir::Module scatter_module(DType dtype, int64_t length, int64_t size, const std::string &reduction) {
  ModuleBuilder b;
  const BufferId x = b.input(dtype, {Expr(length)});
  ir::Extern call;
  call.library = ir::Library::reduce_scatter;
  call.group = {"0", size};
  call.reduction = reduction;
  call.inputs.push_back({x, b.module.buffers[x].layout, dtype});
  b.output(b.operation(call, dtype, {Expr(length / size)}));
  return b.module;
}

} // namespace

TEST_CASE("ranks reduce element by element and keep their own part") {
  const std::vector<std::vector<HostTensor>> given = {{floats(DType::f32, {4}, {1, -2, 3, kNan})},
                                                      {floats(DType::f32, {4}, {5, -7, kInf, 1})}};
  interpret::Links links;
  links.table.world = 2;
  const auto results = [&](const std::string &reduction) {
    std::vector<std::vector<double>> parts;
    for (interpret::Result &rank :
         interpret::run_ranks(scatter_module(DType::f32, 4, 2, reduction), given, links))
      parts.push_back(doubles_of(rank.outputs[0]));
    return parts;
  };
  CHECK(results("sum")[0] == std::vector<double>{6, -9});
  CHECK(results("avg")[0] == std::vector<double>{3, -4.5});
  CHECK(results("max")[0] == std::vector<double>{5, -2});
  CHECK(results("min")[0] == std::vector<double>{1, -7});
  CHECK(results("product")[0] == std::vector<double>{5, 14});
  const std::vector<double> maximum = results("max")[1];
  CHECK(maximum[0] == kInf);
  CHECK(std::isnan(maximum[1]));
}

TEST_CASE("as many ranks run as the group has") {
  const std::vector<HostTensor> own = {floats(DType::f32, {4}, {1, 2, 3, 4})};
  try {
    interpret::run(scatter_module(DType::f32, 4, 2, "sum"), own);
    FAIL("one rank ran what needs two");
  } catch (const support::UserError &error) {
    CHECK(std::string(error.what()) ==
          "error TSC-R126: op0 communicates among 2 ranks, and this run has 1\n"
          "  next: run with --world-size 2");
  }
}
