"""Products of matrices, convolutions, pooling, normalization, resampling."""
import torch

import values
from builder import NotHere
from rules import rule


def width(g, x):
    return f", dtype=torch.{values.name_of(g.tensor(x).dtype)}" if g.tensor(x).dtype != torch.float32 else ""


@rule("matmul", 5)
def matmul(g):
    x = g.floats(low=1, few=1) if g.chance(0.95) else g.ints(low=1, few=1)
    t = g.tensor(x)
    k = t.shape[-1]
    n = g.size()
    if g.chance(0.3):
        fits = [y for y in g.names if g.tensor(y).dtype == t.dtype and g.tensor(y).dim() in (1, 2) and g.tensor(y).shape[0] == k]
        if fits:
            return g.emit(g.choice((f"{x} @ {g.choice(fits)}", f"torch.matmul({x}, {g.choice(fits)})")), "matmul")
    kind = g.integer(0, 7)
    if kind == 0:
        return g.emit(f"{x} @ {g.same_shape((k,), t.dtype)}", "matmul")
    if kind == 1 and t.dim() >= 2:
        return g.emit(f"{x} @ {x}.transpose(-1, -2)", "matmul")
    if kind == 2:
        return g.emit(f"F.linear({x}, {g.same_shape((n, k), t.dtype)}, {g.same_shape((n,), t.dtype)})", "matmul")
    if kind == 3 and t.dim() == 2:
        y = g.same_shape((k, n), t.dtype)
        b = g.same_shape(g.choice(((t.shape[0], n), (n,), (1,), (t.shape[0], 1))), t.dtype)
        return g.emit(g.choice((f"torch.addmm({b}, {x}, {y})", f"torch.addmm({b}, {x}, {y}, beta=0.5, alpha=2)", f"torch.mm({x}, {y}) + {b}")), "matmul")
    if kind == 4 and t.dim() == 3:
        y = g.same_shape((t.shape[0], k, n), t.dtype)
        b = g.same_shape((t.shape[0], t.shape[1], n), t.dtype)
        return g.emit(g.choice((f"torch.bmm({x}, {y})", f"torch.baddbmm({b}, {x}, {y})", f"torch.baddbmm({b}, {x}, {y}, beta=0.5, alpha=0.7)", f"torch.addbmm({b}[0], {x}, {y})")), "matmul")
    if kind == 5 and t.dim() <= 2:
        return g.emit(g.choice((f"torch.inner({x}, {x})", f"torch.tensordot({x}, {g.same_shape((k, n), t.dtype)}, 1)", f"F.bilinear({x}, {x}, {g.same_shape((2, k, k), t.dtype)})",
                                f"torch.mv({x}, {g.same_shape((k,), t.dtype)})" if t.dim() == 2 else f"torch.dot({x}, {x})",
                                f"torch.addmv({g.same_shape((t.shape[0],), t.dtype)}, {x}, {g.same_shape((k,), t.dtype)})" if t.dim() == 2 else f"torch.vdot({x}, {x})",
                                f"torch.addr({x}, {x}[:, 0], {x}[0])" if t.dim() == 2 else f"torch.outer({x}, {x})",
                                f"torch.linalg.multi_dot([{x}, {g.same_shape((k, n), t.dtype)}, {g.same_shape((n, 2), t.dtype)}])",
                                f"torch.chain_matmul({x}, {g.same_shape((k, n), t.dtype)})")), "matmul")
    lead = tuple(t.shape[:-2]) if t.dim() > 2 and g.chance(0.5) else ()
    g.emit(f"{x} @ {g.same_shape(lead + (k, n), t.dtype)}", "matmul")


@rule("einsum", 1.5)
def einsum(g):
    x = g.floats(low=1, high=4, few=1)
    t = g.tensor(x)
    letters = "abcdefg"[:t.dim()]
    own = [l for l in letters if g.chance(0.6)]
    out = own + ["z"]
    g.random.shuffle(out)
    kind = g.integer(0, 4)
    if kind == 0:
        shuffled = list(letters)
        g.random.shuffle(shuffled)
        return g.emit(f"torch.einsum('{letters}->{''.join(shuffled[:g.integer(1, len(shuffled))])}', {x})", "einsum")
    shared = [(l, s) for l, s in zip(letters, t.shape) if g.chance(0.6)]
    other = g.same_shape(tuple(s for _, s in shared) + (g.size() or 1,), t.dtype)
    g.emit(f"torch.einsum('{letters},{''.join(l for l, _ in shared)}z->{''.join(out)}', {x}, {other})", "einsum")


@rule("linear module", 2)
def linear(g):
    x = g.floats(low=1, few=1)
    t = g.tensor(x)
    name, made = g.module(f"nn.Linear({t.shape[-1]}, {g.integer(1, 24)}, bias={g.chance(0.7)})")
    attempt(g, made, f"{name}({x})", "linear module")


def attempt(g, made, text, family, results=1):
    try:
        return g.emit(text, family, results)
    except NotHere:
        g.drop_module(made)
        raise


def image(g, rank, low=1):
    """A float tensor [N, C, spatial...] (or [C, spatial...]), every spatial size at least `low`."""
    def good(t):
        return t.dtype.is_floating_point and t.dim() in (rank + 2, rank + 1) and all(s >= low for s in t.shape[1:]) and t.numel() > 0
    if g.chance(0.7):
        try:
            return g.pick(good)
        except NotHere:
            pass
    sizes = [g.choice((3, 4, 5, 6, 7, 8, 9, 13)[: 8 if rank < 3 else 4]) for _ in range(rank)]
    if g.program.symbols and g.chance(0.5):
        sizes[-1] = list(g.program.symbols.values())[0]
    lead = ((g.choice((1, 2, 3)),) if g.chance(0.85) else ()) + (g.choice((1, 2, 3, 4, 6, 8)),)
    if any(s < low for s in sizes):
        raise NotHere
    layout = "channels_last" if rank == 2 and g.chance(0.2) else None
    return g.new_input(g.float, lead + tuple(sizes), layout=layout)


def each(g, rank, low, high):
    """One number for all dimensions or one for each, as text."""
    if g.chance(0.6):
        return str(g.integer(low, high))
    return str(tuple(g.integer(low, high) for _ in range(rank)))


@rule("convolution", 4)
def convolution(g):
    rank = g.random.choices((1, 2, 3), (30, 60, 10))[0]
    x = image(g, rank, 3)
    t = g.tensor(x)
    channels = t.shape[-rank - 1]
    groups = g.choice([k for k in (1, 1, 1, 2, 3, channels) if channels % k == 0])
    out = groups * g.integer(1, 4)
    options = f"stride={each(g, rank, 1, 2)}, padding={each(g, rank, 0, 2)}, dilation={each(g, rank, 1, 2) if g.chance(0.3) else 1}, groups={groups}, bias={g.chance(0.7)}"
    kernel = each(g, rank, 1, 3)
    if g.chance(0.6):
        name = "nn.Conv" if g.chance(0.75) else "nn.ConvTranspose"
        if name == "nn.Conv" and g.chance(0.15):
            options += f", padding_mode='{g.choice(('reflect', 'replicate', 'circular'))}'"
        elif name == "nn.Conv" and g.chance(0.1):
            options = f"padding='same', groups={groups}"
        name, made = g.module(f"{name}{rank}d({channels}, {out}, {kernel}, {options})")
        return attempt(g, made, f"{name}({x})", "convolution")
    sizes = [g.integer(1, 3) for _ in range(rank)]
    options = options[:options.index(", bias")]
    if g.chance(0.8):
        weight = g.same_shape([out, channels // groups] + sizes, t.dtype)
        bias = g.same_shape((out,), t.dtype) if g.chance(0.5) else "None"
        return g.emit(f"F.conv{rank}d({x}, {weight}, {bias}, {options})", "convolution")
    weight = g.same_shape([channels, g.integer(1, 3)] + sizes, t.dtype)
    g.emit(f"F.conv_transpose{rank}d({x}, {weight}, None, {options}, output_padding={0 if g.chance(0.8) else 1})", "convolution")


@rule("pool", 3)
def pool(g):
    rank = g.random.choices((1, 2, 3), (30, 60, 10))[0]
    x = image(g, rank, 2)
    k = each(g, rank, 1, 3)
    s = each(g, rank, 1, 2)
    p = g.choice((0, 0, 1))
    adaptive = each(g, rank, 1, 4)
    kind = g.integer(0, 9)
    if kind < 3:
        return g.emit(f"F.max_pool{rank}d({x}, {k}, stride={s}, padding={p}{', dilation=2' if g.chance(0.1) else ''}{', ceil_mode=True' if g.chance(0.2) else ''})", "pool")
    if kind < 5:
        return g.emit(f"F.max_pool{rank}d({x}, {k}, {s}, {p}, return_indices=True)", "pool", 2)
    if kind < 7:
        return g.emit(f"F.avg_pool{rank}d({x}, {k}, {s}, {p}, ceil_mode={g.chance(0.2)}, count_include_pad={g.chance(0.5)})", "pool")
    if kind < 8:
        return g.emit(f"F.adaptive_avg_pool{rank}d({x}, {adaptive})", "pool")
    if kind < 9:
        return g.emit(f"F.adaptive_max_pool{rank}d({x}, {adaptive})", "pool")
    g.emit(f"F.adaptive_max_pool{rank}d({x}, {adaptive}, return_indices=True)", "pool", 2)


@rule("normalize", 4)
def normalize(g):
    x = g.floats(low=2, few=2)
    t = g.tensor(x)
    last = t.shape[-1]
    kind = g.integer(0, 9)
    if kind < 3:
        k = g.integer(1, min(2, t.dim() - 1))
        shape = list(t.shape[-k:])
        if g.chance(0.5):
            return g.emit(f"F.layer_norm({x}, {shape}" + g.choice(("", f", {g.same_shape(shape, t.dtype)}, {g.same_shape(shape, t.dtype)}", f", {g.same_shape(shape, t.dtype)}, None, 1e-3")) + ")", "normalize")
        name, made = g.module(f"nn.LayerNorm({shape}, elementwise_affine={g.chance(0.8)})")
        return attempt(g, made, f"{name}({x})", "normalize")
    if kind < 5:
        if g.chance(0.5):
            name, made = g.module(f"nn.RMSNorm({last})")
            return attempt(g, made, f"{name}({x})", "normalize")
        return g.emit(f"F.rms_norm({x}, [{last}]" + g.choice(("", f", {g.same_shape((last,), t.dtype)}", f", {g.same_shape((last,), t.dtype)}, 1e-4")) + ")", "normalize")
    if kind < 7:
        channels = t.shape[1]
        groups = g.choice([k for k in (1, 2, 3, channels) if k and channels % k == 0])
        if g.chance(0.5):
            name, made = g.module(f"nn.GroupNorm({groups}, {channels})")
            return attempt(g, made, f"{name}({x})", "normalize")
        return g.emit(f"F.group_norm({x}, {groups}" + g.choice(("", f", {g.same_shape((channels,), t.dtype)}, {g.same_shape((channels,), t.dtype)}")) + ")", "normalize")
    rank = t.dim() - 2
    if kind < 9 and rank <= 3:
        name, made = g.module(f"nn.BatchNorm{max(rank, 1)}d({t.shape[1]}, affine={g.chance(0.8)}, track_running_stats={g.chance(0.8)})", training=g.chance(0.4))
        return attempt(g, made, f"{name}({x})", "normalize")
    if 1 <= rank <= 3:
        name, made = g.module(f"nn.InstanceNorm{rank}d({t.shape[1]}, affine={g.chance(0.5)})")
        return attempt(g, made, f"{name}({x})", "normalize")
    c = t.shape[1]
    mean, variance = (g.new_input(values.name_of(t.dtype), (c,), style, kind="buffer") for style in ("normal", "positive"))  # training writes them
    g.emit(f"F.batch_norm({x}, {mean}, {variance}, {g.same_shape((c,), t.dtype)}.clone(), None, training={g.chance(0.3)})", "normalize")


@rule("resample", 1.5)
def resample(g):
    rank = g.random.choices((1, 2, 3), (25, 65, 10))[0]
    x = image(g, rank, 2)
    if g.tensor(x).dim() != rank + 2:
        raise NotHere
    modes = {1: ("nearest", "linear", "nearest-exact"), 2: ("nearest", "bilinear", "bicubic", "nearest-exact", "bilinear"), 3: ("nearest", "trilinear", "nearest-exact")}[rank]
    mode = g.choice(modes)
    align = f", align_corners={g.chance(0.5)}" if "linear" in mode or mode == "bicubic" else ""
    if g.chance(0.1) and rank == 2 and mode in ("bilinear", "bicubic"):
        align += ", antialias=True"
    if g.chance(0.15) and rank == 2:
        t = g.tensor(x)
        grid = g.same_shape((t.shape[0], 3, 4, 2), t.dtype)
        return g.emit(f"F.grid_sample({x}, {grid}.tanh(), mode='{g.choice(('bilinear', 'nearest'))}', padding_mode='{g.choice(('zeros', 'border', 'reflection'))}', align_corners={g.chance(0.5)})", "resample")
    if g.chance(0.2) and rank == 2:
        return g.emit(f"F.unfold({x}, {each(g, 2, 1, 2)}, padding={g.integer(0, 1)}, stride={g.integer(1, 2)})", "resample")
    how = f"scale_factor={g.choice((2, 1.5, 0.5, 3))}" if g.chance(0.5) else f"size={tuple(g.integer(1, 9) for _ in range(rank))}"
    g.emit(f"F.interpolate({x}, {how}, mode='{mode}'{align})", "resample")


@rule("recurrent", 0.5)
def recurrent(g):
    x = g.floats(low=2, high=3, few=1, fits=lambda t: t.numel() and t.shape[0] <= 9)
    t = g.tensor(x)
    hidden = g.integer(1, 6)
    kind = g.choice(("RNN", "GRU", "LSTM", "RNNCell", "GRUCell", "LSTMCell"))
    if kind.endswith("Cell"):
        if t.dim() != 2:
            raise NotHere
        name, made = g.module(f"nn.{kind}({t.shape[-1]}, {hidden})")
        return attempt(g, made, f"{name}({x})", "recurrent", 2 if kind == "LSTMCell" else 1)
    name, made = g.module(f"nn.{kind}({t.shape[-1]}, {hidden}, num_layers={g.integer(1, 2)}, bidirectional={g.chance(0.3)}, batch_first={g.chance(0.5)})")
    attempt(g, made, f"{name}({x})[0]", "recurrent")


@rule("distance", 0.6)
def distance(g):
    x = g.floats(low=2, high=3, few=1)
    t = g.tensor(x)
    y = g.same_shape(tuple(t.shape[:-2]) + (g.size() or 1, t.shape[-1]), t.dtype)
    options = [f"torch.cdist({x}, {y})", f"torch.cdist({x}, {y}, p=1)", f"torch.linalg.vecdot({x}, {x})", f"torch.linalg.matrix_norm({x})", f"torch.linalg.norm({x}, 'fro', (-2, -1))"]
    if t.shape[-1] == 3:
        options += [f"torch.linalg.cross({x}, {x}.flip(0))", f"torch.cross({x}, {x} + 1, dim=-1)"]
    g.emit(g.choice(options), "distance")
