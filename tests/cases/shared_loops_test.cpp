// What elements share along a loop, computed once by a thread that takes several of them:
// resampling of many channels, gathers whose indices all rows have, loops that no number of
// elements divides.
#include "made_graph.h"
#include "testing/catch.h"

using namespace tsc;
using nlohmann::json;

namespace {

struct Case {
  std::string name;
  std::vector<testing::MadeInput> inputs;
  json calls;
  std::string plan; // of one kernel of the GPU's, a part of its text
};

constexpr const char *kShared = "which share what does not depend on it";

std::vector<Case> cases() {
  const auto resampled = [](const std::string &name, const std::string &mode,
                            const std::string &dtype, const std::vector<int64_t> &sizes,
                            const std::vector<int64_t> &to, const std::string &plan) {
    json arguments = {"$x", to};
    if (mode.find("nearest") == std::string::npos)
      arguments.push_back(false);
    arguments.push_back(nullptr);
    return Case{
        name, {{"x", dtype, sizes}}, {{"y", "aten.upsample_" + mode + ".vec", arguments}}, plan};
  };
  return {
      resampled("eight of 48 planes", "bilinear2d", "float32", {3, 16, 23, 31}, {101, 117},
                "8 elements along i0 a thread"),
      resampled("47 planes, of which one is done twice", "bilinear2d", "float16", {1, 47, 31, 23},
                {117, 101}, kShared),
      resampled("three planes", "bilinear2d", "bfloat16", {1, 3, 61, 60}, {397, 398},
                "3 elements along i0 a thread"),
      resampled("nearest", "nearest2d", "float32", {2, 10, 33, 35}, {211, 203}, kShared),
      resampled("bytes", "nearest2d", "uint8", {2, 16, 33, 35}, {211, 204}, kShared),
      resampled("volumes", "trilinear3d", "float32", {1, 12, 7, 9, 11}, {19, 37, 45}, kShared),
      resampled("cubes", "bicubic2d", "float32", {1, 10, 33, 41}, {175, 173}, kShared),
      {"channels innermost, which what is in between does not know",
       {{"x", "float16", {2, 23, 31, 32}}},
       {{"c", "aten.permute.default", {"$x", {0, 3, 1, 2}}},
        {"y", "aten.upsample_bilinear2d.vec", {"$c", {91, 87}, true, nullptr}}},
       "16-byte accesses"},
      {"a grid",
       {{"x", "float32", {2, 9, 7, 6}}, {"g", "float32", {2, 155, 157, 2}, -1.2, 1.2}},
       {{"y", "aten.grid_sampler.default", {"$x", "$g", 0, 0, false}}},
       kShared},
      {"a grid over planes that just fit in a cache, one after the other",
       {{"x", "float32", {1, 4, 160, 161}}, {"g", "float32", {1, 903, 901, 2}}},
       {{"s", "aten.mul.Tensor", {"$x", 0.001}},
        {"c", "aten.add.Tensor", {"$s", 1.0}}, // whose neighbours are alike, as places are rounded
        {"t", "aten.tanh.default", {"$g"}},
        {"h", "aten.mul.Tensor", {"$t", 0.9}},
        {"y", "aten.grid_sampler.default", {"$c", "$h", 0, 0, false}}},
       "4 elements along i0 a thread, one after the other"},
      {"a map that all channels take a function of",
       {{"x", "float32", {3, 24, 88, 96}}, {"g", "float32", {3, 1, 88, 96}}},
       {{"e", "aten.erf.default", {"$g"}},
        {"t", "aten.atan.default", {"$e"}},
        {"s", "aten.sin.default", {"$t"}},
        {"y", "aten.mul.Tensor", {"$x", "$s"}}},
       ""},
      {"in place",
       {{"x", "float32", {1, 47, 101, 103}}, {"z", "float32", {1, 47, 31, 23}}},
       {{"u", "aten.upsample_bilinear2d.vec", {"$z", {101, 103}, false, nullptr}},
        {"y", "aten.add_.Tensor", {"$x", "$u"}}},
       ""},
  };
}

void check_all(const std::vector<runtime::SessionOptions> &ways) {
  for (const Case &each : cases()) {
    INFO(each.name);
    const testing::MadeGraph graph{each.name, each.inputs, each.calls, {"y"}, {}};
    const driver::Compilation compilation = testing::compile_made(graph, false);
    std::string plans;
    for (const program::Kernel &kernel : compilation.program.kernels)
      plans += kernel.plan + "\n";
    INFO(plans);
    CHECK(plans.find(each.plan) != std::string::npos);
    testing::check_made(graph, compilation, 0, ways);
  }
}

} // namespace

TEST_CASE("elements of a thread that share along a loop on the host") {
  check_all(testing::plan_ways());
}

TEST_CASE("any number of images whose channels a thread shares on the host") {
  const testing::MadeGraph graph{
      "images",
      {{"x", "float32", {3, 12, 21, 22}}},
      {{"y", "aten.upsample_bilinear2d.vec", {"$x", {87, 85}, false, nullptr}}},
      {"y"},
      {}};
  const driver::Compilation compilation = testing::compile_made(graph, true);
  REQUIRE(compilation.program.kernels.size() == 1);
  INFO(compilation.program.kernels[0].plan);
  CHECK(compilation.program.kernels[0].plan.find(kShared) != std::string::npos);
  for (const int64_t images : {int64_t{2}, int64_t{5}})
    testing::check_made(graph, compilation, images, testing::plan_ways());
}

TEST_CASE("elements of a thread that share along a loop on the GPU", "[gpu]") {
  if (const auto ways = testing::gpu_ways(); !ways.empty())
    check_all(ways);
}
