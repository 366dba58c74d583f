// An emitted folder builds alone, with nothing of tsc, and computes.
#include "emit/emit.h"
#include "sample_program.h"
#include "temporary_folder.h"

#include "testing/catch.h"
#include "testing/skip.h"

#include <cstring>
#include <vector>

using namespace tsc;
namespace fs = std::filesystem;

namespace {

const float kW[12] = {1, 2, 3, 4, 5, 6, -7, 8, 9, 10, -11, 12};
const float kBias[3] = {1, -2, 3};

tensor::TensorMap weights() {
  tensor::TensorMap map;
  map["layer.w"] = tensor::HostTensor(tensor::DType::f32, {4, 3});
  std::memcpy(map["layer.w"].data(), kW, sizeof kW);
  map["layer.bias"] = tensor::HostTensor(tensor::DType::f32, {3});
  std::memcpy(map["layer.bias"].data(), kBias, sizeof kBias);
  map["layer.count"] = tensor::HostTensor(tensor::DType::i64, {1});
  map["layer.count"].set_int64(0, 41);
  return map;
}

/// Runs a command; its output is shown if it fails.
bool succeeds(const std::string &command, const fs::path &log) {
  bool ok = std::system((command + " > " + log.string() + " 2>&1").c_str()) == 0;
  if (!ok)
    UNSCOPED_INFO(command << "\n" << read_text(log));
  return ok;
}

template <class T> std::vector<T> read_raw(const fs::path &path) {
  std::string bytes = read_text(path);
  std::vector<T> values(bytes.size() / sizeof(T));
  std::memcpy(values.data(), bytes.data(), values.size() * sizeof(T));
  return values;
}

/// Configures and builds `out` with warnings as errors.
bool builds(const fs::path &out, const fs::path &build, const std::string &options,
            const fs::path &log) {
  std::string configure = std::string(TSC_TEST_CMAKE) + " -S " + out.string() + " -B " +
                          build.string() + " -G \"" + TSC_TEST_GENERATOR +
                          "\" -DCMAKE_BUILD_TYPE=Debug -DCMAKE_CXX_COMPILER=" + TSC_TEST_CXX +
                          " -DCMAKE_CXX_FLAGS=\"-Wall -Wextra -Wpedantic -Werror\" " + options;
  if (std::strlen(TSC_TEST_LAUNCHER) > 0)
    configure += std::string(" -DCMAKE_CXX_COMPILER_LAUNCHER=") + TSC_TEST_LAUNCHER;
  return succeeds(configure, log) &&
         succeeds(std::string(TSC_TEST_CMAKE) + " --build " + build.string() + " -j2", log);
}

} // namespace

TEST_CASE("An emitted folder builds alone and runs on the host", "[emit]") {
  TemporaryFolder temporary;
  fs::path out = temporary.path / "out", build = temporary.path / "build",
           data = temporary.path / "data";
  tensor::TensorMap map = weights();
  emit::EmitOptions options;
  options.weights = &map;
  emit::emit(program::sample_program(), out.string(), options);
  fs::path log = temporary.path / "log";
  REQUIRE(builds(out, build, "-DTSC_DEVICE=host", log));

  fs::create_directory(data);
  std::vector<float> x;
  for (int i = 0; i < 20; ++i)
    x.push_back(static_cast<float>(i % 7) - 4);
  std::ofstream(data / "x.raw", std::ios::binary)
      .write(reinterpret_cast<const char *>(x.data()), static_cast<std::streamsize>(x.size() * 4));
  REQUIRE(succeeds((build / "run_model").string() + " --weights " +
                       (out / "weights.safetensors").string() + " --data " + data.string() +
                       " x=5,4",
                   log));
  CHECK(read_text(log).find("output_0: [5, 3] 60 bytes, checksum ") != std::string::npos);
  CHECK(read_text(log).find("output_1: None") != std::string::npos);
  std::vector<float> result = read_raw<float>(data / "output_0.raw");
  REQUIRE(result.size() == 15);
  for (size_t row = 0; row < 5; ++row)
    for (size_t column = 0; column < 3; ++column) {
      float sum = kBias[column];
      for (size_t k = 0; k < 4; ++k)
        sum += (x[row * 4 + k] + 1) * 2 * kW[k * 3 + column];
      CHECK(result[row * 3 + column] == (sum > 0 ? sum : 0));
    }
  CHECK(read_raw<float>(data / "output_2.raw") == x);
  CHECK(read_raw<int64_t>(data / "mutated_layer.count.raw") == std::vector<int64_t>{42});
  CHECK_FALSE(succeeds((build / "run_model").string() + " --weights " +
                           (out / "weights.safetensors").string() + " x=5,3",
                       log));
  CHECK(read_text(log) == "bind: input \"x\", dimension 1: size 3, expected 4\n");
}

#ifdef TSC_WITH_CUDA
TEST_CASE("An emitted folder builds for CUDA, by nvcc and for NVRTC", "[emit]") {
  TemporaryFolder temporary;
  fs::path out = temporary.path / "out", log = temporary.path / "log";
  emit::emit(program::sample_program(), out.string(), {});
  CHECK(builds(out, temporary.path / "nvcc", "-DTSC_DEVICE=cuda", log));
  CHECK(builds(out, temporary.path / "nvrtc", "-DTSC_DEVICE=cuda -DTSC_NVCC=OFF", log));
  // Images in one, texts in the other.
  CHECK(read_text(temporary.path / "nvcc" / "libtsc_sample.so").find("TC_KERNEL void relu") ==
        std::string::npos);
  CHECK(read_text(temporary.path / "nvrtc" / "libtsc_sample.so").find("TC_KERNEL void relu") !=
        std::string::npos);
}
#else
TEST_CASE("An emitted folder builds for CUDA, by nvcc and for NVRTC", "[emit]") {
  testing::skip("there is no CUDA toolkit of 12.8 or newer");
}
#endif
