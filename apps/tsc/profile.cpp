#include "profile.h"

#include "support/diagnostic.h"
#include "support/text.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <limits>
#include <map>
#include <numeric>

namespace tsc::app {
namespace {

using Json = nlohmann::ordered_json;
using runtime::RunSpan;
using runtime::StepSpan;

constexpr const char *kKinds[] = {"launch",      "matmul",     "copy",  "fill",   "collective",
                                  "conditional", "while_loop", "event", "define", "solver"};
static_assert(std::size(kKinds) == std::variant_size_v<decltype(program::Step::kind)>);

/// What one step took in each run; a step of a loop all its rounds together.
struct StepTimes {
  size_t step = 0;
  size_t times = 0;                 // in all runs
  std::vector<double> microseconds; // by run, sorted
};

std::vector<StepTimes> times_of_steps(const std::vector<RunSpan> &runs) {
  std::map<uint32_t, StepTimes> by_step;
  for (size_t run = 0; run < runs.size(); ++run)
    for (const StepSpan &span : runs[run].steps) {
      StepTimes &times = by_step[span.step];
      times.step = span.step;
      times.microseconds.resize(runs.size(), 0);
      times.microseconds[run] += span.took_us;
      ++times.times;
    }
  std::vector<StepTimes> all;
  for (auto &[step, times] : by_step) {
    std::sort(times.microseconds.begin(), times.microseconds.end());
    all.push_back(std::move(times));
  }
  return all;
}

std::vector<double> times_of_runs(const std::vector<RunSpan> &runs) {
  std::vector<double> all;
  all.reserve(runs.size());
  for (const RunSpan &run : runs)
    all.push_back(run.took_us);
  std::sort(all.begin(), all.end());
  return all;
}

/// Rows of spans. Rows of one process stand together; both are in the order of their numbers.
class Trace {
public:
  /// `start`: what is time 0, in microseconds.
  explicit Trace(double start) : start_(start) {}

  void name_process(int process, const std::string &name) {
    add_name("process_name", process, 0, name);
    events_.push_back({{"ph", "M"},
                       {"name", "process_sort_index"},
                       {"pid", process},
                       {"tid", 0},
                       {"args", {{"sort_index", process}}}});
  }
  void name_row(int process, int row, const std::string &name) {
    add_name("thread_name", process, row, name);
  }
  void add(int process, int row, const std::string &name, const char *category, double began_us,
           double took_us, Json arguments = Json::object()) {
    events_.push_back({{"ph", "X"},
                       {"name", name},
                       {"cat", category},
                       {"pid", process},
                       {"tid", row},
                       {"ts", rounded(began_us - start_)},
                       {"dur", rounded(std::max(took_us, 0.0))},
                       {"args", std::move(arguments)}});
  }
  std::string text(const std::string &device) const {
    return Json{{"traceEvents", events_},
                {"displayTimeUnit", "ms"},
                {"otherData", {{"program", "tsc"}, {"device", device}}}}
               .dump() +
           "\n";
  }

private:
  static double rounded(double microseconds) { return std::round(microseconds * 1000) / 1000; }
  void add_name(const char *what, int process, int row, const std::string &name) {
    events_.push_back(
        {{"ph", "M"}, {"name", what}, {"pid", process}, {"tid", row}, {"args", {{"name", name}}}});
  }
  const double start_;
  Json events_ = Json::array();
};

constexpr int kCommand = 1; // its process; the ranks' follow
enum CommandRow : int { stages_row = 1, passes_row = 2, queue_row = 3 };

double start_of(const std::vector<Stage> &stages, const std::vector<driver::PassTime> &passes) {
  double start = std::numeric_limits<double>::infinity();
  for (const Stage &stage : stages)
    start = std::min(start, stage.began_us);
  for (const driver::PassTime &pass : passes)
    start = std::min(start, pass.began_us);
  return std::isfinite(start) ? start : 0;
}

Json arguments_of(const ProfiledStep &step, size_t number, size_t run) {
  Json arguments = {{"step", number}, {"run", run}, {"kind", step.kind}};
  if (!step.kernel.empty())
    arguments["kernel"] = step.kernel;
  if (!step.nodes.empty())
    arguments["nodes"] = support::join(step.nodes, ", ");
  return arguments;
}

void add_runs(Trace &trace, const Profile &profile, size_t rank) {
  const int process = kCommand + 1 + static_cast<int>(rank);
  std::string name = "device: " + profile.device;
  if (profile.by_rank.size() > 1)
    name += ", rank " + std::to_string(rank);
  else if (profile.rank)
    name += ", rank " + std::to_string(*profile.rank);
  trace.name_process(process, name);
  constexpr int kRunsRow = 1; // rows of streams follow
  trace.name_row(process, kRunsRow, "runs");
  int streams = 1;
  for (const ProfiledStep &step : profile.steps)
    streams = std::max(streams, step.stream + 1);
  for (int stream = 0; stream < streams; ++stream)
    trace.name_row(process, kRunsRow + 1 + stream, "stream " + std::to_string(stream));
  const std::vector<RunSpan> &runs = profile.by_rank[rank];
  for (size_t run = 0; run < runs.size(); ++run) {
    trace.add(process, kRunsRow, "run " + std::to_string(run), "run", runs[run].began_us,
              runs[run].took_us);
    if (rank == 0)
      trace.add(kCommand, queue_row, "queue run " + std::to_string(run), "queue",
                runs[run].began_us, runs[run].queued_for_us);
    for (const StepSpan &span : runs[run].steps) {
      const ProfiledStep &step = profile.steps.at(span.step);
      trace.add(process, kRunsRow + 1 + step.stream, step.name, "step", span.began_us, span.took_us,
                arguments_of(step, span.step, run));
      if (rank == 0)
        trace.add(kCommand, queue_row, step.name, "queue", span.queued_us, span.queued_for_us,
                  {{"step", span.step}});
    }
  }
}

} // namespace

double quantile(const std::vector<double> &sorted, double share) {
  const double place = share * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<size_t>(place);
  const size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (sorted[above] - sorted[below]) * (place - static_cast<double>(below));
}

std::vector<ProfiledStep> profiled_steps(const program::Program &program) {
  std::vector<ProfiledStep> steps;
  for (const program::Step &step : program.steps) {
    ProfiledStep &row = steps.emplace_back();
    row.name = step.name;
    row.stream = step.stream;
    row.kind = kKinds[step.kind.index()];
    if (const auto *launch = std::get_if<program::Launch>(&step.kind)) {
      row.kernel = program.kernels[launch->kernel].name;
      row.nodes = program.kernels[launch->kernel].origins;
    }
  }
  return steps;
}

std::vector<ProfiledStep> profiled_operations(const ir::Module &module) {
  std::vector<ProfiledStep> steps;
  for (const ir::Operation &operation : module.operations) {
    ProfiledStep &row = steps.emplace_back();
    row.name = operation.name;
    row.kind = operation.is_loops() ? "loops" : "extern";
    for (const uint32_t origin : operation.origins)
      row.nodes.push_back(module.origins[origin].node);
  }
  return steps;
}

std::string to_chrome_trace(const Profile &profile, const std::vector<Stage> &stages,
                            const std::vector<driver::PassTime> &passes) {
  Trace trace(start_of(stages, passes));
  trace.name_process(kCommand, "tsc (host)");
  trace.name_row(kCommand, stages_row, "command");
  trace.name_row(kCommand, passes_row, "compile passes");
  trace.name_row(kCommand, queue_row, "queueing");
  for (const Stage &stage : stages)
    trace.add(kCommand, stages_row, stage.name, "stage", stage.began_us, 1000 * stage.milliseconds);
  for (const driver::PassTime &pass : passes)
    trace.add(kCommand, passes_row, pass.name, "pass", pass.began_us, 1000 * pass.milliseconds);
  for (size_t rank = 0; rank < profile.by_rank.size(); ++rank)
    add_runs(trace, profile, rank);
  return trace.text(profile.device);
}

void write_trace(const Profile &profile, const std::vector<Stage> &stages,
                 const std::vector<driver::PassTime> &passes) {
  std::ofstream file(profile.file, std::ios::binary);
  file << to_chrome_trace(profile, stages, passes);
  file.close();
  if (!file)
    throw support::UserError(support::ExitCode::usage,
                             {.code = "TSC-C070",
                              .message = "the profile cannot be written",
                              .file = profile.file,
                              .next_step = "name a file in a folder that is there"});
}

nlohmann::json to_json(const Profile &profile) {
  const std::vector<RunSpan> &runs = profile.by_rank.front();
  const auto percentiles = [](const std::vector<double> &sorted) {
    return nlohmann::json{{"p50", quantile(sorted, 0.5)},
                          {"p90", quantile(sorted, 0.9)},
                          {"p99", quantile(sorted, 0.99)}};
  };
  nlohmann::json steps = nlohmann::json::array();
  for (const StepTimes &times : times_of_steps(runs)) {
    const ProfiledStep &step = profile.steps.at(times.step);
    steps.push_back({{"step", times.step},
                     {"name", step.name},
                     {"kind", step.kind},
                     {"kernel", step.kernel},
                     {"stream", step.stream},
                     {"times", times.times},
                     {"us", percentiles(times.microseconds)}});
  }
  return {{"file", profile.file},
          {"runs", runs.size()},
          {"run_us", percentiles(times_of_runs(runs))},
          {"steps", steps}};
}

std::string to_text(const Profile &profile) {
  constexpr size_t kRows = 20;
  const std::vector<RunSpan> &runs = profile.by_rank.front();
  std::vector<StepTimes> steps = times_of_steps(runs);
  std::stable_sort(steps.begin(), steps.end(), [](const StepTimes &a, const StepTimes &b) {
    return quantile(a.microseconds, 0.5) > quantile(b.microseconds, 0.5);
  });
  double sum = 0;
  for (const StepTimes &times : steps)
    sum += quantile(times.microseconds, 0.5);
  const std::vector<double> all = times_of_runs(runs);
  char line[256];
  std::snprintf(line, sizeof line,
                "profile: %zu runs, p50 %.1f us, of which steps %.1f us; trace in %s\n"
                "  p50 us    p90 us    p99 us  share  step\n",
                runs.size(), quantile(all, 0.5), sum, profile.file.c_str());
  std::string text = line;
  for (size_t i = 0; i < std::min(steps.size(), kRows); ++i) {
    const std::vector<double> &times = steps[i].microseconds;
    std::snprintf(line, sizeof line, "%8.2f  %8.2f  %8.2f  %4.1f%%  ", quantile(times, 0.5),
                  quantile(times, 0.9), quantile(times, 0.99),
                  sum > 0 ? 100 * quantile(times, 0.5) / sum : 0.0);
    text += line + profile.steps.at(steps[i].step).name + "\n";
  }
  if (steps.size() > kRows)
    text += "  and " + std::to_string(steps.size() - kRows) + " more (--json has all)\n";
  return text;
}

} // namespace tsc::app
