"""Functions of other fields once more: control and estimation, pictures, sound, grids, molecules, trees and tables, sampling, optimizers,
statistics. W maps a name to a function that gives (module, inputs); with SMALL=1 in the environment inputs are small enough for a host
(check_functions.py), else each has 20 MB and more (sweep.py --workloads, through the backend)."""
import math
import os

import torch
import torch.nn.functional as F
from torch.func import grad

from function_module import Fn, ints, mask, r, u

BF16, F16, F32 = torch.bfloat16, torch.float16, torch.float32
THROUGH_BACKEND = True
SMALL = bool(os.environ.get("SMALL"))
W = {}


def w(name, f, *inputs):
    W[name] = lambda: (Fn(f), tuple(one() for one in inputs))


def d(big, small):
    return small if SMALL else big


# ---- control and estimation
def kalman(x, P, A, H, Q, R, z):
    xp = A @ x.unsqueeze(-1); Pp = A @ P @ A.transpose(-1, -2) + Q; y = z.unsqueeze(-1) - H @ xp
    Sm = H @ Pp @ H.transpose(-1, -2) + R; det = Sm[..., 0, 0] * Sm[..., 1, 1] - Sm[..., 0, 1] * Sm[..., 1, 0]
    inv = torch.stack((torch.stack((Sm[..., 1, 1], -Sm[..., 0, 1]), -1), torch.stack((-Sm[..., 1, 0], Sm[..., 0, 0]), -1)), -2) / det[..., None, None]
    K = Pp @ H.transpose(-1, -2) @ inv; return (xp + K @ y).squeeze(-1), Pp - K @ H @ Pp
n = d(400000, 37)
w("kalman_4", kalman, r(n, 4), lambda: torch.eye(4).repeat(n, 1, 1), r(4, 4), r(2, 4), lambda: torch.eye(4) * .1, lambda: torch.eye(2), r(n, 2))
w("pid_step", lambda e, i, p, lim: (lambda s: (1.2 * e + 0.3 * s + 0.05 * (e - p), s))((i + e * 0.01).clamp(-lim, lim)), *[r(d(8000000, 101))] * 3, lambda: torch.tensor(0.7))
def viterbi(em, tr):
    s = em[:, 0]; back = []
    for t in range(1, 8):
        v, k = (s.unsqueeze(2) + tr).max(1); s = v + em[:, t]; back.append(k)
    return s.max(1), torch.stack(back, 1)
w("viterbi_8", viterbi, r(d(16384, 5), 8, 24), r(24, 24))
def forward_hmm(em, tr):
    s = em[:, 0]
    for t in range(1, 6): s = torch.logsumexp(s.unsqueeze(2) + tr, 1) + em[:, t]
    return s.logsumexp(1)
w("hmm_forward", forward_hmm, r(d(16384, 7), 6, 32), r(32, 32))
w("crf_score", lambda e, t, y, m: (e.gather(2, y.unsqueeze(2)).squeeze(2) * m).sum(1) + (t[y[:, :-1], y[:, 1:]] * m[:, 1:]).sum(1), r(d(8192, 9), 128, 20), r(20, 20), ints(20, d(8192, 9), 128), lambda: (torch.rand(d(8192, 9), 128) < .9).float())
w("kmeans_step", lambda x, c: (lambda a: (torch.zeros_like(c).index_add(0, a, x) / torch.zeros(c.shape[0], device=x.device).index_add(0, a, torch.ones_like(x[:, 0])).clamp(min=1).unsqueeze(1), a))(torch.cdist(x, c).argmin(1)), r(d(200000, 67), 32), r(64, 32))
w("conjugate_step", lambda x, rr, p, Ap: (lambda a: (x + a * p, rr - a * Ap, rr - a * Ap + ((rr - a * Ap).square().sum(-1, keepdim=True) / rr.square().sum(-1, keepdim=True)) * p))(rr.square().sum(-1, keepdim=True) / (p * Ap).sum(-1, keepdim=True)), *[r(d(4096, 11), 4096 if not SMALL else 33)] * 4)
def lbfgs(g, s, y):
    q = g; al = []
    for i in range(4):
        a = (s[i] * q).sum() / (s[i] * y[i]).sum(); q = q - a * y[i]; al.append(a)
    for i in reversed(range(4)): q = q + s[i] * (al[i] - (y[i] * q).sum() / (s[i] * y[i]).sum())
    return -q
w("lbfgs_4", lbfgs, r(d(4000000, 501)), r(4, d(4000000, 501)), r(4, d(4000000, 501)))
w("power_iteration", lambda A, v: (lambda x: (x / x.norm(dim=1, keepdim=True), (x * v).sum(1)))(torch.bmm(A, v.unsqueeze(2)).squeeze(2)), r(d(64, 3), d(1024, 17), d(1024, 17)), r(d(64, 3), d(1024, 17)))

# ---- pictures
b, hh = d(16, 2), d(1024, 19)
def canny_nms(gx, gy):
    m = (gx * gx + gy * gy).sqrt(); a = torch.atan2(gy, gx); q = (a * 4 / math.pi).round().long() % 4; p = F.pad(m, (1, 1, 1, 1))
    n1 = torch.where(q == 0, p[:, 1:-1, 2:], torch.where(q == 1, p[:, 2:, 2:], torch.where(q == 2, p[:, 2:, 1:-1], p[:, 2:, :-2])))
    n2 = torch.where(q == 0, p[:, 1:-1, :-2], torch.where(q == 1, p[:, :-2, :-2], torch.where(q == 2, p[:, :-2, 1:-1], p[:, :-2, 2:])))
    return m * ((m >= n1) & (m >= n2))
w("canny_nms", canny_nms, r(b, hh, hh), r(b, hh, hh))
w("bilateral_5", lambda x: (lambda p: (lambda ps: (lambda ws: (ws * ps).sum(1) / ws.sum(1))(torch.exp(-(ps - x.unsqueeze(1)) ** 2 / 0.1)))(torch.stack([p[:, i:i + x.shape[1], j:j + x.shape[2]] for i in range(5) for j in range(5)], 1)))(F.pad(x.unsqueeze(1), (2, 2, 2, 2), mode="reflect").squeeze(1)), u(b, hh, hh))
dct = lambda: torch.tensor([[math.cos((2 * j + 1) * i * math.pi / 16) * (0.5 if i else 8 ** -.5) for j in range(8)] for i in range(8)])
w("jpeg_blocks", lambda x, D, q: (torch.einsum("ij,bhjwk,lk->bhwil", D, x.view(x.shape[0], x.shape[1] // 8, 8, x.shape[2] // 8, 8) - 0.5, D) / q).round() * q, u(b, d(1024, 24), d(1024, 40)), dct, u(8, 8))
w("haar_2d", lambda x: (lambda a, c, e, g: torch.stack(((a + c + e + g) / 2, (a - c + e - g) / 2, (a + c - e - g) / 2, (a - c - e + g) / 2), 1))(x[:, ::2, ::2], x[:, ::2, 1::2], x[:, 1::2, ::2], x[:, 1::2, 1::2]), r(b, d(2048, 22), d(2048, 34)))
w("haar_2d_inverse", lambda y: torch.stack((torch.stack((y[:, 0] + y[:, 1] + y[:, 2] + y[:, 3], y[:, 0] - y[:, 1] + y[:, 2] - y[:, 3]), -1).flatten(-2), torch.stack((y[:, 0] + y[:, 1] - y[:, 2] - y[:, 3], y[:, 0] - y[:, 1] - y[:, 2] + y[:, 3]), -1).flatten(-2)), 2).flatten(1, 2) / 2, r(b, 4, d(1024, 11), d(1024, 17)))
w("otsu", lambda x: (lambda h: (lambda cw, cm: (lambda s: s.argmax(-1))(((cm[:, -1:] * cw / cw[:, -1:] - cm) ** 2 / (cw * (cw[:, -1:] - cw)).clamp(min=1e-6))))(h.cumsum(-1), (h * torch.arange(256, device=x.device)).cumsum(-1)))(torch.zeros(x.shape[0], 256, device=x.device).scatter_add(1, x.long(), torch.ones_like(x, dtype=torch.float32))), ints(256, d(64, 3), d(262144, 500), dtype=torch.uint8))
w("hist_equalize", lambda x: (lambda h: (lambda c: c.gather(1, x.long()).to(torch.uint8))((h.cumsum(1) - h[:, :1]) * 255 / (x.shape[1] - h[:, :1])))(torch.zeros(x.shape[0], 256, device=x.device).scatter_add(1, x.long(), torch.ones_like(x, dtype=torch.float32))), ints(256, d(64, 3), d(262144, 500), dtype=torch.uint8))
w("perspective_grid", lambda H, x: (lambda g: F.grid_sample(x, (g[..., :2] / g[..., 2:]).view(x.shape[0], x.shape[2], x.shape[3], 2), align_corners=False, padding_mode="border"))(torch.stack((torch.linspace(-1, 1, x.shape[3], device=x.device).expand(x.shape[2], -1), torch.linspace(-1, 1, x.shape[2], device=x.device)[:, None].expand(-1, x.shape[3]), torch.ones(x.shape[2], x.shape[3], device=x.device)), -1).view(-1, 3) @ H.transpose(1, 2)), lambda: torch.eye(3).repeat(d(16, 2), 1, 1) + torch.rand(d(16, 2), 3, 3) * .1, u(d(16, 2), 3, d(512, 15), d(512, 13)))
w("morph_open", lambda x: F.max_pool2d(-F.max_pool2d(-x, 3, 1, 1), 3, 1, 1), u(b, 3, hh, hh))
w("median_blur", lambda x: F.unfold(x, 3, padding=1).view(x.shape[0], 9, -1).median(1)[0].view_as(x), u(d(8, 2), 1, d(1024, 21), d(1024, 18)))
w("unsharp", lambda x, k: (x + 0.7 * (x - F.conv2d(F.pad(x, (2,) * 4, mode="reflect"), k.expand(3, 1, 5, 5), groups=3))).clamp(0, 1), u(b, 3, d(768, 15), d(768, 17)), u(1, 1, 5, 5))
w("rgb_to_lab", lambda x, M: (lambda l: (lambda t: (lambda f: torch.stack((116 * f[:, 1] - 16, 500 * (f[:, 0] - f[:, 1]), 200 * (f[:, 1] - f[:, 2])), 1))(torch.where(t > 0.008856, t.pow(1 / 3), 7.787 * t + 16 / 116)))(torch.einsum("ij,bjhw->bihw", M, l)))(torch.where(x > 0.04045, ((x + 0.055) / 1.055) ** 2.4, x / 12.92)), u(b, 3, d(1024, 15), d(1024, 17)), u(3, 3))
w("crop_flip_normalize", lambda x, m, s: ((x[:, 16:-16, 16:-16].flip(2).permute(0, 3, 1, 2).float() / 255 - m.view(1, 3, 1, 1)) / s.view(1, 3, 1, 1)).half(), ints(256, d(64, 2), d(544, 41), d(544, 45), 3, dtype=torch.uint8), u(3), u(3))
w("dither_threshold", lambda x, m: (x > m.repeat(x.shape[1] // 8, x.shape[2] // 8)).to(torch.uint8) * 255, u(d(32, 2), d(1024, 24), d(1024, 16)), u(8, 8))
w("roi_bilinear", lambda f, bx: (lambda ys, xs: F.grid_sample(f, torch.stack((xs.unsqueeze(1).expand(-1, 7, -1), ys.unsqueeze(2).expand(-1, -1, 7)), -1), align_corners=False))((bx[:, 1:2] + (bx[:, 3:4] - bx[:, 1:2]) * (torch.arange(7, device=f.device) + .5) / 7), (bx[:, 0:1] + (bx[:, 2:3] - bx[:, 0:1]) * (torch.arange(7, device=f.device) + .5) / 7)), r(d(256, 3), 64, d(56, 11), d(56, 9)), lambda: torch.rand(d(256, 3), 4) * 2 - 1)
w("centernet_peaks", lambda x: (lambda m: (x * (m == x)).flatten(1).topk(20))(F.max_pool2d(x, 3, 1, 1)), u(d(16, 2), d(20, 3), d(128, 11), d(128, 13)))
w("giou_loss_grad", lambda a, t: grad(lambda p: (lambda i, e: (1 - i[0] / i[1] + (e - i[1]) / e).mean())((lambda wh, ar: (wh, ar - wh))(((torch.min(p[:, 2:], t[:, 2:]) - torch.max(p[:, :2], t[:, :2])).clamp(min=0)).prod(1), (p[:, 2:] - p[:, :2]).prod(1) + (t[:, 2:] - t[:, :2]).prod(1)), (torch.max(p[:, 2:], t[:, 2:]) - torch.min(p[:, :2], t[:, :2])).prod(1)))(a), lambda: torch.cat((torch.rand(d(1000000, 43), 2), 1 + torch.rand(d(1000000, 43), 2)), 1), lambda: torch.cat((torch.rand(d(1000000, 43), 2), 1 + torch.rand(d(1000000, 43), 2)), 1))

# ---- sound
w("delta_features", lambda x: (lambda dx: torch.cat((x, dx, (F.pad(dx, (2, 2), mode="replicate")[..., 4:] - F.pad(dx, (2, 2), mode="replicate")[..., :-4]) / 4), 1))((F.pad(x, (2, 2), mode="replicate")[..., 4:] - F.pad(x, (2, 2), mode="replicate")[..., :-4]) / 4), r(d(64, 3), 80, d(3000, 31)))
w("spectral_flux", lambda x: (x[:, :, 1:] - x[:, :, :-1]).clamp(min=0).square().sum(1).sqrt(), u(d(64, 3), d(513, 17), d(1000, 31)))
w("spectral_centroid", lambda x, f: (x * f.unsqueeze(1)).sum(1) / x.sum(1).clamp(min=1e-8), u(d(64, 3), d(1025, 17), d(1000, 31)), u(d(1025, 17)))
w("chroma_fold", lambda x: x.view(x.shape[0], -1, 12, x.shape[2]).sum(1).div(x.sum(1, keepdim=True) + 1e-6), u(d(64, 3), 84, d(4000, 31)))
w("wavenet_gate", lambda x, s: (lambda z: (z[:, :64] + x, z[:, 64:] + s))((lambda y: torch.tanh(y) * torch.sigmoid(y.roll(1, 1)))(torch.cat((x, s), 1))), r(d(16, 2), 64, d(16000, 53)), r(d(16, 2), 64, d(16000, 53)))
w("snake", lambda x, a: x + torch.sin(a * x) ** 2 / (a + 1e-9), r(d(16, 2), 256, d(8192, 37)), u(256, 1))
w("biquad_blocks", lambda x, bb: bb[0] * x[:, 2:] + bb[1] * x[:, 1:-1] + bb[2] * x[:, :-2], r(d(64, 2), d(480000, 100)), r(3))
w("pan_and_limit", lambda x, p: torch.tanh(torch.stack((x * torch.cos(p * math.pi / 2), x * torch.sin(p * math.pi / 2)), 1) * 1.5), r(d(64, 2), d(480000, 101)), u(d(64, 2), 1))
w("dc_removed_rms", lambda x: (lambda y: y / y.square().mean(-1, keepdim=True).sqrt().clamp(min=1e-4))(x - x.mean(-1, keepdim=True)), r(d(256, 3), d(160000, 203)))

# ---- science
def fdtd(E, Hx, Hy): return (lambda hx, hy: (E[:, 1:-1, 1:-1] + 0.5 * ((hy[:, 1:, 1:-1] - hy[:, :-1, 1:-1]) - (hx[:, 1:-1, 1:] - hx[:, 1:-1, :-1])), hx, hy))(Hx - 0.5 * (E[:, :, 1:] - E[:, :, :-1]), Hy + 0.5 * (E[:, 1:, :] - E[:, :-1, :]))
g_ = d(1024, 21)
w("fdtd_tm", fdtd, r(d(16, 2), g_, g_), r(d(16, 2), g_, g_ - 1), r(d(16, 2), g_ - 1, g_))
w("gray_scott", lambda U, V: (lambda L: (U + 0.16 * L(U) - U * V * V + 0.06 * (1 - U), V + 0.08 * L(V) + U * V * V - 0.122 * V))(lambda t: t.roll(1, -1) + t.roll(-1, -1) + t.roll(1, -2) + t.roll(-1, -2) - 4 * t), u(d(16, 2), g_, g_), u(d(16, 2), g_, g_))
w("ising_checkerboard", lambda s, rnd, m: torch.where((rnd < torch.exp(-0.8 * s * (s.roll(1, 1) + s.roll(-1, 1) + s.roll(1, 2) + s.roll(-1, 2)))) & m, -s, s), lambda: torch.randint(0, 2, (d(16, 2), d(2048, 22), d(2048, 26))).float() * 2 - 1, u(d(16, 2), d(2048, 22), d(2048, 26)), mask(d(2048, 22), d(2048, 26)))
w("burgers_flux", lambda x: (lambda p, m: x - 0.1 * (torch.maximum(p, m)[:, 1:] - torch.maximum(p, m)[:, :-1])[:, :x.shape[1]])(F.pad(x, (1, 1)).clamp(min=0).square()[:, :-1] / 2, F.pad(x, (1, 1)).clamp(max=0).square()[:, 1:] / 2), r(d(4096, 5), d(8192, 41)))
w("rk4_oscillators", lambda x, v, k: (lambda f: (lambda k1: (lambda k2: (lambda k3: (lambda k4: (x + 0.01 / 6 * (k1[0] + 2 * k2[0] + 2 * k3[0] + k4[0]), v + 0.01 / 6 * (k1[1] + 2 * k2[1] + 2 * k3[1] + k4[1])))(f(x + 0.01 * k3[0], v + 0.01 * k3[1])))(f(x + 0.005 * k2[0], v + 0.005 * k2[1])))(f(x + 0.005 * k1[0], v + 0.005 * k1[1])))(f(x, v)))(lambda a, c: (c, -k * torch.sin(a) - 0.1 * c)), *[r(d(16000000, 103))] * 3)
w("lorenz_many", lambda s: (lambda x, y, z: torch.stack((x + 0.01 * 10 * (y - x), y + 0.01 * (x * (28 - z) - y), z + 0.01 * (x * y - 8 / 3 * z)), -1))(s[:, 0], s[:, 1], s[:, 2]), r(d(8000000, 77), 3))
w("sph_kernel", lambda p, nb: (lambda q: torch.where(q < 1, 1 - 1.5 * q ** 2 + 0.75 * q ** 3, torch.where(q < 2, 0.25 * (2 - q) ** 3, 0.0)).sum(1))((p[nb] - p.unsqueeze(1)).norm(dim=-1) * 2), r(d(200000, 41), 3), ints(d(200000, 41), d(200000, 41), 32))
w("ewald_self", lambda q, x, k: (lambda ph: ((q * ph.cos()).sum(1) ** 2 + (q * ph.sin()).sum(1) ** 2))((x @ k).transpose(0, 1)), r(d(20000, 33)), r(d(20000, 33), 3), r(3, d(512, 20)))
w("fourier_mix", lambda x: torch.fft.fft2(x).real, r(d(16, 2), d(512, 12), d(256, 16)))
w("spectral_conv_1d", lambda x, wr, wi: torch.fft.irfft((lambda X: torch.einsum("bix,iox->box", X[..., :8], torch.complex(wr, wi)))(torch.fft.rfft(x)), n=x.shape[-1]), r(d(64, 2), 16, 256), r(16, 16, 8), r(16, 16, 8))
w("complex_rotation", lambda x, ph: torch.view_as_real(torch.view_as_complex(x) * torch.polar(torch.ones_like(ph), ph)), r(d(64, 2), d(16384, 19), 32, 2), r(d(16384, 19), 32))
w("mandelbrot_8", lambda cr, ci: sum_mandel(cr, ci), r(d(4096, 31), d(4096, 33)), r(d(4096, 31), d(4096, 33)))
def sum_mandel(cr, ci):
    x, y, c = torch.zeros_like(cr), torch.zeros_like(cr), torch.zeros_like(cr, dtype=torch.int32)
    for _ in range(8): x, y = x * x - y * y + cr, 2 * x * y + ci; x = x.clamp(-4, 4); y = y.clamp(-4, 4); c = c + (x * x + y * y < 4).int()
    return c

# ---- biology and chemistry
w("one_hot_dna", lambda t: F.one_hot(t, 4).transpose(1, 2).float(), ints(4, d(256, 3), d(16384, 41)))
w("kmer_hash", lambda t: (t[:, :-5] * 1024 + t[:, 1:-4] * 256 + t[:, 2:-3] * 64 + t[:, 3:-2] * 16 + t[:, 4:-1] * 4 + t[:, 5:]), ints(4, d(256, 3), d(65536, 41)))
w("reverse_complement", lambda t: torch.where(t < 4, 3 - t, t).flip(1), ints(5, d(256, 3), d(65536, 41)))
w("pair_bias_outer", lambda a, c, g: torch.einsum("bsic,bsjd->bijcd", a, c).flatten(3) * g, r(1, d(16, 3), d(128, 9), 8), r(1, d(16, 3), d(128, 9), 8), r(64))
w("dihedral_angles", lambda p: (lambda b1, b2, b3: (lambda n1, n2: torch.atan2((torch.linalg.cross(n1, n2) * F.normalize(b2, dim=-1)).sum(-1), (n1 * n2).sum(-1)))(torch.linalg.cross(b1, b2), torch.linalg.cross(b2, b3)))(p[:, 1:-2] - p[:, :-3], p[:, 2:-1] - p[:, 1:-2], p[:, 3:] - p[:, 2:-1]), r(d(4096, 3), d(512, 27), 3))
w("contact_map", lambda p: (torch.cdist(p, p) < 8.0).float().sum(-1), r(d(32, 2), d(1024, 23), 3, scale=10))

# ---- trees, tables, search
def tree(x, feat, thr, leaf):
    nidx = torch.zeros(x.shape[0], feat.shape[0], dtype=torch.int64, device=x.device); k = torch.arange(feat.shape[0], device=x.device)
    for _ in range(4): nidx = 2 * nidx + 1 + (x.gather(1, feat[k, nidx]) > thr[k, nidx]).long()
    return leaf[k, nidx - 15].sum(1)
w("boosted_trees", tree, r(d(65536, 21), 64), ints(64, 32, 15), r(32, 15), r(32, 16))
w("percent_rank_groups", lambda x: (x.unsqueeze(2) > x.unsqueeze(1)).float().mean(2), r(d(4096, 5), 128))
w("rolling_zscore", lambda x: (lambda wd: (x[:, 19:] - wd.mean(-1)) / wd.std(-1))(x.unfold(1, 20, 1)), r(d(1024, 5), d(8192, 61)))
w("bollinger", lambda x: (lambda m, s: torch.stack((m - 2 * s, m, m + 2 * s)))(F.avg_pool1d(x.unsqueeze(1), 20, 1).squeeze(1), (F.avg_pool1d((x * x).unsqueeze(1), 20, 1).squeeze(1) - F.avg_pool1d(x.unsqueeze(1), 20, 1).squeeze(1) ** 2).clamp(min=0).sqrt()), r(d(1024, 5), d(8192, 61)))
w("fill_forward", lambda x, m: x.gather(1, torch.where(m, torch.arange(x.shape[1], device=x.device).expand_as(x), 0).cummax(1)[0]), r(d(2048, 5), d(4096, 61)), mask(d(2048, 5), d(4096, 61)))
w("run_lengths", lambda m: (lambda c: c - torch.where(m, torch.zeros_like(c), c).cummax(1)[0])(m.long().cumsum(1)), mask(d(2048, 5), d(4096, 61)))
w("dedupe_sorted", lambda x: (lambda s: torch.where(F.pad(s[:, 1:] != s[:, :-1], (1, 0), value=True), s, -1))(x.sort(1)[0]), ints(500, d(4096, 5), d(1024, 61)))
w("jaccard_bits", lambda a, q: (lambda pc: pc(a & q).sum(-1) / pc(a | q).sum(-1).clamp(min=1))(lambda v: (lambda t: (t * 0x01010101 >> 24) & 0xff)(((v - ((v >> 1) & 0x55555555)) & 0x33333333) + (((v - ((v >> 1) & 0x55555555)) >> 2) & 0x33333333) & 0x0f0f0f0f)), ints(2 ** 31 - 1, d(1000000, 43), 32, dtype=torch.int32), ints(2 ** 31 - 1, 32, dtype=torch.int32))
w("hash_mix", lambda x: (lambda h: (h ^ (h >> 15)) & 0xffff)((lambda h: (h ^ (h >> 13)) * -1640531535)(x * 73244475 ^ (x >> 16))), ints(2 ** 31 - 1, d(16000000, 211)))
w("csr_rows", lambda ptr, v: (v.cumsum(0).index_select(0, ptr[1:] - 1) - F.pad(v.cumsum(0), (1, 0)).index_select(0, ptr[:-1])), lambda: torch.arange(0, d(4000001, 81), 8), r(d(4000000, 80), dtype=torch.float64))
w("bm25", lambda tf, dl, idf: (idf * (tf * 2.2) / (tf + 1.2 * (0.25 + 0.75 * dl / dl.mean()).unsqueeze(1))).sum(1), u(d(262144, 37), 128), u(d(262144, 37)), u(128))
w("late_interaction", lambda q, dd, m: torch.einsum("qd,bkd->bqk", q, dd).masked_fill(~m.unsqueeze(1), float("-inf")).amax(2).sum(1), r(32, 128, dtype=F16), r(d(4096, 5), d(128, 9), 128, dtype=F16), lambda: torch.rand(d(4096, 5), d(128, 9)) < .9)

# ---- language models' odds and ends
w("alibi_softmax", lambda s, sl: (s + sl.view(-1, 1, 1) * (torch.arange(s.shape[-1], device=s.device) - torch.arange(s.shape[-2], device=s.device)[:, None])).masked_fill(torch.arange(s.shape[-1], device=s.device) > torch.arange(s.shape[-2], device=s.device)[:, None], float("-inf")).softmax(-1), r(d(4, 1), 8, d(1024, 37), d(1024, 37), dtype=BF16), u(8, dtype=BF16))
w("t5_bias", lambda s, t: s + t[(lambda p: torch.where(p < 16, p, (16 + (torch.log(p.clamp(min=1).float() / 16) / math.log(8) * 16).long()).clamp(max=31)))((torch.arange(s.shape[-2], device=s.device)[:, None] - torch.arange(s.shape[-1], device=s.device)).clamp(min=0))].permute(2, 0, 1), r(d(8, 2), 8, d(1024, 33), d(1024, 33)), r(32, 8))
w("xpos", lambda x, sc, c, s: (x * c + torch.stack((-x[..., 1::2], x[..., ::2]), -1).flatten(-2) * s) * sc, r(d(8, 2), 16, d(2048, 21), 64, dtype=BF16), u(d(2048, 21), 64, dtype=BF16), u(d(2048, 21), 64, dtype=BF16), u(d(2048, 21), 64, dtype=BF16))
w("entropy_gate", lambda l: (lambda lp: (-(lp.exp() * lp).sum(-1) > 2.0) & (lp.max(-1)[0] < -0.1))(l.float().log_softmax(-1)), r(d(512, 5), d(128256, 203), dtype=BF16))
w("eta_cutoff", lambda l: (lambda p: torch.where(p < torch.minimum(torch.tensor(3e-4, device=l.device), 0.017 * torch.exp((p * p.clamp(min=1e-20).log()).sum(-1, keepdim=True))), float("-inf"), l))(l.softmax(-1)), r(d(512, 5), d(50257, 203)))
w("mirostat", lambda l, mu: (lambda s: torch.where(-s.log2() > mu.unsqueeze(1), 0.0, s))(l.softmax(-1)), r(d(512, 5), d(50257, 203)), u(d(512, 5)))
w("z_loss_grad", lambda l: grad(lambda x: 1e-4 * x.float().logsumexp(-1).square().mean())(l), r(d(4096, 5), d(32000, 203), dtype=BF16))
w("router_z_aux", lambda l: (lambda p, k: (p.mean(0) * F.one_hot(k, l.shape[1]).float().mean((0, 1))).sum() * l.shape[1] + l.logsumexp(-1).square().mean() * 1e-3)(l.softmax(-1), l.topk(2, -1)[1]), r(d(131072, 33), 64))
w("expert_choice", lambda p: p.t().topk(d(1024, 5), -1), r(d(16384, 33), 64))
w("sigmoid_loss_grad", lambda a, t: grad(lambda x: -F.logsigmoid((x @ t.t()) * 10 * (2 * torch.eye(x.shape[0], device=x.device) - 1)).mean())(a), lambda: F.normalize(torch.randn(d(2048, 19), 256), dim=-1), lambda: F.normalize(torch.randn(d(2048, 19), 256), dim=-1))
w("orpo_odds", lambda c, j: -F.logsigmoid((c - j) - (torch.log1p(-c.exp().clamp(max=1 - 1e-6)) - torch.log1p(-j.exp().clamp(max=1 - 1e-6)))).mean(), lambda: -torch.rand(d(4000000, 101)) - .01, lambda: -torch.rand(d(4000000, 101)) - .01)
w("scaled_rms_both", lambda x, y, g: (lambda a, bb: a * bb.sigmoid())(x * torch.rsqrt(x.float().square().mean(-1, keepdim=True) + 1e-6).to(x.dtype) * g, y * torch.rsqrt(y.float().square().mean(-1, keepdim=True) + 1e-6).to(x.dtype)), r(d(8192, 7), d(4096, 130), dtype=BF16), r(d(8192, 7), d(4096, 130), dtype=BF16), r(d(4096, 130), dtype=BF16))
w("softclip_residual", lambda x, y: x + 5.0 * torch.tanh(y / 5.0) + F.softplus(y - 4) * 0.1, r(d(8192, 7), d(4096, 131), dtype=F16), r(d(8192, 7), d(4096, 131), dtype=F16))
w("mamba_dt", lambda x, bb, A: (lambda dt: (torch.exp(dt.unsqueeze(-1) * A), dt.unsqueeze(-1) * bb.unsqueeze(2)))(F.softplus(x)), r(d(4, 2), d(512, 9), d(1024, 16)), r(d(4, 2), d(512, 9), 16), lambda: -torch.rand(d(1024, 16), 16))
w("hyena_gate", lambda x: (lambda a, v, c: (v * a).cumsum(1) * c)(*x.chunk(3, -1)), r(d(8, 2), d(2048, 21), d(3072, 39)))
w("lora_merge", lambda Wt, a, bb, s: Wt + (bb @ a) * s, r(d(4096, 33), d(4096, 35), dtype=BF16), r(16, d(4096, 35), dtype=BF16), r(d(4096, 33), 16, dtype=BF16), lambda: torch.tensor(0.5, dtype=BF16))
w("dora_scale", lambda Wt, m: Wt * (m / Wt.float().norm(dim=1)).to(Wt.dtype).unsqueeze(1), r(d(8192, 33), d(8192, 35), dtype=BF16), u(d(8192, 33)))
w("gptq_group_dequant", lambda q, z, s: ((((q.unsqueeze(1) >> torch.arange(0, 32, 4, device=q.device, dtype=torch.int32).view(1, 8, 1)) & 15).reshape(-1, q.shape[1]).view(-1, 128, q.shape[1]) - z.unsqueeze(1)).half() * s.unsqueeze(1)).flatten(0, 1), ints(2 ** 31 - 1, d(512, 16), d(4096, 24), dtype=torch.int32), ints(16, d(32, 1), d(4096, 24), dtype=torch.int32), u(d(32, 1), d(4096, 24), dtype=F16))
w("fp8_roundtrip_error", lambda x: (lambda s: ((x / s).clamp(-448, 448).to(torch.float8_e4m3fn).float() * s - x).square().mean())(x.abs().amax() / 448), r(d(8192, 31), d(4096, 33)))
w("absmean_ternary", lambda x: (lambda s: ((x / s).round().clamp(-1, 1) * s))(x.abs().mean().clamp(min=1e-5)), r(d(8192, 31), d(4096, 33)))

# ---- optimizers and statistics
w("adan", lambda p, g, pg, m, v, nn: (lambda df: (lambda m2, v2, n2: (p - 1e-3 * (m2 + 0.9 * v2) / (n2.sqrt() + 1e-8), m2, v2, n2))(m.lerp(g, 0.02), v.lerp(df, 0.08), nn.lerp((g + 0.92 * df) ** 2, 0.01)))(g - pg), *[r(d(8000000, 103))] * 5, u(d(8000000, 103)))
w("sophia", lambda p, m, g, h: (lambda m2: (p - 1e-4 * (m2 / h.clamp(min=1e-12)).clamp(-1, 1), m2))(m.lerp(g, 0.04)), *[r(d(16000000, 103))] * 3, u(d(16000000, 103)))
w("adabelief", lambda p, m, s, g: (lambda m2: (lambda s2: (p - 1e-3 * m2 / (s2.sqrt() + 1e-8), m2, s2))(s * 0.999 + 0.001 * (g - m2) ** 2 + 1e-8))(m * 0.9 + 0.1 * g), r(d(16000000, 103)), r(d(16000000, 103)), u(d(16000000, 103)), r(d(16000000, 103)))
w("sam_perturb", lambda p, g, q, k: (lambda s: (p + g * s, q + k * s))(0.05 / (g.square().sum() + k.square().sum()).sqrt()), *[r(d(8000000, 103))] * 4)
w("lars_layers", lambda p, g: (lambda t: p - 0.01 * t * (g + 1e-4 * p))((p.norm(dim=1, keepdim=True) / (g.norm(dim=1, keepdim=True) + 1e-4 * p.norm(dim=1, keepdim=True) + 1e-8))), r(d(64, 3), d(1000000, 203)), r(d(64, 3), d(1000000, 203)))
w("skew_kurtosis", lambda x: (lambda c: (lambda v: torch.stack(((c ** 3).mean(0) / v ** 1.5, (c ** 4).mean(0) / v ** 2)))(c.square().mean(0)))(x - x.mean(0)), r(d(200000, 41), 100))
w("mutual_info", lambda j: (lambda p: (p * (p.clamp(min=1e-12) / (p.sum(1, keepdim=True) * p.sum(2, keepdim=True)).clamp(min=1e-12)).log()).sum((1, 2)))(j / j.sum((1, 2), keepdim=True)), u(d(4096, 5), 64, 64))
w("energy_distance", lambda a, c: 2 * torch.cdist(a, c).mean() - torch.cdist(a, a).mean() - torch.cdist(c, c).mean(), r(d(2048, 21), 16), r(d(2048, 21), 16))
w("quantile_loss_grad", lambda p, y: grad(lambda x: torch.maximum(0.9 * (y.unsqueeze(1) - x), -0.1 * (y.unsqueeze(1) - x)).mean())(p), r(d(2000000, 31), 9), r(d(2000000, 31)))
w("circular_mean", lambda a: torch.atan2(a.sin().mean(-1), a.cos().mean(-1)), r(d(8192, 7), d(4096, 61)))
w("softmax_temperature_columns", lambda x, t: (x / t.unsqueeze(0)).softmax(0), r(d(2048, 37), d(4096, 29)), u(d(4096, 29)))
