"""The PyTorch side of graphs/anchors: one function per graph, giving (module, inputs) on the GPU.

The inputs are random, never zeros. `weights` of a graph are the module's state by qualified name.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F

BF16, F16, F32 = torch.bfloat16, torch.float16, torch.float32


class Fn(nn.Module):
    def __init__(self, f):
        super().__init__()
        self.f = f

    def forward(self, *a):
        return self.f(*a)


def rand(*shape, dtype=F32):
    return torch.randn(shape, device="cuda", dtype=F32).to(dtype)


def seed_sum():
    return Fn(lambda x: x.sum(-1)), (rand(1024, 16, 16, 256, dtype=F16),)


def seed_mm_chain():
    def f(w, s, x, a, b):
        y = w @ (x * s[:, None])
        z = torch.exp((-a)[:, None] * b) * y
        return z, w.t() @ z
    return Fn(f), (rand(128, 2048, dtype=BF16), rand(2048, dtype=BF16), rand(2048, 256, dtype=BF16),
                   rand(128, dtype=BF16), rand(256, dtype=BF16))


def seed_add_sum():
    return Fn(lambda a, b: (a + b).sum(1)), (rand(8192, 8192), rand(8192, 8192))


def softmax():
    return Fn(lambda x: torch.softmax(x, -1)), (rand(32768, 4096, dtype=BF16),)


def layernorm_gelu():
    def f(x, w, b, res):
        return F.gelu(F.layer_norm(x + res, (x.shape[-1],), w, b))
    return Fn(f), (rand(32768, 4096, dtype=BF16), rand(4096, dtype=BF16), rand(4096, dtype=BF16),
                   rand(32768, 4096, dtype=BF16))


def mlp_gelu():
    m = nn.Sequential(nn.Linear(4096, 16384), nn.GELU(approximate="tanh"), nn.Linear(16384, 4096)).to(BF16).cuda()
    return m, (rand(8192, 4096, dtype=BF16),)


def gpt2():
    from transformers import GPT2Config, GPT2LMHeadModel

    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.m = GPT2LMHeadModel(GPT2Config(use_cache=False, attn_implementation="sdpa")).eval().to(BF16)

        def forward(self, ids):
            return self.m(input_ids=ids, use_cache=False).logits
    return M().cuda(), (torch.randint(0, 50257, (8, 1024), device="cuda"),)


WORKLOADS = {f.__name__: f for f in (seed_sum, seed_mm_chain, seed_add_sum, softmax, layernorm_gelu, mlp_gelu, gpt2)}

# The fewest bytes that must move (inputs and outputs once) and the matrix FLOPs: what no program can beat.
BYTES = {
    "seed_sum": 1024 * 16 * 16 * 257 * 2,
    "seed_add_sum": 8192 * 8192 * 2 * 4 + 8192 * 4,
    "softmax": 32768 * 4096 * 2 * 2,
    "layernorm_gelu": 32768 * 4096 * 3 * 2 + 2 * 4096 * 2,
}
