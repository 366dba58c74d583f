// tsc report: the file, its data, the times of a run. The page itself is scripts/check_report's.
#include "tsc_process.h"

#include "testing/catch.h"

#include <nlohmann/json.hpp>

using namespace tsc;
using nlohmann::json;
using testing::Outcome;
using testing::sample;
using testing::Workplace;

TEST_CASE("report writes one page with its data, or the data alone") {
  Workplace place;
  const std::string graph = place.file("linear.json", testing::linear_graph());
  const Outcome page = place.run({"report", graph, "-o", "report.html"});
  INFO(page.err);
  REQUIRE(page.exit_code == 0);
  CHECK_THAT(page.out, contains_text("report.html: "));
  const std::string text = testing::read_text(place.path("report.html"));
  CHECK_THAT(text, contains_text("<!doctype html>"));
  REQUIRE(place.run({"report", graph, "-o", "report.json", "--json"}).exit_code == 0);
  const json data = json::parse(testing::read_text(place.path("report.json")));
  CHECK(data["graph"] == graph);
  CHECK_FALSE(data.contains("measured"));
}

TEST_CASE("report --run has a time for every step") {
  Workplace place;
  const std::string graph = place.file("linear.json", testing::linear_graph());
  const Outcome outcome = place.run({"report", graph, "-o", "report.json", "--json", "--run",
                                     "--device=host", "--weights=random", "--repeats=2"});
  INFO(outcome.err);
  REQUIRE(outcome.exit_code == 0);
  const json data = json::parse(testing::read_text(place.path("report.json")));
  CHECK(data["measured"]["device"] == "host");
  REQUIRE(data["measured"]["ms"].size() == data["steps"].size());
  double total = 0;
  for (const json &time : data["measured"]["ms"])
    total += time.get<double>();
  CHECK(total > 0);
  CHECK(data["target"]["name"] == "host");
}

TEST_CASE("what cannot be reported says so") {
  Workplace place;
  const std::string graph = place.file("linear.json", testing::linear_graph());
  const Outcome no_folder = place.run({"report", graph, "-o", "no/such/folder/report.html"});
  CHECK(no_folder.exit_code == 2);
  CHECK_THAT(no_folder.err, contains_text("TSC-C033: the report cannot be written"));
  const Outcome ranks =
      place.run({"report", sample("seed_001.json"), "-o", "report.html", "--run", "--device=host"});
  CHECK(ranks.exit_code == 2);
  CHECK_THAT(ranks.err,
             contains_text("TSC-C032: steps of a program that communicates cannot be timed alone"));
  CHECK(place.run({"report", graph, "-o", "report.html", "--device=host"}).exit_code == 2);
}
