// What a thread does with several elements at once: rows of a few elements, moments of a run, draws
// that neighbours share, additions that lie beside each other.
#include "made_graph.h"
#include "testing/catch.h"

using namespace tsc;
using nlohmann::json;

namespace {

struct Expected {
  testing::MadeGraph graph;
  std::string plan, text; // parts of a kernel's
};

testing::MadeGraph made(const std::string &name, std::vector<testing::MadeInput> inputs,
                        const json &calls, std::vector<std::string> outputs) {
  testing::MadeGraph graph;
  graph.name = name;
  graph.inputs = std::move(inputs);
  graph.calls = calls;
  graph.outputs = std::move(outputs);
  return graph;
}

/// Entropy of a softmax, which walks a row three times and divides all of it by one number.
testing::MadeGraph entropy(const std::string &dtype, const std::vector<int64_t> &sizes) {
  return made("entropy of " + dtype, {{"x", dtype, sizes, -8, 8}},
              {{"p", "aten._softmax.default", {"$x", -1, false}},
               {"l", "aten._log_softmax.default", {"$x", -1, false}},
               {"t", "aten.mul.Tensor", {"$p", "$l"}},
               {"s", "aten.sum.dim_IntList", {"$t", json{-1}}},
               {"y", "aten.neg.default", {"$s"}}},
              {"y"});
}

/// Moments of numbers whose mean is far from 0 beside how far they are from each other.
testing::MadeGraph moments(const std::string &dtype, const std::vector<int64_t> &sizes,
                           const json &dims, double low, double high) {
  return made("moments of " + dtype, {{"x", dtype, sizes, low, high}},
              {{"v", "aten.var_mean.correction", {"$x", dims}, {{"correction", 1}}},
               {"a", "operator.getitem", {"$v", 0}},
               {"m", "operator.getitem", {"$v", 1}}},
              {"a", "m"});
}

testing::MadeGraph draws(const std::string &dtype, const std::vector<int64_t> &sizes) {
  const int64_t last = sizes.back();
  return made("draws of " + dtype, {{"x", dtype, {sizes[0], last + 4}}},
              {{"p", "aten.slice.Tensor", {"$x", 1, 3, last + 3}},
               {"n", "aten.randn_like.default", {"$p"}},
               {"u", "aten.rand_like.default", {"$p"}},
               {"s", "aten.add.Tensor", {"$n", "$p"}},
               {"y", "aten.mul.Tensor", {"$s", "$u"}}},
              {"y"});
}

testing::MadeGraph additions(const std::string &dtype, int64_t rows, int64_t places,
                             int64_t columns) {
  return made("additions of " + dtype,
              {{"x", dtype, {places, columns}},
               {"i", "int64", {rows, columns}, 0, static_cast<double>(places - 1)},
               {"s", dtype, {rows, columns}}},
              {{"y", "aten.scatter_add.default", {"$x", 0, "$i", "$s"}}}, {"y"});
}

testing::MadeGraph softmax(const std::string &dtype, const std::vector<int64_t> &sizes) {
  return made("softmax of " + dtype, {{"x", dtype, sizes}},
              {{"y", "aten._softmax.default", {"$x", -1, false}}}, {"y"});
}

/// How far one softmax is from another over `dim`, summed up over all elements.
testing::MadeGraph distillation(const std::string &dtype, const std::vector<int64_t> &sizes,
                                int64_t dim) {
  return made("distillation over " + std::to_string(dim) + " of " + dtype,
              {{"x", dtype, sizes, -4, 4}, {"t", dtype, sizes, -4, 4}},
              {{"l", "aten._log_softmax.default", {"$x", dim, false}},
               {"p", "aten._softmax.default", {"$t", dim, false}},
               {"m", "aten.mul.Tensor", {"$p", "$l"}},
               {"y", "aten.sum.default", {"$m"}}},
              {"y"});
}

std::vector<Expected> graphs() {
  const std::string together = "numbers of an element together";
  return {
      {entropy("bfloat16", {800000, 3}), together, "_inverse"},
      {entropy("float16", {20501, 16, 5}), together, "_inverse"},
      {entropy("float32", {200004, 7}), together, "_inverse"},
      {entropy("float32", {400003, 3}), "short rows", ""}, // no run divides the rows
      {moments("float32", {40004, 6}, json{-1}, 900, 901), "", ""},
      {moments("bfloat16", {1, 700001}, json{-1}, 3, 5), "rows start anywhere", "take_run"},
      {moments("float32", {1, 700001}, json{-1}, 1000, 1001), "row reduction", ""},
      {moments("float16", {3, 5003}, json{-1}, -1, 1), "", ""},
      {draws("bfloat16", {1031, 498}), "of 2 elements a thread", "tc_pair_offset"},
      {draws("float32", {1031, 6}), "", "tc_pair_offset"},
      // Registers for one block of 256 threads.
      {softmax("float16", {4001, 511}), "8 threads a row, 16 rows a block", ""},
      {additions("float32", 70000, 513, 4), "of 1 elements a thread", ""},
      {additions("float32", 7001, 13, 33), "of 1 elements a thread", ""},
  };
}

void check_all(const std::vector<runtime::SessionOptions> &ways) {
  for (const Expected &expected : graphs()) {
    INFO(expected.graph.name << " " << json(expected.graph.inputs[0].sizes).dump());
    const driver::Compilation compilation = testing::compile_made(expected.graph, false);
    std::string plans, texts;
    for (const program::Kernel &kernel : compilation.program.kernels) {
      plans += kernel.plan + "\n";
      texts += kernel.cuda.text;
    }
    INFO(plans);
    CHECK(plans.find(expected.plan) != std::string::npos);
    CHECK(texts.find(expected.text) != std::string::npos);
    testing::check_made(expected.graph, compilation, 0, ways);
  }
}

/// What is summed up over all elements is so row by row, in the kernel that reduces the rows.
void check_losses(const std::vector<runtime::SessionOptions> &ways) {
  for (const testing::MadeGraph &graph :
       {distillation("float16", {37, 11, 147}, -1), distillation("float32", {5, 300, 33}, -1),
        distillation("float32", {7, 19, 13, 11}, 1), distillation("bfloat16", {1, 501, 64}, -1),
        distillation("float32", {0, 5, 7}, -1), distillation("float32", {3, 1, 1}, -1)}) {
    INFO(graph.name << " " << json(graph.inputs[0].sizes).dump());
    const driver::Compilation compilation = testing::compile_made(graph, false);
    std::string plans;
    size_t readers = 0; // of the inputs
    for (const program::Kernel &kernel : compilation.program.kernels) {
      plans += kernel.plan + "\n";
      readers += kernel.cuda.text.find("quick_exp") != std::string::npos ? 1 : 0;
    }
    INFO(plans);
    CHECK(readers <= 1);
    testing::check_made(graph, compilation, 0, ways);
  }
}

} // namespace

TEST_CASE("sums over all elements of reduced rows go row by row on the host") {
  check_losses(testing::plan_ways());
}
TEST_CASE("sums over all elements of reduced rows go row by row on the GPU", "[gpu]") {
  if (const auto ways = testing::gpu_ways(); !ways.empty())
    check_losses(ways);
}
TEST_CASE("elements of a thread are taken together on the host") {
  check_all(testing::plan_ways());
}
TEST_CASE("elements of a thread are taken together on the GPU", "[gpu]") {
  check_all(testing::gpu_ways());
}
