// Matrix products: library calls on realized, strided operands.
#include "lowering/build.h"
#include "lowering/realize.h"
#include "lowering/registry.h"

#include <algorithm>

namespace tsc::lowering {

namespace {

/// A matrix (or a batch of them) in memory with one of its last two strides 1, as the libraries
/// want it. The other must be at least as large as a row or column.
ir::BufferView matrix_operand(Context &context, TensorValue value) {
  ir::BufferView view = realized_view(context, value);
  const size_t rank = view.layout.rank();
  const auto unit = [&](size_t k) {
    return view.layout.strides[k].is_integer(1) || view.layout.sizes[k].is_integer(1);
  };
  const auto spread = [&](size_t outer, size_t inner) { // rows do not overlap
    const Expr stride = view.layout.strides[outer], size = view.layout.sizes[inner];
    return view.layout.sizes[outer].is_integer(1) || stride == size ||
           symbolic::known_less_equal(size, stride, *context.ranges);
  };
  const size_t row = rank - 2, column = rank - 1;
  if ((unit(column) && spread(row, column)) || (unit(row) && spread(column, row)))
    return view;
  TensorValue dense = copy(context, value);
  decide_layout_as(context, dense.storage->buffer, tensor::contiguous_strides(dense.sizes));
  return *strided_view(context, dense);
}

/// A matrix in memory whose elements along `terms` (0 or 1) are neighbours: as cuBLASLt wants both
/// factors of 8 bits.
ir::BufferView operand_along(Context &context, TensorValue value, size_t terms) {
  const ir::BufferView view = realized_view(context, value);
  const std::vector<Expr> &sizes = view.layout.sizes, &strides = view.layout.strides;
  if (strides[terms].is_integer(1) &&
      symbolic::known_less_equal(sizes[terms], strides[1 - terms], *context.ranges))
    return view;
  TensorValue dense = copy(context, value);
  std::vector<Expr> wanted(2, Expr(1));
  wanted[1 - terms] = dense.sizes[terms];
  decide_layout_as(context, dense.storage->buffer, wanted);
  return *strided_view(context, dense);
}

/// Whether lines of neighbouring elements start at multiples of `alignment`, as far as is known.
bool lies_in_vectors(const ir::BufferView &factor, int64_t alignment) {
  bool has_unit = false;
  for (size_t k = factor.layout.rank(); k-- > 0;) {
    if (factor.layout.sizes[k].is_integer(1))
      continue;
    if (!has_unit && factor.layout.strides[k].is_integer(1)) {
      has_unit = true;
      continue;
    }
    if (factor.layout.strides[k].is_integer() && factor.layout.strides[k].value() % alignment != 0)
      return false;
  }
  return true;
}

/// Strides of a product's result, its rows padded to the policy's alignment. The CUDA device
/// divides a product whose columns do not fill whole vectors, which needs aligned rows (bf16
/// 8192x50257x768 on an H200: 6.7 ms whole, 0.9 divided; padding alone brings nothing). That pays
/// for the copy that an unpadded graph output then takes, unless the product is small, or a factor
/// does not lie in whole vectors either.
std::vector<Expr> result_strides(const Context &context, const ir::Extern &call,
                                 const std::vector<Expr> &sizes, tensor::DType dtype) {
  constexpr int64_t kWorthPadding = 1 << 20; // elements
  const std::optional<int64_t> columns = sizes.back().as_integer();
  const std::optional<int64_t> count = symbolic::numel(sizes).as_integer();
  const int64_t alignment =
      context.policy.product_row_alignment / static_cast<int64_t>(tensor::size_in_bytes(dtype));
  if (alignment <= 1 || !tensor::is_floating(dtype) || !columns || !count ||
      *columns % alignment == 0 || *count < kWorthPadding ||
      !lies_in_vectors(call.inputs[0], alignment) || !lies_in_vectors(call.inputs[1], alignment))
    return tensor::contiguous_strides(sizes);
  std::vector<Expr> padded = sizes;
  padded.back() = Expr((*columns + alignment - 1) / alignment * alignment);
  return tensor::contiguous_strides(padded);
}

/// A matrix, or one for each section, whose runs of 16 bytes are as a template's kernel takes them.
/// Rows in sections start anywhere, but bulk copies at whole runs: `along_rows` says that runs lie
/// along the rows.
ir::BufferView runs_operand(Context &context, TensorValue value, bool along_rows) {
  const ir::BufferView view = matrix_operand(context, value);
  const tensor::Layout &layout = view.layout;
  const int64_t run = 16 / static_cast<int64_t>(tensor::size_in_bytes(view.dtype));
  const auto is_whole = [&](Expr e) { return e.is_integer() && e.value() % run == 0; };
  const size_t row = layout.rank() - 2, column = row + 1;
  const auto in_lines = [&](size_t across, size_t down) {
    return layout.strides[across].is_integer(1) && is_whole(layout.strides[down]) &&
           is_whole(layout.sizes[across]);
  };
  if (is_whole(layout.offset) && (layout.rank() == 2 || is_whole(layout.strides[0])) &&
      (in_lines(column, row) || (!along_rows && in_lines(row, column))))
    return view;
  TensorValue dense = copy(context, value);
  decide_layout_as(context, dense.storage->buffer, tensor::contiguous_strides(dense.sizes));
  return *strided_view(context, dense);
}

NodeValue call_library(Context &context, ir::Extern call) {
  const graph::TensorMeta &result = result_meta(context);
  call.tf32 = result.dtype == tensor::DType::f32 &&
              (context.policy.tf32 == target::Tf32::on ||
               (context.policy.tf32 == target::Tf32::conv &&
                context.graph.node(context.current).target.rfind("tsc.convolution_", 0) == 0));
  const BufferId buffer =
      register_buffer(context, result.layout.sizes, result.dtype, result_device(context));
  ir::Buffer &out = context.module.buffers[buffer];
  if (call.library == ir::Library::matmul) {
    out.layout.strides = result_strides(context, call, result.layout.sizes, result.dtype);
    out.layout_kind = ir::LayoutKind::movable;
  } else { // a template's kernel stores whole rows
    out.layout.strides = tensor::contiguous_strides(result.layout.sizes);
    out.layout_kind = ir::LayoutKind::fixed;
  }
  register_operation(context, std::move(call), {buffer});
  return tensor_of_buffer(context, buffer);
}

/// [.., n, k] x [.., k, m] as operands of `library`.
void add_factors(Context &context, ir::Extern &library, const TensorValue &left,
                 const TensorValue &right) {
  const size_t rank = left.sizes.size();
  assume_equal(context, left.sizes[rank - 1], right.sizes[rank - 2]);
  if (rank == 3)
    assume_equal(context, left.sizes[0], right.sizes[0]);
  library.inputs.push_back(matrix_operand(context, left));
  library.inputs.push_back(matrix_operand(context, right));
}

Lowering product(std::string kernel) {
  return [kernel = std::move(kernel)](Context &context, const ops::Call &call) -> NodeValue {
    ir::Extern library;
    library.kernel = kernel;
    add_factors(context, library, tensor_argument(context, call, "self"),
                tensor_argument(context, call, "mat2"));
    return call_library(context, std::move(library));
  };
}

/// Of 8-bit floats, in f32. Where the GPU has no such products, bf16 holds the factors exactly.
NodeValue mm_of_float8(Context &context, const ops::Call &call) {
  ir::Extern library;
  library.kernel = "extern_kernels.mm";
  TensorValue left = tensor_argument(context, call, "self"),
              right = tensor_argument(context, call, "mat2");
  if (context.target && !context.target->is_host && !context.target->has_matrix_float8) {
    left = convert(context, left, tensor::DType::bf16);
    right = convert(context, right, tensor::DType::bf16);
    add_factors(context, library, left, right);
    return call_library(context, std::move(library));
  }
  assume_equal(context, left.sizes[1], right.sizes[0]);
  library.inputs.push_back(operand_along(context, left, 1));
  library.inputs.push_back(operand_along(context, right, 0));
  return call_library(context, std::move(library));
}

/// Of rows in sections, each with a matrix of its own.
NodeValue sectioned_mm(Context &context, const ops::Call &call) {
  ir::Extern library;
  library.kernel = "tsc.sectioned_mm";
  library.library = ir::Library::sectioned_matmul;
  library.beta = 0;
  TensorValue ends = tensor_argument(context, call, "ends");
  const TensorValue left = tensor_argument(context, call, "self"),
                    right = tensor_argument(context, call, "mat2");
  assume_equal(context, left.sizes[1], right.sizes[1]);
  assume_equal(context, ends.sizes[0], right.sizes[0]);
  library.inputs = {runs_operand(context, left, true), runs_operand(context, right, false),
                    realized_view(context, ends)};
  if (!library.inputs[2].layout.strides[0].is_integer(1)) {
    TensorValue dense = copy(context, ends);
    decide_layout_as(context, dense.storage->buffer, {Expr(1)});
    library.inputs[2] = *strided_view(context, dense);
  }
  return call_library(context, std::move(library));
}

/// Of 8-bit integers, in i32.
NodeValue mm_of_int8(Context &context, const ops::Call &call) {
  ir::Extern library;
  library.kernel = "extern_kernels.mm";
  const TensorValue left = tensor_argument(context, call, "self"),
                    right = tensor_argument(context, call, "mat2");
  assume_equal(context, left.sizes[1], right.sizes[0]);
  library.inputs = {operand_along(context, left, 1), operand_along(context, right, 0)};
  return call_library(context, std::move(library));
}

NodeValue addmm(Context &context, const ops::Call &call) {
  ir::Extern library;
  library.kernel = "extern_kernels.addmm";
  TensorValue added = tensor_argument(context, call, "self");
  const ir::BufferView c = realized_view(context, added);
  add_factors(context, library, tensor_argument(context, call, "mat1"),
              tensor_argument(context, call, "mat2"));
  const std::vector<Expr> &sizes = result_meta(context).layout.sizes;
  for (size_t k = 0; k < added.sizes.size(); ++k) {
    const Expr own = added.sizes[added.sizes.size() - 1 - k];
    if (!own.is_integer(1))
      assume_equal(context, own, sizes[1 - k]);
  }
  library.alpha = call.number("alpha");
  library.beta = call.number("beta");
  if (library.beta != 0) // PyTorch ignores self then, NaN included
    library.inputs.push_back(c);
  return call_library(context, std::move(library));
}

} // namespace

void add_products(Registry &registry) {
  registry["mm"] = product("extern_kernels.mm");
  registry["bmm"] = product("extern_kernels.bmm");
  registry["mm_of_float8"] = mm_of_float8;
  registry["mm_of_int8"] = mm_of_int8;
  registry["sectioned_mm"] = sectioned_mm;
  registry["addmm"] = addmm;
}

} // namespace tsc::lowering
