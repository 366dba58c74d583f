"""Checks compiled models against PyTorch on a GPU and times both, interleaved in one process.

    python3 scripts/bench/compare_with_pytorch.py FOLDER [NAME ...]

FOLDER/NAME/build/libtsc_model.so (or whatever *.so lies there) is a model compiled by `tsc compile graphs/anchors/NAME/model.json
-o FOLDER/NAME` and built with CMake. For each: outputs against float64 by the rule of docs/numbers.md, then medians with
the L2 flushed between runs, tsc beside eager PyTorch and TorchInductor's modes. Ends with a table.
"""
import glob
import json
import os
import sys

import torch

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from compiled_model import CompiledModel  # noqa: E402
from workloads import BYTES, WORKLOADS  # noqa: E402

NORM = {torch.float32: 1e-5, torch.float16: 5e-3, torch.bfloat16: 2e-2}
ULP = {torch.float32: 2.0**-23, torch.float16: 2.0**-10, torch.bfloat16: 2.0**-7}


def agreement(out, eager, reference):
    """Norm against float64, and every element within 4 ulp (16 for fp32) of its row's rms plus 3x eager's worst."""
    dtype = out.dtype
    o, e, r = out.double(), eager.double(), reference.double()
    if not bool(torch.isfinite(o).eq(torch.isfinite(r)).all()):
        return False, float("nan"), float("nan")
    norm = float((o - r).norm() / r.norm())
    worst_eager = float((e - r).abs().max())
    rms = r.pow(2).mean(-1, keepdim=True).sqrt()
    allowed = (16 if dtype == torch.float32 else 4) * ULP[dtype] * rms + 3 * worst_eager
    worst = float(((o - r).abs() / allowed).max())
    return norm <= NORM[dtype] and worst <= 1, norm, worst


class Contender:
    def __init__(self, name, call):
        self.name, self.call, self.times = name, call, []


def graphed(call):
    """The same work replayed as a CUDA graph."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(3):
            call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()
    return graph.replay


def measure(contenders, seconds):
    flush = torch.empty(256 * 2**20, dtype=torch.uint8, device="cuda")
    for c in contenders:
        for _ in range(3):
            c.call()
    torch.cuda.synchronize()
    start = torch.cuda.Event(enable_timing=True)
    end = torch.cuda.Event(enable_timing=True)
    spent, rounds = 0.0, 0
    while (spent < seconds * 1000 and rounds < 300) or rounds < 15:
        for c in contenders:
            flush.zero_()
            start.record()
            c.call()
            end.record()
            end.synchronize()
            t = start.elapsed_time(end)
            c.times.append(t)
            spent += t
        rounds += 1
    for c in contenders:
        c.times.sort()


def inductor(module, inputs, mode):
    torch._dynamo.reset()
    compiled = torch.compile(module, mode=mode)
    for _ in range(3):
        compiled(*inputs)
    torch.cuda.synchronize()
    return lambda: compiled(*inputs)


def run(name, folder, modes, seconds):
    torch.manual_seed(0)
    module, inputs = WORKLOADS[name]()
    module = module.eval()
    with torch.no_grad():
        library = glob.glob(os.path.join(folder, name, "build", "*.so"))[0]
        model = CompiledModel(library, module.state_dict(), list(inputs))
        model.poison()
        model()
        torch.cuda.synchronize()
        eager = module(*inputs)
        eager = list(eager) if isinstance(eager, tuple) else [eager]
        wide = module.double()(*[x.double() if x.is_floating_point() else x for x in inputs])
        wide = list(wide) if isinstance(wide, tuple) else [wide]
        results = [agreement(o, e, w) for o, e, w in zip(model.outputs(), eager, wide)]
        assert len(results) == len(eager)
        del wide
        torch.manual_seed(0)
        module, inputs = WORKLOADS[name]()
        module = module.eval()
        torch.cuda.empty_cache()
        contenders = [Contender("tsc", model), Contender("tsc graph", graphed(model)),
                      Contender("eager", lambda: module(*inputs))]
        for mode in modes:
            try:
                contenders.append(Contender(mode or "inductor", inductor(module, inputs, mode)))
            except Exception as error:  # a mode that PyTorch cannot run is named, not timed
                print(f"{name}: {mode} failed: {str(error)[:200]}", flush=True)
        measure(contenders, seconds)
    median = {c.name: c.times[len(c.times) // 2] for c in contenders}
    spread = {c.name: (c.times[len(c.times) // 10], c.times[len(c.times) * 9 // 10]) for c in contenders}
    best = min(v for k, v in median.items() if k not in ("tsc", "tsc graph", "eager"))
    ours = min(median["tsc"], median["tsc graph"])
    return {"name": name, "ok": all(r[0] for r in results), "norm": max(r[1] for r in results),
            "worst": max(r[2] for r in results), "median": median, "spread": spread, "ratio": ours / best,
            "tbs": BYTES[name] / ours / 1e9 if name in BYTES else None}


def copy_bandwidth():
    a = torch.randn(2**30, device="cuda")
    b = torch.empty_like(a)
    c = Contender("copy", lambda: b.copy_(a))
    measure([c], 0.5)
    return 2 * a.numel() * 4 / c.times[len(c.times) // 2] / 1e9


def main():
    folder, names = sys.argv[1], sys.argv[2:] or list(WORKLOADS)
    bandwidth = copy_bandwidth()
    rows = []
    for name in names:
        modes = [None, "reduce-overhead"] + (["max-autotune-no-cudagraphs", "max-autotune"] if name in BYTES else [])
        try:
            rows.append(run(name, folder, modes, 1.0))
        except Exception as error:
            print(f"{name}: FAILED: {type(error).__name__}: {str(error)[:1500]}", flush=True)
            rows.append({"name": name, "error": str(error)})
            continue
        print(json.dumps(rows[-1]), flush=True)
    with open(os.path.join(os.environ.get("OUT", folder), "compare.json"), "w") as file:
        json.dump({"copy_tbs": bandwidth, "rows": rows, "gpu": torch.cuda.get_device_name(),
                   "torch": torch.__version__}, file, indent=1)
    print(f"copy: {bandwidth:.2f} TB/s")
    print(f"{'graph':16} {'agrees':7} {'norm':8} {'tsc ms':9} {'graph ms':9} {'eager ms':9} {'inductor best ms':17} {'ratio':6} {'TB/s':5} of copy")
    for r in rows:
        if "error" in r:
            print(f"{r['name']:16} FAILED")
            continue
        m = r["median"]
        best = min(v for k, v in m.items() if k not in ("tsc", "tsc graph", "eager"))
        tail = f"{r['tbs']:5.2f} {r['tbs'] / bandwidth:4.0%}" if r["tbs"] else ""
        print(f"{r['name']:16} {'yes' if r['ok'] else 'NO':7} {r['norm']:.1e}  {m['tsc']:<9.4f} {m['tsc graph']:<9.4f} {m['eager']:<9.4f} {best:<17.4f} {r['ratio']:<6.3f} {tail}")


if __name__ == "__main__":
    main()
