#!/usr/bin/env python3
"""Models of HuggingFace, timm and torchvision through torch.compile: backend "tsc" beside TorchInductor.

    scripts/bench/torch_compile_zoo.py [NAME ... | timm_NAME | tv_NAME | hf_CLASS | --more] [--device cuda] [--seconds 480] [--jobs 8] [--small]
                                       [--inductor reduce-overhead] [--out FILE.json]

Weights are random and made from configurations: nothing is fetched. Every model has a process of its own. As many as --jobs
says are prepared at once (so that times of compilation are those of a busy machine; --jobs 1 gives an idle one's), then they
measure one after the other, alone on the GPU. What is not done when --seconds are over is ended and said. For each model and
each way to run it (eager, tsc, inductor):

  compile s   the first call: tracing, compiling, one run (caches are empty)
  ms          median of 30 runs between two events (on a CPU: wall clock); the ways take turns
  device ms   what kernels and copies took of that, by the profiler; --out has the longest of them by name
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
SECONDS_TO_MEASURE = 7  # of a model that is ready, the profiler's start among them


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


def of_torchvision(name, batch=32, fixed=False, **options):
    def make(small):
        import torchvision
        inputs = images(False, 1 if small else batch) if fixed else images(small, batch)
        return torchvision.models.get_model(name, weights=None, **options), inputs
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


def causal(kind, batch=4, length=512, **sizes):
    """A language model over tokens."""
    return lambda: hugging_face(kind, sizes, lambda small, c: {
        "input_ids": tokens(1 if small else batch, 16 if small else length, c.vocab_size)})


def translating(kind, **sizes):
    def inputs(small, c):
        ids = tokens(1 if small else 8, 16 if small else 200, c.vocab_size)
        return {"input_ids": ids, "decoder_input_ids": ids.clone()}
    return lambda: hugging_face(kind, sizes, inputs)


def hearing(kind, **sizes):
    def inputs(small, c):
        import torch
        return {"input_values": torch.randn(1 if small else 8, 4000 if small else 80000)}
    return lambda: hugging_face(kind, sizes, inputs)


def seeing(kind, side=224, **sizes):
    def inputs(small, c):
        import torch
        return {"pixel_values": torch.randn(1 if small else 16, 3, side, side)}
    return lambda: hugging_face(kind, sizes, inputs)


# Models that nobody tuned for: measured with --more, as they come out.
MORE = {
    "hf_opt": (causal("OPTForCausalLM", num_hidden_layers=12), "float16"),
    "hf_gpt_neox": (causal("GPTNeoXForCausalLM", hidden_size=1024, num_hidden_layers=10, num_attention_heads=16,
                           intermediate_size=4096), "bfloat16"),
    "hf_bloom": (causal("BloomForCausalLM", hidden_size=1024, n_layer=10, n_head=16, vocab_size=50257), "float16"),
    "hf_falcon": (causal("FalconForCausalLM", hidden_size=1024, num_hidden_layers=10, num_attention_heads=16,
                         vocab_size=32000), "bfloat16"),
    "hf_qwen2": (causal("Qwen2ForCausalLM", hidden_size=896, num_hidden_layers=12, num_attention_heads=14,
                        num_key_value_heads=2, intermediate_size=4864, vocab_size=50000), "bfloat16"),
    "hf_gemma2": (causal("Gemma2ForCausalLM", hidden_size=1152, num_hidden_layers=8, num_attention_heads=8,
                         num_key_value_heads=4, head_dim=144, intermediate_size=6912, vocab_size=32000), "bfloat16"),
    "hf_phi": (causal("PhiForCausalLM", hidden_size=1024, num_hidden_layers=10, num_attention_heads=16,
                      intermediate_size=4096), "float16"),
    "hf_mamba": (causal("MambaForCausalLM", length=64, num_hidden_layers=4, hidden_size=768), "float32"),
    "hf_albert": (causal("AlbertModel", batch=16, hidden_size=768, num_attention_heads=12, intermediate_size=3072,
                         num_hidden_layers=12), "float16"),
    "hf_deberta": (causal("DebertaV2Model", batch=8, hidden_size=768, num_hidden_layers=8, num_attention_heads=12,
                          intermediate_size=3072, relative_attention=True, pos_att_type=["p2c", "c2p"],
                          vocab_size=32000), "float16"),
    "hf_distilbert": (causal("DistilBertModel", batch=16, length=384), "float32"),
    "hf_xlnet": (causal("XLNetModel", n_layer=8, d_model=768, n_head=12, d_inner=3072), "bfloat16"),
    "hf_bart": (translating("BartModel", encoder_layers=6, decoder_layers=6, d_model=768, encoder_ffn_dim=3072,
                            decoder_ffn_dim=3072, encoder_attention_heads=12, decoder_attention_heads=12), "float16"),
    "hf_wav2vec2": (hearing("Wav2Vec2Model", num_hidden_layers=8), "float16"),
    "hf_segformer": (seeing("SegformerModel", side=512), "float16"),
    "hf_mobilevit": (seeing("MobileViTModel", side=256), "float16"),
    "hf_swinv2": (seeing("Swinv2Model"), "float16"),
    "tv_densenet201": (lambda: of_torchvision("densenet201"), "float16"),
    "tv_inception_v3": (lambda: of_torchvision("inception_v3", fixed=True, init_weights=False), "float16"),
    "tv_maxvit_t": (lambda: of_torchvision("maxvit_t", 16, fixed=True), "float16"),
    "tv_regnet_y_1_6gf": (lambda: of_torchvision("regnet_y_1_6gf"), "float16"),
    "tv_resnext50": (lambda: of_torchvision("resnext50_32x4d"), "bfloat16"),
    "tv_shufflenet": (lambda: of_torchvision("shufflenet_v2_x1_5", 64), "float16"),
    "tv_vgg16_bn": (lambda: of_torchvision("vgg16_bn"), "float16"),
    "tv_efficientnet_v2_s": (lambda: of_torchvision("efficientnet_v2_s"), "bfloat16"),
    "timm_hrnet_w18": (lambda: of_timm("hrnet_w18", 16), "float16"),
    "timm_coatnet_0": (lambda: of_timm("coatnet_0_rw_224", fixed=True), "float16"),
    "timm_xcit_small": (lambda: of_timm("xcit_small_12_p16_224", fixed=True), "float16"),
    "timm_poolformer_s24": (lambda: of_timm("poolformer_s24"), "float16"),
    "timm_volo_d1": (lambda: of_timm("volo_d1_224", 16, fixed=True), "float16"),
    "timm_convmixer": (lambda: of_timm("convmixer_768_32", 16), "float16"),
    "timm_res2net50": (lambda: of_timm("res2net50_26w_4s"), "float16"),
    "timm_mixnet_m": (lambda: of_timm("mixnet_m"), "float16"),
    "timm_nfnet_l0": (lambda: of_timm("eca_nfnet_l0"), "float16"),
    "timm_gmlp_s16": (lambda: of_timm("gmlp_s16_224", fixed=True), "bfloat16"),
    "timm_dpn68": (lambda: of_timm("dpn68"), "float16"),
    "timm_focalnet_tiny": (lambda: of_timm("focalnet_tiny_srf"), "float16"),
    "timm_ghostnet": (lambda: of_timm("ghostnet_100", 64), "float16"),
}
ALL = MODELS | MORE


def of_name(name):
    """(what makes a model, its dtype) of a name above; or timm_NAME or tv_NAME of any such model, or hf_CLASS of any class of
    transformers that takes tokens, by its configuration's defaults with at most six layers; None: there is none such."""
    if name in ALL:
        return ALL[name]
    kind, _, model = name.partition("_")
    if kind == "timm":
        import timm
        return (lambda: of_timm(model, fixed=True), "float16") if timm.is_model(model) else None
    if kind == "tv":
        import torchvision
        return (lambda: of_torchvision(model, fixed=True), "float16") if model in torchvision.models.list_models() else None
    if kind == "hf":
        import transformers
        built = getattr(transformers, model, None)
        if not hasattr(getattr(built, "config_class", None), "model_type"):
            return None
        config = built.config_class()
        layers = {n: min(6, getattr(config, n)) for n in ("num_hidden_layers", "n_layer", "num_layers", "encoder_layers",
                                                          "decoder_layers", "num_decoder_layers") if hasattr(config, n)}
        make = translating if getattr(config, "is_encoder_decoder", False) else causal
        return make(model, **layers), "bfloat16"
    return None


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


def ms_of(call, device):
    import torch
    if device == "cuda":
        start, stop = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        call()
        stop.record()
        torch.cuda.synchronize()
        return start.elapsed_time(stop)
    began = time.perf_counter()
    call()
    return 1000 * (time.perf_counter() - began)


def wait_for_turn():
    """Everything is compiled: the caller says when the GPU is this process's alone."""
    print("READY", flush=True)
    sys.stdin.readline()


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


def device_times(call):
    """What a call runs on the device: milliseconds in all, and the twelve names that take the most, with count and time."""
    import torch
    from torch.profiler import ProfilerActivity, profile
    with profile(activities=[ProfilerActivity.CUDA]) as profiler:
        call()
        wait("cuda")
    by_name = {}
    for event in profiler.events():
        if event.device_type == torch.autograd.DeviceType.CUDA:
            entry = by_name.setdefault(event.name[:120], [0, 0.0])
            entry[0] += 1
            entry[1] += event.device_time / 1000
    longest = sorted(by_name.items(), key=lambda one: -one[1][1])[:12]
    return sum(ms for _, ms in by_name.values()), [[name, count, round(ms, 5)] for name, (count, ms) in longest]


def measure_inference(name, options):
    import torch
    make, dtype = of_name(name)
    module, inputs = make()(options.small)
    module = module.eval().to(options.device)
    inputs = {k: v.to(options.device) for k, v in inputs.items()}
    dtype = torch.float32 if options.device == "cpu" else getattr(torch, dtype)

    def as_given(kind):
        return {k: v.to(kind) if v.is_floating_point() else v for k, v in inputs.items()}

    def run(function, given):
        return function(given["x"]) if list(given) == ["x"] else function(**given)

    rows, functions = {}, {}
    with torch.no_grad():
        reference = [o.clone() for o in flat(run(module, as_given(torch.float32)))]
        module = module.to(dtype)
        given = as_given(dtype)
        for way in options.ways:
            row = rows[way] = {"model": name, "way": way, "dtype": str(dtype)}
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
                functions[way] = function
            except Exception as error:  # the other ways are measured all the same
                row["failed"] = f"{type(error).__name__}: {str(error)[:300]}"
            if way == "tsc":
                row.update(coverage())
        wait_for_turn()
        samples = {way: [] for way in functions}
        try:
            for _ in range(5 if options.small else RUNS):
                for way, function in functions.items():
                    samples[way].append(ms_of(lambda: run(function, given), options.device))
            for way, function in functions.items():
                rows[way]["ms"] = statistics.median(samples[way])
                rows[way]["error_after"] = error_of(flat(run(function, given)), reference)
                if options.device == "cuda":
                    rows[way]["device_ms"], rows[way]["longest"] = device_times(lambda: run(function, given))
        finally:
            for row in rows.values():
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
    wait_for_turn()
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

class Child:
    """A model's process: prepares at once, measures when told to."""

    def __init__(self, name, options):
        self.folder = tempfile.TemporaryDirectory()
        caches = self.folder.name
        environment = dict(os.environ, XDG_CACHE_HOME=caches, TORCHINDUCTOR_CACHE_DIR=caches + "/inductor",
                           TRITON_CACHE_DIR=caches + "/triton", TORCHINDUCTOR_FORCE_DISABLE_CACHES="1",
                           TORCHINDUCTOR_COMPILE_THREADS="3", HF_HUB_OFFLINE="1", PYTHONUNBUFFERED="1")
        command = [sys.executable, "-W", "ignore", __file__, "--one", name, "--device", options.device, "--inductor",
                   options.inductor, "--ways", ",".join(options.ways)] + (["--small"] if options.small else [])
        self.errors = tempfile.TemporaryFile("w+")
        self.rows, self.is_ready = [], False
        self.process = subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=self.errors, text=True)

    def prepare(self):
        for line in self.process.stdout:
            if line.startswith("READY"):
                self.is_ready = True
                return

    def measure(self, limit):
        """Why the rows are not all there, or ""."""
        timer = threading.Timer(max(limit, 0), self.process.kill)
        timer.start()
        if self.is_ready:  # else it has failed by itself, or was given up
            try:
                self.process.stdin.write("go\n")
                self.process.stdin.flush()
            except OSError:
                pass
            for line in self.process.stdout:
                if line.startswith("ROW "):
                    self.rows.append(json.loads(line[4:]))
        code = self.process.wait()
        is_late = not timer.is_alive() or not self.is_ready
        timer.cancel()
        if code == 0:
            return ""
        self.errors.seek(0)
        last = [line for line in self.errors.read().splitlines() if line.strip()][-1:] or [""]
        return "no time was left" if is_late and code < 0 else f"exit code {code}: {last[0][:200]}"


def text_of(row):
    def number(key, form):
        return format(row[key], form) if key in row else "-"
    nodes = f"{row['compiled_nodes']}/{row['nodes']}" if "nodes" in row else ""
    text = (f"{row['model']:28} {row['way']:9} {number('compile_s', '9.1f')} {number('ms', '10.3f')} "
            f"{number('device_ms', '10.3f')} {number('error', '9.1e')}  {nodes}")
    return text + ("\n    failed: " + row["failed"] if "failed" in row else "") + "".join(
        f"\n    PyTorch runs {one}" for one in row.get("fallbacks", [])[:4])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    parser.add_argument("--seconds", type=float, default=480, help="for all models")
    parser.add_argument("--jobs", type=int, default=8, help="models that are prepared at once")
    parser.add_argument("--more", action="store_true", help="the models that nobody tuned for")
    parser.add_argument("--small", action="store_true", help="one small input and two layers: to try the script")
    parser.add_argument("--inductor", default="reduce-overhead", help="its mode, or default")
    parser.add_argument("--ways", default="eager,tsc,inductor")
    parser.add_argument("--out", help="all figures as JSON")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.ways = options.ways.split(",")
    if options.one:
        return measure(options.one, options)
    unknown = [name for name in options.names if name != "training" and of_name(name) is None]
    if unknown:
        parser.error(f"{unknown}: there are {', '.join(ALL)}, timm_NAME, tv_NAME, hf_CLASS")
    end, rows, ended = time.monotonic() + options.seconds, [], {}
    names = options.names or list(MORE if options.more else MODELS)
    gate, children = threading.Semaphore(options.jobs), {}

    def prepare(name):
        with gate:
            if time.monotonic() < end:
                children[name] = Child(name, options)
                children[name].prepare()

    threads = [threading.Thread(target=prepare, args=(name,), daemon=True) for name in names]
    for thread in threads:
        thread.start()
    # Time enough to measure what is ready is kept; what is not ready by then is given up.
    while any(thread.is_alive() for thread in threads):
        ready = sum(child.is_ready for child in list(children.values()))
        if time.monotonic() > end - SECONDS_TO_MEASURE * (ready + 1):
            break
        time.sleep(0.2)
    for child in list(children.values()):
        if not child.is_ready:
            child.process.kill()
            child.process.wait()
    print(f"{'model':28} {'way':9} {'compile s':>9} {'ms':>10} {'device ms':>10} {'error':>9}  nodes")
    for name in names:
        why = children[name].measure(end - time.monotonic()) if name in children else "no time was left"
        own = children[name].rows if name in children else []
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
