// tsc completion and tsc manual; standard input in the place of files.
#include "tsc_process.h"

#include "support/text.h"
#include "testing/catch.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>

using namespace tsc;
using testing::Outcome;
using testing::Workplace;

namespace {

const std::vector<std::string> kCommands = {"compile", "run",        "dump-schedule", "check",
                                            "tune",    "explain",    "report",        "verify",
                                            "diff",    "completion", "manual"};

/// What bash offers for the words of a command line, of which the last is being typed.
std::vector<std::string> offered(const Workplace &place, const std::string &words) {
  const std::string script = place.path("completion.bash"), out = place.path("offered");
  std::ofstream(place.path("ask.bash"))
      << "source " << script << "\nCOMP_WORDS=(" << words << ")\n"
      << "COMP_CWORD=$((${#COMP_WORDS[@]} - 1))\n_tsc\nprintf '%s\\n' \"${COMPREPLY[@]}\" > " << out
      << "\n";
  REQUIRE(std::system(("bash " + place.path("ask.bash")).c_str()) == 0);
  std::vector<std::string> lines = support::split(testing::read_text(out), '\n');
  while (!lines.empty() && lines.back().empty())
    lines.pop_back();
  return lines;
}

using Words = std::vector<std::string>;

/// What a page of the checkout holds; TSC_REFRESH_GOLDEN=1 writes it.
void check_page(const std::string &relative, const std::string &text) {
  const std::string path = std::string(TSC_SOURCE_DIR) + "/" + relative;
  const char *refresh = std::getenv("TSC_REFRESH_GOLDEN");
  if (refresh && *refresh == '1') {
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    std::ofstream(path) << text;
  } else {
    CHECK((testing::read_text(path) == text ? "" : relative + " is not what tsc manual prints") ==
          "");
  }
}

} // namespace

TEST_CASE("bash completes commands, options and the words that options take") {
  Workplace place;
  place.file("completion.bash", place.run({"completion", "bash"}).out);
  Words commands = offered(place, "tsc ''");
  for (const std::string &command : kCommands)
    CHECK(std::count(commands.begin(), commands.end(), command) == 1);
  CHECK(offered(place, "tsc ru") == Words{"run"});
  CHECK(offered(place, "tsc run --dev") == Words{"--device"});
  CHECK(offered(place, "tsc run --device ''") == Words{"reference", "host", "cuda"});
  CHECK(offered(place, "tsc run model.pt2 --device h") == Words{"host"});
  CHECK(offered(place, "tsc verify --device ''") == Words{"host", "cuda"});
  CHECK(offered(place, "tsc compile --log") == Words{"--log-level"});
  CHECK(offered(place, "tsc completion ''") == Words{"bash", "zsh", "fish"});
  place.file("model.pt2", "");
  CHECK(offered(place, "tsc run " + place.path("model.p")) == Words{place.path("model.pt2")});
}

TEST_CASE("every shell is told every option of every command") {
  Workplace place;
  const std::string zsh = place.run({"completion", "zsh"}).out,
                    fish = place.run({"completion", "fish"}).out;
  for (const std::string &command : kCommands) {
    CHECK(zsh.find("\n  " + command + ")\n") != std::string::npos);
    CHECK(fish.find(" -a " + command + " -d ") != std::string::npos);
    // --help is the same table, printed by CLI11 itself.
    for (const std::string &line : support::split(place.run({command, "--help"}).out, '\n')) {
      const size_t at = line.find("--");
      if (line.rfind("  -", 0) != 0 || at == std::string::npos)
        continue;
      const std::string option = line.substr(at, line.find_first_of(" ,", at) - at);
      INFO(command << " " << option);
      CHECK(zsh.find("'" + option + "[") + zsh.find("'*" + option + "[") != 2 * std::string::npos);
      CHECK(fish.find(" -l " + option.substr(2)) != std::string::npos);
    }
  }
  CHECK(place.run({"completion", "tcsh"}).exit_code == 2);
}

TEST_CASE("the man page and the pages of commands are those that tsc prints") {
  Workplace place;
  check_page("docs/tsc.1", place.run({"manual", "man"}).out);
  for (const std::string &command : kCommands)
    check_page("docs/commands/" + command + ".md", place.run({"manual", "markdown", command}).out);
  const Outcome unknown = place.run({"manual", "markdown", "fly"});
  CHECK(unknown.exit_code == 2);
  CHECK(unknown.err ==
        "error TSC-C072: no command is called 'fly'\n  next: name one of: "
        "compile, run, dump-schedule, check, tune, explain, report, verify, diff, completion, "
        "manual\n");
  CHECK(place.run({"manual", "markdown"}).err.rfind("error TSC-C072: no command is named\n", 0) ==
        0);
}

TEST_CASE("every option that a page shows is one of its command") {
  Workplace place;
  std::map<std::string, std::string> pages;
  for (const std::string &command : kCommands)
    pages[command] = place.run({"manual", "markdown", command}).out;
  std::vector<std::string> files = {std::string(TSC_SOURCE_DIR) + "/README.md"};
  for (const auto &entry :
       std::filesystem::directory_iterator(std::string(TSC_SOURCE_DIR) + "/docs"))
    if (entry.path().extension() == ".md")
      files.push_back(entry.path().string());
  size_t options = 0;
  for (const std::string &file : files)
    for (std::string line : support::split(testing::read_text(file), '\n')) {
      line = line.substr(std::min(line.find_first_not_of(" $"), line.size()));
      const std::vector<std::string> words = support::split(line.substr(0, line.find(" #")), ' ');
      if (words.size() < 2 || words[0] != "tsc" || pages.count(words[1]) == 0)
        continue;
      for (const std::string &word : words) {
        if (word.rfind("--", 0) != 0)
          continue;
        const std::string name = word.substr(0, word.find_first_of("=,;:)`"));
        const std::string &page = pages.at(words[1]);
        INFO(file << ": " << line << ": " << name);
        CHECK((page.find("`" + name + "`") != std::string::npos ||
               page.find("`" + name + " ") != std::string::npos ||
               page.find("," + name + "`") != std::string::npos ||
               page.find("," + name + " ") != std::string::npos || name == "--help"));
        ++options;
      }
    }
  CHECK(options > 30);
}

TEST_CASE("inputs, weights and expected values may come from standard input, one of them") {
  Workplace place;
  place.file("linear.json", testing::linear_graph());
  place.tensors("x.safetensors", {{"x", testing::ramp({2, 4}, 0, 1)}});
  place.tensors("w.npz", {{"fc.weight", testing::ramp({3, 4}, 0, 0.5)},
                          {"fc.bias", testing::ramp({3}, 1, 0)}});
  const std::vector<std::string> run = {"run", "linear.json", "--device=reference"};
  const auto from = [&](const std::string &file, const std::vector<std::string> &more) {
    std::vector<std::string> arguments = run;
    arguments.insert(arguments.end(), more.begin(), more.end());
    return place.run_after("exec < " + file, arguments);
  };
  Outcome outcome = from("x.safetensors", {"--inputs=-", "--weights=w.npz", "--outputs=y.npz"});
  INFO(outcome.err);
  REQUIRE(outcome.exit_code == 0);
  CHECK(from("w.npz", {"--inputs=x.safetensors", "--weights", "-", "--expect=y.npz"}).exit_code ==
        0);
  CHECK(from("y.npz", {"--inputs=x.safetensors", "--weights=w.npz", "--expect", "-"}).exit_code ==
        0);
  CHECK(from("w.npz", {"--inputs=x.safetensors", "--weights=w.npz", "--expect", "-"}).exit_code ==
        3);
  outcome = from("w.npz", {"--inputs=-", "--weights=-"});
  CHECK(outcome.exit_code == 2);
  CHECK(outcome.err == "error TSC-C071: only one of --inputs, --weights can be standard input\n"
                       "  next: give a file for the others\n");
}
