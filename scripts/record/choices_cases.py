"""Cases of histograms, combinations, distances of pairs, operators of numbers alone, and functions of slices (scan, map).
operator_cases.py calls add(family), which registers them with it."""
import math

import torch
import torch.nn.functional as F
from torch._higher_order_ops.associative_scan import associative_scan_op
from torch._higher_order_ops.map import map as map_slices
from torch._higher_order_ops.scan import scan
from torch.fx.experimental.proxy_tensor import make_fx

A = torch.ops.aten


def choices(c):
    x = c.randn(5, 4)
    edges = torch.tensor([-1.0, -0.5, 0.0, 0.25, 2.0])
    c.case("histogram", lambda x, w: (*torch.histogram(x, 4), *torch.histogram(x, 3, weight=w)), x, x.abs())
    c.case("histogram_range", lambda x: (*torch.histogram(x, 6, range=(-1.0, 1.0), density=True), *torch.histogram(x, 2, range=(0.5, 0.5))), x)
    c.case("histogram_edges", lambda x, e: (*torch.histogram(x, e), *torch.histogram(x, e, density=True)),
           torch.tensor([-1.0, -0.5, 2.0, 2.5, math.nan, math.inf, 0.25, -1.5]), edges)
    c.case("histogram_one_value", lambda x: torch.histogram(x, 4), torch.full((3,), 2.0))
    c.case("histogram_empty", lambda x: torch.histogram(x, 4), c.randn(0))
    c.case("histogramdd", lambda x: (lambda h: (h.hist, *h.bin_edges))(torch.histogramdd(x, [3, 2])), c.randn(9, 2))
    c.case("histogramdd_edges", lambda x, a, b, w: (lambda h: (h.hist, *h.bin_edges))(torch.histogramdd(x, [a, b], weight=w, density=True)),
           c.randn(3, 3, 2), edges, edges[:3], c.randn(3, 3).abs())
    c.case("combinations", lambda x: (torch.combinations(x, 0), torch.combinations(x, 1, True)), c.ints(5))  # more than one cannot be exported
    for p in (0.0, 0.5, 1.0, 2.0, 3.0, math.inf):
        c.case(f"pdist_{p}", lambda x, p=p: F.pdist(x, p), x)
        z = c.ints(5, 4).float() if p == math.inf else x  # an element is the distance, exactly
        c.case(f"pdist_{p}_backward", lambda g, x, d, p=p: A._pdist_backward(g, x, p, d), c.randn(10), z, torch.pdist(z, p))
    c.case("pdist_none", lambda x, y: (F.pdist(x), F.pdist(y)), c.randn(1, 3), c.randn(3, 0))
    i = torch.tensor([[0, 3], [3, 1]])
    for norm in (1.0, 2.0):
        c.case(f"embedding_renorm_{norm}", lambda w, i, n=norm: F.embedding(i, w, max_norm=1.0, norm_type=n), c.randn(5, 3), i)
    c.case("embedding_renorm_bf16", lambda w, i: F.embedding(i, w, max_norm=1.0), c.randn(5, 3).bfloat16(), i)
    c.case("numbers", lambda: (A.add.Tensor(4, 3.3), A.sub.Tensor(4, 3), A.mul.Tensor(2.5, 4), A.div.Tensor_mode(1024, 100, rounding_mode="floor"),
                               A.div.Tensor_mode(-7, 2, rounding_mode="trunc"), A.div.Tensor_mode(7, 2, rounding_mode=None)))
    c.case("poisson_ints", lambda x, t: (F.poisson_nll_loss(x, t), F.poisson_nll_loss(x, t, log_input=False, reduction="none")), c.ints(5, low=1), c.ints(5, low=1))
    c.case("cosine_embedding_ints", lambda x, y, t: F.cosine_embedding_loss(x, y, t), c.ints(3, 4), c.ints(3, 4), torch.tensor([1, -1, 1]))
    c.case("multi_margin_0d", lambda x, t: F.multi_margin_loss(x, t), torch.tensor(0.5), torch.tensor(0))
    c.case("multilabel_margin_0d", lambda x, t: F.multilabel_margin_loss(x, t), torch.tensor(0.5), torch.tensor(0))
    grid = c.randn(1, 3, 2, 2)
    for padding in ("zeros", "border", "reflection"):
        for corners in (False, True):
            c.case(f"bicubic_{padding}_{corners}", lambda x, g, p=padding, a=corners: F.grid_sample(x, g, "bicubic", p, a), c.randn(1, 2, 4, 3), grid)


def combined(function, *xs):
    """torch.associative_scan as a GPU's export writes it."""
    graph = make_fx(function)(*(x[0] for x in xs), *(x[0] for x in xs))
    return associative_scan_op(graph, list(xs), ())


def slice_loops(c):
    xs, y = c.randn(5, 3, 2), c.randn(2)
    c.case("map", lambda xs, y: map_slices(lambda x, y: (x + y).sin(), xs, y), xs, y)
    c.case("map_products", lambda xs, w: map_slices(lambda x, w: ((x[0] @ w).softmax(-1), x[1].sum(0), w * 2), (xs, xs * 2), w), xs, c.randn(2, 4))
    c.case("map_lookup", lambda i, t: map_slices(lambda i, t: t[i], i, t), c.ints(4, 3, low=0, high=5), c.randn(5, 2))
    c.case("map_sorted", lambda xs: map_slices(lambda x: x.sort(0).values, xs), xs)
    c.case("map_ranks", lambda xs, i: map_slices(lambda x, i: x + i * 2, xs, i), c.randn(4), c.ints(3))
    step = lambda h, x: (lambda n: [n, n.sum(-1)])(torch.tanh(h + x))
    c.case("scan", lambda h, xs: scan(step, h, xs), c.randn(3, 2), xs)
    c.case("scan_reverse_dim", lambda h, xs: scan(lambda h, x: [h * 0.5 + x, (h > 0).float()], h, xs, dim=1, reverse=True), c.randn(5, 2), xs)
    c.case("scan_two", lambda a, b, xs, zs: (lambda r: (*r[0], r[1]))(scan(lambda s, x: [[s[0] + x[0], s[1] * x[1]], s[0] - x[1]], [a, b], [xs, zs])), c.randn(2), c.randn(2), c.randn(4, 2), c.randn(4, 2))
    c.case("scan_one", lambda h, xs: scan(step, h, xs), c.randn(3, 2), xs[:1])
    c.case("associative_sum", lambda x: combined(lambda a, b: [a + b], x), c.randn(7, 3))
    c.case("associative_product", lambda x: combined(lambda a, b: [a * b], x), c.ints(6))
    c.case("associative_recurrence", lambda a, b: combined(lambda a, b, c, d: [a * c, b * c + d], a, b), c.randn(13, 2), c.randn(13, 2))
    c.case("associative_largest", lambda x: combined(lambda a, b: [torch.maximum(a, b)], x), c.randn(9))
    recurrence = lambda a, b, c, d: [a * c, b * c + d]
    c.case("associative_rows", lambda a, b: [y.movedim(0, 1) for y in combined(recurrence, a.movedim(1, 0), b.movedim(1, 0))], c.randn(3, 21), c.randn(3, 21))
    c.case("associative_reverse", lambda a, b: [y.flip(0) for y in combined(recurrence, a.flip(0), b.flip(0))], c.randn(19, 3), c.randn(19, 3))
    c.case("associative_halves", lambda a, b: combined(recurrence, a, b), c.randn(17, 4).sigmoid().bfloat16(), c.randn(17, 4).bfloat16())
    c.case("associative_ints", lambda a, b: combined(recurrence, a, b), c.ints(15, 2).to(torch.int8), c.ints(15, 2).to(torch.int8))
    c.case("associative_bools", lambda a: combined(lambda a, b: [a ^ b], a), c.ints(33) > 2)
    c.case("associative_logs", lambda a, b: combined(lambda a, b, c, d: [a + c, torch.logaddexp(b + c, d)], a, b), c.randn(14, 2), c.randn(14, 2))
    c.case("associative_place", lambda v, i: combined(lambda v, i, w, j: [torch.where(w > v, w, v), torch.where(w > v, j, i)], v, i), c.randn(23, 2), c.ints(23, 2))
    c.case("associative_number", lambda a: combined(lambda a, b: [torch.maximum(a * 0.5 + 0.25, b) * torch.ones_like(b)], a), c.randn(2, 3))
    c.case("associative_complex", lambda *xs: combined(lambda a, b, c, d, e, f, g, h: [a * e - b * f, a * f + b * e, c * e - d * f + g, c * f + d * e + h], *xs),
           *(c.randn(18, 2) for _ in range(4)))
    c.case("associative_used_once", lambda a, b: combined(recurrence, a.sigmoid(), b)[1].relu(), c.randn(13, 2), c.randn(13, 2))
    c.case("associative_one", lambda x: combined(lambda a, b: [torch.where(a > b, a, b)], x), c.randn(1, 4))


def add(family):
    for each in (choices, slice_loops):
        family(each)
