#include "api/ready_program.h"

#include "driver/operators_folder.h"
#include "emit/emit.h"
#include "engine/arch_choice.h"
#include "graph/read.h"
#include "program/library_call.h"
#include "runtime/session.h"
#include "support/diagnostic.h"
#include "support/text.h"
#include "target/target.h"

#include <nlohmann/json.hpp>

#include <cstddef>
#include <functional>
#include <map>
#include <set>

namespace tsc::api {
namespace {

using nlohmann::json;
using support::Diagnostic;
using support::ExitCode;
using support::UserError;

[[noreturn]] void bad_options(const std::string &message) {
  throw UserError(ExitCode::usage, Diagnostic{"TSC-C031", "bad options: " + message, "", "", "", "",
                                              "docs/python.md lists the options"});
}

target::Tf32 parse_tf32(const std::string &text) {
  if (text != "off" && text != "conv" && text != "on")
    bad_options("\"tf32\" is '" + text + "', not off, conv or on");
  return text == "on" ? target::Tf32::on : text == "conv" ? target::Tf32::conv : target::Tf32::off;
}

/// One of two words.
bool choose(const std::string &key, const std::string &text, const char *no, const char *yes) {
  if (text != no && text != yes)
    bad_options("\"" + key + "\" is '" + text + "', not " + no + " or " + yes);
  return text == yes;
}

/// What reads each key.
const std::map<std::string, std::function<void(const std::string &, const json &, Options &)>> &
readers() {
  using Words = std::vector<std::string>;
  using Key = const std::string &;
  static const std::map<std::string, std::function<void(Key, const json &, Options &)>> table = {
      {"device",
       [](Key key, const json &value, Options &to) {
         to.session.device = choose(key, value.get<std::string>(), "host", "cuda")
                                 ? runtime::DeviceKind::cuda
                                 : runtime::DeviceKind::host;
       }},
      {"plan",
       [](Key key, const json &value, Options &to) {
         to.session.plan = choose(key, value.get<std::string>(), "serial", "cuda")
                               ? runtime::Plan::cuda
                               : runtime::Plan::serial;
       }},
      {"device_index",
       [](Key, const json &value, Options &to) { to.session.device_index = value.get<int>(); }},
      {"arch",
       [](Key, const json &value, Options &to) { to.compile.arch = value.get<std::string>(); }},
      {"policy",
       [](Key, const json &value, Options &to) { to.compile.policy = value.get<std::string>(); }},
      {"policy_options",
       [](Key, const json &value, Options &to) { to.compile.policy_options = value.get<Words>(); }},
      {"tf32", [](Key, const json &value,
                  Options &to) { to.compile.tf32 = parse_tf32(value.get<std::string>()); }},
      {"deterministic",
       [](Key, const json &value, Options &to) { to.compile.deterministic = value.get<bool>(); }},
      {"locks", [](Key, const json &value, Options &to) { to.compile.locks = value.get<Words>(); }},
      {"operators",
       [](Key, const json &value, Options &to) {
         to.compile.operators = driver::read_operators(value.get<std::string>());
       }},
      {"use_cache",
       [](Key, const json &value, Options &to) { to.session.use_cache = value.get<bool>(); }},
      {"use_graphs",
       [](Key, const json &value, Options &to) { to.session.use_graphs = value.get<bool>(); }},
      {"cache_folder", [](Key, const json &value,
                          Options &to) { to.session.cache_folder = value.get<std::string>(); }},
  };
  return table;
}

/// What programs are planned for where the options do not say.
std::string arch_here(const runtime::SessionOptions &options) {
  if (options.device == runtime::DeviceKind::host && options.plan == runtime::Plan::serial)
    return "host";
  const std::string native = runtime::native_part(nullptr);
  return native.empty() ? driver::CompileOptions().arch : native;
}

json describe_problem(const driver::Problem &problem) {
  json nodes = json::array();
  if (!problem.diagnostic.node.empty())
    nodes.push_back(problem.diagnostic.node);
  for (const driver::Place &place : problem.places)
    if (place.node != problem.diagnostic.node)
      nodes.push_back(place.node);
  return {{"code", problem.diagnostic.code},
          {"message", problem.diagnostic.message},
          {"nodes", std::move(nodes)},
          {"target", problem.target},
          {"next_step", problem.diagnostic.next_step}};
}

} // namespace

Options parse_options(std::string_view text) {
  Options options;
  options.compile.arch = "";
  if (!text.empty()) {
    try {
      const json parsed = json::parse(text);
      if (!parsed.is_object())
        bad_options("they are no JSON object");
      for (const auto &[key, value] : parsed.items()) {
        const auto found = readers().find(key);
        if (found == readers().end())
          bad_options("nothing is called '" + key + "'");
        found->second(key, value, options);
      }
    } catch (const json::exception &error) {
      bad_options(error.what());
    }
  }
  if (options.compile.arch.empty())
    options.compile.arch = arch_here(options.session);
  return options;
}

ReadyProgram::ReadyProgram(const program::Program &program, const tensor::TensorMap &weights,
                           const runtime::SessionOptions &options, bool kept) {
  runtime::Timing timing;
  const bool is_cuda = options.device == runtime::DeviceKind::cuda;
  device_ = is_cuda ? runtime::make_ready_cuda(program, options, timing)
                    : runtime::make_ready_host(program, options, timing);
  tables_ = program::build_tables(program);
  if (kept)
    weights_ = weights;
  instance_ = runtime::load_instance(device_, tables_, weights, timing.weight_bytes);
  description_ = describe(program, timing, options);
}

void ReadyProgram::load_weights(const std::string &file) {
  tensor::TensorMap weights = tensor::read_tensors(file);
  std::set<std::string> known;
  for (size_t i = 0; i < tables_.tables.weights.count; ++i)
    known.insert(tables_.tables.weights[i].name);
  // A name that is misspelled would leave the weight as it was, and nobody would know.
  std::vector<Diagnostic> problems;
  const std::vector<std::string> names(known.begin(), known.end());
  for (const auto &entry : weights)
    if (known.count(entry.first) == 0) {
      const std::string near = support::did_you_mean(entry.first, names);
      problems.push_back(
          {"TSC-R124", "the program has no weight '" + entry.first + "'", file, "", "", "",
           near.empty() ? "leave it out of the file" : "did you mean '" + near + "'?"});
    }
  if (!problems.empty())
    throw UserError(ExitCode::bad_input, std::move(problems));
  weights.insert(weights_.begin(), weights_.end()); // those that the file lacks
  size_t bytes = 0;
  instance_ = runtime::load_instance(device_, tables_, weights, bytes);
  weights_ = std::move(weights);
}

std::string ReadyProgram::describe(const program::Program &program, const runtime::Timing &timing,
                                   const runtime::SessionOptions &options) const {
  json inputs = json::array(), outputs = json::array();
  for (const program::InputInfo &input : program.inputs) {
    const program::Buffer &buffer = program.buffers[input.buffer];
    inputs.push_back({{"name", input.name},
                      {"dtype", tensor::torch_name(buffer.dtype)},
                      {"rank", buffer.layout.sizes.size()},
                      {"is_integer", input.value.has_value()},
                      {"is_complex", buffer.is_complex},
                      {"mutated", input.mutated}});
  }
  const std::vector<std::string> paths = program::output_paths(program);
  for (size_t i = 0; i < program.outputs.size(); ++i) {
    const program::OutputInfo &output = program.outputs[i];
    outputs.push_back({{"name", output.name},
                       {"path", paths[i]},
                       {"dtype", tensor::torch_name(output.dtype)},
                       {"rank", output.layout.sizes.size()},
                       {"is_complex", output.is_complex},
                       {"constant", output.buffer < 0 ? json(output.text) : json()},
                       {"mutation", output.is_mutation}});
  }
  bool draws = false;
  for (const program::Buffer &buffer : program.buffers)
    draws = draws || buffer.role == program::Role::random_state;
  const bool is_cuda = options.device == runtime::DeviceKind::cuda;
  return json{
      {"name", program.name},
      {"device", is_cuda ? "cuda" : "host"},
      {"draws", draws},
      {"inputs", std::move(inputs)},
      {"outputs", std::move(outputs)},
      {"structure", program.structure ? json::parse(tensor::to_json(*program.structure)) : json()},
      {"kernels", program.kernels.size()},
      {"library_calls", program::count_library_calls(program)},
      {"compiled", timing.compiled},
      {"from_cache", timing.from_cache},
      {"compile_ms", timing.compile_ms}}
      .dump(-1, ' ', false, json::error_handler_t::replace);
}

std::unique_ptr<ReadyProgram> compile(std::string_view bytes, const std::string &label,
                                      const Options &options) {
  const driver::Compilation compilation =
      driver::compile(graph::parse_graph(bytes, label), options.compile);
  return std::make_unique<ReadyProgram>(compilation.program, compilation.graph.weights,
                                        options.session);
}

std::unique_ptr<ReadyProgram> load(const std::string &path, const Options &options) {
  if (!emit::is_emitted(path))
    throw UserError(ExitCode::usage,
                    Diagnostic{"TSC-C009", "this was not written by tsc compile", path, "", "", "",
                               "give the folder OUT, or the package, of tsc compile -o OUT"});
  emit::EmittedFolder folder = emit::read_emitted_folder(path);
  std::vector<tsc_engine::Arch> archs;
  for (const program::Program &plan : folder.plans)
    archs.push_back({plan.archs.empty() ? "" : plan.archs.front(), program::shared_bytes(plan)});
  const target::Target &here = target::find_target(options.compile.arch);
  const size_t plan = tsc_engine::choose_arch(archs, {here.name, here.shared_bytes_per_block});
  runtime::SessionOptions session = options.session;
  if (plan < folder.images.size())
    session.images = std::make_shared<program::KernelImages>(std::move(folder.images[plan]));
  return std::make_unique<ReadyProgram>(folder.plans[plan], folder.weights, session, true);
}

std::string check(std::string_view bytes, const std::string &label, const Options &options) {
  const driver::CheckReport report =
      driver::check(graph::parse_graph(bytes, label), options.compile);
  json problems = json::array();
  for (const driver::Problem &problem : report.problems)
    problems.push_back(describe_problem(problem));
  return json{{"status", static_cast<int>(report.exit_code)}, {"problems", std::move(problems)}}
      .dump(-1, ' ', false, json::error_handler_t::replace);
}

} // namespace tsc::api
