#!/usr/bin/env python3
"""The memory that compiled graphs need, as `tsc compile` states it before anything runs, beside what PyTorch needed.

    scripts/bench/memory_table.py TSC [NAME ...] [--graphs FOLDER ...] [--arch sm_90] [--above]

Peak: workspace and outputs, MiB; inputs and weights are no part of it. tests/models/peaks.def holds PyTorch's. Graphs are those of graphs/wide, and of every
FOLDER given: NAME.json or NAME/model.json; a later folder's is taken where two have one name. `ratio` is to the lower of TorchInductor's and eager mode's peak; 2%, or 1 MiB, more counts as
equal (the figures are whole MiB). --above: only graphs that need more. No GPU is needed.
"""
import argparse
import json
import os
import re
import subprocess
import tarfile
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MIB = 2**20


def references():
    """Name -> (TorchInductor's peak, eager mode's), MiB."""
    with open(os.path.join(ROOT, "tests", "models", "peaks.def")) as file:
        rows = re.findall(r"^TSC_PEAK\((\w+), (\d+), (\d+)\)", file.read(), re.MULTILINE)
    return {name: (int(inductor), int(eager)) for name, inductor, eager in rows}


def graphs_in(folder):
    found = {}
    for entry in sorted(os.listdir(folder)):
        model = os.path.join(folder, entry, "model.json")
        if entry.endswith(".json"):
            found[entry[:-len(".json")]] = os.path.join(folder, entry)
        elif os.path.exists(model):
            found[entry] = model
    return found


def stated(tsc, graph, arch, work):
    """Workspace and outputs in bytes; None and why, if there is no program."""
    out = os.path.join(work, "out")
    done = subprocess.run([tsc, "compile", graph, "-o", out, "--arch", arch, "--json"], capture_output=True, text=True)
    if done.returncode:
        return None, (done.stdout + done.stderr).strip().replace("\n", " ")[-160:]
    report = json.loads(done.stdout)
    if "memory" not in report:
        return None, "sizes are symbols"
    return (report["memory"]["workspace_bytes"], report["memory"]["output_bytes"]), ""


def is_more(peak, lower):
    return peak > max(lower * 1.02, lower + 1)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tsc")
    parser.add_argument("names", nargs="*")
    parser.add_argument("--graphs", action="append", default=[])
    parser.add_argument("--arch", default="sm_90")
    parser.add_argument("--above", action="store_true")
    options = parser.parse_args()
    known, above, count = references(), 0, 0
    with tempfile.TemporaryDirectory() as work:
        with tarfile.open(os.path.join(ROOT, "graphs", "wide.tar.xz")) as archive:
            archive.extractall(work)
        graphs = {}
        for folder in [os.path.join(work, "graphs", "wide"), *options.graphs]:
            graphs.update(graphs_in(folder))
        print("| workload | workspace | outputs | tsc | Inductor | eager | ratio |\n|---|---|---|---|---|---|---|")
        for name in options.names or sorted(set(graphs) & set(known)):
            peaks, why = stated(options.tsc, graphs[name], options.arch, work)
            if peaks is None:
                print(f"| {name} | {why} |")
                continue
            workspace, outputs = (bytes / MIB for bytes in peaks)
            inductor, eager = known.get(name, (float("inf"), float("inf")))
            peak, lower = workspace + outputs, min(inductor, eager)
            count += 1
            above += is_more(peak, lower)
            if options.above and not is_more(peak, lower):
                continue
            ratio = f"{peak / lower:.2f}" if lower else "-"
            mark = " above" if is_more(peak, lower) else ""
            print(f"| {name} | {workspace:.1f} | {outputs:.1f} | {peak:.1f} | {inductor} | {eager} | {ratio}{mark} |", flush=True)
    print(f"{count} graphs, {above} need more than the lower of both")


if __name__ == "__main__":
    main()
