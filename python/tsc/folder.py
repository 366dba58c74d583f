"""Folders and packages that `tsc compile -o` wrote, run in this process."""
import torch

from ._config import config
from ._library import Handle
from ._structure import build
from .program import Program


def load_folder(folder, device=None):
    """A callable: inputs by position or by name. It gives what the model did, in the model's own structure, where the
    export kept it, else a tuple; `.flat` gives a tuple of all outputs (constants are None, mutated inputs and buffers
    come first). `device`: "cpu", "cuda" or a torch.device; the GPU if PyTorch has one."""
    device = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    options = {"device": "cuda", "device_index": device.index or 0} if device.type == "cuda" else {"device": "host"}
    options.update(config.options)
    program = Program(Handle.load(folder, options), device)
    names = [info["name"] for info in program.description["inputs"]]

    structure, outputs = program.description["structure"], program.description["outputs"]

    def flat(*inputs, **named):
        given = dict(zip(names, inputs))
        given.update(named)
        missing = [name for name in names if name not in given]
        if missing or len(given) != len(names) or len(inputs) + len(named) != len(names):
            raise TypeError(f"the program takes {names}")
        values = [given[name] for name in names]
        values = [torch.from_dlpack(v) if hasattr(v, "__dlpack__") and not isinstance(v, torch.Tensor) else v
                  for v in values]
        return tuple(program(*values))

    def run(*inputs, **named):
        results = flat(*inputs, **named)
        if structure is None:
            return results
        return build(structure, (r for r, info in zip(results, outputs) if not info["mutation"]))

    run.flat, run.description, run.load_weights = flat, program.description, program.load_weights
    return run
