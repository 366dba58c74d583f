#include "commands.h"
#include "compiled_program.h"
#include "idle_options.h"
#include "options.h"
#include "progress.h"

#include "driver/inputs.h"
#include "driver/ranks.h"
#include "driver/step_cost.h"
#include "emit/emit.h"
#include "report/report.h"
#include "runtime/session.h"
#include "support/diagnostic.h"

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

/// What is reported: a graph, compiled now, or what was compiled before.
struct Subject {
  driver::Compilation compilation;
  std::shared_ptr<const program::KernelImages> images;
  tensor::TensorMap weights;
};

Subject load(Flags &flags) {
  if (emit::is_emitted(flags.graph)) {
    const std::string here = !flags.run ? "" : flags.device == "cuda" ? native_arch() : "host";
    CompiledProgram compiled = read_compiled(flags, flags.graph, here);
    return {compilation_of(std::move(compiled.program), shapes_of(flags)),
            std::move(compiled.images), std::move(compiled.weights)};
  }
  if (flags.run && flags.archs.empty())
    flags.archs = {flags.device == "cuda" ? "native" : "host"};
  flags.keep_as_read = true;
  driver::Compilation compilation = compile_with_flags(flags, driver::Form::program);
  tensor::TensorMap weights = compilation.graph.weights;
  return {std::move(compilation), nullptr, std::move(weights)};
}

/// Runs every step by itself, as `tsc tune` does.
report::Measured measure(const Flags &flags, const Subject &subject) {
  const driver::Compilation &compilation = subject.compilation;
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
      driver::constants_of(compilation.graph), shapes_of(flags));
  runtime::SessionOptions options;
  options.images = subject.images;
  options.device = flags.device == "cuda" ? runtime::DeviceKind::cuda : runtime::DeviceKind::host;
  // What is reported is timed: on the host, plans for GPUs run with threads as fibers.
  options.plan = driver::target_of(program).is_host ? runtime::Plan::serial : runtime::Plan::cuda;
  const auto session = runtime::Session::create(
      program, driver::load_weights(program, subject.weights, weights), options);
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

void run(Flags flags, const CLI::App &command) {
  Situation situation;
  situation.from_folder = emit::is_emitted(flags.graph);
  refuse_idle_options(command, situation);
  if (flags.run && flags.device.empty())
    flags.device = runtime::cuda_available(nullptr) ? "cuda" : "host";
  const Subject subject = load(flags);
  const driver::Compilation &compilation = subject.compilation;
  std::optional<report::Measured> measured;
  if (flags.run)
    measured = measure(flags, subject);
  const std::string data = report::to_json(compilation, driver::target_of(compilation.program),
                                           flags.graph, measured ? &*measured : nullptr);
  const std::string text = flags.json ? data + "\n" : report::to_html(data);
  write(flags.out, text);
  const std::string nodes =
      situation.from_folder ? "" : std::to_string(compilation.as_read.nodes.size()) + " nodes, ";
  std::printf("%s: %s%zu kernels, %zu steps, %.1f MB\n", flags.out.c_str(), nodes.c_str(),
              compilation.program.kernels.size(), compilation.program.steps.size(),
              static_cast<double>(text.size()) / 1e6);
}

} // namespace

void add_report(CLI::App &app, int &exit_code) {
  auto flags = std::make_shared<Flags>();
  CLI::App *command = app.add_subcommand(
      "report", "write one HTML page: graph, fusion, kernels, memory, launches, times");
  add_compile_flags(*command, *flags, "GRAPH|OUT");
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
  command->callback([flags, command, &exit_code] {
    run(*flags, *command);
    exit_code = 0;
  });
}

} // namespace tsc::app
