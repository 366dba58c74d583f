// What the pages of docs/ show is what tsc prints today: every block
//
//     ```console
//     $ tsc ARGUMENTS
//     OUTPUT
//     ```
//
// is run, `graphs/` standing for the sample graphs. TSC_REFRESH_GOLDEN=1 writes the pages anew.
#include "tsc_process.h"

#include "support/text.h"
#include "testing/catch.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>

using namespace tsc;

namespace {

const std::string kBegin = "```console\n$ tsc ", kEnd = "```\n";

std::vector<std::string> pages() {
  std::vector<std::string> paths;
  for (const auto &entry :
       std::filesystem::directory_iterator(std::string(TSC_SOURCE_DIR) + "/docs"))
    if (entry.path().extension() == ".md")
      paths.push_back(entry.path().string());
  std::sort(paths.begin(), paths.end());
  return paths;
}

std::string output_of(const std::string &command) {
  std::vector<std::string> arguments = support::split(command, ' ');
  for (std::string &argument : arguments)
    if (support::starts_with(argument, "graphs/"))
      argument = testing::sample(argument.substr(7));
  const testing::Outcome outcome = testing::Workplace().run(arguments);
  INFO(command << "\n" << outcome.err);
  CHECK(outcome.exit_code == 0);
  return outcome.out;
}

/// The page with the output of every command put in place.
std::string with_outputs(const std::string &page, size_t &commands) {
  std::string result;
  size_t at = 0;
  for (size_t begin; (begin = page.find(kBegin, at)) != std::string::npos; ++commands) {
    const size_t command = begin + kBegin.size();
    const size_t output = page.find('\n', command) + 1;
    const size_t end = page.find(kEnd, output);
    REQUIRE(end != std::string::npos);
    result += page.substr(at, output - at);
    result += output_of(page.substr(command, output - 1 - command));
    at = end;
  }
  return result + page.substr(at);
}

} // namespace

TEST_CASE("the pages show what tsc prints") {
  const char *refresh = std::getenv("TSC_REFRESH_GOLDEN");
  size_t commands = 0;
  for (const std::string &path : pages()) {
    const std::string page = testing::read_text(path);
    const std::string expected = with_outputs(page, commands);
    if (refresh && *refresh == '1')
      std::ofstream(path) << expected;
    else
      CHECK((page == expected ? "" : path + " is not what tsc prints") == "");
  }
  CHECK(commands >= 3);
}
