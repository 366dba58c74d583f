#include "stream_device.h"

#include <algorithm>
#include <cstring>
#include <vector>

namespace tsc_engine {

void StreamDevice::synchronize(Stream) {
  for (;;) {
    std::vector<std::deque<Work> *> ready;
    size_t left = 0;
    for (auto &[stream, work] : queues_) {
      left += work.size();
      if (!work.empty() && work.front().is_ready())
        ready.push_back(&work);
    }
    if (left == 0)
      return;
    if (ready.empty())
      throw Error(Status::internal, "the streams wait for each other");
    std::deque<Work> &chosen = *ready[random_() % ready.size()];
    const Work work = std::move(chosen.front());
    chosen.pop_front();
    swaps += work.number != 0 && work.number < latest_;
    latest_ = std::max(latest_, work.number);
    work.run();
  }
}

class StreamRecording final : public Recording {
public:
  StreamRecording(StreamDevice &device, Stream main) : device(device), main(main) {}
  void replay(Stream stream) override {
    ++device.replayed;
    for (const StreamDevice::Call &call : calls)
      call([&](Stream recorded) { return recorded == main ? stream : recorded; });
  }
  StreamDevice &device;
  Stream main;
  std::vector<StreamDevice::Call> calls;
};

std::unique_ptr<Recording> StreamDevice::record_work(const std::function<void(Stream)> &queue,
                                                     std::unique_ptr<Recording> earlier) {
  if (!can_record || (earlier != nullptr && !can_update))
    return nullptr;
  auto recording = std::make_unique<StreamRecording>(*this, &queues_);
  ++recorded;
  updated += earlier != nullptr;
  calls_ = &recording->calls;
  queue(&queues_);
  calls_ = nullptr;
  return recording;
}

void StreamDevice::matmul(size_t plan, const void *a, const void *b, const void *c, void *out,
                          void *scratch, Stream stream) {
  // A product uses its scratch memory for as long as it runs.
  const size_t bytes = matmul_scratch_bytes(plan);
  queue(stream, [=] { std::memset(scratch, static_cast<int>(plan) & 0x7F, bytes); });
  queue(stream, [=, this] {
    for (size_t i = 0; i < bytes; ++i)
      if (static_cast<const unsigned char *>(scratch)[i] != (plan & 0x7F))
        throw Error(Status::internal, "another product uses the scratch memory");
    TestDevice::matmul(plan, a, b, c, out, scratch, stream);
  });
}

} // namespace tsc_engine
