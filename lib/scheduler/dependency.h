// Dependencies: taken from bodies, compared, measured, printed.
#pragma once

#include "scheduler/schedule.h"

#include <string>
#include <unordered_map>
#include <vector>

namespace tsc::scheduler {

BufferId buffer_of(const Dependency &dependency);
void set_buffer(Dependency &dependency, BufferId buffer);
bool is_weak(const Dependency &dependency);
/// True if the index depends on a value loaded at run time.
bool is_indirect(const MemoryDep &dependency);

struct DependencyHash {
  size_t operator()(const Dependency &dependency) const;
};
/// Keeps the first of equal ones.
void remove_duplicates(std::vector<Dependency> &list);

/// The position in the loops, row-major. An index that merges beside it keeps the loops' order, so
/// a transposed read never looks like a contiguous one.
Expr running_index(const ir::LoopBody &body);

/// Reads and writes of a body, each once, in body order. Each index is normalized on its own: loops
/// that this index lets merge are merged, variables become c0, c1, ..., and trailing ones that it
/// does not mention are dropped, so that a reduction's store and a row-wise load of the same buffer
/// are equal.
struct Accesses {
  std::vector<Dependency> reads, writes;
};
Accesses find_accesses(const ir::Module &module, const ir::LoopBody &body);
/// The same over the body's own loops, renamed d0, d1, ...: nothing is merged.
Accesses find_unmerged_accesses(const ir::Module &module, const ir::LoopBody &body);

/// Sizes are expressions; where a number must be had, symbols take what the graph says they are
/// likely to be (graph::SymbolRange::hint), else this value, within their ranges.
inline constexpr int64_t kSizeHint = 1024;
int64_t size_hint(const ir::Module &module, Expr size);

/// Bytes that a dependency moves: elements that its index can reach, times the element size. A weak
/// one counts 1, so that it can break ties.
int64_t bytes_hint(const ir::Module &module, const Dependency &dependency);

/// Numbers distinct dependencies, so that sets of them are sorted lists of integers.
class DependencyTable {
public:
  explicit DependencyTable(const ir::Module &module) : module_(module) {}
  uint32_t number_of(const Dependency &dependency);
  int64_t bytes(uint32_t number) const { return bytes_[number]; }

private:
  const ir::Module &module_;
  std::unordered_map<Dependency, uint32_t, DependencyHash> numbers_;
  std::vector<int64_t> bytes_;
};

/// As in the logs; `newer_dialect` leaves out a plain mode.
std::string to_text(const ir::Module &module, const Dependency &dependency, bool newer_dialect);

} // namespace tsc::scheduler
