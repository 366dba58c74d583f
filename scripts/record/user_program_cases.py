"""Cases of programs that users write and that once went wrong or were refused here; tests/cases/user_programs.

    python3 scripts/record/user_program_cases.py [--missing]      what is recorded already stays
"""
import sys

import torch
import torch.nn.functional as F

from recorder import Family


def masks_beside_indices(c):
    mask, at = torch.tensor([True, False, True, True, False]), torch.tensor([1, 3, 0])
    x, values = c.randn(5, 4), c.randn(3)

    def put(*indices, shape=(5, 4), accumulate=False):
        def f(x, mask, at, values):
            given = tuple(mask if i == "mask" else at if i == "at" else torch.tensor(i) if i is not None else slice(None) for i in indices)
            if accumulate:
                return x.view(shape).index_put(given, values, True)
            result = x.view(shape).clone()
            result[given] = values
            return result

        return f

    c.case("mask_beside_as_many", put("mask", "at"), x, mask, at, values)
    c.case("mask_beside_as_many_added", put("mask", "at", accumulate=True), x, mask, at, values)
    c.case("mask_beside_one", put("mask", 2), x, mask, at, torch.tensor(7.0))
    c.case("mask_beside_one_of_values", put("mask", [0]), x, mask, at, values)
    c.case("mask_beside_one_added", put("mask", 1, accumulate=True), x, mask, at, values[:1])
    c.case("mask_apart", put("mask", None, 1, shape=(5, 2, 2)), x, mask, at, values[:, None])
    c.case("mask_apart_one", put("mask", None, [1], shape=(5, 2, 2)), x, mask, at, torch.tensor(3.0))
    c.case("mask_of_two_dimensions_beside", lambda x, m, v: x.view(2, 5, 2).index_put((m, torch.tensor([1])), v), x, c.bools(2, 5), torch.tensor(3.0))
    c.case("masks_beside_each_other", lambda x, m, n, v: x.index_put((m, n), v), x, mask, torch.tensor([True, False, True, True]), values)


def activations(c):
    zeros = torch.tensor([1.0, -1.0, 0.0, -2.5]) * 0
    c.case("relu_of_negative_zero", lambda x: (torch.signbit(F.relu(x)), F.relu(x)), zeros)
    c.case("rrelu_functional", lambda x, noise: torch.ops.aten.rrelu_with_noise_functional(x, noise, 0.1, 0.3, False), c.randn(3, 5), c.randn(3, 5))


def strided_writes(c):
    def write(x):
        y = torch.as_strided(x, (3, 4), (2, 3), 1)
        z = y * 2
        y.add_(1)
        return z, x.sum(), y

    c.case("as_strided_interleaved_write", write, c.randn(20))


def narrow_sums(c):
    """Comparisons, summed up in integers of 8 and 16 bits."""
    for name, dtype in (("u8", torch.uint8), ("i8", torch.int8), ("i16", torch.int16)):
        x = c.ints(33, 4, high=7, dtype=dtype)
        c.case(f"sum_of_comparisons_{name}", lambda x, t=dtype: ((x > 3).sum(1, dtype=t), (x[0] > 3).sum(dtype=t), torch.where(x > 2, 1, 0).to(t).sum(1, dtype=t)), x)


def attention_written_out(c):
    """A softmax between two products, of 16 bits: names that begin with "written" become one kernel, "unlike" do not."""
    for name, dtype in (("bf16", torch.bfloat16), ("f16", torch.float16)):
        q, k, v = c.randn(2, 3, 5, 16, dtype=dtype), c.randn(2, 3, 7, 16, dtype=dtype), c.randn(2, 3, 7, 16, dtype=dtype)
        mask = c.randn(2, 1, 5, 7, dtype=dtype)
        hidden = mask.masked_fill(torch.arange(7) > 4, float("-inf"))

        def scores(q, k):
            return q @ k.transpose(-2, -1)

        c.case(f"written_plain_{name}", lambda q, k, v: torch.softmax(scores(q, k) / 4, -1) @ v, q, k, v)
        c.case(f"written_masks_{name}", lambda q, k, v, m, n: torch.softmax(scores(q, k) * 0.25 + m + n, -1, dtype=torch.float32).to(v.dtype) @ v, q, k, v, mask, hidden[0, 0])
        c.case(f"written_widened_{name}", lambda q, k, v, m: (torch.softmax((q.float() * 0.5) @ (k.float() * 0.5).transpose(-2, -1) + m.float(), -1) @ v.float()).to(q.dtype), q, k, v, hidden)
        c.case(f"written_batch_{name}", lambda q, k, v, m: torch.bmm(torch.softmax(torch.bmm(q, k.mT) + m, -1), v), q[0], k[0], v[0], mask[0].expand(3, 5, 7))
        c.case(f"unlike_kept_{name}", lambda q, k, v: (lambda w: (w @ v, w))(torch.softmax(scores(q, k) * 0.25, -1)), q, k, v)
        c.case(f"written_scaled_late_{name}", lambda q, k, v, m: torch.softmax((scores(q, k) + m) * 0.25, -1) @ v, q, k, v, mask)
        c.case(f"unlike_numbers_{name}", lambda q, k, v, m: torch.softmax(scores(q, k) + m, -1) @ v, q, k, v, mask > 0)
        c.case(f"unlike_rows_{name}", lambda q, k, v: torch.softmax(scores(q, k), -2) @ v, q, k, v)


def attention_in_other_frames(c):
    """The same: what is added to scores, or takes their place, in other views of them than the products have."""
    bf = torch.bfloat16
    windows, heads, length, depth = 3, 2, 9, 16
    x, weight = c.randn(2 * windows, length, heads * depth, dtype=bf), c.randn(3 * heads * depth, heads * depth, dtype=bf) * 0.2
    bias, mask, logits = c.randn(1, heads, length, length, dtype=bf), c.randn(windows, length, length, dtype=bf), c.randn(heads, 1, 1, dtype=bf)

    def shifted_windows(x, weight, bias, mask, logits=None):
        q, k, v = F.linear(x, weight).reshape(2 * windows, length, 3, heads, depth).permute(2, 0, 3, 1, 4).unbind(0)
        if logits is None:
            s = (q * depth**-0.5).matmul(k.transpose(-2, -1))
        else:
            s = F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).transpose(-2, -1) * torch.clamp(logits, max=4.6).exp()
        s = (s + bias).view(2, windows, heads, length, length) + mask.unsqueeze(1).unsqueeze(0)
        s = F.dropout(F.softmax(s.view(-1, heads, length, length), -1), 0.0, False)
        return s.matmul(v).transpose(1, 2).reshape(2 * windows, length, heads * depth)

    c.case("written_shifted_windows", shifted_windows, x, weight, bias, mask)
    c.case("written_shifted_windows_cosine", shifted_windows, x, weight, bias, mask, logits)
    q5, k5, v5 = (c.randn(2, 3, length, heads, depth, dtype=bf).permute(0, 1, 3, 2, 4) for _ in range(3))
    c.case("written_grids", lambda q, k, v, b: torch.einsum("bghij,bghjd->bghid", F.softmax(torch.einsum("bghid,bghjd->bghij", q, k * 0.25) + b, -1), v), q5, k5, v5, bias)
    c.case("written_operator_of_five", lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, attn_mask=m), q5, k5, v5, mask[None, :, None])


def attention_in_other_words(c):
    """The same: conditions, scales and groups of heads as models write them."""
    bf = torch.bfloat16
    q, k, v = c.randn(2, 4, 6, 16, dtype=bf), c.randn(2, 4, 7, 16, dtype=bf), c.randn(2, 4, 7, 16, dtype=bf)
    hides = torch.arange(7) > torch.tensor([3, 5])[:, None, None, None]
    causal = torch.ones(6, 7, dtype=torch.bool).tril(1)
    lowest = torch.finfo(bf).min
    mask, table = c.randn(2, 1, 6, 7, dtype=bf), c.randn(8, 4, dtype=bf)

    def scores(q, k):
        return q @ k.transpose(-1, -2)

    def many(x, n):
        return x[:, :, None].expand(x.shape[0], x.shape[1], n, *x.shape[2:]).reshape(x.shape[0], -1, *x.shape[2:])

    def low_rows(q, k, v, m):  # rows that the lowest number hides throughout have equal weights
        return torch.softmax(torch.where(m, scores(q, k) * 0.25, lowest), -1) @ v

    def widened(q, k, v, m, n):
        w = torch.where(m, q.float() @ k.float().transpose(-1, -2), torch.full([], torch.finfo(torch.float32).min)) / 4 + n
        return F.dropout(F.softmax(w, -1).to(v.dtype), 0.1, False) @ v

    def alibi(q, k, v, slopes, m):
        s = slopes.baddbmm(q.reshape(8, 6, 16), k.reshape(8, 7, 16).transpose(1, 2), beta=1.0, alpha=0.25).view(2, 4, 6, 7) + m
        return torch.bmm(F.softmax(s, -1, dtype=torch.float32).to(q.dtype).view(8, 6, 7), v.reshape(8, 7, 16))

    def relative(q, k, v, table, at, m):
        s = scores(q, k)
        s = s + (table[at].permute(2, 0, 1)[None] + m)
        return F.dropout(F.softmax(s.float(), -1).type_as(s), 0.1, False) @ v

    def spelled_out(q, k, v):
        s = scores(q, k) * 0.25
        e = torch.exp(s - s.amax(-1, keepdim=True))
        return (e / e.sum(-1, keepdim=True)) @ v

    def grouped(q, k, v):
        return (torch.softmax(q.reshape(2, 2, 2, 6, 16) @ k[:, :, None].transpose(-1, -2) * 0.25, -1) @ v[:, :, None]).reshape(2, 4, 6, 16)

    some = c.bools(2, 1, 6, 7)
    some[:, :, 2] = False
    c.case("written_filled", lambda q, k, v, m: torch.softmax((scores(q, k) * 0.25).masked_fill(m, float("-inf")), -1) @ v, q, k, v, hides)
    c.case("written_filled_low", lambda q, k, v, m: torch.softmax((scores(q, k) * 0.25).masked_fill(m == 0, lowest), -1) @ v, q, k, v, causal.long())
    c.case("written_chosen_low", low_rows, q, k, v, some)
    c.case("written_chosen_and_added", lambda q, k, v, m, n: torch.softmax(torch.where(m, scores(q, k) * 0.25 + n, -1e9), -1) @ v, q, k, v, some, mask)
    c.case("written_chosen_and_added_f16", lambda q, k, v, m, n: torch.softmax(torch.where(m, scores(q, k) * 0.25 + n, -3e4), -1) @ v, q.half(), k.half(), v.half(), some, mask.half())
    c.case("written_chosen_widened", widened, q, k, v, causal[None, None], torch.zeros(2, 1, 1, 7))
    c.case("written_alibi", alibi, q, k, v, c.randn(8, 1, 7, dtype=bf), mask)
    c.case("written_relative", relative, q, k, v, table, c.ints(6, 7, high=8), mask)
    c.case("written_zeros_for_nan", lambda q, k, v, m: torch.nan_to_num(torch.softmax((scores(q, k) * 0.25).masked_fill(m, float("-inf")), -1), 0.0) @ v, q, k, v, ~some)
    c.case("written_spelled_out", spelled_out, q, k, v)
    c.case("written_scaled_factors", lambda q, k, v: torch.softmax((q * 0.5) @ (k * 0.5).transpose(-1, -2), -1) @ v, q, k, v)
    c.case("written_scaled_by_tensors", lambda q, k, v, s, t: torch.softmax(scores(q, k) * s / t, -1) @ v, q, k, v, c.randn(4, 1, 1, dtype=bf), torch.tensor([2.0], dtype=bf))
    c.case("written_taken_away", lambda q, k, v, m: torch.softmax(scores(q, k) * 0.25 - (1 - m) * 10000.0, -1) @ v, q, k, v, (~hides).to(bf))
    c.case("written_of_keys_alone", lambda q, k, v, m: torch.softmax(scores(q, k) * 0.25 + m + 3, -1) @ v, q, k, v, c.randn(7, dtype=bf))
    c.case("written_grouped", grouped, q, k[:, :2], v[:, :2])
    c.case("written_repeated", lambda q, k, v: torch.softmax(scores(q, many(k, 2)) * 0.25, -1) @ many(v, 2), q, k[:, :2], v[:, :2])
    c.case("written_of_two_dimensions", lambda q, k, v: torch.softmax(q @ k.t() / 4, -1) @ v, q[0, 0], k[0, 0], v[0, 0])
    c.case("written_heads_inside", lambda q, k, v: torch.einsum("bhij,bjhd->bihd", torch.softmax(torch.einsum("bihd,bjhd->bhij", q, k) * 0.25, -1), v), *(x.transpose(1, 2).contiguous() for x in (q, k, v)))
    c.case("unlike_high", lambda q, k, v, m: torch.softmax((scores(q, k) * 0.25).masked_fill(m, -2.0), -1) @ v, q, k, v, hides)
    c.case("unlike_capped", lambda q, k, v: torch.softmax(torch.tanh(scores(q, k) * 0.25) * 3, -1) @ v, q, k, v)
    c.case("unlike_negative", lambda q, k, v: torch.softmax(scores(q, k) * -0.25, -1) @ v, q, k, v)


def attention_with_caps(c):
    """The same, scores being capped by a tangent before masks; what happens inside the tangent but scales stays apart."""
    bf = torch.bfloat16
    for name, dtype in (("bf16", bf), ("f16", torch.float16)):
        q, k, v = c.randn(2, 4, 20, 16, dtype=dtype), c.randn(2, 2, 23, 16, dtype=dtype), c.randn(2, 2, 23, 16, dtype=dtype)
        mask = c.randn(2, 1, 20, 23, dtype=dtype)
        causal = torch.ones(20, 23, dtype=torch.bool).tril(3)
        many = lambda x: x[:, :, None].expand(2, 2, 2, 23, 16).reshape(2, 4, 23, 16)
        scores = lambda q, k: q @ k.transpose(-1, -2)

        def as_gemma2(q, k, v, mask):
            s = torch.matmul(q, many(k).transpose(2, 3)) * 0.25
            s = torch.tanh(s / 2.5) * 2.5
            w = F.softmax(s + mask, dim=-1, dtype=torch.float32).to(q.dtype)
            return torch.matmul(F.dropout(w, 0.0, False), many(v)).transpose(1, 2).contiguous()

        c.case(f"written_capped_{name}", lambda q, k, v: torch.softmax(torch.tanh(scores(q, many(k)) * 0.25) * 3, -1) @ many(v), q, k, v)
        c.case(f"written_capped_masks_{name}", as_gemma2, q, k, v, mask)
        c.case(f"written_capped_hides_{name}", lambda q, k, v, m: torch.softmax((torch.tanh(scores(q, many(k)) / 4) * 2).masked_fill(~m, float("-inf")), -1) @ many(v), q, k, v, causal)
        c.case(f"written_capped_low_{name}", lambda q, k, v, m, n: torch.softmax(torch.where(m, torch.tanh(scores(q, many(k)) / 4) * 2 + n, -3e4), -1) @ many(v), q, k, v, causal, mask)
        c.case(f"unlike_capped_masks_{name}", lambda q, k, v, m: torch.softmax(torch.tanh(scores(q, many(k)) * 0.25 + m) * 3, -1) @ many(v), q, k, v, mask)
        c.case(f"unlike_capped_sums_{name}", lambda q, k, v: torch.softmax(torch.tanh(scores(q, many(k)) * 0.25 + 0.5) * 3, -1) @ many(v), q, k, v)
    q, k, v = c.randn(20, 24, dtype=bf), c.randn(33, 24, dtype=bf), c.randn(33, 24, dtype=bf)
    c.case("written_capped_of_two_dimensions", lambda q, k, v: torch.softmax(torch.tanh(q @ k.t() / 5) * 4, -1) @ v, q, k, v)
    c.case("written_capped_of_batches", lambda q, k, v, m: torch.bmm(torch.softmax(torch.tanh(torch.bmm(q, k.mT) / 5) * 4 + m, -1), v), q[None].expand(3, 20, 24), k[None].expand(3, 33, 24), v[None].expand(3, 33, 24), c.randn(3, 20, 33, dtype=bf))


def seldom_called(c):
    """Operators and forms that few programs have."""
    for name, arguments in {"": (1, 4), "_step": (0, 1, 0.25), "_down": (5, 1, -2), "_reals": (-1.5, 4.2, 1.7)}.items():
        c.case(f"range{name}", lambda a=arguments: (torch.range(*a), torch.range(*a, dtype=torch.float64), torch.range(*a, dtype=torch.int32 if abs(a[-1]) >= 1 else None)))
    sequences = [c.randn(3, 2), c.randn(1, 2), c.randn(4, 2)]
    pad = torch.nn.utils.rnn.pad_sequence
    c.case("pad_sequence", lambda *s: (pad(list(s)), pad(list(s), True, -1.5)), *sequences)
    c.case("pad_sequence_i64", lambda *s: pad(list(s), True, 7), c.ints(3), c.ints(5))
    c.case("pad_sequence_of_one", lambda x: pad([x]) + 1, sequences[0])
    time = lambda x, w, b: (torch.conv_tbc(x, w, b), torch.conv_tbc(x, w, b, 2))
    c.case("conv_tbc", time, c.randn(9, 2, 4), c.randn(3, 4, 5), c.randn(5))
    # Complex numbers come and go as their parts.
    pairs, parts, whole = c.randn(3, 4, 2), torch.view_as_real, torch.view_as_complex
    c.case("bits_as_complex", lambda x: (parts(x.view(torch.complex64)), parts(x.mul(2).view(torch.complex64)[:, 1] * 2j), parts(x.double().view(torch.complex128))), c.randn(3, 4))
    c.case("complex_as_bits", lambda x: (lambda z: (z.view(torch.float32), z.view(torch.int32), z.view(torch.int64), (z * 1j).view(torch.float32)))(whole(x.float())), pairs)
    c.case("complex_dropout", lambda x: (parts(F.dropout(whole(x), 0.5, False) * 2), parts(torch.feature_dropout(whole(x), 0.3, False))), pairs)
    c.case("matrix_exp_of_large_norms", lambda x: (torch.matrix_exp(x), torch.matrix_exp(x * 2), torch.matrix_exp(x[0] * 0.1)), c.randn(3, 4, 4))
    c.case("matrix_exp_complex", lambda x: parts(torch.matrix_exp(whole(x))), c.randn(4, 4, 2))
    margin = lambda x, t: (F.multi_margin_loss(x, t), F.multi_margin_loss(x, t, reduction="none"))
    c.case("margins_of_one_row", lambda x, t: (*margin(x, t), F.multi_margin_loss(x, t[0])), c.randn(4), torch.tensor([2]))
    copy = torch.ops.aten._to_copy.default
    c.case("numbers_as_tensors", lambda x: (x * copy(-0.25, dtype=torch.float32), x + copy(3), copy(-0.25), copy(True), copy(2, dtype=torch.float16)), c.randn(5))


def grown(c):
    """resize_ to more elements than there are: the first stay, what is behind them is written before it is read."""
    def rows(x):
        y = x * 2
        y.resize_(4, 5)
        y[2:] = x - 1
        return y

    def seen_before(x):
        y = x.clone()
        first = y[0]
        y.resize_(4, 5)
        y[2:].zero_()
        y[0] += 1
        return y, first, first * 2

    def from_nothing(x):
        y = torch.empty(0)
        y.resize_(x.shape)
        y.copy_(x)
        z = torch.empty(0, dtype=torch.int64)
        z.resize_(3).fill_(7)
        return y + 1, z

    def twice(x):
        y = x.t().clone(memory_format=torch.contiguous_format)
        y.resize_as_(torch.empty(3, 7)).resize_(2, 2)
        y.resize_(5, 6)
        y.view(-1)[10:].fill_(0.5)
        y.resize_(3, 3)
        return y

    for f in (rows, seen_before, from_nothing, twice):
        c.case(f"grown_{f.__name__}", f, c.randn(2, 5))


def answered(c):
    """Questions that tracing answers: the calls stay, without a result."""
    def asks(x, n):
        if torch.can_cast(x.dtype, torch.int8):
            x = x + 1
        if torch.result_type(x, n) == x.dtype and torch.result_type(n, 2.5) == torch.float32:
            x = x * 2
        if torch.promote_types(x.dtype, torch.int8) == x.dtype and torch.result_type(2, n) == torch.int64:
            x = x - torch.result_type(3, 2.5).itemsize
        return x

    c.case("answered_questions", asks, c.randn(3), c.ints(3))


def forward_mode(c):
    from torch.fx.experimental.proxy_tensor import make_fx
    f = lambda x, v: torch.func.vmap(lambda a, b: torch.func.jvp(lambda y: torch.tanh(y) * y.sum() + y.flip(0), (a,), (b,))[1])(x, v)
    x = c.randn(3, 5)
    c.case("forward_mode", make_fx(f)(x, x), x, c.randn(3, 5))


if __name__ == "__main__":
    family = Family("user_programs")
    attention_written_out(family)
    attention_in_other_frames(family)
    attention_in_other_words(family)
    masks_beside_indices(family)
    activations(family)
    strided_writes(family)
    narrow_sums(family)
    seldom_called(family)
    grown(family)
    answered(family)
    forward_mode(family)
    attention_with_caps(family)
    if "--missing" in sys.argv:
        family.keep_recorded()
    family.write()
