// Which parts of two groups become one kernel each, where one of the groups is a list or both are.
#include "scheduler/fusion.h"

#include <algorithm>

namespace tsc::scheduler {

namespace {

size_t part_count(const WorkGroup &group) { return std::max<size_t>(1, group.elements.size()); }

/// Elements of two lists one after the other. No element may wait for another element's partner:
/// blocks of one launch wait for nothing.
Refusal pair_lists(const Fusion &fusion, GroupId earlier, GroupId later,
                   std::vector<PartPair> &pairs) {
  const size_t count = fusion.group(earlier).elements.size();
  if (fusion.group(later).elements.size() != count)
    return Refusal::list_lengths;
  for (uint32_t i = 0; i < count; ++i) {
    pairs.push_back({{earlier, i}, {later, i}});
    for (const NodeId member : fusion.members({later, i}))
      for (const NodeId producer : fusion.graph.predecessors(member))
        if (fusion.graph.group_of(producer) == earlier && fusion.element_of[producer] != i)
          return Refusal::list_element;
  }
  return Refusal::none;
}

} // namespace

Refusal pair_parts(const Fusion &fusion, GroupId earlier, GroupId later,
                   std::vector<PartPair> &pairs) {
  const WorkGroup &a = fusion.group(earlier), &b = fusion.group(later);
  if (a.is_list() && b.is_list())
    return pair_lists(fusion, earlier, later, pairs);
  if (!a.is_list() && !b.is_list()) {
    pairs.push_back({{earlier, 0}, {later, 0}});
    return Refusal::none;
  }
  if ((a.is_list() ? b : a).reduces)
    return Refusal::list_reduction;
  for (uint32_t i = 0; i < part_count(a); ++i)
    for (uint32_t j = 0; j < part_count(b); ++j)
      if (fusion.is_direct({earlier, i}, {later, j}))
        pairs.push_back({{earlier, i}, {later, j}});
  return pairs.size() == 1 ? Refusal::none : Refusal::list_element;
}

} // namespace tsc::scheduler
