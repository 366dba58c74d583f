// NCCL as it is found, or not, where there need not be a GPU.
#include "runtime/cuda_module.h"
#include "runtime/cuda_ranks.h"

#include "testing/catch.h"
#include "testing/skip.h"

#include <cstdlib>

using namespace tsc;

namespace {

/// A rank of a world of one.
ranks::Place alone() {
  ranks::Place place;
  place.port = ranks::port_of(ranks::listen_on(0, true).get());
  return place;
}

} // namespace

TEST_CASE("NCCL that is missing is an error of its own") {
  std::string why;
  if (runtime::load_cuda_module(why) == nullptr)
    testing::skip(why);
  const std::string path = std::getenv("TSC_NCCL") == nullptr ? "" : std::getenv("TSC_NCCL");
  setenv("TSC_NCCL", "/nowhere/libnccl.so.2", 1);
  std::string problem;
  {
    ranks::World world(alone(), {});
    try {
      runtime::make_cuda_ranks(world, {}, {"0"}, 0);
    } catch (const support::UserError &error) {
      problem = error.what();
    }
    world.leave();
  }
  path.empty() ? unsetenv("TSC_NCCL") : setenv("TSC_NCCL", path.c_str(), 1);
  CHECK(problem.rfind("error TSC-R048: rank 0: NCCL cannot be used: CUDA's library "
                      "/nowhere/libnccl.so.2 cannot be loaded (",
                      0) == 0);
}

TEST_CASE("a rank without a GPU is told how many there are") {
  std::string why;
  const int count = runtime::cuda_device_count(why);
  try {
    runtime::need_cuda_device(3, 1000);
    FAIL("there are no thousand GPUs");
  } catch (const support::UserError &error) {
    const std::string what = error.what();
    if (count == 0)
      CHECK(what.rfind("error TSC-R020: CUDA cannot be used: ", 0) == 0);
    else
      CHECK(what.rfind("error TSC-R049: rank 3 needs GPU number 1000, and there ", 0) == 0);
  }
}
