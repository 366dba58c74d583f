// Every tile of the product template and of the attention template compiles as the CUDA device
// compiles it, for Hopper and for what has no wgmma, without a warning or a spill (but for what
// is said below).
#include "codegen/generate.h"
#include "driver/compile.h"
#include "graph/read.h"
#include "scheduler/cost.h"
#include "testing/catch.h"
#include "testing/nvrtc.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <map>
#include <memory>
#include <regex>
#include <string>
#include <vector>

using namespace tsc;
using nlohmann::json;

namespace {

json reference(const std::string &name) { return {{"node", name}}; }

json input(const std::string &name, const std::string &dtype, const std::vector<int64_t> &sizes) {
  return {{"name", name}, {"op", "placeholder"}, {"val", {{"dtype", dtype}, {"size", sizes}}}};
}

json call(const std::string &name, const std::string &target, const json &args,
          const json &kwargs = json::object()) {
  return {{"name", name},
          {"op", "call_function"},
          {"target", target},
          {"args", args},
          {"kwargs", kwargs}};
}

/// A graph whose last node is what it returns.
driver::Compilation compile(json nodes, target::Tf32 tf32 = target::Tf32::off,
                            std::string_view arch = "sm_90", bool deterministic = false,
                            const json &subgraphs = json::object()) {
  nodes.push_back({{"name", "output"},
                   {"op", "output"},
                   {"args", json::array({json::array({reference(nodes.back().at("name"))})})}});
  const json graph = {
      {"format", "tsc-graph"}, {"version", 1}, {"subgraphs", subgraphs}, {"nodes", nodes}};
  driver::CompileOptions options;
  options.tf32 = tf32;
  options.arch = arch;
  options.deterministic = deterministic;
  return driver::compile(graph::parse_graph(graph.dump(), "template.json"), options);
}

/// Bytes that the kernel keeps in memory for want of registers, once a thread.
int spilled(const std::string &log) {
  int bytes = 0;
  const std::regex stores("([0-9]+) bytes spill stores");
  for (std::sregex_iterator at(log.begin(), log.end(), stores), end; at != end; ++at)
    bytes = std::max(bytes, std::stoi((*at)[1]));
  return bytes;
}

/// `allowed`: bytes that kernels may spill, by architecture.
void check(const program::Program &program, const std::string &what,
           const std::map<std::string, int> &allowed) {
  for (const program::Kernel &kernel : program.kernels)
    for (const auto &[arch, bytes] : allowed) {
      const testing::NvrtcUnit unit = testing::compile_with_nvrtc(kernel.cuda.text, arch);
      INFO(what << " for " << arch << ": " << kernel.name << "\n" << unit.log.c_str());
      CHECK(spilled(unit.log) <= bytes);
      CHECK(unit.log.find("warning") == std::string::npos);
      CHECK(unit.log.find("serialized") == std::string::npos); // products by wgmma
    }
}

/// A convolution of windows of x, with channels innermost, `step` apart: the product's left
/// operand, read where it lies.
json windows_of(int64_t step) {
  const int64_t size = 56, results = size / step;
  json image = input("x", "float16", {64, 64, size, size});
  image["val"]["stride"] = {size * size * 64, 1, size * 64, 64};
  json result = input("x", "float16", {64, 64, results, results});
  result["val"]["stride"] = {results * results * 64, 1, results * 64, 64};
  json convolution = call("product", "aten.convolution.default",
                          {reference("x"),
                           reference("w"),
                           reference("bias"),
                           {step, step},
                           {1, 1},
                           {1, 1},
                           false,
                           {0, 0},
                           1});
  json activated = call("relu", "aten.relu.default", json::array({reference("product")}));
  convolution["val"] = activated["val"] = result["val"];
  return {image, input("w", "float16", {64, 64, 3, 3}), input("bias", "float16", {64}), convolution,
          activated};
}

/// Products with something after them, and before: the operands along rows and along columns.
std::map<std::string, json> products() {
  const json x = input("x", "float16", {4096, 256}), bias = input("bias", "float16", {256});
  const json relu = call("relu", "aten.relu.default", json::array({reference("product")}));
  std::map<std::string, json> graphs;
  graphs["rows, bias and relu"] = {
      x, input("w", "float16", {256, 256}), bias,
      call("product", "aten.addmm.default", {reference("bias"), reference("x"), reference("w")}),
      relu};
  graphs["columns, residual"] = {
      input("x", "bfloat16", {4096, 256}),
      input("w", "bfloat16", {256, 256}),
      input("residual", "bfloat16", {4096, 256}),
      call("turned", "aten.permute.default", {reference("w"), {1, 0}}),
      call("product", "aten.mm.default", {reference("x"), reference("turned")}),
      call("sum", "aten.add.Tensor", {reference("product"), reference("residual")})};
  graphs["windows of a convolution"] = windows_of(2);
  json wide = windows_of(1);
  for (json &node : wide)
    node["val"]["dtype"] = "float32";
  graphs["windows of a convolution, float32"] = wide;
  return graphs;
}

} // namespace

namespace {

/// Compiles the graph's one product with each of the tiles; `allowed`: bytes that a tile may spill,
/// by architecture.
size_t check_tiles(const std::string &name, const driver::Compilation &compilation,
                   scheduler::ProductWork::Factors factors,
                   std::map<std::string, int> (*allowed)(const scheduler::ProductTile &),
                   bool gathers = false) {
  const target::Target &hopper = target::find_target("sm_90");
  scheduler::ProductWork work{4096, 256, 256};
  work.factors = factors;
  work.gathers = gathers;
  size_t tiles = 0;
  for (const scheduler::ProductWay &way : scheduler::template_ways(hopper, work)) {
    scheduler::Schedule schedule = compilation.schedule;
    size_t products = 0;
    for (scheduler::Group &group : schedule.groups)
      if (group.parts) {
        scheduler::TemplateParts parts = *group.parts;
        parts.candidate = way.tile;
        group.parts = std::make_shared<const scheduler::TemplateParts>(parts);
        ++products;
      }
    REQUIRE(products == 1); // else the template is not what is compiled
    check(codegen::generate(compilation.module, schedule, {&hopper}), name + ", " + way.name,
          allowed(way.tile));
    ++tiles;
  }
  return tiles;
}

} // namespace

TEST_CASE("every tile of the product template compiles for sm_80 and sm_90a") {
  using Factors = scheduler::ProductWork::Factors;
  // Known to spill (304 and 16 bytes a thread at most): without wgmma a thread holds the sums
  // of its part of a wide tile and what ldmatrix gives it of the operands; no policy chooses
  // the template there (Policy::product_templates is for Hopper). On Hopper two blocks a
  // multiprocessor leave each thread 128 registers, of which 64 are sums at 128 columns.
  const auto wide = [](const scheduler::ProductTile &tile) {
    const bool wide = tile.columns > 64;
    return std::map<std::string, int>{{"sm_80", wide ? 480 : 0}, {"sm_90", wide ? 16 : 0}};
  };
  for (const auto &[name, nodes] : products()) {
    INFO(name);
    if (nodes[0]["val"]["dtype"] == "float32") {
      const auto none = [](const scheduler::ProductTile &) {
        return std::map<std::string, int>{{"sm_80", 0}, {"sm_90", 0}};
      };
      CHECK(check_tiles(name, compile(nodes), Factors::single, none) == 5);
      // Two blocks a multiprocessor leave each thread 128 registers, of which 64 are sums; and see
      // above for sm_80.
      const auto few = [](const scheduler::ProductTile &) {
        return std::map<std::string, int>{{"sm_80", 96}, {"sm_90", 24}};
      };
      const driver::Compilation rounded = compile(nodes, target::Tf32::conv);
      CHECK(check_tiles(name, rounded, Factors::tf32, few, true) == 3);
      CHECK(check_tiles(name, rounded, Factors::tf32, wide) == 5);
      continue;
    }
    CHECK(check_tiles(name, compile(nodes), Factors::half, wide) == 9);
  }
  // In steps of one what they slide over comes once: the tile follows from the sizes.
  const driver::Compilation once = compile(windows_of(1));
  CHECK(std::any_of(once.program.kernels.begin(), once.program.kernels.end(),
                    [](const program::Kernel &kernel) {
                      return kernel.cuda.text.find("tc_product_by_halo<") != std::string::npos;
                    }));
  check(once.program, "windows that are brought once", {{"sm_80", 0}, {"sm_90", 0}});
  // As torch._scaled_mm has them: the second factor's columns lie beside each other in memory.
  const json scaled = {input("x", "float8_e4m3fn", {4096, 256}),
                       input("w", "float8_e4m3fn", {256, 256}),
                       input("s", "float32", {4096, 1}),
                       input("t", "float32", {1, 256}),
                       call("turned", "aten.permute.default", {reference("w"), {1, 0}}),
                       call("y", "aten._scaled_mm.default",
                            {reference("x"), reference("turned"), reference("s"), reference("t")},
                            {{"out_dtype", {{"dtype", "bfloat16"}}}})};
  // Without wgmma each factor is two of 16 bits; on Hopper nothing spills.
  const auto two = [](const scheduler::ProductTile &) {
    return std::map<std::string, int>{{"sm_80", 480}, {"sm_90", 0}};
  };
  CHECK(check_tiles("8-bit floats", compile(scaled), Factors::byte, two) == 8);
}

TEST_CASE("every tile of the attention template compiles for sm_80 and sm_90a without spills") {
  // Depths of every kind of tiles, whole and not; rows that two, three and four groups compute;
  // masks that come in runs and that do not.
  const std::vector<std::pair<int64_t, int64_t>> shapes = {
      {16, 192}, {16, 256}, {32, 192},  {40, 128},  {64, 192},
      {64, 256}, {80, 192}, {128, 192}, {192, 192}, {256, 192}};
  for (const auto &[depth, rows] : shapes)
    for (const std::string mask : {"", "causal", "bfloat16", "float32", "bool"}) {
      if (rows == 256 && !mask.empty() && mask != "causal")
        continue; // two groups, as of 192 rows
      const int64_t keys = mask == "bool" && depth == 40 ? 191 : 192;
      json nodes = json::array({input("q", "bfloat16", {2, 66, rows, depth})});
      for (const char *name : {"k", "v"})
        nodes.push_back(input(name, "bfloat16", {2, 66, keys, depth}));
      const bool with_tensor = !mask.empty() && mask != "causal";
      json arguments = {reference("q"), reference("k"), reference("v")};
      if (with_tensor) {
        nodes.push_back(input("mask", mask, {2, 1, rows, keys}));
        arguments.push_back(reference("mask"));
      }
      nodes.push_back(call("y", "aten.scaled_dot_product_attention.default", arguments,
                           {{"is_causal", mask == "causal"}}));
      const std::string what = "depth " + std::to_string(depth) + ", mask " + mask;
      INFO(what);
      if (depth <= 128) {
        const program::Program program = compile(nodes, target::Tf32::off, "sm_80").program;
        REQUIRE(program.kernels.size() == 1);
        CHECK(program.kernels[0].cuda.text.find("tc_attention<") != std::string::npos);
        check(program, what, {{"sm_80", 0}, {"sm_90", 0}});
      }
      const program::Program program = compile(nodes).program;
      REQUIRE(program.kernels.size() == 1);
      CHECK(program.kernels[0].cuda.text.find("tc_attention_by_groups<") != std::string::npos);
      // What is kept from one item to the next may go to memory, what a step needs may not. Where
      // the program meets a device without wgmma, it is slow and right.
      check(program, what, {{"sm_80", 4000}, {"sm_90", 48}});
    }
}

TEST_CASE("attention's backward kernels compile for sm_80 and sm_90a without spills") {
  for (const int64_t depth : {40, 64, 96, 128})
    for (const std::string mask : {"", "causal", "float32"}) {
      json nodes = json::array();
      for (const char *name : {"q", "k", "v", "above", "out"})
        nodes.push_back(input(name, "bfloat16", {2, 4, 192, depth}));
      nodes.push_back(input("sums", "float32", {2, 4, 192}));
      json keywords = json::object();
      if (!mask.empty() && mask != "causal") {
        nodes.push_back(input("mask", mask, {2, 1, 192, 192}));
        keywords["attn_mask"] = reference("mask");
      }
      nodes.push_back(call("all",
                           "aten._scaled_dot_product_flash_attention_for_cpu_backward.default",
                           {reference("above"), reference("q"), reference("k"), reference("v"),
                            reference("out"), reference("sums"), 0.0, mask == "causal"},
                           keywords));
      for (const int i : {0, 1, 2})
        nodes.push_back(call("r" + std::to_string(i), "operator.getitem", {reference("all"), i}));
      json sum = call("both", "aten.add.Tensor", {reference("r0"), reference("r1")});
      nodes.push_back(sum);
      nodes.push_back(call("y", "aten.add.Tensor", {reference("both"), reference("r2")}));
      const std::string what = "depth " + std::to_string(depth) + ", mask " + mask;
      INFO(what);
      const auto kernels_of = [](const program::Program &program, const std::string &text) {
        return std::count_if(program.kernels.begin(), program.kernels.end(),
                             [&](const program::Kernel &kernel) {
                               return kernel.cuda.text.find(text) != std::string::npos;
                             });
      };
      const bool by_groups = mask != "float32"; // on Hopper
      for (const bool deterministic : {false, true}) {
        if (!by_groups && deterministic)
          continue;
        const program::Program program =
            compile(nodes, target::Tf32::off, "sm_90", deterministic).program;
        const int groups = !by_groups ? 0 : deterministic ? 2 : 1;
        REQUIRE(kernels_of(program, "tc_attention_backward_groups<") == groups);
        // The thread that starts bulk copies has few registers, those that compute spill nothing;
        // on another device than it was planned for, a kernel is slow and right.
        if (by_groups)
          check(program, what + ", by groups", {{"sm_80", 4000}, {"sm_90", 80}});
      }
      const program::Program program =
          compile(nodes, target::Tf32::off, by_groups ? "sm_80" : "sm_90").program;
      REQUIRE(kernels_of(program, "tc_attention_backward<") == 2);
      // Sums of deep heads leave a few registers: what is kept from one step to the next may go to
      // memory, a few words of it.
      const int allowed = depth > 64 ? 40 : 0;
      check(program, what, {{"sm_80", allowed}, {"sm_90", allowed}});
    }
}

namespace {

/// Two rows of `length` sorted: of the values, where they were, or both.
program::Program sort_of(const std::string &dtype, const json &length, const std::string &results) {
  json graph = {{"format", "tsc-graph"}, {"version", 1}};
  json x = input("x", dtype, {2, 2});
  x["val"]["size"][1] = length;
  if (length.is_string())
    graph["symbols"] = {{length.get<std::string>(), {2, nullptr}}};
  graph["nodes"] = {x, call("y", "aten.sort.default", {reference("x"), 1, results == "both"})};
  json outputs = json::array();
  for (const auto &[item, without] : {std::pair(0, "positions"), std::pair(1, "values")}) {
    if (results == without)
      continue;
    const std::string name = "r" + std::to_string(item);
    graph["nodes"].push_back(call(name, "operator.getitem", {reference("y"), item}));
    outputs.push_back(reference(name));
  }
  graph["nodes"].push_back(
      {{"name", "output"}, {"op", "output"}, {"args", json::array({outputs})}});
  return driver::compile(graph::parse_graph(graph.dump(), "sort.json"), {}).program;
}

} // namespace

TEST_CASE("sums of rows compile for rows of every width") {
  for (const char *dtype : {"float16", "bfloat16", "float32", "float64"})
    for (const int64_t columns : {63, 66, 505, 512}) {
      const driver::Compilation compilation =
          compile({input("x", dtype, {19918, columns}), input("at", "int64", {19918}),
                   call("sums", "aten.embedding_dense_backward.default",
                        {reference("x"), reference("at"), 113, -1, false})});
      std::string text;
      for (const program::Kernel &kernel : compilation.program.kernels)
        text += kernel.cuda.text;
      INFO(dtype << ", " << columns << " columns");
      CHECK(text.find("tc_sum_rows<") != std::string::npos);
      const testing::NvrtcUnit unit = testing::compile_with_nvrtc(text, "sm_90");
      CHECK(spilled(unit.log) == 0);
    }
}

TEST_CASE("sorts by digits compile for sm_80 and sm_90a without spills") {
  // Every size of elements and every kind of keys; positions of 32 bits, and of 64.
  for (const char *dtype : {"bool", "int16", "int64", "bfloat16", "float32", "float64"}) {
    std::map<std::string, std::string> texts; // of kernels by name
    const std::vector<std::pair<json, std::string>> asked = {
        {300000, "both"}, {300000, "values"}, {"s0", "positions"}};
    for (const auto &[length, results] : asked)
      for (const program::Kernel &kernel : sort_of(dtype, length, results).kernels)
        texts[kernel.name] = kernel.cuda.text;
    std::string unit;
    for (const auto &[name, text] : texts)
      unit += text;
    CHECK(unit.find("tc_radix_move<") != std::string::npos);
    for (const char *arch : {"sm_80", "sm_90"}) {
      const testing::NvrtcUnit compiled = testing::compile_with_nvrtc(unit, arch);
      INFO(dtype << " for " << arch << "\n" << compiled.log.c_str());
      CHECK(spilled(compiled.log) == 0);
      CHECK(compiled.log.find("warning") == std::string::npos);
    }
  }
}

namespace {

/// A graph of single elements that yields its last node.
json function(std::vector<std::string> elements, const std::vector<json> &calls) {
  json nodes = json::array();
  for (const std::string &name : elements)
    nodes.push_back(input(name, name == "s" ? "float32" : "int32", {}));
  nodes.push_back(input("table", "float32", {4, 383}));
  for (const json &each : calls)
    nodes.push_back(each);
  nodes.push_back(
      {{"name", "output"}, {"op", "output"}, {"args", {reference(calls.back().at("name"))}}});
  return {{"nodes", nodes}};
}

} // namespace

TEST_CASE("attention compiles for sm_80 and sm_90a with functions at the scores") {
  const json sub = call("apart", "aten.sub.Tensor", {reference("i"), reference("j")});
  const json subgraphs = {
      {"score",
       function({"s", "b", "h", "i", "j"},
                {sub, call("at", "aten.add.Tensor", {reference("apart"), 191}),
                 call("bias", "aten.index.Tensor",
                      json::array({reference("table"), {reference("h"), reference("at")}})),
                 call("sum", "aten.add.Tensor", {reference("s"), reference("bias")}),
                 call("tanh", "aten.tanh.default", json::array({reference("sum")}))})},
      {"mask", function({"b", "h", "i", "j"},
                        {call("seen", "aten.ge.Tensor", {reference("i"), reference("j")})})}};
  for (const int64_t depth : {40, 64, 128, 256})
    for (const bool lists : {false, true}) {
      json nodes = json::array({input("q", "bfloat16", {2, 4, 192, depth})});
      for (const char *name : {"k", "v"})
        nodes.push_back(input(name, "bfloat16", {2, 4, 192, depth}));
      nodes.push_back(input("table", "float32", {4, 383}));
      json mask = json::array();
      if (lists) {
        nodes.push_back(input("counts", "int32", {1, 1, 2}));
        nodes.push_back(input("places", "int32", {1, 1, 2, 2}));
        const json counts = reference("counts"), places = reference("places");
        mask = {192, 192, counts, places, counts, places, nullptr, nullptr, nullptr, nullptr};
      }
      mask.insert(mask.end(), {128, 128, {{"graph", "mask"}}});
      const json others = json::array({reference("table")});
      nodes.push_back(call("flex", "higher_order.flex_attention",
                           {reference("q"),
                            reference("k"),
                            reference("v"),
                            {{"graph", "score"}},
                            mask,
                            0.125,
                            {{"dict", json::object()}},
                            others,
                            others}));
      nodes.push_back(call("y", "operator.getitem", {reference("flex"), 0}));
      const std::string what =
          "functions, depth " + std::to_string(depth) + (lists ? ", lists of blocks" : "");
      INFO(what);
      if (depth <= 128) {
        const program::Program program =
            compile(nodes, target::Tf32::off, "sm_80", false, subgraphs).program;
        REQUIRE(program.kernels.size() == 1);
        check(program, what, {{"sm_80", 0}, {"sm_90", 0}});
      }
      const program::Program program =
          compile(nodes, target::Tf32::off, "sm_90", false, subgraphs).program;
      REQUIRE(program.kernels.size() == 1);
      // Sums of 128 elements and more, and scores that are changed side by side, leave few
      // registers: two words may go to memory.
      check(program, what, {{"sm_90", depth > 64 ? 8 : 0}});
    }
}
