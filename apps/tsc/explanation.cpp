#include "explanation.h"

#include "driver/group_cost.h"
#include "driver/group_kernels.h"
#include "graph/symbol_names.h"
#include "scheduler/schedule.h"
#include "support/text.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>

namespace tsc::app {
namespace {

using driver::Compilation;

const ir::Operation &operation_of(const Compilation &compilation, scheduler::NodeId node) {
  return compilation.module.operations[compilation.schedule.nodes[node].operation];
}

/// The user's nodes behind one scheduler node.
std::vector<std::string> user_nodes(const Compilation &compilation, scheduler::NodeId node) {
  std::vector<std::string> names;
  for (const uint32_t origin : operation_of(compilation, node).origins) {
    // A composite operator is the origin of each of its parts.
    const std::string &name = compilation.module.origins[origin].node;
    if (std::find(names.begin(), names.end(), name) == names.end())
      names.push_back(name);
  }
  return names;
}

/// What a run does where the data decides a size.
std::string definition_text(const ir::Module &module, const ir::Extern &call) {
  const symbolic::SymbolWriter name_of = graph::symbol_writer(module.symbols);
  std::string text = "the run waits for the device, and the host reads the size " +
                     symbolic::print(call.symbol, name_of) + ": ";
  const int64_t high = module.ranges.interval_of(call.symbol).high;
  if (call.bound)
    return text + "at most " + symbolic::print(*call.bound, name_of);
  if (high < INT64_MAX - 1)
    return text + "at most " + std::to_string(high);
  return text + "nothing bounds it, memory whose size it decides is allocated in the run";
}

/// Decisions about calls among the members: why they are alone, or what was chosen for them.
std::vector<ToldDecision> decisions_about(const Compilation &compilation,
                                          const scheduler::Group &group) {
  std::vector<ToldDecision> told;
  const auto is_call = [&](scheduler::NodeId node) {
    const auto *call = std::get_if<ir::Extern>(&operation_of(compilation, node).kind);
    const bool is_told = call != nullptr && (call->library == ir::Library::matmul ||
                                             call->library == ir::Library::attention);
    return is_told &&
           std::find(group.members.begin(), group.members.end(), node) != group.members.end();
  };
  for (const scheduler::FusionDecision &decision : compilation.schedule.decisions)
    if (is_call(decision.first) || is_call(decision.second))
      told.push_back({operation_of(compilation, decision.first).name,
                      operation_of(compilation, decision.second).name, decision.refusal,
                      decision.detail, decision.shared_bytes});
  return told;
}

template <class... Values> std::string format(const char *form, Values... values) {
  char text[512];
  std::snprintf(text, sizeof text, form, values...);
  return text;
}

/// "  not with op3: WHY; op2: its results are read by op5, too", or what was chosen.
std::string decision_text(const ToldDecision &decision, const GroupExplanation &group) {
  if (decision.refusal == scheduler::Refusal::none)
    return "  chosen: " + decision.detail + "\n";
  if (decision.first == decision.second)
    return "  alone: " + decision.detail + "\n";
  const bool is_first = std::any_of(
      group.members.begin(), group.members.end(),
      [&](const GroupExplanation::Member &member) { return member.operation == decision.first; });
  return "  without " + (is_first ? decision.second : decision.first) + ": " +
         std::string(scheduler::to_string(decision.refusal)) + ". " + decision.detail + "\n";
}

} // namespace

std::string kernel_text(const program::Kernel &kernel) {
  std::string text = "  kernel " + kernel.name + "\n  plan: " + kernel.plan + "\n  reads " +
                     symbolic::print(kernel.bytes_read) + " bytes, writes " +
                     symbolic::print(kernel.bytes_written) + " bytes\n";
  const program::KernelEstimate &estimate = kernel.estimate;
  if (!estimate.is_known)
    return text;
  const auto us = [](double nanoseconds) { return nanoseconds * 1e-3; };
  text += format("  fills: %lld blocks, %.1f waves, %lld threads in flight; %.1f sectors an access",
                 static_cast<long long>(estimate.blocks), estimate.waves,
                 static_cast<long long>(estimate.threads_in_flight), estimate.sectors);
  if (estimate.read_again > 0)
    text += format("; %.3g MB read again", estimate.read_again * 1e-6);
  return text + format("\n  roof: %.0f%%: memory %.1f us, arithmetic %.1f; accesses %.1f, "
                       "instructions %.1f, latency %.1f\n",
                       estimate.share() * 100, us(estimate.memory), us(estimate.arithmetic),
                       us(estimate.accesses), us(estimate.instructions), us(estimate.latency));
}

nlohmann::json kernel_json(const program::Kernel &kernel) {
  nlohmann::json json = {{"name", kernel.name},
                         {"plan", kernel.plan},
                         {"bytes_read", symbolic::print(kernel.bytes_read)},
                         {"bytes_written", symbolic::print(kernel.bytes_written)},
                         {"estimate", nullptr}};
  const program::KernelEstimate &estimate = kernel.estimate;
  if (estimate.is_known)
    json["estimate"] = {{"blocks", estimate.blocks},
                        {"waves", estimate.waves},
                        {"threads_in_flight", estimate.threads_in_flight},
                        {"sectors", estimate.sectors},
                        {"read_again_bytes", estimate.read_again},
                        {"share_of_roof", estimate.share()},
                        {"memory_ns", estimate.memory},
                        {"arithmetic_ns", estimate.arithmetic},
                        {"accesses_ns", estimate.accesses},
                        {"instructions_ns", estimate.instructions},
                        {"latency_ns", estimate.latency}};
  return json;
}

std::string cost_text(const scheduler::Cost &cost, const target::Target &target) {
  return "estimated on " + target.part + ": " +
         format("%.1f us: %.3g MB, %.3g GFLOP", cost.nanoseconds * 1e-3, cost.bytes * 1e-6,
                cost.operations * 1e-9);
}

nlohmann::json cost_json(const scheduler::Cost &cost) {
  return {
      {"bytes", cost.bytes}, {"operations", cost.operations}, {"nanoseconds", cost.nanoseconds}};
}

std::vector<GroupExplanation> explain_groups(const Compilation &compilation,
                                             const target::Target &target,
                                             const std::vector<scheduler::NodeId> &wanted) {
  std::vector<GroupExplanation> all;
  const std::vector<std::vector<uint32_t>> kernels = driver::kernels_of_groups(compilation);
  for (size_t g = 0; g < kernels.size(); ++g) {
    const scheduler::Group &group = compilation.schedule.groups[g];
    const bool is_wanted = std::any_of(wanted.begin(), wanted.end(), [&](scheduler::NodeId node) {
      return std::find(group.members.begin(), group.members.end(), node) != group.members.end();
    });
    if (group.node_class == scheduler::NodeClass::nop || (!wanted.empty() && !is_wanted))
      continue;
    const auto *call = std::get_if<ir::Extern>(&operation_of(compilation, group.members[0]).kind);
    if (call && call->library == ir::Library::tuple_item)
      continue; // is there with its tuple
    GroupExplanation &row = all.emplace_back();
    for (const scheduler::NodeId member : group.members)
      row.members.push_back(
          {operation_of(compilation, member).name, user_nodes(compilation, member)});
    row.kernels = kernels[g];
    if (call && call->library == ir::Library::define_size)
      row.definition = definition_text(compilation.module, *call);
    else if (call && kernels[g].empty()) {
      row.library = call->kernel;
      row.tf32 = call->tf32;
    }
    row.cost = driver::expected_cost(
        compilation.program, {compilation.module, compilation.schedule, group}, kernels[g], target);
    if (call && call->library == ir::Library::sort) {
      const scheduler::SortWork work = scheduler::sort_work(compilation.module, *call);
      if (!scheduler::is_sorted_whole(target, work))
        row.merge_sort_nanoseconds = scheduler::merge_sort_nanoseconds(target, work);
    }
    row.decisions = decisions_about(compilation, group);
  }
  return all;
}

std::string to_text(const GroupExplanation &group, const program::Program &program,
                    const target::Target &target) {
  std::vector<std::string> names;
  for (const GroupExplanation::Member &member : group.members)
    names.push_back(member.operation);
  std::string text = support::join(names, " + ") + ":\n";
  if (!group.definition.empty())
    text += "  " + group.definition + "\n";
  if (!group.library.empty())
    text +=
        "  library call " + group.library + (group.tf32 ? ", factors rounded to TF32" : "") + "\n";
  for (const uint32_t kernel : group.kernels)
    text += kernel_text(program.kernels[kernel]);
  text += "  " + cost_text(group.cost, target) + "\n";
  for (const ToldDecision &decision : group.decisions)
    text += decision_text(decision, group);
  if (group.merge_sort_nanoseconds)
    text += format("  by digits; merging sorted chunks would take %.1f us\n",
                   1e-3 * *group.merge_sort_nanoseconds);
  for (const GroupExplanation::Member &member : group.members)
    text += "  " + member.operation + ": " + support::join(member.nodes, ", ") + "\n";
  return text;
}

nlohmann::json to_json(const GroupExplanation &group, const program::Program &program) {
  nlohmann::json members = nlohmann::json::array(), kernels = nlohmann::json::array(),
                 decisions = nlohmann::json::array();
  for (const GroupExplanation::Member &member : group.members)
    members.push_back({{"operation", member.operation}, {"nodes", member.nodes}});
  for (const uint32_t kernel : group.kernels)
    kernels.push_back(kernel_json(program.kernels[kernel]));
  for (const ToldDecision &decision : group.decisions)
    decisions.push_back({{"first", decision.first},
                         {"second", decision.second},
                         {"refusal", std::string(scheduler::to_string(decision.refusal))},
                         {"detail", decision.detail},
                         {"shared_bytes", decision.shared_bytes}});
  nlohmann::json json = {
      {"members", members},
      {"kernels", kernels},
      {"library_call", group.library.empty() ? nlohmann::json() : nlohmann::json(group.library)},
      {"tf32", group.tf32},
      {"cost", cost_json(group.cost)},
      {"decisions", decisions}};
  if (!group.definition.empty())
    json["definition"] = group.definition;
  if (group.merge_sort_nanoseconds)
    json["merge_sort_nanoseconds"] = *group.merge_sort_nanoseconds;
  return json;
}

} // namespace tsc::app
