// Which steps a library does.
#pragma once

#include "program/program.h"

#include <algorithm>
#include <variant>

namespace tsc::program {

inline bool is_library_call(const Step &step) {
  return std::holds_alternative<Matmul>(step.kind) || std::holds_alternative<Solver>(step.kind);
}

inline size_t count_library_calls(const Program &program) {
  return static_cast<size_t>(
      std::count_if(program.steps.begin(), program.steps.end(), is_library_call));
}

} // namespace tsc::program
