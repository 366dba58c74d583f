"""Functions of a workload file against eager mode on this machine, which needs no GPU: the GPU's plan on the host, through the backend.

    SMALL=1 TSC_VERIFY=1 scripts/bench/check_functions.py WORKLOADS [NAME...] [--symbols] [--seconds 90] [--arch sm_90:multiprocessors=2]

--symbols: all sizes are symbols, and kernels those of any size. --arch: what to plan for; a part of few multiprocessors has the plans of
large inputs for small ones. Each function runs in a process of its own, at most so many seconds.
Prints a line a function: the largest difference over the largest element of each result (of integers: the share that differs) where it is
beyond what the dtypes allow, or what was raised. Ties, repeated indices and roundings before integers may differ. Exit code 1 if any does.
"""
import argparse
import importlib.util
import os
import signal
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "..", "python"), HERE]
import torch  # noqa: E402

import tsc  # noqa: E402

ALLOWED = {torch.bfloat16: 2e-2, torch.float16: 4e-3}


def tensors(value):
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    return [one for part in value for one in tensors(part)] if isinstance(value, (tuple, list)) else []


def copies(inputs):
    return tuple(one.clone() if isinstance(one, torch.Tensor) else one for one in inputs)


def difference(got, expected):
    """Over the largest element; None where shapes, dtypes or NaNs differ."""
    if got.shape != expected.shape or got.dtype != expected.dtype:
        return None
    if not (expected.dtype.is_floating_point or expected.dtype.is_complex):
        return (got != expected).double().mean().item() if expected.numel() else 0.0
    wide = torch.complex128 if expected.dtype.is_complex else torch.float64
    got, expected = got.detach().to(wide), expected.detach().to(wide)
    if not torch.equal(torch.isnan(got), torch.isnan(expected)):
        return None
    apart = torch.where((got == expected) | torch.isnan(expected), torch.zeros_like(got), got - expected).abs()
    finite = expected.abs()[torch.isfinite(expected.abs())]
    return apart.max().item() / max(finite.max().item() if finite.numel() else 0.0, 1e-6) if apart.numel() else 0.0


def check(make, symbols):
    module, inputs = make()
    own, theirs = copies(inputs), copies(inputs)
    with torch.no_grad():
        expected = module(*theirs)
        got = torch.compile(module, backend=tsc.backend, dynamic=symbols)(*own)
    pairs = list(zip(tensors(got) + tensors(own), tensors(expected) + tensors(theirs)))
    floats = [one.dtype for one in tensors(expected) + tensors(inputs) if one.dtype.is_floating_point]
    allowed = max((ALLOWED.get(dtype, 1e-4) for dtype in floats), default=0)
    found = [difference(*pair) for pair in pairs]
    return [one for one in found if one is None or not one <= allowed]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("workloads")
    parser.add_argument("names", nargs="*")
    parser.add_argument("--symbols", action="store_true")
    parser.add_argument("--seconds", type=int, default=90)
    parser.add_argument("--arch", default="sm_90")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    tsc.config.options = {"plan": "cuda", "arch": arguments.arch}
    tsc.config.likely_sizes = False
    spec = importlib.util.spec_from_file_location("workloads_of_functions", arguments.workloads)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    worst = 0
    for name in arguments.names or list(module.W):
        sys.stdout.flush()
        child = os.fork()
        if child == 0:
            torch.manual_seed(0)
            try:
                bad = check(module.W[name], arguments.symbols)
                said = f"differs by {bad}" if bad else ""
            except Exception as error:
                said = f"{type(error).__name__}: {str(error).splitlines()[0][:160]}"
            print(f"{name}: {said or 'ok'}", flush=True)
            os._exit(1 if said else 0)
        end = time.time() + arguments.seconds
        state = (0, 0)
        while state[0] == 0 and time.time() < end:
            state = os.waitpid(child, os.WNOHANG)
            time.sleep(0.05)
        if state[0] == 0:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            print(f"{name}: takes more than {arguments.seconds} s")
        elif os.WIFSIGNALED(state[1]):
            print(f"{name}: ended by signal {os.WTERMSIG(state[1])}")
        worst = max(worst, 0 if state[0] and state[1] == 0 else 1)
    return worst


if __name__ == "__main__":
    sys.exit(main())
