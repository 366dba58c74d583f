"""FX graphs of aten operators -> tsc's graph JSON (docs/graph-format.md)."""
import json
import math

import sympy
import torch
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols
from torch.utils._sympy.functions import (CeilDiv, CeilToInt, CleanDiv, FloatTrueDiv, FloorDiv, FloorToInt, IntTrueDiv,
                                          Max, Min, Mod, ModularIndexing, PythonMod, ToFloat, TruncToInt)
from torch.utils._sympy.symbol import SymT, symbol_is_type

from ._library import ALIGNMENT, DTYPES

_DTYPES = {str(getattr(torch, name)) for name in DTYPES if hasattr(torch, name)} | {"torch.complex64",
                                                                                     "torch.complex128"}
# Operators that take functions as subgraphs, and that the library has.
_OF_FUNCTIONS = {"flex_attention", "flex_attention_backward", "cond", "while_loop", "scan", "associative_scan", "map_impl"}
_UNBOUND = 2**62  # an upper end from which on PyTorch means none
_LEAST = -2**63  # a lower end that is none


class CannotConvert(Exception):
    """A node that graph JSON does not hold: PyTorch runs it."""

    def __init__(self, node, message):
        super().__init__(message)
        self.node = node


def _own_name(symbol):
    return symbol.name


def expression_of(value, name_of=_own_name, fixed=None):
    """Text over symbols of a SymInt, or the int that it is where symbols are the numbers that `fixed` has for their names."""
    if isinstance(value, int):
        return int(value)
    expr = value.node.expr
    if fixed:
        expr = expr.subs({symbol: fixed[symbol.name] for symbol in expr.free_symbols if symbol.name in fixed})
    return int(expr) if expr.is_number else _text(expr, name_of)


def _text(expr, name_of=_own_name):
    """The library's own spelling: every division is a function."""
    if expr.is_Symbol and expr.is_integer:
        return name_of(expr)
    if expr.is_Integer:
        return str(int(expr))
    if isinstance(expr, TruncToInt) and _is_nonnegative(expr.args[0]):
        return _rounded(expr.args[0], "FloorDiv", name_of)
    if isinstance(expr, (CeilToInt, FloorToInt)):
        return _rounded(expr.args[0], "CeilDiv" if isinstance(expr, CeilToInt) else "FloorDiv", name_of)
    args = [_text(a, name_of) for a in expr.args]
    if expr.is_Add:
        return "(" + " + ".join(args) + ")"
    if expr.is_Mul:
        return "(" + "*".join(args) + ")"
    if expr.is_Pow and expr.args[1].is_Integer and expr.args[1] > 0:
        return f"({args[0]})**{int(expr.args[1])}"
    if isinstance(expr, sympy.Abs):
        return f"Max({args[0]}, -1*{args[0]})"
    names = {FloorDiv: "FloorDiv", CleanDiv: "FloorDiv", ModularIndexing: "ModularIndexing", Mod: "Mod",
             PythonMod: "Mod", CeilDiv: "CeilDiv"}
    for kind, name in names.items():
        if isinstance(expr, kind):
            return f"{name}({', '.join(args)})"
    for kind, name in ((Max, "Max"), (Min, "Min")):
        if isinstance(expr, kind):
            text = args[0]
            for other in args[1:]:
                text = f"{name}({text}, {other})"
            return text
    raise ValueError(f"{expr} is no expression of tsc's graphs")


def _is_nonnegative(expr):
    parts = expr.args if expr.is_Mul else (expr,)
    return all((part.args[0] if isinstance(part, ToFloat) else part).is_nonnegative for part in parts)


def _rounded(expr, division, name_of):
    """Text of a real that was rounded: how many elements a range of reals has, whose bounds and step are whole, or a size times a
    factor of few bits, as in 1.5 * size, which float64 holds exactly."""
    if expr.is_Mul and len(numbers := [a for a in expr.args if a.is_Float]) == 1:
        top, bottom = float(numbers[0]).as_integer_ratio()
        if 1 < bottom <= 2**20 and abs(top) <= 2**20:
            text = _whole(sympy.Mul(*(a for a in expr.args if not a.is_Float)), name_of)
            return f"{division}(({text}*{top}), {bottom})"
    divided, by = expr.args if isinstance(expr, (FloatTrueDiv, IntTrueDiv)) else (expr, None)
    text = _whole(divided, name_of)
    divisor = 1 if by is None else int(_whole(by, name_of))  # a ValueError if it is no number
    if divisor < 0:
        text, divisor = f"(-1*{text})", -divisor
    if divisor == 0:
        raise ValueError(f"{expr} is no expression of tsc's graphs")
    return text if divisor == 1 else f"{division}({text}, {divisor})"


def _whole(expr, name_of):
    """Text of a real that is computed of whole numbers alone."""
    if isinstance(expr, ToFloat) or expr.is_integer:
        return _text(expr.args[0] if isinstance(expr, ToFloat) else expr, name_of)
    if expr.is_Float and abs(expr) <= 2**53 and float(expr) == int(expr):
        return str(int(expr))
    if expr.is_Add or expr.is_Mul:
        return "(" + (" + " if expr.is_Add else "*").join(_whole(a, name_of) for a in expr.args) + ")"
    raise ValueError(f"{expr} is no expression of tsc's graphs")


def symbols_of(value):
    return set() if isinstance(value, int) else set(value.node.expr.free_symbols)


def tensors_in(value):
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for one in value:
            yield from tensors_in(one)


def data_symbols_in(value):
    """Names of symbols in the sizes of tensors, or in a number, that some run's data decided."""
    several = [value] if isinstance(value, torch.SymInt) else \
        [t for t in tensors_in(value) if t.layout == torch.strided]
    return {symbol.name for one in several for symbol in free_unbacked_symbols(one)}


def why_no_value(value):
    """Why graphs of tsc hold no such value; None if they do."""
    for tensor in tensors_in(value):
        if tensor.layout != torch.strided or tensor.is_quantized:
            return f"a tensor of layout {tensor.layout}"
        if str(tensor.dtype) not in _DTYPES:
            return f"a tensor of {tensor.dtype}"
    return None


def why_no_input(value):
    """The same of what a graph is given."""
    if isinstance(value, (torch.SymFloat, torch.SymBool)):
        return "a symbolic number that is no integer"
    return why_no_value(value)


def _python_name(target):
    """Of a function on numbers: operator.ge, torch.sym_float, math.floor; None if it is no such function."""
    module, name = getattr(target, "__module__", None), getattr(target, "__name__", None)
    known = {"_operator": "operator", "operator": "operator", "torch": "torch", "math": "math"}
    return f"{known[module]}.{name}" if module in known and name else None


def _is_number(value):
    """Of Python's, known or not."""
    return isinstance(value, (int, float, torch.SymInt, torch.SymFloat, torch.SymBool))


def _reads_number(node):
    """A call that reads a number of the data."""
    return node.target in (torch.ops.aten.item.default, torch.ops.aten._local_scalar_dense.default)


def _unbacked(expressions):
    return {s for e in expressions for s in e.free_symbols if symbol_is_type(s, SymT.UNBACKED_INT)}


def _is_replaced(values):
    """Whether a check has made a number of the data another: the check itself would be of one number twice. (Where a
    symbol is only called otherwise, their number stays.)"""
    nodes = [v.node for v in values if isinstance(v, torch.SymInt)]
    return len(_unbacked(n._expr for n in nodes)) > len(_unbacked(n.expr for n in nodes))


def _reads_known(node):
    """A call that reads a number that another call gives, too."""
    value = node.meta.get("val")
    if not _reads_number(node) or not isinstance(value, torch.SymInt):
        return False
    same = (n for n in node.graph.nodes if _reads_number(n) and isinstance(n.meta.get("val"), torch.SymInt)
            and n.meta["val"].node.expr == value.node.expr)
    return _is_replaced([value]) or next(same) is not node


def _checks(node):
    """A call whose condition has to be looked at in each run."""
    return isinstance(node.meta.get("val"), (bool, torch.SymBool)) or node.target == torch.ops.aten._assert_scalar.default


def _is_of_replaced(node):
    return _is_replaced([n.meta.get("val") for n in node.all_input_nodes]) or \
        any(n.op == "call_function" and _checks(n) and _is_of_replaced(n) for n in node.all_input_nodes)


def why_eager(node, random):
    """Why PyTorch has to run a call that tsc's operator table is not even asked about; None if nothing is known."""
    value = node.meta.get("val")
    is_of_functions = isinstance(node.target, torch._ops.HigherOrderOperator)
    if is_of_functions and node.target.name() not in _OF_FUNCTIONS:
        return "a higher-order operator"
    why = why_no_value(value)
    for given in node.all_input_nodes:
        why = why or (why_no_input if given.op == "placeholder" else why_no_value)(given.meta.get("val"))
    if why:
        return why
    if _reads_known(node) or _checks(node) and _is_of_replaced(node):
        return "a number of the data that is known to be another"
    if is_of_functions:
        return None
    if not isinstance(node.target, torch._ops.OpOverload):
        is_getitem = getattr(node.target, "__name__", "") == "getitem"
        return None if is_getitem or (_is_number(value) and _python_name(node.target)) else "no operator of PyTorch's"
    if random == "eager" and torch.Tag.nondeterministic_seeded in node.target.tags:
        return "config.random is 'eager'"
    if node.target._schema.is_mutable and not is_write_back(node):
        return "an operator that works in place"
    if not node.target._schema.returns and node.target.namespace not in ("aten", "prims"):
        return "an operator that is there for its effect"  # the library would find nothing that needs it
    return None


def is_write_back(node):
    """The copy of a value into an input, which AOTAutograd puts behind everything else: what an input is when the graph has run.
    As a result it is that input."""
    if not isinstance(node, torch.fx.Node) or node.op != "call_function" or node.target != torch.ops.aten.copy_.default:
        return False
    if any(user.op != "output" for user in node.users):
        return False
    written, value = node.args[:2]
    if not isinstance(value, torch.fx.Node) or written.op != "placeholder" or written is value:
        return False
    forms = [(n.meta["val"].dtype, n.meta["val"].device, n.meta["val"].shape) if isinstance(n.meta.get("val"), torch.Tensor) else None
             for n in (written, value)]
    if None in forms or forms[0] != forms[1] or written.meta["val"].is_complex():
        return False
    order = {n: i for i, n in enumerate(node.graph.nodes)}
    return all(order[user] <= order[node] or user.op == "output" for user in written.users)


def drops_weights(node):
    """A form of attention with dropout, forward or backward: the mask is a function of the random state that the forward
    form saves, PyTorch's of PyTorch's and tsc's of tsc's."""
    if node.op != "call_function" or not isinstance(node.target, torch._ops.OpOverload):
        return False
    schema = node.target._schema
    if not schema.name.startswith("aten::_scaled_dot_product_") or schema.name.endswith("_math"):
        return False
    names = [a.name for a in schema.arguments]
    position = names.index("dropout_p") if "dropout_p" in names else len(node.args)
    rate = node.args[position] if position < len(node.args) else node.kwargs.get("dropout_p", 0)
    return rate != 0


def _is_view(node):
    """A call that gives its first argument's memory, seen otherwise."""
    if node.op != "call_function" or not node.args or not isinstance(node.args[0], torch.fx.Node):
        return False
    if getattr(node.target, "__name__", "") == "getitem":
        return True  # of a list of views, or the chain ends at what made the list
    if not isinstance(node.target, torch._ops.OpOverload) or node.target._schema.is_mutable:
        return False
    return any(r.alias_info is not None for r in node.target._schema.returns)


def views_of_results(results):
    """{result: (root, views)}: results that are views of an input, or of memory that another result shows too. They
    have to share it, as eager mode's do; so PyTorch makes them of the root, which costs no copy."""
    chains = {}
    for result in results:
        if not isinstance(result, torch.fx.Node) or not isinstance(result.meta.get("val"), torch.Tensor):
            continue
        node, chain = result, []
        while _is_view(node):
            chain.append(node)
            node = node.args[0]
        while chain and not isinstance(node.meta.get("val"), torch.Tensor):
            node = chain.pop()  # a list that no view made
        chains[result] = node, chain[::-1]
    count = {}
    for root, _ in chains.values():
        count[root] = count.get(root, 0) + 1
    return {result: (root, chain) for result, (root, chain) in chains.items()
            if chain and (root.op != "call_function" or count[root] > 1)}


class Converter:
    """One module, whose submodules are functions that operators take. `inputs` are the placeholders, or tensors of the module itself, that the program
    takes, in order; `outputs` its nodes that the program gives; `writes` are (input, value) that it leaves in its inputs. `fixed`: numbers that stand for symbols, by their names."""

    def __init__(self, module, prefix="", fixed=None):
        self.module, self.prefix, self.fixed = module, prefix, fixed or {}
        self.symbols = {}
        self.inputs, self.nodes, self.devices = [], [], set()
        self.outputs = []
        self.writes = []
        self.constants = {}
        self.views = {}  # results that are made of an input or output
        self.subgraphs = {}
        self.functions = {}  # nodes that are a subgraph: its name
        # Symbols of data that inputs tell: sizes as any, here.
        self.given = set().union(*(data_symbols_in(n.meta.get("val")) for n in module.graph.nodes if n.op == "placeholder"))
        # What the program gives behind its outputs: names of symbols, then nodes that are real numbers or conditions.
        self.numbers, self.reals = [], []

    def convert(self):
        seen = set()
        for node in self.module.graph.nodes:
            if node.op == "placeholder":
                self._input(node, node.meta.get("val"))
            elif node.op == "get_attr":
                self._attribute(node)
            elif is_write_back(node):
                self.writes.append(node.args[:2])
            elif node.op == "call_function":
                self._call(node)
            elif node.op == "output":
                self.views = views_of_results(self._results(node))
                for result in self._results(node):
                    if result in self.views:
                        result = self.views[result][0]
                    computed = isinstance(result, torch.fx.Node) and result.op == "call_function" and not is_write_back(result)
                    if not computed or result in seen:
                        continue
                    seen.add(result)
                    if isinstance(result.meta.get("val"), torch.Tensor):
                        self.outputs.append(result)
                    elif isinstance(result.meta.get("val"), (torch.SymFloat, torch.SymBool)):
                        self.reals.append(result)
            else:
                raise CannotConvert(node, f"a node of kind {node.op}")
        placeholders = [n for n in self.nodes if n["op"] == "placeholder"]
        others = [n for n in self.nodes if n["op"] != "placeholder"]
        self.numbers = self._numbers_of(self._results(next(n for n in self.module.graph.nodes if n.op == "output")))
        results = [{"node": n.name} for n in self.outputs] + [{"expr": name} for name in self.numbers] + [{"node": n.name} for n in self.reals]
        left = [{"node": value.name} for _, value in self.writes]
        output = {"name": "output", "op": "output", "args": [results + left]}
        if any(n["name"] == "output" for n in self.nodes):
            output["name"] = "tsc_output"
        graph = {"format": "tsc-graph", "version": 1, "symbols": self.symbols,
                 "nodes": placeholders + others + [output]}
        if self.writes:
            graph["signature"] = {
                "inputs": [{"node": n["name"], "kind": "user"} for n in placeholders],
                "outputs": [{"kind": "user", "value": value} for value in results] +
                           [{"kind": "input_mutation", "value": value, "target": written.name} for (written, _), value in zip(self.writes, left)]}
        if self.subgraphs:
            graph["subgraphs"] = self.subgraphs
        return json.dumps(graph).encode()

    def _numbers_of(self, results):
        """Symbols that this graph's data decides, that its results are over, and that no size of an output is by itself."""
        needed, told = set(), set()
        for result in results:
            chain = self.views[result][1] if result in self.views else []
            arguments = [a for view in chain for a in view.all_input_nodes]
            values = [r.meta.get("val") for r in [result, *chain, *arguments] if isinstance(r, torch.fx.Node)]
            needed.update(*map(data_symbols_in, values))
        for output in self.outputs:
            value = output.meta["val"]
            needed |= {s.name for s in free_unbacked_symbols([n for n in value.stride() if isinstance(n, torch.SymInt)])}
            told |= {n.node.expr.name for n in value.shape if isinstance(n, torch.SymInt) and n.node.expr.is_Symbol}
        return sorted(needed - told - self.given)

    def _name_of(self, symbol):
        """In the library u0 is what its own graph decides."""
        return f"size_{symbol.name}" if symbol.name in self.given else symbol.name

    def _subgraph(self, node, module):
        """A function that an operator takes: a graph of its inputs alone, whose nodes are named after it."""
        inner = Converter(module, self.prefix + node.name + "__", self.fixed)
        inner.symbols, inner.devices, inner.given = self.symbols, self.devices, self.given
        for each in module.graph.nodes:
            if each.op == "placeholder":
                value = each.meta.get("val")
                if not isinstance(value, (torch.Tensor, int, torch.SymInt)):
                    raise CannotConvert(node, f"a function of {type(value).__name__}")
                inner.nodes.append({"name": inner.prefix + each.name, "op": "placeholder", "val": inner._value(each, value)})
            elif each.op == "get_attr":
                function = getattr(module, str(each.target), None)
                if not isinstance(function, torch.fx.GraphModule):
                    raise CannotConvert(node, "a function with tensors of its own")
                inner.functions[each] = inner._subgraph(each, function)
            elif each.op == "call_function":
                inner._call(each)
            else:
                results = [inner._argument(each, r) for r in self._results(each)]
                is_single = not isinstance(each.args[0], (list, tuple))
                inner.nodes.append({"name": inner.prefix + "output", "op": "output", "args": [results[0] if is_single else results]})
        self.subgraphs[node.name] = {"nodes": inner.nodes}
        if inner.subgraphs:
            self.subgraphs[node.name]["subgraphs"] = inner.subgraphs
        return node.name

    def takers(self, name):
        """Nodes that take the function in which a node of this name stands."""
        return [user for node in self.functions for user in node.users if name.startswith(node.name + "__")]

    @staticmethod
    def _results(node):
        results = node.args[0]
        return results if isinstance(results, (list, tuple)) else [results]

    def _symbol(self, value):
        env = value.node.shape_env
        for symbol in value.node.expr.free_symbols:
            name = self._name_of(symbol)
            if name in self.symbols or symbol.name in self.fixed:
                continue
            # Sizes are not negative; what a graph reads of its data may be.
            of_data = name == symbol.name and symbol_is_type(symbol, SymT.UNBACKED_INT)
            least = _LEAST if of_data else 0
            bounds = env.var_to_range.get(symbol)
            low = int(bounds.lower) if bounds is not None and bounds.lower.is_Integer else least
            high = int(bounds.upper) if bounds is not None and bounds.upper.is_Integer else None
            entry = [max(low, least), None if high is None or high >= _UNBOUND else high]
            known = env.backed_var_to_val if hasattr(env, "backed_var_to_val") else env.var_to_val  # as of PyTorch 2.11
            hint = known.get(symbol)
            if hint is not None and getattr(hint, "is_Integer", True):
                entry.append(int(hint))
            self.symbols[name] = entry

    def _size(self, node, value):
        if isinstance(value, int):
            return int(value)
        try:
            text = expression_of(value, self._name_of, self.fixed)
        except ValueError as error:
            raise CannotConvert(node, str(error)) from None
        self._symbol(value)
        return text

    def _value(self, node, value):
        if isinstance(value, torch.Tensor):
            if value.device.type not in ("cpu", "cuda"):
                raise CannotConvert(node, f"a tensor on {value.device}")
            self.devices.add(value.device)
            device = "cpu" if value.device.type == "cpu" else f"cuda:{value.device.index or 0}"
            return {"dtype": str(value.dtype)[len("torch."):], "size": [self._size(node, s) for s in value.shape],
                    "stride": [self._size(node, s) for s in value.stride()], "device": device}
        if isinstance(value, (list, tuple)):
            return [self._value(node, one) for one in value]
        if isinstance(value, (int, torch.SymInt)) and not isinstance(value, bool):  # the longest row, of attention
            return {"int": self._size(node, value)}
        if value is None:
            return None
        raise CannotConvert(node, f"a value of {type(value).__name__}")

    def _input_value(self, node, value):
        """As _value; a tensor that begins behind an aligned place of its storage (a slice) has that as its offset, one that begins where a symbol says
        that of the symbol's likely value: a call whose tensor begins otherwise copies it."""
        described = self._value(node, value)
        if isinstance(value, torch.Tensor) and not value.is_complex():
            begins = value.storage_offset()
            if isinstance(begins, torch.SymInt):
                begins = begins.node.hint
            behind = begins * value.element_size() % ALIGNMENT if isinstance(begins, int) else 0
            if behind % value.element_size() == 0 and behind:
                described["offset"] = behind // value.element_size()
        return described

    def _input(self, node, value):
        if isinstance(value, torch.Tensor):
            why = why_no_value(value)
            if why:
                raise CannotConvert(node, why)
            self.inputs.append(node)
        elif isinstance(value, torch.SymInt) and value.node.expr.is_Symbol:
            self.inputs.append(node)  # others are expressions over those
        elif isinstance(value, (int, torch.SymInt)) or value is None or not node.users:
            return
        else:
            raise CannotConvert(node, f"an input of {type(value).__name__}")
        self.nodes.append({"name": node.name, "op": "placeholder", "val": self._input_value(node, value)})

    def _attribute(self, node):
        value = self.module
        for part in str(node.target).split("."):
            value = getattr(value, part)
        if isinstance(value, torch.fx.GraphModule):
            try:
                self.functions[node] = self._subgraph(node, value)
            except CannotConvert as error:  # whoever takes it cannot be converted, then
                raise CannotConvert(next(iter(node.users), node), str(error)) from None
            return
        if not isinstance(value, torch.Tensor):
            raise CannotConvert(node, f"an attribute of {type(value).__name__}")
        self.constants[node] = value  # "val" may be a fake of it
        node.meta.setdefault("val", value)
        self.inputs.append(node)
        self.nodes.append({"name": node.name, "op": "placeholder", "val": self._input_value(node, value)})

    def _call(self, node):
        value = node.meta.get("val")
        if isinstance(value, (torch.SymInt, int)) and not isinstance(value, bool) and not _reads_number(node):
            return  # its users have the expression
        if isinstance(node.target, torch._ops.OpOverload):
            target = str(node.target)
        elif getattr(node.target, "__name__", "") == "getitem":
            target = "operator.getitem"
        elif isinstance(node.target, torch._ops.HigherOrderOperator):
            target = "higher_order." + node.target.name()
        elif _is_number(value) and _python_name(node.target):
            target = _python_name(node.target)
        else:
            raise CannotConvert(node, f"a call of {node.target}")
        entry = {"name": self.prefix + node.name, "op": "call_function", "target": target,
                 "args": [self._argument(node, a) for a in node.args]}
        if node.kwargs:
            entry["kwargs"] = {k: self._argument(node, a) for k, a in node.kwargs.items()}
        if value is not None and not isinstance(value, (bool, float, torch.SymFloat, torch.SymBool)):
            entry["val"] = self._value(node, value)
        if node.meta.get("stack_trace") and not self.prefix:  # what is wrong in a function is found by its node's name
            entry["stack_trace"] = node.meta["stack_trace"]
        self.nodes.append(entry)

    def _argument(self, node, value):
        if isinstance(value, torch.fx.Node) and value in self.functions:
            return {"graph": self.functions[value]}
        if isinstance(value, dict):
            return {"dict": {key: self._argument(node, one) for key, one in value.items()}}
        if isinstance(value, torch.fx.Node):
            of = value.meta.get("val")
            if isinstance(of, (torch.SymInt, int)) and not isinstance(of, bool):
                return self._argument(node, of)
            return {"node": self.prefix + value.name}
        if value is None or isinstance(value, (bool, int, str)):
            return value
        if isinstance(value, float):
            if math.isfinite(value):
                return value
            return {"float": "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"}
        if isinstance(value, torch.SymInt):
            size = self._size(node, value)
            return size if isinstance(size, int) else {"expr": size}
        if isinstance(value, complex):
            parts = [self._argument(node, part) for part in (value.real, value.imag)]
            return {"complex": [p["float"] if isinstance(p, dict) else p for p in parts]}
        if isinstance(value, (list, tuple)):
            return [self._argument(node, one) for one in value]
        if isinstance(value, torch.dtype):
            return {"dtype": str(value)[len("torch."):]}
        if isinstance(value, torch.device):
            return {"device": str(value)}
        if isinstance(value, torch.memory_format):
            return {"memory_format": str(value)[len("torch."):]}
        if isinstance(value, torch.layout):
            return {"layout": str(value)[len("torch."):]}
        raise CannotConvert(node, f"an argument of {type(value).__name__}")


def evaluator(expr):
    """A function of {symbol: int} for a sympy expression."""
    def divide(a, b):
        return a // b

    code = compile(_text(expr), "<size>", "eval")
    functions = {"FloorDiv": divide, "Mod": lambda a, b: a % b, "Max": max, "Min": min,
                 "CeilDiv": lambda a, b: -(-a // b), "ModularIndexing": lambda a, b, m: a // b % m}
    return lambda values: eval(code, functions, values)  # noqa: S307 (text that _text made)
