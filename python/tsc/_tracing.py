"""What a few operators are while a graph is traced for tsc.

Resampling stays an operator: PyTorch's own Python implementations write it as lookups of each neighbour, whose gradients
are as many additions at run-time indices; tsc has a kernel for either. A norm by mean squares over sizes that are symbols is
written out: on a GPU PyTorch's operator takes no symbols, and numbers that are none would stand in the graph."""
import contextlib
import threading

import torch

_aten = torch.ops.aten
_NAMES = ("upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d", "_upsample_nearest_exact1d", "_upsample_nearest_exact2d",
          "_upsample_nearest_exact3d", "upsample_linear1d", "upsample_bilinear2d", "upsample_trilinear3d", "upsample_bicubic2d")
_KEYS = (torch._C.DispatchKey.Autograd, torch._C.DispatchKey.CompositeImplicitAutograd)
_META = torch._C.DispatchKey.Meta
_lock = threading.Lock()
_users = 0
_hidden = []  # (overload, its Python implementations before)


def _sizes(image, output_size, scale_factors):
    if output_size is not None:
        return list(output_size)
    return [size * int(scale) if int(scale) == scale else torch.sym_int(size * scale)
            for size, scale in zip(image.shape[2:], scale_factors)]


def _of_sizes(operator):
    """The overload that takes scale factors, or sizes, as a call of the one that takes both."""
    def call(image, output_size, *rest):
        *options, scale_factors = rest
        scales = scale_factors or [None] * (image.dim() - 2)
        return operator(image, _sizes(image, output_size, scale_factors), *options, *scales)
    return call


def _shape_of_gradient(gradient, output_size, input_size, *_):
    """PyTorch's own rule does not take sizes that are symbols."""
    format = torch._prims_common.suggest_memory_format(gradient)
    return gradient.new_empty(input_size).contiguous(memory_format=format)


def _rms_norm(input, normalized_shape, weight=None, eps=None):  # noqa: A002 (as the operator names it)
    operator = _aten.rms_norm.default
    if not any(isinstance(size, torch.SymInt) for size in normalized_shape):
        return operator._op_dk(_KEYS[1], input, normalized_shape, weight, eps)
    wide = input.to(torch._prims_common.get_computation_dtype(input.dtype))
    eps = torch.finfo(wide.dtype).eps if eps is None else eps
    y = wide * torch.rsqrt(wide.square().mean(list(range(-len(normalized_shape), 0)), True) + eps)
    return (y if weight is None else y * weight).to(input.dtype)


def _replace(overload, kernels):
    _hidden.append((overload, overload.py_kernels))
    overload.py_kernels = kernels
    overload._dispatch_cache.clear()


def _hide():
    for name in _NAMES:
        packet = getattr(_aten, name, None)
        if packet is None or not hasattr(packet.default, "py_kernels") or not hasattr(packet.default, "_dispatch_cache"):
            continue
        _replace(packet.default, {key: kernel for key, kernel in packet.default.py_kernels.items() if key not in _KEYS})
        _replace(packet.vec, {**packet.vec.py_kernels, **dict.fromkeys(_KEYS, _of_sizes(packet.default))})
        backward = getattr(_aten, name + "_backward").default
        _replace(backward, {_META: _shape_of_gradient, **backward.py_kernels})
    norm = getattr(getattr(_aten, "rms_norm", None), "default", None)
    if norm is not None:
        _replace(norm, {**norm.py_kernels, **dict.fromkeys(_KEYS, _rms_norm)})


def _show():
    while _hidden:
        overload, kernels = _hidden.pop()
        overload.py_kernels = kernels
        overload._dispatch_cache.clear()


@contextlib.contextmanager
def kept():
    """Several threads may trace at once: the last one puts back what the first one took away."""
    global _users
    with _lock:
        _users += 1
        if _users == 1:
            _hide()
    try:
        yield
    finally:
        with _lock:
            _users -= 1
            if _users == 0:
                _show()
