#include "ranks/group_table.h"
#include "support/diagnostic.h"

#include "testing/catch.h"

using namespace tsc;
using ranks::GroupTable;

namespace {

std::string problem(int64_t world, const std::vector<std::string> &groups,
                    const std::string &mesh = "") {
  try {
    ranks::make_group_table(world, groups, mesh);
  } catch (const support::UserError &error) {
    return error.diagnostics()[0].code + ": " + error.diagnostics()[0].message;
  }
  return "";
}

} // namespace

TEST_CASE("groups are lists of ranks, or dimensions of a mesh", "[ranks]") {
  const GroupTable table = ranks::make_group_table(8, {"odd=1,3,5,7/0,2,4,6"}, "a=2,b=4");
  CHECK(table.members("odd", 4) == std::vector<int64_t>{0, 2, 4, 6});
  CHECK(table.members("a", 5) == std::vector<int64_t>{1, 5});
  CHECK(table.members("b", 5) == std::vector<int64_t>{4, 5, 6, 7});
  CHECK(table.members("all", 5) == std::vector<int64_t>{0, 1, 2, 3, 4, 5, 6, 7});
  CHECK(table.text() == "a=0,4/1,5/2,6/3,7 b=0,1,2,3/4,5,6,7 odd=1,3,5,7/0,2,4,6 of 8");
  CHECK(ranks::make_group_table(3, {}, "").text() == "of 3");
  CHECK(ranks::make_group_table(8, {}, "x=2,y=2,z=2").members("y", 3) ==
        std::vector<int64_t>{1, 3});
}

TEST_CASE("groups that cannot be are refused", "[ranks]") {
  CHECK(problem(2, {"0,1"}) == "TSC-C051: --group '0,1' has no name");
  CHECK(problem(2, {"a=0,2"}) == "TSC-C051: --group 'a=0,2' has '2', no rank of 0 to 1");
  CHECK(problem(2, {"a=0,1/1"}) == "TSC-C051: --group 'a=0,1/1' has rank 1 twice");
  CHECK(problem(3, {"a=0,1/2"}) == "TSC-C051: --group 'a=0,1/2' has lists of different lengths");
  CHECK(problem(3, {"a=0,1"}) == "TSC-C051: --group 'a=0,1' leaves out rank 2");
  CHECK(problem(2, {"a=0,1", "a=1,0"}) ==
        "TSC-C051: --group 'a=1,0' describes a group for the second time");
  CHECK(problem(4, {}, "a=2") == "TSC-C051: --mesh 'a=2' does not have 4 ranks");
  CHECK(problem(4, {}, "a=2,2") == "TSC-C051: --mesh 'a=2,2' has '2', which is no NAME=SIZE");
  CHECK(problem(4, {}, "a=2,a=2") ==
        "TSC-C051: --mesh 'a=2,a=2' describes the group 'a' for the second time");
}
