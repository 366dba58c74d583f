"""Every model type that transformers knows, made small by the names of its settings, exported, with what PyTorch computes.

    python3 scripts/export/every_transformer.py FOLDER [--seconds T] [--seed N] [NAME ...]
    scripts/check_exports build/release/bin/tsc FOLDER reference

Writes one FOLDER/NAME each (recording.py), and FOLDER/not_recorded.json: which models could not be made, run or exported in
PyTorch, and why. Nobody has chosen the models or their sizes: what the names do not tell is left as transformers has it, and
about half of the models do not come about so. Each model has a process, a time limit and a limit of memory.

With --full models have their own sizes, but two layers, and no weights: FOLDER/NAME.json is the program alone, in bfloat16,
for `tsc compile` and `tsc explain`.
"""
import argparse
import contextlib
import copy
import inspect
import json
import os
import random
import re
import resource
import shutil
import sys
import time

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")

import torch
import transformers
from recording import record, shake
from transformers.models.auto.configuration_auto import CONFIG_MAPPING
from transformers.models.auto.modeling_auto import MODEL_MAPPING_NAMES

MOST_PARAMETERS, MOST_BYTES, SECONDS = 60_000_000, 14 << 30, 150
LAYERS = (r"(^|_)(num_hidden_layers|num_layers|n_layers?|(en|de)coder_layers|depth|num_(en|de)coder_layers|"
          r"encoder_num_hidden_layers|n(um)?_blocks)$", 2)
# What a setting of such a name is at most.
SMALL = (
    LAYERS,
    (r"kv_heads$|key_value_heads$|num_key_value_groups", 2),
    (r"(attention_heads|num_heads|n_heads?|encoder_heads|nheads?|num_query_heads)$", 4),
    (r"(^|_)(head_dim|kv_channels|d_kv|v_head_dim|qk_(nope|rope)_head_dim|attention_head_size|global_head_dim)$", 16),
    (r"(kv|q|o)_lora_rank", 32),
    (r"(^|_)(hidden_size|d_model|n_embd|embed_dim|embedding_size|hidden_dim|word_embed_proj_dim|width|attention_dim|lru_width|"
     r"projection_dim|emb_dim|fpn_feature_size|mask_feature_size|feature_size|output_dim|projector_hidden_size|proj_dim)$", 64),
    (r"(intermediate_size|ffn_dim|d_ff|n_inner|inner_dim|mlp_dim|ffn_hidden_size|dim_feedforward)$", 96),
    (r"^vocab_size|_vocab_size$|entity_vocab", 130),
    (r"(num_experts|num_local_experts|n_routed_experts|moe_num_experts|num_moe_experts)$", 4),
    (r"(num_experts_per_tok|moe_topk|moe_k|top_k_experts)$", 2),
    (r"^n_group$|^topk_group$|num_expert_group|first_k_dense_replace", 1),
    (r"num_queries|num_query_tokens|num_latents$", 12),
    (r"(max_position_embeddings|n_positions|max_source_positions|max_target_positions|max_seq_len|seq_length)$", 256),
    (r"mamba_n_heads|mamba_num_heads", 4),
    (r"mamba_d_head|mamba_head_dim", 32),
    (r"d_state|state_size", 16),
)
EDGE, LARGEST_TOKEN = 64, 119


def shrunk(settings, rules):
    """The settings that change: {name: value}."""
    full = rules == (LAYERS,)
    changed = {}
    for name, value in settings.items():
        if isinstance(value, bool) or name == "embed_dim" and isinstance(settings.get("num_heads"), list):
            continue
        if isinstance(value, int):
            if name.endswith(("_token_id", "_token_index")):
                if not full and value > LARGEST_TOKEN:
                    changed[name] = 100 + value % 20
            elif name == "image_size" and not full:
                changed[name] = min(value, EDGE)
            else:
                most = next((most for pattern, most in rules if re.search(pattern, name)), value)
                if value > most:
                    changed[name] = most
        elif isinstance(value, (list, tuple)) and value and all(type(x) is int for x in value):
            if name in ("depths", "layers", "num_blocks", "encoder_depths"):
                changed[name] = [1] * len(value)
            elif not full and max(value) > 64 and re.search("hidden_sizes|embed_dims|channels|conv_dim|dims$|widths", name):
                changed[name] = [max(16, x // 8) for x in value]
    return changed


def settings_of(name, rules):
    kind = CONFIG_MAPPING[name]
    given = kind()
    changed = shrunk(given.to_dict(), rules)
    parts = [part for part in getattr(kind, "sub_configs", None) or {} if getattr(given, part, None) is not None]
    for part in parts:
        changed[part] = shrunk(getattr(given, part).to_dict(), rules)
        if getattr(given, part).model_type:
            changed[part]["model_type"] = getattr(given, part).model_type
    made = kind(**changed)
    for settings in [made] + [getattr(made, part) for part in parts if getattr(made, part, None) is not None]:
        if hasattr(settings, "use_cache"):
            settings.use_cache = False
        if rules != (LAYERS,):  # float64, which the reference is in, has no grouped product
            settings._experts_implementation = "batched_mm"
    return made


class Named(torch.nn.Module):
    """A model of transformers as a function of positional tensors, whose results are tensors alone."""

    def __init__(self, model, names):
        super().__init__()
        self.model, self.names = model, names
        self.settings = {"use_cache": False} if "use_cache" in inspect.signature(model.forward).parameters else {}

    def forward(self, *tensors):
        output = self.model(**dict(zip(self.names, tensors)), **self.settings)
        output = output.to_tuple() if hasattr(output, "to_tuple") else output
        return tuple(x for x in torch.utils._pytree.tree_flatten(output)[0] if isinstance(x, torch.Tensor))


def inputs_of(model, settings, batch, tokens):
    parameters = inspect.signature(model.forward).parameters
    text = settings.get_text_config() if hasattr(settings, "get_text_config") else settings
    vocabulary = min(99, (getattr(text, "vocab_size", None) or 100) - 1)
    names = [getattr(model, "main_input_name", "input_ids")]
    names += [name for name in ("input_ids", "pixel_values", "decoder_input_ids")
              if name in parameters and parameters[name].default is inspect.Parameter.empty and name not in names]
    if getattr(settings, "is_encoder_decoder", False) and "decoder_input_ids" in parameters and "decoder_input_ids" not in names:
        names.append("decoder_input_ids")
    if "pixel_values" in parameters and hasattr(settings, "vision_config") and not hasattr(settings, "image_token_id"):
        names += [name for name in ("pixel_values", "input_ids") if name in parameters and name not in names]
    made = {}
    for name in names:
        if name in ("input_ids", "decoder_input_ids"):
            made[name] = torch.randint(3, vocabulary, (batch, tokens if name == "input_ids" else tokens // 2 + 1))
        elif name == "pixel_values":
            vision = getattr(settings, "vision_config", settings)
            edge = getattr(vision, "image_size", None) or EDGE
            frames = getattr(vision, "num_frames", 1)
            edge = edge if isinstance(edge, int) else edge[0]
            lead = (1, min(frames, 16)) if isinstance(frames, int) and frames > 1 else (batch,)
            made[name] = torch.randn(*lead, getattr(vision, "num_channels", 3) or 3, edge, edge)
        elif name == "input_values":
            made[name] = torch.randn(batch, 3200)
        elif name == "input_features":
            made[name] = torch.randn(1, getattr(settings, "num_mel_bins", 80), getattr(settings, "max_source_positions", 100) * 2)
        else:
            raise ValueError(f"no rule for the input {name}")
    return made


def model_class(name):
    known = MODEL_MAPPING_NAMES[name]
    return getattr(transformers, known if isinstance(known, str) else known[0])


def record_small(name, folder):
    rules = [SMALL, tuple(rule for rule in SMALL if "experts" not in rule[0])]  # experts have more than one name
    for attempt in rules:
        try:
            record_with(name, folder, attempt)
            return
        except Exception:
            shutil.rmtree(os.path.join(folder, name), ignore_errors=True)
            if attempt is rules[-1]:
                raise


def record_with(name, folder, rules):
    torch.manual_seed(0)
    settings = settings_of(name, rules)
    with torch.device("meta"):
        size = sum(p.numel() for p in model_class(name)._from_config(copy.deepcopy(settings)).parameters())
    if size > MOST_PARAMETERS:
        raise ValueError(f"{size} parameters")
    model = model_class(name)._from_config(settings).eval()
    shake(model, 0.02)
    tensors = inputs_of(model, settings, batch=2, tokens=13)
    into = os.path.join(folder, name)
    if "attention_mask" in inspect.signature(model.forward).parameters and "input_ids" in tensors:
        masked = dict(tensors, attention_mask=torch.ones(2, 13, dtype=torch.int64))
        masked["attention_mask"][1, 10:] = 0
        with contextlib.suppress(Exception):
            record(Named(model, list(masked)).eval(), tuple(masked.values()), into, with_decomposed=False)
            return
    record(Named(model, list(tensors)).eval(), tuple(tensors.values()), into, with_decomposed=False)


def record_full(name, folder):
    from torch._export.serde.serialize import EnumEncoder, ExportedProgramSerializer, _dataclass_to_dict
    from torch._subclasses.fake_tensor import FakeTensorMode

    settings = settings_of(name, (LAYERS,))
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    try:
        with mode:
            model = model_class(name)._from_config(copy.deepcopy(settings), dtype=torch.bfloat16).eval()
    except Exception:  # some look at numbers while they are made
        model = model_class(name)._from_config(settings, dtype=torch.bfloat16).eval()
    with mode, torch.no_grad():
        tensors = {key: x.to(torch.bfloat16) if x.is_floating_point() else x
                   for key, x in inputs_of(model, settings, batch=4, tokens=500).items()}
        program = torch.export.export(Named(model, list(tensors)).eval(), tuple(tensors.values()), strict=False)
    with open(os.path.join(folder, f"{name}.json"), "w") as file:
        json.dump(_dataclass_to_dict(ExportedProgramSerializer().serialize(program).exported_program), file, cls=EnumEncoder)


def apart(work):
    """Why `work` failed in a process of its own; None if it did not."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        resource.setrlimit(resource.RLIMIT_AS, (MOST_BYTES, MOST_BYTES))
        quiet = os.open(os.devnull, os.O_WRONLY)
        os.dup2(quiet, 1)
        os.dup2(quiet, 2)
        try:
            work()
        except BaseException as error:
            os.write(write, f"{type(error).__name__}: {error}".encode()[:500] or b"?")
        os._exit(0)
    os.close(write)
    end = time.time() + SECONDS
    while os.waitpid(child, os.WNOHANG)[0] == 0:
        if time.time() > end:
            os.kill(child, 9)
            os.waitpid(child, 0)
            return f"took more than {SECONDS} s"
        time.sleep(0.1)
    with os.fdopen(read, "rb") as file:
        return file.read().decode(errors="replace") or None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("names", nargs="*")
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--full", action="store_true")
    options = parser.parse_intermixed_args()
    os.makedirs(options.folder, exist_ok=True)
    names = options.names or sorted(MODEL_MAPPING_NAMES)
    if not options.names:
        random.Random(options.seed).shuffle(names)
    torch.set_num_threads(1)
    end, failed, done = time.time() + options.seconds, {}, 0
    for name in names:
        if time.time() > end:
            break
        why = apart(lambda: (record_full if options.full else record_small)(name, options.folder))
        done += 1
        if why:
            failed[name] = why
    with open(os.path.join(options.folder, "not_recorded.json"), "w") as file:
        json.dump(failed, file, indent=1)
    print(f"{done - len(failed)} models recorded, {len(failed)} not, {len(names) - done} not tried")


if __name__ == "__main__":
    sys.exit(main())
