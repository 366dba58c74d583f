// What makes random programs, says them in other ways and makes findings small.
#include "case.h"
#include "check.h"
#include "eager.h"
#include "minimize.h"
#include "random_graph.h"
#include "rebuild.h"
#include "variants.h"

#include "graph/read.h"
#include "ops/passes/passes.h"
#include "tensor/complex_memory.h"
#include "testing/catch.h"

#include <cmath>
#include <complex>
#include <set>

using namespace tsc;
using namespace tsc::differential;

namespace {

Subject read(const std::string &text, std::vector<tensor::HostTensor> inputs) {
  return {graph::parse_graph(text, "test"), std::move(inputs)};
}

tensor::HostTensor counting(std::vector<int64_t> sizes) {
  tensor::HostTensor tensor(tensor::DType::f32, std::move(sizes));
  for (int64_t i = 0; i < tensor.numel(); ++i)
    tensor.set_double(i, static_cast<double>(i));
  return tensor;
}

/// y = x + 1; row 1 of y, transposed and back, times 10 in place; y * 2.
Subject write_through_a_view() {
  return read(R"({"format": "tsc-graph", "version": 1, "nodes": [
      {"name": "x", "op": "placeholder", "val": {"dtype": "float32", "size": [2, 3]}},
      {"name": "y", "op": "call_function", "target": "aten.add.Tensor", "args": [{"node": "x"}, 1]},
      {"name": "turned", "op": "call_function", "target": "aten.transpose.int",
       "args": [{"node": "y"}, 0, 1]},
      {"name": "row", "op": "call_function", "target": "aten.select.int",
       "args": [{"node": "turned"}, 1, 1]},
      {"name": "written", "op": "call_function", "target": "aten.mul_.Tensor",
       "args": [{"node": "row"}, 10]},
      {"name": "z", "op": "call_function", "target": "aten.mul.Tensor", "args": [{"node": "y"}, 2]},
      {"name": "output", "op": "output", "args": [[{"node": "z"}]]}],
      "signature": {"inputs": [{"node": "x", "kind": "user"}],
                    "outputs": [{"kind": "user", "value": {"node": "z"}}]}})",
              {counting({2, 3})});
}

/// The calls' values, as an export records them.
Subject with_values(Subject subject) {
  ops::PassOptions options;
  subject.graph = ops::infer_shapes(std::move(subject.graph), options);
  return subject;
}

} // namespace

TEST_CASE("random graphs are the same for one seed, well-formed, and cover the table") {
  std::set<std::string> targets;
  for (uint64_t seed = 0; seed < 8; ++seed) {
    RandomSource random(seed), again(seed);
    const Subject subject = random_subject(random, {});
    const std::string text = graph::to_json(subject.graph);
    CHECK(graph::to_json(random_subject(again, {}).graph) == text);
    CHECK(graph::to_json(graph::parse_graph(text, "again")) == text);
    CHECK(subject.inputs.size() == subject.graph.inputs.size());
    for (const graph::Node &node : subject.graph.nodes)
      targets.insert(node.target);
  }
  CHECK(targets.size() > 30);
}

TEST_CASE("call by call, what is written through a view of a view is seen") {
  const std::optional<EagerResult> result = run_eagerly(with_values(write_through_a_view()));
  REQUIRE(result);
  const std::vector<double> expected = {2, 4, 6, 80, 100, 120};
  for (int64_t i = 0; i < 6; ++i)
    CHECK(result->outputs[0].get_double(i) == expected[static_cast<size_t>(i)]);
  CHECK(result->inputs[0].get_double(4) == 4); // the input itself is not written
}

TEST_CASE("a graph agrees with all of its variants") {
  const Subject subject = with_values(write_through_a_view());
  CheckOptions options;
  for (size_t kind = 0; kind < variant_kinds().size(); ++kind)
    options.kinds.push_back(kind);
  for (uint64_t seed = 0; seed < 5; ++seed) {
    const Checked checked = check(subject, options, RandomSource(seed));
    for (const Finding &finding : checked.findings)
      FAIL_CHECK(finding.way << ": " << finding.detail << ": " << finding.reason);
    CHECK(checked.ran_eagerly);
    CHECK(checked.variants >= 7);
  }
}

TEST_CASE("moments of nothing and of one element, whatever walks over them") {
  const auto moments = [](const std::string &size, std::vector<double> values) {
    Subject subject = read(R"({"format": "tsc-graph", "version": 1, "nodes": [
      {"name": "x", "op": "placeholder", "val": {"dtype": "float32", "size": [)" +
                               size +
                               R"(]}},
      {"name": "pair", "op": "call_function", "target": "aten.var_mean.correction",
       "args": [{"node": "x"}], "kwargs": {"correction": 0}},
      {"name": "variance", "op": "call_function", "target": "operator.getitem", "args": [{"node": "pair"}, 0]},
      {"name": "mean", "op": "call_function", "target": "operator.getitem", "args": [{"node": "pair"}, 1]},
      {"name": "output", "op": "output", "args": [[{"node": "variance"}, {"node": "mean"}]]}],
      "signature": {"inputs": [{"node": "x", "kind": "user"}],
                    "outputs": [{"kind": "user", "value": {"node": "variance"}},
                                {"kind": "user", "value": {"node": "mean"}}]}})",
                           {counting({static_cast<int64_t>(values.size())})});
    for (size_t i = 0; i < values.size(); ++i)
      subject.inputs[0].set_double(static_cast<int64_t>(i), values[i]);
    return subject;
  };
  driver::CompileOptions walk;
  walk.policy_options = {"unroll_reductions_threshold=0"};
  for (const driver::CompileOptions &options : {driver::CompileOptions(), walk}) {
    for (const Subject &subject : {moments("0", {}), moments("1", {NAN})}) {
      const NamedTensors outputs = evaluate(subject, options).outputs;
      CHECK(std::isnan(outputs.at("output_0").get_double(0)));
      CHECK(std::isnan(outputs.at("output_1").get_double(0)));
    }
    CHECK(evaluate(moments("1", {3}), options).outputs.at("output_0").get_double(0) == 0);
    const Subject infinite = moments("9", {1, 2, 3, INFINITY, 5, 6, 7, 8, 9}); // walked over
    CHECK(std::isnan(evaluate(infinite, options).outputs.at("output_0").get_double(0)));
  }
}

TEST_CASE("the judge tells what differs from what rounding decides") {
  const Subject subject = with_values(write_through_a_view());
  const Evaluated base = evaluate(subject, {});
  Judge judge(subject, base);
  CHECK_FALSE(judge.compare(base.outputs));
  NamedTensors other = {{"output_0", base.outputs.at("output_0").clone()}};
  other["output_0"].set_double(2, 7);
  const auto difference = judge.compare(other);
  REQUIRE(difference);
  CHECK(difference->first == "output_0");
}

TEST_CASE("eigenvectors may have other phases, and nothing else") {
  CaseSource source;
  source.name = "vectors";
  source.model = R"({"format": "tsc-graph", "version": 1, "nodes": [
      {"name": "x", "op": "placeholder", "val": {"dtype": "complex64", "size": [2, 2]}},
      {"name": "pair", "op": "call_function", "target": "aten._linalg_eigh.default",
       "args": [{"node": "x"}, "L", true]},
      {"name": "v", "op": "call_function", "target": "operator.getitem", "args": [{"node": "pair"}, 1]},
      {"name": "output", "op": "output", "args": [[{"node": "v"}]]}],
      "signature": {"inputs": [{"node": "x", "kind": "user"}],
                    "outputs": [{"kind": "user", "value": {"node": "v"}}]}})";
  // Columns (0.6, 0.8i) and (0.8, -0.6i), times a factor each.
  const auto vectors = [](tensor::DType dtype, std::complex<double> first,
                          std::complex<double> second) {
    const std::complex<double> i(0, 1);
    const std::complex<double> values[] = {0.6 * first, 0.8 * second, 0.8 * i * first,
                                           -0.6 * i * second};
    tensor::HostTensor parts(dtype, {2, 2, 2});
    for (int64_t k = 0; k < 4; ++k) {
      parts.set_double(2 * k, values[k].real());
      parts.set_double(2 * k + 1, values[k].imag());
    }
    return tensor::as_complex(parts);
  };
  source.inputs["input_0"] = vectors(tensor::DType::f32, 1, 1);
  source.expected["output_0"] = vectors(tensor::DType::f32, 1, 1);
  source.expected["ref_0"] = vectors(tensor::DType::f64, 1, 1);
  CompiledCase subject = compile_case(source, {});
  const auto status = [&](std::complex<double> first, std::complex<double> second) {
    Verdict verdict;
    std::vector<tensor::HostTensor> outputs;
    outputs.push_back(vectors(tensor::DType::f32, first, second));
    judge(subject, outputs, verdict);
    return verdict.status;
  };
  CHECK(status(1, 1) == Status::agree);
  CHECK(status(std::polar(1.0, 0.7), std::polar(1.0, -2.5)) == Status::agree);
  CHECK(status(1, -1) == Status::agree);
  CHECK(status(std::polar(1.0, 0.7), 1.001) == Status::differ);
  CHECK(status(0, 1) == Status::differ);
}

TEST_CASE("a finding is made as small as it still fails") {
  RandomSource random(3);
  GrammarOptions options;
  options.least_calls = 12;
  options.mutating_percent = 0;
  const Subject subject = random_subject(random, options);
  std::string target; // of some call in the middle
  for (const graph::Node &node : subject.graph.nodes)
    if (node.kind == graph::NodeKind::call_function && node.target != "operator.getitem" &&
        (target.empty() || node.name < "n5"))
      target = node.target;
  const auto fails = [&](const Subject &candidate) {
    for (const graph::Node &node : candidate.graph.nodes)
      if (node.target == target)
        return true;
    return false;
  };
  const Subject smaller = minimized(subject, fails, 20);
  CHECK(fails(smaller));
  size_t calls = 0;
  for (const graph::Node &node : smaller.graph.nodes)
    calls += node.kind == graph::NodeKind::call_function && node.target != "operator.getitem";
  CHECK(calls <= 2);
}
