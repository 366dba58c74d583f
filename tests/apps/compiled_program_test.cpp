// What was compiled before, a folder or a package, where a graph may stand.
#include "tsc_process.h"

#include "testing/catch.h"

#include <nlohmann/json.hpp>

using namespace tsc;
using nlohmann::json;
using testing::Outcome;
using testing::Workplace;

namespace {

const std::vector<std::string> kCompiled = {"out", "linear.tsc"};

/// linear.json as a folder and as a package, with weights.
void compile_both(const Workplace &place) {
  place.file("linear.json", testing::linear_graph());
  for (const std::string &out : kCompiled) {
    const Outcome outcome = place.run(
        {"compile", "linear.json", "--arch=host", "--weights=random", "--name=linear", "-o", out});
    INFO(outcome.err);
    REQUIRE(outcome.exit_code == 0);
  }
}

} // namespace

TEST_CASE("explain tells the steps of what was compiled before, all or those of a name") {
  Workplace place;
  compile_both(place);
  std::string first;
  for (const std::string &out : kCompiled) {
    const Outcome all = place.run({"explain", out});
    INFO(out << all.err);
    REQUIRE(all.exit_code == 0);
    CHECK(all.out.rfind("linear, compiled for host: ", 0) == 0);
    CHECK_THAT(all.out, contains_text("\n  plan: ") && contains_text("fc.weight") &&
                            contains_text("estimated on host: "));
    CHECK((first.empty() || first == all.out)); // the package says what the folder says
    first = all.out;
    const Outcome data = place.run({"explain", out, "--json"});
    const json object = json::parse(data.out);
    CHECK(object["graph"] == out);
    CHECK(object["arch"] == "host");
    const json &steps = object["steps"];
    REQUIRE(steps.size() > 0);
    double bytes = 0;
    std::string kernel, node;
    for (const json &step : steps) {
      bytes += step["cost"]["bytes"].get<double>();
      if (!step["kernel"].is_null()) {
        kernel = step["kernel"]["name"];
        node = step["nodes"].at(0);
      }
    }
    CHECK(bytes >= 4.0 * (8 + 12 + 3 + 6)); // x, the weight, the bias, the result
    for (const std::string &name : {kernel, node, std::string("fc.bias")}) {
      const Outcome one = place.run({"explain", out, name});
      INFO(name << one.err);
      CHECK(one.exit_code == 0);
      CHECK_THAT(one.out, contains_text(name));
      CHECK(all.out.find(one.out) != std::string::npos);
    }
    const Outcome none = place.run({"explain", out, "fc.weigt"});
    CHECK(none.exit_code == 2);
    CHECK(none.err == "error TSC-C005: nothing in the program is called 'fc.weigt'\n  next: did "
                      "you mean 'fc.weight'? name a step, a kernel, a buffer or a node of the "
                      "graph; `tsc explain OUT` lists them\n");
  }
}

TEST_CASE("report shows and times what was compiled before") {
  Workplace place;
  compile_both(place);
  for (const std::string &out : kCompiled) {
    const Outcome outcome = place.run(
        {"report", out, "-o", "r.json", "--json", "--run", "--device=host", "--repeats=2"});
    INFO(out << outcome.err);
    REQUIRE(outcome.exit_code == 0);
    const json data = json::parse(testing::read_text(place.path("r.json")));
    CHECK(data["target"]["name"] == "host");
    CHECK(data["before"].empty());
    CHECK(data["groups"].empty());
    REQUIRE(data["measured"]["ms"].size() == data["steps"].size());
    REQUIRE(data["kernels"].size() > 0);
    CHECK_FALSE(data["kernels"][0]["nodes"].empty());
    CHECK_FALSE(data["memory"].contains("unknown"));
    double bytes = 0;
    for (const json &step : data["steps"])
      bytes += step[10].get<double>();
    CHECK(bytes >= 4.0 * (8 + 12 + 3 + 6));
    CHECK(place.run({"report", out, "-o", "r.html"}).exit_code == 0);
  }
}

TEST_CASE("dump-schedule and diff take what was compiled before") {
  Workplace place;
  compile_both(place);
  const Outcome graph =
      place.run({"dump-schedule", "linear.json", "--arch=host", "--stage=partitions"});
  REQUIRE(graph.exit_code == 0);
  for (const std::string &out : kCompiled) {
    const Outcome partitions = place.run({"dump-schedule", out, "--stage=partitions"});
    INFO(partitions.err);
    CHECK(partitions.exit_code == 0);
    CHECK(partitions.out == graph.out);
    const Outcome other = place.run({"dump-schedule", out, "--stage=partitions", "--arch=sm_80"});
    CHECK(other.exit_code == 2);
    CHECK(other.err == "error TSC-C030: what was compiled has no plan for sm_80\n  at " + out +
                           "\n  next: it has plans for host\n");
    const Outcome diff = place.run({"diff", out, "linear.json", "--arch=host", "--json"});
    INFO(diff.err);
    REQUIRE(diff.exit_code == 0);
    CHECK(json::parse(diff.out)["changes"].empty());
  }
  const Outcome idle = place.run({"diff", "out", "linear.tsc", "--tf32=on"});
  CHECK(idle.exit_code == 2);
  CHECK(idle.err == "error TSC-C024: --tf32 does nothing on what was compiled before\n  next: "
                    "leave it out, or give a graph\n");
}

TEST_CASE("what needs a graph says so of what was compiled before") {
  Workplace place;
  compile_both(place);
  const std::string all = "give the graph that it was compiled from; run, diff, explain, report "
                          "and dump-schedule --stage=partitions take what was compiled";
  struct Case {
    std::vector<std::string> before, after;
    std::string next;
  };
  const std::vector<Case> cases = {
      {{"compile"}, {"--arch=host", "-o", "again"}, all},
      {{"compile"}, {"--emit=fx"}, all},
      {{"check"}, {}, all},
      {{"tune"}, {"-o", "tsc.lock"}, all},
      {{"dump-schedule"}, {}, all},
      {{"dump-schedule"}, {"--stage=init"}, all},
      {{"verify"},
       {"--device=host"},
       "give the graph; or compare with outputs that are known: tsc run OUT --expect FILE"},
      {{"explain"}, {"op0", "op1"}, "give the graph: tsc explain GRAPH op0 op1"},
      {{"explain"}, {"--network=net.json"}, "give the graph: tsc explain GRAPH --network FILE"},
  };
  for (const std::string &out : kCompiled)
    for (const Case &one : cases) {
      std::vector<std::string> words = one.before;
      words.push_back(out);
      words.insert(words.end(), one.after.begin(), one.after.end());
      const Outcome outcome = place.run(words);
      INFO(words[0] << " " << out);
      CHECK(outcome.exit_code == 2);
      CHECK(outcome.out == "");
      CHECK(outcome.err == "error TSC-C034: this was compiled before, and keeps neither its graph "
                           "nor its schedule\n  at " +
                               out + "\n  next: " + one.next + "\n");
    }
}
