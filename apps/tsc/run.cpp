#include "commands.h"
#include "idle_options.h"
#include "launch_ranks.h"
#include "options.h"
#include "progress.h"
#include "run_report.h"

#include "driver/expected.h"
#include "driver/inputs.h"
#include "driver/match_inputs.h"
#include "driver/operation_spans.h"
#include "driver/process_ranks.h"
#include "driver/ranks.h"
#include "driver/reference.h"
#include "emit/emit.h"
#include "engine/arch_choice.h"
#include "ranks/launcher.h"
#include "runtime/cuda_ranks.h"
#include "support/diagnostic.h"
#include "target/target.h"
#include "tensor/mapped_file.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>

namespace tsc::app {
namespace {

struct Flags : CompileFlags {
  std::string inputs, weights, outputs, expect, device, plan = "serial", profile;
  std::string output_names = "numbers";
  int bench = 0;
  uint64_t seed = 0;
  int64_t world_size = 0;
  std::vector<std::string> groups;
  std::string mesh;
  double collective_timeout = 300;
  bool processes = false;
  bool has_own_graph = false; // a rank's
  bool reverse = false, no_cache = false, no_graphs = false, json = false;
};

/// The ranks of this process: all of them, or one.
struct Ranks {
  std::optional<ranks::Place> place; // of one
  ranks::GroupTable table;
  int64_t first = 0, count = 1;
};

/// What is run: a graph, compiled now, or an emitted folder.
struct Subject {
  driver::Compilation compilation;
  bool from_folder = false;
  std::shared_ptr<const program::KernelImages> images; // of a package
  tensor::TensorMap own_weights;
};

/// What the program is planned for: where it will run, as far as that is known before it is there.
std::string arch_to_run_on(const Flags &flags) {
  if (flags.device == "host" && flags.plan == "serial")
    return "host";
  if (flags.device == "cuda" || flags.device.empty()) {
    const std::string native = runtime::native_part(nullptr);
    if (!native.empty())
      return native;
  }
  return flags.device.empty() && flags.plan == "serial" ? "host" : kDefaultArch;
}

/// The position in `archs` of what runs here.
size_t choose_plan(const Flags &flags, const std::vector<tsc_engine::Arch> &archs) {
  const target::Target &here = target::find_target(arch_to_run_on(flags));
  return tsc_engine::choose_arch(archs, {here.name, here.shared_bytes_per_block});
}

Subject load(Flags flags) {
  Subject subject;
  subject.from_folder = emit::is_emitted(flags.graph);
  if (subject.from_folder) {
    emit::EmittedFolder folder = emit::read_emitted_folder(flags.graph);
    std::vector<tsc_engine::Arch> archs;
    for (const program::Program &plan : folder.plans)
      archs.push_back({plan.archs.empty() ? "" : plan.archs.front(), program::shared_bytes(plan)});
    const size_t plan = choose_plan(flags, archs);
    subject.compilation.program = std::move(folder.plans[plan]);
    if (plan < folder.images.size())
      subject.images = std::make_shared<program::KernelImages>(std::move(folder.images[plan]));
    subject.own_weights = std::move(folder.weights);
    return subject;
  }
  std::error_code error; // what cannot be looked at is no folder: reading it says why
  if (std::filesystem::is_directory(flags.graph, error))
    throw support::UserError(
        support::ExitCode::usage,
        support::Diagnostic{"TSC-C009", "this folder was not written by tsc compile", flags.graph,
                            "", "", "", "give a graph, or the folder OUT of tsc compile -o OUT"});
  if (flags.archs.empty()) {
    flags.archs = {arch_to_run_on(flags)};
  } else {
    std::vector<tsc_engine::Arch> archs;
    const std::vector<std::string> given = archs_of(flags);
    archs.reserve(given.size());
    for (const std::string &arch : given)
      archs.push_back({target::find_target(arch).name, 0});
    flags.archs = {given[choose_plan(flags, archs)]};
  }
  subject.compilation = compile_with_flags(flags, driver::Form::program);
  subject.own_weights = subject.compilation.graph.weights;
  return subject;
}

std::string choose_device(const Flags &flags, const program::Program &program,
                          const std::optional<ranks::Place> &place) {
  if (!flags.device.empty())
    return flags.device;
  if (driver::has_collectives(program) && !place)
    return "host";
  std::string why;
  if (runtime::cuda_available(&why))
    return "cuda";
  spdlog::info("running on the host: {}", why);
  return "host";
}

runtime::SessionOptions session_options(const Flags &flags, const Subject &subject,
                                        const std::string &device) {
  runtime::SessionOptions options;
  options.images = subject.images;
  options.device = device == "cuda" ? runtime::DeviceKind::cuda : runtime::DeviceKind::host;
  options.plan = flags.plan == "cuda" ? runtime::Plan::cuda : runtime::Plan::serial;
  options.thread_order = flags.reverse ? runtime::SessionOptions::ThreadOrder::reverse
                                       : runtime::SessionOptions::ThreadOrder::forward;
  options.use_cache = !flags.no_cache;
  options.use_graphs = !flags.no_graphs;
  return options;
}

/// "output_0", or "rank_0/output_0" where several ranks run.
std::string result_name(const program::Program &program, size_t rank, const std::string &name) {
  return driver::has_collectives(program) ? driver::name_of_rank(static_cast<int64_t>(rank), name)
                                          : name;
}

/// "y.rank_0.npz": one rank's part of "y.npz".
std::string path_of_rank(std::filesystem::path path, int64_t rank) {
  const std::string name =
      path.stem().string() + ".rank_" + std::to_string(rank) + path.extension().string();
  return path.replace_filename(name).string();
}

/// Where this process writes: one rank of several has a file of its own, "y.rank_0.npz".
std::string outputs_path(const Flags &flags, const Ranks &ranks) {
  if (!ranks.place)
    return flags.outputs;
  if (ranks.place->is_launched)
    return outputs_of_launched_rank(ranks.first);
  return flags.outputs == "-" ? flags.outputs : path_of_rank(flags.outputs, ranks.first);
}

/// What each output is called in files: output_N, or its path where it has one of its own.
std::vector<std::string> names_of_outputs(const program::Program &program, bool by_path) {
  std::vector<std::string> names;
  for (const program::OutputInfo &output : program.outputs)
    names.push_back(output.name);
  const std::vector<std::string> paths = program::output_paths(program);
  for (size_t i = 0; i < names.size() && by_path; ++i)
    if (!paths[i].empty() && std::count(paths.begin(), paths.end(), paths[i]) == 1 &&
        std::count(names.begin(), names.end(), paths[i]) == 0)
      names[i] = paths[i];
  return names;
}

void write_outputs(const Flags &flags, const program::Program &program,
                   const driver::RankTensors &outputs, const Ranks &ranks) {
  const std::vector<std::string> names = names_of_outputs(program, flags.output_names == "paths");
  tensor::TensorMap named;
  for (size_t rank = 0; rank < outputs.size(); ++rank) {
    for (size_t i = 0; i < program.outputs.size(); ++i)
      if (program.outputs[i].buffer >= 0)
        named[result_name(program, static_cast<size_t>(ranks.first) + rank, names[i])] =
            outputs[rank][i];
  }
  tensor::write_tensors(outputs_path(flags, ranks), named);
}

std::vector<driver::OutputAgreement> compare(const program::Program &program,
                                             const driver::RankTensors &outputs, int64_t first_rank,
                                             const tensor::TensorMap &expected) {
  std::vector<driver::OutputAgreement> all;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const size_t rank = static_cast<size_t>(first_rank) + i;
    const tensor::TensorMap own = driver::tensors_of_rank(expected, static_cast<int64_t>(rank));
    for (driver::OutputAgreement &one : driver::compare_outputs(program, outputs[i], own)) {
      one.name = result_name(program, rank, one.name);
      all.push_back(std::move(one));
    }
  }
  return all;
}

/// What a run takes besides the program.
struct Data {
  driver::RankTensors inputs; // one list without collectives
  tensor::TensorMap weights, expected;
};

/// All problems of all files in one report; nothing has run yet.
Data load_data(const Flags &flags, const Subject &subject, const Ranks &ranks) {
  const program::Program &program = subject.compilation.program;
  Data data;
  std::vector<support::Diagnostic> problems;
  const auto collect = [&](const std::function<void()> &part) {
    try {
      part();
    } catch (const support::UserError &error) {
      if (error.exit_code() != support::ExitCode::bad_input)
        throw;
      problems.insert(problems.end(), error.diagnostics().begin(), error.diagnostics().end());
    }
  };
  const driver::DataSource inputs =
      driver::parse_data_source(flags.inputs.empty() ? "random" : flags.inputs);
  std::optional<driver::DataSource> weights;
  if (!flags.weights.empty())
    weights = driver::parse_data_source(flags.weights);
  std::map<std::string, driver::DataHint> hints;
  driver::Constants constants;
  if (!subject.from_folder) {
    hints = driver::data_hints(subject.compilation.graph);
    constants = driver::constants_of(subject.compilation.graph);
  }
  collect([&] {
    if (driver::has_collectives(program))
      data.inputs = driver::load_rank_inputs(program, inputs, ranks.first, ranks.count, hints,
                                             constants, shapes_of(flags));
    else
      data.inputs = {driver::load_inputs(program, inputs, hints, constants, shapes_of(flags))};
  });
  if (problems.empty() && !flags.expect.empty())
    collect([&] {
      data.expected = tensor::read_tensors(flags.expect);
      for (size_t i = 0; i < data.inputs.size(); ++i)
        driver::check_expected(
            program, driver::output_sizes(program, data.inputs[i]),
            driver::tensors_of_rank(data.expected, ranks.first + static_cast<int64_t>(i)),
            flags.expect);
    });
  std::vector<std::string> warnings;
  collect([&] {
    data.weights = driver::load_weights(program, subject.own_weights, weights, &warnings);
  });
  if (!problems.empty())
    throw support::UserError(support::ExitCode::bad_input, std::move(problems));
  print_warnings(warnings, flags.weights);
  return data;
}

/// What stages took, one behind another.
class Stopwatch {
public:
  explicit Stopwatch(std::vector<Stage> &stages) : stages_(stages) {}
  void lap(const char *name) {
    const auto now = std::chrono::steady_clock::now();
    stages_.push_back(
        {name, std::chrono::duration<double, std::milli>(now - last_).count(),
         std::chrono::duration<double, std::micro>(last_.time_since_epoch()).count()});
    last_ = now;
  }

private:
  std::vector<Stage> &stages_;
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

/// What is known of a run before anything is read, or behind `device`, before it begins.
Situation situation_of(const Flags &flags, const std::string &device) {
  Situation situation;
  situation.from_folder = emit::is_emitted(flags.graph);
  situation.device = device;
  situation.plan = flags.plan;
  situation.data = flags.inputs;
  situation.outputs = flags.outputs;
  return situation;
}

/// One process a rank: on GPUs, and where it is asked for.
bool is_to_launch(const Flags &flags, const std::optional<ranks::Place> &place) {
  return !place && flags.world_size > 0 && (flags.processes || flags.device == "cuda");
}

/// The ranks of a program, and which of them are this process's.
Ranks ranks_of(const Flags &flags, const program::Program &program,
               const std::optional<ranks::Place> &place) {
  Ranks ranks;
  driver::RanksAsked asked{flags.world_size, flags.groups, flags.mesh};
  if (driver::has_collectives(program) && place) {
    if (flags.world_size != 0 && flags.world_size != place->world)
      throw support::UserError(
          support::ExitCode::usage,
          support::Diagnostic{
              "TSC-C053",
              "--world-size is " + std::to_string(flags.world_size) + ", and this is one of " +
                  std::to_string(place->world) + " ranks by the environment",
              "", "", "", "", "leave --world-size out, or unset RANK and WORLD_SIZE"});
    ranks.place = place;
    ranks.first = place->rank;
    asked.world_size = place->world;
  }
  ranks.table = driver::group_table(program, asked);
  if (!ranks.place)
    ranks.count = ranks.table.world;
  return ranks;
}

driver::RepeatedRuns repeated_runs(const Flags &flags) {
  return {flags.bench, flags.profile.empty() ? 0 : kProfiledRuns};
}

/// One rank of several processes.
driver::RankTensors run_rank(const Flags &flags, const Subject &subject, const Ranks &ranks,
                             const Data &data, RunReport &report) {
  const ranks::Place &place = *ranks.place;
  driver::ProcessRank how;
  how.device = report.device;
  how.table = ranks.table;
  how.session = session_options(flags, subject, report.device);
  how.seed = flags.seed;
  how.has_own_graph = flags.has_own_graph;
  how.repeated = repeated_runs(flags);
  if (how.device == "cuda") {
    runtime::need_cuda_device(place.rank, place.local_rank);
    how.session.device_index = static_cast<int>(place.local_rank);
  }
  Progress progress;
  progress.show("meeting the other ranks");
  ranks::World::Options options;
  options.timeout_seconds = flags.collective_timeout;
  ranks::World world(place, options);
  driver::ProcessRun run =
      driver::run_process_rank(world, subject.compilation, data.inputs[0], data.weights, how);
  report.timing = run.timing;
  report.samples_ms = std::move(run.samples_ms);
  if (!flags.profile.empty()) {
    report.profile.steps = how.device == "reference"
                               ? profiled_operations(subject.compilation.module)
                               : profiled_steps(subject.compilation.program);
    report.profile.by_rank = {std::move(run.profile)};
    report.profile.rank = ranks.first;
  }
  return {std::move(run.outputs)};
}

/// One run operation by operation, which is what is profiled.
driver::RankTensors run_on_reference(const Flags &flags, const Subject &subject, const Ranks &ranks,
                                     const Data &data, RunReport &report) {
  driver::ReferenceOptions options;
  options.seed = flags.seed;
  driver::OperationSpans spans(options);
  driver::RankTensors outputs = driver::run_reference_ranks(subject.compilation, data.inputs,
                                                            data.weights, {ranks.table}, options);
  if (!flags.profile.empty()) {
    report.profile.steps = profiled_operations(subject.compilation.module);
    report.profile.by_rank = {{spans.finish()}};
  }
  return outputs;
}

driver::RankTensors run_ranks(const Flags &flags, const Subject &subject, const Ranks &ranks,
                              const Data &data, RunReport &report) {
  const program::Program &program = subject.compilation.program;
  Progress progress;
  progress.show("compiling kernels and running all ranks");
  driver::RankRun run = driver::run_ranks_on_host(program, data.inputs, data.weights, ranks.table,
                                                  session_options(flags, subject, report.device),
                                                  flags.seed, repeated_runs(flags));
  report.timing = run.timing;
  report.samples_ms = std::move(run.samples_ms);
  if (!flags.profile.empty()) {
    report.profile.steps = profiled_steps(program);
    report.profile.by_rank = std::move(run.profiles);
  }
  return std::move(run.outputs);
}

driver::RankTensors run_alone(const Flags &flags, const Subject &subject, const Data &data,
                              std::optional<runtime::Preparation> &preparation, RunReport &report,
                              Stopwatch &watch) {
  const program::Program &program = subject.compilation.program;
  Progress progress;
  progress.show("compiling kernels");
  std::unique_ptr<runtime::Session> session =
      preparation ? runtime::Session::create(*preparation, data.weights)
                  : runtime::Session::create(program, data.weights,
                                             session_options(flags, subject, report.device));
  watch.lap("kernels and weights");
  progress.show("running");
  session->set_seed(flags.seed);
  driver::RankTensors outputs = {session->run(data.inputs[0])};
  watch.lap("run");
  if (flags.bench > 0) {
    report.samples_ms = session->bench(data.inputs[0], flags.bench);
    watch.lap("bench");
  }
  if (!flags.profile.empty()) {
    report.profile.steps = profiled_steps(program);
    report.profile.by_rank = {session->profile(data.inputs[0], kProfiledRuns)};
    watch.lap("profile");
  }
  report.timing = session->timing();
  return outputs;
}

/// True where kernels are compiled while data is read: on a GPU, in less than a second. A host's
/// compiler takes longer, and an error in the data would wait for it.
bool is_to_prepare(const program::Program &program, const Ranks &ranks, const std::string &device) {
  return device == "cuda" && !ranks.place && !driver::has_collectives(program);
}

driver::RankTensors execute(const Flags &flags, const Subject &subject, const Ranks &ranks,
                            const Data &data, std::optional<runtime::Preparation> &preparation,
                            RunReport &report, Stopwatch &watch) {
  const program::Program &program = subject.compilation.program;
  if (!flags.profile.empty())
    report.profile.file = ranks.place ? path_of_rank(flags.profile, ranks.first) : flags.profile;
  report.profile.device = report.device;
  if (ranks.place) {
    driver::RankTensors outputs = run_rank(flags, subject, ranks, data, report);
    watch.lap("kernels, weights and run");
    return outputs;
  }
  if (report.device == "reference") {
    driver::RankTensors outputs = run_on_reference(flags, subject, ranks, data, report);
    watch.lap("run");
    return outputs;
  }
  if (!driver::has_collectives(program))
    return run_alone(flags, subject, data, preparation, report, watch);
  if (report.device == "cuda")
    throw support::UserError(support::ExitCode::usage,
                             {.code = "TSC-C011",
                              .message = "ranks on GPUs are processes, and --world-size is not "
                                         "given",
                              .next_step = "give --world-size, or start the ranks with torchrun"});
  driver::RankTensors outputs = run_ranks(flags, subject, ranks, data, report);
  watch.lap("kernels, weights and run");
  return outputs;
}

/// Writes, compares and prints what a run left. Returns the exit code.
int finish(const Flags &flags, const program::Program &program, const Ranks &ranks,
           const Data &data, const driver::RankTensors &outputs, RunReport &report,
           Stopwatch &watch) {
  tensor::check_files_unchanged(); // nothing of what was computed is of a file that changed
  if (!flags.outputs.empty())
    write_outputs(flags, program, outputs, ranks);
  if (!flags.expect.empty())
    report.comparisons = compare(program, outputs, ranks.first, data.expected);
  std::string summaries;
  for (size_t i = 0; i < outputs.size() && flags.outputs.empty() && !flags.json; ++i)
    summaries += describe_outputs(program, outputs[i], [&](const std::string &name) {
      return result_name(program, static_cast<size_t>(ranks.first) + i, name);
    });
  watch.lap("outputs");
  if (!flags.profile.empty())
    write_trace(report.profile, report.stages, report.passes);
  // What is written to stdout stands there alone.
  std::FILE *stream = flags.outputs == "-" ? stderr : stdout;
  if (ranks.place && ranks.first != 0 && !flags.json)
    print_comparisons(report, stream);
  else
    print_report(report, flags.json, stream);
  std::fputs(summaries.c_str(), stdout);
  bool agrees =
      std::all_of(report.comparisons.begin(), report.comparisons.end(),
                  [](const driver::OutputAgreement &output) { return output.agreement.ok; });
  return static_cast<int>(agrees ? support::ExitCode::ok : support::ExitCode::numbers_differ);
}

constexpr std::string_view kRankInName = "{rank}";

/// A rank's own graph where each has one.
Flags with_graph_of_rank(Flags flags, const std::optional<ranks::Place> &place) {
  const size_t at = flags.graph.find(kRankInName);
  if (at == std::string::npos)
    return flags;
  if (!place)
    throw support::UserError(support::ExitCode::usage,
                             {.code = "TSC-C011",
                              .message = "ranks that have graphs of their own are processes",
                              .file = flags.graph,
                              .next_step = "give --processes and --world-size"});
  flags.graph.replace(at, kRankInName.size(), std::to_string(place->rank));
  flags.has_own_graph = true;
  return flags;
}

int run(const Flags &given, const CLI::App &command) {
  ranks::end_with_launcher();
  refuse_idle_options(command, situation_of(given, given.device));
  const std::optional<ranks::Place> place = ranks::place_in_environment();
  const Flags flags = is_to_launch(given, place) ? given : with_graph_of_rank(given, place);
  if (is_to_launch(flags, place))
    return launch_ranks({flags.world_size, flags.device, flags.outputs, flags.json,
                         !readers_of_standard_input(command).empty()});
  RunReport report;
  Stopwatch watch(report.stages);
  Subject subject = load(flags);
  watch.lap("graph");
  const program::Program &program = subject.compilation.program;
  if (flags.inputs.empty() && !program.inputs.empty())
    std::fprintf(stderr, "note: no --inputs; the inputs are random (seed 0)\n");
  report.graph = flags.graph;
  report.device = choose_device(flags, program, place);
  refuse_idle_options(command, situation_of(flags, report.device));
  watch.lap("device");
  if (report.device == "reference" && subject.from_folder)
    throw support::UserError(
        support::ExitCode::usage,
        support::Diagnostic{"TSC-C007", "the reference device runs graphs, not compiled folders",
                            flags.graph, "", "", "",
                            "give the graph the folder was compiled from"});
  const Ranks ranks = ranks_of(flags, program, place);
  std::optional<runtime::Preparation> preparation;
  if (is_to_prepare(program, ranks, report.device))
    preparation.emplace(program, session_options(flags, subject, report.device));
  const Data data = load_data(flags, subject, ranks);
  report.passes = subject.compilation.times;
  watch.lap("data");
  const driver::RankTensors outputs =
      execute(flags, subject, ranks, data, preparation, report, watch);
  return finish(flags, program, ranks, data, outputs, report, watch);
}

void add_rank_options(CLI::App &command, Flags &flags) {
  command
      .add_option("--world-size", flags.world_size,
                  "of a graph with collectives: its ranks. On GPUs each is a process; else all run "
                  "in this process. rank_R/NAME in files of tensors is rank R's")
      ->check(CLI::Range(1, 4096));
  command.add_flag(
      "--processes", flags.processes,
      "with --world-size: each rank is a process, on the host and the reference too; {rank} "
      "in GRAPH stands for its number, where ranks have graphs of their own");
  add_repeatable(command, "--group", flags.groups,
                 "NAME=0,1/2,3: the ranks of a group that is smaller than the world; each rank is "
                 "in one of the lists");
  command.add_option("--mesh", flags.mesh,
                     "NAME=SIZE,NAME=SIZE: groups that are the dimensions of a mesh of all ranks");
  command
      .add_option("--collective-timeout", flags.collective_timeout,
                  "seconds that a collective, or a rank to come, may take before all ranks end "
                  "(default: 300)")
      ->check(CLI::Range(0.001, 1e6));
}

} // namespace

void add_run(CLI::App &app, int &exit_code) {
  auto flags = std::make_shared<Flags>();
  CLI::App *command =
      app.add_subcommand("run", "compile a graph and run it, or run a compiled folder");
  add_compile_flags(*command, *flags, "GRAPH|OUT");
  command->add_option(
      "--inputs", flags->inputs,
      "FILE (.safetensors, .npz, folder of .npy; - for standard input) or random[:SEED] "
      "(default: random)");
  command->add_option("--weights,--weights-from", flags->weights,
                      "FILE or random[:SEED]: weights in the place of those that the graph or the "
                      "package carries, or where it carries none");
  command->add_option("--outputs", flags->outputs,
                      "write the outputs to this file; - for standard output, as .safetensors");
  command
      ->add_option("--output-names", flags->output_names,
                   "in that file: numbers (output_0, as always), or paths, as the model has them "
                   "(logits, past.0.key), where the export kept them")
      ->check(CLI::IsMember({"numbers", "paths"}));
  command->add_option("--expect", flags->expect,
                      "compare the outputs with this file; exit code 1 if they differ");
  command
      ->add_option("--device", flags->device,
                   "reference, host or cuda (default: the GPU if there is one, else host)")
      ->check(CLI::IsMember({"reference", "host", "cuda"}));
  command
      ->add_option("--plan", flags->plan,
                   "host only: serial, or the GPU's plan with threads as fibers")
      ->check(CLI::IsMember({"serial", "cuda"}));
  command->add_flag("--reverse", flags->reverse,
                    "host, cuda plan: run a block's threads in reverse order");
  command
      ->add_option("--seed", flags->seed,
                   "of the graph's random operators, as dropout in training (default: 0)")
      ->check(whole_number());
  add_rank_options(*command, *flags);
  command->add_flag("--no-graphs", flags->no_graphs,
                    "GPU: launch each kernel in each run, instead of replaying a CUDA graph");
  command->add_option("--bench", flags->bench, "time this many runs (100 if no number is given)")
      ->check(CLI::Range(1, 1000000));
  command->add_option("--profile", flags->profile,
                      "write what happened when to this file: a trace that Perfetto and Chrome "
                      "open; and print what each step took in 10 runs");
  command->add_flag("--no-cache", flags->no_cache,
                    "compile the kernels even if they are in the cache");
  command->add_flag("--json", flags->json, "print one JSON object");
  command->callback([flags, command, &exit_code] { exit_code = run(*flags, *command); });
}

} // namespace tsc::app
