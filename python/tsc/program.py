"""A ready program called with tensors of PyTorch, on the device where it runs."""
import ctypes
import threading

import torch

from ._config import config
from ._library import DTYPES, Tensor, TscError

CODES = {getattr(torch, name): code for code, name in enumerate(DTYPES) if hasattr(torch, name)}
_INT64 = DTYPES.index("int64")
_ALIGNMENT = 16


def _as_parts(tensor):
    """Complex numbers as the library sees them: their parts, in the same memory."""
    tensor = tensor.detach()
    return torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor


class Bound:
    """What is known of the shapes that are bound."""

    def __init__(self, handle, inputs, workspace_bytes):
        self.workspace_bytes = workspace_bytes
        self.input_strides = []
        for position, info in enumerate(inputs):
            strides = (ctypes.c_int64 * max(info["rank"], 1))()
            handle.input(position, strides, None)
            self.input_strides.append(tuple(strides[:info["rank"]]))


class Program:
    """Inputs in the order of the graph's (ints where it has integers), outputs as a list; None for constants."""

    def __init__(self, handle, device):
        self._handle = handle
        self._device = torch.device(device)
        self.description = handle.description
        self._inputs = self.description["inputs"]
        self._outputs = self.description["outputs"]
        self._codes = [CODES[getattr(torch, info["dtype"][len("torch."):])] for info in self._inputs]
        self._lock = threading.Lock()
        self._last = None, None

    def __call__(self, *inputs):
        if len(inputs) != len(self._inputs):
            raise TypeError(f"the program takes {len(self._inputs)} inputs, not {len(inputs)}")
        with torch.no_grad(), self._lock:
            return self._run(inputs)

    def load_weights(self, file):
        """Other weights from here on: those of the file, and for names that it lacks those from before."""
        with self._lock:
            self._last = None, None
            self._handle.load_weights(str(file).encode())

    def _stream(self):
        return torch.cuda.current_stream(self._device).cuda_stream if self._device.type == "cuda" else None

    def _bind(self, tensors, shapes):
        if self._last[0] == shapes:
            return self._last[1]
        array = (Tensor * max(len(tensors), 1))()
        alive = []
        for i, value in enumerate(tensors):
            if self._inputs[i]["is_integer"]:
                alive.append(ctypes.c_int64(value))
                array[i] = Tensor(ctypes.addressof(alive[-1]), _INT64, 0, None, None)
                continue
            sizes = (ctypes.c_int64 * max(value.dim(), 1))(*value.shape)
            alive.append(sizes)
            array[i] = Tensor(None, CODES.get(value.dtype, -1), value.dim(), sizes, None)
        workspace = ctypes.c_size_t()
        self._last = None, None
        try:
            self._handle.bind(array, len(tensors), ctypes.byref(workspace))
        except TscError as error:
            error.is_of_sizes = True  # nothing has run
            raise
        self._last = shapes, Bound(self._handle, self._inputs, workspace.value)
        return self._last[1]

    def _place(self, tensor, strides):
        """The tensor in memory that a run can take: itself wherever it may be."""
        if tensor.device != self._device:
            tensor = tensor.to(self._device)
        fits = all(have == want or size == 1
                   for have, want, size in zip(tensor.stride(), strides, tensor.shape)) or tensor.numel() == 0
        if fits and tensor.data_ptr() % _ALIGNMENT == 0 and not tensor.is_neg():
            return tensor
        placed = torch.empty_strided(tensor.shape, strides, dtype=tensor.dtype, device=self._device)
        return placed.copy_(tensor)

    def _allocate(self, position):
        size = ctypes.c_size_t()
        self._handle.output_bytes(position, ctypes.byref(size))
        return torch.empty(max(size.value, 1), dtype=torch.uint8, device=self._device)

    def _view(self, position, memory):
        info = self._outputs[position]
        rank = max(info["rank"], 1)
        # "rank" counts the dimension of a complex number's parts, as sizes do.
        sizes, strides, offset = (ctypes.c_int64 * (rank + 1))(), (ctypes.c_int64 * (rank + 1))(), ctypes.c_int64()
        self._handle.output(position, sizes, strides, ctypes.byref(offset))
        dtype = getattr(torch, info["dtype"][len("torch."):])
        width = dtype.itemsize
        whole = memory[:memory.numel() // width * width].view(dtype)
        view = torch.as_strided(whole, sizes[:info["rank"]], strides[:info["rank"]], offset.value)
        return torch.view_as_complex(view) if info["is_complex"] else view

    def _run(self, inputs):
        tensors = [value if info["is_integer"] else _as_parts(value) for info, value in zip(self._inputs, inputs)]
        shapes = tuple(value if info["is_integer"] else (value.dtype, tuple(value.shape))
                       for info, value in zip(self._inputs, tensors))
        bound = self._bind(tensors, shapes)
        placed = [None if info["is_integer"] else self._place(tensor, strides)
                  for info, tensor, strides in zip(self._inputs, tensors, bound.input_strides)]
        stream = self._stream()
        if self.description["draws"]:
            seed = int(torch.randint(0, 2**62, (), dtype=torch.int64, device="cpu"))
            self._handle.set_seed(stream, seed, 0)
        memories = [None if info["constant"] is not None or info["mutation"] else self._allocate(i)
                    for i, info in enumerate(self._outputs)]
        workspace = torch.empty(bound.workspace_bytes + 256, dtype=torch.uint8, device=self._device)
        # The allocator aligns to 512 on a GPU and to 64 on the host.
        at = (workspace.data_ptr() + 255) // 256 * 256
        pointers = [(ctypes.c_void_p * max(len(several), 1))(*[None if t is None else t.data_ptr() for t in several])
                    for several in (placed, memories)]
        self._handle.run(stream, pointers[0], pointers[1], at)
        if config.check_runs and self._device.type == "cuda":
            self._handle.check_runs(stream)
        for info, tensor, given in zip(self._inputs, tensors, placed):
            if info["mutated"] and given is not tensor:
                tensor.copy_(given)
        return [None if memory is None else self._view(i, memory) for i, memory in enumerate(memories)]
