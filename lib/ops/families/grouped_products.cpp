// Products of groups: each group of rows, columns or terms has a matrix of its own.
#include "ops/table/pointwise_rules.h"
#include "ops/table/precision.h"
#include "ops/table/shape_rules.h"
#include "ops/table/table.h"
#include "ops/table/term.h"
#include "templates/product/tc_product_geometry.h"

#include <string>

namespace tsc::ops {
namespace {

using Sizes = std::vector<Expr>;

Argument counting_to(GraphBuilder &builder, const Call &call, Expr count) {
  return builder.call("aten.arange.start_step", {0, size_argument(count), 1},
                      {{"dtype", DType::i64}, {"device", call.tensor("self").device}});
}

/// Group of each of `count` rows (columns, terms): how many groups have ended before it.
Argument group_of_each(GraphBuilder &builder, const Call &call, Expr count) {
  const Argument each = counting_to(builder, call, count);
  const Argument ended =
      builder.call("aten.le.Tensor", {builder.call("aten.unsqueeze.default", {call["offs"], 0}),
                                      builder.call("aten.unsqueeze.default", {each, 1})});
  return builder.call("aten.sum.dim_IntList", {ended, Arguments{1}});
}

/// The same; behind the last group is whatever value: PyTorch leaves that unwritten.
Argument some_group_of_each(GraphBuilder &builder, const Call &call, Expr count, Expr groups) {
  const Argument group = group_of_each(builder, call, count);
  return builder.call("aten.clamp.default", {group, graph::None{}, size_argument(groups - 1)});
}

Argument for_each_group(GraphBuilder &builder, const Argument &matrix, Expr groups) {
  const Sizes sizes = builder.meta(matrix).layout.sizes;
  return builder.call("aten.expand.default", {builder.call("aten.unsqueeze.default", {matrix, 0}),
                                              sizes_argument({groups, sizes[0], sizes[1]})});
}

/// `product` of rows in groups, with zeros behind the last group.
Argument with_empty_end(GraphBuilder &builder, const Call &call, const Argument &product) {
  const TensorMeta meta = builder.meta(product);
  const Term end = given(builder, call, "offs").then("aten.select.int", {0, -1});
  const Term inside = counting(builder, meta.layout.sizes[0], meta.device)
                          .then("aten.lt.Tensor", {end.value()})
                          .then("aten.unsqueeze.default", {1});
  return where(inside, product, 0).as(meta.dtype);
}

/// Of `products` [groups, rows, columns] row i of group[i].
Argument own_rows(GraphBuilder &builder, const Call &call, const Argument &products,
                  const Argument &group) {
  const Expr rows = builder.meta(products).layout.sizes[1];
  return builder.call("aten.index.Tensor",
                      {products, Arguments{group, counting_to(builder, call, rows)}});
}

[[noreturn]] void refuse_form(const Call &call, const std::string &more) {
  call.refuse("TSC-O217",
              call.node().target + " of " + print_sizes(call.tensor("self").layout.sizes) +
                  " and " + print_sizes(call.tensor("mat2").layout.sizes) +
                  (call.has("offs") ? " with offsets" : " without offsets") + more,
              "batches of matrices multiply without offsets, all other forms with the end of each "
              "group, without a bias, in the dtype of both");
}

void check_terms(const Call &call) {
  const Sizes &a = call.tensor("self").layout.sizes, &b = call.tensor("mat2").layout.sizes;
  if (!taken_equal(call, a.back(), b[b.size() - 2]))
    call.fail("TSC-O040",
              call.node().target + ": sizes " + print_sizes(a) + " and " + print_sizes(b) +
                  " do not multiply",
              "make the last size of the first equal the second last of the second");
}

/// The number of groups that `offs` ends.
Expr count_groups(const Call &call, std::optional<Expr> matrices) {
  const Sizes &ends = call.tensor("offs").layout.sizes;
  if (ends.size() != 1 || (matrices && !taken_equal(call, ends[0], *matrices)))
    call.fail("TSC-O040",
              call.node().target + ": offsets of sizes " + print_sizes(ends) +
                  (matrices ? " for " + symbolic::print(*matrices) + " groups" : ""),
              "pass the end of each group");
  return ends[0];
}

/// [rows, terms] by [terms, columns], the terms in groups: [groups, rows, columns]. Each group's
/// product has zeros in the place of the others' terms.
Argument groups_of_terms(GraphBuilder &builder, const Call &call) {
  const Sizes a = call.tensor("self").layout.sizes;
  const Expr groups = count_groups(call, std::nullopt);
  const Argument group = group_of_each(builder, call, a[1]);
  const Argument own = builder.call(
      "aten.eq.Tensor",
      {builder.call("aten.unsqueeze.default", {group, 0}),
       builder.call("aten.unsqueeze.default", {counting_to(builder, call, groups), 1})});
  const auto masked = [&](std::string_view name, int64_t dim) {
    return builder.call(kWhere, {builder.call("aten.unsqueeze.default", {own, dim}),
                                 builder.call("aten.unsqueeze.default", {call[name], 0}), 0});
  };
  const Argument left = masked("self", 1);
  return builder.call("aten.bmm.default", {left, masked("mat2", 2)});
}

/// Whether a kernel multiplies the rows of each group by that group's matrix alone.
bool has_kernel(const GraphBuilder &builder, const Argument &rows, const Argument &matrices) {
  const TensorMeta &left = builder.meta(rows), &right = builder.meta(matrices);
  const auto in_runs = [](Expr size) {
    return size.is_integer() && size.value() > 0 && size.value() % tc_product_word_of(2) == 0;
  };
  const Expr groups = right.layout.sizes[0];
  return builder.facilities().product_kernels && tensor::is_reduced_float(left.dtype) &&
         groups.is_integer() && groups.value() > 0 && groups.value() <= tc_product_most_sections &&
         in_runs(right.layout.sizes[1]) && in_runs(right.layout.sizes[2]) &&
         !left.layout.sizes[0].is_integer(0);
}
/// [rows, terms] in groups by [groups, terms, columns], in `result`; behind the last group are
/// zeros. Without a kernel for it rows are multiplied by every group's matrix, and each takes the
/// product of its own: as many times the work as there are groups.
Argument product_of_rows(GraphBuilder &builder, const Call &call, const Argument &rows,
                         const Argument &matrices, DType result) {
  if (has_kernel(builder, rows, matrices))
    return builder.call("tsc.sectioned_mm.default",
                        {rows, matrices, convert(builder, call["offs"], DType::i32), result});
  const Expr groups = builder.meta(matrices).layout.sizes[0],
             count = builder.meta(rows).layout.sizes[0];
  const Argument repeated = for_each_group(builder, rows, groups);
  const Argument products = result == builder.meta(rows).dtype
                                ? builder.call("aten.bmm.default", {repeated, matrices})
                                : builder.call("aten.bmm.dtype", {repeated, matrices, result});
  return with_empty_end(
      builder, call,
      own_rows(builder, call, products, some_group_of_each(builder, call, count, groups)));
}

/// Batches are a batched product. Columns in groups are rows of the matrices the other way.
Argument grouped_product(GraphBuilder &builder, const Call &call) {
  const Sizes a = call.tensor("self").layout.sizes, b = call.tensor("mat2").layout.sizes;
  const DType dtype = call.tensor("self").dtype;
  if (dtype != call.tensor("mat2").dtype)
    call.fail("TSC-O127",
              call.node().target + " of " + std::string(tensor::torch_name(dtype)) + " and " +
                  std::string(tensor::torch_name(call.tensor("mat2").dtype)),
              "pass two tensors of one dtype");
  const bool has_type = call.has("out_dtype") && call.dtype("out_dtype") != dtype;
  const bool batches = a.size() == 3 && b.size() == 3;
  const auto is_operand = [](const Sizes &sizes) { return sizes.size() == 2 || sizes.size() == 3; };
  if (call.has("bias") || has_type || !is_operand(a) || !is_operand(b) ||
      batches == call.has("offs"))
    refuse_form(call, std::string(call.has("bias") ? ", with a bias" : "") +
                          (has_type ? ", of another dtype" : ""));
  check_terms(call);
  if (batches)
    return builder.call("aten.bmm.default", {call["self"], call["mat2"]});
  if (a.size() == 2 && b.size() == 2)
    return groups_of_terms(builder, call);
  count_groups(call, a.size() == 3 ? a[0] : b[0]);
  if (a.size() == 2)
    return product_of_rows(builder, call, call["self"], call["mat2"], dtype);
  const Argument columns = product_of_rows(
      builder, call, builder.call("aten.permute.default", {call["mat2"], Arguments{1, 0}}),
      builder.call("aten.permute.default", {call["self"], Arguments{0, 2, 1}}), dtype);
  return builder.call("aten.permute.default", {columns, Arguments{1, 0}});
}

/// Of 8-bit floats, a scale for each row of the first and each column of the second.
Argument scaled_grouped_product(GraphBuilder &builder, const Call &call) {
  const TensorMeta a = call.tensor("self"), b = call.tensor("mat2"),
                   scale_a = call.tensor("scale_a"), scale_b = call.tensor("scale_b");
  const Sizes &left = a.layout.sizes, &right = b.layout.sizes;
  if (!tensor::is_float8(a.dtype) || !tensor::is_float8(b.dtype) || scale_a.dtype != DType::f32 ||
      scale_b.dtype != DType::f32)
    call.fail("TSC-O127",
              call.node().target + " of " + std::string(tensor::torch_name(a.dtype)) + " and " +
                  std::string(tensor::torch_name(b.dtype)) + " with scales of " +
                  std::string(tensor::torch_name(scale_a.dtype)) + " and " +
                  std::string(tensor::torch_name(scale_b.dtype)),
              "pass 8-bit floats and scales of float32");
  const DType result = call.dtype("out_dtype").value_or(DType::bf16);
  const bool batches = left.size() == 3, is_form = (batches || left.size() == 2) &&
                                                   right.size() == 3 && batches != call.has("offs");
  if (!is_form || call.has("bias") || call.has("scale_result") || !tensor::is_floating(result) ||
      tensor::is_float8(result))
    refuse_form(call, call.has("bias") ? ", with a bias" : "");
  const Sizes lines_a(left.begin(), left.end() - 1), lines_b{right[0], right[2]};
  if (scale_a.layout.sizes != lines_a || scale_b.layout.sizes != lines_b)
    call.fail("TSC-O129",
              call.node().target + ": scales " + print_sizes(scale_a.layout.sizes) + " and " +
                  print_sizes(scale_b.layout.sizes) + " for " + print_sizes(left) + " and " +
                  print_sizes(right),
              "give one number a row of the first, and one a column of each second matrix");
  check_terms(call);
  const Argument factor = convert(builder, call["mat2"], DType::bf16);
  const Argument rows = convert(builder, call["self"], DType::bf16);
  Argument product, scale;
  if (batches) {
    product = builder.call("aten.bmm.dtype", {rows, factor, DType::f32});
    scale = builder.call("aten.unsqueeze.default", {call["scale_b"], 1});
  } else {
    count_groups(call, right[0]);
    product = product_of_rows(builder, call, rows, factor, DType::f32);
    scale = builder.call(
        "aten.index.Tensor",
        {call["scale_b"], Arguments{some_group_of_each(builder, call, left[0], right[0])}});
  }
  product = builder.call(kMul, {product, scale});
  product =
      builder.call(kMul, {product, builder.call("aten.unsqueeze.default", {call["scale_a"], -1})});
  return convert(builder, product, result);
}

/// [rows, terms] by [groups, terms, columns], the rows in groups, as transformers has it where
/// PyTorch has no such product.
Argument experts_product(GraphBuilder &builder, const Call &call) {
  return builder.call("aten._grouped_mm.default", {call["input"], call["weight"], call["offs"]});
}

/// Of both factors.
Argument experts_product_gradients(GraphBuilder &builder, const Call &call) {
  const auto turned = [&](std::string_view name) {
    return builder.call("aten.transpose.int", {call[name], -2, -1});
  };
  const Argument of_input = builder.call("aten._grouped_mm.default",
                                         {call["grad_output"], turned("weight"), call["offs"]});
  const Argument of_weight = builder.call("aten._grouped_mm.default",
                                          {turned("input"), call["grad_output"], call["offs"]});
  return Arguments{of_input, of_weight};
}

} // namespace

void add_grouped_products(Table &table) {
  table
      .add("_grouped_mm(Tensor self, Tensor mat2, Tensor? offs=None, Tensor? bias=None, "
           "ScalarType? out_dtype=None) -> Tensor")
      .decompose(grouped_product);
  table
      .add("_scaled_grouped_mm(Tensor self, Tensor mat2, Tensor scale_a, Tensor scale_b, Tensor? "
           "offs=None, Tensor? bias=None, Tensor? scale_result=None, ScalarType? out_dtype=None, "
           "bool use_fast_accum=False) -> Tensor")
      .decompose(scaled_grouped_product);
  table.add("transformers::grouped_mm_fallback(Tensor input, Tensor weight, Tensor offs) -> Tensor")
      .decompose(experts_product);
  table
      .add("transformers::grouped_mm_fallback_backward(Tensor input, Tensor weight, Tensor offs, "
           "Tensor grad_output) -> (Tensor, Tensor)")
      .decompose(experts_product_gradients);
}

} // namespace tsc::ops
