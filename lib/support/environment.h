// Numbers that a user sets in the environment.
#pragma once

#include <cstdint>
#include <optional>

namespace tsc::support {

/// The number that the variable `name` holds; nothing if it is not set or empty. Throws UserError
/// (usage) TSC-C016 if it is no whole number from `low` to `high`.
std::optional<int64_t> environment_number(const char *name, int64_t low, int64_t high);

/// Most threads that TSC_THREADS may ask for.
constexpr int64_t kMostThreads = 1024;

} // namespace tsc::support
