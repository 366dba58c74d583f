#include "driver/diff.h"

#include "driver/step_cost.h"

#include <algorithm>
#include <map>
#include <set>

namespace tsc::driver {
namespace {

using program::Kernel;
using program::Program;

class Totals {
public:
  Totals(const Program &program, const Shapes &shapes)
      : program_(program), sizes_(bind_shapes(program.symbols, shapes)),
        target_(target_of(program)) {}

  ProgramTotals run() {
    totals_.kernels = program_.kernels.size();
    for (const program::Step &step : program_.steps)
      if (!step.once)
        add(step);
    return totals_;
  }

private:
  const Program &program_;
  const symbolic::Bindings sizes_;
  const target::Target &target_;
  ProgramTotals totals_;

  void add(const program::Step &step) {
    ++totals_.steps;
    if (std::holds_alternative<program::Launch>(step.kind))
      ++totals_.launches;
    else if (std::holds_alternative<program::Matmul>(step.kind) ||
             std::holds_alternative<program::Solver>(step.kind))
      ++totals_.library_calls;
    else
      return;
    const scheduler::Cost cost = step_cost(program_, step, target_, [&](symbolic::Expr e) {
      return static_cast<double>(symbolic::evaluate(e, sizes_));
    });
    totals_.bytes += cost.bytes;
    totals_.nanoseconds += cost.nanoseconds;
  }
};

/// What makes two kernels one: the texts, which the name, found from the content, is part of.
using Text = std::pair<std::string, std::string>;
Text text_of(const Kernel &kernel) { return {kernel.cuda.text, kernel.serial.text}; }
std::set<std::string> nodes_of(const Kernel &kernel) {
  return {kernel.origins.begin(), kernel.origins.end()};
}

} // namespace

ProgramTotals totals_of(const Program &program, const Shapes &shapes) {
  return Totals(program, shapes).run();
}

ProgramDiff diff(const Program &before, const Program &after, const Shapes &shapes) {
  ProgramDiff result;
  result.before = totals_of(before, shapes);
  result.after = totals_of(after, shapes);
  std::multimap<Text, const Kernel *> left; // of `before`, not met in `after`
  for (const Kernel &kernel : before.kernels)
    left.emplace(text_of(kernel), &kernel);
  std::multimap<std::set<std::string>, const Kernel *> by_nodes; // of `after`, not in `before`
  for (const Kernel &kernel : after.kernels) {
    if (const auto found = left.find(text_of(kernel)); found != left.end()) {
      ++result.same;
      left.erase(found);
    } else {
      by_nodes.emplace(nodes_of(kernel), &kernel);
    }
  }
  std::set<const Kernel *> gone;
  for (const auto &entry : left)
    gone.insert(entry.second);
  for (const Kernel &kernel : before.kernels) { // in the program's order
    if (gone.count(&kernel) == 0)
      continue;
    const auto same_nodes = by_nodes.find(nodes_of(kernel));
    result.changes.push_back({&kernel, nullptr});
    if (same_nodes == by_nodes.end())
      continue;
    result.changes.back().after = same_nodes->second;
    by_nodes.erase(same_nodes);
  }
  std::set<const Kernel *> added;
  for (const auto &entry : by_nodes)
    added.insert(entry.second);
  for (const Kernel *kernel : added) // they lie in the program's order
    result.changes.push_back({nullptr, kernel});
  return result;
}

} // namespace tsc::driver
