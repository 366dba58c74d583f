// The main of all test programs: Catch2's, and an exit code of its own where nothing could run.
#ifndef TSC_CATCH2_V3
#define CATCH_CONFIG_RUNNER
#endif
#include "testing/catch.h"
#include "testing/skip.h"

#include <cstddef>
#include <cstdlib>
#include <iostream>

namespace {

size_t begun = 0, skipped = 0;

#ifdef TSC_CATCH2_V3
using Listener = Catch::EventListenerBase;
#else
using Listener = Catch::TestEventListenerBase;
#endif

struct CountCases : Listener {
  using Listener::Listener;
  void testCaseStarting(const Catch::TestCaseInfo &) override { ++begun; }
};
CATCH_REGISTER_LISTENER(CountCases)

} // namespace

void tsc::testing::skip(const std::string &why) {
  ++skipped;
  std::cout << "skipped: " << why << std::endl;
}

int main(int count, char **arguments) {
  setenv("TSC_VERIFY", "1", 1);         // passes are checked as they run
  setenv("CUDA_CACHE_DISABLE", "1", 1); // what NVRTC's own cache holds comes without ptxas's report
  const int result = Catch::Session().run(count, arguments);
  if (result != 0) // Catch2 2 gives the number of failures, which may be kSkipped
    return 1;
  return skipped > 0 && skipped == begun ? tsc::testing::kSkipped : 0;
}
