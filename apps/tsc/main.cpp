// The command line. Results go to stdout, everything else to stderr; exit codes are
// support::ExitCode.
#include "commands.h"
#include "surroundings.h"

#include "support/diagnostic.h"
#include "support/thread_pool.h"

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <new>

namespace {

void set_up_logging(const std::string &flag) {
  spdlog::set_default_logger(spdlog::stderr_color_mt("tsc"));
  spdlog::set_pattern("%^%l%$: %v");
  const char *environment = std::getenv("TSC_LOG");
  std::string level = !flag.empty() ? flag : environment ? environment : "warn";
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

/// CLI11's own message, and the nearest word for each that was not understood.
int usage_error(const CLI::App &app, const CLI::ParseError &error) {
  const int code = app.exit(error);
  if (code == 0) // --help, --version
    return 0;
  for (const std::string &word : app.remaining(true))
    if (const std::string near = nearest(app, word); !near.empty())
      std::fprintf(stderr, "did you mean %s?\n", near.c_str());
  return static_cast<int>(tsc::support::ExitCode::usage);
}

int fail(tsc::support::ExitCode code, const char *text) {
  std::fprintf(stderr, "%s\n", text);
  return static_cast<int>(code);
}

} // namespace

int main(int argc, char **argv) {
  using tsc::support::ExitCode;
  tsc::app::set_up_process();
  CLI::App app{"tsc compiles PyTorch graphs to CUDA C++.", "tsc"};
  app.set_version_flag("--version", "tsc " TSC_VERSION);
  std::string log_level;
  app.add_option("--log-level", log_level, "trace, debug, info, warn, error or off (also TSC_LOG)")
      ->check(CLI::IsMember({"trace", "debug", "info", "warn", "error", "off"}));
  app.require_subcommand(1);
  app.fallthrough();
  app.parse_complete_callback([&] {
    set_up_logging(log_level);
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
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError &error) {
    return tsc::app::finish_output(usage_error(app, error));
  } catch (const tsc::support::UserError &error) {
    return fail(error.exit_code(), error.what());
  } catch (const std::bad_alloc &) {
    return tsc::app::report_out_of_memory();
  } catch (const std::exception &error) {
    return fail(ExitCode::internal,
                (std::string(error.what()) +
                 "\n  next: this is a fault of tsc; please report it with the graph")
                    .c_str());
  }
  return tsc::app::finish_output(exit_code);
}
