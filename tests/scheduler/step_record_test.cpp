// What `dump-schedule --stage=init` says of each step.
#include "module_builder.h"
#include "scheduler/schedule.h"
#include "testing/catch.h"

#include <algorithm>

using namespace tsc;
using test::BufferId;
using test::ModuleBuilder;

namespace {

std::vector<scheduler::StepRecord> records_of(const ir::Module &module) {
  std::vector<scheduler::StepRecord> records;
  scheduler::ScheduleOptions options;
  options.target = &target::find_target("sm_80");
  options.records = &records;
  std::vector<std::string> steps;
  options.after = [&](std::string_view name, const scheduler::Schedule &) {
    steps.emplace_back(name);
  };
  scheduler::schedule(module, options);
  REQUIRE(records.size() == steps.size());
  for (size_t i = 0; i < steps.size(); ++i) {
    CHECK(records[i].step == steps[i]);
    CHECK(!records[i].looks_at.empty());
  }
  return records;
}

/// "kind subject: text" of each change of a step.
std::vector<std::string> changes_of(const std::vector<scheduler::StepRecord> &records,
                                    const std::string &step) {
  std::vector<std::string> lines;
  for (const scheduler::StepRecord &record : records) {
    for (const scheduler::StepChange &change : record.changes)
      if (record.step == step)
        lines.push_back(change.kind + " " + change.subject + ": " + change.text);
  }
  return lines;
}

using Lines = std::vector<std::string>;

} // namespace

TEST_CASE("records name what fusion decided, and what follows from it") {
  ModuleBuilder b;
  const BufferId x = b.input("x", {6, 8});
  const BufferId sum = b.reduce(b.load(x));
  const auto row = b.load(sum, {6, 8}, {ir::variable(0)});
  b.output(b.pointwise(b.binary(ir::Op::sub, b.load(x), row)));
  const auto records = records_of(b.module);
  CHECK(changes_of(records, "create-nodes") ==
        Lines{"node op0: made: loops [6] [8], 6 x 8",
              "access op0: reads + MemoryDep('x', c0, {c0: 48}, None)",
              "access op0: writes + MemoryDep('buf0', c0, {c0: 6}, None)",
              "node op1: made: loops [6, 8] [], 48 x 1",
              "access op1: reads + MemoryDep('x', c0, {c0: 48}, None)",
              "access op1: reads + MemoryDep('buf0', c0, {c0: 6}, None)",
              "access op1: writes + MemoryDep('buf1', c0, {c0: 48}, None)"});
  CHECK(
      changes_of(records, "compute-dependencies") ==
      Lines{"user x: + op0", "user x: + op1, in place", "user buf0: + op1", "user buf1: + OUTPUT"});
  CHECK(changes_of(records, "number-nodes") ==
        Lines{"place op0: 0, after nothing", "place op1: 1, after op0",
              "group op0: made: loops, 6 x 8", "group op1: made: loops, 48 x 1"});
  CHECK(changes_of(records, "fuse-nodes") ==
        Lines{"fusion op0: with op1 in round 1, 216 bytes shared",
              "group op0_op1: made: loops, 6 x 8"});
  CHECK(changes_of(records, "express-bodies") == Lines{"bodies op0_op1: over [6] [8]"});
  CHECK(changes_of(records, "find-last-uses") == Lines{"last use op0_op1: + buf0"});
  CHECK(changes_of(records, "find-internal-buffers") ==
        Lines{"last use op0_op1: - buf0", "internal buffer op0_op1: + buf0"});
}

TEST_CASE("records name removed nodes, versions, order and pruned reads") {
  ModuleBuilder b;
  const BufferId x = b.input("x", {8}), y = b.input("y", {8});
  b.pointwise(b.unary(ir::Op::exp, b.load(x)));                       // op0: nobody needs it
  const BufferId read = b.pointwise(b.unary(ir::Op::neg, b.load(x))); // op1
  b.mutate(x, b.load(y));                                             // op2: after op1
  b.output(read);
  const auto records = records_of(b.module);
  const Lines dependencies = changes_of(records, "compute-dependencies");
  const auto has = [](const Lines &lines, const std::string &line) {
    return std::find(lines.begin(), lines.end(), line) != lines.end();
  };
  CHECK(has(dependencies, "version x: is read as buf2"));
  CHECK(has(dependencies, "access op2: reads + StarDep(name='x', mode=None)"));
  CHECK(has(dependencies, "access op2: reads + WeakDep(name='buf1', mutating_buf='buf2')"));
  CHECK(has(dependencies, "user buf1: + op2, order only"));
  const Lines dead = changes_of(records, "remove-dead-nodes");
  CHECK(has(dead, "node op0: removed: nothing needs buf0"));
  CHECK(has(dead, "access op2: reads - WeakDep(name='buf0', mutating_buf='buf2')"));
}

TEST_CASE("an order that another read of the group implies is pruned") {
  ModuleBuilder b;
  const BufferId x = b.input("x", {8});
  const BufferId read = b.pointwise(b.unary(ir::Op::neg, b.load(x))); // op0
  b.mutate(x, b.unary(ir::Op::exp, b.load(read)));                    // op1 waits for op0's value
  const auto records = records_of(b.module);
  CHECK(changes_of(records, "prune-weak-dependencies") ==
        Lines{"access op1: reads - WeakDep(name='buf0', mutating_buf='buf1')"});
}

TEST_CASE("buffers that share memory share their users") {
  ModuleBuilder b;
  const BufferId x = b.input("x", {8});
  const BufferId first = b.matmul(x, x, {8});
  const BufferId second = b.matmul(first, x, {8});
  b.module.buffers[second].aliases = {first};
  b.output(b.pointwise(b.unary(ir::Op::neg, b.load(second))));
  const auto records = records_of(b.module);
  const Lines dependencies = changes_of(records, "compute-dependencies");
  const auto count = [&](const std::string &line) {
    return std::count(dependencies.begin(), dependencies.end(), line);
  };
  CHECK(count("user buf0: + op1") == 1);
  CHECK(count("user buf1: + op1") == 1); // itself, through the buffer it shares memory with
  CHECK(count("user buf0: + op2, in place") == 1);
  CHECK(count("user buf1: + op2, in place") == 1);
}

TEST_CASE("an operation without elements only allocates") {
  ModuleBuilder b;
  const BufferId x = b.input("x", {3, 0});
  b.output(b.pointwise(b.unary(ir::Op::neg, b.load(x))));
  CHECK(changes_of(records_of(b.module), "create-nodes") ==
        Lines{"node op0: made: only allocates",
              "access op0: writes + MemoryDep('buf0', d0 + d1, {d0: 3, d1: 0}, None)"});
}

TEST_CASE("the text counts changes by kind") {
  scheduler::StepRecord step;
  step.step = "some-step";
  step.looks_at = "something";
  step.nodes = 3;
  step.groups = 2;
  step.changes = {{"user", "buf0", "+ op1"}, {"node", "op2", "made"}, {"user", "buf1", "- op0"}};
  scheduler::StepRecord idle;
  idle.step = "idle-step";
  idle.looks_at = "nothing at all";
  CHECK(scheduler::to_text({step, idle}) == "some-step: looks at something\n"
                                            "  changed: 2 user, 1 node\n"
                                            "  after it: 3 nodes, 2 groups\n"
                                            "    user buf0: + op1\n"
                                            "    node op2: made\n"
                                            "    user buf1: - op0\n"
                                            "\n"
                                            "idle-step: looks at nothing at all\n"
                                            "  changed: nothing\n"
                                            "  after it: 0 nodes, 0 groups\n");
}
