// Where steps note what does not hold of data: four int64 words of device memory.
#pragma once

#include "engine/engine.h"

namespace tsc_engine {

/// {number of the first assertion of the graph that failed, number of the first check of a value
/// that failed, that value, the extent that it was held to}: 0 before. The first is the graph's own
/// (an input that it mutates), the others are written by kernels, in one launch by whoever is
/// first.
class FailureWords {
public:
  FailureWords() = default;
  explicit FailureWords(Device &device);
  ~FailureWords();
  FailureWords(FailureWords &&other) noexcept;
  FailureWords &operator=(FailureWords &&other) noexcept;

  char *memory() const { return static_cast<char *>(memory_); } // null: nothing is noted
  /// Waits for the stream; if something was noted since the last check, clears it and throws Error
  /// (assertion).
  void check(const Tables &tables, Stream stream);

private:
  void clear(Stream stream);
  Device *device_ = nullptr;
  void *memory_ = nullptr;
};

/// Whether a check of a value failed, by the words at `memory`. Waits for the stream.
bool is_value_noted(Device &device, const char *memory, Stream stream);

/// "sum must be positive (node _assert_async) in File "m.py", line 3"
std::string describe(const Assertion &assertion);

} // namespace tsc_engine
