"""Random products, attention and convolutions with what stands around them: W maps a number's name to a function that gives (module, inputs) where
torch.device says; `sweep.py --workloads` measures them. Nobody tunes for them. PyTorch's convolutions keep float32 whole here, as tsc's do."""
import math
import random

import torch
import torch.nn as nn
import torch.nn.functional as F

from function_module import Fn

torch.backends.cudnn.allow_tf32 = False
BF16, F16, F32 = torch.bfloat16, torch.float16, torch.float32
SIZES = (16, 24, 32, 40, 48, 64, 72, 80, 96, 100, 112, 128, 144, 160, 192, 256, 320, 333, 384, 512, 577, 640, 768, 1000, 1024, 1152, 1280, 1536, 2048,
         2304, 2560, 3000, 3072, 4096, 4097, 5120, 8192, 11008, 14336, 32000, 50257)


class Draw(random.Random):
    def __init__(self, number):
        super().__init__(number * 6007 + 5)

    def dtype(self):
        return self.choice((BF16, BF16, F16, F16, F32))

    def size(self, low, high):
        """A size of models, or anything, between the two."""
        fitting = [s for s in SIZES if low <= s <= high]
        if fitting and self.random() < 0.7:
            return self.choice(fitting)
        return round(low * (high / low) ** self.random())


def normal(*shape, dtype, scale=1.0):
    return torch.randn(*shape).mul_(scale).to(dtype)


ENDS = {"none": lambda y: y, "relu": F.relu, "gelu": F.gelu, "silu": F.silu, "tanh gelu": lambda y: F.gelu(y, approximate="tanh"), "softmax": lambda y: y.float().softmax(-1).to(y.dtype),
        "layer norm": lambda y: F.layer_norm(y, y.shape[-1:]), "sum of squares": lambda y: y.float().square().sum(-1), "two results": lambda y: (y, torch.sigmoid(y)),
        "halves": lambda y: F.silu(y[..., :y.shape[-1] // 2]) * y[..., y.shape[-1] // 2:], "largest": lambda y: y.amax(-1), "heads": lambda y: y.unflatten(-1, (-1, 8)).transpose(-2, -3).contiguous(),
        "float": lambda y: y.float(), "turned": lambda y: y.mT.contiguous()}


def product(d):
    """A product of matrices: sizes, layouts, batches, and what stands before and behind it."""
    dtype = d.dtype()
    most = 3e10 if dtype == F32 else 4e11
    kind = d.choice(("linear", "linear", "linear", "bmm", "bmm", "few rows", "einsum", "addmm", "broadcast"))
    while True:
        m, n, k = d.size(16, 16384), d.size(16, 16384), d.size(16, 8192)
        batch = d.choice((2, 3, 8, 16, 32, 64, 96, 200)) if kind in ("bmm", "einsum", "broadcast") else 1
        if kind == "few rows":
            m, n, k = d.choice((1, 2, 3, 5, 8, 13, 16, 32, 48, 64)), d.size(1024, 32000), d.size(512, 14336)
        work, size = 2 * batch * m * n * k, batch * (m * n + m * k + n * k) * dtype.itemsize
        if work < most and 4e6 < size < 4e8:
            break
    ends = list(ENDS)
    end = d.choice(ends + ["none"] * 5)
    if end in ("heads", "halves") and n % 8:
        end = "none"
    turned = d.random() < 0.3
    start = d.choice(("none",) * 5 + ("silu", "norm", "float")) if kind == "linear" else "none"
    text = f"{kind} {batch} x {m} x {n} x {k} {str(dtype)[6:]} {'turned ' if turned else ''}{start} {end}"

    def first(x):
        if start == "silu":
            return F.silu(x)
        if start == "norm":
            return F.rms_norm(x, x.shape[-1:])
        return x.to(dtype) if start == "float" else x

    def make():
        scale = k ** -0.5
        if kind in ("linear", "few rows", "addmm"):
            x = normal(k, m, dtype=dtype).t() if turned and kind != "few rows" else normal(m, k, dtype=F32 if start == "float" else dtype)
            w, b = normal(n, k, dtype=dtype, scale=scale), normal(n, dtype=dtype)
            if kind == "addmm":
                return Fn(lambda x, w, c: ENDS[end](torch.addmm(c, x, w.t(), beta=0.5, alpha=1.5))), (x, w, normal(m, n, dtype=dtype))
            return Fn(lambda x, w, b: ENDS[end](F.linear(first(x), w, b))), (x, w, b)
        if kind == "broadcast":
            return Fn(lambda x, w: ENDS[end](x @ w)), (normal(batch, m, k, dtype=dtype), normal(k, n, dtype=dtype, scale=scale))
        if kind == "einsum":
            return Fn(lambda x, w: ENDS[end](torch.einsum("mbk,bnk->bmn", x, w))), (normal(m, batch, k, dtype=dtype), normal(batch, n, k, dtype=dtype, scale=scale))
        x = normal(batch, k, m, dtype=dtype).mT if turned else normal(batch, m, k, dtype=dtype)
        return Fn(lambda x, w: ENDS[end](x @ w)), (x, normal(batch, k, n, dtype=dtype, scale=scale))
    return text, make


def attention(d):
    """Scaled dot product attention: depths, lengths, heads that share keys, masks, and projections around it."""
    dtype = d.choice((BF16, BF16, F16, F16, F32))
    depth = d.choice((16, 24, 32, 40, 48, 64, 64, 64, 72, 80, 88, 96, 112, 128, 128, 128, 160, 192, 256, 256))
    most = 2e10 if dtype == F32 else 3e11
    while True:
        batch, heads = d.choice((1, 2, 3, 4, 8, 16, 32)), d.choice((1, 4, 6, 8, 12, 16, 20, 32))
        queries = d.choice((1, 4, 32, 49, 77, 128, 197, 256, 300, 512, 577, 1000, 1024, 1500, 2048, 4096, 8192))
        keys = queries if d.random() < 0.6 and queries > 4 else d.choice((49, 77, 128, 257, 500, 1024, 1500, 4096, 4097, 8192))
        share = d.choice([s for s in (1, 1, 2, 4, 8) if heads % s == 0])
        work, size = 4 * batch * heads * queries * keys * depth, 2 * batch * (heads * queries + heads // share * keys) * depth * dtype.itemsize
        if work < most and 1e6 < size < 3e8 and work / most + size / 3e8 > 0.01:
            break
    kind = d.choice(("plain", "plain", "causal", "causal", "padding", "bias", "window", "alibi", "document", "low right", "slices", "packed", "head bias"))
    if kind in ("causal", "window", "document", "slices", "packed"):
        keys = queries
    if kind in ("slices", "packed"):
        share = 1
    if queries * keys * batch * heads > 3e8 and kind == "head bias":
        kind = "plain"
    scale = d.choice((None, None, None, 0.125, 1.0 / depth))
    text = f"{kind} {batch} x {heads}/{heads // share} heads {queries} x {keys} x {depth} {str(dtype)[6:]}"
    options = {"scale": scale, "enable_gqa": share > 1}
    window = d.choice((64, 256, 1000))

    def make():
        q = normal(batch, heads, queries, depth, dtype=dtype)
        k, v = (normal(batch, heads // share, keys, depth, dtype=dtype) for _ in range(2))
        rows, columns = torch.arange(queries)[:, None], torch.arange(keys)[None]
        if kind == "slices":  # of one projection's result, heads brought together behind it
            def f(x):
                q, k, v = x.view(batch, queries, 3, heads, depth).permute(2, 0, 3, 1, 4)
                return F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(batch, queries, heads * depth)
            return Fn(f), (normal(batch, queries, 3 * heads * depth, dtype=dtype),)
        if kind == "packed":  # the same by three projections' results, causal
            def f(q, k, v):
                q, k, v = (t.view(batch, queries, heads, depth).transpose(1, 2) for t in (q, k, v))
                return F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2)
            return Fn(f), tuple(normal(batch, queries, heads * depth, dtype=dtype) for _ in range(3))
        if kind == "causal":
            return Fn(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True, **options)), (q, k, v)
        if kind == "window":
            mask = (rows >= columns) & (rows - columns < window)
        elif kind == "document":
            ends = torch.sort(torch.randint(0, keys, (batch, 1, 5))).values
            where = torch.searchsorted(ends[:, 0].contiguous(), torch.arange(keys).expand(batch, keys).contiguous())
            mask = (where[:, None, :, None] == where[:, None, None, :]) & (rows >= columns)
        elif kind == "padding":
            mask = torch.arange(keys)[None, None, None] < torch.randint(keys // 2, keys + 1, (batch, 1, 1, 1))
        elif kind == "low right":
            mask = columns - keys <= rows - queries if keys >= queries else columns <= rows
        elif kind == "bias":
            mask = normal(queries, keys, dtype=dtype)
        elif kind == "head bias":
            mask = normal(batch, heads, queries, keys, dtype=dtype)
        elif kind == "alibi":
            slopes = torch.exp2(-8.0 * torch.arange(1, heads + 1) / heads)[None, :, None, None]
            return Fn(lambda q, k, v, s: F.scaled_dot_product_attention(q, k, v, ((torch.arange(keys, device=q.device)[None] - torch.arange(queries, device=q.device)[:, None]) * s).to(dtype), **options)), (q, k, v, slopes)
        else:
            return Fn(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, **options)), (q, k, v)
        return Fn(lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, m, **options)), (q, k, v, mask)
    return text, make


def convolution(d):
    """A convolution of one to three dimensions with what networks put around it."""
    dtype = d.choice((BF16, F16, F16, F32))
    dims = d.choice((1, 2, 2, 2, 2, 3))
    most = 2e10 if dtype == F32 else 3e11
    while True:
        batch = d.choice((1, 2, 4, 8, 16, 32, 64))
        group_kind = d.choice(("one", "one", "one", "one", "depthwise", "some"))
        cin = d.choice((1, 3, 4, 16, 24, 32, 48, 64, 80, 96, 128, 160, 192, 256, 320, 384, 512, 768, 1024))
        cout = d.choice((1, 3, 16, 24, 32, 40, 64, 96, 128, 192, 256, 320, 512, 768, 1024))
        groups = 1
        if group_kind == "depthwise":
            groups, cout = cin, cin * d.choice((1, 1, 1, 2))
        elif group_kind == "some":
            groups = d.choice((2, 4, 8, 16, 32))
            if cin % groups or cout % groups:
                continue
        size = {1: d.choice((77, 200, 512, 1000, 3000, 4096, 16000)), 2: d.choice((7, 8, 14, 16, 20, 28, 32, 56, 64, 96, 112, 128, 224, 256, 299)),
                3: d.choice((4, 8, 12, 16, 24, 32, 48))}[dims]
        sizes = tuple(max(4, size + (0 if d.random() < 0.7 else d.choice((-3, -1, 1, 5)))) for _ in range(dims))
        kernel = tuple([d.choice((1, 3, 3, 3, 3, 5, 7))] * dims) if d.random() < 0.85 else tuple(d.choice((1, 3, 5)) for _ in range(dims))
        if dims == 1 and d.random() < 0.3:
            kernel = (d.choice((2, 4, 9, 15, 16, 31, 41)),)
        stride, dilation = d.choice((1, 1, 1, 1, 2, 2, 4)), d.choice((1, 1, 1, 1, 1, 2, 4))
        transposed = d.random() < 0.15
        if transposed:
            dilation = 1
        if any((k - 1) * dilation >= s for k, s in zip(kernel, sizes)):
            continue
        places = batch * math.prod(sizes) // (1 if transposed else stride ** dims)
        work = 2 * places * cin * cout // groups * math.prod(kernel)
        moved = batch * math.prod(sizes) * cin + places * cout * (stride ** dims if transposed else 1)
        if work < most and 1e6 < moved * dtype.itemsize < 3e8:
            break
    last = dims > 1 and d.random() < 0.4
    padding = tuple((k - 1) * dilation // 2 for k in kernel)
    then = d.choice(("none", "none", "batch norm relu", "silu", "residual", "group norm", "pool", "before"))
    text = (f"{dims}d{' transposed' if transposed else ''} {batch} x {cin} -> {cout} groups {groups} {list(sizes)} kernel {list(kernel)} stride {stride} dilation {dilation} "
            f"{str(dtype)[6:]} {'channels last ' if last else ''}{then}")

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            kind = {1: (nn.Conv1d, nn.ConvTranspose1d), 2: (nn.Conv2d, nn.ConvTranspose2d), 3: (nn.Conv3d, nn.ConvTranspose3d)}[dims][transposed]
            self.conv = kind(cin, cout, kernel, stride=stride, padding=padding, groups=groups, **({} if transposed else {"dilation": dilation}))
            self.norm = {1: nn.BatchNorm1d, 2: nn.BatchNorm2d, 3: nn.BatchNorm3d}[dims](cout) if then == "batch norm relu" else None

        def forward(self, x, *more):
            y = self.conv(F.silu(x) if then == "before" else x)
            if then == "batch norm relu":
                return F.relu(self.norm(y))
            if then == "silu":
                return F.silu(y)
            if then == "residual":
                return y + more[0]
            if then == "group norm":
                return F.group_norm(y, 1 if cout % 8 else 8)
            if then == "pool":
                return y.flatten(2).mean(-1)
            return y

    def make():
        net = Net().to(dtype).eval()
        x = normal(batch, cin, *sizes, dtype=dtype)
        if last:
            form = torch.channels_last if dims == 2 else torch.channels_last_3d
            net, x = net.to(memory_format=form), x.to(memory_format=form)
        inputs = (x,)
        if then == "residual":
            with torch.no_grad():
                inputs += (torch.randn_like(net.conv(x)),)
        return net, inputs
    return text, make


class Block(nn.Module):
    """What language models repeat: norms, grouped heads with rotation, a gated layer."""

    def __init__(self, width, heads, shared, hidden, gated):
        super().__init__()
        self.heads, self.shared, self.depth, self.gated = heads, shared, width // heads, gated
        self.qkv = nn.Linear(width, (heads + 2 * shared) * self.depth, bias=not gated)
        self.out = nn.Linear(width, width, bias=not gated)
        self.up, self.down = nn.Linear(width, hidden * (2 if gated else 1), bias=not gated), nn.Linear(hidden, width, bias=not gated)
        norm = nn.RMSNorm if gated else nn.LayerNorm
        self.first, self.second = norm(width), norm(width)

    def rotate(self, x, cosine, sine):
        a, b = x.chunk(2, -1)
        return x * cosine + torch.cat((-b, a), -1) * sine

    def forward(self, x, cosine, sine):
        batch, length, width = x.shape
        q, k, v = self.qkv(self.first(x)).unflatten(-1, (-1, self.depth)).transpose(1, 2).split((self.heads, self.shared, self.shared), 1)
        if self.gated:
            q, k = self.rotate(q, cosine, sine), self.rotate(k, cosine, sine)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=self.gated, enable_gqa=self.heads != self.shared)
        x = x + self.out(y.transpose(1, 2).reshape(batch, length, width))
        h = self.up(self.second(x))
        if self.gated:
            a, b = h.chunk(2, -1)
            return x + self.down(F.silu(a) * b)
        return x + self.down(F.gelu(h))


def block(d):
    """A layer of a transformer."""
    dtype = d.choice((BF16, BF16, F16, F32))
    heads, depth = d.choice((4, 6, 8, 12, 14, 16, 20, 32)), d.choice((32, 48, 64, 64, 80, 96, 128, 128))
    shared = d.choice([s for s in (1, 2, 4, 8, heads, heads) if heads % s == 0])
    width = heads * depth
    while True:
        batch, length = d.choice((1, 1, 2, 4, 8, 16, 32)), d.choice((1, 16, 50, 128, 197, 256, 384, 512, 577, 1024, 1500, 2048, 4096))
        work = 2 * batch * length * width * (4 * width + 12 * width) + 4 * batch * length * length * width
        if work < (3e10 if dtype == F32 else 5e11):
            break
    hidden, gated = d.choice((4 * width, width * 8 // 3, 3 * width + 40)), d.random() < 0.6

    def make():
        net = Block(width, heads, shared, hidden, gated).to(dtype).eval()
        return net, (normal(batch, length, width, dtype=dtype), normal(length, depth, dtype=dtype), normal(length, depth, dtype=dtype))
    return f"{batch} x {length} x {width} heads {heads}/{shared} x {depth} hidden {hidden} {'gated ' if gated else ''}{str(dtype)[6:]}", make


def drawn(number):
    d = Draw(number)
    family = d.choices((product, attention, convolution, block), (6, 6, 7, 2))[0]
    text, make = family(d)
    return f"{family.__name__} {number}: {text}", make


W = dict(drawn(number) for number in range(1200))
