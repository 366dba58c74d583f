// What a product's kernel is told of windows whose inputs stay in shared memory for all taps
// (templates/product/tc_product_halo.h): which blocks of positions, maps and text.
#pragma once

#include "codegen/window_map.h"
#include "scheduler/halo.h"

#include <array>
#include <optional>
#include <string>

namespace tsc::codegen {

struct HaloPlan {
  scheduler::HaloWork work;
  scheduler::HaloTile tile;
  double nanoseconds = 0, taps = 0; // expected; of the same with windows brought tap by tap
};

/// The plan, where it is expected to be faster than windows in `product`'s tile. `work`: but for
/// what `windows` say, of which sizes are what is likely. Nothing for steps other than one.
std::optional<HaloPlan> plan_halo(const ir::Module &module, const target::Target &target,
                                  const WindowMap &windows, scheduler::HaloWork work,
                                  const scheduler::ProductTile &product);

/// "8 x 16 positions and 64 columns at a time, ...", for `rank` dimensions.
std::string words_of(const HaloPlan &plan, size_t rank);
std::array<Expr, 3> grid_of(const HaloPlan &plan, const WindowMap &windows,
                            const target::Target &target);

/// Boxes of what windows slide over: channels of a slab, positions of three dimensions, one sample.
program::TensorMap map_of_inputs(const HaloPlan &plan, const WindowMap &windows);
/// Boxes of one tap of all columns, `map` being the matrix, [terms, columns]: what is behind a
/// tap's last channel is zero.
program::TensorMap map_of_weights(const HaloPlan &plan, program::TensorMap map);

/// Defines `tile`, the template's first argument, and asserts what the launch has.
std::string tile_text(const HaloPlan &plan);
/// Of windows of `rank` dimensions: three numbers each, those of dimensions that are not there 1
/// and 0: positions, as `print` writes them, and padding.
template <class Print> std::string places_text(const WindowMap &windows, const Print &print) {
  std::string positions, padding;
  for (size_t k = 0; k < 3; ++k) {
    const bool is_there = k < windows.kernel.size();
    positions += (k > 0 ? ", " : "") + (is_there ? print(windows.positions[k]) : "1");
    padding += (k > 0 ? ", " : "") + std::to_string(is_there ? windows.padding[k] : 0);
  }
  return "{" + positions + "}, {" + padding + "}, " + print(windows.map.sizes.back());
}

} // namespace tsc::codegen
