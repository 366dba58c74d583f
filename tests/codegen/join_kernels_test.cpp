// Several kernels as one launch: what is shared, and where launches are cut.
#include "codegen/generate.h"
#include "join_samples.h"
#include "testing/catch.h"

#include <set>

using namespace tsc;
using tensor::DType;

namespace {

program::Program compile(const test::SampleModule &sample,
                         const target::Policy &policy = target::default_policy()) {
  const target::Target &target = target::find_target("sm_90");
  scheduler::ScheduleOptions options;
  options.policy = &policy;
  options.target = &target;
  return codegen::generate(sample.module, scheduler::schedule(sample.module, options), {&target});
}

size_t count(const std::string &text, const std::string &part) {
  size_t result = 0;
  for (size_t at = 0; (at = text.find(part, at)) != std::string::npos; at += part.size())
    ++result;
  return result;
}

/// The part of a text from the kernel's own head on.
std::string kernel_of(const std::string &text) { return text.substr(text.find("TC_KERNEL")); }

} // namespace

TEST_CASE("blocks of a launch are dealt to kernels, equal ones share their text") {
  const program::Program program = compile(test::equal_and_other());
  REQUIRE(program.kernels.size() == 1);
  REQUIRE(program.steps.size() == 1);
  const program::Kernel &kernel = program.kernels[0];
  CHECK(kernel.plan == "3 kernels in one launch: 2 x pointwise, 1 run of 4 elements a thread, "
                       "16-byte accesses; pointwise, 1 run of 1 elements a thread, one element an "
                       "access");
  const std::string name = kernel.name;
  const std::string expected =
      "// " + name +
      R"(
// Reads 16412 bytes, writes 16412.
// Plan: )" +
      kernel.plan +
      R"(.
#include "tsc_prelude.h"

TC_FN void )" +
      name +
      R"(_part0(const int block, const float *TC_RESTRICT in0, float *TC_RESTRICT out0) {
  tc_vec<float, 4> v0;
  const int i0 = (static_cast<int>(block) * 256 + static_cast<int>(threadIdx.x)) * 4;
  v0 = tc_load_vec<4>(in0 + i0);
  float s0[4];
  TC_UNROLL
  for (int j = 0; j < 4; ++j) {
    const float t0 = tc_exp(tc_get(v0.at[j]));
    s0[j] = t0;
  }
  tc_store_vec<4>(out0 + i0, s0);
}

TC_FN void )" +
      name +
      R"(_part1(const int block, const float *TC_RESTRICT in0, float *TC_RESTRICT out0) {
  const int i0 = static_cast<int>(block) * 256 + static_cast<int>(threadIdx.x);
  if (i0 < 7) {
    const float t0 = tc_get(in0[i0]);
    const float t1 = -t0;
    tc_store(out0 + i0, t1);
  }
}

TC_KERNEL void __launch_bounds__(256) )" +
      name +
      R"((const float *TC_RESTRICT in0, const float *TC_RESTRICT in1, const float *TC_RESTRICT in2, float *TC_RESTRICT out0, float *TC_RESTRICT out1, float *TC_RESTRICT out2) {
  const int block = static_cast<int>(blockIdx.x);
  if (block < 4) { // 2 of one form
    const float *p0;
    float *p1;
    switch (block / 2) {
    case 0: p0 = in0; p1 = out0; break;
    default: p0 = in2; p1 = out2;
    }
    )" +
      name +
      R"(_part0(block % 2, p0, p1);
  } else {
    )" +
      name +
      R"(_part1(block - 4, in1, out1);
  }
}
TC_EXPORT()" +
      name + ", 0)\n";
  CHECK(kernel.cuda.text == expected);
  CHECK(kernel.cuda.grid[0] == 5);
  CHECK(kernel.bytes_read == 16412);
  const auto &launch = std::get<program::Launch>(program.steps[0].kind);
  CHECK(launch.pointers.size() == 6);
  CHECK(launch.sizes.empty());
}

TEST_CASE("kernels of one launch share what they read, and shared memory") {
  const program::Program program = compile(test::rows_of_one_matrix());
  REQUIRE(program.kernels.size() == 1);
  const program::Kernel &kernel = program.kernels[0];
  CHECK(kernel.cuda.has_barriers);
  const std::string own = kernel_of(kernel.cuda.text);
  CHECK(count(own, "const float *TC_RESTRICT in") == 1); // both read it
  CHECK(count(kernel.cuda.text, "struct " + kernel.name + "_part0_shared {") == 1);
  CHECK(count(kernel.cuda.text, "union " + kernel.name + "_shared {\n  " + kernel.name +
                                    "_part0_shared part0;\n  " + kernel.name +
                                    "_part1_shared part1;\n};\n") == 1);
  CHECK(count(own, "  TC_SMEM(" + kernel.name + "_shared, memory);\n") == 1);
  CHECK(count(own, "_part1(block - 40, in0, out1, memory.part1);") == 1);
  CHECK(count(kernel.serial.text, "TC_SMEM") == 0);
}

TEST_CASE("where sizes are known at launch, so is who works on what") {
  const symbolic::Expr s0 = symbolic::symbol(symbolic::SymbolSort::size, 0),
                       s1 = symbolic::symbol(symbolic::SymbolSort::size, 1);
  const program::Program program = compile(test::symbolic_rows(s0, s1));
  REQUIRE(program.kernels.size() == 1);
  const program::Kernel &kernel = program.kernels[0];
  const auto &launch = std::get<program::Launch>(program.steps[0].kind);
  std::vector<std::string> names, values;
  for (const program::KernelParameter &parameter : kernel.parameters)
    if (parameter.kind == program::KernelParameter::Kind::size)
      names.push_back(parameter.name);
  REQUIRE(names.size() == launch.sizes.size());
  const auto value = [&](const std::string &name) {
    for (size_t i = 0; i < names.size(); ++i)
      if (names[i] == name)
        return launch.sizes[i];
    FAIL("no parameter " << name);
    return symbolic::Expr(0);
  };
  // 2 of one form in front: their blocks, and where they end.
  CHECK(value("blocks0") == symbolic::ceil_div(s0, 1024));
  CHECK(value("end0") == 2 * symbolic::ceil_div(s0, 1024));
  CHECK(kernel.cuda.grid[0] == 2 * symbolic::ceil_div(s0, 1024) + symbolic::ceil_div(s1, 256 * 4));
  CHECK(count(kernel_of(kernel.cuda.text),
              "if (block < static_cast<int>(end0)) { // 2 of one form") == 1);
  CHECK(count(kernel_of(kernel.cuda.text), "switch (block / static_cast<int>(blocks0)) {") == 1);
  CHECK(value("serial_end0") == 2 * value("serial_blocks0"));
  CHECK(count(kernel_of(kernel.serial.text), "block < static_cast<int>(serial_end0)") == 1);
}

TEST_CASE("blocks of other sizes, and more parameters than fit, are other launches") {
  const program::Program sizes = compile(test::pointwise_beside_long_rows());
  REQUIRE(sizes.kernels.size() == 2);
  CHECK(sizes.kernels[0].cuda.block[0] != sizes.kernels[1].cuda.block[0]);
  target::Policy policy = target::default_policy();
  policy.combo_max_kernels = policy.combo_max_distance = 1000;
  const program::Program many = compile(test::many_vectors(300), policy);
  REQUIRE(many.steps.size() == 2);
  std::set<uint32_t> written;
  for (const program::Step &step : many.steps) {
    CHECK(std::get<program::Launch>(step.kind).pointers.size() <= 512); // 4 KiB
    for (const uint32_t id : program::writes(many, step))
      written.insert(id);
  }
  CHECK(written.size() == 300);
}
