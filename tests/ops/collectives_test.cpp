// Collectives and the copies around them: shapes, and every refusal.
#include "ops/table/operator.h"
#include "sample_graph.h"
#include "support/diagnostic.h"
#include "testing/catch.h"

using namespace tsc;
using namespace tsc::ops;
using graph::Argument;
using graph::NodeRef;
using symbolic::Expr;
using tensor::DType;
using testing::SampleGraph;

namespace {

using List = Argument::List;

/// The first line of the error, without "error ".
std::string problem_of(const graph::Graph &graph) {
  try {
    run_graph_passes(graph, {});
  } catch (const support::UserError &error) {
    const std::string text = error.what();
    return text.substr(6, text.find('\n') - 6);
  }
  return "no error";
}

struct Sample : SampleGraph {
  Argument f32(const std::string &name, std::vector<Expr> sizes) {
    return input(name, DType::f32, std::move(sizes));
  }
  /// What is said about a single call whose result nobody takes.
  std::string problem(const std::string &target, List args,
                      std::vector<std::pair<std::string, Argument>> kwargs = {}) {
    call("node", target, std::move(args), std::move(kwargs));
    return problem_of(finish({}));
  }
};

constexpr const char *kCopyIn = "fsdp.all_gather_copy_in.default";
constexpr const char *kCopyOut = "fsdp.split_with_sizes_copy.default";
constexpr const char *kChunks = "fsdp.chunk_cat.default";
constexpr const char *kGather = "_c10d_functional.all_gather_into_tensor_out.default";
constexpr const char *kReduce = "_c10d_functional.reduce_scatter_tensor.default";
const Argument kDevice = tensor::Device{};

} // namespace

TEST_CASE("collectives know the sizes of their results") {
  Sample s;
  const Argument a = s.f32("a", {6}), b = s.f32("b", {2, 3});
  const Argument both =
      s.call("both", kCopyIn, {List{a, b}, List{6, 6}, 12, 4, 0, DType::f32, kDevice});
  const Argument part = s.call("part", "operator.getitem", {both, 0});
  const Argument whole = s.call("whole", "operator.getitem", {both, 1});
  const Argument gathered = s.call("gathered", kGather, {part, 4, "0"}, {{"out", whole}});
  const Argument reduced = s.call("reduced", kReduce, {gathered, "avg", 4, "0"});
  const Argument waited = s.call("waited", "_c10d_functional.wait_tensor.default", {reduced});
  graph::Graph graph = run_graph_passes(s.finish({waited}), {});
  const auto sizes = [&](const Argument &node) {
    return graph.node(node.node()->id).value->tensor()->layout.sizes;
  };
  CHECK(sizes(part) == std::vector<Expr>{12});
  CHECK(sizes(whole) == std::vector<Expr>{48});
  CHECK(sizes(gathered) == std::vector<Expr>{48});
  CHECK(sizes(reduced) == std::vector<Expr>{12});
  CHECK(sizes(waited) == std::vector<Expr>{12});
}

TEST_CASE("operators that work in place stay, whether or not their results are used") {
  Sample s;
  const Argument x = s.f32("x", {4}), y = s.f32("y", {4});
  s.call("set", "fsdp.set_.default", {x, y});
  s.call("free", "inductor.resize_storage_bytes_.default", {y, 0});
  graph::Graph graph = run_graph_passes(s.finish({x}), {});
  CHECK(has_ordered_operators(graph));
  CHECK(graph.nodes.size() == 5);
}

TEST_CASE("what does not fit together is refused") {
  const auto f32 = [](Sample &s, const char *name, std::vector<Expr> sizes) {
    return s.f32(name, std::move(sizes));
  };
  {
    Sample s;
    const Argument x = f32(s, "x", {4}), out = f32(s, "out", {4});
    CHECK(s.problem(kGather, {x, 0, "0"}, {{"out", out}}) == "TSC-O110: a group of 0 ranks");
  }
  {
    Sample s;
    const Argument x = f32(s, "x", {4}), out = f32(s, "out", {9});
    CHECK(s.problem(kGather, {x, 2, "0"}, {{"out", out}}) ==
          "TSC-O111: out has 9 elements, 8 are needed");
  }
  {
    Sample s;
    const Argument x = f32(s, "x", {4}), out = s.input("out", DType::bf16, {8});
    CHECK(s.problem(kGather, {x, 2, "0"}, {{"out", out}}) ==
          "TSC-O112: the input is torch.float32, the memory it meets is torch.bfloat16");
  }
  {
    Sample s;
    const Argument x = f32(s, "x", {4});
    CHECK(s.problem(kCopyIn, {List{x}, List{2, 2}, 4, 2, 0, DType::f32, kDevice}) ==
          "TSC-O113: 1 tensors for 2 sizes");
  }
  {
    Sample s;
    const Argument x = f32(s, "x", {4}), out = f32(s, "out", {4});
    CHECK(s.problem(kCopyOut, {x, List{2}, 0}, {{"out", List{out}}}) ==
          "TSC-O114: the gathered memory is not cut along the second of two dimensions");
  }
  {
    Sample s;
    const Argument x = f32(s, "x", {4, 2}), out = f32(s, "out", {4, 2});
    CHECK(s.problem(kChunks, {List{x}, 1, 2}, {{"out", out}}) ==
          "TSC-O115: chunk_cat into 2 chunks along dimension 1");
  }
  {
    Sample s;
    const Argument x = f32(s, "x", {}), out = f32(s, "out", {2});
    CHECK(s.problem(kChunks, {List{x}, 0, 2}, {{"out", out}}) ==
          "TSC-O116: a tensor without dimensions has no chunks");
  }
  {
    Sample s;
    const Argument x = f32(s, "x", {4});
    CHECK(s.problem(kReduce, {x, "premul_sum", 2, "0"}) ==
          "TSC-O117: the reduction 'premul_sum' is not supported");
  }
  {
    Sample s;
    const Argument x = f32(s, "x", {4});
    CHECK(
        s.problem("_c10d_functional.all_to_all_single.default", {x, List{2, 2}, List{1, 2}, "0"}) ==
        "TSC-O111: the parts that are sent have 3 rows, the input 4");
  }
  {
    Sample s;
    const Argument x = f32(s, "x", {4});
    CHECK(s.problem("_c10d_functional.all_to_all_single.default", {x, List{4}, List{2, 2}, "0"}) ==
          "TSC-O113: 2 parts that are sent, and 1 that are received");
  }
  {
    Sample s;
    const Argument x = f32(s, "x", {4});
    CHECK(s.problem("_c10d_functional.broadcast.default", {x, -1, "0"}) ==
          "TSC-O110: rank -1 of a group");
  }
  {
    Sample s;
    const Argument x = f32(s, "x", {4});
    CHECK(s.problem(kReduce, {x, "bxor", 2, "0"}) ==
          "TSC-O117: the reduction 'bxor' of torch.float32 is not supported");
  }
  {
    Sample s;
    const Argument x = f32(s, "x", {5});
    CHECK(s.problem(kReduce, {x, "sum", 2, "0"}) ==
          "TSC-O118: the first dimension does not divide among 2 ranks");
  }
  {
    Sample s;
    const Argument x = s.input("x", DType::i64, {4});
    CHECK(s.problem(kReduce, {x, "avg", 2, "0"}) ==
          "TSC-O117: the reduction 'avg' of torch.int64 is not supported");
  }
  {
    Sample s;
    const Expr rows = symbolic::symbol(symbolic::SymbolSort::size, 0);
    const Argument x = f32(s, "x", {rows, 2}), out = f32(s, "out", {rows * 2});
    CHECK(s.problem(kChunks, {List{x}, 0, 1}, {{"out", out}}) ==
          "TSC-O121: the size s0 is cut among ranks");
    CHECK(s.problem(kCopyOut, {x, List{2}, 1}, {{"out", List{out}}}) ==
          "TSC-O121: the size s0 is cut among ranks");
  }
}
