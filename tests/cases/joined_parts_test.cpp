// Parts of a tensor that lie side by side again, where they lay, after something else was done to
// each: their elements are loaded once. And indices that point nowhere, of threads that look up
// several.
#include "made_graph.h"
#include "support/diagnostic.h"
#include "tensor/host_tensor.h"
#include "testing/catch.h"

using namespace tsc;
using nlohmann::json;

namespace {

json part(const char *name, int64_t dim, int64_t from, int64_t to) {
  return {name, "aten.slice.Tensor", {"$x", dim, from, to}};
}

struct Case {
  std::string name, dtype;
  std::vector<int64_t> sizes;
  json calls;
  int loads; // of x, in the kernel's text
};

std::vector<Case> cases() {
  const int64_t all = INT64_MAX;
  return {
      {"three parts of the last dimension",
       "float32",
       {37, 85},
       {part("a", 1, 0, 2),
        part("b", 1, 2, 4),
        part("c", 1, 4, all),
        {"p", "aten.sigmoid.default", {"$a"}},
        {"q", "aten.sigmoid.default", {"$b"}},
        {"r", "aten.mul.Tensor", {"$q", "$q"}},
        {"s", "aten.sigmoid.default", {"$c"}},
        {"y", "aten.cat.default", {{"$p", "$r", "$s"}, 1}}},
       1},
      {"turned afterwards",
       "float16",
       {3, 85, 640},
       {part("a", 1, 0, 7),
        part("b", 1, 7, all),
        {"p", "aten.exp.default", {"$a"}},
        {"q", "aten.neg.default", {"$b"}},
        {"c", "aten.cat.default", {{"$p", "$q"}, 1}},
        {"t", "aten.transpose.int", {"$c", 1, 2}},
        {"y",
         "aten.clone.default",
         {"$t"},
         {{"memory_format", {{"memory_format", "contiguous_format"}}}}}},
       1},
      {"summed up",
       "float32",
       {300, 513},
       {part("a", 1, 0, 7),
        part("b", 1, 7, 9),
        part("c", 1, 9, all),
        {"p", "aten.relu.default", {"$a"}},
        {"q", "aten.mul.Tensor", {"$b", "$b"}},
        {"r", "aten.neg.default", {"$c"}},
        {"d", "aten.cat.default", {{"$p", "$q", "$r"}, 1}},
        {"y", "aten.sum.dim_IntList", {"$d", {0}}}},
       1},
      {"a part put back",
       "int32",
       {41, 129},
       {part("a", 0, 5, 30),
        {"p", "aten.mul.Tensor", {"$a", 3}},
        {"y", "aten.slice_scatter.default", {"$x", "$p", 0, 5, 30}}},
       1},
      {"parts that change places",
       "float32",
       {37, 84},
       {part("a", 1, 0, 42),
        part("b", 1, 42, all),
        {"p", "aten.neg.default", {"$b"}},
        {"y", "aten.cat.default", {{"$p", "$a"}, 1}}},
       2},
  };
}

void check_all(const std::vector<runtime::SessionOptions> &ways) {
  for (const Case &one : cases()) {
    const testing::MadeGraph graph{
        one.name, {{"x", one.dtype, one.sizes, -4, 4}}, one.calls, {"y"}};
    const driver::Compilation compilation = testing::compile_made(graph, false);
    REQUIRE(compilation.program.kernels.size() == 1);
    const std::string &text = compilation.program.kernels[0].cuda.text;
    INFO(one.name << "\n" << text);
    int loads = 0;
    const size_t body = text.find(") {");
    REQUIRE(body != std::string::npos);
    for (size_t at = text.find("in0", body); at != std::string::npos; at = text.find("in0", at + 1))
      ++loads;
    CHECK(loads == one.loads);
    testing::check_made(graph, compilation, 0, ways);
  }
}

/// One bad index among many: the run fails, and says which.
void check_bad_index(const std::vector<runtime::SessionOptions> &ways) {
  testing::MadeGraph graph;
  graph.inputs = {{"x", "float32", {600, 512}}, {"i", "int64", {600, 512}, 0, 511}};
  graph.calls = {{"g", "aten.gather.default", {"$x", 1, "$i"}},
                 {"y", "aten.amax.default", {"$g", {1}}}};
  graph.outputs = {"y"};
  const driver::Compilation compilation = testing::compile_made(graph, false);
  REQUIRE(compilation.program.kernels.size() == 1);
  CHECK(compilation.program.kernels[0].cuda.text.find("tc_find_index") != std::string::npos);
  testing::check_made(graph, compilation, 0, ways);
  const tensor::HostTensor x = tensor::random_tensor(tensor::DType::f32, {600, 512}, {.seed = 1});
  tensor::RandomSpec spec{.seed = 2};
  spec.low = 0;
  spec.high = 511;
  for (const int64_t bad : {int64_t{512}, int64_t{-1}, INT64_MAX, INT64_MIN}) {
    tensor::HostTensor i = tensor::random_tensor(tensor::DType::i64, {600, 512}, spec);
    reinterpret_cast<int64_t *>(i.data())[371 * 512 + 77] = bad;
    for (const runtime::SessionOptions &way : ways) {
      std::string said;
      try {
        runtime::Session::create(compilation.program, {}, way)->run({x, i});
      } catch (const support::UserError &error) {
        said = error.diagnostics().front().message;
      }
      INFO(bad << ": " << said);
      CHECK(said.find(std::to_string(bad)) != std::string::npos);
    }
  }
}

/// What is stored is wider than what is loaded: 16 bytes at once all the same.
void check_wider_results(const std::vector<runtime::SessionOptions> &ways) {
  for (const int64_t length : {32, 1023, 1024})
    for (const char *to : {"float32", "int64"}) {
      if (length == 1023 && std::string(to) == "int64")
        continue; // single elements
      testing::MadeGraph graph;
      graph.name = std::to_string(length) + " to " + to;
      graph.inputs = {{"x", "bfloat16", {500, length}, -9, 9}};
      graph.calls = {{"m", "aten.amax.default", {"$x", {1}, true}},
                     {"d", "aten.sub.Tensor", {"$x", "$m"}},
                     {"y", "prims.convert_element_type.default", {"$d", {{"dtype", to}}}}};
      graph.outputs = {"y"};
      const driver::Compilation compilation = testing::compile_made(graph, false);
      REQUIRE(compilation.program.kernels.size() == 1);
      const std::string &text = compilation.program.kernels[0].cuda.text;
      INFO(graph.name << "\n" << text);
      const std::string run = std::string(to) == "int64" ? "<2>" : "<4>";
      CHECK((text.find("tc_store_vec" + run) != std::string::npos ||
             text.find("tc_store_vec_inside" + run) != std::string::npos));
      testing::check_made(graph, compilation, 0, ways);
    }
}

} // namespace

TEST_CASE("parts that lie side by side again are loaded once") { check_all(testing::host_ways()); }
TEST_CASE("an index that points nowhere is said where a thread looks up several") {
  check_bad_index(testing::host_ways());
}
TEST_CASE("results that are wider than what is loaded are stored 16 bytes at once") {
  check_wider_results(testing::plan_ways());
}

TEST_CASE("parts, indices and wider results on the GPU", "[gpu]") {
  if (const auto ways = testing::gpu_ways(); !ways.empty()) {
    check_all(ways);
    check_bad_index(ways);
    check_wider_results(ways);
  }
}
