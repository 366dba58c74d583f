"""The backend of torch.compile."""
import functools

import torch
from torch._dynamo.backends.common import aot_autograd

from . import _tracing
from .compiler import Draws, compile_graph


def _guarded():
    """Positions of parameters and buffers: Dynamo's guards compare their form before each call."""
    context = torch._guards.TracingContext.try_get()
    metadata = context and getattr(context, "fw_metadata", None)
    return getattr(metadata, "static_input_indices", None) or ()


def _compile(module, example_inputs, kind, draws):
    function = compile_graph(module, kind, () if kind == "backward" else _guarded(), draws)

    def run(inputs):
        given = list(inputs)
        inputs.clear()  # the caller's references go: what is dead can be freed
        results = function(*given)
        return list(results) if isinstance(results, (list, tuple)) else [results]

    run._boxed_call = True
    return run


def backend(module, example_inputs, **options):
    draws = Draws()
    compilers = {name: functools.partial(_compile, kind=kind, draws=draws) for name, kind in (
        ("fw_compiler", "forward"), ("bw_compiler", "backward"), ("inference_compiler", "inference"))}
    with _tracing.kept():
        # Inputs that the module writes to are written by its programs, not copied into afterwards.
        return aot_autograd(**compilers, keep_inference_input_mutations=True)(module, example_inputs)
