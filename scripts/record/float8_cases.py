"""Cases of 8-bit floats: casts, copies, views, joins, products with scales, quantized layers; of quantized integers.
operator_cases.py calls add(family), which registers them with it."""
import math

import torch

from recorder import FLOATS

F8 = {"e4m3fn": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2, "e4m3fnuz": torch.float8_e4m3fnuz, "e5m2fnuz": torch.float8_e5m2fnuz}
E4, E5 = F8["e4m3fn"], F8["e5m2"]
bits = lambda x: x.view(torch.uint8)


def float8(c):
    edges = torch.tensor([0.0, -0.0, 1.0, 448.0, 464.0, 465.0, 480.0, 57344.0, 61439.0, 61440.0, -1e9, 1e-3, 240.0, 247.9, 248.0, math.inf, -math.inf,
                          0.00195, 2.0**-10, 3e-5, 1.5, 2.5, 0.75, -17.0, 2.0**-126, 1.25 * 2.0**-127])
    every = torch.arange(256).to(torch.uint8)
    for short, dtype in F8.items():
        for own, given in FLOATS.items():
            c.case(f"to_{short}_{own}", lambda x: bits(x.to(dtype)), edges.to(given))
        c.case(f"from_{short}", lambda x: tuple(x.view(dtype).to(o) for o in (torch.float32, torch.float16, torch.bfloat16)), every)
    x = c.ints(5, 33, low=-600, high=600) * 0.171875
    c.case("from_ints", lambda a, b: (bits(a.to(E4)), bits(b.to(E5)), bits(a.to(E5))), c.ints(7, low=-600, high=600), c.bools(7))
    c.case("from_f64", lambda a: bits(a.to(E4)), edges.double() * 1.0000000001)
    c.case("to_others", lambda a: (a.to(E4).to(torch.int32), a.to(E4).to(torch.bool), a.to(E5).double(), bits(a.to(E5).to(E4))), x)
    c.case("rounds_between", lambda a: (a * 1.1).to(E4).float() * 3 + (a * 0.9).to(E5).float(), x)
    c.case("inputs", lambda a, b: (a.float() + b.to(torch.float32), a, b.clone()), x.to(E4), x.to(E5))
    c.case("weights", lambda m, a: a @ m.w.to(torch.bfloat16), (c.ints(2, 33, low=-6, high=7) * 0.25).to(torch.bfloat16), buffers={"w": (c.ints(33, 4, low=-6, high=7) * 0.25).to(E4)})
    c.case("moved", lambda a: tuple(bits(y) for y in (a.t().contiguous(), a[1:, ::2].clone(), torch.cat([a, a.flip(0)]), a.repeat(2, 1), a.roll(1, 0), torch.stack([a, a]),
                                                       torch.nn.functional.pad(a, (1, 2)), a.unfold(1, 4, 3).contiguous())), x.to(E4))
    c.case("chosen", lambda a, i, m: tuple(bits(y) for y in (a[i], a.index_select(0, i), torch.where(m, a, a.roll(1, 1)), torch.where(m, a, 0.3), torch.nn.functional.embedding(i, a))),
           x.to(E5), torch.tensor([2, 0, 4]), c.bools(5, 33))
    c.case("made", lambda a: (bits(torch.full((3,), 0.1, dtype=E4)) + a, bits(torch.zeros(3, dtype=E4)), torch.full((3,), 0.1, dtype=E4).float() * a, bits(torch.ones_like(a, dtype=E5)), torch.isnan(a.to(E4))),
           torch.tensor([1, 2, 3], dtype=torch.uint8))

    def written(a, b):
        y = a.to(E4)
        y[1:3] = b.to(E4)
        y[0].fill_(0.3)
        return bits(y), y.float().sum(-1)
    c.case("written", written, x, c.randn(2, 33))
    c.case("bits", lambda a: (a.to(E4).view(torch.int8) ^ 1, a.to(E4)[:, :32].contiguous().view(torch.int32), a.to(E4).view(E5).float()), x)
    c.case("ties", lambda a: (a.to(E4) == a.flip(0).to(E4), a.to(E4) != a.to(E4)), x)
    c.case("empty", lambda a: a.to(E4).float(), c.randn(0, 3))


def to_float8(x, dim=None):
    """As torchao scales: the largest magnitude becomes the largest number."""
    largest = x.abs().amax() if dim is None else x.abs().amax(dim, keepdim=True)
    scale = torch.clamp(largest.float(), min=1e-12) / 448.0
    return (x.float() / scale).clamp(-448.0, 448.0).to(E4), scale


def scaled_products(c):
    mm = torch._scaled_mm
    one = lambda x: torch.tensor(x)
    few = lambda *s: c.ints(*s, low=-6, high=7) * 0.25
    f8 = lambda *s, dtype=E4: few(*s).to(dtype)
    c.case("whole", lambda a, b, s, t: tuple(mm(a, b.t(), s, t, out_dtype=o) for o in FLOATS.values()), f8(5, 32), f8(16, 32), one(0.5), one(1.7))
    c.case("bias", lambda a, b, s, t, x: mm(a, b.t(), s, t, bias=x, out_dtype=torch.bfloat16, use_fast_accum=True), f8(3, 48), f8(32, 48), one(0.25), one(3.0), few(32).to(torch.bfloat16))
    c.case("own_dtype", lambda a, b, s, t: mm(a, b.t(), s, t).float(), f8(3, 16), f8(16, 16), one(0.5), one(0.3))
    c.case("e5m2", lambda a, b, s, t: mm(a, b.t(), s, t, out_dtype=torch.bfloat16), f8(3, 16, dtype=E5), f8(16, 16), one(0.5), one(2.0))
    c.case("both_e5m2", lambda a, b, s, t: mm(a, b.t(), s, t, out_dtype=torch.bfloat16), f8(3, 16, dtype=E5), f8(16, 16, dtype=E5), one(0.5), one(2.0))
    c.case("odd", lambda a, b, s, t: mm(a, b.t(), s, t, out_dtype=torch.bfloat16), f8(5, 7), f8(3, 7), one(0.5), one(2.0))
    c.case("rows_of_second", lambda a, b, s, t: mm(a, b, s, t, out_dtype=torch.bfloat16), f8(2, 32), f8(32, 16), one(0.5), one(2.0))

    def linear(m, x):
        a, s = to_float8(x)
        return mm(a, m.w.t(), s, m.s, bias=m.b, out_dtype=torch.bfloat16)
    w, s = to_float8(few(16, 32))
    c.case("linear", linear, c.randn(4, 32, dtype=torch.bfloat16), buffers={"w": w, "s": s, "b": few(16).to(torch.bfloat16)})

    def layer(x, v):
        a, s = to_float8(torch.relu(x))
        b, t = to_float8(v)
        return mm(a, b.t(), s, t, out_dtype=torch.bfloat16)
    c.case("cast_within", layer, c.randn(3, 32, dtype=torch.bfloat16), few(16, 32).to(torch.bfloat16))
    nan = f8(3, 16)
    nan[1, 2] = math.nan
    c.case("special", lambda a, b, s, t: mm(a, b.t(), s, t, out_dtype=torch.bfloat16), nan, f8(16, 16), one(0.5), one(2.0))


def scaled_lines(c):
    """Scales of rows and blocks, which PyTorch has on GPUs: a definition stands in for the kernels."""
    def spread(scale, shape):
        for dim in range(2):
            if scale.shape[dim] not in (1, shape[dim]):
                scale = scale.repeat_interleave(128, dim)[:shape[0] if dim == 0 else None, :shape[1] if dim == 1 else None]
        return scale if scale.numel() == 1 else scale.expand(shape)

    def scaled_mm(a, b, s, t, bias=None, scale_result=None, out_dtype=None, use_fast_accum=False):
        y = (a.float() * spread(s, a.shape)) @ (b.float() * spread(t, b.shape))
        return (y if bias is None else y + bias).to(out_dtype or a.dtype)

    def scaled_grouped_mm(a, b, s, t, offs=None, bias=None, scale_result=None, out_dtype=None, use_fast_accum=False):
        a, b = a.float() * s[..., None], b.float() * t[:, None, :]
        if offs is None:
            return torch.bmm(a, b).to(out_dtype or torch.bfloat16)
        ends = [0, *offs.tolist()]
        return torch.cat([a[i:j] @ b[g] for g, (i, j) in enumerate(zip(ends, ends[1:]))]).to(out_dtype or torch.bfloat16)

    library = torch.library.Library("aten", "IMPL")
    library.impl("_scaled_mm", scaled_mm, "CPU", allow_override=True)
    library.impl("_scaled_grouped_mm", scaled_grouped_mm, "CPU", allow_override=True)
    scales = lambda *s: c.randn(*s).abs() + 0.1
    few = lambda *s: c.ints(*s, low=-6, high=7) * 0.25
    f8 = lambda *s: few(*s).to(E4)

    def rows(x, w):
        a, s = to_float8(x, -1)
        b, t = to_float8(w, -1)
        return torch._scaled_mm(a, b.t(), s, t.t(), out_dtype=torch.bfloat16)
    c.case("rows", rows, c.randn(3, 32, dtype=torch.bfloat16), few(16, 32).to(torch.bfloat16))
    c.case("rows_bias", lambda a, b, s, t, x: torch._scaled_mm(a, b.t(), s, t, bias=x, out_dtype=torch.bfloat16), f8(3, 32), f8(16, 32), scales(3, 1), scales(1, 16), few(16).to(torch.bfloat16))
    c.case("rows_f32", lambda a, b, s, t: torch._scaled_mm(a, b.t(), s, t, out_dtype=torch.float32), f8(3, 32), f8(16, 32), scales(3, 1), scales(1, 16))
    c.case("groups", lambda a, b, s, t, e: torch._scaled_grouped_mm(a, b.transpose(1, 2), s, t, offs=e, out_dtype=torch.bfloat16), f8(5, 16), f8(3, 16, 16), scales(5), scales(3, 16), torch.tensor([2, 2, 5], dtype=torch.int32))
    c.case("batches", lambda a, b, s, t: torch._scaled_grouped_mm(a, b.transpose(1, 2), s, t, out_dtype=torch.bfloat16), f8(2, 3, 16), f8(2, 16, 16), scales(2, 3), scales(2, 16))
    del library


def add(family):
    for one in (float8, scaled_products, scaled_lines):
        family(one)
