#include "ranks/wire.h"

#include <algorithm>
#include <arpa/inet.h>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <memory>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace tsc::ranks {
namespace {

void prepare(int socket) {
  fcntl(socket, F_SETFL, fcntl(socket, F_GETFL) | O_NONBLOCK);
  const int on = 1;
  setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  // A machine that is gone is noticed within half a minute.
  setsockopt(socket, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  const int seconds = 10, count = 2;
  setsockopt(socket, IPPROTO_TCP, TCP_KEEPIDLE, &seconds, sizeof seconds);
  setsockopt(socket, IPPROTO_TCP, TCP_KEEPINTVL, &seconds, sizeof seconds);
  setsockopt(socket, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof count);
}

void append_number(std::string &bytes, size_t number) {
  const uint32_t order = htonl(static_cast<uint32_t>(number));
  bytes.append(reinterpret_cast<const char *>(&order), sizeof order);
}
size_t number_at(const std::string &bytes, size_t at) {
  uint32_t order = 0;
  std::memcpy(&order, bytes.data() + at, sizeof order);
  return ntohl(order);
}
constexpr size_t kNumber = sizeof(uint32_t);

/// The error of a connection under way, once it is decided.
int result_of_connect(int socket, Clock::time_point deadline) {
  pollfd ready = {socket, POLLOUT, 0};
  if (poll(&ready, 1, milliseconds_until(deadline)) <= 0)
    return ETIMEDOUT;
  int error = 0;
  socklen_t size = sizeof error;
  getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &size);
  return error;
}

} // namespace

int milliseconds_until(Clock::time_point deadline) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
  return static_cast<int>(std::clamp<int64_t>(left.count(), 0, 60'000));
}

support::Descriptor listen_on(int port, bool only_here) {
  support::Descriptor listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!listener)
    throw WireError{std::strerror(errno)};
  const int on = 1;
  setsockopt(listener.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(only_here ? INADDR_LOOPBACK : INADDR_ANY);
  if (bind(listener.get(), reinterpret_cast<sockaddr *>(&address), sizeof address) != 0 ||
      listen(listener.get(), 4096) != 0)
    throw WireError{std::strerror(errno)};
  fcntl(listener.get(), F_SETFL, O_NONBLOCK);
  return listener;
}

int port_of(int socket) {
  sockaddr_in address = {};
  socklen_t size = sizeof address;
  getsockname(socket, reinterpret_cast<sockaddr *>(&address), &size);
  return ntohs(address.sin_port);
}

std::string own_address(int socket) {
  sockaddr_in address = {};
  socklen_t size = sizeof address;
  getsockname(socket, reinterpret_cast<sockaddr *>(&address), &size);
  char text[INET_ADDRSTRLEN] = {};
  inet_ntop(AF_INET, &address.sin_addr, text, sizeof text);
  return text;
}

support::Descriptor connect_to(const std::string &address, int port, Clock::time_point deadline,
                               std::string &why) {
  addrinfo hints = {}, *list = nullptr;
  hints.ai_family = AF_INET;
  hints.ai_socktype = SOCK_STREAM;
  if (const int error = getaddrinfo(address.c_str(), std::to_string(port).c_str(), &hints, &list);
      error != 0)
    throw WireError{gai_strerror(error)};
  const std::unique_ptr<addrinfo, void (*)(addrinfo *)> owned(list, freeaddrinfo);
  support::Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket)
    throw WireError{std::strerror(errno)};
  prepare(socket.get());
  int error = 0;
  if (connect(socket.get(), list->ai_addr, list->ai_addrlen) != 0)
    error = errno == EINPROGRESS ? result_of_connect(socket.get(), deadline) : errno;
  if (error == 0)
    return socket;
  why = std::strerror(error);
  return support::Descriptor();
}

support::Descriptor accept_from(int listener) {
  support::Descriptor socket(accept4(listener, nullptr, nullptr, SOCK_CLOEXEC));
  if (socket)
    prepare(socket.get());
  return socket;
}

void encode(const Message &message, std::string &bytes) {
  size_t size = 0;
  for (const std::string &part : message)
    size += kNumber + part.size();
  append_number(bytes, size);
  for (const std::string &part : message) {
    append_number(bytes, part.size());
    bytes += part;
  }
}

std::optional<Message> decode(std::string &bytes, size_t most) {
  if (bytes.size() < kNumber)
    return std::nullopt;
  const size_t size = number_at(bytes, 0);
  if (size > most)
    throw WireError{"a message of " + std::to_string(size) + " bytes"};
  if (bytes.size() < kNumber + size)
    return std::nullopt;
  Message message;
  for (size_t at = kNumber; at < kNumber + size;) {
    const size_t part = kNumber + size - at < kNumber ? size : number_at(bytes, at);
    if (part > size || at + kNumber + part > kNumber + size)
      throw WireError{"a message in pieces"};
    message.push_back(bytes.substr(at + kNumber, part));
    at += kNumber + part;
  }
  bytes.erase(0, kNumber + size);
  return message;
}

bool send_all(int socket, const std::string &bytes, Clock::time_point deadline) {
  for (size_t sent = 0; sent < bytes.size();) {
    const ssize_t count = send(socket, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
    if (count > 0) {
      sent += static_cast<size_t>(count);
      continue;
    }
    if (errno != EAGAIN && errno != EINTR)
      return false;
    pollfd ready = {socket, POLLOUT, 0};
    if (Clock::now() >= deadline ||
        (poll(&ready, 1, milliseconds_until(deadline)) == 0 && Clock::now() >= deadline))
      return false;
  }
  return true;
}

bool read_available(int socket, std::string &bytes) {
  char buffer[65536];
  for (;;) {
    const ssize_t count = recv(socket, buffer, sizeof buffer, 0);
    if (count > 0)
      bytes.append(buffer, static_cast<size_t>(count));
    else if (count == 0)
      return false;
    else if (errno != EINTR)
      return errno == EAGAIN;
    if (count == static_cast<ssize_t>(sizeof buffer))
      return true; // others have their turn
  }
}

} // namespace tsc::ranks
