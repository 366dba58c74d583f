"""Runs cases with tsc: many at once with `tsc_differential`, or one after the other with `tsc run` where that is missing."""
import dataclasses
import json
import os
import re
import resource
import signal
import subprocess


import comparison
from recording import reference_name
from tensor_files import load_file

DEVICES = ("reference", "host", "host-cuda", "cuda")
GOOD = ("agree", "refused", "fragile")
CODE = re.compile(r"(TSC-[A-Z]\d+)")


@dataclasses.dataclass
class Verdict:
    case: str
    device: str
    status: str  # agree differ refused crash compiler_error internal_error hang
    output: str = ""
    reason: str = ""
    given: str = ""  # the code, where it does not stand in the reason

    @property
    def code(self):
        if self.given:
            return self.given
        found = CODE.search(self.reason)
        return found.group(1) if found else ""

    def shape(self):
        """The message without what differs from program to program."""
        if self.status == "differ":
            return "differ"
        text = re.sub(r"'[^']*'|\"[^\"]*\"|/[\w/.-]+", "..", self.reason)
        text = re.sub(r"\b(?:aten\.)?(\w*?)_?\d[\w.]*", r"\1#", text)
        return re.sub(r"\[[^\]]*\]|-?\d+", "#", text)[:160]


def compare_files(expected, outputs, inputs):
    """(output, reason) of the first that disagrees, or None."""
    for name in expected:
        if name.startswith("ref_"):
            continue
        if name not in outputs:
            if name.startswith("mutated_") and name[8:] in inputs and inputs[name[8:]].equal(expected[name]):
                continue  # written with what was there
            return name, "is missing"
        reason = comparison.disagreement(outputs[name], expected[name], expected.get(reference_name(name)))
        if reason:
            return name, reason
    return None


class Runner:
    def __init__(self, binaries, work, devices, jobs=1, seconds=120):
        self.binaries, self.work, self.devices, self.jobs, self.seconds = binaries, work, tuple(devices), jobs, seconds
        self.batched = os.access(os.path.join(binaries, "tsc_differential"), os.X_OK)
        os.makedirs(work, exist_ok=True)

    def run(self, folders, devices=None):
        devices = devices or self.devices
        if self.batched:
            return self.run_batch(folders, devices)
        return [self.run_one(folder, device) for folder in folders for device in devices]

    def run_batch(self, folders, devices):
        listing = os.path.join(self.work, "list")
        with open(listing, "w") as file:
            file.write("".join(f + "\n" for f in folders))
        command = [os.path.join(self.binaries, "tsc_differential"), "run", "--devices", ",".join(devices), "--jobs", str(self.jobs), "--batch", "24", "--list", listing]
        done = subprocess.run(command, capture_output=True, text=True, errors="replace")
        if done.returncode not in (0, 1):
            raise RuntimeError(f"tsc_differential ended with {done.returncode}: {done.stderr[-500:]}")
        verdicts = []
        for line in done.stdout.splitlines():
            if line.startswith("{"):
                one = json.loads(line)
                verdicts.append(Verdict(one["case"], one["device"], one["status"], one.get("output", ""), one.get("reason", ""), one.get("code", "")))
        return verdicts

    def run_one(self, folder, device):
        outputs = os.path.join(self.work, "outputs.safetensors")
        if os.path.exists(outputs):
            os.remove(outputs)
        command = [os.path.join(self.binaries, "tsc"), "run", os.path.join(folder, "model.pt2"), "--inputs", os.path.join(folder, "inputs.safetensors"),
                   "--outputs", outputs, "--device", device.split("-")[0]] + (["--plan", "cuda"] if device == "host-cuda" else [])
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace", start_new_session=True,
                                   preexec_fn=limit_memory if device != "cuda" else None)
        try:
            _, errors = process.communicate(timeout=self.seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            return Verdict(folder, device, "hang", "", f"{self.seconds} s")
        code = process.returncode
        errors = errors.strip()
        lines = [line for line in errors.splitlines() if "error" in line] or errors.splitlines()
        reason = "\n".join(lines[:6])[:600]
        if code < 0 or code >= 128:
            return Verdict(folder, device, "crash", "", f"signal {-code if code < 0 else code - 128} {reason}")
        if code in (3, 4):
            return Verdict(folder, device, "refused", "", reason)
        if code == 5:
            return Verdict(folder, device, "compiler_error" if "TSC-R011" in errors or "NVRTC" in errors else "crash", "", errors[:1500])
        if code:
            return Verdict(folder, device, "internal_error", "", reason)
        try:
            actual = load_file(outputs)
        except Exception as error:
            actual = {}
            if os.path.exists(outputs) and "metadata" not in str(error):
                return Verdict(folder, device, "differ", "", f"outputs cannot be read: {error}")
        wrong = compare_files(load_file(os.path.join(folder, "expected.safetensors")), actual, load_file(os.path.join(folder, "inputs.safetensors")))
        return Verdict(folder, device, "differ", *wrong) if wrong else Verdict(folder, device, "agree")


def limit_memory():
    resource.setrlimit(resource.RLIMIT_AS, (12 << 30, 12 << 30))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
