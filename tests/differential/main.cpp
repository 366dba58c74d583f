// Looks for programs that tsc gets wrong (README.md).
#include "run_command.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <thread>

using namespace tsc;

namespace {

void add_run(CLI::App &app, int &exit_code) {
  auto flags = std::make_shared<differential::RunFlags>();
  CLI::App *command = app.add_subcommand("run", "cases against what PyTorch gave for them");
  command->add_option("folders", flags->folders,
                      "model.pt2 (or model.json, graph.json), inputs.safetensors, "
                      "expected.safetensors in each");
  command->add_option("--list", flags->list, "a file of folders, one a line");
  command->add_option("--family", flags->families, "a folder of tests/cases (repeatable)");
  command
      ->add_option("--devices", flags->devices,
                   "of reference, host, host-cuda, host-cuda-reverse, cuda")
      ->delimiter(',')
      ->allow_extra_args(false);
  command->add_option("--jobs", flags->jobs, "processes (default: 1)")->check(CLI::Range(1, 256));
  command->add_option("--batch", flags->batch, "cases compiled together (default: 32)")
      ->check(CLI::Range(1, 100000));
  command->add_option("--time-limit", flags->limits.seconds,
                      "seconds that one step of a case may take (default: 60)");
  command->add_option("--memory-limit", flags->limits.memory_mib,
                      "MiB of address space of a process, 0: none (default: 6144)");
  command->add_option("--policy", flags->compile.policy);
  command->add_option("--policy-option", flags->compile.policy_options, "NAME=VALUE (repeatable)");
  command->callback([flags, &exit_code] {
    // The processes share the cores.
    const size_t cores = std::max(1u, std::thread::hardware_concurrency());
    setenv("TSC_THREADS", std::to_string(std::max<size_t>(1, cores / flags->jobs)).c_str(), 0);
    exit_code = differential::run_cases(*flags, stdout) ? 0 : 1;
  });
}

} // namespace

int main(int argc, char **argv) {
  CLI::App app("looks for programs that tsc gets wrong", "tsc_differential");
  app.require_subcommand(1);
  int exit_code = 0;
  add_run(app, exit_code);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError &error) {
    return app.exit(error) == 0 ? 0 : 2;
  } catch (const std::exception &error) {
    std::fprintf(stderr, "tsc_differential: %s\n", error.what());
    return 2;
  }
  return exit_code;
}
