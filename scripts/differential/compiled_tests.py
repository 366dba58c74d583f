"""What the tests of PyTorch's own compiler compile, as cases: FOLDER/TEST/CALL/{model.pt2, ...}. The tests come from a source
tree of PyTorch; each is run with a torch.compile that exports what it is given and computes it in eager mode.

    python3 scripts/differential tests --source PYTORCH/test/inductor --out FOLDER --bin BIN [--files test_torchinductor.py,...]
"""
import ast
import contextlib
import functools
import inspect
import json
import os
import re
import signal
import subprocess
import sys
import types
import unittest
import unittest.mock

import torch

import samples

CALLS = 4  # of one test


class LenientImports(ast.NodeTransformer):
    """What a module of another version no longer has becomes an `Absent`: few tests need it."""

    def visit_ImportFrom(self, node):
        if node.module == "__future__":
            return node
        made = [ast.parse(f"{a.asname or a.name} = _import({node.module!r}, {a.name!r})").body[0] for a in node.names]
        return [ast.copy_location(x, node) for x in made]


class Absent:
    """Stands for what this version of PyTorch lacks; as a decorator it does nothing."""

    def __init__(self, *_, **__):  # also as a base class
        pass

    def __call__(self, *arguments, **_):
        return arguments[0] if arguments and callable(arguments[0]) else self

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __iter__(self):
        return iter(())


def import_name(module, name):
    try:
        found = __import__(module, fromlist=[name])
        return getattr(found, name) if hasattr(found, name) else __import__(f"{module}.{name}", fromlist=["x"])
    except Exception:
        return Absent()


def identity(*_, **__):
    return lambda function: function


def load(path):
    """The module, with nothing skipped."""
    name = os.path.basename(path).removesuffix(".py")
    with open(path) as file:
        tree = ast.fix_missing_locations(LenientImports().visit(ast.parse(file.read())))
    module = types.ModuleType(name)
    module.__file__ = path
    module._import = import_name
    sys.modules[name] = sys.modules[f"inductor.{name}"] = module
    exec(compile(tree, path, "exec"), module.__dict__)
    return module


class Recorder:
    """Stands for torch.compile while a test runs."""

    def __init__(self, folder):
        self.folder, self.calls, self.missing, self.recording = folder, 0, {}, False

    def compile(self, function=None, *_, **__):
        if function is None:
            return self.compile
        if isinstance(function, torch.nn.Module):
            wrapped = functools.partial(self.call, function)
            return unittest.mock.MagicMock(side_effect=wrapped)
        return functools.wraps(function)(functools.partial(self.call, function)) if hasattr(function, "__name__") else functools.partial(self.call, function)

    def call(self, function, *arguments, **named):
        if self.calls < CALLS and not self.recording:  # what a compiled function compiles is part of it
            self.calls += 1
            self.recording = True
            info = types.SimpleNamespace(op=function, formatted_name=os.path.basename(self.folder))
            first, *rest = arguments or (None,)
            sample = types.SimpleNamespace(input=first, args=tuple(rest), kwargs=named)
            if not arguments:
                info.op = lambda _, **k: function(**k)
            signal.alarm(samples.SECONDS)
            try:
                samples.record(info, sample, os.path.join(self.folder, str(self.calls - 1)))
            except Exception as error:
                self.missing[self.calls - 1] = f"{type(error).__name__}: {str(error)[:300]}"
            finally:
                signal.alarm(0)
                self.recording = False
        return function(*arguments, **named)

    def check_model(self, test, model, inputs=(), kwargs=None, **_):
        self.call(model, *inputs, **(kwargs or {}))


def tests_of(module):
    """(name, class, function)"""
    for class_name, kind in list(vars(module).items()):
        if not inspect.isclass(kind) or kind.__module__ not in (module.__name__, "builtins") and class_name != "CommonTemplate":
            continue
        for name, function in list(vars(kind).items()):
            again = name.endswith("_cpu") and hasattr(vars(module).get("CommonTemplate"), name.removesuffix("_cpu"))
            if name.startswith("test_") and callable(function) and not again:
                yield f"{module.__name__}.{name}", kind, function


def run_test(kind, function, recorder):
    base = kind if issubclass(kind, unittest.TestCase) else type(kind.__name__, (kind, unittest.TestCase), {})
    test = base("run") if hasattr(base, "run") else base()
    test.device = "cpu"
    test.common = functools.partial(recorder.check_model, test)
    test.assertEqual = test.assertTrue = test.assertFalse = lambda *a, **k: None
    plain = inspect.unwrap(function)
    code = lambda f, *a, **k: (f(*a, **k), [""] * 8)
    with contextlib.ExitStack() as stack:
        for target, name, value in ((torch, "compile", recorder.compile), (torch._dynamo, "optimize", lambda *a, **k: recorder.compile),
                                    (torch._dynamo, "optimize_assert", lambda *a, **k: recorder.compile)):
            stack.enter_context(unittest.mock.patch.object(target, name, value))
        for name in ("run_and_get_code", "run_and_get_cpp_code", "run_and_get_triton_code", "run_fw_bw_and_get_code"):
            if name in plain.__globals__:
                stack.enter_context(unittest.mock.patch.dict(plain.__globals__, {name: code}))
        for name in ("check_model", "check_model_gpu"):
            if name in plain.__globals__:
                stack.enter_context(unittest.mock.patch.dict(plain.__globals__, {name: recorder.check_model}))
        torch.manual_seed(0)
        parameters = list(inspect.signature(plain).parameters)[1:]
        known = {"device": "cpu", "dynamic": False, "dtype": torch.float32}
        arguments = {p: known.get(p, False) for p in parameters if inspect.signature(plain).parameters[p].default is inspect.Parameter.empty}
        plain(test, **arguments)


def record_part(options):
    torch.set_num_threads(1)
    signal.signal(signal.SIGALRM, samples.alarm)
    for name in ("skipIf", "skipUnless"):
        setattr(unittest, name, identity)
    unittest.skip = identity
    import torch.testing._internal.common_device_type as device_type
    import torch.testing._internal.inductor_utils as inductor_utils
    inductor_utils.GPU_TYPE = "cpu:0"  # beside "cpu" in lists of devices
    for module in (device_type, inductor_utils):
        for name in ("skipGPUIf", "skipCPUIf", "skipCUDAIf", "requires_gpu", "requires_cuda"):
            if hasattr(module, name):
                setattr(module, name, identity)
    sys.path.insert(0, options.source)
    part, parts = map(int, options.part.split("/"))
    for path in options.files.split(","):
        try:
            module = load(os.path.join(options.source, path))
        except Exception as error:
            print(f"{path}: {type(error).__name__}: {error}", file=sys.stderr)
            continue
        for number, (name, kind, function) in enumerate(tests_of(module)):
            folder = os.path.join(options.out, name)
            marker = os.path.join(folder, "not_recorded.json")
            if number % parts != part or os.path.exists(marker) or not re.search(options.operators, name):
                continue
            os.makedirs(folder, exist_ok=True)
            with open(marker, "w") as file:
                json.dump({"test": "the process ended"}, file)
            recorder = Recorder(folder)
            signal.alarm(3 * samples.SECONDS)
            try:
                run_test(kind, function, recorder)
            except BaseException as error:
                if isinstance(error, KeyboardInterrupt):
                    raise
                recorder.missing["test"] = f"{type(error).__name__}: {str(error)[:300]}"
            finally:
                signal.alarm(0)
            with open(marker, "w") as file:
                json.dump(recorder.missing, file, indent=1)


def record_all(options):
    for _ in range(20):  # a process that a test kills is started again behind it
        workers = [subprocess.Popen([sys.executable, "-W", "ignore", samples.HERE, "tests", "--source", options.source, "--files", options.files, "--out", options.out,
                                     "--operators", options.operators, "--part", f"{i}/{options.jobs}"]) for i in range(options.jobs)]
        if not any([worker.wait() for worker in workers]):
            return


def tests(options):
    if options.part is not None:
        record_part(options)
        return 0
    record_all(options)
    return samples.run_and_report(options)
