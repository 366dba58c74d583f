#include "run_command.h"

#include "run_batch.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>

namespace tsc::differential {
namespace {

std::vector<CaseSource> sources_of(const RunFlags &flags) {
  std::vector<std::string> folders = flags.folders;
  if (!flags.list.empty()) {
    std::ifstream file(flags.list);
    if (!file)
      throw std::runtime_error("'" + flags.list + "' cannot be read");
    for (std::string line; std::getline(file, line);)
      if (!line.empty())
        folders.push_back(line);
  }
  std::vector<CaseSource> sources;
  for (std::string folder : folders) {
    while (folder.size() > 1 && folder.back() == '/')
      folder.pop_back();
    CaseSource source;
    source.name = source.folder = folder;
    sources.push_back(std::move(source));
  }
  for (const std::string &family : flags.families)
    for (CaseSource &source : recorded_cases(family))
      sources.push_back(std::move(source));
  return sources;
}

/// A run from the parent's side: what is known of every case, and what is left to do.
class Run {
public:
  Run(const RunFlags &flags, std::FILE *out, const std::string &cache_folder)
      : flags_(flags), out_(out), workers_(flags.jobs, flags.limits), cases_(sources_of(flags)) {
    for (const std::string &name : flags.devices)
      devices_.push_back(find_device(name, cache_folder));
  }

  bool run() {
    const auto start = std::chrono::steady_clock::now();
    for (size_t first = 0; first < cases_.size(); first += flags_.batch) {
      std::vector<size_t> batch;
      for (size_t i = first; i < std::min(first + flags_.batch, cases_.size()); ++i)
        batch.push_back(i);
      add(std::move(batch), {});
    }
    workers_.run();
    summarize(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    return all_well_;
  }

private:
  using Done = std::set<std::pair<size_t, int>>;
  /// What a process has done of its batch, by its own word.
  struct Progress {
    std::vector<size_t> batch;
    Done done;
    size_t current_case = kWholeBatch;
    int current_device = kCompiling;
  };

  const RunFlags &flags_;
  std::FILE *out_;
  Workers workers_;
  std::vector<CaseSource> cases_;
  std::vector<TestDevice> devices_;
  std::map<std::pair<std::string, std::string>, size_t> counts_; // device, status
  bool all_well_ = true;

  void record(Progress &progress, size_t position, int device, const Verdict &verdict) {
    progress.done.insert({position, device});
    std::fprintf(out_, "%s\n", to_json(verdict).c_str());
    std::fflush(out_);
    ++counts_[{verdict.device, std::string(to_string(verdict.status))}];
    all_well_ &= verdict.status == Status::agree ||
                 (verdict.status == Status::refused && !flags_.must_agree);
  }

  void add(std::vector<size_t> batch, Done done) {
    const auto progress = std::make_shared<Progress>();
    progress->batch = std::move(batch);
    progress->done = std::move(done);
    Workers::Job job;
    job.body = [this, progress](const std::function<void(std::string_view)> &send) {
      BatchRun run;
      run.cases = &cases_;
      run.devices = &devices_;
      run.compile = flags_.compile;
      run.batch = progress->batch;
      run.done = progress->done;
      run.begin = [&](size_t position, int device) {
        send("b " + std::to_string(position) + " " + std::to_string(device));
      };
      run.report = [&](size_t position, int device, const Verdict &verdict) {
        send("v " + std::to_string(position) + " " + std::to_string(device) + " " +
             to_json(verdict));
      };
      run_batch(run);
    };
    job.receive = [this, progress](std::string_view line) { receive(*progress, line); };
    job.ended = [this, progress](const Death *death) {
      if (death)
        died(*progress, *death);
    };
    job.patience = [progress] { // a compiler that works on a whole batch says nothing meanwhile
      return progress->current_case == kWholeBatch
                 ? 1.0 + static_cast<double>(progress->batch.size()) / 8
                 : 1.0;
    };
    workers_.add(std::move(job));
  }

  void receive(Progress &progress, std::string_view line) {
    const std::string text(line);
    size_t used = 0, more = 0;
    const size_t position = std::stoul(text.substr(2), &used);
    const int device = std::stoi(text.substr(2 + used), &more);
    if (text[0] == 'b') {
      progress.current_case = position;
      progress.current_device = device;
    } else {
      record(progress, position, device, verdict_from_json(text.substr(3 + used + more)));
    }
  }

  /// Blames what was being done, and goes on with the rest in another process.
  void died(Progress &progress, const Death &death) {
    const int device = progress.current_device;
    if (progress.current_case == kWholeBatch && progress.batch.size() > 1) {
      const auto half =
          progress.batch.begin() + static_cast<std::ptrdiff_t>(progress.batch.size() / 2);
      add({half, progress.batch.end()}, progress.done);
      add({progress.batch.begin(), half}, progress.done);
      return;
    }
    const size_t blamed =
        progress.current_case == kWholeBatch ? progress.batch[0] : progress.current_case;
    if (device == kCompiling)
      progress.done.insert({blamed, kCompiling});
    for (int i = 0; i < static_cast<int>(devices_.size()); ++i) {
      if ((device != kCompiling && device != i) || progress.done.count({blamed, i}))
        continue;
      Verdict verdict;
      verdict.case_name = cases_[blamed].name;
      verdict.device = devices_[static_cast<size_t>(i)].name;
      verdict.status = death.timed_out ? Status::hang : Status::crash;
      verdict.reason = (device == kCompiling ? "while compiling: " : "") + death.reason;
      record(progress, blamed, i, verdict);
    }
    for (const size_t position : progress.batch)
      for (int i = 0; i < static_cast<int>(devices_.size()); ++i)
        if (!progress.done.count({position, i}))
          return add(progress.batch, progress.done);
  }

  void summarize(double seconds) const {
    std::fprintf(stderr, "%zu cases in %.1f s, %.1f a second\n", cases_.size(), seconds,
                 static_cast<double>(cases_.size()) / seconds);
    for (const TestDevice &device : devices_) {
      std::fprintf(stderr, "%s:", device.name.c_str());
      for (const auto &[key, count] : counts_)
        if (key.first == device.name)
          std::fprintf(stderr, " %zu %s", count, key.second.c_str());
      std::fprintf(stderr, "\n");
    }
  }
};

} // namespace

bool run_cases(const RunFlags &flags, std::FILE *out) {
  std::string cache = (std::filesystem::temp_directory_path() / "tsc-differential-XXXXXX").string();
  if (!mkdtemp(cache.data()))
    throw std::runtime_error("no temporary folder can be made");
  bool all_well = false;
  try {
    all_well = Run(flags, out, cache).run();
  } catch (...) {
    std::filesystem::remove_all(cache);
    throw;
  }
  std::filesystem::remove_all(cache);
  return all_well;
}

} // namespace tsc::differential
