"""What collectives take on this machine's GPUs, beside the model of `tsc explain --network`, and the network's constants fitted to it.

  python3 scripts/bench/network_times.py BIN WORK [--ranks 2] [--device cuda] [--sizes 4096,1048576]

For each kind of collective and size a graph of REPEATS of them runs under --profile; a collective has taken as long as on the rank that came
last. The model is tsc's own: what it says of a network with one level is `transfer / bandwidth + steps x latency`, and `transfer` and `steps` are asked
of `tsc explain`, with a network without latency and one without limit. WORK/network.json is what was fitted, which `tsc explain --network` takes.
"""
import argparse
import json
import math
import os
import statistics
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "scripts", "record"))
import collective_graphs as graphs  # noqa: E402

KINDS = ("all_gather", "reduce_scatter", "all_reduce", "broadcast", "all_to_all")
SIZES = [4 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20, 64 << 20, 256 << 20]
REPEATS = 4  # the first of them meets ranks that are not there yet


def graph_of(size, ranks):
    """REPEATS of each kind one after the other; `size` as the model counts it: of all ranks together for gathers and scatters."""
    g = graphs.Graph(f"network_{size}")
    numel = size // 4 // ranks * ranks
    whole, part = g.input([numel]), g.input([numel // ranks])
    arguments = {"all_gather": ("all_gather_into_tensor", part, ranks, "0"), "reduce_scatter": ("reduce_scatter_tensor", whole, "sum", ranks, "0"),
                 "all_reduce": ("all_reduce", whole, "sum", "0"), "broadcast": ("broadcast", whole, 0, "0"),
                 "all_to_all": ("all_to_all_single", whole, [numel // ranks] * ranks, [numel // ranks] * ranks, "0")}
    results = [[g.collective(*arguments[kind]) for _ in range(REPEATS)] for kind in KINDS]
    return g.finish([one[-1] for one in results])


def measured(trace, ranks):
    """Of each collective, in order: microseconds on the rank that came last; of many runs the median."""
    durations = []
    for rank in range(ranks):
        with open(trace.replace(".json", f".rank_{rank}.json")) as file:
            steps = [e for e in json.load(file)["traceEvents"] if e.get("cat") == "step" and e["args"]["kind"] == "collective"]
        runs = [[] for _ in range(1 + max(e["args"]["run"] for e in steps))]
        for e in sorted(steps, key=lambda e: (e["args"]["run"], e["args"]["step"])):
            runs[e["args"]["run"]].append(e["dur"])
        durations.append(runs)
    return [statistics.median(min(durations[rank][run][i] for rank in range(ranks)) for run in range(len(durations[0])))
            for i in range(len(durations[0][0]))]


class Network:
    def __init__(self, options, environment=None):
        self.options, self.environment = options, environment
        self.tsc = os.path.join(os.path.abspath(options.bin), "tsc")
        self.work = os.path.abspath(options.work)
        self.rows = []  # kind, bytes, measured us, bytes on the wire, steps

    def tell(self, words):
        done = subprocess.run([self.tsc, *words], capture_output=True, text=True, timeout=120, cwd=self.work, env=self.environment)
        if done.returncode:
            raise RuntimeError(f"{' '.join(words[:2])} ended with {done.returncode}: {(done.stderr + done.stdout)[-400:]}")
        return done.stdout

    def expected(self, graph, **level):
        """Microseconds of each collective as `tsc explain` expects them of a network with this level."""
        path = os.path.join(self.work, "asked.json")
        with open(path, "w") as file:
            json.dump({"name": "asked", "levels": [dict(level, ranks=self.options.ranks)]}, file)
        out = json.loads(self.tell(["explain", graph, "--arch", "sm_90", f"--world-size={self.options.ranks}", "--network", path, "--json"]))
        return [(row["kind"], row["bytes"], row["us"]) for row in out["collectives"]]

    def measure(self, size):
        graph, trace = (os.path.join(self.work, f"network_{size}.{end}") for end in ("graph.json", "trace.json"))
        with open(graph, "w") as file:
            json.dump(graph_of(size, self.options.ranks), file)
        device = ["--device=cuda"] if self.options.device == "cuda" else ["--device=host", "--processes"]
        self.tell(["run", graph, "--inputs=random:7", f"--world-size={self.options.ranks}", *device, "--profile", trace, "--collective-timeout=60"])
        times = measured(trace, self.options.ranks)
        wire = self.expected(graph, gigabytes_per_second=1, microseconds=1e-9)
        steps = self.expected(graph, gigabytes_per_second=1e12, microseconds=1)
        for first in range(0, len(times), REPEATS):
            kind, count, us = wire[first]
            self.rows.append((kind, count, statistics.median(times[first + 1:first + REPEATS]), us * 1e3, steps[first][2]))

    def fit(self):
        """Bandwidth and latency with the least mean square of the errors in the logarithm; by descent on a grid that gets finer."""
        def cost(bandwidth, latency):
            return sum(math.log((wire / bandwidth / 1e3 + steps * latency) / us)**2 for _, _, us, wire, steps in self.rows)
        best, width = (200.0, 10.0), 4.0
        while width > 1.001:
            near = [(best[0] * width**i, best[1] * width**j) for i in (-1, 0, 1) for j in (-1, 0, 1)]
            new = min(near, key=lambda pair: cost(*pair))
            width = width**0.5 if new == best else width
            best = new
        return best

    def report(self):
        """Text of measurements beside the model with fitted constants; median and largest error."""
        bandwidth, latency = self.fit()
        lines, errors = ["| collective | bytes | measured us | model us | model / measured |", "|---|---|---|---|---|"], []
        for kind, count, us, wire, steps in self.rows:
            model = wire / bandwidth / 1e3 + steps * latency
            errors.append(abs(model / us - 1))
            lines.append(f"| {kind} | {count:.0f} | {us:.1f} | {model:.1f} | {model / us:.2f} |")
        level = {"ranks": self.options.ranks, "gigabytes_per_second": round(bandwidth, 1), "microseconds": round(latency, 2)}
        with open(os.path.join(self.work, "network.json"), "w") as file:
            json.dump({"name": f"measured between {self.options.ranks} ranks", "levels": [level]}, file)
        summary = (f"{bandwidth:.0f} GB/s, {latency:.1f} us; error of the model: median {100 * statistics.median(errors):.0f}%, "
                   f"most {100 * max(errors):.0f}%")
        return "\n".join([*lines, "fitted: " + summary]), summary

    def run(self):
        os.makedirs(self.work, exist_ok=True)
        for size in self.options.sizes:
            self.measure(size)
        return self.report()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bin")
    parser.add_argument("work")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--device", default="cuda", choices=("cuda", "host"))
    parser.add_argument("--sizes", type=lambda text: [int(word) for word in text.split(",")], default=SIZES, help="bytes")
    print(Network(parser.parse_args()).run()[0])


if __name__ == "__main__":
    main()
