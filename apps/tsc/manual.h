// The man page and the pages of docs/commands, from the option table and what --help ends with.
#pragma once

#include "option_table.h"

#include <string>
#include <vector>

namespace tsc::app {

/// tsc(1), for man.
std::string man_page(const std::vector<CommandRow> &commands);
/// The page of one subcommand.
std::string command_page(const CommandRow &command);

} // namespace tsc::app
