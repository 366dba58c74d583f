// Which blocks of positions a convolution in steps of one is computed in, where its inputs stay in
// shared memory for all taps (templates/product/tc_product_halo.h), and how long that takes.
#pragma once

#include "scheduler/schedule.h"
#include "target/target.h"

#include <array>
#include <cstdint>

namespace tsc::scheduler {

/// A convolution of 16-bit floats as a product: positions by outputs. Of dimensions the innermost
/// first, three of them, those that are not there of size 1.
struct HaloWork {
  int64_t channels = 0, columns = 0; // in; outputs
  std::array<int64_t, 3> positions = {1, 1, 1}, kernel = {1, 1, 1}, dilation = {1, 1, 1};
  int64_t samples = 1;
  int64_t bytes = 0;        // that pass through memory
  int64_t instructions = 0; // for each result, after the sums are there
  /// Results are stored along the innermost positions, in runs of 8 of them (`row_runs`) or one by
  /// one.
  bool along_rows = false, row_runs = false;
};
/// The template's arguments.
struct HaloTile {
  int line = 128, columns = 64; // bytes of a slab's channels; outputs of a block of the grid
  int stages = 2;               // of each of the two groups that multiply
  std::array<int, 3> positions = {1, 1, 1};
  bool square = false;     // pieces of 8 x 8 positions
  bool whole_runs = false; // 8 rows of the product are neighbouring positions
};
/// Positions of dimension `k` that a block's windows reach, as they lie in shared memory.
int reach_of(const HaloWork &work, const HaloTile &tile, size_t k);
struct HaloChoice {
  HaloTile tile;
  double nanoseconds = 0; // 0: weights, or no block of positions, fit in shared memory
};
/// The fastest.
HaloChoice halo_choice(const target::Target &target, const HaloWork &work);
/// Dynamic shared memory of a block, bytes.
int64_t shared_bytes(const HaloWork &work, const HaloTile &tile);
/// Blocks of positions times parts of the columns, at most so many blocks of the grid have work.
int64_t column_parts(const HaloWork &work, const HaloTile &tile);
/// The same convolution where windows come tap by tap, in nanoseconds: lines of 128 bytes brought
/// in `parts` copies each; 0: by threads.
double taps_nanoseconds(const target::Target &target, const HaloWork &work, const ProductTile &tile,
                        int parts);

} // namespace tsc::scheduler
