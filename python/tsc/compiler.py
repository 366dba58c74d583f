"""An FX graph -> a callable: programs of tsc, and PyTorch for what tsc does not have."""
import math
import time
from concurrent.futures import ThreadPoolExecutor

import torch
from torch.fx.passes.split_module import split_module

from . import _library, _report
from ._config import config
from ._library import Handle, TscError
from .graph import CannotConvert, Converter, drops_weights, evaluator, is_write_back, symbols_of, tensors_in, why_eager
from .program import Program, as_tensor

#: Of what these clone eager mode keeps the gaps between rows, too, which nobody asked for.
_CLONES = frozenset(getattr(torch.ops.aten, name).default for name in ("slice_scatter", "select_scatter", "diagonal_scatter"))


def _tf32():
    """Which products of float32 PyTorch lets round their factors to TF32, as the library's option."""
    try:
        convolutions, products = torch.backends.cudnn.allow_tf32, torch.backends.cuda.matmul.allow_tf32
    except RuntimeError:  # PyTorch's newer settings were used, which say more than these
        return "off"
    return "off" if not convolutions else "on" if products else "conv"


def _options(device):
    options = {"device": "host"}
    if device.type == "cuda":
        options = {"device": "cuda", "device_index": device.index or 0, "tf32": _tf32()}
    if torch.are_deterministic_algorithms_enabled():
        options["deterministic"] = True
    options.update(config.options)
    return options


def _device_of(converter):
    """One device for the program: the GPU if any tensor is there (docs/runtime.md)."""
    gpus = [d for d in converter.devices if d.type == "cuda"]
    return gpus[0] if gpus else torch.device("cpu")


class Sizes:
    """A tensor's layout as PyTorch has it, for the values that symbols have in a run."""

    def __init__(self, value, is_clone=False):
        self.device = value.device
        self.is_clone = is_clone
        self._parts = [self._part(s) for s in value.stride()]
        self._static = None if any(callable(p) for p in self._parts) else tuple(self._parts)

    @staticmethod
    def _part(size):
        if isinstance(size, int) or size.node.expr.is_number:
            return int(size)
        return evaluator(size.node.expr)

    def strides(self, values):
        return self._static or tuple(p(values) if callable(p) else p for p in self._parts)


def _view_call(node):
    """A function of the viewed tensor and the symbols' values."""
    def prepare(argument):
        if isinstance(argument, torch.fx.Node):
            argument = argument.meta["val"]
        if isinstance(argument, torch.SymInt):
            if argument.node.expr.is_number:
                return lambda values: int(argument)
            return evaluator(argument.node.expr)
        if isinstance(argument, (list, tuple)):
            parts = [prepare(one) for one in argument]
            return lambda values: [part(values) for part in parts]
        return lambda values: argument

    arguments = [prepare(a) for a in node.args[1:]]
    named = {key: prepare(a) for key, a in node.kwargs.items()}
    return lambda tensor, values: node.target(tensor, *[a(values) for a in arguments],
                                              **{key: a(values) for key, a in named.items()})


class Taking:
    """A program that takes a module's inputs: those that it reads, and tensors of the module itself."""

    def __init__(self, program, inputs, guarded=()):
        """`program`: or the error that there is instead of one. `inputs`: for each of the program's its number among the
        module's, or None and the tensor. `guarded`: numbers of inputs whose form the caller compares before each call."""
        self.program, self._inputs = program, inputs
        self._are_constants_there = False  # on the program's device; not yet: compilation makes tensors without memory
        if isinstance(program, Program):
            program.guarded = [at for at, (i, _) in enumerate(inputs) if i is None or i in guarded]

    def __call__(self, inputs):
        if isinstance(self.program, TscError):
            raise self.program
        if not self._are_constants_there:
            self._inputs = [(i, constant if i is not None else self.program.to_device(at, constant))
                            for at, (i, constant) in enumerate(self._inputs)]
            self._is_plain = [i for i, _ in self._inputs] == [*range(len(inputs))]
            self._are_constants_there = True  # last: other threads may be here
        given = inputs if self._is_plain else [constant if i is None else inputs[i] for i, constant in self._inputs]
        return self.program(*given)


class Compiled:
    """A module of which every node is tsc's. Takes and gives what the module does, as a list."""

    def __init__(self, module, converter, program, on_refusal=None, guarded=(), likely=(None, {})):
        """`program`: for all sizes, or the error that there is instead; None where nothing is computed. `on_refusal`: told of
        the error where it does not take sizes; the module then runs in eager mode. `guarded`: positions of inputs whose form
        the caller compares before each call. `likely`: a program for some symbols' values alone, and these values, by names."""
        self._module, self._on_refusal = module, on_refusal
        placeholders = [n for n in module.graph.nodes if n.op == "placeholder"]
        positions = {n: i for i, n in enumerate(placeholders)}
        read = [(positions.get(node), converter.constants.get(node)) for node in converter.inputs]
        watched = [i for i in guarded if self._is_static(placeholders[i].meta.get("val"))]
        self._program = program and Taking(program, read, watched)
        # Inputs that are numbers, and that the program of likely sizes has in itself.
        fixed = {i for i, n in enumerate(placeholders) if isinstance(n.meta.get("val"), torch.SymInt) and _symbols_in(n.meta["val"]) <= likely[1].keys()}
        self._likely_program = likely[0] and Taking(likely[0], [one for one in read if one[0] not in fixed], watched)
        self._symbols = self._find_symbols(placeholders)
        self._likely = [(*self._symbols[name], number) for name, number in likely[1].items()]
        # What runs decide: {symbol's name or node: (output, dimension)}; behind the outputs stand those that none of them tells.
        self._decided = {}
        for i, node in enumerate(converter.outputs):
            for symbol, (dimension, _) in _symbols_told_by(node.meta["val"]).items():
                if symbol not in self._symbols:
                    self._decided.setdefault(symbol, (i, dimension))
        self._decided.update({name: (len(converter.outputs) + i, None)
                              for i, name in enumerate([*converter.numbers, *converter.reals])})
        self._count = len(converter.outputs)
        computed = {n: i for i, n in enumerate(converter.outputs)}
        self._layouts = [Sizes(n.meta["val"], is_clone=n.target in _CLONES) for n in converter.outputs]
        output = next(n for n in module.graph.nodes if n.op == "output")
        results = output.args[0]
        self._is_single = not isinstance(results, (list, tuple))
        self._views, self._constants = converter.views, converter.constants
        self._are_as_expected = False  # what the program gives lies as PyTorch's results do, in each call
        results = [results] if self._is_single else results
        self._results = [self._result(r, positions, computed) for r in results]
        #: Where every result is an output: which; and, once outputs are known to be as expected, the program that gives them.
        self._picked = [computed[r] for r in results] if all(isinstance(r, torch.fx.Node) and r in computed for r in results) else None
        self._quick = None

    @staticmethod
    def _is_static(value):
        return isinstance(value, torch.Tensor) and all(isinstance(n, int) for n in (*value.shape, *value.stride()))

    @staticmethod
    def _find_symbols(placeholders):
        """Where each symbol's value is: the input's number and dimension (None: the input is the number)."""
        found = {}
        for i, node in enumerate(placeholders):
            for symbol, (dimension, _) in _symbols_told_by(node.meta.get("val")).items():
                found.setdefault(symbol, (i, dimension))
        return found

    def _result(self, result, positions, computed):
        if isinstance(result, torch.fx.Node) and result in self._views:
            root, chain = self._views[result]
            base = self._result(root, positions, computed)
            steps = [_view_call(node) for node in chain]

            def replay(inputs, outputs, values):
                tensor = base(inputs, outputs, values)
                for step in steps:
                    tensor = step(tensor, values)
                return tensor

            return replay
        if is_write_back(result):
            result = result.args[0]
        if not isinstance(result, torch.fx.Node):
            return lambda inputs, outputs, values: result
        if result in positions:
            return lambda inputs, outputs, values, i=positions[result]: inputs[i]
        if result in self._constants:
            return lambda inputs, outputs, values: self._constants[result]
        if result in computed:
            return lambda inputs, outputs, values, i=computed[result]: outputs[i]
        value = result.meta.get("val")
        if result in self._decided:
            kind = float if isinstance(value, torch.SymFloat) else bool
            return lambda inputs, outputs, values: kind(values[result])
        if isinstance(value, torch.SymInt) and not value.node.expr.is_number:
            evaluate = evaluator(value.node.expr)
            return lambda inputs, outputs, values: evaluate(values)
        if isinstance(value, (int, torch.SymInt)):
            return lambda inputs, outputs, values: int(value)
        raise CannotConvert(result, f"a result of {type(value).__name__}")

    def __call__(self, *inputs):
        if self._quick is not None:
            try:
                outputs = self._quick(inputs)
            except TscError as error:
                return self._without_program(error, inputs)
            return outputs[self._picked[0]] if self._is_single else [outputs[i] for i in self._picked]
        values = {name: inputs[i] if d is None else inputs[i].shape[d] for name, (i, d) in self._symbols.items()}
        outputs = []
        if self._program is not None:
            is_likely = self._likely_program is not None and \
                all((inputs[i] if d is None else inputs[i].shape[d]) == number for i, d, number in self._likely)
            program = self._likely_program if is_likely else self._program
            try:
                tensors = program(inputs)
            except TscError as error:
                return self._without_program(error, inputs)
            if self._decided:
                values.update({name: program.program.number(i, tensors[i]) if d is None else tensors[i].shape[d]
                               for name, (i, d) in self._decided.items()})
                tensors = tensors[:self._count]
            if self._are_as_expected:
                outputs = tensors
            else:
                outputs = [self._as_expected(tensor, layout, values) for tensor, layout in zip(tensors, self._layouts)]
                self._are_as_expected = not (self._symbols or self._decided) and all(a is b for a, b in zip(outputs, tensors))
                if self._are_as_expected and self._picked is not None and self._likely_program is None:
                    self._quick = self._program
        results = [result(inputs, outputs, values) for result in self._results]
        return results[0] if self._is_single else results

    def _without_program(self, error, inputs):
        """What eager mode gives, where the program does not take the inputs' sizes; all other errors are raised."""
        if self._on_refusal is None or not getattr(error, "is_of_sizes", False):
            raise error
        self._on_refusal(error)
        return self._module(*inputs)

    @staticmethod
    def _as_expected(tensor, layout, values):
        strides = layout.strides(values)
        if tensor.device != layout.device:
            tensor = tensor.to(layout.device)
        if all(a == b or n == 1 for a, b, n in zip(tensor.stride(), strides, tensor.shape)) or tensor.numel() == 0:
            if tensor.stride() == strides:
                return tensor
            return as_tensor(tensor, tensor.dtype, tensor.shape, strides, tensor.storage_offset())
        if layout.is_clone and _has_gaps(tensor.shape, strides) and _order(tensor.stride()) == _order(strides):
            return tensor
        return torch.empty_strided(tensor.shape, strides, dtype=tensor.dtype, device=tensor.device).copy_(tensor)


def _has_gaps(sizes, strides):
    """Whether some of the memory between the first element and the last one is no element."""
    return 1 + sum((size - 1) * stride for size, stride in zip(sizes, strides)) > math.prod(sizes)


def _order(strides):
    return sorted(range(len(strides)), key=lambda i: (-strides[i], i))


def _calls(module):
    return [n for n in module.graph.nodes if n.op == "call_function"]


class Draws:
    """Whose random state the forms of attention with dropout save, in a forward graph and the backward graph of it."""
    eager = False  # PyTorch's


class Compiler:
    def __init__(self, kind, guarded=(), draws=None):
        self.report = _report.Report(kind)
        self._guarded = frozenset(guarded)
        self._draws = draws or Draws()

    def _why_eager(self, node):
        if self._draws.eager and drops_weights(node):
            return "attention whose weights are dropped by PyTorch in another call"
        return why_eager(node, config.random)

    def _note(self, nodes, target, code, message):
        self.report.fallbacks.append(_report.Fallback([n if isinstance(n, str) else n.name for n in nodes], target,
                                                      code, message.strip().splitlines()[0] if message else ""))

    def _likely_sizes(self, module):
        """{symbol's name: the number that it is in the call which compiles}: what inputs say, for a program of these sizes
        alone. Sizes of an export are an example's, and many different ones are what it has symbols for."""
        if not config.likely_sizes or self.report.kind == "export":
            return {}
        told = {}
        for node in module.graph.nodes:
            if node.op == "placeholder":
                told.update({name: value.node.hint for name, (_, value) in _symbols_told_by(node.meta.get("val")).items()})
        return {name: int(number) for name, number in told.items() if isinstance(number, int)}

    def _programs(self, module, converter, graph):
        """The program of all sizes, or the error where only the other one can be made; and the one of likely sizes with
        them, or (None, {}). Errors: TscError."""
        device = _device_of(converter)
        likely = self._likely_sizes(module)

        def compiled(text):
            return Program(Handle.compile(text, _options(device)), device)

        def compiled_for_likely(text):
            try:
                return compiled(text)
            except TscError as error:
                _report.log.info("no program for likely sizes: %s", error)
                return None

        # At the same time: sizes that change later are not waited for. The library's part alone: symbols are this thread's.
        try:
            text = Converter(module, fixed=likely).convert() if likely else None
        except CannotConvert as error:
            _report.log.info("no graph of likely sizes: %s", error)
            text = None
        with ThreadPoolExecutor(1) as other:
            fixed = other.submit(compiled_for_likely, text) if text else None
            try:
                program = compiled(graph)
            except TscError as error:
                if not fixed or not fixed.result():
                    raise
                program = TscError(error.status, f"sizes other than {likely}: {error}")
                program.is_of_sizes = True
                self._note(_calls(module), "", "", str(program))
            fixed = fixed and fixed.result()
        self.report.compiled_nodes += len(_calls(module))
        for one in (program, fixed):
            if not isinstance(one, Program):
                continue
            self.report.programs += 1
            for name, key in (("kernels", "kernels"), ("library_calls", "library_calls"),
                              ("kernels_from_cache", "from_cache")):
                setattr(self.report, name, getattr(self.report, name) + one.description[key])
        return program, (fixed, likely if fixed else {})

    def _whole(self, module, is_all):
        """The module as one program, or two of different sizes; `is_all`: it is the whole graph. Errors: CannotConvert,
        TscError."""
        converter = Converter(module)
        graph = converter.convert()
        if not (converter.outputs or converter.numbers or converter.reals) and not any(n.is_impure() for n in _calls(module)):
            return Compiled(module, converter, None)
        program, likely = self._programs(module, converter, graph)

        def note(error):
            """Sizes that Dynamo's symbols allow and the program does not."""
            if not any(f.message == str(error).strip().splitlines()[0] for f in self.report.fallbacks):
                self._note(_calls(module), "", "", str(error))
        # Of a state that the forward program drew PyTorch would draw another mask.
        is_bound = self.report.kind == "export" or \
            self.report.kind == "backward" and any(drops_weights(n) for n in _calls(module))
        return Compiled(module, converter, program, None if is_bound else note,
                        self._guarded if is_all else (), likely)

    def _refused(self, module):
        """Nodes that PyTorch has to run, noted with their reasons; None: all of them."""
        eager = {}
        for node in _calls(module):
            why = self._why_eager(node)
            if why:
                eager[node] = ("", why)
        if not eager:
            try:
                converter = Converter(module)
                graph = converter.convert()
                problems = _library.check(graph, _options(_device_of(converter)))["problems"]
            except CannotConvert as error:
                if error.node.op != "call_function":
                    self._note(_calls(module), "", "", f"{error.node.name}: {error}")
                    return None
                eager[error.node] = ("", str(error))
                problems = []
            except TscError as error:
                self._note(_calls(module), "", "", str(error))
                return None
            named = {n.name: n for n in _calls(module)}
            for problem in problems:
                for name in problem["nodes"]:
                    for node in [named[name]] if name in named else converter.takers(name):
                        eager[node] = (problem["code"], problem["message"])
        reasons = {}
        for node, (code, message) in eager.items():
            reasons.setdefault((str(node.target), code, message), []).append(node)
        for (target, code, message), nodes in reasons.items():
            self._note(nodes, target, code, message)
        return set(eager)

    def _split(self, module, eager):
        """Runs of nodes that are tsc's and PyTorch's in turn."""
        state = {"part": 0, "eager": None}

        def part_of(node):
            if isinstance(node.meta.get("val"), (torch.SymInt, int)) and node not in eager:
                return state["part"]
            is_eager = node in eager
            # What a getitem picks from is in its part.
            if getattr(node.target, "__name__", "") == "getitem" and node.args[0] in eager:
                is_eager = True
                eager.add(node)
            if state["eager"] is not None and state["eager"] != is_eager:
                state["part"] += 1
            state["eager"] = is_eager
            return state["part"]

        return split_module(module, None, part_of, keep_original_order=True, keep_original_node_name=True)

    def module(self, module, depth=0):
        """A callable that takes and gives what `module` does; PyTorch runs what cannot be compiled."""
        if not _calls(module):
            return module
        known = any(self._why_eager(n) for n in _calls(module))
        failure = None
        if not known:
            try:
                return self._whole(module, depth == 0)
            except (CannotConvert, TscError) as error:
                failure = error
            if isinstance(failure, TscError) and failure.status in (_library.DEVICE, _library.INTERNAL,
                                                                    _library.USAGE):
                self._note(_calls(module), "", "", str(failure))
                return module
        eager = self._refused(module)
        if eager is None:
            return module
        if not eager or depth > 4:
            self._note(_calls(module), "", "", str(failure))
            return module
        if len(eager) == len(_calls(module)):
            return module
        split = self._split(module, eager)
        names = {n.name for n in eager}
        for name, part in list(split.named_children()):
            if not isinstance(part, torch.fx.GraphModule):
                continue
            self._give_values(split, name, part)
            self._give_symbols(split, name, part)
            if not any(n.name in names for n in _calls(part)):
                split.add_module(name, _AsModule(self.module(part, depth + 1)))
        split.recompile()
        return split

    @staticmethod
    def _give_values(split, name, part):
        """Placeholders of a part have the values of what they are given."""
        call = next(n for n in split.graph.nodes if n.op == "call_module" and n.target == name)
        placeholders = [n for n in part.graph.nodes if n.op == "placeholder"]
        for placeholder, given in zip(placeholders, call.args):
            if "val" not in placeholder.meta and isinstance(given, torch.fx.Node) and "val" in given.meta:
                placeholder.meta["val"] = given.meta["val"]


    @staticmethod
    def _give_symbols(split, name, part):
        """What a part is given may have sizes from which no symbol can be told (only the product of two): such symbols
        become inputs of it, numbers that the whole graph's inputs, or what earlier parts gave, say."""
        placeholders = [n for n in part.graph.nodes if n.op == "placeholder"]
        needed = set().union(*(_symbols_in(n.meta.get("val")) for n in part.graph.nodes))
        told = {symbol for n in placeholders for symbol in _symbols_told_by(n.meta.get("val"))}
        missing = sorted(needed - told)
        sources = {}
        call = next(n for n in split.graph.nodes if n.op == "call_module" and n.target == name)
        for node in split.graph.nodes:
            if node is call:
                break
            for symbol, found in _symbols_told_by(node.meta.get("val")).items():
                sources.setdefault(symbol, (node, *found))
        last = placeholders[-1] if placeholders else None
        for symbol in missing:
            if symbol not in sources:
                continue
            source, dimension, value = sources[symbol]
            if dimension is not None:
                with split.graph.inserting_before(call):
                    source = split.graph.call_function(torch.ops.aten.sym_size.int, (source, dimension))
                source.meta["val"] = value
            with part.graph.inserting_after(last):
                last = part.graph.placeholder(f"size_{symbol}")
            last.meta["val"] = value
            call.args = (*call.args, source)
        part.recompile()


def _symbols_in(value):
    """Names of symbols that a node's value is over."""
    if isinstance(value, torch.SymInt):
        return {s.name for s in symbols_of(value)}
    sizes = [s for t in tensors_in(value) if t.layout == torch.strided for s in (*t.shape, *t.stride())]
    return {s.name for size in sizes for s in symbols_of(size)}


def _symbols_told_by(value):
    """{symbol: (dimension or None, its value)}: what an input says by itself."""
    several = [(None, value)] if isinstance(value, torch.SymInt) else []
    if isinstance(value, torch.Tensor):
        several = [(d, s) for d, s in enumerate(value.shape) if isinstance(s, torch.SymInt)]
    told = {}
    for dimension, size in several:
        if size.node.expr.is_Symbol:
            told.setdefault(size.node.expr.name, (dimension, size))
    return told


class _AsModule(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self._function = [function]  # no submodule: nothing to train or to move

    def forward(self, *inputs):
        return self._function[0](*inputs)


def _compiled(module, kind, guarded, draws):
    """(a callable, its report)"""
    start = time.monotonic()
    compiler = Compiler(kind, guarded, draws)
    compiler.report.nodes = len(_calls(module))
    try:
        function = compiler.module(module)
    except Exception as error:  # a defect of ours is no error of the user's
        compiler._note(_calls(module), "", "", f"internal: {type(error).__name__}: {error}")
        function = module
    compiler.report.seconds = time.monotonic() - start
    return function, compiler.report


def compile_graph(module, kind, guarded=(), draws=None):
    """`module`: functional aten nodes with "val" in their meta. Never refuses; what falls back is reported. `guarded`:
    positions of inputs whose sizes, strides and dtype the caller compares before each call. `draws`: what a forward
    graph leaves for its backward graph. Errors: RuntimeError where the forward graph dropped weights of attention by
    tsc's numbers and tsc cannot run the backward graph: PyTorch would drop others."""
    draws = draws or Draws()
    function, report = _compiled(module, kind, guarded, draws)
    dropping = {n.name for n in _calls(module) if drops_weights(n)}
    fallen = dropping.intersection(name for one in report.fallbacks for name in one.nodes)
    if fallen and not draws.eager:
        if kind == "backward":
            _report.add(report)
            raise RuntimeError(f"tsc ran attention with dropout forward and cannot run it backward:\n{report}\n"
                               'Train with dropout_p=0, or set tsc.config.random = "eager".')
        draws.eager = True  # all of them, forward and backward
        function, report = _compiled(module, kind, guarded, draws)
    _report.add(report)
    return function
