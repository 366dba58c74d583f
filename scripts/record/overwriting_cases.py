"""Cases that write over what the same kernel reads: a row that is walked again, a value of a row that all its threads read.
operator_cases.py calls add(family), which registers them with it."""
import math

import torch
import torch.nn.functional as F


def overwriting(c):
    def coarse(*shape):  # a few values that come again and again pack well
        return ((torch.arange(math.prod(shape)) * 5 % 19 - 9) / 4).view(shape)

    def after(f, write):
        def run(*x):
            result = f(*x)
            write(*x)
            return result
        return run

    long_row, tall, rows = coarse(2, 20011), coarse(5003, 9), coarse(6, 1031)
    c.case("row_walked_again", after(lambda x: F.layer_norm(x, (20011,)), lambda x: x.tanh_()), long_row)
    c.case("groups", after(lambda x: F.group_norm(x, 7), lambda x: x.unsqueeze(3).tanh_()), coarse(1, 7, 1500))
    c.case("columns", after(lambda x: torch.softmax(x, 0), lambda x: x.mul_(2)), tall)
    c.case("columns_centred", after(lambda x: x - x.mean(0), lambda x: x.abs_()), tall)
    c.case("row_in_registers", after(lambda x: torch.softmax(x, 1), lambda x: x.mul_(2)), rows)
    c.case("value_of_a_row", lambda a, x: a * x.add_(a.sum(1)).unsqueeze(1), rows, coarse(6))
    c.case("value_of_a_row_before", after(lambda a, x: torch.softmax(a * x.unsqueeze(1), 1), lambda a, x: x.mul_(a.amax(1))), rows, coarse(6))
    c.case("value_of_a_column", lambda a, x: a * x.add_(a.sum(0)), tall, coarse(9))
    c.case("number", after(lambda a, b, x: torch.addcdiv(a.cumprod(0), x, b.abs() + 0.5), lambda a, b, x: x.clamp_(-1, 1)), coarse(5), coarse(5), torch.tensor(3.0))
    c.case("computed_row_value", lambda a, y: (lambda x: (lambda z: (z, a * z.unsqueeze(1)))(x + a.sum(1)))((y @ y.T).sum(0)), rows, coarse(6, 6))


def add(family):
    family(overwriting)
