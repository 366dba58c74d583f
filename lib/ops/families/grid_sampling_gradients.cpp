// Backward forms of grid_sample: what was sampled gets its share of each sample, the grid how much
// a sample changes along each axis.
#include "ops/families/grid_sampling.h"
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

class Backward {
public:
  Backward(GraphBuilder &builder, const Call &call)
      : call_(call), sampler_(sampler_of(builder, call)),
        above_(wide(builder, call, "grad_output")) {
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
    GraphBuilder &builder = *sampler_.builder;
    std::optional<Term> total;
    if (input)
      total = zeros();
    std::vector<std::optional<Term>> moved(sampler_.dims);
    for (const Corner &corner : corners_of(sampler_, positions_)) {
      const Pointed at = pointed_at(sampler_, corner.positions);
      if (total)
        total = added(*total, at, above_ * over_channels(weight(corner, sampler_.dims)));
      const Term values(builder, builder.call("aten.index.Tensor", {sampler_.input, at.indices}));
      const Term inside = over_channels(Term(builder, at.inside));
      const Term felt = sum(where(inside, values, 0.0) * above_, {1}, false);
      for (size_t axis = 0; axis < sampler_.dims; ++axis) {
        const Term share = sampler_.dims == 1 ? felt : felt * weight(corner, axis);
        const Term own = (corner.high >> axis) & 1 ? share : -share;
        moved[axis] = moved[axis] ? *moved[axis] + own : own;
      }
    }
    Arguments coordinates; // x, the last dimension, first
    for (size_t axis = sampler_.dims; axis-- > 0;)
      coordinates.push_back((*moved[axis] * speeds_[axis]).as(call_.tensor("grid").dtype));
    return {total ? total->as(dtype()) : Argument(),
            builder.call("aten.stack.default", {coordinates, -1})};
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
  /// Nothing is added where the position is outside.
  Term added(const Term &total, const Pointed &at, const Term &values) const {
    const Term inside = over_channels(Term(*sampler_.builder, at.inside));
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
  return call.integer("interpolation_mode") == 1 ? backward.nearest(input) : backward.linear(input);
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
}

} // namespace tsc::ops
