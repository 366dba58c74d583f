// What `--help` of each subcommand ends with.
#pragma once

#include <CLI/CLI.hpp>

namespace tsc::app {

/// Examples, exit codes and pages of docs/ for every subcommand that is there.
void add_footers(CLI::App &app);

} // namespace tsc::app
