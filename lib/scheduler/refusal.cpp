#include "scheduler/schedule.h"

namespace tsc::scheduler {

std::string_view to_string(Refusal refusal) {
  switch (refusal) {
  case Refusal::none:
    return "fused";
  case Refusal::not_loops:
    return "a library call or a node that only allocates";
  case Refusal::order:
    return "the second must run before the first";
  case Refusal::no_shared_data:
    return "no shared data";
  case Refusal::device:
    return "different devices";
  case Refusal::too_large:
    return "the kernel would hold too many operations";
  case Refusal::reduction_shapes:
    return "loops and reduction loops do not match";
  case Refusal::shapes:
    return "loops do not match";
  case Refusal::memory_deps_differ:
    return "what is read is not what is written at the same place";
  case Refusal::intermediate_nodes:
    return "a node between them must run in between";
  case Refusal::cycle:
    return "kernels would wait for each other";
  case Refusal::far_apart:
    return "too far apart";
  case Refusal::peak_memory:
    return "peak memory would grow";
  case Refusal::atomic:
    return "an atomic addition must be complete before it is read";
  case Refusal::low_score:
    return "too few shared bytes";
  case Refusal::list_lengths:
    return "lists of different lengths";
  case Refusal::list_reduction:
    return "a list and a reduction";
  case Refusal::list_element:
    return "not one element of a list for one of the other";
  case Refusal::list_order:
    return "an element of the list waits for another";
  case Refusal::large_kernel:
    return "a kernel that fills the machine is launched alone";
  case Refusal::weights_only:
    return "one runs once, when weights are loaded, the other every time";
  case Refusal::loop_order:
    return "no order of loops walks through memory in runs";
  case Refusal::no_template:
    return "no kernel of ours computes both";
  case Refusal::slower:
    return "one kernel takes longer than two";
  }
  return "";
}

} // namespace tsc::scheduler
