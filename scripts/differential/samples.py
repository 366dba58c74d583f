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
from recording import Rejected, Unsaid, reference_name
from runner import Runner
from tensor_files import save_file

warnings.filterwarnings("ignore")
HERE = os.path.dirname(os.path.abspath(__file__))
TYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "i64": torch.int64, "c64": torch.complex64}
WIDE = {torch.float32: torch.float64, torch.bfloat16: torch.float64, torch.float16: torch.float64, torch.complex64: torch.complex128}
SECONDS = 60  # one sample


def names_of(pattern=""):
    import torch.testing._internal.common_methods_invocations as database
    database.wrapper_set_seed = lambda function, *a, **k: function(*a, **k)  # what draws shall be seen to
    return [info for info in database.op_db if re.search(pattern, info.formatted_name)]


def chosen(info, dtype):
    """(place, sample) of the first, the middle and the last."""
    samples = list(info.sample_inputs("cpu", dtype, requires_grad=False))
    last = len(samples) - 1
    return [(place, samples[place]) for place in sorted({0, last // 2, last}) if samples]


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


def record(info, sample, folder):
    """Errors: NotRecorded."""
    leaves, spec = pytree.tree_flatten(((sample.input, *sample.args), sample.kwargs))
    tensors = [x for x in leaves if isinstance(x, torch.Tensor)]
    if any(x.layout != torch.strided or x.is_quantized for x in tensors):
        raise NotRecorded("not strided")
    module = Call(info.op, leaves, spec)
    fresh = lambda: [x.detach().clone() for x in tensors]
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
            exported = torch.export.export(module, tuple(fresh()), strict=False)
        except Exception as error:
            raise NotRecorded(f"export: {type(error).__name__}: {str(error)[:200]}") from error
        try:
            wide = [x.to(WIDE.get(x.dtype, x.dtype)) for x in fresh()]
            references = [plain(x) for x in Call(info.op, leaves, spec, wide=True)(*wide)]
        except Exception:
            references = []
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


def record_operator(info, types, folder):
    missing = {}
    for name in types:
        if TYPES[name] not in info.dtypes:
            continue
        try:
            samples = chosen(info, TYPES[name])
        except Exception as error:
            missing[name] = f"samples: {type(error).__name__}: {str(error)[:200]}"
            continue
        for place, sample in samples:
            signal.alarm(SECONDS)
            try:
                record(info, sample, os.path.join(folder, f"{name}_{place}"))
            except NotRecorded as error:
                missing[f"{name}_{place}"] = str(error)
            except Exception as error:
                missing[f"{name}_{place}"] = f"recorder: {type(error).__name__}: {str(error)[:200]}"
            finally:
                signal.alarm(0)
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "not_recorded.json"), "w") as file:
        json.dump(missing, file, indent=1)


def record_all(options):
    """What is recorded already stays; a process that dies of an operator leaves it out."""
    if options.part is None:
        workers = [subprocess.Popen([sys.executable, "-W", "ignore", HERE, "samples", "--out", options.out, "--operators", options.operators, "--types",
                                     options.types, "--part", f"{i}/{options.jobs}"]) for i in range(options.jobs)]
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
                record_operator(info, options.types.split(","), folder)
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
