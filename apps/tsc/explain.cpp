#include "commands.h"
#include "options.h"

#include "driver/group_cost.h"
#include "driver/group_kernels.h"
#include "driver/network.h"
#include "driver/ranks.h"
#include "graph/symbol_names.h"
#include "scheduler/cost.h"
#include "scheduler/schedule.h"
#include "support/diagnostic.h"
#include "support/text.h"
#include "target/target.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>

namespace tsc::app {
namespace {

struct Flags : CompileFlags {
  std::string first, second;
  std::string network, mesh;
  std::vector<std::string> groups;
  int64_t world_size = 0;
};

using driver::Compilation;

const std::string &operation_name(const Compilation &compilation, scheduler::NodeId node) {
  return compilation.module.operations[compilation.schedule.nodes[node].operation].name;
}

/// The user's nodes behind one scheduler node.
std::string user_nodes(const Compilation &compilation, scheduler::NodeId node) {
  std::vector<std::string> names;
  const ir::Operation &operation =
      compilation.module.operations[compilation.schedule.nodes[node].operation];
  for (uint32_t origin : operation.origins) {
    // A composite operator is the origin of each of its parts.
    const std::string &name = compilation.module.origins[origin].node;
    if (std::find(names.begin(), names.end(), name) == names.end())
      names.push_back(name);
  }
  return support::join(names, ", ");
}

void explain_kernel(const program::Kernel &kernel) {
  std::printf("  kernel %s\n  plan: %s\n  reads %s bytes, writes %s bytes\n", kernel.name.c_str(),
              kernel.plan.c_str(), symbolic::print(kernel.bytes_read).c_str(),
              symbolic::print(kernel.bytes_written).c_str());
  const program::KernelEstimate &estimate = kernel.estimate;
  if (!estimate.is_known)
    return;
  const auto us = [](double nanoseconds) { return nanoseconds * 1e-3; };
  std::printf("  fills: %lld blocks, %.1f waves, %lld threads in flight; %.1f sectors an access",
              static_cast<long long>(estimate.blocks), estimate.waves,
              static_cast<long long>(estimate.threads_in_flight), estimate.sectors);
  if (estimate.read_again > 0)
    std::printf("; %.3g MB read again", estimate.read_again * 1e-6);
  std::printf(
      "\n  roof: %.0f%%: memory %.1f us, arithmetic %.1f; accesses %.1f, instructions %.1f, "
      "latency %.1f\n",
      estimate.share() * 100, us(estimate.memory), us(estimate.arithmetic), us(estimate.accesses),
      us(estimate.instructions), us(estimate.latency));
}

/// "12.3 us: 8.39 MB, 12.9 GFLOP", by the cost model that the scheduler goes by.
std::string cost_text(const scheduler::Cost &cost) {
  char text[96];
  std::snprintf(text, sizeof text, "%.1f us: %.3g MB, %.3g GFLOP", cost.nanoseconds * 1e-3,
                cost.bytes * 1e-6, cost.operations * 1e-9);
  return text;
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

/// Groups with a node of `wanted`; all of them if that is empty.
void explain_groups(const Compilation &compilation, const target::Target &target,
                    const std::vector<scheduler::NodeId> &wanted) {
  for (const std::string &choice : compilation.choices)
    if (wanted.empty())
      std::printf("%s\n", choice.c_str());
  std::vector<std::vector<uint32_t>> kernels = driver::kernels_of_groups(compilation);
  for (size_t g = 0; g < kernels.size(); ++g) {
    const scheduler::Group &group = compilation.schedule.groups[g];
    const bool is_wanted = std::any_of(wanted.begin(), wanted.end(), [&](scheduler::NodeId node) {
      return std::find(group.members.begin(), group.members.end(), node) != group.members.end();
    });
    if (group.node_class == scheduler::NodeClass::nop || (!wanted.empty() && !is_wanted))
      continue;
    std::vector<std::string> members;
    for (scheduler::NodeId member : group.members)
      members.push_back(operation_name(compilation, member));
    const ir::Operation &first =
        compilation.module.operations[compilation.schedule.nodes[group.members[0]].operation];
    const auto *call = std::get_if<ir::Extern>(&first.kind);
    if (call && call->library == ir::Library::tuple_item)
      continue; // is there with its tuple
    std::printf("%s:\n", support::join(members, " + ").c_str());
    if (call && call->library == ir::Library::define_size)
      std::printf("  %s\n", definition_text(compilation.module, *call).c_str());
    else if (call && kernels[g].empty())
      std::printf("  library call %s%s\n", call->kernel.c_str(),
                  call->tf32 ? ", factors rounded to TF32" : "");
    for (uint32_t kernel : kernels[g])
      explain_kernel(compilation.program.kernels[kernel]);
    std::printf("  estimated on %s: %s\n", target.name.c_str(),
                cost_text(driver::expected_cost(compilation.program,
                                                {compilation.module, compilation.schedule, group},
                                                kernels[g], target))
                    .c_str());
    if (const auto *call = std::get_if<ir::Extern>(&first.kind);
        call && call->library == ir::Library::sort) {
      const scheduler::SortWork work = scheduler::sort_work(compilation.module, *call);
      std::printf("  by digits; merging sorted chunks would take %.1f us\n",
                  1e-3 * scheduler::merge_sort_nanoseconds(target, work));
    }
    for (scheduler::NodeId member : group.members)
      std::printf("  %s: %s\n", operation_name(compilation, member).c_str(),
                  user_nodes(compilation, member).c_str());
  }
}

/// Members of the groups that the kernel called `name` computes.
std::vector<scheduler::NodeId> nodes_of_kernel(const Compilation &compilation,
                                               const std::string &name) {
  std::vector<scheduler::NodeId> nodes;
  const std::vector<std::vector<uint32_t>> kernels = driver::kernels_of_groups(compilation);
  for (size_t g = 0; g < kernels.size(); ++g)
    if (std::any_of(kernels[g].begin(), kernels[g].end(), [&](uint32_t kernel) {
          return compilation.program.kernels[kernel].name == name;
        })) {
      const std::vector<scheduler::NodeId> &members = compilation.schedule.groups[g].members;
      nodes.insert(nodes.end(), members.begin(), members.end());
    }
  return nodes;
}

/// Everything that find_nodes finds.
std::vector<std::string> known_names(const Compilation &compilation) {
  std::vector<std::string> names;
  for (const scheduler::Node &node : compilation.schedule.nodes) {
    const ir::Operation &operation = compilation.module.operations[node.operation];
    names.push_back(operation.name);
    for (ir::BufferId output : operation.outputs)
      names.push_back(compilation.module.buffer(output).name);
    for (uint32_t origin : operation.origins)
      names.push_back(compilation.module.origins[origin].node);
  }
  for (const program::Kernel &kernel : compilation.program.kernels)
    names.push_back(kernel.name);
  return names;
}

/// Scheduler nodes that `name` (opN, bufN, a kernel or a user's node) stands for.
std::vector<scheduler::NodeId> find_nodes(const Compilation &compilation, const std::string &name) {
  std::vector<scheduler::NodeId> found = nodes_of_kernel(compilation, name);
  if (!found.empty())
    return found;
  for (scheduler::NodeId node = 0; node < compilation.schedule.nodes.size(); ++node) {
    const ir::Operation &operation =
        compilation.module.operations[compilation.schedule.nodes[node].operation];
    bool match = operation.name == name;
    for (ir::BufferId output : operation.outputs)
      match = match || compilation.module.buffer(output).name == name;
    for (uint32_t origin : operation.origins)
      match = match || compilation.module.origins[origin].node == name;
    if (match)
      found.push_back(node);
  }
  if (found.empty()) {
    std::string close = support::did_you_mean(name, known_names(compilation));
    throw support::UserError(
        support::ExitCode::usage,
        support::Diagnostic{
            "TSC-C005", "nothing in the schedule is called '" + name + "'", "", "", "", "",
            (close.empty() ? "" : "did you mean '" + close + "'? ") +
                "name an operation (op3), a buffer (buf3), a kernel or a graph node; `tsc "
                "explain GRAPH` lists them"});
  }
  return found;
}

void explain_pair(const Compilation &compilation, const Flags &flags) {
  std::vector<scheduler::NodeId> first = find_nodes(compilation, flags.first);
  std::vector<scheduler::NodeId> second = find_nodes(compilation, flags.second);
  std::map<scheduler::NodeId, size_t> group_of;
  for (size_t g = 0; g < compilation.schedule.groups.size(); ++g)
    for (scheduler::NodeId member : compilation.schedule.groups[g].members)
      group_of[member] = g;
  for (scheduler::NodeId a : first) {
    for (scheduler::NodeId b : second) {
      std::string names = operation_name(compilation, a) + " and " + operation_name(compilation, b);
      if (group_of.at(a) == group_of.at(b)) {
        std::printf("%s: in one kernel\n", names.c_str());
        for (const scheduler::FusionDecision &decision : compilation.schedule.decisions)
          if (group_of.at(decision.first) == group_of.at(a) && !decision.detail.empty() &&
              decision.refusal == scheduler::Refusal::none)
            std::printf("  %s\n", decision.detail.c_str());
        continue;
      }
      bool told = false;
      for (const scheduler::FusionDecision &decision : compilation.schedule.decisions) {
        bool same = group_of.at(decision.first) == group_of.at(a) &&
                    group_of.at(decision.second) == group_of.at(b);
        bool swapped = group_of.at(decision.first) == group_of.at(b) &&
                       group_of.at(decision.second) == group_of.at(a);
        if ((!same && !swapped) || decision.refusal == scheduler::Refusal::none)
          continue;
        const std::string why(scheduler::to_string(decision.refusal));
        if (decision.round == 0)
          std::printf("%s: not in one launch: %s. %s\n", names.c_str(), why.c_str(),
                      decision.detail.c_str());
        else
          std::printf("%s: not fused in round %d: %s, %lld shared bytes. %s\n", names.c_str(),
                      decision.round, why.c_str(), static_cast<long long>(decision.shared_bytes),
                      decision.detail.c_str());
        told = true;
      }
      const uint32_t list = compilation.schedule.groups[group_of.at(a)].list;
      if (list != ir::kNone && list == compilation.schedule.groups[group_of.at(b)].list) {
        std::printf("%s: two kernels of one launch\n", names.c_str());
        told = true;
      }
      if (!told)
        std::printf("%s: never candidates: they share no buffer, or other users of it are nearer\n",
                    names.c_str());
    }
  }
}

/// What each collective takes on a network, and how much of that the rest hides.
void explain_network(const Compilation &compilation, const Flags &flags) {
  const ranks::GroupTable table =
      driver::group_table(compilation.program, {flags.world_size, flags.groups, flags.mesh});
  const driver::Network network = driver::read_network(flags.network, table.world);
  const target::Target &target = target::find_target(archs_of(flags).front());
  const driver::CommunicationPlan plan =
      driver::plan_communication(compilation, target, network, table);
  std::printf("%lld ranks on %s, each %s\n", static_cast<long long>(table.world),
              network.name.c_str(), target.name.c_str());
  for (const driver::PlannedCollective &collective : plan.collectives)
    std::printf("%s: %s in group '%s' of %zu ranks, %.3g MB: %.1f us, %.1f exposed (node %s)\n",
                collective.name.c_str(), collective.what.c_str(), collective.group.c_str(),
                table.members(collective.group, 0).size(), collective.bytes * 1e-6,
                collective.seconds * 1e6, collective.exposed * 1e6, collective.node.c_str());
  const double hidden = plan.communicating - plan.exposed;
  std::printf("a run: %.1f us: computes %.1f, communicates %.1f, of which %.1f hidden and %.1f "
              "exposed\n",
              plan.total * 1e6, plan.computing * 1e6, plan.communicating * 1e6, hidden * 1e6,
              plan.exposed * 1e6);
  if (plan.memory >= 0)
    std::printf("memory of a rank: %.3f MB, inputs apart\n",
                static_cast<double>(plan.memory) * 1e-6);
}

void run(const Flags &flags) {
  Compilation compilation = compile_with_flags(flags, driver::Form::program);
  if (!flags.network.empty())
    return explain_network(compilation, flags);
  if (flags.second.empty())
    explain_groups(compilation, target::find_target(archs_of(flags).front()),
                   flags.first.empty() ? std::vector<scheduler::NodeId>()
                                       : find_nodes(compilation, flags.first));
  else
    explain_pair(compilation, flags);
}

} // namespace

void add_explain(CLI::App &app, int &exit_code) {
  auto flags = std::make_shared<Flags>();
  CLI::App *command = app.add_subcommand(
      "explain",
      "why each kernel is what it is, all or that of A; why A and B are not in one kernel");
  add_compile_flags(*command, *flags, "GRAPH");
  command->add_option("A", flags->first, "operation, buffer, kernel or graph node");
  command->add_option("B", flags->second, "operation, buffer, kernel or graph node");
  CLI::Option *network = command->add_option(
      "--network", flags->network,
      "of a graph with collectives: what each takes on the network that this file describes, and "
      "how much of it is hidden (docs/collectives.md)");
  command->add_option("--world-size", flags->world_size, "with --network: the number of ranks")
      ->check(CLI::Range(1, 1 << 20))
      ->needs(network);
  add_repeatable(*command, "--group", flags->groups, "with --network: as in tsc run")
      ->needs(network);
  command->add_option("--mesh", flags->mesh, "with --network: as in tsc run")->needs(network);
  command->callback([flags, &exit_code] {
    run(*flags);
    exit_code = 0;
  });
}

} // namespace tsc::app
