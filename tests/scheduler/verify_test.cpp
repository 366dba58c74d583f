// What the verifier between steps finds in schedules that are broken on purpose.
#include "module_builder.h"
#include "scheduler/steps.h"
#include "scheduler/verify_schedule.h"
#include "testing/catch.h"

#include <functional>
#include <stdexcept>

using namespace tsc;
using scheduler::State;
using test::BufferId;
using test::ModuleBuilder;

namespace {

/// op0: exp(x) of [4, 8]; op1: its row sums; op2: sums + 1 row by row over x.
ModuleBuilder three_operations() {
  ModuleBuilder b;
  const BufferId x = b.input("x", {4, 8});
  const BufferId powers = b.pointwise(b.unary(ir::Op::exp, b.load(x)));
  const BufferId sums = b.reduce(b.load(powers));
  const BufferId last =
      b.pointwise(b.binary(ir::Op::mul, b.load(powers), b.load(sums, {4, 8}, {ir::variable(0)})));
  b.output(last);
  return b;
}

/// What is said of the state as number-nodes leaves it, after `change`.
std::string said_after(const std::function<void(State &)> &change) {
  const ModuleBuilder b = three_operations();
  scheduler::ScheduleOptions options;
  options.target = &target::find_target("sm_90");
  State state{b.module, options, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}};
  scheduler::create_nodes(state);
  scheduler::compute_dependencies(state);
  scheduler::sort_nodes(state);
  scheduler::number_nodes(state);
  change(state);
  try {
    scheduler::verify_order(state, "a step");
    scheduler::verify_bodies(state, "a step");
  } catch (const std::logic_error &error) {
    return error.what();
  }
  return "";
}

/// The first plain store (or load) of a node's body.
ir::BodyOp &access(State &state, size_t node, ir::Op op) {
  for (ir::BodyOp &one : state.schedule.nodes[node].body.ops)
    if (one.op == op)
      return one;
  throw std::runtime_error("no such access");
}

const std::string kHead = "internal error in verifier after a step at ";

} // namespace

TEST_CASE("a sound schedule is sound") {
  CHECK(said_after([](State &) {}).empty());
}

TEST_CASE("every operation runs once, behind what it waits for") {
  CHECK(said_after([](State &state) {
          std::swap(state.schedule.groups[0], state.schedule.groups[1]);
        }) == kHead + "op1: it runs before op0, which it waits for because of buf0");
  CHECK(said_after([](State &state) { state.schedule.groups.pop_back(); }) ==
        kHead + "op2: it never runs");
  CHECK(said_after([](State &state) {
          state.schedule.groups.push_back(state.schedule.groups[1]);
        }) == kHead + "op1: it runs twice");
  CHECK(said_after([](State &state) { state.schedule.groups[2].members[0] = 9; }) ==
        kHead + "node 9: it does not exist");
  CHECK(said_after([](State &state) {
          state.schedule.nodes[2].operation = state.schedule.nodes[1].operation;
        }) == kHead + "buf1: two operations produce it");
}

TEST_CASE("every store covers its buffer once, within it") {
  const auto index_of = [](State &state, size_t node, ir::Op op) -> symbolic::Expr & {
    return state.schedule.nodes[node].body.indices[access(state, node, op).index];
  };
  CHECK(said_after([&](State &state) { index_of(state, 0, ir::Op::store) += 1; }) ==
        kHead + "op0: it loads elements 1 to 32 of x, which has 32" /* one index for both */);
  CHECK(said_after([&](State &state) {
          ir::LoopBody &body = state.schedule.nodes[0].body;
          body.indices[access(state, 0, ir::Op::store).index] =
              symbolic::floor_div(body.variables[0], 1) * 0;
        }) == kHead + "op0: it stores some element of buf0 more than once");
  CHECK(said_after([&](State &state) { state.schedule.nodes[0].body.sizes[0] = 5; }) ==
        kHead + "op0: it stores 5 elements of buf0, which has 32");
  CHECK(said_after([&](State &state) {
          index_of(state, 2, ir::Op::load) += -1;
        }).find("op2: it loads elements -1 to ") != std::string::npos);
}

TEST_CASE("a store beyond its buffer is found where the loads are within theirs") {
  CHECK(said_after([](State &state) {
          ir::LoopBody &body = state.schedule.nodes[0].body;
          ir::BodyOp &store = access(state, 0, ir::Op::store);
          body.indices.push_back(body.indices[store.index] + 1);
          store.index = static_cast<uint32_t>(body.indices.size() - 1);
        }) == kHead + "op0: it stores elements 1 to 32 of buf0, which has 32");
}
