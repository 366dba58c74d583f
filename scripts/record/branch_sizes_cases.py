"""Records graphs whose branches and loops decide sizes of their own, for tests/cases/branch_sizes.

    python3 scripts/record/branch_sizes_cases.py

Needs torch and safetensors; tsc and its tests need neither. The files are those of dynamic_cases.py.
"""
import torch
from torch._higher_order_ops.map import map as map_slices
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop

from data_sizes_cases import Of
from dynamic_cases import runs, write


def picked(x):
    """Both branches pick, and one subgraph is called twice."""
    def yes(x):
        m = x[x > 0]
        return m.sum(), (m.softmax(0) * m).amax(0, keepdim=True)

    def no(x):
        p = x.nonzero()
        return p.float().sum() + p.shape[0], x.sum().reshape(1)

    a, b = torch.cond(x.sum() > 0, yes, no, (x,))
    c, d = torch.cond(x[0].sum() > 0, yes, no, (x,))
    return a, b, c, d


def yielded(x):
    """What a branch yields has a size that it decides; the other branch knows another."""
    y = torch.cond(x.sum() > 0, lambda x: x[x[:, 0] > 0] * 2, lambda x: x[x[:, 1] > 0] - 1, (x,))
    return y, y.sum(0), (y @ x.t()).relu()


def yielded_or_known(x):
    """One branch knows the size."""
    y = torch.cond(x.sum() > 0, lambda x: x[x > 0].cos(), lambda x: x.sum(0), (x,))
    return y.sum(), y * 3


def sliced_in_branch(x, n):
    def yes(x, n):
        k = n.item()
        torch._check(k >= 0)
        torch._check(k <= x.shape[0])
        return x[:k].sum(0), torch.zeros(k, 2).add(1).sum()

    return torch.cond(x.sum() > -1000, yes, lambda x, n: (x.sum(0), n * 1.0), (x, n))


def equal_in_branch(x, y):
    """That two sizes of a branch are one has to hold only where it is taken."""
    def yes(x, y):
        a, b = x[x > 0], y[y > 0]
        torch._check(a.shape[0] == b.shape[0])
        return (a + b).sum() * a.shape[0]

    return torch.cond(x[0] > 0, yes, lambda x, y: x.sum() - y.sum(), (x, y))


def loop(i, x):
    """Every round has sizes of its own; nothing bounds one of them."""
    def body(i, x):
        m = x[x > i]
        r = torch.arange(12).repeat_interleave((x.abs() * 2).long())
        return i + 1, x * 1.25 - m.sum() / (m.shape[0] + 1) + r.sum() * 1e-3

    return while_loop(lambda i, x: i < 4, body, (i, x))


def loop_condition(i, x):
    """The condition counts, too."""
    return while_loop(lambda i, x: x[x > 0].sum() < 20, lambda i, x: (i + x.nonzero().shape[0], x * 2 - 0.25), (i, x))


def slices(x, h):
    ranked = map_slices(lambda row: torch.cond(row.sum() > 0, lambda r: r.sort().values, lambda r: r * 2, (row,)), x)

    def step(h, row):
        h = torch.cond(row[0] > h.sum(), lambda h, r: h + r, lambda h, r: h * 0.5 - r, (h, row))
        return h, h.cos()

    return ranked, *scan(step, h, x)


def cases():
    g = torch.Generator().manual_seed(31)
    r = lambda *s: torch.randn(s, generator=g)
    whole = torch.tensor
    signs = lambda *s: lambda sign: (r(*s) if sign == 0 else sign * (r(*s).abs() + 0.1),)
    some = lambda make: runs(make, (0,), (-1,), (1,))
    for name, function, sizes in (("picked", picked, (4, 5)), ("yielded", yielded, (7, 3)), ("yielded_or_known", yielded_or_known, (2, 5))):
        yield name, Of(function), signs(*sizes)(0), None, some(signs(*sizes))
    ends = lambda n, s=1: (r(5, 3) * s, whole(n))
    yield "sliced_in_branch", Of(sliced_in_branch), ends(2), None, runs(ends, (0,), (5,), (4,))
    pair = lambda *n: (whole(n[:5]) * 0.5, whole(n[5:]) * 0.25)
    yield "equal_in_branch", Of(equal_in_branch), pair(1, -2, 3, 4, -5, 1, 1, 1, -1, -1), None, runs(
        pair, (1, -2, 3, 4, -5, -1, 2, 1, 7, -1), (-1, 1, 1, 1, 1, -1, -1, -1, 2, 0), (1, -1, -2, -3, 0, 0, 0, 0, 0, 9))
    rounds = lambda n: (whole(n), r(12))
    yield "loop", Of(loop), rounds(0), None, runs(rounds, (0,), (3,), (9,))
    yield "loop_condition", Of(loop_condition), rounds(0), None, [(whole(0), r(12).abs()), (whole(5), r(12).abs() * 100), (whole(1), r(12) + 1)]
    steps = lambda s: (r(6, 4) * s, r(4))
    yield "slices", Of(slices), steps(1), None, runs(steps, (1,), (-3,), (0,))


if __name__ == "__main__":
    write("branch_sizes", cases)
