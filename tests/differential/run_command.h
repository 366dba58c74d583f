// `tsc_differential run`: cases on devices against what PyTorch gave.
#pragma once

#include "driver/compile.h"
#include "isolation.h"

#include <cstdio>
#include <string>
#include <vector>

namespace tsc::differential {

struct RunFlags {
  std::vector<std::string> folders;
  std::string list;                  // a file of folders, one a line
  std::vector<std::string> families; // of tests/cases; "all"
  std::vector<std::string> devices = {"reference", "host", "host-cuda"};
  size_t jobs = 1, batch = 32;
  Limits limits;
  driver::CompileOptions compile;
  bool must_agree = false; // a refusal is no success
};

/// Prints one line of JSON a case and device to `out`, and a summary to stderr. True if all agree
/// or, without must_agree, were refused. Errors: std::exception with what was asked for wrongly.
bool run_cases(const RunFlags &flags, std::FILE *out);

} // namespace tsc::differential
