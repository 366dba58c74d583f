// Fusion that follows a clock: here one that says what the test wants.
#include "module_builder.h"
#include "scheduler/schedule.h"
#include "testing/catch.h"

using namespace tsc;
using test::BufferId;
using test::ModuleBuilder;

namespace {

using Timer = std::function<std::optional<double>(const scheduler::Schedule &)>;

scheduler::Schedule run(const ir::Module &module, const Timer &timer) {
  target::Policy policy = target::default_policy();
  policy.loop_ordering_after_fusion = true;
  scheduler::ScheduleOptions options;
  options.policy = &policy;
  options.target = &target::find_target("sm_90");
  options.fusion_timer = timer;
  return scheduler::schedule(module, options);
}

/// x -> exp -> neg -> abs, all returned: op0, op1, op2.
ModuleBuilder chain() {
  ModuleBuilder b;
  BufferId last = b.input("x", {64, 64});
  for (const ir::Op op : {ir::Op::exp, ir::Op::neg, ir::Op::abs}) {
    last = b.pointwise(b.unary(op, b.load(last)));
    b.output(last);
  }
  return b;
}

/// A kernel of n operations takes `times[n]`.
Timer by_size(std::vector<double> times) {
  return [times](const scheduler::Schedule &schedule) -> std::optional<double> {
    return times.at(schedule.groups.at(0).members.size());
  };
}

} // namespace

TEST_CASE("two kernels are fused if one takes less time than both") {
  const ModuleBuilder b = chain();
  CHECK(run(b.module, by_size({0, 100, 150, 240})).groups.size() == 1);
  // Of three, one fusion pays and the second does not.
  const auto schedule = run(b.module, by_size({0, 100, 150, 260}));
  CHECK(schedule.groups.size() == 2);
  const scheduler::FusionDecision &fused = schedule.decisions.at(0);
  CHECK(fused.refusal == scheduler::Refusal::none);
  CHECK(fused.detail ==
        "op0 and op1: share 16384 bytes, 150 ns as one kernel, 100 and 100 ns apart");
  bool refused = false;
  for (const scheduler::FusionDecision &decision : schedule.decisions) {
    if (decision.refusal != scheduler::Refusal::slower)
      continue;
    refused = true;
    CHECK(decision.detail == "op0_op1 and op2: 260 ns as one kernel, 150 and 100 ns apart");
    CHECK(scheduler::to_string(decision.refusal) == "one kernel takes longer than two");
  }
  CHECK(refused);
}

TEST_CASE("an equal time is no reason to fuse, and what cannot be timed is fused by the rules") {
  const ModuleBuilder b = chain();
  CHECK(run(b.module, by_size({0, 100, 200, 300})).groups.size() == 3);
  CHECK(run(b.module, [](const scheduler::Schedule &) { return std::nullopt; }).groups.size() == 1);
}

TEST_CASE("the clock gets one group with its bodies and what it never stores") {
  ModuleBuilder b;
  const BufferId x = b.input("x", {64, 32});
  const BufferId first = b.pointwise(b.unary(ir::Op::exp, b.load(x)));
  const auto turned = b.load(first, {32, 64}, {ir::variable(1), ir::variable(0)});
  b.output(b.pointwise(b.unary(ir::Op::neg, turned)));
  size_t pairs = 0;
  const auto schedule = run(b.module, [&](const scheduler::Schedule &proposal) {
    REQUIRE(proposal.groups.size() == 1);
    const scheduler::Group &group = proposal.groups[0];
    REQUIRE(group.bodies.size() == group.members.size());
    CHECK(proposal.nodes.size() == group.members.size());
    if (group.members.size() == 2) {
      ++pairs;
      CHECK(group.internal_buffers == std::vector<BufferId>{first});
      CHECK(group.bodies[0].sizes == group.bodies[1].sizes); // turned for the measurement
    } else {
      CHECK(group.internal_buffers.empty());
    }
    return std::optional(group.members.size() == 2 ? 500.0 : 100.0);
  });
  CHECK(pairs == 1);
  REQUIRE(schedule.groups.size() == 2); // slower: and the loops are as they were
  CHECK_FALSE(schedule.nodes[0].before_fusion);
  CHECK(schedule.nodes[0].body.sizes == std::vector<symbolic::Expr>{2048});
}

TEST_CASE("kernels that add atomically are not timed") {
  ModuleBuilder b;
  const BufferId target = b.input("target", {16}), index = b.input("index", {64}),
                 source = b.input("source", {64});
  b.scatter_add(target, index, source);
  b.output(b.pointwise(b.unary(ir::Op::neg, b.load(source))));
  size_t timed = 0;
  run(b.module, [&](const scheduler::Schedule &) {
    ++timed;
    return std::optional(1.0);
  });
  CHECK(timed == 0);
}
