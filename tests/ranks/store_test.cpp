#include "ranks/store.h"
#include "support/diagnostic.h"

#include "testing/catch.h"

using namespace tsc;
using namespace tsc::ranks;

namespace {

Clock::time_point soon(int milliseconds = 2000) {
  return Clock::now() + std::chrono::milliseconds(milliseconds);
}

Place place_of(int64_t rank, const StoreServer &server, int64_t world = 2) {
  Place place;
  place.rank = rank;
  place.world = world;
  place.port = server.port();
  return place;
}

std::optional<Failure> wait_for_failure(StoreWatch &watch) {
  std::optional<Failure> failure;
  for (int i = 0; i < 100 && !failure; ++i)
    failure = watch.look(std::chrono::milliseconds(20));
  return failure;
}

} // namespace

TEST_CASE("messages come whole, in pieces or not at all", "[ranks]") {
  std::string bytes;
  encode({"set", "", std::string("a\0b", 3)}, bytes);
  encode({"bye"}, bytes);
  std::string arrived;
  std::vector<Message> messages;
  for (const char byte : bytes) {
    arrived += byte;
    if (std::optional<Message> message = decode(arrived, 100))
      messages.push_back(*message);
  }
  REQUIRE(messages.size() == 2);
  CHECK(messages[0] == Message{"set", "", std::string("a\0b", 3)});
  CHECK(messages[1] == Message{"bye"});
  CHECK(arrived.empty());
  std::string large = bytes;
  CHECK_THROWS_AS(decode(large, 5), WireError);
  std::string torn("\0\0\0\6\0\0\0\7ab", 10); // a part longer than the message
  CHECK_THROWS_AS(decode(torn, 100), WireError);
  std::string shorter("\0\0\0\2ab", 6); // no room for a length
  CHECK_THROWS_AS(decode(shorter, 100), WireError);
}

TEST_CASE("what one rank sets another gets, also later", "[ranks]") {
  StoreServer server(listen_on(0, true), {2, nullptr});
  StoreClient first(place_of(0, server), soon()), second(place_of(1, server), soon());
  std::string value = "nothing";
  std::thread waiting([&] { value = second.get("key", soon()).value_or("none"); });
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  first.set("key", std::string(100000, 'x'));
  waiting.join();
  CHECK(value == std::string(100000, 'x'));
  CHECK(second.get("other", soon(30)) == std::nullopt);
  CHECK(first.get("key", soon())->size() == 100000);
  first.say_goodbye();
  second.say_goodbye();
  CHECK_FALSE(server.has_failed());
}

TEST_CASE("a rank that is lost is a failure that all are told of, with how far each was",
          "[ranks]") {
  StoreServer server(listen_on(0, true),
                     {2, [](int64_t rank) { return rank == 1 ? " (gone)" : ""; }});
  StoreClient first(place_of(0, server), soon());
  StoreWatch watch(place_of(0, server), soon());
  {
    StoreClient lost(place_of(1, server), soon());
    StoreWatch other(place_of(1, server), soon());
    other.tell_progress(3);
    watch.tell_progress(4);
    CHECK(watch.look(std::chrono::milliseconds(50)) == std::nullopt);
  }
  const std::optional<Failure> failure = wait_for_failure(watch);
  REQUIRE(failure);
  CHECK(failure->code == "TSC-R040");
  CHECK(failure->text == "rank 1 ended without a word (gone)");
  CHECK(failure->rank == 1);
  CHECK(failure->begun == std::vector<uint64_t>{4, 3});
  CHECK(first.get("never", soon()) == std::nullopt); // nobody waits any more
}

TEST_CASE("the first failure counts", "[ranks]") {
  StoreServer server(listen_on(0, true), {2, nullptr});
  StoreClient first(place_of(0, server), soon()), second(place_of(1, server), soon());
  StoreWatch watch(place_of(0, server), soon()), other(place_of(1, server), soon());
  other.tell_failure("TSC-R041", "late");
  const std::optional<Failure> failure = wait_for_failure(watch);
  watch.tell_failure("TSC-R042", "later");
  REQUIRE(failure);
  CHECK(failure->code == "TSC-R041");
  CHECK(failure->text == "late");
  CHECK(wait_for_failure(other)->text == "late");
}

TEST_CASE("places are taken once, and all know of one number of ranks", "[ranks]") {
  const auto refusal = [](int64_t rank, int64_t world) -> std::string {
    StoreServer server(listen_on(0, true), {2, nullptr});
    StoreClient first(place_of(0, server), soon());
    try {
      StoreClient second(place_of(rank, server, world), soon());
    } catch (const support::UserError &error) {
      return error.diagnostics()[0].code + ": " + error.diagnostics()[0].message;
    }
    return "";
  };
  CHECK(refusal(0, 2) == "TSC-R047: rank 0: there are two processes of rank 0");
  CHECK(refusal(1, 3) == "TSC-R047: rank 1: rank 1 is one of 3 ranks, and rank 0 one of 2");
  CHECK(refusal(1, 2).empty());
}
