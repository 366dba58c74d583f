#include "numbers.h"
#include "program/sample_program.h"
#include "runtime/host_compiler.h"
#include "runtime/process.h"
#include "runtime/session.h"
#include "support/diagnostic.h"
#include "testing/catch.h"

#include <cmath>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sys/resource.h>

namespace {

using namespace tsc;
using runtime::Plan;
using runtime::Session;
using runtime::SessionOptions;
using tensor::DType;
using tensor::HostTensor;

tensor::TensorMap sample_weights() {
  tensor::TensorMap weights;
  weights["layer.w"] = numbers(DType::f32, {4, 3}, [](int64_t i) { return double(i) - 5; });
  weights["layer.bias"] = numbers(DType::f32, {3}, [](int64_t i) { return double(10 * i); });
  weights["layer.count"] = numbers(DType::i64, {1}, [](int64_t) { return 7.0; });
  return weights;
}

double expected_output(const HostTensor &x, int64_t row, int64_t column) {
  double sum = 10.0 * static_cast<double>(column);
  for (int64_t k = 0; k < 4; ++k)
    sum += (x.get_double(row * 4 + k) + 1) * 2 * static_cast<double>(k * 3 + column - 5);
  return sum > 0 ? sum : 0;
}

/// Row sums with a barrier, shuffles and shared memory.
program::Program row_sum_program() {
  using namespace program;
  Program program;
  program.name = "row_sum";
  program.buffers = {make_buffer("x", Role::input, {Expr(5), Expr(300)}),
                     make_buffer("sums", Role::output, {Expr(5)})};
  Kernel kernel;
  kernel.name = "row_sum";
  kernel.parameters = {{KernelParameter::Kind::pointer, "in0", DType::f32, true},
                       {KernelParameter::Kind::pointer, "out0", DType::f32, false}};
  kernel.cuda.text = R"(#include "tsc_prelude.h"
struct Shared { float partial[4]; };
TC_KERNEL __launch_bounds__(128) void row_sum(const float *TC_RESTRICT in0, float *TC_RESTRICT out0) {
  TC_SMEM(Shared, shared);
  float sum = 0;
  for (int j = threadIdx.x; j < 300; j += 128)
    sum += in0[blockIdx.x * 300 + j];
  TC_UNROLL
  for (int distance = 16; distance > 0; distance /= 2)
    sum += tc_shfl_xor(sum, distance);
  if (threadIdx.x % 32 == 0)
    shared.partial[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x == 0)
    out0[blockIdx.x] = shared.partial[0] + shared.partial[1] + shared.partial[2] + shared.partial[3];
}
TC_EXPORT(row_sum, TC_HAS_BARRIERS, Shared)
)";
  kernel.cuda.grid = {Expr(5), Expr(1), Expr(1)};
  kernel.cuda.block = {128, 1, 1};
  kernel.cuda.has_barriers = true;
  kernel.serial.text = R"(#include "tsc_prelude.h"
TC_KERNEL void row_sum(const float *TC_RESTRICT in0, float *TC_RESTRICT out0) {
  float sum = 0;
  for (int j = 0; j < 300; ++j)
    sum += in0[blockIdx.x * 300 + j];
  out0[blockIdx.x] = sum;
}
TC_EXPORT(row_sum, 0)
)";
  kernel.serial.grid = {Expr(5), Expr(1), Expr(1)};
  program.kernels = {kernel};
  Step step;
  step.name = "row_sum";
  step.kind = Launch{0, {{0, Expr(0)}, {1, Expr(0)}}, {}};
  program.steps = {step};
  program.inputs = {{"x", 0, false}};
  OutputInfo output;
  output.name = "output_0";
  output.buffer = 1;
  output.layout = program.buffers[1].layout;
  program.outputs = {output};
  return program;
}

SessionOptions options(Plan plan, const std::string &cache_folder) {
  SessionOptions result;
  result.plan = plan;
  result.cache_folder = cache_folder;
  return result;
}

std::string message_of(const std::function<void()> &body) {
  try {
    body();
  } catch (const support::UserError &error) {
    return error.what();
  }
  return "no error";
}

/// A variable of the environment, put back by the destructor.
class Environment {
public:
  Environment(const char *name, const std::string &value) : name_(name) {
    const char *now = std::getenv(name);
    was_set_ = now != nullptr;
    if (now)
      before_ = now;
    setenv(name, value.c_str(), 1);
  }
  ~Environment() {
    if (was_set_)
      setenv(name_, before_.c_str(), 1);
    else
      unsetenv(name_);
  }

private:
  const char *name_;
  bool was_set_ = false;
  std::string before_;
};

} // namespace

TEST_CASE("a program with one of everything runs under both plans, for several shapes") {
  const runtime::TemporaryFolder folder;
  const program::Program program = program::sample_program();
  for (Plan plan : {Plan::serial, Plan::cuda}) {
    auto session = Session::create(program, sample_weights(), options(plan, folder.path()));
    CHECK(session->timing().compiled == program.kernels.size());
    double count = 7;
    for (int64_t rows : {1, 3, 100, 3}) {
      const HostTensor x =
          numbers(DType::f32, {rows, 4}, [](int64_t i) { return static_cast<double>(i % 7) - 3; });
      const std::vector<HostTensor> outputs = session->run({x});
      REQUIRE(outputs.size() == 4);
      REQUIRE(outputs[0].sizes() == std::vector<int64_t>{rows, 3});
      for (int64_t row = 0; row < rows; ++row)
        for (int64_t column = 0; column < 3; ++column)
          REQUIRE(outputs[0].get_double(row * 3 + column) == expected_output(x, row, column));
      CHECK(outputs[1].data() == nullptr); // the constant None
      REQUIRE(outputs[2].sizes() == x.sizes());
      CHECK(std::memcmp(outputs[2].data(), x.data(), x.size_in_bytes()) == 0);
      CHECK(outputs[3].get_double(0) == ++count); // a weight that every run counts up
    }
    CHECK(session->timing().kernels > 0);
    CHECK(session->timing().library_calls == 1);
    CHECK(session->bench({numbers(DType::f32, {2, 4}, [](int64_t) { return 1.0; })}, 5).size() ==
          5);
  }
}

TEST_CASE(
    "barriers, shuffles and shared memory in a session, in both orders, and the serial plan") {
  const runtime::TemporaryFolder folder;
  const program::Program program = row_sum_program();
  const HostTensor x =
      numbers(DType::f32, {5, 300}, [](int64_t i) { return static_cast<double>(i % 11) - 4; });
  for (Plan plan : {Plan::serial, Plan::cuda}) {
    for (auto order :
         {SessionOptions::ThreadOrder::forward, SessionOptions::ThreadOrder::reverse}) {
      SessionOptions chosen = options(plan, folder.path());
      chosen.thread_order = order;
      auto session = Session::create(program, {}, chosen);
      const HostTensor sums = session->run({x}).at(0);
      for (int64_t row = 0; row < 5; ++row) {
        double sum = 0;
        for (int64_t j = 0; j < 300; ++j)
          sum += x.get_double(row * 300 + j);
        CHECK(sums.get_double(row) == sum);
      }
    }
  }
}

TEST_CASE("kernels come from the cache, unless their file is torn or the cache is off") {
  const runtime::TemporaryFolder folder;
  const program::Program program = row_sum_program();
  const HostTensor x = numbers(DType::f32, {5, 300}, [](int64_t) { return 1.0; });
  const auto run = [&](bool use_cache) {
    SessionOptions chosen = options(Plan::cuda, folder.path());
    chosen.use_cache = use_cache;
    auto session = Session::create(program, {}, chosen);
    CHECK(session->run({x}).at(0).get_double(4) == 300.0);
    CHECK(session->timing().compiled + session->timing().from_cache == 1);
    return session->timing().from_cache == 1;
  };
  CHECK(!run(true));
  CHECK(run(true));
  CHECK(!run(false));
  for (const auto &entry : std::filesystem::directory_iterator(folder.path()))
    std::filesystem::resize_file(entry.path(), std::filesystem::file_size(entry.path()) / 2);
  CHECK(!run(true));
  CHECK(run(true));
}

TEST_CASE("inputs that do not fit are reported, all at once, with both sides") {
  const runtime::TemporaryFolder folder;
  auto session = Session::create(row_sum_program(), {}, options(Plan::serial, folder.path()));
  CHECK(message_of([&] { session->run({}); }) ==
        "error TSC-R110: 0 inputs were given, the graph has 1: x\n"
        "  next: give one tensor for each of them");
  CHECK(message_of([&] {
          session->run({HostTensor(DType::f16, {5, 301})});
        }) == "error TSC-R111: input 'x' is torch.float16, the graph takes torch.float32\n"
              "  next: convert it before it is saved\n"
              "error TSC-R112: input 'x' is [5, 301], the graph takes [5, 300]\n"
              "  next: give a tensor of this shape, or export the graph with dynamic shapes");
  auto dynamic = Session::create(program::sample_program(), sample_weights(),
                                 options(Plan::serial, folder.path()));
  CHECK(message_of([&] {
          dynamic->run({HostTensor(DType::f32, {2, 4, 1})});
        }) == "error TSC-R112: input 'x' is [2, 4, 1], the graph takes [s0, 4]\n"
              "  next: give a tensor of this shape, or export the graph with dynamic shapes");
  CHECK(message_of([&] {
          dynamic->run({HostTensor(DType::f32, {2000, 4})});
        }) == "error TSC-R116: the program cannot run with inputs of these shapes: input \"x\", "
              "dimension 0: "
              "size 2000 is outside [1, 1024], the range of s0\n"
              "  next: compare with the signature of the graph");
}

TEST_CASE("weights that are missing or differ are reported together") {
  const runtime::TemporaryFolder folder;
  tensor::TensorMap weights = sample_weights();
  weights.erase("layer.bias");
  weights["layer.w"] = HostTensor(DType::f32, {3, 4});
  CHECK(message_of([&] {
          Session::create(program::sample_program(), weights, options(Plan::serial, folder.path()));
        }) ==
        "error TSC-R113: the weights do not fit the program: weight \"layer.w\" has shape [3, 4], "
        "the model needs [4, 3]\nweight \"layer.bias\" is missing\n"
        "  next: give weights of these names, dtypes and shapes");
}

TEST_CASE("without a compiler, and with one that fails, the error says what to do") {
  const runtime::TemporaryFolder folder;
  const auto create = [&] {
    Session::create(row_sum_program(), {}, options(Plan::serial, folder.path()));
  };
  {
    const Environment path("PATH", "/nowhere"), compiler("CXX", "my-compiler");
    CHECK(
        message_of(create) ==
        "error TSC-R010: no C++ compiler was found (tried my-compiler, g++, clang++, c++); kernels "
        "for the host need one\n"
        "  next: install g++ or clang++, set CXX, or use --device reference");
  }
  const std::string script = folder.path() + "/broken";
  std::ofstream(script) << "#!/bin/sh\n[ \"$1\" = --version ] && exit 0\necho no licence; exit 9\n";
  std::filesystem::permissions(script, std::filesystem::perms::owner_all);
  const Environment compiler("CXX", script);
  const std::string message = message_of(create);
  INFO(message);
  CHECK(message.find("error TSC-R011: the C++ compiler failed on kernels with exit code 9:\n"
                     "no licence\n") == 0);
}

TEST_CASE("kernels that cannot be loaded, and folders that cannot be written, are said") {
  const runtime::TemporaryFolder folder;
  const auto create = [&] {
    Session::create(row_sum_program(), {}, options(Plan::serial, folder.path()));
  };
  {
    const std::string script = folder.path() + "/careless";
    std::ofstream(script) << "#!/bin/sh\n[ \"$1\" = --version ] && exit 0\n"
                             "while [ \"$1\" != -o ]; do shift; done\necho junk > \"$2\"\n";
    std::filesystem::permissions(script, std::filesystem::perms::owner_all);
    const Environment compiler("CXX", script);
    const std::string message = message_of(create);
    INFO(message);
    CHECK(message.rfind("error TSC-R012: compiled kernels cannot be loaded: ", 0) == 0);
    CHECK(message.find("unit_0.so: file too short\n"
                       "  next: remove the cache folder, and see that it allows execution") !=
          std::string::npos);
  }
  {
    const Environment temporary("TMPDIR", "/nowhere");
    CHECK(message_of(create) == "error TSC-R014: no temporary folder can be made in '/nowhere': No "
                                "such file or directory\n"
                                "  next: set TMPDIR to a folder that can be written");
  }
  // A full disk: files end after 64 bytes.
  struct rlimit before {};
  getrlimit(RLIMIT_FSIZE, &before);
  const struct rlimit small = {64, before.rlim_max};
  const auto previous = std::signal(SIGXFSZ, SIG_IGN);
  setrlimit(RLIMIT_FSIZE, &small);
  const std::string message = message_of(create);
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, previous);
  INFO(message);
  CHECK(message.rfind("error TSC-R014: '", 0) == 0);
  CHECK(message.find("' cannot be written\n  next: free some space, or set TMPDIR") !=
        std::string::npos);
}

TEST_CASE("what the engine refuses while it runs says whose fault it is") {
  const runtime::TemporaryFolder folder;
  const HostTensor x(DType::f32, {5, 300});
  const auto run = [&](const program::Program &program, Plan plan) {
    return message_of(
        [&] { Session::create(program, {}, options(plan, folder.path()))->run({x}); });
  };
  program::Program huge = row_sum_program();
  huge.buffers[1] =
      program::make_buffer("sums", program::Role::output, {program::Expr(int64_t{1} << 46)});
  huge.outputs[0].layout = huge.buffers[1].layout;
  CHECK(run(huge, Plan::serial) ==
        "error TSC-R015: the device is out of memory: no memory for 281474976710656 bytes\n"
        "  next: free memory on the device, or use smaller inputs");
  program::Program greedy = row_sum_program();
  greedy.kernels[0].serial.shared_bytes = program::Expr(1 << 30);
  CHECK(run(greedy, Plan::serial) ==
        "error TSC-R117: the device refuses the program: step 0 (row_sum): kernel row_sum: "
        "1073741824 bytes of shared memory (at most 232448)\n"
        "  next: compile the graph again with this tsc");
  program::Program careless = row_sum_program();
  std::string &text = careless.kernels[0].cuda.text;
  text.replace(text.find("shared.partial[threadIdx.x / 32] ="), 34,
               "shared.partial[threadIdx.x / 32 + 1] =");
  CHECK(run(careless, Plan::cuda) ==
        "error TSC-R013: the device failed: step 0 (row_sum): kernel row_sum, block (0, 0, 0), "
        "wrote past the end of its shared memory\n"
        "  next: run with --device reference to compare");
}

TEST_CASE("g++ and clang++ compile kernels of both plans") {
  const HostTensor x =
      numbers(DType::f32, {5, 300}, [](int64_t i) { return static_cast<double>(i % 5); });
  size_t found = 0;
  for (const char *name : {"g++", "clang++"}) {
    if (runtime::find_program(name).empty())
      continue;
    ++found;
    const Environment compiler("CXX", name);
    for (Plan plan : {Plan::serial, Plan::cuda}) {
      const runtime::TemporaryFolder folder;
      auto session = Session::create(row_sum_program(), {}, options(plan, folder.path()));
      CHECK(session->run({x}).at(0).get_double(0) == 600.0);
    }
  }
  CHECK(found > 0);
}

TEST_CASE("a function of a function is what libm makes of it, wherever it is computed") {
  // g++ knows 1 / sqrt((1 - x) * (1 + x)) for cosh(atanh(x)), and the like.
  program::Program program;
  const std::vector<symbolic::Expr> sizes = {symbolic::Expr(64)};
  program.buffers = {program::make_buffer("x", program::Role::input, sizes),
                     program::make_buffer("y", program::Role::output, sizes),
                     program::make_buffer("z", program::Role::output, sizes)};
  program.kernels = {
      program::make_kernel("of_atanh", "float", DType::f32, "out0[i] = tc_cosh(tc_atanh(in0[i]));"),
      program::make_kernel("sine_of_atanh", "float", DType::f32,
                           "out0[i] = tc_sinh(tc_atanh(in0[i]));")};
  for (uint32_t k = 0; k < 2; ++k) {
    program.kernels[k].cuda.grid = {symbolic::Expr(2), symbolic::Expr(1), symbolic::Expr(1)};
    program::Step step;
    step.name = program.kernels[k].name;
    step.kind = program::Launch{k, {{0}, {k + 1}}, {symbolic::Expr(64)}};
    program.steps.push_back(step);
    program::OutputInfo output;
    output.name = "output_" + std::to_string(k);
    output.buffer = k + 1;
    output.layout = program.buffers[k + 1].layout;
    program.outputs.push_back(output);
  }
  program::InputInfo input;
  input.name = "x";
  program.inputs = {input};
  const HostTensor x = numbers(DType::f32, {64}, [](int64_t i) { return double(i - 32) / 33; });
  for (const runtime::Plan plan : {runtime::Plan::serial, runtime::Plan::cuda}) {
    runtime::SessionOptions options;
    options.plan = plan;
    const std::vector<HostTensor> results =
        runtime::Session::create(program, {}, options)->run({x});
    for (int64_t i = 0; i < 64; ++i) {
      const volatile float inner = std::atanh(static_cast<float>(x.get_double(i)));
      CHECK(results[0].get_double(i) == double(std::cosh(inner)));
      CHECK(results[1].get_double(i) == double(std::sinh(inner)));
    }
  }
}
