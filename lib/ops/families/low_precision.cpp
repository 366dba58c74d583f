// Products of serving: weights of 8 bits, groups of rows with a matrix each.
#include "ops/table/pointwise_rules.h"
#include "ops/table/precision.h"
#include "ops/table/shape_rules.h"
#include "ops/table/table.h"

namespace tsc::ops {
namespace {

/// (self @ mat2^T) * scales, summed and scaled in f32 and rounded once, as PyTorch's kernels do.
Argument int8_product(GraphBuilder &builder, const Call &call) {
  const TensorMeta &self = call.tensor("self"), &weight = call.tensor("mat2"),
                   &scales = call.tensor("scales");
  if (weight.dtype != DType::i8 || !tensor::is_floating(self.dtype) || scales.dtype != self.dtype)
    call.fail("TSC-O127",
              call.node().target + " of " + std::string(tensor::torch_name(self.dtype)) + ", " +
                  std::string(tensor::torch_name(weight.dtype)) + " and " +
                  std::string(tensor::torch_name(scales.dtype)),
              "pass a float tensor, a weight of int8, and scales of the first one's dtype");
  if (self.layout.rank() != 2 || weight.layout.rank() != 2 || scales.layout.rank() != 1 ||
      !taken_equal(call, self.layout.sizes[1], weight.layout.sizes[1]) ||
      !taken_equal(call, scales.layout.sizes[0], weight.layout.sizes[0]))
    call.fail("TSC-O040",
              call.node().target + ": sizes " + print_sizes(self.layout.sizes) + ", " +
                  print_sizes(weight.layout.sizes) + " and " + print_sizes(scales.layout.sizes) +
                  " do not multiply",
              "pass [rows, depth], a weight [columns, depth] and scales [columns]");
  const DType dtype = self.dtype == DType::f64 ? DType::f64 : DType::f32;
  const Argument left = convert(builder, call["self"], dtype);
  const Argument right = builder.call("aten.permute.default",
                                      {convert(builder, call["mat2"], dtype), Arguments{1, 0}});
  const Argument product = builder.call("aten.mm.default", {left, right});
  const Argument scaled = builder.call(kMul, {product, convert(builder, call["scales"], dtype)});
  return convert(builder, scaled, self.dtype);
}

/// Group of each of `rows` rows: how many groups have ended before it.
Argument group_of_rows(GraphBuilder &builder, const Call &call, Expr rows, Expr groups) {
  const Argument row =
      builder.call("aten.arange.start_step", {0, size_argument(rows), 1},
                   {{"dtype", DType::i64}, {"device", call.tensor("self").device}});
  const Argument ended =
      builder.call("aten.le.Tensor", {builder.call("aten.unsqueeze.default", {call["offs"], 0}),
                                      builder.call("aten.unsqueeze.default", {row, 1})});
  const Argument count = builder.call("aten.sum.dim_IntList", {ended, Arguments{1}});
  // Rows behind the last group have whatever value: PyTorch leaves them unwritten.
  return builder.call("aten.clamp.default", {count, graph::None{}, size_argument(groups - 1)});
}

/// Batches are a batched product. Rows in groups are multiplied by every group's matrix, and each
/// takes the product of its own: as many times the work as there are groups.
Argument grouped_product(GraphBuilder &builder, const Call &call) {
  const tensor::Layout &a = call.tensor("self").layout, &b = call.tensor("mat2").layout;
  if (call.tensor("self").dtype != call.tensor("mat2").dtype)
    call.fail("TSC-O127",
              call.node().target + " of " +
                  std::string(tensor::torch_name(call.tensor("self").dtype)) + " and " +
                  std::string(tensor::torch_name(call.tensor("mat2").dtype)),
              "pass two tensors of one dtype");
  const bool has_type =
      call.has("out_dtype") && call.dtype("out_dtype") != call.tensor("self").dtype;
  if (call.has("bias") || has_type || b.rank() != 3 || (a.rank() == 3) == call.has("offs") ||
      (a.rank() != 2 && a.rank() != 3))
    call.refuse(
        "TSC-O217",
        call.node().target + " of " + print_sizes(a.sizes) + " and " + print_sizes(b.sizes) +
            (call.has("offs") ? " with offsets" : " without offsets") +
            (call.has("bias") ? ", with a bias" : "") + (has_type ? ", of another dtype" : ""),
        "two forms are computed: [groups, rows, depth] or, with offsets, [rows, depth], each "
        "by [groups, depth, columns], without a bias, in the dtype of both");
  if (a.rank() == 3)
    return builder.call("aten.bmm.default", {call["self"], call["mat2"]});
  const tensor::Layout &ends = call.tensor("offs").layout;
  if (ends.rank() != 1 || !taken_equal(call, ends.sizes[0], b.sizes[0]))
    call.fail("TSC-O040",
              call.node().target + ": offsets of sizes " + print_sizes(ends.sizes) + " for " +
                  symbolic::print(b.sizes[0]) + " groups",
              "pass the end of each group");
  const Argument repeated = builder.call("aten.expand.default",
                                         {builder.call("aten.unsqueeze.default", {call["self"], 0}),
                                          sizes_argument({b.sizes[0], a.sizes[0], a.sizes[1]})});
  const Argument products = builder.call("aten.bmm.default", {repeated, call["mat2"]});
  const Argument group = group_of_rows(builder, call, a.sizes[0], b.sizes[0]);
  const Argument row =
      builder.call("aten.arange.start_step", {0, size_argument(a.sizes[0]), 1},
                   {{"dtype", DType::i64}, {"device", call.tensor("self").device}});
  return builder.call("aten.index.Tensor", {products, Arguments{group, row}});
}

} // namespace

void add_low_precision(Table &table) {
  table.add("_weight_int8pack_mm(Tensor self, Tensor mat2, Tensor scales) -> Tensor")
      .decompose(int8_product);
  table
      .add(
          "_grouped_mm(Tensor self, Tensor mat2, Tensor? offs=None, Tensor? bias=None, ScalarType? "
          "out_dtype=None) -> Tensor")
      .decompose(grouped_product);
}

} // namespace tsc::ops
