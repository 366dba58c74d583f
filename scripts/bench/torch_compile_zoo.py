#!/usr/bin/env python3
"""Models of HuggingFace, timm and torchvision through torch.compile: backend "tsc" beside TorchInductor.

    scripts/bench/torch_compile_zoo.py [NAME ...] [--device cuda] [--seconds 480] [--model-seconds 110] [--small]
                                       [--inductor reduce-overhead] [--out FILE.json]

Weights are random and made from configurations: nothing is fetched. Every model runs in a process of its own, which is
ended at its limit of time; what it had measured by then counts. For each model and each way to run it (eager, tsc,
inductor):

  compile s   the first call: tracing, compiling, one run (caches are empty)
  ms          median of 30 runs between two events (on a CPU: wall clock)
  error       relative error of the norm of the outputs, against the same model run eagerly in float32
  nodes       of tsc: how many nodes of the graph it compiled; the others are PyTorch's, with the reason below

Inductor runs in the mode "reduce-overhead" unless --inductor says another: it replays CUDA graphs then, as tsc does.
`training` is 20 steps with AdamW, and says how far the losses are from eager's. `TSC_LIBRARY` names libtsc_api.so.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
RUNS, STEPS = 30, 20


# ---- models: (module, arguments) in float32, on the CPU

def tokens(batch, length, most):
    import torch
    return torch.randint(0, most, (batch, length))


def hugging_face(model, config, inputs):
    import transformers

    def make(small):
        options = dict(config)
        if small:
            options.update({k: 2 for k in options if k in ("n_layer", "num_hidden_layers", "num_layers",
                                                           "num_decoder_layers")})
        built = getattr(transformers, model)
        configuration = built.config_class(**options)
        if hasattr(configuration, "use_cache"):
            configuration.use_cache = False
        return built(configuration), inputs(small, configuration)
    return make


def gpt2(**options):
    return hugging_face("GPT2LMHeadModel", dict(n_layer=12, **options), lambda small, c: {
        "input_ids": tokens(1 if small else 8, 16 if small else 512, c.vocab_size)})


def bert():
    return hugging_face("BertModel", dict(num_hidden_layers=12), lambda small, c: {
        "input_ids": tokens(1 if small else 32, 16 if small else 128, c.vocab_size)})


def llama():
    sizes = dict(hidden_size=1024, intermediate_size=2816, num_hidden_layers=8, num_attention_heads=16,
                 num_key_value_heads=4, vocab_size=32000)
    return hugging_face("LlamaForCausalLM", sizes, lambda small, c: {
        "input_ids": tokens(1 if small else 4, 16 if small else 1024, c.vocab_size)})


def t5():
    def inputs(small, c):
        ids = tokens(1 if small else 8, 16 if small else 256, c.vocab_size)
        return {"input_ids": ids, "decoder_input_ids": ids}
    return hugging_face("T5Model", dict(num_layers=6, num_decoder_layers=6), inputs)


def whisper():
    def inputs(small, c):
        import torch
        batch = 1 if small else 8
        return {"input_features": torch.randn(batch, c.num_mel_bins, 2 * c.max_source_positions),
                "decoder_input_ids": tokens(batch, 8 if small else 64, c.vocab_size)}
    return hugging_face("WhisperModel", dict(d_model=384, encoder_layers=4, decoder_layers=4,
                                             encoder_attention_heads=6, decoder_attention_heads=6,
                                             encoder_ffn_dim=1536, decoder_ffn_dim=1536), inputs)


def images(small, batch, side=224):
    import torch
    return {"x": torch.randn(1 if small else batch, 3, 64 if small and side == 224 else side,
                             64 if small and side == 224 else side)}


def of_torchvision(name, batch=32, **options):
    def make(small):
        import torchvision
        return torchvision.models.get_model(name, weights=None, **options), images(small, batch)
    return make


def of_timm(name, batch=32, fixed=False):
    def make(small):
        import timm
        inputs = images(False, 1 if small else batch) if fixed else images(small, batch)
        return timm.create_model(name, pretrained=False), inputs
    return make


# The most telling first: time may end.
MODELS = {
    "hf_gpt2": (lambda: gpt2(), "bfloat16"),
    "tv_resnet50": (lambda: of_torchvision("resnet50"), "float16"),
    "training": (None, "float32"),
    "hf_bert": (lambda: bert(), "bfloat16"),
    "timm_vit_base_patch16_224": (lambda: of_timm("vit_base_patch16_224", fixed=True), "float16"),
    "hf_llama": (lambda: llama(), "bfloat16"),
    "tv_mobilenet_v3_large": (lambda: of_torchvision("mobilenet_v3_large", 64), "float16"),
    "timm_convnext_tiny": (lambda: of_timm("convnext_tiny"), "float16"),
    "hf_t5": (lambda: t5(), "float32"),
    "tv_swin_t": (lambda: of_torchvision("swin_t"), "float16"),
    "hf_whisper": (lambda: whisper(), "float16"),
    "tv_efficientnet_b0": (lambda: of_torchvision("efficientnet_b0", 64), "float16"),
    "timm_mixer_b16_224": (lambda: of_timm("mixer_b16_224", fixed=True), "float16"),
}


# ---- one model, in a process of its own

def flat(outputs):
    from torch.utils import _pytree as pytree
    import torch
    if hasattr(outputs, "to_tuple"):
        outputs = outputs.to_tuple()
    return [o for o in pytree.tree_leaves(outputs) if isinstance(o, torch.Tensor) and o.is_floating_point()]


def error_of(outputs, reference):
    """Of the norm of all outputs together."""
    if len(outputs) != len(reference):
        raise AssertionError(f"{len(outputs)} outputs, not {len(reference)}")
    difference = sum(float((a.double() - b.double()).square().sum()) for a, b in zip(outputs, reference))
    return (difference / max(sum(float(b.double().square().sum()) for b in reference), 1e-300)) ** 0.5


def wait(device):
    import torch
    if device == "cuda":
        torch.cuda.synchronize()


def median_ms(call, device, runs):
    import torch
    samples = []
    for _ in range(runs):
        if device == "cuda":
            start, stop = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            start.record()
            call()
            stop.record()
            torch.cuda.synchronize()
            samples.append(start.elapsed_time(stop))
        else:
            start = time.perf_counter()
            call()
            samples.append(1000 * (time.perf_counter() - start))
    return statistics.median(samples)


def compiled(module, way, mode):
    """`module` run in this way."""
    import torch
    torch._dynamo.reset()
    if way == "eager":
        return module
    if way == "inductor":
        return torch.compile(module, backend="inductor", mode=None if mode == "default" else mode)
    import tsc
    tsc.reset_reports()
    return torch.compile(module, backend=tsc.backend)


def coverage():
    import tsc
    reports = tsc.reports()
    return {"nodes": sum(r.nodes for r in reports), "compiled_nodes": sum(r.compiled_nodes for r in reports),
            "programs": sum(r.programs for r in reports), "kernels": sum(r.kernels for r in reports),
            "library_calls": sum(r.library_calls for r in reports), "tsc_s": sum(r.seconds for r in reports),
            "fallbacks": sorted({f"{len(f.nodes)} x {f.target or 'nodes'}: {f.code} {f.message}"[:200]
                                 for r in reports for f in r.fallbacks})}


def tell(row):
    print("ROW " + json.dumps(row), flush=True)


def measure_inference(name, options):
    import torch
    make, dtype = MODELS[name]
    module, inputs = make()(options.small)
    module = module.eval().to(options.device)
    inputs = {k: v.to(options.device) for k, v in inputs.items()}
    dtype = torch.float32 if options.device == "cpu" else getattr(torch, dtype)

    def as_given(kind):
        return {k: v.to(kind) if v.is_floating_point() else v for k, v in inputs.items()}

    def run(function, given):
        return function(given["x"]) if list(given) == ["x"] else function(**given)

    with torch.no_grad():
        reference = [o.clone() for o in flat(run(module, as_given(torch.float32)))]
        module = module.to(dtype)
        given = as_given(dtype)
        for way in options.ways:
            row = {"model": name, "way": way, "dtype": str(dtype)}
            try:
                function = compiled(module, way, options.inductor)
                wait(options.device)
                start = time.perf_counter()
                outputs = [o.clone() for o in flat(run(function, given))]
                wait(options.device)
                row["compile_s"] = time.perf_counter() - start
                row["error"] = error_of(outputs, reference)
                for _ in range(3):
                    run(function, given)
                wait(options.device)
                row["ms"] = median_ms(lambda: run(function, given), options.device, 5 if options.small else RUNS)
                row["error_after"] = error_of(flat(run(function, given)), reference)
            except Exception as error:  # the other ways are measured all the same
                row["failed"] = f"{type(error).__name__}: {str(error)[:300]}"
            if way == "tsc":
                row.update(coverage())
            tell(row)


def measure_training(options):
    """20 steps of a small transformer, from the same weights and batches."""
    import copy

    import torch
    import transformers
    layers, width, batch, length = (2, 64, 2, 16) if options.small else (4, 512, 8, 256)
    configuration = transformers.GPT2Config(n_layer=layers, n_embd=width, n_head=width // 64, vocab_size=8192,
                                            resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, use_cache=False)
    torch.manual_seed(0)
    original = transformers.GPT2LMHeadModel(configuration).to(options.device).train()
    batches = [tokens(batch, length, 8192).to(options.device) for _ in range(STEPS)]
    eager_losses = None
    for way in options.ways:
        row = {"model": "training", "way": way, "dtype": "torch.float32"}
        try:
            module = copy.deepcopy(original)
            optimizer = torch.optim.AdamW(module.parameters(), lr=1e-3)
            function = compiled(module, way, "default")  # graphs would keep gradients alive
            losses, times = [], []
            for ids in batches:
                wait(options.device)
                start = time.perf_counter()
                loss = function(input_ids=ids, labels=ids).loss
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()
                losses.append(float(loss))
                wait(options.device)
                times.append(time.perf_counter() - start)
            eager_losses = eager_losses or losses
            row.update({"compile_s": times[0], "ms": 1000 * statistics.median(times[3:]),
                        "error": max(abs(a - b) / abs(b) for a, b in zip(losses, eager_losses)),
                        "first_loss": losses[0], "last_loss": losses[-1]})
        except Exception as error:
            row["failed"] = f"{type(error).__name__}: {str(error)[:300]}"
        if way == "tsc":
            row.update(coverage())
        tell(row)


def measure(name, options):
    sys.path.insert(0, str(ROOT / "python"))
    import torch
    torch.manual_seed(0)
    if options.device == "cpu":
        torch.set_num_threads(2)
    if name == "training":
        measure_training(options)
    else:
        measure_inference(name, options)


# ---- all of them

def run_child(name, options, limit):
    """The rows of a model, and why they are not all there (or "")."""
    rows = []
    with tempfile.TemporaryDirectory() as caches:
        environment = dict(os.environ, XDG_CACHE_HOME=caches, TORCHINDUCTOR_CACHE_DIR=caches + "/inductor",
                           TRITON_CACHE_DIR=caches + "/triton", TORCHINDUCTOR_FORCE_DISABLE_CACHES="1",
                           HF_HUB_OFFLINE="1", PYTHONUNBUFFERED="1")
        command = [sys.executable, __file__, "--one", name, "--device", options.device, "--inductor", options.inductor,
                   "--ways", ",".join(options.ways)] + (["--small"] if options.small else [])
        with tempfile.TemporaryFile("w+") as errors:
            child = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=errors, text=True)
            timer = threading.Timer(limit, child.kill)
            timer.start()
            for line in child.stdout:
                if line.startswith("ROW "):
                    rows.append(json.loads(line[4:]))
            code = child.wait()
            is_late = not timer.is_alive()
            timer.cancel()
            if code == 0:
                return rows, ""
            errors.seek(0)
            last = [line for line in errors.read().splitlines() if line.strip()][-1:] or [""]
            return rows, f"ended after {limit:.0f} s" if is_late else f"exit code {code}: {last[0][:200]}"


def text_of(row):
    def number(key, form):
        return format(row[key], form) if key in row else "-"
    nodes = f"{row['compiled_nodes']}/{row['nodes']}" if "nodes" in row else ""
    text = (f"{row['model']:28} {row['way']:9} {number('compile_s', '9.1f')} {number('ms', '10.3f')} "
            f"{number('error', '9.1e')}  {nodes}")
    return text + ("\n    failed: " + row["failed"] if "failed" in row else "") + "".join(
        f"\n    PyTorch runs {one}" for one in row.get("fallbacks", [])[:4])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    parser.add_argument("--seconds", type=float, default=480, help="for all models")
    parser.add_argument("--model-seconds", type=float, default=110)
    parser.add_argument("--small", action="store_true", help="one small input and two layers: to try the script")
    parser.add_argument("--inductor", default="reduce-overhead", help="its mode, or default")
    parser.add_argument("--ways", default="eager,tsc,inductor")
    parser.add_argument("--out", help="all figures as JSON")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.ways = options.ways.split(",")
    if options.one:
        return measure(options.one, options)
    unknown = [name for name in options.names if name not in MODELS]
    if unknown:
        parser.error(f"{unknown}: there are {', '.join(MODELS)}")
    end, rows, ended = time.monotonic() + options.seconds, [], {}
    print(f"{'model':28} {'way':9} {'compile s':>9} {'ms':>10} {'error':>9}  nodes")
    for name in options.names or MODELS:
        limit = min(options.model_seconds, end - time.monotonic())
        if limit < 15:
            ended[name] = "no time was left"
            print(f"{name:28} not run: no time was left")
            continue
        own, why = run_child(name, options, limit)
        rows += own
        for row in own:
            print(text_of(row), flush=True)
        if why:
            ended[name] = why
            print(f"{name:28} {why}", flush=True)
        if options.out:  # what is known so far: the caller's time may end, too
            pathlib.Path(options.out).write_text(json.dumps({"rows": rows, "ended": ended}, indent=1))
    by_way = {(row["model"], row["way"]): row["ms"] for row in rows if "ms" in row}
    ratios = [by_way[m, "inductor"] / ms for (m, way), ms in by_way.items() if way == "tsc" and (m, "inductor") in by_way]
    if ratios:
        print(f"Inductor's time over tsc's, geometric mean of {len(ratios)}: {statistics.geometric_mean(ratios):.2f}")


if __name__ == "__main__":
    sys.exit(main())
