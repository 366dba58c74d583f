"""Programs of several ranks, each both as PyTorch runs it and as a graph: a training step of a Llama whose weights are sharded as FSDP2
shards them, and a step of decoding with tensor parallelism.

  python3 scripts/bench/rank_workloads.py training|decoding FOLDER [--size small] [--ranks 2] [--device cpu]

writes FOLDER/WHAT_SIZE.json, the graph, and FOLDER/WHAT_SIZE.safetensors, the inputs of all ranks. A graph is traced from PyTorch's own operators
(autograd's backward pass, functional collectives) with fake tensors in a fake group of ranks: no other process and no GPU is needed. It is the
same for every rank. `--device cuda`: of graphs that GPUs run.
"""
import argparse
import json
import math
import os
import sys

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "python"))
import training_workloads  # noqa: E402
from tsc.graph import Converter  # noqa: E402

TRAINING = {  # of a Llama; batch of each rank
    "large": dict(sizes=dict(vocabulary=32000, width=2048, heads=16, key_heads=8, inner=5632, layers=4), batch=4, length=1024),
    "small": dict(sizes=dict(vocabulary=64, width=32, heads=4, key_heads=2, inner=48, layers=2), batch=2, length=16),
}
DECODING = {
    "large": dict(sizes=dict(vocabulary=32000, width=4096, heads=32, key_heads=8, inner=14336, layers=4), batch=16, length=1024),
    "small": dict(sizes=dict(vocabulary=64, width=32, heads=4, key_heads=2, inner=48, layers=2), batch=2, length=16),
}
RATE, BETAS, EPSILON, DECAY = 3e-4, (0.9, 0.95), 1e-8, 0.1


class fake_ranks:
    """A world of `size` ranks that is one of them alone."""

    def __init__(self, size, rank=0):
        self.size, self.rank = size, rank

    def __enter__(self):
        from torch.testing._internal.distributed.fake_pg import FakeStore
        dist.init_process_group("fake", rank=self.rank, world_size=self.size, store=FakeStore())

    def __exit__(self, *_):
        dist.destroy_process_group()


def to_graph(module, name, mutated=None):
    """Graph JSON of a traced module; `mutated`: {result's number: the input's number that it is the next value of}."""
    module.graph.eliminate_dead_code()
    graph = json.loads(Converter(module).convert())
    results = next(n for n in module.graph.nodes if n.op == "output").args[0]
    inputs = [n.name for n in module.graph.nodes if n.op == "placeholder"]
    graph["name"] = name
    graph["nodes"][-1]["args"] = [[{"node": r.name} for r in results]]
    graph["signature"] = {
        "inputs": [{"node": n["name"], "kind": "user"} for n in graph["nodes"] if n["op"] == "placeholder"],
        "outputs": [{"kind": "input_mutation", "value": {"node": r.name}, "target": inputs[mutated[i]]} if mutated and i in mutated
                    else {"kind": "user", "value": {"node": r.name}} for i, r in enumerate(results)]}
    return graph


# ---- FSDP2

def groups_of(model):
    """The modules whose weights are gathered together, and whether they are freed after the forward pass."""
    return [([model.tokens], True), *(([block], True) for block in model.blocks), ([model.norm, model.head], False)]


def group_parameters(modules):
    return [p for module in modules for p in module.parameters()]


def shard_of(parameters, rank, ranks):
    """A rank's part of a group of weights: of each its rows of that rank, one after the other, as FSDP2 lays them. Rows that
    are missing are zero."""
    parts = []
    for p in parameters:
        rows = -(-p.shape[0] // ranks)
        padded = torch.zeros(rows * ranks, *p.shape[1:], dtype=p.dtype, device=p.device)
        padded[:p.shape[0]] = p.detach()
        parts.append(padded[rank * rows:(rank + 1) * rows].flatten())
    return torch.cat(parts)


class Unshard(torch.autograd.Function):
    """The weights of a group, in bfloat16, of this rank's shard; backward, the shard of their averaged gradients."""

    @staticmethod
    def forward(ctx, shard, shapes, ranks):
        ctx.shapes, ctx.ranks = shapes, ranks
        return tuple(gather(shard, shapes, ranks))

    @staticmethod
    def backward(ctx, *gradients):
        ranks, parts = ctx.ranks, []
        for shape, gradient in zip(ctx.shapes, gradients):
            missing = -shape[0] % ranks
            if missing:
                gradient = F.pad(gradient, [0, 0] * (len(shape) - 1) + [0, missing])
            parts.append(gradient.reshape(ranks, -1))
        flat = torch.cat(parts, 1).to(torch.float32).flatten()
        scattered = torch.ops._c10d_functional.reduce_scatter_tensor(flat, "avg", ranks, "0")
        return torch.ops._c10d_functional.wait_tensor(scattered), None, None


def gather(shard, shapes, ranks):
    lengths = [-(-shape[0] // ranks) * math.prod(shape[1:]) for shape in shapes]
    whole = torch.ops._c10d_functional.all_gather_into_tensor(shard.to(torch.bfloat16), ranks, "0")
    rows = torch.ops._c10d_functional.wait_tensor(whole).view(ranks, -1)
    return [part.reshape(-1, *shape[1:])[:shape[0]] if shape[0] % ranks else part.reshape(shape)
            for part, shape in zip(torch.split_with_sizes(rows, lengths, 1), shapes)]


class gathered_again(torch.autograd.graph.saved_tensors_hooks):
    """What the backward pass needs of gathered weights is gathered again there, so that they need not live until then."""

    def __init__(self, shard, shapes, ranks, weights):
        self.weights = weights
        self.numbers = {w.untyped_storage()._cdata: i for i, w in enumerate(weights)}
        self.again, self.gather = [], lambda: gather(shard.detach(), shapes, ranks)
        super().__init__(self.pack, self.unpack)

    def pack(self, tensor):
        number = self.numbers.get(tensor.untyped_storage()._cdata)
        if number is None:
            return tensor
        return number, tuple(tensor.shape), tensor.stride(), tensor.storage_offset()

    def unpack(self, packed):
        if isinstance(packed, torch.Tensor):
            return packed
        if not self.again:
            self.again = self.gather()
        number, shape, stride, offset = packed
        weight = self.again[number]
        if shape == tuple(weight.shape) and stride == weight.stride():
            return weight
        if weight.dim() == 2 and shape == tuple(weight.t().shape) and stride == weight.t().stride():
            return weight.t()
        return weight.as_strided(shape, stride, offset)


def training_function(model, ranks):
    """(ids, target, cos, sin, count, shards, averages, squares) -> loss of this rank, and what the state has become."""
    groups = groups_of(model)
    shapes = [[tuple(p.shape) for p in group_parameters(modules)] for modules, _ in groups]

    def call(modules, weights, *inputs):
        weights, x = list(weights), inputs[0]
        for module in modules:
            own = dict(zip([name for name, _ in module.named_parameters()], weights))
            del weights[:len(own)]
            x = torch.func.functional_call(module, own, (x, *inputs[1:]))
        return x

    def step(ids, target, cos, sin, count, *state):
        number = len(groups)
        shards = [s.detach().requires_grad_() for s in state[:number]]
        x = ids
        for i, (modules, is_freed) in enumerate(groups):
            weights = Unshard.apply(shards[i], shapes[i], ranks)
            more = (cos, sin) if isinstance(modules[0], training_workloads.LlamaBlock) else ()
            if is_freed:
                with gathered_again(shards[i], shapes[i], ranks, weights):
                    x = call(modules, weights, x, *more)
            else:
                x = call(modules, weights, x, *more)
        loss = F.cross_entropy(x.float().flatten(0, -2), target.flatten())
        gradients = torch.autograd.grad(loss, shards)
        count = count + 1
        below1, below2 = 1 - BETAS[0] ** count, (1 - BETAS[1] ** count).sqrt()
        results = [[], [], []]
        for i, gradient in enumerate(gradients):
            shard, average, square = (state[i + k * number] for k in range(3))
            shard = shard * (1 - RATE * DECAY)
            average = torch.lerp(average, gradient, 1 - BETAS[0])
            square = square * BETAS[1] + gradient * gradient * (1 - BETAS[1])
            results[0].append(shard - (RATE / below1) * average / (square.sqrt() / below2 + EPSILON))
            results[1].append(average)
            results[2].append(square)
        return (loss.detach(), count, *results[0], *results[1], *results[2])

    return step


def training_inputs(model, batch, length, rank, device="cpu"):
    generator = torch.Generator().manual_seed(100 + rank)
    vocabulary, heads = model.tokens.num_embeddings, model.blocks[0].heads
    ids, target = (torch.randint(0, vocabulary, (batch, length), generator=generator).to(device) for _ in range(2))
    cos, sin = training_workloads.angles(length, model.tokens.embedding_dim // heads)
    return ids, target, cos.to(device), sin.to(device)


def training_model(sizes, device="cpu"):
    torch.manual_seed(0)
    with torch.device(device):
        return training_workloads.Llama(**sizes)


def training_graph(size, ranks=2):
    """The graph, and how many of its inputs are no state."""
    settings = TRAINING[size]
    with fake_ranks(ranks), FakeTensorMode():
        model = training_model(settings["sizes"])
        inputs = training_inputs_fake(settings)
        shards = [shard_of(group_parameters(modules), 0, ranks) for modules, _ in groups_of(model)]
        state = (*shards, *(torch.zeros_like(s) for s in shards), *(torch.zeros_like(s) for s in shards))
        inputs = (*inputs, torch.zeros(()), *state)
        module = make_fx(training_function(model, ranks))(*inputs)
    return to_graph(module, "fsdp_step", {i: i + 3 for i in range(1, 2 + len(state))})


def training_inputs_fake(settings):
    sizes, shape = settings["sizes"], (settings["batch"], settings["length"])
    ids = torch.zeros(shape, dtype=torch.int64)
    return ids, ids.clone(), *training_workloads.angles(settings["length"], sizes["width"] // sizes["heads"])


# ---- tensor parallelism

class ParallelBlock(nn.Module):
    """A Llama block's part of one of `ranks`: its heads and its part of the inner width. Also gives its keys and values with those of `position`."""
    is_in_place = True

    def __init__(self, width, heads, key_heads, inner, ranks):
        super().__init__()
        self.ranks, self.heads, self.key_heads, self.depth = ranks, heads // ranks, key_heads // ranks, width // heads
        self.norm1, self.norm2 = nn.RMSNorm(width, eps=1e-5), nn.RMSNorm(width, eps=1e-5)
        self.qkv = nn.Linear(width, (self.heads + 2 * self.key_heads) * self.depth, bias=False)
        self.o = nn.Linear(self.heads * self.depth, width, bias=False)
        self.gate_up = nn.Linear(width, 2 * inner // ranks, bias=False)
        self.down = nn.Linear(inner // ranks, width, bias=False)

    def with_row(self, cache, position, row):
        return cache.index_copy_(2, position, row) if self.is_in_place else cache.index_copy(2, position, row)

    def add_up(self, x):
        return torch.ops._c10d_functional.wait_tensor(torch.ops._c10d_functional.all_reduce(x, "sum", "0"))

    def forward(self, x, cos, sin, position, mask, keys, values):
        batch, width = x.shape
        rotate = training_workloads.LlamaBlock.rotate
        q, k, v = self.qkv(self.norm1(x)).view(batch, -1, self.depth).split([self.heads, self.key_heads, self.key_heads], 1)
        keys = self.with_row(keys, position, rotate(k, cos, sin).unsqueeze(2))
        values = self.with_row(values, position, v.unsqueeze(2))
        y = F.scaled_dot_product_attention(rotate(q, cos, sin).unsqueeze(2), keys, values, attn_mask=mask, enable_gqa=True)
        x = x + self.add_up(self.o(y.reshape(batch, -1)))
        gate, up = self.gate_up(self.norm2(x)).chunk(2, -1)
        return x + self.add_up(self.down(F.silu(gate) * up)), keys, values


class ParallelLlama(nn.Module):
    def __init__(self, vocabulary, width, heads, key_heads, inner, layers, ranks, length):
        super().__init__()
        self.ranks, self.length, self.depth = ranks, length, width // heads
        self.tokens = nn.Embedding(vocabulary, width)
        self.blocks = nn.ModuleList(ParallelBlock(width, heads, key_heads, inner, ranks) for _ in range(layers))
        self.norm, self.head = nn.RMSNorm(width, eps=1e-5), nn.Linear(width, vocabulary // ranks, bias=False)

    def forward(self, ids, position, *caches):
        """The next ids, of one id a sequence at `position`; their logits, and the caches."""
        x = self.tokens(ids)
        angle = position / 10000.0 ** (torch.arange(self.depth // 2, device=ids.device) * 2 / self.depth)
        cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
        mask = (torch.arange(self.length, device=ids.device) <= position)[None, None, None, :]
        held = []
        for i, block in enumerate(self.blocks):
            x, keys, values = block(x, cos, sin, position, mask, caches[2 * i], caches[2 * i + 1])
            held += [keys, values]
        part = self.head(self.norm(x))
        parts = torch.ops._c10d_functional.all_gather_into_tensor(part, self.ranks, "0")
        logits = torch.ops._c10d_functional.wait_tensor(parts).view(self.ranks, *part.shape).transpose(0, 1).flatten(1)
        return logits.argmax(-1), logits, *held


def decoding_model(settings, rank, ranks, device="cpu"):
    """Weights that all ranks have are the same on all; the others differ."""
    torch.manual_seed(0)
    with torch.device(device):
        model = ParallelLlama(**settings["sizes"], ranks=ranks, length=settings["length"]).to(torch.bfloat16).eval()
    if rank:
        generator = torch.Generator(device).manual_seed(rank)
        for name, p in model.named_parameters():
            if "norm" not in name and "tokens" not in name:
                with torch.no_grad():
                    p.copy_((torch.rand(p.shape, generator=generator, device=device) * 2 - 1) / p.shape[1] ** 0.5)
    return model.requires_grad_(False)


def decoding_inputs(settings, ranks, device="cpu"):
    sizes, batch, length = settings["sizes"], settings["batch"], settings["length"]
    shape = (batch, sizes["key_heads"] // ranks, length, sizes["width"] // sizes["heads"])
    generator = torch.Generator().manual_seed(3)
    ids = torch.randint(0, sizes["vocabulary"], (batch,), generator=generator).to(device)
    position = torch.tensor([length // 2]).to(device)
    caches = [torch.randn(shape, generator=generator).to(torch.bfloat16).to(device) for _ in range(2 * sizes["layers"])]
    return ids, position, *caches


def decoding_graph(size, ranks=2):
    settings = DECODING[size]
    with fake_ranks(ranks), FakeTensorMode():
        sizes = settings["sizes"]
        torch.set_default_dtype(torch.bfloat16)
        model = ParallelLlama(**sizes, ranks=ranks, length=settings["length"]).eval().requires_grad_(False)
        torch.set_default_dtype(torch.float32)
        shape = (settings["batch"], sizes["key_heads"] // ranks, settings["length"], sizes["width"] // sizes["heads"])
        caches = [torch.zeros(shape, dtype=torch.bfloat16) for _ in range(2 * sizes["layers"])]
        inputs = (torch.zeros(settings["batch"], dtype=torch.int64), torch.zeros(1, dtype=torch.int64), *caches)
        names = [name for name, _ in model.named_parameters()]
        for block in model.blocks:
            block.is_in_place = False

        def step(*flat):
            given, weights = flat[:len(inputs)], dict(zip(names, flat[len(inputs):]))
            return torch.func.functional_call(model, weights, given)

        module = make_fx(step)(*inputs, *(p.detach() for p in model.parameters()))
    return to_graph(module, "decode_step", {i: i for i in range(2, 2 + len(caches))})


# ---- files

def training_tensors(settings, names, ranks):
    """Each rank's batch and shards; averages and squares of all are zero."""
    model, tensors = training_model(settings["sizes"]), {}
    groups = [group_parameters(modules) for modules, _ in groups_of(model)]
    first = len(names) - 3 * len(groups)
    for rank in range(ranks):
        ids, target, *angles = training_inputs(model, settings["batch"], settings["length"], rank)
        tensors.update({f"rank_{rank}/{names[0]}": ids, f"rank_{rank}/{names[1]}": target, names[2]: angles[0], names[3]: angles[1]})
        for name, parameters in zip(names[first:], groups):
            tensors[f"rank_{rank}/{name}"] = shard_of(parameters, rank, ranks)
    tensors[names[4]] = torch.zeros(())
    for i, name in enumerate(names[first + len(groups):]):
        tensors[name] = torch.zeros_like(tensors[f"rank_0/{names[first + i % len(groups)]}"])
    return tensors


def decoding_tensors(settings, names, ranks):
    given = decoding_inputs(settings, ranks)
    tensors = dict(zip(names, given))
    for rank in range(ranks):
        for name, (parameter, p) in zip(names[len(given):], decoding_model(settings, rank, ranks).named_parameters()):
            is_shared = "norm" in parameter or "tokens" in parameter
            if rank == 0 or not is_shared:
                tensors[name if is_shared else f"rank_{rank}/{name}"] = p.detach()
    return tensors


def write(what, folder, size, ranks, device):
    from safetensors.torch import save_file
    graph = (training_graph if what == "training" else decoding_graph)(size, ranks)
    if device == "cuda":  # traced without a GPU
        graph["nodes"] = json.loads(json.dumps(graph["nodes"]).replace('"cpu"', '"cuda:0"'))
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, f"{what}_{size}")
    with open(path + ".json", "w") as file:
        json.dump(graph, file)
    names = [one["node"] for one in graph["signature"]["inputs"]]
    make = training_tensors if what == "training" else decoding_tensors
    tensors = make((TRAINING if what == "training" else DECODING)[size], names, ranks)
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, path + ".safetensors")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("training", "decoding"))
    parser.add_argument("folder")
    parser.add_argument("--size", default="small", choices=("small", "large"))
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    options = parser.parse_args()
    write(options.what, options.folder, options.size, options.ranks, options.device)


if __name__ == "__main__":
    main()
