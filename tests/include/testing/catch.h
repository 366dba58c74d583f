// Catch2 2 (Debian 12) and 3 (newer) under one include.
#pragma once

#include <string>

#ifdef TSC_CATCH2_V3
#include <catch2/catch_all.hpp>
using Catch::Approx; // as Catch2 2 has it
#else
#include <catch2/catch.hpp>
#endif

namespace tsc {

/// Matches texts that hold `part`.
inline auto contains_text(const std::string &part) {
#ifdef TSC_CATCH2_V3
  return Catch::Matchers::ContainsSubstring(part);
#else
  return Catch::Matchers::Contains(part);
#endif
}

} // namespace tsc
