"""A ready program called with tensors of PyTorch, on the device where it runs."""
import ctypes
import operator
import threading

import torch

from ._config import config
from ._library import ALIGNMENT, DTYPES, Tensor, TscError

CODES = {getattr(torch, name): code for code, name in enumerate(DTYPES) if hasattr(torch, name)}
_INT64 = DTYPES.index("int64")


def _as_parts(tensor):
    """Complex numbers as the library sees them: their parts, in the same memory."""
    tensor = tensor.detach()
    return torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor


class Output:
    """How an output lies in memory of its own."""

    def __init__(self, handle, position, info):
        # "rank" counts the dimension of a complex number's parts, as sizes do.
        rank = info["rank"]
        size, offset = ctypes.c_size_t(), ctypes.c_int64()
        sizes, strides = (ctypes.c_int64 * (rank + 1))(), (ctypes.c_int64 * (rank + 1))()
        handle.output_bytes(position, ctypes.byref(size))
        handle.output(position, sizes, strides, ctypes.byref(offset))
        self.bytes, self.offset = max(size.value, 1), offset.value
        self.sizes, self.strides = tuple(sizes[:rank]), tuple(strides[:rank])
        self.dtype, self.is_complex = getattr(torch, info["dtype"][len("torch."):]), info["is_complex"]
        extent = 1 + sum((n - 1) * s for n, s in zip(self.sizes, self.strides))
        self.is_whole = not (self.offset or self.is_complex or 0 in self.sizes) and \
            extent * self.dtype.itemsize == self.bytes

    def view(self, memory):
        width = self.dtype.itemsize
        whole = memory[:memory.numel() // width * width].view(self.dtype)
        view = torch.as_strided(whole, self.sizes, self.strides, self.offset)
        return torch.view_as_complex(view) if self.is_complex else view

    def allocate(self, device):
        """The memory and what is seen of it."""
        if self.is_whole:
            tensor = torch.empty_strided(self.sizes, self.strides, dtype=self.dtype, device=device)
            return tensor, tensor
        memory = torch.empty(self.bytes, dtype=torch.uint8, device=device)
        return memory, self.view(memory)


class Bound:
    """What is known of the shapes that are bound."""

    def __init__(self, handle, inputs, outputs, workspace_bytes):
        self.workspace_bytes = workspace_bytes
        self.input_layouts = []
        for position, info in enumerate(inputs):
            strides, offset = (ctypes.c_int64 * max(info["rank"], 1))(), ctypes.c_int64()
            handle.input(position, strides, None)
            handle.input_offset(position, ctypes.byref(offset))
            self.input_layouts.append((tuple(strides[:info["rank"]]), offset.value))
        try:
            self.outputs = [None if info["constant"] is not None or info["mutation"] else Output(handle, i, info)
                            for i, info in enumerate(outputs)]
        except TscError:  # a run decides the sizes
            self.outputs = None


_address = torch.Tensor.data_ptr


def _memory_of(tensor, offset):
    """The address of the memory in which the tensor begins `offset` elements behind the start."""
    return tensor.data_ptr() - offset * tensor.element_size()


def _lies_at(tensor, offset):
    """Whether the tensor begins `offset` elements behind an aligned place of its own storage."""
    return tensor.storage_offset() >= offset and _memory_of(tensor, offset) % ALIGNMENT == 0


class Repeat:
    """What a run lets the next one skip: inputs in the same form have but their addresses looked at."""

    def __init__(self, bound, placed, values, guarded):
        """`values`: the inputs, `placed`: those that are tensors, all taken where they were. `guarded`: positions of
        inputs whose form is the caller's to watch."""
        self.bound = bound
        self.offsets = [offset for _, offset in bound.input_layouts]
        self.array = (ctypes.c_void_p * max(len(values), 1))()
        self.forms = []
        for position, (tensor, value) in enumerate(zip(placed, values)):
            self.forms.append(value if tensor is None else (tensor.dtype, tensor.shape, tensor.stride(), tensor.device))
            self.array[position] = None if tensor is None else _memory_of(tensor, self.offsets[position])
        self.guarded = [i for i in guarded if placed[i] is not None]
        self.pick = operator.itemgetter(*self.guarded) if len(self.guarded) > 1 else \
            (lambda inputs: [inputs[i] for i in self.guarded])
        self.guarded_at = [placed[i].data_ptr() for i in self.guarded]
        watched = set(self.guarded)
        self.others = [i for i in range(len(values)) if i not in watched]
        self.outputs = (ctypes.c_void_p * max(len(bound.outputs), 1))()

    def _fits(self, position, value):
        form = self.forms[position]
        if not isinstance(form, tuple):
            return value == form
        dtype, shape, strides, device = form
        return (value.dtype is dtype and value.shape == shape and value.stride() == strides and value.device == device
                and _lies_at(value, self.offsets[position]) and not value.is_neg())

    def take(self, inputs):
        """The inputs' addresses into `array`; False if one has another form than before."""
        now = [*map(_address, self.pick(inputs))]
        if now != self.guarded_at:
            for position, at, before in zip(self.guarded, now, self.guarded_at):
                if at != before:
                    if not self._fits(position, inputs[position]):
                        return False
                    self.array[position] = _memory_of(inputs[position], self.offsets[position])
            self.guarded_at = now
        for position in self.others:
            if not self._fits(position, inputs[position]):
                return False
            if isinstance(self.forms[position], tuple):
                self.array[position] = _memory_of(inputs[position], self.offsets[position])
        return True


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
        self._repeat = None
        self._plain = not any(info["is_complex"] for info in self._inputs)
        #: Positions of inputs whose sizes, strides and dtype somebody else compares before each call (Dynamo's guards).
        self.guarded = ()

    def __call__(self, *inputs):
        if len(inputs) != len(self._inputs):
            raise TypeError(f"the program takes {len(self._inputs)} inputs, not {len(inputs)}")
        with torch.no_grad(), self._lock:
            repeat = self._repeat
            if repeat is not None and repeat.take(inputs):
                return self._run_again(repeat)
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
        self._last, self._repeat = (None, None), None
        try:
            self._handle.bind(array, len(tensors), ctypes.byref(workspace))
        except TscError as error:
            error.is_of_sizes = True  # nothing has run
            raise
        self._last = shapes, Bound(self._handle, self._inputs, self._outputs, workspace.value)
        return self._last[1]

    def _place(self, tensor, strides, offset):
        """The tensor in memory that a run can take: itself wherever it may be."""
        if tensor.device != self._device:
            tensor = tensor.to(self._device)
        fits = all(have == want or size == 1
                   for have, want, size in zip(tensor.stride(), strides, tensor.shape)) or tensor.numel() == 0
        if fits and _lies_at(tensor, offset) and not tensor.is_neg():
            return tensor
        extent = 0 if tensor.numel() == 0 else 1 + sum((n - 1) * s for n, s in zip(tensor.shape, strides))
        memory = torch.empty(offset + extent, dtype=tensor.dtype, device=self._device)
        return memory.as_strided(tensor.shape, strides, offset).copy_(tensor)

    def _allocate(self, position):
        size = ctypes.c_size_t()
        self._handle.output_bytes(position, ctypes.byref(size))
        return torch.empty(max(size.value, 1), dtype=torch.uint8, device=self._device)

    def _workspace(self, bound):
        """Memory, and where in it a run may start: the allocator aligns to 512 on a GPU and to 64 on the host."""
        memory = torch.empty(bound.workspace_bytes + 256, dtype=torch.uint8, device=self._device)
        return memory, (memory.data_ptr() + 255) // 256 * 256

    def _seed(self, stream):
        if self.description["draws"]:
            seed = int(torch.randint(0, 2**62, (), dtype=torch.int64, device="cpu"))
            self._handle.set_seed(stream, seed, 0)

    def _queue(self, stream, inputs, outputs, at):
        self._seed(stream)
        self._handle.run(stream, inputs, outputs, at)
        if config.check_runs and self._device.type == "cuda":
            self._handle.check_runs(stream)

    def _run_again(self, repeat):
        """Of inputs in the form of the last run, whose addresses `repeat` holds."""
        views = []
        for i, output in enumerate(repeat.bound.outputs):
            if output is None:
                views.append(None)
                continue
            memory, view = output.allocate(self._device)
            repeat.outputs[i] = memory.data_ptr()
            views.append(view)
        workspace, at = self._workspace(repeat.bound)
        self._queue(self._stream(), repeat.array, repeat.outputs, at)
        return views

    def _run(self, inputs):
        tensors = [value if info["is_integer"] else _as_parts(value) for info, value in zip(self._inputs, inputs)]
        shapes = tuple(value if info["is_integer"] else (value.dtype, tuple(value.shape))
                       for info, value in zip(self._inputs, tensors))
        bound = self._bind(tensors, shapes)
        placed = [None if info["is_integer"] else self._place(tensor, *layout)
                  for info, tensor, layout in zip(self._inputs, tensors, bound.input_layouts)]
        memories = [None if info["constant"] is not None or info["mutation"] else self._allocate(i)
                    for i, info in enumerate(self._outputs)]
        workspace, at = self._workspace(bound)
        given = (ctypes.c_void_p * max(len(placed), 1))(*[None if t is None else _memory_of(t, offset)
                                                          for t, (_, offset) in zip(placed, bound.input_layouts)])
        taken = (ctypes.c_void_p * max(len(memories), 1))(*[None if t is None else t.data_ptr() for t in memories])
        self._queue(self._stream(), given, taken, at)
        for info, tensor, used in zip(self._inputs, tensors, placed):
            if info["mutated"] and used is not tensor:
                tensor.copy_(used)
        if self._plain and bound.outputs is not None and all(p is None or p is t for p, t in zip(placed, tensors)):
            self._repeat = Repeat(bound, placed, inputs, self.guarded)
        described = bound.outputs or [None if memory is None else Output(self._handle, i, self._outputs[i])
                                      for i, memory in enumerate(memories)]
        return [None if memory is None else output.view(memory) for output, memory in zip(described, memories)]
