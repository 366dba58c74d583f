"""Cases of one element of each row by its place (long enough rows to be selected), bags of indices, and sums and maxima into few places.
operator_cases.py calls add(family), which registers them with it."""
import math

import torch
import torch.nn.functional as F


def selections(c):
    def tied(*shape, dtype=torch.float32):
        """Many equal elements: which of them is meant is a question of order, so only values are asked for."""
        return c.ints(*shape, low=-40, high=40).to(dtype)
    for dtype in (torch.float32, torch.float16, torch.bfloat16, torch.float64):
        c.case(f"median_{str(dtype)[6:]}", lambda x: (torch.median(x, 1)[0], torch.nanmedian(x, 1)[0], torch.median(x)), c.randn(3, 301).to(dtype))
    x = c.randn(4, 700)
    x[1, 5] = x[1, 600] = math.nan
    x[2] = math.nan
    x[3, ::2] = -0.0
    x[3, 1::4] = math.inf
    c.case("median_special", lambda x: (*torch.median(x, 1), torch.nanmedian(x, 1)[0], torch.nanmedian(x)), x)
    c.case("median_columns", lambda x: (torch.median(x, 0, keepdim=True)[0], torch.nanmedian(x, 1)[0]), c.randn(130, 77, 2))
    for dtype in (torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64):
        c.case(f"kth_{str(dtype)[6:]}", lambda x: (torch.kthvalue(x, 1)[0], torch.kthvalue(x, 100)[0], torch.kthvalue(x, 333)[0], torch.median(x, -1)[0]),
               c.ints(3, 333, low=0 if dtype == torch.uint8 else -100, high=100).to(dtype))
    c.case("kth_wide", lambda x: torch.kthvalue(x, 512), torch.arange(1024).mul(7919).remainder(1024).sub(500).mul(1 << 50).reshape(1, 1024))
    c.case("kth_tied", lambda x: (torch.kthvalue(x, 2000)[0], torch.kthvalue(x, 2500, keepdim=True)[0]), tied(2, 4500))
    c.case("kth_half_tied", lambda x: (torch.kthvalue(x, 3000)[0], torch.median(x, 1)[0]), tied(2, 9000, dtype=torch.float16))
    c.case("kth_long", lambda x: torch.kthvalue(x, 9000)[0], c.randn(3, 17001).to(torch.bfloat16))
    c.case("kth_expanded", lambda x: torch.kthvalue(x.t().expand(2, 90, 5), 40, 1)[0], c.randn(5, 90))


def bags(c):
    w, i = c.randn(9, 6), c.ints(5, 4, low=0, high=9)
    w[3, 2] = math.nan
    w[4] = -math.inf
    for mode in ("sum", "mean", "max"):
        c.case(f"matrix_{mode}", lambda w, i, m=mode: F.embedding_bag(i, w, mode=m), c.randn(9, 6), i)
        c.case(f"matrix_padded_{mode}", lambda w, i, m=mode: F.embedding_bag(i, w, mode=m, padding_idx=1), c.randn(9, 6), torch.tensor([[1, 1], [1, 2], [4, 1], [3, 8]]))
        c.case(f"matrix_bf16_{mode}", lambda w, i, m=mode: F.embedding_bag(i, w, mode=m), c.randn(9, 6).bfloat16(), i)
        c.case(f"offsets_{mode}", lambda w, i, o, m=mode: F.embedding_bag(i, w, o, mode=m), c.randn(9, 6), c.ints(12, low=0, high=9), torch.tensor([0, 3, 3, 4, 11]))
        c.case(f"offsets_padded_{mode}", lambda w, i, o, m=mode: F.embedding_bag(i, w, o, mode=m, padding_idx=2),
               c.randn(9, 6), torch.tensor([2, 2, 5, 1, 2, 7]), torch.tensor([0, 2, 2, 5]))
    c.case("matrix_weights", lambda w, i, s: F.embedding_bag(i, w, mode="sum", per_sample_weights=s), c.randn(9, 6), i, c.randn(5, 4))
    c.case("matrix_max_special", lambda w, i: F.embedding_bag(i, w, mode="max"), w, torch.tensor([[3, 1], [1, 3], [4, 4], [4, 2]]))
    c.case("offsets_max_special", lambda w, i, o: F.embedding_bag(i, w, o, mode="max"), w, torch.tensor([3, 1, 1, 3, 4, 4, 2]), torch.tensor([0, 2, 4, 4, 6]))


def few_places(c):
    n = 3000
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        x, i, v = c.randn(7, 3).to(dtype), c.ints(n, 3, low=0, high=7), c.ints(n, 3, low=-2, high=3).to(dtype)  # sums that all dtypes hold
        name = str(dtype)[6:]
        c.case(f"scatter_add_{name}", lambda x, i, v: x.scatter_add(0, i, v), x.round(), i, v)
        c.case(f"scatter_sum_{name}", lambda x, i, v: (x.scatter_reduce(0, i, v, "sum"), x.scatter_reduce(0, i, v, "sum", include_self=False)), x.round(), i, v)
        c.case(f"scatter_max_{name}", lambda x, i, v: (x.scatter_reduce(0, i, v, "amax"), x.scatter_reduce(0, i, v, "amin")), x, i, c.randn(n, 3).to(dtype))
        c.case(f"index_add_{name}", lambda x, i, v: x.index_add(0, i, v), x.round(), i[:, 0], v)
        c.case(f"index_add_alpha_{name}", lambda x, i, v: x.index_add(1, i, v, alpha=2), x.t().contiguous().round(), i[:, 1], v.t().contiguous())
        c.case(f"index_put_{name}", lambda x, i, v: x.index_put((i,), v, accumulate=True), x.round(), i[:, 0], v)
        c.case(f"index_put_pairs_{name}", lambda x, i, j: x.index_put((i, j), torch.ones((), dtype=x.dtype), accumulate=True), x.round(), i[:, 0], c.ints(n, low=0, high=3))
    c.case("counts", lambda x, i: x.index_put((i,), torch.ones((), dtype=torch.int64), accumulate=True), c.ints(9), c.ints(n, low=0, high=9))
    c.case("histc", lambda x: torch.histc(x, 100, -4, 4), c.randn(n))


def add(family):
    for each in (selections, bags, few_places):
        family(each)
