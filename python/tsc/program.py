"""A ready program called with tensors of PyTorch, on the device where it runs."""
import ctypes
import os
import threading
import weakref

import torch

from ._config import config
from ._library import ALIGNMENT, DTYPES, Tensor, TscError, _error

CODES = {getattr(torch, name): code for code, name in enumerate(DTYPES) if hasattr(torch, name)}
_INT64 = DTYPES.index("int64")


def _as_parts(tensor):
    """Complex numbers as the library sees them: their parts, in the same memory."""
    tensor = tensor.detach()
    return torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor


def as_tensor(memory, dtype, sizes, strides, offset=0):
    """A tensor over the memory of another. To autograd it is no view of it, since views that were made without gradients may
    not be written in place with them."""
    return torch.empty(0, dtype=dtype, device=memory.device).set_(memory.untyped_storage(), offset, sizes, strides)


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
        if not self.is_complex:
            return as_tensor(memory, self.dtype, self.sizes, self.strides, self.offset)
        halves = tuple(s // 2 for s in self.strides[:-1])
        return as_tensor(memory, self.dtype.to_complex(), self.sizes[:-1], halves, self.offset // 2)

    def allocate(self, device, empty_strided):
        """The memory and what is seen of it. `empty_strided`: of `device`, takes sizes, strides and a dtype."""
        if self.is_whole:
            tensor = empty_strided(self.sizes, self.strides, self.dtype)
            return tensor, tensor
        memory = torch.empty(self.bytes, dtype=torch.uint8, device=device)
        return memory, self.view(memory)


class _Foreign:
    """Bytes that the library keeps."""

    def __init__(self, address, size):
        self._address, self._size = address, size
        self.__cuda_array_interface__ = {"shape": (size,), "typestr": "|u1", "data": (address, False), "version": 2}

    def tensor(self, device):
        if device.type == "cuda":
            return torch.as_tensor(self, device=device)
        return torch.frombuffer((ctypes.c_uint8 * self._size).from_address(self._address), dtype=torch.uint8)


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


# What TorchInductor's own code asks of its inputs: raises an AssertionError.
_ASSERT_SIZE_STRIDE = getattr(getattr(torch._C._dynamo, "guards", None), "assert_size_stride", None)
# What TorchInductor's own code calls for its results: a fifth of torch.empty_strided's time.
_EMPTY_STRIDED_CUDA, _EMPTY_STRIDED_CPU = (getattr(getattr(torch._C._dynamo, "guards", None), f"_empty_strided_{kind}", None) for kind in ("cuda", "cpu"))


def _empty_strided_of(device):
    """Takes sizes, strides and a dtype, and gives memory of `device`."""
    def anywhere(sizes, strides, dtype):
        return torch.empty_strided(sizes, strides, dtype=dtype, device=device)

    if device.type == "cpu" and _EMPTY_STRIDED_CPU is not None:
        return _EMPTY_STRIDED_CPU
    if device.type != "cuda" or _EMPTY_STRIDED_CUDA is None:
        return anywhere
    index = device.index

    def of_current(sizes, strides, dtype):
        if index is not None and torch._C._cuda_getDevice() != index:
            return anywhere(sizes, strides, dtype)
        return _EMPTY_STRIDED_CUDA(sizes, strides, dtype)

    return of_current


def _memory_of(tensor, offset):
    """The address of the memory in which the tensor begins `offset` elements behind the start."""
    return tensor.data_ptr() - offset * tensor.element_size()


def _lies_at(tensor, offset):
    """Whether the tensor begins `offset` elements behind an aligned place of its own storage."""
    return tensor.storage_offset() >= offset and _memory_of(tensor, offset) % ALIGNMENT == 0


class Form:
    """How an input was that is a tensor: the next one in the same form is read where it lies."""

    def __init__(self, tensor, offset):
        self.dtype, self.shape, self.strides, self.device = tensor.dtype, tensor.shape, tensor.stride(), tensor.device
        self.offset, self.offset_bytes = offset, offset * tensor.element_size()

    def address(self, tensor):
        """Of the memory that a run reads; None if the tensor has another form."""
        at = tensor.data_ptr() - self.offset_bytes
        fits = (tensor.dtype is self.dtype and tensor.shape == self.shape and tensor.stride() == self.strides
                and at % ALIGNMENT == 0 and tensor.device == self.device and not tensor.is_neg()
                and (self.offset == 0 or tensor.storage_offset() >= self.offset))
        return at if fits else None


class Repeat:
    """What a run lets the next one skip: inputs in the same form have but their addresses looked at. `call` takes the inputs
    and gives the outputs, or None where an input has another form than before."""

    def __init__(self, program, bound, placed, values, guarded):
        """`values`: the inputs, `placed`: those that are tensors, where the run read them. `guarded`: positions of inputs
        whose form is the caller's to watch."""
        self.bound = bound
        self.array = (ctypes.c_void_p * max(len(values), 1))()
        self.outputs = (ctypes.c_void_p * max(len(bound.outputs), 1))()
        self.moved = []
        self.copies = []  # of `moved`, until the work that reads them is queued
        guarded, numbers, forms = set(guarded), [], {}
        for position, (tensor, value) in enumerate(zip(placed, values)):
            if tensor is None:
                numbers.append((position, value))
                continue
            offset = bound.input_layouts[position][1]
            self.array[position] = _memory_of(tensor, offset)
            if tensor is value:
                forms[position] = Form(tensor, offset)
            else:  # each run has to copy it: numbers on the host, most often
                self.moved.append((position, value.dtype, value.shape, bound.input_layouts[position]))
        self.guarded_at = {i: placed[i].data_ptr() for i in forms if i in guarded}
        self.call = self._written(program, numbers, forms)

    def _written(self, program, numbers, forms):
        """The function that does all of it in the fewest steps: a run of a small graph takes the GPU less time than its host."""
        handle, device = program._handle, program._device
        names = {"array": self.array, "outputs": self.outputs, "at": self.guarded_at, "repeat": self, "program": program,
                 "run": handle._run, "handle": handle._handle, "error": _error, "empty": program._empty_strided, "bytes": torch.uint8,
                 "raw_stream": getattr(torch._C, "_cuda_getCurrentRawStream", None), "current": getattr(torch._C, "_cuda_getDevice", None),
                 "assert_size_stride": _ASSERT_SIZE_STRIDE, "config": config}
        lines = [f"def call({', '.join(f'i{k}' for k in range(len(self.array)))}):" if len(forms) + len(numbers) + len(self.moved) else "def call():"]
        for position, value in numbers:
            names[f"n{position}"] = value
            lines.append(f"if i{position} != n{position}: return None")
        for position, form in forms.items():
            i, f = f"i{position}", f"f{position}"
            names.update({f: form, f"d{position}": form.dtype, f"s{position}": tuple(form.shape), f"t{position}": form.strides, f"v{position}": form.device})
            if position in self.guarded_at:
                lines += [f"p = {i}.data_ptr()", f"if p != at[{position}]:", f"  a = {f}.address({i})", "  if a is None: return None",
                          f"  array[{position}] = a", f"  at[{position}] = p"]
            elif form.offset or _ASSERT_SIZE_STRIDE is None or 0 in form.shape:
                lines += [f"a = {f}.address({i})", "if a is None: return None", f"array[{position}] = a"]
            else:
                lines += [f"p = {i}.data_ptr()",
                          f"if p % {ALIGNMENT} or {i}.dtype is not d{position} or {i}.device != v{position} or {i}.is_neg(): return None",
                          f"try: assert_size_stride({i}, s{position}, t{position})", "except AssertionError: return None", f"array[{position}] = p"]
        if self.moved:
            lines.append(f"if not repeat.move(({''.join(f'i{k}, ' for k in range(len(self.array)))}), program._place): return None")
        results = []
        for position, output in enumerate(self.bound.outputs):
            if output is None:
                results.append("None")
                continue
            names[f"o{position}"] = output
            if output.is_whole:
                names.update({f"z{position}": output.sizes, f"y{position}": output.strides, f"x{position}": output.dtype})
                lines.append(f"r{position} = m{position} = empty(z{position}, y{position}, x{position})")
            else:
                names["device"] = device
                lines.append(f"m{position}, r{position} = o{position}.allocate(device, empty)")
            lines.append(f"outputs[{position}] = m{position}.data_ptr()")
            results.append(f"r{position}")
        workspace = "None"
        if self.bound.workspace_bytes:
            lines += [f"w = empty(({self.bound.workspace_bytes + 256},), (1,), bytes)", "b = (w.data_ptr() + 255) // 256 * 256"]
            workspace = "b"
        stream = "None"
        if device.type == "cuda":
            stream = f"raw_stream({'current()' if device.index is None else device.index})"
        lines.append(f"s = {stream}")
        if program.description["draws"]:
            lines.append("program._seed(s)")
        lines += [f"status = run(handle, s, array, outputs, {workspace})", "if status: raise error(status)"]
        if device.type == "cuda":
            lines.append("if config.check_runs: program._handle.check_runs(s)")
        if self.moved:
            lines.append("repeat.copies = []")
        lines.append(f"return [{', '.join(results)}]")
        exec(compile("\n  ".join(lines), "<tsc run>", "exec"), names)  # noqa: S102 (text of positions and numbers alone)
        return names["call"]

    def move(self, inputs, place):
        self.copies = []
        with torch.no_grad():
            for position, dtype, shape, (strides, offset) in self.moved:
                value = inputs[position]
                if value.dtype is not dtype or value.shape != shape:
                    return False
                copy = place(value, strides, offset)
                self.copies.append(copy)
                self.array[position] = _memory_of(copy, offset)
        return True


_programs = weakref.WeakSet()


def _let_go():
    """In the child of a fork: threads that were in a program are not there. A lock that does not say so may be held: a
    thread that waits for the interpreter to note it."""
    for program in list(_programs):
        program._lock = threading.Lock()
        program._last, program._repeat = (None, None), None


os.register_at_fork(after_in_child=_let_go)


class Program:
    """Inputs in the order of the graph's (ints where it has integers), outputs as a list; None for constants."""

    def __init__(self, handle, device):
        self._handle = handle
        self._device = torch.device(device)
        self._empty_strided = _empty_strided_of(self._device)
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
        _programs.add(self)

    def __call__(self, *inputs):
        if len(inputs) != len(self._inputs):
            raise TypeError(f"the program takes {len(self._inputs)} inputs, not {len(inputs)}")
        with self._lock:
            if self._repeat is not None:
                results = self._repeat.call(*inputs)
                if results is not None:
                    return results
            with torch.no_grad():
                return self._run(inputs)

    def load_weights(self, file):
        """Other weights from here on: those of the file, and for names that it lacks those from before."""
        with self._lock:
            self._last, self._repeat = (None, None), None
            self._handle.load_weights(str(file).encode())

    def number(self, position, result):
        """What an output says that is a number; `result`: what the run gave for it."""
        if result is not None:
            return result.item()
        text = self._outputs[position]["constant"]
        return text == "True" if text in ("True", "False") else float(text) if set(text) & set(".ein") else int(text)

    def _stream(self):
        if self._device.type != "cuda":
            return None
        index = self._device.index
        return torch._C._cuda_getCurrentRawStream(torch._C._cuda_getDevice() if index is None else index)

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
        if bound.workspace_bytes == 0:
            return None, None
        memory = torch.empty(bound.workspace_bytes + 256, dtype=torch.uint8, device=self._device)
        return memory, (memory.data_ptr() + 255) // 256 * 256

    def to_device(self, position, value):
        """An input that stays what it is, where runs read it: once for all of them."""
        info = self._inputs[position]
        if info["is_integer"] or info["mutated"] or not isinstance(value, torch.Tensor) or value.device == self._device:
            return value
        return value.to(self._device)

    def _seed(self, stream):
        if self.description["draws"]:
            seed = int(torch.randint(0, 2**62, (), dtype=torch.int64, device="cpu"))
            self._handle.set_seed(stream, seed, 0)

    def _queue(self, stream, inputs, outputs, at):
        self._seed(stream)
        self._handle.run(stream, inputs, outputs, at)
        if config.check_runs and self._device.type == "cuda":
            self._handle.check_runs(stream)

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
        moved_back = any(info["mutated"] and used is not tensor for info, tensor, used in zip(self._inputs, tensors, placed))
        if self._plain and bound.outputs is not None and not moved_back:
            self._repeat = Repeat(self, bound, placed, tensors, self.guarded)
        if bound.outputs is None:
            return [None if memory is None else self._as_decided(i, memory) for i, memory in enumerate(memories)]
        return [None if memory is None else output.view(memory) for output, memory in zip(bound.outputs, memories)]

    def _as_decided(self, position, memory):
        """An output whose size the run may have decided: what is more than twice as large as it came to be, and what the
        program keeps, is copied."""
        output = Output(self._handle, position, self._outputs[position])
        at = ctypes.c_void_p()
        self._handle.output_memory(position, memory.data_ptr(), ctypes.byref(at))
        if at.value not in (None, memory.data_ptr()):
            view = output.view(_Foreign(at.value, output.bytes).tensor(self._device))
            return view.clone(memory_format=torch.preserve_format)
        view = output.view(memory)
        return view.clone() if 2 * view.numel() * view.element_size() < memory.numel() else view
