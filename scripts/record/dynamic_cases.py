"""Records graphs with dynamic shapes from PyTorch, each run with several sizes, for tests/cases/dynamic,
tests/cases/dynamic_operators, tests/cases/dynamic_rows and tests/cases/dynamic_models.

    python3 scripts/record/dynamic_cases.py [dynamic | dynamic_operators | dynamic_rows | dynamic_models]...

Needs torch and safetensors; tsc and its tests need neither. Writes, per family, tests/cases/FAMILY.zip, which holds
(case_archive.py; scripts/cases unpacks it)
    graphs.json          [{"name", "model"}]: torch.export's model.json, undecomposed
    tensors.safetensors  NAME/weight/QUALIFIED_NAME, NAME/RUN/input_I and NAME/RUN/output_I (eager, CPU), inputs that were written
                         first; NAME/RUN/reference_I (the same in float64, of the CNN, of resampling and of 16-bit products); integers of the caller and integers that are
                         returned are tensors without dimensions
"""
import copy
import io
import json
import sys
import warnings
import zipfile

import case_archive
import torch
import torch.nn.functional as F
from torch.export import Dim, export

warnings.filterwarnings("ignore")


class Parts(torch.nn.Module):
    """Parts whose number the sizes keep to, of sizes that are symbols."""

    def forward(self, x, y):
        half = x.shape[0] // 2
        return (*x.chunk(3), *x.tensor_split(3), *x.split(half), *x.chunk(2), *y.hsplit(2), *torch.tensor_split(y, 4, 1))


class Differences(torch.nn.Module):
    """Sizes that are cut again and again."""

    def forward(self, x, y):
        z = x
        for _ in range(12):
            z = z[1:].narrow(0, 0, z.shape[0] - 2)[:-1]
        return torch.diff(x, n=17, prepend=y, append=y), torch.diff(x, n=20), z


class LastRows(torch.nn.Module):
    """Slices of as many of the last as a size says, and of all but those."""

    def forward(self, x, y):
        n, m = x.shape[0], y.shape[0]
        return y[-n:] + x[:, None], y[-n:], (y * 2)[:-n], y[n - m:].flip(0), y[:, -(n - 1):].sum(1), y[-n], y.slice_scatter(x[:2, None].expand(2, y.shape[1]), 0, -n, 2 - n)


class Gated(torch.nn.Module):
    """Halves of dimensions that are symbols, and what comes to them."""

    def forward(self, x):
        steps = torch.arange(0, 40, x.shape[0]), torch.arange(5, 5 + 3 * x.shape[1], x.shape[1], dtype=torch.float32)
        return F.glu(x, 0), F.glu(x), torch.ops.aten.glu_backward(F.glu(x, 0), x, 0), *steps


class WholeRanges(torch.nn.Module):
    """Ranges of reals that are whole, beside sizes (XLNet's positions)."""

    def forward(self, x):
        n = x.shape[0]
        return (torch.arange(n, -n, -1.0), torch.arange(0, n, 2.0, dtype=torch.float16), torch.arange(1.0, n + 1),
                torch.arange(0.0, n, dtype=torch.int64) + x.long(), torch.arange(-2.0, n, 3.0, dtype=torch.float64))


class HalfProducts(torch.nn.Module):
    """Products of 16-bit floats with what follows them, whose rows or number are symbols."""

    def __init__(self):
        super().__init__()
        self.up, self.down = torch.nn.Linear(64, 96), torch.nn.Linear(96, 64, bias=False)

    def forward(self, x, y):
        wide = F.gelu(self.up(x))
        return x + self.down(wide), torch.sigmoid(torch.bmm(x.transpose(0, 1), y)) * 2, torch.relu(wide.transpose(0, 1) @ self.down.weight.t())


class HalfConvolutions(torch.nn.Module):
    """Convolutions of 16-bit floats over images whose number and sizes are symbols."""

    def __init__(self):
        super().__init__()
        conv = torch.nn.Conv2d
        self.first, self.next, self.strided = conv(3, 64, 3, padding=1), conv(64, 64, 3, padding=1, bias=False), conv(64, 8, 3, stride=2, padding=1)
        self.single, self.wide, self.grouped = conv(64, 8, 1), conv(64, 8, (1, 5), padding=(0, 4), dilation=(1, 2)), conv(64, 16, 3, padding=1, groups=4)
        self.up = torch.nn.ConvTranspose2d(8, 8, 4, stride=2, padding=1)

    def forward(self, x):
        y = torch.relu(self.first(x))
        z = F.silu(self.next(y)) + y
        small = self.strided(z)
        return small, self.single(z), F.hardswish(self.wide(z)), self.grouped(z), self.up(small)


class HalfColumns(torch.nn.Module):
    """Columns of 16-bit floats: several are one access where the launch finds that sizes allow it."""

    def forward(self, x):
        return x.sum(0), x.float().var(0), x.amax(0), x.argmin(0)


class Block(torch.nn.Module):
    """A transformer block: positions, causal attention, feed-forward, a mean over the sequence."""

    def __init__(self, width=16, heads=2):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = torch.nn.LayerNorm(width), torch.nn.LayerNorm(width)
        self.qkv, self.out = torch.nn.Linear(width, 3 * width), torch.nn.Linear(width, width)
        self.up, self.down = torch.nn.Linear(width, 24), torch.nn.Linear(24, width)
        self.register_buffer("positions", torch.randn(32, width) * 0.1)

    def forward(self, x):
        batch, length, width = x.shape
        x = x + self.positions[:length]
        q, k, v = self.qkv(self.norm1(x)).split(width, 2)
        q, k, v = (t.view(batch, length, self.heads, width // self.heads).transpose(1, 2) for t in (q, k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(batch, length, width))
        x = x + self.down(F.gelu(self.up(self.norm2(x))))
        return x, x.mean(1)


class Tokens(torch.nn.Module):
    """Embedding, padding mask by lengths, masked mean, and views of the sequence."""

    def __init__(self):
        super().__init__()
        self.table = torch.nn.Embedding(11, 6)

    def forward(self, ids, lengths):
        length = ids.shape[1]
        mask = torch.arange(length)[None, :] < lengths[:, None]
        x = self.table(ids) * mask[..., None]
        mean = x.sum(1) / lengths[:, None]
        return mean, F.pad(ids, (0, 3)).float().cumsum(1), ids.flip(1), torch.ones(length, length).tril()


class Joined(torch.nn.Module):
    def forward(self, a, b):
        c = torch.cat([a, b], 0)
        return c.reshape(-1), c.sum() / c.shape[0], a.new_zeros(a.shape[0] * 2) + b.shape[0], c.softmax(0), c.t() @ c


class Pairs(torch.nn.Module):
    """A size that is twice a symbol."""

    def forward(self, x):
        return x.view(x.shape[0] // 2, 2, -1).sum(1), x.unflatten(0, (-1, 2)).amax(0)


class Integers(torch.nn.Module):
    def forward(self, x, y):
        n, m = x.shape[0], y.shape[0]
        k, l = torch.sym_max(n, m), torch.sym_min(n, 2 * m)
        z = x.new_ones(k + l - 1, (n * m) // 2 + 1) * (n % 3)
        return z.sum(0), torch.full((k,), 2.0), x * (-n), x.new_zeros(n**2), x.new_ones(n << 1), x.new_ones((n >> 1) + 1)


class Reals(torch.nn.Module):
    def forward(self, x, y):
        n, m = x.shape[0], y.shape[0]
        return x / (n**0.5), x * torch.sym_float(m), y + n / m, x * torch.sym_sqrt(n), y.sum() / n


class Choice(torch.nn.Module):
    def forward(self, x, y):
        n, m = x.shape[0], y.shape[0]
        k = torch.sym_ite(n > m, n - m, m - n + 1)
        return x.new_ones(k), y * k


class Counts(torch.nn.Module):
    """Integers of the caller."""

    def forward(self, x, n, k):
        return x[:n] * n, torch.arange(n + k), x.amax() * k, torch.zeros(n * k, 2)


class Attention(torch.nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv, self.out = torch.nn.Linear(width, 3 * width), torch.nn.Linear(width, width)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = self.qkv(x).chunk(3, -1)
        q, k, v = (y.view(batch, length, self.heads, width // self.heads).transpose(1, 2) for y in (q, k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).reshape(batch, length, width))


class Decoder(torch.nn.Module):
    """A language model of two layers, dynamic in batch and sequence."""

    def __init__(self, vocabulary=19, width=16, heads=2, layers=2, longest=40):
        super().__init__()
        self.tokens, self.positions = torch.nn.Embedding(vocabulary, width), torch.nn.Embedding(longest, width)
        mlp = lambda: torch.nn.Sequential(torch.nn.Linear(width, 40), torch.nn.GELU(), torch.nn.Linear(40, width))
        self.layers = torch.nn.ModuleList(
            torch.nn.ModuleDict({"norm1": torch.nn.LayerNorm(width), "attention": Attention(width, heads),
                                 "norm2": torch.nn.LayerNorm(width), "mlp": mlp()}) for _ in range(layers))
        self.norm = torch.nn.LayerNorm(width)
        self.head = torch.nn.Linear(width, vocabulary, bias=False)

    def forward(self, ids):
        x = self.tokens(ids) + self.positions(torch.arange(ids.shape[1]))
        for layer in self.layers:
            x = x + layer["attention"](layer["norm1"](x))
            x = x + layer["mlp"](layer["norm2"](x))
        return self.head(self.norm(x)), x.mean(1)


class Cnn(torch.nn.Module):
    """Strided and grouped convolutions, batch norm, pools; dynamic in batch, height and width."""

    def __init__(self):
        super().__init__()
        conv, norm = torch.nn.Conv2d, torch.nn.BatchNorm2d
        self.stem = torch.nn.Sequential(conv(3, 8, 3, stride=2, padding=1), norm(8), torch.nn.ReLU())
        self.pool = torch.nn.MaxPool2d(3, stride=2, padding=1)
        self.block = torch.nn.Sequential(conv(8, 8, 3, padding=1, groups=2, bias=False), norm(8), torch.nn.SiLU(),
                                         conv(8, 8, 1), norm(8))
        self.down = torch.nn.Sequential(conv(8, 12, 3, stride=2, padding=1), norm(12), torch.nn.ReLU())
        self.average = torch.nn.AvgPool2d(2)
        self.head = torch.nn.Linear(12, 10)
        for name, buffer in self.named_buffers():
            if name.endswith("running_mean"):
                buffer.normal_(0, 0.3)
            if name.endswith("running_var"):
                buffer.uniform_(0.5, 2)

    def forward(self, x):
        x = self.pool(self.stem(x))
        x = F.relu(x + self.block(x))
        y = self.down(x)
        z = self.average(F.pad(y, (0, 1, 0, 1)))
        return self.head(F.adaptive_avg_pool2d(y, 1).flatten(1)), z, x


class Rows(torch.nn.Module):
    """Both dimensions dynamic, two element types: accesses may be vectors only where sizes allow."""

    def forward(self, x, y):
        scaled = torch.tanh(x) * 0.5 + y[0]
        return scaled, x.softmax(-1), x.t() + 1.0, y.float().cumsum(-1), (y * y).sum(-1), x.mean(0), torch.cat([y, y], 1)[:, 3:]


class Mixed(torch.nn.Module):
    """Offsets, moduli and row lengths over symbols: slices, pads, concatenation, reshapes, pools, rolls, scans."""

    def forward(self, x, y):
        b, t, c = x.shape
        late = x[:, t // 2:, :].transpose(1, 2).contiguous() * 2
        joined = torch.cat([x.flatten(1), y], 1)
        turned = x.reshape(b * t, c).t().contiguous() + 1
        rolled = (x.half() * 3).roll(1, 2).flip(1)
        whole = x.view(b, -1).softmax(-1).view(b, t, c)
        return (late, F.pad(x, (1, 2)).sum(-1), joined, turned, F.avg_pool1d(x.abs(), 3, stride=2), rolled, whole,
                x.var(dim=(1, 2)), x.argmax(1), x.cumsum(1), x.abs() + y.mean())


class Sorted(torch.nn.Module):
    """Rows to sort whose length has a bound, and one that has none."""

    def forward(self, x, y):
        values, places = torch.sort(x, stable=True)
        return values.exp(), places, torch.argsort(x, dim=0, descending=True, stable=True), torch.topk(x, 3)[0], torch.kthvalue(x, 2)[0], torch.sort(y, stable=True)[1]


class Scans(torch.nn.Module):
    def forward(self, x):
        return (*x.cummax(0), *x.cummin(1), x.logcumsumexp(0), x.logcumsumexp(-1), torch.searchsorted(x[0].sort().values, x))


class Resampled(torch.nn.Module):
    """To twice the size, to half, to sizes of other tensors, all ways."""

    def forward(self, x, y):
        to = y.shape[0]
        row = x[:, :, 0]
        return (F.interpolate(x, scale_factor=2.0), F.interpolate(x, scale_factor=3.0, mode="nearest-exact"), F.interpolate(row, scale_factor=1.5),
                F.interpolate(x, size=(to, 5), mode="bilinear"), F.interpolate(x, size=(to, to + 2), mode="bilinear", align_corners=True),
                F.interpolate(x, size=(4, to), mode="bicubic"), F.interpolate(row, size=2 * to, mode="linear"), F.interpolate(row, size=to),
                F.interpolate(x, size=(to, 3), mode="bilinear", antialias=True), F.interpolate(x, scale_factor=0.5, mode="bilinear"))


class Pooled(torch.nn.Module):
    def forward(self, x):
        n = x.shape[2]
        return (*F.adaptive_max_pool2d(x, 1, return_indices=True), *F.adaptive_max_pool2d(x, (2, 3), return_indices=True),
                *F.adaptive_max_pool1d(x[0], 1, return_indices=True), F.adaptive_avg_pool2d(x, (3, 2)), F.adaptive_avg_pool2d(x, (n // 2, 2)),
                F.max_pool2d(x, 2, stride=2, ceil_mode=True), F.avg_pool1d(x[0], 3, stride=2, padding=1, ceil_mode=True), F.interpolate(x, scale_factor=0.5, mode="area"))


class Depth(torch.nn.Module):
    """Attention of which every size is a symbol."""

    def forward(self, q, k):
        return F.scaled_dot_product_attention(q, k, k * 2), F.scaled_dot_product_attention(q, k, k, is_causal=True)


class Spectra(torch.nn.Module):
    """Fourier transforms of lengths that are symbols, and a long convolution by way of twice the length."""

    def forward(self, x, k):
        n = x.shape[1]
        product = torch.fft.rfft(x, n=2 * n) * torch.fft.rfft(k, n=2 * n)
        whole = torch.fft.fft(x, norm="ortho")
        return torch.fft.irfft(product, n=2 * n)[..., :n], torch.view_as_real(whole).flatten(1), torch.fft.ifft2(whole, norm="forward").real, torch.fft.rfft(x, norm="forward").abs()


class Arithmetic(torch.nn.Module):
    """What exporters write of roundings, shifts and bits."""

    def forward(self, x):
        n, z = x.shape[0], x.new_zeros
        real = torch.sym_float(n)
        return (z(torch.sym_int(n / 3)), z(torch.sym_int(n * 0.5)), z(torch.sym_int(real)), z(torch.sym_int(n / 2 + 18.5)), z(torch.sym_int(n / 2 - 4.5) + 9),
                z(n & 6), z(n | 1), z((n & 1) + (n << 2) + (n >> 1)), z(n % 3), z(n**2), x.roll(n // 2), torch.zeros(n // 2 + 1).roll(n - 1))


class Columns(torch.nn.Module):
    """Sums along a dimension whose neighbours are not neighbours in memory."""

    def forward(self, x):
        x = x.permute(0, 3, 1, 2)
        return x.mean(2), x.float().amax(2)


class Ordered(torch.nn.Module):
    """Rows in order, stable both ways, and the middle of them."""

    def forward(self, x):
        values, places = torch.sort(x, dim=-1, stable=True)
        halves, last_first = torch.sort(x.half(), dim=-1, descending=True, stable=True)
        return values, places, halves, last_first, torch.argsort((x * 2).nan_to_num(5).int(), dim=-1, descending=True, stable=True), x.median(-1).values


class First(torch.nn.Module):
    """A few elements of rows that may be long."""

    def forward(self, x):
        largest, where = torch.topk(x, 5)
        least, there = torch.topk(x, 3, largest=False)
        return largest, where, least, there


class Counted(torch.nn.Module):
    """Histograms and running sums."""

    def forward(self, x):
        return torch.histc(x, 10, -2, 2), (x > 0).cumsum(1), x.flatten().cumsum(0)


def runs(make, *sizes):
    return [make(*size) for size in sizes]


def cases():
    g = torch.Generator().manual_seed(7)
    r = lambda *s: torch.randn(s, generator=g)
    i = lambda high, *s: torch.randint(0, high, s, generator=g)
    batch, length, n, m = Dim("b", min=2, max=8), Dim("t", min=3, max=32), Dim("n", min=2, max=9), Dim("m", min=2, max=9)
    vectors = runs(lambda a, b: (r(a), r(b)), (2, 9), (7, 3), (9, 9))
    yield "block", Block(), (r(3, 7, 16),), ({0: batch, 1: length},), runs(
        lambda b, t: (r(b, t, 16),), (2, 3), (5, 32), (8, 11))
    yield "tokens", Tokens(), (i(11, 3, 5), i(5, 3) + 1), ({0: batch, 1: length}, {0: batch}), runs(
        lambda b, t: (i(11, b, t), i(t, b) + 1), (2, 3), (8, 32), (5, 17))
    yield "joined", Joined(), (r(3, 5), r(4, 5)), ({0: n}, {0: m}), runs(
        lambda a, b: (r(a, 5), r(b, 5)), (2, 9), (7, 3), (9, 9))
    yield "pairs", Pairs(), (r(6, 5),), ({0: 2 * Dim("h", min=2, max=20)},), runs(lambda a: (r(a, 5),), (4,), (40,), (14,))
    yield "integers", Integers(), (r(5), r(4)), ({0: n}, {0: m}), vectors
    yield "reals", Reals(), (r(5), r(4)), ({0: n}, {0: m}), vectors
    yield "choice", Choice(), (r(5), r(4)), ({0: n}, {0: m}), vectors
    yield "counts", Counts(), (r(9, 2), 4, 3), ({0: Dim.DYNAMIC}, Dim.DYNAMIC, Dim.DYNAMIC), runs(
        lambda a, x, y: (r(a, 2), x, y), (9, 4, 3), (5, 3, 2), (17, 16, 5))


def operators():
    """Single operators whose sizes are symbols."""
    g = torch.Generator().manual_seed(13)
    r = lambda *s: torch.randn(s, generator=g)
    auto = Dim.DYNAMIC
    # Rows that hold NaN and equal elements.
    odd = lambda n, m: (torch.where(r(n, m) > 1.5, torch.nan, (r(n, m) * 2).round()),)
    yield "scans", Scans(), odd(5, 7), ({0: Dim("n", min=1, max=4000), 1: Dim("m", min=1)},), runs(odd, (1, 1), (9, 33), (70, 2))
    image = lambda n, c, h, w, to: (r(n, c, h, w), r(to))
    yield "resampled", Resampled(), image(2, 3, 4, 6, 5), ({0: auto, 2: auto, 3: auto}, {0: auto}), runs(image, (2, 3, 4, 6, 5), (3, 3, 7, 5, 2), (2, 3, 11, 2, 13))
    pooled = lambda n, h, w: (r(n, 2, h, w),)
    yield "pooled", Pooled(), pooled(2, 6, 9), ({0: auto, 2: auto, 3: auto},), runs(pooled, (2, 6, 9), (3, 7, 5), (4, 5, 4))
    heads = lambda b, h, n, m, d: (r(b, h, n, d), r(b, h, m, d))
    yield "depth", Depth(), heads(2, 3, 4, 5, 8), tuple({i: auto for i in range(4)} for _ in "qk"), runs(heads, (2, 3, 4, 5, 8), (3, 2, 7, 7, 5), (2, 2, 2, 9, 64))
    yield "arithmetic", Arithmetic(), (r(9),), ({0: auto},), runs(lambda n: (r(n),), (9,), (6,), (31,))
    yield "parts", Parts(), (r(10, 3), r(2, 6)), ({0: Dim.AUTO}, {1: Dim.AUTO}), runs(lambda n, m: (r(n, 3), r(2, 2 * m)), (6, 2), (8, 4), (14, 5))
    even = 2 * Dim("h", min=1, max=30)
    yield "gated", Gated(), (r(6, 4),), ({0: even, 1: 2 * Dim("w", min=1, max=9)},), runs(lambda n, m: (r(n, m),), (6, 4), (4, 10), (30, 18))
    yield "differences", Differences(), (r(63), r(5)), ({0: auto}, {0: auto}), runs(lambda n, m: (r(n), r(m)), (63, 5), (47, 2), (100, 3))
    signals = lambda b, n: (r(b, n), r(n))
    yield "spectra", Spectra(), signals(2, 30), ({0: auto, 1: Dim("n", min=2, max=4000)}, {0: Dim("n", min=2, max=4000)}), runs(signals, (2, 30), (3, 67), (5, 128))
    rows = lambda b, t: (r(b, t, 64).half(), r(t, 64, 24).half())
    yield "half_products", HalfProducts().half(), rows(3, 7), ({0: auto, 1: auto}, {0: auto}), runs(rows, (3, 7), (2, 2), (13, 11))
    images = lambda b, h, w: (r(b, 3, h, w).half(),)
    yield "half_images", HalfConvolutions().half(), images(3, 6, 9), ({0: auto},), runs(lambda b: images(b, 6, 9), (3,), (2,), (7,))
    yield "half_convolutions", HalfConvolutions().half(), images(3, 6, 9), ({0: auto, 2: auto, 3: auto},), runs(
        images, (3, 6, 9), (2, 2, 2), (2, 11, 5))
    columns = lambda n, m: (r(n, m).bfloat16(),)
    yield "half_columns", HalfColumns(), columns(5000, 256), ({0: auto, 1: auto},), runs(columns, (300, 24), (41, 67), (3, 5))
    yield "whole_ranges", WholeRanges(), (r(9),), ({0: auto},), runs(lambda n: (r(n),), (9,), (6,), (31,))
    behind = lambda n, m, k: (r(n), r(m, k))
    yield "last_rows", LastRows(), behind(4, 9, 7), ({0: Dim("n", min=3, max=50)}, {0: auto, 1: auto}), runs(behind, (4, 9, 7), (3, 4, 5), (11, 40, 33))


def rows():
    """Rows and columns, short and long, whose number and length are symbols."""
    g = torch.Generator().manual_seed(17)
    r = lambda *s: torch.randn(s, generator=g)
    auto = Dim.DYNAMIC
    images = lambda n, h, w, c: (r(n, h, w, c).bfloat16(),)
    yield "columns", Columns(), images(13, 4, 475, 3), ({i: auto for i in range(4)},), runs(images, (3, 4, 471, 3), (2, 37, 24, 8), (2, 9, 5, 3))
    # NaN, equal elements, zeros of both signs; rows that threads of a block share differently, and such as no block holds.
    odd = lambda n, m: (torch.where(r(n, m) > 2, torch.nan, (r(n, m) * 2).round()),)
    yield "ordered", Ordered(), odd(5, 300), ({0: auto, 1: auto},), runs(
        odd, (33, 2), (9, 31), (40, 128), (7, 129), (3, 1000), (5, 1025), (2, 2049), (3, 4096), (2, 4097))
    permutations = lambda n, m: (torch.stack([torch.randperm(m, generator=g) for _ in range(n)]).int(),)
    yield "first", First(), permutations(2, 9001), ({0: auto, 1: Dim("m", min=5)},), runs(permutations, (3, 5), (2, 77), (2, 5000), (3, 9001))
    numbers = lambda n, m: ((r(n, m) * 8).round() / 8,)
    yield "counted", Counted(), numbers(500, 256), ({0: auto, 1: auto},), runs(numbers, (3, 5), (70, 256), (2, 9000))


def models():
    g = torch.Generator().manual_seed(11)
    r = lambda *s: torch.randn(s, generator=g)
    ids = lambda b, t: (torch.randint(0, 19, (b, t), generator=g),)
    batch, length = Dim("b", min=1, max=16), Dim("t", min=1, max=40)
    yield "decoder", Decoder(), ids(3, 6), ({0: batch, 1: length},), runs(
        ids, (1, 1), (1, 40), (2, 3), (3, 7), (1, 13), (3, 8), (4, 16), (2, 31), (2, 24), (16, 2))
    yield "cnn", Cnn(), (r(2, 3, 32, 36),), ({0: batch, 2: Dim.AUTO, 3: Dim.AUTO},), runs(
        lambda b, h, w: (r(b, 3, h, w),), (1, 2, 2), (1, 16, 16), (2, 17, 11), (2, 31, 8), (1, 24, 16), (1, 33, 9),
        (5, 13, 7), (8, 8, 8), (1, 37, 13), (4, 19, 2))
    mixed = lambda b, t, c, k: (r(b, t, c), r(b, k))
    yield "mixed", Mixed(), mixed(3, 6, 10, 5), ({0: batch, 1: Dim.AUTO, 2: Dim.AUTO}, {0: batch, 1: Dim("k", min=1, max=32)}), runs(
        mixed, (1, 4, 4, 1), (2, 8, 8, 8), (3, 7, 5, 5), (2, 4, 16, 32), (1, 5, 8, 4), (2, 12, 6, 7), (1, 8, 16, 16), (1, 11, 13, 9),
        (2, 6, 4, 4), (5, 3, 7, 12))
    rows, width = Dim("n", min=1, max=64), Dim("m", min=3, max=4096)
    yield "rows", Rows(), (r(5, 12), r(5, 12).half()), ({0: rows, 1: width}, {0: rows, 1: width}), runs(
        lambda n, m: (r(n, m), r(n, m).half()), (1, 3), (5, 16), (7, 13), (4, 64), (1, 132), (24, 8), (2, 31), (4, 40), (13, 4), (9, 24))
    sortable = lambda n, m, k: ((r(n, m) * 4).round(), torch.randint(-9, 9, (k,), generator=g))
    yield "sorted", Sorted(), sortable(5, 12, 7), ({0: Dim("r", min=1, max=512), 1: Dim("c", min=3, max=700)}, {0: Dim("k", min=2)}), runs(
        sortable, (1, 3, 2), (5, 16, 9), (7, 13, 31), (4, 64, 5), (1, 132, 3), (24, 8, 2), (2, 31, 65), (1, 213, 4), (13, 4, 7), (33, 5, 12))


def forget_metadata(value):
    """Of all nodes, those of subgraphs included."""
    for part in value.values() if isinstance(value, dict) else value if isinstance(value, list) else []:
        forget_metadata(part)
    if isinstance(value, dict) and "metadata" in value:
        value["metadata"] = {}


def record(name, module, example, shapes, inputs, tensors):
    module = module.eval()
    program = export(module, example, dynamic_shapes=shapes, strict=False)
    buffer = io.BytesIO()
    torch.export.save(program, buffer)
    archive = zipfile.ZipFile(buffer)
    model = json.loads(archive.read(next(n for n in archive.namelist() if n.endswith("models/model.json"))))
    forget_metadata(model["graph_module"]["graph"])
    model["graph_module"]["module_call_graph"] = []
    for key, value in {**program.state_dict, **program.constants}.items():
        tensors[f"{name}/weight/{key}"] = value.detach().contiguous().clone()
    for run, arguments in enumerate(inputs):
        given = [value.clone() if isinstance(value, torch.Tensor) else value for value in arguments]
        with torch.no_grad():
            outputs = module(*given)
        written = [now for now, before in zip(given, arguments)
                   if isinstance(now, torch.Tensor) and not bool(((now == before) | (now != now)).all())]
        outputs = (*written, *outputs)  # as tsc returns them
        for position, value in enumerate(arguments):
            tensors[f"{name}/{run}/input_{position}"] = torch.as_tensor(value).contiguous().clone()
        for position, value in enumerate(outputs):
            tensors[f"{name}/{run}/output_{position}"] = torch.as_tensor(value).contiguous().clone()
        if name in ("cnn", "resampled", "spectra") or name in ("half_products", "half_images", "half_convolutions"):  # sums of convolutions cancel, positions are rounded: eager's own error counts
            with torch.no_grad():
                exact = copy.deepcopy(module).double()(*(argument.double() for argument in arguments))
            for position, value in enumerate(exact):
                tensors[f"{name}/{run}/reference_{position}"] = value.contiguous().clone()
    return {"name": name, "model": model}


def write(family, cases):
    torch.manual_seed(0)
    torch.set_num_threads(1)
    tensors = {}
    graphs = [record(*case, tensors) for case in cases()]
    case_archive.record(family, graphs, tensors)
    print(f"{family}: {len(graphs)} graphs, {len(tensors)} tensors")


def main():
    families = {"dynamic": cases, "dynamic_models": models, "dynamic_operators": operators, "dynamic_rows": rows}
    for family in sys.argv[1:] or families:
        write(family, families[family])


if __name__ == "__main__":
    main()
