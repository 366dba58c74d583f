"""Writes the fuzzers' starting points from the repository's own files (standard library only).

usage: python3 tests/fuzz/make_corpus.py FOLDER
"""

import json
import pathlib
import re
import struct
import sys
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[2]


def npy(descr, shape, payload):
    header = repr({"descr": descr, "fortran_order": False, "shape": shape}).encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + payload


def write(folder, name, data):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(data)


def main(out):
    text = (ROOT / "docs/graph-format.md").read_text()
    for i, block in enumerate(re.findall(r"```json\n(.*?)```", text, re.S)):
        write(out / "graph-json", f"example{i}.json", block.encode())
    for path in sorted((ROOT / "graphs").glob("seed_*.json")):
        write(out / "graph-json", path.name, path.read_bytes())

    for name in ["seed_sum", "softmax", "layernorm_gelu", "mlp_gelu"]:
        data = (ROOT / "graphs/anchors" / name / "model.json").read_bytes()
        write(out / "export", name + ".json", data)
    for path in sorted((ROOT / "tests/graph/data").glob("*.pt2")):
        write(out / "pt2", path.name, path.read_bytes())
        with zipfile.ZipFile(path) as archive:
            model = archive.read(path.stem + "/models/model.json")
        write(out / "export", path.stem + ".json", model)

    header = json.dumps(
        {
            "a": {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 16]},
            "b": {"dtype": "BF16", "shape": [3], "data_offsets": [16, 22]},
            "__metadata__": {"format": "pt"},
        }
    ).encode()
    write(out / "safetensors", "two", struct.pack("<Q", len(header)) + header + bytes(22))

    (out / "npz").mkdir(parents=True, exist_ok=True)
    for name, method in [("stored", zipfile.ZIP_STORED), ("deflated", zipfile.ZIP_DEFLATED)]:
        with zipfile.ZipFile(out / "npz" / name, "w", method) as archive:
            archive.writestr("a.npy", npy("<f4", (2, 3), bytes(24)))
            archive.writestr("b.npy", npy("<i8", (), bytes(8)))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(pathlib.Path(sys.argv[1]))
