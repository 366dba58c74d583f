"""tsc.compile(exported_program) and tsc.load(folder)."""
import copy
import os
import pathlib
import subprocess
import tempfile
import unittest

import numpy
import torch
from backend_case import Case
from torch import nn

import tsc
from tsc import _structure

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
TSC = os.environ.get("TSC_BINARY", str(ROOT / "build" / "release" / "bin" / "tsc"))


class Counting(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 3)
        self.register_buffer("count", torch.zeros((), dtype=torch.int64))

    def forward(self, x, scale):
        self.count.add_(1)
        y = self.linear(x) * scale["by"]
        return {"logits": y, "more": (y.sum(0), None)}


class Exported(Case):
    def test_structure_state_and_dynamic_sizes(self):
        model = Counting().eval()
        eager = copy.deepcopy(model)  # the export shares the model's tensors
        batch = torch.export.Dim("batch", min=2, max=64)
        args = (torch.randn(5, 4), {"by": torch.tensor(2.0)})
        exported = torch.export.export(model, args, dynamic_shapes={"x": {0: batch}, "scale": {"by": None}})
        call = tsc.compile(exported)
        self.all_compiled()
        for rows in (2, 7):
            x, scale = torch.randn(rows, 4), {"by": torch.tensor(0.5)}
            with torch.no_grad():
                self.assert_same(call(x, scale), eager(x, scale))
        self.assertEqual(int(exported.state_dict["count"]), 2)
        with self.assertRaisesRegex(Exception, "65"):
            call(torch.randn(65, 4), scale)
        with self.assertRaisesRegex(TypeError, "structure"):
            call(x)

    def test_buffers_are_written_by_the_program(self):
        class Model(nn.Module):
            def __init__(self):
                super().__init__()
                for name in ("a", "b"):
                    self.register_buffer(name, torch.rand(3, 5))
                self.register_buffer("calls", torch.zeros((), dtype=torch.int64))

            def forward(self, x, place):
                before = self.a.clone()
                self.a.copy_(self.b)  # what either becomes is the other
                self.b.copy_(before)
                self.calls.add_(1)
                x.index_fill_(0, place, 2.0)
                return x.sum() + self.a + self.calls

        model = Model()
        other = copy.deepcopy(model)
        call = tsc.compile(torch.export.export(model, (torch.rand(4, 5), torch.tensor([1, 3]))))
        for _ in range(3):
            x = torch.rand(4, 5)
            y = x.clone()
            self.assert_same(call(x, torch.tensor([1, 3])), other(y, torch.tensor([1, 3])))
            self.assert_same(x, y)
        self.assert_same(dict(model.named_buffers()), dict(other.named_buffers()))
        self.all_compiled()

    def test_arrays_by_dlpack(self):
        exported = torch.export.export(nn.Tanh(), (torch.randn(4),))
        x = numpy.linspace(-1, 1, 4, dtype=numpy.float32)
        torch.testing.assert_close(tsc.compile(exported)(x), torch.tanh(torch.from_numpy(x)))


class Loaded(Case):
    @unittest.skipUnless(os.path.exists(TSC), f"{TSC} is not built")
    def test_folder(self):
        model = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 2))
        batch = torch.export.Dim("batch", min=1, max=64)
        exported = torch.export.export(model, (torch.randn(3, 4),), dynamic_shapes=({0: batch},))
        with tempfile.TemporaryDirectory() as folder:
            torch.export.save(exported, folder + "/model.pt2")
            subprocess.run([TSC, "compile", folder + "/model.pt2", "-o", folder + "/out"], check=True,
                           capture_output=True)
            call = tsc.load(folder + "/out", device="cpu")
        for rows in (1, 9):
            x = torch.randn(rows, 4)
            with torch.no_grad():
                self.assert_same(call(x), model(x))
                self.assert_same(call.flat(x), (model(x),))
        with self.assertRaisesRegex(TypeError, "takes"):
            call(x, x)

    @unittest.skipUnless(os.path.exists(TSC), f"{TSC} is not built")
    def test_structure(self):
        model = Counting().eval()
        args = (torch.randn(5, 4), {"by": torch.tensor(2.0)})
        exported = torch.export.export(model, args)
        with tempfile.TemporaryDirectory() as folder:
            torch.export.save(exported, folder + "/model.pt2")
            subprocess.run([TSC, "compile", folder + "/model.pt2", "-o", folder + "/out"], check=True,
                           capture_output=True)
            call = tsc.load(folder + "/out", device="cpu")
        with torch.no_grad():
            self.assert_same(call(args[0], args[1]["by"]), model(*args))
        self.assertEqual([info["path"] for info in call.description["outputs"]], ["", "logits", "more.0", "more.1"])
        self.assertEqual(len(call.flat(args[0], args[1]["by"])), 4)

    def test_records(self):
        structure = {"record": "other.Output", "fields": [["logits", "*"], ["loss", None], ["past", {"list": ["*"]}]]}
        built = _structure.build(structure, iter([1, 2]))
        self.assertEqual((built.logits, built.loss, built.past), (1, None, [2]))
        self.assertEqual(type(built).__name__, "Output")


if __name__ == "__main__":
    unittest.main()
