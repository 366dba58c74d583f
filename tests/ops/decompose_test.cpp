#include "ops/table/operator.h"
#include "sample_graph.h"
#include "testing/catch.h"

#include <cmath>

using namespace tsc;
using namespace tsc::ops;
using graph::Argument;
using tensor::DType;
using testing::calls_of;
using testing::SampleGraph;
using List = Argument::List;

TEST_CASE("layer norm becomes statistics and arithmetic in f32, each node with its origin") {
  SampleGraph sample;
  Argument x = sample.input("x", DType::bf16, {4, 8});
  Argument w = sample.input("w", DType::bf16, {8});
  Argument y = sample.call("y", "aten.layer_norm.default", {x, List{8}, w});
  graph::Graph graph = run_graph_passes(sample.finish({y}), {});
  CHECK(calls_of(graph) ==
        "convert_element_type = prims.convert_element_type.default(%x, torch.float32)\n"
        "var_mean = aten.var_mean.correction(%convert_element_type, [1]), kwargs = {correction: 0, "
        "keepdim: True})\n"
        "getitem = operator.getitem(%var_mean, 0)\n"
        "getitem_1 = operator.getitem(%var_mean, 1)\n"
        "add = aten.add.Tensor(%getitem, 1e-05)\n"
        "rsqrt = aten.rsqrt.default(%add)\n"
        "sub = aten.sub.Tensor(%convert_element_type, %getitem_1)\n"
        "mul = aten.mul.Tensor(%sub, %rsqrt)\n"
        "mul_1 = aten.mul.Tensor(%mul, %w)\n"
        "convert_element_type_1 = prims.convert_element_type.default(%mul_1, torch.bfloat16)\n");
  for (const graph::Node &node : graph.nodes) {
    if (node.kind != graph::NodeKind::call_function)
      continue;
    CHECK(node.origins == std::vector<std::string>{"y"});
    CHECK(node.stack_trace.find("model.py") != std::string::npos);
  }
}

TEST_CASE("softmax of a reduced float is computed in f32") {
  SampleGraph sample;
  Argument x = sample.input("x", DType::f16, {4, 8});
  Argument y = sample.call("y", "aten._softmax.default", {x, -1, false});
  CHECK(calls_of(run_graph_passes(sample.finish({y}), {})) ==
        "convert_element_type = prims.convert_element_type.default(%x, torch.float32)\n"
        "amax = aten.amax.default(%convert_element_type, [-1], True)\n"
        "sub = aten.sub.Tensor(%convert_element_type, %amax)\n"
        "exp = aten.exp.default(%sub)\n"
        "sum = aten.sum.dim_IntList(%exp, [-1], True)\n"
        "div = aten.div.Tensor(%exp, %sum)\n"
        "convert_element_type_1 = prims.convert_element_type.default(%div, torch.float16)\n");
}

TEST_CASE("attention is one node first, with every form; then products and a softmax") {
  SampleGraph sample;
  Argument q = sample.input("q", DType::f32, {2, 4, 8, 16});
  Argument k = sample.input("k", DType::f32, {2, 2, 8, 16});
  Argument y = sample.call("y", "aten.scaled_dot_product_attention.default", {q, k, k},
                           {{"is_causal", true}, {"enable_gqa", true}});
  graph::Graph graph = sample.finish({y});
  std::string attention;
  run_graph_passes(graph, {}, [&](std::string_view pass, const graph::Graph &after) {
    if (pass == "decompose")
      attention = calls_of(after);
  });
  CHECK(attention == "attention = tsc.attention.default(%q, %k, %k, None, True, 0.25, True)\n"
                     "getitem = operator.getitem(%attention, 0)\n");
  std::string calls = calls_of(run_graph_passes(graph, {}));
  // Four query heads on two key heads: two rows of queries for each row of keys, and no copy of the
  // keys.
  CHECK(calls.find("aten.view.default(%q, [4, 16, 16])") != std::string::npos);
  CHECK(calls.find("aten.view.default(%k, [4, 8, 16])") != std::string::npos);
  CHECK(calls.find("aten.expand.default") == std::string::npos);
  CHECK(calls.find("aten.log.default") == std::string::npos); // logsumexp has no user
}

TEST_CASE("alpha, powers and scalar overloads become plain arithmetic") {
  SampleGraph sample;
  Argument x = sample.input("x", DType::f32, {4});
  Argument a = sample.call("a", "aten.add.Tensor", {x, x}, {{"alpha", 2}});
  Argument b = sample.call("b", "aten.pow.Tensor_Scalar", {a, 3.0});
  Argument c = sample.call("c", "aten.rsub.Scalar", {b, 1});
  Argument d = sample.call("d", "aten.eq.Scalar", {c, 0});
  CHECK(calls_of(run_graph_passes(sample.finish({d}), {})) ==
        "mul = aten.mul.Tensor(%x, 2)\n"
        "add = aten.add.Tensor(%x, %mul)\n"
        "mul_1 = aten.mul.Tensor(%add, %add)\n"
        "mul_2 = aten.mul.Tensor(%mul_1, %add)\n"
        "sub = aten.sub.Tensor(1, %mul_2)\n"
        "eq = aten.eq.Tensor(%sub, 0)\n");
}

TEST_CASE("symbolic sizes vanish from the nodes") {
  SampleGraph sample;
  Argument x = sample.input("x", DType::f32, {symbolic::symbol(symbolic::SymbolSort::size, 0), 4});
  Argument n = sample.call("n", "aten.sym_size.int", {x, 0});
  Argument m = sample.call("m", "operator.mul", {n, 2});
  Argument y = sample.call("y", "aten.view.default", {x, List{m, -1}});
  CHECK(calls_of(run_graph_passes(sample.finish({y}), {})) ==
        "y = aten.view.default(%x, [2*s0, 2])\n");
}

TEST_CASE("whether sizes are the same is known before the run") {
  SampleGraph sample;
  const graph::Expr n = symbolic::symbol(symbolic::SymbolSort::size, 0);
  Argument x = sample.input("x", DType::f32, {n, 4});
  Argument y = sample.input("y", DType::f32, {n, 4});
  Argument z = sample.input("z", DType::f32, {4, n, 1});
  Argument row = sample.input("row", DType::f32, {4});
  const auto chosen = [&](const char *name, const char *target, Argument a, Argument b) {
    Argument is = sample.call(std::string(name) + "_is", target, {a, b});
    return sample.call(name, "aten.mul.Scalar",
                       {x, sample.call(std::string(name) + "_k", "torch.sym_ite", {is, 2, 3})});
  };
  Argument a = chosen("a", "aten.is_same_size.default", x, y);
  Argument b = chosen("b", "aten.is_same_size.default", x, z);
  Argument c = chosen("c", "aten._has_same_storage_numel.default", x, z);
  Argument d = chosen("d", "aten._has_same_storage_numel.default", row, x);
  CHECK(calls_of(run_graph_passes(sample.finish({a, b, c, d}), {})) ==
        "mul = aten.mul.Tensor(%x, 2)\n"
        "mul_1 = aten.mul.Tensor(%x, 3)\n"
        "mul_3 = aten.mul.Tensor(%x, Max(Min(1, Max(0, -4*s0 + 4)), Min(1, Max(0, 4*s0 - 4))) + "
        "2)\n");
}

TEST_CASE("the dtype that an elementwise operator computes in") {
  SampleGraph sample;
  Argument i = sample.input("i", DType::i64, {4});
  Argument h = sample.input("h", DType::f16, {4});
  Argument a = sample.call("a", "aten.eq.Tensor", {i, 0.5});
  Argument b = sample.call("b", "aten.div.Tensor", {i, i});
  Argument c = sample.call("c", "aten.add.Tensor", {h, 1.5});
  Argument d = sample.call("d", "aten.lt.Tensor", {i, h});
  graph::Graph graph = infer_shapes(sample.finish({a, b, c, d}), {});
  auto computed = [&](size_t id) {
    const graph::Node &node = graph.nodes[id];
    return computation_dtype(Call(graph, node, find_operator(node.target)->schema));
  };
  CHECK(computed(2) == DType::f32);
  CHECK(computed(3) == DType::f32);
  CHECK(computed(4) == DType::f16);
  CHECK(computed(5) == DType::f16);
}

TEST_CASE("a chain of 100,000 nodes passes") {
  SampleGraph sample;
  Argument x = sample.input("x", DType::f32, {4});
  for (int i = 0; i < 100000; ++i)
    x = sample.call("n" + std::to_string(i), "aten.sin.default", {x});
  graph::Graph graph = run_graph_passes(sample.finish({x}), {});
  CHECK(graph.nodes.size() == 100002);
}
