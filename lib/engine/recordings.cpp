#include "engine/recordings.h"

#include <algorithm>

namespace tsc_engine {
namespace {

/// Sets of addresses that are kept: callers with two or three buffers in turn find theirs again.
constexpr size_t kMaxEntries = 4;
/// Recordings in a row that were never used again before it counts as too dear.
constexpr size_t kMaxInVain = 8;

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
  in_vain_ = 0;
  entry->work->replay(stream);
  ++replayed_;
  return true;
}

bool Recordings::is_wanted(Device &device, Stream stream) {
  if (!is_known_) {
    is_known_ = true;
    return false;
  }
  if (is_off_ || device.is_captured(stream))
    return false;
  if (++in_vain_ > kMaxInVain) {
    is_off_ = true;
    entries_.clear();
  }
  return !is_off_;
}

bool Recordings::record(Device &device, Stream stream, const std::vector<void *> &addresses,
                        const std::function<void(Stream)> &queue) {
  std::unique_ptr<Recording> earlier;
  if (entries_.size() == kMaxEntries) {
    earlier = std::move(entries_.front().work);
    entries_.erase(entries_.begin());
  }
  std::unique_ptr<Recording> work = device.record_work(queue, std::move(earlier));
  if (work == nullptr) {
    is_off_ = true;
    entries_.clear();
    return false;
  }
  entries_.push_back({addresses, std::move(work)});
  ++recorded_;
  entries_.back().work->replay(stream);
  ++replayed_;
  return true;
}

} // namespace tsc_engine
