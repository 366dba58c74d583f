#include "driver/verify.h"

#include "driver/cut_graph.h"
#include "driver/ranks.h"
#include "driver/reference.h"
#include "ops/table/source_line.h"
#include "support/diagnostic.h"

#include <algorithm>
#include <map>

namespace tsc::driver {
namespace {

using tensor::HostTensor;
using Named = std::map<std::string, HostTensor>;

class Verifier {
public:
  Verifier(const graph::Graph &as_read, Named inputs, const tensor::TensorMap &weights,
           const VerifyOptions &options)
      : graph_(as_read), inputs_(std::move(inputs)), weights_(weights), options_(options) {}

  /// Of every output that is a tensor; `positions`: which of program.outputs they are.
  std::vector<OutputAgreement> compare(const Compilation &compilation,
                                       std::vector<size_t> *positions = nullptr) const {
    const program::Program &program = compilation.program;
    std::vector<HostTensor> inputs;
    for (const program::InputInfo &input : program.inputs)
      inputs.push_back(inputs_.at(input.name));
    const auto clones = [&] { // runs may write their inputs
      std::vector<HostTensor> own;
      own.reserve(inputs.size());
      for (const HostTensor &input : inputs)
        own.push_back(input.clone());
      return own;
    };
    ReferenceOptions rounded;
    rounded.seed = options_.seed;
    ReferenceOptions exact = rounded;
    exact.round_buffers = false;
    const std::vector<HostTensor> expected =
        run_reference(compilation, clones(), weights_, rounded);
    const std::vector<HostTensor> truth = run_reference(compilation, clones(), weights_, exact);
    const auto session = runtime::Session::create(program, weights_, options_.session);
    session->set_seed(options_.seed);
    const std::vector<HostTensor> actual = session->run(clones());
    const std::vector<std::string> paths = program::output_paths(program);
    std::vector<OutputAgreement> results;
    for (size_t i = 0; i < program.outputs.size(); ++i)
      if (program.outputs[i].buffer >= 0) {
        results.push_back({program.outputs[i].name, paths[i],
                           tensor::compare(actual[i], expected[i], &truth[i])});
        if (positions)
          positions->push_back(i);
      }
    return results;
  }

  /// Halves what lies between the last cut that agrees and the first that does not.
  void find_first(Verdict &verdict) {
    std::vector<graph::NodeId> points = cut_points(graph_);
    size_t good = 0, end = points.size(); // points[0, good) agree, points[end - 1] does not
    if (points.empty() || !is_wrong_at(points.back(), verdict))
      return;
    while (good + 1 < end) {
      const size_t middle = good + (end - 1 - good) / 2;
      try {
        (is_wrong_at(points[middle], verdict) ? end : good) = middle + 1;
      } catch (const support::UserError &) {
        points.erase(points.begin() + static_cast<std::ptrdiff_t>(middle)); // it cannot end here
        --end;
      }
    }
  }

private:
  const graph::Graph &graph_;
  const Named inputs_;
  const tensor::TensorMap &weights_;
  const VerifyOptions &options_;

  bool is_wrong_at(graph::NodeId last, Verdict &verdict) {
    CutGraph cut = graph_up_to(graph_, last);
    if (options_.progress)
      options_.progress("looking at node " + graph_.node(last).name);
    CompileOptions compile_options = options_.compile;
    compile_options.after = nullptr;
    const Compilation compilation = driver::compile(std::move(cut.graph), compile_options);
    std::vector<size_t> positions;
    const std::vector<OutputAgreement> outputs = compare(compilation, &positions);
    ++verdict.parts_run;
    for (size_t i = outputs.size(); i-- > 0;) { // the newest value comes last
      if (outputs[i].agreement.ok)
        continue;
      const std::string &name = cut.nodes.at(positions[i]);
      const auto node = std::find_if(graph_.nodes.begin(), graph_.nodes.end(),
                                     [&](const graph::Node &each) { return each.name == name; });
      verdict.first_wrong = {name, node->target, ops::source_line(*node), outputs[i].agreement};
      return true;
    }
    return false;
  }
};

} // namespace

Verdict verify(const Compilation &compilation, const graph::Graph &as_read,
               const std::vector<HostTensor> &inputs, const tensor::TensorMap &weights,
               const VerifyOptions &options) {
  if (has_collectives(compilation.program))
    throw support::UserError(support::ExitCode::unsupported,
                             {.code = "TSC-C029",
                              .message = "a program that communicates is not verified by itself",
                              .next_step = "compare its ranks with tsc run --expect"});
  Named named;
  for (size_t i = 0; i < inputs.size(); ++i)
    named[compilation.program.inputs[i].name] = inputs[i];
  Verifier verifier(as_read, std::move(named), weights, options);
  Verdict verdict;
  verdict.outputs = verifier.compare(compilation);
  verdict.agrees = std::all_of(verdict.outputs.begin(), verdict.outputs.end(),
                               [](const OutputAgreement &output) { return output.agreement.ok; });
  if (!verdict.agrees)
    verifier.find_first(verdict);
  return verdict;
}

} // namespace tsc::driver
