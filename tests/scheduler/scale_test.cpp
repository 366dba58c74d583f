// Scheduling is near-linear: what would be quadratic takes minutes here.
#include "module_builder.h"
#include "scheduler/schedule.h"
#include "testing/catch.h"

#include <chrono>

using namespace tsc;
using test::BufferId;
using test::ModuleBuilder;

namespace {

constexpr size_t kCount = 100000;
/// A generous bound for slow machines; the 2-core reference machine takes a few seconds.
constexpr double kMaxSeconds = 60;

scheduler::Schedule run_timed(const ir::Module &module) {
  scheduler::ScheduleOptions options;
  auto last = std::chrono::steady_clock::now();
  const auto start = last;
  const auto seconds = [](auto from, auto to) {
    return std::chrono::duration<double>(to - from).count();
  };
  std::string timing;
  options.after = [&](std::string_view step, const scheduler::Schedule &) {
    const auto now = std::chrono::steady_clock::now();
    timing += std::string(step) + " " + std::to_string(seconds(last, now)) + " s\n";
    last = now;
  };
  scheduler::Schedule schedule = scheduler::schedule(module, options);
  UNSCOPED_INFO(timing);
  CHECK(seconds(start, std::chrono::steady_clock::now()) < kMaxSeconds);
  return schedule;
}

} // namespace

TEST_CASE("a chain of 100000 operations is scheduled in kernels of the largest size") {
  ModuleBuilder b;
  BufferId last = b.input("x", {1024});
  for (size_t i = 0; i < kCount; ++i)
    last = b.pointwise(b.unary(ir::Op::exp, b.load(last)));
  b.output(last);
  const auto schedule = run_timed(b.module);
  CHECK(schedule.groups.size() <= kCount / 32);
  CHECK(schedule.groups[0].members.size() <= 64);
}

TEST_CASE("a buffer with 100000 readers") {
  ModuleBuilder b;
  const BufferId x = b.input("x", {1024});
  const BufferId shared = b.pointwise(b.unary(ir::Op::exp, b.load(x)));
  for (size_t i = 0; i < kCount; ++i)
    b.output(b.pointwise(b.unary(ir::Op::neg, b.load(shared))));
  const auto schedule = run_timed(b.module);
  CHECK(schedule.groups.size() <= kCount / 16);
}

TEST_CASE("library calls between 100000 operations with skips") {
  ModuleBuilder b;
  std::vector<BufferId> values = {b.input("x", {16, 16})};
  for (size_t i = 0; i < kCount; ++i) {
    const BufferId before = values[values.size() / 2];
    if (i % 3 == 2)
      values.push_back(b.matmul(values.back(), before, {16, 16}));
    else
      values.push_back(b.pointwise(b.binary(ir::Op::add, b.load(values.back()), b.load(before))));
  }
  b.output(values.back());
  const auto schedule = run_timed(b.module);
  CHECK(schedule.groups.size() >= kCount * 2 / 3);
}
