// Tensors from nothing: full, arange, empty and their kin.
#include "ops/families/factories.h"
#include "ops/table/complex_calls.h"
#include "ops/table/pointwise_rules.h"
#include "ops/table/precision.h"
#include "ops/table/shape_rules.h"
#include "ops/table/table.h"

#include <algorithm>
#include <cmath>

namespace tsc::ops {
namespace {

constexpr std::string_view kFull = "aten.full.default";

DType dtype_of_fill(const Call &call, const Argument &value) {
  if (const Value *number = call.value_of(value); number && number->tensor())
    return number->tensor()->dtype == DType::boolean ? DType::boolean : DType::f32;
  if (std::holds_alternative<bool>(value.value))
    return DType::boolean;
  if (std::holds_alternative<graph::Complex>(value.value))
    return DType::c64;
  return std::holds_alternative<double>(value.value) ? DType::f32 : DType::i64;
}

Value full_value(const Call &call) {
  return contiguous_value(call.dtype("dtype").value_or(dtype_of_fill(call, call["fill_value"])),
                          call.sizes("size"), device_argument(call, {}));
}

Argument full(GraphBuilder &builder, const std::vector<Expr> &sizes, const Argument &value,
              DType dtype, tensor::Device device) {
  return builder.emit(kFull, {sizes_argument(sizes), value},
                      {{"dtype", dtype}, {"device", device}});
}

/// A fill with the strides that `like` would have when copied.
Argument full_like(GraphBuilder &builder, const Call &call, const Argument &value) {
  const TensorMeta self = call.tensor("self");
  DType dtype = call.dtype("dtype").value_or(self.dtype);
  tensor::Device device = device_argument(call, self.device);
  return made_like(builder, call, [&](const std::vector<Expr> &sizes) {
    return full(builder, sizes, value, dtype, device);
  });
}

Argument new_full(GraphBuilder &builder, const Call &call, const Argument &value) {
  const TensorMeta self = call.tensor("self");
  return full(builder, call.sizes("size"), value, call.dtype("dtype").value_or(self.dtype),
              device_argument(call, self.device));
}

Decomposition constant_fill(int value) {
  return [value](GraphBuilder &builder, const Call &call) {
    return full(builder, call.sizes("size"), value, call.dtype("dtype").value_or(DType::f32),
                device_argument(call, {}));
  };
}

void add_fills(Table &table) {
  table.add(factory("full(SymInt[] size, Scalar fill_value")).shape(full_value).lowers("full");
  struct Constant {
    std::string_view name;
    int value;
  };
  for (const Constant &constant : {Constant{"zeros", 0}, Constant{"ones", 1}}) {
    int value = constant.value;
    std::string name(constant.name);
    table.add(factory(name + "(SymInt[] size")).decompose(constant_fill(value));
    if (value == 0) // without memory, in traces of forward-mode derivatives
      table.add(factory("_efficientzerotensor(SymInt[] size")).decompose(constant_fill(0));
    table.add(factory(name + "_like(Tensor self", true))
        .decompose([value](GraphBuilder &builder, const Call &call) {
          return full_like(builder, call, value);
        });
    table.add(factory("new_" + name + "(Tensor self, SymInt[] size"))
        .decompose([value](GraphBuilder &builder, const Call &call) {
          return new_full(builder, call, value);
        });
  }
  table.add(factory("full_like(Tensor self, Scalar fill_value", true))
      .decompose([](GraphBuilder &builder, const Call &call) {
        return full_like(builder, call, call["fill_value"]);
      });
  table.add(factory("new_full(Tensor self, SymInt[] size, Scalar fill_value"))
      .decompose([](GraphBuilder &builder, const Call &call) {
        return new_full(builder, call, call["fill_value"]);
      });
  table
      .add("_new_zeros_with_same_feature_meta(Tensor self, Tensor other, *, int "
           "self_num_batch_dims=0) -> Tensor")
      .decompose([](GraphBuilder &builder, const Call &call) {
        std::vector<Expr> sizes = call.tensor("self").layout.sizes;
        sizes.resize(std::min(sizes.size(), static_cast<size_t>(std::max<int64_t>(
                                                0, call.integer("self_num_batch_dims")))));
        const TensorMeta &other = call.tensor("other");
        sizes.insert(sizes.end(), other.layout.sizes.begin(), other.layout.sizes.end());
        return builder.call("aten.full.default", {sizes_argument(sizes), 0},
                            {{"dtype", other.dtype}, {"device", other.device}});
      });
  table.add(factory("scalar_tensor(Scalar s"))
      .decompose([](GraphBuilder &builder, const Call &call) {
        return full(builder, {}, call["s"], call.dtype("dtype").value_or(DType::f32),
                    device_argument(call, {tensor::DeviceType::cpu, 0}));
      });
}

/// fill(self, value): self's layout, one value.
Argument fill(GraphBuilder &builder, const Call &call) {
  const TensorMeta self = call.tensor("self");
  if (const TensorMeta *value = call.optional_tensor("value")) {
    Argument converted = value->dtype == self.dtype
                             ? call["value"]
                             : builder.call(kConvert, {call["value"], self.dtype});
    Argument expanded =
        builder.call("aten.expand.default", {converted, sizes_argument(self.layout.sizes)});
    return builder.call("aten.clone.default", {expanded});
  }
  return builder.call("aten.full_like.default", {call["self"], call["value"]});
}

void add_in_place_fills(Table &table) {
  table.add_with_in_place("fill.Scalar(Tensor self, Scalar value) -> Tensor").decompose(fill);
  table.add_with_in_place("fill.Tensor(Tensor self, Tensor value) -> Tensor").decompose(fill);
  table.add_with_in_place("zero(Tensor self) -> Tensor")
      .decompose([](GraphBuilder &builder, const Call &call) {
        return builder.call("aten.zeros_like.default", {call["self"]});
      });
}

void add_empty(Table &table) {
  table.add(factory("empty.memory_format(SymInt[] size", true))
      .shape([](const Call &call) {
        tensor::Layout layout = tensor::contiguous_layout(call.sizes("size"));
        const auto *format = std::get_if<graph::MemoryFormat>(&call["memory_format"].value);
        std::vector<Expr> strides =
            format ? strides_in_format(call, layout, *format) : layout.strides;
        return tensor_value(call.dtype("dtype").value_or(DType::f32), layout.sizes,
                            std::move(strides), device_argument(call, {}));
      })
      .effect(Effect::random) // two empties are never one
      .lowers("empty");
  table.add(factory("empty_strided(SymInt[] size, SymInt[] stride"))
      .shape([](const Call &call) {
        return tensor_value(call.dtype("dtype").value_or(DType::f32), call.sizes("size"),
                            call.sizes("stride"), device_argument(call, {}));
      })
      .effect(Effect::random)
      .lowers("empty");
  table.add(factory("empty_permuted(SymInt[] size, int[] physical_layout"))
      .decompose([](GraphBuilder &builder, const Call &call) {
        const std::vector<Expr> sizes = call.sizes("size");
        const std::vector<int64_t> order = call.integers("physical_layout");
        std::vector<Expr> strides(sizes.size(), Expr(0));
        std::vector<bool> seen(sizes.size(), false);
        Expr stride = 1;
        bool each_once = order.size() == sizes.size();
        for (size_t i = order.size(); each_once && i-- > 0;) { // innermost last
          const auto d = static_cast<size_t>(order[i]);
          each_once = order[i] >= 0 && d < sizes.size() && !seen[d];
          if (!each_once)
            break;
          seen[d] = true;
          strides[d] = stride;
          stride = stride * symbolic::maximum(sizes[d], Expr(1));
        }
        if (!each_once)
          call.fail("TSC-O024", call.node().target + ": physical_layout is no permutation",
                    "name each dimension once, the outermost first");
        return builder.call("aten.empty_strided.default",
                            {sizes_argument(sizes), sizes_argument(strides)},
                            {{"dtype", call.dtype("dtype").value_or(DType::f32)},
                             {"device", device_argument(call, {})}});
      });
  table.add(factory("new_empty_strided(Tensor self, SymInt[] size, SymInt[] stride"))
      .decompose([](GraphBuilder &builder, const Call &call) {
        const TensorMeta self = call.tensor("self");
        return builder.call("aten.empty_strided.default", {call["size"], call["stride"]},
                            {{"dtype", call.dtype("dtype").value_or(self.dtype)},
                             {"device", device_argument(call, self.device)}});
      });
  table.add(factory("empty_like(Tensor self", true))
      .decompose([](GraphBuilder &builder, const Call &call) {
        return full_like(builder, call, 0); // any value is right
      });
  table.add(factory("new_empty(Tensor self, SymInt[] size"))
      .decompose(
          [](GraphBuilder &builder, const Call &call) { return new_full(builder, call, 0); });
}

bool is_float(const Argument &argument) { return std::holds_alternative<double>(argument.value); }

Argument iota(GraphBuilder &builder, Expr length, Expr start, Expr step, DType dtype,
              tensor::Device device) {
  return builder.emit("prims.iota.default", {size_argument(length)},
                      {{"start", size_argument(start)},
                       {"step", size_argument(step)},
                       {"dtype", dtype},
                       {"device", device},
                       {"requires_grad", false}});
}

double real(const Argument &value) {
  const double *real = std::get_if<double>(&value.value);
  return real ? *real : static_cast<double>(std::get<int64_t>(value.value));
}

/// The elements of a range of reals; throws unless they are counted by a number.
int64_t range_length(const Call &call, double start, double end, double step) {
  constexpr double kMost = 1e15;
  const double length = std::ceil((end - start) / step);
  if (!(length >= 0 && length < kMost))
    call.fail("TSC-O034", "aten.arange: no step leads from start to end",
              "swap them, or negate the step");
  return static_cast<int64_t>(length);
}

bool is_symbolic(const Argument &value) { return std::holds_alternative<Expr>(value.value); }

/// 3.0 as 3; other reals as they are.
Argument whole(const Argument &value) {
  constexpr double kExact = 9007199254740992; // up to here every integer is a double
  const double *real = std::get_if<double>(&value.value);
  if (real && std::trunc(*real) == *real && std::abs(*real) <= kExact)
    return static_cast<int64_t>(*real);
  return value;
}

void refuse_symbolic_bounds(const Call &call, const Argument &start, const Argument &end,
                            const Argument &step) {
  if (is_symbolic(start) || is_symbolic(end) || is_symbolic(step))
    call.refuse("TSC-O034", "aten.arange: floating bounds with symbolic ones",
                "make the bounds static");
}

/// Reals as bounds of integers: start and step are cut off, and of int64, as ATen has it, the end
/// is too before the elements are counted.
Argument whole_range(GraphBuilder &builder, const Call &call, const Argument &start,
                     const Argument &end, const Argument &step, DType dtype) {
  refuse_symbolic_bounds(call, start, end, step);
  const double first = std::trunc(real(start)), stride = std::trunc(real(step));
  const int64_t length = dtype == DType::i64
                             ? range_length(call, first, std::trunc(real(end)), stride)
                             : range_length(call, real(start), real(end), real(step));
  return iota(builder, Expr(length), Expr(static_cast<int64_t>(first)),
              Expr(static_cast<int64_t>(stride)), dtype, device_argument(call, {}));
}

/// ceil((end - start) / step) elements.
Argument arange_over(GraphBuilder &builder, const Call &call, Argument start, Argument end,
                     Argument step) {
  bool floating = is_float(start) || is_float(end) || is_float(step);
  DType dtype = call.dtype("dtype").value_or(floating ? DType::f32 : DType::i64);
  // Whole reals beside sizes count as those do.
  if (is_symbolic(start) || is_symbolic(end) || is_symbolic(step)) {
    start = whole(start), end = whole(end), step = whole(step);
    floating = is_float(start) || is_float(end) || is_float(step);
  }
  if (floating && tensor::is_integral(dtype))
    return whole_range(builder, call, start, end, step, dtype);
  tensor::Device device = device_argument(call, {});
  auto integer = [](const Argument &value) {
    const Expr *expr = std::get_if<Expr>(&value.value);
    return expr ? *expr : Expr(std::get<int64_t>(value.value));
  };
  if (!floating) {
    const Expr stride = integer(step);
    const symbolic::Interval signs = symbolic::bounds(stride, call.ranges());
    if (signs.low <= 0 && signs.high >= 0)
      call.fail("TSC-O034", "aten.arange: the step is '" + symbolic::print(stride) + "'",
                "use a step that is known to be above 0, or below");
    const bool rises = signs.low > 0;
    const Expr span = rises ? integer(end) - integer(start) : integer(start) - integer(end);
    const Expr length = symbolic::simplify(
        symbolic::ceil_div(span, rises ? stride : Expr(0) - stride), call.ranges());
    if (length.is_integer() && length.value() < 0)
      call.fail("TSC-O034", "aten.arange: no step leads from start to end",
                "swap them, or negate the step");
    bool direct = tensor::is_integral(dtype);
    Argument values =
        iota(builder, length, integer(start), stride, direct ? dtype : DType::i64, device);
    return direct ? values : convert(builder, values, dtype);
  }
  refuse_symbolic_bounds(call, start, end, step);
  const int64_t length = range_length(call, real(start), real(end), real(step));
  Argument counts = iota(builder, Expr(length), Expr(0), Expr(1), DType::i64, device);
  DType wide = dtype == DType::f64 ? DType::f64 : DType::f32;
  Argument scaled = builder.call(kMul, {convert(builder, counts, wide), real(step)});
  Argument values = builder.call(kAdd, {scaled, real(start)});
  return convert(builder, values, dtype);
}

/// torch.range: the end counts too. PyTorch computes it in float64.
Argument range_with_end(GraphBuilder &builder, const Call &call) {
  const std::vector<Parameter> &parameters = call.schema().parameters;
  const bool takes_step =
      std::any_of(parameters.begin(), parameters.end(),
                  [](const Parameter &parameter) { return parameter.name == "step"; });
  const Argument step = takes_step && call.has("step") ? call["step"] : Argument(1);
  for (const std::string_view name : {"start", "end"})
    if (call.value_of(call[name]) || std::holds_alternative<Expr>(call[name].value))
      call.refuse("TSC-O034", "aten.range: symbolic bounds", "use torch.arange");
  const DType dtype = call.dtype("dtype").value_or(DType::f32);
  const bool is_whole = tensor::is_integral(dtype);
  const auto bound = [&](const Argument &value) {
    return is_whole ? std::trunc(real(value)) : real(value);
  };
  const double start = bound(call["start"]), end = bound(call["end"]), stride = bound(step);
  const double count = std::floor((end - start) / stride) + 1;
  if (!(count >= 1 && count < 1e15))
    call.fail("TSC-O034", "aten.range: no step leads from start to end",
              "swap them, or negate the step");
  const tensor::Device device = device_argument(call, {});
  const auto length = Expr(static_cast<int64_t>(count));
  if (is_whole)
    return iota(builder, length, Expr(static_cast<int64_t>(start)),
                Expr(static_cast<int64_t>(stride)), dtype, device);
  const Argument counts = iota(builder, length, Expr(0), Expr(1), DType::i64, device);
  const Argument scaled = builder.call(kMul, {convert(builder, counts, DType::f64), stride});
  return convert(builder, builder.call(kAdd, {scaled, start}), dtype);
}

/// A number that may be the value of a node. True and False are 1 and 0.
Argument resolved(const Call &call, std::string_view parameter) {
  const Argument &argument = call[parameter];
  if (const bool *truth = std::get_if<bool>(&argument.value))
    return static_cast<int64_t>(*truth);
  if (argument.node() || std::holds_alternative<Expr>(argument.value))
    return size_argument(call.size(parameter));
  return argument;
}

void add_ranges(Table &table) {
  table
      .add("prims::iota(SymInt length, *, SymInt start, SymInt step, ScalarType dtype, Device "
           "device, bool "
           "requires_grad) -> Tensor")
      .shape([](const Call &call) {
        return contiguous_value(call.dtype("dtype").value_or(DType::i64), {call.size("length")},
                                device_argument(call, {}));
      })
      .lowers("iota");
  table.add(factory("arange(Scalar end")).decompose([](GraphBuilder &builder, const Call &call) {
    return arange_over(builder, call, 0, resolved(call, "end"), 1);
  });
  table.add(factory("arange.start(Scalar start, Scalar end"))
      .decompose([](GraphBuilder &builder, const Call &call) {
        return arange_over(builder, call, resolved(call, "start"), resolved(call, "end"), 1);
      });
  table.add(factory("arange.start_step(Scalar start, Scalar end, Scalar step=1"))
      .decompose([](GraphBuilder &builder, const Call &call) {
        return arange_over(builder, call, resolved(call, "start"), resolved(call, "end"),
                           resolved(call, "step"));
      });
  table.add(factory("range(Scalar start, Scalar end")).decompose(range_with_end);
  table.add(factory("range.step(Scalar start, Scalar end, Scalar step=1"))
      .decompose(range_with_end);
}

/// `count` positions, 0 to 1 less.
Argument places(GraphBuilder &builder, int64_t count, tensor::Device device) {
  return iota(builder, Expr(count), Expr(0), Expr(1), DType::i64, device);
}

/// linspace's or logspace's bound: a number, or a tensor of rank 0. Of integers it is cut off
/// first.
Argument bound(GraphBuilder &builder, const Call &call, std::string_view name, DType dtype,
               DType wide) {
  const bool whole = tensor::is_integral(dtype);
  if (const TensorMeta *meta = call.optional_tensor(name)) {
    if (meta->layout.rank() != 0)
      call.fail("TSC-O034",
                call.node().target + ": " + std::string(name) + " has sizes " +
                    print_sizes(meta->layout.sizes),
                "pass a number, or a tensor without dimensions");
    return convert(builder, convert(builder, call[name], whole ? dtype : wide), wide);
  }
  if (tensor::is_complex(wide))
    return builder.call(kFull, {Arguments{}, call[name]}, {{"dtype", wide}});
  const double number = call.number(name);
  return whole ? tensor::to_double(tensor::cast_scalar(number, dtype)) : number;
}

/// steps values from start to end: from the nearer end each, so that both ends are exact. `wide` is
/// what they are computed in.
Argument spaced(GraphBuilder &builder, const Call &call, DType dtype, DType wide) {
  const int64_t steps = call.integer("steps");
  if (steps < 0)
    call.fail("TSC-O034", call.node().target + ": " + std::to_string(steps) + " steps",
              "use 0 or more");
  const tensor::Device device = device_argument(call, {});
  const Argument start = bound(builder, call, "start", dtype, wide),
                 end = bound(builder, call, "end", dtype, wide);
  const Argument counts = places(builder, steps, device);
  const Argument position = convert(builder, counts, wide);
  if (steps < 2) { // PyTorch's single value is the start
    const Argument zero = builder.call(kMul, {position, 0.0});
    return builder.call(kAdd, {zero, start});
  }
  const double parts = static_cast<double>(steps - 1);
  const double *first = std::get_if<double>(&start.value), *last = std::get_if<double>(&end.value);
  const Argument step = first && last
                            ? Argument((*last - *first) / parts)
                            : builder.call(kDiv, {builder.call(kSub, {end, start}), parts});
  const Argument first_half = builder.call("aten.lt.Tensor", {counts, steps / 2});
  const Argument up = builder.call(kAdd, {builder.call(kMul, {position, step}), start});
  const Argument remaining = builder.call(kSub, {parts, position});
  const Argument down = builder.call(kSub, {end, builder.call(kMul, {remaining, step})});
  return builder.call(kWhere, {first_half, up, down});
}

/// Of f32, or of c64 where a bound is complex.
DType space_dtype(const Call &call) {
  return call.dtype("dtype").value_or(involves_complex(call) ? DType::c64 : DType::f32);
}

Argument linspace(GraphBuilder &builder, const Call &call) {
  const DType dtype = space_dtype(call);
  if (tensor::is_complex(dtype))
    return spaced(builder, call, dtype, dtype);
  const bool exact = dtype == DType::f64 || tensor::is_integral(dtype);
  return convert(builder, spaced(builder, call, dtype, exact ? DType::f64 : DType::f32), dtype);
}

/// base to the power of the same values.
Argument logspace(GraphBuilder &builder, const Call &call) {
  const DType dtype = space_dtype(call);
  if (tensor::is_complex(dtype))
    return builder.call("aten.pow.Scalar", {call["base"], spaced(builder, call, dtype, dtype)});
  const bool whole = tensor::is_integral(dtype);
  // Of integers the bounds are cut off, the step is not; nor is the bound of a single value.
  const bool single = call.integer("steps") < 2;
  const DType wide = dtype == DType::f64 || single || whole ? DType::f64 : DType::f32;
  const Argument exponents = spaced(builder, call, single ? DType::f64 : dtype, wide);
  Argument power = builder.call("aten.pow.Scalar", {call["base"], exponents});
  if (whole) { // cut off: a device's pow may give 999.9999999999999 for 10^3
    constexpr double kUlps = 8 * 0x1p-52;
    const Argument nearest = builder.call("aten.round.default", {power});
    const Argument apart = builder.call("aten.abs.default", {builder.call(kSub, {power, nearest})});
    const Argument margin =
        builder.call(kMul, {builder.call("aten.abs.default", {nearest}), kUlps});
    power = builder.call(kWhere, {builder.call("aten.le.Tensor", {apart, margin}), nearest, power});
  }
  return convert(builder, power, dtype);
}

void add_spaces(Table &table) {
  struct Form {
    std::string_view overload, start, end;
  };
  const Form forms[] = {{"", "Scalar", "Scalar"},
                        {".Tensor_Tensor", "Tensor", "Tensor"},
                        {".Tensor_Scalar", "Tensor", "Scalar"},
                        {".Scalar_Tensor", "Scalar", "Tensor"}};
  for (const Form &form : forms) {
    const std::string parameters = std::string(form.overload) + "(" + std::string(form.start) +
                                   " start, " + std::string(form.end) + " end, int steps";
    table.add(factory("linspace" + parameters)).decompose(linspace);
    table.add(factory("logspace" + parameters + ", float base=10.")).decompose(logspace);
  }
}

/// Ones where column - row compares to `diagonal` as asked.
Argument triangle_mask(GraphBuilder &builder, Expr rows, Expr columns, const Argument &diagonal,
                       std::string_view comparison, tensor::Device device) {
  Argument row = iota(builder, rows, Expr(0), Expr(1), DType::i64, device);
  Argument column = iota(builder, columns, Expr(0), Expr(1), DType::i64, device);
  Argument row_column = builder.call("aten.unsqueeze.default", {row, -1});
  Argument offset = builder.call(kSub, {column, row_column});
  return builder.call(comparison, {offset, diagonal});
}

Argument triangle(GraphBuilder &builder, const Call &call, std::string_view comparison) {
  const TensorMeta self = call.tensor("self");
  size_t rank = self.layout.rank();
  if (rank < 2)
    call.fail("TSC-O035", call.node().target + " needs 2 or more dimensions", "pass a matrix");
  Argument mask = triangle_mask(builder, self.layout.sizes[rank - 2], self.layout.sizes[rank - 1],
                                call["diagonal"], comparison, self.device);
  Argument zero = tensor::is_floating(self.dtype) ? Argument(0.0)
                  : self.dtype == DType::boolean  ? Argument(false)
                                                  : Argument(0);
  Argument result = builder.call(kWhere, {mask, call["self"], zero});
  if (builder.meta(result).layout.is_contiguous())
    return result;
  return builder.call("aten.clone.default", {result},
                      {{"memory_format", graph::MemoryFormat::contiguous}});
}

void add_triangles(Table &table) {
  table.add_with_in_place("tril(Tensor self, SymInt diagonal=0) -> Tensor")
      .decompose([](GraphBuilder &builder, const Call &call) {
        return triangle(builder, call, "aten.le.Tensor");
      });
  table.add_with_in_place("triu(Tensor self, SymInt diagonal=0) -> Tensor")
      .decompose([](GraphBuilder &builder, const Call &call) {
        return triangle(builder, call, "aten.ge.Tensor");
      });
  auto eye = [](GraphBuilder &builder, const Call &call) {
    Expr rows = call.size("n");
    bool square = call.schema().parameters[1].name != "m";
    Argument mask = triangle_mask(builder, rows, square ? rows : call.size("m"), 0,
                                  "aten.eq.Tensor", device_argument(call, {}));
    return convert(builder, mask, call.dtype("dtype").value_or(DType::f32));
  };
  table.add(factory("eye(SymInt n")).decompose(eye);
  table.add(factory("eye.m(SymInt n, SymInt m")).decompose(eye);
}

} // namespace

void add_creation(Table &table) {
  add_fills(table);
  add_in_place_fills(table);
  add_empty(table);
  add_ranges(table);
  add_spaces(table);
  add_triangles(table);
}

} // namespace tsc::ops
