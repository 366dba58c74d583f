#include "runtime/local_ranks.h"

#include "support/diagnostic.h"
#include "tensor/host_tensor.h"

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>

namespace tsc::runtime {

namespace {

using tensor::HostTensor;
using tsc_engine::DType;
using tsc_engine::Reduction;

/// Another rank failed: this one only stops.
struct Abandoned {};

/// Where the ranks meet: each lays down an address, and waits until all have.
class Meeting {
public:
  explicit Meeting(int64_t ranks) : addresses_(static_cast<size_t>(ranks), nullptr) {}

  /// Every rank's address, in order; valid until the rank calls `leave`.
  const std::vector<const std::byte *> &enter(int64_t rank, const void *address) {
    addresses_[static_cast<size_t>(rank)] = static_cast<const std::byte *>(address);
    wait_for_all();
    return addresses_;
  }
  /// Memory that was laid down may change afterwards.
  void leave() { wait_for_all(); }

  void abandon() {
    const std::lock_guard<std::mutex> lock(mutex_);
    abandoned_ = true;
    all_here_.notify_all();
  }

private:
  std::vector<const std::byte *> addresses_;
  std::mutex mutex_;
  std::condition_variable all_here_;
  size_t here_ = 0;
  uint64_t round_ = 0;
  bool abandoned_ = false;

  void wait_for_all() {
    std::unique_lock<std::mutex> lock(mutex_);
    if (abandoned_)
      throw Abandoned{};
    const uint64_t round = round_;
    if (++here_ == addresses_.size()) {
      here_ = 0;
      ++round_;
      all_here_.notify_all();
      return;
    }
    all_here_.wait(lock, [&] { return round_ != round || abandoned_; });
    if (round_ == round)
      throw Abandoned{};
  }
};

template <class Sum> Sum combine(Sum a, Sum b, Reduction reduction) {
  if (reduction != Reduction::maximum)
    return a + b;
  return a > b || a != a ? a : b; // NaN stays
}

/// One value of each rank, in the order of ranks, reduced.
template <class Sum, class Load>
Sum reduced(const std::vector<HostTensor> &ranks, Reduction reduction, const Load &load) {
  Sum result = static_cast<Sum>(load(ranks[0]));
  for (size_t r = 1; r < ranks.size(); ++r)
    result = combine(result, static_cast<Sum>(load(ranks[r])), reduction);
  return reduction == Reduction::average ? result / static_cast<Sum>(ranks.size()) : result;
}

class LocalRank final : public tsc_engine::Communicator {
public:
  LocalRank(Meeting &meeting, int64_t rank, int64_t ranks)
      : meeting_(meeting), rank_(rank), ranks_(ranks) {}

  int64_t rank() const override { return rank_; }
  int64_t ranks() const override { return ranks_; }

  void all_gather(const void *from, void *to, size_t bytes, tsc_engine::Stream) override {
    const std::vector<const std::byte *> &all = meeting_.enter(rank_, from);
    for (size_t r = 0; r < all.size() && bytes > 0; ++r)
      std::memcpy(static_cast<std::byte *>(to) + r * bytes, all[r], bytes);
    meeting_.leave();
  }

  void reduce_scatter(const void *from, void *to, int64_t count, DType dtype, Reduction reduction,
                      tsc_engine::Stream) override {
    const std::vector<const std::byte *> &all = meeting_.enter(rank_, from);
    std::vector<HostTensor> given;
    given.reserve(all.size());
    for (const std::byte *data : all)
      given.push_back(view_of(const_cast<std::byte *>(data), dtype, count * ranks_));
    HostTensor result = view_of(static_cast<std::byte *>(to), dtype, count);
    for (int64_t i = 0; i < count; ++i)
      reduce_element(given, rank_ * count + i, result, i, reduction);
    meeting_.leave();
  }

private:
  Meeting &meeting_;
  int64_t rank_, ranks_;

  static HostTensor view_of(std::byte *data, DType dtype, int64_t count) {
    return {static_cast<tensor::DType>(dtype), {count}, {1}, nullptr, data, true};
  }

  static void reduce_element(const std::vector<HostTensor> &given, int64_t position,
                             HostTensor &result, int64_t into, Reduction reduction) {
    const auto real = [&](const HostTensor &rank) { return rank.get_double(position); };
    const auto integer = [&](const HostTensor &rank) { return rank.get_int64(position); };
    if (!tensor::is_floating(result.dtype()))
      result.set_int64(into, reduced<int64_t>(given, reduction, integer));
    else if (result.dtype() == tensor::DType::f64)
      result.set_double(into, reduced<double>(given, reduction, real));
    else
      result.set_double(into, reduced<float>(given, reduction, real));
  }
};

} // namespace

void run_local_ranks(int64_t ranks,
                     const std::function<void(int64_t, tsc_engine::Communicator &)> &body) {
  Meeting meeting(ranks);
  std::vector<std::exception_ptr> failures(static_cast<size_t>(ranks));
  std::vector<std::thread> threads;
  const auto run_rank = [&](int64_t rank) {
    LocalRank own(meeting, rank, ranks);
    try {
      body(rank, own);
    } catch (const Abandoned &) {
    } catch (...) {
      failures[static_cast<size_t>(rank)] = std::current_exception();
      meeting.abandon();
    }
  };
  try {
    threads.reserve(static_cast<size_t>(ranks));
    for (int64_t rank = 0; rank < ranks; ++rank)
      threads.emplace_back(run_rank, rank);
  } catch (const std::system_error &error) {
    meeting.abandon();
    failures[threads.size()] = std::make_exception_ptr(support::UserError(
        support::ExitCode::device,
        {.code = "TSC-R018",
         .message = "only " + std::to_string(threads.size()) + " of " + std::to_string(ranks) +
                    " ranks could be started: " + error.code().message(),
         .next_step = "raise the limits on processes and memory, or run fewer ranks"}));
  }
  for (std::thread &thread : threads)
    thread.join();
  for (const std::exception_ptr &failure : failures)
    if (failure)
      std::rethrow_exception(failure);
}

} // namespace tsc::runtime
