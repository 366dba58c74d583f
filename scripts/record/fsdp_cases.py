"""Records tests/cases/fsdp: backward graphs of FSDP models (scripts/make_fsdp_graph) with what PyTorch computes on every rank.

  python scripts/record/fsdp_cases.py

Each rank runs the whole model forward on inputs of its own with PyTorch, and autograd gives the gradients of all weights.
They are averaged (or added) over ranks and cut into the ranks' shards: that is what the graph has to yield. The graph's
inputs are the shards of the weights, what the forward pass saved, and memory for the whole weights.
"""
import os
import subprocess
import sys

import torch
from safetensors.torch import save_file

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CASES = [  # backward: name, layers, ranks, features, batch, dtype, reduction
    ("bf16", 3, 2, 16, 1, "bfloat16", "avg"),
    ("uneven", 2, 3, 7, 5, "float32", "avg"),
    ("sum", 4, 2, 6, 3, "float32", "sum"),
    ("one_rank", 1, 1, 5, 2, "float16", "avg"),
    ("more_ranks_than_rows", 2, 4, 3, 2, "float64", "avg"),
]


def chunks(weight, ranks):
    """The ranks' parts of a weight, rows filled up with zeros."""
    rows = -(-weight.shape[0] // ranks)
    padded = torch.zeros(rows * ranks, weight.shape[1], dtype=weight.dtype)
    padded[: weight.shape[0]] = weight
    return padded.chunk(ranks)


def make_graph(name, layers, ranks, features, batch, dtype, *more):
    folder = os.path.join(ROOT, "tests", "cases", "fsdp", name)
    os.makedirs(folder, exist_ok=True)
    subprocess.run([sys.executable, os.path.join(ROOT, "scripts", "make_fsdp_graph"), "--layers", str(layers),
                    "--world-size", str(ranks), "--features", str(features), "--batch", str(batch), "--dtype", dtype,
                    "--name", "fsdp_" + name, "-o", os.path.join(folder, "graph.json"), *more], check=True)
    return folder


def record(name, layers, ranks, features, batch, dtype, reduction):
    folder = make_graph(name, layers, ranks, features, batch, dtype, "--reduce", reduction)
    torch.manual_seed(len(name))
    kind = getattr(torch, dtype)
    weights = [(torch.randn(features, features) / features**0.5).to(kind).requires_grad_() for _ in range(layers)]
    inputs, expected, gradients = {}, {}, []
    for rank in range(ranks):
        x = torch.randn(batch, features).to(kind)
        tangent = torch.randn(()).to(kind)
        activations, y = [], x
        for weight in weights:
            y = torch.relu(y @ weight.t())
            activations.append(y)
        gradients.append(torch.autograd.grad(y, weights, tangent.expand(batch, features)))
        own = [tangent, x]
        own += [torch.randn(features, features).to(kind) for _ in range(layers - 1)]  # of W2.., not read
        own += [a.detach() for a in activations[:-1]]
        own += [activations[-1] <= 0]
        own += [torch.randn(features, features).to(kind)]  # of W1
        own += [chunks(w.detach(), ranks)[rank].reshape(-1) for w in reversed(weights)]
        for position, tensor in enumerate(own):
            inputs[f"rank_{rank}/arg{position}_1"] = tensor.contiguous().clone()
    for rank in range(ranks):
        for position in range(layers):
            layer = layers - 1 - position
            total = sum(g[layer].double() for g in gradients)
            reference = total / ranks if reduction == "avg" else total
            part = chunks(reference, ranks)[rank].contiguous()
            expected[f"rank_{rank}/output_{position}"] = part.to(kind).clone()
            expected[f"rank_{rank}/reference_{position}"] = part.clone()
        names = [f"arg{k}_1" for k in range(2, layers + 1)] + [f"arg{2 * layers + 1}_1"]
        for weight_name, weight in zip(names, weights[1:] + weights[:1]):
            expected[f"rank_{rank}/mutated_{weight_name}"] = weight.detach().clone()
    save_file(inputs, os.path.join(folder, "inputs.safetensors"))
    save_file(expected, os.path.join(folder, "expected.safetensors"))


def record_forward(name, layers, ranks, features, batch, dtype):
    """Every rank's activations."""
    folder = make_graph(name, layers, ranks, features, batch, dtype, "--direction", "forward")
    torch.manual_seed(7)
    kind = getattr(torch, dtype)
    weights = [(torch.randn(features, features) / features**0.5).to(kind) for _ in range(layers)]
    inputs, expected = {}, {}
    for rank in range(ranks):
        x = torch.randn(batch, features).to(kind)
        own = [x]
        for weight in weights:
            own += [chunks(weight, ranks)[rank].reshape(-1), torch.randn(features, features).to(kind)]  # the second is set
        for position, tensor in enumerate(own):
            inputs[f"rank_{rank}/arg{position}_1"] = tensor.contiguous().clone()

        def activations(kind):
            y, found = x.to(kind), []
            for weight in weights:
                y = torch.relu(y @ weight.to(kind).t())
                found.append(y)
            return [found[-1], x.to(kind)] + [w.to(kind) for w in weights[1:]] + found[:-1]

        for position, (eager, exact) in enumerate(zip(activations(kind), activations(torch.float64))):
            expected[f"rank_{rank}/output_{position}"] = eager.contiguous().clone()
            expected[f"rank_{rank}/reference_{position}"] = exact.contiguous().clone()
        expected[f"rank_{rank}/output_{2 * layers}"] = activations(kind)[0] <= 0
        for position, weight in enumerate(weights):
            expected[f"rank_{rank}/mutated_arg{2 * position + 2}_1"] = weight.clone()
    save_file(inputs, os.path.join(folder, "inputs.safetensors"))
    save_file(expected, os.path.join(folder, "expected.safetensors"))


def main():
    torch.set_num_threads(1)
    for case in CASES:
        record(*case)
    record_forward("forward", 3, 2, 6, 3, "float32")


main()
