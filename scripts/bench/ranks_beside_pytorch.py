#!/usr/bin/env python3
"""A training step with FSDP2 and a step of decoding with tensor parallelism on two GPUs: tsc beside PyTorch, eager and compiled.

  scripts/bench/ranks_beside_pytorch.py BIN WORK [--seconds 195] [--only training|decoding] [--device cuda] [--size large] [--out FILE]

BIN is the folder of tsc, WORK a folder for graphs, inputs and results. Nothing is fetched or built. First numbers, at small sizes: what tsc and
eager PyTorch compute on two ranks, each against float64 in one process. Then times, at `--size`, with weights of the same shapes:

  tokens/s     of both ranks together; of the median of a step's times, each the slower rank's
  comm ms      time in which a collective runs, of a step that a profiler looks on at
  exposed ms   the part of it in which nothing else runs
  GB           peak memory of a rank: PyTorch's max_memory_allocated; tsc's inputs, outputs and workspace; and what the driver says of GPU 0

PyTorch is FSDP2 (fully_shard of each block, float32 weights, computing in bfloat16, gradients reduced in float32, fused AdamW), eager and with
its blocks and its loss compiled; decoding is eager, compiled, and compiled in mode reduce-overhead. `--device cpu` tries the script without GPUs.
"""
import argparse
import concurrent.futures
import json
import os
import socket
import statistics
import subprocess
import sys
import threading
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
RANKS = 2
WARM_UP, STEPS = {"training": 3, "decoding": 5}, {"training": 12, "decoding": 60}


def write_json(path, value):
    with open(path, "w") as file:
        json.dump(value, file)


def covered(spans, others=()):
    """Length of the union of `spans` (start, end), less what `others` cover."""
    edges = sorted([(t, k, s) for k, group in ((0, spans), (1, others)) for a, b in group for t, s in ((a, 1), (b, -1))])
    open_, total, last = [0, 0], 0.0, 0.0
    for time_, kind, step in edges:
        if open_[0] > 0 and open_[1] == 0:
            total += time_ - last
        open_[kind] += step
        last = time_
    return total


# ---- what runs in a process of its own: one of PyTorch's ranks

def workloads():
    sys.path.insert(0, os.path.join(ROOT, "scripts", "bench"))
    import rank_workloads
    return rank_workloads


class Rank:
    """One of PyTorch's ranks."""

    def __init__(self, options):
        import torch
        import torch.distributed as dist
        self.torch, self.dist, self.options = torch, dist, options
        self.rank, self.is_cuda = int(os.environ["RANK"]), options.device == "cuda"
        self.device = torch.device("cuda", self.rank) if self.is_cuda else torch.device("cpu")
        if self.is_cuda:
            torch.cuda.set_device(self.device)
            dist.init_process_group("nccl", device_id=self.device)
        else:
            torch.set_num_threads(1)
            dist.init_process_group("gloo")
        self.w = workloads()
        self.tensors = {}

    def tell(self, row):
        if self.rank == 0:
            print("ROW " + json.dumps(row), flush=True)

    def wait(self):
        if self.is_cuda:
            self.torch.cuda.synchronize()

    def slowest(self, value):
        tensor = self.torch.tensor([value], dtype=self.torch.float64, device=self.device)
        self.dist.all_reduce(tensor, self.dist.ReduceOp.MAX)
        return float(tensor)

    def measure(self, what, way, step, tokens, base):
        """Times, overlap and memory of `step`; `base`: what was allocated before it was made."""
        torch = self.torch
        start = time.perf_counter()
        for _ in range(WARM_UP[what]):
            step()
        self.wait()
        warm = time.perf_counter() - start
        if self.is_cuda:
            torch.cuda.reset_peak_memory_stats()
        times = []
        for _ in range(STEPS[what]):
            self.dist.barrier()
            self.wait()
            start = time.perf_counter()
            step()
            self.wait()
            times.append(self.slowest(1000 * (time.perf_counter() - start)))
        row = {"what": what, "way": way, "ms": statistics.median(times), "warm_up_s": warm}
        row["tokens"] = tokens / row["ms"] * 1000
        if self.is_cuda:
            row["bytes"] = torch.cuda.max_memory_allocated() - base
            row.update(self.overlap(step))
        self.tell(row)

    def overlap(self, step, runs=3):
        from torch.profiler import ProfilerActivity, profile
        with profile(activities=[ProfilerActivity.CUDA]) as profiler:
            for _ in range(runs):
                step()
            self.wait()
        collectives, others = [], []
        for event in profiler.profiler.kineto_results.events():
            if event.device_type() == self.torch.autograd.DeviceType.CUDA:
                span = (event.start_ns() / 1e6, (event.start_ns() + event.duration_ns()) / 1e6)
                (collectives if "nccl" in event.name().lower() else others).append(span)
        return {"comm_ms": covered(collectives) / runs, "exposed_ms": covered(collectives, others) / runs}

    def made_on(self, size):
        """Weights are those of tsc's run where numbers are compared; of large ones only the time counts, and a CPU takes long."""
        return "cpu" if size == "small" else self.device

    # FSDP2

    def sharded(self, size, way):
        torch, w = self.torch, self.w
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
        settings = w.TRAINING[size]
        mesh = init_device_mesh(self.device.type, (RANKS,))
        model = w.training_model(settings["sizes"], self.made_on(size)).to(self.device)
        if way == "compile":
            for block in model.blocks:
                block.compile()
        policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
        for modules, is_freed in w.groups_of(model):
            fully_shard(modules if len(modules) > 1 else modules[0], mesh=mesh, mp_policy=policy, reshard_after_forward=is_freed)
        fully_shard(model, mesh=mesh, mp_policy=policy)
        optimizer = torch.optim.AdamW(model.parameters(), lr=w.RATE, betas=w.BETAS, eps=w.EPSILON, weight_decay=w.DECAY, fused=True)
        ids, target, cos, sin = w.training_inputs(model, settings["batch"], settings["length"], self.rank, self.device)

        def loss_of(logits):
            return torch.nn.functional.cross_entropy(logits.float().flatten(0, -2), target.flatten())

        if way == "compile":
            loss_of = torch.compile(loss_of)

        def step():
            loss = loss_of(model(ids, cos, sin))
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            return loss
        return model, optimizer, step

    def training_numbers(self):
        """A step's loss and gradients (from the optimizer's first moments) beside float64, as files for the comparison."""
        from safetensors.torch import save_file
        torch, w = self.torch, self.w
        settings = w.TRAINING["small"]
        model, optimizer, step = self.sharded("small", "eager")
        result = {"loss": step().detach().float().cpu()}
        for i, (modules, _) in enumerate(w.groups_of(model)):
            averages = [optimizer.state[p]["exp_avg"].full_tensor() for p in w.group_parameters(modules)]
            result[f"gradient_{i}"] = w.shard_of([a.cpu() for a in averages], self.rank, RANKS) / (1 - w.BETAS[0])
        save_file(result, os.path.join(self.options.work, f"training_eager_{self.rank}.safetensors"))
        wide = w.training_model(settings["sizes"]).double()
        losses = []
        for rank in range(RANKS):
            ids, target, cos, sin = w.training_inputs(wide, settings["batch"], settings["length"], rank)
            logits = wide(ids, cos.double(), sin.double())
            losses.append(torch.nn.functional.cross_entropy(logits.flatten(0, -2), target.flatten()))
        (sum(losses) / RANKS).backward()
        result = {"loss": losses[self.rank].detach()}
        for i, (modules, _) in enumerate(w.groups_of(wide)):
            result[f"gradient_{i}"] = w.shard_of([p.grad for p in w.group_parameters(modules)], self.rank, RANKS)
        save_file(result, os.path.join(self.options.work, f"training_wide_{self.rank}.safetensors"))

    def training(self, way):
        base = self.torch.cuda.memory_allocated() if self.is_cuda else 0
        settings = self.w.TRAINING[self.options.size]
        _, _, step = self.sharded(self.options.size, way)
        self.measure("training", way, step, RANKS * settings["batch"] * settings["length"], base)

    # tensor parallelism

    def decoder(self, size):
        settings = self.w.DECODING[size]
        model = self.w.decoding_model(settings, self.rank, RANKS, self.made_on(size)).to(self.device)
        return settings, model, [x.to(self.device) for x in self.w.decoding_inputs(settings, RANKS)]

    def decoding_numbers(self):
        from safetensors.torch import save_file
        _, model, inputs = self.decoder("small")
        with self.torch.no_grad():
            _, logits, *caches = model(*[x.clone() for x in inputs])
            save_file({"logits": logits.float().cpu(), **{f"cache_{i}": c.float().cpu().contiguous() for i, c in enumerate(caches)}},
                      os.path.join(self.options.work, f"decoding_eager_{self.rank}.safetensors"))
            model, inputs = model.double(), [x.double() if x.is_floating_point() else x for x in inputs]
            _, logits, *caches = model(*inputs)
            save_file({"logits": logits.cpu(), **{f"cache_{i}": c.cpu().contiguous() for i, c in enumerate(caches)}},
                      os.path.join(self.options.work, f"decoding_wide_{self.rank}.safetensors"))

    def decoding(self, way):
        torch = self.torch
        base = torch.cuda.memory_allocated() if self.is_cuda else 0
        settings, model, inputs = self.decoder(self.options.size)
        if way != "eager":
            torch._dynamo.reset()
            model = torch.compile(model, fullgraph=True, mode=None if way == "compile" else "reduce-overhead")
        with torch.no_grad():
            self.measure("decoding", way, lambda: model(*inputs), settings["batch"], base)

    def run(self):
        for what in self.options.only:
            ways = ["eager", "compile"] + (["reduce-overhead"] if what == "decoding" and self.is_cuda else [])
            for way in ["numbers", *ways]:
                try:
                    getattr(self, what + "_numbers")() if way == "numbers" else getattr(self, what)(way)
                    if way == "numbers":
                        self.tell({"what": what, "way": way})
                except Exception as error:  # the other ways are measured all the same
                    self.tell({"what": what, "way": way, "failed": f"{type(error).__name__}: {str(error)[:600]}"})
                self.torch._dynamo.reset()
                if self.is_cuda:
                    import gc
                    gc.collect()
                    self.torch.cuda.empty_cache()
        sys.stdout.flush()
        os._exit(0)  # compiled graphs keep communicators, whose end may wait for each other


# ---- the whole

class Comparison:
    def __init__(self, options):
        self.options, self.rows, self.problems = options, [], []
        self.tsc = os.path.join(os.path.abspath(options.bin), "tsc")
        self.end = time.monotonic() + options.seconds
        self.environment = dict(os.environ, PYTHONUNBUFFERED="1", TORCH_SHOW_CPP_STACKTRACES="0")
        self.environment.setdefault("XDG_CACHE_HOME", os.path.join(options.work, "cache"))
        for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT"):
            self.environment.pop(name, None)

    def left(self):
        return max(1.0, self.end - time.monotonic())

    def own_command(self, *more):
        o = self.options
        return [sys.executable, os.path.abspath(__file__), o.bin, o.work, "--device", o.device, "--size", o.size, *more]

    def export(self, job):
        what, size = job.split(":")
        words = [sys.executable, os.path.join(ROOT, "scripts", "bench", "rank_workloads.py"), what, self.options.work, "--size", size, "--ranks",
                 str(RANKS), "--device", self.options.device]
        done = subprocess.run(words, capture_output=True, text=True, timeout=self.left(),
                              env=self.environment)
        if done.returncode:
            self.problems.append(f"{job} was not traced: {done.stderr[-600:]}")
        return done.returncode == 0

    def run_tsc(self, job, *more):
        graph = os.path.join(self.options.work, job.replace(":", "_"))
        device = ["--device=cuda"] if self.options.device == "cuda" else ["--device=host", "--processes"]
        start = time.monotonic()
        words = [self.tsc, "run", graph + ".json", "--inputs", graph + ".safetensors", f"--world-size={RANKS}", *device,
                 "--collective-timeout=60", *(["--no-graphs"] if self.options.no_graphs else []), *more]
        try:
            done = subprocess.run(words, capture_output=True, text=True, timeout=self.left(), env=self.environment)
        except subprocess.TimeoutExpired:
            self.problems.append(f"tsc's {job} was not done in time")
            return None
        if done.returncode:
            self.problems.append(f"tsc's {job}: exit code {done.returncode}: {(done.stderr + done.stdout)[-600:]}")
            return None
        print(f"tsc ran {job} in {time.monotonic() - start:.1f} s", flush=True)
        return done.stdout

    def numbers(self, what):
        """tsc's small step, and its distance from float64 beside eager's."""
        from safetensors.torch import load_file
        outputs = os.path.join(self.options.work, f"{what}_tsc.safetensors")
        if self.run_tsc(f"{what}:small", "--outputs", outputs) is None:
            return
        found = load_file(outputs)
        with open(os.path.join(self.options.work, f"{what}_small.json")) as file:
            results = json.load(file)["signature"]["outputs"]
        worst = [0.0, 0.0]
        for rank in range(RANKS):
            own = []
            for i, result in enumerate(results):
                name = f"output_{i}" if result["kind"] == "user" else "mutated_" + result["target"]
                own.append(found[f"rank_{rank}/{name}"].double())
            eager, wide = (load_file(os.path.join(self.options.work, f"{what}_{kind}_{rank}.safetensors")) for kind in ("eager", "wide"))
            if what == "training":
                groups = (len(own) - 2) // 3
                named = {"loss": own[0], **{f"gradient_{i}": own[2 + groups + i] / 0.1 for i in range(groups)}}
            else:
                named = {"logits": own[1], **{f"cache_{i}": c for i, c in enumerate(own[2:])}}
            for name, reference in wide.items():
                scale = float(reference.double().norm()) or 1.0
                errors = [float((x.double() - reference.double()).norm()) / scale for x in (named[name], eager[name])]
                worst = [max(pair) for pair in zip(worst, errors)]
                if not errors[0] <= 1.5 * errors[1] + 2e-3:
                    self.problems.append(f"{what}, rank {rank}: {name} is {errors[0]:.1e} from float64, eager's {errors[1]:.1e}")
        print(f"numbers of {what}: {len(wide)} tensors a rank; at most {worst[0]:.1e} from float64, eager's {worst[1]:.1e}", flush=True)

    def times(self, what):
        w, size = workloads(), self.options.size
        trace, job = os.path.join(self.options.work, f"{what}.trace.json"), f"{what}:{size}"
        with Memory(self.options.device) as memory:
            out = self.run_tsc(job, "--json", "--profile", trace, "--bench", str(STEPS[what]))
        if out is None:
            return
        report = json.loads(out)
        settings = (w.TRAINING if what == "training" else w.DECODING)[size]
        tokens = RANKS * settings["batch"] * settings["length"] if what == "training" else settings["batch"]
        row = {"what": what, "way": "tsc", "ms": report["median_ms"], "tokens": tokens / report["median_ms"] * 1000,
               "driver_bytes": memory.most, "kernels": report["kernels"], "library_calls": report["library_calls"],
               "warm_up_s": report["kernel_compile_ms"] / 1000}
        with open(os.path.join(self.options.work, f"{what}_{size}.json")) as file:
            row["bytes"] = report["workspace_bytes"] + report["weight_bytes"] + tensors_bytes(json.load(file))
        row.update(overlap_of_trace(trace.replace(".json", ".rank_0.json")))
        self.add(row)

    def add(self, row):
        self.rows.append(row)
        print("ROW " + json.dumps(row), flush=True)
        if "failed" in row:
            self.problems.append(f"PyTorch's {row['what']}, {row['way']}: {row['failed']}")

    def pytorch(self, what):
        """PyTorch's two ranks for one workload; what one has said counts, though it be ended."""
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = str(free.getsockname()[1])
        ranks, errors = [], []
        for rank in range(RANKS):
            environment = dict(self.environment, RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(RANKS), MASTER_ADDR="127.0.0.1",
                               MASTER_PORT=port)
            errors.append(open(os.path.join(self.options.work, f"pytorch_{what}_{rank}.log"), "w+"))
            ranks.append(subprocess.Popen(self.own_command("--only", what, "--rank"), stdout=subprocess.PIPE if rank == 0 else subprocess.DEVNULL,
                                          stderr=errors[rank], text=True, env=environment))
        timer = threading.Timer(self.left(), lambda: [r.kill() for r in ranks])
        timer.start()
        told = 0
        with Memory(self.options.device) as memory:
            for line in ranks[0].stdout:
                if line.startswith("ROW "):
                    told += 1
                    row = json.loads(line[4:])
                    if row["way"] == "numbers" and "failed" not in row:
                        continue
                    if "failed" not in row and memory.most:
                        row["driver_bytes"] = memory.take()
                    self.add(row)
            codes = [rank.wait() for rank in ranks]
        timer.cancel()
        if any(codes):
            errors[0].seek(0)
            self.problems.append(f"PyTorch's {what} ended with {codes} after {told} rows: {errors[0].read()[-600:]}")

    def run(self):
        jobs = sorted({f"{what}:{size}" for what in self.options.only for size in ("small", self.options.size)})
        with concurrent.futures.ThreadPoolExecutor(len(jobs)) as pool:
            traced = dict(zip(jobs, pool.map(self.export, jobs)))
        print(f"traced {len(jobs)} graphs, {self.left():.0f} s left", flush=True)
        for what in self.options.only:
            if traced[f"{what}:{self.options.size}"]:
                self.times(what)
        for what in self.options.only:
            self.pytorch(what)
            if traced[f"{what}:small"] and os.path.exists(os.path.join(self.options.work, f"{what}_wide_{RANKS - 1}.safetensors")):
                self.numbers(what)
        return self.print()

    def print(self):
        def cell(row, key, scale=1.0, form=".3f"):
            return format(row[key] * scale, form) if row.get(key) is not None else "-"
        print("\n| what | way | ms | tokens/s | comm ms | exposed ms | GB | GB of the driver | first s |\n|---|---|---|---|---|---|---|---|---|")
        for row in self.rows:
            if "ms" in row:
                print(f"| {row['what']} | {row['way']} | {row['ms']:.3f} | {row['tokens']:.0f} | {cell(row, 'comm_ms')} | {cell(row, 'exposed_ms')} | "
                      f"{cell(row, 'bytes', 1e-9, '.2f')} | {cell(row, 'driver_bytes', 1e-9, '.2f')} | {cell(row, 'warm_up_s', 1, '.1f')} |")
        for what in self.options.only:
            rates = {row["way"]: row["tokens"] for row in self.rows if row["what"] == what and "tokens" in row}
            others = [rate for way, rate in rates.items() if way != "tsc"]
            if "tsc" in rates and others:
                print(f"{what}: tsc's tokens/s over PyTorch's best: {rates['tsc'] / max(others):.3f}")
        for problem in self.problems:
            print(f"PROBLEM {problem}")
        if self.options.out:
            write_json(self.options.out, {"rows": self.rows, "problems": self.problems})
        return 1 if self.problems else 0


def tensors_bytes(graph):
    """Of a rank's inputs, and of outputs that are not the next value of one."""
    sizes = {"bool": 1, "int64": 8, "float32": 4, "bfloat16": 2}

    def bytes_of(value):
        count = sizes[value["dtype"]]
        for size in value["size"]:
            count *= size
        return count
    values = {node["name"]: node.get("val") for node in graph["nodes"]}
    return sum(bytes_of(values[one["node"]]) for one in graph["signature"]["inputs"]) + sum(
        bytes_of(values[one["value"]["node"]]) for one in graph["signature"]["outputs"] if one["kind"] == "user")


def overlap_of_trace(path):
    with open(path) as file:
        steps = [e for e in json.load(file)["traceEvents"] if e.get("cat") == "step"]
    runs = 1 + max(e["args"]["run"] for e in steps)
    spans = {kind: [(e["ts"] / 1000, (e["ts"] + e["dur"]) / 1000) for e in steps if (e["args"]["kind"] == "collective") == kind]
             for kind in (True, False)}
    return {"comm_ms": covered(spans[True]) / runs, "exposed_ms": covered(spans[True], spans[False]) / runs}


class Memory:
    """The most memory that the driver said is used on GPU 0, while this lives."""

    def __init__(self, device):
        self.is_cuda, self.most = device == "cuda", None

    def __enter__(self):
        if self.is_cuda:
            self.process = subprocess.Popen(["nvidia-smi", "-i", "0", "--query-gpu=memory.used", "--format=csv,noheader,nounits", "-lms", "150"],
                                            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
            self.thread = threading.Thread(target=self.read, daemon=True)
            self.thread.start()
        return self

    def read(self):
        for line in self.process.stdout:
            if line.strip().isdigit():
                self.most = max(self.most or 0, int(line) * 2**20)

    def take(self):
        most, self.most = self.most, None
        return most

    def __exit__(self, *_):
        if self.is_cuda:
            self.process.kill()
            self.process.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bin")
    parser.add_argument("work")
    parser.add_argument("--seconds", type=float, default=195)
    parser.add_argument("--only", choices=("training", "decoding"), action="append")
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    parser.add_argument("--size", default="large", choices=("large", "small"))
    parser.add_argument("--no-graphs", action="store_true", help="tsc's steps are queued one by one")
    parser.add_argument("--out", help="all figures as JSON")
    parser.add_argument("--rank", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.only = options.only or ["training", "decoding"]
    os.makedirs(options.work, exist_ok=True)
    if options.rank:
        return Rank(options).run()
    return Comparison(options).run()


if __name__ == "__main__":
    sys.exit(main())
