// The bits of elements seen as another dtype: lowering knows those of one width; between widths
// they are put together and taken apart by shifts, little-endian as PyTorch's machines are.
#include "ops/table/builder.h"
#include "ops/table/complex_calls.h"
#include "ops/table/memory_format.h"
#include "ops/table/pointwise_rules.h"
#include "ops/table/precision.h"
#include "ops/table/shape_rules.h"
#include "ops/table/table.h"

namespace tsc::ops {
namespace {

int64_t width_of(DType dtype) { return static_cast<int64_t>(tensor::size_in_bytes(dtype)); }

/// The integers of an element's width.
DType bits_of(int64_t bytes) {
  return bytes == 1 ? DType::u8 : bytes == 2 ? DType::i16 : bytes == 4 ? DType::i32 : DType::i64;
}

DType asked_dtype(const Call &call) {
  const DType self = call.tensor("self").dtype;
  const DType dtype = call.dtype("dtype").value_or(self);
  if (dtype != self && (dtype == DType::boolean || self == DType::boolean) &&
      width_of(dtype) != width_of(self))
    call.refuse("TSC-O002", "aten.view.dtype between bool and wider elements is not supported",
                "view bool as uint8 first");
  return dtype;
}

/// Sizes and strides as at::view_dtype gives them; a copy is contiguous.
Value view_dtype_value(const Call &call) {
  const TensorMeta &self = call.tensor("self");
  const DType dtype = asked_dtype(call);
  const int64_t from = width_of(self.dtype), to = width_of(dtype);
  if (from == to)
    return tensor_value(dtype, self.layout.sizes, self.layout.strides, self.device,
                        self.layout.offset);
  std::vector<Expr> sizes = self.layout.sizes;
  const std::string what = "aten.view.dtype from " + std::string(tensor::torch_name(self.dtype)) +
                           " to " + std::string(tensor::torch_name(dtype));
  if (sizes.empty())
    call.fail("TSC-O128", what + ": 'self' has 0 dimensions, at least 1 are needed",
              "view it with one dimension first");
  const bool is_row = same_size(sizes.back(), 1, call.ranges()) ||
                      same_size(self.layout.strides.back(), 1, call.ranges());
  const Expr last = sizes.back();
  const bool fits = from > to || !last.is_integer() || last.value() % (to / from) == 0;
  if (!is_row || !fits)
    call.fail("TSC-O129",
              what + ": the last dimension of " + print_sizes(sizes) +
                  (is_row ? " does not hold whole elements" : " is not contiguous"),
              "make it contiguous, of a size that whole elements divide");
  sizes.back() = from > to ? last * Expr(from / to) : symbolic::floor_div(last, Expr(to / from));
  return contiguous_value(dtype, std::move(sizes), self.device);
}

/// [.., n] of wider elements: their parts, the lowest first, as [.., n * parts].
Argument taken_apart(GraphBuilder &builder, const Argument &bits, const std::vector<Expr> &sizes,
                     int64_t parts, int64_t bytes) {
  Argument shifts = builder.call("aten.arange.start_step", {0, 8 * bytes * parts, 8 * bytes},
                                 {{"dtype", DType::i64}});
  Argument wide = builder.call("aten.unsqueeze.default", {bits, -1});
  Argument all = builder.call("aten.bitwise_right_shift.Tensor", {wide, shifts});
  return builder.call("aten.reshape.default",
                      {convert(builder, all, bits_of(bytes)), sizes_argument(sizes)});
}

/// [.., n * parts] of narrower elements: the elements that `parts` neighbours make.
Argument put_together(GraphBuilder &builder, const Argument &bits, std::vector<Expr> sizes,
                      int64_t parts, int64_t bytes) {
  sizes.push_back(parts);
  Argument groups = builder.call("aten.reshape.default", {bits, sizes_argument(sizes)});
  Argument whole;
  for (int64_t part = 0; part < parts; ++part) {
    Argument each =
        convert(builder, builder.call("aten.select.int", {groups, -1, part}), DType::i64);
    each = builder.call("aten.bitwise_and.Scalar", {each, (int64_t{1} << (8 * bytes)) - 1});
    each = builder.call("aten.bitwise_left_shift.Tensor_Scalar", {each, 8 * bytes * part});
    whole = part == 0 ? each : builder.call("aten.bitwise_or.Tensor", {whole, each});
  }
  return convert(builder, whole, bits_of(bytes * parts));
}

/// Complex numbers are pairs of floats, which other elements are seen as on the way.
Argument through_parts(GraphBuilder &builder, const Call &call, DType dtype) {
  const DType from = call.tensor("self").dtype;
  const std::vector<Expr> sizes = view_dtype_value(call).tensor()->layout.sizes;
  Argument parts = call["self"];
  if (tensor::is_complex(from))
    parts = builder.call("aten.view_as_real.default", {parts});
  const DType part = part_dtype(dtype);
  if (builder.meta(parts).dtype != part)
    parts = builder.call("aten.view.dtype", {parts, part});
  if (!tensor::is_complex(dtype))
    return builder.call("aten.view.default", {parts, sizes_argument(sizes)});
  std::vector<Expr> pairs = sizes;
  pairs.emplace_back(2);
  parts = builder.call("aten.view.default", {parts, sizes_argument(pairs)});
  return builder.call("aten.view_as_complex.default", {parts});
}

Argument view_dtype(GraphBuilder &builder, const Call &call) {
  const TensorMeta self = call.tensor("self");
  const DType dtype = asked_dtype(call);
  if (dtype != self.dtype && (tensor::is_complex(dtype) || tensor::is_complex(self.dtype)))
    return through_parts(builder, call, dtype);
  const int64_t from = width_of(self.dtype), to = width_of(dtype);
  if (from == to)
    return builder.keep(call);
  const std::vector<Expr> sizes = view_dtype_value(call).tensor()->layout.sizes;
  const auto seen_as = [&](const Argument &x, DType other) {
    return builder.meta(x).dtype == other ? x : builder.emit("aten.view.dtype", {x, other});
  };
  Argument bits = seen_as(call["self"], bits_of(from));
  bits = from > to ? taken_apart(builder, bits, sizes, from / to, to)
                   : put_together(builder, bits, sizes, to / from, from);
  return seen_as(bits, dtype);
}

} // namespace

void add_bit_views(Table &table) {
  table.add("view.dtype(Tensor(a) self, ScalarType dtype) -> Tensor(a)")
      .shape(view_dtype_value)
      .lowers("bitcast")
      .effect(Effect::view)
      .passes_elements(false)
      .decompose(view_dtype);
}

} // namespace tsc::ops
