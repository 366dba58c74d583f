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

MadeRun make_run(const MadeGraph &made, const driver::Compilation &oracle, int64_t first) {
  MadeRun run;
  for (const MadeInput &input : made.inputs) {
    tensor::RandomSpec spec{.seed = 7 + run.inputs.size()};
    spec.low = input.low;
    spec.high = input.high;
    std::vector<int64_t> sizes = input.sizes;
    if ((run.inputs.empty() || made.inputs_are_alike) && first != 0)
      sizes[0] = first;
    run.inputs.push_back(
        tensor::random_tensor(tensor::parse_dtype(input.dtype).value(), sizes, spec));
  }
  driver::ReferenceOptions wide;
  wide.round_buffers = false;
  run.expected = driver::run_reference(oracle, run.inputs, {});
  run.reference = driver::run_reference(oracle, run.inputs, {}, wide);
  return run;
}

void check_run(const MadeGraph &made, const MadeRun &run, const driver::Compilation &compilation,
               const std::vector<runtime::SessionOptions> &ways) {
  for (const runtime::SessionOptions &way : ways) {
    const auto outputs = runtime::Session::create(compilation.program, {}, way)->run(run.inputs);
    REQUIRE(outputs.size() == run.expected.size());
    for (size_t i = 0; i < outputs.size(); ++i) {
      const tensor::Agreement agreement =
          tensor::compare(outputs[i], run.expected[i], &run.reference[i]);
      INFO(made.name << ", size " << (run.inputs.empty() ? 0 : run.inputs[0].numel()) << ", output "
                     << i << ": " << agreement.reason);
      CHECK(agreement.ok);
    }
  }
}

void check_made(const MadeGraph &made, const driver::Compilation &compilation, int64_t first,
                const std::vector<runtime::SessionOptions> &ways) {
  check_made(made, compilation, compilation, first, ways);
}

void check_made(const MadeGraph &made, const driver::Compilation &compilation,
                const driver::Compilation &oracle, int64_t first,
                const std::vector<runtime::SessionOptions> &ways) {
  check_run(made, make_run(made, oracle, first), compilation, ways);
}

std::vector<runtime::SessionOptions> host_ways() {
  runtime::SessionOptions serial;
  serial.plan = runtime::Plan::serial;
  return {serial, plan_ways()[0]};
}

std::vector<runtime::SessionOptions> plan_ways() {
  runtime::SessionOptions cuda;
  cuda.plan = runtime::Plan::cuda;
  return {cuda};
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
