// One batch of cases on all devices, in a process that may die of it.
#pragma once

#include "case.h"
#include "verdict.h"

#include "runtime/session.h"

#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace tsc::differential {

/// A name of --devices.
struct TestDevice {
  std::string name;
  bool is_reference = false;
  runtime::SessionOptions options;
};
/// reference, host, host-cuda, host-cuda-reverse, cuda. Errors: UserError (usage).
TestDevice find_device(const std::string &name, const std::string &cache_folder);

/// What stands for a device while a case compiles.
inline constexpr int kCompiling = -1;
/// And for a case while the kernels of a whole batch are compiled.
inline constexpr size_t kWholeBatch = SIZE_MAX;

struct BatchRun {
  const std::vector<CaseSource> *cases = nullptr;
  const std::vector<TestDevice> *devices = nullptr;
  driver::CompileOptions compile;
  std::vector<size_t> batch; // positions in `cases`
  /// (case, device) that have a verdict already: an earlier process did them.
  std::set<std::pair<size_t, int>> done;

  /// Called before something that may not come back.
  std::function<void(size_t test_case, int device)> begin;
  std::function<void(size_t test_case, int device, const Verdict &)> report;
};
void run_batch(const BatchRun &run);

} // namespace tsc::differential
