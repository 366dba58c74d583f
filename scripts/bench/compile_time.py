"""How compile time and memory grow with the graph: time a node and peak memory for graphs of several sizes.

    python3 scripts/bench/compile_time.py build/release/bin/tsc [--nodes 1000,10000,100000] [--shapes chain,fibonacci,...]
                                          [--forms schedule,program]

Needs Python alone. Each graph is written as graph JSON, then `tsc compile --emit=FORM` runs on it: `schedule` is everything but
code generation, `program` everything. Printed per run: seconds, microseconds of processor time a node, peak resident memory,
and the time a node over that of the smallest graph. --passes adds the slowest passes.
"""
import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time

SIZE = 64


class Graph:
    def __init__(self):
        self.nodes = []

    def input(self, name, sizes):
        self.nodes.append({"name": name, "op": "placeholder", "val": {"dtype": "float32", "size": sizes}})
        return name

    def call(self, target, *args):
        name = f"n{len(self.nodes)}"
        self.nodes.append({"name": name, "op": "call_function", "target": target,
                           "args": [{"node": a} if isinstance(a, str) else a for a in args]})
        return name

    def text(self, results):
        self.nodes.append({"name": "output", "op": "output", "args": [[{"node": r} for r in results]]})
        return json.dumps({"format": "tsc-graph", "version": 1, "nodes": self.nodes})


def chain(count):
    g = Graph()
    x = g.input("x", [SIZE, SIZE])
    for i in range(count):
        x = g.call(("aten.sin.default", "aten.relu.default", "aten.exp.default")[i % 3], x)
    return g.text([x])


def fibonacci(count):
    g = Graph()
    a, b = g.input("a", [SIZE, SIZE]), g.input("b", [SIZE, SIZE])
    for _ in range(count):
        a, b = b, g.call("aten.add.Tensor", a, b)
    return g.text([b])


def shared(count):
    """One buffer that every node reads."""
    g = Graph()
    x = g.input("x", [SIZE, SIZE])
    y = g.call("aten.mm.default", x, x)
    return g.text([g.call("aten.mul.Scalar", y, i + 0.5) for i in range(count)])


def transformer(count):
    """Blocks of 30 nodes: layer norm by hand, products, softmax, feed-forward."""
    g = Graph()
    x = g.input("x", [SIZE, SIZE])
    weights = [g.input(f"w{i}", [SIZE, SIZE]) for i in range(4)]

    def norm(y):
        centered = g.call("aten.sub.Tensor", y, g.call("aten.mean.dim", y, [-1], True))
        variance = g.call("aten.mean.dim", g.call("aten.mul.Tensor", centered, centered), [-1], True)
        return g.call("aten.mul.Tensor", centered, g.call("aten.rsqrt.default", g.call("aten.add.Scalar", variance, 1e-5)))

    while len(g.nodes) < count:
        h = norm(x)
        q, k, v = (g.call("aten.mm.default", h, w) for w in weights[:3])
        scores = g.call("aten.mul.Scalar", g.call("aten.mm.default", q, g.call("aten.permute.default", k, [1, 0])), 0.125)
        top = g.call("aten.amax.default", scores, [-1], True)
        e = g.call("aten.exp.default", g.call("aten.sub.Tensor", scores, top))
        p = g.call("aten.div.Tensor", e, g.call("aten.sum.dim_IntList", e, [-1], True))
        x = g.call("aten.add.Tensor", x, g.call("aten.mm.default", g.call("aten.mm.default", p, v), weights[3]))
        h = g.call("aten.mm.default", norm(x), weights[0])
        h = g.call("aten.mul.Tensor", h, g.call("aten.sigmoid.default", h))
        x = g.call("aten.add.Tensor", x, g.call("aten.mm.default", h, weights[1]))
    return g.text([x])


SHAPES = {"chain": chain, "fibonacci": fibonacci, "shared": shared, "transformer": transformer}


def measure(tsc, path, form):
    """Seconds, milliseconds by pass, peak KiB of one run."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        start = time.perf_counter()
        process = subprocess.Popen([tsc, "compile", path, f"--emit={form}", "--time-passes"], stdout=out, stderr=err)
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - start
        err.seek(0)
        text = err.read().decode()
    if status != 0:
        sys.exit(f"{path}: {text[-2000:]}")
    passes = {}
    for line in text.splitlines():
        words = line.split()
        if len(words) >= 2 and words[-1] == "ms":
            passes[" ".join(words[:-2])] = float(words[-2])
    return seconds, usage.ru_utime + usage.ru_stime, passes, usage.ru_maxrss


def main():
    if sys.argv[1:2] == ["--write"]:
        with open(sys.argv[4], "w") as file:
            file.write(SHAPES[sys.argv[2]](int(sys.argv[3])))
        return
    parser = argparse.ArgumentParser()
    parser.add_argument("tsc")
    parser.add_argument("--nodes", default="1000,10000,100000")
    parser.add_argument("--shapes", default=",".join(SHAPES))
    parser.add_argument("--forms", default="schedule,program")
    parser.add_argument("--passes", action="store_true", help="the slowest passes of each run")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for shape in arguments.shapes.split(","):
            for form in arguments.forms.split(","):
                first = None
                for count in map(int, arguments.nodes.split(",")):
                    path = os.path.join(folder, "graph.json")
                    # In a process of its own: what this one holds would count as its children's peak.
                    subprocess.run([sys.executable, __file__, "--write", shape, str(count), path], check=True)
                    seconds, cpu, passes, memory = measure(arguments.tsc, path, form)
                    per_node = cpu / count * 1e6
                    first = first or per_node
                    print(f"{shape:12} {form:9} {count:7} nodes {seconds:8.2f} s {per_node:9.1f} us of CPU a node "
                          f"{memory / count:8.2f} KiB a node ({memory / 1024:7.1f} MiB) {per_node / first:5.2f} x", flush=True)
                    if arguments.passes:
                        for name, ms in sorted(passes.items(), key=lambda p: -p[1])[:8]:
                            print(f"    {name:40} {ms:10.1f} ms {ms / count * 1e3:8.2f} us a node")


if __name__ == "__main__":
    main()
