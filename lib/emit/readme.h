// README.md of an emitted folder.
#pragma once

#include "program/program.h"

#include <span>
#include <string>

namespace tsc::emit {

std::string readme(std::span<const program::Program> plans, bool has_weights);

} // namespace tsc::emit
