"""Any operator of the table, called by its schema: what no other rule produces."""
import os
import re

import torch

import values
from builder import NotHere, has_own_elements
from rules import rule

TABLE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "docs", "operators.md")
# Random numbers, memory without values, metadata; what only other rules can call right; what crashes PyTorch if called wrong.
LEFT_OUT = re.compile(r"^(rand|empty|new_empty|normal|bernoulli|uniform|exponential|multinomial|alpha_dropout|feature_|native_dropout|rrelu|dropout"
                      r"|_local_scalar|item|sym_|_assert|lstm|gru|rnn|ctc_loss|_embedding_bag|embedding_bag|embedding_renorm|_scaled_dot_product_(flash|efficient|cudnn|fused)"
                      r"|nonzero|argwhere|masked_select|unique|_unique|as_strided|resize|set_|lift|cpu|requires_grad|put_|_unsafe_index|embedding_dense|col2im"
                      r"|to$|_to_copy|copy$|_foreach_copy$|native_batch_norm|bincount|max_unpool|nll_loss|_native_batch_norm_legit|_batch_norm|grid_sampler|pin_memory|detach_|_int_mm|_fused_rms|unsafe_|_reshape_alias)")
POSITIVE = {"bins", "num_classes", "groups", "num_groups", "chunks", "sections", "upscale_factor", "downscale_factor", "repeats", "steps"}


def load():
    with open(TABLE) as file:
        names = re.findall(r"^\| `aten\.([^`.]+\.[^`]+)`", file.read(), re.M)
    found = []
    for name in names:
        base, overload = name.split(".")
        try:
            operator = getattr(getattr(torch.ops.aten, base), overload)
        except AttributeError:
            continue
        if not LEFT_OUT.match(base) and not base.endswith("_backward"):
            found.append((name, operator._schema))
    return found


OPERATORS = load()

WEIGHTS = [0.3 if name.startswith("_foreach") else 1.0 for name, _ in OPERATORS]


def number(g, name, like):
    if name in POSITIVE:
        return str(g.integer(1, 3))
    if name in ("dim", "axis", "dim0", "dim1", "dim2", "axis0", "axis1", "start_dim", "end_dim"):
        return str(g.dim(like)) if like else "0"
    if name in ("k", "index", "start", "n", "offset", "diagonal"):
        return str(g.integer(0, 2))
    return str(g.integer(0, 3))


def argument(g, a, like):
    """The text of an argument, or None to leave it out."""
    kind = str(a.type)
    optional = kind.startswith("Optional")
    if a.has_default_value() and g.chance(0.6):
        return None
    if optional:
        if g.chance(0.4):
            return "None"
        kind = kind[len("Optional["):-1]
    name = a.name
    if name in ("layout", "device", "memory_format", "pin_memory", "generator"):
        return None
    if name.startswith("scales"):  # that contradict the sizes, PyTorch's kernels take or not
        return "None" if optional else None
    if name == "dtype":  # the schema calls it an int
        return f"dtype=torch.{g.choice(values.DTYPES)}" if g.chance(0.4) or not optional else None
    if kind == "Tensor":
        if "ind" in name and name != "indexing" or name in ("target",):
            bound = max(g.tensor(like).shape[0], 1) if like and g.tensor(like).dim() else 1
            return g.index(g.shape(0, 2), min(bound, 2))
        if name in ("mask", "condition"):
            return g.like(like, torch.bool) if like else g.same_shape((3,), torch.bool)
        if like is None:
            return g.any()
        return g.like(like, g.tensor(like).dtype if g.chance(0.8) else None)
    if kind == "List[Tensor]" or kind == "List[Optional[Tensor]]":
        first = like or g.any()
        if "ind" in name:
            return f"[{g.index((2,), 1)}]"
        return "[" + ", ".join(g.same_shape(g.tensor(first).shape, g.tensor(first).dtype) for _ in range(g.integer(1, 3))) + "]"
    if kind in ("int", "SymInt"):
        return number(g, name, like)
    if kind in ("List[int]", "List[SymInt]"):
        if name in ("dim", "dims"):
            return str(g.dims(like)) if like and g.tensor(like).dim() else "[]"
        if name in ("size", "shape") and like and g.chance(0.6):
            return str(list(g.tensor(like).shape))
        return str([g.integer(1, 3) for _ in range(g.integer(1, 3))])
    if kind in ("number", "Scalar"):
        return g.scalar(like)
    if kind == "float":
        return g.choice(("0.5", "1.0", "2.0", "0.1"))
    if kind in ("List[float]", "List[number]"):
        return str([g.choice((0.5, 2.0, 1.5)) for _ in range(g.integer(1, 3))])
    if kind == "bool":
        return str(g.chance(0.5))
    if kind == "str":
        options = {"rounding_mode": ("floor", "trunc"), "reduce": ("sum", "prod", "mean", "amax", "amin"), "mode": ("constant", "reflect", "replicate"), "approximate": ("none", "tanh"),
                   "indexing": ("ij", "xy"), "padding": ("same", "valid"), "ord": ("fro",)}
        return repr(g.choice(options.get(name, ("none",))))
    raise NotHere(kind)


def call(g, name, schema):
    texts, like, skipped = [], None, False
    for a in schema.arguments:
        text = argument(g, a, like)
        if text is None:
            if not a.has_default_value() and not str(a.type).startswith("Optional"):
                raise NotHere
            skipped = True
            continue
        if like is None and text in g.space:
            like = text
            if a.alias_info is not None and a.alias_info.is_write and (not g.writable(text) or not has_own_elements(g.tensor(text))):
                raise NotHere
        elif like and text in g.space and any(x.alias_info is not None and x.alias_info.is_write for x in schema.arguments) and g.shares(text, like):
            text = f"{text}.clone()"
        named = (skipped or a.kwarg_only) and not text.startswith("dtype=")
        texts.append(f"{a.name}={text}" if named else text)
    return f"torch.ops.aten.{name}({', '.join(texts)})", like


@rule("schema", 6)
def by_schema(g):
    name, schema = g.random.choices(OPERATORS, WEIGHTS)[0]
    for _ in range(4):
        text, like = call(g, name, schema)
        writes = any(a.alias_info is not None and a.alias_info.is_write for a in schema.arguments)
        returns = schema.returns
        before = g.tensor(like).clone() if writes and like else None
        try:
            if writes:
                g.emit(text, "schema", 0)
                if like and g.tensor(like).shape == before.shape and not g.is_of_use(g.tensor(like)):
                    g.program.statements.pop()
                    raise NotHere
                return
            results = len(returns)
            if results == 1 and str(returns[0].type).startswith("List"):
                text += "[0]"
            if results >= 1:
                g.emit(text, "schema", results)
            return
        except NotHere:
            if before is not None and g.tensor(like).shape == before.shape:
                g.tensor(like).copy_(before)
    raise NotHere

