// docs/operators.md is what the table says. TSC_REFRESH_GOLDEN=1 writes it anew.
#include "ops/table/operator.h"
#include "testing/catch.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

using namespace tsc;

TEST_CASE("docs/operators.md lists the table") {
  const std::filesystem::path path =
      std::filesystem::path(TSC_SOURCE_DIR) / "docs" / "operators.md";
  if (std::getenv("TSC_REFRESH_GOLDEN"))
    std::ofstream(path) << ops::operators_markdown();
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  CHECK(text.str() == ops::operators_markdown());
}
