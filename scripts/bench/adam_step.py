"""Exports one step of Adam over lists of tensors (foreach) to a model.json: many small kernels that may share launches.

    python3 scripts/bench/adam_step.py [--width 768] [--layers 12] OUT.json
    tsc run OUT.json --device cuda --inputs random --weights random --bench
    tsc run OUT.json --device cuda --inputs random --weights random --bench --combo-kernels=off

The tensors are those of a transformer: per layer four matrices and eight vectors. Needs torch.
"""
import argparse
import io
import json
import zipfile

import torch
import torch.optim.adam as adam_module


class AdamStep(torch.nn.Module):
    def __init__(self, shapes):
        super().__init__()
        for i, shape in enumerate(shapes):
            for kind in ("parameter", "mean", "variance"):
                self.register_buffer(f"{kind}{i}", torch.zeros(shape))
            self.register_buffer(f"steps{i}", torch.zeros(()))

    def forward(self, *gradients):
        def of(kind):
            return [getattr(self, f"{kind}{i}") for i in range(len(gradients))]
        adam_module.adam(of("parameter"), list(gradients), of("mean"), of("variance"), [], of("steps"), foreach=True, capturable=True,
                         differentiable=False, fused=False, grad_scale=None, found_inf=None, has_complex=False, amsgrad=False,
                         beta1=0.9, beta2=0.999, lr=1e-3, weight_decay=0.0, eps=1e-8, maximize=False)
        return self.steps0 + 1  # an export needs a result


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--width", type=int, default=768)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("out")
    arguments = parser.parse_args()
    w = arguments.width
    shapes = [(3 * w, w), (w, w), (4 * w, w), (w, 4 * w), (3 * w,), (w,), (4 * w,), (w,), (w,), (w,), (w,), (w,)] * arguments.layers
    adam_module._get_capturable_supported_devices = lambda *a, **k: ["cpu", "cuda"]
    with torch.no_grad():
        program = torch.export.export(AdamStep(shapes), tuple(torch.zeros(shape) for shape in shapes), strict=False)
    buffer = io.BytesIO()
    torch.export.save(program, buffer)
    archive = zipfile.ZipFile(buffer)
    model = json.loads(archive.read(next(n for n in archive.namelist() if n.endswith("models/model.json"))))
    with open(arguments.out, "w") as file:
        json.dump(model, file)


if __name__ == "__main__":
    main()
