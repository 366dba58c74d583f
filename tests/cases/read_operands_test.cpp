// Keys and values that attention of few queries computes as it reads them: caches of 8 bits, rows
// of pages that a table names, one and several parts, and what has to be stored nonetheless.
#include "made_graph.h"
#include "support/diagnostic.h"
#include "testing/catch.h"

#include <algorithm>

using namespace tsc;
using nlohmann::json;

namespace {

constexpr char kKeys[] = "keys computed as they are read",
               kValues[] = "values computed as they are read";

struct Case {
  std::string name;
  int64_t depth, rows, keys;
  std::string stored = "int8"; // dtype of the cache
  int64_t page = 0;            // keys of a page; 0: rows lie one after the other
  std::string factor = "key";  // that numbers are multiplied by: one a "key", a "column", "" none
  std::string dtype = "bfloat16";
  int64_t heads = 4, key_heads = 2;
  bool causal = false;
  std::string table = "int64";
  bool filled =
      false; // in part: a mask hides the keys behind a number of each batch, which may be 0
};

/// Caches [batch, heads, keys, depth], or pages [pages, keys of a page, heads, depth].
testing::MadeGraph graph_of(const Case &each, int64_t batch) {
  testing::MadeGraph graph;
  graph.name = each.name;
  graph.inputs = {{"q", each.dtype, {batch, each.heads, each.rows, each.depth}}};
  graph.calls = json::array();
  const auto call = [&](const std::string &name, const char *target, const json &arguments,
                        const json &keywords = json::object()) {
    graph.calls.push_back({name, target, arguments, keywords});
    return "$" + name;
  };
  const bool is_packed = each.stored != each.dtype;
  const int64_t pages = each.page > 0 ? 7 + each.keys / each.page : 0;
  const std::vector<int64_t> cache =
      each.page > 0 ? std::vector<int64_t>{pages, each.page, each.key_heads, each.depth}
                    : std::vector<int64_t>{batch, each.key_heads, each.keys, each.depth};
  if (each.page > 0)
    graph.inputs.push_back({"table",
                            each.table,
                            {batch, each.keys / each.page},
                            -static_cast<double>(pages),
                            static_cast<double>(pages - 1)});
  for (const std::string side : {"k", "v"}) {
    const double most = each.stored == "int8" ? 100 : 2;
    graph.inputs.push_back({side, each.stored, cache, each.stored == "uint8" ? 0 : -most, most});
    std::string rows = "$" + side;
    if (is_packed)
      rows = call(side + "_wide", "aten._to_copy.default", {rows},
                  {{"dtype", {{"dtype", "torch." + each.dtype}}}});
    if (!each.factor.empty()) {
      std::vector<int64_t> sizes = {each.depth};
      if (each.factor == "key") {
        sizes = cache;
        sizes[3] = 1;
      }
      graph.inputs.push_back({side + "_factor", each.dtype, sizes, 0.01, 0.03});
      rows = call(side + "_times", "aten.mul.Tensor", {rows, "$" + side + "_factor"});
    }
    if (each.page > 0) {
      rows = call(side + "_pages", "aten.index.Tensor", {rows, {"$table"}});
      rows = call(side + "_list", "aten.reshape.default",
                  {rows, {batch, each.keys, each.key_heads, each.depth}});
      rows = call(side + "_heads", "aten.transpose.int", {rows, 1, 2});
    }
    call(side + "_rows", "aten.alias.default", {rows});
  }
  json arguments = {"$q", "$k_rows", "$v_rows"};
  if (each.filled) {
    graph.inputs.push_back(
        {"n", "int64", {batch, 1, 1, 1}, 0, static_cast<double>(each.keys) * 0.8});
    call("i", "aten.arange.default", {each.keys});
    arguments.push_back(call("mask", "aten.lt.Tensor", {"$i", "$n"}));
  }
  call("y", "aten.scaled_dot_product_attention.default", arguments,
       {{"is_causal", each.causal}, {"enable_gqa", each.heads != each.key_heads}});
  graph.outputs = {"y"};
  return graph;
}

std::vector<Case> cases() {
  return {
      {"8 bits, a factor each key", 128, 1, 300},
      {"8 bits, several parts", 64, 1, 5000},
      {"8 bits, odd depth", 72, 3, 77, "int8", 0, "column", "float16"},
      {"8 bits, all rows of a tile", 80, 16, 129, "int8", 0, "key", "bfloat16", 6, 3},
      {"8 bits, causal", 64, 13, 13, "uint8", 0, "column", "bfloat16", 4, 4, true},
      {"8 bits, many rows", 256, 40, 90, "int8", 0, "key", "float16", 2, 2},
      {"pages", 128, 1, 96, "bfloat16", 16, ""},
      {"pages of 8 bits, 32-bit table", 64, 2, 120, "int8", 8, "key", "float16", 6, 2, false,
       "int32"},
      {"pages, odd depth and size", 40, 5, 99, "float16", 11, "", "float16", 3, 3},
      {"8 bits, filled in part", 128, 1, 900, "int8", 0, "key", "bfloat16", 4, 2, false, "", true},
      {"pages filled in part, several parts", 64, 2, 3200, "float16", 32, "", "float16", 4, 2,
       false, "int64", true},
      {"pages, several parts", 64, 1, 4096, "bfloat16", 32, "", "bfloat16", 2, 1}};
}

std::string plans_of(const driver::Compilation &compilation) {
  std::string plans;
  for (const program::Kernel &kernel : compilation.program.kernels)
    plans += kernel.plan + "\n";
  return plans;
}

void check_all(const std::vector<Case> &cases, const std::vector<runtime::SessionOptions> &ways) {
  for (const Case &each : cases) {
    const testing::MadeGraph graph = graph_of(each, 2);
    INFO(graph.name);
    const driver::Compilation compilation = testing::compile_made(graph, false);
    const std::string plans = plans_of(compilation);
    INFO(plans);
    CHECK(plans.find(kKeys) != std::string::npos);
    CHECK(plans.find(kValues) != std::string::npos);
    CHECK((plans.find("steps that the mask hides left out") != std::string::npos) == each.filled);
    testing::check_made(graph, compilation, 0, ways);
  }
}

} // namespace

TEST_CASE("keys and values are computed as they are read") {
  check_all(cases(), testing::plan_ways());
}

TEST_CASE("keys and values are computed as they are read on the GPU", "[gpu]") {
  if (const auto ways = testing::gpu_ways(); !ways.empty())
    check_all(cases(), ways);
}

/// A batch that a run decides.
void check_batches(const std::vector<runtime::SessionOptions> &ways) {
  testing::MadeGraph graph = graph_of({"8 bits, any batch", 64, 1, 300}, 2);
  graph.inputs_are_alike = true;
  const driver::Compilation compilation = testing::compile_made(graph, true);
  CHECK(plans_of(compilation).find(kKeys) != std::string::npos);
  for (const int64_t batch : {2, 3, 17})
    testing::check_made(graph, compilation, batch, ways);
}
TEST_CASE("keys of any batch are computed as they are read") {
  check_batches(testing::plan_ways());
}
TEST_CASE("keys of any batch are computed as they are read on the GPU", "[gpu]") {
  if (const auto ways = testing::gpu_ways(); !ways.empty())
    check_batches(ways);
}

TEST_CASE("parts of one cache, and factors of parts of a row") {
  // Keys and values are halves of rows of one tensor of 8 bits, the first keys of many; each 16
  // elements have a factor.
  testing::MadeGraph graph;
  graph.name = "halves";
  graph.inputs = {{"q", "float16", {2, 3, 2, 64}},
                  {"c", "int8", {2, 3, 77, 128}, -100, 100},
                  {"s", "float16", {2, 3, 56, 4, 1}, 0.01, 0.03}};
  const json half = {{"dtype", {{"dtype", "torch.float16"}}}};
  graph.calls = {{"first", "aten.slice.Tensor", {"$c", 2, 0, 56}},
                 {"k8", "aten.slice.Tensor", {"$first", 3, 0, 64}},
                 {"v8", "aten.slice.Tensor", {"$first", 3, 64, 128}},
                 {"kw", "aten._to_copy.default", {"$k8"}, half},
                 {"kp", "aten.reshape.default", {"$kw", {2, 3, 56, 4, 16}}},
                 {"kt", "aten.mul.Tensor", {"$kp", "$s"}},
                 {"k", "aten.reshape.default", {"$kt", {2, 3, 56, 64}}},
                 {"vw", "aten._to_copy.default", {"$v8"}, half},
                 {"v", "aten.mul.Tensor", {"$vw", 0.02}},
                 {"y", "aten.scaled_dot_product_attention.default", {"$q", "$k", "$v"}}};
  graph.outputs = {"y"};
  const driver::Compilation compilation = testing::compile_made(graph, false);
  CHECK(plans_of(compilation).find(kKeys) != std::string::npos);
  CHECK(plans_of(compilation).find(kValues) != std::string::npos);
  testing::check_made(graph, compilation, 0, testing::plan_ways());
}

TEST_CASE("a page outside of what there is is said, by both plans") {
  const testing::MadeGraph graph = graph_of({"pages", 64, 1, 48, "bfloat16", 16, ""}, 2);
  const driver::Compilation compilation = testing::compile_made(graph, false);
  CHECK(plans_of(compilation).find(kKeys) != std::string::npos);
  for (const runtime::SessionOptions &way : testing::host_ways()) {
    testing::MadeRun run = testing::make_run(graph, compilation, 0);
    const auto session = runtime::Session::create(compilation.program, {}, way);
    session->run(run.inputs);
    for (const int64_t outside : {10, -11}) { // there are 10 pages
      reinterpret_cast<int64_t *>(run.inputs[1].data())[4] = outside;
      try {
        session->run(run.inputs);
        FAIL("taken: " << outside);
      } catch (const support::UserError &error) {
        CHECK(error.diagnostics().front().code == "TSC-R127");
        CHECK(error.diagnostics().front().message.find("index " + std::to_string(outside)) !=
              std::string::npos);
      }
    }
  }
}

TEST_CASE("keys that are wanted otherwise are stored") {
  // They are a result; their rows are computed along the depth; one element at a time is looked up.
  const auto stored = [](const json &calls, std::vector<std::string> outputs) {
    testing::MadeGraph graph{"stored",
                             {{"q", "bfloat16", {2, 4, 1, 64}},
                              {"k", "bfloat16", {2, 4, 99, 64}},
                              {"v", "bfloat16", {2, 4, 99, 64}},
                              {"i", "int64", {64}, 0, 63}},
                             calls,
                             std::move(outputs),
                             {}};
    const driver::Compilation compilation = testing::compile_made(graph, false);
    CHECK(plans_of(compilation).find(kKeys) == std::string::npos);
    testing::check_made(graph, compilation, 0, testing::plan_ways());
  };
  const json attention = {"y", "aten.scaled_dot_product_attention.default", {"$q", "$t", "$v"}};
  stored({{"t", "aten.mul.Tensor", {"$k", 0.5}}, attention}, {"y", "t"});
  stored({{"t", "aten.softmax.int", {"$k", -1}}, attention}, {"y"});
  stored({{"t", "aten.index_select.default", {"$k", 3, "$i"}}, attention}, {"y"});
  stored({{"t", "aten.flip.default", {"$k", {3}}}, attention}, {"y"});
}
