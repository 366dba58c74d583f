// On a machine without a GPU: that the reason is stated. On one with a GPU: all else.
#include "matmul_check.h"
#include "numbers.h"
#include "program/random_streams.h"
#include "program/streams.h"
#include "runtime/cuda_module.h"
#include "runtime/process.h"
#include "runtime/session.h"
#include "support/diagnostic.h"
#include "testing/catch.h"
#include "testing/skip.h"

#include <cmath>
#include <cstring>
#include <random>

namespace {

using namespace tsc;
using runtime::CudaModule;
using tensor::DType;
using tensor::HostTensor;

/// Null, with the test skipped, where there is no GPU.
const CudaModule *gpu() {
  std::string why;
  if (runtime::cuda_available(&why)) {
    std::string ignored;
    return runtime::load_cuda_module(ignored);
  }
  testing::skip("there is no GPU: " + why);
  return nullptr;
}

/// A device with kernels compiled from `text`.
std::unique_ptr<tsc_engine::CudaDevice> device_with(const CudaModule &module,
                                                    const std::string &text,
                                                    const std::vector<std::string> &kernels) {
  const std::vector<char> cubin = module.compile_cubin("test.cu", text, {}, module.arch(0));
  tsc_engine::CudaDeviceOptions options;
  options.kernels = kernels;
  options.images = {{cubin.data(), cubin.size()}};
  return module.make_device(options);
}

constexpr const char *kBigTile = R"(
extern "C" __global__ void big_tile(int *out, int n) {
  extern __shared__ int tile[];
  for (int i = threadIdx.x; i < n; i += blockDim.x) tile[i] = i;
  __syncthreads();
  if (threadIdx.x == 0) out[0] = tile[n - 1];
})";

} // namespace

TEST_CASE("without a GPU the reason is stated") {
  std::string why = "not set";
  if (runtime::cuda_available(&why)) {
    CHECK(why.empty());
    return;
  }
  const bool known = why == "no CUDA driver is installed" || why == "no CUDA GPU was found" ||
                     why == "this tsc was built without CUDA (no CUDA toolkit was found then)" ||
                     why.find("the CUDA driver is for CUDA ") == 0;
  INFO(why);
  CHECK(known);
  runtime::SessionOptions options;
  options.device = runtime::DeviceKind::cuda;
  std::string message;
  try {
    runtime::Session::create(program::sample_program(), {}, options);
  } catch (const support::UserError &error) {
    message = error.what();
    CHECK(error.exit_code() == support::ExitCode::device);
  }
  CHECK(message == "error TSC-R020: CUDA cannot be used: " + why + "\n  next: use --device host");
}

TEST_CASE("gpu: a program with one of everything runs, first compiled, then from the cache") {
  if (!gpu())
    return;
  const runtime::TemporaryFolder folder;
  runtime::SessionOptions options;
  options.device = runtime::DeviceKind::cuda;
  options.cache_folder = folder.path();
  tensor::TensorMap weights;
  weights["layer.w"] = numbers(DType::f32, {4, 3}, [](int64_t i) { return double(i) - 5; });
  weights["layer.bias"] = numbers(DType::f32, {3}, [](int64_t i) { return double(10 * i); });
  weights["layer.count"] = numbers(DType::i64, {1}, [](int64_t) { return 7.0; });
  for (bool cached : {false, true}) {
    auto session = runtime::Session::create(program::sample_program(), weights, options);
    CHECK(session->timing().from_cache == (cached ? 4 : 0));
    CHECK(session->timing().compiled == (cached ? 0 : 4));
    for (int64_t rows : {1, 3, 100}) {
      const HostTensor x =
          numbers(DType::f32, {rows, 4}, [](int64_t i) { return static_cast<double>(i % 7) - 3; });
      const HostTensor out = session->run({x}).at(0);
      for (int64_t row = 0; row < rows; ++row) {
        for (int64_t column = 0; column < 3; ++column) {
          double sum = 10.0 * static_cast<double>(column);
          for (int64_t k = 0; k < 4; ++k)
            sum += (x.get_double(row * 4 + k) + 1) * 2 * static_cast<double>(k * 3 + column - 5);
          REQUIRE(out.get_double(row * 3 + column) == (sum > 0 ? sum : 0));
        }
      }
    }
    const auto samples =
        session->bench({numbers(DType::f32, {2, 4}, [](int64_t) { return 1.0; })}, 20);
    REQUIRE(samples.size() == 20);
    for (double sample : samples)
      CHECK((sample > 0 && sample < 10));
  }
}

TEST_CASE("gpu: several streams and recorded runs give the numbers of one stream") {
  if (!gpu())
    return;
  const runtime::TemporaryFolder folder;
  runtime::SessionOptions options;
  options.device = runtime::DeviceKind::cuda;
  options.cache_folder = folder.path();
  for (unsigned seed = 0; seed < 24; ++seed) {
    std::mt19937 random(seed);
    program::Program program = program::random_program(random, 1 + seed % 4);
    program::Program alone = program;
    for (program::Step &step : alone.steps)
      step.stream = 0;
    program::add_waits(program);
    INFO("seed " << seed);
    options.use_graphs = false;
    auto plain = runtime::Session::create(alone, {}, options);
    options.use_graphs = true;
    auto session = runtime::Session::create(program, {}, options);
    for (int round = 0; round < 4; ++round) { // launched, recorded, replayed
      const HostTensor x = numbers(DType::f32, {4, 4}, [&](int64_t i) {
        return static_cast<double>((i + round) % 7 - 3) / 4;
      });
      const std::vector<HostTensor> expected = plain->run({x}), found = session->run({x});
      REQUIRE(expected.size() == found.size());
      for (size_t i = 0; i < expected.size(); ++i)
        CHECK(std::memcmp(expected[i].data(), found[i].data(), expected[i].size_in_bytes()) == 0);
    }
  }
}

TEST_CASE("gpu: products of every dtype, size and stride agree with the definition") {
  const CudaModule *module = gpu();
  if (!module)
    return;
  auto device = module->make_device({});
  SECTION("strides") { matmul_check::check_strides(*device); }
  SECTION("sizes") { matmul_check::check_sizes(*device); }
  SECTION("added") { matmul_check::check_added(*device); }
  SECTION("large") { matmul_check::check_large(*device); }
}

TEST_CASE("gpu: kernels get as much shared memory as the GPU has, and errors name the kernel") {
  const CudaModule *module = gpu();
  if (!module)
    return;
  auto device = device_with(*module, kBigTile, {"big_tile"});
  void *out = device->allocate(4);
  int n = 25000, result = 0;
  void *arguments[] = {&out, &n};
  device->launch(0, {{1, 1, 1}, {256, 1, 1}, 100000}, arguments, device->stream());
  device->download(&result, out, 4, device->stream());
  device->synchronize(device->stream());
  CHECK(result == 24999);
  CHECK_THROWS_WITH(
      device->launch(0, {{1, 1, 1}, {256, 1, 1}, 400000}, arguments, device->stream()),
      "kernel big_tile cannot have 400000 bytes of shared memory: invalid argument "
      "(cudaErrorInvalidValue)");
  CHECK_THROWS_WITH(device->launch(0, {{1, 1, 1}, {2048, 1, 1}, 0}, arguments, device->stream()),
                    "launch of kernel big_tile: invalid argument (cudaErrorInvalidValue)");
  device->release(out);
  CHECK_THROWS_WITH(device_with(*module, kBigTile, {"other"}),
                    "no loaded image has a kernel other");
}

TEST_CASE("NVRTC reports what is wrong with a text") {
  std::string why;
  const CudaModule *module = runtime::load_cuda_module(why);
  if (!module) {
    testing::skip("there is no CUDA module: " + why);
    return;
  }
  try { // needs NVRTC, not a GPU
    module->compile_cubin("bad.cu", "extern \"C\" __global__ void k() { nonsense; }", {}, "sm_90");
    CHECK(false);
  } catch (const tsc_engine::Error &error) {
    const std::string text = error.what();
    INFO(text);
    CHECK(text.find("NVRTC could not compile bad.cu for sm_90 (NVRTC_ERROR_COMPILATION):\n") == 0);
    CHECK(text.find("identifier \"nonsense\" is undefined") != std::string::npos);
  }
  CHECK(module->compile_cubin("big_tile.cu", kBigTile, {}, "sm_90").size() > 1000);
  CHECK(module->compiler_identity().find("NVRTC 1") == 0);
}
