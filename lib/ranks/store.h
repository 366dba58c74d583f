// A small store over TCP: how ranks meet before they can communicate, and how all learn that one of
// them failed. Rank 0 holds it, or the launcher. A key is set once and waited for by others.
//
// Each rank has two connections: one that asks and is answered (StoreClient), and one on which it
// says how far it is and is told of a failure (StoreWatch). A rank whose connection ends before it
// said goodbye is lost, which is a failure of all.
#pragma once

#include "ranks/place.h"
#include "ranks/wire.h"

#include <atomic>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace tsc::ranks {

/// The first failure that the store was told of.
struct Failure {
  std::string code, text;
  int64_t rank = -1;           // whose failure it is, or who met it
  std::vector<uint64_t> begun; // by rank: the number of its last collective that has begun
};

class StoreServer {
public:
  struct Options {
    int64_t world = 1;
    /// What is known of how a rank ended, " (signal 9: Killed)"; may be null.
    std::function<std::string(int64_t rank)> describe_loss;
  };
  StoreServer(support::Descriptor listener, Options options);
  /// Waits until all ranks have gone, 5 s at most.
  ~StoreServer();
  StoreServer(const StoreServer &) = delete;
  StoreServer &operator=(const StoreServer &) = delete;

  int port() const { return port_of(listener_.get()); }
  /// Tells all ranks, unless there was a failure before.
  void fail(const Failure &failure);
  bool has_failed() const { return has_failed_; }

private:
  struct Client;
  struct Wait;
  void serve();
  void handle(Client &client, const Message &message);
  void greet(Client &client, const Message &message);
  void reply(Client &client, const Message &message);
  void answer_waits();
  void lose(Client &client);
  void push_failure();
  bool is_over() const;

  const support::Descriptor listener_;
  const Options options_;
  std::vector<std::unique_ptr<Client>> clients_;
  std::vector<Wait> waits_;
  std::map<std::string, std::string> values_;
  std::vector<bool> has_joined_, said_goodbye_;
  std::vector<uint64_t> begun_;
  std::mutex mutex_; // of failure_
  std::optional<Failure> failure_;
  std::optional<Clock::time_point> push_at_; // when progress of all is known
  std::atomic<bool> has_failed_{false}, is_ending_{false};
  Clock::time_point end_;
  std::thread thread_;
};

class StoreClient {
public:
  /// Waits for the store until `deadline`. Errors: UserError (device) TSC-R045 if nobody listens,
  /// TSC-R046 if it is no store, TSC-R047 if the place is taken or the number of ranks another.
  StoreClient(const Place &place, Clock::time_point deadline);

  void set(const std::string &key, const std::string &value);
  /// Nothing if nobody sets it until `deadline`, if some rank fails or the store is gone.
  std::optional<std::string> get(const std::string &key, Clock::time_point deadline);
  /// From now on this process may go.
  void say_goodbye();
  /// How other ranks reach this machine.
  std::string own_address() const { return ranks::own_address(socket_.get()); }

private:
  std::optional<Message> ask(const Message &message, Clock::time_point deadline);
  support::Descriptor socket_;
  std::string bytes_;
};

class StoreWatch {
public:
  /// Errors: as StoreClient.
  StoreWatch(const Place &place, Clock::time_point deadline);
  void tell_progress(uint64_t begun);
  void tell_failure(const std::string &code, const std::string &text);
  /// What the store says within `patience`; a failure of its own if it is gone.
  std::optional<Failure> look(std::chrono::milliseconds patience);

private:
  void send(const Message &message);
  const bool is_launched_; // the store is the launcher's
  std::mutex mutex_;
  support::Descriptor socket_;
  std::string bytes_;
};

} // namespace tsc::ranks
