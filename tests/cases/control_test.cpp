// Graphs that depend on data: numbers, assertions, branches, loops. Recorded runs against PyTorch's
// numbers, and what is said when an assertion does not hold.
#include "dynamic_graphs.h"

#include "driver/inputs.h"
#include "driver/reference.h"
#include "support/diagnostic.h"
#include "testing/catch.h"
#include "testing/skip.h"

#include <cmath>
#include <regex>

using namespace tsc;
using tensor::HostTensor;
using testing::check_graphs;
using testing::DynamicGraph;
using testing::in_session;
using testing::Runner;

namespace {

struct Family {
  const char *name;
  size_t graphs;
};
constexpr Family kFamilies[] = {{"control", 14}, {"branch_sizes", 8}};

Runner on_reference(const DynamicGraph &graph) {
  return [&graph](const std::vector<HostTensor> &inputs) {
    return driver::run_reference(graph.compilation, inputs, graph.weights);
  };
}

const DynamicGraph &named(const std::vector<DynamicGraph> &graphs, const std::string &name) {
  for (const DynamicGraph &graph : graphs)
    if (graph.name == name)
      return graph;
  throw std::runtime_error("no graph " + name);
}

HostTensor filled(std::vector<int64_t> sizes, double value,
                  tensor::DType dtype = tensor::DType::f32) {
  HostTensor tensor(dtype, std::move(sizes));
  for (int64_t i = 0; i < tensor.numel(); ++i)
    tensor.set_double(i, value);
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

/// What `graph` says to inputs of which its assertions do not hold, wherever it runs; and that it
/// runs again afterwards. `besides`: a pattern of what else is said; of checks that fail at once
/// a GPU names any.
void check_failures(const std::vector<Runner> &runners, const DynamicGraph &graph,
                    const std::vector<HostTensor> &inputs, const std::string &failure,
                    const std::string &besides = "") {
  const std::string expected = "TSC-R127: the graph asserts: " + failure;
  for (const Runner &run : runners) {
    const std::string said = failure_of(run, inputs);
    INFO(graph.name << ": " << said);
    REQUIRE(said.substr(0, expected.size()) == expected);
    CHECK(std::regex_match(said.substr(expected.size()), std::regex(besides)));
    CHECK(failure_of(run, graph.runs[0].inputs) == "nothing");
  }
}

void check_assertions(const std::function<std::vector<Runner>(const DynamicGraph &)> &runners) {
  const std::vector<DynamicGraph> graphs = testing::read_dynamic_graphs("control");
  const DynamicGraph &checked = named(graphs, "checked"), &window = named(graphs, "window");
  const std::vector<Runner> on_checked = runners(checked), on_window = runners(window);
  const HostTensor none = filled({3}, 0), x = filled({5, 3}, 1);
  check_failures(on_checked, checked, {x, filled({3}, 101)},
                 "seen too much before (node _assert_async)");
  // The first assertion sees the memory before it is written: 99 then, 104 afterwards.
  check_failures(on_checked, checked, {x, filled({3}, 99)}, "seen too much (node _assert_async_1)");
  HostTensor infinite = filled({5, 3}, 1);
  infinite.set_double(7, -INFINITY);
  check_failures(on_checked, checked, {infinite, none}, "x is not finite (node _assert_async_2)");
  const HostTensor rows = filled({7, 3}, 2), part = filled({2, 3}, 3);
  for (int64_t start : {-1, 6, 1000000000})
    check_failures(
        on_window, window, {rows, part, filled({}, static_cast<double>(start), tensor::DType::i64)},
        start < 0 ? "Runtime assertion failed for expression u0 >= 0 on node 'ge_1' "
                    "(node _assert_scalar_default)"
                  : "Runtime assertion failed for expression u0 <= 5 on node 'le_1' "
                    "(node _assert_scalar_default_1)",
        "\n  besides, (start|index) (" + std::to_string(start) + "|" + std::to_string(start + 1) +
            "), (read|computed) from input 'i', is not in \\[(0|-7), [67]\\) "
            "\\(node (copy_|select|select_1|narrow)\\)");
}

} // namespace

TEST_CASE("graphs that depend on data on reference") {
  for (const Family &family : kFamilies)
    check_graphs(family.name, family.graphs, on_reference);
}
TEST_CASE("graphs that depend on data on host, serial plan") {
  for (const Family &family : kFamilies)
    check_graphs(family.name, family.graphs,
                 [](const DynamicGraph &graph) { return in_session(graph, {}); });
}
TEST_CASE("graphs that depend on data on host, cuda plan") {
  runtime::SessionOptions options;
  options.plan = runtime::Plan::cuda;
  for (const Family &family : kFamilies)
    check_graphs(family.name, family.graphs,
                 [&](const DynamicGraph &graph) { return in_session(graph, options); });
}
TEST_CASE("graphs that depend on data on the GPU", "[gpu]") {
  std::string why;
  if (!runtime::cuda_available(&why)) {
    testing::skip("there is no GPU: " + why);
    return;
  }
  runtime::SessionOptions options;
  options.device = runtime::DeviceKind::cuda;
  for (const Family &family : kFamilies)
    check_graphs(family.name, family.graphs,
                 [&](const DynamicGraph &graph) { return in_session(graph, options); });
  check_assertions([&](const DynamicGraph &graph) -> std::vector<Runner> {
    return {in_session(graph, options)};
  });
}

TEST_CASE("assertions about data fail with message, node, and in the graph's order") {
  runtime::SessionOptions cuda_plan;
  cuda_plan.plan = runtime::Plan::cuda;
  check_assertions([&](const DynamicGraph &graph) -> std::vector<Runner> {
    return {on_reference(graph), in_session(graph, {}), in_session(graph, cuda_plan)};
  });
}

TEST_CASE("programs with branches, loops and assertions come back from JSON") {
  for (const Family &family : kFamilies)
    for (const DynamicGraph &graph : testing::read_dynamic_graphs(family.name)) {
      INFO(graph.name);
      const std::string text = program::to_json(graph.compilation.program);
      CHECK(program::to_json(program::from_json(text, graph.name)) == text);
    }
}

TEST_CASE("what a branch asserts about sizes of its own holds only where it is taken") {
  runtime::SessionOptions cuda_plan;
  cuda_plan.plan = runtime::Plan::cuda;
  const std::vector<DynamicGraph> graphs = testing::read_dynamic_graphs("branch_sizes");
  const DynamicGraph &equal = named(graphs, "equal_in_branch");
  const std::vector<HostTensor> taken = {filled({5}, 1), filled({5}, -1)};
  const std::vector<HostTensor> not_taken = {filled({5}, -1), filled({5}, 1)};
  for (const Runner &run :
       {on_reference(equal), in_session(equal, {}), in_session(equal, cuda_plan)}) {
    CHECK(failure_of(run, taken).find("TSC-R127: the graph asserts: ") == 0);
    CHECK(failure_of(run, not_taken) == "nothing");
  }
}
