// Draws: functions of the random state, the node's stream and the element's position.
#include "lowering/build.h"
#include "lowering/registry.h"

#include "tensor/layout.h"

#include <cmath>

namespace tsc::lowering {

namespace {

/// Element `position` of the random state, an operand of any domain.
Operand state_operand(Context &context, const ops::Call &call, int64_t position) {
  const std::vector<Expr> index = {Expr(position)};
  return reindexed(operand_of(context, tensor_argument(context, call, "state")), index);
}

/// op(seed, call number << 32 | stream, position of the element), as `dtype`.
Operand draw(Context &context, const ops::Call &call, Op op, DType dtype) {
  constexpr int64_t kStreamBits = 32;
  const std::vector<Expr> &sizes = result_meta(context).layout.sizes;
  const Operand number = elementwise_operand(
      context, Op::bitwise_left_shift, DType::i64, {},
      {state_operand(context, call, 1), constant_operand(context, kStreamBits, DType::i64)});
  const Operand stream =
      elementwise_operand(context, Op::bitwise_or, DType::i64, {},
                          {number, constant_operand(context, call.integer("stream"), DType::i64)});
  const Expr position = tensor::contiguous_layout(sizes).linear_index(identity_index(sizes.size()));
  return elementwise_operand(context, op, dtype, sizes,
                             {state_operand(context, call, 0), stream,
                              index_operand(context, position, DType::i64, sizes)});
}

/// What 16-bit floats are computed in.
DType drawn_dtype(DType dtype) { return dtype == DType::f64 ? DType::f64 : DType::f32; }

struct Scaling {
  Context &context;
  DType dtype;
  const std::vector<Expr> &sizes;

  Operand number(double value) const { return constant_operand(context, value, dtype); }
  Operand apply(Op op, std::vector<Operand> operands) const {
    return elementwise_operand(context, op, dtype, sizes, std::move(operands));
  }
  /// x * factor + addend in one rounding: no compiler may contract it, or not.
  Operand affine(Operand x, double factor, double addend) const {
    if (factor == 1 && addend == 0)
      return x;
    return apply(Op::fma, {std::move(x), number(factor), number(addend)});
  }
};

NodeValue as_result(Context &context, const Operand &value) {
  return convert(context, tensor_of(context, value.node), result_meta(context).dtype);
}

/// The largest value of `dtype` below `high`.
double below(double high, DType dtype) {
  if (dtype == DType::f64)
    return std::nextafter(high, -INFINITY);
  const float single = static_cast<float>(high);
  if (dtype == DType::f32)
    return std::nextafter(single, -INFINITY);
  const int digits = dtype == DType::f16 ? 11 : 8;
  int exponent = 0;
  const float fraction = std::frexp(single, &exponent); // in [1/2, 1)
  // Below a power of two the spacing halves.
  const bool power = fraction == 0.5f;
  return single - std::ldexp(1.0f, exponent - digits - (power ? 1 : 0));
}

NodeValue uniform(Context &context, const ops::Call &call) {
  const graph::TensorMeta &result = result_meta(context);
  const Scaling scaling{context, drawn_dtype(result.dtype), result.layout.sizes};
  Operand value = draw(context, call, Op::rand, scaling.dtype);
  if (tensor::is_reduced_float(result.dtype)) { // as many bits as the dtype has: none rounds to 1
    const double steps = result.dtype == DType::f16 ? 2048 : 256;
    value = scaling.apply(Op::mul, {std::move(value), scaling.number(steps)});
    value = scaling.apply(Op::floor, {std::move(value)});
    value = scaling.apply(Op::mul, {std::move(value), scaling.number(1 / steps)});
  }
  const double low = call.number("low"), high = call.number("high");
  if (low != 0 || high != 1) {
    value = scaling.affine(std::move(value), high - low, low);
    if (low < high) // rounding may reach the bound, which is not in the interval
      value =
          scaling.apply(Op::minimum, {std::move(value), scaling.number(below(high, result.dtype))});
  }
  return as_result(context, value);
}

NodeValue normal(Context &context, const ops::Call &call) {
  const graph::TensorMeta &result = result_meta(context);
  const Scaling scaling{context, drawn_dtype(result.dtype), result.layout.sizes};
  Operand value = draw(context, call, Op::randn, scaling.dtype);
  value = scaling.affine(std::move(value), call.number("std"), call.number("mean"));
  return as_result(context, value);
}

NodeValue exponential(Context &context, const ops::Call &call) {
  const graph::TensorMeta &result = result_meta(context);
  const Scaling scaling{context, drawn_dtype(result.dtype), result.layout.sizes};
  Operand value = draw(context, call, Op::rand_exponential, scaling.dtype);
  value = scaling.affine(std::move(value), 1 / call.number("rate"), 0);
  return as_result(context, value);
}

NodeValue bits(Context &context, const ops::Call &call) {
  return as_result(context, draw(context, call, Op::rand_bits, DType::i64));
}

} // namespace

void add_random(Registry &registry) {
  registry["random_uniform"] = uniform;
  registry["random_normal"] = normal;
  registry["random_exponential"] = exponential;
  registry["random_bits"] = bits;
}

} // namespace tsc::lowering
