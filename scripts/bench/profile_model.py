"""Time per kernel of a compiled model on a GPU, by PyTorch's profiler.

    python3 scripts/bench/profile_model.py FOLDER NAME [COUNT]      (FOLDER as in compare_with_pytorch.py)
"""
import collections
import glob
import os
import sys

import torch

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from compiled_model import CompiledModel  # noqa: E402
from workloads import WORKLOADS  # noqa: E402


def main():
    folder, name = sys.argv[1:3]
    runs = int(sys.argv[3]) if len(sys.argv) > 3 else 10
    module, inputs = WORKLOADS[name]()
    model = CompiledModel(glob.glob(os.path.join(folder, name, "build", "*.so"))[0], module.state_dict(), list(inputs))
    for _ in range(3):
        model()
    torch.cuda.synchronize()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        for _ in range(runs):
            model()
        torch.cuda.synchronize()
    total, count = collections.Counter(), collections.Counter()
    for event in profile.events():
        total[event.name] += event.device_time / 1000 / runs
        count[event.name] += 1
    print(f"{name}: {sum(total.values()):.3f} ms in kernels a run")
    for kernel, milliseconds in total.most_common(25):
        print(f"{milliseconds:9.4f} ms  {count[kernel] / runs:6.1f} x  {kernel[:110]}")


main()
