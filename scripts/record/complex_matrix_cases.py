"""Cases of linear algebra of complex matrices, given and taken as their parts. Phases of eigenvectors and singular vectors are the
library's: recorded is what they multiply to. complex_form_cases.py calls complex_matrices."""
import torch

L = torch.linalg
Z = torch.view_as_complex


def P(x):
    """Parts, alternating in rows: [.., n] becomes [.., 2 n]."""
    parts = torch.view_as_real(x.resolve_conj())
    return parts.flatten(-2) if x.dim() else parts


def complex_matrices(c):
    r = c.randn
    z = lambda *shape: r(*shape, 2)
    well = lambda *s: z(*s) + 3 * torch.stack([torch.eye(s[-1]), torch.zeros(s[-1], s[-1])], -1)
    both = lambda f, *xs: [P(t) if t.is_complex() else t for t in f(*(Z(x) if x.dim() and x.shape[-1] == 2 else x for x in xs))]
    case = lambda name, f, *xs: c.case(name, lambda *xs: both(f, *xs), *xs)
    definite = lambda a: a @ a.mH + torch.eye(a.shape[-2])

    case("solve", lambda a, b: (L.solve(a, b), L.solve(a, b.mT, left=False), L.solve(a.mH, b), L.solve(a[0].mT, b[0, :, 0])), well(2, 2, 2), z(2, 2, 1))
    case("inverse", lambda a: (*L.inv_ex(a), torch.inverse(a.mT)), well(3, 3))
    case("determinants", lambda a: (L.det(a), *L.slogdet(a), torch.logdet(a[0])), well(2, 2, 2))
    case("lu", lambda a: (*L.lu(a), L.lu_factor(a)[0]), z(3, 2))
    case("lu_solve", lambda a, b: (lambda f: (L.lu_solve(*f, b), L.lu_solve(*f, b, adjoint=True), L.lu_solve(*f, b.mT, left=False), L.lu_solve(*f, b.mT, left=False, adjoint=True)))(L.lu_factor(a)), well(2, 2), z(2, 1))
    case("triangles", lambda a, b: (L.solve_triangular(a, b, upper=True), L.solve_triangular(a, b.mT, upper=False, left=False), L.solve_triangular(a.mH, b, upper=False, unitriangular=True),
                                    *torch.triangular_solve(b, a, transpose=True)[:1]), well(2, 2), z(2, 2))
    case("cholesky", lambda a, b: (lambda m: (L.cholesky(m), L.cholesky(m, upper=True), torch.cholesky_solve(b, L.cholesky(m)), torch.cholesky_solve(b, L.cholesky(m, upper=True), upper=True),
                                              torch.cholesky_inverse(L.cholesky(m)), L.cholesky_ex(m + 1j * torch.eye(2))[0].abs()))(definite(a)), z(2, 2), z(2, 1))
    case("qr", lambda a: (*L.qr(a), *L.qr(a.mT, mode="complete"), *torch.geqrf(a)), z(3, 2))
    case("reflections", lambda a, b: (lambda f: (L.householder_product(*f), torch.ormqr(*f, b), torch.ormqr(*f, b, transpose=True), torch.ormqr(*f, b.mT, left=False, transpose=True)))(torch.geqrf(a)), z(3, 2), z(3, 1))
    case("hermitian", lambda a: (lambda w, q: (w, (q * w.unsqueeze(-2)) @ q.mH, L.eigvalsh(a, UPLO="U")))(*L.eigh(a)), z(2, 3, 3))
    case("svd", lambda a: (lambda u, s, v: (s, (u * s.unsqueeze(-2)) @ v, L.svdvals(a.mT)))(*L.svd(a, full_matrices=False)), z(3, 2))
    case("svd_full", lambda a: (lambda u, s, v, o: (s, (u[:, :2] * s) @ v, u @ u.mH, (o[0] * o[1]) @ o[2].mH))(*L.svd(a), torch.svd(a)), z(3, 2))
    case("pinv", lambda a: (L.pinv(a), L.pinv(definite(a[:2]), hermitian=True), L.matrix_rank(a) * 1.5, L.matrix_rank(definite(a[:2]), hermitian=True) * 1.5), z(3, 2))
    case("lstsq", lambda a, b: (*L.lstsq(a, b, driver="gelsd")[:2], L.lstsq(a.mH, b[:2], driver="gels")[0]), z(3, 2), z(3, 1))
    case("norms", lambda a: (L.matrix_norm(a, "nuc"), L.matrix_norm(a, 2), L.matrix_norm(a, 1), L.cond(a), L.cond(a, 1), L.cond(a, "nuc")), well(2, 2))
    eigen = lambda w, v: ((v * w.unsqueeze(-2)) @ L.inv(v), v.abs().square().sum(-2), w.real.sort()[0], w.abs().sort()[0])
    case("eig", lambda a: (*eigen(*L.eig(a)), L.eigvals(a).sum(-1)), z(2, 2, 2))
    case("eig_real", lambda a: (*eigen(*L.eig(a)), L.eigvals(a[0])), (lambda a: a - a.mT + torch.diag(torch.arange(1.0, 4)))(r(2, 3, 3)))
    case("empty", lambda a: (L.inv(a), L.det(a), *L.eigh(a), *L.eig(a), *L.svd(a[..., :0, :])), torch.zeros(2, 0, 0, 2))
