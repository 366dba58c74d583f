"""Functions a third time (function_workloads.py, sized_function_workloads.py): reductions over odd sets of dims, scans, movement,
losses and their gradients, normalizations, integers and bits, pictures and sound, science, sampling, training utilities. W maps a name to a function that gives (module, inputs); with
SMALL=1 in the environment inputs are small enough for a host, else each has 20 to 200 MB of tensors. Inputs do not depend on the order in
which workloads are made. MUTATES names those that write to their inputs (run them on copies)."""
import math
import os
import zlib

import torch
import torch.nn.functional as F
from torch.func import grad, grad_and_value, vjp

from function_module import Fn, ints, mask, r, u

BF16, F16, F32, F64 = torch.bfloat16, torch.float16, torch.float32, torch.float64
I16, I32, I64, U8 = torch.int16, torch.int32, torch.int64, torch.uint8
THROUGH_BACKEND = True
SMALL = bool(os.environ.get("SMALL"))
W = {}
MUTATES = {"slices_into_slices", "ghost_batch_norm", "kv_write_positions", "ademamix_foreach", "sign_compress_feedback", "split_master_sgd"}


def w(name, f, *inputs):
    def make():
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(zlib.crc32(name.encode()))
            return Fn(f), tuple(one() for one in inputs)
    W[name] = make


def d(big, small):
    return small if SMALL else big


def turned(one, *order):
    """The maker's tensor, permuted: not contiguous."""
    return lambda: one().permute(*order)


def arange(n, like, dtype=I64):
    return torch.arange(n, device=like.device, dtype=dtype)


# ---------------------------------------------------------------------------------------------------- 1. reductions
def row_col_total(x):
    f = x.float()
    return f.sum(0), f.sum(1), f.sum(), f.abs().amax(1), f.square().mean(0).sqrt()
w("row_col_total", row_col_total, turned(lambda: (torch.rand(d(4099, 37), d(8191, 101)) - .3).to(BF16), 1, 0))


def moments4_dims_0_2_4(x):
    m = x.mean((0, 2, 4), keepdim=True)
    c = x - m
    c2 = c * c
    v = c2.mean((0, 2, 4))
    return m.squeeze(), v, (c2 * c).mean((0, 2, 4)) / v ** 1.5, (c2 * c2).mean((0, 2, 4)) / (v * v) - 3
w("moments4_dims_0_2_4", moments4_dims_0_2_4, turned(lambda: torch.rand(d(13, 3), d(17, 5), d(64, 4), d(33, 3), d(96, 7)) ** 3, 0, 2, 1, 3, 4))


def jump_stats_long_rows(x):
    j = x[:, 1:] - x[:, :-1]
    big, where = j.abs().max(1)
    return big, where, j.abs().mean(1), j.square().mean(1).sqrt(), (j[:, 1:] * j[:, :-1] < 0).sum(1), (x[:, 7:] - x[:, :-7]).abs().amax(1)
w("jump_stats_long_rows", jump_stats_long_rows, r(3, d(5000011, 1009)))


def gathered_weighted_stats(t, i, p):
    rows = t[i].float()
    s = p.sum(1, keepdim=True)
    m = (rows * p.unsqueeze(2)).sum(1) / s
    return m, ((rows - m.unsqueeze(1)).square() * p.unsqueeze(2)).sum(1) / s, rows.amax((1, 2))
w("gathered_weighted_stats", gathered_weighted_stats, r(d(100003, 101), 48, dtype=BF16), ints(d(100003, 101), d(150011, 43), 12), lambda: torch.rand(d(150011, 43), 12) + .1)


SEGMENTS = d(40009, 41)
def sorted_segment_stats(ids, x, y):
    zero = torch.zeros(SEGMENTS, device=x.device)
    n = zero.index_add(0, ids, torch.ones_like(x)).clamp(min=1)
    mx, my = zero.index_add(0, ids, x) / n, zero.index_add(0, ids, y) / n
    a, b = x - mx[ids], y - my[ids]
    return mx, my, zero.index_add(0, ids, a * b) / n, zero.index_add(0, ids, a * a) / n, zero.scatter_reduce(0, ids, x, "amax")
w("sorted_segment_stats", sorted_segment_stats, lambda: torch.randint(0, SEGMENTS, (d(6000011, 997),)).sort()[0], u(d(6000011, 997)), u(d(6000011, 997)))


CLASSES = 37
def class_scatter_ratio(x, y):
    f = x.float()
    n = torch.zeros(CLASSES, device=x.device).index_add(0, y, torch.ones_like(f[:, 0])).clamp(min=1)
    m = torch.zeros(CLASSES, f.shape[1], device=x.device).index_add(0, y, f) / n.unsqueeze(1)
    within = torch.zeros_like(m).index_add(0, y, (f - m[y]).square())
    between = (n.unsqueeze(1) * (m - f.mean(0)).square()).sum(0)
    return m, within / n.unsqueeze(1), between / within.sum(0)
w("class_scatter_ratio", class_scatter_ratio, r(d(400009, 401), 64, dtype=BF16), ints(CLASSES, d(400009, 401)))


def masked_mean_max_std_groups(x, m):
    k = m[:, None, :, None]
    f = x.float()
    n = k.sum(2).float()
    mean = (f * k).sum(2) / n
    var = ((f - mean.unsqueeze(2)).square() * k).sum(2) / n
    return mean.to(x.dtype), x.masked_fill(~k, -1e4).amax(2), (var + 1e-5).sqrt().to(x.dtype), (f * k).sum((1, 2, 3)) / (n[:, 0, 0] * x.shape[1] * x.shape[3])
w("masked_mean_max_std_groups", masked_mean_max_std_groups, r(d(1200, 5), 7, d(197, 13), 24, dtype=F16), lambda: torch.cat((torch.ones(d(1200, 5), 1, dtype=torch.bool), torch.rand(d(1200, 5), d(197, 13) - 1) < .7), 1))


def entropy_and_centroid_of_7(x):
    f = x.float()
    p = f.softmax(1)
    c = (p * arange(7, x, F32)).sum(1)
    return -(p * p.clamp(min=1e-9).log()).sum(1), c, (p * (arange(7, x, F32) - c.unsqueeze(1)).square()).sum(1), f.amax(1) - f.amin(1)
w("entropy_and_centroid_of_7", entropy_and_centroid_of_7, r(d(3000017, 1009), 7, dtype=F16))


# ---------------------------------------------------------------------------------------------------- 2. scans and recurrences
w("running_weighted_mean_middle", lambda a, b: (a.float() * b.float()).cumsum(1) / (b.float().cumsum(1)), r(d(24, 3), d(1500, 47), d(384, 17), dtype=BF16), lambda: (torch.rand(d(24, 3), d(1500, 47), d(384, 17)) + .1).to(BF16))


def records(x):
    best = x.cummax(1)[0]
    before = F.pad(best[:, :-1], (1, 0), value=-9.0)
    new = x > before
    return new.cumsum(1, dtype=I32), torch.where(new, x - before, 0.0).sum(1), (best - x).amax(1), new.sum(1)
w("records_by_prefix_max", records, r(d(3001, 7), d(5000, 211)))


def run_of_each(x):
    ids = F.pad((x[:, 1:] != x[:, :-1]).to(I32), (1, 0)).cumsum(1)
    n = torch.zeros_like(x).scatter_add(1, ids, torch.ones_like(x))
    return n.gather(1, ids), ids[:, -1] + 1, n.amax(1)
w("run_length_of_each", run_of_each, ints(3, d(2048, 5), d(8191, 127), dtype=I32))


def chunked_smoothing(x, a):
    t = arange(32, x, F32)
    c = arange(64, x, F32)
    inside = torch.where(t[:, None] >= t, a ** (t[:, None] - t).clamp(min=0), 0.0) * (1 - a)
    across = torch.where(c[:, None] > c, (a ** 32) ** (c[:, None] - 1 - c).clamp(min=0), 0.0)
    y = x.view(x.shape[0], 64, 32) @ inside.T
    carry = y[..., -1] @ across.T
    return (y + carry.unsqueeze(2) * a ** (t + 1)).flatten(1)
w("chunked_exponential_smoothing", chunked_smoothing, r(d(8192, 5), 2048), lambda: torch.tensor(0.95))


def box_differences(x):
    s = F.pad(x.to(I32).cumsum(1, dtype=I32).cumsum(2, dtype=I32), (1, 0, 1, 0))
    box = lambda k: s[:, k:, k:] - s[:, :-k, k:] - s[:, k:, :-k] + s[:, :-k, :-k]
    small, large = box(5)[:, 5:-5, 5:-5], box(15)
    return (small.float() / 25 - large.float() / 225).half(), x[:, 7:-7, 7:-7].to(I32) * 225 > large - 7 * 225
w("box_differences_integral", box_differences, ints(256, d(24, 2), d(1021, 41), d(1027, 43), dtype=U8))


def sample_pdf(bins, p, x):
    p = p + .01
    cdf = F.pad((p / p.sum(1, keepdim=True)).cumsum(1), (1, 0))
    k = torch.searchsorted(cdf, x, right=True)
    lo, hi = (k - 1).clamp(min=0), k.clamp(max=cdf.shape[1] - 1)
    c0, c1, b0, b1 = cdf.gather(1, lo), cdf.gather(1, hi), bins.gather(1, lo), bins.gather(1, hi)
    t = (x - c0) / torch.where(c1 - c0 < 1e-7, torch.ones_like(c0), c1 - c0)
    return b0 + t.clamp(0, 1) * (b1 - b0)
w("sample_pdf_interpolated", sample_pdf, lambda: torch.rand(d(4096, 7), d(1501, 62)).sort(1)[0] * 4 + 2, u(d(4096, 7), d(1500, 61)), lambda: torch.rand(d(4096, 7), d(300, 23)) * .999)


def discounted_first(x, done):
    """Returns of x along the first dim, and those of the rewards before a done (by the sum of rewards after it)."""
    g = 0.97 ** arange(x.shape[0], x, F64).unsqueeze(1)
    back = lambda t: t.flip(0).cumsum(0).flip(0)
    alive = done.cumsum(0) == 0
    return back(x * g) / g, back(x * g * alive) / g, (x * g * alive).sum(0)
w("discounted_first_f64", discounted_first, lambda: torch.rand(97, d(40009, 13), dtype=F64), lambda: (torch.rand(97, d(40009, 13)) < .01))


w("running_logmeanexp_middle", lambda x: torch.logcumsumexp(x.float(), 1) - torch.log(arange(x.shape[1], x, F32) + 1).unsqueeze(1), r(d(1500, 3), d(1031, 53), 7, dtype=BF16))


# ---------------------------------------------------------------------------------------------------- 3. movement
def unshuffle_3(x, s):
    n, h, ww, c = x.shape
    y = x.view(n, h // 3, 3, ww // 3, 3, c)
    return y.permute(0, 1, 3, 5, 2, 4).reshape(n, h // 3, ww // 3, 9 * c) * s, y.permute(0, 2, 4, 5, 1, 3).reshape(n, 9 * c, h // 3, ww // 3)
w("unshuffle_3_two_orders", unshuffle_3, r(d(8, 2), d(393, 21), d(393, 27), 16, dtype=BF16), r(144, dtype=BF16))


def space_to_depth_3d(x):
    n, c, a, b, e = x.shape
    return x.roll((1, -1), (2, 4)).view(n, c, a // 2, 2, b // 2, 2, e // 2, 2).permute(0, 3, 5, 7, 1, 2, 4, 6).reshape(n, 8 * c, a // 2, b // 2, e // 2)
w("space_to_depth_3d_rolled", space_to_depth_3d, r(d(3, 2), 5, d(62, 6), d(254, 10), d(258, 14), dtype=F16))


def blocks_turned(x):
    n, m = x.shape[0] // 24, x.shape[1] // 24
    sign = 1 - 2 * ((arange(n, x)[:, None] + arange(m, x)) % 2).to(x.dtype)
    return (x.view(n, 24, m, 24).transpose(1, 3) * sign[:, None, :, None]).reshape(x.shape)
w("blocks_turned_checkered", blocks_turned, r(d(4128, 5 * 24), d(5088, 3 * 24)))


def skewed_gathers(x):
    _, h, ww = x.shape
    i, j = arange(h, x)[:, None], arange(ww, x)
    along = torch.take_along_dim(x, ((3 * j + i * i) % ww).unsqueeze(0), 2)
    down = x.gather(1, ((5 * i + j) % h).unsqueeze(0).expand_as(x))
    return along - down
w("skewed_gathers", skewed_gathers, r(d(64, 3), d(521, 23), d(1000, 41), dtype=BF16))


def slices_into_slices(x, y, z):
    x[:, ::2, 1::3].copy_(y.transpose(1, 2) * 2)
    x[:, 1::2].mul_(0.5).add_(x[:, ::2])
    x[:, -1] = z
    return x.float().amax(2), x[:, 3:-3:5, ::4].flip(1)
w("slices_into_slices", slices_into_slices, r(d(48, 3), d(600, 14), d(901, 16), dtype=F16), r(d(48, 3), d(300, 5), d(300, 7), dtype=F16), r(d(901, 16), dtype=F16))


w("cat_of_layouts", lambda a, b, c, e, h, q: torch.cat((a.t(), b[::2], c.flip(0), e.unsqueeze(1).expand(-1, 129), h.unfold(0, 3, 1), q.float().roll(5, 0)), 1),
  r(d(1201, 17), d(6007, 53)), r(d(12014, 106), d(700, 11)), r(d(6007, 53), d(513, 13)), r(d(6007, 53)), r(d(6009, 55)), ints(100, d(6007, 53), 100, dtype=I32))


def pack_tril(x):
    n = x.shape[1]
    i, j = torch.tril_indices(n, n, device=x.device)
    packed = x[:, i, j] * torch.where(i == j, 1.0, math.sqrt(2)).to(x.dtype)
    a, b = arange(n, x)[:, None], arange(n, x)
    hi, lo = torch.maximum(a, b), torch.minimum(a, b)
    return packed, packed[:, hi * (hi + 1) // 2 + lo]
w("pack_tril_and_mirror", pack_tril, r(d(500, 3), d(251, 23), d(251, 23), dtype=BF16))


def antidiagonals(x):
    b, n = x.shape[:2]
    skew = lambda t: F.pad(t, (0, n)).flatten(1)[:, :-n].view(b, n, 2 * n - 1)
    y = x.diagonal_scatter(-x.diagonal(2, 1, 2), 2, 1, 2)
    return skew(x).sum(1), skew(x.flip(2)).square().sum(1), y, y.diagonal(-1, 1, 2).cumsum(1)
w("antidiagonal_sums", antidiagonals, r(d(400, 3), d(257, 29), d(257, 29)))


# ---------------------------------------------------------------------------------------------------- 4. losses and their gradients
def distill_top(x, i, t, ok):
    def loss(z):
        lp = (z.float() / 2).log_softmax(-1)
        one = -((t / 2).softmax(-1) * lp.gather(1, i)).sum(-1)
        return (one * ok).sum() / ok.sum() * 4
    return grad_and_value(loss)(x)
w("distill_top_16_grad", distill_top, r(d(2048, 11), d(32003, 211), dtype=BF16), ints(d(32003, 211), d(2048, 11), 16), r(d(2048, 11), 16), lambda: (torch.arange(d(2048, 11)) % 5 != 0))


def hard_pixels(x, y):
    def loss(z):
        l = F.cross_entropy(z.float(), y, ignore_index=255, reduction="none", label_smoothing=.05)
        keep = (y != 255).float()
        k = torch.sigmoid((l - l.sum() / keep.sum()).detach() * 4) * keep
        return 65536 * (l * k).sum() / k.sum()
    return grad(loss)(x)
def labels_255(*s): return lambda: torch.where(torch.rand(*s) < .1, 255, torch.randint(0, 19, s))
w("soft_hard_pixels_grad", hard_pixels, r(d(8, 2), 19, d(512, 13), d(257, 11), dtype=F16), labels_255(d(8, 2), d(512, 13), d(257, 11)))


def asymmetric(x, y):
    def loss(z):
        p = torch.sigmoid(z)
        q = (1 - p + .05).clamp(max=1)
        pos = y * torch.log(p.clamp(min=1e-8)) * (1 - p)
        neg = (1 - y.float()) * torch.log(q.clamp(min=1e-8)) * (1 - q) ** 4
        return -(pos + neg).sum() / z.shape[0]
    return grad_and_value(loss)(x)
w("asymmetric_multilabel_grad", asymmetric, r(d(16384, 11), d(1003, 67)), lambda: (torch.rand(d(16384, 11), d(1003, 67)) < .05).to(U8))


def supervised_contrast(x, y):
    n = x.shape[0]
    def loss(z):
        z = F.normalize(z, dim=1)
        own = torch.eye(n, dtype=torch.bool, device=z.device)
        lp = (z @ z.T / 0.2).masked_fill(own, -1e4).log_softmax(1)
        same = (y.unsqueeze(1) == y) & ~own
        return -((lp * same).sum(1) / same.sum(1).clamp(min=1)).mean()
    return grad(loss)(x) * n
w("supervised_contrast_grad", supervised_contrast, r(d(3001, 53), d(128, 19)), ints(d(50, 5), d(3001, 53)))


def hardest_triplets(x, y):
    def loss(z):
        s = z.square().sum(1)
        dist = (s.unsqueeze(1) + s - 2 * z @ z.T).clamp(min=0).add(1e-2).sqrt()
        same = y.unsqueeze(1) == y
        far = torch.where(same, dist, 0.0).amax(1)
        near = torch.where(same, 1e3, dist).amin(1)
        return F.softplus(far - near + .3).mean()
    return grad_and_value(loss)(x)
# on a grid, so that distances are exact in any order of the sums, and hardest pairs (with ties) the same
w("hardest_triplets_grad", hardest_triplets, lambda: (torch.randn(d(3001, 47), 32) * 16).round() / 16, ints(d(100, 5), d(3001, 47)))


def rank_pairs(s, rel, ok):
    gain = 2.0 ** rel
    wgt = (gain.unsqueeze(2) - gain.unsqueeze(1)).clamp(min=0) * (ok.unsqueeze(2) & ok.unsqueeze(1))
    norm = wgt.sum((1, 2)).clamp(min=1)
    def loss(z):
        return ((wgt * F.softplus(z.unsqueeze(1) - z.unsqueeze(2))).sum((1, 2)) / norm).sum()
    return grad(loss)(s[:, ::2]), (wgt > 0).sum((1, 2))
w("ranked_pairs_grad", rank_pairs, r(d(3001, 5), d(202, 38)), ints(5, d(3001, 5), d(101, 19)), lambda: torch.rand(d(3001, 5), d(101, 19)) < .8)


def quantile_huber(p, t):
    tau = (arange(p.shape[1], p, F32) + .5) / p.shape[1]
    def loss(q):
        e = t.unsqueeze(1) - q.unsqueeze(2)
        h = torch.where(e.abs() < 1, 0.5 * e * e, e.abs() - .5)
        return ((tau.unsqueeze(1) - (e.detach() < 0).float()).abs() * h).mean(2).sum()
    return grad_and_value(loss)(p)
w("quantile_huber_pairs_grad", quantile_huber, r(d(30011, 13), 32), r(d(30011, 13), 33))


def many_class_hinge(x, y):
    ok = y != -100
    k = torch.where(ok, y, 0).unsqueeze(1)
    def loss(z):
        f = z.float()
        m = F.relu(1 + f - f.gather(1, k))
        m = m.square().scatter(1, k, 0.0)
        return (m.sum(1) * ok).sum() / 1000
    return grad_and_value(loss)(x)
w("squared_hinge_ignore_grad", many_class_hinge, r(d(30011, 17), d(1000, 61), dtype=F16), lambda: torch.where(torch.rand(d(30011, 17)) < .1, -100, torch.randint(0, d(1000, 61), (d(30011, 17),))))


# ---------------------------------------------------------------------------------------------------- 5. normalizations
def groups_of_3(x, res, g, b):
    n, h, ww, c = x.shape
    y = x.float().view(n, h * ww, c // 3, 3)
    v, m = torch.var_mean(y, (1, 3), keepdim=True, unbiased=False)
    y = ((y - m) * torch.rsqrt(v + 1e-5)).view(x.shape) * g + b
    return (F.silu(y) + res.float()).to(x.dtype)
w("group_of_3_norm_nhwc", groups_of_3, r(d(16, 2), d(131, 7), d(127, 5), d(96, 12), dtype=BF16), r(d(16, 2), d(131, 7), d(127, 5), d(96, 12), dtype=BF16), r(d(96, 12)), r(d(96, 12)))


def norm_dims_1_3_backward(x, g, b, dy):
    def f(t, a, c):
        v, m = torch.var_mean(t, (1, 3), keepdim=True, unbiased=False)
        return (t - m) * torch.rsqrt(v + 1e-5) * a + c
    y, back = vjp(f, x, g, b)
    return (y.amax((1, 3)), *back(dy))
w("norm_dims_1_3_backward", norm_dims_1_3_backward, turned(r(d(64, 3), d(197, 13), d(33, 5), d(40, 7)), 0, 2, 1, 3), r(d(33, 5), 1, d(40, 7)), r(d(33, 5), 1, d(40, 7)), r(d(64, 3), d(33, 5), d(197, 13), d(40, 7)))


def first_dim_int8(x, g):
    f = x.float()
    v, m = torch.var_mean(f, 0, unbiased=False)
    y = (f - m) * torch.rsqrt(v + 1e-5) * g
    s = y.abs().amax(0).clamp(min=1e-6) / 127
    return (y / s).round().clamp(-127, 127).to(torch.int8), s.half()
w("first_dim_norm_int8", first_dim_int8, r(d(1500, 29), 7, d(3001, 13), dtype=F16), lambda: torch.rand(7, d(3001, 13)) + .5)


def ghost_batch_norm(x, mean, var, g, b):
    y = x.view(-1, d(128, 16), x.shape[1])
    v, m = torch.var_mean(y, 1, keepdim=True, unbiased=False)
    mean.lerp_(m.mean((0, 1)), 0.1)
    var.lerp_(v.mean((0, 1)), 0.1)
    return F.leaky_relu((y - m) * torch.rsqrt(v + 1e-5) * g + b, 0.1).view_as(x)
w("ghost_batch_norm", ghost_batch_norm, r(d(8192, 64), d(2003, 31)), *[r(d(2003, 31)), u(d(2003, 31)), r(d(2003, 31)), r(d(2003, 31))])


def head_rms_quantized(x, gate, res, g):
    b, t, c = x.shape
    split = lambda z: z.view(b, t, -1, 80).transpose(1, 2)
    f = split(x).float()
    y = f * torch.rsqrt(f.square().mean(-1, keepdim=True) + 1e-6) * g.unsqueeze(1) * torch.sigmoid(split(gate).float())
    s = y.abs().amax(-1, keepdim=True).clamp(min=1e-6) / 127
    return (y / s).round().to(torch.int8), s.squeeze(-1), (res.float() + y.transpose(1, 2).flatten(2)).to(BF16)
w("head_rms_gate_quantized", head_rms_quantized, *[r(d(4, 2), d(1500, 13), d(1600, 240), dtype=BF16)] * 3, u(d(20, 3), 80))


def power_norm_backward(x, g, dy):
    def f(t, a):
        t = t.float()
        return (t * (t.abs() ** 3).mean(-1, keepdim=True).add(1e-6).pow(-1 / 3) * a).half()
    return vjp(f, x, g)[1](dy)
w("cubic_power_norm_backward", power_norm_backward, r(d(20011, 13), d(770, 57), dtype=F16), u(d(770, 57)), r(d(20011, 13), d(770, 57), dtype=F16))


def complex_batch_norm(x, g):
    x = x - x.mean((0, 3, 4), keepdim=True)
    re, im = x[:, 0], x[:, 1]
    rr, ii, ri = re.square().mean((0, 2, 3)) + 1e-4, im.square().mean((0, 2, 3)) + 1e-4, (re * im).mean((0, 2, 3))
    s = (rr * ii - ri * ri).sqrt()
    k = 1 / (s * (rr + ii + 2 * s).sqrt())
    a, b, c = [(z * k).view(1, -1, 1, 1) for z in (ii + s, -ri, rr + s)]
    yr, yi = a * re + b * im, b * re + c * im
    g = g.view(3, 1, -1, 1, 1)
    return torch.stack((g[0] * yr + g[1] * yi, g[1] * yr + g[2] * yi), 1)
w("complex_batch_norm", complex_batch_norm, lambda: (lambda z: torch.stack((z[0] + .5 * z[1], z[1]), 1))(torch.randn(2, d(32, 3), d(48, 5), d(80, 9), d(81, 7))), r(3, d(48, 5)))


def norm_of_sum_3_backward(a, b, c, g, dsum, dy):
    def f(p, q, k, t):
        s = (p.float() + q.float() * 0.5 + k.float())
        return s.to(BF16), (F.layer_norm(s, (s.shape[-1],)) * t.float()).to(BF16)
    da, db, _, dg = vjp(f, a, b, c, g)[1]((dsum, dy))
    return da, db, dg
w("norm_of_sum_3_backward", norm_of_sum_3_backward, *[r(d(6007, 17), d(1500, 61), dtype=BF16)] * 3, r(d(1500, 61), dtype=BF16), *[r(d(6007, 17), d(1500, 61), dtype=BF16)] * 2)


# ---------------------------------------------------------------------------------------------------- 6. integers and bits
def morton(x, y, z):
    def spread(v):
        v = (v | (v << 16)) & 0x030000FF
        v = (v | (v << 8)) & 0x0300F00F
        v = (v | (v << 4)) & 0x030C30C3
        return (v | (v << 2)) & 0x09249249
    def pick(v):
        v = v & 0x09249249
        v = (v | (v >> 2)) & 0x030C30C3
        v = (v | (v >> 4)) & 0x0300F00F
        v = (v | (v >> 8)) & 0x030000FF
        return (v | (v >> 16)) & 0x3FF
    code = spread(x) | (spread(y) << 1) | (spread(z) << 2)
    return code, pick((code + 8) >> 1)
w("morton_3d", morton, *[ints(1023, d(5000011, 1009), dtype=I32)] * 3)


def gray(x, y):
    v = y
    for s in (16, 8, 4, 2, 1): v = v ^ (v >> s)
    p = x
    for s in (16, 8, 4, 2, 1): p = p ^ (p >> s)
    return x ^ (x >> 1), v, (p & 1).to(torch.int8), ((v & 0xFF) - (x & 0xFF)).sum(1)
w("gray_code_and_parity", gray, ints(2 ** 31 - 1, d(4099, 13), d(2048, 67), dtype=I32), ints(2 ** 31 - 1, d(4099, 13), d(2048, 67), dtype=I32))


def crc8(x):
    c = torch.zeros_like(x[:, 0])
    for k in range(x.shape[1]):
        c = c ^ x[:, k]
        for _ in range(8): c = torch.where((c & 0x80) != 0, (c << 1) ^ 0x07, c << 1)
    return c
w("crc8_of_4_bytes", crc8, ints(256, d(6000011, 1009), 4, dtype=U8))


def adler(x):
    v = x.to(I32)
    n = x.shape[1]
    a = 1 + v.sum(1)
    b = n + (v * (n - arange(n, x, I32))).sum(1)
    return ((b % 65521) << 16) | (a % 65521), (v[:, ::2].sum(1) * 3 + v[:, 1::2].sum(1)) % 10, (v * v % 251).sum(0, dtype=I32)
w("adler_rows_of_bytes", adler, ints(256, d(3001, 11), d(9973, 101), dtype=U8))


def floor_and_trunc(a, b):
    q, m = a // b, a % b
    t = torch.div(a, b, rounding_mode="trunc")
    return q, m, t, torch.fmod(a, b), ((q * b + m) == a) & (q <= t), (a // -7) % 5
w("floor_and_trunc_division", floor_and_trunc, ints(10 ** 6, d(4000037, 1009), dtype=I32, low=-10 ** 6), lambda: (torch.randint(1, 1000, (d(4000037, 1009),)) * (torch.randint(0, 2, (d(4000037, 1009),)) * 2 - 1)).to(I32))


def base_36(x):
    digit = (x.unsqueeze(1) // torch.tensor([36 ** k for k in range(6, -1, -1)], device=x.device)) % 36
    check = (digit * torch.tensor([3, 7, 1, 9, 27, 81, 5], device=x.device)).sum(1) % 97
    return torch.where(digit < 10, digit + 48, digit + 55).to(U8), check.to(torch.int8)
w("base_36_digits", base_36, ints(36 ** 7, d(3000017, 1009)))


def saturated(a, b):
    i, j = a.to(I16), b.to(I16)
    screen = 255 - ((255 - a.to(I32)) * (255 - b.to(I32)) + 127) // 255
    return (i + j).clamp(max=255).to(U8), (i - j).clamp(min=0).to(U8), (a | b) - ((a ^ b) >> 1), torch.maximum(a, b) - torch.minimum(a, b), screen.to(U8), a + b
w("saturated_bytes", saturated, ints(256, d(8, 2), 3, d(1080, 17), d(700, 23), dtype=U8), ints(256, d(8, 2), 3, d(1080, 17), d(700, 23), dtype=U8))


def majority(x):
    a, b, c, e = x.roll(1, 1), x.roll(-1, 1), x.roll(1, 2), x.roll(-1, 2)
    s1, c1 = a ^ b ^ c, (a & b) | (c & (a ^ b))
    s2, c2 = s1 ^ e ^ x, (s1 & e) | (x & (s1 ^ e))
    most = (c1 & c2) | ((c1 ^ c2) & s2)  # three or more of five
    return most, (x.sum(1) & 1).bool(), (x & ~most).any(2), most.all(2), (most != x).sum((1, 2))
w("majority_of_5_bools", majority, mask(d(64, 3), d(1031, 29), d(521, 31)))


# ---------------------------------------------------------------------------------------------------- 7. pictures and sound
def guided(x, p):
    box = lambda t: F.avg_pool2d(t, 9, 1, 4, count_include_pad=False)
    mx, mp = box(x), box(p)
    a = (box(x * p) - mx * mp) / (box(x * x) - mx * mx + 1e-2)
    return box(a) * x + box(mp - a * mx)
w("guided_filter", guided, u(d(8, 2), 3, d(509, 19), d(701, 17)), u(d(8, 2), 3, d(509, 19), d(701, 17)))


def median_9(x):
    q = F.pad(x, (1, 1, 1, 1), mode="replicate")
    p = [q[:, :, i:i + x.shape[2], j:j + x.shape[3]] for i in range(3) for j in range(3)]
    for i, j in ((1, 2), (4, 5), (7, 8), (0, 1), (3, 4), (6, 7), (1, 2), (4, 5), (7, 8), (0, 3), (5, 8), (4, 7), (3, 6), (1, 4), (2, 5), (4, 7), (4, 2), (6, 4), (4, 2)):
        p[i], p[j] = torch.minimum(p[i], p[j]), torch.maximum(p[i], p[j])
    return p[4], x - p[4]
w("median_9_network", median_9, u(d(16, 2), 3, d(768, 17), d(770, 19), dtype=F16))


def laplacian_level(x):
    k = (1, 4, 6, 4, 1)
    q = F.pad(x, (2, 2, 2, 2), mode="reflect")
    h, ww = x.shape[2:]
    q = sum(k[i] / 16 * q[:, :, i:i + h:2] for i in range(5))
    low = sum(k[i] / 16 * q[:, :, :, i:i + ww:2] for i in range(5))
    up = F.interpolate(low, size=(h, ww), mode="bilinear", align_corners=False)
    high = x - up
    return low, up + torch.sign(high) * (high.abs() - .02).clamp(min=0) * 1.5
w("laplacian_level_cored", laplacian_level, u(d(16, 2), 3, d(641, 19), d(642, 22), dtype=F16))


w("bicubic_odd_minus_nearest", lambda x: (lambda s: (lambda y: (y, y - F.interpolate(x, size=s, mode="nearest-exact")))(F.interpolate(x, size=s, mode="bicubic", align_corners=False).clamp(0, 1)))((d(257, 23), d(389, 31))), u(d(16, 2), d(12, 3), d(131, 11), d(133, 13)))


def polyphase(x, taps):
    return (F.pad(x, (7, 7)).unfold(1, 15, 2) @ taps).flatten(1)
w("polyphase_3_over_2", polyphase, r(d(32, 3), d(240001, 301)), lambda: torch.randn(15, 3) / 4)


def compressor(x):
    env = F.max_pool1d(x.float().abs().amax(1, keepdim=True), 75, 75)
    over = 20 * torch.log10(env + 1e-5) + 12
    cut = torch.where(over <= -3, torch.zeros_like(over), torch.where(over >= 3, over, (over + 3).square() / 12)) * 0.75
    cut = F.avg_pool1d(cut, 9, 1, 4, count_include_pad=False)
    gain = F.interpolate(10 ** (-cut / 20), size=x.shape[2], mode="linear", align_corners=False)
    return torch.tanh(x.float() * gain * 1.5).to(x.dtype), cut.amax((1, 2))
w("soft_knee_compressor", compressor, r(d(32, 3), 2, d(300000, 750), dtype=BF16, scale=.3))


def swirl(x):
    h, ww = x.shape[2:]
    y, z = torch.linspace(-1, 1, h, device=x.device)[:, None], torch.linspace(-1, 1, ww, device=x.device)
    a = 2 * torch.exp(-4 * (y * y + z * z))
    g = torch.stack((1.3 * (z * a.cos() - y * a.sin()), 1.3 * (z * a.sin() + y * a.cos())), -1)
    return F.grid_sample(x, g.expand(x.shape[0], -1, -1, -1), mode="bilinear", padding_mode="reflection", align_corners=True)
w("swirl_reflected", swirl, r(d(16, 2), 16, d(255, 17), d(257, 19)))


def nv12(x):
    n, h, ww, _ = x.shape
    v = x.to(I32)
    y = ((66 * v[..., 0] + 129 * v[..., 1] + 25 * v[..., 2] + 128) >> 8) + 16
    s = v.view(n, h // 2, 2, ww // 2, 2, 3).sum((2, 4), dtype=I32)
    cb = ((-38 * s[..., 0] - 74 * s[..., 1] + 112 * s[..., 2] + 512) >> 10) + 128
    cr = ((112 * s[..., 0] - 94 * s[..., 1] - 18 * s[..., 2] + 512) >> 10) + 128
    return torch.cat((y, torch.stack((cb, cr), -1).flatten(2)), 1).to(U8)
w("rgb_to_nv12", nv12, ints(256, d(16, 2), d(720, 14), d(1280, 22), 3, dtype=U8))


# ---------------------------------------------------------------------------------------------------- 8. science
def minmod_step(q, c):
    a, b = q - q.roll(1, 1), q.roll(-1, 1) - q
    s = torch.where(a * b > 0, torch.sign(a) * torch.minimum(a.abs(), b.abs()), torch.zeros_like(a))
    flux = q + 0.5 * (1 - c) * s
    new = q - c * (flux - flux.roll(1, 1))
    return new, (new.roll(-1, 1) - new).abs().sum(1)
w("minmod_upwind_f64", minmod_step, r(d(1021, 7), d(4099, 61), dtype=F64), lambda: torch.rand(d(1021, 7), 1, dtype=F64))


def cahn_hilliard(c):
    def lap(t): return sum(t.roll(s, k) for k in range(3) for s in (1, -1)) - 6 * t
    mu = c ** 3 - c - 0.5 * lap(c)
    return c + 0.01 * lap(mu), (0.25 * (c * c - 1) ** 2).sum((1, 2))
w("cahn_hilliard_3d_f64", cahn_hilliard, lambda: torch.rand(d(160, 9), d(161, 11), d(163, 13), dtype=F64) * 2 - 1)


def lattice_gas(x):
    for _ in range(2):
        head = ((x & 5) == 5) & ((x & 10) == 0) | ((x & 10) == 10) & ((x & 5) == 0)
        x = torch.where(head, x ^ 15, x)
        x = (x & 1).roll(-1, 1) | (x & 2).roll(1, 2) | (x & 4).roll(1, 1) | (x & 8).roll(-1, 2)
    n = (x & 1) + (x >> 1 & 1) + (x >> 2 & 1) + (x >> 3)
    return x, n.sum(2), ((x >> 1 & 1).to(I32) - (x >> 3).to(I32)).sum((1, 2))
w("lattice_gas_2_steps", lattice_gas, ints(16, d(24, 2), d(1023, 21), d(1025, 23), dtype=U8))


def jacobi_3(q, f, k, inner):
    side = lambda t: (t.roll(1, 1), t.roll(-1, 1), t.roll(1, 2), t.roll(-1, 2))
    kk = [(k + s) / 2 for s in side(k)]
    total = sum(kk)
    for _ in range(3):
        q = torch.where(inner, 0.2 * q + 0.8 * (sum(a * b for a, b in zip(kk, side(q))) + f) / total, q)
    return q, (sum(a * b for a, b in zip(kk, side(q))) + f - total * q).mul(inner).abs().amax((1, 2))
def inside(h, ww):
    return lambda: F.pad(torch.ones(h - 2, ww - 2, dtype=torch.bool), (1, 1, 1, 1))
w("jacobi_3_sweeps", jacobi_3, r(d(24, 2), d(513, 15), d(515, 17)), r(d(24, 2), d(513, 15), d(515, 17)), lambda: torch.rand(d(24, 2), d(513, 15), d(515, 17)) + .5, inside(d(513, 15), d(515, 17)))


def inverse_4(m):
    a = [[m[:, i, j] for j in range(4)] for i in range(4)]
    s = lambda i, j: a[0][i] * a[1][j] - a[1][i] * a[0][j]
    c = lambda i, j: a[2][i] * a[3][j] - a[3][i] * a[2][j]
    s0, s1, s2, s3, s4, s5 = s(0, 1), s(0, 2), s(0, 3), s(1, 2), s(1, 3), s(2, 3)
    c0, c1, c2, c3, c4, c5 = c(0, 1), c(0, 2), c(0, 3), c(1, 2), c(1, 3), c(2, 3)
    det = s0 * c5 - s1 * c4 + s2 * c3 + s3 * c2 - s4 * c1 + s5 * c0
    rows = ((a[1][1] * c5 - a[1][2] * c4 + a[1][3] * c3, -a[0][1] * c5 + a[0][2] * c4 - a[0][3] * c3, a[3][1] * s5 - a[3][2] * s4 + a[3][3] * s3, -a[2][1] * s5 + a[2][2] * s4 - a[2][3] * s3),
            (-a[1][0] * c5 + a[1][2] * c2 - a[1][3] * c1, a[0][0] * c5 - a[0][2] * c2 + a[0][3] * c1, -a[3][0] * s5 + a[3][2] * s2 - a[3][3] * s1, a[2][0] * s5 - a[2][2] * s2 + a[2][3] * s1),
            (a[1][0] * c4 - a[1][1] * c2 + a[1][3] * c0, -a[0][0] * c4 + a[0][1] * c2 - a[0][3] * c0, a[3][0] * s4 - a[3][1] * s2 + a[3][3] * s0, -a[2][0] * s4 + a[2][1] * s2 - a[2][3] * s0),
            (-a[1][0] * c3 + a[1][1] * c1 - a[1][2] * c0, a[0][0] * c3 - a[0][1] * c1 + a[0][2] * c0, -a[3][0] * s3 + a[3][1] * s1 - a[3][2] * s0, a[2][0] * s3 - a[2][1] * s1 + a[2][2] * s0))
    return torch.stack([torch.stack(row, -1) for row in rows], 1) / det[:, None, None], det
w("inverse_4x4_by_minors", inverse_4, lambda: torch.rand(d(1000003, 211), 4, 4) - .5 + 2 * torch.eye(4))


def cholesky_3(p, b):
    a00, a10, a11, a20, a21, a22 = p.unbind(1)
    l00 = a00.sqrt(); l10 = a10 / l00; l20 = a20 / l00
    l11 = (a11 - l10 * l10).sqrt(); l21 = (a21 - l20 * l10) / l11
    l22 = (a22 - l20 * l20 - l21 * l21).sqrt()
    y0 = b[:, 0] / l00; y1 = (b[:, 1] - l10 * y0) / l11; y2 = (b[:, 2] - l20 * y0 - l21 * y1) / l22
    x2 = y2 / l22; x1 = (y1 - l21 * x2) / l11; x0 = (y0 - l10 * x1 - l20 * x2) / l00
    return torch.stack((x0, x1, x2), 1), 2 * (l00.log() + l11.log() + l22.log()), y0 * y0 + y1 * y1 + y2 * y2
def packed_spd(n):
    def make():
        m = torch.randn(n, 3, 3)
        m = m @ m.mT + torch.eye(3)
        return m[:, [0, 1, 1, 2, 2, 2], [0, 0, 1, 0, 1, 2]].contiguous()
    return make
w("cholesky_3x3_solve", cholesky_3, packed_spd(d(1500007, 307)), r(d(1500007, 307), 3))


def quaternion_chain(q, bone):
    q = F.normalize(q, dim=2)
    at = torch.zeros_like(q[:, 0, :3]); now = None; places = []
    for k in range(q.shape[1]):
        c = q[:, k]
        if now is None: now = c
        else:
            s, v, t, e = now[:, :1], now[:, 1:], c[:, :1], c[:, 1:]
            now = torch.cat((s * t - (v * e).sum(1, keepdim=True), s * e + t * v + torch.linalg.cross(v, e)), 1)
        v = now[:, 1:]
        t = 2 * torch.linalg.cross(v, bone[k].expand_as(v))
        at = at + bone[k] + now[:, :1] * t + torch.linalg.cross(v, t)
        places.append(at)
    return torch.stack(places, 1), now
w("quaternion_chain_8", quaternion_chain, turned(r(8, 4, d(200003, 103)), 2, 0, 1), r(8, 3))


def splats(mean, conic, colour):
    i = arange(256, mean)
    pix = torch.stack((i % 16, i // 16), 1).float() + .5
    e = pix.unsqueeze(1) - mean.unsqueeze(1)
    a, b, c, o = conic.unsqueeze(1).unbind(-1)
    alpha = (o * torch.exp(-0.5 * (a * e[..., 0] ** 2 + c * e[..., 1] ** 2) - b * e[..., 0] * e[..., 1])).clamp(max=.99)
    left = (1 - alpha).cumprod(-1)
    wgt = alpha * F.pad(left[..., :-1], (1, 0), value=1.0)
    return torch.einsum("tps,tsc->tpc", wgt, colour), left[..., -1], wgt.amax(-1)
w("gaussian_splat_tiles", splats, lambda: torch.rand(d(1500, 5), 64, 2) * 16, lambda: (lambda z: torch.stack((z[..., 0] + .1, .2 * z[..., 2] - .1, z[..., 1] + .1, z[..., 3]), -1))(torch.rand(d(1500, 5), 64, 4)), u(d(1500, 5), 64, 3))


# ---------------------------------------------------------------------------------------------------- 9. sampling and inference
def tail_free(x):
    p, i = x.softmax(-1).sort(-1, descending=True)
    bend = (p[:, 2:] - 2 * p[:, 1:-1] + p[:, :-2]).abs()
    c = (bend / bend.sum(-1, keepdim=True)).cumsum(-1)
    keep = F.pad(torch.sigmoid((0.95 - c) * 200), (1, 1), value=1.0)
    q = torch.zeros_like(x).scatter(1, i, p * keep)
    return q / q.sum(-1, keepdim=True)
w("tail_free_soft", tail_free, r(d(256, 5), d(50257, 307)))


def penalties(x, seen, n):
    ok = (arange(seen.shape[1], x) < n.unsqueeze(1)).to(I32)
    c = torch.zeros(x.shape, dtype=I32, device=x.device).scatter_add(1, seen, ok)
    f = x.float()
    f = torch.where(c > 0, torch.where(f > 0, f / 1.2, f * 1.2), f)
    return (f - 0.2 * c - 0.5 * (c > 0)).to(x.dtype), c.amax(1)
w("count_penalties", penalties, r(d(512, 7), d(50257, 211), dtype=BF16), ints(d(50257, 211), d(512, 7), d(1500, 41)), ints(d(1500, 41), d(512, 7)))


def beam_step(x, score, past):
    v = x.shape[-1]
    best, i = (score.unsqueeze(2) + x.log_softmax(-1)).flatten(1).topk(8, 1)
    parent, token = i // v, i % v
    old = past.gather(1, parent.unsqueeze(2).expand(-1, -1, past.shape[2]))
    return best / (past.shape[2] + 1) ** 0.6, torch.cat((old, token.unsqueeze(2)), 2), token == 2
w("beam_step_with_history", beam_step, r(d(64, 3), 4, d(50257, 211)), lambda: -torch.rand(d(64, 3), 4), ints(d(50257, 211), d(64, 3), 4, d(197, 13)))


def block_trigrams(x, past):
    t = past.unfold(1, 3, 1)
    hit = (t[..., 0] == past[:, -2:-1]) & (t[..., 1] == past[:, -1:])
    bans = torch.zeros(x.shape, dtype=I32, device=x.device).scatter_add(1, t[..., 2], hit.to(I32)) > 0
    return (x.float().masked_fill(bans, -60.0) / 0.8).softmax(-1).to(x.dtype), bans.sum(1)
w("block_trigrams", block_trigrams, r(d(512, 7), d(50257, 211), dtype=F16), lambda: torch.randint(0, 12, (d(512, 7), d(1500, 211))) * 13 + 5)


def kv_write(kc, vc, k, v, pos):
    at = torch.arange(kc.shape[0], device=kc.device)
    kc[at, pos] = k
    vc.scatter_(3, pos.view(-1, 1, 1, 1).expand(v.shape[0], v.shape[1], v.shape[2], 1), v.unsqueeze(3))
    return (kc[at, pos - 1].float() * k.float()).sum(-1), vc[..., 0] + v
w("kv_write_positions", kv_write, r(d(32, 3), d(1024, 17), d(8, 2), d(128, 10), dtype=BF16), r(d(32, 3), d(8, 2), d(128, 10), d(1024, 17), dtype=BF16), r(d(32, 3), d(8, 2), d(128, 10), dtype=BF16), r(d(32, 3), d(8, 2), d(128, 10), dtype=BF16), ints(d(1024, 17), d(32, 3), low=1))


def paged(q, kp, vp, table, n):
    b, h, c = q.shape
    k, v = kp[table].flatten(1, 2), vp[table].flatten(1, 2)
    g = q.view(b, k.shape[2], -1, c)
    s = torch.einsum("bhgc,blhc->bhgl", g.float(), k.float()) / math.sqrt(c)
    p = s.masked_fill((arange(k.shape[1], q) >= n.unsqueeze(1))[:, None, None], -1e4).softmax(-1)
    return torch.einsum("bhgl,blhc->bhgc", p, v.float()).reshape(b, h, c).half(), p.amax(-1)
w("paged_grouped_decode", paged, r(d(48, 3), 16, d(128, 24), dtype=F16), r(d(2048, 19), 16, 4, d(128, 24), dtype=F16), r(d(2048, 19), 16, 4, d(128, 24), dtype=F16), lambda: torch.randperm(d(2048, 19))[:d(1920, 15)].view(d(48, 3), d(40, 5)), ints(d(640, 80), d(48, 3), low=1))


def rotary_partial(x, pos, cos, sin):
    c, s = cos[pos].unsqueeze(2), sin[pos].unsqueeze(2)
    a, b = x[..., :16].float(), x[..., 16:32].float()
    return torch.cat(((a * c - b * s).to(x.dtype), (b * c + a * s).to(x.dtype), x[..., 32:]), -1).transpose(1, 2).contiguous()
w("rotary_partial_positions", rotary_partial, r(d(8, 2), d(1500, 13), d(24, 3), 96, dtype=BF16), ints(d(4096, 67), d(8, 2), d(1500, 13)), lambda: torch.cos(torch.arange(d(4096, 67))[:, None] * 10000 ** (-torch.arange(16) / 16)), lambda: torch.sin(torch.arange(d(4096, 67))[:, None] * 10000 ** (-torch.arange(16) / 16)))


def window_and_sinks(x, sink, slope):
    n = x.shape[-1]
    away = arange(n, x)[:, None] - arange(n, x)
    keep = (away >= 0) & ((away < d(256, 7)) | (arange(n, x) < 4))
    s = (x.float() - slope.view(-1, 1, 1) * away).masked_fill(~keep, float("-inf"))
    m = torch.maximum(s.amax(-1, keepdim=True), sink.view(-1, 1, 1))
    e = torch.exp(s - m)
    return (e / (e.sum(-1, keepdim=True) + torch.exp(sink.view(-1, 1, 1) - m))).half()
w("window_and_sinks_softmax", window_and_sinks, r(d(3, 1), 12, d(1031, 37), d(1031, 37), dtype=F16), r(12), lambda: 2.0 ** -(torch.arange(12) / 2 + 1))


# ---------------------------------------------------------------------------------------------------- 10. training utilities
ODD = d([(1021, 1031), (50257, 17), (1500,), (197, 7, 769), (3, 3, 97, 101), (1,)], [(11, 13), (31, 3), (15,), (7, 3, 5), (3, 3, 2, 5), (1,)])


def ademamix(*t):
    p, g, fast, slow, v = (list(t[i:i + 6]) for i in range(0, 30, 6))
    torch._foreach_lerp_(fast, g, 0.1)
    torch._foreach_lerp_(slow, g, 0.001)
    torch._foreach_mul_(v, 0.999)
    torch._foreach_addcmul_(v, g, g, 0.001)
    under = torch._foreach_add(torch._foreach_sqrt(v), 1e-3)
    step = torch._foreach_div(torch._foreach_add(fast, slow, alpha=5.0), under)
    torch._foreach_add_(step, p, alpha=0.1)
    torch._foreach_add_(p, step, alpha=-1e-2)
    return torch.stack(torch._foreach_norm(step)).norm()
w("ademamix_foreach", ademamix, *[r(*s) for _ in range(4) for s in ODD], *[u(*s) for s in ODD])


ODD16 = d([(4001, 1999), (50257, 33), (197, 7, 769), (1500,), (1,)], [(11, 13), (31, 3), (7, 3, 5), (15,), (1,)])
def scaled_step(scale, good, *t):
    p, g = t[:5], [x.float() / scale for x in t[5:]]
    bad = torch.stack([(~torch.isfinite(x)).any() for x in g]).any()
    norm = torch.stack([x.square().sum() for x in g]).sum().sqrt()
    k = torch.where(bad, 0.0, (1.0 / (norm + 1e-6)).clamp(max=1))
    good = torch.where(bad, 0, good + 1)
    new = [torch.where(bad, a, a - 0.1 * (torch.nan_to_num(b) * k + 0.01 * a)) for a, b in zip(p, g)]
    return new, [x.half() for x in new], torch.where(bad, scale / 2, torch.where(good >= 2000, scale * 2, scale)), good, norm
w("unscale_check_clip_step", scaled_step, lambda: torch.tensor(1024.0), lambda: torch.tensor(1999), *[r(*s) for s in ODD16], *[r(*s, dtype=F16) for s in ODD16])


def ties_merge(base, a, b, c):
    f = base.float()
    t = [x.float() - f for x in (a, b, c)]
    sign = torch.sign(t[0] + t[1] + t[2])
    keep = [(torch.sign(x) == sign).float() for x in t]
    return (f + 0.7 * sum(x * k for x, k in zip(t, keep)) / sum(keep).clamp(min=1)).to(base.dtype), torch.stack([k.mean() for k in keep])
w("ties_merge_3", ties_merge, *[r(d(4999, 31), d(3001, 37), dtype=BF16)] * 4)


def sm3(p, g, row, col):
    acc = torch.minimum(row.unsqueeze(1), col) + g * g
    return p - 0.1 * g / (acc.sqrt() + 1e-6), acc.amax(1), acc.amax(0)
w("sm3_cover", sm3, r(d(4099, 31), d(3001, 37)), turned(r(d(3001, 37), d(4099, 31)), 1, 0), lambda: torch.rand(d(4099, 31)) + .1, lambda: torch.rand(d(3001, 37)) + .1)


def sign_compress(g, err):
    v = (g + err).view(-1, 512)
    s = v.abs().mean(1, keepdim=True)
    up = v >= 0
    bits = (up.view(-1, 64, 8).to(I32) << arange(8, g, I32)).sum(2).to(U8)
    err.copy_((v - torch.where(up, s, -s)).view(-1))
    return bits, s.squeeze(1)
w("sign_compress_feedback", sign_compress, r(d(16007, 7) * 512), r(d(16007, 7) * 512, scale=.3))


def sparsify(g, m):
    m = 0.9 * m + g
    i = m.abs().topk(33, 1)[1]
    v = m.gather(1, i)
    return i.sort(1)[0].to(I32), m.scatter(1, i, 0.0), v.abs().amin(1), v.square().sum(1) / m.square().sum(1)
w("topk_sparsify_momentum", sparsify, r(d(6007, 7), d(2053, 101)), r(d(6007, 7), d(2053, 101)))


def slerp_rows(a, b, t):
    x, y = a.float(), b.float()
    nx, ny = x.norm(dim=1, keepdim=True), y.norm(dim=1, keepdim=True)
    o = torch.acos(((x * y).sum(1, keepdim=True) / (nx * ny)).clamp(-.999, .999))
    t = t.unsqueeze(1)
    z = (torch.sin((1 - t) * o) * x / nx + torch.sin(t * o) * y / ny) / torch.sin(o)
    return (z * (nx + t * (ny - nx))).half()
w("slerp_rows_merge", slerp_rows, r(d(8191, 31), d(4100, 67), dtype=F16), r(d(8191, 31), d(4100, 67), dtype=F16), u(d(8191, 31)))


def split_master(hi, lo, g):
    """A float32 weight kept as its upper (bfloat16) and lower (int16) halves; the step is a power of two, so exact up to one rounding."""
    v = ((hi.view(I16).to(I32) << 16) | (lo.to(I32) & 0xFFFF)).view(F32)
    bits = (v - g.float() * 2.0 ** -10).view(I32)
    hi.copy_((bits >> 16).to(I16).view(BF16))
    lo.copy_((((bits & 0xFFFF) ^ 0x8000) - 0x8000).to(I16))
    return v.abs().amax(), g.float().square().mean(1)
w("split_master_sgd", split_master, r(d(6007, 31), d(4001, 67), dtype=BF16), ints(2 ** 15, d(6007, 31), d(4001, 67), dtype=I16, low=-2 ** 15), r(d(6007, 31), d(4001, 67), dtype=BF16))
