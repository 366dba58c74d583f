// Backward forms of grid_sample: what was sampled gets its share of each sample, the grid how much
// a sample changes along each axis.
#include "ops/families/grid_sampling.h"
#include "ops/families/resampling.h"
#include "ops/table/memory_format.h"
#include "ops/table/shape_rules.h"
#include "ops/table/table.h"
#include "ops/table/term.h"

namespace tsc::ops {
namespace {

using Sizes = std::vector<Expr>;

/// How fast the padded position moves with the coordinate: 0 where it is held at an edge, the other
/// way where it is mirrored.
Term speed(const Sampler &s, const Term &position, size_t axis) {
  const Expr size = s.size(axis), last = size - Expr(1);
  const Term half = filled(*s.builder, {}, size_argument(s.align_corners ? last : size),
                           position.meta().dtype, position.meta().device) /
                    2.0;
  if (s.padding == GridPadding::zeros)
    return half;
  Term held = position, direction = half;
  if (s.padding == GridPadding::reflection) {
    const double span = static_cast<double>(s.align_corners ? last.value() : size.value()),
                 low = s.align_corners ? 0.0 : -0.5;
    if (span == 0)
      return half * 0.0;
    const Term from_low = position - low;
    const Term turns = (abs(from_low) / span).then("aten.floor.default");
    const Term even = equal(turns.then("aten.remainder.Scalar", {2.0}), 0.0);
    const Term signed_speed = where(from_low < 0, -half, half);
    direction = where(even, signed_speed, -signed_speed);
    const Term rest = abs(from_low) - turns * span;
    held = where(even, rest + low, (low + span) - rest);
  }
  return where(both(held > 0.0, held < size_argument(last)), direction, 0.0);
}

/// [batch, out..] over channels.
Term over_channels(const Term &x) { return x.then("aten.unsqueeze.default", {1}); }

/// How fast the weights of four taps grow with the fraction: the derivatives of cubic
/// convolution with a = -0.75 (Keys, 1981).
std::vector<Term> cubic_slopes(const Term &fraction) {
  constexpr double a = -0.75;
  const auto outer = [](const Term &distance) { // 1 to 2 elements away
    return (distance * (3 * a) - 10 * a) * distance + 8 * a;
  };
  const auto inner = [](const Term &distance) { // 0 to 1
    return (distance * (3 * (a + 2)) - 2 * (a + 3)) * distance;
  };
  return {outer(fraction + 1.0), inner(fraction), -inner(1.0 - fraction), -outer(2.0 - fraction)};
}

class Backward {
public:
  Backward(GraphBuilder &builder, const Call &call)
      : call_(call), sampler_(sampler_of(builder, call)),
        above_(wide(builder, call, "grad_output")) {
    if (call.integer("interpolation_mode") == 2)
      return; // its taps are padded one by one
    for (size_t axis = 0; axis < sampler_.dims; ++axis) {
      const Term at(builder, unnormalized(sampler_, coordinate_of(sampler_, call, axis), axis));
      positions_.push_back(padded_position(sampler_, at, axis));
      speeds_.push_back(speed(sampler_, at, axis));
    }
  }

  /// (of the input, of the grid), each None if it is not wanted.
  Arguments nearest(bool input) {
    GraphBuilder &builder = *sampler_.builder;
    for (Argument &position : positions_)
      position = builder.call("aten.round.default", {position});
    const TensorMeta &grid = call_.tensor("grid");
    return {input ? added(zeros(), pointed_at(sampler_, positions_), above_).as(dtype())
                  : Argument(),
            filled(builder, grid.layout.sizes, 0.0, grid.dtype, grid.device).value()};
  }

  Arguments linear(bool input) {
    std::optional<Term> total;
    if (input)
      total = zeros();
    std::vector<std::optional<Term>> moved(sampler_.dims);
    for (const Corner &corner : corners_of(sampler_, positions_)) {
      const Pointed at = pointed_at(sampler_, corner.positions);
      if (total)
        total = added(*total, at, above_ * over_channels(weight(corner, sampler_.dims)));
      const Term felt = felt_at(at);
      for (size_t axis = 0; axis < sampler_.dims; ++axis) {
        const Term share = sampler_.dims == 1 ? felt : felt * weight(corner, axis);
        const Term own = (corner.high >> axis) & 1 ? share : -share;
        moved[axis] = moved[axis] ? *moved[axis] + own : own;
      }
    }
    for (size_t axis = 0; axis < sampler_.dims; ++axis)
      moved[axis] = *moved[axis] * speeds_[axis];
    return {total ? total->as(dtype()) : Argument(), of_coordinates(moved)};
  }

  Arguments cubic(bool input) {
    GraphBuilder &builder = *sampler_.builder;
    const CubicTaps taps = cubic_taps_of(sampler_, call_);
    std::vector<std::vector<Term>> weights(sampler_.dims), slopes;
    for (size_t axis = 0; axis < sampler_.dims; ++axis) {
      for (const Argument &weight : cubic_weights(builder, taps.fractions[axis]))
        weights[axis].push_back({builder, weight});
      slopes.push_back(cubic_slopes({builder, taps.fractions[axis]}));
    }
    std::optional<Term> total;
    if (input)
      total = zeros();
    std::vector<std::optional<Term>> moved(sampler_.dims);
    for (size_t row = 0; row < 4; ++row)
      for (size_t column = 0; column < 4; ++column) {
        const Pointed at =
            pointed_at(sampler_, {taps.positions[0][row], taps.positions[1][column]});
        if (total)
          total = added(*total, at, above_ * over_channels(weights[0][row] * weights[1][column]));
        const Term felt = felt_at(at);
        const Term down = felt * (slopes[0][row] * weights[1][column]),
                   right = felt * (weights[0][row] * slopes[1][column]);
        moved[0] = moved[0] ? *moved[0] + down : down;
        moved[1] = moved[1] ? *moved[1] + right : right;
      }
    for (size_t axis = 0; axis < sampler_.dims; ++axis) {
      const Expr size = sampler_.size(axis);
      const Argument span = size_argument(sampler_.align_corners ? size - Expr(1) : size);
      moved[axis] =
          *moved[axis] *
          (filled(builder, {}, span, moved[axis]->meta().dtype, moved[axis]->meta().device) / 2.0);
    }
    return {total ? total->as(dtype()) : Argument(), of_coordinates(moved)};
  }

private:
  const Call &call_;
  Sampler sampler_;
  Term above_;
  std::vector<Argument> positions_;
  std::vector<Term> speeds_;

  DType dtype() const { return call_.tensor("input").dtype; }
  Term zeros() const {
    const TensorMeta input = sampler_.builder->meta(sampler_.input);
    return filled(*sampler_.builder, input.layout.sizes, 0.0, input.dtype, input.device);
  }
  /// What comes from above for an element, summed over channels; 0 outside.
  Term felt_at(const Pointed &at) const {
    GraphBuilder &builder = *sampler_.builder;
    const Term values(builder, builder.call("aten.index.Tensor", {sampler_.input, at.indices}));
    const Term inside = over_channels(Term(builder, inside_of(sampler_, at)));
    return sum(where(inside, values, 0.0) * above_, {1}, false);
  }
  /// The grid's gradient of what comes to positions, by axis: x, the last dimension, first.
  Argument of_coordinates(const std::vector<std::optional<Term>> &moved) const {
    Arguments coordinates;
    for (size_t axis = sampler_.dims; axis-- > 0;)
      coordinates.push_back(moved[axis]->as(call_.tensor("grid").dtype));
    return sampler_.builder->call("aten.stack.default", {coordinates, -1});
  }
  /// Nothing is added where the position is outside.
  Term added(const Term &total, const Pointed &at, const Term &values) const {
    const Term inside = over_channels(Term(*sampler_.builder, inside_of(sampler_, at)));
    return total.then("aten.index_put.default",
                      {at.indices, where(inside, values, 0.0).value(), true});
  }
  /// The corner's weight without what axis `left_out` weighs it by.
  Term weight(const Corner &corner, size_t left_out) const {
    std::optional<Term> product;
    for (size_t axis = 0; axis < sampler_.dims; ++axis)
      if (axis != left_out)
        product = product ? *product * corner.weights[axis]
                          : Term(*sampler_.builder, corner.weights[axis]);
    return *product;
  }
};

Argument of_grid_sample(GraphBuilder &builder, const Call &call) {
  const Arguments *mask = call["output_mask"].list();
  const bool input = mask && !mask->empty() && mask->front() == Argument(true);
  Backward backward(builder, call);
  const int64_t mode = call.integer("interpolation_mode");
  return mode == 1   ? backward.nearest(input)
         : mode == 2 ? backward.cubic(input)
                     : backward.linear(input);
}

} // namespace

void add_grid_sampling_gradients(Table &table) {
  for (const std::string_view dims : {"2", "3"})
    table
        .add(keep_text("grid_sampler_" + std::string(dims) +
                       "d_backward(Tensor grad_output, Tensor input, Tensor grid, int "
                       "interpolation_mode, int padding_mode, bool align_corners, bool[2] "
                       "output_mask) -> (Tensor, Tensor)"))
        .decompose(of_grid_sample);
  table
      .add("cudnn_grid_sampler_backward(Tensor self, Tensor grid, Tensor grad_output) -> (Tensor "
           "grad_self, Tensor grad_grid)")
      .decompose([](GraphBuilder &builder, const Call &call) {
        return builder.call(
            "aten.grid_sampler_2d_backward.default",
            {call["grad_output"], call["self"], call["grid"], 0, 0, true, Arguments{true, true}});
      });
}

} // namespace tsc::ops
