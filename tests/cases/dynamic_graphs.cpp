#include "dynamic_graphs.h"

#include "graph/read.h"
#include "testing/catch.h"

#include <nlohmann/json.hpp>

#include <cstdlib>
#include <fstream>

namespace tsc::testing {
namespace {

std::vector<tensor::HostTensor> numbered(const tensor::TensorMap &tensors,
                                         const std::string &prefix) {
  std::vector<tensor::HostTensor> list;
  for (size_t i = 0; tensors.count(prefix + std::to_string(i)) != 0; ++i)
    list.push_back(tensors.at(prefix + std::to_string(i)));
  return list;
}

} // namespace

std::vector<DynamicGraph> read_dynamic_graphs(const std::string &family) {
  const char *moved = std::getenv("TSC_SOURCE_DIR"); // for tests that run elsewhere than built
  const std::string folder = std::string(moved ? moved : TSC_SOURCE_DIR) + "/tests/cases/" + family;
  std::ifstream file(folder + "/graphs.json");
  REQUIRE(file);
  const tensor::TensorMap tensors = tensor::read_tensors(folder + "/tensors.safetensors");
  std::vector<DynamicGraph> graphs;
  for (const nlohmann::json &entry : nlohmann::json::parse(file)) {
    DynamicGraph graph;
    graph.name = entry.at("name").get<std::string>();
    INFO(graph.name);
    graph.graph = graph::parse_graph(entry.at("model").dump(), graph.name);
    graph.compilation = driver::compile(graph.graph, {});
    const std::string prefix = graph.name + "/weight/";
    for (const auto &[key, value] : tensors)
      if (key.compare(0, prefix.size(), prefix) == 0)
        graph.weights[key.substr(prefix.size())] = value;
    for (size_t run = 0;; ++run) {
      const std::string at = graph.name + "/" + std::to_string(run);
      DynamicRun one{numbered(tensors, at + "/input_"), numbered(tensors, at + "/output_"),
                     numbered(tensors, at + "/reference_")};
      if (one.inputs.empty())
        break;
      graph.runs.push_back(std::move(one));
    }
    graphs.push_back(std::move(graph));
  }
  return graphs;
}

} // namespace tsc::testing
