#include "commands.h"
#include "options.h"
#include "progress.h"

#include "driver/graph_source.h"
#include "driver/inputs.h"
#include "driver/ranks.h"
#include "driver/tune.h"
#include "runtime/session.h"
#include "support/diagnostic.h"
#include "target/target.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <memory>
#include <optional>

namespace tsc::app {
namespace {

constexpr int kRepeats = 9; // odd: the median is one of them

struct Flags : CompileFlags {
  std::string out, inputs, weights, device = "cuda";
  bool json = false;
};

runtime::SessionOptions session_options(const Flags &flags) {
  runtime::SessionOptions options;
  options.device = flags.device == "cuda" ? runtime::DeviceKind::cuda : runtime::DeviceKind::host;
  options.plan = runtime::Plan::cuda;
  return options;
}

/// Inputs and weights, made up where none are given: how long a kernel takes hardly depends on its
/// numbers.
struct Data {
  std::vector<tensor::HostTensor> inputs;
  tensor::TensorMap weights;
};
Data load_data(const Flags &flags, const driver::Compilation &compilation) {
  const auto source = [](const std::string &given) {
    return driver::parse_data_source(given.empty() ? "random" : given);
  };
  const graph::Graph &graph = compilation.graph;
  std::optional<driver::DataSource> weights;
  if (!flags.weights.empty() || graph.weights.empty())
    weights = source(flags.weights);
  return {driver::load_inputs(compilation.program, source(flags.inputs), driver::data_hints(graph),
                              driver::constants_of(graph)),
          driver::load_weights(compilation.program, graph.weights, weights)};
}

/// What the analytic choice costs, over all kernels that were timed.
struct Summary {
  double planned = 0, expected = 0; // nanoseconds
  size_t changed = 0;
};
Summary summarize(const driver::Lock &lock) {
  Summary summary;
  for (const driver::LockedKernel &kernel : lock.kernels) {
    summary.planned += kernel.planned_nanoseconds;
    summary.expected += kernel.expected_nanoseconds;
    summary.changed += kernel.choice.is_planned() ? 0 : 1;
  }
  return summary;
}

void print_table(const driver::Lock &lock) {
  std::printf("%10s %10s  %-28s %s\n", "planned us", "best us", "choice", "kernel");
  for (const driver::LockedKernel &kernel : lock.kernels)
    std::printf("%10.2f %10.2f  %-28s %s\n", kernel.planned_nanoseconds / 1e3,
                kernel.expected_nanoseconds / 1e3,
                kernel.choice.is_planned() ? "as planned" : to_text(kernel.choice).c_str(),
                kernel.kernel.c_str());
}

void run(Flags flags) {
  driver::need_graph(flags.graph);
  if (flags.archs.empty() && flags.device == "cuda")
    flags.archs = {"native"};
  const target::Target &target = target::find_target(archs_of(flags).front());
  if (target.is_host)
    throw support::UserError(
        support::ExitCode::usage,
        support::Diagnostic{"TSC-C021", "plans for the host leave nothing to choose", flags.graph,
                            "", "", "", "tune for a GPU: --arch=native, or --arch=sm_90"});
  const driver::Compilation compilation = compile_with_flags(flags, driver::Form::program);
  if (driver::has_collectives(compilation.program))
    throw support::UserError(
        support::ExitCode::usage,
        support::Diagnostic{"TSC-C022", "a program that communicates cannot be timed by itself",
                            flags.graph, "", "", "", "tune the graph of one rank without it"});
  const Data data = load_data(flags, compilation);
  driver::TuneOptions options;
  std::optional<Progress> progress(std::in_place);
  options.time_steps = [&](const program::Program &program) {
    const auto session = runtime::Session::create(program, data.weights, session_options(flags));
    std::vector<double> times = session->time_steps(data.inputs, kRepeats);
    for (double &time : times)
      time *= 1e6;
    return times;
  };
  options.progress = [&](size_t program, size_t programs) {
    progress->show("timing program " + std::to_string(program) + " of at most " +
                   std::to_string(programs));
  };
  driver::Lock lock = driver::tune(compilation, target, options);
  progress.reset();
  lock.arch = target.name;
  lock.device = flags.device == "cuda" ? runtime::cuda_device_name() : flags.device;
  if (!flags.out.empty() && flags.out != "-") {
    std::ofstream file(flags.out, std::ios::binary);
    file << to_text(lock);
    file.close();
    if (!file)
      throw support::UserError(support::ExitCode::usage,
                               support::Diagnostic{"TSC-C023", "the lock cannot be written",
                                                   flags.out, "", "", "",
                                                   "name a file in a folder that is there"});
  }
  if (flags.out == "-" && !flags.json) {
    std::fputs(to_text(lock).c_str(), stdout);
    return;
  }
  const Summary summary = summarize(lock);
  if (flags.json) {
    nlohmann::json object = nlohmann::json::parse(to_text(lock));
    object["planned_ns"] = summary.planned;
    object["expected_ns"] = summary.expected;
    object["changed"] = summary.changed;
    for (size_t i = 0; i < lock.kernels.size(); ++i) {
      nlohmann::json &tried = object["kernels"][i]["tried"] = nlohmann::json::array();
      for (const auto &[choice, nanoseconds] : lock.kernels[i].tried)
        tried.push_back({{"choice", to_text(choice)}, {"ns", nanoseconds}});
    }
    std::printf("%s\n", object.dump(2).c_str());
    return;
  }
  print_table(lock);
  std::printf("%zu kernels, %zu faster otherwise: %.1f us as planned, %.1f us at best%s\n",
              lock.kernels.size(), summary.changed, summary.planned / 1e3, summary.expected / 1e3,
              flags.out.empty() ? "; no lock was written (-o)" : "");
}

} // namespace

void add_tune(CLI::App &app, int &exit_code) {
  auto flags = std::make_shared<Flags>();
  CLI::App *command =
      app.add_subcommand("tune", "time other plans of each kernel, and lock those that are faster");
  add_compile_flags(*command, *flags, "GRAPH");
  command->add_option("-o,--out", flags->out,
                      "the lock to write, for compile --lock; - for standard output");
  command->add_option("--inputs", flags->inputs, "FILE or random[:SEED] (the default)");
  command->add_option("--weights", flags->weights,
                      "FILE or random[:SEED] (the default), for graphs that carry none");
  command
      ->add_option("--device", flags->device,
                   "cuda, or host-cuda: the GPU's plans on the host, which says nothing of a GPU")
      ->check(CLI::IsMember({"cuda", "host-cuda"}));
  command->add_flag("--json", flags->json, "print one JSON object");
  command->callback([flags, &exit_code] {
    run(*flags);
    exit_code = 0;
  });
}

} // namespace tsc::app
