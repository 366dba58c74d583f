// Elementwise functions that are a few simpler ones, with their special values as PyTorch has them.
#include "ops/families/log_sums.h"
#include "ops/table/complex_calls.h"
#include "ops/table/pointwise_rules.h"
#include "ops/table/precision.h"
#include "ops/table/shape_rules.h"
#include "ops/table/table.h"

#include <cmath>
#include <numbers>

namespace tsc::ops {
namespace {

DType result_dtype(const Call &call, std::string_view a, std::string_view b) {
  return to_floating(promote_operands(elementwise_operands(call, {a, b})));
}

/// A tensor in the dtype in which a result of `dtype` is computed, f32 or wider: operands of a
/// narrower one too, which must not be rounded on the way to an f64 result. A number as it is.
Argument wide_operand(GraphBuilder &builder, const Argument &x, DType dtype) {
  return x.node() ? convert(builder, x, accumulation_dtype(dtype)) : x;
}

/// self * log(other), or log1p(other): 0 where self is 0, NaN where other is.
Argument times_logarithm(GraphBuilder &builder, const Call &call, bool plus_one) {
  const DType dtype = result_dtype(call, "self", "other");
  Argument x = wide_operand(builder, call["self"], dtype);
  Argument y = wide_operand(builder, call["other"], dtype);
  const auto of_number = [&] {
    const double number = call.number("other");
    return plus_one ? std::log1p(number) : std::log(number);
  };
  Argument logarithm = y.node()
                           ? builder.call(plus_one ? "aten.log1p.default" : "aten.log.default", {y})
                           : Argument(of_number());
  Argument product = builder.call(kMul, {x, logarithm});
  Argument result;
  if (x.node()) {
    Argument zero = builder.call("aten.eq.Tensor", {x, 0});
    result = builder.call(kWhere, {zero, 0.0, product});
  } else {
    result = call.number("self") == 0 ? builder.call("aten.full_like.default", {y, 0.0}) : product;
  }
  if (y.node()) {
    Argument invalid = builder.call("aten.isnan.default", {y});
    result = builder.call(kWhere, {invalid, std::nan(""), result});
  } else if (std::isnan(call.number("other"))) {
    result = product;
  }
  return convert(builder, result, dtype);
}

Argument xlogy(GraphBuilder &builder, const Call &call) {
  return times_logarithm(builder, call, false);
}

/// log(exp(a) + exp(b)), or to the base 2; equal infinities are themselves.
Argument log_add_exp(GraphBuilder &builder, const Call &call, bool base_two) {
  const DType dtype = result_dtype(call, "self", "other");
  Argument a = wide_operand(builder, call["self"], dtype);
  Argument b = wide_operand(builder, call["other"], dtype);
  if (tensor::is_complex(dtype))
    return complex_log_add_exp(builder, a, b);
  Argument largest = builder.call("aten.maximum.default", {a, b});
  Argument distance = builder.call("aten.abs.default", {builder.call(kSub, {a, b})});
  Argument negated = builder.call("aten.neg.default", {distance});
  Argument power = builder.call(base_two ? "aten.exp2.default" : "aten.exp.default", {negated});
  Argument tail = builder.call("aten.log1p.default", {power});
  if (base_two)
    tail = builder.call(kMul, {tail, 1 / std::numbers::ln2});
  Argument sum = builder.call(kAdd, {largest, tail});
  Argument magnitude = builder.call("aten.abs.default", {a});
  Argument infinite = builder.call("aten.eq.Tensor", {magnitude, INFINITY});
  Argument equal = builder.call("aten.eq.Tensor", {a, b});
  Argument itself = builder.call("aten.logical_and.default", {infinite, equal});
  return convert(builder, builder.call(kWhere, {itself, a, sum}), dtype);
}

/// In float64, whatever the operands are.
Argument float_power(GraphBuilder &builder, const Call &call) {
  const DType wide_dtype = involves_complex(call) ? DType::c128 : DType::f64;
  auto wide = [&](std::string_view name) {
    return call[name].node() ? convert(builder, call[name], wide_dtype) : call[name];
  };
  Argument base = wide("self");
  Argument exponent = wide("exponent");
  std::string_view target = !base.node()       ? "aten.pow.Scalar"
                            : !exponent.node() ? "aten.pow.Tensor_Scalar"
                                               : "aten.pow.Tensor_Tensor";
  Argument result = builder.call(target, {base, exponent});
  return convert(builder, result, wide_dtype);
}

/// 0 below 0, 1 above, `values` at 0.
Argument heaviside(GraphBuilder &builder, const Call &call) {
  DType dtype = call.tensor("self").dtype;
  Argument positive = builder.call("aten.gt.Tensor", {call["self"], 0});
  Argument step = convert(builder, positive, dtype);
  Argument zero = builder.call("aten.eq.Tensor", {call["self"], 0});
  return builder.call(kWhere, {zero, call["values"], step});
}

/// sin(pi x) / (pi x), 1 at 0.
Argument sinc(GraphBuilder &builder, const Call &call) {
  DType dtype = to_floating(call.tensor("self").dtype);
  Argument x = widen_to_floating(builder, call["self"]);
  Argument angle = builder.call(kMul, {x, std::numbers::pi});
  Argument sine = builder.call("aten.sin.default", {angle});
  Argument share = builder.call(kDiv, {sine, angle});
  Argument zero = builder.call("aten.eq.Tensor", {x, 0});
  return convert(builder, builder.call(kWhere, {zero, 1.0, share}), dtype);
}

double largest_number(DType dtype) {
  switch (dtype) {
  case DType::f16:
    return 65504;
  case DType::bf16:
    return 0x1.fep127;
  case DType::f64:
    return 0x1.fffffffffffffp1023;
  default:
    return 0x1.fffffep127;
  }
}

Argument nan_to_num(GraphBuilder &builder, const Call &call) {
  DType dtype = call.tensor("self").dtype;
  Argument x = call["self"];
  if (!tensor::is_floating(dtype))
    return builder.call("aten.clone.default", {x});
  double largest = largest_number(dtype);
  auto number = [&](std::string_view name, double fallback) {
    return call.has(name) ? call.number(name) : fallback;
  };
  Argument invalid = builder.call("aten.isnan.default", {x});
  Argument above = builder.call("aten.eq.Tensor", {x, INFINITY});
  Argument below = builder.call("aten.eq.Tensor", {x, -INFINITY});
  Argument result = builder.call(kWhere, {below, number("neginf", -largest), x});
  result = builder.call(kWhere, {above, number("posinf", largest), result});
  return builder.call(kWhere, {invalid, number("nan", 0), result});
}

/// self == other, or |self - other| <= atol + rtol * |other| and finite.
Argument is_close(GraphBuilder &builder, const Call &call) {
  Argument a = call["self"], b = call["other"];
  const DType dtype = call.tensor("self").dtype;
  const bool floating = tensor::is_floating(dtype) || tensor::is_complex(dtype);
  Argument equal = builder.call("aten.eq.Tensor", {a, b});
  if (call.boolean("equal_nan") && floating) {
    Argument a_invalid = builder.call("aten.isnan.default", {a});
    Argument b_invalid = builder.call("aten.isnan.default", {b});
    Argument both = builder.call("aten.logical_and.default", {a_invalid, b_invalid});
    equal = builder.call("aten.logical_or.default", {equal, both});
  }
  if (call.number("rtol") == 0 && call.number("atol") == 0)
    return equal;
  Argument wide_b = widen_to_floating(builder, b);
  Argument scaled = builder.call("aten.abs.default", {builder.call(kMul, {wide_b, call["rtol"]})});
  Argument allowed = builder.call(kAdd, {scaled, call["atol"]});
  Argument difference =
      builder.call(kSub, {floating ? widen(builder, a) : a, floating ? wide_b : b});
  Argument distance = builder.call("aten.abs.default", {difference});
  Argument near = builder.call("aten.le.Tensor", {distance, allowed});
  if (floating) {
    Argument finite = builder.call("aten.lt.Tensor", {distance, INFINITY});
    near = builder.call("aten.logical_and.default", {near, finite});
  }
  return builder.call("aten.logical_or.default", {equal, near});
}

/// Equal to an infinity of one sign.
Argument is_infinity(GraphBuilder &builder, const Call &call, double infinity) {
  if (!tensor::is_floating(call.tensor("self").dtype))
    return builder.call("aten.full_like.default", {call["self"], false},
                        {{"dtype", DType::boolean}});
  return builder.call("aten.eq.Tensor", {call["self"], infinity});
}

/// self * 2^other. By whole powers the result has the dtype of a floating self, and 2^other need
/// not fit into it: computed in f64, the only rounding is the last one.
Argument ldexp(GraphBuilder &builder, const Call &call) {
  const DType dtype = call.tensor("self").dtype, exponent = call.tensor("other").dtype;
  if (tensor::is_floating(dtype) && tensor::is_integral(exponent)) {
    constexpr int64_t kMost = 2200; // from the smallest f64 to the largest it is 2098 powers
    const Argument whole = convert(builder, call["other"], DType::i64);
    const Argument limited = builder.call("aten.clamp.default", {whole, -kMost, kMost});
    // In four parts, because 2^2200 is no number.
    const Argument part = builder.call("aten.bitwise_right_shift.Tensor_Scalar", {limited, 2});
    const Argument rest = builder.call(kSub, {limited, builder.call(kMul, {part, 3})});
    Argument result = convert(builder, call["self"], DType::f64);
    for (const Argument &share : {rest, part, part, part}) {
      const Argument real = convert(builder, share, DType::f64);
      result = builder.call(kMul, {result, builder.call("aten.exp2.default", {real})});
    }
    return convert(builder, result, dtype);
  }
  Argument power = builder.call("aten.pow.Scalar", {2.0, call["other"]});
  return builder.call(kMul, {call["self"], power});
}

/// The result of `convert_factor` times self.
Decomposition scaled_by(double factor) {
  return [factor](GraphBuilder &builder, const Call &call) {
    DType dtype = to_floating(call.tensor("self").dtype);
    Argument x = widen_to_floating(builder, call["self"]);
    return convert(builder, builder.call(kMul, {x, factor}), dtype);
  };
}

void add_second_names(Table &table) {
  struct Alias {
    std::string_view schema, target;
  };
  for (const Alias &alias :
       {Alias{"arccosh(Tensor self) -> Tensor", "aten.acosh.default"},
        Alias{"arcsinh(Tensor self) -> Tensor", "aten.asinh.default"},
        Alias{"arctanh(Tensor self) -> Tensor", "aten.atanh.default"},
        Alias{"arctan2(Tensor self, Tensor other) -> Tensor", "aten.atan2.default"},
        Alias{"special_digamma(Tensor self) -> Tensor", "aten.digamma.default"},
        Alias{"special_psi(Tensor self) -> Tensor", "aten.digamma.default"},
        Alias{"special_erf(Tensor self) -> Tensor", "aten.erf.default"},
        Alias{"special_exp2(Tensor self) -> Tensor", "aten.exp2.default"},
        Alias{"special_expm1(Tensor self) -> Tensor", "aten.expm1.default"},
        Alias{"special_log1p(Tensor self) -> Tensor", "aten.log1p.default"},
        Alias{"special_logit(Tensor self, float? eps=None) -> Tensor", "aten.logit.default"},
        Alias{"special_xlogy(Tensor self, Tensor other) -> Tensor", "aten.xlogy.Tensor"},
        Alias{"remainder.Scalar_Tensor(Scalar self, Tensor other) -> Tensor",
              "aten.remainder.Tensor"},
        Alias{"bitwise_and.Scalar_Tensor(Scalar self, Tensor other) -> Tensor",
              "aten.bitwise_and.Tensor"},
        Alias{"bitwise_or.Scalar_Tensor(Scalar self, Tensor other) -> Tensor",
              "aten.bitwise_or.Tensor"},
        Alias{"bitwise_xor.Scalar_Tensor(Scalar self, Tensor other) -> Tensor",
              "aten.bitwise_xor.Tensor"}}) {
    std::string_view target = alias.target;
    table.add(alias.schema).decompose([target](GraphBuilder &builder, const Call &call) {
      Arguments arguments;
      for (const Parameter &parameter : call.schema().parameters)
        arguments.push_back(call[parameter.name]);
      return builder.call(target, arguments);
    });
  }
}

} // namespace

void add_special_functions(Table &table) {
  table.add_with_in_place("xlogy.Tensor(Tensor self, Tensor other) -> Tensor").decompose(xlogy);
  table.add("xlogy.Scalar_Self(Scalar self, Tensor other) -> Tensor").decompose(xlogy);
  table.add_with_in_place("xlogy.Scalar_Other(Tensor self, Scalar other) -> Tensor")
      .decompose(xlogy);
  for (std::string_view form :
       {"(Tensor self, Tensor other)", ".self_scalar(Scalar self, Tensor other)",
        ".other_scalar(Tensor self, Scalar other)"})
    table.add(keep_text("special_xlog1py" + std::string(form) + " -> Tensor"))
        .decompose([](GraphBuilder &builder, const Call &call) {
          return times_logarithm(builder, call, true);
        });
  for (bool base_two : {false, true})
    table
        .add(base_two ? "logaddexp2(Tensor self, Tensor other) -> Tensor"
                      : "logaddexp(Tensor self, Tensor other) -> Tensor")
        .decompose([base_two](GraphBuilder &builder, const Call &call) {
          return log_add_exp(builder, call, base_two);
        });
  for (std::string_view form :
       {"Tensor_Tensor(Tensor self, Tensor exponent)",
        "Tensor_Scalar(Tensor self, Scalar exponent)", "Scalar(Scalar self, Tensor exponent)"})
    table.add(keep_text("float_power." + std::string(form) + " -> Tensor")).decompose(float_power);
  table.add_with_in_place("heaviside(Tensor self, Tensor values) -> Tensor").decompose(heaviside);
  table.add_with_in_place("sinc(Tensor self) -> Tensor").decompose(sinc);
  table.add_with_in_place("deg2rad(Tensor self) -> Tensor")
      .decompose(scaled_by(std::numbers::pi / 180));
  table.add_with_in_place("rad2deg(Tensor self) -> Tensor")
      .decompose(scaled_by(180 / std::numbers::pi));
  table
      .add_with_in_place("nan_to_num(Tensor self, float? nan=None, float? posinf=None, float? "
                         "neginf=None) -> Tensor")
      .decompose(nan_to_num);
  table
      .add("isclose(Tensor self, Tensor other, float rtol=1e-05, float atol=1e-08, bool "
           "equal_nan=False) -> Tensor")
      .decompose(is_close);
  for (bool positive : {true, false})
    table.add(positive ? "isposinf(Tensor self) -> Tensor" : "isneginf(Tensor self) -> Tensor")
        .decompose([positive](GraphBuilder &builder, const Call &call) {
          return is_infinity(builder, call, positive ? INFINITY : -INFINITY);
        });
  table.add_with_in_place("ldexp.Tensor(Tensor self, Tensor other) -> Tensor").decompose(ldexp);
  add_second_names(table);
}

} // namespace tsc::ops
