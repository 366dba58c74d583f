// What the families of linear algebra share: matrices are the last two dimensions, batches before
// them. Factorizations are library calls (tsc.* rows), everything else leads to them and to
// products.
#pragma once

#include "ops/table/builder.h"

namespace tsc::ops {

/// The tensor `parameter` as matrices, real or complex. Throws TSC-O127 for a dtype that PyTorch's
/// routines do not take (16 bits, integers), TSC-O128 for fewer than two dimensions.
const TensorMeta &matrices(const Call &call, std::string_view parameter);
/// The same, square: TSC-O129 where the sizes are known to differ.
const TensorMeta &square_matrices(const Call &call, std::string_view parameter);

Expr rows_of(const TensorMeta &matrix);
Expr columns_of(const TensorMeta &matrix);
/// Of both sizes.
Expr least_of(const TensorMeta &matrix);
std::vector<Expr> batch_of(const TensorMeta &matrix);
/// batch, then `last`.
std::vector<Expr> batched_sizes(const std::vector<Expr> &batch, std::initializer_list<Expr> last);

/// Sizes with the columns of each matrix one after another, as LAPACK and PyTorch have results.
Value column_value(DType dtype, std::vector<Expr> sizes, tensor::Device device);
/// `x`, laid out so.
Argument by_columns(GraphBuilder &builder, const Argument &x);

/// The matrices' transposes, a view.
Argument transposed(GraphBuilder &builder, const Argument &x);
/// Every element's conjugate: a real tensor is its own.
Argument conjugated(GraphBuilder &builder, const Argument &x);
/// The conjugated transposes.
Argument adjoint(GraphBuilder &builder, const Argument &x);
Argument product(GraphBuilder &builder, const Argument &a, const Argument &b);
/// Elements [0, length) along `dim`; `x` itself where that is all of them.
Argument first(GraphBuilder &builder, const Argument &x, int64_t dim, Expr length);
Argument expanded(GraphBuilder &builder, const Argument &x, const std::vector<Expr> &sizes);
/// Unit matrices [batch.., n, n].
Argument unit_matrices(GraphBuilder &builder, const std::vector<Expr> &batch, Expr n, DType dtype);
/// A new tensor without elements: what PyTorch gives for a result that nobody asked for.
Argument no_elements(GraphBuilder &builder, DType dtype);

/// What a tsc.* row of a library gives. Complex tensors go in and come out as pairs of real numbers
/// (`paired`: a last dimension of 2).
class LibraryResult {
public:
  LibraryResult(GraphBuilder &builder, std::string_view target, const Arguments &args);
  /// Result `index` of several, real or an integer.
  Argument item(size_t index) const;
  /// The same, complex where the operands are.
  Argument matrix(size_t index) const;
  /// The same, complex whatever the operands are.
  Argument complex_matrix(size_t index) const;
  /// The only result, complex where the operands are.
  Argument matrix() const;

private:
  GraphBuilder *builder_;
  bool paired_ = false;
  Argument result_;
};

/// The run asserts that `info` is 0 everywhere, saying `message`.
void assert_no_info(GraphBuilder &builder, const Argument &info, std::string message);

/// Right sides B of A x = B: of one dimension fewer than A, they are vectors.
bool is_vector_side(const TensorMeta &a, const TensorMeta &b);

} // namespace tsc::ops
