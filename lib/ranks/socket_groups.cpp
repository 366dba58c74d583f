#include "ranks/socket_groups.h"

#include "ranks/fault.h"
#include "ranks/host_communicator.h"
#include "support/hash.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <deque>
#include <poll.h>
#include <random>
#include <sys/socket.h>

namespace tsc::ranks {

namespace {

using tsc_engine::CollectiveCall;

/// In front of what one rank sends another.
struct Header {
  uint64_t number = 0; // of the collective, of all groups
  uint64_t what = 0;   // a hash of the group and of what it does
  uint64_t bytes = 0;
};

/// Connections to all other ranks, by rank.
class Mesh {
public:
  explicit Mesh(World &world) : world_(world), sockets_(static_cast<size_t>(world.size())) {
    const support::Descriptor listener = listen_on(0, false);
    const std::string own =
        world.store().own_address() + ":" + std::to_string(port_of(listener.get()));
    const std::vector<std::string> addresses = world.exchange("address", own + " " + token());
    const std::string key = addresses[0].substr(addresses[0].find(' ') + 1);
    const auto deadline =
        Clock::now() + std::chrono::duration_cast<Clock::duration>(
                           std::chrono::duration<double>(world.timeout_seconds()));
    for (int64_t other = 0; other < world.rank(); ++other)
      sockets_[static_cast<size_t>(other)] =
          connect(addresses[static_cast<size_t>(other)], key, deadline);
    for (int64_t left = world.size() - 1 - world.rank(); left > 0;)
      left -= accept(listener.get(), key, deadline) ? 1 : 0;
    world.exchange("connected", ""); // nothing follows a greeting before it was read
  }
  int socket(int64_t rank) const { return sockets_[static_cast<size_t>(rank)].get(); }

private:
  /// Rank 0's is known to all ranks and to nobody else who may connect.
  static std::string token() {
    std::random_device device;
    return std::to_string(device()) + std::to_string(device());
  }

  support::Descriptor connect(const std::string &address, const std::string &key,
                              Clock::time_point deadline) {
    const size_t colon = address.find(':');
    std::string why, bytes;
    try {
      support::Descriptor socket =
          connect_to(address.substr(0, colon), std::stoi(address.substr(colon + 1)), deadline, why);
      encode({key, std::to_string(world_.rank())}, bytes);
      if (socket && send_all(socket.get(), bytes, deadline))
        return socket;
    } catch (const WireError &error) {
      why = error.text;
    }
    world_.fail("TSC-R040",
                "rank at " + address.substr(0, address.find(' ')) + " cannot be reached: " + why);
    world_.throw_failure();
  }

  /// Whether a rank has come.
  bool accept(int listener, const std::string &key, Clock::time_point deadline) {
    world_.check();
    if (Clock::now() > deadline) {
      world_.fail("TSC-R045", "not all ranks have connected within the time");
      world_.throw_failure();
    }
    pollfd ready = {listener, POLLIN, 0};
    poll(&ready, 1, 50);
    support::Descriptor socket = accept_from(listener);
    if (!socket)
      return false;
    std::string bytes;
    pollfd greeting = {socket.get(), POLLIN, 0};
    while (poll(&greeting, 1, 5000) > 0 && read_available(socket.get(), bytes)) {
      try {
        if (const std::optional<Message> message = decode(bytes, 1024)) {
          const int64_t rank = message->size() == 2 && (*message)[0] == key
                                   ? std::stoll((*message)[1])
                                   : world_.size();
          if (rank >= world_.size())
            return false;
          sockets_[static_cast<size_t>(rank)] = std::move(socket);
          return true;
        }
      } catch (const std::exception &) { // a stranger
        return false;
      } catch (const WireError &) {
        return false;
      }
    }
    return false;
  }

  World &world_;
  std::vector<support::Descriptor> sockets_;
};

/// What goes to one rank and comes from it in one collective.
struct Traffic {
  int64_t rank = 0; // of the world
  int socket = -1;
  Header out, in;
  Transport::Piece piece;
  Transport::Room room;
  size_t sent = 0, received = 0; // headers included
  bool is_sent() const { return sent == sizeof out + piece.bytes; }
  bool is_received() const { return received == sizeof in + room.bytes; }
};

class SocketTransport final : public Transport {
public:
  SocketTransport(World &world, const Mesh &mesh, std::string name, std::vector<int64_t> members)
      : world_(world), mesh_(mesh), name_(std::move(name)), members_(std::move(members)),
        rank_(std::find(members_.begin(), members_.end(), world.rank()) - members_.begin()) {}
  int64_t rank() const override { return rank_; }
  int64_t ranks() const override { return static_cast<int64_t>(members_.size()); }

  void exchange(const CollectiveCall &call, const std::vector<Piece> &pieces,
                const std::vector<Room> &rooms) override {
    meet_fault(world_.rank(), world_.begun() + 1, FaultPoint::before);
    world_.begin(call.step, call.node);
    const Piece &own = pieces[static_cast<size_t>(rank_)];
    const Room &room = rooms[static_cast<size_t>(rank_)];
    if (own.bytes != room.bytes)
      disagree(world_.rank(), own.bytes, room.bytes);
    if (own.bytes > 0)
      std::memcpy(room.data, own.data, own.bytes);
    std::vector<Traffic> traffic = make_traffic(call, pieces, rooms);
    move_all(traffic);
    world_.end();
    meet_fault(world_.rank(), world_.begun(), FaultPoint::after);
  }

private:
  std::vector<Traffic> make_traffic(const CollectiveCall &call, const std::vector<Piece> &pieces,
                                    const std::vector<Room> &rooms) const {
    std::string what = name_;
    for (const int64_t value :
         {static_cast<int64_t>(call.kind), static_cast<int64_t>(call.reduction),
          static_cast<int64_t>(call.dtype), call.root})
      what += ' ' + std::to_string(value);
    std::vector<Traffic> traffic;
    for (size_t i = 0; i < members_.size(); ++i) {
      if (members_[i] == world_.rank())
        continue;
      Traffic one;
      one.rank = members_[i];
      one.socket = mesh_.socket(one.rank);
      one.out = {world_.begun(), support::hash_bytes(what), pieces[i].bytes};
      one.piece = pieces[i];
      one.room = rooms[i];
      traffic.push_back(one);
    }
    return traffic;
  }

  void move_all(std::vector<Traffic> &traffic) {
    const auto start = Clock::now();
    bool has_met_fault = false;
    for (;;) {
      std::vector<pollfd> ready;
      for (Traffic &one : traffic) {
        const bool is_open = move(one);
        if (!is_open)
          lose(one.rank);
        const int events = (one.is_sent() ? 0 : POLLOUT) | (one.is_received() ? 0 : POLLIN);
        if (events != 0)
          ready.push_back({one.socket, static_cast<short>(events), 0});
      }
      if (!has_met_fault)
        meet_fault(world_.rank(), world_.begun(), FaultPoint::within);
      has_met_fault = true;
      if (ready.empty())
        return;
      world_.check();
      if (std::chrono::duration<double>(Clock::now() - start).count() > world_.timeout_seconds())
        give_up(traffic);
      poll(ready.data(), ready.size(), 50);
    }
  }

  /// As much as goes now; false if the other end is gone.
  bool move(Traffic &one) {
    return (one.is_sent() || push(one)) && (one.is_received() || pull(one));
  }

  static bool push(Traffic &one) {
    while (!one.is_sent()) {
      const bool is_header = one.sent < sizeof one.out;
      const char *from =
          is_header ? reinterpret_cast<const char *>(&one.out) + one.sent
                    : static_cast<const char *>(one.piece.data) + one.sent - sizeof one.out;
      const size_t left =
          is_header ? sizeof one.out - one.sent : sizeof one.out + one.piece.bytes - one.sent;
      const ssize_t count = send(one.socket, from, left, MSG_NOSIGNAL);
      if (count < 0)
        return errno == EAGAIN || errno == EINTR;
      one.sent += static_cast<size_t>(count);
    }
    return true;
  }

  bool pull(Traffic &one) {
    while (!one.is_received()) {
      const bool is_header = one.received < sizeof one.in;
      char *to = is_header ? reinterpret_cast<char *>(&one.in) + one.received
                           : static_cast<char *>(one.room.data) + one.received - sizeof one.in;
      const size_t left =
          is_header ? sizeof one.in - one.received : sizeof one.in + one.room.bytes - one.received;
      const ssize_t count = recv(one.socket, to, left, 0);
      if (count == 0)
        return false;
      if (count < 0)
        return errno == EAGAIN || errno == EINTR;
      one.received += static_cast<size_t>(count);
      if (is_header && one.received == sizeof one.in)
        check(one);
    }
    return true;
  }

  void check(const Traffic &one) {
    if (one.in.number != one.out.number || one.in.what != one.out.what) {
      world_.fail("TSC-R052", "ranks " + std::to_string(world_.rank()) + " and " +
                                  std::to_string(one.rank) + " do different things in collective " +
                                  std::to_string(world_.begun()));
      world_.throw_failure();
    }
    if (one.in.bytes != one.room.bytes)
      disagree(one.rank, one.in.bytes, one.room.bytes);
  }

  [[noreturn]] void disagree(int64_t rank, size_t given, size_t room) {
    world_.fail("TSC-R052", "rank " + std::to_string(rank) + " gives " + std::to_string(given) +
                                " bytes to rank " + std::to_string(world_.rank()) +
                                ", which has room for " + std::to_string(room));
    world_.throw_failure();
  }

  [[noreturn]] void lose(int64_t rank) {
    // Whoever noticed that it is gone knows more; the store has noticed it, or soon will.
    for (int i = 0; i < 100 && !world_.has_failed(); ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    world_.fail("TSC-R040", "rank " + std::to_string(rank) + " has closed its connection");
    world_.throw_failure();
  }

  [[noreturn]] void give_up(const std::vector<Traffic> &traffic) {
    std::string missing;
    for (const Traffic &one : traffic)
      if (!one.is_received())
        missing += (missing.empty() ? "" : ", ") + std::to_string(one.rank);
    char seconds[32];
    std::snprintf(seconds, sizeof seconds, "%g", world_.timeout_seconds());
    world_.fail("TSC-R041", std::string("a collective has not ended within ") + seconds +
                                " s: rank " + std::to_string(world_.rank()) + " waits for " +
                                (missing.empty() ? "its data to be taken" : missing));
    world_.throw_failure();
  }

  World &world_;
  const Mesh &mesh_;
  const std::string name_;
  const std::vector<int64_t> members_;
  const int64_t rank_;
};

class SocketGroups final : public tsc_engine::Groups {
public:
  SocketGroups(World &world, const GroupTable &table) : world_(world), mesh_(world) {
    add(table, "");
    for (const auto &entry : table.groups)
      add(table, entry.first);
  }
  tsc_engine::Communicator *find(const char *name) override {
    const auto found = groups_.find(name);
    return &(found == groups_.end() ? groups_.at("") : found->second)->communicator;
  }
  void check() override { world_.check(); }

private:
  struct Group {
    Group(World &world, const Mesh &mesh, const std::string &name, std::vector<int64_t> members)
        : transport(world, mesh, name, std::move(members)), communicator(transport) {}
    SocketTransport transport;
    HostCommunicator communicator;
  };
  void add(const GroupTable &table, const std::string &name) {
    groups_.emplace(
        name, std::make_unique<Group>(world_, mesh_, name, table.members(name, world_.rank())));
  }

  World &world_;
  const Mesh mesh_;
  std::map<std::string, std::unique_ptr<Group>> groups_;
};

} // namespace

std::unique_ptr<tsc_engine::Groups> make_socket_groups(World &world, const GroupTable &table) {
  return std::make_unique<SocketGroups>(world, table);
}

} // namespace tsc::ranks
