"""A module that calls a function: what torch.export wants of a workload."""
import torch.nn as nn


class Fn(nn.Module):
    def __init__(self, f):
        super().__init__()
        self.f = f

    def forward(self, *a):
        return self.f(*a)
