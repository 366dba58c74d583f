"""Exports the small GPT-2 of graphs/gpt2_small and records what PyTorch computes with it.

    python3 scripts/export/gpt2_small.py [FOLDER]      (default: graphs/gpt2_small)

Needs torch and transformers; tsc needs neither. Writes
    default.pt2       torch.export.save(torch.export.export(model, inputs)), composite operators kept
    decomposed.pt2    the same after run_decompositions()
    inputs.npz        input_0: token ids
    expected.npz      output_0: eager fp32 logits; reference_0: the same in float64
"""
import os
import re
import sys

import numpy as np
import torch
import transformers
from transformers import GPT2Config, GPT2LMHeadModel


# Frames keep their path inside the package or the repository, and no folder of the machine.
ROOTS = sorted({os.path.abspath(folder) + os.sep for folder in (
    os.path.dirname(os.path.dirname(torch.__file__)), os.path.dirname(os.path.dirname(transformers.__file__)),
    os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))}, key=len, reverse=True)


def save(program, path):
    for node in program.graph.nodes:
        trace = node.meta.get("stack_trace")
        if trace:
            for root in ROOTS:
                trace = trace.replace(root, "")
            assert not re.search(r'File "[/\\\\]', trace), trace
            node.meta["stack_trace"] = trace
    torch.export.save(program, path)


class Logits(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, input_ids):
        return self.model(input_ids, use_cache=False).logits


def main():
    root = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
    folder = sys.argv[1] if len(sys.argv) > 1 else os.path.join(root, "graphs", "gpt2_small")
    os.makedirs(folder, exist_ok=True)
    torch.manual_seed(0)
    config = GPT2Config(n_layer=2, n_embd=64, n_head=4, vocab_size=509, n_positions=64,
                        bos_token_id=0, eos_token_id=0)
    model = Logits(GPT2LMHeadModel(config)).eval()
    # Freshly initialized layer norms are the identity, which would hide mistakes: shake all parameters.
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.05)
    ids = torch.randint(0, config.vocab_size, (3, 37))
    with torch.no_grad():
        eager = model(ids)
        program = torch.export.export(model, (ids,), strict=False)
        save(program, os.path.join(folder, "default.pt2"))
        # PyTorch 2.11 decomposes the CPU's attention into a tensor of other strides than it has traced, and
        # then fails on the view behind it: keep that operator whole.
        table = torch.export.default_decompositions()
        table.pop(torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default, None)
        save(program.run_decompositions(table), os.path.join(folder, "decomposed.pt2"))
        reference = model.double()(ids)
    np.savez(os.path.join(folder, "inputs.npz"), input_0=ids.numpy())
    np.savez(os.path.join(folder, "expected.npz"), output_0=eager.numpy(), reference_0=reference.numpy())
    print(f"{folder}: {len(program.graph.nodes)} nodes, "
          f"eager against float64 {float((eager.double() - reference).norm() / reference.norm()):.1e}")


main()
