// Options that several subcommands share.
#pragma once

#include "driver/compile.h"
#include "driver/shapes.h"

#include <CLI/CLI.hpp>

#include <string>
#include <vector>

namespace tsc::app {

struct CompileFlags {
  std::string graph;
  std::string policy = "default";
  std::vector<std::string> policy_options;
  std::string tf32 = "off";
  bool deterministic = false;
  std::string benchmark_fusion;
  std::vector<std::string> archs;
  std::vector<std::string> locks;
  std::string operators;                    // folder, or ""
  std::string foreach_lists, combo_kernels; // on, off, or "": as the policy says
  std::string shapes;                       // NAME=SIZE,...
  std::vector<std::string> dump_after;
  bool time_passes = false;
  bool record_scheduling = false; // keep what each step of the scheduler did
  bool keep_as_read = false;      // keep the graph before its passes, too
};
/// An option that takes one value each time it is given.
CLI::Option *add_repeatable(CLI::App &command, const std::string &name,
                            std::vector<std::string> &values, const std::string &text);
/// Decimal digits: CLI11 takes -1 for 2^64 - 1.
CLI::Validator whole_number();
/// Of run --bench without a number.
inline constexpr int kBenchRuns = 100;
/// The command line's words, the program's name left out. --bench takes the next word for its
/// number only if that is one, so that it never swallows the graph.
std::vector<std::string> words_of(int count, char **arguments);

/// Declares GRAPH (unless `graph_name` is null), --policy, --foreach-lists,
/// --combo-kernels, --tf32, --deterministic, --arch, --lock, --operators, --shapes,
/// --dump-after, --time-passes.
void add_compile_flags(CLI::App &command, CompileFlags &flags, const char *graph_name);

/// --shapes; none if it is not given.
driver::Shapes shapes_of(const CompileFlags &flags);
/// What the flags say of compiling, dumps and times apart. Throws as compile_with_flags.
driver::CompileOptions compile_options_of(const CompileFlags &flags, driver::Form last);
/// Reads GRAPH and compiles it up to `last`; dumps and times go to stderr. Throws UserError (usage)
/// TSC-C019 if several --arch are given.
driver::Compilation compile_with_flags(const CompileFlags &flags, driver::Form last);
/// The same for each --arch.
std::vector<driver::Compilation> compile_plans(const CompileFlags &flags, driver::Form last);

/// "warning: TEXT" lines to stderr, and the file they are about.
void print_warnings(const std::vector<std::string> &warnings, const std::string &file);

/// What to plan for on this machine's GPU. Throws UserError (usage) TSC-C018 if there is none, or
/// none that programs are planned for.
std::string native_arch();
/// What to plan for where nothing is asked for: compiling needs no GPU, and does not look for one.
inline constexpr const char *kDefaultArch = "sm_90";
/// --arch, "native" replaced, each once, or else kDefaultArch.
std::vector<std::string> archs_of(const CompileFlags &flags);

} // namespace tsc::app
