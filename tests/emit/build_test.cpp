// An emitted folder builds alone, with nothing of tsc, and computes.
#include "emit/emit.h"
#include "first_elements.h"
#include "sample_program.h"
#include "temporary_folder.h"

#include "engine/tsc_model.h"
#include "program/program.h"
#include "testing/catch.h"
#include "testing/skip.h"

#include <cstring>
#include <dlfcn.h>
#include <regex>
#include <set>
#include <sstream>
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
  std::string configure =
      std::string(TSC_TEST_CMAKE) + " -S " + out.string() + " -B " + build.string() + " -G \"" +
      TSC_TEST_GENERATOR +
      "\" -DCMAKE_BUILD_TYPE=Debug -DCMAKE_CXX_FLAGS_DEBUG= -DCMAKE_CXX_COMPILER=" + TSC_TEST_CXX +
      " -DCMAKE_CXX_FLAGS=\"-Wall -Wextra -Wpedantic -Werror\" " + options;
  if (std::strlen(TSC_TEST_LAUNCHER) > 0)
    configure += std::string(" -DCMAKE_CXX_COMPILER_LAUNCHER=") + TSC_TEST_LAUNCHER;
  // The same files in another temporary folder are not compiled again.
  setenv("CCACHE_BASEDIR", build.parent_path().c_str(), 1);
  return succeeds(configure, log) &&
         succeeds(std::string(TSC_TEST_CMAKE) + " --build " + build.string() + " -j2", log);
}

/// Names that `library` defines for others.
std::set<std::string> exported(const fs::path &library, const fs::path &log) {
  REQUIRE(succeeds("nm -D --defined-only -P " + library.string(), log));
  std::istringstream lines(read_text(log));
  std::set<std::string> names;
  for (std::string line; std::getline(lines, line);)
    names.insert(line.substr(0, line.find(' ')));
  return names;
}
/// A built model, loaded into this process.
struct Library {
  explicit Library(const fs::path &path) : handle(dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) {
    REQUIRE(handle != nullptr);
    const auto get = reinterpret_cast<TscModelFunction>(dlsym(handle, "tsc_model"));
    REQUIRE(get != nullptr);
    model = get();
    REQUIRE(model->abi_version == TSC_ABI_VERSION);
  }
  ~Library() { dlclose(handle); }
  void *handle;
  const TscModel *model = nullptr;
};

void misuse(const Library &library, const std::string &weights_file) {
  TscWeights *weights = nullptr;
  TscInstance *instance = nullptr;
  const auto refused = [&](TscStatus status) {
    CHECK(status == TSC_BAD_ARGUMENT);
    return std::string(library.model->create_error());
  };
  const auto load = library.model->weights_load;
  const auto create = library.model->weights_create;
  CHECK(refused(load(0, nullptr, &weights)) == "the path of the weights must not be null");
  CHECK(refused(load(0, weights_file.c_str(), nullptr)) ==
        "the place for the weights must not be null");
  CHECK(refused(load(-1, weights_file.c_str(), &weights)) == "the host is device 0");
  CHECK(refused(create(0, nullptr, 1, &weights)) == "the array of tensors must not be null");
  TscTensorData tensor = {nullptr, kW, TSC_F32, 2, nullptr};
  CHECK(refused(create(0, &tensor, 1, &weights)) == "the name of tensor 0 must not be null");
  tensor.name = "layer.w";
  CHECK(refused(create(0, &tensor, 1, &weights)) == "weight \"layer.w\" has no sizes");
  tensor.rank = -1;
  CHECK(refused(create(0, &tensor, 1, &weights)) == "weight \"layer.w\" has rank -1");
  const int64_t sizes[] = {4, 3};
  tensor.rank = 2;
  tensor.sizes = sizes;
  const TscTensorData twice[] = {tensor, tensor};
  CHECK(refused(create(0, twice, 2, &weights)) == "weight \"layer.w\" is given twice");
  tensor.data = nullptr;
  CHECK(refused(create(0, &tensor, 1, &weights)).find("weight \"layer.w\" is missing") == 0);
  CHECK(weights == nullptr);
  CHECK(refused(library.model->instance_create(nullptr, &instance)) ==
        "the weights must not be null");
  library.model->weights_destroy(nullptr);
  library.model->instance_destroy(nullptr);
  library.model->instance_set_poison(nullptr, 1);
  library.model->instance_set_graphs(nullptr, 1);
  library.model->memory_release(nullptr, nullptr);
  CHECK(library.model->weights_bytes(nullptr) == 0);
  const std::string no_instance = "the instance must not be null";
  CHECK(refused(library.model->instance_bind(nullptr, nullptr, nullptr)) == no_instance);
  CHECK(refused(library.model->instance_run(nullptr, nullptr, nullptr, nullptr, nullptr)) ==
        no_instance);
  CHECK(refused(library.model->instance_check(nullptr, nullptr)) == no_instance);
  CHECK(refused(library.model->instance_bytes(nullptr, nullptr, nullptr)) == no_instance);
  CHECK(refused(library.model->instance_output(nullptr, 0, nullptr, nullptr, nullptr)) ==
        no_instance);
  CHECK(refused(library.model->instance_set_seed(nullptr, nullptr, 0, 0)) == no_instance);
  CHECK(library.model->instance_error(nullptr) == no_instance);

  REQUIRE(load(0, weights_file.c_str(), &weights) == TSC_OK);
  CHECK(refused(library.model->instance_create(weights, nullptr)) ==
        "the place for the instance must not be null");
  REQUIRE(library.model->instance_create(weights, &instance) == TSC_OK);
  const auto refused_here = [&](TscStatus status) {
    CHECK(status == TSC_BAD_ARGUMENT);
    return std::string(library.model->instance_error(instance));
  };
  const auto bind = library.model->instance_bind;
  const auto run = library.model->instance_run;
  void *inputs[1] = {nullptr}, *outputs[8] = {};
  REQUIRE(library.model->describe()->input_count == 1);
  const std::string unbound = "no shapes are bound: call bind first";
  CHECK(refused_here(run(instance, nullptr, inputs, outputs, nullptr)) == unbound);
  CHECK(refused_here(library.model->instance_bytes(instance, nullptr, nullptr)) == unbound);
  CHECK(refused_here(library.model->instance_output(instance, 0, nullptr, nullptr, nullptr)) ==
        unbound);
  CHECK(refused_here(bind(instance, nullptr, nullptr)) == "the array of shapes must not be null");
  const int64_t *shapes[1] = {nullptr};
  CHECK(refused_here(bind(instance, shapes, nullptr)) ==
        "the array of sizes of input \"x\" must not be null");
  for (const int64_t rows : {int64_t{-1}, INT64_MIN, INT64_MAX, INT64_MAX / 16}) {
    const int64_t shape[] = {rows, 4};
    shapes[0] = shape;
    INFO(rows);
    CHECK(bind(instance, shapes, nullptr) == TSC_BAD_ARGUMENT);
  }
  const int64_t shape[] = {5, 4};
  shapes[0] = shape;
  REQUIRE(bind(instance, shapes, nullptr) == TSC_OK);
  CHECK(refused_here(run(instance, nullptr, nullptr, outputs, nullptr)) ==
        "the array of inputs must not be null");
  CHECK(refused_here(run(instance, nullptr, inputs, nullptr, nullptr)) ==
        "the array of outputs must not be null");
  CHECK(refused_here(run(instance, nullptr, inputs, outputs, nullptr)) ==
        "input \"x\" is null, but 80 bytes are needed");
  CHECK(refused_here(library.model->instance_output(instance, 99, nullptr, nullptr, nullptr)) ==
        "output 99 does not exist");
  void *memory = inputs;
  CHECK(library.model->memory_allocate(weights, SIZE_MAX, &memory) == TSC_OUT_OF_MEMORY);
  CHECK(memory == nullptr);
  CHECK(refused(library.model->memory_allocate(weights, 1, nullptr)) ==
        "the place for the memory must not be null");
  CHECK(refused(library.model->memory_upload(weights, nullptr, kW, 4, nullptr)) ==
        "the memory that bytes are copied to must not be null");
  CHECK(refused(library.model->memory_download(weights, nullptr, kW, 4, nullptr)) ==
        "the memory that bytes are copied to must not be null");
  CHECK(library.model->memory_upload(weights, nullptr, nullptr, 0, nullptr) == TSC_OK);
  library.model->instance_destroy(instance);
  library.model->weights_destroy(weights);
}

} // namespace

namespace {

/// Takes the first `count` of five numbers through the C ABI; gives what is said.
std::string take_first(const Library &library, int64_t count, bool is_bounded) {
  TscWeights *weights = nullptr;
  TscInstance *instance = nullptr;
  REQUIRE(library.model->weights_create(0, nullptr, 0, &weights) == TSC_OK);
  REQUIRE(library.model->instance_create(weights, &instance) == TSC_OK);
  CHECK(library.model->describe()->reads_predicates == 1);
  const int64_t rows = 5;
  const int64_t *shapes[] = {&rows, nullptr};
  size_t workspace_bytes = 0, input_bytes[2], output_bytes[1];
  REQUIRE(library.model->instance_bind(instance, shapes, &workspace_bytes) == TSC_OK);
  REQUIRE(library.model->instance_bytes(instance, input_bytes, output_bytes) == TSC_OK);
  CHECK(output_bytes[0] == (is_bounded ? 80 : 0));
  int64_t sizes[2] = {-1, -1};
  const auto output = library.model->instance_output;
  CHECK(output(instance, 0, sizes, nullptr, nullptr) == TSC_BAD_ARGUMENT);
  struct alignas(256) Memory {
    int64_t numbers[32] = {1, 2, 3, 4, 5};
  };
  Memory x, n, z, workspace;
  REQUIRE(workspace_bytes <= sizeof(Memory));
  n.numbers[0] = count;
  void *inputs[] = {x.numbers, n.numbers}, *outputs[] = {is_bounded ? z.numbers : nullptr};
  const TscStatus status =
      library.model->instance_run(instance, nullptr, inputs, outputs, workspace.numbers);
  std::string text;
  if (status != TSC_OK) {
    CHECK(status == TSC_ASSERTION_FAILED);
    text = library.model->instance_error(instance);
    CHECK(output(instance, 0, sizes, nullptr, nullptr) == TSC_BAD_ARGUMENT);
  } else {
    void *memory = nullptr;
    REQUIRE(output(instance, 0, sizes, nullptr, nullptr) == TSC_OK);
    REQUIRE(library.model->instance_output_memory(instance, 0, outputs[0], &memory) == TSC_OK);
    CHECK((memory == outputs[0]) == is_bounded);
    text = std::to_string(sizes[0]) + " x " + std::to_string(sizes[1]) + ":";
    for (int64_t i = 0; i < sizes[0] * sizes[1]; ++i)
      text += " " + std::to_string(static_cast<const int64_t *>(memory)[i]);
  }
  library.model->instance_destroy(instance);
  library.model->weights_destroy(weights);
  return text;
}

} // namespace

TEST_CASE("Through the C ABI a run says the sizes that its data decides", "[emit]") {
  for (const bool is_bounded : {true, false}) {
    TemporaryFolder temporary;
    const fs::path out = temporary.path / "out", build = temporary.path / "build";
    const symbolic::Expr rows = symbolic::symbol(symbolic::SymbolSort::size, 0);
    const std::vector<program::Program> plans = {
        program::taking_first(is_bounded ? rows : symbolic::Expr(program::Define::kUnbounded))};
    emit::emit(plans, out.string(), {});
    REQUIRE(builds(out, build, "-DTSC_DEVICE=host", temporary.path / "log"));
    const Library library(build / "libtsc_first.so");
    CHECK(take_first(library, 2, is_bounded) == "2 x 2: 1 2 1 2");
    CHECK(take_first(library, 0, is_bounded) == "2 x 0:");
    CHECK(take_first(library, 5, is_bounded) == "2 x 5: 1 2 3 4 5 1 2 3 4 5");
    CHECK(take_first(library, 6, is_bounded) == "u0 <= s0 (node check)");
    CHECK(take_first(library, -3, is_bounded).find("the size u0 is -3, not in [0, ") == 0);
  }
}

TEST_CASE("An emitted folder builds alone and runs on the host", "[emit]") {
  TemporaryFolder temporary;
  fs::path out = temporary.path / "out", build = temporary.path / "build",
           data = temporary.path / "data";
  tensor::TensorMap map = weights();
  emit::EmitOptions options;
  options.weights = &map;
  program::Program program = program::sample_program();
  for (program::Kernel &kernel : program.kernels) { // as tsc calls them: no name of the library's
    const std::regex name("\\b" + kernel.name + "\\b");
    for (std::string *text : {&kernel.cuda.text, &kernel.serial.text})
      *text = std::regex_replace(*text, name, "tsc_" + kernel.name);
    kernel.name.insert(0, "tsc_");
  }
  // Beside it a plan for GPUs that would compute something else here.
  std::vector<program::Program> plans = {program, program};
  plans[1].archs = {"host"};
  for (program::Kernel &kernel : plans[0].kernels)
    kernel.serial.text = std::regex_replace(kernel.serial.text, std::regex("\\] \\+ 1"), "] - 1");
  REQUIRE(program::to_json(plans[0]) != program::to_json(program));
  emit::emit(plans, out.string(), options);
  fs::path log = temporary.path / "log";
  REQUIRE(builds(out, build, "-DTSC_DEVICE=host", log));

  fs::create_directory(data);
  std::vector<float> x;
  x.reserve(20);
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

  const fs::path library = build / "libtsc_sample.so";
  CHECK(exported(library, log) == std::set<std::string>{"sample_model", "tsc_model"});
  misuse(Library(library), (out / "weights.safetensors").string());
}

TEST_CASE("A program takes two models, as folders or installed", "[emit]") {
  TemporaryFolder temporary;
  const fs::path log = temporary.path / "log", installed = temporary.path / "installed";
  std::string folders, arguments;
  for (const std::string name : {"scaler", "shifter"}) {
    tensor::TensorMap map = weights();
    if (name == "shifter") // the same tables and names of kernels, with another bias
      map["layer.bias"].set_double(0, 1000);
    emit::EmitOptions options;
    options.weights = &map;
    program::Program program = program::sample_program();
    program.name = name;
    program.structure = tensor::structure_from_json(
        R"({"dict": [["result", "*"], ["none", "*"], ["more", {"list": ["*"]}]]})");
    const fs::path out = temporary.path / name;
    emit::emit(program, out.string(), options);
    folders += (folders.empty() ? "" : ";") + out.string();
    arguments += " " + (installed / "share" / name / "weights.safetensors").string();
  }
  const std::string expected = R"(scaler: 73 0 243 137 22 483
shifter: 1072 0 243 1136 22 483
other: 1072 0 243 1136 22 483
error 1: input "x", dimension 1: size 2, expected 4
error 1: no output is called "logits"; there are result, none, more.0, mutated_layer.count
)";
  const fs::path source = fs::path(TSC_TEST_SOURCES) / "two_models",
                 by_folder = temporary.path / "by_folder",
                 by_package = temporary.path / "by_package";
  REQUIRE(builds(source, by_folder,
                 "-DTSC_DEVICE=host -DCMAKE_INSTALL_LIBDIR=lib -DCMAKE_INSTALL_PREFIX=" +
                     installed.string() + " \"-DMODELS=" + folders + "\"",
                 log));
  REQUIRE(succeeds(std::string(TSC_TEST_CMAKE) + " --install " + by_folder.string(), log));
  CHECK(succeeds((by_folder / "two_models").string() + arguments, log));
  CHECK(read_text(log) == expected);
  fs::remove_all(by_folder); // what is installed stands alone
  REQUIRE(builds(source, by_package, "-DCMAKE_PREFIX_PATH=" + installed.string(), log));
  CHECK(succeeds((by_package / "two_models").string() + arguments, log));
  CHECK(read_text(log) == expected);
}

#ifdef TSC_WITH_CUDA
TEST_CASE("An emitted folder builds for CUDA, by nvcc and for NVRTC", "[emit]") {
  TemporaryFolder temporary;
  fs::path out = temporary.path / "out", log = temporary.path / "log";
  std::vector<program::Program> plans(2, program::sample_program());
  plans[1].archs = {"sm_120"};
  plans[1].kernels[0].cuda.text += "// another\n";
  emit::emit(plans, out.string(), {});
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
