"""Records graphs whose sizes depend on data (nonzero, masks, unique, item() as a size) from PyTorch for tests/cases/data_sizes.

    python3 scripts/record/data_sizes_cases.py

Needs torch and safetensors; tsc and its tests need neither. The files are those of dynamic_cases.py; the three runs of a
case pick some elements, none, and all.
"""
import torch
import torch.nn.functional as F
from torch.export import Dim

from alignment_cases import paths_of_data
from dynamic_cases import runs, write


class Of(torch.nn.Module):
    """A function as a module."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *inputs):
        results = self.function(*inputs)
        return tuple(results) if isinstance(results, (tuple, list)) else (results,)


def places(x):
    m = x > 0
    return m.nonzero(), torch.argwhere(m), *m.nonzero(as_tuple=True), *torch.where(m), x.nonzero().t() * 2


def selected(x, y):
    m = x > 0
    picked = torch.masked_select(x, m)
    return picked, x[m] * 2 + 1, torch.masked_select(y, m), x[m].half().sum(), (y[m[0]] - x[m][:, None].sum()).flatten()


def rows(x, w):
    a = x[x[:, 0] > 0]
    h = a @ w
    return (a, h, h.softmax(1), a.sum(0), a.sum(1), a.t(), a.reshape(-1), a.view(-1, 1, 5), torch.cat([a, x]), a.amax(1), a.var(1),
            F.layer_norm(h, (3,)), a.flip(0), a.cumsum(0), a.unsqueeze(1).expand(-1, 2, -1) * 2, h.new_zeros(h.shape), F.pad(a, (1, 0, 2, 1)))


def inner(x):
    m = x[0].sum(1) > 0
    return x[:, m], x[:, m, 1:3], x[:, m].sum(1)


def two(x):
    a, b = x[x > 0], x[x < 0.3]
    joined = torch.cat([a, b])
    return joined, joined.sort(stable=True)[0], a[:, None] * b[None, :], joined.argsort(descending=True, stable=True), torch.zeros(a.shape[0] + b.shape[0]).add(1)


def same_twice(x, y):
    m = x > 0
    return x[m] + y[m], torch.stack([x[m], y[m]]), x[m] @ y[m]


def puts(x, y):
    m = x > 0
    a, b, c, d = x.clone(), x.clone(), y.clone(), x.clone()
    a[m] = a[m] * 2
    b[m] = 1.5
    c[m[:, 0]] = c[m[:, 0]] + 1
    d.index_put_((m,), x[m], accumulate=True)
    r = x[:, 0] > 0
    e = x.clone()
    e[r] = x[r] @ y[:5, :5]
    return a, b, c, d, e


def merged(x):
    """Rows that were picked go back where they were."""
    m = (x[:, :1] > 0).expand(4, 5)
    return torch.zeros_like(x).masked_scatter(m, x[x[:, 0] > 0] * 2), x.masked_scatter(x > 0, x[x > 0].exp())


def unique(x):
    values, inverse, counts = torch.unique(x, return_inverse=True, return_counts=True)
    return values, inverse, counts, torch.unique(x), values[inverse], counts.sum()


def unique_floats(x):
    values, inverse, counts = torch.unique(x, return_inverse=True, return_counts=True)
    runs_of = torch.unique_consecutive(x.flatten(), return_inverse=True, return_counts=True)
    return values, inverse, counts, *runs_of, torch.unique_consecutive(x)


def unique_rows(x):
    return (*torch.unique(x, dim=0, return_inverse=True, return_counts=True), torch.unique(x, dim=1),
            *torch.unique_consecutive(x, dim=0, return_inverse=True, return_counts=True))


def repeated(x, n):
    return (torch.repeat_interleave(n), torch.repeat_interleave(x, n, dim=0), torch.repeat_interleave(x, n[:3], dim=1),
            torch.repeat_interleave(x, n.to(torch.int32), dim=0).sum(0))


def repeated_known(x, n):
    return torch.repeat_interleave(x, n, dim=0, output_size=6), torch.repeat_interleave(n, output_size=6)


def counts(i, w):
    return (torch.bincount(i), torch.bincount(i, minlength=9), torch.bincount(i, weights=w), torch.bincount(i, weights=w.double(), minlength=3),
            torch.bincount(i) * 2 + 1)


def histograms(x):
    return torch.histc(x, 5, -1.0, 1.0), torch.histc(x, 7), torch.histc(x, 3, 0.0, 0.5)


def counted(x):
    n = (x[:, 0] > 0).sum().item()
    torch._check(n <= 4)
    return (torch.arange(n), torch.zeros(n, 3) + 1, x[:n] * 2, x.narrow(0, 0, n).sum(0), x.narrow(0, 4 - n, n), *torch.split(x, [n, 4 - n]),
            torch.full((n, 2), 7), x + n, torch.ones(4 - n))


def sliced(x):
    n = (x[:, 0] > 0).sum().item()
    return x[:n] + 1, x[n:] * 2, x[:n].sum()


def sliced_by(x, i):
    n = i.item()
    return x[:n] + 1, x[n:] * 2


def pieces(x, n):
    parts = torch.split(x, n.tolist())
    return *parts, parts[0].sum(0), parts[1] * 2


def numbers(x):
    """Integers that sizes and the data decide are results, too."""
    n, m = (x > 0).sum().item(), x.shape[0]
    torch._check(n >= 0)
    return n, m, 3 * m - n // 2, x * n, x[x > 0].shape[0]


def cut_at(x, places):
    y = x * 1
    a, b, c = torch.tensor_split(x, places, 1)
    torch.tensor_split(y, places, -1)[1].mul_(2)  # a view
    return (a * a).sum(), b + 1, c.t() * 2, c, y


def cut_at_constants(x):
    return (*torch.tensor_split(x, torch.tensor([1, -2])), *torch.tensor_split(x, torch.tensor(3)))


def known_later(x, y):
    n = (x > 0).sum().item()
    torch._check_is_size(n)
    return torch.arange(n).sum(), y.repeat(1) + n, torch.arange(n, dtype=torch.float32).cos()


class Pooled(torch.nn.Module):
    """Means of the tokens that count."""

    def __init__(self):
        super().__init__()
        self.embed, self.head = torch.nn.Embedding(11, 8), torch.nn.Linear(8, 3)

    def forward(self, ids):
        mask = ids > 0
        tokens = self.embed(ids[mask])
        which = torch.arange(ids.shape[0]).unsqueeze(1).expand_as(ids)[mask]
        sums = torch.zeros(ids.shape[0], 8).index_add(0, which, tokens)
        return self.head(sums / mask.sum(1, keepdim=True).clamp(min=1)), tokens.mean(0).nan_to_num(0.0)


class Experts(torch.nn.Module):
    """Each expert has a list of its tokens."""

    def __init__(self):
        super().__init__()
        self.gate = torch.nn.Linear(6, 3)
        self.experts = torch.nn.ModuleList(torch.nn.Sequential(torch.nn.Linear(6, 12), torch.nn.GELU(), torch.nn.Linear(12, 6)) for _ in range(3))

    def forward(self, x):
        weights, chosen = self.gate(x).softmax(-1).topk(2, -1)
        result = torch.zeros_like(x)
        for e, expert in enumerate(self.experts):
            token, slot = torch.where(chosen == e)
            result = result.index_add(0, token, expert(x[token]) * weights[token, slot, None])
        return (result,)


class Nucleus(torch.nn.Module):
    """The tokens that hold most of the probability, renormalized."""

    def forward(self, logits, p):
        sorted_, order = logits.softmax(-1).sort(descending=True)
        kept = (sorted_.cumsum(-1) - sorted_) < p
        candidates, probabilities = order[kept], sorted_[kept]
        return candidates, probabilities / probabilities.sum(), kept.sum()


class Vocabulary(torch.nn.Module):
    """Each distinct token is looked up and projected once."""

    def __init__(self):
        super().__init__()
        self.embed, self.project = torch.nn.Embedding(17, 6), torch.nn.Linear(6, 4)

    def forward(self, ids):
        tokens, inverse, counts = torch.unique(ids, return_inverse=True, return_counts=True)
        rows = self.project(self.embed(tokens)).relu()
        return rows[inverse], counts, (rows * counts[:, None]).sum(0)


class Detector(torch.nn.Module):
    """Boxes whose best score passes, with their classes, best first."""

    def __init__(self):
        super().__init__()
        self.scores, self.boxes = torch.nn.Conv2d(3, 4, 1), torch.nn.Conv2d(3, 4, 1)

    def forward(self, image, threshold):
        scores = self.scores(image).sigmoid().flatten(2)[0].t()
        boxes = self.boxes(image).flatten(2)[0].t()
        best, label = scores.max(1)
        kept = (best > threshold).nonzero().squeeze(1)
        order = best[kept].argsort(descending=True, stable=True)
        kept = kept[order]
        b = boxes[kept]
        return torch.cat([b[:, :2] - b[:, 2:].exp() / 2, b[:, :2] + b[:, 2:].exp() / 2], 1), best[kept], label[kept]


def cases():
    g = torch.Generator().manual_seed(17)
    r = lambda *s: torch.randn(s, generator=g)
    whole = torch.tensor
    signs = lambda *s: lambda sign: (r(*s) if sign == 0 else sign * (r(*s).abs() + 0.1),)
    three = ((0,), (-1,), (1,))
    some = lambda make: runs(make, *three)
    yield "places", Of(places), signs(4, 5)(0), None, some(signs(4, 5))
    n, m = Dim("n", min=2, max=50), Dim("m", min=2, max=50)
    sized = lambda n, m, sign: signs(n, m)(sign)
    yield "places_dynamic", Of(places), signs(4, 5)(0), (({0: n, 1: m},),), runs(sized, (3, 7, 0), (2, 2, -1), (13, 3, 1))
    pair = lambda sign: (*signs(4, 5)(sign), r(5, 4, 5))
    yield "selected", Of(selected), pair(0), None, some(pair)
    product = lambda sign: (*signs(7, 5)(sign), r(5, 3))
    yield "rows", Of(rows), product(0), None, some(product)
    product_of = lambda n, sign: (*signs(n, 5)(sign), r(5, 3))
    yield "rows_dynamic", Of(rows), product(0), (({0: n}, None),), runs(product_of, (3, 0), (11, -1), (50, 1))
    yield "inner", Of(inner), signs(2, 5, 4)(0), None, some(signs(2, 5, 4))
    yield "two", Of(two), signs(4, 5)(0), None, some(signs(4, 5))
    both = lambda sign: (*signs(4, 5)(sign), r(4, 5))
    yield "same_twice", Of(same_twice), both(0), None, some(both)
    square = lambda sign: (*signs(6, 5)(sign), r(6, 5))
    yield "puts", Of(puts), square(0), None, some(square)
    yield "merged", Of(merged), signs(4, 5)(0), None, some(signs(4, 5))
    digits = lambda high: (torch.randint(0, high, (5, 4), generator=g),)
    yield "unique", Of(unique), digits(6), None, runs(digits, (6,), (1,), (1000,))
    floats = lambda step: ((r(3, 5) / step).round() * step if step else torch.tensor([[float("nan"), 0.0, -0.0], [float("nan"), 1, 1]]).repeat(1, 2)[:, :5].repeat(2, 1)[:3],)
    yield "unique_floats", Of(unique_floats), floats(0.7), None, runs(floats, (0.7,), (100.0,), (0,))
    slices = lambda high: (torch.randint(0, high, (6, 3), generator=g),)
    yield "unique_rows", Of(unique_rows), slices(2), None, runs(slices, (2,), (1,), (100,))
    repeats = lambda *n: (r(4, 3), whole(n))
    yield "repeated", Of(repeated), repeats(1, 2, 0, 3), None, runs(repeats, (1, 2, 0, 3), (0, 0, 0, 0), (5, 1, 7, 2))
    yield "repeated_known", Of(repeated_known), repeats(1, 2, 0, 3), None, runs(repeats, (1, 2, 0, 3), (6, 0, 0, 0), (0, 0, 1, 5))
    binned = lambda high, n: (torch.randint(0, high, (12,), generator=g), r(12))
    yield "counts", Of(counts), binned(5, 12), None, runs(binned, (5, 12), (1, 12), (40, 12))
    yield "histograms", Of(histograms), (r(4, 5),), None, [(r(4, 5),), (torch.full((4, 5), 0.25),), (r(4, 5) * 10,)]
    yield "counted", Of(counted), signs(4, 5)(0), None, some(signs(4, 5))
    yield "sliced", Of(sliced), signs(4, 5)(0), None, some(signs(4, 5))
    ends = lambda n: (r(5, 3), whole(n))
    yield "sliced_by", Of(sliced_by), ends(2), None, runs(ends, (2,), (0,), (9,))
    parts = lambda *n: (r(9, 3), whole(n))
    yield "pieces", Of(pieces), parts(2, 3, 4), None, runs(parts, (2, 3, 4), (0, 9, 0), (9, 0, 0))
    unbounded = lambda sign: (*signs(3, 5)(sign), r(4))
    yield "known_later", Of(known_later), unbounded(0), None, some(unbounded)

    yield "numbers", Of(numbers), (r(7),), (({0: n},),), [(r(4),), (-r(9).abs(),), (r(23).abs(),)]

    ids = lambda low, high: (torch.randint(low, high, (3, 7), generator=g),)
    yield "pooled", Pooled(), ids(0, 11), None, [(torch.randint(0, 11, (3, 7), generator=g) * (torch.rand(3, 7, generator=g) > 0.4),), (torch.zeros(3, 7, dtype=torch.int64),), ids(1, 11)]
    yield "experts", Experts(), (r(9, 6),), None, [(r(9, 6),), (r(9, 6) * 0.01 + 3,), (-r(9, 6).abs() * 5,)]
    yield "nucleus", Nucleus(), (r(23) * 2, whole(0.8)), None, [(r(23) * 2, whole(0.8)), (r(23), whole(0.0)), (r(23), whole(2.0))]
    yield "vocabulary", Vocabulary(), ids(0, 17), None, [ids(0, 17), ids(4, 5), ids(0, 3)]
    images = lambda threshold: (r(1, 3, 4, 5), whole(threshold))
    yield "detector", Detector(), images(0.6), None, runs(images, (0.6,), (1.0,), (0.0,))
    scores = r(5, 3, 4).log_softmax(-1)
    padded = lambda *n: (scores, whole([[1, 2, 2], [3, 1, 0], [2, 2, 2]]), whole([5, 4, 5]), whole(n))
    yield "alignments", Of(paths_of_data), padded(3, 2, 1), None, runs(padded, (2, 0, 1), (0, 0, 0), (3, 2, 2))
    flat = lambda *n: (scores, whole([1, 2, 2, 3]), whole([5, 0, 5]), whole(n))
    yield "alignments_flat", Of(paths_of_data), flat(3, 0, 1), None, runs(flat, (2, 1, 1), (4, 0, 0), (1, 0, 3))

    cuts = lambda *n: (r(3, 7), whole(n))
    yield "cut_at", Of(cut_at), cuts(2, 5), None, runs(cuts, (2, 5), (-3, -1), (6, 2))
    yield "cut_outside", Of(cut_at), cuts(2, 5), None, runs(cuts, (9, -9), (0, 7), (-8, 3))
    yield "cut_at_constants", Of(cut_at_constants), (r(7, 3),), None, runs(lambda: (r(7, 3),), (), (), ())


if __name__ == "__main__":
    write("data_sizes", cases)
