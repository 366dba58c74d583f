"""Functions such as libraries of kernels and their suites have them, each at 20 MB and more: training of language models, chunks and states, quantization,
single operators at awkward sizes, short groups that are moved, images, sound, graphs, recommendation, science, odds and ends of transformers, optimizers;
products with vectors; columns whose statistics are read back; physics on grids, money, cameras, points, recommendation, games, texts, fewer bits. W maps a name to a function that gives (module, inputs) where torch.device says;
`sweep.py --workloads` measures them, through the backend, as some take gradients within."""
import math

import torch
import torch.nn.functional as F
from torch.func import grad, vjp

from function_module import Fn, ints, mask, r, u

BF16, F16, F32 = torch.bfloat16, torch.float16, torch.float32
THROUGH_BACKEND = True
W = {}


def w(name, f, *inputs):
    W[name] = lambda: (Fn(f), tuple(one() for one in inputs))


# ---- training kernels of language models
def rms(x, g, eps=1e-6): return (x.float() * torch.rsqrt(x.float().square().mean(-1, keepdim=True) + eps)).to(x.dtype) * g
w("rms_backward", lambda x, g, dy: vjp(rms, x, g)[1](dy), r(8192, 4096, dtype=BF16), r(4096, dtype=BF16), r(8192, 4096, dtype=BF16))
w("fused_add_rms_backward", lambda x, y, g, dy: vjp(lambda a, b, c: rms(a + b, c), x, y, g)[1](dy), r(4096, 5120, dtype=BF16), r(4096, 5120, dtype=BF16), r(5120, dtype=BF16), r(4096, 5120, dtype=BF16))
w("geglu_backward", lambda a, b, d: vjp(lambda p, q: F.gelu(p, approximate="tanh") * q, a, b)[1](d), *[r(8192, 11008, dtype=BF16)] * 3)
w("swiglu_backward", lambda a, b, d: vjp(lambda p, q: F.silu(p) * q, a, b)[1](d), *[r(8192, 11008, dtype=BF16)] * 3)
def jsd(lp, lq, beta=0.1):
    p, q = lp.exp(), lq.exp(); m = beta * p + (1 - beta) * q; lm = m.log()
    return (beta * F.kl_div(lm, lp, log_target=True, reduction="sum") + (1 - beta) * F.kl_div(lm, lq, log_target=True, reduction="sum")) / lp.shape[0]
w("jsd_grad", lambda a, b: grad(lambda x: jsd(F.log_softmax(x.float(), -1), F.log_softmax(b.float(), -1)))(a), r(2048, 32000, dtype=BF16), r(2048, 32000, dtype=BF16))
w("tvd", lambda p, q: (0.5 * (p - q).abs()).sum(-1).mean(), u(4096, 32000), u(4096, 32000))
w("tvd_grad", lambda p, q: grad(lambda x: (0.5 * (x - q).abs()).sum() / x.shape[0])(p), u(4096, 32000), u(4096, 32000))
w("kl_div_grad", lambda p, q: grad(lambda x: F.kl_div(x, q, reduction="batchmean"))(p), r(4096, 32000), u(4096, 32000))
def sparsemax(x):
    z, _ = torch.sort(x, -1, descending=True); k = torch.arange(1, x.shape[-1] + 1, device=x.device, dtype=x.dtype)
    c = z.cumsum(-1) - 1; s = (k * z > c).sum(-1, keepdim=True); tau = c.gather(-1, s - 1) / s
    return (x - tau).clamp(min=0)
w("sparsemax", sparsemax, r(2048, 4096))
w("dyt", lambda x, a, g, b: torch.tanh(a * x) * g + b, r(8192, 4096, dtype=BF16), r(1, dtype=BF16), r(4096, dtype=BF16), r(4096, dtype=BF16))
w("dyt_backward", lambda x, a, g, b, d: vjp(lambda *t: torch.tanh(t[1] * t[0]) * t[2] + t[3], x, a, g, b)[1](d), r(8192, 4096), r(1), r(4096), r(4096), r(8192, 4096))
def poly(x, wt, b):
    n = lambda y: y * torch.rsqrt(y.square().mean(-1, keepdim=True) + 1e-6)
    return wt[0] * n(x ** 3) + wt[1] * n(x ** 2) + wt[2] * n(x) + b
w("poly_norm", poly, r(8192, 4096), r(3), r(1))
w("poly_norm_backward", lambda x, a, b, d: vjp(poly, x, a, b)[1](d), r(8192, 4096), r(3), r(1), r(8192, 4096))
w("group_norm_backward", lambda x, g, b, d: vjp(lambda *t: F.group_norm(t[0], 32, t[1], t[2]), x, g, b)[1](d), r(64, 256, 48, 48), r(256), r(256), r(64, 256, 48, 48))
w("layer_norm_backward_f16", lambda x, g, b, d: vjp(lambda *t: F.layer_norm(t[0], (3072,), t[1], t[2]), x, g, b)[1](d), r(9000, 3072, dtype=F16), r(3072, dtype=F16), r(3072, dtype=F16), r(9000, 3072, dtype=F16))
w("relu_squared_backward", lambda x, d: vjp(lambda t: F.relu(t).square(), x)[1](d), r(8192, 8192, dtype=BF16), r(8192, 8192, dtype=BF16))
def llama4_rope(q, k, f):
    c = torch.view_as_complex(f)[None, :, None]
    g = lambda x: torch.view_as_real(torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2)) * c).flatten(3).to(x.dtype)
    return g(q), g(k)
w("llama4_rope", llama4_rope, r(4, 4096, 40, 128, dtype=BF16), r(4, 4096, 8, 128, dtype=BF16), r(4096, 64, 2))
def rope(q, k, c, s):
    h = lambda x: torch.cat((-x[..., x.shape[-1] // 2:], x[..., :x.shape[-1] // 2]), -1)
    return q * c + h(q) * s, k * c + h(k) * s
w("rope_backward", lambda q, k, c, s, a, b: vjp(lambda x, y: rope(x, y, c, s), q, k)[1]((a, b)), r(4, 32, 2048, 128, dtype=BF16), r(4, 8, 2048, 128, dtype=BF16), r(1, 1, 2048, 128, dtype=BF16), r(1, 1, 2048, 128, dtype=BF16), r(4, 32, 2048, 128, dtype=BF16), r(4, 8, 2048, 128, dtype=BF16))
def mrope(q, k, c, s):
    sec = [16, 24, 24] * 2
    c = torch.cat([m[i % 3] for i, m in enumerate(c.split(sec, -1))], -1).unsqueeze(1); s = torch.cat([m[i % 3] for i, m in enumerate(s.split(sec, -1))], -1).unsqueeze(1)
    return rope(q, k, c, s)
w("mrope", mrope, r(4, 28, 2048, 128, dtype=BF16), r(4, 4, 2048, 128, dtype=BF16), r(3, 4, 2048, 128, dtype=BF16), r(3, 4, 2048, 128, dtype=BF16))
def grpo(logits, ids, old, ref, adv, m):
    lp = F.log_softmax(logits.float(), -1).gather(-1, ids.unsqueeze(-1)).squeeze(-1)
    ratio = (lp - old).exp(); l = -torch.min(ratio * adv.unsqueeze(1), ratio.clamp(0.8, 1.2) * adv.unsqueeze(1))
    l = l + 0.04 * ((ref - lp).exp() - (ref - lp) - 1)
    return (l * m).sum() / m.sum()
w("grpo_loss", grpo, r(8, 512, 32000, dtype=BF16), ints(32000, 8, 512), r(8, 512), r(8, 512), r(8), u(8, 512))
w("grpo_loss_grad", lambda *t: grad(grpo)(*t), r(8, 512, 32000, dtype=BF16), ints(32000, 8, 512), r(8, 512, scale=.1), r(8, 512, scale=.1), r(8), u(8, 512))
def dpo(lg, ref, t):
    g = lambda x: F.log_softmax(x.float(), -1).gather(-1, t.unsqueeze(-1)).squeeze(-1).mean(-1)
    d = g(lg) - g(ref); n = d.shape[0] // 2
    return -F.logsigmoid(0.1 * (d[:n] - d[n:])).mean()
w("dpo_grad", lambda *t: grad(dpo)(*t), r(8, 256, 50257, dtype=BF16), r(8, 256, 50257, dtype=BF16), ints(50257, 8, 256))
w("cross_entropy_softcap_grad", lambda x, t: grad(lambda y: F.cross_entropy(30 * torch.tanh(y.float() / 30), t, label_smoothing=0.1))(x), r(2048, 50304, dtype=BF16), ints(50304, 2048))
w("cross_entropy_weight_ignore", lambda x, t, c: F.cross_entropy(x, t, c, ignore_index=3, reduction="mean"), r(4096, 32000), ints(32000, 4096), u(32000))
def mhc(x, pre, post, res):
    y = torch.einsum("bshd,bsh->bsd", x, pre); y = F.silu(y)
    return torch.einsum("bshd,bshg->bsgd", x, res) + post.unsqueeze(-1) * y.unsqueeze(2)
w("hyper_connections", mhc, r(2, 2048, 4, 2048, dtype=BF16), u(2, 2048, 4, dtype=BF16), u(2, 2048, 4, dtype=BF16), u(2, 2048, 4, 4, dtype=BF16))
def sinkhorn(x):
    x = x.exp()
    for _ in range(10):
        x = x / x.sum(-1, keepdim=True); x = x / x.sum(-2, keepdim=True)
    return x
w("sinkhorn_small", sinkhorn, r(200000, 4, 4))
def attn_res(v, q, wt):
    k = F.rms_norm(v, (v.shape[-1],), wt); a = torch.einsum("d,nbtd->nbt", q, k).softmax(0)
    return torch.einsum("nbt,nbtd->btd", a, v)
w("attention_residuals", attn_res, r(8, 4, 1024, 2048, dtype=BF16), r(2048, dtype=BF16, scale=.02), r(2048, dtype=BF16))
w("modulated_rms", lambda x, g, s, b: F.rms_norm(x, (3072,), g) * (1 + s.unsqueeze(1)) + b.unsqueeze(1), r(8, 2048, 3072, dtype=BF16), r(3072, dtype=BF16), r(8, 3072, dtype=BF16), r(8, 3072, dtype=BF16))
w("embedding_backward_f16", lambda i, d: torch.ops.aten.embedding_dense_backward(d, i, 32000, -1, False), ints(32000, 16384), r(16384, 2048, dtype=F16))
w("multi_token_attention", lambda s, k: F.conv2d(torch.softmax(F.conv2d(s.masked_fill(torch.ones(512, 512, device=s.device).triu(1).bool(), 0), k, padding=1, groups=16).masked_fill(torch.ones(512, 512, device=s.device).triu(1).bool(), -1e9), -1), k, padding=1, groups=16), r(4, 16, 512, 512), r(16, 1, 3, 3))
# ---- kernels of chunks, states and quantization
def chunk_cumsum(g): return g.reshape(16, 256, 64, 64).cumsum(2).reshape(16, 16384, 64)
w("chunk_cumsum", chunk_cumsum, r(16, 16384, 64))
def kkt(k, g, beta):
    k = k.reshape(2, 32, 64, 16, 64).permute(0, 1, 3, 2, 4); g = g.reshape(2, 32, 64, 16).permute(0, 1, 3, 2); beta = beta.reshape(2, 32, 64, 16).permute(0, 1, 3, 2)
    low = torch.tril(torch.ones(64, 64, device=k.device), -1); d = (g.unsqueeze(-1) - g.unsqueeze(-2)) * low
    return (k @ k.mT * beta.unsqueeze(-1) * d.exp() * low).permute(0, 1, 3, 2, 4).reshape(2, 2048, 16, 64)
w("delta_kkt", kkt, r(2, 2048, 16, 64, scale=.1), r(2, 2048, 16, scale=.1), u(2, 2048, 16))
def delta_o(q, k, v, h, g):
    q, k, v = (t.reshape(2, 32, 64, 16, 64).permute(0, 1, 3, 2, 4) for t in (q, k, v)); g = g.reshape(2, 32, 64, 16).permute(0, 1, 3, 2)
    c = torch.tril(torch.ones(64, 64, dtype=torch.bool, device=q.device)); d = torch.where(c, g.unsqueeze(-1) - g.unsqueeze(-2), 0.0)
    o = ((q @ h) * g.exp().unsqueeze(-1) + (q @ k.mT * d.exp() * c) @ v) * 0.125
    return o.permute(0, 1, 3, 2, 4).reshape(2, 2048, 16, 64)
w("delta_output", delta_o, *[r(2, 2048, 16, 64, scale=.1)] * 3, r(2, 32, 16, 64, 64, scale=.1), r(2, 2048, 16, scale=.1))
def delta_state(k, wt, uu, g):
    k, wt, uu = (t.reshape(2, 16, 64, 8, 64).permute(0, 1, 3, 2, 4) for t in (k, wt, uu)); g = g.reshape(2, 16, 64, 8).permute(0, 1, 3, 2)
    h = torch.zeros(2, 8, 64, 64, device=k.device); hs, vs = [], []
    for c in range(16):
        hs.append(h); v = uu[:, c] - wt[:, c] @ h; vs.append(v); gl = g[:, c, :, -1]
        h = h * gl.exp()[..., None, None] + k[:, c].mT @ (v * (gl.unsqueeze(-1) - g[:, c]).exp().unsqueeze(-1))
    return torch.stack(hs, 1), torch.stack(vs, 1)
w("delta_state", delta_state, *[r(2, 1024, 8, 64, scale=.1)] * 3, r(2, 1024, 8, scale=.1))
w("causal_conv1d_silu", lambda x, k, b: F.silu(F.conv1d(F.pad(x, (3, 0)), k.unsqueeze(1), b, groups=2560)), r(4, 2560, 4096, dtype=BF16), r(2560, 4, dtype=BF16), r(2560, dtype=BF16))
w("causal_conv1d_channels_last", lambda x, k: F.conv1d(F.pad(x.mT, (3, 0)), k.unsqueeze(1), groups=2560).mT, r(4, 4096, 2560, dtype=BF16), r(2560, 4, dtype=BF16))
def q8(x, n=128):
    y = x.float().reshape(x.shape[0], -1, n); s = y.abs().amax(-1).clamp(min=1e-10) / 448
    return (y / s.unsqueeze(-1)).clamp(-448, 448).to(torch.float8_e4m3fn).reshape(x.shape), s
w("fp8_groups", q8, r(4096, 7168, dtype=BF16))
def q8blocks(x):
    y = x.float().reshape(x.shape[0] // 128, 128, -1, 128); s = y.abs().amax((1, 3), keepdim=True).clamp(min=1e-4) / 448
    return (y / s).to(torch.float8_e4m3fn).reshape(x.shape), s.squeeze()
w("fp8_blocks", q8blocks, r(8192, 7168, dtype=BF16))
w("fp8_dequant_blocks", lambda x, s: (x.float().reshape(64, 128, 56, 128) * s.reshape(64, 1, 56, 1)).reshape(8192, 7168).to(BF16), lambda: torch.randn(8192, 7168).to(torch.float8_e4m3fn), u(64, 56))
w("int8_rows", lambda x: (lambda s: ((x / s).round().clamp(-128, 127).to(torch.int8), s))(x.abs().amax(-1, keepdim=True) / 127), r(8192, 4096, dtype=F16))
w("int4_unpack", lambda q, s, z: ((torch.stack((q & 15, q >> 4), -1).reshape(4096, 86, 128).to(F16) - z.unsqueeze(-1)) * s.unsqueeze(-1)).reshape(4096, 11008), ints(255, 4096, 5504, dtype=torch.uint8), u(4096, 86, dtype=F16), u(4096, 86, dtype=F16))
w("int4_pack", lambda x: (lambda q: (q[:, ::2] | (q[:, 1::2] << 4)))((x.reshape(8192, 4096) * 7.5 + 7.5).round().clamp(0, 15).to(torch.uint8)), u(8192, 4096))
def fht(x):
    n = x.shape[-1]; h = 1
    while h < n:
        y = x.reshape(x.shape[0], n // (2 * h), 2, h); x = torch.stack((y[:, :, 0] + y[:, :, 1], y[:, :, 0] - y[:, :, 1]), 2).reshape(x.shape[0], n); h *= 2
    return x * n ** -0.5
w("fast_hadamard_256", fht, r(65536, 256, dtype=BF16))
w("grayscale", lambda x: (x * torch.tensor([0.2989, 0.587, 0.114], device=x.device)).sum(-1), u(4096, 4096, 3))
w("histogram_u8", lambda x: torch.zeros(256, dtype=torch.int64, device=x.device).scatter_add(0, x.long(), torch.ones_like(x, dtype=torch.int64)), ints(256, 10000000, dtype=torch.uint8))
def trimul(x, m, p):
    y = F.layer_norm(x, (128,)); a, b, c, d, e = (y @ t for t in p.unbind(0))
    l, g = a * m.unsqueeze(-1) * b.sigmoid(), c * m.unsqueeze(-1) * d.sigmoid()
    o = torch.einsum("bikd,bjkd->bijd", l, g)
    return F.layer_norm(o, (128,)) * e.sigmoid()
w("triangle_multiplication", trimul, r(1, 256, 256, 128), u(1, 256, 256), r(5, 128, 128, scale=.1))
w("triangle_multiplication_bf16", trimul, r(1, 384, 384, 128, dtype=BF16), u(1, 384, 384, dtype=BF16), r(5, 128, 128, scale=.1, dtype=BF16))
def mla(q, c, kr, up, ck):
    b, s = c.shape[0], c.shape[1]
    kv = (c @ up.mT).view(b, s, 16, 256); k = torch.cat((kv[..., :128], kr.unsqueeze(2).expand(-1, -1, 16, -1)), -1)
    return F.scaled_dot_product_attention(q, k.transpose(1, 2), kv[..., 128:].transpose(1, 2))
w("latent_attention_decode", lambda q, c, kr, up: mla(q, c, kr, up, None), r(16, 16, 1, 192, dtype=BF16), r(16, 2048, 512, dtype=BF16), r(16, 2048, 64, dtype=BF16), r(4096, 512, dtype=BF16, scale=.05))
def absorbed(q, qr, c, kr):
    s = (torch.einsum("bhc,bsc->bhs", q, c) + torch.einsum("bhr,bsr->bhs", qr, kr)) * 192 ** -0.5
    return torch.einsum("bhs,bsc->bhc", s.softmax(-1).to(c.dtype), c)
w("latent_attention_absorbed", absorbed, r(32, 128, 512, dtype=BF16), r(32, 128, 64, dtype=BF16), r(32, 4096, 512, dtype=BF16), r(32, 4096, 64, dtype=BF16))
def router(l, b):
    s = l.sigmoid(); g = (s + b).view(-1, 8, 32); t = g.topk(2, -1)[0].sum(-1).topk(4, -1)[1]
    m = torch.zeros(l.shape[0], 8, device=l.device).scatter(1, t, 1.0).unsqueeze(-1).expand(-1, -1, 32).reshape(l.shape)
    i = (s + b).masked_fill(m == 0, -math.inf).topk(8, -1)[1]; k = s.gather(1, i)
    return k / k.sum(-1, keepdim=True) * 2.5, i
w("deepseek_router", router, r(16384, 256), r(256, scale=.01))
def moe_perm(x, i, p):
    o = i.flatten().argsort(stable=True); y = x[o // 2] * 2
    return torch.zeros_like(x).index_add(0, o // 2, y * p.flatten()[o].unsqueeze(-1))
w("moe_permute_add", moe_perm, r(8192, 2048, dtype=BF16), ints(64, 8192, 2), u(8192, 2, dtype=BF16))
def moe_sum(y, o, p): return (y[o.view(8192, 4)] * p.unsqueeze(-1)).sum(1)
w("moe_gather_sum", moe_sum, r(32768, 2048, dtype=BF16), lambda: torch.randperm(32768), u(8192, 4, dtype=BF16))
w("expert_counts", lambda i: torch.zeros(64, dtype=torch.int32, device=i.device).index_add(0, i.flatten(), torch.ones(i.numel(), dtype=torch.int32, device=i.device)).cumsum(0), ints(64, 1048576, 2, dtype=torch.int32))
# ---- operators of a library of kernels, at awkward sizes
w("isin", lambda a, b: torch.isin(a, b), ints(1 << 30, 4000000), ints(1 << 30, 1000))
w("kron", lambda a, b: torch.kron(a, b), r(64, 96), r(128, 64))
w("diag_embed", lambda x: torch.diag_embed(x), r(2048, 128))
w("diagonal_backward", lambda d: torch.ops.aten.diagonal_backward(d, [64, 512, 512], 1, 1, 2), r(64, 511))
w("repeat_interleave", lambda x: x.repeat_interleave(3, 1), r(4096, 3001))
w("tile", lambda x: x.tile(3, 4), r(1501, 2003))
w("quantile", lambda x: torch.quantile(x, torch.tensor([.1, .5, .9], device=x.device), dim=-1), r(4096, 4096))
w("median", lambda x: x.median(-1), r(4096, 4096))
w("kthvalue", lambda x: x.kthvalue(100, -1), r(4096, 4096))
w("mode_small", lambda x: torch.mode(x, -1), ints(50, 4096, 512))
w("vdot", lambda a, b: torch.vdot(a, b), r(30000001), r(30000001))
w("outer_tanh", lambda a, b: torch.outer(a, b).tanh(), r(6000), r(7001))
w("triu_mul", lambda x: x.triu(3) * 2, r(6000, 6001))
w("glu_backward", lambda x, d: vjp(lambda t: F.glu(t, -1), x)[1](d), r(8192, 8192, dtype=BF16), r(8192, 4096, dtype=BF16))
w("weight_norm_backward", lambda v, g, d: vjp(lambda a, b: torch._weight_norm(a, b, 0), v, g)[1](d), r(8192, 4096), r(8192, 1), r(8192, 4096))
w("upsample_bicubic_aa", lambda x: F.interpolate(x, scale_factor=0.5, mode="bicubic", antialias=True), r(16, 32, 256, 256))
w("log_softmax_backward", lambda x, d: vjp(lambda t: F.log_softmax(t, 1), x)[1](d), r(64, 512, 515), r(64, 512, 515))
w("softmax_middle_bf16", lambda x: x.softmax(1), r(256, 257, 1024, dtype=BF16))
w("cumsum_middle_i32", lambda x: x.cumsum(1), ints(100, 64, 1001, 300, dtype=torch.int32))
w("cummax_rows", lambda x: x.cummax(-1), r(4096, 4096))
w("nll_loss_2d", lambda x, t: F.nll_loss(x, t), r(16, 64, 256, 256), ints(64, 16, 256, 256))
w("index_put_acc", lambda x, i, v: x.index_put((i,), v, accumulate=True), r(100000, 128), ints(100000, 50000), r(50000, 128))
w("scatter_rows", lambda x, i, v: x.scatter(1, i, v), r(4096, 8192), ints(8192, 4096, 1024), r(4096, 1024))
w("masked_fill_sum", lambda x, m: x.masked_fill(m, 0).sum((0, 2)), r(128, 300, 1000), mask(128, 300, 1000))
w("nan_to_num_std", lambda x: torch.nan_to_num(x).std(0), r(30000, 1000))
w("gelu_std_all", lambda x: F.gelu(x).std(), r(7000, 7001))
w("sum_std_first", lambda x: x.sum(0).std(), r(20000, 3001))
w("hstack_div", lambda a, b, c: torch.hstack((a, b, c)) / 3, r(9000, 1001), r(9000, 500), r(9000, 2003))
w("gather_masked_fill", lambda x, i, m: x.gather(1, i).masked_fill(m, -1), r(4096, 8192), ints(8192, 4096, 4097), mask(4096, 4097))
w("index_select_eq", lambda x, i, o: x.index_select(1, i) == o, ints(9, 4096, 4096, dtype=torch.int32), ints(4096, 3000), ints(9, 4096, 3000, dtype=torch.int32))
w("pairwise_adaptive", lambda a, b: (F.adaptive_avg_pool2d(a, 7) - F.adaptive_avg_pool2d(b, 7)).square().sum((1, 2, 3)).sqrt(), r(64, 64, 61, 61), r(64, 64, 61, 61))
w("avg_pool_cosine", lambda a, b: F.cosine_similarity(F.avg_pool2d(a, 2), F.avg_pool2d(b, 2), dim=1), r(32, 64, 128, 128), r(32, 64, 128, 128))
w("fractional_max", lambda x, s: F.fractional_max_pool2d(F.relu(x), 2, output_size=(60, 60), _random_samples=s), r(64, 64, 97, 97), u(64, 64, 2))
w("tile_exp", lambda x: x.tile(1, 5).exp(), r(8000, 1000))
w("repeat_log_softmax", lambda x: F.log_softmax(x.repeat_interleave(2, 1), 1), r(8192, 2000))
w("embedding_add_tanh", lambda i, t, o: torch.tanh(F.embedding(i, t) + o), ints(5000, 64, 1000), r(5000, 300), r(64, 1000, 300))
w("cosine_embedding_norm", lambda a, b, t: F.cosine_embedding_loss(F.normalize(a), F.normalize(b), t), r(30000, 512), r(30000, 512), lambda: torch.randint(0, 2, (30000,)).float() * 2 - 1)
w("ifftshift", lambda x: torch.fft.ifftshift(x), r(64, 511, 513))
w("special_functions", lambda x: torch.special.i0(x) + torch.special.bessel_j1(x) + torch.special.airy_ai(x), r(3000000))
w("digamma_gammaln", lambda x: torch.digamma(x) + torch.lgamma(x), u(30000000))
w("polygamma", lambda x: torch.polygamma(2, x + 0.5), u(10000000))
w("masked_norm_rows", lambda x, m: (x * m).norm(dim=-1) / m.sum(-1).clamp(min=1), r(20000, 1000), lambda: (torch.rand(20000, 1000) < .5).float())
w("mv_sigmoid_sub", lambda a, v, o: torch.sigmoid(a @ v) - o, r(8000, 8000), r(8000), r(8000))
w("rmsnorm_gelu_dropoutless", lambda a, b: F.gelu(F.rms_norm(torch.bmm(a, b), (512,))), r(64, 512, 256, dtype=F16), r(64, 256, 512, dtype=F16))
w("symmetric_mm_abs_sum", lambda a, c: (0.5 * (a @ a.T) + 2 * c).abs().sum(), r(2048, 1024, dtype=BF16, scale=.1), r(2048, 2048, dtype=BF16))
# ---- movement of short groups
w("groups4_f16", lambda x: x.transpose(1, 2).contiguous(), r(16, 1000, 999, 4, dtype=F16))
w("groups2_f16", lambda x: x.transpose(1, 2).contiguous(), r(32, 1000, 999, 2, dtype=F16))
w("groups8_bf16", lambda x: x.transpose(1, 2).contiguous(), r(16, 600, 601, 8, dtype=BF16))
w("groups3_u8", lambda x: x.transpose(1, 2).contiguous(), ints(256, 16, 2000, 1000, 3, dtype=torch.uint8))
w("groups4_f32", lambda x: x.transpose(0, 1).contiguous(), r(3000, 2999, 4))
w("complex_transpose", lambda x: torch.view_as_real(torch.view_as_complex(x).T.contiguous()), r(4001, 3999, 2))
w("pairs_pixel_shuffle", lambda x: F.pixel_shuffle(x.permute(0, 3, 1, 2), 2).contiguous(), r(16, 128, 128, 256, dtype=F16))
w("swin_reverse_roll", lambda x: x.view(16, 8, 8, 7, 7, 96).permute(0, 1, 3, 2, 4, 5).reshape(16, 56, 56, 96).roll((3, 3), (1, 2)), r(1024, 49, 96, dtype=F16))
w("heads_of_20", lambda x: x.view(16, 1000, 12, 20).permute(0, 2, 1, 3).contiguous(), r(16, 1000, 240))
w("stack_turned", lambda a, b, c: torch.stack((a.mT, b.mT, c.mT), -1).contiguous(), r(8, 1000, 999), r(8, 1000, 999), r(8, 1000, 999))
# images
w("u8_to_planes", lambda x: ((x.permute(0, 3, 1, 2).float() / 255 - torch.tensor([.485, .456, .406], device=x.device).view(3, 1, 1)) / torch.tensor([.229, .224, .225], device=x.device).view(3, 1, 1)).half(), ints(256, 64, 512, 512, 3, dtype=torch.uint8))
w("planes_to_u8", lambda x: (x.clamp(0, 1) * 255).round().to(torch.uint8).permute(0, 2, 3, 1).contiguous(), u(32, 3, 720, 720))
w("rgb_to_yuv", lambda x: torch.einsum("ij,bjhw->bihw", torch.tensor([[.299, .587, .114], [-.147, -.289, .436], [.615, -.515, -.1]], device=x.device), x), u(32, 3, 512, 512))
w("gaussian_blur", lambda x, k: F.conv2d(F.pad(F.conv2d(F.pad(x, (3, 3, 0, 0), mode="reflect"), k.view(1, 1, 1, 7).expand(3, 1, 1, 7), groups=3), (0, 0, 3, 3), mode="reflect"), k.view(1, 1, 7, 1).expand(3, 1, 7, 1), groups=3), u(32, 3, 512, 512), u(7))
w("sobel_magnitude", lambda x: ((x[..., 1:-1, 2:] - x[..., 1:-1, :-2]).square() + (x[..., 2:, 1:-1] - x[..., :-2, 1:-1]).square()).sqrt(), u(64, 1, 1024, 1022))
w("erosion_5", lambda x: -F.max_pool2d(-x, 5, 1, 2), u(32, 3, 512, 510, dtype=F16))
w("ssim_map", lambda a, b: (lambda ma, mb: ((2 * ma * mb + 1e-4) * (2 * (F.avg_pool2d(a * b, 7, 1) - ma * mb) + 9e-4) / ((ma * ma + mb * mb + 1e-4) * (F.avg_pool2d(a * a, 7, 1) - ma * ma + F.avg_pool2d(b * b, 7, 1) - mb * mb + 9e-4))).mean((1, 2, 3)))(F.avg_pool2d(a, 7, 1), F.avg_pool2d(b, 7, 1)), u(16, 3, 384, 384), u(16, 3, 384, 384))
w("total_variation", lambda x: (x[..., 1:, :] - x[..., :-1, :]).abs().mean() + (x[..., 1:] - x[..., :-1]).abs().mean(), u(32, 3, 512, 512))
w("iou_matrix", lambda a, b: (lambda wh: (lambda i: i / ((a[:, 2] - a[:, 0]) * (a[:, 3] - a[:, 1])).unsqueeze(1).add((b[:, 2] - b[:, 0]) * (b[:, 3] - b[:, 1])).sub(i))(wh[..., 0] * wh[..., 1]))((torch.min(a[:, None, 2:], b[:, 2:]) - torch.max(a[:, None, :2], b[:, :2])).clamp(min=0)), u(6000, 4), u(5000, 4))
w("box_decode", lambda d, a: torch.stack(((d[..., 0] * a[:, 2] + a[:, 0]), (d[..., 1] * a[:, 3] + a[:, 1]), d[..., 2].clamp(max=4).exp() * a[:, 2], d[..., 3].clamp(max=4).exp() * a[:, 3]), -1), r(64, 100000, 4), u(100000, 4))
w("dice_loss", lambda x, t: (lambda p, o: 1 - ((2 * (p * o).sum((0, 2, 3)) + 1) / (p.sum((0, 2, 3)) + o.sum((0, 2, 3)) + 1)).mean())(x.softmax(1), F.one_hot(t, 8).permute(0, 3, 1, 2).float()), r(16, 8, 384, 384), ints(8, 16, 384, 384))
w("focal_loss_grad", lambda x, t: grad(lambda y: (lambda p, c: ((1 - p) ** 2 * c).mean())(torch.where(t > 0, y.sigmoid(), 1 - y.sigmoid()), F.binary_cross_entropy_with_logits(y, t, reduction="none")))(x), r(64, 80, 64, 64), lambda: (torch.rand(64, 80, 64, 64) < .1).float())
w("affine_sample", lambda x, t: F.grid_sample(x, F.affine_grid(t, list(x.shape), align_corners=False), align_corners=False), r(16, 16, 256, 256), r(16, 2, 3))
w("mixup_cutmix", lambda x, p, l, m: torch.where(m, x, x[p]) * l.view(-1, 1, 1, 1) + x[p] * (1 - l.view(-1, 1, 1, 1)), r(64, 3, 384, 384, dtype=F16), lambda: torch.randperm(64), u(64, dtype=F16), mask(1, 1, 384, 384))
w("pixel_norm_silu", lambda x: F.silu(x * torch.rsqrt(x.square().mean(1, keepdim=True) + 1e-6)), r(16, 128, 128, 128, dtype=BF16))
w("adain", lambda c, s: (lambda v, m, vs, ms: (c - m) * ((vs + 1e-5) / (v + 1e-5)).sqrt() + ms)(*torch.var_mean(c, (2, 3), keepdim=True), *torch.var_mean(s, (2, 3), keepdim=True)), r(16, 256, 64, 64), r(16, 256, 64, 64))
w("spade", lambda x, g, b: F.instance_norm(x) * (1 + g) + b, r(8, 64, 128, 256, dtype=F16), r(8, 64, 128, 256, dtype=F16), r(8, 64, 128, 256, dtype=F16))
w("global_response_norm", lambda x, g, b: (lambda n: x + g * (x * n / (n.mean(-1, keepdim=True) + 1e-6)) + b)(x.norm(dim=(1, 2), keepdim=True)), r(32, 28, 28, 768), r(768), r(768))
w("squeeze_excite", lambda x, a, b: x * torch.sigmoid(F.relu(x.mean((2, 3)) @ a) @ b)[:, :, None, None], r(64, 256, 56, 56, dtype=F16), r(256, 64, dtype=F16), r(64, 256, dtype=F16))
w("cbam_spatial", lambda x, k: x * torch.sigmoid(F.conv2d(torch.cat((x.mean(1, keepdim=True), x.amax(1, keepdim=True)), 1), k, padding=3)), r(32, 128, 64, 64), r(1, 2, 7, 7))
w("weight_standardize", lambda x: (x - x.mean((1, 2, 3), keepdim=True)) / (x.std((1, 2, 3), keepdim=True) + 1e-5), r(2048, 1024, 3, 3))
w("local_response_norm", lambda x: F.local_response_norm(x, 5), r(32, 96, 55, 55))
w("patchify", lambda x: x.reshape(64, 3, 14, 16, 14, 16).permute(0, 2, 4, 3, 5, 1).reshape(64, 196, 768), r(64, 3, 224, 224, dtype=F16))
w("unpatchify", lambda x: x.reshape(64, 32, 32, 2, 2, 16).permute(0, 5, 1, 3, 2, 4).reshape(64, 16, 64, 64), r(64, 1024, 64, dtype=BF16))
w("video_to_tubelets", lambda x: x.reshape(4, 3, 8, 2, 14, 16, 14, 16).permute(0, 2, 4, 6, 1, 3, 5, 7).reshape(4, 1568, 1536), r(4, 3, 16, 224, 224))
# sound and series
w("preemphasis_frames", lambda x, h: (x[:, 1:] - .97 * x[:, :-1]).unfold(1, 400, 160) * h, r(64, 160001), u(400))
w("power_db", lambda x: (lambda p: (10 * torch.log10(p.clamp(min=1e-10))).clamp(min=(10 * torch.log10(p.amax((1, 2), keepdim=True)) - 80)))(x[..., 0] ** 2 + x[..., 1] ** 2), r(32, 257, 1000, 2))
w("mu_law", lambda x: (torch.sign(x) * torch.log1p(255 * x.abs()) / math.log(256) * 127.5 + 127.5).to(torch.uint8), lambda: torch.rand(64, 480000) * 2 - 1)
w("rolling_mean_std", lambda x: (lambda m, q: torch.stack((m, (q - m * m).clamp(min=0).sqrt())))(F.avg_pool1d(x, 32, 1), F.avg_pool1d(x * x, 32, 1)), r(64, 8, 50000))
w("ewma_decay_matrix", lambda x, d: torch.einsum("ts,bsf->btf", d.tril(), x), r(64, 256, 300), u(256, 256))
w("z_score_columns", lambda x: (x - x.mean(0)) / x.std(0), r(200000, 128))
w("min_max_dates", lambda x: (x - x.amin(1, keepdim=True)) / (x.amax(1, keepdim=True) - x.amin(1, keepdim=True) + 1e-6), r(512, 1000, 60))
w("autocorrelation", lambda x: torch.stack([(x[:, k:] * x[:, :x.shape[1] - k]).mean(1) for k in range(0, 24, 3)], 1), r(2000, 10000))
w("returns_cumprod", lambda x: (1 + x * .01).cumprod(1), r(4096, 4096))
# graphs, recommendation, reinforcement
w("segment_softmax", lambda s, i: (lambda e: e / torch.zeros(100000, device=s.device).index_add(0, i, e)[i])((s - torch.full((100000,), -math.inf, device=s.device).scatter_reduce(0, i, s, "amax")[i]).exp()), r(4000000), ints(100000, 4000000))
w("edge_messages", lambda x, s, t, e: torch.zeros(50000, 64, device=x.device).index_add(0, t, F.relu(x[s] + e)), r(50000, 64), ints(50000, 600000), ints(50000, 600000), r(600000, 64))
w("degree_norm", lambda s, t: (lambda d: (d[s] * d[t]))(torch.zeros(100000, device=s.device).index_add(0, t, torch.ones(3000000, device=s.device)).clamp(min=1).rsqrt()), ints(100000, 3000000), ints(100000, 3000000))
w("gae_reverse", lambda d: (lambda f: f)(torch.flip(torch.cumsum(torch.flip(d * .95 ** torch.arange(512, device=d.device), (1,)), 1), (1,))), r(32768, 512))
w("ppo_loss", lambda a, b, v, c, t: (-torch.min((a - b).exp() * v, (a - b).exp().clamp(.8, 1.2) * v).mean() + .5 * torch.max((c - t).square(), (c.clamp(-1, 1) - t).square()).mean()), *[r(8000003) for _ in range(5)])
w("pairwise_dots", lambda x: (lambda y: y[:, torch.tril_indices(27, 27, -1, device=x.device)[0], torch.tril_indices(27, 27, -1, device=x.device)[1]])(torch.bmm(x, x.mT)), r(16384, 27, 64, dtype=F16))
w("factorization_machine", lambda x: .5 * (x.sum(1).square() - x.square().sum(1)).sum(-1), r(65536, 39, 16))
w("cross_layer", lambda x0, x, wt, b: x0 * (x @ wt).unsqueeze(-1) + b + x, r(65536, 429), r(65536, 429), r(429), r(429))
w("embedding_mean", lambda i, t, m: (F.embedding(i, t) * m.unsqueeze(-1)).sum(1) / m.sum(1, keepdim=True).clamp(min=1), ints(500000, 16384, 20), r(500000, 64), lambda: (torch.rand(16384, 20) < .7).float())
w("hashed_ids", lambda x: ((x * 2654435761) ^ (x >> 7)) % 1000003, ints(1 << 40, 20000003))
w("negative_sampling_loss", lambda q, k, n: (F.logsigmoid((q * k).sum(-1)) + F.logsigmoid(-(n @ q.unsqueeze(-1)).squeeze(-1)).sum(-1)).mean().neg(), r(65536, 64), r(65536, 64), r(65536, 10, 64))
w("info_nce", lambda a, b: F.cross_entropy(F.normalize(a, dim=-1) @ F.normalize(b, dim=-1).T / .07, torch.arange(4096, device=a.device)), r(4096, 512, dtype=BF16), r(4096, 512, dtype=BF16))
# science
w("laplacian_3d", lambda x: x[1:-1, 1:-1, 2:] + x[1:-1, 1:-1, :-2] + x[1:-1, 2:, 1:-1] + x[1:-1, :-2, 1:-1] + x[2:, 1:-1, 1:-1] + x[:-2, 1:-1, 1:-1] - 6 * x[1:-1, 1:-1, 1:-1], r(402, 402, 402))
w("heat_step_rolled", lambda x: x + .1 * (x.roll(1, 0) + x.roll(-1, 0) + x.roll(1, 1) + x.roll(-1, 1) - 4 * x), r(8192, 8192))
w("rbf_kernel", lambda a, b: (-.5 * ((a * a).sum(-1, keepdim=True) + (b * b).sum(-1) - 2 * a @ b.T)).exp(), r(6000, 32, scale=.2), r(7001, 32, scale=.2))
w("n_body_forces", lambda p: (lambda d: (d * (d.square().sum(-1) + 1e-2).pow(-1.5).unsqueeze(-1)).sum(1))(p.unsqueeze(0) - p.unsqueeze(1)), r(6000, 3))
w("quaternion_product", lambda a, b: torch.stack((a[..., 0] * b[..., 0] - a[..., 1] * b[..., 1] - a[..., 2] * b[..., 2] - a[..., 3] * b[..., 3], a[..., 0] * b[..., 1] + a[..., 1] * b[..., 0] + a[..., 2] * b[..., 3] - a[..., 3] * b[..., 2], a[..., 0] * b[..., 2] - a[..., 1] * b[..., 3] + a[..., 2] * b[..., 0] + a[..., 3] * b[..., 1], a[..., 0] * b[..., 3] + a[..., 1] * b[..., 2] - a[..., 2] * b[..., 1] + a[..., 3] * b[..., 0]), -1), r(4000001, 4), r(4000001, 4))
w("rotate_points", lambda p, m: torch.einsum("bij,bnj->bni", m, p), r(256, 50000, 3), r(256, 3, 3))
w("batched_inverse_3x3", lambda m: torch.linalg.inv(m), r(300000, 3, 3))
w("spherical_harmonics", lambda v: (lambda n: torch.stack((n[..., 0] * n[..., 1], n[..., 1] * n[..., 2], 3 * n[..., 2] ** 2 - 1, n[..., 0] * n[..., 2], n[..., 0] ** 2 - n[..., 1] ** 2), -1))(F.normalize(v, dim=-1)), r(5000000, 3))
w("volume_render", lambda s, c: (lambda a: ((a * torch.cumprod(torch.cat((torch.ones_like(a[:, :1]), 1 - a[:, :-1] + 1e-10), 1), 1)).unsqueeze(-1) * c).sum(1))(1 - torch.exp(-s * .01)), u(200000, 64), u(200000, 64, 3))
w("positional_encoding", lambda x: torch.cat([f(x * 2 ** k) for k in range(8) for f in (torch.sin, torch.cos)], -1), r(1000000, 3))
w("trilinear_hash", lambda t, i, wt: (t[i] * wt.unsqueeze(-1)).sum(1), r(524288, 2, dtype=F16), ints(524288, 1000000, 8), u(1000000, 8, dtype=F16))
# transformers' odds and ends
w("relative_shift", lambda x: F.pad(x, (1, 0)).view(8, 16, 1025, 512)[:, :, 1:].reshape(8, 16, 512, 1024)[..., :512], r(8, 16, 512, 1024, dtype=F16))
w("top_p_mask", lambda x: (lambda v, i: torch.full_like(x, -math.inf).scatter(1, i, v.masked_fill(v.softmax(-1).cumsum(-1) - v.softmax(-1) > .9, -math.inf)))(*x.sort(-1, descending=True)), r(64, 50257))
w("repetition_penalty", lambda x, i: (lambda s: x.scatter(1, i, torch.where(s < 0, s * 1.2, s / 1.2)))(x.gather(1, i)), r(256, 128256), ints(128256, 256, 512))
w("beam_reorder", lambda c, i: c.view(32, 4, 16, 512, 64).gather(1, i.view(32, 4, 1, 1, 1).expand(-1, -1, 16, 512, 64)).reshape(128, 16, 512, 64), r(128, 16, 512, 64, dtype=F16), ints(4, 32, 4))
w("kv_int8_quantize", lambda x: (lambda s: ((x / s).round().to(torch.int8), s.to(F16)))(x.float().abs().amax(-1, keepdim=True).clamp(min=1e-6) / 127), r(16, 2048, 8, 128, dtype=BF16))
w("kv_int8_scores", lambda q, k, s: torch.einsum("bhd,bthd->bht", q, k.to(F16) * s), r(16, 8, 128, dtype=F16), ints(127, 16, 2048, 8, 128, dtype=torch.int8, low=-127), u(16, 2048, 8, 1, dtype=F16))
w("token_shift_mix", lambda x, a, b: (lambda p: torch.stack((x + (p - x) * a, x + (p - x) * b)))(F.pad(x, (0, 0, 1, -1))), r(8, 2048, 2048, dtype=BF16), r(2048, dtype=BF16), r(2048, dtype=BF16))
w("linear_attention", lambda q, k, v: (lambda a, b: torch.einsum("bhtd,bhde->bhte", a, torch.einsum("bhtd,bhte->bhde", b, v)) / (torch.einsum("bhtd,bhd->bht", a, b.sum(2)).unsqueeze(-1) + 1e-6))(F.elu(q) + 1, F.elu(k) + 1), *[r(4, 16, 2048, 64, dtype=F16) for _ in range(3)])
w("qk_norm_rope", lambda q, g, c, s: (lambda y: y * c + torch.cat((-y[..., 64:], y[..., :64]), -1) * s)(F.rms_norm(q, (128,), g)).transpose(1, 2), r(4, 2048, 32, 128, dtype=BF16), r(128, dtype=BF16), r(2048, 1, 128, dtype=BF16), r(2048, 1, 128, dtype=BF16))
w("gated_norm", lambda x, z, g: F.rms_norm(x * F.silu(z), (4096,), g), r(8192, 4096, dtype=BF16), r(8192, 4096, dtype=BF16), r(4096, dtype=BF16))
w("swin_mask_softmax", lambda x, b, m: (x.view(64, 64, 6, 49, 49) + b + m.unsqueeze(1)).softmax(-1), r(4096, 6, 49, 49, dtype=F16), r(6, 49, 49, dtype=F16), r(64, 49, 49, dtype=F16))
w("parallel_residual", lambda x, a, b, g, h: F.layer_norm(x + a + b, (2560,), g, h), *[r(8192, 2560, dtype=F16) for _ in range(3)], r(2560, dtype=F16), r(2560, dtype=F16))
w("mean_pool_mask", lambda x, m: (x * m.unsqueeze(-1)).sum(1) / m.sum(1, keepdim=True), r(128, 512, 768), lambda: (torch.rand(128, 512) < .8).float())
w("log_prob_entropy", lambda x, t: (lambda l: (l.gather(-1, t.unsqueeze(-1)).squeeze(-1), -(l.exp() * l).sum(-1)))(F.log_softmax(x.float(), -1)), r(4096, 32000, dtype=BF16), ints(32000, 4096))
# optimizers
def adamw(p, g, m, v):
    m = m * .9 + g * .1; v = v * .999 + g * g * .001
    return p * .999 - 1e-3 * m / (v.sqrt() + 1e-8), m, v
w("adamw_16_bits", adamw, *[r(16000003, dtype=BF16) for _ in range(2)], u(16000003), u(16000003))
w("adafactor_stats", lambda g: (lambda q: (lambda a, b: g * (a / a.mean()).rsqrt().unsqueeze(1) * b.rsqrt())(q.mean(1), q.mean(0)))(g * g + 1e-30), r(8192, 8192))
w("lion", lambda p, g, m: (p * .999 - 1e-4 * torch.sign(m * .9 + g * .1), m * .99 + g * .01), *[r(30000001) for _ in range(3)])
w("lamb_norms", lambda p, d: p - d * (p.norm() / d.norm()).clamp(0, 10), r(6000, 5001), r(6000, 5001))
w("newton_schulz", lambda g: (lambda x: (lambda a: 3.4445 * x + (-4.775 * a + 2.0315 * a @ a) @ x)(x @ x.T))(g / (g.norm() + 1e-7)), r(1024, 4096, dtype=BF16))
w("gradient_noise_scale", lambda g: torch.stack((g.square().mean(0).sum(), g.mean(0).square().sum())), r(64, 1000003))
# products with vectors
for D, NAME in ((F32, "f32"), (BF16, "bf16")):
    w(f"mv_{NAME}", lambda a, v: torch.sigmoid(a @ v), r(8000, 8000, dtype=D, scale=.05), r(8000, dtype=D, scale=.05))
    w(f"linear_one_row_{NAME}", lambda x, a, b: torch.relu(F.linear(x, a, b)), r(1, 8000, dtype=D, scale=.05), r(8000, 8000, dtype=D, scale=.05), r(8000, dtype=D))
    w(f"row_times_matrix_{NAME}", lambda a, v: torch.sigmoid(v @ a), r(8000, 8000, dtype=D, scale=.05), r(8000, dtype=D, scale=.05))
    w(f"batched_mv_{NAME}", lambda a, v: torch.bmm(a, v), r(64, 1000, 1000, dtype=D, scale=.05), r(64, 1000, 1, dtype=D, scale=.05))
    w(f"head_of_one_{NAME}", lambda x, a, b: torch.sigmoid(F.linear(x, a, b)), r(60000, 512, dtype=D), r(1, 512, dtype=D, scale=.05), r(1, dtype=D))
    w(f"head_of_three_{NAME}", lambda x, a, b: torch.sigmoid(F.linear(x, a, b)), r(60000, 512, dtype=D), r(3, 512, dtype=D, scale=.05), r(3, dtype=D))
    w(f"linear_four_rows_{NAME}", lambda x, a, b: torch.relu(F.linear(x, a, b)), r(4, 8000, dtype=D, scale=.05), r(8000, 8000, dtype=D, scale=.05), r(8000, dtype=D))
    w(f"norm_then_gate_{NAME}", lambda x, g, b, a: F.linear(F.layer_norm(x, (768,), g, b), a).sigmoid(), r(40000, 768, dtype=D), r(768, dtype=D), r(768, dtype=D), r(1, 768, dtype=D, scale=.05))
# columns whose statistics are read back
for NAME, SIZES, D in (("f32_odd", (64, 512, 515), F32), ("bf16_257", (256, 257, 1024), BF16), ("f16_2048", (16, 2048, 512), F16), ("f32_100", (64, 100, 4096), F32), ("f32_1000", (16, 1000, 1024), F32),
                       ("f16_150", (8, 150, 65536), F16), ("bf16_80", (64, 80, 5120), BF16)):
    w(f"softmax_of_channels_{NAME}", lambda x: x.softmax(1), r(*SIZES, dtype=D))
w("layer_norm_of_channels", lambda x: F.layer_norm(x.permute(0, 2, 3, 1), (256,)).permute(0, 3, 1, 2).contiguous(), r(32, 256, 56, 56))
w("log_softmax_of_channels_backward", lambda x, d: torch.ops.aten._log_softmax_backward_data(d, x, 1, torch.float32), r(64, 512, 515), r(64, 512, 515))
w("normalize_channels", lambda x: F.normalize(x, dim=1), r(64, 768, 1024, dtype=BF16))
w("standardize_channels", lambda x: (x - x.mean(1, keepdim=True)) / (x.std(1, keepdim=True) + 1e-5), r(64, 512, 1024))
w("attention_over_columns", lambda x, y: (x.softmax(1) * y).sum(1), r(32, 256, 2000), r(32, 256, 2000))
w("gumbel_columns", lambda x: F.softmax((x + 1) / 0.7, 1) * 2 + x, r(64, 333, 1001, dtype=F16))


# ---- physics on grids
def shallow_water(h, a, b):
    dx = lambda t: (torch.roll(t, -1, -1) - torch.roll(t, 1, -1)) * 0.5
    dy = lambda t: (torch.roll(t, -1, -2) - torch.roll(t, 1, -2)) * 0.5
    return h - 0.01 * (dx(h * a) + dy(h * b)), a - 0.01 * (a * dx(a) + b * dy(a) + 9.8 * dx(h)), b - 0.01 * (a * dx(b) + b * dy(b) + 9.8 * dy(h))
w("shallow_water", shallow_water, u(4, 1500, 1500), r(4, 1500, 1500), r(4, 1500, 1500))
def upwind(q, c):
    left = q - F.pad(q, (1, 0))[..., :-1]; right = F.pad(q, (0, 1))[..., 1:] - q
    return q - 0.1 * torch.where(c > 0, c * left, c * right)
w("upwind", upwind, r(3000, 3001), r(3000, 3001))
w("wave_9_points", lambda p, q, c: 2 * p[:, 4:-4, 4:-4] - q[:, 4:-4, 4:-4] + c[:, 4:-4, 4:-4] * sum(k * (torch.roll(p, s, 1) + torch.roll(p, -s, 1) + torch.roll(p, s, 2) + torch.roll(p, -s, 2))[:, 4:-4, 4:-4] for s, k in ((1, 1.6), (2, -0.2), (3, 0.025), (4, -0.0018))), r(3, 1600, 1600), r(3, 1600, 1600), u(3, 1600, 1600))
w("lattice_collide", lambda f, e, wt: f + ((lambda rho, v: wt.view(9, 1, 1) * rho * (1 + 3 * torch.einsum("qd,dxy->qxy", e, v) + 4.5 * torch.einsum("qd,dxy->qxy", e, v) ** 2 - 1.5 * (v * v).sum(0))) (f.sum(0), torch.einsum("qd,qxy->dxy", e, f) / f.sum(0)) - f) / 0.6, u(9, 1000, 1000), r(9, 2), u(9))
w("curl_3d", lambda v: torch.stack([v[2].roll(-1, 1) - v[2] - v[1].roll(-1, 2) + v[1], v[0].roll(-1, 2) - v[0] - v[2].roll(-1, 0) + v[2], v[1].roll(-1, 0) - v[1] - v[0].roll(-1, 1) + v[0]]), r(3, 200, 201, 202))
w("coarsen_3d", lambda v: F.avg_pool3d(v, 2) - F.max_pool3d(v, 2), r(4, 3, 128, 128, 130))
w("game_of_life", lambda b: (lambda n: ((n == 3) | ((n == 2) & b)))(sum(b.roll((i, j), (0, 1)).to(torch.uint8) for i in (-1, 0, 1) for j in (-1, 0, 1) if i or j)), mask(5000, 5000))
w("thomas_sweep", lambda a, b: torch.cumsum(torch.cumprod(a, 1).reciprocal() * b, 1) * torch.cumprod(a, 1), lambda: torch.rand(4096, 1024) * 0.02 + 0.99, r(4096, 1024))
w("lennard_jones_pairs", lambda p, i, j: (lambda d: (lambda s: 4 * (s * s - s))((d * d).sum(-1).add(0.1).reciprocal() ** 3).sum())(p[i] - p[j]), r(100000, 3), ints(100000, 2000000), ints(100000, 2000000))

# ---- money and time
w("drawdown", lambda p: (lambda c: ((c - c.cummax(1).values) / c.cummax(1).values).amin(1))((1 + p * 0.01).cumprod(1)), r(4096, 2520))
w("rolling_max_252", lambda p: F.max_pool1d(p.unsqueeze(1), 252, 1).squeeze(1), r(2048, 2520))
w("exponential_mean", lambda x, a: (lambda t: torch.cumsum(x * a ** -t, 1) * a ** t * (1 - a))(torch.arange(x.shape[1], device=x.device, dtype=x.dtype) / 32), r(8192, 1000), lambda: torch.tensor(0.98))
def implied(s, k, t, v): 
    d = (torch.log(s / k) + 0.5 * v * v * t) / (v * t.sqrt()); n = lambda z: 0.5 * (1 + torch.erf(z * 0.70710678))
    return s * n(d) - k * n(d - v * t.sqrt()), s * t.sqrt() * torch.exp(-0.5 * d * d) * 0.39894228, n(d)
w("black_scholes", implied, *[lambda: torch.rand(8000000) + 0.5] * 4)
w("monte_carlo_paths", lambda z: F.relu(torch.exp((z * 0.01 - 0.00005).cumsum(1)).mean(1) - 1).mean(), r(100000, 252))
w("covariance", lambda x: (lambda c: c.T @ c / (x.shape[0] - 1))(x - x.mean(0)), r(20000, 500))
w("correlation_bf16", lambda x: (lambda c: (lambda n: n @ n.mT)(c / c.norm(dim=-1, keepdim=True)))(x - x.mean(-1, keepdim=True)), r(64, 512, 1000, dtype=BF16))
w("rank_transform", lambda x: x.argsort(1).argsort(1).to(torch.float32) / x.shape[1], r(2000, 5000))
w("winsorize", lambda x: torch.minimum(torch.maximum(x, x.kthvalue(50, 1, keepdim=True).values), x.kthvalue(4951, 1, keepdim=True).values), r(2000, 5000))
w("difference_twice", lambda x: torch.diff(x, n=2, dim=1), r(4096, 4001))
w("crossings", lambda x: ((x[:, 1:] * x[:, :-1]) < 0).sum(1), r(8192, 4001, dtype=F16))
w("seasonal", lambda x: (lambda t: x - t - (x - t).view(512, -1, 24).mean(1, keepdim=True).expand(-1, 100, -1).reshape(512, -1))(F.avg_pool1d(F.pad(x.unsqueeze(1), (12, 11), mode="replicate"), 24, 1).squeeze(1)), r(512, 2400))

# ---- what detectors and cameras do
w("center_peaks", lambda h: torch.where(F.max_pool2d(h, 3, 1, 1) == h, h, 0).flatten(1).topk(100), u(16, 80, 128, 128))
def hsv(x):
    m, mx = x.amin(1), x.amax(1); d = (mx - m).clamp_min(1e-6); R, G, B = x.unbind(1)
    return torch.stack([torch.where(mx == R, (G - B) / d % 6, torch.where(mx == G, (B - R) / d + 2, (R - G) / d + 4)) / 6, d / mx.clamp_min(1e-6), mx], 1)
w("rgb_to_hsv", hsv, u(16, 3, 720, 1280))
w("posterize_jitter", lambda x, f: ((x.to(F32) * f.view(-1, 1, 1, 1) - 128) * 1.2 + 128).clamp(0, 255).to(torch.uint8) & 0xF8, ints(256, 64, 3, 512, 512, dtype=torch.uint8), u(64))
w("bayer_to_rgb", lambda b: torch.stack([b[:, 0::2, 0::2], (b[:, 0::2, 1::2] + b[:, 1::2, 0::2]) * 0.5, b[:, 1::2, 1::2]], 1), u(16, 2048, 2048))
w("yuv420_to_rgb", lambda y, c: (lambda v: torch.stack([y + 1.402 * v[:, 1], y - 0.344 * v[:, 0] - 0.714 * v[:, 1], y + 1.772 * v[:, 0]], 1).clamp(0, 1))(F.interpolate(c, scale_factor=2, mode="nearest")), u(16, 1080, 1920), r(16, 2, 540, 960))
w("integral_image", lambda x: (lambda s: s[:, 16:, 16:] - s[:, :-16, 16:] - s[:, 16:, :-16] + s[:, :-16, :-16])(x.cumsum(1).cumsum(2)), u(16, 1024, 1024))
w("harris", lambda x: (lambda gx, gy: (lambda a, b, c: a * c - b * b - 0.04 * (a + c) ** 2)(F.avg_pool2d(gx * gx, 5, 1, 2), F.avg_pool2d(gx * gy, 5, 1, 2), F.avg_pool2d(gy * gy, 5, 1, 2)))(x[..., 1:-1, 2:] - x[..., 1:-1, :-2], x[..., 2:, 1:-1] - x[..., :-2, 1:-1]), u(8, 1, 1024, 1024))
w("local_binary", lambda x: sum((x[:, 1 + i:1023 + i, 1 + j:1023 + j] >= x[:, 1:-1, 1:-1]).to(torch.uint8) << k for k, (i, j) in enumerate(((-1, -1), (-1, 0), (-1, 1), (0, 1), (1, 1), (1, 0), (1, -1), (0, -1)))), ints(256, 16, 1024, 1024, dtype=torch.uint8))
w("mask_to_boxes", lambda m: torch.stack([torch.where(m.any(1), torch.arange(640, device=m.device), 640).amin(1), torch.where(m.any(2), torch.arange(480, device=m.device), 480).amin(1), torch.where(m.any(1), torch.arange(640, device=m.device), -1).amax(1), torch.where(m.any(2), torch.arange(480, device=m.device), -1).amax(1)], 1), lambda: torch.rand(100, 480, 640) < 0.001)
w("confusion_matrix", lambda p, t: torch.bincount(t.flatten() * 19 + p.argmax(1).flatten(), minlength=361).view(19, 19), r(8, 19, 512, 512), ints(19, 8, 512, 512))
w("class_weights_softmax_2d", lambda x, c: F.cross_entropy(x, c, reduction="none").flatten(1).topk(26214)[0].mean(), r(8, 19, 512, 512, dtype=F16), ints(19, 8, 512, 512))
w("flow_warp", lambda x, f: F.grid_sample(x, (torch.stack(torch.meshgrid(torch.linspace(-1, 1, 256, device=x.device), torch.linspace(-1, 1, 448, device=x.device), indexing="ij")[::-1], -1) + f.permute(0, 2, 3, 1) * 0.01), align_corners=True, padding_mode="border"), r(8, 64, 256, 448), r(8, 2, 256, 448))
w("correlation_volume", lambda a, b: torch.stack([(a * torch.roll(b, (i, j), (2, 3))).mean(1) for i in (-2, 0, 2) for j in (-2, 0, 2)], 1), r(4, 64, 128, 224), r(4, 64, 128, 224))
w("convex_upsample", lambda m, f: (torch.softmax(m.view(4, 1, 9, 4, 4, 96, 128), 2) * F.unfold(4 * f, 3, padding=1).view(4, 2, 9, 1, 1, 96, 128)).sum(2).permute(0, 1, 4, 2, 5, 3).reshape(4, 2, 384, 512), r(4, 144, 96, 128), r(4, 2, 96, 128))
w("anchors_decode", lambda p, a: (lambda s: torch.cat([(s[..., :2] * 2 - 0.5), (s[..., 2:4] * 2) ** 2 * a, s[..., 4:]], -1))(p.view(16, 3, 85, 80, 80).permute(0, 1, 3, 4, 2).sigmoid()), r(16, 255, 80, 80, dtype=F16), r(2, dtype=F16))
w("distribution_focal_boxes", lambda p: (p.view(16, 4, 16, 8400).softmax(2) * torch.arange(16, device=p.device, dtype=p.dtype).view(1, 1, 16, 1)).sum(2), r(16, 64, 8400, dtype=F16))

# ---- points and surfaces
w("chamfer", lambda a, b: (lambda d: d.amin(2).mean() + d.amin(1).mean())(torch.cdist(a, b)), r(8, 2048, 3), r(8, 2048, 3))
w("nearest_16", lambda a: torch.cdist(a, a).topk(16, largest=False)[1], r(4, 2048, 3))
w("ball_group", lambda f, i: (lambda g: torch.cat([g - g[:, :, :, :1], g], 1).amax(3))(torch.gather(f.unsqueeze(2).expand(-1, -1, 1024, -1), 3, i.unsqueeze(1).expand(-1, 64, -1, -1))), r(8, 64, 4096), ints(4096, 8, 1024, 32))
w("face_normals", lambda v, f: F.normalize(torch.linalg.cross(v[f[:, 1]] - v[f[:, 0]], v[f[:, 2]] - v[f[:, 0]]), dim=-1), r(500000, 3), ints(500000, 1000000, 3))
w("vertex_mean", lambda v, f: torch.zeros_like(v).index_add(0, f.flatten(), v[f].mean(1).repeat_interleave(3, 0)), r(500000, 3), ints(500000, 1000000, 3))
w("voxel_mean", lambda p, i: (lambda s, c: s / c.clamp_min(1).unsqueeze(1))(torch.zeros(32768, 32, device=p.device).index_add(0, i, p), torch.zeros(32768, device=p.device).index_add(0, i, torch.ones_like(i, dtype=p.dtype))), r(500000, 32), ints(32768, 500000))
w("project_points", lambda p, m: (lambda q: q[..., :2] / q[..., 2:3].clamp_min(0.01))(F.pad(p, (0, 1), value=1.0) @ m.mT), r(16, 100000, 3), r(16, 3, 4))
w("gaussian_covariances", lambda q, s: (lambda R: (R * s.unsqueeze(1) ** 2) @ R.mT)((lambda a, b, c, d: torch.stack([1 - 2 * (c * c + d * d), 2 * (b * c - a * d), 2 * (b * d + a * c), 2 * (b * c + a * d), 1 - 2 * (b * b + d * d), 2 * (c * d - a * b), 2 * (b * d - a * c), 2 * (c * d + a * b), 1 - 2 * (b * b + c * c)], -1).view(-1, 3, 3))(*F.normalize(q, dim=-1).unbind(-1))), r(1000000, 4), u(1000000, 3))
w("rays_and_boxes", lambda o, d, lo, hi: (lambda a, b: (torch.minimum(a, b).amax(-1), torch.maximum(a, b).amin(-1)))((lo - o.unsqueeze(1)) / d.unsqueeze(1), (hi - o.unsqueeze(1)) / d.unsqueeze(1)), r(20000, 3), r(20000, 3), r(64, 3), r(64, 3))
w("signed_distances", lambda p: torch.minimum(torch.maximum(p.norm(dim=-1) - 1, -(p - 0.5).norm(dim=-1) + 0.7), (p.abs() - 0.6).clamp_min(0).norm(dim=-1)), r(4000000, 3))
w("eikonal", lambda p, a, b: vjp(lambda x: torch.sigmoid(F.softplus(x @ a, beta=100) @ b), p)[1](torch.ones(200000, 1, device=p.device))[0].norm(dim=-1).sub(1).square().mean(), r(200000, 3), r(3, 64), r(64, 1))

# ---- what recommends, routes and plays
w("bucketed_ages", lambda x, b: torch.bucketize(x, b), u(8000000), lambda: torch.linspace(0, 1, 33))
w("one_hot_sum", lambda i: F.one_hot(i, 100).sum(1), ints(100, 50000, 20))
w("crossed_hash", lambda a, b: ((a * 2654435761 + b * 40503) % 1000003).to(torch.int32), ints(1 << 30, 4000000), ints(1 << 30, 4000000))
w("multi_hot_linear", lambda i, wt, v: (wt[i].squeeze(-1) * v).sum(1).sigmoid(), ints(1000000, 65536, 39), r(1000000, 1), u(65536, 39))
w("bilinear_interaction", lambda e, m: torch.cat([((e[:, i] @ m) * e[:, j]).sum(-1, keepdim=True) for i in range(8) for j in range(i)], 1), r(16384, 8, 64), r(64, 64))
w("target_attention", lambda q, k, m: (torch.softmax(torch.where(m, (torch.cat([q.unsqueeze(1).expand_as(k) - k, q.unsqueeze(1) * k], -1)).sum(-1), -1e9), 1).unsqueeze(-1) * k).sum(1), r(4096, 64), r(4096, 50, 64), mask(4096, 50))
w("auc_order", lambda s, y: (lambda o: (y[o].cumsum(0) * (1 - y[o])).sum() / (y.sum() * (1 - y).sum()))(s.argsort(descending=True)), r(2000000), lambda: (torch.rand(2000000) < 0.1).to(F32))
w("ndcg", lambda s, g: ((2 ** g.gather(1, s.argsort(1, descending=True)) - 1) / torch.log2(torch.arange(2, 202, device=s.device, dtype=F32))).sum(1), r(20000, 200), lambda: torch.randint(0, 5, (20000, 200)).to(F32))
w("bpr_in_batch", lambda a, b: F.softplus((a @ b.T) - (a * b).sum(1, keepdim=True)).mean(), r(4096, 64), r(4096, 64))
w("vtrace", lambda rw, v, rho: (lambda d: torch.flip(torch.cumsum(torch.flip(d, [0]), 0), [0]))(rho.clamp(max=1) * (rw[:-1] + 0.99 * v[1:] - v[:-1])), r(1025, 8192), r(1025, 8192), u(1024, 8192))
w("prioritized_draw", lambda p, x: torch.searchsorted(p.cumsum(0), x * p.sum()), u(1 << 22), u(1 << 16))
w("q_lambda_targets", lambda q, a, rw: rw + 0.99 * q.gather(-1, a.argmax(-1, keepdim=True)).squeeze(-1), r(65536, 18, 4)  , r(65536, 18, 4), r(65536, 18))
w("categorical_projection", lambda p, rw: (lambda z: torch.zeros(32768, 51, device=p.device).scatter_add(1, z.floor().long(), p * (z.ceil() - z + (z.floor() == z))).scatter_add(1, z.ceil().long(), p * (z - z.floor())))(((rw.unsqueeze(1) + 0.99 * torch.linspace(-10, 10, 51, device=p.device)).clamp(-10, 10) + 10) / 0.4), u(32768, 51), r(32768))
w("gat_scores", lambda h, s, d, a: (lambda e: (lambda m: (lambda x: x / torch.zeros(100000, 4, device=h.device).index_add(0, d, x)[d])(torch.exp(e - m[d])))(torch.full((100000, 4), -1e9, device=h.device).scatter_reduce(0, d.unsqueeze(1).expand(-1, 4), e, "amax")))(F.leaky_relu((h[s] * a).sum(-1) + (h[d] * a).sum(-1), 0.2)), r(100000, 4, 16), ints(100000, 800000), ints(100000, 800000), r(4, 16))
w("pna", lambda x: torch.cat([x.mean(1), x.amax(1), x.amin(1), x.std(1)], -1), r(50000, 16, 32))

# ---- language, speech and pictures that are made
w("ngram_hits", lambda t, p: (t.unfold(1, 4, 1) == p.view(1, 1, 4)).all(-1).sum(1), ints(1000, 4096, 2048), ints(1000, 4))
w("label_smoothing", lambda x, y: F.cross_entropy(x.float(), y, label_smoothing=0.1, ignore_index=0), r(8192, 32000, dtype=BF16), ints(32000, 8192))
w("min_p", lambda x: torch.where(x.softmax(-1) >= 0.05 * x.softmax(-1).amax(-1, keepdim=True), x, float("-inf")), r(256, 128256, dtype=BF16))
w("typical_mask", lambda x: (lambda l: (lambda e: (-l - e).abs().sort(-1)[0][:, :4096])(-(l.exp() * l).sum(-1, keepdim=True)))(x.log_softmax(-1)), r(64, 50257))
w("speculative_accept", lambda p, q, t, uu: ((p.gather(2, t.unsqueeze(2)) / q.gather(2, t.unsqueeze(2))).squeeze(2) > uu).cumprod(1).sum(1), lambda: torch.rand(64, 8, 32000).softmax(-1), lambda: torch.rand(64, 8, 32000).softmax(-1), ints(32000, 64, 8), u(64, 8))
w("residual_distribution", lambda p, q: (lambda d: d / d.sum(-1, keepdim=True))(F.relu(p - q)), u(512, 128256), u(512, 128256))
w("contrastive_penalty", lambda h, c: (F.normalize(h, dim=-1).unsqueeze(1) @ F.normalize(c, dim=-1).mT).amax(-1), r(64, 768, dtype=F16), r(64, 2048, 768, dtype=F16))
w("wkv_chunk", lambda q, k, v, g: (lambda c: ((q * c.exp()) @ (k * (-c).exp()).mT).tril(-1) @ v)(g.cumsum(2)), r(8, 16, 64, 64), r(8, 16, 64, 64), r(8, 16, 64, 64), lambda: -torch.rand(8, 16, 64, 64) * 0.05)
w("retention", lambda q, k, v: ((q @ k.mT) * (lambda i: torch.where(i.unsqueeze(1) >= i, 0.97 ** (i.unsqueeze(1) - i), 0.0))(torch.arange(1024, device=q.device, dtype=q.dtype))) @ v, r(4, 8, 1024, 64), r(4, 8, 1024, 64), r(4, 8, 1024, 64))
w("ctc_step", lambda a, e: torch.logsumexp(torch.stack([a, F.pad(a, (1, 0), value=-1e9)[:, :-1], F.pad(a, (2, 0), value=-1e9)[:, :-2]]), 0) + e, r(16384, 401), r(16384, 401))
w("mel_filters", lambda s, m: torch.log10((s.real.square() + s.imag.square()) @ m + 1e-10), lambda: torch.randn(64, 3000, 201, dtype=torch.complex64), u(201, 80))
w("spec_augment", lambda x, a, b: torch.where(((torch.arange(3000, device=x.device) >= a.unsqueeze(1)) & (torch.arange(3000, device=x.device) < b.unsqueeze(1))).unsqueeze(2), x.mean(), x), r(64, 3000, 80), ints(1500, 64), ints(3000, 64, low=1500))
w("energy_vad", lambda x: (lambda e: (e > e.mean(1, keepdim=True) * 0.5))(x.unfold(1, 400, 160).square().mean(-1)), r(256, 160000))
w("overlap_add", lambda f: F.fold(f, (1, 160 * 999 + 400), (1, 400), stride=(1, 160)), r(32, 400, 1000))
w("codebook_lookup", lambda z, c: (lambda i: (c[i], i))((z.square().sum(1, keepdim=True) - 2 * z @ c.T + c.square().sum(1)).argmin(1)), r(65536, 64), r(1024, 64))
w("finite_scalar", lambda z: (lambda b: (b + (b.round() - b)).to(F32))(torch.tanh(z) * torch.tensor([3.5, 3.5, 3.5, 2.0, 2.0, 2.0], device=z.device)), r(2000000, 6))
w("ddim_step", lambda x, e, a, b: (lambda p: b.sqrt().view(-1, 1, 1, 1) * p + (1 - b).sqrt().view(-1, 1, 1, 1) * e)(((x - (1 - a).sqrt().view(-1, 1, 1, 1) * e) / a.sqrt().view(-1, 1, 1, 1)).clamp(-1, 1)), r(64, 4, 256, 256, dtype=F16), r(64, 4, 256, 256, dtype=F16), lambda: (torch.rand(64) * 0.9 + 0.05).to(F16), lambda: (torch.rand(64) * 0.9 + 0.05).to(F16))
w("guidance_rescale", lambda c, n: (lambda g: 0.7 * g * (c.std((1, 2, 3), keepdim=True) / g.std((1, 2, 3), keepdim=True)) + 0.3 * g)(n + 7.5 * (c - n)), r(64, 4, 128, 128), r(64, 4, 128, 128))
w("adaln_zero", lambda x, c: (lambda s, b, g: x + g.unsqueeze(1) * (F.layer_norm(x, (1152,)) * (1 + s.unsqueeze(1)) + b.unsqueeze(1)))(*c.chunk(3, 1)), r(64, 256, 1152, dtype=BF16), r(64, 3456, dtype=BF16))
w("rope_of_pictures", lambda q, c, s: (lambda a, b: torch.stack([a * c - b * s, a * s + b * c], -1).flatten(-2))(q[..., 0::2], q[..., 1::2]), r(8, 24, 4096, 64, dtype=BF16), r(4096, 32, dtype=BF16), r(4096, 32, dtype=BF16))
w("timestep_embedding", lambda t, wt: (lambda a: F.silu(torch.cat([a.cos(), a.sin()], -1)) @ wt)(t.unsqueeze(1) * torch.exp(-math.log(10000) * torch.arange(128, device=t.device) / 128)), u(65536), r(256, 64))
w("minibatch_stddev", lambda x: torch.cat([x, x.view(4, -1, 256, 32, 32).var(0, unbiased=False).add(1e-8).sqrt().mean((1, 2, 3)).view(-1, 1, 1, 1).repeat(4, 1, 32, 32)], 1), r(64, 256, 32, 32))
w("demodulate", lambda wt, s: (lambda m: m * m.square().sum((2, 3, 4), keepdim=True).add(1e-8).rsqrt())(wt.unsqueeze(0) * s.view(32, 1, 512, 1, 1)), r(512, 512, 3, 3), r(32, 512))

# ---- numbers in fewer bits, and steps
w("nf4_dequant", lambda p, t, s: (torch.stack([t[(p >> 4).int()], t[(p & 15).int()]], -1).view(-1, 64) * s.unsqueeze(1)).to(BF16), ints(256, 16 << 20, dtype=torch.uint8), r(16), u(1 << 19))
w("ternary", lambda x: (lambda s: (x / s).round().clamp(-1, 1).to(torch.int8))(x.abs().mean().clamp_min(1e-5)), r(4096, 11008, dtype=BF16))
w("mx_scales", lambda x: (lambda g: (lambda e: ((g / torch.exp2(e)).clamp(-6, 6), e))(torch.floor(torch.log2(g.abs().amax(-1, keepdim=True).clamp_min(1e-20))) - 2))(x.float().view(-1, 32)), r(4096, 8192, dtype=BF16))
w("pack_signs", lambda x: ((x.view(-1, 8) > 0).to(torch.uint8) << torch.arange(8, device=x.device, dtype=torch.uint8)).sum(1, dtype=torch.uint8), r(64 << 20, dtype=F16))
w("unpack_bits", lambda p: ((p.unsqueeze(1) >> torch.arange(8, device=p.device, dtype=torch.uint8)) & 1).to(BF16).flatten(), ints(256, 8 << 20, dtype=torch.uint8))
w("hamming", lambda a, b: ((a.unsqueeze(1) ^ b.unsqueeze(0)).view(512, 4096, 8, 1) >> torch.arange(8, device=a.device, dtype=torch.uint8) & 1).sum((2, 3)), ints(256, 512, 8, dtype=torch.uint8), ints(256, 4096, 8, dtype=torch.uint8))
w("smooth_quant", lambda x, s: (lambda y: (lambda a: ((y / a).round().to(torch.int8), a))(y.abs().amax(-1, keepdim=True) / 127))(x / s), r(16384, 5120, dtype=F16), lambda: (torch.rand(5120) + 0.5).to(F16))
w("int8_dequant_add", lambda a, sa, sb, c: (a.float() * sa * sb + c.float()).to(BF16), ints(1 << 20, 8192, 4096, dtype=torch.int32), u(8192, 1), u(4096), r(8192, 4096, dtype=BF16))
w("stochastic_bf16", lambda x, n: ((x.view(torch.int32) + (n & 0xFFFF)) & -65536).view(F32).to(BF16), r(8192, 4096), ints(1 << 30, 8192, 4096, dtype=torch.int32))
w("ema_of_parameters", lambda *t: [a * 0.999 + b.float() * 0.001 for a, b in zip(t[:12], t[12:])], *[r(1024, 1024)] * 12, *[r(1024, 1024, dtype=BF16)] * 12)
w("clip_by_norm", lambda *t: (lambda n: [x * (1.0 / (n + 1e-6)).clamp(max=1) for x in t])(torch.stack([x.norm() for x in t]).norm()), *[r(1000, 1003)] * 16)
w("rms_prop_centered", lambda p, g, s, m: (lambda a, b: (p - 0.001 * g / (a - b * b).clamp_min(0).sqrt().add(1e-8), a, b))(0.99 * s + 0.01 * g * g, 0.99 * m + 0.01 * g), r(5000, 5001), r(5000, 5001), u(5000, 5001), r(5000, 5001))
w("sign_momentum_cautious", lambda p, g, m: (lambda uu: p - 0.001 * uu * (uu * g > 0) / (uu * g > 0).float().mean().clamp_min(0.001))(torch.sign(0.9 * m + 0.1 * g)), r(5000, 5000), r(5000, 5000), r(5000, 5000))
w("row_col_second_moments", lambda g: (lambda s: g / (s.mean(1, keepdim=True) * s.mean(0) / s.mean()).sqrt())(g * g + 1e-30), r(8192, 4096, dtype=BF16))
w("hessian_diagonal", lambda x, y: grad(lambda t: (torch.sin(t) * t * y).sum())(x) * 0.5 + grad(lambda t: grad(lambda z: (torch.sin(z) * z * y).sum())(t).sum())(x), r(4096, 4096), r(4096, 4096))
