"""Tensors as safetensors files, of every dtype that tsc has: the package of that name knows no complex128."""
import json
import struct

import torch

NAMES = {torch.float64: "F64", torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16", torch.complex64: "C64", torch.complex128: "C128",
         torch.int64: "I64", torch.int32: "I32", torch.int16: "I16", torch.int8: "I8", torch.uint64: "U64", torch.uint32: "U32", torch.uint16: "U16",
         torch.uint8: "U8", torch.bool: "BOOL", torch.float8_e4m3fn: "F8_E4M3", torch.float8_e5m2: "F8_E5M2", torch.float8_e4m3fnuz: "F8_E4M3FNUZ",
         torch.float8_e5m2fnuz: "F8_E5M2FNUZ", torch.float8_e8m0fnu: "F8_E8M0"}
DTYPES = {name: dtype for dtype, name in NAMES.items()}


def bytes_of(x):
    flat = x.detach().reshape(-1).clone(memory_format=torch.contiguous_format)
    return (torch.view_as_real(flat) if x.is_complex() else flat).view(torch.uint8).numpy().tobytes() if flat.numel() else b""


def save_file(tensors, path):
    header, parts, at = {}, [], 0
    for name, x in tensors.items():
        parts.append(bytes_of(x))
        header[name] = {"dtype": NAMES[x.dtype], "shape": list(x.shape), "data_offsets": [at, at + len(parts[-1])]}
        at += len(parts[-1])
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + b"".join(parts))


def load_file(path):
    with open(path, "rb") as file:
        data = file.read()
    length, = struct.unpack("<Q", data[:8])
    header, body = json.loads(data[8:8 + length]), memoryview(data)[8 + length:]
    tensors = {}
    for name, row in header.items():
        if name == "__metadata__":
            continue
        begin, end = row["data_offsets"]
        flat = torch.frombuffer(bytearray(body[begin:end]), dtype=torch.uint8) if end > begin else torch.empty(0, dtype=torch.uint8)
        tensors[name] = flat.view(DTYPES[row["dtype"]]).reshape(row["shape"])
    return tensors
