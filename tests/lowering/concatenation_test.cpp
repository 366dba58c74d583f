#include "graph_maker.h"
#include "target/policy.h"
#include "testing/catch.h"

using namespace tsc;
using namespace tsc::lowering::testing;

namespace {

NodeRef row_sum(GraphMaker &maker, NodeRef x) {
  return maker.call("aten.sum.dim_IntList", {x, Argument::List{1}});
}

} // namespace

TEST_CASE("what computes the parts of a concatenation stores into slices of it") {
  GraphMaker maker;
  const NodeRef x = maker.input("x", DType::f32, {64, 128});
  const NodeRef y = maker.input("y", DType::f32, {16, 128});
  maker.output(
      maker.call("aten.cat.default", {Argument::List{row_sum(maker, x), row_sum(maker, y)}}));
  const std::string expected = "op0 sum buf0 in buf2 from 0 f32 [64] [1] <- x\n"
                               "op1 sum buf1 in buf2 from 64 f32 [16] [1] <- y\n"
                               "op2 concatenate buf2 f32 [80] [1] <- buf0[1], buf1[1]\n";
  CHECK(summary(maker.lower()) == expected);
  CHECK(summary(maker.lower(target::inductor_2_5_policy())) == expected);
}

TEST_CASE("products write rows of a concatenation where these are aligned") {
  for (const int64_t columns : {24, 7}) {
    GraphMaker maker;
    const NodeRef x = maker.input("x", DType::f32, {64, 128});
    const NodeRef a = maker.input("a", DType::f32, {128, 8});
    const NodeRef b = maker.input("b", DType::f32, {128, columns});
    const NodeRef first = maker.call("aten.mm.default", {x, a});
    const NodeRef second = maker.call("aten.mm.default", {x, b});
    maker.output(maker.call("aten.cat.default", {Argument::List{first, second}, -1}));
    if (columns == 24)
      CHECK(summary(maker.lower()) ==
            "op0 extern_kernels.mm buf0 in buf2 from 0 f32 [64, 8] [32, 1] <- x[128, 1], a[8, 1]\n"
            "op1 extern_kernels.mm buf1 in buf2 from 8 f32 [64, 24] [32, 1] <- x[128, 1], b[24, "
            "1]\n"
            "op2 concatenate buf2 f32 [64, 32] [32, 1] <- buf0[32, 1], buf1[32, 1]\n");
    else
      CHECK(summary(maker.lower()) ==
            "op0 extern_kernels.mm buf0 f32 [64, 8] [8, 1] <- x[128, 1], a[8, 1]\n"
            "op1 extern_kernels.mm buf1 f32 [64, 7] [7, 1] <- x[128, 1], b[7, 1]\n"
            "op2 pointwise buf2 f32 [64, 15] [15, 1] <- buf0, buf1\n");
  }
}

TEST_CASE(
    "a product that a reshape alone looks at lies in its slice too, but not under inductor-2.5") {
  GraphMaker maker;
  const NodeRef x = maker.input("x", DType::f32, {64, 128});
  const NodeRef a = maker.input("a", DType::f32, {128, 8});
  const NodeRef b = maker.input("b", DType::f32, {128, 24});
  const auto part = [&](NodeRef weight, int64_t columns) {
    return maker.call("aten.view.default",
                      {maker.call("aten.mm.default", {x, weight}), Argument::List{4, 16, columns}});
  };
  maker.output(maker.call("aten.cat.default", {Argument::List{part(a, 8), part(b, 24)}, 2}));
  CHECK(summary(maker.lower()) ==
        "op0 extern_kernels.mm buf0 in buf2 from 0 f32 [64, 8] [32, 1] <- x[128, 1], a[8, 1]\n"
        "op1 extern_kernels.mm buf1 in buf2 from 8 f32 [64, 24] [32, 1] <- x[128, 1], b[24, 1]\n"
        "op2 concatenate buf2 f32 [4, 16, 32] [512, 32, 1] <- buf0[32, 1], buf1[32, 1]\n");
  CHECK(summary(maker.lower(target::inductor_2_5_policy())) ==
        "op0 extern_kernels.mm buf0 f32 [64, 8] [8, 1] <- x[128, 1], a[8, 1]\n"
        "op1 extern_kernels.mm buf1 f32 [64, 24] [24, 1] <- x[128, 1], b[24, 1]\n"
        "op2 pointwise buf2 f32 [4, 16, 32] [512, 32, 1] <- buf0, buf1\n");
}

TEST_CASE(
    "parts that are there already, or read by what computes elements, are joined under masks") {
  for (const bool with_exp : {false, true}) {
    GraphMaker maker;
    const NodeRef x = maker.input("x", DType::f32, {64, 128});
    const NodeRef y = maker.input("y", DType::f32, {16});
    const NodeRef z = maker.input("z", DType::f32, {8});
    const NodeRef joined =
        with_exp ? maker.call("aten.cat.default", {Argument::List{row_sum(maker, x), y}})
                 : maker.call("aten.cat.default", {Argument::List{y, z}});
    maker.output(with_exp ? maker.call("aten.exp.default", {joined}) : joined);
    const std::string expected = with_exp ? "op0 sum buf0 f32 [64] [1] <- x\n"
                                            "op1 pointwise buf1 f32 [80] [1] <- buf0, y\n"
                                          : "op0 pointwise buf0 f32 [24] [1] <- y, z\n";
    CHECK(summary(maker.lower()) == expected);
    CHECK(summary(maker.lower(target::inductor_2_5_policy())) == expected);
  }
}

namespace {

Argument::List inputs_of(GraphMaker &maker, int count, const std::vector<graph::Expr> &sizes) {
  Argument::List parts;
  for (int i = 0; i < count; ++i)
    parts.push_back(maker.input("x" + std::to_string(i), DType::f32, sizes));
  return parts;
}

} // namespace

TEST_CASE("more parts than masks pay for are copied into their slices") {
  for (const target::Policy &policy : {target::Policy(), target::inductor_2_5_policy()}) {
    GraphMaker maker;
    maker.output(maker.call("aten.cat.default", {inputs_of(maker, 9, {16})}));
    const ir::Module module = maker.lower(policy);
    REQUIRE(module.operations.size() == 10);
    CHECK(summary(module).find("op8 pointwise buf8 in buf9 from 128 f32 [16] [1] <- x8\n") !=
          std::string::npos);
  }
}

TEST_CASE("what reads many parts element by element reads them under masks until they are twice as "
          "many") {
  for (const int count : {9, 17}) {
    GraphMaker maker;
    const NodeRef joined = maker.call("aten.cat.default", {inputs_of(maker, count, {16})});
    maker.output(maker.call("aten.exp.default", {joined}));
    CHECK(maker.lower().operations.size() == (count == 9 ? 2 : 19));
  }
}

TEST_CASE("parts of no whole runs are copied where their number makes masks slow") {
  for (const int64_t rows : {5, 8}) { // of 3 elements: 8 of them are a run
    GraphMaker maker;
    maker.output(
        maker.call("aten.cat.default", {inputs_of(maker, 8, {graph::Expr(rows), graph::Expr(3)})}));
    CHECK(maker.lower().operations.size() == (rows == 8 ? 1 : 9));
  }
}

TEST_CASE("parts whose elements lie apart in the result stand together, and are turned") {
  GraphMaker maker;
  const NodeRef joined = maker.call("aten.stack.default", {inputs_of(maker, 20, {64}), -1});
  maker.output(joined);
  const std::string text = summary(maker.lower());
  INFO(text);
  CHECK(text.find("in buf20 from 64 f32 [64, 1] [1, 64]") != std::string::npos);
  CHECK(text.find("f32 [64, 20] [20, 1] <- buf20\n") != std::string::npos);
}

TEST_CASE("inputs that lie differently are copied by kernels of their own") {
  const auto lowered = [](DType dtype, bool turned, int64_t rows) {
    GraphMaker maker;
    const NodeRef x = maker.input("x", dtype, {rows, 1024});
    NodeRef y = maker.input("y", dtype,
                            turned ? std::vector<graph::Expr>{1024, 768}
                                   : std::vector<graph::Expr>{768, 1024});
    if (turned)
      y = maker.call("aten.permute.default", {y, Argument::List{1, 0}});
    maker.output(maker.call("aten.cat.default", {Argument::List{x, y}}));
    return summary(maker.lower());
  };
  CHECK(lowered(DType::u8, true, 512).find("concatenate") != std::string::npos);
  CHECK(lowered(DType::f32, true, 512).find("concatenate") != std::string::npos);
  CHECK(lowered(DType::u8, false, 512).find("concatenate") == std::string::npos);
  CHECK(lowered(DType::u8, true, 128).find("concatenate") == std::string::npos); // under 1 MiB
}
