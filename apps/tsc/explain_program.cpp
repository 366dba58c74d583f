#include "explain_program.h"
#include "explanation.h"
#include "profile.h"

#include "driver/step_cost.h"
#include "support/diagnostic.h"
#include "support/text.h"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace tsc::app {
namespace {

using program::Program;

struct ExplainedStep {
  size_t number = 0;
  ProfiledStep step;
  const program::Kernel *kernel = nullptr; // of a launch
  bool once = false;
  std::vector<std::string> reads, writes; // buffers, weights by their names
  scheduler::Cost cost;
};

/// A composite operator is the origin of each of its parts.
std::vector<std::string> each_once(const std::vector<std::string> &names) {
  std::vector<std::string> once;
  for (const std::string &name : names)
    if (std::find(once.begin(), once.end(), name) == once.end())
      once.push_back(name);
  return once;
}

std::vector<std::string> names_of(const Program &program, const std::vector<uint32_t> &buffers) {
  std::vector<std::string> names;
  for (const uint32_t buffer : buffers) {
    const program::Buffer &row = program.buffers[buffer];
    names.push_back(row.weight.empty() ? row.name : row.weight);
  }
  return names;
}

std::vector<ExplainedStep> steps_of(const Program &program, const driver::Shapes &shapes) {
  const symbolic::Bindings sizes = driver::bind_shapes(program.symbols, shapes);
  const std::vector<ProfiledStep> steps = profiled_steps(program);
  std::vector<ExplainedStep> all(steps.size());
  for (size_t i = 0; i < steps.size(); ++i) {
    const program::Step &step = program.steps[i];
    all[i].number = i;
    all[i].step = steps[i];
    if (const auto *launch = std::get_if<program::Launch>(&step.kind))
      all[i].kernel = &program.kernels[launch->kernel];
    all[i].step.nodes = each_once(steps[i].nodes);
    all[i].once = step.once;
    all[i].reads = names_of(program, program::reads(program, step));
    all[i].writes = names_of(program, program::writes(program, step));
    all[i].cost =
        driver::step_cost(program, step, driver::target_of(program), [&](symbolic::Expr size) {
          return static_cast<double>(symbolic::evaluate(size, sizes));
        });
  }
  return all;
}

/// Everything by which a step is found.
std::vector<std::string> names_of(const ExplainedStep &step) {
  std::vector<std::string> names = {step.step.name};
  if (step.kernel)
    names.push_back(step.kernel->name);
  for (const auto *list : {&step.step.nodes, &step.reads, &step.writes})
    names.insert(names.end(), list->begin(), list->end());
  return names;
}

std::vector<ExplainedStep> steps_of(const Program &program, const std::string &wanted,
                                    const driver::Shapes &shapes) {
  std::vector<ExplainedStep> all = steps_of(program, shapes);
  if (wanted.empty())
    return all;
  std::vector<ExplainedStep> found;
  std::vector<std::string> known;
  for (ExplainedStep &step : all) {
    std::vector<std::string> names = names_of(step);
    if (std::find(names.begin(), names.end(), wanted) != names.end())
      found.push_back(std::move(step));
    known.insert(known.end(), names.begin(), names.end());
  }
  if (!found.empty())
    return found;
  const std::string close = support::did_you_mean(wanted, known);
  throw support::UserError(
      support::ExitCode::usage,
      {.code = "TSC-C005",
       .message = "nothing in the program is called '" + wanted + "'",
       .next_step = (close.empty() ? "" : "did you mean '" + close + "'? ") +
                    "name a step, a kernel, a buffer or a node of the graph; `tsc explain OUT` "
                    "lists them"});
}

std::string to_text(const ExplainedStep &row, const target::Target &target) {
  std::string text = "step " + std::to_string(row.number) + ", " + row.step.name + ": " +
                     row.step.kind + (row.once ? ", once, when weights are loaded" : "") + "\n";
  if (row.kernel)
    text += kernel_text(*row.kernel);
  if (row.cost.bytes > 0)
    text += "  " + cost_text(row.cost, target) + "\n";
  if (!row.reads.empty())
    text += "  reads " + support::join(row.reads, ", ") + "\n";
  if (!row.writes.empty())
    text += "  writes " + support::join(row.writes, ", ") + "\n";
  if (!row.step.nodes.empty())
    text += "  nodes: " + support::join(row.step.nodes, ", ") + "\n";
  return text;
}

nlohmann::json to_json(const ExplainedStep &row) {
  return {{"step", row.number},
          {"name", row.step.name},
          {"kind", row.step.kind},
          {"kernel", row.kernel ? kernel_json(*row.kernel) : nlohmann::json(nullptr)},
          {"nodes", row.step.nodes},
          {"stream", row.step.stream},
          {"once", row.once},
          {"reads", row.reads},
          {"writes", row.writes},
          {"cost", cost_json(row.cost)}};
}

} // namespace

std::string explain_program(const Program &program, const std::string &wanted,
                            const driver::Shapes &shapes) {
  const target::Target &target = driver::target_of(program);
  const std::vector<ExplainedStep> steps = steps_of(program, wanted, shapes);
  std::string text;
  if (wanted.empty())
    text = program.name + ", compiled for " + target.part + ": " +
           std::to_string(program.steps.size()) + " steps, " +
           std::to_string(program.kernels.size()) + " kernels\n";
  for (const ExplainedStep &step : steps)
    text += to_text(step, target);
  return text;
}

nlohmann::json explain_program_json(const Program &program, const std::string &wanted,
                                    const driver::Shapes &shapes) {
  nlohmann::json steps = nlohmann::json::array();
  for (const ExplainedStep &step : steps_of(program, wanted, shapes))
    steps.push_back(to_json(step));
  return {{"arch", driver::target_of(program).name}, {"name", program.name}, {"steps", steps}};
}

} // namespace tsc::app
