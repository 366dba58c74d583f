"""Cases of products that one kernel computes together with their neighbours: 16-bit floats, runs of 8. operator_cases.py
calls add(family), which registers them with it."""
import math

import torch
import torch.nn.functional as F


def fused_products(c):
    """Results: activations, sums, scales, several outputs, masks. Operands: either order of memory, windows of a convolution
    with channels last. Sizes around the tiles, one row, one run."""
    r = lambda *s: c.randn(*s, dtype=torch.bfloat16)
    c.case("relu_bf16", lambda x, w: torch.relu(x @ w), r(30, 72), r(72, 72))
    c.case("linear_gelu_bf16", lambda x, w, b: F.gelu(F.linear(x, w, b)), r(70, 40), r(24, 40), r(24))
    c.case("residual_bf16", lambda x, w, y, s: (x @ w.t()) * s[:, None] + y, r(33, 16), r(80, 16), r(33, 80), r(33))
    c.case("mean_of_stack", lambda b, x, w, y: torch.stack([y, torch.addmm(b, x, w)]).mean(0), r(24), r(16, 16), r(16, 24), r(16, 24))
    h = lambda *s: c.randn(*s, dtype=torch.float16)
    c.case("conv_bf16", lambda x, w, s, b, y: torch.relu(F.conv2d(x, w, padding=1) * s[:, None, None] + b[:, None, None] + y),
           last(r(2, 16, 9, 7)), last(r(24, 16, 3, 3)), r(24), r(24), last(r(2, 24, 9, 7)))
    c.case("left_transposed", lambda x, w: torch.tanh(x.t() @ w), r(24, 40), r(24, 16))
    c.case("both_transposed", lambda x, w: torch.tanh(x.t() @ w.t()), r(24, 40), r(16, 24))
    c.case("sliced", lambda x, w: torch.relu(x[:, 8:32] @ w[:, 16:]), r(17, 40), r(24, 40))
    c.case("addmm_scaled", lambda b, x, w: torch.relu(torch.addmm(b, x, w, alpha=0.5, beta=2.0)), r(1, 24), r(19, 16), r(16, 24))
    c.case("addmm_matrix", lambda b, x, w: torch.sigmoid(torch.addmm(b, x, w)), r(19, 24), r(19, 16), r(16, 24))
    c.case("addmm_column", lambda b, x, w: torch.sigmoid(torch.addmm(b, x, w, alpha=-1)), r(19, 1), r(19, 16), r(16, 24))
    c.case("one_row", lambda x, w: torch.exp(x @ w), h(1, 8), h(8, 8))
    c.case("one_term_run", lambda x, w: torch.relu(x @ w), h(5, 8), h(8, 264))
    c.case("long", lambda x, w: torch.relu(x @ w), h(5, 520), h(520, 8))
    c.case("no_runs", lambda x, w: torch.relu(x @ w), h(5, 12), h(12, 7))
    c.case("two_outputs", lambda x, w: (torch.relu(x @ w), torch.sin(x @ w)), h(20, 16), h(16, 24))
    c.case("kept", lambda x, w: (lambda y: (y, torch.relu(y)))(x @ w), h(20, 16), h(16, 24))
    c.case("gated", lambda x, u, v: F.silu(x @ u) * (x @ v), h(20, 16), h(16, 24), h(16, 24))
    c.case("chain", lambda x, u, v: torch.relu(torch.relu(x @ u) @ v) + x, h(20, 16), h(16, 24), h(24, 16))
    c.case("broadcast_mask", lambda x, w, m: torch.where(m, x @ w, -1.0), h(20, 16), h(16, 24), torch.arange(20)[:, None] % 3 != 0)
    c.case("reshaped", lambda x, w: torch.relu((x @ w).view(4, 5, 3, 8)) * 2, h(20, 16), h(16, 24))
    c.case("odd_view", lambda x, w: torch.relu((x @ w).view(20, 6, 4)) * 2, h(20, 16), h(16, 24))
    c.case("transposed_after", lambda x, w: torch.relu((x @ w).t().contiguous()), h(20, 16), h(16, 24))
    c.case("position", lambda x, w: (x @ w) * torch.arange(24) + torch.arange(20)[:, None], h(20, 16), h(16, 24))
    c.case("dropped_rows", lambda x, w: torch.relu(x @ w)[:-3], h(20, 16), h(16, 24))
    c.case("in_place", lambda x, w, y: y.add_(x @ w), h(20, 16), h(16, 24), h(20, 24))
    special = h(20, 16)
    special[3, 2], special[7, 0], special[9, 1] = math.nan, math.inf, -math.inf
    c.case("special", lambda x, w: torch.relu(x @ w), special, h(16, 24))
    c.case("overflow", lambda x, w: (x @ w) * 2, h(20, 16) * 300, h(16, 24) * 300)
    conv = lambda name, f, *t: c.case(f"conv_{name}", f, *[last(x) if x.dim() == 4 else x for x in t])
    conv("stride", lambda x, w: torch.relu(F.conv2d(x, w, stride=2, padding=1)), h(2, 8, 9, 7), h(8, 8, 3, 3))
    conv("dilated", lambda x, w: torch.relu(F.conv2d(x, w, dilation=2, padding=2)), h(1, 8, 9, 7), h(16, 8, 3, 3))
    conv("no_padding", lambda x, w, b: F.conv2d(x, w, b), h(2, 8, 6, 7), h(8, 8, 3, 2), h(8))
    conv("tall", lambda x, w: torch.relu(F.conv2d(x, w, padding=(2, 0))), h(1, 8, 9, 5), h(8, 8, 5, 1))
    conv("point", lambda x, w, y: torch.relu(F.conv2d(x, w) + y), h(2, 8, 5, 7), h(24, 8, 1, 1), h(2, 24, 5, 7))
    conv("point_stride", lambda x, w: torch.relu(F.conv2d(x, w, stride=2)), h(2, 16, 5, 7), h(8, 16, 1, 1))
    conv("three_channels", lambda x, w: torch.relu(F.conv2d(x, w, padding=1)), h(2, 3, 6, 6), h(8, 3, 3, 3))
    conv("twice", lambda x, v, w: torch.relu(F.conv2d(torch.relu(F.conv2d(x, v, padding=1)), w, padding=1)) + x, h(1, 8, 6, 6), h(16, 8, 3, 3), h(8, 16, 3, 3))
    conv("pool", lambda x, w: F.max_pool2d(torch.relu(F.conv2d(x, w, padding=1)), 2), h(1, 8, 6, 6), h(8, 8, 3, 3))


def last(x):
    return x.to(memory_format=torch.channels_last)


def add(family):
    family(fused_products)
