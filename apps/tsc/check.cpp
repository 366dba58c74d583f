#include "commands.h"

#include "graph/read.h"
#include "ops/passes.h"
#include "support/diagnostic.h"

#include <nlohmann/json.hpp>

#include <cstdio>
#include <memory>

namespace tsc::app {
namespace {

struct Flags {
  std::string graph;
  bool json = false;
};

int run(const Flags &flags) {
  std::vector<support::Diagnostic> problems;
  support::ExitCode code = support::ExitCode::ok;
  size_t nodes = 0;
  try {
    graph::Graph graph = graph::read_graph(flags.graph);
    nodes = graph.nodes.size();
    ops::PassOptions options;
    options.cleanup = graph.stage != "post_grad";
    ops::run_graph_passes(std::move(graph), options);
  } catch (const support::UserError &error) {
    problems = error.with_file(flags.graph).diagnostics();
    code = error.exit_code();
  }
  if (flags.json) {
    nlohmann::json list = nlohmann::json::array();
    for (const support::Diagnostic &problem : problems)
      list.push_back({{"code", problem.code},
                      {"message", problem.message},
                      {"file", problem.file},
                      {"place", problem.place},
                      {"node", problem.node},
                      {"source_line", problem.source_line},
                      {"next_step", problem.next_step}});
    std::printf("%s\n", nlohmann::json{{"nodes", nodes}, {"problems", list}}.dump(2).c_str());
    return static_cast<int>(code);
  }
  for (const support::Diagnostic &problem : problems)
    std::fprintf(stderr, "%s\n", support::to_string(problem).c_str());
  if (problems.empty())
    std::printf("%s: %zu nodes, no problems\n", flags.graph.c_str(), nodes);
  return static_cast<int>(code);
}

} // namespace

void add_check(CLI::App &app, int &exit_code) {
  auto flags = std::make_shared<Flags>();
  CLI::App *command =
      app.add_subcommand("check", "report every problem of a graph; nothing is compiled");
  command->add_option("GRAPH", flags->graph, "graph JSON, torch.export model.json or .pt2 archive")
      ->required();
  command->add_flag("--json", flags->json, "print one JSON object");
  command->callback([flags, &exit_code] { exit_code = run(*flags); });
}

} // namespace tsc::app
