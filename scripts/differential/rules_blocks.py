"""Pieces of models: what templates and fusions are for. And control flow."""
import torch

import values
from builder import NotHere
from rules import rule
from rules_products import attempt, image


def rows(g, few=1):
    """A float tensor of two or three dimensions, as a layer takes it."""
    return g.floats(low=2, high=3, few=few)


@rule("attention", 2.5)
def attention(g):
    heads, depth = g.integer(1, 3), g.choice((4, 8, 16, 5))
    batch, queries = g.integer(1, 2), g.choice((1, 3, 7, 8, 16, 17))
    keys = queries if g.chance(0.6) else g.choice((2, 5, 9, 16))
    if g.program.symbols and g.chance(0.5):
        queries = keys = list(g.program.symbols.values())[0]
    dtype = values.dtype_of(g.float)
    q = g.same_shape((batch, heads, queries, depth), dtype)
    k = g.same_shape((batch, heads, keys, depth), dtype)
    v = g.same_shape((batch, heads, keys, depth), dtype)
    kind = g.integer(0, 5)
    if kind < 3:
        extra = g.choice(("", "", ", is_causal=True", ", scale=0.3", f", attn_mask={g.same_shape((queries, keys), torch.bool)} | torch.ones({queries}, {keys}, dtype=torch.bool).tril()",
                          f", attn_mask={g.same_shape((queries, keys), dtype)}", f", attn_mask={g.same_shape((batch, 1, queries, keys), dtype)}"))
        return g.emit(f"F.scaled_dot_product_attention({q}, {k}, {v}{extra})", "attention")
    scores = g.emit(f"({q} @ {k}.transpose(-2, -1)) * {depth ** -0.5:.4f}", "attention")
    if g.chance(0.5) and queries == keys:
        scores = g.emit(f"{scores}.masked_fill(torch.ones({queries}, {keys}, dtype=torch.bool).triu(1), float('-inf'))", "attention")
    weights = g.emit(f"torch.softmax({scores}, -1)", "attention")
    out = g.emit(f"{weights} @ {v}", "attention")
    g.emit(f"{out}.transpose(1, 2).reshape({batch}, {queries}, {heads * depth})", "attention")


@rule("multihead", 0.5)
def multihead(g):
    x = g.floats(low=3, high=3, few=1, fits=lambda t: t.numel() and t.shape[-1] % 2 == 0 and t.dtype == torch.float32)
    width = g.tensor(x).shape[-1]
    if g.chance(0.5):
        name, made = g.module(f"nn.MultiheadAttention({width}, 2, batch_first={g.chance(0.5)})")
        return attempt(g, made, f"{name}({x}, {x}, {x}, need_weights={g.chance(0.5)})[0]", "multihead")
    name, made = g.module(f"nn.TransformerEncoderLayer({width}, 2, {width * 2}, batch_first=True, norm_first={g.chance(0.5)})")
    attempt(g, made, f"{name}({x})", "multihead")


@rule("perceptron", 2)
def perceptron(g):
    x = rows(g)
    t = g.tensor(x)
    wide = g.integer(2, 40)
    act = g.choice(("F.relu", "F.gelu", "F.silu", "torch.tanh", "torch.sigmoid"))
    a = g.same_shape((t.shape[-1], wide), t.dtype)
    b = g.same_shape((wide, t.shape[-1]), t.dtype)
    if g.chance(0.5):
        return g.emit(f"{act}({x} @ {a} * 0.2) @ {b} * 0.2 + {x}", "perceptron")
    gate = g.same_shape((t.shape[-1], wide), t.dtype)
    h = g.emit(f"{act}({x} @ {a} * 0.2) * ({x} @ {gate} * 0.2)", "perceptron")
    g.emit(f"{h} @ {b}", "perceptron")


@rule("convolution block", 1.2)
def convolution_block(g):
    x = image(g, 2, 3)
    t = g.tensor(x)
    if t.dim() != 4:
        raise NotHere
    c = t.shape[1]
    name, made = g.module(f"nn.Conv2d({c}, {c * g.integer(1, 2)}, 3, padding=1, bias={g.chance(0.5)})")
    y = attempt(g, made, f"{name}({x})", "convolution block")
    channels = g.tensor(y).shape[1]
    name, made = g.module(f"nn.BatchNorm2d({channels})", training=g.chance(0.3))
    y = attempt(g, made, f"{name}({y})", "convolution block")
    y = g.emit(f"F.{g.choice(('relu', 'silu', 'gelu', 'leaky_relu'))}({y})", "convolution block")
    if channels == c and g.chance(0.6):
        y = g.emit(f"{y} + {x}", "convolution block")
    if g.chance(0.4):
        g.emit(g.choice((f"F.max_pool2d({y}, 2)", f"F.adaptive_avg_pool2d({y}, 1).flatten(1)", f"{y}.mean((2, 3))")), "convolution block")


@rule("norm by hand", 2)
def norm_by_hand(g):
    x = rows(g, 2)
    n = g.tensor(x).shape[-1]
    w = g.same_shape((n,), g.tensor(x).dtype)
    if g.chance(0.5):
        return g.emit(f"{x} * torch.rsqrt({x}.pow(2).mean(-1, keepdim=True) + 1e-5) * {w}", "norm by hand")
    m = g.emit(f"{x}.mean(-1, keepdim=True)", "norm by hand")
    v = g.emit(f"(({x} - {m}) ** 2).mean(-1, keepdim=True)", "norm by hand")
    g.emit(f"({x} - {m}) / torch.sqrt({v} + 1e-3) * {w}", "norm by hand")


@rule("optimizer step", 1.5)
def optimizer(g):
    shape = g.shape(1, 2)
    dtype = g.float
    p, m, v = (g.new_input(dtype, shape, style, kind="buffer") for style in ("normal", "normal", "positive"))
    grad = g.same_shape(shape, values.dtype_of(dtype))
    kind = g.integer(0, 3)
    if kind == 0:  # momentum
        g.emit(f"{m}.mul_(0.9).add_({grad})", "optimizer step", 0)
        return g.emit(f"{p}.add_({m}, alpha=-0.1)", "optimizer step", 0)
    if kind == 1:  # Adam
        g.emit(f"{m}.lerp_({grad}, 0.1)", "optimizer step", 0)
        g.emit(f"{v}.mul_(0.999).addcmul_({grad}, {grad}, value=0.001)", "optimizer step", 0)
        return g.emit(f"{p}.addcdiv_({m}, {v}.sqrt() + 1e-3, value=-0.01)", "optimizer step", 0)
    q, n = (g.new_input(dtype, g.shape(1, 2), kind="buffer") for _ in range(2))
    other = g.same_shape(g.tensor(q).shape, values.dtype_of(dtype))
    name = g.choice(("_foreach_add_([{p}, {q}], [{a}, {b}], alpha=-0.1)", "_foreach_mul_([{p}, {q}], 0.9)", "_foreach_lerp_([{p}, {q}], [{a}, {b}], 0.2)",
                     "_foreach_addcmul_([{p}, {q}], [{a}, {b}], [{a}, {b}], 0.5)", "_foreach_copy_([{p}, {q}], [{a}, {b}])", "_foreach_neg_([{p}, {q}])", "_foreach_zero_([{p}, {q}])",
                     "_foreach_sub_([{p}, {q}], [{a}, {b}])", "_foreach_div_([{p}, {q}], 3)", "_foreach_clamp_min_([{p}, {q}], 0.1)", "_foreach_maximum_([{p}, {q}], [{a}, {b}])"))
    if kind == 2:
        return g.emit("torch." + name.format(p=p, q=q, a=f"{grad}.clone()", b=f"{other}.clone()"), "optimizer step", 0)
    f = g.choice(("_foreach_add([{p}, {q}], 2)", "_foreach_mul([{p}, {q}], [{p}, {q}])", "_foreach_sqrt([{p}.abs(), {q}.abs()])", "_foreach_norm([{p}, {q}])", "_foreach_tanh([{p}, {q}])",
                  "_foreach_abs([{p}, {q}])", "_foreach_pow([{p}, {q}], 2)", "_foreach_exp([{p}, {q}])", "_foreach_max([{p}, {q}])", "_foreach_sign([{p}, {q}])"))
    g.emit("torch." + f.format(p=p, q=q), "optimizer step", 2)


@rule("cache", 1)
def cache(g):
    rows_, width = g.integer(4, 9), g.integer(2, 8)
    k = g.new_input(g.float, (2, rows_, width), kind=g.choice(("buffer", "input")))
    new = g.new_input(g.float, (2, 1, width))
    at = g.index((1,), rows_)
    g.emit(g.choice((f"{k}.index_copy_(1, {at}, {new})", f"{k}[:, {at}] = {new}", f"{k}[:, 2:3] = {new}", f"{k}.narrow(1, 1, 1).copy_({new})")), "cache", 0)
    g.emit(f"torch.softmax({new} @ {k}.transpose(1, 2), -1) @ {k}", "cache")


@rule("rotary", 0.8)
def rotary(g):
    x = g.floats(low=2, few=2, fits=lambda t: t.shape[-1] % 2 == 0 and t.numel() > 0)
    half = g.tensor(x).shape[-1] // 2
    a = g.emit(f"{x}[..., :{half}]", "rotary")
    b = g.emit(f"{x}[..., {half}:]", "rotary")
    c = g.same_shape((half,), g.tensor(x).dtype)
    g.emit(g.choice((f"torch.cat([{a} * {c}.cos() - {b} * {c}.sin(), {a} * {c}.sin() + {b} * {c}.cos()], -1)", f"torch.cat([-{b}, {a}], dim=-1) * 0.5 + {x}",
                     f"torch.stack([-{b}, {a}], -1).flatten(-2)")), "rotary")


@rule("embedding module", 0.8)
def embedding(g):
    n, width = g.integer(2, 12), g.integer(1, 16)
    name, made = g.module(f"nn.Embedding({n}, {width})")
    attempt(g, made, f"{name}({g.index(g.choice(((3,), (2, 5), (1,), (2, 0))), n)})", "embedding module")


@rule("routing", 0.7)
def routing(g):
    x = g.floats(low=2, high=2, few=4, fits=lambda t: t.shape[0] > 0 and t.shape[1] > 1)
    w, i = g.emit(f"torch.topk({x}.softmax(-1), 2)", "routing", 2)
    g.emit(g.choice((f"torch.zeros_like({x}).scatter_(1, {i}, {w})", f"torch.zeros_like({x}).scatter(-1, {i}, {w} / {w}.sum(-1, keepdim=True))",
                     f"F.one_hot({i}, {x}.shape[-1]).sum(1)", f"torch.gather({x}, 1, {i}) * {w}")), "routing")


@rule("branch", 0.5)
def branch(g):
    x = g.floats(few=1)
    y = g.same_shape(g.tensor(x).shape, g.tensor(x).dtype)
    condition = g.choice((f"{x}.sum() > 0", f"{x}.mean() < 0.1", f"({x} > 5).any()", f"torch.tensor({g.chance(0.5)})"))
    one, other = g.random.sample(("x * 2 + y", "x.sin() - y", "torch.where(x > 0, x, y)", "x + y.sum()", "(x * y).tanh()", "x.clone()", "y - 1.0"), 2)
    g.emit(f"torch.cond({condition}, lambda x, y: ({one},), lambda x, y: ({other},), ({x}, {y}))[0]" if g.chance(0.7) else
           f"torch.cond({condition}, lambda x, y: {one}, lambda x, y: {other}, ({x}, {y}))", "branch")


@rule("number of the data", 0.4)
def number(g):
    x = g.any(low=1, few=2, fits=lambda t: t.shape[0] >= 2)
    t = g.tensor(x)
    at = g.index((1,), min(t.shape[0], 5))
    n = g.emit(f"{at}.item()", "number of the data")
    g.emit(f"torch._check({n} >= 0)", "number of the data", 0)
    g.emit(f"torch._check({n} < {x}.shape[0])", "number of the data", 0)
    g.emit(g.choice((f"{x}.select(0, {n})", f"{x}[{n}]", f"{x} * {n}", f"torch.zeros({n}).sum() + {x}", f"{x}[:{n}].sum()", f"torch.arange({n}).sum()", f"{x}.narrow(0, {n}, 1)")), "number of the data")


@rule("random without chance", 0.6)
def random_without_chance(g):
    """Random operators whose result is known all the same."""
    x = g.floats()
    shape = list(g.tensor(x).shape)
    g.emit(g.choice((f"torch.rand({shape}) < 1.5", f"torch.randn({shape}) * 0", f"torch.bernoulli(torch.ones({shape}))", f"torch.bernoulli({x} * 0)", f"torch.randint(3, 4, {shape})",
                     f"torch.randint_like({x}, 2, 3)", f"torch.randperm(1)", f"torch.randperm(7).sort().values", f"torch.normal({x}, 0.0)", f"torch.rand_like({x}) * 0 + {x}",
                     f"F.dropout({x}, 0.0, training=True)", f"F.dropout({x}, 1.0, training=True)", f"F.dropout({x}, 0.5, training=False)", f"torch.multinomial(torch.tensor([0.0, 1.0, 0.0]), 1)",
                     f"torch.empty({shape}).uniform_(0, 1) >= 0", f"torch.zeros({shape}).exponential_() >= 0", f"torch.randn_like({x}).isfinite()",
                     f"torch.zeros({shape}).bernoulli_(1.0)", f"torch.zeros({shape}).normal_(2.0, 0.0)", f"F.alpha_dropout({x}, 0.5, training=False)", f"nn.Dropout(0.5).eval()({x})",
                     f"F.dropout2d({x}, 0.5, training=False)", f"F.feature_alpha_dropout({x}, 0.2, training=False)")), "random without chance")


@rule("rare", 0.8)
def rare(g):
    """What models hold rarely, and no other rule makes."""
    kind = g.integer(1, 5)
    if kind == 1:
        k, n = g.choice((2, 3)), g.integer(1, 2)
        size = g.integer(k, k + 4)
        columns = size - k + 1
        x = g.same_shape((n, 2 * k * k, columns * columns), values.dtype_of(g.float))
        return g.emit(f"F.fold({x}, {size}, {k})", "rare")
    if kind == 2:
        x = g.same_shape((g.integer(2, 9), g.integer(1, 6)), values.dtype_of(g.float))
        rows = g.tensor(x).shape[0]
        weights = f", per_sample_weights={g.same_shape((5,), g.tensor(x).dtype)}" if g.chance(0.3) else ""
        return g.emit(f"F.embedding_bag({g.index((5,), rows)}, {x}, torch.tensor([0, 2, 2]), mode='{'sum' if weights else g.choice(('sum', 'mean', 'max'))}'{weights})", "rare")
    if kind == 3:
        x = g.floats(low=2, high=2, few=1)
        return g.emit(g.choice((f"F.affine_grid({x}[:1].sum() * torch.ones(2, 2, 3), (2, 1, 3, 4), align_corners={g.chance(0.5)})", f"torch.linalg.norm({x}, 1)", f"torch.linalg.norm({x}, float('inf'))",
                                f"torch.linalg.matrix_norm({x}, 1)", f"torch.cov({x})", f"torch.vander({x}[0])")), "rare")
    if kind == 4:
        x = g.floats(low=3, high=4, few=1)
        channels = g.tensor(x).shape[1]
        return g.emit(g.choice((f"F.prelu({x}, {g.same_shape((channels,), g.tensor(x).dtype)})", f"F.local_response_norm({x}, 2)", f"F.lp_pool1d({x}, 2, 2)" if g.tensor(x).dim() == 3 else f"F.lp_pool2d({x}, 2, 2)",
                                f"torch.native_group_norm({x}, None, None, {g.tensor(x).shape[0]}, {channels}, {g.tensor(x)[0, 0].numel()}, 1, 1e-5)[0]")), "rare")
    x = g.any(low=1, few=1)
    g.emit(g.choice((f"torch.trapezoid({x})", f"torch.cumulative_trapezoid({x})", f"torch.nn.functional.one_hot({g.index((3,), 4)})",
                     f"torch.isin({x}, {g.any(1, 1)})", f"torch.bucketize({x}, torch.tensor([-1.0, 0.0, 2.0]))", f"{x}.new_empty(3).fill_(2)", f"torch.empty_strided((2, 3), (3, 1)).zero_()",
                     f"torch.logspace(0, 1, 4)", f"torch.signbit({x}).sum()")), "rare")
