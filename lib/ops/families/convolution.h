// Convolution, as both halves see it: shape rules, and the ways of computing it.
#pragma once

#include "ops/families/likely_size.h"
#include "ops/families/windows.h"

#include <optional>

namespace tsc::ops {

/// The arguments of one aten.convolution: input [N, C, sizes..], weight [O, C / groups, kernel..],
/// or [C, O / groups, kernel..] if transposed.
struct Convolution {
  TensorMeta input, weight;
  Window window;
  bool transposed = false;
  Expr groups;
  std::vector<Expr> positions; // spatial sizes of the result
  TensorMeta result;           // as PyTorch lays it out
  // Chosen for the graph (convolution_layouts.h): of f32 innermost, of 16-bit floats as they come.
  bool channels_inside = false, channels_outside = false;

  size_t rank() const { return window.rank(); }
  Expr batch() const { return input.layout.sizes[0]; }
  Expr channels() const { return input.layout.sizes[1]; }
  Expr outputs() const { return result.layout.sizes[1]; }
};

/// Checks the arguments against each other. Throws TSC-O048.
Convolution convolution_of(const Call &call);
/// `c` of as many samples as are likely.
Convolution of_likely_batch(Convolution c, const graph::Graph &graph);

/// What a convolution saves if its product reads windows, channels innermost, instead of columns.
struct ColumnsSaved {
  double bytes = 0;           // of columns, written and read
  double more_operations = 0; // of channels that are filled up, and of groups' empty columns
};
/// Nothing where it writes no columns, or would in any case.
std::optional<ColumnsSaved> columns_saved(const Convolution &c);

/// aten.convolution in terms of windows, matrix products and sums: the way without a library.
/// Where the channels of its values lie: as its dtype wants it, or as was chosen for the graph
/// (convolution_layouts.h).
enum class Channels : uint8_t { by_dtype, inside, outside };
Argument compute_convolution(GraphBuilder &builder, const Call &call, Channels channels);

} // namespace tsc::ops
