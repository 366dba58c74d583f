"""Cases of custom operators (graphs/custom_operators has their rows and kernels): what is fused around them, views as
inputs, results that nobody wants. operator_cases.py calls add(family), which registers them with it; run by itself, this
records the two examples of docs/custom-operators.md."""
import os
import sys

import torch
import torch.nn.functional as F

from recorder import FLOATS

WIDE = {torch.float16: torch.float32, torch.bfloat16: torch.float32}


@torch.library.custom_op("mylib::fused_rope", mutates_args=())
def fused_rope(q: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, heads: int = 1, eps: float = 1e-5) -> tuple[torch.Tensor, torch.Tensor]:
    x = q.to(WIDE.get(q.dtype, q.dtype)).unflatten(2, (heads, -1))
    scale = torch.rsqrt(x.square().mean(-1) + eps)
    a, b = (x * scale.unsqueeze(-1)).chunk(2, -1)
    c, s = cos.unsqueeze(1), sin.unsqueeze(1)
    return torch.cat([a * c - b * s, b * c + a * s], -1).flatten(2).to(q.dtype).contiguous(), scale


@fused_rope.register_fake
def _(q, cos, sin, heads=1, eps=1e-5):
    return torch.empty_like(q, memory_format=torch.contiguous_format), cos.new_empty(q.shape[0], q.shape[1], heads)


@torch.library.custom_op("mylib::wkv", mutates_args=())
def wkv(decay: torch.Tensor, bonus: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    w, mixed = -decay.exp(), torch.empty_like(value, memory_format=torch.contiguous_format)
    sums, weight = torch.zeros_like(value[:, 0]), torch.zeros_like(value[:, 0])
    largest = torch.full_like(value[:, 0], -1e38)
    for t in range(value.shape[1]):
        k, v = key[:, t], value[:, t]
        most = torch.maximum(largest, bonus + k)
        old, now = (largest - most).exp(), (bonus + k - most).exp()
        mixed[:, t] = (old * sums + now * v) / (old * weight + now)
        most = torch.maximum(largest + w, k)
        old, now = (largest + w - most).exp(), (k - most).exp()
        sums, weight, largest = old * sums + now * v, old * weight + now, most
    return mixed, torch.stack([sums, weight, largest], 1)


@wkv.register_fake
def _(decay, bonus, key, value):
    return torch.empty_like(value, memory_format=torch.contiguous_format), value.new_empty(value.shape[0], 3, value.shape[2])


def angles(length, half):
    at = torch.arange(length).unsqueeze(1) * 10000.0 ** (-torch.arange(half) / half)
    return at.cos(), at.sin()


def custom_operators(c):
    r = c.randn
    for short, dtype in FLOATS.items():
        cos, sin = angles(5, 7)
        c.case(f"rope_{short}", lambda q, x, y: fused_rope(q, x, y, 3), r(2, 5, 42, dtype=dtype), cos, sin)
    cos, sin = angles(7, 4)
    c.case("rope_fused_around", lambda x, y, z, a, b: (lambda o: o[0].relu() + x.sin() * o[1].sum())(fused_rope(F.silu(x + y) * z, a, b, 2, 1e-3)), r(3, 7, 16), r(16), r(3, 7, 1), cos, sin)
    c.case("rope_of_views", lambda x, a, b: fused_rope(x.transpose(0, 1)[:, :, 4:], a[1:8], b[1:8], eps=0.5), r(7, 2, 12), *angles(9, 4))
    c.case("rope_of_one_view", lambda x, a, b: fused_rope(x[1:2], a, b, heads=2)[0], r(3, 7, 16), cos, sin)
    c.case("rope_scale_alone", lambda x, a, b: fused_rope(x, a, b)[1] * 2, r(2, 7, 8), cos, sin)
    c.case("rope_twice", lambda x, a, b: fused_rope(fused_rope(x, a, b)[0] + 1, b, a, 1, 0.25)[0], r(2, 7, 8), cos, angles(7, 4)[1])
    c.case("rope_empty", lambda x, a, b: fused_rope(x, a, b), r(0, 7, 8), cos, sin)
    c.case("wkv", wkv, r(5), r(5), r(2, 11, 5), r(2, 11, 5))
    c.case("wkv_of_projections", lambda x, w, u, k, v, o: torch.sigmoid(x) * (wkv(w, u, x @ k, x @ v)[0] @ o), r(2, 13, 8), r(7), r(7), r(8, 7), r(8, 7), r(7, 8))
    c.case("wkv_of_strided_keys", lambda x, w, u, v: wkv(w, u, x.permute(2, 0, 1)[:, ::2], v + 1), r(14, 3, 2), r(3), r(3), r(2, 7, 3))
    c.case("wkv_of_one_key", lambda x, w, u, v: wkv(w, u, x.expand(2, 4, 70), v), r(1, 1, 70), r(70), r(70), r(2, 4, 70))
    c.case("wkv_state_alone", lambda w, u, k, v: wkv(w, u, k, v)[1][:, 0] + u, r(5), r(5), r(1, 1, 5), r(1, 1, 5))


class Mixer(torch.nn.Module):
    """RWKV's mixing over time, between projections."""

    def __init__(self, channels):
        super().__init__()
        self.norm = torch.nn.LayerNorm(channels)
        self.key, self.value, self.gate, self.out = (torch.nn.Linear(channels, channels, bias=False) for _ in range(4))
        self.decay = torch.nn.Parameter(torch.linspace(-3, 1, channels))
        self.bonus = torch.nn.Parameter(torch.linspace(-1, 1, channels))

    def forward(self, x):
        y = self.norm(x)
        mixed, state = torch.ops.mylib.wkv(self.decay, self.bonus, self.key(y), self.value(y))
        return x + self.out(torch.sigmoid(self.gate(y)) * mixed), state


class Rotated(torch.nn.Module):
    """Queries with normalized heads and rotary positions."""

    def __init__(self, channels, heads):
        super().__init__()
        self.heads, self.query = heads, torch.nn.Linear(channels, channels)

    def forward(self, x, cos, sin):
        q, scale = torch.ops.mylib.fused_rope(self.query(x), cos, sin, heads=self.heads)
        return F.gelu(q), scale.amax(-1)


def record_examples(folder):
    from safetensors.torch import save_file
    torch.manual_seed(7)
    batch, time = torch.export.Dim("batch", min=1, max=64), torch.export.Dim("time", min=1, max=4096)
    mixer, rotated = Mixer(16).eval(), Rotated(24, 3).eval()
    runs = {
        "wkv": (mixer, [(torch.randn(2, 12, 16),), (torch.randn(5, 31, 16),), (torch.randn(1, 1, 16),)], ({0: batch, 1: time},)),
        "fused_rope": (rotated, [(torch.randn(2, 9, 24), *angles(9, 4))], None),
    }
    for name, (model, inputs, dynamic) in runs.items():
        path = os.path.join(folder, name)
        os.makedirs(path, exist_ok=True)
        with torch.no_grad():
            program = torch.export.export(model, inputs[0], dynamic_shapes=dynamic, strict=False)
            for node in program.graph.nodes:
                if "stack_trace" in node.meta:  # names no folder of this machine
                    for installed in (os.path.dirname(__file__), os.path.dirname(os.path.dirname(torch.__file__))):
                        node.meta["stack_trace"] = node.meta["stack_trace"].replace(installed + os.sep, "")
            torch.export.save(program, os.path.join(path, "model.pt2"))
            for i, given in enumerate(inputs):
                names = ("x", "cos", "sin")
                save_file({n: x.contiguous() for n, x in zip(names, given)}, os.path.join(path, f"inputs_{i}.safetensors"))
                save_file({f"output_{k}": x.contiguous() for k, x in enumerate(model(*given))}, os.path.join(path, f"expected_{i}.safetensors"))


def add(family):
    family(custom_operators)


if __name__ == "__main__":
    record_examples(sys.argv[1])
