"""What PyTorch itself refuses (the error inputs of its OpInfo database) as cases: the call that raises, as a graph of that one
operator in tsc's own format, which no export has checked before.

    FOLDER/OPERATOR/NUMBER/{graph.json, inputs.safetensors, call.txt}

tsc has to refuse them by code, or may know what they mean; a crash is a fault. What it accepts is listed, to be read.
"""
import collections
import json
import os
import re
import signal

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

import samples
from runner import Runner
from tensor_files import save_file


class Refused(Exception):
    pass


class Watch(TorchDispatchMode):
    """Keeps the call that is under way, with its tensors as they are before it."""

    def __init__(self):
        super().__init__()
        self.call, self.shares = None, False

    def __torch_dispatch__(self, function, types, arguments=(), named=None):
        tensors = [x for x in pytree.tree_leaves((arguments, named or {})) if isinstance(x, torch.Tensor) and x.layout == torch.strided and x.device.type != "meta"]
        memory = [x.untyped_storage().data_ptr() for x in tensors if x.numel()]
        self.shares = len(set(memory)) < len(memory) or any(n > 1 and s == 0 for x in tensors for n, s in zip(x.shape, x.stride()))
        kept = pytree.tree_map(lambda x: x.detach().clone() if isinstance(x, torch.Tensor) else x, (arguments, named or {}))
        self.call = (function, *kept)
        result = function(*arguments, **(named or {}))
        self.call = None
        return result


def argument_json(x, tensors):
    if isinstance(x, torch.Tensor):
        if x.layout != torch.strided or x.is_quantized or x.device.type == "meta":
            raise Refused("not strided, or without memory")
        tensors.append(x)
        return {"node": f"input_{len(tensors) - 1}"}
    if x is None or isinstance(x, (bool, int, str)):
        return x
    if isinstance(x, float):
        return x if x - x == 0 else {"float": str(x)}
    if isinstance(x, complex):
        return {"complex": [x.real, x.imag]}
    if isinstance(x, (list, tuple)):
        return [argument_json(each, tensors) for each in x]
    for kind, key in ((torch.dtype, "dtype"), (torch.memory_format, "memory_format"), (torch.layout, "layout")):
        if isinstance(x, kind):
            return {key: str(x).removeprefix("torch.")}
    if isinstance(x, torch.device):
        return {"device": str(x)}
    raise Refused(f"an argument of type {type(x).__name__}")


def graph_of(function, arguments, named):
    tensors = []
    name = str(function)
    node = {"name": "call", "op": "call_function", "target": name if "." in name.split("::")[-1] else name + ".default"}
    node["args"] = [argument_json(x, tensors) for x in arguments]
    node["kwargs"] = {key: argument_json(x, tensors) for key, x in named.items()}
    inputs = [{"name": f"input_{i}", "op": "placeholder", "val": {"dtype": str(x.dtype).removeprefix("torch."), "size": list(x.shape)}}
              for i, x in enumerate(tensors)]
    returns = function._schema.returns
    picked = [{"name": "first", "op": "call_function", "target": "operator.getitem", "args": [{"node": "call"}, 0]}]
    last = picked if len(returns) > 1 or returns and str(returns[0].type) == "List[Tensor]" else []
    output = {"name": "output", "op": "output", "args": [[{"node": "first" if last else "call"}] if returns else []]}
    return {"format": "tsc-graph", "version": 1, "nodes": [*inputs, node, *last, output]}, tensors


def composite_call(info, arguments, named):
    """The overload of ATen's operator of this name that takes such arguments, and raises; or None."""
    packet = getattr(torch.ops.aten, info.name.replace(".", "_").removeprefix("nn_functional_"), None)
    for name in packet.overloads() if packet else ():
        function = getattr(packet, name)
        try:
            function(*arguments, **named)
        except Exception as error:
            if not re.search("Expected a value of type|expected at most|missing value for argument|Unknown keyword|overload|torch function", str(error)):
                return function, arguments, named
    return None


def record(sample, info, folder):
    watch = Watch()
    arguments = (sample.input, *sample.args)
    try:
        with torch.no_grad(), watch:
            info.op(*arguments, **sample.kwargs)
    except Exception as error:
        said = f"{type(error).__name__}: {str(error)[:300]}"
    else:
        raise Refused("eager mode takes it")
    if watch.call and watch.shares:
        raise Refused("its tensors share memory, which inputs of a graph do not")
    call = watch.call or composite_call(info, arguments, sample.kwargs)
    if call is None:
        raise Refused(f"no operator was called: {said}")
    graph, tensors = graph_of(*call)
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "graph.json"), "w") as file:
        json.dump(graph, file)
    save_file({f"input_{i}": x.contiguous() for i, x in enumerate(tensors)}, os.path.join(folder, "inputs.safetensors"))
    with open(os.path.join(folder, "call.txt"), "w") as file:
        shapes = [f"{x.dtype} {list(x.shape)}" for x in tensors]
        file.write(f"{call[0]} {' | '.join(shapes)}\n{json.dumps(graph['nodes'][len(tensors)])}\n{said}\n")


def record_all(options):
    torch.set_num_threads(1)
    signal.signal(signal.SIGALRM, samples.alarm)
    missing, cases = collections.Counter(), []
    for info in samples.names_of(options.operators):
        if info.error_inputs_func is None:
            continue
        signal.alarm(samples.SECONDS)
        try:
            inputs = list(info.error_inputs("cpu"))
        except Exception as error:
            missing[f"inputs: {type(error).__name__}"] += 1
            continue
        finally:
            signal.alarm(0)
        for number, each in enumerate(inputs):
            folder = os.path.join(options.out, info.formatted_name, str(number))
            try:
                record(each.sample_input, info, folder)
                cases.append(folder)
            except Refused as error:
                missing[str(error).split(":")[0]] += 1
            except Exception as error:
                missing[f"recorder: {type(error).__name__}: {error}"[:100]] += 1
    print(f"{len(cases)} calls that PyTorch refuses; not recorded: {dict(missing)}")
    return cases


def errors(options):
    cases = record_all(options)
    if options.record_only:
        return 0
    verdicts = Runner(options.bin, os.path.join(options.out, ".run"), ["reference"], jobs=options.jobs).run(cases)
    counts = collections.Counter(v.status for v in verdicts)
    print(f"{len(verdicts)} calls: " + ", ".join(f"{k} {n}" for k, n in counts.most_common()))
    for v in verdicts:
        if v.status != "refused":
            with open(os.path.join(v.case, "call.txt")) as file:
                print(f"  {v.status} {v.case} {v.reason[:200]}\n    " + file.read().replace("\n", "\n    ")[:700])
    return 1 if any(v.status not in ("agree", "refused") for v in verdicts) else 0
