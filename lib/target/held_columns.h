// Which columns a thread holds in registers: the scheduler fuses readers of a column for it, and
// the planner gives such columns a thread each.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tsc::target {

constexpr int64_t kLongestHeldColumn = 64;   // elements; the loop over them is unrolled
constexpr int64_t kFewestHeldColumns = 2048; // that are worth a thread each
constexpr int64_t kHeldColumnRegisters = 64; // of 32 bits, for a column's loads
/// The same for what a thread keeps of them and of what it computed, from one walk to the next.
constexpr int64_t kKeptColumnRegisters = 128;

/// Longer columns that the threads of a block hold together: registers of a column, of which a
/// block has room for 16 at least, and columns that give every multiprocessor some blocks.
constexpr int64_t kSharedColumnRegisters = 1536, kFewestSharedColumns = 32; // a multiprocessor

/// Registers of 32 bits for an element of `bytes`.
constexpr int64_t registers_of(size_t bytes) { return bytes > 4 ? 2 : 1; }

} // namespace tsc::target
