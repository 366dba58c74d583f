"""torch.compile(backend="tsc") on the host against eager mode."""
import unittest
from unittest import mock

import torch
import torch.nn.functional as F
from backend_case import Case
from torch import nn

import tsc
from tsc import program as program_module
from tsc._library import TscError


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.heads = heads

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = (t.view(batch, length, self.heads, width // self.heads).transpose(1, 2)
                   for t in self.qkv(x).split(width, dim=2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).reshape(batch, length, width))


class SmallGpt(nn.Module):
    def __init__(self, words=50, width=32, heads=4, layers=2, longest=16):
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(longest, width)
        self.layers = nn.ModuleList(nn.ModuleList([
            nn.LayerNorm(width), Attention(width, heads), nn.LayerNorm(width),
            nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))])
            for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words, bias=False)

    def forward(self, tokens):
        x = self.words(tokens) + self.places(torch.arange(tokens.shape[1]))
        for norm1, attention, norm2, perceptron in self.layers:
            x = x + attention(norm1(x))
            x = x + perceptron(norm2(x))
        return self.head(self.norm(x))


class Inference(Case):
    def test_linear_relu(self):
        model, x = nn.Sequential(nn.Linear(16, 32), nn.ReLU()), torch.randn(8, 16)
        with torch.no_grad():
            self.assert_same(self.compiled(model)(x), model(x))
        self.all_compiled()

    def test_dynamic_sizes_compile_once(self):
        def f(x, y):
            return torch.softmax(x @ y, dim=-1).sum(0), x.reshape(-1)

        g = self.compiled(f, dynamic=True)
        for rows in (4, 7, 33):
            x, y = torch.randn(rows, 8), torch.randn(8, 5)
            self.assert_same(g(x, y), f(x, y))
        self.assertEqual(len(tsc.reports()), 1)
        self.all_compiled()

    def test_programs_of_likely_and_of_all_sizes(self):
        def f(x, y, count):
            return torch.softmax(x @ y, dim=-1) * count, x.reshape(-1)[: x.shape[0] * 2], x.shape[1] + count

        def ran(of_all):
            """How often each program runs in calls of three sizes, the first of which are those of the compilation."""
            counts = {}

            def run(self, *inputs):
                counts[self] = counts.get(self, 0) + 1
                return call(self, *inputs)

            call = tsc.program.Program.__call__
            torch._dynamo.reset()
            tsc.reset_reports()
            with mock.patch.object(tsc.config, "likely_sizes", not of_all), mock.patch("tsc.program.Program.__call__", run):
                g = self.compiled(f, dynamic=True)
                for rows, count in ((4, 3), (4, 3), (7, 3), (4, 5), (33, 8), (4, 3)):
                    x, y = torch.randn(rows, 8), torch.randn(8, 5)
                    self.assert_same(g(x, y, count), f(x, y, count))
            self.all_compiled()
            return tsc.reports()[0].programs, sorted(counts.values())

        self.assertEqual(ran(of_all=False), (2, [3, 3]))
        self.assertEqual(ran(of_all=True), (1, [6]))

    def test_slices_that_begin_where_a_symbol_says_are_read_there(self):
        def f(x):
            return x.cumsum(1) + 1

        places = []

        def place(self, tensor, strides, offset):
            placed = placing(self, tensor, strides, offset)
            places.append(placed.data_ptr() == tensor.data_ptr())
            return placed

        placing = tsc.program.Program._place
        g = self.compiled(f, dynamic=True)
        with mock.patch("tsc.program.Program._place", place):
            for begin in (3, 3, 7, 4):
                x = torch.randn(50, 37)[:, begin:begin + 24]
                self.assert_same(g(x), f(x))
        self.all_compiled()
        self.assertEqual(places.count(False), 1)  # the last begins at a multiple of 16 bytes, the others 12 bytes behind one

    def test_no_program_of_all_sizes(self):
        def refuse(graph, options):
            if b'"symbols": {}' not in graph:
                raise tsc.TscError(70, "no such sizes")
            return compiles(graph, options)

        def f(x):
            return torch.softmax(x, -1) + 1

        compiles = tsc._library.Handle.compile
        with mock.patch("tsc._library.Handle.compile", refuse):
            g = self.compiled(f, dynamic=True)
            for rows in (4, 7, 4):
                x = torch.randn(rows, 8)
                self.assert_same(g(x), f(x))
        report = tsc.reports()[0]
        self.assertEqual((report.programs, len(report.fallbacks)), (1, 1))
        self.assertIn("sizes other than", str(report))

    def test_ranges_of_whole_reals_over_sizes(self):
        def f(x):
            n = x.shape[0]
            return torch.arange(n, -n, -1.0) * 2, torch.arange(1.0, n + 1) + x, torch.arange(0, n, 2.0).cos()

        g = self.compiled(f, dynamic=True)
        for n in (4, 9, 17):
            x = torch.randn(n)
            self.assert_same(g(x), f(x))
        self.all_compiled()

    def test_size_is_a_result(self):
        def f(x):
            return x * x.shape[0], x.shape[0] * 2 + x.shape[1]

        g = self.compiled(f, dynamic=True)
        for rows in (3, 5):
            x = torch.randn(rows, 6)
            self.assert_same(g(x), f(x))

    def test_reals_of_sizes_promote_as_numbers_do(self):
        def f(x):
            share, total = 0.1 / x.shape[0], x.sum()
            return total * share, total.half() * share, x.half() * share, total - share, share - total, total / share, total > share

        g = self.compiled(f, dynamic=True)
        for rows in (3, 5):
            x = torch.rand(rows, 6)
            self.assert_same(g(x), f(x), rtol=1e-3, atol=1e-4)
        self.all_compiled()

    def test_views_inputs_and_constants_as_results(self):
        def f(x):
            y = x * 2
            return y.t(), y, x, x[1:], y.view(-1), 3

        x = torch.randn(4, 6)
        found, expected = self.compiled(f)(x), f(x)
        self.assert_same(found, expected)
        self.assertIs(found[2], x)
        self.assertEqual(found[3].data_ptr(), x[1:].data_ptr())  # a view of the input, as eager mode's
        self.assertEqual(found[0].data_ptr(), found[1].data_ptr())

    def test_in_place(self):
        def f(x, y):
            x.add_(1)
            y[1:3].mul_(x[0, 0])
            return x + y.sum()

        a, b = torch.randn(3, 4), torch.randn(5)
        c, d = a.clone(), b.clone()
        self.assert_same(self.compiled(f)(a, b), f(c, d))
        self.assert_same((a, b), (c, d))
        self.all_compiled()

    def test_inputs_are_written_by_the_program(self):
        """Nothing is copied into them afterwards: every node, the copies that AOTAutograd adds among them, is the program's."""
        def put(x, places, rows):
            x[places] = rows
            return x

        def cache(k, v, place, q):
            k.index_copy_(2, place, v)
            return F.scaled_dot_product_attention(q, k, k)

        def swapped(x, y):
            z = x.clone()
            x.copy_(y)
            y.copy_(z)
            return x + 1

        def read_before(x, y):
            z = x * 2
            x.copy_(y)
            return z, y + x

        def parts(x, y):
            x[:, 3:5] = y[:, :2]
            x[7].mul_(2)
            return y.sum(), x[1:3]

        def twice(x, y):
            x.add_(1)
            y.add_(x)
            x.mul_(2)
            return y

        places, place = torch.randperm(50)[:20], torch.tensor([5])
        inputs = [(put, (torch.zeros(50, 8), places, torch.rand(20, 8))),
                  (cache, (torch.zeros(2, 4, 32, 16), torch.rand(2, 4, 1, 16), place, torch.rand(2, 4, 1, 16)))]
        for f in (swapped, read_before, parts, twice):
            inputs += [(f, (torch.rand(10, 6), torch.rand(10, 6))), (f, (torch.rand(6, 10).t(), torch.rand(10, 6)))]
        for f, given in inputs:
            g = self.compiled(f)
            for _ in range(3):
                a, b = ([t.clone(memory_format=torch.preserve_format) for t in given] for _ in range(2))
                self.assert_same(g(*a), f(*b))
                self.assert_same(a, b)
            self.all_compiled()

    def test_inputs_that_share_memory(self):
        def f(a, b):
            a.mul_(2)
            return b + 1

        g, base = self.compiled(f), torch.rand(4, 6)
        x, y = base.clone(), base.clone()
        self.assert_same(g(x[0], x[:, 1]), f(y[0], y[:, 1]))
        self.assert_same(x, y)

    def test_writes_beside_what_pytorch_runs(self):
        def f(x, y):
            x.add_(y)
            z = torch.ops.tsc_test.twice(x)
            y.mul_(2)
            return z.sum() + y

        a, b = torch.rand(4, 4), torch.rand(4, 4)
        c, d = a.clone(), b.clone()
        self.assert_same(self.compiled(f)(a, b), f(c, d))
        self.assert_same((a, b), (c, d))

    def test_memory_that_is_let_go(self):
        def f(x, z):
            y = torch.sin(x + 1)
            x.untyped_storage().resize_(0)
            z.add_(1)
            return torch.cos(y) + z

        x, z = torch.randn(10), torch.randn(10)
        other = z.clone()
        expected = f(x.clone(), z.clone())
        self.assert_same(self.compiled(f, fullgraph=True)(x, other), expected)
        self.assertEqual(x.untyped_storage().size(), 0)
        self.assert_same(other, z + 1)
        self.assertGreater(tsc.last_report().compiled_nodes, 0)

    def test_strides_of_inputs_and_outputs(self):
        def f(x):
            return torch.sin(x), x.permute(1, 0) + 1, F.conv2d(x[None, None], torch.ones(1, 1, 3, 3))

        for x in (torch.randn(6, 8), torch.randn(8, 6).t(), torch.randn(12, 16)[::2, ::2], torch.randn(50)[1:49].view(6, 8)):
            torch._dynamo.reset()
            self.assert_same(self.compiled(f)(x), f(x))

    def test_results_without_what_lies_between_their_rows(self):
        """Eager mode clones a slice with the gaps between its rows; nobody asked for those."""
        whole = torch.randint(0, 9, (2, 3, 80, 1005), dtype=torch.uint8)[:, 0]
        part = torch.randint(0, 9, (2, 26, 1000), dtype=torch.uint8)
        function = torch.compile(lambda x, y: x.slice_scatter(y, 1, 25, 51), backend=tsc.backend)
        result, wanted = function(whole[..., 3:1003], part), whole[..., 3:1003].slice_scatter(part, 1, 25, 51)
        self.assertTrue(torch.equal(result, wanted))
        self.assertEqual(result.stride(), (80000, 1000, 1))

        def asks_for_gaps(x):
            result = torch.empty_strided(x.size(), x.stride())
            result[:] = x + x
            return result

        self.assertEqual(torch.compile(asks_for_gaps, backend=tsc.backend)(torch.randn(16, 16)[:, :8]).stride(), (16, 1))

    def test_calls_again_with_other_memory(self):
        """Later calls look at less: not at what may have changed."""
        model = nn.Sequential(nn.Linear(8, 6), nn.Tanh(), nn.Linear(6, 4))
        g = self.compiled(model)

        def whole():
            return torch.randn(5, 8)

        def turned():
            return torch.randn(8, 5).t()

        def unaligned():
            return torch.randn(41)[1:].view(5, 8)

        kept = []
        with torch.no_grad():
            for make in (whole, whole, turned, turned, unaligned, unaligned, whole, whole):
                x = make()
                kept.append((g(x), model(x)))
                model[0].weight.mul_(1.25)  # in place
                kept.append((g(x), model(x)))
            for change in (torch.zeros(4, 6), torch.randn(6, 4).t(), torch.randn(25)[1:].view(4, 6)):
                model[2].weight.data = change  # other memory, strides, alignment
                for make in (whole, turned):
                    x = make()
                    kept.extend((g(x), model(x)) for _ in range(2))
        for found, expected in kept:  # nothing has been written again
            self.assert_same(found, expected)

    def test_slices_are_taken_where_they_lie(self):
        """An input that begins behind an aligned place is read there, not copied; others of its kind are, where they
        lie differently, and what is mutated is mutated in place."""
        from tsc import program

        def f(x):
            x.mul_(2)
            return x.sum(-1), x + 1

        copies, place = [], program.Program._place
        self.addCleanup(setattr, program.Program, "_place", place)

        def counting(self, tensor, *layout):
            placed = place(self, tensor, *layout)
            copies.append(placed is not tensor)
            return placed

        program.Program._place = counting
        whole = torch.randn(6, 40)
        expected = whole.clone()
        g = self.compiled(f)
        for begin, is_copied in ((3, False), (7, False), (11, False), (4, True), (0, True)):
            copies.clear()
            self.assert_same(g(whole[:, begin:begin + 20]), f(expected[:, begin:begin + 20]))
            self.assertTrue(torch.equal(whole, expected))
            self.assertEqual(any(copies), is_copied)

    def test_inputs_that_each_call_copies_keep_the_rest_quick(self):
        """What has to be copied (unaligned memory, a number on the host for a GPU) is, each time; nothing else is looked
        at again."""
        from tsc import program

        runs, run = [], program.Program._run
        self.addCleanup(setattr, program.Program, "_run", run)

        def counting(self, inputs):
            runs.append(len(inputs))
            return run(self, inputs)

        def f(x, y):
            return x * y + 1, y.sum()

        program.Program._run = counting
        g, kept = self.compiled(f), []
        for first in (0, 1, 3, 0, 2, 4):
            x, y = torch.randn(6, 20), torch.randn(130)[first:first + 120].view(6, 20)
            kept.append((g(x, y), f(x, y)))
        for found, expected in kept:
            self.assert_same(found, expected)
        self.assertEqual(runs, [2, 2])

    def test_channels_last_network(self):
        model = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
                              nn.Conv2d(8, 8, 3, stride=2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 5)).eval()
        x = torch.randn(2, 3, 16, 16).to(memory_format=torch.channels_last)
        with torch.no_grad():
            self.assert_same(self.compiled(model)(x), model(x), rtol=1e-4, atol=1e-5)
        self.all_compiled()

    def test_small_gpt(self):
        model, tokens = SmallGpt().eval(), torch.randint(0, 50, (2, 12))
        with torch.no_grad():
            self.assert_same(self.compiled(model)(tokens), model(tokens), rtol=1e-4, atol=1e-5)
        self.all_compiled()

    def test_constant_of_the_function(self):
        def f(x):
            return x + torch.tensor([1.0, 2.0, 3.0])

        x = torch.randn(2, 3)
        self.assert_same(self.compiled(f)(x), f(x))
        self.assertGreater(tsc.last_report().compiled_nodes, 0, str(tsc.last_report()))

    def test_graph_breaks(self):
        def f(x):
            y = x + 1
            if y.sum() > 0:
                return y * 2
            return y - 2

        g = self.compiled(f)
        for x in (torch.ones(4), -3 * torch.ones(4)):
            self.assert_same(g(x), f(x))
        self.assertGreaterEqual(len(tsc.reports()), 2)

    def test_results_are_written_in_place_with_gradients(self):
        def function(x, weight):
            sums, seen, turned = torch.zeros_like(x), x.detach() + 1, torch.polar(x.detach().abs(), x.detach())
            torch._dynamo.graph_break()
            sums.index_add_(0, torch.tensor([1, 0]), x[:2] * weight)
            seen.mul_(weight)
            turned.mul_(weight)
            return sums.square().sum() + seen.sum() + turned.real.sum()

        compiled = self.compiled(function)
        for _ in range(3):
            x, weight = torch.randn(3, 4, requires_grad=True), torch.randn(4, requires_grad=True)
            again = [one.detach().clone().requires_grad_() for one in (x, weight)]
            function(x, weight).backward()
            compiled(*again).backward()
            self.assert_same([one.grad for one in again], [x.grad, weight.grad])
        self.all_compiled()

    def test_complex(self):
        def f(x):
            return torch.view_as_complex(x) * 2, torch.fft.fft(x[:, 0])

        x = torch.randn(8, 2)
        self.assert_same(self.compiled(f)(x), f(x))

    def test_python_objects_stay(self):
        def f(x):
            return {"a": x + 1, "b": [x * 2, None]}

        x = torch.randn(4)
        self.assert_same(self.compiled(f)(x), f(x))

    def test_dropout_draws_by_the_seed(self):
        g = self.compiled(lambda x: F.dropout(x, 0.5))
        x = torch.ones(1000)
        torch.manual_seed(3)
        a, b = g(x), g(x)
        torch.manual_seed(3)
        c = g(x)
        self.assertTrue(torch.equal(a, c))
        self.assertFalse(torch.equal(a, b))
        self.assertTrue(300 < int((a == 0).sum()) < 700)

    def test_random_numbers_of_eager_mode(self):
        tsc.config.random = "eager"
        g = self.compiled(lambda x: torch.rand(4) + x)
        x = torch.ones(4)
        torch.manual_seed(3)
        a = g(x)
        torch.manual_seed(3)
        self.assertTrue(torch.equal(a, torch.rand(4) + x))
        self.assertTrue(any("config.random" in f.message for f in tsc.last_report().fallbacks))


@torch.library.custom_op("tsc_test::twice", mutates_args=())
def twice(x: torch.Tensor) -> torch.Tensor:
    return x * 2


@twice.register_fake
def _(x):
    return torch.empty_like(x)


class Fallbacks(Case):
    def test_unknown_operator_is_eager_and_reported(self):
        def f(x):
            return torch.sin(twice(torch.cos(x) + 1)) + 1

        x = torch.randn(4, 5)
        with self.assertLogs("tsc", "WARNING") as logs:
            self.assert_same(self.compiled(f)(x), f(x))
        report = tsc.last_report()
        self.assertEqual([f.target for f in report.fallbacks], ["tsc_test.twice.default"])
        self.assertEqual(report.fallbacks[0].nodes, ["twice"])
        self.assertEqual(report.programs, 2)
        self.assertEqual(report.compiled_nodes, report.nodes - 1)
        self.assertIn("twice", logs.output[0])

    def test_unknown_operator_between_dynamic_sizes(self):
        def f(x):
            return twice(x.reshape(-1) * x.shape[0]).view(x.shape) + 1

        g = self.compiled(f, dynamic=True)
        for rows in (4, 9):
            x = torch.randn(rows, 5)
            self.assert_same(g(x), f(x))
        self.assertEqual(len(tsc.reports()), 1)

    def test_sizes_of_which_only_a_product_is_left(self):
        """Behind the unknown operator the rows are batch * length: neither can be told from what it gives."""
        def f(x):
            batch, length, width = x.shape
            rows = batch * length
            y = twice((x + 1).reshape(rows, width))
            weights = y.softmax(-1) * torch.arange(rows, dtype=torch.float32)[:, None]
            return weights.sum(0), weights.reshape(batch, length, width).sum(1)

        g = self.compiled(f, dynamic=True)
        for sizes in ((2, 3, 4), (5, 7, 6)):
            x = torch.randn(*sizes)
            self.assert_same(g(x), f(x))
        report = tsc.last_report()
        self.assertEqual([f.target for f in report.fallbacks], ["tsc_test.twice.default"], str(report))
        self.assertEqual(report.compiled_nodes, report.nodes - 1)

    def test_no_compiler_is_no_error(self):
        import os
        from unittest.mock import patch
        def f(x):
            return torch.tanh(x * 1.2345678 + 0.25)

        x = torch.randn(5)
        with patch.dict(os.environ, {"PATH": "/nowhere", "CXX": "/nowhere/g++"}):
            self.assert_same(self.compiled(f)(x), f(x))
        self.assertIn("no C++ compiler", tsc.last_report().fallbacks[0].message)

    def test_sizes_that_the_program_refuses_run_in_eager_mode(self):
        def f(x):
            return torch.relu(x) + 1
        g = self.compiled(f)
        x = torch.randn(3, 4)
        self.assert_same(g(x), f(x))
        refusal = TscError(3, "TSC-R100: sizes s0 and 4 are equal")
        refusal.is_of_sizes = True
        for program in program_module._programs:
            program._repeat = None
        with mock.patch("tsc.program.Program._bind", side_effect=refusal):
            self.assert_same(g(x), f(x))
            self.assert_same(g(x), f(x))
        self.assertEqual([one.message for one in tsc.last_report().fallbacks], [str(refusal)])

    def test_index_out_of_range_is_an_error(self):
        g = self.compiled(lambda x, i: x[i])
        x = torch.randn(5)
        self.assert_same(g(x, torch.tensor([1, 4])), x[[1, 4]])
        with self.assertRaises(Exception):
            g(x, torch.tensor([1, 5]))


class Training(Case):
    def test_twenty_steps_are_those_of_eager_mode(self):
        def make():
            torch.manual_seed(0)
            return nn.Sequential(nn.Linear(10, 32), nn.GELU(), nn.LayerNorm(32), nn.Linear(32, 4))

        def train(model, step):
            optimizer, losses = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9), []
            torch.manual_seed(1)
            for _ in range(20):
                loss = F.cross_entropy(step(torch.randn(16, 10)), torch.randint(0, 4, (16,)))
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                losses.append(loss.detach())
            return torch.stack(losses), [p.detach() for p in model.parameters()]

        a, b = make(), make()
        found, expected = train(a, self.compiled(a)), train(b, b)
        self.assert_same(found, expected, rtol=1e-4, atol=1e-5)
        self.assertEqual([r.kind for r in tsc.reports()], ["forward", "backward"])
        self.all_compiled()

    def test_gradients_of_inputs_and_dynamic_sizes(self):
        def f(x, w):
            return (torch.tanh(x @ w) * x.shape[0]).mean(0)

        g = self.compiled(f, dynamic=True)
        for rows in (5, 8):
            x, w = torch.randn(rows, 6), torch.randn(6, 3)
            gradients = []
            for function in (g, f):
                xs, ws = x.clone().requires_grad_(), w.clone().requires_grad_()
                function(xs, ws).square().sum().backward()
                gradients.append((xs.grad, ws.grad))
            self.assert_same(*gradients, rtol=1e-4, atol=1e-5)
        self.all_compiled()

    def test_resampling_stays_an_operator(self):
        def enlarged(mode, **options):
            return lambda x: F.interpolate(x * 1.5, mode=mode, **options).sin()

        ways = [enlarged("nearest", scale_factor=2), enlarged("bilinear", scale_factor=2.0), enlarged("bicubic", size=(9, 11)),
                enlarged("bilinear", scale_factor=1.5), enlarged("nearest-exact", size=(5, 4)), enlarged("bilinear", size=(3, 8), align_corners=True)]
        kernels = dict(torch.ops.aten.upsample_bilinear2d.vec.py_kernels)
        for f in ways:
            for dynamic in (False, True):
                torch._dynamo.reset()
                g = self.compiled(f, dynamic=dynamic)
                for sizes in ((2, 3, 5, 7), (1, 3, 6, 4)):
                    x = torch.randn(sizes, requires_grad=True)
                    expected, found = f(x), g(x)
                    self.assert_same(found, expected, rtol=1e-4, atol=1e-5)
                    above = torch.randn_like(expected)
                    self.assert_same(torch.autograd.grad(found, x, above), torch.autograd.grad(expected, x, above), rtol=1e-4, atol=1e-4)
        self.all_compiled()
        self.assertEqual(torch.ops.aten.upsample_bilinear2d.vec.py_kernels, kernels)  # as PyTorch has them
        eager = torch.compile(ways[1], backend="aot_eager")
        x = torch.randn(2, 3, 5, 7)
        self.assert_same(eager(x), ways[1](x), rtol=1e-4, atol=1e-5)

    def test_norms_over_symbols_are_traced_for_a_gpu(self):
        """PyTorch's operator of a GPU takes no symbols: in their place numbers that are none came into the graph."""
        from torch._dispatch.python import enable_python_dispatcher
        from torch._subclasses.fake_tensor import FakeTensorMode
        from torch.fx.experimental.proxy_tensor import make_fx
        from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, StatelessSymbolicContext
        from tsc import _tracing
        mode = FakeTensorMode(shape_env=ShapeEnv())

        def fake(*sizes):
            context = StatelessSymbolicContext([DimDynamic.DYNAMIC] * len(sizes))
            tensor = mode.from_tensor(torch.empty(*sizes, dtype=torch.bfloat16, device="meta"), symbolic_context=context)
            tensor.fake_device = torch.device("cuda:0")
            return tensor

        def norm(x, w):
            return F.rms_norm(x, x.shape[-1:], w)

        x, w = fake(10, 30), fake(30)
        with mode, enable_python_dispatcher(), _tracing.kept():
            targets = {str(node.target) for node in make_fx(norm)(x, w).graph.nodes}
        self.assertIn("aten.rsqrt.default", targets)
        self.assertNotIn("aten._fused_rms_norm.default", targets)
        for dtype in (torch.float32, torch.bfloat16, torch.float64):
            torch._dynamo.reset()
            g = self.compiled(norm, dynamic=True)
            for rows, width in ((5, 7), (3, 64)):
                x, w = torch.randn(rows, width, dtype=dtype), torch.randn(width, dtype=dtype)
                self.assert_same(g(x, w), norm(x, w), rtol=1e-2 if dtype == torch.bfloat16 else 1e-5, atol=1e-5)
        self.all_compiled()

    def test_batch_normalization_counts(self):
        torch.manual_seed(0)
        a = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU())
        b = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU())
        b.load_state_dict(a.state_dict())
        g = self.compiled(a)
        for _ in range(2):
            x = torch.randn(2, 3, 8, 8)
            g(x).sum().backward()
            b(x).sum().backward()
        self.assert_same(dict(a.named_buffers()), dict(b.named_buffers()), rtol=1e-4, atol=1e-5)
        self.assert_same([p.grad for p in a.parameters()], [p.grad for p in b.parameters()], rtol=1e-3, atol=1e-4)


if __name__ == "__main__":
    unittest.main()
