"""Makes a program that shows a fault smaller, while the fault stays."""
import shutil
import time

import torch

import recording
import values
from program import Input


class Minimizer:
    """`fault` is a Verdict; a smaller program counts if one of its verdicts on the same device has the same status and shape."""

    def __init__(self, runner, fault, folder, seconds=60):
        self.runner, self.fault, self.folder = runner, fault, folder
        self.ends = time.time() + seconds
        self.tries = 0

    def shows(self, program):
        if time.time() > self.ends:
            return None
        self.tries += 1
        program.prune()
        if not program.inputs or not program.outputs:
            return None
        try:
            case = recording.record(program.copy())
        except Exception:
            return None
        shutil.rmtree(self.folder, ignore_errors=True)
        case.write(self.folder)
        for verdict in self.runner.run([self.folder], [self.fault.device]):
            if verdict.status == "differ" and recording.is_fragile(program):
                continue
            if verdict.status == self.fault.status and (verdict.status == "differ" or verdict.shape() == self.fault.shape()):
                return verdict
        return None

    def minimize(self, program):
        """(program, verdict): the smallest found."""
        best, verdict = program.copy(), None
        verdict = self.shows(best)
        if verdict is None:
            return None, None
        changed = True
        while changed and time.time() < self.ends:
            changed = False
            for candidate in self.candidates(best):
                found = self.shows(candidate)
                if found:
                    best, verdict, changed = candidate, found, True
                    break
        return best, verdict

    def candidates(self, program):
        yield from fewer_outputs(program)
        yield from fewer_statements(program)
        yield from simpler(program)


def without(program, removed):
    """The program without statements `removed` (and those that need them); None if nothing is left."""
    other = program.copy()
    gone = set()
    kept = []
    for i, s in enumerate(other.statements):
        if i in removed or s.uses() & gone:
            gone |= set(s.results)
        else:
            kept.append(s)
    other.statements = kept
    other.outputs = [n for n in other.outputs if n not in gone]
    if not other.outputs:
        left = [n for s in kept for n in s.results]
        if not left and not kept:
            return None
        other.outputs = left[-1:] or [other.inputs[0].name] if other.inputs else []
    return other if other.outputs else None


def fewer_outputs(program):
    n = len(program.outputs)
    if n > 1:
        for keep in range(n):
            other = program.copy()
            other.outputs = [program.outputs[keep]]
            yield live(other)
        for drop in range(n):
            other = program.copy()
            del other.outputs[drop]
            yield other
    shorter = live(program)
    if len(shorter.statements) < len(program.statements):
        yield shorter


def live(program):
    """Without statements whose results nothing reads; those that write stay."""
    other = program.copy()
    while True:
        needed = set(other.outputs).union(*(s.uses() for s in other.statements)) if other.statements else set()
        kept = [s for s in other.statements if not s.results or set(s.results) & needed]
        if len(kept) == len(other.statements):
            return other
        other.statements = kept


def fewer_statements(program):
    n = len(program.statements)
    size = n // 2
    while size >= 1:
        for start in range(n - size, -1, -size):
            other = without(program, set(range(start, start + size)))
            if other and len(other.statements) < n:
                yield live(other)
        size //= 2
    for i in range(n):
        other = cut(program, i)
        if other:
            yield other


def cut(program, at):
    """The results of statement `at` as inputs."""
    statement = program.statements[at]
    if not statement.results:
        return None
    found = observe(program, at)
    if found is None:
        return None
    other = program.copy()
    symbols = program.other_symbols or program.symbols
    names = {}
    for name, tensor in found.items():
        new = fresh(other, "input")
        names[name] = new
        shape = tuple(tensor.shape)
        item = Input(new, "input", values.name_of(tensor.dtype), shape, "values", tensor=tensor)
        back = {v: k for k, v in symbols.items()}
        if program.symbols and any(s in back for s in shape):
            return None  # its sizes may be dynamic
        other.inputs.append(item)
    del other.statements[at]
    other.rename(names)
    return live(other)


def fresh(program, kind):
    prefix = {"input": "input_", "buffer": "b", "parameter": "p"}[kind]
    used = {x.name for x in program.inputs}
    i = 0
    while f"{prefix}{i}" in used:
        i += 1
    return f"{prefix}{i}"


def observe(program, at):
    """The values of a statement's results when they are made."""
    other = program.copy()
    statement = other.statements[at]
    other.statements = other.statements[: at + 1]
    other.outputs = list(statement.results)
    try:
        module, arguments = other.module(), other.arguments(program.other_symbols or program.symbols)
        with torch.no_grad():
            results = module(*arguments)
    except Exception:
        return None
    if not all(isinstance(x, torch.Tensor) for x in results):
        return None
    return {n: x.detach().clone().contiguous() for n, x in zip(statement.results, results)}


def simpler(program):
    if program.decomposed:
        other = program.copy()
        other.decomposed = False
        yield other
    if program.symbols:
        other = program.copy()
        sizes = program.other_symbols or program.symbols
        for x in other.inputs:
            x.shape = x.sizes(sizes)
        other.symbols, other.other_symbols, other.named_sizes = {}, {}, {}
        yield other
    for i, x in enumerate(program.inputs):
        if x.layout != "contiguous":
            other = program.copy()
            other.inputs[i].layout = "contiguous"
            yield other
        if x.kind != "input":
            other = program.copy()
            name = fresh(other, "input")
            other.inputs[i].kind = "input"
            other.rename({x.name: name})
            yield other
        if x.dtype in ("float16", "bfloat16", "float64"):
            other = program.copy()
            other.inputs[i].dtype = "float32"
            if x.style == "values":
                other.inputs[i].tensor = x.tensor.float()
            yield other
    floats = {"float16", "bfloat16", "float64"}
    if sum(x.dtype in floats for x in program.inputs) > 1:
        other = program.copy()
        for x in other.inputs:
            if x.dtype in floats:
                x.dtype = "float32"
                if x.style == "values":
                    x.tensor = x.tensor.float()
        yield other
    yield from smaller_sizes(program)


def smaller_sizes(program):
    """One size of the program smaller, wherever it stands in the inputs' shapes."""
    present = sorted({s for x in program.inputs for s in x.shape if isinstance(s, int) and s > 1}, reverse=True)
    for size in present:
        for new in sorted({1, 2, 3, size // 2} - {0}):
            if new >= size:
                continue
            other = program.copy()
            for x in other.inputs:
                shape = tuple(new if s == size else s for s in x.shape)
                if shape != x.shape:
                    if x.style == "values":
                        index = tuple(slice(0, s) for s in shape if not isinstance(s, str))
                        x.tensor = x.tensor[index].clone()
                    x.shape = shape
            yield other
    for i, x in enumerate(program.inputs):
        for d, size in enumerate(x.shape):
            if isinstance(size, int) and size > 1:
                for new in sorted({1, 2, size // 2}):
                    if new < size:
                        other = program.copy()
                        item = other.inputs[i]
                        item.shape = x.shape[:d] + (new,) + x.shape[d + 1:]
                        if x.style == "values":
                            item.tensor = x.tensor.narrow(d, 0, new).clone()
                        yield other
