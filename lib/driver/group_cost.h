// What a group of the schedule is expected to take, once its kernels are planned.
#pragma once

#include "driver/compile.h"
#include "scheduler/cost.h"
#include "target/target.h"

#include <cstdint>
#include <vector>

namespace tsc::driver {

/// A group of `schedule`, which is that of `module`.
struct GroupOfSchedule {
  const ir::Module &module;
  const scheduler::Schedule &schedule;
  const scheduler::Group &group;
};

/// What the scheduler expects of a group, but no less than its kernels' plans (positions in
/// program.kernels) take of the machine.
scheduler::Cost expected_cost(const program::Program &program, const GroupOfSchedule &of,
                              const std::vector<uint32_t> &kernels, const target::Target &target);

} // namespace tsc::driver
