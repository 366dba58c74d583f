#include "ops/passes/complex_arithmetic.h"

#include "ops/table/pointwise_rules.h"
#include "ops/table/precision.h"
#include "support/diagnostic.h"

#include <cfloat>
#include <cmath>

namespace tsc::ops {
namespace {

/// The number that an argument is; nothing for tensors and for what symbols decide.
std::optional<double> number_of(const Argument &argument) {
  if (const double *real = std::get_if<double>(&argument.value))
    return *real;
  if (const int64_t *integer = std::get_if<int64_t>(&argument.value))
    return static_cast<double>(*integer);
  if (const bool *truth = std::get_if<bool>(&argument.value))
    return *truth ? 1.0 : 0.0;
  return std::nullopt;
}

struct NumberFunction {
  std::string_view name;
  double (*function)(double);
};
constexpr NumberFunction kNumberFunctions[] = {
    {"abs", std::fabs},  {"exp", std::exp},     {"log", std::log},     {"sin", std::sin},
    {"cos", std::cos},   {"sinh", std::sinh},   {"cosh", std::cosh},   {"tan", std::tan},
    {"sqrt", std::sqrt}, {"log1p", std::log1p}, {"expm1", std::expm1}, {"asinh", std::asinh}};

struct NumberPair {
  std::string_view name;
  double (*function)(double, double);
};
constexpr NumberPair kNumberPairs[] = {{"atan2", std::atan2},
                                       {"hypot", std::hypot},
                                       {"copysign", std::copysign},
                                       {"maximum", std::fmax},
                                       {"minimum", std::fmin}};

} // namespace

double RealMath::largest() const { return dtype_ == DType::f64 ? DBL_MAX : FLT_MAX; }
double RealMath::epsilon() const { return dtype_ == DType::f64 ? DBL_EPSILON : FLT_EPSILON; }

Pair RealMath::converted(const Pair &a) const {
  const auto typed = [&](const Argument &part) {
    return part.node() ? convert(*builder_, part, dtype_) : part;
  };
  return {typed(a.re), typed(a.im)};
}

Argument RealMath::as_tensor(const Argument &a) const {
  if (a.node())
    return a;
  return builder_->call("aten.full.default", {Arguments{}, a},
                        {{"dtype", dtype_}, {"device", device_}});
}

Argument RealMath::add(const Argument &a, const Argument &b) const {
  if (const auto x = number_of(a), y = number_of(b); x && y)
    return *x + *y;
  return builder_->call(kAdd, {a, b});
}

Argument RealMath::sub(const Argument &a, const Argument &b) const {
  if (const auto x = number_of(a), y = number_of(b); x && y)
    return *x - *y;
  return builder_->call(kSub, {a, b});
}

Argument RealMath::mul(const Argument &a, const Argument &b) const {
  if (const auto x = number_of(a), y = number_of(b); x && y)
    return *x * *y;
  return builder_->call(kMul, {a, b});
}

Argument RealMath::div(const Argument &a, const Argument &b) const {
  if (const auto x = number_of(a), y = number_of(b); x && y)
    return *x / *y;
  return builder_->call(kDiv, {a, b});
}

Argument RealMath::negate(const Argument &a) const {
  if (const auto x = number_of(a))
    return -*x;
  return builder_->call("aten.neg.default", {a});
}

Argument RealMath::call(std::string_view function, const Argument &a) const {
  if (const auto x = number_of(a))
    for (const NumberFunction &known : kNumberFunctions)
      if (known.name == function)
        return known.function(*x);
  return builder_->call("aten." + std::string(function) + ".default", {as_tensor(a)});
}

Argument RealMath::call(std::string_view function, const Argument &a, const Argument &b) const {
  if (const auto x = number_of(a), y = number_of(b); x && y)
    for (const NumberPair &known : kNumberPairs)
      if (known.name == function)
        return known.function(*x, *y);
  const std::string overload = function == "copysign" ? ".Tensor" : ".default";
  return builder_->call("aten." + std::string(function) + overload, {as_tensor(a), as_tensor(b)});
}

Argument RealMath::compare(std::string_view comparison, const Argument &a,
                           const Argument &b) const {
  return builder_->call("aten." + std::string(comparison) + ".Tensor",
                        {a.node() || b.node() ? a : as_tensor(a), b});
}

Argument RealMath::both(const Argument &a, const Argument &b) const {
  return builder_->call("aten.logical_and.default", {a, b});
}

Argument RealMath::either(const Argument &a, const Argument &b) const {
  return builder_->call("aten.logical_or.default", {a, b});
}

Argument RealMath::where(const Argument &condition, const Argument &a, const Argument &b) const {
  const Argument chosen = builder_->call(kWhere, {condition, a, b});
  return convert(*builder_, chosen, dtype_);
}

namespace pairs {

Pair add(const RealMath &math, const Pair &a, const Pair &b) {
  return {math.add(a.re, b.re), math.add(a.im, b.im)};
}

Pair subtract(const RealMath &math, const Pair &a, const Pair &b) {
  return {math.sub(a.re, b.re), math.sub(a.im, b.im)};
}

Pair multiply(const RealMath &math, const Pair &a, const Pair &b) {
  return {math.sub(math.mul(a.re, b.re), math.mul(a.im, b.im)),
          math.add(math.mul(a.re, b.im), math.mul(a.im, b.re))};
}

Pair divide(const RealMath &math, const Pair &a, const Pair &b) {
  const auto c = number_of(b.re), d = number_of(b.im);
  if (c && d && *d == 0 && *c != 0) // by a real number
    return {math.div(a.re, *c), math.div(a.im, *c)};
  const Argument larger = math.compare("ge", math.call("abs", b.re), math.call("abs", b.im));
  const Argument big = math.where(larger, b.re, b.im), small = math.where(larger, b.im, b.re);
  const Argument is_zero = math.compare("eq", big, 0.0); // then a part over |0| is what it is
  const Argument ratio = math.where(is_zero, 0.0, math.div(small, big));
  const Argument divisor =
      math.where(is_zero, math.call("abs", big), math.add(big, math.mul(small, ratio)));
  const Argument first = math.where(larger, a.re, a.im), second = math.where(larger, a.im, a.re);
  // larger: (a + b r) / s, (b - a r) / s; else: (b + a r) / s, -(a - b r) / s.
  const Argument re = math.div(math.add(first, math.mul(second, ratio)), divisor);
  const Argument im = math.div(math.sub(second, math.mul(first, ratio)), divisor);
  return {re, math.where(larger, im, math.negate(im))};
}

Argument magnitude(const RealMath &math, const Pair &a) { return math.call("hypot", a.re, a.im); }

Argument angle(const RealMath &math, const Pair &a) { return math.call("atan2", a.im, a.re); }

Argument truth(const RealMath &math, const Pair &a) {
  return math.either(math.compare("ne", a.re, 0.0), math.compare("ne", a.im, 0.0));
}

Argument equal(const RealMath &math, const Pair &a, const Pair &b) {
  return math.both(math.compare("eq", a.re, b.re), math.compare("eq", a.im, b.im));
}

Pair choose(const RealMath &math, const Argument &condition, const Pair &a, const Pair &b) {
  return {math.where(condition, a.re, b.re), math.where(condition, a.im, b.im)};
}

} // namespace pairs
} // namespace tsc::ops
