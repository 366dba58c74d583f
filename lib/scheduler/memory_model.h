// What of the program's own memory is alive while groups run in some order.
#pragma once

#include "scheduler/state.h"

#include <cstdint>
#include <vector>

namespace tsc::scheduler {

/// Storages that the program allocates between its steps. Not among them: inputs and constants,
/// what the caller gets (memory of the caller's), what stays inside a group (never stored), and
/// what depends on weights alone (computed once, kept for all runs).
struct MemoryModel {
  struct Storage {
    int64_t bytes = 0;
    /// Groups that write to it: the first of them to run allocates it. Several where they fill
    /// slices, or change it.
    std::vector<uint32_t> makers;
    std::vector<uint32_t> users; // groups that need it, the makers too; ascending, each once
    bool stays = false;          // until the last group: the new value of an input
  };
  /// An output may take over an input's memory, if that dies in the group. Pairs of one output
  /// follow one another: the first that may is taken.
  struct Takeover {
    uint32_t output = 0, input = 0; // storages
  };
  std::vector<Storage> storages;
  // By group:
  std::vector<std::vector<uint32_t>> makes, uses; // storages; uses: those that it makes too
  std::vector<std::vector<Takeover>> takeovers;
  std::vector<int64_t> made_bytes; // if it is the first of all makers
};

/// Of the groups as fusion leaves them.
MemoryModel make_memory_model(const State &state);
/// The most bytes alive at once if groups run in `order`: what a group makes is alive beside all
/// that it uses, but for an output that takes over memory.
int64_t peak_bytes(const MemoryModel &model, const std::vector<uint32_t> &order);
/// By place in `order`: the bytes alive while that group runs.
std::vector<int64_t> alive_bytes(const MemoryModel &model, const std::vector<uint32_t> &order);

} // namespace tsc::scheduler
