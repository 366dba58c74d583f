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


def products_in_pieces(ranks=2, rows=5, features=6, hidden=4):
    """Products whose rows a collective brings or takes: rows of a sequence, with views and casts between, one reader of all that was gathered."""
    g = Graph("products_in_pieces")
    x, wide = g.input([rows, features]), g.input([rows, 2, features])
    up, gate, down = g.input([features, hidden]), g.input([features, hidden], "bfloat16"), g.input([hidden, features])
    bfloat16, float32 = {"dtype": "bfloat16"}, {"dtype": "float32"}
    gathered = g.collective("all_gather_into_tensor", x, ranks, "0")
    half = g.call("prims.convert_element_type.default", g.call("aten.view.default", gathered, [-1, features]), bfloat16)
    gated = g.call("prims.convert_element_type.default", g.call("aten.mm.default", half, gate), float32)
    inner = g.call("aten.mul.Tensor", g.call("aten.mm.default", gathered, up), g.call("aten.sigmoid.default", gated))
    part = g.collective("reduce_scatter_tensor", g.call("aten.mm.default", inner, down), "sum", ranks, "0")
    results = [g.call("aten.add.Tensor", part, x), g.call("aten.sum.dim_IntList", gathered, [0])]
    # A sequence of two: only products read what is gathered.
    flat = g.call("aten.view.default", g.collective("all_gather_into_tensor", wide, ranks, "0"), [ranks * rows * 2, features])
    inner = g.call("aten.relu.default", g.call("aten.mm.default", flat, up))
    y = g.call("aten.view.default", g.call("aten.mm.default", inner, down), [ranks * rows, 2, features])
    results.append(g.collective("reduce_scatter_tensor", y, "avg", ranks, "0"))
    small = g.call("prims.convert_element_type.default", g.call("aten.mm.default", inner, down), bfloat16)
    results.append(g.collective("all_reduce", g.call("aten.view.default", small, [ranks, rows, 2, features]), "sum", "0"))
    # Columns of a product of columns: no rows that are alike.
    tall = g.collective("all_gather_into_tensor", up, ranks, "0")
    results.append(g.call("aten.mm.default", g.call("aten.mm.default", x, up), g.call("aten.permute.default", tall, [1, 0])))
    return g.finish(results)


def sharded_layer(rows, features, hidden, ranks=2):
    """The gated perceptron of a Llama between shards of a sequence, in bfloat16: a gather, two products, another one, a reduce-scatter."""
    g = Graph("sharded_layer")
    x, scale = g.input([rows // ranks, features], "bfloat16"), g.input([features], "bfloat16")
    up, gate, down = (g.input(sizes, "bfloat16") for sizes in ([features, hidden // ranks], [features, hidden // ranks], [hidden // ranks, features]))
    gathered = g.collective("all_gather_into_tensor", g.call("aten.mul.Tensor", x, scale), ranks, "0")
    inner = g.call("aten.mul.Tensor", g.call("aten.silu.default", g.call("aten.mm.default", gathered, gate)), g.call("aten.mm.default", gathered, up))
    part = g.collective("reduce_scatter_tensor", g.call("aten.mm.default", inner, down), "sum", ranks, "0")
    return g.finish([g.call("aten.add.Tensor", part, x)])


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
