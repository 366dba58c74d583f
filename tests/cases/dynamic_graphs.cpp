#include "dynamic_graphs.h"

#include "case_archive.h"

#include "driver/inputs.h"
#include "graph/read.h"
#include "testing/catch.h"

#include <nlohmann/json.hpp>

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
  const CaseFiles files = read_case_files(family);
  const tensor::TensorMap &tensors = files.tensors;
  std::vector<DynamicGraph> graphs;
  for (const nlohmann::json &entry : nlohmann::json::parse(files.graphs)) {
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

void check_graphs(const std::string &family, size_t count,
                  const std::function<Runner(const DynamicGraph &)> &runner) {
  const std::vector<DynamicGraph> graphs = read_dynamic_graphs(family);
  CHECK(graphs.size() == count);
  for (const DynamicGraph &graph : graphs) {
    REQUIRE(graph.runs.size() >= 3);
    const Runner run = runner(graph);
    for (size_t number = 0; number < graph.runs.size(); ++number) {
      const DynamicRun &recorded = graph.runs[number];
      const std::vector<tensor::HostTensor> outputs = run(recorded.inputs);
      REQUIRE(outputs.size() == recorded.outputs.size());
      for (size_t i = 0; i < outputs.size(); ++i) {
        const tensor::HostTensor *reference =
            i < recorded.references.size() ? &recorded.references[i] : nullptr;
        const tensor::Agreement agreement =
            tensor::compare(outputs[i], recorded.outputs[i], reference, {});
        INFO(graph.name << ", run " << number << ", output " << i << ": " << agreement.reason);
        CHECK(agreement.ok);
      }
    }
  }
}

Runner in_session(const DynamicGraph &graph, const runtime::SessionOptions &options) {
  std::shared_ptr<runtime::Session> session = runtime::Session::create(
      graph.compilation.program,
      driver::load_weights(graph.compilation.program, graph.weights, std::nullopt), options);
  return [session](const std::vector<tensor::HostTensor> &inputs) { return session->run(inputs); };
}

} // namespace tsc::testing
