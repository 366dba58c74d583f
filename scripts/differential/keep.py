"""Findings become recorded cases: tests/cases/FAMILY, in the form of scripts/record/operator_cases.py."""
import json
import os
import pickle
import sys

import torch
from safetensors.torch import load_file

import recording

RECORD = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "record")


def in_order(case):
    """(output, reference or None) as tests take them: what was mutated in front, buffers before inputs."""
    program = case.program
    buffers = [n for n, _ in program.module().named_buffers()]
    names = [f"mutated_{n}" for n in buffers + [x.name for x in program.user_inputs()]]
    names += [f"output_{i}" for i in range(len(program.outputs))]
    return [(case.expected[n], case.expected.get(recording.reference_name(n))) for n in names if n in case.expected]


def keep(folders, family_name):
    sys.path.insert(0, RECORD)
    import case_archive
    import operator_cases

    family = operator_cases.Family(family_name)
    if family_name in case_archive.families():
        case_archive.unpack(family_name)
        folder = os.path.join(case_archive.ROOT, family_name)
        with open(os.path.join(folder, case_archive.GRAPHS)) as file:
            family.graphs = json.load(file)
        family.tensors = load_file(os.path.join(folder, case_archive.TENSORS))
    for folder in folders:
        name = os.path.basename(folder.rstrip("/")).replace("-", "_")
        with open(os.path.join(folder, "program.pickle"), "rb") as file:
            case = recording.record(pickle.load(file))
        assert all(g["name"] != name for g in family.graphs), name
        family.graphs.append({"name": name, "model": operator_cases.model_of(case.exported)})
        for i, x in enumerate(case.program.user_inputs()):
            family.tensors[f"{name}/input_{i}"] = case.inputs[x.name]
        constants = {k: x for k, x in case.exported.constants.items() if isinstance(x, torch.Tensor)}
        for key, x in {**case.exported.state_dict, **constants}.items():
            family.tensors[f"{name}/weight/{key}"] = x.detach().contiguous().clone()
        for i, (output, reference) in enumerate(in_order(case)):
            family.tensors[f"{name}/output_{i}"] = output
            if reference is not None:
                family.tensors[f"{name}/reference_{i}"] = reference
    family.write()
    return 0
