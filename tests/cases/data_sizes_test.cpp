// Graphs whose sizes depend on data: recorded runs that pick some elements, none and all, and what
// is said to numbers that are no sizes.
#include "dynamic_graphs.h"

#include "driver/reference.h"
#include "support/diagnostic.h"
#include "testing/catch.h"
#include "testing/skip.h"

using namespace tsc;
using tensor::HostTensor;
using testing::check_graphs;
using testing::DynamicGraph;
using testing::in_session;
using testing::Runner;

namespace {

constexpr size_t kGraphs = 33;

Runner on_reference(const DynamicGraph &graph) {
  return [&graph](const std::vector<HostTensor> &inputs) {
    return driver::run_reference(graph.compilation, inputs, graph.weights);
  };
}

HostTensor integers(const std::vector<int64_t> &values) {
  HostTensor tensor(tensor::DType::i64, {static_cast<int64_t>(values.size())});
  for (size_t i = 0; i < values.size(); ++i)
    tensor.set_int64(static_cast<int64_t>(i), values[i]);
  return tensor;
}

std::string failure_of(const Runner &run, const std::vector<HostTensor> &inputs) {
  try {
    run(inputs);
  } catch (const support::UserError &error) {
    CHECK(error.exit_code() == support::ExitCode::bad_input);
    return error.diagnostics().front().code + ": " + error.diagnostics().front().message;
  }
  return "nothing";
}

} // namespace

TEST_CASE("sizes that depend on data on reference") {
  check_graphs("data_sizes", kGraphs, on_reference);
}
TEST_CASE("sizes that depend on data on host, serial plan") {
  check_graphs("data_sizes", kGraphs,
               [](const DynamicGraph &graph) { return in_session(graph, {}); });
}
TEST_CASE("sizes that depend on data on host, cuda plan") {
  for (const bool reverse : {false, true}) {
    runtime::SessionOptions options;
    options.plan = runtime::Plan::cuda;
    if (reverse)
      options.thread_order = runtime::SessionOptions::ThreadOrder::reverse;
    check_graphs("data_sizes", kGraphs,
                 [&](const DynamicGraph &graph) { return in_session(graph, options); });
  }
}
TEST_CASE("sizes that depend on data on the GPU", "[gpu]") {
  std::string why;
  if (!runtime::cuda_available(&why)) {
    testing::skip("there is no GPU: " + why);
    return;
  }
  runtime::SessionOptions options;
  options.device = runtime::DeviceKind::cuda;
  check_graphs("data_sizes", kGraphs,
               [&](const DynamicGraph &graph) { return in_session(graph, options); });
}

TEST_CASE("numbers that are no sizes are errors of the run") {
  runtime::SessionOptions cuda_plan;
  cuda_plan.plan = runtime::Plan::cuda;
  const std::vector<DynamicGraph> graphs = testing::read_dynamic_graphs("data_sizes");
  for (const DynamicGraph &graph : graphs) {
    for (const Runner &run :
         {on_reference(graph), in_session(graph, {}), in_session(graph, cuda_plan)}) {
      const auto fails = [&](const std::vector<HostTensor> &inputs, const std::string &part) {
        const std::string said = failure_of(run, inputs);
        INFO(graph.name << ": " << said);
        CHECK(said.find("TSC-R127: ") == 0);
        CHECK(said.find(part) != std::string::npos);
        CHECK(failure_of(run, graph.runs[0].inputs) == "nothing");
      };
      const std::vector<HostTensor> &good = graph.runs[0].inputs;
      if (graph.name == "pieces") {
        fails({good[0], integers({2, 3, 5})}, "Eq(u0 + u1 + u2, 9)");
        fails({good[0], integers({-1, 5, 5})}, "0 <= u0 <= 9");
        fails({good[0], integers({10, 0, -1})}, "u");
      } else if (graph.name == "repeated") {
        fails({good[0], integers({1, -2, 3, 4})}, "repeats -2 of input 'inputs_1' is negative");
      } else if (graph.name == "repeated_known") {
        fails({good[0], integers({1, 2, 3, 4})}, "output_size");
      } else if (graph.name == "sliced_by") { // which PyTorch would count from the end
        HostTensor end(tensor::DType::i64, {});
        end.set_int64(0, -2);
        fails({good[0], end}, "0 <= u0");
      } else if (graph.name == "counts") {
        std::vector<int64_t> values(12, 1);
        values[3] = -1;
        fails({integers(values), good[1]}, "value -1 of input 'inputs_0' is not in [0, ");
      } else if (graph.name == "alignments") {
        fails({good[0], good[1], good[2], integers({2, 4, 1})}, "target_lengths 4 of input");
        fails({good[0], good[1], integers({5, 6, 0}), good[3]}, "input_lengths 6 of input");
        HostTensor labels(tensor::DType::i64, {3, 3});
        for (int64_t i = 0; i < labels.numel(); ++i)
          labels.set_int64(i, i == 1 ? 4 : 1);
        fails({good[0], labels, good[2], good[3]}, "target 4 of ");
      } else if (graph.name == "alignments_flat") {
        fails({good[0], good[1], good[2], integers({2, 1, 0})}, "target_lengths that add up");
      }
    }
  }
}

TEST_CASE("programs with sizes that depend on data come back from JSON") {
  for (const DynamicGraph &graph : testing::read_dynamic_graphs("data_sizes")) {
    INFO(graph.name);
    const std::string text = program::to_json(graph.compilation.program);
    CHECK(program::to_json(program::from_json(text, graph.name)) == text);
  }
}
