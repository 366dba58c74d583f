// Every recorded case against PyTorch's numbers, on every device that needs no GPU.
#include "case_file.h"
#include "merge_programs.h"

#include "driver/compile.h"
#include "driver/operators_folder.h"
#include "driver/reference.h"
#include "graph/read.h"
#include "runtime/session.h"
#include "support/diagnostic.h"
#include "testing/catch.h"
#include "testing/skip.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <memory>

using namespace tsc;
using testing::Case;

namespace {

/// Single operators: the bounds of docs/numbers.md; long sums and scans lose a digit.
tensor::AgreementRule rule_for(const std::string &family, tensor::DType dtype) {
  tensor::AgreementRule rule;
  if (dtype == tensor::DType::bf16)
    rule.norm_bound = 4e-3;
  if (dtype == tensor::DType::f32 && (family == "reductions" || family == "scans"))
    rule.norm_bound = 1e-4;
  return rule;
}

struct Compiled {
  std::vector<Case> cases;
  std::vector<driver::Compilation> compilations; // parallel to cases that compile
};

/// The rows of the family custom_operators.
std::shared_ptr<const ops::CustomOperators> operators_of(const std::string &family) {
  if (family != "custom_operators")
    return nullptr;
  return driver::read_operators(std::string(TSC_SOURCE_DIR) + "/graphs/custom_operators/operators");
}

/// TSC_CASE=NAME in the environment keeps only that case.
Compiled compile_family(const std::string &family, driver::CompileOptions options = {}) {
  options.operators = operators_of(family);
  Compiled result;
  const char *only = std::getenv("TSC_CASE");
  for (Case &one : testing::read_cases(family)) {
    if (only && one.name != only)
      continue;
    try {
      result.compilations.push_back(
          driver::compile(graph::parse_graph(one.model, one.name), options));
      result.cases.push_back(std::move(one));
    } catch (const support::UserError &error) {
      // Products at run-time indices have no fixed order.
      const bool refused = options.deterministic && error.diagnostics().front().code == "TSC-O218";
      if (!refused)
        FAIL_CHECK(family << "/" << one.name << " does not compile: " << error.what());
    } catch (const std::exception &error) {
      FAIL_CHECK(family << "/" << one.name << " does not compile: " << error.what());
    }
  }
  return result;
}

/// What PyTorch makes on CUDA of a float that no integer of the result's width is near: numbers
/// beyond int32 and int64 are the nearest ones, narrower integers the low bits of these (of int64
/// for uint8). NaN is the smallest int64, and int32's 0, or its smallest of float64.
int64_t cast_on_cuda(double x, tensor::DType from, tensor::DType to) {
  const auto nearest = [&](double low, double high, int64_t lowest, int64_t highest, int64_t nan) {
    return std::isnan(x) ? nan : x <= low ? lowest : x >= high ? highest : static_cast<int64_t>(x);
  };
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max(),
                    kLeast = std::numeric_limits<int64_t>::min();
  const int64_t wide = nearest(-0x1p63, 0x1p63, kLeast, kMost, kLeast);
  const int64_t narrow = nearest(
      -0x1p31, 0x1p31 - 1, std::numeric_limits<int32_t>::min(), std::numeric_limits<int32_t>::max(),
      from == tensor::DType::f64 ? std::numeric_limits<int32_t>::min() : 0);
  switch (to) {
  case tensor::DType::i64:
    return wide;
  case tensor::DType::u8:
    return static_cast<uint8_t>(wide);
  case tensor::DType::i8:
    return static_cast<int8_t>(narrow);
  case tensor::DType::i16:
    return static_cast<int16_t>(narrow);
  default:
    return narrow;
  }
}

/// Casts of such floats, which CUDA's devices do in a way of their own; false if the case is none.
bool check_casts_on_cuda(const Case &one, const tensor::HostTensor &output, size_t i) {
  if (one.name.rfind("beyond_", 0) != 0)
    return false;
  if (one.name == "beyond_quotients") {
    constexpr int64_t kMost = std::numeric_limits<int32_t>::max(),
                      kLeast = std::numeric_limits<int32_t>::min();
    const int64_t expected[4][4] = {// inf, NaN, -inf, 2.5; their low bits and 1; ..
                                    {kMost, 0, kLeast, 2},
                                    {0, 1, 1, 3},
                                    {kLeast, 0, kMost, 3},
                                    {kMost, 0, kLeast, kMost}};
    for (int64_t k = 0; k < output.numel(); ++k)
      CHECK(output.get_int64(k) == expected[i][k]);
    return true;
  }
  const tensor::HostTensor &x = one.inputs[0];
  for (int64_t k = 0; k < output.numel(); ++k) {
    INFO(x.get_double(k));
    CHECK(output.get_int64(k) == cast_on_cuda(x.get_double(k), x.dtype(), output.dtype()));
  }
  return true;
}

void check_outputs(const std::string &family, const Case &one, const program::Program &program,
                   const std::vector<tensor::HostTensor> &outputs, const std::string &device) {
  if (outputs.size() != one.outputs.size() || program.outputs.size() != one.outputs.size()) {
    FAIL_CHECK(family << "/" << one.name << ": " << outputs.size() << " outputs, PyTorch has "
                      << one.outputs.size());
    return;
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    // PyTorch's CPU hands -0.0 on; on CUDA the larger of -0.0 and 0.0 is 0.0, there and here.
    const bool is_bounded_zero =
        one.name == "relu_of_negative_zero" || one.name.rfind("clamps_of_negative_zero", 0) == 0;
    if (device == "cuda" && is_bounded_zero && i == 0) {
      const auto *signs = reinterpret_cast<const uint8_t *>(outputs[i].data());
      INFO(family << "/" << one.name << " on " << device);
      CHECK(std::all_of(signs, signs + outputs[i].numel(), [](uint8_t sign) { return sign == 0; }));
      continue;
    }
    if (device == "cuda" && check_casts_on_cuda(one, outputs[i], i))
      continue;
    bool has_reference =
        one.references[i].dtype() == tensor::DType::f64 && one.references[i].data() != nullptr;
    tensor::Agreement agreement =
        tensor::compare(outputs[i], one.outputs[i], has_reference ? &one.references[i] : nullptr,
                        rule_for(family, one.outputs[i].dtype()));
    INFO(family << "/" << one.name << " output " << i << " on " << device << ": "
                << agreement.reason);
    CHECK(agreement.ok);
  }
}

void run_on_reference(const std::string &family) {
  Compiled compiled = compile_family(family);
  for (size_t i = 0; i < compiled.cases.size(); ++i) {
    try {
      check_outputs(family, compiled.cases[i], compiled.compilations[i].program,
                    driver::run_reference(compiled.compilations[i], compiled.cases[i].inputs,
                                          compiled.cases[i].weights),
                    "reference");
    } catch (const std::exception &error) {
      FAIL_CHECK(family << "/" << compiled.cases[i].name << " on reference: " << error.what());
    }
  }
}

/// On a GPU the second run is recorded and the third is replayed (engine/recordings.h), unless the
/// first one changes what the next one reads.
int rounds_on(const program::Program &program, const std::string &device) {
  const bool changes = std::any_of(program.buffers.begin(), program.buffers.end(),
                                   [](const program::Buffer &buffer) {
                                     return buffer.mutated && buffer.role == program::Role::weight;
                                   });
  return device == "cuda" && !changes ? 3 : 1;
}

void run_on_session(const std::string &family, const std::vector<runtime::SessionOptions> &variants,
                    const std::string &device, const driver::CompileOptions &how = {}) {
  Compiled compiled = compile_family(family, how);
  std::vector<program::Program> programs;
  std::vector<tensor::HostTensor> inputs;
  tensor::TensorMap weights; // named as merge_programs does
  for (size_t i = 0; i < compiled.cases.size(); ++i) {
    for (const auto &[name, weight] : compiled.cases[i].weights)
      weights.emplace("p" + std::to_string(i) + "_" + name, weight);
    programs.push_back(compiled.compilations[i].program);
    for (const tensor::HostTensor &input : compiled.cases[i].inputs)
      inputs.push_back(input);
  }
  program::Program merged = testing::merge_programs(programs);
  for (const runtime::SessionOptions &options : variants) {
    std::unique_ptr<runtime::Session> session = runtime::Session::create(merged, weights, options);
    for (int round = 0; round < rounds_on(merged, device); ++round) {
      session->set_seed(0);
      std::vector<tensor::HostTensor> outputs = session->run(inputs);
      size_t next = 0;
      for (size_t i = 0; i < compiled.cases.size(); ++i) {
        size_t count = programs[i].outputs.size();
        std::vector<tensor::HostTensor> own(outputs.begin() + static_cast<long>(next),
                                            outputs.begin() + static_cast<long>(next + count));
        next += count;
        check_outputs(family, compiled.cases[i], programs[i], own, device);
      }
    }
  }
}

std::vector<runtime::SessionOptions> serial() { return {runtime::SessionOptions{}}; }

std::vector<runtime::SessionOptions> fibers() {
  runtime::SessionOptions forward;
  forward.plan = runtime::Plan::cuda;
  runtime::SessionOptions reverse = forward;
  reverse.thread_order = runtime::SessionOptions::ThreadOrder::reverse;
  return {forward, reverse};
}

std::vector<runtime::SessionOptions> gpu() {
  runtime::SessionOptions options;
  options.device = runtime::DeviceKind::cuda;
  return {options};
}

} // namespace

// Where there is no GPU.
#define TSC_FAMILY_OF_HOSTS(family)                                                                \
  TEST_CASE(#family " on reference") { run_on_reference(#family); }                                \
  TEST_CASE(#family " on host, serial plan") { run_on_session(#family, serial(), "host serial"); } \
  TEST_CASE(#family " on host, cuda plan") { run_on_session(#family, fibers(), "host cuda"); }
#define TSC_FAMILY(family)                                                                         \
  TSC_FAMILY_OF_HOSTS(family)                                                                      \
  TEST_CASE(#family " on the GPU", "[gpu]") {                                                      \
    std::string why;                                                                               \
    if (!runtime::cuda_available(&why)) {                                                          \
      testing::skip("there is no GPU: " + why);                                                    \
      return;                                                                                      \
    }                                                                                              \
    run_on_session(#family, gpu(), "cuda");                                                        \
  }

TSC_FAMILY(pointwise_unary)
TSC_FAMILY(pointwise_binary)
TSC_FAMILY(arithmetic)
TSC_FAMILY(casts)
TSC_FAMILY(reductions)
TSC_FAMILY(normalization)
TSC_FAMILY(views)
TSC_FAMILY(creation)
TSC_FAMILY(indexing)
TSC_FAMILY(matmuls)
TSC_FAMILY(attention)
TSC_FAMILY(scans)
TSC_FAMILY(mutations)
TSC_FAMILY(overwriting)
TSC_FAMILY(foreach)
TSC_FAMILY(convolution)
TSC_FAMILY(pooling)
TSC_FAMILY(sorting)
TSC_FAMILY(concatenation)
TSC_FAMILY(attention_forms)
TSC_FAMILY(encoder_layers)
TSC_FAMILY(fused_attention)
TSC_FAMILY(fused_products)
TSC_FAMILY(elementwise_extras)
TSC_FAMILY(lookups)
TSC_FAMILY(scatter_modes)
TSC_FAMILY(batch_normalization)
TSC_FAMILY(recurrent)
TSC_FAMILY(view_copies)
TSC_FAMILY(bit_views)
TSC_FAMILY(row_numerics)
TSC_FAMILY(unpooling)
TSC_FAMILY(products)
TSC_FAMILY(distances)
TSC_FAMILY(linear_algebra)
TSC_FAMILY_OF_HOSTS(ldl) // a GPU refuses Hermitian ones (solvers_test.cpp), the others are below
TSC_FAMILY(losses)
TSC_FAMILY(resampling)
TSC_FAMILY(rearrangements)
TSC_FAMILY(aliases)
TSC_FAMILY(alignments)
TSC_FAMILY(memory)
TSC_FAMILY(edges)
TSC_FAMILY(user_programs)
TSC_FAMILY(flex_attention)
TSC_FAMILY(custom_operators)
TSC_FAMILY(low_precision)
TSC_FAMILY(float32_products)
TSC_FAMILY(float8)
TSC_FAMILY(scaled_products)
TSC_FAMILY(scaled_lines)
TSC_FAMILY(quantization)
TSC_FAMILY(packed_products)
TSC_FAMILY(activation_gradients)
TSC_FAMILY(loss_gradients)
TSC_FAMILY(normalization_gradients)
TSC_FAMILY(convolution_gradients)
TSC_FAMILY(window_gradients)
TSC_FAMILY(view_gradients)
TSC_FAMILY(lookup_gradients)
TSC_FAMILY(grid_gradients)
TSC_FAMILY(attention_gradients)
TSC_FAMILY(gpu_gradients)
TSC_FAMILY(optimizers)
TSC_FAMILY(training)
TSC_FAMILY(complex)
TSC_FAMILY(complex_forms)
TSC_FAMILY(fft)
TSC_FAMILY(special)
TSC_FAMILY(prims)
TSC_FAMILY(choices)
TSC_FAMILY(selections)
TSC_FAMILY(bags)
TSC_FAMILY(few_places)
TSC_FAMILY(slice_loops)
TSC_FAMILY(given_results)

TEST_CASE("lists of tensors are computed alike in one launch, fused as lists, and one by one") {
  driver::CompileOptions as_lists, joined, alone, listed_first;
  as_lists.policy = joined.policy = "inductor-2.5";
  joined.combo_kernels = true;
  alone.combo_kernels = false;
  listed_first.foreach_lists = true;
  for (const driver::CompileOptions &options : {as_lists, joined, alone, listed_first}) {
    run_on_session("foreach", serial(), "host serial", options);
    run_on_session("foreach", fibers(), "host cuda", options);
  }
}

const std::vector<std::string> kAddingFamilies = {
    "indexing", "scatter_modes", "lookups", "lookup_gradients", "view_gradients", "grid_gradients"};
driver::CompileOptions deterministic() {
  driver::CompileOptions options;
  options.deterministic = true;
  return options;
}

TEST_CASE("what adds at run-time indices is sorted on request") {
  size_t sums = 0;
  for (const std::string &family : kAddingFamilies) {
    const Compiled compiled = compile_family(family, deterministic());
    for (size_t i = 0; i < compiled.cases.size(); ++i)
      for (const program::Kernel &kernel : compiled.compilations[i].program.kernels) {
        INFO(family << "/" << compiled.cases[i].name);
        CHECK(kernel.cuda.text.find("tc_atomic_add_vec") == std::string::npos);
        sums += kernel.cuda.text.find("tc_sum_rows") != std::string::npos ? 1 : 0;
      }
    run_on_session(family, serial(), "host serial", deterministic());
    run_on_session(family, fibers(), "host cuda", deterministic());
  }
  CHECK(sums > 20);
}

TEST_CASE("what adds at run-time indices is sorted on request on the GPU", "[gpu]") {
  std::string why;
  if (!runtime::cuda_available(&why)) {
    testing::skip("there is no GPU: " + why);
    return;
  }
  for (const std::string &family : kAddingFamilies)
    run_on_session(family, gpu(), "cuda", deterministic());
}

/// Each case of `family` by itself on the GPU, but those whose name holds `left_out`.
void run_apart_on_gpu(const std::string &family, const std::string &left_out) {
  std::string why;
  if (!runtime::cuda_available(&why)) {
    testing::skip("there is no GPU: " + why);
    return;
  }
  const Compiled compiled = compile_family(family);
  for (size_t i = 0; i < compiled.cases.size(); ++i) {
    const Case &one = compiled.cases[i];
    if (!left_out.empty() && one.name.find(left_out) != std::string::npos)
      continue;
    const program::Program &program = compiled.compilations[i].program;
    const std::unique_ptr<runtime::Session> session =
        runtime::Session::create(program, one.weights, gpu().front());
    for (int round = 0; round < rounds_on(program, "cuda"); ++round) {
      session->set_seed(0);
      check_outputs(family, one, program, session->run(one.inputs), "cuda");
    }
  }
}

/// Programs with symbolic sizes and branches, which cannot be merged; without a GPU
/// tests/differential runs them.
TEST_CASE("programs on the GPU", "[gpu]") { run_apart_on_gpu("programs", ""); }
TEST_CASE("factorizations of symmetric matrices on the GPU", "[gpu]") {
  run_apart_on_gpu("ldl", "hermitian");
}

TEST_CASE("attention that is written out is one kernel") {
  const Compiled compiled = compile_family("user_programs");
  size_t written = 0, unlike = 0;
  for (size_t i = 0; i < compiled.cases.size(); ++i) {
    const std::string &name = compiled.cases[i].name;
    const std::vector<program::Kernel> &kernels = compiled.compilations[i].program.kernels;
    const bool is_one = std::any_of(kernels.begin(), kernels.end(), [](const auto &kernel) {
      return kernel.plan.rfind("attention", 0) == 0;
    });
    INFO(name);
    if (name.rfind("written_", 0) == 0) {
      CHECK(is_one);
      if (name.rfind("written_capped_bf16", 0) == 0) // heads that share keys have no copies of them
        CHECK(kernels.size() == 1);
      ++written;
    } else {
      CHECK_FALSE(is_one);
      unlike += name.rfind("unlike_", 0) == 0 ? 1 : 0;
    }
  }
  CHECK(written == 42);
  CHECK(unlike == 13);
}
