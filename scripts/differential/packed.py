"""Recorded cases in one archive, to be run where no PyTorch is: on a machine with a GPU.

    python3 scripts/differential pack --out FILE.tar.xz FOLDER...      folders of `samples` and `tests`
    python3 scripts/differential packed --archive FILE.tar.xz --bin BIN [--devices reference,cuda] [--jobs N] [--seconds T]

The second needs nothing but Python's own library. It prints a short table last: agree, refused by code, what is wrong by name.
"""
import collections
import json
import lzma
import os
import re
import shutil
import subprocess
import tarfile
import tempfile
import time
import zipfile

KEPT = ("model.pt2", "inputs.safetensors", "expected.safetensors", "left_open.json")


def plain_model(source, target):
    """The model without what it says of the source, and nothing compressed in itself: all cases are alike then."""
    with zipfile.ZipFile(source) as read, zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as written:
        for entry in read.infolist():
            data = read.read(entry)
            if entry.filename.endswith("models/model.json"):
                model = json.loads(data)
                strip(model["graph_module"]["graph"])
                data = json.dumps(model).encode()
            written.writestr(zipfile.ZipInfo(entry.filename), data)


def strip(graph):
    for node in graph["nodes"]:
        node["metadata"] = {}
        for argument in node["inputs"]:
            if "as_graph" in argument["arg"]:
                strip(argument["arg"]["as_graph"]["graph"])


def pack(options):
    count = 0
    with tempfile.TemporaryDirectory() as work, tarfile.open(options.out, "w:xz", preset=6) as archive:
        for top in options.folders:
            for folder, _, files in sorted(os.walk(top)):
                size = sum(os.path.getsize(os.path.join(folder, name)) for name in files if name in KEPT)
                if "expected.safetensors" not in files or "model.pt2" not in files or size > options.most << 10:
                    continue
                place = os.path.join(os.path.basename(os.path.normpath(top)), os.path.relpath(folder, top))
                plain_model(os.path.join(folder, "model.pt2"), os.path.join(work, "model.pt2"))
                for name in KEPT:
                    if name in files:
                        archive.add(os.path.join(work if name == "model.pt2" else folder, name), os.path.join(place, name))
                count += 1
    print(f"{count} cases, {os.path.getsize(options.out) / 2**20:.1f} MiB")
    return 0


def is_open(verdict):
    path = os.path.join(verdict["case"], "left_open.json")
    if verdict["status"] != "differ" or not os.path.exists(path):
        return False
    with open(path) as file:
        first = json.load(file)["first"]
    return verdict["output"].startswith("output_") and int(verdict["output"][7:]) >= first


def report(rows, device, cases, work):
    own = [row for row in rows if row["device"] == device]
    for row in own:
        row["status"] = "open" if is_open(row) else row["status"]
    counts = collections.Counter(row["status"] for row in own)
    agree = counts["agree"]
    print(f"{device}: {len(own)} of {cases} cases ran: {agree} agree ({100 * agree / max(1, len(own)):.1f}%), "
          + ", ".join(f"{n} {status}" for status, n in counts.most_common() if status != "agree"))
    codes = collections.Counter((row["code"], re.sub(r"\d+", "#", row["reason"].split("(node")[0])[:100]) for row in own if row["status"] == "refused")
    for (code, reason), n in codes.most_common(12):
        print(f"  {n} refused {code} {reason}")
    wrong = [row for row in own if row["status"] not in ("agree", "refused", "open")]
    for row in wrong[:60]:
        print(f"  {row['status']} {os.path.relpath(row['case'], work)} {row['output']} {row['reason'].splitlines()[0][:160] if row['reason'] else ''}")
    return len(wrong)


def packed(options):
    began = time.time()
    work = tempfile.mkdtemp(prefix="packed.")
    try:
        with lzma.open(options.archive) as file, tarfile.open(fileobj=file, mode="r|") as archive:
            archive.extractall(work, filter="data")
        cases = sorted(folder for folder, _, files in os.walk(work) if "expected.safetensors" in files and re.search(options.operators, folder))
        listing, output = os.path.join(work, "list"), os.path.join(work, "verdicts")
        with open(listing, "w") as file:
            file.write("".join(case + "\n" for case in cases))
        print(f"{len(cases)} cases unpacked in {time.time() - began:.0f} s", flush=True)
        with open(output, "w") as file:
            run = subprocess.Popen([os.path.join(options.bin, "tsc_differential"), "run", "--devices", options.devices, "--jobs", str(options.jobs),
                                    "--batch", str(options.batch), "--list", listing], stdout=file)
            try:
                run.wait(max(1.0, options.seconds - (time.time() - began)))
            except subprocess.TimeoutExpired:
                print(f"ended after {options.seconds:.0f} s", flush=True)
                run.terminate()
                run.wait()
        with open(output) as file:
            rows = [json.loads(line) for line in file if line.startswith("{") and line.endswith("}\n")]
        return 1 if sum([report(rows, device, len(cases), work) for device in options.devices.split(",")]) else 0
    finally:
        shutil.rmtree(work, ignore_errors=True)
