"""Cases of joined tensors whose parts are computed: reductions, products, scans, scatters. operator_cases.py calls add(family),
which registers them with it."""
import torch
import torch.nn.functional as F


def concatenation(c):
    r = c.randn
    c.case("reductions", lambda a, b: torch.cat([a.sum(-1), b.amax(-1)], -1), r(6, 3, 9), r(6, 5, 11))
    c.case("products", lambda x, a, b: torch.cat([x @ a, x @ b], -1), r(6, 16), r(16, 8), r(16, 24))
    c.case("products_unaligned", lambda x, a, b: torch.cat([x @ a, x @ b], 1), r(6, 16), r(16, 3), r(16, 7))
    c.case("products_f16", lambda x, a, b: torch.cat([x @ a, x @ b], 1).float().exp(), r(5, 16, dtype=torch.float16, scale=0.3), r(16, 8, dtype=torch.float16, scale=0.3), r(16, 16, dtype=torch.float16, scale=0.3))
    c.case("linear", lambda x, a, b, w: F.linear(torch.cat([F.linear(x, a), F.linear(x, b)], -1), w), r(2, 5, 16), r(8, 16), r(24, 16), r(4, 32))
    c.case("scan_and_reduction", lambda x: torch.cat([x.cumsum(-1), x.sum(-1, keepdim=True)], -1), r(7, 13))
    c.case("scatter", lambda x, i, s: torch.cat([x.scatter_add(1, i, s), x.sum(-1, keepdim=True)], 1), r(4, 9), c.ints(4, 6, low=0, high=9), r(4, 6))
    c.case("promoted", lambda x, y: torch.cat([x.amax(-1), y.sum(-1), (x > 0).any(-1)], 0), r(4, 19, dtype=torch.float16), r(3, 19))
    c.case("empty_part", lambda x, y: torch.cat([x.sum(1), y.sum(1), x.amax(1)], 0), r(4, 9, 5), r(0, 9, 5))
    c.case("stacked", lambda x: torch.stack([x.sum(1), x.amax(1), x.mean(1)], 1), r(4, 11, 8))
    c.case("ten", lambda x: torch.cat([x[:, i].cumsum(-1) for i in range(10)], -1), r(2, 10, 5))
    c.case("part_used", lambda x: (lambda s: (torch.cat([s, x.amax(-1)], 0), (s * 2).exp(), s[1:].sum(0)))(x.sum(-1)), r(4, 5, 18))
    c.case("part_in_two", lambda x: (lambda s, m: (torch.cat([s, m], 0), torch.cat([m, s], 0)))(x.sum(-1), x.amax(-1)), r(4, 18))
    c.case("nested", lambda x, y: torch.cat([torch.cat([x.sum(-1), y.sum(-1)], 0), x.amax(-1)], 0), r(4, 18), r(3, 18))
    c.case("written", lambda x, y: torch.cat([x.sum(-1), y.sum(-1)], 0).index_fill(0, torch.tensor([1]), 7.0), r(4, 18), r(3, 18))
    c.case("channels_last", lambda x, y: torch.cat([x.cumsum(2), y.cumsum(2)], 1), r(2, 3, 5, 4).to(memory_format=torch.channels_last), r(2, 4, 5, 4).to(memory_format=torch.channels_last))


def add(family):
    family(concatenation)
