"""Dtypes, special values, and tensors made from a recipe: the same recipe and sizes give the same tensor everywhere."""
import math

import torch

FLOATS = ("float32", "float16", "bfloat16", "float64")
INTEGERS = ("int64", "int32", "int16", "int8", "uint8")
DTYPES = FLOATS + INTEGERS + ("bool",)
SPECIAL = (0.0, -0.0, 1.0, -1.0, 0.5, -2.5, math.inf, -math.inf, math.nan, 3.0, 1e-4, 65504.0, -7.0)
# What the elements of an input are drawn from.
STYLES = ("normal", "positive", "special", "grid", "tiny", "small", "extreme", "index", "coin", "values")


def dtype_of(name):
    return getattr(torch, name)


def name_of(dtype):
    return str(dtype).removeprefix("torch.")


def kind_of(dtype):
    """'f', 'i' or 'b'."""
    return "f" if dtype.is_floating_point else "b" if dtype == torch.bool else "i"


def make(dtype, shape, style, seed, bound=0):
    """A contiguous tensor. `bound` is the exclusive upper bound of the style 'index'."""
    generator = torch.Generator().manual_seed(seed)
    dtype = dtype_of(dtype) if isinstance(dtype, str) else dtype
    count = math.prod(shape)

    def integers(low, high):
        return torch.randint(low, high, (count,), generator=generator)

    if dtype == torch.bool:
        flat = integers(0, 2).bool()
    elif style == "index":
        flat = integers(0, max(bound, 1)).to(dtype)
    elif dtype.is_floating_point:
        normal = torch.randn(count, generator=generator, dtype=torch.float64)
        if style == "positive":
            flat = normal.abs() + 0.25
        elif style == "grid":  # halves: exact in every dtype, with ties
            flat = integers(-6, 7).double() / 2
        elif style == "tiny":
            flat = normal * 1e-3
        elif style == "special":
            some = torch.tensor(SPECIAL, dtype=torch.float64)[integers(0, len(SPECIAL))]
            flat = torch.where(integers(0, 3) == 0, some, normal)
        else:
            flat = normal
        flat = flat.to(dtype)
    else:
        info = torch.iinfo(dtype)
        low, high = (0, 8) if style == "positive" or info.min == 0 else (-5, 6)
        flat = integers(low, high)
        if style == "extreme":
            edge = torch.tensor([info.min, info.max, 0, 1, info.max - 1, info.min + 1])[integers(0, 6)]
            flat = torch.where(integers(0, 3) == 0, edge, flat)
        flat = flat.to(dtype)
    return flat.reshape(shape)
