// Which parts of two groups become one kernel each, where one of the groups is a list or both are.
#include "scheduler/fusion.h"

#include <algorithm>

namespace tsc::scheduler {

namespace {

/// Elements of the list `later` that wait for a member of `earlier`, each once. Asked of the few
/// nodes of the group: lists may have thousands of elements.
std::vector<uint32_t> waiting_elements(const Fusion &fusion, GroupId earlier, GroupId later) {
  std::vector<uint32_t> elements;
  for (const NodeId member : fusion.graph.members(earlier))
    for (const NodeId next : fusion.graph.successors(member))
      if (fusion.graph.group_of(next) == later)
        elements.push_back(fusion.element_of[next]);
  std::sort(elements.begin(), elements.end());
  elements.erase(std::unique(elements.begin(), elements.end()), elements.end());
  return elements;
}
/// Elements of the list `earlier` that a member of `later` waits for, each once.
std::vector<uint32_t> awaited_elements(const Fusion &fusion, GroupId earlier, GroupId later) {
  std::vector<uint32_t> elements;
  for (const NodeId member : fusion.graph.members(later))
    for (const NodeId producer : fusion.graph.predecessors(member))
      if (fusion.graph.group_of(producer) == earlier)
        elements.push_back(fusion.element_of[producer]);
  std::sort(elements.begin(), elements.end());
  elements.erase(std::unique(elements.begin(), elements.end()), elements.end());
  return elements;
}

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
  const std::vector<uint32_t> elements = a.is_list() ? awaited_elements(fusion, earlier, later)
                                                     : waiting_elements(fusion, earlier, later);
  if (elements.size() != 1)
    return Refusal::list_element;
  pairs.push_back(a.is_list() ? PartPair{{earlier, elements[0]}, {later, 0}}
                              : PartPair{{earlier, 0}, {later, elements[0]}});
  return Refusal::none;
}

} // namespace tsc::scheduler
