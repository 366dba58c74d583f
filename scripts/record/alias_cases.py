"""Cases of results that are, or are not, their operands' memory: what is written through one is read through the other.
operator_cases.py calls add(family), which registers them with it."""
import torch
import torch.nn.functional as F


def function(lines, results):
    """A function of x, y, .. that runs `lines`."""
    space = {"torch": torch, "F": F}
    body = "\n    ".join(lines)
    exec(f"def f(x, y=None, z=None, w=None):\n    {body}\n    return {results}", space)
    return space["f"]


def aliases(c):
    def sees(name, operators, *inputs, write="mul_(2)"):
        """Each of `operators` of x: written through, then the operand is; both are read after the other's write."""
        lines, results = [], []
        for i, operator in enumerate(operators):
            lines += [f"v{i} = {operator}", f"v{i}.{write}", f"r{i} = x * 1", "x.add_(1)", f"s{i} = v{i} * 1"]
            results += [f"r{i}", f"s{i}"]
        c.case(name, function(lines, ", ".join(results)), *inputs)

    def text(name, lines, results, *inputs):
        c.case(name, function(lines.split("; "), results), *inputs)
    x, y = c.randn(2, 3, 4), c.randn(2, 3, 4)
    m, n = c.randn(3, 4), c.randn(4, 3)
    sees("reshapes", ["x.view(6, 4)", "x.view_as(y)", "x.reshape(-1)", "x.reshape_as(y)", "x.flatten(1)", "x.ravel()",
                      "x.unflatten(2, (2, 2))", "torch.ops.aten._reshape_alias(x, (4, 6), (6, 1))", "torch.ops.aten._unsafe_view(x, (3, 8))"], x, y)
    sees("conversions", ["x.contiguous()", "x.to(torch.int32)", "x.to(y)", "x.type_as(y)", "x.int()", "x.cpu()", "x.detach()", "x.to('cpu')",
                         "torch.positive(x)", "torch.resolve_conj(x)", "torch.resolve_neg(x)", "torch.conj(x)", "x.view(torch.float32).view(torch.int32)"],
         c.ints(2, 3, dtype=torch.int32), c.ints(2, dtype=torch.int32))
    sees("dropouts_off", ["F.dropout(x, 0.5, False)", "F.dropout(x, 0.0, True)", "F.dropout2d(x, 0.5, False)", "F.alpha_dropout(x, 0.5, False)",
                          "F.feature_alpha_dropout(x, 0.5, False)"], x)
    sees("transposes", ["x.t()", "x.T", "x.mT", "x.mH", "x.H", "x.adjoint()", "x.permute(1, 0)", "x.transpose(0, 1)", "x.swapaxes(0, 1)", "x.swapdims(1, 0)",
                        "x.movedim(0, 1)", "torch.moveaxis(x, (0, 1), (1, 0))"], m)
    sees("dimensions", ["x.squeeze()", "x.squeeze(0)", "x.squeeze((0, 1))", "x.unsqueeze(1)", "torch.atleast_1d(x)", "torch.atleast_2d(x)",
                        "torch.atleast_3d(x)", "torch.atleast_3d(x, y)[0]", "torch.atleast_1d((y, x))[1]"], c.randn(1, 3), c.randn(2))
    sees("parts", ["x.chunk(2, 1)[1]", "x.split(2, 2)[0]", "x.split([1, 2], 1)[1]", "x.split_with_sizes([1, 3], 2)[1]", "x.tensor_split(3, 2)[0]",
                   "x.tensor_split((1, 3), 2)[1]", "x.hsplit(3)[1]", "x.vsplit(2)[0]", "x.dsplit((1, 2))[1]", "x.unbind(1)[2]", "x.narrow(2, 1, 2)",
                   "x.select(1, -1)", "x[:, 1:, ::2]", "torch.unsafe_chunk(x, 2, 2)[1]", "torch.unsafe_split(x, 1, 1)[2]"], x)
    sees("strided", ["x.diagonal()", "x.diagonal(1, 0, 2)", "x.unfold(2, 2, 2)", "x.as_strided((2, 3), (4, 5), 2)", "x[1].as_strided((2, 2), (3, 1))"], x)
    sees("einsum", ["torch.einsum('ij->ji', x)", "torch.einsum('ij->ij', x)", "torch.einsum('...j->j...', x)", "torch.einsum('ii->i', x[:, :3])",
                    "torch.einsum('ij', x)"], m)
    sees("einsum_copies", ["torch.einsum('ij->i', x)", "torch.einsum('ij,ij->ij', x, y)", "torch.einsum('ij,->ji', x, y[0, 0])"], m, c.randn(3, 4))
    sees("grids", ["torch.meshgrid(x[:1], x[1:2], indexing='ij')[0]", "torch.meshgrid(x, indexing='ij')[0]", "torch.meshgrid(x, x[:1], indexing='xy')[0]",
                   "torch.meshgrid(x[0], x[:1], indexing='ij')[1]", "torch.cartesian_prod(x)"], c.randn(4))
    sees("expanded", ["torch.broadcast_tensors(x, y)[0]", "torch.broadcast_tensors(y[0], x)[1]", "x.expand(3, 4)", "x.expand(1, -1, 4)", "x.expand_as(y)",
                      "x.broadcast_to(3, 4)", "x.sum_to_size(3, 4)", "x[:1].sum_to_size(4)"], m, c.randn(3, 4))
    text("expanded_reads", "a = x[:1].expand(3, 4); b, d = torch.broadcast_tensors(x[1], y); e = x[:, :1].expand_as(y); g = torch.meshgrid(x[0], x[1], indexing='xy'); x.add_(1)",
         "a * 1, b * 1, d * 1, e * 1, g[0] * 1, g[1] * 1", m, c.randn(3, 4))
    text("expanded_writes", "v = x[:1].expand(3, 4); v[y > 0] = 5; a = x * 1; w = x[:, 1:2].expand(3, 4); w.masked_fill_(y > 1, -2); b = v * 1; u = x[:, 3].expand(2, 3); u.index_fill_(1, z, 7.0)",
         "a, b, x * 1, u * 1", m, c.randn(3, 4), torch.tensor([2, 0]))
    text("expanded_special", "v = x.expand(2, 5); v[y] = -0.0", "x.reciprocal(), v * 1",
         torch.tensor([0.0, float("nan"), 1.0, -0.0, float("inf")]), torch.tensor([[True, False, False, False, False], [False, False, True, False, False]]))
    text("grid_written", "v, w = torch.meshgrid(torch.arange(2), torch.arange(3), indexing='xy'); a = v & 3; v[..., 1::2][v[..., 1::2] > 0.5] = 0; w[:, :1][w[:, :1] > 1] = 9",
         "a + x, v + x, w + x", c.ints(3, 2))
    sees("copies", ["x.clone()", "x.to(torch.float32, copy=True)", "x.t().contiguous()", "x.t().reshape(-1)", "x[:, ::2].contiguous()", "x.rot90(0)",
                    "x.roll(0, 0)", "x.repeat(1, 1)", "x.tile((1,))", "F.pad(x, (0, 0))", "x.nan_to_num()", "x.pow(1)", "x * 1", "x - 0", "torch.cat([x])", "torch.hstack([x])",
                    "torch.column_stack([x])", "torch.block_diag(x)", "x.flip(())", "x.sum(())", "x.masked_fill(x > 99, 1)", "x.to(torch.float64).to(torch.float32)",
                    "x.diff(0)", "x.index_select(0, torch.arange(3))", "x.triu(-9)", "x.clamp(-99)", "F.hardtanh(x, -99, 99)"], m)
    sees("copies_4d", ["F.pixel_shuffle(x, 1)", "F.pixel_unshuffle(x, 1)", "torch.channel_shuffle(x, 1)", "torch.channel_shuffle(x, 2)", "F.interpolate(x, (2, 2), mode='nearest')",
                       "x.to(memory_format=torch.channels_last)", "x.contiguous(memory_format=torch.channels_last)", "F.avg_pool2d(x, 1)", "F.max_pool2d(x, 1)"], c.randn(1, 4, 2, 2))
    sees("copies_integer", ["x.round()", "x.ceil()", "x.trunc()", "x.nan_to_num()", "x.abs()", "x.bitwise_or(0)", "x + 0", "x // 1", "x.to(torch.int64)"], c.ints(5))
    # What was written lies otherwise in its value than in PyTorch's memory.
    text("after_gaps", "a = x[:, ::2]; a.mul_(2); b = a.contiguous(); b.add_(1); d = a.reshape(-1); d.add_(1); e = a.flatten(); e.mul_(3); g = a.T.ravel(); g.sub_(1)",
         "a * 1, b, d, e, g", m)
    text("after_copy", "x.copy_(y.t()); v = x.view(-1); v[1:5].add_(1); w = x.reshape(2, 6); w[0].mul_(2); u = x.contiguous(); u[2].neg_(); t = x.T.contiguous(); t.add_(5)",
         "v * 1, w * 1, u * 1, t", m, n)
    text("after_copy_strided", "x.copy_(y.t()); v = x.as_strided((2, 3), (5, 1), 1); v.add_(1); a = x.detach(); a.as_strided_((4,), (3,), 2).mul_(2)", "v * 1, a * 1", m, n)
    text("after_transposed_copy", "a = x.t(); a.copy_(y.t()); a.t()[0].add_(1); b = a.t().view(-1); b[2:].mul_(2); a[0].sub_(1); d = a.reshape(-1); d.add_(7)",
         "a * 1, b * 1, d", c.randn(3, 3), c.randn(3, 3))
    text("after_channels_last", "x.copy_(y.to(memory_format=torch.channels_last)); v = x.flatten(1); v[:, 3:].add_(1); w = x.permute(0, 2, 3, 1).reshape(4, 3); w.mul_(2)",
         "v * 1, w", c.randn(1, 3, 2, 2), c.randn(1, 3, 2, 2))
    text("numbers", "x.copy_(3); x[1].copy_(2.5); y.copy_(True); y[:1].copy_(-2.7); x.t()[0].copy_(1)", "x * 1, y * 1", m, c.ints(4))


def memory(c):
    """One buffer in two places, updates that read what they write, nothing at all, signs of zero."""
    r = c.randn
    c.case("conv_twice", lambda x, w: (lambda v: torch.stack([v, v], 2))(F.conv1d(x, w)), r(2, 3, 5), r(4, 3, 2))
    c.case("scan_twice", lambda x: (lambda v: (torch.stack([v, v], 1), torch.cat([v, v], 0), torch.cat([v.t(), v.t()], 1)))(x.cumsum(0)), r(3, 4))
    c.case("sort_twice", lambda x: (lambda v: (torch.stack([v[0], v[0]], 1), torch.stack([v[1], v[1], v[1]], 0)))(torch.sort(x, dim=0, stable=True)), r(3, 4))
    c.case("product_parts", lambda x, w: (lambda v: torch.cat([v.view(2, 2, 8), v.view(2, 2, 8)], 2) @ torch.cat([w, w]))(x @ w), r(4, 8), r(8, 8))
    c.case("sum_twice", lambda x: (lambda v: (torch.cat([v, v.flip(0), v[1:]]), torch.stack([v, v], 1)))(x.sum(-1)), r(4, 9))
    index = c.ints(8, 8, low=0, high=8)
    fill = lambda x: torch.index_fill(x, -1, torch.tensor([7, 3]), -2)
    c.case("scatter_own_source", lambda x, i: (lambda v: torch.scatter_reduce(v, -1, i, v, "mean", include_self=True))(fill(x)), r(8, 8), index)
    c.case("scatter_add_own_source", lambda x, i: (lambda v: torch.scatter_add(v, 1, i, v))(fill(x)), r(8, 8), index)
    c.case("scatter_own_view", lambda x, i: (lambda v: torch.scatter(v, 0, i[:1], v[1:2]))(fill(x)), r(8, 8), index)
    c.case("scatter_own_index", lambda i: (lambda v: torch.scatter_add(v, 1, v, torch.ones_like(v)))(torch.index_fill(i, 1, torch.tensor([2]), 5)), index)
    c.case("index_put_own_source", lambda x: (lambda v: v.index_put((torch.tensor([0, 1, 2, 3]),), v.flip(0)[:4]))(fill(x)), r(8, 8))
    c.case("index_put_own_index", lambda i: (lambda v: v.index_put((v[:4],), v[4:] * 2, accumulate=True))(torch.index_fill(i[0], 0, torch.tensor([2]), 5)), index)
    c.case("index_add_own_source", lambda x: (lambda v: v.index_add(0, torch.tensor([1, 2, 0, 0, 3, 3, 7, 6]), v, alpha=2))(fill(x)), r(8, 8))
    c.case("index_copy_own_source", lambda x: (lambda v: v.index_copy(0, torch.tensor([1, 2, 3, 0]), v[:4]))(fill(x)), r(8, 8))
    c.case("cat_empty", lambda x: (torch.cat([x, x], 1), torch.vstack([x.t(), x.t()]), torch.stack([x, x]), torch.cat([x, x[:0]], 0), torch.hstack([x, x])), r(3, 0))
    c.case("cat_empty_then", lambda x, y: (torch.cat([x, x], 1).sum(1), torch.cat([torch.cat([x, x], 1), y], 1), torch.cat([x.int(), x], 0) @ y[:0]), r(3, 0), r(3, 2))
    c.case("zero_dim", lambda x: (x.flip(0), x.flip(-1), x.flip(()), x.cumsum(0), x.sort(0)[0], x.softmax(0), x.sum(0), x.amax(-1), x.argmax(0), x.unsqueeze(-1), x.squeeze(-1),
                                  x.unfold(0, 1, 1), x.index_select(0, torch.tensor(0)), x.gather(0, torch.tensor(0)), x.scatter(0, torch.tensor(0), 3.0), x.index_fill(0, torch.tensor([0]), 4.0),
                                  x.index_add(0, torch.tensor([0]), x), x.cummax(0)[0], x.logcumsumexp(0), x.topk(1)[0], x.all(0), x.transpose(0, -1), x.movedim(0, 0), torch.cat([x[None], x[None]]),
                                  x.repeat_interleave(2), x.expand(3), x.logsumexp(0), x.cumprod(-1), x.var(0, correction=0), x.norm(dim=0)), torch.tensor(2.0))
    c.case("zeros_divided", lambda x: (x / 0.0, x / -0.0, x * 0.0, x * -0.0), torch.tensor([1.0, -2.0, 3.5]))
    c.case("zeros_full", lambda x: (1 / torch.full_like(x, 0.0), 1 / torch.full_like(x, -0.0), torch.copysign(x, 0.0), torch.copysign(x, torch.full((), -0.0))), torch.tensor([1.0, -2.0]))
    c.case("zeros_subtracted", lambda x: (1 / (x - -0.0), 1 / (x - 0.0), 1 / (x + -0.0), 1 / (x + 0.0), torch.where(x > 9, 0.0, -0.0).reciprocal(), F.pad(x, (1, 1), value=-0.0).reciprocal()),
           torch.tensor([0.0, -0.0, 2.0]))


def add(family):
    family(aliases)
    family(memory)
