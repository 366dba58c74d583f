// Elementwise arithmetic of two operands. What the schema calls Tensor may be a number.
#include "ops/table/builder.h"
#include "ops/table/pointwise_rules.h"
#include "ops/table/precision.h"
#include "ops/table/table.h"

#include <cmath>
#include <complex>

namespace tsc::ops {
namespace {

std::complex<double> complex_number(const Call &call, std::string_view parameter) {
  const auto *number = std::get_if<graph::Complex>(&call[parameter].value);
  return number != nullptr ? std::complex<double>(number->real, number->imaginary)
                           : std::complex<double>(call.number(parameter));
}

bool is_one(const Argument &argument) {
  if (const int64_t *value = std::get_if<int64_t>(&argument.value))
    return *value == 1;
  const double *value = std::get_if<double>(&argument.value);
  return value && *value == 1;
}

/// self (op) alpha * other, kept as it is when alpha is 1.
Argument with_alpha(GraphBuilder &builder, const Call &call, std::string_view target) {
  if (is_one(call["alpha"])) {
    if (call.node().target == target && call.node().kwargs.empty())
      return builder.keep(call);
    return builder.emit(target, {call["self"], call["other"]});
  }
  // In the result's dtype, as ATen scales.
  const DType dtype = promote_operands(elementwise_operands(call, {"self", "other"}));
  if (tensor::is_complex(dtype)) {
    if (call.optional_tensor("other"))
      return builder.emit(target,
                          {call["self"], builder.call(kMul, {call["other"], call["alpha"]})});
    const std::complex<double> product =
        complex_number(call, "other") * complex_number(call, "alpha");
    return builder.emit(target, {call["self"], graph::Complex{product.real(), product.imag()}});
  }
  const bool any = call.number("alpha") != 0;
  Argument scaled = call["other"];
  const bool *truth = std::get_if<bool>(&scaled.value);
  if (truth && dtype != DType::boolean)
    scaled = int64_t{*truth};
  if (call.optional_tensor("other")) {
    const Argument alpha = dtype == DType::boolean ? Argument(any) : call["alpha"];
    scaled = builder.call(kMul, {convert(builder, call["other"], dtype), alpha});
  } else if (dtype == DType::boolean) {
    scaled = call.number("other") != 0 && any;
  } else if (std::holds_alternative<int64_t>(scaled.value) &&
             std::holds_alternative<int64_t>(call["alpha"].value)) {
    scaled = std::get<int64_t>(scaled.value) * std::get<int64_t>(call["alpha"].value);
  } else {
    scaled = call.number("other") * call.number("alpha");
  }
  return builder.emit(target, {call["self"], scaled});
}

/// A number that sizes decide is a tensor of rank 0, which promotes as numbers do.
Argument number(GraphBuilder &builder, const Call &call, std::string_view parameter) {
  const TensorMeta *meta = call.optional_tensor(parameter);
  return meta == nullptr || meta->is_number ? call[parameter]
                                            : builder.call("tsc.number.default", {call[parameter]});
}

/// NAME.Scalar is NAME.Tensor with a number.
void add_scalar_form(Table &table, std::string_view name, std::string_view target) {
  table
      .add_with_in_place(
          keep_text(std::string(name) + ".Scalar(Tensor self, Scalar other) -> Tensor"))
      .decompose([target](GraphBuilder &builder, const Call &call) {
        return builder.call(target, {call["self"], number(builder, call, "other")});
      });
}

void add_arithmetic(Table &table) {
  const std::string_view signed_sums[] = {"add", "sub"};
  for (std::string_view name : signed_sums) {
    std::string_view target = keep_text("aten." + std::string(name) + ".Tensor");
    auto decomposition = [target](GraphBuilder &builder, const Call &call) {
      return with_alpha(builder, call, target);
    };
    table
        .add_with_in_place(keep_text(
            std::string(name) + ".Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor"))
        .shape(elementwise(Promotion::common, {"self", "other"}))
        .decompose(decomposition)
        .lowers(name);
    table
        .add_with_in_place(keep_text(
            std::string(name) + ".Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor"))
        .decompose(decomposition);
  }
  for (std::string_view overload :
       {"Tensor(Tensor self, Tensor other, *, ", "Scalar(Tensor self, Scalar other, "})
    table.add(keep_text("subtract." + std::string(overload) + "Scalar alpha=1) -> Tensor"))
        .decompose([](GraphBuilder &builder, const Call &call) {
          return builder.call(kSub, {call["self"], call["other"]}, {{"alpha", call["alpha"]}});
        });
  const auto add_turned = [&](std::string_view overload, auto other) {
    table.add(keep_text("rsub." + std::string(overload) + "Scalar alpha=1) -> Tensor"))
        .decompose([other](GraphBuilder &builder, const Call &call) {
          return builder.call(kSub, {other(builder, call), call["self"]},
                              {{"alpha", call["alpha"]}});
        });
  };
  add_turned("Tensor(Tensor self, Tensor other, *, ",
             [](GraphBuilder &, const Call &call) { return call["other"]; });
  add_turned("Scalar(Tensor self, Scalar other, ", [](GraphBuilder &builder, const Call &call) {
    return number(builder, call, "other");
  });
  struct Form {
    std::string_view name, key;
    Promotion promotion;
  };
  const Form forms[] = {{"mul", "mul", Promotion::common},
                        {"div", "truediv", Promotion::floating},
                        {"bitwise_and", "bitwise_and", Promotion::common},
                        {"bitwise_or", "bitwise_or", Promotion::common},
                        {"bitwise_xor", "bitwise_xor", Promotion::common},
                        {"fmod", "fmod", Promotion::common},
                        {"remainder", "mod", Promotion::common}};
  for (const Form &form : forms) {
    std::string name(form.name);
    table.add_with_in_place(keep_text(name + ".Tensor(Tensor self, Tensor other) -> Tensor"))
        .shape(elementwise(form.promotion, {"self", "other"}))
        .lowers(form.key);
    add_scalar_form(table, form.name, keep_text("aten." + name + ".Tensor"));
  }
}

/// What the neighbours of 16-bit floats are in f32.
struct SixteenBits {
  int64_t step;                     // between the bits, as f32, of normal ones
  double smallest, normal, largest; // positive: the smallest, the smallest normal, the largest
};
constexpr SixteenBits kHalf = {1 << 13, 0x1p-24, 0x1p-14, 65504},
                      kBrain = {1 << 16, 0x1p-133, 0x1p-126, 0x1.fep127};

/// Of 16 bits: a step of those bits of f32 that are kept; up to the smallest normal number a sum;
/// from infinity the largest number.
Argument next_after(GraphBuilder &builder, const Call &call) {
  const DType dtype = promote_operands(elementwise_operands(call, {"self", "other"}));
  if (!tensor::is_reduced_float(dtype))
    return builder.keep(call);
  const SixteenBits &kind = dtype == DType::f16 ? kHalf : kBrain;
  const auto compared = [&](std::string_view comparison, const Argument &a, const Argument &b) {
    return builder.call(comparison, {a, b});
  };
  const auto chosen = [&](const Argument &condition, const Argument &a, const Argument &b) {
    return builder.call(kWhere, {condition, a, b});
  };
  const Argument x = convert(builder, call["self"], DType::f32),
                 y = convert(builder, call["other"], DType::f32);
  const Argument size = builder.call("aten.abs.default", {x});
  const Argument upward = compared("aten.lt.Tensor", x, y),
                 positive = compared("aten.gt.Tensor", x, 0);
  const Argument toward_zero = builder.call("aten.logical_xor.default", {upward, positive});
  const Argument difference = chosen(toward_zero, -kind.smallest, kind.smallest);
  const Argument bits = builder.call("aten.view.dtype", {size, DType::i32});
  const Argument step = convert(builder, chosen(toward_zero, -kind.step, kind.step), DType::i32);
  const Argument stepped =
      builder.call("aten.view.dtype", {builder.call(kAdd, {bits, step}), DType::f32});
  const Argument finite = chosen(compared("aten.eq.Tensor", size, INFINITY), kind.largest, stepped);
  const Argument small = compared("aten.le.Tensor", size, kind.normal);
  const Argument moved = chosen(small, builder.call(kAdd, {size, difference}), finite);
  const Argument next =
      chosen(compared("aten.eq.Tensor", x, 0), chosen(upward, kind.smallest, -kind.smallest),
             builder.call("aten.copysign.Tensor", {moved, x}));
  const Argument there = chosen(compared("aten.eq.Tensor", x, y), y, next);
  const Argument sum = builder.call(kAdd, {x, y}); // NaN if one of them is; else unused
  const Argument invalid =
      builder.call("aten.logical_or.default",
                   {compared("aten.ne.Tensor", x, x), compared("aten.ne.Tensor", y, y)});
  return convert(builder, chosen(invalid, sum, there), dtype);
}

void add_plain_pairs(Table &table) {
  struct Form {
    std::string_view name;
    Promotion promotion;
  };
  const Form defaults[] = {{"atan2", Promotion::floating}, {"hypot", Promotion::common}};
  for (const Form &form : defaults)
    table
        .add_with_in_place(
            keep_text(std::string(form.name) + "(Tensor self, Tensor other) -> Tensor"))
        .shape(elementwise(form.promotion, {"self", "other"}))
        .lowers(form.name);
  table.add_with_in_place("nextafter(Tensor self, Tensor other) -> Tensor")
      .shape(elementwise(Promotion::common, {"self", "other"}))
      .decompose(next_after)
      .lowers("nextafter");
  for (std::string_view name : {"maximum", "minimum"})
    table.add(keep_text(std::string(name) + "(Tensor self, Tensor other) -> Tensor"))
        .shape(elementwise(Promotion::common, {"self", "other"}))
        .lowers(name);
  for (std::string_view name : {"bitwise_left_shift", "bitwise_right_shift"}) {
    std::string tensor = std::string(name) + ".Tensor";
    table.add_with_in_place(keep_text(tensor + "(Tensor self, Tensor other) -> Tensor"))
        .shape(elementwise(Promotion::common, {"self", "other"}))
        .lowers(name);
    std::string_view target = keep_text("aten." + tensor);
    table
        .add_with_in_place(
            keep_text(std::string(name) + ".Tensor_Scalar(Tensor self, Scalar other) -> Tensor"))
        .decompose([target](GraphBuilder &builder, const Call &call) {
          return builder.call(target, {call["self"], call["other"]});
        });
  }
  table.add_with_in_place("copysign.Tensor(Tensor self, Tensor other) -> Tensor")
      .shape(elementwise(Promotion::floating, {"self", "other"}))
      .lowers("copysign");
  add_scalar_form(table, "copysign", "aten.copysign.Tensor");
}

/// Python's operators and other second names: __and__ is bitwise_and, true_divide is div, ...
void add_second_names(Table &table) {
  struct Alias {
    std::string_view name, target;
  };
  const Alias aliases[] = {{"__and__", "aten.bitwise_and.Tensor"},
                           {"__or__", "aten.bitwise_or.Tensor"},
                           {"__xor__", "aten.bitwise_xor.Tensor"},
                           {"__lshift__", "aten.bitwise_left_shift.Tensor"},
                           {"__rshift__", "aten.bitwise_right_shift.Tensor"},
                           {"multiply", kMul},
                           {"divide", kDiv},
                           {"true_divide", kDiv}};
  for (const Alias &alias : aliases) {
    std::string_view target = alias.target;
    auto decomposition = [target](GraphBuilder &builder, const Call &call) {
      return builder.call(target, {call["self"], call["other"]});
    };
    std::string name(alias.name);
    table.add(keep_text(name + ".Tensor(Tensor self, Tensor other) -> Tensor"))
        .decompose(decomposition);
    table.add(keep_text(name + ".Scalar(Tensor self, Scalar other) -> Tensor"))
        .decompose(decomposition);
  }
}

Argument div_mode(GraphBuilder &builder, const Call &call) {
  if (!call.has("rounding_mode"))
    return builder.call(kDiv, {call["self"], call["other"]});
  std::string mode = call.string("rounding_mode").value_or("");
  if (mode != "floor" && mode != "trunc")
    call.fail("TSC-O030", call.node().target + ": unknown rounding mode '" + mode + "'",
              "use 'floor', 'trunc' or None");
  if (call.node().target == "aten.div.Tensor_mode")
    return builder.keep(call);
  return builder.emit("aten.div.Tensor_mode", {call["self"], call["other"]},
                      {{"rounding_mode", call["rounding_mode"]}});
}

void add_division(Table &table) {
  table
      .add_with_in_place(
          "div.Tensor_mode(Tensor self, Tensor other, *, str? rounding_mode) -> Tensor")
      .shape([](const Call &call) {
        Promotion promotion = call.has("rounding_mode") ? Promotion::common : Promotion::floating;
        return elementwise(promotion, {"self", "other"})(call);
      })
      .decompose(div_mode)
      .lowers("div_mode");
  table
      .add_with_in_place(
          "div.Scalar_mode(Tensor self, Scalar other, *, str? rounding_mode) -> Tensor")
      .decompose(div_mode);
  for (std::string_view type : {"Tensor", "Scalar"})
    table
        .add(keep_text("divide." + std::string(type) + "_mode(Tensor self, " + std::string(type) +
                       " other, *, str? rounding_mode) -> Tensor"))
        .decompose(div_mode);
  auto floor_divide = [](GraphBuilder &builder, const Call &call) {
    return builder.call("aten.div.Tensor_mode", {call["self"], call["other"]},
                        {{"rounding_mode", "floor"}});
  };
  table.add("floor_divide(Tensor self, Tensor other) -> Tensor").decompose(floor_divide);
  table.add_with_in_place("floor_divide.Scalar(Tensor self, Scalar other) -> Tensor")
      .decompose(floor_divide);
}

/// x ** n for n >= 1 by repeated squaring, in the order of TorchInductor's pow_recursive.
Argument integer_power(GraphBuilder &builder, const Argument &x, int64_t n) {
  if (n == 1)
    return x;
  Argument half = integer_power(builder, x, n / 2);
  Argument square = builder.call(kMul, {half, half});
  return n % 2 == 0 ? square : builder.call(kMul, {square, x});
}

constexpr int64_t kLargestUnrolledPower = 32; // TorchInductor's bound

Argument pow_tensor_scalar(GraphBuilder &builder, const Call &call) {
  const TensorMeta self = call.tensor("self");
  if (std::holds_alternative<Expr>(call["exponent"].value) || call["exponent"].node() ||
      std::holds_alternative<graph::Complex>(call["exponent"].value) ||
      tensor::is_complex(self.dtype))
    return builder.keep(call);
  double exponent = call.number("exponent");
  DType dtype = promote_operands(elementwise_operands(call, {"self", "exponent"}));
  Argument base = call["self"];
  if (self.dtype != dtype)
    base = builder.call(kConvert, {base, dtype});
  if (exponent == 0)
    return builder.call("aten.full_like.default", {base, 1});
  if (exponent == 0.5 && tensor::is_floating(dtype))
    return builder.call("aten.sqrt.default", {base});
  if (exponent == 1)
    return builder.call("aten.clone.default", {base});
  if (exponent != std::floor(exponent) || std::abs(exponent) >= kLargestUnrolledPower ||
      (exponent < 0 && !tensor::is_floating(dtype)))
    return builder.keep(call);
  int64_t n = static_cast<int64_t>(exponent);
  Argument result = integer_power(builder, base, n < 0 ? -n : n);
  return n < 0 ? builder.call("aten.reciprocal.default", {result}) : result;
}

void add_power(Table &table) {
  table.add("pow.Tensor_Tensor(Tensor self, Tensor exponent) -> Tensor")
      .shape(elementwise(Promotion::common, {"self", "exponent"}))
      .lowers("pow");
  table.add("pow.Scalar(Scalar self, Tensor exponent) -> Tensor")
      .shape(elementwise(Promotion::common, {"self", "exponent"}))
      .lowers("pow");
  table.add("pow.Tensor_Scalar(Tensor self, Scalar exponent) -> Tensor")
      .shape(elementwise(Promotion::common, {"self", "exponent"}))
      .decompose(pow_tensor_scalar)
      .lowers("pow");
  table.add_mutating("pow_.Scalar(Tensor(a!) self, Scalar exponent) -> Tensor(a!)",
                     "aten.pow.Tensor_Scalar");
  table.add_mutating("pow_.Tensor(Tensor(a!) self, Tensor exponent) -> Tensor(a!)",
                     "aten.pow.Tensor_Tensor");
}

/// self + value * t1 (op) t2, in the dtype that all three promote to.
Argument add_scaled(GraphBuilder &builder, const Call &call, std::string_view combine) {
  const DType dtype = promote_operands(elementwise_operands(call, {"self", "tensor1", "tensor2"}));
  Argument term = convert(builder, call["tensor1"], dtype);
  if (combine == kMul) {
    term = builder.call(kMul, {term, call["tensor2"]});
    Argument value = call["value"];
    if (const double *number = std::get_if<double>(&value.value);
        number != nullptr && tensor::is_integral(dtype, true))
      value = static_cast<int64_t>(*number); // ATen's kernels have it in the tensors' dtype
    if (!is_one(value))
      term = builder.call(kMul, {term, value});
  } else {
    if (!is_one(call["value"]))
      term = builder.call(kMul, {term, call["value"]});
    term = builder.call(kDiv, {term, call["tensor2"]});
  }
  return builder.call(kAdd, {call["self"], term});
}

/// self + weight * (end - self), from the nearer end as ATen does for accuracy.
Argument lerp(GraphBuilder &builder, const Call &call) {
  Argument difference = builder.call(kSub, {call["end"], call["self"]});
  if (!call.optional_tensor("weight")) {
    const std::complex<double> weight = complex_number(call, "weight");
    const auto number = [](std::complex<double> value) {
      return value.imag() == 0 ? Argument(value.real())
                               : Argument(graph::Complex{value.real(), value.imag()});
    };
    if (std::abs(weight) < 0.5) {
      Argument step = builder.call(kMul, {difference, number(weight)});
      return builder.call(kAdd, {call["self"], step});
    }
    Argument step = builder.call(kMul, {difference, number(1.0 - weight)});
    return builder.call(kSub, {call["end"], step});
  }
  Argument magnitude = builder.call("aten.abs.default", {call["weight"]});
  Argument small = builder.call("aten.lt.Tensor", {magnitude, 0.5});
  Argument step = builder.call(kMul, {difference, call["weight"]});
  Argument from_start = builder.call(kAdd, {call["self"], step});
  Argument rest = builder.call(kSub, {1.0, call["weight"]});
  Argument back = builder.call(kMul, {difference, rest});
  Argument from_end = builder.call(kSub, {call["end"], back});
  return builder.call(kWhere, {small, from_start, from_end});
}

void add_fused(Table &table) {
  table
      .add_with_in_place(
          "addcmul(Tensor self, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor")
      .decompose(
          [](GraphBuilder &builder, const Call &call) { return add_scaled(builder, call, kMul); });
  table
      .add_with_in_place(
          "addcdiv(Tensor self, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor")
      .decompose(
          [](GraphBuilder &builder, const Call &call) { return add_scaled(builder, call, kDiv); });
  table.add_with_in_place("lerp.Scalar(Tensor self, Tensor end, Scalar weight) -> Tensor")
      .decompose(lerp);
  table.add_with_in_place("lerp.Tensor(Tensor self, Tensor end, Tensor weight) -> Tensor")
      .decompose(lerp);
}

} // namespace

void add_pointwise_binary(Table &table) {
  add_arithmetic(table);
  add_plain_pairs(table);
  add_second_names(table);
  add_division(table);
  add_power(table);
  add_fused(table);
}

} // namespace tsc::ops
