"""A compiled model's shared library (docs/abi.md), called from Python on PyTorch's CUDA tensors."""
import ctypes as ct

import torch

DTYPES = [torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.uint16, torch.uint32,
          torch.uint64, torch.float16, torch.bfloat16, torch.float32, torch.float64]


class Size(ct.Structure):
    _fields_ = [("value", ct.c_int64), ("expression", ct.c_char_p), ("low", ct.c_int64), ("high", ct.c_int64)]


class TensorInfo(ct.Structure):
    _fields_ = [("name", ct.c_char_p), ("dtype", ct.c_int), ("rank", ct.c_int32), ("sizes", ct.POINTER(Size)),
                ("strides", ct.POINTER(Size)), ("offset", Size), ("is_mutated", ct.c_int32), ("constant", ct.c_char_p),
                ("value", ct.POINTER(Size)), ("path", ct.c_char_p)]


class ModelInfo(ct.Structure):
    _fields_ = [("abi_version", ct.c_uint32), ("name", ct.c_char_p), ("device", ct.c_char_p),
                ("input_count", ct.c_size_t), ("output_count", ct.c_size_t), ("weight_count", ct.c_size_t),
                ("inputs", ct.POINTER(TensorInfo)), ("outputs", ct.POINTER(TensorInfo)),
                ("weights", ct.POINTER(TensorInfo)), ("reads_predicates", ct.c_int32)]


class TensorData(ct.Structure):
    _fields_ = [("name", ct.c_char_p), ("data", ct.c_void_p), ("dtype", ct.c_int), ("rank", ct.c_int32),
                ("sizes", ct.POINTER(ct.c_int64))]


FUNCTIONS = """describe weights_create weights_load weights_destroy weights_bytes instance_create instance_destroy
    instance_bind instance_run instance_check instance_bytes instance_output instance_output_memory instance_set_poison
    instance_set_graphs instance_set_seed instance_error create_error memory_allocate memory_release memory_upload
    memory_download""".split()
RESULTS = {"describe": ct.POINTER(ModelInfo), "create_error": ct.c_char_p, "instance_error": ct.c_char_p,
           "weights_bytes": ct.c_size_t}
NO_RESULT = {"weights_destroy", "instance_destroy", "instance_set_poison", "instance_set_graphs", "memory_release"}


def result_of(function):
    return None if function in NO_RESULT else RESULTS.get(function, ct.c_int)


class Model(ct.Structure):
    """TscModel of tsc_model.h."""
    _fields_ = [("abi_version", ct.c_uint32)] + [(name, ct.CFUNCTYPE(result_of(name))) for name in FUNCTIONS]


class CompiledModel:
    """Loads `library`, gives it `weights` (name -> tensor) and binds it to the shapes of `inputs`."""

    def __init__(self, library, weights, inputs):
        self.library = ct.CDLL(library)
        self.library.tsc_model.restype = ct.POINTER(Model)
        self.lib = lib = self.library.tsc_model().contents
        assert lib.abi_version == 4, lib.abi_version
        self.info = lib.describe().contents
        data, keep = (TensorData * max(1, len(weights)))(), []
        for i, (name, tensor) in enumerate(weights.items()):
            host = tensor.detach().cpu().contiguous()
            sizes = (ct.c_int64 * max(1, host.dim()))(*host.shape)
            keep += [host, sizes]
            data[i] = TensorData(name.encode(), host.data_ptr(), DTYPES.index(host.dtype), host.dim(), sizes)
        self.weights, self.instance = ct.c_void_p(), ct.c_void_p()
        self.check(lib.weights_create(0, data, ct.c_size_t(len(weights)), ct.byref(self.weights)), False)
        self.check(lib.instance_create(self.weights, ct.byref(self.instance)), False)
        shapes = [(ct.c_int64 * max(1, x.dim()))(*x.shape) for x in inputs]
        pointers = (ct.POINTER(ct.c_int64) * max(1, len(inputs)))(*[ct.cast(s, ct.POINTER(ct.c_int64)) for s in shapes])
        workspace = ct.c_size_t()
        self.check(lib.instance_bind(self.instance, pointers, ct.byref(workspace)))
        self.workspace = torch.empty(max(1, workspace.value), dtype=torch.uint8, device="cuda")
        input_bytes = (ct.c_size_t * max(1, self.info.input_count))()
        output_bytes = (ct.c_size_t * max(1, self.info.output_count))()
        self.check(lib.instance_bytes(self.instance, input_bytes, output_bytes))
        self.inputs = inputs
        self.storages = [torch.empty(max(16, output_bytes[i]), dtype=torch.uint8, device="cuda")
                         for i in range(self.info.output_count)]
        self.input_pointers = (ct.c_void_p * max(1, len(inputs)))(*[x.data_ptr() for x in inputs])
        self.output_pointers = (ct.c_void_p * max(1, len(self.storages)))(*[x.data_ptr() for x in self.storages])

    def check(self, status, with_instance=True):
        if status != 0:
            text = self.lib.instance_error(self.instance) if with_instance else self.lib.create_error()
            raise RuntimeError(f"status {status}: {text.decode()}")

    def __call__(self):
        self.check(self.lib.instance_run(self.instance, ct.c_void_p(torch.cuda.current_stream().cuda_stream),
                                             self.input_pointers, self.output_pointers,
                                             ct.c_void_p(self.workspace.data_ptr())))

    def poison(self):
        self.workspace.fill_(0xFF)
        for storage in self.storages:
            storage.fill_(0xFF)

    def outputs(self):
        """The output tensors, as views of the memory that runs write."""
        views = []
        for i, storage in enumerate(self.storages):
            info = self.info.outputs[i]
            sizes, strides = (ct.c_int64 * max(1, info.rank))(), (ct.c_int64 * max(1, info.rank))()
            offset = ct.c_int64()
            self.check(self.lib.instance_output(self.instance, ct.c_size_t(i), sizes, strides, ct.byref(offset)))
            typed = storage[:storage.numel() // DTYPES[info.dtype].itemsize * DTYPES[info.dtype].itemsize].view(DTYPES[info.dtype])
            views.append(torch.as_strided(typed, list(sizes)[:info.rank], list(strides)[:info.rank], offset.value))
        return views
