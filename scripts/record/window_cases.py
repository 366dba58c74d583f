"""Cases of windows that slide: convolution, pooling, fold and unfold. operator_cases.py calls add(family), which registers them
with it."""
import math

import torch
import torch.nn.functional as F

from recorder import FLOATS


def convolution(c):
    r = c.randn
    types = {**FLOATS, "f64": torch.float64}
    for short, dtype in types.items():
        d = lambda *s, scale=1.0: c.randn(*s, dtype=dtype, scale=scale)
        c.case(f"one_tap_{short}", lambda x, w, b: F.conv2d(x, w, b), d(2, 5, 7, 3), d(6, 5, 1, 1), d(6))
        c.case(f"columns_{short}", lambda x, w, b: F.conv2d(x, w, b, padding=1), d(2, 3, 7, 5), d(7, 3, 3, 3), d(7))
        c.case(f"depthwise_{short}", lambda x, w, b: F.conv2d(x, w, b, padding=1, groups=5), d(2, 5, 6, 7), d(5, 1, 3, 3), d(5))
        c.case(f"transposed_{short}", lambda x, w, b: F.conv_transpose2d(x, w, b, stride=2, padding=1, output_padding=1), d(2, 5, 4, 3), d(5, 6, 3, 3), d(6))
    for short, dtype in (("i64", torch.int64), ("i32", torch.int32)):
        c.case(f"columns_{short}", lambda x, w: F.conv2d(x, w, padding=1), c.ints(1, 3, 5, 4, dtype=dtype), c.ints(6, 3, 3, 3, dtype=dtype))
    # One dimension, three, strides, dilation, groups.
    c.case("conv1d", lambda x, w, b: F.conv1d(x, w, b, stride=2, padding=2), r(3, 4, 19), r(6, 4, 5), r(6))
    c.case("conv1d_dilated", lambda x, w: F.conv1d(x, w, dilation=3), r(2, 6, 17), r(8, 6, 3))
    c.case("conv1d_same_even", lambda x, w, b: F.conv1d(x, w, b, padding="same"), r(2, 6, 11), r(5, 6, 4), r(5))
    c.case("conv1d_one_channel", lambda x, w, b: F.conv1d(x, w, b), r(2, 1, 23), r(9, 1, 7), r(9))
    c.case("conv3d", lambda x, w, b: F.conv3d(x, w, b, stride=(1, 2, 1), padding=(1, 0, 2)), r(2, 3, 4, 7, 5), r(5, 3, 2, 3, 3), r(5))
    c.case("conv3d_grouped", lambda x, w: F.conv3d(x, w, groups=2, padding=1), r(1, 4, 3, 4, 5), r(12, 2, 3, 3, 3))
    c.case("uneven", lambda x, w, b: F.conv2d(x, w, b, stride=(2, 3), padding=(0, 2), dilation=(2, 1)), r(2, 6, 13, 11), r(7, 6, 3, 5), r(7))
    c.case("grouped", lambda x, w, b: F.conv2d(x, w, b, padding=1, groups=3), r(2, 6, 5, 7), r(18, 2, 3, 3), r(18))
    half = lambda *s: c.randn(*s, dtype=torch.bfloat16)
    inside = lambda x: x.to(memory_format=torch.channels_last)
    c.case("grouped_bf16", lambda x, w, b: F.conv2d(x, w, b, padding=1, groups=4).relu(), half(2, 16, 9, 18), half(16, 4, 3, 3), half(16))
    c.case("grouped_inside", lambda x, w: F.conv2d(x, w, padding=1, groups=8).relu(), inside(half(2, 32, 8, 16)), half(32, 4, 3, 3))
    c.case("grouped_two_inside", lambda x, w, b: F.conv2d(x, w, b, stride=2, padding=2, dilation=2, groups=6), inside(half(1, 12, 19, 17)), half(12, 2, 3, 3), half(12))
    c.case("grouped_three_inside", lambda x, w: F.conv2d(x, w, groups=3), inside(half(2, 15, 7, 6)), half(9, 5, 2, 3))
    c.case("grouped_transposed_inside", lambda x, w: F.conv_transpose2d(x, w, stride=2, groups=4), inside(half(2, 12, 5, 6)), half(12, 4, 3, 3))
    apart = inside(c.randn(1, 8, 6, 8, dtype=torch.float16))
    apart[0, 1, 2, 3], apart[0, 6, 4, 4] = math.inf, math.nan
    c.case("grouped_special_inside", lambda x, w: F.conv2d(x, w, padding=1, groups=2), apart, c.randn(8, 4, 3, 3, dtype=torch.float16))
    c.case("grouped_transposed_one_step", lambda x, w: F.conv_transpose2d(x, w, padding=1, groups=3), inside(half(2, 12, 6, 7)), half(12, 5, 3, 3))
    c.case("depthwise_transposed_one_step", lambda x, w, b: F.conv_transpose2d(x, w, b, padding=(2, 0), dilation=(2, 1), groups=6), r(1, 6, 9, 8), r(6, 1, 3, 4), r(6))
    c.case("grouped_transposed_1d", lambda x, w: F.conv_transpose1d(x, w, padding=5, groups=2), r(2, 4, 13), r(4, 3, 3))
    c.case("grouped_3d_bf16", lambda x, w: F.conv3d(x, w, groups=2, padding=1), half(1, 8, 3, 4, 8), half(8, 4, 3, 3, 3))
    c.case("grouped_one", lambda x, w, b: F.conv2d(x, w, b, padding=1, groups=2), r(1, 10, 5, 7), r(14, 5, 3, 3), r(14))
    for short, dtype in (("f16", torch.float16), ("bf16", torch.bfloat16)):  # a product an image
        d = lambda *s: c.randn(*s, dtype=dtype)
        c.case(f"one_tap_images_{short}", lambda x, w, b, v: F.conv2d(F.conv2d(x, w, b).relu(), v) + x, d(3, 16, 5, 8), d(24, 16, 1, 1), d(24), d(16, 24, 1, 1))
    c.case("one_tap_images_rows", lambda x, w: F.conv2d(x, w).flatten(2).softmax(-1), c.randn(2, 8, 8, 9, dtype=torch.float16), c.randn(16, 8, 1, 1, dtype=torch.float16))
    c.case("grouped_one_tap", lambda x, w: F.conv2d(x, w, groups=2), r(2, 34, 3, 5), r(14, 17, 1, 1))
    c.case("depthwise_multiplier", lambda x, w, b: F.conv2d(x, w, b, padding=2, groups=3, stride=2), r(2, 3, 9, 8), r(6, 1, 5, 5), r(6))
    c.case("depthwise_seven", lambda x, w, b: F.conv2d(x, w, b, padding=3, groups=4), r(1, 4, 9, 10), r(4, 1, 7, 7), r(4))
    c.case("depthwise_dilated", lambda x, w: F.conv2d(x, w, padding=2, dilation=2, groups=4), r(1, 4, 9, 10), r(4, 1, 3, 3))
    c.case("few_outputs", lambda x, w, b: F.conv2d(x, w, b, padding=1), r(2, 9, 6, 5), r(3, 9, 3, 3), r(3))
    c.case("few_outputs_bf16", lambda x, w, b: torch.tanh(F.conv2d(x, w, b, padding=1)), half(2, 16, 7, 9), half(3, 16, 3, 3), half(3))
    c.case("one_output_inside", lambda x, w: F.conv2d(x, w, stride=2, padding=1), inside(half(2, 24, 8, 6)), half(1, 24, 3, 3))
    c.case("conv1d_first_bf16", lambda x, w: F.gelu(F.conv1d(x, w, stride=5)), half(2, 1, 243), half(40, 1, 10))
    c.case("strided_one_tap_bf16", lambda x, w, b: F.conv2d(x, w, b, stride=2), half(2, 3, 9, 8), half(64, 3, 1, 1), half(64))
    c.case("conv1d_one_output_bf16", lambda x, w, b: torch.tanh(F.conv1d(x, w, b, padding=3)), half(2, 32, 29), half(1, 32, 7), half(1))
    c.case("strided_one_tap", lambda x, w: F.conv2d(x, w, stride=2), r(2, 9, 7, 6), r(10, 9, 1, 1))
    c.case("padded_one_tap", lambda x, w, b: F.conv2d(x, w, b, padding=1), r(2, 19, 3, 4), r(10, 19, 1, 1), r(10))
    c.case("one_tap_bias_relu", lambda x, w, b: F.conv2d(x, w, b).relu() + x, r(1, 8, 5, 7), r(8, 8, 1, 1), r(8))
    c.case("patches", lambda x, w, b: F.conv2d(x, w, b, stride=4), r(2, 3, 16, 12), r(11, 3, 4, 4), r(11))
    c.case("one_position", lambda x, w, b: F.conv2d(x, w, b), r(3, 4, 5, 5), r(9, 4, 5, 5), r(9))
    c.case("one_pixel", lambda x, w: F.conv2d(x, w, padding=1), r(1, 5, 1, 1), r(6, 5, 3, 3))
    c.case("same_even", lambda x, w, b: F.conv2d(x, w, b, padding="same", dilation=(1, 3)), r(2, 5, 7, 9), r(6, 5, 4, 2), r(6))
    c.case("valid", lambda x, w: F.conv2d(x, w, padding="valid"), r(2, 5, 7, 9), r(6, 5, 4, 2))
    c.case("unbatched", lambda x, w, b: F.conv2d(x, w, b, padding=1), r(5, 7, 6), r(6, 5, 3, 3), r(6))
    c.case("unbatched_1d_same", lambda x, w: F.conv1d(x, w, padding="same"), r(5, 17), r(6, 5, 3))
    c.case("no_batch", lambda x, w, b: F.conv2d(x, w, b, padding=1), r(0, 5, 7, 6), r(6, 5, 3, 3), r(6))
    c.case("no_batch_one_tap", lambda x, w, b: F.conv2d(x, w, b), r(0, 5, 7, 6), r(6, 5, 1, 1), r(6))
    c.case("strided_input", lambda x, w: F.conv2d(x[:, ::2, 1:], w, padding=1), r(2, 10, 7, 6), r(6, 5, 3, 3))
    c.case("transposed_weight", lambda x, w: F.conv2d(x, w.transpose(0, 1), padding=1), r(2, 5, 4, 6), r(5, 6, 3, 3))
    c.case("after_silu", lambda x, y, w: F.conv2d(F.silu(x + y), w, padding=1), r(1, 5, 7, 6), r(5, 1, 1), r(8, 5, 3, 3))
    c.case("depthwise_after_gelu", lambda x, y, w: F.conv2d(F.gelu(x * y), w, padding=1, groups=5).tanh(), r(1, 5, 7, 6), r(5, 1, 1), r(5, 1, 3, 3))
    last = torch.channels_last
    for short, dtype in FLOATS.items():
        d = lambda *s: c.randn(*s, dtype=dtype)
        c.case(f"channels_last_{short}", lambda x, w, b: F.conv2d(x.to(memory_format=last), w.to(memory_format=last), b, padding=1).relu(), d(2, 5, 7, 6), d(6, 5, 3, 3), d(6))
    c.case("channels_last_one_tap", lambda x, w, b: F.conv2d(x.to(memory_format=last), w, b).permute(0, 2, 3, 1).reshape(-1, 6), r(2, 5, 7, 6), r(6, 5, 1, 1), r(6))
    c.case("channels_last_depthwise", lambda x, w: F.conv2d(x.to(memory_format=last), w, padding=1, groups=5), r(2, 5, 7, 6), r(5, 1, 3, 3))
    c.case("channels_last_grouped", lambda x, w: F.conv2d(x.to(memory_format=last), w, padding=1, groups=2), r(2, 6, 7, 6), r(12, 3, 3, 3))
    c.case("channels_last_weight", lambda x, w: F.conv2d(x, w.to(memory_format=last), padding=1) * 2, r(2, 5, 7, 6), r(6, 5, 3, 3))
    c.case("channels_last_transposed", lambda x, w: F.conv_transpose2d(x.to(memory_format=last), w, stride=2), r(2, 5, 4, 6), r(5, 6, 3, 3))
    c.case("channels_last_3d", lambda x, w: F.conv3d(x.to(memory_format=torch.channels_last_3d), w, padding=1), r(1, 3, 4, 5, 3), r(6, 3, 3, 3, 3))
    # Transposed
    c.case("transposed_1d", lambda x, w, b: F.conv_transpose1d(x, w, b, stride=3, padding=2, output_padding=2), r(2, 5, 7), r(5, 6, 4), r(6))
    c.case("transposed_3d", lambda x, w: F.conv_transpose3d(x, w, stride=2), r(1, 3, 2, 3, 4), r(3, 5, 2, 3, 2))
    c.case("transposed_two", lambda x, w, b: F.conv_transpose2d(x, w, b, stride=2), r(1, 8, 4, 5), r(8, 6, 2, 2), r(6))
    c.case("transposed_dilated", lambda x, w: F.conv_transpose2d(x, w, dilation=2, padding=1), r(2, 5, 4, 6), r(5, 6, 3, 3))
    c.case("transposed_grouped", lambda x, w, b: F.conv_transpose2d(x, w, b, stride=2, groups=2), r(2, 6, 4, 3), r(6, 7, 3, 3), r(14))
    c.case("transposed_depthwise", lambda x, w: F.conv_transpose2d(x, w, stride=2, padding=1, groups=4), r(2, 4, 5, 3), r(4, 1, 4, 4))
    c.case("transposed_few_outputs", lambda x, w, b: F.conv_transpose2d(x, w, b, stride=2), r(2, 9, 5, 3), r(9, 3, 4, 4), r(3))
    c.case("transposed_unbatched", lambda x, w: F.conv_transpose2d(x, w, stride=(1, 2)), r(5, 4, 3), r(5, 6, 3, 2))
    c.case("transposed_no_batch", lambda x, w: F.conv_transpose2d(x, w), r(0, 5, 4, 3), r(5, 6, 3, 2))
    c.case("columns_nan", lambda x, w: F.conv2d(x, w, padding=1), torch.where(r(1, 3, 5, 6) > 2, math.nan, r(1, 3, 5, 6)), r(8, 3, 3, 3))
    c.case("two_layers", lambda x, w, b, v: F.conv2d(F.conv2d(x, w, b, padding=1).relu(), v, stride=2, padding=1), r(1, 3, 8, 8), r(8, 3, 3, 3), r(8), r(9, 8, 3, 3))
    c.case("batch_norm_relu", lambda x, w, m, v, g, b: F.batch_norm(F.conv2d(x, w, padding=1), m, v, g, b).relu(), r(2, 3, 6, 7), r(8, 3, 3, 3), r(8), r(8, positive=True), r(8), r(8))
    c.case("many_short_rows", lambda x, w, b: F.conv2d(x, w, b, padding=1, groups=5, stride=(2, 1)).relu(), r(1, 5, 41, 25, dtype=torch.float16), r(5, 1, 3, 3, dtype=torch.float16), r(5, dtype=torch.float16))


def pooling(c):
    r = c.randn
    for short, dtype in {**FLOATS, "f64": torch.float64}.items():
        d = lambda *s: c.randn(*s, dtype=dtype)
        c.case(f"max_{short}", lambda x: F.max_pool2d(x, 3, 2, 1), d(2, 3, 9, 7))
        c.case(f"max_indices_{short}", lambda x: F.max_pool2d(x, 2, return_indices=True), d(2, 3, 6, 7))
        c.case(f"avg_{short}", lambda x: F.avg_pool2d(x, 3, 2, 1), d(2, 3, 9, 7))
        c.case(f"adaptive_avg_{short}", lambda x: F.adaptive_avg_pool2d(x, (3, 5)), d(2, 3, 7, 11))
    for short, dtype in (("i64", torch.int64), ("i32", torch.int32), ("u8", torch.uint8)):
        c.case(f"max_{short}", lambda x: F.max_pool2d(x, 3, 2, 1, return_indices=True), c.ints(2, 3, 9, 7, dtype=dtype))
    c.case("avg_i64", lambda x: F.avg_pool2d(x, 3, 2, 1), c.ints(2, 3, 9, 7, low=-50, high=50))
    c.case("max_1d", lambda x: F.max_pool1d(x, 3, 2, 1), r(2, 3, 14))
    c.case("max_1d_indices", lambda x: F.max_pool1d(x, 4, 3, 1, dilation=2, return_indices=True), r(2, 3, 24))
    c.case("max_3d", lambda x: F.max_pool3d(x, 2, 1), r(2, 3, 4, 5, 6))
    c.case("max_3d_indices", lambda x: F.max_pool3d(x, (2, 3, 1), 2, (1, 1, 0), return_indices=True), r(1, 2, 4, 5, 6))
    c.case("max_unbatched", lambda x: F.max_pool2d(x, 3), r(3, 9, 10))
    c.case("max_1d_unbatched", lambda x: F.max_pool1d(x, 3), r(3, 9))
    c.case("max_ceil", lambda x: F.max_pool2d(x, 3, 2, ceil_mode=True), r(2, 3, 8, 10))
    c.case("max_ceil_padded", lambda x: F.max_pool2d(x, 2, 3, 1, ceil_mode=True, return_indices=True), r(2, 3, 7, 9))
    c.case("max_dilated", lambda x: F.max_pool2d(x, (3, 2), 1, (1, 0), (2, 3), return_indices=True), r(2, 3, 9, 10))
    c.case("max_large", lambda x: F.max_pool2d(x, (7, 5), (2, 1), return_indices=True), r(1, 2, 15, 11))
    c.case("max_ties", lambda x: F.max_pool2d(x, 3, 2, 1, return_indices=True), c.ints(2, 3, 9, 7, low=0, high=3).float())
    nan = r(1, 2, 9, 8)
    nan[0, 0, 2:5, 3] = math.nan
    nan[0, 1, 7, 7] = math.nan
    nan[0, 1, 0:4, 0:4] = -math.inf
    nan[0, 1, 5, 5] = math.inf
    c.case("max_special", lambda x: F.max_pool2d(x, 3, 2, 1, return_indices=True), nan)
    c.case("max_special_two", lambda x: F.max_pool2d(x, 2, return_indices=True), nan)
    c.case("max_after_relu", lambda x, b: F.max_pool2d((x + b).relu(), 3, 2, 1), r(1, 5, 9, 8), r(5, 1, 1))
    c.case("max_channels_last", lambda x: F.max_pool2d(x.to(memory_format=torch.channels_last), 3, 2, 1).permute(0, 2, 3, 1).reshape(-1, 5), r(2, 5, 9, 8))
    c.case("max_strided", lambda x: F.max_pool2d(x.transpose(2, 3)[..., ::2], 2), r(2, 3, 12, 7))
    c.case("avg_1d", lambda x: F.avg_pool1d(x, 3, 2, 1), r(2, 3, 14))
    c.case("avg_1d_ceil", lambda x: F.avg_pool1d(x, 4, 3, 1, ceil_mode=True, count_include_pad=False), r(2, 3, 13))
    c.case("avg_3d", lambda x: F.avg_pool3d(x, 2), r(2, 3, 4, 5, 6))
    c.case("avg_3d_padded", lambda x: F.avg_pool3d(x, (2, 3, 3), (1, 2, 2), (1, 1, 0), ceil_mode=True, count_include_pad=False), r(1, 2, 4, 6, 6))
    c.case("avg_unbatched", lambda x: F.avg_pool2d(x, 2), r(3, 9, 10))
    c.case("avg_exclude", lambda x: F.avg_pool2d(x, 3, 1, 1, count_include_pad=False), r(2, 3, 5, 6))
    c.case("avg_ceil", lambda x: F.avg_pool2d(x, 3, 2, ceil_mode=True), r(2, 3, 8, 10))
    c.case("avg_ceil_padded", lambda x: F.avg_pool2d(x, 3, 2, 1, ceil_mode=True), r(2, 3, 8, 9))
    c.case("avg_ceil_exclude", lambda x: F.avg_pool2d(x, (2, 5), (3, 2), (1, 2), ceil_mode=True, count_include_pad=False), r(2, 3, 7, 8))
    c.case("avg_divisor", lambda x: F.avg_pool2d(x, 3, 2, 1, divisor_override=5), r(2, 3, 8, 9))
    c.case("avg_whole", lambda x: F.avg_pool2d(x, (8, 9)), r(2, 3, 8, 9))
    c.case("adaptive_avg_1d", lambda x: F.adaptive_avg_pool1d(x, 5), r(2, 3, 13))
    c.case("adaptive_avg_3d", lambda x: F.adaptive_avg_pool3d(x, (2, 3, 4)), r(1, 2, 4, 5, 6))
    c.case("adaptive_avg_one", lambda x: F.adaptive_avg_pool2d(x, 1), r(2, 3, 7, 11))
    c.case("adaptive_avg_divides", lambda x: F.adaptive_avg_pool2d(x, (2, 3)), r(2, 3, 8, 9))
    c.case("adaptive_avg_larger", lambda x: F.adaptive_avg_pool2d(x, (7, 5)), r(2, 3, 3, 2))
    c.case("adaptive_avg_none", lambda x: F.adaptive_avg_pool2d(x, (None, 4)), r(3, 5, 9))
    c.case("adaptive_avg_one_1d", lambda x: F.adaptive_avg_pool1d(x, 1), r(3, 9))
    c.case("adaptive_max", lambda x: F.adaptive_max_pool2d(x, (3, 5), return_indices=True), r(2, 3, 7, 11))
    c.case("adaptive_max_1d", lambda x: F.adaptive_max_pool1d(x, 4), r(2, 3, 11))
    c.case("adaptive_max_3d", lambda x: F.adaptive_max_pool3d(x, (2, 3, 4)), r(1, 2, 4, 5, 6))
    c.case("adaptive_max_special", lambda x: F.adaptive_max_pool2d(x, (2, 3), return_indices=True), nan)
    c.case("lp_2d", lambda x: F.lp_pool2d(x, 2.0, 3, 2), r(2, 3, 9, 8))
    c.case("lp_1d", lambda x: F.lp_pool1d(x, 3.0, 2, ceil_mode=True), r(2, 3, 9, positive=True))
    c.case("no_batch", lambda x: F.avg_pool2d(F.max_pool2d(x, 2), 2), r(0, 3, 8, 8))
    c.case("unfold_view", lambda x: x.unfold(1, 3, 2) * 2, r(4, 9, 3))
    c.case("unfold_view_twice", lambda x: (x + 1).unfold(2, 2, 2).unfold(3, 3, 1).sum((-1, -2)), r(2, 3, 7, 8))
    c.case("unfold_view_whole", lambda x: x.unfold(-1, 5, 1), r(3, 5))
    c.case("unfold", lambda x: F.unfold(x, (2, 3), dilation=(1, 2), padding=(1, 0), stride=(2, 1)), r(2, 3, 5, 9))
    c.case("unfold_unbatched", lambda x: F.unfold(x, 3), r(3, 5, 7))
    c.case("fold", lambda x: F.fold(x, (5, 7), (2, 3), padding=1, stride=2), r(2, 18, 12))
    c.case("fold_unbatched", lambda x: F.fold(x, (6, 6), 3, dilation=2), r(18, 4))
    c.case("many_short_rows", lambda x: F.max_pool2d(x, 3, 1, 1, return_indices=True), r(1, 3, 26, 29, dtype=torch.float16))
    c.case("many_short_rows_average", lambda x: F.avg_pool2d(x, 3, 1, 1, count_include_pad=False), r(1, 3, 26, 29, dtype=torch.float16))
    c.case("mean_layer_norm", lambda x, w, b: F.layer_norm(F.adaptive_avg_pool2d(x.relu() + 1, 1).flatten(1), (64,), w, b), r(1, 64, 2, 2), r(64), r(64))
    c.case("fold_of_unfold", lambda x: F.fold(F.unfold(x, 3, padding=1), (5, 6), 3, padding=1), r(1, 2, 5, 6))


def add(family):
    family(convolution)
    family(pooling)
