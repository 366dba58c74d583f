// What changes few places at run-time indices: blocks have copies in shared memory, where the cost
// model says so.
#include "made_graph.h"

#include "support/diagnostic.h"
#include "testing/catch.h"

#include <algorithm>

using namespace tsc;
using nlohmann::json;

namespace {

struct FewPlaces {
  std::string name, dtype;
  std::vector<int64_t> self, index; // sizes
  json call;                        // target and arguments of y
  bool copies = true;
};

std::vector<FewPlaces> cases() {
  const auto scatter = [](const char *how) {
    return json{"aten.scatter_reduce.two", {"$x", 0, "$i", "$v", how}};
  };
  const json add = {"aten.scatter_add.default", {"$x", 0, "$i", "$v"}},
             rows = {"aten.index_add.default", {"$x", 0, "$r", "$v"}},
             count = {"aten.index_put.default", {"$x", {"$i"}, "$one", true}},
             put = {"aten.scatter.value", {"$x", 0, "$i", 7}};
  return {
      {"floats", "float32", {37, 5}, {20000, 5}, add},
      {"odd rows", "float32", {11, 3}, {20001, 3}, add},
      {"doubles", "float64", {11, 3}, {20001, 3}, add},
      {"16 bits", "bfloat16", {37, 5}, {20000, 5}, add},
      {"ints", "int64", {37, 5}, {20000, 5}, add},
      {"rows", "float32", {9, 64}, {9001, 64}, rows},
      {"counts", "int64", {101}, {100003}, count},
      {"largest of floats", "float32", {37, 5}, {20000, 5}, scatter("amax")},
      {"smallest of ints", "int32", {37, 5}, {20000, 5}, scatter("amin")},
      {"smallest of long ints", "int64", {37, 5}, {20000, 5}, scatter("amin")},
      {"largest of 16 bits", "float16", {37, 5}, {20000, 5}, scatter("amax")},
      {"written", "float32", {37, 5}, {20000, 5}, put},
      {"written, 16 bits", "bfloat16", {37, 3}, {20000, 3}, put},
      {"half of shared memory", "int32", {16000}, {3000000}, add},
      {"products", "float32", {37, 5}, {20000, 5}, scatter("prod"), false},
      {"many places", "float32", {100000}, {20000}, add, false},
  };
}

void check_all(const std::vector<runtime::SessionOptions> &ways) {
  for (const FewPlaces &each : cases()) {
    INFO(each.name);
    testing::MadeGraph graph;
    const bool by_rows = each.call[0] == "aten.index_add.default";
    const double most = static_cast<double>(each.self[0] - 1);
    const std::vector<int64_t> values = {each.index.begin(), each.index.end()};
    // Whole numbers, so that no order of additions tells.
    graph.inputs = {{"x0", "int32", each.self, -3, 3}, {"v0", "int32", values, -2, 2}};
    graph.inputs.push_back({by_rows ? "r" : "i", "int64",
                            by_rows ? std::vector<int64_t>{values[0]} : values, 0, most});
    const json dtype = {{"dtype", each.dtype}};
    graph.calls = {{"x", "prims.convert_element_type.default", {"$x0", dtype}},
                   {"v", "prims.convert_element_type.default", {"$v0", dtype}},
                   {"o", "aten.full.default", {json::array(), 1}},
                   {"one", "prims.convert_element_type.default", {"$o", dtype}},
                   {"y", each.call[0], each.call[1]}};
    graph.outputs = {"y"};
    graph.name = each.name;
    const driver::Compilation compilation = testing::compile_made(graph, false);
    std::string plans;
    for (const program::Kernel &kernel : compilation.program.kernels)
      plans += kernel.plan + "\n";
    INFO(plans);
    CHECK((plans.find("copies of their own") != std::string::npos) == each.copies);
    testing::check_made(graph, compilation, 0, ways);
  }
}

} // namespace

TEST_CASE("few places are changed in copies that blocks have") { check_all(testing::plan_ways()); }

TEST_CASE("few places are changed in copies that blocks have on the GPU", "[gpu]") {
  if (const auto ways = testing::gpu_ways(); !ways.empty())
    check_all(ways);
}

namespace {

/// Gradients of embeddings of a few words: as many sums of all rows, of each place one.
void check_few_words(const std::vector<runtime::SessionOptions> &ways) {
  struct Words {
    std::string dtype;
    std::vector<int64_t> indices;
    int64_t width, words, padding;
  };
  for (const Words &each :
       {Words{"float16", {3, 171}, 128, 2, -1}, Words{"float32", {401}, 97, 3, 1},
        Words{"bfloat16", {5, 7, 11}, 256, 5, 0}, Words{"float64", {513}, 64, 1, -1}}) {
    testing::MadeGraph graph;
    std::vector<int64_t> rows = each.indices;
    rows.push_back(each.width);
    graph.name = each.dtype;
    graph.inputs = {{"g", each.dtype, rows},
                    {"i", "int64", each.indices, 0, static_cast<double>(each.words - 1)}};
    graph.calls = {{"y",
                    "aten.embedding_dense_backward.default",
                    {"$g", "$i", each.words, each.padding, false}}};
    graph.outputs = {"y"};
    const driver::Compilation compilation = testing::compile_made(graph, false);
    INFO(each.dtype);
    for (const program::Kernel &kernel : compilation.program.kernels) {
      CHECK(kernel.plan.find("sort") == std::string::npos);
      CHECK(kernel.cuda.text.find("tc_atomic") == std::string::npos);
    }
    testing::check_made(graph, compilation, 0, ways);
  }
}

/// A table of many words, few of which are asked for: no table of floats beside it, also where rows
/// count less the more often they are asked for.
void check_large_table(const std::vector<runtime::SessionOptions> &ways) {
  for (const bool by_frequency : {false, true}) {
    testing::MadeGraph graph;
    graph.name = by_frequency ? "by frequency" : "as they are";
    graph.inputs = {{"g", "bfloat16", {3, 171, 1024}}, {"i", "int64", {3, 171}, 0, 400}};
    graph.calls = {
        {"y", "aten.embedding_dense_backward.default", {"$g", "$i", 20000, 7, by_frequency}}};
    graph.outputs = {"y"};
    const driver::Compilation compilation = testing::compile_made(graph, false);
    INFO(graph.name);
    const auto &kernels = compilation.program.kernels;
    CHECK(std::any_of(kernels.begin(), kernels.end(), [](const program::Kernel &kernel) {
      return kernel.plan.find("tc_sum_rows") != std::string::npos;
    }));
    testing::check_made(graph, compilation, 0, ways);
  }
}

void check_no_such_word(const std::vector<runtime::SessionOptions> &ways) {
  testing::MadeGraph graph;
  graph.inputs = {{"g", "float32", {1024, 64}}, {"i", "int64", {1024}}};
  graph.calls = {{"y", "aten.embedding_dense_backward.default", {"$g", "$i", 2, -1, false}}};
  graph.outputs = {"y"};
  const driver::Compilation compilation = testing::compile_made(graph, false);
  const std::vector<tensor::HostTensor> inputs = {
      tensor::random_tensor(tensor::DType::f32, {1024, 64}, {.seed = 1}),
      tensor::random_tensor(tensor::DType::i64, {1024}, {.seed = 1, .low = 5, .high = 5})};
  for (const runtime::SessionOptions &way : ways)
    CHECK_THROWS_AS(runtime::Session::create(compilation.program, {}, way)->run(inputs),
                    support::UserError);
}

} // namespace

TEST_CASE("gradients of a few words are sums of all rows") {
  check_few_words(testing::plan_ways());
  check_no_such_word(testing::plan_ways());
}

TEST_CASE("gradients of a large table are rounded where they are summed up") {
  check_large_table(testing::plan_ways());
}

TEST_CASE("gradients of a few words are sums of all rows on the GPU", "[gpu]") {
  if (const auto ways = testing::gpu_ways(); !ways.empty()) {
    check_few_words(ways);
    check_no_such_word(ways);
  }
}
