"""Sizes and numbers that the data decides, through torch.compile and torch.export, against eager mode."""
import os
import subprocess
import tempfile
import unittest
from unittest import mock

import torch
from backend_case import Case
from test_exported import TSC
from torch import nn

import tsc


def counted(tensor):
    """A number that the data decides: of an input itself Dynamo would make a size."""
    return tensor.add(0).item()


@torch.library.custom_op("tsc_sizes::twice", mutates_args=())
def twice(x: torch.Tensor) -> torch.Tensor:
    return x * 2


@twice.register_fake
def _(x):
    return torch.empty_like(x)


@torch.library.custom_op("tsc_sizes::places", mutates_args=())
def places(x: torch.Tensor) -> torch.Tensor:
    return x.nonzero().contiguous()


@places.register_fake
def _(x):
    return x.new_empty((torch.library.get_ctx().new_dynamic_size(), x.dim()), dtype=torch.int64)


@mock.patch.multiple(torch._dynamo.config, capture_scalar_outputs=True, capture_dynamic_output_shape_ops=True)
class DataSizes(Case):
    def check(self, function, *args):
        found = self.compiled(function, fullgraph=True)(*args)
        self.assert_same(found, function(*args))

    def check_all(self, function, *args):
        tsc.reset_reports()
        self.check(function, *args)
        self.all_compiled()

    def test_sizes_of_results(self):
        x = torch.randn(6, 6)
        self.check_all(lambda x: x.nonzero() * 2, x)
        self.check_all(lambda x: (x[x > 0] + 1, (x < 0).nonzero()), x)
        self.check_all(lambda x, w: torch.relu(x[x.sum(1) > 0] @ w), x, torch.randn(6, 3))
        self.check_all(lambda x, n: torch.repeat_interleave(x, n, dim=0), x, torch.tensor([1, 2, 0, 3, 1, 1]))

    def test_views_share_memory(self):
        def f(x):
            y = x[x > 0]
            return y, y.view(1, -1), y.unsqueeze(1)

        x = torch.randn(5, 7)
        self.check_all(f, x)
        y, row, column = self.compiled(f)(x)
        self.assertEqual(y.data_ptr(), row.data_ptr())
        self.assertEqual(y.data_ptr(), column.data_ptr())

    def test_memory_of_few_elements_is_not_that_of_most(self):
        x = torch.zeros(100, 100)
        x[3, 4] = 1
        found = self.compiled(lambda x: x.nonzero(), fullgraph=True)(x)
        self.assertEqual(found.tolist(), [[3, 4]])
        self.assertLess(found.untyped_storage().nbytes(), 1000)

    def test_numbers_are_results(self):
        self.check_all(lambda n: (counted(n) * 2 + 1, n + 1), torch.tensor(-3))
        self.check_all(lambda x, s: (x + 1, counted(s)), torch.randn(3), torch.tensor(2.5))
        self.check_all(lambda x: (x[x > 0].shape[0] + 1, x.sum()), torch.randn(8))

    def test_numbers_are_sizes(self):
        def unbounded(n):
            size = counted(n)
            torch._check(size >= 0)
            return torch.arange(size) + size

        def part(x, n):
            size = counted(n)
            torch._check(size >= 0)
            torch._check(size <= x.shape[0])
            return x[:size], x[size:] * size

        f = self.compiled(unbounded, fullgraph=True)
        for size in (5, 1000, 0, 7):
            self.assert_same(f(torch.tensor(size)), unbounded(torch.tensor(size)))
        self.all_compiled()
        self.check_all(part, torch.randn(6, 2), torch.tensor(4))

    def test_results_stay_when_the_next_run_comes(self):
        def f(n):
            size = counted(n)
            torch._check(size >= 0)
            return torch.arange(size)

        compiled = self.compiled(f, fullgraph=True)
        first, second = compiled(torch.tensor(4)), compiled(torch.tensor(4))
        second += 1
        self.assert_same(first, torch.arange(4))

    def test_checks_fail(self):
        def f(x, n):
            torch._check(counted(n) < 50)
            return x

        compiled, x = self.compiled(f, fullgraph=True), torch.randn(2)
        self.assert_same(compiled(x, torch.tensor(3)), x)
        self.all_compiled()
        with self.assertRaisesRegex(Exception, "u0 <= 49"):
            compiled(x, torch.tensor(50))

    def test_operators_of_others_between(self):
        def sizes(x):
            y = x[x > 0]
            z = twice(y * 3)
            return z + y.sum(), y.shape[0]

        def products(x):
            y = x[x > 0]
            z = twice((y.unsqueeze(1) * torch.ones(3)).view(-1))
            return z + 1, z.view(-1, 3).sum(0)

        def numbers(x, n):
            size = counted(n)
            torch._check(size >= 0)
            torch._check(size < 100)
            return twice(torch.ones(size) + 1).view(-1, 1) * size, size

        def found_by_others(x):
            y = places(x)
            return y * 2 + 1, y.sum(0), y.shape[0] + 1

        x = torch.randn(6, 6)
        for function, args in ((sizes, (x,)), (products, (x,)), (numbers, (x, torch.tensor(4))), (found_by_others, (x,))):
            tsc.reset_reports()
            self.check(function, *args)
            for fallback in (f for report in tsc.reports() for f in report.fallbacks):
                self.assertIn("tsc_sizes", fallback.target)

    def test_dynamic_sizes_beside(self):
        def f(x):
            y = x[x > 0.5]
            return y * x.shape[0], y.shape[0] + x.shape[1]

        compiled = self.compiled(f, dynamic=True)
        for x in (torch.randn(3, 4), torch.randn(7, 2), torch.ones(5, 9), torch.zeros(2, 3)):
            self.assert_same(compiled(x), f(x))
        self.all_compiled()

    def test_absolute_numbers(self):
        def f(x, n):
            return x + abs(n - 5), abs(n - 5)

        compiled = self.compiled(f, dynamic=True)
        for n in (3, 9):
            self.assert_same(compiled(torch.ones(2), n), f(torch.ones(2), n))
        self.all_compiled()

    def test_a_number_that_is_a_size(self):
        def f(x, n):
            size = counted(n)
            torch._check(size == x.shape[0])
            return x * size, torch.ones(size) + x

        compiled = self.compiled(f, fullgraph=True, dynamic=True)
        for size in (5, 7):
            self.assert_same(compiled(torch.ones(size), torch.tensor(size)), f(torch.ones(size), torch.tensor(size)))
        self.all_compiled()  # the check itself is gone before: AOTAutograd makes Eq(s, s) of it

    def test_a_found_size_that_is_another(self):
        def f(x):
            y = x[x > 0]
            torch._check(y.shape[0] == x.shape[0])
            return y + x

        def numbers(n, k):
            a, b = counted(n), counted(k)
            torch._check(a >= 0)
            torch._check(a == b)
            return torch.ones(a) + torch.ones(b)

        compiled = self.compiled(f, fullgraph=True, dynamic=True)
        for size in (5, 7):
            self.assert_same(compiled(torch.ones(size)), f(torch.ones(size)))
        with self.assertRaises(Exception):
            compiled(torch.tensor([1.0, -1.0, 2.0]))
        compiled = self.compiled(numbers, fullgraph=True)
        self.assert_same(compiled(torch.tensor(3), torch.tensor(3)), torch.full((3,), 2.0))
        with self.assertRaises(Exception):
            compiled(torch.tensor(3), torch.tensor(4))

    def test_gradients(self):
        def picked(x, w):
            return torch.tanh(x[x.sum(1) > 0] @ w)

        def normalized(x, w):
            return nn.functional.layer_norm(x[x.sum(1) > 0], (6,)) @ w

        for function in (picked, normalized):
            tsc.reset_reports()
            args = torch.randn(6, 6, requires_grad=True), torch.randn(6, 3, requires_grad=True)
            gradients = [torch.autograd.grad(f(*args).sin().sum(), args) for f in (function, self.compiled(function))]
            self.assert_same(gradients[1], gradients[0])
            self.assertEqual([r.kind for r in tsc.reports()], ["forward", "backward"])
            self.assertEqual(tsc.reports()[0].fallbacks, [])
            # Conditions among the inputs are PyTorch's.
            self.assertEqual({f.target for f in tsc.reports()[1].fallbacks}, {"aten._assert_scalar.default"})


class Positive(nn.Module):
    def forward(self, x, n):
        size = n.item()
        torch._check(size >= 0)
        return x[x > 0], torch.arange(size) * 2


class ExportedDataSizes(Case):
    def setUp(self):
        super().setUp()
        self.args = torch.randn(4, 5), torch.tensor(3)
        self.exported = torch.export.export(Positive(), self.args)

    def check(self, call):
        for size in (3, 0, 200, 2):
            x, n = torch.randn(4, 5), torch.tensor(size)
            self.assert_same(call(x, n), Positive()(x, n))

    def test_compiled(self):
        call = tsc.compile(self.exported)
        self.all_compiled()
        self.check(call)

    @unittest.skipUnless(os.path.exists(TSC), f"{TSC} is not built")
    def test_folder(self):
        with tempfile.TemporaryDirectory() as folder:
            torch.export.save(self.exported, folder + "/model.pt2")
            subprocess.run([TSC, "compile", folder + "/model.pt2", "-o", folder + "/out"], check=True, capture_output=True)
            self.check(tsc.load(folder + "/out", device="cpu"))


if __name__ == "__main__":
    unittest.main()
