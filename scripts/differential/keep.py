"""Findings become recorded cases: tests/cases/FAMILY, in the form of scripts/record/operator_cases.py."""
import json
import os
import pickle
import sys

import torch

import recording
from tensor_files import load_file

RECORD = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "record")


def in_order(case):
    """(output, reference or None) as tests take them: what was mutated in front, buffers before inputs."""
    program = case.program
    buffers = [n for n, _ in program.module().named_buffers()]
    names = [f"mutated_{n}" for n in buffers + [x.name for x in program.user_inputs()]]
    names += [f"output_{i}" for i in range(len(program.outputs))]
    return [(case.expected[n], case.expected.get(recording.reference_name(n))) for n in names if n in case.expected]


class Recorded:
    """A folder that holds no program to record again: what it says is kept."""

    def __init__(self, folder):
        self.exported = torch.export.load(os.path.join(folder, "model.pt2"))
        self.expected = load_file(os.path.join(folder, "expected.safetensors"))
        inputs = load_file(os.path.join(folder, "inputs.safetensors"))
        self.inputs = [inputs[n] for n in sorted(inputs, key=lambda n: int(n.removeprefix("input_")))]

    def in_order(self):
        buffers = [n for n, _ in self.exported.named_buffers()]
        names = [f"mutated_{n}" for n in buffers + list(self.exported.graph_signature.user_inputs)]
        names += [f"output_{i}" for i in range(sum(n.startswith("output_") for n in self.expected))]
        return [(self.expected[n], self.expected.get(recording.reference_name(n))) for n in names if n in self.expected]


def read(folder):
    """(exported program, inputs, (output, reference or None) as tests take them)."""
    pickled = os.path.join(folder, "program.pickle")
    if not os.path.exists(pickled):
        case = Recorded(folder)
        return case.exported, case.inputs, case.in_order()
    with open(pickled, "rb") as file:
        case = recording.record(pickle.load(file))
    return case.exported, [case.inputs[x.name] for x in case.program.user_inputs()], in_order(case)


def keep(folders, family_name):
    sys.path.insert(0, RECORD)
    import case_archive
    import recorder

    family = recorder.Family(family_name)
    if family_name in case_archive.families():
        case_archive.unpack(family_name)
        folder = os.path.join(case_archive.ROOT, family_name)
        with open(os.path.join(folder, case_archive.GRAPHS)) as file:
            family.graphs = json.load(file)
        mapped = load_file(os.path.join(folder, case_archive.TENSORS))
        family.tensors = {n: x.clone() for n, x in mapped.items()}  # the file is written over
    for folder in folders:
        name = os.path.basename(folder.rstrip("/")).replace("-", "_")
        exported, inputs, outputs = read(folder)
        assert all(g["name"] != name for g in family.graphs), name
        family.graphs.append({"name": name, "model": recorder.model_of(exported)})
        for i, x in enumerate(inputs):
            family.tensors[f"{name}/input_{i}"] = x
        constants = {k: x for k, x in exported.constants.items() if isinstance(x, torch.Tensor)}
        for key, x in {**exported.state_dict, **constants}.items():
            family.tensors[f"{name}/weight/{key}"] = x.detach().contiguous().clone()
        for i, (output, reference) in enumerate(outputs):
            family.tensors[f"{name}/output_{i}"] = output
            if reference is not None:
                family.tensors[f"{name}/reference_{i}"] = reference
    family.write()
    return 0
