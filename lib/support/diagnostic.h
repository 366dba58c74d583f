// Errors. Two kinds, never mixed:
//   UserError      what the user can mend: one or more coded diagnostics, each with a place and a
//                  next step. ALL problems of one kind that a stage can find are collected first.
//   InternalError  what only we can mend: names the pass and the place.
#pragma once

#include <stdexcept>
#include <string>
#include <vector>

namespace tsc::support {

/// Exit codes of the command line (docs/errors.md).
enum class ExitCode : int {
  ok = 0,
  numbers_differ = 1,
  usage = 2,
  bad_input = 3,   // a graph, an input file or a program that is broken
  unsupported = 4, // well-formed, but uses what tsc does not have
  device = 5,      // a device, a driver or a library failed
  internal = 70,
};

/// One problem. Rendered as
///   error TSC-G012: MESSAGE
///     at FILE: POINTER (node NODE)
///     in SOURCE_LINE
///     next: NEXT_STEP
/// with the lines whose field is empty left out.
struct Diagnostic {
  std::string code;    // "TSC-G012": letter of the stage, three digits; listed in docs/errors.md
  std::string message; // one sentence, with the offending value
  std::string file;    // path of the input, as the user gave it
  std::string place;   // JSON pointer, byte offset or archive member
  std::string node;    // name of the graph node
  std::string source_line; // the user's source line from the node's metadata
  std::string next_step;   // what to do about it
};

std::string to_string(const Diagnostic &diagnostic);

class UserError : public std::runtime_error {
public:
  /// Precondition: at least one diagnostic.
  UserError(ExitCode exit_code, std::vector<Diagnostic> diagnostics);
  UserError(ExitCode exit_code, Diagnostic diagnostic);

  ExitCode exit_code() const { return exit_code_; }
  const std::vector<Diagnostic> &diagnostics() const { return diagnostics_; }

  /// Fills `file` in every diagnostic that names none.
  UserError with_file(const std::string &file) const;

private:
  ExitCode exit_code_;
  std::vector<Diagnostic> diagnostics_;
};

class InternalError : public std::logic_error {
public:
  InternalError(const std::string &pass, const std::string &place, const std::string &message);
};

/// Throws InternalError unless `condition`.
void require(bool condition, const char *pass, const std::string &message);

/// The closest of `candidates` to `word` by edit distance, or "" if none is close.
std::string did_you_mean(const std::string &word, const std::vector<std::string> &candidates);

} // namespace tsc::support
