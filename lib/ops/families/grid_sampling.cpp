// grid_sample and affine_grid: values at real-valued positions, as weighted sums of gathers.
#include "ops/families/grid_sampling.h"

#include "ops/families/resampling.h"
#include "ops/table/memory_format.h"
#include "ops/table/pointwise_rules.h"
#include "ops/table/precision.h"
#include "ops/table/shape_rules.h"
#include "ops/table/table.h"

namespace tsc::ops {
namespace {

using Sizes = std::vector<Expr>;

/// A position that is no number is the first one's.
Argument clamped(const Sampler &s, const Argument &position, size_t axis) {
  Argument raised = s.call("aten.fmax.default", {position, 0.0});
  return s.call("aten.fmin.default", {raised, size_argument(s.size(axis) - Expr(1))});
}

/// Mirrors at the first and last centre, or at the outer edges, as often as needed.
Argument reflected(const Sampler &s, const Argument &position, size_t axis) {
  double size = static_cast<double>(s.size(axis).value());
  double low = s.align_corners ? 0.0 : -0.5, span = s.align_corners ? size - 1 : size;
  if (span == 0)
    return s.call(kMul, {position, 0.0});
  Argument distance = s.call("aten.abs.default", {s.call(kSub, {position, low})});
  Argument turns = s.call("aten.floor.default", {s.call(kDiv, {distance, span})});
  Argument rest = s.call(kSub, {distance, s.call(kMul, {turns, span})});
  Argument half_turns = s.call(kMul, {turns, 0.5});
  Argument whole = s.call("aten.floor.default", {half_turns});
  Argument even = s.call("aten.eq.Tensor", {half_turns, whole});
  Argument forward = s.call(kAdd, {rest, low});
  Argument backward = s.call(kSub, {low + span, rest});
  return s.call(kWhere, {even, forward, backward});
}

/// input[n, :, indices..] for whole numbers in floating tensors [n, out..], times `weight`
/// [n, out..] if there is one: [n, channels, out..]; 0 outside of the input. Weights are NaN where
/// positions are not finite: PyTorch looks at them in 2 dimensions, not in 3.
Argument gathered(const Sampler &s, const std::vector<Argument> &positions,
                  const Argument &weight = {}) {
  const Pointed at = pointed_at(s, positions);
  Argument values = s.call("aten.index.Tensor", {s.input, at.indices});
  const auto kept_inside = [&](const Argument &x) {
    Argument kept = x; // axis by axis, which takes less of each element than their conjunction
    for (const Argument &within : at.within)
      kept = s.call(kWhere, {s.call("aten.unsqueeze.default", {within, 1}), kept, 0.0});
    return kept;
  };
  if (weight.is_none())
    return kept_inside(values);
  const Argument weights = s.call("aten.unsqueeze.default", {weight, 1});
  return s.dims == 3 ? kept_inside(s.call(kMul, {values, weights}))
                     : s.call(kMul, {kept_inside(values), weights});
}

Argument linear(const Sampler &s, const std::vector<Argument> &positions) {
  Argument total;
  for (const Corner &corner : corners_of(s, positions)) {
    Argument weight = corner.weights[0];
    for (size_t axis = 1; axis < s.dims; ++axis)
      weight = s.call(kMul, {weight, corner.weights[axis]});
    Argument term = gathered(s, corner.positions, weight);
    total = total.is_none() ? term : s.call(kAdd, {total, term});
  }
  return total;
}

/// The sixteen elements around a position, by rows first; each is padded by itself.
Argument cubic(const Sampler &s, const Call &call) {
  const CubicTaps taps = cubic_taps_of(s, call);
  const std::vector<std::vector<Argument>> &positions = taps.positions;
  std::vector<std::vector<Argument>> weights; // by axis, four each
  for (const Argument &fraction : taps.fractions)
    weights.push_back(cubic_weights(*s.builder, fraction));
  const auto weighed = [&](const Argument &values, size_t axis, size_t i) {
    return s.call(kMul, {values, s.call("aten.unsqueeze.default", {weights[axis][i], 1})});
  };
  Argument total;
  for (size_t row = 0; row < 4; ++row) {
    Argument sum;
    for (size_t column = 0; column < 4; ++column) {
      const Argument term =
          weighed(gathered(s, {positions[0][row], positions[1][column]}), 1, column);
      sum = column == 0 ? term : s.call(kAdd, {sum, term});
    }
    sum = weighed(sum, 0, row);
    total = row == 0 ? sum : s.call(kAdd, {total, sum});
  }
  return total;
}

/// Interpolation modes are 0 linear, 1 nearest, 2 cubic; the grid holds x first.
Argument grid_sample(GraphBuilder &builder, const Call &call) {
  const Sampler sampler = sampler_of(builder, call);
  if (call.integer("interpolation_mode") == 2)
    return convert(builder, cubic(sampler, call), call.tensor("input").dtype);
  std::vector<Argument> positions;
  for (size_t axis = 0; axis < sampler.dims; ++axis) {
    const Argument coordinate = coordinate_of(sampler, call, axis);
    const Argument position = unnormalized(sampler, coordinate, axis);
    positions.push_back(padded_position(sampler, position, axis));
  }
  const bool nearest = call.integer("interpolation_mode") == 1;
  if (nearest)
    for (Argument &position : positions)
      position = builder.call("aten.round.default", {position});
  Argument result = nearest ? gathered(sampler, positions) : linear(sampler, positions);
  return convert(builder, result, call.tensor("input").dtype);
}

/// size positions from -1 to 1, at the corners or at the centres of elements.
Argument base_positions(GraphBuilder &builder, Expr size, bool align_corners, DType dtype,
                        tensor::Device device) {
  Argument at = builder.call("aten.arange.default", {size_argument(size)},
                             {{"dtype", DType::i64}, {"device", device}});
  Argument position = convert(builder, at, dtype);
  if (size.is_integer(1))
    return builder.call(kMul, {position, 0.0});
  Argument doubled = builder.call(kMul, {position, 2.0});
  if (align_corners) {
    Argument share = builder.call(kDiv, {doubled, size_argument(size - Expr(1))});
    return builder.call(kSub, {share, 1.0});
  }
  Argument centred = builder.call(kAdd, {doubled, 1.0});
  Argument share = builder.call(kDiv, {centred, size_argument(size)});
  return builder.call(kSub, {share, 1.0});
}

/// theta [n, d, d + 1] times the homogeneous positions of every element: [n, spatial.., d].
Argument affine_grid(GraphBuilder &builder, const Call &call) {
  const TensorMeta theta = call.tensor("theta");
  Sizes size = call.sizes("size");
  size_t dims = size.size() < 2 ? 0 : size.size() - 2;
  if (dims != 2 && dims != 3)
    call.fail("TSC-O098",
              call.node().target + ": size " + print_sizes(size) + " has not 4 or 5 dimensions",
              "pass the size of the sampled tensor");
  DType wide = accumulation_dtype(theta.dtype);
  Sizes spatial(size.begin() + 2, size.end()), column = spatial;
  column.push_back(Expr(1));
  Arguments columns;
  for (size_t i = 0; i < dims; ++i) { // x, the last dimension, first
    size_t axis = dims - 1 - i;
    Argument values =
        base_positions(builder, spatial[axis], call.boolean("align_corners"), wide, theta.device);
    for (size_t later = axis + 1; later <= dims; ++later)
      values = builder.call("aten.unsqueeze.default", {values, -1});
    columns.push_back(builder.call("aten.expand.default", {values, sizes_argument(column)}));
  }
  columns.push_back(builder.call("aten.full.default", {sizes_argument(column), 1.0},
                                 {{"dtype", wide}, {"device", theta.device}}));
  Argument base = builder.call("aten.cat.default", {columns, -1});
  Argument rows =
      builder.call("aten.reshape.default", {base, Arguments{-1, static_cast<int64_t>(dims) + 1}});
  Argument transposed =
      builder.call("aten.permute.default", {widen(builder, call["theta"]), Arguments{0, 2, 1}});
  Argument product = builder.call("aten.matmul.default", {rows, transposed});
  Sizes result = spatial;
  result.insert(result.begin(), size[0]);
  result.push_back(Expr(static_cast<int64_t>(dims)));
  Argument shaped = builder.call("aten.reshape.default", {product, sizes_argument(result)});
  return convert(builder, shaped, theta.dtype);
}

} // namespace

Argument unnormalized(const Sampler &s, const Argument &coordinate, size_t axis) {
  Argument shifted = s.call(kAdd, {coordinate, 1.0});
  Argument size = size_argument(s.size(axis));
  if (s.align_corners) {
    Argument scaled = s.call(kMul, {shifted, size_argument(s.size(axis) - Expr(1))});
    return s.call(kDiv, {scaled, 2.0});
  }
  Argument scaled = s.call(kMul, {shifted, size});
  return s.call(kDiv, {s.call(kSub, {scaled, 1.0}), 2.0});
}

Argument padded_position(const Sampler &s, const Argument &position, size_t axis) {
  if (s.padding == GridPadding::border)
    return clamped(s, position, axis);
  if (s.padding == GridPadding::reflection)
    return clamped(s, reflected(s, position, axis), axis);
  return position;
}

Pointed pointed_at(const Sampler &s, const std::vector<Argument> &positions) {
  GraphBuilder &builder = *s.builder;
  TensorMeta input = builder.meta(s.input);
  Pointed result;
  size_t rank = s.dims + 2;
  auto counting = [&](Expr size, size_t dim) {
    Argument range = builder.call("aten.arange.default", {size_argument(size)},
                                  {{"dtype", DType::i64}, {"device", input.device}});
    for (size_t i = dim + 1; i < rank; ++i)
      range = s.call("aten.unsqueeze.default", {range, -1});
    return range;
  };
  result.indices.push_back(counting(input.layout.sizes[0], 0));
  result.indices.push_back(counting(input.layout.sizes[1], 1));
  for (size_t axis = 0; axis < s.dims; ++axis) {
    Argument last = size_argument(s.size(axis) - Expr(1));
    Argument above = s.call("aten.ge.Tensor", {positions[axis], 0});
    Argument below = s.call("aten.le.Tensor", {positions[axis], last});
    Argument within = s.call("aten.logical_and.default", {above, below});
    result.within.push_back(within);
    // Bounded before the conversion, so that it is defined for every position, NaN included.
    Argument bounded = s.call(kWhere, {within, positions[axis], 0.0});
    Argument index = convert(builder, bounded, DType::i64);
    result.indices.push_back(s.call("aten.unsqueeze.default", {index, 1}));
  }
  return result;
}

Argument inside_of(const Sampler &s, const Pointed &at) {
  Argument inside = at.within[0];
  for (size_t axis = 1; axis < at.within.size(); ++axis)
    inside = s.call("aten.logical_and.default", {inside, at.within[axis]});
  return inside;
}

std::vector<Corner> corners_of(const Sampler &s, const std::vector<Argument> &positions) {
  std::vector<Argument> low, weight_high, weight_low;
  for (const Argument &position : positions) {
    low.push_back(s.call("aten.floor.default", {position}));
    weight_high.push_back(s.call(kSub, {position, low.back()}));
    weight_low.push_back(s.call(kSub, {1.0, weight_high.back()}));
  }
  std::vector<Corner> corners;
  for (size_t high = 0; high < (size_t{1} << s.dims); ++high) {
    Corner corner;
    corner.high = high;
    for (size_t axis = 0; axis < s.dims; ++axis) {
      const bool above = (high >> axis) & 1;
      corner.positions.push_back(above ? s.call(kAdd, {low[axis], 1.0}) : low[axis]);
      corner.weights.push_back(above ? weight_high[axis] : weight_low[axis]);
    }
    corners.push_back(std::move(corner));
  }
  return corners;
}

CubicTaps cubic_taps_of(const Sampler &s, const Call &call) {
  CubicTaps taps;
  for (size_t axis = 0; axis < s.dims; ++axis) {
    const Argument position = unnormalized(s, coordinate_of(s, call, axis), axis);
    const Argument base = s.call("aten.floor.default", {position});
    taps.fractions.push_back(s.call(kSub, {position, base}));
    std::vector<Argument> &four = taps.positions.emplace_back();
    for (int64_t i = -1; i <= 2; ++i)
      four.push_back(padded_position(s, i == 0 ? base : s.call(kAdd, {base, i}), axis));
  }
  return taps;
}

Sampler sampler_of(GraphBuilder &builder, const Call &call) {
  const TensorMeta input = call.tensor("input"), grid = call.tensor("grid");
  size_t rank = input.layout.rank();
  if ((rank != 4 && rank != 5) || grid.layout.rank() != rank)
    call.fail("TSC-O098",
              call.node().target + ": input " + print_sizes(input.layout.sizes) + ", grid " +
                  print_sizes(grid.layout.sizes),
              "pass [batch, channels, height, width] and [batch, rows, columns, 2]");
  int64_t mode = call.integer("interpolation_mode"), padding = call.integer("padding_mode");
  if (mode == 2 && rank == 5)
    call.fail("TSC-O098", call.node().target + ": bicubic interpolation of a volume",
              "use mode 'bilinear' or 'nearest'");
  if (mode < 0 || mode > 2)
    call.fail("TSC-O098",
              call.node().target + ": interpolation mode " + std::to_string(mode) + " is none",
              "pass 0 (bilinear), 1 (nearest) or 2 (bicubic)");
  Sampler sampler{&builder, widen(builder, call["input"]), rank - 2,
                  static_cast<GridPadding>(padding), call.boolean("align_corners")};
  if (sampler.padding == GridPadding::reflection)
    for (size_t axis = 0; axis < sampler.dims; ++axis)
      if (!sampler.size(axis).is_integer())
        call.refuse("TSC-O016",
                    call.node().target + ": the size of dimension " + std::to_string(axis + 2) +
                        " is '" + symbolic::print(sampler.size(axis)) + "', a number is needed",
                    "make this value static when exporting");
  return sampler;
}

Argument coordinate_of(const Sampler &s, const Call &call, size_t axis) {
  return s.call("aten.select.int",
                {widen(*s.builder, call["grid"]), -1, static_cast<int64_t>(s.dims - 1 - axis)});
}

void add_grid_sampling(Table &table) {
  for (std::string_view name : {"grid_sampler", "grid_sampler_2d", "grid_sampler_3d"})
    table
        .add(keep_text(std::string(name) + "(Tensor input, Tensor grid, int interpolation_mode, "
                                           "int padding_mode, bool align_corners) -> Tensor"))
        .decompose(contiguously(grid_sample));
  // What tracing on a GPU makes of samples that cuDNN has a kernel for.
  table.add("cudnn_grid_sampler(Tensor self, Tensor grid) -> Tensor output")
      .decompose([](GraphBuilder &builder, const Call &call) {
        return builder.call("aten.grid_sampler_2d.default",
                            {call["self"], call["grid"], 0, 0, true});
      });
  table.add("affine_grid_generator(Tensor theta, SymInt[] size, bool align_corners) -> Tensor")
      .decompose(affine_grid);
}

} // namespace tsc::ops
