// The command line. Results go to stdout, everything else to stderr; exit codes are
// support::ExitCode.
#include "commands.h"
#include "help.h"
#include "idle_options.h"
#include "options.h"
#include "problems.h"
#include "surroundings.h"

#include "support/diagnostic.h"
#include "support/text.h"
#include "support/thread_pool.h"

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <new>
#include <string>
#include <vector>

namespace {

const std::vector<std::string> kLevels = {"trace", "debug", "info", "warn", "error", "off"};

void set_up_logging(const std::string &flag) {
  spdlog::set_default_logger(spdlog::stderr_color_mt("tsc"));
  spdlog::set_pattern("%^%l%$: %v");
  const char *environment = std::getenv("TSC_LOG");
  const std::string level = !flag.empty()                 ? flag
                            : environment && *environment ? environment
                                                          : "warn";
  if (std::find(kLevels.begin(), kLevels.end(), level) == kLevels.end())
    throw tsc::support::UserError(
        tsc::support::ExitCode::usage,
        {.code = "TSC-C016",
         .message = "TSC_LOG is '" + level.substr(0, 40) + "'",
         .next_step = "give " + tsc::support::join(kLevels, ", ") + ", or unset it"});
  spdlog::set_level(spdlog::level::from_str(level));
}

/// What `word` was meant to be: a subcommand, or an option of those that were named.
std::string nearest(const CLI::App &app, const std::string &word) {
  std::vector<std::string> known;
  std::vector<const CLI::App *> scopes = {&app};
  for (const CLI::App *command : app.get_subcommands({}))
    known.push_back(command->get_name());
  for (const CLI::App *command : app.get_subcommands())
    scopes.push_back(command);
  for (const CLI::App *scope : scopes)
    for (const CLI::Option *option : scope->get_options())
      if (!option->get_lnames().empty())
        known.push_back("--" + option->get_lnames().front());
  return tsc::support::did_you_mean(word.substr(0, word.find('=')), known);
}

/// --json among the words, whatever else is wrong with them.
bool wants_json(const std::vector<std::string> &words) {
  const auto end = std::find(words.begin(), words.end(), "--");
  return std::find(words.begin(), end, "--json") != end;
}

/// CLI11's own message, and the nearest word for each that was not understood.
int usage_error(const CLI::App &app, const CLI::ParseError &error, bool as_json) {
  if (error.get_exit_code() == 0) // --help, --version
    return app.exit(error);
  std::vector<std::string> near;
  for (const std::string &word : app.remaining(true))
    if (const std::string known = nearest(app, word); !known.empty())
      near.push_back(known);
  std::string command = app.get_name();
  for (const CLI::App *used : app.get_subcommands())
    command += " " + used->get_name();
  return tsc::app::report(
      tsc::support::UserError(
          tsc::support::ExitCode::usage,
          {.code = "TSC-C025",
           .message = std::string("the command line: ") + error.what(),
           .next_step =
               (near.empty() ? "" : "did you mean " + tsc::support::join(near, ", ") + "? ") +
               "see " + command + " --help"}),
      as_json);
}

} // namespace

int main(int argc, char **argv) {
  tsc::app::set_up_process();
  CLI::App app{"tsc compiles PyTorch graphs to CUDA C++.", "tsc"};
  app.set_version_flag("--version", "tsc " TSC_VERSION);
  std::string log_level;
  app.add_option("--log-level", log_level, "trace, debug, info, warn, error or off (also TSC_LOG)")
      ->check(CLI::IsMember(kLevels));
  app.require_subcommand(1);
  app.fallthrough();
  app.parse_complete_callback([&] {
    set_up_logging(log_level);
    for (const CLI::App *command : app.get_subcommands())
      tsc::app::refuse_shared_input(*command);
    tsc::support::parallelism(); // refuses what TSC_THREADS may say
  });

  int exit_code = 0;
  tsc::app::add_compile(app, exit_code);
  tsc::app::add_run(app, exit_code);
  tsc::app::add_dump_schedule(app, exit_code);
  tsc::app::add_check(app, exit_code);
  tsc::app::add_tune(app, exit_code);
  tsc::app::add_explain(app, exit_code);
  tsc::app::add_report(app, exit_code);
  tsc::app::add_verify(app, exit_code);
  tsc::app::add_diff(app, exit_code);
  tsc::app::add_describe_commands(app, exit_code);
  tsc::app::add_footers(app);
  std::vector<std::string> words = tsc::app::words_of(argc, argv);
  const bool as_json = wants_json(words);
  std::reverse(words.begin(), words.end()); // as CLI11 takes them
  try {
    app.parse(std::move(words));
  } catch (const CLI::ParseError &error) {
    exit_code = usage_error(app, error, as_json);
  } catch (const tsc::support::UserError &error) {
    exit_code = tsc::app::report(error, as_json);
  } catch (const std::bad_alloc &) {
    return tsc::app::report_out_of_memory();
  } catch (const std::exception &error) {
    exit_code = tsc::app::report_fault(error.what(), as_json);
  }
  return tsc::app::finish_output(exit_code);
}
