#include "scheduler/product_cost.h"

#include <algorithm>

namespace tsc::scheduler {

namespace {

// Measured on an H200 with tests of the template alone, 16-bit floats (docs/templates.md).
constexpr double kLibraryFlops = 650e3; // a nanosecond
constexpr double kLibraryStart = 5000;  // nanoseconds: launch, first loads, last stores
constexpr double kKernelStart = 2500;
constexpr double kTemplateStart = 3500;
constexpr double kRoundStart = 500;         // of each round of blocks
constexpr double kAchievedBandwidth = 0.85; // of the data sheet, kernels and the library
// A block loads, multiplies and stores one after the other: alone on its multiprocessor it leaves
// memory idle most of the time.
constexpr double kAloneBandwidth = 0.32, kSharedBandwidth = 0.65;
constexpr double kNotOverlapped = 0.1; // of computing and memory's time, the shorter's share
constexpr double kLanesANanosecond = 128 * 1.4; // of a multiprocessor

struct Measured {
  ProductTile tile;
  double flops; // a nanosecond, all multiprocessors of an H200 (132)
};
constexpr Measured kTiles[] = {
    {{128, 256, 4, 0, 1}, 560e3},
    {{128, 128, 3, 0, 2}, 460e3},
    {{256, 128, 4, 1, 1}, 470e3},
    {{128, 64, 4, 0, 2}, 320e3},
};
constexpr double kMultiprocessors = 132; // of the H200 that these were measured on

double memory_nanoseconds(const target::Target &target, int64_t bytes, double achieved) {
  return static_cast<double>(bytes) / (target.bandwidth * 1e-9 * achieved);
}
double flops_of(const ProductWork &work) {
  return 2.0 * static_cast<double>(work.rows) * static_cast<double>(work.columns) *
         static_cast<double>(work.terms);
}

double template_nanoseconds(const target::Target &target, const Measured &way,
                            const ProductWork &work) {
  const auto ceil_div = [](int64_t a, int64_t b) { return (a + b - 1) / b; };
  const ProductTile &tile = way.tile;
  const int64_t blocks = ceil_div(work.rows, tile.rows) * ceil_div(work.columns, tile.columns);
  const double rate = way.flops / kMultiprocessors; // of a multiprocessor
  const double block = 2.0 * tile.rows * tile.columns * static_cast<double>(work.terms) / rate;
  const double finish = static_cast<double>(work.rows) * static_cast<double>(work.columns) *
                        static_cast<double>(work.instructions) /
                        (kLanesANanosecond * target.multiprocessors);
  // Blocks that share a multiprocessor take turns: two of them take twice as long as one.
  const auto rounds = static_cast<double>(ceil_div(blocks, target.multiprocessors));
  const double compute = rounds * block + rounds / tile.blocks * kRoundStart + finish;
  const double memory =
      memory_nanoseconds(target, work.bytes, tile.blocks > 1 ? kSharedBandwidth : kAloneBandwidth);
  return kTemplateStart + std::max(compute, memory) + kNotOverlapped * std::min(compute, memory);
}

} // namespace

double library_nanoseconds(const target::Target &target, const ProductWork &work) {
  return kLibraryStart + std::max(flops_of(work) / kLibraryFlops,
                                  memory_nanoseconds(target, work.bytes, kAchievedBandwidth));
}

double kernel_nanoseconds(const target::Target &target, int64_t bytes) {
  return kKernelStart + memory_nanoseconds(target, bytes, kAchievedBandwidth);
}

std::vector<ProductWay> template_ways(const target::Target &target, const ProductWork &work) {
  std::vector<ProductWay> ways;
  for (const Measured &measured : kTiles)
    ways.push_back({std::to_string(measured.tile.rows) + " x " +
                        std::to_string(measured.tile.columns) + " results a block",
                    measured.tile, template_nanoseconds(target, measured, work)});
  std::stable_sort(ways.begin(), ways.end(), [](const ProductWay &a, const ProductWay &b) {
    return a.nanoseconds < b.nanoseconds;
  });
  return ways;
}

} // namespace tsc::scheduler
