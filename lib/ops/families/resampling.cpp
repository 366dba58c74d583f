// Interpolation: nearest by gathers or, for whole factors, by repetition; linear and cubic one
// dimension after the other, as weighted sums of gathers.
#include "ops/families/resampling.h"

#include "graph/indicators.h"
#include "ops/table/memory_format.h"
#include "ops/table/pointwise_rules.h"
#include "ops/table/precision.h"
#include "ops/table/shape_rules.h"
#include "ops/table/table.h"

#include <algorithm>
#include <cmath>

namespace tsc::ops {
namespace {

using Sizes = std::vector<Expr>;

/// floor(size * factor), as PyTorch computes it in f64: of a symbol for factors with which that is
/// exact, the sums of few powers of 2.
Expr scaled_size(const Call &call, Expr size, double factor) {
  if (size.is_integer())
    return static_cast<int64_t>(std::floor(static_cast<double>(size.value()) * factor));
  constexpr int64_t kMostDenominator = int64_t{1} << 20;
  constexpr double kMostNumerator = 1 << 20;
  for (int64_t denominator = 1; denominator <= kMostDenominator; denominator *= 2) {
    const double numerator = factor * static_cast<double>(denominator);
    if (numerator > 0 && numerator <= kMostNumerator && numerator == std::floor(numerator))
      return symbolic::simplify(
          symbolic::floor_div(size * Expr(static_cast<int64_t>(numerator)), Expr(denominator)),
          call.ranges());
  }
  call.refuse("TSC-O016",
              call.node().target + ": a dimension of size '" + symbolic::print(size) +
                  "' by the factor " + std::to_string(factor) + ", a number is needed",
              "give an output_size, or a factor that is a sum of few powers of 2");
}

/// The spatial dimensions, behind batch and channels.
std::vector<Axis> axes_of(const Call &call, std::string_view input, size_t count) {
  const TensorMeta &meta = call.tensor(input);
  if (meta.layout.rank() != count + 2)
    call.fail("TSC-O097",
              call.node().target + " of a tensor of " + std::to_string(meta.layout.rank()) +
                  " dimensions",
              "pass [batch, channels] and " + std::to_string(count) + " spatial dimensions");
  std::vector<std::optional<double>> factors = factors_of(call, count);
  Sizes sizes;
  if (call.has("output_size"))
    sizes = call.sizes("output_size");
  std::vector<Axis> axes;
  const auto none = [](Expr size) { return size.is_integer() && size.value() < 1; };
  for (size_t i = 0; i < count; ++i) {
    Axis axis;
    axis.dim = i + 2;
    axis.from = meta.layout.sizes[axis.dim];
    axis.factor = factors[i];
    if (i < sizes.size())
      axis.to = sizes[i];
    else if (axis.factor)
      axis.to = scaled_size(call, axis.from, *axis.factor);
    if (axis.factor && std::isinf(*axis.factor))
      call.fail("TSC-O097", call.node().target + " by an infinite factor",
                "give a finite scale factor");
    if (none(axis.to) || none(axis.from))
      call.fail("TSC-O097",
                call.node().target + " from " + symbolic::print(axis.from) + " to " +
                    symbolic::print(axis.to) + " elements",
                "give an output_size, or a scale factor, that leaves an element");
    axes.push_back(axis);
  }
  return axes;
}

Argument positions(GraphBuilder &builder, Expr count, tensor::Device device) {
  return builder.call("prims.iota.default", {size_argument(count)},
                      {{"start", 0},
                       {"step", 1},
                       {"dtype", DType::i64},
                       {"device", device},
                       {"requires_grad", false}});
}

/// numerator / denominator, a tensor of rank 0 where one of them is a symbol. A denominator of 0
/// counts as 1.
Argument ratio(GraphBuilder &builder, Expr numerator, Expr denominator, DType dtype,
               tensor::Device device) {
  if (numerator.is_integer() && denominator.is_integer()) {
    const double quotient = static_cast<double>(numerator.value()) /
                            static_cast<double>(std::max<int64_t>(denominator.value(), 1));
    return dtype == DType::f32 ? static_cast<double>(static_cast<float>(quotient)) : quotient;
  }
  const auto number = [&](Expr value) {
    return builder.call("aten.full.default", {Arguments{}, size_argument(value)},
                        {{"dtype", dtype}, {"device", device}});
  };
  return builder.call(kDiv, {number(numerator), number(symbolic::maximum(Expr(1), denominator))});
}

/// How many elements of the input one of the output covers.
Argument step_of(GraphBuilder &builder, const Axis &axis, bool align_corners, DType dtype,
                 tensor::Device device) {
  if (align_corners)
    return ratio(builder, // 0 where there is one element
                 (axis.from - Expr(1)) * symbolic::minimum(Expr(1), axis.to - Expr(1)),
                 axis.to - Expr(1), dtype, device);
  if (!axis.factor || !(*axis.factor > 0))
    return ratio(builder, axis.from, axis.to, dtype, device);
  const double step = 1.0 / *axis.factor;
  return dtype == DType::f32 ? static_cast<double>(static_cast<float>(step)) : step;
}

/// Where PyTorch's kernel takes element `at` from: in f32, as it computes.
int64_t nearest_source(const Axis &axis, bool exact, int64_t at) {
  float scale = axis.factor && *axis.factor > 0
                    ? static_cast<float>(1.0 / *axis.factor)
                    : static_cast<float>(axis.from.value()) / static_cast<float>(axis.to.value());
  float position = static_cast<float>(at) + (exact ? 0.5F : 0.0F);
  return std::min(static_cast<int64_t>(std::floor(position * scale)), axis.from.value() - 1);
}

/// floor((a * at + b) / c), the exact form of the source position.
struct WholeRule {
  int64_t a, b, c;
};

/// Positions as whole numbers where they are those of PyTorch, which rounds to f32.
std::optional<WholeRule> whole_rule(const Axis &axis, bool exact) {
  if (!axis.is_static())
    return std::nullopt;
  WholeRule rule{axis.from.value(), 0, axis.to.value()};
  if (axis.factor && *axis.factor > 0 && *axis.factor == std::floor(*axis.factor))
    rule = {1, 0, static_cast<int64_t>(*axis.factor)};
  if (exact)
    rule = {2 * rule.a, rule.a, 2 * rule.c};
  for (int64_t at = 0; at < axis.to.value(); ++at)
    if (std::min((rule.a * at + rule.b) / rule.c, axis.from.value() - 1) !=
        nearest_source(axis, exact, at))
      return std::nullopt;
  return rule;
}

/// Each element of `dim` so many times in a row.
Argument repeated(GraphBuilder &builder, const Argument &x, const Axis &axis, int64_t times) {
  Sizes apart = builder.meta(x).layout.sizes, merged = apart;
  apart.insert(apart.begin() + static_cast<ptrdiff_t>(axis.dim) + 1, Expr(times));
  merged[axis.dim] = axis.to;
  Argument column = builder.call("aten.unsqueeze.default", {x, static_cast<int64_t>(axis.dim) + 1});
  Argument expanded = builder.call("aten.expand.default", {column, sizes_argument(apart)});
  return builder.call("aten.reshape.default", {expanded, sizes_argument(merged)});
}

Argument along(GraphBuilder &builder, const Argument &x, const Axis &axis,
               const Argument &indices) {
  return builder.call("aten.index_select.default", {x, static_cast<int64_t>(axis.dim), indices});
}

Argument nearest(GraphBuilder &builder, const Argument &input, const std::vector<Axis> &axes,
                 bool exact) {
  Argument x = input;
  tensor::Device device = builder.meta(input).device;
  for (const Axis &axis : axes)
    if (const std::optional<int64_t> times = repetitions(axis, exact))
      x = *times == 1 ? x : repeated(builder, x, axis, *times);
    else
      x = along(builder, x, axis, nearest_positions(builder, axis, exact, device));
  return x == input ? builder.call("aten.clone.default", {x}) : x;
}

/// Positions in the input, in f32; linear interpolation does not go below 0.
Argument source_positions(GraphBuilder &builder, const Axis &axis, bool align_corners, bool clamp,
                          DType dtype, tensor::Device device) {
  Argument at = convert(builder, positions(builder, axis.to, device), dtype);
  const Argument step = step_of(builder, axis, align_corners, dtype, device);
  if (align_corners)
    return builder.call(kMul, {at, step});
  Argument centre = builder.call(kAdd, {at, 0.5});
  // Rounded once, as PyTorch's kernels are compiled on every processor.
  const auto number = [&](const Argument &value) {
    return builder.call("aten.full.default", {Arguments{}, value},
                        {{"dtype", dtype}, {"device", device}});
  };
  const bool is_number = step.node() == nullptr;
  Argument source =
      builder.call("prims.fma.default", {centre, is_number ? number(step) : step, number(-0.5)});
  return clamp ? builder.call("aten.maximum.default", {source, 0.0}) : source;
}

/// A vector along dimension `dim` of `rank` so that it broadcasts.
Argument along_dimension(GraphBuilder &builder, Argument vector, size_t dim, size_t rank) {
  for (size_t i = dim + 1; i < rank; ++i)
    vector = builder.call("aten.unsqueeze.default", {vector, -1});
  return vector;
}

/// Where sizes turn out equal every element is its own, as in compute_source_index_and_lambda of
/// ATen's UpSample.h: the factor does not count, and no neighbour (a NaN, say) is looked at.
std::vector<Tap> linear_taps(GraphBuilder &builder, const TensorMeta &meta, const Axis &axis,
                             bool align_corners) {
  const Expr resized = is_resized(builder, axis);
  Argument source = source_positions(builder, axis, align_corners, true, meta.dtype, meta.device);
  if (!resized.is_integer() && axis.factor) {
    Argument own = convert(builder, positions(builder, axis.to, meta.device), meta.dtype);
    Argument apart = builder.call(kSub, {source, own});
    source = builder.call(kAdd, {own, builder.call(kMul, {apart, size_argument(resized)})});
  }
  Argument first = convert(builder, source, DType::i64); // 0 or more: truncation is floor
  first = builder.call("aten.minimum.default", {first, size_argument(axis.from - Expr(1))});
  Argument second = builder.call(kAdd, {first, size_argument(resized)});
  second = builder.call("aten.minimum.default", {second, size_argument(axis.from - Expr(1))});
  Argument weight = builder.call(kSub, {source, first});
  weight = along_dimension(builder, weight, axis.dim, meta.layout.rank());
  Argument rest = builder.call(kSub, {1.0, weight});
  return {{first, rest}, {second, weight}};
}

/// The cubic convolution kernel with a = -0.75: |t| <= 1, or between 1 and 2.
Argument cubic_near(GraphBuilder &builder, const Argument &t, double a) {
  Argument scaled = builder.call(kMul, {t, a + 2});
  Argument shifted = builder.call(kSub, {scaled, a + 3});
  Argument square = builder.call(kMul, {t, t});
  Argument product = builder.call(kMul, {shifted, square});
  return builder.call(kAdd, {product, 1.0});
}
Argument cubic_far(GraphBuilder &builder, const Argument &t, double a) {
  Argument scaled = builder.call(kMul, {t, a});
  Argument inner = builder.call(kSub, {scaled, 5 * a});
  Argument product = builder.call(kMul, {inner, t});
  Argument shifted = builder.call(kAdd, {product, 8 * a});
  Argument outer = builder.call(kMul, {shifted, t});
  return builder.call(kSub, {outer, 4 * a});
}

std::vector<Tap> cubic_taps(GraphBuilder &builder, const TensorMeta &meta, const Axis &axis,
                            bool align_corners) {
  Argument source = source_positions(builder, axis, align_corners, false, meta.dtype, meta.device);
  Argument base = builder.call("aten.floor.default", {source});
  Argument t = builder.call(kSub, {source, base});
  Argument start = convert(builder, base, DType::i64);
  const std::vector<Argument> weights = cubic_weights(builder, t);
  std::vector<Tap> taps;
  for (int64_t i = 0; i < 4; ++i) {
    Argument at = builder.call(kAdd, {start, i - 1});
    at = builder.call("aten.maximum.default", {at, 0});
    at = builder.call("aten.minimum.default", {at, size_argument(axis.from - Expr(1))});
    taps.push_back({at, along_dimension(builder, weights[static_cast<size_t>(i)], axis.dim,
                                        meta.layout.rank())});
  }
  return taps;
}

/// Of two dimensions PyTorch interpolates uint8 as well (resample_bytes).
DType floating_dtype(const Call &call, std::string_view input) {
  const DType dtype = call.tensor(input).dtype;
  if (!tensor::is_floating(dtype))
    call.fail("TSC-O036", call.node().target + " of " + std::string(tensor::torch_name(dtype)),
              "convert to a floating dtype first");
  return dtype;
}

Argument resample(GraphBuilder &builder, const Call &call, Method method, size_t dims) {
  std::string_view input = call.schema().parameters[0].name;
  std::vector<Axis> axes = axes_of(call, input, dims);
  if (method == Method::nearest || method == Method::nearest_exact)
    return nearest(builder, call[input], axes, method == Method::nearest_exact);
  if (dims == 2 && call.tensor(input).dtype == DType::u8)
    return resample_bytes(builder, call, call[input], axes, method == Method::cubic, false);
  DType dtype = floating_dtype(call, input);
  bool align_corners = call.boolean("align_corners");
  Argument x = widen(builder, call[input]);
  for (const Axis &axis : axes) {
    // Linear: every position is its own. Cubic: weights of 0 meet the neighbours all the same.
    if (method == Method::linear && is_resized(builder, axis).is_integer(0))
      continue;
    Argument total;
    for (const Tap &tap :
         interpolation_taps(builder, builder.meta(x), axis, method, align_corners)) {
      Argument term = builder.call(kMul, {along(builder, x, axis, tap.positions), tap.weights});
      total = total.is_none() ? term : builder.call(kAdd, {total, term});
    }
    x = total;
  }
  Argument result = convert(builder, x, dtype);
  return result == call[input] ? builder.call("aten.clone.default", {result}) : result;
}

/// The last dimension first, by windows; where a size is a symbol, both as matrix products with the
/// filter's weights.
Argument antialiased(GraphBuilder &builder, const Call &call, bool cubic) {
  std::string_view input = call.schema().parameters[0].name;
  std::vector<Axis> axes = axes_of(call, input, 2);
  if (call.tensor(input).dtype == DType::u8)
    return resample_bytes(builder, call, call[input], axes, cubic, true);
  DType dtype = floating_dtype(call, input);
  bool align_corners = call.boolean("align_corners");
  tensor::Device device = call.tensor(input).device;
  Argument x = widen(builder, call[input]);
  DType wide = builder.meta(x).dtype;
  if (axes[0].is_static() && axes[1].is_static()) {
    for (size_t i : {1, 0})
      x = antialiased_along(builder, x, axes[i], cubic, align_corners);
    return convert(builder, x, dtype);
  }
  Argument columns = antialiased_weights(builder, axes[1], align_corners, cubic, wide, device);
  Argument transposed = builder.call("aten.permute.default", {columns, Arguments{1, 0}});
  x = builder.call("aten.matmul.default", {x, transposed});
  Argument rows = antialiased_weights(builder, axes[0], align_corners, cubic, wide, device);
  return convert(builder, builder.call("aten.matmul.default", {rows, x}), dtype);
}

void add_form(Table &table, const std::string &name, size_t dims, bool corners,
              const Decomposition &decomposition) {
  std::string align = corners ? "bool align_corners, " : "";
  const std::string scales[] = {"float? scales=None", "float? scales_h=None, float? scales_w=None",
                                "float? scales_d=None, float? scales_h=None, float? scales_w=None"};
  table
      .add(keep_text(name + "(Tensor self, SymInt[" + std::to_string(dims) + "] output_size, " +
                     align + scales[dims - 1] + ") -> Tensor"))
      .decompose(in_format_of("self", decomposition));
  table
      .add(keep_text(name + ".vec(Tensor input, SymInt[]? output_size, " + align +
                     "float[]? scale_factors) -> Tensor"))
      .decompose(in_format_of("input", decomposition));
}

} // namespace

std::vector<std::optional<double>> factors_of(const Call &call, size_t count) {
  std::vector<std::optional<double>> factors(count);
  size_t next = 0;
  for (const Parameter &parameter : call.schema().parameters) {
    if (parameter.name.rfind("scales", 0) == 0 && next < count) {
      if (call.has(parameter.name))
        factors[next] = call.number(parameter.name);
      ++next;
    }
    if (parameter.name != "scale_factors" || !call.has("scale_factors"))
      continue;
    const Arguments *list = call["scale_factors"].list();
    for (size_t i = 0; list && i < list->size() && i < count; ++i) {
      const double *value = std::get_if<double>(&(*list)[i].value);
      const int64_t *integer = std::get_if<int64_t>(&(*list)[i].value);
      if (value || integer)
        factors[i] = value ? *value : static_cast<double>(*integer);
    }
  }
  return factors;
}

Argument nearest_positions(GraphBuilder &builder, const Axis &axis, bool exact,
                           tensor::Device device) {
  Argument at = positions(builder, axis.to, device);
  Argument source;
  if (std::optional<WholeRule> rule = whole_rule(axis, exact)) {
    Argument scaled = builder.call(kMul, {at, rule->a});
    if (rule->b != 0)
      scaled = builder.call(kAdd, {scaled, rule->b});
    source = builder.call("aten.div.Tensor_mode", {scaled, rule->c}, {{"rounding_mode", "floor"}});
  } else {
    Argument position = convert(builder, at, DType::f32);
    if (exact)
      position = builder.call(kAdd, {position, 0.5});
    Argument scaled =
        builder.call(kMul, {position, step_of(builder, axis, false, DType::f32, device)});
    source = convert(builder, builder.call("aten.floor.default", {scaled}), DType::i64);
  }
  return builder.call("aten.minimum.default", {source, size_argument(axis.from - Expr(1))});
}

std::optional<int64_t> repetitions(const Axis &axis, bool exact) {
  if (axis.from == axis.to && !axis.factor)
    return 1;
  if (!axis.is_static()) { // by powers of 2 its positions are exact
    for (int64_t times = 1; axis.factor && times <= *axis.factor; times *= 2)
      if (static_cast<double>(times) == *axis.factor && axis.to == axis.from * Expr(times))
        return times;
    return std::nullopt;
  }
  if (axis.to.value() % axis.from.value() != 0)
    return std::nullopt;
  const int64_t times = axis.to.value() / axis.from.value();
  for (int64_t at = 0; at < axis.to.value(); ++at)
    if (nearest_source(axis, exact, at) != at / times)
      return std::nullopt;
  return times;
}

Expr is_resized(const GraphBuilder &builder, const Axis &axis) {
  return symbolic::simplify(graph::unequal(axis.from, axis.to), builder.ranges());
}

std::vector<Argument> cubic_weights(GraphBuilder &builder, const Argument &t) {
  constexpr double kA = -0.75;
  const Argument rest = builder.call(kSub, {1.0, t});
  std::vector<Argument> weights;
  weights.push_back(cubic_far(builder, builder.call(kAdd, {t, 1.0}), kA));
  weights.push_back(cubic_near(builder, t, kA));
  weights.push_back(cubic_near(builder, rest, kA));
  weights.push_back(cubic_far(builder, builder.call(kAdd, {rest, 1.0}), kA));
  return weights;
}

std::vector<Tap> interpolation_taps(GraphBuilder &builder, const TensorMeta &meta, const Axis &axis,
                                    Method method, bool align_corners) {
  return method == Method::linear ? linear_taps(builder, meta, axis, align_corners)
                                  : cubic_taps(builder, meta, axis, align_corners);
}

Argument antialiased_weights(GraphBuilder &builder, const Axis &axis, bool align_corners,
                             bool cubic, DType dtype, tensor::Device device) {
  const Argument scale = step_of(builder, axis, align_corners, dtype, device);
  Argument at = convert(builder, positions(builder, axis.to, device), dtype);
  at = builder.call("aten.unsqueeze.default", {at, 1});
  Argument centre = builder.call(kMul, {builder.call(kAdd, {at, 0.5}), scale});
  Argument source = convert(builder, positions(builder, axis.from, device), dtype);
  Argument offset = builder.call(kSub, {builder.call(kAdd, {source, 0.5}), centre});
  Argument distance = builder.call("aten.abs.default", {offset});
  if (const double *number = std::get_if<double>(&scale.value); !number)
    distance = builder.call(kDiv, {distance, builder.call("aten.maximum.default", {scale, 1.0})});
  else if (*number > 1)
    distance = builder.call(kMul, {distance, 1.0 / *number});
  Argument weights;
  if (cubic) {
    constexpr double kA = -0.5;
    Argument near = builder.call("aten.lt.Tensor", {distance, 1.0});
    Argument within = builder.call("aten.lt.Tensor", {distance, 2.0});
    Argument close = cubic_near(builder, distance, kA);
    Argument far = cubic_far(builder, distance, kA);
    far = builder.call(kWhere, {within, far, 0.0});
    weights = builder.call(kWhere, {near, close, far});
  } else {
    Argument height = builder.call(kSub, {1.0, distance});
    weights = builder.call("aten.maximum.default", {height, 0.0});
  }
  Argument sums = builder.call("aten.sum.dim_IntList", {weights, Arguments{1}, true});
  return builder.call(kDiv, {weights, sums});
}

void add_resampling(Table &table) {
  auto add = [&](const std::string &name, size_t dims, Method method) {
    bool corners = method == Method::linear || method == Method::cubic;
    add_form(table, name, dims, corners, [method, dims](GraphBuilder &builder, const Call &call) {
      return resample(builder, call, method, dims);
    });
  };
  for (size_t dims : {1, 2, 3}) {
    std::string suffix = std::to_string(dims) + "d";
    add("upsample_nearest" + suffix, dims, Method::nearest);
    add("_upsample_nearest_exact" + suffix, dims, Method::nearest_exact);
  }
  add("upsample_linear1d", 1, Method::linear);
  add("upsample_bilinear2d", 2, Method::linear);
  add("upsample_trilinear3d", 3, Method::linear);
  add("upsample_bicubic2d", 2, Method::cubic);
  for (bool cubic : {false, true})
    add_form(table, cubic ? "_upsample_bicubic2d_aa" : "_upsample_bilinear2d_aa", 2, true,
             [cubic](GraphBuilder &builder, const Call &call) {
               return antialiased(builder, call, cubic);
             });
}

} // namespace tsc::ops
