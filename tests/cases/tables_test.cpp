// Elements that look up in parts of tensors which a block holds in shared memory; and rows that are
// stored to several tensors, or scanned once their sum is known.
#include "made_graph.h"
#include "testing/catch.h"

#include <algorithm>

using namespace tsc;
using nlohmann::json;

namespace {

const std::string kHeld = "what elements look up in in shared memory";

struct Case {
  std::string name;
  std::vector<testing::MadeInput> inputs;
  json calls;
  std::vector<std::string> outputs;
  std::string arch = "sm_90:multiprocessors=1"; // whose plans for so few elements are large ones'
};

/// `rows` of `size` elements, of which all are taken at the same `taken` places.
Case chosen(const char *dtype, int64_t rows, int64_t size, int64_t taken, int64_t lowest = 0) {
  return {std::string("places of a row, ") + dtype + ", " + std::to_string(size),
          {{"x", dtype, {rows, size}},
           {"i", "int64", {taken}, static_cast<double>(lowest), static_cast<double>(size - 1)}},
          {{"y", "aten.index.Tensor", {"$x", {nullptr, "$i"}}}},
          {"y"}};
}
/// At places that are whole quarters of an element.
Case sampled(int64_t channels, int64_t height, int64_t width, int mode, int padding) {
  return {"samples of " + std::to_string(channels) + " planes, mode " + std::to_string(mode) +
              ", padding " + std::to_string(padding),
          {{"x", "float32", {3, channels, height, width}}, {"i", "int64", {3, 46, 47, 2}, -90, 90}},
          {{"f", "prims.convert_element_type.default", {"$i", {{"dtype", "float32"}}}},
           {"g", "aten.mul.Tensor", {"$f", 0.015625}},
           {"y", "aten.grid_sampler_2d.default", {"$x", "$g", mode, padding, false}}},
          {"y"},
          "sm_90:multiprocessors=8"};
}

std::vector<Case> cases() {
  std::vector<Case> result;
  for (const char *dtype : {"float32", "float16", "bfloat16", "float64", "uint8"})
    result.push_back(chosen(dtype, 300, 1003, 1010));
  result.push_back(chosen("float32", 31, 4096, 4096, -4096));
  result.push_back(chosen("int64", 70, 200, 4096));
  result.push_back({"places of their own",
                    {{"x", "float32", {50, 1003}}, {"i", "int64", {40, 2000}, 0, 1002}},
                    {{"y", "aten.gather.default", {"$x", 1, "$i"}}},
                    {"y"}});
  result.push_back({"where a condition holds",
                    {{"x", "float32", {50, 1003}},
                     {"i", "int64", {40, 2000}, 0, 1002},
                     {"z", "float32", {40, 2000}}},
                    {{"c", "aten.gt.Scalar", {"$z", 0.0}},
                     {"t", "aten.gather.default", {"$x", 1, "$i"}},
                     {"y", "aten.where.ScalarOther", {"$c", "$t", -1.5}}},
                    {"y"}});
  result.push_back({"a table of numbers, and another",
                    {{"x", "float32", {5000}},
                     {"z", "float16", {700}},
                     {"i", "int32", {400, 700}, 0, 4999},
                     {"j", "int32", {400, 700}, 0, 699}},
                    {{"a", "aten.index.Tensor", {"$x", {"$i"}}},
                     {"b", "aten.index.Tensor", {"$z", {"$j"}}},
                     {"y", "aten.mul.Tensor", {"$a", "$b"}}},
                    {"y"}});
  result.push_back({"a part of each row",
                    {{"x", "float32", {200, 1003}}, {"i", "int64", {2000}, 0, 999}},
                    {{"s", "aten.slice.Tensor", {"$x", 1, 1, 1001}},
                     {"y", "aten.index.Tensor", {"$s", {nullptr, "$i"}}}},
                    {"y"}});
  for (const int mode : {0, 2})
    for (const int padding : {0, 1, 2})
      result.push_back(sampled(8, 64, 64, mode, padding));
  result.push_back(sampled(8, 2, 1024, 0, 0));
  return result;
}

bool has_plan(const driver::Compilation &compilation, const std::string &part) {
  const auto &kernels = compilation.program.kernels;
  return std::any_of(kernels.begin(), kernels.end(), [&](const auto &kernel) {
    return kernel.plan.find(part) != std::string::npos;
  });
}

testing::MadeGraph planned(const Case &each) {
  testing::MadeGraph graph{each.name, each.inputs, each.calls, each.outputs, {}};
  graph.arch = each.arch;
  return graph;
}

void check_all(const std::vector<runtime::SessionOptions> &ways) {
  for (const Case &each : cases()) {
    INFO(each.name);
    const testing::MadeGraph graph = planned(each);
    const driver::Compilation compilation = testing::compile_made(graph, false);
    CHECK(has_plan(compilation, kHeld));
    testing::check_made(graph, compilation, 0, ways);
  }
}

/// Two tensors, each a walk over the row behind one that reduces it, runs at its ends apart.
Case stored_twice() {
  return {"two of a long row",
          {{"x", "float32", {9, 88173}}},
          {{"q", "aten.mul.Tensor", {"$x", "$x"}},
           {"s", "aten.sum.dim_IntList", {"$q", {1}, true}},
           {"y", "aten.div.Tensor", {"$x", "$s"}},
           {"z", "aten.sub.Tensor", {"$x", "$s"}}},
          {"y", "z"}};
}

/// Rows that registers do not hold, whose shares are added up.
Case scanned_shares(int64_t rows, int64_t elements) {
  return {"shares of rows of " + std::to_string(elements),
          {{"x", "float32", {rows, elements}, 0.1, 2}},
          {{"s", "aten.sum.dim_IntList", {"$x", {1}, true}},
           {"p", "aten.div.Tensor", {"$x", "$s"}},
           {"y", "aten.cumsum.default", {"$p", 1}}},
          {"y"}};
}

} // namespace

TEST_CASE("elements look up in shared memory on the host") { check_all(testing::plan_ways()); }
TEST_CASE("elements look up in shared memory on the GPU", "[gpu]") {
  if (const auto ways = testing::gpu_ways(); !ways.empty())
    check_all(ways);
}

TEST_CASE("places of samples that cannot point elsewhere are not checked") {
  for (const auto &[mode, padding] : {std::pair(0, 0), std::pair(1, 1), std::pair(1, 0)}) {
    const testing::MadeGraph graph{
        "samples",
        {{"x", "float32", {3, 8, 17, 13}}, {"g", "float32", {3, 46, 47, 2}}},
        {{"y", "aten.grid_sampler_2d.default", {"$x", "$g", mode, padding, false}}},
        {"y"},
        {}};
    const driver::Compilation compilation = testing::compile_made(graph, false);
    for (const auto &kernel : compilation.program.kernels) {
      INFO(kernel.cuda.text);
      CHECK(kernel.cuda.text.find("tc_to<long long>") == std::string::npos);
      CHECK(kernel.cuda.text.find("tc_check_index") == std::string::npos);
      CHECK(kernel.cuda.text.find("tc_find_index") == std::string::npos);
    }
  }
}

TEST_CASE("what is rounded to integers is made without fused steps") {
  const testing::MadeGraph graph{
      "whole parts",
      {{"x", "float32", {40, 64}}, {"z", "float64", {40, 64}}},
      {{"m", "aten.mul.Tensor", {"$x", 3.7}},
       {"a", "aten.add.Tensor", {"$m", 0.3}},
       {"f", "aten.floor.default", {"$a"}},
       {"y", "aten.sub.Tensor", {"$a", "$f"}},
       {"n", "aten.mul.Tensor", {"$z", 5.1}},
       {"b", "aten.sub.Tensor", {"$n", "$z"}},
       {"i", "prims.convert_element_type.default", {"$b", {{"dtype", "int64"}}}},
       {"u", "aten.mul.Tensor", {"$x", "$x"}},
       {"v", "aten.add.Tensor", {"$u", 1.0}}},
      {"y", "i", "v"},
      {}};
  const driver::Compilation compilation = testing::compile_made(graph, false);
  std::string text;
  for (const auto &kernel : compilation.program.kernels)
    text += kernel.cuda.text;
  const auto count = [&](const std::string &part) {
    int found = 0;
    for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1))
      ++found;
    return found;
  };
  CHECK(count("tc_plain_mul(") == 2);
  CHECK(count("tc_plain_add(") == 1);
  CHECK(count("tc_plain_sub(") == 1);
  testing::check_made(graph, compilation, 0, testing::host_ways());
}

TEST_CASE("long rows are stored to several tensors") {
  const testing::MadeGraph graph = planned(stored_twice());
  testing::check_made(graph, testing::compile_made(graph, false), 0, testing::plan_ways());
}

TEST_CASE("rows are scanned by many threads once their sum is known") {
  for (const Case &each : {scanned_shares(200, 50257), scanned_shares(3, 20011)}) {
    INFO(each.name);
    testing::MadeGraph graph = planned(each);
    graph.arch = "sm_90";
    const driver::Compilation compilation = testing::compile_made(graph, false);
    for (const auto &kernel : compilation.program.kernels)
      CHECK((kernel.plan.find("1 threads a row") == std::string::npos ||
             kernel.plan.find("kept in registers") != std::string::npos));
    if (each.inputs[0].sizes[0] < 10)
      testing::check_made(graph, compilation, 0, testing::plan_ways());
  }
}

TEST_CASE("parts of scanned rows whose number a size of the graph divides give") {
  const testing::MadeGraph graph{"strided sums",
                                 {{"x", "float32", {7000}}},
                                 {{"u", "aten.unfold.default", {"$x", 0, 7, 7}},
                                  {"t", "aten.select.int", {"$u", 1, 6}},
                                  {"p", "aten.constant_pad_nd.default", {"$t", {1, 0}}},
                                  {"y", "aten.cumsum.default", {"$p", 0}}},
                                 {"y"},
                                 {}};
  const driver::Compilation compilation = testing::compile_made(graph, true);
  for (const int64_t size : {7, 8, 6999, 30011})
    testing::check_made(graph, compilation, size, testing::plan_ways());
}
