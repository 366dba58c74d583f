"""Workloads of classes that the other lists leave out: recurrent layers, transforms, small matrices, float64, float32 attention, detection, sampling of
text, signal processing, statistics. W maps a name to a function that gives (module, inputs) where torch.device says; `sweep.py --workloads` measures them."""
import torch
import torch.nn as nn
import torch.nn.functional as F

from function_module import Fn

BF16, F16, F32, F64, C64 = torch.bfloat16, torch.float16, torch.float32, torch.float64, torch.complex64
W = {}


def workload(name, f, *inputs):
    """`f` is a function of the inputs, or makes nothing and is called first: a module's maker."""
    def make():
        module = f() if isinstance(f, type(lambda: 0)) and f.__code__.co_argcount == 0 else Fn(f)
        return module.eval(), tuple(one() for one in inputs)
    W[name] = make


def r(*shape, dtype=F32):
    return lambda: torch.randn(*shape).to(dtype)


def ints(high, *shape, dtype=torch.int64):
    return lambda: torch.randint(0, high, shape).to(dtype)


def positive(*shape, dtype=F32):
    """Symmetric positive definite matrices."""
    def make():
        x = torch.randn(*shape).to(dtype)
        return x @ x.mT + shape[-1] * torch.eye(shape[-1]).to(dtype)
    return make


def invertible(*shape, dtype=F32):
    return lambda: torch.randn(*shape).to(dtype) + 4 * torch.eye(shape[-1]).to(dtype)


class Layer(nn.Module):
    """A recurrent layer whose result is its sequence and its last state."""

    def __init__(self, kind, dtype, *sizes, **options):
        super().__init__()
        self.layer = kind(*sizes, **options).to(dtype)

    def forward(self, x):
        return self.layer(x)


class SelfAttention(nn.Module):
    def __init__(self, attention):
        super().__init__()
        self.attention = attention

    def forward(self, x):
        return self.attention(x, x, x)


# Recurrent layers.
workload("lstm_six_layers", lambda: Layer(nn.LSTM, F32, 128, 256, 6, batch_first=True), r(10, 512, 128))
workload("lstm_f16_512", lambda: Layer(nn.LSTM, F16, 512, 512, 2), r(128, 64, 512, dtype=F16))
workload("gru_256", lambda: Layer(nn.GRU, F32, 80, 256, batch_first=True), r(32, 200, 80))
workload("gru_f16_1024", lambda: Layer(nn.GRU, F16, 1024, 1024), r(100, 16, 1024, dtype=F16))
workload("lstm_two_directions", lambda: Layer(nn.LSTM, F32, 300, 256, bidirectional=True, batch_first=True), r(32, 50, 300))
workload("rnn_tanh", lambda: Layer(nn.RNN, F32, 64, 128), r(150, 64, 64))
workload("lstm_one_step", lambda: Layer(nn.LSTM, F16, 1024, 1024, 2), r(1, 4, 1024, dtype=F16))
workload("lstm_projection", lambda: Layer(nn.LSTM, F32, 128, 512, proj_size=128), r(80, 16, 128))

# Fourier transforms and signals.
workload("rfft_rows", lambda x: torch.view_as_real(torch.fft.rfft(x)), r(4096, 1024))
workload("fft_prime", lambda x: torch.view_as_real(torch.fft.fft(x)), r(1000, 1009))
workload("spectral_conv", lambda x, w: torch.fft.irfft2(torch.einsum("bixy,ioxy->boxy", torch.fft.rfft2(x)[:, :, :16, :16], torch.view_as_complex(w)), s=(128, 128)), r(16, 32, 128, 128), r(32, 32, 16, 16, 2))
workload("log_mel", lambda x, w, m: torch.log(m @ torch.stft(x, 400, 160, window=w, return_complex=True).abs().square() + 1e-6), r(16, 160000), lambda: torch.hann_window(400), r(80, 201))
workload("long_convolution", lambda x, k: torch.fft.irfft(torch.fft.rfft(x, n=8192) * torch.fft.rfft(k, n=8192), n=8192)[..., :4096], r(8, 256, 4096), r(256, 4096))
workload("rotary_complex", lambda x, f: torch.view_as_real(torch.view_as_complex(x.float().unflatten(-1, (-1, 2))) * torch.view_as_complex(f)).flatten(3).type_as(x), r(4, 2048, 32, 128, dtype=BF16), r(2048, 1, 64, 2))
workload("complex_product", lambda a, b: torch.view_as_real(torch.view_as_complex(a) @ torch.view_as_complex(b)), r(1024, 1024, 2), r(1024, 1024, 2))

# Small matrices in batches, and larger ones.
workload("inverse_4", lambda x: torch.linalg.inv(x), invertible(100000, 4, 4))
workload("determinant_3", lambda x: torch.linalg.det(x), r(200000, 3, 3))
workload("solve_6", lambda a, b: torch.linalg.solve(a, b), invertible(20000, 6, 6), r(20000, 6, 1))
workload("cholesky_16", lambda x: torch.linalg.cholesky(x), positive(4096, 16, 16))
workload("eigh_3", lambda x: torch.linalg.eigvalsh(x), positive(50000, 3, 3))
workload("svd_3", lambda x: torch.linalg.svdvals(x), r(10000, 3, 3))
workload("qr_8", lambda x: torch.linalg.qr(x)[1].abs(), r(1000, 8, 8))
workload("inverse_64", lambda x: torch.linalg.inv(x), invertible(512, 64, 64))
workload("cholesky_solve_32", lambda a, b: torch.cholesky_solve(b, torch.linalg.cholesky(a)), positive(1024, 32, 32), r(1024, 32, 4))
workload("triangular_128", lambda a, b: torch.linalg.solve_triangular(a.tril(), b, upper=False), positive(64, 128, 128), r(64, 128, 32))
workload("slogdet_10_f64", lambda x: tuple(torch.linalg.slogdet(x)), positive(10000, 10, 10, dtype=F64))
workload("matrix_exp_3", lambda x: torch.linalg.matrix_exp(x), r(10000, 3, 3))
workload("solve_1000", lambda a, b: torch.linalg.solve(a, b), invertible(1000, 1000), r(1000, 10))
workload("cholesky_2048", lambda x: torch.linalg.cholesky(x), positive(2048, 2048))

# float64.
workload("product_f64", lambda a, b: a @ b, r(1024, 1024, dtype=F64), r(1024, 1024, dtype=F64))
workload("batch_f64", lambda a, b: a @ b, r(512, 33, 65, dtype=F64), r(512, 65, 31, dtype=F64))
workload("conv_f64", lambda x, w: F.conv2d(x, w, padding=1), r(8, 32, 64, 64, dtype=F64), r(32, 32, 3, 3, dtype=F64))
workload("layer_norm_f64", lambda x, w, b: F.layer_norm(x, (1000,), w, b), r(10000, 1000, dtype=F64), r(1000, dtype=F64), r(1000, dtype=F64))

# Attention that is not of 16 bits, or deep.
workload("attention_f32", lambda q, k, v: F.scaled_dot_product_attention(q, k, v), r(8, 12, 1024, 64), r(8, 12, 1024, 64), r(8, 12, 1024, 64))
workload("attention_f32_causal", lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True), r(4, 16, 2048, 64), r(4, 16, 2048, 64), r(4, 16, 2048, 64))
workload("attention_deep", lambda q, k, v: F.scaled_dot_product_attention(q, k, v), r(2, 1, 4096, 512, dtype=F16), r(2, 1, 4096, 512, dtype=F16), r(2, 1, 4096, 512, dtype=F16))
workload("attention_deep_f32", lambda q, k, v: F.scaled_dot_product_attention(q, k, v), r(1, 1, 4096, 512), r(1, 1, 4096, 512), r(1, 1, 4096, 512))
workload("attention_by_hand_f32", lambda q, k, v: ((q @ k.mT) * 0.125).softmax(-1) @ v, r(4, 12, 577, 64), r(4, 12, 577, 64), r(4, 12, 577, 64))
workload("cross_attention_bool", lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, m), r(8, 8, 4096, 40, dtype=F16), r(8, 8, 77, 40, dtype=F16), r(8, 8, 77, 40, dtype=F16), lambda: torch.rand(8, 1, 1, 77) < 0.8)
workload("encoder_layer", lambda: nn.TransformerEncoderLayer(512, 8, 2048, batch_first=True), r(32, 200, 512))
workload("multihead_weights", lambda: SelfAttention(nn.MultiheadAttention(256, 8, batch_first=True)), r(16, 300, 256))
workload("linear_attention", lambda q, k, v: torch.einsum("bhnd,bhde->bhne", F.elu(q) + 1, torch.einsum("bhnd,bhne->bhde", F.elu(k) + 1, v)), r(4, 8, 4096, 64, dtype=BF16), r(4, 8, 4096, 64, dtype=BF16), r(4, 8, 4096, 64, dtype=BF16))


# Looking up, counting, sets.
workload("searchsorted", lambda s, v: torch.searchsorted(s, v), lambda: torch.randn(100003).sort()[0], r(1000003))
workload("searchsorted_rows", lambda s, v: torch.searchsorted(s, v), lambda: torch.randn(4096, 129).sort()[0], r(4096, 256))
workload("bucketize", lambda v, s: torch.bucketize(v, s), r(8, 1000003), lambda: torch.randn(255).sort()[0])
workload("isin", lambda x, y: torch.isin(x, y), ints(100000, 1000003), ints(100000, 1009))
workload("cdist_3", lambda a, b: torch.cdist(a, b), r(8, 2048, 3), r(8, 2048, 3))
workload("cdist_128", lambda a, b: torch.cdist(a, b), r(5000, 128), r(3000, 128))
workload("cdist_l1", lambda a, b: torch.cdist(a, b, p=1.0), r(2000, 64), r(1500, 64))
workload("neighbours_16", lambda a: tuple(torch.cdist(a, a).topk(16, largest=False)), r(8, 2048, 3))
workload("farthest_point", lambda x, c: (x - c).square().sum(-1).argmax(-1), r(64, 20000, 3), r(64, 1, 3))
workload("mode_rows", lambda x: torch.mode(x, -1)[0], ints(50, 1000, 1000))
workload("histogram_rows", lambda x: torch.zeros(64, 256, dtype=torch.int64, device=x.device).scatter_add_(1, x, torch.ones_like(x)), ints(256, 64, 65536))
workload("covariance", lambda x: (x - x.mean(1, keepdim=True)) @ (x - x.mean(1, keepdim=True)).mT / 19999, r(512, 20000))
workload("nearest_code", lambda x, c: torch.argmin(x.square().sum(-1, keepdim=True) - 2 * x @ c.mT + c.square().sum(-1), -1), r(32768, 64), r(1024, 64))

# Text.
workload("top_p", lambda x: torch.where((s := x.softmax(-1).sort(-1, descending=True))[0].cumsum(-1) - s[0] < 0.9, s[0], 0), r(32, 50257))
workload("repetition_penalty", lambda x, i: x.scatter(1, i, torch.where((g := x.gather(1, i)) < 0, g * 1.2, g / 1.2)), r(64, 128256), ints(128256, 64, 2048))
workload("beam_search", lambda x, s: tuple((x.log_softmax(-1) + s).flatten(1).topk(8)), r(16, 4, 50257), r(16, 4, 1))
workload("bag_mean", lambda w, i, o: F.embedding_bag(i, w, o, mode="mean"), r(100003, 64), ints(100003, 200000), lambda: torch.arange(0, 200000, 20))
workload("experts_gshard", lambda x, g, w: torch.einsum("etm,et->tm", torch.einsum("tm,emn->etn", x, w), (x @ g).softmax(-1).topk(2, -1)[0].sum(-1).expand(8, -1)), r(2048, 512, dtype=BF16), r(512, 8, dtype=BF16), r(8, 512, 512, dtype=BF16))
workload("tied_logits", lambda x, w, t: F.cross_entropy(x @ w.mT, t), r(4096, 1024, dtype=BF16), r(32003, 1024, dtype=BF16), ints(32003, 4096))
workload("segments_max", lambda x, i: torch.full((10000, 128), -1e30, device=x.device).scatter_reduce(0, i[:, None].expand(-1, 128), x, "amax"), r(200000, 128), lambda: torch.randint(0, 10000, (200000,)).sort()[0])
workload("graph_convolution", lambda x, e, w: torch.zeros(50000, 64, device=x.device).index_add(0, e[1], (x @ w)[e[0]]), r(50000, 128), ints(50000, 2, 600000), r(128, 64))
workload("graph_attention", lambda x, e, a: ((s := torch.exp(F.leaky_relu((x @ a)[e[0]] + (x @ a)[e[1]]))) / torch.zeros(20000, 4, device=x.device).index_add(0, e[1], s)[e[1]]), r(20000, 64), ints(20000, 2, 300000), r(64, 4))

# Images.
workload("antialias", lambda x: F.interpolate(x, (224, 224), mode="bicubic", antialias=True), r(16, 3, 640, 480))
workload("antialias_up", lambda x: F.interpolate(x, (300, 300), mode="bilinear", antialias=True), r(32, 3, 224, 224))
workload("image_bytes", lambda x, m, s: ((x.permute(0, 3, 1, 2).float() / 255 - m) / s).half(), ints(256, 32, 480, 640, 3, dtype=torch.uint8), r(3, 1, 1), lambda: torch.rand(3, 1, 1) + 0.5)
workload("crop_resize", lambda x: F.interpolate(x[..., 16:464, 11:501].float(), (256, 256), mode="bilinear"), ints(256, 16, 3, 480, 640, dtype=torch.uint8))
workload("warp_3d", lambda x, t: F.grid_sample(x, F.affine_grid(t, x.shape, False), align_corners=False), r(2, 4, 96, 96, 96), lambda: torch.eye(3, 4).expand(2, 3, 4) + 0.1 * torch.randn(2, 3, 4))
workload("unfold_patches", lambda x: F.unfold(x, 3, padding=1), r(16, 64, 56, 56, dtype=F16))
workload("fold_patches", lambda x: F.fold(x, (112, 112), 4, stride=2, padding=1), r(16, 512, 3136, dtype=F16))
workload("max_unpool", lambda x: F.max_unpool2d(*F.max_pool2d(x, 2, return_indices=True), 2), r(16, 64, 112, 112))
workload("local_response_norm", lambda x: F.local_response_norm(x, 5), r(32, 96, 55, 55))
workload("lp_pool", lambda x: F.lp_pool2d(x, 2, 3, 2), r(16, 64, 112, 112))
workload("adaptive_max_3d", lambda x: F.adaptive_max_pool3d(x, (4, 7, 7)), r(8, 64, 16, 28, 28))
workload("sobel", lambda x, k: F.conv2d(x, k, padding=1).square().sum(1).sqrt(), r(32, 1, 512, 512), r(2, 1, 3, 3))
workload("gaussian_blur", lambda x, k: F.conv2d(F.pad(x, (5, 5, 5, 5), mode="reflect"), k.expand(3, 1, 11, 11), groups=3), r(16, 3, 512, 512), r(1, 1, 11, 11))
workload("median_filter", lambda x: F.unfold(x, 3, padding=1).median(1)[0], r(16, 1, 256, 256))
workload("ssim", lambda x, y: ((2 * F.avg_pool2d(x, 7, 1) * F.avg_pool2d(y, 7, 1) + 1e-4) * (2 * (F.avg_pool2d(x * y, 7, 1) - F.avg_pool2d(x, 7, 1) * F.avg_pool2d(y, 7, 1)) + 9e-4)).mean((1, 2, 3)), r(8, 3, 384, 512), r(8, 3, 384, 512))
workload("box_iou", lambda a, b: ((w := (torch.min(a[:, None, 2:], b[:, 2:]) - torch.max(a[:, None, :2], b[:, :2])).clamp(min=0)).prod(-1)), r(4000, 4), r(3000, 4))
workload("patch_norm", lambda x, w: F.instance_norm(F.conv2d(x, w, stride=16)), r(16, 3, 256, 256), r(256, 3, 16, 16))
workload("weight_standard", lambda x, w: F.conv2d(x, (w - w.mean((1, 2, 3), keepdim=True)) / (w.std((1, 2, 3), keepdim=True) + 1e-5), padding=1), r(16, 128, 28, 28, dtype=F16), r(128, 128, 3, 3, dtype=F16))

# Recurrences, statistics, algebra of tensors.
workload("einsum_three", lambda a, b, c: torch.einsum("bij,bjk,bkl->bil", a, b, c), r(64, 100, 200), r(64, 200, 50), r(64, 50, 300))
workload("bilinear_form", lambda x, y, w: torch.einsum("bi,oij,bj->bo", x, w, y), r(1024, 64), r(1024, 64), r(32, 64, 64))
workload("outer_sums", lambda x, y: torch.einsum("bi,bj->ij", x, y), r(20000, 100), r(20000, 120))
workload("kron", lambda a, b: torch.kron(a, b), r(64, 64), r(64, 64))
workload("triangle_update", lambda a, b: torch.einsum("bikc,bjkc->bijc", a, b), r(1, 256, 256, 128, dtype=BF16), r(1, 256, 256, 128, dtype=BF16))
workload("outer_product_mean", lambda a, b: torch.einsum("bsic,bsjd->bijcd", a, b).flatten(3), r(1, 128, 128, 32, dtype=BF16), r(1, 128, 128, 32, dtype=BF16))
workload("integers_sum", lambda x: (x.sum(0), x.amax(1)), ints(127, 10007, 3001, dtype=torch.int8))
workload("differences", lambda x: (torch.diff(x), torch.trapezoid(x, dx=0.1)), r(5000, 4001))
workload("moving_average", lambda x: x.unfold(-1, 25, 1).mean(-1), r(256, 20000))
workload("exponential_average", lambda x: (x * 0.99 ** torch.arange(1000, 0, -1, device=x.device)).cumsum(-1), r(4096, 1000))
workload("selective_state", lambda d, b, x: torch.cumsum(torch.exp(d.cumsum(1))[..., None] * b[:, :, None] * x[..., None], 1).sum(-1), lambda: -0.01 * torch.rand(4, 512, 256), r(4, 512, 16), r(4, 512, 256))
workload("polynomial", lambda x: ((((0.1 * x + 0.2) * x - 0.3) * x + 0.4) * x - 0.5) * x + 1, r(30000001))
workload("special", lambda x: torch.lgamma(x.abs() + 1) + torch.digamma(x.abs() + 1) + torch.erfinv(x.tanh()), r(4000003))
workload("bits", lambda x: ((x >> torch.arange(8, device=x.device)) & 1).to(torch.float16), ints(256, 500009, 1, dtype=torch.int32))
workload("bool_mask", lambda m, x: (x.masked_fill(~m, 0).sum(-1) / m.sum(-1).clamp(min=1), m.any(0)), lambda: torch.rand(20000, 1000) < 0.3, r(20000, 1000))
workload("pairwise", lambda x: (x[:, None] - x[None]).abs().mean(-1), r(1500, 64))
workload("distances_masked", lambda x, m: torch.where(m, (x[:, :, None] - x[:, None]).norm(dim=-1), 0), r(16, 500, 3), lambda: torch.rand(16, 500, 500) < 0.5)
workload("quaternions", lambda q, v: v + 2 * torch.cross(q[:, :3], torch.cross(q[:, :3], v, dim=-1) + q[:, 3:] * v, dim=-1), r(1000003, 4), r(1000003, 3))
workload("gaussians", lambda m, s, x: torch.exp(-0.5 * ((x[:, None] - m) / s).square().sum(-1)) @ torch.ones(256, 4, device=x.device), r(256, 3), lambda: torch.rand(256, 3) + 0.5, r(30000, 3))
workload("spherical_harmonics", lambda c, d: (c * torch.stack((torch.ones_like(d[:, 0]), -d[:, 1], d[:, 2], -d[:, 0], d[:, 0] * d[:, 1], d[:, 1] * d[:, 2], 3 * d[:, 2] ** 2 - 1, d[:, 0] * d[:, 2], d[:, 0] ** 2 - d[:, 1] ** 2), -1)[:, None]).sum(-1).clamp(min=0), r(500003, 3, 9), r(500003, 3))
workload("positional_encoding", lambda x: torch.cat([x] + [f(x * 2.0 ** i) for i in range(10) for f in (torch.sin, torch.cos)], -1), r(200003, 3))
workload("volume_rendering", lambda s, c: ((w := (a := 1 - torch.exp(-F.relu(s))) * torch.cumprod(torch.cat((torch.ones_like(a[:, :1]), 1 - a + 1e-10), -1), -1)[:, :-1])[..., None] * c).sum(1), r(8192, 192), r(8192, 192, 3))
workload("mlp_small", lambda: nn.Sequential(nn.Linear(63, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 4)), r(262144, 63))
workload("factorization", lambda u, v, e: ((u[e[0]] * v[e[1]]).sum(-1)).sigmoid(), r(200000, 64), r(100000, 64), ints(100000, 2, 500000))
workload("field_interactions", lambda x: torch.bmm(x, x.mT)[:, torch.triu_indices(27, 27, 1)[0], torch.triu_indices(27, 27, 1)[1]], r(8192, 27, 64))
workload("deep_cross", lambda x, w, b: x * (x @ w + b) + x, r(16384, 429), r(429, 429), r(429))
workload("rotations", lambda a, b: a @ b, r(100000, 3, 3), r(100000, 3, 3))
workload("poses", lambda a, b: a @ b, r(200000, 4, 4), r(200000, 4, 1))
workload("points_turned", lambda a, x, t: torch.einsum("bij,bnj->bni", a, x) + t[:, None], r(64, 3, 3), r(64, 5000, 3), r(64, 3))
workload("colours_mixed", lambda x, w: x @ w + 1, r(1000000, 3), r(3, 3))
workload("small_halves", lambda a, b: (a @ b).relu(), r(50000, 6, 6, dtype=F16), r(50000, 6, 6, dtype=F16))
workload("isin_many", lambda x, y: torch.isin(x, y), ints(1 << 30, 1000003), ints(1 << 30, 100003))

# Written after the kernels above had been worked on, and before these were measured: what nobody tuned for.
workload("n_lstm_bf16_both_ways", lambda: Layer(nn.LSTM, BF16, 256, 256, bidirectional=True, batch_first=True), r(64, 256, 256, dtype=BF16))
workload("n_gru_512", lambda: Layer(nn.GRU, F32, 128, 512), r(300, 8, 128))
workload("n_rnn_relu_many", lambda: Layer(nn.RNN, F32, 32, 64, nonlinearity="relu"), r(64, 256, 32))
workload("n_lstm_one_row", lambda: Layer(nn.LSTM, F32, 40, 128), r(1000, 1, 40))
workload("n_lstm_odd_f16", lambda: Layer(nn.LSTM, F16, 100, 300), r(60, 20, 100, dtype=F16))
workload("n_gru_large_f16", lambda: Layer(nn.GRU, F16, 512, 1536), r(50, 32, 512, dtype=F16))
workload("n_inverse_10", lambda x: torch.linalg.inv(x), invertible(5000, 10, 10))
workload("n_cholesky_5", lambda x: torch.linalg.cholesky(x), positive(100000, 5, 5))
workload("n_solve_24", lambda a, b: torch.linalg.solve(a, b), invertible(2000, 24, 24), r(2000, 24, 8))
workload("n_lu_48", lambda x: torch.linalg.lu_factor(x)[0], invertible(256, 48, 48))
workload("n_eigh_12", lambda x: torch.linalg.eigh(x)[1].abs(), positive(2000, 12, 12))
workload("n_svd_6_4", lambda x: torch.linalg.svd(x, full_matrices=False)[2].abs(), r(5000, 6, 4))
workload("n_determinant_2", lambda x: torch.linalg.det(x), r(1000003, 2, 2))
workload("n_solve_complex_16", lambda a, b: torch.view_as_real(torch.linalg.solve(torch.view_as_complex(a), torch.view_as_complex(b))), lambda: torch.randn(500, 16, 16, 2) + 4 * torch.eye(16)[..., None], r(500, 16, 3, 2))
workload("n_qr_20_10", lambda x: torch.linalg.qr(x)[1].abs(), r(2000, 20, 10))
workload("n_kalman", lambda f, p, q, h: (lambda s: torch.linalg.solve(h @ s @ h.mT + torch.eye(2, device=s.device), h @ s))(f @ p @ f.mT + q), r(20000, 6, 6), positive(20000, 6, 6), r(6, 6), r(20000, 2, 6))
workload("n_ifft2", lambda x: torch.view_as_real(torch.fft.ifft2(torch.view_as_complex(x))), r(32, 256, 256, 2))
workload("n_spectrogram", lambda x, w: torch.stft(x, 1024, 256, window=w, return_complex=True).abs(), r(8, 480000), lambda: torch.hann_window(1024))
workload("n_complex_batch", lambda a, b: torch.view_as_real(torch.view_as_complex(a) @ torch.view_as_complex(b)), r(64, 96, 96, 2), r(64, 96, 96, 2))
workload("n_attention_f32_mask", lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, m), r(8, 8, 512, 64), r(8, 8, 512, 64), r(8, 8, 512, 64), lambda: torch.rand(8, 1, 512, 512) < 0.7)
workload("n_attention_f32_128", lambda q, k, v: F.scaled_dot_product_attention(q, k, v), r(2, 8, 1024, 128), r(2, 8, 1024, 128), r(2, 8, 1024, 128))
workload("n_searchsorted_i64", lambda s, v: torch.searchsorted(s, v, right=True), lambda: torch.randint(0, 1 << 40, (1000003,)).sort()[0], ints(1 << 40, 2000003))
workload("n_digitize_f16", lambda v, s: torch.bucketize(v, s, out_int32=True), r(10000019, dtype=F16), lambda: torch.randn(31).half().sort()[0])
workload("n_isin_i32", lambda x, y: torch.isin(x, y, invert=True), ints(1 << 20, 500, 4001, dtype=torch.int32), ints(1 << 20, 5003, dtype=torch.int32))
workload("n_cdist_50", lambda a, b: torch.cdist(a, b), r(4, 1000, 50), r(4, 900, 50))
workload("n_cdist_most", lambda a, b: torch.cdist(a, b, p=float("inf")), r(1500, 48), r(1400, 48))
workload("n_scores_bf16", lambda u, v, i, j: (u[i] * v[j]).sum(-1), r(100003, 128, dtype=BF16), r(50021, 128, dtype=BF16), ints(100003, 300007), ints(50021, 300007))
workload("n_neighbours_summed", lambda x, i, w: (x[i] * w[..., None]).sum(1), r(50000, 64), ints(50000, 50000, 16), r(50000, 16))
workload("n_bag_bf16", lambda w, i, o: F.embedding_bag(i, w, o, mode="sum"), r(200003, 128, dtype=BF16), ints(200003, 150000), lambda: torch.randint(0, 12, (24000,)).cumsum(0))
workload("n_bag_weights", lambda w, i, o, p: F.embedding_bag(i, w, o, mode="sum", per_sample_weights=p), r(50021, 64), ints(50021, 100000), lambda: torch.arange(0, 100000, 10), r(100000))
workload("n_image_f32", lambda x, m, s: (x.float() / 255 - m) / s, ints(256, 16, 512, 512, 3, dtype=torch.uint8), r(3), lambda: torch.rand(3) + 0.5)
workload("n_grey", lambda x, w: (x.float() @ w).to(torch.uint8), ints(256, 16, 512, 512, 3, dtype=torch.uint8), lambda: torch.tensor([0.299, 0.587, 0.114]))
workload("n_colour_space", lambda x, w: (x.float() @ w + 16).clamp(0, 255).to(torch.uint8), ints(256, 16, 512, 512, 3, dtype=torch.uint8), r(3, 3))
workload("n_homography", lambda p, h: (lambda q: q[..., :2] / q[..., 2:])(p @ h.mT), r(64, 20000, 3), r(64, 3, 3))
workload("n_skinning", lambda w, t, v: torch.einsum("bvxy,bvy->bvx", torch.einsum("bvj,bjxy->bvxy", w, t), v), r(16, 6890, 24), r(16, 24, 4, 4), r(16, 6890, 4))
workload("n_kabsch", lambda a, b: torch.einsum("bni,bnj->bij", a - a.mean(1, keepdim=True), b - b.mean(1, keepdim=True)), r(1024, 1000, 3), r(1024, 1000, 3))
workload("n_moments", lambda x: torch.einsum("bni,bnj->bij", x, x), r(4096, 200, 8))
workload("n_truncated_normal", lambda u: torch.erfinv(2 * u - 1) * 1.4142135, lambda: torch.rand(20000003))
workload("n_quantiles", lambda u: torch.special.ndtri(u) + torch.logit(u), lambda: torch.rand(8000009) * 0.98 + 0.01)
workload("n_polygamma", lambda x: torch.polygamma(1, x.abs() + 0.5), r(4000037))
workload("n_characteristic", lambda x, t: torch.view_as_real(torch.exp(1j * x[:, None] * t).mean(0)), r(20000), r(256))
workload("n_bool_votes", lambda m: (m.sum(-1, dtype=torch.int32) > 500, m.all(0)), lambda: torch.rand(30011, 1009) < 0.5)
workload("n_small_linear", lambda x, w, b: F.relu(F.linear(x, w, b)), r(2000003, 5), r(7, 5), r(7))
workload("n_affine_rows", lambda x, a, b: torch.baddbmm(b, x, a), r(5000, 40, 4), r(5000, 4, 4), r(5000, 40, 4))
