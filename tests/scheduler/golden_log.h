// The seeds' schedule logs.
#pragma once

#include "testing/catch.h"

#include <fstream>
#include <iterator>
#include <string>

namespace tsc::test {

inline std::string golden_log(const std::string &name) {
  std::ifstream file(std::string(TSC_SOURCE_DIR) + "/tests/golden/" + name + "/schedule.txt");
  REQUIRE(file.good());
  return std::string(std::istreambuf_iterator<char>(file), {});
}

} // namespace tsc::test
