"""Writes the fuzzers' starting points, FOLDER/TARGET/*, from the repository's own files (standard library only).

usage: python3 tests/fuzz/make_corpus.py FOLDER [--tsc TSC]

With TSC (the compiler's binary) the seeds of the target `program` are compiled from the sample graphs.
"""

import argparse
import io
import json
import pathlib
import re
import struct
import subprocess
import sys
import tarfile
import tempfile
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(ROOT / "scripts" / "record"))
import case_archive

MAX_BYTES = 1 << 16  # of a seed: larger ones only slow the fuzzer down
DTYPES = {  # torch.export's numbering
    1: "uint8", 2: "int8", 3: "int16", 4: "int32", 5: "int64", 6: "float16", 7: "float32", 8: "float64",
    12: "bool", 13: "bfloat16", 28: "uint16", 29: "uint32", 30: "uint64"}  # fmt: skip


def write(folder, name, data):
    if len(data) > MAX_BYTES:
        return
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(data)


# Recorded cases, from torch.export's form to graph JSON


def dimension(value):
    return value["as_int"] if "as_int" in value else value["as_expr"]["expr_str"]


def tensor_value(meta):
    return {
        "dtype": DTYPES[meta["dtype"]],
        "size": [dimension(size) for size in meta["sizes"]],
        "stride": [dimension(stride) for stride in meta["strides"]],
        "offset": dimension(meta["storage_offset"]),
    }


def argument(value):
    """None if graph JSON has no such argument."""
    (kind, content), = value.items()
    if kind == "as_tensor":
        return {"node": content["name"]}
    if kind in ("as_tensors",):
        return [{"node": item["name"]} for item in content]
    if kind == "as_scalar_type":
        return {"dtype": DTYPES[content]}
    if kind == "as_device":
        return {"device": content["type"] + (":0" if content["type"] == "cuda" else "")}
    if kind == "as_layout":
        return {"layout": "strided"}
    if kind == "as_none":
        return None
    if kind in ("as_int", "as_ints", "as_float", "as_bool", "as_string", "as_floats", "as_bools"):
        return content
    raise KeyError(kind)


def graph_json(model):
    graph = model["graph_module"]["graph"]
    nodes = []
    for value in graph["inputs"]:
        name = value["as_tensor"]["name"]
        nodes.append({"name": name, "op": "placeholder", "val": tensor_value(graph["tensor_values"][name])})
    for node in graph["nodes"]:
        (output,) = node["outputs"]
        nodes.append({
            "name": output["as_tensor"]["name"],
            "op": "call_function",
            "target": node["target"].replace("torch.ops.", ""),
            "args": [argument(item["arg"]) for item in node["inputs"] if item["kind"] == 1],
            "kwargs": {item["name"]: argument(item["arg"]) for item in node["inputs"] if item["kind"] == 2},
        })  # fmt: skip
    results = [argument(value) for value in graph["outputs"]]
    nodes.append({"name": "output", "op": "output", "args": [results]})
    return {"format": "tsc-graph", "version": 1, "nodes": nodes}


def cases():
    """(name, exported model): of each set of operators and dtypes one."""
    seen = set()
    for family in case_archive.families():
        for case in json.loads(case_archive.read_files(family)[0]):
            graph = case["model"]["graph_module"]["graph"]
            rank = [len(value["sizes"]) for value in graph["tensor_values"].values()]
            key = str([(node["target"], len(node["inputs"])) for node in graph["nodes"]]) + str(rank)
            if key not in seen:
                seen.add(key)
                yield family + "_" + case["name"], case["model"]


def write_graphs(out):
    text = (ROOT / "docs/graph-format.md").read_text()
    examples = {f"example{i}": block.encode() for i, block in enumerate(re.findall(r"```json\n(.*?)```", text, re.S))}
    for path in sorted((ROOT / "graphs").glob("seed_*.json")):
        examples[path.stem] = path.read_bytes()
    for name, data in examples.items():
        write(out / "graph_json", name, data)
        write(out / "passes", name, data)
    for name, model in cases():
        exported = json.dumps(model).encode()
        write(out / "export_json", name, exported)
        try:
            data = json.dumps(graph_json(model)).encode()
        except (KeyError, ValueError):  # an argument that this short conversion does not know
            data = exported
        else:
            write(out / "graph_json", name, data)
        write(out / "passes", name, data)
    for path in sorted((ROOT / "graphs/anchors").glob("*/model.json")):
        write(out / "export_json", path.parent.name, path.read_bytes())
        write(out / "passes", path.parent.name + "_export", path.read_bytes())


def write_archives(out):
    archives = {path.stem: path.read_bytes() for path in sorted((ROOT / "tests").glob("**/*.pt2"))}
    with tarfile.open(ROOT / "tests/graph/data.tar.xz") as packed:
        archives.update({pathlib.Path(member.name).stem: packed.extractfile(member).read() for member in packed})
    for stem, data in archives.items():
        write(out / "pt2", stem, data)
        try:
            with zipfile.ZipFile(io.BytesIO(data)) as archive:
                models = [name for name in archive.namelist() if re.search(r"/models/[^/]*\.json$", name)]
                for model in models:
                    write(out / "export_json", stem, archive.read(model))
        except zipfile.BadZipFile:
            pass


# Tensors


def npy(descr, shape, payload, fortran=False, version=1):
    header = repr({"descr": descr, "fortran_order": fortran, "shape": shape}).encode() + b"\n"
    length = struct.pack("<H", len(header)) if version == 1 else struct.pack("<I", len(header))
    return b"\x93NUMPY" + bytes([version, 0]) + length + header + payload


def write_npz(out):
    arrays = {
        "a": npy("<f4", (2, 3), bytes(range(24))),
        "b": npy("<i8", (), bytes(8)),
        "c": npy("<f8", (2, 2), bytes(range(32)), fortran=True, version=2),
        "d": npy("|b1", (0, 3), b""),
        "e": npy("|V2", (4,), bytes(range(8)), version=3),
    }
    for name, data in arrays.items():
        write(out / "npz", name + ".npy", data)
    for name, method in [("stored", zipfile.ZIP_STORED), ("deflated", zipfile.ZIP_DEFLATED)]:
        (out / "npz").mkdir(parents=True, exist_ok=True)
        with zipfile.ZipFile(out / "npz" / name, "w", method) as archive:
            for member, data in arrays.items():
                archive.writestr(zipfile.ZipInfo(member + ".npy"), data, method)


def safetensors(tensors, metadata=None):
    header, data = ({"__metadata__": metadata} if metadata else {}), b""
    for name, (dtype, shape, payload) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(payload)]}
        data += payload
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def write_safetensors(out):
    write(out / "safetensors", "two", safetensors(
        {"a": ("F32", [2, 2], bytes(range(16))), "b": ("BF16", [3], bytes(range(6)))}, {"format": "pt"}))  # fmt: skip
    sizes = {"BOOL": 1, "U8": 1, "I8": 1, "F8_E4M3": 1, "F8_E5M2": 1, "I16": 2, "U16": 2, "F16": 2, "BF16": 2, "I32": 4,
             "U32": 4, "F32": 4, "I64": 8, "U64": 8, "F64": 8, "C64": 8}  # fmt: skip
    write(out / "safetensors", "dtypes", safetensors(
        {dtype.lower(): (dtype, [2, 1], bytes(2 * size)) for dtype, size in sizes.items()}))  # fmt: skip
    write(out / "safetensors", "empty", safetensors({"a": ("I64", [0, 4], b""), "b": ("F32", [], bytes(4))}))


# Compiled folders


def shortened(program):
    """Kernel texts are not read before a kernel is compiled: a short one keeps the seed small."""
    for kernel in program["kernels"]:
        for plan in ("cuda", "serial"):
            kernel[plan]["text"] = "// " + kernel["name"]
    return program


def weights_for(program):
    sizes = {"bool": 1, "u8": 1, "i8": 1, "i16": 2, "u16": 2, "f16": 2, "bf16": 2, "i32": 4, "u32": 4, "f32": 4,
             "i64": 8, "u64": 8, "f64": 8}  # fmt: skip
    tensors = {}
    for buffer in program["buffers"]:
        if buffer["role"] == "weight":
            count = 1
            for size in buffer["sizes"]:
                count *= size
            if count * 8 > MAX_BYTES:
                return None
            tensors[buffer["weight"]] = (buffer["dtype"].upper(), buffer["sizes"], bytes(count * sizes[buffer["dtype"]]))
    return safetensors(tensors) if tensors else b""


def write_programs(out, tsc):
    graphs = sorted((out / "graph_json").iterdir()) + sorted((out / "pt2").iterdir())
    graphs += sorted((out / "export_json").iterdir())[::8]
    kept = {}
    with tempfile.TemporaryDirectory() as work:
        for graph in graphs:
            folder = pathlib.Path(work) / graph.name
            done = subprocess.run([tsc, "compile", graph, "-o", folder], capture_output=True)
            if done.returncode != 0:
                continue
            program = shortened(json.loads((folder / "program.json").read_text()))
            # One program of each kind of steps is enough.
            kinds = str([(sorted(step)[0], step.get("once")) for step in program["steps"]]) + str(
                [(buffer["role"], len(buffer["sizes"])) for buffer in program["buffers"]])  # fmt: skip
            weights = weights_for(program)
            if kinds in kept or weights is None:
                continue
            kept[kinds] = graph.name
            text = json.dumps(program, separators=(",", ":")).encode()
            write(out / "program", graph.name, text + (b"\0" + weights if weights else b""))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--tsc", type=pathlib.Path, help="the compiler: seeds of the target program")
    options = parser.parse_args()
    write_graphs(options.folder)
    write_archives(options.folder)
    write_npz(options.folder)
    write_safetensors(options.folder)
    if options.tsc:
        write_programs(options.folder, options.tsc.resolve())
    with tarfile.open(HERE / "corpus.tar.xz") as packed:  # what once broke something
        for member in packed:
            target, name = pathlib.Path(member.name).parts[-2:]
            write(options.folder / target, "known_" + name, packed.extractfile(member).read())


if __name__ == "__main__":
    main()
