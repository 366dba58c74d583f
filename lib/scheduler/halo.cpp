#include "scheduler/halo.h"

#include "templates/product/tc_product_geometry.h"

#include <algorithm>

namespace tsc::scheduler {

int reach_of(const HaloWork &work, const HaloTile &tile, size_t k) {
  const auto taps = static_cast<int>(work.kernel[k]), dilation = static_cast<int>(work.dilation[k]);
  return k == 0 ? tc_halo_pitch(tile.positions[k], taps, dilation, tile.whole_runs)
                : tc_halo_reach(tile.positions[k], taps, dilation);
}

namespace {

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

constexpr double kClock = 1.7;        // of a nanosecond
constexpr double kLineClocks = 2;     // a bulk copy brings a line of shared memory
constexpr double kTapClocks = 4;      // the same of windows, a position of one tap
constexpr double kThreadClocks = 12;  // the same by threads
constexpr double kBroughtBytes = 38;  // of a clock, that a multiprocessor gets from others
constexpr double kSharedBytes = 128;  // of a clock, of shared memory
constexpr double kSharedShare = 0.85; // of that, what is reached
constexpr double kRowClocks = 0.5;    // 64 rows of 16 terms, for each column
constexpr double kStart = 3500;       // nanoseconds: launch, first loads, last stores
constexpr double kBlockStart = 300;   // clocks of a block of positions: barriers, first results
constexpr double kFinishing = 100;    // instructions of a clock, other warps multiplying
constexpr double kOfResult = 3;       // instructions of a result that every finish has
// Of a result, clocks: on its way through shared memory to where it is stored; more where it is
// stored along the rows, in runs, in runs of 8 x 8 positions (of several squares, half sectors
// each), one by one.
constexpr double kPassing = 0.08, kRowRuns = 0.135, kSquare = 0.24, kSquares = 0.35, kSingly = 0.4;
constexpr double kAchieved = 0.88;     // of the bandwidth
constexpr double kNotOverlapped = 0.1; // of computing and memory's time, the shorter's share
constexpr int kMostSums = 128;         // registers of a thread
constexpr int kWidths[] = {16, 32, 48, 64, 80, 96, 128, 160, 192, 256}; // that wgmma has

struct Steps {
  int64_t slabs, whole, last; // steps of 16 terms: of each slab but the last, of that
};
Steps steps_of(const HaloWork &work, const HaloTile &tile) {
  const int64_t slab = tc_halo_slab_channels(tile.line), slabs = ceil_div(work.channels, slab);
  return {slabs, slab / 16, ceil_div(work.channels - (slabs - 1) * slab, 16)};
}
int64_t taps_of(const HaloWork &work) { return work.kernel[0] * work.kernel[1] * work.kernel[2]; }
int64_t weights_bytes(const HaloWork &work, const HaloTile &tile) {
  return steps_of(work, tile).slabs * taps_of(work) * tile.columns * tile.line;
}
int64_t reached(const HaloWork &work, const HaloTile &tile) {
  return int64_t{reach_of(work, tile, 0)} * reach_of(work, tile, 1) * reach_of(work, tile, 2);
}
int64_t pieces_of(const HaloWork &work, const HaloTile &tile) {
  return int64_t{tc_halo_plane_pieces(tile.positions[0], tile.positions[1], reach_of(work, tile, 0),
                                      tile.square)} *
         tile.positions[2];
}
int64_t blocks_of(const HaloWork &work, const HaloTile &tile) {
  int64_t blocks = work.samples;
  for (size_t k = 0; k < 3; ++k)
    blocks *= ceil_div(work.positions[k], tile.positions[k]);
  return blocks;
}
bool fits(const target::Target &target, const HaloWork &work, const HaloTile &tile) {
  constexpr int kMostOfBox = 256;
  for (size_t k = 0; k < 3; ++k)
    if (reach_of(work, tile, k) > kMostOfBox)
      return false;
  if (reached(work, tile) * tile.line > target.shared_bytes_per_block)
    return false;
  if (tile.square && (tile.positions[0] % 8 != 0 || tile.positions[1] % 8 != 0))
    return false;
  if (work.row_runs && tile.positions[0] % tc_product_run != 0)
    return false;
  return pieces_of(work, tile) * tile.columns / 2 <= kMostSums &&
         shared_bytes(work, tile) <= target.shared_bytes_per_block;
}
double memory_time(const target::Target &target, const HaloWork &work) {
  return static_cast<double>(work.bytes) / (target.bandwidth * 1e-9 * kAchieved);
}
double tile_nanoseconds(const target::Target &target, const HaloWork &work, const HaloTile &tile) {
  const Steps steps = steps_of(work, tile);
  const auto columns = static_cast<double>(tile.columns);
  const auto pieces = static_cast<double>(pieces_of(work, tile));
  const auto products =
      static_cast<double>(((steps.slabs - 1) * steps.whole + steps.last) * taps_of(work)) * pieces;
  // Matrix units read both factors, and results pass, through the same memory.
  const double read = products * (64 + columns) * 32 / kSharedBytes,
               results = pieces * tc_product_group_rows * columns;
  const double apart = !work.along_rows         ? 0
                       : !work.row_runs         ? kSingly
                       : !tile.square           ? kRowRuns
                       : tile.positions[0] == 8 ? kSquare
                                                : kSquares;
  const double passing = results * (kPassing + apart);
  const double multiply =
      std::max(products * columns * kRowClocks, (read + passing) / kSharedShare);
  const auto lines = static_cast<double>(steps.slabs * reached(work, tile));
  const double bring = std::max(lines * kLineClocks, lines * tile.line / kBroughtBytes);
  const double finish = results * (kOfResult + static_cast<double>(work.instructions)) / kFinishing;
  const double block =
      std::max({multiply, bring, finish, (multiply + finish) / 2}) + kBlockStart / 2;
  const int64_t parts = column_parts(work, tile),
                places = std::max<int64_t>(1, target.multiprocessors / parts),
                each = ceil_div(blocks_of(work, tile), places);
  const double first = bring + static_cast<double>(weights_bytes(work, tile)) / kBroughtBytes,
               last = each > 1 ? finish : multiply + finish;
  const double memory = memory_time(target, work);
  const double compute = (first + static_cast<double>(each) * block + last) / kClock;
  return kStart + std::max(memory, compute) + kNotOverlapped * std::min(memory, compute);
}

} // namespace

int64_t column_parts(const HaloWork &work, const HaloTile &tile) {
  return ceil_div(work.columns, tile.columns);
}
int64_t shared_bytes(const HaloWork &work, const HaloTile &tile) {
  return tc_halo_bytes(tile.line, static_cast<int>(reached(work, tile)), tile.stages,
                       static_cast<int>(weights_bytes(work, tile)), tile.columns);
}

HaloChoice halo_choice(const target::Target &target, const HaloWork &work) {
  constexpr int kMostParts = 4, kMostStages = 4;
  constexpr int kDown[] = {1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 24, 32},
                kDeep[] = {1, 2, 3, 4, 6, 8};
  HaloChoice best;
  if (!target.has_wgmma || work.channels < 8 || taps_of(work) < 2)
    return best;
  const auto try_tile = [&](const HaloTile &tile) {
    if (!fits(target, work, tile))
      return;
    const double time = tile_nanoseconds(target, work, tile);
    if (best.nanoseconds == 0 || time < best.nanoseconds)
      best = {tile, time};
  };
  int last_columns = 0;
  for (int parts = 1; parts <= kMostParts; ++parts)
    for (const int columns : kWidths) {
      if (columns < ceil_div(work.columns, parts))
        continue;
      if (columns == last_columns)
        break;
      last_columns = columns;
      for (const int line : {128, 64, 32}) {
        HaloTile tile;
        tile.line = line;
        tile.columns = columns;
        const Steps steps = steps_of(work, tile);
        if ((line < 128 && steps.slabs > 4) || (line > 32 && work.channels <= line / 4) ||
            weights_bytes(work, tile) > target.shared_bytes_per_block)
          continue;
        for (int across = 1; across <= 8; ++across)
          for (const bool parts_of_line : {true, false}) // else multiples of eight
            for (const int down : kDown)
              for (const int deep : kDeep) {
                const auto width = static_cast<int>(
                    parts_of_line ? ceil_div(work.positions[0], across) : across * 8);
                if (width < 4 || width > 254 || down > work.positions[1] + 7 ||
                    deep > work.positions[2])
                  break;
                tile.positions = {width, down, deep};
                for (const bool square : {false, true}) {
                  tile.square = square;
                  tile.whole_runs = work.row_runs && !square && down * deep > 1;
                  try_tile(tile);
                }
              }
      }
      break;
    }
  HaloTile more = best.tile;
  for (; best.nanoseconds > 0 && more.stages <= kMostStages && fits(target, work, more);
       ++more.stages)
    best.tile = more;
  return best;
}

double taps_nanoseconds(const target::Target &target, const HaloWork &work,
                        const ProductTile &product, int parts) {
  constexpr int64_t kStepTerms = 64;
  const int64_t positions =
                    work.samples * work.positions[0] * work.positions[1] * work.positions[2],
                tiles = ceil_div(positions, product.rows) * ceil_div(work.columns, product.columns),
                each = ceil_div(tiles * product.splits, target.multiprocessors),
                steps =
                    ceil_div(ceil_div(work.channels * taps_of(work), kStepTerms), product.splits);
  const double rows = product.rows, columns = product.columns;
  const double brought = (rows + columns) * tc_product_line / kBroughtBytes,
               copied = rows * (parts > 0 ? parts * kTapClocks : kThreadClocks),
               multiplied = 4 * rows / 64 * columns * kRowClocks;
  const double apart = !work.along_rows ? 0 : !work.row_runs ? kSingly : kRowRuns;
  const double tile = static_cast<double>(steps) * std::max({brought, copied, multiplied}) +
                      rows * columns * (kPassing + apart);
  const double compute = static_cast<double>(each) * tile / kClock,
               memory = memory_time(target, work);
  return kStart + std::max(memory, compute) + kNotOverlapped * std::min(memory, compute);
}

} // namespace tsc::scheduler
