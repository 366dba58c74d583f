#include "graph_maker.h"
#include "testing/catch.h"

using namespace tsc;
using namespace tsc::lowering::testing;

namespace {

const std::vector<graph::Expr> kSizes = {64, 128};

/// A sum of `count` inputs, each read once.
NodeRef sum_of_inputs(GraphMaker &maker, int count) {
  std::vector<NodeRef> inputs;
  for (int i = 0; i < count; ++i)
    inputs.push_back(maker.input("x" + std::to_string(i), DType::f32, kSizes));
  NodeRef sum = inputs[0];
  for (int i = 1; i < count; ++i)
    sum = maker.call("aten.add.Tensor", {sum, inputs[static_cast<size_t>(i)]});
  return sum;
}

} // namespace

TEST_CASE("a value used once is inlined") {
  GraphMaker maker;
  const NodeRef x = maker.input("x", DType::f32, kSizes);
  const NodeRef exp = maker.call("aten.exp.default", {x});
  maker.output(maker.call("aten.neg.default", {exp}));
  CHECK(summary(maker.lower()) == "op0 pointwise buf0 f32 [64, 128] [128, 1] <- x\n");
}

TEST_CASE("a cheap value used twice is computed twice") {
  GraphMaker maker;
  const NodeRef sum = sum_of_inputs(maker, 4);
  maker.output(maker.call("aten.exp.default", {sum}));
  maker.output(maker.call("aten.neg.default", {sum}));
  CHECK(summary(maker.lower()) == "op0 pointwise buf0 f32 [64, 128] [128, 1] <- x0, x1, x2, x3\n"
                                  "op1 pointwise buf1 f32 [64, 128] [128, 1] <- x0, x1, x2, x3\n");
}

TEST_CASE("a value of more than four reads used twice is realized") {
  GraphMaker maker;
  const NodeRef sum = sum_of_inputs(maker, 5);
  maker.output(maker.call("aten.exp.default", {sum}));
  maker.output(maker.call("aten.neg.default", {sum}));
  CHECK(summary(maker.lower()) ==
        "op0 pointwise buf0 f32 [64, 128] [128, 1] <- x0, x1, x2, x3, x4\n"
        "op1 pointwise buf1 f32 [64, 128] [128, 1] <- buf0\n"
        "op2 pointwise buf2 f32 [64, 128] [128, 1] <- buf0\n");
}

TEST_CASE("of a value that was made wider, the narrower one is realized") {
  GraphMaker maker;
  const NodeRef narrow =
      maker.call("prims.convert_element_type.default", {sum_of_inputs(maker, 5), DType::f16});
  const NodeRef wide = maker.call("prims.convert_element_type.default", {narrow, DType::f32});
  maker.output(maker.call("aten.exp.default", {wide}));
  maker.output(maker.call("aten.neg.default", {wide}));
  CHECK(summary(maker.lower()) ==
        "op0 pointwise buf0 f16 [64, 128] [128, 1] <- x0, x1, x2, x3, x4\n"
        "op1 pointwise buf1 f32 [64, 128] [128, 1] <- buf0\n"
        "op2 pointwise buf2 f32 [64, 128] [128, 1] <- buf0\n");
}

TEST_CASE("a value used once is realized when it has accumulated more than eight reads") {
  GraphMaker maker;
  maker.output(sum_of_inputs(maker, 12));
  CHECK(summary(maker.lower()) ==
        "op0 pointwise buf0 f32 [64, 128] [128, 1] <- x0, x1, x2, x3, x4, x5, x6, x7, x8\n"
        "op1 pointwise buf1 f32 [64, 128] [128, 1] <- buf0, x9, x10, x11\n");
}

TEST_CASE("a long chain over one input is cut after a hundred operations") {
  GraphMaker maker;
  NodeRef value = maker.input("x", DType::f32, kSizes);
  for (int i = 0; i < 150; ++i)
    value = maker.call("aten.exp.default", {value});
  maker.output(value);
  CHECK(summary(maker.lower()) == "op0 pointwise buf0 f32 [64, 128] [128, 1] <- x\n"
                                  "op1 pointwise buf1 f32 [64, 128] [128, 1] <- buf0\n");
}

TEST_CASE("a realized constant is computed again, not loaded") {
  GraphMaker maker;
  const NodeRef x = maker.input("x", DType::f32, kSizes);
  const NodeRef ones =
      maker.call("aten.full.default", {Argument::List{64, 128}, 1.0}, {{"dtype", DType::f32}});
  maker.output(ones);
  maker.output(maker.call("aten.add.Tensor", {x, ones}));
  CHECK(summary(maker.lower()) == "op0 pointwise buf0 f32 [64, 128] [128, 1] <-\n"
                                  "op1 pointwise buf1 f32 [64, 128] [128, 1] <- x\n");
}

TEST_CASE("an output lies in memory as the graph says") {
  GraphMaker maker;
  const NodeRef x = maker.input("x", DType::f32, kSizes, {1, 64});
  const NodeRef y = maker.input("y", DType::f32, kSizes);
  maker.output(maker.call("aten.exp.default", {x}));
  maker.output(maker.call("aten.add.Tensor", {y, x}));
  CHECK(summary(maker.lower()) == "op0 pointwise buf0 f32 [64, 128] [1, 64] <- x\n"
                                  "op1 pointwise buf1 f32 [64, 128] [128, 1] <- y, x\n");
}

TEST_CASE("an intermediate value takes the layout of what it reads") {
  GraphMaker maker;
  const NodeRef x = maker.input("x", DType::f32, kSizes, {1, 64});
  const NodeRef w = maker.input("w", DType::f32, {128, 16});
  const NodeRef exp = maker.call("aten.exp.default", {x});
  maker.output(maker.call("aten.mm.default", {exp, w}));
  CHECK(summary(maker.lower()) ==
        "op0 pointwise buf0 f32 [64, 128] [1, 64] <- x\n"
        "op1 extern_kernels.mm buf1 f32 [64, 16] [16, 1] <- buf0[1, 64], w[16, 1]\n");
}

TEST_CASE("100,000 operations lower without recursion") {
  GraphMaker maker;
  NodeRef value = maker.input("x", DType::f32, {8});
  for (int i = 0; i < 100'000; ++i)
    value = maker.call("aten.neg.default", {value});
  maker.output(value);
  CHECK(maker.lower().operations.size() > 900);
}

TEST_CASE("functions of inputs for each channel are computed once") {
  // (x - mean) / sqrt(variance + 0.5), channels innermost.
  const auto normalized = [](int64_t rows, bool of_input) {
    GraphMaker maker;
    const NodeRef x = maker.input("x", DType::f32, {rows, 64});
    NodeRef variance = maker.input("variance", DType::f32, {64});
    if (!of_input)
      variance = maker.call("aten.sum.dim_IntList", {x, std::vector<Argument>{int64_t{0}}});
    const NodeRef deviation =
        maker.call("aten.rsqrt.default", {maker.call("aten.add.Tensor", {variance, 0.5})});
    maker.output(maker.call("aten.mul.Tensor", {x, deviation}));
    return maker;
  };
  CHECK(summary(normalized(65536, true).lower()) ==
        "op0 pointwise buf0 f32 [64] [1] <- variance\n"
        "op1 pointwise buf1 f32 [65536, 64] [64, 1] <- x, buf0\n");
  // Few rows: another launch would take longer. What a reduction gives may be part of its kernel.
  CHECK(summary(normalized(1024, true).lower()) ==
        "op0 pointwise buf0 f32 [1024, 64] [64, 1] <- x, variance\n");
  CHECK(summary(normalized(65536, false).lower()).find("[64] [1] <- buf0") == std::string::npos);
  target::Policy policy = target::default_policy();
  policy.compute_channels_once = false;
  CHECK(summary(normalized(65536, true).lower(policy)) ==
        "op0 pointwise buf0 f32 [65536, 64] [64, 1] <- x, variance\n");
}

TEST_CASE("a table of functions that many heads look into is computed once") {
  // x[i] * cos(angle), heads after heads; nobody reads more than 12 times as much as there is.
  const auto rotated = [](int64_t operands, int64_t positions) {
    GraphMaker maker;
    const NodeRef angle = maker.input("angle", DType::f32, {positions, 64});
    const NodeRef cosine = maker.call("aten.cos.default", {angle});
    const NodeRef table = maker.call("aten.unsqueeze.default", {cosine, int64_t{0}});
    for (int64_t i = 0; i < operands; ++i)
      maker.output(maker.call(
          "aten.mul.Tensor",
          {maker.input("x" + std::to_string(i), DType::f32, {12, positions, 64}), table}));
    return maker;
  };
  const std::string once = "op0 pointwise buf0 f32 [2048, 64] [64, 1] <- angle\n";
  CHECK(summary(rotated(4, 2048).lower()).find(once) == 0);
  CHECK(summary(rotated(1, 2048).lower()) ==
        "op0 pointwise buf0 f32 [12, 2048, 64] [131072, 64, 1] <- x0, angle\n");
  CHECK(summary(rotated(4, 128).lower()).find("[128, 64] [64, 1] <- angle\n") == std::string::npos);
  target::Policy policy = target::default_policy();
  policy.compute_channels_once = false;
  CHECK(summary(rotated(4, 2048).lower(policy)).find(once) == std::string::npos);
}

TEST_CASE("a residual that is needed behind the next product is computed once") {
  // x + product, read by a function of its own that another product takes, and again behind that.
  const auto block = [](bool read_again, bool of_input) {
    GraphMaker maker;
    const NodeRef x = maker.input("x", DType::f32, kSizes);
    const NodeRef w = maker.input("w", DType::f32, {128, 128});
    NodeRef term = maker.input("y", DType::f32, kSizes);
    if (!of_input)
      term = maker.call("aten.mm.default", {term, w});
    const NodeRef sum = maker.call("aten.add.Tensor", {x, term});
    const NodeRef next = maker.call("aten.mm.default", {maker.call("aten.exp.default", {sum}), w});
    maker.output(read_again ? maker.call("aten.add.Tensor", {sum, next}) : next);
    if (!read_again)
      maker.output(maker.call("aten.neg.default", {sum}));
    return maker;
  };
  const std::string product = "op0 extern_kernels.mm buf0 f32 [64, 128] [128, 1] <- y[128, 1], "
                              "w[128, 1]\n";
  CHECK(summary(block(true, false).lower()) ==
        product + "op1 pointwise buf1 f32 [64, 128] [128, 1] <- x, buf0\n"
                  "op2 pointwise buf2 f32 [64, 128] [128, 1] <- buf1\n"
                  "op3 extern_kernels.mm buf3 f32 [64, 128] [128, 1] <- buf2[128, 1], w[128, 1]\n"
                  "op4 pointwise buf4 f32 [64, 128] [128, 1] <- buf1, buf3\n");
  // Inputs stay in memory anyway.
  CHECK(summary(block(true, true).lower()).find("<- x, y\n") != std::string::npos);
  CHECK(summary(block(true, true).lower()).find("<- x, y, buf1\n") != std::string::npos);
  target::Policy policy = target::default_policy();
  policy.product_templates = false;
  CHECK(summary(block(true, false).lower(policy)).find("<- x, buf0, buf2\n") != std::string::npos);
}
