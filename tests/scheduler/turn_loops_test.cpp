// Loops turned, and indices inverted, so that two nodes fit into one kernel.
#include "module_builder.h"
#include "scheduler/schedule.h"
#include "symbolic/loops.h"
#include "testing/catch.h"

#include <algorithm>
#include <numeric>
#include <random>
#include <set>

using namespace tsc;
using test::BufferId;
using test::Expr;
using test::ModuleBuilder;

namespace {

scheduler::Schedule run(const ir::Module &module, bool turns = true,
                        std::vector<scheduler::StepRecord> *records = nullptr) {
  target::Policy policy = target::default_policy();
  policy.loop_ordering_after_fusion = turns;
  policy.elements_turn_readers = false; // has a test of its own
  scheduler::ScheduleOptions options;
  options.policy = &policy;
  options.target = &target::find_target("sm_90");
  options.records = records;
  return scheduler::schedule(module, options);
}

using Lines = std::vector<std::string>;
Lines changes_of_fusion(const ir::Module &module) {
  std::vector<scheduler::StepRecord> records;
  run(module, true, &records);
  Lines lines;
  for (const scheduler::StepRecord &record : records) {
    for (const scheduler::StepChange &change : record.changes)
      if (record.step == "fuse-nodes")
        lines.push_back(change.kind + " " + change.subject + ": " + change.text);
  }
  return lines;
}

/// For every point of the loops, the elements that the body's accesses touch.
std::multiset<std::vector<int64_t>> touched(const ir::LoopBody &body) {
  std::multiset<std::vector<int64_t>> points;
  const int64_t count = symbolic::numel(body.sizes).value();
  for (int64_t point = 0; point < count; ++point) {
    symbolic::Bindings bindings;
    int64_t left = point;
    for (size_t i = body.sizes.size(); i-- > 0;) {
      bindings[body.variables[i]] = left % body.sizes[i].value();
      left /= body.sizes[i].value();
    }
    std::vector<int64_t> elements;
    for (const ir::BodyOp &op : body.ops)
      if (op.index != ir::kNone)
        elements.push_back(symbolic::evaluate(body.indices[op.index], bindings));
    points.insert(elements);
  }
  return points;
}

const std::string kTurned =
    "op0 over (32, 64), was (2048): memory moves 16384 bytes instead of 32768";

/// exp(x), and that read transposed, negated.
ModuleBuilder transposed_consumer(const Expr rows, const Expr columns) {
  ModuleBuilder b;
  const BufferId x = b.input("x", {rows, columns});
  const BufferId first = b.pointwise(b.unary(ir::Op::exp, b.load(x)));
  const auto turned = b.load(first, {columns, rows}, {ir::variable(1), ir::variable(0)});
  b.output(b.pointwise(b.unary(ir::Op::neg, turned)));
  return b;
}

} // namespace

TEST_CASE("a node that reads what another writes across its rows is fused with its loops turned") {
  const ModuleBuilder b = transposed_consumer(64, 32);
  const auto apart = run(b.module, false);
  CHECK(apart.groups.size() == 2);
  CHECK(apart.decisions.at(0).refusal == scheduler::Refusal::memory_deps_differ);
  const auto schedule = run(b.module);
  REQUIRE(schedule.groups.size() == 1);
  CHECK(schedule.groups[0].internal_buffers.size() == 1);
  CHECK(schedule.decisions.at(0).turned == kTurned);
  CHECK(schedule.decisions.at(0).shared_bytes == 64 * 32 * 4);
  CHECK(changes_of_fusion(b.module) ==
        Lines{"access op0: reads - MemoryDep('x', c0, {c0: 2048}, None)",
              "access op0: reads + MemoryDep('x', c0 + 32*c1, {c0: 32, c1: 64}, None)",
              "access op0: writes - MemoryDep('buf0', c0, {c0: 2048}, None)",
              "access op0: writes + MemoryDep('buf0', c0 + 32*c1, {c0: 32, c1: 64}, None)",
              "fusion op0: with op1 in round 1, 8192 bytes shared, " + kTurned,
              "group op0_op1: made: loops, 2048 x 1"});
}

TEST_CASE("what alone reads a value element by element is turned by default") {
  target::Policy policy = target::default_policy();
  scheduler::ScheduleOptions options;
  options.policy = &policy;
  options.target = &target::find_target("sm_90");
  const ModuleBuilder alone = transposed_consumer(64, 32);
  const auto schedule = scheduler::schedule(alone.module, options);
  REQUIRE(schedule.groups.size() == 1);
  CHECK(schedule.groups[0].internal_buffers.size() == 1);
  CHECK_FALSE(schedule.decisions.at(0).turned.empty());

  ModuleBuilder returned; // the value is stored in any case
  const BufferId x = returned.input("x", {64, 32});
  const BufferId first = returned.pointwise(returned.unary(ir::Op::exp, returned.load(x)));
  returned.output(first);
  const auto turned = returned.load(first, {32, 64}, {ir::variable(1), ir::variable(0)});
  returned.output(returned.pointwise(returned.unary(ir::Op::neg, turned)));
  CHECK(scheduler::schedule(returned.module, options).groups.size() == 2);
}

TEST_CASE("symbolic loops are turned as well") {
  const Expr rows = symbolic::symbol(symbolic::SymbolSort::size, 0),
             columns = symbolic::symbol(symbolic::SymbolSort::size, 1);
  ModuleBuilder b = transposed_consumer(rows, columns);
  for (const Expr size : {rows, columns})
    b.module.ranges.set(size, {2, 4096});
  const auto schedule = run(b.module);
  REQUIRE(schedule.groups.size() == 1);
  CHECK(schedule.decisions.at(0).turned ==
        "op0 over (s1, s0), was (s0*s1): memory moves 8388608 bytes instead of 16777216");
}

TEST_CASE("an index that divides its loop is inverted") {
  ModuleBuilder b;
  const BufferId x = b.input("x", {2048});
  const BufferId first = b.pointwise(b.unary(ir::Op::exp, b.load(x)));
  const Expr i = ir::variable(0); // 32 columns of 64, read one after the other
  const Expr index = Expr(64) * symbolic::modular_index(i, 1, 32) + symbolic::floor_div(i, 32);
  const BufferId second = b.pointwise(b.unary(ir::Op::neg, b.load(first, {2048}, {index})));
  b.output(second);
  const auto schedule = run(b.module);
  REQUIRE(schedule.groups.size() == 1);
  CHECK(schedule.decisions.at(0).turned ==
        "op1 over (32, 64), was (2048): memory moves 16384 bytes instead of 90112");
  for (const ir::LoopBody &body : schedule.groups[0].bodies)
    for (const Expr e : body.indices)
      CHECK(symbolic::is_affine(e, body.variables));
}

TEST_CASE("columns are summed where they are computed") {
  ModuleBuilder b;
  const BufferId x = b.input("x", {64, 32});
  const BufferId scaled = b.pointwise(b.unary(ir::Op::exp, b.load(x)));
  const auto turned = b.load(scaled, {32, 64}, {ir::variable(1), ir::variable(0)});
  const BufferId total = b.reduce(turned);
  b.output(scaled);
  b.output(total);
  CHECK(run(b.module, false).groups.size() == 2);
  const auto schedule = run(b.module);
  REQUIRE(schedule.groups.size() == 1);
  CHECK(schedule.decisions.at(0).turned ==
        "op0 over (32, 64), was (2048): memory moves 16512 bytes instead of 24704");
  CHECK(schedule.groups[0].iteration_sizes == std::vector<Expr>{32});
  CHECK(schedule.groups[0].reduction_sizes == std::vector<Expr>{64});
}

TEST_CASE("loops stay where turning them would scatter what is stored") {
  ModuleBuilder b;
  const BufferId x = b.input("x", {64, 32});
  b.output(b.reduce(b.load(x))); // rows
  const auto turned = b.load(x, {32, 64}, {ir::variable(1), ir::variable(0)});
  b.output(b.pointwise(b.unary(ir::Op::neg, turned)));
  const auto schedule = run(b.module);
  CHECK(schedule.groups.size() == 2);
  const scheduler::FusionDecision &decision = schedule.decisions.at(0);
  CHECK(decision.refusal == scheduler::Refusal::loop_order);
  CHECK(scheduler::to_string(decision.refusal) == "no order of loops walks through memory in runs");
  CHECK(decision.detail ==
        "op0 and op1: with op1 over (64, 32), was (32, 64), memory would move 73984 bytes; for two "
        "kernels it moves 24832");
}

TEST_CASE("neither of two reductions is turned") {
  ModuleBuilder b;
  const BufferId x = b.input("x", {64, 64});
  b.output(b.reduce(b.load(x)));
  b.output(b.reduce(b.load(x, {64, 64}, {ir::variable(1), ir::variable(0)})));
  const auto schedule = run(b.module);
  CHECK(schedule.groups.size() == 2);
  CHECK(schedule.decisions.at(0).refusal == scheduler::Refusal::no_shared_data);
}

TEST_CASE("the log before fusion prints loops that were not turned yet") {
  const ModuleBuilder b = transposed_consumer(64, 32);
  scheduler::LogOptions options;
  options.stage = scheduler::LogStage::pre_fusion;
  CHECK(scheduler::to_log(b.module, run(b.module), options) ==
        scheduler::to_log(b.module, run(b.module, false), options));
}

TEST_CASE("turned loops touch the same elements together") {
  std::mt19937 random(7);
  size_t turned = 0;
  for (int round = 0; round < 60; ++round) {
    // A buffer read through a random permutation of its dimensions, which a flat loop divides.
    const std::vector<int64_t> all = {2, 3, 4, 5, 16, 17};
    std::vector<Expr> sizes;
    for (size_t i = 0; i < 2 + random() % 3; ++i)
      sizes.push_back(all[random() % all.size()]);
    std::vector<size_t> order(sizes.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::shuffle(order.begin(), order.end(), random);
    std::vector<Expr> target, index(sizes.size());
    for (const size_t dimension : order)
      target.push_back(sizes[dimension]);
    std::vector<Expr> positions;
    const bool flat = random() % 2 == 0;
    const Expr numel = symbolic::numel(sizes);
    if (flat) {
      const Expr position[] = {ir::variable(0)}, one[] = {numel};
      positions = symbolic::reshape_index(target, one, position);
    } else {
      for (size_t i = 0; i < target.size(); ++i)
        positions.push_back(ir::variable(i));
    }
    for (size_t i = 0; i < order.size(); ++i)
      index[order[i]] = positions[i];
    ModuleBuilder b;
    const BufferId x = b.input("x", sizes);
    const BufferId first = b.pointwise(b.unary(ir::Op::exp, b.load(x)));
    b.output(b.pointwise(
        b.unary(ir::Op::neg, b.load(first, flat ? std::vector<Expr>{numel} : target, index))));
    const auto schedule = run(b.module);
    for (const scheduler::Node &node : schedule.nodes) {
      if (!node.before_fusion)
        continue;
      ++turned;
      CHECK(touched(node.body) == touched(node.before_fusion->body));
    }
    if (schedule.groups.size() == 1) {
      const std::vector<ir::LoopBody> &bodies = schedule.groups[0].bodies;
      REQUIRE(bodies.size() == 2);
      CHECK(bodies[0].sizes == bodies[1].sizes);
    }
  }
  CHECK(turned > 20);
}
