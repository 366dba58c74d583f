// Products of serving: weights of 8 and of 4 bits.
#include "ops/table/pointwise_rules.h"
#include "ops/table/precision.h"
#include "ops/table/shape_rules.h"
#include "ops/table/table.h"
#include "ops/table/term.h"

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
  const bool narrow = tensor::is_reduced_float(self.dtype); // which hold 8 bits exactly
  const DType factor = narrow ? self.dtype : dtype;
  const Argument right = builder.call("aten.permute.default",
                                      {convert(builder, call["mat2"], factor), Arguments{1, 0}});
  const Argument product =
      narrow ? builder.call("aten.mm.dtype", {call["self"], right, dtype})
             : builder.call("aten.mm.default", {convert(builder, call["self"], dtype), right});
  const Argument scaled = builder.call(kMul, {product, convert(builder, call["scales"], dtype)});
  return convert(builder, scaled, self.dtype);
}

/// The weights 0 .. 15 [columns, terms] of int32 [columns / 8, terms / (16 t), 32, t / 2], as
/// _convert_weight_to_int4pack lays them for a GPU's m16n8k16: of tiles of 16 terms of 8 columns,
/// two in an integer, lane l holds column l / 4 and of each half of a tile terms 2 (l % 4) and one
/// on; the odd terms are the upper 16 bits, the half and the second tile count 4 and 8 bits.
Argument unpacked_int4(GraphBuilder &builder, const Argument &packed) {
  const std::vector<Expr> sizes = builder.meta(packed).layout.sizes;
  const Term places = counting(builder, Expr(8), builder.meta(packed).device);
  const Term odd = places.then("aten.bitwise_and.Scalar", {1}),
             pair = places.then("aten.bitwise_right_shift.Tensor_Scalar", {1});
  const Term shifts(builder, (odd * 16 + pair * 4).as(DType::i32));
  const Term bits = Term(builder, builder.call("aten.unsqueeze.default", {packed, -1}))
                        .then("aten.bitwise_right_shift.Tensor", {shifts.value()})
                        .then("aten.bitwise_and.Scalar", {15});
  const Term split =
      reshaped(bits, {sizes[0], sizes[1], Expr(8), Expr(4), sizes[3], Expr(2), Expr(2), Expr(2)});
  return reshaped(permuted(split, {0, 2, 1, 4, 5, 6, 3, 7}),
                  {sizes[0] * Expr(8), sizes[1] * sizes[3] * Expr(32)})
      .value();
}

/// self @ ((q - 8) * scale + zero)^T, a scale and a zero for each group of terms; the weights are
/// rounded to self's dtype as PyTorch's kernel does.
Argument int4_product(GraphBuilder &builder, const Call &call) {
  const TensorMeta self = call.tensor("self"), packed = call.tensor("mat2"),
                   scales = call.tensor("qScaleAndZeros");
  if (packed.dtype != DType::i32 || self.dtype != DType::bf16 || scales.dtype != self.dtype)
    call.fail("TSC-O127",
              call.node().target + " of " + std::string(tensor::torch_name(self.dtype)) + ", " +
                  std::string(tensor::torch_name(packed.dtype)) + " and " +
                  std::string(tensor::torch_name(scales.dtype)),
              "pass bfloat16, a packed weight of int32, and scales and zeros of bfloat16");
  const std::vector<Expr> &sizes = packed.layout.sizes;
  const int64_t group = call.integer("qGroupSize");
  const auto wrong = [&] {
    call.fail("TSC-O040",
              call.node().target + ": sizes " + print_sizes(self.layout.sizes) + ", " +
                  print_sizes(sizes) + " and " + print_sizes(scales.layout.sizes) +
                  " in groups of " + std::to_string(group) + " do not multiply",
              "pass [rows, terms], a packed weight [columns / 8, terms / (16 t), 32, t / 2], and "
              "scales and zeros [groups, columns, 2]");
  };
  if (self.layout.rank() != 2 || sizes.size() != 4 || !sizes[2].is_integer(32) || group < 1 ||
      scales.layout.rank() != 3 || !scales.layout.sizes[2].is_integer(2))
    wrong();
  const Expr columns = sizes[0] * Expr(8), terms = sizes[1] * sizes[3] * Expr(32);
  if (!terms.is_integer() || terms.value() % group != 0 ||
      !taken_equal(call, self.layout.sizes[1], terms) ||
      !taken_equal(call, scales.layout.sizes[0], Expr(terms.value() / group)) ||
      !taken_equal(call, scales.layout.sizes[1], columns))
    wrong();
  const Term codes(builder, convert(builder, unpacked_int4(builder, call["mat2"]), DType::f32));
  const Term grouped =
      reshaped(codes + (-8.0), {columns, Expr(terms.value() / group), Expr(group)});
  const Term both = wide(builder, call, "qScaleAndZeros");
  const auto of_groups = [&](int64_t which) {
    return permuted(both.then("aten.select.int", {2, which}), {1, 0})
        .then("aten.unsqueeze.default", {-1});
  };
  const Term weight = reshaped(grouped * of_groups(0) + of_groups(1), {columns, terms});
  const Term right = permuted(Term(builder, weight.as(self.dtype)), {1, 0});
  return builder.call("aten.mm.default", {call["self"], right.value()});
}

} // namespace

void add_low_precision(Table &table) {
  table.add("_weight_int8pack_mm(Tensor self, Tensor mat2, Tensor scales) -> Tensor")
      .decompose(int8_product);
  table
      .add("_weight_int4pack_mm(Tensor self, Tensor mat2, int qGroupSize, Tensor qScaleAndZeros) "
           "-> Tensor")
      .decompose(int4_product);
}

} // namespace tsc::ops
