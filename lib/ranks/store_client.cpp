#include "ranks/store.h"
#include "ranks/store_words.h"

#include "support/diagnostic.h"

#include <algorithm>
#include <poll.h>

namespace tsc::ranks {
namespace {

constexpr size_t kMostMessage = size_t{64} << 20;
constexpr auto kAnswer = std::chrono::seconds(10); // of a store that is there

std::string where(const Place &place) { return place.address + ":" + std::to_string(place.port); }

[[noreturn]] void refuse(const Place &place, const char *code, const std::string &message,
                         const std::string &next_step) {
  throw support::UserError(support::ExitCode::device,
                           {.code = code,
                            .message = "rank " + std::to_string(place.rank) + ": " + message,
                            .next_step = next_step});
}

/// The next message; nothing if there is none by `deadline`. Throws WireError at the end of the
/// connection.
std::optional<Message> receive(int socket, std::string &bytes, Clock::time_point deadline) {
  for (;;) {
    if (std::optional<Message> message = decode(bytes, kMostMessage))
      return message;
    pollfd ready = {socket, POLLIN, 0};
    if (poll(&ready, 1, milliseconds_until(deadline)) > 0) {
      if (!read_available(socket, bytes)) {
        if (std::optional<Message> last = decode(bytes, kMostMessage))
          return last;
        throw WireError{"the connection ended"};
      }
    } else if (Clock::now() >= deadline) {
      return std::nullopt;
    }
  }
}

support::Descriptor join(const Place &place, const char *purpose, Clock::time_point deadline) {
  support::Descriptor socket;
  std::string why;
  try {
    while (!(socket = connect_to(place.address, place.port, deadline, why))) {
      if (Clock::now() >= deadline)
        refuse(place, "TSC-R045",
               "the store of rank 0 at " + where(place) + " cannot be reached: " + why,
               "start all ranks, and set MASTER_ADDR and MASTER_PORT to where rank 0 runs");
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    std::string bytes;
    encode({words::kHello, words::kVersion, std::to_string(place.rank), std::to_string(place.world),
            purpose},
           bytes);
    if (!send_all(socket.get(), bytes, deadline))
      throw WireError{"it takes no message"};
    std::string answer;
    const std::optional<Message> message =
        receive(socket.get(), answer, std::min(deadline, Clock::now() + kAnswer));
    if (message && message->size() == 3 && (*message)[0] == words::kRefused)
      refuse(place, (*message)[1].c_str(), (*message)[2],
             "give each process a RANK of its own and all the same WORLD_SIZE");
    if (!message || message->size() != 1 || (*message)[0] != words::kOk)
      throw WireError{"it does not answer as one"};
  } catch (const WireError &error) {
    refuse(place, "TSC-R046", "at " + where(place) + " is no store of tsc: " + error.text,
           "set MASTER_PORT (or TSC_STORE_PORT) to a port that nobody else uses");
  }
  return socket;
}

} // namespace

StoreClient::StoreClient(const Place &place, Clock::time_point deadline)
    : socket_(join(place, words::kAsks, deadline)) {}

std::optional<Message> StoreClient::ask(const Message &message, Clock::time_point deadline) {
  try {
    std::string bytes;
    encode(message, bytes);
    if (!send_all(socket_.get(), bytes, deadline))
      return std::nullopt;
    return receive(socket_.get(), bytes_, deadline + kAnswer);
  } catch (const WireError &) {
    return std::nullopt;
  }
}

void StoreClient::set(const std::string &key, const std::string &value) {
  ask({words::kSet, key, value}, Clock::now() + kAnswer);
}

std::optional<std::string> StoreClient::get(const std::string &key, Clock::time_point deadline) {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now());
  const std::optional<Message> answer =
      ask({words::kGet, key, std::to_string(std::max<int64_t>(left.count(), 0))}, deadline);
  if (!answer || answer->size() != 2)
    return std::nullopt;
  return (*answer)[1];
}

void StoreClient::say_goodbye() { ask({words::kGoodbye}, Clock::now()); }

StoreWatch::StoreWatch(const Place &place, Clock::time_point deadline)
    : is_launched_(place.is_launched), socket_(join(place, words::kWatches, deadline)) {}

void StoreWatch::send(const Message &message) {
  std::string bytes;
  encode(message, bytes);
  const std::lock_guard<std::mutex> lock(mutex_);
  send_all(socket_.get(), bytes, Clock::now() + std::chrono::seconds(1));
}
void StoreWatch::tell_progress(uint64_t begun) { send({words::kProgress, std::to_string(begun)}); }
void StoreWatch::tell_failure(const std::string &code, const std::string &text) {
  send({words::kFailure, code, text});
}

std::optional<Failure> StoreWatch::look(std::chrono::milliseconds patience) {
  try {
    const std::optional<Message> message = receive(socket_.get(), bytes_, Clock::now() + patience);
    if (!message || message->size() < 4 || (*message)[0] != words::kFailure)
      return std::nullopt;
    Failure failure{(*message)[1], (*message)[2], std::stoll((*message)[3]), {}};
    for (size_t i = 4; i < message->size(); ++i)
      failure.begun.push_back(std::stoull((*message)[i]));
    return failure;
  } catch (const WireError &) {
    return Failure{"TSC-R040",
                   is_launched_ ? "the process that started the ranks is gone"
                                : "rank 0, which holds the store, is gone",
                   -1,
                   {}};
  }
}

} // namespace tsc::ranks
