// Backward forms of interpolation and of padding: what was taken from an element is added to it
// again, one dimension after the other.
#include "ops/families/padding.h"
#include "ops/families/resampling.h"
#include "ops/families/resampling_bands.h"
#include "ops/table/memory_format.h"
#include "ops/table/shape_rules.h"
#include "ops/table/table.h"
#include "ops/table/term.h"

#include <algorithm>

namespace tsc::ops {
namespace {

using Sizes = std::vector<Expr>;

/// Slices of `x` along `dim` added up at `positions` of `size`.
Term added_along(const Term &total, size_t dim, const Argument &positions, const Term &x) {
  Arguments indices(dim);
  indices.push_back(positions);
  return total.then("aten.index_put.default", {indices, x.value(), true});
}
Term zeros_along(const Term &x, size_t dim, Expr size) {
  const TensorMeta meta = x.meta();
  Sizes sizes = meta.layout.sizes;
  sizes[dim] = size;
  return filled(x.builder(), sizes, 0.0, meta.dtype, meta.device);
}

/// The dimensions of the forward call, whose result what comes from above has the sizes of.
std::vector<Axis> axes_of(const Call &call, size_t count) {
  const TensorMeta &above = call.tensor("grad_output");
  const Sizes to = call.sizes("output_size"), from = call.sizes("input_size");
  bool fits = to.size() == count && from.size() == count + 2 && above.layout.rank() == count + 2;
  for (size_t i = 0; fits && i < count + 2; ++i)
    fits = may_equal(above.layout.sizes[i], i < 2 ? from[i] : to[i - 2], call.ranges());
  if (!fits)
    call.fail("TSC-O129",
              call.node().target + ": 'grad_output' of sizes " + print_sizes(above.layout.sizes) +
                  " from " + print_sizes(from) + " to " + print_sizes(to),
              "give tensors of sizes that fit");
  const std::vector<std::optional<double>> factors = factors_of(call, count);
  std::vector<Axis> axes;
  for (size_t i = 0; i < count; ++i)
    axes.push_back({i + 2, from[i + 2], to[i], factors[i]});
  return axes;
}

Term of_nearest(const Term &x, const Axis &axis, bool exact) {
  const TensorMeta meta = x.meta();
  if (const std::optional<int64_t> times = repetitions(axis, exact)) {
    if (*times == 1)
      return x;
    Sizes apart = meta.layout.sizes;
    apart[axis.dim] = axis.from;
    apart.insert(apart.begin() + static_cast<ptrdiff_t>(axis.dim) + 1, Expr(*times));
    return sum(reshaped(x, apart), {axis.dim + 1}, false);
  }
  return added_along(zeros_along(x, axis.dim, axis.from), axis.dim,
                     nearest_positions(x.builder(), axis, exact, meta.device), x);
}

Term of_interpolation(const Term &x, const Axis &axis, Method method, bool align_corners) {
  GraphBuilder &builder = x.builder();
  if (method == Method::linear && is_resized(builder, axis).is_integer(0))
    return x;
  Term total = zeros_along(x, axis.dim, axis.from);
  for (const Tap &tap : interpolation_taps(builder, x.meta(), axis, method, align_corners))
    total = added_along(total, axis.dim, tap.positions, x * tap.weights);
  return total;
}

Argument resampled(GraphBuilder &builder, const Call &call, Method method, size_t dims) {
  Term x = wide(builder, call, "grad_output");
  const bool near = method == Method::nearest || method == Method::nearest_exact;
  const bool align_corners = !near && call.boolean("align_corners");
  std::vector<Axis> changed;
  for (const Axis &axis : axes_of(call, dims)) {
    const bool is_same = near ? repetitions(axis, method == Method::nearest_exact) == 1
                              : method == Method::linear && is_resized(builder, axis).is_integer(0);
    if (!is_same)
      changed.push_back(axis);
  }
  // PyTorch's kernel copies where nothing changes, whatever the factors.
  const bool copies =
      method == Method::cubic && std::all_of(changed.begin(), changed.end(), [&](const Axis &axis) {
        return is_resized(builder, axis).is_integer(0);
      });
  if (copies)
    changed.clear();
  const bool repeats = near && std::all_of(changed.begin(), changed.end(), [&](const Axis &axis) {
                         return repetitions(axis, method == Method::nearest_exact).has_value();
                       });
  const std::optional<Term> gathered =
      repeats ? std::nullopt : gathered_gradient(x, changed, method, align_corners);
  if (gathered)
    x = *gathered;
  for (const Axis &axis : changed)
    if (!gathered)
      x = near ? of_nearest(x, axis, method == Method::nearest_exact)
               : of_interpolation(x, axis, method, align_corners);
  const Argument result = x.as(call.tensor("grad_output").dtype);
  return result == call["grad_output"] ? builder.call("aten.clone.default", {result}) : result;
}

/// The filter's matrices, transposed, from both sides.
Argument antialiased(GraphBuilder &builder, const Call &call, bool cubic) {
  const std::vector<Axis> axes = axes_of(call, 2);
  const Term x = wide(builder, call, "grad_output");
  const TensorMeta meta = x.meta();
  const auto weights = [&](const Axis &axis) {
    return Term(builder, antialiased_weights(builder, axis, call.boolean("align_corners"), cubic,
                                             meta.dtype, meta.device));
  };
  const Term rows = permuted(weights(axes[0]), {1, 0});
  const Term by_columns = x.then("aten.matmul.default", {weights(axes[1]).value()});
  return rows.then("aten.matmul.default", {by_columns.value()})
      .as(call.tensor("grad_output").dtype);
}

void add_form(Table &table, const std::string &name, size_t dims, bool corners,
              const Decomposition &decomposition) {
  const std::string scales[] = {"float? scales=None", "float? scales_h=None, float? scales_w=None",
                                "float? scales_d=None, float? scales_h=None, float? scales_w=None"};
  const std::string count = std::to_string(dims), all = std::to_string(dims + 2);
  table
      .add(keep_text(name + "_backward(Tensor grad_output, SymInt[" + count +
                     "] output_size, SymInt[" + all + "] input_size, " +
                     (corners ? "bool align_corners, " : "") + scales[dims - 1] + ") -> Tensor"))
      .decompose(in_format_of("grad_output", decomposition));
}

Term sliced(const Term &x, size_t dim, Expr begin, Expr end) {
  return x.then("aten.slice.Tensor", {static_cast<int64_t>(dim), begin, end});
}

/// `x` among `size` places along `dim`, from `begin` on, and zeros around.
Term placed(const Term &x, size_t dim, Expr begin, Expr size) {
  const Sizes sizes = x.meta().layout.sizes;
  Sizes pads(2 * (sizes.size() - dim), Expr(0));
  pads[pads.size() - 2] = begin;
  pads[pads.size() - 1] = size - begin - sizes[dim];
  return x.then("aten.constant_pad_nd.default", {sizes_argument(pads), 0});
}

/// Slices begin to end - 1 along `dim` as one.
Term added_up(const Term &x, size_t dim, Expr begin, int64_t count) {
  constexpr int64_t kMostTerms = 3; // more are a reduction
  if (count > kMostTerms)
    return sum(sliced(x, dim, begin, begin + count), {dim}, true);
  Term total = sliced(x, dim, begin, begin + 1);
  for (int64_t i = 1; i < count; ++i)
    total = total + sliced(x, dim, begin + i, begin + i + 1);
  return total;
}

/// What stands at `size` elements padded with what is inside: what the padding took of the first
/// and the last of them is added to the middle. Every element is read where it is needed; nothing
/// is added in memory. The pads are known and not negative.
Term without_padding(const Term &x, size_t dim, Expr size, int64_t before, int64_t after,
                     Edge edge) {
  const Sizes flips{Expr(static_cast<int64_t>(dim))};
  Term total = sliced(x, dim, before, size + before);
  const auto add_mirrored = [&](Expr begin, int64_t count, Expr place) {
    if (count > 0)
      total = total + placed(sliced(x, dim, begin, begin + count)
                                 .then("aten.flip.default", {sizes_argument(flips)}),
                             dim, place, size);
  };
  if (edge == Edge::reflect) {
    add_mirrored(0, before, 1);
    add_mirrored(size + before, after, size - 1 - after);
    return total;
  }
  if (before > 0)
    total = total + placed(added_up(x, dim, 0, before), dim, 0, size);
  if (after > 0)
    total = total + placed(added_up(x, dim, size + before, after), dim, size - 1, size);
  return total;
}

/// What lies beyond the edges belongs to the elements that stand there.
Argument of_padding(GraphBuilder &builder, const Call &call, Edge edge) {
  const TensorMeta self = call.tensor("self");
  const Sizes pad = call.sizes("padding");
  const size_t rank = self.layout.rank();
  if (pad.size() % 2 != 0 || pad.size() / 2 > rank)
    call.fail("TSC-O045",
              call.node().target + ": " + std::to_string(pad.size()) + " pads for " +
                  std::to_string(rank) + " dimensions",
              "pass (before, after) for the last dimensions");
  Term x = wide(builder, call, "grad_output");
  for (size_t i = 0; i < pad.size() / 2; ++i) {
    const size_t dim = rank - 1 - i;
    const Expr before = pad[2 * i], after = pad[2 * i + 1], size = self.layout.sizes[dim];
    if (x.meta().layout.rank() != rank ||
        !may_equal(x.meta().layout.sizes[dim], size + before + after, call.ranges()))
      call.fail("TSC-O129",
                call.node().target + ": 'grad_output' of sizes " +
                    print_sizes(call.tensor("grad_output").layout.sizes) + ", 'self' of sizes " +
                    print_sizes(self.layout.sizes) + " padded by " + print_sizes(pad),
                "give tensors of sizes that fit");
    if (before.is_integer(0) && after.is_integer(0))
      continue;
    const auto first = before.as_integer(), last = after.as_integer();
    if (first && last && *first >= 0 && *last >= 0 &&
        symbolic::known_nonnegative(size - 1, call.ranges())) {
      x = without_padding(x, dim, size, *first, *last, edge);
      continue;
    }
    x = added_along(zeros_along(x, dim, size), dim,
                    padded_positions(builder, size, before, after, edge, self.device), x);
  }
  return x.as(self.dtype);
}

} // namespace

void add_resampling_gradients(Table &table) {
  const auto add = [&](const std::string &name, size_t dims, Method method) {
    const bool corners = method == Method::linear || method == Method::cubic;
    add_form(table, name, dims, corners, [method, dims](GraphBuilder &builder, const Call &call) {
      return resampled(builder, call, method, dims);
    });
  };
  for (const size_t dims : {1, 2, 3}) {
    const std::string suffix = std::to_string(dims) + "d";
    add("upsample_nearest" + suffix, dims, Method::nearest);
    add("_upsample_nearest_exact" + suffix, dims, Method::nearest_exact);
    for (const Edge edge : {Edge::reflect, Edge::replicate})
      table
          .add(keep_text((edge == Edge::reflect ? "reflection_pad" : "replication_pad") + suffix +
                         "_backward(Tensor grad_output, Tensor self, SymInt[" +
                         std::to_string(2 * dims) + "] padding) -> Tensor"))
          .decompose(in_format_of("self", [edge](GraphBuilder &builder, const Call &call) {
            return of_padding(builder, call, edge);
          }));
  }
  add("upsample_linear1d", 1, Method::linear);
  add("upsample_bilinear2d", 2, Method::linear);
  add("upsample_trilinear3d", 3, Method::linear);
  add("upsample_bicubic2d", 2, Method::cubic);
  for (const bool cubic : {false, true})
    add_form(table, cubic ? "_upsample_bicubic2d_aa" : "_upsample_bilinear2d_aa", 2, true,
             [cubic](GraphBuilder &builder, const Call &call) {
               return antialiased(builder, call, cubic);
             });
}

} // namespace tsc::ops
