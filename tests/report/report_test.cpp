#include "report/report.h"

#include "graph/read.h"
#include "target/target.h"
#include "testing/catch.h"
#include "testing/graph_json.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <string>
#include <vector>

using namespace tsc;
using nlohmann::json;

namespace {

/// relu(a) and its sum, under a name, a module and a source line that a page must not take for its
/// own.
const char *kHostile = "</script><img_src=x_onerror=alert(1)>";
json hostile_graph() {
  return {{"format", "tsc-graph"},
          {"version", 1},
          {"name", "<!--<script>"},
          {"nodes",
           testing::with_references(json::array(
               {{{"name", "a"},
                 {"op", "placeholder"},
                 {"val", {{"dtype", "float32"}, {"size", {64, 32}}}}},
                {{"name", kHostile},
                 {"op", "call_function"},
                 {"target", "aten.relu.default"},
                 {"args", {"$a"}},
                 {"stack_trace", "  File \"</script>.py\", line 3, in forward\n    x = \"<b>\"\n"},
                 {"nn_module_stack", "L__self__,,m.M;L__self__.f,f<i>,m.<Layer>"}},
                {{"name", "total"},
                 {"op", "call_function"},
                 {"target", "aten.sum.dim_IntList"},
                 {"args", {std::string("$") + kHostile, {1}}}},
                {{"name", "output"}, {"op", "output"}, {"args", {{"$total"}}}}}))},
          {"signature",
           {{"inputs", {{{"node", "a"}, {"kind", "user"}}}},
            {"outputs", {{{"kind", "user"}, {"value", {{"node", "total"}}}}}}}}};
}

driver::Compilation compiled(const json &made, const std::string &arch = "sm_90") {
  driver::CompileOptions options;
  options.keep_as_read = true;
  options.arch = arch;
  return driver::compile(graph::parse_graph(made.dump(), "graph.json"), options);
}

json data_of(const driver::Compilation &compilation, const report::Measured *measured = nullptr) {
  return json::parse(
      report::to_json(compilation, target::find_target("sm_90"), "graph.json", measured));
}

/// Every position names a row that is there.
void check_positions(const json &data) {
  const size_t before = data["before"].size(), after = data["after"].size();
  for (const json &row : data["before"]) {
    CHECK(row.size() == 7);
    for (const json &argument : row[6])
      CHECK(argument.get<size_t>() < before);
    for (const size_t column : {2, 3, 4, 5})
      CHECK(row[column].get<size_t>() < data["texts"].size());
  }
  for (const json &row : data["after"])
    for (const json &origin : row.at(7))
      CHECK(origin.get<size_t>() < before);
  for (const json &member : data["members"]) {
    CHECK(member[2].get<size_t>() < data["groups"].size());
    for (const json &node : member[3])
      CHECK(node.get<size_t>() < after);
  }
  for (const json &group : data["groups"]) {
    CHECK(group[1].get<size_t>() + group[2].get<size_t>() <= data["members"].size());
    for (const json &kernel : group[3])
      CHECK(kernel.get<size_t>() < data["kernels"].size());
  }
  for (const json &decision : data["decisions"])
    for (const size_t side : {0, 1})
      CHECK(decision[side].get<size_t>() < data["members"].size());
  for (const json &step : data["steps"])
    for (const json &group : step[3])
      CHECK(group.get<size_t>() < data["groups"].size());
}

} // namespace

TEST_CASE("the data says what was compiled") {
  const driver::Compilation compilation = compiled(hostile_graph());
  const json data = data_of(compilation);
  CHECK(data["version"] == report::kVersion);
  CHECK(data["target"]["name"] == "sm_90");
  check_positions(data);
  CHECK(data["before"].size() == 4);
  CHECK(data["before"][1][0] == kHostile);
  CHECK(data["texts"][data["before"][1][2].get<size_t>()] == "aten.relu.default");
  CHECK(data["texts"][data["before"][1][3].get<size_t>()] == "");
  REQUIRE(data["kernels"].size() == compilation.program.kernels.size());
  REQUIRE(data["kernels"].size() == 1);
  CHECK(data["kernels"][0]["read"] == 64 * 32 * 4);
  CHECK(data["kernels"][0]["written"] == 64 * 4);
  CHECK(data["kernels"][0]["text"] == compilation.program.kernels[0].cuda.text);
  CHECK(data["kernels"][0]["estimate"]["share"] == compilation.program.kernels[0].estimate.share());
  CHECK(data["steps"].size() == compilation.program.steps.size());
  CHECK(data["passes"].size() == compilation.times.size());
}

TEST_CASE("a step leads to its group, its operations and the user's nodes") {
  const json data = data_of(compiled(hostile_graph()));
  REQUIRE(data["steps"].size() == 1);
  REQUIRE(data["steps"][0][3].size() == 1);
  const json &group = data["groups"][data["steps"][0][3][0].get<size_t>()];
  std::vector<std::string> names;
  for (size_t m = group[1]; m < group[1].get<size_t>() + group[2].get<size_t>(); ++m)
    for (const json &node : data["members"][m][3])
      for (const json &origin : data["after"][node.get<size_t>()][7])
        names.push_back(data["before"][origin.get<size_t>()][0]);
  CHECK(std::find(names.begin(), names.end(), kHostile) != names.end());
  CHECK(std::find(names.begin(), names.end(), "total") != names.end());
}

TEST_CASE("decisions of fusion have their reasons") {
  json graph = hostile_graph();
  const driver::Compilation compilation = compiled(graph);
  const json data = data_of(compilation);
  CHECK(data["decisions"].size() == compilation.schedule.decisions.size());
}

TEST_CASE("workspace is alive from its first to its last step") {
  json graph = hostile_graph(); // a result that is read in another order is stored
  graph["nodes"].insert(graph["nodes"].begin() + 3,
                        json::object({{"name", "m"},
                                      {"op", "call_function"},
                                      {"target", "aten.mm.default"},
                                      {"args", {{{"node", kHostile}}, {{"node", "t"}}}}}));
  graph["nodes"].insert(graph["nodes"].begin() + 3,
                        json::object({{"name", "t"},
                                      {"op", "call_function"},
                                      {"target", "aten.t.default"},
                                      {"args", {{{"node", kHostile}}}}}));
  graph["nodes"].back()["args"] = {{{{"node", "total"}}, {{"node", "m"}}}};
  graph["signature"]["outputs"].push_back({{"kind", "user"}, {"value", {{"node", "m"}}}});
  const json data = data_of(compiled(graph));
  check_positions(data);
  for (const json &piece : data["memory"].at("pieces")) {
    CHECK(piece[1].get<int64_t>() > 0);
    CHECK(piece[2].get<size_t>() <= piece[3].get<size_t>());
    CHECK(piece[3].get<size_t>() < data["steps"].size());
  }
}

TEST_CASE("measured times stand beside the steps") {
  const driver::Compilation compilation = compiled(hostile_graph());
  CHECK_FALSE(data_of(compilation).contains("measured"));
  const report::Measured measured{"a device", {0.25}};
  const json data = data_of(compilation, &measured);
  CHECK(data["measured"]["device"] == "a device");
  CHECK(data["measured"]["ms"] == json::array({0.25}));
}

TEST_CASE("nothing of the model leaves the element that holds the data") {
  const std::string data =
      report::to_json(compiled(hostile_graph()), target::find_target("sm_90"), kHostile, nullptr);
  const std::string page = report::to_html(data);
  const std::string opening = "<script type=\"application/json\" id=\"data\">";
  const size_t begin = page.find(opening) + opening.size();
  const size_t end = page.find("</script>", begin);
  CHECK(json::parse(page.substr(begin, end - begin)) == json::parse(data));
  CHECK(page.find("<img") == std::string::npos);
  CHECK(page.substr(begin, end - begin).find('<') == std::string::npos);
  for (const char *network : {"src=", "http://", "https://", "@import", "url("})
    CHECK(page.substr(0, begin).find(network) == std::string::npos);
}

TEST_CASE("text that is no UTF-8 makes no page that cannot be read") {
  json graph = hostile_graph();
  driver::Compilation compilation = compiled(graph);
  compilation.as_read.nodes[1].stack_trace = "File \"\xff\xfe.py\", line 1, in f";
  CHECK_NOTHROW(data_of(compilation));
}

TEST_CASE("plans for the host show the text that runs there") {
  const driver::Compilation compilation = compiled(hostile_graph(), "host");
  const json data =
      json::parse(report::to_json(compilation, target::find_target("host"), "graph.json", nullptr));
  REQUIRE(data["kernels"].size() == 1);
  CHECK(data["kernels"][0]["text"] == compilation.program.kernels[0].serial.text);
}
