"""Records graphs with dynamic shapes from PyTorch, each run with several sizes, for tests/cases/dynamic.

    python3 scripts/record/dynamic_cases.py

Needs torch and safetensors; tsc and its tests need neither. Writes
    tests/cases/dynamic/graphs.json          [{"name", "model"}]: torch.export's model.json, undecomposed
    tests/cases/dynamic/tensors.safetensors  NAME/weight/QUALIFIED_NAME, NAME/RUN/input_I and NAME/RUN/output_I (eager, CPU);
                                             integers of the caller are tensors without dimensions
"""
import io
import json
import os
import warnings
import zipfile

import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from torch.export import Dim, export

warnings.filterwarnings("ignore")
ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tests", "cases", "dynamic")


class Block(torch.nn.Module):
    """A transformer block: positions, causal attention, feed-forward, a mean over the sequence."""

    def __init__(self, width=16, heads=2):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = torch.nn.LayerNorm(width), torch.nn.LayerNorm(width)
        self.qkv, self.out = torch.nn.Linear(width, 3 * width), torch.nn.Linear(width, width)
        self.up, self.down = torch.nn.Linear(width, 24), torch.nn.Linear(24, width)
        self.register_buffer("positions", torch.randn(32, width) * 0.1)

    def forward(self, x):
        batch, length, width = x.shape
        x = x + self.positions[:length]
        q, k, v = self.qkv(self.norm1(x)).split(width, 2)
        q, k, v = (t.view(batch, length, self.heads, width // self.heads).transpose(1, 2) for t in (q, k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(batch, length, width))
        x = x + self.down(F.gelu(self.up(self.norm2(x))))
        return x, x.mean(1)


class Tokens(torch.nn.Module):
    """Embedding, padding mask by lengths, masked mean, and views of the sequence."""

    def __init__(self):
        super().__init__()
        self.table = torch.nn.Embedding(11, 6)

    def forward(self, ids, lengths):
        length = ids.shape[1]
        mask = torch.arange(length)[None, :] < lengths[:, None]
        x = self.table(ids) * mask[..., None]
        mean = x.sum(1) / lengths[:, None]
        return mean, F.pad(ids, (0, 3)).float().cumsum(1), ids.flip(1), torch.ones(length, length).tril()


class Joined(torch.nn.Module):
    def forward(self, a, b):
        c = torch.cat([a, b], 0)
        return c.reshape(-1), c.sum() / c.shape[0], a.new_zeros(a.shape[0] * 2) + b.shape[0], c.softmax(0), c.t() @ c


class Pairs(torch.nn.Module):
    """A size that is twice a symbol."""

    def forward(self, x):
        return x.view(x.shape[0] // 2, 2, -1).sum(1), x.unflatten(0, (-1, 2)).amax(0)


class Integers(torch.nn.Module):
    def forward(self, x, y):
        n, m = x.shape[0], y.shape[0]
        k, l = torch.sym_max(n, m), torch.sym_min(n, 2 * m)
        z = x.new_ones(k + l - 1, (n * m) // 2 + 1) * (n % 3)
        return z.sum(0), torch.full((k,), 2.0), x * (-n), x.new_zeros(n**2), x.new_ones(n << 1), x.new_ones((n >> 1) + 1)


class Reals(torch.nn.Module):
    def forward(self, x, y):
        n, m = x.shape[0], y.shape[0]
        return x / (n**0.5), x * torch.sym_float(m), y + n / m, x * torch.sym_sqrt(n), y.sum() / n


class Choice(torch.nn.Module):
    def forward(self, x, y):
        n, m = x.shape[0], y.shape[0]
        k = torch.sym_ite(n > m, n - m, m - n + 1)
        return x.new_ones(k), y * k


class Counts(torch.nn.Module):
    """Integers of the caller."""

    def forward(self, x, n, k):
        return x[:n] * n, torch.arange(n + k), x.amax() * k, torch.zeros(n * k, 2)


def runs(make, *sizes):
    return [make(*size) for size in sizes]


def cases():
    g = torch.Generator().manual_seed(7)
    r = lambda *s: torch.randn(s, generator=g)
    i = lambda high, *s: torch.randint(0, high, s, generator=g)
    batch, length, n, m = Dim("b", min=2, max=8), Dim("t", min=3, max=32), Dim("n", min=2, max=9), Dim("m", min=2, max=9)
    vectors = runs(lambda a, b: (r(a), r(b)), (2, 9), (7, 3), (9, 9))
    yield "block", Block(), (r(3, 7, 16),), ({0: batch, 1: length},), runs(
        lambda b, t: (r(b, t, 16),), (2, 3), (5, 32), (8, 11))
    yield "tokens", Tokens(), (i(11, 3, 5), i(5, 3) + 1), ({0: batch, 1: length}, {0: batch}), runs(
        lambda b, t: (i(11, b, t), i(t, b) + 1), (2, 3), (8, 32), (5, 17))
    yield "joined", Joined(), (r(3, 5), r(4, 5)), ({0: n}, {0: m}), runs(
        lambda a, b: (r(a, 5), r(b, 5)), (2, 9), (7, 3), (9, 9))
    yield "pairs", Pairs(), (r(6, 5),), ({0: 2 * Dim("h", min=2, max=20)},), runs(lambda a: (r(a, 5),), (4,), (40,), (14,))
    yield "integers", Integers(), (r(5), r(4)), ({0: n}, {0: m}), vectors
    yield "reals", Reals(), (r(5), r(4)), ({0: n}, {0: m}), vectors
    yield "choice", Choice(), (r(5), r(4)), ({0: n}, {0: m}), vectors
    yield "counts", Counts(), (r(9, 2), 4, 3), ({0: Dim.DYNAMIC}, Dim.DYNAMIC, Dim.DYNAMIC), runs(
        lambda a, x, y: (r(a, 2), x, y), (9, 4, 3), (5, 3, 2), (17, 16, 5))


def record(name, module, example, shapes, inputs, tensors):
    module = module.eval()
    program = export(module, example, dynamic_shapes=shapes, strict=False)
    buffer = io.BytesIO()
    torch.export.save(program, buffer)
    archive = zipfile.ZipFile(buffer)
    model = json.loads(archive.read(next(n for n in archive.namelist() if n.endswith("models/model.json"))))
    for node in model["graph_module"]["graph"]["nodes"]:
        node["metadata"] = {}
    model["graph_module"]["module_call_graph"] = []
    for key, value in {**program.state_dict, **program.constants}.items():
        tensors[f"{name}/weight/{key}"] = value.detach().contiguous().clone()
    for run, arguments in enumerate(inputs):
        with torch.no_grad():
            outputs = module(*arguments)
        for position, value in enumerate(arguments):
            tensors[f"{name}/{run}/input_{position}"] = torch.as_tensor(value).contiguous().clone()
        for position, value in enumerate(outputs):
            tensors[f"{name}/{run}/output_{position}"] = value.contiguous().clone()
    return {"name": name, "model": model}


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    tensors = {}
    graphs = [record(*case, tensors) for case in cases()]
    os.makedirs(ROOT, exist_ok=True)
    with open(os.path.join(ROOT, "graphs.json"), "w") as file:
        json.dump(graphs, file, sort_keys=True, separators=(",", ":"))
    save_file(tensors, os.path.join(ROOT, "tensors.safetensors"))
    print(f"{len(graphs)} graphs, {len(tensors)} tensors")


if __name__ == "__main__":
    main()
