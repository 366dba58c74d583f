// `tsc_differential metamorphic`: random programs against themselves, without PyTorch.
#pragma once

#include "isolation.h"

#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

namespace tsc::differential {

struct MetamorphicFlags {
  size_t programs = 1000, first = 0;
  uint64_t seed = 0;
  double seconds = 0;                               // 0: until all are done
  std::vector<std::string> devices = {"reference"}; // and where every host_every-th runs
  size_t host_every = 20, batch = 24;
  size_t variants = 2, eager_every = 3;
  size_t jobs = 1;
  bool each = false;                 // one call a program, of every operator in turn
  std::vector<std::string> families; // of tests/cases: graphs that random calls are put behind
  std::string findings;              // folder; "": only printed
  double minimize_seconds = 20;
  Limits limits;
};

/// Prints counts and findings to `out`. True if nothing was found.
bool run_metamorphic(const MetamorphicFlags &flags, std::FILE *out);

} // namespace tsc::differential
