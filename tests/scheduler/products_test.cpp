// Products and the loops beside them: what becomes one kernel, and what stays apart and why.
#include "module_builder.h"
#include "scheduler/cost.h"
#include "scheduler/schedule.h"
#include "testing/catch.h"

#include <algorithm>

using namespace tsc;
using scheduler::NodeClass;
using scheduler::Refusal;
using test::BufferId;
using test::Expr;
using test::ModuleBuilder;

namespace {

constexpr auto kHalf = tensor::DType::bf16;

scheduler::Schedule run(const ir::Module &module, const char *arch = "sm_90",
                        const target::Policy &policy = target::default_policy()) {
  scheduler::ScheduleOptions options;
  options.target = &target::find_target(arch);
  options.policy = &policy;
  return scheduler::schedule(module, options);
}

/// "op0_op1 op2": members of every group that has some.
std::string groups_of(const ir::Module &module, const scheduler::Schedule &schedule) {
  std::string text;
  for (const scheduler::Group &group : schedule.groups) {
    std::string names;
    for (const scheduler::NodeId member : group.members)
      names +=
          (names.empty() ? "" : "_") + module.operations[schedule.nodes[member].operation].name;
    text += (text.empty() ? "" : " ") + names;
  }
  return text;
}

/// relu(x [rows, terms] @ w [terms, columns]).
ModuleBuilder activation(int64_t rows, int64_t terms, int64_t columns,
                         tensor::DType dtype = kHalf) {
  ModuleBuilder b(dtype);
  const BufferId x = b.input("x", {rows, terms}), w = b.input("w", {terms, columns});
  const BufferId product = b.matmul(x, w, {rows, columns});
  b.output(b.pointwise(b.unary(ir::Op::relu, b.load(product))));
  return b;
}

/// (sigmoid(x @ u) * (x @ v)) @ w: op0 to op3.
ModuleBuilder gated(int64_t rows, int64_t terms, int64_t columns) {
  ModuleBuilder b(kHalf);
  const BufferId x = b.input("x", {rows, terms}), u = b.input("u", {terms, columns}),
                 v = b.input("v", {terms, columns}), w = b.input("w", {columns, terms});
  const BufferId gate = b.matmul(x, u, {rows, columns}), value = b.matmul(x, v, {rows, columns});
  const BufferId product =
      b.pointwise(b.binary(ir::Op::mul, b.unary(ir::Op::sigmoid, b.load(gate)), b.load(value)));
  b.output(b.matmul(product, w, {rows, terms}));
  return b;
}

const scheduler::FusionDecision &decision_with(const scheduler::Schedule &schedule,
                                               Refusal refusal) {
  const auto found =
      std::find_if(schedule.decisions.begin(), schedule.decisions.end(),
                   [&](const auto &decision) { return decision.refusal == refusal; });
  REQUIRE(found != schedule.decisions.end());
  return *found;
}

} // namespace

TEST_CASE("a product and what alone reads it are one kernel") {
  const ModuleBuilder b = activation(4096, 64, 64);
  const scheduler::Schedule schedule = run(b.module);
  CHECK(groups_of(b.module, schedule) == "op0_op1");
  const scheduler::Group &group = schedule.groups[0];
  CHECK(group.node_class == NodeClass::templated);
  REQUIRE(group.parts);
  CHECK(group.parts->rows == 4096);
  CHECK(group.parts->columns == 64);
  CHECK(group.parts->terms == 64);
  CHECK(group.parts->epilogue);
  CHECK_FALSE(group.parts->prologue);
  // the product's result is never stored
  CHECK(group.internal_buffers == std::vector<BufferId>{b.module.operations[0].outputs[0]});
}

TEST_CASE("windows that a product alone reads are read where they come from") {
  ModuleBuilder b(kHalf);
  const BufferId x = b.input("x", {4098, 64}), w = b.input("w", {192, 64});
  const auto i = [](size_t k) { return ir::variable(k); };
  const Expr tap = symbolic::floor_div(i(1), Expr(64)), channel = symbolic::mod(i(1), Expr(64));
  const BufferId windows = b.pointwise(b.load(x, {4096, 192}, {i(0) + tap, channel}));
  const BufferId product = b.matmul(windows, w, {4096, 64});
  b.output(b.pointwise(b.unary(ir::Op::relu, b.load(product))));
  const scheduler::Schedule schedule = run(b.module);
  CHECK(groups_of(b.module, schedule) == "op0_op1_op2");
  REQUIRE(schedule.groups[0].parts);
  CHECK(schedule.groups[0].parts->prologue);
  CHECK(schedule.groups[0].parts->epilogue);
}

TEST_CASE("an operand that takes computing, or that others read, is stored") {
  for (const bool shared : {false, true}) {
    ModuleBuilder b(kHalf);
    const BufferId x = b.input("x", {4096, 64}), w = b.input("w", {64, 64});
    const auto value = shared ? b.load(x) : b.unary(ir::Op::exp, b.load(x));
    const BufferId left = b.pointwise(value);
    b.output(b.matmul(left, w, {4096, 64}));
    if (shared)
      b.output(left);
    const scheduler::Schedule schedule = run(b.module);
    CHECK(groups_of(b.module, schedule) == "op0 op1");
    // What is said of it is why.
    const Refusal refusal = shared ? Refusal::no_template : Refusal::shapes;
    CHECK(std::any_of(schedule.decisions.begin(), schedule.decisions.end(),
                      [&](const scheduler::FusionDecision &decision) {
                        return decision.refusal == refusal &&
                               decision.detail.rfind("op1: its left operand is ", 0) == 0;
                      }));
  }
}

TEST_CASE("products stay with the library where no template takes them") {
  const auto separate = [](const ModuleBuilder &b, const char *why) {
    const scheduler::Schedule schedule = run(b.module);
    CHECK(groups_of(b.module, schedule) == "op0 op1");
    CHECK(decision_with(schedule, Refusal::no_template).detail == std::string("op0: ") + why);
  };
  separate(activation(4096, 60, 64),
           "its matrices are not of known columns and terms in runs of 16 bytes");
  separate(activation(4096, 64, 60),
           "its matrices are not of known columns and terms in runs of 16 bytes");
  const ModuleBuilder wide = activation(4096, 64, 64, tensor::DType::f64);
  CHECK(groups_of(wide.module, run(wide.module)) == "op0 op1");
}

TEST_CASE("only Hopper and the default policy have product templates") {
  const ModuleBuilder b = activation(4096, 64, 64);
  CHECK(groups_of(b.module, run(b.module, "sm_80")) == "op0 op1");
  CHECK(groups_of(b.module, run(b.module, "sm_90", target::inductor_2_5_policy())) == "op0 op1");
}

TEST_CASE("a product whose result is returned, too, stays apart") {
  ModuleBuilder b = activation(4096, 64, 64);
  b.output(b.module.operations[0].outputs[0]);
  CHECK(groups_of(b.module, run(b.module)) == "op0 op1");
}

TEST_CASE("what reduces over a product's rows stays apart") {
  ModuleBuilder b(kHalf);
  const BufferId x = b.input("x", {4096, 64}), w = b.input("w", {64, 64});
  b.output(b.reduce(b.load(b.matmul(x, w, {4096, 64}))));
  const scheduler::Schedule schedule = run(b.module);
  CHECK(groups_of(b.module, schedule) == "op0 op1");
  CHECK(decision_with(schedule, Refusal::shapes).detail ==
        "op0: its loops are not those over the product's results");
}

TEST_CASE("nothing that writes an operand comes between a product and its kernel's place") {
  // The product's reader also reads what runs after x was overwritten: moved there, the product
  // would read the new x.
  ModuleBuilder b(kHalf);
  const BufferId x = b.input("x", {4096, 64}), w = b.input("w", {64, 64});
  const BufferId product = b.matmul(x, w, {4096, 64});
  const BufferId changed = b.mutate(x, b.unary(ir::Op::exp, b.load(x)));
  const BufferId second = b.matmul(changed, w, {4096, 64});
  b.output(b.pointwise(b.binary(ir::Op::add, b.load(product), b.load(second))));
  const scheduler::Schedule schedule = run(b.module);
  CHECK(groups_of(b.module, schedule) == "op0 op1 op2_op3");
}

TEST_CASE("what writes over an operand does not join the product that reads it") {
  // Blocks that still read x's rows would find other blocks' results there.
  ModuleBuilder b(kHalf);
  const BufferId x = b.input("x", {4096, 64}), w = b.input("w", {64, 64});
  const BufferId product = b.matmul(x, w, {4096, 64});
  b.output(b.mutate(x, b.binary(ir::Op::add, b.load(x), b.load(product))));
  CHECK(groups_of(b.module, run(b.module)) == "op0 op1");
}

TEST_CASE("results of a product's kernel lie where what they are made of was") {
  const ModuleBuilder b = gated(4096, 64, 64);
  const scheduler::Schedule schedule = run(b.module);
  REQUIRE(groups_of(b.module, schedule) == "op1 op0_op2 op3");
  const auto out = [&](size_t operation) { return b.module.operations[operation].outputs[0]; };
  CHECK(schedule.groups[1].inplace == std::vector<std::pair<BufferId, BufferId>>{{out(2), out(1)}});
}

TEST_CASE("results of a product's kernel do not lie over what it multiplies") {
  ModuleBuilder b(kHalf);
  const BufferId x = b.input("x", {4096, 64}), w = b.input("w", {64, 64});
  const BufferId left = b.pointwise(b.unary(ir::Op::exp, b.load(x)));
  const BufferId product = b.matmul(left, w, {4096, 64});
  b.output(b.pointwise(b.binary(ir::Op::add, b.load(product), b.load(left))));
  const scheduler::Schedule schedule = run(b.module);
  REQUIRE(groups_of(b.module, schedule) == "op0 op1_op2");
  CHECK(schedule.groups[1].inplace.empty());
}

TEST_CASE("memory that is short decides between estimates that are near each other") {
  ModuleBuilder b = gated(4352, 8192, 11008);
  CHECK(groups_of(b.module, run(b.module)) == "op1 op0_op2 op3");
  // Most memory is in use elsewhere: the estimate has to be better by more than it may be wrong.
  const BufferId x = b.input("a", {16384, 64}), y = b.input("b", {64, 16384});
  b.output(b.reduce(b.load(b.matmul(x, y, {16384, 16384}))));
  const scheduler::Schedule schedule = run(b.module);
  CHECK(groups_of(b.module, schedule) == "op0 op1 op2 op3 op4 op5");
  CHECK(decision_with(schedule, Refusal::slower).detail.rfind("extern_kernels.mm of op0: ", 0) ==
        0);
}

TEST_CASE("the estimates of every candidate are told, and the best is taken") {
  const ModuleBuilder large = activation(16, 65536, 64); // one block for many steps
  const scheduler::Schedule schedule = run(large.module);
  CHECK(groups_of(large.module, schedule) == "op0 op1");
  const std::string detail = decision_with(schedule, Refusal::slower).detail;
  for (const char *part :
       {"extern_kernels.mm of op0: apart ", "128 x 256 results a block",
        "128 x 192 results a block", "128 x 128 results a block", "256 x 128 results a block",
        "128 x 64 results a block", ", 4 blocks share the terms "})
    CHECK(detail.find(part) != std::string::npos);

  const target::Target &target = target::find_target("sm_90");
  const auto best = [&](int64_t rows, int64_t columns, int64_t terms) {
    const scheduler::ProductWork work{rows, columns, terms,
                                      2 * (rows * terms + terms * columns + rows * columns), 10};
    const std::vector<scheduler::ProductWay> ways = scheduler::template_ways(target, work);
    REQUIRE(ways.size() == 9);
    CHECK(std::is_sorted(ways.begin(), ways.end(), [](const auto &a, const auto &b) {
      return a.nanoseconds < b.nanoseconds;
    }));
    return ways[0].tile;
  };
  // A tile that a block has no room for is no candidate, nor is any where wgmma is missing.
  target::Target small = target;
  small.shared_bytes_per_block = 190 * 1024;
  for (const scheduler::ProductWay &way : scheduler::template_ways(small, {8192, 8192, 8192, 1, 1}))
    CHECK(scheduler::shared_bytes(way.tile) <= small.shared_bytes_per_block);
  CHECK(scheduler::template_ways(small, {8192, 8192, 8192, 1, 1}).size() == 3);
  for (const char *arch : {"sm_80", "sm_100", "sm_120", "host"})
    CHECK(scheduler::template_ways(target::find_target(arch), {8192, 8192, 8192, 1, 1}).empty());
  CHECK(best(200704, 64, 5760).columns == 64);  // half of a wider tile would be empty
  CHECK(best(50176, 128, 1152).rows == 128);    // three rounds of small tiles, not two of large
  CHECK(best(8192, 8192, 8192).columns == 256); // many terms
  CHECK(best(16384, 576, 4096).columns == 192);
}

TEST_CASE("products of floats take tiles that fill the machine") {
  const target::Target &target = target::find_target("sm_90");
  int64_t blocks = 0;
  const auto best = [&](int64_t rows, int64_t columns, int64_t terms) {
    scheduler::ProductWork work{rows, columns, terms,
                                4 * (rows * terms + terms * columns + rows * columns), 10};
    work.factors = scheduler::ProductWork::Factors::single;
    const scheduler::ProductTile tile = scheduler::template_ways(target, work)[0].tile;
    blocks = (rows + tile.rows - 1) / tile.rows * ((columns + tile.columns - 1) / tile.columns) *
             tile.splits;
    return std::pair(tile.rows, tile.columns);
  };
  CHECK(best(8192, 8192, 1024) == std::pair(128, 128));
  CHECK(best(65536, 64, 576) == std::pair(128, 64)); // half of a wider tile would be empty
  CHECK(best(64, 65536, 576) == std::pair(64, 128));
  CHECK(best(1024, 1024, 128) == std::pair(64, 64)); // 256 blocks, not 64
  best(1024, 1024, 1024);                            // of more terms they are shared
  CHECK(blocks >= 256);
  // Of 132 multiprocessors each has one block: alone it does not reach what several do together.
  CHECK((best(128 * 12, 128 * 11, 1024) != std::pair(128, 128) || blocks > 132));
}

TEST_CASE("blocks share the terms of tiles that are few, where that pays") {
  const target::Target &target = target::find_target("sm_90");
  using Factors = scheduler::ProductWork::Factors;
  const auto splits = [&](int64_t rows, int64_t columns, int64_t terms, Factors factors) {
    scheduler::ProductWork work{rows, columns, terms,
                                2 * (rows * terms + terms * columns + rows * columns), 10};
    work.factors = factors;
    const scheduler::ProductTile tile = scheduler::template_ways(target, work)[0].tile;
    const int64_t tiles =
        (rows + tile.rows - 1) / tile.rows * ((columns + tile.columns - 1) / tile.columns);
    const int places = target.multiprocessors * (tile.groups ? 1 : tile.blocks);
    CHECK((tile.splits == 1 || tiles * tile.splits <= places));
    return tile.splits;
  };
  CHECK(splits(784, 512, 4608, Factors::half) > 1); // a convolution of 16 images of 7 x 7
  CHECK(splits(784, 512, 4608, Factors::tf32) > 1);
  CHECK(splits(784, 512, 64, Factors::half) == 1);    // a block would have less than it starts with
  CHECK(splits(8192, 512, 4608, Factors::half) == 1); // there are tiles for all
  CHECK(splits(784, 512, 4608, Factors::single) > 1); // where threads multiply as well
  CHECK(splits(1024, 64, 27440, Factors::single) == 8);
  CHECK(splits(4096, 1024, 1024, Factors::single) == 1);
}

TEST_CASE("few products of floats with many terms have kernels of their own") {
  // The library's blocks do not share the terms of a batch.
  const auto is_own = [](int64_t batches, int64_t rows, int64_t terms) {
    ModuleBuilder b(tensor::DType::f32);
    const BufferId x = b.input("x", {batches, rows, terms}), w = b.input("w", {batches, terms, 64});
    b.output(b.matmul(x, w, {batches, rows, 64}));
    const scheduler::Schedule schedule = run(b.module);
    REQUIRE(schedule.groups.size() == 1);
    return schedule.groups[0].node_class == scheduler::NodeClass::templated;
  };
  CHECK(is_own(2, 1024, 27440));
  CHECK(!is_own(2, 1024, 128));
  CHECK(!is_own(64, 1024, 1024)); // tiles for all multiprocessors
}

TEST_CASE("products of floats join what follows where memory is most of their time") {
  // Rounded to TF32 only where the call may be, and where both factors lie along the terms.
  for (const bool tf32 : {false, true}) {
    ModuleBuilder b(tensor::DType::f32);
    const BufferId x = b.input("x", {1 << 20, 64}), w = b.input("w", {64, 64});
    const BufferId product = b.matmul(x, w, {1 << 20, 64});
    auto &call = std::get<ir::Extern>(b.module.operations[b.module.buffer(product).operation].kind);
    call.tf32 = tf32;
    if (tf32) // as a linear layer has it
      call.inputs[1].layout.strides = {1, 64};
    b.output(b.pointwise(b.unary(ir::Op::relu, b.load(product))));
    const scheduler::Schedule schedule = run(b.module);
    CHECK(groups_of(b.module, schedule) == "op0_op1");
    const auto group = std::find_if(schedule.groups.begin(), schedule.groups.end(),
                                    [](const auto &each) { return each.parts != nullptr; });
    REQUIRE(group != schedule.groups.end());
    CHECK(group->parts->by_tf32 == tf32);
    CHECK(group->parts->candidate.columns == (tf32 ? 128 : 64)); // of TF32 memory's time is longer
    CHECK(group->parts->candidate.groups == tf32);
  }
  ModuleBuilder flat(tensor::DType::f32);
  const BufferId x = flat.input("x", {1 << 20, 64}), w = flat.input("w", {64, 64});
  const BufferId product = flat.matmul(x, w, {1 << 20, 64});
  std::get<ir::Extern>(flat.module.operations[flat.module.buffer(product).operation].kind).tf32 =
      true;
  flat.output(flat.pointwise(flat.unary(ir::Op::relu, flat.load(product))));
  CHECK(groups_of(flat.module, run(flat.module)) == "op0 op1");
}

TEST_CASE(
    "products whose rows are a symbol join what follows, by tiles for few rows and for many") {
  const Expr rows = symbolic::symbol(symbolic::SymbolSort::size, 0);
  const auto tile_for = [&](int64_t likely) {
    ModuleBuilder b(kHalf);
    b.module.ranges.set(rows, {1, 1 << 20});
    graph::SymbolRange range;
    range.symbol = rows;
    range.low = 1;
    range.high = 1 << 20;
    range.hint = likely;
    b.module.symbols.push_back(range);
    const BufferId x = b.input("x", {rows, 256}), w = b.input("w", {256, 2048});
    b.output(b.pointwise(b.unary(ir::Op::relu, b.load(b.matmul(x, w, {rows, 2048})))));
    const scheduler::Schedule schedule = run(b.module);
    CHECK(groups_of(b.module, schedule) == "op0_op1");
    REQUIRE(schedule.groups.back().parts);
    CHECK(schedule.groups.back().parts->rows == rows);
    return schedule.groups.back().parts->candidate;
  };
  CHECK(tile_for(784).splits == 1);
  scheduler::ProductWork work{784, 512, 4096, 12'000'000, 10};
  const target::Target &target = target::find_target("sm_90");
  CHECK(scheduler::template_ways(target, work)[0].tile.splits > 1);
  work.any_number = true; // there may be more rows than blocks for all
  for (const scheduler::ProductWay &way : scheduler::template_ways(target, work))
    CHECK(way.tile.splits == 1);
  // What is likely decides with what is 16 times as much.
  const scheduler::ProductTile of_many = tile_for(1 << 15);
  CHECK(of_many.rows * of_many.columns >= tile_for(16).rows * tile_for(16).columns);
  // Of lines that are as long as a symbol says, no runs are known.
  ModuleBuilder turned(kHalf);
  turned.module.ranges.set(rows, {1, 1 << 20});
  const BufferId x = turned.input("x", {64, rows}), w = turned.input("w", {rows, 64});
  turned.output(
      turned.pointwise(turned.unary(ir::Op::relu, turned.load(turned.matmul(x, w, {64, 64})))));
  CHECK(groups_of(turned.module, run(turned.module)) == "op0 op1");
}

TEST_CASE("products of 8-bit floats join what scales them where both factors lie along the terms") {
  for (const bool deep : {true, false}) {
    ModuleBuilder b(tensor::DType::f8e4m3fn);
    const BufferId x = b.input("x", {4096, 4096}), w = b.input("w", {4096, 4096});
    const BufferId product = b.matmul(x, w, {4096, 4096});
    b.module.buffers[product].dtype = tensor::DType::f32;
    auto &call = std::get<ir::Extern>(b.module.operations[b.module.buffer(product).operation].kind);
    if (deep)
      call.inputs[1].layout.strides = {1, 4096};
    b.output(b.pointwise(b.unary(ir::Op::relu, b.load(product))));
    const scheduler::Schedule schedule = run(b.module);
    CHECK(groups_of(b.module, schedule) == (deep ? "op0_op1" : "op0 op1"));
  }
}
