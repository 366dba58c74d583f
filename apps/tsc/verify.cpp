#include "commands.h"
#include "idle_options.h"
#include "options.h"
#include "progress.h"

#include "driver/graph_source.h"
#include "driver/inputs.h"
#include "driver/shapes.h"
#include "driver/verify.h"
#include "emit/emit.h"
#include "runtime/session.h"
#include "support/diagnostic.h"
#include "support/text.h"

#include <nlohmann/json.hpp>

#include <cmath>
#include <cstdio>
#include <memory>
#include <optional>

namespace tsc::app {
namespace {

using nlohmann::json;

struct Flags : CompileFlags {
  std::string inputs = "random", weights, device, plan = "serial";
  uint64_t seed = 0;
  bool json = false;
};

/// An error that is not finite is no number of JSON.
json number(double value) {
  return std::isfinite(value) ? json(value) : json(support::python_repr(value));
}

json to_json(const tensor::Agreement &agreement) {
  return {{"agrees", agreement.ok},
          {"norm_error", number(agreement.norm_error)},
          {"norm_bound", agreement.norm_bound},
          {"worst_element", number(agreement.worst_element)},
          {"reason", agreement.reason}};
}

std::string to_text(const tensor::Agreement &agreement) {
  char text[160];
  std::snprintf(text, sizeof text,
                "relative error %.2e (bound %.0e), worst element %.2f of what is allowed",
                agreement.norm_error, agreement.norm_bound, agreement.worst_element);
  return text + (agreement.reason.empty() ? "" : ": " + agreement.reason);
}

void print_json(const Flags &flags, const driver::Verdict &verdict) {
  json outputs = json::array();
  for (const driver::OutputAgreement &output : verdict.outputs) {
    outputs.push_back(to_json(output.agreement));
    outputs.back()["name"] = output.name;
  }
  json object = {{"graph", flags.graph},
                 {"device", flags.device},
                 {"agrees", verdict.agrees},
                 {"comparisons", outputs},
                 {"parts_run", verdict.parts_run}};
  if (verdict.first_wrong) {
    object["first_wrong"] = to_json(verdict.first_wrong->agreement);
    object["first_wrong"]["node"] = verdict.first_wrong->node;
    object["first_wrong"]["operator"] = verdict.first_wrong->target;
    object["first_wrong"]["source_line"] = verdict.first_wrong->source_line;
  }
  std::printf("%s\n", object.dump(2, ' ', false, json::error_handler_t::replace).c_str());
}

void print_text(const driver::Verdict &verdict) {
  for (const driver::OutputAgreement &output : verdict.outputs)
    std::printf("%s: %s, %s\n", output.name.c_str(), output.agreement.ok ? "agrees" : "DIFFERS",
                to_text(output.agreement).c_str());
  if (verdict.agrees)
    return;
  if (!verdict.first_wrong) {
    std::printf("the fault goes away where values in between are results: no node by itself is "
                "wrong (%zu parts of the graph run)\n",
                verdict.parts_run);
    return;
  }
  const driver::FirstWrong &first = *verdict.first_wrong;
  std::printf("the first node that differs is %s, %s (%zu parts of the graph run)\n",
              first.node.c_str(), first.target.c_str(), verdict.parts_run);
  if (!first.source_line.empty())
    std::printf("  in %s\n", first.source_line.c_str());
  std::printf("  %s\n", to_text(first.agreement).c_str());
}

int run(Flags flags) {
  if (emit::is_emitted(flags.graph))
    driver::refuse_compiled(flags.graph, "give the graph; or compare with outputs that are known: "
                                         "tsc run OUT --expect FILE");
  if (flags.device.empty())
    flags.device = runtime::cuda_available(nullptr) ? "cuda" : "host";
  if (flags.archs.empty())
    flags.archs = {flags.device == "cuda"   ? "native"
                   : flags.plan == "serial" ? "host"
                                            : kDefaultArch};
  const driver::DataSource inputs = driver::parse_data_source(flags.inputs);
  const driver::Compilation compilation = compile_with_flags(flags, driver::Form::program);
  const graph::Graph &graph = compilation.graph;
  std::optional<driver::DataSource> weights;
  if (!flags.weights.empty() || graph.weights.empty())
    weights = driver::parse_data_source(flags.weights.empty() ? "random" : flags.weights);
  driver::VerifyOptions options;
  options.compile = compile_options_of(flags, driver::Form::program);
  options.session.device =
      flags.device == "cuda" ? runtime::DeviceKind::cuda : runtime::DeviceKind::host;
  options.session.plan = flags.plan == "cuda" ? runtime::Plan::cuda : runtime::Plan::serial;
  options.seed = flags.seed;
  driver::Verdict verdict;
  {
    Progress progress;
    progress.show("comparing with the reference");
    options.progress = [&](const std::string &what) { progress.show(what); };
    verdict =
        driver::verify(compilation, driver::read_graph_from(flags.graph),
                       driver::load_inputs(compilation.program, inputs, driver::data_hints(graph),
                                           driver::constants_of(graph), shapes_of(flags)),
                       driver::load_weights(compilation.program, graph.weights, weights), options);
  }
  if (flags.json)
    print_json(flags, verdict);
  else
    print_text(verdict);
  return static_cast<int>(verdict.agrees ? support::ExitCode::ok
                                         : support::ExitCode::numbers_differ);
}

} // namespace

void add_verify(CLI::App &app, int &exit_code) {
  auto flags = std::make_shared<Flags>();
  CLI::App *command = app.add_subcommand(
      "verify", "run a graph and the float64 reference, and find the first node that differs");
  add_compile_flags(*command, *flags, "GRAPH");
  command->add_option("--inputs", flags->inputs, "FILE or random[:SEED] (the default)");
  command->add_option("--weights", flags->weights,
                      "FILE or random[:SEED] (the default), for graphs that carry none");
  command
      ->add_option("--device", flags->device,
                   "host or cuda (default: the GPU if there is one, else host)")
      ->check(CLI::IsMember({"host", "cuda"}));
  command
      ->add_option("--plan", flags->plan,
                   "host only: serial, or the GPU's plan with threads as fibers")
      ->check(CLI::IsMember({"serial", "cuda"}));
  command->add_option("--seed", flags->seed, "of the graph's random operators (default: 0)")
      ->check(whole_number());
  command->add_flag("--json", flags->json, "print one JSON object");
  command->callback([flags, command, &exit_code] {
    Situation situation;
    situation.device = flags->device;
    situation.data = flags->inputs;
    refuse_idle_options(*command, situation);
    exit_code = run(*flags);
  });
}

} // namespace tsc::app
