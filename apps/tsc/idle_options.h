// Options that would do nothing are refused, rather than taken in silence.
#pragma once

#include <CLI/CLI.hpp>

#include <string>
#include <vector>

namespace tsc::app {

/// What decides whether an option means something.
struct Situation {
  bool from_folder = false;    // what is run was compiled before
  std::string device;          // reference, host, cuda; "" if that is not known yet
  std::string plan = "serial"; // of the host
  std::string form;            // --emit or --stage, or ""
  std::string data;            // --inputs, or ""
  std::string outputs;         // --outputs, or ""
};

/// Throws UserError (usage) TSC-C024 with every option of `command` that was given and means
/// nothing in `situation`.
void refuse_idle_options(const CLI::App &command, const Situation &situation);

/// The options that are to read standard input ("-").
std::vector<std::string> readers_of_standard_input(const CLI::App &command);
/// Throws UserError (usage) TSC-C071 if there are several.
void refuse_shared_input(const CLI::App &command);

} // namespace tsc::app
