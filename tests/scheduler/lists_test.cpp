// Several kernels in one launch: lists from list operators, and combo kernels.
#include "module_builder.h"
#include "scheduler/schedule.h"
#include "testing/catch.h"

#include <algorithm>
#include <cstdint>

using namespace tsc;
using scheduler::GroupList;
using scheduler::Refusal;
using scheduler::Schedule;
using test::BufferId;
using test::Expr;
using test::ModuleBuilder;

namespace {

Schedule run(const ir::Module &module, const target::Policy &policy,
             std::vector<scheduler::StepRecord> *records = nullptr) {
  target::Policy in_order = policy; // of fusion: memory is not what these tests are about
  in_order.reorder_for_peak_memory = false;
  scheduler::ScheduleOptions options;
  options.policy = &in_order;
  options.target = &target::find_target("sm_80");
  options.records = records;
  return scheduler::schedule(module, options);
}
Schedule run(const ir::Module &module) { return run(module, target::inductor_2_5_policy()); }

/// Members of every group, groups of one list joined by "|": "op0+op2|op1".
std::vector<std::string> launches(const ir::Module &module, const Schedule &schedule) {
  std::vector<std::string> texts;
  uint32_t last = ir::kNone;
  for (const scheduler::Group &group : schedule.groups) {
    std::string text;
    for (const scheduler::NodeId member : group.members)
      text += (text.empty() ? "" : "+") + module.operations[schedule.nodes[member].operation].name;
    if (group.list != ir::kNone && group.list == last)
      texts.back() += "|" + text;
    else
      texts.push_back(text);
    last = group.list;
  }
  return texts;
}
using Launches = std::vector<std::string>;

/// The explanation of why two are apart.
std::string reason(const ir::Module &module, const Schedule &schedule, const std::string &first,
                   const std::string &second) {
  const auto name = [&](scheduler::NodeId id) {
    return module.operations[schedule.nodes[id].operation].name;
  };
  for (const scheduler::FusionDecision &decision : schedule.decisions)
    if (decision.refusal != Refusal::none && name(decision.first) == first &&
        name(decision.second) == second)
      return std::string(scheduler::to_string(decision.refusal)) + ": " + decision.detail;
  return "";
}

/// Makes the operations elements of one list operator.
void make_list(ModuleBuilder &b, const std::string &name, const std::vector<size_t> &operations) {
  for (const size_t operation : operations)
    b.module.operations[operation].list = static_cast<uint32_t>(b.module.lists.size());
  b.module.lists.push_back(name);
}

/// exp(x) and exp(y), elements of one list.
struct TwoElements : ModuleBuilder {
  BufferId x = input("x", {64}), y = input("y", {48});
  BufferId first = pointwise(unary(ir::Op::exp, load(x)));
  BufferId second = pointwise(unary(ir::Op::exp, load(y)));
  TwoElements() { make_list(*this, "_foreach_exp", {0, 1}); }
};

} // namespace

TEST_CASE("a list operator is one launch, which the log prints as a foreach node") {
  TwoElements b;
  b.output(b.first);
  b.output(b.second);
  const Schedule schedule = run(b.module);
  CHECK(launches(b.module, schedule) == Launches{"op0|op1"});
  REQUIRE(schedule.lists.size() == 1);
  CHECK(schedule.lists[0].kind == GroupList::Kind::foreach);
  CHECK(schedule.lists[0].made_by == "_foreach_exp");
  scheduler::LogOptions log;
  log.kernel_text = [](const scheduler::Schedule &, const scheduler::Group &) {
    return "kernel\n";
  };
  CHECK(scheduler::to_log(b.module, schedule, log) ==
        R"(op0_op1: ForeachKernelSchedulerNode(SchedulerNode,SchedulerNode)
op0_op1.writes = [MemoryDep('buf0', c0, {c0: 64}, None), MemoryDep('buf1', c0, {c0: 48}, None)]
op0_op1.unmet_dependencies = []
op0_op1.met_dependencies = [MemoryDep('x', c0, {c0: 64}, None), MemoryDep('y', c0, {c0: 48}, None)]
op0_op1.outputs = [
    buf0: ComputedBuffer
    buf0.layout = FixedLayout('cuda', torch.float32, size=[64], stride=[1])
    buf0.users = [NodeUser(node=OUTPUT, can_inplace=False, is_weak=False)]
    buf1: ComputedBuffer
    buf1.layout = FixedLayout('cuda', torch.float32, size=[48], stride=[1])
    buf1.users = [NodeUser(node=OUTPUT, can_inplace=False, is_weak=False)]
]
op0_op1.snodes[0] =
op0: SchedulerNode(ComputedBuffer)
op0.writes = [MemoryDep('buf0', c0, {c0: 64}, None)]
op0.unmet_dependencies = []
op0.met_dependencies = [MemoryDep('x', c0, {c0: 64}, None)]
op0.outputs = [
    buf0: ComputedBuffer
    buf0.layout = FixedLayout('cuda', torch.float32, size=[64], stride=[1])
    buf0.users = [NodeUser(node=OUTPUT, can_inplace=False, is_weak=False)]
]
op0.group.device = cuda:0
op0.group.iteration = (64, 1)
op0.sizes = ([64], [])
x_layout = FixedLayout('cuda', torch.float32, size=[64], stride=[1])
buf0_layout = FixedLayout('cuda', torch.float32, size=[64], stride=[1])
class op0_loop_body:
    var_ranges = {z0: 64}
    index0 = z0
    def body(self, ops):
        get_index = self.get_index('index0')
        load = ops.load('x', get_index)
        exp = ops.exp(load)
        get_index_1 = self.get_index('index0')
        store = ops.store('buf0', get_index_1, exp, None)
        return store
op0_op1.snodes[1] =
op1: SchedulerNode(ComputedBuffer)
op1.writes = [MemoryDep('buf1', c0, {c0: 48}, None)]
op1.unmet_dependencies = []
op1.met_dependencies = [MemoryDep('y', c0, {c0: 48}, None)]
op1.outputs = [
    buf1: ComputedBuffer
    buf1.layout = FixedLayout('cuda', torch.float32, size=[48], stride=[1])
    buf1.users = [NodeUser(node=OUTPUT, can_inplace=False, is_weak=False)]
]
op1.group.device = cuda:0
op1.group.iteration = (48, 1)
op1.sizes = ([48], [])
y_layout = FixedLayout('cuda', torch.float32, size=[48], stride=[1])
buf1_layout = FixedLayout('cuda', torch.float32, size=[48], stride=[1])
class op1_loop_body:
    var_ranges = {z0: 48}
    index0 = z0
    def body(self, ops):
        get_index = self.get_index('index0')
        load = ops.load('y', get_index)
        exp = ops.exp(load)
        get_index_1 = self.get_index('index0')
        store = ops.store('buf1', get_index_1, exp, None)
        return store
op0_op1 CUDA code:
    kernel


)");
}

TEST_CASE("two lists fuse element by element") {
  TwoElements b;
  b.output(b.pointwise(b.unary(ir::Op::neg, b.load(b.first))));
  b.output(b.pointwise(b.unary(ir::Op::neg, b.load(b.second))));
  make_list(b, "_foreach_neg", {2, 3});
  const Schedule schedule = run(b.module);
  CHECK(launches(b.module, schedule) == Launches{"op0+op2|op1+op3"});
  CHECK(schedule.lists[schedule.groups[0].list].made_by == "_foreach_exp, _foreach_neg");
  CHECK(schedule.groups[0].internal_buffers == std::vector<BufferId>{b.first});
  CHECK(schedule.groups[1].internal_buffers == std::vector<BufferId>{b.second});
}

TEST_CASE("lists that do not fit element by element stay two launches") {
  TwoElements b;
  SECTION("of different lengths") {
    b.output(b.pointwise(b.unary(ir::Op::neg, b.load(b.first))));
    b.output(b.second);
    make_list(b, "_foreach_neg", {2});
    const Schedule schedule = run(b.module);
    CHECK(launches(b.module, schedule) == Launches{"op0|op1", "op2"});
    CHECK(reason(b.module, schedule, "op0", "op2") ==
          "lists of different lengths: the list of _foreach_exp (2 elements) and the list of "
          "_foreach_neg (1 element): lists of different lengths");
  }
  SECTION("an element that waits for another one's partner") {
    b.output(b.pointwise(b.binary(ir::Op::add, b.load(b.first), b.load(b.first))));
    const auto part = b.load(b.first, {48}, {ir::variable(0)});
    b.output(b.pointwise(b.binary(ir::Op::add, b.load(b.second), part)));
    make_list(b, "_foreach_add", {2, 3});
    const Schedule schedule = run(b.module);
    CHECK(launches(b.module, schedule) == Launches{"op0|op1", "op2|op3"});
    CHECK(reason(b.module, schedule, "op0", "op2") ==
          "not one element of a list for one of the other: the list of _foreach_exp (2 elements) "
          "and the list of _foreach_add (2 elements): not one element of a list for one of the "
          "other");
  }
  SECTION("one pair refused is all refused") {
    b.output(b.pointwise(b.unary(ir::Op::neg, b.load(b.first))));
    b.output(b.pointwise(b.unary(ir::Op::neg, b.load(b.second, {24}, {ir::variable(0)}))));
    make_list(b, "_foreach_neg", {2, 3});
    const Schedule schedule = run(b.module);
    CHECK(launches(b.module, schedule) == Launches{"op0|op1", "op2|op3"});
    CHECK(reason(b.module, schedule, "op0", "op2") ==
          "loops do not match: op1 and op3: loops (48, 1) and (24, 1) do not match");
  }
}

TEST_CASE("what reads one element of a list joins its kernel") {
  TwoElements b;
  b.output(b.pointwise(b.unary(ir::Op::neg, b.load(b.second))));
  b.output(b.first);
  CHECK(launches(b.module, run(b.module)) == Launches{"op0|op1+op2"});
}

TEST_CASE("what an element of a list alone reads joins its kernel") {
  ModuleBuilder b;
  const BufferId x = b.input("x", {64}), y = b.input("y", {48});
  const BufferId before = b.pointwise(b.unary(ir::Op::exp, b.load(y)));
  b.output(b.pointwise(b.unary(ir::Op::neg, b.load(x))));
  b.output(b.pointwise(b.unary(ir::Op::neg, b.load(before))));
  make_list(b, "_foreach_neg", {1, 2});
  CHECK(launches(b.module, run(b.module)) == Launches{"op1|op0+op2"});
}

TEST_CASE("reductions, and what reads two elements, stay apart from a list") {
  TwoElements b;
  SECTION("a reduction") {
    b.output(b.reduce(b.load(b.first)));
    b.output(b.second);
    const Schedule schedule = run(b.module);
    CHECK(launches(b.module, schedule) == Launches{"op0|op1", "op2"});
    CHECK(reason(b.module, schedule, "op0", "op2") ==
          "a list and a reduction: the list of _foreach_exp (2 elements) and op2: a list and a "
          "reduction");
  }
  SECTION("two elements") {
    const auto part = b.load(b.first, {48}, {ir::variable(0)});
    b.output(b.pointwise(b.binary(ir::Op::add, part, b.load(b.second))));
    const Schedule schedule = run(b.module);
    CHECK(launches(b.module, schedule) == Launches{"op0|op1", "op2"});
    CHECK(reason(b.module, schedule, "op0", "op2") ==
          "not one element of a list for one of the other: the list of _foreach_exp (2 elements) "
          "and op2: not one element of a list for one of the other");
  }
}

TEST_CASE("a list of ten thousand elements, each with a reader of its own, is one launch") {
  constexpr size_t kElements = 10000;
  ModuleBuilder b;
  std::vector<size_t> elements;
  for (size_t i = 0; i < kElements; ++i) {
    elements.push_back(i);
    b.pointwise(b.unary(ir::Op::exp, b.load(b.input("x" + std::to_string(i), {64}))));
  }
  for (const size_t i : elements)
    b.output(b.pointwise(b.unary(ir::Op::neg, b.load(b.module.operations[i].outputs[0]))));
  make_list(b, "_foreach_exp", elements);
  const Schedule schedule = run(b.module);
  CHECK(schedule.groups.size() == kElements);
  CHECK(schedule.groups[0].members.size() == 2);
  CHECK(std::all_of(schedule.groups.begin(), schedule.groups.end(),
                    [](const scheduler::Group &group) { return group.list == 0; }));
}

TEST_CASE("elements that wait for each other are no list") {
  ModuleBuilder b;
  const BufferId x = b.input("x", {64});
  const BufferId first = b.pointwise(b.unary(ir::Op::exp, b.load(x)));
  const BufferId product = b.matmul(first, first, {64});
  b.output(b.pointwise(b.unary(ir::Op::exp, b.load(product))));
  make_list(b, "_foreach_exp", {0, 2});
  const Schedule schedule = run(b.module);
  CHECK(launches(b.module, schedule) == Launches{"op0", "op1", "op2"});
  CHECK(schedule.lists.empty());
  CHECK(reason(b.module, schedule, "op0", "op2") ==
        "an element of the list waits for another: the elements of _foreach_exp: an element of "
        "the list waits for another");
}

TEST_CASE("lists stay whole where one must run before the other") {
  // The second list reads what a product makes of the first.
  TwoElements b;
  const BufferId product = b.matmul(b.first, b.first, {64});
  b.output(b.pointwise(b.unary(ir::Op::neg, b.load(product))));
  b.output(b.pointwise(b.unary(ir::Op::neg, b.load(b.second))));
  make_list(b, "_foreach_neg", {3, 4});
  const Schedule schedule = run(b.module);
  CHECK(launches(b.module, schedule) == Launches{"op0|op1", "op2", "op3|op4"});
  CHECK(reason(b.module, schedule, "op0", "op3") == "no shared data: op0 and op3: no shared data");
}

TEST_CASE("elements of different devices are different lists") {
  TwoElements b;
  b.output(b.first);
  b.output(b.second);
  b.module.operations[1].device.index = 1;
  CHECK(run(b.module).lists.size() == 2);
}

TEST_CASE("under the default policy lists do not bind: kernels are joined after fusion") {
  TwoElements b;
  const auto both = b.load(b.first, {48}, {ir::variable(0)});
  b.output(b.first);
  b.output(b.pointwise(b.binary(ir::Op::add, b.load(b.second), both)));
  make_list(b, "_foreach_add", {2});
  const Schedule schedule = run(b.module, target::default_policy());
  CHECK(launches(b.module, schedule) == Launches{"op0", "op1+op2"});
  CHECK(schedule.lists.empty());
}

TEST_CASE("kernels that wait for as many others become one launch, in order") {
  ModuleBuilder b;
  const BufferId x = b.input("x", {64}), y = b.input("y", {16, 32}), z = b.input("z", {40, 40});
  const BufferId first = b.pointwise(b.unary(ir::Op::exp, b.load(x)));
  const BufferId product = b.matmul(z, z, {40, 40});
  b.output(b.matmul(first, first, {64}));
  b.output(b.reduce(b.load(y)));
  b.output(b.pointwise(b.unary(ir::Op::neg, b.load(product))));
  b.output(b.reduce(b.load(product)));
  std::vector<scheduler::StepRecord> records;
  const Schedule schedule = run(b.module, target::default_policy(), &records);
  // op0 and op3 wait for nothing; what reads the product is one kernel.
  CHECK(launches(b.module, schedule) == Launches{"op0|op3", "op1", "op2", "op4+op5"});
  REQUIRE(schedule.lists.size() == 1);
  CHECK(schedule.lists[0].kind == GroupList::Kind::combo);
  for (const scheduler::StepRecord &record : records) {
    if (record.step != "combine-kernels")
      continue;
    std::string changes;
    for (const scheduler::StepChange &change : record.changes)
      changes += change.kind + " " + change.subject + " " + change.text + "\n";
    CHECK(changes == "group order op3 moved from 3 to 1\n"
                     "group order op1 moved from 1 to 2\n"
                     "group order op2 moved from 2 to 3\n"
                     "list op0 | op3 made: one launch\n");
  }
}

TEST_CASE("large kernels are launched alone, and what runs once apart from the rest") {
  const target::Policy &policy = target::default_policy();
  SECTION("as many bytes as fill the machine") {
    ModuleBuilder b;
    const BufferId x = b.input("x", {64}), y = b.input("y", {1 << 19}), z = b.input("z", {65});
    for (const BufferId input : {x, y, z})
      b.output(b.pointwise(b.unary(ir::Op::exp, b.load(input))));
    CHECK(launches(b.module, run(b.module, policy)) == Launches{"op0|op1|op2"}); // 4 MiB in all
    b.module.buffers[y].layout = tensor::contiguous_layout({Expr((1 << 19) + 1)});
    for (ir::LoopNode &node : b.module.loops)
      if (node.sizes == std::vector<Expr>{1 << 19})
        node.sizes = {Expr((1 << 19) + 1)};
    b.module.buffers[b.module.operations[1].outputs[0]].layout = b.module.buffers[y].layout;
    const Schedule schedule = run(b.module, policy);
    CHECK(launches(b.module, schedule) == Launches{"op0|op2", "op1"});
    CHECK(reason(b.module, schedule, "op1", "op0") ==
          "a kernel that fills the machine is launched alone: op1 and op0, one launch: 4194312 "
          "bytes, at most 4194304 are moved by a part of a launch");
  }
  SECTION("weights alone") {
    ModuleBuilder b;
    const BufferId x = b.input("x", {64}), weight = b.input("weight", {32, 32});
    b.module.buffers[weight].weight = "weight";
    const BufferId prepared = b.pointwise(b.unary(ir::Op::exp, b.load(weight)));
    b.output(b.pointwise(b.unary(ir::Op::exp, b.load(x))));
    b.output(b.matmul(prepared, prepared, {32, 32}));
    const Schedule schedule = run(b.module, policy);
    CHECK(schedule.lists.empty());
    CHECK(reason(b.module, schedule, "op0", "op1") ==
          "one runs once, when weights are loaded, the other every time: op0 and op1, one launch: "
          "one runs once, when weights are loaded, the other every time");
  }
  SECTION("devices") {
    TwoElements b;
    b.output(b.first);
    b.output(b.second);
    b.module.operations[1].device.index = 1;
    const Schedule schedule = run(b.module, policy);
    CHECK(schedule.lists.empty());
    CHECK(reason(b.module, schedule, "op0", "op1") ==
          "different devices: op0 and op1, one launch: cuda:0 and cuda:1");
  }
}

TEST_CASE("large kernels that walk through one tensor are one launch, their blocks in turn") {
  const target::Policy &policy = target::default_policy();
  const auto module_of = [](ModuleBuilder &b, int64_t rows) {
    const BufferId x = b.input("x", {rows, 4096});
    const auto every_second = [&](int64_t first) {
      return b.load(x, {Expr(rows), Expr(2048)},
                    {ir::variable(0), Expr(2) * ir::variable(1) + Expr(first)});
    };
    const ir::LoopId row = b.load(x),
                     pair = b.binary(ir::Op::add, every_second(0), every_second(1)),
                     column =
                         b.load(x, {Expr(4096), Expr(rows)}, {ir::variable(1), ir::variable(0)});
    b.output(b.reduce(row));
    b.output(b.pointwise(pair));
    b.output(b.reduce(column));
  };
  ModuleBuilder large; // 128 MiB
  module_of(large, 8192);
  const Schedule schedule = run(large.module, policy);
  CHECK(launches(large.module, schedule) == Launches{"op0|op1", "op2"});
  REQUIRE(schedule.lists.size() == 1);
  CHECK(schedule.lists[0].read_together == 8192 * 4096 * 4);
  ModuleBuilder sliced; // halves of each row: no element is read twice
  const BufferId x = sliced.input("x", {8192, 4096});
  sliced.output(
      sliced.reduce(sliced.load(x, {Expr(8192), Expr(2048)}, {ir::variable(0), ir::variable(1)})));
  sliced.output(sliced.pointwise(
      sliced.unary(ir::Op::neg, sliced.load(x, {Expr(8192), Expr(1024)},
                                            {ir::variable(0), Expr(2048) + ir::variable(1)}))));
  CHECK(run(sliced.module, policy).lists.empty());
  ModuleBuilder cached; // 32 MiB, less than the second-level cache has
  module_of(cached, 2048);
  CHECK(run(cached.module, policy).lists.empty());
}

TEST_CASE("a launch holds so many kernels, from so near") {
  ModuleBuilder b;
  for (int i = 0; i < 5; ++i) {
    const BufferId x = b.input("x" + std::to_string(i), {Expr(64 + i)});
    b.output(b.pointwise(b.unary(ir::Op::exp, b.load(x))));
  }
  target::Policy policy = target::default_policy();
  for (const size_t none : {0, 1}) {
    policy.combo_max_kernels = none;
    CHECK(run(b.module, policy).lists.empty());
  }
  policy.combo_max_kernels = 2;
  Schedule schedule = run(b.module, policy);
  CHECK(launches(b.module, schedule) == Launches{"op0|op1", "op2|op3", "op4"});
  CHECK(reason(b.module, schedule, "op1", "op2") ==
        "the kernel would hold too many operations: op1 and op2, one launch: 2 kernels at most in "
        "a launch");
  policy.combo_max_kernels = 8;
  policy.combo_max_distance = 3;
  schedule = run(b.module, policy);
  CHECK(launches(b.module, schedule) == Launches{"op0|op1|op2|op3", "op4"});
  CHECK(reason(b.module, schedule, "op3", "op4") ==
        "too far apart: op3 and op4, one launch: 4 operations from the first to the last, at most "
        "3");
  policy.combo_kernels = false;
  CHECK(run(b.module, policy).lists.empty());
  // The seed's: off, and eight at a time.
  CHECK_FALSE(target::inductor_2_5_policy().combo_kernels);
  CHECK(target::inductor_2_5_policy().combo_max_kernels == 8);
}

TEST_CASE("memory that another kernel of the launch reads is not taken over") {
  ModuleBuilder b;
  const BufferId x = b.input("x", {32, 32});
  const BufferId product = b.matmul(x, x, {32, 32});
  // Loops do not match, so they are two kernels.
  const auto part = b.load(product, {31, 32}, {ir::variable(0), ir::variable(1)});
  const BufferId whole = b.pointwise(b.unary(ir::Op::neg, b.load(product)));
  b.output(b.pointwise(b.unary(ir::Op::exp, part)));
  b.output(whole);
  target::Policy policy = target::default_policy();
  Schedule schedule = run(b.module, policy);
  CHECK(launches(b.module, schedule) == Launches{"op0", "op1|op2"});
  for (const scheduler::Group &group : schedule.groups)
    CHECK(group.inplace.empty());
  policy.combo_kernels = false;
  schedule = run(b.module, policy);
  CHECK(launches(b.module, schedule) == Launches{"op0", "op1", "op2"});
}
