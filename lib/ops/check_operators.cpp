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

/// What to do instead of a way of writing that no graph of tsc can hold; nothing for other targets.
struct Refusal {
  std::string message, next_step;
};
std::optional<Refusal> refused_write(const std::string &target) {
  const std::string overload = target.substr(target.rfind('.') + 1);
  const auto has = [&](std::string_view prefix) { return target.rfind(prefix, 0) == 0; };
  if (overload == "out" || (overload.size() > 4 && overload.substr(overload.size() - 4) == "_out"))
    return Refusal{target + " writes its result to a tensor given as out=",
                   "call it without out=, and copy_() the result where it belongs"};
  if (has("aten.resize") || has("aten._resize_output_") || has("aten.set_."))
    return Refusal{target + " gives a tensor other memory",
                   "make a new tensor instead: reshape, narrow, torch.empty or clone"};
  if (has("aten._foreach_") || has("aten._fused_"))
    return Refusal{target + " works on lists of tensors",
                   "call the operator on each tensor in a loop (optimizers: foreach=False)"};
  return std::nullopt;
}

Diagnostic report(const std::string &target, const Unknown &unknown,
                  const std::vector<std::string> &known) {
  std::string count = unknown.calls == 1 ? "1 call" : std::to_string(unknown.calls) + " calls";
  if (const std::optional<Refusal> refusal = refused_write(target))
    return Diagnostic{"TSC-O070",
                      refusal->message + " (" + count + ")",
                      "",
                      "",
                      unknown.first->name,
                      source_line(*unknown.first),
                      refusal->next_step};
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
