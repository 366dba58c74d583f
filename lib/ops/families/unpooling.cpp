// What undoes max pooling, and pooling over windows of random places.
#include "ops/families/checks.h"
#include "ops/table/builder.h"
#include "ops/table/memory_format.h"
#include "ops/table/pointwise_rules.h"
#include "ops/table/precision.h"
#include "ops/table/shape_rules.h"
#include "ops/table/table.h"

namespace tsc::ops {
namespace {

using Sizes = std::vector<Expr>;

/// [N, C, spatial..] or [C, spatial..]: the sizes before the spatial ones.
Sizes leading_sizes(const Call &call, size_t rank) {
  const Sizes sizes = call.tensor("self").layout.sizes;
  if (sizes.size() != rank + 1 && sizes.size() != rank + 2)
    call.fail("TSC-O048", call.node().target + " of " + print_sizes(sizes),
              "pass [N, C, spatial..] or [C, spatial..]");
  return Sizes(sizes.begin(), sizes.end() - static_cast<ptrdiff_t>(rank));
}

/// Zeros, and each element of self at its place in the plane. Of elements of one place any may
/// stay, as in PyTorch.
Argument max_unpool(GraphBuilder &builder, const Call &call, size_t rank) {
  const TensorMeta self = call.tensor("self");
  Sizes lead = leading_sizes(call, rank);
  const Sizes spatial = call.sizes("output_size");
  const Sizes &indices = call.tensor("indices").layout.sizes;
  if (spatial.size() != rank || indices.size() != self.layout.rank())
    call.fail("TSC-O129",
              call.node().target + ": output_size " + print_sizes(spatial) + ", indices " +
                  print_sizes(indices),
              "pass " + std::to_string(rank) + " output sizes, and an index for each element");
  for (size_t i = 0; i < indices.size(); ++i)
    if (!taken_equal(call, indices[i], self.layout.sizes[i]))
      call.fail("TSC-O129",
                call.node().target + ": indices " + print_sizes(indices) + " for elements " +
                    print_sizes(self.layout.sizes),
                "pass an index for each element");
  Sizes planes = lead, flat = lead;
  planes.push_back(symbolic::numel(spatial));
  flat.push_back(symbolic::numel(
      Sizes(self.layout.sizes.end() - static_cast<ptrdiff_t>(rank), self.layout.sizes.end())));
  const auto flattened = [&](const Argument &x) {
    return builder.call("aten.reshape.default", {x, sizes_argument(flat)});
  };
  Argument zeros = builder.call("aten.full.default", {sizes_argument(planes), 0},
                                {{"dtype", self.dtype}, {"device", self.device}});
  Argument filled = builder.call("aten.scatter.src",
                                 {zeros, -1, flattened(call["indices"]), flattened(call["self"])});
  lead.insert(lead.end(), spatial.begin(), spatial.end());
  return builder.call("aten.reshape.default", {filled, sizes_argument(lead)});
}

/// Where windows begin along one dimension: floor((i + u) * a) - floor(u * a) with a = (size -
/// kernel) / (count - 1), in self's dtype, and the last one at the end (Graham, "Fractional
/// max-pooling", as PyTorch has it). `samples` [lead..]; the result [lead.., count].
Argument window_starts(GraphBuilder &builder, const Argument &samples, Expr size, int64_t kernel,
                       int64_t count) {
  const DType dtype = builder.meta(samples).dtype;
  Argument last = size_argument(size - Expr(kernel));
  Argument places = builder.call("aten.arange.start_step", {0, count, 1}, {{"dtype", DType::i64}});
  Argument u = builder.call("aten.unsqueeze.default", {samples, -1});
  Argument starts = builder.call(
      kMul, {builder.call("aten.zeros_like.default", {u}, {{"dtype", DType::i64}}), places});
  if (count > 1) {
    const auto number = [&](const Argument &value) {
      return builder.call("aten.full.default", {Arguments{}, value}, {{"dtype", dtype}});
    };
    Argument step = builder.call(kDiv, {number(last), number(count - 1)});
    Argument moved = builder.call(kMul, {builder.call(kAdd, {places, u}), step});
    Argument first = builder.call(kMul, {u, step});
    const auto whole = [&](const Argument &x) { return convert(builder, x, DType::i64); };
    starts = builder.call(kSub, {whole(moved), whole(first)});
  }
  Argument is_last = builder.call("aten.eq.Scalar", {places, count - 1});
  return builder.call(kWhere, {is_last, last, starts});
}

/// (values, indices in the plane) of max pooling over windows that begin where random samples say.
Argument fractional_max_pool(GraphBuilder &builder, const Call &call, size_t rank) {
  const TensorMeta self = call.tensor("self");
  const Sizes lead = leading_sizes(call, rank);
  const std::vector<int64_t> kernel = call.integers("kernel_size"),
                             counts = call.integers("output_size");
  const TensorMeta samples = call.tensor("random_samples");
  if (kernel.size() != rank || counts.size() != rank || samples.layout.rank() != 3 ||
      samples.dtype != self.dtype ||
      !same_size(samples.layout.sizes[2], Expr(int64_t(rank)), call.ranges()))
    call.fail("TSC-O129",
              call.node().target + ": a kernel of " + std::to_string(kernel.size()) + " sizes, " +
                  std::to_string(counts.size()) + " output sizes, samples " +
                  print_sizes(samples.layout.sizes),
              "pass " + std::to_string(rank) + " sizes each, and samples [N, C, " +
                  std::to_string(rank) + "] of the input's dtype");
  Argument plane_samples = call["random_samples"];
  if (lead.size() == 1) // one image: the samples of the first
    plane_samples = builder.call("aten.select.int", {plane_samples, 0, 0});
  // Positions of every window's elements, [lead.., count.., kernel..], as flat places in the plane.
  Argument flat = 0;
  for (size_t d = 0; d < rank; ++d) {
    const Expr size = self.layout.sizes[lead.size() + d];
    if (size.is_integer() &&
        (kernel[d] < 1 || counts[d] < 1 || counts[d] + kernel[d] - 1 > size.value()))
      call.fail("TSC-O048",
                call.node().target + ": " + std::to_string(counts[d]) + " windows of " +
                    std::to_string(kernel[d]) + " in " + symbolic::print(size) + " elements",
                "use windows that fit");
    // PyTorch's 2-d samples are (width, height), those in 3-d (depth, height, width).
    const int64_t sample = static_cast<int64_t>(rank == 2 ? 1 - d : d);
    Argument u = builder.call("aten.select.int", {plane_samples, -1, sample});
    Argument starts = window_starts(builder, u, size, kernel[d], counts[d]);
    Sizes shape = lead;
    for (size_t i = 0; i < 2 * rank; ++i)
      shape.push_back(i == d ? Expr(counts[d]) : Expr(1));
    Argument at = builder.call("aten.reshape.default", {starts, sizes_argument(shape)});
    Argument taps =
        builder.call("aten.arange.start_step", {0, kernel[d], 1}, {{"dtype", DType::i64}});
    Sizes tap_shape(2 * rank, Expr(1));
    tap_shape[rank + d] = Expr(kernel[d]);
    taps = builder.call("aten.reshape.default", {taps, sizes_argument(tap_shape)});
    Argument along = builder.call(kAdd, {at, taps});
    flat = d == 0 ? along
                  : builder.call(kAdd, {builder.call(kMul, {flat, size_argument(size)}), along});
  }
  Sizes windows = lead, results = lead, rows = lead;
  Expr count = 1, taps = 1, plane = 1;
  for (size_t d = 0; d < rank; ++d) {
    results.push_back(counts[d]);
    count = count * Expr(counts[d]);
    taps = taps * Expr(kernel[d]);
    plane = plane * self.layout.sizes[lead.size() + d];
  }
  windows.push_back(count * taps);
  rows.push_back(plane);
  Argument places = builder.call("aten.reshape.default", {flat, sizes_argument(windows)});
  Argument image = builder.call("aten.reshape.default", {call["self"], sizes_argument(rows)});
  Argument values = builder.call("aten.gather.default", {image, -1, places});
  windows.back() = count;
  windows.push_back(taps);
  const auto by_window = [&](const Argument &x) {
    return builder.call("aten.reshape.default", {x, sizes_argument(windows)});
  };
  Argument best = builder.call("aten.max.dim", {by_window(values), -1, true});
  Argument where =
      builder.call("aten.gather.default", {by_window(places), -1, builder.item(best, 1)});
  const auto shaped = [&](const Argument &x) {
    return builder.call("aten.reshape.default", {x, sizes_argument(results)});
  };
  return Arguments{shaped(builder.item(best, 0)), shaped(where)};
}

} // namespace

void add_unpooling(Table &table) {
  table.add("max_unpool2d(Tensor self, Tensor indices, SymInt[2] output_size) -> Tensor")
      .decompose(in_format_of("self", [](GraphBuilder &builder, const Call &call) {
        return max_unpool(builder, call, 2);
      }));
  table
      .add("max_unpool3d(Tensor self, Tensor indices, SymInt[3] output_size, int[3] stride, "
           "int[3] padding) -> Tensor")
      .decompose(contiguously(
          [](GraphBuilder &builder, const Call &call) { return max_unpool(builder, call, 3); }));
  for (size_t rank : {2U, 3U}) {
    const std::string n = std::to_string(rank);
    table
        .add(keep_text("fractional_max_pool" + n + "d(Tensor self, int[" + n +
                       "] kernel_size, int[" + n +
                       "] output_size, Tensor random_samples) -> (Tensor, Tensor)"))
        .decompose([rank](GraphBuilder &builder, const Call &call) {
          return fractional_max_pool(builder, call, rank);
        });
  }
}

} // namespace tsc::ops
