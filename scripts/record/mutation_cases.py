"""Cases of graphs that write: in-place operators, views of what is written, mutated inputs and buffers, caches. operator_cases.py
calls add(family), which registers them with it."""
import math

import torch
import torch.nn.functional as F

aten = torch.ops.aten


def mutations(c):
    def add_(x, y):
        x = x.clone()
        x.add_(y)
        return x * 2
    c.case("add_", add_, c.randn(4, 5), c.randn(5))

    def chain(x):
        y = x * 2
        y.mul_(3).relu_()
        y[1:3].fill_(7.0)
        return y + 1
    c.case("chain", chain, c.randn(4, 5))

    def copy(x, y):
        z = torch.zeros_like(x)
        z[:, 1].copy_(y)
        return z
    c.case("copy_", copy, c.randn(4, 5), c.randn(4))

    def masked(x, m):
        y = x.clone()
        y.masked_fill_(m, 0.0)
        return y
    c.case("masked_fill_", masked, c.randn(4, 5), c.bools(4, 5))
    mutated_inputs(c)
    writes_through_views(c)
    in_place_operators(c)
    caches(c)


def statements(text):
    """A function of x, y, .. that runs `text`."""
    space = {"torch": torch}
    exec("def f(x, y=None, z=None, w=None):\n    " + text.replace("; ", "\n    "), space)
    return space["f"]


def mutated_inputs(c):
    def case(name, text, *inputs):
        c.case(name, statements(text), *inputs)
    case("input_returned", "x.add_(y); return x, x.view(-1), x * 2", c.randn(3, 5), c.randn(5))
    case("input_view_returned", "x.mul_(2); v = x[1:, ::2]; v.sub_(1); return v", c.randn(3, 5))
    case("input_twice", "x.add_(1); a = x * 1; x[0] = 0; x.mul_(y); return a", c.randn(3, 4), c.randn(4))
    case("input_old_value", "a = x.clone(); b = x[1].clone(); x[1] = y; return a + x, b", c.randn(3, 4), c.randn(4))
    case("two_inputs", "x.copy_(y); y.add_(x); return x - y", c.randn(3, 4), c.randn(3, 4))
    case("swapped", "a = x.clone(); x.copy_(y); y.copy_(a); return a", c.randn(7), c.randn(7))
    case("zero_dim", "x.add_(1); y.copy_(x * 2); return y + x", c.ints(), c.randn())
    case("empty", "x.mul_(2); x[:, 1:1] = 3; return x.sum()", c.randn(0, 3))
    case("empty_region", "x[2:2].add_(1); x[:, 5:] = 7; return x * 1", c.randn(3, 5))
    case("permuted", "x.add_(1); x[0, 1:] = 5; x.t()[2].mul_(3); return x.sum(0)", c.randn(3, 5).t().contiguous().t())
    case("converted", "x.copy_(y); z.copy_(y); return x * 2, z", c.randn(3, 4, dtype=torch.float16), c.randn(4), c.ints(3, 4))
    case("half", "x.mul_(1.1); x[1].add_(y); return x", c.randn(3, 64, dtype=torch.bfloat16), c.randn(64, dtype=torch.bfloat16))
    case("bools", "x[y > 0] = True; x.logical_not_(); return x", c.bools(4, 5), c.randn(4, 5))
    case("overlap", "x[1:] = x[:-1].clone(); return x", c.randn(300))
    case("overlap_back", "x[:-1] = x[1:].clone(); return x", c.randn(3, 5))
    case("reversed_rows", "x.copy_(x.flip(0)); return x", c.randn(5, 3))
    case("transposed_self", "x.copy_(x.t().clone()); return x", c.randn(40, 40))
    case("read_before", "s = x.sum(0); x[0] = s; t = x.sum(1); x[:, 0] = t; return s, t", c.randn(3, 3))
    case("reads_itself", "x[:2].mul_(3); x[1:3] += x[2:4].clone(); return x * 1", c.randn(5, 4))
    case("reads_itself_reversed", "x[0:2] = x[0:2].flip(0); return x", c.randn(3, 4))
    case("index_reads_itself", "x[x[:3].clone()] += 1; return x", torch.tensor([0, 2, 1, 4, 3]))
    case("old_view_needed", "a = x[:, 1:3] * 1; x[:, 2] = y; return a, a + x[:, 1:3]", c.randn(4, 5), c.randn(4))
    case("loop", """
    for t in range(4): x[t] = torch.tanh(x[t - 1] + y)
    return x[3], x[:2] * 2""", c.randn(4, 5), c.randn(5))
    case("histogram", "x[y] = x[y] + 1; x.scatter_add_(0, y, torch.ones_like(y)); return x * 1", c.ints(6), torch.tensor([1, 4, 2]))
    case("strided_regions", "x[::2, 1::3] = y; x[-1] = -1; x[:, -2:] = x[:, :2]; return x.sum(0)", c.randn(6, 8), c.randn(3, 3))
    case("fresh", "z = torch.zeros(5, 5); z[torch.arange(5), torch.arange(5)] = y; z[:, x[0] > 0] = 2; z[1] = y; z[torch.tensor([3, 0])] = x[:2]; return z, z.t() @ z",
         c.randn(3, 5), c.randn(5))
    case("old_matrix", "a = x @ y; x[0] = 0; return a + x @ y", c.randn(4, 4), c.randn(4, 4))


def writes_through_views(c):
    def case(name, text, *inputs):
        c.case("view_" + name, statements("x = x * 1.5; " + text + "; return x, x.sum(0)"), *inputs)
        c.case("view_" + name + "_of_input", statements(text + "; return x * 1"), *inputs)
    x = c.randn(4, 6)
    case("slice", "x[1:4:2, 3:].add_(1); x[-2:].mul_(2)", x)
    case("select", "x[1].copy_(y); x[:, -1].fill_(3); x[2, 3] = 7", x, c.randn(6))
    case("reshape", "x.view(2, 2, 6)[1, 0].zero_(); x.flatten()[5:9].add_(1); x.unflatten(1, (2, 3))[:, 1, 2] = 4", x)
    case("permute", "x.t()[1:3].mul_(2); x.view(2, 2, 6).permute(2, 0, 1)[:, 1].sub_(1); x.transpose(0, 1).add_(x.t() * 2)", x)
    case("unsqueeze", "x.unsqueeze(1)[:, 0, 2:].add_(1); x[None, :, 0:1].squeeze(-1).squeeze(0).neg_()", x)
    case("diagonal", "x.diagonal().fill_(3); x.diagonal(1).add_(1); x.diagonal(-2, 1, 0).mul_(2); x.diagonal(9).zero_()", x)
    case("diagonal_3d", "v = x.view(4, 2, 3); v.diagonal(0, 2, 0).add_(1); v.diagonal(1, 0, 2).mul_(3)", x)
    case("parts", "a, b = x.split(3, 1); a.add_(1); p, q, r = x.chunk(3, 1); q.copy_(r); x.unbind(0)[2].mul_(2); x.split_with_sizes([1, 3])[1].neg_()", x)
    case("narrow", "x.narrow(1, 2, 3).copy_(y); x.narrow(0, -1, 1).add_(1)", x, c.randn(3))
    case("as_strided", "torch.as_strided(x, (3, 2), (6, 2), 1).add_(1); v = torch.as_strided(x, (5,), (5,)); x.mul_(2); v.neg_()", x)
    case("as_strided_of_view", "torch.as_strided(x[1:], (2, 2), (2, 7)).add_(1); x.add_(1); torch.as_strided(x.t()[1:], (4,), (3,)).zero_()", x)
    case("chain", "v = x[1:]; w = v.t()[2:5]; u = w[1:, 1]; u.add_(1); v.mul_(2); w.sub_(1); u.neg_()", x)
    case("siblings", "a = x[:3]; b = x[1:]; a.add_(1); b.mul_(a.sum()); a.sub_(b[0].clone())", x)
    case("expanded_read", "e = x[:, :1].expand(4, 3); x.add_(1); x[:, 3:].add_(e)", x)
    case("whole", "x[:].add_(1); x[:, :][...].mul_(2); x.view(4, 6).sub_(1); x.detach().neg_()", x)
    c.case("view_bits", statements("x.view(torch.float32)[1:].neg_(); x.view(torch.float32)[:, 2].mul_(2); return x, x // 2"),
           c.ints(4, 6, low=2**29, high=2**30, dtype=torch.int32))


def in_place_operators(c):
    def case(name, text, *inputs):
        c.case("op_" + name, statements("x = x * 1; " + text + "; return x"), *inputs)
    x, y, index = c.randn(4, 5), c.randn(4, 5), torch.tensor([2, 0, 2])
    case("unary", "x.abs_().add_(0.5).log_().exp_().sqrt_().rsqrt_().reciprocal_().sin_().tanh_().sigmoid_()", x)
    case("activations", "torch.relu_(x); torch.nn.functional.silu(x, inplace=True); torch.nn.functional.hardtanh_(x, -0.3, 0.8); torch.nn.functional.leaky_relu_(x, 0.2); torch.nn.functional.elu_(x)", x)
    case("arithmetic", "x.sub_(y, alpha=2).mul_(y).div_(2).pow_(2).remainder_(1.5).add_(1).fmod_(1.1).floor_divide_(0.3).clamp_(-1, 2).lerp_(y, 0.3)", x, y)
    case("second_names", "x.multiply_(2).divide_(y.abs() + 1).true_divide_(3).negative_().subtract_(y, alpha=2).divide_(0.7, rounding_mode='floor')", x, y)
    case("comparisons", "x.lt_(y).mul_(2); x.greater_(1).add_(1).not_equal_(1)", x, y)
    case("integers", "x.mul_(3); x.bitwise_xor_(5).bitwise_left_shift_(1); x &= 30; x |= 1; x ^= 2; x <<= 1; x >>= 1; x //= 3; x %= 7", c.ints(4, 5))
    case("fused", "x.addcmul_(y, y, value=0.5).addcdiv_(y, y.abs() + 1).addmm_(y, y.t() @ x)", x, y)
    case("fills", "x[0].zero_(); x[1].fill_(2); x[2].fill_(y[0, 0]); x.masked_fill_(y > 1, -1).masked_fill_(y < -1, y[0, 1]); x.tril_().add_(1).triu_(-2)", x, y)
    case("fill_diagonal", "x.fill_diagonal_(2); y = y * 1; y.fill_diagonal_(3, wrap=True); x.add_(y.sum()); z = y.view(2, 2, 2, 2, 2); z.fill_diagonal_(7); x.mul_(y[0, 0])", x, c.randn(16, 2))
    case("index", "x.index_add_(0, z, y[:3], alpha=2).index_fill_(1, z, 9).index_copy_(0, z[1:], y[1:3])", x, y, index)
    case("index_fill_tensor", "x.index_fill_(0, z, y[0, 0]); v = x[0, 0]; v.index_fill_(0, z[1], 4.5)", x, y, index)
    case("scatter", "x.scatter_(1, z, y); x.scatter_(0, z, 2.5); x.scatter_add_(0, z, y)", x, y, torch.tensor([[0, 1], [3, 2], [1, 0]]))
    case("index_put", "x[z] = y[0]; x[z, z] += 1; x[:, z[1:]] = y[:, :2]; x[1, z] = 4; x.index_put_((z, z), y[0, :3], accumulate=True)", x, y, index)
    case("masks", "x[x > 0.5] = 0; x[y[:, 0] > 0] = y[1]; x[:, y[0] > 0] = -3; x.index_put_((x < -1,), y[0, 0], accumulate=True)", x, y)
    case("masked_scatter", "x.masked_scatter_(y > 0, z); x.masked_scatter_(y[0] < 0, y); x[y > 1] = z[:w]", x, y, c.randn(30), int((y > 1).sum()))
    case("shapes", "x.unsqueeze_(0).transpose_(1, 2).squeeze_(0).t_().add_(1).swapaxes_(0, 1).requires_grad_(False).detach_().mul_(2).as_strided_((3, 2), (2, 5), 1).sub_(1).squeeze_()", x)
    case("dropout_off", "torch.dropout_(x, 0.5, False); x.add_(1); torch.nn.functional.dropout(x, 0.5, False, inplace=True).mul_(2)", x)
    case("copies", "x.copy_(y[0]); x[:, 1:3].copy_(z); x.copy_(w)", x, y, c.ints(2), c.bools(4, 1))
    case("constant", "t = torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0]); t.mul_(x[0]); t[1:3] = 9; x.add_(t)", x)
    c.case("scatter_functional", lambda x, y: (torch.diagonal_scatter(x, y[:, 0], 1), torch.slice_scatter(x, y[:, :2], 1, 1, 3),
                                               torch.select_scatter(x, y[0], 0, -1),
                                               torch.as_strided_scatter(x, y[0, :3], (3,), (4,), 2)), x, y)


def caches(c):
    """A cache that one step is written to, read whole by attention."""
    def attention(q, k, v):
        return torch.softmax(q @ k.transpose(-2, -1) * 0.5, -1) @ v
    k, v, q, new = c.randn(2, 3, 8, 4), c.randn(2, 3, 8, 4), c.randn(2, 3, 1, 4), c.randn(2, 3, 1, 4)
    at = torch.tensor([5])

    def index_copy(k, v, q, new, at):
        k.index_copy_(2, at, new * 2)
        v.index_copy_(2, at, new)
        return attention(q, k, v)
    c.case("cache_index_copy", index_copy, k, v, q, new, at)

    def index_put(k, v, q, new, at):
        k[:, :, at] = new
        v[:, :, at] = new.tanh()
        return attention(q, k, v)
    c.case("cache_index_put", index_put, k, v, q, new, at)

    def slices(k, v, q, new):
        k[:, :, 3:4] = new
        v.narrow(2, 3, 1).copy_(new)
        v.select(2, 4).copy_(new[:, :, 0] + 1)
        return attention(q, k, v)
    c.case("cache_slices", slices, k, v, q, new)

    def layers(cache, q, new, at):
        out = q
        for layer in range(2):
            cache[layer, 0].index_copy_(1, at, new[0] + layer)
            cache[layer, 1, :, 2:3] = new[1]
            out = out + attention(out, cache[layer, 0], cache[layer, 1])
        return out
    c.case("cache_of_layers", layers, c.randn(2, 2, 3, 8, 4), q[0], new, at)

    def transposed(k, v, q, new, at):
        k.transpose(1, 2)[:, at] = new.transpose(1, 2)
        v.view(6, 8, 4)[:, 2:3].copy_(new.view(6, 1, 4))
        return attention(q, k, v)
    c.case("cache_transposed", transposed, k, v, q, new, at)

    def old_needed(k, q, new, at):
        before = k.clone()
        half = k[:, :, :4] * 0.5
        k.index_copy_(2, at, new)
        return attention(q, k, before), half
    c.case("cache_old_needed", old_needed, k, q, new, at)

    def counted(k, q, new, count):
        k.index_copy_(2, count, new)
        count.add_(1)
        k.index_copy_(2, count, new * 2)
        count.add_(1)
        return attention(q, k, k), count * 2
    c.case("cache_counted", counted, k, q, new, torch.tensor([2]))

    def from_itself(k, q, at):
        k.index_copy_(2, at, k.sum(2, keepdim=True))
        k[:, :, 1:3] = k[:, :, 2:4].clone()
        return attention(q, k, k)
    def buffered(m, q, new):
        m.keys.index_copy_(2, m.count, new * 2)
        m.values[:, :, m.count] = new
        m.count.add_(1)
        return attention(q, m.keys, m.values)
    c.case("cache_buffers", buffered, q, new, buffers={"keys": k, "values": v, "count": torch.tensor([3])})

    def returned(m, new):
        m.keys[:, :, 1:2] = new
        return m.keys, m.keys[:, 1] * 2, m.keys.sum()
    c.case("cache_returned", returned, new, buffers={"keys": k})

    c.case("cache_from_itself", from_itself, k, q, at)


def add(family):
    family(mutations)
