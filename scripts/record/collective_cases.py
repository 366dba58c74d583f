"""Records tests/cases/collectives: graphs with collectives of every kind, and what PyTorch computes of them on every rank.

  python scripts/record/collective_cases.py

Each rank is a process of torch.distributed (gloo) that runs the graph's own nodes. What gloo does not have (averages, some dtypes) is computed of
everybody's tensors, gathered.
"""
import json
import os
import socket

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives  # noqa: F401  (registers the operators)
import torch.multiprocessing as multiprocessing
from collective_graphs import experts, forms, mesh, products_in_pieces, reductions, tensor_parallel
from safetensors.torch import save_file

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CASES = [(reductions, 3, {}), (forms, 3, {}), (tensor_parallel, 2, {}), (products_in_pieces, 2, {}), (mesh, 4, {"dp": [[0, 2], [1, 3]], "tp": [[0, 1], [2, 3]]}),
         (experts, 4, {})]


def random_input(spec):
    size, kind = spec["size"], getattr(torch, spec["dtype"])
    if kind == torch.bool:
        return torch.rand(size) < 0.6
    if kind.is_floating_point:
        return torch.randn(size).to(kind)
    return torch.randint(0 if kind == torch.uint8 else -9, 10, size).to(kind)


def emulated(target, args, size, group):
    """A reduction that gloo does not have, of everybody's tensors."""
    x, operation = args[0], args[1]
    parts = [torch.empty_like(x.contiguous().view(torch.uint8)) for _ in range(size)]
    dist.all_gather(parts, x.contiguous().view(torch.uint8), group=group)
    parts = torch.stack([part.view(x.dtype) for part in parts])
    wide = parts if x.dtype in (torch.float64, torch.int64) else parts.float() if x.is_floating_point() else parts.long()
    bits = {"band": torch.bitwise_and, "bor": torch.bitwise_or, "bxor": torch.bitwise_xor}
    if x.dtype == torch.bool:
        result = wide.amax(0) if operation == "sum" else wide.amin(0)
    elif operation in bits:
        result = wide[0]
        for part in wide[1:]:
            result = bits[operation](result, part)
    else:
        result = {"sum": lambda t: t.sum(0), "avg": lambda t: t.mean(0), "max": lambda t: t.amax(0), "min": lambda t: t.amin(0),
                  "product": lambda t: t.prod(0)}[operation](wide)
    result = result.to(x.dtype)
    if "reduce_scatter" in target:
        result = result.chunk(size)[dist.get_rank(group)]
    return result.contiguous()


def execute(graph, inputs, groups):
    values, given = {}, iter(inputs)

    def resolved(value):
        if isinstance(value, dict) and "node" in value:
            return values[value["node"]]
        if isinstance(value, dict):
            return getattr(torch, value["dtype"]) if "dtype" in value else torch.device(value["device"])
        return [resolved(v) for v in value] if isinstance(value, list) else value

    for node in graph["nodes"]:
        if node["op"] == "placeholder":
            values[node["name"]] = next(given)
        elif node["op"] == "call_function":
            args, kwargs = resolved(node["args"]), {k: resolved(v) for k, v in node.get("kwargs", {}).items()}
            if node["target"] == "operator.getitem":
                values[node["name"]] = args[0][args[1]]
                continue
            space, name, overload = node["target"].split(".")
            operator = getattr(getattr(getattr(torch.ops, space), name), overload)
            if space == "_c10d_functional" and "reduce" in name and "coalesced" not in name and not name.endswith("_"):
                group = groups[args[-1]]
                values[node["name"]] = emulated(name, args, group.size(), group)
            else:
                values[node["name"]] = operator(*args, **kwargs)
        else:
            return [resolved(value) for value in node["args"][0]]


def run(rank, make, ranks, lists, port, results):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=ranks, init_method=f"tcp://127.0.0.1:{port}")
    groups = {"0": dist.group.WORLD}
    for name, members in lists.items():
        for own in members:
            group = dist.new_group(own)
            if rank in own:
                groups[name] = group
                torch._C._distributed_c10d._register_process_group(name, group)
    graph = make()
    torch.manual_seed(100 * rank + len(graph["name"]))
    inputs = [random_input(node["val"]) for node in graph["nodes"] if node["op"] == "placeholder"]
    outputs = execute(graph, [x.clone() for x in inputs], groups)
    results.put((rank, [x.numpy() if x.dtype != torch.bfloat16 else x.view(torch.int16).numpy() for x in inputs],
                 [(str(y.dtype), (y.contiguous().view(torch.int16) if y.dtype == torch.bfloat16 else y.contiguous()).numpy())
                  for y in outputs]))
    dist.barrier()


def tensor(array, dtype):
    result = torch.from_numpy(array.copy())
    return result.view(torch.bfloat16) if dtype.endswith("bfloat16") else result


def record(make, ranks, lists):
    graph = make()
    folder = os.path.join(ROOT, "tests", "cases", "collectives", graph["name"])
    os.makedirs(folder, exist_ok=True)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    processes = [context.Process(target=run, args=(rank, make, ranks, lists, port, results)) for rank in range(ranks)]
    for process in processes:
        process.start()
    inputs, expected = {}, {}
    specs = [node["val"]["dtype"] for node in graph["nodes"] if node["op"] == "placeholder"]
    for _ in processes:
        rank, given, computed = results.get(timeout=120)
        for i, array in enumerate(given):
            inputs[f"rank_{rank}/x{i}"] = tensor(array, specs[i])
        for i, (dtype, array) in enumerate(computed):
            expected[f"rank_{rank}/output_{i}"] = tensor(array, dtype)
    for process in processes:
        process.join()
    with open(os.path.join(folder, "graph.json"), "w") as file:
        json.dump(graph, file, separators=(",", ":"))
        file.write("\n")
    save_file(dict(sorted(inputs.items())), os.path.join(folder, "inputs.safetensors"))
    save_file(dict(sorted(expected.items())), os.path.join(folder, "expected.safetensors"))


class Routing(torch.nn.Module):
    """Rows go where the data says: how many, the ranks tell each other first."""

    def forward(self, x, counts):
        collectives = torch.distributed._functional_collectives
        received = collectives.all_to_all_single(counts, None, None, dist.group.WORLD)
        sends, receives = counts.tolist(), received.tolist()
        for count in sends + receives:
            torch._check(count >= 0)
            torch._check(count <= 100)
        torch._check(sum(sends) == x.shape[0])
        return collectives.all_to_all_single(x, receives, sends, dist.group.WORLD) * 2


def export_routing(path):
    """In a process of its own, whose ranks are not there."""
    from torch.testing._internal.distributed.fake_pg import FakeStore

    dist.init_process_group("fake", rank=0, world_size=2, store=FakeStore())
    exported = torch.export.export(Routing(), (torch.randn(4, 3), torch.tensor([1, 3])))
    for node in exported.graph.nodes:
        if "stack_trace" in node.meta:  # without the places of this machine
            node.meta["stack_trace"] = node.meta["stack_trace"].replace(ROOT + os.sep, "")
    torch.export.save(exported, path)


def run_routing(rank, port, results):
    dist.init_process_group("gloo", rank=rank, world_size=2, init_method=f"tcp://127.0.0.1:{port}")
    torch.manual_seed(rank)
    x, counts = torch.randn(4, 3), torch.tensor([[1, 3], [4, 0]][rank])
    results.put((rank, x.numpy(), counts.numpy(), Routing()(x, counts).numpy()))
    dist.barrier()


def record_routing():
    folder = os.path.join(ROOT, "tests", "cases", "collectives", "routing")
    os.makedirs(folder, exist_ok=True)
    context = multiprocessing.get_context("spawn")
    exporter = context.Process(target=export_routing, args=(os.path.join(folder, "graph.pt2"),))
    exporter.start()
    exporter.join()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    results = context.Queue()
    processes = [context.Process(target=run_routing, args=(rank, port, results)) for rank in range(2)]
    for process in processes:
        process.start()
    inputs, expected = {}, {}
    for _ in processes:
        rank, x, counts, y = results.get(timeout=120)
        inputs[f"rank_{rank}/x"], inputs[f"rank_{rank}/counts"] = torch.from_numpy(x.copy()), torch.from_numpy(counts.copy())
        expected[f"rank_{rank}/output_0"] = torch.from_numpy(y.copy())
    for process in processes:
        process.join()
    save_file(dict(sorted(inputs.items())), os.path.join(folder, "inputs.safetensors"))
    save_file(dict(sorted(expected.items())), os.path.join(folder, "expected.safetensors"))


if __name__ == "__main__":
    record_routing()
    for case in CASES:
        record(*case)
