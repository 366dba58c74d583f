// TSC_VERIFY=1: passes are checked as they run.
#pragma once

#include <cstdlib>
#include <string_view>

namespace tsc::support {

/// Whether the environment asks for it; all tests do.
inline bool verifies_passes() {
  const char *text = std::getenv("TSC_VERIFY");
  return text != nullptr && std::string_view(text) == "1";
}

} // namespace tsc::support
