// check, explain, dump-schedule, --emit, --dump-after, --time-passes.
#include "tsc_process.h"

#include "testing/catch.h"

#include <nlohmann/json.hpp>

#include <filesystem>
#include <fstream>
#include <iterator>

using namespace tsc;
using testing::Outcome;
using testing::sample;
using testing::Workplace;

namespace {

/// Two unknown operators, one of them misspelt, with the user's lines.
const char *kBadGraph = R"({
  "format": "tsc-graph", "version": 1, "name": "bad",
  "nodes": [
    {"name": "x", "op": "placeholder", "val": {"dtype": "float32", "size": [2, 3]}},
    {"name": "a", "op": "call_function", "target": "aten.expp.default", "args": [{"node": "x"}],
     "stack_trace": "  File \"model.py\", line 7, in forward\n    a = torch.expp(x)\n"},
    {"name": "b", "op": "call_function", "target": "aten.unheard_of_thing.default",
     "args": [{"node": "a"}],
     "stack_trace": "  File \"model.py\", line 8, in forward\n    b = unheard_of_thing(a)\n"},
    {"name": "output", "op": "output", "args": [[{"node": "b"}]]}
  ],
  "signature": {"inputs": [{"node": "x", "kind": "user"}],
                "outputs": [{"kind": "user", "value": {"node": "b"}}]}
})";
const std::string kBadReport =
    "error TSC-O001: the operator aten.expp.default is not supported (1 call)\n"
    "  at bad.json (node a)\n"
    "  in File \"model.py\", line 7, in forward: a = torch.expp(x)\n"
    "  call aten.expp.default(x: float32[2, 3])\n"
    "  next: did you mean aten.exp.default? docs/operators.md lists what is supported\n"
    "error TSC-O001: the operator aten.unheard_of_thing.default is not supported (1 call)\n"
    "  at bad.json (node b)\n"
    "  in File \"model.py\", line 8, in forward: b = unheard_of_thing(a)\n"
    "  call aten.unheard_of_thing.default(a)\n"
    "  next: docs/operators.md lists what is supported\n";

size_t count(const std::string &text, const std::string &part) {
  size_t found = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1))
    ++found;
  return found;
}

} // namespace

TEST_CASE("check reports every unsupported operator at once") {
  Workplace place;
  place.file("bad.json", kBadGraph);
  Outcome outcome = place.run({"check", "bad.json"});
  CHECK(outcome.exit_code == 4);
  CHECK(outcome.out == "");
  CHECK(outcome.err == kBadReport);
  // The commands that compile say the same.
  outcome = place.run({"compile", "bad.json", "-o", "out"});
  CHECK(outcome.exit_code == 4);
  CHECK(outcome.err == kBadReport);
  CHECK_FALSE(std::filesystem::exists(place.path("out")));

  for (const std::vector<std::string> &command : {std::vector<std::string>{"run", "bad.json"},
                                                  {"dump-schedule", "bad.json"},
                                                  {"explain", "bad.json"},
                                                  {"compile", "bad.json", "--emit=graph"}}) {
    outcome = place.run(command);
    INFO(command[0]);
    CHECK(outcome.exit_code == 4);
    CHECK(outcome.out == "");
    CHECK(outcome.err == kBadReport);
  }
}

TEST_CASE("check gives its report as data") {
  Workplace place;
  place.file("bad.json", kBadGraph);
  const Outcome outcome = place.run({"check", "bad.json", "--json"});
  CHECK(outcome.exit_code == 4);
  CHECK(outcome.err == "");
  const nlohmann::json report = nlohmann::json::parse(outcome.out);
  const nlohmann::json first = {
      {"code", "TSC-O001"},
      {"message", "the operator aten.expp.default is not supported (1 call)"},
      {"file", "bad.json"},
      {"place", ""},
      {"node", "a"},
      {"source_line", "File \"model.py\", line 7, in forward: a = torch.expp(x)"},
      {"next_step", "did you mean aten.exp.default? docs/operators.md lists what is supported"},
      {"operator", "aten.expp.default"},
      {"arguments", {{{"name", ""}, {"value", "x"}, {"type", "float32[2, 3]"}}}},
      {"places",
       {{{"node", "a"},
         {"source_line", "File \"model.py\", line 7, in forward: a = torch.expp(x)"}}}}};
  CHECK(report.at("file") == "bad.json");
  CHECK(report.at("nodes") == 4);
  CHECK(report.at("exit_code") == 4);
  REQUIRE(report.at("problems").size() == 2);
  CHECK(report["problems"][0] == first);
  CHECK(report["problems"][1].at("node") == "b");
  const Outcome good = place.run({"check", sample("seed_004.json"), "--json"});
  CHECK(good.exit_code == 0);
  CHECK(nlohmann::json::parse(good.out) == nlohmann::json({{"file", sample("seed_004.json")},
                                                           {"nodes", 5},
                                                           {"exit_code", 0},
                                                           {"problems", nlohmann::json::array()}}));
}

TEST_CASE("check reports what the reader refuses, as text and as data") {
  Workplace place;
  place.file("torn.json", "{\"format\": \"tsc-graph\", ");
  const Outcome text = place.run({"check", "torn.json"});
  CHECK(text.exit_code == 3);
  CHECK(text.out == "");
  const Outcome data = place.run({"check", "torn.json", "--json"});
  CHECK(data.exit_code == 3);
  CHECK(data.err == "");
  const nlohmann::json report = nlohmann::json::parse(data.out);
  REQUIRE(report.at("problems").size() == 1);
  CHECK(text.err.rfind("error " + report["problems"][0].at("code").get<std::string>() + ": " +
                           report["problems"][0].at("message").get<std::string>() + "\n",
                       0) == 0);
}

TEST_CASE("check of a good graph says so") {
  Workplace place;
  const std::string graph = sample("gpt2_small/default.pt2");
  Outcome outcome = place.run({"check", graph});
  CHECK(outcome.exit_code == 0);
  CHECK(outcome.out == graph + ": 164 nodes, no problems\n");
  CHECK(outcome.err == "");
}

TEST_CASE("dump-schedule prints the seeds' logs") {
  Workplace place;
  for (const std::string name : {"seed_000", "seed_001", "seed_002", "seed_004"}) {
    Outcome outcome = place.run({"dump-schedule", sample(name + ".json"), "--policy=inductor-2.5",
                                 "--arch=sm_80", "--no-code"});
    INFO(name);
    CHECK(outcome.exit_code == 0);
    CHECK(outcome.err == "");
    CHECK(outcome.out == testing::read_text(std::string(TSC_SOURCE_DIR) + "/tests/golden/" + name +
                                            "/schedule.txt"));
  }
}

TEST_CASE("dump-schedule as JSON holds the same as its text") {
  Workplace place;
  const std::vector<std::string> init = {"dump-schedule", sample("seed_002.json"), "--stage=init"};
  const Outcome text = place.run(init);
  CHECK(text.exit_code == 0);
  std::vector<std::string> as_json = init;
  as_json.push_back("--json");
  const nlohmann::json steps = nlohmann::json::parse(place.run(as_json).out).at("steps");
  size_t lines = 0;
  for (const auto &step : steps) {
    CHECK(text.out.find(step["step"].get<std::string>() + ": looks at " +
                        step["looks_at"].get<std::string>() + "\n") != std::string::npos);
    size_t counted = 0;
    for (const auto &[kind, number] : step["counts"].items())
      counted += number.get<size_t>();
    CHECK(counted == step["changes"].size());
    for (const auto &change : step["changes"]) {
      const std::string line = "    " + change["kind"].get<std::string>() + " " +
                               change["of"].get<std::string>() + ": " +
                               change["text"].get<std::string>() + "\n";
      CHECK(text.out.find(line) != std::string::npos);
      ++lines;
    }
  }
  CHECK(count(text.out, "\n    ") == lines);
  CHECK(steps.size() >= 11);

  const Outcome log = place.run({"dump-schedule", sample("seed_002.json"), "--no-code"});
  const Outcome blocks =
      place.run({"dump-schedule", sample("seed_002.json"), "--no-code", "--json"});
  std::string joined, names;
  const nlohmann::json object = nlohmann::json::parse(blocks.out);
  for (const auto &block : object.at("blocks")) {
    joined += block["text"].get<std::string>() + "\n\n\n";
    names += block["name"].get<std::string>() + " ";
  }
  CHECK(joined == log.out);
  CHECK(names == "op0 op1 op2 op3 ");
}

TEST_CASE("dump-schedule puts each kernel behind its own group") {
  Workplace place;
  // Loops and library calls by turns: op0 and op2 are kernels.
  Outcome outcome = place.run({"dump-schedule", sample("seed_002.json"), "--arch=sm_80"});
  CHECK(outcome.exit_code == 0);
  size_t first = outcome.out.find("op0 CUDA code:"), second = outcome.out.find("op2 CUDA code:");
  REQUIRE(first != std::string::npos);
  REQUIRE(second != std::string::npos);
  CHECK(count(outcome.out, "CUDA code:") == 2);
  CHECK(count(outcome.out, "TC_EXPORT(") == 2);
  std::string one = outcome.out.substr(first, second - first), two = outcome.out.substr(second);
  CHECK(one.find("TC_KERNEL") != std::string::npos);
  CHECK(one.find("//   mul: aten.mul.Tensor") != std::string::npos);
  CHECK(two.find("//   exp: aten.exp.default") != std::string::npos);
}

TEST_CASE("kernels of one launch are shown as one node, unless that is switched off") {
  Workplace place;
  const std::string graph = sample("adam_step.json");
  Outcome joined = place.run({"dump-schedule", graph});
  CHECK(joined.exit_code == 0);
  CHECK(count(joined.out, ": ForeachKernelSchedulerNode(") == 2);
  CHECK(joined.out.find("op22_op23_op24: ForeachKernelSchedulerNode(SchedulerNode,SchedulerNode,"
                        "SchedulerNode)\n") != std::string::npos);
  CHECK(count(joined.out, "CUDA code:") == 2);
  CHECK(count(joined.out, "TC_EXPORT(") == 2);
  Outcome alone = place.run({"dump-schedule", graph, "--combo-kernels=off"});
  CHECK(count(alone.out, ": ForeachKernelSchedulerNode(") == 0);
  CHECK(count(alone.out, "CUDA code:") == 6);
  Outcome lists = place.run({"dump-schedule", graph, "--no-code", "--policy=inductor-2.5"});
  CHECK(count(lists.out, ": ForeachKernelSchedulerNode(") == 2);
  Outcome none = place.run(
      {"dump-schedule", graph, "--no-code", "--policy=inductor-2.5", "--foreach-lists=off"});
  CHECK(count(none.out, ": ForeachKernelSchedulerNode(") == 0);
  Outcome why = place.run({"explain", graph, "op0", "op1"});
  CHECK(why.out == "op0 and op1: two kernels of one launch\n");
}

TEST_CASE("a group of two kernels shows both") {
  Workplace place;
  // Four rows of a million elements: the kernel plan splits each row over many blocks.
  std::string text = testing::read_text(sample("seed_004.json"));
  for (size_t at = text.find("[64, 128]"); at != std::string::npos; at = text.find("[64, 128]"))
    text.replace(at, 9, "[4, 1000000]");
  text.replace(text.find("[64]"), 4, "[4]");
  place.file("long.json", text);
  Outcome dumped = place.run({"dump-schedule", "long.json", "--arch=sm_90"});
  CHECK(dumped.exit_code == 0);
  CHECK(count(dumped.out, "CUDA code:") == 1);
  CHECK(count(dumped.out, "TC_EXPORT(") == 2);
  Outcome explained = place.run({"explain", "long.json"});
  CHECK(explained.exit_code == 0);
  CHECK(explained.out.rfind("op0:\n  kernel tsc_", 0) == 0);
  CHECK(count(explained.out, "  kernel tsc_") == 2);
  CHECK(count(explained.out, "op0:") == 1 + 1); // the group, and its one member
}

TEST_CASE("explain names each kernel's nodes, and why two are apart") {
  Workplace place;
  Outcome all = place.run({"explain", sample("seed_002.json")});
  CHECK(all.exit_code == 0);
  CHECK(all.err == "");
  CHECK(count(all.out, "  kernel tsc_") == 2);
  CHECK(count(all.out, "  library call extern_kernels.mm\n") == 2);
  CHECK(all.out.find("  op2: neg, mul_1, exp, mul_2\n") != std::string::npos);
  // One name: its kernel alone; a kernel is named as the nodes in it are.
  const std::string seed = sample("seed_002.json");
  const Outcome one = place.run({"explain", seed, "neg"});
  CHECK(count(one.out, "  kernel tsc_") == 1);
  CHECK(all.out.find(one.out) != std::string::npos);
  const size_t at = one.out.find("tsc_");
  const std::string kernel = one.out.substr(at, one.out.find('\n', at) - at);
  CHECK(place.run({"explain", seed, kernel}).out == one.out);
  CHECK(place.run({"explain", seed, kernel, "op2"}).out == "op2 and op2: in one kernel\n");
  Outcome same = place.run({"explain", sample("seed_004.json"), "add", "sum_1"});
  CHECK(same.exit_code == 0);
  CHECK(same.out == "op0 and op0: in one kernel\n");
  Outcome apart = place.run({"explain", sample("seed_002.json"), "op0", "op2"});
  CHECK(apart.exit_code == 0);
  CHECK(apart.out.find("op0 and op2: ") == 0);
  CHECK(apart.out.find("in one kernel") == std::string::npos);
}

TEST_CASE("each form that can be emitted goes to stdout") {
  Workplace place;
  const std::string graph = sample("seed_004.json");
  const std::vector<std::pair<std::string, std::string>> forms = {
      {"graph", "aten.add.Tensor"},
      {"ir", "op0_loop_body"},
      {"schedule", "op0: SchedulerNode(ComputedBuffer)"},
      {"cuda", "TC_KERNEL"},
      {"program", "\"format\": \"tsc-program\""}};
  for (const auto &form : forms) {
    Outcome outcome = place.run({"compile", graph, "--emit", form.first});
    INFO(form.first);
    CHECK(outcome.exit_code == 0);
    CHECK(outcome.err == "");
    CHECK(outcome.out.find(form.second) != std::string::npos);
  }
}

TEST_CASE("the graph of every format can be printed") {
  Workplace place;
  // As the passes leave it, in FX's text.
  const Outcome json = place.run({"compile", sample("seed_004.json"), "--emit=graph"});
  CHECK(json.exit_code == 0);
  CHECK(json.err == "");
  CHECK(json.out ==
        "graph():\n"
        "    %arg0_1 : [num_users=1] = placeholder[target=arg0_1]\n"
        "    %arg1_1 : [num_users=1] = placeholder[target=arg1_1]\n"
        "    %add : [num_users=1] = call_function[target=torch.ops.aten.add.Tensor]"
        "(args = (%arg0_1, %arg1_1), kwargs = {})\n"
        "    %sum_1 : [num_users=1] = call_function[target=torch.ops.aten.sum.dim_IntList]"
        "(args = (%add, [1]), kwargs = {})\n"
        "    return (sum_1,)\n");
  for (const std::string file : {"anchors/seed_add_sum/model.json", "gpt2_small/default.pt2"}) {
    const Outcome outcome = place.run({"compile", sample(file), "--emit=graph"});
    INFO(file);
    CHECK(outcome.exit_code == 0);
    CHECK(outcome.err == "");
    CHECK(outcome.out.rfind("graph():\n    %", 0) == 0);
    CHECK(outcome.out.find("call_function[target=torch.ops.aten.") != std::string::npos);
    CHECK(outcome.out.find("\n    return (") != std::string::npos);
  }
}

TEST_CASE("dumps and times go to stderr, results to stdout") {
  Workplace place;
  const std::string graph = sample("seed_004.json");
  Outcome plain = place.run({"compile", graph, "--emit=cuda"});
  Outcome dumped = place.run({"compile", graph, "--emit=cuda", "--dump-after=lower",
                              "--dump-after=fuse-nodes", "--time-passes"});
  CHECK(dumped.exit_code == 0);
  CHECK(dumped.out == plain.out);
  CHECK(dumped.err.rfind("# after lower\nop0 -> buf0", 0) == 0);
  CHECK(count(dumped.err, "# after ") == 2);
  CHECK(dumped.err.find(" ms  lower\n") != std::string::npos);
  CHECK(dumped.err.find(" ms  total\n") != std::string::npos);
}

TEST_CASE("the graph as it was read is printed in both forms, though operators are missing") {
  Workplace place;
  const std::string folder = std::string(TSC_UNPACKED_DIR) + "/tests/graph/data/2.11/";
  std::ifstream file(folder + "loops.txt");
  std::string expected{std::istreambuf_iterator<char>(file), {}};
  REQUIRE_FALSE(expected.empty());
  Outcome text = place.run({"compile", folder + "loops.pt2", "--emit=fx"});
  CHECK(text.exit_code == 0);
  CHECK(text.out == expected + "\n");
  Outcome json = place.run({"compile", folder + "loops.pt2", "--emit=json"});
  CHECK(json.exit_code == 0);
  place.file("loops.json", json.out);
  CHECK(place.run({"compile", "loops.json", "--emit=fx"}).out == text.out);
  CHECK(place.run({"compile", "loops.json", "--emit=json"}).out == json.out);
  // Both formats get the same report.
  Outcome archive = place.run({"check", folder + "loops.pt2"});
  Outcome written = place.run({"check", "loops.json"});
  CHECK(archive.exit_code == written.exit_code);
  std::string report = archive.err;
  for (size_t at; (at = report.find(folder + "loops.pt2")) != std::string::npos;)
    report.replace(at, folder.size() + 9, "loops.json");
  CHECK(report == written.err);
}

TEST_CASE("explain says why what reads a product is not in its kernel") {
  Workplace place;
  // (y, relu(y)) of y = x @ w: the product is read twice. Of 62 columns: no template takes it.
  const auto graph = [&](const std::string &columns, const std::string &results) {
    return place.file("g.json",
                      R"({"format": "tsc-graph", "version": 1, "nodes": [
          {"name": "x", "op": "placeholder", "val": {"dtype": "float16", "size": [4096, 64]}},
          {"name": "w", "op": "placeholder", "val": {"dtype": "float16", "size": [64, )" +
                          columns + R"(]}},
          {"name": "y", "op": "call_function", "target": "aten.mm.default",
           "args": [{"node": "x"}, {"node": "w"}]},
          {"name": "z", "op": "call_function", "target": "aten.relu.default", "args": [{"node": "y"}]},
          {"name": "output", "op": "output", "args": [[)" +
                          results + "]]}]}");
  };
  const auto explain = [&](const std::string &file, const std::vector<std::string> &more = {}) {
    std::vector<std::string> arguments = {"explain", file, "--arch=sm_90", "--json"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Outcome outcome = place.run(arguments);
    INFO(outcome.err);
    REQUIRE(outcome.exit_code == 0);
    return nlohmann::json::parse(outcome.out);
  };
  const std::string z = R"({"node": "z"})", both = R"({"node": "y"}, {"node": "z"})";
  nlohmann::json report = explain(graph("64", z));
  REQUIRE(report.at("groups").size() == 1);
  nlohmann::json group = report.at("groups").at(0);
  CHECK(report.at("arch") == "sm_90");
  CHECK(group.at("library_call").is_null());
  CHECK(group.at("kernels").size() == 1);
  CHECK(group.at("members").at(1).at("nodes") == nlohmann::json({"z"}));
  CHECK(group.at("cost").at("operations") >= 2.0 * 4096 * 64 * 64);
  CHECK(group.at("decisions").at(0).at("refusal") == "fused");
  CHECK(group.at("decisions").at(0).at("detail").get<std::string>().find(": apart ") !=
        std::string::npos);

  report = explain(graph("64", both));
  REQUIRE(report.at("groups").size() == 2);
  group = report.at("groups").at(0);
  CHECK(group.at("library_call") == "extern_kernels.mm");
  CHECK(group.at("kernels").empty());
  CHECK(group.at("cost").at("operations") == 2.0 * 4096 * 64 * 64);
  CHECK(group.at("cost").at("bytes") == 2.0 * (2 * 4096 * 64 + 64 * 64));
  REQUIRE(group.at("decisions").size() == 1);
  CHECK(group.at("decisions").at(0).at("second") == "op1");
  CHECK(group.at("decisions").at(0).at("detail") ==
        "op0: its results are read by the caller, too, and have to be stored");
  const Outcome text = place.run({"explain", "g.json", "--arch=sm_90", "y"});
  CHECK(text.out.find("  without op1: no kernel of ours computes both. op0: its results "
                      "are read by the caller, too, and have to be stored\n") != std::string::npos);

  group = explain(graph("62", z)).at("groups").at(0);
  CHECK(group.at("decisions").at(0).at("detail") ==
        "op0: its matrices are not of known columns and terms in runs of 16 bytes");
  const nlohmann::json pairs = explain(graph("64", both), {"y", "z"}).at("pairs");
  REQUIRE(pairs.size() == 1);
  CHECK(pairs.at(0).at("outcome") == "apart");
  CHECK(pairs.at(0).at("decisions").at(0).at("shared_bytes") == 0);
}
