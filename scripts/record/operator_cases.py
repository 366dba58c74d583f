"""Records operator cases from PyTorch for tests/cases.

    python3 scripts/record/operator_cases.py [--missing] [FAMILY ...]      (default: all)

Needs torch and safetensors; tsc and its tests need neither. For each family it writes tests/cases/FAMILY.zip, which holds
(case_archive.py; scripts/cases unpacks it)
    graphs.json          [{"name", "model"}]: torch.export's model.json, undecomposed
    tensors.safetensors  CASE/input_I, CASE/weight/NAME (buffers and constants), CASE/output_I (eager, CPU; what was mutated in
                         front), and CASE/reference_I: the same computed in float64 from the same inputs, for floating outputs
Inputs cover odd shapes (0, 1, primes, non-contiguous through views inside the case, broadcast), dtypes and
special values (NaN, inf, -0.0). --missing leaves the cases that are recorded already as they are.
"""
import math
import sys

import torch
import torch.nn.functional as F

import alias_cases
import alignment_cases
import arithmetic_cases
import bits_and_segments_cases
import choices_cases
import complex_cases
import complex_form_cases
import composite_cases
import custom_cases
import edge_cases
import few_places_cases
import float32_product_cases
import float8_cases
import foreach_cases
import fused_product_cases
import given_results_cases
import gradient_cases
import joining_cases
import low_precision_cases
import linear_algebra_cases
import mutation_cases
import overwriting_cases
import quantization_cases
import special_cases
import window_cases
from recorder import BAD, FLOATS, INTS, SPECIAL, Family

FAMILIES = {}


def family(f):
    FAMILIES[f.__name__] = f
    return f


@family
def pointwise_unary(c):
    ops = {n: getattr(torch, n) for n in (
        "abs neg exp exp2 expm1 log log2 log10 log1p sqrt rsqrt reciprocal sin cos tan asin acos atan sinh cosh tanh "
        "asinh acosh atanh erf erfc digamma sigmoid relu floor ceil trunc round sign signbit isnan isinf square "
        "logical_not").split()}
    ops.update(silu=F.silu, gelu=F.gelu, gelu_tanh=lambda x: F.gelu(x, approximate="tanh"), relu6=F.relu6,
               hardtanh=F.hardtanh, leaky_relu=F.leaky_relu, elu=F.elu, softplus=F.softplus, hardswish=F.hardswish,
               hardsigmoid=F.hardsigmoid, clamp=lambda x: torch.clamp(x, -0.5, 0.75), frac=torch.frac,
               pow2=lambda x: x ** 2, pow3=lambda x: x ** 3, pow_half=lambda x: x ** 0.5, rpow=lambda x: 2.0 ** x,
               isfinite=torch.isfinite, logit=lambda x: torch.logit(x, eps=0.125), mish=F.mish, log_sigmoid=F.logsigmoid)
    positive = {"log", "log2", "log10", "sqrt", "rsqrt", "pow_half"}
    for name, op in ops.items():
        for short, dtype in FLOATS.items():
            shape = {"f32": (7, 13), "f16": (3, 5, 8), "bf16": (2, 31)}[short]
            scale = 0.4 if name in ("asin", "acos", "atanh") else 1.0
            x = c.randn(*shape, dtype=dtype, scale=scale, positive=name in positive or name == "acosh")
            if name == "acosh":
                x = x + 1
            if name in ("floor", "ceil", "trunc", "round", "frac"):
                x = (x * 3).to(dtype)
            c.case(f"{name}_{short}", op, x)
        special = c.special()
        # 0.5 x (1 + erf(x)) of an infinity is NaN or infinity, as eager's vector code happens to have it.
        c.case(f"{name}_special", op, special[special.abs() < math.inf] if name.startswith("gelu") else special)
    for name in ("abs", "neg", "sign", "square", "relu", "logical_not", "bitwise_not"):
        for short, dtype in INTS.items():
            c.case(f"{name}_{short}", getattr(torch, name), c.ints(3, 7, dtype=dtype))
    c.case("logical_not_bool", torch.logical_not, c.bools(5, 3))
    c.case("bitwise_not_bool", torch.bitwise_not, c.bools(5, 3))
    c.case("exp_int", torch.exp, c.ints(9))
    c.case("sigmoid_bool", torch.sigmoid, c.bools(9))
    for shape in ((), (0,), (1,), (1, 1, 1), (3, 0, 2), (257,), (1, 1031)):
        c.case("exp_shape_" + "x".join(map(str, shape)), torch.exp, c.randn(*shape))


@family
def pointwise_binary(c):
    ops = {n: getattr(torch, n) for n in
           "add sub mul div maximum minimum fmod remainder atan2 pow hypot copysign eq ne lt le gt ge".split()}
    ops.update(floor_div=lambda a, b: torch.div(a, b, rounding_mode="floor"),
               trunc_div=lambda a, b: torch.div(a, b, rounding_mode="trunc"),
               logical_and=torch.logical_and, logical_or=torch.logical_or, logical_xor=torch.logical_xor)
    for name, op in ops.items():
        for short, dtype in FLOATS.items():
            a, b = c.randn(5, 11, dtype=dtype), c.randn(5, 11, dtype=dtype)
            if name == "pow":
                a = a.abs() + 0.1
            c.case(f"{name}_{short}", op, a, b)
        grid = torch.tensor(SPECIAL)
        c.case(f"{name}_special", op, grid[:, None].expand(-1, len(SPECIAL)).contiguous(), grid)
        if name not in ("atan2", "hypot", "copysign"):
            for short, dtype in INTS.items():
                a, b = c.ints(6, 7, dtype=dtype), c.ints(6, 7, dtype=dtype)
                if name in ("div", "fmod", "remainder", "floor_div", "trunc_div"):
                    b = torch.where(b == 0, torch.ones_like(b), b)
                if name == "pow":
                    b = b.abs() % 4
                c.case(f"{name}_{short}", op, a, b)
    for name in ("bitwise_and", "bitwise_or", "bitwise_xor"):
        op = getattr(torch, name)
        for short, dtype in INTS.items():
            c.case(f"{name}_{short}", op, c.ints(6, 5, dtype=dtype), c.ints(6, 5, dtype=dtype))
        c.case(f"{name}_bool", op, c.bools(7), c.bools(7))
    for short, dtype in INTS.items():
        c.case(f"shift_left_{short}", torch.bitwise_left_shift, c.ints(6, low=0, dtype=dtype), c.ints(6, low=0, high=5, dtype=dtype))
        c.case(f"shift_right_{short}", torch.bitwise_right_shift, c.ints(6, dtype=dtype), c.ints(6, low=0, high=5, dtype=dtype))
    shapes = [((3, 1), (1, 4)), ((2, 3, 4), (4,)), ((1,), (5, 7)), ((), (3,)), ((0, 3), (1, 3)), ((2, 1, 5), (3, 1)),
              ((17, 1, 1), (1, 1, 19))]
    for a, b in shapes:
        c.case(f"add_{'x'.join(map(str, a))}_{'x'.join(map(str, b))}", torch.add, c.randn(*a), c.randn(*b))
    c.case("add_alpha", lambda a, b: torch.add(a, b, alpha=2.5), c.randn(4, 3), c.randn(4, 3))
    c.case("sub_alpha", lambda a, b: torch.sub(a, b, alpha=3), c.ints(4, 3), c.ints(4, 3))
    c.case("rsub", lambda a: 2.0 - a, c.randn(5))
    c.case("rdiv", lambda a: 2.0 / a, c.randn(5))
    pairs = [("f32", "f16"), ("bf16", "f16"), ("i64", "f32"), ("i32", "bf16"), ("u8", "i8"), ("i16", "i64")]
    every = {**FLOATS, **INTS}
    for x, y in pairs:
        make = lambda t: c.randn(4, 3, dtype=every[t]) if t in FLOATS else c.ints(4, 3, dtype=every[t])
        c.case(f"promote_add_{x}_{y}", torch.add, make(x), make(y))
        c.case(f"promote_mul_{x}_{y}", torch.mul, make(x), make(y))
    c.case("promote_bool_int", torch.add, c.bools(4), c.ints(4))
    c.case("promote_bool_bool", torch.add, c.bools(4), c.bools(4))
    c.case("promote_zero_dim", torch.mul, c.randn(3, 4, dtype=torch.float16), torch.tensor(2.5))
    c.case("promote_int_scalar", lambda a: a * 2.5, c.ints(3, 4))
    c.case("int_true_div", torch.div, c.ints(9), c.ints(9, low=1))
    c.case("transposed_add", lambda a, b: a.t() + b, c.randn(5, 7), c.randn(7, 5))
    c.case("transposed_add_large", lambda a, b: a.t() + b, c.randn(67, 130), c.randn(130, 67))
    c.case("permuted_mul", lambda a, b: a.permute(2, 0, 1) * b, c.randn(3, 5, 7), c.randn(7, 3, 5))
    c.case("strided_slice", lambda a: a[1::2, ::3] * 2, c.randn(9, 11))
    c.case("where", torch.where, c.bools(5, 1), c.randn(5, 6), c.randn(6))
    c.case("where_scalar", lambda m, a: torch.where(m, a, 0.0), c.bools(5, 6), c.randn(5, 6, dtype=torch.bfloat16))
    c.case("where_nan", torch.where, c.bools(15), c.special(), c.special().flip(0))
    c.case("clamp_tensor", torch.clamp, c.randn(6, 5), c.randn(5) - 1, c.randn(5).abs())
    c.case("clamp_special", lambda x: torch.clamp(x, min=-1.0), c.special())
    c.case("addcmul", lambda a, b, d: torch.addcmul(a, b, d, value=0.5), c.randn(4, 5), c.randn(5), c.randn(4, 1))
    c.case("addcdiv", lambda a, b, d: torch.addcdiv(a, b, d, value=2.0), c.randn(4, 5), c.randn(5), c.randn(4, 1, positive=True))
    c.case("lerp", lambda a, b: torch.lerp(a, b, 0.3), c.randn(4, 5), c.randn(4, 5))
    c.case("masked_fill", lambda a, m: a.masked_fill(m, -1.5), c.randn(4, 5), c.bools(4, 5))
    c.case("chain", lambda a, b: ((a + b).relu() * 2 - b).tanh(), c.randn(33, 65), c.randn(65))


def beyond_the_width(c):
    """Floats that no integer of the result's width is near: what a CPU makes of them, in 32 or in 64 bits, is cut."""
    at = [3e9 + 300, 5e9, 4294967295.0 * 3 + 1e4, math.inf, -math.inf, math.nan, -3e9 - 512, 1e10 + 1024, 1e19, -1e19, 70000.0, -70000.0, 300.0, -300.0, 2.0**31, -(2.0**31), -0.7]
    for name, dtype in {"f64": torch.float64, **FLOATS}.items():
        x = torch.tensor(at, dtype=torch.float64).to(dtype)
        c.case(f"beyond_{name}", lambda x, d=dtype: tuple(x.to(d).to(t) for t in (torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64)), x)
    c.case("beyond_quotients", lambda x, y: ((x / y).int(), (x / y).to(torch.int16) + 1, (y.log() * x).int(), (x * 1e30).int()), torch.tensor([1.0, 0.0, -3.0, 5.0]), torch.tensor([0.0, 0.0, 0.0, 2.0]))


@family
def casts(c):
    every = {**FLOATS, **INTS, "bool": torch.bool, "f64": torch.float64}
    for source in every:
        for target, dtype in every.items():
            if source == target:
                continue
            if source in ("f32", "f16", "bf16", "f64"):
                x = c.randn(4, 5, scale=20.0, dtype=every[source])
                if not dtype.is_signed or dtype == torch.uint8:
                    x = x.abs()
                x[0, 0] = 0
            elif source == "bool":
                x = c.bools(4, 5)
            else:
                x = c.ints(4, 5, dtype=every[source])
            c.case(f"{source}_to_{target}", lambda t, dtype=dtype: t.to(dtype), x)
    c.case("f32_special_to_f16", lambda t: t.to(torch.float16), torch.tensor(SPECIAL + [65504.0, 65520.0, 1e-8, 6e-8]))
    c.case("f32_special_to_bf16", lambda t: t.to(torch.bfloat16), torch.tensor(SPECIAL + [3.39e38, 1.00390625, 1.01171875]))
    c.case("f32_special_to_bool", lambda t: t.to(torch.bool), c.special())
    c.case("round_trip", lambda t: (t.to(torch.bfloat16).float() * 3).to(torch.float16), c.randn(50))
    c.case("type_as", lambda a, b: a.type_as(b), c.randn(3), c.ints(2))
    beyond_the_width(c)


@family
def reductions(c):
    ops = dict(sum=torch.sum, mean=torch.mean, amax=torch.amax, amin=torch.amin, prod=torch.prod)
    shapes = [((7, 13), (1,)), ((7, 13), (0,)), ((3, 5, 8), (0, 2)), ((3, 5, 8), (1,)), ((4, 257), (-1,)),
              ((2, 3, 1031), (2,)), ((300, 5), (0,)), ((6, 1), (1,)), ((1, 9), (0,)), ((2, 4099), (1,))]

    def near_one(*shape, dtype=torch.float32):  # of either sign; hundreds of them neither vanish nor overflow
        x = c.randn(*shape)
        return ((1 + 0.05 * x.abs()) * x.sign()).to(dtype) ** (1 - 2 * (torch.arange(shape[-1]) % 2)).to(dtype)
    for name, op in ops.items():
        for shape, dims in shapes:
            label = "x".join(map(str, shape)) + "_d" + "_".join(map(str, dims))
            if max(shape) > 1000 and name in ("mean", "amin"):
                continue  # as sum and amax
            if name == "prod":
                if len(dims) > 1 or max(shape) > 300:
                    continue
                c.case(f"prod_{label}", lambda x, d=dims[0]: torch.prod(x, d), near_one(*shape))
            else:
                c.case(f"{name}_{label}", lambda x, op=op, d=dims: op(x, d), c.randn(*shape))
        for short in ("f16", "bf16"):
            f = (lambda x: torch.prod(x, -1)) if name == "prod" else (lambda x, op=op: op(x, -1))
            c.case(f"{name}_{short}", f, (near_one if name == "prod" else c.randn)(5, 96, dtype=FLOATS[short]))
        if name != "prod":
            c.case(f"{name}_keepdim", lambda x, op=op: op(x, (0, 2), keepdim=True), c.randn(3, 5, 4))
    c.case("sum_all", lambda x: x.sum(), c.randn(23, 41))
    c.case("sum_all_large", lambda x: (torch.arange(120300).view(300, 401) * 7919 % 1000 * x).sum(), c.randn(1))
    c.case("sum_empty", lambda x: x.sum(1), c.randn(3, 0))
    c.case("sum_no_rows", lambda x: x.sum(1), c.randn(0, 3))
    c.case("prod_empty", lambda x: x.prod(1), c.randn(3, 0))
    c.case("sum_scalar", lambda x: x.sum(), c.randn())
    for short, dtype in INTS.items():
        c.case(f"sum_{short}", lambda x: x.sum(-1), c.ints(5, 33, dtype=dtype))
        c.case(f"amax_{short}", lambda x: x.amax(-1), c.ints(5, 33, dtype=dtype))
    c.case("sum_bool", lambda x: x.sum(-1), c.bools(5, 33))
    c.case("sum_dtype", lambda x: x.sum(-1, dtype=torch.float32), c.randn(5, 70, dtype=torch.float16))
    c.case("any", lambda x: x.any(-1), c.randn(4, 9) > 1.2)
    c.case("all", lambda x: x.all(-1), c.randn(4, 3) > -1)
    c.case("any_all_elements", lambda x: x.any(), c.bools(6, 4))
    c.case("argmax", lambda x: x.argmax(-1), c.randn(6, 77))
    c.case("argmin_dim0", lambda x: x.argmin(0), c.randn(6, 77))
    c.case("argmax_ties", lambda x: x.argmax(-1), c.ints(6, 40, low=0, high=3))
    c.case("argmax_nan", lambda x: x.argmax(-1), torch.tensor([[1.0, math.nan, 3.0, math.nan], [5.0, 2.0, math.inf, 1.0]]))
    c.case("argmax_all", lambda x: x.argmax(), c.randn(7, 9))
    c.case("amax_special", lambda x: x.amax(-1), torch.tensor([SPECIAL, [v for v in SPECIAL if v == v] + [0.0]]))
    c.case("max_dim", lambda x: torch.max(x, 1), c.randn(5, 12))
    c.case("var", lambda x: x.var(-1), c.randn(5, 65))
    c.case("var_biased", lambda x: x.var((0, 2), unbiased=False), c.randn(5, 6, 7))
    c.case("std", lambda x: x.std(-1), c.randn(5, 65))
    c.case("var_mean", lambda x: torch.var_mean(x, -1, correction=0), c.randn(5, 65) + 100)
    c.case("norm", lambda x: torch.linalg.vector_norm(x, dim=-1), c.randn(5, 65))
    c.case("logsumexp", lambda x: torch.logsumexp(x, -1), c.randn(5, 65))
    c.case("sum_of_product", lambda a, b: (a * b).sum(-1), c.randn(9, 130), c.randn(130))
    c.case("sum_then_scale", lambda x: x / x.sum(-1, keepdim=True), c.randn(9, 130, positive=True))
    c.case("transposed_sum", lambda x: x.t().sum(-1), c.randn(37, 53))
    c.case("sum_relu_epilogue", lambda x: x.sum(-1).relu() + 1, c.randn(37, 53))


@family
def normalization(c):
    for short, dtype in FLOATS.items():
        for shape in ((6, 33), (2, 3, 128), (4, 1000), (3, 1)):
            if shape == (4, 1000) and short == "f32":
                continue
            label = short + "_" + "x".join(map(str, shape))
            c.case(f"softmax_{label}", lambda x: torch.softmax(x, -1), c.randn(*shape, dtype=dtype, scale=2))
            if shape != (4, 1000):
                c.case(f"log_softmax_{label}", lambda x: torch.log_softmax(x, -1), c.randn(*shape, dtype=dtype, scale=2))
            n = shape[-1]
            if n > 1 and label != "f16_4x1000":
                c.case(f"layer_norm_{label}", lambda x, w, b, n=n: F.layer_norm(x, (n,), w, b),
                       (c.randn(*shape) * 2 + 1).to(dtype), c.randn(n, dtype=dtype), c.randn(n, dtype=dtype))
    c.case("softmax_dim0", lambda x: torch.softmax(x, 0), c.randn(33, 7))
    c.case("softmax_dim1", lambda x: torch.softmax(x, 1), c.randn(3, 33, 7))
    c.case("softmax_masked", lambda x, m: torch.softmax(x.masked_fill(m, -math.inf), -1), c.randn(5, 40), torch.arange(40)[None, :] > torch.arange(5)[:, None] * 8)
    c.case("layer_norm_large_mean", lambda x: F.layer_norm(x, (96,)), c.randn(5, 96) + 30)
    c.case("layer_norm_2d", lambda x: F.layer_norm(x, (7, 9)), c.randn(5, 7, 9))
    c.case("rms_norm", lambda x, w: x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * w, c.randn(5, 192), c.randn(192))


@family
def views(c):
    x = lambda: c.randn(3, 4, 5)
    c.case("view", lambda t: t.view(12, 5) + 1, x())
    c.case("view_infer", lambda t: t.view(-1, 10) + 1, x())
    c.case("reshape_transposed", lambda t: t.transpose(0, 2).reshape(10, 6) + 1, x())
    c.case("permute", lambda t: t.permute(2, 0, 1), x())
    c.case("permute_negative", lambda t: t.permute(-1, 0, -2) * 2, x())
    c.case("transpose_contiguous", lambda t: t.transpose(0, 1).contiguous(), x())
    c.case("unsqueeze", lambda t: t.unsqueeze(-2) + t.unsqueeze(1), x())
    c.case("squeeze", lambda t: t.unsqueeze(0).squeeze() * 2, x())
    c.case("squeeze_dim", lambda t: t[:, :1].squeeze(1) * 2, x())
    c.case("expand", lambda t: t.expand(3, 4, 5) + 1, c.randn(4, 1))
    c.case("expand_copy", lambda t: t.expand(6, -1).contiguous(), c.randn(1, 5))
    c.case("slice", lambda t: t[1:, :-1, 1:4] * 2, x())
    c.case("slice_out", lambda t: t[:, 2:100], x())
    c.case("slice_empty", lambda t: t[2:1] + 1, x())
    c.case("select", lambda t: t[1] + t[-1], x())
    c.case("select_last", lambda t: t[..., -2], x())
    c.case("split", lambda t: torch.split(t, 2, dim=2), x())
    c.case("split_sizes", lambda t: [a + 1 for a in torch.split(t, [1, 3, 1], dim=2)], x())
    c.case("chunk", lambda t: [a * 2 for a in t.chunk(3, dim=-1)], x())
    c.case("unbind", lambda t: [a * 2 for a in t.unbind(1)], x())
    c.case("flatten", lambda t: t.flatten(1) + 1, x())
    c.case("cat", lambda a, b: torch.cat([a, b], 1), c.randn(3, 4), c.randn(3, 5))
    c.case("cat_three", lambda a, b: torch.cat([a, b, a * 2], 0), c.randn(3, 4), c.randn(2, 4))
    c.case("cat_empty", lambda a, b: torch.cat([a, b], 1), c.randn(3, 0), c.randn(3, 5))
    c.case("cat_promote", lambda a, b: torch.cat([a, b], -1), c.randn(3, 2, dtype=torch.float16), c.randn(3, 5))
    c.case("stack", lambda a, b: torch.stack([a, b], 1), c.randn(3, 4), c.randn(3, 4))
    c.case("repeat", lambda a: a.repeat(2, 3) + 1, c.randn(2, 3))
    c.case("flip", lambda a: a.flip(0, 2), x())
    c.case("roll", lambda a: torch.roll(a, 2, 1), x())
    c.case("pad", lambda a: F.pad(a, (1, 2, 0, 1), value=1.5), x())
    c.case("tril", lambda a: torch.tril(a), c.randn(5, 7))
    c.case("triu", lambda a: torch.triu(a, 1), c.randn(5, 7))
    c.case("identity_output", lambda a: (a, a.view(60)), x())
    c.case("output_twice", lambda a: (lambda y: (y, y))(a + 1), x())
    c.case("view_dtype", lambda a: a.view(torch.int32) + 0, c.randn(5))
    c.case("clone", lambda a: a.clone(), x())
    c.case("movedim", lambda a: a.movedim(0, -1) + 1, x())


@family
def creation(c):
    c.case("arange", lambda a: torch.arange(7) + a, c.ints(7))
    c.case("arange_step", lambda a: torch.arange(1, 12, 3) * a, c.ints(4))
    c.case("arange_float", lambda a: torch.arange(0, 1, 0.125) + a, c.randn(8))
    c.case("full", lambda a: torch.full((3, 4), 2.5) + a, c.randn(4))
    c.case("zeros_ones", lambda a: (torch.zeros(3) + a, torch.ones(3, dtype=torch.int64)), c.randn(3))
    c.case("full_like", lambda a: torch.full_like(a, 7), c.randn(3, 2))
    c.case("zeros_like", lambda a: torch.zeros_like(a) + a, c.ints(3, 2))
    c.case("new_ones", lambda a: a.new_ones((2, 3)), c.randn(3, 2, dtype=torch.float16))
    c.case("causal_mask", lambda a: torch.where(torch.arange(6)[:, None] >= torch.arange(6)[None, :], a, -math.inf), c.randn(6, 6))
    c.case("eye_like", lambda a: (torch.arange(4)[:, None] == torch.arange(4)[None, :]).to(a.dtype) + a, c.randn(4, 4))
    c.case("scalar_tensor", lambda a: a + torch.scalar_tensor(2.0), c.randn(4))
    windows = {"bartlett": torch.bartlett_window, "blackman": torch.blackman_window, "hann": torch.hann_window, "hamming": torch.hamming_window,
               "kaiser": torch.kaiser_window}
    c.case("windows", lambda: tuple(f(n) for f in windows.values() for n in (0, 1, 2, 7, 16)))
    c.case("windows_symmetric", lambda: tuple(f(n, False) for f in windows.values() for n in (1, 3, 9)))
    c.case("windows_of_parameters", lambda: (torch.hamming_window(9, True, 0.6), torch.hamming_window(9, False, 0.6, 0.3), torch.kaiser_window(9, True, 3.5),
                                             torch.kaiser_window(6, False, 0.0)))
    c.case("windows_f64", lambda: tuple(f(11, dtype=torch.float64) for f in windows.values()))
    c.case("windows_f16", lambda: tuple(f(11, dtype=torch.float16) for f in windows.values()))


@family
def indexing(c):
    c.case("embedding", F.embedding, c.ints(3, 5, low=0, high=11), c.randn(11, 8))
    c.case("embedding_bf16", F.embedding, c.ints(7, low=0, high=11), c.randn(11, 16, dtype=torch.bfloat16))
    c.case("embedding_scale", lambda i, w, p: F.embedding(i, w) * 3 + p, c.ints(4, 6, low=0, high=20), c.randn(20, 8), c.randn(6, 8))
    c.case("index", lambda t, i: t[i], c.randn(7, 4), c.ints(5, low=-7, high=7))
    c.case("index_two", lambda t, i, j: t[i, j], c.randn(7, 4), c.ints(5, low=0, high=7), c.ints(5, low=-4, high=4))
    c.case("index_broadcast", lambda t, i, j: t[i[:, None], j], c.randn(7, 4), c.ints(5, low=0, high=7), c.ints(3, low=0, high=4))
    c.case("index_middle", lambda t, i: t[:, i], c.randn(3, 7, 4), c.ints(5, low=0, high=7))
    c.case("index_select", lambda t, i: torch.index_select(t, 1, i), c.randn(3, 7), c.ints(4, low=0, high=7))
    c.case("index_select_one_place", lambda t, i: (torch.index_select(t, 1, i), t.index_select(-2, i) * 2), c.randn(3, 7), torch.tensor(2))
    c.case("gather", lambda t, i: torch.gather(t, 1, i), c.randn(3, 7), c.ints(3, 5, low=0, high=7))
    c.case("gather_int32_table", lambda t, i: torch.gather(t, 0, i), c.ints(6, 3, dtype=torch.int32), c.ints(2, 3, low=0, high=6))
    c.case("index_put", lambda t, i, v: t.index_put((i,), v), c.randn(7, 3), torch.tensor([4, 0, 2]), c.randn(3, 3))
    c.case("index_put_accumulate", lambda t, i, v: t.index_put((i,), v, accumulate=True), c.randn(7, 3), torch.tensor([4, 0, 4, 4]), c.randn(4, 3))
    c.case("scatter", lambda t, i, v: t.scatter(1, i, v), c.randn(3, 7), torch.tensor([[0, 3], [6, 1], [2, 5]]), c.randn(3, 2))
    c.case("scatter_value", lambda t, i: t.scatter(1, i, 2.0), c.randn(3, 7), torch.tensor([[0, 3], [6, 1], [2, 5]]))
    c.case("scatter_add", lambda t, i, v: t.scatter_add(0, i, v), c.randn(5, 3), c.ints(8, 3, low=0, high=5), c.randn(8, 3))
    c.case("index_add", lambda t, i, v: t.index_add(0, i, v), c.randn(5, 3), c.ints(8, low=0, high=5), c.randn(8, 3))
    c.case("select_scatter", lambda t, v: torch.select_scatter(t, v, 1, 2), c.randn(3, 5), c.randn(3))
    c.case("slice_scatter", lambda t, v: torch.slice_scatter(t, v, 1, 1, 4), c.randn(3, 5), c.randn(3, 3))


@family
def matmuls(c):
    for short, dtype in FLOATS.items():
        r = lambda *s: c.randn(*s, dtype=dtype)
        c.case(f"mm_{short}", torch.mm, r(7, 33), r(33, 5))
        c.case(f"mm_transposed_{short}", lambda a, b: a.t() @ b.t(), r(33, 7), r(5, 33))
        c.case(f"addmm_{short}", torch.addmm, r(5), r(7, 33), r(33, 5))
        c.case(f"addmm_matrix_{short}", lambda s, a, b: torch.addmm(s, a, b, beta=0.5, alpha=2.0), r(7, 5), r(7, 33), r(33, 5))
        c.case(f"bmm_{short}", torch.bmm, r(3, 7, 16), r(3, 16, 5))
        c.case(f"linear_{short}", F.linear, r(2, 7, 32), r(24, 32), r(24))
        c.case(f"linear_no_bias_{short}", F.linear, r(2, 7, 32), r(24, 32))
        c.case(f"mlp_{short}", lambda x, w, b, v: F.linear(F.gelu(F.linear(x, w, b), approximate="tanh"), v), r(6, 16), r(64, 16), r(64), r(8, 64))
    r = c.randn
    c.case("mm_f64", torch.mm, r(7, 9).double(), r(9, 4).double())
    c.case("mm_int", torch.mm, c.ints(4, 5), c.ints(5, 3))
    c.case("mm_empty_k", torch.mm, r(4, 0), r(0, 3))
    c.case("mm_empty_m", torch.mm, r(0, 4), r(4, 3))
    c.case("mm_one", torch.mm, r(1, 1), r(1, 1))
    c.case("mm_vector_row", torch.mm, r(1, 300), r(300, 70))
    c.case("mm_sliced", lambda a, b: a[:, ::2] @ b[1:], r(6, 16), r(9, 5))
    c.case("mm_epilogue", lambda a, b: (a @ b).relu() + 1, r(6, 16), r(16, 5))
    c.case("mm_prologue", lambda a, b: (a * 2).tanh() @ b, r(6, 16), r(16, 5))
    c.case("matmul_broadcast", torch.matmul, r(2, 1, 4, 6), r(3, 6, 5))
    c.case("matmul_vector", torch.matmul, r(4, 6), r(6))
    c.case("matmul_dot", torch.matmul, r(6), r(6))
    c.case("matmul_batch_matrix", torch.matmul, r(2, 3, 4, 6), r(6, 5))
    c.case("bmm_broadcast", lambda a, b: torch.bmm(a.expand(3, 4, 6), b), r(1, 4, 6), r(3, 6, 5))
    c.case("baddbmm", torch.baddbmm, r(3, 4, 5), r(3, 4, 6), r(3, 6, 5))
    c.case("einsum", lambda a, b: torch.einsum("bhqd,bhkd->bhqk", a, b), r(2, 3, 4, 8), r(2, 3, 5, 8))
    c.case("mm_nan", torch.mm, torch.tensor([[1.0, math.nan], [2.0, 3.0]]), r(2, 3))


@family
def attention(c):
    sdpa = F.scaled_dot_product_attention
    for short, dtype in FLOATS.items():
        r = lambda *s: c.randn(*s, dtype=dtype)
        c.case(f"plain_{short}", sdpa, r(2, 3, 7, 16), r(2, 3, 9, 16), r(2, 3, 9, 16))
        c.case(f"causal_{short}", lambda q, k, v: sdpa(q, k, v, is_causal=True), r(2, 3, 9, 16), r(2, 3, 9, 16), r(2, 3, 9, 16))
        c.case(f"bool_mask_{short}", lambda q, k, v, m: sdpa(q, k, v, attn_mask=m), r(2, 3, 7, 16), r(2, 3, 9, 16), r(2, 3, 9, 16), torch.arange(9)[None, :] <= torch.arange(7)[:, None] + 2)
    r = c.randn
    c.case("float_mask", lambda q, k, v, m: sdpa(q, k, v, attn_mask=m), r(2, 3, 7, 16), r(2, 3, 9, 16), r(2, 3, 9, 16), r(7, 9))
    c.case("scale", lambda q, k, v: sdpa(q, k, v, scale=0.5), r(2, 3, 7, 16), r(2, 3, 9, 16), r(2, 3, 9, 16))
    c.case("gqa", lambda q, k, v: sdpa(q, k, v, enable_gqa=True), r(2, 4, 7, 16), r(2, 2, 9, 16), r(2, 2, 9, 16))
    c.case("explicit", lambda q, k, v: torch.softmax(q @ k.transpose(-1, -2) / 4.0, -1) @ v, r(2, 3, 7, 16), r(2, 3, 9, 16), r(2, 3, 9, 16))


@family
def scans(c):
    c.case("cumsum", lambda x: x.cumsum(-1), c.randn(5, 67))
    c.case("cumsum_dim0", lambda x: x.cumsum(0), c.randn(33, 5))
    c.case("cumsum_i64", lambda x: x.cumsum(-1), c.ints(5, 67))
    c.case("cumsum_bool", lambda x: (x > 0).cumsum(-1), c.randn(5, 67))
    c.case("cumsum_f16", lambda x: x.cumsum(-1), c.randn(5, 40, dtype=torch.float16))
    c.case("cumsum_long", lambda x: x.cumsum(-1) * 2, c.randn(2, 3001))
    c.case("cumsum_one", lambda x: x.cumsum(-1), c.randn(5, 1))
    c.case("cumprod", lambda x: x.cumprod(-1), c.randn(5, 12))


@family
def sorting(c):
    r = c.randn
    for short, dtype in {**FLOATS, "f64": torch.float64}.items():
        c.case(f"sort_{short}", lambda x: torch.sort(x, stable=True), c.randn(3, 37, dtype=dtype))
        c.case(f"sort_descending_{short}", lambda x: torch.sort(x, descending=True, stable=True), c.randn(3, 37, dtype=dtype))
        c.case(f"topk_{short}", lambda x: torch.topk(x, 5)[0], c.randn(4, 41, dtype=dtype))
    for short, dtype in {**INTS, "bool": torch.bool}.items():
        x = c.bools(3, 29) if short == "bool" else c.ints(3, 29, low=-100, high=100, dtype=dtype)
        c.case(f"sort_{short}", lambda x: torch.sort(x, stable=True), x)
        c.case(f"sort_descending_{short}", lambda x: torch.sort(x, descending=True, stable=True), x.clone())
    extreme = torch.tensor([[2**63 - 1, -(2**63), 0, -1, 1, 2**63 - 1, -(2**63), 2**40, -(2**40)]])
    c.case("sort_i64_extreme", lambda x: (*torch.sort(x, stable=True), *torch.sort(x, descending=True, stable=True)), extreme)
    special = torch.stack([c.special(), c.special().flip(0)])
    for short, dtype in {**FLOATS, "f64": torch.float64}.items():
        c.case(f"sort_special_{short}", lambda x: torch.sort(x, stable=True), special.to(dtype))
        c.case(f"sort_special_descending_{short}", lambda x: torch.sort(x, descending=True, stable=True), special.to(dtype))
    c.case("sort_ties", lambda x: torch.sort(x, stable=True), c.ints(4, 50, low=0, high=4).float())
    c.case("sort_ties_descending", lambda x: torch.sort(x, descending=True, stable=True), c.ints(4, 50, low=0, high=4).float())
    c.case("sort_dim0", lambda x: torch.sort(x, 0), r(17, 5))
    c.case("sort_dim1", lambda x: torch.sort(x, dim=1, descending=True), r(3, 19, 4))
    c.case("sort_transposed", lambda x: torch.sort(x.t(), -1), r(17, 5))
    c.case("sort_transposed_dim0", lambda x: torch.sort(x.t(), 0)[0].reshape(-1), r(17, 5))
    c.case("sort_one", lambda x: torch.sort(x), r(5, 1))
    c.case("sort_scalar", lambda x: torch.sort(x), r())
    c.case("sort_empty", lambda x: torch.sort(x), r(3, 0))
    c.case("sort_no_rows", lambda x: torch.sort(x, 1), r(0, 7))
    c.case("sort_default", lambda x: torch.sort(x)[0] * 2, r(501))
    c.case("sort_computed", lambda x, y: torch.sort((x * y).relu(), stable=True), r(5, 33, dtype=torch.bfloat16), r(33, dtype=torch.bfloat16))
    c.case("argsort", lambda x: torch.argsort(x, -1), r(5, 33))
    c.case("argsort_stable", lambda x: torch.argsort(x, dim=0, descending=True, stable=True), c.ints(23, 3, low=0, high=5))
    c.case("msort", lambda x: torch.msort(x), r(9, 4))
    for short in ("f16", "bf16"):  # rounding makes ties
        c.case(f"sort_rounded_{short}", lambda x: torch.sort(x * 1.25, stable=True)[1], r(1, 300, dtype=FLOATS[short]))
        c.case(f"floor_rounded_{short}", lambda x: ((x * 1.25).floor().to(torch.int32), (x * 1.25).to(torch.int16)), (r(1, 300) * 3).to(FLOATS[short]))
    for n in (2, 31, 1000):  # in the threads of a part of a warp, a warp, and more
        c.case(f"sort_{n}", lambda x: torch.sort(x, stable=True), c.ints(3 if n < 1000 else 1, n, low=-400, high=400, dtype=torch.int16))
    c.case("sort_places_1000", lambda x: torch.sort(x, descending=True, stable=True)[1].to(torch.int16), torch.where(c.ints(1, 1000, low=0, high=9) == 0, special[0, c.ints(1, 1000, low=0, high=15)], (c.randn(1, 1000) * 9).round()))
    c.case("sort_4097", lambda x: (lambda s: (s[0], s[1].to(torch.int16)))(torch.sort(x, stable=True)), c.ints(1, 4097, low=-128, high=128, dtype=torch.int8))
    c.case("sort_8192", lambda x: (lambda s: (s[0], s[1].to(torch.int16)))(torch.sort(x, stable=True)), c.ints(1, 8192, low=-128, high=128, dtype=torch.int8))
    c.case("sort_i64_999", lambda x: (lambda s: (s[0][:, ::9], s[1][:, ::9]))(torch.sort(x, stable=True, descending=True)), torch.tensor([2**63 - 1, -(2**63), 0, -1, 1, 2**62, 2**40, -(2**40)])[c.ints(1, 999, low=0, high=8)])
    c.case("sort_bool_70", lambda x: torch.sort(x.any(0), stable=True), c.bools(2, 70))
    c.case("sort_rows_computed", lambda x: (lambda s: torch.where(s[0].softmax(-1).cumsum(-1) > 0.9, 0.0, s[0]))(torch.sort(x * 2, descending=True, stable=True)), r(4, 65))
    c.case("topk_1000", lambda x: torch.topk(x, 5)[0], c.ints(2, 1000, low=-30000, high=30000, dtype=torch.int16))
    c.case("kthvalue_1000", lambda x: torch.kthvalue(x, 321)[0], c.ints(2, 1000, low=-30000, high=30000, dtype=torch.int16))
    c.case("sort_long", lambda x: torch.sort(x, stable=True), c.ints(2, 4999, low=-1500, high=1500).to(torch.int16))
    c.case("sort_long_descending", lambda x: torch.sort(x, descending=True, stable=True), (r(1, 4608) * 64).round().to(torch.float16) / 64)
    long_special = r(4501)
    long_special[::7] = math.nan
    long_special[::5] = math.inf
    long_special[::11] = -0.0
    long_special[::13] = 0.0
    c.case("sort_long_special", lambda x: torch.sort(x, stable=True)[1], long_special)
    c.case("topk_smallest", lambda x: torch.topk(x, 3, largest=False), r(5, 33))
    c.case("topk_dim", lambda x: torch.topk(x, 2, dim=1), r(3, 9, 4))
    c.case("topk_all", lambda x: torch.topk(x, 7, dim=0), r(7, 3))
    c.case("topk_none", lambda x: torch.topk(x, 0), r(7, 3))
    c.case("topk_one", lambda x: torch.topk(x, 1), r(7, 8))
    c.case("topk_scalar", lambda x: torch.topk(x, 1), r())
    c.case("topk_unsorted", lambda x: torch.topk(x, 5, sorted=False)[0].sum(-1), r(5, 33))
    c.case("topk_special", lambda x: (torch.topk(x, 9)[0], torch.topk(x, 9, largest=False)[0]), special)
    c.case("topk_long", lambda x: torch.topk(x, 11)[0], r(5003))
    c.case("topk_routing", lambda x: (lambda v: (v[0] / v[0].sum(-1, keepdim=True), v[1]))(torch.topk(torch.softmax(x, -1), 2)), r(13, 8))
    c.case("kthvalue", lambda x: torch.kthvalue(x, 4), r(5, 33))
    c.case("kthvalue_dim", lambda x: torch.kthvalue(x, 2, 0, keepdim=True), c.ints(11, 3, low=-1000, high=1000))
    c.case("median", lambda x: torch.median(x), r(4, 9))
    c.case("median_i64", lambda x: torch.median(x), c.ints(4, 9))
    c.case("median_dim", lambda x: torch.median(x, 1), r(5, 12))
    c.case("median_dim_i64", lambda x: torch.median(x, 0, keepdim=True)[0], c.ints(6, 5))
    c.case("median_nan", lambda x: (torch.median(x, -1)[0], torch.nanmedian(x, -1)[0], torch.median(x), torch.nanmedian(x)), torch.tensor([[1.0, math.nan, 3.0, -2.0], [5.0, 2.0, math.inf, 1.0], [math.nan, math.nan, math.nan, math.nan]]))
arithmetic_cases.add(family)
bits_and_segments_cases.add(family)
composite_cases.add(family)
custom_cases.add(family)
edge_cases.add(family)
float32_product_cases.add(family)
float8_cases.add(family)
fused_product_cases.add(family)
gradient_cases.add(family)
joining_cases.add(family)
low_precision_cases.add(family)
linear_algebra_cases.add(family)
mutation_cases.add(family)
overwriting_cases.add(family)
quantization_cases.add(family)
special_cases.add(family)
window_cases.add(family)
foreach_cases.add(family)
alias_cases.add(family)
alignment_cases.add(family)
choices_cases.add(family)
few_places_cases.add(family)
given_results_cases.add(family)
complex_cases.add(family)
complex_form_cases.add(family)


def main():
    names = [a for a in sys.argv[1:] if a != "--missing"]
    for name in names or list(FAMILIES):
        c = Family(name)
        FAMILIES[name](c)
        if "--missing" in sys.argv:
            c.keep_recorded()
        if not BAD:
            c.write()
    if BAD:
        sys.exit("eager and float64 disagree; choose other inputs:\n  " + "\n  ".join(BAD))


if __name__ == "__main__":
    main()
