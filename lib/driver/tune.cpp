#include "driver/tune.h"

#include "codegen/generate.h"
#include "support/diagnostic.h"

#include <algorithm>
#include <map>

namespace tsc::driver {
namespace {

using codegen::PlanChoice;
using codegen::Tuning;

constexpr double kFaster = 0.98; // of the planner's time

class Tuner {
public:
  Tuner(const Compilation &compilation, const target::Target &target, const TuneOptions &options)
      : compilation_(compilation), target_(target), options_(options) {}

  Lock run() {
    find_kernels();
    for (size_t i = 0; i < rounds_; ++i) {
      Tuning tuning;
      for (const Kernel &kernel : kernels_)
        if (i < kernel.alternatives.size())
          tuning.chosen[kernel.row.key] = kernel.alternatives[i];
      const std::map<std::string, double> times = time(tuning);
      for (Kernel &kernel : kernels_) {
        const auto found = times.find(kernel.row.key);
        if (i >= kernel.alternatives.size() || found == times.end())
          continue;
        kernel.row.tried.emplace_back(kernel.alternatives[i], found->second);
        if (found->second < kernel.row.expected_nanoseconds) {
          kernel.row.expected_nanoseconds = found->second;
          kernel.row.choice = kernel.alternatives[i];
        }
      }
    }
    confirm();
    Lock lock;
    for (Kernel &kernel : kernels_)
      lock.kernels.push_back(std::move(kernel.row));
    return lock;
  }

private:
  struct Kernel {
    LockedKernel row;
    std::vector<PlanChoice> alternatives;
  };
  const Compilation &compilation_;
  const target::Target &target_;
  const TuneOptions &options_;
  std::vector<Kernel> kernels_;
  size_t rounds_ = 0, done_ = 0;

  /// Kernels as planned, with their times.
  void find_kernels() {
    Tuning planned;
    const program::Program program =
        codegen::generate(compilation_.module, compilation_.schedule, {&target_, &planned});
    for (const codegen::TunableKernel &tunable : planned.kernels)
      rounds_ = std::max(rounds_, tunable.alternatives.size());
    const std::map<std::string, double> times = time_program(program, planned);
    for (codegen::TunableKernel &tunable : planned.kernels) {
      const auto found = times.find(tunable.key);
      Kernel kernel;
      kernel.row.key = tunable.key;
      kernel.row.kernel = program.kernels[tunable.kernel].name;
      kernel.row.plan = program.kernels[tunable.kernel].plan;
      if (found != times.end()) {
        kernel.row.planned_nanoseconds = kernel.row.expected_nanoseconds = found->second;
        kernel.alternatives = std::move(tunable.alternatives);
      }
      kernels_.push_back(std::move(kernel));
    }
  }

  /// The planner's and the fastest once more; only what is faster again stays.
  void confirm() {
    const std::map<std::string, double> planned = time(Tuning());
    Tuning tuning;
    for (const Kernel &kernel : kernels_)
      if (!kernel.row.choice.is_planned())
        tuning.chosen[kernel.row.key] = kernel.row.choice;
    const std::map<std::string, double> fastest =
        tuning.chosen.empty() ? planned : time(std::move(tuning));
    for (Kernel &kernel : kernels_) {
      if (kernel.alternatives.empty())
        continue;
      LockedKernel &row = kernel.row;
      const double first = row.planned_nanoseconds, again = planned.at(row.key),
                   chosen = fastest.at(row.key);
      row.planned_nanoseconds = std::min(first, again);
      if (std::max(row.expected_nanoseconds, chosen) > kFaster * row.planned_nanoseconds) {
        row.choice = {};
        row.expected_nanoseconds = row.planned_nanoseconds;
      } else {
        row.expected_nanoseconds = chosen;
      }
    }
  }

  std::map<std::string, double> time(Tuning tuning) {
    const program::Program program =
        codegen::generate(compilation_.module, compilation_.schedule, {&target_, &tuning});
    return time_program(program, tuning);
  }
  /// By key: nanoseconds of a launch, on average.
  std::map<std::string, double> time_program(const program::Program &program,
                                             const Tuning &tuning) {
    if (options_.progress)
      options_.progress(++done_, rounds_ + 3);
    const std::vector<double> steps = options_.time_steps(program);
    support::require(steps.size() == program.steps.size(), "tune", "a step has no time");
    std::vector<double> sums(program.kernels.size(), 0);
    std::vector<int> counts(program.kernels.size(), 0);
    for (size_t i = 0; i < steps.size(); ++i)
      if (const auto *launch = std::get_if<program::Launch>(&program.steps[i].kind);
          launch && steps[i] > 0) {
        sums[launch->kernel] += steps[i];
        ++counts[launch->kernel];
      }
    std::map<std::string, double> times;
    for (const codegen::TunableKernel &kernel : tuning.kernels)
      if (counts[kernel.kernel] > 0)
        times[kernel.key] = sums[kernel.kernel] / counts[kernel.kernel];
    return times;
  }
};

} // namespace

Lock tune(const Compilation &compilation, const target::Target &target,
          const TuneOptions &options) {
  return Tuner(compilation, target, options).run();
}

} // namespace tsc::driver
