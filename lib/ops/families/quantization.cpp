// Affine quantization as exported models write it (quantized_decomposed): integers, or 8-bit
// floats, that stand for (q - zero_point) * scale.
#include "ops/table/precision.h"
#include "ops/table/shape_rules.h"
#include "ops/table/table.h"
#include "ops/table/term.h"

#include <cmath>
#include <string>

namespace tsc::ops {
namespace {

using Sizes = std::vector<Expr>;

std::string named(const TensorMeta &meta) {
  return std::string(tensor::torch_name(meta.dtype)) + print_sizes(meta.layout.sizes);
}

DType asked(const Call &call, std::string_view parameter, DType otherwise) {
  return call.dtype(parameter).value_or(otherwise);
}

/// What a tensor of one element holds, with rank 0: such an operand decides no dtype beside others.
Term number(GraphBuilder &builder, const Call &call, std::string_view parameter, DType dtype) {
  const Term given(builder, call[parameter]);
  if (call.value_of(call[parameter]) == nullptr)
    return given;
  const TensorMeta meta = given.meta();
  if (!symbolic::numel(meta.layout.sizes).is_integer(1))
    call.fail("TSC-O129",
              call.node().target + ": '" + std::string(parameter) + "' is " + named(meta),
              "give one number");
  return {builder, convert(builder, meta.layout.rank() == 0 ? given : reshaped(given, {}), dtype)};
}

void check_bounds(const Call &call) {
  if (call.value_of(call["quant_min"]) != nullptr)
    return;
  const DType dtype = asked(call, "dtype", DType::i8);
  const double low = call.number("quant_min"), high = call.number("quant_max");
  const bool holds =
      tensor::is_floating(dtype) ||
      (tensor::to_double(tensor::cast_scalar(call.integer("quant_min"), dtype)) == low &&
       tensor::to_double(tensor::cast_scalar(call.integer("quant_max"), dtype)) == high);
  if (low > high || !holds)
    call.fail("TSC-O127",
              call.node().target + " from " + std::to_string(call.integer("quant_min")) + " to " +
                  std::to_string(call.integer("quant_max")) + " in " +
                  std::string(tensor::torch_name(dtype)),
              "give bounds that the dtype holds");
}

Term clamped(GraphBuilder &builder, const Call &call, const Term &x, DType dtype) {
  if (call.value_of(call["quant_min"]) == nullptr)
    return x.then("aten.clamp.default", {call["quant_min"], call["quant_max"]});
  return x.then("aten.clamp.Tensor", {number(builder, call, "quant_min", dtype).value(),
                                      number(builder, call, "quant_max", dtype).value()});
}

/// Float32 of 16-bit floats; PyTorch quantizes no wider ones.
Term float32_input(GraphBuilder &builder, const Call &call) {
  const Term input = wide(builder, call, "input");
  if (input.meta().dtype != DType::f32)
    call.fail("TSC-O127", call.node().target + " of " + named(call.tensor("input")),
              "give a float32 or 16-bit tensor");
  return input;
}

Argument quantize_tensor(GraphBuilder &builder, const Call &call) {
  check_bounds(call);
  const Term input = float32_input(builder, call);
  // The reciprocal is Python's, in double precision.
  const Argument inverse =
      call.value_of(call["scale"]) == nullptr
          ? Argument(1.0 / call.number("scale"))
          : convert(builder, 1.0 / number(builder, call, "scale", DType::f64), DType::f32);
  const Term zero_point = number(builder, call, "zero_point", DType::f32);
  const Term rounded = (input * inverse).then("aten.round.default") + zero_point;
  return clamped(builder, call, rounded, DType::f32).as(asked(call, "dtype", DType::i8));
}

void check_stored(const Call &call) {
  const std::optional<DType> dtype = call.dtype("dtype");
  if (dtype && call.tensor("input").dtype != *dtype)
    call.fail("TSC-O127",
              call.node().target + " of " + named(call.tensor("input")) + " as " +
                  std::string(tensor::torch_name(*dtype)),
              "name the dtype that the tensor has");
}

Argument dequantize_tensor(GraphBuilder &builder, const Call &call) {
  check_stored(call);
  const DType result = asked(call, "out_dtype", DType::f32);
  const DType computed = accumulation_dtype(result);
  const Term input(builder, convert(builder, call["input"], result));
  const Term zero_point = number(builder, call, "zero_point", computed);
  const Term scale = number(builder, call, "scale", computed);
  return ((input - zero_point) * scale).as(result);
}

/// [channels] along `axis` of the input.
Term along_axis(GraphBuilder &builder, const Call &call, std::string_view parameter) {
  const Sizes input = call.tensor("input").layout.sizes;
  const size_t axis = normalize_dim(call, call.integer("axis"), input.size());
  const TensorMeta &meta = call.tensor(parameter);
  if (meta.layout.rank() != 1 || axis >= input.size() ||
      !taken_equal(call, meta.layout.sizes[0], input[axis]))
    call.fail("TSC-O129",
              call.node().target + ": '" + std::string(parameter) + "' " + named(meta) +
                  " for dimension " + std::to_string(axis) + " of " + print_sizes(input),
              "give one number a channel");
  Sizes sizes(input.size(), Expr(1));
  sizes[axis] = meta.layout.sizes[0];
  return reshaped(given(builder, call, parameter), sizes);
}

Argument quantize_channels(GraphBuilder &builder, const Call &call) {
  check_bounds(call);
  const Term input = float32_input(builder, call);
  const Term scaled = input * (1.0 / along_axis(builder, call, "scales"));
  const Term rounded = scaled.then("aten.round.default") + along_axis(builder, call, "zero_points");
  return clamped(builder, call, rounded, DType::f32).as(asked(call, "dtype", DType::i8));
}

Argument dequantize_channels(GraphBuilder &builder, const Call &call) {
  check_stored(call);
  Term input = given(builder, call, "input");
  if (call.has("zero_points"))
    input = input - along_axis(builder, call, "zero_points");
  return (input * along_axis(builder, call, "scales")).as(asked(call, "out_dtype", DType::f32));
}

/// `x` as an element of its dtype holds it: PyTorch rounds after every operation, and what is
/// rounded to integers next would show it.
Term in_own_dtype(const Term &x, DType dtype) {
  const Term narrow(x.builder(), x.as(dtype));
  return tensor::is_reduced_float(dtype) ? narrow.wide() : narrow;
}

/// input / scales + zero_points as integers; the lines that share a scale are the last dimension.
Argument quantize_lines(GraphBuilder &builder, const Call &call, const Term &input,
                        const Term &scales, const Term &zero_points) {
  check_bounds(call);
  // What PyTorch computes in, as its promotion of the three has it.
  const DType inverse = to_floating(scales.meta().dtype);
  const DType product = (input * scales).meta().dtype;
  const Term reciprocal = in_own_dtype(1.0 / scales.wide(), inverse);
  const Term scaled = in_own_dtype(input.wide() * reciprocal, product);
  const Term shifted = in_own_dtype(scaled + zero_points.wide(), product);
  return clamped(builder, call, shifted.then("aten.round.default"), DType::f32)
      .as(asked(call, "dtype", DType::i8));
}

void check_lines(const Call &call) {
  const Sizes input = call.tensor("input").layout.sizes;
  for (const std::string_view name : {"scales", "zero_points"}) {
    const Sizes &sizes = call.tensor(name).layout.sizes;
    const Sizes lines(input.begin(), input.end() - (input.empty() ? 0 : 1));
    if (input.empty() || !taken_equal(call, symbolic::numel(sizes), symbolic::numel(lines)))
      call.fail("TSC-O129",
                call.node().target + ": '" + std::string(name) + "' " + named(call.tensor(name)) +
                    " for lines of " + print_sizes(input),
                "give one number a line");
  }
}

Argument quantize_tokens(GraphBuilder &builder, const Call &call) {
  check_lines(call);
  return quantize_lines(builder, call, given(builder, call, "input"),
                        given(builder, call, "scales"), given(builder, call, "zero_points"));
}

Argument dequantize_tokens(GraphBuilder &builder, const Call &call) {
  check_lines(call);
  const Term shifted = given(builder, call, "input") - given(builder, call, "zero_points");
  return (shifted * given(builder, call, "scales")).as(asked(call, "output_dtype", DType::f32));
}

/// `parameter` in lines of a group each; scales and zero points as one number a line.
struct Groups {
  Term input, scales;
  std::optional<Term> zero_points;
};
Groups in_groups(GraphBuilder &builder, const Call &call) {
  const Sizes input = call.tensor("input").layout.sizes,
              scales = call.tensor("scales").layout.sizes;
  int64_t group = call.integer("group_size");
  const bool known = input.size() == 2 && input[1].is_integer();
  if (known && group > input[1].value() && !scales.empty() && scales.back().is_integer(1))
    group = input[1].value();
  if (!known || group < 1 || input[1].value() % group != 0)
    call.fail("TSC-O129",
              call.node().target + ": groups of " + std::to_string(group) + " in " +
                  print_sizes(input),
              "give a matrix whose columns whole groups fill");
  const Expr count = input[0] * Expr(input[1].value() / group);
  const auto column = [&](std::string_view name) {
    if (!taken_equal(call, symbolic::numel(call.tensor(name).layout.sizes), count))
      call.fail("TSC-O129",
                call.node().target + ": '" + std::string(name) + "' " + named(call.tensor(name)) +
                    " for groups of " + std::to_string(group) + " in " + print_sizes(input),
                "give one number a group");
    return reshaped(given(builder, call, name), {count, Expr(1)});
  };
  Groups groups{reshaped(given(builder, call, "input"), {count, Expr(group)}), column("scales"),
                std::nullopt};
  if (call.has("zero_points"))
    groups.zero_points = column("zero_points");
  return groups;
}

Argument quantize_groups(GraphBuilder &builder, const Call &call) {
  const Groups groups = in_groups(builder, call);
  const Term lines(builder,
                   quantize_lines(builder, call, groups.input, groups.scales, *groups.zero_points));
  return reshaped(lines, call.tensor("input").layout.sizes);
}

Argument dequantize_groups(GraphBuilder &builder, const Call &call) {
  const Groups groups = in_groups(builder, call);
  const Term shifted = groups.zero_points ? groups.input - *groups.zero_points : groups.input;
  return reshaped(shifted * groups.scales, call.tensor("input").layout.sizes)
      .as(asked(call, "output_dtype", DType::f32));
}

/// (scale, zero_point), [1] each, of all elements.
Argument choose_for_tensor(GraphBuilder &builder, const Call &call, bool symmetric) {
  const TensorMeta meta = call.tensor("input");
  const Term input = float32_input(builder, call);
  const int64_t low = call.integer("quant_min"), high = call.integer("quant_max");
  if (low >= high)
    call.fail("TSC-O127",
              call.node().target + " from " + std::to_string(low) + " to " + std::to_string(high),
              "give bounds in ascending order");
  const Arguments all = *ints_argument([&] {
                           std::vector<size_t> dims(meta.layout.rank());
                           for (size_t i = 0; i < dims.size(); ++i)
                             dims[i] = i;
                           return dims;
                         }())
                             .list();
  const auto rounded = [&](const Term &x) { return in_own_dtype(x, meta.dtype); };
  const Term least = input.then("aten.amin.default", {all}).then("aten.clamp_max.default", {0}),
             most = input.then("aten.amax.default", {all}).then("aten.clamp_min.default", {0});
  const double steps = static_cast<double>(high) - static_cast<double>(low);
  const Term span = symmetric ? (-least).then("aten.maximum.default", {most.value()}) / (steps / 2)
                              : rounded(most - least) / steps;
  const Term eps = filled(builder, {}, call["eps"], DType::f32, meta.device);
  const Term scale = reshaped(rounded(span).then("aten.maximum.default", {eps.value()}), {Expr(1)});
  Argument zero_point;
  if (symmetric) {
    const bool is_unsigned = asked(call, "dtype", DType::i8) == DType::u8;
    zero_point = filled(builder, {Expr(1)}, is_unsigned ? 128 : 0, DType::i64, meta.device);
  } else {
    const Term steps_below((least / scale).then("aten.round.default"));
    const Term whole(builder, steps_below.as(DType::i32));
    const Term shifted = whole.then("aten.neg.default").then("aten.add.Tensor", {Argument(low)});
    zero_point = Term(shifted.then("aten.clamp.default", {low, high})).as(DType::i64);
  }
  return Arguments{scale.as(DType::f64), zero_point};
}

/// (scales, zero points) of the lines along the last dimension, as PyTorch computes them in the
/// input's dtype: symmetric within int8.
Argument choose_for_tokens(GraphBuilder &builder, const Call &call) {
  const DType own = call.tensor("input").dtype;
  if (asked(call, "dtype", DType::i8) != DType::i8)
    call.fail("TSC-O127",
              call.node().target + " for " + std::string(tensor::torch_name(*call.dtype("dtype"))),
              "ask for int8");
  constexpr double kLeast = 1e-5, kMost = 127;
  const DType result = own == DType::f16 ? DType::f32 : own;
  const Term largest =
      abs(wide(builder, call, "input")).then("aten.amax.default", {Argument(Arguments{-1}), true});
  const Term least = in_own_dtype(largest.then("aten.clamp_min.default", {kLeast}), result);
  const Term scales(builder, (least / kMost).as(result));
  return Arguments{scales.value(), scales.then("aten.zeros_like.default").value()};
}

Argument choose_for_tokens_asymmetric(GraphBuilder &builder, const Call &call) {
  constexpr double kLow = -128, kHigh = 127, kEpsilon = 0x1p-23;
  const DType own = call.tensor("input").dtype;
  const auto rounded = [&](const Term &x) { return in_own_dtype(x, own); };
  const Term input = wide(builder, call, "input");
  const Argument last = Arguments{-1};
  const Term least =
      input.then("aten.amin.default", {last, true}).then("aten.clamp_max.default", {0});
  const Term most =
      input.then("aten.amax.default", {last, true}).then("aten.clamp_min.default", {0});
  const Term scale = rounded(
      rounded(rounded(most - least) / (kHigh - kLow)).then("aten.clamp_min.default", {kEpsilon}));
  const Term below = rounded(least / scale), above = rounded(most / scale);
  const Term error = rounded(rounded(below + kLow) + rounded(above + kHigh));
  const Term chosen = where(error > 0, rounded(kLow - below), rounded(kHigh - above));
  const Term zero_point =
      chosen.then("aten.clamp.default", {kLow, kHigh}).then("aten.round.default");
  return Arguments{scale.as(DType::f64), zero_point.as(DType::i64)};
}

Argument fake_quantize_channels(GraphBuilder &builder, const Call &call) {
  const Term scales = along_axis(builder, call, "scales"),
             zero_points = along_axis(builder, call, "zero_points");
  const Term input = float32_input(builder, call);
  const Term rounded = (input * (1.0 / scales)).then("aten.round.default") + zero_points;
  const Term kept = rounded.then("aten.clamp.default", {call["quant_min"], call["quant_max"]});
  return ((kept - zero_points) * scales).as(DType::f32);
}

void add_of_tensors(Table &table) {
  const std::string space = "quantized_decomposed::";
  struct Form {
    std::string_view name, number, integer, bound;
  };
  for (const Form &form :
       {Form{"", "float", "int", "int"}, Form{".tensor", "Tensor", "Tensor", "int"},
        Form{".tensor2", "Tensor", "Tensor", "Tensor"}}) {
    const std::string parameters =
        std::string(form.name) + "(Tensor input, " + std::string(form.number) + " scale, " +
        std::string(form.integer) + " zero_point, " + std::string(form.bound) + " quant_min, " +
        std::string(form.bound) + " quant_max, ScalarType dtype";
    table.add(keep_text(space + "quantize_per_tensor" + parameters + ") -> Tensor"))
        .decompose(quantize_tensor);
    table
        .add(keep_text(space + "dequantize_per_tensor" + parameters +
                       ", *, ScalarType? out_dtype=None) -> Tensor"))
        .decompose(dequantize_tensor);
  }
  for (const bool symmetric : {false, true})
    table
        .add(keep_text(space + "choose_qparams" + (symmetric ? "_symmetric" : "") +
                       ".tensor(Tensor input, int quant_min, int quant_max, float eps, ScalarType "
                       "dtype) -> (Tensor, Tensor)"))
        .decompose([symmetric](GraphBuilder &builder, const Call &call) {
          return choose_for_tensor(builder, call, symmetric);
        });
}

} // namespace

void add_quantization(Table &table) {
  add_of_tensors(table);
  table
      .add("quantized_decomposed::quantize_per_channel(Tensor input, Tensor scales, Tensor "
           "zero_points, int axis, int quant_min, int quant_max, ScalarType dtype) -> Tensor")
      .decompose(quantize_channels);
  table
      .add("quantized_decomposed::dequantize_per_channel(Tensor input, Tensor scales, Tensor? "
           "zero_points, int axis, int quant_min, int quant_max, ScalarType dtype, *, ScalarType? "
           "out_dtype=None) -> Tensor")
      .decompose(dequantize_channels);
  table
      .add("quantized_decomposed::quantize_per_token(Tensor input, Tensor scales, Tensor "
           "zero_points, int quant_min, int quant_max, ScalarType dtype) -> Tensor")
      .decompose(quantize_tokens);
  table
      .add("quantized_decomposed::dequantize_per_token(Tensor input, Tensor scales, Tensor "
           "zero_points, int quant_min, int quant_max, ScalarType dtype, ScalarType output_dtype) "
           "-> Tensor")
      .decompose(dequantize_tokens);
  table
      .add("quantized_decomposed::quantize_per_channel_group(Tensor input, Tensor scales, Tensor "
           "zero_points, int quant_min, int quant_max, ScalarType dtype, int group_size) -> Tensor")
      .decompose(quantize_groups);
  table
      .add("quantized_decomposed::dequantize_per_channel_group(Tensor input, Tensor scales, "
           "Tensor? zero_points, int quant_min, int quant_max, ScalarType dtype, int group_size, "
           "ScalarType output_dtype) -> Tensor")
      .decompose(dequantize_groups);
  table
      .add("quantized_decomposed::choose_qparams_per_token(Tensor input, ScalarType dtype) -> "
           "(Tensor, Tensor)")
      .decompose(choose_for_tokens);
  for (const std::string_view name :
       {"choose_qparams_per_token_asymmetric", "_choose_qparams_per_token_asymmetric_impl"})
    table
        .add(keep_text("quantized_decomposed::" + std::string(name) +
                       "(Tensor input, ScalarType dtype) -> (Tensor, Tensor)"))
        .decompose(choose_for_tokens_asymmetric);
  table
      .add("quantized_decomposed::fake_quant_per_channel(Tensor input, Tensor scales, Tensor "
           "zero_points, int axis, int quant_min, int quant_max) -> Tensor")
      .decompose(fake_quantize_channels);
  table
      .add("quantized_decomposed::convert_element_type.no_fuse(Tensor input, ScalarType dtype) -> "
           "Tensor")
      .decompose([](GraphBuilder &builder, const Call &call) {
        return convert(builder, call["input"], *call.dtype("dtype"));
      });
}

} // namespace tsc::ops
