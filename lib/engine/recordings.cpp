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

void Recordings::queue(const Entry &entry, Stream stream, Groups *groups) {
  const bool communicates = groups != nullptr && entry.collectives != nullptr;
  if (communicates)
    groups->begin_replay(*entry.collectives, stream);
  entry.work->replay(stream);
  if (communicates)
    groups->end_replay(*entry.collectives, stream);
}

bool Recordings::replay(Device &device, Stream stream, const std::vector<void *> &addresses,
                        Groups *groups) {
  Entry *entry = entries_.empty() || device.is_captured(stream) ? nullptr : find(addresses);
  if (entry == nullptr)
    return false;
  queue(*entry, stream, groups);
  ++replayed_;
  return true;
}

bool Recordings::is_wanted(Device &device, Stream stream, size_t steps, const Groups *groups) {
  if (!is_known_) {
    is_known_ = true;
    return false;
  }
  const bool updates = can_update_ && steps > kFewSteps && groups == nullptr;
  return !is_off_ && (updates || entries_.size() < kMaxEntries) && !device.is_captured(stream);
}

bool Recordings::record(Device &device, Stream stream, const std::vector<void *> &addresses,
                        Groups *groups, const std::function<void(Stream)> &queue_run) {
  std::unique_ptr<Recording> earlier;
  if (entries_.size() == kMaxEntries) {
    earlier = std::move(entries_.front().work);
    entries_.erase(entries_.begin());
  }
  const bool is_update = earlier != nullptr;
  std::unique_ptr<RecordedCollectives> collectives;
  if (groups != nullptr)
    groups->begin_recording();
  std::unique_ptr<Recording> work = device.record_work(
      [&](Stream recorded) {
        queue_run(recorded);
        if (groups != nullptr)
          collectives = groups->end_recording(recorded);
      },
      std::move(earlier));
  if (work == nullptr) {
    if (groups != nullptr)
      groups->give_up_recording();
    if (is_update)
      can_update_ = false;
    else
      is_off_ = true;
    return false;
  }
  entries_.push_back({addresses, std::move(work), std::move(collectives)});
  ++recorded_;
  queue(entries_.back(), stream, groups);
  ++replayed_;
  return true;
}

} // namespace tsc_engine
