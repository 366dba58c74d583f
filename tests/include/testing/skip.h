// Tests that cannot run here say so: ctest reports them as skipped, never as passed.
#pragma once

#include <string>

namespace tsc::testing {

/// Prints why the running test does not run; return from the test case at once. A program all of
/// whose test cases did so, and none failed, exits with kSkipped (Catch2 3 has SKIP for that,
/// Catch2 2 nothing).
void skip(const std::string &why);

constexpr int kSkipped = 4; // ctest's SKIP_RETURN_CODE, tests/CMakeLists.txt

} // namespace tsc::testing
