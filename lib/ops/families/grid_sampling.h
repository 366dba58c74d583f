// What sampling at real-valued positions shares with its backward forms.
#pragma once

#include "ops/table/builder.h"

namespace tsc::ops {

enum class GridPadding : uint8_t { zeros, border, reflection };

/// One call of grid_sampler: the tensor that is sampled and how its positions are meant.
struct Sampler {
  GraphBuilder *builder;
  Argument input; // [batch, channels, spatial..], wide
  size_t dims;    // spatial
  GridPadding padding;
  bool align_corners;

  Argument call(std::string_view target, Arguments args) const {
    return builder->call(target, std::move(args));
  }
  Expr size(size_t axis) const { return builder->meta(input).layout.sizes[axis + 2]; }
};

/// The sampler of a call whose schema names input, grid, interpolation_mode, padding_mode and
/// align_corners. Throws TSC-O098 for sizes that do not fit, a mode that is none, and bicubic
/// sampling of a volume.
Sampler sampler_of(GraphBuilder &builder, const Call &call);
/// The grid's coordinate along `axis`, wide: [batch, out..] in [-1, 1] within the input.
Argument coordinate_of(const Sampler &sampler, const Call &call, size_t axis);
/// [-1, 1] to elements: the corners are centres of elements, or their outer edges.
Argument unnormalized(const Sampler &sampler, const Argument &coordinate, size_t axis);
/// The position kept within the input as the padding says.
Argument padded_position(const Sampler &sampler, const Argument &position, size_t axis);

/// Where whole numbers in floating tensors [batch, out..] point to: the indices of all dimensions
/// of the input (0 where outside), and whether they are inside along each axis [batch, out..].
struct Pointed {
  Arguments indices;
  std::vector<Argument> within;
};
Pointed pointed_at(const Sampler &sampler, const std::vector<Argument> &positions);
/// Whether they are inside along all axes.
Argument inside_of(const Sampler &sampler, const Pointed &at);

/// A corner of the cell that a position lies in: whole positions, and what each axis weighs it by.
struct Corner {
  std::vector<Argument> positions, weights; // by axis, [batch, out..]
  size_t high = 0;                          // bit i: the upper neighbour along axis i
};
std::vector<Corner> corners_of(const Sampler &sampler, const std::vector<Argument> &positions);

/// The four elements along each axis that cubic interpolation takes: positions, each padded by
/// itself, and how far behind the second one the sample lies, in [0, 1); all [batch, out..].
struct CubicTaps {
  std::vector<std::vector<Argument>> positions; // by axis, four each
  std::vector<Argument> fractions;              // by axis
};
CubicTaps cubic_taps_of(const Sampler &sampler, const Call &call);

} // namespace tsc::ops
