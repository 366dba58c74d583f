// Which steps of several streams are done when another begins.
//
// Steps of one stream run one after another. A step of another stream is done if the step waits for
// it, or for anything that is behind it on its stream, or if something that is done waits so. All
// streams begin with the run and are done when it ends.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tsc_engine {

/// Streams of a program at most.
inline constexpr int32_t kMaxStreams = 16;

class StreamOrder {
public:
  explicit StreamOrder(size_t streams) : streams_(streams), heads_(streams, Clock(streams, 0)) {}

  /// The next step, in the order of the program. `waits` are earlier steps.
  void add(size_t stream, const int32_t *waits, size_t count);
  /// Around steps that a condition may leave out: nothing behind them may build on what they waited
  /// for. They are of stream 0.
  void begin_conditional() { saved_.push_back(heads_[0]); }
  void end_conditional();

  size_t size() const { return steps_.size(); }
  /// Whether step `first` is done when step `second`, which comes later, begins.
  bool is_before(size_t first, size_t second) const {
    return steps_[second].done[steps_[first].stream] > first;
  }
  /// The same of a step that is yet to come, on `stream` with these waits.
  bool would_be_before(size_t first, size_t stream, const int32_t *waits, size_t count) const {
    return clock(stream, waits, count)[steps_[first].stream] > first;
  }

  /// By step: the last one, itself or a later one, that may begin before it is done. What a step
  /// uses must stay untouched by all steps up to that one.
  std::vector<uint32_t> last_beside() const;

private:
  /// By stream: how many steps of the program, counted from the first, hold no step of that stream
  /// that may still be at work.
  using Clock = std::vector<uint32_t>;
  struct Entry {
    size_t stream = 0;
    Clock done; // when it begins
  };
  Clock clock(size_t stream, const int32_t *waits, size_t count) const;

  size_t streams_;
  std::vector<Entry> steps_;
  std::vector<Clock> heads_; // by stream: what its next step knows to be done
  std::vector<Clock> saved_;
};

} // namespace tsc_engine
