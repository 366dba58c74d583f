#include "idle_options.h"

#include "support/diagnostic.h"
#include "support/text.h"

#include <vector>

namespace tsc::app {
namespace {

/// One way in which options do nothing.
struct Rule {
  const char *command;
  std::vector<const char *> options;
  bool (*is_idle)(const Situation &);
  const char *where; // "--bench does nothing WHERE"
  const char *next;
};

const std::vector<const char *> kOfCompiling = {
    "--policy", "--policy-option", "--foreach-lists",    "--combo-kernels",
    "--tf32",   "--deterministic", "--benchmark-fusion", "--arch",
    "--lock",   "--operators",     "--dump-after",       "--time-passes"};
/// Where --arch says which of the compiled plans is looked at.
const std::vector<const char *> kOfCompilingButArch = {
    "--policy",    "--policy-option", "--foreach-lists",    "--combo-kernels",
    "--tf32",      "--deterministic", "--benchmark-fusion", "--lock",
    "--operators", "--dump-after",    "--time-passes"};

bool is_folder(const Situation &situation) { return situation.from_folder; }
bool is_reference(const Situation &situation) { return situation.device == "reference"; }
bool is_gpu(const Situation &situation) { return situation.device == "cuda"; }
bool is_no_gpu(const Situation &situation) {
  return !situation.device.empty() && situation.device != "cuda";
}
bool is_serial(const Situation &situation) {
  return situation.device == "cuda" || situation.plan == "serial";
}
bool has_data(const Situation &situation) {
  return !situation.data.empty() && situation.data.rfind("random", 0) != 0;
}
bool writes_to_stdout(const Situation &situation) { return situation.outputs == "-"; }
bool is_as_read(const Situation &situation) {
  return situation.form == "fx" || situation.form == "json";
}
bool is_form(const Situation &situation) { return !situation.form.empty(); }
bool is_no_log(const Situation &situation) {
  return situation.form == "init" || situation.form == "partitions";
}

constexpr const char *kCompiledBefore = "on what was compiled before";

const std::vector<Rule> &rules() {
  static const std::vector<Rule> kRules = {
      {"run", kOfCompiling, is_folder, "on a folder, which was compiled before",
       "give it to tsc compile, or run the graph"},
      {"diff", kOfCompilingButArch, is_folder, kCompiledBefore, "leave it out, or give a graph"},
      {"dump-schedule", kOfCompilingButArch, is_folder, kCompiledBefore,
       "leave it out, or give the graph"},
      {"explain", kOfCompilingButArch, is_folder, kCompiledBefore,
       "leave it out, or give the graph"},
      {"report", kOfCompilingButArch, is_folder, kCompiledBefore,
       "leave it out, or give the graph"},
      {"run",
       {"--bench", "--plan", "--reverse", "--no-cache", "--no-graphs"},
       is_reference,
       "on the reference, which computes operation by operation",
       "leave it out, or run on --device=host or --device=cuda"},
      {"run",
       {"--plan"},
       is_gpu,
       "on the GPU, which has one plan",
       "leave it out, or run on --device=host"},
      {"run",
       {"--reverse"},
       is_serial,
       "but with --device=host --plan=cuda, which runs a block's threads in an order",
       "leave it out, or add --device=host --plan=cuda"},
      {"run",
       {"--no-graphs"},
       is_no_gpu,
       "but on the GPU, which has CUDA graphs",
       "leave it out, or run on --device=cuda"},
      {"run",
       {"--shapes"},
       has_data,
       "with --inputs of a file, which says what the shapes are",
       "leave it out, or take --inputs=random"},
      {"run",
       {"--json"},
       writes_to_stdout,
       "with --outputs=-: standard output has the tensors",
       "leave it out, or write the outputs to a file"},
      {"verify",
       {"--plan"},
       is_gpu,
       "on the GPU, which has one plan",
       "leave it out, or verify on --device=host"},
      {"verify",
       {"--shapes"},
       has_data,
       "with --inputs of a file, which says what the shapes are",
       "leave it out, or take --inputs=random"},
      {"compile", kOfCompiling, is_as_read, "on the graph as it was read: nothing is compiled",
       "leave it out, or emit a form of the compilation: --emit=graph, ir, schedule, cuda, "
       "program"},
      {"compile",
       {"--weights", "--weights-from"},
       is_form,
       "with --emit: no weights are written",
       "leave it out, or write a folder with -o"},
      {"dump-schedule",
       {"--dialect", "--no-code"},
       is_no_log,
       "on this stage, which is no log of TorchInductor's form",
       "leave it out, or take --stage=pre-fusion or post-fusion"},
  };
  return kRules;
}

bool is_given(const CLI::App &command, const char *name) {
  const CLI::Option *option = command.get_option_no_throw(name);
  return option && option->count() > 0;
}

} // namespace

void refuse_idle_options(const CLI::App &command, const Situation &situation) {
  std::vector<support::Diagnostic> problems;
  for (const Rule &rule : rules()) {
    if (command.get_name() != rule.command || !rule.is_idle(situation))
      continue;
    std::vector<std::string> idle;
    for (const char *option : rule.options)
      if (is_given(command, option))
        idle.emplace_back(option);
    if (!idle.empty())
      problems.push_back({.code = "TSC-C024",
                          .message = support::join(idle, ", ") +
                                     (idle.size() == 1 ? " does" : " do") + " nothing " +
                                     rule.where,
                          .next_step = rule.next});
  }
  if (!problems.empty())
    throw support::UserError(support::ExitCode::usage, std::move(problems));
}

std::vector<std::string> readers_of_standard_input(const CLI::App &command) {
  std::vector<std::string> readers;
  for (const CLI::Option *option : command.get_options()) {
    const bool is_output = option->check_lname("out") || option->check_lname("outputs");
    if (!is_output && option->count() > 0 && option->results().front() == "-")
      readers.push_back(option->get_name(!option->nonpositional()));
  }
  return readers;
}

void refuse_shared_input(const CLI::App &command) {
  const std::vector<std::string> readers = readers_of_standard_input(command);
  if (readers.size() > 1)
    throw support::UserError(
        support::ExitCode::usage,
        {.code = "TSC-C071",
         .message = "only one of " + support::join(readers, ", ") + " can be standard input",
         .next_step = "give a file for the others"});
}

} // namespace tsc::app
