// Whether convolutions compute with channels innermost, for whole sets of them at a time: what lies
// between two convolutions would else be turned.
#pragma once

#include "graph/graph.h"

#include <string>
#include <vector>

namespace tsc::ops {

struct ConvolutionLayouts {
  std::vector<bool> inside;         // by NodeId: a convolution of f32 that does
  std::vector<bool> outside;        // by NodeId: one of 16-bit floats that does not
  std::vector<std::string> choices; // a sentence for each set, with the bytes that decided
};
/// For sizes known when compiling, and a target whose product kernel reads windows where they come
/// from. Convolutions of two and three dimensions whose values reach one another through tensors of
/// as many dimensions or more are a set, one of one dimension is a set for itself; it computes with
/// channels innermost where the columns that nobody writes then, and the passes that add a bias to
/// their products or join parts, are more bytes than the turns of its inputs and outputs. Those of
/// 16-bit floats always do, but for sets that are nothing but products (one tap at every position)
/// of values that come and are asked for with channels outermost: a product an image then, unless
/// the tiles of its matrices are so empty that this takes longer than turning; and for such sets of
/// sums in groups of a few outputs. Before: decomposed but for convolutions.
ConvolutionLayouts choose_convolution_layouts(const graph::Graph &graph);

} // namespace tsc::ops
