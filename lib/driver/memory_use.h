// What a program will hold of the GPU's memory, before it runs.
#pragma once

#include "engine/engine.h"
#include "program/program.h"

#include <optional>

namespace tsc::driver {

/// Nothing where sizes are symbols.
std::optional<tsc_engine::Footprint> memory_use(const program::Program &program);

} // namespace tsc::driver
