// Every reason for which two groups stay apart, each from the smallest module that has it.
#include "module_builder.h"
#include "scheduler/schedule.h"
#include "testing/catch.h"

#include <algorithm>

using namespace tsc;
using scheduler::Refusal;
using test::BufferId;
using test::Expr;
using test::ModuleBuilder;

namespace {

scheduler::Schedule run(const ir::Module &module) {
  scheduler::ScheduleOptions options;
  options.target = &target::find_target("sm_80");
  return scheduler::schedule(module, options);
}

/// The reason for which the operations are not one kernel; Refusal::none if they are.
Refusal refusal_of(const ir::Module &module, const std::string &first, const std::string &second) {
  const scheduler::Schedule schedule = run(module);
  const auto name = [&](scheduler::NodeId id) {
    return module.operations[schedule.nodes[id].operation].name;
  };
  for (const scheduler::FusionDecision &decision : schedule.decisions)
    if (name(decision.first) == first && name(decision.second) == second)
      return decision.refusal;
  FAIL(first << " and " << second << " were never judged");
  return Refusal::none;
}

} // namespace

TEST_CASE("operations of different devices stay apart") {
  ModuleBuilder b;
  const BufferId x = b.input("x", {64});
  b.output(b.pointwise(b.unary(ir::Op::exp, b.load(x))));
  b.output(b.pointwise(b.unary(ir::Op::neg, b.load(x))));
  CHECK(refusal_of(b.module, "op0", "op1") == Refusal::none);
  b.module.operations[1].device.index = 1;
  CHECK(refusal_of(b.module, "op0", "op1") == Refusal::device);
}

TEST_CASE("loops that do not match stay apart") {
  ModuleBuilder b;
  const BufferId x = b.input("x", {8, 8});
  b.output(b.reduce(b.load(x)));
  const auto half = b.load(x, {8, 4}, {ir::variable(0), ir::variable(1)});
  b.output(b.pointwise(b.unary(ir::Op::neg, half)));
  b.output(b.reduce(b.unary(ir::Op::neg, half)));
  CHECK(refusal_of(b.module, "op0", "op1") == Refusal::reduction_shapes);
  CHECK(refusal_of(b.module, "op0", "op2") == Refusal::reduction_shapes);
}

TEST_CASE("few shared bytes are no reason to fuse, and neither are bytes far away") {
  ModuleBuilder b;
  const BufferId scalar = b.input("scalar", {1}), x = b.input("x", {64}), y = b.input("y", {64});
  const auto one = b.load(scalar, {64}, {Expr(0)});
  b.output(b.pointwise(b.binary(ir::Op::mul, b.load(x), one)));
  b.output(b.pointwise(b.binary(ir::Op::mul, b.load(y), one)));
  CHECK(refusal_of(b.module, "op0", "op1") == Refusal::low_score);

  ModuleBuilder far;
  const BufferId shared = far.input("shared", {64}), other = far.input("other", {64});
  far.output(far.pointwise(far.unary(ir::Op::exp, far.load(shared))));
  for (int i = 0; i < 65; ++i) // library calls, which never join
    far.output(far.matmul(other, other, {64}));
  far.output(far.pointwise(far.unary(ir::Op::neg, far.load(shared))));
  CHECK(refusal_of(far.module, "op0", "op66") == Refusal::far_apart);
}

TEST_CASE("memory that could be reused at once outweighs few shared bytes") {
  // Both read a large result of a product that dies with them, and share one small input.
  const auto build = [](int64_t shared_size) {
    ModuleBuilder b;
    const BufferId x = b.input("x", {256, 256}), row = b.input("row", {shared_size});
    for (int i = 0; i < 2; ++i) {
      const BufferId product = b.matmul(x, x, {256, 256});
      const auto repeated =
          b.load(row, {256, 256}, {symbolic::mod(ir::variable(1), Expr(shared_size))});
      b.output(b.pointwise(b.binary(ir::Op::add, b.load(product), repeated)));
    }
    return std::move(b.module);
  };
  CHECK(refusal_of(build(256), "op1", "op3") == Refusal::peak_memory);
}

TEST_CASE("an atomic addition is complete before it is read") {
  ModuleBuilder b;
  const BufferId index = b.input("index", {4});
  b.module.buffers[index].dtype = tensor::DType::i64;
  const BufferId source = b.input("source", {4}), start = b.input("start", {4});
  const BufferId target = b.pointwise(b.unary(ir::Op::exp, b.load(start)));
  const BufferId sum = b.scatter_add(target, index, source);
  b.output(b.pointwise(b.unary(ir::Op::neg, b.load(sum))));
  CHECK(refusal_of(b.module, "op1", "op2") == Refusal::atomic);
  CHECK(run(b.module).groups.size() == 3);
}

TEST_CASE("a kernel holds 64 operations at most") {
  ModuleBuilder b;
  BufferId value = b.input("x", {64});
  for (int i = 0; i < 70; ++i)
    value = b.pointwise(b.unary(ir::Op::exp, b.load(value)));
  b.output(value);
  const scheduler::Schedule schedule = run(b.module);
  bool refused = false;
  for (const scheduler::FusionDecision &decision : schedule.decisions)
    refused = refused || decision.refusal == Refusal::too_large;
  CHECK(refused);
  for (const scheduler::Group &group : schedule.groups)
    CHECK(group.members.size() <= 64);
  CHECK(schedule.groups.size() == 2);
}

TEST_CASE("every refusal has words of its own") {
  std::vector<std::string_view> words;
  for (int i = 0; i <= static_cast<int>(Refusal::slower); ++i)
    words.push_back(scheduler::to_string(static_cast<Refusal>(i)));
  std::sort(words.begin(), words.end());
  CHECK(!words.front().empty());
  CHECK(std::adjacent_find(words.begin(), words.end()) == words.end());
}
