#include "commands.h"
#include "options.h"
#include "progress.h"

#include "driver/inputs.h"
#include "driver/ranks.h"
#include "report/report.h"
#include "runtime/session.h"
#include "support/diagnostic.h"
#include "target/target.h"

#include <cstdio>
#include <fstream>
#include <memory>
#include <optional>

namespace tsc::app {
namespace {

struct Flags : CompileFlags {
  std::string out, device, inputs = "random", weights;
  bool run = false, json = false;
  int repeats = 10;
};

/// Runs every step by itself, as `tsc tune` does.
report::Measured measure(const Flags &flags, const driver::Compilation &compilation) {
  const program::Program &program = compilation.program;
  if (driver::has_collectives(program))
    throw support::UserError(
        support::ExitCode::usage,
        support::Diagnostic{"TSC-C032",
                            "steps of a program that communicates cannot be timed alone",
                            flags.graph, "", "", "", "leave --run out, or give one rank's graph"});
  Progress progress;
  progress.show("compiling kernels and timing every step");
  std::optional<driver::DataSource> weights;
  if (!flags.weights.empty())
    weights = driver::parse_data_source(flags.weights);
  const std::vector<tensor::HostTensor> inputs = driver::load_inputs(
      program, driver::parse_data_source(flags.inputs), driver::data_hints(compilation.graph),
      driver::constants_of(compilation.graph));
  runtime::SessionOptions options;
  options.device = flags.device == "cuda" ? runtime::DeviceKind::cuda : runtime::DeviceKind::host;
  // What is reported is timed: on the host, plans for GPUs run with threads as fibers.
  options.plan = target::find_target(archs_of(flags).front()).is_host ? runtime::Plan::serial
                                                                      : runtime::Plan::cuda;
  const auto session = runtime::Session::create(
      program, driver::load_weights(program, compilation.graph.weights, weights), options);
  report::Measured measured;
  measured.device = flags.device == "cuda" ? runtime::cuda_device_name() : flags.device;
  measured.step_milliseconds = session->time_steps(inputs, flags.repeats);
  return measured;
}

void write(const std::string &path, const std::string &text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  if (!file)
    throw support::UserError(support::ExitCode::usage,
                             support::Diagnostic{"TSC-C033", "the report cannot be written", path,
                                                 "", "", "",
                                                 "name a file in a folder that is there"});
}

void run(Flags flags) {
  if (flags.run && flags.device.empty())
    flags.device = runtime::cuda_available(nullptr) ? "cuda" : "host";
  if (flags.run && flags.archs.empty())
    flags.archs = {flags.device == "cuda" ? "native" : "host"};
  flags.keep_as_read = true;
  const driver::Compilation compilation = compile_with_flags(flags, driver::Form::program);
  std::optional<report::Measured> measured;
  if (flags.run)
    measured = measure(flags, compilation);
  const std::string data =
      report::to_json(compilation, target::find_target(archs_of(flags).front()), flags.graph,
                      measured ? &*measured : nullptr);
  const std::string text = flags.json ? data + "\n" : report::to_html(data);
  write(flags.out, text);
  std::printf("%s: %zu nodes, %zu kernels, %zu steps, %.1f MB\n", flags.out.c_str(),
              compilation.as_read.nodes.size(), compilation.program.kernels.size(),
              compilation.program.steps.size(), static_cast<double>(text.size()) / 1e6);
}

} // namespace

void add_report(CLI::App &app, int &exit_code) {
  auto flags = std::make_shared<Flags>();
  CLI::App *command = app.add_subcommand(
      "report", "write one HTML page: graph, fusion, kernels, memory, launches, times");
  add_compile_flags(*command, *flags, "GRAPH");
  command->add_option("-o,--out", flags->out, "the file to write")->required();
  command->add_flag("--json", flags->json, "write the page's data alone (docs/report.md)");
  CLI::Option *run_flag = command->add_flag(
      "--run", flags->run, "time every step, planned for where it runs unless --arch is given");
  command
      ->add_option("--device", flags->device,
                   "of --run: host or cuda (default: the GPU if there is one)")
      ->check(CLI::IsMember({"host", "cuda"}))
      ->needs(run_flag);
  command->add_option("--repeats", flags->repeats, "of --run: runs of each step (10)")
      ->check(CLI::Range(1, 100000))
      ->needs(run_flag);
  command->add_option("--inputs", flags->inputs, "of --run: FILE or random[:SEED]")
      ->needs(run_flag);
  command->add_option("--weights", flags->weights, "of --run: FILE or random[:SEED]")
      ->needs(run_flag);
  command->callback([flags, &exit_code] {
    run(*flags);
    exit_code = 0;
  });
}

} // namespace tsc::app
