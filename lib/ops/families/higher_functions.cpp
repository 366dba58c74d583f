// Higher transcendental functions (error, Bessel, Airy, gamma functions, zeta), orthogonal
// polynomials, and functions of the digits of numbers: gcd, frexp. torch.special's names for
// others.
#include "ops/table/pointwise_rules.h"
#include "ops/table/precision.h"
#include "ops/table/shape_rules.h"
#include "ops/table/table.h"

#include <cmath>
#include <functional>
#include <numbers>

namespace tsc::ops {
namespace {

Argument compared(GraphBuilder &builder, std::string_view comparison, const Argument &a,
                  const Argument &b) {
  return builder.call("aten." + std::string(comparison) + ".Tensor", {a, b});
}

// ---- one tensor

/// What loops compute by themselves, and the schema's text behind the name.
void add_direct(Table &table) {
  struct Form {
    std::string_view name, key, parameter = "self";
  };
  for (const Form &form :
       {Form{"erfinv", "erfinv"},
        Form{"special_erfinv", "erfinv"},
        Form{"special_erfcx", "erfcx"},
        Form{"special_ndtri", "ndtri"},
        Form{"i0", "modified_bessel_i0"},
        Form{"special_i0", "modified_bessel_i0"},
        Form{"special_i0e", "scaled_modified_bessel_i0"},
        Form{"special_i1", "modified_bessel_i1"},
        Form{"special_i1e", "scaled_modified_bessel_i1"},
        Form{"special_modified_bessel_i0", "modified_bessel_i0"},
        Form{"special_modified_bessel_i1", "modified_bessel_i1"},
        Form{"special_modified_bessel_k0", "modified_bessel_k0"},
        Form{"special_modified_bessel_k1", "modified_bessel_k1"},
        Form{"special_scaled_modified_bessel_k0", "scaled_modified_bessel_k0", "x"},
        Form{"special_scaled_modified_bessel_k1", "scaled_modified_bessel_k1", "x"},
        Form{"special_bessel_j0", "bessel_j0"},
        Form{"special_bessel_j1", "bessel_j1"},
        Form{"special_bessel_y0", "bessel_y0"},
        Form{"special_bessel_y1", "bessel_y1"},
        Form{"special_airy_ai", "airy_ai", "x"},
        Form{"tsc::trigamma", "trigamma"}})
    table
        .add(keep_text(std::string(form.name) + "(Tensor " + std::string(form.parameter) +
                       ") -> Tensor"))
        .shape(elementwise(Promotion::floating, {form.parameter}))
        .lowers(form.key);
}

/// `of(x)` in f32 or wider, of a floating dtype; integers as f32.
using WideFunction = Argument (*)(GraphBuilder &, const Argument &x);
Decomposition widened(std::string_view parameter, WideFunction of) {
  return [parameter, of](GraphBuilder &builder, const Call &call) {
    const DType dtype = to_floating(call.tensor(parameter).dtype);
    return convert(builder, of(builder, widen_to_floating(builder, call[parameter])), dtype);
  };
}

/// The share of a normal distribution below x.
Argument ndtr(GraphBuilder &builder, const Argument &x) {
  const Argument scaled = builder.call(kMul, {x, 1 / std::numbers::sqrt2});
  const Argument sum = builder.call(kAdd, {builder.call("aten.erf.default", {scaled}), 1.0});
  return builder.call(kMul, {sum, 0.5});
}

/// Its logarithm, which is a number where the share is none: by erfcx below -1.
Argument log_ndtr(GraphBuilder &builder, const Argument &x) {
  const Argument t = builder.call(kMul, {x, 1 / std::numbers::sqrt2});
  const Argument scaled =
      builder.call("aten.special_erfcx.default", {builder.call("aten.neg.default", {t})});
  const Argument half = builder.call("aten.log.default", {builder.call(kMul, {scaled, 0.5})});
  const Argument far = builder.call(kSub, {half, builder.call(kMul, {t, t})});
  const Argument rest = builder.call("aten.erfc.default", {t});
  const Argument near = builder.call("aten.log1p.default", {builder.call(kMul, {rest, -0.5})});
  return builder.call(kWhere, {compared(builder, "lt", x, -1), far, near});
}

/// -x log(x); 0 at 0, -infinity below.
Argument entropy(GraphBuilder &builder, const Argument &x) {
  const Argument product = builder.call(kMul, {x, builder.call("aten.log.default", {x})});
  const Argument inside = builder.call("aten.neg.default", {product});
  const Argument below = builder.call(kWhere, {compared(builder, "lt", x, 0), -INFINITY, inside});
  return builder.call(kWhere, {compared(builder, "eq", x, 0), 0.0, below});
}

/// sin(x) / x; near 0 its series, at infinities 0.
Argument spherical_bessel_j0(GraphBuilder &builder, const Argument &x) {
  const Argument square = builder.call(kMul, {x, x});
  Argument series = 1.0 / 6227020800.0;
  for (const double coefficient :
       {-1.0 / 39916800, 1.0 / 362880, -1.0 / 5040, 1.0 / 120, -1.0 / 6, 1.0})
    series = builder.call(kAdd, {builder.call(kMul, {square, series}), coefficient});
  const Argument ratio = builder.call(kDiv, {builder.call("aten.sin.default", {x}), x});
  const Argument size = builder.call("aten.abs.default", {x});
  const Argument finite =
      builder.call(kWhere, {compared(builder, "eq", size, INFINITY), 0.0, ratio});
  return builder.call(kWhere, {compared(builder, "lt", size, 0.5), series, finite});
}

/// The n-th derivative of digamma: (-1)^(n + 1) n! zeta(n + 1, x).
Argument polygamma(GraphBuilder &builder, const Call &call) {
  const int64_t n = call.integer("n");
  if (n < 0)
    call.fail("TSC-O195", call.node().target + ": the order " + std::to_string(n) + " is negative",
              "give an order of at least 0");
  if (n < 2)
    return builder.call(n == 0 ? "aten.digamma.default" : "tsc.trigamma.default", {call["self"]});
  const DType dtype = to_floating(call.tensor("self").dtype);
  const Argument x = widen_to_floating(builder, call["self"]);
  const Argument sum =
      builder.call("aten.special_zeta.self_scalar", {static_cast<double>(n + 1), x});
  const double factorial = std::tgamma(static_cast<double>(n) + 1);
  return convert(builder, builder.call(kMul, {sum, n % 2 == 1 ? factorial : -factorial}), dtype);
}

/// log of the multivariate gamma function: the sum of lgamma(x - i / 2) for i < p, and a constant.
Argument multivariate_lgamma(GraphBuilder &builder, const Call &call) {
  const int64_t p = call.integer("p");
  constexpr int64_t kMost = 1024; // terms, one addition each
  if (p < 1)
    call.fail("TSC-O195",
              call.node().target + ": the dimension " + std::to_string(p) + " is below 1",
              "give a dimension of at least 1");
  if (p > kMost)
    call.refuse("TSC-O036", call.node().target + " in " + std::to_string(p) + " dimensions",
                "use at most " + std::to_string(kMost));
  const DType dtype = to_floating(call.tensor("self").dtype);
  const Argument x = widen_to_floating(builder, call["self"]);
  Argument sum = builder.call("aten.lgamma.default", {x});
  for (int64_t i = 1; i < p; ++i) {
    const Argument lower = builder.call(kSub, {x, 0.5 * static_cast<double>(i)});
    sum = builder.call(kAdd, {sum, builder.call("aten.lgamma.default", {lower})});
  }
  const double constant = 0.25 * static_cast<double>(p * (p - 1)) * std::log(std::numbers::pi);
  return convert(builder, builder.call(kAdd, {sum, constant}), dtype);
}

/// (mantissa, exponent): self is mantissa * 2^exponent, 0.5 <= |mantissa| < 1. Zeros, infinities
/// and NaN are their own mantissas. By the fields of the bits, of small numbers scaled first.
Argument frexp(GraphBuilder &builder, const Call &call) {
  const DType dtype = call.tensor("self").dtype;
  const bool is_double = dtype == DType::f64;
  const DType wide = is_double ? DType::f64 : DType::f32,
              bits = is_double ? DType::i64 : DType::i32;
  const int64_t mantissa_bits = is_double ? 52 : 23, bias = is_double ? 1022 : 126;
  const int64_t field = is_double ? 0x7ff : 0xff, scaling = mantissa_bits + 2;
  const Argument x = convert(builder, call["self"], wide);
  const Argument size = builder.call("aten.abs.default", {x});
  const Argument small = compared(builder, "lt", size, std::ldexp(1.0, static_cast<int>(1 - bias)));
  const Argument scaled = builder.call(kMul, {x, std::ldexp(1.0, static_cast<int>(scaling))});
  const Argument number =
      builder.call("aten.view.dtype", {builder.call(kWhere, {small, scaled, x}), bits});
  const auto masked = [&](std::string_view operation, const Argument &a, int64_t mask) {
    return builder.call("aten.bitwise_" + std::string(operation) + ".Scalar", {a, mask});
  };
  const Argument shifted =
      builder.call("aten.bitwise_right_shift.Tensor_Scalar", {number, mantissa_bits});
  const Argument biased = masked("and", shifted, field);
  const Argument exponent =
      builder.call(kSub, {biased, builder.call(kWhere, {small, bias + scaling, bias})});
  const Argument digits = masked("and", number, ~(field << mantissa_bits));
  const Argument mantissa =
      builder.call("aten.view.dtype", {masked("or", digits, bias << mantissa_bits), wide});
  // Neither zero, infinite nor NaN.
  const Argument plain =
      builder.call("aten.logical_and.default",
                   {compared(builder, "gt", size, 0), compared(builder, "lt", size, INFINITY)});
  const Argument whole = builder.call(kWhere, {plain, exponent, 0});
  return Arguments{convert(builder, builder.call(kWhere, {plain, mantissa, x}), dtype),
                   convert(builder, whole, DType::i32)};
}

void add_decomposed(Table &table) {
  table.add("special_ndtr(Tensor self) -> Tensor").decompose(widened("self", ndtr));
  table.add("special_log_ndtr(Tensor self) -> Tensor").decompose(widened("self", log_ndtr));
  table.add("special_entr(Tensor self) -> Tensor").decompose(widened("self", entropy));
  table.add("special_spherical_bessel_j0(Tensor x) -> Tensor")
      .decompose(widened("x", spherical_bessel_j0));
  table.add("polygamma(int n, Tensor self) -> Tensor").decompose(polygamma);
  table.add("special_polygamma(int n, Tensor self) -> Tensor").decompose(polygamma);
  table.add("tsc::polygamma(Tensor self, int n) -> Tensor").decompose(polygamma);
  table.add_mutating("polygamma_(Tensor(a!) self, int n) -> Tensor(a!)", "tsc.polygamma.default");
  for (std::string_view name : {"mvlgamma", "special_multigammaln"})
    table.add(keep_text(std::string(name) + "(Tensor self, int p) -> Tensor"))
        .decompose(multivariate_lgamma);
  table.add("frexp.Tensor(Tensor self) -> (Tensor mantissa, Tensor exponent)").decompose(frexp);
}

// ---- two tensors

/// |self / gcd * other|, 0 where both are 0. Small integers in i32, whose product is cut to their
/// width last, as in C.
Argument lcm(GraphBuilder &builder, const Call &call) {
  const DType dtype = promote_operands(elementwise_operands(call, {"self", "other"}));
  const DType wide = tensor::size_in_bytes(dtype) < 4 ? DType::i32 : dtype;
  const Argument a = convert(builder, call["self"], wide),
                 b = convert(builder, call["other"], wide);
  const Argument divisor =
      builder.call("aten.gcd.default", {convert(builder, a, dtype), convert(builder, b, dtype)});
  const Argument zero = compared(builder, "eq", divisor, 0);
  const Argument share = builder.call("aten.div.Tensor_mode", {a, convert(builder, divisor, wide)},
                                      {{"rounding_mode", "trunc"}});
  const Argument multiple = builder.call("aten.abs.default", {builder.call(kMul, {share, b})});
  return convert(builder, builder.call(kWhere, {zero, 0, multiple}), dtype);
}

/// Chebyshev polynomials of 2x - 1, which is rounded to the dtype of the computation.
Decomposition shifted(std::string_view target) {
  return [target](GraphBuilder &builder, const Call &call) {
    const DType dtype = to_floating(promote_operands(elementwise_operands(call, {"x", "n"})));
    if (call["x"].node() == nullptr) {
      const double x = call.number("x");
      const auto narrow = static_cast<float>(x);
      const double place =
          dtype == DType::f64 ? x + x - 1 : static_cast<double>(narrow + narrow - 1.0F);
      return builder.call(target, {place, call["n"]});
    }
    const Argument x = convert(builder, call["x"], accumulation_dtype(dtype));
    const Argument place = builder.call(kSub, {builder.call(kAdd, {x, x}), 1.0});
    return convert(builder, builder.call(target, {place, call["n"]}), dtype);
  };
}

/// A row for two tensors, and those of ATen whose first or second argument is a number.
void add_pair(Table &table, const std::string &name, std::string_view first,
              std::string_view second, std::string_view first_form, std::string_view second_form,
              const std::function<void(Row)> &define) {
  const std::string a(first), b(second);
  define(table.add(keep_text(name + "(Tensor " + a + ", Tensor " + b + ") -> Tensor")));
  std::string_view target = keep_text("aten." + name + ".default");
  const auto same = [target, first, second](GraphBuilder &builder, const Call &call) {
    return builder.call(target, {call[first], call[second]});
  };
  table
      .add(keep_text(name + "." + std::string(first_form) + "(Scalar " + a + ", Tensor " + b +
                     ") -> Tensor"))
      .decompose(same);
  table
      .add(keep_text(name + "." + std::string(second_form) + "(Tensor " + a + ", Scalar " + b +
                     ") -> Tensor"))
      .decompose(same);
}

void add_pairs(Table &table) {
  struct Plain {
    std::string_view name, key;
  };
  for (const Plain &plain :
       {Plain{"igamma", "igamma"}, Plain{"igammac", "igammac"}, Plain{"special_gammainc", "igamma"},
        Plain{"special_gammaincc", "igammac"}, Plain{"gcd", "gcd"}})
    table.add(keep_text(std::string(plain.name) + "(Tensor self, Tensor other) -> Tensor"))
        .shape(elementwise(Promotion::common, {"self", "other"}))
        .lowers(plain.key);
  table.add("lcm(Tensor self, Tensor other) -> Tensor").decompose(lcm);
  add_pair(table, "special_zeta", "self", "other", "self_scalar", "other_scalar", [](Row row) {
    row.shape(elementwise(Promotion::floating, {"self", "other"})).lowers("zeta");
  });
  for (std::string_view name :
       {"chebyshev_polynomial_t", "chebyshev_polynomial_u", "chebyshev_polynomial_v",
        "chebyshev_polynomial_w", "hermite_polynomial_h", "hermite_polynomial_he",
        "laguerre_polynomial_l", "legendre_polynomial_p"})
    add_pair(table, "special_" + std::string(name), "x", "n", "x_scalar", "n_scalar",
             [name](Row row) {
               row.shape(elementwise(Promotion::floating, {"x", "n"})).lowers(name);
             });
  for (std::string_view kind : {"t", "u", "v", "w"}) {
    const std::string name = "chebyshev_polynomial_" + std::string(kind);
    std::string_view target = keep_text("aten.special_" + name + ".default");
    const std::string shifted_name = "special_shifted_" + name;
    const auto define = [target](Row row) { row.decompose(shifted(target)); };
    add_pair(table, shifted_name, "x", "n", "x_scalar", "n_scalar", define);
  }
  for (std::string_view name : {"bitwise_left_shift", "bitwise_right_shift"}) {
    std::string_view target = keep_text("aten." + std::string(name) + ".Tensor");
    table.add(keep_text(std::string(name) + ".Scalar_Tensor(Scalar self, Tensor other) -> Tensor"))
        .decompose([target](GraphBuilder &builder, const Call &call) {
          return builder.call(target, {call["self"], call["other"]});
        });
  }
}

/// torch.special's names of other operators.
void add_special_names(Table &table) {
  struct Alias {
    std::string_view schema, target;
  };
  for (const Alias &alias :
       {Alias{"special_erfc(Tensor self) -> Tensor", "aten.erfc.default"},
        Alias{"special_gammaln(Tensor self) -> Tensor", "aten.lgamma.default"},
        Alias{"special_sinc(Tensor self) -> Tensor", "aten.sinc.default"},
        Alias{"special_xlogy.self_scalar(Scalar self, Tensor other) -> Tensor",
              "aten.xlogy.Scalar_Self"},
        Alias{"special_xlogy.other_scalar(Tensor self, Scalar other) -> Tensor",
              "aten.xlogy.Scalar_Other"},
        Alias{"special_logsumexp(Tensor self, int[1] dim, bool keepdim=False) -> Tensor",
              "aten.logsumexp.default"}}) {
    std::string_view target = alias.target;
    table.add(alias.schema).decompose([target](GraphBuilder &builder, const Call &call) {
      Arguments arguments;
      for (const Parameter &parameter : call.schema().parameters)
        arguments.push_back(call[parameter.name]);
      return builder.call(target, arguments);
    });
  }
  table.add("special_round(Tensor self, *, int decimals=0) -> Tensor")
      .decompose([](GraphBuilder &builder, const Call &call) {
        if (call.integer("decimals") == 0)
          return builder.call("aten.round.default", {call["self"]});
        return builder.call("aten.round.decimals", {call["self"]},
                            {{"decimals", call["decimals"]}});
      });
}

} // namespace

void add_higher_functions(Table &table) {
  add_direct(table);
  add_decomposed(table);
  add_pairs(table);
  add_special_names(table);
}

} // namespace tsc::ops
