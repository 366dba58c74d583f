"""Special functions, orthogonal polynomials and functions of digits, and prims.* as graphs of PyTorch's own decompositions hold
them. operator_cases.py calls add(family), which registers both with it."""
import math

import torch

S, P, A = torch.special, torch.ops.prims, torch.ops.aten

# Where each function is finite; 0, its ends and what lies outside come with ENDS.
UNARY = {"airy_ai": (-4, 9), "bessel_j0": (-12, 12), "bessel_j1": (-12, 12), "bessel_y0": (0.05, 12), "bessel_y1": (0.05, 12), "erfcx": (-3, 60),
         "erfinv": (-0.97, 0.97), "ndtri": (0.01, 0.99), "ndtr": (-4, 4), "log_ndtr": (-30, 6), "entr": (0.01, 5), "gammaln": (0.1, 9), "sinc": (-3, 3),
         "i0": (-20, 20), "i0e": (-20, 20), "i1": (-20, 20), "i1e": (-20, 20), "modified_bessel_i0": (-20, 20), "modified_bessel_i1": (-20, 20),
         "modified_bessel_k0": (0.05, 9), "modified_bessel_k1": (0.05, 9), "scaled_modified_bessel_k0": (0.05, 60),
         "scaled_modified_bessel_k1": (0.05, 60), "spherical_bessel_j0": (-9, 9)}
HALVES = ["erfinv", "i0", "i0e", "i1", "i1e", "ndtr", "entr"]  # the others PyTorch does not compute in 16 bits
ENDS = [0.0, -0.0, 1.0, -1.0, math.inf, -math.inf, math.nan, 0.5, 2.0]
POLYNOMIALS = ["chebyshev_polynomial_t", "chebyshev_polynomial_u", "chebyshev_polynomial_v", "chebyshev_polynomial_w", "hermite_polynomial_h",
               "hermite_polynomial_he", "laguerre_polynomial_l", "legendre_polynomial_p"]


def neighbour(a, b):
    if a.dtype == torch.float64:
        raise RuntimeError("those of float64 are others: no reference")
    return torch.nextafter(a, b)


def special(c):
    def between(low, high, *shape, dtype=torch.float32):
        return (torch.rand(shape, generator=c.generator, dtype=torch.float64) * (high - low) + low).to(dtype)

    for name, (low, high) in UNARY.items():
        f = getattr(S, name)
        c.case(f"{name}", f, between(low, high, 37))
        c.case(f"{name}_f64", f, between(low, high, 5, 3, dtype=torch.float64))
        c.case(f"{name}_ends", f, torch.tensor([x for x in ENDS if not math.isinf(x) or not name.startswith(("bessel", "airy"))]))
        if name in HALVES:
            c.case(f"{name}_f16", f, between(max(low, -3), min(high, 3), 19, dtype=torch.float16))
            c.case(f"{name}_bf16", lambda x, f=f: f(x.t()), between(max(low, -3), min(high, 3), 3, 7, dtype=torch.bfloat16))
    c.case("of_integers", lambda a, b, d: (S.i0(a), S.erfcx(a), S.entr(b), S.bessel_j0(b), torch.polygamma(1, a + 1), S.ndtri(d), torch.erfinv(d), S.log_ndtr(a)),
           c.ints(3, 5), c.ints(4, dtype=torch.uint8), c.bools(6))
    c.case("of_one_and_none", lambda a, b: (S.i1(a), S.airy_ai(b), S.bessel_y0(a), S.chebyshev_polynomial_t(a, b), S.zeta(a + 2, a)), between(0.1, 2), between(0, 1, 0, 3))

    # The gamma functions, their shares and derivatives.
    a, x = between(0.05, 30, 60), between(0.05, 30, 60)
    c.case("igamma", lambda a, x: (torch.igamma(a, x), torch.igammac(a, x)), a, x)
    c.case("igamma_small", lambda a, x: (torch.igamma(a, x), torch.igammac(a, x)), between(0.01, 2, 40), between(0.001, 2, 40))
    c.case("igamma_large", lambda a, x: (torch.igamma(a, x), torch.igammac(a, x)), torch.tensor([15000.0, 15000.0, 2e5, 300.0]), torch.tensor([14900.0, 15200.0, 2e5, 290.0]))
    c.case("igamma_f64", lambda a, x: (S.gammainc(a, x), S.gammaincc(a, x)), between(0.1, 15, 30, dtype=torch.float64), between(0.1, 60, 30, dtype=torch.float64))
    c.case("igamma_broadcast", lambda a, x: torch.igamma(a, x), between(0.5, 9, 4, 1), between(0.5, 9, 3))
    ends = torch.tensor([0.0, -1.0, 1.0, math.inf, math.nan])
    c.case("igamma_ends", lambda a, x: (torch.igamma(a, x), torch.igammac(a, x)), ends.repeat_interleave(5), ends.repeat(5))
    c.case("igamma_bf16", lambda a, x: torch.igamma(a, x), between(0.5, 5, 20, dtype=torch.bfloat16), between(0.5, 5, 20, dtype=torch.bfloat16))
    c.case("zeta", S.zeta, between(1.2, 20, 50), between(0.2, 30, 50))
    c.case("zeta_numbers", lambda x: (S.zeta(x + 1.5, 2), S.zeta(3, x), A.special_zeta.self_scalar(2.5, x)), between(0.1, 5, 3, 4))
    c.case("zeta_ends", S.zeta, torch.tensor([1.0, 0.5, 2.0, 2.5, 3.0, math.nan, 2.0, 2.0]), torch.tensor([2.0, 2.0, -1.0, -0.5, -0.5, 1.0, math.nan, 0.0]))
    for n in range(5):
        c.case(f"polygamma_{n}", lambda x, n=n: torch.polygamma(n, x), between(0.2, 9, 21))
    c.case("polygamma_below_0", lambda x: (torch.polygamma(1, x), torch.polygamma(2, x)), torch.tensor([-0.3, -1.6, -2.25, -0.75]))
    c.case("polygamma_f64", lambda x: (S.polygamma(1, x), S.polygamma(3, x)), between(0.2, 9, 9, dtype=torch.float64))
    c.case("polygamma_f16", lambda x: (torch.polygamma(1, x), torch.polygamma(2, x)), between(0.5, 9, 9, dtype=torch.float16))
    c.case("polygamma_in_place", lambda x: x.clone().polygamma_(1), between(0.5, 9, 5))
    c.case("mvlgamma", lambda x: (torch.mvlgamma(x, 1), torch.mvlgamma(x, 3), S.multigammaln(x, 5)), between(2.1, 9, 13))
    c.case("mvlgamma_i64", lambda x: torch.mvlgamma(x, 2), c.ints(7, low=2, high=9))

    # Polynomials: few degrees, many, numbers, ends.
    for name in POLYNOMIALS + ["shifted_" + name for name in POLYNOMIALS[:4]]:
        f, low = getattr(S, name), 0 if name.startswith("shifted") else -1
        c.case(f"{name}", f, between(low, 1, 40), c.ints(40, low=-1, high=12).float())
        c.case(f"{name}_forms", lambda x, n, f=f: (f(x, 3), f(0.3, n), f(x, n.unsqueeze(1)), f(n, x[:1])), between(low, 1.5, 5), c.ints(4, low=0, high=7))
        c.case(f"{name}_ends", f, torch.tensor([1.0, 1.0, -1.0, -1.0, 0.0, 0.0, 0.5, 2.0, -2.0, 1.0, 0.25]), torch.tensor([3.0, 4.0, 3.0, 4.0, 3.0, 4.0, -2.0, 2.7, 3.2, 0.0, 0.9]))
    c.case("polynomials_f64", lambda x, n: tuple(getattr(S, name)(x, n) for name in POLYNOMIALS), between(-1.2, 1.2, 12, dtype=torch.float64), c.ints(12, low=0, high=11))

    # Digits.
    for name, dtype in {"i64": torch.int64, "i32": torch.int32, "i16": torch.int16, "i8": torch.int8, "u8": torch.uint8}.items():
        low, high = (0, 200) if name == "u8" else (-100, 100)
        c.case(f"gcd_{name}", lambda a, b: (torch.gcd(a, b), torch.lcm(a, b)), c.ints(31, low=low, high=high, dtype=dtype), c.ints(31, low=low, high=high, dtype=dtype))
    c.case("gcd_of_ends", lambda a, b: (torch.gcd(a, b), torch.lcm(a, b)), torch.tensor([-2**31, 2**31 - 1, 0, 0, -2**31, 6], dtype=torch.int32), torch.tensor([6, 2**31 - 2, 0, 5, 0, -4], dtype=torch.int32))
    c.case("gcd_mixed", lambda a, b: (torch.gcd(a, b), torch.lcm(a[:1], b)), c.ints(4, 1, low=-60, high=60), c.ints(5, low=-60, high=60, dtype=torch.int16))
    numbers = [0.0, -0.0, 1.0, -1.5, math.inf, -math.inf, math.nan, 0.1, 1e-42, -3e38, 1e-38, 7.0]
    for name, dtype in {"f32": torch.float32, "f64": torch.float64, "f16": torch.float16, "bf16": torch.bfloat16}.items():
        c.case(f"frexp_{name}", lambda x: torch.frexp(x), torch.tensor(numbers if name != "f16" else [min(max(x, -6e4), 6e4) if math.isfinite(x) else x for x in numbers]).to(dtype))
    c.case("frexp_f64_ends", lambda x: torch.frexp(x * 1.0), torch.tensor([5e-324, -1e-310, 1.7e308, 2.2e-308], dtype=torch.float64))
    for name, dtype in {"f16": torch.float16, "bf16": torch.bfloat16}.items():
        x = torch.tensor([0.0, -0.0, 1.0, -1.0, 2.0**-14, -(2.0**-14), 2.0**-24, 3e-5, 65504.0, -65504.0, math.inf, -math.inf, math.nan, 0.1, 2.0]).to(dtype)
        c.case(f"neighbours_{name}", neighbour, x.repeat_interleave(x.numel()), x.repeat(x.numel()))
    c.case("angle", lambda x, i, b: (torch.angle(x), torch.angle(i), torch.angle(b)), torch.tensor(ENDS), c.ints(5), c.bools(4))
    c.case("angle_bf16", torch.angle, torch.tensor(ENDS).bfloat16())
    c.case("shifts_of_a_number", lambda n: (A.bitwise_left_shift.Scalar_Tensor(3, n), A.bitwise_right_shift.Scalar_Tensor(-1000, n)), c.ints(9, low=0, high=12))

    # Logarithms with a factor, and second names.
    pairs = [0.0, 0.5, 2.0, -1.0, math.nan, math.inf, -0.5]
    x, y = torch.tensor(pairs).repeat_interleave(7), torch.tensor(pairs).repeat(7)
    c.case("xlog1py", lambda x, y: (S.xlog1py(x, y), S.xlogy(x, y)), x, y)
    c.case("xlog1py_forms", lambda x, i: (S.xlog1py(x, 2), S.xlog1py(0.0, x), S.xlog1py(3, x), S.xlogy(x, 0.5), S.xlogy(2.0, x), S.xlog1py(i, i)), between(0.1, 3, 9), c.ints(5, low=0))
    c.case("xlog1py_f16", S.xlog1py, between(0.1, 3, 9, dtype=torch.float16), between(0.1, 3, 9, dtype=torch.float16))
    c.case("second_names", lambda x: (S.erfc(x), S.expit(x), S.exp2(x), S.expm1(x), S.log1p(x), S.digamma(x), S.psi(x), S.round(x), S.round(x * 100, decimals=1), S.logsumexp(x, 0), S.softmax(x, 0), S.erf(x), S.logit(x / 4), S.log_softmax(x, 0)), between(0.3, 3, 11))


def prims(c):
    r = c.randn
    x, y, positive = r(5, 7), r(5, 7), r(5, 7, positive=True)
    c.case("unary", lambda x: tuple(getattr(P, n).default(x) for n in ["abs", "atan", "asinh", "ceil", "cos", "cosh", "erf", "erfc", "exp", "exp2", "expm1", "floor", "neg", "round", "sign", "sin", "sinh", "tan", "tanh", "trunc", "cbrt", "bessel_i0", "bessel_i0e", "bessel_i1", "bessel_i1e", "bessel_j0", "bessel_j1", "erfcx", "spherical_bessel_j0"]), x)
    c.case("unary_positive", lambda x: tuple(getattr(P, n).default(x) for n in ["log", "log10", "log1p", "log2", "rsqrt", "sqrt", "reciprocal", "lgamma", "digamma", "isfinite"]), positive)
    c.case("signbit", lambda x: P.convert_element_type.default(P.signbit.default(x), torch.bool), x)
    c.case("unary_share", lambda x: tuple(getattr(P, n).default(x) for n in ["acos", "asin", "atanh", "erf_inv", "ndtri"]) + (P.acosh.default(x + 1),), torch.sigmoid(x))
    c.case("unary_bf16", lambda x: (P.exp.default(x), P.sin.default(x), P.neg.default(x), P.cbrt.default(x)), r(9, dtype=torch.bfloat16))
    c.case("binary", lambda a, b: tuple(getattr(P, n).default(a, b) for n in ["add", "sub", "mul", "div", "atan2", "hypot", "maximum", "minimum", "fmax", "fmin", "fmod", "remainder", "nextafter", "eq", "ne", "lt", "le", "gt", "ge"]), x, y)
    c.case("binary_positive", lambda a, b: (P.pow.default(a, b), P.igamma.default(a, b), P.igammac.default(a, b), P.zeta.default(a + 1.5, b)), positive, r(5, 7, positive=True))
    for name, dtype in {"i64": torch.int64, "i32": torch.int32, "i8": torch.int8, "u8": torch.uint8}.items():
        a, b = c.ints(23, low=-40, high=40, dtype=dtype), c.ints(23, low=1, high=9, dtype=dtype)
        c.case(f"integers_{name}", lambda a, b: tuple(getattr(P, n).default(a, b) for n in ["add", "sub", "mul", "div", "maximum", "minimum", "fmod", "remainder", "gcd", "bitwise_and", "bitwise_or", "bitwise_xor", "eq", "lt"]) + (P.bitwise_not.default(a), P.neg.default(a), P.abs.default(a), P.sign.default(a)), a, b)
    c.case("division_truncates", lambda a, b: (P.div.default(a, b), P.div.default(-a, b)), torch.tensor([7, -7, 5, -1, 0]), torch.tensor([2, 2, -3, 4, 9]))
    c.case("shifts", lambda a, b: (P.shift_left.default(a, b), P.shift_right_arithmetic.default(a, b)), c.ints(9, low=-50, high=50), c.ints(9, low=0, high=6))
    c.case("bools", lambda a, b: (P.bitwise_and.default(a, b), P.bitwise_not.default(a), P.eq.default(a, b), P.where.default(a, b, a)), c.bools(6), c.bools(6))
    c.case("where_and_conversion", lambda p, a, b: (P.where.default(p, a, b), P.convert_element_type.default(a, torch.int32), P.convert_element_type.default(a, torch.bfloat16)), c.bools(5, 7), x, y)
    c.case("frexp", lambda a: P.frexp.default(a), x)
    c.case("reductions", lambda a: (P.sum.default(a, [0]), P.sum.default(a, [0, 1]), P.amax.default(a, [1]), P.amin.default(a, [0, 1]), P.prod.default(a, [0]), P.prod.default(a, [0, 1]), P.var.default(a, [1], 0.0), P.var.default(a, [0, 1], 1.0)), x)
    c.case("reductions_i64", lambda a: (P.sum.default(a, [1]), P.amax.default(a, [0]), P.prod.default(a, [1])), c.ints(3, 5, low=-3, high=4))
    c.case("reductions_bf16", lambda a: (P.sum.default(a, [1]), P.amax.default(a, [0]), P.var.default(a, [1], 1.0)), r(6, 9, dtype=torch.bfloat16))
    c.case("views", lambda a: (P.transpose.default(a, [1, 0]), P.broadcast_in_dim.default(a, [2, 5, 3, 7], [1, 3]), P.collapse_view.default(a, 0, 1), P.split_dim.default(a[:4], 0, 2), P.squeeze.default(a[:1], [0]), P.view_of.default(a), P.as_strided.default(a, [3, 4], [7, 1], 2)), x)
    c.case("copies", lambda a: (P.reshape.default(a, [7, 5]), P.collapse.default(a.t(), 0, 1), P.clone.default(a), P.rev.default(a, [0]), P.cat.default([a, a], 1), P.copy_strided.default(a, [1, 5]), P.fill.default(a, 2.5), P.as_strided_scatter.default(a, a[:2], [2, 7], [7, 1], 7)), x)
    c.case("written_view", lambda a: (lambda v: (v.mul_(2), v)[1])(P.transpose.default(a.clone(), [1, 0])), x)
    c.case("creation", lambda a: (P.full.default([2, 3], 1.5, dtype=torch.float32, device="cpu", requires_grad=False), P.full_like.default(a, 2, dtype=torch.int64, device="cpu", requires_grad=False), P.iota.default(5, start=2, step=3, dtype=torch.int64, device="cpu", requires_grad=False), P.scalar_tensor.default(2.5, dtype=torch.float32, device="cpu") + a), x)
    c.case("empty_and_one", lambda a, b: (P.exp.default(a), P.sum.default(a, [1]), P.add.default(b, b), P.broadcast_in_dim.default(b, [2, 3], [])), r(2, 0), r())


def add(family):
    family(special)
    family(prims)
