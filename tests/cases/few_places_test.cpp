// What changes few places at run-time indices: blocks have copies in shared memory, where the cost
// model says so.
#include "made_graph.h"

#include "testing/catch.h"

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

TEST_CASE("few places are changed in copies that blocks have") { check_all(testing::host_ways()); }

TEST_CASE("few places are changed in copies that blocks have on the GPU", "[gpu]") {
  if (const auto ways = testing::gpu_ways(); !ways.empty())
    check_all(ways);
}
