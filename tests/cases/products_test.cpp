// Products whose results go through loops before they leave the kernel: rows of results that start
// anywhere, padded ones, results that other loops order anew.
#include "made_graph.h"
#include "program/program.h"
#include "testing/catch.h"

using namespace tsc;
using nlohmann::json;

namespace {

struct Case {
  std::string dtype;
  int64_t rows, columns, terms;
  json calls; // after y = x @ w
  std::vector<testing::MadeInput> more = {};
  bool weights_by_column = true; // w is the transpose of an input
};

testing::MadeGraph graph_of(const Case &each) {
  testing::MadeGraph graph;
  graph.name = each.dtype + " " + std::to_string(each.rows) + " x " + std::to_string(each.columns) +
               " x " + std::to_string(each.terms);
  const std::vector<int64_t> weight = each.weights_by_column
                                          ? std::vector<int64_t>{each.columns, each.terms}
                                          : std::vector<int64_t>{each.terms, each.columns};
  graph.inputs = {{"x", each.dtype, {each.rows, each.terms}}, {"w", each.dtype, weight}};
  graph.inputs.insert(graph.inputs.end(), each.more.begin(), each.more.end());
  graph.calls = json::array();
  if (each.weights_by_column)
    graph.calls.push_back({"wt", "aten.t.default", {"$w"}});
  graph.calls.push_back({"y", "aten.mm.default", {"$x", each.weights_by_column ? "$wt" : "$w"}});
  for (const json &call : each.calls)
    graph.calls.push_back(call);
  graph.outputs = {each.calls.back()[0]};
  return graph;
}

std::vector<Case> odd_rows() {
  const json relu = {{"z", "aten.relu.default", {"$y"}}};
  const json biased = {{"z", "aten.add.Tensor", {"$y", "$b"}}, {"g", "aten.gelu.default", {"$z"}}};
  return {
      {"bfloat16", 260, 13, 40, relu},
      {"float16", 131, 3, 64, relu},
      // Rows of 4104 elements hold 4099: the results of a graph are without gaps.
      {"bfloat16",
       300,
       4099,
       72,
       {{"z", "aten.view.default", {"$y", json::array({3, 100, 4099})}}}},
      {"bfloat16", 300, 4099, 72, biased, {{"b", "bfloat16", {4099}}}},
      {"float16",
       261,
       4101,
       64,
       {{"z", "aten.add.Tensor", {"$y", "$r"}}, {"s", "aten.sigmoid.default", {"$z"}}},
       {{"r", "float16", {261, 4101}}}},
      {"float32", 130, 17, 36, relu},
      {"float32", 130, 12, 36, relu, {}, false},
      {"float32",
       2050,
       517,
       20,
       {{"z", "aten.mul.Tensor", {"$y", "$r"}}},
       {{"r", "float32", {2050, 1}}}},
  };
}

std::vector<Case> in_runs() {
  const json relu = {{"z", "aten.relu.default", {"$y"}}};
  return {{"float16", 128, 64, 16, relu, {}, false},
          {"bfloat16", 256, 512, 192, relu},
          {"float16", 700, 264, 72, relu, {}, false},
          {"bfloat16", 1, 8, 8, relu}};
}

void check(const Case &each, bool singly, const std::vector<runtime::SessionOptions> &ways) {
  const testing::MadeGraph graph = graph_of(each);
  INFO(graph.name);
  const driver::Compilation compilation = testing::compile_made(graph, false);
  std::string plans;
  for (const program::Kernel &kernel : compilation.program.kernels)
    plans += kernel.plan + "\n";
  INFO(plans);
  CHECK(compilation.program.kernels.size() == 1);
  CHECK((plans.find("results finished one by one") != std::string::npos) == singly);
  testing::check_made(graph, compilation, 0, ways);
}

/// `batches` products; what they multiply lies row by row, or turned, or is one matrix for all.
struct Batch {
  std::string dtype;
  int64_t batches, rows, columns, terms;
  std::string right = "own"; // "turned": [batches, columns, terms]; "shared": one for all
  bool left_inside = false;  // [rows, batches, terms], as heads lie in a projection
  json calls = {{"z", "aten.relu.default", {"$y"}}};
  std::vector<testing::MadeInput> more = {};
};

testing::MadeGraph graph_of(const Batch &each) {
  testing::MadeGraph graph;
  graph.name = std::to_string(each.batches) + " of " + each.dtype + " " +
               std::to_string(each.rows) + " x " + std::to_string(each.columns) + " x " +
               std::to_string(each.terms) + ", " + each.right;
  const int64_t batches = each.batches, rows = each.rows, columns = each.columns,
                terms = each.terms;
  std::vector<int64_t> left = {batches, rows, terms}, right = {batches, terms, columns};
  graph.calls = json::array();
  std::string x = "$x", w = "$w";
  if (each.left_inside) {
    left = {rows, batches, terms};
    graph.calls.push_back({"xt", "aten.permute.default", {"$x", json::array({1, 0, 2})}});
    x = "$xt";
  }
  if (each.right == "turned") {
    right = {batches, columns, terms};
    graph.calls.push_back({"wt", "aten.transpose.int", {"$w", 1, 2}});
    w = "$wt";
  } else if (each.right == "shared") {
    right = {1, terms, columns};
    graph.calls.push_back(
        {"wt", "aten.expand.default", {"$w", json::array({batches, terms, columns})}});
    w = "$wt";
  }
  graph.inputs = {{"x", each.dtype, left}, {"w", each.dtype, right}};
  graph.inputs.insert(graph.inputs.end(), each.more.begin(), each.more.end());
  graph.calls.push_back({"y", "aten.bmm.default", {x, w}});
  for (const json &call : each.calls)
    graph.calls.push_back(call);
  graph.outputs = {each.calls.back()[0]};
  return graph;
}

std::vector<Batch> batches() {
  const json biased = {{"z", "aten.add.Tensor", {"$y", "$b"}},
                       {"g", "aten.sigmoid.default", {"$z"}}};
  return {{"bfloat16", 3, 128, 64, 16},
          {"float16", 5, 70, 136, 72, "turned"},
          {"bfloat16", 2, 260, 264, 40, "shared", false, biased, {{"b", "bfloat16", {2, 1, 264}}}},
          {"float16", 4, 33, 40, 64, "own", true, biased, {{"b", "float16", {33, 40}}}},
          {"bfloat16", 3, 65, 13, 40, "turned"}, // results one by one
          {"float32", 3, 130, 72, 36},
          {"float32", 2, 20, 264, 40, "turned"},
          {"bfloat16", 150, 16, 64, 16, "own"}};
}

void check(const Batch &each, const std::vector<runtime::SessionOptions> &ways) {
  const testing::MadeGraph graph = graph_of(each);
  INFO(graph.name);
  const driver::Compilation compilation = testing::compile_made(graph, false);
  std::string plans;
  for (const program::Kernel &kernel : compilation.program.kernels)
    plans += kernel.plan + "\n";
  INFO(plans);
  CHECK(compilation.program.kernels.size() == 1);
  CHECK(plans.find(", " + std::to_string(each.batches) + " products") != std::string::npos);
  testing::check_made(graph, compilation, 0, ways);
}

} // namespace

TEST_CASE("products of whole tiles, and in runs of 8, on the host") {
  for (const Case &each : in_runs())
    check(each, false, testing::host_ways());
}

TEST_CASE("products of whole tiles, and in runs of 8, on the GPU", "[gpu]") {
  if (const auto ways = testing::gpu_ways(); !ways.empty())
    for (const Case &each : in_runs())
      check(each, false, ways);
}

TEST_CASE("products whose rows of results start anywhere on the host") {
  for (const Case &each : odd_rows())
    check(each, true, testing::host_ways());
}

TEST_CASE("products whose rows of results start anywhere on the GPU", "[gpu]") {
  if (const auto ways = testing::gpu_ways(); !ways.empty())
    for (const Case &each : odd_rows())
      check(each, true, ways);
}

namespace {

/// A batch whose left operands are rows of `input` with zeros below: taken where they lie, if they
/// are a number of whole runs apart.
void check_filled_batch(const testing::MadeInput &input, const json &rows, bool is_read,
                        const std::vector<runtime::SessionOptions> &ways) {
  testing::MadeGraph graph;
  graph.name = "left operands of a batch, of " + std::to_string(input.sizes.back());
  graph.inputs = {input, {"w", "float16", {3, 64, 72}}};
  graph.calls = rows;
  graph.calls.push_back({"p", "aten.constant_pad_nd.default", {"$r", {0, 0, 0, 3}, 0.0}});
  graph.calls.push_back({"y", "aten.bmm.default", {"$p", "$w"}});
  graph.calls.push_back({"z", "aten.relu.default", {"$y"}});
  graph.outputs = {"z"};
  const driver::Compilation compilation = testing::compile_made(graph, false);
  std::string plans;
  for (const program::Kernel &kernel : compilation.program.kernels)
    plans += kernel.name + ": " + kernel.plan + "\n";
  INFO(graph.name << "\n" << plans);
  CHECK((compilation.program.steps.size() == 1) == is_read);
  testing::check_made(graph, compilation, 0, ways);
}
void check_filled_batches(const std::vector<runtime::SessionOptions> &ways) {
  const json whole = {{"r", "aten.slice.Tensor", {"$x", 2, 0, 64}}};
  check_filled_batch({"x", "float16", {3, 61, 72}}, whole, true, ways);
  check_filled_batch({"x", "float16", {3, 64, 65}}, whole, true, ways); // rows start anywhere
  check_filled_batch({"x", "float16", {3, 61, 65}}, whole, false, ways);
  check_filled_batch({"x", "float16", {3, 3907}}, // so do matrices
                     {{"s", "aten.slice.Tensor", {"$x", 1, 0, 3904}},
                      {"r", "aten.as_strided.default", {"$s", {3, 61, 64}, {3907, 64, 1}, 0}}},
                     false, ways);
}

/// Columns that do not fill whole vectors, and are too few for the device to divide: a library has
/// no fast kernel for them, so the product has its own though nothing follows it.
void check_alone(const std::vector<runtime::SessionOptions> &ways) {
  testing::MadeGraph graph;
  graph.name = "577 columns";
  graph.inputs = {
      {"c", "float16", {260, 577}}, {"x", "float16", {260, 2304}}, {"w", "float16", {577, 2304}}};
  graph.calls = {{"t", "aten.permute.default", {"$w", {1, 0}}},
                 {"y", "aten.addmm.default", {"$c", "$x", "$t"}}};
  graph.outputs = {"y"};
  const driver::Compilation compilation = testing::compile_made(graph, false);
  CHECK(compilation.program.kernels.size() == 1);
  testing::check_made(graph, compilation, 0, ways);
}

} // namespace

TEST_CASE("products of columns between vectors have kernels of their own on the host") {
  check_alone(testing::host_ways());
}
TEST_CASE("products of columns between vectors have kernels of their own on the GPU", "[gpu]") {
  if (const auto ways = testing::gpu_ways(); !ways.empty())
    check_alone(ways);
}

TEST_CASE("operands of products come by bulk copies where they are matrices") {
  const json relu = {{"z", "aten.relu.default", {"$y"}}};
  const auto maps_of = [](const Case &each) {
    const driver::Compilation compilation = testing::compile_made(graph_of(each), false);
    REQUIRE(compilation.program.kernels.size() == 1);
    return compilation.program.kernels[0].cuda.maps;
  };
  const auto deep = maps_of({"bfloat16", 260, 264, 72, relu});
  REQUIRE(deep.size() == 2);
  CHECK(deep[0].sizes == std::vector<symbolic::Expr>{72, 260});
  CHECK(deep[0].strides == std::vector<symbolic::Expr>{1, 72});
  CHECK(deep[1].sizes == std::vector<symbolic::Expr>{72, 264});
  const auto flat = maps_of({"bfloat16", 260, 264, 72, relu, {}, false});
  REQUIRE(flat.size() == 2);
  CHECK(flat[1].sizes == std::vector<symbolic::Expr>{264, 72});
  CHECK(flat[1].box == std::vector<int>{64, 64});
  CHECK(maps_of({"float32", 260, 264, 72, relu}).empty()); // threads multiply
}

TEST_CASE("batches of products on the host") {
  for (const Batch &each : batches())
    check(each, testing::host_ways());
}

TEST_CASE("batches of products on the GPU", "[gpu]") {
  if (const auto ways = testing::gpu_ways(); !ways.empty())
    for (const Batch &each : batches())
      check(each, ways);
}

TEST_CASE(
    "operands of batches come by bulk copies of three dimensions, or of two if they are shared") {
  const auto maps_of = [](const Batch &each) {
    const driver::Compilation compilation = testing::compile_made(graph_of(each), false);
    REQUIRE(compilation.program.kernels.size() == 1);
    return compilation.program.kernels[0].cuda.maps;
  };
  using Sizes = std::vector<symbolic::Expr>;
  const auto maps = maps_of({"bfloat16", 4, 260, 264, 72, "own", true});
  REQUIRE(maps.size() == 2);
  CHECK(maps[0].sizes == Sizes{72, 260, 4});
  CHECK(maps[0].strides == Sizes{1, 288, 72});
  CHECK(maps[1].sizes == Sizes{264, 72, 4});
  CHECK(maps[1].box == std::vector<int>{64, 64, 1});
  const auto shared = maps_of({"bfloat16", 4, 260, 264, 72, "shared"});
  REQUIRE(shared.size() == 2);
  CHECK(shared[1].sizes == Sizes{264, 72});
}

namespace {

/// A product whose results a draw and a series are applied to, and one whose factor they make.
testing::MadeGraph drawn_products(const std::string &dtype) {
  testing::MadeGraph graph;
  graph.name = "draws and series beside a product of " + dtype;
  graph.inputs = {{"x", dtype, {64, 64}}, {"w", dtype, {64, 72}}, {"b", dtype, {72}}};
  graph.calls = {{"y", "aten.addmm.default", {"$b", "$x", "$w"}},
                 {"dropped", "aten.dropout.default", {"$y", 0.25, true}},
                 {"z", "aten.mm.default", {"$x", "$w"}},
                 {"bessel", "aten.special_i0e.default", {"$z"}},
                 {"some", "aten.dropout.default", {"$x", 0.5, true}},
                 {"wave", "aten.special_i1e.default", {"$some"}},
                 {"of_drawn", "aten.mm.default", {"$wave", "$w"}}};
  graph.outputs = {"dropped", "bessel", "of_drawn"};
  return graph;
}
void check_drawn(const std::vector<runtime::SessionOptions> &ways) {
  for (const char *dtype : {"bfloat16", "float16"}) {
    const testing::MadeGraph graph = drawn_products(dtype);
    testing::check_made(graph, testing::compile_made(graph, false), 0, ways);
  }
}

} // namespace

TEST_CASE("what follows a product or makes its factors draws and calls series") {
  check_drawn(testing::host_ways());
}
TEST_CASE("what follows a product draws and calls series on a GPU", "[gpu]") {
  check_drawn(testing::gpu_ways());
}

TEST_CASE("left operands of a batch are read where they lie on the host") {
  check_filled_batches(testing::host_ways());
}

TEST_CASE("left operands of a batch are read where they lie on the GPU", "[gpu]") {
  if (const auto ways = testing::gpu_ways(); !ways.empty())
    check_filled_batches(ways);
}
