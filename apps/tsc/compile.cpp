#include "commands.h"
#include "idle_options.h"
#include "options.h"
#include "progress.h"

#include "driver/graph_source.h"
#include "driver/inputs.h"
#include "driver/memory_use.h"
#include "emit/emit.h"
#include "emit/model_name.h"
#include "emit/package.h"
#include "graph/read.h"
#include "program/library_call.h"
#include "runtime/session.h"
#include "support/diagnostic.h"

#include <nlohmann/json.hpp>

#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>

namespace tsc::app {
namespace {

struct Flags : CompileFlags {
  std::string out;
  std::string emit_form;
  std::string weights, weights_from, name;
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
    return graph::to_text(driver::read_graph_from(flags.graph)) + "\n";
  if (flags.emit_form == "json")
    return graph::to_json(driver::read_graph_from(flags.graph));
  return std::nullopt;
}

struct StepCounts {
  size_t launches = 0, library_calls = 0;
};
StepCounts count_steps(const program::Program &program) {
  StepCounts counts;
  for (const program::Step &step : program.steps) {
    counts.launches += std::holds_alternative<program::Launch>(step.kind) ? 1 : 0;
    counts.library_calls += program::is_library_call(step) ? 1 : 0;
  }
  return counts;
}

/// What --json says of one plan.
nlohmann::json report_of(const driver::Compilation &compilation) {
  const program::Program &program = compilation.program;
  const StepCounts counts = count_steps(program);
  double total = 0;
  nlohmann::json phases = nlohmann::json::object();
  for (const driver::PassTime &time : compilation.times) {
    total += time.milliseconds;
    phases[time.name] = time.milliseconds;
  }
  nlohmann::json report = {{"kernels", program.kernels.size()},
                           {"launches", counts.launches},
                           {"steps", program.steps.size()},
                           {"library_calls", counts.library_calls},
                           {"compile_ms", total},
                           {"phases_ms", phases}};
  if (const auto memory = driver::memory_use(program))
    report["memory"] = {{"workspace_bytes", memory->workspace},
                        {"output_bytes", memory->outputs},
                        {"weight_bytes", memory->weights}};
  return report;
}

/// "; 12.6 MB of workspace, ..", where that is known.
std::string memory_text(const nlohmann::json &report) {
  if (!report.contains("memory"))
    return "";
  const auto megabytes = [&](const char *name) {
    return report["memory"][name].get<double>() / 1e6;
  };
  char text[128];
  std::snprintf(text, sizeof text, "; memory: %.1f MB workspace, %.1f MB outputs, %.1f MB weights",
                megabytes("workspace_bytes"), megabytes("output_bytes"), megabytes("weight_bytes"));
  return text;
}

void print_summary(const Flags &flags, const std::vector<driver::Compilation> &plans) {
  std::vector<nlohmann::json> reports;
  for (const driver::Compilation &plan : plans) {
    reports.push_back(report_of(plan));
    if (plans.size() > 1)
      reports.back()["arch"] = plan.program.archs.at(0);
  }
  if (flags.json) {
    nlohmann::json object = plans.size() > 1 ? nlohmann::json{{"plans", reports}} : reports[0];
    object["out"] = flags.out;
    std::printf("%s\n", object.dump(2).c_str());
    return;
  }
  for (const nlohmann::json &report : reports)
    std::printf(
        "%s%s: %zu kernels, %zu launches, %zu library calls, %.1f ms%s\n", flags.out.c_str(),
        report.contains("arch") ? (" for " + report["arch"].get<std::string>()).c_str() : "",
        report["kernels"].get<size_t>(), report["launches"].get<size_t>(),
        report["library_calls"].get<size_t>(), report["compile_ms"].get<double>(),
        memory_text(report).c_str());
}

void print_form(const Flags &flags) {
  if (!flags.out.empty())
    throw support::UserError(support::ExitCode::usage,
                             support::Diagnostic{"TSC-C008", "-o and --emit exclude each other", "",
                                                 "", "", "",
                                                 "leave -o out: the form goes to stdout"});
  const std::optional<std::string> as_read = form_as_read(flags);
  const driver::Form form = form_of(flags.emit_form);
  const driver::Form last = form == driver::Form::cuda ? driver::Form::program : form;
  std::string text = as_read ? *as_read : driver::render(compile_with_flags(flags, last), form);
  if (flags.json)
    text = nlohmann::json{{"form", flags.emit_form}, {"text", text}}.dump(
               2, ' ', false, nlohmann::json::error_handler_t::replace) +
           "\n";
  std::fwrite(text.data(), 1, text.size(), stdout);
}

/// What the model is called: as asked for, as its file says, or as its file is called.
std::string name_of(const Flags &flags, const program::Program &program) {
  if (!flags.name.empty())
    return flags.name;
  return emit::model_name(program.name.empty() ? std::filesystem::path(flags.graph).stem().string()
                                               : program.name);
}

/// A folder, or a package with compiled code.
void write(const Flags &flags, const std::vector<program::Program> &plans,
           const tensor::TensorMap &weights) {
  if (!emit::names_package(flags.out)) {
    emit::EmitOptions options;
    options.weights = &weights;
    return emit::emit(plans, flags.out, options);
  }
  Progress progress;
  std::vector<program::KernelImages> images;
  for (const program::Program &plan : plans) {
    progress.show("compiling kernels for " + plan.archs.at(0));
    images.push_back(runtime::compile_images(plan, plan.archs.at(0)));
  }
  emit::write_package(plans, images, weights, flags.out);
}

void run(const Flags &flags, const CLI::App &command) {
  Situation situation;
  situation.form = flags.emit_form;
  refuse_idle_options(command, situation);
  if (!flags.name.empty())
    emit::check_model_name(flags.name);
  if (!flags.emit_form.empty())
    return print_form(flags);
  if (flags.out.empty())
    throw support::UserError(
        support::ExitCode::usage,
        support::Diagnostic{"TSC-C004", "no output folder", "", "", "", "",
                            "give one with -o OUT, or a form to print with --emit"});
  std::vector<driver::Compilation> compilations = compile_plans(flags, driver::Form::program);
  const driver::Compilation &compilation = compilations.front();
  tensor::TensorMap weights;
  std::optional<driver::DataSource> source;
  const std::string &file = flags.weights.empty() ? flags.weights_from : flags.weights;
  if (!file.empty())
    source = driver::parse_data_source(file);
  // A bare model.json has no weights: OUT then takes them when it is loaded.
  std::vector<std::string> warnings;
  for (const driver::Compilation &each : compilations)
    if (source || !each.graph.weights.empty())
      weights.merge(driver::load_weights(each.program, each.graph.weights, source,
                                         &each == &compilation ? &warnings : nullptr));
  print_warnings(warnings, file);
  if (!flags.weights_from.empty())
    weights.clear(); // they fit, and are given again when the program runs
  std::vector<program::Program> plans;
  plans.reserve(compilations.size());
  for (driver::Compilation &each : compilations) {
    each.program.name = name_of(flags, each.program);
    plans.push_back(std::move(each.program));
  }
  write(flags, plans, weights);
  for (size_t i = 0; i < plans.size(); ++i)
    compilations[i].program = std::move(plans[i]);
  print_summary(flags, compilations);
}

} // namespace

void add_compile(CLI::App &app, int &exit_code) {
  auto flags = std::make_shared<Flags>();
  CLI::App *command =
      app.add_subcommand("compile", "write a graph's CUDA C++ sources and program to a folder");
  add_compile_flags(*command, *flags, "GRAPH");
  command->add_option("-o,--out", flags->out,
                      "the folder to write; NAME.tsc: one file with compiled code, which tsc run, "
                      "the C functions and Python load without a compiler");
  command
      ->add_option("--emit", flags->emit_form,
                   "print this form to stdout instead: fx (the graph as read, as torch.fx prints "
                   "it), json (the same as graph JSON), graph (after the passes), ir, schedule, "
                   "cuda, program")
      ->check(CLI::IsMember({"fx", "json", "graph", "ir", "schedule", "cuda", "program"}));
  command->add_option("--weights", flags->weights,
                      "FILE or random[:SEED], for graphs that carry none");
  CLI::Option *weights = command->get_option("--weights");
  command
      ->add_option("--weights-from", flags->weights_from,
                   "FILE: OUT holds no weights; these fit, and are given again when it runs")
      ->excludes(weights);
  command->add_option("--name", flags->name,
                      "what the model is called in programs that link it (default: as the graph's "
                      "file)");
  command->add_flag("--json", flags->json, "print one JSON object");
  command->callback([flags, command, &exit_code] {
    run(*flags, *command);
    exit_code = 0;
  });
}

} // namespace tsc::app
