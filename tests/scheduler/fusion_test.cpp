#include "module_builder.h"
#include "scheduler/schedule.h"
#include "testing/catch.h"

#include <map>

using namespace tsc;
using test::BufferId;
using test::Expr;
using test::ModuleBuilder;

namespace {

scheduler::Schedule run(const ir::Module &module,
                        const target::Policy &policy = target::default_policy()) {
  scheduler::ScheduleOptions options;
  options.policy = &policy;
  options.target = &target::find_target("sm_80");
  return scheduler::schedule(module, options);
}

std::vector<std::vector<scheduler::NodeId>> members(const scheduler::Schedule &schedule) {
  std::vector<std::vector<scheduler::NodeId>> groups;
  for (const scheduler::Group &group : schedule.groups)
    groups.push_back(group.members);
  return groups;
}

using Groups = std::vector<std::vector<scheduler::NodeId>>;

} // namespace

TEST_CASE("a chain of pointwise operations is one kernel that stores only its output") {
  ModuleBuilder b;
  const auto x = b.input("x", {8, 16});
  const auto first = b.pointwise(b.unary(ir::Op::exp, b.load(x)));
  const auto second = b.pointwise(b.unary(ir::Op::neg, b.load(first)));
  b.output(second);
  const auto schedule = run(b.module);
  CHECK(members(schedule) == Groups{{0, 1}});
  CHECK(schedule.groups[0].internal_buffers == std::vector<ir::BufferId>{first});
  CHECK(schedule.groups[0].last_uses.empty());
  CHECK(schedule.groups[0].inplace.empty());
  REQUIRE(schedule.decisions.size() == 1);
  CHECK(schedule.decisions[0].refusal == scheduler::Refusal::none);
  CHECK(schedule.decisions[0].shared_bytes == 8 * 16 * 4);
}

TEST_CASE("softmax over rows is one kernel whose bodies share their loops") {
  ModuleBuilder b;
  const Expr rows = 64, columns = 100;
  const auto x = b.input("x", {rows, columns});
  const auto row = [&](BufferId buffer) {
    return b.load(buffer, {rows, columns}, {ir::variable(0)});
  };
  const auto largest = b.reduce(b.load(x), ir::ReductionKind::max);
  const auto exps = b.unary(ir::Op::exp, b.binary(ir::Op::sub, b.load(x), row(largest)));
  const auto total = b.reduce(exps);
  const auto result = b.pointwise(b.binary(ir::Op::truediv, exps, row(total)));
  b.output(result);
  const auto schedule = run(b.module);
  REQUIRE(members(schedule) == Groups{{0, 1, 2}});
  const scheduler::Group &group = schedule.groups[0];
  CHECK(group.numel == rows);
  CHECK(group.reduction_numel == columns);
  CHECK(group.iteration_sizes == std::vector<Expr>{rows});
  CHECK(group.reduction_sizes == std::vector<Expr>{columns});
  REQUIRE(group.bodies.size() == 3);
  for (const ir::LoopBody &body : group.bodies) {
    CHECK(body.sizes == std::vector<Expr>{rows, columns});
    CHECK(body.iteration_count == 1);
  }
  CHECK(group.internal_buffers == std::vector<ir::BufferId>{largest, total});
}

TEST_CASE("a flat pointwise epilogue is split over the rows of the reduction") {
  ModuleBuilder b;
  const Expr rows = 64, columns = 128;
  const auto x = b.input("x", {rows, columns});
  const auto scaled = b.pointwise(b.unary(ir::Op::exp, b.load(x)));
  const auto total = b.reduce(b.load(scaled));
  b.output(scaled);
  b.output(total);
  const auto schedule = run(b.module);
  REQUIRE(members(schedule) == Groups{{0, 1}});
  CHECK(schedule.nodes[0].body.sizes == std::vector<Expr>{rows * columns});
  const scheduler::Group &group = schedule.groups[0];
  CHECK(group.bodies[0].sizes == std::vector<Expr>{rows, columns});
  CHECK(group.bodies[0].iteration_count == 1);
  CHECK(symbolic::print(group.bodies[0].indices.at(0)) == "128*z0 + z1");
  CHECK(group.internal_buffers.empty());
}

TEST_CASE("work once a row joins the kernel of the row without reduction loops") {
  ModuleBuilder b;
  const auto x = b.input("x", {32, 128});
  const auto total = b.reduce(b.load(x));
  const auto root = b.pointwise(b.unary(ir::Op::rsqrt, b.load(total)));
  b.output(root);
  const auto schedule = run(b.module);
  REQUIRE(members(schedule) == Groups{{0, 1}});
  CHECK(schedule.groups[0].bodies[0].is_reduction());
  CHECK(schedule.groups[0].bodies[1].sizes == std::vector<Expr>{32});
  CHECK_FALSE(schedule.groups[0].bodies[1].is_reduction());
}

TEST_CASE("library calls are never fused and buffers die after their last reader") {
  ModuleBuilder b;
  const auto x = b.input("x", {16, 16});
  const auto a = b.pointwise(b.unary(ir::Op::exp, b.load(x)));
  const auto product = b.matmul(a, x, {16, 16});
  const auto result = b.pointwise(b.unary(ir::Op::neg, b.load(product)));
  b.output(result);
  const auto schedule = run(b.module);
  CHECK(members(schedule) == Groups{{0}, {1}, {2}});
  CHECK(schedule.groups[1].node_class == scheduler::NodeClass::external);
  CHECK(schedule.groups[1].last_uses == std::vector<ir::BufferId>{a});
  CHECK(schedule.groups[2].last_uses == std::vector<ir::BufferId>{product});
  using Pairs = std::vector<std::pair<ir::BufferId, ir::BufferId>>;
  CHECK(schedule.groups[2].inplace == Pairs{{result, product}});
}

TEST_CASE("rows are overwritten only in the last walk over them") {
  using Pairs = std::vector<std::pair<ir::BufferId, ir::BufferId>>;
  ModuleBuilder b;
  const auto x = b.input("x", {32, 32});
  const auto product = b.matmul(x, x, {32, 32});
  const auto row = [&](BufferId buffer) { return b.load(buffer, {32, 32}, {ir::variable(0)}); };
  const auto largest = b.reduce(b.load(product), ir::ReductionKind::max);
  const auto shifted = b.binary(ir::Op::sub, b.load(product), row(largest));
  SECTION("the last walk writes") {
    const auto total = b.reduce(b.unary(ir::Op::exp, shifted));
    const auto result = b.pointwise(b.binary(ir::Op::truediv, shifted, row(total)));
    b.output(result);
    const auto schedule = run(b.module);
    REQUIRE(schedule.groups.size() == 2);
    CHECK(schedule.groups[1].inplace == Pairs{{result, product}});
  }
  SECTION("a walk before the last writes") {
    const auto stored = b.pointwise(shifted);
    const auto total = b.reduce(b.unary(ir::Op::exp, b.load(stored)));
    b.output(stored);
    b.output(b.pointwise(b.binary(ir::Op::truediv, b.load(stored), row(total))));
    const auto schedule = run(b.module);
    REQUIRE(schedule.groups.size() == 2);
    CHECK(schedule.groups[1].inplace.empty());
  }
}

TEST_CASE("an input of the graph is never taken over, nor a buffer that is returned") {
  ModuleBuilder b;
  const auto x = b.input("x", {16, 16});
  const auto product = b.matmul(x, x, {16, 16});
  const auto result = b.pointwise(b.unary(ir::Op::neg, b.load(product)));
  b.output(product);
  b.output(result);
  const auto schedule = run(b.module);
  CHECK(schedule.groups[1].inplace.empty());
  CHECK(schedule.groups[1].last_uses.empty());
}

TEST_CASE("reading at another index than was written keeps kernels apart") {
  ModuleBuilder b;
  const auto x = b.input("x", {16, 16});
  const auto a = b.pointwise(b.unary(ir::Op::exp, b.load(x)));
  const auto flipped = b.load(a, {16, 16}, {ir::variable(0), Expr(15) - ir::variable(1)});
  const auto c = b.pointwise(b.binary(ir::Op::add, flipped, b.load(x)));
  b.output(c);
  const auto schedule = run(b.module);
  CHECK(members(schedule) == Groups{{0}, {1}});
  REQUIRE_FALSE(schedule.decisions.empty());
  CHECK(schedule.decisions[0].refusal == scheduler::Refusal::memory_deps_differ);
  CHECK(schedule.decisions[0].detail == "op0 and op1: it reads MemoryDep('buf0', 16*c0 - c1 + 15, "
                                        "{c0: 16, c1: 16}), what is written is "
                                        "MemoryDep('buf0', c0, {c0: 256})");
}

TEST_CASE("a node that must run in between keeps its neighbours apart") {
  ModuleBuilder b;
  const auto x = b.input("x", {16, 16});
  const auto a = b.pointwise(b.unary(ir::Op::exp, b.load(x)));
  const auto product = b.matmul(a, x, {16, 16});
  const auto c = b.pointwise(b.binary(ir::Op::add, b.load(a), b.load(product)));
  b.output(c);
  const auto schedule = run(b.module);
  CHECK(members(schedule) == Groups{{0}, {1}, {2}});
  REQUIRE(schedule.decisions.size() == 1);
  CHECK(schedule.decisions[0].refusal == scheduler::Refusal::intermediate_nodes);
  CHECK(schedule.decisions[0].detail ==
        "op0 and op2: op1 waits for the first, and the second for it");
}

TEST_CASE("two fusions that would wait for each other: only one is made") {
  // a -> mm1 -> d and c -> mm2 -> e, all reading x: {a, e} and {c, d} would form a cycle.
  ModuleBuilder b;
  const auto x = b.input("x", {16, 16});
  const auto a = b.pointwise(b.unary(ir::Op::exp, b.load(x)));
  const auto c = b.pointwise(b.unary(ir::Op::neg, b.load(x)));
  const auto after_a = b.matmul(a, a, {16, 16});
  const auto after_c = b.matmul(c, c, {16, 16});
  const auto d = b.pointwise(b.binary(ir::Op::add, b.load(x), b.load(after_a)));
  const auto e = b.pointwise(b.binary(ir::Op::add, b.load(x), b.load(after_c)));
  for (const auto buffer : {d, e})
    b.output(buffer);
  const auto schedule = run(b.module);
  // Producers precede consumers whatever was chosen.
  std::map<scheduler::NodeId, size_t> group_of;
  for (size_t i = 0; i < schedule.groups.size(); ++i)
    for (const auto member : schedule.groups[i].members)
      group_of[member] = i;
  for (scheduler::NodeId id = 0; id < schedule.nodes.size(); ++id)
    for (const auto before : schedule.nodes[id].ancestors_hint)
      CHECK(group_of[before] <= group_of[id]);
  CHECK(schedule.groups.size() == 4);
}

TEST_CASE("dead operations are removed and the rest numbered anew") {
  ModuleBuilder b;
  const auto x = b.input("x", {16});
  b.pointwise(b.unary(ir::Op::exp, b.load(x)));
  const auto live = b.pointwise(b.unary(ir::Op::neg, b.load(x)));
  b.output(live);
  const auto schedule = run(b.module);
  REQUIRE(schedule.nodes.size() == 1);
  CHECK(schedule.nodes[0].operation == 1);
  CHECK(schedule.users[live].size() == 1);
}

TEST_CASE(
    "a mutation runs after the readers of the old value, in one kernel only at equal indices") {
  ModuleBuilder b;
  const auto x = b.input("x", {16});
  SECTION("same element") {
    const auto old = b.pointwise(b.unary(ir::Op::exp, b.load(x)));
    const auto changed = b.mutate(x, b.unary(ir::Op::neg, b.load(x)));
    b.output(old);
    const auto schedule = run(b.module);
    CHECK(members(schedule) == Groups{{0, 1}});
    CHECK(schedule.users[changed].size() == 1); // the graph's output: x has changed
  }
  SECTION("other element") {
    const auto old =
        b.pointwise(b.unary(ir::Op::exp, b.load(x, {16}, {Expr(15) - ir::variable(0)})));
    b.mutate(x, b.unary(ir::Op::neg, b.load(x)));
    b.output(old);
    const auto schedule = run(b.module);
    CHECK(members(schedule) == Groups{{0}, {1}});
  }
}

TEST_CASE("loops without a common refinement are flattened, and the kernel still is one") {
  ModuleBuilder b;
  const auto x = b.input("x", {24});
  const auto rows = b.input("rows", {6});
  const auto columns = b.input("columns", {8});
  const auto flat4 = 4 * ir::variable(0) + ir::variable(1);
  const auto a = b.pointwise(
      b.binary(ir::Op::add, b.load(x, {6, 4}, {flat4}), b.load(rows, {6, 4}, {ir::variable(0)})));
  const auto flat3 = 3 * ir::variable(0) + ir::variable(1);
  const auto c = b.pointwise(b.binary(ir::Op::add, b.load(x, {8, 3}, {flat3}),
                                      b.load(columns, {8, 3}, {ir::variable(0)})));
  b.output(a);
  b.output(c);
  const auto schedule = run(b.module);
  REQUIRE(members(schedule) == Groups{{0, 1}});
  for (const ir::LoopBody &body : schedule.groups[0].bodies)
    CHECK(body.sizes == std::vector<Expr>{24});
}
