// Backward forms of pools. Each element gathers from the windows that reach it, so that nothing is
// written twice: sliding windows by their overlaps, adaptive ones because the windows that hold an
// element of n cut into m are those of m cut into n.
#include "ops/families/pooling.h"
#include "ops/table/memory_format.h"
#include "ops/table/shape_rules.h"
#include "ops/table/table.h"
#include "ops/table/term.h"

#include <algorithm>

namespace tsc::ops {
namespace {

using Sizes = std::vector<Expr>;

/// The gradient, and what else a pool gives, has one element a window.
void require_positions(const Call &call, std::string_view name, const Sizes &positions) {
  const TensorMeta &self = call.tensor("self"), &given = call.tensor(name);
  Sizes expected = self.layout.sizes;
  std::copy(positions.begin(), positions.end(),
            expected.end() - static_cast<ptrdiff_t>(positions.size()));
  bool fits = expected.size() == given.layout.rank();
  for (size_t i = 0; fits && i < expected.size(); ++i)
    fits = may_equal(expected[i], given.layout.sizes[i], call.ranges());
  if (!fits)
    call.fail("TSC-O129",
              call.node().target + ": '" + std::string(name) + "' of sizes " +
                  print_sizes(given.layout.sizes) + ", the pool gives " + print_sizes(expected),
              "give tensors of sizes that fit");
}

void require_rank(const Call &call, size_t rank) {
  const size_t given = call.tensor("self").layout.rank();
  if (given != rank + 1 && given != rank + 2)
    call.fail("TSC-O048",
              call.node().target + " of " + print_sizes(call.tensor("self").layout.sizes),
              "pass [N, C, ..] or [C, ..] with " + std::to_string(rank) + " spatial dimensions");
}

/// For each element what the windows hold that reach it, in the last `rank` dimensions.
Term by_element(const Term &x, const Sizes &sizes, const Window &window) {
  const Sizes own = x.meta().layout.sizes;
  Sizes ones = own, taps = own;
  ones.insert(ones.end(), window.rank(), Expr(1));
  taps.insert(taps.end(), window.kernel.begin(), window.kernel.end());
  const Term spread = expanded(reshaped(x, ones), taps);
  return {x.builder(), covering_windows_of(x.builder(), spread, sizes, window)};
}

/// Each element's place in the flattened spatial dimensions, as [spatial.., 1..].
Term places_of(GraphBuilder &builder, const Sizes &sizes, tensor::Device device) {
  Sizes shape = sizes;
  shape.insert(shape.end(), sizes.size(), Expr(1));
  return reshaped(counting(builder, symbolic::numel(sizes), device), shape);
}

std::vector<size_t> last_dims(const TensorMeta &self, size_t rank) {
  std::vector<size_t> dims;
  for (size_t i = 0; i < rank; ++i)
    dims.push_back(self.layout.rank() + i);
  return dims;
}

/// Windows that hold one element, in each dimension; none where that is not known.
Sizes windows_an_element(const Window &window) {
  Sizes counts;
  for (size_t k = 0; k < window.rank(); ++k) {
    if (!window.kernel[k].is_integer() || !window.stride[k].is_integer() ||
        !window.dilation[k].is_integer())
      return {};
    counts.emplace_back(
        covering_of(window.kernel[k].value(), window.stride[k].value(), window.dilation[k].value())
            .most);
  }
  return counts;
}

Argument of_max_pool(GraphBuilder &builder, const Call &call, size_t rank) {
  require_rank(call, rank);
  const TensorMeta self = call.tensor("self");
  const Window window = pooling_window(call, rank);
  const Sizes sizes = spatial_sizes(self, rank), positions = pooled_sizes(call, window);
  require_positions(call, "grad_output", positions);
  require_positions(call, "indices", positions);
  // Each element asks all windows that hold it; where these are too many, windows add to the
  // element that they chose instead. (By the cost model of sm_90, a million elements: 0.4 to 1 us
  // for each window, and about 12 us.)
  constexpr int64_t kMostAsked = 20;
  if (const Sizes asked = windows_an_element(window);
      !asked.empty() && symbolic::numel(asked).value() > kMostAsked) {
    Sizes flat = self.layout.sizes;
    flat.resize(flat.size() - rank + 1);
    flat.back() = symbolic::numel(sizes);
    Sizes chosen = flat;
    chosen.back() = symbolic::numel(positions);
    const Term above = reshaped(wide(builder, call, "grad_output"), chosen),
               places = reshaped(given(builder, call, "indices"), chosen);
    const Term zeros = filled(builder, flat, 0.0, above.meta().dtype, self.device);
    const Term added =
        zeros.then("aten.scatter_add.default",
                   {static_cast<int64_t>(flat.size()) - 1, places.value(), above.value()});
    return reshaped(added, self.layout.sizes).as(self.dtype);
  }
  const Term above = by_element(given(builder, call, "grad_output"), sizes, window);
  const Term chosen = by_element(given(builder, call, "indices"), sizes, window);
  const Term own = where(equal(chosen, places_of(builder, sizes, self.device)), above.wide(), 0.0);
  return sum(own, last_dims(self, rank), false).as(self.dtype);
}

Argument of_avg_pool(GraphBuilder &builder, const Call &call, size_t rank) {
  require_rank(call, rank);
  const TensorMeta self = call.tensor("self");
  const Window window = pooling_window(call, rank);
  const Sizes sizes = spatial_sizes(self, rank), positions = pooled_sizes(call, window);
  require_positions(call, "grad_output", positions);
  const Argument divisor = pooling_divisor(builder, call, window, positions);
  Term share = wide(builder, call, "grad_output") / divisor;
  const TensorMeta above = share.meta();
  const Sizes asked = windows_an_element(window);
  if (asked.empty())
    return sum(by_element(share, sizes, window), last_dims(self, rank), false).as(self.dtype);
  for (const Stage &stage :
       stages_of(above, sizes, window, tensor::size_in_bytes(above.dtype), &asked))
    share = sum(by_element(share, stage.positions, stage.window), last_dims(self, rank), false);
  return share.as(self.dtype);
}

/// The windows of an adaptive pool that hold each element, in the last `rank` dimensions.
Term by_adaptive_element(const Term &x, const Sizes &sizes, const Argument &fill) {
  return {x.builder(), adaptive_windows_of(x.builder(), x, sizes, fill)};
}

/// No windows: nothing comes back.
bool is_empty(const Sizes &positions) {
  return std::any_of(positions.begin(), positions.end(), [](Expr e) { return e.is_integer(0); });
}

Argument of_adaptive_avg_pool(GraphBuilder &builder, const Call &call, size_t rank) {
  require_rank(call, rank);
  const TensorMeta self = call.tensor("self");
  const TensorMeta above = call.tensor("grad_output");
  const Sizes sizes = spatial_sizes(self, rank), positions = spatial_sizes(above, rank);
  require_positions(call, "grad_output", positions);
  if (is_empty(positions))
    return filled(builder, self.layout.sizes, 0.0, self.dtype, self.device).value();
  const Argument divisor = adaptive_divisor(builder, sizes, positions, self.device);
  const Term share = wide(builder, call, "grad_output") / divisor;
  if (std::all_of(positions.begin(), positions.end(), [](Expr e) { return e.is_integer(1); }))
    return expanded(share, self.layout.sizes)
        .then("aten.clone.default", {}, {{"memory_format", graph::MemoryFormat::contiguous}})
        .as(self.dtype);
  return sum(by_adaptive_element(share, sizes, 0), last_dims(self, rank), false).as(self.dtype);
}

Argument of_adaptive_max_pool(GraphBuilder &builder, const Call &call, size_t rank) {
  require_rank(call, rank);
  const TensorMeta self = call.tensor("self");
  const Sizes sizes = spatial_sizes(self, rank);
  const Sizes positions = spatial_sizes(call.tensor("grad_output"), rank);
  require_positions(call, "grad_output", positions);
  require_positions(call, "indices", positions);
  if (is_empty(positions))
    return filled(builder, self.layout.sizes, 0.0, self.dtype, self.device).value();
  const Term above = by_adaptive_element(given(builder, call, "grad_output"), sizes, 0);
  const Term chosen = by_adaptive_element(given(builder, call, "indices"), sizes, -1);
  const Term own = where(equal(chosen, places_of(builder, sizes, self.device)), above.wide(), 0.0);
  return sum(own, last_dims(self, rank), false).as(self.dtype);
}

/// Windows that lie anywhere: what comes from above is added where it was found.
Argument of_fractional_max_pool(GraphBuilder &builder, const Call &call, size_t rank) {
  require_rank(call, rank);
  const TensorMeta self = call.tensor("self");
  const auto flat = [&](const Term &x) {
    Sizes sizes = x.meta().layout.sizes;
    const Expr count = symbolic::numel(spatial_sizes(x.meta(), rank));
    sizes.resize(sizes.size() - rank);
    sizes.push_back(count);
    return reshaped(x, sizes);
  };
  const Term above = flat(wide(builder, call, "grad_output")),
             indices = flat(given(builder, call, "indices"));
  const Term zeros = flat(filled(builder, self.layout.sizes, 0.0, above.meta().dtype, self.device));
  const Term total = zeros.then("aten.scatter_add.default", {-1, indices.value(), above.value()});
  return reshaped(total, self.layout.sizes).as(self.dtype);
}

using Pool = Argument (*)(GraphBuilder &, const Call &, size_t);

void add(Table &table, std::string_view name, size_t rank, const std::string &rest, Pool pool) {
  table.add(keep_text(std::string(name) + std::to_string(rank) + rest + ") -> Tensor"))
      .decompose(in_format_of("self", [rank, pool](GraphBuilder &builder, const Call &call) {
        return pool(builder, call, rank);
      }));
}

} // namespace

void add_pooling_gradients(Table &table) {
  const std::string two = "(Tensor grad_output, Tensor self";
  for (const size_t rank : {size_t{2}, size_t{3}}) {
    const std::string ints = ", int[" + std::to_string(rank) + "] ";
    const std::string window = two + ints + "kernel_size" + ints + "stride" + ints + "padding";
    add(table, "max_pool", rank,
        "d_with_indices_backward" + window + ints + "dilation, bool ceil_mode, Tensor indices",
        of_max_pool);
    add(table, "avg_pool", rank,
        "d_backward" + window + ", bool ceil_mode, bool count_include_pad, int? divisor_override",
        of_avg_pool);
    add(table, "_adaptive_avg_pool", rank, "d_backward" + two, of_adaptive_avg_pool);
    add(table, "adaptive_max_pool", rank, "d_backward" + two + ", Tensor indices",
        of_adaptive_max_pool);
    add(table, "fractional_max_pool", rank,
        "d_backward" + two + ints + "kernel_size" + ints + "output_size, Tensor indices",
        of_fractional_max_pool);
  }
}

} // namespace tsc::ops
