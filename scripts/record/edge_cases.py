"""Single operators at their edges: no elements, one element, NaN in an order, operands of several dtypes, results of a
fused 16-bit computation that something discontinuous reads. operator_cases.py calls add(family), which registers them."""
import math

import torch
import torch.nn.functional as F

aten = torch.ops.aten
NAN, BF16 = math.nan, torch.bfloat16


def spaces(c):
    whole, real = (torch.int64, torch.int32), (None, torch.float16, torch.float64)
    for steps in (0, 1, 2, 5):
        c.case(f"linspace_{steps}", lambda steps=steps: tuple(torch.linspace(-1.5, 7.9, steps, dtype=d) for d in real + whole))
        c.case(f"logspace_{steps}", lambda steps=steps: tuple(torch.logspace(-1.5, 3.2, steps, base=2.5, dtype=d) for d in real + whole))
    c.case("linspace_down_i8", lambda: torch.linspace(100, -100, 9, dtype=torch.int8))
    one, other = torch.tensor(-1.5), torch.tensor(7.5)
    for steps in (1, 6):
        c.case(f"linspace_tensors_{steps}", lambda a, b, steps=steps: torch.linspace(a, b, steps), one, other)
        c.case(f"linspace_tensor_number_{steps}", lambda a, steps=steps: torch.linspace(a, 3, steps), one)
        c.case(f"linspace_number_tensor_{steps}", lambda b, steps=steps: torch.linspace(2, b, steps, dtype=torch.int64), other)
        c.case(f"logspace_tensors_{steps}", lambda a, b, steps=steps: torch.logspace(a, b, steps, base=2.0), one, other)
    for name, bounds in {"": (0.5, 5.7, 1), "_step": (0.5, 5.7, 1.5), "_down": (5.7, 0.5, -1.5)}.items():
        c.case(f"arange_real{name}", lambda bounds=bounds: tuple(torch.arange(*bounds, dtype=d) for d in real + whole))


def mixed_dtypes(c):
    wide = lambda *s: c.randn(*s).double() * (1 + 1e-9)
    narrow = lambda *s: c.randn(*s, dtype=BF16, positive=True)
    c.case("xlogy_f64_bf16", torch.xlogy, wide(2, 7, 5), narrow(2, 1, 5))
    c.case("xlogy_bf16_f64", torch.xlogy, narrow(7, 5), wide(7, 5).abs())
    c.case("xlogy_f64_i64", torch.xlogy, wide(7), c.ints(7, low=1, high=9))
    c.case("logaddexp_f64_f32", torch.logaddexp, wide(7), c.randn(7))
    c.case("logaddexp2_f32_f64", torch.logaddexp2, c.randn(7), wide(7))
    c.case("add_alpha_f64_bf16", lambda a, b: torch.add(a, b, alpha=0.1), wide(7), narrow(7))
    c.case("sub_alpha_f64_i32", lambda a, b: torch.sub(a, b, alpha=0.3), wide(7), c.ints(7, dtype=torch.int32))
    c.case("add_alpha_i32_i8", lambda a, b: torch.add(a, b, alpha=100), c.ints(7, dtype=torch.int32), c.ints(7, dtype=torch.int8))
    c.case("addcmul_f64_bf16", lambda a, b, d: torch.addcmul(a, b, d, value=0.1), wide(7), narrow(7), narrow(7))
    c.case("addcmul_i32_i8", lambda a, b, d: torch.addcmul(a, b, d, value=3), c.ints(7, dtype=torch.int32), c.ints(7, low=50, high=100, dtype=torch.int8), c.ints(7, low=50, high=100, dtype=torch.int8))
    c.case("addcdiv_f64_f32", lambda a, b, d: torch.addcdiv(a, b, d, value=0.1), wide(7), c.randn(7), c.randn(7, positive=True))
    c.case("hardtanh_i64_real_bounds", lambda x: F.hardtanh(x, -1.5, 2.5), c.ints(9))
    c.case("addmv_i64_real_factors", lambda a, b, d: torch.addmv(a, b, d, alpha=2.5, beta=1.5), c.ints(3), c.ints(3, 4), c.ints(4))
    for short, dtype in {"f32": torch.float32, "bf16": BF16, "f64": torch.float64}.items():
        c.case(f"ldexp_{short}_i64", torch.ldexp, torch.tensor([0.71, -0.5, 0.0, 3.0, math.inf, NAN]).to(dtype), torch.tensor([3, -2, 2000, -130, -9, 1]))
        if dtype != torch.float64:
            c.case(f"ldexp_{short}_f32", torch.ldexp, torch.tensor([0.71, -0.5, 0.0]).to(dtype), torch.tensor([1.5, -2.0, 3.0]))
    c.case("ldexp_i64_i64", torch.ldexp, c.ints(5), c.ints(5))
    stepped = torch.tensor([0.5, -1.25, 0.0, 0.0, -0.0, 3.0, NAN, 1.0, -math.inf, 65280.0])
    toward = torch.tensor([2.0, 0.75, 1.0, -1.0, 0.0, 3.0, 1.0, NAN, 0.0, -1.0])
    for short, dtype in {"f32": torch.float32, "bf16": BF16, "f64": torch.float64}.items():
        after = lambda a, b, dtype=dtype: torch.nextafter(a.to(dtype), b.to(dtype))  # of its own dtype also where the reference is wider
        c.case(f"nextafter_{short}", lambda a, b, after=after: (after(a, b), after(b, a)), stepped.to(dtype), toward.to(dtype))
    a, b = c.bools(9), c.bools(9)
    names = ("lt", "le", "gt", "ge", "eq", "ne", "add", "mul", "maximum", "minimum")
    c.case("bools", lambda a, b: tuple(getattr(torch, name)(a, b) for name in names), a, b)
    x = c.randn(4, 6, dtype=BF16)
    c.case("layer_norm_bf16_statistics", lambda x, w, b: aten.native_layer_norm(x, [6], w, b, 1e-5), x, c.randn(6, dtype=BF16), c.randn(6, dtype=BF16))
    c.case("group_norm_bf16_statistics", lambda x: aten.native_group_norm(x, None, None, 4, 6, 1, 2, 1e-5), x)


def rounded_consumers(c):
    """Ints and bools from 16-bit values that are stored in the same kernel."""
    def both(f):
        return lambda x: (lambda y: (*f(y), y))(x / x.sum())
    for short, dtype in {"f16": torch.float16, "bf16": BF16}.items():
        x = c.randn(6, dtype=dtype, positive=True)
        c.case(f"max_pool_indices_{short}", both(lambda y: (F.max_pool3d(y.reshape(6, 1, 1, 1, 1), 1, 2, return_indices=True)[1],)), x)
        c.case(f"equal_{short}", both(lambda y: (y == y.clone(), y * 1 >= y, y > y.max())), x)
        c.case(f"order_{short}", both(lambda y: (y.argmax(), torch.sort(y, stable=True)[1], y.reshape(2, 3).cummax(1)[1], y == y.max())), x)


def searches(c):
    s = torch.tensor([[0.5, 1.0, 2.0, NAN], [NAN, NAN, 1.0, 0.0], [3.0, -1.0, 2.0, 2.0]])
    v = torch.tensor([[1.0, NAN, 0.5, 2.0, -5.0], [9.0, 0.0, NAN, 1.0, 2.0], [2.0, 2.5, -2.0, 3.0, 9.0]])
    for right in (False, True):
        c.case(f"rows_{right}", lambda s, v, right=right: torch.searchsorted(s, v, right=right), s, v)
        c.case(f"one_{right}", lambda s, v, right=right: torch.searchsorted(s, v, right=right, out_int32=True), s[0].clone(), v)
        c.case(f"bucketize_{right}", lambda v, s, right=right: torch.bucketize(v, s, right=right), v, torch.tensor([-1.0, 0.0, 0.0, 2.0, NAN]))
        c.case(f"number_{right}", lambda s, right=right: torch.searchsorted(s, 2, right=right), torch.tensor([1, 2, 2, 3]))
        c.case(f"bf16_{right}", lambda s, v, right=right: torch.searchsorted(s.sort().values, v, right=right), c.randn(17, dtype=BF16), c.randn(9, dtype=BF16))
    c.case("real_among_integers", lambda s: (torch.bucketize(2.5, s), torch.searchsorted(s, 1.5)), torch.tensor([1, 2, 3, 5]))
    c.case("sorter", lambda s, v: torch.searchsorted(s, v, sorter=torch.argsort(s, stable=True)), c.randn(3, 33), c.randn(3, 4))
    c.case("long", lambda s, v: torch.searchsorted(s.cumsum(0), v), c.randn(300, positive=True), c.randn(20, scale=150))
    c.case("nothing", lambda s, v: torch.searchsorted(s, v), torch.zeros(0), c.randn(3))
    c.case("one_element", lambda s, v: (torch.searchsorted(s, v), torch.searchsorted(s, v, right=True)), torch.zeros(1), torch.tensor([0.0, 1.0, -1.0]))
    c.case("integers", lambda s, v: torch.searchsorted(s.sort().values, v), c.ints(23, low=-50, high=50), c.ints(9, low=-60, high=60))
    c.case("scalar", lambda s, v: torch.searchsorted(s, v), torch.tensor([1.0, 2.0]), torch.tensor(1.5))


def bags(c):
    w, i, o = c.randn(10, 3), torch.tensor([0, 1, 2, 3, 4, 5, 6, 3]), torch.tensor([0, 2, 2, 6])
    whole = torch.tensor([0, 2, 2, 8])
    for mode in (0, 1, 2):
        for last in (False, True):
            for padding in (-1, 3):
                c.case(f"bag_{mode}_{last}_{padding}", lambda w, i, o, mode=mode, last=last, padding=padding: aten._embedding_bag(w, i, o, False, mode, False, None, last, padding), w, i, whole if last else o)
    c.case("bag_forward_only", lambda w, i, o: aten._embedding_bag_forward_only(w, i, o, False, 0, False, None, True, -1), w, i, whole)
    c.case("bag_f64", lambda w, i, o: aten._embedding_bag(w, i, o), w.double(), i, o)


def nothing(c):
    none = lambda *s: torch.zeros(s)
    c.case("adaptive_avg_to_0", lambda x: (F.interpolate(x, scale_factor=0.5, mode="area"), F.adaptive_avg_pool1d(x, 0)), c.randn(2, 2, 1))
    c.case("adaptive_avg2d_to_0", lambda x: F.adaptive_avg_pool2d(x, (0, 2)), c.randn(2, 2, 3, 4))
    c.case("adaptive_max_to_0", lambda x: F.adaptive_max_pool2d(x, (2, 0), return_indices=True), c.randn(2, 2, 3, 4))
    c.case("roll", lambda x: (x.roll(-3), x.reshape(0, 1).roll((1, 2), (0, 1))), none(0))
    c.case("roll_dims", lambda x: x.roll((1, 2), (1, 2)), none(2, 0, 3))
    c.case("softmax", lambda x: (x.softmax(1), x.log_softmax(0), x.softmax(-1)), none(2, 0))
    c.case("logsumexp", lambda x: (x.logsumexp(1), x.logsumexp(1, keepdim=True), x.logsumexp(0), x.logsumexp((0, 2))), none(2, 0, 3))
    c.case("extremes", lambda x: (*x.max(2), x.amin(2), x.argmax(2), *x.aminmax(dim=0)), none(2, 0, 3))
    c.case("scans", lambda x: (*x.cummax(1), *x.cummin(2), x.logcumsumexp(0)), none(2, 0, 3))
    c.case("attention", lambda q, k, v: F.scaled_dot_product_attention(q, k, v), c.randn(1, 2, 3, 4), none(1, 2, 0, 4), none(1, 2, 0, 4))
    c.case("vector_norm_of_one", lambda x: (x.norm(1, -1), torch.linalg.vector_norm(x, 2, -1), torch.linalg.vector_norm(x, 3, -1) * x.sum(-1)), c.randn(2, 1))
    c.case("vector_norm_of_a_scalar", lambda x: (x.norm(), torch.linalg.vector_norm(x.reshape(1), 1, 0), x.norm(3)), c.randn(1)[0])


def running(c):
    special = torch.tensor([[1.0, NAN, 3.0, -2.0, NAN], [2.0, 2.0, -math.inf, 2.0, math.inf], [-math.inf, -math.inf, 0.0, -0.0, 0.0]])
    for name, f in {"cummax": torch.cummax, "cummin": torch.cummin}.items():
        c.case(f"{name}_special", lambda x, f=f: (*f(x, 1), *f(x, 0)), special)
        c.case(f"{name}_i64", lambda x, f=f: (*f(x, -1), *f(x, 0)), c.ints(4, 37))
        c.case(f"{name}_u8", lambda x, f=f: (*f(x, -1), *f(x, 0)), c.ints(3, 9, dtype=torch.uint8))
        c.case(f"{name}_bool", lambda x, f=f: f(x, 0), c.bools(9))
        c.case(f"{name}_bf16", lambda x, f=f: f(x * x, 1), c.randn(3, 70, dtype=BF16))
        c.case(f"{name}_long", lambda x, f=f: f(x, 0)[1], c.randn(1100))
        c.case(f"{name}_transposed", lambda x, f=f: f(x.t(), 1), c.randn(33, 5))
        c.case(f"{name}_scalar", lambda x, f=f: f(x, 0), c.randn(1)[0])
    c.case("logcumsumexp_special", lambda x: (torch.logcumsumexp(x, 1), torch.logcumsumexp(x, 0)), special)
    c.case("logcumsumexp_bf16", lambda x: torch.logcumsumexp(x, 1), c.randn(3, 70, dtype=BF16))
    c.case("logcumsumexp_f64", lambda x: torch.logcumsumexp(x, 0), c.randn(130).double() * 100)


def numbers_as_vectors(c):
    """Indices, sources and what they are written to: a number counts as a vector of one element, a vector as a number not always."""
    number, vector, first, last = torch.tensor(3.5), torch.tensor([1.0, -2.0, 0.5]), torch.tensor([0, 0]), torch.tensor(2)
    c.case("gather_numbers", lambda x, v, i, j: (x.gather(0, i), v.gather(0, j), x.gather(-1, i[0])), number, vector, first, last)
    c.case("scatter_numbers", lambda x, v, i, j: (v.scatter(0, j, x), v.scatter(0, j, v), x.scatter(0, i[:1], v[:1]), v.scatter_add(0, j, x), v.scatter_reduce(0, j, x, "prod"), v.scatter(0, j, 2.5)), number, vector, first, last)
    c.case("index_numbers", lambda x, i: (x.index_add(0, i[0], x, alpha=2), x.index_copy(0, i[0], x * 2), x.index_copy(0, i[:1], x.reshape(1) * 3)), number, first)
    c.case("mask_of_one_value", lambda x, v: aten.index_put(v, [v > 0], x.reshape(1, 1)), number, vector)
    c.case("gradient_of_rows", lambda g, i: (aten.embedding_dense_backward(g, i, 3, -1, False), aten.embedding_dense_backward(g.view(2, 3, 2), i.view(6), 3, 1, False)), c.randn(6, 2), torch.tensor([[0, 1, 2], [1, 1, 0]]))
    c.case("scale_of_0", lambda x: (aten.upsample_nearest2d(x, [4, 3], 0.0, -1.0), aten._upsample_nearest_exact2d(x, [3, 5], -2.0, 2.5)), c.randn(1, 2, 2, 2))
    c.case("parts_of_nothing", lambda x: aten.split(x, 0), torch.zeros(0, 2))


def compared(c):
    """Values that are looked up among those that they were computed from: both must have been rounded alike."""
    computed = {"acosh": lambda x: torch.acosh(x.abs() + 1.5), "quotient": lambda x: x / 3, "tanh": torch.tanh, "sum": lambda x: x * 1.1 + 0.3}
    for name, f in computed.items():
        c.case(f"running_of_{name}", lambda x, f=f: (*torch.cummax(f(x), 1), *torch.cummin(f(x), 0)), c.randn(3, 9))
        c.case(f"pooled_{name}", lambda x, f=f: (*F.max_pool1d(f(x), 2, return_indices=True), *F.adaptive_max_pool1d(f(x), 3, return_indices=True)), c.randn(2, 3, 8))
        c.case(f"extremes_of_{name}", lambda x, f=f: (*f(x).max(1), f(x).argmin(0), (f(x) == f(x).amax(1, keepdim=True)).sum(1)), c.randn(5, 7))
    c.case("pooled_windows", lambda x: F.adaptive_max_pool3d(x, (1, 3, 3), return_indices=True), c.randn(2, 2, 3, 4, 6))
    c.case("pooled_windows_2d", lambda x: F.adaptive_max_pool2d(x, 2, return_indices=True), c.randn(2, 3, 5, 4))
    c.case("sorted_places", lambda x: (*torch.median(torch.arange(8) * 2 + 1, 0), *torch.sort(torch.arange(8) * -3), x + 1), c.randn(2))


def converted_arguments(c):
    ints = c.ints(4, low=-9, high=9)
    c.case("addcmul_truncates", lambda a, b: (torch.addcmul(a, b, b, value=0.5), torch.addcmul(a, b, b, value=-1.9)), ints, c.ints(4, low=1, high=70))
    c.case("addcmul_in_place_truncates", lambda a, b: a.clone().addcmul_(b, b, value=2.7), ints, c.ints(4, low=1, high=70, dtype=torch.int32))
    c.case("cosine_broadcast", lambda a, b: F.cosine_similarity(a, b, dim=1), c.randn(3, 1), c.randn(3, 5))
    c.case("cosine_scalar", lambda a, b: F.cosine_similarity(a, b, dim=-2), c.randn(4, 3), c.randn(1)[0])
    c.case("margin_ranking_i64", lambda a, b, d: F.margin_ranking_loss(a, b, d), c.ints(7, 3), c.ints(7, 1), c.ints(7, 3))
    c.case("norm_of_size_1", lambda x: (torch.linalg.norm(x, dim=[-2]), aten.frobenius_norm.dim(x, [1])), c.randn(2, 1, 3))
    c.case("weight_norm", lambda v, g: torch._weight_norm(v, g, 0), c.randn(3, 2), c.randn(3, 1))
    c.case("log_sigmoid_buffer", lambda x, y: (*aten.log_sigmoid_forward(x), *aten.log_sigmoid_forward(y)), c.randn(2, 3), c.randn(1)[0])


def largest_of_bags(c):
    rows = c.randn(6, 4)
    rows[1], rows[3], rows[2, 1], rows[3, 2] = NAN, -math.inf, math.inf, 1
    offsets = torch.tensor([0, 3, 5, 7, 9])
    for padding in (-1, 1):
        c.case(f"bag_max_special_{padding}", lambda e, i, o, p=padding: aten._embedding_bag(e, i, o, False, 2, False, None, False, p), rows,
               torch.tensor([0, 1, 2, 1, 0, 3, 3, 4, 5, 3]), offsets)


def signs_of_zero(c):
    zeros = torch.tensor([1.0, -1.0, 0.0, -2.5, 0.0] * 8) * 0
    for short, dtype in {"f32": torch.float32, "bf16": BF16, "f64": torch.float64}.items():
        c.case(f"clamps_of_negative_zero_{short}", lambda x: torch.stack([torch.signbit(f(x)) for f in (
            F.relu6, lambda x: F.hardtanh(x, 0, 1), lambda x: x.clamp(0, 1), lambda x: x.clamp(min=0.0), lambda x: torch.clamp_min(x, 0))]), zeros.to(dtype))
        c.case(f"quotients_of_negative_zero_{short}", lambda x: (torch.signbit(x / 3.0), torch.signbit(x / -7.0), torch.signbit(torch.round(x, decimals=3))), zeros.to(dtype))
    c.case("bessel_of_negative_zero", lambda x: torch.signbit(torch.special.bessel_j1(x)), zeros)


def beyond_numbers(c):
    c.case("hardswish_overflows", lambda x: (torch.isinf(F.hardswish(x)), F.hardswish(x / 2e38)), torch.tensor([3e38, 2e38, -3e38, 5e37, 1.0]))
    scores, labels = c.randn(4, 3), torch.tensor([0, 2, 1, 1])
    weighed = torch.tensor([1.0, math.inf, 2.0])
    c.case("multi_margin_counts_nothing", lambda x, t, w: F.multi_margin_loss(x, t, weight=w, margin=0.1, reduction="none"), torch.tensor([[5.0, 0, 0], [0, 0, 5], [0, 1, 0], [9, 0.0, 0]]), labels, weighed)
    scores[1, 0], scores[2, 2] = NAN, NAN
    c.case("multi_margin_of_nan", lambda x, t: (F.multi_margin_loss(x, t, reduction="none"), F.multi_margin_loss(x, t, p=2, reduction="none")), scores, labels)
    grid = torch.tensor([[math.inf, 0, 0], [0, -math.inf, 0], [NAN, 0, 0.1], [0.1, 0.2, 0.3], [1, 1, 1]]).reshape(1, 1, 1, 5, 3)
    c.case("grid_3d_beyond", lambda x, g: (F.grid_sample(x, g, align_corners=False), F.grid_sample(x, g, mode="nearest", align_corners=True)), c.randn(1, 2, 3, 4, 5), grid)
    image = c.randn(1, 2, 9, 12)
    image[0, 0, 4, 5], image[0, 1, 7, 0] = NAN, math.inf
    for mode in ("bilinear", "bicubic"):
        c.case(f"antialiased_{mode}_beside_nan", lambda x, m=mode: F.interpolate(x, (4, 5), mode=m, antialias=True).isfinite(), image)
        c.case(f"antialiased_{mode}_larger", lambda x, m=mode: F.interpolate(x, (11, 7), mode=m, antialias=True, align_corners=True), c.randn(1, 2, 9, 12))
    plane = torch.tensor([[NAN, NAN], [math.inf, 0.1], [0.2, NAN], [-0.3, -math.inf], [1.7, -2.2]]).reshape(1, 1, 5, 2)
    for padding in ("zeros", "border", "reflection"):
        for mode in ("bilinear", "nearest"):
            c.case(f"grid_2d_beyond_{padding}_{mode}", lambda x, g, p=padding, m=mode: F.grid_sample(x, g, mode=m, padding_mode=p, align_corners=False), torch.arange(24.0).reshape(1, 2, 3, 4), plane)


def whole_numbers(c):
    whole = (torch.int64, torch.int32, torch.uint8)
    c.case("logspace_whole_steps", lambda: tuple(torch.logspace(a, b, n, base=k, dtype=d) for d in whole for a, b, n, k in ((0, 7, 5, 2), (0, 1.9, 6, 100), (1.5, 4.5, 3, 3))))
    c.case("linspace_wraps_u8", lambda: torch.linspace(-1, 1, 3, dtype=torch.uint8))
    c.case("diff_of_order_0", lambda x, y: torch.diff(x, n=0, prepend=y, append=y), c.randn(3, 4), c.randn(3, 2))
    pictures = [c.ints(5, 6, low=0, high=200, dtype=torch.uint8) for _ in range(3)]
    c.case("added_alike", lambda x, i, v: (x.index_put((i.expand(10),), v.expand(10), accumulate=True), x.put(i.expand(7), v.expand(7), accumulate=True), torch.full((4,), 3.0).index_add(0, i.expand(300), v.expand(300))),
           c.randn(4), torch.tensor([2]), torch.tensor([1.5]))
    c.case("triplet_u8", lambda a, p, n: (F.triplet_margin_loss(a, p, n, margin=300.0), F.triplet_margin_loss(a, p, n, margin=300.0, swap=True, reduction="none")), *pictures)
    c.case("repeat_interleave_i32", lambda r: aten.repeat_interleave.Tensor(r, output_size=6), torch.tensor([1, 0, 3, 2], dtype=torch.int32))
    c.case("threshold_i8", lambda x: F.threshold(x, 1, -4) + F.threshold(x, -3, 100), c.ints(9, dtype=torch.int8))
    c.case("threshold_i8_real", lambda x: aten.threshold(x, 1.7, -4.3), c.ints(9, dtype=torch.int8))


def add(family):
    @family
    def edges(c):
        c.case("range_without_step", lambda x: (x + torch.ops.aten.range.default(1, 4), torch.ops.aten.range.default(-1.5, 1.7)), c.randn(4))
        for part in (spaces, mixed_dtypes, rounded_consumers, searches, bags, nothing, running, numbers_as_vectors, compared, converted_arguments, largest_of_bags,
                     signs_of_zero, beyond_numbers, whole_numbers):
            part(c)
