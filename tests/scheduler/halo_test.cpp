// Blocks of positions of convolutions whose inputs stay in shared memory: what is chosen fits.
#include "scheduler/halo.h"
#include "templates/product/tc_product_geometry.h"
#include "testing/catch.h"

#include <random>

using namespace tsc;
using scheduler::HaloChoice;
using scheduler::HaloTile;
using scheduler::HaloWork;

namespace {

const target::Target &hopper() { return *target::nearest_target("sm_90"); }

HaloWork layer(int64_t channels, int64_t columns, int64_t size, int64_t taps) {
  HaloWork work;
  work.channels = channels;
  work.columns = columns;
  work.positions = {size, size, 1};
  work.kernel = {taps, taps, 1};
  work.samples = 16;
  work.bytes = 2 * work.samples * size * size * (channels + columns);
  return work;
}

} // namespace

TEST_CASE("blocks of positions fit what a block of the grid has") {
  std::mt19937 random(7);
  const auto between = [&random](int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random);
  };
  int found = 0;
  for (int i = 0; i < 60; ++i) {
    HaloWork work = layer(8 * between(1, 20), between(1, 200), between(1, 130), between(1, 5));
    if (i % 3 == 0) {
      work.positions[2] = between(1, 40);
      work.kernel[2] = between(1, 3);
    }
    work.dilation = {between(1, 3), between(1, 3), 1};
    if (i % 10 == 0) // windows that reach far
      work.dilation = {50, 60, 80};
    work.along_rows = i % 2 == 0;
    work.row_runs = work.along_rows && work.positions[0] % 8 == 0;
    const HaloChoice choice = scheduler::halo_choice(hopper(), work);
    if (choice.nanoseconds == 0)
      continue;
    ++found;
    const HaloTile &tile = choice.tile;
    INFO(work.channels << " to " << work.columns << ", " << work.positions[0] << " x "
                       << work.positions[1] << " x " << work.positions[2] << ": "
                       << tile.positions[0] << " x " << tile.positions[1] << " x "
                       << tile.positions[2] << ", " << tile.columns << " columns, lines of "
                       << tile.line);
    CHECK(scheduler::shared_bytes(work, tile) <= hopper().shared_bytes_per_block);
    CHECK(scheduler::column_parts(work, tile) * tile.columns >= work.columns);
    CHECK(tile.columns % 16 == 0);
    CHECK(tile.stages >= 2);
    const int pitch = scheduler::reach_of(work, tile, 0);
    for (size_t k = 0; k < 3; ++k)
      CHECK(scheduler::reach_of(work, tile, k) <= 256); // of a box
    const int pieces =
        tc_halo_plane_pieces(tile.positions[0], tile.positions[1], pitch, tile.square) *
        tile.positions[2];
    CHECK(pieces * tile.columns / 2 <= 128); // sums of a thread
    if (tile.square)
      CHECK((tile.positions[0] % 8 == 0 && tile.positions[1] % 8 == 0));
    if (work.row_runs) {
      CHECK(tile.positions[0] % 8 == 0);
      if (!tile.square && tile.positions[1] * tile.positions[2] > 1)
        CHECK(pitch % 8 == 0); // 8 rows of the product are one row's positions
    }
  }
  CHECK(found >= 40);
}

TEST_CASE("weights that shared memory does not hold, and one tap, have no such kernel") {
  CHECK(scheduler::halo_choice(hopper(), layer(512, 512, 28, 3)).nanoseconds == 0);
  CHECK(scheduler::halo_choice(hopper(), layer(64, 64, 56, 1)).nanoseconds == 0);
  CHECK(
      scheduler::halo_choice(*target::nearest_target("sm_80"), layer(64, 64, 56, 3)).nanoseconds ==
      0);
}

// H200: 80 to 16 channels of 512 x 512 took 0.030 ms, and 0.13 tap by tap; 64 to 128 of 28 x 28
// took 0.019 both ways.
TEST_CASE("few channels are worth it, many are not") {
  const auto gain = [](const HaloWork &work, int columns) {
    scheduler::ProductTile tile;
    tile.columns = columns;
    tile.groups = true;
    const int parts = tc_parts_of_line(2, work.channels, work.bytes);
    return scheduler::taps_nanoseconds(hopper(), work, tile, parts) /
           scheduler::halo_choice(hopper(), work).nanoseconds;
  };
  CHECK(gain(layer(16, 16, 224, 3), 64) > 2);
  CHECK(gain(layer(32, 32, 112, 3), 64) > 1.5);
  CHECK(gain(layer(64, 128, 28, 3), 128) < 1.3);
}
