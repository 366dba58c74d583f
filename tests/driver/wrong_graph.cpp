#include "wrong_graph.h"

#include "graph/read.h"
#include "testing/graph_json.h"

namespace tsc::testing {

using nlohmann::json;

WrongGraph &WrongGraph::input(const std::string &name, const std::string &dtype, json size) {
  nodes_.push_back(
      {{"name", name}, {"op", "placeholder"}, {"val", {{"dtype", dtype}, {"size", size}}}});
  inputs_.push_back({{"node", name}, {"kind", "user"}});
  return *this;
}

WrongGraph &WrongGraph::call(const std::string &name, const std::string &target, json arguments,
                             json keywords, json value) {
  json node = {{"name", name},
               {"op", "call_function"},
               {"target", target},
               {"args", with_references(arguments)},
               {"kwargs", with_references(keywords)},
               {"stack_trace", "  File \"model.py\", line " + std::to_string(++calls_) +
                                   ", in forward\n    " + name + " = f(x)\n"}};
  if (!value.is_null())
    node["val"] = value;
  nodes_.push_back(node);
  return *this;
}

WrongGraph &WrongGraph::symbol(const std::string &name, int64_t low, int64_t high) {
  symbols_[name] = {low, high};
  return *this;
}

std::string WrongGraph::text(const std::vector<std::string> &outputs) const {
  nlohmann::json nodes = nodes_, results = nlohmann::json::array(), specs = nlohmann::json::array();
  for (const std::string &output : outputs) {
    results.push_back({{"node", output}});
    specs.push_back({{"kind", "user"}, {"value", {{"node", output}}}});
  }
  nodes.push_back(
      {{"name", "output"}, {"op", "output"}, {"args", nlohmann::json::array({results})}});
  nlohmann::json graph = {{"format", "tsc-graph"},
                          {"version", 1},
                          {"name", "wrong"},
                          {"nodes", nodes},
                          {"signature", {{"inputs", inputs_}, {"outputs", specs}}}};
  if (!symbols_.empty())
    graph["symbols"] = symbols_;
  return graph.dump();
}

graph::Graph WrongGraph::graph(const std::vector<std::string> &outputs) const {
  return tsc::graph::parse_graph(text(outputs), "wrong.json");
}

} // namespace tsc::testing
