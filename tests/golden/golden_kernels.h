// The sample graphs whose kernels are golden, and their kernels as tsc prints them now.
#pragma once

#include "program/program.h"

#include <string>
#include <vector>

namespace tsc::test {

struct GoldenGraph {
  std::string name; // folder under tests/golden
  std::string path; // of the graph, below the source folder
};
const std::vector<GoldenGraph> &golden_graphs();

/// Compiled for sm_90 under the default policy.
program::Program compile_golden(const GoldenGraph &graph);

} // namespace tsc::test
