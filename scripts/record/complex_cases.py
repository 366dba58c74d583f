"""Cases of complex numbers and of Fourier transforms. Most take the parts and give the parts, so that a float64 reference exists;
some have complex inputs and outputs. operator_cases.py calls add(family), which registers them with it."""
import torch
import torch.nn.functional as F

Z = torch.view_as_complex


def P(x):
    return torch.view_as_real(x.resolve_conj())


def complex(c):
    r = c.randn
    z = lambda *shape, scale=1.0: r(*shape, 2, scale=scale)
    numbers = lambda *shape: torch.complex(r(*shape), r(*shape))
    unary = ["neg", "reciprocal", "sqrt", "rsqrt", "exp", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "sinh", "cosh",
             "tanh", "asin", "acos", "atan", "asinh", "acosh", "atanh", "sigmoid", "sgn", "square", "exp2", "expm1"]
    for name in unary:
        c.case(name, lambda x, f=getattr(torch, name): P(f(Z(x))), z(3, 7))
    c.case("silu", lambda x: P(F.silu(Z(x))), z(5))
    parts = lambda *values: torch.tensor(values)
    on_axes = parts((0.0, 0.0), (-1.0, 0.0), (-1.0, -0.0), (4.0, 0.0), (0.0, 2.0), (0.0, -2.0), (-4.0, 1e-3), (1e-3, 1e-3), (25.0, 1.0), (0.5, 0.0))
    c.case("axes", lambda x: [P(torch.sqrt(Z(x))), P(torch.sgn(Z(x))), torch.angle(Z(x)), Z(x).abs(), P(torch.tanh(Z(x)))], on_axes)
    c.case("cuts", lambda x: [P(f(Z(x))) for f in (torch.asin, torch.acos, torch.acosh, torch.asinh, torch.log)],
           parts((2.0, 0.0), (-2.0, 0.0), (2.0, 0.5), (-2.0, 0.5), (0.5, 0.0), (-0.5, 0.25), (3.0, -1.0)))
    c.case("large", lambda x: [Z(x).abs(), P(torch.sqrt(Z(x)))], parts((3e38, 1e38), (1e30, -2e30), (1e-30, 1e-30)))
    c.case("tests", lambda x: [torch.isnan(Z(x)), torch.isinf(Z(x)), torch.isfinite(Z(x)), torch.isreal(Z(x)), Z(x) == 1, Z(x) != Z(x).conj(), torch.logical_not(Z(x)),
                               Z(x).bool(), torch.logical_and(Z(x), Z(x).real), Z(x).any(), Z(x).all()],
           parts((1.0, 0.0), (0.0, 0.0), (float("nan"), 0.0), (0.0, float("inf")), (3e38, 3e38), (2.0, -1.0)))
    c.case("binary", lambda x, y: [P(Z(x) + Z(y)), P(Z(x) - Z(y)), P(Z(x) * Z(y)), P(Z(x) / Z(y)), P(Z(x) ** Z(y))], z(4, 5), z(5, scale=0.5))
    c.case("with_real", lambda x, y: [P(Z(x) + y), P(y - Z(x)), P(Z(x) * y), P(y / Z(x)), P(Z(x) / y)], z(4, 5), r(4, 1, positive=True))
    c.case("with_numbers", lambda x: [P(Z(x) * (2 - 1j)), P((1 + 2j) - Z(x)), P(Z(x) / 2j), P(3 / Z(x)), P(x * 1j), P(Z(x) + 1), P(torch.add(Z(x), Z(x), alpha=1j))], z(6))
    c.case("powers", lambda x: [P(Z(x) ** p) for p in (0, 1, 2, 3, -1, -2, 0.5, 2.5, 1 - 2j)] + [P(2.0 ** Z(x)), P((1 + 1j) ** Z(x))], z(5))
    c.case("addcmul", lambda x, y: [P(torch.addcmul(Z(x), Z(x), Z(y), value=2)), P(torch.addcdiv(Z(x), Z(x), Z(y))), P(torch.lerp(Z(x), Z(y), 0.25))], z(3, 4), z(3, 4))
    c.case("parts", lambda x: [Z(x).real + Z(x).imag, torch.angle(Z(x)), P(Z(x).conj()), P(torch.conj_physical(Z(x))), Z(x).conj().imag.resolve_neg(), P(Z(x).mH), P(Z(x).conj().resolve_conj())], z(3, 4))
    c.case("made", lambda a, b: [P(torch.complex(a, b)), P(torch.polar(a.abs(), b)), torch.angle(a)], r(3, 5), r(3, 5))
    c.case("casts", lambda x, y: [Z(x).to(torch.complex128).imag, P(y.to(torch.complex64)), P(torch.full_like(Z(x), 1 - 2j)), P(torch.zeros_like(Z(x)) + y)], z(4), r(4))
    c.case("choice", lambda x, y, m: [P(torch.where(m, Z(x), Z(y))), P(torch.where(m, Z(x), 1.0)), P(Z(x).masked_fill(m, 2j)), P(torch.tril(Z(x)))], z(4, 5), z(4, 5), c.bools(4, 5))
    gradients = torch.ops.aten
    c.case("picked_gradients", lambda g, h, d, i, m: [
        P(gradients.select_backward(Z(h), [3, 4, 5], 1, -2)), P(gradients.slice_backward(Z(g), [3, 9, 5], 1, 1, 100, 3)),
        P(gradients.diagonal_backward(Z(d), [4, 6], 1, 0, 1)), P(gradients.unfold_backward(Z(g), [3, 7], 1, 5, 1)), P(gradients.trace_backward(Z(d)[0], [3, 5])),
        P(gradients.index_select_backward(Z(h), [3, 6], 1, i)), P(gradients.gather_backward(Z(h)[:, :2], Z(h), 1, i.view(1, 5)[:, :2].expand(3, 2), False)),
        P(gradients.masked_select_backward(Z(d), Z(d)[None].expand(2, 4), m)), P(gradients.masked_scatter_backward(Z(d)[None].expand(2, 4), m, [4]))],
        z(3, 3, 5), z(3, 5), z(4), torch.tensor([1, 4, 1, 0, 2]), torch.tensor([[True, False, True, False], [False, True, True, False]]))
    c.case("sums", lambda x: [P(Z(x).sum()), P(Z(x).sum(1)), P(Z(x).mean(0)), P(Z(x).cumsum(1)), P(Z(x).prod(1)), P(Z(x).cumprod(0)), Z(x).var(1), Z(x).std(), P(torch.var_mean(Z(x), 0)[1])], z(5, 7))
    c.case("norms", lambda x: [Z(x).norm(), torch.linalg.vector_norm(Z(x), 3, 1), torch.linalg.vector_norm(Z(x), float("inf"), 0), torch.linalg.vector_norm(Z(x), 1)], z(5, 7))
    c.case("products", lambda x, y, b: [P(Z(x) @ Z(y)), P(torch.addmm(Z(b), Z(x), Z(y), beta=1j, alpha=2 - 1j)), P(F.linear(Z(x), Z(y).mT, Z(b)))], z(5, 7), z(7, 3), z(3))
    c.case("many_rows", lambda x, y, s: [P(Z(x) @ Z(y)), P(Z(x).conj() @ Z(y)), P(torch.addmm(Z(s), Z(x), Z(y)))], z(33, 5), z(5, 7), z(33, 7))
    c.case("many_rows_batched", lambda x, y: [P(torch.bmm(Z(x), Z(y))), P(torch.bmm(Z(y).mT, Z(x).mT))], z(2, 40, 3), z(2, 3, 37))
    c.case("batched", lambda x, y: [P(torch.bmm(Z(x), Z(y))), P(torch.einsum("bij,bjk->bki", Z(x), Z(y).conj()))], z(2, 5, 7), z(2, 7, 3))
    c.case("vectors", lambda x, y, m: [P(torch.dot(Z(x), Z(y))), P(torch.vdot(Z(x), Z(y))), P(torch.outer(Z(x), Z(y))), P(torch.mv(Z(m), Z(x)))], z(7), z(7), z(3, 7))
    c.case("convolution", lambda x, w, b: P(F.conv1d(Z(x), Z(w), Z(b), padding=1)), z(2, 3, 9), z(4, 3, 3), z(4))
    c.case("moves", lambda x: [P(t) for t in (Z(x).t(), Z(x).flip(0), Z(x).roll(2, 1), F.pad(Z(x), (1, 2), value=1.5), torch.cat([Z(x), Z(x).real], 1), Z(x)[1:, ::2],
                                              Z(x).reshape(-1), Z(x).diagonal(), Z(x)[None].expand(2, 4, 5), torch.stack([Z(x), -Z(x)]), Z(x).unfold(1, 3, 2))], z(4, 5))
    c.case("places", lambda x, i, s: [P(Z(x)[i]), P(Z(x).index_add(0, i, Z(s))), P(Z(x).index_put((i,), Z(s))), P(torch.gather(Z(x), 0, i[:, None].expand(3, 5)))], z(4, 5), torch.tensor([3, 0, 2]), z(3, 5))

    def writes(x):
        y = Z(x.clone())
        y.real.mul_(2)
        torch.view_as_real(y)[..., 1].add_(1)
        y[0] = 3 - 1j
        y.conj()[1:].mul_(1j)
        return P(y)
    c.case("writes", writes, z(4, 3))

    def rope(q, cis):
        pairs = Z(q.reshape(*q.shape[:-1], -1, 2))
        return P(pairs * cis[:, None]).flatten(-2).type_as(q)
    angles = torch.outer(torch.arange(6.0), 10000.0 ** -torch.arange(0, 1, 0.25))
    c.case("rope", lambda q: rope(q, torch.polar(torch.ones(6, 4), torch.outer(torch.arange(6.0), 10000.0 ** -torch.arange(0, 1, 0.25)))), r(2, 6, 3, 8))
    c.case("rope_of_input", rope, r(2, 6, 3, 8), torch.polar(torch.ones_like(angles), angles))
    c.case("rope_f16", lambda q, cis: rope(q.float(), cis).to(q.dtype), r(2, 6, 3, 8, dtype=torch.float16), torch.polar(torch.ones_like(angles), angles))
    c.case("border", lambda x, y: [x * y, x.t(), y, x.abs(), x.conj().resolve_conj()], numbers(3, 4), numbers(3, 4))
    c.case("border_0d", lambda x, y: [x * y, y + 1], numbers(), numbers(0, 3))
    c.case("border_c128", lambda x, y: [(x.to(torch.complex128) * 3j).imag, P(x) * y], numbers(3), r(3, 2))
    c.case("border_strided", lambda x: [x.permute(2, 0, 1).contiguous(memory_format=torch.contiguous_format).permute(1, 2, 0) * 2, x[:, 1:, ::2]], numbers(2, 3, 4))
    c.case("border_buffer", lambda m, x: [x * m.scale, m.scale.real], numbers(3, 4), buffers={"scale": numbers(4)})

    def updates(m, x):
        m.state.mul_(1j)
        m.state.add_(x)
        return m.state.abs()
    c.case("border_mutation", updates, numbers(4), buffers={"state": numbers(4)})

    def updates_input(x):
        x.mul_(2j)
        return x + 1
    c.case("border_input_mutation", updates_input, numbers(4))


def fft(c):
    r = c.randn
    z = lambda *shape: r(*shape, 2)
    numbers = lambda *shape: torch.complex(r(*shape), r(*shape))
    f = torch.fft
    Q = lambda x: P(x).flatten(-2)  # a spectrum is a row
    for n in (1, 2, 7, 60, 67, 130, 192):
        c.case(f"fft_{n}", lambda x: Q(f.fft(Z(x))), z(2, n))
    c.case("fft_prime", lambda x: Q(f.fft(Z(x))[..., ::37]), z(1031))
    c.case("rfft_long", lambda x: Q(f.rfft(x)[:, ::13]), r(2, 1024))
    c.case("irfft_long", lambda x: f.irfft(f.rfft(x))[:, ::11], r(2, 1000))
    for n in (1, 8, 9, 45):
        c.case(f"real_{n}", lambda x: [Q(f.rfft(x)), Q(f.fft(x)), Q(f.ifft(x)), Q(f.ihfft(x))], r(3, n))
    for n in (8, 9, 270):
        c.case(f"to_real_{n}", lambda x, n=n: [f.irfft(Z(x), n)[..., ::3], f.hfft(Z(x), n)[..., ::3]], z(2, n // 2 + 1))
    c.case("norms", lambda x: [Q(g(Z(x), norm=norm)) for norm in ("forward", "backward", "ortho") for g in (f.fft, f.ifft)], z(12))
    c.case("real_norms", lambda x: [g(x, norm=norm).abs() for norm in ("forward", "ortho") for g in (f.rfft, f.irfft, f.hfft, f.ihfft)], r(12))
    c.case("resized", lambda x: [Q(f.fft(Z(x), 9, 0)), Q(f.ifft(Z(x), 3, -1)), f.irfft(Z(x), dim=0), f.irfft(Z(x), 7)], z(5, 6))
    c.case("ints", lambda x: [Q(f.fft(x)), Q(f.rfft(x))], c.ints(3, 10))
    c.case("planes", lambda x: [Q(f.fft2(Z(x))), Q(f.ifft2(Z(x), norm="ortho")), Q(f.fftn(Z(x), (4, 5, 6))), Q(f.ifftn(Z(x), dim=(0, 2)))], z(3, 6, 5))
    c.case("real_planes", lambda x: [Q(f.rfft2(x)), f.irfft2(f.rfft2(x), (6, 5)), Q(f.rfftn(x)), f.irfftn(f.rfftn(x)), Q(f.fft2(x)), f.hfft2(f.ihfft2(x)), f.hfftn(f.fftn(x), dim=(0, 1)), Q(f.ihfftn(x))], r(3, 6, 8))
    c.case("shifts", lambda x, y: [f.fftshift(x), f.ifftshift(x), f.fftshift(x, 1), Q(f.fftshift(Z(y)))], r(4, 5), z(7))
    c.case("frequencies", lambda x: [x[:1] + f.fftfreq(9, 0.5), x[:1] + f.fftfreq(8), x[:1] + f.rfftfreq(9)], r(3))
    c.case("border", lambda x: [f.fft(x), f.ifft(x, dim=0), f.irfft(x)], numbers(4, 6))
    c.case("border_c128", lambda x: f.fft(x.to(torch.complex128)).abs(), numbers(10))
    hann = torch.hann_window(16)
    c.case("stft", lambda x, w: Q(torch.stft(x, 16, 4, window=w, return_complex=True)), r(2, 80), hann)
    c.case("stft_short_window", lambda x: Q(torch.stft(x, 16, 5, 10, normalized=True, center=False, onesided=False, return_complex=True)), r(70))
    c.case("stft_of_complex", lambda x, w: Q(torch.stft(Z(x), 16, 4, window=w, return_complex=True)), z(60), hann)
    c.case("istft", lambda x, w: [torch.istft(Z(x), 16, 4, window=w), torch.istft(Z(x), 16, 4, window=w, length=33), torch.istft(Z(x), 16, 4, window=w, normalized=True)], z(2, 9, 11), hann)
    c.case("istft_no_window", lambda x: torch.istft(Z(x), 12, 5, center=False, onesided=False), z(12, 6))

    def front_end(x, w, mel):
        spectrum = torch.stft(x, 64, 16, window=w, return_complex=True).abs().square()
        return (mel @ spectrum).clamp(min=1e-5).log()
    c.case("front_end", front_end, r(2, 400), torch.hann_window(64), r(8, 33, positive=True))
    # By a library: lengths of small factors, of a large prime, of two; several dimensions, one of them long; every normalization.
    for n in (81, 343, 1009, 2048):
        c.case(f"long_{n}", lambda x: [Q(f.fft(Z(x)))[..., ::7], Q(f.ifft(Z(x), norm="ortho"))[..., 1::7]], z(n))
        c.case(f"long_real_{n}", lambda x: [Q(f.rfft(x))[..., ::7], Q(f.fft(x, norm="forward"))[..., 1::7], Q(f.ihfft(x))[..., 2::7], Q(f.ifft(x))[..., 3::7]], r(n))
        c.case(f"long_to_real_{n}", lambda x, n=n: [f.irfft(Z(x), n)[..., ::7], f.hfft(Z(x), n, norm="ortho")[..., 1::7]], z(n // 2 + 1))
    c.case("long_planes", lambda x, y: [Q(f.fft2(Z(x)))[..., ::5], Q(f.fftn(Z(x), dim=(2, 0)))[..., ::5], Q(f.rfft2(y, norm="ortho"))[..., ::5], Q(f.rfftn(y, dim=(2, 1)))[..., ::5],
                                        f.irfft2(Z(x))[..., ::5], Q(f.ihfft2(y))[..., ::5], f.hfftn(Z(x), dim=(0, 1))[..., ::5]], z(2, 70, 6), r(2, 9, 130))
    c.case("long_front", lambda x: [Q(f.fft(Z(x), dim=0))[..., ::5], Q(f.fft(Z(x).permute(1, 2, 0)))[..., ::5]], z(66, 2, 3))
    c.case("many_dims", lambda x: [P(f.fftn(Z(x))).flatten()[::7], P(f.rfftn(Z(x).real)).flatten()[::7]], z(66, 2, 2, 3, 2))
    c.case("long_shared", lambda x: [f.irfft(Z(x))[..., ::5], f.irfft(Z(x), norm="ortho")[..., ::5], f.irfft(Z(x)[:, 1:])[..., ::5]], z(2, 90))
    c.case("long_f64", lambda x: Q(f.ifft(f.fft(Z(x.double()))))[..., ::7], z(300))
    c.case("long_stft", lambda x, w: [Q(torch.stft(x, 200, 80, window=w, return_complex=True))[..., ::7], torch.istft(torch.stft(x, 200, 80, window=w, return_complex=True), 200, 80, window=w)[:, ::7]], r(2, 900), torch.hann_window(200))
    c.case("filter", lambda x, w: f.irfft(f.rfft(x, 40) * f.rfft(w, 40), 40)[:, :33], r(2, 25), r(9))


def add(family):
    family(complex)
    family(fft)
