// Looks for programs that tsc gets wrong (README.md).
#include "metamorphic_command.h"
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
  command->add_flag("--must-agree", flags->must_agree, "a refused case is a failure");
  command->add_option("--policy", flags->compile.policy);
  command->add_option("--policy-option", flags->compile.policy_options, "NAME=VALUE (repeatable)");
  command->callback([flags, &exit_code] {
    // The processes share the cores.
    const size_t cores = std::max(1u, std::thread::hardware_concurrency());
    setenv("TSC_THREADS", std::to_string(std::max<size_t>(1, cores / flags->jobs)).c_str(), 0);
    // CUDA reserves far more addresses than it uses.
    const std::vector<std::string> &devices = flags->devices;
    if (std::find(devices.begin(), devices.end(), "cuda") != devices.end())
      flags->limits.memory_mib = 0;
    exit_code = differential::run_cases(*flags, stdout) ? 0 : 1;
  });
}

void add_metamorphic(CLI::App &app, int &exit_code) {
  auto flags = std::make_shared<differential::MetamorphicFlags>();
  CLI::App *command =
      app.add_subcommand("metamorphic", "random programs, said and compiled in several ways");
  command->add_option("--programs", flags->programs, "how many (default: 1000)");
  command->add_option("--first", flags->first, "number of the first (default: 0)");
  command->add_option("--seed", flags->seed, "decides all of them (default: 0)");
  command->add_option("--seconds", flags->seconds, "stop after so long");
  command
      ->add_option("--devices", flags->devices,
                   "of reference (always), host, host-cuda, host-cuda-reverse, cuda")
      ->delimiter(',')
      ->allow_extra_args(false);
  command
      ->add_option("--host-every", flags->host_every,
                   "every so many programs run on the other devices too (default: 20)")
      ->check(CLI::Range(1, 1000000));
  command->add_option("--variants", flags->variants, "of a program (default: 2)");
  command->add_option("--eager-every", flags->eager_every,
                      "every so many programs are also computed call by call, and all that write "
                      "in place (default: 3)");
  command->add_flag("--each", flags->each, "one call a program, of every operator in turn");
  command->add_option("--family", flags->families,
                      "of tests/cases, whose graphs get random calls behind them (repeatable)");
  command->add_option("--jobs", flags->jobs, "processes (default: 1)")->check(CLI::Range(1, 256));
  command->add_option("--findings", flags->findings, "a folder for what is found, minimized");
  command->add_option("--time-limit", flags->limits.seconds, "seconds a program (default: 60)");
  command->callback([flags, &exit_code] {
    setenv("TSC_THREADS", "1", 1); // findings are looked into in processes that fork
    exit_code = differential::run_metamorphic(*flags, stdout) ? 0 : 1;
  });
}

} // namespace

int main(int argc, char **argv) {
  CLI::App app("looks for programs that tsc gets wrong", "tsc_differential");
  app.require_subcommand(1);
  int exit_code = 0;
  add_run(app, exit_code);
  add_metamorphic(app, exit_code);
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
