// README.md of an emitted folder.
#pragma once

#include "program/program.h"

#include <string>

namespace tsc::emit {

std::string readme(const program::Program &program, bool has_weights);

} // namespace tsc::emit
