"""Workloads in logs of operator calls: files of lines `Operator: NAME`, each followed by lines `cnt: N, (ARGUMENTS, KEYWORDS)`, where T(SIZES, DTYPE,
stride=...) stands for a tensor. PyTorch's benchmarks/dynamo/microbenchmarks/operator_inp_logs holds such logs of 160 models in training.

`calls(folder)` lists every distinct call once: a first of each operator, then a second of each, and so on, so any stretch is a sample of all operators.
`workload(call, most)` gives (family, text, function, makers), as random_workloads.py does. A call that writes in place is made
without that; what is random, sparse, uninitialized or only a view is left out, and so are calls whose tensors hold more than `most` bytes."""
import collections
import functools
import hashlib
import pathlib
import re

import torch

DTYPES = {"bf16": torch.bfloat16, "f64": torch.float64, "f32": torch.float32, "f16": torch.float16, "c64": torch.complex64, "c128": torch.complex128,
          "i8": torch.int8, "i16": torch.int16, "i32": torch.int32, "i64": torch.int64, "b8": torch.bool, "u8": torch.uint8}
LEFT_OUT = re.compile(r"bernoulli|dropout|rand|multinomial|new_empty|empty|cudnn_rnn|sparse|lift_fresh|_unsafe_view|unsqueeze_|as_strided_|resize|"
                      r"nonzero|split|unbind|embedding_bag|_foreach|set_")


class Tensor:
    """Stands for a tensor in an argument list; its text is a name."""

    def __init__(self, number, size, dtype, stride):
        self.name, self.size, self.dtype, self.stride = f"t{number}", list(size), dtype, stride

    def __repr__(self):
        return self.name

    def bytes(self):
        held = 1
        for size, stride in zip(self.size, self.stride or [1] * len(self.size)):
            held *= size if stride else 1
        return held * self.dtype.itemsize


def parsed(text):
    """The arguments, keywords and tensors of a call."""
    tensors = []

    def tensor(size, dtype, stride=None):
        tensors.append(Tensor(len(tensors), size, dtype, stride))
        return tensors[-1]
    names = {"T": tensor, "torch": torch, "th": torch, "inf": float("inf"), "device": lambda *a, **k: None, **DTYPES}
    arguments, keywords = eval(text, names)
    for name in ("device", "layout", "pin_memory", "non_blocking", "memory_format"):
        keywords.pop(name, None)
    return arguments, keywords, tensors


def operator(name):
    """The overload that computes the same and writes nothing, or None."""
    packet, _, overload = name.removeprefix("aten.").partition(".")
    overload = {"SymInt": "dim_IntList"}.get(overload, overload) if packet == "sum" else overload
    if packet.endswith("_") and hasattr(torch.ops.aten, packet[:-1]):
        packet = packet[:-1]
    found = getattr(getattr(torch.ops.aten, packet, None), overload or "default", None)
    return None if found is None or found._schema.is_mutable else (f"{packet}.{overload or 'default'}")


@functools.cache
def calls(folder):
    """(operator, text of its arguments) of every distinct call of the folder's logs."""
    by_operator = collections.defaultdict(set)
    for path in sorted(pathlib.Path(folder).rglob("*.txt")):
        name = None
        for line in path.read_text().splitlines():
            if line.startswith("Operator: "):
                name = None if LEFT_OUT.search(line) else operator(line[10:].strip())
            elif name and "T(" in line and "ST(" not in line and "c32" not in line:
                by_operator[name].add(line[line.index(",") + 2:].strip().strip("'\""))
    rows = []
    for name, texts in by_operator.items():
        order = sorted(texts, key=lambda text: hashlib.sha256((name + text).encode()).hexdigest())
        rows += [(i, name, text) for i, text in enumerate(order)]
    return [(name, text) for _, name, text in sorted(rows, key=lambda row: row[:2])]


def bounds(packet, arguments, keywords):
    """How many places an integer tensor's elements may name, by the tensor's name."""
    a = list(arguments)
    if packet.startswith("nll_loss"):
        scores, target = (a[1], a[2]) if "backward" in packet else (a[0], a[1])
        return {target.name: scores.size[1 if len(scores.size) > 1 else 0]}
    if packet == "embedding":
        return {a[1].name: a[0].size[0]}
    if packet == "embedding_dense_backward":
        return {a[1].name: a[2]}
    if packet in ("gather", "scatter", "scatter_add", "index_select", "index_add", "scatter_reduce"):
        return {a[2].name: a[0].size[a[1]] if a[0].size else 1}
    if packet in ("index", "index_put", "_index_put_impl", "_unsafe_index"):
        return {place.name: a[0].size[d] for d, place in enumerate(a[1]) if place is not None}
    return {}


def make(tensor, bound, seed, device, packet):
    torch.manual_seed(seed)
    dtype = tensor.dtype
    size = tensor.size
    if tensor.stride is not None:  # distinct elements alone
        size = [n if s else 1 for n, s in zip(size, tensor.stride)]
    if dtype.is_floating_point or dtype.is_complex:
        made = torch.randn(size, device=device, dtype=dtype if dtype.itemsize > 1 else torch.float32).to(dtype)
        if packet in ("native_batch_norm_backward", "native_batch_norm", "sqrt", "rsqrt", "log2", "log") or (packet == "nll_loss_backward" and not size):
            made = made.abs() + 0.5
    elif dtype == torch.bool:
        made = torch.rand(size, device=device) < 0.5
    else:
        made = torch.randint(0, bound or 100, size, device=device, dtype=dtype)
    if tensor.stride is None:
        return made
    laid = torch.empty_strided(tensor.size, tensor.stride, dtype=dtype, device=device)
    places = [1 if s == 0 else n for n, s in zip(tensor.size, tensor.stride)]
    laid.as_strided(places, tensor.stride).copy_(made)
    return laid


def workload(call, most=1 << 30):
    """Of one of calls(); a ValueError where its tensors hold more bytes."""
    name, text = call
    packet = name.partition(".")[0]
    arguments, keywords, tensors = parsed(text)
    held = sum(t.bytes() for t in tensors)
    if held > most:
        raise ValueError(f"{held} bytes")
    limits = bounds(packet, arguments, keywords)

    def maker(position):
        tensor = tensors[position]
        if packet == "max_pool2d_with_indices_backward" and tensor is arguments[-1]:  # the places of the maxima
            return lambda on: torch.ops.aten.max_pool2d_with_indices(make(arguments[1], None, 2, on, packet), *arguments[2:-1])[1]
        return lambda on: make(tensor, limits.get(tensor.name), position + 1, on, packet)
    shown = ", ".join([repr(a) for a in arguments] + [f"{key}={value!r}" for key, value in keywords.items()])
    names = {"torch": torch, "inf": float("inf")}
    exec(f"def function({', '.join(t.name for t in tensors)}):\n    return torch.ops.aten.{name}({shown})", names)
    return packet, f"{name} {text}", names["function"], [maker(i) for i in range(len(tensors))]
