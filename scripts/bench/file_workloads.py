"""Workloads in files: each defines `Model` (a module), `get_init_inputs()` (what makes it) and `get_inputs()` (what it is called with).

`workload(path, most)` gives (family, text, function, makers), as random_workloads.py does. Where inputs and results hold more than `most` bytes, the file's
`batch_size` is halved until they do not: a workload, not a test of memory. The family is the file's folder."""
import pathlib
import sys
import types

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils import _pytree as pytree

MOST_BYTES = 1 << 30


def files(folder):
    """All files of a folder that define a model, in the order of folder and number (or name)."""
    def key(path):
        number = path.stem.split("_")[0]
        return (str(path.parent), int(number) if number.isdigit() else 0, path.stem)
    return sorted((p for p in pathlib.Path(folder).rglob("*.py") if "get_inputs" in p.read_text()), key=key)


def load(path, divisor=1):
    """What the file defines, with a `batch_size` that is `divisor` times smaller."""
    module = types.ModuleType("workload_" + path.stem)
    sys.modules[module.__name__] = module  # where Dynamo looks for it
    names = module.__dict__
    exec(compile(path.read_text(), str(path), "exec"), names)
    if isinstance(names.get("batch_size"), int):
        names["batch_size"] = max(1, names["batch_size"] // divisor)
    return names


def made(names):
    """The model, in eval mode, and its inputs, where torch.device says."""
    model = names["Model"](*names["get_init_inputs"]())
    return model.eval(), names["get_inputs"]()


def size(tree):
    return sum(t.numel() * t.element_size() for t in pytree.tree_leaves(tree) if isinstance(t, torch.Tensor))


def fitting(path, most=MOST_BYTES):
    """The largest divisor of the batch, a power of two, that is needed; and how many bytes inputs and results then hold."""
    divisor = 1
    while True:
        names = load(path, divisor)
        with FakeTensorMode(allow_non_fake_inputs=True), torch.no_grad():
            model, inputs = made(names)
            held = size(inputs) + size(model(*inputs))
        if held <= most or names.get("batch_size", 1) in (1, None) or divisor >= 1 << 20:
            return divisor, held
        divisor *= 2


def workload(path, device, most=MOST_BYTES):
    path = pathlib.Path(path)
    try:
        divisor, _ = fitting(path, most)
    except Exception:  # some models look at numbers while they are made
        divisor = 1
    names = load(path, divisor)
    torch.manual_seed(0)
    with torch.device(device):
        model = names["Model"](*names["get_init_inputs"]()).eval()
        count = len(names["get_inputs"]())

    def maker(position):
        def make(on):
            torch.manual_seed(position + 1)
            with torch.device(on):
                return names["get_inputs"]()[position]
        return make

    def function(*inputs):
        with torch.no_grad():
            return model(*inputs)
    text = path.stem + (f", batch / {divisor}" if divisor > 1 else "")
    return path.parent.name, text, function, [maker(i) for i in range(count)]
