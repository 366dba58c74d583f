// What shape and dtype rules share: promotion, broadcasting, and PyTorch's choice of strides.
#pragma once

#include "ops/table/operator.h"

namespace tsc::ops {

/// An elementwise operand: a tensor, or a number (tensor == nullptr).
struct ElementwiseOperand {
  const TensorMeta *tensor = nullptr;
  tensor::Scalar number = int64_t{0};
};
/// The named parameters that are given; None is left out.
std::vector<ElementwiseOperand> elementwise_operands(const Call &call,
                                                     std::initializer_list<std::string_view> names);

/// c10::result_type: tensors with dimensions, then 0-d tensors, then numbers; a lower kind counts
/// only if its category (bool < int < float) is higher.
DType promote_operands(const std::vector<ElementwiseOperand> &operands);
/// Integers and bool become f32, as for exp or true division.
DType to_floating(DType dtype);
/// f32 for the reduced floats, else `dtype`: what reductions inside decompositions compute in.
DType accumulation_dtype(DType dtype);

/// Equal for all values of the symbols, as far as can be proved.
bool same_size(Expr a, Expr b, const symbolic::Ranges &ranges);
/// Equal for some values of the symbols, as far as can be ruled out.
bool may_equal(Expr a, Expr b, const symbolic::Ranges &ranges);
/// The same of two sizes that `call` takes to be one: noted unless it can be proved.
bool taken_equal(const Call &call, Expr a, Expr b);
/// Throws TSC-O020 if two sizes cannot be broadcast.
std::vector<Expr> broadcast(const Call &call, const std::vector<std::vector<Expr>> &shapes);
/// Throws TSC-O020 unless `sizes`, of argument `name`, broadcast to `target`.
void require_expandable(const Call &call, std::string_view name, const std::vector<Expr> &sizes,
                        const std::vector<Expr> &target);
/// Throws TSC-O074 unless the tensor `name` has the sizes of the region that it is written to.
void require_sizes(const Call &call, std::string_view name, const std::vector<Expr> &region);
std::string print_sizes(const std::vector<Expr> &sizes);

/// TensorIterator: the result of an elementwise operator over `tensors`, which broadcast to
/// `sizes`.
std::vector<Expr> elementwise_strides(const std::vector<Expr> &sizes,
                                      const std::vector<const tensor::Layout *> &tensors,
                                      const symbolic::Ranges &ranges);
Value elementwise_value(const Call &call, const std::vector<ElementwiseOperand> &operands,
                        DType dtype);

/// Dimensions from innermost to outermost as TensorIterator orders them for these strides.
std::vector<size_t> iteration_order(const std::vector<Expr> &sizes,
                                    const std::vector<std::vector<Expr>> &strides,
                                    const symbolic::Ranges &ranges);
/// at::infer_dense_strides or, for a dense tensor, its own strides: clone(preserve_format).
std::vector<Expr> preserved_strides(const tensor::Layout &layout, const symbolic::Ranges &ranges);
bool is_non_overlapping_and_dense(const tensor::Layout &layout, const symbolic::Ranges &ranges);
/// Strides of a fresh tensor; `like` serves preserve_format.
std::vector<Expr> strides_in_format(const Call &call, const tensor::Layout &like,
                                    graph::MemoryFormat format);
/// [N, C, spatial..] nested as N, spatial.., C.
std::vector<Expr> channels_last_strides(const std::vector<Expr> &sizes);

Value tensor_value(DType dtype, std::vector<Expr> sizes, std::vector<Expr> strides,
                   tensor::Device device, Expr offset = Expr(0));
Value contiguous_value(DType dtype, std::vector<Expr> sizes, tensor::Device device);

/// Throws TSC-O021 unless -rank <= dim < rank (a rank of 0 counts as 1).
size_t normalize_dim(const Call &call, int64_t dim, size_t rank);
/// The same of a dimension that is looked at: throws TSC-O021 for a tensor without dimensions.
size_t existing_dim(const Call &call, int64_t dim, size_t rank);
/// The last size of the tensor `parameter`; throws TSC-O021 if it has none.
Expr last_size(const Call &call, std::string_view parameter);
/// Sorted and unique; an empty or absent list means all dimensions.
std::vector<size_t> reduced_dims(const Call &call, std::string_view parameter, size_t rank);
/// The sizes that `requested` means for `numel` elements: one -1 is inferred. Throws TSC-O022.
std::vector<Expr> resolve_view_sizes(const Call &call, const std::vector<Expr> &sizes,
                                     const std::vector<Expr> &requested);
/// at::detail::computeStride: strides that see `layout` as `sizes` without a copy, if there are
/// any.
std::optional<std::vector<Expr>> view_strides(const tensor::Layout &layout,
                                              const std::vector<Expr> &sizes,
                                              const symbolic::Ranges &ranges);
/// The device that a factory's `device` argument names, or `fallback`.
tensor::Device device_argument(const Call &call, tensor::Device fallback);

} // namespace tsc::ops
