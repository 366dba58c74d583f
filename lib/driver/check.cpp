#include "driver/check.h"

#include "driver/cut_nodes.h"
#include "graph/symbol_names.h"
#include "ops/custom/custom_operator.h"
#include "ops/passes/cut_by_tensors.h"
#include "ops/passes/inline_effects.h"
#include "ops/passes/inline_subgraphs.h"
#include "ops/passes/write_results.h"
#include "ops/table/source_line.h"

#include <algorithm>
#include <set>
#include <unordered_map>

namespace tsc::driver {
namespace {

using graph::Graph;
using graph::NodeKind;
using support::Diagnostic;
using support::ExitCode;
using support::UserError;

/// Passes that stop at their first problem take a round for each. This many nodes are walked
/// through, a few seconds' worth, but in at least as many rounds as make a report of use.
constexpr size_t kMostWalked = 500'000;
constexpr size_t kFewestRounds = 20, kMostRounds = 1000;
constexpr size_t kMostPlaces = 5; // of an unsupported operator, in the text

class Checker {
public:
  Checker(Graph graph, const CompileOptions &options)
      : options_(options), whole_(std::move(graph)), rest_(whole_) {
    options_.after = nullptr;
    for (size_t i = 0; i < whole_.nodes.size(); ++i)
      position_.emplace(whole_.nodes[i].name, i);
  }

  CheckReport run() {
    const size_t most = std::clamp(kMostWalked / std::max<size_t>(whole_.nodes.size(), 1),
                                   kFewestRounds, kMostRounds);
    size_t round = 0;
    while (round < most && try_once(round != 0))
      ++round;
    describe();
    if (round == most)
      report_.problems.back().diagnostic.next_step += "; then check again, there may be more";
    return std::move(report_);
  }

private:
  CompileOptions options_;
  const Graph whole_; // as the user wrote it, wrappers' subgraphs inlined
  Graph rest_;        // what has not been refused yet, node by node
  std::unordered_map<std::string, size_t> position_; // in both, by name
  CheckReport report_;
  std::set<std::pair<std::string, std::string>> known_;  // node and message
  std::unordered_map<std::string, size_t> missing_;      // message -> problem that it is in
  std::set<std::pair<std::string, std::string>> placed_; // message and node of those
  std::vector<bool> depends_on_hole_;                    // by node of whole_

  /// One walk through the pipeline. True if something was refused and cut out.
  bool try_once(bool again) {
    try {
      // First what gives every node its value: those of refused nodes stand for them later.
      rest_ = ops::infer_shapes(ops::check_operators(rest_, {}), {});
      compile(rest_, options_);
      return false;
    } catch (const UserError &error) {
      if (error.exit_code() == ExitCode::usage)
        throw;
      return note(error);
    } catch (const support::InternalError &) {
      if (!again)
        throw;
      return false; // a graph with holes is none of the user's
    }
  }

  /// Adds what is new, and cuts out all that was refused. True if there was something to cut.
  bool note(const UserError &error) {
    std::set<std::string> refused;
    bool is_new = false;
    std::vector<Diagnostic> diagnostics = error.diagnostics();
    graph::name_symbols(whole_.symbols, diagnostics);
    for (const Diagnostic &diagnostic : diagnostics) {
      const std::vector<std::string> nodes = refused_by(diagnostic);
      refused.insert(nodes.begin(), nodes.end());
      if (!known_.emplace(diagnostic.node, diagnostic.message).second ||
          is_of_a_hole(diagnostic, error.exit_code()))
        continue;
      is_new = true;
      Problem &problem = find_or_add(diagnostic);
      for (const std::string &node : nodes)
        if (is_missing_feature(diagnostic) && placed_.emplace(diagnostic.message, node).second)
          problem.places.push_back({node, ""});
    }
    if (is_new && report_.exit_code != ExitCode::bad_input)
      report_.exit_code = error.exit_code();
    note_dependents(refused);
    return cut_nodes(rest_, refused) != 0;
  }

  /// True if what is recorded of the node has sizes, or is a number, that it alone can give.
  static bool yields_symbols(const graph::Node &node) {
    if (!node.value)
      return false;
    if (const auto *number = std::get_if<symbolic::Expr>(&node.value->value))
      return !number->is_integer();
    const graph::TensorMeta *meta = node.value->tensor();
    return meta && std::any_of(meta->layout.sizes.begin(), meta->layout.sizes.end(),
                               [](symbolic::Expr size) { return !size.is_integer(); });
  }

  /// Marks what computes with the results of `refused` that have symbols, their sizes included.
  void note_dependents(const std::set<std::string> &refused) {
    depends_on_hole_.resize(whole_.nodes.size(), false);
    for (const std::string &name : refused)
      if (const auto at = position_.find(name);
          at != position_.end() && yields_symbols(whole_.nodes[at->second]))
        depends_on_hole_[at->second] = true;
    for (size_t i = 0; i < whole_.nodes.size(); ++i) {
      const auto look = [&](graph::NodeRef argument) {
        if (depends_on_hole_[argument.id])
          depends_on_hole_[i] = true;
      };
      for (const graph::Argument &argument : whole_.nodes[i].args)
        graph::for_each_node(argument, look);
      for (const auto &keyword : whole_.nodes[i].kwargs)
        graph::for_each_node(keyword.second, look);
    }
  }
  /// What seems wrong with a node only because a symbol that a refused node yields has no value:
  /// the graph as it was written may be right. Values that differ from what is recorded do differ.
  bool is_of_a_hole(const Diagnostic &diagnostic, ExitCode code) const {
    const auto at = position_.find(diagnostic.node);
    return code == ExitCode::bad_input && diagnostic.code != "TSC-O050" && at != position_.end() &&
           at->second < depends_on_hole_.size() && depends_on_hole_[at->second];
  }

  /// What tsc does not have is one problem, however many nodes ask for it.
  static bool is_missing_feature(const Diagnostic &diagnostic) {
    return diagnostic.code.rfind("TSC-O00", 0) == 0 || diagnostic.code.rfind("TSC-K", 0) == 0 ||
           diagnostic.code == "TSC-O060" || diagnostic.code == "TSC-O070" ||
           diagnostic.code == "TSC-O216";
  }
  Problem &find_or_add(const Diagnostic &diagnostic) {
    const auto [known, inserted] =
        missing_.try_emplace(diagnostic.message, report_.problems.size());
    if (is_missing_feature(diagnostic) && !inserted)
      return report_.problems[known->second];
    report_.problems.push_back({diagnostic, "", {}, {}});
    return report_.problems.back();
  }

  /// The diagnostic's node and what is refused with it: every call of an unknown operator, every
  /// equal call if lowering refuses it. A diagnostic that names no node of the graph stands for the
  /// calls of its source line.
  std::vector<std::string> refused_by(const Diagnostic &diagnostic) const {
    const auto at = position_.find(diagnostic.node);
    std::vector<std::string> names;
    if (at == position_.end()) {
      for (const graph::Node &node : rest_.nodes)
        if (!diagnostic.source_line.empty() && ops::source_line(node) == diagnostic.source_line)
          names.push_back(node.name);
      return names;
    }
    const graph::Node &first = rest_.nodes[at->second];
    if (first.kind != NodeKind::call_function)
      return {first.name};
    const bool is_unknown = !ops::find_operator(first.target);
    if (!is_unknown && !is_of_lowering(diagnostic))
      return {first.name};
    for (const graph::Node &node : rest_.nodes)
      if (node.kind == NodeKind::call_function && node.target == first.target &&
          (is_unknown || (node.args == first.args && node.kwargs == first.kwargs)))
        names.push_back(node.name);
    return names;
  }
  /// Lowering sees one call where clean-up has merged equal ones.
  static bool is_of_lowering(const Diagnostic &diagnostic) {
    return diagnostic.code.rfind("TSC-O06", 0) == 0 || diagnostic.code.rfind("TSC-K", 0) == 0;
  }

  /// Fills in the calls and source lines, and sorts by node.
  void describe() {
    Graph valued = whole_; // with the values that were found on the way
    for (size_t i = 0; i < valued.nodes.size(); ++i)
      if (!valued.nodes[i].value)
        valued.nodes[i].value = rest_.nodes[i].value;
    const auto position_of = [&](const Problem &problem) {
      auto found = position_.find(problem.diagnostic.node);
      return found == position_.end() ? position_.size() : found->second;
    };
    for (Problem &problem : report_.problems) {
      const size_t position = position_of(problem);
      if (position == position_.size() || valued.nodes[position].kind != NodeKind::call_function)
        continue;
      const graph::Node &node = valued.nodes[position];
      problem.target = node.target;
      problem.arguments = ops::describe_arguments(valued, node);
      problem.diagnostic.source_line = ops::source_line(node);
      for (Place &place : problem.places)
        if (auto found = position_.find(place.node); found != position_.end())
          place.source_line = ops::source_line(valued.nodes[found->second]);
    }
    std::stable_sort(
        report_.problems.begin(), report_.problems.end(),
        [&](const Problem &a, const Problem &b) { return position_of(a) < position_of(b); });
  }
};

std::vector<Diagnostic> diagnostics_of(const CheckReport &report) {
  std::vector<Diagnostic> diagnostics;
  for (const Problem &problem : report.problems)
    diagnostics.push_back(problem.diagnostic);
  return diagnostics;
}

} // namespace

CheckReport check(Graph graph, const CompileOptions &options) {
  const ops::CustomOperatorScope operators(options.operators);
  CheckReport report;
  try {
    graph = ops::inline_subgraphs(ops::inline_effects(std::move(graph), {}), {});
    graph = ops::cut_by_tensors(ops::write_results(std::move(graph), {}), {});
  } catch (const UserError &error) {
    for (const Diagnostic &diagnostic : error.diagnostics())
      report.problems.push_back({diagnostic, "", {}, {}});
    report.exit_code = error.exit_code();
    return report;
  }
  return Checker(std::move(graph), options).run();
}

std::string to_string(const Problem &problem, const std::string &file) {
  Diagnostic diagnostic = problem.diagnostic;
  if (diagnostic.file.empty())
    diagnostic.file = file;
  const std::string next_step = std::move(diagnostic.next_step);
  diagnostic.next_step.clear();
  std::string text = support::to_string(diagnostic);
  if (!problem.target.empty())
    text += "\n  call " + ops::describe_call(problem.target, problem.arguments);
  for (size_t i = 1; i < problem.places.size() && i < kMostPlaces; ++i)
    text += "\n  also at node " + problem.places[i].node +
            (problem.places[i].source_line.empty() ? "" : " in " + problem.places[i].source_line);
  if (problem.places.size() > kMostPlaces)
    text += "\n  also at " + std::to_string(problem.places.size() - kMostPlaces) + " more nodes";
  if (!next_step.empty())
    text += "\n  next: " + next_step;
  return text;
}

CheckFailed::CheckFailed(const CheckReport &report, const std::string &file)
    : UserError(report.exit_code, diagnostics_of(report)), problems_(report.problems) {
  for (Problem &problem : problems_)
    if (problem.diagnostic.file.empty())
      problem.diagnostic.file = file;
  for (const Problem &problem : report.problems)
    text_ += (text_.empty() ? "" : "\n") + to_string(problem, file);
}

} // namespace tsc::driver
