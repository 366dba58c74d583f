#include "driver/group_cost.h"

#include "scheduler/dependency.h"

#include <algorithm>

namespace tsc::driver {

scheduler::Cost expected_cost(const program::Program &program, const GroupOfSchedule &of,
                              const std::vector<uint32_t> &kernels, const target::Target &target) {
  scheduler::Cost cost = scheduler::cost_of(of.module, of.schedule, of.group, target);
  double planned = 0;
  for (const uint32_t number : kernels) {
    const program::Kernel &kernel = program.kernels[number];
    const program::KernelEstimate &estimate = kernel.estimate;
    const bool runs = scheduler::size_hint(of.module, kernel.cuda.grid[0]) > 0; // at likely sizes
    // Of a list, the launch is that of others, too.
    if (estimate.is_known && runs && of.group.list == ir::kNone)
      planned += estimate.planned() + scheduler::kernel_nanoseconds(target, 0);
  }
  cost.nanoseconds = std::max(cost.nanoseconds, planned);
  return cost;
}

} // namespace tsc::driver
