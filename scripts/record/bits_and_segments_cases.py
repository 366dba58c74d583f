"""Cases of copies in place of views, bits seen as other dtypes, and numerical operators over rows and segments.
operator_cases.py calls add(family), which registers them with it."""
import math

import torch
import torch.nn.functional as F

A = torch.ops.aten
NARROW = {"f16": torch.float16, "bf16": torch.bfloat16, "i16": torch.int16, "u8": torch.uint8, "i8": torch.int8}
WIDE = {"f32": torch.float32, "i32": torch.int32, "i64": torch.int64, "f64": torch.float64}


def view_copies(c):
    x = c.randn(3, 5, 4)
    c.case("alias", lambda x: A.alias_copy(x), x)
    c.case("as_strided", lambda x: A.as_strided_copy(x, [3, 2], [4, 1], 2), x)
    c.case("diagonal", lambda x: A.diagonal_copy(x, 1, -2, -1), x)
    c.case("expand", lambda x: A.expand_copy(x, [2, -1, 5, 4]), x)
    c.case("permute_transposed", lambda x: A.permute_copy(x.transpose(0, 2), [1, 0, 2]), x)
    c.case("select_slice", lambda x: (A.select_copy(x, -1, -2), A.slice_copy(x, 1, 1, 9, 2)), x)
    c.case("split", lambda x: (*A.split_copy(x, 2, 1), *A.split_with_sizes_copy(x, [1, 4], 1)), x)
    c.case("squeeze", lambda x: (A.squeeze_copy(x), A.squeeze_copy(x, 0), A.squeeze_copy(x, [0, 2])), c.randn(1, 3, 1))
    c.case("transpose_t", lambda x: (A.transpose_copy(x, 0, -1), A.t_copy(x[0])), x)
    c.case("unbind_unfold", lambda x: (*A.unbind_copy(x, 2), A.unfold_copy(x, 1, 3, 2)), x)
    c.case("unsqueeze_view", lambda x: (A.unsqueeze_copy(x, -1), A.view_copy(x, [15, 4]), A.view_copy(x, torch.int32)), x)
    c.case("narrow_below_zero", lambda x: A.narrow_copy(x, 1, -3, 2), x)
    c.case("copy_is_apart", lambda x: (lambda y: (y.add_(1), x * 1))(A.alias_copy(x)), x)
    c.case("empty", lambda x: (A.permute_copy(x, [1, 0]), A.view_copy(x, [0])), c.randn(0, 3))
    c.case("empty_permuted", lambda x: torch.empty_permuted([2, 3, 4], [2, 0, 1]).copy_(x), c.randn(2, 3, 4))
    c.case("new_empty_strided", lambda x: x.new_empty_strided([3, 4], [1, 3]).copy_(x), c.randn(3, 4))
    c.case("resize_same_memory", lambda x: x.clone().resize_(4, 5), c.randn(2, 10))
    c.case("resize_smaller", lambda x: (lambda y: (y.resize_(2, 3), y + 1))(x.clone()), c.randn(4, 5))
    c.case("resize_as", lambda x, y: x.clone().resize_as_(y), c.randn(4, 5), c.randn(5, 2, 2))
    for name, y in {"permuted": c.randn(1, 3, 2, 3).permute(3, 2, 1, 0), "last": c.randn(2, 3, 2, 2).contiguous(memory_format=torch.channels_last)}.items():
        c.case(f"resize_as_{name}", lambda x, y: torch.ops.aten.resize_as(x, y, memory_format=torch.preserve_format), c.randn(4, 6), y)


def bit_views(c):
    special = torch.tensor([0.0, -0.0, 1.0, -2.5, math.inf, -math.inf, 65504.0, 1e-6])
    for name, narrow in NARROW.items():
        for other, wide in WIDE.items():
            x = (c.randn(3, 8) * 40).to(wide) if not wide.is_floating_point else torch.cat([c.randn(2, 8), special[None]]).to(wide)
            if narrow.is_floating_point:  # no bits of NaN: what a NaN's bits are is not said
                x = x.to(torch.int8).to(wide) if not wide.is_floating_point else x.half().to(wide)
                x = torch.where(x.view(narrow).isnan().reshape(3, 8, -1).any(-1), torch.ones((), dtype=wide), x)
            c.case(f"{other}_as_{name}", lambda x, t=narrow: x.view(t), x)
    halves = torch.cat([c.randn(8), special]).half()
    c.case("f16_as_i16", lambda x: x.view(torch.int16), halves)
    c.case("f16_as_bf16_as_i16", lambda x: x.view(torch.bfloat16).view(torch.int16), halves)
    c.case("i16_as_f16", lambda x: x.view(torch.float16) * 2, halves.view(torch.int16))
    c.case("bf16_as_i16_masked", lambda x: (x.view(torch.int16) & 0x7FFF).view(torch.bfloat16), torch.cat([c.randn(8), special]).bfloat16())
    c.case("computed_f16_as_i16", lambda x: (x * 2).view(torch.int16), c.randn(17, dtype=torch.float16))
    for name, narrow in NARROW.items():
        x = (c.randn(2, 3, 8) * 5).to(narrow)
        c.case(f"{name}_as_i32", lambda x: x.view(torch.int32), x)
        c.case(f"{name}_as_i64", lambda x: x.view(torch.int64), x)
    c.case("u8_as_f32", lambda x: x.view(torch.float32) + 1, c.randn(3, 4).view(torch.uint8))
    c.case("rows_of_a_slice", lambda x: x[:, 2:6].view(torch.int16), c.randn(5, 8))
    c.case("transposed_same_width", lambda x: x.t().view(torch.int32), c.randn(5, 8))
    c.case("empty", lambda x: (x.view(torch.uint8), x.view(torch.int64)), c.randn(0, 4))


def row_numerics(c):
    y, x = c.randn(4, 7), c.randn(7).sort().values
    for name, f in (("trapezoid", torch.trapezoid), ("cumulative", torch.cumulative_trapezoid)):
        c.case(f"{name}_dx", lambda y, f=f: (f(y), f(y, dx=0.3, dim=0)), y)
        c.case(f"{name}_x", lambda y, x, f=f: f(y, x), y, x)
        c.case(f"{name}_x_of_fewer_dims", lambda y, x, f=f: f(y, x, dim=1), c.randn(2, 4, 7), c.randn(4, 7))
        c.case(f"{name}_ints", lambda y, x, f=f: (f(y, x), f(y)), c.ints(3, 5), c.ints(5))
        c.case(f"{name}_bf16", lambda y, f=f: f(y, dx=2), y.bfloat16())
        c.case(f"{name}_one", lambda y, f=f: f(y), c.randn(3, 1))
    c.case("trapz", lambda y, x: (torch.trapz(y, x), torch.trapz(y, dx=2.0)), y, x)
    c.case("trapezoid_none", lambda y: torch.trapezoid(y), c.randn(3, 0))
    g = c.randn(5, 6)
    for order in (1, 2):
        c.case(f"gradient_{order}", lambda g, o=order: torch.gradient(g, edge_order=o), g)
        c.case(f"gradient_spacing_{order}", lambda g, o=order: torch.gradient(g, spacing=0.5, dim=1, edge_order=o), g)
        c.case(f"gradient_spacings_{order}", lambda g, o=order: torch.gradient(g, spacing=[0.5, 2.0], edge_order=o), g)
        c.case(f"gradient_points_{order}", lambda g, a, b, o=order: torch.gradient(g, spacing=(a, b), dim=(0, -1), edge_order=o), g, torch.tensor([0.0, 1.0, 1.5, 3.0, 3.25]), torch.tensor([1.0, 2.0, 4.0, 5.0, 7.0, 7.5]))
    c.case("gradient_ints", lambda g: torch.gradient(g, dim=0), c.ints(4, 3))
    c.case("gradient_f16", lambda g: torch.gradient(g, dim=[1]), g.half())
    m = torch.tensor([[1, 2, 2, 3, 3], [4, 4, 1, 1, 1], [5, 6, 7, 8, 9]])
    c.case("mode", lambda m: torch.mode(m).values, m)
    c.case("mode_indices_of_singles", lambda m: torch.mode(m, 0, keepdim=True), c.ints(1, 6))
    c.case("mode_nan", lambda m: torch.mode(m).values, torch.tensor([[1.0, math.nan, math.nan], [2.0, 1.0, 1.0], [-0.0, 3.0, 2.0]]))
    c.case("mode_0d_bool", lambda a, b: (*torch.mode(a), torch.mode(b).values), torch.tensor(3.5), c.bools(4, 3))
    c.case("mode_f16_dim0", lambda m: torch.mode(m, 0).values, c.ints(9, 5, low=0, high=3).half())
    lengths, offsets = torch.tensor([2, 0, 3, 1]), torch.tensor([0, 2, 2, 5, 6])
    d = c.randn(6, 3)
    for reduce in ("sum", "mean", "max", "min", "prod"):
        c.case(f"segments_{reduce}", lambda d, n, r=reduce: torch.segment_reduce(d, r, lengths=n, axis=0, unsafe=True), d, lengths)
        c.case(f"segments_{reduce}_initial", lambda d, o, r=reduce: torch.segment_reduce(d, r, offsets=o, axis=0, unsafe=True, initial=2), d, offsets)
    c.case("segments_axis_1", lambda d, n: torch.segment_reduce(d, "sum", lengths=n, axis=1, unsafe=True), c.randn(2, 6, 3), torch.stack([lengths, lengths.flip(0)]))
    c.case("nonzero_static", lambda x: (torch.nonzero_static(x, size=4), torch.nonzero_static(x, size=9, fill_value=-7)), (c.randn(3, 4) > 0.3))
    c.case("nonzero_static_floats", lambda x: torch.nonzero_static(x, size=3), torch.tensor([0.0, -0.0, math.nan, 1.0]))
    c.case("combined_chunks", lambda a, b: A._chunk_cat([a, b], 0, 2), c.randn(5, 3), c.randn(4, 2))
    c.case("combined_chunks_dim1", lambda a, b: A._chunk_cat([a, b], 1, 3), c.randn(2, 5), c.randn(2, 3, 2))
    c.case("pad_circular_cut", lambda x: (F.pad(x, (-1, 1, -2, 1), mode="circular"), F.pad(x, (2, -1), mode="circular")), c.randn(1, 3, 4, 4)[0])
    c.case("take_along_broadcast", lambda x, i: torch.take_along_dim(x, i, 1), c.randn(1, 5), c.ints(4, 2, low=0, high=5))


def unpooling(c):
    x = c.randn(2, 3, 6, 8)
    pooled, indices = F.max_pool2d(x, 2, return_indices=True)
    c.case("max_unpool2d", lambda p, i: F.max_unpool2d(p, i, 2), pooled, indices)
    c.case("max_unpool2d_size", lambda p, i: F.max_unpool2d(p, i, 2, output_size=(7, 9)), *F.max_pool2d(c.randn(3, 7, 9), 2, return_indices=True))
    c.case("max_unpool2d_channels_last", lambda p, i: F.max_unpool2d(p, i, 2), pooled.to(memory_format=torch.channels_last), indices.to(memory_format=torch.channels_last))
    c.case("max_unpool1d", lambda p, i: F.max_unpool1d(p, i, 2), *F.max_pool1d(c.randn(2, 3, 8), 2, return_indices=True))
    c.case("max_unpool3d", lambda p, i: F.max_unpool3d(p, i, 2), *F.max_pool3d(c.randn(1, 2, 4, 4, 6), 2, return_indices=True))
    u = torch.rand(2, 3, 2, generator=c.generator)
    c.case("fractional2d", lambda x, u: A.fractional_max_pool2d(x, [2, 3], [3, 4], u), x, u)
    c.case("fractional2d_one", lambda x, u: A.fractional_max_pool2d(x, [2, 2], [1, 4], u), x[0], u[:1])
    c.case("fractional3d", lambda x, u: A.fractional_max_pool3d(x, [2, 2, 3], [2, 3, 4], u), c.randn(2, 3, 4, 6, 8), torch.rand(2, 3, 3, generator=c.generator))
    i, j = torch.tensor([[0, 3, 9], [-1, 2, 5]]), torch.tensor([[1], [0]])
    mask = torch.tensor([[True, True, False], [True, False, False]])
    c.case("masked_index", lambda x, m, i, j: A._unsafe_masked_index(x, m, [i, j], -3.0), c.randn(4, 3), mask, i, j)
    c.case("masked_index_put", lambda x, m, i, j, v: A._unsafe_masked_index_put_accumulate(x, m, [i, j], v), c.randn(4, 3), mask, i, j, c.randn(2, 3))
    t = torch.tensor([[3, 0, -1, 1], [2, -1, 0, 1], [0, 1, 2, 3]])
    for reduction in ("none", "mean", "sum"):
        c.case(f"multilabel_margin_{reduction}", lambda x, t, r=reduction: F.multilabel_margin_loss(x, t, reduction=r), c.randn(3, 4), t)
    c.case("multilabel_margin_row", lambda x, t: F.multilabel_margin_loss(x, t), c.randn(4), t[0])
    c.case("triplet_margin_ints", lambda a, p, n: F.triplet_margin_loss(a, p, n), c.ints(5, 3), c.ints(5, 3), c.ints(5, 3))


def add(family):
    for each in (view_copies, bit_views, row_numerics, unpooling):
        family(each)
