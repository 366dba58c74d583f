// Names of the files that kernels go to, and how they are grouped for compilation.
#pragma once

#include "emit/folder_writer.h"
#include "program/program.h"

namespace tsc::emit {

/// Writes kernels/NAME.cu and kernels/serial/NAME.cpp, the units that compile several at once
/// (kernels/units/), the lists of both for CMake (sources.cmake) and for the preprocessor
/// (kernels/kernels.def).
void write_kernels(const program::Program &program, FolderWriter &writer);

/// Letters, digits and underscores of `name`: for a library's name.
std::string library_name(const std::string &name);

} // namespace tsc::emit
