#include "commands.h"
#include "options.h"

#include "driver/inputs.h"
#include "emit/emit.h"
#include "graph/read.h"
#include "support/diagnostic.h"

#include <nlohmann/json.hpp>

#include <cstdio>
#include <memory>
#include <optional>

namespace tsc::app {
namespace {

struct Flags : CompileFlags {
  std::string out;
  std::string emit_form;
  std::string weights;
  bool json = false;
};

driver::Form form_of(const std::string &name) {
  if (name == "graph")
    return driver::Form::graph;
  if (name == "ir")
    return driver::Form::ir;
  if (name == "schedule")
    return driver::Form::schedule;
  if (name == "cuda")
    return driver::Form::cuda;
  return driver::Form::program;
}

/// The graph as it was read: no pass has run, so that its operators need not exist.
std::optional<std::string> form_as_read(const Flags &flags) {
  if (flags.emit_form == "fx")
    return graph::to_text(graph::read_graph(flags.graph)) + "\n";
  if (flags.emit_form == "json")
    return graph::to_json(graph::read_graph(flags.graph));
  return std::nullopt;
}

struct StepCounts {
  size_t launches = 0, library_calls = 0;
};
StepCounts count_steps(const program::Program &program) {
  StepCounts counts;
  for (const program::Step &step : program.steps) {
    counts.launches += std::holds_alternative<program::Launch>(step.kind) ? 1 : 0;
    counts.library_calls += std::holds_alternative<program::Matmul>(step.kind) ? 1 : 0;
  }
  return counts;
}

void print_summary(const Flags &flags, const driver::Compilation &compilation) {
  const program::Program &program = compilation.program;
  const StepCounts counts = count_steps(program);
  double total = 0;
  nlohmann::json phases = nlohmann::json::object();
  for (const driver::PassTime &time : compilation.times) {
    total += time.milliseconds;
    phases[time.name] = time.milliseconds;
  }
  if (flags.json) {
    nlohmann::json report = {{"out", flags.out},
                             {"kernels", program.kernels.size()},
                             {"launches", counts.launches},
                             {"steps", program.steps.size()},
                             {"library_calls", counts.library_calls},
                             {"compile_ms", total},
                             {"phases_ms", phases}};
    std::printf("%s\n", report.dump(2).c_str());
    return;
  }
  std::printf("%s: %zu kernels, %zu launches, %zu library calls, %.1f ms\n", flags.out.c_str(),
              program.kernels.size(), counts.launches, counts.library_calls, total);
}

void run(const Flags &flags) {
  if (!flags.emit_form.empty()) {
    if (!flags.out.empty())
      throw support::UserError(support::ExitCode::usage,
                               support::Diagnostic{"TSC-C008", "-o and --emit exclude each other",
                                                   "", "", "", "",
                                                   "leave -o out: the form goes to stdout"});
    std::optional<std::string> as_read = form_as_read(flags);
    driver::Form form = form_of(flags.emit_form);
    driver::Form last = form == driver::Form::cuda ? driver::Form::program : form;
    std::string text = as_read ? *as_read : driver::render(compile_with_flags(flags, last), form);
    std::fwrite(text.data(), 1, text.size(), stdout);
    return;
  }
  if (flags.out.empty())
    throw support::UserError(
        support::ExitCode::usage,
        support::Diagnostic{"TSC-C004", "no output folder", "", "", "", "",
                            "give one with -o OUT, or a form to print with --emit"});
  driver::Compilation compilation = compile_with_flags(flags, driver::Form::program);
  tensor::TensorMap weights;
  std::optional<driver::DataSource> source;
  if (!flags.weights.empty())
    source = driver::parse_data_source(flags.weights);
  // A bare model.json has no weights: OUT then takes them when it is loaded.
  std::vector<std::string> warnings;
  if (source || !compilation.graph.weights.empty())
    weights =
        driver::load_weights(compilation.program, compilation.graph.weights, source, &warnings);
  print_warnings(warnings, flags.weights);
  emit::EmitOptions options;
  options.weights = &weights;
  emit::emit(compilation.program, flags.out, options);
  print_summary(flags, compilation);
}

} // namespace

void add_compile(CLI::App &app, int &exit_code) {
  auto flags = std::make_shared<Flags>();
  CLI::App *command =
      app.add_subcommand("compile", "write a graph's CUDA C++ sources and program to a folder");
  add_compile_flags(*command, *flags, "GRAPH");
  command->add_option("-o,--out", flags->out, "the folder to write");
  command
      ->add_option("--emit", flags->emit_form,
                   "print this form to stdout instead: fx (the graph as read, as torch.fx prints "
                   "it), json (the same as graph JSON), graph (after the passes), ir, schedule, "
                   "cuda, program")
      ->check(CLI::IsMember({"fx", "json", "graph", "ir", "schedule", "cuda", "program"}));
  command->add_option("--weights", flags->weights,
                      "FILE or random[:SEED], for graphs that carry none");
  command->add_flag("--json", flags->json, "print one JSON object");
  command->callback([flags, &exit_code] {
    run(*flags);
    exit_code = 0;
  });
}

} // namespace tsc::app
