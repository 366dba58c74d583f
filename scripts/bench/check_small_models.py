"""Checks the libraries of the seed graphs and the small GPT-2 against PyTorch on a GPU.

    python3 scripts/bench/check_small_models.py FOLDER      (FOLDER/NAME/build/*.so, compiled from graphs/NAME)
"""
import glob
import os
import sys

import numpy as np
import torch
from safetensors.torch import load_file

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
from compare_with_pytorch import agreement  # noqa: E402
from compiled_model import CompiledModel  # noqa: E402
from workloads import BF16, F16, rand  # noqa: E402

GRAPHS = os.path.join(HERE, "..", "..", "graphs")


def seed_002(p, s, x, e, t):
    y = torch.exp((-e)[:, None] * t) * (p.t() @ (x * s[:, None]))
    return p @ y, y


SEEDS = {
    "seed_000": (lambda x: (x.sum(-1),), lambda: [rand(1024, 16, 16, 256, dtype=F16)]),
    "seed_002": (seed_002, lambda: [rand(*s, dtype=BF16) for s in ((2048, 128), (2048,), (2048, 256), (128,), (256,))]),
    "seed_004": (lambda a, b: ((a + b).sum(1),), lambda: [rand(64, 128), rand(64, 128)]),
}


def check(name, model, eager, reference):
    model.poison()
    model()
    torch.cuda.synchronize()
    results = [agreement(o, e, r) for o, e, r in zip(model.outputs(), eager, reference)]
    good = len(results) == len(eager) and all(r[0] for r in results)
    print(f"{name}: {'agrees' if good else 'DIFFERS'} {['%.1e' % r[1] for r in results]}")
    return good


def main():
    folder = sys.argv[1]
    library = lambda name: glob.glob(os.path.join(folder, name, "build", "*.so"))[0]
    good = True
    for name, (function, make) in SEEDS.items():
        inputs = make()
        wide = function(*[x.double() for x in inputs])
        good &= check(name, CompiledModel(library(name), {}, inputs), function(*inputs), wide)
    numbers = np.load(os.path.join(GRAPHS, "gpt2_small", "expected.npz"))
    ids = torch.from_numpy(np.load(os.path.join(GRAPHS, "gpt2_small", "inputs.npz"))["input_0"]).cuda()
    weights = load_file(os.path.join(folder, "gpt2_small_default", "weights.safetensors"))
    for name in ("gpt2_small_default", "gpt2_small_decomposed"):
        model = CompiledModel(library(name), weights, [ids])
        good &= check(name, model, [torch.from_numpy(numbers["output_0"]).cuda()],
                      [torch.from_numpy(numbers["reference_0"]).cuda()])
    sys.exit(0 if good else 1)


main()
