"""Records graphs that depend on data (item(), assertions, branches, loops) from PyTorch for tests/cases/control.

    python3 scripts/record/control_cases.py

Needs torch and safetensors; tsc and its tests need neither. The files are those of dynamic_cases.py.
"""
import torch
import torch.nn.functional as F
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop
from torch.export import Dim

from dynamic_cases import runs, write


class Integer(torch.nn.Module):
    """An integer as a value of every kind, and as a start of a range."""

    def forward(self, x, i, small):
        n = i.item()
        return (x + n, small * n, (x > n).sum(), torch.full((3,), n), torch.arange(n, n + 4), torch.where(x > 0, x, n),
                x.clamp(min=n), (n // 3) * 2 - n % 5 + small.float())


class Real(torch.nn.Module):
    """A float as a value: it is no tensor in dtype promotion."""

    def forward(self, x, counts, s):
        f = s.item()
        return x * f, torch.full((2,), f) + f * 2 + 1, counts * f, x.half() + f, torch.where(x > f, x, f)


class Window(torch.nn.Module):
    """An integer as an index: rows, slices, and slices that are written."""

    def forward(self, x, y, i):
        n = i.item()
        torch._check(n >= 0)
        torch._check(n <= x.shape[0] - 2)
        z = x.clone()
        z[n:n + 2] = y
        return x[n], x.narrow(0, n, 2), x[n:n + 2].t() @ y, x[n:n + 2].sum(0), z, F.pad(x, (1, 0))[n + 1]


class Updated(torch.nn.Module):
    """Inputs that are written through views which begin where an integer says."""

    def forward(self, x, y, z, i, at):
        n = i.item()
        torch._check(n >= 0)
        torch._check(n < 5)
        x.select(0, n).index_fill_(0, at, 5.0)
        y.narrow(1, n, 1).squeeze(1).index_put_((at,), x[0, :2])
        v = z[n:n + 1]
        v.scatter_(1, at.unsqueeze(0), 2.5)
        return v * 2, x.sum(0)


class Checked(torch.nn.Module):
    """Assertions about data, one before memory is written and one after it."""

    def forward(self, x, seen):
        torch.ops.aten._assert_async.msg((seen < 100).all(), "seen too much before")
        seen.add_(x.sum(0))
        torch.ops.aten._assert_async.msg((seen < 100).all(), "seen too much")
        torch.ops.aten._assert_async.msg(x.isfinite().all(), "x is not finite")
        return (x * 2,)


class Branch(torch.nn.Module):
    """Four results, one of them nearly an operand; rows reduced in one branch only."""

    def forward(self, x, y):
        def yes(a, b):
            s = a + b
            return s, a.sin() * 2, a.clone(), s * 1

        def no(a, b):
            return a - b, b.cos(), b.flip(0), (a * b).softmax(1)

        p, q, r, s = torch.cond(x.sum() > 0, yes, no, (x, y))
        return p, q * 3, r, s, p.sum(0)


class Weighed(torch.nn.Module):
    """A condition on sizes, weights in the branches."""

    def __init__(self):
        super().__init__()
        self.large, self.small = torch.nn.Linear(3, 4), torch.nn.Linear(3, 4)

    def forward(self, x):
        return (torch.cond(x.shape[0] > 4, lambda a: self.large(a).relu(), lambda a: self.small(a) * 2, (x,)),)


class Nested(torch.nn.Module):
    def forward(self, x):
        def inner(a):
            return torch.cond(a.amax() > 2, lambda z: z * 3, lambda z: z - 1, (a,))

        return (torch.cond(x.sum() > 0, inner, lambda a: a.cos(), (x,)) + 1,)


class Counting(torch.nn.Module):
    def forward(self, i, x):
        i, x = while_loop(lambda i, x: i < 5, lambda i, x: (i + 1, x * 1.5 + i), (i, x))
        return i, x, x.sum()


class Newton(torch.nn.Module):
    """Square roots by Newton's iteration, until the largest step is small."""

    def forward(self, a):
        def condition(x, step):
            return step.abs().amax() > 1e-6

        def body(x, step):
            y = 0.5 * (x + a / x)
            return y, y - x

        x, step = while_loop(condition, body, (torch.ones_like(a), torch.ones_like(a)))
        return (x,)


class Swapped(torch.nn.Module):
    """Carried values that change places, a matrix product in the body, a branch in it."""

    def forward(self, n, a, b):
        def body(n, a, b):
            c = torch.cond(a.sum() > b.sum(), lambda u, v: (u @ v) * 0.1, lambda u, v: u - v, (a, b))
            return n - 1, b.clone(), c

        return while_loop(lambda n, a, b: n > 0, body, (n, a, b))


class Turned(torch.nn.Module):
    """Complex numbers that branches and loops take, carry and yield; a branch within a loop; one number alone."""

    def forward(self, n, z, turns):
        once = torch.cond(z.abs().sum() > 3, lambda z: z * z.conj(), lambda z: z.mT.mT + 1j, (z,))

        def body(n, size, z, turns):
            z, size = torch.cond(z.real.sum() > 0, lambda z, t: (z * t, z.abs().sum()), lambda z, t: (z.conj_physical() - t, z.angle().sum()), (z, turns))
            return n - 1, size, z.clone(), turns.conj().clone()

        n, size, z, turns = while_loop(lambda n, size, z, turns: (n > 0) & (z.abs().amax() < 50), body, (n, once.real.sum(), z, turns))
        sum = torch.cond(n > 0, lambda z: z.sum(), lambda z: z.mean() * 2j, (z,))
        return once, z, turns, size, sum


class Recurrence(torch.nn.Module):
    """A complex state over more steps than are computed in line."""

    def forward(self, size, angle, x):
        decay = torch.polar(size, angle)

        def step(state, x):
            state = state * decay + x
            return state, state.abs()

        return scan(step, torch.complex(x[0], x[1]), torch.complex(x, x.flip(0)), dim=0)


def cases():
    g = torch.Generator().manual_seed(13)
    r = lambda *s: torch.randn(s, generator=g)
    whole = torch.tensor
    integers = lambda a, n: (r(a, 3), whole(n), torch.tensor([-3, 7, 100], dtype=torch.int8))
    yield "integer", Integer(), integers(5, 2), None, runs(lambda n: integers(5, n), (0,), (-7,), (13,))
    reals = lambda s: (r(5, 3), torch.arange(4), whole(s))
    yield "real", Real(), reals(2.5), None, runs(reals, (0.1,), (-0.0,), (float("inf"),))
    window = lambda a, n: (r(a, 3), r(2, 3), whole(n))
    rows = Dim("rows", min=3, max=40)
    yield "window", Window(), window(7, 2), None, runs(lambda n: window(7, n), (0,), (5,), (3,))
    yield "checked", Checked(), (r(5, 3), r(3)), ({0: rows}, None), runs(lambda n: (r(n, 3), r(3)), (3,), (13,), (40,))
    pair = lambda a, s: (r(a, 4) + s, r(a, 4))
    yield "branch", Branch(), pair(4, 1), None, runs(lambda s: pair(4, s), (2,), (-2,), (1,))
    yield "weighed", Weighed(), (r(6, 3),), ({0: rows},), runs(lambda n: (r(n, 3),), (3,), (5,), (17,))
    yield "nested", Nested(), (r(5, 3),), ({0: rows},), runs(lambda n, s: (r(n, 3) + s,), (3, 3), (13, 0.5), (7, -3))
    yield "counting", Counting(), (whole(1), r(7)), None, runs(lambda n: (whole(n), r(7)), (0,), (4,), (5,))
    yield "newton", Newton(), (r(7).abs() + 0.1,), ({0: rows},), runs(lambda n: (r(n).abs() + 0.1,), (3,), (13,), (40,))
    yield "swapped", Swapped(), (whole(3), r(4, 4), r(4, 4)), None, runs(
        lambda n: (whole(n), r(4, 4), r(4, 4)), (0,), (3,), (6,))
    updated = lambda n: (r(5, 6), r(6, 5), r(5, 6), whole(n), whole([0, 3]))
    yield "updated", Updated(), updated(2), None, runs(updated, (0,), (4,), (1,))

    z = lambda *s: torch.complex(r(*s), r(*s))
    turned = lambda n, s: (whole(n), z(3, 2) * s, z(2))
    yield "turned", Turned(), turned(2, 1), None, runs(turned, (0, 0.1), (4, 1.0), (3, 5.0))
    steps = lambda s: (torch.rand(2, generator=g) * s, r(2), r(5, 2))
    yield "recurrence", Recurrence(), steps(1), None, runs(steps, (0.5,), (0,), (1,))
    many = lambda n: (torch.rand(1, generator=g) * 0.9, r(1), r(n, 1))
    yield "recurrence_dynamic", Recurrence(), many(9), (None, None, {0: rows}), runs(many, (3,), (11,), (40,))


if __name__ == "__main__":
    write("control", cases)
