"""Exports one small case for every module of torch.nn (and what it is most used with), with what PyTorch computes.

    python3 scripts/export/nn_modules.py FOLDER [NAME ...]

One FOLDER/NAME each, as model_zoo.py writes them. scripts/check_exports runs tsc on such a folder and prints a table.
"""
import os
import sys

import torch
import torch.nn.functional as F
from recording import record, shake
from torch import nn

r = torch.randn
CASES = {}


def add(name, module, *inputs, train=False):
    CASES[name] = (module, inputs, train)


class Call(nn.Module):
    """A function as a module."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *inputs):
        result = self.function(*inputs)
        return tuple(result) if isinstance(result, tuple) else result  # torch.export cannot save torch.return_types


def activations():
    for name in ("ELU", "Hardshrink", "Hardsigmoid", "Hardtanh", "Hardswish", "LeakyReLU", "LogSigmoid", "PReLU", "ReLU", "ReLU6", "RReLU",
                 "SELU", "CELU", "GELU", "Sigmoid", "SiLU", "Mish", "Softplus", "Softshrink", "Softsign", "Tanh", "Tanhshrink"):
        add(name, getattr(nn, name)(), r(5, 7) * 3)
    add("Threshold", nn.Threshold(0.1, 20), r(5, 7))
    add("GLU", nn.GLU(), r(5, 8))
    add("Softmin", nn.Softmin(1), r(5, 7))
    add("Softmax", nn.Softmax(1), r(5, 7))
    add("Softmax2d", nn.Softmax2d(), r(2, 3, 4, 5))
    add("LogSoftmax", nn.LogSoftmax(1), r(5, 7))
    add("AdaptiveLogSoftmax", Call(lambda x: F.log_softmax(x, -1)), r(3, 11))
    add("Identity", nn.Identity(), r(3, 4))


def convolutions():
    add("Conv1d", nn.Conv1d(6, 8, 3, stride=2, padding=1), r(2, 6, 13))
    add("Conv2d", nn.Conv2d(3, 8, (3, 5), stride=(2, 1), padding=(1, 2), dilation=(1, 2)), r(2, 3, 11, 17))
    add("Conv2d_same", nn.Conv2d(3, 8, 4, padding="same"), r(2, 3, 11, 9))
    add("Conv2d_reflect", nn.Conv2d(3, 8, 3, padding=2, padding_mode="reflect"), r(2, 3, 11, 9))
    add("Conv2d_groups", nn.Conv2d(6, 12, 3, groups=3, bias=False), r(2, 6, 7, 9))
    add("Conv2d_depthwise", nn.Conv2d(6, 6, 3, groups=6), r(2, 6, 7, 9))
    add("Conv3d", nn.Conv3d(3, 4, (2, 3, 3), stride=(1, 2, 1)), r(1, 3, 5, 7, 6))
    add("ConvTranspose1d", nn.ConvTranspose1d(4, 6, 3, stride=2), r(2, 4, 7))
    add("ConvTranspose2d", nn.ConvTranspose2d(4, 6, 3, stride=2, padding=1, output_padding=1, groups=2), r(2, 4, 5, 7))
    add("ConvTranspose3d", nn.ConvTranspose3d(2, 3, 2, stride=2), r(1, 2, 3, 4, 5))
    add("Unfold", nn.Unfold((2, 3), padding=1, stride=2), r(2, 3, 7, 8))
    add("Fold", nn.Fold((6, 7), (2, 3), stride=1), r(2, 3 * 6, 25))


def pooling():
    for d, shape in ((1, (2, 3, 13)), (2, (2, 3, 9, 11)), (3, (1, 2, 7, 6, 9))):
        add(f"MaxPool{d}d", getattr(nn, f"MaxPool{d}d")(3, stride=2, padding=1), r(*shape))
        add(f"AvgPool{d}d", getattr(nn, f"AvgPool{d}d")(3, stride=2, padding=1, ceil_mode=True), r(*shape))
        add(f"AdaptiveAvgPool{d}d", getattr(nn, f"AdaptiveAvgPool{d}d")(4), r(*shape))
        add(f"AdaptiveMaxPool{d}d", getattr(nn, f"AdaptiveMaxPool{d}d")(4), r(*shape))
        add(f"LPPool{d}d", getattr(nn, f"LPPool{d}d")(2, 3), r(*shape).abs())
    add("MaxPool2d_indices", nn.MaxPool2d(2, return_indices=True), r(2, 3, 8, 9))
    add("MaxPool2d_dilated", nn.MaxPool2d(3, stride=1, dilation=2, ceil_mode=True), r(2, 3, 8, 9))


def padding():
    for name, d in (("ReflectionPad", 1), ("ReflectionPad", 2), ("ReplicationPad", 2), ("ReplicationPad", 3), ("ZeroPad", 2), ("ConstantPad", 1),
                    ("CircularPad", 2)):
        arguments = (2, 3.5) if name == "ConstantPad" else (2,)
        add(f"{name}{d}d", getattr(nn, f"{name}{d}d")(*arguments), r(*((2, 3) + (5, 6, 7)[:d])))


def normalization():
    for train in (False, True):
        mode = "_train" if train else ""
        add("BatchNorm1d" + mode, nn.BatchNorm1d(5), r(7, 5), train=train)
        add("BatchNorm2d" + mode, nn.BatchNorm2d(5), r(4, 5, 3, 6), train=train)
        add("BatchNorm3d" + mode, nn.BatchNorm3d(5, momentum=0.3), r(4, 5, 3, 2, 3), train=train)
        add("InstanceNorm2d_track" + mode, nn.InstanceNorm2d(5, affine=True, track_running_stats=True), r(4, 5, 3, 6), train=train)
    add("BatchNorm2d_plain", nn.BatchNorm2d(5, affine=False, track_running_stats=False), r(4, 5, 3, 6))
    add("GroupNorm", nn.GroupNorm(3, 6), r(4, 6, 5))
    add("InstanceNorm1d", nn.InstanceNorm1d(5), r(4, 5, 9))
    add("InstanceNorm2d", nn.InstanceNorm2d(5, affine=True), r(4, 5, 3, 6))
    add("LayerNorm", nn.LayerNorm((5, 7)), r(3, 5, 7))
    add("RMSNorm", nn.RMSNorm(7), r(3, 5, 7))
    add("LocalResponseNorm", nn.LocalResponseNorm(3), r(2, 7, 4, 5))
    add("WeightNorm", torch.nn.utils.parametrizations.weight_norm(nn.Linear(5, 7)), r(3, 5))
    add("normalize", Call(lambda x: F.normalize(x, dim=1)), r(3, 5))


def recurrent():
    add("RNN", nn.RNN(5, 7, 2, nonlinearity="relu"), r(6, 3, 5))
    add("LSTM", nn.LSTM(5, 7, 2, bidirectional=True, proj_size=3), r(6, 3, 5))
    add("GRU", nn.GRU(5, 7, bias=False, batch_first=True), r(3, 6, 5))
    add("RNNCell", nn.RNNCell(5, 7), r(3, 5), r(3, 7))
    add("LSTMCell", nn.LSTMCell(5, 7), r(3, 5), (r(3, 7), r(3, 7)))
    add("GRUCell", nn.GRUCell(5, 7), r(3, 5), r(3, 7))


def attention():
    add("Transformer", nn.Transformer(16, 2, 1, 1, 24, batch_first=True), r(2, 5, 16), r(2, 4, 16))
    add("TransformerEncoderLayer", nn.TransformerEncoderLayer(16, 2, 24), r(5, 2, 16))
    add("TransformerDecoderLayer", nn.TransformerDecoderLayer(16, 2, 24, activation="gelu"), r(5, 2, 16), r(4, 2, 16))
    add("MultiheadAttention", Attention(average=True), r(2, 5, 16), r(2, 5, 16), r(2, 5, 16))
    add("MultiheadAttention_kdim", Attention(False, kdim=6, vdim=10, add_bias_kv=True, add_zero_attn=True), r(2, 5, 16), r(2, 7, 6), r(2, 7, 10))
    q, k, v = r(2, 4, 5, 8), r(2, 2, 7, 8), r(2, 2, 7, 8)
    sdpa = F.scaled_dot_product_attention
    add("sdpa_gqa_causal", Call(lambda q, k, v: sdpa(q, k, v, is_causal=True, enable_gqa=True)), q, k, v)
    add("sdpa_bool_mask", Call(lambda q, k, v, m: sdpa(q, k, v, attn_mask=m, scale=0.3)), q, r(2, 4, 7, 8), r(2, 4, 7, 8), r(5, 7) > -0.5)
    add("sdpa_float_mask", Call(lambda q, k, v, m: sdpa(q, k, v, attn_mask=m)), q, r(2, 4, 7, 8), r(2, 4, 7, 8), r(2, 1, 5, 7))


class Attention(nn.Module):
    def __init__(self, average, **settings):
        super().__init__()
        self.attention, self.average = nn.MultiheadAttention(16, 4, batch_first=True, **settings), average

    def forward(self, q, k, v):
        return self.attention(q, k, v, average_attn_weights=self.average)


def linear_and_sparse():
    add("Linear", nn.Linear(5, 7), r(2, 3, 5))
    add("Bilinear", nn.Bilinear(5, 6, 7), r(3, 5), r(3, 6))
    add("Embedding", nn.Embedding(11, 5, padding_idx=2), torch.randint(0, 11, (3, 4)))
    add("EmbeddingBag", nn.EmbeddingBag(11, 5, mode="sum"), torch.randint(0, 11, (3, 4)))
    add("EmbeddingBag_offsets", nn.EmbeddingBag(11, 5, mode="mean"), torch.randint(0, 11, (12,)), torch.tensor([0, 4, 7]))
    add("CosineSimilarity", nn.CosineSimilarity(), r(3, 5), r(3, 5))
    add("PairwiseDistance", nn.PairwiseDistance(), r(3, 5), r(3, 5))
    add("cdist", Call(lambda a, b: torch.cdist(a, b)), r(3, 5), r(4, 5))


def vision():
    add("PixelShuffle", nn.PixelShuffle(2), r(2, 8, 3, 4))
    add("PixelUnshuffle", nn.PixelUnshuffle(2), r(2, 3, 4, 6))
    add("ChannelShuffle", nn.ChannelShuffle(2), r(2, 6, 3, 4))
    for mode, shape in (("nearest", (2, 3, 5, 6)), ("bilinear", (2, 3, 5, 6)), ("bicubic", (2, 3, 5, 6)), ("linear", (2, 3, 7)), ("trilinear", (1, 2, 3, 4, 5)),
                        ("nearest-exact", (2, 3, 5, 6)), ("area", (2, 3, 6, 6))):
        add(f"interpolate_{mode}", Call(lambda x, m=mode: F.interpolate(x, scale_factor=1.7, mode=m)), r(*shape))
    add("Upsample_size", nn.Upsample((7, 9), mode="bilinear", align_corners=True), r(2, 3, 5, 6))
    add("interpolate_antialias", Call(lambda x: F.interpolate(x, (3, 4), mode="bilinear", antialias=True)), r(2, 3, 7, 8))
    add("grid_sample", Call(lambda x, t: F.grid_sample(x, F.affine_grid(t, (2, 3, 4, 5), align_corners=False), align_corners=False)),
        r(2, 3, 5, 6), r(2, 2, 3) * 0.5)


def losses():
    x, y = r(5, 7), r(5, 7)
    for name in ("L1Loss", "MSELoss", "SmoothL1Loss", "HuberLoss", "BCEWithLogitsLoss", "KLDivLoss", "PoissonNLLLoss", "SoftMarginLoss",
                 "MultiLabelSoftMarginLoss"):
        target = y.sigmoid() if name in ("BCEWithLogitsLoss", "KLDivLoss", "MultiLabelSoftMarginLoss") else y.sign() if name == "SoftMarginLoss" else y
        add(name, getattr(nn, name)(), x, target)
    add("BCELoss", nn.BCELoss(), x.sigmoid(), y.sigmoid())
    labels = torch.tensor([1, 0, -100, 6, 3])
    add("CrossEntropyLoss", nn.CrossEntropyLoss(weight=torch.rand(7), label_smoothing=0.1), x, labels)
    add("CrossEntropyLoss_probabilities", nn.CrossEntropyLoss(), x, y.softmax(1))
    add("CrossEntropyLoss_2d", nn.CrossEntropyLoss(reduction="none"), r(2, 7, 3, 4), torch.randint(0, 7, (2, 3, 4)))
    add("NLLLoss", nn.NLLLoss(), x.log_softmax(1), labels)
    add("HingeEmbeddingLoss", nn.HingeEmbeddingLoss(), x, y.sign())
    add("CosineEmbeddingLoss", nn.CosineEmbeddingLoss(), x, y, torch.tensor([1, -1, 1, 1, -1]))
    add("MarginRankingLoss", nn.MarginRankingLoss(), x, y, r(5, 7).sign())
    add("MultiMarginLoss", nn.MultiMarginLoss(), x, torch.randint(0, 7, (5,)))
    add("TripletMarginLoss", nn.TripletMarginLoss(), x, y, r(5, 7))


def dropout():
    for name, shape in (("Dropout", (5, 7)), ("Dropout1d", (2, 5, 7)), ("Dropout2d", (2, 3, 4, 5)), ("AlphaDropout", (5, 7)), ("FeatureAlphaDropout", (2, 5, 7))):
        add(name, getattr(nn, name)(), r(*shape))


def tensors():
    x, i = r(5, 7), torch.randint(0, 7, (5, 3))
    for name, function in {
        "topk": lambda x: torch.topk(x, 3), "sort": lambda x: torch.sort(x, descending=True), "argsort": lambda x: x.argsort(0),
        "cummax": lambda x: torch.cummax(x, 1), "logcumsumexp": lambda x: x.logcumsumexp(1), "median": lambda x: x.median(1), "kthvalue": lambda x: x.kthvalue(2),
        "roll": lambda x: x.roll((1, 2), (0, 1)), "rot90": lambda x: x.rot90(), "flip": lambda x: x.flip(0, 1), "tril": lambda x: x.tril(1),
        "trace": lambda x: x.trace(), "norm": lambda x: (x.norm(), x.norm(1, 1), torch.linalg.norm(x, float("inf"), 0), torch.linalg.vector_norm(x, 3, 1)),
        "einsum_ellipsis": lambda x: torch.einsum("...i,ji->...j", x, x), "diag": lambda x: (x.diag(), x[0].diag(), torch.diag_embed(x)),
        "repeat_interleave": lambda x: x.repeat_interleave(2, 1), "tile": lambda x: x.tile(2, 3), "aminmax": lambda x: x.aminmax(dim=1),
        "bucketize": lambda x: torch.bucketize(x, torch.tensor([-1.0, 0.0, 1.0])), "searchsorted": lambda x: torch.searchsorted(x.sort().values, x),
        "divide_by_norm": lambda x: x / x.norm(dim=1, keepdim=True), "cross": lambda x: torch.linalg.cross(x[:, :3], x[:, 3:6]),
        "addmm": lambda x: torch.addmm(x[:, 0], x, x.t(), beta=0.5, alpha=2), "baddbmm": lambda x: torch.baddbmm(x[None], x[None], r_(x)),
        "var": lambda x: (x.var(), x.std(0), torch.var_mean(x, 1), torch.std_mean(x, 0, unbiased=False)),
        "complex": lambda x: torch.view_as_real(torch.complex(x, x)), "where": lambda x: torch.where(x > 0, x, 1), "clamp": lambda x: x.clamp(min=0.1),
        "index": lambda x: (x[:, [0, 2]], x[torch.tensor([1, 3])], x[::2, -1], x[..., None]), "masked_fill": lambda x: x.masked_fill(x > 0, -1.0),
        "where_mean": lambda x: torch.where(x > 0, x, x.mean()), "nan_to_num": lambda x: (x / (x > 0)).nan_to_num(1.0), "lerp": lambda x: x.lerp(x + 1, 0.3),
        "scatter_reduce": lambda x: x.scatter_reduce(1, i, x[:, :3], "amax"), "index_add": lambda x: x.index_add(1, i[0], x[:, :3], alpha=2),
        "gather": lambda x: x.gather(1, i), "take_along": lambda x: torch.take_along_dim(x, i, 1), "put": lambda x: x.index_put((i[0] % 5, i[1]), x[0, :3], accumulate=True),
        "outer": lambda x: torch.outer(x[0], x[1]), "kron": lambda x: torch.kron(x[:2, :2], x[:2, :3]), "block_diag": lambda x: torch.block_diag(x, x),
        "meshgrid": lambda x: torch.meshgrid(x[0], x[1], indexing="ij"), "cumprod": lambda x: x.cumprod(0), "diff": lambda x: x.diff(dim=1),
        "prod": lambda x: x.prod(1), "logsumexp": lambda x: x.logsumexp(1), "erfinv": lambda x: (x.tanh().erfinv(), x.digamma()), "special": lambda x: (torch.special.i0(x), torch.special.expit(x), torch.sinc(x), torch.xlogy(x.abs(), x.abs())),
        "bits": lambda x: (x.long() & 3, x.long() << 1, ~x.long()), "round": lambda x: (x.round(decimals=1), x.frac(), x.trunc(), x.floor_divide(0.7), x % 0.7),
        "unfold_view": lambda x: x.unfold(1, 3, 2), "split": lambda x: (*x.split(3, 1), *x.chunk(2), *x.tensor_split(3, 1)), "stack": lambda x: (torch.stack([x, x], -1), torch.hstack([x, x]), torch.vstack([x, x]), torch.dstack([x, x])),
        "to": lambda x: (x.half().float(), x.to(torch.bfloat16).float(), x.double(), x.int(), x.bool()), "arange": lambda x: (torch.arange(x.shape[1]) + x, torch.linspace(0, 1, 7, dtype=x.dtype) * x, torch.eye(7, dtype=x.dtype) @ x.t()),
        "cartesian": lambda x: torch.cartesian_prod(x[0], x[1, :2]), "triu_indices": lambda x: torch.triu_indices(3, 4), "isclose": lambda x: (torch.isclose(x, x + 1e-9), torch.isnan(x), torch.isfinite(x)), "movedim": lambda x: x.movedim(0, 1).swapaxes(0, 1).contiguous(),
        "fill_diagonal": lambda x: x.clone().fill_diagonal_(2.0), "matrix_vector": lambda x: (x @ x[0], x[0] @ x[1], torch.mv(x, x[0]), torch.chain_matmul(x, x.t(), x)),
        "pow": lambda x: (x ** 2, 2 ** x, x.abs() ** 0.3, x ** x), "heaviside": lambda x: (torch.heaviside(x, x), x.sign(), x.copysign(x.flip(0)), torch.hypot(x, x)),
        "logit": lambda x: (x.sigmoid().logit(), torch.logaddexp(x, x.flip(0)), torch.logaddexp2(x, x)), "count_nonzero": lambda x: (x > 0).count_nonzero(dim=1),
    }.items():
        add("tensor_" + name, Call(function), x)


def r_(x):
    return x[None].transpose(1, 2).matmul(x[None])[:, :7, :7]


def main():
    torch.manual_seed(0)
    for family in (activations, convolutions, pooling, padding, normalization, recurrent, attention, linear_and_sparse, vision, losses, dropout, tensors):
        family()
    failed = 0
    for name in sys.argv[2:] or CASES:
        module, inputs, train = CASES[name]
        torch.manual_seed(1)
        try:
            module.train(train)
            if not isinstance(module, Call):
                shake(module)
            record(module, inputs, os.path.join(sys.argv[1], name), with_decomposed=False, frames=1)
        except Exception as error:  # one that PyTorch cannot export must not hide the others
            failed += 1
            print(f"{name}: FAILED {type(error).__name__}: {str(error).splitlines()[0][:200]}", flush=True)
    print(f"{len(CASES)} cases, {failed} not exported")


main()
