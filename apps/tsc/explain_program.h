// `tsc explain` of what was compiled before: no schedule is left, its steps say what is run.
#pragma once

#include "driver/shapes.h"
#include "program/program.h"

#include <nlohmann/json_fwd.hpp>

#include <string>

namespace tsc::app {

/// Steps that `wanted` (a step, kernel, buffer or node of the graph; "": all) is part of, with what
/// each is expected to take for sizes of `shapes`. Throws UserError (usage) TSC-C005 if nothing is
/// called so.
std::string explain_program(const program::Program &program, const std::string &wanted,
                            const driver::Shapes &shapes);
/// The same as `arch`, `name` and `steps` (docs/command-line-json.md).
nlohmann::json explain_program_json(const program::Program &program, const std::string &wanted,
                                    const driver::Shapes &shapes);

} // namespace tsc::app
