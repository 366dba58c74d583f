"""Cases of quantized models: what pt2e export writes (quantized_decomposed), weights of 4 bits in plain operators and as a
GPU's kernel takes them, groups of products. operator_cases.py calls add(family), which registers them with it."""
import math

import torch
import torch.ao.quantization.fx._decomposed  # noqa: F401  (defines quantized_decomposed)

from recorder import FLOATS

qd = torch.ops.quantized_decomposed
I8, U8 = torch.int8, torch.uint8


def narrow(*values):  # scales are computed in float32 and less, whatever their dtype
    return tuple(x.float() if x.dtype == torch.float64 else x for x in values)


def fake_quantization(c):
    """What is trained for integers: the mask says what was not cut off."""
    aten = torch.ops.aten
    odd = torch.tensor([0.06, -0.04, 1e30, -math.inf, math.nan, 12.75, -0.0])
    tensor, masked = torch.fake_quantize_per_tensor_affine, aten.fake_quantize_per_tensor_affine_cachemask
    scales, points = torch.tensor([0.1, 0.02, 0.3]), torch.tensor([0, 1, -5], dtype=torch.int32)
    one, zero = torch.tensor([0.2]), torch.tensor([5], dtype=torch.int32)
    for name, dtype in {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16, "f64": torch.float64}.items():
        x = c.randn(4, 5, dtype=torch.float32, scale=3.0).to(dtype)
        rounded = lambda f: lambda x, *a, d=dtype: f(x.to(d), *a)
        c.case(f"fake_{name}", rounded(lambda x: (tensor(x, 0.1, 3, 0, 255), tensor(x, 0.031, 0, -8, 7))), x)
        if dtype in (torch.float32, torch.float64):
            c.case(f"fake_tensors_{name}", rounded(lambda x, s, z: tensor(x, s, z, -128, 127)), x, one, zero)
    c.case("fake_odd", lambda x: tensor(x, 0.1, 2, -100, 100).nan_to_num(7), odd)
    c.case("fake_mask", lambda x: masked(x, 0.1, 3, 0, 20), c.randn(4, 5))
    c.case("fake_mask_gradient", lambda g, x: aten.fake_quantize_per_tensor_affine_cachemask_backward(g, masked(x, 0.1, 3, 0, 20)[1]), c.randn(4, 5), c.randn(4, 5))
    c.case("fake_channels", lambda x, s, z: torch.fake_quantize_per_channel_affine(x, s, z, 1, -8, 7), c.randn(4, 3, 2), scales, points)
    c.case("fake_channels_real", lambda x, s, z: torch.fake_quantize_per_channel_affine(x, s, z, 0, -8, 7), c.randn(3, 4), scales, points + 0.3)
    c.case("fake_channels_mask", lambda x, s, z: aten.fake_quantize_per_channel_affine_cachemask(x, s, z, 1, 0, 15), c.randn(2, 3), scales, points.abs())
    c.case("fake_cut_zero_point", lambda x, s, z: torch.fake_quantize_per_tensor_affine(x, s, z, -8, 7), c.randn(4, 5), one, torch.tensor([1.7]))
    c.case("fake_enabled_cut_zero_point", lambda x, s, z, e: aten._fake_quantize_per_tensor_affine_cachemask_tensor_qparams(x, s, z, e, -8, 7), c.randn(4, 5), one, torch.tensor([-0.6]), torch.tensor([1]))
    for on in (0, 1):
        c.case(f"fake_enabled_{on}", lambda x, s, z, e: aten._fake_quantize_per_tensor_affine_cachemask_tensor_qparams(x, s, z, e, 0, 20), c.randn(4, 5), one, zero, torch.tensor([on]))


def observation(c):
    """Ranges that are averaged while a model is trained for integers, and what follows from them."""
    aten = torch.ops.aten
    inf = math.inf

    def observe(name, x, low, high, bounds, axis=-1, on=(1, 1), helper=False, symmetric=False):
        channels = axis >= 0
        count = x.shape[axis] if channels else 1
        kept = (torch.as_tensor(low, dtype=torch.float32).expand(count).clone(), torch.as_tensor(high, dtype=torch.float32).expand(count).clone(), torch.full((count,), 0.25), torch.full((count,), 3, dtype=torch.int32))
        call = aten._fused_moving_avg_obs_fq_helper if helper else torch.fused_moving_avg_obs_fake_quant

        def run(x, o, f, *kept):
            if on != (1, 1):  # not all is written: copies say so
                kept = tuple(y.clone() for y in kept)
            result = call(x, o, f, *kept, 0.1, *bounds, axis, channels, symmetric)
            return result if on == (1, 1) else (*(result if helper else (result,)), *kept)

        c.case(f"observe_{name}", run, x, torch.tensor([on[0]]), torch.tensor([on[1]]), *kept)

    x, y = c.randn(4, 5, scale=3.0), c.randn(3, 4, 2, scale=2.0)
    observe("first", x, inf, -inf, (0, 255))
    observe("later", x, -1.5, 9.0, (0, 255))
    observe("mask", x * 4, -1.5, 2.0, (0, 15), helper=True)
    observe("symmetric", x, -1.5, 2.0, (-128, 127), symmetric=True)
    observe("symmetric_odd", x + 1, inf, -inf, (-8, 9), symmetric=True)
    observe("not", x, -1.5, 2.0, (0, 255), on=(0, 1))
    observe("only", x, -1.5, 2.0, (0, 255), on=(1, 0))
    observe("neither", x, -1.5, 2.0, (0, 255), on=(0, 0), helper=True)
    observe("channels", y, inf, -inf, (0, 255), axis=0)
    observe("channels_symmetric", y, torch.tensor([-1.0, -0.5, -2.0]), 1.0, (-128, 127), axis=0, symmetric=True)
    observe("channels_mask", y[:2], -1.0, torch.tensor([0.5, 3.0]), (0, 127), axis=0, helper=True)
    observe("positive", x.abs() + 1, inf, -inf, (0, 255))
    observe("negative", -x.abs() - 1, inf, -inf, (-128, 127), symmetric=True)
    observe("zeros", x * 0, inf, -inf, (0, 255))
    for name, tiny in {"both": x * 1e-6, "above": x.abs() * 1e-6, "below": x.abs() * -1e-6}.items():
        observe(f"tiny_{name}", tiny, inf, -inf, (0, 255))
    observe("denormal", x * 1e-44, inf, -inf, (0, 255))


def quantization(c):
    r = lambda *s, scale=1.0, dtype=torch.float32: (c.ints(*s, low=-30, high=31) * (0.07 * scale)).to(dtype)
    for short, dtype in FLOATS.items():
        d = lambda *s: (c.ints(*s, low=-300, high=300) * 0.011).to(dtype)
        c.case(f"tensor_{short}", lambda x: (qd.quantize_per_tensor(x, 0.037, 3, -128, 127, I8), qd.quantize_per_tensor(x, 0.02, 128, 0, 255, U8)), d(3, 17))
        c.case(f"choose_{short}", lambda x: narrow(*qd.choose_qparams(x, -128, 127, 1e-5, I8), *qd.choose_qparams_symmetric(x, -127, 127, 1e-5, I8), *qd.choose_qparams(x, 0, 255, 1e-5, U8)), d(7, 9))
        c.case(f"tokens_{short}", lambda x: narrow(*qd.choose_qparams_per_token_asymmetric(x, I8)), d(6, 21))
    q8 = c.ints(5, 9, low=-128, high=127, dtype=I8)
    c.case("back", lambda q: (qd.dequantize_per_tensor(q, 0.037, 3, -128, 127, I8), qd.dequantize_per_tensor(q, 0.02, -5, -128, 127, I8, out_dtype=torch.bfloat16)), q8)
    c.case("given", lambda x, s, z: qd.dequantize_per_tensor(qd.quantize_per_tensor(x, s, z, -128, 127, I8), s, z, -128, 127, I8), r(4, 9), torch.tensor([0.031], dtype=torch.float64), torch.tensor([2]))
    c.case("dynamic", lambda x, w: (lambda p: qd.dequantize_per_tensor(qd.quantize_per_tensor(x, p[0], p[1], -128, 127, I8), p[0], p[1], -128, 127, I8) @ qd.dequantize_per_channel(w, torch.arange(1, 9) * 0.01, torch.zeros(8, dtype=torch.int64), 0, -127, 127, I8).t())(qd.choose_qparams(x, -128, 127, 1e-5, I8)), r(4, 16), c.ints(8, 16, low=-127, high=127, dtype=I8))
    c.case("channels", lambda x, s, z: (qd.quantize_per_channel(x, s, z, 1, -128, 127, I8), qd.quantize_per_channel(x.transpose(1, 2), s, z, 2, 0, 200, U8)), r(3, 5, 7), r(5).abs() * 0.05 + 0.01, c.ints(5, low=0, high=9))
    c.case("channels_back", lambda q, s, z: (qd.dequantize_per_channel(q, s, z, 0, -128, 127, I8), qd.dequantize_per_channel(q, s, None, 0, -128, 127, I8, out_dtype=torch.float16)), q8, r(5).abs(), c.ints(5, low=-4, high=4))
    c.case("tokens", lambda x, s, z: (qd.quantize_per_token(x, s, z, -128, 127, I8), qd.dequantize_per_token(qd.quantize_per_token(x, s, z, -128, 127, I8), s, z, -128, 127, I8, torch.float32)), r(6, 21), r(6, 1).abs() * 0.05 + 0.01, c.ints(6, 1, low=-9, high=9))
    c.case("groups", lambda x, s, z: (qd.quantize_per_channel_group(x, s, z, -8, 7, I8, 16), qd.dequantize_per_channel_group(qd.quantize_per_channel_group(x, s, z, -8, 7, I8, 16), s, z, -8, 7, I8, 16, torch.float32)), r(4, 32), r(4, 2).abs() * 0.2 + 0.1, c.ints(4, 2, low=-2, high=2).to(torch.int32))
    c.case("eight_bits", lambda x: (qd.quantize_per_tensor(x, 0.01, 0, -448, 448, torch.float8_e4m3fn).view(U8), qd.dequantize_per_tensor(x.to(torch.float8_e4m3fn), 0.02, 0, -448, 448, torch.float8_e4m3fn)), r(3, 8))
    c.case("special", lambda x: qd.quantize_per_tensor(x, 0.5, 1, -128, 127, I8), torch.tensor([0.25, 0.75, -0.25, 1e9, -1e9, torch.inf, -torch.inf, 1.25]))

    def packed_linear(m, x):  # two weights a byte, a scale and a zero point for groups of 32
        w = torch.stack([m.w & 15, m.w >> 4], -1).reshape(16, 64)
        w = (w.to(torch.bfloat16).reshape(16, 2, 32) - 8) * m.s[..., None] + m.z[..., None]
        return x @ w.reshape(16, 64).t()
    b = lambda *s, **k: r(*s, dtype=torch.bfloat16, **k)
    four = {"w": c.ints(16, 32, low=0, high=256, dtype=U8), "s": b(16, 2, scale=0.1), "z": b(16, 2, scale=0.1)}
    c.case("int4_bytes", packed_linear, b(5, 64), buffers=four)

    def shifted_linear(m, x):  # eight weights in an integer, zero points packed alike, as GPTQ has it
        shifts = torch.arange(0, 32, 4, dtype=torch.int32)
        w = torch.bitwise_right_shift(m.w[:, None, :], shifts[None, :, None]).bitwise_and(15).reshape(64, 16)
        z = torch.bitwise_right_shift(m.q[:, :, None], shifts).bitwise_and(15).reshape(2, 16) + 1
        g = torch.arange(64) // 32
        return torch.matmul(x, m.s[g] * (w - z[g]).to(torch.float16))
    whole = lambda *s: c.ints(*s, low=-2**31, high=2**31 - 1).to(torch.int32)
    c.case("int4_gptq", shifted_linear, r(3, 64, dtype=torch.float16), buffers={"w": whole(8, 16), "q": whole(2, 2), "s": r(2, 16, dtype=torch.float16, scale=0.02)})
    fake_quantization(c)
    observation(c)


def packed_products(c):
    """Weights of 4 bits as a GPU's kernel takes them, and groups of columns and of terms: definitions stand in."""
    def unpack(w):
        tiles, outer, lanes, pairs = w.shape
        out = torch.zeros(tiles * 8, outer * pairs * 32, dtype=torch.int64)
        for t in range(lanes):
            for j in range(pairs):
                base = torch.arange(outer) * pairs * 32 + j * 32 + t % 4 * 2
                for i, (shift, step) in enumerate(zip((0, 16, 4, 20, 8, 24, 12, 28), (0, 1, 8, 9, 16, 17, 24, 25))):
                    rows = torch.arange(tiles)[:, None] * 8 + t // 4
                    out[rows, base + step] = (w[:, :, t, j].long() >> shift) & 15
        return out

    def int4(x, w, group, both):
        q = (unpack(w) - 8).float().reshape(w.shape[0] * 8, -1, group)
        scale, zero = (both[..., i].t().float()[..., None] for i in range(2))
        weight = (q * scale + zero).flatten(1).to(x.dtype)
        return (x.float() @ weight.float().t()).to(x.dtype)

    library = torch.library.Library("aten", "IMPL")
    library.impl("_weight_int4pack_mm", int4, "CPU")
    b = lambda *s, scale=1.0: (c.ints(*s, low=-6, high=7) * (0.25 * scale)).to(torch.bfloat16)
    whole = lambda *s: c.ints(*s, low=-2**31, high=2**31 - 1).to(torch.int32)
    four = torch.ops.aten._weight_int4pack_mm
    c.case("int4", lambda x, w, s: four(x, w, 32, s), b(2, 64), whole(2, 2, 32, 1), b(2, 16, 2, scale=0.1))
    c.case("int4_tiles", lambda x, w, s: four(torch.relu(x), w, 64, s) + 1, b(1, 128), whole(2, 1, 32, 4), b(2, 16, 2, scale=0.1))
    grouped, ends = torch._grouped_mm, lambda *e: torch.tensor(e, dtype=torch.int32)
    c.case("columns", lambda x, w, e: grouped(x, w, offs=e), b(3, 8, 16), b(16, 24), ends(8, 8, 24))
    c.case("terms", lambda x, w, e: grouped(x, w, offs=e), b(8, 32), b(32, 16), ends(8, 8, 32))
    del library


def add(family):
    for one in (quantization, packed_products):
        family(one)
