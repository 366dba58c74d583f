// Products whose weights memory holds in 8 or 4 bits; rows in sections, each with a matrix of its
// own; products of 8-bit integers.
#include "made_graph.h"
#include "target/target.h"
#include "testing/catch.h"

#include <algorithm>

using namespace tsc;
using nlohmann::json;

namespace {

json dtype(const std::string &name) { return {{"dtype", name}}; }
json to(const std::string &name) { return {{"dtype", dtype(name)}}; }
json call(const std::string &name, const std::string &target, const json &arguments,
          const json &keywords = json::object()) {
  return keywords.empty() ? json{name, target, arguments} : json{name, target, arguments, keywords};
}

/// Weights [columns, terms] in `packing`, what takes them to `type` with a scale for each column
/// (and group of terms), and their product with `rows` rows.
struct Packed {
  std::string packing, type;
  int64_t rows, columns, terms, group; // group 0: one scale a column
};
testing::MadeGraph graph_of(const Packed &p) {
  testing::MadeGraph graph;
  graph.name = p.packing;
  const int64_t groups = p.group == 0 ? 1 : p.terms / p.group;
  graph.inputs = {{"x", p.type, {p.rows, p.terms}, -0.5, 0.5},
                  {"s", p.type, {p.columns, groups, 1}, 0.01, 0.1},
                  {"b", p.type, {p.columns}}};
  json calls = json::array();
  if (p.packing == "int4") {
    graph.inputs.push_back({"w", "uint8", {p.columns, p.terms / 2}, 0, 255});
    calls.push_back(call("low", "aten.bitwise_and.Scalar", {"$w", 15}));
    calls.push_back(call("high", "aten.bitwise_right_shift.Tensor_Scalar", {"$w", 4}));
    calls.push_back(call("codes", "aten.stack.default", {json{"$low", "$high"}, -1}));
  } else if (p.packing == "words") {
    graph.inputs.push_back({"w", "int32", {p.columns, p.terms / 8}, 0, 2147483647.0});
    calls.push_back(call("places", "aten.arange.start_step", {0, 32, 4}, to("int32")));
    calls.push_back(call("each", "aten.unsqueeze.default", {"$w", -1}));
    calls.push_back(call("moved", "aten.bitwise_right_shift.Tensor", {"$each", "$places"}));
    calls.push_back(call("codes", "aten.bitwise_and.Scalar", {"$moved", 15}));
  } else {
    graph.inputs.push_back({"codes", p.packing, {p.columns, p.terms}, -2, 2});
    if (p.packing == "int8" || p.packing == "uint8") {
      graph.inputs.back().low = p.packing == "int8" ? -128 : 0;
      graph.inputs.back().high = p.packing == "int8" ? 127 : 255;
    }
  }
  calls.push_back(call("wide", "aten._to_copy.default", {"$codes"}, to(p.type)));
  calls.push_back(
      call("grouped", "aten.view.default", {"$wide", json{p.columns, groups, p.terms / groups}}));
  calls.push_back(call("from", "aten.sub.Tensor", {"$grouped", 3}));
  calls.push_back(call("scaled", "aten.mul.Tensor", {"$from", "$s"}));
  calls.push_back(call("weight", "aten.view.default", {"$scaled", json{p.columns, p.terms}}));
  calls.push_back(call("turned", "aten.permute.default", {"$weight", json{1, 0}}));
  calls.push_back(call("product", "aten.mm.default", {"$x", "$turned"}));
  calls.push_back(call("sum", "aten.add.Tensor", {"$product", "$b"}));
  calls.push_back(call("y", "aten.relu.default", {"$sum"}));
  graph.calls = calls;
  graph.outputs = {"y"};
  return graph;
}

std::string plans_of(const driver::Compilation &compilation) {
  std::string plans;
  for (const program::Kernel &kernel : compilation.program.kernels)
    plans += kernel.plan + "\n";
  return plans;
}

/// Odd columns, terms that are no whole steps of a block, one row and many; `more`: sizes that fill
/// a GPU's blocks and clusters, too.
void check_packed(const std::vector<runtime::SessionOptions> &ways, bool more) {
  std::vector<Packed> all = {
      {"int8", "bfloat16", 1, 264, 96, 0},           {"int8", "float16", 17, 520, 416, 0},
      {"uint8", "bfloat16", 8, 136, 160, 32},        {"int4", "bfloat16", 3, 264, 352, 32},
      {"int4", "float16", 33, 136, 192, 16},         {"words", "bfloat16", 5, 72, 256, 64},
      {"float8_e4m3fn", "bfloat16", 16, 40, 112, 0}, {"float8_e5m2", "float16", 64, 200, 64, 0},
      {"float32", "bfloat16", 9, 104, 88, 0},        {"int8", "bfloat16", 5, 72, 104, 0}};
  if (more)
    all.insert(all.end(), {{"int8", "bfloat16", 1, 4104, 4096, 0},
                           {"int8", "bfloat16", 64, 3000, 5504, 0},
                           {"int4", "bfloat16", 16, 2056, 2080, 32},
                           {"int4", "bfloat16", 1, 3000, 4096, 32},
                           {"float8_e4m3fn", "float16", 40, 1032, 11008, 0},
                           {"words", "float16", 2, 1032, 4096, 128}});
  for (const Packed &p : all) {
    INFO(p.packing << " " << p.rows << " x " << p.columns << " x " << p.terms);
    const testing::MadeGraph graph = graph_of(p);
    const driver::Compilation compilation = testing::compile_made(graph, false);
    const std::string plans = plans_of(compilation);
    INFO(plans);
    CHECK(plans.find("product of few rows") != std::string::npos);
    CHECK(compilation.program.kernels.size() == 1);
    const std::string &text = compilation.program.kernels.at(0).cuda.text;
    CHECK((text.find("tc_nibble_pair<") != std::string::npos) ==
          (p.packing == "int4" || p.packing == "words"));
    CHECK((text.find("tc_byte_pair<") != std::string::npos) ==
          (p.packing == "int8" && p.type == "float16"));
    CHECK((text.find(", true>, tc_") != std::string::npos) == (p.rows == 1)); // a single row
    testing::check_made(graph, compilation, 0, ways);
  }
}

/// Weights of 4 bits as mma.sync has them, `tiles` of 16 terms in a lane's 16 bytes or fewer: rows,
/// columns, terms, terms of a group.
void check_lanes(const std::vector<runtime::SessionOptions> &ways, bool more) {
  std::vector<std::array<int64_t, 5>> all = {
      {1, 264, 256, 128, 8}, {5, 136, 384, 32, 8}, {17, 40, 128, 64, 8}, {2, 64, 192, 64, 4}};
  if (more)
    all.insert(all.end(),
               {{1, 4096, 4096, 128, 8}, {64, 1032, 2048, 256, 8}, {8, 4104, 2048, 32, 8}});
  for (const auto &[rows, columns, terms, group, tiles] : all) {
    INFO(rows << " x " << columns << " x " << terms << " in groups of " << group);
    testing::MadeGraph graph;
    graph.name = "lanes";
    graph.inputs = {{"x", "bfloat16", {rows, terms}, -0.5, 0.5},
                    {"w",
                     "int32",
                     {columns / 8, terms / (16 * tiles), 32, tiles / 2},
                     -2147483648.0,
                     2147483647.0},
                    {"s", "bfloat16", {terms / group, columns, 2}, -0.1, 0.1}};
    graph.calls = {call("y", "aten._weight_int4pack_mm.default", {"$x", "$w", group, "$s"})};
    graph.outputs = {"y"};
    const driver::Compilation compilation = testing::compile_made(graph, false);
    INFO(plans_of(compilation));
    const bool lies = tiles == 8; // 128 terms of a column as four lanes have them
    CHECK((compilation.program.kernels.size() == 1) == lies);
    const std::string &text = compilation.program.kernels.at(0).cuda.text;
    CHECK((text.find("paired = true") != std::string::npos) == lies);
    CHECK((text.find("tc_pair_fma(tc_bf16{}, tc_nibble_pair<0, 4, -8>") != std::string::npos) ==
          lies);
    testing::check_made(graph, compilation, 0, ways);
  }
}

/// Weights of 16 bits as they are, columns as rows of memory, some of them skipped.
void check_plain(const std::vector<runtime::SessionOptions> &ways, bool more) {
  std::vector<std::array<int64_t, 3>> all = {{1, 520, 1024}, {7, 1032, 720}, {16, 264, 2000}};
  if (more)
    all.insert(all.end(), {{1, 4104, 4096}, {16, 3000, 5504}, {33, 11008, 4096}, {64, 1032, 8200}});
  for (const auto &[rows, columns, terms] : all)
    for (const std::string type : {"bfloat16", "float16"}) {
      INFO(type << " " << rows << " x " << columns << " x " << terms);
      testing::MadeGraph graph;
      graph.name = "plain";
      graph.inputs = {{"x", type, {rows, terms}, -0.5, 0.5},
                      {"w", type, {columns, terms + 8}, -0.1, 0.1},
                      {"r", type, {rows, columns}}};
      graph.calls = {call("part", "aten.slice.Tensor", {"$w", 1, 8, terms + 8}),
                     call("turned", "aten.permute.default", {"$part", json{1, 0}}),
                     call("product", "aten.mm.default", {"$x", "$turned"}),
                     call("y", "aten.add.Tensor", {"$product", "$r"})};
      graph.outputs = {"y"};
      const driver::Compilation compilation = testing::compile_made(graph, false);
      const std::string plans = plans_of(compilation);
      INFO(plans);
      if (rows < 16 || terms < 4096) // else what is faster is a close call
        CHECK(plans.find("product of few rows") != std::string::npos);
      testing::check_made(graph, compilation, 0, ways);
    }
}

struct Sections {
  std::string type;
  int64_t rows, sections, terms, columns;
  bool turned, finished; // matrices along their terms; with an epilogue
};
/// Rows behind the last end are there, too, and sections without rows.
testing::MadeGraph graph_of(const Sections &p) {
  testing::MadeGraph graph;
  graph.name = "sections";
  graph.inputs = {{"x", p.type, {p.rows, p.terms}, -1, 1},
                  {"w", p.type, {p.sections, p.columns, p.terms}, -1, 1},
                  {"e", "int32", {p.sections}, 0, static_cast<double>(p.rows)}};
  if (!p.turned)
    graph.inputs[1].sizes = {p.sections, p.terms, p.columns};
  json calls = {call("sorted", "aten.sort.default", {"$e", 0, false}),
                call("ends", "operator.getitem", {"$sorted", 0})};
  if (p.turned)
    calls.push_back(call("m", "aten.permute.default", {"$w", json{0, 2, 1}}));
  calls.push_back(call(p.finished ? "product" : "y", "aten._grouped_mm.default",
                       {"$x", p.turned ? "$m" : "$w", "$ends"}));
  if (p.finished)
    calls.push_back(call("y", "aten.silu.default", {"$product"}));
  graph.calls = calls;
  graph.outputs = {"y"};
  return graph;
}
void check_sections(const std::vector<runtime::SessionOptions> &ways) {
  for (const Sections &p : {Sections{"bfloat16", 37, 3, 64, 48, false, false},
                            Sections{"bfloat16", 300, 5, 72, 200, true, true},
                            Sections{"float16", 513, 70, 128, 264, false, true},
                            Sections{"bfloat16", 1, 4, 16, 16, true, false},
                            Sections{"float16", 129, 1, 40, 8, false, false}}) {
    INFO(p.rows << " rows in " << p.sections << ", " << p.terms << " x " << p.columns);
    const testing::MadeGraph graph = graph_of(p);
    const driver::Compilation compilation = testing::compile_made(graph, false);
    const std::string plans = plans_of(compilation);
    INFO(plans);
    CHECK(plans.find("rows in " + std::to_string(p.sections) + " sections") != std::string::npos);
    testing::MadeGraph without = graph;
    without.policy_options = {"product_templates=off"};
    testing::check_made(graph, compilation, testing::compile_made(without, false), 0, ways);
  }
}

void check_integers(const std::vector<runtime::SessionOptions> &ways) {
  for (const auto &[rows, terms, columns] : {std::array<int64_t, 3>{32, 128, 64},
                                             {17, 24, 8},
                                             {129, 264, 136},
                                             {1, 16, 24},
                                             {3, 0, 5}}) {
    INFO(rows << " x " << columns << " x " << terms);
    testing::MadeGraph graph;
    graph.name = "integers";
    graph.inputs = {{"x", "int8", {rows, terms}, -128, 127},
                    {"w", "int8", {terms, columns}, -128, 127}};
    graph.calls = {call("y", "aten._int_mm.default", {"$x", "$w"})};
    graph.outputs = {"y"};
    testing::check_made(graph, testing::compile_made(graph, false), 0, ways);
  }
}

} // namespace

/// A product by the sum of `count` matrices of float32.
testing::MadeGraph graph_of_sum(int count, int64_t rows, int64_t terms) {
  testing::MadeGraph graph;
  graph.name = "sum";
  graph.inputs = {{"x", "bfloat16", {rows, terms}}, {"w0", "float32", {320, terms}}};
  std::string sum = "w0";
  for (int i = 1; i < count; ++i) {
    const std::string next = "w" + std::to_string(i), name = "sum" + std::to_string(i);
    graph.inputs.push_back({next, "float32", {320, terms}});
    graph.calls.push_back(call(name, "aten.add.Tensor", {"$" + sum, "$" + next}));
    sum = name;
  }
  graph.calls.push_back(call("weight", "aten._to_copy.default", {"$" + sum}, to("bfloat16")));
  graph.calls.push_back(call("turned", "aten.permute.default", {"$weight", json{1, 0}}));
  graph.calls.push_back(call("y", "aten.mm.default", {"$x", "$turned"}));
  graph.outputs = {"y"};
  return graph;
}

TEST_CASE("few rows fit every architecture") {
  size_t few = 0;
  const auto check = [&](testing::MadeGraph graph, const target::Target &target) {
    INFO(target.name << " " << graph.name << " of " << graph.inputs.size() << " inputs");
    graph.arch = target.name;
    CHECK_NOTHROW(few += plans_of(testing::compile_made(graph, false)).find("few rows") !=
                         std::string::npos);
  };
  for (const target::Target &target : target::targets())
    for (const int64_t rows : {1, 16, 64})
      for (const int64_t terms : {64, 512, 4096}) {
        for (const char *packing : {"int8", "int4", "words", "float32"})
          check(graph_of(Packed{packing, "bfloat16", rows, 320, terms, 32}), target);
        for (const int count : {1, 2, 3, 5, 8}) // of which shared memory may not hold all
          check(graph_of_sum(count, rows, terms), target);
      }
  CHECK(few > 40);
}

TEST_CASE("operands of many accesses are computed as they are read") {
  size_t few = 0;
  for (const int64_t rows : {1, 16})
    for (const int64_t terms : {64, 512, 4096})
      for (const int count : {3, 5, 8}) {
        const testing::MadeGraph graph = graph_of_sum(count, rows, terms);
        const driver::Compilation compilation = testing::compile_made(graph, false);
        if (plans_of(compilation).find("few rows") == std::string::npos)
          continue;
        INFO(rows << " x " << terms << " by a sum of " << count);
        ++few;
        testing::check_made(graph, compilation, 0, testing::plan_ways());
      }
  CHECK(few >= 3);
}

TEST_CASE("weights of 8 and 4 bits are computed as they are read") {
  check_packed(testing::plan_ways(), false);
}
TEST_CASE("weights of 8 and 4 bits are computed as they are read on the GPU", "[gpu]") {
  if (const auto ways = testing::gpu_ways(); !ways.empty())
    check_packed(ways, true);
}
TEST_CASE("weights of 4 bits that lie as lanes have them") {
  check_lanes(testing::plan_ways(), false);
}
TEST_CASE("weights of 4 bits that lie as lanes have them on the GPU", "[gpu]") {
  if (const auto ways = testing::gpu_ways(); !ways.empty())
    check_lanes(ways, true);
}
TEST_CASE("weights of 16 bits by few rows") { check_plain(testing::plan_ways(), false); }
TEST_CASE("weights of 16 bits by few rows on the GPU", "[gpu]") {
  if (const auto ways = testing::gpu_ways(); !ways.empty())
    check_plain(ways, true);
}
TEST_CASE("rows in sections have matrices of their own") { check_sections(testing::plan_ways()); }
TEST_CASE("rows in sections have matrices of their own on the GPU", "[gpu]") {
  if (const auto ways = testing::gpu_ways(); !ways.empty())
    check_sections(ways);
}
TEST_CASE("products of 8-bit integers") { check_integers(testing::plan_ways()); }
TEST_CASE("products of 8-bit integers on the GPU", "[gpu]") {
  if (const auto ways = testing::gpu_ways(); !ways.empty())
    check_integers(ways);
}
