#include "scheduler/fusion.h"

#include <algorithm>

namespace tsc::scheduler {

namespace {

std::string name_of(const Fusion &fusion, Part part) {
  std::string name;
  for (const NodeId member : fusion.members(part))
    name += (name.empty() ? "" : "_") + fusion.state.operation(member).name;
  return name;
}

std::string loops_of(const WorkGroup &group) {
  std::string text = "(";
  text += symbolic::print(group.numel);
  text += ", ";
  text += symbolic::print(group.reduction_numel);
  return text + ")";
}

/// The first access of `later` to a buffer that `earlier` writes, and the write.
std::string first_difference(const Fusion &fusion, Part earlier, Part later) {
  const ir::Module &module = fusion.state.module;
  for (const NodeId member : fusion.members(later)) {
    for (const Dependency &read : fusion.node(member).reads) {
      const NodeId producer = fusion.state.producer[buffer_of(read)];
      if (producer == ir::kNone || !fusion.holds(earlier, producer))
        continue;
      for (const Dependency &write : fusion.node(producer).writes) {
        if (buffer_of(write) == buffer_of(read) && !(write == read))
          return "it reads " + to_text(module, read, true) + ", what is written is " +
                 to_text(module, write, true);
      }
    }
  }
  return "it mutates what the other reads elsewhere";
}

} // namespace

std::string name_of(const Fusion &fusion, GroupId id) {
  const WorkGroup &group = fusion.group(id);
  if (!group.is_list())
    return name_of(fusion, Part{id, 0});
  return "the list of " + fusion.state.schedule.lists[group.list].made_by + " (" +
         std::to_string(group.elements.size()) +
         (group.elements.size() == 1 ? " element)" : " elements)");
}

std::string explain(const Fusion &fusion, GroupId earlier, GroupId later, const Verdict &verdict) {
  // Of two lists the first elements that differ are named.
  const bool apart = verdict.refusal != Refusal::none && verdict.pairs.size() == 1;
  const Part one = apart ? verdict.pairs[0].earlier : Part{earlier, 0},
             other = apart ? verdict.pairs[0].later : Part{later, 0};
  const WorkGroup &a = fusion.work(one), &b = fusion.work(other);
  const std::string pair = (apart ? name_of(fusion, one) + " and " + name_of(fusion, other)
                                  : name_of(fusion, earlier) + " and " + name_of(fusion, later)) +
                           ": ";
  switch (verdict.refusal) {
  case Refusal::none:
    return pair + "share " + std::to_string(verdict.shared_bytes) + " bytes" +
           (verdict.text.empty() ? "" : ", " + verdict.text);
  case Refusal::shapes:
  case Refusal::reduction_shapes:
    return pair + "loops " + loops_of(a) + " and " + loops_of(b) + " do not match";
  case Refusal::device:
    return pair + tensor::to_string(a.device) + " and " + tensor::to_string(b.device);
  case Refusal::too_large:
    return pair + std::to_string(fusion.members(one).size()) + " and " +
           std::to_string(fusion.members(other).size()) + " operations, at most " +
           std::to_string(fusion.state.policy().max_fusion_size) + " go into one kernel";
  case Refusal::memory_deps_differ:
  case Refusal::atomic:
    return pair + first_difference(fusion, one, other);
  case Refusal::intermediate_nodes:
  case Refusal::cycle:
    return pair + name_of(fusion, verdict.between) + " waits for the first, and the second for it";
  case Refusal::far_apart:
    return pair + std::to_string(Fusion::distance(a, b)) + " operations apart, at most " +
           std::to_string(fusion.state.policy().max_distance);
  case Refusal::low_score:
    return pair + std::to_string(verdict.shared_bytes) + " shared bytes, at least " +
           std::to_string(fusion.state.policy().fusion_memory_threshold) + " are asked";
  case Refusal::loop_order:
    return pair + verdict.text;
  case Refusal::slower:
    return pair + verdict.text;
  default:
    return pair + std::string(to_string(verdict.refusal));
  }
}

} // namespace tsc::scheduler
