// The program's tables as C++ text.
#pragma once

#include "program/program.h"

#include <span>
#include <string>

namespace tsc::emit {

/// model.cpp: of each plan static initializers of engine/tables.h, with comments that name buffers,
/// kernels and steps, and the functions of engine/model_hooks.h that do not depend on the device.
std::string model_source(std::span<const program::Program> plans);

} // namespace tsc::emit
