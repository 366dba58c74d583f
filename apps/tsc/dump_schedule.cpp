#include "commands.h"
#include "compiled_program.h"
#include "idle_options.h"
#include "options.h"

#include "driver/group_kernels.h"
#include "emit/emit.h"
#include "program/partition.h"
#include "scheduler/cost.h"
#include "scheduler/schedule.h"
#include "target/target.h"

#include <nlohmann/json.hpp>

#include <cstdio>
#include <map>
#include <memory>

namespace tsc::app {
namespace {

struct Flags : CompileFlags {
  std::string stage = "post-fusion";
  std::string dialect = "2.5";
  bool no_code = false;
  bool json = false;
};

using Json = nlohmann::ordered_json;

Json to_json(const std::vector<scheduler::StepRecord> &records) {
  Json steps = Json::array();
  for (const scheduler::StepRecord &record : records) {
    Json counts = Json::object(), changes = Json::array();
    for (const scheduler::StepChange &change : record.changes) {
      counts[change.kind] = counts.value(change.kind, 0) + 1;
      changes.push_back({{"kind", change.kind}, {"of", change.subject}, {"text", change.text}});
    }
    steps.push_back({{"step", record.step},
                     {"looks_at", record.looks_at},
                     {"nodes", record.nodes},
                     {"groups", record.groups},
                     {"counts", std::move(counts)},
                     {"changes", std::move(changes)}});
  }
  return {{"steps", std::move(steps)}};
}

void print(const std::string &text) { std::fwrite(text.data(), 1, text.size(), stdout); }

/// What each step of the scheduler did.
void run_init(Flags flags) {
  flags.record_scheduling = true;
  const driver::Compilation compilation = compile_with_flags(flags, driver::Form::schedule);
  print(flags.json ? to_json(compilation.scheduling).dump() + "\n"
                   : scheduler::to_text(compilation.scheduling));
}

/// What can be captured in a CUDA graph each, and what lies between.
void run_partitions(const Flags &flags) {
  const program::Program program =
      emit::is_emitted(flags.graph)
          ? read_compiled(flags, flags.graph).program
          : std::move(compile_with_flags(flags, driver::Form::program).program);
  const std::vector<program::Partition> partitions = program::partition(program);
  if (!flags.json) {
    print(program::to_text(program, partitions));
    return;
  }
  Json rows = Json::array();
  for (const program::Partition &part : partitions)
    rows.push_back({{"first", part.first},
                    {"count", part.count},
                    {"depth", part.depth},
                    {"captured", part.capturable},
                    {"inputs", part.inputs},
                    {"outputs", part.outputs}});
  print(Json{{"partitions", std::move(rows)}}.dump() + "\n");
}

std::string joined_texts(const driver::Compilation &compilation,
                         const std::vector<uint32_t> &kernels) {
  std::string text;
  for (uint32_t kernel : kernels)
    text += (text.empty() ? "" : "\n") + compilation.program.kernels[kernel].cuda.text;
  return text;
}

/// Blocks of the log as an array, one a step of the schedule.
Json to_json(const std::string &log) {
  Json blocks = Json::array();
  constexpr std::string_view kEnd = "\n\n\n";
  for (size_t begin = 0, end; (end = log.find(kEnd, begin)) != std::string::npos;
       begin = end + kEnd.size()) {
    const std::string block = log.substr(begin, end - begin);
    blocks.push_back({{"name", block.substr(0, block.find(':'))}, {"text", block}});
  }
  return {{"blocks", std::move(blocks)}};
}

/// What the scheduler reckons with: time of each group, bytes alive at once in this order.
void add_estimates(Json &object, const driver::Compilation &compilation,
                   const target::Target &target) {
  double total = 0;
  const std::vector<scheduler::Group> &groups = compilation.schedule.groups;
  for (size_t i = 0; i < groups.size(); ++i) {
    const scheduler::Cost estimate =
        scheduler::cost_of(compilation.module, compilation.schedule, groups[i], target);
    object["blocks"][i]["estimate"] = {{"bytes", estimate.bytes},
                                       {"operations", estimate.operations},
                                       {"nanoseconds", estimate.nanoseconds}};
    total += estimate.nanoseconds;
  }
  object["nanoseconds"] = total;
  const scheduler::MemoryOrder &memory = compilation.schedule.memory_order;
  if (!memory.heuristic.empty())
    object["memory"] = {{"peak_bytes_before", memory.bytes_before},
                        {"peak_bytes", memory.bytes},
                        {"order", memory.heuristic}};
}

void run_log(const Flags &flags) {
  driver::Form last = flags.no_code ? driver::Form::schedule : driver::Form::program;
  driver::Compilation compilation = compile_with_flags(flags, last);
  scheduler::LogOptions options;
  options.stage = flags.stage == "pre-fusion" ? scheduler::LogStage::pre_fusion
                                              : scheduler::LogStage::post_fusion;
  options.newer_dialect = flags.dialect == "2.11";
  using Key = std::pair<const scheduler::Schedule *, std::vector<scheduler::NodeId>>;
  std::map<Key, std::string> texts; // by the group's schedule and members
  if (!flags.no_code) {
    for (const auto &[schedule, kernels] : driver::kernels_of_all_groups(compilation))
      for (size_t g = 0; g < kernels.size(); ++g)
        texts[{schedule, schedule->groups[g].members}] = joined_texts(compilation, kernels[g]);
    options.kernel_text = [&](const scheduler::Schedule &schedule,
                              const scheduler::Group &group) -> std::string {
      auto found = texts.find({&schedule, group.members});
      return found == texts.end() ? "" : found->second;
    };
  }
  const std::string log = scheduler::to_log(compilation.module, compilation.schedule, options);
  if (!flags.json) {
    print(log);
    return;
  }
  Json object = to_json(log);
  if (options.stage == scheduler::LogStage::post_fusion)
    add_estimates(object, compilation, target::find_target(archs_of(flags).front()));
  print(object.dump() + "\n");
}

} // namespace

void add_dump_schedule(CLI::App &app, int &exit_code) {
  auto flags = std::make_shared<Flags>();
  CLI::App *command =
      app.add_subcommand("dump-schedule", "print the schedule in the form of TorchInductor's logs");
  add_compile_flags(*command, *flags, "GRAPH|OUT");
  command
      ->add_option(
          "--stage", flags->stage,
          "init (what each step of the scheduler did), pre-fusion, post-fusion, or partitions "
          "(what one CUDA graph each can hold)")
      ->check(CLI::IsMember({"init", "pre-fusion", "post-fusion", "partitions"}));
  command->add_option("--dialect", flags->dialect, "spelling of PyTorch 2.5 or 2.11")
      ->check(CLI::IsMember({"2.5", "2.11"}));
  command->add_flag("--no-code", flags->no_code, "leave the kernels' text out");
  command->add_flag("--json", flags->json, "print one object: the steps, or the log's blocks");
  command->callback([flags, command, &exit_code] {
    Situation situation;
    situation.form = flags->stage;
    situation.from_folder = emit::is_emitted(flags->graph);
    refuse_idle_options(*command, situation);
    if (flags->stage == "init")
      run_init(*flags);
    else if (flags->stage == "partitions")
      run_partitions(*flags);
    else
      run_log(*flags);
    exit_code = 0;
  });
}

} // namespace tsc::app
