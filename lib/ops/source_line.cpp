#include "ops/source_line.h"

#include "support/text.h"

namespace tsc::ops {

std::string source_line(const graph::Node &node) {
  std::vector<std::string> lines = support::split(node.stack_trace, '\n');
  std::string frame, code;
  for (const std::string &line : lines) {
    size_t start = line.find_first_not_of(' ');
    if (start == std::string::npos)
      continue;
    std::string text = line.substr(start);
    if (support::starts_with(text, "File ")) {
      frame = text;
      code.clear();
    } else if (code.empty()) {
      code = text;
    }
  }
  if (frame.empty())
    return code;
  return code.empty() ? frame : frame + ": " + code;
}

} // namespace tsc::ops
