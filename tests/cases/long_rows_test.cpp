// Rows that are too long for a block, or too few for a GPU: what is done in parts agrees with the
// reference.
#include "graph/read.h"
#include "made_graph.h"
#include "tensor/host_tensor.h"
#include "testing/catch.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <tuple>

using namespace tsc;
using nlohmann::json;

namespace {

struct Case {
  std::string name, dtype;
  std::vector<int64_t> sizes; // of x
  json calls;                 // name, target, arguments
  std::vector<std::string> outputs;
  size_t steps = 0;       // kernels of the static graph
  bool counts_up = false; // a dynamic graph of the first size may be divided, too
};

/// Sizes that nothing divides, sizes that parts divide, columns; every way that parts are merged.
std::vector<Case> cases() {
  const auto one = [](const std::string &target, const json &arguments) {
    return json::array({{"y", target, arguments}});
  };
  return {
      {"sum", "float32", {100003}, one("aten.sum.default", {"$x"}), {"y"}, 2, true},
      {"rows", "float16", {3, 65537}, one("aten.amax.default", {"$x", {1}, false}), {"y"}, 2},
      {"columns", "float32", {20011, 7}, one("aten.sum.dim_IntList", {"$x", {0}}), {"y"}, 2, true},
      {"moments",
       "float32",
       {65536},
       {{"y", "aten.var_mean.correction", {"$x"}},
        {"m", "operator.getitem", {"$y", 1}},
        {"v", "operator.getitem", {"$y", 0}}},
       {"m", "v"},
       2,
       true},
      {"few columns, more parts of which a GPU could run than a block scans",
       "float32",
       {1200007, 2},
       one("aten.cumsum.default", {"$x", 0}),
       {"y"},
       3},
      {"columns' moments",
       "float32",
       {30011, 5},
       {{"y", "aten.var_mean.dim", {"$x", {0}}},
        {"m", "operator.getitem", {"$y", 1}},
        {"v", "operator.getitem", {"$y", 0}}},
       {"m", "v"},
       2,
       true},
      {"position", "float32", {100003}, one("aten.argmax.default", {"$x"}), {"y"}, 2, true},
      {"positions of rows",
       "int16",
       {2, 5, 40009},
       one("aten.argmin.default", {"$x", 2}),
       {"y"},
       2},
      {"any", "bool", {131072}, one("aten.any.default", {"$x"}), {"y"}, 2, true},
      {"softmax", "float32", {2, 131072}, one("aten._softmax.default", {"$x", 1, false}), {"y"}, 3},
      {"softmax of columns",
       "float32",
       {30011, 2},
       one("aten._log_softmax.default", {"$x", 0, false}),
       {"y"},
       3},
      {"normalized",
       "bfloat16",
       {100003},
       {{"f", "prims.convert_element_type.default", {"$x", {{"dtype", "float32"}}}},
        {"y", "aten.native_layer_norm.default", {"$f", {100003}, nullptr, nullptr, 1e-5}},
        {"n", "operator.getitem", {"$y", 0}},
        {"r", "operator.getitem", {"$y", 2}}},
       {"n", "r"},
       3},
      {"what stands where a row is largest", // an index that follows from a reduction
       "float32",
       {100003},
       {{"i", "aten.argmax.default", {"$x"}}, {"y", "aten.index.Tensor", {"$x", {"$i"}}}},
       {"y"},
       2},
      {"channels of a group", // loops that go through memory as one
       "float32",
       {2, 12, 20011},
       {{"g", "aten.native_group_norm.default", {"$x", nullptr, nullptr, 2, 12, 20011, 1, 1e-5}},
        {"y", "operator.getitem", {"$g", 0}},
        {"r", "operator.getitem", {"$g", 2}}},
       {"y", "r"},
       3},
      {"distances from what each row has", // loops that do not
       "float32",
       {7, 30011},
       {{"m", "aten.amax.default", {"$x", {1}, true}},
        {"d", "aten.sub.Tensor", {"$x", "$m"}},
        {"e", "aten.exp.default", {"$d"}},
        {"y", "aten.sum.default", {"$e"}}},
       {"y"},
       0},
      {"what is computed of columns' sums", // once a column, where parts are merged
       "float32",
       {30011, 3},
       {{"y", "aten.logsumexp.default", {"$x", {0}, true}}, {"z", "aten.sub.Tensor", {"$x", "$y"}}},
       {"z"},
       0},
      {"running sums of columns",
       "float32",
       {1031, 1100},
       one("aten.cumsum.default", {"$x", 0}),
       {"y"},
       3},
      {"running sums of so many columns that each is a thread's",
       "float32",
       {131, 35003},
       one("aten.cumsum.default", {"$x", 0}),
       {"y"},
       1},
      {"as many of halves, in parts",
       "float16",
       {131, 35003},
       one("aten.cumsum.default", {"$x", 0}),
       {"y"},
       3},
      {"running maxima of few columns",
       "float16",
       {20011, 60},
       {{"y", "aten.cummax.default", {"$x", 0}},
        {"v", "operator.getitem", {"$y", 0}},
        {"i", "operator.getitem", {"$y", 1}}},
       {"v", "i"},
       5},
      {"running sum", "float32", {2, 70001}, one("aten.cumsum.default", {"$x", 1}), {"y"}, 1},
      {"running sums of halves",
       "float16",
       {3, 200003},
       {{"y", "aten.cumsum.default", {"$x", 1}}, {"z", "aten.add.Tensor", {"$y", "$x"}}},
       {"z"},
       1},
      {"running sum of more groups than lanes",
       "int64",
       {9000011},
       one("aten.cumsum.default", {"$x", 0}),
       {"y"},
       1},
      {"running sum of ints",
       "int32",
       {131072},
       one("aten.cumsum.default", {"$x", 0}),
       {"y"},
       1,
       true},
      {"running product",
       "int8",
       {65537},
       {{"e", "aten.div.Tensor", {"$x", 65536}},
        {"g", "aten.add.Scalar", {"$e", 1}},
        {"y", "aten.cumprod.default", {"$g", 0}}},
       {"y"},
       1},
      {"running logsumexp",
       "float32",
       {65537},
       one("aten.logcumsumexp.default", {"$x", 0}),
       {"y"},
       1,
       true},
      {"running maximum",
       "float32",
       {2, 66003},
       {{"y", "aten.cummax.default", {"$x", 1}},
        {"v", "operator.getitem", {"$y", 0}},
        {"i", "operator.getitem", {"$y", 1}}},
       {"v", "i"},
       1},
      {"sum of what runs",
       "float32",
       {66003},
       {{"c", "aten.cumsum.default", {"$x", 0}},
        {"r", "aten.relu.default", {"$c"}},
        {"s", "aten.sum.default", {"$r"}},
        {"y", "aten.div.Tensor", {"$c", "$s"}}},
       {"y", "s"},
       5},
      {"what runs along probabilities",
       "float32",
       {1, 100003},
       {{"p", "aten._softmax.default", {"$x", 1, false}}, {"y", "aten.cumsum.default", {"$p", 1}}},
       {"y"},
       5},
      {"first of a long row",
       "float32",
       {2, 50021},
       {{"y", "aten.topk.default", {"$x", 37}},
        {"v", "operator.getitem", {"$y", 0}},
        {"i", "operator.getitem", {"$y", 1}}},
       {"v", "i"},
       0},
      {"smallest of equal ones",
       "int8",
       {1, 1200007},
       {{"y", "aten.topk.default", {"$x", 300, -1, false}},
        {"v", "operator.getitem", {"$y", 0}},
        {"i", "operator.getitem", {"$y", 1}}},
       {"v"},
       0},
      {"one of a long row",
       "float32",
       {3, 20011},
       {{"y", "aten.kthvalue.default", {"$x", 1000}}, {"v", "operator.getitem", {"$y", 0}}},
       {"v"},
       0},
  };
}

testing::MadeGraph made(const Case &one) {
  return {one.name, {{"x", one.dtype, one.sizes, -40, 40}}, one.calls, one.outputs};
}

/// What blocks tell each other stays in memory from run to run: later runs must not take it for
/// their own.
void check_repeated(const testing::MadeGraph &graph, const driver::Compilation &compilation,
                    const std::vector<runtime::SessionOptions> &ways) {
  const testing::MadeInput &x = graph.inputs[0];
  for (const runtime::SessionOptions &way : ways) {
    const auto session = runtime::Session::create(compilation.program, {}, way);
    for (uint64_t seed = 1; seed <= 2; ++seed) {
      tensor::RandomSpec spec{.seed = seed};
      spec.low = x.low;
      spec.high = x.high;
      const tensor::HostTensor input =
          tensor::random_tensor(*tensor::parse_dtype(x.dtype), x.sizes, spec);
      const auto again = session->run({input});
      const auto alone = runtime::Session::create(compilation.program, {}, way)->run({input});
      for (size_t i = 0; i < alone.size(); ++i)
        CHECK(std::memcmp(again[i].data(), alone[i].data(), alone[i].size_in_bytes()) == 0);
    }
  }
}

void check_all(const std::vector<runtime::SessionOptions> &ways) {
  for (const Case &one : cases()) {
    const testing::MadeGraph graph = made(one);
    const driver::Compilation compilation = testing::compile_made(graph, false);
    INFO(one.name);
    if (one.steps > 0)
      CHECK(compilation.program.steps.size() == one.steps);
    testing::check_made(graph, compilation, 0, ways);
    if (one.steps == 1)
      check_repeated(graph, compilation, ways);
    if (!one.counts_up)
      continue;
    const driver::Compilation dynamic = testing::compile_made(graph, true);
    CHECK(dynamic.program.steps.size() == one.steps);
    for (const int64_t size : {int64_t{2}, int64_t{1000}, int64_t{8193}, one.sizes[0]})
      testing::check_made(graph, dynamic, size, ways);
  }
}

/// Merged chunks, one and two levels of them, and the first of rows by groups, against the standard
/// library: NaN is the largest, 0 equals -0, equal elements stay in their order.
void check_sorts(const std::vector<runtime::SessionOptions> &ways) {
  struct Row {
    int64_t rows, length;
    bool descending;
    int64_t first = 0; // so many; 0: all
  };
  for (const Row &row :
       {Row{2, 30011, false}, Row{1, 600011, true}, Row{3, 30011, true, 64},
        Row{1, 600011, false, 300}, Row{2, 9001, true, 2048}, Row{100, 8192, true, 5}}) {
    testing::MadeGraph graph{
        "sort", {{"x", "float32", {row.rows, row.length}, -40, 40}}, {}, {"v", "i"}};
    const json whole = {"y", "aten.sort.default", {"$x", 1, row.descending}},
               some = {"y", "aten.topk.default", {"$x", row.first, 1, row.descending}};
    graph.calls = {row.first == 0 ? whole : some,
                   {"v", "operator.getitem", {"$y", 0}},
                   {"i", "operator.getitem", {"$y", 1}}};
    const driver::Compilation compilation = testing::compile_made(graph, false);
    tensor::RandomSpec spec{.seed = 11};
    spec.low = -40;
    spec.high = 40;
    const tensor::HostTensor input =
        tensor::random_tensor(tensor::DType::f32, {row.rows, row.length}, spec);
    auto *x = reinterpret_cast<float *>(input.data());
    for (int64_t i = 0; i < row.rows * row.length; ++i)
      x[i] = i % 97 == 0   ? std::nanf("")
             : i % 89 == 0 ? -0.0f
             : i % 83 == 0 ? 0.0f
             : i % 7 == 0  ? std::floor(x[i])
                           : x[i];
    for (const runtime::SessionOptions &way : ways) {
      const auto outputs = runtime::Session::create(compilation.program, {}, way)->run({input});
      const auto *values = reinterpret_cast<const float *>(outputs[0].data());
      const auto *places = reinterpret_cast<const int64_t *>(outputs[1].data());
      const int64_t count = row.first == 0 ? row.length : row.first;
      for (int64_t r = 0; r < row.rows; ++r) {
        const float *from = x + r * row.length;
        std::vector<int64_t> order(static_cast<size_t>(row.length));
        std::iota(order.begin(), order.end(), int64_t{0});
        const auto less = [&](int64_t a, int64_t b) {
          return from[a] < from[b] || (std::isnan(from[b]) && !std::isnan(from[a]));
        };
        std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
          return row.descending ? less(b, a) : less(a, b);
        });
        CHECK(std::equal(order.begin(), order.begin() + count, places + r * count));
        bool same = true;
        for (int64_t i = 0; i < count; ++i)
          same = same && std::memcmp(&values[r * count + i], &from[order[static_cast<size_t>(i)]],
                                     sizeof(float)) == 0;
        CHECK(same);
      }
    }
  }
}

} // namespace

TEST_CASE("hints of nothing and of more than any memory decide nothing") {
  for (const char *hint : {"0", "4611686018427387904"}) {
    const std::string range = std::string("[0, null, ") + hint + "]";
    const std::string text = R"({"format": "tsc-graph", "version": 1, "symbols": {"s0": )" + range +
                             R"(, "s1": )" + range + R"(}, "nodes": [
          {"name": "x", "op": "placeholder", "val": {"dtype": "float32", "size": ["s0", "s1"]}},
          {"name": "y", "op": "call_function", "target": "aten.sum.dim_IntList",
           "args": [{"node": "x"}, [0]]},
          {"name": "z", "op": "call_function", "target": "aten.cumsum.default",
           "args": [{"node": "x"}, 1]},
          {"name": "output", "op": "output", "args": [[{"node": "y"}, {"node": "z"}]]}]})";
    const driver::Compilation compilation =
        driver::compile(graph::parse_graph(text, "hint.json"), driver::CompileOptions{});
    for (const runtime::SessionOptions &way : testing::host_ways()) {
      const tensor::HostTensor x = tensor::random_tensor(tensor::DType::f32, {3, 5}, {.seed = 2});
      const auto outputs = runtime::Session::create(compilation.program, {}, way)->run({x});
      for (int64_t j = 0; j < 5; ++j)
        CHECK(outputs[0].get_double(j) ==
              Approx(x.get_double(j) + x.get_double(5 + j) + x.get_double(10 + j)));
      CHECK(outputs[1].get_double(6) == Approx(x.get_double(5) + x.get_double(6)));
    }
  }
}

TEST_CASE("long rows sort as the standard library does") { check_sorts(testing::plan_ways()); }

TEST_CASE("long rows sort as the standard library does on the GPU", "[gpu]") {
  if (const auto ways = testing::gpu_ways(); !ways.empty())
    check_sorts(ways);
}

TEST_CASE("long rows in parts on the host") { check_all(testing::plan_ways()); }

TEST_CASE("long rows in parts on the GPU", "[gpu]") {
  if (const auto ways = testing::gpu_ways(); !ways.empty())
    check_all(ways);
}

namespace {

/// Sums of long 16-bit columns whose parts are not equally long: neighbouring columns are one
/// access all the same.
void check_odd_columns(const std::vector<runtime::SessionOptions> &ways) {
  for (const auto &[dtype, rows, columns] : {std::tuple{"float16", int64_t{100003}, int64_t{64}},
                                             {"bfloat16", 40009, 40},
                                             {"float16", 70001, 8}}) {
    testing::MadeGraph graph;
    graph.name = dtype;
    graph.inputs = {{"x", dtype, {rows, columns}}};
    graph.calls = {{"s", "prims.convert_element_type.default", {"$x", {{"dtype", "float32"}}}},
                   {"m", "aten.mul.Tensor", {"$s", "$s"}},
                   {"y", "aten.sum.dim_IntList", {"$s", {0}}},
                   {"z", "aten.sum.dim_IntList", {"$m", {0}}}};
    graph.outputs = {"y", "z"};
    const driver::Compilation compilation = testing::compile_made(graph, false);
    INFO(rows << " x " << columns << ": " << compilation.program.kernels[0].plan);
    const std::string &plan = compilation.program.kernels[0].plan;
    CHECK(plan.find(columns == 64 ? "column reduction" : "reduction of pieces") !=
          std::string::npos);
    CHECK(plan.find("16-byte accesses") != std::string::npos);
    testing::check_made(graph, compilation, 0, ways);
  }
}

} // namespace

TEST_CASE("columns in parts that are not equally long are read in runs on the host") {
  check_odd_columns(testing::plan_ways());
}

TEST_CASE("columns in parts that are not equally long are read in runs on the GPU", "[gpu]") {
  if (const auto ways = testing::gpu_ways(); !ways.empty())
    check_odd_columns(ways);
}
