"""A hundred functions meant to break a compiler: long odd rows with several results, scans after reductions, gathers and
scatters, odd pieces, integer widths, special values, convolutions and pools, matrix products, loops of steps, layouts. W maps a name to a
function that gives (module, inputs); with SMALL=1 in the environment inputs are small enough for a host, else each has 20 to 200 MB of
tensors. Inputs do not depend on the order in which workloads are made. MUTATES names those that write to their inputs (run them on copies)."""
import math
import os
import zlib

import torch
import torch.nn.functional as F
from torch.func import grad, grad_and_value, vjp

from function_module import Fn, ints, mask, r, u

BF16, F16, F32, F64 = torch.bfloat16, torch.float16, torch.float32, torch.float64
I8, I16, I32, I64, U8, BOOL = torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8, torch.bool
THROUGH_BACKEND = True
SMALL = bool(os.environ.get("SMALL"))
INF, NAN = float("inf"), float("nan")
W = {}
MUTATES = {"centre_in_place_88173", "residual_rms_in_place_50257", "write_odd_columns_read_base", "two_views_of_one_input"}


def w(name, f, *inputs):
    """As makers give them; a maker that gives a tuple gives several inputs."""
    def make():
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(zlib.crc32(name.encode()))
            made = [one() for one in inputs]
            return Fn(f), tuple(t for one in made for t in (one if isinstance(one, tuple) else (one,)))
    W[name] = make


def d(big, small):
    return small if SMALL else big


def turned(one, *order):
    """The maker's tensor, permuted: not contiguous."""
    return lambda: one().permute(*order)


def last(one):
    """The maker's tensor with channels last."""
    return lambda: (lambda t: t.to(memory_format=torch.channels_last if t.dim() == 4 else torch.channels_last_3d))(one())


def arange(n, like, dtype=I64):
    return torch.arange(n, device=like.device, dtype=dtype)


def grid(*s, dtype=F32, low=-64, high=65, over=8):
    """Multiples of a power of two: sums and products are exact."""
    return lambda: (torch.randint(low, high, s).to(F64) / over).to(dtype)


def special(*s, dtype=F32, extra=(NAN, INF, -INF, 0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.0), scale=2.0):
    """Normal values with every third one of the extra."""
    return lambda: torch.where(torch.rand(*s) < .33, torch.tensor(extra, dtype=F64)[torch.randint(0, len(extra), s)].to(dtype), (torch.randn(*s) * scale).to(dtype))


# ---------------------------------------------------------------------------------------------------- 1. several results of a long odd row
def row_norm_kinds(x):
    v, m = torch.var_mean(x, 1, keepdim=True, unbiased=False)
    y = (x - m) * torch.rsqrt(v + 1e-5)
    return y.to(BF16), (y * 20).round().clamp(-127, 127).to(I8), y > 2, m.squeeze(1)
w("row_norm_bf16_int8_bool_50257", row_norm_kinds, r(d(211, 3), d(50257, 1003)))


def soft_row_kinds(x):
    f = x.float()
    top = f.amax(-1, keepdim=True)
    e = torch.exp(f - top)
    s = e.sum(-1, keepdim=True)
    p = e / s
    return p.to(F16), top - f < 1.0, (top + s.log()).squeeze(-1), -(p * (f - top - s.log())).sum(-1), f.to(I8)
w("softmax_entropy_near_top_131071", soft_row_kinds, r(d(97, 3), d(131071, 1021), dtype=BF16, scale=3.0))


def centre_in_place(x):
    m = x.float().mean(1, keepdim=True)
    x.sub_(m)
    f = x.float()
    big = f.abs().amax(1, keepdim=True)
    return (f / big).to(F16), big.squeeze(1), f.sign().to(I8)
# every row's mean is exact
w("centre_in_place_88173", centre_in_place, lambda: (lambda t: torch.cat((t, -t, torch.zeros(t.shape[0], 1)), 1) + .5)((torch.randint(0, 9, (d(151, 3), d(44086, 606))) * 2 - 9) / 4).to(BF16))


def quantize_error(x):
    s = x.abs().amax(1, keepdim=True) / 127
    q = (x / s).round().clamp(-127, 127)
    e = x - q * s
    return q.to(I8), e.to(BF16), s.squeeze(1), q.abs() == 127, e.square().mean(1).sqrt() / s.squeeze(1)
w("quantize_with_error_100003", quantize_error, r(d(103, 5), d(100003, 997)))


def softmax_backward_kinds(x, g):
    p = x.float().softmax(1)
    k = g.float()
    s = (p * k).sum(1, keepdim=True)
    dx = p * (k - s) * 1000
    return dx.to(F16), p.to(BF16) * 100, k > s, s.squeeze(1), dx.abs().amax(1)
w("softmax_backward_by_hand_100003", softmax_backward_kinds, r(d(67, 3), d(100003, 1009), dtype=F16), grid(d(67, 3), d(100003, 1009), dtype=F16))


def absolute_deviation(x):
    m = x.mean(1, keepdim=True)
    a = (x - m).abs()
    s = a.mean(1, keepdim=True)
    z = (x - m) / s
    return z.float(), z.clamp(-3, 3), a > 3 * s, (a > 3 * s).sum(1), s.squeeze(1)
w("absolute_deviation_f64_65537", absolute_deviation, r(d(61, 3), d(65537, 517), dtype=F64))


def residual_in_place(x, res, g):
    res.add_(x)
    f = res.float()
    y = f * torch.rsqrt(f.square().mean(-1, keepdim=True) + 1e-6) * g
    s = y.abs().amax(-1, keepdim=True) / 127
    return y.to(BF16), (y / s).round().to(I8), s, f.abs() > 3
w("residual_rms_in_place_50257", residual_in_place, grid(d(131, 3), d(50257, 1011), dtype=BF16), grid(d(131, 3), d(50257, 1011), dtype=BF16), u(d(50257, 1011)))


def few_rows_clip(x):
    f = x.float()
    v, m = torch.var_mean(f, 1, keepdim=True, unbiased=False)
    z = ((f - m) / v.sqrt()).clamp(-2.5, 2.5)
    return z.half(), z.square().mean(1), z[:, ::2].to(BF16), f > 0, f.amin(1)
w("few_rows_clipped_scores_5000011", few_rows_clip, r(3, d(5000011, 2003), dtype=F16))


def stretch_bytes(x):
    lo, hi = x.amin(1, keepdim=True).to(I32), x.amax(1, keepdim=True).to(I32)
    v = x.to(I32)
    n = x.shape[1]
    return ((v - lo) * 255 // (hi - lo).clamp(min=1)).to(U8), v * n > v.sum(1, keepdim=True), (v - (v.sum(1, keepdim=True) + n // 2) // n).to(I16), (v == hi).sum(1, dtype=I32), x - x.amin(1, keepdim=True)
w("stretch_bytes_131071", stretch_bytes, ints(251, d(201, 3), d(131071, 1023), dtype=U8, low=3))


def long_columns(x):
    m = x.mean(0, dtype=F32)
    c = x.float() - m
    s = c.square().mean(0).sqrt() + 1e-3
    y = c / s
    return y.T.to(BF16), (y * 16).round().clamp(-128, 127).to(I8), (c.T > s.unsqueeze(1)).contiguous(), s
w("long_columns_turned_kinds", long_columns, r(d(50257, 503), d(317, 7), dtype=F16))


# ---------------------------------------------------------------------------------------------------- 2. reductions, then scans
def integer_draw(x, p):
    c = x.cumsum(1, dtype=I64)
    want = (p * c[:, -1:]) // 1000
    k = torch.searchsorted(c, want, right=True).clamp(max=x.shape[1] - 1)
    return k, x.gather(1, k), c.gather(1, k) - want, (c > c[:, -1:] // 2).int().argmax(1)
w("integer_weights_draw_32003", integer_draw, ints(100, d(257, 3), d(32003, 301), dtype=I32), ints(1000, d(257, 3), 17))


def scores_and_fall(x):
    v, m = torch.var_mean(x.float(), 2, keepdim=True, unbiased=False)
    z = (x.float() - m) * torch.rsqrt(v + 1e-5)
    top = z.cummax(1)[0]
    return (top - z).amax(1), (top - z).mean(2), top[:, -1] - z.amin(1)
w("scores_cummax_middle_fall", scores_and_fall, r(d(24, 3), d(1001, 37), d(769, 19), dtype=BF16))


def growth_down(x, i):
    y = x / x.mean(1, keepdim=True)
    g = y.cumprod(0)
    return g.gather(1, i), g[-1], g.amax(0), (g / g.sum(1, keepdim=True))[::7]
w("growth_cumprod_first_gather", growth_down, lambda: 1 + torch.rand(d(301, 13), d(40009, 211)) * .02, ints(d(40009, 211), d(301, 13), 23))


def best_span(x):
    s = x.cumsum(1, dtype=I32)
    before = F.pad(s[:, :-1], (1, 0))
    low = before.cummin(1)[0]
    gain = s - low
    best = gain.amax(1)
    end = gain.argmax(1)
    return best, end, low.gather(1, end.unsqueeze(1)).squeeze(1), s.amax(1) - s.amin(1), (gain == best.unsqueeze(1)).sum(1)
w("best_span_of_integers", best_span, ints(50, d(257, 5), d(50021, 401), dtype=I16, low=-50))


def log_mass_below(x):
    lp = x.log_softmax(1)
    c = torch.logcumsumexp(lp, 1)
    return c.exp().sum(1), (c - lp).amin(1), c[:, ::101], c.flip(1)[:, :3]
w("log_mass_below_20011", log_mass_below, r(d(301, 3), d(20011, 307)))


def spread_of_walk(x):
    f = x.float()
    s = (f - f.mean(1, keepdim=True)).cumsum(1)
    span = s.amax(1) - s.amin(1)
    return span / f.std(1, unbiased=False), (s / span.unsqueeze(1)).to(BF16), (s / span.unsqueeze(1)).square().mean(1)
w("rescaled_range_60000", spread_of_walk, r(d(301, 5), d(60000, 403), dtype=BF16))


def few_long_scans(x):
    p = x.softmax(1)
    c = p.cumsum(1)
    left = (c[:, -1:] - c).clamp(min=0)
    return c.to(F32), left.sum(1), (p * c).sum(1), left.flip(1).cummax(1)[0][:, ::1001 if x.shape[1] > 5000 else 7]
w("few_long_softmax_scans_f64", few_long_scans, r(5, d(500009, 1201), dtype=F64))


def running_mean_of_valid(x, ok):
    n = ok.cumsum(1)
    s = torch.where(ok, x, 0.0).cumsum(1)
    m = s / n.clamp(min=1)
    final = m[:, -1:]
    late = (ok & (n * 2 > n[:, -1:]))
    return m, torch.where(late, x - final, 0.0).sum(1), late.sum(1), n[:, -1].to(I16), (m - final).abs().amax(1)
w("running_mean_of_valid_30011", running_mean_of_valid, grid(d(401, 3), d(30011, 303)), lambda: torch.cat((torch.ones(d(401, 3), 1, dtype=BOOL), torch.rand(d(401, 3), d(30011, 303) - 1) < .3), 1))


LARGE = d(2.0, 1.5)
def positions_of_kept(x, table):
    keep = x.amax(2) >= LARGE
    pos = (keep.cumsum(1) - 1).clamp(min=0)
    y = torch.where(keep.unsqueeze(2), x + table[pos], x)
    return y, pos[:, -1], y.float().sum(1), pos * keep
w("positions_of_kept_rows", positions_of_kept, grid(d(32, 3), d(1013, 37), d(259, 5), dtype=F16, over=32), grid(d(1013, 37), d(259, 5), dtype=F16))


# ---------------------------------------------------------------------------------------------------- 3. gathers and scatters
def two_tables(x, a, b):
    y = a[x.int()]
    z = b[(y.int() * 4 + (x & 3).int())]
    return y, z, (y ^ x) + (x >> 1), z.to(I32).sum(1), a[(255 - y).int()].bool()
w("two_byte_tables", two_tables, ints(256, d(24, 2), d(1021, 31), d(1023, 27), dtype=U8), ints(256, 256, dtype=U8), ints(2 ** 14, 1024, dtype=I16, low=-2 ** 14))


def negative_shared(x, i, k):
    y = x[:, i] * 2 - x[:, -i.abs() - 1]
    z = y.take_along_dim(k, 1) + y[:, -3:-2]
    return z, y[[-1, 0, -2]].float().sum(1), y[:, -1]
w("negative_shared_columns", negative_shared, grid(d(3001, 11), d(4099, 67), dtype=BF16, low=-16, high=17), ints(d(4099, 67), d(2003, 51), low=-d(4099, 67) + 1), ints(d(2003, 51), d(3001, 11), 129))


GROUPS = d(5003, 13)
def four_scatter_reductions(x, i):
    k = i.unsqueeze(1).expand_as(x)
    z = torch.zeros(GROUPS, x.shape[1], device=x.device)
    hi, lo = z.scatter_reduce(0, k, x, "amax", include_self=False), z.scatter_reduce(0, k, x, "amin", include_self=False)
    mean = z.scatter_reduce(0, k, x, "mean", include_self=False)
    prod = (z + 1).scatter_reduce(0, k, 1 + x * .01, "prod")
    y = (x - mean[i]) / (hi[i] - lo[i] + 1)
    return y, hi, prod, y.gather(0, k.flip(0) % 7)
w("scatter_reduced_four_ways", four_scatter_reductions, grid(d(150011, 203), 33), ints(GROUPS, d(150011, 203)))


def narrow_index_add(x, y, i, j):
    a = torch.zeros(x.shape[0], 257, dtype=U8, device=x.device).index_add(1, i, x)
    b = torch.zeros(65, y.shape[1], dtype=I16, device=x.device).index_add(0, j, y)
    return a, b, a[:, i] - x, (b[j] * y), torch.zeros(x.shape[0], 257, dtype=I32, device=x.device).index_add(1, i, x.to(I32)).amax(1)
w("narrow_index_add_wraps", narrow_index_add, ints(256, d(5003, 7), d(3001, 301), dtype=U8), ints(2 ** 15, d(3001, 301), d(4001, 9), dtype=I16, low=-2 ** 15), ints(257, d(3001, 301)), ints(65, d(3001, 301)))


def one_hot_products(i, t, x):
    o = F.one_hot(i, 17)
    n = o.sum(0)
    s = o.to(F32).T @ x
    m = s / n.clamp(min=1).unsqueeze(1)
    return o.to(F32) @ t, m, (x - o.to(F32) @ m).square().mean(1), o.bool().any(0), n
w("one_hot_products_17", one_hot_products, ints(17, d(400009, 203)), r(17, 33), grid(d(400009, 203), 33))


def piecewise(x, edges, value):
    k = (torch.bucketize(x, edges) - 1).clamp(0, edges.shape[0] - 2)
    a, b = edges[k], edges[k + 1]
    t = (x - a) / (b - a)
    y = value[k] * (1 - t) + value[k + 1] * t
    return y.float(), k.to(I32), torch.bucketize(x, edges, right=True, out_int32=True) - k.to(I32), (value[k + 1] - value[k]).float()
w("piecewise_linear_60001_f64", piecewise, lambda: torch.rand(d(1500007, 1003), dtype=F64), lambda: torch.rand(d(60001, 61), dtype=F64).sort()[0], r(d(60001, 61), dtype=F64))


def tiny_rows(i, a, b, c):
    e = torch.cat((F.embedding(i, a), F.embedding(i, b), F.embedding(i, c)), -1)
    s = e.float().sum(1)
    return e, s.to(BF16), e[..., 1:4].amax(1), F.embedding(i[:, :1], c).squeeze(1) * s[:, 4:]
w("embeddings_of_1_3_7_columns", tiny_rows, ints(d(60000, 59), d(60013, 31), 39), r(d(60000, 59), 1, dtype=BF16), r(d(60000, 59), 3, dtype=BF16), r(d(60000, 59), 7, dtype=BF16))


def middle_scatter_add(x, i):
    k = i.unsqueeze(2).expand_as(x)
    s = torch.zeros(x.shape[0], 29, x.shape[2], device=x.device).scatter_add(1, k, x.float())
    hit = torch.zeros(x.shape[0], 29, dtype=BOOL, device=x.device).scatter(1, i, True)
    back = s.gather(1, k)
    return (x.float() / (back.abs() + 1)).half(), hit, s.sum(1), torch.where(hit.unsqueeze(2), s, -1.0).amin(1)
w("scatter_add_middle_and_back", middle_scatter_add, r(d(128, 3), d(701, 43), d(337, 11), dtype=F16), ints(29, d(128, 3), d(701, 43)))


def inverse_orders(x, v):
    o = x.argsort(1)
    rank = torch.empty_like(o).scatter(1, o, arange(x.shape[1], x).expand_as(o))
    y = v.gather(1, o)
    return rank.to(I16), y.gather(1, rank) - v * 2, v.gather(1, rank), (y[:, 1:] - y[:, :-1]).abs().amax(1), torch.zeros_like(v).scatter(1, rank, v)
w("inverse_orders_and_back", inverse_orders, lambda: torch.rand(d(2001, 7), d(2003, 103)).argsort(1).to(I32), grid(d(2001, 7), d(2003, 103)))


def gather_backwards(x, i, t, j, g):
    def f(a, b): return a.gather(1, i) * b[j].T, F.embedding(j, b).sum(1)
    (y, s), back = vjp(f, x, t)
    da, db = back((g, s * .01))
    return y, da, db, da.amax(1)
w("gather_backward_duplicates", gather_backwards, grid(d(2001, 5), d(3001, 31)), ints(d(300, 9), d(2001, 5), d(1501, 23)), grid(d(2003, 17), d(2001, 5)), ints(d(2003, 17), d(1501, 23)), grid(d(2001, 5), d(1501, 23)))


def pair_histogram(a, b, c):
    i, j = a.to(I64) - 33, b.to(I64) % 65
    h = torch.zeros(33, 65, dtype=I32, device=a.device).index_put((i, j), c.to(I32), accumulate=True)
    low = torch.zeros(33, 65, device=a.device).index_put((i, j), torch.ones_like(c, dtype=F32), accumulate=True)
    return h, h[i, j] - c, (h / low.clamp(min=1)).argmax(1), (low > 0)[-i - 1, j]
w("pair_histogram_negative_rows", pair_histogram, ints(33, d(4000037, 2003), dtype=U8), ints(2 ** 15, d(4000037, 2003), dtype=I16, low=-2 ** 15), ints(128, d(4000037, 2003), dtype=I8, low=-128))


# ---------------------------------------------------------------------------------------------------- 4. odd pieces
def odd_offsets(x, y, z):
    a = x[1:].view(-1, 3)
    return torch.cat((a[1:, 1:], y[:, 3:-2][: a.shape[0] - 1], z[3::2][: a.shape[0] - 1].unsqueeze(1)), 1) * 2, x[5:-3] - x[8:], (x[1:] * x[:-1]).view(3, -1).sum(1), y[:, 3:-2].amax(1)
w("odd_offsets_into_cat", odd_offsets, r(d(4500000, 3000) // 9 * 9 + 1), r(d(1500003, 1003), 11), r(d(3000013, 2013)))


def write_pieces(x, y):
    c = x.clone()
    c[:, 1::2] = y[:, : c.shape[1] // 2] * 2
    c[3:-2, 5:] += x[5:, :-5]
    c[..., -1] = 7
    c[::3, 2:9:3].mul_(-1)
    return c, c[1:].float().sum(1), (c - x)[:, 3:-2].amax(0)
w("write_pieces_of_clone", write_pieces, grid(d(4001, 17), d(4099, 67), dtype=F16, low=-16, high=17), grid(d(4001, 17), d(3001, 61), dtype=F16, low=-16, high=17))


def rolled_by_sizes(x):
    n, k = x.shape[1], x.shape[2]
    a = x.roll(n // 3, 1) - x.roll(-(k // 2), 2)
    b = x.roll((n - 1, k // 5 + 1), (1, 2))
    return a, torch.maximum(a, b)[:, n // 2:], x.roll(x.shape[0] * n // 7)[:, :, : k // 2], b.float().sum((1, 2))
w("rolled_by_sizes", rolled_by_sizes, grid(d(13, 3), d(1021, 23), d(1537, 29), dtype=BF16, low=-16, high=17))


def flips_and_strides(x):
    f = x.flip(1)
    m = (x.shape[1] + 2) // 3
    y = f[:, ::3] + x[:, 1::3][:, : m - 1].flip(0).mean(1, keepdim=True)
    return y, (f[:, 2::2] - x[:, 2::2]).flip(0, 1), torch.cat((x[::2].flip(0), f[1::3], x.flip(0)[-2:-1]), 0), f.T[1::2, ::2]
w("flips_and_strides", flips_and_strides, r(d(2011, 19), d(5003, 71)))


def negative_pads(x, y):
    a = F.pad(x, (-3, 2, 5, -1), value=.5)
    b = F.pad(y.mT, (4, -5, -2, 6))
    k = min(a.shape[1], b.shape[1]), min(a.shape[2], b.shape[2])
    s = torch.stack((a[:, : k[0], : k[1]], b[:, : k[0], : k[1]], a[:, : k[0], : k[1]] * b[:, -k[0]:, -k[1]:]), 2)
    return s, s.float().sum((2, 3)), F.pad(s[:, 1:-1, 0], (0, 1, 1, 0)).flatten(1)[:, 5:]
w("negative_pads_stacked", negative_pads, grid(d(16, 2), d(701, 23), d(1003, 31), dtype=F16), grid(d(16, 2), d(1005, 33), d(703, 25), dtype=F16))


def comb(a, b, c):
    z = torch.stack((a, b, c), -1).flatten()[1:-2]
    y = z[: z.shape[0] // 7 * 7].view(-1, 7)
    e = torch.cat((y[:, 1:3], y[:, ::3], y.new_zeros(y.shape[0], 1), y[:, 6:]), 1)
    return z, e.sum(1), y[:, 5:].T, e.flatten()[3::5]
w("comb_of_three_by_sevens", comb, grid(d(3000013, 1003)), grid(d(3000013, 1003)), grid(d(3000013, 1003)))


def promoted_cat(a, b, c, e):
    z = torch.cat((a, b.T, c.unsqueeze(1), e, a[:, 3:4].expand(-1, 3)), 1)
    return z, torch.cat((a, b.T), 1), torch.cat((e, c.unsqueeze(1)), 1), z[:, -7:].sum(0), torch.cat((e.bool(), a > 1), 1)
w("cat_promotes_kinds", promoted_cat, grid(d(5003, 31), d(777, 7), dtype=F16), grid(d(1001, 9), d(5003, 31)), ints(1000, d(5003, 31), dtype=I16), ints(256, d(5003, 31), d(513, 5), dtype=U8))


def cat_of_cats(a, b, c):
    p = torch.cat((a, b, c), 1)
    q = torch.cat((p[:, 7:], b[:, ::2], p[:, :5]), 1)
    n = a.shape[1]
    cross = q[:, n - 9: n + b.shape[1] - 3]
    return cross * 3, q.sum(1), torch.cat((cross.amax(1, keepdim=True), cross - 1, q[:, -1:]), 1), p[:, n - 1: n + 1] - q[:, -6:-4]
w("cat_of_cats_across_seams", cat_of_cats, grid(d(6007, 13), d(1501, 37)), grid(d(6007, 13), d(403, 23)), grid(d(6007, 13), d(707, 19)))


def four_pad_modes(x):
    a = F.pad(x, (3, 5), mode="circular")
    b = F.pad(x, (3, 5), mode="reflect")
    c = F.pad(x, (3, 5), mode="replicate")
    s = a * .5 + b - c
    return s, s[..., 1:] - s[..., :-1], (a != b).sum(2), F.pad(s[:, :, ::3], (1, 2), value=-1.0).amax(2)
w("four_pad_modes_1d", four_pad_modes, grid(d(24, 2), 3, d(150001, 53), dtype=BF16, low=-8, high=9))


def scattered_slices(x, y, z):
    a = x.slice_scatter(y, 1, 2, -1, 3)
    b = a.select_scatter(z, 2, -2)
    e = b.diagonal_scatter(z[:, :1].expand(-1, min(x.shape[1:]) - 1), -1, 1, 2) if x.shape[1] <= x.shape[2] else b
    return a, e, (e - x).abs().sum((1, 2)), e.transpose(0, 2)[1:, ::2]
w("scattered_slices", scattered_slices, grid(d(24, 2), d(601, 20), d(701, 23)), lambda: torch.randint(-9, 9, (d(24, 2), len(range(2, d(600, 19), 3)), d(701, 23))).float(), grid(d(24, 2), d(601, 20)))


# ---------------------------------------------------------------------------------------------------- 5. integers of mixed widths
def wrapping(a, b, c):
    s = a * b
    return s, a + c, b * b + 200, -b, (a.to(I32) * a.to(I32) * c) >> 3, (s * 3 - b) ^ a, (c * 65537).to(I16), a.abs() - b
w("wrapping_i16_u8_i32", wrapping, ints(2 ** 15, d(2000003, 1009), dtype=I16, low=-2 ** 15), ints(256, d(2000003, 1009), dtype=U8), ints(2 ** 31 - 1, d(2000003, 1009), dtype=I32, low=-2 ** 31))


def shifted(a, b, s):
    n = s.to(a.dtype)
    return a >> n, a << n, (b >> s) | (b << (7 - s)), ((a >> n) << n) == a, (a.to(I64) << 17) >> s.to(I64), (1 << s) & b, ((a >> 31) ^ a) - (a >> 31)
w("shifts_by_tensors", shifted, ints(2 ** 31 - 1, d(2000003, 1009), dtype=I32, low=-2 ** 31), ints(256, d(2000003, 1009), dtype=U8), ints(8, d(2000003, 1009), dtype=U8))


def nonzero_ints(high, *s, dtype=I32):
    return lambda: (torch.randint(1, high, s) * (torch.randint(0, 2, s) * 2 - 1)).to(dtype)


def mixed_division(a, b, c, u8):
    q, m = torch.div(a, b, rounding_mode="floor"), torch.remainder(a, b)
    return q, m, a % c, c // -7, (c % b.to(I64)) * 2, torch.fmod(c, -13), u8 // 7 - u8 % 5, torch.div(c, u8 + 1 | 1, rounding_mode="trunc"), a / c
w("mixed_division_of_negatives", mixed_division, ints(2 ** 15, d(1500007, 1009), dtype=I16, low=-2 ** 15 + 1), nonzero_ints(300, d(1500007, 1009), dtype=I16), nonzero_ints(2 ** 20, d(1500007, 1009), dtype=I64), ints(256, d(1500007, 1009), dtype=U8))


def mixed_comparisons(a, b, h, m):
    k = (a > b) & (b >= h) | (m != (a == 0))
    return k, torch.where(k, a, b), torch.where(m, h, a), torch.maximum(a.to(I32), b.to(I32)) * m, (a.to(F32) < h).sum(1), m ^ k, (m + a).to(U8), torch.logical_xor(a, h), (b <= 7).any(0)
w("comparisons_of_mixed_kinds", mixed_comparisons, ints(200, d(2003, 13), d(3001, 97), dtype=U8), ints(200, d(2003, 13), d(3001, 97), dtype=I16, low=-50), grid(d(2003, 13), d(3001, 97), dtype=F16, low=-300, high=1600), mask(d(2003, 13), d(3001, 97)))


def products_over_dims(x, b):
    odd = (x | 1).to(I32)
    return odd.prod(1), odd.prod(2, dtype=I32), x.amax((0, 2)), x.sum((0, 1), dtype=I16), b.prod(2, dtype=U8), b.amin((1, 2)), odd.to(I64).prod(0).flatten()[::3], (x - b).amax(1)
w("integer_products_over_dims", products_over_dims, ints(2 ** 15, d(97, 3), d(317, 11), d(301, 13), dtype=I16, low=-2 ** 15), ints(256, d(97, 3), d(317, 11), d(301, 13), dtype=U8, low=1))


def narrow_scans(m, b):
    c = m.cumsum(1)
    return c.to(I16), m.cumsum(0, dtype=U8), b.cumsum(1, dtype=U8), b.cumsum(0, dtype=I16) - b, b.cummax(1)[0], (c * m).amax(1), (b * m).cumsum(1, dtype=I32)[:, ::5], b.flip(1).cummin(1)[0].flip(1)
w("narrow_scans_of_bools_bytes", narrow_scans, mask(d(1501, 7), d(3001, 211)), ints(256, d(1501, 7), d(3001, 211), dtype=U8))


def ties(a, b):
    i, j = a.argmax(1), a.argmin(1)
    v, k = b.max(1)
    return i, j, v, k, a.argmax(0), b.argmin(0).to(I32), a.gather(1, i.unsqueeze(1)).squeeze(1) == a.amax(1), (b == v.unsqueeze(1)).to(U8).argmax(1) - k, a.flatten().argmax()
w("argmax_of_ties", ties, ints(5, d(4001, 11), d(5003, 307), dtype=U8), ints(3, d(4001, 11), d(5003, 307), dtype=I16, low=-3))


def stable_orders(x, v):
    y, i = x.sort(dim=1, stable=True)
    k = x.argsort(dim=1, descending=True, stable=True)
    z, o = v.sort(dim=0, stable=True)
    return y, i.to(I16), v.gather(1, i), v.gather(1, k), z, o.to(I32), (i + k).amax(1)
w("stable_orders_of_ints", stable_orders, ints(7, d(1001, 7), d(3001, 203), dtype=I32, low=-7), ints(100, d(1001, 7), d(3001, 203), dtype=U8))


def order_statistics(h, x):
    n = h.shape[1]
    return h.topk(7, 1)[0], h.topk(5, 1, largest=False)[0], h.kthvalue(n // 3 + 1, 1)[0], h.median(1)[0], h.nanmedian(1)[0], x.median(1)[0], x.kthvalue(2, 0)[0], x.topk(3, 0)[0], (x > x.median(1, keepdim=True)[0]).sum(1)
w("order_statistics_nan_inf", order_statistics, special(d(2003, 9), d(2001, 101), dtype=F16, extra=(NAN, INF, -INF, 1.0, -1.0, 2.0)), ints(50, d(2003, 9), d(2001, 101), dtype=I32, low=-50))


def often(dim, high, n, k, dtype):
    """A value of each row (or column) is the most frequent by far."""
    most = lambda: (torch.arange(n)[:, None] if dim == 0 else torch.arange(k)) % high
    return lambda: torch.where((torch.arange(n)[:, None] * 5 + torch.arange(k) * 3) % 7 < 4, most(), torch.randint(0, high, (n, k))).to(dtype)


def most_frequent(x, y):
    m = x.mode(1)[0]
    n = (x == m.unsqueeze(1)).sum(1)
    return m, n, y.mode(0)[0], torch.where(x == m.unsqueeze(1), y, 0).sum(1), (x.to(I32) - m.to(I32).unsqueeze(1)).abs().amax(1)
w("most_frequent_values", most_frequent, often(0, 17, d(3001, 7), d(1023, 203), I16), often(1, 5, d(3001, 7), d(1023, 203), I64))


def signed_bytes(a, b):
    s = a + b
    return s, a * b, -a, a.abs(), ~a, (a.to(I16) + b).clamp(-128, 127).to(I8), ((a ^ s) & (b ^ s)) < 0, a.sum(1, dtype=I8), torch.gcd(a.to(I32), b.to(I32)), (a.to(I32) * b.to(I32)).sum(1), a.square().amax(0)
w("signed_bytes_overflow", signed_bytes, ints(128, d(2003, 7), d(3001, 103), dtype=I8, low=-128), ints(128, d(2003, 7), d(3001, 103), dtype=I8, low=-128))


# ---------------------------------------------------------------------------------------------------- 6. special values
def extremes(a, b):
    lo, hi = torch.minimum(a, b), torch.maximum(a, b)
    return lo, hi, torch.fmin(a, b), torch.fmax(a, b), a.clamp(-1, 2), a.clamp(min=lo * .5, max=hi), a.amax(1), b.amin(0), torch.where(a > b, a, b), torch.relu(a), F.hardtanh(b), a.max(1)[0] + b.min(1)[0]
w("extremes_of_specials", extremes, special(d(1003, 13), d(1501, 61)), special(d(1003, 13), d(1501, 61)))


def special_orders(x):
    y, i = x.sort(dim=1, stable=True)
    z = x.argsort(dim=1, descending=True, stable=True)
    return y, i.to(I32), z.to(I16), x.argmax(1), x.argmin(0), x.cummax(1)[0], x.nan_to_num(nan=0.25).sort(0)[0], x.isnan().sum(1), x.gather(1, z)[:, :9]
w("orders_of_specials_f16", special_orders, special(d(2003, 9), d(1501, 101), dtype=F16, extra=(NAN, INF, -INF, 0.0, 1.0, -1.0, 3.0)))


def special_softmax(x, m):
    y = x.masked_fill(m, -INF)
    return y.softmax(1), y.log_softmax(1), y.logsumexp(1), y.float().logsumexp(0), torch.where(y.amax(1, keepdim=True) == -INF, 0.0, y.softmax(1)).sum(1), F.softmin(x, 1), y.softmax(0).amax(0)
def masked_rows(n, k): return lambda: (lambda m: m.index_fill_(0, torch.tensor([1, n - 1]), True))(torch.rand(n, k) < .4)
w("softmax_of_masked_and_inf_rows", special_softmax, lambda: torch.randn(d(1501, 11), d(2003, 71)).index_put_((torch.tensor([2, 4]), torch.tensor([3, 5])), torch.tensor([INF, NAN])).to(BF16), masked_rows(d(1501, 11), d(2003, 71)))


def repaired(x):
    y = x.nan_to_num(0.5, 7.0, -7.0)
    ok = torch.isfinite(x)
    n = ok.sum(1)
    return y, x.nansum(1).nan_to_num(), x.nanmean(0), torch.where(ok, x, 0).sum(1) / n.clamp(min=1), ok.all(1), torch.isposinf(x) | torch.isneginf(x), x.isnan().any(0), (y - y.mean(1, keepdim=True)).to(BF16), x == x
w("repaired_means_f64", repaired, special(d(1501, 13), d(1003, 61), dtype=F64, extra=(NAN, INF, 1.0, 0.0, -0.0, -5.0)))


def special_division(a, b):
    return torch.fmod(a, b), torch.remainder(a, b), torch.floor_divide(a, b), a / b, torch.div(a, b, rounding_mode="trunc"), b.reciprocal(), torch.remainder(a, 2.5), torch.fmod(a, -1.5), torch.remainder(-3.25, b)
# quotients on a grid, so that no floor is between two roundings
DIVIDENDS = special(d(1200007, 2003), extra=(NAN, INF, -INF, 0.0, -0.0, 7.5, -7.5, 1e30, -1e30))
w("division_of_specials", special_division, lambda: (lambda t: torch.where(t.abs() < 1e6, t.mul(16).round().div(16), t))(DIVIDENDS()), lambda: special(d(1200007, 2003), extra=(NAN, INF, -INF, 0.0, -0.0, 2.5, -2.5, .5))().mul(4).round().div(4))


def signs(a, b):
    return torch.atan2(a, b), torch.copysign(a, b), torch.sign(a), torch.signbit(a), torch.heaviside(a, b), torch.copysign(torch.ones_like(a), torch.where((a * b).isnan(), -2.0, a * b)), a.sgn() * b.abs(), (a.neg() == -a) | a.isnan(), 1 / torch.copysign(torch.zeros_like(a), b)
w("signs_of_zeros_and_specials", signs, special(d(1000003, 2003)), special(d(1000003, 2003)))


def logs(x, y):
    a = x.abs()
    return torch.xlogy(a, y.abs()), torch.special.xlog1py(x, a), torch.log(x), torch.log1p(x), torch.log2(a), torch.sqrt(x), torch.rsqrt(x), torch.special.entr(x), torch.expm1(x), torch.exp(-x), torch.logaddexp(x, y)
w("logs_of_zero_and_negative", logs, special(d(1000003, 2003)), special(d(1000003, 2003)))


def lerps(a, b, t, h):
    return torch.lerp(a, b, t), torch.lerp(b, a, 0.75), torch.hypot(h, a), torch.addcmul(a, b, t, value=-2), torch.addcdiv(a, b, t.abs() + 1, value=.5), torch.where(t > .5, h, b), torch.hypot(h, h.flip(0)), a.square() + h
w("lerp_hypot_of_huge_and_nan", lerps, special(d(1200007, 2003), extra=(NAN, 0.0, -0.0, 1e18, -1e18)), special(d(1200007, 2003), extra=(NAN, 0.0, -0.0, 1e18, -1e18)), lambda: torch.randint(0, 5, (d(1200007, 2003),)) / 4, special(d(1200007, 2003), extra=(INF, -INF, NAN, 1e18, -1e30, 1e-30)))


def half_overflow(x):
    f = x.float()
    return x.sum(1), x.sum(1, dtype=F32), x.mean(1), x.square(), f.square().sum(1), (f * 3).half(), x.sum((0, 1)), torch.isinf(x + x), (f.sum(0) / x.shape[0]).half(), x.amax(1) + x.amax(1)
w("half_sums_overflow", half_overflow, lambda: ((torch.randint(-20, 60, (d(3001, 23), d(4003, 101))) * 512.0 + 20000) * torch.tensor([1, -1, 2.0 ** -9, .5])[torch.arange(d(3001, 23)) % 4].unsqueeze(1)).to(F16))


def subnormals(x, e):
    s = x * 2.0 ** -130
    up = lambda t: t * 2.0 ** 65 * 2.0 ** 65
    big = x * 2.0 ** 120
    return up(s), up(s + s.flip(0)), torch.log2(s.abs()), s != 0, up(s.amax(1)), torch.ldexp(x, e) * 2.0 ** -60, big.square().isinf(), (big / 2.0 ** 125), up(torch.where(s > 0, s * .5, s)), torch.sqrt(s.abs()) * 2.0 ** 65, (s * big).sum(0)
w("subnormals_and_huge_exponents", subnormals, lambda: (torch.randint(1, 2 ** 20, (d(1501, 11), d(1003, 53))) * (torch.randint(0, 2, (d(1501, 11), d(1003, 53))) * 2 - 1) / 2 ** 20).float(), ints(60, d(1501, 11), d(1003, 53), low=-60))


def rounded(x, y):
    return x.round(), x.trunc(), x.floor(), x.ceil(), x.frac(), torch.round(x, decimals=-1), torch.pow(x, y), torch.pow(2.0, y), x ** 3, x ** -1, x ** .5, (x.round() % 2 == 0)
w("rounding_and_powers_of_specials", rounded, lambda: (lambda t: t.mul(4).round().div(4))(special(d(800011, 2003), dtype=F64, extra=(NAN, INF, -INF, 0.0, -0.0, .5, 1.5, -2.5, -.5, 25.0, 35.0))()), lambda: torch.tensor([-3., -2., -1., 0., 1., 2., 3., INF, -INF], dtype=F64)[torch.randint(0, 9, (d(800011, 2003),))])


# ---------------------------------------------------------------------------------------------------- 7. convolutions and pools
def even_conv(x, k, b, s):
    f = F.pad(x * s.unsqueeze(1), (1, 5))
    y = F.gelu(F.conv1d(f, k, b, dilation=2, groups=3).float(), approximate="tanh")
    return (y[:, :33] + x.float()).to(BF16), y.amax(2), (y[:, 33:] * torch.sigmoid(y[:, :18])).to(BF16)
w("conv_even_kernel_one_sided_groups", even_conv, r(d(16, 2), 33, d(20011, 61), dtype=BF16), r(51, 11, 4, dtype=BF16, scale=.15), r(51, dtype=BF16), u(33, dtype=BF16))


def stride_3(x, k, b):
    f = x.float()
    v, m = torch.var_mean(f, (2, 3), keepdim=True, unbiased=False)
    y = F.conv2d(F.pad(((f - m) * torch.rsqrt(v + 1e-5)).half(), (2, 0, 1, 3)), k, b, stride=3)
    y = F.leaky_relu(y, 0.2)
    return y, y.float().softmax(1).half(), y.float().mean((2, 3)), y[:, ::4, 1:-1, 3:].amax(3)
w("conv_stride_3_channels_last", stride_3, last(r(d(16, 2), 3, d(511, 23), d(601, 29), dtype=F16)), r(17, 3, 4, 5, dtype=F16, scale=.13), r(17, dtype=F16))


def volumes(x, k, b, q):
    y = F.silu(F.conv3d(F.pad(x, (2, 3, 2, 1, 1, 0)), k, b, dilation=(1, 2, 2)))
    z = F.conv3d(y, q, stride=(2, 3, 1))
    return z, y.float().mean((2, 3, 4)), z.float().amax(1), y[:, 1:3, 1:, ::2] - x[:, :, 1:, :1, :1]
w("conv_3d_dilated_twice", volumes, r(d(8, 2), 1, d(33, 7), d(101, 13), d(131, 15), dtype=BF16), r(5, 1, 2, 3, 3, dtype=BF16, scale=.25), r(5, dtype=BF16), r(17, 5, 3, 2, 1, dtype=BF16, scale=.2))


def upward_1d(x, k, b, skip):
    y = F.conv_transpose1d(torch.tanh(x), k, b, stride=3, padding=1, output_padding=2, groups=3)
    y = y[..., 1: 1 + skip.shape[2]] + skip
    return F.elu(y), y.float().square().mean(2), F.max_pool1d(y, 4, 3, 1, ceil_mode=True)
w("conv_transpose_1d_groups_skip", upward_1d, r(d(16, 2), 33, d(5001, 31), dtype=F16), r(33, 5, 5, dtype=F16, scale=.2), r(15, dtype=F16), r(d(16, 2), 15, d(15001, 91), dtype=F16))


def upward_2d(x, k, g):
    v = x.float()
    y = F.conv_transpose2d((v * torch.rsqrt(v.square().mean(1, keepdim=True) + 1e-5)).to(BF16), k, stride=(3, 2), padding=(1, 0), dilation=(1, 2))
    y = y[:, :, 1:-2, 3:] * g.view(-1, 1, 1)
    return y, torch.sigmoid(y[:, -1:]) * y[:, :3], y.float().sum((0, 2, 3))
w("conv_transpose_2d_cropped", upward_2d, last(r(d(8, 2), 33, d(101, 9), d(131, 11), dtype=BF16)), r(33, 17, 4, 3, dtype=BF16, scale=.15), r(17, dtype=BF16))


def depthwise_back(x, k, g):
    def f(a, b): return torch.sin(F.conv2d(F.pad(a, (3, 2, 3, 4)), b, dilation=3, groups=5))
    y, back = vjp(f, x, k)
    dx, dk = back(g[:, :, : y.shape[2], : y.shape[3]] * y)
    return y.amax(3), dx, dk, (dx * x).sum((1, 2, 3))
w("depthwise_dilated_backward_f64", depthwise_back, r(d(8, 2), 5, d(201, 17), d(203, 19), dtype=F64), r(5, 1, 3, 3, dtype=F64), r(d(8, 2), 5, d(202, 18), d(202, 18), dtype=F64))


def odd_pools(x):
    a = F.max_pool2d(x * 2 - 1, 3, 3, 1, 2, ceil_mode=True)
    b = F.avg_pool2d(x, (4, 3), (3, 2), (2, 1), count_include_pad=False)
    c, i = F.max_pool2d(x, (2, 5), (3, 3), (1, 2), return_indices=True)
    e = F.adaptive_max_pool2d(x, (7, 5)) - F.adaptive_avg_pool2d(x, (7, 5))
    return a, b.relu() + 1, c, i.to(I32), e, x.flatten(2).gather(2, i.flatten(2)) - c.flatten(2), F.avg_pool2d(a, 5, 2, divisor_override=7)
# every plane is of different values, so that indices have no ties
w("odd_pools_channels_last", odd_pools, last(lambda: (torch.rand(d(16, 2) * 5, d(301, 19) * d(407, 23)).argsort(1).float() / 8).view(d(16, 2), 5, d(301, 19), d(407, 23))))


def pool_backward(x, y):
    def f(a, b):
        return (F.avg_pool3d(a, (2, 3, 3), (2, 3, 2), (1, 1, 1), count_include_pad=False).square().sum() + F.max_pool3d(a, 3, (1, 3, 2), 1, ceil_mode=True).sum()
                + F.avg_pool1d(b, 5, 3, 2, ceil_mode=True).square().sum() + (F.max_pool1d(b, 3, 2, 1) * .5).sum())
    (da, db), value = torch.func.grad_and_value(f, argnums=(0, 1))(x, y)
    return da, db, value / x.numel(), da.sum((2, 3))
w("odd_pools_backward", pool_backward, lambda: torch.rand(d(24, 2), 3, d(17, 5) * d(61, 9) * d(67, 11)).argsort(2).float().view(d(24, 2), 3, d(17, 5), d(61, 9), d(67, 11)) / 1024, lambda: (torch.rand(d(33, 3), 17, d(3001, 41)).argsort(2).float() / 64))


def net_grad(x, k, q, b):
    def loss(k, q, b):
        y = F.silu(F.group_norm(F.conv2d(x, k, stride=2, padding=(1, 2)).float(), 3))
        z = F.conv2d(F.pad(F.avg_pool2d(y.to(BF16), 3, 2), (1, 0, 0, 1)), q, b, groups=3)
        return torch.tanh(z.float()).square().mean() * 100
    (dk, dq, db), value = grad_and_value(loss, argnums=(0, 1, 2))(k, q, b)
    return dk, dq, db, value, k.float() - dk.float() * .1
w("small_net_weight_gradients", net_grad, r(d(32, 2), 3, d(385, 21), d(387, 23), dtype=BF16), r(33, 3, 3, 4, dtype=BF16, scale=.2), r(15, 11, 2, 2, dtype=BF16, scale=.2), r(15, dtype=BF16))


# ---------------------------------------------------------------------------------------------------- 8. products
def gathered_rows_product(t, i, wt, b):
    f = t[i].float()
    n = (f * torch.rsqrt(f.square().mean(1, keepdim=True) + 1e-6)).to(BF16)
    y = (n @ wt.T + b).float()
    p = y.softmax(1)
    return p.to(BF16), (p * y).sum(1), y.logsumexp(1)
w("gathered_rows_product_softmax", gathered_rows_product, r(d(20011, 61), d(771, 33), dtype=BF16), ints(d(20011, 61), d(4099, 29)), r(d(1003, 37), d(771, 33), dtype=BF16, scale=.04), r(d(1003, 37), dtype=BF16))


def int8_product(x, q, s, b, res):
    y = (x @ q.to(F16).T).float() * s + b
    z = F.gelu(y) + res.float()
    top = z.abs().amax(1, keepdim=True)
    return z.half(), top.squeeze(1), (z / top).half(), z[:, 1::2].sum(1)
w("int8_columns_gelu_residual", int8_product, r(d(3001, 19), d(1021, 45), dtype=F16, scale=.3), ints(128, d(1537, 39), d(1021, 45), dtype=I8, low=-127), lambda: (torch.rand(d(1537, 39)) + .5) / 512, r(d(1537, 39)), r(d(3001, 19), d(1537, 39), dtype=F16))


def tied_winners(a, b, c):
    y = a.mT @ b + c
    v, i = y.max(1)
    return i, v, y.argmin(0), (y == v.unsqueeze(1)).sum(1), y.amax(0), torch.where(y > 0, y, 0).sum(1, dtype=F32), y.T[:, ::3]
w("exact_product_tied_winners", tied_winners, ints(2, d(257, 17), d(8009, 41), dtype=BF16, low=-1), ints(2, d(257, 17), d(4001, 37), dtype=BF16, low=-1), ints(3, d(4001, 37), dtype=BF16))


def causal_product(a, b):
    y = a @ b.mT
    n = y.shape[-1]
    keep = arange(n, y)[:, None] >= arange(n, y)
    m = torch.where(keep, y, 0)
    return m, y.sum(1), m.amax(2), (m * keep).sum(2) - y.diagonal(0, 1, 2), m.mT[:, 1:] - y[:, :-1]
w("causal_product_several_results", causal_product, grid(d(9, 2), d(1001, 31), 67, low=-4, high=5, over=2), grid(d(9, 2), d(1001, 31), 67, low=-4, high=5, over=2))


def four_operands(a, b, c, e):
    y = torch.einsum("bij,jk,bkl,il->bi", a, b, c, e)
    z = torch.einsum("bij,bkl,jk->bil", a, c, b)
    return y, z, torch.einsum("bil,il,b->l", z, e, y.amax(1)), torch.einsum("bii->bi", z[:, : min(z.shape[1:]), : min(z.shape[1:])])
w("einsum_of_four_f64", four_operands, r(d(301, 3), d(67, 5), d(53, 7), dtype=F64), r(d(53, 7), d(47, 6), dtype=F64), r(d(301, 3), d(47, 6), d(71, 9), dtype=F64), r(d(67, 5), d(71, 9), dtype=F64))


def tiny_products(a, b, c):
    y = torch.bmm(a, b) + c
    z = torch.bmm(y.mT, y)
    det = z[:, 0, 0] * z[:, 1, 1] - z[:, 0, 1] * z[:, 1, 0]
    return y, z, det, (y.unsqueeze(3) @ y[:, :1].unsqueeze(2)).amax((1, 2)), torch.tanh(y).sum(0)
w("tiny_products_3_5_2", tiny_products, r(d(400009, 211), 3, 5), r(d(400009, 211), 5, 2), r(3, 2))


def ones_in_products(a, b, c, v):
    outer = a @ b
    row = (c.float() @ outer.float()).half()
    col = (outer.float() @ row.float().T) / 64
    s = v.unsqueeze(1) * v
    return F.silu(outer.float()).half() + a, (row.float() @ row.float().T).squeeze(), col[1:], (s.float() @ col[: v.shape[0]]).squeeze(1), c.T @ a[:1]
w("products_with_ones", ones_in_products, r(d(3001, 31), 1, dtype=F16), r(1, d(5003, 43), dtype=F16), lambda: (torch.randn(1, d(3001, 31)) / 64).to(F16), lambda: (torch.randn(d(1501, 17)) / 8).to(F16))


def sink_attention(q, k, v, sink, ok):
    b, t, h, c = q.shape
    s = torch.einsum("bthc,bshc->bhts", q, k).float() / math.sqrt(c)
    s = 20 * torch.tanh(s / 20)
    keep = (arange(t, q)[:, None] >= arange(t, q)) & ok[:, None, None, :]
    s = torch.where(keep, s, -INF)
    m = torch.maximum(s.amax(3, keepdim=True), sink.view(-1, 1, 1))
    e = torch.exp(s - m)
    n = e.sum(3, keepdim=True) + torch.exp(sink.view(-1, 1, 1) - m)
    return torch.einsum("bhts,bshc->bthc", (e / n).half(), v), (m + n.log()).squeeze(3), (e / n).amax(2)
w("attention_of_33_sink_softcap", sink_attention, *[r(d(16, 2), d(701, 23), 10, 33, dtype=F16)] * 3, r(10), lambda: torch.rand(d(16, 2), d(701, 23)) < .8)


def grouped_attention(q, k, v, bias):
    b, h, t, c = q.shape
    g = q.view(b, k.shape[1], -1, t, c)
    s = torch.matmul(g, k.unsqueeze(2).mT) * c ** -.5 + bias[:, None]
    p = s.softmax(-1)
    y = torch.matmul(p, v.unsqueeze(2))
    return y.transpose(2, 3).flatten(1, 2), p.amax(-1), (p * p).sum(3).mean(1)
w("attention_grouped_bias_f64", grouped_attention, r(d(16, 2), 15, d(257, 11), 19, dtype=F64), r(d(16, 2), 5, d(301, 13), 19, dtype=F64), r(d(16, 2), 5, d(301, 13), 23, dtype=F64), r(5, d(257, 11), d(301, 13), dtype=F64))


def broadcast_products(a, b, c, s):
    y = torch.matmul(a.unsqueeze(1), b)
    z = torch.baddbmm(c.mT, a, b[:1].expand(a.shape[0], -1, -1), beta=.5, alpha=2)
    return (y.float() * s).to(BF16), z, y.float().amax((1, 3)), (z.float() - z.float().mean(2, keepdim=True)).to(BF16)
w("broadcast_batches_and_turned_addend", broadcast_products, r(d(13, 2), d(301, 13), d(129, 9), dtype=BF16, scale=.3), turned(r(5, d(403, 17), d(129, 9), dtype=BF16, scale=.3), 0, 2, 1), r(d(13, 2), d(403, 17), d(301, 13), dtype=BF16), u(d(403, 17)))


# ---------------------------------------------------------------------------------------------------- 9. loops of steps
def two_directions(x, a, b):
    m = x.mean(0)
    c = x - m
    for _ in range(4):
        a = c.T @ (c @ a)
        a = a / a.square().sum().sqrt()
        b = c.T @ (c @ b)
        b = b - a * (a * b).sum()
        b = b / b.square().sum().sqrt()
    s = torch.stack((c @ a, c @ b), 1)
    return a, b, s, s.square().mean(0), (c - s @ torch.stack((a, b))).square().sum(1)
w("two_directions_4_iterations", two_directions, lambda: torch.randn(d(60013, 101), d(301, 17)) * torch.linspace(3, .3, d(301, 17)) ** 2 + 1, lambda: torch.ones(d(301, 17)) / 4, lambda: torch.linspace(-1, 1, d(301, 17)))


def log_sinkhorn(c, la, lb):
    f, g = torch.zeros_like(la), torch.zeros_like(lb)
    k = -c / .3
    for _ in range(4):
        f = la - (k + g.unsqueeze(1)).logsumexp(2)
        g = lb - (k + f.unsqueeze(2)).logsumexp(1)
    p = torch.exp(k + f.unsqueeze(2) + g.unsqueeze(1))
    return p, (p * c).sum((1, 2)), (p.sum(2).log() - la).abs().amax(1), f - f.mean(1, keepdim=True)
w("log_sinkhorn_marginals", log_sinkhorn, u(d(16, 2), d(701, 23), d(903, 31)), lambda: torch.randn(d(16, 2), d(701, 23)).log_softmax(1), lambda: torch.randn(d(16, 2), d(903, 31)).log_softmax(1))


def mixture(x, m):
    v, p = torch.ones_like(m), torch.full_like(m, .2)
    for _ in range(3):
        l = p.log().unsqueeze(1) - .5 * ((x.unsqueeze(2) - m.unsqueeze(1)).square() / v.unsqueeze(1) + v.log().unsqueeze(1))
        z = l.softmax(2)
        n = z.sum(1)
        m = (z * x.unsqueeze(2)).sum(1) / n
        v = (z * (x.unsqueeze(2) - m.unsqueeze(1)).square()).sum(1) / n + 1e-3
        p = n / x.shape[1]
    return m, v, p, l.logsumexp(2).sum(1), z.to(BF16)
w("mixture_of_5_three_steps", mixture, lambda: torch.randint(0, 5, (d(401, 3), d(5001, 203))) * 3.0 + torch.randn(d(401, 3), d(5001, 203)) * .6, lambda: (torch.arange(5) * 3.0 + .4).expand(d(401, 3), 5).contiguous())


CENTRES = 7
def clusters(x, c):
    f = x.float()
    for _ in range(3):
        dist = f.square().sum(1, keepdim=True) - 2 * f @ c.T + c.square().sum(1)
        i = dist.argmin(1)
        n = torch.zeros(CENTRES, device=x.device).index_add(0, i, torch.ones_like(f[:, 0]))
        c = torch.zeros_like(c).index_add(0, i, f) / n.clamp(min=1).unsqueeze(1)
    o = F.one_hot(i, CENTRES)
    return c, i.to(U8), n, (o.to(F32).T @ f) / o.sum(0).clamp(min=1).unsqueeze(1), (f - c[i]).square().sum(1)
def clustered(n, k): return lambda: (lambda c: ((c[torch.arange(n) % CENTRES] + torch.randn(n, k) / 2).to(BF16), c + .5))(torch.eye(CENTRES, k) * 20 - 3)
w("three_steps_of_7_centres", clusters, clustered(d(600011, 211), 33))


def propagate(s, t, y, known):
    n = y.shape[0]
    deg = torch.zeros(n, device=y.device).index_add(0, t, torch.ones_like(s, dtype=F32)).clamp(min=1)
    first = torch.where(known.unsqueeze(1), y.float(), 1 / y.shape[1])
    p = first
    for _ in range(4):
        p = torch.zeros_like(p).index_add(0, t, p[s]) / deg.unsqueeze(1) + .1 * p
        p = p / p.sum(1, keepdim=True)
        p = torch.where(known.unsqueeze(1), first, p)
    return p, p.half(), -(p * p.clamp(min=1e-6).log()).sum(1), p.mean(0), deg.to(I32)
w("label_propagation_4_steps", propagate, ints(d(100003, 61), d(1000003, 307)), ints(d(100003, 61), d(1000003, 307)), lambda: F.one_hot(torch.arange(d(100003, 61)) % 5, 5).half(), lambda: torch.arange(d(100003, 61)) % 3 == 0)


def gradients_along(k, b):
    def a(p): return (3 + k) * p - p.roll(1, 1) - p.roll(-1, 1)
    x = torch.zeros_like(b)
    res = b
    p = res
    rr = res.square().sum(1, keepdim=True)
    for _ in range(5):
        ap = a(p)
        alpha = rr / (p * ap).sum(1, keepdim=True)
        x = x + alpha * p
        res = res - alpha * ap
        new = res.square().sum(1, keepdim=True)
        p = res + new / rr * p
        rr = new
    return x, rr.sqrt().squeeze(1), (a(x) - b).abs().amax(1), (x * b).sum(1)
w("conjugate_gradient_5_f64", gradients_along, u(d(61, 3), d(20011, 203), dtype=F64), r(d(61, 3), d(20011, 203), dtype=F64))


def whiten(x, g):
    v = x.var(0, unbiased=False)
    c = x - x.mean(0)
    n = c.shape[1]
    eye = torch.eye(n, device=x.device)
    cov = c.T @ c / x.shape[0] + 1e-2 * eye
    t = cov.diagonal().sum()
    y, z = cov / t, eye
    for _ in range(6):
        k = .5 * (3 * eye - z @ y)
        y, z = y @ k, k @ z
    out = c @ (z / t.sqrt())
    return out * g, out.T @ out / x.shape[0], v, z / t.sqrt()
w("whiten_newton_6_iterations", whiten, lambda: ((torch.randn(d(300007, 211), 33) * 8).round() / 8 + 1000), r(33))


def masked_batches(x, m, g):
    f = x.float()
    k = m.unsqueeze(2).float()
    n = k.sum((0, 1))
    for step in range(3):
        mean = (f * k).sum((0, 1)) / n
        var = ((f - mean).square() * k).sum((0, 1)) / n
        f = F.silu((f - mean) * torch.rsqrt(var + 1e-5) * g[step]) + .5 * f.roll(1, 1) * k
    return f.to(BF16), mean, var, (f * k).amax((0, 1)), torch.where(m, f.amax(2), -1.0).to(BF16)
w("masked_batch_statistics_3", masked_batches, r(d(64, 3), d(401, 13), d(513, 11), dtype=BF16), lambda: torch.rand(d(64, 3), d(401, 13)) < .7, u(3, d(513, 11)))


def routing(x):
    f = x.float()
    b = torch.zeros(x.shape[:3], device=x.device)
    for step in range(3):
        c = b.softmax(1)
        s = (c.unsqueeze(3) * f).sum(2)
        q = s.square().sum(2, keepdim=True)
        v = s * q / ((1 + q) * (q + 1e-6).sqrt())
        b = b + (f * v.unsqueeze(2)).sum(3) * .25
    return v.half(), q.sqrt().squeeze(2), b.softmax(1).half(), c.amax((1, 2))
w("capsule_routing_3", routing, r(d(64, 2), 10, d(1153, 29), 16, dtype=F16, scale=.3))


def far_from_zero(x, y):
    v, m = torch.var_mean(x, 1)
    n = x.shape[1]
    part = x[:, : n // 3 * 3].view(x.shape[0], -1, 3)
    t = x
    for k in (2, 3, 5):
        t = t[:, : t.shape[1] // k * k].view(t.shape[0], -1, k).mean(2)
    return v, m, x.std(0), part.var(1, unbiased=False), x.var(), y.var((0, 2), unbiased=False), y.std((1, 3)), t.var(1), (x - x[:, :1]).square().mean(1), (lambda c: c @ c.T)(x[:7, ::3] - x[:7, ::3].mean(1, keepdim=True)) / (n // 3)
w("variances_far_from_zero", far_from_zero, lambda: torch.randn(d(1001, 11), d(6007, 211)) + 10000, turned(lambda: torch.randn(d(33, 3), d(201, 7), d(47, 5), d(29, 4)) - 10000, 2, 0, 3, 1))


# ---------------------------------------------------------------------------------------------------- 10. layouts and broadcasting
def six_dims(x, y):
    a = x.permute(5, 0, 3, 1, 4, 2)
    s = a.amax((1, 4), keepdim=True)
    z = (a - s) * y
    return z.mean((0, 2, 5)), z.flip(3).transpose(0, 5).flatten(1, 3), (z == 0).sum((1, 3, 4)), s.squeeze(), z.float().sum((0, 1, 2, 3, 4, 5))
w("six_dims_turned", six_dims, grid(d(7, 2), d(5, 3), d(31, 4), d(11, 3), d(63, 5), d(13, 2), dtype=F16), lambda: (torch.randint(1, 5, (d(11, 3), 1, 1, d(31, 4))) / 4).to(F16))


def ones_both_ways(a, b, c, e):
    s = a + b * c - e
    t = torch.where(s > 0, s, a * .5)
    return t, t.sum((0, 2), keepdim=True) + b.sum(3, keepdim=True), (s.amax((1, 4)) - e.squeeze(0).amax(3)[:, :1].amax(0)).to(BF16), (a.expand_as(s) - s.mean(4, keepdim=True)).mT
w("ones_on_both_sides_5d", ones_both_ways, grid(d(13, 3), 1, d(31, 4), 1, d(67, 5)), grid(1, d(11, 2), 1, d(37, 3), d(67, 5)), grid(d(11, 2), d(31, 4), 1, 1), grid(1, 1, d(31, 4), d(37, 3), 1))


def with_nothing(x, y, empty):
    n = x.shape[1]
    z = torch.cat((x[:, :0], x, empty, y[:, n // 2: n // 2], y), 1)
    v = torch.cat((z.new_zeros(0), z[:, 3], z[:, -1][:0]))
    e = torch.cat((empty, x[:, 5:5]), 1)
    return z, v * 2, e.sum(1), e + y[:, :1], torch.stack((z[0], z[-1]))[:, :0].sum(), z[2:2].amax(1), empty.mT.float() @ x.float(), F.pad(empty, (2, 1), value=3)
w("cat_with_nothing", with_nothing, r(d(5003, 23), d(1501, 31), dtype=BF16), r(d(5003, 23), d(1001, 17), dtype=BF16), lambda: torch.zeros(d(5003, 23), 0, dtype=BF16))


def scalars(x, h, i, s, k, e, b):
    top = x.amax()
    y = x * s + k
    return y, h * s, h * e, i * k, i // k, torch.where(b, x, h), x.clamp(max=s.float()), (i + b), top, x / top, y.mean() * h, s * k, torch.full_like(h, 2.5) * e - top.to(F16), x.index_select(0, k)
w("scalars_of_no_dims", scalars, grid(d(1501, 7), d(3001, 61)), grid(d(1501, 7), d(3001, 61), dtype=F16), ints(2 ** 10, d(1501, 7), d(3001, 61), dtype=I16, low=-2 ** 10), lambda: torch.tensor(1.5, dtype=F64), lambda: torch.tensor(5), lambda: torch.tensor(0.75), lambda: torch.tensor(True))


def views_of_results(x, y):
    z = x * 2 + y
    s = z.sum(1)
    p = (z - z.amax(1, keepdim=True)).view(-1)
    return z, z[1:, 2:-1], z.T, z, s, s.unsqueeze(1).expand(-1, 3), p, p[3::5], p.view(z.shape)[:, -1], s
w("results_are_views_of_each_other", views_of_results, grid(d(4001, 11), d(3003, 55), dtype=BF16, low=-16, high=17), grid(d(4001, 11), d(3003, 55), dtype=BF16, low=-16, high=17))


def same_twice(x, y, z, m):
    s = x + y * z.sum(1, keepdim=True)
    return x, s, (x * y).sum(1), y[1:] - x[:-1], m, torch.cat((x, y), 1), x == y, x.T, m & m, s
w("same_input_twice_and_returned", same_twice, lambda: (lambda t: (t, t))(grid(d(1201, 13), d(2003, 31), dtype=F64)()), grid(d(1201, 13), d(77, 5), dtype=F64), mask(d(1201, 13), d(2003, 31)))


def turned_results(x, v):
    m = x.float().mean((0, 2))
    y = (x - m.half().view(1, -1, 1)) * 2
    return y.permute(2, 0, 1), m.view(-1, 1).expand(-1, 129), y.transpose(0, 1)[::2], v.expand(x.shape[0], x.shape[1], -1), (y + v).mT, m.expand(3, 5, -1).sum((0, 1)), y.amax(2).T, y.unflatten(1, (-1, 3)).movedim(3, 0)
w("turned_and_expanded_results", turned_results, grid(d(31, 2), d(303, 9), d(1001, 13), dtype=F16), grid(d(1001, 13), dtype=F16))


def write_read(x, y):
    odd = x[:, 1::2]
    before = x.sum(1)
    odd.mul_(2).add_(y)
    x.view(-1)[5:12] = 3
    x[2:-1].T[:3].sub_(1)
    return before, x.sum(1), x[:, ::2] + 1, odd.amax(1), x.view(-1)[1:].float()[::2]
w("write_odd_columns_read_base", write_read, grid(d(3001, 13), d(4003, 37), low=-16, high=17), grid(d(3001, 13), d(2001, 18), low=-16, high=17))


def two_views(x, y):
    a, b = x[:-1], x[1:]
    t = x.transpose(0, 1)
    s = (a * 2 - b).amax(1)
    t[1:4] += 10
    a[:, ::3] = y
    b[:, -2:].fill_(7)
    low = x.view(torch.int16) & 0x7F
    return s, b.sum(0), (t[0] ^ t[-1]), x.flip(0)[::2], low.amax(1), a - b
w("two_views_of_one_input", two_views, ints(2 ** 15, d(3001, 13), d(5003, 38), dtype=I16, low=-2 ** 15), ints(100, d(3000, 12), len(range(0, d(5003, 38), 3)), dtype=I16))
