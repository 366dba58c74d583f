"""Operators that take functions, in torch.compile(backend="tsc"), against eager mode."""
import unittest

import torch
from backend_case import Case
from torch._higher_order_ops.associative_scan import associative_scan
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

import tsc

torch.library.define("tsc_test::thrice", "(Tensor x) -> Tensor")
torch.library.impl("tsc_test::thrice", "cpu", lambda x: x * 3)
torch.library.register_fake("tsc_test::thrice", lambda x: torch.empty_like(x))


def causal(batch, head, row, column):
    return row >= column


class FlexAttention(Case):
    def attend(self, function, *tensors, **options):
        with torch.no_grad():
            expected = function(*tensors)
            self.assert_same(self.compiled(function, **options)(*tensors), expected, atol=2e-5, rtol=1e-4)

    def heads(self, *shape, dtype=torch.float32):
        return [torch.randn(*shape, dtype=dtype) for _ in range(3)]

    def test_scores_and_mask(self):
        mask = create_block_mask(causal, None, None, 128, 128, device="cpu")
        bias = lambda score, batch, head, row, column: score + (column - row) * 0.1 * (head + 1)
        self.attend(lambda q, k, v: flex_attention(q, k, v, score_mod=bias, block_mask=mask) * 2, *self.heads(1, 2, 128, 16))
        self.all_compiled()

    def test_captured_tensor(self):
        slopes = torch.rand(2)
        self.attend(lambda q, k, v: flex_attention(q, k, v, score_mod=lambda s, b, h, i, j: s - (i - j).abs() * slopes[h]), *self.heads(2, 2, 40, 8))
        self.all_compiled()

    def test_shared_heads_and_scale(self):
        q, k, v = self.heads(1, 4, 32, 8)
        self.attend(lambda q, k, v: flex_attention(q, k, v, scale=0.3, enable_gqa=True), q, k[:, :2].contiguous(), v[:, :2].contiguous())
        self.all_compiled()

    def test_function_with_an_unknown_operator(self):
        unknown = lambda score, batch, head, row, column: torch.ops.tsc_test.thrice(score)
        self.attend(lambda q, k, v: flex_attention(q + 1, k, v, score_mod=unknown).relu(), *self.heads(1, 2, 32, 8))
        report = tsc.last_report()
        self.assertEqual([f.nodes for f in report.fallbacks], [["flex_attention"]], str(report))
        self.assertGreater(report.compiled_nodes, 0)


class ControlFlow(Case):
    def check(self, function, *inputs):
        with torch.no_grad():
            for given in inputs:
                self.assert_same(self.compiled(function)(*given), function(*given))

    def test_branches(self):
        def f(x):
            return torch.cond(x.sum() > 0, lambda a: a.sin() + 1, lambda a: a.cos() * 2, (x,)) * 2

        self.check(f, (torch.ones(5),), (-torch.ones(5),))
        self.all_compiled()

    def test_loops(self):
        def f(i, x):
            return while_loop(lambda i, x: i < 4, lambda i, x: (i + 1, x * 1.5 + i), (i, x))

        self.check(f, (torch.tensor(0), torch.randn(3)), (torch.tensor(9), torch.randn(3)))
        self.all_compiled()

    def test_scans(self):
        def f(x):
            last, all_of_them = scan(lambda carry, row: (carry * 0.5 + row, carry + row), torch.zeros(3), x)
            return last, all_of_them, associative_scan(lambda a, b: a * b + a, x, 0, combine_mode="generic")

        self.check(f, (torch.randn(6, 3),))
        self.all_compiled()


if __name__ == "__main__":
    unittest.main()
