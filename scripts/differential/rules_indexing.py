"""Gathers, scatters, masks, and writes in place through views."""
import torch

import values
from builder import NotHere, has_own_elements
from rules import rule
from rules_views import slice_text, view_expression


@rule("gather", 4)
def gather(g):
    x = g.any(low=1, few=1)
    t = g.tensor(x)
    d = g.dim(x)
    size = t.shape[d]
    kind = g.integer(0, 9)
    dtype = "int64" if g.chance(0.8) else "int32"
    if kind < 2:
        return g.emit(f"torch.index_select({x}, {d}, {g.index((g.integer(1, 6),), size, dtype)})", "gather")
    if kind < 4:
        shape = [g.integer(1, s) if i != d % t.dim() else g.integer(1, 5) for i, s in enumerate(t.shape)]
        return g.emit(f"torch.gather({x}, {d}, {g.index(shape, size)})", "gather")
    if kind < 6:
        index = g.index(g.choice(((3,), (2, 2), (1,), (4, 1))), t.shape[0])
        return g.emit(g.choice((f"{x}[{index}]", f"{x}[{index}, ...]", f"{x}[-{index} - 1]" if g.tensor(index).dim() else f"{x}[{index}]")), "gather")
    if kind < 7 and t.dim() >= 2 and t.shape[1]:
        i, j = g.index((3,), t.shape[0]), g.index(g.choice(((3,), (2, 1))), t.shape[1])
        return g.emit(g.choice((f"{x}[{i}, {j}]", f"{x}[:, {j}]", f"{x}[{i}][:, {j}]", f"{x}[{i}, 0]", f"{x}[..., None][{i}, {j}]")), "gather")
    if kind < 8:
        index = g.index((g.integer(1, 5),), t.numel())
        return g.emit(g.choice((f"torch.take({x}, {index})", f"torch.take_along_dim({x}, {x}.argsort({d}, stable=True), {d})")), "gather")
    if t.dim() == 2 and t.dtype.is_floating_point:
        index = g.index(g.choice(((4,), (2, 3))), t.shape[0], dtype)
        if g.chance(0.3):
            mode = g.choice(("sum", "mean", "max"))
            return g.emit(f"F.embedding_bag({g.index((2, 3), t.shape[0])}, {x}, mode='{mode}')", "gather")
        return g.emit(f"F.embedding({index}, {x})", "gather")
    g.emit(f"F.one_hot({g.index((g.integer(1, 6),), 5)}, {g.integer(5, 7)})", "gather")


@rule("scatter", 3)
def scatter(g):
    x = g.any(low=1, few=1)
    t = g.tensor(x)
    d = g.dim(x)
    rank, size = t.dim(), t.shape[d]
    # Several writers of one element: only sums and products of them are defined.
    unique = f"{g.same_shape(t.shape, torch.float32)}.argsort({d}, stable=True)"
    shape = [g.integer(1, s) if i != d % rank else g.integer(1, 5) for i, s in enumerate(t.shape)]
    kind = g.integer(0, 9)
    if kind == 0:
        return g.emit(f"torch.scatter({x}, {d}, {unique}, {g.same_shape(t.shape, t.dtype)})", "scatter")
    if kind == 1:
        return g.emit(f"torch.scatter({x}, {d}, {g.index(shape, size)}, {g.scalar(x)})", "scatter")
    if kind == 2:
        return g.emit(f"torch.scatter_add({x}, {d}, {g.index(shape, size)}, {g.same_shape(shape, t.dtype)})", "scatter")
    if kind == 3:
        return g.emit(f"torch.scatter_reduce({x}, {d}, {g.index(shape, size)}, {g.same_shape(shape, t.dtype)}, '{g.choice(('sum', 'prod', 'mean', 'amax', 'amin'))}', include_self={g.chance(0.6)})", "scatter")
    n = g.integer(1, 5)
    part = list(t.shape)
    part[d] = n
    if kind == 4:
        return g.emit(f"torch.index_add({x}, {d}, {g.index((n,), size)}, {g.same_shape(part, t.dtype)}" + g.choice(("", ", alpha=2")) + ")", "scatter")
    if kind == 5:
        return g.emit(f"torch.index_fill({x}, {d}, {g.index((n,), size)}, {g.scalar(x)})", "scatter")
    if kind == 6:
        part[d] = size
        return g.emit(f"torch.index_copy({x}, {d}, {g.same_shape((size,), torch.float32)}.argsort(stable=True), {g.same_shape(part, t.dtype)})", "scatter")
    if kind == 7:
        return g.emit(f"torch.index_reduce({x}, {d}, {g.index((n,), size)}, {g.same_shape(part, t.dtype)}, '{g.choice(('prod', 'mean', 'amax', 'amin'))}', include_self={g.chance(0.6)})", "scatter")
    index = g.index((n,), t.shape[0])
    if kind == 8:
        return g.emit(f"torch.index_put({x}, ({index},), {g.same_shape((n,) + tuple(t.shape[1:]), t.dtype)}, accumulate=True)", "scatter")
    g.emit(g.choice((f"torch.select_scatter({x}, {g.same_shape(tuple(s for i, s in enumerate(t.shape) if i != d % rank), t.dtype)}, {d}, 0)",
                     f"torch.slice_scatter({x}, {x}.narrow({d}, 0, {size - 1}) * 2, {d}, 1)",
                     f"torch.put({x}, {g.index((2,), t.numel())}, {g.same_shape((2,), t.dtype)}, accumulate=True)",
                     f"{x}.masked_scatter({g.same_shape(t.shape, torch.bool)}, {g.same_shape(t.shape, t.dtype)})",
                     f"torch.diagonal_scatter({x}, {x}.diagonal() * 2)" if rank >= 2 else f"{x}.clone()")), "scatter")


@rule("data dependent", 0.5)
def data_dependent(g):
    """Results whose size the data decides, brought back to sizes that are known."""
    x = g.any(low=1, few=1)
    g.emit(g.choice((f"torch.masked_select({x}, {x} > 0).sum()", f"torch.nonzero({x}).sum(0)", f"{x}[{x} > 0].sum()", f"torch.unique({x}).sum()",
                     f"torch.argwhere({x} > 0).sum()", f"torch.masked_select({x}, {x} != 0)", f"torch.nonzero({x} > 0)")), "data dependent")


WRITES = ("{v}.add_({s})", "{v}.mul_({s})", "{v}.sub_({s})", "{v}.zero_()", "{v}.fill_({s})", "{v}.neg_()", "{v}.abs_()", "{v}.clamp_(-1, 1)", "{v}.add_({y})", "{v}.mul_({y})",
          "{v}.sub_({y}, alpha=2)", "{v}.copy_({y})", "{v}.copy_({y})", "{v} += {y}", "{v} *= {s}", "{v} -= {y}", "{v}.masked_fill_({v} > 0, {s})", "{v}[{v} > 0.5] = {s}",
          "{v}.relu_()", "{v}.tanh_()", "{v}.sigmoid_()", "{v}.sin_()", "{v}.exp_()", "{v}.square_()", "{v}.div_(2)", "{v}.copy_({y} > 0)", "{v}.lerp_({y}, 0.5)",
          "{v}.addcmul_({y}, {y}, value=0.5)", "{v}.maximum_({y})", "{v}.floor_()", "{v}.round_()", "{v}.logical_not_()", "{v}.pow_(2)", "{v}.remainder_(3)", "{v}.clamp_min_(0)",
          "{v}.gt_(0)", "{v}.bitwise_xor_(3)", "{v} ^= 1", "{v} //= 2", "{v}.fill_({y}.sum())", "{v}.cumsum_(-1)", "{v}.tril_()", "{v}.erf_()", "{v}.cos_()", "{v}.silu_()",
          "F.relu({v}, inplace=True)", "F.silu({v}, inplace=True)", "F.leaky_relu_({v}, 0.1)", "F.hardtanh_({v})", "{v}.nan_to_num_()", "{v}.sign_()", "{v}.trunc_()",
          "{v}.atan2_({y})", "{v}.fmod_(1.5)", "{v}.reciprocal_()", "{v}.log1p_()", "{v}.logit_(0.2)", "{v}.eq_({y})", "{v}.where_({y})", "{v}.addcdiv_({y}, {y}.abs() + 1)",
          "{v}.hypot_({y})", "{v}.xlogy_(2)", "{v}.cumprod_(0)", "{v}.sgn_()", "{v}.frac_()", "{v}.rsqrt_()", "{v}.deg2rad_()", "{v}.ldexp_({y})", "{v}.heaviside_({y})",
          "{v}.nextafter_({y})", "{v}.copysign_({y})", "{v}.lgamma_()", "{v}.sinc_()", "{v}.softmax(-1)")
REGIONS = ("{v}[{i}] = {s}", "{v}[{i}] = {y}", "{v}[{i}] += {s}", "{v}[{i}] *= {s}", "{v}[{i}].add_({s})", "{v}[{i}].fill_({s})")


def target(g):
    """The name of a tensor that may be written, and its family."""
    def good(t):
        return t.numel() > 0 and has_own_elements(t)
    for _ in range(4):
        name = g.pick(good) if g.chance(0.85) else g.new_input(shape=g.new_shape(), kind=g.choice(("buffer", "input")))
        if g.writable(name):
            return name
    raise NotHere


def source(g, v, shape):
    """What can be written over `shape`: not the memory itself, unless it is read whole before."""
    t = g.tensor(v)
    shape = tuple(shape)
    names = [n for n in g.names if tuple(g.tensor(n).shape) == shape or broadcast_into(g.tensor(n).shape, shape)]
    if names and g.chance(0.75):
        y = g.choice(names)
    else:
        y = g.new_input(None if g.chance(0.2) else values.name_of(t.dtype), shape[g.integer(0, len(shape)):])
    return f"{y}.clone()" if g.shares(y, v) else y


def broadcast_into(a, b):
    return len(a) <= len(b) and all(x == y or x == 1 for x, y in zip(reversed(a), reversed(b)))


def run_write(g, text, family, v):
    before = g.tensor(v).clone()
    t = g.tensor(v)
    try:
        g.emit(text, family, 0)
    except NotHere:
        t.copy_(before)
        raise
    if not g.is_of_use(t):
        g.program.statements.pop()
        t.copy_(before)
        raise NotHere


@rule("view to write", 4)
def view_to_write(g):
    """A view that stays: written to later, or read after its base was written."""
    x = target(g)
    g.emit(view_expression(g, x), "view to write")


@rule("write", 9)
def write(g):
    v = target(g)
    t = g.tensor(v)
    text = g.choice(WRITES).format(v=v, s=g.scalar(v), y=source(g, v, t.shape))
    run_write(g, text, "write", v)


@rule("write a region", 9)
def write_region(g):
    v = target(g)
    t = g.tensor(v)
    if t.dim() == 0:
        raise NotHere
    index = ", ".join(slice_text(g, s) if g.chance(0.7) else str(g.integer(0, s - 1)) for s in t.shape[:g.integer(1, t.dim())])
    if g.chance(0.2):
        index = "..., " + slice_text(g, t.shape[-1])
    region = eval(f"{v}[{index}]", g.space)
    run_write(g, g.choice(REGIONS).format(v=v, i=index, s=g.scalar(v), y=source(g, v, region.shape)), "write a region", v)


@rule("write through a view", 7)
def write_through(g):
    v = target(g)
    text = view_expression(g, v)
    if ".flatten" in text or ".ravel" in text or ".reshape" in text:
        raise NotHere
    view = eval(text, g.space)
    if view.untyped_storage().data_ptr() != g.tensor(v).untyped_storage().data_ptr() or not has_own_elements(view):
        raise NotHere
    form = g.choice((".add_({s})", ".mul_({s})", ".copy_({y})", ".fill_({s})", ".zero_()", ".sub_({y})", ".neg_()", "[...] = {y}", ".tanh_()", ".clamp_(-1, 1)"))
    run_write(g, text + form.format(s=g.scalar(v), y=source(g, v, view.shape)), "write through a view", v)


@rule("write by index", 6)
def write_by_index(g):
    v = target(g)
    t = g.tensor(v)
    if t.dim() == 0:
        raise NotHere
    d = g.dim(v)
    size, n = t.shape[d], g.integer(1, 4)
    part = list(t.shape)
    part[d] = n
    kind = g.integer(0, 9)
    if kind == 0:
        mask = g.same_shape(t.shape[:g.integer(1, t.dim())], torch.bool)
        return run_write(g, f"{v}[{mask}] = {g.scalar(v)}", "write by index", v)
    if kind == 1:
        return run_write(g, f"{v}.index_add_({d}, {g.index((n,), size)}, {source(g, v, part)})", "write by index", v)
    if kind == 2:
        return run_write(g, f"{v}.index_fill_({d}, {g.index((n,), size)}, {g.scalar(v)})", "write by index", v)
    if kind == 3:
        return run_write(g, f"{v}[{g.index((n,), t.shape[0])}] = {g.scalar(v)}", "write by index", v)
    if kind == 4:
        shape = [g.integer(1, s) if i != d % t.dim() else n for i, s in enumerate(t.shape)]
        other = g.same_shape(shape, t.dtype)
        other = f"{other}.clone()" if g.shares(other, v) else other
        return run_write(g, f"{v}.scatter_add_({d}, {g.index(shape, size)}, {other})", "write by index", v)
    if kind == 5:
        shape = [g.integer(1, s) if i != d % t.dim() else n for i, s in enumerate(t.shape)]
        return run_write(g, f"{v}.scatter_({d}, {g.index(shape, size)}, {g.scalar(v)})", "write by index", v)
    if kind == 6:
        index = g.index((n,), t.shape[0])
        return run_write(g, f"{v}.index_put_(({index},), {source(g, v, (n,) + tuple(t.shape[1:]))}, accumulate=True)", "write by index", v)
    if kind == 7:
        return run_write(g, f"{v}.masked_scatter_({g.same_shape(t.shape, torch.bool)}, {g.new_input(values.name_of(t.dtype), t.shape)})", "write by index", v)
    if kind == 8 and t.dim() >= 2:
        return run_write(g, f"{v}.fill_diagonal_({g.scalar(v)})", "write by index", v)
    perm = f"torch.argsort({g.same_shape((size,), torch.float32)}, stable=True)"
    part[d] = size
    other = g.same_shape(part, t.dtype)
    other = f"{other}.clone()" if g.shares(other, v) else other
    run_write(g, f"{v}.index_copy_({d}, {perm}, {other})", "write by index", v)
