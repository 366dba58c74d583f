"""Views, joins, splits, rearrangements, creation."""
import math

import torch

import values
from builder import NotHere
from rules import rule


def slice_text(g, size):
    """One dimension's part of an index expression."""
    n = max(size, 1)
    a, b = g.integer(0, n), g.integer(0, n)
    return g.choice((":", ":", f"{min(a, b)}:{max(a, b)}", "1:", ":-1", "::2", "1::2", "-2:", f"{a}:", "::3", f":{max(b, 1)}"))


def view_expression(g, x):
    """A view of `x`, as text."""
    t = g.tensor(x)
    rank = t.dim()
    if rank == 0:
        return g.choice((f"{x}.view(1)", f"{x}.unsqueeze(0)", f"{x}[None]", f"{x}.reshape(1, 1)", f"{x}.expand(1)", f"{x}.view(())"))
    d, e = g.dim(x), g.dim(x)
    size = t.shape[d]
    options = [f"{x}.transpose({d}, {e})", f"{x}.unsqueeze({g.dim(x, 1)})", f"{x}[{', '.join(slice_text(g, s) for s in t.shape[:g.integer(1, rank)])}]",
               f"{x}[{', '.join(slice_text(g, s) for s in t.shape[:g.integer(1, rank)])}]",
               f"{x}[..., {slice_text(g, t.shape[-1])}]", f"{x}.permute({g.random.sample(range(rank), rank)})", f"{x}.swapaxes({d}, {e})",
               f"{x}.movedim({d}, {e})", f"{x}.squeeze()", f"{x}.squeeze({d})", f"{x}[None]", f"torch.moveaxis({x}, {d}, {e})", f"{x}.detach()", f"{x}.flatten()",
               f"{x}.ravel()", f"{x}.view_as({x})", f"torch.squeeze({x}, ({d},))", f"torch.atleast_2d({x})", f"torch.atleast_3d({x})"]
    if size:
        options += [f"{x}.select({d}, {g.integer(-size, size - 1)})", f"{x}[{g.integer(0, t.shape[0] - 1) if t.shape[0] else ':'}]",
                    f"{x}[..., {g.integer(-t.shape[-1], t.shape[-1] - 1) if t.shape[-1] else ':'}]"]
        start = g.integer(0, size)
        options += [f"{x}.narrow({d}, {start}, {g.integer(0, size - start)})"] * 2
        parts = g.integer(1, min(size, 4))
        options += [f"{x}.chunk({parts}, {d})[0]", f"{x}.split({parts}, {d})[-1]", f"torch.tensor_split({x}, {parts}, {d})[-1]", f"{x}.unbind({d})[{g.integer(0, size - 1)}]"]
    if rank == 2:
        options += [f"{x}.t()", f"{x}.T"]
    if rank >= 2:
        options += [f"{x}.mT", f"torch.adjoint({x})"]
        options += [f"{x}.diagonal({g.integer(-2, 2)})"]
        if d % rank != e % rank:
            options += [f"{x}.diagonal({g.integer(-1, 1)}, {d}, {e})", f"torch.flatten({x}, {min(d % rank, e % rank)}, {max(d % rank, e % rank)})"]
    if size > 1:
        for k in (2, 3, 4):
            if size % k == 0:
                options += [f"{x}.unflatten({d}, ({k}, {size // k}))", f"{x}.unflatten({d}, (-1, {k}))"]
    if t.numel() > 0 and t.is_contiguous():
        options += [f"{x}.view(-1)", f"{x}.view({reshaped(g, t.numel())})"]
        if g.chance(0.15):
            options += [f"torch.as_strided({x}, ({min(t.numel(), 3)},), (1,))", f"torch.as_strided({x}, ({max(t.numel() // 2, 1)},), (2,))"] * 3
    if size >= 3:
        window = g.integer(1, 3)
        options += [f"{x}.unfold({d}, {window}, {g.integer(window, window + 1)})"]
    if t.dim() and t.numel() and 1 in t.shape and g.chance(0.3):
        options += [f"{x}.expand({[g.integer(1, 4) if s == 1 else -1 for s in t.shape]})"] * 2
    return g.choice(options)


def reshaped(g, count):
    """Sizes of `count` elements."""
    sizes = []
    while count > 1 and len(sizes) < 4:
        factors = [k for k in (2, 3, 4, 5, 7, 8) if count % k == 0]
        if not factors or g.chance(0.25):
            break
        k = g.choice(factors)
        sizes.append(k)
        count //= k
    sizes.append(count)
    if g.chance(0.2):
        sizes.insert(g.integer(0, len(sizes)), 1)
    g.random.shuffle(sizes)
    if g.chance(0.3):
        sizes[g.integer(0, len(sizes) - 1)] = -1
    return sizes


@rule("view", 10)
def view(g):
    x = g.any(low=1) if g.chance(0.95) else g.any()
    g.emit(view_expression(g, x), "view")


@rule("reshape", 4)
def reshape(g):
    x = g.any(few=1)
    t = g.tensor(x)
    if g.dynamic and t.dim() >= 1:
        return g.emit(g.choice((f"{x}.reshape({x}.shape[0], -1)", f"{x}.flatten(0)", f"{x}.reshape(-1)", f"{x}.reshape(-1, {x}.shape[-1])",
                                f"{x}.view_as({x})", f"{x}.contiguous().view({x}.numel())")), "reshape")
    g.emit(g.choice((f"{x}.reshape({reshaped(g, t.numel())})",) * 3 + (f"torch.reshape({x}, (-1,))", f"{x}.contiguous()", f"{x}.clone()",
           f"{x}.reshape_as({g.same_shape(t.shape)})", f"{x}.clone(memory_format=torch.contiguous_format)")), "reshape")


@rule("expand", 2.5)
def expand(g):
    x = g.any()
    t = g.tensor(x)
    lead = [g.integer(1, 4) for _ in range(g.integer(0, 2))]
    sizes = lead + [g.choice((2, 3, 5)) if s == 1 and g.chance(0.8) else -1 for s in t.shape]
    times = [g.integer(1, 3) for _ in range(max(t.dim(), 1) + g.integer(0, 1))]
    g.emit(g.choice((f"{x}.expand({sizes})", f"{x}.expand({sizes})", f"{x}.repeat({times})", f"torch.tile({x}, {tuple(times[:1])})", f"torch.tile({x}, {tuple(times)})",
                     f"{x}.repeat_interleave(2)", f"torch.repeat_interleave({x}, {g.integer(1, 3)}, dim={g.dim(x)})", f"torch.broadcast_to({x}, {lead + list(t.shape)})",
                     f"{x}.expand_as({x})")), "expand")


@rule("rearrange", 3)
def rearrange(g):
    x = g.any(low=1)
    t = g.tensor(x)
    d = g.dim(x)
    options = [f"{x}.flip({g.dims(x)})", f"torch.flip({x}, [{d}])", f"torch.roll({x}, {g.integer(-3, 4)}, {d})", f"torch.roll({x}, {g.integer(-3, 4)})", f"{x}.flipud()"]
    if t.dim() >= 2:
        options += [f"torch.fliplr({x})", f"torch.rot90({x}, {g.integer(-1, 3)}, [0, 1])", f"torch.tril({x}, {g.integer(-2, 2)})", f"torch.triu({x}, {g.integer(-2, 2)})",
                    f"torch.tril({x})", f"torch.roll({x}, (1, -2), (0, -1))"]
    if t.dim() <= 2:
        options += [f"torch.diag({x}, {g.integer(-1, 1)})", f"torch.diagflat({x})" if t.numel() < 40 else f"{x}.flip(0)"]
    if t.shape[-1] < 30 and t.numel() < 300:
        options += [f"torch.diag_embed({x}, {g.integer(-1, 1)})"]
    if t.dim() == 2:
        options += [f"torch.trace({x})"]
    if t.dim() == 4 and t.shape[1] % 2 == 0 and t.shape[1]:
        options += [f"F.channel_shuffle({x}, 2)"]
    if t.dim() >= 3 and t.shape[-3] % 4 == 0 and t.shape[-3]:
        options += [f"F.pixel_shuffle({x}, 2)"]
    if t.dim() >= 3 and t.shape[-1] % 2 == 0 and t.shape[-2] % 2 == 0 and t.numel():
        options += [f"F.pixel_unshuffle({x}, 2)"]
    if t.shape[d] % 2 == 0 and t.dtype.is_floating_point:
        options += [f"F.glu({x}, {d})"]
    g.emit(g.choice(options), "rearrange")


@rule("join", 5)
def join(g):
    x = g.any(low=1)
    t = g.tensor(x)
    d = g.dim(x)
    others = []
    for _ in range(g.integer(1, 3)):
        shape = list(t.shape)
        kind = g.integer(0, 4)
        if kind == 0:
            others.append(x)
        elif kind == 1 and shape[d] > 1:
            others.append(f"{x}.narrow({d}, {g.integer(0, 1)}, {g.integer(0, shape[d] - 1)})")
        else:
            names = [n for n in g.names if g.tensor(n).dim() == t.dim() and all(i == d % t.dim() or a == b for i, (a, b) in enumerate(zip(g.tensor(n).shape, shape)))]
            others.append(g.choice(names) if names and g.chance(0.7) else g.new_input(values.name_of(t.dtype) if g.chance(0.8) else None, shape))
    parts = [x] + others
    g.random.shuffle(parts)
    text = "[" + ", ".join(parts) + "]"
    form = g.integer(0, 9)
    if form < 5:
        return g.emit(f"torch.{g.choice(('cat', 'cat', 'concat', 'concatenate'))}({text}, {d})", "join")
    same = [p for p in parts if p in g.space and g.tensor(p).shape == t.shape] or [x]
    text = "[" + ", ".join(same) + "]"
    if form < 8:
        return g.emit(f"torch.stack({text}, {g.dim(x, 1)})", "join")
    g.emit(f"torch.{g.choice(('hstack', 'vstack', 'dstack', 'column_stack', 'row_stack', 'block_diag' if t.dim() <= 2 else 'hstack'))}({text})", "join")


@rule("split", 3)
def split(g):
    x = g.any(low=1, few=1)
    t = g.tensor(x)
    d = g.dim(x)
    size = t.shape[d]
    n = min(g.integer(1, 4), size)
    kind = g.integer(0, 6)
    if kind == 0:
        cut = g.integer(0, size)
        return g.emit(f"{x}.split([{cut}, {size - cut}], {d})", "split", 2)
    if kind == 1 and size <= 5:
        return g.emit(f"torch.unbind({x}, {d})" + ("" if size > 1 else "[0]"), "split", size)
    # What unsafe_* yield is not a view for PyTorch's own passes, yet is in the same memory: nobody may write to it.
    texts = (f"{x}.chunk({n}, {d})", f"torch.tensor_split({x}, {n}, {d})", f"torch.split({x}, {n}, {d})", f"torch.unsafe_chunk({x}.clone(), {n}, {d})",
             f"torch.unsafe_split({x}.clone(), {n}, {d})", f"torch.tensor_split({x}, [1, {max(size - 1, 1)}], {d})")
    text = g.choice(texts)
    count = len(eval(text, g.space))
    if count > 5:
        return g.emit(text + f"[{g.integer(0, count - 1)}]", "split")
    g.emit(text + ("[0]" if count == 1 else ""), "split", count)


@rule("pad", 2.5)
def pad(g):
    x = g.any(low=1, few=1)
    t = g.tensor(x)
    k = g.integer(1, min(t.dim(), 3))
    amounts = [g.integer(-1 if g.chance(0.2) else 0, 3) for _ in range(2 * k)]
    if g.chance(0.7):
        return g.emit(f"F.pad({x}, {amounts}" + g.choice(("", f", value={g.scalar(x)}", ", value=-1.5", ", value=float('-inf')" if t.dtype.is_floating_point and g.special else "")) + ")", "pad")
    if t.dim() < k + 1:
        raise NotHere
    amounts = [max(a, 0) for a in amounts]
    g.emit(f"F.pad({x}, {amounts}, mode='{g.choice(('reflect', 'replicate', 'circular'))}')", "pad")


@rule("create", 2)
def create(g):
    n, m = g.integer(1, 8), g.integer(1, 6)
    x = g.any()
    dtype = g.choice(values.DTYPES)
    g.emit(g.choice((f"torch.arange({n})", f"torch.arange({n}, dtype=torch.{g.choice(values.FLOATS)})", f"torch.arange(-2, {n}, 2)", f"torch.linspace(-1, 2, {n})",
                     f"torch.zeros({n}, {m})", f"torch.ones({n}, {m}, dtype=torch.{dtype})", f"torch.full(({n},), 2.5)", f"torch.eye({n}, {m})",
                     f"torch.zeros_like({x})", f"torch.ones_like({x})", f"torch.full_like({x}, 3)", f"{x}.new_zeros({n}, {m})", f"{x}.new_ones(({n},))",
                     f"{x}.new_full(({n}, 1), 2)", f"torch.tensor([1.0, -2.0, 0.5])", f"torch.tensor([3, 1, 2])", f"torch.arange(0.0, 3.0, 0.5)",
                     f"torch.tril_indices({n}, {m})", f"torch.triu_indices({n}, {m}, 1)", f"torch.zeros_like({x}, dtype=torch.{dtype})", f"torch.scalar_tensor(2.5)",
                     f"torch.empty_like({x}).fill_(1)", f"torch.rand_like({x}.float()) < 2", f"torch.arange({n}, 0, -1)",
                     f"torch.full(({n},), {g.choice(('True', '7', '-0.0'))})")), "create")


@rule("create by size", 1.5)
def create_by_size(g):
    x = g.any(low=1)
    d = g.dim(x)
    s = g.text_of_size(x, d)
    g.emit(g.choice((f"torch.arange({s})", f"torch.zeros({s}, 3)", f"torch.ones({s})", f"torch.full(({s}, 2), 1.5)", f"torch.arange({s}) * 2 + 1", f"torch.eye({s})",
                     f"{x} * {s}", f"{x}.sum({d}) / {s}", f"{x} + {x}.numel()", f"torch.arange({s}, dtype=torch.float32) / {s}")), "create by size")


@rule("mesh", 0.6)
def mesh(g):
    x, y = g.any(1, 1), g.any(1, 1)
    if g.tensor(x).numel() * g.tensor(y).numel() > 1000:
        raise NotHere
    kind = g.integer(0, 3)
    if kind == 0:
        return g.emit(f"torch.meshgrid({x}, {y}, indexing='{g.choice(('ij', 'xy'))}')", "mesh", 2)
    if kind == 1:
        return g.emit(f"torch.broadcast_tensors({x}[:, None], {y})", "mesh", 2)
    g.emit(g.choice((f"torch.cartesian_prod({x}, {y})", f"torch.outer({x}, {y})", f"torch.ger({x}, {y})", f"torch.kron({x}, {y})")), "mesh")


@rule("split by name", 0.4)
def named_split(g):
    x = g.any(low=3, few=1)
    form, d = g.choice((("hsplit", 1), ("vsplit", 0), ("dsplit", 2)))
    size = g.tensor(x).shape[d]
    n = g.choice([k for k in (1, 2, 3, 4) if size % k == 0] or [1])
    g.emit(f"torch.{form}({x}, {n})" + ("[0]" if n == 1 else ""), "split by name", n)
