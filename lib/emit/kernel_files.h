// Names of the files that kernels go to, and how they are grouped for compilation.
#pragma once

#include "emit/folder_writer.h"
#include "program/program.h"

#include <span>
#include <vector>

namespace tsc::emit {

/// Writes kernels/NAME.cu and kernels/serial/NAME.cpp, the units that compile several at once
/// (kernels/units/), the lists of both for CMake (sources.cmake) and for the preprocessor
/// (kernels/kernels.def).
/// A kernel that several plans have is one file: names are as name_apart gives them.
void write_kernels(std::span<const program::Program> plans, FolderWriter &writer);

/// `plans` with kernels of two plans that have one name and are not the same renamed: a name has 32
/// bits of what decides it. Comments in front, which say where a kernel comes from, do not count.
std::vector<program::Program> name_apart(std::span<const program::Program> plans);

} // namespace tsc::emit
