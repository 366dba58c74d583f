// The test device with real streams: what is queued runs at the next synchronize, in an order that
// events alone limit and that is as far from the order of the calls as it can be.
#pragma once

#include "test_device.h"

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <random>
#include <vector>

namespace tsc_engine {

class StreamDevice final : public TestDevice {
public:
  explicit StreamDevice(unsigned seed) : random_(seed) {}

  Stream make_stream() override { return name(); }
  void release_stream(Stream) override { ++released; }
  Event make_event() override { return name(); }
  void release_event(Event) override { ++released; }
  void record(Event event, Stream stream) override {
    if (note([=, this](const auto &renamed) { record(event, renamed(stream)); }))
      return;
    const uint64_t number = ++recorded_[event];
    queue(stream, [this, event, number] { reached_[event] = number; });
  }
  void wait(Stream stream, Event event) override {
    if (note([=, this](const auto &renamed) { wait(renamed(stream), event); }))
      return;
    const uint64_t number = recorded_[event];
    queues_[stream].push_back({[this, event, number] { return reached_[event] >= number; }, [] {}});
  }
  /// Everything that is queued, whichever stream it is on.
  void synchronize(Stream) override;

  void upload(void *to, const void *from, size_t bytes, Stream stream) override {
    synchronize(stream);
    TestDevice::upload(to, from, bytes, stream);
  }
  void download(void *to, const void *from, size_t bytes, Stream stream) override {
    synchronize(stream);
    TestDevice::download(to, from, bytes, stream);
  }
  void copy(void *to, const void *from, size_t bytes, Stream stream) override {
    queue(stream, [=, this] { TestDevice::copy(to, from, bytes, stream); });
  }
  void fill(void *memory, int byte, size_t bytes, Stream stream) override {
    queue(stream, [=, this] { TestDevice::fill(memory, byte, bytes, stream); });
  }
  void launch(size_t kernel, const LaunchGeometry &geometry, void **arguments,
              Stream stream) override {
    // As CUDA does, takes the arguments' values at the call.
    int64_t values[3];
    for (size_t i = 0; i < 3; ++i)
      values[i] = *static_cast<int64_t *>(arguments[i]);
    queue(stream, [this, kernel, geometry, stream, values] {
      int64_t kept[] = {values[0], values[1], values[2]};
      void *pointers[] = {&kept[0], &kept[1], &kept[2]};
      TestDevice::launch(kernel, geometry, pointers, stream);
    });
  }
  void matmul(size_t plan, const void *a, const void *b, const void *c, void *out, void *scratch,
              Stream stream) override;

  std::unique_ptr<Recording> record_work(const std::function<void(Stream)> &queue,
                                         std::unique_ptr<Recording> earlier) override;
  bool is_captured(Stream stream) override { return stream == captured; }

  Stream captured = &queued_; // a stream that its owner is said to be recording; none at first
  bool can_record = true, can_update = true;
  size_t made = 0, released = 0;                  // streams and events
  size_t recorded = 0, updated = 0, replayed = 0; // recordings
  size_t swaps = 0; // pieces of work that ran before one that was queued earlier

private:
  struct Work {
    std::function<bool()> is_ready;
    std::function<void()> run;
    uint64_t number = 0;
  };
  friend class StreamRecording;
  /// The calls of a recording, to be made again for the stream that replays it.
  using Call = std::function<void(const std::function<Stream(Stream)> &renamed)>;
  bool note(Call call) {
    if (calls_ != nullptr)
      calls_->push_back(std::move(call));
    return calls_ != nullptr;
  }
  void *name() { return reinterpret_cast<void *>(static_cast<uintptr_t>(++made)); }
  void queue(Stream stream, std::function<void()> run) {
    if (note([=, this](const auto &renamed) { queue(renamed(stream), run); }))
      return;
    queues_[stream].push_back({[] { return true; }, std::move(run), ++queued_});
  }

  std::map<Stream, std::deque<Work>> queues_;
  std::map<Event, uint64_t> recorded_, reached_;
  std::mt19937 random_;
  std::vector<Call> *calls_ = nullptr; // where they are recorded, instead of made
  uint64_t queued_ = 0, latest_ = 0;
};

} // namespace tsc_engine
