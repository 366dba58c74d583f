#include "options.h"
#include "progress.h"

#include "driver/check.h"
#include "driver/graph_source.h"
#include "driver/operators_folder.h"
#include "runtime/session.h"
#include "support/diagnostic.h"
#include "support/text.h"
#include "target/target.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <map>
#include <optional>

namespace tsc::app {
namespace {

bool is_number(const std::string &text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
}

} // namespace

CLI::Option *add_repeatable(CLI::App &command, const std::string &name,
                            std::vector<std::string> &values, const std::string &text) {
  // Else CLI11 takes all words that follow, the graph among them.
  return command.add_option(name, values, text)->take_all()->allow_extra_args(false);
}

CLI::Validator whole_number() {
  return {[](const std::string &text) {
            uint64_t value = 0;
            const auto read = std::from_chars(text.data(), text.data() + text.size(), value);
            return is_number(text) && read.ec == std::errc()
                       ? ""
                       : "'" + text + "' is no whole number from 0 on";
          },
          "NUMBER"};
}

std::vector<std::string> words_of(int count, char **arguments) {
  constexpr const char *kBench = "--bench";
  std::vector<std::string> words;
  bool only_files = false; // behind "--"
  for (int i = 1; i < count; ++i) {
    std::string word = arguments[i];
    only_files = only_files || word == "--";
    const bool has_number = i + 1 < count && is_number(arguments[i + 1]);
    if (!only_files && word == kBench)
      word += "=" + (has_number ? std::string(arguments[++i]) : std::to_string(kBenchRuns));
    words.push_back(std::move(word));
  }
  return words;
}

void add_compile_flags(CLI::App &command, CompileFlags &flags, const char *graph_name) {
  if (graph_name)
    command
        .add_option(
            graph_name, flags.graph,
            std::string(
                "graph JSON, torch.export model.json or .pt2 archive; - for standard input") +
                (std::strchr(graph_name, '|') ? "; or a folder or package that tsc compile wrote"
                                              : ""))
        ->required();
  command.add_option("--policy", flags.policy,
                     "default, or inductor-2.5 (the thresholds of TorchInductor 2.5)");
  command
      .add_option(
          "--foreach-lists", flags.foreach_lists,
          "on: elements of list operators (_foreach_*) are scheduled as one; else by policy")
      ->check(CLI::IsMember({"on", "off"}));
  command
      .add_option("--combo-kernels", flags.combo_kernels,
                  "on: small independent kernels become one launch; else by policy")
      ->check(CLI::IsMember({"on", "off"}));
  command
      .add_option(
          "--tf32", flags.tf32,
          "which products of float32 a GPU may compute with factors of 10 bits of mantissa: "
          "off, conv (those of convolutions, as PyTorch), on (docs/numbers.md)")
      ->check(CLI::IsMember({"off", "conv", "on"}));
  command.add_flag("--deterministic", flags.deterministic,
                   "the same input gives the same bits: floats are never added atomically");
  add_repeatable(command, "--policy-option", flags.policy_options,
                 "NAME=VALUE: one threshold of the policy; repeatable (docs/scheduler.md)");
  command.add_option("--benchmark-fusion", flags.benchmark_fusion,
                     "time each pair of kernels against one fused kernel, and take the faster: on "
                     "host, host-cuda or cuda");
  add_repeatable(
      command, "--arch", flags.archs,
      "what to plan for: an architecture as in sm_90, one with the facts of a part as in "
      "sm_90:gigabytes_per_second=3350 (docs/kernels.md), native (this machine's GPU), or host; "
      "repeatable");
  add_repeatable(command, "--lock", flags.locks,
                 "take the plans of this file, which tsc tune wrote; repeatable");
  command.add_option("--operators", flags.operators,
                     "folder of operators of your own, with their kernels "
                     "(docs/custom-operators.md)");
  command.add_option("--shapes", flags.shapes,
                     "NAME=SIZE,...: sizes of the graph's symbols, as batch=8,seq=512, which plans "
                     "are made for and random inputs have");
  add_repeatable(command, "--dump-after", flags.dump_after,
                 "print the state after this pass to stderr; repeatable");
  command.add_flag("--time-passes", flags.time_passes, "print the time of each pass to stderr");
}

void print_warnings(const std::vector<std::string> &warnings, const std::string &file) {
  for (const std::string &warning : warnings)
    std::fprintf(stderr, "warning: %s\n  at %s\n", warning.c_str(), file.c_str());
}

std::string native_arch() {
  std::string why;
  std::string part = runtime::native_part(&why);
  if (part.empty())
    throw support::UserError(
        support::ExitCode::usage,
        support::Diagnostic{"TSC-C018", "there is no GPU here to plan for: " + why, "", "", "", "",
                            "name the architecture that the program will run on: --arch=sm_90"});
  return part;
}

std::vector<std::string> archs_of(const CompileFlags &flags) {
  if (flags.archs.empty())
    return {kDefaultArch};
  std::vector<std::string> archs;
  for (const std::string &given : flags.archs) {
    const std::string arch = given == "native" ? native_arch() : given;
    if (std::find(archs.begin(), archs.end(), arch) == archs.end())
      archs.push_back(arch);
  }
  return archs;
}

std::vector<driver::Compilation> compile_plans(const CompileFlags &flags, driver::Form last) {
  std::vector<driver::Compilation> plans;
  std::map<std::string, std::string> parts; // by architecture: a folder has one plan for each
  for (const std::string &arch : archs_of(flags)) {
    const target::Target &target = target::find_target(arch);
    if (const auto [other, is_new] = parts.emplace(target.name, arch); !is_new)
      throw support::UserError(
          support::ExitCode::usage,
          {.code = "TSC-C036",
           .message = arch + " and " + other->second + " are both parts of " + target.name,
           .next_step = "compile a folder for each, or for the slower one"});
    CompileFlags own = flags;
    own.archs = {arch};
    plans.push_back(compile_with_flags(own, last));
  }
  return plans;
}

driver::Shapes shapes_of(const CompileFlags &flags) {
  return flags.shapes.empty() ? driver::Shapes() : driver::parse_shapes(flags.shapes);
}

driver::CompileOptions compile_options_of(const CompileFlags &flags, driver::Form last) {
  driver::CompileOptions options;
  options.policy = flags.policy;
  if (!flags.foreach_lists.empty())
    options.foreach_lists = flags.foreach_lists == "on";
  if (!flags.combo_kernels.empty())
    options.combo_kernels = flags.combo_kernels == "on";
  options.policy_options = flags.policy_options;
  options.tf32 = flags.tf32 == "on"     ? target::Tf32::on
                 : flags.tf32 == "conv" ? target::Tf32::conv
                                        : target::Tf32::off;
  options.deterministic = flags.deterministic;
  options.benchmark_fusion = flags.benchmark_fusion;
  const std::vector<std::string> archs = archs_of(flags);
  if (archs.size() > 1)
    throw support::UserError(
        support::ExitCode::usage,
        support::Diagnostic{"TSC-C019", std::to_string(archs.size()) + " architectures are given",
                            "", "", "", "", "give one --arch; compile -o and run take several"});
  options.arch = archs.front();
  options.locks = flags.locks;
  if (!flags.operators.empty())
    options.operators = driver::read_operators(flags.operators);
  options.last = last;
  options.record_scheduling = flags.record_scheduling;
  options.keep_as_read = flags.keep_as_read;
  options.shapes = shapes_of(flags);
  return options;
}

driver::Compilation compile_with_flags(const CompileFlags &flags, driver::Form last) {
  driver::CompileOptions options = compile_options_of(flags, last);
  std::optional<Progress> progress(std::in_place);
  progress->show("reading " + flags.graph);
  std::vector<std::string> passes;
  options.after = [&](std::string_view name, const std::function<std::string()> &text) {
    passes.emplace_back(name);
    if (flags.dump_after.empty())
      progress->show("compiled up to " + passes.back());
    if (std::find(flags.dump_after.begin(), flags.dump_after.end(), name) != flags.dump_after.end())
      std::fprintf(stderr, "# after %s\n%s\n", passes.back().c_str(), text().c_str());
  };
  auto start = std::chrono::steady_clock::now();
  const double began_us =
      std::chrono::duration<double, std::micro>(start.time_since_epoch()).count();
  graph::Graph graph = driver::read_graph_from(flags.graph);
  double read_ms =
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  spdlog::info("{}: {} nodes", flags.graph, graph.nodes.size());
  driver::Compilation compilation;
  try {
    compilation = driver::compile(std::move(graph), options);
  } catch (const support::UserError &error) {
    if (error.exit_code() == support::ExitCode::usage ||
        error.exit_code() == support::ExitCode::device)
      throw; // the command line's fault, or the machine's, not the file's
    // A pass stops at its own problems: what `tsc check` says has those of all passes. The graph
    // went into the pipeline; it is read again.
    driver::CheckReport report = driver::check(driver::read_graph_from(flags.graph), options);
    if (!report.problems.empty())
      throw driver::CheckFailed(report, flags.graph);
    throw error.with_file(flags.graph);
  }
  progress.reset();
  if (!compilation.unlocked.empty())
    std::fprintf(stderr, "note: %s %s no plan for %zu kernels, which are planned as without: %s\n",
                 support::join(flags.locks, ", ").c_str(), flags.locks.size() == 1 ? "has" : "have",
                 compilation.unlocked.size(), support::join(compilation.unlocked, ", ").c_str());
  compilation.times.insert(compilation.times.begin(), driver::PassTime{"read", read_ms, began_us});
  for (const std::string &name : flags.dump_after) {
    if (std::find(passes.begin(), passes.end(), name) == passes.end())
      throw support::UserError(support::ExitCode::usage,
                               support::Diagnostic{"TSC-C003", "no pass is called '" + name + "'",
                                                   "", "", "", "",
                                                   "passes: " + support::join(passes, ", ")});
  }
  if (flags.time_passes) {
    double total = 0;
    for (const driver::PassTime &time : compilation.times) {
      std::fprintf(stderr, "%10.3f ms  %s\n", time.milliseconds, time.name.c_str());
      total += time.milliseconds;
    }
    std::fprintf(stderr, "%10.3f ms  total\n", total);
  }
  return compilation;
}

} // namespace tsc::app
