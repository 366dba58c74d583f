"""Random workloads of the classes that memory bounds: a number is a workload, always the same one. Nobody tunes for them.

`workload(number)` gives (family, text, function, makers): what is computed, as text and as a function of tensors, and for
each tensor a function device -> tensor. Sizes are drawn so that 16 to 256 MB move."""
import random

import torch
import torch.nn.functional as F

FLOATS = (torch.float32, torch.float32, torch.float16, torch.bfloat16, torch.bfloat16)
INTEGERS = (torch.int32, torch.int64, torch.uint8)
TYPICAL = (3, 7, 8, 12, 16, 21, 32, 49, 50, 56, 64, 77, 80, 96, 100, 113, 128, 147, 197, 224, 256, 300, 384, 511, 512, 577, 640,
           768, 1000, 1023, 1024, 1280, 1500, 2048, 2053, 3000, 4095, 4096, 5000, 8192, 10007, 32000, 50257, 65536, 128256)


def name_of(dtype):
    return str(dtype).removeprefix("torch.")


class Draw(random.Random):
    """Draws what workloads are made of. Inputs are collected as makers, in the order of their use."""

    def __init__(self, number, shrink):
        super().__init__(number * 7919 + 17)
        self.makers, self.texts, self.shrink = [], [], shrink

    def floating(self):
        return self.choice(FLOATS)

    def elements(self, dtype, most=256):
        """How many of `dtype` make a log-uniform number of bytes between 16 MB and `most` MB."""
        return max(16, int(16e6 * (most / 16) ** self.random() / dtype.itemsize / self.shrink))

    def size(self, low, high):
        """A size of models, a power of two, or anything, between the two."""
        low, high = max(1, int(low)), max(1, int(high), int(low))
        fitting = [t for t in TYPICAL if low <= t <= high]
        if fitting and self.random() < 0.6:
            return self.choice(fitting)
        return int(round(low * (high / low) ** self.random()))

    def shape(self, rank, elements, limits=None):
        """`rank` sizes whose product is near `elements`; `limits` maps a dimension to (low, high)."""
        limits = dict(limits or {})
        shape, left = [0] * rank, float(elements)
        order = sorted(range(rank), key=lambda d: (d not in limits, self.random()))
        for position, d in enumerate(order):
            others = rank - position - 1
            low, high = limits.get(d, (2, left / 2 ** others))
            high = max(low, min(high, left))
            shape[d] = max(1, round(left)) if others == 0 and d not in limits else self.size(low, high)
            left = max(1.0, left / shape[d])
        return tuple(shape)

    def layout(self, rank):
        if rank < 2 or self.random() < 0.7:
            return "contiguous"
        kinds = ["permuted", "part", "stepped"] + (["channels last"] * 2 if rank in (4, 5) else [])
        return self.choice(kinds)

    def add(self, make, text):
        self.makers.append(make)
        self.texts.append(text)

    def tensor(self, shape, dtype, layout=None, scale=1.0):
        """An input of random numbers."""
        layout = layout or self.layout(len(shape))
        permutation = list(range(len(shape)))
        self.shuffle(permutation)
        seed = self.randrange(1 << 30)

        def values(size, device):
            generator = torch.Generator(device).manual_seed(seed)
            if dtype == torch.bool:
                return torch.rand(size, device=device, generator=generator) < 0.5
            if not dtype.is_floating_point:
                return torch.randint(0, 100, size, dtype=dtype, device=device, generator=generator)
            return (torch.randn(size, device=device, generator=generator) * scale).to(dtype)

        def make(device):
            if layout == "permuted":
                back = [permutation.index(d) for d in range(len(shape))]
                return values([shape[d] for d in permutation], device).permute(back)
            if layout == "part":
                return values(list(shape[:-1]) + [shape[-1] + 5], device)[..., 3:shape[-1] + 3]
            if layout == "stepped":
                return values([shape[0] * 2] + list(shape[1:]), device)[::2]
            if layout == "channels last":
                form = torch.channels_last if len(shape) == 4 else torch.channels_last_3d
                return values(shape, device).to(memory_format=form)
            return values(shape, device)
        self.add(make, f"{name_of(dtype)}{list(shape)}" + ("" if layout == "contiguous" else f" {layout}" + (
            str(permutation) if layout == "permuted" else "")))

    def indices(self, high, shape, dtype=torch.int64, skewed=False):
        seed = self.randrange(1 << 30)

        def make(device):
            generator = torch.Generator(device).manual_seed(seed)
            if skewed:
                u = torch.rand(shape, device=device, generator=generator)
                return (u.pow(4) * high).to(dtype).clamp(max=high - 1)
            return torch.randint(0, high, shape, dtype=dtype, device=device, generator=generator)
        self.add(make, f"indices<{high}{list(shape)}" + (" skewed" if skewed else ""))

    def axes(self, rank, least=1):
        """Some axes, in order."""
        count = self.choice([1, 1, 1, 2, 2, 3])
        return tuple(sorted(self.sample(range(rank), max(least, min(count, rank)))))


UNARY = {
    "relu": F.relu, "gelu": F.gelu, "silu": F.silu, "tanh": torch.tanh, "sigmoid": torch.sigmoid, "x.abs() + 1": lambda x: x.abs() + 1,
    "x * 0.5": lambda x: x * 0.5, "square": torch.square, "clamp": lambda x: x.clamp(-1, 1), "hardswish": F.hardswish,
}


def unary(d):
    name = d.choice(list(UNARY))
    return name, UNARY[name]


def reduction(d):
    rank = d.choice([1, 2, 2, 2, 3, 3, 4, 5])
    operations = {
        "sum": lambda x, a, k: x.sum(a, keepdim=k), "mean": lambda x, a, k: x.mean(a, keepdim=k), "amax": lambda x, a, k: x.amax(a, keepdim=k),
        "amin": lambda x, a, k: x.amin(a, keepdim=k), "var": lambda x, a, k: x.var(a, keepdim=k), "std": lambda x, a, k: x.std(a, keepdim=k),
        "norm": lambda x, a, k: torch.linalg.vector_norm(x, 2, a, keepdim=k), "norm1": lambda x, a, k: torch.linalg.vector_norm(x, 1, a, keepdim=k),
        "logsumexp": lambda x, a, k: x.logsumexp(a, keepdim=k), "argmax": lambda x, a, k: x.argmax(a[0], keepdim=k),
        "argmin": lambda x, a, k: x.argmin(a[0], keepdim=k), "any": lambda x, a, k: (x > 3).any(a[0], keepdim=k),
        "all": lambda x, a, k: (x > -3).all(a[0], keepdim=k), "prod": lambda x, a, k: x.prod(a[0], keepdim=k),
        "count_nonzero": lambda x, a, k: (x > 0).count_nonzero(a), "var_mean": lambda x, a, k: torch.var_mean(x, a, keepdim=k),
        "max and place": lambda x, a, k: tuple(x.max(a[0], keepdim=k)), "aminmax": lambda x, a, k: tuple(torch.aminmax(x, dim=a[0], keepdim=k)),
        "two sums": lambda x, a, k: (x.sum(a, keepdim=k), x.square().sum(a, keepdim=k)),
    }
    name = d.choice(list(operations))
    dtype = d.floating()
    if name in ("sum", "amax", "argmax", "any", "count_nonzero", "prod", "max and place") and d.random() < 0.2:
        dtype = d.choice(INTEGERS)
    shape = d.shape(rank, d.elements(dtype))
    axes = d.axes(rank)
    d.tensor(shape, dtype)
    keep = d.random() < 0.5
    before, g = unary(d) if dtype.is_floating_point and d.random() < 0.4 else ("", lambda x: x)
    after = dtype.is_floating_point and keep and name in ("sum", "mean", "amax", "std", "norm", "logsumexp") and d.random() < 0.4
    operation = operations[name]

    def function(x):
        result = operation(g(x), axes, keep)
        return x - result if after else result
    return f"{name} over {axes}" + (f" of {before}" if before else "") + (", subtracted" if after else ""), function


def normalization(d):
    dtype = d.floating()
    kind = d.choice(["softmax", "log_softmax", "layer_norm", "rms_norm", "group_norm", "instance_norm", "batch_norm", "normalize",
                     "masked softmax", "residual layer_norm", "softmax backward", "layer_norm backward", "group_norm backward",
                     "batch_norm backward", "log_softmax backward", "rms_norm backward", "glu norm"])
    if kind in ("group_norm", "instance_norm", "batch_norm", "group_norm backward", "batch_norm backward"):
        groups = d.choice([1, 4, 8, 16, 32])
        channels = groups * d.size(2, 48) if "group" in kind else d.size(8, 1024)
        n = d.size(1, 64)
        rest = d.elements(dtype, 128) / (n * channels)
        side = max(2, int(rest ** 0.5))
        shape = (n, channels, side, max(2, round(rest / side))) if d.random() < 0.8 else (n, channels, max(4, round(rest)))
        d.tensor(shape, dtype, "channels last" if len(shape) == 4 and d.random() < 0.3 else "contiguous")
        d.tensor((channels,), torch.float32 if kind.startswith("batch") else dtype, "contiguous")
        d.tensor((channels,), torch.float32 if kind.startswith("batch") else dtype, "contiguous")
        name, g = unary(d)
        if kind == "instance_norm":
            return f"instance_norm, {name}", lambda x, w, b: g(F.instance_norm(x, weight=w, bias=b))
        if kind == "group_norm":
            return f"group_norm({groups}), {name}", lambda x, w, b: g(F.group_norm(x, groups, w, b))
        if kind == "batch_norm":
            return f"batch_norm training, {name}", lambda x, w, b: g(F.batch_norm(x, None, None, w, b, training=True))
        d.tensor(shape, dtype, "contiguous")
        forward = (lambda x, w, b: F.group_norm(x, groups, w, b)) if kind.startswith("group") else (
            lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True))
        return kind, lambda x, w, b, dy: vector_jacobian(forward, (x, w, b), dy)
    rank = d.choice([2, 2, 3, 4])
    dim = d.choice([-1, -1, -1, d.randrange(rank)]) if "softmax" in kind else -1
    shape = d.shape(rank, d.elements(dtype, 128))
    size = shape[dim]
    d.tensor(shape, dtype)
    if kind == "softmax":
        name, g = unary(d)
        return f"softmax({dim}) of {name}", lambda x: g(x).softmax(dim)
    if kind == "log_softmax":
        return f"log_softmax({dim})", lambda x: x.log_softmax(dim)
    if kind == "normalize":
        return "normalize", lambda x: F.normalize(x, dim=-1)
    if kind == "masked softmax":
        d.tensor((1,) * (rank - 2) + shape[-2:], torch.bool, "contiguous")
        return f"masked softmax({dim})", lambda x, m: (x * 0.125).masked_fill(m, -1e4).softmax(dim)
    if kind == "softmax backward":
        d.tensor(shape, dtype)
        return f"softmax({dim}) backward", lambda x, dy: vector_jacobian(lambda y: y.softmax(dim), (x,), dy)
    if kind == "log_softmax backward":
        d.tensor(shape, dtype)
        return f"log_softmax({dim}) backward", lambda x, dy: vector_jacobian(lambda y: y.log_softmax(dim), (x,), dy)
    d.tensor((size,), dtype, "contiguous")
    if kind == "rms_norm":
        return "rms_norm", lambda x, w: F.rms_norm(x, (size,), w)
    if kind == "glu norm":
        return "rms_norm(silu(x) * x)", lambda x, w: F.rms_norm(F.silu(x) * x, (size,), w)
    if kind == "rms_norm backward":
        d.tensor(shape, dtype, "contiguous")
        return kind, lambda x, w, dy: vector_jacobian(lambda y, v: F.rms_norm(y, (size,), v), (x, w), dy)
    d.tensor((size,), dtype, "contiguous")
    if kind == "layer_norm":
        name, g = unary(d)
        return f"{name} of layer_norm", lambda x, w, b: g(F.layer_norm(x, (size,), w, b))
    d.tensor(shape, dtype, "contiguous")
    if kind == "layer_norm backward":
        return kind, lambda x, w, b, dy: vector_jacobian(lambda y, v, c: F.layer_norm(y, (size,), v, c), (x, w, b), dy)
    return "residual layer_norm", lambda x, w, b, r: (x + r, F.layer_norm(x + r, (size,), w, b))


def vector_jacobian(function, inputs, gradient):
    return torch.func.vjp(function, *inputs)[1](gradient)


def pointwise(d):
    rank = d.choice([2, 3, 4, 4, 5])
    dtype = d.floating()
    shape = d.shape(rank, d.elements(dtype, 96))
    d.tensor(shape, dtype)
    texts = []
    steps = []
    for _ in range(d.randint(1, 3)):
        other = tuple(s if d.random() < 0.6 else 1 for s in shape)
        if d.random() < 0.3:
            other = other[d.randrange(rank):]
        kind = d.choice([dtype, dtype, torch.float32, torch.bool])
        d.tensor(other, kind)
        name, g = unary(d)
        how = d.choice(["add", "multiply", "where"]) if kind != torch.bool else "where"
        texts.append(f"{how}, {name}")
        if how == "where":
            steps.append(lambda x, y, g=g: torch.where(y > 0, g(x), x) if y.dtype != torch.bool else torch.where(y, g(x), x * 0.1))
        elif how == "add":
            steps.append(lambda x, y, g=g: g(x + y))
        else:
            steps.append(lambda x, y, g=g: g(x * y))
    to = d.choice([None, None, torch.float16, torch.bfloat16, torch.float32])

    def function(x, *others):
        for step, y in zip(steps, others):
            x = step(x, y)
        return x if to is None else x.to(to)
    return "; ".join(texts) + (f" to {name_of(to)}" if to else ""), function


def movement(d):
    kind = d.choice(["permute", "permute", "permute", "cat", "cat", "pad", "roll", "flip", "unfold", "pixel_shuffle", "pixel_unshuffle", "stack",
                     "repeat", "tril", "step", "index_select", "gather", "take_rows", "repeat_interleave", "split and swap", "rotary",
                     "heads", "im2col", "constant pad and add", "masked copy", "put slice"])
    dtype = d.choice(FLOATS + (torch.uint8, torch.int64))
    rank = d.choice([2, 3, 4, 5, 6] if kind == "permute" else [2, 3, 4])
    shape = d.shape(rank, d.elements(dtype, 128))
    if kind == "permute":
        order = list(range(rank))
        while order == sorted(order):
            d.shuffle(order)
        d.tensor(shape, dtype, "contiguous")
        return f"permute{order}", lambda x: x.permute(order).contiguous()
    if kind == "cat":
        count, dim = d.randint(2, 6), d.randrange(rank)
        for _ in range(count):
            piece = list(shape)
            piece[dim] = max(1, shape[dim] // count + d.choice([0, 0, 1, -1, 3]))
            d.tensor(tuple(piece), dtype)
        name, g = unary(d) if dtype.is_floating_point and d.random() < 0.3 else ("", lambda x: x)
        return f"{name} cat({dim})", lambda *x: g(torch.cat(x, dim))
    if kind == "stack":
        count, dim = d.randint(2, 5), d.randrange(rank + 1)
        for _ in range(count):
            d.tensor((max(1, shape[0] // count),) + shape[1:], dtype)
        return f"stack({dim})", lambda *x: torch.stack(x, dim)
    if kind in ("pad", "im2col", "pixel_shuffle", "pixel_unshuffle", "unfold", "constant pad and add"):
        dtype = d.floating()
        n, c = d.size(1, 32), d.size(3, 256)
        if kind == "pixel_shuffle":
            c = 4 * max(1, c // 4)
        side = max(8, int((d.elements(dtype, 96) / (n * c)) ** 0.5))
        width = side + d.choice([0, 0, 3, 17])
        if kind == "pixel_unshuffle":
            side, width = side // 3 * 3 + 3, width // 3 * 3 + 3
        d.tensor((n, c, side, width), dtype, d.choice(["contiguous", "contiguous", "channels last"]))
        if kind == "pad":
            mode = d.choice(["constant", "reflect", "replicate", "circular"])
            amounts = tuple(d.randint(0, 4) for _ in range(4))
            return f"pad {mode} {amounts}", lambda x: F.pad(x, amounts, mode=mode)
        if kind == "constant pad and add":
            return "pad(1, 0) minus x", lambda x: F.pad(x, (1, 0))[..., :-1] - x
        if kind == "im2col":
            return "unfold(3) by 3", lambda x: F.unfold(x, 3, stride=3)
        if kind == "pixel_shuffle":
            return "pixel_shuffle(2)", lambda x: F.pixel_shuffle(x, 2)
        if kind == "pixel_unshuffle":
            return "pixel_unshuffle(3)", lambda x: F.pixel_unshuffle(x, 3)
        size, step = d.choice([(4, 2), (8, 8), (5, 3)])
        return f"unfold({size}, {step})", lambda x: x.unfold(2, size, step).contiguous()
    d.tensor(shape, dtype)
    dim = d.randrange(rank)
    if kind == "roll":
        shift = d.randint(1, shape[dim])
        return f"roll({shift}, {dim})", lambda x: x.roll(shift, dim)
    if kind == "flip":
        axes = d.axes(rank)
        return f"flip{axes}", lambda x: x.flip(axes)
    if kind == "repeat":
        times = [d.choice([1, 1, 2, 3]) for _ in range(rank)]
        return f"repeat{times}", lambda x: x.repeat(times)
    if kind == "repeat_interleave":
        times = d.randint(2, 4)
        return f"repeat_interleave({times}, {dim})", lambda x: x.repeat_interleave(times, dim)
    if kind == "tril":
        return "tril", lambda x: x.tril()
    if kind == "step":
        step = d.randint(2, 3)
        return f"step {step} of {dim}", lambda x: x[(slice(None),) * dim + (slice(1, None, step),)].contiguous()
    if kind == "index_select":
        d.indices(shape[dim], (shape[dim],))
        return f"index_select({dim})", lambda x, i: x.index_select(dim, i)
    if kind == "take_rows":
        d.indices(shape[0], (max(1, shape[0] // 2),), d.choice([torch.int32, torch.int64]))
        return "x[i]", lambda x, i: x[i]
    if kind == "gather":
        d.indices(shape[dim], shape)
        return f"gather({dim})", lambda x, i: x.gather(dim, i)
    if kind == "split and swap":
        half = shape[-1] // 2
        return "halves swapped", lambda x: torch.cat([x[..., half:], x[..., :half]], -1)
    if kind == "rotary":
        d.makers.pop(), d.texts.pop()
        dtype = d.floating()
        b, h, size = d.size(1, 8), d.size(4, 32), d.choice([32, 64, 80, 96, 128])
        length = max(16, d.elements(dtype, 96) // (b * h * size))
        d.tensor((b, length, h, size), dtype, "contiguous")
        d.tensor((length, size), d.choice([dtype, torch.float32]), "contiguous")
        d.tensor((length, size), d.choice([dtype, torch.float32]), "contiguous")

        def rotate(x, cos, sin):
            a, b = x.chunk(2, -1)
            x = x.transpose(1, 2)
            turned = torch.cat((-b, a), -1).transpose(1, 2)
            return x * cos + turned * sin
        return "rotary", rotate
    if kind == "heads":
        d.makers.pop(), d.texts.pop()
        b, h, size = d.size(1, 16), d.size(2, 16), d.choice([32, 40, 64, 72, 128])
        length = max(8, d.elements(dtype, 96) // (3 * b * h * size))
        d.tensor((b, length, 3 * h * size), dtype, "contiguous")
        return f"q, k, v of {h} heads", lambda x: tuple(t.contiguous() for t in x.view(b, length, 3, h, size).permute(2, 0, 3, 1, 4).unbind(0))
    if kind == "masked copy":
        d.tensor(shape, torch.bool, "contiguous")
        return "masked_fill", lambda x, m: x.masked_fill(m, 0)
    start = d.randrange(max(1, shape[dim] // 2))
    part = list(shape)
    part[dim] = max(1, shape[dim] // 3)
    d.tensor(tuple(part), dtype)
    return f"slice_scatter({dim})", lambda x, y: x.slice_scatter(y, dim, start, start + part[dim])


def scan(d):
    name = d.choice(["cumsum", "cumsum", "cumprod", "cummax", "logcumsumexp", "cumsum of mask", "diff"])
    dtype = d.choice([torch.float32, torch.float16, torch.bfloat16, torch.int32, torch.int64]) if name == "cumsum" else d.floating()
    rank = d.choice([1, 2, 2, 3])
    shape = d.shape(rank, d.elements(dtype, 128))
    dim = d.randrange(rank)
    d.tensor(shape, dtype, scale=0.1)
    operations = {"cumsum": lambda x: x.cumsum(dim), "cumprod": lambda x: (x + 1).clamp(0.9, 1.1).cumprod(dim), "cummax": lambda x: tuple(x.cummax(dim)),
                  "logcumsumexp": lambda x: x.logcumsumexp(dim), "cumsum of mask": lambda x: (x > 0).cumsum(dim), "diff": lambda x: x.diff(dim=dim)}
    return f"{name}({dim})", operations[name]


def order(d):
    name = d.choice(["sort", "sort", "argsort", "topk", "topk", "topk", "kthvalue", "median"])
    dtype = d.choice([torch.float32, torch.float16, torch.bfloat16, torch.int32, torch.int64])
    rank = d.choice([1, 2, 2, 2, 3])
    shape = d.shape(rank, d.elements(dtype, 64))
    dim = d.choice([-1, -1, d.randrange(rank)])
    d.tensor(shape, dtype, "contiguous", scale=100.0)
    down = d.random() < 0.5
    if name == "topk":
        k = min(shape[dim], d.choice([1, 2, 5, 8, 10, 32, 50, 64, 100, 256, 1000]))
        return f"topk({k}, {dim})", lambda x: x.topk(k, dim)[0]
    if name == "kthvalue":
        k = d.randint(1, shape[dim])
        return f"kthvalue({k}, {dim})", lambda x: x.kthvalue(k, dim)[0]
    return f"{name}({dim}{', descending' if down else ''})", {
        "sort": lambda x: x.sort(dim, descending=down)[0], "argsort": lambda x: torch.argsort(x, dim=dim, descending=down, stable=True),
        "median": lambda x: x.median(dim)[0]}[name]


def scatter(d):
    kind = d.choice(["index_add", "scatter_add", "scatter_reduce", "embedding backward", "index_put", "bincount", "embedding_bag", "scatter",
                     "index_copy", "one_hot", "embedding", "cross_entropy backward", "histc"])
    dtype = d.floating()
    width = d.size(1, 1024)
    rows = d.size(64, 200000)
    updates = max(16, int(d.elements(dtype, 96) / width))
    rows = min(rows, int(256e6 / width / dtype.itemsize))
    skewed = d.random() < 0.3
    if kind in ("bincount", "histc"):
        n = d.size(1_000_000, 20_000_000)
        if kind == "bincount":
            d.indices(rows, (n,), skewed=skewed)
            return f"bincount({rows})", lambda i: torch.bincount(i, minlength=rows)[:rows]
        d.tensor((n,), torch.float32, "contiguous")
        return "histc", lambda x: torch.histc(x, 100, -4, 4)
    if kind == "one_hot":
        d.indices(100, (max(16, int(d.elements(torch.int64, 128) / 100)),))
        return "one_hot(100) to float", lambda i: F.one_hot(i, 100).to(torch.float32)
    if kind == "embedding":
        d.tensor((rows, width), dtype, "contiguous")
        d.indices(rows, (updates,), skewed=skewed)
        name, g = unary(d)
        return f"{name} of embedding", lambda w, i: g(F.embedding(i, w))
    if kind == "embedding_bag":
        length = d.size(2, 40)
        d.tensor((rows, width), dtype, "contiguous")
        d.indices(rows, (max(1, updates // length), length), skewed=skewed)
        mode = d.choice(["sum", "mean", "max"])
        return f"embedding_bag {mode}", lambda w, i: F.embedding_bag(i, w, mode=mode)
    if kind == "cross_entropy backward":
        classes = d.size(10, 50257)
        count = max(4, int(d.elements(dtype, 128) / classes))
        d.tensor((count, classes), dtype, "contiguous")
        d.indices(classes, (count,))
        smoothing = d.choice([0.0, 0.1])
        return f"cross_entropy({smoothing}) and gradient", lambda x, t: tuple(reversed(torch.func.grad_and_value(
            lambda y: F.cross_entropy(y.float(), t, label_smoothing=smoothing))(x)))
    if kind == "embedding backward":
        d.indices(rows, (updates,), skewed=skewed)
        d.tensor((updates, width), dtype, "contiguous")
        return f"embedding backward into {rows}", lambda i, dy: torch.ops.aten.embedding_dense_backward(dy, i, rows, -1, False)
    d.tensor((rows, width), dtype, "contiguous")
    d.indices(rows, (updates, width) if kind.startswith("scatter") else (updates,), skewed=skewed)
    d.tensor((updates, width), dtype, "contiguous")
    if kind == "scatter_reduce":
        how = d.choice(["amax", "amin", "mean", "sum"])
        return f"scatter_reduce {how}", lambda x, i, v: x.scatter_reduce(0, i, v, how)
    return kind, {"index_add": lambda x, i, v: x.index_add(0, i, v), "scatter_add": lambda x, i, v: x.scatter_add(0, i, v),
                  "index_put": lambda x, i, v: x.index_put((i,), v, accumulate=True), "scatter": lambda x, i, v: x.scatter(0, i, v),
                  "index_copy": lambda x, i, v: x.index_copy(0, i, v)}[kind]


def window(d):
    kind = d.choice(["max_pool", "avg_pool", "adaptive_avg", "interpolate", "interpolate", "grid_sample", "depthwise", "depthwise", "depthwise",
                     "max_pool backward", "avg_pool backward", "interpolate backward", "lp_pool", "depthwise weight gradient"])
    dtype = d.floating()
    dims = d.choice([1, 2, 2, 2, 2, 3])
    n, c = d.size(1, 32), d.size(3, 512)
    if kind in ("grid_sample", "interpolate backward"):
        dims = 2
    side = max(9, round((d.elements(dtype, 64) / (n * c)) ** (1 / dims)))
    shape = (n, c) + tuple(side + d.choice([0, 0, 1, 5]) for _ in range(dims))
    layout = "channels last" if dims > 1 and d.random() < 0.4 else "contiguous"
    d.tensor(shape, dtype, layout)
    size, stride = d.choice([(2, 2), (3, 2), (3, 1), (3, 3), (5, 1), (4, 2)])
    if kind.startswith("max_pool") or kind.startswith("avg_pool") or kind == "lp_pool":
        padding = d.choice([0, size // 2])
        pools = {"max_pool": (F.max_pool1d, F.max_pool2d, F.max_pool3d), "avg_pool": (F.avg_pool1d, F.avg_pool2d, F.avg_pool3d),
                 "lp_pool": (F.lp_pool1d, F.lp_pool2d, F.lp_pool3d)}[kind.removesuffix(" backward")]
        pool = pools[dims - 1]
        text = f"{kind} {size}/{stride} of {dims}-D"
        if kind == "lp_pool":
            return text, lambda x: pool(x, 2, size, stride)
        if kind.endswith("backward"):
            def backward(x):
                result, gradient = torch.func.vjp(lambda y: pool(y, size, stride, padding), x)
                return gradient(result)
            return text, backward
        return text + f" padded {padding}", lambda x: pool(x, size, stride, padding)
    if kind == "adaptive_avg":
        to = d.choice([1, 4, 7])
        return f"adaptive_avg_pool to {to}", lambda x: (F.adaptive_avg_pool1d, F.adaptive_avg_pool2d, F.adaptive_avg_pool3d)[dims - 1](x, to)
    if kind.startswith("interpolate"):
        mode = d.choice(["nearest", ("linear", "bilinear", "trilinear")[dims - 1]] + (["bicubic"] if dims == 2 else []))
        scale = d.choice([2, 2, 1.5, 0.5, 3])
        if kind.endswith("backward"):
            def backward(x):
                result, gradient = torch.func.vjp(lambda y: F.interpolate(y, scale_factor=scale, mode=mode), x)
                return gradient(result)
            return f"interpolate {mode} x {scale} and backward", backward
        return f"interpolate {mode} x {scale}", lambda x: F.interpolate(x, scale_factor=scale, mode=mode)
    if kind == "grid_sample":
        d.tensor((n, side, side, 2), dtype, "contiguous", scale=0.5)
        return "grid_sample", lambda x, g: F.grid_sample(x, g, align_corners=False)
    k, stride, dilation = d.choice([3, 3, 5, 7]), d.choice([1, 1, 2]), d.choice([1, 1, 1, 2])
    if dims == 3:
        k = 3
    padding = dilation * (k // 2)
    convolve = (F.conv1d, F.conv2d, F.conv3d)[dims - 1]
    d.tensor((c, 1) + (k,) * dims, dtype, "contiguous")
    if kind == "depthwise weight gradient":
        return f"depthwise {k}/{stride} weights' gradient", lambda x, w: torch.func.grad(
            lambda v: convolve(x, v, None, stride, padding, dilation, c).float().square().sum())(w)
    name, g = unary(d)
    return f"{name} of depthwise {k}/{stride}, dilation {dilation}", lambda x, w: g(convolve(x, w, None, stride, padding, dilation, c))


def loss(d):
    dtype = d.floating()
    shape = d.shape(d.choice([2, 2, 3]), d.elements(dtype, 96))
    d.tensor(shape, dtype)
    d.tensor(shape, dtype)
    names = {
        "mse": F.mse_loss, "smooth_l1": F.smooth_l1_loss, "huber": F.huber_loss, "l1": F.l1_loss,
        "bce with logits": lambda x, y: F.binary_cross_entropy_with_logits(x, y.sigmoid()),
        "kl_div": lambda x, y: F.kl_div(x.log_softmax(-1), y.log_softmax(-1), log_target=True, reduction="batchmean"),
        "cosine_similarity": lambda x, y: F.cosine_similarity(x, y, dim=-1), "pairwise_distance": F.pairwise_distance,
        "focal": lambda x, y: ((1 - x.sigmoid()).square() * F.binary_cross_entropy_with_logits(x, (y > 0).to(x.dtype), reduction="none")).mean(),
        "huber gradient": lambda x, y: torch.func.grad(lambda z: F.huber_loss(z.float(), y.float()))(x),
        "distillation": lambda x, y: F.kl_div((x / 2).log_softmax(-1), (y / 2).softmax(-1), reduction="batchmean"),
    }
    name = d.choice(list(names))
    return name, names[name]


def statistics(d):
    """Several reductions and results that read the same input."""
    dtype = d.floating()
    rank = d.choice([2, 3, 4])
    shape = d.shape(rank, d.elements(dtype, 128))
    d.tensor(shape, dtype)
    first, second = d.randrange(rank), d.randrange(rank)
    name, g = unary(d)
    kind = d.choice(["standardize", "rows and columns", "min-max scale", "masked mean", "clip by norm", "quantize", "softmax entropy"])
    if kind == "standardize":
        return f"standardize({first}), {name}", lambda x: g((x - x.mean(first, keepdim=True)) / (x.std(first, keepdim=True) + 1e-5))
    if kind == "rows and columns":
        return f"sums over {first} and {second} of {name}", lambda x: (g(x).sum(first), g(x).sum(second))
    if kind == "min-max scale":
        return f"min-max scale({first})", lambda x: (x - x.amin(first, keepdim=True)) / (x.amax(first, keepdim=True) - x.amin(first, keepdim=True) + 1e-6)
    if kind == "masked mean":
        d.tensor(shape, torch.bool, "contiguous")
        return f"masked mean({first})", lambda x, m: (x * m).sum(first) / m.sum(first).clamp(min=1)
    if kind == "clip by norm":
        return "clip by norm", lambda x: x * (1.0 / x.float().norm().clamp(min=1.0)).to(x.dtype)
    if kind == "quantize":
        def quantize(x):
            scale = x.abs().amax(-1, keepdim=True).float() / 127
            return (x / scale).round().clamp(-128, 127).to(torch.int8), scale
        return "quantize rows to int8", quantize
    return f"entropy of softmax({first})", lambda x: -(x.softmax(first) * x.log_softmax(first)).sum(first)


def randomness(d):
    dtype = d.floating()
    shape = d.shape(d.choice([2, 3, 4]), d.elements(dtype, 96))
    d.tensor(shape, dtype)
    kind = d.choice(["dropout", "dropout and add", "noise", "uniform"])
    if kind == "dropout and add":
        d.tensor(shape, dtype)
        return kind, lambda x, y: F.dropout(x, 0.1) + y
    return kind, {"dropout": lambda x: F.dropout(F.gelu(x), 0.2), "noise": lambda x: x + torch.randn_like(x) * 0.1,
                  "uniform": lambda x: torch.rand_like(x) * x}[kind]


FAMILIES = {"reduction": reduction, "normalization": normalization, "pointwise": pointwise, "movement": movement, "scan": scan, "order": order,
            "scatter": scatter, "window": window, "loss": loss, "statistics": statistics, "randomness": randomness}
WEIGHTS = {"reduction": 5, "normalization": 5, "pointwise": 2, "movement": 5, "scan": 2, "order": 2, "scatter": 3, "window": 4, "loss": 1,
           "statistics": 2, "randomness": 1}


def workload(number, shrink=1):
    """(family, text, function, makers). Deterministic in `number`; `shrink` divides how many elements there are."""
    d = Draw(number, shrink)
    family = d.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
    text, function = FAMILIES[family](d)
    return family, f"{text}: {', '.join(d.texts)}", function, d.makers
