"""Grows one program: statements are tried on real tensors as they are added, so that every one is valid."""
import math
import random
import re

import torch
import torch.nn as nn
import torch.nn.functional as F

import values
from program import Input, Module, Program, Statement

SIZES = (1, 2, 3, 4, 5, 7, 8, 11, 13, 16, 17, 31, 32, 33, 64, 67)
# Where NaN and infinity go in these is an accident of the way eager mode computes.
ACCIDENTS = re.compile(r"std|var|norm|logcumsumexp|logaddexp|prod|cumsum|lerp|@|softmax|logsumexp|gelu|mish|softplus|hypot")
MOST_ELEMENTS = 6000
MOST_BYTES_OF_WEIGHTS = 200_000


class NotHere(Exception):
    """A rule of the grammar does not apply to the values there are."""


class Holder:
    """Stands for `self` while a program grows."""


class Builder:
    def __init__(self, number):
        self.random = random.Random(number * 2654435761 % 2**32)
        self.program = Program(number)
        self.names = []  # of tensors, oldest first
        self.space = {"torch": torch, "F": F, "nn": nn, "math": math, "self": Holder()}
        self.failures = 0
        r = self.random
        self.special = r.random() < 0.08  # NaN and infinity wanted
        self.dynamic = r.random() < 0.18
        self.small = r.random() < 0.6
        # Most programs live in one float dtype, some mix.
        self.float = r.choices(values.FLOATS, (60, 14, 16, 10))[0]
        self.mixing = r.choices((0.0, 0.1, 0.5), (40, 40, 20))[0]
        self.writes = r.choices((0.2, 1.0, 5.0), (35, 45, 20))[0]  # weight of in-place writes
        if self.dynamic:
            names = ("s0", "s1")[:r.choice((1, 1, 2))]
            sizes = r.sample((3, 4, 5, 6, 7, 9, 10, 12), len(names))
            self.program.symbols = dict(zip(names, sizes))
            others = r.sample((2, 3, 5, 6, 8, 11, 13), len(names))
            self.program.other_symbols = dict(zip(names, others))
            if r.random() < 0.5:
                self.program.named_sizes = {n: r.choice((0, 1, 2)) for n in names}
                if r.random() < 0.25:
                    self.program.other_symbols[names[0]] = max(self.program.named_sizes[names[0]], r.choice((0, 1, 1)))

    # --- chance
    def chance(self, p):
        return self.random.random() < p

    def choice(self, options):
        return self.random.choice(options)

    def integer(self, low, high):
        return self.random.randint(low, high)

    def size(self):
        if self.chance(0.015):
            return 0
        return self.choice(SIZES[:7] if self.small else SIZES)

    def shape(self, low=0, high=4):
        dimensions = self.random.choices((0, 1, 2, 3, 4, 5), (3, 20, 36, 26, 12, 3))[0]
        dimensions = min(max(dimensions, low), high)
        while True:
            shape = tuple(self.size() for _ in range(dimensions))
            if math.prod(shape) <= MOST_ELEMENTS:
                return shape

    # --- values
    def tensor(self, name):
        return self.space[name]

    def dtype(self):
        """Of a new input."""
        if not self.chance(self.mixing):
            return self.float
        return self.random.choices(values.DTYPES, (6, 3, 3, 3, 6, 3, 1, 1, 2, 3))[0]

    def style(self, dtype):
        if self.special and self.chance(0.6):
            return "extreme" if dtype in values.INTEGERS else "special"
        return self.random.choices(("normal", "positive", "grid", "tiny"), (80, 8, 10, 2))[0]

    def new_input(self, dtype=None, shape=None, style=None, bound=0, kind=None, layout=None):
        dtype = dtype or self.dtype()
        shape = self.shape() if shape is None else tuple(shape)
        kind = kind or self.random.choices(("input", "buffer", "parameter"), (70, 15, 15))[0]
        if kind == "parameter" and dtype not in values.FLOATS:
            kind = "buffer"
        prefix = {"input": "input_", "buffer": "b", "parameter": "p"}[kind]
        name = prefix + str(sum(x.kind == kind for x in self.program.inputs))
        symbols = self.program.symbols
        named = shape
        if kind == "input" and symbols:
            back = {v: k for k, v in symbols.items()}
            named = tuple(back[s] if s in back and self.chance(0.9) else s for s in shape)
        layout = layout or ("contiguous" if self.chance(0.85) or kind == "parameter"
                            else self.choice(("transposed", "transposed", "strided", "channels_last")))
        if layout in ("strided", "transposed") and any(isinstance(s, str) for s in named):
            layout = "contiguous"  # torch.export makes the strides sizes of their own
        item = Input(name, kind, dtype, named, style or self.style(dtype), self.integer(0, 2**31), bound, layout)
        self.program.inputs.append(item)
        self.space[name] = item.make(symbols)
        self.names.append(name)
        return name

    def new_shape(self):
        """Of a new input: with dynamic sizes, where the program has them."""
        shape = list(self.shape(low=1 if self.dynamic else 0))
        for size in self.program.symbols.values():
            if shape and self.chance(0.8):
                shape[self.integer(0, len(shape) - 1)] = size
        return tuple(shape)

    def module(self, text, training=False):
        item = Module(f"m{len(self.program.modules)}", text, self.integer(0, 2**31), training)
        made = item.make()
        dtype = values.dtype_of(self.float)
        if sum(p.numel() for p in made.parameters()) * 4 > MOST_BYTES_OF_WEIGHTS:
            raise NotHere
        if dtype != torch.float32 and self.chance(0.8):
            item.text += f".to(torch.{self.float})"
            made = item.make()
        self.program.modules.append(item)
        setattr(self.space["self"], item.name, made)
        return "self." + item.name, made

    def drop_module(self, made):
        self.program.modules = [m for m in self.program.modules if getattr(self.space["self"], m.name) is not made]

    def pick(self, fits=lambda t: True):
        """The name of a tensor that fits, later ones more often; NotHere if there is none."""
        names = [n for n in self.names if fits(self.tensor(n))]
        if not names:
            raise NotHere
        if self.chance(0.35):
            return names[-1]
        return names[min(int(len(names) * self.random.random() ** 0.6), len(names) - 1)]

    def any(self, low=0, high=9, kinds="fib", few=0, fits=None):
        """A tensor of low..high dimensions with at least `few` elements; a new input if there is none."""
        def good(t):
            return (low <= t.dim() <= high and values.kind_of(t.dtype) in kinds and t.numel() >= few and (fits is None or fits(t)))
        if not self.chance(0.06):
            try:
                return self.pick(good)
            except NotHere:
                pass
        for _ in range(6):
            shape = self.new_shape()
            dtype = self.dtype()
            if values.kind_of(values.dtype_of(dtype)) not in kinds:
                dtype = self.float if "f" in kinds else self.choice(("int64", "int64", "int32", "uint8")) if "i" in kinds else "bool"
            if low <= len(shape) <= high and math.prod(shape) >= few and (fits is None or fits(torch.empty(shape, dtype=values.dtype_of(dtype)))):
                return self.new_input(dtype, shape)
        raise NotHere

    def floats(self, low=0, high=9, few=0, fits=None):
        return self.any(low, high, "f", few, fits)

    def ints(self, low=0, high=9, few=0, fits=None):
        return self.any(low, high, "i", few, fits)

    def same_shape(self, shape, dtype=None, style=None):
        """A tensor of this shape (and dtype): one that there is, or a new input."""
        shape = tuple(shape)
        names = [n for n in self.names if tuple(self.tensor(n).shape) == shape and dtype in (None, self.tensor(n).dtype)]
        if names and self.chance(0.7) and style is None:
            return self.choice(names)
        return self.new_input(values.name_of(dtype) if dtype else None, shape, style)

    def like(self, name, dtype=None):
        """What broadcasts with `name`."""
        shape = tuple(self.tensor(name).shape)
        roll = self.random.random()
        if roll < 0.5:
            return self.same_shape(shape, dtype)
        if roll < 0.62:
            fitting = [n for n in self.names if dtype in (None, self.tensor(n).dtype) and broadcasts(self.tensor(n).shape, shape)]
            if fitting:
                return self.choice(fitting)
        if roll < 0.7 and dtype is None:
            return name
        cut = shape[self.integer(0, len(shape)):]
        return self.new_input(values.name_of(dtype) if dtype else None, [1 if self.chance(0.3) else s for s in cut])

    def dim(self, name, extra=0):
        """A dimension of `name`, negative or not."""
        rank = self.tensor(name).dim() + extra
        if rank == 0:
            return self.choice((0, -1))
        return self.integer(-rank, rank - 1)

    def dims(self, name):
        """A list of some dimensions."""
        rank = self.tensor(name).dim()
        chosen = self.random.sample(range(rank), self.integer(1, rank)) if rank else []
        return [d - rank if self.chance(0.5) else d for d in chosen]

    def scalar(self, name=None):
        t = self.tensor(name) if name else None
        if t is not None and not t.dtype.is_floating_point and self.chance(0.8):
            return self.choice(("2", "3", "1", "0", "-1", "5", "7", "True") if t.dtype != torch.uint8 else ("2", "3", "1", "5"))
        return self.choice(("2", "0.5", "-1.5", "3", "1.0", "0.1", "-0.25", "1", "0", "2.0", "1e-3", "-2"))

    def text_of_size(self, name, d):
        """The size of a dimension as a program says it."""
        size = self.tensor(name).shape[d]
        return f"{name}.shape[{d}]" if self.dynamic and self.chance(0.85) else str(size)

    def index(self, shape, bound, dtype="int64"):
        """A new input of indices in [0, bound)."""
        return self.new_input(dtype, shape, "index", bound, kind=self.choice(("input", "buffer")))

    # --- statements
    def emit(self, expression, family, results=1):
        """Adds `v = expression` if PyTorch takes it and the values are of use; NotHere if not."""
        if self.special and ACCIDENTS.search(expression):
            raise NotHere
        first = self.counter()
        names = [f"v{first + i}" for i in range(results)]
        text = ", ".join(names) + (" = " if names else "") + expression
        code = compile(text, "<statement>", "exec")
        try:
            with torch.no_grad():
                exec(code, self.space)
        except Exception as error:
            for n in names:
                self.space.pop(n, None)
            self.failures += 1
            raise NotHere(f"{text}: {error}") from error
        made = [self.space[n] for n in names]
        if not all(self.is_of_use(x) for x in made):
            for n in names:
                self.space.pop(n, None)
            raise NotHere("no use: " + text)
        self.program.statements.append(Statement(text, tuple(names), family))
        self.names += [n for n in names if isinstance(self.space[n], torch.Tensor)]
        return names[0] if results == 1 else names

    def counter(self):
        return sum(len(s.results) for s in self.program.statements)

    def is_of_use(self, x):
        if not isinstance(x, torch.Tensor):
            return isinstance(x, (int, float, bool))
        if x.dtype.is_complex or x.numel() > MOST_ELEMENTS or values.name_of(x.dtype) not in values.DTYPES or x.layout != torch.strided:
            return False
        if not x.dtype.is_floating_point or not x.numel():
            return True
        if self.special and self.chance(0.97):
            return True
        if not bool(x.isfinite().all()):
            return self.chance(0.03)
        largest = float(x.abs().max())
        return largest < (200.0 if x.dtype in (torch.float16, torch.bfloat16) else 1e4) or self.chance(0.03)

    def writable(self, name):
        """Whether every element has memory of its own, and the memory may be written."""
        t = self.tensor(name)
        if any(x.name == name and x.kind == "parameter" for x in self.program.inputs):
            return False
        storage = t.untyped_storage().data_ptr()
        for x in self.program.inputs:
            if self.space[x.name].untyped_storage().data_ptr() == storage and (x.kind == "parameter" or x.layout == "expanded"):
                return False
        return has_own_elements(t)

    def shares(self, a, b):
        return self.tensor(a).untyped_storage().data_ptr() == self.tensor(b).untyped_storage().data_ptr()


def has_own_elements(t):
    if t.numel() < 2:
        return True
    if any(stride == 0 and size > 1 for size, stride in zip(t.shape, t.stride())):
        return False
    offsets = torch.zeros((), dtype=torch.int64)
    for size, stride in zip(t.shape, t.stride()):
        offsets = offsets.unsqueeze(-1) + torch.arange(size) * stride
    return offsets.unique().numel() == t.numel()


def broadcasts(a, b):
    return all(x == y or x == 1 or y == 1 for x, y in zip(reversed(a), reversed(b)))
