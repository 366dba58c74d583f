#include "scheduler/turn_loops.h"

#include <cstdio>

namespace tsc::scheduler {

namespace {

/// True if all that keeps the two apart is how they walk through memory.
bool differs_in_accesses(Refusal refusal) {
  return refusal == Refusal::memory_deps_differ || refusal == Refusal::no_shared_data ||
         refusal == Refusal::low_score;
}

std::string whole_number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.0f", value);
  return text;
}

} // namespace

Verdict judge_and_turn(Fusion &fusion, GroupId earlier, GroupId later) {
  Verdict refused = judge(fusion, earlier, later);
  if (!fusion.state.policy().loop_ordering_after_fusion || !differs_in_accesses(refused.refusal) ||
      fusion.group(earlier).is_list() || fusion.group(later).is_list())
    return refused;
  Verdict best;
  double least = 0, apart = -1;
  for (const auto &[group, other] : {std::pair{earlier, later}, std::pair{later, earlier}}) {
    std::optional<TurnedLoops> turned = turn_loops(fusion, group, other);
    if (!turned)
      continue;
    if (apart < 0)
      apart = sector_bytes(fusion, {earlier}, fusion.group(earlier).nest) +
              sector_bytes(fusion, {later}, fusion.group(later).nest);
    exchange(fusion, *turned);
    Verdict verdict = judge(fusion, earlier, later);
    const double together = verdict.refusal == Refusal::none
                                ? sector_bytes(fusion, {earlier, later}, verdict.nests[0])
                                : 0;
    exchange(fusion, *turned);
    if (verdict.refusal != Refusal::none)
      continue;
    if (together >= apart) {
      refused.refusal = Refusal::loop_order;
      refused.text = "with " + turned->text + ", memory would move " + whole_number(together) +
                     " bytes; for two kernels it moves " + whole_number(apart);
    } else if (!best.turned || together < least) {
      least = together;
      best = std::move(verdict);
      best.turned = std::make_shared<TurnedLoops>(std::move(*turned));
      best.turned->text +=
          ": memory moves " + whole_number(together) + " bytes instead of " + whole_number(apart);
    }
  }
  return best.turned ? best : refused;
}

} // namespace tsc::scheduler
