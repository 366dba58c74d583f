"""Reductions, norms of vectors, scans, sorting."""
import torch

from builder import NotHere
from rules import rule

WHOLE = ("{x}.sum()", "{x}.mean()", "{x}.amax()", "{x}.amin()", "{x}.max()", "{x}.min()", "{x}.any()", "{x}.all()", "torch.var({x})", "torch.std({x})",
         "torch.norm({x})", "torch.linalg.vector_norm({x}, 1)", "torch.argmax({x})", "torch.argmin({x})", "{x}.prod()", "torch.count_nonzero({x})",
         "torch.nansum({x})", "torch.nanmean({x})", "torch.median({x})", "torch.logsumexp({x}, [])", "torch.sum({x}, dtype=torch.float64)",
         "torch.nanmedian({x})", "torch.linalg.norm({x})")
ONE = ("{x}.sum({d}{k})", "{x}.mean({d}{k})", "{x}.amax({d}{k})", "{x}.amin({d}{k})", "{x}.argmax({d}{k})", "{x}.argmin({d}{k})", "{x}.prod({d}{k})",
       "torch.logsumexp({x}, {d}{k})", "torch.var({x}, {d}{k})", "torch.std({x}, {d}{k}, unbiased=False)", "torch.any({x}, {d}{k})", "torch.all({x}, {d}{k})",
       "torch.count_nonzero({x}, {d})", "torch.linalg.vector_norm({x}, 2, {d}{k})", "torch.norm({x}, 1, {d}{k})", "torch.linalg.vector_norm({x}, float('inf'), {d}{k})",
       "torch.linalg.vector_norm({x}, 3, {d}{k})", "torch.nansum({x}, {d}{k})", "torch.nanmean({x}, {d}{k})", "{x}.sum({d}{k}, dtype=torch.float32)",
       "torch.linalg.vector_norm({x}, 0, {d}{k})", "torch.norm({x}, 2, {d}{k})", "torch.linalg.norm({x}, dim={d}{k})", "torch.amax({x}, {d}{k})")
PAIRS = ("torch.max({x}, {d}{k})", "torch.min({x}, {d}{k})", "torch.median({x}, {d}{k})", "torch.nanmedian({x}, {d}{k})", "torch.var_mean({x}, {d}{k})",
         "torch.std_mean({x}, {d}{k})", "torch.cummax({x}, {d})", "torch.cummin({x}, {d})", "torch.sort({x}, {d}, stable=True)",
         "torch.sort({x}, dim={d}, descending=True, stable=True)", "torch.kthvalue({x}, 1, {d}{k})", "torch.aminmax({x}, dim={one}{k})", "torch.topk({x}, 1, {d})",
         "torch.topk({x}, 2, {d}, largest=False)", "torch.topk({x}, {x}.shape[{d}], {d})")
SEVERAL = ("{x}.sum({l}{k})", "{x}.mean({l}{k})", "torch.amax({x}, {l}{k})", "torch.amin({x}, {l}{k})", "torch.var({x}, {l}{k})", "torch.var({x}, {l}, correction=0{k})",
           "torch.logsumexp({x}, {l}{k})", "torch.std_mean({x}, {l}, correction=2{k})", "torch.linalg.vector_norm({x}, 2, {l}{k})", "torch.nansum({x}, {l}{k})",
           "torch.any({x}, {l}{k})", "torch.all({x}, {l}{k})", "torch.count_nonzero({x}, {l})", "torch.norm({x}, 2, {l}{k})", "torch.frobenius_norm({x}, {l}{k})",
           "torch.var_mean({x}, {l}, correction=0{k})")
SCANS = ("torch.cumsum({x}, {d})", "torch.cumprod({x}, {d})", "torch.logcumsumexp({x}, {d})", "{x}.cumsum({d}, dtype=torch.float32)", "torch.cumsum({x}, {d})",
         "torch.argsort({x}, {d}, stable=True)", "torch.msort({x})", "torch.diff({x}, dim={d})", "torch.diff({x}, n=2, dim={d})", "torch.argsort({x}, dim={d}, descending=True, stable=True)")
SOFTMAXES = ("F.softmax({x}, {d})", "F.log_softmax({x}, {d})", "torch.softmax({x}, dim={d})", "F.softmin({x}, {d})", "F.normalize({x}, dim={d})", "F.normalize({x}, p=1.0, dim={d})",
             "torch.softmax({x}, {d}, dtype=torch.float32)", "torch.special.softmax({x}, {d})", "torch.special.log_softmax({x}, {d})", "torch.renorm({x}, 2, {one}, 1.0)",
             "F.gumbel_softmax({x} * 0, dim={d}) * 0 + {x}" if False else "torch.softmax({x} * 2, {d})")


def keep(g):
    return ", keepdim=True" if g.chance(0.45) else ""


@rule("reduce all", 2.5)
def whole(g):
    g.emit(g.choice(WHOLE).format(x=g.any()), "reduce all")


@rule("reduce", 7)
def one(g):
    x = g.any(low=1) if g.chance(0.97) else g.any()
    g.emit(g.choice(ONE).format(x=x, d=g.dim(x), k=keep(g)), "reduce")


@rule("reduce several", 2.5)
def several(g):
    x = g.any(low=1)
    text = g.choice(SEVERAL).format(x=x, l=g.dims(x), k=keep(g))
    g.emit(text, "reduce several", 2 if "_mean" in text and "torch." in text and "nanmean" not in text else 1)


@rule("reduce pairs", 4)
def pairs(g):
    x = g.any(low=1, kinds="fi")
    d = g.dim(x)
    text = g.choice(PAIRS).format(x=x, d=d, one=d, k=keep(g))
    if g.chance(0.15) and "sort" in text:
        return g.emit(text + g.choice((".values", ".indices", "[0]", "[1]")), "reduce pairs")
    x = g.tensor(x)
    if any(n in text for n in ("topk", "median", "kthvalue")) and x.shape[d] > 1 and bool((x.sort(d).values.diff(dim=d) == 0).any()):
        return g.emit(text + "[0]", "reduce pairs")  # which of equal elements it is, is not said
    g.emit(text, "reduce pairs", 2)


@rule("scan", 3)
def scan(g):
    x = g.any(low=1)
    g.emit(g.choice(SCANS).format(x=x, d=g.dim(x)), "scan")


@rule("softmax", 3.5)
def softmax(g):
    x = g.floats(low=1)
    d = g.dim(x)
    g.emit(g.choice(SOFTMAXES).format(x=x, d=d, one=d), "softmax")


@rule("search", 1.2)
def search(g):
    x = g.any(kinds="fi")
    t = g.tensor(x)
    n = g.integer(0, 9) if g.chance(0.2) else g.integer(1, 9)
    edges = g.same_shape((n,), t.dtype)
    right = g.choice(("", ", right=True"))
    kind = g.integer(0, 5)
    if kind < 2:
        return g.emit(f"torch.searchsorted({edges}.sort().values, {x}{right})", "search")
    if kind < 3:
        return g.emit(f"torch.bucketize({x}, {edges}.sort().values{right}, out_int32={g.chance(0.5)})", "search")
    if kind < 4:
        return g.emit(f"torch.histc({x}, bins={g.integer(1, 7)}, min=-2, max=2)", "search")
    if kind < 5:
        y = g.ints(1, 1)
        return g.emit(f"torch.bincount({y}.abs() % 7, minlength={g.integer(7, 10)})", "search")
    g.emit(f"torch.searchsorted({edges}.sort().values, {g.scalar(x)}{right})", "search")


@rule("loss", 2.5)
def loss(g):
    x = g.floats(low=1)
    t = g.tensor(x)
    y = g.same_shape(t.shape, t.dtype)
    reduction = g.choice(("", ", reduction='sum'", ", reduction='none'", ", reduction='mean'"))
    kind = g.integer(0, 9)
    simple = (f"F.mse_loss({x}, {y}{reduction})", f"F.l1_loss({x}, {y}{reduction})", f"F.smooth_l1_loss({x}, {y}{reduction})", f"F.huber_loss({x}, {y}{reduction})",
              f"F.binary_cross_entropy_with_logits({x}, {y}.sigmoid(){reduction})", f"F.binary_cross_entropy({x}.sigmoid(), {y}.sigmoid(){reduction})",
              f"F.kl_div({x}, {y}.softmax(-1){reduction})", f"F.soft_margin_loss({x}, {y}.sign(){reduction})", f"F.poisson_nll_loss({x}, {y}.abs(){reduction})",
              f"F.hinge_embedding_loss({x}, {y}.sign(){reduction})", f"F.margin_ranking_loss({x}, {y}, {y}.sign(){reduction})",
              f"F.smooth_l1_loss({x}, {y}, beta=0.5{reduction})", f"F.huber_loss({x}, {y}, delta=0.7{reduction})")
    if kind < 5:
        return g.emit(g.choice(simple), "loss")
    if t.dim() < 2:
        raise NotHere
    if kind < 8:
        shape = (t.shape[0],) + tuple(t.shape[2:])
        target = g.index(shape, t.shape[1])
        extra = g.choice(("", "", ", label_smoothing=0.1", ", ignore_index=0"))
        which = g.choice(("F.cross_entropy({x}, {t}{e}{r})", "F.cross_entropy({x}, {t}{e}{r})", "F.nll_loss(F.log_softmax({x}, 1), {t}{r})", "F.multi_margin_loss({x}, {t}{r})"))
        return g.emit(which.format(x=x, t=target, e=extra, r=reduction), "loss")
    if kind < 9:
        return g.emit(g.choice((f"F.cosine_similarity({x}, {y}, dim={g.dim(x)})", f"F.pairwise_distance({x}, {y})", f"F.cross_entropy({x}, {y}.softmax(1))",
                                f"F.triplet_margin_loss({x}, {y}, {g.same_shape(t.shape, t.dtype)}{reduction})")), "loss")
    if t.dim() != 2:
        raise NotHere
    target = g.new_input("int64", (t.shape[0],), "coin")
    g.emit(f"F.cosine_embedding_loss({x}, {y}, {target}.sign() | 1{reduction})", "loss")
