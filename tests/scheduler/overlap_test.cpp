// Computation moved beside collectives by estimated times.
#include "module_builder.h"
#include "scheduler/schedule.h"
#include "testing/catch.h"

#include <algorithm>

using namespace tsc;
using test::BufferId;
using test::ModuleBuilder;

namespace {

constexpr int64_t kElements = 1 << 24;

/// Makes the call that computes `buffer` one of another kind.
void become(ModuleBuilder &b, BufferId buffer, ir::Library library) {
  auto &call = std::get<ir::Extern>(b.module.operations[b.module.buffers[buffer].operation].kind);
  call.library = library;
  call.inputs.resize(1);
  call.group = {"0", 4};
  call.reduction = "sum";
}

/// op0 scatters a sum, op1 waits for it and op2 uses it; then `count` kernels about as long as half
/// of the collective that need none of it, then one product of all that.
ModuleBuilder kernels_beside(int count) {
  ModuleBuilder b;
  const BufferId x = b.input("x", {kElements});
  const BufferId part = b.matmul(x, x, {kElements / 4});
  become(b, part, ir::Library::reduce_scatter);
  const BufferId done = b.matmul(part, part, {kElements / 4});
  become(b, done, ir::Library::wait);
  b.output(b.pointwise(b.unary(ir::Op::neg, b.load(done))));
  for (int i = 0; i < count; ++i) {
    const BufferId y = b.input("y" + std::to_string(i), {3 * kElements / 2});
    b.output(b.pointwise(b.unary(ir::Op::exp, b.load(y))));
  }
  return b;
}

std::vector<scheduler::NodeId> order_of(const ir::Module &module, bool overlaps) {
  target::Policy policy = target::default_policy();
  policy.reorder_for_overlap = overlaps;
  scheduler::ScheduleOptions options;
  options.policy = &policy;
  options.target = &target::find_target("sm_90");
  std::vector<scheduler::NodeId> order;
  for (const scheduler::Group &group : scheduler::schedule(module, options).groups)
    order.insert(order.end(), group.members.begin(), group.members.end());
  return order;
}

using Order = std::vector<scheduler::NodeId>;

} // namespace

// 48 MiB over a link of 450 GB/s take 112 us and 3 us of latency; a kernel moves 192 MiB at 4.08
// TB/s and starts in 2.5 us: 52 us.
TEST_CASE("as much runs beside a collective as its time has room for, and no more") {
  // Without the step waits go to the very end.
  CHECK(order_of(kernels_beside(5).module, false) == Order{0, 3, 4, 5, 6, 7, 1, 2});
  CHECK(order_of(kernels_beside(5).module, true) == Order{0, 3, 4, 5, 1, 6, 7, 2});
  CHECK(order_of(kernels_beside(1).module, true) == Order{0, 3, 1, 2});
  CHECK(order_of(kernels_beside(0).module, true) == Order{0, 1, 2});
}

namespace {

/// Of each layer six nodes: a gather of its weight, the wait, what is computed, the reduction of
/// that, its wait, what is returned.
ModuleBuilder sharded_layers(int count) {
  ModuleBuilder b;
  for (int i = 0; i < count; ++i) {
    const BufferId shard = b.input("shard" + std::to_string(i), {kElements / 4});
    const BufferId whole = b.matmul(shard, shard, {kElements});
    become(b, whole, ir::Library::all_gather);
    const BufferId there = b.matmul(whole, whole, {kElements});
    become(b, there, ir::Library::wait);
    const BufferId gradient = b.pointwise(b.unary(ir::Op::exp, b.load(there)));
    const BufferId part = b.matmul(gradient, gradient, {kElements / 4});
    become(b, part, ir::Library::reduce_scatter);
    const BufferId done = b.matmul(part, part, {kElements / 4});
    become(b, done, ir::Library::wait);
    b.output(b.pointwise(b.unary(ir::Op::neg, b.load(done))));
  }
  return b;
}

/// Where each node stands.
std::vector<size_t> places(size_t gathers, int64_t bytes) {
  const ModuleBuilder layers = sharded_layers(4);
  target::Policy policy = target::default_policy();
  policy.prefetch_gathers = gathers;
  policy.prefetch_bytes = bytes;
  scheduler::ScheduleOptions options;
  options.policy = &policy;
  options.target = &target::find_target("sm_90");
  std::vector<size_t> place(24);
  size_t next = 0;
  for (const scheduler::Group &group : scheduler::schedule(layers.module, options).groups)
    for (const scheduler::NodeId member : group.members)
      place[member] = next++;
  return place;
}

} // namespace

TEST_CASE("gathers of weights begin while the layer before is computed") {
  constexpr size_t kGather = 0, kWait = 1, kReduction = 3;
  const auto at = [](const std::vector<size_t> &place, size_t layer, size_t node) {
    return place[6 * layer + node];
  };
  const std::vector<size_t> as_written = places(0, INT64_MAX), one = places(1, INT64_MAX),
                            two = places(2, INT64_MAX), limited = places(2, 4 * kElements);
  for (size_t layer = 1; layer < 4; ++layer) {
    CHECK(at(as_written, layer, kGather) > at(as_written, layer - 1, kReduction));
    CHECK(at(one, layer, kGather) < at(one, layer - 1, kReduction));
    CHECK(at(one, layer, kGather) > at(one, layer - 1, kWait));
  }
  // Two ahead: no sooner than one layer earlier, and no more memory than is allowed.
  CHECK(at(two, 2, kGather) < at(two, 0, kReduction));
  CHECK(at(two, 3, kGather) > at(two, 1, kWait));
  CHECK(at(two, 3, kGather) < at(two, 1, kReduction));
  CHECK(limited == one);
}

namespace {

/// A training step of `count` layers: of each, forward, a gather, its wait and a product of what
/// the layer before yields; backward, last layer first, another gather and its wait, a product, the
/// reduction of its gradient and the wait; at the end what an optimizer does with all of them.
struct TrainingStep {
  ModuleBuilder b;
  std::vector<ir::OperationId> gathers, reductions, updates; // of the backward pass
  std::vector<ir::OperationId> casts;                        // of shards, for those gathers

  explicit TrainingStep(int count) {
    std::vector<BufferId> shards, again, saved;
    BufferId x = b.input("x", {kElements / 16});
    for (int i = 0; i < count; ++i)
      shards.push_back(b.input("shard" + std::to_string(i), {kElements / 4}));
    for (int i = 0; i < count; ++i)
      again.push_back(b.input("again" + std::to_string(i), {kElements / 4}));
    for (int i = 0; i < count; ++i) {
      const BufferId weight = gathered(shards[size_t(i)]);
      x = b.matmul(x, weight, {kElements / 16});
      saved.push_back(x);
    }
    std::vector<BufferId> gradients;
    for (size_t i = shards.size(); i-- > 0;) {
      const BufferId weight = gathered(again[i], true);
      const BufferId wide = b.matmul(saved[i], x, {4 * kElements});
      x = b.matmul(x, weight, {kElements / 16});
      const BufferId part = b.matmul(wide, wide, {kElements});
      become(b, part, ir::Library::reduce_scatter);
      reductions.push_back(last());
      const BufferId done = b.matmul(part, part, {kElements});
      become(b, done, ir::Library::wait);
      gradients.push_back(done);
    }
    for (size_t i = 0; i < gradients.size(); ++i) {
      b.output(b.pointwise(b.unary(ir::Op::neg, b.load(gradients[i]))));
      updates.push_back(last());
    }
  }

private:
  ir::OperationId last() const {
    return static_cast<ir::OperationId>(b.module.operations.size() - 1);
  }
  BufferId gathered(BufferId shard, bool again = false) {
    const BufferId cast = b.pointwise(b.unary(ir::Op::exp, b.load(shard)));
    if (again)
      casts.push_back(last());
    const BufferId whole = b.matmul(cast, cast, {kElements});
    become(b, whole, ir::Library::all_gather);
    if (again)
      gathers.push_back(last());
    const BufferId there = b.matmul(whole, whole, {kElements});
    become(b, there, ir::Library::wait);
    return there;
  }
};

/// Where each operation stands.
std::vector<size_t> places_of(const ir::Module &module, bool saves_memory) {
  target::Policy policy = target::default_policy();
  policy.reorder_for_peak_memory = saves_memory;
  scheduler::ScheduleOptions options;
  options.policy = &policy;
  options.target = &target::find_target("sm_90");
  std::vector<size_t> place(module.operations.size(), SIZE_MAX);
  size_t next = 0;
  const scheduler::Schedule schedule = scheduler::schedule(module, options);
  for (const scheduler::Group &group : schedule.groups)
    for (const scheduler::NodeId member : group.members)
      place[schedule.nodes[member].operation] = next++;
  return place;
}

} // namespace

TEST_CASE("gradients are used up, gathers begin and shards are cast when memory is there for it") {
  const TrainingStep step(6);
  const std::vector<size_t> freely = places_of(step.b.module, false),
                            sparingly = places_of(step.b.module, true);
  size_t early = 0, late = 0, beside = 0;
  for (size_t i = 0; i + 2 < step.updates.size(); ++i) {
    CHECK(freely[step.updates[i]] > freely[step.reductions.back()]);
    early += sparingly[step.updates[i]] < sparingly[step.reductions[i + 2]];
  }
  CHECK(early > 0);
  for (size_t i = 1; i < step.gathers.size(); ++i) {
    late += sparingly[step.casts[i]] + 1 == sparingly[step.gathers[i]];
    beside += freely[step.casts[i]] + 1 == freely[step.gathers[i]];
  }
  CHECK(late > beside);
  // What the last reduction runs beside stays where it was.
  CHECK(sparingly[step.updates[4]] > sparingly[step.reductions.back()]);
  for (size_t i = 1; i < step.reductions.size(); ++i) // all ranks, in one order
    CHECK(sparingly[step.reductions[i - 1]] < sparingly[step.reductions[i]]);
}
