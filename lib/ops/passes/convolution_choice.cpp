#include "ops/passes/convolution_choice.h"

#include "ops/table/memory_format.h"
#include "templates/product/tc_product_geometry.h"

#include <algorithm>
#include <numeric>

namespace tsc::ops {
namespace {

/// Columns are used by every output channel of their group. With this few of them writing the
/// columns costs more than the product saves.
constexpr int64_t kFewOutputs = 4;
/// On a GPU, channels innermost: a thread has a tile of outputs of some positions, which is about a
/// third of its multiplications' peak; columns cost four bytes a term and a group.
constexpr int64_t kFewOutputsInside = 16;
/// So many outputs that threads with 64 of them each fill a GPU; of fewer the columns are few.
constexpr int64_t kManyResults = int64_t{1} << 20;
/// Terms of a sum that no matrix product is worth.
constexpr int64_t kFewTerms = 16;
/// Terms from which on a product of 16-bit floats is as fast as a sum that reads neighbouring
/// channels, and faster by far than one whose channels lie apart: about a step of its kernel. Of a
/// single output it would throw away 63 of 64 columns.
constexpr int64_t kManyTerms = 64;
/// Outputs that a sum would read its input again for, though its terms be few; their columns are
/// less than half of them.
constexpr int64_t kManyOutputs = 32;

/// Outputs of a group from which on a product of floats reads windows. It multiplies 64 columns at
/// a time: of fewer, columns in memory take no longer.
constexpr int64_t kFewOutputsOfFloats = 16;

/// Columns that a product multiplies at a time, of floats at least.
constexpr int64_t kColumnsAtOnce = 64;

bool at_most(Expr value, int64_t bound) { return value.is_integer() && value.value() <= bound; }

/// Of one dimension: whether columns are more than what is turned, an input and a result; half a
/// result where it has no whole words, for which the library is slow (7,999 positions of conv1d:
/// 2.0 ms, estimated as 0.6).
bool turning_pays(const Convolution &c) {
  // Of a sample: how many there are does not matter. Of a position where their number is a symbol,
  // which is odd more often than not.
  const bool known = c.positions[0].is_integer() && c.input.layout.sizes.back().is_integer();
  const Expr positions = known ? c.positions[0] : Expr(1);
  const Expr in = c.channels() * (known ? c.input.layout.sizes.back() : c.window.stride[0]),
             out = c.outputs() * positions, columns = c.channels() * c.window.taps() * positions;
  if (c.transposed || !c.groups.is_integer(1) || !in.is_integer() || !out.is_integer() ||
      !columns.is_integer())
    return false;
  const bool odd = !known || more_to_runs(positions, word_of(c)) != 0;
  return columns.value() > in.value() + (odd ? out.value() / 2 : out.value());
}

bool wants_channels_inside(const Convolution &c) {
  return is_channels_last(c.result.layout) || c.channels_inside ||
         (tensor::is_reduced_float(c.result.dtype) && !c.channels_outside &&
          (c.rank() > 1 || turning_pays(c)));
}

} // namespace

int64_t word_of(const Convolution &c) {
  return 16 / static_cast<int64_t>(tensor::size_in_bytes(c.result.dtype));
}

int64_t more_to_runs(const Expr &count, int64_t run) {
  return count.is_integer() ? (run - count.value() % run) % run : 0;
}

bool all_are(const std::vector<Expr> &values, int64_t value) {
  return std::all_of(values.begin(), values.end(), [&](Expr e) { return e.is_integer(value); });
}

bool has_one_tap(const Convolution &c) {
  return all_are(c.window.kernel, 1) && all_are(c.window.stride, 1) && all_are(c.window.padding, 0);
}

bool keeps_channels_inside(const Convolution &c) {
  return c.groups.is_integer(1) && wants_channels_inside(c);
}

bool reads_windows(const Convolution &c, const Facilities &facilities) {
  const bool has_kernel = // those of f32 fill channels up only where that was chosen
      tensor::is_reduced_float(c.result.dtype) ||
      (c.result.dtype == tensor::DType::f32 &&
       (c.channels_inside || more_to_runs(c.channels(), word_of(c)) == 0));
  return facilities.product_kernels && !c.transposed && keeps_channels_inside(c) && has_kernel &&
         c.outputs().is_integer() && c.channels().is_integer() &&
         (tensor::is_reduced_float(c.result.dtype) || more_to_runs(c.outputs(), kResults) == 0);
}

Phase phase_of(const Convolution &c, size_t dimension, int64_t first) {
  const int64_t stride = c.window.stride[dimension].value(),
                padding = c.window.padding[dimension].value(),
                dilation = c.window.dilation[dimension].value(),
                kernel = c.window.kernel[dimension].value(), shared = std::gcd(stride, dilation);
  Phase phase;
  phase.size = (c.positions[dimension].value() - first + stride - 1) / stride;
  phase.step = stride / shared;
  while (phase.tap < kernel && (first + padding - phase.tap * dilation) % stride != 0)
    ++phase.tap;
  if (phase.tap >= kernel)
    return phase;
  phase.taps = (kernel - phase.tap + phase.step - 1) / phase.step;
  phase.dilation = dilation / shared;
  phase.padding =
      (phase.taps - 1) * phase.dilation - (first + padding - phase.tap * dilation) / stride;
  return phase;
}

bool are_alike(const Convolution &c) {
  if (!c.groups.is_integer(1))
    return false;
  bool several = false;
  for (size_t i = 0; i < c.rank(); ++i) {
    const int64_t stride = c.window.stride[i].value();
    const Phase first = phase_of(c, i, 0);
    several = several || stride > 1;
    if (first.taps == 0 || c.positions[i].value() % stride != 0)
      return false;
    for (int64_t place = 1; place < stride; ++place) {
      const Phase other = phase_of(c, i, place);
      if (other.taps != first.taps || other.padding != first.padding)
        return false;
    }
  }
  return several;
}

bool gathers_taps(const Convolution &c) {
  return c.transposed && c.groups.is_integer(1) && at_most(c.outputs(), kFewOutputs) &&
         c.channels().is_integer() && c.window.taps().is_integer() &&
         c.channels().value() >= kFewTerms &&
         c.outputs().value() * c.window.taps().value() <= 2 * c.channels().value();
}

bool goes_by_phases(const Convolution &c, const Facilities &facilities) {
  constexpr int64_t kMostPhases = 32;
  if (!c.transposed || !facilities.product_kernels || !c.groups.is_integer() ||
      !c.outputs().is_integer() || gathers_taps(c) ||
      !(tensor::is_reduced_float(c.result.dtype) || c.result.dtype == tensor::DType::f32) ||
      !c.channels().is_integer())
    return false;
  int64_t phases = 1;
  for (size_t i = 0; i < c.rank(); ++i) {
    const Expr stride = c.window.stride[i];
    if (!c.window.kernel[i].is_integer() || !stride.is_integer() ||
        !c.window.padding[i].is_integer() || !c.window.dilation[i].is_integer() ||
        !c.positions[i].is_integer() || c.positions[i].value() < stride.value())
      return false;
    phases *= std::min(stride.value(), kMostPhases + 1); // a few of more than there are
  }
  const auto none = [](const TensorMeta &meta) {
    return std::any_of(meta.layout.sizes.begin(), meta.layout.sizes.end(),
                       [](Expr size) { return size.is_integer(0); });
  };
  return phases <= kMostPhases && !none(c.result) && !none(c.input) &&
         (c.window.taps().value() > phases || are_alike(c));
}

bool slides(const Convolution &c) {
  if (!c.transposed || c.groups.is_integer(1) || !all_are(c.window.stride, 1))
    return false;
  for (size_t i = 0; i < c.rank(); ++i) {
    const Expr before = c.window.dilation[i] * (c.window.kernel[i] - Expr(1)) - c.window.padding[i];
    if (!before.is_integer() || before.value() < 0)
      return false;
  }
  return true;
}

Convolution as_plain(Convolution c) {
  c.transposed = false;
  for (size_t i = 0; i < c.rank(); ++i)
    c.window.padding[i] =
        c.window.dilation[i] * (c.window.kernel[i] - Expr(1)) - c.window.padding[i];
  return c;
}

bool copies_once(const Convolution &c) {
  bool apart =
      !c.transposed && c.groups.is_integer(1) && more_to_runs(c.channels(), word_of(c)) != 0;
  for (size_t i = 0; i < c.rank(); ++i)
    apart = apart && c.window.dilation[i].is_integer(1) && c.window.kernel[i].is_integer() &&
            c.window.stride[i].is_integer() &&
            c.window.stride[i].value() >= c.window.kernel[i].value();
  return apart;
}

std::optional<PackedLine> packed_line(const Convolution &c, const Facilities &facilities) {
  constexpr int64_t kStep = 64, kColumns = 128; // terms and columns that a product takes at a time
  constexpr int64_t kMostOutputs = 4, kLine = 128;
  const size_t line = c.rank() - 1;
  const int64_t word = word_of(c);
  if (!reads_windows(c, facilities) || copies_once(c) || !c.groups.is_integer(1) ||
      !tensor::is_reduced_float(c.result.dtype) || !c.channels().is_integer() ||
      !c.window.taps().is_integer() || !c.window.dilation[line].is_integer(1) ||
      !c.window.stride[line].is_integer() || !c.window.padding[line].is_integer() ||
      !c.positions[line].is_integer() || !c.input.layout.sizes.back().is_integer())
    return std::nullopt;
  PackedLine best;
  for (best.unit = 1; best.unit < c.channels().value();)
    best.unit *= 2;
  if (best.unit >= word || c.channels().is_integer(0))
    return std::nullopt;
  const int64_t kernel = c.window.kernel[line].value(), stride = c.window.stride[line].value(),
                others = c.window.taps().value() / kernel,
                columns = c.outputs().is_integer() ? c.outputs().value() : kColumns;
  const auto steps = [&](int64_t terms_of_line) {
    return (others * terms_of_line + kStep - 1) / kStep;
  };
  // What multiplies: as many columns take as long as fewer.
  const auto work = [&](const PackedLine &packed) {
    return static_cast<double>(steps(packed.taps * packed.unit) *
                               std::max(kColumns, columns * packed.outputs)) /
           static_cast<double>(packed.outputs);
  };
  const auto serves = [&](int64_t outputs) {
    return stride * best.unit * outputs % word == 0 && outputs <= c.positions[line].value();
  };
  while (best.outputs <= kMostOutputs && !serves(best.outputs))
    ++best.outputs;
  if (best.outputs > kMostOutputs)
    return std::nullopt;
  const int64_t run = word / best.unit;
  best.taps = (kernel + stride * (best.outputs - 1) + run - 1) / run * run;
  if (steps(best.taps * best.unit) >= steps(kernel * word))
    return std::nullopt;
  // Whole lines of 128 bytes come by bulk copies.
  PackedLine whole = best;
  whole.taps = kLine / static_cast<int64_t>(tensor::size_in_bytes(c.result.dtype)) / whole.unit;
  for (; whole.outputs <= kMostOutputs; ++whole.outputs)
    if (serves(whole.outputs) && kernel + stride * (whole.outputs - 1) <= whole.taps &&
        work(whole) <= work(best))
      best = whole;
  return best;
}

bool has_channels_inside(const Convolution &c) {
  return !c.groups.is_integer(1) && (wants_channels_inside(c) || is_channels_last(c.input.layout));
}

bool has_group_rows(const Convolution &c, const Facilities &facilities) {
  const Expr channels = symbolic::floor_div(c.channels(), c.groups),
             outputs = symbolic::floor_div(c.outputs(), c.groups);
  const bool has_kernel =
      tensor::is_reduced_float(c.result.dtype) ||
      (c.result.dtype == tensor::DType::f32 && !at_most(outputs, kFewOutputsOfFloats - 1));
  return has_channels_inside(c) && !c.transposed && facilities.product_kernels && has_kernel &&
         channels.is_integer() && outputs.is_integer() && more_to_runs(channels, word_of(c)) == 0 &&
         more_to_runs(outputs, kResults) == 0;
}

namespace {

/// Whether groups of few channels are products that share lines and tiles.
bool share_lines(const Convolution &c, const Facilities &facilities) {
  constexpr int64_t kFewestOfEights = 8; // groups of 8 channels: fewer leave part of a line empty
  if (!has_group_rows(c, facilities) || has_one_tap(c) || !tensor::is_reduced_float(c.result.dtype))
    return false;
  const int together = tc_product_together(symbolic::floor_div(c.channels(), c.groups).value(),
                                           symbolic::floor_div(c.outputs(), c.groups).value());
  return together > 1 && (together < 8 || c.groups.as_integer().value_or(0) >= kFewestOfEights);
}

} // namespace

Way choose_way(const Convolution &c, const Facilities &facilities) {
  if (!tensor::is_floating(c.result.dtype)) // matrix libraries know no integers
    return Way::sum;
  const bool one_tap = has_one_tap(c);
  const Expr outputs = symbolic::floor_div(c.outputs(), c.groups);
  const Expr channels = symbolic::floor_div(c.channels(), c.groups);
  if (one_tap && c.groups.is_integer(1) && !c.transposed)
    return Way::product;
  if (facilities.product_kernels && tensor::is_reduced_float(c.result.dtype) && !c.transposed &&
      (keeps_channels_inside(c) || (c.rank() == 1 && c.groups.is_integer(1))) &&
      (at_most(outputs, kFewOutputs) ? !outputs.is_integer(1) && !c.window.taps().is_integer(1) &&
                                           !at_most(channels * c.window.taps(), kManyTerms - 1)
                                     : !at_most(outputs, kManyOutputs - 1)))
    return Way::columns; // which its product reads where they come from, or which are few
  // Of strides that leave a few outputs a few of many taps each; a sum would look for them.
  if (gathers_taps(c) ||
      (c.transposed && c.groups.is_integer(1) && goes_by_phases(c, facilities) &&
       !at_most(channels, kFewOutputs) && !at_most(channels * c.window.taps(), kManyTerms - 1)))
    return Way::columns;
  if (share_lines(c, facilities))
    return Way::columns;
  const bool tiled =
      facilities.product_kernels && !c.transposed && has_channels_inside(c) &&
      (c.batch() * c.outputs() * symbolic::numel(c.positions)).as_integer().value_or(0) >=
          kManyResults;
  if (at_most(outputs, tiled ? kFewOutputsInside : kFewOutputs) ||
      at_most(channels * c.window.taps(), kFewTerms))
    return Way::sum;
  return Way::columns;
}

std::optional<ColumnsSaved> columns_saved(const Convolution &given) {
  Convolution c = given;
  c.channels_inside = true;
  const Facilities facilities{.product_kernels = true};
  const Expr columns = c.batch() * c.channels() * c.window.taps() * symbolic::numel(c.positions);
  if (choose_way(c, facilities) != Way::columns ||
      !(reads_windows(c, facilities) || has_group_rows(c, facilities)) || copies_once(c) ||
      !columns.is_integer())
    return std::nullopt;
  const auto bytes = static_cast<double>(tensor::size_in_bytes(c.result.dtype));
  const auto more = static_cast<double>(more_to_runs(c.channels(), word_of(c)));
  const auto channels = static_cast<double>(c.channels().value());
  ColumnsSaved saved;
  saved.bytes = 2 * bytes * static_cast<double>(columns.value()); // written and read
  if (!c.groups.is_integer(1)) {
    const int64_t empty = more_to_runs(symbolic::floor_div(c.outputs(), c.groups), kColumnsAtOnce);
    saved.more_operations = 2 * static_cast<double>(columns.value() * empty);
    return saved;
  }
  saved.more_operations = 2 * static_cast<double>(columns.value()) / channels * more *
                          static_cast<double>(c.outputs().value());
  return saved;
}

} // namespace tsc::ops
