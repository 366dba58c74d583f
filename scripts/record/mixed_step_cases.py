"""Records whole training steps in mixed precision from PyTorch, for tests/cases/mixed_steps.

    python3 scripts/record/mixed_step_cases.py

The steps are SMALL of scripts/bench/training_workloads.py: each takes its batch and its state and gives the loss and the next state. Recorded are
the graph, the inputs (rounded to bfloat16's numbers, so that they pack well) and
    NAME/losses, NAME/wide_losses    20 losses, each step going on from the state that the last one gave: in PyTorch's mixed precision on
                                     the CPU, and in float64
tests/cases/mixed_steps_test.cpp expects losses that are as near to float64's as PyTorch's own.
"""
import os
import sys
import warnings

import torch
from torch.fx.experimental.proxy_tensor import make_fx

from recorder import Family, model_of

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "bench"))
import training_workloads  # noqa: E402

warnings.filterwarnings("ignore")
STEPS = 20


def losses_of(module, inputs, dtype):
    inputs = [x.to(dtype) if x.is_floating_point() and dtype == torch.float64 else x for x in inputs]
    losses = []
    for _ in range(STEPS):
        loss, *state = module(*inputs)
        losses.append(loss)
        inputs = inputs[:len(inputs) - len(state)] + state
    return torch.stack(losses)


def main():
    c = Family("mixed_steps")
    for name, make in training_workloads.SMALL.items():
        torch.manual_seed(11)
        module, inputs = make()
        inputs = [x.to(torch.bfloat16).to(x.dtype) if x.is_floating_point() else x for x in inputs]
        with torch.no_grad():
            losses, wide = losses_of(module, inputs, torch.float32), losses_of(module, inputs, torch.float64)
            program = torch.export.export(make_fx(module.f)(*inputs), tuple(inputs), strict=False)
        assert losses[-1] < 0.98 * losses[0], (name, losses)
        c.graphs.append({"name": name, "model": model_of(program)})
        for i, x in enumerate(inputs):
            c.tensors[f"{name}/input_{i}"] = x.contiguous().clone()
        c.tensors[f"{name}/losses"], c.tensors[f"{name}/wide_losses"] = losses, wide
        print(f"{name}: {float(losses[0]):.4f} to {float(losses[-1]):.4f}, float64 differs by {float((losses - wide).abs().max()):.1e}")
    c.write()


if __name__ == "__main__":
    main()
