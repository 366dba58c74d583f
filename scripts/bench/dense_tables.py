"""Tables of products, attention and convolutions beside PyTorch on one GPU: python3 dense_tables.py TSC WORK [PART ...]

Parts: products, ends (products with what follows them, Inductor beside), float8, attention, backward (of attention), decode, conv, fp32 (all unless some are named). TSC_LIBRARY names libtsc_api.so. Each
workload is exported, compiled by `tsc compile` and loaded into this process; contenders take turns, the L2 is flushed before
each. Peers are eager mode (cuBLASLt, cuDNN with its search) and, for attention, each backend of PyTorch. The result is held
against float64 where that is cheap, else against eager in float32. Rows go to WORK/dense.jsonl; the worst are printed last.
"""
import concurrent.futures as futures
import json
import math
import os
import subprocess
import sys
import time

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from function_module import Fn

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../python"))
BF16, F16, F32 = torch.bfloat16, torch.float16, torch.float32
W = {}


def r(*shape, dtype=BF16, scale=1.0):
    return torch.randn(shape, device="cuda").mul_(scale).to(dtype)


def workload(part, name, make, flops):
    """`make` gives (module, inputs, {peer: function of the inputs})."""
    W[name] = part, make, flops


def product(name, f, m, n, k, *more, batch=(), dtype=BF16, part="products"):
    def make():
        inputs = [r(*batch, m, k, dtype=dtype), r(*batch, n, k, dtype=dtype, scale=k ** -0.5) if not batch
                  else r(*batch, k, n, dtype=dtype, scale=k ** -0.5)] + [r(*shape, dtype=dtype) for shape in more]
        return Fn(f), tuple(inputs), {}
    workload(part, name, make, 2.0 * math.prod(batch) * m * n * k)


def linear(x, w):
    return x @ w.t()


def products():
    for size in (512, 1024, 2048, 4096, 8192, 16384):
        product(f"square_{size}", linear, size, size, size)
    for name, n, k in (("qkv", 2304, 768), ("proj", 768, 768), ("up", 3072, 768), ("down", 768, 3072)):
        product(f"gpt2_{name}", linear, 8192, n, k)
    for m in (1, 4, 16, 64, 333, 4096):
        for n, k in ((4096, 4096), (12288, 4096), (11008, 4096), (4096, 11008)):
            product(f"llama7_{m}x{n}x{k}", linear, m, n, k)
    for m in (1, 4, 16, 64, 1000):
        for n, k in ((8192, 8192), (28672, 8192), (8192, 28672)):
            product(f"llama70_{m}x{n}x{k}", linear, m, n, k)
    for m, n, k in ((5000, 4999, 3001), (1000, 1000, 1000), (777, 333, 999), (4097, 4097, 4097), (123, 50257, 768),
                    (3000, 2048, 17), (65536, 64, 64), (31, 257, 100003)):
        product(f"odd_{m}x{n}x{k}", linear, m, n, k)
    product("turned_2222x1111x3000", lambda a, b: a.t() @ b, 3000, 3000, 2222)
    for b, m, n, k in ((96, 1024, 1024, 64), (96, 1024, 64, 1024), (192, 577, 577, 64), (64, 128, 128, 128),
                       (512, 33, 129, 65)):
        product(f"batch_{b}x{m}x{n}x{k}", lambda a, w: a @ w, m, n, k, batch=(b,))
    product("half_3072", linear, 3072, 3072, 3072, dtype=F16)
    product("bias_gelu", lambda x, w, b: F.gelu(x @ w.t() + b), 8192, 3072, 768, (3072,))
    product("bias_tanh_odd", lambda x, w, b: torch.tanh(x @ w.t() + b), 3001, 2999, 1024, (2999,))
    product("residual", lambda x, w, b: x @ w.t() + b, 8192, 4096, 4096, (8192, 4096))
    product("silu_times", lambda x, w, b: F.silu(x @ w.t()) * b, 4096, 11008, 4096, (4096, 11008))
    product("scale_rows", lambda x, w, b: (x @ w.t()) * b[:, None], 6000, 5120, 5120, (6000,))
    product("add_batch", lambda a, w, b: F.relu(a @ w + b), 577, 577, 64, (577,), batch=(192,))


def inductor(module):
    """The peer that compiles: called with the inputs."""
    import torch._dynamo
    torch._dynamo.config.recompile_limit = 1000  # all share one forward
    compiled = torch.compile(module, dynamic=False)

    def run(*a):
        with torch.no_grad():
            return compiled(*a)
    return {"inductor": run}


def tanh_gelu(x):
    return F.gelu(x, approximate="tanh")


def ends():
    """What models put behind products, at their sizes."""
    def biased(then):
        return lambda x, w, b, *more: then(F.linear(x, w, b), *more)

    def gated(then):
        return lambda x, w, gate: then(x @ w.t()) * gate

    def end(name, f, m, n, k, *more, dtype=BF16):
        def make():
            inputs = [r(m, k, dtype=dtype), r(n, k, dtype=dtype, scale=k ** -0.5)] + [r(*s, dtype=dtype) for s in more]
            return Fn(f), tuple(inputs), inductor(Fn(f))
        workload("ends", name, make, 2.0 * m * n * k)

    end("gelu_2048x4096x1024", biased(F.gelu), 2048, 4096, 1024, (4096,))
    end("tanh_gelu_2048x4096x1024", biased(tanh_gelu), 2048, 4096, 1024, (4096,), dtype=F16)
    end("tanh_gelu_8192x3072x768", biased(tanh_gelu), 8192, 3072, 768, (3072,))
    end("gelu_4096x3072x768", biased(F.gelu), 4096, 3072, 768, (3072,), dtype=F16)
    end("gelu_6304x3072x768", biased(F.gelu), 6304, 3072, 768, (3072,), dtype=F16)
    end("gelu_1111x2056x520", biased(F.gelu), 1111, 2056, 520, (2056,))
    end("relu_2048x3072x768", biased(F.relu), 2048, 3072, 768, (3072,), dtype=F16)
    end("silu_4096x4096x4096", biased(F.silu), 4096, 4096, 4096, (4096,))
    end("silu_gate_2048x4864x896", gated(F.silu), 2048, 4864, 896, (2048, 4864))
    end("tanh_gate_2048x6912x1152", gated(tanh_gelu), 2048, 6912, 1152, (2048, 6912))
    end("silu_gate_4096x11008x4096", gated(F.silu), 4096, 11008, 4096, (4096, 11008))
    end("silu_gate_333x11008x4096", gated(F.silu), 333, 11008, 4096, (333, 11008))
    end("residual_8192x768x3072", biased(torch.add), 8192, 768, 3072, (768,), (8192, 768))
    end("residual_8192x768x768", biased(torch.add), 8192, 768, 768, (768,), (8192, 768))
    end("mish_3000x5000x1000", biased(F.mish), 3000, 5000, 1000, (5000,))
    end("two_results_4096x2048x2048", lambda x, w: (lambda y: (y, torch.sigmoid(y.float()).half()))(x @ w.t()), 4096, 2048, 2048)

    def with_end(name, batch, inputs, outputs, size, kernel, then):
        def make():
            form = torch.channels_last
            module = nn.Sequential(nn.Conv2d(inputs, outputs, kernel, padding=kernel // 2), then).cuda().half()
            module = module.to(memory_format=form)
            x = r(batch, inputs, size, size, dtype=F16).contiguous(memory_format=form)
            return module, (x,), inductor(module)
        workload("ends", name, make, 2.0 * batch * inputs * outputs * size * size * kernel * kernel)

    with_end("silu_1x1_24x56x144", 64, 24, 144, 56, 1, nn.SiLU())
    with_end("hardswish_1x1_112x14x672", 64, 112, 672, 14, 1, nn.Hardswish())
    with_end("silu_3x3_128x28x128", 32, 128, 128, 28, 3, nn.SiLU())
    with_end("gelu_1x1_96x56x384", 32, 96, 384, 56, 1, nn.GELU())


def float8():
    """torch._scaled_mm: one scale for each operand, or one for each row and column."""
    for m, n, k, rows in ((1024, 4096, 4096, False), (4096, 4096, 4096, False), (8192, 8192, 8192, False), (8192, 3072, 768, False),
                          (16, 11008, 4096, False), (333, 12288, 4096, True), (4096, 11008, 4096, True), (4096, 4096, 11008, True)):
        def make(m=m, n=n, k=k, rows=rows):
            x, w = r(m, k).to(torch.float8_e4m3fn), r(n, k).to(torch.float8_e4m3fn)
            scales = [torch.rand(s, device="cuda") + 0.5 for s in (((m, 1), (1, n)) if rows else ((), ()))]
            return Fn(lambda a, b, p, q: torch._scaled_mm(a, b.t(), p, q, out_dtype=BF16)), (x, w, *scales), {}
        workload("float8", f"f8_{m}x{n}x{k}{'_rows' if rows else ''}", make, 2.0 * m * n * k)


def attention_of(heads, length, depth, causal, batch, kv_heads=None, keys=None, dtype=BF16):
    kv_heads, keys = kv_heads or heads, keys or length
    inputs = (r(batch, heads, length, depth, dtype=dtype), r(batch, kv_heads, keys, depth, dtype=dtype),
              r(batch, kv_heads, keys, depth, dtype=dtype))

    def f(q, k, v):
        return F.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=kv_heads != heads)

    def by(backend):
        def run(*a):
            with sdpa_kernel(backend):
                return f(*a)
        return run
    peers = {b.name.lower(): by(b) for b in (SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION)}
    return Fn(f), inputs, peers


def attention():
    for depth in (64, 128, 256):
        heads = 2048 // depth
        for length in (1024, 2048, 4096, 8192, 16384):
            for causal in (False, True):
                batch = max(1, 16384 // length)
                workload("attention", f"attn_d{depth}_l{length}_{'causal' if causal else 'full'}",
                         lambda h=heads, n=length, d=depth, c=causal, b=batch: attention_of(h, n, d, c, b),
                         4.0 * batch * heads * length * length * depth * (0.5 if causal else 1))
    for depth, heads, length, kv, causal in ((128, 32, 4096, 8, True), (80, 16, 2048, 16, False), (96, 16, 3001, 16, True),
                                             (32, 32, 1024, 32, False), (72, 16, 577, 16, False)):
        workload("attention", f"attn_d{depth}_l{length}_kv{kv}",
                 lambda h=heads, n=length, d=depth, c=causal, g=kv: attention_of(h, n, d, c, 4, g),
                 16.0 * heads * length * length * depth * (0.5 if causal else 1))


def backward():
    """What comes to queries, keys and values, by PyTorch's operator of flash attention; cuDNN's beside it."""
    aten = torch.ops.aten

    def make(batch, heads, length, depth, causal):
        q, k, v = (r(batch, heads, length, depth) for _ in range(3))
        with torch.no_grad():
            saved = aten._scaled_dot_product_cudnn_attention(q, k, v, None, True, 0.0, causal)
            flash = aten._scaled_dot_product_flash_attention(q, k, v, 0.0, causal)
        above, seed = r(batch, heads, length, depth), torch.zeros((), dtype=torch.int64, device="cuda")

        def f(g, q, k, v, o, s):
            return aten._scaled_dot_product_flash_attention_backward(g, q, k, v, o, s, None, None, length, length, 0.0, causal, seed, seed)

        def cudnn(g, q, k, v, o, s):
            return aten._scaled_dot_product_cudnn_attention_backward(g, q, k, v, saved[0], saved[1], seed, seed, None, None, None, length, length, 0.0, causal)
        return Fn(f), (above, q, k, v, flash[0], flash[1]), {"cudnn": cudnn}

    for depth in (64, 128):
        for length in (1024, 2048, 4096, 8192):
            for causal in (False, True):
                batch = max(1, 8192 // length)
                workload("backward", f"back_d{depth}_l{length}_{'causal' if causal else 'full'}",
                         lambda b=batch, d=depth, n=length, c=causal: make(b, 2048 // d, n, d, c),
                         10.0 * batch * 2048 * length * length * (0.5 if causal else 1))
    for batch, heads, length, depth, causal in ((4, 16, 577, 72, False), (64, 12, 197, 64, False), (2, 16, 3001, 96, True), (8, 12, 512, 64, True)):
        workload("backward", f"back_d{depth}_l{length}_{'causal' if causal else 'full'}_b{batch}",
                 lambda b=batch, h=heads, n=length, d=depth, c=causal: make(b, h, n, d, c),
                 10.0 * batch * heads * length * length * depth * (0.5 if causal else 1))


def decode():
    for batch, length, kv in ((1, 4096, 8), (1, 32768, 8), (8, 4096, 8), (32, 2048, 8), (64, 4096, 8), (8, 4001, 32),
                              (1, 16384, 32), (2, 777, 32), (16, 8191, 4), (3, 100000, 2)):
        workload("decode", f"decode_b{batch}_l{length}_kv{kv}",
                 lambda b=batch, n=length, g=kv: attention_of(32, 1, 128, False, b, g, n), 4.0 * batch * 32 * length * 128)


def convolution(part, name, batch, inputs, outputs, size, kernel, stride=1, groups=1, dilation=1, dtype=BF16, last=False,
                then=None, transposed=False, padding=None):
    rank = len(size)

    def make():
        kind = getattr(nn, f"Conv{'Transpose' if transposed else ''}{rank}d")
        pad = padding if padding is not None else dilation * (kernel - 1) // 2
        module = kind(inputs, outputs, kernel, stride, pad, groups=groups, dilation=dilation).cuda().to(dtype)
        x = r(batch, inputs, *size, dtype=dtype)
        if last:
            form = torch.channels_last if rank == 2 else torch.channels_last_3d
            x, module = x.contiguous(memory_format=form), module.to(memory_format=form)
        return (nn.Sequential(module, then) if then else module), (x,), {}
    taken = math.prod(size) * (1 if transposed else 1.0 / stride ** rank)
    workload(part, name, make, 2.0 * batch * inputs * outputs // groups * taken * kernel ** rank)


def conv():
    layers = (("stem", 3, 64, 224, 7, 2), ("l1a", 64, 64, 56, 1, 1), ("l1b", 64, 64, 56, 3, 1), ("l1c", 64, 256, 56, 1, 1),
              ("l2b", 128, 128, 56, 3, 2), ("l2c", 128, 512, 28, 1, 1), ("l2d", 256, 512, 56, 1, 2),
              ("l3b", 256, 256, 14, 3, 1), ("l3c", 1024, 256, 14, 1, 1), ("l4b", 512, 512, 7, 3, 1),
              ("l4c", 2048, 512, 7, 1, 1))
    for name, i, o, s, k, st in layers:
        for last in (False, True):
            convolution("conv", f"r50_{name}_{'last' if last else 'first'}", 32, i, o, (s, s), k, st, last=last)
    for name, i, o, s, k, st, g in (("expand", 24, 144, 56, 1, 1, 1), ("dw5s2", 144, 144, 56, 5, 2, 144),
                                    ("project", 240, 40, 28, 1, 1, 1), ("stem", 3, 32, 224, 3, 2, 1),
                                    ("grouped", 256, 256, 28, 3, 1, 32)):
        convolution("conv", f"eff_{name}", 32, i, o, (s, s), k, st, g, then=nn.SiLU())
    convolution("conv", "convnext_patch", 32, 3, 96, (224, 224), 4, 4, padding=0)
    convolution("conv", "convnext_down", 32, 96, 192, (56, 56), 2, 2, padding=0)
    for c, s in ((320, 64), (640, 32), (1280, 16), (1280, 8)):
        convolution("conv", f"unet_{c}", 4, c, c, (s, s), 3)
        convolution("conv", f"unet_{c}_last", 4, c, c, (s, s), 3, last=True)
    convolution("conv", "unet_1920_odd", 3, 1920, 640, (33, 31), 3)
    convolution("conv", "dilated", 8, 256, 256, (65, 65), 3, dilation=6)
    convolution("conv", "video_3d", 2, 64, 64, (16, 56, 56), 3)
    convolution("conv", "video_stem", 2, 3, 64, (16, 112, 112), 3, 2)
    convolution("conv", "audio_1d", 16, 512, 512, (3000,), 3)
    convolution("conv", "audio_1d_wide", 16, 80, 512, (3000,), 3, 2)
    convolution("conv", "up_2d", 8, 256, 128, (64, 64), 4, 2, transposed=True, padding=1)
    convolution("conv", "up_2x2", 4, 512, 256, (32, 32), 2, 2, transposed=True, padding=0)
    convolution("conv", "vae_128", 2, 128, 128, (512, 512), 3)


def fp32():
    for m, n, k in ((2048, 2048, 2048), (1000, 1000, 1000), (4097, 511, 1023), (8192, 768, 768), (1, 4096, 4096)):
        product(f"fp32_{m}x{n}x{k}", linear, m, n, k, dtype=F32, part="fp32")
    for name, i, o, s, k, st in (("stem", 3, 64, 224, 7, 2), ("l1b", 64, 64, 56, 3, 1), ("l2c", 128, 512, 28, 1, 1),
                                 ("l3b", 256, 256, 14, 3, 1), ("l4b", 512, 512, 7, 3, 1)):
        convolution("fp32", f"fp32_r50_{name}", 16, i, o, (s, s), k, st, dtype=F32)
        convolution("fp32", f"fp32_r50_{name}_last", 16, i, o, (s, s), k, st, dtype=F32, last=True)


def difference(have, want):
    """The norm of the difference over that of the result, and the largest difference over the largest element."""
    have, want = have.double(), want.double()
    if have.shape != want.shape or bool((torch.isnan(have) != torch.isnan(want)).any()):
        return float("inf"), float("inf")
    gap = torch.nan_to_num(have) - torch.nan_to_num(want)
    return (float(gap.norm() / torch.nan_to_num(want).norm().clamp_min(1e-30)),
            float(gap.abs().max() / torch.nan_to_num(want).abs().max().clamp_min(1e-30)))


def prepare(tsc, folder, name, module, inputs):
    os.makedirs(folder, exist_ok=True)
    row = {}
    began = time.time()
    call = [tsc, "compile", f"{folder}/m.pt2", "-o", f"{folder}/out", *os.environ.get("OPTIONS", "").split()]
    said = subprocess.run(call, capture_output=True, text=True)
    if said.returncode:
        raise RuntimeError((said.stderr + said.stdout)[-300:])
    row["compile_s"] = round(time.time() - began, 2)
    import tsc as package
    began = time.time()
    program = package.load(f"{folder}/out", device="cuda")
    with torch.no_grad():
        program(*inputs)
    torch.cuda.synchronize()
    row["load_s"] = round(time.time() - began, 2)
    return program, row


def measure(calls, flush, seconds):
    for f in calls.values():
        for _ in range(3):
            f()
    torch.cuda.synchronize()
    times, began, rounds = {k: [] for k in calls}, time.time(), 0
    while rounds < 7 or (time.time() - began < seconds and rounds < 60):
        events = {k: [torch.cuda.Event(enable_timing=True) for _ in range(2)] for k in calls}
        for k, f in calls.items():
            flush.zero_()
            events[k][0].record()
            f()
            events[k][1].record()
        torch.cuda.synchronize()
        for k in calls:
            times[k].append(events[k][0].elapsed_time(events[k][1]))
        rounds += 1
    return {k: sorted(v)[len(v) // 2] for k, v in times.items()}


def compare(name, program, module, inputs, peers, flush, row, seconds):
    with torch.no_grad():
        calls = {"tsc": lambda: program(*inputs), "eager": lambda: module(*inputs)}
        want = module(*inputs)
        results = program(*inputs)
        wanted, results = (list(x) if isinstance(x, (tuple, list)) else [x] for x in (want, results))
        row["error"], row["worst"] = max(difference(h, w) for h, w in zip(results, wanted))
        del want, wanted, results
        for peer, f in peers.items():
            try:
                f(*inputs)
                calls[peer] = lambda f=f: f(*inputs)
            except Exception as error:
                row[peer] = str(error)[:80]
        row["ms"] = measure(calls, flush, seconds)
    best = min(v for k, v in row["ms"].items() if k != "tsc")
    row["ratio"] = row["ms"]["tsc"] / best
    row["tflops"] = W[name][2] / row["ms"]["tsc"] / 1e9


def run_group(tsc, work, names, flush, out, seconds):
    """Exports one after the other, compiles side by side, measures in turn."""
    ready = {}
    with futures.ThreadPoolExecutor(int(os.environ.get("JOBS", "12"))) as pool:
        for name in names:
            torch.manual_seed(0)
            folder = os.path.join(work, name)
            os.makedirs(folder, exist_ok=True)
            try:
                module, inputs, peers = W[name][1]()
                with torch.no_grad():
                    torch.export.save(torch.export.export(module, inputs, strict=False), f"{folder}/m.pt2")
            except Exception as error:
                print(f"{name:34} NOT EXPORTED {str(error)[:200]!r}", flush=True)
                continue
            ready[name] = module, inputs, peers, pool.submit(prepare, tsc, folder, name, module, inputs)
        for _, _, _, job in ready.values():
            futures.wait([job])
    rows = []
    for name, (module, inputs, peers, job) in ready.items():
        row = {"name": name, "part": W[name][0]}
        try:
            program, told = job.result()
            row.update(told)
            compare(name, program, module, inputs, peers, flush, row, seconds)
        except Exception as error:
            print(f"{name:34} FAILED {str(error)[:300]!r}", flush=True)
            continue
        rows.append(row)
        out.write(json.dumps(row) + "\n")
        out.flush()
    return rows


def main():
    tsc, work = sys.argv[1:3]
    parts = sys.argv[3:] or ["products", "ends", "float8", "attention", "backward", "decode", "conv", "fp32"]
    for part in parts:
        globals()[part]()
    os.makedirs(work, exist_ok=True)
    torch.backends.cudnn.benchmark = True
    flush = torch.empty(2 ** 30, dtype=torch.uint8, device="cuda")
    seconds, deadline = float(os.environ.get("SECONDS", "0.15")), time.time() + float(os.environ.get("DEADLINE", "400"))
    names, rows, at = [n for n in W if os.environ.get("ONLY", "") in n], [], 0
    with open(os.path.join(work, "dense.jsonl"), "a") as out:
        while at < len(names) and time.time() < deadline:
            rows += run_group(tsc, work, names[at:at + 24], flush, out, seconds)
            at += 24
            torch.cuda.empty_cache()
    if at < len(names):
        print("not reached:", *names[at:])
    for row in sorted(rows, key=lambda row: -row["ratio"]):
        peers = " ".join(f"{k} {v:.4f}" for k, v in row["ms"].items() if k != "tsc")
        print(f"{row['name']:34} {row['ratio']:6.3f}  tsc {row['ms']['tsc']:.4f}  {peers}  {row['tflops']:.0f} TFLOP/s  "
              f"error {row['error']:.1e} {row['worst']:.1e}  {row['compile_s']}+{row['load_s']} s", flush=True)
    for part in parts:
        ratios = [row["ratio"] for row in rows if row["part"] == part]
        if ratios:
            print(f"{part}: {len(ratios)} of {sum(W[n][0] == part for n in W)}, geometric mean "
                  f"{math.exp(sum(map(math.log, ratios)) / len(ratios)):.3f}, worst {max(ratios):.2f}")


if __name__ == "__main__":
    main()
