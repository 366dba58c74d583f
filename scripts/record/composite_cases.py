"""Cases of composite operators: normalization with statistics, recurrent layers, products, losses, resampling and the
like. operator_cases.py calls add(family), which registers them with it."""
import math

import torch
import torch.nn.functional as F

FLOATS = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}
aten = torch.ops.aten


def batch_normalization(c):
    """Outputs, and the running statistics as the functional forms return them."""
    for short, dtype in FLOATS.items():
        x, w, b = c.randn(6, 5, 4, 7, dtype=dtype), c.randn(5, dtype=dtype), c.randn(5, dtype=dtype)
        m, v = c.randn(5), c.randn(5, positive=True)
        c.case(f"eval_{short}", lambda x, m, v, w, b: F.batch_norm(x, m, v, w, b), x, m.to(dtype), v.to(dtype), w, b)
        c.case(f"no_stats_{short}", lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True), x, w, b)
        c.case(f"functional_{short}", lambda x, w, b, m, v: aten._native_batch_norm_legit_functional(x, w, b, m, v, True, 0.1, 1e-5), x, w, b, m.to(dtype), v.to(dtype))
        c.case(f"instance_{short}", lambda x, w, b: F.instance_norm(x, None, None, w, b), x, w, b)
    r = c.randn
    m, v = r(5), r(5, positive=True)
    c.case("mixed_bf16", lambda x, w, b, m, v: aten._native_batch_norm_legit_functional(x, w, b, m, v, True, 0.1, 1e-5), r(6, 5, 9, dtype=torch.bfloat16), r(5), r(5), m, v)
    c.case("functional_eval", lambda x, w, b, m, v: aten._native_batch_norm_legit_functional(x, w, b, m, v, False, 0.1, 1e-5), r(6, 5, 9), r(5), r(5), m, v)
    c.case("functional_momentum_1", lambda x, m, v: aten._native_batch_norm_legit_functional(x, None, None, m, v, True, 1.0, 1e-3), r(6, 5), m, v)
    c.case("with_update", lambda x, w, b, m, v: aten._batch_norm_with_update_functional(x, w, b, m, v, 0.3, 1e-5), r(6, 5, 3, 3), r(5), r(5), m, v)
    c.case("legit_no_stats", lambda x, w, b: aten._native_batch_norm_legit.no_stats(x, w, b, True, 0.1, 1e-5), r(6, 5, 3), r(5), r(5))
    c.case("no_update", lambda x, w, b, m, v: aten._batch_norm_no_update(x, w, b, m, v, 0.1, 1e-5)[0], r(6, 5, 3), r(5), r(5), m, v)
    # The running statistics are mutated: the cases' first outputs.
    for short, dtype in FLOATS.items():
        c.case(f"training_{short}", lambda x, m, v, w, b: F.batch_norm(x, m, v, w, b, training=True), r(6, 5, 4, 7, dtype=dtype), r(5, dtype=dtype), r(5, positive=True, dtype=dtype), r(5, dtype=dtype), r(5, dtype=dtype))
    c.case("training_momentum", lambda x, m, v: F.batch_norm(x, m, v, training=True, momentum=0.37, eps=1e-2) + m, r(6, 5), r(5), r(5, positive=True))
    c.case("training_twice", lambda x, m, v: F.batch_norm(F.batch_norm(x, m, v, training=True) * v[:, None], m, v, training=True), r(6, 5, 7), r(5), r(5, positive=True))
    c.case("training_then_eval", lambda x, m, v: (F.batch_norm(x, m, v, training=True), F.batch_norm(x, m, v)), r(6, 5, 7), r(5), r(5, positive=True))
    c.case("training_instance", lambda x, m, v, w, b: F.instance_norm(x, m, v, w, b), r(4, 5, 9), r(5), r(5, positive=True), r(5), r(5))
    c.case("training_native", lambda x, m, v, w, b: aten.native_batch_norm(x, w, b, m, v, True, 0.1, 1e-5), r(4, 5, 9), r(5), r(5, positive=True), r(5), r(5))
    c.case("training_legit", lambda x, m, v, w, b: aten._native_batch_norm_legit(x, w, b, m, v, True, 0.1, 1e-5)[0], r(4, 5, 9), r(5), r(5, positive=True), r(5), r(5))
    c.case("training_mixed_f16", lambda x, m, v, w, b: F.batch_norm(x, m, v, w, b, training=True), r(4, 5, 9, dtype=torch.float16), r(5), r(5, positive=True), r(5), r(5))
    c.case("one_channel", lambda x: F.batch_norm(x, None, None, training=True), r(7, 1, 11))
    c.case("transposed", lambda x: F.batch_norm(x.transpose(1, 2), None, None, training=True), r(7, 11, 3))
    c.case("constant_input", lambda x, y: F.batch_norm(x * 0 + y, None, None, training=True), r(7, 3, 11), r(7, 3, 1))
    c.case("instance_eval", lambda x, m, v: F.instance_norm(x, m, v, use_input_stats=False), r(2, 5, 9), m, v)
    c.case("instance_1d", lambda x: F.instance_norm(x, eps=1e-2), r(2, 5, 9))
    c.case("weight_norm", lambda v, g: torch._weight_norm(v, g, 0), r(6, 5, 3), r(6, 1, 1))
    c.case("weight_norm_dim2", lambda v, g: torch._weight_norm(v, g, 2), r(6, 5, 3), r(1, 1, 3))


def layers(module):
    """A module as a function of its parameters and inputs, so that a case needs no weights."""
    names = [n for n, _ in module.named_parameters()]

    def call(*args):
        count = len(args) - len(names)
        inputs, parameters = args[:count], dict(zip(names, args[count:]))
        result = torch.func.functional_call(module, parameters, inputs)
        flat = []
        for item in result if isinstance(result, tuple) else (result,):
            flat += list(item) if isinstance(item, tuple) else [item]
        return tuple(flat)
    return call


def recurrent(c):
    kinds = {"lstm": (aten.lstm.input, 4), "gru": (aten.gru.input, 3), "tanh": (aten.rnn_tanh.input, 1), "relu": (aten.rnn_relu.input, 1)}

    def layer(name, kind, *, length=5, batch=3, features=4, width=6, count=1, two=False, bias=True, first=False, projection=0, dtype=torch.float32):
        op, gates = kinds[kind]
        r = lambda *s: c.randn(*s, dtype=dtype, scale=0.4)
        out, directions = projection or width, 2 if two else 1
        x = r(batch, length, features) if first else r(length, batch, features)
        states = [r(count * directions, batch, out)] + ([r(count * directions, batch, width)] if kind == "lstm" else [])
        parameters = []
        for i in range(count):
            for _ in range(directions):
                parameters += [r(gates * width, features if i == 0 else out * directions), r(gates * width, out)]
                parameters += [r(gates * width), r(gates * width)] if bias else []
                parameters += [r(projection, width)] if projection else []
        def run(x, *rest):
            hx = list(rest[:len(states)]) if kind == "lstm" else rest[0]
            return op(x, hx, list(rest[len(states):]), bias, count, 0.0, False, two, first)
        c.case(name, run, x, *states, *parameters)

    for kind in kinds:
        layer(f"{kind}_plain", kind)
        layer(f"{kind}_two_layers_both_ways", kind, count=2, two=True, first=True)
        layer(f"{kind}_no_bias_batch_first", kind, bias=False, first=True)
        layer(f"{kind}_one_step", kind, length=1, batch=1)
        layer(f"{kind}_f16", kind, dtype=torch.float16)
        layer(f"{kind}_bf16", kind, dtype=torch.bfloat16)
    layer("lstm_projection", "lstm", projection=2, count=2, two=True)
    layer("lstm_projection_no_bias", "lstm", projection=3, bias=False)
    layer("gru_longer", "gru", length=17, batch=1, width=3)
    # Of several tiles of rows and several blocks; widths of whole words and others, 16-bit floats by matrix units.
    layer("lstm_tiles_f16", "lstm", length=7, batch=19, features=8, width=24, two=True, first=True, dtype=torch.float16)
    layer("gru_tiles_bf16", "gru", length=4, batch=17, features=8, width=72, dtype=torch.bfloat16)
    layer("gru_odd_f16", "gru", length=4, batch=5, features=3, width=37, first=True, dtype=torch.float16)
    layer("lstm_wide", "lstm", length=9, batch=5, features=3, width=70)
    layer("gru_wide", "gru", length=6, batch=3, features=3, width=100, two=True)
    layer("relu_f64", "relu", length=5, batch=9, features=3, width=33, dtype=torch.float64)
    layer("lstm_f64", "lstm", length=4, batch=2, features=3, width=20, bias=False, dtype=torch.float64)
    r = lambda *s: c.randn(*s, scale=0.5)

    def direction(reverse, bias):
        def run(x, h, k, *p):
            if x.dtype == torch.float64:  # which oneDNN does not have
                y, h, k = aten.lstm.input(x.flip(0) if reverse else x, [h, k], list(p), bias, 1, 0.0, False, False, False)
                return (y.flip(0) if reverse else y), h, k
            biases = p[2:] if bias else (torch.zeros(24), torch.zeros(24))
            return aten.mkldnn_rnn_layer(x, p[0], p[1], *biases, h, k, reverse, [], 2, 6, 1, bias, False, False, False)[:3]
        return run

    for reverse in (False, True):
        for bias in (True, False):
            parameters = [r(24, 4), r(24, 6)] + ([r(24), r(24)] if bias else [])
            c.case(f"lstm_direction_{'backwards' if reverse else 'forwards'}{'' if bias else '_no_bias'}", direction(reverse, bias),
                   r(5, 3, 4), r(1, 3, 6), r(1, 3, 6), *parameters)
    cells = {"lstm": torch.lstm_cell, "gru": torch.gru_cell, "tanh": torch.rnn_tanh_cell, "relu": torch.rnn_relu_cell}
    for kind, op in cells.items():
        gates = kinds[kind][1]
        wrap = (lambda op: lambda x, h, k, *p: op(x, [h, k], *p))(op) if kind == "lstm" else op
        extra = [r(3, 6)] if kind == "lstm" else []
        c.case(f"{kind}_cell", wrap, r(3, 4), r(3, 6), *extra, r(gates * 6, 4), r(gates * 6, 6), r(gates * 6), r(gates * 6))
        c.case(f"{kind}_cell_no_bias", wrap, r(3, 4), r(3, 6), *extra, r(gates * 6, 4), r(gates * 6, 6))


def products(c):
    r = c.randn
    for short, dtype in FLOATS.items():
        d = dict(dtype=dtype)
        c.case(f"inner_{short}", torch.inner, r(3, 5, **d), r(2, 4, 5, **d))
        c.case(f"tensordot_{short}", lambda a, b: torch.tensordot(a, b, dims=([1, 2], [0, 1])), r(3, 4, 5, **d), r(4, 5, 2, **d))
        c.case(f"bilinear_{short}", F.bilinear, r(3, 2, 4, **d), r(3, 2, 5, **d), r(6, 4, 5, **d), r(6, **d))
        c.case(f"addbmm_{short}", torch.addbmm, r(3, 5, **d), r(4, 3, 6, **d), r(4, 6, 5, **d))
    c.case("inner_scalar", torch.inner, r(1).reshape(()), r(3))
    c.case("inner_vectors", torch.inner, r(7), r(7))
    c.case("tensordot_none", lambda a, b: torch.tensordot(a, b, dims=0), r(3, 2), r(4))
    c.case("tensordot_all", lambda a, b: torch.tensordot(a, b, dims=2), r(3, 2), r(3, 2))
    c.case("tensordot_one", lambda a, b: torch.tensordot(a, b, dims=([1], [0])), r(3, 1), r(4, 2))
    c.case("kron", torch.kron, r(2, 3), r(4, 5))
    c.case("kron_ranks", torch.kron, r(3), r(2, 1, 4))
    c.case("kron_i64", torch.kron, c.ints(2, 3), c.ints(3, 2))
    c.case("outer", torch.outer, r(3), r(5))
    c.case("addr", lambda s, a, b: torch.addr(s, a, b, beta=0.5, alpha=2), r(3, 5), r(3), r(5))
    c.case("addr_beta0", lambda s, a, b: torch.addr(s, a, b, beta=0), r(3, 5) * float("nan"), r(3), r(5))
    # Many products of few terms and few rows or columns, which a GPU's plan writes out.
    for short, dtype in FLOATS.items():
        d = dict(dtype=dtype)
        c.case(f"many_small_{short}", lambda a, b: (a @ b, a.mT @ b, (a @ b.mT).relu()), r(520, 3, 3, **d), r(520, 3, 3, **d))
    c.case("many_small_turned", lambda a, x, t: torch.einsum("bij,bnj->bni", a, x) + t[:, None], r(3, 3, 3), r(3, 700, 3), r(3, 3))
    c.case("few_terms", lambda x, w, b: (x @ w, F.linear(x, w.T, b), torch.addmm(b, x, w, beta=2)), r(1400, 3), r(3, 5), r(5))
    c.case("few_terms_special", lambda x, w: x @ w, torch.tensor([1.0, float("inf"), float("nan"), -0.0]).repeat(1100)[:, None] * torch.ones(1, 2), r(2, 1))
    c.case("few_terms_f64", lambda a, b: torch.bmm(a, b), r(300, 4, 4).double(), r(300, 4, 4).double())
    c.case("addbmm_scaled", lambda s, a, b: torch.addbmm(s, a, b, beta=0.5, alpha=-2), r(5), r(4, 3, 6), r(4, 6, 5))
    c.case("addmv_scaled", lambda s, a, b: torch.addmv(s, a, b, beta=0.5, alpha=2), r(3), r(3, 5), r(5))
    c.case("baddbmm_scaled", lambda s, a, b: torch.baddbmm(s, a, b, beta=0.5, alpha=2), r(1, 5), r(2, 3, 4), r(2, 4, 5))
    c.case("mv", torch.mv, r(3, 5), r(5))
    c.case("dot", torch.dot, r(37), r(37))
    c.case("vdot", torch.vdot, r(37), r(37))
    c.case("chain_matmul", lambda a, b, d: torch.chain_matmul(a, b, d), r(2, 3), r(3, 4), r(4, 5))
    c.case("multi_dot", lambda a, b, d: torch.linalg.multi_dot([a, b, d]), r(3), r(3, 4), r(4, 5))
    c.case("bilinear_no_bias", F.bilinear, r(4), r(5), r(6, 4, 5))
    c.case("cross", lambda a, b: torch.linalg.cross(a, b), r(4, 3), r(4, 3))
    c.case("cross_dim", lambda a, b: torch.linalg.cross(a, b, dim=0), r(3, 4), r(3, 1))
    c.case("cross_first", lambda a, b: torch.cross(a, b), r(2, 3, 3), r(2, 3, 3))
    c.case("vecdot", lambda a, b: torch.linalg.vecdot(a, b, dim=0), r(4, 3), r(4, 3))
    c.case("trace", torch.trace, r(4, 6))
    c.case("int_mm", lambda a, b: torch._int_mm(a, b), c.ints(17, 8, dtype=torch.int8), c.ints(8, 8, dtype=torch.int8))
    for name, equation, *shapes in [
            ("ellipsis", "...ij,...jk->...ik", (2, 3, 4), (4, 5)),
            ("ellipsis_both", "b...i,...ij->b...j", (2, 3, 4), (3, 4, 5)),
            ("ellipsis_implicit", "i...,i...", (4, 3), (4, 3)),
            ("ellipsis_sum", "i...->...", (4, 3, 2)),
            ("ellipsis_broadcast", "...i,...i->...i", (2, 1, 4), (3, 4)),
            ("diagonal", "ii->i", (4, 4)),
            ("trace", "ii", (4, 4)),
            ("diagonal_batch", "bii->bi", (3, 4, 4)),
            ("diagonal_product", "iij,jk->ik", (3, 3, 4), (4, 2)),
            ("size_one", "ij,jk->ik", (3, 1), (4, 2)),
            ("outer", "i,j->ij", (3,), (4,)),
            ("transpose", "ij->ji", (3, 4)),
            ("sum_all", "ij->", (3, 4)),
            ("three", "bn,anm,bm->ba", (2, 5), (3, 5, 4), (2, 4)),
            ("attention", "bthd,bshd->bhts", (2, 3, 4, 5), (2, 6, 4, 5)),
            ("upper_case", "bCa,Cab->b", (2, 3, 4), (3, 4, 2))]:
        c.case(f"einsum_{name}", (lambda e: lambda *t: torch.einsum(e, *t))(equation), *[r(*s) for s in shapes])
    c.case("einsum_sublist", lambda a, b: torch.einsum(a, [0, 1], b, [1, 2], [0, 2]), r(3, 4), r(4, 5))


def distances(c):
    r = c.randn
    for short, dtype in FLOATS.items():
        d = dict(dtype=dtype)
        c.case(f"cosine_{short}", F.cosine_similarity, r(3, 7, **d), r(3, 7, **d))
        c.case(f"pairwise_{short}", F.pairwise_distance, r(3, 7, **d), r(3, 7, **d))
        c.case(f"normalize_{short}", F.normalize, r(3, 7, **d))
    c.case("cosine_dim0", lambda a, b: F.cosine_similarity(a, b, dim=0), r(3, 7), r(3, 1))
    c.case("cosine_zero", lambda a, b: F.cosine_similarity(a * 0, b), r(3, 7), r(3, 7))
    c.case("pairwise_1", lambda a, b: F.pairwise_distance(a, b, p=1.0, keepdim=True), r(3, 7), r(3, 7))
    for p in (0.0, 1.0, 2.0, 3.0, float("inf")):
        c.case(f"cdist_{p}", lambda a, b, p=p: torch.cdist(a, b, p=p), r(2, 5, 4), r(2, 3, 4))
    c.case("cdist_by_product", lambda a, b: (torch.cdist(a, b), torch.cdist(a[0], b[1], compute_mode="donot_use_mm_for_euclid_dist")), r(2, 30, 40), r(2, 27, 40))
    c.case("cdist_matrices", torch.cdist, r(5, 4), r(3, 4))
    c.case("dist", torch.dist, r(3, 7), r(7))
    c.case("dist_1", lambda a, b: torch.dist(a, b, 1), r(3, 7), r(7))
    c.case("renorm", lambda x: torch.renorm(x, 2, 0, 1.5), r(5, 7))
    for name, f in dict(
            norm=lambda x: x.norm(), norm_1=lambda x: x.norm(p=1, dim=1), norm_fro=lambda x: torch.norm(x, "fro", dim=(0, 1)),
            norm_inf=lambda x: x.norm(p=float("inf"), dim=0, keepdim=True), norm_dtype=lambda x: torch.norm(x, 2, dtype=torch.float64),
            linalg=lambda x: torch.linalg.norm(x), linalg_dim=lambda x: torch.linalg.norm(x, dim=-1),
            linalg_3=lambda x: torch.linalg.norm(x, ord=3, dim=0), linalg_fro=lambda x: torch.linalg.norm(x, ord="fro"),
            linalg_1=lambda x: torch.linalg.norm(x, ord=1), linalg_inf=lambda x: torch.linalg.norm(x, ord=float("-inf"), keepdim=True),
            matrix=lambda x: torch.linalg.matrix_norm(x), matrix_inf=lambda x: torch.linalg.matrix_norm(x, ord=float("inf")),
            vector_0=lambda x: torch.linalg.vector_norm(x, ord=0, dim=1)).items():
        c.case(name if name.startswith("norm") else f"linalg_{name}", f, r(5, 7))


def losses(c):
    r = c.randn
    for short, dtype in FLOATS.items():
        d = dict(dtype=dtype)
        labels = c.ints(6, low=0, high=5)
        c.case(f"cross_entropy_{short}", F.cross_entropy, r(6, 5, **d), labels)
        c.case(f"mse_{short}", F.mse_loss, r(6, 5, **d), r(6, 5, **d))
        c.case(f"bce_logits_{short}", F.binary_cross_entropy_with_logits, r(6, 5, **d), c.bools(6, 5).to(dtype))
        c.case(f"smooth_l1_{short}", F.smooth_l1_loss, r(6, 5, **d), r(6, 5, **d))
        c.case(f"nll_{short}", F.nll_loss, r(6, 5, **d), labels)
    labels = c.ints(6, low=0, high=5)
    ignored = torch.where(c.bools(6), labels, torch.full_like(labels, -100))
    image = c.ints(2, 3, 4, low=0, high=5)
    weight = r(5, positive=True)
    for reduction in ("none", "mean", "sum"):
        k = dict(reduction=reduction)
        c.case(f"l1_{reduction}", lambda a, b, k=k: F.l1_loss(a, b, **k), r(6, 5), r(6, 5))
        c.case(f"huber_{reduction}", lambda a, b, k=k: F.huber_loss(a, b, delta=0.7, **k), r(6, 5), r(6, 5))
        c.case(f"smooth_beta_{reduction}", lambda a, b, k=k: F.smooth_l1_loss(a, b, beta=0.3, **k), r(6, 5), r(6, 5))
        c.case(f"bce_{reduction}", lambda a, b, w, k=k: F.binary_cross_entropy(torch.sigmoid(a), b, w, **k), r(6, 5), c.bools(6, 5).float(), r(6, 5, positive=True))
        c.case(f"bce_pos_{reduction}", lambda a, b, w, p, k=k: F.binary_cross_entropy_with_logits(a, b, w, pos_weight=p, **k), r(6, 5), c.bools(6, 5).float(), r(5, positive=True), r(5, positive=True))
        c.case(f"kl_{reduction}", lambda a, b, k=k: F.kl_div(F.log_softmax(a, -1), F.softmax(b, -1), **k), r(6, 5), r(6, 5))
        c.case(f"nll_weight_{reduction}", lambda a, t, w, k=k: F.nll_loss(a, t, w, **k), r(6, 5), ignored, weight)
        c.case(f"nll2d_{reduction}", lambda a, t, w, k=k: F.nll_loss(a, t, w, ignore_index=2, **k), r(2, 5, 3, 4), image, weight)
        c.case(f"cross_entropy_weight_{reduction}", lambda a, t, w, k=k: F.cross_entropy(a, t, w, **k), r(6, 5), ignored, weight)
        c.case(f"cross_entropy_smooth_{reduction}", lambda a, t, w, k=k: F.cross_entropy(a, t, w, label_smoothing=0.1, **k), r(6, 5), ignored, weight)
        c.case(f"cross_entropy_soft_{reduction}", lambda a, t, w, k=k: F.cross_entropy(a, F.softmax(t, 1), w, label_smoothing=0.2, **k), r(2, 5, 3), r(2, 5, 3), weight)
        c.case(f"nll_forward_{reduction}", lambda a, t, w, n={"none": 0, "mean": 1, "sum": 2}[reduction]: aten.nll_loss_forward(a, t, w, n, -100), r(6, 5), ignored, weight)
    c.case("kl_log_target", lambda a, b: F.kl_div(a, b, log_target=True, reduction="batchmean"), r(6, 5), r(6, 5))
    c.case("kl_zero_target", lambda a, b: F.kl_div(a, F.relu(b)), r(6, 5), r(6, 5))
    c.case("cross_entropy_vector", F.cross_entropy, r(5), torch.tensor(3))
    c.case("cross_entropy_image", lambda a, t: F.cross_entropy(a, t), r(2, 5, 3, 4), image)
    c.case("cross_entropy_smooth_plain", lambda a, t: F.cross_entropy(a, t, label_smoothing=0.1), r(6, 5), labels)
    c.case("cross_entropy_causal", lambda a, t: F.cross_entropy(a[:, :-1].reshape(-1, 11), t[:, 1:].reshape(-1)), r(2, 7, 11), c.ints(2, 7, low=0, high=11))
    c.case("multi_margin", F.multi_margin_loss, r(6, 5), labels)
    c.case("multi_margin_weight", lambda a, t, w: F.multi_margin_loss(a, t, p=2, margin=0.6, weight=w, reduction="none"), r(6, 5), labels, weight)
    c.case("multilabel_soft_margin", F.multilabel_soft_margin_loss, r(6, 5), c.bools(6, 5).float())
    c.case("soft_margin", F.soft_margin_loss, r(6, 5), c.bools(6, 5).float() * 2 - 1)
    c.case("margin_ranking", lambda a, b, t: F.margin_ranking_loss(a, b, t, margin=0.3), r(6), r(6), c.bools(6).float() * 2 - 1)
    c.case("hinge_embedding", lambda a, t: F.hinge_embedding_loss(a, t, margin=0.7), r(6), c.bools(6).float() * 2 - 1)
    c.case("cosine_embedding", lambda a, b, t: F.cosine_embedding_loss(a, b, t, margin=0.1), r(6, 5), r(6, 5), c.bools(6).float() * 2 - 1)
    c.case("triplet", F.triplet_margin_loss, r(6, 5), r(6, 5), r(6, 5))
    c.case("triplet_swap", lambda a, p, n: F.triplet_margin_loss(a, p, n, swap=True, reduction="sum"), r(6, 5), r(6, 5), r(6, 5))
    c.case("poisson", F.poisson_nll_loss, r(6, 5), c.ints(6, 5, low=0, high=6).float())
    c.case("poisson_full", lambda a, t: F.poisson_nll_loss(a, t, log_input=False, full=True), r(6, 5, positive=True), c.ints(6, 5, low=1, high=6).float())


def resampling(c):
    r = c.randn
    def up(name, x, **k):
        c.case(name, lambda x: F.interpolate(x, **k), x)
    for mode, shape in dict(nearest=(2, 3, 5), linear=(2, 3, 5)).items():
        up(f"{mode}_1d_size", r(*shape), size=9, mode=mode)
        up(f"{mode}_1d_scale", r(*shape), scale_factor=1.7, mode=mode)
        up(f"{mode}_1d_down", r(2, 3, 11), size=4, mode=mode)
    for short, dtype in FLOATS.items():
        x = r(2, 3, 4, 5, dtype=dtype)
        up(f"nearest_2d_{short}", x, scale_factor=2, mode="nearest")
        up(f"bilinear_2d_{short}", x, size=(7, 9), mode="bilinear")
        up(f"bicubic_2d_{short}", x, size=(7, 9), mode="bicubic")
    x = r(2, 3, 5, 7)
    up("nearest_2d_odd", x, size=(8, 3), mode="nearest")
    up("nearest_2d_scale", x, scale_factor=(1.5, 0.6), mode="nearest")
    up("nearest_2d_14_20", r(1, 1, 14, 20), size=(20, 14), mode="nearest")
    up("nearest_exact_2d", x, size=(8, 3), mode="nearest-exact")
    up("nearest_exact_2d_double", x, scale_factor=2, mode="nearest-exact")
    up("nearest_exact_1d", r(2, 3, 5), scale_factor=1.3, mode="nearest-exact")
    up("nearest_3d", r(1, 2, 3, 4, 5), scale_factor=2, mode="nearest")
    up("nearest_exact_3d", r(1, 2, 3, 4, 5), size=(4, 3, 7), mode="nearest-exact")
    up("nearest_same", x, size=(5, 7), mode="nearest")
    up("nearest_u8", c.ints(1, 2, 3, 4, low=0, dtype=torch.uint8), scale_factor=3, mode="nearest")
    up("bilinear_corners", x, size=(9, 4), mode="bilinear", align_corners=True)
    up("bilinear_corners_one", x, size=(1, 1), mode="bilinear", align_corners=True)
    up("bilinear_scale", x, scale_factor=1.7, mode="bilinear")
    up("bilinear_scale_recomputed", x, scale_factor=1.7, mode="bilinear", recompute_scale_factor=True)
    up("bilinear_down", x, scale_factor=0.5, mode="bilinear")
    up("bilinear_one_side", x, size=(5, 14), mode="bilinear")
    up("bicubic_corners", x, size=(9, 4), mode="bicubic", align_corners=True)
    up("bicubic_scale", x, scale_factor=2, mode="bicubic")
    up("trilinear", r(1, 2, 3, 4, 5), size=(5, 3, 7), mode="trilinear")
    up("trilinear_corners", r(1, 2, 3, 4, 5), scale_factor=2, mode="trilinear", align_corners=True)
    up("bilinear_antialias", r(1, 2, 11, 13), size=(5, 7), mode="bilinear", antialias=True)
    up("bilinear_antialias_up", r(1, 2, 5, 4), size=(8, 9), mode="bilinear", antialias=True)
    up("bicubic_antialias", r(1, 2, 11, 13), size=(5, 7), mode="bicubic", antialias=True)
    c.case("channels_last", lambda x: F.interpolate(x.permute(0, 3, 1, 2), scale_factor=2), r(2, 4, 5, 3))
    c.case("as_other", lambda x, y: F.interpolate(x, size=y.shape[-2:], mode="bilinear") + y, r(2, 3, 4, 4), r(2, 3, 7, 9))
    for mode in ("bilinear", "nearest"):
        for padding in ("zeros", "border", "reflection"):
            for corners in (False, True):
                c.case(f"grid_{mode}_{padding}_{corners}", lambda x, g, k=dict(mode=mode, padding_mode=padding, align_corners=corners): F.grid_sample(x, g, **k), r(2, 3, 4, 5), r(2, 3, 7, 2))
    c.case("grid_far", lambda x, g: F.grid_sample(x, g, padding_mode="reflection", align_corners=False), r(1, 2, 4, 5), r(1, 3, 7, 2, scale=7.0))
    c.case("grid_f16", lambda x, g: F.grid_sample(x, g, align_corners=False), r(2, 3, 4, 5, dtype=torch.float16), (c.ints(2, 3, 7, 2) / 8).half())
    c.case("grid_3d", lambda x, g: F.grid_sample(x, g, align_corners=False), r(1, 2, 3, 4, 5), r(1, 2, 3, 4, 3))
    c.case("affine_grid", lambda t: F.affine_grid(t, (2, 3, 4, 5), align_corners=False), r(2, 2, 3))
    c.case("affine_grid_corners", lambda t: F.affine_grid(t, (2, 3, 4, 1), align_corners=True), r(2, 2, 3))
    c.case("affine_grid_3d", lambda t: F.affine_grid(t, (1, 3, 2, 4, 5), align_corners=True), r(1, 3, 4))
    bytes_of = lambda *shape: c.ints(*shape, low=0, high=256, dtype=torch.uint8)
    for mode in ("bilinear", "bicubic"):
        for antialias in (False, True):
            name = f"u8_{mode}" + ("_antialias" if antialias else "")
            c.case(name, lambda x, m=mode, a=antialias: [F.interpolate(x, size=s, mode=m, antialias=a, align_corners=k) for s in ((5, 13), (20, 7), (1, 12)) for k in (False, True)], bytes_of(2, 3, 9, 12))
            c.case(name + "_factors", lambda x, m=mode, a=antialias: [F.interpolate(x, scale_factor=s, mode=m, antialias=a) for s in (1.5, (2.0, 0.4))], bytes_of(1, 5, 11, 10).contiguous(memory_format=torch.channels_last))
    # Positions whose products and differences are rounded once.
    c.case("positions_rounded_once", lambda x, y: [F.interpolate(x, size=(5, 13), mode="bilinear"), F.interpolate(x, size=(13, 5), mode="bicubic"), F.interpolate(y, size=77, mode="linear")], r(2, 3, 9, 9), r(2, 3, 100))


def rearrangements(c):
    r = c.randn
    one = {
        "pixel_shuffle": (lambda x: F.pixel_shuffle(x, 2), (2, 12, 3, 5)), "pixel_shuffle_3d": (lambda x: F.pixel_shuffle(x, 3), (9, 2, 2)),
        "pixel_unshuffle": (lambda x: F.pixel_unshuffle(x, 2), (2, 3, 4, 6)), "channel_shuffle": (lambda x: F.channel_shuffle(x, 3), (2, 6, 4, 5)),
        "rot90": (torch.rot90, (3, 5)), "rot90_2": (lambda x: torch.rot90(x, 2), (3, 5)), "rot90_minus": (lambda x: torch.rot90(x, -1, (2, 0)), (3, 5, 2)),
        "fliplr": (torch.fliplr, (3, 5)), "flipud": (torch.flipud, (3, 5)),
        "diag": (torch.diag, (5,)), "diag_1": (lambda x: torch.diag(x, 1), (4,)), "diag_minus": (lambda x: torch.diag(x, -2), (4,)),
        "diag_matrix": (lambda x: torch.diag(x, 1), (4, 6)), "diag_embed": (torch.diag_embed, (2, 3, 4)),
        "diag_embed_dims": (lambda x: torch.diag_embed(x, 1, 0, 2), (2, 3)), "diag_embed_swapped": (lambda x: torch.diag_embed(x, 1, 2, 0), (2, 3)),
        "diagflat": (lambda x: torch.diagflat(x, -1), (2, 3)), "unfold_2d": (lambda x: F.unfold(x, (2, 3), padding=1), (2, 3, 5, 6)),
        "unfold_strided": (lambda x: F.unfold(x, 2, dilation=2, stride=2), (2, 3, 7, 6)), "fold": (lambda x: F.fold(x, (5, 6), (2, 3), padding=1), (2, 12, 36)),
        "fold_strided": (lambda x: F.fold(x, (4, 6), 2, stride=2), (2, 12, 6)),
        "atleast_1d": (torch.atleast_1d, ()), "atleast_2d": (torch.atleast_2d, (3,)), "atleast_3d": (torch.atleast_3d, (3, 4)),
        "roll": (lambda x: x.roll((1, -2), (0, 1)), (3, 5)), "tile": (lambda x: x.tile(2, 1, 3), (3, 5)),
        "repeat_interleave": (lambda x: x.repeat_interleave(3, 1), (2, 4)), "movedim": (lambda x: x.movedim((0, 1), (-1, 0)), (2, 3, 4)),
        "moveaxis": (lambda x: torch.moveaxis(x, 0, -1), (2, 3, 4)), "mH": (lambda x: x.mH, (2, 3, 4)), "adjoint": (lambda x: x.adjoint(), (3, 4)),
        "tensor_split": (lambda x: torch.tensor_split(x, 3, 1), (2, 7)), "tensor_split_at": (lambda x: torch.tensor_split(x, (1, 4), 1), (2, 7)),
        "hsplit": (lambda x: torch.hsplit(x, 2), (3, 4)), "vsplit": (lambda x: torch.vsplit(x, (1,)), (3, 4)), "dsplit": (lambda x: torch.dsplit(x, 2), (3, 4, 2)),
        "unsafe_chunk": (lambda x: torch.unsafe_chunk(x, 3), (7, 2)), "unsafe_split": (lambda x: torch.unsafe_split(x, 3), (7, 2)),
        "unfold_view": (lambda x: x.unfold(1, 3, 2), (2, 9)), "unfold_computed": (lambda x: (x * 2).unfold(-1, 4, 1).sum(-1), (2, 3, 9)),
    }
    for name, (f, shape) in one.items():
        c.case(name, f, r(*shape) if shape else r(1).reshape(()))
    c.case("pixel_shuffle_bf16", lambda x: F.pixel_shuffle(x, 2), r(1, 4, 3, 3, dtype=torch.bfloat16))
    many = {"hstack": (torch.hstack, [(3,), (4,)]), "hstack_2d": (torch.hstack, [(2, 3), (2, 4)]), "vstack": (torch.vstack, [(3,), (2, 3)]),
            "dstack": (torch.dstack, [(3,), (1, 3)]), "column_stack": (torch.column_stack, [(3,), (3, 2)]), "row_stack": (torch.row_stack, [(3,), (3,)]),
            "block_diag": (torch.block_diag, [(2, 3), (4,), (1, 2)]), "meshgrid": (lambda *t: torch.meshgrid(*t, indexing="ij"), [(3,), (4,), ()]),
            "meshgrid_xy": (lambda *t: torch.meshgrid(*t, indexing="xy"), [(3,), (4,)]), "cartesian_prod": (torch.cartesian_prod, [(3,), (2,), (4,)]),
            "broadcast_tensors": (torch.broadcast_tensors, [(3, 1), (4,)])}
    for name, (f, shapes) in many.items():
        call = f if name.startswith(("mesh", "cart", "broad", "block")) else (lambda f: lambda *t: f(t))(f)
        c.case(name, call, *[r(*s) if s else r(1).reshape(()) for s in shapes])
    for name, f in {"tril_indices": lambda x: x[tuple(torch.tril_indices(5, 7))], "tril_indices_up": lambda x: x[tuple(torch.tril_indices(5, 7, 2))],
                    "triu_indices": lambda x: x[tuple(torch.triu_indices(5, 7, 1))], "triu_indices_down": lambda x: x[tuple(torch.triu_indices(5, 7, -3))],
                    "tril_indices_down": lambda x: x[tuple(torch.tril_indices(5, 7, -3))]}.items():
        c.case(name, f, r(5, 7))


def fused_attention(c):
    """What one kernel computes whole: 16-bit floats, more than 16 rows. Lengths around the tiles, every depth's tiling, masks
    that hide steps and rows, layouts that need no copy and one that does."""
    sdpa = F.scaled_dot_product_attention
    halves = {name: dtype for name, dtype in (("f16", torch.float16), ("bf16", torch.bfloat16))}
    for short, dtype in halves.items():
        r = lambda *s, **k: c.randn(*s, dtype=dtype, **k)
        if dtype == torch.bfloat16:
            c.case("plain_bf16", sdpa, r(1, 1, 33, 64), r(1, 1, 70, 64), r(1, 1, 70, 64))
        c.case(f"causal_{short}", lambda q, k, v: sdpa(q, k, v, is_causal=True), r(1, 1, 197, 8), r(1, 1, 197, 8), r(1, 1, 197, 8))
    r = lambda *s: c.randn(*s, dtype=torch.bfloat16)
    c.case("deep_bf16", sdpa, r(1, 1, 18, 128), r(1, 1, 37, 128), r(1, 1, 37, 128))
    c.case("odd_mask", lambda q, k, v, m: sdpa(q, k, v, attn_mask=m), r(1, 2, 40, 16), r(1, 2, 67, 16), r(1, 2, 67, 16), r(40, 67))
    hidden = torch.arange(150)[None, :] <= torch.arange(150)[:, None]
    hidden[7] = False
    hidden[140] = False
    c.case("bool_mask_hidden_rows", lambda q, k, v, m: sdpa(q, k, v, attn_mask=m), r(1, 1, 150, 8), r(1, 1, 150, 8), r(1, 1, 150, 8), hidden)
    lowest = torch.zeros(150, 150).masked_fill(~hidden, torch.finfo(torch.bfloat16).min).bfloat16()
    c.case("lowest_mask_hidden_rows", lambda q, k, v, m: sdpa(q, k, v, attn_mask=m), r(1, 1, 150, 8), r(1, 1, 150, 8), r(1, 1, 150, 8), lowest)
    c.case("mask_a_column", lambda q, k, v, m: sdpa(q, k, v, attn_mask=m), r(2, 2, 20, 8), r(2, 2, 90, 8), r(2, 2, 90, 8), torch.arange(90)[None, None, None, :] < torch.tensor([33, 90])[:, None, None, None])
    c.case("one_batch", lambda q, k, v: sdpa(q, k, v), r(3, 19, 40), r(3, 5, 40), r(3, 5, 40))
    c.case("more_rows_than_columns", lambda q, k, v: sdpa(q, k, v, is_causal=True), r(1, 1, 200, 16), r(1, 1, 30, 16), r(1, 1, 30, 16))
    c.case("one_column", sdpa, r(1, 2, 17, 16), r(1, 2, 1, 16), r(1, 2, 1, 16))
    c.case("scale", lambda q, k, v: sdpa(q, k, v, scale=0.7), r(1, 2, 40, 16), r(1, 2, 40, 16), r(1, 2, 40, 16))
    nan = r(1, 2, 20, 8)
    nan[0, 0, 3, 2] = float("nan")
    c.case("nan", sdpa, nan, r(1, 2, 20, 8), r(1, 2, 20, 8))

    def packed(x):  # one projection's output, cut into heads: no copies
        q, k, v = x.split(32, dim=2)
        q, k, v = (y.view(2, 35, 4, 8).transpose(1, 2) for y in (q, k, v))
        return sdpa(q, k, v, is_causal=True).transpose(1, 2).reshape(2, 35, 32)
    c.case("packed", packed, r(2, 35, 96))
    c.case("other_layout", lambda q, k, v: sdpa(q.transpose(-1, -2), k.transpose(-1, -2), v), r(1, 2, 16, 30), r(1, 2, 16, 30), r(1, 2, 30, 16))
    h = lambda *s: c.randn(*s, dtype=torch.float16)
    c.case("with_neighbours", lambda q, k, v, w: torch.relu(sdpa(q * 2, k + 1, torch.tanh(v))) * w, h(1, 2, 34, 16), h(1, 2, 34, 16), h(1, 2, 34, 16), h(16))


def attention_forms(c):
    """Masks, causality with unequal lengths, hidden rows, groups, and the forms with several results."""
    sdpa = F.scaled_dot_product_attention
    r = c.randn
    causal = torch.arange(5)[None, :] <= torch.arange(5)[:, None]
    hidden = causal.clone()
    hidden[2] = False
    infinite = torch.zeros(5, 5).masked_fill(~hidden, float("-inf"))
    q = lambda *s, **k: (r(*s, **k), r(*s, **k), r(*s, **k))
    for short, dtype in FLOATS.items():
        c.case(f"hidden_row_{short}", lambda a, b, v, m: sdpa(a, b, v, attn_mask=m), *q(2, 3, 5, 8, dtype=dtype), hidden)
        c.case(f"causal_long_{short}", lambda a, b, v: sdpa(a, b, v, is_causal=True), r(2, 3, 4, 8, dtype=dtype), r(2, 3, 7, 8, dtype=dtype), r(2, 3, 7, 8, dtype=dtype))
        c.case(f"group_mask_{short}", lambda a, b, v, m: sdpa(a, b, v, attn_mask=m, enable_gqa=True), r(2, 6, 5, 8, dtype=dtype), r(2, 2, 5, 8, dtype=dtype), r(2, 2, 5, 8, dtype=dtype), r(2, 1, 5, 5, dtype=dtype))
    c.case("hidden_row_float", lambda a, b, v, m: sdpa(a, b, v, attn_mask=m), *q(2, 3, 5, 8), infinite)
    c.case("causal_short", lambda a, b, v: sdpa(a, b, v, is_causal=True), r(2, 3, 7, 8), r(2, 3, 4, 8), r(2, 3, 4, 8))
    c.case("mask_row", lambda a, b, v, m: sdpa(a, b, v, attn_mask=m), *q(2, 3, 5, 8), torch.tensor([True, True, False, True, False])[None, None, None].expand(2, 1, 1, 5))
    c.case("mask_heads", lambda a, b, v, m: sdpa(a, b, v, attn_mask=m), *q(2, 3, 5, 8), r(3, 1, 5))
    c.case("group_causal", lambda a, b, v: sdpa(a, b, v, is_causal=True, enable_gqa=True, scale=0.2), r(1, 4, 5, 8), r(1, 1, 5, 8), r(1, 1, 5, 8))
    c.case("three_dimensions", sdpa, r(3, 5, 8), r(3, 6, 8), r(3, 6, 4))
    c.case("two_dimensions", sdpa, r(5, 8), r(6, 8), r(6, 4))
    c.case("one_key", sdpa, r(2, 3, 5, 8), r(2, 3, 1, 8), r(2, 3, 1, 8))
    c.case("transposed", lambda a, b, v: sdpa(a.transpose(1, 2), b.transpose(1, 2), v.transpose(1, 2), is_causal=True).transpose(1, 2).reshape(2, 5, 24), *q(2, 5, 3, 8))
    c.case("cpu_flash", lambda a, b, v: aten._scaled_dot_product_flash_attention_for_cpu(a, b, v, 0.0, True), *q(2, 3, 5, 8))
    c.case("cpu_flash_mask", lambda a, b, v, m: aten._scaled_dot_product_flash_attention_for_cpu(a, b, v, attn_mask=m), *q(2, 3, 5, 8), r(2, 3, 5, 5))
    c.case("math", lambda a, b, v: aten._scaled_dot_product_attention_math(a, b, v), *q(2, 3, 5, 8))
    c.case("math_mask", lambda a, b, v, m: aten._scaled_dot_product_attention_math(a, b, v, m), *q(2, 3, 5, 8), causal)
    c.case("safe_softmax", lambda x, m: aten._safe_softmax(x + m, -1), r(2, 5, 5), infinite)

    def heads(name, *, weights, dtype=torch.float32, **options):
        names = ("in_proj_weight", "in_proj_bias", "out_proj.weight", "out_proj.bias")
        module = torch.nn.MultiheadAttention(12, 3, batch_first=True, **options).eval()
        found = dict(module.named_parameters())
        def run(x, y, *p):
            out = torch.func.functional_call(module, dict(zip(found, p)), (x, y, y), dict(need_weights=weights))
            return out if weights else out[0]
        c.case(name, run, r(2, 5, 12), r(2, 7, 12) if not options.get("add_bias_kv") else r(2, 7, 12), *[r(*t.shape, scale=0.3) for t in found.values()])
    heads("heads", weights=False)
    heads("heads_weights", weights=True)
    heads("heads_zero", weights=True, add_zero_attn=True)
    heads("heads_bias_kv", weights=False, add_bias_kv=True, bias=False)


def encoder_layers(c):
    """A transformer's layer, and its attention, as the one operator that torch.nn calls without gradients."""
    r = c.randn
    def weights(e, dtype):
        return r(3 * e, e, dtype=dtype, scale=0.3), r(3 * e, dtype=dtype), r(e, e, dtype=dtype, scale=0.3), r(e, dtype=dtype)
    def masks(n, h, q, k):
        later = torch.triu(torch.ones(q, k, dtype=torch.bool), 1)
        padded = torch.arange(k)[None, :] >= torch.tensor([k, k - 2, 1])[:n, None]
        both = (later[None, None] | padded[:, None, None]).expand(n, h, q, k).contiguous()
        return {"none": (None, None), "later": (later, 0), "padded": (padded, 1), "both": (both, 2)}
    mha, layer = aten._native_multi_head_attention, aten._transformer_encoder_layer_fwd
    for name, (mask, kind) in masks(3, 2, 5, 5).items():
        given = () if mask is None else (mask,)
        c.case(f"attention_{name}", lambda x, *p, kind=kind: mha(x, x, x, 6, 2, *p[:4], *p[4:] or (None,), True, True, kind), r(3, 5, 6), *weights(6, torch.float32), *given)
        for norm_first in (False, True):
            c.case(f"layer_{name}_{'first' if norm_first else 'last'}", lambda x, *p, f=norm_first, kind=kind: layer(x, 6, 2, *p[:4], f, f, 1e-5, *p[4:12], *p[12:] or (None,), kind),
                   r(3, 5, 6), *weights(6, torch.float32), r(6), r(6), r(6), r(6), r(11, 6), r(11), r(6, 11), r(6), *given)
    c.case("attention_heads", lambda x, *p: mha(x, x, x, 12, 3, *p, None, True, False), r(2, 7, 12), *weights(12, torch.float32))
    c.case("attention_values", lambda x, *p: mha(x, x, x, 12, 4, *p, None, False)[0], r(1, 3, 12), *weights(12, torch.float32))
    c.case("layer_bf16", lambda x, *p: layer(x, 8, 2, *p[:4], True, False, 1e-5, *p[4:12]), *[t.bfloat16() for t in (r(2, 5, 8), *weights(8, torch.float32), r(8), r(8), r(8), r(8), r(16, 8), r(16), r(8, 16), r(8))])


def elementwise_extras(c):
    r = c.randn
    special = lambda dtype=torch.float32: c.special(dtype)
    one = dict(threshold=lambda x: F.threshold(x, 0.1, 20.0), hardshrink=F.hardshrink, softshrink=F.softshrink, rrelu=lambda x: F.rrelu(x), softsign=F.softsign,
               tanhshrink=F.tanhshrink, celu=lambda x: F.celu(x, 0.7), selu=F.selu, glu=lambda x: F.glu(x, -1), sinc=torch.sinc, deg2rad=torch.deg2rad,
               rad2deg=torch.rad2deg, nan_to_num=torch.nan_to_num, isposinf=torch.isposinf, isneginf=torch.isneginf,
               dropout=lambda x: F.dropout(x, 0.5, False), alpha_dropout=lambda x: F.alpha_dropout(x, 0.5, False), dropout2d=lambda x: F.dropout2d(x[None, None], 0.5, False),
               feature_alpha=lambda x: F.feature_alpha_dropout(x[None, None], 0.5, False), float_power=lambda x: torch.float_power(x, 3.0))
    for name, f in one.items():
        for short, dtype in FLOATS.items():
            c.case(f"{name}_{short}", f, r(5, 14, dtype=dtype))
    for name in "threshold hardshrink softshrink softsign isposinf isneginf sinc".split():
        c.case(f"{name}_special", one[name], special())
    c.case("nan_to_num_values", lambda x: torch.nan_to_num(x, 1.0, 2.0, 3.0), special())
    largest = lambda x: (torch.nan_to_num(x) == torch.finfo(x.dtype).max, torch.nan_to_num(x) == torch.finfo(x.dtype).min, torch.nan_to_num(x, posinf=1.0, neginf=-1.0))
    for short, dtype in FLOATS.items():
        c.case(f"nan_to_num_largest_{short}", largest, special(dtype))
    c.case("nan_to_num_i64", torch.nan_to_num, c.ints(5))
    two = dict(logaddexp=torch.logaddexp, logaddexp2=torch.logaddexp2, prelu=lambda x, y: F.prelu(x, y[0, :1]), heaviside=torch.heaviside, isclose=lambda x, y: torch.isclose(x, x + y * 1e-5, rtol=1e-5),
               fmax=torch.fmax, lerp=lambda x, y: torch.lerp(x, y, 0.3))
    for name, f in two.items():
        c.case(name, f, r(5, 14), r(5, 14))
    for name in ("logaddexp", "logaddexp2", "heaviside"):
        values = torch.tensor([float("inf"), float("-inf"), 0.0, 1.0, float("nan")])
        c.case(f"{name}_special", two[name], values[:, None].expand(5, 5).contiguous(), values)
    values = torch.tensor([float("inf"), 0.0, 1.0, float("nan"), 2.5])
    c.case("xlogy_special", torch.xlogy, values[:, None].expand(5, 5).contiguous(), values)
    c.case("xlogy", torch.xlogy, r(5, 14), r(5, 14, positive=True))
    c.case("xlogy_numbers", lambda x: (torch.xlogy(x, 2.5), torch.xlogy(2, x.abs() + 1), torch.xlogy(0, x.abs())), r(5, 7))
    c.case("isclose_special", lambda x, y: (torch.isclose(x, y), torch.isclose(x, y, equal_nan=True)), values[:, None].expand(5, 5).contiguous(), values)
    c.case("isclose_i64", lambda x, y: torch.isclose(x, y, rtol=0.5), c.ints(40), c.ints(40))
    c.case("prelu_channels", F.prelu, r(2, 3, 5), r(3))
    c.case("subtract", lambda x, y: torch.subtract(x, y, alpha=2), r(5), r(5))
    c.case("ldexp", torch.ldexp, r(7), c.ints(7))
    c.case("scalar_forms", lambda x: (torch.remainder(7, x), torch.bitwise_and(5, x), torch.bitwise_or(5, x), torch.bitwise_xor(5, x)), c.ints(20, low=1, high=9))
    for mode in ("reflect", "replicate", "circular"):
        c.case(f"pad_{mode}_1d", lambda x, m=mode: F.pad(x, (2, 3), mode=m), r(2, 3, 5))
        c.case(f"pad_{mode}_2d", lambda x, m=mode: F.pad(x, (1, 2, 0, 3), mode=m), r(2, 3, 4, 5))
        c.case(f"pad_{mode}_3d", lambda x, m=mode: F.pad(x, (1, 1, 0, 2, 1, 0), mode=m), r(1, 2, 3, 4, 5, dtype=torch.bfloat16))


def lookups(c):
    r = c.randn
    for name, f in dict(cummax=torch.cummax, cummin=torch.cummin).items():
        c.case(f"{name}", lambda x, f=f: f(x, 1), r(3, 17))
        c.case(f"{name}_ties", lambda x, f=f: f(x, 0), c.ints(13, 3, low=0, high=4))
        c.case(f"{name}_nan", lambda x, f=f: f(x, 0), torch.tensor([0.0, 2.0, 1.0, float("nan"), 3.0, float("nan"), 4.0]))
    c.case("logcumsumexp", lambda x: x.logcumsumexp(1), r(3, 37, scale=20.0))
    c.case("logcumsumexp_f16", lambda x: x.logcumsumexp(0), r(9, 3, dtype=torch.float16))
    c.case("logcumsumexp_one", lambda x: x.logcumsumexp(1), r(3, 1))
    sequence = torch.tensor([-1.5, -0.5, 0.0, 0.0, 0.7, 2.0])
    queries = torch.cat([r(9), sequence, torch.tensor([float("nan"), float("inf"), float("-inf")])])
    c.case("searchsorted", torch.searchsorted, sequence, queries)
    c.case("searchsorted_right", lambda s, q: torch.searchsorted(s, q, right=True, out_int32=True), sequence, queries)
    c.case("searchsorted_side", lambda s, q: torch.searchsorted(s, q, side="right"), sequence, queries)
    c.case("searchsorted_rows", torch.searchsorted, torch.sort(r(3, 7), -1)[0], r(3, 4))
    c.case("bucketize", torch.bucketize, queries, sequence)
    c.case("bucketize_i64", lambda q, b: torch.bucketize(q, b, right=True), c.ints(30), torch.tensor([-3, 0, 2, 4]))
    c.case("isin", torch.isin, c.ints(5, 6), c.ints(4))
    c.case("isin_invert", lambda a, b: torch.isin(a, b, invert=True), c.ints(30), c.ints(2, 2))
    # So many that they are sorted and looked up.
    many = lambda n, dtype: c.ints(n).to(dtype) * 37 % 101 + torch.arange(n).to(dtype) % 7 * 1000
    c.case("isin_many", lambda a, b: (torch.isin(a, b), torch.isin(a, b.double(), invert=True)), many(4500, torch.int16), many(4001, torch.int16) + 2000)
    odd = torch.tensor([float("nan"), float("inf"), 0.0, -0.0, -3.0])
    c.case("isin_many_special", torch.isin, torch.cat([odd, r(4500).round()]), torch.cat([odd[:3], (r(4000) * 3).round() * 2 + 0.5]))
    c.case("searchsorted_long", lambda s, q: (torch.searchsorted(s, q), torch.bucketize(q, s, right=True)), torch.sort(r(1025))[0], torch.cat([r(40), odd]))
    c.case("isin_number", lambda a: torch.isin(a, 3), c.ints(30))
    c.case("one_hot", lambda x: F.one_hot(x, 7), c.ints(3, 5, low=0, high=7))
    c.case("count_nonzero", lambda x: (torch.count_nonzero(x), torch.count_nonzero(x, 1), torch.count_nonzero(x, (0, 2))), c.ints(4, 5, 6, low=0, high=2))
    holes = lambda *s: torch.where(c.bools(*s), r(*s), torch.full(s, float("nan")))
    c.case("nansum", lambda x: (x.nansum(), x.nansum(1, keepdim=True)), holes(5, 9))
    c.case("nanmean", lambda x: (x.nanmean(), x.nanmean(1)), holes(5, 9))
    c.case("sum_to_size", lambda x: x.sum_to_size(3, 1), r(2, 3, 5))
    c.case("take", torch.take, r(4, 5), c.ints(3, 2, low=-20, high=20))
    c.case("put", lambda x, i, s: x.put(i, s), r(4, 5), torch.tensor([3, -1, 7]), r(3))
    c.case("put_accumulate", lambda x, i, s: x.put(i, s, accumulate=True), r(4, 5), torch.tensor([3, 3, 7]), r(3))
    c.case("index_fill", lambda x, i: x.index_fill(1, i, 2.5), r(4, 5), torch.tensor([0, 3]))
    c.case("index_fill_tensor", lambda x, i, v: x.index_fill(0, i, v), r(4, 5), torch.tensor([0, 3]), torch.tensor(7.0))
    c.case("masked_scatter", lambda x, m, s: x.masked_scatter(m, s), r(4, 5), c.bools(4, 5), r(20))
    c.case("masked_scatter_rows", lambda x, m, s: x.masked_scatter(m[:, :, None], s), r(2, 6, 3), torch.tensor([[0, 1, 1, 0, 0, 0], [1, 0, 0, 0, 1, 1]]).bool(), r(5, 3))
    index = c.ints(3, 5, low=0, high=4)
    for self_too in (True, False):
        c.case(f"scatter_mean_{self_too}", lambda x, i, s, k=self_too: x.scatter_reduce(0, i, s, "mean", include_self=k), r(4, 5), index, r(3, 5))
    c.case("scatter_mean_i64", lambda x, i, s: x.scatter_reduce(0, i, s, "mean"), c.ints(4, 5), index, c.ints(3, 5))
    c.case("scatter_add_value", lambda x, i: torch.scatter(x, 0, i, 2.0, reduce="add"), r(4, 5), index)
    table, ids = r(11, 6), c.ints(13, low=0, high=11)
    offsets = torch.tensor([0, 3, 3, 9])
    for mode in ("sum", "mean", "max"):
        c.case(f"embedding_bag_{mode}", lambda w, i, o, m=mode: F.embedding_bag(i, w, o, mode=m), table, ids, offsets)
        c.case(f"embedding_bag_padded_{mode}", lambda w, i, m=mode: F.embedding_bag(i, w, mode=m, padding_idx=2), table, c.ints(4, 3, low=1, high=5))
    c.case("embedding_bag_weights", lambda w, i, o, s: F.embedding_bag(i, w, o, mode="sum", per_sample_weights=s, include_last_offset=True), table, ids, torch.tensor([0, 3, 9, 13]), r(13))
    c.case("embedding_bag_bf16", lambda w, i: F.embedding_bag(i, w, mode="mean"), table.bfloat16(), c.ints(4, 3, low=0, high=11))
    c.case("embedding_padding", lambda w, i: F.embedding(i, w, padding_idx=3), table, ids)


def scatter_modes(c):
    r = c.randn
    dtypes = dict(f32=torch.float32, f16=torch.float16, bf16=torch.bfloat16, f64=torch.float64, i64=torch.int64, i32=torch.int32, i16=torch.int16, i8=torch.int8, u8=torch.uint8)
    index = c.ints(13, 5, low=0, high=4)  # places are hit several times
    for way in ("sum", "prod", "amax", "amin"):
        for name, dtype in dtypes.items():
            floating = dtype.is_floating_point
            x = r(4, 5).to(dtype) if floating else c.ints(4, 5, low=0, high=4).to(dtype)
            source = r(13, 5).to(dtype) if floating else c.ints(13, 5, low=0, high=4).to(dtype)
            if way == "prod" and floating:
                source = (source.sign() * (source.abs() + 0.5)).clamp(-1.5, 1.5)  # products neither vanish nor explode
            hits = 4 if dtype == torch.bfloat16 else 13  # every hit rounds
            for self_too in (True, False):
                c.case(f"{way}_{name}_{'with' if self_too else 'without'}_self", lambda x, i, s, w=way, k=self_too: x.scatter_reduce(0, i, s, w, include_self=k), x, index[:hits], source)
        special = torch.tensor([1.0, math.nan, -math.inf, 2.0, -0.5, math.inf])
        c.case(f"{way}_nan", lambda x, i, s, w=way: x.scatter_reduce(0, i, s, w), torch.tensor([0.5, 1.5, 2.5, 3.5, 4.5, 5.5, 6.5]), torch.tensor([0, 1, 2, 0, 4, 5]), special)
        c.case(f"{way}_nothing", lambda x, i, s, w=way: x.scatter_reduce(0, i, s, w), r(3), torch.zeros(0, dtype=torch.int64), r(0))
        c.case(f"{way}_dim", lambda x, i, s, w=way: x.scatter_reduce(-1, i, s, w), r(2, 3, 7), c.ints(2, 3, 11, low=0, high=7), r(2, 3, 13))
        c.case(f"{way}_in_place", lambda x, i, s, w=way: (x * 2).scatter_reduce_(1, i, s, w), r(3, 4), c.ints(3, 6, low=0, high=4), r(3, 6))
    c.case("multiply", lambda x, i, s: torch.scatter(x, 0, i, s, reduce="multiply"), r(4, 5), torch.tensor([[0, 1, 2, 3, 0], [1, 1, 3, 2, 2]]), r(2, 5))
    c.case("multiply_value", lambda x, i: torch.scatter(x, 0, i, 2.0, reduce="multiply"), r(4, 5), torch.tensor([[0, 1, 2, 3, 0], [1, 1, 3, 2, 2]]))
    for way in ("prod", "amax", "amin", "mean"):
        for self_too in (True, False):
            c.case(f"index_reduce_{way}_{'with' if self_too else 'without'}_self", lambda x, i, s, w=way, k=self_too: x.index_reduce(1, i, s, w, include_self=k), r(3, 5, 2), torch.tensor([4, 0, 4, 2]), r(3, 4, 2))
    c.case("index_reduce_in_place", lambda x, i, s: (x + 1).index_reduce_(-1, i, s, "amax"), r(3, 5), torch.tensor([4, 0, 4]), r(3, 3))
    c.case("chained", lambda x, i, s: x.scatter_reduce(0, i, s, "amax").scatter_reduce(0, i, s, "amin", include_self=False).relu(), r(5), c.ints(9, low=0, high=5), r(9))


def add(family):
    for f in (attention_forms, encoder_layers, fused_attention, elementwise_extras, lookups, scatter_modes, batch_normalization, recurrent, products, distances, losses, resampling, rearrangements):
        family(f)
