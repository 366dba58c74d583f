#include "support/environment.h"

#include "support/diagnostic.h"

#include <charconv>
#include <cstdlib>
#include <string>

namespace tsc::support {

std::optional<int64_t> environment_number(const char *name, int64_t low, int64_t high) {
  const char *set = std::getenv(name);
  if (!set || !*set)
    return std::nullopt;
  const std::string text = set;
  int64_t value = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), value);
  if (read.ec != std::errc() || read.ptr != text.data() + text.size() || value < low ||
      value > high)
    throw UserError(ExitCode::usage,
                    {.code = "TSC-C016",
                     .message = std::string(name) + " is '" + text.substr(0, 40) + "'",
                     .next_step = "give a whole number from " + std::to_string(low) + " to " +
                                  std::to_string(high) + ", or unset it"});
  return value;
}

} // namespace tsc::support
