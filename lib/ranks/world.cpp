#include "ranks/world.h"

#include "support/interruption.h"

#include <algorithm>
#include <cstdio>
#include <unistd.h>

namespace tsc::ranks {
namespace {

using support::ExitCode;
using support::UserError;

Clock::time_point after(double seconds) {
  return Clock::now() +
         std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

support::Descriptor listen_as_store(const Place &place) {
  try {
    return listen_on(place.port, place.address == "127.0.0.1" || place.address == "localhost");
  } catch (const WireError &error) {
    throw UserError(ExitCode::device,
                    {.code = "TSC-R044",
                     .message = "rank 0: the store cannot listen on port " +
                                std::to_string(place.port) + ": " + error.text,
                     .next_step = "set MASTER_PORT (or TSC_STORE_PORT) to a port that is free, on "
                                  "all ranks"});
  }
}

/// "rank 1", "ranks 0, 2"
std::string ranks_text(const std::vector<int64_t> &ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (size_t i = 0; i < ranks.size(); ++i)
    text += (i == 0 ? "" : ", ") + std::to_string(ranks[i]);
  return text;
}

ExitCode exit_code_of(const std::string &code) {
  return code == "TSC-R043" || code == "TSC-R052" ? ExitCode::bad_input : ExitCode::device;
}

const char *next_step_of(const std::string &code) {
  static const std::map<std::string, const char *> kSteps = {
      {"TSC-R040", "see what that rank said last, and what ended it"},
      {"TSC-R041",
       "see why a rank is late or missing, or give --collective-timeout a larger number"},
      {"TSC-R042", "set NCCL_DEBUG=WARN to see what NCCL says, and look at the other ranks"},
      {"TSC-R043", "give all ranks the same graph, options, groups and tsc"},
      {"TSC-R045", "start as many processes as WORLD_SIZE says"},
      {"TSC-R047", "give each process a RANK of its own and all the same WORLD_SIZE"},
      {"TSC-R051", "mend what that rank reports"},
      {"TSC-R052", "give the ranks inputs whose parts fit each other"}};
  const auto found = kSteps.find(code);
  return found == kSteps.end() ? "see what the other ranks say" : found->second;
}

} // namespace

World::World(const Place &place, const Options &options) : place_(place), options_(options) {
  if (place_.rank == 0 && !place_.is_launched)
    server_ = std::make_unique<StoreServer>(listen_as_store(place_),
                                            StoreServer::Options{place_.world, nullptr});
  const Clock::time_point deadline = after(options_.timeout_seconds);
  client_ = std::make_unique<StoreClient>(place_, deadline);
  watch_ = std::make_unique<StoreWatch>(place_, deadline);
  thread_ = std::thread([this] { watch(); });
}

World::~World() {
  is_ending_ = true;
  thread_.join();
  watch_.reset();
  client_.reset();
}

std::string World::wait_for(const std::string &key) {
  const std::optional<std::string> value = client_->get(key, after(options_.timeout_seconds));
  if (value)
    return *value;
  if (!has_failed_) // the time is over, or it is about to be known
    fail("TSC-R045", "nobody has said '" + key + "'");
  throw_failure();
}

std::vector<std::string> World::exchange(const std::string &name, const std::string &own) {
  client_->set(name + "/" + std::to_string(rank()), own);
  const Clock::time_point deadline = after(options_.timeout_seconds);
  std::vector<std::string> values;
  std::vector<int64_t> missing;
  for (int64_t other = 0; other < size() && !has_failed_; ++other) {
    std::optional<std::string> value = client_->get(name + "/" + std::to_string(other), deadline);
    if (!value)
      missing.push_back(other);
    values.push_back(value.value_or(""));
  }
  if (!missing.empty() && Clock::now() >= deadline)
    fail("TSC-R045", ranks_text(missing) + (missing.size() == 1 ? " has" : " have") +
                         " not come within the time");
  if (!missing.empty() || has_failed_)
    throw_failure();
  return values;
}

void World::leave() {
  exchange("leave", "");
  has_left_ = true;
  client_->say_goodbye();
}

void World::set_progress(uint64_t begun, uint64_t done, const std::string &step,
                         const std::string &node) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    step_ = step;
    node_ = node;
  }
  done_ = done;
  if (begun_.exchange(begun) != begun)
    watch_->tell_progress(begun);
}

void World::begin(const char *step, const char *node) {
  check();
  set_progress(begun_ + 1, done_, step, node);
}
void World::end() { done_ = begun_.load(); }

void World::fail(const std::string &code, const std::string &text) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (own_ || known_)
      return;
    own_ = Failure{code, text, rank(), {}};
  }
  watch_->tell_failure(code, text);
}

UserError World::failure() {
  constexpr auto kPatience = std::chrono::seconds(2);
  std::unique_lock<std::mutex> lock(mutex_);
  told_.wait_for(lock, kPatience, [&] { return known_.has_value(); });
  if (!known_)
    known_ = own_ ? *own_ : Failure{"TSC-R040", "the store does not answer", -1, {}};
  has_failed_ = true;
  return describe(*known_);
}

/// Precondition: mutex_ is held.
UserError World::describe(const Failure &failure) const {
  std::string message =
      "rank " + std::to_string(rank()) + " of " + std::to_string(size()) + ": " + failure.text;
  const uint64_t begun = begun_;
  if (begun == 0) {
    message += "; no collective has begun here";
  } else {
    const bool is_within = done_ < begun;
    message += std::string("; this rank is ") + (is_within ? "in" : "behind") + " collective " +
               std::to_string(begun) + ", step " + step_;
    std::vector<int64_t> come, missing;
    for (size_t other = 0; other < failure.begun.size(); ++other)
      (failure.begun[other] >= begun ? come : missing).push_back(static_cast<int64_t>(other));
    if (is_within && !failure.begun.empty())
      message += ", to which " + ranks_text(come) + (come.size() == 1 ? " has" : " have") +
                 " come" + (missing.empty() ? "" : " and " + ranks_text(missing) + " not");
  }
  return {exit_code_of(failure.code),
          support::Diagnostic{failure.code, message, "", "", begun == 0 ? "" : node_, "",
                              next_step_of(failure.code)}};
}

void World::watch() {
  while (!is_ending_) {
    std::optional<Failure> found = watch_->look(std::chrono::milliseconds(20));
    if (has_left_)
      return;
    if (!found)
      continue;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      known_ = std::move(found);
      has_failed_ = true;
    }
    told_.notify_all();
    break;
  }
  // The other threads have some time to end by themselves.
  const Clock::time_point end = after(options_.grace_seconds);
  while (!is_ending_) {
    if (Clock::now() > end) {
      std::fprintf(stderr, "%s\n", failure().what());
      support::remove_registered();
      _exit(static_cast<int>(ExitCode::device));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

} // namespace tsc::ranks
