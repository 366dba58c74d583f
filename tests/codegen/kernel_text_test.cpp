#include "testing/catch.h"

#include "codegen/generate.h"
#include "sample_modules.h"

#include <cstdio>
#include <cstdlib>
#include <fstream>

using namespace tsc;
using tensor::DType;

namespace {

program::Program compile(const test::SampleModule &sample) {
  codegen::CodegenOptions options;
  options.target = &target::find_target("sm_90");
  const scheduler::Schedule schedule = sample.schedule();
  const program::Program program = codegen::generate(sample.module, schedule, options);
  // TSC_WRITE_KERNELS=FOLDER: leaves the texts where one can look at them.
  if (const char *folder = std::getenv("TSC_WRITE_KERNELS"))
    for (const program::Kernel &kernel : program.kernels) {
      std::ofstream(std::string(folder) + "/" + kernel.name + ".cu") << kernel.cuda.text;
      std::ofstream(std::string(folder) + "/" + kernel.name + "_serial.cpp") << kernel.serial.text;
    }
  return program;
}

} // namespace

TEST_CASE("a row sum of 256 halves takes 8 threads a row") {
  const program::Program program = compile(test::row_sum(262144, 256, DType::f16));
  REQUIRE(program.kernels.size() == 1);
  CHECK(program.kernels[0].plan ==
        "row reduction, 8 threads a row, 32 rows a block, row kept in registers (32 "
        "elements a thread), 16-byte accesses");
}

TEST_CASE("samples") {
  compile(test::add_sum(8192, 8192));
  compile(test::softmax(32768, 4096, DType::bf16));
  compile(test::softmax(128, 100000, DType::f32));
  compile(test::layer_norm_gelu(32768, 4096, DType::bf16));
  compile(test::column_sum(4096, 1000, DType::f32));
  compile(test::broadcast_relu(333, 1024, DType::bf16));
  compile(test::broadcast_relu(7, 13, DType::f32));
}
