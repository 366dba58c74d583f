"""Cases of operators over lists of tensors (aten._foreach_*), and of an optimizer's step made of them. operator_cases.py calls
add(family), which registers them with it. One case holds many operators: a result is a row of what a case returns."""
import math

import torch
import torch.optim.adam as adam_module
from torch.optim.adam import adam


def foreach(c):
    unary(c)
    binary(c)
    ternary(c)
    others(c)
    optimizer_steps(c)


def stacked(lists):
    return torch.stack([x for one in lists for x in one])


def unary(c):
    names = ("abs ceil cos cosh erf erfc exp expm1 floor frac log log10 log1p log2 neg reciprocal round rsqrt sigmoid sign sin "
             "sinh sqrt tan tanh trunc acos asin atan").split()

    def run(names, *x):
        return stacked(getattr(torch, "_foreach_" + name)(list(x)) for name in names)
    c.case("unary_special", lambda x: run(names, x), c.special())

    def write(*x):
        x = [t.clone() for t in x]
        for name in ("abs", "sqrt", "exp", "neg", "reciprocal"):
            getattr(torch, f"_foreach_{name}_")(x)
        zeros = [t.clone() for t in x]
        torch._foreach_zero_(zeros)
        return *x, zeros[0]
    c.case("unary_in_place", write, c.randn(7, 3), c.randn(0, 2), c.randn())


def binary(c):
    names = ("add", "sub", "mul", "div", "maximum", "minimum", "clamp_min", "clamp_max", "pow")

    def run(*x):
        results = []
        for name in names:
            f, a, b = getattr(torch, "_foreach_" + name), list(x[:2]), list(x[2:])
            results += [f(a[:1], b[:1]), f(a[:1], 0.75)] if name in ("add", "maximum", "clamp_max") else [f(a, [0.5, 2.0])]
        return stacked(results)
    c.case("binary", run, *(c.randn(5, positive=i < 2) for i in range(4)))
    c.case("binary_special", lambda a, b: stacked(getattr(torch, "_foreach_" + name)([a], [b]) for name in names[:6]),
           c.special(), c.special().roll(4))

    def write(*x):
        a, b = [t.clone() for t in x[:4]], [t.t() if t.dim() == 2 else t for t in x[4:]]
        for name in names:
            getattr(torch, f"_foreach_{name}_")(a, b)
        return tuple(a)
    shapes = ((7, 3), (2, 0), (1,), ())
    c.case("binary_in_place", write, *(c.randn(*s, positive=True) for s in shapes),
           *(c.randn(*s[::-1], positive=True) for s in shapes))

    def mixed(a, b, x, y):
        return *torch._foreach_add([a, b], [x, y], alpha=2), *torch._foreach_sub([b, a.t()], [y, x.t()], alpha=3)
    c.case("binary_mixed", mixed, c.randn(5, 5, dtype=torch.bfloat16), c.ints(2, 5), c.randn(5, 1), c.randn(1, 5))


def ternary(c):
    def run(dtype, *x):
        a, b, d = list(x[:2]), list(x[2:4]), list(x[4:])
        results = []
        for f in (torch._foreach_addcmul, torch._foreach_addcdiv):
            results += [f(a, b, d, [1.0, -2.0])] if dtype == torch.bfloat16 else [f(a, b, d, 0.3)]
        if dtype == torch.bfloat16:
            return stacked(results + [torch._foreach_lerp(a, b, [0.1, 0.9])])
        return stacked(results + [torch._foreach_lerp(a, b, 0.9), torch._foreach_lerp(a, b, d)])
    for short, dtype in (("f32", torch.float32), ("bf16", torch.bfloat16)):
        c.case(f"ternary_{short}", lambda *x, dtype=dtype: run(dtype, *x),
               *(c.randn(5, dtype=dtype, positive=i > 3) for i in range(6)))

    def write(*x):
        a, b = [t.clone() for t in x[:2]], list(x[2:4])
        torch._foreach_addcmul_(a, b, b, value=-0.5)
        torch._foreach_lerp_(a, b, 0.25)
        torch._foreach_addcdiv_(a, b, list(x[4:]))
        return tuple(a)
    c.case("ternary_in_place", write, *(c.randn(*s, positive=i > 3) for i, s in enumerate(((7, 3), (11,)) * 3)))
    c.case("lerp_special", lambda a, b: stacked([torch._foreach_lerp([a], [b], 0.25)]), c.special(), c.special().roll(3))


def others(c):
    def clip(*x):
        norms = torch._foreach_norm(list(x))
        total = torch.linalg.vector_norm(torch.stack(norms))
        return *torch._foreach_mul(list(x), (1.0 / (total + 1e-6)).clamp(max=1.0)), *torch._foreach_norm(list(x), math.inf)
    c.case("clip_by_norm", clip, c.randn(7, 3), c.randn(31))
    c.case("norm_bf16", lambda *x: (*torch._foreach_norm(list(x), 1), *torch._foreach_max(list(x))),
           c.randn(33, dtype=torch.bfloat16))

    def copy(a, b, x, y):
        torch._foreach_copy_([a, b], [x, y])
        return a + 1, b
    c.case("copy_", copy, c.randn(4, 3), c.randn(5, dtype=torch.bfloat16), c.randn(3), c.randn(5))

    def rows(x):
        parts = list(x.unbind(0))
        torch._foreach_mul_(parts[1:], 2.0)
        torch._foreach_add_(parts, [1.0, 2.0, 3.0])
        return x.sum(0)
    c.case("rows_of_one", rows, c.randn(3, 5))


def optimizer_steps(c):
    # On the CPU, too, as on a GPU: counts of steps are tensors.
    adam_module._get_capturable_supported_devices = lambda *a, **k: ["cpu", "cuda"]

    def step(self, *grads):
        def of(kind):
            return [getattr(self, f"{kind}{i}") for i in range(len(grads))]
        adam(of("p"), list(grads), of("m"), of("v"), [], of("t"), foreach=True, capturable=True, differentiable=False, fused=False,
             grad_scale=None, found_inf=None, has_complex=False, amsgrad=False, beta1=0.9, beta2=0.999, lr=1e-2, weight_decay=0.01,
             eps=1e-8, maximize=False)
        return self.p0 * 2  # an export needs a result

    for short, dtype, shapes in (("f32", torch.float32, ((3, 5), (2, 0), (7,))), ("bf16", torch.bfloat16, ((3, 5), (7,)))):
        buffers = {}
        for i, shape in enumerate(shapes):
            buffers.update({f"p{i}": c.randn(*shape, dtype=dtype), f"m{i}": c.randn(*shape, dtype=dtype),
                            f"v{i}": c.randn(*shape, dtype=dtype, positive=True), f"t{i}": torch.tensor(3.0)})
        c.case(f"adam_{short}", step, *(c.randn(*shape, dtype=dtype) for shape in shapes), buffers=buffers)


def add(family):
    family(foreach)
