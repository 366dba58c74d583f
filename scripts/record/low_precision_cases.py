"""Cases of serving: products with weights of 8 bits, products of groups. operator_cases.py calls add(family), which
registers them with it."""
import torch

from recorder import FLOATS


def low_precision(c):
    r, i8 = c.randn, lambda *s: c.ints(*s, low=-128, high=128, dtype=torch.int8)
    int8pack, grouped = torch.ops.aten._weight_int8pack_mm, torch._grouped_mm
    for short, dtype in FLOATS.items():
        d = lambda *s, **k: c.randn(*s, dtype=dtype, **k)
        c.case(f"int8_{short}", lambda x, w, s: int8pack(x, w, s), d(7, 32), i8(16, 32), d(16, scale=0.01, positive=True))
        c.case(f"int8_relu_{short}", lambda x, w, s, b: (int8pack(x.relu(), w, s) + b).relu(), d(3, 64), i8(48, 64), d(48, scale=0.01), d(48))
    c.case("int8_one_row", lambda x, w, s: int8pack(x, w, s), r(1, 32), i8(16, 32), r(16))
    b = lambda *s: c.randn(*s, dtype=torch.bfloat16)  # what export takes
    ends = lambda *e: torch.tensor(e, dtype=torch.int32)

    def apart(x, w, rows):  # no product of groups is there in float64
        return torch.cat([part @ matrix for part, matrix in zip(x.split(rows.tolist()), w)])

    c.case("batches", lambda x, w: grouped(x, w), b(3, 5, 16), b(3, 16, 8))
    c.case("batches_transposed", lambda x, w: grouped(x, w.transpose(1, 2)), b(2, 3, 16), b(2, 8, 16))
    c.case("groups", lambda x, w, e: grouped(x, w, offs=e), b(13, 16), b(4, 16, 8), ends(3, 3, 8, 13))
    c.case("groups_of_experts", lambda x, w, n: grouped(x * 0.25, w.transpose(1, 2), offs=n.cumsum(0).to(torch.int32)).sin(), b(6, 16), b(3, 8, 16), torch.tensor([4, 0, 2]),
           reference=lambda x, w, n: apart(x * 0.25, w.transpose(1, 2), n).sin())
    import transformers.integrations.moe  # registers the operators
    experts, experts_gradients = torch.ops.transformers.grouped_mm_fallback, torch.ops.transformers.grouped_mm_fallback_backward
    for short, dtype in FLOATS.items():
        d = lambda *s: c.randn(*s, dtype=dtype)
        c.case(f"experts_{short}", lambda x, w, e: experts(x, w, e), d(13, 16), d(4, 16, 8), ends(3, 3, 8, 11))
        c.case(f"experts_gradients_{short}", lambda x, w, e, g: experts_gradients(x, w, e, g), d(13, 16), d(4, 16, 8), ends(3, 3, 8, 11), d(13, 8))
    c.case("one_group", lambda x, w, e: grouped(x, w, offs=e), b(5, 16), b(1, 16, 8), ends(5))
    w = b(2, 16, 8)
    w[1, 3, 2] = torch.inf
    c.case("groups_special", lambda x, w, e: grouped(x, w, offs=e), b(5, 16), w, ends(2, 5))


def add(family):
    family(low_precision)
