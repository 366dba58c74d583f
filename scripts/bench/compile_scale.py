"""How compile time and memory grow with a graph.

    python3 scripts/bench/compile_scale.py TSC [NODES ...]        (default: 1000 10000 100000)

Graphs of four forms: a chain, a Fibonacci-shaped graph (each node adds the two before it), one input that every node reads, transformer blocks.
Prints for each the time of graph passes, lowering, scheduling and code generation in microseconds a node, and the peak memory in
kilobytes a node; the last column compares a node's scheduling with that of the smallest graph of the form.
"""
import json
import os
import re
import subprocess
import sys
import tempfile


def placeholder(name, sizes):
    strides = [1]
    for size in reversed(sizes[1:]):
        strides.insert(0, strides[0] * size)
    return {"name": name, "op": "placeholder", "val": {"dtype": "float32", "size": sizes, "stride": strides, "offset": 0}}


def call(name, target, *args, **kwargs):
    return {"name": name, "op": "call_function", "target": f"aten.{target}",
            "args": [{"node": a} if isinstance(a, str) else a for a in args], "kwargs": kwargs}


def graph(nodes, results):
    output = {"name": "output", "op": "output", "args": [[{"node": name} for name in results]]}
    return {"format": "tsc-graph", "version": 1, "nodes": nodes + [output]}


def chain(count):
    nodes = [placeholder("x", [64, 64])]
    for i in range(count):
        nodes.append(call(f"n{i}", ("sin.default", "cos.default", "tanh.default")[i % 3], nodes[-1]["name"]))
    return graph(nodes, [nodes[-1]["name"]])


def fibonacci(count):
    nodes = [placeholder("a", [64, 64]), placeholder("b", [64, 64])]
    for i in range(count):
        nodes.append(call(f"n{i}", ("add.Tensor", "mul.Tensor")[i % 2], nodes[-1]["name"], nodes[-2]["name"]))
    return graph(nodes, [nodes[-1]["name"]])


def shared(count):
    nodes = [placeholder("x", [64, 64])]
    sums = []
    for i in range(count):
        nodes.append(call(f"n{i}", "sum.dim_IntList", "x", [i % 2]) if i % 4 == 0 else call(f"n{i}", "mul.Tensor", "x", 1 + i / 1000))
        sums.append(nodes[-1]["name"])
    return graph(nodes, sums)


def transformer(count):
    width, length = 64, 32
    nodes = [placeholder("x", [length, width]), placeholder("w", [width, width])]
    last, i = "x", 0

    def add(target, *args):
        nonlocal i
        nodes.append(call(f"n{i}", target, *args))
        i += 1
        return nodes[-1]["name"]

    while i < count:
        norm = add("native_layer_norm.default", last, [width], None, None, 1e-5)
        norm = f"n{i}"
        nodes.append({"name": norm, "op": "call_function", "target": "operator.getitem", "args": [{"node": f"n{i - 1}"}, 0], "kwargs": {}})
        i += 1
        q, k, v = (add("mm.default", norm, "w") for _ in range(3))
        scores = add("softmax.int", add("mm.default", q, add("t.default", k)), -1)
        last = add("add.Tensor", last, add("mm.default", add("mm.default", scores, v), "w"))
        hidden = add("gelu.default", add("mm.default", last, "w"))
        last = add("add.Tensor", last, add("mm.default", hidden, "w"))
    return graph(nodes, [last])


FORMS = {"chain": chain, "fibonacci": fibonacci, "one input for all": shared, "transformer": transformer}
GRAPH = {"inline_subgraphs", "check_operators", "infer_shapes", "functionalize", "decompose", "decompose_attention",
         "decompose_convolution", "seed_random", "clean_up"}


def measure(tsc, path, out):
    done = subprocess.run(["/usr/bin/time", "-f", "peak %M", tsc, "compile", path, "-o", out, "--time-passes"], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(done.stderr[:2000])
    times = {"graph": 0.0, "lower": 0.0, "schedule": 0.0, "generate": 0.0}
    for milliseconds, name in re.findall(r"^\s*([0-9.]+) ms\s+(\S+)", done.stderr, re.M):
        stage = "graph" if name in GRAPH else name if name in ("lower", "generate") else "schedule" if name not in ("read", "total", "emit", "write") else None
        if stage:
            times[stage] += float(milliseconds)
    return times, int(re.search(r"peak (\d+)", done.stderr)[1])


def main():
    tsc, counts = sys.argv[1], [int(n) for n in sys.argv[2:]] or [1000, 10000, 100000]
    print(f"{'form':18} {'nodes':>7} {'graph':>7} {'lower':>7} {'schedule':>9} {'generate':>9} {'KB':>6} {'growth':>7}   (us a node)")
    for form, make in FORMS.items():
        first = None
        for count in counts:
            with tempfile.TemporaryDirectory() as folder:
                path = os.path.join(folder, "graph.json")
                with open(path, "w") as file:
                    json.dump(make(count), file)
                times, peak = measure(tsc, path, os.path.join(folder, "out"))
            each = {name: milliseconds * 1e3 / count for name, milliseconds in times.items()}
            first = first or each["schedule"]
            print(f"{form:18} {count:7} {each['graph']:7.1f} {each['lower']:7.1f} {each['schedule']:9.1f} {each['generate']:9.1f} {peak / count:6.1f} "
                  f"{each['schedule'] / first:7.2f}", flush=True)


main()
