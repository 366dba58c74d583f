#include "scheduler/steps.h"

#include "support/diagnostic.h"

namespace tsc::scheduler {

namespace {

struct Step {
  std::string_view name;
  void (*function)(State &);
};

constexpr Step kPipeline[] = {
    {"create-nodes", create_nodes},
    {"compute-dependencies", compute_dependencies},
    {"sort-nodes", sort_nodes},
    {"remove-dead-nodes", remove_dead_nodes},
    {"number-nodes", number_nodes}, // what the pre-fusion log shows
    {"fuse-nodes", fuse_nodes},
    {"prune-weak-dependencies", prune_weak_dependencies},
    {"express-bodies", express_bodies},
    {"find-last-uses", find_last_uses},
    {"find-internal-buffers", find_internal_buffers},
    {"decide-inplace", decide_inplace}, // after internal buffers: those have no memory to take over
};

} // namespace

BufferId State::current_name(BufferId buffer) const {
  while (renamed[buffer] != ir::kNone)
    buffer = renamed[buffer];
  return buffer;
}

Schedule schedule(const ir::Module &module, const ScheduleOptions &options) {
  support::require(options.policy != nullptr, "scheduler", "a policy is required");
  State state{module, options, {}, {}, {}, {}};
  for (const Step &step : kPipeline) {
    step.function(state);
    if (options.after)
      options.after(step.name, state.schedule);
  }
  return std::move(state.schedule);
}

} // namespace tsc::scheduler
