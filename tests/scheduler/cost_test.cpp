// How long groups take: bytes and operations at the rates that a target is known to reach.
#include "module_builder.h"
#include "scheduler/cost.h"
#include "testing/catch.h"

#include <algorithm>
#include <cmath>

using namespace tsc;
using scheduler::Cost;
using test::BufferId;
using test::ModuleBuilder;

namespace {

std::vector<Cost> estimates(const ir::Module &module, const char *arch) {
  scheduler::ScheduleOptions options;
  options.target = &target::find_target(arch);
  const scheduler::Schedule schedule = scheduler::schedule(module, options);
  std::vector<Cost> found;
  for (const scheduler::Group &group : schedule.groups)
    found.push_back(scheduler::cost_of(module, schedule, group, *options.target));
  return found;
}

} // namespace

TEST_CASE("kernels take the time of the bytes that leave them") {
  ModuleBuilder b;
  const BufferId x = b.input("x", {4096, 1024});
  const BufferId first = b.pointwise(b.unary(ir::Op::exp, b.load(x)));
  const auto twice = b.binary(ir::Op::add, b.load(first), b.load(x));
  b.output(b.pointwise(twice));
  const double numel = 4096 * 1024;
  const auto a100 = estimates(b.module, "sm_80"), h200 = estimates(b.module, "sm_90");
  REQUIRE(a100.size() == 1);
  CHECK(a100[0].bytes == 2 * 4 * numel); // x once, the result; `first` stays inside
  CHECK(a100[0].operations == 2 * numel);
  CHECK(a100[0].nanoseconds == Approx(2500 + 2 * 4 * numel / (0.85 * 2.039e12) * 1e9));
  CHECK(h200[0].nanoseconds == Approx(2500 + 2 * 4 * numel / (0.85 * 4.8e12) * 1e9));
}

TEST_CASE("broadcast operands count as they lie in memory") {
  ModuleBuilder b;
  const BufferId x = b.input("x", {512, 256}), bias = b.input("bias", {256});
  const auto added = b.binary(ir::Op::add, b.load(x), b.load(bias, {512, 256}, {ir::variable(1)}));
  b.output(b.pointwise(added));
  CHECK(estimates(b.module, "sm_90").at(0).bytes == 4 * (2 * 512 * 256 + 256));
}

TEST_CASE("products take the longer of their bytes and their operations") {
  const auto product = [](int64_t rows, tensor::DType dtype) {
    ModuleBuilder b(dtype);
    const BufferId a = b.input("a", {rows, 4096}), w = b.input("w", {4096, 4096});
    b.output(b.matmul(a, w, {rows, 4096}));
    return estimates(b.module, "sm_90").at(0);
  };
  const double flops = 2.0 * 4096 * 4096 * 4096, bytes = 3.0 * 4096 * 4096 * 2;
  const Cost large = product(4096, tensor::DType::bf16);
  CHECK(large.operations == flops);
  CHECK(large.bytes == bytes);
  CHECK(large.nanoseconds == Approx(5000 + flops / 700e12 * 1e9));
  CHECK(product(4096, tensor::DType::f32).nanoseconds ==
        Approx(5000 + flops / (67e12 * 700 / 989) * 1e9));
  const Cost one_row = product(1, tensor::DType::bf16);
  CHECK(one_row.nanoseconds ==
        Approx(5000 + (4096.0 * 4096 + 2 * 4096) * 2 / (0.85 * 4.8e12) * 1e9));
}

TEST_CASE("what chooses a product's kernel and what tells its time agree") {
  ModuleBuilder b(tensor::DType::bf16);
  const BufferId a = b.input("a", {4096, 256}), w = b.input("w", {256, 4096});
  const BufferId product = b.matmul(a, w, {4096, 4096});
  b.output(b.pointwise(b.unary(ir::Op::relu, b.load(product))));
  scheduler::ScheduleOptions options;
  for (const char *arch : {"sm_80", "sm_90"}) {
    options.target = &target::find_target(arch);
    const scheduler::Schedule schedule = scheduler::schedule(b.module, options);
    const double flops = 2.0 * 4096 * 256 * 4096,
                 bytes = 2.0 * (4096 * 256 + 256 * 4096 + 4096 * 4096);
    for (const scheduler::Group &group : schedule.groups) {
      const Cost cost = scheduler::cost_of(b.module, schedule, group, *options.target);
      if (group.parts) {
        CHECK(cost.operations >= flops);
        CHECK(cost.bytes == bytes);
        // The choice was made by it, and `tsc explain` tells it of the tile that was taken.
        const auto tenths = static_cast<int64_t>(cost.nanoseconds / 100 + 0.5);
        const std::string told =
            std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + " us";
        CHECK(std::any_of(schedule.decisions.begin(), schedule.decisions.end(),
                          [&](const scheduler::FusionDecision &decision) {
                            return decision.refusal == scheduler::Refusal::none &&
                                   decision.detail.find(told) != std::string::npos;
                          }));
      } else if (group.node_class == scheduler::NodeClass::external) {
        CHECK(cost.operations == flops);
        CHECK(cost.nanoseconds ==
              scheduler::library_nanoseconds(*options.target, bytes, flops, tensor::DType::bf16));
      } else {
        CHECK(cost.nanoseconds ==
              scheduler::kernel_nanoseconds(*options.target, cost.bytes, cost.operations));
      }
    }
    CHECK((schedule.groups[0].parts != nullptr) == options.target->has_wgmma);
  }
}

TEST_CASE("collectives take the time of links, waits none") {
  ModuleBuilder b;
  const BufferId x = b.input("x", {1 << 20});
  ir::Extern call;
  call.kernel = "torch.ops._c10d_functional.reduce_scatter_tensor.default";
  call.library = ir::Library::reduce_scatter;
  call.group = {"0", 4};
  call.reduction = "sum";
  const BufferId part = b.matmul(x, x, {1 << 18});
  call.inputs = {std::get<ir::Extern>(b.module.operations[0].kind).inputs[0]};
  b.module.operations[0].kind = call;
  const BufferId done = b.matmul(part, part, {1 << 18});
  auto &wait = std::get<ir::Extern>(b.module.operations[1].kind);
  wait.library = ir::Library::wait;
  b.output(done);
  const auto found = estimates(b.module, "sm_90");
  REQUIRE(found.size() == 2);
  const double sent = 4.0 * (1 << 20) * 3 / 4;
  CHECK(found[0].bytes == sent);
  CHECK(found[0].nanoseconds == Approx(sent / 450e9 * 1e9 + 3 * 1000));
  CHECK(found[1].nanoseconds == 0);
}

TEST_CASE(
    "sorting by digits is faster where the decomposition takes it, merging where it does not") {
  const target::Target &hopper = target::find_target("sm_90");
  const auto by_digits = [&](const scheduler::SortWork &work) {
    return scheduler::radix_sort_cost(hopper, work).nanoseconds;
  };
  for (const int64_t bytes : {2, 4, 8}) {
    const auto boundary = static_cast<double>(bytes * 16384); // of ops/families/ordering.cpp
    const scheduler::SortWork few{1, boundary / 2, bytes}, many{1, boundary * 4, bytes};
    CHECK(by_digits(few) > scheduler::merge_sort_nanoseconds(hopper, few));
    CHECK(by_digits(many) < scheduler::merge_sort_nanoseconds(hopper, many));
  }
  // What merging took on an H200, which its estimate is made from.
  const auto near = [&](const scheduler::SortWork &work, double measured) {
    return scheduler::merge_sort_nanoseconds(hopper, work) == Approx(measured).epsilon(0.03);
  };
  CHECK(near({1, 4194304, 4}, 1.867e6));
  CHECK(near({8, 1048576, 4}, 2.670e6));
  CHECK(near({1, 16000001, 8}, 11.83e6));
  // Every pass reads twice and writes once; positions go along.
  CHECK(scheduler::radix_sort_cost(hopper, {1, 4194304, 4}).bytes == 80.0 * 4194304);
  CHECK(scheduler::radix_sort_cost(hopper, {1, 4194304, 4, true, false}).bytes == 48.0 * 4194304);
}

TEST_CASE("rows that a launch finds to be short are read and written once") {
  const target::Target &hopper = target::find_target("sm_90"), &ada = target::find_target("sm_89");
  const auto any = [](double rows, double length, int64_t bytes) {
    return scheduler::SortWork{rows, length, bytes, true, true, true};
  };
  const auto near = [&](const scheduler::SortWork &work, double measured) {
    return scheduler::radix_sort_cost(hopper, work).nanoseconds == Approx(measured).epsilon(0.2);
  };
  CHECK(near(any(8413, 519, 4), 147e3 * 519 / 1024)); // threads without elements waited then
  CHECK(near(any(3254, 1500, 8), 210e3 * 1500 / 2048));
  CHECK(scheduler::radix_sort_cost(hopper, any(100, 16384, 4)).bytes == 16.0 * 100 * 16384);
  // 64-bit keys of more than 8192 elements need more registers than 1024 threads have; what 16384
  // of 32 bits take fits the 99 KiB of a block of the smaller parts.
  CHECK(scheduler::is_sorted_whole(hopper, any(100, 16384, 4)));
  CHECK(scheduler::is_sorted_whole(ada, any(100, 16384, 4)));
  CHECK(scheduler::is_sorted_whole(ada, any(100, 8192, 8)));
  CHECK(!scheduler::is_sorted_whole(hopper, any(100, 8193, 8)));
  CHECK(!scheduler::is_sorted_whole(hopper, any(100, 16385, 2)));
  CHECK(!scheduler::is_sorted_whole(hopper, {100, 5000, 4}));
}

TEST_CASE("unaligned products are filled up where what one block brings takes longer than copies") {
  const target::Target &target = target::find_target("sm_90");
  // [batch, rows, terms] by [batch, terms, columns], right factors filled up.
  const auto pays = [&](double batch, double rows, double terms, double columns, double copied,
                        int copies) {
    const double tiles = batch * std::ceil(rows / 128) * std::ceil(columns / 128);
    return scheduler::pays_to_align(
        target, {2 * batch * rows * columns * terms,
                 2 * batch * (rows * terms + terms * columns + rows * columns), tiles,
                 2 * terms * (std::min(rows, 128.0) + std::min(columns, 128.0)),
                 batch == 1 ? terms : 0, copied, copies});
  };
  CHECK(pays(32, 64, 3136, 49, 2 * 32 * 3136 * (49 + 56), 1)); // 46 us, 24 with the copy
  CHECK(pays(1, 24576, 196, 192, 2 * 24576 * (196 + 200) + 2 * 192 * (196 + 200), 2)); // 29, 20
  CHECK(!pays(1, 128, 196, 128, 2 * 2 * 128 * (196 + 200), 2)); // launches are all that it takes
  CHECK(!pays(1, 777, 999, 333, 2 * (777 + 333) * (999 + 1000), 2));       // 20 us, 24
  CHECK(!pays(1, 31, 100003, 257, 2 * (31 + 257) * (100003 + 100008), 2)); // 79 us, 123
  CHECK(pays(1, 5000, 3001, 4999, 2 * 5000 * (3001 + 3008) + 2 * 4999 * (3001 + 3008), 2));
}
