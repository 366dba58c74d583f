"""What the export scripts share: saving a program without the machine's folders, and recording what PyTorch computes."""
import copy
import os
import re
import shutil
import struct
import zipfile

import numpy as np
import torch

REPOSITORY = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))


def _roots():
    """Frames keep their path inside the package or the repository, and no folder of the machine."""
    packages = os.path.dirname(os.path.dirname(os.path.abspath(torch.__file__)))
    return [packages + os.sep, REPOSITORY + os.sep]


def _trimmed(trace, frames):
    for root in _roots():
        trace = trace.replace(root, "")
    assert not re.search(r'File "[/\\\\]', trace), trace
    starts = [match.start() for match in re.finditer(r'^ *File "', trace, re.MULTILINE)]
    return trace[starts[-frames]:].lstrip(" ") if frames and len(starts) > frames else trace


def save(program, path, frames=0, packed=False):
    """torch.export.save with the stack traces free of the machine's folders, subgraphs included; `frames`: only the innermost
    ones of each trace and only the innermost module (0: all); `packed`: deflated, else as PyTorch writes it."""
    for module in program.graph_module.modules():
        if not isinstance(module, torch.fx.GraphModule):
            continue
        for node in module.graph.nodes:
            if node.meta.get("stack_trace"):
                node.meta["stack_trace"] = _trimmed(node.meta["stack_trace"], frames)
            if frames and node.meta.get("nn_module_stack"):
                node.meta["nn_module_stack"] = dict(list(node.meta["nn_module_stack"].items())[-1:])
    torch.export.save(program, path)
    if packed:
        _pack(path)


def _pack(path):
    """The same archive deflated, which PyTorch reads, too. What stays stored lies as PyTorch leaves it, 64-byte aligned."""
    packed = f"{path}.packed"
    with zipfile.ZipFile(path) as given, zipfile.ZipFile(packed, "w") as written:
        for info in given.infolist():
            member, data = zipfile.ZipInfo(info.filename, (1980, 1, 1, 0, 0, 0)), given.read(info)
            if len(data) > 64:
                member.compress_type = zipfile.ZIP_DEFLATED
            else:
                begin = written.start_dir + 30 + len(info.filename.encode()) + 4
                member.extra = struct.pack("<2sH", b"FB", -begin % 64) + b"Z" * (-begin % 64)
            written.writestr(member, data, compresslevel=9)
    shutil.move(packed, path)


def decomposed(program):
    # PyTorch 2.11 decomposes the CPU's attention into a tensor of other strides than it has traced, and
    # then fails on the view behind it: keep that operator whole.
    table = torch.export.default_decompositions()
    table.pop(torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default, None)
    return program.run_decompositions(table)


def shake(model, scale=0.05):
    """Fresh norms are the identity and fresh biases zero, which would hide mistakes: moves every parameter and the statistics.
    Then rounds them to bfloat16's numbers: as random as before, and half the bytes when packed."""
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.is_floating_point():
                parameter.add_(torch.randn_like(parameter) * scale)
        for name, buffer in model.named_buffers():
            if name.endswith("running_mean"):
                buffer.add_(torch.randn_like(buffer) * 0.1)
            if name.endswith("running_var"):
                buffer.mul_(torch.rand_like(buffer) + 0.5)
        for name, value in [*model.named_parameters(), *model.named_buffers()]:
            if isinstance(value, torch.nn.Parameter) or name.endswith(("running_mean", "running_var")):
                value.copy_(coarse(value))


def coarse(value):
    """Rounded to bfloat16's numbers, in the same dtype."""
    return value.bfloat16().to(value.dtype) if isinstance(value, torch.Tensor) and value.is_floating_point() else value


def _savez(path, arrays, packed):
    """numpy.savez; `packed`: deflated, and float64 (the references) to 30 bits, far more than any comparison looks at."""
    if not packed:
        np.savez(path, **arrays)
        return
    for name, array in arrays.items():
        if array.dtype == np.float64:
            rounded = ((array.view(np.int64) + (1 << 22)) >> 23 << 23).view(np.float64)
            arrays[name] = np.where(np.isfinite(array) & np.isfinite(rounded), rounded, array)
    np.savez_compressed(path, **arrays)


def _flat(value):
    return [x for x in torch.utils._pytree.tree_flatten(value)[0] if x is not None]


def _widen(value):
    move = lambda x: x.to(torch.promote_types(x.dtype, torch.float64)) if isinstance(x, torch.Tensor) and (x.is_floating_point() or x.is_complex()) else x
    return torch.utils._pytree.tree_map(move, copy.deepcopy(value))


def _widened(model):
    """The model in float64, its complex parameters and buffers in complex128."""
    model = copy.deepcopy(model)
    return model._apply(_widen)


def evaluate(model, inputs):
    """Outputs by position and mutated buffers and inputs by name, of one call on copies of the model and of the inputs."""
    model, inputs = copy.deepcopy(model), copy.deepcopy(inputs)
    before = {name: buffer.clone() for name, buffer in model.named_buffers(remove_duplicate=False)}
    given = [x.clone() if isinstance(x, torch.Tensor) else x for x in _flat(inputs)]
    with torch.no_grad():
        outputs = _flat(model(*inputs))
    mutated = {}
    for name, buffer in model.named_buffers(remove_duplicate=False):
        if not torch.equal(buffer, before[name]):
            mutated[name] = buffer
    for i, (now, old) in enumerate(zip(_flat(inputs), given)):
        if isinstance(now, torch.Tensor) and not torch.equal(now, old):
            mutated[i] = now
    return outputs, mutated


def record(model, inputs, folder, dynamic_shapes=None, with_decomposed=True, frames=0, packed=False, strict=False):
    """Writes default.pt2, decomposed.pt2, inputs.npz and expected.npz (eager in the model's dtype, and float64)."""
    os.makedirs(folder, exist_ok=True)
    inputs = torch.utils._pytree.tree_map(coarse, inputs)
    with torch.no_grad():
        program = torch.export.export(model, inputs, dynamic_shapes=dynamic_shapes, strict=strict)
    save(program, os.path.join(folder, "default.pt2"), frames, packed)
    if with_decomposed:
        save(decomposed(program), os.path.join(folder, "decomposed.pt2"), frames, packed)
    names = program.graph_signature.user_inputs
    values = {}
    for form, (m, x) in {"": (model, inputs), "reference_": (_widened(model), _widen(inputs))}.items():
        try:
            torch.set_default_dtype(torch.float64 if form else torch.float32)  # of what the model makes
            outputs, mutated = evaluate(m, x)
        finally:
            torch.set_default_dtype(torch.float32)
        for i, output in enumerate(outputs):
            values[f"reference_{i}" if form else f"output_{i}"] = output
        for name, value in mutated.items():
            values[f"{form}mutated_{names[name] if isinstance(name, int) else name}"] = value
    arrays = lambda tensors: {k: v.detach().contiguous().numpy() if isinstance(v, torch.Tensor) else np.asarray(v)
                              for k, v in tensors.items()}
    _savez(os.path.join(folder, "expected.npz"), arrays(values), packed)
    _savez(os.path.join(folder, "inputs.npz"), arrays({f"input_{i}": x for i, x in enumerate(_flat(inputs))}), packed)
    return program, values
