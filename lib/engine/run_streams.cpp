#include "engine/run_streams.h"

namespace tsc_engine {

RunStreams::RunStreams(Device &device, const Model &model)
    : device_(device), model_(model), streams_(model.streams, nullptr) {
  if (streams_.size() == 1)
    return;
  try {
    for (size_t i = 1; i < streams_.size(); ++i)
      streams_[i] = device_.make_stream();
    for (size_t i = 0; i < streams_.size(); ++i)
      marks_.push_back(device_.make_event());
    events_.assign(model.is_awaited.size(), nullptr);
    for (size_t step = 0; step < events_.size(); ++step)
      if (model.is_awaited[step])
        events_[step] = device_.make_event();
  } catch (...) {
    release();
    throw;
  }
}

RunStreams::~RunStreams() { release(); }

void RunStreams::release() {
  for (size_t i = 1; i < streams_.size(); ++i)
    device_.release_stream(streams_[i]);
  for (Event event : marks_)
    device_.release_event(event);
  for (size_t step = 0; step < events_.size(); ++step)
    if (model_.is_awaited[step])
      device_.release_event(events_[step]);
}

void RunStreams::begin(Stream stream) {
  streams_[0] = stream;
  if (streams_.size() == 1)
    return;
  device_.record(marks_[0], stream);
  for (size_t i = 1; i < streams_.size(); ++i)
    device_.wait(streams_[i], marks_[0]);
}

void RunStreams::end() {
  for (size_t i = 1; i < streams_.size(); ++i) {
    device_.record(marks_[i], streams_[i]);
    device_.wait(streams_[0], marks_[i]);
  }
}

Stream RunStreams::before(uint32_t step) {
  const Tables &tables = model_.tables;
  const Step &row = tables.steps[step];
  Stream stream = streams_[static_cast<size_t>(row.stream)];
  if (events_.empty())
    return stream;
  for (int32_t i = 0; i < row.waits.count; ++i) {
    const int32_t awaited = tables.waits[static_cast<size_t>(row.waits.first + i)];
    device_.wait(stream, events_[static_cast<size_t>(awaited)]);
  }
  return stream;
}

void RunStreams::after(uint32_t step) {
  if (!events_.empty() && model_.is_awaited[step])
    device_.record(events_[step], streams_[static_cast<size_t>(model_.tables.steps[step].stream)]);
}

} // namespace tsc_engine
