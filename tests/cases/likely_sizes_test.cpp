// Kernels for likely sizes beside those for any: both are right, whichever a launch takes, and they
// are there where any sizes would take long.
#include "driver/compile.h"
#include "driver/reference.h"
#include "graph/read.h"
#include "made_graph.h"
#include "runtime/session.h"
#include "support/text.h"
#include "tensor/host_tensor.h"
#include "testing/catch.h"

#include <cstring>

using namespace tsc;
using tensor::DType;
using tensor::HostTensor;

namespace {

struct Input {
  std::string name, dtype;
  std::vector<size_t> sizes; // positions in Case::likely
};
struct Case {
  std::string name;
  std::vector<int64_t> likely; // s0, s1, ...
  std::vector<Input> inputs;
  std::string calls; // as graph JSON has them, with a comma behind each
  std::string results;
  std::vector<std::vector<int64_t>> others; // sizes that it is run with, too
  bool has_own = true;                      // kernels for likely sizes
  std::string says;                         // a kernel's plan or text
};

std::vector<Case> cases() {
  return {
      {"permuted",
       {462, 7, 5, 512, 4},
       {{"x", "int16", {0, 1, 2, 3, 4}}},
       R"({"name": "p", "op": "call_function", "target": "aten.permute.default",
           "args": [{"node": "x"}, [2, 0, 4, 1, 3]]},
          {"name": "y", "op": "call_function", "target": "aten.clone.default",
           "args": [{"node": "p"}], "kwargs": {"memory_format": {"memory_format": "contiguous_format"}}},)",
       R"({"node": "y"})",
       {{3, 7, 5, 512, 4}, {2, 3, 4, 5, 6}, {462, 7, 5, 512, 3}},
       false}, // tiles of any sizes are those of likely ones
      {"running sums of few",
       {30011, 8},
       {{"x", "int32", {0, 1}}},
       R"({"name": "y", "op": "call_function", "target": "aten.cumsum.default",
           "args": [{"node": "x"}, 1]},)",
       R"({"node": "y"})",
       {{5, 8}, {30011, 7}, {3, 1001}, {1, 1}}},
      {"running products, their maxima and the least of both",
       {256, 157},
       {{"x", "float32", {0, 1}}},
       R"({"name": "c", "op": "call_function", "target": "aten.cumprod.default",
           "args": [{"node": "x"}, 1]},
          {"name": "m", "op": "call_function", "target": "aten.cummax.default",
           "args": [{"node": "c"}, 1]},
          {"name": "v", "op": "call_function", "target": "operator.getitem",
           "args": [{"node": "m"}, 0]},
          {"name": "d", "op": "call_function", "target": "aten.sub.Tensor",
           "args": [{"node": "c"}, {"node": "v"}]},
          {"name": "y", "op": "call_function", "target": "aten.amin.default",
           "args": [{"node": "d"}, [1]]},)",
       R"({"node": "y"})",
       {{40, 157}, {3, 255}, {2, 256}, {2, 257}, {1, 9001}, {301, 2}, {1, 1}}},
      {"rotated and added up in all loops",
       {3, 401, 263},
       {{"x", "float32", {0, 1, 2}}},
       R"({"name": "r", "op": "call_function", "target": "aten.roll.default",
           "args": [{"node": "x"}, [1, -2], [1, 2]]},
          {"name": "d", "op": "call_function", "target": "aten.sub.Tensor",
           "args": [{"node": "x"}, {"node": "r"}]},
          {"name": "a", "op": "call_function", "target": "aten.abs.default",
           "args": [{"node": "d"}]},
          {"name": "m", "op": "call_function", "target": "aten.amax.default",
           "args": [{"node": "a"}, [0, 1, 2]]},)",
       R"({"node": "d"}, {"node": "m"})",
       {{1, 5, 7}, {40, 3, 3}, {2, 2, 1000}, {3, 401, 261}}},
      {"of few elements, and what reads them again",
       {30011, 7, 5},
       {{"x", "int64", {0, 1, 2}}},
       R"({"name": "a", "op": "call_function", "target": "aten.amax.default",
           "args": [{"node": "x"}, [1], true]},
          {"name": "y", "op": "call_function", "target": "aten.sub.Tensor",
           "args": [{"node": "x"}, {"node": "a"}]},)",
       R"({"node": "a"}, {"node": "y"})",
       {{12, 7, 5}, {2, 9, 1031}, {30011, 2, 3}},
       false},
      {"a number a row, whose place the launch's inverse says",
       {40013, 77},
       {{"x", "int32", {0, 1}}, {"b", "int32", {0}}},
       R"({"name": "c", "op": "call_function", "target": "aten.unsqueeze.default",
           "args": [{"node": "b"}, 1]},
          {"name": "y", "op": "call_function", "target": "aten.sub.Tensor",
           "args": [{"node": "x"}, {"node": "c"}]},)",
       R"({"node": "y"})",
       {{1, 1}, {7, 16}, {3, 1001}, {1000, 1}},
       false,
       "tc_quotient(e, s1, inverse0)"},
      {"columns whose likely number two divides, and four does not",
       {30011, 14},
       {{"x", "int16", {0, 1}}},
       R"({"name": "y", "op": "call_function", "target": "aten.amax.default",
           "args": [{"node": "x"}, [0]]},)",
       R"({"node": "y"})",
       {{12, 16}, {301, 7}, {1, 2}},
       false,
       "4-byte accesses where s1 is a multiple of 2"},
      {"runs of as many elements as the likely size allows",
       {300, 3002},
       {{"x", "int16", {0, 1}}},
       R"({"name": "a", "op": "call_function", "target": "aten.slice.Tensor",
           "args": [{"node": "x"}, 0, 1, 9223372036854775807]},
          {"name": "y", "op": "call_function", "target": "aten.neg.default",
           "args": [{"node": "a"}]},)",
       R"({"node": "y"})",
       {{12, 16}, {31, 7}, {2, 2}},
       false,
       "runs of 2 elements a thread, 4-byte accesses where s1 is a multiple of 2"},
      {"columns of few elements, all of which a thread has under way",
       {14, 300007},
       {{"x", "int32", {0, 1}}},
       R"({"name": "y", "op": "call_function", "target": "aten.amax.default",
           "args": [{"node": "x"}, [0]]},)",
       R"({"node": "y"})",
       {{1, 30}, {8, 7}, {9, 2}},
       false,
       "k + u * 1 < s0 ? k + u * 1 : s0 - 1"},
      {"long rows, which do with any sizes",
       {16, 4096},
       {{"x", "int32", {0, 1}}},
       R"({"name": "y", "op": "call_function", "target": "aten.amax.default",
           "args": [{"node": "x"}, [1]]},)",
       R"({"node": "y"})",
       {{16, 4095}, {2, 3}},
       false},
  };
}

std::string sizes_text(const std::vector<size_t> &sizes) {
  std::vector<std::string> names;
  names.reserve(sizes.size());
  for (const size_t size : sizes)
    names.push_back("\"s" + std::to_string(size) + "\"");
  return "[" + support::join(names, ", ") + "]";
}

driver::Compilation compile(const Case &test) {
  std::vector<std::string> symbols;
  for (size_t i = 0; i < test.likely.size(); ++i)
    symbols.push_back("\"s" + std::to_string(i) + "\": [1, null, " +
                      std::to_string(test.likely[i]) + "]");
  std::string text = R"({"format": "tsc-graph", "version": 1, "symbols": {)" +
                     support::join(symbols, ", ") + R"(}, "nodes": [)";
  for (const Input &input : test.inputs)
    text += R"({"name": ")" + input.name + R"(", "op": "placeholder", "val": {"dtype": ")" +
            input.dtype + R"(", "size": )" + sizes_text(input.sizes) + "}},";
  text += test.calls + R"({"name": "output", "op": "output", "args": [[)" + test.results + "]]}]}";
  driver::CompileOptions options;
  options.arch = "sm_90";
  return driver::compile(graph::parse_graph(text, "likely.json"), options);
}

void check(const Case &test, const driver::Compilation &compilation,
           const std::vector<int64_t> &sizes, const std::vector<runtime::SessionOptions> &ways) {
  std::vector<HostTensor> inputs;
  for (const Input &input : test.inputs) {
    std::vector<int64_t> given;
    for (const size_t size : input.sizes)
      given.push_back(sizes[size]);
    inputs.push_back(tensor::random_tensor(*tensor::parse_dtype(input.dtype), given,
                                           {.seed = inputs.size() + 1, .low = -90, .high = 90}));
  }
  const std::vector<HostTensor> wanted = driver::run_reference(compilation, inputs, {});
  for (const runtime::SessionOptions &way : ways) {
    const auto outputs = runtime::Session::create(compilation.program, {}, way)->run(inputs);
    REQUIRE(outputs.size() == wanted.size());
    for (size_t i = 0; i < outputs.size(); ++i) {
      REQUIRE(outputs[i].numel() == wanted[i].numel());
      const size_t bytes =
          static_cast<size_t>(outputs[i].numel()) * tensor::size_in_bytes(outputs[i].dtype());
      CHECK(std::memcmp(outputs[i].data(), wanted[i].data(), bytes) == 0);
    }
  }
}

void check_all(const std::vector<runtime::SessionOptions> &ways) {
  for (const Case &test : cases()) {
    const driver::Compilation compilation = compile(test);
    INFO(test.name);
    bool has_own = false, says = test.says.empty();
    for (const program::Kernel &kernel : compilation.program.kernels) {
      INFO(kernel.plan);
      CHECK(kernel.estimate.is_known); // at likely sizes
      has_own = has_own || kernel.plan.find("; where s") != std::string::npos;
      says = says || kernel.plan.find(test.says) != std::string::npos ||
             kernel.cuda.text.find(test.says) != std::string::npos;
    }
    CHECK(has_own == test.has_own);
    CHECK(says);
    check(test, compilation, test.likely, ways);
    for (const std::vector<int64_t> &sizes : test.others)
      check(test, compilation, sizes, ways);
  }
}

} // namespace

TEST_CASE("kernels of likely sizes and of any") { check_all(testing::plan_ways()); }

TEST_CASE("kernels of likely sizes and of any on the GPU", "[gpu]") {
  if (const auto ways = testing::gpu_ways(); !ways.empty())
    check_all(ways);
}
