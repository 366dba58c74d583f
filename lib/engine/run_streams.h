// The streams of a run: the caller's, and those beside it that a program's steps name.
#pragma once

#include "engine/engine.h"

#include <vector>

namespace tsc_engine {

/// What one instance needs to run steps on several streams: the streams beside the caller's, and an
/// event for each step that another waits for. Used by one thread at a time.
class RunStreams {
public:
  /// Makes nothing for a program of one stream.
  RunStreams(Device &device, const Model &model);
  ~RunStreams();
  RunStreams(const RunStreams &) = delete;
  RunStreams &operator=(const RunStreams &) = delete;

  /// The other streams go on when what is queued on `stream` is done.
  void begin(Stream stream);
  /// What `stream` gets next waits for all the others.
  void end();
  /// The stream of a step, which has waited for what the step waits for.
  Stream before(uint32_t step);
  /// Behind a step's work: whoever waits for the step waits for that.
  void after(uint32_t step);

private:
  void release();

  Device &device_;
  const Model &model_;          // outlives this
  std::vector<Stream> streams_; // the first is the caller's
  std::vector<Event> marks_;    // by stream: where the run begins (the first), where it ends
  std::vector<Event> events_;   // by step, of those that others wait for; empty for one stream
};

} // namespace tsc_engine
