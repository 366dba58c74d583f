#!/usr/bin/env python3
"""Random workloads (random_workloads.py) beside PyTorch: eager, TorchInductor's default mode, and backend "tsc", in one run.

    scripts/bench/sweep.py FIRST LAST [--jobs 14] [--seconds 500] [--ways tsc,inductor,eager] [--out FILE.jsonl] [--shrink 1] [--symbols none] [--device cuda]
    scripts/bench/sweep.py FIRST LAST --files FOLDER ...    the models of a folder's files (file_workloads.py) instead, counted from 0
    scripts/bench/sweep.py FIRST LAST --logs FOLDER ...     the operator calls of a folder's logs (logged_operators.py), counted from 0
    scripts/bench/sweep.py FIRST LAST --workloads FILE ...  what a file's W names, as (module, inputs), counted from 0; tsc compile ($TSC) gets their torch.export,
                                                            or, where the file sets THROUGH_BACKEND (gradients taken within), backend "tsc" their graph

Workers compile at the same time; then they measure in turn, alone on the GPU, the ways taking turns, with the second-level
cache flushed and the host's part hidden behind the flush: median of --rounds between two events. `copy` is the time in which a copy within
the device moves as many bytes as the inputs and results have. Results of tsc are compared with eager mode's: a distance
beyond what the dtype explains is marked, as is what PyTorch runs itself (`fallback`) and what fails. TSC_LIBRARY names libtsc_api.so."""
import argparse
import json
import math
import os
import pathlib
import subprocess
import signal
import sys
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent.parent / "python")]
EXPECTED = {"float64": 1e-9, "float32": 2e-5, "float16": 4e-3, "bfloat16": 3e-2}
HIDDEN_MICROSECONDS = 500  # of a call's work on the processor: the flush and the wait behind it take longer than that
WAIT_CYCLES = 1_000_000  # of the GPU, about 0.55 ms, before a call's work begins: also of the way that is measured first
MOST_SECONDS = 0.5  # of a workload's measured calls, if three rounds take no longer
DRAWN = ("dropout", "noise", "uniform")


def leaves(tree):
    import torch
    from torch.utils import _pytree as pytree
    return [t for t in pytree.tree_leaves(tree) if isinstance(t, torch.Tensor)]


def distance(results, wanted):
    """The worst relative distance of a result, in units of what its dtype explains; integers count mismatches."""
    import torch
    worst = 0.0
    if len(results) != len(wanted):
        return math.inf
    for a, b in zip(results, wanted):
        if a.shape != b.shape or a.dtype != b.dtype:
            return math.inf
        if not b.is_floating_point():
            worst = max(worst, 1000.0 * float((a != b).double().mean()))
            continue
        finite = torch.isfinite(b)
        if bool((torch.isfinite(a) != finite).any()):
            return math.inf
        x, y = torch.where(finite, a, 0).double(), torch.where(finite, b, 0).double()
        worst = max(worst, float((x - y).norm() / y.norm().clamp_min(1e-30)) / EXPECTED[str(b.dtype)[6:]])
    return worst


def listed(path, number, device):
    """The `number`th of the workloads that the file's W names."""
    import importlib.util
    import torch
    spec = importlib.util.spec_from_file_location("listed_workloads", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where Dynamo looks for it
    spec.loader.exec_module(module)
    name, make = list(module.W.items())[number]
    with torch.device(device):
        model, inputs = make()

    def function(*given):
        with torch.no_grad():
            return model(*given)
    if not getattr(module, "THROUGH_BACKEND", False):
        function.model = model
    return "listed", name, function, [lambda _, one=one: one for one in inputs]


def symbols_of(model, inputs, which):
    """torch.export's dynamic_shapes: of every input all sizes are symbols where the model allows it, or the first one, or none."""
    import inspect
    import torch
    if which == "none":
        return None
    auto = torch.export.Dim.AUTO
    each = [{k: auto for k in range(x.dim() if which == "all" else min(1, x.dim()))} if isinstance(x, torch.Tensor) else None for x in inputs]
    kinds = [p.kind for p in inspect.signature(model.forward).parameters.values()]
    if inspect.Parameter.VAR_POSITIONAL in kinds:
        named = kinds.index(inspect.Parameter.VAR_POSITIONAL)
        each[named:] = [tuple(each[named:])] if each[named:] else []
    return tuple(each)


def of_folder(model, inputs, symbols):
    """`model`, exported, compiled by the command line ($TSC) to a folder, and loaded."""
    import tempfile
    import torch
    import tsc
    folder = tempfile.mkdtemp()
    torch.export.save(torch.export.export(model, tuple(inputs), dynamic_shapes=symbols_of(model, inputs, symbols)), folder + "/model.pt2")
    subprocess.run([os.environ["TSC"], "compile", folder + "/model.pt2", "-o", folder + "/out", "--arch=native" if inputs[0].is_cuda else "--arch=host"], check=True,
                   stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    return tsc.load(folder + "/out", device="cuda" if inputs[0].is_cuda else "cpu")


class Case:
    """A workload with its compiled forms, kept until it is measured."""

    def __init__(self, number, options):
        import torch
        self.row = {"number": number}
        self.calls = {}
        self.options = options
        if options.files:
            from file_workloads import files, workload
            made = workload(files(options.files)[number], options.device, (1 << 30) // options.shrink)
        elif options.workloads:
            made = listed(options.workloads, number, options.device)
        elif options.logs:
            from logged_operators import calls, workload
            name, text = calls(options.logs)[number]
            self.row.update(family=name, text=text)
            try:
                made = workload((name, text), (1 << 30) // options.shrink)
            except ValueError as error:
                self.row["refused"] = f"too large: {error}"
                return
        else:
            from random_workloads import workload
            made = workload(number, options.shrink)
        self.row["family"], self.row["text"], function, self.makers = made
        inputs = [make(options.device) for make in self.makers]
        try:
            # Of copies: what a workload writes to its inputs is not there for the way that is compared.
            wanted = function(*(x.clone() if isinstance(x, torch.Tensor) else x for x in inputs))
        except Exception as error:
            self.row["refused"] = f"eager: {type(error).__name__} {str(error)[:150]}"
            return
        # Dynamo makes symbols of the sizes that were marked, of all of them, or of none.
        dynamic = {"none": False, "first": None, "all": True}[options.symbols]
        self.row["bytes"] = sum(t.numel() * t.element_size() for t in leaves(wanted) + leaves(inputs))
        for way in options.ways:
            start = time.time()
            try:
                if hasattr(function, "__code__"):  # what is built in has none
                    torch._dynamo.reset_code(function.__code__)
                if options.symbols == "first" and way != "eager":
                    for tensor in leaves(inputs):
                        if tensor.dim() and tensor.size(0) > 1:
                            torch._dynamo.maybe_mark_dynamic(tensor, 0)
                if way == "eager":
                    self.calls[way] = function
                    continue
                if way == "tsc":
                    import tsc
                    tsc.reset_reports()
                    tsc.config.likely_sizes = not options.one_program
                    model = getattr(function, "model", None)
                    call = torch.compile(function, backend=tsc.backend, dynamic=dynamic) if model is None else of_folder(model, inputs, options.symbols)
                else:
                    call = torch.compile(function, dynamic=dynamic)
                results = call(*inputs)
                self.calls[way] = call
                if way == "tsc":
                    reports = tsc.reports()
                    self.row["fallback"] = sorted({f"{f.target}: {f.code} {f.message}"[:160] for r in reports for f in r.fallbacks})
                    self.row["kernels"] = sum(r.kernels for r in reports)
                    if not any(word in self.row["text"] for word in DRAWN):
                        self.row["distance"] = distance(leaves(results), leaves(wanted))
            except subprocess.CalledProcessError as error:
                self.row[way + " failed"] = error.stderr[-300:]
            except Exception as error:
                self.row[way + " failed"] = f"{type(error).__name__} {str(error)[:300]}"
            self.row[way + " s"] = round(time.time() - start, 2)
        if options.device == "cuda":
            torch.cuda.synchronize()
            del inputs, wanted
            torch.cuda.empty_cache()

    def measure(self):
        import torch
        if not self.calls or self.options.device != "cuda":
            return
        inputs = [make("cuda") for make in self.makers]
        size = min(self.row["bytes"] // 2, 1 << 30)
        source, target = (torch.empty(size, dtype=torch.uint8, device="cuda") for _ in range(2))
        source.random_(0, 255)
        # The copy comes first: after a synchronization the host has to catch up with the GPU, which the way that comes first would wait for.
        calls = {"copy": lambda: target.copy_(source), **{way: (lambda call=call: call(*inputs)) for way, call in self.calls.items()}}
        flush = torch.empty(1 << 29, dtype=torch.uint8, device="cuda")
        for call in calls.values():
            for _ in range(3):
                call()
        times, host = {way: [] for way in calls}, {way: [] for way in calls}
        torch.cuda.synchronize()
        start = time.time()
        for call in calls.values():
            call()
        torch.cuda.synchronize()
        once = time.time() - start
        for _ in range(max(3, min(self.options.rounds, int(MOST_SECONDS / once)))):
            events = {way: [torch.cuda.Event(enable_timing=True) for _ in range(2)] for way in calls}
            for way, call in calls.items():
                flush.zero_()
                torch.cuda._sleep(WAIT_CYCLES)
                events[way][0].record()
                called = time.perf_counter()
                call()
                host[way].append(time.perf_counter() - called)
                events[way][1].record()
            torch.cuda.synchronize()
            for way in calls:
                times[way].append(events[way][0].elapsed_time(events[way][1]))
        self.row["ms"] = {way: sorted(t)[len(t) // 2] for way, t in times.items()}
        self.row["host us"] = {way: round(1e6 * sorted(t)[len(t) // 2], 1) for way, t in host.items()}
        del inputs, source, target, flush
        torch.cuda.empty_cache()


def work(options):
    import torch
    # Workloads share functions: beyond a number of them Dynamo would run the next ones itself.
    torch._dynamo.config.recompile_limit = torch._dynamo.config.accumulated_recompile_limit = 1 << 20
    torch.set_num_threads(1)
    began, cases = time.time(), []

    def give_up(*_):
        raise TimeoutError("took too long to compile or to run once")
    signal.signal(signal.SIGALRM, give_up)
    for number in options.numbers:
        if time.time() - began > options.seconds * 0.55:
            break
        torch.manual_seed(number)
        print(f"{number} begins", file=sys.stderr, flush=True)
        signal.alarm(max(1, int(options.seconds * 0.15)))
        try:
            cases.append(Case(number, options))
        except TimeoutError as error:
            print(f"ROW {json.dumps({'number': number, 'family': '', 'text': '', 'failed': str(error)})}", flush=True)
        except Exception as error:  # of the workload's own making: the worker's others go on
            print(f"ROW {json.dumps({'number': number, 'family': '', 'text': '', 'failed': f'{type(error).__name__} {str(error)[:200]}'})}", flush=True)
        signal.alarm(0)
    print("READY", flush=True)
    sys.stdin.readline()
    for case in cases:
        try:
            case.measure()
        except Exception as error:
            case.row["failed"] = f"{type(error).__name__} {str(error)[:200]}"
        case.calls = {}
        print("ROW " + json.dumps(case.row), flush=True)
    sys.stdout.flush()
    os._exit(0)


def ratio(row):
    """tsc beside the best of the other ways; NaN where one is missing."""
    ms = row.get("ms", {})
    others = [ms[way] for way in ("eager", "inductor") if way in ms]
    return ms["tsc"] / min(others) if "tsc" in ms and others else math.nan


def report(rows):
    """The rows by their ratio, then what failed."""
    measured = sorted((r for r in rows if not math.isnan(ratio(r))), key=ratio)
    for row in measured:
        ms = row["ms"]
        late = row.get("host us", {}).get("tsc", 0)
        marks = f" HOST {late:.0f}us" if late > HIDDEN_MICROSECONDS else ""
        marks += (f" DISTANCE {row['distance']:.3g}" if row.get("distance", 0) > 1 else "") + (" FALLBACK" if row.get("fallback") else "")
        print(f"{row['number']:5} {ratio(row):6.2f} {ms['tsc'] / ms['copy']:6.2f} {ms['tsc']:8.4f} {ms.get('inductor', math.nan):8.4f} "
              f"{ms.get('eager', math.nan):8.4f} {row.get('kernels', 0):2} {row['family'][:9]:9} {row['text'][:140]}{marks}")
    if measured:
        mean = math.exp(sum(math.log(ratio(r)) for r in measured) / len(measured))
        within = sum(ratio(r) <= 1.02 for r in measured)
        print(f"{len(measured)} workloads: geometric mean {mean:.3f}, {within} at most 1.02, {sum(ratio(r) > 1.1 for r in measured)} above 1.1; "
              "columns: number, tsc / best, tsc / copy, ms of tsc, Inductor, eager, kernels")
    for row in rows:
        for key, value in row.items():
            if key.endswith("failed") or (key == "fallback" and value) or (key == "distance" and value > 1):
                print(row["number"], key, str(value)[:300], row["text"][:120])
    print(f"{sum('refused' in r for r in rows)} refused by eager mode")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("first", type=int)
    parser.add_argument("last", type=int)
    parser.add_argument("--only", default="", help="numbers, by commas, instead of all between FIRST and LAST")
    parser.add_argument("--jobs", type=int, default=14)
    parser.add_argument("--seconds", type=float, default=500)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--ways", type=lambda text: text.split(","), default=["tsc", "inductor", "eager"])
    parser.add_argument("--shrink", type=int, default=1)
    parser.add_argument("--files", default="", help="a folder of files that define Model, get_init_inputs and get_inputs")
    parser.add_argument("--logs", default="", help="a folder of logs of operator calls")
    parser.add_argument("--workloads", default="", help="a file whose W maps names to functions that give (module, inputs)")
    parser.add_argument("--symbols", choices=("none", "first", "all"), default="none", help="which sizes of inputs are symbols when compiling")
    parser.add_argument("--one-program", action="store_true", help="of all sizes, where sizes are symbols: what runs for sizes other than those that compiled")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--out", default="")
    parser.add_argument("--worker", type=int, default=-1)
    options = parser.parse_args()
    numbers = [int(n) for n in options.only.split(",")] if options.only else list(range(options.first, options.last))
    if options.worker >= 0:
        options.numbers = numbers[options.worker::options.jobs]
        return work(options)
    environment = dict(os.environ, TORCHINDUCTOR_COMPILE_THREADS="1", PYTHONUNBUFFERED="1", PYTORCH_CUDA_ALLOC_CONF="expandable_segments:True")
    workers = [subprocess.Popen([sys.executable, __file__, *sys.argv[1:], "--worker", str(w)], env=environment, text=True, stdin=subprocess.PIPE,
                                stdout=subprocess.PIPE, stderr=open(f"{options.out or '/tmp/sweep'}.{w}.log", "w"))
               for w in range(options.jobs)]
    began, late = time.time(), 0
    for worker in workers:
        left = max(1.0, options.seconds * 0.75 - (time.time() - began))
        timer = threading.Timer(left, worker.kill)
        timer.start()
        while (line := worker.stdout.readline()) and line.strip() != "READY":
            pass
        timer.cancel()
        late += worker.poll() is not None
    rows = []
    for worker in workers:
        try:
            worker.stdin.write("go\n")
            worker.stdin.flush()
        except BrokenPipeError:
            continue
        for line in worker.stdout:
            if line.startswith("ROW "):
                rows.append(json.loads(line[4:]))
                if options.out:
                    with open(options.out, "a") as file:
                        file.write(line[4:])
        worker.wait()
    print(f"{len(numbers)} asked, {len(rows)} came; {late} workers did not compile in time; exit codes "
          f"{sorted({w.wait() for w in workers})}")
    report(rows)


if __name__ == "__main__":
    main()
