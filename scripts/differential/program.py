"""A program: inputs, modules, statements and results, as text that Python runs. Generator, recorder and minimizer share it."""
import copy
import dataclasses
import re

import torch
import torch.nn as nn
import torch.nn.functional as F

import values

NAME = re.compile(r"\b(?:input_\d+|[bpv]\d+|self\.m\d+)\b")
# How the memory of an input lies: strides of the permuted or padded tensor it is cut from.
LAYOUTS = ("contiguous", "transposed", "channels_last", "strided", "expanded")


@dataclasses.dataclass
class Input:
    name: str
    kind: str  # input, buffer, parameter
    dtype: str
    shape: tuple  # of int, or the name of a dynamic size
    style: str = "normal"
    seed: int = 0
    bound: int = 0
    layout: str = "contiguous"
    tensor: object = None  # the value itself, of the style 'values'

    def sizes(self, symbols):
        return tuple(symbols[s] if isinstance(s, str) else s for s in self.shape)

    def make(self, symbols):
        shape = self.sizes(symbols)
        if self.style == "values":
            return self.lay(self.tensor.clone())
        return self.lay(values.make(self.dtype, shape, self.style, self.seed, self.bound))

    def lay(self, tensor):
        if self.layout == "transposed" and tensor.dim() >= 2:
            return tensor.transpose(0, -1).contiguous().transpose(0, -1)
        if self.layout == "channels_last" and tensor.dim() == 4:
            return tensor.contiguous(memory_format=torch.channels_last)
        if self.layout == "strided" and tensor.dim() >= 1:
            wide = torch.zeros(*tensor.shape[:-1], 2 * tensor.shape[-1] + 1, dtype=tensor.dtype)
            view = wide[..., 1::2][..., :tensor.shape[-1]]
            view.copy_(tensor)
            return view
        if self.layout == "expanded" and tensor.dim() >= 2 and tensor.shape[0] > 1:
            return tensor[:1].expand(tensor.shape)
        return tensor


@dataclasses.dataclass
class Module:
    name: str  # m0
    text: str  # nn.Linear(3, 4)
    seed: int
    training: bool = False

    def make(self):
        torch.manual_seed(self.seed)
        module = eval(self.text, {"nn": nn, "torch": torch})
        for parameter in module.parameters():
            parameter.requires_grad_(False)
        for name, buffer in module.named_buffers():
            if buffer.is_floating_point():
                buffer.copy_(torch.rand_like(buffer) + 0.5)
        return module.train(self.training)


@dataclasses.dataclass
class Statement:
    text: str  # v3, v4 = torch.sort(v1)
    results: tuple = ()  # names that it defines
    family: str = ""

    def names(self):
        return {n.removeprefix("self.") for n in NAME.findall(self.text)}

    def uses(self):
        return self.names() - set(self.results)


@dataclasses.dataclass
class Program:
    number: int = 0
    inputs: list = dataclasses.field(default_factory=list)
    modules: list = dataclasses.field(default_factory=list)
    statements: list = dataclasses.field(default_factory=list)
    outputs: list = dataclasses.field(default_factory=list)
    symbols: dict = dataclasses.field(default_factory=dict)  # dynamic size -> its value when exported
    other_symbols: dict = dataclasses.field(default_factory=dict)  # ... and when run
    named_sizes: dict = dataclasses.field(default_factory=dict)  # dynamic size -> its lowest value, where it has a range of its own
    decomposed: bool = False

    def copy(self):
        return copy.deepcopy(self)

    def user_inputs(self):
        return [x for x in self.inputs if x.kind == "input"]

    def prune(self):
        """Drops inputs and modules that nothing reads."""
        used = set(self.outputs).union(*(s.names() for s in self.statements))
        self.inputs = [x for x in self.inputs if x.name in used]
        self.modules = [x for x in self.modules if x.name in used]
        names = {x.name: f"input_{i}" for i, x in enumerate(self.user_inputs())}
        self.rename(names)  # tsc knows inputs by position too

    def rename(self, names):
        """Inputs and values, all at once."""
        def new(text):
            return NAME.sub(lambda found: names.get(found.group(0), found.group(0)), text)
        for s in self.statements:
            s.text, s.results = new(s.text), tuple(names.get(n, n) for n in s.results)
        self.outputs = [names.get(n, n) for n in self.outputs]
        for x in self.inputs:
            x.name = names.get(x.name, x.name)

    def body(self):
        lines = [f"{x.name} = self.{x.name}" for x in self.inputs if x.kind != "input"]
        lines += [s.text for s in self.statements]
        return lines + ["return (" + "".join(f"{n}, " for n in self.outputs) + ")"]

    def text(self):
        """A file for people: what the inputs are, and the module."""
        lines = [f"# program {self.number}" + (f", sizes {self.symbols} (run with {self.other_symbols})" if self.symbols else "") +
                 (", decomposed" if self.decomposed else "")]
        for x in self.inputs:
            value = ""
            if x.style == "values" and x.tensor.numel() <= 24:
                value = f" = {x.tensor.tolist()}"
            lines.append(f"# {x.name}: {x.kind} {x.dtype} {list(x.shape)} {x.layout} {x.style}{value}")
        for m in self.modules:
            lines.append(f"# {m.name}: {m.text}{' training' if m.training else ''}")
        lines += ["class M(nn.Module):", "    def forward(" + ", ".join(["self"] + [x.name for x in self.user_inputs()]) + "):"]
        return "\n".join(lines + ["        " + line for line in self.body()]) + "\n"

    def module(self, wide=False):
        """The nn.Module; `wide`: everything that is a float computed in float64."""
        program = self

        class M(nn.Module):
            def __init__(self):
                super().__init__()
                for x in program.inputs:
                    tensor = x.make(program.symbols)
                    if x.kind == "buffer":
                        self.register_buffer(x.name, tensor)
                    elif x.kind == "parameter":
                        setattr(self, x.name, nn.Parameter(tensor, requires_grad=False))
                for m in program.modules:
                    setattr(self, m.name, m.make())

        arguments = ", ".join(["self"] + [x.name for x in self.user_inputs()])
        source = f"def forward({arguments}):\n" + "\n".join("    " + line for line in self.body()) + "\n"
        if wide:
            source = widen(source)
        space = {"torch": torch, "F": F, "nn": nn, "math": __import__("math")}
        exec(compile(source, f"<program {self.number}>", "exec"), space)
        M.forward = space["forward"]
        module = M()
        return module.double() if wide else module

    def arguments(self, symbols=None):
        return tuple(x.make(symbols or self.symbols) for x in self.user_inputs())


def widen(source):
    source = re.sub(r"(?<!view\()torch\.(float16|bfloat16|float32|half|float)\b", "torch.float64", source)
    return re.sub(r"\.(half|bfloat16|float)\(\)", ".double()", source)
