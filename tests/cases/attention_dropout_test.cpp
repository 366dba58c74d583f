// Attention with dropout, forward and backward: the backward pass draws the mask of its forward
// pass again. Held to the formula with a mask that is read off the forward form itself, given the
// identity as values (seed and stream are the same, and so is the mask).
#include "made_graph.h"
#include "testing/catch.h"

#include <cmath>

using namespace tsc;
using nlohmann::json;

namespace {

constexpr double kDropped = 0.3;

struct Case {
  std::string form, dtype = "float32"; // flash, efficient or cudnn
  bool causal = false;
  int64_t heads = 2, key_heads = 2, rows = 17, keys = 16;
};

void append(json &list, const json &more) { list.insert(list.end(), more.begin(), more.end()); }

void add_inputs(testing::MadeGraph &graph, const Case &each) {
  constexpr int64_t kDepth = 8;
  const auto add = [&](const std::string &name, int64_t heads, int64_t length, int64_t depth) {
    graph.inputs.push_back({name, each.dtype, {2, heads, length, depth}});
  };
  add("q", each.heads, each.rows, kDepth);
  add("k", each.key_heads, each.keys, kDepth);
  add("v", each.key_heads, each.keys, kDepth);
  add("above", each.heads, each.rows, kDepth);
}

json forward_arguments(const Case &each, const std::string &value) {
  json list = {"$q", "$k", value};
  append(list, each.form == "flash" ? json{kDropped, each.causal, false}
                                    : json{nullptr, true, kDropped, each.causal});
  return list;
}
std::string name_of(const Case &each) {
  return "aten._scaled_dot_product_" + each.form + "_attention";
}

/// Outputs: what the forward form gives, and the gradients.
testing::MadeGraph graph_of(const Case &each) {
  testing::MadeGraph graph;
  graph.name = each.form + " " + each.dtype + (each.causal ? " causal" : "");
  graph.calls = json::array();
  add_inputs(graph, each);
  json backward = {"$above", "$q", "$k", "$v"};
  if (each.form == "efficient")
    append(backward,
           {nullptr, "$r0", "$r1", "$r2", "$r3", kDropped, {true, true, true, false}, each.causal});
  else if (each.form == "flash")
    append(backward, {"$r0", "$r1", nullptr, nullptr, each.rows, each.keys, kDropped, each.causal,
                      "$r6", "$r7"});
  else
    append(backward, {"$r0", "$r1", "$r6", "$r7", nullptr, nullptr, nullptr, each.rows, each.keys,
                      kDropped, each.causal});
  graph.calls.push_back({"r", name_of(each) + ".default", forward_arguments(each, "$v")});
  for (const int i :
       each.form == "efficient" ? std::vector<int>{0, 1, 2, 3} : std::vector<int>{0, 1, 6, 7})
    graph.calls.push_back({"r" + std::to_string(i), "operator.getitem", {"$r", i}});
  graph.calls.push_back({"all", name_of(each) + "_backward.default", backward});
  graph.outputs = {"r0"};
  for (const int i : {0, 1, 2}) {
    graph.calls.push_back({"gradient" + std::to_string(i), "operator.getitem", {"$all", i}});
    graph.outputs.push_back("gradient" + std::to_string(i));
  }
  return graph;
}

/// The same by the formula, in float64, of the mask of the same seed.
testing::MadeGraph formula_of(const Case &each) {
  testing::MadeGraph graph;
  graph.name = graph_of(each).name + " by its formula";
  graph.calls = json::array();
  add_inputs(graph, each);
  const auto call = [&](const std::string &name, const std::string &target, json arguments,
                        json keywords = json::object()) {
    graph.calls.push_back({name, target, std::move(arguments), std::move(keywords)});
  };
  const json sizes = {2, each.heads, each.rows, each.keys};
  call("one", "aten.eye.default", {each.keys}, {{"dtype", {{"dtype", each.dtype}}}});
  call("identity", "aten.expand.default", {"$one", {2, each.key_heads, each.keys, each.keys}});
  call("probe", name_of(each) + ".default", forward_arguments(each, "$identity"));
  call("masked", "operator.getitem", {"$probe", 0});
  call("stays", "aten.ne.Scalar", {"$masked", 0});
  const json f64 = {{"dtype", "float64"}};
  const int64_t group = each.heads / each.key_heads;
  for (const std::string name : {"q", "k", "v", "above"}) {
    const bool repeats = group > 1 && (name == "k" || name == "v");
    call(name + "_own", "aten._to_copy.default", {"$" + name}, {{"dtype", f64}});
    call(name + "_all", "aten.repeat_interleave.self_int",
         {"$" + name + "_own", repeats ? group : 1, 1});
  }
  call("k_turned", "aten.transpose.int", {"$k_all", -1, -2});
  call("v_turned", "aten.transpose.int", {"$v_all", -1, -2});
  call("products", "aten.matmul.default", {"$q_all", "$k_turned"});
  const double scale = 1 / std::sqrt(8.0);
  call("scores", "aten.mul.Scalar", {"$products", scale});
  if (each.causal) {
    call("ones", "aten.ones.default", json::array({json::array({each.rows, each.keys})}),
         {{"dtype", {{"dtype", "bool"}}}});
    call("visible", "aten.tril.default", {"$ones"});
    call("hidden", "aten.logical_not.default", {"$visible"});
    call("shown", "aten.masked_fill.Scalar", {"$scores", "$hidden", -1e300});
  } else {
    call("shown", "aten.mul.Scalar", {"$scores", 1.0});
  }
  call("weights", "aten._softmax.default", {"$shown", -1, false});
  call("factor", "aten.mul.Scalar", {"$stays", 1 / (1 - kDropped)});
  call("kept", "aten.mul.Tensor", {"$weights", "$factor"});
  call("out", "aten.matmul.default", {"$kept", "$v_all"});
  call("kept_turned", "aten.transpose.int", {"$kept", -1, -2});
  call("of_values", "aten.matmul.default", {"$kept_turned", "$above_all"});
  call("of_kept", "aten.matmul.default", {"$above_all", "$v_turned"});
  call("of_weights", "aten.mul.Tensor", {"$of_kept", "$factor"});
  call("of_scores", "aten._softmax_backward_data.default", {"$of_weights", "$weights", -1, f64});
  call("scaled", "aten.mul.Scalar", {"$of_scores", scale});
  call("of_queries", "aten.matmul.default", {"$scaled", "$k_all"});
  call("scaled_turned", "aten.transpose.int", {"$scaled", -1, -2});
  call("of_keys", "aten.matmul.default", {"$scaled_turned", "$q_all"});
  graph.outputs.clear();
  for (const std::string name : {"out", "of_queries", "of_keys", "of_values"}) {
    std::string last = name;
    if (group > 1 && (name == "of_keys" || name == "of_values")) {
      call(name + "_apart", "aten.view.default",
           {"$" + name, {2, each.key_heads, group, each.keys, 8}});
      call(name + "_sum", "aten.sum.dim_IntList", {"$" + name + "_apart", {2}});
      last = name + "_sum";
    }
    call(name + "_narrow", "aten._to_copy.default", {"$" + last},
         {{"dtype", {{"dtype", each.dtype}}}});
    graph.outputs.push_back(name + "_narrow");
  }
  return graph;
}

std::vector<Case> cases() {
  return {{"flash"},
          {"efficient", "float32", true},
          {"cudnn", "bfloat16"},
          {"flash", "bfloat16", true},
          {"efficient", "float16", false, 4, 4, 33, 40},
          {"flash", "float32", false, 4, 2}};
}

void check_all(const std::vector<runtime::SessionOptions> &ways) {
  for (const Case &each : cases()) {
    INFO(each.form << " " << each.dtype);
    testing::check_made(graph_of(each), testing::compile_made(graph_of(each), false),
                        testing::compile_made(formula_of(each), false), 0, ways);
  }
}

} // namespace

TEST_CASE("attention's backward pass drops the weights that its forward pass dropped") {
  check_all(testing::host_ways());
}
TEST_CASE("attention with dropout, forward and backward, on a GPU", "[gpu]") {
  check_all(testing::gpu_ways());
}

TEST_CASE("of a random state that is not tsc's attention's gradients are NaN") {
  testing::MadeGraph graph = graph_of({"flash"});
  // A state as PyTorch's generator has it: a seed, and an offset.
  graph.calls.insert(
      graph.calls.begin(),
      json{"state", "aten.full.default", {{2}, 42}, {{"dtype", {{"dtype", "int64"}}}}});
  for (json &call : graph.calls)
    if (call[0] == "all")
      call[2][12] = "$state";
  graph.calls.push_back({"nan", "aten.isnan.default", {"$gradient0"}});
  graph.calls.push_back({"every", "aten.all.default", {"$nan"}});
  testing::MadeGraph expected = graph;
  graph.outputs = {"every"};
  expected.calls.push_back(
      {"true", "aten.ones.default", {json::array()}, {{"dtype", {{"dtype", "bool"}}}}});
  expected.outputs = {"true"};
  testing::check_made(graph, testing::compile_made(graph, false),
                      testing::compile_made(expected, false), 0, testing::host_ways());
}
