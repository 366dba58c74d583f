// tsc run --profile and the figures of --bench.
#include "tsc_process.h"

#include "testing/catch.h"

#include <nlohmann/json.hpp>

#include <map>
#include <set>

using namespace tsc;
using nlohmann::json;
using testing::Outcome;
using testing::sample;
using testing::Workplace;

namespace {

/// The trace's spans of a category.
std::vector<json> spans_of(const json &trace, const std::string &category) {
  std::vector<json> spans;
  for (const json &event : trace.at("traceEvents"))
    if (event.at("ph") == "X" && event.at("cat") == category)
      spans.push_back(event);
  return spans;
}

/// "device: host/stream 0" of every row.
std::set<std::string> rows_of(const json &trace) {
  std::map<int, std::string> processes;
  std::set<std::string> rows;
  for (const json &event : trace.at("traceEvents"))
    if (event.at("name") == "process_name")
      processes[event.at("pid")] = event.at("args").at("name");
  for (const json &event : trace.at("traceEvents"))
    if (event.at("name") == "thread_name")
      rows.insert(processes.at(event.at("pid")) + "/" +
                  event.at("args").at("name").get<std::string>());
  return rows;
}

/// Whether no span of a row begins before the one in front of it has ended, nor outside `around`.
void check_order(const std::vector<json> &spans, const std::vector<json> &around) {
  constexpr double kRounding = 0.01; // of the file's numbers
  double end = -1;
  size_t outer = 0;
  for (const json &span : spans) {
    const double began = span.at("ts"), took = span.at("dur");
    CHECK(began >= end - kRounding);
    end = began + took;
    while (outer + 1 < around.size() && around[outer + 1].at("ts") <= began)
      ++outer;
    CHECK(began >= around[outer].at("ts").get<double>() - kRounding);
    CHECK(end <=
          around[outer].at("ts").get<double>() + around[outer].at("dur").get<double>() + kRounding);
  }
}

} // namespace

TEST_CASE("a profile has passes, queueing and every step of every run") {
  Workplace place;
  const Outcome outcome = place.run({"run", sample("control_flow.json"), "--device=host", "--json",
                                     "--inputs=random", "--profile=trace.json"});
  INFO(outcome.err);
  REQUIRE(outcome.exit_code == 0);
  const json report = json::parse(outcome.out).at("profile");
  const json trace = json::parse(testing::read_text(place.path("trace.json")));
  CHECK(rows_of(trace) == std::set<std::string>{"tsc (host)/command", "tsc (host)/compile passes",
                                                "tsc (host)/queueing", "device: host/runs",
                                                "device: host/stream 0"});
  CHECK(report.at("file") == "trace.json");
  CHECK(report.at("runs") == 10);
  const std::vector<json> runs = spans_of(trace, "run"), steps = spans_of(trace, "step");
  REQUIRE(runs.size() == 10);
  check_order(steps, runs);
  check_order(spans_of(trace, "pass"), spans_of(trace, "stage"));
  std::set<std::string> passes;
  for (const json &pass : spans_of(trace, "pass"))
    passes.insert(pass.at("name"));
  for (const char *name : {"read", "lower", "generate"})
    CHECK(passes.count(name) == 1);
  size_t times = 0, launches = 0;
  for (const json &step : report.at("steps")) {
    times += step.at("times").get<size_t>();
    launches += step.at("kind") == "launch";
    const json &us = step.at("us");
    CHECK(us.at("p50") > 0);
    CHECK(us.at("p50") <= us.at("p90"));
    CHECK(us.at("p90") <= us.at("p99"));
    CHECK((step.at("kernel") == "") == (step.at("kind") != "launch"));
  }
  CHECK(times == steps.size());
  CHECK(launches > 2);
  // The loop's steps are there once a round.
  CHECK(steps.size() > 10 * report.at("steps").size());
}

TEST_CASE("the reference and folders are profiled, too, and every rank") {
  Workplace place;
  Outcome outcome = place.run({"run", sample("seed_004.json"), "--device=reference", "--json",
                               "--inputs=random", "--profile=reference.json"});
  REQUIRE(outcome.exit_code == 0);
  json trace = json::parse(testing::read_text(place.path("reference.json")));
  CHECK(json::parse(outcome.out).at("profile").at("runs") == 1);
  CHECK(spans_of(trace, "step").at(0).at("args").at("kind") == "loops");
  CHECK(rows_of(trace).count("device: reference/stream 0") == 1);

  REQUIRE(place.run({"compile", sample("seed_004.json"), "--arch=host", "-o", "out"}).exit_code ==
          0);
  outcome = place.run({"run", "out", "--device=host", "--inputs=random", "--profile=folder.json"});
  REQUIRE(outcome.exit_code == 0);
  CHECK(outcome.out.find("profile: 10 runs, p50 ") != std::string::npos);
  CHECK(outcome.out.find("trace in folder.json\n") != std::string::npos);
  trace = json::parse(testing::read_text(place.path("folder.json")));
  CHECK(spans_of(trace, "pass").empty());
  CHECK(spans_of(trace, "step").size() == 10);

  const std::string fsdp = std::string(TSC_SOURCE_DIR) + "/tests/cases/fsdp/";
  outcome = place.run({"run", fsdp + "bf16/graph.json", "--world-size=2", "--device=host",
                       "--inputs=random", "--profile=ranks.json"});
  INFO(outcome.err);
  REQUIRE(outcome.exit_code == 0);
  trace = json::parse(testing::read_text(place.path("ranks.json")));
  CHECK(rows_of(trace).count("device: host, rank 0/stream 1") == 1);
  CHECK(rows_of(trace).count("device: host, rank 1/stream 1") == 1);
}

TEST_CASE("ranks that are processes write a profile each") {
  const std::string graph = std::string(TSC_SOURCE_DIR) + "/tests/cases/fsdp/sum/graph.json";
  for (const std::string device : {"host", "reference"}) {
    Workplace place;
    const Outcome outcome =
        place.run({"run", graph, "--world-size=2", "--processes", "--device=" + device, "--json",
                   "--inputs=random", "--profile=ranks.json"});
    INFO(device << "\n" << outcome.err);
    REQUIRE(outcome.exit_code == 0);
    CHECK(json::parse(outcome.out).at("profile").at("file") == "ranks.rank_0.json");
    for (const std::string rank : {"0", "1"}) {
      const json trace =
          json::parse(testing::read_text(place.path("ranks.rank_" + rank + ".json")));
      CHECK(rows_of(trace).count("device: " + device + ", rank " + rank + "/runs") == 1);
      CHECK(spans_of(trace, "run").size() == (device == "host" ? 10 : 1));
      CHECK_FALSE(spans_of(trace, "step").empty());
    }
  }
}

TEST_CASE("a profile that cannot be written is an error") {
  const Outcome outcome = Workplace().run({"run", sample("seed_004.json"), "--device=reference",
                                           "--inputs=random", "--profile=no/such/folder.json"});
  CHECK(outcome.exit_code == 2);
  CHECK(outcome.err == "error TSC-C070: the profile cannot be written\n  at no/such/folder.json\n"
                       "  next: name a file in a folder that is there\n");
}

TEST_CASE("a bench says percentiles, throughput and warm-up") {
  Workplace place;
  const std::vector<std::string> arguments = {"run", sample("seed_004.json"), "--bench",
                                              "30",  "--device=host",         "--inputs=random"};
  const Outcome text = place.run(arguments);
  CHECK(text.out.find("\n     p50 ") != std::string::npos);
  CHECK(text.out.find(" runs a second; warm-up ") != std::string::npos);
  std::vector<std::string> with_json = arguments;
  with_json.push_back("--json");
  const json report = json::parse(place.run(with_json).out);
  const auto of = [&](const char *key) { return report.at(key).get<double>(); };
  CHECK(of("median_ms") == of("p50_ms"));
  CHECK(of("min_ms") <= of("p50_ms"));
  CHECK(of("p50_ms") <= of("p90_ms"));
  CHECK(of("p90_ms") <= of("p99_ms"));
  CHECK(of("p99_ms") <= of("max_ms"));
  CHECK(of("runs_per_second") >= 999 / of("max_ms"));
  CHECK(of("runs_per_second") <= 1001 / of("min_ms"));
  CHECK(report.at("warm_up_ms").size() == 2);
  CHECK(report.at("samples") == 30);
}
