// Elementwise operators of one tensor.
#include "ops/table/builder.h"
#include "ops/table/pointwise_rules.h"
#include "ops/table/precision.h"
#include "ops/table/table.h"

#include <cmath>

namespace tsc::ops {
namespace {

std::string_view schema_of(std::string_view name) {
  return keep_text(std::string(name) + "(Tensor self) -> Tensor");
}

void add_direct(Table &table) {
  table.add_with_in_place(schema_of("abs"))
      .shape([](const Call &call) {
        Value value = elementwise(Promotion::common, {"self"})(call);
        TensorMeta &meta = std::get<TensorMeta>(value.value);
        if (tensor::is_complex(meta.dtype)) // a magnitude
          meta.dtype = meta.dtype == DType::c128 ? DType::f64 : DType::f32;
        return value;
      })
      .lowers("abs");
  const std::string_view common[] = {"bitwise_not", "ceil", "floor", "neg",
                                     "relu",        "sign", "trunc"};
  for (std::string_view name : common)
    table.add_with_in_place(schema_of(name))
        .shape(elementwise(Promotion::common, {"self"}))
        .lowers(name);
  const std::string_view floating[] = {
      "acos", "acosh",      "asin",  "asinh",   "atan",  "atanh",  "cos",  "cosh",  "digamma",
      "erf",  "erfc",       "exp",   "exp2",    "expm1", "lgamma", "log",  "log10", "log1p",
      "log2", "reciprocal", "rsqrt", "sigmoid", "sin",   "sinh",   "sqrt", "tan",   "tanh"};
  for (std::string_view name : floating)
    table.add_with_in_place(schema_of(name))
        .shape(elementwise(Promotion::floating, {"self"}))
        .lowers(name);
  const std::string_view boolean[] = {"isinf", "isnan", "signbit"};
  for (std::string_view name : boolean)
    table.add(schema_of(name)).shape(elementwise(Promotion::boolean, {"self"})).lowers(name);
  table.add_with_in_place(schema_of("logical_not"))
      .shape(elementwise(Promotion::boolean, {"self"}))
      .lowers("logical_not");
  table.add_with_in_place(schema_of("round"))
      .shape(elementwise(Promotion::common, {"self"}))
      .lowers("round");
}

/// round(self * 10^decimals) / 10^decimals, as ATen computes it.
Argument round_decimals(GraphBuilder &builder, const Call &call) {
  int64_t decimals = call.integer("decimals");
  if (decimals == 0)
    return builder.call("aten.round.default", {call["self"]});
  double scale = 1;
  for (int64_t i = 0; i < (decimals < 0 ? -decimals : decimals); ++i)
    scale *= 10;
  std::string_view before = decimals > 0 ? kMul : kDiv, after = decimals > 0 ? kDiv : kMul;
  // ATen's kernels scale, round and scale back in float32 where the tensor is of a half type.
  Argument scaled = builder.call(before, {widen(builder, call["self"]), scale});
  Argument rounded = builder.call("aten.round.default", {scaled});
  return convert(builder, builder.call(after, {rounded, scale}), call.tensor("self").dtype);
}

/// A row that is another operator under a second name.
void add_alias(Table &table, std::string_view name, std::string_view target) {
  table.add_with_in_place(schema_of(name))
      .decompose([target](GraphBuilder &builder, const Call &call) {
        return builder.call(target, {call["self"]});
      });
}

} // namespace

void add_pointwise_unary(Table &table) {
  add_direct(table);
  add_alias(table, "absolute", "aten.abs.default");
  add_alias(table, "arccos", "aten.acos.default");
  add_alias(table, "arcsin", "aten.asin.default");
  add_alias(table, "arctan", "aten.atan.default");
  add_alias(table, "fix", "aten.trunc.default");
  add_alias(table, "negative", "aten.neg.default");
  add_alias(table, "special_expit", "aten.sigmoid.default");
  table.add_with_in_place("round.decimals(Tensor self, *, int decimals) -> Tensor")
      .decompose(round_decimals);
  table.add_with_in_place("square(Tensor self) -> Tensor")
      .decompose([](GraphBuilder &builder, const Call &call) {
        if (call.tensor("self").dtype == DType::boolean) // a power of 2: int64
          return builder.call("aten.pow.Tensor_Scalar", {call["self"], 2});
        return builder.call(kMul, {call["self"], call["self"]});
      });
  table.add_with_in_place("frac(Tensor self) -> Tensor")
      .decompose([](GraphBuilder &builder, const Call &call) {
        Argument whole = builder.call("aten.trunc.default", {call["self"]});
        return builder.call(kSub, {call["self"], whole});
      });
  table.add("positive(Tensor(a) self) -> Tensor(a)")
      .effect(Effect::view)
      .decompose([](GraphBuilder &, const Call &call) { return call["self"]; });
  table.add("isfinite(Tensor self) -> Tensor")
      .decompose([](GraphBuilder &builder, const Call &call) {
        if (tensor::is_complex(call.tensor("self").dtype)) {
          const auto finite = [&](std::string_view part) {
            return builder.call("aten.isfinite.default", {builder.call(part, {call["self"]})});
          };
          return builder.call("aten.logical_and.default", {finite("tsc.real_part.default"),
                                                           finite("tsc.imaginary_part.default")});
        }
        Argument magnitude = builder.call("aten.abs.default", {call["self"]});
        return builder.call("aten.lt.Tensor", {magnitude, INFINITY}); // false for NaN
      });
}

} // namespace tsc::ops
