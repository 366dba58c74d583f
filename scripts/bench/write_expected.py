"""Writes a workload's inputs, weights and PyTorch's results on the GPU, for `tsc run --inputs --weights --expect`.

    python3 scripts/bench/write_expected.py NAME FOLDER

FOLDER/NAME.inputs.safetensors, NAME.weights.safetensors (if there are any), NAME.expected.safetensors (output_N eager,
reference_N computed in float64).
"""
import os
import sys

import torch
from safetensors.torch import save_file

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from workloads import WORKLOADS  # noqa: E402


def as_list(result):
    return list(result) if isinstance(result, tuple) else [result]


def main():
    name, folder = sys.argv[1:3]
    torch.manual_seed(1)
    module, inputs = WORKLOADS[name]()
    module = module.eval()
    path = os.path.join(folder, name)
    with torch.no_grad():
        save_file({f"input_{i}": x.contiguous() for i, x in enumerate(inputs)}, path + ".inputs.safetensors")
        weights = {k: v.detach().clone().contiguous() for k, v in module.state_dict().items()}
        if weights:
            save_file(weights, path + ".weights.safetensors")
        expected = {f"output_{i}": x.contiguous().cpu() for i, x in enumerate(as_list(module(*inputs)))}
        wide = module.double()(*[x.double() if x.is_floating_point() else x for x in inputs])
        expected.update({f"reference_{i}": x.contiguous().cpu() for i, x in enumerate(as_list(wide))})
        save_file(expected, path + ".expected.safetensors")


main()
