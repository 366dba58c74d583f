// Attention in one kernel: every kind of tile (depths, groups of warps), rows and keys that fill no
// tile, masks in runs and by elements, grouped heads, long rows with many steps, a symbolic batch.
#include "made_graph.h"
#include "testing/catch.h"

#include <cmath>

using namespace tsc;
using nlohmann::json;

namespace {

struct Case {
  int64_t depth, rows, keys;
  std::string mask; // its dtype; "": none
  bool causal = false;
  int64_t heads = 3, key_heads = 3;
  std::string dtype = "bfloat16";
};

testing::MadeGraph graph_of(const Case &each, int64_t batch) {
  testing::MadeGraph graph;
  graph.inputs = {{"q", each.dtype, {batch, each.heads, each.rows, each.depth}},
                  {"k", each.dtype, {batch, each.key_heads, each.keys, each.depth}},
                  {"v", each.dtype, {batch, each.key_heads, each.keys, each.depth}}};
  json keywords = {{"is_causal", each.causal}, {"enable_gqa", each.heads != each.key_heads}};
  if (each.dtype == "float32") // weights are as far off as scores, which grow with the scale
    keywords["scale"] = 0.25 / std::sqrt(static_cast<double>(each.depth));
  json arguments = {"$q", "$k", "$v"};
  graph.calls = json::array();
  if (each.mask == "bool") { // hides about half
    graph.inputs.push_back({"m", "bfloat16", {each.rows, each.keys}});
    graph.calls.push_back({"mask", "aten.gt.Scalar", {"$m", 0.0}});
    arguments.push_back("$mask");
  } else if (!each.mask.empty()) {
    graph.inputs.push_back({"m", each.mask, {1, each.heads, each.rows, each.keys}});
    if (each.dtype == "float32") // as above
      graph.calls.push_back({"scaled", "aten.mul.Tensor", {"$m", 0.125}});
    arguments.push_back(each.dtype == "float32" ? "$scaled" : "$m");
  }
  graph.calls.push_back({"y", "aten.scaled_dot_product_attention.default", arguments, keywords});
  graph.outputs = {"y"};
  graph.name = "depth " + std::to_string(each.depth) + ", " + std::to_string(each.rows) + " x " +
               std::to_string(each.keys) + ", " + each.mask + (each.causal ? " causal" : "");
  return graph;
}

/// Without masks and with them; a compiler runs for each case.
std::vector<Case> small(const std::vector<int64_t> &depths, const std::vector<int64_t> &masked) {
  std::vector<Case> cases;
  for (const int64_t depth : depths) {
    cases.push_back({depth, 197, 131, ""});
    cases.push_back({depth, 130, 130, "", true});
  }
  for (const int64_t depth : masked) {
    cases.push_back({depth, 65, 77, "bfloat16"});
    cases.push_back({depth, 70, 136, "float32"});
    cases.push_back({depth, 200, 264, "bool"});
  }
  cases.push_back({64, 65, 1, ""});
  cases.push_back({64, 200, 300, "", true, 6, 2, "float16"});
  cases.push_back({128, 200, 100, "", true, 4, 1, "float16"});
  return cases;
}

/// More items than blocks, more steps than stages; small for the reference's sake.
std::vector<Case> large() {
  return {{64, 200, 500, "", false, 80, 20},
          {64, 200, 200, "", true, 80, 80},
          {128, 140, 300, "", false, 72, 8},
          {128, 300, 300, "", true, 48, 8, "float16"},
          {256, 140, 140, "", true, 72, 8},
          // Two groups, whose next scores are multiplied with their last sums; long keys that a
          // group without rows passes.
          {64, 250, 250, "", true, 80, 8},
          {64, 70, 900, "", false, 80, 8},
          {64, 300, 1500, "", false, 60, 20},
          // Four groups, the last of which has rows in the first of two items, or in both.
          {64, 500, 700, "", false, 66, 22},
          {64, 500, 450, "", true, 66, 6},
          {40, 400, 900, "", false, 66, 6, "float16"},
          {128, 140, 900, "", false, 72, 8},
          {192, 130, 700, "", false, 72, 8}};
}

/// Of floats: rows, keys and columns that fill no tile, every kind of mask, heads that share keys.
std::vector<Case> floats() {
  const std::string f32 = "float32";
  return {{64, 197, 131, "", false, 3, 3, f32},       {64, 130, 130, "", true, 3, 3, f32},
          {40, 65, 77, "float32", false, 3, 3, f32},  {8, 70, 136, "bool", false, 3, 3, f32},
          {96, 33, 70, "bfloat16", false, 3, 3, f32}, {80, 100, 65, "", true, 6, 2, f32},
          {128, 65, 70, "bool", false, 12, 4, f32},   {72, 64, 1, "", false, 3, 3, f32}};
}
/// So many that a thread has more keys, or that blocks have 64 rows.
std::vector<Case> many_floats() {
  const std::string f32 = "float32";
  return {{64, 512, 256, "", false, 33, 11, f32},
          {48, 430, 300, "", true, 40, 40, f32},
          {56, 512, 256, "float16", false, 33, 11, f32},
          {128, 300, 200, "", true, 30, 6, f32}};
}

/// Few queries: one part and several, tiles of 16, 32 and 64 rows and more of them, parts and rows
/// that end within a step or a tile, every kind of mask.
std::vector<Case> few() {
  return {{128, 1, 1000, "", false, 8, 2},
          {64, 1, 77, ""},
          {128, 1, 1, ""},
          {128, 5, 700, "", true, 4, 1},
          {40, 16, 129, "bfloat16"},
          {128, 1, 3000, "bool", false, 8, 2},
          {72, 3, 4001, "", false, 4, 4, "float16"},
          {256, 2, 500, "float32", false, 4, 2}};
}
/// As many as a block of the other kernel would hold in part.
std::vector<Case> not_so_few() {
  return {{64, 33, 2000, "", false, 4, 2},
          {96, 64, 1500, "bfloat16", false, 2, 2},
          {32, 49, 49, "float16", false, 3, 3, "float16"},
          {64, 64, 64, "bool", false, 5, 5},
          {40, 17, 1, ""},
          {128, 16, 1200, "", false, 32, 2}};
}

void check_all(const std::vector<Case> &cases, const std::vector<runtime::SessionOptions> &ways,
               const std::string &form = "groups of warps that compute") {
  for (const Case &each : cases) {
    const testing::MadeGraph graph = graph_of(each, 2);
    INFO(graph.name);
    const driver::Compilation compilation = testing::compile_made(graph, false);
    std::string plans;
    for (const program::Kernel &kernel : compilation.program.kernels)
      plans += kernel.plan + "\n";
    INFO(plans);
    CHECK(plans.find(form) != std::string::npos);
    testing::check_made(graph, compilation, 0, ways);
  }
}

constexpr char kFew[] = "attention of few queries", kFloats[] = "attention of floats";

/// Query, key and value are slices of one tensor.
void check_batches(const std::vector<runtime::SessionOptions> &ways) {
  const testing::MadeGraph graph{"a batch that a run decides",
                                 {{"x", "bfloat16", {2, 3, 100, 3 * 64}}},
                                 {{"q", "aten.slice.Tensor", {"$x", 3, 0, 64}},
                                  {"k", "aten.slice.Tensor", {"$x", 3, 64, 128}},
                                  {"v", "aten.slice.Tensor", {"$x", 3, 128, 192}},
                                  {"y",
                                   "aten.scaled_dot_product_attention.default",
                                   {"$q", "$k", "$v"},
                                   {{"is_causal", true}}}},
                                 {"y"},
                                 {}};
  const driver::Compilation compilation = testing::compile_made(graph, true);
  for (const int64_t batch : {2, 3, 101})
    testing::check_made(graph, compilation, batch, ways);
}

} // namespace

TEST_CASE("attention of every depth and mask on the host") {
  check_all(small({40}, {128}), testing::plan_ways());
}

TEST_CASE("attention of every depth and mask on the GPU", "[gpu]") {
  if (const auto ways = testing::gpu_ways(); !ways.empty())
    check_all(small({8, 40, 64, 96, 128, 192, 256}, {64, 128, 256}), ways);
}

TEST_CASE("attention of floats on the host") { check_all(floats(), testing::plan_ways(), kFloats); }

TEST_CASE("attention of floats on the GPU", "[gpu]") {
  if (const auto ways = testing::gpu_ways(); !ways.empty()) {
    check_all(floats(), ways, kFloats);
    check_all(many_floats(), ways, kFloats);
  }
}

TEST_CASE("attention of floats that is written out is one kernel, where that pays") {
  // Scores of many rows cost more than what is multiplied; of a few rows products are faster.
  for (const auto &[rows, pays] : {std::pair<int64_t, bool>{600, true}, {4, false}}) {
    testing::MadeGraph graph{"products and a softmax",
                             {{"q", "float32", {2, 24, rows, 64}},
                              {"k", "float32", {2, 24, 80, 64}},
                              {"v", "float32", {2, 24, 80, 64}}},
                             {{"s", "aten.mul.Tensor", {"$q", 0.125}},
                              {"t", "aten.transpose.int", {"$k", -2, -1}},
                              {"p", "aten.matmul.default", {"$s", "$t"}},
                              {"w", "aten.softmax.int", {"$p", -1}},
                              {"y", "aten.matmul.default", {"$w", "$v"}}},
                             {"y"},
                             {}};
    const driver::Compilation compilation = testing::compile_made(graph, false);
    INFO(rows);
    CHECK((compilation.program.kernels.size() == 1 &&
           compilation.program.kernels[0].plan.rfind(kFloats, 0) == 0) == pays);
    testing::check_made(graph, compilation, 0, testing::plan_ways());
  }
}

TEST_CASE("attention of few queries on the host") {
  check_all({few()[0], few()[3], few()[4], few()[5], not_so_few()[3]}, testing::plan_ways(), kFew);
}

TEST_CASE("attention of few queries on the GPU", "[gpu]") {
  if (const auto ways = testing::gpu_ways(); !ways.empty()) {
    check_all(few(), ways, kFew);
    check_all(not_so_few(), ways, kFew);
  }
}

/// Keys and values of one batch for all: no bulk copy brings what has a stride of 0, threads do. Of
/// many short heads three groups compute.
void check_shared_batch(const std::vector<runtime::SessionOptions> &ways) {
  struct Shape {
    int64_t depth, batch, heads, rows, keys;
    std::string groups;
  };
  for (const Shape &s : std::vector<Shape>{{64, 3, 2, 300, 650, "2 groups"},
                                           {128, 3, 2, 300, 650, "2 groups"},
                                           {192, 3, 2, 300, 650, "2 groups"},
                                           {64, 2, 66, 192, 200, "3 groups"}})
    for (const bool causal : {false, true}) {
      testing::MadeGraph graph{
          "one batch of keys, depth " + std::to_string(s.depth) + (causal ? ", causal" : ""),
          {{"q", "bfloat16", {s.batch, s.heads, s.rows, s.depth}},
           {"k", "bfloat16", {1, s.heads, s.keys, s.depth}},
           {"v", "bfloat16", {1, s.heads, s.keys, s.depth}}},
          {{"ks", "aten.expand.default", {"$k", {s.batch, s.heads, s.keys, s.depth}}},
           {"vs", "aten.expand.default", {"$v", {s.batch, s.heads, s.keys, s.depth}}},
           {"y",
            "aten.scaled_dot_product_attention.default",
            {"$q", "$ks", "$vs"},
            {{"is_causal", causal}}}},
          {"y"},
          {}};
      const driver::Compilation compilation = testing::compile_made(graph, false);
      REQUIRE(compilation.program.kernels.size() == 1);
      const std::string &plan = compilation.program.kernels[0].plan;
      INFO(plan);
      CHECK(plan.find("one that brings") != std::string::npos);
      CHECK(plan.find(s.groups) != std::string::npos);
      testing::check_made(graph, compilation, 0, ways);
    }
}

TEST_CASE("attention to keys that all batches share on the host") {
  check_shared_batch(testing::plan_ways());
}

TEST_CASE("attention to keys that all batches share on the GPU", "[gpu]") {
  if (const auto ways = testing::gpu_ways(); !ways.empty())
    check_shared_batch(ways);
}

TEST_CASE("keys that a model repeats for the heads of a group are taken as they are") {
  testing::MadeGraph graph{"repeated heads",
                           {{"q", "bfloat16", {2, 6, 5, 40}},
                            {"k", "bfloat16", {2, 2, 90, 40}},
                            {"v", "bfloat16", {2, 2, 90, 40}},
                            {"m", "bfloat16", {2, 1, 5, 90}}},
                           json::array(),
                           {"y"},
                           {}};
  for (const std::string x : {"k", "v"}) {
    graph.calls.push_back({x + "1", "aten.unsqueeze.default", {"$" + x, 2}});
    graph.calls.push_back({x + "2", "aten.expand.default", {"$" + x + "1", {2, 2, 3, 90, 40}}});
    graph.calls.push_back({x + "3", "aten.reshape.default", {"$" + x + "2", {2, 6, 90, 40}}});
  }
  graph.calls.push_back(
      {"y", "aten.scaled_dot_product_attention.default", {"$q", "$k3", "$v3", "$m"}});
  const driver::Compilation compilation = testing::compile_made(graph, false);
  CHECK(compilation.program.kernels.size() == 1); // no copies
  testing::check_made(graph, compilation, 0, testing::plan_ways());
}

TEST_CASE("a mask with its heads innermost is turned once for all layers") {
  testing::MadeGraph graph{
      "biases by position",
      {{"q", "float16", {2, 3, 70, 32}},
       {"k", "float16", {2, 3, 70, 32}},
       {"v", "float16", {2, 3, 70, 32}},
       {"m", "float16", {70, 70, 3}}},
      {{"p", "aten.permute.default", {"$m", {2, 0, 1}}},
       {"b", "aten.unsqueeze.default", {"$p", 0}},
       {"x", "aten.scaled_dot_product_attention.default", {"$q", "$k", "$v", "$b"}},
       {"y", "aten.scaled_dot_product_attention.default", {"$x", "$k", "$v", "$b"}}},
      {"y"},
      {}};
  const driver::Compilation compilation = testing::compile_made(graph, false);
  CHECK(compilation.program.kernels.size() == 2); // attention, and its mask
  CHECK(compilation.program.steps.size() == 3);
  for (const program::Kernel &kernel : compilation.program.kernels)
    if (kernel.cuda.text.find("tc_attention") != std::string::npos)
      CHECK(kernel.cuda.text.find("problem.mask.column_stride = 1;") != std::string::npos);
  testing::check_made(graph, compilation, 0, testing::plan_ways());
}

TEST_CASE("heads that are copied for products of three dimensions are read where they lie") {
  // [windows, rows, 3 x heads x depth], and a mask of the windows of an image.
  constexpr int64_t kImages = 2, kWindows = 4, kHeads = 3, kRows = 49, kDepth = 32;
  constexpr int64_t kBatch = kImages * kWindows;
  testing::MadeGraph graph{"windows of images",
                           {{"x", "float16", {kBatch, kRows, 3 * kHeads * kDepth}},
                            {"m", "float16", {kWindows, kRows, kRows}}},
                           {{"s", "aten.view.default", {"$x", {kBatch, kRows, 3, kHeads, kDepth}}},
                            {"p", "aten.permute.default", {"$s", {2, 0, 3, 1, 4}}},
                            {"q", "aten.select.int", {"$p", 0, 0}},
                            {"k", "aten.select.int", {"$p", 0, 1}},
                            {"v", "aten.select.int", {"$p", 0, 2}},
                            {"qs", "aten.mul.Tensor", {"$q", 0.25}},
                            {"kt", "aten.transpose.int", {"$k", -2, -1}}},
                           {"y"},
                           {}};
  const auto flat = [&](const std::string &x, int64_t rows, int64_t columns) {
    graph.calls.push_back({x + "c",
                           "aten.clone.default",
                           {"$" + x},
                           {{"memory_format", {{"memory_format", "contiguous_format"}}}}});
    graph.calls.push_back(
        {x + "f", "aten._unsafe_view.default", {"$" + x + "c", {kBatch * kHeads, rows, columns}}});
  };
  flat("qs", kRows, kDepth);
  flat("kt", kDepth, kRows);
  flat("v", kRows, kDepth);
  const json calls = {
      {"dots", "aten.bmm.default", {"$qsf", "$ktf"}},
      {"scores", "aten.view.default", {"$dots", {kImages, kWindows, kHeads, kRows, kRows}}},
      {"wide", "aten.unsqueeze.default", {"$m", 1}},
      {"masked", "aten.add.Tensor", {"$scores", "$wide"}},
      {"softmax", "aten._softmax.default", {"$masked", -1, false}},
      {"weights", "aten.view.default", {"$softmax", {kBatch * kHeads, kRows, kRows}}},
      {"y", "aten.bmm.default", {"$weights", "$vf"}}};
  graph.calls.insert(graph.calls.end(), calls.begin(), calls.end());
  const driver::Compilation compilation = testing::compile_made(graph, false);
  CHECK(compilation.program.kernels.size() <= 2); // attention, and its mask's padding
  testing::check_made(graph, compilation, 0, testing::plan_ways());
}

TEST_CASE("attention of more items than blocks on the GPU", "[gpu]") {
  if (const auto ways = testing::gpu_ways(); !ways.empty())
    check_all(large(), ways);
}

TEST_CASE("attention of a batch whose size a run decides on the host") {
  check_batches(testing::plan_ways());
}

TEST_CASE("attention of a batch whose size a run decides on the GPU", "[gpu]") {
  if (const auto ways = testing::gpu_ways(); !ways.empty())
    check_batches(ways);
}
