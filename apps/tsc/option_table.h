// What the command line takes, as data: from it come the shells' completions, the man page and the
// pages of docs/commands. The declarations themselves (add_option, add_flag) are its source.
#pragma once

#include <CLI/CLI.hpp>

#include <string>
#include <vector>

namespace tsc::app {

struct OptionRow {
  std::vector<std::string> names; // "-o", "--out"; of a positional its name alone, "GRAPH"
  std::string text;
  std::vector<std::string> choices; // words that it takes, if there are few
  bool is_positional = false, takes_value = false, is_required = false, is_repeatable = false;
};
struct CommandRow {
  std::string name, text;
  std::vector<OptionRow> options; // positionals first
};

/// Of every subcommand, in the order in which they were declared; `app`'s own options come last in
/// each.
std::vector<CommandRow> option_table(const CLI::App &app);
/// "tsc run GRAPH|OUT [OPTIONS]".
std::string usage_of(const CommandRow &command);
/// "-o,--out VALUE"; choices in the place of VALUE: "--device {host,cuda}".
std::string spelling_of(const OptionRow &option);

} // namespace tsc::app
