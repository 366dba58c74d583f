// Which way a convolution is computed without a library of convolutions, and how its values lie:
// decided by shapes, dtypes and the target's facilities alone.
#pragma once

#include "ops/families/convolution.h"
#include "ops/table/builder.h"

#include <optional>

namespace tsc::ops {

enum class Way : uint8_t {
  /// A kernel of one tap, at every position: a matrix product of views, nothing is copied.
  product,
  /// Windows copied to columns (each tap of each channel is a row), then a matrix product.
  columns,
  /// A sum over channels and taps at each output: no memory, and it fuses with its neighbours.
  sum,
};

Way choose_way(const Convolution &c, const Facilities &facilities);

/// Columns take this many bytes at most: a larger convolution is cut into parts, one after the
/// other.
constexpr int64_t kLargestColumns = int64_t{256} << 20;
/// Elements that a product's kernel counts, which reads windows where they come from: there are no
/// columns in memory then.
constexpr int64_t kLargestUnwritten = (int64_t{1} << 31) - (int64_t{1} << 22);
constexpr int64_t kResults = 8; // results of a product's kernel, that it finishes at once
/// Elements of 16 bytes, as a product's kernel brings its operands.
int64_t word_of(const Convolution &c);
/// What is missing to whole runs of `run` elements; 0 of a size that is no number.
int64_t more_to_runs(const Expr &count, int64_t run);
bool all_are(const std::vector<Expr> &values, int64_t value);
/// One tap at every position of the input.
bool has_one_tap(const Convolution &c);

/// Whether a product of one group has a row a position and a column a channel: where the result is
/// asked for like that, where that was chosen for the graph, and for 16-bit floats, whose products
/// want runs of channels (a result that must lie otherwise is copied).
bool keeps_channels_inside(const Convolution &c);
/// Whether the input of a sum of a few terms may be expected to lie like that: its weights do, too.
bool has_channels_inside(const Convolution &c);
/// Whether the target's product kernel can be expected to read the windows where they come from:
/// it wants sizes that are known and, of float32, whole runs of results.
bool reads_windows(const Convolution &c, const Facilities &facilities);
/// Whether the columns of groups are rows of channels: then neighbours are read and written
/// together, and each group's are whole runs.
bool has_group_rows(const Convolution &c, const Facilities &facilities);
/// Transposed, in steps of one, in groups: each output gets the taps of the inputs around it, which
/// is what a plain convolution of the turned weights does: its windows share what they load. (One
/// group goes by phases.)
bool slides(const Convolution &c);
/// That plain convolution, but for its weight.
Convolution as_plain(Convolution c);
/// What one dimension of a phase is: outputs first, first + stride, .. as an ordinary convolution
/// of stride 1. Output o gets tap t of input i where o + padding = i * stride + t * dilation.
struct Phase {
  int64_t tap = 0, step = 1, taps = 0;         // of the kernel: first, distance, count (or none)
  int64_t dilation = 1, padding = 0, size = 0; // of the ordinary convolution, and its outputs
};
/// Of the outputs `first`, `first` + stride, ..; sizes are numbers.
Phase phase_of(const Convolution &c, size_t dimension, int64_t first);
/// Whether all phases of one group slide over the same windows, and are as many each: taps are as
/// many a stride, and nothing is cut off.
bool are_alike(const Convolution &c);
/// Whether a transposed convolution of few outputs is the product of the input with every tap, of
/// which each output gathers those that reach it: that holds no more than twice the input.
bool gathers_taps(const Convolution &c);
/// Whether a transposed convolution is computed as ordinary ones, one for each place that an output
/// may have between two strides, whose products read windows where they come from: the product of
/// the input with every tap is then never in memory. Where it would hold no more than the outputs
/// do, nothing is gained, unless all phases are one product.
bool goes_by_phases(const Convolution &c, const Facilities &facilities);
/// Whether windows do not overlap and their channels are no whole runs, as in the patches of an
/// image: columns then hold the input once, in any order, and filled channels would hold more.
bool copies_once(const Convolution &c);

/// Few channels, as colours are: what the windows of neighbouring outputs hold of one line of the
/// input lies together where channels are filled up to a part of 16 bytes, and is taken as the
/// channels of a convolution over the other dimensions. Terms are then fewer than with every tap's
/// channels filled up to 16 bytes.
struct PackedLine {
  int64_t unit = 0;    // channels, filled up
  int64_t outputs = 1; // neighbouring ones along the line that one window serves
  int64_t taps = 0;    // of that window, filled up to whole runs of 16 bytes
};
/// Nothing where that saves no steps of the product's terms, or windows start anywhere.
std::optional<PackedLine> packed_line(const Convolution &c, const Facilities &facilities);

} // namespace tsc::ops
