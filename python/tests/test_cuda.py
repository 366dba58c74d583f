"""The backend on CUDA tensors; without a GPU nothing here runs (scripts/gpu_check runs it)."""
import unittest

import torch
import torch.nn as nn
import torch.nn.functional as F

from backend_case import Case
import tsc


@unittest.skipUnless(torch.cuda.is_available(), "needs a GPU")
class OnCuda(Case):
    def setUp(self):
        super().setUp()
        tsc.config.check_runs = True

    def tearDown(self):
        tsc.config.check_runs = False
        super().tearDown()

    def check(self, function, *inputs, **options):
        with torch.no_grad():
            expected = function(*inputs)
            compiled = self.compiled(function, **options)
            for _ in range(3):  # the third replays a graph
                found = compiled(*inputs)
            self.assert_same(found, expected, rtol=2e-2, atol=2e-2)
        self.all_compiled()
        return compiled

    def random(self, *sizes, dtype=torch.float32):
        return torch.randn(sizes, device="cuda").to(dtype)

    def test_modules(self):
        self.check(nn.Sequential(nn.Linear(64, 128), nn.GELU(), nn.Linear(128, 10)).cuda(), self.random(32, 64))
        convolutions = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.Conv2d(16, 8, 3))
        self.check(convolutions.cuda().eval(), self.random(2, 3, 32, 32))

    def test_dynamic_sizes(self):
        def f(x):
            return x.cumsum(0) * x.mean()
        compiled = self.check(f, self.random(7, 5), dynamic=True)
        x = self.random(19, 5)
        torch.testing.assert_close(compiled(x), f(x), rtol=1e-3, atol=1e-4)

    def test_libraries(self):
        self.check(lambda x: torch.fft.rfft(x).abs(), self.random(8, 100))
        self.check(torch.linalg.inv, self.random(4, 8, 8) + 8 * torch.eye(8, device="cuda"))

    def test_attention(self):
        for queries, keys, heads in ((33, 33, 4), (1, 777, 2), (5, 300, 4)):
            torch._dynamo.reset()  # else the number of heads becomes a symbol
            q = self.random(2, 4, queries, 64, dtype=torch.bfloat16)
            k, v = (self.random(2, heads, keys, 64, dtype=torch.bfloat16) for _ in range(2))
            self.check(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, enable_gqa=True), q, k, v)
        q = self.random(2, 4, 100, 64, dtype=torch.bfloat16)
        self.check(lambda q: F.scaled_dot_product_attention(q, q, q, is_causal=True), q)

    def check_dropped(self, dtype, **masks):
        """The mask is read off with the identity as values; gradients are those of the formula with this mask."""
        p, size = 0.3, 64
        step = self.compiled(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, dropout_p=p, **masks))
        q, k, v, above = (self.random(2, 3, size, size, dtype=dtype) for _ in range(4))
        given = [x.clone().requires_grad_() for x in (q, k, v)]
        identity = torch.eye(size, device="cuda", dtype=dtype).expand_as(v).contiguous().requires_grad_()
        torch.manual_seed(5)
        weights = step(*given[:2], identity)
        torch.manual_seed(5)
        found = step(*given)
        found_gradients = torch.autograd.grad(found, given, above)
        stays = weights != 0
        self.assertAlmostEqual(stays.float().mean().item() / (0.5 if masks else 1), 1 - p, delta=0.03)
        exact = [x.double().requires_grad_() for x in (q, k, v)]
        scores = exact[0] @ exact[1].mT / size**0.5
        if masks:
            scores = scores.masked_fill(torch.ones(size, size, device="cuda").tril() == 0, -torch.inf)
        expected = (scores.softmax(-1) * stays / (1 - p)) @ exact[2]
        gradients = torch.autograd.grad(expected, exact, above.double())
        for a, b in zip((found, *found_gradients), (expected, *gradients)):
            self.assertLess((a.double() - b).norm() / b.norm(), 1e-2 if dtype == torch.bfloat16 else 1e-4)

    def test_dropped_attention(self):
        from torch.nn.attention import SDPBackend, sdpa_kernel
        for kernel in (SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.CUDNN_ATTENTION):
            for masks in ({}, {"is_causal": True}):
                for random in ("tsc", "eager"):
                    torch._dynamo.reset()
                    tsc.reset_reports()
                    tsc.config.random = random
                    with sdpa_kernel(kernel):
                        self.check_dropped(torch.bfloat16, **masks)
                    if random == "tsc":
                        self.all_compiled()
        torch._dynamo.reset()
        self.check_dropped(torch.float32)

    def losses(self, compiled, attention):
        torch.manual_seed(1)
        layers = [nn.TransformerEncoderLayer(64, 2, 128, 0.0, batch_first=True, norm_first=True)] if attention else []
        model = nn.Sequential(nn.Linear(64, 64), *layers, nn.LayerNorm(64), nn.GELU(), nn.Linear(64, 10)).cuda()
        optimizer = torch.optim.AdamW(model.parameters(), 1e-2)
        step = self.compiled(model) if compiled else model
        found = []
        for i in range(20):
            x = torch.randn(4, 32, 64, device="cuda", generator=torch.Generator("cuda").manual_seed(i))
            with torch.autocast("cuda", torch.bfloat16, enabled=attention):
                out = step(x).flatten(0, 1)
            loss = F.cross_entropy(out.float(), torch.arange(128, device="cuda") % 10)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            found.append(loss.item())
        return found

    def test_training(self):
        for attention, tolerance in ((False, 1e-4), (True, 3e-2)):
            torch._dynamo.reset()
            expected, found = self.losses(False, attention), self.losses(True, attention)
            for a, b in zip(found, expected):
                self.assertAlmostEqual(a, b, delta=tolerance)
            self.all_compiled()

    def test_deterministic_algorithms(self):
        def add(places, values):
            return torch.zeros(2, device="cuda").index_put((places,), values, accumulate=True)

        places, values = torch.zeros(10000, dtype=torch.int64, device="cuda"), torch.randn(10000, device="cuda")
        before = torch.are_deterministic_algorithms_enabled()
        try:
            torch.use_deterministic_algorithms(True)
            compiled = torch.compile(add, backend=tsc.backend)
            first = compiled(places, values)
            for _ in range(10):
                self.assertTrue(torch.equal(compiled(places, values), first))
        finally:
            torch.use_deterministic_algorithms(before)
        self.assertAlmostEqual(first[0].item(), values.double().sum().item(), delta=1e-2)

    def test_index_out_of_range(self):
        table, places = self.random(4, 3), torch.tensor([1, 2, 9], device="cuda")
        with self.assertRaisesRegex(Exception, "9 of input"):
            self.compiled(lambda t, i: t[i])(table, places)


if __name__ == "__main__":
    unittest.main()
