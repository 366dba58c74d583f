#include "ops/table/source_line.h"

#include "support/text.h"

namespace tsc::ops {
namespace {

/// A frame inside of PyTorch: the module that the user called says nothing of where.
bool is_of_torch(std::string_view frame) {
  return support::starts_with(frame, "File \"torch/") ||
         frame.find("/torch/") != std::string_view::npos;
}

} // namespace

std::string source_line(const graph::Node &node) {
  std::string frame, code;   // the innermost so far
  std::string own, own_code; // the innermost that is not PyTorch's
  const auto keep = [&] {
    if (frame.empty() || is_of_torch(frame))
      return;
    own = frame;
    own_code = code;
  };
  for (const std::string &line : support::split(node.stack_trace, '\n')) {
    const size_t start = line.find_first_not_of(' ');
    if (start == std::string::npos)
      continue;
    std::string text = line.substr(start);
    if (support::starts_with(text, "File ")) {
      keep();
      frame = std::move(text);
      code.clear();
    } else if (code.empty()) {
      code = std::move(text);
    }
  }
  keep();
  if (!own.empty()) {
    frame = own;
    code = own_code;
  }
  if (frame.empty())
    return code;
  return code.empty() ? frame : frame + ": " + code;
}

const std::string &users_name(const graph::Node &node) {
  return node.origins.empty() ? node.name : node.origins.front();
}

} // namespace tsc::ops
