// Collectives on host memory, made of one thing that a transport can do: every rank gives every
// rank a piece of memory.
#pragma once

#include "engine/communicator.h"

#include <vector>

namespace tsc::ranks {

class Transport {
public:
  struct Piece {
    const void *data = nullptr;
    size_t bytes = 0;
  };
  struct Room {
    void *data = nullptr;
    size_t bytes = 0;
  };
  virtual ~Transport() = default;
  virtual int64_t rank() const = 0;
  virtual int64_t ranks() const = 0;
  /// pieces[r] is copied to rank r, which has room for it in rooms[own rank]; this rank's own piece
  /// too. When it returns, no piece is read any more and all rooms are full. `call` says what it is
  /// for.
  virtual void exchange(const tsc_engine::CollectiveCall &call, const std::vector<Piece> &pieces,
                        const std::vector<Room> &rooms) = 0;
};

/// Reductions are computed as communicator.h says: the same numbers on every transport.
class HostCommunicator final : public tsc_engine::Communicator {
public:
  explicit HostCommunicator(Transport &transport) : transport_(transport) {}
  int64_t rank() const override { return transport_.rank(); }
  int64_t ranks() const override { return transport_.ranks(); }
  void run(const tsc_engine::CollectiveCall &call, const void *from, void *to,
           tsc_engine::Stream stream) override;

private:
  void reduce(const tsc_engine::CollectiveCall &call, const char *from, bool scatter, void *to);
  Transport &transport_;
};

} // namespace tsc::ranks
