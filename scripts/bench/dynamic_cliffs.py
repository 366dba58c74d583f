"""Kernels for any sizes beside those for the likely ones, by estimates: where sizes that are symbols cost much. Needs no GPU.

    scripts/bench/dynamic_cliffs.py WORKLOADS [NAME...] [--tsc build/release/bin/tsc] [--arch sm_90] [--above 1.5]

Each function of the workload file is exported with every size a symbol; `tsc explain --json` says what its kernels take at the sizes of the
example. Printed are those whose kernels for any sizes take `above` times what the others take, the worst first, with their three slowest.
"""
import argparse
import importlib.util
import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE]
import torch  # noqa: E402

LAUNCH = 2000  # ns
TIMES = ("memory_ns", "accesses_ns", "instructions_ns", "arithmetic_ns", "latency_ns")


def export(make, path):
    module, inputs = make()
    auto = torch.export.Dim.AUTO
    sizes = [{d: auto for d in range(one.dim()) if one.shape[d] > 1} if isinstance(one, torch.Tensor) else None for one in inputs]
    program = torch.export.export(module, inputs, dynamic_shapes={"a": tuple(sizes)})
    program._example_inputs = None
    torch.export.save(program, path)


def of(text):
    """(any sizes, likely sizes, kernels that any sizes take), nanoseconds."""
    total, likely, slow = 0.0, 0.0, []
    for group in json.loads(text)["groups"]:
        for kernel in group["kernels"]:
            estimate = kernel["estimate"]
            if not estimate:
                continue
            time = max(estimate[one] for one in TIMES) + LAUNCH
            for_any, for_likely = "; where not " in kernel["plan"], "; where s" in kernel["plan"]
            total += 0 if for_likely else time
            likely += 0 if for_any else time
            if for_any:
                slow.append((time, kernel["plan"]))
    return total, likely, sorted(slow, reverse=True)[:3]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("workloads")
    parser.add_argument("names", nargs="*")
    parser.add_argument("--tsc", default=os.path.join(HERE, "..", "..", "build", "release", "bin", "tsc"))
    parser.add_argument("--arch", default="sm_90")
    parser.add_argument("--above", type=float, default=1.5)
    arguments = parser.parse_args()
    spec = importlib.util.spec_from_file_location("workloads_of_functions", arguments.workloads)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for name in arguments.names or list(module.W):
            path = os.path.join(folder, "graph.pt2")
            try:
                export(module.W[name], path)
            except Exception as error:
                print(f"{name}: not exported: {str(error).splitlines()[0][:120]}", file=sys.stderr)
                continue
            run = subprocess.run([arguments.tsc, "explain", path, "--arch", arguments.arch, "--json"], capture_output=True, text=True)
            if run.returncode:
                print(f"{name}: {(run.stderr.strip().splitlines() or ['no text'])[0][:160]}", file=sys.stderr)
                continue
            rows.append((*of(run.stdout), name))
    rows.sort(key=lambda row: -row[0] / max(row[1], 1))
    for total, likely, slow, name in rows:
        if total > arguments.above * likely:
            print(f"{total / max(likely, 1):6.2f}  {name}: {total / 1e3:.1f} us for any sizes, {likely / 1e3:.1f} for the likely ones")
            for time, plan in slow:
                print(f"        {time / 1e3:8.1f}  {plan[:170]}")


if __name__ == "__main__":
    main()
