"""Sixty layers, blocks and training steps of published architectures, in the manner of their authors: sequences, vision, points and graphs,
fields and physics, recommendation, sound, time series, generation, memory, quantization, optimizers. W maps a name to a function that gives
(module, inputs); with SMALL=1 in the environment sizes are small enough for a host, else realistic. Steps take gradients within."""
import math
import os

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.func import functional_call, grad_and_value

from function_module import Fn, ints, mask, r, u

BF16, F16, F32 = torch.bfloat16, torch.float16, torch.float32
THROUGH_BACKEND = True
SMALL = bool(os.environ.get("SMALL"))
W = {}


def d(big, small):
    return small if SMALL else big


def prepared(net, dtype):
    """Norms away from the identity, parameters frozen (steps ask for their gradients by torch.func), evaluation mode, dtype."""
    net.requires_grad_(False)
    for k in net.modules():
        if isinstance(k, (nn.modules.batchnorm._NormBase, nn.LayerNorm, nn.GroupNorm)):
            if getattr(k, "weight", None) is not None: k.weight.normal_(1, .1)
            if getattr(k, "bias", None) is not None: k.bias.normal_(0, .1)
            if getattr(k, "running_var", None) is not None: k.running_mean.normal_(0, .1); k.running_var.uniform_(.5, 1.5)
    return net.eval().to(dtype)


def w(name, f, *inputs):
    assert name not in W
    W[name] = lambda: (Fn(f), tuple(one() for one in inputs))


def m(name, make, *inputs, dtype=F32):
    assert name not in W
    W[name] = lambda: (prepared(make(), dtype), tuple(one() for one in inputs))


class Step(nn.Module):
    """loss(net(first inputs), remaining inputs) and its gradients by the parameters and by the first input, if it is a float tensor."""
    def __init__(self, net, loss, taken=1, scale=1.0, by_input=True):
        super().__init__()
        self.net, self.loss, self.taken, self.scale, self.by_input = net, loss, taken, scale, by_input

    def forward(self, *a):
        rest, others = a[1:self.taken], a[self.taken:]

        def value(p, x):
            return self.loss(functional_call(self.net, p, (x, *rest)), *others) * self.scale
        p = dict(self.net.named_parameters())
        if self.by_input:
            (gp, gx), l = grad_and_value(value, argnums=(0, 1))(p, a[0])
            return (l, gx, *gp.values())
        gp, l = grad_and_value(value)(p, a[0])
        return (l, *gp.values())


def weight(*s, fan):
    return nn.Parameter(torch.randn(*s) / math.sqrt(fan))


def mse(y, t):
    return F.mse_loss(y.float(), t.float())


# ---- sequences
def segsum(x):
    T = x.size(-1); c = x.cumsum(-1)
    s = c[..., :, None] - c[..., None, :]
    return s.masked_fill(~torch.ones(T, T, dtype=torch.bool, device=x.device).tril(), -torch.inf)


class MambaTwo(nn.Module):
    def __init__(self, dim, heads, p, n, chunk):
        super().__init__()
        self.h, self.p, self.n, self.chunk, self.inner = heads, p, n, chunk, heads * p
        self.in_proj = nn.Linear(dim, 2 * self.inner + 2 * n + heads, bias=False)
        self.conv1d = nn.Conv1d(self.inner + 2 * n, self.inner + 2 * n, 4, groups=self.inner + 2 * n, padding=3)
        self.dt_bias = nn.Parameter(torch.randn(heads) * .3 - 2); self.A_log = nn.Parameter(torch.rand(heads).add(1).log()); self.D = nn.Parameter(torch.ones(heads))
        self.norm = nn.Parameter(torch.rand(self.inner) + .5); self.out_proj = nn.Linear(self.inner, dim, bias=False)

    def forward(self, v):
        b, L, _ = v.shape; Q = self.chunk; c = L // Q
        z, xbc, dt = self.in_proj(v).split([self.inner, self.inner + 2 * self.n, self.h], -1)
        xbc = F.silu(self.conv1d(xbc.transpose(1, 2))[..., :L].transpose(1, 2))
        x, B, C = torch.split(xbc, [self.inner, self.n, self.n], dim=-1)
        dt = F.softplus(dt.float() + self.dt_bias.float()); A = -torch.exp(self.A_log.float()) * dt
        x = x.view(b, c, Q, self.h, self.p); B = B.reshape(b, c, Q, self.n); C = C.reshape(b, c, Q, self.n)
        xd = (x * dt.view(b, c, Q, self.h, 1).to(x.dtype))
        A = A.view(b, c, Q, self.h).permute(0, 3, 1, 2); Ac = A.cumsum(-1)
        Lm = segsum(A).exp().to(x.dtype)                                             # b h c l s
        G = torch.einsum("bcln,bcsn->bcls", C, B) / self.n ** .5
        y = torch.einsum("bhcls,bcshp->bclhp", G.unsqueeze(1) * Lm, xd)
        left = (Ac[..., -1:] - Ac).exp().to(x.dtype)
        states = torch.einsum("bcsn,bcshp->bchpn", B, xd * left.permute(0, 2, 3, 1).unsqueeze(-1))
        states = torch.cat([torch.zeros_like(states[:, :1]), states], 1)
        carry = segsum(F.pad(Ac[..., -1], (1, 0))).exp().to(x.dtype)                 # b h c+1 c+1
        states = torch.einsum("bhzc,bchpn->bzhpn", carry, states)[:, :-1]
        off = torch.einsum("bcln,bchpn->bclhp", C, states) * Ac.exp().permute(0, 2, 3, 1).unsqueeze(-1).to(x.dtype) / self.n ** .5
        y = (y + off + x * self.D[:, None]).reshape(b, L, self.inner) * F.silu(z)
        f = y.float(); f = f * torch.rsqrt(f.pow(2).mean(-1, keepdim=True) + 1e-5)
        return self.out_proj(f.to(v.dtype) * self.norm)


m("mamba2_ssd_block", lambda: MambaTwo(*d((768, 24, 64, 128, 128), (12, 3, 8, 5, 7))), r(2, d(2048, 21), d(768, 12), dtype=BF16), dtype=BF16)


class RwkvFiveTimeMix(nn.Module):
    def __init__(self, dim, heads, chunk):
        super().__init__()
        self.h, self.chunk = heads, chunk
        for n in "rkvg": setattr(self, "mix_" + n, nn.Parameter(torch.rand(1, 1, dim)))
        self.receptance, self.key, self.value, self.gate, self.output = (nn.Linear(dim, dim, bias=False) for _ in range(5))
        self.decay = nn.Parameter(torch.linspace(-6, -2.5, dim)); self.bonus = nn.Parameter(torch.randn(dim) * .3); self.ln_x = nn.GroupNorm(heads, dim)

    def forward(self, x):
        B, T, D = x.shape; h = self.h; n = D // h; Q = self.chunk
        xx = F.pad(x, (0, 0, 1, -1)) - x
        q, k, v, g = (f(x + xx * t) for f, t in ((self.receptance, self.mix_r), (self.key, self.mix_k), (self.value, self.mix_v), (self.gate, self.mix_g)))
        q, k, v = (F.pad(t.float(), (0, 0, 0, -T % Q)).view(B, -1, Q, h, n).permute(1, 0, 3, 2, 4) for t in (q, k, v))
        e = -self.decay.float().exp().view(1, h, 1, n); i = torch.arange(Q, device=x.device, dtype=torch.float32).view(1, 1, Q, 1)
        forth, back, end = (e * i).exp(), (-e * (i + 1)).exp(), (e * (Q - 1 - i)).exp(); whole = (e * Q).exp().transpose(-1, -2)
        uu = self.bonus.float().view(1, h, 1, n); low = torch.tril(torch.ones(Q, Q, device=x.device), -1); S = torch.zeros(B, h, n, n, device=x.device); out = []
        for t in range(q.shape[0]):
            qt = q[t] * forth; a = (qt @ (k[t] * back).transpose(-1, -2)) * low
            out.append(a @ v[t] + (q[t] * uu * k[t]).sum(-1, keepdim=True) * v[t] + qt @ S)
            S = whole * S + (k[t] * end).transpose(-1, -2) @ v[t]
        y = torch.stack(out, 1).permute(0, 1, 3, 2, 4).reshape(B, -1, D)[:, :T]
        y = self.ln_x(y.reshape(B * T, D).to(x.dtype) / 8).view(B, T, D)
        return self.output(y * F.silu(g))


m("rwkv5_time_mix", lambda: RwkvFiveTimeMix(*d((1024, 16, 64), (14, 2, 5))), r(3, d(777, 13), d(1024, 14), dtype=BF16), dtype=BF16)


class RwkvChannelMix(nn.Module):
    def __init__(self, dim, hidden):
        super().__init__()
        self.time_mix_k, self.time_mix_r = nn.Parameter(torch.rand(1, 1, dim)), nn.Parameter(torch.rand(1, 1, dim))
        self.ln = nn.LayerNorm(dim); self.key, self.value, self.receptance = nn.Linear(dim, hidden, bias=False), nn.Linear(hidden, dim, bias=False), nn.Linear(dim, dim, bias=False)
        self.time_shift = nn.ZeroPad2d((0, 0, 1, -1))

    def forward(self, x):
        y = self.ln(x); xx = self.time_shift(y)
        xk = y * self.time_mix_k + xx * (1 - self.time_mix_k); xr = y * self.time_mix_r + xx * (1 - self.time_mix_r)
        k = torch.square(torch.relu(self.key(xk)))
        return x + torch.sigmoid(self.receptance(xr)) * self.value(k)


_s = (3, d(777, 11), d(1024, 13))
m("rwkv_channel_mix_train", lambda: Step(RwkvChannelMix(d(1024, 13), d(3584, 37)), mse, scale=d(1e5, 1e3)), r(*_s, dtype=BF16), r(*_s, dtype=BF16), dtype=BF16)


def gla_chunks(q, k, v, g):
    b, h, T, dk = q.shape; C = d(128, 5); n = T // C
    q, k, v, g = (t.float().reshape(b, h, n, C, -1) for t in (q, k, v, F.logsigmoid(g.float()) / 16))
    q = q * dk ** -.5; cum = g.cumsum(-2); total = cum[..., -1:, :]
    qd, kd, ke = q * cum.exp(), k * (-cum).exp(), k * (total - cum).exp()
    a = torch.einsum("bhnid,bhnjd->bhnij", qd, kd).masked_fill(torch.triu(torch.ones(C, C, device=q.device, dtype=torch.bool), 1), 0)
    o = torch.einsum("bhnij,bhnjv->bhniv", a, v); kv = ke.transpose(-1, -2) @ v
    S = torch.zeros_like(kv[:, :, 0])
    for i in range(n):
        o[:, :, i] += qd[:, :, i] @ S
        S = S * total[:, :, i].transpose(-1, -2).exp() + kv[:, :, i]
    return o.reshape(b, h, T, -1).to(BF16), S


_s = (2, 4, d(2048, 20))
w("gated_linear_attention_chunks", gla_chunks, r(*_s, d(128, 7), dtype=BF16), r(*_s, d(128, 7), dtype=BF16), r(*_s, d(256, 11), dtype=BF16), r(*_s, d(128, 7), dtype=BF16))


class PerceiverCross(nn.Module):
    def __init__(self, latents, dim, context, heads):
        super().__init__()
        self.latents = nn.Parameter(torch.randn(latents, dim)); self.heads = heads
        self.norm, self.norm_context = nn.LayerNorm(dim), nn.LayerNorm(context)
        self.to_q, self.to_kv, self.to_out = nn.Linear(dim, context, bias=False), nn.Linear(context, context * 2, bias=False), nn.Linear(context, dim)
        self.ff = nn.ModuleList([nn.LayerNorm(dim), nn.Linear(dim, dim * 8), nn.Linear(dim * 4, dim)])

    def forward(self, data, keep):
        b = data.shape[0]; x = self.latents.unsqueeze(0).expand(b, -1, -1)
        q = self.to_q(self.norm(x)); k, v = self.to_kv(self.norm_context(data)).chunk(2, dim=-1)
        sim = torch.einsum("bid,bjd->bij", q, k) * q.shape[-1] ** -.5
        sim = sim.masked_fill(~keep.unsqueeze(1), -torch.finfo(sim.dtype).max)
        x = x + self.to_out(torch.einsum("bij,bjd->bid", sim.softmax(-1), v))
        n, up, down = self.ff; y, gates = up(n(x)).chunk(2, dim=-1)
        return x + down(y * F.gelu(gates))


m("perceiver_cross_attention", lambda: PerceiverCross(*d((512, 512, 261, 1), (7, 12, 11, 1))), r(3, d(12321, 29), d(261, 11), dtype=F16), mask(3, d(12321, 29)), dtype=F16)


# ---- vision
class MixerLayer(nn.Module):
    def __init__(self, tokens, dim, token_hidden, hidden):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.token = nn.Sequential(nn.Linear(tokens, token_hidden), nn.GELU(), nn.Linear(token_hidden, tokens))
        self.channel = nn.Sequential(nn.Linear(dim, hidden), nn.GELU(), nn.Linear(hidden, dim))

    def forward(self, x):
        x = x + self.token(self.n1(x).transpose(1, 2)).transpose(1, 2)
        return x + self.channel(self.n2(x))


_s = (d(32, 2), d(196, 9), d(512, 16))
m("mlp_mixer_layer_train", lambda: Step(MixerLayer(*d((196, 512, 256, 2048), (9, 16, 7, 19))), mse, scale=d(1e5, 1e3)), r(*_s, dtype=BF16), r(*_s, dtype=BF16), dtype=BF16)


class ConvNextTwo(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.dw = nn.Conv2d(c, c, 7, padding=3, groups=c); self.norm = nn.LayerNorm(c, eps=1e-6)
        self.p1, self.p2 = nn.Linear(c, 4 * c), nn.Linear(4 * c, c); self.gamma, self.beta = nn.Parameter(torch.randn(1, 1, 1, 4 * c) * .5), nn.Parameter(torch.randn(1, 1, 1, 4 * c) * .1)

    def forward(self, x):
        y = F.gelu(self.p1(self.norm(self.dw(x).permute(0, 2, 3, 1))))
        gx = torch.norm(y.float(), p=2, dim=(1, 2), keepdim=True); nx = (gx / (gx.mean(-1, keepdim=True) + 1e-6)).to(y.dtype)
        return x + self.p2(self.gamma * (y * nx) + self.beta + y).permute(0, 3, 1, 2)


m("convnext_v2_block", lambda: ConvNextTwo(d(97, 7)), r(d(8, 1), d(97, 7), d(111, 11), d(93, 9), dtype=BF16), dtype=BF16)


class SwinBlock(nn.Module):
    def __init__(self, dim, heads, side, win, shift):
        super().__init__()
        self.dim, self.heads, self.side, self.win, self.shift = dim, heads, side, win, shift
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim); self.qkv, self.proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))
        self.table = nn.Parameter(torch.randn((2 * win - 1) ** 2, heads) * .3)
        c = torch.stack(torch.meshgrid(torch.arange(win), torch.arange(win), indexing="ij")).flatten(1); rel = (c[:, :, None] - c[:, None, :]).permute(1, 2, 0) + win - 1
        self.register_buffer("index", rel[..., 0] * (2 * win - 1) + rel[..., 1])
        region = (torch.arange(side) >= side - win).long() + (torch.arange(side) >= side - shift).long(); img = region[:, None] * 3 + region[None, :]
        iw = img.view(side // win, win, side // win, win).permute(0, 2, 1, 3).reshape(-1, win * win)
        self.register_buffer("attn_mask", torch.where(iw.unsqueeze(1) != iw.unsqueeze(2), -100.0, 0.0))

    def forward(self, x):
        B, L, C = x.shape; H = self.side; ws = self.win; nw = H // ws
        y = torch.roll(self.n1(x).view(B, H, H, C), shifts=(-self.shift, -self.shift), dims=(1, 2))
        y = y.view(B, nw, ws, nw, ws, C).permute(0, 1, 3, 2, 4, 5).contiguous().view(-1, ws * ws, C)
        q, k, v = self.qkv(y).reshape(-1, ws * ws, 3, self.heads, C // self.heads).permute(2, 0, 3, 1, 4).unbind(0)
        a = (q * (C // self.heads) ** -.5) @ k.transpose(-2, -1)
        a = a + self.table[self.index.view(-1)].view(ws * ws, ws * ws, -1).permute(2, 0, 1).contiguous().unsqueeze(0)
        a = (a.view(B, nw * nw, self.heads, ws * ws, ws * ws) + self.attn_mask.unsqueeze(1).unsqueeze(0)).view(-1, self.heads, ws * ws, ws * ws).softmax(-1)
        y = self.proj((a @ v).transpose(1, 2).reshape(-1, ws * ws, C))
        y = y.view(B, nw, nw, ws, ws, C).permute(0, 1, 3, 2, 4, 5).reshape(B, H, H, C)
        x = x + torch.roll(y, shifts=(self.shift, self.shift), dims=(1, 2)).view(B, L, C)
        return x + self.mlp(self.n2(x))


m("swin_shifted_block", lambda: SwinBlock(*d((96, 3, 56, 7, 3), (10, 2, 6, 3, 1))), r(d(32, 3), d(56, 6) ** 2, d(96, 10), dtype=F16), dtype=F16)


class MbConv(nn.Module):
    def __init__(self, c, out, expand=4):
        super().__init__()
        e = c * expand
        self.pre = nn.BatchNorm2d(c); self.expand = nn.Sequential(nn.Conv2d(c, e, 1, bias=False), nn.BatchNorm2d(e), nn.GELU())
        self.dw = nn.Sequential(nn.Conv2d(e, e, 3, 2, 1, groups=e, bias=False), nn.BatchNorm2d(e), nn.GELU())
        self.se = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(e, c // 4 + 1, 1), nn.SiLU(), nn.Conv2d(c // 4 + 1, e, 1), nn.Sigmoid()); self.project, self.short = nn.Conv2d(e, out, 1), nn.Conv2d(c, out, 1)

    def forward(self, x):
        y = self.dw(self.expand(self.pre(x)))
        return self.short(F.max_pool2d(x, 3, 2, 1)) + self.project(y * self.se(y))


m("coatnet_mbconv", lambda: MbConv(*d((64, 96), (5, 7))), r(d(16, 2), d(64, 5), d(112, 9), d(112, 11), dtype=F16), dtype=F16)


class ShuffleUnits(nn.Module):
    def __init__(self, half):
        super().__init__()
        def cb(i, o, k, s=1, g=1): return [nn.Conv2d(i, o, k, s, k // 2, groups=g, bias=False), nn.BatchNorm2d(o)]
        h = half
        self.main1 = nn.Sequential(*cb(h, h, 1), nn.ReLU(True), *cb(h, h, 3, g=h), *cb(h, h, 1), nn.ReLU(True))
        self.main2 = nn.Sequential(*cb(2 * h, 2 * h, 1), nn.ReLU(True), *cb(2 * h, 2 * h, 3, 2, 2 * h), *cb(2 * h, 2 * h, 1), nn.ReLU(True))
        self.proj2 = nn.Sequential(*cb(2 * h, 2 * h, 3, 2, 2 * h), *cb(2 * h, 2 * h, 1), nn.ReLU(True))

    def forward(self, x):
        b, c, h, wd = x.shape
        y = x.reshape(b * c // 2, 2, h * wd).permute(1, 0, 2).reshape(2, -1, c // 2, h, wd)                  # channel shuffle of the authors
        x = torch.cat((y[0], self.main1(y[1])), 1)
        return torch.cat((self.proj2(x), self.main2(x)), 1)


m("shufflenet_v2_units", lambda: ShuffleUnits(d(58, 5)), r(d(128, 3), d(116, 10), d(29, 9), d(31, 7), dtype=BF16), dtype=BF16)


class Res2Bottle(nn.Module):
    def __init__(self, c, width, scale=4):
        super().__init__()
        self.width, self.scale = width, scale
        self.c1, self.b1 = nn.Conv2d(c, width * scale, 1, bias=False), nn.BatchNorm2d(width * scale); self.c3, self.b3 = nn.Conv2d(width * scale, c, 1, bias=False), nn.BatchNorm2d(c)
        self.convs = nn.ModuleList([nn.Conv2d(width, width, 3, padding=1, bias=False) for _ in range(scale - 1)]); self.bns = nn.ModuleList([nn.BatchNorm2d(width) for _ in range(scale - 1)])

    def forward(self, x):
        spx = torch.split(F.relu(self.b1(self.c1(x))), self.width, 1); sp = None; out = None
        for i in range(self.scale - 1):
            sp = spx[i] if i == 0 else sp + spx[i]
            sp = F.relu(self.bns[i](self.convs[i](sp)))
            out = sp if i == 0 else torch.cat((out, sp), 1)
        return F.relu(self.b3(self.c3(torch.cat((out, spx[-1]), 1))) + x)


m("res2net_bottleneck", lambda: Res2Bottle(*d((256, 26), (13, 3))), r(d(16, 1), d(256, 13), d(56, 11), d(56, 9), dtype=F16), dtype=F16)


class SelectiveKernel(nn.Module):
    def __init__(self, c, groups):
        super().__init__()
        self.c = c; self.convs = nn.ModuleList([nn.Sequential(nn.Conv2d(c, c, 3, padding=1 + i, dilation=1 + i, groups=groups, bias=False), nn.GroupNorm(groups, c), nn.ReLU()) for i in range(2)])
        z = max(c // 4, 3); self.fc = nn.Sequential(nn.Linear(c, z), nn.LayerNorm(z), nn.ReLU()); self.fcs = nn.ModuleList([nn.Linear(z, c) for _ in range(2)])

    def forward(self, x):
        feas = torch.cat([conv(x).unsqueeze(1) for conv in self.convs], 1)
        z = self.fc(feas.sum(1).mean(-1).mean(-1))
        att = torch.cat([fc(z).unsqueeze(1) for fc in self.fcs], 1).softmax(1)
        return (feas * att.unsqueeze(-1).unsqueeze(-1)).sum(1)


_s = (d(5, 1), d(96, 6), d(111, 11), d(93, 13))
m("sknet_selective_train", lambda: Step(SelectiveKernel(d(96, 6), d(32, 2)), mse, scale=d(1e5, 1e3)), r(*_s), r(*_s))


class DeformHead(nn.Module):
    def __init__(self, c, out):
        super().__init__()
        self.offset = nn.Conv2d(c, 27, 3, padding=1); self.weight = weight(out, c, 9, fan=9 * c)

    def forward(self, x):
        b, c, h, wd = x.shape
        o = self.offset(x); dy, dx, mk = torch.chunk(o, 3, dim=1); mk = mk.sigmoid()
        ky, kx = torch.meshgrid(torch.arange(-1, 2, device=x.device), torch.arange(-1, 2, device=x.device), indexing="ij")
        py = torch.arange(h, device=x.device).view(1, 1, h, 1) + ky.reshape(1, 9, 1, 1) + dy; px = torch.arange(wd, device=x.device).view(1, 1, 1, wd) + kx.reshape(1, 9, 1, 1) + dx
        g = torch.stack((2 * px / (wd - 1) - 1, 2 * py / (h - 1) - 1), -1).reshape(b, 9 * h, wd, 2)
        s = F.grid_sample(x, g, mode="bilinear", padding_mode="zeros", align_corners=True).view(b, c, 9, h, wd) * mk.unsqueeze(1)
        return torch.einsum("bckhw,ock->bohw", s, self.weight)


m("deformable_v2_sampled", lambda: DeformHead(*d((64, 64), (5, 7))), r(d(4, 1), d(64, 5), d(96, 11), d(101, 13)))


class BiFpn(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.convs = nn.ModuleList([nn.Sequential(nn.Conv2d(c, c, 3, padding=1, groups=c, bias=False), nn.Conv2d(c, c, 1), nn.BatchNorm2d(c)) for _ in range(4)])
        self.w2, self.w3 = nn.Parameter(torch.rand(3, 2) + .2), nn.Parameter(torch.rand(1, 3) + .2)

    def forward(self, p3, p4, p5):
        def fuse(wt, conv, *xs):
            wt = F.relu(wt); wt = wt / (wt.sum() + 1e-4)
            return conv(F.silu(sum(wt[i] * x for i, x in enumerate(xs))))
        p4t = fuse(self.w2[0], self.convs[0], p4, F.interpolate(p5, scale_factor=2, mode="nearest"))
        p3o = fuse(self.w2[1], self.convs[1], p3, F.interpolate(p4t, scale_factor=2, mode="nearest"))
        p4o = fuse(self.w3[0], self.convs[2], p4, p4t, F.max_pool2d(p3o, 3, 2, 1))
        return p3o, p4o, fuse(self.w2[2], self.convs[3], p5, F.max_pool2d(p4o, 3, 2, 1))


m("bifpn_merge", lambda: BiFpn(d(160, 7)), *[r(d(12, 1), d(160, 7), d(22, 3) * k, d(26, 2) * k, dtype=BF16) for k in (4, 2, 1)], dtype=BF16)


class YoloDetect(nn.Module):
    def __init__(self, chans, classes):
        super().__init__()
        self.no = classes + 5; self.m = nn.ModuleList([nn.Conv2d(c, self.no * 3, 1) for c in chans])
        self.register_buffer("anchors", torch.tensor([[[10, 13], [16, 30], [33, 23]], [[30, 61], [62, 45], [59, 119]], [[116, 90], [156, 198], [373, 326]]], dtype=torch.float32))

    def forward(self, *xs):
        z = []
        for i, x in enumerate(xs):
            x = self.m[i](x); bs, _, ny, nx = x.shape
            y = x.view(bs, 3, self.no, ny, nx).permute(0, 1, 3, 4, 2).contiguous().sigmoid()
            yv, xv = torch.meshgrid(torch.arange(ny, device=x.device), torch.arange(nx, device=x.device), indexing="ij"); grid = torch.stack((xv, yv), 2).expand(1, 3, ny, nx, 2).to(y.dtype)
            y[..., 0:2] = (y[..., 0:2] * 2 - 0.5 + grid) * 2.0 ** (3 + i)
            y[..., 2:4] = (y[..., 2:4] * 2) ** 2 * self.anchors[i].view(1, 3, 1, 1, 2)
            z.append(y.view(bs, -1, self.no))
        z = torch.cat(z, 1); conf, cls = (z[..., 5:] * z[..., 4:5]).max(-1)
        xy, wh = z[..., :2], z[..., 2:4]
        return torch.cat((xy - wh / 2, xy + wh / 2), -1), conf


m("yolo_v5_detect", lambda: YoloDetect(d((128, 256, 512), (3, 5, 7)), d(80, 6)), r(d(16, 1), d(128, 3), d(76, 8), d(68, 12), dtype=F16), r(d(16, 1), d(256, 5), d(38, 4), d(34, 6), dtype=F16), r(d(16, 1), d(512, 7), d(19, 2), d(17, 3), dtype=F16), dtype=F16)


class DetrDecoder(nn.Module):
    def __init__(self, dim, heads, ff, classes):
        super().__init__()
        self.h = heads; self.sa, self.ca_q, self.ca_kv = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim), nn.Linear(dim, 2 * dim); self.so, self.co = nn.Linear(dim, dim), nn.Linear(dim, dim)
        self.n = nn.ModuleList([nn.LayerNorm(dim) for _ in range(4)]); self.l1, self.l2 = nn.Linear(dim, ff), nn.Linear(ff, dim)
        self.cls = nn.Linear(dim, classes + 1); self.box = nn.ModuleList([nn.Linear(dim, dim), nn.Linear(dim, dim), nn.Linear(dim, 4)])

    def heads_of(self, t):
        return t.view(*t.shape[:2], self.h, -1).transpose(1, 2)

    def forward(self, tgt, query_pos, memory, pos, pad):
        wq, wk, wv = self.sa.weight.chunk(3); bq, bk, bv = self.sa.bias.chunk(3); qk = tgt + query_pos
        o = F.scaled_dot_product_attention(self.heads_of(F.linear(qk, wq, bq)), self.heads_of(F.linear(qk, wk, bk)), self.heads_of(F.linear(tgt, wv, bv)))
        tgt = self.n[0](tgt + self.so(o.transpose(1, 2).flatten(2)))
        wk, wv = self.ca_kv.weight.chunk(2); bk, bv = self.ca_kv.bias.chunk(2)
        q, k, v = self.heads_of(self.ca_q(tgt + query_pos)), self.heads_of(F.linear(memory + pos, wk, bk)), self.heads_of(F.linear(memory, wv, bv))
        a = (q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])).masked_fill(pad[:, None, None, :], float("-inf")).softmax(-1)
        tgt = self.n[1](tgt + self.co((a @ v).transpose(1, 2).flatten(2)))
        tgt = self.n[2](tgt + self.l2(F.relu(self.l1(tgt)))); h = self.n[3](tgt); y = h
        for i, l in enumerate(self.box): y = F.relu(l(y)) if i < 2 else l(y)
        cx, cy, bw, bh = y.sigmoid().unbind(-1)
        return self.cls(h), torch.stack([cx - .5 * bw, cy - .5 * bh, cx + .5 * bw, cy + .5 * bh], dim=-1)


_b, _q, _n, _c = d((31, 100, 27 * 33, 256), (3, 7, 35, 16))
m("detr_decoder_and_boxes", lambda: DetrDecoder(*d((256, 8, 2048, 91), (16, 4, 29, 5))), r(_b, _q, _c, dtype=BF16), r(_b, _q, _c, dtype=BF16), r(_b, _n, _c, dtype=BF16), r(_b, _n, _c, dtype=BF16), mask(_b, _n), dtype=BF16)


def centernet_decode(heat, wh, reg, K=d(100, 7)):
    b, c, h, wd = heat.shape
    heat = heat.masked_fill(F.max_pool2d(heat, 3, 1, 1) != heat, -20.0)
    s, i = torch.topk(heat.view(b, c, -1), K); s, j = torch.topk(s.view(b, -1), K)
    cls = torch.div(j, K, rounding_mode="floor"); i = i.view(b, -1).gather(1, j); ys, xs = (i // wd).float(), (i % wd).float()
    def feat(f): return f.permute(0, 2, 3, 1).reshape(b, -1, f.shape[1]).gather(1, i.unsqueeze(2).expand(-1, -1, f.shape[1]))
    o, z = feat(reg), feat(wh); xs = xs.unsqueeze(2) + o[..., :1]; ys = ys.unsqueeze(2) + o[..., 1:]
    box = torch.cat((xs - z[..., :1] / 2, ys - z[..., 1:] / 2, xs + z[..., :1] / 2, ys + z[..., 1:] / 2), 2)
    return torch.cat((box, s.sigmoid().unsqueeze(2), cls.float().unsqueeze(2)), 2)


_h, _v = d((128, 144), (11, 13))
w("centernet_decode_topk", centernet_decode, r(d(8, 2), d(80, 5), _h, _v), u(d(8, 2), 2, _h, _v), u(d(8, 2), 2, _h, _v))


class Aspp(nn.Module):
    def __init__(self, c, out, rates):
        super().__init__()
        def cbr(i, o, k, r=1): return nn.Sequential(nn.Conv2d(i, o, k, padding=r if k > 1 else 0, dilation=r, bias=False), nn.BatchNorm2d(o), nn.ReLU())
        self.branches = nn.ModuleList([cbr(c, out, 1)] + [cbr(c, out, 3, r) for r in rates]); self.pool = cbr(c, out, 1); self.project = cbr(5 * out, out, 1)

    def forward(self, x):
        g = F.interpolate(self.pool(F.adaptive_avg_pool2d(x, 1)), size=x.shape[-2:], mode="bilinear", align_corners=False)
        return self.project(torch.cat([f(x) for f in self.branches] + [g], dim=1))


m("aspp_head", lambda: Aspp(*d((512, 256, (6, 12, 18)), (11, 5, (2, 3, 5)))), r(d(3, 1), d(512, 11), d(65, 13), d(65, 11), dtype=BF16), dtype=BF16)


class Psp(nn.Module):
    def __init__(self, c, out):
        super().__init__()
        self.stages = nn.ModuleList([nn.Sequential(nn.AdaptiveAvgPool2d(s), nn.Conv2d(c, c // 4, 1, bias=False), nn.BatchNorm2d(c // 4), nn.ReLU()) for s in (1, 2, 3, 6)])
        self.last = nn.Sequential(nn.Conv2d(c + 4 * (c // 4), out, 3, padding=1, bias=False), nn.BatchNorm2d(out), nn.ReLU())

    def forward(self, x):
        return self.last(torch.cat([x] + [F.interpolate(s(x), size=x.shape[2:], mode="bilinear", align_corners=True) for s in self.stages], 1))


m("psp_pooling_head", lambda: Psp(*d((1024, 256), (9, 7))), r(d(3, 1), d(1024, 9), d(47, 13), d(59, 17), dtype=F16), dtype=F16)


class UnetUp(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.up = nn.ConvTranspose2d(2 * c, c, 2, stride=2); g = 8 if c % 8 == 0 else 1
        self.conv = nn.Sequential(nn.Conv2d(2 * c, c, 3, padding=1, bias=False), nn.GroupNorm(g, c), nn.ReLU(), nn.Conv2d(c, c, 3, padding=1, bias=False), nn.GroupNorm(g, c), nn.ReLU())

    def forward(self, x1, x2):
        x1 = self.up(x1); dy, dx = x2.size(2) - x1.size(2), x2.size(3) - x1.size(3)
        return self.conv(torch.cat([x2, F.pad(x1, [dx // 2, dx - dx // 2, dy // 2, dy - dy // 2])], dim=1))


_b, _c, _h, _v = d((6, 128, 111, 93), (1, 5, 11, 9))
m("unet_up_skip_train", lambda: Step(UnetUp(d(128, 5)), mse, taken=2, scale=d(3e5, 1e3)), r(_b, 2 * _c, _h // 2, _v // 2, dtype=BF16), r(_b, _c, _h, _v, dtype=BF16), r(_b, _c, _h, _v, dtype=BF16), dtype=BF16)


class Unet3d(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.c1, self.n1, self.c2, self.n2 = nn.Conv3d(i, o, 3, padding=1), nn.InstanceNorm3d(o, affine=True), nn.Conv3d(o, o, 3, padding=1), nn.InstanceNorm3d(o, affine=True)

    def forward(self, x):
        x = F.leaky_relu(self.n1(self.c1(x)), 0.01); x = F.leaky_relu(self.n2(self.c2(x)), 0.01, inplace=True)
        return F.max_pool3d(x, 2), x


m("unet3d_down_block", lambda: Unet3d(*d((32, 64), (3, 5))), r(1, d(32, 3), d(61, 5), d(97, 7), d(89, 6), dtype=F16), dtype=F16)


# ---- points and graphs
class SetAbstraction(nn.Module):
    def __init__(self, c, widths, radius, samples):
        super().__init__()
        self.radius, self.samples = radius, samples; sizes = [c + 3] + widths
        self.convs = nn.ModuleList([nn.Conv2d(a, b, 1) for a, b in zip(sizes, sizes[1:])]); self.bns = nn.ModuleList([nn.BatchNorm2d(b) for b in widths])

    def forward(self, xyz, feats, centres):
        xyz = (xyz * 256).floor() / 256                                                                      # exact distances
        B, N, _ = xyz.shape; S = centres.shape[1]
        new = xyz.gather(1, centres.unsqueeze(-1).expand(-1, -1, 3))
        dist = -2 * torch.matmul(new, xyz.permute(0, 2, 1)); dist += (new ** 2).sum(-1).view(B, S, 1); dist += (xyz ** 2).sum(-1).view(B, 1, N)
        idx = torch.arange(N, dtype=torch.long, device=xyz.device).view(1, 1, N).repeat(B, S, 1)
        idx = idx.masked_fill_(dist > self.radius ** 2, N).sort(dim=-1)[0][:, :, :self.samples]
        idx = torch.where(idx == N, idx[:, :, :1], idx); flat = idx.reshape(B, -1, 1)
        g = torch.cat([xyz.gather(1, flat.expand(-1, -1, 3)).view(B, S, -1, 3) - new.unsqueeze(2), feats.gather(1, flat.expand(-1, -1, feats.shape[-1])).view(B, S, -1, feats.shape[-1])], -1).permute(0, 3, 2, 1)
        for conv, bn in zip(self.convs, self.bns): g = F.relu(bn(conv(g)))
        return new, g.max(2)[0]


m("pointnet_set_abstraction", lambda: SetAbstraction(*d((64, [64, 64, 128], .2, 32), (5, [7, 8, 9], .4, 5))), u(d(4, 2), d(4096, 41), 3), r(d(4, 2), d(4096, 41), d(64, 5)), ints(d(4096, 41), d(4, 2), d(512, 11)))


class EdgeConv(nn.Module):
    def __init__(self, c, out, k):
        super().__init__()
        self.k = k; self.conv = nn.Sequential(nn.Conv2d(2 * c, out, 1, bias=False), nn.BatchNorm2d(out), nn.LeakyReLU(0.2))

    def forward(self, pos, x):
        b, n, _ = pos.shape; c = x.shape[1]
        idx = (-(pos.unsqueeze(2) - pos.unsqueeze(1)).square().sum(-1)).topk(self.k, dim=-1)[1]
        idx = (idx + torch.arange(b, device=x.device).view(-1, 1, 1) * n).view(-1)
        xt = x.transpose(2, 1).contiguous(); f = xt.view(b * n, -1)[idx, :].view(b, n, self.k, c)
        xt = xt.view(b, n, 1, c).repeat(1, 1, self.k, 1)
        return self.conv(torch.cat((f - xt, xt), dim=3).permute(0, 3, 1, 2)).max(dim=-1)[0]


m("edgeconv_knn", lambda: EdgeConv(*d((61, 64, 20), (5, 7, 4))), r(d(7, 2), d(1021, 23), 3), r(d(7, 2), d(61, 5), d(1021, 23)))


def gatv2_loss(x, wl, wr, att, wo, src, dst, y):
    H, D = att.shape; n = x.shape[0]; l, q = (x @ wl).view(n, H, D), (x @ wr).view(n, H, D)
    e = (F.leaky_relu(l.index_select(0, src) + q.index_select(0, dst), 0.2) * att).sum(-1)
    mx = torch.full((n, H), -1e30, device=x.device).scatter_reduce(0, dst.unsqueeze(1).expand(-1, H), e.detach(), "amax")
    p = (e - mx.index_select(0, dst)).exp(); z = torch.zeros(n, H, device=x.device).index_add(0, dst, p)
    a = p / (z.index_select(0, dst) + 1e-16)
    o = torch.zeros(n, H, D, device=x.device).index_add(0, dst, l.index_select(0, src) * a.unsqueeze(-1))
    return F.cross_entropy(F.elu(o.flatten(1)) @ wo, y) * d(1e4, 1e2)
def _gat(*t):
    g, l = grad_and_value(gatv2_loss, argnums=(0, 1, 2, 3, 4))(*t); return l, g
_n, _e, _i, _h, _o, _c = d((20011, 200003, 64, 4, 16, 40), (23, 71, 7, 2, 3, 5))
w("gatv2_index_add_train", _gat, r(_n, _i), r(_i, _h * _o, scale=_i ** -.5), r(_i, _h * _o, scale=_i ** -.5), r(_h, _o, scale=_o ** -.5), r(_h * _o, _c, scale=(_h * _o) ** -.5), ints(_n, _e), ints(_n, _e), ints(_c, _n))


class Egnn(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.edge = nn.Sequential(nn.Linear(2 * c + 1, c), nn.SiLU(), nn.Linear(c, c), nn.SiLU()); self.gate = nn.Sequential(nn.Linear(c, 1), nn.Sigmoid())
        self.coord = nn.Sequential(nn.Linear(c, c), nn.SiLU(), nn.Linear(c, 1, bias=False)); self.node = nn.Sequential(nn.Linear(2 * c, c), nn.SiLU(), nn.Linear(c, c))

    def forward(self, h, x, row, col):
        diff = x[row] - x[col]; radial = diff.pow(2).sum(1, keepdim=True)
        e = self.edge(torch.cat([h[row], h[col], radial], dim=1)); e = e * self.gate(e)
        trans = diff / (radial.sqrt() + 1) * self.coord(e)
        cnt = torch.zeros(x.shape[0], 1, device=x.device).index_add_(0, row, torch.ones_like(radial)).clamp(min=1)
        x = x + torch.zeros_like(x).index_add(0, row, trans) / cnt
        agg = torch.zeros_like(h).scatter_add(0, row.unsqueeze(1).expand(-1, h.shape[1]), e)
        return h + self.node(torch.cat([h, agg], dim=1)), x


_n, _e, _c = d((8209, 131071, 64), (19, 61, 7))
m("egnn_layer_train", lambda: Step(Egnn(d(64, 7)), lambda o, t, s: (mse(o[0], t) + mse(o[1], s)), taken=4, scale=d(5e4, 1e3)), r(_n, _c), r(_n, 3), ints(_n, _e), ints(_n, _e), r(_n, _c), r(_n, 3))


# ---- fields and physics
class CosineOperator(nn.Module):
    """A Fourier neural operator's layer, in cosines, thus real."""
    def __init__(self, c, n, modes):
        super().__init__()
        k = torch.arange(modes).unsqueeze(1); x = torch.arange(n).unsqueeze(0)
        self.register_buffer("basis", torch.cos(math.pi / n * (x + .5) * k) * math.sqrt(2 / n)); self.wt = weight(c, c, modes, modes, fan=c); self.skip = nn.Conv2d(c, c, 1)

    def forward(self, v):
        f = torch.einsum("bcxy,kx,ly->bckl", v, self.basis, self.basis)
        g = torch.einsum("bikl,iokl->bokl", f, self.wt)
        return F.gelu(torch.einsum("bokl,kx,ly->boxy", g, self.basis, self.basis) + self.skip(v))


m("cosine_neural_operator", lambda: CosineOperator(*d((48, 128, 20), (5, 11, 4))), r(d(16, 2), d(48, 5), d(128, 11), d(128, 11)))


class Nerf(nn.Module):
    def __init__(self, width, freqs):
        super().__init__()
        self.freqs = freqs; i = 3 + 6 * freqs
        self.l1, self.l2, self.l3 = nn.Linear(i, width), nn.Linear(width, width), nn.Linear(width + i, width); self.sigma, self.rgb1, self.rgb2 = nn.Linear(width, 1), nn.Linear(width + 27, width // 2), nn.Linear(width // 2, 3)

    def encode(self, x, n):
        f = 2.0 ** torch.arange(n, device=x.device); a = (x[..., None, :] * f[:, None]).flatten(-2)
        return torch.cat([x, a.sin(), a.cos()], -1)

    def forward(self, rays_o, rays_d, t):
        pts = rays_o[:, None, :] + rays_d[:, None, :] * t[..., :, None]; view = F.normalize(rays_d, dim=-1)
        e = self.encode(pts, self.freqs); h = F.relu(self.l2(F.relu(self.l1(e)))); h = F.relu(self.l3(torch.cat([e, h], -1)))
        s = F.softplus(self.sigma(h)).squeeze(-1); dv = self.encode(view, 4)[:, None].expand(-1, t.shape[-1], -1)
        c = torch.sigmoid(self.rgb2(F.relu(self.rgb1(torch.cat([h, dv], -1)))))
        delta = torch.cat([t[..., 1:] - t[..., :-1], torch.full_like(t[..., :1], .1)], -1); tau = s * delta
        T = torch.exp(-(tau.cumsum(-1) - tau)); a = T * (1 - torch.exp(-tau))
        return (a.unsqueeze(-1) * c).sum(-2) + (1 - a.sum(-1, keepdim=True))


_n, _t = d((2039, 64), (5, 7))
m("nerf_render_train", lambda: Step(Nerf(d(128, 16), d(8, 3)), mse, taken=3, scale=d(1e3, 1e2), by_input=False), r(_n, 3), r(_n, 3, scale=.5), lambda: torch.rand(_nerf[0], _nerf[1]).cumsum(-1) / _nerf[1] * 4, u(_n, 3))
_nerf = (_n, _t)


class KanLinear(nn.Module):
    def __init__(self, i, o, grid=5, order=3):
        super().__init__()
        self.order = order; hstep = 2 / grid
        self.register_buffer("grid", (torch.arange(-order, grid + order + 1) * hstep - 1).expand(i, -1).contiguous())
        self.base, self.spline, self.scaler = weight(o, i, fan=i), weight(o, i, grid + order, fan=i), nn.Parameter(torch.rand(o, i) + .5)

    def b_splines(self, x):
        g = self.grid; x = x.unsqueeze(-1); b = ((x >= g[:, :-1]) & (x < g[:, 1:])).to(x.dtype)
        for k in range(1, self.order + 1):
            b = (x - g[:, :-(k + 1)]) / (g[:, k:-1] - g[:, :-(k + 1)]) * b[:, :, :-1] + (g[:, k + 1:] - x) / (g[:, k + 1:] - g[:, 1:-k]) * b[:, :, 1:]
        return b.contiguous()

    def forward(self, x):
        return F.linear(F.silu(x), self.base) + F.linear(self.b_splines(x).view(x.size(0), -1), (self.spline * self.scaler.unsqueeze(-1)).view(self.base.size(0), -1))


m("kan_spline_layer", lambda: KanLinear(*d((61, 67), (5, 7))), r(d(16381, 23), d(61, 5), scale=.5))


# ---- recommendation
class Dlrm(nn.Module):
    def __init__(self, rows, dim, tables, bottom, top):
        super().__init__()
        def mlp(s, last): return nn.Sequential(*[k for i in range(len(s) - 1) for k in (nn.Linear(s[i], s[i + 1]), nn.ReLU() if i < len(s) - 2 or not last else nn.Sigmoid())])
        self.emb = nn.Embedding(rows * tables, dim); self.register_buffer("offset", torch.arange(tables) * rows)
        n = tables + 1; self.bottom, self.top = mlp(bottom + [dim], False), mlp([dim + n * (n - 1) // 2] + top + [1], True)
        ij = torch.tril_indices(n, n, -1); self.register_buffer("li", ij[0]); self.register_buffer("lj", ij[1]); self.scale = dim ** -.5

    def forward(self, dense, ids):
        x = self.bottom(dense); T = torch.cat([x.unsqueeze(1), self.emb(ids + self.offset)], 1)
        Z = torch.bmm(T, T.transpose(1, 2)) * self.scale
        return self.top(torch.cat([x, Z[:, self.li, self.lj]], dim=1))


m("dlrm_dot_interaction", lambda: Dlrm(*d((20011, 64, 26, [13, 512, 256], [512, 256]), (17, 6, 4, [5, 7], [9]))), r(d(8192, 19), d(13, 5), dtype=BF16), ints(d(20011, 17), d(8192, 19), d(26, 4)), dtype=BF16)


class Din(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.att = nn.Sequential(nn.Linear(4 * c, 80), nn.Sigmoid(), nn.Linear(80, 40), nn.Sigmoid(), nn.Linear(40, 1)); self.fc = nn.Sequential(nn.Linear(3 * c, 200), nn.PReLU(), nn.Linear(200, 1))

    def forward(self, query, keys, length):
        q = query.unsqueeze(1).expand(-1, keys.size(1), -1)
        s = self.att(torch.cat([q, keys, q - keys, q * keys], dim=-1)).transpose(1, 2) * 4
        m_ = torch.arange(keys.size(1), device=keys.device)[None, :] < length[:, None]
        s = torch.where(m_.unsqueeze(1), s, torch.full_like(s, -2 ** 15 + 1)).softmax(-1)
        i = torch.bmm(s, keys).squeeze(1)
        return torch.sigmoid(self.fc(torch.cat([query, i, query * i], -1))).squeeze(1), i


m("din_activation_unit", lambda: Din(d(64, 6)), r(d(1021, 5), d(64, 6), dtype=F16), r(d(1021, 5), d(197, 13), d(64, 6), dtype=F16), ints(d(198, 14), d(1021, 5), low=1), dtype=F16)


def deepfm_loss(p, ids, vals, y):
    e = F.embedding(ids, p["v"]) * vals.unsqueeze(-1); first = (F.embedding(ids, p["w"]).squeeze(-1) * vals).sum(1)
    second = 0.5 * (e.sum(1).square() - e.square().sum(1)).sum(1) / ids.shape[1]
    h = F.relu(F.linear(e.flatten(1), p["w1"], p["b1"])); h = F.relu(F.linear(h, p["w2"], p["b2"])); deep = (h @ p["w3"]).squeeze(1)
    return F.binary_cross_entropy_with_logits(first + second + deep + p["b"], y) * d(1e4, 1e2)
class DeepFm(nn.Module):
    def __init__(self, rows, fields, dim, hidden):
        super().__init__()
        P = lambda *s, fan=1: weight(*s, fan=fan)
        self.p = nn.ParameterDict({"v": P(rows, dim, fan=dim), "w": P(rows, 1, fan=fields), "w1": P(hidden, fields * dim, fan=fields), "b1": P(hidden, fan=10), "w2": P(hidden, hidden, fan=hidden), "b2": P(hidden, fan=10), "w3": P(hidden, 1, fan=hidden), "b": P(1)})

    def forward(self, ids, vals, y):
        p = {k: v for k, v in self.p.items()}; g, l = grad_and_value(deepfm_loss)(p, ids, vals, y)
        return (l, *g.values())


_b, _f, _v = d((8192, 39, 100003), (17, 5, 29))
m("deepfm_train", lambda: DeepFm(*d((100003, 39, 16, 400), (29, 5, 3, 7))), ints(_v, _b, _f), u(_b, _f), lambda t=_b: (torch.rand(t) < .3).float())


class CrossMix(nn.Module):
    def __init__(self, dim, rank, experts, layers):
        super().__init__()
        self.U, self.V = weight(layers, experts, dim, rank, fan=rank), weight(layers, experts, rank, dim, fan=dim); self.C = weight(layers, experts, rank, rank, fan=rank)
        self.gate, self.bias = weight(layers, experts, dim, fan=dim), weight(layers, dim, fan=dim)

    def forward(self, x0):
        x = x0
        for i in range(self.U.shape[0]):
            v = torch.tanh(torch.einsum("bd,erd->ber", x, self.V[i])); v = torch.tanh(torch.einsum("ber,ers->bes", v, self.C[i]))
            o = x0.unsqueeze(1) * (torch.einsum("bes,eds->bed", v, self.U[i]) + self.bias[i])
            x = x + torch.einsum("bed,be->bd", o, torch.softmax(x @ self.gate[i].t(), -1))
        return x


m("dcn_v2_low_rank_mixture", lambda: CrossMix(*d((429, 64, 4, 2), (11, 3, 2, 2))), r(d(24001, 13), d(429, 11), dtype=BF16), dtype=BF16)


class Mmoe(nn.Module):
    def __init__(self, i, hidden, out, experts, tasks):
        super().__init__()
        self.w1, self.b1, self.w2 = weight(experts, i, hidden, fan=i), weight(experts, hidden, fan=hidden), weight(experts, hidden, out, fan=hidden)
        self.gates, self.towers = weight(tasks, i, experts, fan=i), weight(tasks, out, fan=out)

    def forward(self, x):
        e = F.relu(torch.einsum("bi,eih->beh", x, self.w1) + self.b1); e = torch.relu(torch.einsum("beh,eho->beo", e, self.w2))
        g = torch.einsum("bi,tie->bte", x, self.gates).softmax(-1)
        return torch.einsum("bto,to->bt", torch.bmm(g, e), self.towers)


m("mmoe_two_tasks_train", lambda: Step(Mmoe(*d((256, 512, 128, 6, 2), (7, 11, 5, 3, 2))), lambda o, y: F.binary_cross_entropy_with_logits(o.float(), y), scale=d(1e4, 1e2)), r(d(8191, 13), d(256, 7), dtype=BF16), lambda: (torch.rand(d(8191, 13), 2) < .3).float(), dtype=BF16)


# ---- sound
class WaveNet(nn.Module):
    def __init__(self, c, mel, skip, dilations):
        super().__init__()
        self.dilations = dilations; n = len(dilations)
        self.filter = nn.ModuleList([nn.Conv1d(c, 2 * c, 2, dilation=k) for k in dilations]); self.cond = nn.ModuleList([nn.Conv1d(mel, 2 * c, 1, bias=False) for _ in range(n)]); self.out = nn.ModuleList([nn.Conv1d(c, c + skip, 1) for _ in range(n)]); self.skip = skip

    def forward(self, x, mel):
        total = 0; mel = mel.repeat_interleave(-(-x.shape[-1] // mel.shape[-1]), dim=-1)[..., :x.shape[-1]]
        for k, f, c, o in zip(self.dilations, self.filter, self.cond, self.out):
            a, g = (f(F.pad(x, (k, 0))) + c(mel)).chunk(2, 1)
            y = o(torch.tanh(a) * torch.sigmoid(g)); x = (x + y[:, self.skip:]) * math.sqrt(.5); total = total + y[:, :self.skip]
        return F.relu(total), x


m("wavenet_conditioned_stack", lambda: WaveNet(*d((128, 80, 131, (1, 2, 64, 512)), (6, 5, 7, (1, 2, 4)))), r(3, d(128, 6), d(15013, 37), dtype=BF16), r(3, d(80, 5), d(59, 7), dtype=BF16), dtype=BF16)


class ConformerConv(nn.Module):
    def __init__(self, c, k):
        super().__init__()
        self.ln, self.p1, self.p2 = nn.LayerNorm(c), nn.Conv1d(c, 2 * c, 1), nn.Conv1d(c, c, 1); self.dw = nn.Conv1d(c, c, k, padding=(k - 1) // 2, groups=c, bias=False); self.bn = nn.BatchNorm1d(c, track_running_stats=False)

    def forward(self, x, pad):
        y = self.ln(x).transpose(1, 2).masked_fill(pad.unsqueeze(1), 0.0)
        y = F.silu(self.bn(self.dw(F.glu(self.p1(y), dim=1))))
        return x + self.p2(y).masked_fill(pad.unsqueeze(1), 0.0).transpose(1, 2)


_s = (d(31, 3), d(777, 19), d(384, 11))
m("conformer_convolution_train", lambda: Step(ConformerConv(d(384, 11), d(31, 7)), mse, taken=2, scale=d(3e5, 1e3)), r(*_s, dtype=BF16), lambda s=_s: torch.arange(s[1]).unsqueeze(0) >= torch.randint(s[1] // 2, s[1] + 1, (s[0], 1)), r(*_s, dtype=BF16), dtype=BF16)


class Postnet(nn.Module):
    def __init__(self, mel, c):
        super().__init__()
        s = [mel, c, c, c, c, mel]; self.convs = nn.ModuleList([nn.Sequential(nn.Conv1d(a, b, 5, padding=2, bias=False), nn.BatchNorm1d(b, track_running_stats=False)) for a, b in zip(s, s[1:])])

    def forward(self, x):
        y = x
        for i, c in enumerate(self.convs): y = torch.tanh(c(y)) if i < 4 else c(y)
        return x + y


_s = (d(11, 2), d(80, 5), d(777, 23))
m("tacotron_postnet_train", lambda: Step(Postnet(d(80, 5), d(512, 7)), lambda y, t: mse(y, t) + F.l1_loss(y.float(), t.float()), scale=d(3e4, 1e2)), r(*_s, dtype=F16), r(*_s, dtype=F16), dtype=F16)


class HifiRes(nn.Module):
    def __init__(self, c, k):
        super().__init__()
        self.a = nn.ModuleList([nn.Conv1d(c, c, k, dilation=n, padding=(k - 1) * n // 2) for n in (1, 3, 5)]); self.b = nn.ModuleList([nn.Conv1d(c, c, k, padding=k // 2) for _ in range(3)])

    def forward(self, x):
        for a, b in zip(self.a, self.b):
            x = b(F.leaky_relu(a(F.leaky_relu(x, 0.1)), 0.1)) + x
        return x


m("hifigan_resblock", lambda: HifiRes(*d((128, 7), (5, 3))), r(d(4, 1), d(128, 5), d(16384, 41), dtype=F16), dtype=F16)


class DemucsEncoder(nn.Module):
    def __init__(self, chans, k=8, stride=4):
        super().__init__()
        self.layers = nn.ModuleList([nn.Sequential(nn.Conv1d(a, b, k, stride), nn.ReLU(), nn.Conv1d(b, 2 * b, 1), nn.GLU(dim=1)) for a, b in zip(chans, chans[1:])])
        self.up = nn.ConvTranspose1d(chans[-1], chans[-2], k, stride)

    def forward(self, mix):
        mean = mix.mean(dim=1, keepdim=True); x = (mix - mean.mean(-1, keepdim=True)) / (mean.std(-1, keepdim=True) + 1e-3); saved = []
        for l in self.layers: x = l(x); saved.append(x)
        y = self.up(x); s = saved[-2]; n = s.shape[-1] - y.shape[-1]
        return F.relu(y) + s[..., n // 2:n // 2 + y.shape[-1]], x


m("demucs_encoder_glu", lambda: DemucsEncoder(d([2, 64, 128, 256], [2, 3, 5, 7])), r(d(5, 1), 2, d(262147, 397), dtype=F16), dtype=F16)


class TcnBlock(nn.Module):
    def __init__(self, c, k, dilations):
        super().__init__()
        self.k, self.dilations = k, dilations
        self.v, self.g, self.b = weight(len(dilations), 2, c, c, k, fan=c * k), nn.Parameter(torch.rand(len(dilations), 2, c, 1, 1) + .7), weight(len(dilations), 2, c, fan=c)

    def forward(self, x):
        for i, n in enumerate(self.dilations):
            y = x; p = (self.k - 1) * n
            for j in range(2):
                v = self.v[i, j]; wt = self.g[i, j] * v / v.norm(2, dim=(1, 2), keepdim=True)
                y = F.relu(F.conv1d(y, wt, self.b[i, j], padding=p, dilation=n)[:, :, :-p])                  # chomp
            x = F.relu(x + y)
        return x


_s = (d(24, 1), d(128, 5), d(1500, 29))
m("tcn_weight_norm_train", lambda: Step(TcnBlock(*d((128, 3, (1, 4)), (5, 3, (1, 2)))), mse, scale=d(1e5, 1e2)), r(*_s), r(*_s))


# ---- time series
def probsparse(q, k, v, sample):
    B, H, L, D = q.shape; U = sample.shape[1]
    ks = k.unsqueeze(-3).expand(B, H, L, L, D)[:, :, torch.arange(L, device=q.device).unsqueeze(1), sample, :]
    qk = torch.matmul(q.unsqueeze(-2), ks.transpose(-2, -1)).squeeze(-2)
    M = qk.max(-1)[0] - qk.sum(-1) / L; top = M.topk(U, sorted=False)[1]
    bi, hi = torch.arange(B, device=q.device)[:, None, None], torch.arange(H, device=q.device)[None, :, None]
    s = torch.matmul(q[bi, hi, top], k.transpose(-2, -1)) / math.sqrt(D)
    s = s.masked_fill(torch.arange(L, device=q.device) > top.unsqueeze(-1), -float("inf")).softmax(-1)
    ctx = v.cumsum(dim=-2) / torch.arange(1, L + 1, device=q.device).unsqueeze(1)
    ctx[bi, hi, top, :] = s @ v
    return ctx.transpose(1, 2).contiguous()


_s = (3, d(8, 2), d(1500, 23), d(64, 5))
w("informer_probsparse", probsparse, r(*_s), r(*_s), r(*_s), ints(d(1500, 23), d(1500, 23), d(37, 5)))


class AutoformerTail(nn.Module):
    def __init__(self, c, hidden, kernel, out):
        super().__init__()
        self.kernel = kernel; self.c1, self.c2 = nn.Conv1d(c, hidden, 1, bias=False), nn.Conv1d(hidden, c, 1, bias=False); self.proj = nn.Conv1d(c, out, 3, padding=1, padding_mode="circular", bias=False); self.norm = nn.LayerNorm(c)

    def decompose(self, x):
        n = (self.kernel - 1) // 2
        y = torch.cat([x[:, 0:1].repeat(1, n, 1), x, x[:, -1:].repeat(1, n, 1)], dim=1)
        y = F.avg_pool1d(y.permute(0, 2, 1), self.kernel, stride=1).permute(0, 2, 1)
        return x - y, y

    def forward(self, x, attended):
        x, t1 = self.decompose(x + attended)
        y = self.c2(F.gelu(self.c1(x.transpose(-1, 1)))).transpose(-1, 1); x, t2 = self.decompose(x + y)
        h = self.norm(x); h = h - h.mean(1, keepdim=True)
        return h, self.proj((t1 + t2).permute(0, 2, 1)).transpose(1, 2)


_s = (d(19, 1), d(777, 29), d(512, 7))
m("autoformer_decomposition", lambda: AutoformerTail(*d((512, 2048, 25, 7), (7, 11, 5, 3))), r(*_s, dtype=F16), r(*_s, dtype=F16), dtype=F16)


class PatchTst(nn.Module):
    def __init__(self, patch, stride, n, dim, heads, ff):
        super().__init__()
        self.patch, self.stride, self.heads = patch, stride, heads
        self.embed, self.pos, self.qkv, self.o = nn.Linear(patch, dim), nn.Parameter(torch.randn(n, dim) * .2), nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.b1, self.b2, self.f1, self.f2 = nn.BatchNorm1d(dim), nn.BatchNorm1d(dim), nn.Linear(dim, ff), nn.Linear(ff, dim); self.aw, self.ab = nn.Parameter(torch.rand(1, 1, 1) + .5), nn.Parameter(torch.zeros(1, 1, 1))

    def forward(self, x):
        B, V, L = x.shape; mu = x.mean(-1, keepdim=True); sd = torch.sqrt(x.float().var(-1, keepdim=True, unbiased=False) + 1e-5).to(x.dtype)
        z = F.pad((x - mu) / sd * self.aw + self.ab, (0, self.stride), mode="replicate").unfold(-1, self.patch, self.stride)
        z = self.embed(z).flatten(0, 1) + self.pos; q, k, v = self.qkv(z).reshape(B * V, -1, 3, self.heads, z.shape[-1] // self.heads).permute(2, 0, 3, 1, 4)
        s = q @ k.transpose(-1, -2) * q.shape[-1] ** -.5
        z = self.b1((z + self.o((s.softmax(-1) @ v).transpose(1, 2).flatten(2))).transpose(1, 2).contiguous()).transpose(1, 2)
        z = self.b2((z + self.f2(F.gelu(self.f1(z)))).transpose(1, 2).contiguous()).transpose(1, 2)
        return z.reshape(B, V, *z.shape[1:]).permute(0, 1, 3, 2)


m("patchtst_encoder", lambda: PatchTst(*d((16, 8, 42, 128, 16, 256), (5, 3, 9, 12, 3, 17))), r(d(96, 2), d(21, 3), d(336, 26), dtype=BF16), dtype=BF16)


# ---- generation
def vq_loss(z, code, dec, x):
    zf = z.permute(0, 2, 3, 1).contiguous(); f = zf.view(-1, z.shape[1])
    dist = f.square().sum(1, keepdim=True) + code.square().sum(1) - 2 * f @ code.t(); i = dist.argmin(1)
    q = F.embedding(i, code).view(zf.shape); loss = F.mse_loss(q, zf.detach()) + .25 * F.mse_loss(q.detach(), zf)
    st = zf + (q - zf).detach(); p = torch.zeros(f.shape[0], code.shape[0], device=z.device).scatter_(1, i.unsqueeze(1), 1).mean(0)
    rec = F.conv2d(st.permute(0, 3, 1, 2), dec, padding=1)
    return (loss + F.mse_loss(rec, x)) * d(1e5, 1e3), torch.exp(-(p * torch.log(p + 1e-10)).sum())
def _vq():
    b, c, h, k = d((7, 61, 48, 1024), (1, 7, 6, 11)); code = torch.randn(k, c)
    z = F.embedding(torch.randint(0, k, (b, h, h)), code).permute(0, 3, 1, 2) + .1 * torch.randn(b, c, h, h)
    def f(*t):
        g, (l, perplexity) = grad_and_value(vq_loss, argnums=(0, 1, 2), has_aux=True)(*t); return l, perplexity, g
    return Fn(f), (z, code, torch.randn(3, c, 3, 3) / (9 * c) ** .5, torch.randn(b, 3, h, h))
W["vqvae_quantize_train"] = _vq


class DdpmRes(nn.Module):
    def __init__(self, c, emb, groups):
        super().__init__()
        self.stem, self.head = nn.Conv2d(3, c, 3, padding=1), nn.Conv2d(c, 3, 3, padding=1); self.emb = emb; self.time = nn.Sequential(nn.Linear(emb, 4 * emb), nn.SiLU(), nn.Linear(4 * emb, 2 * c))
        self.n1, self.c1, self.n2, self.c2 = nn.GroupNorm(groups, c), nn.Conv2d(c, c, 3, padding=1), nn.GroupNorm(groups, c), nn.Conv2d(c, c, 3, padding=1)

    def forward(self, x0, noise, t, abar):
        a = abar.gather(0, t).view(-1, 1, 1, 1); x = (a.sqrt() * x0 + (1 - a).sqrt() * noise).to(x0.dtype)
        half = self.emb // 2; f = torch.exp(-math.log(10000) * torch.arange(half, device=x.device) / half); e = t.float()[:, None] * f[None]
        e = self.time(torch.cat([e.cos(), e.sin()], -1).to(x.dtype))[:, :, None, None]
        h = self.stem(x); y = self.c1(F.silu(self.n1(h))); scale, shift = e.chunk(2, dim=1)
        y = self.n2(y) * (1 + scale) + shift
        return self.head((h + self.c2(F.silu(y))) / math.sqrt(2))


_s = (d(20, 2), 3, d(64, 7), d(64, 9))
m("ddpm_resblock_train", lambda: Step(DdpmRes(*d((128, 128, 32), (6, 8, 2))), mse, taken=4, scale=d(1e4, 1e3), by_input=False), r(*_s, dtype=BF16), r(*_s, dtype=BF16), ints(1000, _s[0]), lambda: torch.cumprod(1 - torch.linspace(1e-4, .02, 1000), 0), r(*_s, dtype=BF16), dtype=BF16)


class DitBlock(nn.Module):
    def __init__(self, c, heads):
        super().__init__()
        self.h = heads; self.qkv, self.proj, self.f1, self.f2 = nn.Linear(c, 3 * c), nn.Linear(c, c), nn.Linear(c, 4 * c), nn.Linear(4 * c, c); self.ada = nn.Sequential(nn.SiLU(), nn.Linear(c, 6 * c))

    def forward(self, x, c):
        B, N, C = x.shape; sh1, sc1, g1, sh2, sc2, g2 = self.ada(c).chunk(6, dim=1)
        def modulate(y, shift, scale): return F.layer_norm(y, (C,), eps=1e-6) * (1 + scale.unsqueeze(1)) + shift.unsqueeze(1)
        q, k, v = self.qkv(modulate(x, sh1, sc1)).reshape(B, N, 3, self.h, C // self.h).permute(2, 0, 3, 1, 4).unbind(0)
        x = x + g1.unsqueeze(1) * self.proj(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(B, N, C))
        return x + g2.unsqueeze(1) * self.f2(F.gelu(self.f1(modulate(x, sh2, sc2)), approximate="tanh"))


m("dit_block", lambda: DitBlock(*d((1152, 16), (16, 2))), r(d(16, 1), d(256, 13), d(1152, 16), dtype=BF16), r(d(16, 1), d(1152, 16), dtype=BF16), dtype=BF16)


class GlowStep(nn.Module):
    def __init__(self, c, hidden):
        super().__init__()
        self.loc, self.log_scale = nn.Parameter(torch.randn(1, c, 1, 1) * .1), nn.Parameter(torch.randn(1, c, 1, 1) * .1)
        self.l, self.u, self.log_s = nn.Parameter(torch.randn(c, c) * .1), nn.Parameter(torch.randn(c, c) * .1), nn.Parameter(torch.randn(c) * .1)
        self.register_buffer("perm", torch.eye(c).flip(0)); self.register_buffer("sign", torch.ones(c))
        self.net = nn.Sequential(nn.Conv2d(c // 2, hidden, 3, padding=1), nn.ReLU(), nn.Conv2d(hidden, hidden, 1), nn.ReLU(), nn.Conv2d(hidden, c, 3, padding=1)); self.zero = nn.Parameter(torch.randn(1, c, 1, 1) * .1)

    def forward(self, x):
        b, c, h, wd = x.shape
        x = x.view(b, c, h // 2, 2, wd // 2, 2).permute(0, 1, 3, 5, 2, 4).contiguous().view(b, c * 4, h // 2, wd // 2); px = h * wd // 4
        x = torch.exp(self.log_scale) * (x + self.loc); logdet = px * self.log_scale.sum(); n = x.shape[1]
        wt = self.perm @ (torch.tril(self.l, -1) + torch.eye(n, device=x.device)) @ (torch.triu(self.u, 1) + torch.diag(self.sign * self.log_s.exp()))
        x = F.conv2d(x, wt[:, :, None, None]); logdet = logdet + px * self.log_s.sum()
        xa, xb = x.chunk(2, 1); log_s, t = (self.net(xa) * torch.exp(self.zero * 3)).chunk(2, 1); s = torch.sigmoid(log_s + 2)
        return torch.cat([xa, (xb + t) * s], 1), logdet + torch.log(s).view(b, -1).sum(1)


m("glow_flow_step_train", lambda: Step(GlowStep(12, d(256, 11)), lambda o: (0.5 * (o[0] ** 2 + math.log(2 * math.pi)).flatten(1).sum(1) - o[1]).mean() / o[0][0].numel(), scale=d(1e4, 1e2)), r(d(13, 1), 3, d(128, 6), d(128, 10)))


class GatedPixelCnn(nn.Module):
    def __init__(self, c, k=3):
        super().__init__()
        self.c, self.k = c, k
        self.v, self.h = nn.Conv2d(c, 2 * c, k, padding=k // 2), nn.Conv2d(c, 2 * c, (1, k), padding=(0, k // 2)); self.vh, self.hr = nn.Conv2d(2 * c, 2 * c, 1), nn.Conv2d(c, c, 1); self.cls = nn.Embedding(10, 2 * c)
        mv = torch.ones(k, k); mv[k // 2 + 1:] = 0; mh = torch.ones(1, k); mh[:, k // 2 + 1:] = 0; self.register_buffer("mv", mv); self.register_buffer("mh", mh)

    def forward(self, xv, xh, label):
        def gate(x): a, b = x.chunk(2, dim=1); return torch.tanh(a) * torch.sigmoid(b)
        y = self.cls(label)[:, :, None, None]; v = F.conv2d(xv, self.v.weight * self.mv, self.v.bias, padding=self.k // 2)
        h = F.conv2d(xh, self.h.weight * self.mh, self.h.bias, padding=(0, self.k // 2))
        return gate(v + y), self.hr(gate(self.vh(v) + h + y)) + xh


_s = (d(16, 1), d(128, 5), d(64, 11), d(67, 9))
m("pixelcnn_gated_masked", lambda: GatedPixelCnn(d(128, 5)), r(*_s, dtype=BF16), r(*_s, dtype=BF16), ints(10, _s[0]), dtype=BF16)


class ModulatedConv(nn.Module):
    def __init__(self, i, o, z):
        super().__init__()
        self.weight, self.affine, self.bias = nn.Parameter(torch.randn(o, i, 3, 3)), nn.Linear(z, i), nn.Parameter(torch.randn(o) * .1); self.strength = nn.Parameter(torch.tensor(.1))

    def forward(self, x, z, noise):
        b, c, h, wd = x.shape; s = self.affine(z) + 1
        wt = self.weight * (1 / math.sqrt(c * 9)); wt = wt.unsqueeze(0) * s.view(b, 1, c, 1, 1)
        wt = wt * (wt.float().square().sum(dim=[2, 3, 4], keepdim=True) + 1e-8).rsqrt().to(wt.dtype)
        x = F.conv2d(x.reshape(1, b * c, h, wd), wt.reshape(-1, c, 3, 3), padding=1, groups=b).view(b, -1, h, wd)
        return F.leaky_relu(x + noise * self.strength + self.bias[:, None, None], 0.2) * math.sqrt(2)


_b, _i, _o, _h = d((8, 256, 256, 64), (2, 5, 7, 9))
m("stylegan_modulated_conv_train", lambda: Step(ModulatedConv(*d((256, 256, 512), (5, 7, 11))), lambda y: F.softplus(-y.float().mean(dim=(2, 3))).mean() + y.float().square().mean(), taken=3, scale=d(3e4, 1e2)), r(_b, _i, _h, _h, dtype=F16), r(_b, d(512, 11), dtype=F16), r(_b, 1, _h, _h, dtype=F16), dtype=F16)


# ---- memory, sets, recurrences
class CapsuleRouting(nn.Module):
    def __init__(self, n, i, o, k):
        super().__init__()
        self.wt = weight(n, o, i, k, fan=n ** .5)

    def forward(self, x):
        def squash(v):
            s = v.square().sum(-1, keepdim=True); return s / (1 + s) * v / (s + 1e-7).sqrt()
        uh = torch.einsum("bni,noik->bnok", squash(x), self.wt) * .5; b = torch.zeros(uh.shape[:3], device=x.device, dtype=x.dtype); v = None
        for it in range(3):
            c = b.softmax(2); v = squash((c.unsqueeze(-1) * uh).sum(1))
            if it < 2: b = b + torch.einsum("bnok,bok->bno", uh, v)
        return v, v.norm(dim=-1)


m("capsule_dynamic_routing", lambda: CapsuleRouting(*d((1153, 8, 10, 16), (13, 3, 4, 5))), r(d(61, 3), d(1153, 13), d(8, 3)))


def lstm_loss(wi, wh, b, xs, h, c, y):
    for t in range(4):
        i, f, g, o = (xs[t] @ wi + h @ wh + b).chunk(4, -1)
        c = torch.sigmoid(f + 1) * c + torch.sigmoid(i) * torch.tanh(g); h = torch.sigmoid(o) * torch.tanh(c)
    return mse(h, y) * d(1e5, 1e3)
def _lstm(*t):
    g, l = grad_and_value(lstm_loss, argnums=(0, 1, 2, 4, 5))(*t); return l, *g
_b, _h = d((4096, 512), (7, 11))
w("lstm_cell_4_train", _lstm, r(_h, 4 * _h, dtype=BF16, scale=_h ** -.5), r(_h, 4 * _h, dtype=BF16, scale=_h ** -.5), r(4 * _h, dtype=BF16, scale=.1), r(4, _b, _h, dtype=BF16), r(_b, _h, dtype=BF16, scale=.5), r(_b, _h, dtype=BF16, scale=.5), r(_b, _h, dtype=BF16))


class GruDecoder(nn.Module):
    def __init__(self, i, h):
        super().__init__()
        self.ih, self.hh, self.out = nn.Linear(i, 3 * h), nn.Linear(h, 3 * h), nn.Linear(h, i)

    def forward(self, x, h):
        ys = []
        for _ in range(3):
            ir, iz, n = self.ih(x).chunk(3, 1); hr, hz, hn = self.hh(h).chunk(3, 1); z = torch.sigmoid(iz + hz)
            h = (1 - z) * torch.tanh(n + torch.sigmoid(ir + hr) * hn) + z * h
            x = x + self.out(h); ys.append(x)
        return torch.stack(ys, 1), h


m("gru_feedback_3", lambda: GruDecoder(*d((127, 384), (7, 11))), r(d(9973, 5), d(127, 7), dtype=F16), r(d(9973, 5), d(384, 11), dtype=F16), dtype=F16)


def ntm(mem, prev, k, beta, g, s, gamma, erase, add):
    K = F.cosine_similarity(mem + 1e-16, k.unsqueeze(1) + 1e-16, dim=-1); wc = F.softmax(F.softplus(beta) * K, dim=1)
    g = torch.sigmoid(g); wg = g * wc + (1 - g) * prev.softmax(-1); s = s.softmax(-1)
    wt = s[:, :1] * wg.roll(1, 1) + s[:, 1:2] * wg + s[:, 2:] * torch.roll(wg, -1, 1)
    wt = wt ** (1 + F.softplus(gamma)); wt = wt / (wt.sum(1, keepdim=True) + 1e-16)
    read = torch.matmul(wt.unsqueeze(1), mem).squeeze(1)
    return read, wt, mem * (1 - wt.unsqueeze(-1) * torch.sigmoid(erase).unsqueeze(1)) + wt.unsqueeze(-1) * torch.tanh(add).unsqueeze(1)
_b, _n, _m = d((2039, 128, 61), (5, 11, 7))
w("neural_turing_addressing", ntm, r(_b, _n, _m), r(_b, _n), r(_b, _m), r(_b, 1), r(_b, 1), r(_b, 3), r(_b, 1), r(_b, _m), r(_b, _m))


class SlotAttention(nn.Module):
    def __init__(self, c, hidden):
        super().__init__()
        self.ni, self.ns, self.nm = nn.LayerNorm(c), nn.LayerNorm(c), nn.LayerNorm(c); self.q, self.k, self.v = (nn.Linear(c, c, bias=False) for _ in range(3))
        self.gru = nn.GRUCell(c, c); self.mlp = nn.Sequential(nn.Linear(c, hidden), nn.ReLU(), nn.Linear(hidden, c))

    def forward(self, x, slots):
        b, n, c = x.shape; x = self.ni(x); k, v = self.k(x), self.v(x)
        for _ in range(2):
            prev = slots; dots = torch.einsum("bid,bjd->bij", self.q(self.ns(slots)), k) * c ** -.5
            a = dots.float().softmax(dim=1) + 1e-8; a = (a / a.sum(dim=-1, keepdim=True)).to(x.dtype)
            slots = self.gru(torch.einsum("bjd,bij->bid", v, a).reshape(-1, c), prev.reshape(-1, c)).reshape(b, -1, c)
            slots = slots + self.mlp(self.nm(slots))
        return slots, a


m("slot_attention_2", lambda: SlotAttention(*d((64, 128), (7, 11))), r(d(17, 2), d(111 * 93, 31), d(64, 7), dtype=BF16), r(d(17, 2), 7, d(64, 7), dtype=BF16), dtype=BF16)


def supcon(z, labels):
    b, views, _ = z.shape; f = F.normalize(z.float(), dim=-1); c = torch.cat(torch.unbind(f, dim=1), 0)
    s = c @ c.t() / .1; s = s - s.max(dim=1, keepdim=True)[0].detach()
    same = torch.eq(labels.view(-1, 1), labels.view(1, -1)).float().repeat(views, views)
    off = torch.scatter(torch.ones_like(same), 1, torch.arange(b * views, device=z.device).view(-1, 1), 0); same = same * off
    lp = s - torch.log((s.exp() * off).sum(1, keepdim=True))
    return -((same * lp).sum(1) / same.sum(1)).view(views, b).mean() * d(1e4, 1e2)
def _supcon(z, y):
    g, l = grad_and_value(supcon)(z, y); return l, g
w("supervised_contrastive_train", _supcon, r(d(2039, 9), 2, d(128, 7), dtype=BF16), ints(d(101, 3), d(2039, 9)))


# ---- experts, adapters, quantization
class TopTwoExperts(nn.Module):
    def __init__(self, c, hidden, experts, capacity):
        super().__init__()
        self.cap = capacity; self.gate = weight(c, experts, fan=c); self.w1, self.w2 = weight(experts, c, hidden, fan=c), weight(experts, hidden, c, fan=hidden)

    def forward(self, x):
        E = self.gate.shape[1]; gates = (x.float() @ self.gate.float()).softmax(-1)
        i1 = gates.argmax(-1); m1 = F.one_hot(i1, E); m2 = F.one_hot(gates.masked_fill(m1.bool(), -1.0).argmax(-1), E)
        aux = (gates.mean(0) * m1.float().mean(0)).sum() * E
        l1 = m1.cumsum(0) - 1; l2 = m2.cumsum(0) - 1 + m1.sum(0, keepdim=True)
        m1 = m1 * (l1 < self.cap); m2 = m2 * (l2 < self.cap); p1, p2 = (l1 * m1).sum(1), (l2 * m2).sum(1)
        g1, g2 = (gates * m1).sum(1), (gates * m2).sum(1); z = (g1 + g2).clamp(min=torch.finfo(g1.dtype).eps)
        combine = torch.einsum("te,tc->tec", (g1 / z).unsqueeze(1) * m1, F.one_hot(p1, self.cap).float()) + torch.einsum("te,tc->tec", (g2 / z).unsqueeze(1) * m2, F.one_hot(p2, self.cap).float())
        y = torch.einsum("tec,tm->ecm", combine.bool().to(x.dtype), x)
        y = torch.bmm(F.gelu(torch.bmm(y, self.w1)), self.w2)
        return torch.einsum("tec,ecm->tm", combine.to(x.dtype), y), aux


m("moe_top2_capacity_dispatch", lambda: TopTwoExperts(*d((512, 2048, 8, 640), (7, 11, 4, 9))), r(d(2048, 23), d(512, 7), dtype=BF16), dtype=BF16)


class LoraLinear(nn.Module):
    def __init__(self, i, o, rank):
        super().__init__()
        self.register_buffer("base", torch.randn(o, i) / i ** .5); self.register_buffer("bias", torch.randn(o) * .1); self.A, self.B = weight(rank, i, fan=i), nn.Parameter(torch.randn(o, rank) * .1); self.scaling = 16 / rank

    def forward(self, x):
        return F.linear(x, self.base, self.bias) + (x @ self.A.transpose(0, 1) @ self.B.transpose(0, 1)) * self.scaling


m("lora_linear_train", lambda: Step(LoraLinear(*d((2048, 2304, 16), (11, 13, 3))), mse, scale=d(3e5, 1e3)), r(3, d(1021, 7), d(2048, 11), dtype=BF16), r(3, d(1021, 7), d(2304, 13), dtype=BF16), dtype=BF16)


def int8_mlp(x, wg, sg, wu, su, wd, sd):
    def lin(t, q, s): return F.linear(t, q.to(t.dtype)) * s
    return lin(F.silu(lin(x, wg, sg)) * lin(x, wu, su), wd, sd)
_t, _c, _h = d((499, 4096, 11008), (5, 12, 29))
w("int8_weight_only_swiglu", int8_mlp, r(_t, _c, dtype=F16), ints(127, _h, _c, dtype=torch.int8, low=-127), lambda c=_c, h=_h: ((torch.rand(h) + .5) / 73 / c ** .5).half(), ints(127, _h, _c, dtype=torch.int8, low=-127), lambda c=_c, h=_h: ((torch.rand(h) + .5) / 73 / c ** .5).half(), ints(127, _c, _h, dtype=torch.int8, low=-127), lambda c=_c, h=_h: ((torch.rand(c) + .5) / 73 / h ** .5).half())


def qat_conv_loss(x, wt, gamma, beta, y):
    def fake(t, s, lo, hi):
        q = (t / s).round().clamp(lo, hi) * s; inside = ((t / s >= lo) & (t / s <= hi)).to(t.dtype)
        return t * inside + (q - t * inside).detach()
    sx = (x.detach().abs().amax() / 127).clamp(min=1e-8); sw = wt.detach().abs().amax(dim=(1, 2, 3), keepdim=True) / 127
    z = F.conv2d(fake(x, sx, -128, 127), fake(wt, sw, -127, 127), stride=2, padding=1)
    mu, var = z.mean((0, 2, 3)), z.var((0, 2, 3), unbiased=False)
    z = F.hardtanh((z - mu[:, None, None]) * torch.rsqrt(var + 1e-5)[:, None, None] * gamma[:, None, None] + beta[:, None, None], 0.0, 6.0)
    return F.cross_entropy(z.mean((2, 3)) * 4, y) * d(1e4, 1e2)
def _qat(*t):
    g, l = grad_and_value(qat_conv_loss, argnums=(0, 1, 2, 3))(*t); return l, *g
_b, _i, _o, _h = d((16, 64, 101, 111), (3, 5, 7, 11))
w("fake_quant_conv_train", _qat, r(_b, _i, _h, d(93, 9)), r(_o, _i, 3, 3, scale=(9 * _i) ** -.5), lambda o=_o: torch.rand(o) + .5, r(_o, scale=.2), ints(_o, _b))


# ---- optimizers
def adafactor_step(p, g, row, col, mom, bias, gb, vb, step):
    b2 = 1 - step ** -.8
    sq = g.square() + 1e-30; row.mul_(b2).add_(sq.mean(-1) * (1 - b2)); col.mul_(b2).add_(sq.mean(-2) * (1 - b2))
    upd = (row / row.mean(-1, keepdim=True)).rsqrt_().unsqueeze(-1) * col.unsqueeze(-2).rsqrt() * g
    upd.div_((upd.square().mean().sqrt() / 1.0).clamp_(min=1.0)); lr = torch.clamp(p.square().mean().sqrt(), min=1e-3) * torch.minimum(1e-2 * torch.ones_like(step), step.rsqrt())
    m2 = mom * .9 + upd * (.1 * lr); p2 = p * (1 - .01 * lr) - m2
    vb2 = vb * b2 + (gb.square() + 1e-30) * (1 - b2); ub = gb * vb2.rsqrt(); ub = ub / (ub.square().mean().sqrt()).clamp(min=1.0)
    return p2, m2, row, col, bias - lr * ub, vb2
def _adafactor(p, g, row, col, *rest): return adafactor_step(p, g, row.clone(), col.clone(), *rest)
_a, _b = d((4093, 3072), (11, 13))
w("adafactor_full_step", _adafactor, r(_a, _b, scale=.02), r(_a, _b), u(_a), lambda n=_b: torch.rand(n) + .1, r(_a, _b, scale=1e-3), r(_a), r(_a), lambda n=_a: torch.rand(n) + .1, lambda: torch.tensor(7.0))


def muon_step(p, g, buf):
    buf = torch.lerp(g, buf, .95); x = torch.lerp(g, buf, .95).bfloat16(); tall = x.size(-2) > x.size(-1)
    x = x.mT if tall else x; x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for _ in range(5):
        A = x @ x.mT; B = -4.7750 * A + 2.0315 * (A @ A); x = 3.4445 * x + B @ x
    x = x.mT if tall else x
    return p * (1 - .02 * .1) - .02 * max(1, p.size(-2) / p.size(-1)) ** .5 * x.float(), buf, x.float().square().mean()
_s = d((2, 3072, 1021), (2, 13, 7))
w("muon_nesterov_step", muon_step, r(*_s, scale=.02), r(*_s), r(*_s))
