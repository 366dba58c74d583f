// Spelling of the program's enums in program.json.
#pragma once

#include "program/program.h"

#include <array>
#include <string_view>

namespace tsc::program {

inline constexpr std::string_view kFormat = "tsc-program";
inline constexpr std::array<std::string_view, 6> kRoleNames = {
    "input", "weight", "output", "intermediate", "random_state", "failure"};
inline constexpr std::array<std::string_view, 2> kParameterKindNames = {"pointer", "size"};

} // namespace tsc::program
