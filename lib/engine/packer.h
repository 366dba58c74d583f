// Places pieces of memory with known sizes and lifetimes into one block.
#pragma once

#include <cstdint>
#include <vector>

namespace tsc_engine {

/// Every piece starts at a multiple of this (enough for any vector load, TMA and cuBLASLt).
inline constexpr int64_t kPieceAlignment = 256;

struct Piece {
  int64_t bytes = 0;
  uint32_t first = 0, last = 0; // steps that use it, inclusive
};
struct Packing {
  std::vector<int64_t> offsets; // by piece
  int64_t bytes = 0;            // of the block
};

/// Pieces whose steps overlap never share a byte. `pieces` are in order of `first`. Two strategies,
/// the smaller result wins: largest piece first into the tightest gap (up to a few thousand
/// pieces), and in order of time into the tightest free range (n log n). The same input gives the
/// same packing.
Packing pack(const std::vector<Piece> &pieces);

} // namespace tsc_engine
