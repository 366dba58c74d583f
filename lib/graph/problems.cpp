#include "graph/problems.h"

namespace tsc::graph {

namespace {

constexpr size_t kMaxProblems = 50; // a report longer than this helps nobody

std::string_view trim(std::string_view text) {
  size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos)
    return {};
  return text.substr(first, text.find_last_not_of(" \t\r\n") - first + 1);
}

} // namespace

std::string innermost_frame(std::string_view stack_trace) {
  size_t start = stack_trace.rfind("File \"");
  if (start == std::string_view::npos)
    return {};
  std::string_view frame = stack_trace.substr(start);
  size_t end = frame.find('\n');
  std::string line(trim(frame.substr(0, end)));
  if (end != std::string_view::npos) {
    std::string_view source = trim(frame.substr(end));
    source = source.substr(0, source.find('\n'));
    if (!source.empty())
      line += ": " + std::string(source);
  }
  return line;
}

void Problems::add(const support::UserError &error, std::string_view node,
                   std::string_view stack_trace) {
  if (error.exit_code() != support::ExitCode::unsupported)
    all_unsupported_ = false;
  for (support::Diagnostic diagnostic : error.diagnostics()) {
    if (diagnostics_.size() >= kMaxProblems) {
      ++left_out_;
      continue;
    }
    if (diagnostic.node.empty())
      diagnostic.node = node;
    if (diagnostic.source_line.empty())
      diagnostic.source_line = innermost_frame(stack_trace);
    diagnostics_.push_back(std::move(diagnostic));
  }
}

void Problems::throw_if_any(const std::string &file) const {
  if (diagnostics_.empty())
    return;
  std::vector<support::Diagnostic> diagnostics = diagnostics_;
  if (left_out_ != 0)
    diagnostics.back().next_step += (diagnostics.back().next_step.empty() ? "" : "; ") +
                                    ("and see " + std::to_string(left_out_) + " more problems");
  support::ExitCode code =
      all_unsupported_ ? support::ExitCode::unsupported : support::ExitCode::bad_input;
  throw support::UserError(code, std::move(diagnostics)).with_file(file);
}

} // namespace tsc::graph
