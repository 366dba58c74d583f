#include "engine/arch_choice.h"

#include "testing/catch.h"

using tsc_engine::Arch;
using tsc_engine::choose_arch;

TEST_CASE("A device runs its own plan, else the newest that is not newer and fits", "[engine]") {
  const std::vector<Arch> plans = {
      {"sm_90", 200000}, {"host", 0}, {"sm_80", 90000}, {"sm_89", 90000}, {"sm_120", 90000}};
  const auto chosen = [&](const char *name, long long shared_bytes) {
    return plans[choose_arch(plans, {name, shared_bytes})].name;
  };
  CHECK(chosen("sm_90", 232448) == "sm_90");
  CHECK(chosen("sm_80", 0) ==
        "sm_80"); // its own, whatever it asks for: the device says what it lacks
  CHECK(chosen("sm_86", 101376) == "sm_80");
  CHECK(chosen("sm_100", 232448) == "sm_90");
  CHECK(chosen("sm_110", 101376) == "sm_89"); // the one for sm_90 does not fit
  CHECK(chosen("sm_121", 101376) == "sm_120");
  CHECK(chosen("host", 0) == "host");
  CHECK(chosen("sm_75", 65536) == "sm_90"); // older than all: the first
}
