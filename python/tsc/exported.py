"""ExportedPrograms as callables."""
import os
import threading

import torch
from torch.export.graph_signature import InputKind, OutputKind
from torch.utils import _pytree as pytree

from .compiler import compile_graph


# PyTorch's own passes are for one thread at a time (2.11). A fork waits for them: the child finds the lock free.
_passes = threading.RLock()
os.register_at_fork(before=_passes.acquire, after_in_parent=_passes.release, after_in_child=_passes.release)


_MUTATIONS = (OutputKind.BUFFER_MUTATION, OutputKind.USER_INPUT_MUTATION)


def _with_writes(exported):
    """(the module, the specifications of its results): what inputs and buffers become is written to them by the module, as AOTAutograd's
    graphs do it (graph.is_write_back), where no such value is itself an input that is written."""
    module, signature = exported.graph_module, exported.graph_signature
    placeholders = {n.name: n for n in module.graph.nodes if n.op == "placeholder"}
    named = {s.target: s.arg.name for s in signature.input_specs if s.kind == InputKind.BUFFER}
    output = next(n for n in module.graph.nodes if n.op == "output")
    writes, results, specs = [], [], []
    for spec, result in zip(signature.output_specs, output.args[0]):
        written = placeholders.get(named.get(spec.target) if spec.kind == OutputKind.BUFFER_MUTATION else spec.target)
        if spec.kind in _MUTATIONS and written is not None and isinstance(result, torch.fx.Node):
            writes.append((written, result))
        else:
            results.append(result)
            specs.append(spec)
    if {written for written, _ in writes} & {result for _, result in writes}:
        return module, signature.output_specs
    with module.graph.inserting_before(output):
        for written, result in writes:
            module.graph.call_function(torch.ops.aten.copy_.default, (written, result)).meta["val"] = written.meta["val"]
    output.args = (tuple(results),)
    module.recompile()
    return module, specs


class ExportedCallable:
    """Called as the exported module was; parameters and buffers are the program's own tensors, not copies."""

    def __init__(self, exported):
        with _passes:
            exported = exported.run_decompositions({})
        self._signature = exported.graph_signature
        self._in_spec, self._out_spec = exported.call_spec.in_spec, exported.call_spec.out_spec
        self._state = dict(exported.state_dict)
        self._constants = dict(exported.constants)
        module, self._results = _with_writes(exported)
        self._function = compile_graph(module, "export")

    def _given(self, spec, user):
        if spec.kind == InputKind.USER_INPUT:
            return next(user)
        for where in (self._state, self._constants):
            if spec.target in where:
                return where[spec.target]
        raise KeyError(f"the exported program has no {spec.target}")

    def __call__(self, *args, **kwargs):
        flat, spec = pytree.tree_flatten((args, kwargs))
        if spec != self._in_spec:
            raise TypeError(f"the arguments have another structure than those of the export: {spec}, not "
                            f"{self._in_spec}")
        flat = [torch.from_dlpack(v) if not isinstance(v, torch.Tensor) and hasattr(v, "__dlpack__") else v
                for v in flat]
        user = iter(flat)
        given = [self._given(s, user) for s in self._signature.input_specs]
        with torch.no_grad():
            results = self._function(*given)
        results = list(results) if isinstance(results, (list, tuple)) else [results]
        outputs = []
        for one, result in zip(self._results, results):
            if one.kind == OutputKind.BUFFER_MUTATION:
                self._buffer(one.target).copy_(result)
            elif one.kind == OutputKind.USER_INPUT_MUTATION:
                position = next(i for i, s in enumerate(self._signature.input_specs)
                                if getattr(s.arg, "name", None) == one.target)
                given[position].copy_(result)
            elif one.kind == OutputKind.USER_OUTPUT:
                outputs.append(result)
        return pytree.tree_unflatten(outputs, self._out_spec)

    def _buffer(self, name):
        return self._state[name] if name in self._state else self._constants[name]


def compile_exported(exported):
    return ExportedCallable(exported)
