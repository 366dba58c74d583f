#include "driver/group_cost.h"

#include <algorithm>

namespace tsc::driver {

scheduler::Cost expected_cost(const program::Program &program, const GroupOfSchedule &of,
                              const std::vector<uint32_t> &kernels, const target::Target &target) {
  scheduler::Cost cost = scheduler::cost_of(of.module, of.schedule, of.group, target);
  double planned = 0;
  for (const uint32_t kernel : kernels) {
    const program::KernelEstimate &estimate = program.kernels[kernel].estimate;
    if (estimate.is_known && of.group.list == ir::kNone) // else the launch is that of others, too
      planned += estimate.planned() + scheduler::kernel_nanoseconds(target, 0);
  }
  cost.nanoseconds = std::max(cost.nanoseconds, planned);
  return cost;
}

} // namespace tsc::driver
