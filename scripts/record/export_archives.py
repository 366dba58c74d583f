"""Writes small exported programs, and what the PyTorch that exported them says of them.

usage: python export_archives.py FOLDER [NAME]...     with each PyTorch from 2.8 to 2.11, on the CPU

Into FOLDER/MAJOR.MINOR: NAME.pt2 as torch.export.save writes it, NAME.txt (the graph that torch.export.load
makes of it) and weights.json (every parameter, buffer and constant of every program: dtype, sizes, strides and
elements). tests/graph reads them.
"""

import json
import logging
import os
import sys
import warnings

import torch

# Compiled under short names, so that the recorded stack traces name no folder.
SOURCE = '''
from collections import namedtuple

import torch
from torch._higher_order_ops import map as map_, scan, while_loop


class Weights(torch.nn.Module):
    """Views of one storage, tied and strided parameters, buffers of every kind, constants."""

    def __init__(self):
        super().__init__()
        values = torch.arange(24.0)
        self.first = torch.nn.Linear(3, 4)
        self.second = torch.nn.Linear(3, 4)
        self.second.weight = self.first.weight
        self.transposed = torch.nn.Parameter(values[:12].reshape(3, 4).t())
        self.tail = torch.nn.Parameter(values[12:])
        self.register_buffer("column", values.reshape(6, 4)[:, 1])
        self.register_buffer("spread", torch.tensor([7.0]).expand(2, 3))
        self.register_buffer("transient", torch.full((2,), 0.5), persistent=False)
        self.register_buffer("empty", torch.zeros(0, 3))
        self.register_buffer("scalar", torch.tensor(3, dtype=torch.int32))
        self.constant = torch.tensor([1.0, 2.0, 3.0])

    def forward(self, x):
        y = self.first(x) + self.second(x) + self.transposed.sum() + self.tail.sum() + self.column.sum()
        z = self.spread.sum() + self.transient.sum() + self.empty.sum() + self.scalar
        return y + z + (self.constant + torch.tensor([3.0, 4.0, 5.0])).sum()


class Dtypes(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.f16 = torch.nn.Parameter(torch.tensor([1.5, -0.0, float("inf")], dtype=torch.float16))
        self.bf16 = torch.nn.Parameter(torch.tensor([3.0, 1e30], dtype=torch.bfloat16))
        self.f64 = torch.nn.Parameter(torch.tensor([0.1], dtype=torch.float64))
        for name in ["uint8", "int8", "int16", "int32", "int64", "bool", "uint16"]:
            self.register_buffer("b_" + name, torch.tensor([0, 1, 100]).to(getattr(torch, name)))
        self.register_buffer("b_complex64", torch.tensor([1 + 2j, -0.5j], dtype=torch.complex64))
        self.register_buffer("b_float8_e4m3fn", torch.tensor([1.0, 448.0]).to(torch.float8_e4m3fn))
        self.register_buffer("b_float8_e5m2", torch.tensor([-1.0, 57344.0]).to(torch.float8_e5m2))

    def forward(self, x):
        y = x + self.f16.float().sum() + self.bf16.float().sum() + self.f64.sum()
        return y, self.b_uint8, self.b_int8, self.b_int16, self.b_int32, self.b_int64, self.b_bool, self.b_uint16, \\
            self.b_complex64, self.b_float8_e4m3fn, self.b_float8_e5m2


class Dynamic(torch.nn.Module):
    """Symbolic ints, floats and bools, an int that stays symbolic, sizes that depend on data."""

    def forward(self, x, y, n):
        rows = x.shape[0]
        padded = x.new_zeros(rows * 2 + 1)
        half = x * (rows / 2) + n * 0.5
        count = x.sum().to(torch.int64).item()
        torch._check(count >= 0)
        torch._check(count < 100)
        return padded, half, y.reshape(rows, 2, -1), n, rows, torch.zeros(count), x.reshape(-1)[: x.numel() // 2]


Pair = namedtuple("Pair", ["left", "right"])
torch.utils._pytree._register_namedtuple(Pair, serialized_type_name="Pair")


class Nested(torch.nn.Module):
    """Inputs and outputs of every kind, in containers; None between them."""

    def forward(self, x, table, parts, nothing, flag=True, mode="mean", scale=0.5, count=3, rest=None):
        inner = Pair(parts[0] * scale, None)
        return {"sum": x + table["a"], "list": [inner, 3, (table["b"] * count, 2.5, flag)]}, parts[1][0], nothing


class Mutation(torch.nn.Module):
    """Buffers and inputs written in place, views of them, too."""

    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.zeros((), dtype=torch.int64))
        self.register_buffer("cache", torch.zeros(4, 3))

    def forward(self, x, position):
        self.count += 1
        self.cache[1:3].copy_(x)
        x.mul_(2)
        return x + self.cache[:2] + position


class Results(torch.nn.Module):
    """Operators that yield several tensors, or lists of them; results that nobody reads."""

    def __init__(self):
        super().__init__()
        self.recurrent = torch.nn.LSTM(3, 2, batch_first=True)

    def forward(self, x):
        sequence, (hidden, cell) = self.recurrent(x)
        first, *_ = x.split(1, dim=1)
        rows = x.unbind(0)
        best = x.max(dim=1)
        picked = x[torch.tensor([0, 1]), None, torch.tensor([0, 1])]
        return sequence, hidden, first, rows[1], best.indices, torch.stack([rows[0], rows[1]]), picked


class Modes(torch.nn.Module):
    """Regions without gradients and under autocast."""

    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(3, 3)

    def forward(self, x):
        with torch.no_grad():
            y = self.linear(x) * 2
        with torch.autocast("cpu", dtype=torch.bfloat16):
            z = torch.nn.functional.softmax(self.linear(y) @ y.t(), dim=-1)
            w = torch.cat([z, y[:, :2]]) + self.linear.bias.sum()
        return y, z, w


class NestedModes(Modes):
    def forward(self, x):
        with torch.no_grad():
            y = self.linear(x)
            with torch.autocast("cpu", dtype=torch.bfloat16):
                z = self.linear(y) + 1
            y = y + z.float()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            w = self.linear(y)
            with torch.no_grad():
                w = w * self.linear(x).sum()
        return y, w


class Branches(torch.nn.Module):
    """cond in cond, and on a symbolic bool."""

    def forward(self, x):
        def positive(x):
            return torch.cond(x.sum() > 10, lambda x: x + 1, lambda x: x - 1, (x,))

        y = torch.cond(x.sum() > 0, positive, lambda x: x.cos(), (x,))
        return y, torch.cond(x.shape[0] > 4, lambda x: (x * 2,), lambda x: (x * 3,), (x,))


class Loops(torch.nn.Module):
    def forward(self, x, bias):
        count, total = while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y * 2), (torch.tensor(0), x))
        rows = map_(lambda row, bias: row.sin() + bias, x, bias)
        carry, steps = scan(lambda carry, row: (carry + row, carry * row), torch.zeros(2), x)
        return count, total, rows, carry, steps


class Loss(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(2, 2)

    def forward(self, x):
        return self.linear(x).pow(2).sum()


class Arguments(torch.nn.Module):
    """Kinds of arguments that the other programs do not have."""

    def forward(self, x):
        y = torch.zeros_like(x, dtype=torch.float64, memory_format=torch.preserve_format)
        y = y.to(memory_format=torch.channels_last)
        z = torch.full((2, 2), float("-inf"), dtype=torch.bfloat16, device="cpu", layout=torch.strided)
        w = torch.nn.functional.interpolate(x, scale_factor=[2.0, 2.0], mode="nearest")
        s = torch.std(x, dim=[-1], correction=0)
        e = torch.einsum("nchw,nkhw->nck", x, x)
        return y, z, w, s, e, torch.searchsorted(x.flatten(), x.flatten(), side="right")


class Complex(torch.nn.Module):
    def forward(self, x):
        return torch.view_as_real(torch.view_as_complex(x) * (0.5 - 2j))
'''


def programs():
    scope = {}
    exec(compile(SOURCE, "modules.py", "exec"), scope)
    torch.manual_seed(0)
    export, Dim = torch.export.export, torch.export.Dim
    batch = Dim("batch", min=2, max=100)
    x = torch.randn(2, 3)
    yield "weights", lambda: export(scope["Weights"](), (x,))
    yield "dtypes", lambda: export(scope["Dtypes"](), (x,))
    yield "dynamic", lambda: export(
        scope["Dynamic"](), (torch.randn(4, 6), torch.randn(8, 3), 3),
        dynamic_shapes={"x": {0: batch}, "y": {0: 2 * batch}, "n": Dim.DYNAMIC})
    yield "nested", lambda: export(
        scope["Nested"](), (x[0], {"a": torch.randn(3), "b": torch.randn(2)},
                            [torch.randn(2), (torch.randn(1),)], None), {"flag": False, "mode": "max"})
    mutation = scope["Mutation"]()
    yield "mutation", lambda: export(mutation, (torch.randn(2, 3), torch.tensor(1)))
    yield "mutation_functional", lambda: export(
        mutation, (torch.randn(2, 3), torch.tensor(1))).run_decompositions()
    yield "results", lambda: export(scope["Results"](), (torch.randn(2, 3, 3),))
    yield "modes", lambda: export(scope["Modes"](), (x,))
    yield "modes_nested", lambda: export(scope["NestedModes"](), (x,))
    yield "branches", lambda: export(scope["Branches"](), (torch.randn(3, 2),), dynamic_shapes={"x": {0: batch}})
    yield "loops", lambda: export(scope["Loops"](), (torch.randn(3, 2), torch.randn(2)))
    from torch.export.experimental import _export_forward_backward
    yield "gradients", lambda: _export_forward_backward(export(scope["Loss"](), (torch.randn(3, 2),)))
    yield "arguments", lambda: export(scope["Arguments"](), (torch.randn(1, 2, 2, 2),))
    yield "complex", lambda: export(scope["Complex"](), (torch.randn(3, 2),))


def without_folders(program):
    """Traces through PyTorch's own modules would name the folder that it is installed in."""
    installed = os.path.dirname(os.path.dirname(torch.__file__)) + os.sep
    for module in program.graph_module.modules():
        for node in getattr(module, "graph", None).nodes if hasattr(module, "graph") else []:
            if "stack_trace" in node.meta:
                node.meta["stack_trace"] = node.meta["stack_trace"].replace(installed, "")
            node.meta.pop("from_node", None)  # repeats the trace, and tsc does not read it
    return program


def described(tensor):
    detached = tensor.detach()
    if detached.dtype.is_complex:
        values = torch.view_as_real(detached).double().flatten().tolist()
    else:
        values = detached.double().flatten().tolist()
    return {"dtype": str(tensor.dtype)[6:], "sizes": list(tensor.shape), "strides": list(tensor.stride()),
            "data": [v if abs(v) < 1e300 else "inf" for v in values]}


def main():
    warnings.filterwarnings("ignore")
    logging.disable(logging.ERROR)
    torch.set_num_threads(1)
    folder = os.path.join(sys.argv[1], ".".join(torch.__version__.split(".")[:2]))
    os.makedirs(folder, exist_ok=True)
    weights = {}
    for name, make in programs():
        if len(sys.argv) > 2 and name not in sys.argv[2:]:
            continue
        path = os.path.join(folder, name + ".pt2")
        try:
            program = without_folders(make())
            torch.export.save(program, path)
        except Exception as error:  # what this version cannot export has no file
            print(f"{name}: {type(error).__name__} {str(error)[:100]!r}", file=sys.stderr)
            if os.path.exists(path):
                os.remove(path)
            continue
        try:
            text = str(torch.export.load(path).graph)
        except Exception as error:  # PyTorch cannot read what it wrote of empty autocast regions
            print(f"{name}: cannot be loaded again: {str(error)[:100]!r}", file=sys.stderr)
            text = None
        if text is not None:
            with open(os.path.join(folder, name + ".txt"), "w") as file:
                file.write(text)
        tensors = {**program.state_dict, **program.constants}
        weights[name] = {key: described(value) for key, value in tensors.items()}
    with open(os.path.join(folder, "weights.json"), "w") as file:
        json.dump(weights, file)


if __name__ == "__main__":
    main()
