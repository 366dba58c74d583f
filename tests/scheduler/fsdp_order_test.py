"""The order of FSDP backward graphs, of any number of layers, against a model of the scheduler that knows nothing of tsc.

    fsdp_order_test.py TSC ROOT

The model lists the operations of such a graph by hand, works out who waits for whom, groups collectives with their copies,
and orders the groups twice: waits back, collectives forward. docs/scheduler.md tells the same story in words.
"""
import heapq
import os
import re
import subprocess
import sys
import tempfile
import unittest

TSC, ROOT = sys.argv[1:3]


class Operation:
    def __init__(self, number, role, reads, mutates=(), aliases=(), layer=None, keep=True):
        self.number, self.role, self.layer, self.keep = number, role, layer, keep
        self.reads = list(reads)      # buffers whose contents it wants
        self.mutates = list(mutates)  # buffers that it writes in place
        self.aliases = list(aliases)  # buffers that its own output stands for
        self.own, self.versions = None, []
        self.waits = set()            # buffers that must be there before

    def outputs(self):
        return [self.own] + self.versions


class Model:
    """The operations of a graph with `layers` layers, in the order of the graph."""

    def __init__(self, layers, forward):
        self.operations, self.buffers = [], 0
        (self.forward if forward else self.backward)(layers)
        self.find_waits()

    def forward(self, layers):
        activation = None
        for layer in range(1, layers + 1):
            storage = self.unshard(layer, storage_first=False)
            product = self.add("mm", [f"weight{layer}"] + ([activation] if activation else []))
            activation = self.add("pointwise", [product], layer="last" if layer == layers else None)
            self.add("resize", [storage], mutates_itself=storage)
        self.add("pointwise", [activation], layer="last")

    def backward(self, layers):
        storages, gradients = {}, {}
        gradient = None
        for layer in range(layers, 0, -1):
            storages[layer] = self.unshard(layer, storage_first=True)
            gradient_in = self.add("pointwise", [gradient] if gradient else [])
            if layer > 1:
                gradient = self.add("mm", [gradient_in, f"weight{layer}"])
            gradients[layer] = self.add("mm", [gradient_in])
        for layer in range(1, layers + 1):
            self.add("resize", [storages[layer]], mutates_itself=storages[layer])
            chunks = self.add("empty", [])
            self.add("chunk", [gradients[layer], chunks], mutates=[chunks], aliases=[chunks], layer=layer)
            self.add("dead", [], keep=False)
            shard = self.add("reduce", [chunks], layer=layer)
            self.add("reduce_wait", [shard, chunks], mutates=[shard], layer=layer)

    def buffer(self):
        self.buffers += 1
        return f"buf{self.buffers - 1}"

    def add(self, role, reads, mutates=(), aliases=(), layer=None, mutates_itself=None, keep=True):
        operation = Operation(len(self.operations), role, reads, mutates, aliases, layer, keep)
        operation.own = self.buffer()
        operation.versions = [self.buffer() for _ in operation.mutates]
        operation.pairs = list(zip(operation.mutates, operation.versions))
        if mutates_itself:
            operation.pairs = [(mutates_itself, operation.own)]
        self.operations.append(operation)
        return operation.own

    def unshard(self, layer, storage_first):
        if storage_first:
            storage = self.add("empty", [])
        pair = self.add("copy_in", [], layer=layer)
        part = self.add("item", [pair], layer=layer)
        whole = self.add("item", [pair], layer=layer)
        self.add("gather", [part, whole], [part, whole], [part, whole], layer)
        self.add("wait", [whole], [whole], layer=layer)
        if not storage_first:
            storage = self.add("empty", [])
        copy = self.add("pointwise", [storage])
        self.add("copy_out", [whole, copy], [copy], [copy], layer)
        weight = f"weight{layer}"
        self.add("set", [weight, copy], [weight, copy], [weight, copy], layer)
        return storage

    def find_waits(self):
        """Reads name the present version of a buffer; who writes in place waits for its readers."""
        maker = {b: o for o in self.operations for b in o.outputs()}
        shared = {}  # buffer -> representative of the buffers that share memory

        def root(buffer):
            while shared.get(buffer, buffer) != buffer:
                buffer = shared[buffer]
            return buffer

        for operation in self.operations:
            for alias in operation.aliases:
                shared[root(operation.own)] = root(alias)
        present, users = {}, {}

        def now(buffer):
            while buffer in present:
                buffer = present[buffer]
            return buffer

        for operation in self.operations:
            for target, version in operation.pairs:
                target = now(target)
                users.setdefault(root(target), []).append(operation)
                operation.waits.add(target)
                for reader in users[root(target)]:
                    if reader is not operation:
                        for output in reader.outputs():
                            operation.waits.add(now(output))
                            users.setdefault(root(now(output)), []).append(operation)
            for read in operation.reads:
                operation.waits.add(now(read))
                users.setdefault(root(now(read)), []).append(operation)
            for target, version in operation.pairs:
                present[now(target)] = version
                present[target] = version
        for operation in self.operations:
            operation.waits = {b for b in operation.waits if b in maker and maker[b] is not operation}
        self.operations = [o for o in self.operations if o.keep]
        self.maker = {b: o for o in self.operations for b in o.outputs()}


class Unit:
    """Operations that run one after the other with nothing between."""

    def __init__(self, operations):
        self.operations = operations
        self.collective = any(o.role in ("gather", "reduce") for o in operations)
        self.is_wait = any(o.role in ("wait", "reduce_wait") for o in operations)
        self.outputs = [b for o in operations for b in o.outputs()]
        self.waits = {b for o in operations for b in o.waits} - set(self.outputs)


def depth_first(units):
    maker = {b: u for u in units for b in u.outputs}
    order, seen = [], set()

    def visit(unit):
        if unit not in seen:
            seen.add(unit)
            for buffer in sorted(unit.waits):
                visit(maker[buffer])
            order.append(unit)

    for unit in units:
        visit(unit)
    return order


def by_priority(units, priority):
    """Of the units that may run, always the one with the least priority; ties as they stand."""
    left = {u: set(u.waits) for u in units}
    place = {u: i for i, u in enumerate(units)}
    ready = [(priority[u], place[u]) for u in units if not left[u]]
    heapq.heapify(ready)
    order, done = [], set()
    while ready:
        unit = units[heapq.heappop(ready)[1]]
        order.append(unit)
        done.update(unit.outputs)
        for other in units:
            if left[other] and left[other] & set(unit.outputs):
                left[other] -= done
                if not left[other]:
                    heapq.heappush(ready, (priority[other], place[other]))
    return order


def ancestors(unit, maker):
    found, open_ = set(), list(unit.operations)
    while open_:
        for buffer in open_.pop().waits:
            if maker[buffer] not in found:
                found.add(maker[buffer])
                open_.append(maker[buffer])
    return found


def expected_order(layers, forward=False):
    model = Model(layers, forward)
    unit_of = {}

    def group(layer, *roles):
        unit = Unit([o for o in model.operations if o.layer == layer and o.role in roles])
        unit_of.update((o, unit) for o in unit.operations)
        return unit

    first_layer_first = range(1, layers + 1)
    gathers = [(group(k, "copy_in", "item", "gather"), group(k, "wait", "copy_out", "set"))
               for k in (first_layer_first if forward else reversed(first_layer_first))]
    reductions = [] if forward else [(group(k, "chunk", "reduce"), group(k, "reduce_wait")) for k in first_layer_first]
    if forward:
        group("last", "pointwise")  # the last activation and where it is 0 are one kernel
    units = []
    for operation in model.operations:
        unit = unit_of.setdefault(operation, Unit([operation]))
        if unit not in units:
            units.append(unit)
    for pairs in (gathers, reductions):
        for (_, done), (start, _) in zip(pairs, pairs[1:]):
            start.waits.update(done.outputs)
    collectives = [u for u in units if u.collective]
    for before, after in zip(collectives, collectives[1:]):
        after.waits.update(before.outputs)
    units = depth_first(units)
    units = by_priority(units, {u: u.is_wait for u in units})
    first = {u: sys.maxsize for u in units}
    for number, unit in enumerate(u for u in units if u.collective):
        for needed in {unit} | {unit_of[o] for o in ancestors(unit, model.maker)}:
            first[needed] = min(first[needed], number)
    return [f"op{o.number}" for u in by_priority(units, first) for o in u.operations]


# What TorchInductor 2.5.1 made of the forward graph with three layers on two ranks.
FORWARD_3 = [0, 1, 2, 3, 5, 6, 17, 18, 29, 30, 4, 7, 8, 12, 13, 14, 15, 9, 10, 11, 16, 19, 20, 24, 25, 26, 27, 21, 22, 23, 28,
             31, 32, 33, 34, 36, 35]


def order_of(log):
    """Names of operations; a fused group's members one after the other."""
    return [name for header in re.findall(r"^(op\d+(?:_op\d+)*): \w*SchedulerNode\(", log, re.M)
            if "_" in header or f"] =\n{header}: " not in log for name in header.split("_")]


def dump(graph, *flags):
    command = [TSC, "dump-schedule", graph, "--no-code", "--policy=inductor-2.5", "--arch=sm_80", *flags]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    return result.stdout


class Order(unittest.TestCase):
    def test_the_seed(self):
        with open(os.path.join(ROOT, "tests", "golden", "seed_001", "schedule.txt")) as file:
            self.assertEqual(order_of(file.read()), expected_order(3))

    def test_the_model_of_the_forward_graph(self):
        self.assertEqual(expected_order(3, forward=True), [f"op{k}" for k in FORWARD_3])

    def test_generated_graphs(self):
        script = os.path.join(ROOT, "scripts", "make_fsdp_graph")
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "graph.json")
            for layers in (1, 2, 3, 4, 5, 8):
                for direction in ("backward", "forward"):
                    expected = expected_order(layers, direction == "forward")
                    for world_size, features in ((1, 4), (2, 16), (4, 7)):
                        with self.subTest(layers=layers, world_size=world_size, direction=direction):
                            subprocess.run([sys.executable, script, "--layers", str(layers), "--world-size", str(world_size),
                                            "--features", str(features), "--direction", direction, "-o", path], check=True)
                            self.assertEqual(order_of(dump(path)), expected)

    def test_blocks_before_fusion(self):
        log = dump(os.path.join(ROOT, "graphs", "seed_001.json"), "--stage=pre-fusion")
        headers = re.findall(r"^(op[\d_op]*): (\w+)", log, re.M)
        self.assertEqual([name for name, _ in headers[:9]],
                         ["op0", "op1_op2_op3_op4", "op5_op7_op8", "op6", "op9", "op10", "op11", "op12", "op13_op14_op15_op16"])
        self.assertEqual([name for name, kind in headers if kind == "GroupedSchedulerNode"][6:],
                         ["op37_op39", "op40", "op43_op45", "op46", "op49_op51", "op52"])
        self.assertIn("""
op5_op7_op8.unmet_dependencies = [StarDep(name='buf6', mode=None), StarDep(name='buf9', mode=None)]
op5_op7_op8.met_dependencies = 
    [   StarDep(name='arg3_1', mode=None),
        WeakDep(name='buf10', mutating_buf='buf13'),
        WeakDep(name='buf11', mutating_buf='buf13')]
""", log)
        # After the gather before and what follows it: buf1 to buf8, buf10 to buf14.
        awaited = re.search(r"op13_op14_op15_op16.unmet_dependencies = \n(.*?)\]\n", log, re.S).group(1)
        self.assertEqual(re.findall(r"WeakDep\(name='buf(\d+)', mutating_buf='buf19'\)", awaited),
                         sorted(map(str, [*range(1, 9), *range(10, 15)])))

    def test_the_sample_is_what_the_script_writes(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "graph.json")
            subprocess.run([sys.executable, os.path.join(ROOT, "scripts", "make_fsdp_graph"), "--layers", "3", "--world-size",
                            "2", "--name", "seed_001", "-o", path], check=True)
            with open(path) as made, open(os.path.join(ROOT, "graphs", "seed_001.json")) as kept:
                self.assertEqual(made.read(), kept.read())


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
