// Every elementwise operator on every dtype that it takes: the kernels compile with the host's
// compiler and with NVRTC, and give what the oracle gives.
#include "../ops/sample_graph.h"

#include "driver/compile.h"
#include "driver/reference.h"
#include "runtime/session.h"
#include "testing/catch.h"
#ifdef TSC_TEST_NVRTC
#include "testing/nvrtc.h"
#endif

#include <cmath>
#include <cstdint>

using namespace tsc;
using graph::Argument;
using tensor::DType;
using tensor::HostTensor;

namespace {

constexpr DType kDtypes[] = {DType::boolean, DType::u8,  DType::i8,  DType::i16, DType::i32,
                             DType::i64,     DType::u16, DType::u32, DType::u64, DType::f16,
                             DType::bf16,    DType::f32, DType::f64};

// By the dtypes that PyTorch's operators take.
constexpr std::string_view kUnary[] = {
    "acos",  "acosh", "asin",  "asinh", "atan",  "atanh",      "cos",     "cosh",
    "erf",   "erfc",  "exp",   "exp2",  "expm1", "lgamma",     "log",     "log10",
    "log1p", "log2",  "rsqrt", "sin",   "sinh",  "reciprocal", "sigmoid", "sqrt",
    "tan",   "tanh",  "abs",   "sign",  "isinf", "isnan",      "signbit", "logical_not"};
constexpr std::string_view kUnaryOfNumbers[] = {"neg",   "relu",  "ceil",  "floor",
                                                "trunc", "round", "square"};
constexpr std::string_view kBinary[] = {
    "add.Tensor",          "mul.Tensor",         "div.Tensor",         "eq.Tensor",
    "ne.Tensor",           "lt.Tensor",          "le.Tensor",          "gt.Tensor",
    "ge.Tensor",           "maximum.default",    "minimum.default",    "atan2.default",
    "logical_and.default", "logical_or.default", "logical_xor.default"};
constexpr std::string_view kBinaryOfNumbers[] = {"sub.Tensor", "fmod.Tensor", "remainder.Tensor",
                                                 "pow.Tensor_Tensor"};
constexpr std::string_view kBinaryOfFloats[] = {"copysign.Tensor", "hypot.default"};
constexpr std::string_view kBits[] = {"bitwise_and.Tensor", "bitwise_or.Tensor",
                                      "bitwise_xor.Tensor"};
constexpr std::string_view kShifts[] = {"bitwise_left_shift.Tensor", "bitwise_right_shift.Tensor"};

// Of f32 and f64: other dtypes are converted to one of them.
constexpr std::string_view kHigher[] = {"erfinv.default",
                                        "i0.default",
                                        "special_airy_ai.default",
                                        "special_bessel_j0.default",
                                        "special_bessel_j1.default",
                                        "special_bessel_y0.default",
                                        "special_bessel_y1.default",
                                        "special_erfcx.default",
                                        "special_i0e.default",
                                        "special_i1.default",
                                        "special_i1e.default",
                                        "special_modified_bessel_k0.default",
                                        "special_modified_bessel_k1.default",
                                        "special_ndtri.default",
                                        "special_scaled_modified_bessel_k0.default",
                                        "special_scaled_modified_bessel_k1.default"};
constexpr std::string_view kHigherBinary[] = {"special_zeta.default",
                                              "special_chebyshev_polynomial_t.default",
                                              "special_chebyshev_polynomial_u.default",
                                              "special_chebyshev_polynomial_v.default",
                                              "special_chebyshev_polynomial_w.default",
                                              "special_hermite_polynomial_h.default",
                                              "special_hermite_polynomial_he.default",
                                              "special_laguerre_polynomial_l.default",
                                              "special_legendre_polynomial_p.default"};

bool is_unsigned(DType dtype) {
  return dtype == DType::u8 || dtype == DType::u16 || dtype == DType::u32 || dtype == DType::u64;
}

HostTensor values(DType dtype, bool right) {
  static constexpr double kReal[2][4] = {{0.5, -1.25, NAN, INFINITY}, {2.0, -0.75, 1.0, 3.0}};
  static constexpr double kWhole[2][4] = {{5, -3, 7, 1}, {2, 3, -1, 4}};
  HostTensor tensor(dtype, {4});
  for (int64_t i = 0; i < 4; ++i) {
    const double whole = kWhole[right ? 1 : 0][i];
    tensor.set_double(i, dtype == DType::boolean      ? (right ? i < 2 : i % 2 == 0)
                         : tensor::is_floating(dtype) ? kReal[right ? 1 : 0][i]
                         : is_unsigned(dtype)         ? std::abs(whole)
                                                      : whole);
  }
  return tensor;
}

/// Calls of `a` and, if it is there, `b`.
class Calls {
public:
  ops::testing::SampleGraph graph;
  Argument::List outputs;

  void add(std::string_view target, Argument::List arguments,
           std::vector<std::pair<std::string, Argument>> keywords = {}) {
    const std::string name = "n" + std::to_string(outputs.size());
    outputs.push_back(graph.call(name, std::string(target), std::move(arguments), keywords));
  }
};

/// Compiles for both compilers, runs and compares.
void check(Calls calls, const std::vector<HostTensor> &inputs, const std::string &what) {
  INFO(what);
  const driver::Compilation compilation =
      driver::compile(calls.graph.finish(calls.outputs), driver::CompileOptions{});
#ifdef TSC_TEST_NVRTC
  for (const program::Kernel &kernel : compilation.program.kernels) {
    INFO(kernel.cuda.text);
    CHECK_NOTHROW(testing::compile_with_nvrtc(kernel.cuda.text, "sm_90"));
  }
#endif
  const std::vector<HostTensor> expected = driver::run_reference(compilation, inputs, {});
  for (const runtime::Plan plan : {runtime::Plan::serial, runtime::Plan::cuda}) {
    runtime::SessionOptions options;
    options.plan = plan;
    const std::vector<HostTensor> outputs =
        runtime::Session::create(compilation.program, {}, options)->run(inputs);
    REQUIRE(outputs.size() == expected.size());
    for (size_t i = 0; i < outputs.size(); ++i) {
      const tensor::Agreement agreement = tensor::compare(outputs[i], expected[i], nullptr, {});
      INFO("output " << i << ": " << agreement.reason);
      CHECK(agreement.ok);
    }
  }
}

void add_unary(Calls &calls, DType dtype, const Argument &a) {
  for (const std::string_view name : kUnary)
    calls.add("aten." + std::string(name) + ".default", {a});
  if (dtype != DType::boolean)
    for (const std::string_view name : kUnaryOfNumbers)
      if (!(is_unsigned(dtype) && name == "neg"))
        calls.add("aten." + std::string(name) + ".default", {a});
  if (tensor::is_integral(dtype, true))
    calls.add("aten.bitwise_not.default", {a});
  if (dtype == DType::f32 || dtype == DType::f64) {
    for (const std::string_view name : kHigher)
      calls.add("aten." + std::string(name), {a});
    calls.add("tsc.trigamma.default", {a});
  }
  for (const DType to : kDtypes)
    if (to != dtype &&
        !(tensor::is_floating(dtype) && tensor::is_integral(to))) // NaN as an integer
      calls.add("prims.convert_element_type.default", {a, to});
}

void add_binary(Calls &calls, DType dtype, const Argument &a, const Argument &b) {
  const auto add = [&](const auto &names) {
    for (const std::string_view name : names)
      calls.add("aten." + std::string(name), {a, b});
  };
  add(kBinary);
  if (dtype != DType::boolean) {
    add(kBinaryOfNumbers);
    for (const char *mode : {"floor", "trunc"})
      calls.add("aten.div.Tensor_mode", {a, b}, {{"rounding_mode", std::string(mode)}});
  }
  if (tensor::is_floating(dtype))
    add(kBinaryOfFloats);
  if (tensor::is_floating(dtype))
    calls.add("aten.nextafter.default", {a, b});
  if (dtype == DType::f32 || dtype == DType::f64) {
    add(kHigherBinary);
    calls.add("aten.igamma.default", {a, b});
    calls.add("aten.igammac.default", {a, b});
  }
  if (tensor::is_integral(dtype))
    calls.add("aten.gcd.default", {a, b});
  if (!tensor::is_floating(dtype))
    add(kBits);
  if (tensor::is_integral(dtype))
    add(kShifts);
  const Argument condition = calls.graph.call("condition", "aten.lt.Tensor", {a, b});
  calls.add("aten.where.self", {condition, a, b});
}

} // namespace

TEST_CASE("every elementwise operator on every dtype compiles and agrees with the oracle") {
  for (const DType dtype : kDtypes) {
    Calls calls;
    const Argument a = calls.graph.input("a", dtype, {4}), b = calls.graph.input("b", dtype, {4});
    add_unary(calls, dtype, a);
    add_binary(calls, dtype, a, b);
    check(std::move(calls), {values(dtype, false), values(dtype, true)},
          std::string(tensor::torch_name(dtype)));
  }
}

TEST_CASE("operands of every two dtypes compile and agree with the oracle") {
  for (const DType left : kDtypes) {
    Calls calls;
    const Argument a = calls.graph.input("a", left, {4});
    std::vector<HostTensor> inputs = {values(left, false)};
    for (const DType right : kDtypes) {
      const bool mixed_unsigned =
          (is_unsigned(left) && left != DType::u8) || (is_unsigned(right) && right != DType::u8);
      if (left == right || mixed_unsigned) // PyTorch promotes no uint16 to 64
        continue;
      const std::string name = "b" + std::to_string(inputs.size());
      const Argument b = calls.graph.input(name, right, {4});
      inputs.push_back(values(right, true));
      for (const char *target : {"aten.add.Tensor", "aten.div.Tensor", "aten.lt.Tensor",
                                 "aten.eq.Tensor", "aten.maximum.default"})
        calls.add(target, {a, b});
      const Argument condition = calls.graph.call("condition" + name, "aten.gt.Tensor", {a, b});
      calls.add("aten.where.self", {condition, a, b});
    }
    if (!calls.outputs.empty())
      check(std::move(calls), inputs, std::string(tensor::torch_name(left)) + " with others");
  }
}

TEST_CASE("exclusive ors of a dimension agree with the oracle") {
  for (const DType dtype : {DType::boolean, DType::u8, DType::i16, DType::i32, DType::i64}) {
    Calls calls;
    const Argument a = calls.graph.input("a", dtype, {4});
    calls.add("prims.xor_sum.default", {a, Argument::List{0}});
    calls.add("prims.xor_sum.default", {a, graph::None{}}, {{"output_dtype", DType::i64}});
    check(std::move(calls), {values(dtype, false)}, std::string(tensor::torch_name(dtype)));
  }
}

TEST_CASE("the smallest integer divided by -1 stops no program") {
  for (const DType dtype : {DType::i8, DType::i16, DType::i32, DType::i64}) {
    Calls calls;
    const Argument a = calls.graph.input("a", dtype, {1}), b = calls.graph.input("b", dtype, {1});
    for (const char *mode : {"floor", "trunc"})
      calls.add("aten.div.Tensor_mode", {a, b}, {{"rounding_mode", std::string(mode)}});
    calls.add("aten.fmod.Tensor", {a, b});
    calls.add("aten.remainder.Tensor", {a, b});
    HostTensor smallest(dtype, {1}), minus_one(dtype, {1});
    smallest.set_int64(0, dtype == DType::i8    ? INT8_MIN
                          : dtype == DType::i16 ? INT16_MIN
                          : dtype == DType::i32 ? INT32_MIN
                                                : INT64_MIN);
    minus_one.set_int64(0, -1);
    check(std::move(calls), {smallest, minus_one}, std::string(tensor::torch_name(dtype)));
  }
}

TEST_CASE("numbers beyond a float's range are infinities and zeros of it") {
  for (const DType dtype : {DType::f16, DType::bf16, DType::f32, DType::f64}) {
    Calls calls;
    const Argument a = calls.graph.input("a", dtype, {4});
    calls.add("aten.mul.Tensor", {a, 1e300});
    calls.add("aten.add.Tensor", {a, 1e-300});
    calls.add("aten.maximum.default", {a, -1.7976931348623157e308});
    calls.add("aten.constant_pad_nd.default", {a, Argument::List{1, 2}, -1e300});
    check(std::move(calls), {values(dtype, true)}, std::string(tensor::torch_name(dtype)));
  }
}
