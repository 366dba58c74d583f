// OUT folders that are broken, and places where nothing can be written: a coded error, and nothing
// half done.
#include "tsc_process.h"

#include "testing/catch.h"

#include <algorithm>
#include <filesystem>

using namespace tsc;
namespace fs = std::filesystem;
using testing::Outcome;
using testing::ramp;
using testing::sample;
using testing::Workplace;

namespace {

const std::string kGraph = sample("seed_004.json");

/// Names below `folder`, sorted.
std::vector<std::string> names_in(const fs::path &folder) {
  std::vector<std::string> names;
  for (const fs::directory_entry &entry : fs::recursive_directory_iterator(folder))
    if (entry.is_regular_file())
      names.push_back(fs::relative(entry.path(), folder).string());
  std::sort(names.begin(), names.end());
  return names;
}

/// A folder "out" with weights.
void compile_linear(const Workplace &place) {
  place.file("linear.json", testing::linear_graph());
  const Outcome compiled = place.run({"compile", "linear.json", "-o", "out", "--weights=random:3"});
  REQUIRE(compiled.exit_code == 0);
}

Outcome run(const Workplace &place) {
  return place.run({"run", "out", "--device=host", "--inputs=random", "--outputs=y.npz"});
}

/// Every line that starts an error has a code; nothing has been written.
void check_refused(const Workplace &place, const Outcome &outcome) {
  CHECK(outcome.exit_code == 3);
  CHECK(outcome.out == "");
  CHECK(outcome.err.rfind("error TSC-", 0) == 0);
  CHECK_FALSE(fs::exists(place.path("y.npz")));
}

} // namespace

TEST_CASE("every file of a folder that is missing is named") {
  Workplace place;
  compile_linear(place);
  REQUIRE(run(place).exit_code == 0);
  fs::remove(place.path("y.npz"));
  const std::vector<std::string> names = names_in(place.path("out"));
  REQUIRE(names.size() > 30);
  for (const std::string &name : names) {
    INFO(name);
    fs::rename(place.path("out/" + name), place.path("kept"));
    const Outcome outcome = run(place);
    if (name == "files.txt") { // a folder of an older tsc has none
      CHECK(outcome.exit_code == 0);
      fs::remove(place.path("y.npz"));
    } else {
      check_refused(place, outcome);
      CHECK(outcome.err == "error TSC-E005: the folder lacks " + name +
                               "\n  at out\n"
                               "  next: copy the whole folder, or write it again with tsc "
                               "compile\n");
    }
    fs::rename(place.path("kept"), place.path("out/" + name));
  }
  fs::remove(place.path("out/model.cpp"));
  fs::remove(place.path("out/weights.safetensors"));
  const Outcome both = run(place);
  CHECK(both.err.find("the folder lacks model.cpp\n") != std::string::npos);
  CHECK(both.err.find("the folder lacks weights.safetensors\n") != std::string::npos);
}

TEST_CASE("every file of a folder that is cut off is refused, or is none that a run reads") {
  Workplace place;
  compile_linear(place);
  REQUIRE(run(place).exit_code == 0);
  const std::string expected = testing::read_text(place.path("y.npz"));
  fs::remove(place.path("y.npz"));
  for (const std::string &name : names_in(place.path("out"))) {
    const std::string whole = testing::read_text(place.path("out/" + name));
    for (const size_t bytes : {size_t{0}, whole.size() / 2}) {
      INFO(name << " cut to " << bytes);
      place.file("out/" + name, whole.substr(0, bytes));
      const Outcome outcome = run(place);
      // Without its first line the list is none; the name that it breaks off in is missing.
      const bool is_read = name == "program.json" || name == "weights.safetensors" ||
                           (name == "files.txt" && bytes > 0);
      if (is_read) {
        check_refused(place, outcome);
      } else {
        CHECK(outcome.exit_code == 0);
        CHECK(testing::read_text(place.path("y.npz")) == expected);
        fs::remove(place.path("y.npz"));
      }
    }
    place.file("out/" + name, whole);
  }
}

TEST_CASE("a folder of another version, or with another's weights, is refused") {
  Workplace place;
  compile_linear(place);
  const std::string program = testing::read_text(place.path("out/program.json"));
  std::string other = program;
  const size_t at = other.find("\"version\": 1");
  REQUIRE(at != std::string::npos);
  place.file("out/program.json", other.replace(at, 12, "\"version\": 2"));
  Outcome outcome = run(place);
  check_refused(place, outcome);
  CHECK(outcome.err.rfind("error TSC-P001: the program has version 2, this tsc reads 1\n", 0) == 0);
  place.file("out/program.json", program);

  place.tensors("out/weights.safetensors", {{"fc.weight", ramp({1}, 0, 1)}});
  outcome = run(place);
  check_refused(place, outcome);
  CHECK(outcome.err.find("error TSC-R122: weight 'fc.bias' is missing\n") != std::string::npos);

  fs::remove(place.path("out/program.json"));
  fs::create_directory(place.path("out/program.json"));
  outcome = run(place);
  check_refused(place, outcome);
  CHECK(outcome.err == "error TSC-E004: the program cannot be read\n  at out/program.json\n"
                       "  next: give a folder that tsc compile wrote\n");
}

TEST_CASE("a full disk leaves nothing behind") {
  Workplace place;
  place.tensors("in.npz", {{"input_0", ramp({64, 128}, 0, 1)}, {"input_1", ramp({64, 128}, 0, 1)}});
  REQUIRE(place.run({"compile", kGraph, "-o", "out"}).exit_code == 0);
  const std::vector<std::string> before = names_in(place.path("out"));
  // Writes fail beyond 4 blocks of 512 bytes.
  const std::string limit = "trap '' XFSZ; ulimit -f 4";
  for (const char *folder : {"out", "fresh"}) {
    const Outcome outcome = place.run_after(limit, {"compile", kGraph, "-o", folder});
    CHECK(outcome.exit_code == 2);
    CHECK(outcome.out == "");
    CHECK(outcome.err.rfind("error TSC-E002: cannot write: File too large\n", 0) == 0);
  }
  CHECK(names_in(place.path("out")) == before);
  for (const fs::directory_entry &entry : fs::directory_iterator(place.path(".")))
    CHECK(entry.path().filename().string().find("fresh") == std::string::npos);
  CHECK(place.run({"run", "out", "--device=host", "--inputs=in.npz"}).exit_code == 0);
  // An output of 4 KiB.
  place.file("copy.json", R"({"format": "tsc-graph", "version": 1, "name": "copy",
    "nodes": [{"name": "x", "op": "placeholder", "val": {"dtype": "float32", "size": [1024]}},
      {"name": "y", "op": "call_function", "target": "aten.neg.default", "args": [{"node": "x"}]},
      {"name": "output", "op": "output", "args": [[{"node": "y"}]]}],
    "signature": {"inputs": [{"node": "x", "kind": "user"}],
      "outputs": [{"kind": "user", "value": {"node": "y"}}]}})");
  for (const char *file : {"y.npz", "y.safetensors", "y"}) {
    const Outcome outcome = place.run_after(
        limit, {"run", "copy.json", "--device=reference", "--inputs=random", "--outputs", file});
    INFO(file << outcome.err);
    CHECK(outcome.exit_code == 3);
    CHECK(outcome.out == "");
    CHECK(outcome.err.rfind("error TSC-T005: cannot write the ", 0) == 0);
    CHECK(outcome.err.find(".part-") == std::string::npos);
    for (const fs::directory_entry &entry : fs::directory_iterator(place.path(".")))
      CHECK(entry.path().filename().string().rfind("y", 0) == std::string::npos);
  }
}

TEST_CASE("a place that cannot be written is named") {
  Workplace place;
  const Outcome outputs = place.run(
      {"run", kGraph, "--device=reference", "--inputs=random", "--outputs=nowhere/y.safetensors"});
  CHECK(outputs.exit_code == 3);
  CHECK(outputs.out == "");
  CHECK(outputs.err == "error TSC-T005: cannot write the file: No such file or directory\n"
                       "  at nowhere/y.safetensors\n");
  const Outcome folder = place.run({"compile", kGraph, "-o", "/proc/out"});
  CHECK(folder.exit_code == 2);
  CHECK(folder.err == "error TSC-E002: cannot write: No such file or directory\n  at /proc/out\n"
                      "  next: choose another folder with -o, or make room there\n");
}

TEST_CASE("memory that runs out is an error of its own") {
  Workplace place;
  place.file("huge.json", R"({"format": "tsc-graph", "version": 1, "name": "huge",
    "nodes": [{"name": "x", "op": "placeholder", "val": {"dtype": "float32", "size": [8589934592]}},
      {"name": "y", "op": "call_function", "target": "aten.neg.default", "args": [{"node": "x"}]},
      {"name": "output", "op": "output", "args": [[{"node": "y"}]]}],
    "signature": {"inputs": [{"node": "x", "kind": "user"}],
      "outputs": [{"kind": "user", "value": {"node": "y"}}]}})");
  const Outcome outcome = place.run_after("ulimit -v 4000000",
                                          {"run", "huge.json", "--device=host", "--inputs=random"});
  CHECK(outcome.exit_code == 5);
  CHECK(outcome.out == "");
  CHECK(outcome.err ==
        "error TSC-R001: out of memory: a tensor float32[8589934592] needs 34359738368 bytes\n"
        "  next: free memory, raise its limit (ulimit -v), or use smaller sizes\n");
}
