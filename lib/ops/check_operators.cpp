#include "ops/operator.h"
#include "ops/passes.h"
#include "ops/source_line.h"
#include "support/diagnostic.h"

#include <unordered_map>

namespace tsc::ops {

using graph::NodeKind;
using support::Diagnostic;

namespace {

struct Unknown {
  size_t calls = 0;
  const Node *first = nullptr;
};

Diagnostic report(const std::string &target, const Unknown &unknown,
                  const std::vector<std::string> &known) {
  std::string count = unknown.calls == 1 ? "1 call" : std::to_string(unknown.calls) + " calls";
  std::string near = support::did_you_mean(target, known);
  return Diagnostic{"TSC-O001",
                    "the operator " + target + " is not supported (" + count + ")",
                    "",
                    "",
                    unknown.first->name,
                    source_line(*unknown.first),
                    near.empty()
                        ? "docs/operators.md lists what is supported"
                        : "did you mean " + near + "? docs/operators.md lists what is supported"};
}

} // namespace

graph::Graph check_operators(graph::Graph graph, const PassOptions &) {
  std::vector<std::string> order; // in order of first use
  std::unordered_map<std::string, Unknown> unknown;
  for (const Node &node : graph.nodes) {
    if (node.kind != NodeKind::call_function || find_operator(node.target))
      continue;
    Unknown &entry = unknown[node.target];
    if (entry.calls++ == 0) {
      entry.first = &node;
      order.push_back(node.target);
    }
  }
  std::vector<Diagnostic> problems;
  if (!order.empty()) {
    std::vector<std::string> known;
    for (const Operator &row : operators())
      known.emplace_back(row.name);
    for (const std::string &target : order)
      problems.push_back(report(target, unknown[target], known));
    throw support::UserError(support::ExitCode::unsupported, std::move(problems));
  }
  for (const Node &node : graph.nodes) {
    if (node.kind != NodeKind::call_function)
      continue;
    try {
      Call call(graph, node, find_operator(node.target)->schema);
    } catch (const support::UserError &error) {
      problems.insert(problems.end(), error.diagnostics().begin(), error.diagnostics().end());
    }
  }
  if (!problems.empty())
    throw support::UserError(support::ExitCode::bad_input, std::move(problems));
  return graph;
}

} // namespace tsc::ops
