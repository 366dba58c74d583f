// What `--help` of each subcommand ends with, and the pages about it say, too.
#pragma once

#include <CLI/CLI.hpp>

#include <string>
#include <vector>

namespace tsc::app {

struct ExitCodeRow {
  int code;
  const char *text;
};
inline constexpr ExitCodeRow kExitCodes[] = {
    {0, "ok"},          {1, "numbers differ"},    {2, "usage"},          {3, "bad graph or input"},
    {4, "unsupported"}, {5, "device or library"}, {70, "a fault of tsc"}};

/// Of the subcommand `name`: command lines, and pages of docs/.
std::vector<std::string> examples_of(const std::string &name);
std::vector<std::string> pages_of(const std::string &name);

/// Examples, exit codes and pages of docs/ for every subcommand that is there.
void add_footers(CLI::App &app);

} // namespace tsc::app
