"""Exports the small GPT-2 of graphs/gpt2_small and records what PyTorch computes with it.

    python3 scripts/export/gpt2_small.py [FOLDER]      (default: graphs/gpt2_small)

Needs torch and transformers; tsc needs neither. Writes default.pt2 (as torch.export.export gives it), decomposed.pt2
(after run_decompositions; its weights' values are those of default.pt2), inputs.npz and expected.npz (output_0: eager float32 logits; reference_0: the same in float64).
"""
import json
import os
import sys
import zipfile

import torch
from recording import REPOSITORY, record, shake
from transformers import GPT2Config, GPT2LMHeadModel


class Logits(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, input_ids):
        return self.model(input_ids, use_cache=False).logits


def drop_values(path):
    """The archive without the tensors that its weights' table names: who runs it passes those of default.pt2."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    table = next(name for name in members if name.endswith("/model_weights_config.json"))
    weights = os.path.dirname(table)
    config = json.loads(members[table])
    for entry in config["config"].values():
        entry["path_name"] = "no_values"
    members[table] = json.dumps(config).encode()
    members[weights + "/no_values"] = b""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, data in members.items():
            if not name.startswith(weights + "/weight_"):
                archive.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), data, zipfile.ZIP_DEFLATED, 9)


def main():
    folder = sys.argv[1] if len(sys.argv) > 1 else os.path.join(REPOSITORY, "graphs", "gpt2_small")
    torch.manual_seed(0)
    config = GPT2Config(n_layer=2, n_embd=64, n_head=4, vocab_size=509, n_positions=64,
                        bos_token_id=0, eos_token_id=0)
    model = Logits(GPT2LMHeadModel(config)).eval()
    shake(model)
    ids = torch.randint(0, config.vocab_size, (3, 37))
    program, values = record(model, (ids,), folder, packed=True)
    drop_values(os.path.join(folder, "decomposed.pt2"))
    eager, reference = values["output_0"].double(), values["reference_0"]
    print(f"{folder}: {len(program.graph.nodes)} nodes, "
          f"eager against float64 {float((eager - reference).norm() / reference.norm()):.1e}")


main()
