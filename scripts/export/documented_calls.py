"""Calls that the examples in a package's documentation make, exported, with what PyTorch computes.

    python3 scripts/export/documented_calls.py FOLDER [--seconds T] [--each N] PACKAGE ...
    scripts/check_exports build/release/bin/tsc FOLDER reference

Imports every module of each PACKAGE (kornia, torchmetrics.functional, ...), runs the examples of the docstrings (doctest) of its functions and classes,
and records the outermost calls of the package's functions and modules that they make: the tensors among a call's arguments are the program's inputs, all else is constant.
Writes one FOLDER/NAME each (recording.py) and FOLDER/not_recorded.jsonl: what could not be exported or run in PyTorch, and why. Nobody has chosen what is called.
"""
import argparse
import contextlib
import copy
import doctest
import functools
import importlib
import inspect
import io
import json
import os
import pkgutil
import shutil
import sys
import time
import types
import warnings

import torch
from every_transformer import apart
from recording import record
from torch.utils._pytree import tree_flatten, tree_unflatten


class Call(torch.nn.Module):
    """A function of positional tensors that calls `function` with them in their places among `leaves`; results are tensors alone."""

    def __init__(self, function, leaves, shape):
        super().__init__()
        self.function, self.shape = function, shape
        self.places = [i for i, x in enumerate(leaves) if isinstance(x, torch.Tensor)]
        self.constant = [None if isinstance(x, torch.Tensor) else x for x in leaves]

    def forward(self, *tensors):
        leaves = list(self.constant)
        for place, x in zip(self.places, tensors):
            leaves[place] = x
        args, kwargs = tree_unflatten(leaves, self.shape)
        return tuple(x for x in tree_flatten(self.function(*args, **kwargs))[0] if isinstance(x, torch.Tensor))


class Recorder:
    """Replaces a package's functions by ones that note their outermost calls."""

    def __init__(self, package):
        self.package, self.depth, self.calls = package, 0, []

    def wrap(self, function, name):
        @functools.wraps(function)
        def noted(*args, **kwargs):
            if self.depth == 0:
                with contextlib.suppress(Exception):
                    leaves, shape = tree_flatten((args, kwargs))
                    if any(isinstance(x, torch.Tensor) for x in leaves):
                        self.calls.append((name, function, copy.deepcopy(leaves), shape))
            self.depth += 1
            try:
                return function(*args, **kwargs)
            finally:
                self.depth -= 1
        return noted

    def hook(self):
        call = torch.nn.Module.__call__

        def noted(module, *args, **kwargs):
            if self.depth == 0 and type(module).__module__.startswith(self.package) and type(module).__name__ != "Call":
                with contextlib.suppress(Exception):
                    leaves, shape = tree_flatten((args, kwargs))
                    if any(isinstance(x, torch.Tensor) for x in leaves):
                        self.calls.append((type(module).__name__, copy.deepcopy(module).eval(), copy.deepcopy(leaves), shape))
            self.depth += 1
            try:
                return call(module, *args, **kwargs)
            finally:
                self.depth -= 1
        torch.nn.Module.__call__ = noted
        return lambda: setattr(torch.nn.Module, "__call__", call)


def modules_of(package):
    """`package` and all below it that can be imported."""
    root = importlib.import_module(package)
    found = [root]
    for info in pkgutil.walk_packages(getattr(root, "__path__", []), package + ".", onerror=lambda _: None):
        with contextlib.suppress(BaseException):
            found.append(importlib.import_module(info.name))
    return found


def documented(modules, package):
    """Functions and classes that are defined in the package, each once, with the namespaces that hold it."""
    objects = {}
    for module in modules:
        for name, value in list(vars(module).items()):
            if name.startswith("_") or not isinstance(value, (types.FunctionType, type)) or not (value.__module__ or "").startswith(package):
                continue
            objects.setdefault(id(value), (value, []))[1].append((module, name))
    return list(objects.values())


def examples_of(value):
    """The doctests of a function or class, with the names its module knows."""
    finder = doctest.DocTestFinder(recurse=inspect.isclass(value), exclude_empty=True)
    with contextlib.suppress(Exception):
        return [t for t in finder.find(value, globs=dict(vars(sys.modules[value.__module__]), torch=torch)) if t.examples]
    return []


def calls_of(package, value, objects):
    """The calls that the examples of `value` make, outermost ones, of functions and modules of the package."""
    recorder = Recorder(package)
    restore = recorder.hook()
    replaced = {}
    for function, places in objects:
        if isinstance(function, types.FunctionType):
            wrapped = recorder.wrap(function, function.__name__)
            replaced[id(function)] = wrapped
            for module, name in places:
                setattr(module, name, wrapped)
    tests = examples_of(value)
    torch.manual_seed(0)
    for test in tests:
        test.globs.update({k: replaced.get(id(v), v) for k, v in test.globs.items()})
        if isinstance(value, types.FunctionType):
            test.globs[value.__name__] = replaced.get(id(value), value)
        runner = doctest.DocTestRunner(verbose=False, optionflags=doctest.ELLIPSIS)
        with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(Exception):
            runner.run(test, out=lambda _: None, clear_globs=False)
    restore()
    for function, places in objects:
        for module, name in places:
            setattr(module, name, function)
    return recorder.calls


def lively(x):
    """Examples like ones and zeros, which hide mistakes: random numbers from 0 to 1 in the place of floats that are all the same."""
    if x.is_floating_point() and x.numel() > 1 and bool((x == x.flatten()[0]).all()):
        return torch.rand(x.shape, dtype=x.dtype)
    return x


def record_examples(package, value, objects, folder, each, failed):
    warnings.simplefilter("ignore")
    seen = {}
    for name, function, leaves, shape in calls_of(package, value, objects):
        number = seen.get(name, 0)
        if number == each:
            continue
        seen[name] = number + 1
        into = f"{package.split('.')[-1]}.{value.__name__}" + (f".{name}" if name != value.__name__ else "") + (f".{number}" if number else "")
        call = Call(function, leaves, shape).eval()
        given = tuple(leaves[i] for i in call.places)
        why = ""
        for inputs in (tuple(lively(x) for x in given), given):
            try:
                record(call, inputs, os.path.join(folder, into), with_decomposed=False)
                break
            except BaseException as error:
                why = f"{type(error).__name__}: {error}"[:300]
                shutil.rmtree(os.path.join(folder, into), ignore_errors=True)
        else:
            failed(into, why)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("packages", nargs="+")
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--each", type=int, default=2)
    options = parser.parse_args()
    os.makedirs(options.folder, exist_ok=True)
    torch.set_num_threads(1)
    end = time.time() + options.seconds
    notes = os.path.join(options.folder, "not_recorded.jsonl")
    for package in options.packages:
        objects = documented(modules_of(package), package)
        tested = [value for value, _ in objects if examples_of(value)]
        print(f"{package}: {len(objects)} functions and classes, {len(tested)} with examples", flush=True)
        for value in tested:
            if time.time() > end:
                break

            def failed(name, why):
                with open(notes, "a") as file:
                    file.write(json.dumps({name: why}) + "\n")
            why = apart(lambda: record_examples(package, value, objects, options.folder, options.each, failed))
            if why:
                failed(f"{package}.{value.__name__}", why)
    print(len([x for x in os.scandir(options.folder) if x.is_dir()]), "calls recorded")


if __name__ == "__main__":
    sys.exit(main())
