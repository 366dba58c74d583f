#include "engine/recordings.h"

#include <algorithm>

namespace tsc_engine {
namespace {

/// Sets of addresses that are kept: callers with two or three buffers in turn find theirs again.
constexpr size_t kMaxEntries = 4;
/// Steps that are queued one by one sooner than a recording of them is brought up to date: a launch
/// takes 2 microseconds of the host.
constexpr size_t kFewSteps = 4;

} // namespace

Recordings::Entry *Recordings::find(const std::vector<void *> &addresses) {
  const auto found = std::find_if(entries_.begin(), entries_.end(),
                                  [&](const Entry &entry) { return entry.addresses == addresses; });
  if (found == entries_.end())
    return nullptr;
  std::rotate(found, found + 1, entries_.end());
  return &entries_.back();
}

bool Recordings::replay(Device &device, Stream stream, const std::vector<void *> &addresses) {
  Entry *entry = entries_.empty() || device.is_captured(stream) ? nullptr : find(addresses);
  if (entry == nullptr)
    return false;
  entry->work->replay(stream);
  ++replayed_;
  return true;
}

bool Recordings::is_wanted(Device &device, Stream stream, size_t steps) {
  if (!is_known_) {
    is_known_ = true;
    return false;
  }
  return !is_off_ && ((can_update_ && steps > kFewSteps) || entries_.size() < kMaxEntries) &&
         !device.is_captured(stream);
}

bool Recordings::record(Device &device, Stream stream, const std::vector<void *> &addresses,
                        const std::function<void(Stream)> &queue) {
  std::unique_ptr<Recording> earlier;
  if (entries_.size() == kMaxEntries) {
    earlier = std::move(entries_.front().work);
    entries_.erase(entries_.begin());
  }
  const bool is_update = earlier != nullptr;
  std::unique_ptr<Recording> work = device.record_work(queue, std::move(earlier));
  if (work == nullptr) {
    if (is_update)
      can_update_ = false;
    else
      is_off_ = true;
    return false;
  }
  entries_.push_back({addresses, std::move(work)});
  ++recorded_;
  entries_.back().work->replay(stream);
  ++replayed_;
  return true;
}

} // namespace tsc_engine
