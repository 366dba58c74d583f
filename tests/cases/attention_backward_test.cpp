// The backward pass of attention in two kernels: held to its products and sums in float32, which
// the same graph has without the kernels. Lengths that fill no tile, every kind of tile, masks,
// grouped heads, PyTorch's four forms, a symbolic batch, operands that lie otherwise.
#include "made_graph.h"
#include "testing/catch.h"

#include <algorithm>

using namespace tsc;
using nlohmann::json;

namespace {

struct Case {
  int64_t depth, rows, keys;
  bool causal = false;
  std::string mask; // its dtype; "": none
  int64_t heads = 2, key_heads = 2;
  std::string dtype = "bfloat16";
  bool turned = false; // operands are [batch, length, heads, depth] in memory
};

testing::MadeGraph graph_of(const Case &each) {
  testing::MadeGraph graph;
  graph.calls = json::array();
  const auto add = [&](const std::string &name, int64_t heads, int64_t length) {
    if (!each.turned) {
      graph.inputs.push_back({name, each.dtype, {2, heads, length, each.depth}});
      return;
    }
    graph.inputs.push_back({name + "_lies", each.dtype, {2, length, heads, each.depth}});
    graph.calls.push_back({name, "aten.permute.default", {"$" + name + "_lies", {0, 2, 1, 3}}});
  };
  add("q", each.heads, each.rows);
  add("k", each.key_heads, each.keys);
  add("v", each.key_heads, each.keys);
  add("above", each.heads, each.rows);
  json keywords = json::object();
  if (each.mask == "bool") { // hides about half
    graph.inputs.push_back({"m", "float32", {each.rows, each.keys}});
    graph.calls.push_back({"mask", "aten.gt.Scalar", {"$m", 0.0}});
    keywords["attn_mask"] = {{"node", "mask"}};
  } else if (!each.mask.empty()) {
    graph.inputs.push_back({"m", each.mask, {2, 1, each.rows, each.keys}});
    keywords["attn_mask"] = {{"node", "m"}};
  }
  const std::string form = "aten._scaled_dot_product_flash_attention_for_cpu";
  graph.calls.push_back(
      {"pair", form + ".default", {"$q", "$k", "$v", 0.0, each.causal}, keywords});
  graph.calls.push_back({"out", "operator.getitem", {"$pair", 0}});
  graph.calls.push_back({"sums", "operator.getitem", {"$pair", 1}});
  graph.calls.push_back({"all",
                         form + "_backward.default",
                         {"$above", "$q", "$k", "$v", "$out", "$sums", 0.0, each.causal},
                         keywords});
  graph.outputs = {"out", "sums"};
  for (const int i : {0, 1, 2}) {
    const std::string name = "gradient" + std::to_string(i);
    graph.calls.push_back({name, "operator.getitem", {"$all", i}});
    graph.outputs.push_back(name);
  }
  graph.name = "depth " + std::to_string(each.depth) + ", " + std::to_string(each.rows) + " x " +
               std::to_string(each.keys) + ", " + each.mask + (each.causal ? " causal" : "") +
               (each.turned ? " turned" : "");
  return graph;
}

size_t kernels_of(const driver::Compilation &compilation, const std::string &text) {
  size_t count = 0;
  for (const program::Kernel &kernel : compilation.program.kernels)
    count += kernel.cuda.text.find(text) != std::string::npos;
  return count;
}

bool is_masked(const testing::MadeGraph &graph) {
  return std::any_of(graph.inputs.begin(), graph.inputs.end(),
                     [](const testing::MadeInput &input) { return input.name == "m"; });
}

/// Kernels on `ways` against the same graph without them: those by groups of warps, which take no
/// mask, in both forms; those of other devices.
void check(const testing::MadeGraph &graph, bool is_dynamic, const std::vector<int64_t> &batches,
           const std::vector<runtime::SessionOptions> &ways) {
  INFO(graph.name);
  testing::MadeGraph in_order = graph, products = graph;
  in_order.policy_options = {"deterministic=on"};
  products.policy_options = {"fused_attention=off"};
  const driver::Compilation compilation = testing::compile_made(graph, is_dynamic),
                            ordered = testing::compile_made(in_order, is_dynamic),
                            apart = testing::compile_made(products, is_dynamic);
  const bool by_groups = !is_masked(graph);
  const size_t one = by_groups ? 1 : 0;
  CHECK(kernels_of(compilation, "tc_attention_backward_start<") == one);
  CHECK(kernels_of(compilation, "tc_backward_form::gathered") == one);
  CHECK(kernels_of(compilation, "tc_attention_backward_round<") == one);
  CHECK(kernels_of(compilation, "tc_attention_backward<") == 2 - 2 * one);
  CHECK(kernels_of(ordered, "tc_backward_form::gathered") == 0);
  CHECK(kernels_of(ordered, "tc_backward_form::keys") == one);
  CHECK(kernels_of(ordered, "tc_backward_form::queries") == one);
  CHECK(kernels_of(ordered, "tc_attention_backward<") == 2 - 2 * one);
  CHECK(kernels_of(apart, "tc_attention") == 0);
  for (const int64_t batch : batches) {
    testing::check_made(graph, compilation, apart, batch, ways);
    if (by_groups)
      testing::check_made(graph, ordered, apart, batch, ways);
  }
}

std::vector<Case> cases() {
  return {{64, 70, 77},
          {128, 65, 90, true},
          {40, 133, 37, true, "", 4, 2, "float16"},
          {96, 50, 130, false, "", 6, 2},
          {8, 33, 40, false, "float32"},
          {64, 70, 66, true, "bfloat16"},
          {128, 40, 70, false, "bool", 2, 1},
          {64, 100, 60, true, "", 2, 2, "bfloat16", true}};
}

/// Several blocks of rows and of keys, for the GPU.
std::vector<Case> large() {
  return {{128, 700, 600, true, "", 4, 2}, {64, 513, 777, false, "", 6, 3},
          {112, 300, 257, true},           {72, 257, 300, false, "float32"},
          {128, 300, 300, true, "bool"},   {64, 640, 640, true, "", 4, 1, "float16", true}};
}

void check_all(const std::vector<Case> &list, const std::vector<runtime::SessionOptions> &ways) {
  for (const Case &each : list)
    check(graph_of(each), false, {0}, ways);
}

/// The forms of a GPU: their logarithmic sums have rows that fill up, or a dimension of one.
testing::MadeGraph form_of(const std::string &name) {
  const bool efficient = name == "efficient";
  const std::string form = "aten._scaled_dot_product_" + name + "_attention";
  const std::vector<int64_t> sizes = {2, 2, 45, 32};
  testing::MadeGraph graph{name, {}, json::array(), {"gradient0", "gradient1", "gradient2"}, {}};
  for (const char *input : {"q", "k", "v", "above"})
    graph.inputs.push_back({input, "float16", sizes});
  json forward = {"$q", "$k", "$v"}, backward = {"$above", "$q", "$k", "$v"};
  const auto append = [](json &list, const json &more) {
    list.insert(list.end(), more.begin(), more.end());
  };
  if (efficient) {
    graph.inputs.push_back({"m", "float16", {2, 2, 45, 45}});
    append(forward, {"$m", true, 0.0, true});
    append(backward, {"$m", "$r0", "$r1", "$r2", "$r3", 0.0, {true, true, true, false}, true});
  } else if (name == "flash") {
    append(forward, {0.0, true, false});
    append(backward, {"$r0", "$r1", nullptr, nullptr, 45, 45, 0.0, true, "$r6", "$r7"});
  } else {
    append(forward, {nullptr, true, 0.0, true, false});
    append(backward, {"$r0", "$r1", "$r6", "$r7", nullptr, nullptr, nullptr, 45, 45, 0.0, true});
  }
  graph.calls.push_back({"r", form + ".default", forward});
  for (const int i : efficient ? std::vector<int>{0, 1, 2, 3} : std::vector<int>{0, 1, 6, 7})
    graph.calls.push_back({"r" + std::to_string(i), "operator.getitem", {"$r", i}});
  graph.calls.push_back({"all", form + "_backward.default", backward});
  for (const int i : {0, 1, 2})
    graph.calls.push_back({"gradient" + std::to_string(i), "operator.getitem", {"$all", i}});
  return graph;
}

void check_forms(const std::vector<runtime::SessionOptions> &ways) {
  for (const char *name : {"flash", "efficient", "cudnn"})
    check(form_of(name), false, {0}, ways);
}

/// The batch is a symbol: that of every operand, which are parts of one input.
void check_batches(const std::vector<runtime::SessionOptions> &ways) {
  testing::MadeGraph graph = graph_of({32, 50, 50, true});
  graph.name = "a batch that a run decides";
  graph.inputs = {{"x", "bfloat16", {2, 2, 50, 4 * 32}}};
  json calls = json::array();
  int64_t from = 0;
  for (const char *name : {"q", "k", "v", "above"}) {
    calls.push_back({name, "aten.slice.Tensor", {"$x", 3, from, from + 32}});
    from += 32;
  }
  calls.insert(calls.end(), graph.calls.begin(), graph.calls.end());
  graph.calls = calls;
  check(graph, true, {2, 5}, ways);
}

} // namespace

TEST_CASE("attention's backward kernel by groups is planned with its maps and its memory") {
  const driver::Compilation compilation =
      testing::compile_made(graph_of({96, 300, 500, true}), false);
  const auto kernel = std::find_if(
      compilation.program.kernels.begin(), compilation.program.kernels.end(), [](const auto &each) {
        return each.cuda.text.find("tc_attention_backward_groups<") != std::string::npos;
      });
  REQUIRE(kernel != compilation.program.kernels.end());
  CHECK(kernel->cuda.text.find("__launch_bounds__(384, 1)") != std::string::npos);
  CHECK(kernel->cuda.block[0] == 384);
  // 4 blocks of 128 keys of 2 heads of 2 batches, fewer than multiprocessors.
  CHECK(kernel->cuda.grid[0].is_integer(16));
  CHECK(kernel->cuda.shared_bytes.is_integer(198912));
  REQUIRE(kernel->cuda.maps.size() == 4);
  const std::vector<int64_t> rows = {64, 128, 128, 64}, lengths = {300, 500, 500, 300};
  for (size_t i = 0; i < 4; ++i) {
    const program::TensorMap &map = kernel->cuda.maps[i];
    CHECK(map.box == std::vector<int>{64, static_cast<int>(rows[i]), 1, 1});
    CHECK(map.sizes[0].is_integer(96));
    CHECK(map.sizes[1].is_integer(lengths[i]));
    CHECK(map.strides[2].is_integer(lengths[i] * 96));
    CHECK(kernel->parameters[map.parameter].is_const);
  }
  CHECK(kernel->serial.text.find("TC_TENSOR_MAP") == std::string::npos);
}

TEST_CASE("attention's backward kernels on the host") { check_all(cases(), testing::host_ways()); }
TEST_CASE("attention's backward kernels on the GPU", "[gpu]") {
  if (const auto ways = testing::gpu_ways(); !ways.empty()) {
    check_all(cases(), ways);
    check_all(large(), ways);
  }
}

TEST_CASE("attention's backward kernels take every form on the host") {
  check_forms(testing::host_ways());
}
TEST_CASE("attention's backward kernels take every form on the GPU", "[gpu]") {
  if (const auto ways = testing::gpu_ways(); !ways.empty())
    check_forms(ways);
}

TEST_CASE("attention's backward kernels take a batch whose size a run decides on the host") {
  check_batches(testing::host_ways());
}
TEST_CASE("attention's backward kernels take a batch whose size a run decides on the GPU",
          "[gpu]") {
  if (const auto ways = testing::gpu_ways(); !ways.empty())
    check_batches(ways);
}
