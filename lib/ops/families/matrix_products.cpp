// Matrix products: mm, bmm and addmm are lowered, everything else leads to them.
#include "ops/table/pointwise_rules.h"
#include "ops/table/precision.h"
#include "ops/table/shape_rules.h"
#include "ops/table/table.h"
#include "ops/table/whole_numbers.h"

namespace tsc::ops {
namespace {

using Sizes = std::vector<Expr>;

[[noreturn]] void fail_product(const Call &call, const Sizes &a, const Sizes &b) {
  call.fail("TSC-O040",
            call.node().target + ": sizes " + print_sizes(a) + " and " + print_sizes(b) +
                " do not multiply",
            "make the last size of the first equal the second last of the second");
}

/// [.., n, k] x [.., k, m] of `rank` dimensions each.
Value product_value(const Call &call, std::string_view first, std::string_view second,
                    size_t rank) {
  const TensorMeta &a = call.tensor(first), &b = call.tensor(second);
  const Sizes &x = a.layout.sizes, &y = b.layout.sizes;
  auto differ = [&](Expr p, Expr q) { return p.is_integer() && q.is_integer() && p != q; };
  if (x.size() != rank || y.size() != rank || differ(x[rank - 1], y[rank - 2]) ||
      (rank == 3 && differ(x[0], y[0])))
    fail_product(call, x, y);
  if (a.dtype != b.dtype)
    call.fail("TSC-O041",
              call.node().target + " of " + std::string(tensor::torch_name(a.dtype)) + " and " +
                  std::string(tensor::torch_name(b.dtype)),
              "convert both to one dtype");
  Sizes sizes;
  if (rank == 3)
    sizes.push_back(x[0].is_integer() ? x[0] : y[0]);
  sizes.push_back(x[rank - 2]);
  sizes.push_back(y[rank - 1]);
  return contiguous_value(a.dtype, sizes, a.device);
}

/// Of factors of 8 bits, in the dtype that they are added in.
Value wide_product_value(const Call &call, DType dtype) {
  const Value value = product_value(call, "self", "mat2", 2);
  const TensorMeta &result = *value.tensor();
  return contiguous_value(dtype, result.layout.sizes, result.device);
}

/// What `out_dtype` asks for: the dtype of the factors, or f32 of 16-bit floats.
Value product_value_of_dtype(const Call &call, std::string_view first, std::string_view second,
                             size_t rank) {
  const Value value = product_value(call, first, second, rank);
  const TensorMeta &result = *value.tensor();
  const DType given = result.dtype, wanted = *call.dtype("out_dtype");
  const bool half = given == DType::f16 || given == DType::bf16;
  if (wanted != given && !(wanted == DType::f32 && half))
    call.fail("TSC-O127",
              call.node().target + " of " + std::string(tensor::torch_name(given)) +
                  " with out_dtype " + std::string(tensor::torch_name(wanted)),
              "ask for the dtype of the factors, or for float32 of 16-bit floats");
  return contiguous_value(wanted, result.layout.sizes, result.device);
}

Argument transposed(GraphBuilder &builder, const Argument &matrix) {
  return builder.call("aten.permute.default", {matrix, Arguments{1, 0}});
}

Argument view(GraphBuilder &builder, const Argument &x, const Sizes &sizes) {
  return builder.call("aten.reshape.default", {x, sizes_argument(sizes)});
}

/// x [.., k] times a matrix [k, m], plus `bias` [m] or None: the leading dimensions are folded into
/// rows.
Argument rows_times_matrix(GraphBuilder &builder, const Argument &x, const Argument &matrix,
                           const Argument &bias) {
  TensorMeta meta = builder.meta(x);
  Sizes sizes = meta.layout.sizes;
  Expr inner = sizes.back();
  Sizes result(sizes.begin(), sizes.end() - 1);
  Argument rows = x;
  if (sizes.size() != 2)
    rows = view(builder, x, {symbolic::numel(result), inner});
  result.push_back(builder.meta(matrix).layout.sizes[1]);
  Argument product = bias.is_none() ? builder.call("aten.mm.default", {rows, matrix})
                                    : builder.call("aten.addmm.default", {bias, rows, matrix});
  return sizes.size() == 2 ? product : view(builder, product, result);
}

Argument linear(GraphBuilder &builder, const Call &call) {
  const Sizes input = call.tensor("input").layout.sizes,
              weight = call.tensor("weight").layout.sizes;
  if (input.empty() || weight.empty() || weight.size() > 2)
    fail_product(call, input, weight);
  if (weight.size() == 1) {
    Argument product = builder.call("aten.matmul.default", {call["input"], call["weight"]});
    return call.has("bias") ? builder.call(kAdd, {product, call["bias"]}) : product;
  }
  Argument matrix = transposed(builder, call["weight"]);
  return rows_times_matrix(builder, call["input"], matrix, call["bias"]);
}

/// Sum of products along the last dimension of both.
Argument inner_product(GraphBuilder &builder, const Argument &a, const Argument &b) {
  TensorMeta meta = builder.meta(a);
  Argument wide = widen(builder, a);
  Argument product = builder.call(kMul, {wide, b});
  Argument total = builder.call("aten.sum.dim_IntList", {product, Arguments{-1}, false});
  return convert(builder, total, meta.dtype);
}

Argument batched(GraphBuilder &builder, const Call &call, const Argument &a, const Argument &b) {
  Sizes x = builder.meta(a).layout.sizes, y = builder.meta(b).layout.sizes;
  Sizes batch = broadcast(call, {Sizes(x.begin(), x.end() - 2), Sizes(y.begin(), y.end() - 2)});
  Expr count = symbolic::numel(batch);
  auto expand = [&](const Argument &operand, Sizes sizes) {
    Sizes full = batch;
    full.insert(full.end(), sizes.end() - 2, sizes.end());
    Argument expanded = full == sizes
                            ? operand
                            : builder.call("aten.expand.default", {operand, sizes_argument(full)});
    return full.size() == 3 ? expanded
                            : view(builder, expanded, {count, full[full.size() - 2], full.back()});
  };
  Argument left = expand(a, x);
  Argument right = expand(b, y);
  Argument product = builder.call("aten.bmm.default", {left, right});
  if (batch.size() == 1)
    return product;
  Sizes result = batch;
  result.push_back(x[x.size() - 2]);
  result.push_back(y.back());
  return view(builder, product, result);
}

Argument matmul(GraphBuilder &builder, const Call &call) {
  const Sizes a = call.tensor("self").layout.sizes, b = call.tensor("other").layout.sizes;
  if (a.empty() || b.empty())
    fail_product(call, a, b);
  Argument self = call["self"], other = call["other"];
  if (a.size() == 1 && b.size() == 1)
    return inner_product(builder, self, other);
  if (b.size() == 1) { // [.., k] x [k]
    Argument column = builder.call("aten.unsqueeze.default", {other, 1});
    Argument product = rows_times_matrix(builder, self, column, graph::None{});
    return builder.call("aten.squeeze.dims", {product, Arguments{-1}});
  }
  if (a.size() == 1) { // [k] x [.., k, m]
    Argument row = builder.call("aten.unsqueeze.default", {self, 0});
    Argument product = builder.call("aten.matmul.default", {row, other});
    return builder.call("aten.squeeze.dims", {product, Arguments{-2}});
  }
  if (b.size() == 2)
    return rows_times_matrix(builder, self, other, graph::None{});
  return batched(builder, call, self, other);
}

bool is_number(const Argument &argument, double expected) {
  if (const int64_t *value = std::get_if<int64_t>(&argument.value))
    return static_cast<double>(*value) == expected;
  const double *value = std::get_if<double>(&argument.value);
  return value && *value == expected;
}

/// beta * self + alpha * product; a beta of 0 ignores self, NaN included.
Argument scaled_sum(GraphBuilder &builder, const Call &call, Argument product) {
  const DType dtype = call.tensor("self").dtype;
  const Argument alpha = number_of_dtype(call, "alpha", dtype),
                 beta = number_of_dtype(call, "beta", dtype);
  if (!is_number(alpha, 1))
    product = builder.call(kMul, {product, alpha});
  if (is_number(beta, 0))
    return product;
  Argument self = call["self"];
  if (!is_number(beta, 1))
    self = builder.call(kMul, {self, beta});
  return builder.call(kAdd, {self, product});
}

/// beta * self + alpha * the product in `out_dtype`, which self is converted to; a beta of 0
/// ignores self, NaN included.
Argument sum_of_dtype(GraphBuilder &builder, const Call &call, std::string_view product_target,
                      std::string_view first, std::string_view second) {
  const DType dtype = *call.dtype("out_dtype"), own = call.tensor("self").dtype;
  if (own != dtype && own != call.tensor(first).dtype)
    call.fail("TSC-O127", call.node().target + ": self is " + std::string(tensor::torch_name(own)),
              "pass it in out_dtype, or in the dtype of the factors");
  const auto scaled = [&](const Argument &x, std::string_view name) {
    return is_number(call[name], 1) ? x : builder.call(kMul, {x, call[name]});
  };
  const Argument product =
      scaled(builder.call(product_target, {call[first], call[second], dtype}), "alpha");
  if (is_number(call["beta"], 0))
    return product;
  return builder.call(kAdd, {scaled(convert(builder, call["self"], dtype), "beta"), product});
}

void add_primitives(Table &table) {
  table.add("mm(Tensor self, Tensor mat2) -> Tensor")
      .shape([](const Call &call) { return product_value(call, "self", "mat2", 2); })
      .lowers("mm");
  table.add("bmm(Tensor self, Tensor mat2) -> Tensor")
      .shape([](const Call &call) { return product_value(call, "self", "mat2", 3); })
      .lowers("bmm");
  // Those that convolutions are made of, where these are told apart (--tf32=conv).
  table.add("tsc::convolution_mm(Tensor self, Tensor mat2) -> Tensor")
      .shape([](const Call &call) { return product_value(call, "self", "mat2", 2); })
      .lowers("mm");
  table.add("tsc::convolution_bmm(Tensor self, Tensor mat2) -> Tensor")
      .shape([](const Call &call) { return product_value(call, "self", "mat2", 3); })
      .lowers("bmm");
  table.add("mm.dtype(Tensor self, Tensor mat2, ScalarType out_dtype) -> Tensor")
      .shape([](const Call &call) { return product_value_of_dtype(call, "self", "mat2", 2); })
      .lowers("mm");
  table.add("bmm.dtype(Tensor self, Tensor mat2, ScalarType out_dtype) -> Tensor")
      .shape([](const Call &call) { return product_value_of_dtype(call, "self", "mat2", 3); })
      .lowers("bmm");
  table.add("tsc::mm_of_float8(Tensor self, Tensor mat2) -> Tensor")
      .shape([](const Call &call) { return wide_product_value(call, DType::f32); })
      .lowers("mm_of_float8");
  table.add("tsc::mm_of_int8(Tensor self, Tensor mat2) -> Tensor")
      .shape([](const Call &call) { return wide_product_value(call, DType::i32); })
      .lowers("mm_of_int8");
  // Rows in sections, each with a matrix of its own: what grouped products become where the GPU has
  // kernels for them. `ends`: i32, behind which row each section ends.
  table
      .add("tsc::sectioned_mm(Tensor self, Tensor mat2, Tensor ends, ScalarType out_dtype) -> "
           "Tensor")
      .shape([](const Call &call) {
        const TensorMeta &self = call.tensor("self");
        return contiguous_value(*call.dtype("out_dtype"),
                                {self.layout.sizes[0], call.tensor("mat2").layout.sizes[2]},
                                self.device);
      })
      .lowers("sectioned_mm");
  table
      .add_with_in_place("addmm(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar "
                         "alpha=1) -> Tensor")
      .shape([](const Call &call) { return product_value(call, "mat1", "mat2", 2); })
      .lowers("addmm");
}

void add_combinations(Table &table) {
  table
      .add_with_in_place("baddbmm(Tensor self, Tensor batch1, Tensor batch2, *, Scalar beta=1, "
                         "Scalar alpha=1) -> Tensor")
      .decompose([](GraphBuilder &builder, const Call &call) {
        Argument product = builder.call("aten.bmm.default", {call["batch1"], call["batch2"]});
        return scaled_sum(builder, call, product);
      });
  table
      .add("addmm.dtype(Tensor self, Tensor mat1, Tensor mat2, ScalarType out_dtype, *, Scalar "
           "beta=1, Scalar alpha=1) -> Tensor")
      .decompose([](GraphBuilder &builder, const Call &call) {
        return sum_of_dtype(builder, call, "aten.mm.dtype", "mat1", "mat2");
      });
  table
      .add("baddbmm.dtype(Tensor self, Tensor batch1, Tensor batch2, ScalarType out_dtype, *, "
           "Scalar beta=1, Scalar alpha=1) -> Tensor")
      .decompose([](GraphBuilder &builder, const Call &call) {
        return sum_of_dtype(builder, call, "aten.bmm.dtype", "batch1", "batch2");
      });
  table
      .add("addmv(Tensor self, Tensor mat, Tensor vec, *, Scalar beta=1, Scalar alpha=1) -> Tensor")
      .decompose([](GraphBuilder &builder, const Call &call) {
        Argument product = builder.call("aten.matmul.default", {call["mat"], call["vec"]});
        // Of the matrix' dtype, whatever self's.
        return convert(builder, scaled_sum(builder, call, product), builder.meta(product).dtype);
      });
  table.add("mv(Tensor self, Tensor vec) -> Tensor")
      .decompose([](GraphBuilder &builder, const Call &call) {
        return builder.call("aten.matmul.default", {call["self"], call["vec"]});
      });
  for (std::string_view name : {"dot", "vdot"})
    table
        .add(keep_text(std::string(name) + "(Tensor self, Tensor " +
                       (name == "dot" ? "tensor" : "other") + ") -> Tensor"))
        .decompose([conjugates = name == "vdot"](GraphBuilder &builder, const Call &call) {
          const Argument self =
              conjugates ? builder.call("aten.conj.default", {call["self"]}) : call["self"];
          return inner_product(builder, self, call[call.schema().parameters[1].name]);
        });
  for (std::string_view name : {"outer", "ger"})
    table.add(keep_text(std::string(name) + "(Tensor self, Tensor vec2) -> Tensor"))
        .decompose([](GraphBuilder &builder, const Call &call) {
          Argument column = builder.call("aten.unsqueeze.default", {call["self"], 1});
          return builder.call(kMul, {column, call["vec2"]});
        });
}

} // namespace

void add_matrix_products(Table &table) {
  add_primitives(table);
  add_combinations(table);
  table.add("linear(Tensor input, Tensor weight, Tensor? bias=None) -> Tensor").decompose(linear);
  table.add("matmul(Tensor self, Tensor other) -> Tensor").decompose(matmul);
  table.add("linalg_matmul(Tensor self, Tensor other) -> Tensor").decompose(matmul);
}

} // namespace tsc::ops
