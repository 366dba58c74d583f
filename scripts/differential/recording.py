"""From a program to a case: model.pt2, inputs, and what PyTorch computes in eager mode and in float64."""
import contextlib
import dataclasses
import os
import pickle
import re
import warnings

import torch

import comparison
import values
from tensor_files import save_file

warnings.filterwarnings("ignore")
NEAR = 0.3  # the share of the norm bound that eager mode itself may be away from float64


class Rejected(Exception):
    """The program tests nothing of tsc; `reason` is counted."""

    def __init__(self, reason, detail=""):
        super().__init__(reason + (": " + detail if detail else ""))
        self.reason = reason


@dataclasses.dataclass
class Results:
    outputs: list
    mutated: dict  # name -> tensor


def was_written(now, before):
    if now.shape != before.shape:
        return True
    same = (now == before) | ((now != now) & (before != before))
    return not bool(same.all())


def has_duplicates(indices, sizes):
    """Whether some elements that `indices` (one a size, None for all) name are one."""
    given = [i % max(n, 1) for i, n in zip(indices, sizes) if i is not None]
    rows = torch.stack([i.reshape(-1) for i in torch.broadcast_tensors(*given)], 1)
    return rows.unique(dim=0).shape[0] != rows.shape[0]


class Unsaid(torch.utils._python_dispatch.TorchDispatchMode):
    """Rejects a run that asks for what PyTorch does not say: which of several equal elements is the k-th, where something
    stands in a sequence that is not sorted, which integer a float beyond the integers is, which sign a NaN has, which of several
    values stays that are stored in one place."""
    supports_higher_order_operators = True
    ORDERED = {"topk": 2, "kthvalue": 2, "median": 1, "nanmedian": 1, "mode": 1}  # the position of dim

    def __torch_dispatch__(self, function, types, arguments=(), named=None):
        named = named or {}
        if not isinstance(function, torch._ops.OpOverload):
            return function(*arguments, **named)
        name = function.overloadpacket.__name__
        if name in self.ORDERED and len(function._schema.returns) == 2:
            at = self.ORDERED[name]
            self.check_ties(name, arguments[0], arguments[at] if len(arguments) > at else named.get("dim", -1))
        elif name == "searchsorted" and named.get("sorter") is None:
            self.check_sorted(arguments[0])
        elif name == "bucketize":
            self.check_sorted(arguments[1])
        elif name == "_to_copy" and named.get("dtype") is not None:
            self.check_range(arguments[0], named["dtype"])
        elif name == "copy_":
            self.check_range(arguments[1], arguments[0].dtype)
        elif name.rstrip("_") in ("signbit", "copysign"):
            self.check_sign_of(arguments[-1])
        elif name in self.STORES:
            self.check_places(name, *arguments, **named)
        return function(*arguments, **named)

    @staticmethod
    def check_ties(name, x, d):
        if x.dim() and x.shape[d] > 1:
            ordered = x.sort(d).values
            first, second = ordered.narrow(d, 0, x.shape[d] - 1), ordered.narrow(d, 1, x.shape[d] - 1)
            if bool(((first == second) | second.isnan()).any()):
                raise Rejected("ties", name)

    STORES = ("index_put", "index_put_", "_unsafe_index_put", "put", "put_", "index_copy", "index_copy_", "scatter", "scatter_")

    @staticmethod
    def check_places(name, x, *rest, accumulate=False, reduce=None, **named):
        rest = list(rest) + list(named.values())
        if accumulate or reduce or any(isinstance(a, (bool, str)) and a for a in rest):
            return
        indices, sizes = rest[0], x.shape
        if name.startswith("put"):
            indices, sizes = [indices], [x.numel()]
        elif not isinstance(indices, (list, tuple)):  # (dim, index, source)
            dim, index = rest[0] % max(x.dim(), 1), rest[1]
            if not isinstance(rest[2], torch.Tensor):
                return
            indices, sizes = [index], [x.shape[dim] if x.dim() else 1]
            if name.startswith("scatter") and x.dim():
                places = torch.meshgrid(*[torch.arange(n) for n in index.shape], indexing="ij") if index.dim() else [index]
                indices, sizes = [index if d == dim else p for d, p in enumerate(places)], x.shape
        if any(i is not None and i.dtype in (torch.bool, torch.uint8) for i in indices):
            return
        source = rest[1] if isinstance(rest[0], (list, tuple)) else rest[-1]
        if isinstance(source, torch.Tensor) and source.numel() == 1:
            return
        if has_duplicates(indices, sizes):
            raise Rejected("several values for one place", name)

    @staticmethod
    def check_sorted(x):
        if not torch.equal(x.nan_to_num(), x.sort(-1).values.nan_to_num()):
            raise Rejected("not sorted")

    @staticmethod
    def check_sign_of(x):
        if isinstance(x, torch.Tensor) and bool(x.isnan().any()):
            raise Rejected("the sign of a NaN")

    @staticmethod
    def check_range(x, dtype):
        if x.is_floating_point() and not dtype.is_floating_point and dtype != torch.bool and x.numel():
            info = torch.iinfo(dtype)
            wide = x.double().trunc()
            if not bool(((wide >= info.min) & (wide <= min(info.max, 2.0**62))).all()):
                raise Rejected("floats beyond the integers")


def run_module(module, names, arguments):
    """`module` may be a module or what torch.export gives back; names are those of the arguments."""
    watched = dict(zip(names, arguments)) | dict(module.named_buffers())
    before = {n: x.detach().clone() for n, x in watched.items()}
    with torch.no_grad():
        outputs = module(*arguments)
        outputs = [x.detach().clone().contiguous() for x in outputs]
    mutated = {n: x.detach().clone().contiguous() for n, x in watched.items() if was_written(x, before[n])}
    return Results(outputs, mutated)


def eager(program, symbols, wide=False):
    arguments = program.arguments(symbols)
    module = program.module(wide)
    if wide:
        arguments = tuple(x.double() if x.is_floating_point() else x for x in arguments)
        torch.set_default_dtype(torch.float64)
    try:
        with contextlib.nullcontext() if wide else Unsaid():
            return run_module(module, [x.name for x in program.user_inputs()], arguments)
    finally:
        torch.set_default_dtype(torch.float32)


def run_exported(exported, names, arguments):
    """As run_module; the archive keeps the values that its buffers had before."""
    held = list(exported.state_dict.values()) + [x for x in exported.constants.values() if isinstance(x, torch.Tensor)]
    before = [x.detach().clone() for x in held]
    try:
        return run_module(exported.module(), names, arguments)
    finally:
        with torch.no_grad():
            for x, value in zip(held, before):
                x.copy_(value)


def export(program):
    def shapes(dims):
        return {x.name: {i: dims[s] for i, s in enumerate(x.shape) if isinstance(s, str)} or None for x in program.user_inputs()}

    def run(dynamic_shapes):
        return torch.export.export(program.module(), program.arguments(), dynamic_shapes=dynamic_shapes, strict=False)

    with torch.no_grad():
        if not program.symbols:
            exported = run(None)
        else:
            automatic = {s: torch.export.Dim.AUTO for s in program.symbols}
            try:
                named = program.named_sizes and {s: torch.export.Dim(s, min=program.named_sizes[s], max=64) for s in program.symbols}
                exported = run(shapes(named or automatic))
            except Exception:  # the program holds for some sizes only
                if not program.named_sizes:
                    raise
                program.named_sizes = {}
                exported = run(shapes(automatic))
        return exported.run_decompositions() if program.decomposed else exported


def check_reference(what, result, reference):
    """Rejects what float64 says is chaos, or an accident of eager mode."""
    if result.dtype not in comparison.RULES:
        if result.shape == reference.shape and torch.equal(result, reference.to(result.dtype)):
            return
        raise Rejected("chaos: integers", what)
    if result.shape != reference.shape or not reference.is_floating_point():
        raise Rejected("chaos: shapes", what)
    rounded = reference.to(result.dtype)
    if not torch.equal(result.isnan(), rounded.isnan()) or not torch.equal(result.isinf(), rounded.isinf()):
        raise Rejected("chaos: NaN or infinity", what)
    reason = comparison.disagreement(result, rounded, reference, slack=NEAR, use_eager=False)
    if reason and reason.startswith("relative"):
        raise Rejected("chaos: norm", f"{what} {reason}")
    reason = comparison.disagreement(result, rounded, reference, slack=10.0, use_eager=False)
    if reason:
        raise Rejected("chaos: elements", f"{what} {reason}")


def pairs(a, b):
    """(name, tensor of a, tensor of b) of everything that both hold."""
    for i, (x, y) in enumerate(zip(a.outputs, b.outputs)):
        yield f"output_{i}", x, y
    for name in a.mutated:
        if name in b.mutated:
            yield f"mutated_{name}", a.mutated[name], b.mutated[name]


def reference_name(name):
    return "ref_" + name.removeprefix("output_")


@dataclasses.dataclass
class Case:
    program: object
    exported: object
    inputs: dict
    expected: dict
    operators: list

    def write(self, folder):
        os.makedirs(folder, exist_ok=True)
        torch.export.save(self.exported, os.path.join(folder, "model.pt2"))
        save_file(self.inputs, os.path.join(folder, "inputs.safetensors"))
        save_file(self.expected, os.path.join(folder, "expected.safetensors"))
        with open(os.path.join(folder, "prog.py"), "w") as file:
            file.write(self.program.text())
        with open(os.path.join(folder, "program.pickle"), "wb") as file:
            pickle.dump(self.program, file)


def operators_of(exported):
    """Targets of all nodes, subgraphs included, in order."""
    found = []
    for module in exported.graph_module.modules():
        if isinstance(module, torch.fx.GraphModule):
            for node in module.graph.nodes:
                if node.op == "call_function":
                    target = node.target
                    name = str(target)
                    if not isinstance(target, torch._ops.OpOverload):
                        name = f"{getattr(target, '__module__', '')}.{getattr(target, '__name__', name)}".lstrip("_")
                    found.append(name)
    return found


def record(program):
    """Raises Rejected."""
    try:
        results = eager(program, program.symbols)
    except Rejected:
        raise
    except Exception as error:
        raise Rejected("eager refuses", f"{type(error).__name__}: {error}") from error
    try:
        exported = export(program)
    except Exception as error:
        raise Rejected("export refuses", f"{type(error).__name__}: {error}") from error
    names = [x.name for x in program.user_inputs()]
    symbols = program.symbols
    if program.other_symbols:
        try:
            other = eager(program, program.other_symbols)
            run_exported(exported, names, program.arguments(program.other_symbols))
            results, symbols = other, program.other_symbols
        except Rejected:
            raise
        except Exception:
            program.other_symbols = {}
    try:
        wide = eager(program, symbols, wide=True)
        moved = None
        if any(x.dtype == torch.float64 for _, x, _ in pairs(results, wide)):
            moved = eager(perturbed(program, 0, 4), symbols, wide=True)
    except Exception as error:
        raise Rejected("no float64 reference", f"{type(error).__name__}: {error}") from error
    for name, x, y in pairs(results, wide):
        check_reference(name, x, y)
    arguments = program.arguments(symbols)
    try:
        again = run_exported(exported, names, arguments)
    except Exception as error:
        raise Rejected("exported program fails", f"{type(error).__name__}: {error}") from error
    references = {name: y for name, x, y in pairs(results, wide) if x.is_floating_point()}
    specs = zip(exported.graph_signature.output_specs, next(n for n in exported.graph.nodes if n.op == "output").args[0])
    recorded = [getattr(n, "meta", {}).get("val") for spec, n in specs if spec.kind.name == "USER_OUTPUT"]
    for x, meta in zip(results.outputs, recorded):
        if isinstance(x, torch.Tensor) and isinstance(meta, torch.Tensor) and x.dtype != meta.dtype:
            raise Rejected("PyTorch computes another dtype than it records", f"{x.dtype}, {meta.dtype}")
    for node in exported.graph.nodes:
        # Every row of a result of one column is PyTorch's first (CPU, 2.11).
        if "linear2d_aa" in str(node.target) or "cubic2d_aa" in str(node.target):
            if node.meta["val"].shape[-1] == 1:
                raise Rejected("antialiased into one column", str(node.target))
    for name, x, y in pairs(results, again):
        reason = comparison.disagreement(y, x, references.get(name))
        if reason:
            raise Rejected("exported program differs from eager", f"{name} {reason}")
    if set(results.mutated) != set(again.mutated):
        raise Rejected("exported program mutates something else", f"{set(results.mutated)} {set(again.mutated)}")
    expected = {f"output_{i}": x for i, x in enumerate(results.outputs)}
    expected |= {f"mutated_{n}": x for n, x in results.mutated.items()}
    for name, x, y in pairs(results, moved) if moved else []:
        if x.dtype == torch.float64 and x.shape == y.shape:
            check_reference(name, x, y)
            references[name] = y  # nothing wider is known: how far results go when inputs go some ulps is what may be wrong
    for name, reference in references.items():
        narrow = expected[name].dtype in (torch.float16, torch.bfloat16)
        expected[reference_name(name)] = reference.to(torch.float32) if narrow else reference
    inputs = {n: x.contiguous().clone() for n, x in zip(names, program.arguments(symbols))}
    return Case(program, exported, inputs, {n: x.contiguous().clone() for n, x in expected.items()}, operators_of(exported))


def moved(tensor, ulps, generator):
    """Floats, each moved by up to so many units in the last place."""
    step = torch.randint(-ulps, ulps + 1, tensor.shape, generator=generator).double() * comparison.RULES[tensor.dtype][2]
    return (tensor.double() * (1 + step)).to(tensor.dtype)


def perturbed(program, seed, ulps=2):
    """The same program, every float of its inputs moved by up to so many ulps."""
    other = program.copy()
    generator = torch.Generator().manual_seed(seed)
    for x in other.inputs:
        tensor = x.make(program.other_symbols or program.symbols).contiguous()
        if tensor.is_floating_point():
            tensor = moved(tensor, ulps, generator)
        x.tensor, x.style = tensor, "values"
    return other


class Noise(torch.utils._python_dispatch.TorchDispatchMode):
    """Moves what an operator computes by up to half a unit in the last place, as another order of its sums or a rounding that is
    left out does. What moves values unchanged is left alone."""
    EXACT = re.compile(r"clone|cat|stack|index|gather|scatter|select|slice|flip|roll|where|mask|sort|topk|max|min|pad|embedding|repeat|tri|diag|copy|fill|zeros"
                       r"|ones|full|arange|eye|linspace|empty|_to|clamp|relu|abs|neg|sign|floor|ceil|round|trunc|fold|take|put|view|item|scalar|kthvalue|median")

    LINEAR = {"mm", "bmm", "addmm", "baddbmm", "addbmm", "addmv", "mv", "dot", "vdot", "addr", "linear", "matmul", "convolution", "sum", "mean", "nansum", "cumsum", "trace"}

    supports_higher_order_operators = True

    def __init__(self, seed, steps=1):
        super().__init__()
        self.generator = torch.Generator().manual_seed(seed)
        self.steps = steps

    def __torch_dispatch__(self, function, types, arguments=(), named=None):
        result = function(*arguments, **(named or {}))
        if not isinstance(function, torch._ops.OpOverload) or self.EXACT.search(function.overloadpacket.__name__) or any(r.alias_info is not None for r in function._schema.returns):
            return result
        name = function.overloadpacket.__name__
        cancelled = self.cancellation(name, arguments)
        if name in ("var", "std", "var_mean", "std_mean"):
            cancelled = self.distance(name, arguments, named or {})
            first = self.moved(result[0] if isinstance(result, tuple) else result, cancelled).abs_()
            return (first, self.moved(result[1], torch.full_like(result[1], float(arguments[0].abs().max()), dtype=torch.float64))) if isinstance(result, tuple) else first
        if name in self.LINEAR and isinstance(result, torch.Tensor):
            return self.moved(result, self.terms(function, arguments, named or {}, result))
        if isinstance(result, (tuple, list)):
            first = None if cancelled is None else cancelled.reshape(result[0].shape)
            return type(result)(self.moved(x, first if i == 0 else None) for i, x in enumerate(result))
        return self.moved(result)

    @staticmethod
    def terms(function, arguments, named, result):
        """How large the terms of a sum are that cancel each other, in ulps of the result's dtype: sums are in float32 at least. Of float64 nobody
        knows more digits than PyTorch has: it gets what the roundings of so many terms add up to."""
        if result.dtype not in comparison.RULES or not result.numel():
            return None
        largest = function(*(x.abs() if isinstance(x, torch.Tensor) and x.is_floating_point() else x for x in arguments), **named).double()
        if result.dtype == torch.float64:
            return largest * max(1.0, arguments[0].numel() / result.numel()) ** 0.5
        if "add" in function.overloadpacket.__name__ or function.overloadpacket.__name__ == "linear":
            return largest  # a product of 16-bit floats may be rounded before the bias is added
        return largest * (4 * comparison.RULES[torch.float32][2] / comparison.RULES[result.dtype][2] if result.dtype != torch.float32 else 1.0)

    @staticmethod
    def distance(name, arguments, named):
        """What a rounding of the mean may become in a deviation or a variance, in ulps: nothing else is left of equal numbers."""
        x = arguments[0].detach().double().abs()
        dims = named.get("dim", next((a for a in arguments[1:] if isinstance(a, (list, tuple))), None))
        largest = x.amax(list(dims) if dims else list(range(x.dim())), keepdim=bool(named.get("keepdim", False)) or any(a is True for a in arguments[3:])) if x.numel() else None
        if largest is None or arguments[0].dtype not in comparison.RULES:
            return None
        spread = largest if "std" in name else largest.square() * comparison.RULES[arguments[0].dtype][2]
        return spread if arguments[0].dtype != torch.float64 else spread + (arguments[0].numel() / largest.numel()) ** 0.5 * (largest if "std" in name else largest.square())

    @staticmethod
    def cancellation(name, arguments):
        """What a rounding of the operands of (x - mean) * rstd may become in the result, in ulps: nothing else is left where a row is constant."""
        x = arguments[0] if arguments and isinstance(arguments[0], torch.Tensor) and arguments[0].is_floating_point() and arguments[0].numel() else None
        if x is None or "norm" not in name:
            return None
        wide = x.double().contiguous()
        if name == "native_layer_norm":
            rows = wide.reshape(-1, max(1, int(torch.tensor(arguments[1]).prod())))
        elif name == "native_group_norm":
            rows = wide.reshape(arguments[3] * arguments[6], -1)
        elif name in ("native_batch_norm", "_native_batch_norm_legit", "_native_batch_norm_legit_functional") and x.dim() > 1:
            rows = wide.transpose(0, 1).reshape(x.shape[1], -1)
        else:
            return None
        most = (rows.abs().amax(1, keepdim=True) * (rows.var(1, unbiased=False, keepdim=True) + 1e-5).rsqrt()).expand_as(rows)
        if "batch" in name:
            return most.reshape(x.shape[1], x.shape[0], *x.shape[2:]).transpose(0, 1)
        return most

    def moved(self, x, cancelled=None):
        if not isinstance(x, torch.Tensor) or x.dtype not in comparison.RULES or not x.numel():
            return x
        step = torch.randint(-self.steps, self.steps + 1, x.shape, generator=self.generator) * (comparison.RULES[x.dtype][2] / 2)
        scale = x.double() if cancelled is None else torch.maximum(x.double().abs(), cancelled.reshape(x.shape))
        moved = x.double() + scale * step
        if cancelled is not None:  # nothing but roundings: exact arithmetic leaves nothing
            moved[(moved.abs() <= 4 * comparison.RULES[x.dtype][2] * scale) & (step == 0)] = 0
        x.copy_(moved.to(x.dtype))
        return x


def is_fragile(program):
    """Whether tiny changes of the inputs, or roundings of the last place on the way, change a discontinuous result, or a float
    beyond its bound: then nothing is said by a difference."""
    symbols = program.other_symbols or program.symbols
    plain = eager(program, symbols)
    wide = eager(program, symbols, wide=True)
    for seed in range(5):
        with Noise(seed, steps=min(1, seed)):  # without a step all that is left of cancelled terms is zero, as in exact arithmetic
            noisy = eager(program, symbols)
        moved = eager(perturbed(program, seed), symbols)
        references = {name: v for name, _, v in pairs(plain, wide)}
        for other, slack in ((moved, 8.0), (noisy, 1.0)):
            for name, x, y in pairs(plain, other):
                if x.dtype not in comparison.RULES:
                    if not torch.equal(x, y):
                        return True
                elif comparison.disagreement(y, x, references.get(name), slack=0.5 if x.dtype == torch.float64 else slack):
                    return True  # of float64 nothing more exact is known
    return False
