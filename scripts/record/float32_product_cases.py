"""Cases of products of 16-bit floats that are float32 (mm.dtype and its kin), which PyTorch has on GPUs alone:
definitions stand in for the kernels. operator_cases.py calls add(family), which registers them with it."""
import torch

from recorder import FLOATS

aten = torch.ops.aten
LIBRARY = torch.library.Library("aten", "IMPL")


def of(operator):
    def product(a, b, out_dtype):
        wide = torch.float64 if a.dtype == torch.float64 else torch.float32
        return operator(a.to(wide), b.to(wide)).to(wide if wide == torch.float64 else out_dtype)
    return product


# addmm.dtype and baddbmm.dtype cannot be exported: their shapes are asked of a decomposition that takes out_dtype for beta.
for name in ("mm", "bmm"):
    LIBRARY.impl(f"{name}.dtype", of(getattr(aten, name).default), "CPU")


def float32_products(c):
    for short, dtype in FLOATS.items():
        if short == "f32":
            continue
        d = lambda *s, scale=1.0: (c.ints(*s, low=-9, high=10) * (0.25 * scale)).to(dtype)
        f32 = torch.float32
        c.case(f"mm_{short}", lambda a, b: aten.mm.dtype(a, b, f32), d(3, 24), d(24, 5))
        c.case(f"mm_transposed_{short}", lambda a, b: aten.mm.dtype(a.t(), b.t(), f32) * 2, d(12, 5), d(3, 12))
        c.case(f"bmm_{short}", lambda a, b: torch.softmax(aten.bmm.dtype(a, b.transpose(1, 2), f32), -1), d(2, 3, 16), d(2, 5, 16))
        c.case(f"same_{short}", lambda a, b: aten.mm.dtype(a, b, dtype), d(3, 16), d(16, 4))
        c.case(f"no_terms_{short}", lambda a, b: aten.mm.dtype(a, b, f32), d(3, 0), d(0, 4))
        # Scores beyond the steps of 16 bits: softmax over them wants their float32 differences.
        c.case(f"scores_{short}", lambda q, k, v: torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(q, k, v, scale=1.0)[1],
               d(1, 1, 3, 24, scale=6.0), d(1, 1, 5, 24, scale=6.0), d(1, 1, 5, 24))


def add(family):
    family(float32_products)
