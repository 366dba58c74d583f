#include "commands.h"
#include "compiled_program.h"
#include "idle_options.h"
#include "options.h"

#include "driver/diff.h"
#include "emit/emit.h"
#include "support/text.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <memory>

namespace tsc::app {
namespace {

using nlohmann::json;

struct Flags : CompileFlags {
  std::string other;
  bool json = false;
};

/// A graph, compiled now, or the plan of what was compiled before.
program::Program load(CompileFlags flags, const std::string &path) {
  flags.graph = path;
  if (emit::is_emitted(path))
    return std::move(read_compiled(flags, path).program);
  return std::move(compile_with_flags(flags, driver::Form::program).program);
}

json to_json(const driver::ProgramTotals &totals) {
  return {{"kernels", totals.kernels},
          {"launches", totals.launches},
          {"library_calls", totals.library_calls},
          {"steps", totals.steps},
          {"bytes", totals.bytes},
          {"nanoseconds", totals.nanoseconds}};
}

json to_json(const program::Kernel *kernel) {
  if (!kernel)
    return nullptr;
  return {{"name", kernel->name}, {"plan", kernel->plan}, {"nodes", kernel->origins}};
}

const char *kind_of(const driver::KernelChange &change) {
  return !change.before ? "added" : !change.after ? "removed" : "changed";
}

void print_json(const driver::ProgramDiff &diff) {
  json changes = json::array();
  for (const driver::KernelChange &change : diff.changes)
    changes.push_back({{"kind", kind_of(change)},
                       {"before", to_json(change.before)},
                       {"after", to_json(change.after)}});
  std::printf("%s\n", json{{"before", to_json(diff.before)},
                           {"after", to_json(diff.after)},
                           {"same_kernels", diff.same},
                           {"changes", changes}}
                          .dump(2, ' ', false, json::error_handler_t::replace)
                          .c_str());
}

void print_row(const char *name, double before, double after, const char *format) {
  char first[48], second[48];
  std::snprintf(first, sizeof first, format, before);
  std::snprintf(second, sizeof second, format, after);
  std::printf("%-16s %12s %12s", name, first, second);
  if (before != after && before != 0)
    std::printf("  %+.1f%%", 100 * (after - before) / before);
  std::printf("\n");
}

void print_text(const driver::ProgramDiff &diff) {
  const auto count = [](size_t number) { return static_cast<double>(number); };
  std::printf("%-16s %12s %12s\n", "", "before", "after");
  print_row("kernels", count(diff.before.kernels), count(diff.after.kernels), "%.0f");
  print_row("launches", count(diff.before.launches), count(diff.after.launches), "%.0f");
  print_row("library calls", count(diff.before.library_calls), count(diff.after.library_calls),
            "%.0f");
  print_row("MB moved", diff.before.bytes * 1e-6, diff.after.bytes * 1e-6, "%.3f");
  print_row("estimated us", diff.before.nanoseconds * 1e-3, diff.after.nanoseconds * 1e-3, "%.1f");
  std::printf("%zu kernels are the same, %zu are not\n", diff.same, diff.changes.size());
  for (const driver::KernelChange &change : diff.changes) {
    const program::Kernel &kernel = change.after ? *change.after : *change.before;
    std::printf("%s %s: %s\n", kind_of(change), kernel.name.c_str(),
                support::join(kernel.origins, ", ").c_str());
    if (change.before)
      std::printf("  before: %s\n", change.before->plan.c_str());
    if (change.after)
      std::printf("  after: %s\n", change.after->plan.c_str());
  }
}

void run(const Flags &flags) {
  const program::Program before = load(flags, flags.graph), after = load(flags, flags.other);
  const driver::ProgramDiff diff = driver::diff(before, after, shapes_of(flags));
  if (flags.json)
    print_json(diff);
  else
    print_text(diff);
}

} // namespace

void add_diff(CLI::App &app, int &exit_code) {
  auto flags = std::make_shared<Flags>();
  CLI::App *command = app.add_subcommand(
      "diff", "what differs between two programs: kernels, bytes, estimated time, launches");
  add_compile_flags(*command, *flags, "A|OUT");
  command->add_option("B|OUT", flags->other, "what A is compared with")->required();
  command->add_flag("--json", flags->json, "print one JSON object");
  command->callback([flags, command, &exit_code] {
    Situation situation;
    situation.from_folder = emit::is_emitted(flags->graph) && emit::is_emitted(flags->other);
    refuse_idle_options(*command, situation);
    run(*flags);
    exit_code = 0;
  });
}

} // namespace tsc::app
