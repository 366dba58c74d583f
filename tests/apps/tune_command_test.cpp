// tsc tune, and the lock that other commands take.
#include "tsc_process.h"

#include "testing/catch.h"

#include <nlohmann/json.hpp>

using namespace tsc;
using testing::Outcome;
using testing::sample;
using testing::Workplace;

namespace {

void check_error(const Outcome &outcome, int exit_code, const std::string &start) {
  INFO(outcome.err);
  CHECK(outcome.exit_code == exit_code);
  CHECK(outcome.out == "");
  CHECK(outcome.err.rfind("error " + start, 0) == 0);
}

} // namespace

TEST_CASE("tune writes a lock that compile takes") {
  Workplace place;
  const std::string graph = sample("seed_004.json"), lock = place.path("tsc.lock");
  const Outcome tuned =
      place.run({"tune", graph, "--device=host-cuda", "--arch=sm_90", "-o", lock});
  INFO(tuned.err);
  REQUIRE(tuned.exit_code == 0);
  CHECK(tuned.err == "");
  CHECK(tuned.out.rfind("planned us", 0) != std::string::npos);
  CHECK(tuned.out.find(" us at best\n") != std::string::npos);
  const auto written = nlohmann::json::parse(testing::read_text(lock));
  CHECK(written["device"] == "host-cuda");
  CHECK(written["arch"] == "sm_90");
  REQUIRE(!written["kernels"].empty());
  const std::string name = written["kernels"][0]["kernel"];

  const Outcome same = place.run({"compile", graph, "--lock", lock, "-o", place.path("out")});
  CHECK(same.exit_code == 0);
  CHECK(same.err == "");
  const Outcome other =
      place.run({"compile", graph, "--lock", lock, "--arch=sm_80", "-o", place.path("other")});
  CHECK(other.exit_code == 0);
  CHECK(other.err.rfind("note: " + lock + " has no plan for ", 0) == 0);
  CHECK(other.err.find("planned as without: tsc_") != std::string::npos);
  const Outcome ran =
      place.run({"run", graph, "--lock", lock, "--inputs=random", "--device=host", "--plan=cuda"});
  CHECK(ran.exit_code == 0);
}

TEST_CASE("tune says what it was found out as JSON, and needs no file for it") {
  Workplace place;
  const Outcome tuned =
      place.run({"tune", sample("seed_004.json"), "--device=host-cuda", "--arch=sm_90", "--json"});
  INFO(tuned.err);
  REQUIRE(tuned.exit_code == 0);
  const auto object = nlohmann::json::parse(tuned.out);
  CHECK(object["planned_ns"].get<double>() >= object["expected_ns"].get<double>());
  CHECK(object["changed"].get<int>() >= 0);
}

TEST_CASE("what cannot be tuned, written or read says so") {
  Workplace place;
  const std::string graph = sample("seed_004.json");
  check_error(place.run_after("export CUDA_VISIBLE_DEVICES=", {"tune", graph}), 2,
              "TSC-C018: there is no GPU here to plan for: ");
  check_error(place.run({"tune", graph, "--device=host-cuda", "--arch=host"}), 2,
              "TSC-C021: plans for the host leave nothing to choose");
  check_error(place.run({"tune", sample("seed_001.json"), "--device=host-cuda"}), 2,
              "TSC-C022: a program that communicates cannot be timed by itself");
  check_error(place.run({"tune", graph, "--device=host-cuda", "-o", place.path("no/such/folder")}),
              2, "TSC-C023: the lock cannot be written");
  check_error(place.run({"compile", graph, "--lock", place.path("missing"), "-o", "out"}), 3,
              "TSC-C020: this is no lock of kernels: it cannot be read");
  check_error(place.run({"compile", graph, "--lock", place.file("bad", "{}"), "-o", "out"}), 3,
              "TSC-C020: this is no lock of kernels: there is no text \"format\"");
}
