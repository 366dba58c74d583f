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
