// Scripts by which shells complete the words of a command line.
#pragma once

#include "option_table.h"

#include <string>
#include <vector>

namespace tsc::app {

/// Precondition: one of these.
inline constexpr const char *kShells[] = {"bash", "zsh", "fish"};
std::string completion_script(const std::string &shell, const std::vector<CommandRow> &commands);

} // namespace tsc::app
