#include "engine/stream_order.h"

#include <algorithm>

namespace tsc_engine {

StreamOrder::Clock StreamOrder::clock(size_t stream, const int32_t *waits, size_t count) const {
  Clock result = heads_[stream];
  for (size_t i = 0; i < count; ++i) {
    const auto step = static_cast<size_t>(waits[i]);
    const Entry &awaited = steps_[step];
    for (size_t other = 0; other < streams_; ++other)
      result[other] = std::max(result[other], awaited.done[other]);
    result[awaited.stream] = std::max(result[awaited.stream], static_cast<uint32_t>(step + 1));
  }
  return result;
}

void StreamOrder::add(size_t stream, const int32_t *waits, size_t count) {
  steps_.push_back({stream, clock(stream, waits, count)});
  heads_[stream] = steps_.back().done;
  heads_[stream][stream] = static_cast<uint32_t>(steps_.size());
}

void StreamOrder::end_conditional() {
  heads_[0] = std::move(saved_.back());
  saved_.pop_back();
  heads_[0][0] = static_cast<uint32_t>(steps_.size());
}

std::vector<uint32_t> StreamOrder::last_beside() const {
  const size_t count = steps_.size();
  std::vector<uint32_t> result(count);
  for (uint32_t i = 0; i < count; ++i)
    result[i] = i;
  for (size_t from = 0; from < streams_; ++from)
    for (size_t to = 0; to < streams_; ++to) {
      if (from == to)
        continue;
      // The last step of stream `to` that knows no more than so many steps of `from` to be done.
      std::vector<uint32_t> last(count + 1, 0);
      for (uint32_t i = 0; i < count; ++i)
        if (steps_[i].stream == to)
          last[steps_[i].done[from]] = i;
      uint32_t latest = 0;
      for (uint32_t i = 0; i < count; ++i) {
        latest = std::max(latest, last[i]);
        if (steps_[i].stream == from)
          result[i] = std::max(result[i], latest);
      }
    }
  return result;
}

} // namespace tsc_engine
