// Copies and casts.
#include "ops/table/pointwise_rules.h"
#include "ops/table/precision.h"
#include "ops/table/shape_rules.h"
#include "ops/table/table.h"
#include "support/diagnostic.h"

namespace tsc::ops {
namespace {

using graph::MemoryFormat;

MemoryFormat format_of(const Call &call, MemoryFormat fallback) {
  const MemoryFormat *format = std::get_if<MemoryFormat>(&call["memory_format"].value);
  return format ? *format : fallback;
}

/// Whether `self` is a number, which ATen's conversions take for a tensor of rank 0.
bool converts_number(const Call &call) {
  const Value *value = call.value_of(call["self"]);
  return !call["self"].is_none() && !call["self"].list() && (!value || !value->tensor());
}

/// The dtype that ATen's conversions give a number which nothing else is asked of.
DType dtype_of_number(const Call &call) {
  const tensor::Scalar number = call.scalar("self");
  return std::holds_alternative<double>(number) ? DType::f64
         : std::holds_alternative<bool>(number) ? DType::boolean
                                                : DType::i64;
}

Argument converted_number(GraphBuilder &builder, const Call &call, DType dtype) {
  return builder.call("aten.full.default", {Arguments{}, call["self"]}, {{"dtype", dtype}});
}

Value copy_value(const Call &call, DType dtype) {
  const TensorMeta &self = call.tensor("self");
  std::vector<Expr> strides =
      strides_in_format(call, self.layout, format_of(call, MemoryFormat::preserve));
  return tensor_value(dtype, self.layout.sizes, std::move(strides),
                      device_argument(call, self.device));
}

/// A cast, or a copy where the strides must change; `x` itself where nothing is to do and `copy` is
/// not asked for. Devices are a hint of the exporting machine and do not count.
Argument cast_or_copy(GraphBuilder &builder, const Argument &x, DType dtype, MemoryFormat format,
                      bool copy) {
  TensorMeta meta = builder.meta(x);
  Argument result = convert(builder, x, dtype);
  bool converted = meta.dtype != dtype;
  bool reorders =
      format == MemoryFormat::contiguous ? !meta.layout.is_contiguous()
      : format == MemoryFormat::channels_last || format == MemoryFormat::channels_last_3d ? true
                                                                                          : false;
  if (reorders || (copy && !converted))
    result = builder.call("aten.clone.default", {result}, {{"memory_format", format}});
  return result;
}

Argument to_copy(GraphBuilder &builder, const Call &call) {
  if (converts_number(call))
    return converted_number(builder, call, call.dtype("dtype").value_or(dtype_of_number(call)));
  DType dtype = call.dtype("dtype").value_or(call.tensor("self").dtype);
  return cast_or_copy(builder, call["self"], dtype, format_of(call, MemoryFormat::preserve), true);
}

/// aten.to.*: `self` itself unless the dtype or the format changes or a copy is asked for.
Argument to(GraphBuilder &builder, const Call &call) {
  const bool is_number = converts_number(call);
  DType dtype = is_number ? dtype_of_number(call) : call.tensor("self").dtype;
  bool has_other = false;
  for (const Parameter &parameter : call.schema().parameters) {
    if (parameter.name == "dtype")
      dtype = call.dtype("dtype").value_or(dtype);
    has_other = has_other || parameter.name == "other";
  }
  if (has_other)
    dtype = call.tensor("other").dtype;
  if (is_number)
    return converted_number(builder, call, dtype);
  return cast_or_copy(builder, call["self"], dtype, format_of(call, MemoryFormat::preserve),
                      call.boolean("copy"));
}

Value convert_element_type_value(const Call &call) {
  const TensorMeta &a = call.tensor("a");
  std::optional<DType> dtype = call.dtype("dtype");
  support::require(dtype.has_value(), "ops", "a conversion without a dtype");
  return tensor_value(*dtype, a.layout.sizes, preserved_strides(a.layout, call.ranges()), a.device);
}

Argument identity(GraphBuilder &, const Call &call) {
  return call[call.schema().parameters[0].name];
}

/// copy(self, src): src, a tensor or a number, with self's dtype, sizes and strides.
Argument copy(GraphBuilder &builder, const Call &call) {
  TensorMeta self = call.tensor("self");
  const Value *value = call.value_of(call["src"]);
  if (!value || !value->tensor() || value->tensor()->is_number)
    return builder.call("aten.fill.Scalar", {call["self"], call["src"]});
  Argument source = convert(builder, call["src"], self.dtype);
  if (builder.meta(source).layout.sizes != self.layout.sizes)
    source = builder.call("aten.expand.default", {source, sizes_argument(self.layout.sizes)});
  return builder.call("aten.clone.default", {source});
}

/// written(self, src, exact): what a tensor given for a result holds after the call. ATen would
/// give it other sizes, or refuses. `exact`: it has the result's dtype, too.
Argument written(GraphBuilder &builder, const Call &call) {
  const TensorMeta self = call.tensor("self"), source = call.tensor("src");
  const std::vector<Expr> &sizes = self.layout.sizes;
  bool fits = sizes.size() == source.layout.sizes.size();
  for (size_t i = 0; fits && i < sizes.size(); ++i)
    fits = taken_equal(call, sizes[i], source.layout.sizes[i]);
  if (!fits)
    call.fail("TSC-O070",
              "the result has the sizes " + print_sizes(source.layout.sizes) +
                  ", the tensor given for it " + print_sizes(sizes),
              "give a tensor with the sizes of the result");
  const auto rank_of = [](DType dtype) {
    return tensor::is_complex(dtype)    ? 3
           : tensor::is_floating(dtype) ? 2
                                        : static_cast<int>(dtype != DType::boolean);
  };
  if (rank_of(source.dtype) > rank_of(self.dtype) ||
      (call.boolean("exact") && source.dtype != self.dtype))
    call.fail("TSC-O070",
              "a result of " + std::string(tensor::torch_name(source.dtype)) +
                  " is not written to a tensor of " + std::string(tensor::torch_name(self.dtype)),
              "give a tensor of the result's dtype");
  return builder.call("aten.copy.default", {call["self"], call["src"]});
}

void add_casts(Table &table) {
  table.add("prims::convert_element_type(Tensor a, ScalarType dtype) -> Tensor")
      .shape(convert_element_type_value)
      .passes_elements()
      .lowers("convert_element_type");
  table
      .add("_to_copy(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, Device? "
           "device=None, bool? "
           "pin_memory=None, bool non_blocking=False, MemoryFormat? memory_format=None) -> Tensor")
      .passes_elements()
      .shape([](const Call &call) {
        const std::optional<DType> dtype = call.dtype("dtype");
        if (converts_number(call))
          return tensor_value(dtype.value_or(dtype_of_number(call)), {}, {},
                              device_argument(call, {}));
        return copy_value(call, dtype.value_or(call.tensor("self").dtype));
      })
      .decompose(to_copy);
  const std::string_view forms[] = {"to.dtype_layout(Tensor(a) self, *, ScalarType? dtype=None, "
                                    "Layout? layout=None, Device? device=None, "
                                    "bool? pin_memory=None, bool non_blocking=False, bool "
                                    "copy=False, MemoryFormat? memory_format=None) -> "
                                    "Tensor(a)",
                                    "to.device(Tensor(a) self, Device device, ScalarType dtype, "
                                    "bool non_blocking=False, bool copy=False, "
                                    "MemoryFormat? memory_format=None) -> Tensor(a)",
                                    "to.dtype(Tensor(a) self, ScalarType dtype, bool "
                                    "non_blocking=False, bool copy=False, MemoryFormat? "
                                    "memory_format=None) -> Tensor(a)",
                                    "to.other(Tensor(a) self, Tensor other, bool "
                                    "non_blocking=False, bool copy=False, MemoryFormat? "
                                    "memory_format=None) -> Tensor(a)",
                                    "to.prim_Device(Tensor(a) self, Device? device, int? "
                                    "dtype=None, bool non_blocking=False, bool copy=False, "
                                    "MemoryFormat? memory_format=None) -> Tensor(a)"};
  for (std::string_view form : forms)
    table.add(form).effect(Effect::view).decompose(to);
  table.add("type_as(Tensor self, Tensor other) -> Tensor")
      .effect(Effect::view)
      .decompose([](GraphBuilder &builder, const Call &call) {
        return convert(builder, call["self"], call.tensor("other").dtype);
      });
  struct Named {
    std::string_view name;
    DType dtype;
  };
  const Named named[] = {{"_cast_Float", DType::f32},  {"_cast_Half", DType::f16},
                         {"_cast_Double", DType::f64}, {"_cast_Long", DType::i64},
                         {"_cast_Int", DType::i32},    {"_cast_Short", DType::i16},
                         {"_cast_Char", DType::i8},    {"_cast_Byte", DType::u8}};
  for (const Named &each : named) {
    DType dtype = each.dtype;
    table
        .add(keep_text(std::string(each.name) + "(Tensor self, bool non_blocking=False) -> Tensor"))
        .effect(Effect::view)
        .decompose([dtype](GraphBuilder &builder, const Call &call) {
          return convert(builder, call["self"], dtype);
        });
  }
}

} // namespace

void add_conversions(Table &table) {
  add_casts(table);
  table.add("clone(Tensor self, *, MemoryFormat? memory_format=None) -> Tensor")
      .shape([](const Call &call) { return copy_value(call, call.tensor("self").dtype); })
      .passes_elements()
      .lowers("clone");
  table
      .add("contiguous(Tensor(a) self, *, MemoryFormat memory_format=contiguous_format) -> "
           "Tensor(a)")
      .effect(Effect::view)
      .decompose([](GraphBuilder &builder, const Call &call) {
        TensorMeta self = call.tensor("self");
        MemoryFormat format = format_of(call, MemoryFormat::contiguous);
        if (strides_in_format(call, self.layout, format) == self.layout.strides)
          return call["self"];
        return cast_or_copy(builder, call["self"], self.dtype, format, false);
      });
  table.add("copy(Tensor self, Tensor src, bool non_blocking=False) -> Tensor").decompose(copy);
  table.add("tsc::written(Tensor self, Tensor src, bool exact=False) -> Tensor").decompose(written);
  table.add_mutating("tsc::write_result(Tensor(a!) self, Tensor src, bool exact=False) -> "
                     "Tensor(a!)",
                     "tsc.written.default");
  table.add_mutating("copy_(Tensor(a!) self, Tensor src, bool non_blocking=False) -> Tensor(a!)",
                     "aten.copy.default");
  for (std::string_view name : {"alias", "detach", "lift_fresh", "detach_", "lift", "resolve_conj",
                                "resolve_neg", "cpu", "view_of"}) {
    std::string space = name == "view_of" ? "prims::" : "";
    table.add(keep_text(space + std::string(name) + "(Tensor(a) self) -> Tensor(a)"))
        .effect(Effect::view)
        .decompose(identity);
  }
  table.add("requires_grad_(Tensor(a) self, bool requires_grad=True) -> Tensor(a)")
      .effect(Effect::view)
      .decompose(identity);
  table.add("_inductor_test::realize(Tensor self) -> Tensor")
      .decompose([](GraphBuilder &builder, const Call &call) {
        return builder.call("aten.clone.default", {call["self"]});
      });
  table.add("lift_fresh_copy(Tensor self) -> Tensor")
      .decompose([](GraphBuilder &builder, const Call &call) {
        return builder.call("aten.clone.default", {call["self"]});
      });
  table.add("prims::device_put(Tensor a, Device device, bool non_blocking=False) -> Tensor")
      .effect(Effect::view)
      .decompose(identity);
}

} // namespace tsc::ops
