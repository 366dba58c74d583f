"""Records flex_attention and its backward pass from PyTorch for tests/cases/flex_attention.

    python3 scripts/record/flex_cases.py

Such graphs cannot be exported to a file: make_fx traces them, and they are written as tsc's graph JSON, with their
subgraphs. Scores, masks and block masks are those of PyTorch's documentation.
"""
import torch
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn.attention.flex_attention import create_block_mask

import recorder
from recorder import FLOATS, Family, inconsistency

flex = torch.ops.higher_order.flex_attention


def value_of(value):
    if isinstance(value, torch.Tensor):
        return {"dtype": str(value.dtype)[6:], "size": list(value.shape), "stride": list(value.stride()), "device": "cpu"}
    if isinstance(value, (list, tuple)):
        return [value_of(v) for v in value]
    return None


def argument_of(value, modules):
    if isinstance(value, torch.fx.Node):
        return {"graph": value.target} if value.op == "get_attr" and value.target in modules else {"node": value.name}
    if isinstance(value, (list, tuple)):
        return [argument_of(v, modules) for v in value]
    if isinstance(value, dict):
        return {"dict": {k: argument_of(v, modules) for k, v in value.items()}}
    if isinstance(value, torch.dtype):
        return {"dtype": str(value)[6:]}
    if isinstance(value, torch.device):
        return {"device": "cpu"}
    if isinstance(value, torch.layout):
        return {"layout": str(value)[6:]}
    if isinstance(value, torch.memory_format):
        return {"memory_format": str(value)[6:]}
    return value


def graph_of(module, constants, inputs=None):
    """`constants` gathers tensors that the graph holds: inputs behind those of the program."""
    modules = {name for name, _ in module.named_children()}
    nodes, held = [], []
    placeholders = [n for n in module.graph.nodes if n.op == "placeholder"]
    for k, node in enumerate(placeholders):
        default = torch.empty((), dtype=torch.float32 if k == 0 and len(placeholders) > 4 else torch.int32)
        value = node.meta.get("val", default) if inputs is None else inputs[k]
        nodes.append({"name": node.name, "op": "placeholder", "val": value_of(value)})
    for node in module.graph.nodes:
        if node.op == "get_attr" and node.target not in modules:
            tensor = getattr(module, node.target)
            held.append({"name": node.name, "op": "placeholder", "val": value_of(tensor)})
            constants.append(tensor)
        elif node.op == "call_function":
            target = str(node.target) if isinstance(node.target, torch._ops.OpOverload) else (
                "operator.getitem" if node.target.__name__ == "getitem" else f"higher_order.{node.target.__name__}")
            entry = {"name": node.name, "op": "call_function", "target": target, "args": argument_of(node.args, modules)}
            if node.kwargs:
                entry["kwargs"] = {k: argument_of(v, modules) for k, v in node.kwargs.items()}
            nodes.append(entry)
        elif node.op == "output":
            nodes.append({"name": node.name, "op": "output", "args": [argument_of(node.args[0], modules)]})
    nodes[len(placeholders):len(placeholders)] = held
    return {"nodes": nodes}, {name: graph_of(child, constants)[0] for name, child in module.named_children()}


def case(family, name, f, *inputs):
    """`f` is traced, run, and run in float64."""
    module = make_fx(f)(*inputs)
    module.graph.eliminate_dead_code()
    constants = []
    graph, subgraphs = graph_of(module, constants, inputs)
    outputs = f(*inputs)
    wide = f(*[x.detach().double().requires_grad_(x.requires_grad) if x.is_floating_point() else x for x in inputs])
    family.graphs.append({"name": name, "model": {"format": "tsc-graph", "version": 1, "subgraphs": subgraphs, **graph}})
    for i, x in enumerate([*inputs, *constants]):
        family.tensors[f"{name}/input_{i}"] = x.detach().contiguous().clone()
    for i, (x, y) in enumerate(zip(outputs, wide)):
        family.tensors[f"{name}/output_{i}"] = x.detach().contiguous().clone()
        reason = inconsistency(x.detach(), y.detach())
        if reason:
            recorder.BAD.append(f"{name} output {i}: {reason}")
        narrow = x.dtype in (torch.float16, torch.bfloat16)
        family.tensors[f"{name}/reference_{i}"] = y.detach().to(torch.float32 if narrow else torch.float64).contiguous()


def record(family, name, score, mask, sizes, captured=(), dtype=torch.float32, backward=False, of_mask=()):
    batch, heads, key_heads, rows, columns = sizes
    block = create_block_mask(lambda b, h, i, j: mask(b, h, i, j, *of_mask), None, None, rows, columns, device="cpu").as_tuple()
    # Projections give [batch, rows, heads, depth], seen the other way round.
    q = family.randn(batch, rows, heads, 8, dtype=dtype).transpose(1, 2).requires_grad_(backward)
    k, v = (family.randn(batch, columns, key_heads, 8, dtype=dtype).transpose(1, 2).requires_grad_(backward) for _ in range(2))
    captured = [t.requires_grad_(backward and t.is_floating_point()) for t in captured]

    def forward(q, k, v, *others):
        own, of_mask = others[:len(captured)], others[len(captured):]
        return flex(q, k, v, score, (*block[:-1], mask), 0.35, {}, own, of_mask)[:2]

    def both(q, k, v, above, *others):
        out = forward(q, k, v, *others)[0]
        wanted = [q, k, v, *[t for t in others if t.requires_grad]]
        return (out, *torch.autograd.grad(out, wanted, above))

    # Strides of the inputs are the graph's; what is kept is contiguous, so that a copy goes in.
    inputs = (q, k, v, family.randn(batch, heads, rows, 8, dtype=dtype), *captured) if backward else (q, k, v, *captured, *of_mask)
    case(family, name, both if backward else forward, *inputs)


def cases(c):
    def capped(s, b, h, i, j):
        return 2 * torch.tanh(s / 2)

    def causal(b, h, i, j):
        return i >= j

    def near(b, h, i, j):
        return (i - j).abs() < 4

    ids = torch.tensor([0] * 5 + [1] * 7 + [2] * 5)
    record(c, "causal_capped_f32", capped, causal, (1, 2, 1, 7, 7))
    record(c, "causal_capped_bf16", capped, causal, (1, 2, 1, 17, 17), dtype=FLOATS["bf16"])
    record(c, "slopes_window_f16", lambda s, b, h, i, j, t: s + t[h] * (j - i), lambda b, h, i, j: (i - j).abs() < 9, (1, 2, 2, 17, 11), [c.randn(2)], dtype=FLOATS["f16"])
    record(c, "documents_bf16", lambda s, b, h, i, j: s, lambda b, h, i, j, t: (t[i] == t[j]) & (i >= j), (1, 2, 1, 17, 17), dtype=FLOATS["bf16"], of_mask=(ids,))
    record(c, "prefix_table", lambda s, b, h, i, j, t: torch.where(j < 4, s, s * t[b, h] + 1), lambda b, h, i, j: (i >= j) | (j < 4), (2, 2, 1, 5, 6), [c.randn(2, 2)])
    for short in ("f32", "bf16"):
        record(c, f"backward_capped_{short}", capped, near, (1, 2, 1, 7, 7), dtype=FLOATS[short], backward=True)
    record(c, "backward_table", lambda s, b, h, i, j, t: s + t[h, i - j + 4], near, (1, 2, 2, 5, 5), [c.randn(2, 9)], backward=True)
    record(c, "backward_slopes", lambda s, b, h, i, j, t: s + t[h] * (j - i) * 0.1, near, (2, 2, 1, 5, 5), [c.randn(2)], backward=True)


if __name__ == "__main__":
    family = Family("flex_attention")
    cases(family)
    family.write()
    for line in recorder.BAD:
        print("BAD", line)
