// Orders of groups that keep less memory alive.
#include "module_builder.h"
#include "scheduler/schedule.h"
#include "testing/catch.h"

#include <algorithm>

using namespace tsc;
using test::BufferId;
using test::ModuleBuilder;

namespace {

constexpr int64_t kBig = 64 * 64 * 4, kRow = 64 * 4; // bytes

scheduler::Schedule run(const ir::Module &module, bool reorders = true,
                        std::vector<scheduler::StepRecord> *records = nullptr) {
  target::Policy policy = target::default_policy();
  policy.reorder_for_peak_memory = reorders;
  policy.product_templates = false;
  policy.combo_kernels = false; // the small sums would be one launch behind all products
  scheduler::ScheduleOptions options;
  options.policy = &policy;
  options.target = &target::find_target("sm_90");
  options.records = records;
  return scheduler::schedule(module, options);
}

std::vector<scheduler::NodeId> order_of(const scheduler::Schedule &schedule) {
  std::vector<scheduler::NodeId> nodes;
  for (const scheduler::Group &group : schedule.groups)
    nodes.insert(nodes.end(), group.members.begin(), group.members.end());
  return nodes;
}

std::vector<std::string> changes_of(const std::vector<scheduler::StepRecord> &records) {
  std::vector<std::string> lines;
  for (const scheduler::StepRecord &record : records) {
    for (const scheduler::StepChange &change : record.changes)
      if (record.step == "reorder-for-peak-memory")
        lines.push_back(change.kind + " " + change.subject + ": " + change.text);
  }
  return lines;
}

/// Three products, then a row sum of each, then one of all sums: op0 to op6.
ModuleBuilder products_then_sums() {
  ModuleBuilder b;
  const BufferId x = b.input("x", {64, 64});
  std::vector<BufferId> products, sums;
  for (int i = 0; i < 3; ++i)
    products.push_back(b.matmul(x, x, {64, 64}));
  for (const BufferId product : products)
    sums.push_back(b.reduce(b.unary(ir::Op::exp, b.load(product))));
  b.output(b.matmul(sums[0], sums[1], {64}));
  b.output(b.matmul(sums[1], sums[2], {64}));
  return b;
}

} // namespace

TEST_CASE("large values are used up before others are made") {
  const ModuleBuilder b = products_then_sums();
  const auto before = run(b.module, false);
  CHECK(before.memory_order.heuristic == "");
  CHECK(order_of(before) == std::vector<scheduler::NodeId>{0, 1, 2, 3, 4, 5, 6, 7});
  std::vector<scheduler::StepRecord> records;
  const auto schedule = run(b.module, true, &records);
  CHECK(order_of(schedule) == std::vector<scheduler::NodeId>{0, 3, 1, 4, 6, 2, 5, 7});
  CHECK(schedule.memory_order.bytes_before == 3 * kBig + kRow);
  CHECK(schedule.memory_order.bytes == kBig + 2 * kRow);
  CHECK(changes_of(records) ==
        std::vector<std::string>{
            "group order op3: moved from 3 to 1", "group order op1: moved from 1 to 2",
            "group order op4: moved from 4 to 3", "group order op6: moved from 6 to 4",
            "group order op2: moved from 2 to 5", "group order op5: moved from 5 to 6",
            "peak memory all groups: 49408 bytes, 16896 by least peak first"});
}

TEST_CASE("an order that keeps as little alive stays") {
  ModuleBuilder b;
  const BufferId x = b.input("x", {64, 64});
  BufferId last = x;
  for (int i = 0; i < 4; ++i)
    last = b.matmul(last, x, {64, 64});
  b.output(last);
  std::vector<scheduler::StepRecord> records;
  const auto schedule = run(b.module, true, &records);
  CHECK(order_of(schedule) == std::vector<scheduler::NodeId>{0, 1, 2, 3});
  CHECK(changes_of(records) ==
        std::vector<std::string>{"peak memory all groups: 32768 bytes, no order is lower"});
}

TEST_CASE("what the caller gets and what weights alone give is no memory of the program's own") {
  ModuleBuilder b;
  const BufferId x = b.input("x", {64, 64}), w = b.input("w", {64, 64});
  b.module.buffers[w].weight = "w";
  const BufferId folded = b.matmul(w, w, {64, 64});
  const BufferId product = b.matmul(x, folded, {64, 64});
  b.output(b.matmul(product, folded, {64, 64}));
  CHECK(run(b.module).memory_order.bytes_before == kBig); // `product`
}

TEST_CASE("an output over its input takes no memory") {
  ModuleBuilder b;
  const BufferId x = b.input("x", {64, 64});
  const BufferId product = b.matmul(x, x, {64, 64});
  const BufferId over = b.pointwise(b.unary(ir::Op::exp, b.load(product)));
  b.output(b.matmul(over, x, {64, 64}));
  const auto schedule = run(b.module);
  CHECK(schedule.groups.at(1).inplace.size() == 1);
  CHECK(schedule.memory_order.bytes_before == kBig);
}

TEST_CASE("what has side effects keeps its order, and so do writers behind readers") {
  ModuleBuilder b = products_then_sums();
  for (ir::Operation &operation : b.module.operations)
    operation.has_side_effects = true;
  CHECK(order_of(run(b.module)) == order_of(run(b.module, false)));

  ModuleBuilder mutating;
  const BufferId x = mutating.input("x", {64, 64}), y = mutating.input("y", {64, 64});
  std::vector<BufferId> products;
  for (int i = 0; i < 3; ++i)
    products.push_back(mutating.matmul(x, y, {64, 64}));
  mutating.mutate(x, mutating.unary(ir::Op::exp, mutating.load(y)));
  for (const BufferId product : products)
    mutating.output(mutating.reduce(mutating.load(product)));
  const std::vector<scheduler::NodeId> order = order_of(run(mutating.module));
  const auto place = [&](scheduler::NodeId node) {
    return std::find(order.begin(), order.end(), node) - order.begin();
  };
  for (const scheduler::NodeId product : {0u, 1u, 2u})
    CHECK(place(product) < place(3));
}

TEST_CASE("memory whose slices several groups fill is there from the first of them on") {
  // Products stored into halves of `whole`, which a nop completes; each needs a large one first.
  ModuleBuilder b;
  const BufferId x = b.input("x", {64, 64});
  std::vector<BufferId> large, halves;
  for (int i = 0; i < 2; ++i)
    large.push_back(b.matmul(x, x, {64, 64}));
  for (const BufferId one : large)
    halves.push_back(b.matmul(one, x, {32, 64}));
  const BufferId whole = b.matmul(halves[0], halves[1], {64, 64});
  auto &join = std::get<ir::Extern>(b.module.operations[4].kind);
  join.library = ir::Library::concatenate;
  for (const BufferId half : halves) {
    b.module.buffers[half].view_of = whole;
    b.module.buffers[half].layout_kind = ir::LayoutKind::non_owning;
  }
  b.output(b.matmul(whole, x, {64, 64}));
  const auto schedule = run(b.module);
  CHECK(schedule.memory_order.bytes_before == 3 * kBig); // both large ones, and all of `whole`
  CHECK(schedule.memory_order.bytes == 2 * kBig);
  CHECK(order_of(schedule) == std::vector<scheduler::NodeId>{0, 2, 1, 3, 4, 5});
}
