#include "commands.h"
#include "problems.h"

#include "driver/check.h"
#include "driver/graph_source.h"
#include "driver/operators_folder.h"
#include "driver/shapes.h"

#include <nlohmann/json.hpp>

#include <cstdio>
#include <memory>

namespace tsc::app {
namespace {

using nlohmann::json;

struct Flags {
  std::string graph, operators, shapes;
  bool json = false;
};

struct Result {
  size_t nodes = 0;
  driver::CheckReport report;
};

/// A file that cannot be read has the reader's report.
Result check_file(const std::string &path, const driver::CompileOptions &options) {
  Result result;
  try {
    graph::Graph graph = driver::read_graph_from(path);
    result.nodes = graph.nodes.size();
    result.report = driver::check(std::move(graph), options);
  } catch (const support::UserError &error) {
    for (const support::Diagnostic &diagnostic : error.diagnostics())
      result.report.problems.push_back({diagnostic, "", {}, {}});
    result.report.exit_code = error.exit_code();
  }
  for (driver::Problem &problem : result.report.problems)
    if (problem.diagnostic.file.empty())
      problem.diagnostic.file = path;
  return result;
}

int run(const Flags &flags) {
  driver::CompileOptions options;
  if (!flags.operators.empty())
    options.operators = driver::read_operators(flags.operators);
  if (!flags.shapes.empty())
    options.shapes = driver::parse_shapes(flags.shapes);
  const Result result = check_file(flags.graph, options);
  if (flags.json) {
    json problems = json::array();
    for (const driver::Problem &problem : result.report.problems)
      problems.push_back(to_json(problem));
    std::printf("%s\n", json{{"file", flags.graph},
                             {"nodes", result.nodes},
                             {"exit_code", static_cast<int>(result.report.exit_code)},
                             {"problems", problems}}
                            .dump(2, ' ', false, json::error_handler_t::replace)
                            .c_str());
  } else if (result.report.problems.empty()) {
    std::printf("%s: %zu nodes, no problems\n", flags.graph.c_str(), result.nodes);
  }
  if (!flags.json)
    for (const driver::Problem &problem : result.report.problems)
      std::fprintf(stderr, "%s\n", driver::to_string(problem, flags.graph).c_str());
  return static_cast<int>(result.report.exit_code);
}

} // namespace

void add_check(CLI::App &app, int &exit_code) {
  auto flags = std::make_shared<Flags>();
  CLI::App *command =
      app.add_subcommand("check", "report every problem of a graph; nothing is written");
  command
      ->add_option("GRAPH", flags->graph,
                   "graph JSON, torch.export model.json or .pt2 archive; - for standard input")
      ->required();
  command->add_option("--operators", flags->operators, "folder of operators of your own");
  command->add_option("--shapes", flags->shapes,
                      "NAME=SIZE,...: whether the graph has these symbols, and they these sizes");
  command->add_flag("--json", flags->json, "print one JSON object");
  command->callback([flags, &exit_code] { exit_code = run(*flags); });
}

} // namespace tsc::app
