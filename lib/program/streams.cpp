#include "program/streams.h"

#include "engine/stream_order.h"

#include <algorithm>
#include <optional>

namespace tsc::program {
namespace {

using support::Diagnostic;
using tsc_engine::StreamOrder;

/// Of a piece of memory, by stream: the last step that read it, the last that wrote it. Steps of
/// one stream are in order: the last stands for all.
struct Accesses {
  std::vector<std::optional<uint32_t>> reads, writes;
  explicit Accesses(size_t streams) : reads(streams), writes(streams) {}
};

/// Walks the steps in order and says with which earlier ones each is in conflict.
class Conflicts {
public:
  explicit Conflicts(const Program &program, size_t streams)
      : program_(program), memory_(program.buffers.size(), Accesses(streams)) {
    for (uint32_t buffer = 0; buffer < program.buffers.size(); ++buffer) {
      roots_.push_back(buffer);
      while (program.buffers[roots_.back()].alias_of >= 0)
        roots_.back() = static_cast<uint32_t>(program.buffers[roots_.back()].alias_of);
    }
  }

  struct Conflict {
    uint32_t step = 0, buffer = 0;
  };
  /// Of step number `position`, latest step first; then notes what it touches itself.
  std::vector<Conflict> next(uint32_t position) {
    const Step &step = program_.steps[position];
    std::vector<Conflict> found;
    if (step.once) // before all runs
      return found;
    const auto stream = static_cast<size_t>(step.stream);
    const auto add = [&](const std::vector<std::optional<uint32_t>> &steps, uint32_t buffer) {
      for (size_t other = 0; other < steps.size(); ++other)
        if (other != stream && steps[other])
          found.push_back({*steps[other], buffer});
    };
    const std::vector<uint32_t> read = reads(program_, step), written = writes(program_, step);
    for (const uint32_t buffer : read)
      if (counts(buffer))
        add(at(buffer).writes, buffer);
    for (const uint32_t buffer : written)
      if (counts(buffer)) {
        add(at(buffer).writes, buffer);
        add(at(buffer).reads, buffer);
      }
    for (const uint32_t buffer : read)
      at(buffer).reads[stream] = position;
    for (const uint32_t buffer : written)
      at(buffer).writes[stream] = position;
    std::stable_sort(found.begin(), found.end(),
                     [](const Conflict &a, const Conflict &b) { return a.step > b.step; });
    return found;
  }

private:
  const Program &program_;
  std::vector<uint32_t> roots_;
  std::vector<Accesses> memory_; // by root

  Accesses &at(uint32_t buffer) { return memory_[roots_[buffer]]; }
  /// Failures are noted by atomic operations: any order will do.
  bool counts(uint32_t buffer) const { return program_.buffers[buffer].role != Role::failure; }
};

std::vector<int32_t> signed_waits(const Step &step) {
  return {step.waits.begin(), step.waits.end()};
}

class Check {
public:
  explicit Check(const Program &program)
      : program_(program), depends_(program.steps.size(), false) {}

  std::vector<Diagnostic> run() {
    check_places();
    if (problems_.empty() && count_streams(program_) > 1)
      check_order();
    return std::move(problems_);
  }

private:
  const Program &program_;
  std::vector<bool> depends_; // by step: a condition may leave it out
  std::vector<Diagnostic> problems_;

  void report(size_t step, const std::string &message) {
    problems_.push_back({"TSC-P014", "streams: " + message, "", "/steps/" + std::to_string(step),
                         "", "", "compile the graph again with this version of tsc"});
  }
  static size_t dependents(const Step &step) {
    if (const auto *conditional = std::get_if<Conditional>(&step.kind))
      return size_t(conditional->then_steps) + conditional->else_steps;
    if (const auto *loop = std::get_if<WhileLoop>(&step.kind))
      return size_t(loop->condition_steps) + loop->body_steps;
    return 0;
  }

  void check_places() {
    for (size_t i = 0; i < program_.steps.size(); ++i) {
      const Step &step = program_.steps[i];
      for (size_t k = 0; k < dependents(step); ++k)
        depends_[i + 1 + k] = true;
      if (step.stream < 0 || step.stream >= tsc_engine::kMaxStreams)
        report(i, "there is no stream " + std::to_string(step.stream) + ", but 0 to " +
                      std::to_string(tsc_engine::kMaxStreams - 1));
      else if (step.stream != 0 && (step.once || depends_[i] || decides(step)))
        report(i, "a step that runs once, decides or depends on a condition is of stream 0, this "
                  "one is of " +
                      std::to_string(step.stream));
      for (const uint32_t wait : step.waits)
        if (depends_[wait] || program_.steps[wait].once)
          report(i, "the step waits for step " + std::to_string(wait) +
                        ", which a condition may leave out or which runs once");
    }
  }

  void check_order() {
    StreamOrder order(count_streams(program_));
    Conflicts conflicts(program_, count_streams(program_));
    std::vector<size_t> ends; // of the steps that depend on those around
    for (uint32_t i = 0; i < program_.steps.size(); ++i) {
      for (; !ends.empty() && ends.back() == i; ends.pop_back())
        order.end_conditional();
      const Step &step = program_.steps[i];
      const std::vector<int32_t> waits = signed_waits(step);
      order.add(static_cast<size_t>(step.stream), waits.data(), waits.size());
      for (const Conflicts::Conflict &conflict : conflicts.next(i))
        if (!order.is_before(conflict.step, i))
          report(i, "the step touches buffer \"" + program_.buffers[conflict.buffer].name +
                        "\" and does not wait for step " + std::to_string(conflict.step) +
                        " of stream " + std::to_string(program_.steps[conflict.step].stream) +
                        ", which does so too");
      if (dependents(step) != 0) {
        order.begin_conditional();
        ends.push_back(i + 1 + dependents(step));
      }
    }
  }
};

} // namespace

size_t count_streams(const Program &program) {
  size_t count = 1;
  for (const Step &step : program.steps)
    count = std::max(count, static_cast<size_t>(step.stream) + 1);
  return count;
}

std::vector<Diagnostic> check_streams(const Program &program) { return Check(program).run(); }

void add_waits(Program &program) {
  const size_t streams = count_streams(program);
  StreamOrder order(streams);
  Conflicts conflicts(program, streams);
  std::optional<int32_t> computed; // the last step of stream 0
  for (uint32_t i = 0; i < program.steps.size(); ++i) {
    Step &step = program.steps[i];
    const auto stream = static_cast<size_t>(step.stream);
    std::vector<int32_t> waits;
    if (std::holds_alternative<Collective>(step.kind) && stream != 0 && computed &&
        !order.would_be_before(static_cast<size_t>(*computed), stream, nullptr, 0))
      waits.push_back(*computed);
    // The latest first: it may make the others needless.
    for (const Conflicts::Conflict &conflict : conflicts.next(i))
      if (!order.would_be_before(conflict.step, stream, waits.data(), waits.size()))
        waits.push_back(static_cast<int32_t>(conflict.step));
    step.waits.assign(waits.begin(), waits.end());
    order.add(stream, waits.data(), waits.size());
    if (stream == 0 && !step.once)
      computed = static_cast<int32_t>(i);
  }
}

} // namespace tsc::program
