"""libtsc_api.so through ctypes; lib/api/tsc_api.h is the reference."""
import ctypes
import functools
import json
import os
import pathlib

VERSION = 1
USAGE, BAD_INPUT, UNSUPPORTED, DEVICE, INTERNAL = 2, 3, 4, 5, 70
#: Bytes to which the memory of inputs and outputs is aligned.
ALIGNMENT = 16
# In the order of TscDType.
DTYPES = ["bool", "uint8", "int8", "int16", "int32", "int64", "uint16", "uint32", "uint64", "float16", "bfloat16",
          "float32", "float64", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu"]


class TscError(RuntimeError):
    """What the library said; `status` is the command line's exit code for it."""

    def __init__(self, status, text):
        super().__init__(text)
        self.status = status


class Tensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("dtype", ctypes.c_int32), ("rank", ctypes.c_int32),
                ("sizes", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64))]


def _places():
    given = os.environ.get("TSC_LIBRARY")
    if given:
        yield pathlib.Path(given)
        return
    here = pathlib.Path(__file__).resolve().parent
    yield here / "lib" / "libtsc_api.so"
    root = here.parent.parent
    yield root / "build" / "release" / "lib" / "tsc" / "libtsc_api.so"
    yield from sorted(root.glob("build/*/lib/tsc/libtsc_api.so"))


@functools.lru_cache(maxsize=None)
def library():
    place = next((p for p in _places() if p.exists()), None)
    if place is None:
        raise TscError(DEVICE, "libtsc_api.so was not found: build it (ninja tsc_api) and install the package again, "
                               "or name it in TSC_LIBRARY")
    loaded = ctypes.CDLL(str(place))
    loaded.tsc_api_version.restype = ctypes.c_uint32
    if loaded.tsc_api_version() != VERSION:
        raise TscError(DEVICE, f"{place} is of another version ({loaded.tsc_api_version()}, not {VERSION})")
    pointer, size, text = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p
    sizes = ctypes.POINTER(ctypes.c_int64)
    signatures = {
        "compile": [ctypes.c_char_p, size, text, text, ctypes.POINTER(pointer)],
        "load": [text, text, ctypes.POINTER(pointer)],
        "check": [ctypes.c_char_p, size, text, text, ctypes.POINTER(text)],
        "describe": [pointer, ctypes.POINTER(text)],
        "bind": [pointer, ctypes.POINTER(Tensor), size, ctypes.POINTER(size)],
        "input": [pointer, size, sizes, ctypes.POINTER(size)],
        "output": [pointer, size, sizes, sizes, sizes],
        "output_bytes": [pointer, size, ctypes.POINTER(size)],
        "output_memory": [pointer, size, pointer, ctypes.POINTER(pointer)],
        "run": [pointer, pointer, ctypes.POINTER(pointer), ctypes.POINTER(pointer), pointer],
        "check_runs": [pointer, pointer],
        "load_weights": [pointer, text],
        "set_seed": [pointer, pointer, ctypes.c_uint64, ctypes.c_uint64],
    }
    for name, arguments in signatures.items():
        getattr(loaded, "tsc_api_" + name).argtypes = arguments
        getattr(loaded, "tsc_api_" + name).restype = ctypes.c_int
    loaded.tsc_api_destroy.argtypes = [pointer]
    loaded.tsc_api_destroy.restype = None
    loaded.tsc_api_error.restype = text
    loaded.tsc_api_expression_count.restype = size
    return loaded


def _error(status):
    return TscError(status, library().tsc_api_error().decode(errors="replace"))


def call(name, *arguments):
    loaded = library()
    status = getattr(loaded, "tsc_api_" + name)(*arguments)
    if status != 0:
        raise _error(status)


def check(graph, options):
    """What compiling `graph` would refuse: {"status", "problems"}."""
    report = ctypes.c_char_p()
    call("check", graph, len(graph), b"torch.compile", json.dumps(options).encode(), ctypes.byref(report))
    return json.loads(report.value)


class Handle:
    """A program that is ready on a device."""

    def __init__(self, name, *arguments):
        self._handle = ctypes.c_void_p()
        call(name, *arguments, ctypes.byref(self._handle))
        text = ctypes.c_char_p()
        call("describe", self._handle, ctypes.byref(text))
        self.description = json.loads(text.value)
        self._run = library().tsc_api_run

    @staticmethod
    def compile(graph, options):
        return Handle("compile", graph, len(graph), b"torch.compile", json.dumps(options).encode())

    @staticmethod
    def load(folder, options):
        return Handle("load", str(folder).encode(), json.dumps(options).encode())

    def run(self, stream, inputs, outputs, workspace):
        """`call` of "run", which is asked most often, without what it looks up."""
        status = self._run(self._handle, stream, inputs, outputs, workspace)
        if status != 0:
            raise _error(status)

    def __getattr__(self, name):  # bind, input, output, output_bytes, output_memory, check_runs, set_seed
        if name.startswith("_"):
            raise AttributeError(name)
        return functools.partial(call, name, self._handle)

    def __del__(self):
        handle = self.__dict__.get("_handle")
        if handle and library is not None:  # None: the interpreter is ending
            library().tsc_api_destroy(handle)
