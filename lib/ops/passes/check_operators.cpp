#include "ops/passes/passes.h"
#include "ops/table/argument_kinds.h"
#include "ops/table/operator.h"
#include "ops/table/source_line.h"
#include "ops/table/suggest.h"
#include "support/diagnostic.h"

#include <algorithm>
#include <unordered_map>

namespace tsc::ops {

using graph::NodeKind;
using support::Diagnostic;

namespace {

Diagnostic diagnostic(const Node &node, const char *code, std::string message,
                      std::string next_step) {
  return {code, std::move(message), "", "", node.name, source_line(node), std::move(next_step)};
}

/// An operator without a row: what to do instead of a way of writing that no graph of tsc can hold,
/// or the nearest that there is.
Diagnostic unknown_operator(const Node &node) {
  const std::string &target = node.target;
  const std::string overload = target.substr(target.rfind('.') + 1);
  const auto has = [&](std::string_view prefix) { return target.rfind(prefix, 0) == 0; };
  if (overload == "out" || (overload.size() > 4 && overload.substr(overload.size() - 4) == "_out"))
    return diagnostic(node, "TSC-O070", target + " writes its results to tensors given as out=",
                      "call it without out=, and copy_() each result where it belongs");
  if (has("aten._resize_output_") || has("aten.set_."))
    return diagnostic(node, "TSC-O070", target + " gives a tensor other memory",
                      "make a new tensor instead: reshape, narrow, torch.empty or clone");
  if (has("aten._print."))
    return diagnostic(node, "TSC-O070", target + " prints while the graph runs",
                      "print outside of the model");
  if (has("higher_order.triton_kernel_wrapper"))
    return diagnostic(
        node, "TSC-O216", target + " calls a Triton kernel, which Triton alone compiles",
        "bring it as an operator of your own: call it in a torch.library.custom_op, and "
        "give that operator's row and its kernel in CUDA C++ with --operators FOLDER "
        "(docs/custom-operators.md)");
  if (has("aten._foreach_") || has("aten._fused_"))
    return diagnostic(node, "TSC-O070", target + " works on lists of tensors",
                      "call the operator on each tensor in a loop (optimizers: foreach=False)");
  return diagnostic(node, "TSC-O001", "the operator " + target + " is not supported",
                    suggest_operator(target));
}

/// One report an operator, at the place of its first call.
class UnknownOperators {
public:
  /// The count follows when all calls are known.
  void add(const Node &node, std::vector<Diagnostic> &problems) {
    auto [known, inserted] = calls_.try_emplace(node.target, Calls{problems.size(), 0});
    ++known->second.count;
    if (inserted)
      problems.push_back(unknown_operator(node));
  }
  void write_counts(std::vector<Diagnostic> &problems) const {
    for (const auto &[target, calls] : calls_)
      problems[calls.place].message +=
          calls.count == 1 ? " (1 call)" : " (" + std::to_string(calls.count) + " calls)";
  }
  size_t count() const { return calls_.size(); }

private:
  struct Calls {
    size_t place, count;
  };
  std::unordered_map<std::string, Calls> calls_; // by target
};

void check_arguments(const graph::Graph &graph, const Node &node,
                     std::vector<Diagnostic> &problems) {
  try {
    Call call(graph, node, find_operator(node.target)->schema);
    std::vector<Diagnostic> wrong = check_argument_kinds(call);
    problems.insert(problems.end(), wrong.begin(), wrong.end());
  } catch (const support::UserError &error) {
    problems.insert(problems.end(), error.diagnostics().begin(), error.diagnostics().end());
  }
}

} // namespace

graph::Graph check_operators(graph::Graph graph, const PassOptions &) {
  UnknownOperators unknown;
  std::vector<Diagnostic> problems;
  const auto check = [&](const graph::Graph &part, const auto &check_again) -> void {
    for (const Node &node : part.nodes) {
      if (node.kind != NodeKind::call_function)
        continue;
      if (find_operator(node.target))
        check_arguments(part, node, problems);
      else
        unknown.add(node, problems);
    }
    for (const auto &subgraph : part.subgraphs)
      check_again(subgraph.second, check_again);
  };
  check(graph, check);
  if (problems.empty())
    return graph;
  unknown.write_counts(problems);
  const bool all_unknown = unknown.count() == problems.size();
  throw support::UserError(all_unknown ? support::ExitCode::unsupported
                                       : support::ExitCode::bad_input,
                           std::move(problems));
}

} // namespace tsc::ops
