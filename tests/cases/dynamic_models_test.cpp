// Whole models with dynamic shapes, each compiled once and run with ten sizes (1, odd, prime,
// multiples of 8) against PyTorch's numbers and against static compilations of the same sizes.
#include "dynamic_graphs.h"
#include "merge_programs.h"

#include "driver/inputs.h"
#include "driver/reference.h"
#include "runtime/session.h"
#include "testing/catch.h"
#include "testing/skip.h"

#include <algorithm>
#include <functional>

using namespace tsc;
using tensor::HostTensor;
using testing::DynamicGraph;
using testing::in_session;
using testing::Runner;

namespace {

using Tensors = std::vector<HostTensor>;

constexpr size_t kRuns = 10;

/// `expected`: PyTorch's outputs of that run, or those of another compilation.
void check_equal(const std::string &what, const testing::DynamicRun &run, const Tensors &outputs,
                 const Tensors &expected) {
  INFO(what);
  REQUIRE(outputs.size() == expected.size());
  for (size_t i = 0; i < outputs.size(); ++i) {
    const HostTensor *reference = run.references.empty() ? nullptr : &run.references[i];
    const tensor::Agreement agreement = tensor::compare(outputs[i], expected[i], reference, {});
    INFO("output " << i << ": " << agreement.reason);
    CHECK(agreement.ok);
  }
}

std::string label(const DynamicGraph &graph, size_t run) {
  return graph.name + ", run " + std::to_string(run);
}

void check_models(const std::function<Runner(const DynamicGraph &)> &runner) {
  const std::vector<DynamicGraph> graphs = testing::read_dynamic_graphs("dynamic_models");
  CHECK(graphs.size() == 5);
  for (const DynamicGraph &graph : graphs) {
    REQUIRE(graph.runs.size() == kRuns);
    const Runner run = runner(graph);
    for (size_t number = 0; number < kRuns; ++number)
      check_equal(label(graph, number), graph.runs[number], run(graph.runs[number].inputs),
                  graph.runs[number].outputs);
  }
}

// ---- the same graph with numbers in the place of symbols

symbolic::Substitution values_of_symbols(const graph::Graph &graph, const Tensors &inputs) {
  symbolic::Substitution values;
  size_t next = 0;
  for (const graph::InputSpec &spec : graph.inputs) {
    if (spec.kind != graph::InputKind::user)
      continue;
    const tensor::HostTensor &given = inputs.at(next++);
    const graph::TensorMeta *meta = graph.node(spec.node).value->tensor();
    REQUIRE(meta != nullptr);
    for (size_t axis = 0; axis < meta->layout.rank(); ++axis)
      if (meta->layout.sizes[axis].is_symbol())
        values[meta->layout.sizes[axis]] = given.sizes()[axis];
  }
  return values;
}

void make_static(graph::Argument &argument, const symbolic::Substitution &values) {
  if (const auto *e = std::get_if<symbolic::Expr>(&argument.value))
    argument = graph::Argument(symbolic::substitute(*e, values).value());
  else if (auto *list = std::get_if<graph::Argument::List>(&argument.value))
    for (graph::Argument &item : *list)
      make_static(item, values);
}

void make_static(graph::Value &value, const symbolic::Substitution &values) {
  const auto replace = [&](symbolic::Expr &e) { e = symbolic::substitute(e, values); };
  if (auto *meta = std::get_if<graph::TensorMeta>(&value.value)) {
    std::for_each(meta->layout.sizes.begin(), meta->layout.sizes.end(), replace);
    std::for_each(meta->layout.strides.begin(), meta->layout.strides.end(), replace);
    replace(meta->layout.offset);
  } else if (auto *e = std::get_if<symbolic::Expr>(&value.value)) {
    replace(*e);
  } else if (auto *list = std::get_if<graph::Value::List>(&value.value)) {
    for (graph::Value &item : *list)
      make_static(item, values);
  }
}

driver::Compilation compile_static(const DynamicGraph &dynamic, const Tensors &inputs) {
  graph::Graph graph = dynamic.graph;
  REQUIRE(graph.subgraphs.empty());
  const symbolic::Substitution values = values_of_symbols(graph, inputs);
  CHECK(values.size() == graph.symbols.size());
  for (graph::Node &node : graph.nodes) {
    for (graph::Argument &argument : node.args)
      make_static(argument, values);
    for (auto &[name, argument] : node.kwargs)
      make_static(argument, values);
    if (node.value)
      make_static(*node.value, values);
  }
  graph.symbols.clear();
  return driver::compile(std::move(graph), {});
}

} // namespace

TEST_CASE("dynamic models on reference, against static compilation") {
  for (const DynamicGraph &graph : testing::read_dynamic_graphs("dynamic_models"))
    for (size_t run = 0; run < graph.runs.size(); ++run) {
      const Tensors &inputs = graph.runs[run].inputs;
      const Tensors outputs = driver::run_reference(graph.compilation, inputs, graph.weights);
      check_equal(label(graph, run), graph.runs[run], outputs, graph.runs[run].outputs);
      check_equal(label(graph, run) + ", static", graph.runs[run],
                  driver::run_reference(compile_static(graph, inputs), inputs, graph.weights),
                  outputs);
    }
}

TEST_CASE("dynamic models on host, serial plan, against static compilation") {
  for (const DynamicGraph &graph : testing::read_dynamic_graphs("dynamic_models")) {
    std::vector<program::Program> programs;
    Tensors inputs;
    tensor::TensorMap weights; // named as merge_programs does
    for (size_t run = 0; run < graph.runs.size(); ++run) {
      const Tensors &own = graph.runs[run].inputs;
      programs.push_back(compile_static(graph, own).program);
      inputs.insert(inputs.end(), own.begin(), own.end());
      for (const auto &[name, weight] :
           driver::load_weights(programs.back(), graph.weights, std::nullopt))
        weights.emplace("p" + std::to_string(run) + "_" + name, weight);
    }
    const Tensors all =
        runtime::Session::create(testing::merge_programs(programs), weights, {})->run(inputs);
    const Runner dynamic = in_session(graph, {});
    size_t next = 0;
    for (size_t run = 0; run < graph.runs.size(); ++run) {
      const Tensors outputs = dynamic(graph.runs[run].inputs);
      check_equal(label(graph, run), graph.runs[run], outputs, graph.runs[run].outputs);
      const auto first = all.begin() + static_cast<std::ptrdiff_t>(next);
      next += outputs.size();
      check_equal(label(graph, run) + ", static", graph.runs[run],
                  Tensors(first, first + static_cast<std::ptrdiff_t>(outputs.size())), outputs);
    }
  }
}

TEST_CASE("dynamic models on host, cuda plan") {
  for (const auto order : {runtime::SessionOptions::ThreadOrder::forward,
                           runtime::SessionOptions::ThreadOrder::reverse}) {
    runtime::SessionOptions options;
    options.plan = runtime::Plan::cuda;
    options.thread_order = order;
    check_models([&](const DynamicGraph &graph) { return in_session(graph, options); });
  }
}

TEST_CASE("dynamic models on the GPU", "[gpu]") {
  std::string why;
  if (!runtime::cuda_available(&why)) {
    testing::skip("there is no GPU: " + why);
    return;
  }
  runtime::SessionOptions options;
  options.device = runtime::DeviceKind::cuda;
  check_models([&](const DynamicGraph &graph) { return in_session(graph, options); });
}
