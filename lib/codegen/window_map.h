// Windows of an input that a product reads as its left operand, as bulk copies bring them.
#pragma once

#include "codegen/kernel_graph.h"
#include "program/program.h"

#include <optional>

namespace tsc::codegen {

/// What a product's kernel is told of windows, dimensions from the innermost one on.
struct WindowMap {
  program::TensorMap map; // but for the parameter
  int64_t channels = 0;
  std::vector<Expr> positions;
  std::vector<int64_t> kernel, stride, padding, dilation;
  /// Of a line, each brought by a copy of its own; 0: no copies bring taps, but boxes of what they
  /// slide over (channels a multiple of 16 bytes).
  int parts = 1;
};

/// Groups of a convolution's channels, each a product's: the next one's begin `step` elements of
/// memory further. One product has all channels. A copy brings those of `together` groups.
struct GroupsOfChannels {
  int64_t count = 1, step = 0;
  int together = 1;
};

/// The map by which a copy brings `rows` positions of one tap. `graph` computes the operand over
/// `row` and `term`, terms in the order of taps and then channels, `load` being what it copies from
/// memory. Nothing where instructions do not reach: channels that are no whole lines of 128 bytes,
/// nor of halves or quarters of one (tc_parts_of_line),
/// steps above 8, taps or borders beyond their few bits (PTX ISA, im2col; CUDA driver API,
/// cuTensorMapEncodeIm2col). `hint` says what the windows were meant to be; strides follow from the
/// load's index, and both are held against `graph` at many rows and terms: where it does not do
/// just that, there is nothing. Sizes that are known at run time only: what is slid over lies with
/// its channels innermost, without gaps, which is seen at two examples. Of several groups `graph`
/// computes the first one's operand; a copy begins at the channels of the group that it is for.
std::optional<WindowMap> window_map(const ir::Windows &noted, const GroupsOfChannels &groups,
                                    const KernelGraph &graph, ValueId load, ir::DType dtype,
                                    Expr row, Expr term, int rows);

} // namespace tsc::codegen
