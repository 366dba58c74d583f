"""What the tests share. They need PyTorch and libtsc_api.so; run them with  python3 -m unittest discover -s python/tests"""
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

import torch  # noqa: E402

import tsc  # noqa: E402


class Case(unittest.TestCase):
    def setUp(self):
        torch._dynamo.reset()
        torch.manual_seed(0)
        tsc.reset_reports()
        self._random = tsc.config.random

    def tearDown(self):
        tsc.config.random = self._random

    def compiled(self, function, **options):
        return torch.compile(function, backend=tsc.backend, **options)

    def all_compiled(self):
        """Every node of every graph was tsc's, and there was one."""
        self.assertTrue(tsc.reports())
        for report in tsc.reports():
            self.assertEqual(report.fallbacks, [], str(report))
            self.assertGreater(report.compiled_nodes, 0)

    def assert_same(self, found, expected, **tolerance):
        torch.testing.assert_close(found, expected, **tolerance)
        for a, b in zip(torch.utils._pytree.tree_leaves(found), torch.utils._pytree.tree_leaves(expected)):
            if isinstance(b, torch.Tensor):
                self.assertEqual(a.stride(), b.stride())
