"""Exports programs of DTensors, with what PyTorch computes of whole tensors.

    python3 scripts/export/dtensor_programs.py FOLDER [NAME ...] [--ranks 4]

Of each FOLDER/NAME: graph.json, the same for all ranks; inputs.safetensors, whole tensors cut by their placements (rank_R/NAME, or NAME where all
ranks have all of it); expected.safetensors, results of one process cut likewise. No other process is needed: ranks are fake.

`uneven` has a graph for each rank, graph_R.json: where shards are uneven, or a rank takes its part of what all have, PyTorch writes the rank's own
sizes and places down as numbers.

    tsc run FOLDER/NAME/graph.json --inputs FOLDER/NAME/inputs.safetensors --expect FOLDER/NAME/expected.safetensors --world-size 4 --device host
    tsc run FOLDER/uneven/graph_{rank}.json --inputs .. --expect .. --world-size 4 --device host --processes
"""
import argparse
import json
import os
import sys

import torch
from safetensors.torch import save_file
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, SequenceParallel, parallelize_module
from torch.fx.experimental.proxy_tensor import make_fx

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "bench"))
from rank_workloads import fake_ranks, to_graph  # noqa: E402


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(12), nn.Linear(12, 32), nn.Linear(32, 12)

    def forward(self, x):
        return self.down(torch.relu(self.up(self.norm(x))))


class Redistributed(nn.Module):
    """Changes of placement that are the same program on every rank: not those that choose a rank's own part of what all have."""

    def forward(self, x):
        if not isinstance(x, DTensor):
            return x.t() @ x + (x * x).sum(0, keepdim=True) * x.max()
        squares = (x * x).sum(0, keepdim=True).redistribute(placements=[Replicate()])
        most = x.redistribute(placements=[Replicate()]).max()
        return (x.t() @ x).redistribute(placements=[Shard(0)]) + squares * most


def tensor_parallel(mesh):
    return parallelize_module(Mlp(), mesh, {"up": ColwiseParallel(), "down": RowwiseParallel()}), [Replicate()], [Replicate()]


def sequence_parallel(mesh):
    plan = {"norm": SequenceParallel(sequence_dim=0), "up": ColwiseParallel(input_layouts=Shard(0)), "down": RowwiseParallel(output_layouts=Shard(0))}
    return parallelize_module(Mlp(), mesh, plan), [Shard(0)], [Shard(0)]


def redistributed(_mesh):
    return Redistributed(), [Shard(0)], [Shard(0)]


PROGRAMS = {f.__name__: f for f in (tensor_parallel, sequence_parallel, redistributed)}


def cut(tensors, name, whole, placements, ranks):
    """`whole` as each rank has it."""
    if placements[0].is_replicate():
        tensors[name] = whole.contiguous()
        return
    for rank, part in enumerate(whole.chunk(ranks, placements[0].dim)):
        tensors[f"rank_{rank}/{name}"] = part.clone(memory_format=torch.contiguous_format)


def export(make, folder, ranks):
    torch.manual_seed(0)
    mesh = init_device_mesh("cpu", (ranks,))
    torch.manual_seed(1)
    whole = Mlp() if make is not redistributed else Redistributed()
    weights = {name: p.detach() for name, p in whole.named_parameters()}
    x = torch.randn(8, 12)
    model, given, taken = make(mesh)
    sharded = dict(model.named_parameters())
    placements = {name: p.placements if isinstance(p, DTensor) else [Replicate()] for name, p in sharded.items()}
    inputs, names = {}, list(sharded)

    def local(tensor, places):
        return tensor if places[0].is_replicate() else tensor.chunk(ranks, places[0].dim)[0].contiguous()

    def step(part, *parts):
        parts = [p.detach().requires_grad_() for p in parts]
        held = {name: DTensor.from_local(p, mesh, placements[name], run_check=False) if isinstance(sharded[name], DTensor) else p
                for name, p in zip(names, parts)}
        own = part if given[0].is_replicate() else DTensor.from_local(part, mesh, given, run_check=False)
        result = torch.func.functional_call(model, held, (own,))
        result = result.to_local() if isinstance(result, DTensor) else result
        # Others' gradients are sums over what a rank has of the batch.
        gradients = torch.autograd.grad(result.square().sum(), [p for p, name in zip(parts, names) if not placements[name][0].is_replicate()]) if parts else ()
        return (result.detach() if parts else result, *gradients)

    module = make_fx(step, tracing_mode="fake")(local(x, given), *(local(weights[n], placements[n]) for n in names))
    graph = to_graph(module, make.__name__)
    for node, (name, tensor, places) in zip(graph["signature"]["inputs"], [("x", x, given), *((n, weights[n], placements[n]) for n in names)]):
        cut(inputs, node["node"], tensor, places, ranks)
    for p in whole.parameters():
        p.requires_grad_()
    result = whole(x)
    expected = {}
    cut_outputs(expected, "output_0", result.detach(), taken, ranks)
    if names:
        cut_weights = [(name, p) for name, p in whole.named_parameters() if not placements[name][0].is_replicate()]
        gradients = torch.autograd.grad(result.square().sum(), [p for _, p in cut_weights])
        for i, ((name, _), gradient) in enumerate(zip(cut_weights, gradients)):
            cut_outputs(expected, f"output_{i + 1}", gradient, placements[name], ranks)
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "graph.json"), "w") as file:
        json.dump(graph, file)
    save_file(inputs, os.path.join(folder, "inputs.safetensors"))
    save_file(expected, os.path.join(folder, "expected.safetensors"))
    print(f"{make.__name__}: {len(graph['nodes'])} nodes, {len(expected)} results of {ranks} ranks")


def cut_outputs(tensors, name, whole, placements, ranks):
    for rank in range(ranks):
        part = whole if placements[0].is_replicate() else whole.chunk(ranks, placements[0].dim)[rank]
        tensors[f"rank_{rank}/{name}"] = part.clone(memory_format=torch.contiguous_format)


class Uneven(nn.Module):
    """10 rows and 7 columns, from rows to columns, to all and back."""

    def forward(self, x):
        if not isinstance(x, DTensor):
            return x * x + x.cumsum(0)
        sums = x.redistribute(placements=[Shard(1)]).cumsum(0).redistribute(placements=[Shard(0)])
        whole = x.redistribute(placements=[Replicate()])
        return (whole * whole).redistribute(placements=[Shard(0)]) + sums


def trace_uneven(path, shape, part, rank, ranks):
    with fake_ranks(ranks, rank):
        mesh = init_device_mesh("cpu", (ranks,))

        def step(part):
            own = DTensor.from_local(part, mesh, [Shard(0)], run_check=False, shape=shape, stride=(shape[1], 1))
            return (Uneven()(own).to_local(),)

        graph = to_graph(make_fx(step, tracing_mode="fake")(part), "uneven")
    with open(path, "w") as file:
        json.dump(graph, file)


def export_uneven(folder, ranks):
    """Rows in parts as torch.chunk cuts them, of which the last may be smaller, or missing."""
    torch.manual_seed(2)
    x = torch.randn(10, 7)
    parts, results = (list(whole.chunk(ranks)) for whole in (x, Uneven()(x)))
    os.makedirs(folder, exist_ok=True)
    inputs, expected = {}, {}
    for rank in range(ranks):
        path = os.path.join(folder, f"graph_{rank}.json")
        child = os.fork()  # what DTensor remembers of a mesh is of one rank
        if child == 0:
            trace_uneven(path, x.shape, parts[rank], rank, ranks)
            os._exit(0)
        if os.waitpid(child, 0)[1] != 0:
            sys.exit(f"rank {rank} was not traced")
        with open(path) as file:
            name = json.load(file)["signature"]["inputs"][0]["node"]
        inputs[f"rank_{rank}/{name}"], expected[f"rank_{rank}/output_0"] = parts[rank].clone(), results[rank].clone()
    save_file(inputs, os.path.join(folder, "inputs.safetensors"))
    save_file(expected, os.path.join(folder, "expected.safetensors"))
    print(f"uneven: {[len(part) for part in parts]} rows")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("names", nargs="*", help=", ".join([*PROGRAMS, "uneven"]))
    parser.add_argument("--ranks", type=int, default=4)
    options = parser.parse_args()
    names = options.names or [*PROGRAMS, "uneven"]
    if "uneven" in names:
        export_uneven(os.path.join(options.folder, "uneven"), options.ranks)
    with fake_ranks(options.ranks):
        for name in [name for name in names if name != "uneven"]:
            export(PROGRAMS[name], os.path.join(options.folder, name), options.ranks)


main()
