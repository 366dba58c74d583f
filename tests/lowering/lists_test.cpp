// Which operations belong to a list operator, and which of its elements are computed where it
// stands.
#include "graph_maker.h"
#include "target/policy.h"
#include "testing/catch.h"

using namespace tsc;
using namespace tsc::lowering::testing;

namespace {

/// The summary, and the list that each operation belongs to.
std::string with_lists(const ir::Module &module) {
  std::string text = summary(module);
  for (const ir::Operation &operation : module.operations)
    if (operation.list != ir::kNone)
      text += operation.name + " of " + module.lists.at(operation.list) + "\n";
  return text;
}

struct TwoInputs : GraphMaker {
  NodeRef x = input("x", DType::f32, {64}), y = input("y", DType::f32, {48});
  NodeRef item(NodeRef list, int64_t i) { return call("operator.getitem", {list, i}); }
};

} // namespace

TEST_CASE("elements of a list are computed where it stands if something else reads one") {
  TwoInputs maker;
  const NodeRef exp = maker.call("aten._foreach_exp.default", {Argument::List{maker.x, maker.y}});
  maker.output(maker.call("aten.relu.default", {maker.item(exp, 0)}));
  maker.output(maker.call("aten.neg.default", {maker.item(exp, 1)}));
  CHECK(with_lists(maker.lower(target::inductor_2_5_policy())) ==
        "op0 pointwise buf0 f32 [64] [1] <- x\n"
        "op1 pointwise buf1 f32 [48] [1] <- y\n"
        "op2 pointwise buf2 f32 [64] [1] <- buf0\n"
        "op3 pointwise buf3 f32 [48] [1] <- buf1\n"
        "op0 of node_2\n"
        "op1 of node_2\n");
  CHECK(with_lists(maker.lower()) == "op0 pointwise buf0 f32 [64] [1] <- x\n"
                                     "op1 pointwise buf1 f32 [48] [1] <- y\n");
}

TEST_CASE("what only list operators read becomes a part of them") {
  TwoInputs maker;
  const NodeRef exp = maker.call("aten._foreach_exp.default", {Argument::List{maker.x, maker.y}});
  const NodeRef scaled = maker.call("aten._foreach_addcmul.Scalar",
                                    {Argument::List{maker.x, maker.y},
                                     Argument::List{maker.item(exp, 0), maker.item(exp, 1)},
                                     Argument::List{maker.x, maker.y}, 0.5});
  maker.output(maker.item(scaled, 0));
  maker.output(maker.item(scaled, 1));
  CHECK(with_lists(maker.lower(target::inductor_2_5_policy())) ==
        "op0 pointwise buf0 f32 [64] [1] <- x\n"
        "op1 pointwise buf1 f32 [48] [1] <- y\n"
        "op0 of node_5\n"
        "op1 of node_5\n");
}

TEST_CASE("what a list operator writes to inputs is stored there at once") {
  TwoInputs maker;
  const NodeRef z = maker.input("z", DType::f32, {8});
  maker.call("aten._foreach_mul_.Scalar", {Argument::List{maker.x, maker.y}, 3.0});
  maker.output(maker.call("aten.neg.default", {z}));
  CHECK(with_lists(maker.lower(target::inductor_2_5_policy())) ==
        "op0 pointwise buf0 f32 [8] [1] <- z\n"
        "op1 pointwise buf1 => x f32 [64] [1] <- x\n"
        "op2 pointwise buf2 => y f32 [48] [1] <- y\n"
        "op1 of node_3\n"
        "op2 of node_3\n");
}

TEST_CASE("copies of inputs into a concatenation are a list") {
  GraphMaker maker;
  Argument::List parts;
  for (int i = 0; i < 9; ++i)
    parts.push_back(maker.input("x" + std::to_string(i), DType::f32, {4}));
  maker.output(maker.call("aten.cat.default", {parts}));
  const ir::Module module = maker.lower(target::inductor_2_5_policy());
  REQUIRE(module.operations.size() == 10);
  REQUIRE(module.lists.size() == 1);
  for (size_t i = 0; i < 10; ++i)
    CHECK(module.operations[i].list == (i < 9 ? 0 : ir::kNone));
}
