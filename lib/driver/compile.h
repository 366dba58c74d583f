// The pipeline from a graph to a program: one table, with dumps and timing hung on the loop that
// walks it.
#pragma once

#include "graph/graph.h"
#include "ir/ir.h"
#include "program/program.h"
#include "scheduler/schedule.h"
#include "target/policy.h"

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace tsc::ops {
class CustomOperators; // ops/custom/custom_operator.h
}

namespace tsc::driver {

/// What --emit and --dump-after print a stage as.
enum class Form : uint8_t { graph, ir, schedule, cuda, program };

struct CompileOptions {
  std::string policy = "default";
  std::optional<bool> foreach_lists, combo_kernels; // instead of what the policy says
  std::vector<std::string> policy_options;          // "NAME=VALUE", over the policy's own
  target::Tf32 tf32 = target::Tf32::off;            // if not off, over policy_options
  bool deterministic = false;                       // the same
  /// Where pairs of kernels are timed against one fused kernel (fusion_timer.h); "": nowhere.
  std::string benchmark_fusion;
  std::string arch = "sm_90";            // target::find_target
  std::map<std::string, int64_t> shapes; // that plans are made for (shapes.h)
  Form last = Form::program;             // stop when this form exists
  /// Files of `tsc tune` (lock.h): plans that were found to be faster than the planner's. Of two
  /// entries for one kernel the later counts.
  std::vector<std::string> locks;
  /// Operators that the user brought, or null (operators_folder.h).
  std::shared_ptr<const ops::CustomOperators> operators;
  bool record_scheduling = false; // fill Compilation::scheduling
  bool keep_as_read = false;      // fill Compilation::as_read
  /// Called with the name of every pass (graph passes, lower, scheduler steps, generate) and a
  /// function that renders the state after it.
  std::function<void(std::string_view, const std::function<std::string()> &)> after;
};

struct PassTime {
  std::string name;
  double milliseconds = 0;
  double began_us = 0; // of the steady clock
};

struct Compilation {
  graph::Graph graph;               // after the graph passes
  graph::Graph as_read;             // before them, if that was asked: without weights
  std::vector<std::string> choices; // that they made for it as a whole, a sentence each
  ir::Module module;
  scheduler::Schedule schedule;
  std::vector<scheduler::StepRecord> scheduling; // what each step did, if that was asked
  program::Program program;
  /// Names of kernels for which the locks, if there are any, have no plan that they could take.
  std::vector<std::string> unlocked;
  std::vector<PassTime> times; // one entry a pass, in running order
};

/// Errors: those of the passes (UserError names the node, its source line and the next step).
Compilation compile(graph::Graph graph, const CompileOptions &options);

/// Text of one form of a compilation that has reached it.
std::string render(const Compilation &compilation, Form form);

} // namespace tsc::driver
