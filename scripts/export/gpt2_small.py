"""Exports the small GPT-2 of graphs/gpt2_small and records what PyTorch computes with it.

    python3 scripts/export/gpt2_small.py [FOLDER]      (default: graphs/gpt2_small)

Needs torch and transformers; tsc needs neither. Writes default.pt2 (as torch.export.export gives it), decomposed.pt2
(after run_decompositions), inputs.npz and expected.npz (output_0: eager float32 logits; reference_0: the same in float64).
"""
import os
import sys

import torch
from recording import REPOSITORY, record, shake
from transformers import GPT2Config, GPT2LMHeadModel


class Logits(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, input_ids):
        return self.model(input_ids, use_cache=False).logits


def main():
    folder = sys.argv[1] if len(sys.argv) > 1 else os.path.join(REPOSITORY, "graphs", "gpt2_small")
    torch.manual_seed(0)
    config = GPT2Config(n_layer=2, n_embd=64, n_head=4, vocab_size=509, n_positions=64,
                        bos_token_id=0, eos_token_id=0)
    model = Logits(GPT2LMHeadModel(config)).eval()
    shake(model)
    ids = torch.randint(0, config.vocab_size, (3, 37))
    program, values = record(model, (ids,), folder, packed=True)
    eager, reference = values["output_0"].double(), values["reference_0"]
    print(f"{folder}: {len(program.graph.nodes)} nodes, "
          f"eager against float64 {float((eager - reference).norm() / reference.norm()):.1e}")


main()
