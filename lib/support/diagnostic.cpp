#include "support/diagnostic.h"

#include <algorithm>

namespace tsc::support {

std::string to_string(const Diagnostic &diagnostic) {
  std::string text = "error " + diagnostic.code + ": " + diagnostic.message;
  std::string place = diagnostic.file;
  if (!diagnostic.place.empty())
    place += (place.empty() ? "" : ": ") + diagnostic.place;
  if (!diagnostic.node.empty())
    place += (place.empty() ? "node " : " (node ") + diagnostic.node + (place.empty() ? "" : ")");
  if (!place.empty())
    text += "\n  at " + place;
  if (!diagnostic.source_line.empty())
    text += "\n  in " + diagnostic.source_line;
  if (!diagnostic.next_step.empty())
    text += "\n  next: " + diagnostic.next_step;
  return text;
}

namespace {

std::string render(const std::vector<Diagnostic> &diagnostics) {
  std::string text;
  for (const Diagnostic &diagnostic : diagnostics) {
    if (!text.empty())
      text += '\n';
    text += to_string(diagnostic);
  }
  return text;
}

} // namespace

UserError::UserError(ExitCode exit_code, std::vector<Diagnostic> diagnostics)
    : std::runtime_error(render(diagnostics)), exit_code_(exit_code),
      diagnostics_(std::move(diagnostics)) {}

UserError::UserError(ExitCode exit_code, Diagnostic diagnostic)
    : UserError(exit_code, std::vector<Diagnostic>{std::move(diagnostic)}) {}

UserError UserError::with_file(const std::string &file) const {
  std::vector<Diagnostic> diagnostics = diagnostics_;
  for (Diagnostic &diagnostic : diagnostics) {
    if (diagnostic.file.empty())
      diagnostic.file = file;
  }
  return UserError(exit_code_, std::move(diagnostics));
}

InternalError::InternalError(const std::string &pass, const std::string &place,
                             const std::string &message)
    : std::logic_error("internal error in " + pass + (place.empty() ? "" : " at " + place) + ": " +
                       message) {}

void require(bool condition, const char *pass, const std::string &message) {
  if (!condition)
    throw InternalError(pass, "", message);
}

std::string did_you_mean(const std::string &word, const std::vector<std::string> &candidates) {
  std::string best;
  size_t best_distance = std::max<size_t>(2, word.size() / 4) + 1;
  std::vector<size_t> row;
  for (const std::string &candidate : candidates) {
    row.resize(candidate.size() + 1);
    for (size_t j = 0; j < row.size(); ++j)
      row[j] = j;
    for (size_t i = 1; i <= word.size(); ++i) {
      size_t diagonal = row[0];
      row[0] = i;
      for (size_t j = 1; j <= candidate.size(); ++j) {
        size_t above = row[j];
        row[j] = std::min({row[j] + 1, row[j - 1] + 1,
                           diagonal + (word[i - 1] == candidate[j - 1] ? size_t{0} : size_t{1})});
        diagonal = above;
      }
    }
    if (row.back() < best_distance) {
      best_distance = row.back();
      best = candidate;
    }
  }
  return best;
}

} // namespace tsc::support
