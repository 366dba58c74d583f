// Complex numbers made of parts, taken apart, conjugated: docs/complex.md. What stays a node here
// is computed by ops::split_complex.
#include "ops/table/complex_calls.h"
#include "ops/table/pointwise_rules.h"
#include "ops/table/precision.h"
#include "ops/table/shape_rules.h"
#include "ops/table/table.h"

#include <numbers>

namespace tsc::ops {
namespace {

constexpr std::string_view kSplit = "split_complex"; // no key: no such node reaches lowering

bool is_complex(const Call &call, std::string_view parameter = "self") {
  return tensor::is_complex(call.tensor(parameter).dtype);
}

void require_complex(const Call &call) {
  if (!is_complex(call))
    call.fail("TSC-O151",
              call.node().target + " of " +
                  std::string(tensor::torch_name(call.tensor("self").dtype)),
              "give a complex tensor");
}

/// Both parts are of one dtype, float32 or float64: complex numbers of half precision are none.
Value complex_value(const Call &call, std::string_view first, std::string_view second) {
  const DType dtype = call.tensor(first).dtype;
  if (dtype != call.tensor(second).dtype)
    call.fail("TSC-O151",
              call.node().target + " of " + std::string(tensor::torch_name(dtype)) + " and " +
                  std::string(tensor::torch_name(call.tensor(second).dtype)),
              "convert both to one dtype");
  if (dtype != DType::f32 && dtype != DType::f64)
    call.refuse("TSC-O150",
                call.node().target + " of " + std::string(tensor::torch_name(dtype)) +
                    " is not supported",
                "convert both to float32 first");
  return elementwise_value(call, elementwise_operands(call, {first, second}),
                           dtype_of_parts(dtype));
}

/// The memory of complex numbers as that of their parts, and back.
Value view_as_real_value(const Call &call) {
  require_complex(call);
  const TensorMeta &self = call.tensor("self");
  std::vector<Expr> sizes = self.layout.sizes, strides;
  for (const Expr stride : self.layout.strides)
    strides.push_back(stride * Expr(2));
  sizes.emplace_back(2);
  strides.emplace_back(1);
  return tensor_value(part_dtype(self.dtype), sizes, strides, self.device,
                      self.layout.offset * Expr(2));
}

Value view_as_complex_value(const Call &call) {
  const TensorMeta &self = call.tensor("self");
  const tensor::Layout &layout = self.layout;
  if (self.dtype != DType::f32 && self.dtype != DType::f64)
    call.refuse("TSC-O150",
                call.node().target + " of " + std::string(tensor::torch_name(self.dtype)) +
                    " is not supported",
                "give a tensor of float32 or float64");
  const auto even = [](Expr stride) { return symbolic::mod(stride, Expr(2)).is_integer(0); };
  bool fits = layout.rank() > 0 && layout.sizes.back().is_integer(2) &&
              layout.strides.back().is_integer(1) && even(layout.offset);
  std::vector<Expr> sizes, strides;
  for (size_t i = 0; fits && i + 1 < layout.rank(); ++i) {
    fits = even(layout.strides[i]) || layout.sizes[i].is_integer(1);
    sizes.push_back(layout.sizes[i]);
    strides.push_back(symbolic::floor_div(layout.strides[i], Expr(2)));
  }
  if (!fits)
    call.fail("TSC-O151",
              call.node().target + " of sizes " + print_sizes(layout.sizes) + ", strides " +
                  print_sizes(layout.strides),
              "give a tensor with a last dimension of 2, contiguous, and even strides else");
  return tensor_value(dtype_of_parts(self.dtype), sizes, strides, self.device,
                      symbolic::floor_div(layout.offset, Expr(2)));
}

/// `self` as it lies: what a view with another reading of the elements yields.
Value same_value(const Call &call) {
  const TensorMeta &self = call.tensor("self");
  return tensor_value(self.dtype, self.layout.sizes, self.layout.strides, self.device,
                      self.layout.offset);
}

Value part_value(const Call &call) {
  require_complex(call);
  const TensorMeta &self = call.tensor("self");
  return tensor_value(part_dtype(self.dtype), self.layout.sizes,
                      preserved_strides(self.layout, call.ranges()), self.device);
}

Argument part(GraphBuilder &builder, const Call &call, int64_t index) {
  const Argument parts = builder.call("aten.view_as_real.default", {call["self"]});
  return builder.call("aten.select.int", {parts, -1, index});
}

void add_views_of_parts(Table &table) {
  table.add("view_as_real(Tensor(a) self) -> Tensor(a)")
      .shape(view_as_real_value)
      .effect(Effect::view)
      .passes_elements(false)
      .lowers("view_as_real");
  table.add("view_as_complex(Tensor(a) self) -> Tensor(a)")
      .shape(view_as_complex_value)
      .effect(Effect::view)
      .passes_elements(false)
      .lowers("view_as_complex");
  table.add("real(Tensor(a) self) -> Tensor(a)")
      .effect(Effect::view)
      .passes_elements(false)
      .decompose([](GraphBuilder &builder, const Call &call) {
        return is_complex(call) ? part(builder, call, 0) : call["self"];
      });
  table.add("imag(Tensor(a) self) -> Tensor(a)")
      .effect(Effect::view)
      .passes_elements(false)
      .decompose([](GraphBuilder &builder, const Call &call) {
        require_complex(call);
        return part(builder, call, 1);
      });
  for (std::string_view name : {"_conj", "_neg_view"})
    table.add(keep_text(std::string(name) + "(Tensor(a) self) -> Tensor(a)"))
        .shape(same_value)
        .effect(Effect::view)
        .passes_elements(false)
        .lowers(kSplit);
  table.add("conj(Tensor(a) self) -> Tensor(a)")
      .effect(Effect::view)
      .passes_elements(false)
      .decompose([](GraphBuilder &builder, const Call &call) {
        return is_complex(call) ? builder.call("aten._conj.default", {call["self"]}) : call["self"];
      });
}

void add_parts(Table &table) {
  for (std::string_view name : {"real_part", "imaginary_part"})
    table.add(keep_text("tsc::" + std::string(name) + "(Tensor self) -> Tensor"))
        .shape(part_value)
        .lowers(kSplit);
  table.add("complex(Tensor real, Tensor imag) -> Tensor")
      .shape([](const Call &call) { return complex_value(call, "real", "imag"); })
      .lowers(kSplit);
  table.add("polar(Tensor abs, Tensor angle) -> Tensor")
      .shape([](const Call &call) { return complex_value(call, "abs", "angle"); })
      .decompose([](GraphBuilder &builder, const Call &call) {
        const auto along = [&](std::string_view function) {
          return builder.call(kMul, {call["abs"], builder.call(function, {call["angle"]})});
        };
        return builder.call("aten.complex.default",
                            {along("aten.cos.default"), along("aten.sin.default")});
      });
  for (std::string_view name : {"conj_physical", "_conj_physical"})
    table.add_with_in_place(keep_text(std::string(name) + "(Tensor self) -> Tensor"))
        .decompose([](GraphBuilder &builder, const Call &call) {
          const Argument value =
              is_complex(call) ? builder.call("aten._conj.default", {call["self"]}) : call["self"];
          return builder.call("aten.clone.default", {value});
        });
}

/// The half turn of a negative number, 0 of others.
Argument real_angle(GraphBuilder &builder, const Call &call) {
  const Argument x = widen_to_floating(builder, call["self"]);
  const Argument turn =
      builder.call(kWhere, {builder.call("aten.lt.Tensor", {x, 0.0}), std::numbers::pi, 0.0});
  const Argument angle = builder.call(kWhere, {builder.call("aten.isnan.default", {x}), x,
                                               convert(builder, turn, builder.meta(x).dtype)});
  return convert(builder, angle, to_floating(call.tensor("self").dtype));
}

void add_directions(Table &table) {
  table.add("angle(Tensor self) -> Tensor")
      .shape([](const Call &call) {
        const TensorMeta &self = call.tensor("self");
        return elementwise_value(call, elementwise_operands(call, {"self"}),
                                 part_dtype(to_floating(self.dtype)));
      })
      .decompose([](GraphBuilder &builder, const Call &call) {
        return is_complex(call) ? builder.keep(call) : real_angle(builder, call);
      })
      .lowers(kSplit);
  table.add_with_in_place("sgn(Tensor self) -> Tensor")
      .shape(elementwise(Promotion::common, {"self"}))
      .decompose([](GraphBuilder &builder, const Call &call) {
        return is_complex(call) ? builder.keep(call)
                                : builder.call("aten.sign.default", {call["self"]});
      })
      .lowers(kSplit);
  table.add("isreal(Tensor self) -> Tensor").decompose([](GraphBuilder &builder, const Call &call) {
    if (!is_complex(call))
      return builder.call("aten.ones_like.default", {call["self"]}, {{"dtype", DType::boolean}});
    const Argument imaginary = builder.call("tsc.imaginary_part.default", {call["self"]});
    return builder.call("aten.eq.Tensor", {imaginary, 0.0});
  });
}

} // namespace

void add_complex_numbers(Table &table) {
  add_views_of_parts(table);
  add_parts(table);
  add_directions(table);
}

} // namespace tsc::ops
