"""Cases at the ends of number types: integers that overflow, neighbours of 16-bit floats, tiny
divisors, bounds that are NaN. operator_cases.py calls add(family), which registers them with it."""
import math

import torch

INTEGERS = {"i64": torch.int64, "i32": torch.int32, "i16": torch.int16, "i8": torch.int8, "u8": torch.uint8}


def ends(dtype):
    """Values near both ends and near 0."""
    info = torch.iinfo(dtype)
    near_zero = [-3, -2, -1, 0, 1, 2, 3] if info.min < 0 else [0, 1, 2, 3]
    return torch.tensor([info.min, info.min + 1, *near_zero, info.max - 1, info.max], dtype=dtype)


def arithmetic(c):
    for name, dtype in INTEGERS.items():
        x = ends(dtype)
        divisors = torch.tensor([d for d in (-3, -2, -1, 1, 2, 3) if d > 0 or dtype.is_signed], dtype=dtype)
        a, b = x.repeat_interleave(x.numel()), x.repeat(x.numel())
        # The smallest number divided by -1 ends PyTorch's process (x86 traps), so it is not among these.
        dividends = x[1:] if dtype.is_signed else x
        c.case(f"wraps_{name}", lambda a, b: (a + b, a - b, a * b, a * b + a, a.square(), a**3, a.cumsum(0), a.sum(dtype=a.dtype)), a, b)
        # What compilers make true or false of a number that never overflows.
        c.case(f"compares_wrapped_{name}", lambda a, b: (a + 1 > a, a - 1 < a, (a * 2) // 2 == a, a + b >= a, a - b <= a, a * a >= 0), a, b)
        c.case(f"divides_{name}", lambda a, b: (torch.div(a, b, rounding_mode="trunc"), torch.div(a, b, rounding_mode="floor"), torch.remainder(a, b), torch.fmod(a, b)),
               dividends.repeat_interleave(divisors.numel()), divisors.repeat(dividends.numel()))
        if dtype.is_signed:
            c.case(f"negates_{name}", lambda a: (-a, a.abs(), -a > 0, a.abs() >= 0, -(-a) == a), x)
        c.case(f"any_all_{name}", lambda a: (a.view(-1, 1).any(1), a.view(-1, 1).all(0), a.any(), a.all()), x)
    for name, dtype in {"f32": torch.float32, "bf16": torch.bfloat16, "f64": torch.float64}.items():
        x = torch.tensor([0.0, -0.0, 1.0, -1.0, 2.0, 0.75, -3.5, math.inf, -math.inf, 65504.0], dtype=dtype)
        a, b = x.repeat_interleave(10), x.repeat(10)
        c.case(f"neighbours_{name}", lambda a, b: (lambda n: (n == a, n > a, n == b, n + n == n * 2, n - a > 0.001, n.isinf()))(torch.nextafter(a, b)), a, b)
    tiny = torch.tensor([[1e-40, 3e-40, -2e-39, 0.0], [1e-45, 0.0, 0.0, 0.0], [3e38, -1e38, 1.0, 0.0], [1e-38, 2e-38, 1e30, 1.0]])
    c.case("divides_by_tiny_rows", lambda x: x / x.abs().amax(-1, keepdim=True), tiny)
    special = torch.tensor([0.0, -0.5, math.nan, math.inf, -math.inf, 1.5])
    c.case("bounds_that_are_nan", lambda x: (x.clamp(min=math.nan), x.clamp(max=math.nan), x.clamp(-1.0, math.nan), x.clamp_min(math.nan), x.clamp_max(math.nan)), special)
    c.case("bounds_that_hold_nan", lambda x, y: (x.clamp(min=y), torch.clamp_max(x, y)), special, special.flip(0))
    c.case("square_of_bools", lambda x: (torch.square(x), x.square() + 1), torch.tensor([True, False]))
    c.case("distance_of_integers", lambda a, b: torch.nn.functional.pairwise_distance(a, b), torch.tensor([[1, 2], [3, 4]]), torch.tensor([[1, 0], [2, 2]]))
    c.case("logit_of_crossed_bounds", lambda x: (torch.logit(x, 0.75), torch.logit(x, 0.25)), torch.tensor([0.1, 0.3, 0.9, 1.5, math.nan, -1.0]))
    c.case("negative_constants", lambda x: (-(x * 0 + -2.0), x - -1.0, -torch.full((3,), -4.0), 1e39 * x, x + -1e39), torch.tensor([1.0, 2.0, -3.0]))


def add(family):
    family(arithmetic)
