// What `tsc explain` knows of the groups of a schedule, before it is printed.
#pragma once

#include "driver/compile.h"
#include "scheduler/cost.h"
#include "target/target.h"

#include <nlohmann/json_fwd.hpp>

#include <optional>
#include <string>
#include <vector>

namespace tsc::app {

/// A decision about two groups, one of them a library call or a product of ours.
struct ToldDecision {
  std::string first, second; // operations; equal: about the call alone
  scheduler::Refusal refusal = scheduler::Refusal::none;
  std::string detail;
  int64_t shared_bytes = 0;
};
struct GroupExplanation {
  struct Member {
    std::string operation;
    std::vector<std::string> nodes; // the user's
  };
  std::vector<Member> members;
  std::vector<uint32_t> kernels; // in program.kernels
  std::string library;           // of a library call: its name
  bool tf32 = false;
  std::string definition; // of a size that the data decides: what a run does there
  scheduler::Cost cost;
  std::optional<double> merge_sort_nanoseconds; // of a sort by digits: what merging would take
  std::vector<ToldDecision> decisions;
};

/// Groups with a node of `wanted`; all of them if that is empty. Those without work are left out.
std::vector<GroupExplanation> explain_groups(const driver::Compilation &compilation,
                                             const target::Target &target,
                                             const std::vector<scheduler::NodeId> &wanted);

std::string to_text(const GroupExplanation &group, const program::Program &program,
                    const target::Target &target);
/// docs/command-line-json.md.
nlohmann::json to_json(const GroupExplanation &group, const program::Program &program);

/// Name, plan, bytes and estimate of one kernel.
std::string kernel_text(const program::Kernel &kernel);
nlohmann::json kernel_json(const program::Kernel &kernel);
/// "estimated on sm_90: 2.1 us: 0.2 MB, 0.1 GFLOP".
std::string cost_text(const scheduler::Cost &cost, const target::Target &target);
nlohmann::json cost_json(const scheduler::Cost &cost);

} // namespace tsc::app
