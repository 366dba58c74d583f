// flex_attention as one kernel, its functions at the scores, against products and a softmax:
// captured tensors, sizes that fill no tile, grouped heads, rows that see nothing, lists of blocks,
// sums, and what is said of an index out of range.
#include "driver/reference.h"
#include "made_graph.h"
#include "support/diagnostic.h"
#include "testing/catch.h"
#include "testing/graph_json.h"

using namespace tsc;
using nlohmann::json;

namespace {

struct Case {
  std::string name;
  int64_t rows, columns, depth, heads, key_heads;
  std::vector<testing::MadeInput> captured;
  json score, mask; // calls; the functions yield "y"
  bool lists = false, sums = false;
  std::string dtype = "bfloat16";
};

json placeholder(const std::string &name, const std::string &dtype, const json &sizes) {
  return {{"name", name},
          {"op", "placeholder"},
          {"val", {{"dtype", dtype}, {"size", sizes}, {"device", "cpu"}}}};
}
json function(bool has_score, const Case &each, const json &calls) {
  json nodes = json::array();
  if (has_score)
    nodes.push_back(placeholder("s", "float32", json::array()));
  for (const char *place : {"b", "h", "i", "j"})
    nodes.push_back(placeholder(place, "int32", json::array()));
  for (const testing::MadeInput &input : each.captured)
    nodes.push_back(placeholder(input.name, input.dtype, input.sizes));
  for (const json &call : calls)
    nodes.push_back({{"name", call[0]},
                     {"op", "call_function"},
                     {"target", call[1]},
                     {"args", testing::with_references(call[2])},
                     {"kwargs", json::object()}});
  nodes.push_back({{"name", "output"}, {"op", "output"}, {"args", {{{"node", "y"}}}}});
  return {{"nodes", nodes}};
}

constexpr int64_t kBlock = 128;

/// Of a causal mask: the block on the diagonal in part, those before it whole.
void add_lists(json &calls, int64_t rows) {
  const int64_t blocks = (rows + kBlock - 1) / kBlock;
  const json i32 = {{"dtype", {{"dtype", "int32"}}}, {"device", {{"device", "cpu"}}}};
  calls.push_back({"numbers", "aten.arange.default", {blocks}, i32});
  calls.push_back({"one", "aten.full.default", {{1, 1, blocks}, 1}, i32});
  calls.push_back({"before", "aten.view.default", {"$numbers", {1, 1, blocks}}});
  calls.push_back({"column", "aten.view.default", {"$numbers", {1, 1, blocks, 1}}});
  calls.push_back({"own", "aten.expand.default", {"$column", {1, 1, blocks, blocks}}});
  calls.push_back({"row", "aten.view.default", {"$numbers", {1, 1, 1, blocks}}});
  calls.push_back({"all", "aten.expand.default", {"$row", {1, 1, blocks, blocks}}});
}

testing::MadeGraph graph_of(const Case &each) {
  testing::MadeGraph graph;
  graph.name = each.name;
  graph.inputs = {{"q", each.dtype, {2, each.heads, each.rows, each.depth}},
                  {"k", each.dtype, {2, each.key_heads, each.columns, each.depth}},
                  {"v", each.dtype, {2, each.key_heads, each.columns, each.depth}}};
  graph.inputs.insert(graph.inputs.end(), each.captured.begin(), each.captured.end());
  graph.calls = json::array();
  json others = json::array(), mask = json::array();
  for (const testing::MadeInput &input : each.captured)
    others.push_back("$" + input.name);
  if (each.lists) {
    add_lists(graph.calls, each.rows);
    mask = {each.rows, each.columns, "$one",  "$own",  "$before",
            "$all",    nullptr,      nullptr, nullptr, nullptr};
  }
  mask.insert(mask.end(), {kBlock, kBlock, {{"graph", "mask"}}});
  graph.calls.push_back({"flex",
                         "higher_order.flex_attention",
                         {"$q",
                          "$k",
                          "$v",
                          {{"graph", "score"}},
                          mask,
                          0.25,
                          {{"dict", json::object()}},
                          others,
                          others}});
  graph.calls.push_back({"y", "operator.getitem", {"$flex", 0}});
  graph.outputs = {"y"};
  if (each.sums) {
    graph.calls.push_back({"sums", "operator.getitem", {"$flex", 1}});
    graph.outputs.push_back("sums");
  }
  graph.subgraphs = {{"score", function(true, each, each.score)},
                     {"mask", function(false, each, each.mask)}};
  return graph;
}

const json kCausal = {{"y", "aten.ge.Tensor", {"$i", "$j"}}};
const json kSame = {{"y", "aten.clone.default", {"$s"}}};

std::vector<Case> cases() {
  return {
      {"causal, capped, by lists",
       300,
       300,
       16,
       4,
       2,
       {},
       {{"a", "aten.div.Tensor", {"$s", 5.0}},
        {"t", "aten.tanh.default", {"$a"}},
        {"y", "aten.mul.Tensor", {"$t", 5.0}}},
       kCausal,
       true,
       true},
      {"slopes and a window",
       197,
       131,
       8,
       3,
       3,
       {{"slopes", "float32", {3}}},
       {{"slope", "aten.index.Tensor", {"$slopes", {"$h"}}},
        {"apart", "aten.sub.Tensor", {"$j", "$i"}},
        {"bias", "aten.mul.Tensor", {"$apart", "$slope"}},
        {"y", "aten.add.Tensor", {"$s", "$bias"}}},
       {{"apart", "aten.sub.Tensor", {"$i", "$j"}},
        {"far", "aten.abs.default", {"$apart"}},
        {"y", "aten.lt.Scalar", {"$far", 40}}}},
      {"documents and a table by distance",
       137,
       137,
       24,
       2,
       1,
       {{"ids", "int32", {137}, 0, 3}, {"table", "float16", {2, 273}}},
       {{"apart", "aten.sub.Tensor", {"$i", "$j"}},
        {"at", "aten.add.Tensor", {"$apart", 136}},
        {"bias", "aten.index.Tensor", {"$table", {"$h", "$at"}}},
        {"y", "aten.add.Tensor", {"$s", "$bias"}}},
       {{"one", "aten.index.Tensor", {"$ids", {"$i"}}},
        {"other", "aten.index.Tensor", {"$ids", {"$j"}}},
        {"y", "aten.eq.Tensor", {"$one", "$other"}}},
       false,
       false,
       "float16"},
      {"lengths, some 0",
       33,
       50,
       8,
       2,
       2,
       {{"lengths", "int32", {2}, -1, 1}},
       kSame,
       {{"length", "aten.index.Tensor", {"$lengths", {"$b"}}},
        {"y", "aten.lt.Tensor", {"$j", "$length"}}},
       false,
       true},
  };
}

/// A table looked up by what another holds: nobody knows before the run that it is there.
Case looked_up() {
  return {"looked up twice",
          20,
          30,
          8,
          2,
          2,
          {{"ids", "int64", {30}, 0, 3}, {"table", "bfloat16", {4}}},
          {{"id", "aten.index.Tensor", {"$ids", {"$j"}}},
           {"bias", "aten.index.Tensor", {"$table", {"$id"}}},
           {"y", "aten.add.Tensor", {"$s", "$bias"}}},
          {{"y", "aten.ge.Scalar", {"$j", 0}}}};
}

driver::Compilation fused(const testing::MadeGraph &graph) {
  driver::Compilation compilation = testing::compile_made(graph, false);
  std::string plans;
  for (const program::Kernel &kernel : compilation.program.kernels)
    plans += kernel.plan + "\n";
  INFO(plans);
  CHECK(plans.find("functions of scores where they are") != std::string::npos);
  return compilation;
}

void check_all(const std::vector<runtime::SessionOptions> &ways) {
  std::vector<Case> all = cases();
  all.push_back(looked_up());
  for (const Case &each : all) {
    testing::MadeGraph graph = graph_of(each);
    INFO(graph.name);
    const driver::Compilation compilation = fused(graph);
    testing::check_made(graph, compilation, 0, ways);
    graph.policy_options = {"fused_attention=off"};
    testing::check_made(graph, compilation, testing::compile_made(graph, false), 0, ways);
  }
}

} // namespace

TEST_CASE("flex_attention is one kernel with its functions at the scores") {
  check_all(testing::host_ways());
}

TEST_CASE("flex_attention with its functions at the scores on the GPU", "[gpu]") {
  check_all(testing::gpu_ways());
}

TEST_CASE(
    "a tanh that caps scores is computed in a few instructions, another one as precisely as ever") {
  const auto calls_of = [](const json &score) {
    Case each = cases().front();
    each.score = score;
    const driver::Compilation compilation = fused(graph_of(each));
    std::string text;
    for (const program::Kernel &kernel : compilation.program.kernels)
      text += kernel.cuda.text;
    return text.find("tc_quick_tanh(") != std::string::npos;
  };
  const json tanh = {"t", "aten.tanh.default", {"$s"}};
  const auto capped = [&](double cap) { return json{tanh, {"y", "aten.mul.Tensor", {"$t", cap}}}; };
  CHECK(calls_of(capped(50.0)));
  CHECK(calls_of(
      {tanh, {"c", "aten.mul.Tensor", {"$t", 30.0}}, {"y", "aten.sub.Tensor", {"$c", "$i"}}}));
  CHECK_FALSE(calls_of(capped(1e6))); // small scores would be off by a good part of them
  CHECK_FALSE(calls_of(
      {tanh, {"c", "aten.mul.Tensor", {"$t", 30.0}}, {"y", "aten.mul.Tensor", {"$c", 1e3}}}));
  CHECK(calls_of({tanh, {"y", "aten.clone.default", {"$t"}}}));
  CHECK_FALSE(calls_of({tanh, {"y", "aten.exp.default", {"$t"}}}));
}

TEST_CASE("lists of blocks say what flex_attention computes") {
  const Case each = cases().front();
  const driver::Compilation compilation = fused(graph_of(each));
  for (const program::Kernel &kernel : compilation.program.kernels)
    if (kernel.plan.find("functions of scores") != std::string::npos)
      CHECK(kernel.plan.find("steps by lists of blocks") != std::string::npos);
}

TEST_CASE("an index of a function of scores that is out of range is an error of the run") {
  Case each = looked_up();
  each.captured[0].low = 9;
  each.captured[0].high = 9;
  const testing::MadeGraph graph = graph_of(each);
  const driver::Compilation compilation = fused(graph);
  std::vector<tensor::HostTensor> inputs;
  for (const testing::MadeInput &input : graph.inputs) {
    inputs.emplace_back(tensor::parse_dtype(input.dtype).value(), input.sizes);
    for (int64_t i = 0; i < inputs.back().numel(); ++i)
      inputs.back().set_double(i, input.name == "ids" ? 9 : 0);
  }
  const auto said = [&](const auto &run) -> std::string {
    try {
      run();
    } catch (const support::UserError &error) {
      return error.what();
    }
    return "nothing";
  };
  const std::string expected = "index 9 of node 'flex' is not in [-4, 4)";
  CHECK(said([&] { driver::run_reference(compilation, inputs, {}); }).find(expected) !=
        std::string::npos);
  for (const runtime::SessionOptions &way : testing::host_ways())
    CHECK(said([&] {
            runtime::Session::create(compilation.program, {}, way)->run(inputs);
          }).find(expected) != std::string::npos);
}
