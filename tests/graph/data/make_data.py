"""Writes the exported programs that the graph tests read (PyTorch 2.11, CPU).

usage: python make_data.py     in this folder
"""

import os

import torch

# Compiled under short names, so that the recorded stack traces name no folder.
SOURCE = '''
import torch


class Tiny(torch.nn.Module):
    """Tied, strided, sliced and non-persistent tensors; mutation; several results; a symbolic batch."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.first = torch.nn.Linear(3, 5)
        self.second = torch.nn.Linear(3, 5)
        self.second.weight = self.first.weight
        self.register_buffer("strided", torch.arange(12.0).reshape(3, 4).t())
        self.register_buffer("sliced", torch.arange(20.0)[4:10])
        self.register_buffer("count", torch.zeros(5), persistent=False)
        self.constant = torch.tensor([1.0, 2.0, 3.0])
        self.wide = torch.nn.Parameter(torch.ones(3, 3, dtype=torch.bfloat16))

    def forward(self, x, n, *, flag=True):
        y = self.first(x) + self.second(x)
        self.count.add_(1)
        a, b = y.split([2, 3], dim=1)
        best = y.max(dim=1)
        z = x + self.constant + torch.tensor([3.0, 4.0, 5.0])
        w = z.view(x.shape[0] * 3)
        return a, b, best.values, z @ self.strided.t() * n, self.sliced.sum(), n, w


class Branch(torch.nn.Module):
    def forward(self, x):
        return torch.cond(x.sum() > 0, lambda x: x.sin() + 1, lambda x: x.cos(), (x,))
'''


def modules():
    scope = {}
    exec(compile(SOURCE, "tiny.py", "exec"), scope)
    return scope["Tiny"](), scope["Branch"]()


def save(program, name):
    # Traces through PyTorch's own modules would name the folder that it is installed in.
    installed = os.path.dirname(os.path.dirname(torch.__file__)) + os.sep
    for node in program.graph.nodes:
        if "stack_trace" in node.meta:
            node.meta["stack_trace"] = node.meta["stack_trace"].replace(installed, "")
    torch.export.save(program, name + ".pt2")
    # What torch.export.load makes of the file: the text that the reader must give.
    with open(name + ".txt", "w") as file:
        file.write(str(torch.export.load(name + ".pt2").graph))


def main():
    tiny, branch = modules()
    batch = torch.export.Dim("batch", min=2, max=100)
    program = torch.export.export(
        tiny,
        (torch.randn(4, 3), 3),
        {"flag": True},
        dynamic_shapes={"x": {0: batch}, "n": None, "flag": None},
    )
    save(program, "tiny")
    save(torch.export.export(branch, (torch.randn(3),)), "branch")


if __name__ == "__main__":
    main()
