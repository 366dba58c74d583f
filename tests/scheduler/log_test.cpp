#include "golden_log.h"
#include "module_builder.h"
#include "scheduler/schedule.h"
#include "testing/catch.h"

using namespace tsc;
using test::BufferId;
using test::Expr;
using test::ModuleBuilder;

namespace {

std::string log_of(const ir::Module &module, const scheduler::LogOptions &log_options = {}) {
  scheduler::ScheduleOptions options;
  options.policy = &target::inductor_2_5_policy();
  options.target = &target::find_target("sm_80");
  return scheduler::to_log(module, scheduler::schedule(module, options), log_options);
}

ir::Module seed_000() {
  ModuleBuilder b(tensor::DType::f16);
  b.output(b.reduce(b.load(b.input("arg0_1", {1024, 16, 16, 256}))));
  return std::move(b.module);
}

ir::Module seed_002() {
  ModuleBuilder b(tensor::DType::bf16);
  const Expr rows = 2048, columns = 256, basis = 128;
  const BufferId arg0 = b.input("arg0_1", {rows, basis});
  const BufferId arg1 = b.input("arg1_1", {rows});
  const BufferId arg2 = b.input("arg2_1", {rows, columns});
  const BufferId arg3 = b.input("arg3_1", {basis});
  const BufferId arg4 = b.input("arg4_1", {columns});
  const auto i = ir::variable(0), j = ir::variable(1);
  const auto weighted =
      b.pointwise(b.binary(ir::Op::mul, b.load(arg2), b.load(arg1, {rows, columns}, {i})));
  const auto spectrum = b.matmul(arg0, weighted, {basis, columns});
  const auto minus = b.unary(ir::Op::neg, b.load(arg3, {basis, columns}, {i}));
  const auto rate = b.binary(ir::Op::mul, minus, b.load(arg4, {basis, columns}, {j}));
  const auto decayed =
      b.pointwise(b.binary(ir::Op::mul, b.unary(ir::Op::exp, rate), b.load(spectrum)));
  b.output(b.matmul(arg0, decayed, {rows, columns}));
  b.output(decayed);
  return std::move(b.module);
}

ir::Module seed_004() {
  ModuleBuilder b;
  const BufferId x = b.input("arg0_1", {64, 128}), y = b.input("arg1_1", {64, 128});
  b.output(b.reduce(b.binary(ir::Op::add, b.load(x), b.load(y))));
  return std::move(b.module);
}

} // namespace

TEST_CASE("the log of a hand-built module is that of the seed") {
  CHECK(log_of(seed_000()) == test::golden_log("seed_000"));
  CHECK(log_of(seed_002()) == test::golden_log("seed_002"));
  CHECK(log_of(seed_004()) == test::golden_log("seed_004"));
}

TEST_CASE("kernel text follows its node, indented, without trailing newlines") {
  scheduler::LogOptions options;
  options.kernel_text = [](const scheduler::Schedule &, const scheduler::Group &) {
    return "void f() {\n\n  g();\n}\n";
  };
  const std::string log = log_of(seed_004(), options);
  const std::string expected = "        return store_reduction\nop0 CUDA code:\n    void f() {\n\n"
                               "      g();\n    }\n\n\n";
  REQUIRE(log.size() > expected.size());
  CHECK(log.substr(log.size() - expected.size()) == expected);
}

TEST_CASE("a fused group prints its sections, then its members") {
  ModuleBuilder b;
  const BufferId x = b.input("x", {8});
  const BufferId first = b.pointwise(b.unary(ir::Op::exp, b.load(x)));
  b.output(b.pointwise(b.unary(ir::Op::neg, b.load(first))));
  scheduler::LogOptions options;
  const std::string log = log_of(b.module, options);
  const std::string head =
      "op0_op1: FusedSchedulerNode(SchedulerNode,SchedulerNode)\n"
      "op0_op1.writes = [MemoryDep('buf0', c0, {c0: 8}, None), MemoryDep('buf1', c0, {c0: 8}, "
      "None)]\n"
      "op0_op1.unmet_dependencies = []\n"
      "op0_op1.met_dependencies = [MemoryDep('x', c0, {c0: 8}, None)]\n"
      "op0_op1.outputs = [\n"
      "    buf0: ComputedBuffer\n"
      "    buf0.layout = FixedLayout('cuda', torch.float32, size=[8], stride=[1])\n"
      "    buf0.users = [NodeUser(node=SchedulerNode(name='op1'), can_inplace=True, "
      "is_weak=False)]\n"
      "    buf1: ComputedBuffer\n"
      "    buf1.layout = FixedLayout('cuda', torch.float32, size=[8], stride=[1])\n"
      "    buf1.users = [NodeUser(node=OUTPUT, can_inplace=False, is_weak=False)]\n"
      "]\n"
      "op0_op1.snodes[0] =\n"
      "op0: SchedulerNode(ComputedBuffer)\n";
  CHECK(log.substr(0, head.size()) == head);
  CHECK(log.find("        return store\nop0_op1.snodes[1] =\nop1: SchedulerNode(") !=
        std::string::npos);
  options.stage = scheduler::LogStage::pre_fusion;
  const std::string unfused = log_of(b.module, options);
  CHECK(unfused.find("op0: SchedulerNode(ComputedBuffer)\n") == 0);
  CHECK(unfused.find("Fused") == std::string::npos);
}

TEST_CASE("the newer dialect leaves out plain modes and names device indices") {
  scheduler::LogOptions options;
  options.newer_dialect = true;
  const std::string log = log_of(seed_004(), options);
  CHECK(log.find("op0.writes = [MemoryDep('buf0', c0, {c0: 64})]\n") != std::string::npos);
  CHECK(log.find("buf0.layout = FixedLayout('cuda:0', torch.float32, size=[64], stride=[1])") !=
        std::string::npos);
  CHECK(log.find("op0.sizes = ((64,), (128,))\n") != std::string::npos);
  CHECK(log.find("    var_ranges = {p0: 64, p1: 128}\n    index0 = 128*p0 + p1\n") !=
        std::string::npos);
}

TEST_CASE("the newer dialect prints loops as lowered before fusion, merged ones after it") {
  scheduler::LogOptions options;
  options.newer_dialect = true;
  const std::string after = log_of(seed_002(), options);
  CHECK(after.find("op0.writes = [MemoryDep('buf0', c0, {c0: 524288})]\n") != std::string::npos);
  CHECK(after.find("op0.sizes = ((2048, 256), ())\n") != std::string::npos);
  options.stage = scheduler::LogStage::pre_fusion;
  const std::string before = log_of(seed_002(), options);
  const std::string lists = "op0.writes = [MemoryDep('buf0', 256*d0 + d1, {d0: 2048, d1: 256})]\n"
                            "op0.unmet_dependencies = []\n"
                            "op0.met_dependencies = \n"
                            "    [   MemoryDep('arg1_1', d0, {d0: 2048}),\n"
                            "        MemoryDep('arg2_1', 256*d0 + d1, {d0: 2048, d1: 256})]\n";
  CHECK(before.find(lists) != std::string::npos);
  CHECK(before.find("op0.sizes = ([2048, 256], [])\n") != std::string::npos);
  CHECK(before.find("MemoryDep('arg4_1', d1, {d0: 128, d1: 256})") != std::string::npos);
}

TEST_CASE("the newer dialect's fused groups name accesses over the loops as lowered") {
  ModuleBuilder b;
  const BufferId x = b.input("x", {6, 8});
  const BufferId sum = b.reduce(b.load(x));
  const auto row = b.load(sum, {6, 8}, {ir::variable(0)});
  b.output(b.pointwise(b.binary(ir::Op::sub, b.load(x), row)));
  scheduler::LogOptions options;
  options.newer_dialect = true;
  const std::string log = log_of(b.module, options);
  const std::string head =
      "op0_op1: FusedSchedulerNode(SchedulerNode,SchedulerNode)\n"
      "op0_op1.writes = [MemoryDep('buf0', d0, {d0: 6}), MemoryDep('buf1', 8*d0 + d1, {d0: 6, "
      "d1: 8})]\n"
      "op0_op1.unmet_dependencies = []\n"
      "op0_op1.met_dependencies = [MemoryDep('x', 8*d0 + d1, {d0: 6, d1: 8})]\n";
  CHECK(log.substr(0, head.size()) == head);
  const std::string member = "op0_op1.snodes[1] =\nop1: SchedulerNode(ComputedBuffer)\n"
                             "op1.writes = [MemoryDep('buf1', c0, {c0: 48})]\n";
  CHECK(log.find(member) != std::string::npos);
}

TEST_CASE("one element that is too long for a line stays on it, indented") {
  ModuleBuilder b;
  const BufferId x =
      b.input("a_name_that_is_long_enough_for_the_list_to_be_longer_than_a_line", {8});
  b.output(b.pointwise(b.unary(ir::Op::exp, b.load(x))));
  const std::string line =
      "op0.met_dependencies = [   MemoryDep('a_name_that_is_long_enough_for_the_list_"
      "to_be_longer_than_a_line', c0, {c0: 8}, None)]\n";
  CHECK(log_of(b.module).find(line) != std::string::npos);
}

TEST_CASE("atomic stores name their mode and values loaded at run time") {
  // target[index[i]] += source[i]
  ModuleBuilder b;
  const BufferId index = b.input("index", {8});
  b.module.buffers[index].dtype = tensor::DType::i64;
  const BufferId source = b.input("source", {8}), start = b.input("start", {4});
  const BufferId target = b.pointwise(b.unary(ir::Op::exp, b.load(start)));
  b.output(b.scatter_add(target, index, source));
  for (const bool newer : {false, true}) {
    scheduler::LogOptions options;
    options.newer_dialect = newer;
    const std::string log = log_of(b.module, options);
    CHECK(log.find("op1.writes = [MemoryDep('buf1', tmp0, {}, atomic_add)]\n") !=
          std::string::npos);
    CHECK(log.find("op1.unmet_dependencies = [StarDep(name='buf0', mode='atomic_add')]\n") !=
          std::string::npos);
    CHECK(log.find(" = indirect0\n") != std::string::npos);
  }
}
