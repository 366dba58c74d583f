// Products and collectives beside each other.
#include "scheduler/cost.h"

#include <algorithm>
#include <cmath>

namespace tsc::scheduler {

namespace {

constexpr double kNanoseconds = 1e9;
/// From one rank's send to the next one's receipt, between GPUs of a host. An assumption: measured
/// figures of small messages are one to a few microseconds.
constexpr double kLinkLatency = 1e-6;
/// Until a collective of a few bytes is done whose step is one of a CUDA graph: two H100s.
constexpr double kCollectiveStart = 10e3;
/// Multiprocessors that NCCL's kernels take from what is computed meanwhile.
constexpr double kLinkMultiprocessors = 16;
/// A matrix library's tiles, by which a product of few rows leaves multiprocessors idle.
constexpr int64_t kTile = 128;

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

double product_nanoseconds(const target::Target &target, const SentProduct &product, int64_t rows) {
  const double elements = static_cast<double>(
      rows * product.terms + product.terms * product.columns + rows * product.columns);
  const auto tiles = static_cast<double>(ceil_div(rows, kTile) * ceil_div(product.columns, kTile));
  const double waves = std::max(1.0, std::ceil(tiles / target.multiprocessors));
  const double share = tiles / (waves * target.multiprocessors);
  const double operations = 2.0 * static_cast<double>(rows) * static_cast<double>(product.terms) *
                            static_cast<double>(product.columns);
  return library_nanoseconds(target,
                             elements * static_cast<double>(tensor::size_in_bytes(product.dtype)),
                             operations / share, product.dtype);
}

} // namespace

double sending_nanoseconds(const target::Target &target, double bytes, int64_t ranks) {
  const double sending = target.link_bandwidth > 0 ? bytes / target.link_bandwidth : 0;
  return (sending + static_cast<double>(ranks - 1) * kLinkLatency) * kNanoseconds;
}

Pieces pieces_of(const target::Target &target, const SentProduct &product, int64_t most,
                 double share) {
  Pieces best;
  best.computing = product_nanoseconds(target, product, product.rows);
  best.sending = kCollectiveStart + sending_nanoseconds(target, product.sent, product.ranks);
  best.whole = best.computing + std::max(0.0, best.sending - product.beside);
  for (int64_t count = 2; count <= std::min(most, product.cut_rows); ++count) {
    const double piece = product_nanoseconds(target, product, ceil_div(product.rows, count));
    const double sent =
        kCollectiveStart +
        sending_nanoseconds(target, product.sent / static_cast<double>(count), product.ranks);
    const double slower =
        kLinkMultiprocessors / std::max(1.0, target.multiprocessors - kLinkMultiprocessors);
    const double both = std::max(sent, piece + slower * std::min(sent, piece));
    const double time = piece + static_cast<double>(count - 1) * both +
                        std::max(0.0, sent - product.beside) +
                        (product.copied > 0 ? kernel_nanoseconds(target, product.copied) : 0);
    if (best.in_pieces != 0 && time >= best.in_pieces)
      continue;
    best.in_pieces = time;
    best.count = time <= share * best.whole ? count : 1;
  }
  return best;
}

} // namespace tsc::scheduler
