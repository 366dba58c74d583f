"""A module that calls a function, what torch.export wants of a workload; and makers of its inputs."""
import torch
import torch.nn as nn


class Fn(nn.Module):
    def __init__(self, f):
        super().__init__()
        self.f = f

    def forward(self, *a):
        return self.f(*a)


def r(*s, dtype=torch.float32, scale=1.0):
    return lambda: (torch.randn(*s) * scale).to(dtype)


def u(*s, dtype=torch.float32):
    return lambda: torch.rand(*s).to(dtype)


def ints(high, *s, dtype=torch.int64, low=0):
    return lambda: torch.randint(low, high, s).to(dtype)


def mask(*s):
    return lambda: torch.rand(*s) < 0.5
