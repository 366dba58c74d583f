// What a library computes of matrices (engine/solver.h): the tsc.* rows, and what families share
// that lead to them.
#include "ops/families/linear_algebra.h"

#include "ops/families/assertions.h"
#include "ops/table/complex_calls.h"
#include "ops/table/memory_format.h"
#include "ops/table/shape_rules.h"
#include "ops/table/table.h"

namespace tsc::ops {

using Sizes = std::vector<Expr>;

const TensorMeta &matrices(const Call &call, std::string_view parameter) {
  const TensorMeta &meta = call.tensor(parameter);
  const DType part = part_dtype(meta.dtype);
  if (part != DType::f32 && part != DType::f64)
    call.fail("TSC-O127", call.node().target + " of " + std::string(tensor::torch_name(meta.dtype)),
              "convert it to torch.float32 or torch.float64 first");
  if (meta.layout.rank() < 2)
    call.fail("TSC-O128",
              call.node().target + ": '" + std::string(parameter) + "' has " +
                  std::to_string(meta.layout.rank()) + " dimensions, at least 2 are needed",
              "give a matrix, or a batch of them");
  return meta;
}

const TensorMeta &square_matrices(const Call &call, std::string_view parameter) {
  const TensorMeta &meta = matrices(call, parameter);
  if (!taken_equal(call, rows_of(meta), columns_of(meta)))
    call.fail("TSC-O129",
              call.node().target + ": '" + std::string(parameter) + "' of sizes " +
                  print_sizes(meta.layout.sizes) + " is not square",
              "give square matrices");
  return meta;
}

Expr rows_of(const TensorMeta &matrix) { return matrix.layout.sizes[matrix.layout.rank() - 2]; }
Expr columns_of(const TensorMeta &matrix) { return matrix.layout.sizes.back(); }
Expr least_of(const TensorMeta &matrix) {
  return symbolic::minimum(rows_of(matrix), columns_of(matrix));
}
Sizes batch_of(const TensorMeta &matrix) {
  return {matrix.layout.sizes.begin(), matrix.layout.sizes.end() - 2};
}
Sizes batched_sizes(const Sizes &batch, std::initializer_list<Expr> last) {
  Sizes sizes = batch;
  sizes.insert(sizes.end(), last);
  return sizes;
}

namespace {

tensor::Layout column_layout(const Sizes &sizes) {
  Sizes swapped = sizes;
  std::swap(swapped[swapped.size() - 1], swapped[swapped.size() - 2]);
  tensor::Layout layout = tensor::contiguous_layout(swapped);
  std::swap(layout.strides[sizes.size() - 1], layout.strides[sizes.size() - 2]);
  layout.sizes = sizes;
  return layout;
}

} // namespace

Value column_value(DType dtype, Sizes sizes, tensor::Device device) {
  Sizes strides = column_layout(sizes).strides;
  return tensor_value(dtype, std::move(sizes), std::move(strides), device);
}

Argument by_columns(GraphBuilder &builder, const Argument &x) {
  return in_layout(builder, x, column_layout(builder.meta(x).layout.sizes));
}

Argument transposed(GraphBuilder &builder, const Argument &x) {
  return builder.call("aten.transpose.int", {x, -2, -1});
}
Argument conjugated(GraphBuilder &builder, const Argument &x) {
  return tensor::is_complex(builder.meta(x).dtype) ? builder.call("aten._conj.default", {x}) : x;
}
Argument adjoint(GraphBuilder &builder, const Argument &x) {
  return conjugated(builder, transposed(builder, x));
}
Argument product(GraphBuilder &builder, const Argument &a, const Argument &b) {
  return builder.call("aten.matmul.default", {a, b});
}
Argument first(GraphBuilder &builder, const Argument &x, int64_t dim, Expr length) {
  const Sizes sizes = builder.meta(x).layout.sizes;
  const size_t axis = static_cast<size_t>(dim < 0 ? dim + static_cast<int64_t>(sizes.size()) : dim);
  if (sizes[axis] == length)
    return x;
  return builder.call("aten.slice.Tensor", {x, dim, 0, size_argument(length), 1});
}
Argument expanded(GraphBuilder &builder, const Argument &x, const Sizes &sizes) {
  if (builder.meta(x).layout.sizes == sizes)
    return x;
  return builder.call("aten.expand.default", {x, sizes_argument(sizes)});
}
Argument unit_matrices(GraphBuilder &builder, const Sizes &batch, Expr n, DType dtype) {
  const Argument one = builder.call("aten.eye.default", {size_argument(n)}, {{"dtype", dtype}});
  return expanded(builder, one, batched_sizes(batch, {n, n}));
}
Argument no_elements(GraphBuilder &builder, DType dtype) {
  return builder.call("aten.full.default", {Arguments{0}, 0}, {{"dtype", dtype}});
}

void assert_no_info(GraphBuilder &builder, const Argument &info, std::string message) {
  const Argument fine = builder.call("aten.eq.Scalar", {info, 0});
  assert_condition(builder, builder.call("aten.all.default", {fine}), std::move(message));
}

bool is_vector_side(const TensorMeta &a, const TensorMeta &b) {
  const Sizes &sizes = a.layout.sizes;
  return b.layout.rank() == 1 || (b.layout.rank() + 1 == a.layout.rank() &&
                                  b.layout.sizes == Sizes(sizes.begin(), sizes.end() - 1));
}

LibraryResult::LibraryResult(GraphBuilder &builder, std::string_view target, const Arguments &args)
    : builder_(&builder) {
  Arguments given;
  for (const Argument &argument : args) {
    const bool is_complex =
        argument.node() != nullptr && tensor::is_complex(builder.meta(argument).dtype);
    paired_ = paired_ || is_complex;
    given.push_back(is_complex ? builder.call("aten.view_as_real.default", {argument}) : argument);
  }
  given.emplace_back(paired_);
  result_ = builder.call(target, given);
}
Argument LibraryResult::item(size_t index) const { return builder_->item(result_, index); }
Argument LibraryResult::matrix(size_t index) const {
  return paired_ ? complex_matrix(index) : item(index);
}
Argument LibraryResult::complex_matrix(size_t index) const {
  return builder_->call("aten.view_as_complex.default", {item(index)});
}
Argument LibraryResult::matrix() const {
  return paired_ ? builder_->call("aten.view_as_complex.default", {result_}) : result_;
}

namespace {

// ---- what the library computes: real tensors, elements in the last dimension where `paired`

/// The operand `parameter` as matrices of their elements.
TensorMeta elements_of(const Call &call, std::string_view parameter) {
  TensorMeta meta = call.tensor(parameter);
  if (!call.boolean("paired"))
    return matrices(call, parameter);
  meta.dtype = dtype_of_parts(meta.dtype);
  meta.layout.sizes.pop_back();
  meta.layout.strides.pop_back();
  return meta;
}

/// `value` with pairs in the place of complex elements.
Value in_pairs(const Value &value) {
  if (const Value::List *list = value.list()) {
    Value::List pairs;
    for (const Value &each : *list)
      pairs.push_back(in_pairs(each));
    return Value{pairs};
  }
  TensorMeta meta = *value.tensor();
  if (!tensor::is_complex(meta.dtype))
    return value;
  meta.dtype = part_dtype(meta.dtype);
  for (Expr &stride : meta.layout.strides)
    stride = stride * Expr(2);
  meta.layout.sizes.emplace_back(2);
  meta.layout.strides.emplace_back(1);
  return Value{meta};
}

/// What `results` says of the matrices `parameter`.
ShapeRule of_matrices(std::string_view parameter,
                      Value (*results)(const Call &, const TensorMeta &)) {
  return [=](const Call &call) { return in_pairs(results(call, elements_of(call, parameter))); };
}

Value info_value(const TensorMeta &matrix) {
  return contiguous_value(DType::i32, batch_of(matrix), matrix.device);
}

/// Factors of the sizes of `self`, vectors of `length`, and infos.
Value factor_value(const TensorMeta &self, std::optional<Expr> length, DType dtype, bool has_info) {
  Value::List results = {column_value(self.dtype, self.layout.sizes, self.device)};
  if (length)
    results.push_back(
        contiguous_value(dtype, batched_sizes(batch_of(self), {*length}), self.device));
  if (has_info)
    results.push_back(info_value(self));
  return Value{results};
}

Value svd_value(const Call &call, const TensorMeta &self) {
  const Sizes batch = batch_of(self);
  const Expr m = rows_of(self), n = columns_of(self), p = least_of(self);
  const bool full = call.boolean("full");
  return Value{
      Value::List{column_value(self.dtype, batched_sizes(batch, {m, full ? m : p}), self.device),
                  contiguous_value(part_dtype(self.dtype), batched_sizes(batch, {p}), self.device),
                  column_value(self.dtype, batched_sizes(batch, {full ? n : p, n}), self.device),
                  info_value(self)}};
}

Value eigen_value(const Call &, const TensorMeta &self) {
  TensorMeta complex = self;
  complex.dtype = dtype_of_parts(self.dtype);
  return factor_value(complex, rows_of(self), complex.dtype, true);
}

Value like_matrices(const Call &, const TensorMeta &matrices) {
  return column_value(matrices.dtype, matrices.layout.sizes, matrices.device);
}

void add_solutions(Table &table) {
  table
      .add("tsc::triangular_solve(Tensor self, Tensor other, bool upper, bool transposed, bool "
           "unitriangular, bool paired=False) -> Tensor")
      .shape(of_matrices("other", like_matrices))
      .lowers("triangular_solve");
  table
      .add("tsc::lu_solve(Tensor lu, Tensor pivots, Tensor other, bool transposed, bool "
           "paired=False) -> Tensor")
      .shape(of_matrices("other", like_matrices))
      .lowers("lu_solve");
  table
      .add("tsc::ldl_solve(Tensor ldl, Tensor pivots, Tensor other, bool hermitian, bool "
           "paired=False) -> Tensor")
      .shape(of_matrices("other", like_matrices))
      .lowers("ldl_solve");
}

} // namespace

void add_linear_algebra(Table &table) {
  table.add("linalg_diagonal(Tensor(a) A, *, int offset=0, int dim1=-2, int dim2=-1) -> Tensor(a)")
      .effect(Effect::view)
      .decompose([](GraphBuilder &builder, const Call &call) {
        return builder.call("aten.diagonal.default",
                            {call["A"], call["offset"], call["dim1"], call["dim2"]});
      });
  table
      .add("tsc::cholesky(Tensor self, bool upper, bool paired=False) -> (Tensor factor, Tensor "
           "info)")
      .shape(of_matrices("self",
                         [](const Call &, const TensorMeta &self) {
                           return factor_value(self, std::nullopt, DType::f32, true);
                         }))
      .lowers("cholesky");
  table
      .add(
          "tsc::lu(Tensor self, bool paired=False) -> (Tensor factors, Tensor pivots, Tensor info)")
      .shape(of_matrices("self",
                         [](const Call &, const TensorMeta &self) {
                           return factor_value(self, least_of(self), DType::i32, true);
                         }))
      .lowers("lu");
  table
      .add("tsc::ldl(Tensor self, bool hermitian, bool paired=False) -> (Tensor factors, Tensor "
           "pivots, Tensor info)")
      .shape(of_matrices("self",
                         [](const Call &, const TensorMeta &self) {
                           return factor_value(self, rows_of(self), DType::i32, true);
                         }))
      .lowers("ldl");
  table
      .add("tsc::reflections(Tensor self, bool paired=False) -> (Tensor reflections, Tensor "
           "factors)")
      .shape(of_matrices("self",
                         [](const Call &, const TensorMeta &self) {
                           return factor_value(self, least_of(self), self.dtype, false);
                         }))
      .lowers("reflections");
  table.add("tsc::orthogonal(Tensor self, Tensor factors, bool paired=False) -> Tensor")
      .shape(of_matrices("self", like_matrices))
      .lowers("orthogonal");
  table
      .add("tsc::symmetric_eigen(Tensor self, bool upper, bool vectors, bool paired=False) -> "
           "(Tensor vectors, Tensor values, Tensor info)")
      .shape(of_matrices("self",
                         [](const Call &, const TensorMeta &self) {
                           return factor_value(self, rows_of(self), part_dtype(self.dtype), true);
                         }))
      .lowers("symmetric_eigen");
  table
      .add("tsc::eigen(Tensor self, bool vectors, bool paired=False) -> (Tensor vectors, Tensor "
           "values, Tensor info)")
      .shape(of_matrices("self", eigen_value))
      .lowers("eigen");
  table
      .add("tsc::svd(Tensor self, bool full, bool vectors, bool paired=False) -> (Tensor left, "
           "Tensor values, Tensor right, Tensor info)")
      .shape(of_matrices("self", svd_value))
      .lowers("svd");
  add_solutions(table);
}

} // namespace tsc::ops
