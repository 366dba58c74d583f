// The cuda texts of the sample graphs against tests/golden/GRAPH/cuda.txt. A change of them is
// meant to be seen: TSC_REFRESH_GOLDEN=1 in the environment writes the files anew, and the diff is
// what is reviewed.
#include "golden_kernels.h"
#include "testing/catch.h"

#include <cstdlib>
#include <fstream>
#include <sstream>

using namespace tsc;

namespace {

std::string texts_of(const program::Program &program) {
  std::string text;
  for (const program::Kernel &kernel : program.kernels) {
    text += kernel.cuda.text;
    text += "\n";
  }
  return text;
}

std::string read(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

/// The first line that differs, for the message.
std::string first_difference(const std::string &golden, const std::string &now) {
  std::istringstream left(golden), right(now);
  std::string a, b;
  for (int line = 1;; ++line) {
    const bool more_left = static_cast<bool>(std::getline(left, a));
    const bool more_right = static_cast<bool>(std::getline(right, b));
    if (!more_left && !more_right)
      return "";
    if (a != b || more_left != more_right)
      return "line " + std::to_string(line) + "\n  golden: " + (more_left ? a : "(ends)") +
             "\n  now:    " + (more_right ? b : "(ends)");
  }
}

} // namespace

TEST_CASE("kernels of the sample graphs are the golden ones") {
  const char *refresh = std::getenv("TSC_REFRESH_GOLDEN");
  for (const test::GoldenGraph &graph : test::golden_graphs()) {
    const std::string path =
        std::string(TSC_SOURCE_DIR) + "/tests/golden/" + graph.name + "/cuda.txt";
    const std::string now = texts_of(test::compile_golden(graph));
    if (refresh && std::string(refresh) == "1") {
      std::ofstream file(path, std::ios::binary);
      file << now;
      file.close();
      REQUIRE(file.good());
    }
    const std::string golden = read(path);
    INFO(path << " differs (TSC_REFRESH_GOLDEN=1 writes it anew): "
              << first_difference(golden, now));
    CHECK(golden == now);
  }
}
