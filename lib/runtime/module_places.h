// Where the modules are that tsc loads when they are needed.
#pragma once

#include <string>
#include <vector>

namespace tsc::runtime {

/// Paths of files that are there: beside the library or program that this code is part of, where
/// the build puts modules, and where an installation does.
std::vector<std::string> module_places(const std::string &name);

} // namespace tsc::runtime
