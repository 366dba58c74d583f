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
/// Memory that is there anyway, and that nothing else uses before step `until`.
struct Lender {
  int64_t bytes = 0;
  uint32_t until = 0;
};
inline constexpr uint32_t kOwnBlock = UINT32_MAX;
struct Packing {
  std::vector<int64_t> offsets;  // by piece
  std::vector<uint32_t> lenders; // by piece: the memory that it lies in, or kOwnBlock
  int64_t bytes = 0;             // of the block
};

/// Pieces whose steps overlap never share a byte. `pieces` are in order of `first`. Two strategies,
/// the smaller result wins: largest piece first into the tightest gap (up to a few thousand
/// pieces), and in order of time into the tightest free range (n log n). Where more than a MiB is
/// lost to gaps, other orders are tried for some time. The same input gives the same packing.
///
/// Pieces that are gone before a lender's memory is used lie there, the largest first or those of
/// the fullest steps first, whichever makes the block smaller, if one does.
Packing pack(const std::vector<Piece> &pieces, const std::vector<Lender> &lenders = {});

} // namespace tsc_engine
