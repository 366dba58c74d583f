#include "ranks/store.h"

#include "ranks/store_words.h"

#include <algorithm>
#include <poll.h>
#include <sys/socket.h>

namespace tsc::ranks {
namespace {

constexpr auto kLook = std::chrono::milliseconds(20);
/// Until the ranks have said how far they are.
constexpr auto kCollect = std::chrono::milliseconds(150);
constexpr auto kGoodbye = std::chrono::seconds(5);
constexpr size_t kMostGreeting = 1024, kMostMessage = size_t{64} << 20;

int64_t number(const std::string &text) {
  return text.empty() || text.size() > 18 ||
                 text.find_first_not_of("0123456789") != std::string::npos
             ? -1
             : std::stoll(text);
}

} // namespace

struct StoreServer::Client {
  support::Descriptor socket;
  int64_t rank = -1; // not known yet
  bool watches = false, is_gone = false, was_told = false;
  std::string in, out;
};
struct StoreServer::Wait {
  Client *client = nullptr;
  std::string key;
  Clock::time_point deadline;
};

StoreServer::StoreServer(support::Descriptor listener, Options options)
    : listener_(std::move(listener)), options_(std::move(options)),
      has_joined_(static_cast<size_t>(options_.world), false),
      said_goodbye_(static_cast<size_t>(options_.world), false),
      begun_(static_cast<size_t>(options_.world), 0) {
  thread_ = std::thread([this] { serve(); });
}

StoreServer::~StoreServer() {
  end_ = Clock::now() + kGoodbye;
  is_ending_ = true;
  thread_.join();
}

void StoreServer::fail(const Failure &failure) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (failure_)
    return;
  failure_ = failure;
  has_failed_ = true;
}

/// Nobody who joined is still connected, and nobody has yet to be told of a failure.
bool StoreServer::is_over() const {
  return std::none_of(clients_.begin(), clients_.end(),
                      [](const auto &client) { return client->rank >= 0; }) ||
         Clock::now() > end_;
}

void StoreServer::serve() {
  while (!is_ending_ || !is_over()) {
    std::vector<pollfd> ready = {{listener_.get(), POLLIN, 0}};
    for (const auto &client : clients_)
      ready.push_back({client->socket.get(),
                       static_cast<short>(POLLIN | (client->out.empty() ? 0 : POLLOUT)), 0});
    poll(ready.data(), ready.size(), kLook.count());
    const size_t known = clients_.size();
    while (support::Descriptor socket = accept_from(listener_.get())) {
      clients_.push_back(std::make_unique<Client>());
      clients_.back()->socket = std::move(socket);
    }
    for (size_t i = 0; i < known; ++i) {
      Client &client = *clients_[i];
      if (ready[i + 1].revents == 0)
        continue;
      const bool is_open = read_available(client.socket.get(), client.in);
      try {
        while (std::optional<Message> message =
                   decode(client.in, client.rank < 0 ? kMostGreeting : kMostMessage))
          handle(client, *message);
      } catch (const WireError &) {
        client.is_gone = true; // a stranger
      }
      client.is_gone |= !is_open;
      reply(client, {});
    }
    for (const auto &client : clients_)
      if (client->is_gone)
        lose(*client);
    answer_waits();
    push_failure();
    clients_.erase(std::remove_if(clients_.begin(), clients_.end(),
                                  [](const auto &client) { return client->is_gone; }),
                   clients_.end());
  }
}

void StoreServer::reply(Client &client, const Message &message) {
  if (!message.empty())
    encode(message, client.out);
  while (!client.out.empty()) {
    const ssize_t count =
        send(client.socket.get(), client.out.data(), client.out.size(), MSG_NOSIGNAL);
    if (count <= 0) {
      client.is_gone |= errno != EAGAIN && errno != EINTR;
      return;
    }
    client.out.erase(0, static_cast<size_t>(count));
  }
}

/// {hello, version, rank, number of ranks, asks or watches}
void StoreServer::greet(Client &client, const Message &message) {
  if (message.size() != 5 || message[0] != words::kHello) {
    client.is_gone = true;
    return;
  }
  const int64_t rank = number(message[2]), world = number(message[3]);
  const bool watches = message[4] == words::kWatches;
  std::string problem;
  if (message[1] != words::kVersion)
    problem = "rank " + message[2] + " is of another version of tsc";
  else if (world != options_.world)
    problem = "rank " + message[2] + " is one of " + message[3] + " ranks, and rank 0 one of " +
              std::to_string(options_.world);
  else if (rank < 0 || rank >= options_.world)
    problem = "rank " + message[2] + " is none of " + message[3];
  else if (!watches && has_joined_[static_cast<size_t>(rank)])
    problem = "there are two processes of rank " + message[2];
  if (!problem.empty()) {
    fail({"TSC-R047", problem, rank, {}});
    reply(client, {words::kRefused, "TSC-R047", problem});
    return;
  }
  client.rank = rank;
  client.watches = watches;
  has_joined_[static_cast<size_t>(rank)] = true;
  reply(client, {words::kOk});
}

void StoreServer::handle(Client &client, const Message &message) {
  if (client.rank < 0)
    return greet(client, message);
  if (message.empty())
    return;
  const std::string &word = message[0];
  const auto rank = static_cast<size_t>(client.rank);
  if (word == words::kSet && message.size() == 3) {
    values_[message[1]] = message[2];
    reply(client, {words::kOk});
  } else if (word == words::kGet && message.size() == 3) {
    waits_.push_back(
        {&client, message[1],
         Clock::now() + std::chrono::milliseconds(std::max<int64_t>(number(message[2]), 0))});
  } else if (word == words::kProgress && message.size() == 2) {
    begun_[rank] = static_cast<uint64_t>(std::max<int64_t>(number(message[1]), 0));
  } else if (word == words::kFailure && message.size() == 3) {
    fail({message[1], message[2], client.rank, {}});
  } else if (word == words::kGoodbye) {
    said_goodbye_[rank] = true;
    reply(client, {words::kOk});
  }
}

void StoreServer::answer_waits() {
  const auto answered = [&](const Wait &wait) {
    if (wait.client->is_gone)
      return true;
    const auto found = values_.find(wait.key);
    if (found != values_.end())
      reply(*wait.client, {words::kValue, found->second});
    else if (has_failed_ || Clock::now() > wait.deadline)
      reply(*wait.client, {words::kNothing});
    else
      return false;
    return true;
  };
  waits_.erase(std::remove_if(waits_.begin(), waits_.end(), answered), waits_.end());
}

void StoreServer::lose(Client &client) {
  if (client.rank < 0 || said_goodbye_[static_cast<size_t>(client.rank)] || has_failed_)
    return;
  const std::string how = options_.describe_loss ? options_.describe_loss(client.rank) : "";
  fail({"TSC-R040",
        "rank " + std::to_string(client.rank) + " ended without a word" + how,
        client.rank,
        {}});
}

/// Once a failure is known and all have had the time to say how far they are.
void StoreServer::push_failure() {
  if (!has_failed_)
    return;
  if (!push_at_)
    push_at_ = Clock::now() + kCollect;
  if (Clock::now() < *push_at_)
    return;
  Message message = {words::kFailure};
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    message.insert(message.end(), {failure_->code, failure_->text, std::to_string(failure_->rank)});
  }
  for (const uint64_t begun : begun_)
    message.push_back(std::to_string(begun));
  for (const auto &client : clients_)
    if (client->watches && !client->was_told && !client->is_gone) {
      client->was_told = true;
      reply(*client, message);
    }
}

} // namespace tsc::ranks
