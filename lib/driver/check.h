// Every problem of a graph in one report.
//
// The pipeline itself is the checker: what it refuses is cut out of a copy of the graph, and the
// rest goes through the pipeline again, until that accepts it. So a graph passes the check if and
// only if it compiles, and a wrong node hides nothing that comes after it.
#pragma once

#include "driver/compile.h"
#include "ops/table/describe_call.h"
#include "support/diagnostic.h"

namespace tsc::driver {

struct Place {
  std::string node, source_line;
};
struct Problem {
  support::Diagnostic diagnostic;
  std::string target; // of the node's call; "" if the problem is not a call's
  std::vector<ops::DescribedArgument> arguments;
  /// Of what tsc does not have (an operator, a dtype in kernels): all calls with this problem, the
  /// diagnostic's first. Else empty.
  std::vector<Place> places;
};
struct CheckReport {
  std::vector<Problem> problems; // in the order of the graph's nodes
  support::ExitCode exit_code = support::ExitCode::ok;
};

/// What compile(graph, options) would refuse, all of it. A node that is refused is taken for an
/// input with the value that the file recorded or the shape rules gave; where there is neither, its
/// users are checked for their operator and their arguments' kinds alone. Errors: UserError (usage)
/// for the options themselves.
CheckReport check(graph::Graph graph, const CompileOptions &options);

/// One text a problem: its diagnostic, with the call and the first places between the source line
/// and the next step.
std::string to_string(const Problem &problem, const std::string &file);

/// The report as an exception; what() is its text.
class CheckFailed : public support::UserError {
public:
  /// Precondition: `report` has problems.
  CheckFailed(const CheckReport &report, const std::string &file);
  const char *what() const noexcept override { return text_.c_str(); }
  const std::vector<Problem> &problems() const { return problems_; } // with their file

private:
  std::vector<Problem> problems_;
  std::string text_;
};

} // namespace tsc::driver
