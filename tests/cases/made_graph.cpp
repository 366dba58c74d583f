#include "made_graph.h"

#include "driver/reference.h"
#include "graph/read.h"
#include "testing/catch.h"
#include "testing/graph_json.h"
#include "testing/skip.h"

namespace tsc::testing {

using nlohmann::json;

driver::Compilation compile_made(const MadeGraph &made, bool is_dynamic) {
  json graph = {{"format", "tsc-graph"}, {"version", 1}, {"subgraphs", made.subgraphs}};
  for (const MadeInput &input : made.inputs) {
    json sizes = input.sizes;
    if (is_dynamic && (made.inputs_are_alike || &input == made.inputs.data())) {
      sizes[0] = "s0";
      graph["symbols"] = {{"s0", {made.least, nullptr}}};
    }
    graph["nodes"].push_back(
        {{"name", input.name},
         {"op", "placeholder"},
         {"val", {{"dtype", input.dtype}, {"size", sizes}, {"device", made.device}}}});
  }
  for (const json &call : made.calls)
    graph["nodes"].push_back({{"name", call[0]},
                              {"op", "call_function"},
                              {"target", call[1]},
                              {"args", with_references(call[2])},
                              {"kwargs", call.size() > 3 ? call[3] : json::object()}});
  json outputs = json::array();
  for (const std::string &name : made.outputs)
    outputs.push_back({{"node", name}});
  graph["nodes"].push_back({{"name", "output"}, {"op", "output"}, {"args", {outputs}}});
  driver::CompileOptions options;
  options.policy_options = made.policy_options;
  options.arch = made.arch;
  return driver::compile(graph::parse_graph(graph.dump(), "made.json"), options);
}

void check_made(const MadeGraph &made, const driver::Compilation &compilation, int64_t first,
                const std::vector<runtime::SessionOptions> &ways) {
  check_made(made, compilation, compilation, first, ways);
}

void check_made(const MadeGraph &made, const driver::Compilation &compilation,
                const driver::Compilation &oracle, int64_t first,
                const std::vector<runtime::SessionOptions> &ways) {
  std::vector<tensor::HostTensor> inputs;
  for (const MadeInput &input : made.inputs) {
    tensor::RandomSpec spec{.seed = 7 + inputs.size()};
    spec.low = input.low;
    spec.high = input.high;
    std::vector<int64_t> sizes = input.sizes;
    if ((inputs.empty() || made.inputs_are_alike) && first != 0)
      sizes[0] = first;
    inputs.push_back(tensor::random_tensor(tensor::parse_dtype(input.dtype).value(), sizes, spec));
  }
  driver::ReferenceOptions wide;
  wide.round_buffers = false;
  const auto expected = driver::run_reference(oracle, inputs, {});
  const auto reference = driver::run_reference(oracle, inputs, {}, wide);
  for (const runtime::SessionOptions &way : ways) {
    const auto outputs = runtime::Session::create(compilation.program, {}, way)->run(inputs);
    REQUIRE(outputs.size() == expected.size());
    for (size_t i = 0; i < outputs.size(); ++i) {
      const tensor::Agreement agreement = tensor::compare(outputs[i], expected[i], &reference[i]);
      INFO(made.name << ", first size " << first << ", output " << i << ": " << agreement.reason);
      CHECK(agreement.ok);
    }
  }
}

std::vector<runtime::SessionOptions> host_ways() {
  runtime::SessionOptions serial, cuda;
  serial.plan = runtime::Plan::serial;
  cuda.plan = runtime::Plan::cuda;
  return {serial, cuda};
}

std::vector<runtime::SessionOptions> gpu_ways() {
  std::string why;
  if (!runtime::cuda_available(&why)) {
    skip("there is no GPU: " + why);
    return {};
  }
  runtime::SessionOptions options;
  options.device = runtime::DeviceKind::cuda;
  return {options};
}

} // namespace tsc::testing
