"""Exports small models with parts that the data decides (routing, lengths, masks, branches, loops) and models of complex numbers,
with what PyTorch computes.

    python3 scripts/export/data_models.py FOLDER [NAME ...]

One FOLDER/NAME each, as model_zoo.py writes them. scripts/check_exports runs tsc on such a folder and prints a table.
"""
import math
import os
import sys
import traceback
import warnings

import torch
import torch.nn.functional as F
from recording import record, shake
from torch import nn
from torch._higher_order_ops.associative_scan import associative_scan
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop

MODELS = {}
r = torch.randn
whole = torch.tensor


def model(*inputs):
    """Of a class: the model; of a function: its forward, without parameters. `inputs`: a function of none that makes them."""
    def add(what):
        MODELS[what.__name__.lower()] = (what, inputs[0])
        return what
    return add


def cfloat():
    """The complex dtype of the default one, which the references have twice as wide."""
    return torch.complex64 if torch.get_default_dtype() == torch.float32 else torch.complex128


class Of(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *inputs):
        return self.function(*inputs)


# Detection and point clouds


@model(lambda: (r(2, 8, 6, 5),))
class Topk_detector(nn.Module):
    def __init__(self):
        super().__init__()
        self.scores, self.boxes = nn.Conv2d(8, 3, 1), nn.Conv2d(8, 4, 3, padding=1)

    def forward(self, x):
        scores = self.scores(x).sigmoid()
        n, c, h, w = scores.shape
        peaks = scores * (F.max_pool2d(scores, 3, 1, 1) == scores)
        best, place = peaks.flatten(1).topk(7)
        label, at = place // (h * w), place % (h * w)
        boxes = self.boxes(x).flatten(2).gather(2, at[:, None].expand(-1, 4, -1)).transpose(1, 2)
        center = torch.stack([at % w, at // w], -1) + 0.5
        return torch.cat([center - boxes[..., :2].exp(), center + boxes[..., 2:].exp()], -1), best, label


def overlaps(a, b):
    low, high = torch.maximum(a[:, None, :2], b[None, :, :2]), torch.minimum(a[:, None, 2:], b[None, :, 2:])
    area = lambda x: (x[..., 2] - x[..., 0]) * (x[..., 3] - x[..., 1])
    both = (high - low).clamp(min=0).prod(-1)
    return both / (area(a)[:, None] + area(b)[None] - both)


@model(lambda: (torch.rand(9, 2).repeat(1, 2) * 3 + whole([0.0, 0, 1, 1]), torch.rand(9)))
def greedy_suppression(boxes, scores):
    """Non-maximum suppression in a loop, and the boxes that are left."""
    order = scores.argsort(descending=True, stable=True)
    near = overlaps(boxes[order], boxes[order]) > 0.3

    def step(i, kept):
        row = near.index_select(0, i.reshape(1))[0] & (torch.arange(9) > i)
        return i + 1, kept & ~(row & kept.index_select(0, i.reshape(1)))

    _, kept = while_loop(lambda i, kept: i < 9, step, (whole(0), torch.ones(9, dtype=torch.bool)))
    left = order[kept]
    return left, boxes[left], scores[left].sum()


@model(lambda: (r(2, 17, 3), r(2, 17, 4)))
class Neighbours(nn.Module):
    """A point convolution over the nearest points."""

    def __init__(self):
        super().__init__()
        self.mlp = nn.Sequential(nn.Linear(7, 9), nn.ReLU(), nn.Linear(9, 6))

    def forward(self, points, features):
        near = torch.cdist(points, points).topk(5, largest=False).indices
        pick = lambda x: x.gather(1, near.flatten(1)[..., None].expand(-1, -1, x.shape[-1])).unflatten(1, near.shape[1:])
        joined = torch.cat([pick(points) - points[:, :, None], pick(features)], -1)
        return self.mlp(joined).amax(2), near.sort(-1).values[..., 1:]


@model(lambda: (r(3, 20, 3),))
def farthest_points(points):
    batch = torch.arange(3)
    chosen, distance = torch.zeros(3, 6, dtype=torch.int64), torch.full((3, 20), math.inf)

    def step(i, chosen, distance, last):
        chosen = chosen.index_copy(1, i.reshape(1), last[:, None])
        distance = torch.minimum(distance, (points - points[batch, last][:, None]).square().sum(-1))
        return i + 1, chosen, distance, distance.argmax(-1)

    _, chosen, distance, _ = while_loop(lambda i, *rest: i < 6, step, (whole(0), chosen, distance, torch.zeros(3, dtype=torch.int64)))
    return chosen, points.gather(1, chosen[..., None].expand(-1, -1, 3)), distance


@model(lambda: (torch.rand(11, 3),))
class Hash_grid(nn.Module):
    """A trilinear look-up in hashed grids of several resolutions."""

    def __init__(self):
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(32, 2) for _ in range(3))

    def forward(self, x):
        results = []
        for level, table in enumerate(self.tables):
            at = x * (3 * 2**level)
            low = at.floor().long()
            part = at - low
            total = 0
            for corner in range(8):
                bits = whole([corner >> k & 1 for k in range(3)])
                place = low + bits
                key = place[:, 0] ^ (place[:, 1] * 2654435761) ^ (place[:, 2] * 805459861)
                weight = torch.where(bits == 1, part, 1 - part).prod(-1, keepdim=True)
                total = total + table(key % 32) * weight
            results.append(total)
        return torch.cat(results, -1)


# Routing


class Expert(nn.Sequential):
    def __init__(self, width, inner):
        super().__init__(nn.Linear(width, inner), nn.SiLU(), nn.Linear(inner, width))


@model(lambda: (r(13, 6),))
class Sorted_experts(nn.Module):
    """Tokens in order of their experts; each expert has its part of them."""

    def __init__(self):
        super().__init__()
        self.gate, self.experts = nn.Linear(6, 4), nn.ModuleList(Expert(6, 10) for _ in range(4))

    def forward(self, x):
        weight, chosen = self.gate(x).softmax(-1).topk(2)
        order = chosen.flatten().argsort(stable=True)
        counts = torch.zeros(4, dtype=torch.int64).index_add(0, chosen.flatten(), torch.ones(26, dtype=torch.int64))
        token = order // 2
        parts = torch.split(x[token], counts.tolist())
        outputs = torch.cat([expert(part) for expert, part in zip(self.experts, parts)])
        return torch.zeros_like(x).index_add(0, token, outputs * weight.flatten()[order][:, None]), counts


@model(lambda: (r(2, 7, 6),))
class Capacity_experts(nn.Module):
    """Experts with room for so many tokens: what comes later is dropped."""

    def __init__(self):
        super().__init__()
        self.gate, self.up, self.down = nn.Linear(6, 3), nn.Parameter(r(3, 6, 8) * 0.3), nn.Parameter(r(3, 8, 6) * 0.3)

    def forward(self, x):
        tokens = x.flatten(0, 1)
        weight, chosen = self.gate(tokens).softmax(-1).max(-1)
        is_own = F.one_hot(chosen, 3)
        place = (is_own.cumsum(0) * is_own).sum(-1) - 1
        fits = place < 4
        slots = torch.zeros(3 * 4 + 1, 6).index_copy(0, torch.where(fits, chosen * 4 + place, 12), tokens)[:12].unflatten(0, (3, 4))
        outputs = (torch.bmm(F.gelu(torch.bmm(slots, self.up)), self.down)).flatten(0, 1)
        result = torch.where(fits[:, None], outputs[(chosen * 4 + place).clamp(max=11)] * weight[:, None], tokens)
        loss = (is_own.float().mean(0) * self.gate(tokens).softmax(-1).mean(0)).sum() * 3
        return result.view_as(x), loss, fits.sum()


@model(lambda: (r(10, 6),))
class Loop_experts(nn.Module):
    """Each expert looks for its tokens."""

    def __init__(self):
        super().__init__()
        self.gate, self.experts = nn.Linear(6, 3, bias=False), nn.ModuleList(Expert(6, 7) for _ in range(3))

    def forward(self, x):
        weights, chosen = torch.topk(F.softmax(self.gate(x), dim=1, dtype=torch.float), 2, dim=-1)
        weights = weights / weights.sum(dim=-1, keepdim=True)
        result = torch.zeros_like(x)
        mask = F.one_hot(chosen, 3).permute(2, 1, 0)
        for e, expert in enumerate(self.experts):
            slot, token = torch.where(mask[e])
            current = expert(x[None, token].reshape(-1, 6)) * weights[token, slot, None]
            result.index_add_(0, token, current.to(x.dtype))
        return result


# Tokens


@model(lambda: (r(1, 12, 8),))
class Token_merging(nn.Module):
    def forward(self, x):
        a, b = F.normalize(x[:, ::2], dim=-1), F.normalize(x[:, 1::2], dim=-1)
        best, partner = (a @ b.transpose(-1, -2)).max(-1)
        order = best.argsort(dim=-1, descending=True, stable=True)[..., None]
        gone, left = order[:, :3], order[:, 3:]
        into = partner[..., None].gather(1, gone)
        wide = lambda i: i.expand(-1, -1, 8)
        merged = x[:, 1::2].scatter_reduce(1, wide(into), x[:, ::2].gather(1, wide(gone)), "mean")
        return torch.cat([x[:, ::2].gather(1, wide(left)), merged], 1), left


@model(lambda: (r(9, 8),))
class Token_dropping(nn.Module):
    """Attention among the tokens that count; the others stay as they are."""

    def __init__(self):
        super().__init__()
        self.score, self.qkv, self.out = nn.Linear(8, 1), nn.Linear(8, 24), nn.Linear(8, 8)

    def forward(self, x):
        kept = (self.score(x).squeeze(-1) > 0).nonzero().squeeze(-1)
        y = x[kept]
        q, k, v = (t.unflatten(-1, (2, 4)).transpose(0, 1) for t in self.qkv(y).chunk(3, -1))
        y = y + self.out(((q @ k.transpose(1, 2) / 2).softmax(-1) @ v).transpose(0, 1).flatten(1))
        return x.index_copy(0, kept, y), x.index_put((kept,), y * 2), kept


@model(lambda: (torch.randint(1, 9, (2, 7)), torch.rand(2, 7) > 0.4))
class Packed_tokens(nn.Module):
    """What is not padding is computed, and put back where it was."""

    def __init__(self):
        super().__init__()
        self.embed, self.project = nn.Embedding(9, 6), nn.Linear(6, 4)

    def forward(self, ids, mask):
        rows = F.gelu(self.project(self.embed(ids[mask])))
        padded = torch.zeros(2, 7, 4).masked_scatter(mask[..., None], rows)
        logits = padded.masked_fill(~mask[..., None], -1e9)
        return padded, logits.amax(1), rows.mean()


@model(lambda: (whole([[1, 2, 9, 9, 9, 3], [9, 4, 5, 9, 9, 6]]), r(6, 8)))
class Image_tokens(nn.Module):
    """Rows of an image take the places of a special token."""

    def __init__(self):
        super().__init__()
        self.embed, self.project = nn.Embedding(10, 5), nn.Linear(8, 5)

    def forward(self, ids, image):
        tokens = self.embed(ids)
        mask = (ids == 9)[..., None].expand_as(tokens)
        joined = tokens.masked_scatter(mask, self.project(image))
        position = torch.cumsum((ids != 0).long(), 1) - 1
        return joined, position, (ids == 9).sum(1)


@model(lambda: (r(2, 5, 8), whole([[3, 0, 2, 1, 4], [1, 1, 0, 0, 2]])))
class Length_regulator(nn.Module):
    """Each phoneme as long as it is said to be (FastSpeech)."""

    def __init__(self):
        super().__init__()
        self.predict, self.decode = nn.Linear(8, 1), nn.Conv1d(8, 3, 3, padding=1)

    def forward(self, x, durations):
        flat = torch.repeat_interleave(x.flatten(0, 1), durations.flatten(), dim=0)
        torch._check(flat.shape[0] > 1)
        which = torch.repeat_interleave(torch.arange(2), durations.sum(1))
        log_durations = self.predict(x).squeeze(-1)
        loss = F.mse_loss(log_durations, (durations + 1).float().log())
        return self.decode(flat.t()[None])[0].t(), which, loss


@model(lambda: (r(2, 5, 8), r(2, 5)))
def aligned_lengths(x, log_durations):
    """The same with room for 16 frames, by the ends of the phonemes."""
    ends = log_durations.exp().round().clamp(min=1).cumsum(1)
    frames = torch.arange(16)[None, :, None]
    path = (frames < ends[:, None]) & (frames >= F.pad(ends, (1, -1))[:, None])
    mask = torch.arange(16)[None] < ends[:, -1:]
    return path.to(x.dtype) @ x, mask, (path.to(x.dtype) @ x).sum(1) / mask.sum(1, keepdim=True)


@model(lambda: (r(9, 4), whole([0, 3, 3, 7, 9])))
def ragged_pooling(values, offsets):
    lengths = offsets.diff()
    which = torch.repeat_interleave(torch.arange(4), lengths, output_size=9)
    sums = torch.zeros(4, 4).index_add(0, which, values)
    most = torch.full((4, 4), -math.inf).scatter_reduce(0, which[:, None].expand(-1, 4), values, "amax")
    weights = (values[:, 0] - most[which, 0]).exp()
    weights = weights / torch.zeros(4).index_add(0, which, weights)[which]
    place = torch.arange(9) - offsets[which]
    padded = torch.zeros(4, 5, 4).index_put((which, place), values)
    return sums / lengths.clamp(min=1)[:, None], most, torch.zeros(4, 4).index_add(0, which, weights[:, None] * values), padded


@model(lambda: (r(3, 6, 7), torch.randint(0, 7, (3, 6)), torch.rand(3, 6) > 0.3, r(3, 6)))
def masked_losses(logits, target, mask, weights):
    picked, wanted = logits[mask], target[mask]
    own = picked.log_softmax(-1).gather(1, wanted[:, None]).squeeze(1)
    far = torch.masked_select((logits.argmax(-1) - target).abs().float(), mask)
    hard = own[own < own.mean()]
    return F.cross_entropy(picked, wanted), -(own * weights[mask]).sum() / mask.sum(), far.mean(), hard.sum(), (picked.argmax(-1) == wanted).float().mean()


@model(lambda: (r(4, 9, 5).log_softmax(-1),))
def greedy_labels(scores):
    """Labels of the best path, blanks and repetitions left out."""
    best = scores.argmax(-1)
    first = torch.cat([torch.ones(4, 1, dtype=torch.bool), best[:, 1:] != best[:, :-1]], 1)
    kept = first & (best != 0)
    labels, runs = torch.unique_consecutive(best[0], return_counts=True)
    return best[kept], kept.sum(1), labels, runs, labels[labels != 0]


@model(lambda: (torch.randint(0, 6, (11,)), torch.randint(0, 5, (11,)), r(11)))
class Feature_crosses(nn.Module):
    """Each distinct pair of features has a row, found by hashing."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(64, 4)

    def forward(self, a, b, x):
        pairs, inverse, counts = torch.unique(torch.stack([a, b], 1), dim=0, return_inverse=True, return_counts=True)
        rows = self.embed((pairs[:, 0] * 31 + pairs[:, 1] * 17) % 64)
        means = torch.zeros(pairs.shape[0], dtype=x.dtype).index_add(0, inverse, x) / counts
        return rows[inverse] * x[:, None], means[inverse], pairs, counts.float().std()


# Graphs


@model(lambda: (r(6, 5), whole([[0, 1, 2, 3, 4, 4, 0, 2], [1, 2, 0, 1, 3, 1, 4, 4]])))
class Graph_attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.project, self.own, self.other = nn.Linear(5, 8, bias=False), nn.Parameter(r(2, 4)), nn.Parameter(r(2, 4))

    def forward(self, x, edges):
        source, target = edges
        h = self.project(x).view(-1, 2, 4)
        e = F.leaky_relu((h * self.own).sum(-1)[source] + (h * self.other).sum(-1)[target], 0.2)
        most = torch.full((6, 2), -math.inf).scatter_reduce(0, target[:, None].expand(-1, 2), e, "amax", include_self=False)
        e = (e - most[target]).exp()
        e = e / (torch.zeros(6, 2).index_add(0, target, e)[target] + 1e-16)
        degree = torch.bincount(target, minlength=6)
        return torch.zeros(6, 2, 4).index_add(0, target, h[source] * e[..., None]).flatten(1), degree[:6].float().clamp(min=1).rsqrt()


@model(lambda: (r(7, 4), torch.rand(7, 7)))
class Sparse_attention(nn.Module):
    """Scores of the pairs that are near alone."""

    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(4, 12)

    def forward(self, x, distance):
        row, column = torch.where((distance < 0.5) | torch.eye(7, dtype=torch.bool))
        q, k, v = self.qkv(x).chunk(3, -1)
        scores = ((q[row] * k[column]).sum(-1) / 2).exp()
        total = torch.zeros(7).index_add(0, row, scores)
        return torch.zeros_like(x).index_add(0, row, v[column] * (scores / total[row])[:, None]), row.bincount(minlength=7)


# Decoding


@model(lambda: (whole([1, 4]),))
class Greedy_decoder(nn.Module):
    """Until every sequence has ended, or 8 steps."""

    def __init__(self):
        super().__init__()
        self.embed, self.cell, self.head = nn.Embedding(9, 6), nn.GRUCell(6, 6), nn.Linear(6, 9)

    def forward(self, first):
        def step(i, token, state, ended, tokens):
            state = self.cell(self.embed(token), state)
            token = torch.where(ended, 0, self.head(state).argmax(-1))
            return i + 1, token, state, ended | (token == 0), tokens.index_copy(1, i.reshape(1), token[:, None])

        start = (whole(0), first, torch.zeros(2, 6), torch.zeros(2, dtype=torch.bool), torch.zeros(2, 8, dtype=torch.int64))
        i, _, state, ended, tokens = while_loop(lambda i, t, s, ended, k: (i < 8) & ~ended.all(), step, start)
        return i, state, ended, tokens


@model(lambda: (r(3, 4, 7).log_softmax(-1), torch.zeros(3).log_softmax(-1)))
def beam_search(steps, scores):
    """Four steps of a beam of three."""
    beams, histories = scores, torch.zeros(3, 0, dtype=torch.int64)
    for t in range(4):
        joined = beams[:, None] + steps[:, t].index_select(0, (histories.sum(1) + torch.arange(3)) % 3)
        beams, place = joined.flatten().topk(3)
        parent, token = torch.div(place, 7, rounding_mode="floor"), place % 7
        histories = torch.cat([histories[parent], token[:, None]], 1)
    return beams, histories, histories.index_select(0, beams.argmax().reshape(1))


@model(lambda: (whole([3, 1, 4, 1, 5]), r(5, 9), r(5, 9)))
def speculation(draft, own, theirs):
    """Draft tokens up to the first that is not taken, and one of our own behind them."""
    p, q = own.softmax(-1), theirs.softmax(-1)
    at = torch.arange(5)
    taken = (p[at, draft] >= q[at, draft] * 0.7).long().cumprod(0)
    n = taken.sum().item()
    torch._check(n >= 0)
    torch._check(n <= 5)
    rest = (p - q).clamp(min=0)
    follows = rest.index_select(0, taken.sum().clamp(max=4).reshape(1))[0].argmax()
    return draft[:n], follows, torch.cat([draft[:n], follows[None]]), n


@model(lambda: (r(4, 6, 5), r(5, 5)))
def best_path(scores, moves):
    """Viterbi: the best labels, and the logarithm of what all labels add up to."""
    def step(best, emitted):
        value, place = (best[:, :, None] + moves).max(1)
        return value + emitted, place

    last, places = scan(step, scores[:, 0].clone(), scores[:, 1:].transpose(0, 1).contiguous(), dim=0)
    total = scores[:, 0]
    for t in range(1, 6):
        total = (total[:, :, None] + moves).logsumexp(1) + scores[:, t]
    label = last.argmax(-1)
    path = [label]
    for t in range(4, -1, -1):
        label = places[t].gather(1, label[:, None]).squeeze(1)
        path.append(label)
    return torch.stack(path[::-1], 1), total.logsumexp(-1) - last.amax(-1)


@model(lambda: (r(3, 6),))
class Halting(nn.Module):
    """As many steps as each row asks for (adaptive computation time)."""

    def __init__(self):
        super().__init__()
        self.step, self.halt = nn.Linear(6, 6), nn.Linear(6, 1)

    def forward(self, x):
        def body(x, total, result, steps):
            x = torch.tanh(self.step(x))
            p = self.halt(x).sigmoid().squeeze(-1)
            runs = total < 0.99
            p = torch.where(total + p > 0.99, 1 - total, p) * runs
            return x, total + p, result + p[:, None] * x, steps + runs

        start = (x, torch.zeros(3), torch.zeros(3, 6), torch.zeros(3, dtype=torch.int64))
        _, total, result, steps = while_loop(lambda x, total, result, steps: ((total < 0.99) & (steps < 12)).any(), body, start)
        return result, steps


@model(lambda: (r(4, 6),))
class Two_ways(nn.Module):
    """A branch with a branch in it."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = nn.Linear(6, 3), nn.Linear(6, 3), nn.Linear(6, 3)

    def forward(self, x):
        inner = lambda x: torch.cond(x.amax() > 2, lambda x: self.b(x).relu(), lambda x: self.c(x).sin(), (x,))
        y = torch.cond(x.sum() > 100, lambda x: self.a(x), inner, (x,))
        return y, y.sum() + torch.cond(y.isnan().any(), lambda y: y.nan_to_num(0.0).mean(), lambda y: y.mean(), (y,))


@model(lambda: (r(3, 8, 4), whole([5, 2, 7])))
class Last_states(nn.Module):
    """A recurrent net over the longest of the sequences, and each one's last state."""

    def __init__(self):
        super().__init__()
        self.rnn = nn.GRU(4, 5, batch_first=True)

    def forward(self, x, lengths):
        y, _ = self.rnn(x)
        last = y[torch.arange(3), lengths - 1]
        n = lengths.max().item()
        torch._check(n <= 8)
        mask = torch.arange(8)[None] < lengths[:, None]
        return last, y[:, :n].sum(1), (y * mask[..., None]).sum(1) / lengths[:, None]


# Quantization by codes, bins


@model(lambda: (r(2, 6, 4),))
class Codebook(nn.Module):
    def __init__(self):
        super().__init__()
        self.codes = nn.Parameter(r(8, 4))

    def forward(self, x):
        flat = x.flatten(0, 1)
        code = torch.cdist(flat, self.codes).argmin(-1)
        picked = F.embedding(code, self.codes)
        usage = torch.bincount(code, minlength=8)[:8].float() / code.numel()
        perplexity = torch.exp(-(usage * (usage + 1e-10).log()).sum())
        sums = torch.zeros(8, 4).index_add(0, code, flat)
        return (flat + (picked - flat).detach()).view_as(x), code, perplexity, sums / (usage[:, None] * 12).clamp(min=1), code.unique()


@model(lambda: (r(40),))
def calibration(x):
    counts = torch.histc(x.abs(), 16, 0.0, 4.0)
    share = counts.cumsum(0) / counts.sum()
    bin = torch.searchsorted(share, torch.tensor([0.5, 0.9, 0.99]))
    scale = ((bin + 1) * 0.25 / 127)[1]
    quantized = (x / scale).round().clamp(-128, 127).to(torch.int8)
    return bin, quantized.float() * scale, torch.bucketize(x, torch.linspace(-2, 2, 9)), x.sort().values[30], counts


# Complex numbers


@model(lambda: (r(2, 6, 8), whole(3)))
class Complex_rope(nn.Module):
    """A layer of Llama with its rotary embedding as complex products, and a cache."""

    def __init__(self):
        super().__init__()
        self.q, self.k, self.v, self.o = nn.Linear(8, 8, bias=False), nn.Linear(8, 4, bias=False), nn.Linear(8, 4, bias=False), nn.Linear(8, 8, bias=False)
        angles = torch.outer(torch.arange(16).float(), 1.0 / 10000 ** (torch.arange(0, 4, 2).float() / 4))
        self.register_buffer("turns", torch.polar(torch.ones_like(angles), angles))

    def forward(self, x, start):
        n = start.item()
        torch._check(n >= 0)
        torch._check(n <= 10)
        turns = self.turns[n:n + 6].view(1, 6, 1, 2)

        def turned(y):
            return torch.view_as_real(torch.view_as_complex(y.float().reshape(*y.shape[:-1], -1, 2)) * turns).flatten(3).type_as(y)

        q, k = turned(self.q(x).view(2, 6, 2, 4)), turned(self.k(x).view(2, 6, 1, 4))
        v = self.v(x).view(2, 6, 1, 4)
        k, v = k.repeat_interleave(2, 2), v.repeat_interleave(2, 2)
        y = F.scaled_dot_product_attention(*(t.transpose(1, 2) for t in (q, k, v)), is_causal=True)
        return self.o(y.transpose(1, 2).flatten(2))


@model(lambda: (r(2, 160),))
class Mel_front_end(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("window", torch.hann_window(32))
        self.register_buffer("filters", torch.rand(17, 5) * (torch.rand(17, 5) > 0.6))

    def forward(self, x):
        s = torch.stft(x, 32, 8, window=self.window, return_complex=True)
        power = s.real**2 + s.imag**2
        mel = (power.transpose(1, 2) @ self.filters).clamp(min=1e-5).log10()
        mel = torch.maximum(mel, mel.amax() - 8)
        return mel, s.abs().pow(0.3), torch.istft(s, 32, 8, window=self.window, length=160)


@model(lambda: (r(2, 120),))
def phase_vocoder(x):
    """Slower by half, at the same pitch."""
    window = torch.hann_window(16)
    s = torch.stft(x, 16, 4, window=window, return_complex=True)
    steps = torch.arange(0, s.shape[-1] - 1, 0.75)
    at, part = steps.long(), steps % 1
    a, b = s[..., at], s[..., at + 1]
    size = part * b.abs() + (1 - part) * a.abs()
    advance = torch.linspace(0, math.pi * 4, 9)[:, None]
    turn = b.angle() - a.angle() - advance
    turn = turn - 2 * math.pi * torch.round(turn / (2 * math.pi)) + advance
    phase = torch.cumsum(torch.cat([a.angle()[..., :1], turn[..., :-1]], -1), -1)
    return size, torch.istft(torch.polar(size, phase), 16, 4, window=window)


@model(lambda: (r(2, 3, 12, 10),))
class Fourier_operator(nn.Module):
    def __init__(self):
        super().__init__()
        self.lift, self.skip, self.head = nn.Conv2d(3, 4, 1), nn.Conv2d(4, 4, 1), nn.Conv2d(4, 1, 1)
        self.low, self.high = (nn.Parameter(torch.randn(4, 4, 3, 4, dtype=cfloat()) / 4) for _ in range(2))

    def forward(self, x):
        x = self.lift(x)
        s = torch.fft.rfft2(x)
        y = torch.zeros(2, 4, 12, 6, dtype=cfloat())
        y[:, :, :3, :4] = torch.einsum("bixy,ioxy->boxy", s[:, :, :3, :4], self.low)
        y[:, :, -3:, :4] = torch.einsum("bixy,ioxy->boxy", s[:, :, -3:, :4], self.high)
        return self.head(F.gelu(torch.fft.irfft2(y, s=(12, 10)) + self.skip(x)))


@model(lambda: (r(2, 4, 20),))
class State_space(nn.Module):
    """A diagonal state space as a convolution by Fourier transforms (S4D)."""

    def __init__(self):
        super().__init__()
        self.log_step, self.log_decay = nn.Parameter(torch.rand(4) - 3), nn.Parameter(torch.log(0.5 * torch.ones(4, 3)))
        self.frequency, self.out, self.skip = nn.Parameter(math.pi * torch.arange(3).repeat(4, 1).float()), nn.Parameter(r(4, 3, 2)), nn.Parameter(r(4))

    def forward(self, x):
        a = -torch.exp(self.log_decay) + 1j * self.frequency
        scaled = a * torch.exp(self.log_step)[:, None]
        c = torch.view_as_complex(self.out) * (torch.exp(scaled) - 1.0) / a
        kernel = 2 * torch.einsum("hn,hnl->hl", c, torch.exp(scaled[..., None] * torch.arange(20))).real
        y = torch.fft.irfft(torch.fft.rfft(x, n=40) * torch.fft.rfft(kernel, n=40), n=40)[..., :20]
        return F.gelu(y + x * self.skip[:, None])


@model(lambda: (r(2, 9, 4),))
class Recurrent_unit(nn.Module):
    """A linear recurrence with complex decay, by combining halves (LRU)."""

    def __init__(self):
        super().__init__()
        self.size, self.angle = nn.Parameter(torch.rand(3) * 0.5), nn.Parameter(torch.rand(3) * 3)
        self.b, self.c = nn.Parameter(torch.randn(4, 3, dtype=cfloat())), nn.Parameter(torch.randn(3, 4, dtype=cfloat()))

    def forward(self, x):
        decay = torch.exp(torch.complex(-torch.exp(self.size), self.angle))
        values = x.to(cfloat()) @ self.b
        factors = decay.expand_as(values)
        distance = 1
        while distance < 9:
            earlier = F.pad(torch.view_as_real(values[:, :-distance]), (0, 0, 0, 0, distance, 0))
            values = values + factors * torch.view_as_complex(earlier)
            factors, distance = factors * factors, distance * 2
        state = torch.zeros(2, 3, dtype=cfloat())
        for t in range(9):
            state = decay * state + x[:, t].to(cfloat()) @ self.b
        return (values @ self.c).real, state.abs(), values[:, -1].abs()


@model(lambda: (torch.randn(3, 5, dtype=cfloat()), torch.randn(2, 2, 6, 6, dtype=cfloat())))
class Complex_layers(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear, self.bias = nn.Parameter(torch.randn(5, 4, dtype=cfloat())), nn.Parameter(torch.randn(4, dtype=cfloat()))
        self.conv, self.threshold = nn.Conv2d(2, 3, 3, padding=1, dtype=cfloat()), nn.Parameter(torch.rand(4))

    def forward(self, x, image):
        y = x @ self.linear + self.bias
        y = F.relu(y.abs() - self.threshold) * torch.exp(1j * y.angle())
        z = self.conv(image)
        z = torch.complex(F.relu(z.real), F.relu(z.imag))
        pooled = torch.complex(F.avg_pool2d(z.real, 2), F.avg_pool2d(z.imag, 2))
        return y, y.abs().sum(), pooled.mean((2, 3)), torch.view_as_real(z).mean()


@model(lambda: (r(2, 16, 6), r(2, 16, 6), r(2, 16, 6)))
def autocorrelation(q, k, v):
    """Values at the delays at which queries and keys agree best (Autoformer)."""
    agreement = torch.fft.irfft(torch.fft.rfft(q.transpose(1, 2)) * torch.fft.rfft(k.transpose(1, 2)).conj(), n=16)
    weight, delay = agreement.mean(1).topk(3)
    weight = weight.softmax(-1)
    doubled = torch.cat([v, v], 1)
    result = 0
    for i in range(3):
        at = torch.arange(16)[None, :] + delay[:, i:i + 1]
        result = result + doubled.gather(1, at[..., None].expand(-1, -1, 6)) * weight[:, i, None, None]
    return result, delay


@model(lambda: (r(2, 8, 6),))
class Fourier_mixing(nn.Module):
    """FNet, and vectors bound by circular convolution."""

    def __init__(self):
        super().__init__()
        self.norm, self.roles = nn.LayerNorm(6), nn.Parameter(r(8, 6))

    def forward(self, x):
        x = self.norm(x + torch.fft.fft2(x).real)
        bound = torch.fft.ifft(torch.fft.fft(x) * torch.fft.fft(self.roles)).real.sum(1)
        back = torch.fft.ifft(torch.fft.fft(bound)[:, None] / (torch.fft.fft(self.roles) + 0.1)).real
        return x, bound, F.cosine_similarity(back, x, dim=-1), torch.fft.fftshift(torch.fft.fftn(x, dim=(0, 1)).abs(), dim=1)


@model(lambda: (r(2, 5, 30),))
def beamformer(x):
    """Powers of directions, by the covariance of spectra, and the weights that keep one direction."""
    s = torch.fft.rfft(x * torch.hann_window(30), dim=-1)[..., 1:5].permute(0, 2, 1)
    covariance = torch.einsum("bfi,bfj->bfij", s, s.conj()).mean(1) + 0.5 * torch.eye(5)
    angles = torch.linspace(-1.0, 1.0, 7)
    steering = torch.exp(-1j * math.pi * angles[:, None] * torch.arange(5))
    power = torch.einsum("ai,bij,aj->ba", steering.conj(), covariance, steering).real
    solved = torch.linalg.solve(covariance, steering[power.argmax(-1)].unsqueeze(-1))
    weights = solved / (steering[power.argmax(-1)].conj().unsqueeze(1) @ solved)
    values = torch.linalg.eigvalsh(covariance)
    return power, torch.view_as_real(weights.squeeze(-1)), values, covariance.diagonal(dim1=-2, dim2=-1).real


@model(lambda: (r(6), r(6)))
def quantum_circuit(a, b):
    """Turns and entangling gates on four amplitudes."""
    state = torch.zeros(4, dtype=cfloat())
    state[0] = 1
    for k in range(3):
        c, s = torch.cos(a[k] / 2), torch.sin(a[k] / 2)
        turn = torch.stack([torch.stack([c + 0j, -1j * s]), torch.stack([-1j * s, c + 0j])])
        phase = torch.exp(1j * torch.stack([-b[k] / 2, b[k] / 2]))
        state = torch.kron(turn, torch.diag(phase)) @ state
        state = state[torch.tensor([0, 1, 3, 2])]
    observed = state.conj() @ (torch.tensor([1, -1, -1, 1]) * state)
    return state.abs().square(), observed.real, torch.angle(state), torch.vdot(state, state), torch.outer(state, state.conj())


def main():
    warnings.filterwarnings("ignore")
    folder, names = sys.argv[1], sys.argv[2:] or list(MODELS)
    failed = []
    for name in names:
        torch.manual_seed(sum(map(ord, name)))
        what, make = MODELS[name]
        built = what() if isinstance(what, type) else Of(what)
        shake(built)
        try:
            record(built.eval(), make(), os.path.join(folder, name))
        except Exception:
            failed.append(name)
            traceback.print_exc(limit=-3)
    print(f"{len(names) - len(failed)} exported", *(f"failed: {name}" for name in failed), sep="\n")


if __name__ == "__main__":
    main()
