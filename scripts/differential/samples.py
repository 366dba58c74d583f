"""PyTorch's own samples of its operators (its OpInfo database) as cases: the first, the middle and the last sample of every
operator and dtype, exported, with what eager mode and float64 give.

    FOLDER/OPERATOR/DTYPE_PLACE/{model.pt2, inputs.safetensors, expected.safetensors}
    FOLDER/OPERATOR/not_recorded.json      what PyTorch itself does not run or export, with the reason
"""
import collections
import copy
import json
import os
import re
import signal
import subprocess
import sys
import warnings

import torch
from torch.utils import _pytree as pytree

import comparison
from recording import Rejected, Unsaid, moved, reference_name
from runner import Runner
from tensor_files import save_file

warnings.filterwarnings("ignore")
HERE = os.path.dirname(os.path.abspath(__file__))
TYPES = {"f32": torch.float32, "f64": torch.float64, "bf16": torch.bfloat16, "f16": torch.float16, "i64": torch.int64, "i32": torch.int32, "i16": torch.int16,
         "i8": torch.int8, "u8": torch.uint8, "b8": torch.bool, "c64": torch.complex64, "c128": torch.complex128}
WIDE = {torch.float32: torch.float64, torch.bfloat16: torch.float64, torch.float16: torch.float64, torch.complex64: torch.complex128}
SECONDS = 60  # one sample


def names_of(pattern=""):
    import torch.testing._internal.common_methods_invocations as database
    database.wrapper_set_seed = lambda function, *a, **k: function(*a, **k)  # what draws shall be seen to
    return [info for info in database.op_db if re.search(pattern, info.formatted_name)]


FORMS = ("plain", "one", "empty", "strided", "expanded", "special", "nan", "gradient")


def tensors_of(sample):
    return [x for x in pytree.tree_leaves((sample.input, sample.args, sample.kwargs)) if isinstance(x, torch.Tensor)]


def chosen(info, dtype, form="plain"):
    """(place, sample): of the plain ones the first, the middle and the last, of "one" the middle; of "empty" two with a tensor without elements and one
    with a tensor without dimensions; of other forms the largest of the first hundred, changed."""
    samples = list(info.sample_inputs("cpu", dtype, requires_grad=False))
    last = len(samples) - 1
    if not samples:
        return []
    if form == "plain":
        return [(place, samples[place]) for place in sorted({0, last // 2, last})]
    if form == "one":
        return [(last // 2, samples[last // 2])]
    if form == "empty":
        without = [i for i, x in enumerate(samples) if any(t.numel() == 0 for t in tensors_of(x))]
        scalars = [i for i, x in enumerate(samples) if isinstance(x.input, torch.Tensor) and x.input.dim() == 0]
        return [(i, samples[i]) for i in sorted({*without[:1], *without[-1:], *scalars[-1:]})]
    sizes = [sum(t.numel() for t in tensors_of(x)) for x in samples[:100]]
    place = sizes.index(max([n for n in sizes if n < 4096], default=min(sizes)))
    return [(place, samples[place].transform(CHANGES[form]) if form in CHANGES else samples[place])]


def strided(x):
    """The same values, each dimension the other way round in memory and every other element of it."""
    if not isinstance(x, torch.Tensor) or x.layout != torch.strided or x.dim() == 0:
        return x
    turned = list(range(x.dim()))[::-1]
    shape = [x.shape[d] for d in turned]
    shape[-1] *= 2
    memory = torch.zeros(shape, dtype=x.dtype).narrow(-1, 0, shape[-1])[..., ::2].permute(turned)
    return memory.copy_(x)


def expanded(x):
    """The first row for all rows."""
    return x[:1].expand(x.shape) if isinstance(x, torch.Tensor) and x.layout == torch.strided and x.dim() and x.shape[0] > 1 else x


def with_values(x, values):
    if not isinstance(x, torch.Tensor) or x.layout != torch.strided or x.numel() < 2 or not (x.is_floating_point() or x.is_complex()):
        return x
    x = x.detach().clone().contiguous()
    flat = torch.view_as_real(x.resolve_conj()).view(-1) if x.is_complex() else x.view(-1)
    step = max(2, flat.numel() // len(values))
    for i, value in enumerate(values[:(flat.numel() + step - 1) // step]):
        flat[i * step] = value(flat.dtype)
    return x


def finite(function):
    return lambda dtype: function(torch.finfo(dtype))


SPECIAL = [finite(lambda _: -0.0), finite(lambda _: float("inf")), finite(lambda f: f.max), finite(lambda _: float("-inf")), finite(lambda _: 0.0),
           finite(lambda f: -f.max), finite(lambda f: f.tiny / 4), finite(lambda f: -f.tiny)]
CHANGES = {"strided": strided, "expanded": expanded, "special": lambda x: with_values(x, SPECIAL),
           "nan": lambda x: with_values(x, [finite(lambda _: float("nan")), finite(lambda _: -0.0)])}


class Call(torch.nn.Module):
    """The operator as a module of its tensors alone; what else it takes is part of the program."""

    def __init__(self, function, leaves, spec, wide=False):
        super().__init__()
        if wide and isinstance(function, torch.nn.Module):
            function = copy.deepcopy(function).double()
        self.function, self.leaves, self.spec, self.wide = function, leaves, spec, wide

    def forward(self, *tensors):
        tensors = iter(tensors)
        leaves = [next(tensors) if isinstance(x, torch.Tensor) else x for x in self.leaves]
        if self.wide:
            leaves = [WIDE.get(x, x) if isinstance(x, torch.dtype) else x for x in leaves]
        arguments, named = pytree.tree_unflatten(leaves, self.spec)
        results = self.function(*arguments, **named)
        return tuple(x for x in pytree.tree_leaves(results) if isinstance(x, torch.Tensor))


class Signs(torch.nn.Module):
    """What a module gives, and which of it is -0.0."""

    def __init__(self, module):
        super().__init__()
        self.module = module

    def forward(self, *tensors):
        results = self.module(*tensors)
        return (*results, *(torch.where(x == 0, x, 1).signbit() for x in results if x.is_floating_point()))


class Gradient(torch.nn.Module):
    """What a module gives, and the gradients of its tensors."""

    def __init__(self, module):
        super().__init__()
        self.module = module

    def forward(self, *tensors):
        with torch.enable_grad():
            leaves = [x.detach().requires_grad_(x.is_floating_point() or x.is_complex()) for x in tensors]
            results = [x for x in self.module(*[x.clone() for x in leaves])]
            roots = [x for x in results if x.requires_grad]
            asked = [x for x in leaves if x.requires_grad]
            weights = [(torch.arange(x.numel()).reshape(x.shape) % 5 - 1.5).to(x.dtype) for x in roots]
            gradients = torch.autograd.grad(roots, asked, weights, allow_unused=True) if roots else ()
        return (*[x.detach() for x in results], *[x for x in gradients if x is not None])


def traced(module, tensors):
    from torch.fx.experimental.proxy_tensor import make_fx
    return make_fx(module, tracing_mode="real")(*tensors)


def copied(x):
    """With the same strides, over memory of its own."""
    if x.is_conj() or x.is_neg():
        return x.detach().clone()
    memory = x.detach().untyped_storage().clone()
    return torch.empty(0, dtype=x.dtype).set_(memory, x.storage_offset(), x.size(), x.stride())


def plain(x):
    return x.detach().clone().contiguous().resolve_conj().resolve_neg()


class NotRecorded(Exception):
    pass


class Watch(Unsaid):
    """As Unsaid, for recorded samples: it knows too that unstable sorts may give equal elements any positions, and notices draws."""
    ORDERED = Unsaid.ORDERED | {"argsort": 1}

    def __init__(self):
        super().__init__()
        self.draws = self.factors = False

    def __torch_dispatch__(self, function, types, arguments=(), named=None):
        if isinstance(function, torch._ops.OpOverload):
            self.draws |= torch.Tag.nondeterministic_seeded in function.tags
            name = function.overloadpacket.__name__
            self.factors |= name.lstrip("_").startswith("linalg_")
            if name in ("sort", "argsort") and not (named or {}).get("stable"):
                self.check_ties(name, arguments[0], arguments[1] if len(arguments) > 1 else (named or {}).get("dim", -1))
        return super().__torch_dispatch__(function, types, arguments, named)


def left_open(run, outputs):
    """(whether it draws, what PyTorch does not say of `outputs`, the number of the first output that this is about); `run` gives them again."""
    watch = Watch()
    try:
        with watch:
            run()
    except Rejected as error:
        return watch.draws, str(error), 1 if error.reason == "ties" and len(outputs) > 1 else 0
    except Exception:  # not every operator runs under a mode
        pass
    if watch.draws and watch.factors:
        return True, "factors of drawn numbers: nobody says how far they may be off", 0
    torch.use_deterministic_algorithms(True, warn_only=True)  # fills memory that nobody has written with NaN and the largest integers
    try:
        filled = run()
    finally:
        torch.use_deterministic_algorithms(False)
    mark = lambda x: x.isnan() if x.is_floating_point() or x.is_complex() else x == (1 if x.dtype == torch.bool else torch.iinfo(x.dtype).max)
    if not watch.draws and any(x.shape != y.shape or bool((mark(y) & ~mark(x)).any()) for x, y in zip(outputs, filled)):
        return watch.draws, "memory that nobody has written", 0
    return watch.draws, None, 0


def check_exported(exported, inputs, outputs, is_open):
    """Of an exported program that PyTorch itself does not run to what eager mode gives nothing can be asked."""
    try:
        given = [plain(x) for x in pytree.tree_leaves(exported.module()(*inputs)) if isinstance(x, torch.Tensor)]
    except Exception as error:
        raise NotRecorded(f"exported: PyTorch refuses its own program: {type(error).__name__}: {str(error)[:200]}") from error
    if not is_open and any(comparison.disagreement(x, y, slack=4.0) for x, y in zip(given, outputs)):
        raise NotRecorded("exported: PyTorch's own program gives something else")


FAR = 64.0  # bounds: as far as results may go, 1024 units in the last place


def moved_references(module, inputs, outputs):
    """What stands for a wider dtype than float64, by output: results when inputs move by a unit in the last place, which is what eager mode's own roundings may
    come to. Where they go far (ill-conditioned), nothing."""
    generator = torch.Generator().manual_seed(3)
    try:
        results = [plain(x) for x in module(*[moved(x, 1, generator) if x.dtype == torch.float64 else x for x in inputs])]
    except Exception:
        return {}
    found = {}
    for i, (x, y) in enumerate(zip(outputs, results)):
        if x.dtype == torch.float64 and x.shape == y.shape and not comparison.disagreement(y, x, slack=FAR):
            found[i] = y
    return found


def record(info, sample, folder, form="plain"):
    """Errors: NotRecorded."""
    leaves, spec = pytree.tree_flatten(((sample.input, *sample.args), sample.kwargs))
    tensors = [x for x in leaves if isinstance(x, torch.Tensor)]
    if any(x.layout != torch.strided or x.is_quantized for x in tensors):
        raise NotRecorded("not strided")
    wrapped = {"special": Signs, "nan": Signs, "gradient": Gradient}.get(form, lambda x: x)
    module = wrapped(Call(info.op, leaves, spec))
    fresh = lambda: [copied(x) for x in tensors]
    with torch.no_grad():
        try:
            torch.manual_seed(1)
            outputs = [plain(x) for x in module(*fresh())]
            torch.manual_seed(2)
            again = [plain(x) for x in module(*fresh())]
        except Exception as error:
            raise NotRecorded(f"eager: {type(error).__name__}: {str(error)[:200]}") from error
        if not outputs:
            raise NotRecorded("no tensor comes out")
        random = len(outputs) != len(again) or not all(
            x.shape == y.shape and torch.equal(torch.nan_to_num(x), torch.nan_to_num(y)) for x, y in zip(outputs, again))
        try:
            exported = torch.export.export(traced(module, fresh()) if form == "gradient" else module, tuple(fresh()), strict=False)
        except Exception as error:
            raise NotRecorded(f"export: {type(error).__name__}: {str(error)[:200]}") from error
        try:
            wide = [x.to(WIDE.get(x.dtype, x.dtype)) for x in fresh()]
            references = [plain(x) for x in wrapped(Call(info.op, leaves, spec, wide=True))(*wide)]
        except Exception:
            references = []
    if not random and any(x.dtype == torch.float64 for x in outputs):
        with torch.no_grad():
            for i, y in moved_references(module, fresh(), outputs).items():
                references += [y] * (i + 1 - len(references))
                references[i] = y
    expected = {}
    for i, x in enumerate([] if random else outputs):
        expected[f"output_{i}"] = x
        if i < len(references) and references[i].dtype == (torch.complex128 if x.is_complex() else torch.float64) and references[i].shape == x.shape:
            expected[reference_name(f"output_{i}")] = references[i]
    with torch.no_grad():
        draws, unsaid, first = left_open(lambda: [plain(x) for x in module(*fresh())], outputs)
        random |= draws
        check_exported(exported, fresh(), outputs, random or unsaid)
        if random:
            expected = {}
    os.makedirs(folder, exist_ok=True)
    torch.export.save(exported, os.path.join(folder, "model.pt2"))
    save_file({f"input_{i}": plain(x) for i, x in enumerate(tensors)}, os.path.join(folder, "inputs.safetensors"))
    save_file(expected, os.path.join(folder, "expected.safetensors"))
    with open(os.path.join(folder, "call.txt"), "w") as file:
        said = [f"{x.dtype} {list(x.shape)} {list(x.stride())}" if isinstance(x, torch.Tensor) else repr(x) for x in leaves]
        file.write(f"{info.formatted_name} {' | '.join(said)}\n" + ("random\n" if random else "") + str(exported.graph_module.code))
    if unsaid:
        with open(os.path.join(folder, "left_open.json"), "w") as file:
            json.dump({"reason": unsaid, "first": first}, file)


def alarm(*_):
    raise NotRecorded(f"more than {SECONDS} s")


def record_operator(info, types, folder, forms=("plain",)):
    missing = {}
    for name, form in ((n, f) for f in forms for n in types):
        if TYPES[name] not in (info.backward_dtypes if form == "gradient" else info.dtypes) or form == "gradient" and not info.supports_autograd:
            continue
        try:
            torch.manual_seed(0)
            samples = chosen(info, TYPES[name], form)
        except Exception as error:
            missing[name] = f"samples: {type(error).__name__}: {str(error)[:200]}"
            continue
        for place, sample in samples:
            case = f"{name}_{place}" if form == "plain" else f"{name}_{form}_{place}"
            signal.alarm(SECONDS)
            try:
                record(info, sample, os.path.join(folder, case), form)
            except NotRecorded as error:
                missing[case] = str(error)
            except Exception as error:
                missing[case] = f"recorder: {type(error).__name__}: {str(error)[:200]}"
            finally:
                signal.alarm(0)
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "not_recorded.json"), "w") as file:
        json.dump(missing, file, indent=1)


def record_all(options):
    """What is recorded already stays; a process that dies of an operator leaves it out."""
    if options.part is None:
        workers = [subprocess.Popen([sys.executable, "-W", "ignore", HERE, "samples", "--out", options.out, "--operators", options.operators, "--types",
                                     options.types, "--forms", options.forms, "--part", f"{i}/{options.jobs}"]) for i in range(options.jobs)]
        for worker in workers:
            worker.wait()
        return
    torch.set_num_threads(1)
    signal.signal(signal.SIGALRM, alarm)
    part, parts = map(int, options.part.split("/"))
    for info in names_of(options.operators)[part::parts]:
        folder = os.path.join(options.out, info.formatted_name)
        if not os.path.exists(os.path.join(folder, "not_recorded.json")):
            try:
                record_operator(info, options.types.split(","), folder, options.forms.split(","))
            except Exception as error:
                print(f"{info.formatted_name}: {error}", file=sys.stderr)


def cases_in(folder, pattern):
    return sorted(f"{folder}/{name}/{case}" for name in os.listdir(folder) if re.search(pattern, name)
                  for case in os.listdir(f"{folder}/{name}") if os.path.exists(f"{folder}/{name}/{case}/expected.safetensors"))


def reason_open(verdict):
    """Why PyTorch leaves open what differs, or None: a rule of the recorder's, of the call and not of its name."""
    path = os.path.join(verdict.case, "left_open.json")
    if verdict.status != "differ" or not os.path.exists(path):
        return None
    with open(path) as file:
        found = json.load(file)
    return found["reason"] if verdict.output.startswith("output_") and int(verdict.output[7:]) >= found["first"] else None


def draws(verdict):
    with open(os.path.join(verdict.case, "call.txt")) as file:
        return file.read(4096).split("\n")[1] == "random"


def report(verdicts, devices):
    for device in devices:
        own = [v for v in verdicts if v.device == device]
        for v in own:
            if reason := reason_open(v):
                v.status, v.reason = "open", reason
        counts = collections.Counter(v.status for v in own)
        print(f"{device}: {len(own)} samples, " + ", ".join(f"{k} {n} ({100 * n / max(1, len(own)):.1f}%)" for k, n in counts.most_common()))
        if drawn := sum(draws(v) for v in own if v.status == "agree"):
            print(f"  of those that agree {drawn}: they draw: devices are compared with each other")
        for reason, n in collections.Counter(v.reason for v in own if v.status == "agree" and v.reason).items():
            print(f"  of those that agree {n}: {reason}")
        for v in own:
            if v.status not in ("agree", "refused"):
                print(f"  {v.status} {v.case} {v.output} {v.reason.splitlines()[0][:200] if v.reason else ''}")
    refused = collections.defaultdict(list)
    for v in verdicts:
        if v.device == devices[0] and v.status == "refused":
            refused[v.code, v.shape() if v.code != "TSC-O001" else (v.reason.splitlines() or [""])[0][:150]].append(v.case)
    print("refused by code and message:")
    for (code, shape), cases in sorted(refused.items(), key=lambda x: -len(x[1])):
        print(f"  {len(cases)}  {code}  {shape}  ({'/'.join(cases[0].split('/')[-2:])})")


def samples(options):
    record_all(options)
    return 0 if options.part is not None else run_and_report(options)


def run_and_report(options):
    cases = cases_in(options.out, options.operators)
    if options.record_only:
        print(len(cases), "cases")
        return 0
    devices = options.devices.split(",")
    verdicts = Runner(options.bin, os.path.join(options.out, ".run"), devices, jobs=options.jobs).run(cases)
    report(verdicts, devices)
    return 1 if any(v.status not in ("agree", "refused", "open") for v in verdicts) else 0
