// Every kernel of the samples compiles for sm_80 and sm_90, without spilling, and accesses memory
// as its plan says.
#include "testing/catch.h"

#include "codegen/generate.h"
#include "sample_modules.h"

#include <nvrtc.h>

#include <regex>

using namespace tsc;
using tensor::DType;

namespace {

struct Compiled {
  std::string log, ptx;
};

Compiled compile(const std::string &text, const std::string &arch) {
  std::vector<std::string> names, texts;
  std::vector<const char *> name_pointers, text_pointers;
  for (const codegen::PreludeFile &file : codegen::prelude_files()) {
    names.emplace_back(file.name);
    texts.emplace_back(file.text);
  }
  for (size_t i = 0; i < names.size(); ++i) {
    name_pointers.push_back(names[i].c_str());
    text_pointers.push_back(texts[i].c_str());
  }
  nvrtcProgram program = nullptr;
  REQUIRE(nvrtcCreateProgram(&program, text.c_str(), "kernel.cu", static_cast<int>(names.size()),
                             text_pointers.data(), name_pointers.data()) == NVRTC_SUCCESS);
  const std::string arch_option = "--gpu-architecture=" + arch;
  const char *options[] = {arch_option.c_str(), "--std=c++20", "--ptxas-options=-v"};
  const nvrtcResult result = nvrtcCompileProgram(program, 3, options);
  Compiled compiled;
  size_t size = 0;
  nvrtcGetProgramLogSize(program, &size);
  compiled.log.resize(size);
  nvrtcGetProgramLog(program, compiled.log.data());
  INFO(text);
  INFO(compiled.log);
  REQUIRE(result == NVRTC_SUCCESS);
  nvrtcGetPTXSize(program, &size);
  compiled.ptx.resize(size);
  nvrtcGetPTX(program, compiled.ptx.data());
  nvrtcDestroyProgram(&program);
  return compiled;
}

int registers(const std::string &log) {
  std::smatch match;
  return std::regex_search(log, match, std::regex("Used ([0-9]+) registers")) ? std::stoi(match[1])
                                                                              : -1;
}

void check_sample(const test::SampleModule &sample, int most_registers) {
  codegen::CodegenOptions options;
  options.target = &target::find_target("sm_90");
  const scheduler::Schedule schedule = sample.schedule();
  const program::Program program = codegen::generate(sample.module, schedule, options);
  for (const program::Kernel &kernel : program.kernels) {
    for (const char *arch : {"sm_80", "sm_90"}) {
      const Compiled compiled = compile(kernel.cuda.text, arch);
      INFO(kernel.cuda.text << compiled.log);
      CHECK(compiled.log.find("0 bytes spill stores, 0 bytes spill loads") != std::string::npos);
      CHECK(registers(compiled.log) > 0);
      CHECK(registers(compiled.log) <= most_registers);
      CHECK(compiled.log.find("warning") == std::string::npos);
      if (kernel.plan.find("16-byte accesses") != std::string::npos)
        CHECK(std::regex_search(compiled.ptx, std::regex("ld\\.global(\\.nc|\\.cs)?\\.v4")));
    }
  }
}

} // namespace

TEST_CASE("row reductions compile without spills") {
  check_sample(test::row_sum(262144, 256, DType::f16), 40);
  check_sample(test::row_sum(1000, 255, DType::f32), 64);
  check_sample(test::add_sum(8192, 8192), 64);
  check_sample(test::softmax(32768, 4096, DType::bf16), 64);
  check_sample(test::softmax(128, 100000, DType::f32), 64);
  check_sample(test::layer_norm_gelu(32768, 4096, DType::bf16), 80);
  check_sample(test::layer_norm_gelu(8192, 768, DType::bf16), 80);
}

TEST_CASE("column reductions and pointwise kernels compile without spills") {
  check_sample(test::column_sum(4096, 1000, DType::f32), 64);
  check_sample(test::broadcast_relu(333, 1024, DType::bf16), 64);
  check_sample(test::broadcast_relu(7, 13, DType::f32), 64);
}

TEST_CASE("tiles and split rows compile without spills") {
  check_sample(test::transposed_add(16384, 16384, DType::f32), 80);
  check_sample(test::transposed_add(1000, 96, DType::f16), 80);
  check_sample(test::transposed_add(1001, 999, DType::f32), 80);
  check_sample(test::row_sum(4, 1048576, DType::f32), 64);
  check_sample(test::column_sum(32768, 768, DType::f16), 64);
}
