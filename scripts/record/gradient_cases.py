"""Cases of backward operators, called as autograd records them. operator_cases.py calls add(family), which registers them with
it. A case's inputs are what the forward pass saved, so that each backward form is held to PyTorch's by itself."""
import math

import torch
import torch.nn.functional as F
from torch._decomp import decomposition_table as decompositions

from recorder import FLOATS

aten = torch.ops.aten


def rms_backward(*a):
    """PyTorch has no kernel for the CPU: its own decomposition stands in."""
    return decompositions[aten._fused_rms_norm_backward.default](*a)


LIBRARY = torch.library.Library("aten", "IMPL")
LIBRARY.impl("_fused_rms_norm_backward", rms_backward, "CPU")


def activation_gradients(c):
    forms = {
        "sigmoid": lambda g, x: aten.sigmoid_backward(g, x), "tanh": lambda g, x: aten.tanh_backward(g, x),
        "gelu": lambda g, x: aten.gelu_backward(g, x), "gelu_tanh": lambda g, x: aten.gelu_backward(g, x, approximate="tanh"),
        "silu": lambda g, x: aten.silu_backward(g, x), "mish": lambda g, x: aten.mish_backward(g, x),
        "elu": lambda g, x: aten.elu_backward(g, 0.7, 1.3, 1.1, False, x),
        "elu_result": lambda g, x: aten.elu_backward(g, 0.7, 1.3, 1.1, True, x),
        "leaky_relu": lambda g, x: aten.leaky_relu_backward(g, x, 0.03, False),
        "hardtanh": lambda g, x: aten.hardtanh_backward(g, x, -1.0, 1.5), "hardsigmoid": lambda g, x: aten.hardsigmoid_backward(g, x),
        "hardswish": lambda g, x: aten.hardswish_backward(g, x), "hardshrink": lambda g, x: aten.hardshrink_backward(g, x, 0.5),
        "softshrink": lambda g, x: aten.softshrink_backward(g, x, 0.5), "softplus": lambda g, x: aten.softplus_backward(g, x, 1.5, 20.0),
        "log_sigmoid": lambda g, x: aten.log_sigmoid_backward(g, x, torch.exp(-x.abs())),
        "logit": lambda g, x: aten.logit_backward(g, x), "logit_eps": lambda g, x: aten.logit_backward(g, x, 0.1),
        "threshold": lambda g, x: aten.threshold_backward(g, x, 0.125), "relu": lambda g, x: aten.threshold_backward(g, x, 0),
        "rrelu": lambda g, x: aten.rrelu_with_noise_backward(g, x, x.abs(), 0.1, 0.3, False, False),
        "rrelu_training": lambda g, x: aten.rrelu_with_noise_backward(g, x, x.abs(), 0.1, 0.3, True, False),
    }
    near = lambda name: name.startswith("logit") or name == "sigmoid"
    for short, dtype in FLOATS.items():
        def all_forms(g, x, y):
            return tuple(f(g, y if near(name) else x) for name, f in forms.items())
        c.case(f"activations_{short}", all_forms, c.randn(37, dtype=dtype), c.randn(37, dtype=dtype, scale=2.0), c.randn(37, dtype=dtype).sigmoid())
        c.case(f"glu_{short}", lambda g, x: aten.glu_backward(g, x, 1), c.randn(3, 5, 2, dtype=dtype), c.randn(3, 10, 2, dtype=dtype))
        c.case(f"prelu_{short}", lambda g, x, w: aten._prelu_kernel_backward(g, x, w), c.randn(3, 4, 5, dtype=dtype), c.randn(3, 4, 5, dtype=dtype), c.randn(1, 4, 1, dtype=dtype))
    bends = torch.tensor([-3.0, 3.0, -1.0, 1.5, 0.5, -0.5, 0.0, -0.0, 0.125, 1.0, 20.0, 14.0, 0.9, -2.5])
    safe = [name for name in forms if name not in ("logit", "logit_eps", "rrelu", "rrelu_training")]
    c.case("bends", lambda g, x: tuple(forms[name](g, x) for name in safe), c.randn(14), bends)
    c.case("bends_logit", lambda g, x: (forms["logit"](g, x), forms["logit_eps"](g, x)), c.randn(7), torch.tensor([0.1, 0.9, 0.5, -0.1, 1.1, 0.95, 0.05]))
    c.case("special", lambda g, x: tuple(forms[name](g, x) for name in safe if name not in ("gelu_tanh", "mish", "silu", "elu")), c.randn(15, positive=True), c.special())
    c.case("strided", lambda g, x: (forms["gelu"](g.t(), x), forms["relu"](g.t(), x[:1]), forms["tanh"](g.t()[:, :1], x)), c.randn(5, 4), c.randn(4, 5))
    c.case("relu_i64", lambda g, x: aten.threshold_backward(g, x, 1), c.ints(7), c.ints(7))
    c.case("relu_bound_bf16", lambda g, x: aten.threshold_backward(g, x, 0.3), c.randn(5, dtype=torch.bfloat16), torch.tensor([0.3, 0.301, 0.299, 0.2, 1.0], dtype=torch.bfloat16))
    c.case("scalars", lambda g, x: (forms["silu"](g, x), forms["relu"](g, x)), c.randn(), c.randn())
    c.case("nothing", lambda g, x: (forms["silu"](g, x), aten.glu_backward(g, torch.cat([x, x], 1), 1)), c.randn(0, 3), c.randn(0, 3))


def loss_gradients(c):
    for short, dtype in FLOATS.items():
        r = lambda *s: c.randn(*s, dtype=dtype)
        p = lambda *s: c.randn(*s).sigmoid().to(dtype)
        def elementwise(g, x, t, p, q, s):
            one = g[0, 0]
            results = []
            for reduction, above in ((0, g), (1, one), (2, one)):
                results += [aten.mse_loss_backward(above, x, t, reduction), aten.smooth_l1_loss_backward(above, x, t, reduction, 0.7),
                            aten.huber_loss_backward(above, x, t, reduction, 0.7), aten.soft_margin_loss_backward(above, x, s, reduction),
                            aten.binary_cross_entropy_backward(above, p, q, None, reduction),
                            aten.binary_cross_entropy_backward(above, p, q, p, reduction)]
            return tuple(results)
        c.case(f"elementwise_{short}", elementwise, r(3, 5), r(3, 5), r(3, 5), p(3, 5), p(3, 5), r(3, 5).sign())
        target = c.ints(6, low=0, high=5)
        for name, weighted in (("plain", False), ("weighted", True)):
            def nll(g, x, t, w):
                weight = w if weighted else None
                total = aten.nll_loss_forward(x, t, weight, 1, 2)[1]
                return (aten.nll_loss_backward(g, x, t, weight, 0, 2, total), aten.nll_loss_backward(g[0], x, t, weight, 1, 2, total),
                        aten.nll_loss_backward(g[0], x, t, weight, 2, 2, total), aten.nll_loss_backward(g[0], x[0], t[0], weight, 1, 2, total))
            c.case(f"nll_{name}_{short}", nll, r(6), r(6, 5), torch.cat([target[:5], torch.tensor([2])]), c.randn(5, positive=True, dtype=dtype))
        c.case(f"nll2d_{short}", lambda g, x, t, w: (aten.nll_loss2d_backward(g, x, t, w, 0, -100, w.sum()), aten.nll_loss2d_backward(g[0, 0, 0], x, t, None, 1, 1, w.sum())),
               r(2, 3, 4), r(2, 5, 3, 4), c.ints(2, 3, 4, low=0, high=5), c.randn(5, positive=True, dtype=dtype))
    r = c.randn
    c.case("bends", lambda g, x, t: (aten.smooth_l1_loss_backward(g, x, t, 0, 0.5), aten.huber_loss_backward(g, x, t, 0, 0.5), aten.smooth_l1_loss_backward(g, x, t, 0, 1e-3)),
           r(5), torch.tensor([0.5, -0.5, 0.0, 1.0, -1.0]), torch.zeros(5))
    c.case("certain", lambda g, x, t: aten.binary_cross_entropy_backward(g, x, t, None, 0), r(4), torch.tensor([0.0, 1.0, 0.0, 1.0]), torch.tensor([0.0, 1.0, 1.0, 0.0]))
    c.case("broadcast", lambda g, x, t: aten.mse_loss_backward(g, x, t.expand(4, 5), 1), r(), r(4, 5), r(5))
    for p in (1, 2):
        c.case(f"multi_margin_{p}", lambda g, x, t, w: (aten.multi_margin_loss_backward(g, x, t, p, 0.6, None, 0), aten.multi_margin_loss_backward(g[0], x, t, p, 0.6, w, 1),
                                                         aten.multi_margin_loss_backward(g[0], x, t, p, 0.6, w, 2)), r(4), r(4, 5), c.ints(4, low=0, high=5), r(5, positive=True))
    c.case("multi_margin_vector", lambda g, x, t: aten.multi_margin_loss_backward(g, x, t, 1, 1.0, None, 1), r(), r(5), torch.tensor([3]))
    labels = torch.tensor([[3, 0, -1, 1], [-1, 2, 2, 2], [1, 2, 3, 0], [2, -1, -1, -1]])
    def multilabel(g, x, t):
        results = []
        for reduction in (0, 1, 2):
            loss, is_target = aten.multilabel_margin_loss_forward(x, t, reduction)
            results += [loss, is_target, aten.multilabel_margin_loss_backward(g if reduction == 0 else g[0], x, t, reduction, is_target)]
        loss, is_target = aten.multilabel_margin_loss_forward(x[0], t[0], 1)
        return *results, loss, is_target, aten.multilabel_margin_loss_backward(g[0], x[0], t[0], 1, is_target)
    c.case("multilabel", multilabel, r(4), r(4, 4), labels)


def normalization_gradients(c):
    for short, dtype in FLOATS.items():
        r = lambda *s: c.randn(*s, dtype=dtype)
        def layer(g, x, w, b):
            _, mean, rstd = aten.native_layer_norm(x, [5, 3], w, b, 1e-5)
            return (*aten.native_layer_norm_backward(g, x, [5, 3], mean, rstd, w, b, [True, True, True]),
                    aten.native_layer_norm_backward(g, x, [5, 3], mean, rstd, None, None, [True, False, False])[0])
        c.case(f"layer_{short}", layer, r(4, 2, 5, 3), r(4, 2, 5, 3), r(5, 3), r(5, 3))
        def group(g, x, w, b):
            _, mean, rstd = aten.native_group_norm(x, w, b, 3, 6, 10, 2, 1e-5)
            return (*aten.native_group_norm_backward(g, x, mean, rstd, w, 3, 6, 10, 2, [True, True, True]),
                    aten.native_group_norm_backward(g, x, mean, rstd, None, 3, 6, 10, 2, [True, False, False])[0])
        c.case(f"group_{short}", group, r(3, 6, 2, 5), r(3, 6, 2, 5), r(6), r(6))
        def batch(g, x, w, m, v):
            _, mean, rstd = aten.native_batch_norm(x, w, None, None, None, True, 0.1, 1e-5)
            return (*aten.native_batch_norm_backward(g, x, w, None, None, mean, rstd, True, 1e-5, [True, True, True]),
                    *aten.native_batch_norm_backward(g, x, w, m, v, None, None, False, 1e-5, [True, True, True]),
                    aten.native_batch_norm_backward(g, x, None, None, None, mean, rstd, True, 1e-5, [True, False, False])[0])
        c.case(f"batch_{short}", batch, r(4, 5, 3, 2), r(4, 5, 3, 2), r(5), r(5), c.randn(5, positive=True, dtype=dtype))
        def rms(g, x, w):
            _, rstd = aten._fused_rms_norm(x, [7], w, 1e-5)
            return (*aten._fused_rms_norm_backward(g, x, [7], rstd, w, [True, True]), aten._fused_rms_norm_backward(g, x, [7], rstd, None, [True, False])[0])
        c.case(f"rms_{short}", rms, r(3, 2, 7), r(3, 2, 7), r(7))
        def soft(g, x):
            return (aten._softmax_backward_data(g, x.softmax(1), 1, dtype), aten._log_softmax_backward_data(g, x.log_softmax(-1), -1, dtype),
                    aten._softmax_backward_data(g, x.softmax(0), 0, dtype))
        c.case(f"softmax_{short}", soft, r(3, 7, 2), r(3, 7, 2))
    r = c.randn
    c.case("batch_matrix", lambda g, x: aten.native_batch_norm_backward(g, x, None, None, None, x.mean(0), 1 / (x.var(0, correction=0) + 1e-5).sqrt(), True, 1e-5, [True, True, True]), r(7, 5), r(7, 5))
    def batch_last(g, x, w):
        x = x.contiguous(memory_format=torch.channels_last)
        _, mean, rstd = aten.native_batch_norm(x, w, None, None, None, True, 0.1, 1e-5)
        return aten.native_batch_norm_backward(g.contiguous(memory_format=torch.channels_last), x, w, None, None, mean, rstd, True, 1e-5, [True, True, True])
    c.case("batch_channels_last", batch_last, r(2, 5, 3, 4), r(2, 5, 3, 4), r(5))
    c.case("batch_with_update", lambda g, x, w, m, v: aten.batch_norm_backward(g, x, w, m, v, x.mean((0, 2)), 1 / (x.var((0, 2), correction=0) + 1e-5).sqrt(), True, 1e-5, [True, True, True], torch.zeros(0, dtype=torch.uint8)),
           r(4, 5, 3), r(4, 5, 3), r(5), r(5), r(5, positive=True))
    def weight(g, v, s, dim):
        _, norms = aten._weight_norm_interface(v, s, dim)
        return aten._weight_norm_interface_backward(g, v, s, norms, dim)
    c.case("weight", lambda g, v, s: weight(g, v, s, 0), r(6, 5, 3), r(6, 5, 3), r(6, 1, 1))
    c.case("weight_last", lambda g, v, s: weight(g, v, s, 2), r(6, 5, 3), r(6, 5, 3), r(1, 1, 3))
    c.case("masked_softmax", lambda g, x, m: aten._masked_softmax_backward(g, torch.where(m, 0.0, x.softmax(-1)), m, -1), r(3, 5), r(3, 5), c.bools(3, 5))
    c.case("softmax_scalar", lambda g, x: (aten._softmax_backward_data(g, x.softmax(0), 0, torch.float32), aten._log_softmax_backward_data(g, x.log_softmax(0), 0, torch.float32)), r(), r())
    c.case("nothing", lambda g, x: (aten._softmax_backward_data(g, x, 0, torch.float32), aten.native_layer_norm_backward(g, x, [3], x[:, :1], x[:, :1], x[0:0].sum(0), None, [True, True, False])[1]), r(0, 3), r(0, 3))


def convolution_gradients(c):
    def case(name, x, w, stride=1, padding=0, dilation=1, transposed=False, extra=0, groups=1, dtype=torch.float32, last=False, mask=(True, True, True)):
        rank = len(x) - 2
        spread = lambda v: [v] * rank if isinstance(v, int) else list(v)
        stride, padding, dilation, extra = spread(stride), spread(padding), spread(dilation), spread(extra)
        x, w = c.randn(*x, dtype=dtype), c.randn(*w, dtype=dtype)
        y = aten.convolution(x, w, None, stride, padding, dilation, transposed, extra, groups)
        def run(g, x, w):
            if last:
                g, x, w = (t.contiguous(memory_format=torch.channels_last) for t in (g, x, w))
            results = aten.convolution_backward(g, x, w, [y.shape[1]], stride, padding, dilation, transposed, extra, groups, list(mask))
            return tuple(t for t in results if t is not None)
        c.case(name, run, c.randn(*y.shape, dtype=dtype), x, w)

    for short, dtype in FLOATS.items():
        case(f"columns_{short}", (2, 3, 5, 4), (5, 3, 3, 3), padding=1, dtype=dtype)
        case(f"one_tap_{short}", (2, 5, 3, 2), (6, 5, 1, 1), dtype=dtype)
        case(f"depthwise_{short}", (2, 3, 4, 5), (3, 1, 3, 3), padding=1, groups=3, dtype=dtype)
        case(f"transposed_{short}", (2, 3, 4, 3), (3, 5, 3, 3), stride=2, padding=1, transposed=True, extra=1, dtype=dtype)
    case("f64", (2, 2, 4, 3), (5, 2, 3, 3), padding=1, dtype=torch.float64)
    case("d1", (3, 2, 11), (5, 2, 5), stride=2, padding=2)
    case("d1_dilated", (2, 3, 11), (5, 3, 3), dilation=3)
    case("d3", (1, 2, 3, 5, 4), (5, 2, 2, 3, 3), stride=(1, 2, 1), padding=(1, 0, 2))
    case("uneven", (2, 2, 9, 7), (5, 2, 3, 5), stride=(2, 3), padding=(0, 2), dilation=(2, 1))
    case("left_over", (1, 2, 8, 9), (5, 2, 3, 2), stride=3)
    case("grouped", (2, 4, 5, 4), (10, 2, 3, 3), padding=1, groups=2)
    case("depthwise_strided", (2, 2, 7, 6), (4, 1, 5, 5), padding=2, stride=2, groups=2)
    case("patches", (2, 3, 4, 8), (5, 3, 4, 4), stride=4)
    case("transposed_1d", (2, 3, 5), (3, 5, 4), stride=3, padding=2, transposed=True, extra=2)
    case("transposed_dilated", (2, 2, 4, 3), (2, 5, 3, 3), dilation=3, padding=1, transposed=True, extra=2)
    case("transposed_grouped", (2, 4, 4, 3), (4, 5, 3, 3), stride=2, groups=2, transposed=True)
    case("transposed_depthwise", (2, 2, 4, 3), (2, 1, 4, 4), stride=2, padding=1, groups=2, transposed=True)
    case("transposed_3d", (1, 2, 2, 3, 2), (2, 5, 2, 3, 2), stride=2, transposed=True)
    case("channels_last", (2, 3, 5, 4), (5, 3, 3, 3), padding=1, last=True)
    case("channels_last_bf16", (2, 3, 5, 4), (5, 3, 3, 3), padding=1, last=True, dtype=torch.bfloat16)
    case("input_alone", (2, 3, 5, 4), (5, 3, 3, 3), mask=(True, False, False))
    case("weight_alone", (2, 3, 5, 4), (5, 3, 3, 3), mask=(False, True, False))
    case("one_position", (3, 2, 3, 3), (5, 2, 3, 3))
    case("no_batch", (0, 5, 7, 6), (6, 5, 3, 3), padding=1)


def window_gradients(c):
    def with_indices(op, back, *rest):
        return lambda g, x: back(g, x, *rest, op(x, *rest)[1])
    r = c.randn
    for short, dtype in FLOATS.items():
        d = lambda *s: c.randn(*s, dtype=dtype)
        c.case(f"max2d_{short}", with_indices(aten.max_pool2d_with_indices, aten.max_pool2d_with_indices_backward, [3, 2], [2, 1], [1, 0], [1, 2], False), d(1, 2, 4, 5), d(1, 2, 8, 7))
        c.case(f"avg2d_{short}", lambda g, x: aten.avg_pool2d_backward(g, x, [3, 3], [2, 2], [1, 1], False, True, None), d(1, 2, 4, 4), d(1, 2, 8, 7))
        c.case(f"adaptive_avg2d_{short}", lambda g, x: aten._adaptive_avg_pool2d_backward(g, x), d(1, 2, 3, 4), d(1, 2, 8, 7))
        c.case(f"adaptive_max2d_{short}", lambda g, x: aten.adaptive_max_pool2d_backward(g, x, aten.adaptive_max_pool2d(x, [3, 4])[1]), d(1, 2, 3, 4), d(1, 2, 8, 7))
    c.case("max2d_ceil", with_indices(aten.max_pool2d_with_indices, aten.max_pool2d_with_indices_backward, [3, 3], [2, 2], [0, 0], [1, 1], True), r(2, 4, 3), r(2, 8, 7))
    c.case("max2d_apart", with_indices(aten.max_pool2d_with_indices, aten.max_pool2d_with_indices_backward, [2, 2], [2, 2], [0, 0], [1, 1], False), r(1, 2, 4, 3), r(1, 2, 8, 7))
    for short, dtype in FLOATS.items():  # more windows an element than are asked
        c.case(f"max2d_wide_{short}", with_indices(aten.max_pool2d_with_indices, aten.max_pool2d_with_indices_backward, [5, 5], [1, 1], [2, 2], [1, 1], False), c.randn(2, 3, 8, 7, dtype=dtype), c.ints(2, 3, 8, 7, low=0, high=4).to(dtype))
    c.case("max3d_wide", with_indices(aten.max_pool3d_with_indices, aten.max_pool3d_with_indices_backward, [3, 3, 3], [1, 1, 1], [1, 1, 1], [1, 1, 1], False), r(2, 4, 5, 3), c.ints(2, 4, 5, 3, low=0, high=4).float())
    c.case("max2d_ties", with_indices(aten.max_pool2d_with_indices, aten.max_pool2d_with_indices_backward, [3, 3], [1, 1], [1, 1], [1, 1], False), r(1, 2, 5, 6), c.ints(1, 2, 5, 6, low=0, high=3).float())
    c.case("max2d_channels_last", lambda g, x: with_indices(aten.max_pool2d_with_indices, aten.max_pool2d_with_indices_backward, [3, 3], [2, 2], [1, 1], [1, 1], False)(g.contiguous(memory_format=torch.channels_last), x.contiguous(memory_format=torch.channels_last)), r(1, 2, 4, 4), r(1, 2, 8, 7))
    for name, shape, *window in (("divisor", (1, 2, 13, 15), [3, 4], [2, 4], [1, 2], [2, 2]), ("apart_steps", (1, 2, 15, 16), [3, 3], [2, 3], [1, 1], [3, 2]),
                                 ("wide_steps", (1, 2, 11, 12), [2, 3], [4, 5], [0, 1], [1, 1]), ("long", (1, 2, 12, 13), [5, 4], [2, 1], [2, 2], [1, 1])):
        x = r(*shape)
        above = r(*aten.max_pool2d_with_indices(x, *window, False)[0].shape)
        c.case(f"max2d_{name}", with_indices(aten.max_pool2d_with_indices, aten.max_pool2d_with_indices_backward, *window, False), above, x)
    nans = r(1, 2, 8, 7).clone()
    nans[0, 0, 2:4, 3:5] = math.nan
    c.case("max2d_nan", with_indices(aten.max_pool2d_with_indices, aten.max_pool2d_with_indices_backward, [3, 3], [2, 2], [1, 1], [1, 1], False), r(1, 2, 4, 4), nans)
    c.case("max3d_halves", with_indices(aten.max_pool3d_with_indices, aten.max_pool3d_with_indices_backward, [4, 4, 4], [2, 2, 2], [1, 0, 2], [1, 1, 1], False),
           r(1, 2, 3, 2, 4), r(1, 2, 6, 7, 6))
    c.case("avg2d_wide_steps", lambda g, x: aten.avg_pool2d_backward(g, x, [2, 3], [4, 5], [0, 1], False, True, None), r(1, 2, 3, 3), r(1, 2, 11, 12))
    c.case("avg3d_halves", lambda g, x: aten.avg_pool3d_backward(g, x, [4, 4, 4], [2, 2, 2], [1, 0, 2], True, False, None), r(1, 2, 3, 3, 4), r(1, 2, 6, 7, 6))
    c.case("max3d", with_indices(aten.max_pool3d_with_indices, aten.max_pool3d_with_indices_backward, [2, 3, 2], [2, 2, 1], [0, 1, 0], [1, 1, 1], False), r(1, 2, 2, 3, 4), r(1, 2, 4, 5, 5))
    c.case("avg2d_not_padded", lambda g, x: aten.avg_pool2d_backward(g, x, [3, 3], [2, 2], [1, 1], True, False, None), r(1, 2, 5, 4), r(1, 2, 8, 7))
    c.case("avg2d_divisor", lambda g, x: aten.avg_pool2d_backward(g, x, [2, 2], [], [0, 0], False, True, 7), r(3, 4, 3), r(3, 8, 7))
    c.case("avg3d", lambda g, x: aten.avg_pool3d_backward(g, x, [2, 3, 2], [2, 2, 1], [1, 1, 0], False, True, None), r(1, 2, 3, 3, 4), r(1, 2, 4, 5, 5))
    c.case("adaptive_avg_one", lambda g, x: aten._adaptive_avg_pool2d_backward(g, x), r(1, 2, 1, 1), r(1, 2, 8, 7))
    c.case("adaptive_avg_more", lambda g, x: aten._adaptive_avg_pool2d_backward(g, x), r(2, 3, 5, 7), r(2, 3, 3, 7))
    c.case("adaptive_avg3d", lambda g, x: aten._adaptive_avg_pool3d_backward(g, x), r(1, 2, 2, 3, 2), r(1, 2, 3, 5, 4))
    c.case("adaptive_max3d", lambda g, x: aten.adaptive_max_pool3d_backward(g, x, aten.adaptive_max_pool3d(x, [2, 3, 2])[1]), r(1, 2, 2, 3, 2), r(1, 2, 3, 5, 4))
    def fractional(g, x, samples):
        return aten.fractional_max_pool2d_backward(g, x, [2, 2], [3, 3], aten.max_pool2d_with_indices(x, [2, 2], [2, 2])[1])
    c.case("fractional_max2d", fractional, r(2, 3, 3, 3), r(2, 3, 7, 7), r(2, 3, 2))
    for rank, name in ((1, "linear1d"), (2, "bilinear2d"), (3, "trilinear3d"), (2, "bicubic2d")):
        sizes, to = (5, 4, 3)[:rank], (7, 3, 6)[:rank]
        for corners in (False, True):
            op = getattr(aten, f"upsample_{name}_backward")
            c.case(f"{name}_{'corners' if corners else 'centres'}", lambda g, op=op, sizes=sizes, to=to: op(g, list(to), [1, 2, *sizes], corners), r(1, 2, *to))
    for rank in (1, 2, 3):
        sizes, to, whole = (5, 4, 3)[:rank], (7, 3, 6)[:rank], (10, 8, 6)[:rank]
        for kind in ("upsample_nearest", "_upsample_nearest_exact"):
            op = getattr(aten, f"{kind}{rank}d_backward")
            c.case(f"{kind.strip('_')}{rank}d", lambda g, h, op=op, sizes=sizes, to=to, whole=whole: (op(g, list(to), [1, 2, *sizes]), op(h, list(whole), [1, 2, *sizes])), r(1, 2, *to), r(1, 2, *whole))
        pads = [1, 2, 0, 1, 2, 1][:2 * rank]
        padded = [s + pads[2 * (rank - 1 - i)] + pads[2 * (rank - 1 - i) + 1] for i, s in enumerate(sizes)]
        for kind in ("reflection", "replication"):
            op = getattr(aten, f"{kind}_pad{rank}d_backward")
            c.case(f"{kind}{rank}d", lambda g, x, op=op, pads=pads: op(g, x, pads), r(1, 2, *padded), r(1, 2, *sizes))
    # Pads of a whole edge less one, of one element, of nothing on one side, and cut away.
    for name, sizes, pads in (("edges", (5, 4), [3, 3, 4, 4]), ("one_side", (3, 6), [0, 2, 1, 0]), ("far", (1, 2), [1, 0, 7, 4])):
        padded = [s + pads[2 * (1 - i)] + pads[2 * (1 - i) + 1] for i, s in enumerate(sizes)]
        for kind in ("reflection", "replication"):
            if kind == "replication" or name != "far":
                op = getattr(aten, f"{kind}_pad2d_backward")
                c.case(f"{kind}_{name}", lambda g, x, op=op, pads=pads: op(g, x, pads), r(2, 3, *padded), r(2, 3, *sizes))
    c.case("replication_cut", lambda g, x: aten.replication_pad2d_backward(g, x, [-1, 2, 1, -2]), r(2, 3, 4, 6), r(2, 3, 5, 5))
    c.case("reflection_f16", lambda g, x: aten.reflection_pad2d_backward(g, x, [3, 2, 1, 2]), c.randn(2, 3, 8, 21, dtype=torch.float16), c.randn(2, 3, 5, 16, dtype=torch.float16))
    c.case("scaled", lambda g: (aten.upsample_bilinear2d_backward(g, [7, 9], [1, 2, 5, 4], False, 1.5, 2.3), aten.upsample_nearest2d_backward(g, [7, 9], [1, 2, 5, 4], 1.5, 2.3)), r(1, 2, 7, 9))
    # Whole factors, broken ones, fewer elements than before, one element, factors that are not the ratio of the sizes.
    for sizes, to, scales in (((5, 4), (10, 8), ()), ((5, 4), (15, 16), ()), ((4, 6), (6, 9), ()), ((7, 9), (3, 4), ()), ((1, 3), (17, 1), ()),
                              ((11, 2), (2, 34), ()), ((5, 7), (3, 4), (0.7, 0.7)), ((5, 7), (9, 13), (1.9, 1.9)), ((3, 3), (3, 3), (1.2, 1.2)), ((3, 4), (3, 9), (1.2, 2.3)), ((3, 4), (6, 8), (2.3, 2.1))):
        label = "_".join(map(str, (*sizes, *to)))
        for name in ("bilinear2d", "bicubic2d"):
            op = getattr(aten, f"upsample_{name}_backward")
            c.case(f"{name}_from_{label}", lambda g, op=op, sizes=sizes, to=to, scales=scales: (
                op(g, list(to), [2, 3, *sizes], False, *scales), op(g, list(to), [2, 3, *sizes], True)), r(2, 3, *to))
        op = aten.upsample_nearest2d_backward
        if any(n in (2 * m, m) for m, n in zip(sizes, to)) and scales:
            continue  # eager mode counts the factor in one and in three dimensions, and not here
        c.case(f"nearest_from_{label}", lambda g, op=op, sizes=sizes, to=to, scales=scales: op(g, list(to), [2, 3, *sizes], *scales), r(2, 3, *to))
    infinite = r(1, 2, 10, 8)
    infinite[0, 0, 0, 3], infinite[0, 1, 5, 7], infinite[0, 1, 9, 0] = float("inf"), float("nan"), float("-inf")
    for name in ("bilinear2d", "nearest2d"):
        op, corners = getattr(aten, f"upsample_{name}_backward"), () if name == "nearest2d" else (False,)
        c.case(f"{name}_infinite", lambda g, op=op, corners=corners: (op(g, [10, 8], [1, 2, 5, 4], *corners), op(g, [10, 8], [1, 2, 7, 3], *corners)), infinite)
    last = torch.channels_last
    c.case("bilinear_channels_last", lambda g: aten.upsample_bilinear2d_backward(g.contiguous(memory_format=last), [10, 8], [2, 3, 5, 4], False), r(2, 3, 10, 8))
    for name in ("bilinear2d", "bicubic2d"):
        op = getattr(aten, f"_upsample_{name}_aa_backward")
        c.case(f"antialiased_{name}", lambda g, op=op: (op(g, [3, 4], [2, 3, 7, 9], False), op(g, [3, 4], [2, 3, 2, 9], True)), r(2, 3, 3, 4))
    for short in ("f16", "bf16"):
        dtype = FLOATS[short]
        c.case(f"bilinear_{short}", lambda g: aten.upsample_bilinear2d_backward(g, [7, 3], [2, 3, 5, 4], False), c.randn(2, 3, 7, 3, dtype=dtype))


def view_gradients(c):
    r = c.randn
    for short, dtype in FLOATS.items():
        d = lambda *s: c.randn(*s, dtype=dtype)
        c.case(f"picks_{short}", lambda g, h: (aten.select_backward(g, [3, 4, 5], 1, -2), aten.slice_backward(h, [3, 9, 5], 1, 1, 100, 3), aten.unfold_backward(h[:, :2, :, None] * h[:, None, 0, None, :3], [3, 4, 5], 1, 3, 1)),
               d(3, 5), d(3, 3, 5))
    z = lambda *s: torch.complex(r(*s), r(*s))
    c.case("picks_c64", lambda g, h: (aten.select_backward(g, [3, 4, 5], 1, -2), aten.slice_backward(h, [3, 9, 5], 1, 1, 100, 3), aten.diagonal_backward(g, [3, 5, 6], 1, 1, 2)), z(3, 5), z(3, 3, 5))
    c.case("picks_at_places_c64", lambda g, x, i, j: (aten.index_select_backward(g, [3, 5], 1, i), aten.gather_backward(g, x, 1, j, False), aten.unfold_backward(g[:, :2, None], [3, 2], 1, 1, 1), aten.trace_backward(g[0, 0], [3, 2])),
           z(3, 4), z(3, 5), torch.tensor([1, 4, 1, 0]), c.ints(3, 4, low=0, high=5))
    c.case("slice_from_the_end", lambda g: aten.slice_backward(g, [3, 9], 1, -4, -1, 1), r(3, 3))
    c.case("diagonal", lambda g, h: (aten.diagonal_backward(g, [4, 6], 1, 0, 1), aten.diagonal_backward(h, [3, 4, 5], -1, 0, -1)), r(4), r(4, 2))
    c.case("unfold", lambda g: aten.unfold_backward(g, [2, 11, 3], 1, 4, 2), r(2, 4, 3, 4))
    c.case("unfold_last", lambda g: aten.unfold_backward(g, [2, 7], -1, 2, 3), r(2, 2, 2))
    c.case("unfold_of_one_row", lambda g: (aten.unfold_backward(g, [3, 11], 1, 4, 2), aten.unfold_backward(g[..., None, :], [3, 11, 2], 1, 4, 2)), r(1, 4, 4))
    c.case("trace", lambda g: (aten.trace_backward(g, [3, 5]), aten.trace_backward(g, [4, 2])), r())
    c.case("selection", lambda g, i: (aten.value_selecting_reduction_backward(g, 1, i, [3, 5, 2], False), aten.value_selecting_reduction_backward(g[:, None], 1, i[:, None], [3, 5, 2], True)), r(3, 2), c.ints(3, 2, low=0, high=5))
    c.case("index_select", lambda g, i: aten.index_select_backward(g, [3, 5], 1, i), r(3, 4), torch.tensor([1, 4, 1, 0]))
    c.case("gather", lambda g, x, i: aten.gather_backward(g, x, 1, i, False), r(3, 4), r(3, 5), c.ints(3, 4, low=0, high=5))
    c.case("cummax", lambda g, x: aten.cummaxmin_backward(g, x, torch.cummax(x, 1)[1], 1), r(3, 7), r(3, 7))
    zeros = r(4, 7) * torch.tensor([[1, 1, 1, 1, 1, 1, 1], [1, 1, 0, 1, 1, 1, 1], [0, 1, 1, 0, 1, 1, 1], [1, 1, 1, 1, 1, 1, 0]])
    c.case("masked_scatter", lambda g, m: aten.masked_scatter_backward(g, m, [12]), r(3, 4), c.bools(3, 4))
    c.case("index_put", lambda g, x, i: aten._unsafe_index_put(torch.zeros_like(x), [None, i], g, True), r(3, 4), r(3, 5), torch.tensor([1, 4, 1, 0]))
    c.case("index_put_impl", lambda g, x, i: (aten._index_put_impl(x, [None, i], g, True, True), aten._index_put_impl(x, [i[:2]], g[:2, :1], False)), r(4, 4), r(4, 5), torch.tensor([1, 3, 1, 0]))
    c.case("cumprod_zeros", lambda g, x: aten.cumprod_backward(g, x, 1, x.cumprod(1)), r(4, 7), zeros)


def flash_backward(grad, q, k, v, out, sums, *rest, mask=None, causal=False, scale=None):
    """What kernels of GPUs compute, from their definition."""
    scale, groups = scale or q.shape[-1] ** -0.5, q.shape[1] // k.shape[1]
    together = lambda x: x.unflatten(1, (k.shape[1], groups)).sum(2)
    wide_k, wide_v = (x.repeat_interleave(groups, 1) for x in (k, v))
    scores = (q @ wide_k.mT) * scale
    if mask is not None:
        scores = scores + mask
    if causal:
        scores = scores.masked_fill(torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1), -torch.inf)
    weights = scores.softmax(-1)
    passed = weights * (grad @ wide_v.mT - (grad * out).sum(-1, keepdim=True))
    results = (passed @ wide_k) * scale, together(passed.mT @ q) * scale, together(weights.mT @ grad)
    return results if mask is None else (*results, passed.sum_to_size(mask.shape))


IMPLEMENTED = {
    "flash_attention": lambda g, q, k, v, out, sums, cq, ck, mq, mk, p, causal, seed, offset, scale=None: flash_backward(g, q, k, v, out, sums, causal=causal, scale=scale),
    "cudnn_attention": lambda g, q, k, v, out, sums, seed, offset, mask, cq, ck, mq, mk, p, causal, scale=None: flash_backward(g, q, k, v, out, sums, mask=mask, causal=causal, scale=scale)[:3],
    "efficient_attention": lambda g, q, k, v, mask, out, sums, seed, offset, p, wanted, causal=False, scale=None: (*flash_backward(g, q, k, v, out, sums, mask=mask, causal=causal, scale=scale), None)[:4],
    "fused_attention_overrideable": lambda g, q, k, v, mask, wanted, out, sums, cq, ck, mq, mk, p, causal, seed, offset, scale=None: (*flash_backward(g, q, k, v, out, sums, mask=mask, causal=causal, scale=scale), None)[:4],
}
for kernel, backward in IMPLEMENTED.items():
    LIBRARY.impl(f"_scaled_dot_product_{kernel}_backward", backward, "CPU")


def lookup_gradients(c):
    r = c.randn
    indices, offsets = torch.tensor([1, 4, 2, 4, 0, 5, 1]), torch.tensor([0, 2, 2, 5])
    for short, dtype in (("f32", torch.float32), ("f64", torch.float64)):
        for mode, name in enumerate(("sum", "mean", "max")):
            def bag(g, w, i, o, s, mode=mode):
                results = []
                for padding, often in ((-1, False), (4, False)):
                    _, bags, sizes, largest = aten._embedding_bag(w, i, o, False, mode, False, None, False, padding)
                    results.append(aten._embedding_bag_backward(g, i, o, bags, sizes, largest, 6, often, mode, False, None, padding))
                    if mode == 0:
                        results.append(aten._embedding_bag_backward(g, i, o, bags, sizes, largest, 6, often, mode, False, s, padding))
                        results.append(aten._embedding_bag_per_sample_weights_backward(g, w, i, o, bags, mode, padding))
                return tuple(results)
            c.case(f"bags_{name}_{short}", bag, r(4, 3, dtype=dtype), r(6, 3, dtype=dtype), indices, offsets, r(7, dtype=dtype))
        c.case(f"embedding_{short}", lambda g, i: (aten.embedding_dense_backward(g, i, 6, -1, True), aten.embedding_dense_backward(g, i, 6, 4, True), aten.embedding_dense_backward(g, i, 6, 4, False)),
               r(7, 3, dtype=dtype), indices)
    for p in (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, float("inf")):
        c.case(f"distances_{p}", lambda g, x, y, d, p=p: aten._cdist_backward(g, x, y, p, d), *(lambda x, y: (r(2, 5, 3), x, y, torch.cdist(x, y, p)))((r(2, 5, 4) * 8).round() / 8, (r(2, 3, 4) * 8).round() / 8))
    x = r(5, 4)
    c.case("distances_none", lambda g, x, d: aten._cdist_backward(g, x, x, 2.0, d), r(5, 5), x, torch.cdist(x, x, 2.0, compute_mode="donot_use_mm_for_euclid_dist"))


def lstm_cell(x, h, c, b=None, d=None):
    i, f, g, o = (x + h + (0 if b is None else b) + (0 if d is None else d)).chunk(4, -1)
    i, f, g, o = i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid()
    state = f * c + i * g
    return o * state.tanh(), state, torch.cat([i, f, g, o], -1)


def lstm_cell_backward(hy, cy, c, state, workspace, bias):
    i, f, g, o = workspace.chunk(4, -1)
    hy = torch.zeros_like(c) if hy is None else hy
    own = hy * o * (1 - state.tanh() ** 2) + (0 if cy is None else cy)
    gates = torch.cat([own * g * i * (1 - i), own * c * f * (1 - f), own * i * (1 - g * g), hy * state.tanh() * o * (1 - o)], -1)
    return gates, gates.clone(), own * f, gates.sum(0) if bias else None, gates.sum(0) if bias else None


def gru_cell(x, h, old, b=None, d=None):
    x, h = x + (0 if b is None else b), h + (0 if d is None else d)
    (xr, xz, xn), (hr, hz, hn) = x.chunk(3, -1), h.chunk(3, -1)
    r, z = (xr + hr).sigmoid(), (xz + hz).sigmoid()
    n = (xn + r * hn).tanh()
    return n + z * (old - n), torch.cat([r, z, n, old, hn], -1)


def gru_cell_backward(g, workspace, bias):
    r, z, n, old, hn = workspace.chunk(5, -1)
    fresh = g * (1 - z) * (1 - n * n)
    update, reset = g * (old - n) * z * (1 - z), fresh * hn * r * (1 - r)
    x, h = torch.cat([reset, update, fresh], -1), torch.cat([reset, update, fresh * r], -1)
    return x, h, g * z, x.sum(0) if bias else None, h.sum(0) if bias else None


def cudnn_norm(x, w, b, m, v, training, momentum, eps):
    return (*aten.native_batch_norm(x, w, b, m, v, training, momentum, eps), torch.zeros(0, dtype=torch.uint8))


def cudnn_norm_backward(x, g, w, m, v, mean, rstd, eps, reserve):
    return aten.native_batch_norm_backward(g, x, w, m, v, mean, rstd, True, eps, [True, True, True])


def cudnn_samples(x, grid):
    return aten.grid_sampler_2d(x, grid, 0, 0, True)


def cudnn_samples_backward(x, grid, g):
    return aten.grid_sampler_2d_backward(g, x, grid, 0, 0, True, [True, True])


for name, f in {"cudnn_grid_sampler": cudnn_samples, "cudnn_grid_sampler_backward": cudnn_samples_backward, "_thnn_fused_lstm_cell": lstm_cell, "_thnn_fused_lstm_cell_backward": lstm_cell_backward, "_thnn_fused_gru_cell": gru_cell,
                "_thnn_fused_gru_cell_backward": gru_cell_backward, "cudnn_batch_norm": cudnn_norm, "cudnn_batch_norm_backward": cudnn_norm_backward}.items():
    LIBRARY.impl(name, f, "CPU")


def gpu_gradients(c):
    """Operators that autograd records on GPUs alone; definitions written in PyTorch stand in for their kernels."""
    r = c.randn
    given = lambda results: tuple(x for x in results if x is not None)
    for short, dtype in FLOATS.items():
        d = lambda *s: c.randn(*s, dtype=dtype)
        gate = lambda *shape: c.randn(*shape).sigmoid().to(dtype)
        c.case(f"lstm_{short}", lambda x, h, s, b, e: aten._thnn_fused_lstm_cell(x, h, s, b, e), d(3, 20), d(3, 20), d(3, 5), d(20), d(20))
        c.case(f"lstm_backward_{short}", lambda g, k, s, cy, w: (*given(aten._thnn_fused_lstm_cell_backward(g, k, s, cy, w, True)), *given(aten._thnn_fused_lstm_cell_backward(None, k, s, cy, w, False))),
               d(3, 5), d(3, 5), d(3, 5), d(3, 5), gate(3, 20))
        c.case(f"gru_{short}", lambda x, h, s, b, e: aten._thnn_fused_gru_cell(x, h, s, b, e), d(3, 15), d(3, 15), d(3, 5), d(15), d(15))
        c.case(f"gru_backward_{short}", lambda g, w: (*given(aten._thnn_fused_gru_cell_backward(g, w, True)), *given(aten._thnn_fused_gru_cell_backward(g, w, False))), d(3, 5), gate(3, 25))
        def norm(g, x, w, b):
            y, mean, rstd, reserve = aten.cudnn_batch_norm(x, w, b, None, None, True, 0.1, 1e-5)
            return y, *aten.cudnn_batch_norm_backward(x, g, w, None, None, mean, rstd, 1e-5, reserve)
        c.case(f"norm_{short}", norm, d(3, 4, 2, 3), d(3, 4, 2, 3), d(4), d(4))
    c.case("norm_writes", lambda x, w, b, m, v: aten.cudnn_batch_norm(x, w, b, m, v, True, 0.3, 1e-5)[0], r(3, 4, 5), r(4), r(4), r(4), r(4, positive=True))
    for short, grid in {"inside": lambda *s: c.randn(*s).tanh(), "beyond": lambda *s: 2 * c.randn(*s)}.items():
        c.case(f"samples_{short}", lambda x, p: aten.cudnn_grid_sampler(x, p), r(2, 3, 5, 7), grid(2, 4, 3, 2))
        c.case(f"samples_backward_{short}", lambda x, p, g: aten.cudnn_grid_sampler_backward(x, p, g), r(2, 3, 5, 7), grid(2, 4, 3, 2), r(2, 3, 4, 3))
    c.case("samples_one", lambda x, p: aten.cudnn_grid_sampler(x, p), r(1, 1, 1, 1), r(1, 1, 3, 2))
    c.case("norm_eval", lambda x, w, b, m, v: aten.cudnn_batch_norm(x, w, b, m, v, False, 0.3, 1e-5)[0], r(3, 4, 5), r(4), r(4), r(4), r(4, positive=True))


def grid_gradients(c):
    r = c.randn
    for mode, kind in ((0, "linear"), (1, "nearest")):
        for padding, name in ((0, "zeros"), (1, "border"), (2, "reflection")):
            for corners in (False, True):
                c.case(f"{kind}_{name}_{'corners' if corners else 'centres'}", lambda g, x, grid, m=mode, p=padding, a=corners: aten.grid_sampler_2d_backward(g, x, grid, m, p, a, [True, True]),
                       r(2, 2, 3, 4), r(2, 2, 5, 4), r(2, 3, 4, 2))
    for padding in range(3):
        c.case(f"cube_{padding}", lambda g, x, grid, p=padding: aten.grid_sampler_3d_backward(g, x, grid, 0, p, False, [True, True]), r(1, 2, 2, 3, 2), r(1, 2, 3, 4, 3), r(1, 2, 3, 2, 3))
    c.case("grid_alone", lambda g, x, grid: aten.grid_sampler_2d_backward(g, x, grid, 0, 0, False, [False, True])[1], r(1, 2, 3, 4), r(1, 2, 5, 4), r(1, 3, 4, 2))
    for padding, name in ((0, "zeros"), (1, "border"), (2, "reflection")):
        for corners in (False, True):
            c.case(f"cubic_{name}_{'corners' if corners else 'centres'}", lambda g, x, grid, p=padding, a=corners: aten.grid_sampler_2d_backward(g, x, grid, 2, p, a, [True, True]),
                   r(2, 1, 3, 4), r(2, 1, 5, 4), 0.9 * r(2, 3, 4, 2).tanh())
    c.case("cubic_alone", lambda g, x, grid: aten.grid_sampler_2d_backward(g, x, grid, 2, 0, False, [False, True])[1], r(1, 2, 3, 4), r(1, 2, 5, 1), r(1, 3, 4, 2))


def attention_gradients(c):
    r = c.randn

    def inputs(batch, heads, key_heads, rows, columns, depth, dtype=torch.float32):
        d = lambda *s: c.randn(*s, dtype=dtype)
        return d(batch, heads, rows, depth), d(batch, heads, rows, depth), d(batch, key_heads, columns, depth), d(batch, key_heads, columns, depth)

    def saved(q, k, v, causal=False, mask=None, scale=None):
        """(output, logarithms of sums) in the forward kernel's own terms."""
        k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], 1) for x in (k, v))
        scores = (q.double() @ k.double().mT) * (scale or q.shape[-1] ** -0.5)
        if mask is not None:
            scores = scores.masked_fill(~mask, -torch.inf) if mask.dtype == torch.bool else scores + mask
        if causal:
            scores = scores.masked_fill(torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1), -torch.inf)
        return (scores.softmax(-1).nan_to_num() @ v.double()).to(q.dtype), scores.logsumexp(-1).to(torch.float64 if q.dtype == torch.float64 else torch.float32)

    def cpu(causal=False, scale=None):
        def run(g, q, k, v, out, sums, *mask):
            x, y, z = aten._scaled_dot_product_flash_attention_for_cpu_backward(g, q, k, v, out, sums, 0.0, causal, attn_mask=mask[0] if mask else None, scale=scale)
            return x[:, :, 1:] if causal else x, y, z  # a row that sees one column passes nothing but rounding
        return run
    for short, dtype in FLOATS.items():
        g, q, k, v = inputs(2, 3, 3, 5, 7, 4, dtype)
        c.case(f"cpu_{short}", cpu(), g, q, k, v, *saved(q, k, v))
        g, q, k, v = inputs(1, 2, 2, 6, 6, 8, dtype)
        c.case(f"cpu_causal_{short}", cpu(True, scale=0.3), g, q, k, v, *saved(q, k, v, True, scale=0.3))
    g, q, k, v = inputs(2, 2, 2, 5, 7, 4)
    bias = r(2, 1, 5, 7)
    c.case("cpu_bias", cpu(), g, q, k, v, *saved(q, k, v, mask=bias), bias)
    visible = torch.where(c.bools(5, 7) | torch.eye(5, 7, dtype=torch.bool), 0.0, -torch.inf)
    c.case("cpu_mask", cpu(), g, q, k, v, *saved(q, k, v, mask=visible), visible)
    turned = [x.transpose(1, 2).contiguous() for x in (g, q, k, v)]
    out, sums = saved(q, k, v)
    c.case("cpu_turned", lambda g, q, k, v, o, s: cpu()(*(x.transpose(1, 2) for x in (g, q, k, v)), o, s), *turned, out, sums)
    seed = torch.zeros((), dtype=torch.int64)
    for short, dtype in FLOATS.items():
        g, q, k, v = inputs(2, 4, 2, 5, 7, 4, dtype)
        c.case(f"flash_{short}", lambda g, q, k, v, o, s, z: aten._scaled_dot_product_flash_attention_backward(g, q, k, v, o, s, None, None, 5, 7, 0.0, False, z, z), g, q, k, v, *saved(q, k, v), seed)
    g, q, k, v = inputs(2, 2, 2, 5, 7, 4)
    out, sums = saved(q, k, v, mask=bias)
    efficient = lambda wanted: lambda g, q, k, v, m, o, s, z: tuple(x for x in aten._scaled_dot_product_efficient_attention_backward(g, q, k, v, m, o, s, z, z, 0.0, wanted, False) if x is not None)
    padded = F.pad(sums, (0, 27), value=torch.inf)
    c.case("efficient_bias", efficient([True, True, True, True]), g, q, k, v, bias, out, padded, seed)
    c.case("cudnn_bias", lambda g, q, k, v, m, o, s, z: aten._scaled_dot_product_cudnn_attention_backward(g, q, k, v, o, s, z, z, m, None, None, 5, 7, 0.0, False), g, q, k, v, bias, out, sums[..., None], seed)
    c.case("overrideable", lambda g, q, k, v, m, o, s, z: aten._scaled_dot_product_fused_attention_overrideable_backward(g, q, k, v, m, [True, True, True, True], o, s, None, None, 5, 7, 0.0, False, z, z), g, q, k, v, bias, out, sums, seed)


def optimizers(c):
    r = c.randn
    shapes = ((3, 5), (7,), ())
    lists = lambda count, dtype=torch.float32, positive=(): [c.randn(*s, dtype=dtype, positive=k in positive) for k in range(count) for s in shapes]

    def adam(name, op, dtype=torch.float32, decay=0.1, amsgrad=False, maximize=False, scaled=False, found=None, rate=1e-2, cloned=False):
        def step(*a):
            a = [x.clone() for x in a] if cloned else list(a)
            parts = [a[3 * k:3 * k + 3] for k in range(6)]
            rest = a[18:]
            extra = dict(grad_scale=rest.pop(0), found_inf=rest.pop(0)) if scaled else {}
            op(parts[0], parts[1], parts[2], parts[3], parts[4] if amsgrad else [], parts[5], lr=rest[0] if rest else rate, beta1=0.9, beta2=0.9,
               weight_decay=decay, eps=1e-8, amsgrad=amsgrad, maximize=maximize, **extra)
            return tuple(a[:15]) if cloned else a[0] * 2  # an export needs a result
        steps = [torch.tensor(float(k + 1)) for k in range(3)]
        extra = [torch.tensor(8.0), torch.tensor(found or 0.0)] if scaled else []
        c.case(name, step, *lists(5, dtype, positive=(3, 4)), *steps, *extra, *([torch.tensor(rate)] if op.__name__.endswith("tensor_lr") else []))
    # autograd graphs write to their inputs: what is written comes first among the outputs
    for short, dtype in FLOATS.items():
        adam(f"adam_{short}", aten._fused_adam_, dtype, rate=0.1)
        adam(f"adamw_{short}", aten._fused_adamw_, dtype, rate=0.1)
    adam("adam_amsgrad", aten._fused_adam_, amsgrad=True, maximize=True, decay=0.0)
    adam("adamw_amsgrad", aten._fused_adamw_, amsgrad=True, cloned=True)
    adam("adam_scaled", aten._fused_adam_, scaled=True)
    adam("adamw_found_inf", aten._fused_adamw_, scaled=True, found=1.0, cloned=True)
    adam("adamw_tensor_rate", aten._fused_adamw_.tensor_lr)

    def sgd(name, dtype=torch.float32, momentum=0.9, first=False, nesterov=False, maximize=False, scaled=False, decay=0.1, tensor=False):
        op = aten._fused_sgd_.tensor_lr if tensor else aten._fused_sgd_
        def step(*a):
            a = list(a)
            rest = a[9:]
            extra = dict(grad_scale=rest.pop(0), found_inf=rest.pop(0)) if scaled else {}
            op(a[:3], a[3:6], a[6:9] if momentum else [], weight_decay=decay, momentum=momentum, lr=rest[0] if tensor else 0.1, dampening=0.3,
               nesterov=nesterov, maximize=maximize, is_first_step=first, **extra)
            return a[0] * 2
        c.case(name, step, *lists(3, dtype), *([torch.tensor(8.0), torch.tensor(0.0)] if scaled else []), *([torch.tensor(0.1)] if tensor else []))
    for short, dtype in FLOATS.items():
        sgd(f"sgd_{short}", dtype)
    sgd("sgd_plain", momentum=0.0, decay=0.0)
    sgd("sgd_first", first=True, decay=0.0)
    sgd("sgd_nesterov", nesterov=True, maximize=True)
    sgd("sgd_scaled", scaled=True)
    sgd("sgd_tensor_rate", tensor=True)

    def adagrad(*a):
        a = list(a)
        aten._fused_adagrad_(a[:3], a[3:6], a[6:9], a[9:12], lr=0.1, lr_decay=0.01, weight_decay=0.1, eps=1e-10, maximize=False)
        return a[0] * 2
    c.case("adagrad", adagrad, *lists(3, positive=(2,)), *(torch.tensor(float(k + 1)) for k in range(3)))

    def unscale(a, b, found, inverse):
        a, b, found = a.clone(), b.clone(), found.clone()
        aten._amp_foreach_non_finite_check_and_unscale_([a, b], found, inverse)
        return a, b, found
    for short, dtype in FLOATS.items():
        c.case(f"unscale_{short}", unscale, r(3, 5, dtype=dtype), r(7, dtype=dtype), torch.zeros(()), torch.tensor(0.125))
    c.case("unscale_infinite", unscale, r(5), torch.tensor([1.0, float("inf"), 2.0]), torch.zeros(1), torch.tensor([0.125]))

    def unscale_in_place(a, b, found, inverse):
        aten._amp_foreach_non_finite_check_and_unscale_([a, b], found, inverse)
        return a * 2
    c.case("unscale_in_place", unscale_in_place, r(5), torch.tensor([1.0, float("inf"), 2.0]), torch.zeros(1), torch.tensor([0.125]))
    c.case("unscale_nan", unscale, torch.tensor([1.0, float("nan")]), r(5), torch.zeros(()), torch.tensor(1.0))

    def update(scale, tracker, found):
        aten._amp_update_scale_(scale, tracker, found, 2.0, 0.5, 3)
        return scale * 2
    for name, scale, tracker, found in (("kept", 16.0, 1, 0.0), ("grows", 16.0, 2, 0.0), ("shrinks", 16.0, 2, 1.0), ("at_most", 3e38, 2, 0.0)):
        c.case(f"scale_{name}", update, torch.tensor(scale), torch.tensor(tracker, dtype=torch.int32), torch.tensor(found))


def add(family):
    for one in (activation_gradients, loss_gradients, normalization_gradients, convolution_gradients, window_gradients, view_gradients, lookup_gradients, grid_gradients, attention_gradients, gpu_gradients,
                optimizers):
        family(one)
