// The subcommands: each adds itself to the command line. A callback prints results to stdout and
// returns the exit code through `exit_code`; errors leave as exceptions and are rendered by main.
#pragma once

#include <CLI/CLI.hpp>

namespace tsc::app {

void add_compile(CLI::App &app, int &exit_code);
void add_run(CLI::App &app, int &exit_code);
void add_dump_schedule(CLI::App &app, int &exit_code);
void add_check(CLI::App &app, int &exit_code);
void add_tune(CLI::App &app, int &exit_code);
void add_report(CLI::App &app, int &exit_code);
void add_explain(CLI::App &app, int &exit_code);
void add_verify(CLI::App &app, int &exit_code);
void add_diff(CLI::App &app, int &exit_code);
/// completion and manual: the last, as they describe the others.
void add_describe_commands(CLI::App &app, int &exit_code);

} // namespace tsc::app
