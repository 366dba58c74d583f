// What collectives take on a network that is described.
#include "driver/network.h"
#include "support/diagnostic.h"

#include "testing/catch.h"

#include <cstdio>
#include <fstream>
#include <numeric>
#include <unistd.h>

using namespace tsc;
using tsc_engine::CollectiveKind;

namespace {

std::string write(const std::string &text) {
  const std::string path = "/tmp/tsc_network_test_" + std::to_string(getpid()) + ".json";
  std::ofstream(path) << text;
  return path;
}

std::vector<int64_t> first(int64_t count) {
  std::vector<int64_t> ranks(static_cast<size_t>(count));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

driver::Network machines() {
  driver::Network network;
  network.levels = {{8, 400e9, 2e-6}, {4, 50e9, 10e-6}};
  return network;
}

std::string problem(const std::string &text, int64_t world = 1) {
  const std::string path = write(text);
  try {
    driver::read_network(path, world);
  } catch (const support::UserError &error) {
    std::remove(path.c_str());
    return error.diagnostics()[0].code + ": " + error.diagnostics()[0].message;
  }
  std::remove(path.c_str());
  return "";
}

} // namespace

TEST_CASE("collectives take what the levels of a network take", "[driver]") {
  const auto seconds = [](const std::vector<int64_t> &ranks, CollectiveKind kind, double bytes) {
    return driver::collective_seconds(machines(), ranks, kind, bytes);
  };
  // Within a machine: seven of eight parts arrive, in three rounds of latency.
  CHECK(seconds(first(8), CollectiveKind::all_gather, 8e6) == Approx(7e6 / 400e9 + 3 * 2e-6));
  CHECK(seconds(first(8), CollectiveKind::all_reduce, 8e6) == Approx(2 * (7e6 / 400e9 + 3 * 2e-6)));
  // Across: a part of each of four machines, then all of the machine's eight.
  CHECK(seconds(first(32), CollectiveKind::all_gather, 32e6) ==
        Approx(3e6 / 50e9 + 2 * 10e-6 + 4e6 * 7 / 400e9 + 3 * 2e-6));
  // One rank of each machine has no other level.
  CHECK(seconds({0, 8, 16, 24}, CollectiveKind::reduce_scatter, 4e6) ==
        Approx(3e6 / 50e9 + 2 * 10e-6));
  CHECK(seconds(first(32), CollectiveKind::broadcast, 5e6) == Approx(5e6 / 50e9 + 26e-6));
  CHECK(seconds(first(32), CollectiveKind::all_to_all, 32e6) ==
        Approx(7e6 / 400e9 + 2e-6 + 24e6 / 50e9 + 10e-6));
  CHECK(seconds({3}, CollectiveKind::all_reduce, 1e9) == 0);
}

TEST_CASE("a network is read from a file", "[driver]") {
  const std::string level = R"({"ranks": 8, "gigabytes_per_second": 450, "microseconds": 2})";
  const std::string path = write(R"({"name": "one", "levels": [)" + level + "]}");
  const driver::Network network = driver::read_network(path, 8);
  std::remove(path.c_str());
  CHECK(network.name == "one");
  REQUIRE(network.levels.size() == 1);
  CHECK(network.levels[0].bandwidth == 450e9);
  CHECK(network.levels[0].latency == Approx(2e-6));
  CHECK(problem("[") == "TSC-C054: this is no network: it has no list of levels");
  CHECK(problem(R"({"levels": [{"ranks": 8}]})") ==
        "TSC-C054: this is no network: a level has no 'gigabytes_per_second' above 0");
  CHECK(problem(R"({"levels": [)" + level + "]}", 16) ==
        "TSC-C054: this is no network: it joins 8 ranks, and the run has 16");
}
