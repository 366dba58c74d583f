// Reductions of which some operands lie along the rows and others across them: blocks of columns
// that have whole sectors of both, operands that are laid out first, rows that are divided along
// the loop that some operands are contiguous along; results that are turned afterwards. And where
// none of that pays.
#include "driver/reference.h"
#include "graph/read.h"
#include "made_graph.h"
#include "testing/catch.h"
#include "testing/graph_json.h"

using namespace tsc;
using nlohmann::json;

namespace {

constexpr const char *kLaidOut = "laid out as the kernel behind reads";
constexpr const char *kDivided = "rows are divided along a loop";
constexpr const char *kTurned = "stored as operands lie, and turned by another kernel";

struct Case {
  std::string name;
  std::vector<testing::MadeInput> inputs;
  json calls;              // "y" is the result
  std::string plan, other; // parts of the text of its kernels' plans: there, and not there
};

json sum_of(const std::string &call, const json &arguments) {
  return {{"t", "aten.transpose.int", {"$b", 1, 2}},
          {"s", "aten.add.Tensor", {"$a", "$t"}},
          {"y", call, arguments}};
}

std::vector<Case> cases() {
  const auto pair = [](const std::string &dtype, std::vector<int64_t> sizes) {
    std::vector<int64_t> turned = {sizes[0], sizes[2], sizes[1]};
    return std::vector<testing::MadeInput>{{"a", dtype, sizes}, {"b", dtype, turned}};
  };
  const json sums = sum_of("aten.sum.dim_IntList", {"$s", {2}});
  json normalized = sum_of("aten.linalg_vector_norm.default", {"$s", 2, {2}, true});
  normalized[2][0] = "n";
  normalized.push_back({"y", "aten.div.Tensor", {"$s", "$n"}});
  const json both = {{"p", "aten.mul.Tensor", {"$b", "$c"}},
                     {"t", "aten.transpose.int", {"$p", 1, 2}},
                     {"s", "aten.add.Tensor", {"$a", "$t"}},
                     {"y", "aten._softmax.default", {"$s", 2, false}}};
  // Values come with channels innermost, what they are summed to is wanted with them outermost.
  const json columns = {{"t", "aten.permute.default", {"$x", {0, 3, 1, 2}}},
                        {"y", "aten.sum.dim_IntList", {"$t", {2}}}};
  const auto image = [](const std::string &dtype, std::vector<int64_t> sizes) {
    return std::vector<testing::MadeInput>{{"x", dtype, std::move(sizes)}};
  };
  std::vector<testing::MadeInput> three = pair("bfloat16", {4, 1024, 1000});
  three.push_back(three[1]);
  three[2].name = "c";
  return {
      {"sums of floats", pair("float32", {8, 500, 512}), sums, "8 columns a block", "laid"},
      {"sums of floats of which nothing divides", pair("float32", {2, 1283, 1021}), sums,
       "8 columns a block", "laid"},
      {"sums of 16 bits", pair("bfloat16", {8, 512, 512}), sums,
       "16 columns a block, 1 walk over the column, 16-byte accesses", "laid"},
      {"sums of 16 bits, some rows left over", pair("float16", {4, 1000, 1021}), sums,
       "16 columns a block, 1 walk over the column, 16-byte accesses", "laid"},
      {"places", pair("float32", {8, 500, 512}), sum_of("aten.argmax.default", {"$s", 2, false}),
       "8 columns a block", "laid"},
      {"rows that are read back", pair("bfloat16", {2, 1024, 1024}), normalized, kLaidOut,
       kDivided},
      {"sums of short middles", image("float16", {33, 11, 130, 256}), columns, kTurned, kLaidOut},
      {"sums of few of them", image("float16", {1, 11, 130, 256}), columns, "", kTurned},
      {"what is computed from two operands", three, both, "what is computed from operands",
       kDivided},
      {"everything",
       {{"a", "float32", {1999, 1024}}, {"b", "float32", {1024, 1999}}},
       {{"t", "aten.permute.default", {"$b", {1, 0}}},
        {"s", "aten.mul.Tensor", {"$a", "$t"}},
        {"y", "aten.sum.default", {"$s"}}},
       kDivided,
       kLaidOut},
      {"matrices",
       pair("float32", {300, 104, 96}),
       {{"t", "aten.transpose.int", {"$b", 1, 2}},
        {"s", "aten.mul.Tensor", {"$a", "$t"}},
        {"y", "aten.sum.dim_IntList", {"$s", {1, 2}}}},
       kDivided,
       kLaidOut},
      {"too few to be worth a launch", pair("bfloat16", {2, 256, 256}), normalized, "row reduction",
       "laid"},
      {"all along rows",
       {{"a", "bfloat16", {4, 1024, 1024}}, {"b", "bfloat16", {4, 1024, 1024}}},
       {{"s", "aten.add.Tensor", {"$a", "$b"}}, {"y", "aten._softmax.default", {"$s", 2, false}}},
       "row reduction",
       "laid"},
  };
}

std::string plans_of(const driver::Compilation &compilation) {
  std::string plans;
  for (const program::Kernel &kernel : compilation.program.kernels)
    plans += kernel.plan + "\n";
  return plans;
}

void check_all(const std::vector<runtime::SessionOptions> &ways) {
  for (const Case &each : cases()) {
    INFO(each.name);
    const testing::MadeGraph graph{each.name, each.inputs, each.calls, {"y"}, {}};
    const driver::Compilation compilation = testing::compile_made(graph, false);
    const std::string plans = plans_of(compilation);
    INFO(plans);
    CHECK(plans.find(each.plan) != std::string::npos);
    CHECK(plans.find(each.other) == std::string::npos);
    testing::check_made(graph, compilation, 0, ways);
  }
}

/// Rows that are read back, of matrices of sizes that are symbols, likely to be `hint`.
driver::Compilation compile_dynamic(int64_t hint) {
  json graph = {{"format", "tsc-graph"},
                {"version", 1},
                {"symbols", {{"s0", {2, nullptr, hint}}, {"s1", {2, nullptr, hint}}}}};
  const auto input = [&](const char *name, const json &sizes) {
    graph["nodes"].push_back({{"name", name},
                              {"op", "placeholder"},
                              {"val", {{"dtype", "float32"}, {"size", sizes}, {"device", "cpu"}}}});
  };
  input("a", {3, "s0", "s1"});
  input("b", {3, "s1", "s0"});
  for (const json &call : sum_of("aten._softmax.default", {"$s", 2, false}))
    graph["nodes"].push_back({{"name", call[0]},
                              {"op", "call_function"},
                              {"target", call[1]},
                              {"args", testing::with_references(call[2])},
                              {"kwargs", json::object()}});
  graph["nodes"].push_back({{"name", "output"}, {"op", "output"}, {"args", {{{{"node", "y"}}}}}});
  return driver::compile(graph::parse_graph(graph.dump(), "made.json"), {});
}

} // namespace

TEST_CASE("reductions of operands in several orders on the host") {
  check_all(testing::plan_ways());
}

TEST_CASE("operands of likely sizes are laid out, whatever sizes they have") {
  CHECK(plans_of(compile_dynamic(64)).find(kLaidOut) == std::string::npos);
  const driver::Compilation compilation = compile_dynamic(2048);
  INFO(plans_of(compilation));
  CHECK(plans_of(compilation).find(kLaidOut) != std::string::npos);
  for (const auto &[rows, columns] : {std::pair<int64_t, int64_t>{2, 2}, {77, 131}, {260, 516}}) {
    const std::vector<tensor::HostTensor> inputs = {
        tensor::random_tensor(tensor::DType::f32, {3, rows, columns}, {.seed = 1}),
        tensor::random_tensor(tensor::DType::f32, {3, columns, rows}, {.seed = 2})};
    const auto expected = driver::run_reference(compilation, inputs, {});
    for (const runtime::SessionOptions &way : testing::plan_ways()) {
      const auto outputs = runtime::Session::create(compilation.program, {}, way)->run(inputs);
      const tensor::Agreement agreement = tensor::compare(outputs[0], expected[0], nullptr);
      INFO(rows << " x " << columns << ": " << agreement.reason);
      CHECK(agreement.ok);
    }
  }
}

TEST_CASE("reductions of operands in several orders on the GPU", "[gpu]") {
  if (const auto ways = testing::gpu_ways(); !ways.empty())
    check_all(ways);
}
