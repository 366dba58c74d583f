// Graphs with dynamic shapes, each compiled once and run with several sizes against PyTorch's
// numbers, and what is said when sizes do not fit.
#include "dynamic_graphs.h"

#include "driver/inputs.h"
#include "driver/reference.h"
#include "graph/read.h"
#include "runtime/session.h"
#include "support/diagnostic.h"
#include "testing/catch.h"
#include "testing/skip.h"

#include <algorithm>

using namespace tsc;
using tensor::HostTensor;
using testing::check_graphs;
using testing::DynamicGraph;
using testing::in_session;
using testing::Runner;

namespace {

/// What one graph says to inputs of these sizes, on the reference and on the host.
void check_refusal(const DynamicGraph &graph, const std::vector<HostTensor> &inputs,
                   const std::string &message) {
  INFO(graph.name);
  try {
    driver::run_reference(graph.compilation, inputs, graph.weights);
    FAIL_CHECK("the reference took them");
  } catch (const support::UserError &error) {
    CHECK(error.diagnostics().front().message == message);
  }
  try {
    in_session(graph, {})(inputs);
    FAIL_CHECK("the host took them");
  } catch (const support::UserError &error) {
    CHECK(error.diagnostics().front().message ==
          "the program cannot run with inputs of these shapes: " + message);
  }
}

HostTensor zeros(std::vector<int64_t> sizes, tensor::DType dtype = tensor::DType::f32) {
  return HostTensor(dtype, std::move(sizes));
}
HostTensor integer(int64_t value) {
  HostTensor tensor(tensor::DType::i64, {});
  tensor.set_int64(0, value);
  return tensor;
}

const DynamicGraph &named(const std::vector<DynamicGraph> &graphs, const std::string &name) {
  for (const DynamicGraph &graph : graphs)
    if (graph.name == name)
      return graph;
  throw std::runtime_error("no graph " + name);
}

/// Whole graphs, single operators, rows and columns of any number and length.
void check_families(const std::function<Runner(const DynamicGraph &)> &runner) {
  check_graphs("dynamic", 8, runner);
  check_graphs("dynamic_operators", 15, runner);
  check_graphs("dynamic_rows", 4, runner);
}

} // namespace

TEST_CASE("dynamic graphs on reference") {
  check_families([](const DynamicGraph &graph) -> Runner {
    return [&graph](const std::vector<HostTensor> &inputs) {
      return driver::run_reference(graph.compilation, inputs, graph.weights);
    };
  });
}
TEST_CASE("dynamic graphs on host, serial plan") {
  check_families([](const DynamicGraph &graph) { return in_session(graph, {}); });
}
TEST_CASE("dynamic graphs on host, cuda plan") {
  runtime::SessionOptions options;
  options.plan = runtime::Plan::cuda;
  check_families([&](const DynamicGraph &graph) { return in_session(graph, options); });
}
TEST_CASE("dynamic graphs on the GPU", "[gpu]") {
  std::string why;
  if (!runtime::cuda_available(&why)) {
    testing::skip("there is no GPU: " + why);
    return;
  }
  runtime::SessionOptions options;
  options.device = runtime::DeviceKind::cuda;
  check_families([&](const DynamicGraph &graph) { return in_session(graph, options); });
}

TEST_CASE("symbols keep their kernels: products with their neighbours, several columns an access") {
  for (const DynamicGraph &graph : testing::read_dynamic_graphs("dynamic_operators")) {
    if (graph.name.rfind("half_", 0) != 0)
      continue;
    INFO(graph.name);
    const std::vector<program::Kernel> &kernels = graph.compilation.program.kernels;
    const auto count = [&](const std::string &text) {
      return std::count_if(kernels.begin(), kernels.end(), [&](const program::Kernel &kernel) {
        return kernel.cuda.text.find(text) != std::string::npos;
      });
    };
    if (graph.name == "half_columns") {
      CHECK(count("tc_columns_reduce<") >= 1); // and one by one where sizes do not allow it
      CHECK(count("tc_column_reduce<") >= 1);
      continue;
    }
    CHECK(count("tc_product_by_groups<") + count("tc_product_by_halo<") >= 3);
    if (graph.name != "half_products") // of 64 channels, in steps of one
      CHECK(count("tc_windows_operand<") + count("tc_halo_operand<") >= 2);
  }
}

TEST_CASE("first elements of a number that is a symbol, and no more than rows have") {
  for (const char *target : {"aten.topk.default", "aten.kthvalue.default"}) {
    INFO(target);
    const std::string text =
        R"({"format": "tsc-graph", "version": 1, "symbols": {"n": [1, null, 4], "m": [1, null, 40], "k": [1, null, 3]},
            "nodes": [
          {"name": "x", "op": "placeholder", "val": {"dtype": "float32", "size": ["n", "m"]}},
          {"name": "w", "op": "placeholder", "val": {"dtype": "float32", "size": ["k"]}},
          {"name": "y", "op": "call_function", "target": ")" +
        std::string(target) + R"(", "args": [{"node": "x"}, {"expr": "k"}, 1]},
          {"name": "v", "op": "call_function", "target": "operator.getitem", "args": [{"node": "y"}, 0]},
          {"name": "s", "op": "call_function", "target": "aten.sum.default", "args": [{"node": "w"}]},
          {"name": "output", "op": "output", "args": [[{"node": "v"}, {"node": "s"}]]}]})";
    const driver::Compilation compilation =
        driver::compile(graph::parse_graph(text, "first.json"), driver::CompileOptions{});
    for (const runtime::Plan plan : {runtime::Plan::serial, runtime::Plan::cuda}) {
      runtime::SessionOptions options;
      options.plan = plan;
      const auto session = runtime::Session::create(compilation.program, {}, options);
      const auto run = [&](int64_t rows, int64_t length, int64_t count) {
        const std::vector<HostTensor> inputs = {
            tensor::random_tensor(tensor::DType::f32, {rows, length}, {.seed = 3}), zeros({count})};
        const auto outputs = session->run(inputs);
        const auto wanted = driver::run_reference(compilation, inputs, {});
        REQUIRE(outputs[0].numel() == wanted[0].numel());
        for (int64_t i = 0; i < outputs[0].numel(); ++i)
          CHECK(outputs[0].get_double(i) == wanted[0].get_double(i));
      };
      run(4, 40, 3);
      run(3, 9, 9);
      run(2, 5000, 1);
      CHECK_THROWS_AS(run(3, 9, 14), support::UserError);
    }
  }
}

TEST_CASE("sizes outside their range are refused with input, dimension and range") {
  const std::vector<DynamicGraph> graphs = testing::read_dynamic_graphs("dynamic");
  // The symbol that a dimension is (-1: an integer input's value).
  auto symbol = [&](const DynamicGraph &graph, size_t input, int dimension) {
    const program::InputInfo &info = graph.compilation.program.inputs[input];
    return symbolic::print(dimension < 0 ? *info.value
                                         : graph.compilation.program.buffers[info.buffer]
                                               .layout.sizes[static_cast<size_t>(dimension)]);
  };
  const DynamicGraph &block = named(graphs, "block"), &tokens = named(graphs, "tokens"),
                     &pairs = named(graphs, "pairs"), &counts = named(graphs, "counts");
  check_refusal(block, {zeros({9, 7, 16})},
                "input \"x\", dimension 0: size 9 is outside [2, 8], the range of " +
                    symbol(block, 0, 0));
  check_refusal(block, {zeros({2, 33, 16})},
                "input \"x\", dimension 1: size 33 is outside [3, 32], the range of " +
                    symbol(block, 0, 1));
  check_refusal(tokens, {zeros({4, 5}, tensor::DType::i64), zeros({3}, tensor::DType::i64)},
                "input \"lengths\", dimension 0: size 3, expected 4, the value of " +
                    symbol(tokens, 0, 0));
  const std::string half = pairs.compilation.program.symbols[0].symbol.spelling();
  for (int64_t size : {7, 42, 2})
    check_refusal(pairs, {zeros({size, 5})},
                  "input \"x\", dimension 0: size " + std::to_string(size) + " is not 2*" + half +
                      " with " + half + " in [2, 20]");
  check_refusal(counts, {zeros({9, 2}), integer(-3), integer(2)},
                "input \"n\": value -3 is outside [1, inf], the range of " + symbol(counts, 1, -1));
}

TEST_CASE("an integer input binds a symbol and takes no memory") {
  const std::vector<DynamicGraph> graphs = testing::read_dynamic_graphs("dynamic");
  const program::Program &program = named(graphs, "counts").compilation.program;
  REQUIRE(program.inputs.size() == 3);
  CHECK_FALSE(program.inputs[0].value);
  REQUIRE(program.inputs[1].value);
  CHECK(program.inputs[1].value->is_symbol());
  CHECK(program.buffers[program.inputs[1].buffer].bytes.is_integer(0));
  const program::Program again = program::from_json(program::to_json(program), "counts");
  REQUIRE(again.inputs[2].value);
  CHECK(*again.inputs[2].value == *program.inputs[2].value);
}
