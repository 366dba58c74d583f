#include "ranks/thread_ranks.h"

#include "ranks/host_communicator.h"
#include "support/diagnostic.h"

#include <condition_variable>
#include <cstring>
#include <deque>
#include <exception>
#include <future>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>

namespace tsc::ranks {

namespace {

using Pieces = std::vector<Transport::Piece>;

/// Another rank failed: this one only stops.
struct Abandoned {};

/// Where the ranks of a group meet: each lays down what it gives, and waits until all have.
class Meeting {
public:
  explicit Meeting(size_t ranks) : pieces_(ranks, nullptr) {}

  /// What every rank gives, in order; valid until the rank calls `leave`.
  const std::vector<const Pieces *> &enter(int64_t rank, const Pieces &pieces) {
    pieces_[static_cast<size_t>(rank)] = &pieces;
    wait_for_all(true);
    return pieces_;
  }
  /// What was laid down may change afterwards. All who entered come here, whatever else happens.
  void leave() { wait_for_all(false); }

  void abandon() {
    const std::lock_guard<std::mutex> lock(mutex_);
    abandoned_ = true;
    all_here_.notify_all();
  }

private:
  std::vector<const Pieces *> pieces_;
  std::mutex mutex_;
  std::condition_variable all_here_;
  size_t here_ = 0;
  uint64_t round_ = 0;
  bool abandoned_ = false;

  void wait_for_all(bool may_stop) {
    std::unique_lock<std::mutex> lock(mutex_);
    if (may_stop && abandoned_)
      throw Abandoned{};
    const uint64_t round = round_;
    if (++here_ == pieces_.size()) {
      here_ = 0;
      ++round_;
      all_here_.notify_all();
      return;
    }
    all_here_.wait(lock, [&] { return round_ != round || (may_stop && abandoned_); });
    if (round_ == round)
      throw Abandoned{};
  }
};

class ThreadTransport final : public Transport {
public:
  ThreadTransport(Meeting &meeting, int64_t rank, int64_t ranks)
      : meeting_(meeting), rank_(rank), ranks_(ranks) {}
  int64_t rank() const override { return rank_; }
  int64_t ranks() const override { return ranks_; }

  void exchange(const tsc_engine::CollectiveCall &call, const Pieces &pieces,
                const std::vector<Room> &rooms) override {
    const std::vector<const Pieces *> &all = meeting_.enter(rank_, pieces);
    std::string misfit; // thrown once nobody reads this rank's pieces any more
    for (size_t r = 0; r < rooms.size(); ++r) {
      const Piece &piece = (*all[r])[static_cast<size_t>(rank_)];
      if (piece.bytes != rooms[r].bytes)
        misfit = "rank " + std::to_string(rank_) + " of the group has room for " +
                 std::to_string(rooms[r].bytes) + " bytes from rank " + std::to_string(r) +
                 ", which gives " + std::to_string(piece.bytes) + ", in step " + call.step;
      else if (piece.bytes > 0)
        std::memcpy(rooms[r].data, piece.data, piece.bytes);
    }
    meeting_.leave();
    if (!misfit.empty())
      throw support::UserError(support::ExitCode::bad_input,
                               {.code = "TSC-R052",
                                .message = misfit,
                                .node = call.node,
                                .next_step = "give the ranks inputs whose parts fit each other"});
  }

private:
  Meeting &meeting_;
  int64_t rank_, ranks_;
};

/// The meetings of all groups: one for each list of ranks of each name, and one for all.
class Meetings {
public:
  explicit Meetings(const GroupTable &table) : table_(table) {
    add("");
    for (const auto &[name, lists] : table.groups)
      add(name);
  }
  Meeting &of(const std::string &name, int64_t rank) {
    return *meetings_.at(name)[static_cast<size_t>(rank)];
  }
  const std::map<std::string, std::vector<Meeting *>> &all() const { return meetings_; }
  const GroupTable &table() const { return table_; }
  void abandon() {
    for (Meeting &meeting : storage_)
      meeting.abandon();
  }

private:
  void add(const std::string &name) {
    std::vector<Meeting *> by_rank(static_cast<size_t>(table_.world), nullptr);
    for (int64_t rank = 0; rank < table_.world; ++rank) {
      if (by_rank[static_cast<size_t>(rank)] != nullptr)
        continue;
      const std::vector<int64_t> members = table_.members(name, rank);
      Meeting &meeting = storage_.emplace_back(members.size());
      for (const int64_t member : members)
        by_rank[static_cast<size_t>(member)] = &meeting;
    }
    meetings_[name] = std::move(by_rank);
  }

  const GroupTable &table_;
  std::deque<Meeting> storage_;
  std::map<std::string, std::vector<Meeting *>> meetings_; // by name, then rank of the world
};

class ThreadGroups final : public tsc_engine::Groups {
public:
  ThreadGroups(Meetings &meetings, int64_t rank) {
    for (const auto &[name, by_rank] : meetings.all()) {
      const std::vector<int64_t> members = meetings.table().members(name, rank);
      int64_t own = 0;
      while (members[static_cast<size_t>(own)] != rank)
        ++own;
      groups_.emplace(name, std::make_unique<Group>(*by_rank[static_cast<size_t>(rank)], own,
                                                    static_cast<int64_t>(members.size())));
    }
  }
  tsc_engine::Communicator *find(const char *name) override {
    const auto found = groups_.find(name);
    return &(found == groups_.end() ? groups_.at("") : found->second)->communicator;
  }

private:
  struct Group {
    Group(Meeting &meeting, int64_t rank, int64_t ranks)
        : transport(meeting, rank, ranks), communicator(transport) {}
    ThreadTransport transport;
    HostCommunicator communicator;
  };
  std::map<std::string, std::unique_ptr<Group>> groups_;
};

} // namespace

void run_ranks_as_threads(const GroupTable &table,
                          const std::function<void(int64_t, tsc_engine::Groups &)> &body) {
  const int64_t ranks = table.world;
  Meetings meetings(table);
  std::vector<std::exception_ptr> failures(static_cast<size_t>(ranks));
  // No rank takes memory before all are started: what the limits leave then decides how many start,
  // not which of them is the first to find none.
  std::promise<bool> all_started;
  const std::shared_future<bool> start = all_started.get_future().share();
  const auto run_rank = [&](int64_t rank) {
    if (!start.get())
      return;
    try {
      ThreadGroups own(meetings, rank);
      body(rank, own);
    } catch (const Abandoned &) {
    } catch (...) {
      failures[static_cast<size_t>(rank)] = std::current_exception();
      meetings.abandon();
    }
  };
  std::vector<std::thread> threads;
  threads.reserve(static_cast<size_t>(ranks));
  std::error_code refusal;
  try {
    for (int64_t rank = 0; rank < ranks; ++rank)
      threads.emplace_back(run_rank, rank);
  } catch (const std::system_error &error) {
    refusal = error.code();
  } catch (const std::bad_alloc &) {
    refusal = std::make_error_code(std::errc::not_enough_memory);
  }
  const size_t started = threads.size();
  all_started.set_value(!refusal);
  for (std::thread &thread : threads)
    thread.join();
  threads.clear();
  if (refusal)
    throw support::UserError(
        support::ExitCode::device,
        {.code = "TSC-R018",
         .message = "only " + std::to_string(started) + " of " + std::to_string(ranks) +
                    " ranks could be started: " + refusal.message(),
         .next_step = "raise the limits on processes and memory, or run fewer ranks"});
  for (const std::exception_ptr &failure : failures)
    if (failure)
      std::rethrow_exception(failure);
}

} // namespace tsc::ranks
