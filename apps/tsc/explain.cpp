#include "commands.h"
#include "compiled_program.h"
#include "explain_program.h"
#include "explanation.h"
#include "idle_options.h"
#include "options.h"

#include "driver/graph_source.h"
#include "driver/group_kernels.h"
#include "driver/network.h"
#include "driver/ranks.h"
#include "emit/emit.h"
#include "scheduler/schedule.h"
#include "support/diagnostic.h"
#include "support/text.h"
#include "target/target.h"

#include <nlohmann/json.hpp>

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
  bool json = false;
};

using driver::Compilation;

const std::string &operation_name(const Compilation &compilation, scheduler::NodeId node) {
  return compilation.module.operations[compilation.schedule.nodes[node].operation].name;
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

/// What is known of two operations.
struct PairExplanation {
  std::string first, second;
  std::string outcome; // "one kernel", "one launch", "apart", "never candidates"
  std::vector<scheduler::FusionDecision> decisions;
};

std::vector<PairExplanation> explain_pairs(const Compilation &compilation, const Flags &flags) {
  const std::vector<scheduler::NodeId> first = find_nodes(compilation, flags.first);
  const std::vector<scheduler::NodeId> second = find_nodes(compilation, flags.second);
  const std::vector<scheduler::Group> &groups = compilation.schedule.groups;
  std::map<scheduler::NodeId, size_t> group_of;
  for (size_t g = 0; g < groups.size(); ++g)
    for (const scheduler::NodeId member : groups[g].members)
      group_of[member] = g;
  std::vector<PairExplanation> pairs;
  for (const scheduler::NodeId a : first)
    for (const scheduler::NodeId b : second) {
      PairExplanation &pair = pairs.emplace_back();
      pair.first = operation_name(compilation, a);
      pair.second = operation_name(compilation, b);
      const size_t one = group_of.at(a), other = group_of.at(b);
      for (const scheduler::FusionDecision &decision : compilation.schedule.decisions) {
        const size_t x = group_of.at(decision.first), y = group_of.at(decision.second);
        const bool is_about = (x == one && y == other) || (x == other && y == one);
        const bool is_fused = decision.refusal == scheduler::Refusal::none;
        if (is_about && is_fused == (one == other) && (!is_fused || !decision.detail.empty()))
          pair.decisions.push_back(decision);
      }
      const uint32_t list = groups[one].list;
      pair.outcome = one == other                                      ? "one kernel"
                     : list != ir::kNone && list == groups[other].list ? "one launch"
                     : pair.decisions.empty()                          ? "never candidates"
                                                                       : "apart";
    }
  return pairs;
}

void print(const PairExplanation &pair) {
  const std::string names = pair.first + " and " + pair.second;
  if (pair.outcome == "one kernel")
    std::printf("%s: in one kernel\n", names.c_str());
  for (const scheduler::FusionDecision &decision : pair.decisions) {
    const std::string why(scheduler::to_string(decision.refusal));
    if (decision.refusal == scheduler::Refusal::none)
      std::printf("  %s\n", decision.detail.c_str());
    else if (decision.round == 0)
      std::printf("%s: not in one launch: %s. %s\n", names.c_str(), why.c_str(),
                  decision.detail.c_str());
    else
      std::printf("%s: not fused in round %d: %s, %lld shared bytes. %s\n", names.c_str(),
                  decision.round, why.c_str(), static_cast<long long>(decision.shared_bytes),
                  decision.detail.c_str());
  }
  if (pair.outcome == "one launch")
    std::printf("%s: two kernels of one launch\n", names.c_str());
  if (pair.outcome == "never candidates")
    std::printf("%s: never candidates: they share no buffer, or other users of it are nearer\n",
                names.c_str());
}

nlohmann::json to_json(const PairExplanation &pair) {
  nlohmann::json decisions = nlohmann::json::array();
  for (const scheduler::FusionDecision &decision : pair.decisions)
    decisions.push_back({{"refusal", std::string(scheduler::to_string(decision.refusal))},
                         {"detail", decision.detail},
                         {"shared_bytes", decision.shared_bytes},
                         {"round", decision.round}});
  return {{"first", pair.first},
          {"second", pair.second},
          {"outcome", pair.outcome},
          {"decisions", decisions}};
}

void print_json(const nlohmann::json &object) {
  std::printf("%s\n", object.dump(2, ' ', false, nlohmann::json::error_handler_t::replace).c_str());
}

nlohmann::json to_json(const driver::CommunicationPlan &plan, const ranks::GroupTable &table) {
  nlohmann::json collectives = nlohmann::json::array();
  for (const driver::PlannedCollective &collective : plan.collectives)
    collectives.push_back({{"name", collective.name},
                           {"kind", collective.what},
                           {"group", collective.group},
                           {"ranks", table.members(collective.group, 0).size()},
                           {"node", collective.node},
                           {"bytes", collective.bytes},
                           {"us", collective.seconds * 1e6},
                           {"exposed_us", collective.exposed * 1e6}});
  return {
      {"ranks", table.world},
      {"collectives", collectives},
      {"run_us", plan.total * 1e6},
      {"computing_us", plan.computing * 1e6},
      {"communicating_us", plan.communicating * 1e6},
      {"exposed_us", plan.exposed * 1e6},
      {"memory_bytes", plan.memory >= 0 ? nlohmann::json(plan.memory) : nlohmann::json(nullptr)}};
}

/// What each collective takes on a network, and how much of that the rest hides.
void explain_network(const Compilation &compilation, const Flags &flags) {
  const ranks::GroupTable table =
      driver::group_table(compilation.program, {flags.world_size, flags.groups, flags.mesh});
  const driver::Network network = driver::read_network(flags.network, table.world);
  const target::Target &target = target::find_target(archs_of(flags).front());
  const driver::CommunicationPlan plan =
      driver::plan_communication(compilation, target, network, table);
  if (flags.json) {
    nlohmann::json object = to_json(plan, table);
    object["graph"] = flags.graph;
    object["arch"] = target.part;
    object["network"] = network.name;
    return print_json(object);
  }
  std::printf("%lld ranks on %s, each %s\n", static_cast<long long>(table.world),
              network.name.c_str(), target.part.c_str());
  for (const driver::PlannedCollective &collective : plan.collectives)
    std::printf("%s: %s in group '%s' of %zu ranks, %.3g MB: %.1f us, %.1f exposed (node %s)\n",
                collective.name.c_str(), collective.what.c_str(), collective.group.c_str(),
                table.members(collective.group, 0).size(), collective.bytes * 1e-6,
                collective.seconds * 1e6, collective.exposed * 1e6, collective.node.c_str());
  const double hidden = std::max(0.0, plan.communicating - plan.exposed);
  std::printf("a run: %.1f us: computes %.1f, communicates %.1f, of which %.1f hidden and %.1f "
              "exposed\n",
              plan.total * 1e6, plan.computing * 1e6, plan.communicating * 1e6, hidden * 1e6,
              plan.exposed * 1e6);
  if (plan.memory >= 0)
    std::printf("memory of a rank: %.3f MB, inputs apart\n",
                static_cast<double>(plan.memory) * 1e-6);
}

/// What was compiled before has no schedule: its steps are explained.
void run_on_compiled(const Flags &flags) {
  if (!flags.second.empty())
    driver::refuse_compiled(flags.graph, "give the graph: tsc explain GRAPH " + flags.first + " " +
                                             flags.second);
  if (!flags.network.empty())
    driver::refuse_compiled(flags.graph, "give the graph: tsc explain GRAPH --network FILE");
  const program::Program program = read_compiled(flags, flags.graph).program;
  if (!flags.json) {
    std::fputs(explain_program(program, flags.first, shapes_of(flags)).c_str(), stdout);
    return;
  }
  nlohmann::json object = explain_program_json(program, flags.first, shapes_of(flags));
  object["graph"] = flags.graph;
  print_json(object);
}

void run(const Flags &flags, const CLI::App &command) {
  Situation situation;
  situation.from_folder = emit::is_emitted(flags.graph);
  refuse_idle_options(command, situation);
  if (situation.from_folder)
    return run_on_compiled(flags);
  const Compilation compilation = compile_with_flags(flags, driver::Form::program);
  if (!flags.network.empty())
    return explain_network(compilation, flags);
  const target::Target &target = target::find_target(archs_of(flags).front());
  if (!flags.second.empty()) {
    nlohmann::json pairs = nlohmann::json::array();
    for (const PairExplanation &pair : explain_pairs(compilation, flags))
      if (flags.json)
        pairs.push_back(to_json(pair));
      else
        print(pair);
    if (flags.json)
      print_json({{"graph", flags.graph}, {"arch", target.part}, {"pairs", pairs}});
    return;
  }
  const std::vector<scheduler::NodeId> wanted =
      flags.first.empty() ? std::vector<scheduler::NodeId>() : find_nodes(compilation, flags.first);
  nlohmann::json groups = nlohmann::json::array();
  if (!flags.json && wanted.empty())
    for (const std::string &choice : compilation.choices)
      std::printf("%s\n", choice.c_str());
  for (const GroupExplanation &group : explain_groups(compilation, target, wanted))
    if (flags.json)
      groups.push_back(to_json(group, compilation.program));
    else
      std::fputs(to_text(group, compilation.program, target).c_str(), stdout);
  if (flags.json)
    print_json({{"graph", flags.graph},
                {"arch", target.part},
                {"choices", compilation.choices},
                {"groups", groups}});
}

} // namespace

void add_explain(CLI::App &app, int &exit_code) {
  auto flags = std::make_shared<Flags>();
  CLI::App *command = app.add_subcommand(
      "explain",
      "why each kernel is what it is, all or that of A; why A and B are not in one kernel");
  add_compile_flags(*command, *flags, "GRAPH|OUT");
  command->add_option("A", flags->first, "operation, buffer, kernel or graph node; a step of OUT");
  command->add_option("B", flags->second, "operation, buffer, kernel or graph node");
  command->add_flag("--json", flags->json, "print one JSON object");
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
  command->callback([flags, command, &exit_code] {
    run(*flags, *command);
    exit_code = 0;
  });
}

} // namespace tsc::app
