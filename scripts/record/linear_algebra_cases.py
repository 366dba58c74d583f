"""Cases of torch.linalg and its kin. Signs of eigenvectors and singular vectors are the library's: recorded are their absolute
values, and what they multiply to. operator_cases.py calls add(family), which registers them with it."""
import torch

from torch._subclasses import fake_impls

L = torch.linalg


def lstsq_shapes(mode, func, a, b, rcond=None, *, driver=None):
    """torch.export knows no shapes of lstsq, since its residuals depend on ranks; here these are full."""
    vector = b.dim() == 1
    right = b.unsqueeze(-1) if vector else b
    batch, (m, n), k = torch.broadcast_shapes(a.shape[:-2], right.shape[:-2]), a.shape[-2:], right.shape[-1]
    real = a.dtype.to_real()
    x, rest = a.new_empty(*batch, n, k), a.new_empty((*batch, k) if m > n else (0,), dtype=real)
    rank = a.new_empty(a.shape[:-2] if driver != "gels" else (0,), dtype=torch.int64)
    values = a.new_empty((*a.shape[:-2], min(m, n)) if driver in ("gelsd", "gelss") else (0,), dtype=real)
    return x.squeeze(-1) if vector else x, rest, rank, values


fake_impls.op_implementations_checks.insert(0, (lambda func: func is torch.ops.aten.linalg_lstsq.default, lstsq_shapes))


def factorizations(c):
    for short, dtype in (("f32", torch.float32), ("f64", torch.float64)):
        r = lambda *s: c.randn(*s, dtype=dtype)
        unit = lambda n: 2 * torch.eye(n, dtype=dtype)
        spd = lambda *s: (lambda a: a @ a.mT + unit(s[-1]))(r(*s))
        c.case(f"cholesky_{short}", lambda x: L.cholesky(x), spd(5, 5))
        c.case(f"cholesky_upper_{short}", lambda x: L.cholesky(x, upper=True), spd(2, 3, 4, 4))
        c.case(f"cholesky_old_{short}", lambda x: (torch.cholesky(x), torch.cholesky(x.mT, True)), spd(3, 3))
        c.case(f"lu_factor_{short}", lambda x: L.lu_factor(x), r(2, 5, 4))
        c.case(f"lu_factor_ex_{short}", lambda x: L.lu_factor_ex(x), r(3, 7))
        c.case(f"lu_{short}", lambda x: L.lu(x), r(2, 5, 3))
        c.case(f"qr_{short}", lambda x: L.qr(x), r(2, 5, 3))
        c.case(f"svd_{short}", lambda x: (lambda u, s, v: (u.abs(), s, v.abs(), (u * s.unsqueeze(-2)) @ v))(*L.svd(x, full_matrices=False)), r(2, 5, 3))
        c.case(f"eigh_{short}", lambda x: (lambda w, q: (w, (q * w.unsqueeze(-2)) @ q.mT))(*L.eigh(x)), spd(2, 4, 4))
    r = c.randn
    spd = lambda *s: (lambda a: a @ a.mT + torch.eye(s[-1]))(r(*s))
    c.case("cholesky_strided", lambda x: L.cholesky(x[::2, 1:, 1:]), spd(3, 5, 5).tril())
    c.case("cholesky_ex_fails", lambda x: L.cholesky_ex(x)[1], torch.stack([torch.eye(3), -torch.eye(3), torch.diag(torch.tensor([1.0, 2, -1]))]))
    c.case("cholesky_empty", lambda x, y: (L.cholesky(x), *L.cholesky_ex(y)), r(2, 0, 0), r(0, 3, 3))
    c.case("cholesky_one", lambda x: L.cholesky(x), torch.full((1, 1), 4.0))
    c.case("lu_wide", lambda x: L.lu(x), r(3, 5))
    c.case("lu_square", lambda x: torch.lu_unpack(*L.lu_factor(x)), r(2, 17, 17))
    c.case("lu_unpack_parts", lambda x: (torch.lu_unpack(*L.lu_factor(x), unpack_data=False)[0], torch.lu_unpack(*L.lu_factor(x), unpack_pivots=False)[2]), r(4, 4))
    c.case("lu_singular", lambda x: (*L.lu(x), L.lu_factor_ex(x)[2]), torch.tensor([[1.0, 2, 3], [2, 4, 6], [1, 1, 1]]))
    c.case("lu_empty", lambda x, y: (*L.lu(x), *L.lu_factor(y)), r(2, 0, 3), r(0, 2, 2))
    c.case("qr_complete", lambda x: L.qr(x, mode="complete"), r(2, 5, 3))
    c.case("qr_r", lambda x: L.qr(x, mode="r")[1], r(5, 3))
    c.case("qr_wide", lambda x: (*L.qr(x), *L.qr(x, mode="complete")), r(2, 3, 5))
    c.case("qr_old", lambda x: (*torch.qr(x), *torch.qr(x, some=False)), r(4, 3))
    c.case("qr_empty", lambda x, y: (*L.qr(x, mode="complete"), *L.qr(y)), r(2, 3, 0), r(0, 3))
    c.case("qr_65", lambda x: (lambda q, t: (q.mT @ q, q @ t))(*L.qr(x)), r(65, 33))
    c.case("geqrf", lambda x: torch.geqrf(x), r(2, 5, 3))
    c.case("householder_product", lambda x, t: (L.householder_product(x, t), torch.orgqr(x, t)), *(t.contiguous() for t in torch.geqrf(r(2, 5, 3))))
    c.case("householder_few", lambda x, t: L.householder_product(x, t), r(5, 4), r(2))
    a, tau = (t.contiguous() for t in torch.geqrf(r(2, 5, 3)))
    c.case("ormqr", lambda x, t, o: (torch.ormqr(x, t, o), torch.ormqr(x, t, o, transpose=True)), a, tau, r(2, 5, 4))
    c.case("ormqr_right", lambda x, t, o: (torch.ormqr(x, t, o, left=False), torch.ormqr(x, t, o, left=False, transpose=True)), a, tau, r(2, 3, 5))
    c.case("svd_full", lambda x: (lambda u, s, v: (s, u @ u.mT, v @ v.mT, (u[:, :3] * s) @ v))(*L.svd(x)), r(5, 3))
    c.case("svd_wide", lambda x: (lambda u, s, v: (s, v @ v.mT, (u * s) @ v[:3]))(*L.svd(x)), r(3, 5))
    c.case("svd_old", lambda x: (lambda u, s, v: (u.abs(), s, v.abs()))(*torch.svd(x)), r(2, 4, 3))
    c.case("svd_old_values", lambda x: torch.svd(x, compute_uv=False), r(3, 4))
    c.case("svdvals", lambda x: (L.svdvals(x), L.svdvals(x.mT)), r(2, 3, 6, 4))
    c.case("svd_empty", lambda x, y: (*L.svd(x), *L.svd(y, full_matrices=False), L.svdvals(x)), r(3, 0), r(0, 2, 3))
    c.case("eigh_vectors", lambda x: L.eigh(x)[1].abs(), (lambda a: (a + a.mT) / 9 + torch.diag(torch.arange(4.0)))(r(4, 4)))
    c.case("eigh_upper", lambda x: (L.eigvalsh(x, UPLO="U"), L.eigvalsh(x)), r(2, 4, 4))
    c.case("eigh_one", lambda x: L.eigvalsh(x), r(3, 1, 1))
    c.case("eigh_empty", lambda x: L.eigh(x), r(2, 0, 0))
    c.case("eigvalsh_33", lambda x: L.eigvalsh(x + x.mT), r(33, 33))


def systems(c):
    for short, dtype in (("f32", torch.float32), ("f64", torch.float64)):
        r = lambda *s: c.randn(*s, dtype=dtype)
        well = lambda *s: r(*s) + 3 * torch.eye(s[-1], dtype=dtype)
        c.case(f"solve_{short}", lambda a, b: L.solve(a, b), well(2, 4, 4), r(2, 4, 3))
        c.case(f"inv_{short}", lambda a: L.inv(a), well(2, 4, 4))
        c.case(f"det_{short}", lambda a: (L.det(a), torch.det(a.mT), *L.slogdet(a), torch.logdet(a @ a.mT)), well(3, 4, 4))
        c.case(f"solve_triangular_{short}", lambda a, b: (L.solve_triangular(a, b, upper=True), L.solve_triangular(a, b, upper=False), L.solve_triangular(a, b.mT, upper=True, left=False), L.solve_triangular(a, b.mT, upper=False, left=False)), well(2, 4, 4), r(2, 4, 3))
        # In float64 a result that nearly cancels is one of rounding: factors whose diagonal is far ahead.
        steady = (lambda l: l + 6 * torch.eye(4, dtype=dtype)) if dtype == torch.float64 else lambda l: l
        c.case(f"cholesky_solve_{short}" if dtype == torch.float32 else "cholesky_solve_steady_f64", lambda b, l: (torch.cholesky_solve(b, l), torch.cholesky_solve(b, l, upper=True), torch.cholesky_inverse(l), torch.cholesky_inverse(l, upper=True)), r(2, 4, 3), steady(well(2, 4, 4)))
        c.case(f"lstsq_{short}", lambda a, b: (*L.lstsq(a, b, driver="gelsd"), *L.lstsq(a, b)[:1], *L.lstsq(a, b, driver="gels")[:2]), r(2, 6, 3), r(2, 6, 2))
        if dtype == torch.float32:  # in float64 nobody knows more digits than the libraries, which differ in the last
            c.case(f"pinv_{short}", lambda a: L.pinv(a), r(2, 5, 3))
    r = c.randn
    well = lambda *s: r(*s) + 3 * torch.eye(s[-1])
    c.case("solve_vector", lambda a, b: L.solve(a, b), well(4, 4), r(4))
    c.case("solve_vectors", lambda a, b: L.solve(a, b), well(3, 4, 4), r(3, 4))
    c.case("solve_right", lambda a, b: L.solve(a, b, left=False), well(2, 4, 4), r(2, 3, 4))
    c.case("solve_columns", lambda a, b: (L.solve(a.mT, b), L.solve(a.mT, b.mT, left=False)), well(2, 4, 4), r(2, 4, 4))
    c.case("solve_broadcast", lambda a, b: (L.solve(a, b), L.solve(a[0, 0], b)), well(2, 1, 3, 3), r(4, 3, 2))
    c.case("solve_ex", lambda a, b: L.solve_ex(a, b), well(2, 4, 4), r(2, 4, 3))
    c.case("solve_ex_singular", lambda a, b: L.solve_ex(a, b)[1], torch.stack([torch.eye(3), torch.zeros(3, 3)]), r(2, 3, 3))
    c.case("solve_empty", lambda a, b, d: (L.solve(a, b), L.solve(d, b[:, :0]), L.inv(a)), r(2, 0, 0), r(2, 0, 3), r(0, 0))
    c.case("solve_decomposed", lambda a, b: torch.ops.aten._linalg_solve_ex(a, b), well(4, 4), r(4, 2))
    c.case("solve_after", lambda a, b: (L.solve(a.exp() + 5 * torch.eye(4), (b * 2).relu()) + b).sum(-1), r(3, 4, 4), r(3, 4, 2))
    c.case("solve_33", lambda a, b: L.solve(a, b), r(33, 33) + 12 * torch.eye(33), r(33, 2))
    # Batches in one call of a library, and sizes of kernels of ours: up to 32.
    c.case("batch_of_33", lambda a, b: (L.solve(a, b), L.cholesky(a @ a.mT + 33 * torch.eye(33)), L.qr(a)[1].abs(), L.solve_triangular(a, b, upper=True)), r(2, 33, 33) + 12 * torch.eye(33), r(2, 33, 2))
    for size in (1, 2, 5, 8, 17, 32):
        c.case(f"batch_of_{size}", lambda a, b: (L.solve(a, b), L.inv(a), L.cholesky(a @ a.mT + a.shape[-1] * torch.eye(a.shape[-1])), L.qr(a)[1].abs()), r(3, size, size) + (size ** 0.5 + 3) * torch.eye(size), r(3, size, 5))
    c.case("batch_tall", lambda a: (*(lambda q, t: (t.abs(), q @ t, q.mT @ q))(*L.qr(a)), *L.lu(a)[1:]), r(2, 9, 4))
    c.case("batch_of_none", lambda a: (L.inv(a), L.cholesky_ex(a)[1]), r(0, 4, 4))
    c.case("inv_ex", lambda a: L.inv_ex(a), well(3, 3))
    c.case("inverse_strided", lambda a: (torch.inverse(a[::2]), a.mT.inverse()), well(4, 3, 3))
    c.case("inv_one", lambda a: L.inv(a), r(3, 1, 1, positive=True))
    c.case("det_small", lambda a, b, d: (L.det(a), L.det(b), L.det(d), *L.slogdet(d)), r(2, 0, 0), r(1, 1), torch.tensor([[0.0, 1], [0, 0]]))
    c.case("logdet_negative", lambda a: torch.logdet(a), torch.stack([torch.eye(2), torch.tensor([[0.0, 1], [1, 0]])]))
    c.case("lu_solve", lambda b, a: (torch.lu_solve(b, *L.lu_factor(a)), L.lu_solve(*L.lu_factor(a), b, adjoint=True), L.lu_solve(*L.lu_factor(a), b.mT, left=False), L.lu_solve(*L.lu_factor(a), b.mT, left=False, adjoint=True)), r(2, 4, 3), well(2, 4, 4))
    lu, pivots = (t.contiguous() for t in L.lu_factor(well(2, 4, 4)))
    c.case("lu_solve_given", lambda lu, p, b: L.lu_solve(lu, p, b), lu, pivots, r(3, 2, 4, 2))
    c.case("triangular_solve", lambda b, a: (*torch.triangular_solve(b, a), torch.triangular_solve(b, a, upper=False, transpose=True)[0], torch.triangular_solve(b, a, unitriangular=True)[0]), r(2, 4, 3), well(2, 4, 4))
    c.case("solve_triangular_unit", lambda a, b: (L.solve_triangular(a, b, upper=True, unitriangular=True), L.solve_triangular(a.mT, b, upper=False)), well(4, 4), r(2, 4, 1))
    c.case("pinv_given", lambda a: (L.pinv(a, rtol=0.1), L.pinv(a, atol=0.5), L.pinv(a, rcond=0.2), torch.pinverse(a)), r(4, 3))
    c.case("pinv_tensors", lambda a, t: (L.pinv(a, rtol=t), L.pinv(a, atol=t)), r(2, 4, 3), torch.tensor([0.1, 0.3]))
    c.case("pinv_hermitian", lambda a: L.pinv(a @ a.mT, hermitian=True), well(2, 3, 3))
    c.case("pinv_empty", lambda a: L.pinv(a), r(2, 0, 3))
    c.case("matrix_rank", lambda a: (L.matrix_rank(a), L.matrix_rank(a.mT @ a, hermitian=True), L.matrix_rank(a, tol=1.0), L.matrix_rank(a, rtol=0.3)), torch.cat([r(4, 3), r(4, 1) * 0], 1))
    c.case("lstsq_wide", lambda a, b: (L.lstsq(a, b)[0], L.lstsq(a, b)[2], L.lstsq(a, b[:, 0])[0]), r(3, 5), r(3, 2))
    c.case("lstsq_values", lambda a, b: L.lstsq(a, b, driver="gelsd"), r(4, 4), r(4, 2))


def matrix_functions(c):
    r = c.randn
    well = lambda *s: r(*s) + 3 * torch.eye(s[-1])
    for short, dtype in (("f32", torch.float32), ("f64", torch.float64)):
        d = lambda *s, scale=1.0: c.randn(*s, dtype=dtype, scale=scale)
        c.case(f"matrix_exp_{short}", lambda x: torch.matrix_exp(x), torch.stack([d(4, 4, scale=s) for s in (0.01, 0.3, 0.5, 3.0 if short == "f32" else 0.7)]))
        c.case(f"matrix_norm_{short}", lambda x: (L.matrix_norm(x, "nuc"), L.matrix_norm(x, 2), L.matrix_norm(x, -2), L.norm(x[0], "nuc"), L.norm(x, 2, dim=(0, 1), keepdim=True)), d(3, 4, 5))
    c.case("matrix_exp_large", lambda x: L.matrix_exp(x), (lambda a: (a - a.mT) * 9)(r(5, 5)))
    c.case("matrix_exp_small", lambda x, y: (torch.matrix_exp(x), torch.matrix_exp(y)), r(2, 1, 1), r(0, 3, 3))
    c.case("matrix_exp_special", lambda x: torch.matrix_exp(x).isnan(), torch.tensor([[[1.0, 0], [0, 1]], [[float("nan"), 0], [0, 1]], [[0.0, 0], [0, 0]]]))
    c.case("matrix_power", lambda x: (L.matrix_power(x, 0), L.matrix_power(x, 1), L.matrix_power(x, 3), L.matrix_power(x, 6), torch.matrix_power(x, -2)), well(2, 3, 3) / 3)
    c.case("cond", lambda x: (L.cond(x), L.cond(x, 1), L.cond(x, "fro"), L.cond(x, -2), L.cond(x, float("inf")), L.cond(x, "nuc")), well(2, 3, 3))
    c.case("cond_singular", lambda x: (L.cond(x, 1), L.cond(x, -1), L.cond(x, "fro"), L.cond(x[::2], "nuc")), torch.stack([torch.eye(2), torch.zeros(2, 2), torch.diag(torch.tensor([1.0, 0]))]))
    c.case("cond_wide", lambda x: L.cond(x), r(3, 5))
    c.case("nuclear_norm", lambda x: (torch.norm(x, "nuc"), torch.norm(x, "nuc", keepdim=True), torch.norm(x, "nuc", dim=(0, 1))), r(3, 4))
    c.case("tensorinv", lambda x: L.tensorinv(x, ind=2), r(2, 3, 6) + 2 * torch.eye(6).reshape(2, 3, 6))
    c.case("tensorsolve", lambda a, b: (L.tensorsolve(a, b), L.tensorsolve(a.permute(1, 0, 2), b, dims=(0, 2))), r(6, 2, 3) + 2 * torch.eye(6).reshape(6, 2, 3), r(6))
    c.case("vander", lambda x, y: (L.vander(x), L.vander(x, N=5), torch.vander(y), torch.vander(y, N=2, increasing=True)), r(2, 3), c.ints(4))
    c.case("diagonal", lambda x: L.diagonal(x, offset=1), r(3, 4))


def ldl(c):
    """What no library has for a GPU."""
    for short, dtype in (("f32", torch.float32), ("f64", torch.float64)):
        r = lambda *s, dtype=dtype: c.randn(*s).to(dtype)
        spd = lambda *s: (lambda a: a @ a.mT + torch.eye(s[-1], dtype=a.dtype))(r(*s))
        c.case(f"ldl_{short}", lambda x: L.ldl_factor(x), spd(2, 4, 4))
        c.case(f"ldl_indefinite_{short}", lambda x: L.ldl_factor_ex(x), (lambda a: a + a.mT)(r(5, 5)))
    parts = lambda x: torch.view_as_real(x).flatten(-2)
    for name, full, hermitian in (("symmetric", lambda a: a + a.mT, False), ("hermitian", lambda a: a + a.mH, True)):
        def solved(x, b, full=full, hermitian=hermitian):
            factors, pivots = L.ldl_factor(full(torch.view_as_complex(x)), hermitian=hermitian)
            return parts(factors), pivots, parts(L.ldl_solve(factors, pivots, torch.view_as_complex(b), hermitian=hermitian))
        c.case(f"ldl_{name}", solved, c.randn(3, 3, 2), c.randn(3, 1, 2))
    r, well = c.randn, lambda *s: c.randn(*s) + 3 * torch.eye(s[-1])
    c.case("ldl_solve", lambda a, b: L.ldl_solve(*L.ldl_factor(a), b), (lambda a: a + a.mT)(well(3, 4, 4)), r(3, 4, 2))


def linear_algebra(c):
    factorizations(c)
    systems(c)
    matrix_functions(c)


def add(family):
    family(linear_algebra)
    family(ldl)
