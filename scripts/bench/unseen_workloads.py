"""Twenty workloads of bandwidth-bound classes at sizes that no kernel was fitted to: primes, odd widths, unusual axes. W maps a
name to a function that gives (module, inputs) on the CPU."""
import torch
import torch.nn as nn
import torch.nn.functional as F

BF16, F16 = torch.bfloat16, torch.float16
W = {}


class Fn(nn.Module):
    def __init__(self, f):
        super().__init__()
        self.f = f

    def forward(self, *a):
        return self.f(*a)


def workload(name, f, *inputs):
    W["u_" + name] = lambda: (Fn(f), tuple(make() for make in inputs))


def r(*shape, dtype=torch.float32):
    return lambda: torch.randn(*shape).to(dtype)


def ints(high, *shape, dtype=torch.int64):
    return lambda: torch.randint(0, high, shape).to(dtype)


workload("sum_two_axes", lambda x: x.sum((1, 3)), r(256, 384, 28, 28, dtype=F16))
workload("norm_columns", lambda x: x.norm(dim=0), r(100003, 96))
workload("logsumexp", lambda x: x.logsumexp(-1), r(4096, 32003, dtype=BF16))
workload("any_rows", lambda x: (x > 4.5).any(-1), r(65537, 1023))
workload("var_around", lambda x: torch.var_mean(x, (0, 2)), r(96, 512, 1013))
workload("softmax_million", lambda x: x.softmax(-1), r(3, 2000003))
workload("cummax", lambda x: tuple(x.cummax(-1)), r(2048, 8191))
workload("cumsum_i64", lambda x: x.cumsum(0), ints(1000, 20000003))
workload("sort_batch", lambda x: tuple(x.sort(-1)), r(64, 200001, dtype=F16))
workload("argsort_i32", lambda x: x.argsort(), ints(1 << 30, 5000011, dtype=torch.int32))
workload("topk_rows", lambda x: tuple(x.topk(64)), r(512, 100003))
workload("index_add", lambda x, i, v: x.index_add(0, i, v), r(50000, 256), ints(50000, 300000), r(300000, 256))
workload("scatter_mean", lambda x, i, v: x.scatter_reduce(0, i, v, "mean"), r(100003), ints(100003, 4000037), r(4000037))
workload("roll_flip", lambda x: x.roll((5, -7), (2, 3)).flip(1), r(64, 3, 512, 512, dtype=F16))
workload("pixel_shuffle", lambda x: F.pixel_shuffle(x, 4), r(16, 256, 128, 128, dtype=BF16))
workload("permute5", lambda x: x.permute(4, 2, 0, 3, 1).contiguous(), r(8, 16, 32, 48, 64))
workload("avg_pool3d", lambda x: F.avg_pool3d(x, 3, 2), r(8, 32, 32, 56, 56, dtype=F16))
workload("bilinear", lambda x: F.interpolate(x, (253, 317), mode="bilinear"), r(8, 64, 100, 100))
workload("grid_sample", lambda x, g: F.grid_sample(x, g.tanh(), align_corners=False), r(8, 32, 256, 256), r(8, 200, 200, 2))
workload("depthwise1d", lambda x, w: F.silu(F.conv1d(x, w, padding=15, groups=1024)), r(16, 1024, 4096, dtype=F16), r(1024, 1, 31, dtype=F16))


# Written after the kernels above had been worked on, in the same way: what nobody tuned for.


def second(name, f, *inputs):
    W["n2_" + name] = lambda: (Fn(f), tuple(make() for make in inputs))


def last(make):
    """The same values with channels innermost."""
    return lambda: make().to(memory_format=torch.channels_last if make().dim() == 4 else torch.channels_last_3d)


def bools(*shape):
    return lambda: torch.rand(*shape) < 0.5


second("sum_first_last", lambda x: x.sum((0, 2)), r(333, 257, 129))
second("mean_strided", lambda x: x[:, ::2].mean(-1), r(4001, 66, 301))
second("prod_short", lambda x: x.prod(-1), r(1500007, 13))
second("minmax_columns", lambda x: (x.amin(0), x.amax(0)), ints(1 << 20, 70001, 301, dtype=torch.int32))
second("count_nonzero", lambda x: (x != 0).sum(1), ints(2, 20011, 2049, dtype=torch.int8))
second("var_last_channels", lambda x: torch.var_mean(x, (1, 2)), r(32, 57, 59, 320, dtype=BF16))
second("softmax_heads", lambda x, m: (x * 0.125 + m).softmax(-1), r(6, 12, 517, 517, dtype=F16), r(6, 1, 1, 517, dtype=F16))
second("log_softmax_channels", lambda x: x.log_softmax(1), r(16, 21, 257, 255))
second("cumsum_middle", lambda x: x.cumsum(1), r(41, 1003, 517))
second("cumprod_f64", lambda x: x.cumprod(-1), r(1009, 4099, dtype=torch.float64))
second("topk_wide", lambda x: tuple(x.topk(7, -1)), r(40009, 263, dtype=F16))
second("sort_columns", lambda x: tuple(x.sort(0)), r(1021, 3003))
second("gather_last", lambda x, i: x.gather(-1, i), r(3001, 4097, dtype=BF16), ints(4097, 3001, 2049))
second("scatter_rows", lambda x, i, v: x.scatter(1, i, v), r(7001, 1025), ints(1025, 7001, 333), r(7001, 333))
second("index_rows", lambda x, i: x[:, i] * 2, r(65, 4097, 129, dtype=F16), ints(4097, 3001))
second("cat_odd", lambda x, y, z: torch.cat((x, y.relu(), z), 2), r(31, 65, 77, 101), r(31, 65, 9, 101), r(31, 65, 42, 101))
second("window_reverse", lambda x: x.view(32, 9, 9, 7, 7, 96).permute(0, 1, 3, 2, 4, 5).reshape(32, 63, 63, 96)[:, :61, :59].contiguous(), r(2592, 49, 96, dtype=F16))
second("max_pool_ceil", lambda x: F.max_pool2d(x, 2, 2, ceil_mode=True), last(r(32, 130, 113, 115, dtype=BF16)))
second("avg_pool1d", lambda x: F.avg_pool1d(x, 7, 3, 2), r(64, 257, 8193))
second("trilinear", lambda x: F.interpolate(x, scale_factor=2, mode="trilinear"), r(2, 33, 31, 45, 47, dtype=F16))
second("bilinear_last", lambda x: F.interpolate(x, (160, 224), mode="bilinear", align_corners=True), last(r(16, 96, 57, 83, dtype=BF16)))
second("depthwise3d", lambda x, w: F.conv3d(x, w, padding=1, groups=48), r(4, 48, 17, 57, 57, dtype=BF16), r(48, 1, 3, 3, 3, dtype=BF16))
second("grouped_conv", lambda x, w, b: F.relu(F.conv2d(x, w, b, padding=1, groups=80)), r(16, 160, 61, 63), r(160, 2, 3, 3), r(160))
second("glu_norm", lambda x, w: F.rms_norm(F.glu(x, -1), (1100,), w), r(20011, 2200, dtype=BF16), r(1100, dtype=BF16))
second("adamw_list", lambda p, g: [a.mul(0.999) - 0.01 * b / (b.abs() + 1e-8) for a, b in zip(p.split(10007), g.split(10007))], r(600011), r(600011))
