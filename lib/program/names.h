// Spelling of the program's enums in program.json.
#pragma once

#include "program/program.h"

#include <array>
#include <string_view>

namespace tsc::program {

inline constexpr std::string_view kFormat = "tsc-program";
inline constexpr std::array<std::string_view, 7> kRoleNames = {
    "input", "weight", "output", "intermediate", "random_state", "failure", "exchange"};
inline constexpr std::array<std::string_view, 2> kParameterKindNames = {"pointer", "size"};
struct EstimateTime {
  const char *name;
  double KernelEstimate::*member; // nanoseconds
};
inline constexpr EstimateTime kEstimateTimes[] = {{"memory", &KernelEstimate::memory},
                                                  {"arithmetic", &KernelEstimate::arithmetic},
                                                  {"accesses", &KernelEstimate::accesses},
                                                  {"instructions", &KernelEstimate::instructions},
                                                  {"latency", &KernelEstimate::latency}};

} // namespace tsc::program
