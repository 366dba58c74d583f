#include "commands.h"
#include "options.h"

#include "driver/group_kernels.h"
#include "scheduler/schedule.h"

#include <cstdio>
#include <map>
#include <memory>

namespace tsc::app {
namespace {

struct Flags : CompileFlags {
  std::string stage = "post-fusion";
  std::string dialect = "2.5";
  bool no_code = false;
};

std::string joined_texts(const driver::Compilation &compilation,
                         const std::vector<uint32_t> &kernels) {
  std::string text;
  for (uint32_t kernel : kernels)
    text += (text.empty() ? "" : "\n") + compilation.program.kernels[kernel].cuda.text;
  return text;
}

void run(const Flags &flags) {
  driver::Form last = flags.no_code ? driver::Form::schedule : driver::Form::program;
  driver::Compilation compilation = compile_with_flags(flags, last);
  scheduler::LogOptions options;
  options.stage = flags.stage == "init"         ? scheduler::LogStage::init
                  : flags.stage == "pre-fusion" ? scheduler::LogStage::pre_fusion
                                                : scheduler::LogStage::post_fusion;
  options.newer_dialect = flags.dialect == "2.11";
  std::map<std::vector<scheduler::NodeId>, std::string> texts; // by the group's members
  if (!flags.no_code) {
    std::vector<std::vector<uint32_t>> kernels = driver::kernels_of_groups(compilation);
    for (size_t g = 0; g < kernels.size(); ++g)
      texts[compilation.schedule.groups[g].members] = joined_texts(compilation, kernels[g]);
    options.kernel_text = [&](const scheduler::Group &group) -> std::string {
      auto found = texts.find(group.members);
      return found == texts.end() ? "" : found->second;
    };
  }
  std::string text = scheduler::to_log(compilation.module, compilation.schedule, options);
  std::fwrite(text.data(), 1, text.size(), stdout);
}

} // namespace

void add_dump_schedule(CLI::App &app, int &exit_code) {
  auto flags = std::make_shared<Flags>();
  CLI::App *command =
      app.add_subcommand("dump-schedule", "print the schedule in the form of TorchInductor's logs");
  add_compile_flags(*command, *flags, "GRAPH");
  command->add_option("--stage", flags->stage, "init, pre-fusion or post-fusion")
      ->check(CLI::IsMember({"init", "pre-fusion", "post-fusion"}));
  command->add_option("--dialect", flags->dialect, "spelling of PyTorch 2.5 or 2.11")
      ->check(CLI::IsMember({"2.5", "2.11"}));
  command->add_flag("--no-code", flags->no_code, "leave the kernels' text out");
  command->callback([flags, &exit_code] {
    run(*flags);
    exit_code = 0;
  });
}

} // namespace tsc::app
