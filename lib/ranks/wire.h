// Sockets, and messages on them: lists of byte strings.
#pragma once

#include "support/private_folder.h"

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tsc::ranks {

using Clock = std::chrono::steady_clock;
using Message = std::vector<std::string>;

/// What went wrong with a socket, in words.
struct WireError {
  std::string text;
};

/// Milliseconds until `deadline` for poll: at least 0, at most a minute.
int milliseconds_until(Clock::time_point deadline);

/// Listens on `port` (0: any that is free) of all addresses, or of this machine's own alone.
/// Throws WireError.
support::Descriptor listen_on(int port, bool only_here);
/// The port that a socket is bound to.
int port_of(int socket);
/// The address of this end of a connection, as digits.
std::string own_address(int socket);
/// A new connection; not one (and why) if it is refused or takes longer than until `deadline`.
/// Throws WireError where the address has no meaning.
support::Descriptor connect_to(const std::string &address, int port, Clock::time_point deadline,
                               std::string &why);
/// One that waits; an empty descriptor if there is none now.
support::Descriptor accept_from(int listener);

/// Appends the message's bytes.
void encode(const Message &message, std::string &bytes);
/// Takes the first message off `bytes`; nothing if it is not whole yet. Throws WireError if it is
/// none, or larger than `most` bytes.
std::optional<Message> decode(std::string &bytes, size_t most);

/// Sends all of it; false if that is not done by `deadline` or the other end is gone.
bool send_all(int socket, const std::string &bytes, Clock::time_point deadline);
/// Reads what is there into `bytes`; false at the end of the connection.
bool read_available(int socket, std::string &bytes);

} // namespace tsc::ranks
