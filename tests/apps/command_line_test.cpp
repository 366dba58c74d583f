// What a user meets before anything is compiled: help, versions, usage errors, exit codes, streams.
#include "tsc_process.h"

#include "testing/catch.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>

using namespace tsc;
using testing::Outcome;
using testing::sample;
using testing::Workplace;

namespace {

/// A usage error: exit code 2, nothing on stdout.
void check_usage(const Outcome &outcome, const std::string &text) {
  CHECK(outcome.exit_code == 2);
  CHECK(outcome.out == "");
  CHECK(outcome.err == text);
}

} // namespace

TEST_CASE("version and help go to stdout") {
  Workplace place;
  Outcome version = place.run({"--version"});
  CHECK(version.exit_code == 0);
  CHECK(version.out.rfind("tsc ", 0) == 0);
  CHECK(version.err == "");
  Outcome help = place.run({"--help"});
  CHECK(help.exit_code == 0);
  CHECK(help.err == "");
  for (const char *command :
       {"compile", "run", "dump-schedule", "check", "tune", "explain", "verify", "diff"}) {
    INFO(command);
    CHECK(help.out.find(command) != std::string::npos);
    Outcome own = place.run({command, "--help"});
    CHECK(own.exit_code == 0);
    CHECK(own.out.find(std::string("Usage: tsc ") + command) != std::string::npos);
    CHECK(own.err == "");
    CHECK(own.out.find(std::string("Examples:\n  tsc ") + command + " ") != std::string::npos);
    CHECK(own.out.find("\nExit codes: 0 ok, 1 numbers differ, ") != std::string::npos);
  }
}

TEST_CASE("usage errors have exit code 2 and go to stderr") {
  Workplace place;
  const std::string graph = sample("seed_004.json");
  check_usage(place.run({}), "error TSC-C025: the command line: A subcommand is required\n"
                             "  next: see tsc --help\n");
  check_usage(place.run({"run"}), "error TSC-C025: the command line: GRAPH|OUT is required\n"
                                  "  next: see tsc run --help\n");
  check_usage(place.run({"check", graph, "--bogus"}),
              "error TSC-C025: the command line: The following argument was not expected: --bogus\n"
              "  next: see tsc check --help\n");
  check_usage(place.run({"check", graph, "--log-level", "loud"}),
              "error TSC-C025: the command line: --log-level: loud not in "
              "{trace,debug,info,warn,error,off}\n"
              "  next: see tsc check --help\n");
  check_usage(place.run({"compile", graph}),
              "error TSC-C004: no output folder\n"
              "  next: give one with -o OUT, or a form to print with --emit\n");
  check_usage(place.run({"compile", graph, "-o", "out", "--emit=cuda"}),
              "error TSC-C008: -o and --emit exclude each other\n"
              "  next: leave -o out: the form goes to stdout\n");
  check_usage(
      place.run({"explain", graph, "add", "unheard_of"}),
      "error TSC-C005: nothing in the schedule is called 'unheard_of'\n"
      "  next: name an operation (op3), a buffer (buf3), a kernel or a graph node; `tsc explain "
      "GRAPH` lists them\n");
  check_usage(place.run({"compile", graph, "-o", "out", "--policy=fast"}),
              "error TSC-C002: unknown policy 'fast'\n"
              "  next: known policies: default, inductor-2.5\n");
  check_usage(place.run({"explain", graph, "--policy-option", "max_fusion_sise=3"}),
              "error TSC-C012: no policy has the option 'max_fusion_sise'\n"
              "  next: did you mean 'max_fusion_size'? options: "
              "realize_reads_threshold, realize_accumulated_reads_threshold, "
              "realize_opcount_threshold, reductions_take_values, sums_take_lookups, "
              "unroll_reductions_threshold, split_reductions, casts_in_bodies, "
              "fused_attention, compute_weights_ahead, compute_channels_once, "
              "layouts_follow_reads, scatters_choose, sorted_sums, deterministic, "
              "product_row_alignment, tf32, concatenation, max_masked_parts, "
              "max_fusion_size, fusion_memory_threshold, max_distance, "
              "max_candidates_per_buffer, max_fusion_rounds, peak_memory_factor, "
              "loop_ordering_after_fusion, columns_turn_readers, elements_turn_readers, "
              "product_templates, foreach_lists, reorder_for_peak_memory, prefetch_gathers, "
              "prefetch_bytes, "
              "bucket_bytes, product_pieces, product_pieces_percent, reorder_for_overlap, "
              "combo_kernels, combo_max_kernels, combo_max_bytes, combo_max_distance\n");
  check_usage(place.run({"explain", graph, "--policy-option", "max_fusion_size=-3"}),
              "error TSC-C013: 'max_fusion_size=-3' sets no value of max_fusion_size\n"
              "  next: write max_fusion_size=NUMBER; under the policy default it is 64\n");
  check_usage(place.run({"explain", graph, "--policy-option", "reorder_for_peak_memory=1"}),
              "error TSC-C013: 'reorder_for_peak_memory=1' sets no value of "
              "reorder_for_peak_memory\n"
              "  next: write reorder_for_peak_memory=on or =off; under the policy default it is "
              "on\n");
  check_usage(place.run({"explain", graph, "--benchmark-fusion", "gpu"}),
              "error TSC-C014: fusions are not timed on 'gpu'\n"
              "  next: devices: host, host-cuda, cuda\n");
  check_usage(place.run({"run", graph, "--inputs", "random:x"}),
              "error TSC-C010: 'random:x' is not random[:SEED]\n"
              "  next: give a seed in decimal digits, as in random:7\n");
}

TEST_CASE("a run is planned for where it runs, a program for what is asked") {
  Workplace place;
  const std::string graph = sample("seed_004.json");
  const auto archs = [&](const std::vector<std::string> &arguments) {
    const Outcome outcome = place.run(arguments);
    INFO(outcome.err);
    REQUIRE(outcome.exit_code == 0);
    const size_t begin = outcome.out.find("\"archs\"");
    return outcome.out.substr(begin, outcome.out.find(']', begin) - begin + 1);
  };
  CHECK(archs({"compile", graph, "--emit=program"}).find("sm_90") != std::string::npos);
  CHECK(archs({"compile", graph, "--emit=program", "--arch=host"}).find("host") !=
        std::string::npos);
  const Outcome outcome = place.run_after("export CUDA_VISIBLE_DEVICES=",
                                          {"compile", graph, "--emit=program", "--arch=native"});
  CHECK(outcome.exit_code == 2);
  CHECK(outcome.out == "");
  CHECK(outcome.err.rfind("error TSC-C018: there is no GPU here to plan for: ", 0) == 0);
  CHECK(outcome.err.find("  next: name the architecture that the program will run on: "
                         "--arch=sm_90\n") != std::string::npos);
}

TEST_CASE("a folder holds a plan for each architecture, and a run takes the one for it") {
  Workplace place;
  const std::string graph = sample("anchors/softmax/model.json");
  const Outcome made = place.run({"compile", graph, "--arch=sm_90", "--arch=host", "--arch=sm_90",
                                  "--arch=sm_120", "-o", "fat"});
  INFO(made.err);
  REQUIRE(made.exit_code == 0);
  CHECK(made.out.find("fat for sm_90: ") == 0);
  CHECK(made.out.find("fat for host: ") != std::string::npos);
  CHECK(made.out.find("fat for sm_120: ") != std::string::npos);
  CHECK(std::count(made.out.begin(), made.out.end(), '\n') == 3);
  for (const char *file : {"program.json", "program_host.json", "program_sm_120.json"})
    CHECK(std::filesystem::exists(place.path(std::string("fat/") + file)));
  CHECK(place.run({"run", "fat", "--device=host", "--inputs=random"}).exit_code == 0);
  CHECK(place.run({"run", graph, "--device=host", "--arch=sm_80", "--arch=host"}).exit_code == 0);

  const Outcome twice = place.run({"explain", graph, "--arch=sm_90", "--arch=sm_80"});
  CHECK(twice.exit_code == 2);
  CHECK(twice.err == "error TSC-C019: 2 architectures are given\n"
                     "  next: give one --arch; compile -o and run take several\n");
}

TEST_CASE("plans are made for a part of an architecture") {
  Workplace place;
  const std::string graph = sample("anchors/softmax/model.json");
  const std::string part = "sm_90:gigabytes_per_second=2400", option = "--arch=" + part;
  const auto time = [&](const std::string &arch) {
    const Outcome told = place.run({"explain", graph, arch, "--json"});
    INFO(told.err);
    REQUIRE(told.exit_code == 0);
    return nlohmann::json::parse(told.out);
  };
  CHECK(time(option).at("arch") == part);
  CHECK(time("--arch=sm_90").at("arch") == "sm_90");
  REQUIRE(place.run({"compile", graph, option, "-o", "own"}).exit_code == 0);
  const auto program = nlohmann::json::parse(testing::read_text(place.path("own/program.json")));
  CHECK(program.at("part") == part);
  CHECK(program.at("archs") == nlohmann::json::array({"sm_90"}));
  CHECK(place.run({"explain", "own", option}).exit_code == 0);
  CHECK(place.run({"run", "own", "--device=host"}).exit_code == 0);
  const Outcome both = place.run({"compile", graph, "--arch=sm_90", option, "-o", "both"});
  CHECK(both.exit_code == 2);
  CHECK(both.err == "error TSC-C036: " + part +
                        " and sm_90 are both parts of sm_90\n"
                        "  next: compile a folder for each, or for the slower one\n");
}

TEST_CASE("thresholds of a policy can be set one by one") {
  Workplace place;
  const std::string graph = sample("anchors/softmax/model.json");
  CHECK(
      place.run({"explain", graph, "--policy-option", "max_fusion_size=1"}).out.find("op0 + op1") ==
      std::string::npos);
  CHECK(place.run({"explain", graph}).out.find("op0 + op1") != std::string::npos);
}

TEST_CASE("misspelt commands and options name the nearest") {
  Workplace place;
  const std::string graph = sample("seed_004.json");
  check_usage(place.run({"chek", graph}),
              "error TSC-C025: the command line: A subcommand is required\n"
              "  next: did you mean check? see tsc --help\n");
  check_usage(
      place.run({"run", graph, "--input=random"}),
      "error TSC-C025: the command line: The following argument was not expected: --input=random\n"
      "  next: did you mean --inputs? see tsc run --help\n");
  check_usage(place.run({"compile", graph, "--emit=graf"}),
              "error TSC-C025: the command line: --emit: graf not in "
              "{fx,json,graph,ir,schedule,cuda,program}\n"
              "  next: see tsc compile --help\n");
}

TEST_CASE("explain offers the nearest name") {
  Workplace place;
  check_usage(
      place.run({"explain", sample("seed_004.json"), "add", "sum_2"}),
      "error TSC-C005: nothing in the schedule is called 'sum_2'\n"
      "  next: did you mean 'sum_1'? name an operation (op3), a buffer (buf3), a kernel or a graph "
      "node; `tsc explain GRAPH` lists them\n");
}

TEST_CASE("an unknown architecture is refused with the nearest known one") {
  Workplace place;
  Outcome outcome = place.run({"compile", sample("seed_004.json"), "-o", "out", "--arch=sm_12"});
  CHECK(outcome.exit_code == 2);
  CHECK(outcome.out == "");
  CHECK(outcome.err.rfind("error TSC-C001: unknown architecture 'sm_12'\n"
                          "  next: did you mean 'sm_120'? known architectures: sm_80, ",
                          0) == 0);
  CHECK_FALSE(std::filesystem::exists(place.path("out")));
}

TEST_CASE("an unknown pass lists all of them, and no folder is written") {
  Workplace place;
  Outcome outcome =
      place.run({"compile", sample("seed_004.json"), "-o", "out", "--dump-after=lowr"});
  CHECK(outcome.exit_code == 2);
  CHECK(outcome.out == "");
  CHECK(outcome.err.rfind("error TSC-C003: no pass is called 'lowr'\n"
                          "  next: passes: inline_effects, inline_subgraphs, write_results, "
                          "cut_by_tensors, check_operators, ",
                          0) == 0);
  for (const char *pass : {"decompose", "lower", "fuse-nodes", "generate"})
    CHECK(outcome.err.find(pass) != std::string::npos);
  CHECK_FALSE(std::filesystem::exists(place.path("out")));
}

TEST_CASE("broken graph files have exit code 3 and name the place") {
  Workplace place;
  Outcome outcome = place.run({"run", "nope.json"});
  CHECK(outcome.exit_code == 3);
  CHECK(outcome.out == "");
  CHECK(outcome.err ==
        "error TSC-T002: cannot read the file: No such file or directory\n  at nope.json\n");
  place.file("torn.json", testing::read_text(sample("seed_004.json")).substr(0, 400));
  outcome = place.run({"check", "torn.json"});
  CHECK(outcome.exit_code == 3);
  CHECK(outcome.out == "");
  CHECK(outcome.err.rfind("error TSC-G002: ", 0) == 0);
  CHECK(outcome.err.find("torn.json") != std::string::npos);
}

TEST_CASE("a folder that tsc did not write is no graph") {
  Workplace place;
  check_usage(place.run({"run", "."}),
              "error TSC-C009: this folder was not written by tsc compile\n  at .\n"
              "  next: give a graph, or the folder OUT of tsc compile -o OUT\n");
}

TEST_CASE("logging goes to stderr and is quiet unless asked for") {
  Workplace place;
  const std::string graph = sample("seed_004.json");
  Outcome quiet = place.run({"dump-schedule", graph, "--no-code"});
  CHECK(quiet.err == "");
  Outcome chatty = place.run({"--log-level=info", "dump-schedule", graph, "--no-code"});
  CHECK(chatty.out == quiet.out);
  CHECK(chatty.err == "info: " + graph + ": 5 nodes\n");
}

TEST_CASE("progress is shown on a terminal only, on one line that goes away") {
  Workplace place;
  const std::string graph = sample("seed_004.json");
  const std::vector<std::string> arguments = {"run", graph, "--device=host", "--inputs=random"};
  const Outcome piped = place.run(arguments);
  CHECK(piped.exit_code == 0);
  CHECK(piped.err == "");
  const Outcome seen = place.run_on_terminal(arguments);
  CHECK(seen.exit_code == 0);
  const std::string wipe = "\r\x1b[K";
  CHECK(seen.err.rfind(wipe + "reading " + graph + " ...", 0) == 0);
  CHECK(seen.err.find(wipe + "compiled up to lower ...") != std::string::npos);
  CHECK(seen.err.find(wipe + "compiling kernels ...") != std::string::npos);
  CHECK(seen.err.find('\n') == std::string::npos);
  CHECK(seen.err.substr(seen.err.size() - wipe.size()) == wipe);
  // An error stands alone on its lines.
  const Outcome refused = place.run_on_terminal({"run", "nope.json"});
  CHECK(refused.exit_code == 3);
  CHECK(
      refused.err ==
      wipe + "reading nope.json ..." + wipe +
          "error TSC-T002: cannot read the file: No such file or directory\r\n  at nope.json\r\n");
}

TEST_CASE("options never swallow the graph") {
  Workplace place;
  const std::string graph = sample("anchors/softmax/model.json");
  place.file("sm_90", testing::read_text(graph)); // a file may be called as a value is
  for (const std::vector<std::string> &words : {std::vector<std::string>{"--arch", "sm_90", graph},
                                                {"--arch", "sm_90", "sm_90"},
                                                {"--policy-option", "max_fusion_size=8", graph},
                                                {"--dump-after", "lower", graph}}) {
    std::vector<std::string> arguments = {"compile", "--emit=program"};
    arguments.insert(arguments.end(), words.begin(), words.end());
    const Outcome outcome = place.run(arguments);
    INFO(words[0] << "\n" << outcome.err);
    CHECK(outcome.exit_code == 0);
  }
  // A lock that is not there is asked for: the graph was not taken for one.
  const Outcome lock = place.run({"compile", "--lock", "none.lock", graph, "-o", "out"});
  CHECK(lock.exit_code == 3);
  CHECK(lock.err.find("none.lock") != std::string::npos);
  const auto samples = [&](const std::vector<std::string> &words) {
    std::vector<std::string> arguments = {"run", "--device=host", "--json"};
    arguments.insert(arguments.end(), words.begin(), words.end());
    const Outcome outcome = place.run(arguments);
    INFO(outcome.err);
    REQUIRE(outcome.exit_code == 0);
    return nlohmann::json::parse(outcome.out).at("samples").get<int>();
  };
  CHECK(samples({"--bench", graph}) == 100);
  CHECK(samples({"--bench", "3", graph}) == 3);
  CHECK(samples({"--bench=3", graph}) == 3);
  CHECK(samples({graph, "--bench", "3"}) == 3);
}

TEST_CASE("options that would do nothing are refused") {
  Workplace place;
  const std::string graph = sample("anchors/softmax/model.json");
  check_usage(place.run({"run", graph, "--device=reference", "--bench", "--reverse"}),
              "error TSC-C024: --bench, --reverse do nothing on the reference, which computes "
              "operation by operation\n"
              "  next: leave it out, or run on --device=host or --device=cuda\n"
              "error TSC-C024: --reverse does nothing but with --device=host --plan=cuda, which "
              "runs a block's threads in an order\n"
              "  next: leave it out, or add --device=host --plan=cuda\n");
  check_usage(place.run({"run", graph, "--device=cuda", "--plan=serial"}),
              "error TSC-C024: --plan does nothing on the GPU, which has one plan\n"
              "  next: leave it out, or run on --device=host\n");
  check_usage(place.run({"run", graph, "--device=host", "--no-graphs"}),
              "error TSC-C024: --no-graphs does nothing but on the GPU, which has CUDA graphs\n"
              "  next: leave it out, or run on --device=cuda\n");
  check_usage(place.run({"compile", graph, "--emit=fx", "--arch=sm_90", "--policy=default"}),
              "error TSC-C024: --policy, --arch do nothing on the graph as it was read: nothing "
              "is compiled\n"
              "  next: leave it out, or emit a form of the compilation: --emit=graph, ir, "
              "schedule, cuda, program\n");
  check_usage(place.run({"compile", graph, "--emit=cuda", "--weights=random"}),
              "error TSC-C024: --weights does nothing with --emit: no weights are written\n"
              "  next: leave it out, or write a folder with -o\n");
  check_usage(place.run({"dump-schedule", graph, "--stage=init", "--no-code"}),
              "error TSC-C024: --no-code does nothing on this stage, which is no log of "
              "TorchInductor's form\n"
              "  next: leave it out, or take --stage=pre-fusion or post-fusion\n");
  REQUIRE(place.run({"compile", graph, "-o", "out"}).exit_code == 0);
  check_usage(place.run({"run", "out", "--arch=sm_90", "--policy=default"}),
              "error TSC-C024: --policy, --arch do nothing on a folder, which was compiled "
              "before\n"
              "  next: give it to tsc compile, or run the graph\n");
  check_usage(place.run({"run", graph, "--seed=-1"}),
              "error TSC-C025: the command line: --seed: '-1' is no whole number from 0 on\n"
              "  next: see tsc run --help\n");
  check_usage(place.run_after("export TSC_LOG=loud", {"check", graph}),
              "error TSC-C016: TSC_LOG is 'loud'\n"
              "  next: give trace, debug, info, warn, error, off, or unset it\n");
}

TEST_CASE("with --json errors are one object on stdout, with the same exit codes") {
  Workplace place;
  const auto check_error = [&](const std::vector<std::string> &arguments, int exit_code,
                               const std::string &code) {
    const Outcome outcome = place.run(arguments);
    INFO(outcome.out << outcome.err);
    CHECK(outcome.exit_code == exit_code);
    CHECK(outcome.err == "");
    const nlohmann::json report = nlohmann::json::parse(outcome.out);
    CHECK(report.at("exit_code") == exit_code);
    const nlohmann::json &problem = report.at("problems").at(0);
    CHECK(problem.at("code") == code);
    for (const char *key : {"message", "file", "place", "node", "source_line", "next_step"})
      CHECK(problem.at(key).is_string());
    return problem;
  };
  CHECK(check_error({"run", "--json"}, 2, "TSC-C025").at("next_step") == "see tsc run --help");
  CHECK(check_error({"run", "nope.json", "--json"}, 3, "TSC-T002").at("file") == "nope.json");
  check_error({"compile", sample("seed_004.json"), "--json"}, 2, "TSC-C004");
  check_error({"run", sample("seed_004.json"), "--json", "--device=reference", "--bench"}, 2,
              "TSC-C024");
  place.file("bad.json", R"({"format": "tsc-graph", "version": 1, "nodes": [
    {"name": "x", "op": "placeholder", "val": {"dtype": "float32", "size": [2]}},
    {"name": "a", "op": "call_function", "target": "aten.expp.default", "args": [{"node": "x"}]},
    {"name": "output", "op": "output", "args": [[{"node": "a"}]]}]})");
  CHECK(check_error({"dump-schedule", "bad.json", "--json"}, 4, "TSC-O001").at("operator") ==
        "aten.expp.default");
  const Outcome form = place.run({"compile", sample("seed_004.json"), "--emit=cuda", "--json"});
  CHECK(form.exit_code == 0);
  const nlohmann::json object = nlohmann::json::parse(form.out);
  CHECK(object.at("form") == "cuda");
  CHECK(object.at("text") == place.run({"compile", sample("seed_004.json"), "--emit=cuda"}).out);
}
