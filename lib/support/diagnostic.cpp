#include "support/diagnostic.h"

#include <algorithm>
#include <string_view>

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
  for (Diagnostic &diagnostic : diagnostics)
    if (diagnostic.file.empty())
      diagnostic.file = file;
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

namespace {

/// Edit distance of `a` and `b` if it is below `bound`, else `bound`: only cells nearer to the
/// diagonal than that are looked at, and rows only until one has nothing below it.
size_t bounded_distance(std::string_view a, std::string_view b, size_t bound,
                        std::vector<size_t> &row) {
  const size_t longer = std::max(a.size(), b.size()), shorter = std::min(a.size(), b.size());
  if (longer - shorter >= bound)
    return bound;
  row.resize(b.size() + 1);
  for (size_t j = 0; j < row.size(); ++j)
    row[j] = std::min(j, bound);
  for (size_t i = 1; i <= a.size(); ++i) {
    const size_t first = i > bound ? i - bound : 1, last = std::min(b.size(), i + bound);
    size_t diagonal = first == 1 ? i - 1 : row[first - 1];
    size_t left = first == 1 ? i : bound, best = left;
    if (first == 1)
      row[0] = i;
    for (size_t j = first; j <= last; ++j) {
      const size_t above = j == i + bound ? bound : row[j]; // what no row before has reached
      const size_t cell = std::min(
          {above + 1, left + 1, diagonal + (a[i - 1] == b[j - 1] ? size_t{0} : size_t{1})});
      diagonal = above;
      left = row[j] = std::min(cell, bound);
      best = std::min(best, left);
    }
    if (best >= bound)
      return bound;
  }
  return row[b.size()];
}

} // namespace

std::string did_you_mean(const std::string &word, const std::vector<std::string> &candidates) {
  std::string best;
  size_t best_distance = std::max<size_t>(2, word.size() / 4) + 1;
  std::vector<size_t> row;
  for (const std::string &candidate : candidates) {
    const size_t distance = bounded_distance(word, candidate, best_distance, row);
    if (distance < best_distance) {
      best_distance = distance;
      best = candidate;
    }
  }
  return best;
}

} // namespace tsc::support
