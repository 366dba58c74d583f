// Collects the problems of a file, so that one report names them all. Internal to lib/graph.
#pragma once

#include "support/diagnostic.h"

#include <string>
#include <string_view>
#include <vector>

namespace tsc::graph {

class Problems {
public:
  /// Adds the diagnostics of `error`; `node` and `source_line` fill what they leave empty.
  void add(const support::UserError &error, std::string_view node = {},
           std::string_view stack_trace = {});
  /// Throws all of them, in the order found (bad_input unless every one is unsupported).
  void throw_if_any(const std::string &file) const;
  bool any() const { return !diagnostics_.empty(); }

private:
  std::vector<support::Diagnostic> diagnostics_;
  size_t left_out_ = 0;
  bool all_unsupported_ = true;
};

/// The innermost user frame of a stack trace as one line: `File "m.py", line 3, in forward: return
/// x`.
std::string innermost_frame(std::string_view stack_trace);

} // namespace tsc::graph
