// Depth-first topological order without recursion.
#pragma once

#include "scheduler/state.h"

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

namespace tsc::scheduler {

/// Nodes that write what `nodes` read or await, ordered by the names of those buffers as text
/// ("buf10" before "buf9"), as the seeds' scheduler visits them. A node may come twice.
std::vector<NodeId> producers_by_name(const State &state, std::span<const NodeId> nodes);

/// `items` so that each follows its predecessors, else in the given order. Items are below `limit`;
/// `predecessors(item)` gives a list; those that equal the item or are not in `items` must be
/// visited harmlessly.
template <class Predecessors>
std::vector<uint32_t> topological_order(std::span<const uint32_t> items, size_t limit,
                                        const Predecessors &predecessors) {
  struct Frame {
    uint32_t item;
    std::vector<uint32_t> predecessors;
    size_t next = 0;
  };
  std::vector<bool> seen(limit, false);
  std::vector<uint32_t> result;
  std::vector<Frame> stack;
  result.reserve(items.size());
  for (const uint32_t root : items) {
    if (seen[root])
      continue;
    seen[root] = true;
    stack.push_back({root, predecessors(root)});
    while (!stack.empty()) {
      Frame &top = stack.back();
      if (top.next == top.predecessors.size()) {
        result.push_back(top.item);
        stack.pop_back();
        continue;
      }
      const uint32_t item = top.predecessors[top.next++];
      if (!seen[item]) {
        seen[item] = true;
        stack.push_back({item, predecessors(item)});
      }
    }
  }
  return result;
}

} // namespace tsc::scheduler
