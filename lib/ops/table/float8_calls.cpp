#include "ops/table/float8_calls.h"

#include "ops/table/complex_calls.h"

#include <iterator>
#include <string>
#include <unordered_set>

namespace tsc::ops {
namespace {

/// Operators, all overloads, that hand elements on as they are, cast them, or multiply matrices of
/// them; of PyTorch's eager mode these are the ones that work on a CPU.
constexpr std::string_view kTakers[] = {
    // copies, casts, fills
    "clone", "copy", "contiguous", "prims.convert_element_type", "_to_copy", "to", "type_as",
    "alias", "detach", "detach_", "lift_fresh", "lift", "lift_fresh_copy", "cpu", "prims.view_of",
    "prims.device_put", "requires_grad_", "full", "zeros", "ones", "zeros_like", "ones_like",
    "new_zeros", "new_ones", "full_like", "new_full", "scalar_tensor", "fill", "zero", "empty",
    "empty_strided", "empty_like", "new_empty", "new_empty_strided", "empty_permuted", "dropout",
    "_local_scalar_dense", "item",
    // views and what they make
    "view", "_unsafe_view", "reshape", "_reshape_alias", "view_as", "reshape_as", "flatten",
    "unflatten", "ravel", "permute", "transpose", "t", "numpy_T", "mT", "swapaxes", "swapdims",
    "movedim", "moveaxis", "expand", "expand_as", "broadcast_to", "broadcast_tensors", "unsqueeze",
    "squeeze", "slice", "select", "narrow", "as_strided", "diagonal", "unfold", "unbind", "chunk",
    "unsafe_chunk", "split", "unsafe_split", "split_with_sizes", "unsafe_split_with_sizes",
    "tensor_split", "hsplit", "vsplit", "dsplit", "atleast_1d", "atleast_2d", "atleast_3d",
    "operator.getitem", "view_copy", "expand_copy", "permute_copy", "slice_copy", "transpose_copy",
    "t_copy", "unsqueeze_copy", "squeeze_copy", "select_copy", "tsc.stored", "tsc.clone_strided",
    "tsc.channels_inside", "tsc.channels_innermost",
    // joining and moving
    "cat", "concat", "concatenate", "stack", "hstack", "vstack", "dstack", "column_stack",
    "constant_pad_nd", "pad", "flip", "fliplr", "flipud", "roll", "tsc.rotate", "rot90", "repeat",
    "tile", "repeat_interleave", "where", "diag_embed",
    // places
    "index", "_unsafe_index", "index_select", "embedding", "index_put", "_unsafe_index_put",
    "slice_scatter", "select_scatter", "diagonal_scatter", "as_strided_scatter",
    // truth
    "eq", "ne", "isnan",
    // products
    "_scaled_mm", "_scaled_mm_v2", "_scaled_grouped_mm", "tsc.mm_of_float8",
    // quantized models
    "quantized_decomposed.quantize_per_tensor", "quantized_decomposed.dequantize_per_tensor",
    "quantized_decomposed.quantize_per_channel", "quantized_decomposed.dequantize_per_channel",
    "quantized_decomposed.convert_element_type",
    // of sizes and dtypes
    "_assert_tensor_metadata", "result_type", "is_distributed", "sym_size", "sym_numel",
    "sym_stride", "sym_storage_offset"};

bool takes_float8(const Operator &row) {
  static const std::unordered_set<std::string_view> takers(std::begin(kTakers), std::end(kTakers));
  return takers.count(family_of(row)) != 0;
}

/// Adding up is arithmetic.
bool accumulates(const Call &call) {
  for (const Parameter &parameter : call.schema().parameters)
    if (parameter.name == "accumulate")
      return call.boolean("accumulate");
  return false;
}

} // namespace

void check_float8(const Call &call, const Operator &row) {
  const std::optional<DType> dtype = dtype_among(call, tensor::is_float8);
  if (dtype && (!takes_float8(row) || accumulates(call)))
    call.refuse("TSC-K001",
                "kernels cannot compute with " + std::string(tensor::torch_name(*dtype)),
                "convert the tensor to float32 or a 16-bit float first");
}

} // namespace tsc::ops
