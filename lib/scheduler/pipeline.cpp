#include "scheduler/step_record.h"
#include "scheduler/steps.h"
#include "scheduler/verify_schedule.h"

#include "support/diagnostic.h"
#include "support/verify.h"

namespace tsc::scheduler {

namespace {

struct Step {
  std::string_view name;
  void (*function)(State &);
  std::string_view looks_at; // for --stage=init
};

constexpr Step kPipeline[] = {
    {"create-nodes", create_nodes, "operations in the order of lowering"},
    {"compute-dependencies", compute_dependencies, "reads and writes in the order of lowering"},
    {"sort-nodes", sort_nodes, "who writes what a node reads"},
    {"remove-dead-nodes", remove_dead_nodes, "users of every output, last node first"},
    {"number-nodes", number_nodes, "the order"}, // what the pre-fusion log shows
    {"group-collectives", group_collectives, "what collectives wait for, and who waits for them"},
    {"order-collectives", order_collectives, "collectives and their blocks, in the order"},
    {"create-lists", create_lists, "elements of list operators"},
    {"fuse-nodes", fuse_nodes, "pairs of groups that share a buffer, in up to ten rounds"},
    // the steps about communication come after it: their order is not to be undone
    {"reorder-for-peak-memory", reorder_for_peak_memory, "bytes alive after each group"},
    {"sink-waits", sink_waits, "groups that may run, those that wait last"},
    {"raise-collectives", raise_collectives,
     "groups that may run, those first that a collective needs"},
    {"reorder-for-overlap", reorder_for_overlap, "estimated times of groups and collectives"},
    {"split-blocks", split_blocks, "groups that are blocks"},
    {"prune-weak-dependencies", prune_weak_dependencies, "reads that only give an order"},
    {"express-bodies", express_bodies, "loops of the members of every group"},
    {"fuse-templates", fuse_templates, "attention; matrix products and the groups beside them"},
    {"combine-kernels", combine_kernels, "groups that wait for as many others, one after another"},
    {"find-last-uses", find_last_uses, "buffers that groups use, last group first"},
    {"find-internal-buffers", find_internal_buffers, "users of what the members of a group write"},
    // after internal buffers: those have no memory to take over
    {"decide-inplace", decide_inplace, "inputs of a group that die in it"},
};

void run(const Step &step, State &state) {
  if (!state.options.records) {
    step.function(state);
    return;
  }
  const StateCopy before = copy_of(state);
  step.function(state);
  StepRecord record;
  record.step = (state.module.name.empty() ? "" : state.module.name + "/") + std::string(step.name);
  record.looks_at = step.looks_at;
  record.nodes = state.schedule.nodes.size();
  record.groups = state.schedule.groups.size();
  record.changes = find_changes(state, before);
  state.options.records->push_back(std::move(record));
}

/// Until sort-nodes there is no order; bodies change in few steps.
void verify(const Step &step, const State &state) {
  if (step.name != "create-nodes" && step.name != "compute-dependencies")
    verify_order(state, step.name);
  if (step.name == "create-nodes" || step.name == "fuse-nodes" || step.name == "express-bodies")
    verify_bodies(state, step.name);
}

} // namespace

bool State::owns_memory(BufferId buffer) const {
  const ir::Buffer &b = module.buffer(buffer);
  return b.role == ir::Buffer::Role::computed && b.layout_kind == ir::LayoutKind::fixed &&
         b.mutates == ir::kNone && b.aliases.empty() && renamed[buffer] == ir::kNone &&
         module.storage_of(buffer) == buffer;
}

BufferId State::current_name(BufferId buffer) const {
  while (renamed[buffer] != ir::kNone)
    buffer = renamed[buffer];
  return buffer;
}

Schedule schedule(const ir::Module &module, const ScheduleOptions &options) {
  support::require(options.policy != nullptr, "scheduler", "a policy is required");
  State state{module, options, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}};
  const bool verifies = support::verifies_passes();
  for (const Step &step : kPipeline) {
    run(step, state);
    if (verifies)
      verify(step, state);
    if (options.after)
      options.after(step.name, state.schedule);
  }
  ScheduleOptions inner = options; // these two know the module of the whole only
  inner.after = nullptr;
  inner.fusion_timer = nullptr;
  for (const ir::Module &subgraph : module.subgraphs)
    state.schedule.subgraphs.push_back(schedule(subgraph, inner));
  return std::move(state.schedule);
}

} // namespace tsc::scheduler
