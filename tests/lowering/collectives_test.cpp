// Calls that write memory in place: their outputs, and what is computed before they run.
#include "graph_maker.h"
#include "support/diagnostic.h"
#include "testing/catch.h"

using namespace tsc;
using namespace tsc::lowering::testing;

namespace {

const Argument kDevice = tensor::Device{};

NodeRef empty(GraphMaker &maker, std::vector<Argument> sizes) {
  return maker.call("aten.empty.memory_format", {Argument::List(sizes.begin(), sizes.end())},
                    {{"dtype", DType::f32}, {"device", kDevice}});
}

std::string problem_of(GraphMaker &maker) {
  try {
    maker.lower();
  } catch (const support::UserError &error) {
    const std::string text = error.what();
    return text.substr(0, text.find('\n'));
  }
  return "no error";
}

} // namespace

TEST_CASE("a call that writes has an output for each buffer that it writes") {
  GraphMaker maker;
  const NodeRef x = maker.input("x", DType::f32, {6});
  const NodeRef both =
      maker.call("fsdp.all_gather_copy_in.default",
                 {Argument::List{x}, Argument::List{6}, 6, 2, 0, DType::f32, kDevice});
  const NodeRef part = maker.call("operator.getitem", {both, 0});
  const NodeRef whole = maker.call("operator.getitem", {both, 1});
  maker.output(maker.call("_c10d_functional.all_gather_into_tensor_out.default", {part, 2, "0"},
                          {{"out", whole}}));
  const ir::Module module = maker.lower();
  REQUIRE(module.operations.size() == 4);
  const ir::Operation &gather = module.operations[3];
  const auto &call = std::get<ir::Extern>(gather.kind);
  CHECK(call.library == ir::Library::all_gather);
  CHECK(call.group.size == 2);
  CHECK(gather.has_side_effects);
  REQUIRE(gather.outputs.size() == 3);
  CHECK(module.buffer(gather.outputs[0]).layout_kind == ir::LayoutKind::none);
  CHECK(module.buffer(gather.outputs[0]).aliases.size() == 2);
  CHECK(module.buffer(gather.outputs[1]).mutates == call.inputs[0].buffer);
  CHECK(module.buffer(gather.outputs[2]).mutates == call.inputs[1].buffer);
}

TEST_CASE("what reads memory that is about to be set is computed before") {
  GraphMaker maker;
  const NodeRef x = maker.input("x", DType::f32, {4});
  const NodeRef y = maker.input("y", DType::f32, {4});
  const NodeRef before = maker.call("aten.neg.default", {x}); // used later: must see the old x
  maker.call("fsdp.set_.default", {x, y});
  const NodeRef after = maker.call("aten.exp.default", {x});
  maker.output(maker.call("aten.add.Tensor", {before, after}));
  const ir::Module module = maker.lower();
  REQUIRE(module.operations.size() == 3);
  CHECK(std::holds_alternative<ir::Pointwise>(module.operations[0].kind)); // neg
  CHECK(std::get<ir::Extern>(module.operations[1].kind).library == ir::Library::set_storage);
  REQUIRE(module.outputs.size() == 2);
  CHECK(module.outputs[1].kind == graph::OutputKind::input_mutation);
  CHECK(module.outputs[1].target == "x");
}

TEST_CASE("an empty is memory where calls write, zeros elsewhere") {
  GraphMaker plain;
  const NodeRef x = plain.input("x", DType::f32, {4});
  plain.output(plain.call("aten.add.Tensor", {x, empty(plain, {4})}));
  CHECK(plain.lower().operations.size() == 1);

  GraphMaker writing;
  const NodeRef w = writing.input("w", DType::f32, {4});
  const NodeRef memory = empty(writing, {2, 2});
  writing.call("fsdp.chunk_cat.default", {Argument::List{w}, 0, 2}, {{"out", memory}});
  writing.output(memory);
  const ir::Module module = writing.lower();
  REQUIRE(module.operations.size() == 2);
  CHECK(std::get<ir::Pointwise>(module.operations[0].kind).allocates_only);
}

TEST_CASE("what is written is contiguous, and what is set lies alike") {
  GraphMaker strided;
  const NodeRef x = strided.input("x", DType::f32, {4});
  const NodeRef out = strided.input("out", DType::f32, {2, 2}, {1, 2});
  strided.call("fsdp.chunk_cat.default", {Argument::List{x}, 0, 2}, {{"out", out}});
  strided.output(x);
  CHECK(problem_of(strided) ==
        "error TSC-O119: an argument that is written does not lie contiguous in memory");

  GraphMaker other;
  const NodeRef a = other.input("a", DType::f32, {2, 2});
  const NodeRef b = other.input("b", DType::f32, {4});
  other.call("fsdp.set_.default", {a, b});
  other.output(a);
  CHECK(problem_of(other) == "error TSC-O120: set_ of a tensor to memory that lies otherwise");
}

TEST_CASE("a group has equally many ranks in all collectives of a graph") {
  GraphMaker maker;
  const NodeRef x = maker.input("x", DType::f32, {8});
  const char *const reduce = "_c10d_functional.reduce_scatter_tensor.default";
  const NodeRef half = maker.call(reduce, {x, "sum", 2, "0"});
  maker.output(maker.call(reduce, {half, "sum", 4, "0"}));
  CHECK(problem_of(maker) == "error TSC-O122: the group '0' has 2 ranks in one collective, and 4 "
                             "in another");
}
