"""The packed form of recorded cases: tests/cases/FAMILY.zip (tests/cases/README.md says what is in it).

    graphs.json     as it was recorded
    tensors.json    [NAME, DTYPE, SHAPE, STREAM] of every tensor, in the order of the .safetensors file; STREAM says where its
                    elements are: a stream's name, or the place in this list of a tensor of the same bytes
    STREAM/0, ...   the first, second, ... byte (least significant first) of all elements of a stream's tensors, one after the other

The stream of a tensor is named by its dtype. That of a reference is "F64-F32" where the reference is in F64 and the output in
F32 (and so on): its elements are the difference between the bits of the reference and those of the output in the wider dtype,
sign in the lowest bit. Bytes of one place are alike and differences are small, so both deflate better. Nothing here is rounded.

Needs Python only. The same cases give the same bytes.
"""
import json
import os
import shutil
import struct
import zipfile

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tests", "cases"))
GRAPHS, TENSORS = "graphs.json", "tensors.safetensors"
WIDTHS = {"BOOL": 1, "U8": 1, "I8": 1, "F8_E4M3": 1, "F8_E5M2": 1, "I16": 2, "U16": 2, "F16": 2, "BF16": 2, "I32": 4, "U32": 4,
          "F32": 4, "I64": 8, "U64": 8, "F64": 8, "C64": 8}
UNSIGNED = {1: "B", 2: "H", 4: "I", 8: "Q"}
FLOATS = {"F16": "e", "F32": "f", "F64": "d"}


def _elements(data, width):
    return struct.unpack(f"<{len(data) // width}{UNSIGNED[width]}", data)


def _packed(elements, width):
    return struct.pack(f"<{len(elements)}{UNSIGNED[width]}", *elements)


def widened(data, dtype, wider):
    """The bits of every element in the wider dtype; 0 for what is not finite, whose bits machines differ in."""
    count = len(data) // WIDTHS[dtype]
    if dtype == "BF16":
        values = struct.unpack(f"<{count}f", b"".join(b"\0\0" + data[i:i + 2] for i in range(0, len(data), 2)))
    else:
        values = struct.unpack(f"<{count}{FLOATS[dtype]}", data)
    finite = [x if abs(x) <= 1.7976931348623157e308 else 0.0 for x in values]
    return _elements(struct.pack(f"<{count}{FLOATS[wider]}", *finite), WIDTHS[wider])


def _differences(reference, output, width):
    bits, mask = 8 * width, (1 << 8 * width) - 1
    folded = []
    for a, b in zip(reference, output):
        d = (a - b) & mask
        folded.append(((d << 1) & mask) ^ (mask if d >> (bits - 1) else 0))
    return folded


def _sums(folded, output, width):
    mask = (1 << 8 * width) - 1
    return [(((d >> 1) ^ (mask if d & 1 else 0)) + b) & mask for d, b in zip(folded, output)]


def _partner(name, dtype, shape, known):
    """The output whose bits a reference is told from: its name, or nothing."""
    output = name.replace("reference_", "output_")
    if output == name or output not in known or dtype not in ("F32", "F64"):
        return None
    other_dtype, other_shape = known[output]
    fits = other_dtype in ("F16", "BF16", "F32", "F64") and WIDTHS[other_dtype] <= WIDTHS[dtype] and other_shape == shape
    return output if fits else None


def read_safetensors(path):
    """NAME -> (DTYPE, SHAPE, bytes), in the order of the payloads."""
    with open(path, "rb") as file:
        data = file.read()
    size, = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + size])
    header.pop("__metadata__", None)
    entries = sorted(header.items(), key=lambda item: item[1]["data_offsets"])
    return {name: (e["dtype"], e["shape"], data[8 + size + e["data_offsets"][0]:8 + size + e["data_offsets"][1]])
            for name, e in entries}


def safetensors_bytes(tensors):
    """What the safetensors package writes, byte for byte."""
    header, offset = {}, 0
    for name, (dtype, shape, data) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [offset, offset + len(data)]}
        offset += len(data)
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + b"".join(data for _, _, data in tensors.values())


def write_archive(path, graphs, tensors):
    """`graphs`: the text of graphs.json, in bytes. `tensors`: NAME -> (DTYPE, SHAPE, bytes)."""
    known = {name: (dtype, list(shape)) for name, (dtype, shape, _) in tensors.items()}
    listed, streams, seen = [], {}, {}
    for place, (name, (dtype, shape, data)) in enumerate(tensors.items()):
        width, shape = WIDTHS[dtype], list(shape)
        same = seen.setdefault((dtype, data), place) if len(data) > 16 else place
        if same != place:
            listed.append([name, dtype, shape, same])
            continue
        partner, stream, elements = _partner(name, dtype, shape, known), dtype, _elements(data, width)
        if partner:
            other, _, other_data = tensors[partner]
            stream = f"{dtype}-{other}"
            elements = _differences(elements, widened(other_data, other, dtype), width)
        listed.append([name, dtype, shape, stream])
        streams.setdefault(stream, bytearray()).extend(_packed(elements, width))
    members = {GRAPHS: graphs, "tensors.json": json.dumps(listed, separators=(",", ":"), ensure_ascii=False).encode()}
    for stream, data in sorted(streams.items()):
        width = WIDTHS[stream.split("-")[0]]
        for byte in range(width):
            members[f"{stream}/{byte}"] = bytes(data[byte::width])
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in members.items():
            member = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            member.create_system, member.external_attr, member.compress_type = 3, 0o644 << 16, zipfile.ZIP_DEFLATED
            archive.writestr(member, data, zipfile.ZIP_DEFLATED, 9)


def read_archive(path):
    """(the text of graphs.json, NAME -> (DTYPE, SHAPE, bytes)), as write_archive takes them."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    listed = json.loads(members["tensors.json"])
    at, tensors, folded = {}, {}, {}
    for name, dtype, shape, stream in listed:
        if isinstance(stream, int):
            tensors[name] = None
            continue
        width, count = WIDTHS[dtype], 1
        for size in shape:
            count *= size
        begin = at.get(stream, 0)
        at[stream] = begin + count
        data = bytearray(count * width)
        for byte in range(width):
            data[byte::width] = members[f"{stream}/{byte}"][begin:begin + count]
        tensors[name] = (dtype, shape, bytes(data))
        if "-" in stream:
            folded[name] = stream.split("-")[1]

    places = {name: place for place, (name, _, _, _) in enumerate(listed)}
    whole = {}

    def bytes_of(name):
        if name not in whole:
            _, dtype, _, stream = listed[places[name]]
            if isinstance(stream, int):
                whole[name] = bytes_of(listed[stream][0])
            elif name in folded:
                width = WIDTHS[dtype]
                output = widened(bytes_of(name.replace("reference_", "output_")), folded[name], dtype)
                whole[name] = _packed(_sums(_elements(tensors[name][2], width), output, width), width)
            else:
                whole[name] = tensors[name][2]
        return whole[name]

    return members[GRAPHS], {name: (dtype, shape, bytes_of(name)) for name, dtype, shape, _ in listed}


def read_files(family, root=ROOT):
    """The same of a family, unpacked or packed."""
    folder = os.path.join(root, family)
    if not os.path.exists(os.path.join(folder, GRAPHS)):
        return read_archive(folder + ".zip")
    with open(os.path.join(folder, GRAPHS), "rb") as file:
        return file.read(), read_safetensors(os.path.join(folder, TENSORS))


def pack(family, root=ROOT):
    """tests/cases/FAMILY/ becomes tests/cases/FAMILY.zip."""
    folder = os.path.join(root, family)
    graphs, tensors = read_files(family, root)
    path = folder + ".zip"
    write_archive(path, graphs, tensors)
    assert read_archive(path) == (graphs, tensors), f"{path} does not give back what was packed"
    shutil.rmtree(folder)


def unpack(family, root=ROOT):
    """tests/cases/FAMILY.zip beside it as tests/cases/FAMILY/, which the tests then prefer."""
    folder = os.path.join(root, family)
    graphs, tensors = read_archive(folder + ".zip")
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, GRAPHS), "wb") as file:
        file.write(graphs)
    with open(os.path.join(folder, TENSORS), "wb") as file:
        file.write(safetensors_bytes(tensors))


def families(root=ROOT):
    """Name -> "packed" or "unpacked", of every family."""
    found = {name[:-4]: "packed" for name in os.listdir(root) if name.endswith(".zip")}
    found.update({name: "unpacked" for name in os.listdir(root) if os.path.exists(os.path.join(root, name, GRAPHS))})
    return dict(sorted(found.items()))


def shortened(tensors):
    """References in float64 of float32 results, to 33 bits, and in float32 of 16-bit results, to 18: roundings of 2^-14 and
    2^-10 of what an element may be away."""
    import torch

    def short(name, x):
        output = tensors.get(name.replace("reference_", "output_"))
        if output is None or (x.dtype, output.dtype) not in ((torch.float64, torch.float32), (torch.float32, torch.float16), (torch.float32, torch.bfloat16)):
            return x
        if x.dtype == torch.float32:
            rounded = ((x.contiguous().view(torch.int32) + (1 << 5)) >> 6 << 6).view(torch.float32)
            return torch.where(x.isfinite() & rounded.isfinite(), rounded, x)
        rounded = ((x.contiguous().view(torch.int64) + (1 << 19)) >> 20 << 20).view(torch.float64)
        return torch.where(x.isfinite() & rounded.isfinite(), rounded, x)

    return {name: short(name, x) for name, x in tensors.items()}


def record(family, graphs, tensors):
    """Writes what a script has recorded: `graphs` as objects, `tensors` NAME -> tensor of PyTorch (contiguous, on the CPU)."""
    from safetensors.torch import save  # only who records has it

    tensors = shortened(tensors)

    folder = os.path.join(ROOT, family)
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, GRAPHS), "w") as file:
        json.dump(graphs, file, separators=(",", ":"), sort_keys=True)
    with open(os.path.join(folder, TENSORS), "wb") as file:
        file.write(save(tensors))
    pack(family)
