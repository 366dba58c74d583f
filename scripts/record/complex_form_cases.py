"""Cases of complex numbers in operators beside arithmetic: copies of views, places, ranges, logarithms of sums, distances, integrals,
functions of matrices, linear algebra. operator_cases.py calls add(family), which registers them with it."""
import torch
import torch.nn.functional as F

from complex_matrix_cases import complex_matrices

INF, NAN = float("inf"), float("nan")
Z = torch.view_as_complex
ops = torch.ops.aten


def P(x):
    return torch.view_as_real(x.resolve_conj())


def complex_forms(c):
    r = c.randn
    z = lambda *shape: r(*shape, 2)
    numbers = lambda *shape: torch.complex(r(*shape), r(*shape))
    parts = lambda *values: torch.tensor(values)

    c.case("copies", lambda x: [P(t) for t in (ops.alias_copy(Z(x)), ops.diagonal_copy(Z(x), 1), ops.narrow_copy(Z(x), 1, -3, 2),
                                              ops.t_copy(Z(x).conj()), ops.unfold_copy(Z(x), 1, 2, 2), *ops.split_with_sizes_copy(Z(x), (1, 3), 1))], z(3, 4))
    c.case("strided_copies", lambda x: [P(ops.as_strided_copy(-Z(x), (2, 3), (1, 4), 1)), P(torch.linalg.diagonal(Z(x), offset=-1))], z(3, 4))
    c.case("truths", lambda x: torch.nonzero_static(Z(x), size=3) * 1.5, parts((0.0, 0.0), (0.0, 1.0), (NAN, 0.0), (-0.0, -0.0), (0.0, NAN), (2.0, 0.0)))
    c.case("masked", lambda x, m, v: [P(ops._unsafe_masked_index(Z(x), m, [3 - 2 * torch.arange(3)], 2.0)), P(ops._unsafe_masked_index_put_accumulate(Z(x), m, [5 * torch.arange(3)], Z(v)))], z(4), torch.tensor([True, False, False]), z(3))
    c.case("ranges", lambda x: [x * torch.linspace(-1 + 2j, 3 - 1j, 5), x * torch.logspace(0, 1j, 5), x * torch.logspace(0, 2, 5, base=3, dtype=torch.complex64), x[:1] + torch.linspace(1j, 2, 1)], numbers(5))
    c.case("ranges_of_tensors", lambda x, a, b: [x * torch.linspace(a, 3, 4, dtype=x.dtype)], numbers(4), numbers(), numbers())
    special = parts((1.0, 2.0), (0.0, 0.0), (-INF, 1.0), (INF, 0.0), (NAN, 1.0), (1.0, NAN), (2.0, 1.0))
    c.case("log_sums", lambda x, y: [P(torch.logaddexp(Z(x), Z(y))), P(torch.logsumexp(Z(x), 1)), P(torch.logsumexp(Z(x), (0, 1), True)), P(torch.logcumsumexp(Z(x), 1))], z(2, 5), z(5))
    c.case("log_sums_special", lambda x: [P(torch.logaddexp(Z(x)[:, None], Z(x))), P(torch.logcumsumexp(Z(x)[:4], 0)), P(torch.logsumexp(torch.stack([Z(x), Z(x)[:1].expand(7)]), 0))], special)
    c.case("log_sums_empty", lambda x: [torch.logsumexp(x, 1), torch.logsumexp(x, 0), torch.logcumsumexp(x, 1)], numbers(3, 0))
    c.case("exp_special", lambda x: P(torch.exp(Z(x))), parts((-INF, INF), (-INF, NAN), (-INF, 1.0), (INF, 0.0), (INF, -0.0), (0.0, -0.0), (INF, 1.0)))
    c.case("distances", lambda x, y: [F.pairwise_distance(Z(x), Z(y)), F.l1_loss(Z(x), Z(y)), F.l1_loss(Z(x), Z(y), reduction="none"),
                                      F.triplet_margin_loss(Z(x), Z(y), Z(x) * 1j, swap=True)], z(3, 4), z(3, 4))
    c.case("renorm", lambda x: P(torch.renorm(Z(x), 2, 0, 1.5)), z(3, 4))
    c.case("integrals", lambda y, x: [P(torch.trapezoid(Z(y), x)), P(torch.trapezoid(Z(y), Z(y))), P(torch.cumulative_trapezoid(Z(y), x))], z(3, 5), r(5))
    c.case("derivatives", lambda y: P(torch.gradient(Z(y), spacing=1 + 1j, dim=1, edge_order=2)[0]), z(4, 5))
    c.case("powers_of_matrices", lambda x: [P(torch.linalg.matrix_power(Z(x), 3)), P(torch.linalg.vander(Z(x)[0]))], z(3, 3))
    c.case("matrix_exp", lambda x: P(torch.matrix_exp(Z(x))), torch.stack([z(3, 3) * s for s in (0.1, 1.5)]))
    complex_matrices(c)
    c.case("views_in_place", lambda x: [P(t * 2j) for t in (Z(x).clone().transpose_(0, 1), Z(x).clone().t_(), Z(x).clone().swapaxes_(0, 1), Z(x).clone().unsqueeze_(1),
                                                            Z(x)[:, :1].clone().squeeze_(1), Z(x).clone().as_strided_((2, 2), (3, 1), 1))], z(3, 4))
    c.case("zeros_without_memory", lambda x: (P(ops._efficientzerotensor((3, 4), dtype=torch.complex64) + Z(x)), ops._efficientzerotensor((2,)) + x[0, 0]), z(3, 4))


def add(family):
    family(complex_forms)
