#include "support/diagnostic.h"

#include "testing/catch.h"

#include <algorithm>
#include <random>

namespace {

size_t distance(const std::string &a, const std::string &b) {
  std::vector<std::vector<size_t>> cells(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i)
    for (size_t j = 0; j <= b.size(); ++j)
      cells[i][j] = i == 0   ? j
                    : j == 0 ? i
                             : std::min({cells[i - 1][j] + 1, cells[i][j - 1] + 1,
                                         cells[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
  return cells[a.size()][b.size()];
}

} // namespace

TEST_CASE("the nearest name is that of the whole table of distances") {
  std::mt19937 random(7);
  const auto word = [&] {
    std::string text;
    for (size_t length = random() % 14; length > 0; --length)
      text += static_cast<char>('a' + random() % 3);
    return text;
  };
  for (int i = 0; i < 5000; ++i) {
    const std::string given = word();
    std::vector<std::string> names(random() % 6);
    std::generate(names.begin(), names.end(), word);
    std::string nearest;
    size_t least = std::max<size_t>(2, given.size() / 4) + 1;
    for (const std::string &name : names)
      if (const size_t found = distance(given, name); found < least) {
        least = found;
        nearest = name;
      }
    REQUIRE(tsc::support::did_you_mean(given, names) == nearest);
  }
}
