#include "run_batch.h"

#include "program_batch.h"

#include "driver/reference.h"
#include "support/diagnostic.h"

#include <map>

namespace tsc::differential {
namespace {

class Batch {
public:
  explicit Batch(const BatchRun &run) : run_(run) {}

  void run() {
    compile();
    for (size_t device = 0; device < run_.devices->size(); ++device)
      if ((*run_.devices)[device].is_reference)
        run_reference(static_cast<int>(device));
      else
        run_sessions(static_cast<int>(device));
  }

private:
  const BatchRun &run_;
  std::map<size_t, CompiledCase> compiled_; // by position in run_.cases

  bool is_done(size_t position, int device) const {
    return run_.done.count({position, device}) != 0;
  }
  Verdict verdict_of(size_t position, int device) const {
    Verdict verdict;
    verdict.case_name = (*run_.cases)[position].name;
    verdict.device = (*run_.devices)[static_cast<size_t>(device)].name;
    return verdict;
  }
  /// All devices that lack a verdict get the one of what was thrown.
  void report_exception(size_t position) const {
    for (size_t device = 0; device < run_.devices->size(); ++device) {
      const int number = static_cast<int>(device);
      if (is_done(position, number))
        continue;
      Verdict verdict = verdict_of(position, number);
      describe_exception(verdict);
      run_.report(position, number, verdict);
    }
  }

  void compile() {
    for (const size_t position : run_.batch) {
      if (is_done(position, kCompiling)) // it did not come back
        continue;
      run_.begin(position, kCompiling);
      try {
        compiled_.emplace(position, compile_case((*run_.cases)[position], run_.compile));
      } catch (const std::exception &) {
        report_exception(position);
      }
    }
  }

  void run_one(size_t position, int device,
               const std::function<std::vector<tensor::HostTensor>(const CompiledCase &)> &body) {
    if (is_done(position, device))
      return;
    run_.begin(position, device);
    Verdict verdict = verdict_of(position, device);
    try {
      CompiledCase &subject = compiled_.at(position);
      judge(subject, body(subject), verdict);
    } catch (const std::exception &) {
      describe_exception(verdict);
      if (verdict.code == kDeviceFailed) // nothing more can be had from it in this process
        throw std::runtime_error(verdict.reason);
    }
    run_.report(position, device, verdict);
  }

  void run_reference(int device) {
    for (const auto &[position, subject] : compiled_)
      run_one(position, device, [](const CompiledCase &one) {
        return driver::run_reference(*one.compilation, one.inputs, one.weights);
      });
  }

  /// The programs are all compiled again where an earlier process died of one, so that the units
  /// are those of the cache.
  void run_sessions(int device) {
    std::vector<size_t> positions;
    std::vector<const program::Program *> programs;
    bool any = false;
    for (const auto &[position, subject] : compiled_) {
      positions.push_back(position);
      programs.push_back(&subject.compilation->program);
      any |= !is_done(position, device);
    }
    if (!any)
      return;
    run_.begin(kWholeBatch, device);
    make_batches(
        programs, (*run_.devices)[static_cast<size_t>(device)].options,
        [&](const ProgramBatch &batch, const std::vector<size_t> &numbers) {
          for (size_t i = 0; i < numbers.size(); ++i)
            run_one(positions[numbers[i]], device, [&](const CompiledCase &one) {
              return batch.session(i, one.weights)->run(one.inputs);
            });
          run_.begin(kWholeBatch, device); // other halves may follow
        },
        [&](size_t number) {
          if (is_done(positions[number], device))
            return;
          Verdict verdict = verdict_of(positions[number], device);
          describe_exception(verdict);
          run_.report(positions[number], device, verdict);
        });
  }
};

} // namespace

TestDevice find_device(const std::string &name, const std::string &cache_folder) {
  TestDevice device;
  device.name = name;
  device.options.cache_folder = cache_folder;
  if (name == "reference") {
    device.is_reference = true;
  } else if (name == "cuda") {
    device.options.device = runtime::DeviceKind::cuda;
  } else if (name == "host-cuda" || name == "host-cuda-reverse") {
    device.options.plan = runtime::Plan::cuda;
    if (name == "host-cuda-reverse")
      device.options.thread_order = runtime::SessionOptions::ThreadOrder::reverse;
  } else if (name != "host") {
    throw std::invalid_argument("no device is called '" + name +
                                "': reference, host, host-cuda, host-cuda-reverse, cuda");
  }
  return device;
}

void run_batch(const BatchRun &run) { Batch(run).run(); }

} // namespace tsc::differential
