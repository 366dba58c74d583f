"""Elementwise operators, casts, comparisons, selections."""
import torch

import values
from builder import NotHere
from rules import rule

UNARY = ("abs neg exp exp2 expm1 sin cos tan sinh cosh tanh asinh atan erf erfc sigmoid relu floor ceil trunc round sign square "
         "sgn frac deg2rad rad2deg positive sinc absolute negative arctan arcsinh fix").split()
DOMAIN = {"log": "{x}.abs() + 0.5", "log2": "{x}.abs() + 0.5", "log10": "{x}.abs() + 0.5", "log1p": "{x}.abs()", "sqrt": "{x}.abs()",
          "rsqrt": "{x}.abs() + 0.25", "reciprocal": "{x}.abs() + 0.25", "asin": "{x}.tanh()", "acos": "{x}.tanh()", "arcsin": "{x}.sigmoid()",
          "arccos": "{x}.sigmoid()", "atanh": "{x}.tanh() * 0.5", "arctanh": "{x}.sigmoid() * 0.7", "acosh": "{x}.abs() + 1.5", "arccosh": "{x}.abs() + 2",
          "lgamma": "{x}.abs() + 0.5", "logit": "{x}.sigmoid()", "exp": "{x}.clamp(-3, 3)", "special.expit": "{x}", "special.exp2": "{x}.clamp(max=4)",
          "special.log1p": "{x}.abs()", "special.expm1": "{x}.clamp(max=2)", "special.erf": "{x}"}
ACTIVATIONS = ("F.gelu({x})", "F.gelu({x}, approximate='tanh')", "F.silu({x})", "F.mish({x})", "F.elu({x})", "F.elu({x}, 0.7)", "F.selu({x})",
               "F.celu({x}, 0.5)", "F.leaky_relu({x}, 0.2)", "F.hardtanh({x})", "F.hardtanh({x}, -0.5, 0.75)", "F.relu6({x})", "F.hardswish({x})",
               "F.hardsigmoid({x})", "F.softplus({x})", "F.softplus({x}, 2, 1)", "F.softsign({x})", "F.tanhshrink({x})", "F.softshrink({x}, 0.3)",
               "F.hardshrink({x}, 0.4)", "F.threshold({x}, 0.1, -1.0)", "F.logsigmoid({x})", "F.relu({x})", "torch.logit({x}, eps=0.2)",
               "F.rrelu({x}, 0.1, 0.3)", "nn.GELU()({x})", "nn.SiLU()({x})", "nn.ReLU()({x})")
CHECKS = ("isnan", "isinf", "isfinite", "isposinf", "isneginf", "signbit", "logical_not")
BINARY = "add sub mul maximum minimum fmax fmin multiply subtract".split()
FLOAT_BINARY = ("torch.atan2({x}, {y})", "torch.hypot({x}, {y})", "torch.copysign({x}, {y})", "torch.logaddexp({x}, {y})", "torch.logaddexp2({x}, {y})",
                "torch.nextafter({x}, {y})", "torch.xlogy({x}, {y}.abs() + 0.5)", "torch.special.xlogy({x}, {y}.abs() + 0.25)", "torch.heaviside({x}, {y})",
                "torch.arctan2({x}, {y})", "torch.ldexp({x}, {y})", "{x} / ({y}.abs() + 0.5)", "torch.div({x}, {y}.abs() + 0.5, rounding_mode='floor')",
                "torch.true_divide({x}, {y}.abs() + 1)", "torch.fmod({x}, {y}.abs() + 0.5)", "torch.remainder({x}, {y}.abs() + 0.5)",
                "torch.pow({x}.abs() + 0.2, {y})", "torch.float_power({x}.abs() + 0.2, {y})", "{x} // ({y}.abs() + 0.5)", "{x} / {y}",
                "torch.isclose({x}, {y})", "torch.dist({x}, {y})")
INT_BINARY = ("{x} & {y}", "{x} | {y}", "{x} ^ {y}", "torch.bitwise_and({x}, {y})", "torch.bitwise_or({x}, {y})", "torch.bitwise_xor({x}, {y})",
              "{x} << ({y} & 3)", "{x} >> ({y} & 3)", "torch.bitwise_left_shift({x}, {y} & 1)", "torch.bitwise_right_shift({x}, {y} & 7)",
              "torch.div({x}, {y}.abs() + 1, rounding_mode='trunc')", "torch.div({x}, {y}.abs() + 1, rounding_mode='floor')",
              "{x} // torch.where({y} == 0, 3, {y})", "{x} % torch.where({y} == 0, -2, {y})", "torch.remainder({x}, {y} | 1)", "torch.fmod({x}, {y} | 1)",
              "{x} / ({y} | 1)", "torch.pow({x} % 5, {y} & 3)", "torch.gcd({x}, {y})" if False else "{x} * {y}")
COMPARE = ("{x} < {y}", "{x} <= {y}", "{x} > {y}", "{x} >= {y}", "{x} == {y}", "{x} != {y}", "torch.lt({x}, {y})", "torch.eq({x}, {y})", "torch.ge({x}, {y})",
           "torch.greater({x}, {y})", "torch.less_equal({x}, {y})", "torch.not_equal({x}, {y})", "torch.isin({x}, {y}.reshape(-1)[:64])")
LOGICAL = ("torch.logical_and({x}, {y})", "torch.logical_or({x}, {y})", "torch.logical_xor({x}, {y})")
SCALAR = ("{x} + {s}", "{s} + {x}", "{x} - {s}", "{s} - {x}", "{x} * {s}", "torch.add({x}, {s}, alpha=2)", "torch.sub({x}, {s}, alpha=3)", "{x} / 3", "{x} / 0.7",
          "{x} // 2", "{x} // 0.3", "{x} % 3", "{x} % -2", "{x} % 0.7", "torch.fmod({x}, 2)", "torch.fmod({x}, -1.5)", "{x} ** 2", "{x} ** 3", "2 ** ({x} % 5)",
          "{x} < {s}", "{x} >= {s}", "{x} == {s}", "{x} != {s}", "torch.rsub({x}, {s})", "torch.maximum({x}, torch.tensor({s}))", "torch.clamp({x}, {s})",
          "torch.div({x}, 3, rounding_mode='trunc')", "torch.div({x}, -2, rounding_mode='floor')", "({x}.abs() + 0.1) ** 0.5", "({x}.abs() + 0.5) ** -1",
          "({x}.abs() + 0.3) ** 1.7", "torch.float_power({x}, 2)", "-{x}", "{x} / -0.0", "{x} * -0.0", "torch.mul({x}, {s})", "{x} ** 0", "{x} ** 1")


@rule("unary", 6)
def unary(g):
    x = g.any()
    if g.chance(0.35):
        name, inside = g.choice(list(DOMAIN.items()))
        return g.emit(f"torch.{name}({inside.format(x=x)})", "unary")
    name = g.choice(UNARY)
    if g.chance(0.2) and name not in ("positive", "fix"):
        return g.emit(f"{x}.{name}()", "unary")
    g.emit(f"torch.{name}({x})", "unary")


@rule("activation", 4)
def activation(g):
    g.emit(g.choice(ACTIVATIONS).format(x=g.floats()), "activation")


@rule("check", 1)
def check(g):
    g.emit(f"torch.{g.choice(CHECKS)}({g.any()})", "check")


@rule("binary", 8)
def binary(g):
    x = g.any()
    y = g.like(x)
    if g.chance(0.5):
        x, y = y, x
    extra = ", alpha=2" if g.chance(0.1) else ""
    name = g.choice(BINARY)
    if extra and name in ("add", "sub", "subtract"):
        return g.emit(f"torch.{name}({x}, {y}{extra})", "binary")
    g.emit(f"torch.{name}({x}, {y})" if g.chance(0.5) else f"{x} {g.choice('+-*')} {y}", "binary")


@rule("float binary", 4)
def float_binary(g):
    x = g.floats() if g.chance(0.85) else g.any()
    g.emit(g.choice(FLOAT_BINARY).format(x=x, y=g.like(x)), "float binary")


@rule("integer binary", 4)
def integer_binary(g):
    x = g.any(kinds="ib" if g.chance(0.3) else "i")
    t = g.tensor(x)
    y = g.like(x, t.dtype if g.chance(0.7) else None)
    if g.tensor(y).dtype.is_floating_point:
        y = g.like(x, t.dtype)
    g.emit(g.choice(INT_BINARY).format(x=x, y=y), "integer binary")


@rule("compare", 3)
def compare(g):
    x = g.any()
    g.emit(g.choice(COMPARE + LOGICAL).format(x=x, y=g.like(x)), "compare")


@rule("scalar", 6)
def scalar(g):
    x = g.any()
    g.emit(g.choice(SCALAR).format(x=x, s=g.scalar(x)), "scalar")


@rule("ternary", 2)
def ternary(g):
    x = g.floats()
    y, z = g.like(x, g.tensor(x).dtype), g.like(x, g.tensor(x).dtype)
    g.emit(g.choice((f"torch.addcmul({x}, {y}, {z}, value=0.5)", f"torch.addcdiv({x}, {y}, {z}.abs() + 0.5)", f"torch.lerp({x}, {y}, 0.3)",
                     f"torch.lerp({x}, {y}, {z})", f"torch.clamp({x}, {y}, {z})", f"torch.clamp({x}, min={y})", f"torch.clip({x}, max={y})",
                     f"{x} * {y} + {z}")), "ternary")


@rule("clamp", 1.5)
def clamp(g):
    x = g.any()
    g.emit(g.choice((f"torch.clamp({x}, -1, 2)", f"{x}.clamp(min=0)", f"{x}.clamp(max=1)", f"torch.clamp({x}, -0.5, 0.75)", f"torch.clamp_min({x}, 0.1)",
                     f"torch.nan_to_num({x})", f"torch.nan_to_num({x}, 0.5, 3.0, -3.0)", f"torch.round({x}, decimals=1)")), "clamp")


@rule("where", 3)
def where(g):
    x = g.any()
    m = g.like(x, torch.bool)
    if g.tensor(m).dtype != torch.bool:
        m = f"({m} > 0)"
    y = g.like(x) if g.chance(0.7) else g.scalar(x)
    a, b = (x, y) if g.chance(0.5) else (y, x)
    g.emit(g.choice((f"torch.where({m}, {a}, {b})",) * 3 + (f"{x}.masked_fill({m}, {g.scalar(x)})", f"torch.where({m}, 1.5, 0)", f"{x} * {m}")), "where")


@rule("cast", 4)
def cast(g):
    x = g.any()
    to = g.choice(values.DTYPES)
    t = g.tensor(x)
    inner = x
    if t.dtype.is_floating_point and to in values.INTEGERS and not (g.special and g.chance(0.3)):
        inner = f"({x} * 3).clamp({0 if to == 'uint8' else -100}, 100)" if g.chance(0.6) else f"{x}.clamp({0 if to == 'uint8' else -9}, 9)"
    form = g.choice(("{x}.to(torch.{d})",) * 4 + ("{x}.type(torch.{d})", "{x}.to({y})", "{x}.type_as({y})", "{x}.{m}()"))
    short = {"float32": "float", "float16": "half", "bfloat16": "bfloat16", "float64": "double", "int64": "long", "int32": "int", "int16": "short",
             "bool": "bool"}
    if "{m}" in form and to not in short:
        raise NotHere
    g.emit(form.format(x=inner, d=to, y=g.any(), m=short.get(to)), "cast")


@rule("view of bits", 0.25)
def bits(g):
    x = g.ints(low=1, fits=lambda t: t.is_contiguous())
    g.emit(f"{x}.view(torch.{g.choice(('int32', 'uint8', 'int16', 'int8', 'int64'))})", "view of bits")
