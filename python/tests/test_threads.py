"""Threads that compile and run at once, and processes that fork (workers of a DataLoader)."""
import os
import signal
import threading
import time
import unittest

import torch
from backend_case import Case

import tsc

THREADS = 8


def run_threads(body):
    """body(i) on THREADS threads; the first exception is raised here."""
    errors = []

    def run(i):
        try:
            body(i)
        except BaseException as error:  # noqa: BLE001
            errors.append(error)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def in_child(body):
    """What body() of a forked child says: 0 if it is True, 1 if not; None if the child hangs."""
    child = os.fork()
    if child == 0:
        code = 2
        try:
            code = 0 if body() else 1
        finally:
            os._exit(code)
    for _ in range(6000):
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None


class Layers(torch.nn.Module):
    """Another graph for each number."""

    def __init__(self, number):
        super().__init__()
        self.linear = torch.nn.Linear(8 + number, 16)
        self.number = number

    def forward(self, x):
        for i in range(1 + self.number % 3):
            x = torch.softmax(self.linear(x), dim=-1)[:, :8].repeat(1, 3)[:, :8 + self.number] + i
        return x.sum(dim=0) * self.number, x


def exported_layers(number):
    rows = torch.export.Dim("rows", min=2, max=64)
    return torch.export.export(Layers(number), (torch.randn(4, 8 + number),), dynamic_shapes=({0: rows},))


class Threads(Case):
    def test_exported_programs_compile_at_once(self):
        exported = [exported_layers(i) for i in range(THREADS)]

        def body(i):
            for turn in range(3):
                number = (i + turn) % THREADS
                compiled = tsc.compile(exported[number])
                for rows in (2, 3 + i, 33):
                    x = torch.randn(rows, 8 + number)
                    torch.testing.assert_close(compiled(x), exported[number].module()(x))

        run_threads(body)

    def test_one_program_is_called_at_once(self):
        exported = exported_layers(3)
        compiled = tsc.compile(exported)
        given = [torch.randn(2 + i, 11) for i in range(THREADS)]
        expected = [exported.module()(x) for x in given]

        def body(i):
            for _ in range(50):
                torch.testing.assert_close(compiled(given[i]), expected[i])

        run_threads(body)

    def test_a_compiled_function_is_called_at_once(self):
        function = self.compiled(lambda x: torch.softmax(x * 3, -1) + 1, dynamic=False)
        given = [torch.randn(4, 5) for _ in range(THREADS)]
        with torch.no_grad():
            expected = [function(x) for x in given]

        def body(i):
            with torch.no_grad():
                for turn in range(50):
                    at = (i + turn) % THREADS
                    torch.testing.assert_close(function(given[at]), expected[at])

        run_threads(body)
        self.all_compiled()

    def test_errors_are_the_threads_own(self):
        def body(i):
            for _ in range(20):
                with self.assertRaisesRegex(tsc.TscError, rf"missing_{i}\b"):
                    tsc.load(f"/nowhere/missing_{i}", "cpu")

        run_threads(body)


class Rows(torch.utils.data.Dataset):
    def __init__(self, compiled):
        self.compiled = compiled

    def __len__(self):
        return 12

    def __getitem__(self, i):
        return self.compiled(torch.full((2, 11), float(i)))[1]


class Forks(Case):
    def test_child_runs_and_compiles(self):
        exported, other = exported_layers(3), exported_layers(4)
        compiled = tsc.compile(exported)
        x, y = torch.randn(5, 11), torch.randn(5, 12)
        expected, wanted = compiled(x), other.module()(y)  # PyTorch itself may hang in a child

        def body():
            return torch.equal(compiled(x)[0], expected[0]) and torch.allclose(tsc.compile(other)(y)[1], wanted[1], atol=1e-5)

        self.assertEqual(in_child(body), 0)
        self.assertTrue(torch.equal(compiled(x)[0], expected[0]))

    def test_workers_of_a_data_loader(self):
        exported = exported_layers(3)
        rows = Rows(tsc.compile(exported))
        expected = torch.stack([rows[i] for i in range(len(rows))])
        for _ in range(2):
            loader = torch.utils.data.DataLoader(rows, batch_size=3, num_workers=2, timeout=60)
            self.assertTrue(torch.equal(torch.cat(list(loader)), expected))

    def test_fork_while_threads_run(self):
        exported = exported_layers(3)
        compiled = tsc.compile(exported)
        x = torch.randn(5, 11)
        expected = compiled(x)
        done = threading.Event()

        def work():
            while not done.is_set():
                compiled(x)

        threads = [threading.Thread(target=work) for _ in range(3)]
        for thread in threads:
            thread.start()
        try:
            for _ in range(8):
                self.assertEqual(in_child(lambda: torch.equal(compiled(x)[0], expected[0])), 0)
        finally:
            done.set()
            for thread in threads:
                thread.join()


if __name__ == "__main__":
    unittest.main()
