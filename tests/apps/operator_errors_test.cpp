// Wrong arguments of operators, as `tsc compile` reports them: exact text, exit code, node.
#include "tsc_process.h"

#include "testing/catch.h"
#include "testing/graph_json.h"

using namespace tsc;
using nlohmann::json;
using testing::Outcome;
using testing::with_references;
using testing::Workplace;

namespace {

struct WrongCall {
  const char *target;
  const char *arguments; // JSON; "$x" stands for the node x
  int exit_code;
  const char *error; // first line, without "error TSC-"
  const char *next_step;
  const char *keywords = "{}";
};

const WrongCall kWrongCalls[] = {
    {"aten.view.dtype", R"(["$x", {"dtype": "float64"}])", 4,
     "O002: aten.view.dtype between element sizes is not supported",
     "view as a dtype of the same size"},
    {"aten.index.Tensor", R"(["$x", ["$mask"]])", 4,
     "O004: aten.index.Tensor with a mask: the result's size depends on data",
     "use torch.where, or integer indices"},
    {"aten.item.default", R"(["$row"])", 3,
     "O004: aten.item.default: a number of more than one element",
     "reduce the tensor to one element before"},
    {"operator.pow", R"([2, -1])", 3,
     "O016: operator.pow: argument 'b' is '-1', a number is needed",
     "make this value static when exporting"},
    {"torch.sym_int", R"([1e300])", 3, "O016: torch.sym_int: argument 'a' is too large",
     "pass a number that fits 64 bits"},
    {"operator.lshift", R"([1.5, 2])", 3, "O015: operator.lshift: argument 'a' is not an integer",
     "pass an integer"},
    {"aten.pad.default", R"(["$x", [1, 1], "circle"])", 4,
     "O005: aten.pad with mode 'circle' is not supported",
     "use mode 'constant', 'reflect', 'replicate' or 'circular'"},
    {"aten.relu.default", R"(["$x"])", 3, "O012: aten.relu.default: argument 'self' is given twice",
     "give it once, by position or by name", R"({"self": "$x"})"},
    {"aten.relu.default", "[]", 3, "O013: aten.relu.default: argument 'self' is missing",
     "the form that tsc knows: aten.relu.default(Tensor self)"},
    {"aten.relu.default", "[3]", 3,
     "O017: aten.relu.default: argument 'self' is 3, the schema says Tensor",
     "the form that tsc knows: aten.relu.default(Tensor self)"},
    {"aten.relu.default", R"(["$parts"])", 3,
     "O014: aten.relu.default: argument 'self' is not a tensor", "pass a tensor"},
    {"aten.add.Tensor", "[3, 4]", 3, "O014: aten.add.Tensor: no argument is a tensor",
     "pass a tensor"},
    {"aten.huber_loss.default", R"(["$x", "$parts"])", 3,
     "O014: aten.huber_loss.default: argument 'target' is not a tensor", "pass a tensor"},
    {"aten.avg_pool2d.default", R"(["$planes", [3, 3, 3]])", 3,
     "O048: aten.avg_pool2d.default: argument 'kernel_size' is [3, 3, 3] for 2 spatial dimensions",
     "pass one number, or one a dimension"},
    {"aten.bitwise_and.Tensor", R"(["$x", "$index"])", 3,
     "O127: aten.bitwise_and.Tensor of torch.float32", "give integers or booleans"},
    {"aten.__lshift__.Scalar", R"(["$index", 0.5])", 3, "O127: aten.__lshift__.Scalar of a float",
     "give integers or booleans"},
    {"aten.__lshift__.Tensor", R"(["$mask", "$mask"])", 3,
     "O127: aten.__lshift__.Tensor of torch.bool", "give an integer tensor or number"},
    {"aten.layer_norm.default", R"(["$index", [3]])", 3,
     "O127: aten.layer_norm.default of torch.int64", "convert it to a floating dtype first"},
    {"aten.hypot.default", R"(["$index", "$index"])", 3, "O127: aten.hypot.default of torch.int64",
     "convert it to a floating dtype first"},
    {"aten.nll_loss.default", R"(["$x", "$row"])", 3,
     "O127: aten.nll_loss.default: 'target' is torch.float32", "give class numbers as torch.int64"},
    {"aten.diagonal.default", R"(["$row"])", 3,
     "O128: aten.diagonal.default: 'self' has 1 dimensions, at least 2 are needed", "reshape it"},
    {"aten._scaled_dot_product_efficient_attention.default", R"(["$x", "$x", "$x", null, false])",
     3,
     "O128: aten._scaled_dot_product_efficient_attention.default: 'query' has 2 dimensions, 4 "
     "are needed",
     "reshape it"},
    {"aten.upsample_nearest2d.default", R"(["$x", [4, 4]])", 3,
     "O128: aten.upsample_nearest2d.default: 'self' has 2 dimensions, 4 are needed", "reshape it"},
    {"aten.upsample_nearest2d.default", R"(["$planes", [0, 4]])", 3,
     "O129: aten.upsample_nearest2d.default to the size 0", "give sizes of at least 1"},
    {"aten.scatter.src", R"(["$cube", 0, "$index", "$cube"])", 3,
     "O129: aten.scatter.src: 'index' of sizes [2, 3] does not fit 'self' of sizes [2, 3, 4]",
     "give tensors of sizes that fit"},
    {"aten.gather.default", R"(["$half", 0, "$index"])", 3,
     "O129: aten.gather.default: 'index' of sizes [2, 3] does not fit 'self' of sizes [3, 2]",
     "give tensors of sizes that fit"},
    {"aten.select_scatter.default", R"(["$x", "$row", 0, 0])", 3,
     "O129: aten.select_scatter.default: 'src' of sizes [4] does not fit 'self' of sizes [2, 3]",
     "give tensors of sizes that fit"},
    {"aten.put.default", R"(["$x", "$index", "$row"])", 3,
     "O129: aten.put.default: 'source' of sizes [4] does not fit 'index' of sizes [2, 3]",
     "give tensors of sizes that fit"},
    {"aten.lstm_cell.default", R"(["$x", ["$x"], "$x", "$x"])", 3,
     "O129: aten.lstm_cell.default: 'hx' holds 1 tensors", "give the hidden and the cell state"},
    {"aten.tile.default", R"(["$x", [-2]])", 3,
     "O129: aten.expand.default yields sizes [1, 2, -2, 3] (in the decomposition of "
     "aten.tile.default)",
     "give arguments that yield no negative size"},
    {"aten.cat.default", R"([["$x", 3]])", 3,
     "O017: aten.cat.default: argument 'tensors' is [x: float32[2, 3], 3], the schema says "
     "Tensor[]",
     "the form that tsc knows: aten.cat.default(Tensor[] tensors, int dim=0)"},
    {"aten.transpose.int", R"(["$x", "$x", 1])", 3,
     "O015: aten.transpose.int: argument 'dim0' is not an integer", "pass an integer"},
    {"aten.permute.default", R"(["$x", [0, "$x"]])", 3,
     "O015: aten.permute.default: argument 'dims' holds something not an integer",
     "pass a list of integers"},
    {"aten.transpose.int", R"(["$x", 0.5, 1])", 3,
     "O017: aten.transpose.int: argument 'dim0' is 0.5, the schema says int",
     "the form that tsc knows: aten.transpose.int(Tensor self, int dim0, int dim1)"},
    {"aten.cat.default", R"(["$x", null])", 3,
     "O017: aten.cat.default: argument 'dim' is None, the schema says int",
     "the form that tsc knows: aten.cat.default(Tensor[] tensors, int dim=0)"},
    {"aten.sum.dim_IntList", R"(["$x", [0, "one"]])", 3,
     "O017: aten.sum.dim_IntList: argument 'dim' is [0, 'one'], the schema says int[1]?",
     "the form that tsc knows: aten.sum.dim_IntList(Tensor self, int[1]? dim, bool keepdim=False, "
     "*, ScalarType? dtype=None)"},
    {"aten.glu.default", R"(["$x"])", 3, "O027: aten.glu of a dimension of odd size 3",
     "make its size even"},
    {"aten.expand.default", R"(["$x", [5, 3]])", 3,
     "O020: aten.expand: dimension 0 of [2, 3] cannot become 5",
     "only dimensions of size 1 expand"},
    {"aten.transpose.int", R"(["$x", 0, 2])", 3,
     "O021: aten.transpose.int: dimension 2 is not in [-2, 1]",
     "choose a dimension that the tensor has"},
    {"aten.view.default", R"(["$x", [4, -1]])", 3,
     "O022: aten.view.default: sizes [4, -1] do not hold the 6 elements of [2, 3]",
     "choose sizes with the same product"},
    {"aten.contiguous.default", R"(["$x"])", 3,
     "O023: aten.contiguous.default: the memory format needs another rank than 2",
     "use channels_last for 4 dimensions, channels_last_3d for 5",
     R"({"memory_format": {"memory_format": "channels_last"}})"},
    {"aten.permute.default", R"(["$x", [0, 0]])", 3,
     "O024: aten.permute: the dimensions do not name each of the 2 dimensions once",
     "pass a permutation"},
    {"aten.select.int", R"(["$x", 0, 2])", 3, "O025: aten.select: index 2 is outside size 2",
     "choose an index that the dimension has"},
    {"aten.movedim.intlist", R"(["$x", [0, 1], [0, 0]])", 3,
     "O024: aten.movedim.intlist: source and destination do not name dimensions in pairs",
     "name each dimension that moves once, and a place of its own for it"},
    {"aten.movedim.intlist", R"(["$x", [0], [0, 1]])", 3,
     "O024: aten.movedim.intlist: source and destination do not name dimensions in pairs",
     "name each dimension that moves once, and a place of its own for it"},
    {"aten.narrow.default", R"(["$x", 1, 2, 2])", 3,
     "O025: aten.narrow: 2 elements from 2 on are outside size 3",
     "choose a part that the dimension has"},
    {"aten.as_strided.default", R"(["$x", [100], [1]])", 3,
     "O079: aten.as_strided.default leaves its memory: sizes [100] with strides [1] from element 0 "
     "on reach 100 "
     "elements, the memory has 6",
     "choose sizes, strides and an offset within the tensor's memory"},
    {"aten.as_strided.default", R"(["$x", [4], [1], 1073741824])", 3,
     "O079: aten.as_strided.default leaves its memory: sizes [4] with strides [1] from element "
     "1073741824 on reach "
     "1073741828 elements, the memory has 6",
     "choose sizes, strides and an offset within the tensor's memory"},
    {"aten.as_strided.default", R"(["$x", [2], [1], -1])", 3,
     "O079: aten.as_strided.default leaves its memory: -1 is negative",
     "choose sizes, strides and an offset within the tensor's memory"},
    {"aten.as_strided.default", R"(["$x", [2], [-1], 3])", 3,
     "O079: aten.as_strided.default leaves its memory: -1 is negative",
     "choose sizes, strides and an offset within the tensor's memory"},
    {"aten.as_strided.default", R"(["$x", [2, 2], [1]])", 3,
     "O079: aten.as_strided.default: 2 sizes and 1 strides", "pass a stride for each size"},
    {"aten.as_strided_scatter.default", R"(["$x", "$row", [4], [2]])", 3,
     "O079: aten.as_strided_scatter.default leaves its memory: sizes [4] with strides [2] from "
     "element 0 on reach 7 "
     "elements, the memory has 6",
     "choose sizes, strides and an offset within the tensor's memory"},
    {"aten.slice.Tensor", R"(["$x", 0, 0, 2, 0])", 3, "O026: aten.slice.Tensor: the step is 0",
     "use a positive step"},
    {"aten.split_with_sizes.default", R"(["$x", [1, 1], 1])", 3,
     "O027: aten.split_with_sizes.default: the parts hold 2 elements, dimension 1 has 3",
     "make the parts sum to the dimension's size"},
    {"aten.gelu.default", R"(["$x"])", 3, "O030: aten.gelu: unknown approximation 'cos'",
     "use 'none' or 'tanh'", R"({"approximate": "cos"})"},
    {"aten.div.Tensor_mode", R"(["$x", "$x"])", 3,
     "O030: aten.div.Tensor_mode: unknown rounding mode 'up'", "use 'floor', 'trunc' or None",
     R"({"rounding_mode": "up"})"},
    {"aten.clamp.default", R"(["$x"])", 3, "O031: aten.clamp.default: neither min nor max is given",
     "give one of them"},
    {"aten.dropout.default", R"(["$x", 1.5, true])", 3,
     "O032: aten.dropout.default: the probability is 1.5", "pass a probability from 0 to 1"},
    {"aten.uniform.default", R"(["$x", 2.0, 1.0])", 3,
     "O032: aten.uniform.default: nothing lies between 2.0 and 1.0", "pass from <= to"},
    {"aten.normal_functional.default", R"(["$x", 0.0, -1.0])", 3,
     "O032: aten.normal_functional.default: the standard deviation is -1.0",
     "pass a number that is not negative"},
    {"aten.exponential.default", R"(["$x", 0.0])", 3,
     "O032: aten.exponential.default: the rate is 0.0", "pass a number above 0"},
    {"aten.randint.low", "[5, 5, [2]]", 3,
     "O032: aten.randint.low: no integer lies from 5 to 5, which is excluded", "pass low < high"},
    {"aten.rand_like.default", R"(["$index"])", 3,
     "O032: aten.rand_like.default of torch.int64 has no meaning",
     "ask for a floating-point dtype"},
    {"aten.feature_dropout.default", R"(["$row", 0.5, true])", 3,
     "O035: aten.feature_dropout.default needs 2 or more dimensions", "pass [batch, features, ..]"},
    {"aten.multinomial.default", R"(["$cube", 1])", 3,
     "O035: aten.multinomial.default of 3 dimensions", "pass [categories] or [rows, categories]"},
    {"aten.arange.start_step", "[0, 5, 0]", 3, "O034: aten.arange: the step is '0'",
     "use a step that is a number other than 0"},
    {"aten.tril.default", R"(["$row"])", 3, "O035: aten.tril.default needs 2 or more dimensions",
     "pass a matrix"},
    {"aten.mean.default", R"(["$index"])", 3, "O036: aten.mean of torch.int64",
     "convert to a floating dtype first"},
    {"aten.native_layer_norm.default", R"(["$x", [4], null, null, 1e-5])", 3,
     "O037: aten.native_layer_norm.default: normalized_shape [4] is not the end of the input's "
     "sizes [2, 3]",
     "pass the last sizes of the input"},
    {"aten.mm.default", R"(["$x", "$half"])", 3,
     "O041: aten.mm.default of torch.float32 and torch.float16", "convert both to one dtype"},
    {"aten.convolution.default", R"(["$x", "$x", null, [1], [0], [1], false, [0], 1])", 3,
     "O048: aten.convolution: input [2, 3], weight [2, 3]",
     "pass [N, C, ..] and [O, C / groups, ..] with as many dimensions"},
    {"operator.getitem", R"(["$x", 0])", 3, "O046: operator.getitem: index 0 of a single result",
     "choose one of the results"},
    {"aten.mm.default", R"(["$x", "$row"])", 3,
     "O040: aten.mm.default: sizes [2, 3] and [4] do not multiply",
     "make the last size of the first equal the second last of the second"},
    {"aten.scaled_dot_product_attention.default", R"(["$row", "$row", "$row"])", 3,
     "O042: tsc.attention.default needs 2 or more dimensions"
     " (in the decomposition of aten.scaled_dot_product_attention.default)",
     "pass [.., length, depth]"},
    {"aten.scaled_dot_product_attention.default", R"(["$heads", "$wide", "$wide"])", 3,
     "O042: tsc.attention.default: query depth 8 is not key depth 7"
     " (in the decomposition of aten.scaled_dot_product_attention.default)",
     "make the last sizes equal"},
    {"aten.scaled_dot_product_attention.default", R"(["$heads", "$groups", "$groups"])", 3,
     "O042: tsc.attention.default: 3 query heads, 2 key heads"
     " (in the decomposition of aten.scaled_dot_product_attention.default)",
     "make the query heads a multiple of the key heads", R"({"enable_gqa": true})"},
    {"aten.embedding.default", R"(["$row", "$index"])", 3,
     "O043: aten.embedding: the weight has 1 dimensions", "pass a matrix"},
    {"aten.einsum.default", R"(["ij,jk", ["$x"]])", 3,
     "O044: aten.einsum: 1 tensors for 2 operands", "pass one tensor an operand"},
    {"aten.cat.default", "[[]]", 3, "O044: aten.cat of no tensors", "pass one or more"},
    {"aten.constant_pad_nd.default", R"(["$x", [1, 1, 1, 1, 1, 1], 0.0])", 3,
     "O045: aten.constant_pad_nd: 6 pads for 2 dimensions",
     "pass (before, after) for the last dimensions"},
    {"aten.convolution.default",
     R"(["$x", "$kernel", null, [1, 1], [0, 0], [1, 1], false, [0, 0], 1])", 3,
     "O048: aten.convolution: input [2, 3], weight [8, 4, 3, 3]",
     "pass [N, C, ..] and [O, C / groups, ..] with as many dimensions"},
    {"aten.conv2d.default", R"(["$x", "$kernel"])", 3,
     "O048: aten.conv2d.default: input [2, 3], weight [8, 4, 3, 3]",
     "pass 2 spatial dimensions after the channels"},
    {"aten.conv2d.default", R"(["$planes", "$kernel", null, [1, 1], [0, 0], [1, 1], 2])", 3,
     "O048: aten.convolution: the input has 4 channels, the weight takes 8 (in the decomposition "
     "of aten.conv2d.default)",
     "make them equal"},
    {"aten.convolution.default",
     R"(["$planes", "$kernel", null, [1, 1], [0, 0], [1, 1], true, [0, 0], 3])", 3,
     "O048: aten.convolution: the input has 4 channels, the weight takes 8", "make them equal"},
    {"aten.conv_transpose2d.input", R"(["$planes", "$cross", null, [1, 1], [0, 0], [0, 0], 3])", 3,
     "O048: aten.convolution: 3 groups of 4 input channels (in the decomposition of "
     "aten.conv_transpose2d.input)",
     "choose groups that divide the channels"},
    {"aten.conv2d.default", R"(["$planes", "$kernel", null, [0, 1]])", 3,
     "O048: aten.convolution: stride [0, 1], dilation [1, 1] (in the decomposition of "
     "aten.conv2d.default)",
     "use 1 or more"},
    {"aten.conv2d.default", R"(["$planes", "$kernel", null, [1, 1], [0, 0], [3, 3]])", 3,
     "O048: aten.convolution: a window of [3, 3] does not fit into [1, 4, 5, 6] (in the "
     "decomposition of aten.conv2d.default)",
     "make the input larger, or pad it"},
    {"aten.conv2d.padding", R"(["$planes", "$kernel", null, [1, 1], "circular"])", 3,
     "O048: aten.conv2d.padding with padding 'circular'",
     "use 'valid', 'same' or a number a dimension"},
    {"aten.max_pool2d.default", R"(["$x", [2, 2]])", 3, "O048: aten.max_pool2d.default of [2, 3]",
     "pass [N, C, H, W] or [C, H, W]"},
    {"aten.max_pool2d.default", R"(["$planes", [2, 0]])", 3,
     "O048: aten.max_pool2d.default with a window of [2, 0], stride [2, 0], dilation [1, 1]",
     "use 1 or more"},
    {"aten.avg_pool2d.default", R"(["$planes", [3, 2], [1, 1], [2, 1]])", 3,
     "O048: aten.avg_pool2d.default with padding [2, 1] of a window of [3, 2]",
     "pad by half of the window at most"},
    {"aten.avg_pool2d.default", R"(["$planes", [3, 7]])", 3,
     "O048: aten.avg_pool2d.default: a window of [3, 7] does not fit into [1, 4, 5, 6]",
     "make the input larger, or pad it"},
    {"aten.adaptive_avg_pool2d.default", R"(["$planes", [3, -2]])", 3,
     "O048: aten.adaptive_avg_pool2d.default of [1, 4, 5, 6] to [3, -2]",
     "pass dimensions with at least one element, and sizes that are not negative"},
    {"aten.im2col.default", R"(["$x", [2, 2], [1, 1], [0, 0], [1, 1]])", 3,
     "O048: aten.im2col.default of [2, 3]", "pass [N, C, H, W] or [C, H, W]"},
    {"aten.col2im.default", R"(["$row", [4, 4], [2, 2], [1, 1], [0, 0], [1, 1]])", 3,
     "O048: aten.col2im.default of [4]", "pass [N, C * taps, positions] or [C * taps, positions]"},
    {"aten.col2im.default", R"(["$x", [4, 4], [2, 2], [1, 1], [0, 0], [1, 1]])", 3,
     "O048: aten.col2im.default of [2, 3] with windows of [2, 2] at [3, 3] positions",
     "pass [N, C * taps, positions]"},
    {"aten.unfold.default", R"(["$x", 1, 4, 1])", 3,
     "O025: aten.unfold.default: a window of 4 is outside size 3", "choose a window that fits"},
    {"aten.unfold.default", R"(["$x", 1, 2, 0])", 3, "O026: aten.unfold.default: the step is 0",
     "use a positive step"},
    {"aten.topk.default", R"(["$x", 4])", 3, "O049: aten.topk.default: 4 of 3 elements",
     "ask for as many elements as the dimension has, or fewer"},
    {"aten.kthvalue.default", R"(["$x", 4])", 3, "O049: aten.kthvalue.default: element 4 of 3",
     "count from 1 to the size of the dimension"},
    {"aten.median.dim", R"(["$empty", 1])", 3, "O049: aten.median.dim of no elements",
     "pass a dimension with at least one element"},
    {"aten.nonzero.default", R"(["$x"])", 4,
     "O004: aten.nonzero.default: the result's size depends on data",
     "use torch.where with three arguments, or a mask"},
    {"aten.one_hot.default", R"(["$index"])", 4,
     "O004: aten.one_hot.default without num_classes: the result's size depends on data",
     "pass num_classes"},
    {"aten.einsum.default", R"(["ij->kk", ["$x"]])", 4,
     "O008: aten.einsum 'ij->kk': an output label is in no operand, or twice in the output",
     "write it with matmul, permute and sum"},
    {"aten.einsum.default", R"(["ij,ji->", ["$x", "$x"]])", 3,
     "O020: aten.einsum: label 'j' has sizes 3 and 2", "make them equal"},
    {"aten.searchsorted.Tensor", R"(["$row", "$x"])", 3,
     "O030: aten.searchsorted.Tensor: unknown side 'up'", "use 'left' or 'right'",
     R"({"side": "up"})"},
    {"aten.batch_norm.default", R"(["$row", null, null, null, null, true, 0.1, 1e-5, false])", 3,
     "O038: aten.batch_norm.default of a tensor of 1 dimensions", "pass [batch, channels, ..]"},
    {"aten.native_batch_norm.default", R"(["$x", null, null, null, null, false, 0.1, 1e-5])", 3,
     "O039: aten.native_batch_norm.default outside training has no running statistics",
     "pass running_mean and running_var, or normalize with the input's statistics"},
    {"aten.bilinear.default", R"(["$x", "$x", "$x"])", 3,
     "O040: aten.bilinear.default: sizes [2, 3], [2, 3] and [2, 3] do not multiply",
     "pass inputs [.., i] and [.., j] and a weight [o, i, j]"},
    {"aten.addbmm.default", R"(["$x", "$x", "$x"])", 3,
     "O040: aten.addbmm.default: sizes [2, 3] and [2, 3] do not multiply",
     "pass batches of matrices"},
    {"aten.gru.input", R"(["$x", "$x", [], true, 1, 0.0, false, false, false])", 3,
     "O090: aten.gru.input: the input has 2 dimensions",
     "pass [length, batch, features], or [batch, length, features] with batch_first"},
    {"aten.gru.data", R"(["$x", "$index", "$x", [], true, 1, 0.0, false, false])", 4,
     "O091: aten.gru.data: packed sequences are not supported",
     "pass a padded tensor instead of a PackedSequence"},
    {"aten.mse_loss.default", R"(["$x", "$x", 3])", 3,
     "O092: aten.mse_loss.default: unknown reduction 3", "use 0 (none), 1 (mean) or 2 (sum)"},
    {"aten.nll_loss.default", R"(["$x", "$index"])", 3,
     "O093: aten.nll_loss.default: scores of 2 dimensions, targets of 2",
     "pass scores [batch, classes, ..] and targets [batch, ..]"},
    {"aten.multi_margin_loss.default", R"(["$x", "$at", 3])", 3,
     "O093: aten.multi_margin_loss.default: the power is 3", "use 1 or 2"},
    {"aten.ctc_loss.IntList", R"(["$x", "$index", [1], [1]])", 4,
     "O094: aten.ctc_loss.IntList is not supported",
     "compute the loss outside of the exported model"},
    {"aten.tensordot.default", R"(["$x", "$x", [0, 1], [0]])", 3,
     "O095: aten.tensordot.default: 2 and 1 dimensions are contracted",
     "name as many dimensions of the one as of the other"},
    {"aten.cross.default", R"(["$row", "$row"])", 3,
     "O095: aten.cross.default: no dimension of size 3 in [4]", "pass vectors of 3 elements"},
    {"aten.linalg_norm.default", R"(["$x", 2])", 4,
     "O096: aten.linalg_norm.default of this order needs singular values",
     "use the order 'fro', 1, -1, inf or -inf"},
    {"aten.upsample_nearest2d.vec", R"(["$x", [4, 4], null])", 3,
     "O097: aten.upsample_nearest2d.vec of a tensor of 2 dimensions",
     "pass [batch, channels] and 2 spatial dimensions"},
    {"aten.grid_sampler.default", R"(["$x", "$x", 0, 0, false])", 3,
     "O098: aten.grid_sampler.default: input [2, 3], grid [2, 3]",
     "pass [batch, channels, height, width] and [batch, rows, columns, 2]"},
    {"aten.affine_grid_generator.default", R"(["$x", [2, 3], false])", 3,
     "O098: aten.affine_grid_generator.default: size [2, 3] has not 4 or 5 dimensions",
     "pass the size of the sampled tensor"},
    {"aten.grid_sampler.default", R"(["$picture", "$grid", 2, 0, false])", 4,
     "O099: aten.grid_sampler.default with bicubic interpolation is not supported",
     "use mode 'bilinear' or 'nearest'"},
    {"aten.upsample_nearest2d.vec", R"(["$picture", null, [0.1, 1.0]])", 3,
     "O097: aten.upsample_nearest2d.vec from 4 to 0 elements",
     "give an output_size, or a scale factor, that leaves an element"},
    {"aten.pixel_shuffle.default", R"(["$x", 2])", 3,
     "O100: aten.pixel_shuffle.default of sizes [2, 3] by 2",
     "make the channels a multiple of the factor squared"},
    {"aten.channel_shuffle.default", R"(["$x", 2])", 3,
     "O100: aten.channel_shuffle.default of sizes [2, 3]", "pass [batch, channels, ..]"},
    {"aten.prelu.default", R"(["$x", "$row"])", 3, "O101: aten.prelu: 4 slopes for 3 channels",
     "pass one slope, or one a channel"},
    {"aten.embedding_bag.default", R"(["$row", "$index", "$index"])", 3,
     "O102: aten.embedding_bag.default: weight [4], indices [2, 3], offsets [2, 3]",
     "pass a matrix, and vectors of indices and offsets"},
    {"aten.embedding_renorm_.default", R"(["$x", "$index", 1.0, 2.0])", 4,
     "O103: aten.embedding_renorm_.default is not supported",
     "export the embedding without max_norm"},
    {"aten.linear.default", R"(["$x", "$matrix"])", 3,
     "O040: aten.mm.default: sizes [2, 3] and [5, 4] do not multiply (in the decomposition of "
     "aten.linear.default)",
     "make the last size of the first equal the second last of the second"},
    {"aten.amax.default", R"(["$empty", [1]])", 4, "O062: max over an empty dimension has no value",
     "reduce a dimension with at least one element"},
    {"aten.scatter_reduce.two", R"(["$x", 0, "$index", "$x", "median"])", 4,
     "O064: scatter_reduce with reduce='median' is not supported",
     "use sum, prod, mean, amax or amin"},
    // Dimensions and sizes that a rule looks at, and the tensor does not have.
    {"aten.bucketize.Tensor", R"(["$x", "$number"])", 3,
     "O128: aten.bucketize.Tensor: 'boundaries' has 0 dimensions, 1 are needed", "reshape it"},
    {"aten.searchsorted.Tensor", R"(["$x", "$cube"])", 3,
     "O129: aten.searchsorted.Tensor: 'self' of sizes [2, 3, 4] does not fit 'sorted_sequence' of "
     "sizes [2, 3]",
     "give tensors of sizes that fit"},
    {"aten.searchsorted.Scalar", R"(["$x", 1])", 3,
     "O128: aten.searchsorted.Scalar: 'sorted_sequence' has 2 dimensions, 1 are needed",
     "reshape it"},
    {"aten.narrow.default", R"(["$number", 0, 0, 1])", 3,
     "O021: aten.narrow.default of a tensor without dimensions", "reshape it to a vector"},
    {"aten.diff.default", R"(["$number"])", 3,
     "O021: aten.diff.default of a tensor without dimensions", "reshape it to a vector"},
    {"aten.tensordot.default", R"(["$number", "$row", [0], [0]])", 3,
     "O021: aten.tensordot.default of a tensor without dimensions", "reshape it to a vector"},
    {"aten.tensordot.default", R"(["$square", "$square", [0, 0], [0, 1]])", 3,
     "O095: aten.tensordot.default: a dimension is contracted twice", "name each dimension once"},
    {"aten.mm.default", R"(["$mask", "$mask"])", 3, "O127: aten.mm.default of torch.bool",
     "convert it to an integer or a floating dtype first"},
    {"aten.scaled_dot_product_attention.default", R"(["$index", "$index", "$index"])", 3,
     "O127: aten.scaled_dot_product_attention.default of torch.int64",
     "convert it to a floating dtype first"},
    {"aten.scaled_dot_product_attention.default", R"(["$cube", "$flat", "$flat"])", 3,
     "O042: tsc.attention.default: query heads in groups, but no key heads (in the decomposition "
     "of aten.scaled_dot_product_attention.default)",
     "pass [.., heads, length, depth]", R"({"enable_gqa": true})"},
    {"aten.addmm.default", R"(["$cube", "$square", "$square"])", 3,
     "O020: aten.addmm.default: 'self' of sizes [2, 3, 4] does not broadcast to [3, 3]",
     "make the sizes equal, or its own 1"},
    {"aten.addmm.default", R"(["$at", "$square", "$square"])", 3,
     "O041: aten.addmm.default of torch.int64 and torch.float32", "convert both to one dtype"},
    {"aten.dot.default", R"(["$row", "$number"])", 3,
     "O128: aten.dot.default: 'tensor' has 0 dimensions, 1 are needed", "reshape it"},
    {"aten.outer.default", R"(["$x", "$row"])", 3,
     "O128: aten.outer.default: 'self' has 2 dimensions, 1 are needed", "reshape it"},
    {"aten.addr.default", R"(["$x", "$row", "$x"])", 3,
     "O128: aten.addr.default: 'vec2' has 2 dimensions, 1 are needed", "reshape it"},
    {"aten.mv.default", R"(["$row", "$row"])", 3,
     "O128: aten.mv.default: 'self' has 1 dimensions, 2 are needed", "reshape it"},
    {"aten.addmv.default", R"(["$cube", "$matrix", "$row"])", 3,
     "O020: aten.addmv.default: 'self' of sizes [2, 3, 4] does not broadcast to [4]",
     "make the sizes equal, or its own 1"},
    {"aten.baddbmm.default", R"(["$index", "$cube", "$cube"])", 3,
     "O041: aten.baddbmm.default of torch.int64 and torch.float32", "convert both to one dtype"},
    {"aten.split.Tensor", R"(["$x", 0])", 3, "O027: aten.split.Tensor of size 2 into parts of 0",
     "ask for parts of 1 or more"},
    {"aten.vsplit.int", R"(["$row", 2])", 3,
     "O128: aten.vsplit.int: 'self' has 1 dimensions, at least 2 are needed", "reshape it"},
    {"aten.hsplit.int", R"(["$row", 3])", 3, "O027: aten.hsplit.int of size 4 into 3 parts",
     "ask for parts of one size"},
    {"aten.as_strided_.default", R"(["$x", [2], [1, 1]])", 3,
     "O079: aten.as_strided.default: 1 sizes and 2 strides (in the decomposition of "
     "aten.as_strided_.default)",
     "pass a stride for each size"},
    {"aten._foreach_addcmul.Tensor", R"([["$x"], ["$x"], ["$x"], "$number"])", 3,
     "O077: aten._foreach_addcmul.Tensor: scalars has sizes [], the list has 1",
     "pass a vector of as many elements"},
    {"aten.embedding_dense_backward.default", R"(["$number", "$at", 4, -1, false])", 3,
     "O021: aten.embedding_dense_backward.default of a tensor without dimensions",
     "reshape it to a vector"},
    {"aten.multi_margin_loss.default", R"(["$square", "$at"])", 3,
     "O129: aten.multi_margin_loss.default: 'target' of sizes [2] does not fit 'self' of sizes [3, "
     "3]",
     "give tensors of sizes that fit"},
    {"aten.gru.input", R"(["$cube", "$x", [], false, 0, 0.0, false, false, false])", 3,
     "O090: aten.gru.input: an initial state has 2 dimensions",
     "pass [layers * directions, batch, width]"},
    {"aten.diagonal.default", R"(["$x", 0, 0, 0])", 3,
     "O024: aten.diagonal.default: the two dimensions are one", "name two"},
    {"aten.index_put.default", R"(["$x", ["$at"], "$row"])", 3,
     "O020: aten.index_put.default: 'values' of sizes [4] does not broadcast to [2, 3]",
     "make the sizes equal, or its own 1"},
    {"aten.index_put.default", R"(["$matrix", ["$mask"], "$number"])", 3,
     "O043: aten.index_put.default: a mask of sizes [2, 3] at dimension 0 of [4, 5]",
     "pass a mask of the sizes of the dimensions that it stands for"},
    {"aten.index_put.default", R"(["$x", ["$mask"], "$cube"])", 3,
     "O020: aten.index_put.default: 'values' of sizes [2, 3, 4] does not broadcast to [4]",
     "make the sizes equal, or its own 1"},
    {"aten.index_put.default", R"(["$row", ["$at", "$at"], "$number"])", 3,
     "O043: aten.index_put.default: 2 indices for 1 dimensions",
     "pass one index a dimension at most"},
    {"aten.slice_scatter.default", R"(["$x", "$cube"])", 3,
     "O074: aten.slice_scatter.default: src has sizes [2, 3, 4], the region has [2, 3]",
     "pass a src of the region's sizes"},
};

json graph_of(const WrongCall &call) {
  json nodes = json::array(), inputs = json::array();
  auto placeholder = [&](const char *name, const char *dtype, const json &size) {
    nodes.push_back(
        {{"name", name}, {"op", "placeholder"}, {"val", {{"dtype", dtype}, {"size", size}}}});
    inputs.push_back({{"node", name}, {"kind", "user"}});
  };
  placeholder("x", "float32", {2, 3});
  placeholder("number", "float32", json::array());
  placeholder("flat", "float32", {3, 4});
  placeholder("at", "int64", json::array({2}));
  placeholder("row", "float32", json::array({4}));
  placeholder("cube", "float32", {2, 3, 4});
  placeholder("empty", "float32", {2, 0});
  placeholder("index", "int64", {2, 3});
  placeholder("mask", "bool", {2, 3});
  placeholder("half", "float16", {3, 2});
  placeholder("square", "float32", {3, 3});
  placeholder("image", "float32", {1, 4, 5, 5});
  placeholder("heads", "float32", {1, 3, 4, 8});
  placeholder("wide", "float32", {1, 3, 4, 7});
  placeholder("groups", "float32", {1, 2, 4, 8});
  placeholder("planes", "float32", {1, 4, 5, 6});
  placeholder("kernel", "float32", {8, 4, 3, 3});
  placeholder("cross", "float32", {4, 2, 3, 3});
  placeholder("picture", "float32", {1, 1, 4, 4});
  placeholder("grid", "float32", {1, 2, 2, 2});
  placeholder("matrix", "float32", {4, 5});
  nodes.push_back({{"name", "parts"},
                   {"op", "call_function"},
                   {"target", "aten.unbind.int"},
                   {"args", with_references(json::parse(R"(["$x", 0])"))}});
  nodes.push_back({{"name", "y"},
                   {"op", "call_function"},
                   {"target", call.target},
                   {"args", with_references(json::parse(call.arguments))},
                   {"kwargs", with_references(json::parse(call.keywords))}});
  const json result = {{"node", "y"}};
  nodes.push_back(
      {{"name", "output"}, {"op", "output"}, {"args", json::array({json::array({result})})}});
  json outputs = json::array();
  outputs.push_back({{"kind", "user"}, {"value", result}});
  return {{"format", "tsc-graph"},
          {"version", 1},
          {"name", "wrong"},
          {"nodes", nodes},
          {"signature", {{"inputs", inputs}, {"outputs", outputs}}}};
}

/// The report without the line that describes the call: check_test.cpp asserts that.
std::string without_call(const std::string &report) {
  const size_t start = report.find("  call "), end = report.find('\n', start);
  return start == std::string::npos ? report : report.substr(0, start) + report.substr(end + 1);
}

} // namespace

TEST_CASE("wrong arguments of operators are coded errors with a next step") {
  Workplace place;
  for (const WrongCall &call : kWrongCalls) {
    place.file("wrong.json", graph_of(call).dump());
    Outcome outcome = place.run({"compile", "wrong.json", "--emit=cuda"});
    INFO(call.target << " " << call.arguments);
    CHECK(outcome.exit_code == call.exit_code);
    CHECK(outcome.out == "");
    CHECK(without_call(outcome.err) == std::string("error TSC-") + call.error +
                                           "\n  at wrong.json (node y)\n  next: " + call.next_step +
                                           "\n");
  }
}
