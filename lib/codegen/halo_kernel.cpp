#include "codegen/halo_kernel.h"

#include "codegen/likely_sizes.h"
#include "scheduler/cost.h"
#include "templates/product/tc_product_geometry.h"

#include <algorithm>

namespace tsc::codegen {

std::optional<HaloPlan> plan_halo(const ir::Module &module, const target::Target &target,
                                  const WindowMap &windows, scheduler::HaloWork work,
                                  const scheduler::ProductTile &product) {
  constexpr double kWorthIt = 0.95;
  if (std::any_of(windows.stride.begin(), windows.stride.end(),
                  [](int64_t stride) { return stride != 1; }))
    return std::nullopt;
  work.channels = windows.channels;
  for (size_t k = 0; k < windows.kernel.size(); ++k) {
    work.positions[k] = likely(module, windows.positions[k]).value_or(1);
    work.kernel[k] = windows.kernel[k];
    work.dilation[k] = windows.dilation[k];
  }
  work.samples = likely(module, windows.map.sizes.back()).value_or(1);
  const double taps = scheduler::taps_nanoseconds(target, work, product, windows.parts);
  work.row_runs = work.row_runs &&
                  symbolic::known_multiple_of(windows.positions[0], tc_product_run, module.ranges);
  const scheduler::HaloChoice choice = scheduler::halo_choice(target, work);
  if (choice.nanoseconds == 0 || choice.nanoseconds >= kWorthIt * taps)
    return std::nullopt;
  return HaloPlan{work, choice.tile, choice.nanoseconds, taps};
}

std::string words_of(const HaloPlan &plan, size_t rank) {
  std::string block;
  for (size_t k = rank; k-- > 0;)
    block += std::to_string(plan.tile.positions[k]) + (k > 0 ? " x " : "");
  return block + " positions and " + std::to_string(plan.tile.columns) +
         " columns at a time, what windows slide over brought once, " +
         std::to_string(tc_halo_slab_channels(plan.tile.line)) + " channels a step (" +
         scheduler::microseconds(plan.nanoseconds) + ", tap by tap " +
         scheduler::microseconds(plan.taps) + ")";
}

std::array<Expr, 3> grid_of(const HaloPlan &plan, const WindowMap &windows,
                            const target::Target &target) {
  Expr blocks = windows.map.sizes.back();
  for (size_t k = 0; k < windows.kernel.size(); ++k)
    blocks = blocks * symbolic::ceil_div(windows.positions[k], Expr(plan.tile.positions[k]));
  const int64_t parts = scheduler::column_parts(plan.work, plan.tile),
                places = std::max<int64_t>(1, target.multiprocessors / parts);
  return {Expr(parts) * symbolic::minimum(blocks, Expr(places)), Expr(1), Expr(1)};
}

program::TensorMap map_of_inputs(const HaloPlan &plan, const WindowMap &windows) {
  program::TensorMap map = windows.map;
  const Expr samples = map.sizes.back(), step = map.strides.back();
  map.sizes.resize(windows.kernel.size() + 1);
  map.strides.resize(windows.kernel.size() + 1);
  map.sizes.resize(4, Expr(1)); // dimensions that are not there
  map.strides.resize(4, step);
  map.sizes.push_back(samples);
  map.strides.push_back(step);
  map.box = {tc_halo_slab_channels(plan.tile.line)};
  for (size_t k = 0; k < 3; ++k)
    map.box.push_back(scheduler::reach_of(plan.work, plan.tile, k));
  map.box.push_back(1);
  map.lower.clear();
  map.upper.clear();
  map.step.clear();
  return map;
}

program::TensorMap map_of_weights(const HaloPlan &plan, program::TensorMap map) {
  const Expr terms = map.sizes[0], columns = map.sizes[1], line = map.strides[1],
             channels = Expr(plan.work.channels);
  map.sizes = {channels, symbolic::floor_div(terms, channels), columns};
  map.strides = {Expr(1), channels, line};
  map.box = {tc_halo_slab_channels(plan.tile.line), 1, plan.tile.columns};
  return map;
}

std::string tile_text(const HaloPlan &plan) {
  const auto extents = [](const auto &values) {
    return "tc_halo_extents<" + std::to_string(values[0]) + ", " + std::to_string(values[1]) +
           ", " + std::to_string(values[2]) + ">";
  };
  const scheduler::HaloTile &tile = plan.tile;
  return "  using tile = tc_halo_tile<" + std::to_string(plan.work.channels) + ", " +
         std::to_string(tile.line) + ", " + std::to_string(tile.columns) + ", " +
         std::to_string(tile.stages) + ", " + extents(tile.positions) + ", " +
         extents(plan.work.kernel) + ", " + extents(plan.work.dilation) + ", " +
         (tile.square ? "true" : "false") + (tile.whole_runs ? ", true" : "") +
         ">;\n  static_assert(tc_product_all_threads == " + std::to_string(tc_product_all_threads) +
         " && tile::shared_bytes == " + std::to_string(scheduler::shared_bytes(plan.work, tile)) +
         ", \"as the launch has it\");\n";
}

} // namespace tsc::codegen
