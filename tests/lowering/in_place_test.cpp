#include "graph_maker.h"
#include "testing/catch.h"

using namespace tsc;
using namespace tsc::lowering::testing;
using List = Argument::List;

namespace {

constexpr const char *kIndexPut = "aten.index_put.default";

/// A cache of 2 heads, 8 positions, 4 channels, and what one step brings.
struct Cache {
  GraphMaker maker;
  NodeRef cache = maker.input("cache", DType::f32, {2, 8, 4});
  NodeRef step = maker.input("step", DType::f32, {2, 1, 4});
  NodeRef at = maker.input("at", DType::i64, {1});
  NodeRef put(NodeRef self, NodeRef values) {
    return maker.call(kIndexPut, {self, List{graph::None{}, at}, values, false});
  }
};

} // namespace

TEST_CASE("a step is stored into the cache itself, readers of the whole follow") {
  Cache c;
  const NodeRef after = c.put(c.cache, c.maker.call("aten.tanh.default", {c.step}));
  c.maker.mutate("cache", after);
  c.maker.output(c.maker.call("aten.sum.dim_IntList", {after, List{2}}));
  const ir::Module module = c.maker.lower();
  CHECK(summary(module) == "op0 scatter buf0 => cache f32 [2, 8, 4] [32, 4, 1] <- at, step\n"
                           "op1 pointwise buf1 f32 [2, 8] [8, 1] <- buf0\n");
  CHECK(std::get<ir::Scatter>(module.operations[0].kind).sizes ==
        std::vector<symbolic::Expr>{2, 1, 4});
}

TEST_CASE("slices, selected rows and parts of parts are stored where they lie") {
  Cache c;
  const NodeRef part = c.maker.call("aten.slice.Tensor", {c.cache, 1, 2, 5});
  const NodeRef row = c.maker.call("aten.select.int", {c.step, 1, 0});
  const NodeRef inner = c.maker.call("aten.select_scatter.default", {part, row, 1, 1});
  const NodeRef whole = c.maker.call("aten.slice_scatter.default", {c.cache, inner, 1, 2, 5, 1});
  c.maker.mutate("cache", whole);
  const ir::Module module = c.maker.lower();
  CHECK(summary(module) == "op0 scatter buf0 => cache f32 [2, 8, 4] [32, 4, 1] <- step\n");
  const auto &scatter = std::get<ir::Scatter>(module.operations[0].kind);
  CHECK(scatter.sizes == std::vector<symbolic::Expr>{2, 4});
  CHECK(scatter.index == std::vector<symbolic::Expr>{ir::variable(0), 3, ir::variable(1)});
}

TEST_CASE("a write through a permutation is a write to the cache") {
  Cache c;
  const NodeRef turned = c.maker.call("aten.permute.default", {c.cache, List{1, 0, 2}});
  const NodeRef step = c.maker.call("aten.permute.default", {c.step, List{1, 0, 2}});
  const NodeRef put = c.maker.call(kIndexPut, {turned, List{c.at}, step, false});
  c.maker.mutate("cache", c.maker.call("aten.permute.default", {put, List{1, 0, 2}}));
  CHECK(summary(c.maker.lower()) ==
        "op0 scatter buf0 => cache f32 [2, 8, 4] [32, 4, 1] <- at, step\n");
}

TEST_CASE("what reads the old contents later is computed before, and nothing else") {
  Cache c;
  const NodeRef old = c.maker.call("aten.slice.Tensor", {c.cache, 1, 0, 1});
  const NodeRef half = c.maker.call("aten.mul.Tensor", {c.cache, 0.5});
  const NodeRef used_before = c.maker.call("aten.add.Tensor", {c.step, old});
  const NodeRef after = c.put(c.cache, used_before);
  c.maker.mutate("cache", after);
  c.maker.output(c.maker.call("aten.add.Tensor", {half, after}));
  c.maker.output(c.maker.call("aten.neg.default", {old}));
  // buf0: half of the old whole; buf1: the old first row; buf2: the step, which reads that row.
  CHECK(summary(c.maker.lower()) ==
        "op0 pointwise buf0 f32 [2, 8, 4] [32, 4, 1] <- cache\n"
        "op1 pointwise buf1 f32 [2, 1, 4] [4, 8, 1] <- cache\n"
        "op2 pointwise buf2 f32 [2, 1, 4] [4, 8, 1] <- step, cache\n"
        "op3 scatter buf3 => cache f32 [2, 8, 4] [32, 4, 1] <- at, buf2\n"
        "op4 pointwise buf4 f32 [2, 8, 4] [32, 4, 1] <- buf0, buf3\n"
        "op5 pointwise buf5 f32 [2, 1, 4] [4, 4, 1] <- buf1\n");
}

TEST_CASE("a whole that is needed afterwards is copied, once, and only then") {
  Cache c;
  const NodeRef old = c.maker.call("aten.clone.default", {c.cache});
  const NodeRef after = c.put(c.cache, c.step);
  c.maker.mutate("cache", after);
  c.maker.output(c.maker.call("aten.sub.Tensor", {after, old}));
  CHECK(summary(c.maker.lower()) ==
        "op0 pointwise buf0 f32 [2, 8, 4] [32, 4, 1] <- cache\n"
        "op1 scatter buf1 => cache f32 [2, 8, 4] [32, 4, 1] <- at, step\n"
        "op2 pointwise buf2 f32 [2, 8, 4] [32, 4, 1] <- buf1, buf0\n");
}

TEST_CASE("a part that reads other elements of its own memory is computed before it is stored") {
  Cache c;
  const NodeRef first = c.maker.call("aten.slice.Tensor", {c.cache, 1, 0, 7});
  const NodeRef shifted = c.maker.call("aten.slice_scatter.default", {c.cache, first, 1, 1, 8, 1});
  c.maker.mutate("cache", shifted);
  CHECK(summary(c.maker.lower()) == "op0 pointwise buf0 f32 [2, 7, 4] [28, 4, 1] <- cache\n"
                                    "op1 scatter buf1 => cache f32 [2, 8, 4] [32, 4, 1] <- buf0\n");
}

TEST_CASE("a part that reads what it overwrites needs no memory of its own") {
  Cache c;
  const NodeRef first = c.maker.call("aten.slice.Tensor", {c.cache, 1, 0, 3});
  const NodeRef more = c.maker.call("aten.add.Tensor", {first, c.step});
  c.maker.mutate("cache", c.maker.call("aten.slice_scatter.default", {c.cache, more, 1, 0, 3, 1}));
  CHECK(summary(c.maker.lower()) ==
        "op0 scatter buf0 => cache f32 [2, 8, 4] [32, 4, 1] <- cache, step\n");
}

TEST_CASE("an update that does not end in an input works on a copy") {
  Cache c;
  c.maker.output(c.put(c.cache, c.step));
  CHECK(summary(c.maker.lower()) ==
        "op0 pointwise buf0 f32 [2, 8, 4] [32, 4, 1] <- cache\n"
        "op1 scatter buf1 => buf0 f32 [2, 8, 4] [32, 4, 1] <- at, step\n");
}

TEST_CASE("a chain that also computes on the whole is stored at its end") {
  Cache c;
  const NodeRef decayed = c.maker.call("aten.mul.Tensor", {c.cache, 0.5});
  const NodeRef after = c.maker.call("aten.slice_scatter.default", {decayed, c.step, 1, 3, 4, 1});
  c.maker.mutate("cache", after);
  CHECK(summary(c.maker.lower()) ==
        "op0 pointwise buf0 => cache f32 [2, 8, 4] [32, 4, 1] <- step, cache\n");
}

TEST_CASE("scatters one after the other work on one copy, unless one in between is needed") {
  const std::string first_two = "op0 pointwise buf0 f32 [2, 8, 4] [32, 4, 1] <- cache\n"
                                "op1 scatter buf1 => buf0 f32 [2, 8, 4] [32, 4, 1] <- at, step\n";
  for (const bool needed : {false, true}) {
    Cache c;
    const NodeRef first = c.put(c.cache, c.step);
    c.maker.output(c.put(first, c.maker.call("aten.neg.default", {c.step})));
    if (needed)
      c.maker.output(c.maker.call("aten.exp.default", {first}));
    CHECK(summary(c.maker.lower()) ==
          first_two + (needed ? "op2 pointwise buf2 f32 [2, 8, 4] [32, 4, 1] <- buf1\n"
                                "op3 scatter buf3 => buf2 f32 [2, 8, 4] [32, 4, 1] <- at, step\n"
                                "op4 pointwise buf4 f32 [2, 8, 4] [32, 4, 1] <- buf1\n"
                              : "op2 scatter buf2 => buf1 f32 [2, 8, 4] [32, 4, 1] <- at, step\n"));
  }
}
