#include "problems.h"

#include <cstdio>
#include <string>

namespace tsc::app {

using nlohmann::json;

json to_json(const support::Diagnostic &diagnostic) {
  return {{"code", diagnostic.code},          {"message", diagnostic.message},
          {"file", diagnostic.file},          {"place", diagnostic.place},
          {"node", diagnostic.node},          {"source_line", diagnostic.source_line},
          {"next_step", diagnostic.next_step}};
}

json to_json(const driver::Problem &problem) {
  json result = to_json(problem.diagnostic);
  if (!problem.target.empty()) {
    json arguments = json::array();
    for (const ops::DescribedArgument &argument : problem.arguments)
      arguments.push_back(
          {{"name", argument.name}, {"value", argument.value}, {"type", argument.type}});
    result["operator"] = problem.target;
    result["arguments"] = arguments;
  }
  if (!problem.places.empty()) {
    json places = json::array();
    for (const driver::Place &place : problem.places)
      places.push_back({{"node", place.node}, {"source_line", place.source_line}});
    result["places"] = places;
  }
  return result;
}

namespace {

void print(support::ExitCode code, const json &problems) {
  // Names and paths may hold any bytes.
  std::printf("%s\n", json{{"exit_code", static_cast<int>(code)}, {"problems", problems}}
                          .dump(2, ' ', false, json::error_handler_t::replace)
                          .c_str());
}

} // namespace

int report(const support::UserError &error, bool as_json) {
  if (!as_json) {
    std::fprintf(stderr, "%s\n", error.what());
    return static_cast<int>(error.exit_code());
  }
  json problems = json::array();
  if (const auto *check = dynamic_cast<const driver::CheckFailed *>(&error))
    for (const driver::Problem &problem : check->problems())
      problems.push_back(to_json(problem));
  else
    for (const support::Diagnostic &diagnostic : error.diagnostics())
      problems.push_back(to_json(diagnostic));
  print(error.exit_code(), problems);
  return static_cast<int>(error.exit_code());
}

int report_fault(const std::string &what, bool as_json) {
  const std::string next = "this is a fault of tsc; please report it with the graph";
  if (as_json)
    print(support::ExitCode::internal, {to_json({.message = what, .next_step = next})});
  else
    std::fprintf(stderr, "%s\n  next: %s\n", what.c_str(), next.c_str());
  return static_cast<int>(support::ExitCode::internal);
}

} // namespace tsc::app
