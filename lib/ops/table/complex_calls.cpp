#include "ops/table/complex_calls.h"

#include "ops/table/in_place_forms.h"

#include <string>
#include <unordered_set>

namespace tsc::ops {
namespace {

/// Operators, all overloads, whose shape rule and whose decomposition, if there is one, hold for
/// complex numbers. Those without a decomposition are computed by ops::split_complex.
constexpr std::string_view kTakers[] = {
    // made of two parts, or taken apart
    "complex", "polar", "real", "imag", "angle", "view_as_real", "view_as_complex", "_conj", "conj",
    "conj_physical", "_conj_physical", "resolve_conj", "resolve_neg", "_neg_view", "isreal",
    "tsc.real_part", "tsc.imaginary_part", "tsc.complex_of",
    // arithmetic
    "add", "sub", "subtract", "rsub", "mul", "multiply", "div", "divide", "true_divide",
    "reciprocal", "neg", "negative", "positive", "pow", "float_power", "square", "sqrt", "rsqrt",
    "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "sinh", "cosh",
    "tanh", "asin", "acos", "atan", "asinh", "acosh", "atanh", "arcsin", "arccos", "arctan",
    "arcsinh", "arccosh", "arctanh", "sigmoid", "special_expit", "silu", "abs", "absolute", "sgn",
    "sinc", "addcmul", "addcdiv", "lerp", "ldexp", "logaddexp",
    // truth
    "eq", "ne", "not_equal", "isnan", "isinf", "isfinite", "logical_and", "logical_or",
    "logical_xor", "logical_not", "any", "all", "isclose", "count_nonzero",
    // choice, copies, casts, fills
    "where", "masked_fill", "clone", "copy", "contiguous", "prims.convert_element_type", "_to_copy",
    "to", "type_as", "alias", "detach", "detach_", "lift_fresh", "lift", "lift_fresh_copy", "cpu",
    "prims.view_of", "prims.device_put", "requires_grad_", "full", "zeros", "ones", "zeros_like",
    "ones_like", "new_zeros", "_new_zeros_with_same_feature_meta", "new_ones", "full_like",
    "new_full", "scalar_tensor", "fill", "zero", "_efficientzerotensor", "empty", "empty_strided",
    "empty_like", "new_empty", "empty_permuted", "new_empty_strided", "resize", "resize_",
    "resize_as", "resize_as_", "eye", "linspace", "logspace", "softmax", "special_softmax",
    "log_softmax", "special_log_softmax",
    // draws: of either part
    "rand", "randn", "rand_like", "randn_like", "uniform", "normal", "normal_functional",
    "feature_alpha_dropout", "alpha_dropout", "dropout", "feature_dropout", "native_dropout",
    // views and what they make
    "view", "_unsafe_view", "reshape", "_reshape_alias", "view_as", "reshape_as", "flatten",
    "unflatten", "ravel", "permute", "transpose", "t", "numpy_T", "mT", "mH", "adjoint", "matrix_H",
    "swapaxes", "swapdims", "movedim", "moveaxis", "expand", "expand_as", "broadcast_to",
    "broadcast_tensors", "unsqueeze", "squeeze", "slice", "select", "narrow", "as_strided",
    "diagonal", "unfold", "unbind", "chunk", "unsafe_chunk", "split", "unsafe_split",
    "split_with_sizes", "unsafe_split_with_sizes", "tensor_split", "hsplit", "vsplit", "dsplit",
    "atleast_1d", "atleast_2d", "atleast_3d", "operator.getitem", "view_copy", "tsc.stored",
    "tsc.channels_inside", "tsc.channels_innermost", "sum_to_size", "linalg_diagonal",
    // the copies of views
    "alias_copy", "as_strided_copy", "detach_copy", "diagonal_copy", "expand_copy", "narrow_copy",
    "permute_copy", "_reshape_copy", "select_copy", "slice_copy", "split_copy",
    "split_with_sizes_copy", "squeeze_copy", "t_copy", "transpose_copy", "unbind_copy",
    "unfold_copy", "unsqueeze_copy",
    // joining and moving
    "cat", "concat", "concatenate", "stack", "hstack", "vstack", "dstack", "column_stack",
    "row_stack", "block_diag", "constant_pad_nd", "pad", "_pad_circular", "reflection_pad1d",
    "reflection_pad2d", "reflection_pad3d", "replication_pad1d", "replication_pad2d",
    "replication_pad3d", "flip", "fliplr", "flipud", "roll", "tsc.rotate", "rot90", "repeat",
    "tile", "repeat_interleave", "tril", "triu", "diag", "diag_embed", "diagflat", "meshgrid",
    "cartesian_prod", "combinations", "pixel_shuffle", "pixel_unshuffle", "channel_shuffle",
    "native_channel_shuffle", "im2col", "col2im", "tsc.windows", "tsc.overlaps",
    "tsc.covering_windows", "_chunk_cat",
    // places
    "index", "_unsafe_index", "index_select", "gather", "take", "take_along_dim", "embedding",
    "index_put", "_unsafe_index_put", "index_add", "index_copy", "index_fill", "scatter",
    "scatter_add", "slice_scatter", "select_scatter", "diagonal_scatter", "as_strided_scatter",
    "put", "masked_scatter", "tsc.unfold_scatter", "fill_diagonal", "tsc.fill_diagonal",
    "_unsafe_masked_index", "_unsafe_masked_index_put_accumulate", "nonzero", "nonzero_numpy",
    "nonzero_static", "argwhere", "masked_select",
    // gradients of those that pick: linear
    "select_backward", "slice_backward", "diagonal_backward", "unfold_backward", "trace_backward",
    "index_select_backward", "gather_backward", "masked_select_backward", "masked_scatter_backward",
    // reductions and scans
    "sum", "mean", "prod", "cumsum", "cumprod", "var", "std", "var_mean", "std_mean", "norm",
    "linalg_vector_norm", "linalg_norm", "linalg_matrix_norm", "frobenius_norm", "native_norm",
    "dist", "trace", "diff", "logsumexp", "special_logsumexp", "logcumsumexp", "_logcumsumexp",
    "trapezoid", "trapz", "cumulative_trapezoid", "gradient", "renorm", "pairwise_distance",
    "l1_loss", "triplet_margin_loss",
    // products
    "mm", "bmm", "addmm", "baddbmm", "addbmm", "addmv", "addr", "mv", "dot", "vdot", "matmul",
    "linalg_matmul", "linear", "outer", "ger", "inner", "kron", "tensordot", "einsum", "bilinear",
    "chain_matmul", "linalg_multi_dot", "linalg_vecdot", "_trilinear", "cross", "linalg_cross",
    "convolution", "_convolution", "conv1d", "conv2d", "conv3d", "conv_transpose1d",
    "conv_transpose2d", "conv_transpose3d", "rms_norm", "matrix_power", "linalg_matrix_power",
    "matrix_exp", "linalg_matrix_exp", "vander", "linalg_vander",
    // linear algebra
    "linalg_cholesky", "linalg_cholesky_ex", "cholesky", "cholesky_solve", "_cholesky_solve_helper",
    "cholesky_inverse", "linalg_lu_factor", "linalg_lu_factor_ex", "_lu_with_info", "linalg_lu",
    "lu_unpack", "linalg_lu_solve", "lu_solve", "linalg_ldl_factor", "linalg_ldl_factor_ex",
    "linalg_ldl_solve", "geqrf", "linalg_qr", "qr", "linalg_householder_product", "orgqr", "ormqr",
    "linalg_eigh", "_linalg_eigh", "linalg_eigvalsh", "linalg_eig", "linalg_eigvals",
    "_linalg_eigvals", "linalg_svd", "_linalg_svd", "linalg_svdvals", "svd", "nuclear_norm",
    "linalg_solve_triangular", "triangular_solve", "_linalg_solve_ex", "linalg_solve_ex",
    "linalg_solve", "linalg_inv_ex", "linalg_inv", "inverse", "_linalg_check_errors", "_linalg_det",
    "linalg_det", "det", "_linalg_slogdet", "linalg_slogdet", "slogdet", "logdet", "linalg_pinv",
    "pinverse", "linalg_matrix_rank", "linalg_cond", "linalg_lstsq", "linalg_tensorinv",
    "linalg_tensorsolve",
    // functions of slices: what they call is asked where it is called
    "higher_order.scan", "higher_order.map", "higher_order.map_impl",
    "higher_order.associative_scan", "higher_order.cond", "higher_order.while_loop",
    // Fourier transforms
    "_fft_c2c", "_fft_r2c", "_fft_c2r", "fft_fft", "fft_ifft", "fft_rfft", "fft_irfft", "fft_hfft",
    "fft_ihfft", "fft_fft2", "fft_ifft2", "fft_rfft2", "fft_irfft2", "fft_hfft2", "fft_ihfft2",
    "fft_fftn", "fft_ifftn", "fft_rfftn", "fft_irfftn", "fft_hfftn", "fft_ihfftn", "fft_fftshift",
    "fft_ifftshift", "stft", "istft",
    // control, checked where their subgraphs are
    "_assert_tensor_metadata", "is_same_size", "result_type", "is_distributed",
    "_has_same_storage_numel", "sym_size", "sym_numel", "sym_stride", "sym_storage_offset"};

} // namespace

std::string_view family_of(const Operator &row) {
  std::string_view name = row.functional.empty() ? row.name : row.functional;
  const size_t space = name.find('.');
  if (name.substr(0, space) == "aten")
    name.remove_prefix(space + 1);
  else if (const size_t overload = name.find('.', space + 1); overload != std::string_view::npos)
    return name.substr(0, overload);
  else
    return name;
  return name.substr(0, name.find('.'));
}

namespace {

bool takes_complex(const Operator &row) {
  static const std::unordered_set<std::string_view> takers(std::begin(kTakers), std::end(kTakers));
  std::string_view family = family_of(row);
  if (is_view_in_place(row.name)) // takes what the view takes
    family.remove_suffix(1);
  return takers.count(family) != 0;
}

std::optional<DType> dtype_among(const Value &value, DTypeIs is_wanted) {
  if (const TensorMeta *meta = value.tensor())
    return is_wanted(meta->dtype) ? std::optional(meta->dtype) : std::nullopt;
  const Value::List *list = value.list();
  for (size_t i = 0; list != nullptr && i < list->size(); ++i)
    if (const std::optional<DType> found = dtype_among((*list)[i], is_wanted))
      return found;
  return std::nullopt;
}

std::optional<DType> dtype_among(const Call &call, const Argument &argument, DTypeIs is_wanted) {
  if (std::holds_alternative<graph::Complex>(argument.value) && is_wanted(DType::c64))
    return DType::c64;
  if (const DType *dtype = std::get_if<DType>(&argument.value))
    return is_wanted(*dtype) ? std::optional(*dtype) : std::nullopt;
  if (const Value *value = call.value_of(argument); value != nullptr)
    if (const std::optional<DType> found = dtype_among(*value, is_wanted))
      return found;
  const Argument::List *list = argument.list();
  for (size_t i = 0; list != nullptr && i < list->size(); ++i)
    if (const std::optional<DType> found = dtype_among(call, (*list)[i], is_wanted))
      return found;
  return std::nullopt;
}

} // namespace

std::optional<DType> dtype_among(const Call &call, DTypeIs is_wanted) {
  for (const Argument &argument : call.node().args)
    if (const std::optional<DType> found = dtype_among(call, argument, is_wanted))
      return found;
  for (const auto &keyword : call.node().kwargs)
    if (const std::optional<DType> found = dtype_among(call, keyword.second, is_wanted))
      return found;
  return std::nullopt;
}

DType part_dtype(DType dtype) {
  return dtype == DType::c64 ? DType::f32 : dtype == DType::c128 ? DType::f64 : dtype;
}

DType dtype_of_parts(DType dtype) {
  return dtype == DType::f64 || dtype == DType::c128 ? DType::c128 : DType::c64;
}

TensorMeta memory_of(TensorMeta meta) {
  if (!tensor::is_complex(meta.dtype))
    return meta;
  meta.dtype = part_dtype(meta.dtype);
  for (Expr &stride : meta.layout.strides)
    stride = stride * Expr(2);
  meta.layout.offset = meta.layout.offset * Expr(2);
  meta.layout.sizes.emplace_back(2);
  meta.layout.strides.emplace_back(1);
  return meta;
}

bool involves_complex(const Call &call) {
  return dtype_among(call, tensor::is_complex).has_value();
}

void check_complex(const Call &call, const Operator &row) {
  const std::optional<DType> dtype = dtype_among(call, tensor::is_complex);
  if (dtype && !takes_complex(row))
    call.refuse("TSC-O150",
                call.node().target + " of " + std::string(tensor::torch_name(*dtype)) +
                    " is not supported",
                "compute with its parts (torch.view_as_real); docs/complex.md lists what takes "
                "complex numbers");
}

} // namespace tsc::ops
