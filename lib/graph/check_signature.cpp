#include "graph/check_signature.h"

#include <set>

namespace tsc::graph {

using support::Diagnostic;
using support::ExitCode;
using support::UserError;

namespace {

/// What a mutation or a gradient may name.
class Targets {
public:
  explicit Targets(const Graph &graph) {
    for (const InputSpec &input : graph.inputs)
      if (input.kind == InputKind::parameter)
        parameters_.insert(input.target);
      else if (input.kind == InputKind::buffer || input.kind == InputKind::constant_tensor)
        buffers_.insert(input.target);
      else if (input.kind == InputKind::user)
        users_.insert(graph.node(input.node).name);
  }

  /// What `output` names that is not there; nullptr if it is sound.
  const char *missing_target(const OutputSpec &output) const {
    switch (output.kind) {
    case OutputKind::buffer_mutation:
      return missing(buffers_, output.target, "the mutated buffer");
    case OutputKind::parameter_mutation:
      return missing(parameters_, output.target, "the mutated parameter");
    case OutputKind::input_mutation:
      return missing(users_, output.target, "the mutated input");
    case OutputKind::gradient:
      if (users_.count(output.target) != 0)
        return nullptr;
      return missing(parameters_, output.target, "the gradient's parameter or input");
    default:
      return nullptr;
    }
  }

private:
  static const char *missing(const std::set<std::string> &known, const std::string &target,
                             const char *what) {
    return known.count(target) != 0 ? nullptr : what;
  }

  std::set<std::string> parameters_, buffers_, users_;
};

} // namespace

void check_signature(const Graph &graph, const std::string &outputs, Problems &problems) {
  const Argument &result = graph.nodes.back().args.at(0);
  const Argument::List single = {result};
  const Argument::List &returned = result.list() != nullptr ? *result.list() : single;
  if (returned.size() != graph.outputs.size()) {
    problems.add(
        UserError(ExitCode::bad_input,
                  Diagnostic{"TSC-G015",
                             "the signature names " + std::to_string(graph.outputs.size()) +
                                 " outputs, the graph returns " + std::to_string(returned.size()),
                             "", outputs, "", "", ""}));
    return;
  }
  Targets targets(graph);
  for (size_t i = 0; i < graph.outputs.size(); ++i) {
    std::string place = outputs + "/" + std::to_string(i);
    if (!(graph.outputs[i].value == returned[i]))
      problems.add(
          UserError(ExitCode::bad_input, Diagnostic{"TSC-G015",
                                                    "the signature's output " + std::to_string(i) +
                                                        " is not what the graph returns there",
                                                    "", place, "", "", ""}));
    if (const char *what = targets.missing_target(graph.outputs[i]))
      problems.add(UserError(
          ExitCode::bad_input,
          Diagnostic{
              "TSC-G026",
              std::string(what) + " '" + graph.outputs[i].target + "' is no input of the graph", "",
              place, "", "", "name a buffer, parameter or input as the signature's inputs do"}));
  }
}

} // namespace tsc::graph
