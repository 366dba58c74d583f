// Gradients of the weights of grouped convolutions, whose products are cut along the batch where
// its size is known: against the same in one piece.
#include "made_graph.h"
#include "program/program.h"
#include "testing/catch.h"

#include <variant>

using namespace tsc;
using nlohmann::json;

namespace {

testing::MadeGraph gradient(const std::string &dtype, const std::vector<int64_t> &kernel,
                            const std::vector<int64_t> &padding) {
  const std::vector<int64_t> sizes = {2, 4, 33, 34};
  const int64_t rows = sizes[2] + 2 * padding[0] - kernel[0] + 1,
                columns = sizes[3] + 2 * padding[1] - kernel[1] + 1;
  return {dtype,
          {{"g", dtype, {2, 12, rows, columns}},
           {"x", dtype, sizes},
           {"w", dtype, {12, 2, kernel[0], kernel[1]}}},
          nlohmann::json::array({{"b",
                                  "aten.convolution_backward.default",
                                  {"$g",
                                   "$x",
                                   "$w",
                                   nullptr,
                                   {1, 1},
                                   padding,
                                   {1, 1},
                                   false,
                                   {0, 0},
                                   2,
                                   {false, true, false}}},
                                 {"y", "operator.getitem", {"$b", 1}}}),
          {"y"},
          {}};
}

/// Of the program's one product.
int64_t batch_of(const driver::Compilation &compilation) {
  for (const program::Step &step : compilation.program.steps)
    if (const auto *product = std::get_if<program::Matmul>(&step.kind))
      return product->batch.value();
  return 0;
}

void check_all(const std::vector<runtime::SessionOptions> &ways) {
  for (const testing::MadeGraph &graph :
       {gradient("float16", {3, 3}, {1, 1}), gradient("bfloat16", {3, 2}, {1, 0})}) {
    INFO(graph.name);
    const driver::Compilation parts = testing::compile_made(graph, false);
    testing::MadeGraph without = graph; // kernels of products that are ours
    without.policy_options = {"product_templates=off"};
    const driver::Compilation whole = testing::compile_made(without, false);
    CHECK(batch_of(parts) == 4); // of two groups
    CHECK(batch_of(whole) == 2);
    testing::check_made(graph, parts, whole, 0, ways);
  }
}

/// Of a convolution of one tap whose values come with channels outermost: products of its images.
void check_images(const std::vector<runtime::SessionOptions> &ways) {
  for (const std::string dtype : {"float16", "bfloat16"}) {
    const testing::MadeGraph graph = {dtype,
                                      {{"g", dtype, {3, 24, 16, 17}},
                                       {"x", dtype, {3, 16, 16, 17}},
                                       {"w", dtype, {24, 16, 1, 1}}},
                                      json::array({{"b",
                                                    "aten.convolution_backward.default",
                                                    {"$g",
                                                     "$x",
                                                     "$w",
                                                     {24},
                                                     {1, 1},
                                                     {0, 0},
                                                     {1, 1},
                                                     false,
                                                     {0, 0},
                                                     1,
                                                     {true, true, true}}},
                                                   {"u", "operator.getitem", {"$b", 0}},
                                                   {"v", "operator.getitem", {"$b", 1}},
                                                   {"s", "operator.getitem", {"$b", 2}}}),
                                      {"u", "v", "s"},
                                      {}};
    const driver::Compilation compilation = testing::compile_made(graph, false);
    int64_t images = 0;
    for (const program::Step &step : compilation.program.steps)
      if (const auto *product = std::get_if<program::Matmul>(&step.kind))
        images += product->batch.value() == 3 ? 1 : 0;
    CHECK(images == 2);
    testing::check_made(graph, compilation, 0, ways);
  }
}

} // namespace

TEST_CASE("gradients of one tap are products of images on the host") {
  check_images(testing::host_ways());
}

TEST_CASE("gradients of one tap are products of images on the GPU", "[gpu]") {
  if (const auto ways = testing::gpu_ways(); !ways.empty())
    check_images(ways);
}

TEST_CASE("gradients of grouped weights are sums over parts of the batch on the host") {
  check_all(testing::host_ways());
}

TEST_CASE("gradients of grouped weights are sums over parts of the batch on the GPU", "[gpu]") {
  if (const auto ways = testing::gpu_ways(); !ways.empty())
    check_all(ways);
}
