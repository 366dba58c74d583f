"""One family of cases: programs are exported, run in eager mode and in float64, checked against each other, and kept
in the form that tests/cases/README.md describes."""
import io
import json
import math
import os
import warnings
import zipfile

import torch
from safetensors.torch import load_file

import case_archive

warnings.filterwarnings("ignore")
FLOATS = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}
INTS = {"i64": torch.int64, "i32": torch.int32, "i16": torch.int16, "i8": torch.int8, "u8": torch.uint8}
SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, math.inf, -math.inf, math.nan, 3.0, 1e-4, 88.0]


# The rule of docs/numbers.md: bound of the relative error of the norm, ulps allowed an element, ulp at 1, smallest number.
RULES = {torch.float64: (1e-10, 16, 2.0**-52, 2.0**-1074), torch.float32: (1e-5, 16, 2.0**-23, 2.0**-149),
         torch.float16: (5e-3, 4, 2.0**-10, 2.0**-24), torch.bfloat16: (4e-3, 4, 2.0**-7, 2.0**-133)}


def inconsistency(output, reference):
    """Why eager's `output` is no record of the float64 `reference`, or None. Then the case tests an accident of eager
    mode: NaN or infinity where there is a number, underflow, or an error ten times what the rule allows."""
    if output.dtype not in RULES or output.shape != reference.shape:
        return None if output.dtype not in RULES else f"shapes {output.shape} and {reference.shape}"
    bound, ulps, epsilon, smallest = RULES[output.dtype]
    wide, rounded = output.double(), reference.to(output.dtype).double()  # overflow of the dtype itself is right
    if not torch.equal(wide.isnan(), rounded.isnan()):
        return "NaN in other places"
    infinite = wide.isinf() | rounded.isinf()
    if not torch.equal(wide[infinite], rounded[infinite]):
        return "infinities in other places"
    use = wide.isfinite() & reference.isfinite()
    expected = torch.where(use, reference, torch.zeros_like(reference))
    error = (torch.where(use, wide, torch.zeros_like(wide)) - expected).abs()
    if expected.norm() > 0 and error.norm() > 10 * bound * expected.norm():
        return f"relative error {float(error.norm() / expected.norm()):.1e} (bound {bound:.0e})"
    if use.any():
        row = expected if expected.dim() else expected.reshape(1)
        rms = (row.square().sum(-1, keepdim=True) / use.reshape(row.shape).sum(-1, keepdim=True).clamp(min=1)).sqrt()
        scale = torch.maximum(rms, row.abs()) * epsilon
        share = error.reshape(row.shape) / (10 * ulps * scale.clamp(min=smallest))
        if share.max() > 1:
            return f"an element is {float(10 * share.max()):.1f} times further off than the rule allows"
    return None


def was_written(x, before):
    """Batch normalization writes its running statistics without counting a version."""
    return x._version > 0 or not bool(((x == before) | (x.isnan() & before.isnan())).all())


class Fn(torch.nn.Module):
    def __init__(self, f, buffers):
        super().__init__()
        self.f = f
        for name, value in buffers.items():
            self.register_buffer(name, value.clone())

    def forward(self, *a):
        result = self.f(self, *a) if self._buffers else self.f(*a)
        return tuple(result) if isinstance(result, (tuple, list)) else result


def model_of(program):
    """torch.export's model.json of an exported program, without what it says of the source."""
    buffer = io.BytesIO()
    torch.export.save(program, buffer)
    archive = zipfile.ZipFile(buffer)
    member = next(n for n in archive.namelist() if n.endswith("models/model.json"))
    model = json.loads(archive.read(member))
    for node in model["graph_module"]["graph"]["nodes"]:
        node["metadata"] = {}
        if node.get("is_hop_single_tensor_return", 0) is None:
            del node["is_hop_single_tensor_return"]
    model["graph_module"]["module_call_graph"] = []
    return model


class Family:
    def __init__(self, name):
        self.name, self.graphs, self.tensors = name, [], {}
        self.generator = torch.Generator().manual_seed(sum(map(ord, name)))

    def randn(self, *shape, dtype=torch.float32, scale=1.0, positive=False):
        x = torch.randn(tuple(shape), generator=self.generator, dtype=torch.float32) * scale
        return (x.abs() + 0.1 if positive else x).to(dtype)

    def ints(self, *shape, low=-5, high=6, dtype=torch.int64):
        if not dtype.is_signed:
            low = max(low, 0)
        return torch.randint(low, high, shape, generator=self.generator).to(dtype)

    def bools(self, *shape):
        return torch.randint(0, 2, shape, generator=self.generator).bool()

    def special(self, dtype=torch.float32):
        return torch.tensor(SPECIAL).to(dtype)

    def case(self, name, f, *inputs, buffers=None, reference=None):
        """One case; `f` is also run in float64 for the reference, or `reference` is, where PyTorch cannot run `f` so.
        Buffers and inputs that `f` writes to are outputs, in front. With `buffers`, `f` takes the module that holds them
        first."""
        buffers = buffers or {}
        in_float64 = reference or f

        def run(arguments, dtype=None):
            module = Fn(in_float64 if dtype else f, buffers).to(dtype).eval()
            before = {x: x._version for x in module.buffers()}
            copies = [x.clone() if isinstance(x, torch.Tensor) else x for x in arguments]
            results = module(*arguments)
            results = list(results) if isinstance(results, (tuple, list)) else [results]
            return ([x for x in module.buffers() if x._version > before[x]] +
                    [x for x, y in zip(arguments, copies) if isinstance(x, torch.Tensor) and was_written(x, y)] + results)

        with torch.no_grad():
            outputs = run([x.clone() if isinstance(x, torch.Tensor) else x for x in inputs])
            wide = [x.to(torch.float64 if x.is_floating_point() else x.dtype, copy=True)
                    if isinstance(x, torch.Tensor) else x for x in inputs]
            try:
                reference = run(wide, torch.float64)
            except (RuntimeError, NotImplementedError, AssertionError):
                reference = None
            program = torch.export.export(Fn(f, buffers).eval(), inputs, strict=False)
        model = model_of(program)
        assert all(g["name"] != name for g in self.graphs), name
        self.graphs.append({"name": name, "model": model})
        as_list = lambda r: [t for t in (r if isinstance(r, (tuple, list)) else [r])]
        for i, x in enumerate(t for t in inputs if isinstance(t, torch.Tensor)):
            self.tensors[f"{name}/input_{i}"] = x.contiguous().clone()
        for key, x in {**program.state_dict, **program.constants}.items():
            self.tensors[f"{name}/weight/{key}"] = x.detach().contiguous().clone()
        for i, x in enumerate(as_list(outputs)):
            self.tensors[f"{name}/output_{i}"] = x.detach().contiguous().clone()
        for i, x in enumerate(as_list(reference) if reference is not None else []):
            if x.dtype == torch.float64:
                reason = inconsistency(as_list(outputs)[i], x)
                if reason:
                    BAD.append(f"{self.name}/{name} output {i}: {reason}")
                # Of a 16-bit result, 32 bits say more than it is asked for.
                narrow = as_list(outputs)[i].dtype in (torch.float16, torch.bfloat16)
                x = x.to(torch.float32 if narrow else torch.float64)
                self.tensors[f"{name}/reference_{i}"] = x.detach().contiguous().clone()

    def keep_recorded(self):
        """What the archive holds already stays; the order is that of the archive, new cases behind."""
        case_archive.unpack(self.name)
        folder = os.path.join(case_archive.ROOT, self.name)
        with open(os.path.join(folder, case_archive.GRAPHS)) as file:
            graphs = json.load(file)
        old = {name: x.clone() for name, x in load_file(os.path.join(folder, case_archive.TENSORS)).items()}
        recorded = {graph["name"] for graph in graphs}
        self.graphs = graphs + [graph for graph in self.graphs if graph["name"] not in recorded]
        BAD[:] = [text for text in BAD if text.split(" output ")[0] not in {f"{self.name}/{name}" for name in recorded}]
        self.tensors = old | {name: x for name, x in self.tensors.items() if name.split("/")[0] not in recorded}

    def write(self):
        case_archive.record(self.name, self.graphs, self.tensors)
        print(f"{self.name}: {len(self.graphs)} cases, {len(self.tensors)} tensors")


BAD = []  # cases that must not be recorded
