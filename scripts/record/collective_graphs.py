"""Graphs with collectives, as tsc reads them."""

C10D = "_c10d_functional."


class Graph:
    """Nodes as tsc reads them."""

    def __init__(self, name):
        self.name, self.nodes, self.inputs = name, [], []

    def input(self, size, dtype="float32"):
        name = f"x{len(self.inputs)}"
        self.nodes.append({"name": name, "op": "placeholder", "val": {"dtype": dtype, "size": size, "device": "cpu"}})
        self.inputs.append({"node": name, "kind": "user"})
        return {"node": name}

    def call(self, target, *args):
        name = f"n{len(self.nodes)}"
        self.nodes.append({"name": name, "op": "call_function", "target": target, "args": list(args)})
        return {"node": name}

    def item(self, value, index):
        return self.call("operator.getitem", value, index)

    def wait(self, value):
        return self.call(C10D + "wait_tensor.default", value)

    def collective(self, target, *args):
        return self.wait(self.call(C10D + target + ".default", *args))

    def finish(self, results):
        self.nodes.append({"name": "output", "op": "output", "args": [results]})
        return {"format": "tsc-graph", "version": 1, "name": self.name, "stage": "post_grad", "nodes": self.nodes,
                "signature": {"inputs": self.inputs, "outputs": [{"kind": "user", "value": r} for r in results]}}


def reductions(ranks=3, of_nccl=False):
    """Every reduction of every dtype; `of_nccl`: those that NCCL has."""
    g, results = Graph("reductions"), []
    kinds = (("float32", ("sum", "avg", "max", "min", "product")), ("bfloat16", ("sum", "avg", "max")), ("float16", ("sum", "min", "product")),
             ("float64", ("avg", "product")), ("int64", ("sum", "max", "product", "band", "bor", "bxor")), ("int32", ("min", "bxor")),
             ("uint8", ("sum", "max", "band")), ("int8", ("sum", "min")), ("bool", ("sum", "product")))
    inputs = [g.input([2 * ranks, 2], dtype) for dtype, _ in kinds]
    for x, (_, operations) in zip(inputs, kinds):
        for operation in operations:
            if of_nccl and operation[0] == "b":
                continue
            results.append(g.collective("all_reduce", x, operation, "0"))
            if operation in ("sum", "max"):
                results.append(g.collective("reduce_scatter_tensor", x, operation, ranks, "0"))
    return g.finish(results)


def forms(ranks=3):
    """Every form of every collective."""
    g = Graph("forms")
    a, b, c, d = g.input([ranks, 4]), g.input([2 * ranks], "int64"), g.input([3, 2], "bool"), g.input([2 * ranks])
    results = [g.collective("broadcast", a, ranks - 1, "0"), g.collective("broadcast", c, 0, "0"),
               g.collective("all_gather_into_tensor", a, ranks, "0"), g.collective("all_gather_into_tensor", b, ranks, "0"),
               g.collective("all_to_all_single", b, [2] * ranks, [2] * ranks, "0"),
               g.collective("all_to_all_single", a, [1] * ranks, [1] * ranks, "0")]
    results.append(g.wait(g.call("_c10d_functional_autograd.all_gather_into_tensor.default", c, ranks, "0")))
    doubled = g.call("aten.add.Tensor", a, a)
    results.append(g.collective("all_reduce_", doubled, "sum", "0"))
    tripled = g.call("aten.mul.Tensor", a, 3)
    results.append(g.collective("broadcast_", tripled, 1, "0"))
    for target, args in (("all_reduce_coalesced", ("sum", "0")), ("all_gather_into_tensor_coalesced", (ranks, "0")),
                         ("reduce_scatter_tensor_coalesced", ("max", ranks, "0"))):
        both = g.call(C10D + target + ".default", [a, d], *args)
        results += [g.wait(g.item(both, i)) for i in range(2)]
    gathered = g.call("aten.empty.memory_format", [ranks * ranks, 4])
    g.nodes[-1]["kwargs"] = {"dtype": {"dtype": "float32"}, "device": {"device": "cpu"}, "pin_memory": False}
    whole = g.call(C10D + "all_gather_into_tensor_out.default", a, ranks, "0")
    g.nodes[-1]["kwargs"] = {"out": gathered}
    results.append(g.wait(whole))
    return g.finish(results)


def tensor_parallel(ranks=2, rows=4, features=6, hidden=5, scale_weights=None):
    """Two layers of a perceptron, the first cut by columns, the second by rows; then rows of the sequence."""
    g = Graph("tensor_parallel")
    x, first, second, scale = g.input([rows, features]), g.input([features, hidden]), g.input([hidden, features]), g.input([features])
    if scale_weights:
        first, second = (g.call("aten.mul.Tensor", weight, scale_weights) for weight in (first, second))
    inner = g.call("aten.relu.default", g.call("aten.mm.default", x, first))
    y = g.collective("all_reduce", g.call("aten.mm.default", inner, second), "sum", "0")
    y = g.call("aten.add.Tensor", g.call("aten.mul.Tensor", y, scale), x)
    inner = g.call("aten.tanh.default", g.call("aten.mm.default", y, first))
    part = g.collective("reduce_scatter_tensor", g.call("aten.mm.default", inner, second), "sum", ranks, "0")
    part = g.call("aten.mul.Tensor", part, scale)
    return g.finish([y, part, g.collective("all_gather_into_tensor", part, ranks, "0")])


def mesh(parallel=2):
    """A step of a mesh: parallel weights in one dimension, averaged gradients in the other."""
    g = Graph("mesh")
    x, weight, tangent = g.input([3, 4]), g.input([4, 5]), g.input([3, 5])
    y = g.collective("all_reduce", g.call("aten.mm.default", x, weight), "sum", "tp")
    gradient = g.call("aten.mm.default", g.call("aten.permute.default", x, [1, 0]), g.call("aten.mul.Tensor", tangent, y))
    averaged = g.collective("all_reduce", gradient, "avg", "dp")
    parts = g.collective("all_gather_into_tensor", averaged, parallel, "tp")
    return g.finish([y, averaged, parts, g.collective("all_reduce", x, "max", "0")])


def experts(ranks=4, rows=2, features=4):
    """A mixture of experts: rows go to the rank of their expert and come back."""
    g = Graph("experts")
    x, gate, weight = g.input([rows * ranks, features]), g.input([rows * ranks, 1]), g.input([features, features])
    sent = g.collective("all_to_all_single", x, [rows] * ranks, [rows] * ranks, "0")
    done = g.call("aten.relu.default", g.call("aten.mm.default", sent, weight))
    back = g.collective("all_to_all_single", done, [rows] * ranks, [rows] * ranks, "0")
    return g.finish([g.call("aten.add.Tensor", x, g.call("aten.mul.Tensor", back, gate)), sent])
