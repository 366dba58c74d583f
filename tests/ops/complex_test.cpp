// Complex numbers: what is refused, and what they become.
#include "sample_graph.h"
#include "support/diagnostic.h"
#include "testing/catch.h"

using namespace tsc;
using namespace tsc::ops;
using tensor::DType;
using testing::SampleGraph;

namespace {

std::string message_of(const graph::Graph &graph) {
  try {
    run_graph_passes(graph, {});
  } catch (const support::UserError &error) {
    return error.what();
  }
  return "no error";
}

} // namespace

TEST_CASE("operators that know real numbers only refuse complex ones, all in one report") {
  SampleGraph sample;
  const graph::Argument z = sample.input("z", DType::c64, {2, 3});
  const graph::Argument a = sample.call("a", "aten.relu.default", {z});
  const graph::Argument b = sample.call("b", "aten.gelu.default", {z});
  const graph::Argument c =
      sample.call("c", "aten.zeros.default", {graph::Argument::List{2}}, {{"dtype", DType::c128}});
  const graph::Argument d = sample.call("d", "aten.erf.default", {c});
  CHECK(message_of(sample.finish({a, b, d})) ==
        "error TSC-O150: aten.relu.default of torch.complex64 is not supported\n"
        "  at node a\n"
        "  in File \"model.py\", line 1, in forward: y = f(x)\n"
        "  next: compute with its parts (torch.view_as_real); docs/complex.md lists what takes "
        "complex numbers\n"
        "error TSC-O150: aten.gelu.default of torch.complex64 is not supported\n"
        "  at node b\n"
        "  in File \"model.py\", line 2, in forward: y = f(x)\n"
        "  next: compute with its parts (torch.view_as_real); docs/complex.md lists what takes "
        "complex numbers\n"
        "error TSC-O150: aten.erf.default of torch.complex128 is not supported\n"
        "  at node d\n"
        "  in File \"model.py\", line 4, in forward: y = f(x)\n"
        "  next: compute with its parts (torch.view_as_real); docs/complex.md lists what takes "
        "complex numbers");
}

TEST_CASE("bad complex arguments are the user's") {
  const auto message = [](DType dtype, const std::string &target, graph::Argument::List rest) {
    SampleGraph sample;
    graph::Argument::List args = {sample.input("x", dtype, {4, 3})};
    args.insert(args.end(), rest.begin(), rest.end());
    const std::string text = message_of(sample.finish({sample.call("y", target, args)}));
    return text.substr(0, text.find('\n'));
  };
  CHECK(message(DType::f32, "aten.view_as_complex.default", {}) ==
        "error TSC-O151: aten.view_as_complex.default of sizes [4, 3], strides [3, 1]");
  CHECK(message(DType::f32, "aten.imag.default", {}) ==
        "error TSC-O151: aten.imag.default of torch.float32");
  CHECK(message(DType::c64, "aten.fft_rfft.default", {}) ==
        "error TSC-O151: aten.fft_rfft.default of complex numbers");
  CHECK(message(DType::f16, "aten.fft_fft.default", {}) ==
        "error TSC-O150: aten.fft_fft.default of torch.float16 is not supported");
  CHECK(message(DType::c64, "aten.fft_fft.default", {0}) ==
        "error TSC-O154: aten.fft_fft.default: a transform of 0 elements");
  CHECK(message(DType::c64, "aten.fft_fft.default", {graph::None{}, -1, "left"}) ==
        "error TSC-O154: aten.fft_fft.default: norm 'left'");
  CHECK(message(DType::f32, "aten.stft.default",
                {2, 1, graph::None{}, graph::None{}, false, graph::None{}, true, true}) ==
        "error TSC-O155: aten.stft.default with align_to_window is not supported");
  CHECK(message(DType::c64, "aten.feature_alpha_dropout.default", {0.5, true}) ==
        "error TSC-O150: aten.feature_alpha_dropout.default of complex numbers in training is not "
        "supported");
  CHECK(message(DType::c64, "aten.softmax.int", {1}) ==
        "error TSC-O036: aten.softmax.int in torch.complex64");
  CHECK(message(DType::c64, "aten.bernoulli.p", {0.5}) ==
        "error TSC-O150: aten.bernoulli.p of torch.complex64 is not supported");
  CHECK(message(DType::f32, "aten.stft.default", {8}) ==
        "error TSC-O154: aten.stft.default: a frame of 8 of a signal of 3");
}

TEST_CASE("sizes that are symbols are refused where arithmetic is unrolled over them") {
  const symbolic::Expr size = symbolic::symbol(symbolic::SymbolSort::size, 0);
  const auto message = [&](const std::string &target, graph::Argument::List rest) {
    SampleGraph sample;
    graph::Argument::List args = {sample.input("z", DType::c64, {2, size})};
    args.insert(args.end(), rest.begin(), rest.end());
    const std::string text = message_of(sample.finish({sample.call("y", target, args)}));
    return text.substr(0, text.find('\n'));
  };
  CHECK(message("aten.cumprod.default", {1}) ==
        "error TSC-O152: aten.cumprod.default of complex numbers over a dimension of size s0");
  CHECK(message("aten.fft_fft.default", {8}) == "error TSC-O153: aten.fft_fft.default over 8 "
                                                "elements of a dimension of size s0, which may be "
                                                "more or fewer");
  CHECK(message("aten.fft_fft.default", {}) == "no error");
  CHECK(message("aten.exp.default", {}) == "no error");
}

TEST_CASE("parts of views of an input are views of its memory") {
  SampleGraph sample;
  const graph::Argument z = sample.input("z", DType::c64, {2, 3});
  const graph::Argument turned =
      sample.call("turned", "aten.permute.default", {z, graph::Argument::List{1, 0}});
  const graph::Argument im = sample.call("im", "aten.imag.default", {turned});
  const graph::Graph graph = run_graph_passes(sample.finish({im, turned}), {});
  CHECK(testing::calls_of(graph) == "view_as_real_1 = aten.view_as_real.default(%z)\n"
                                    "permute = aten.permute.default(%view_as_real_1, [1, 0, 2])\n"
                                    "select_1 = aten.select.int(%permute, -1, 1)\n"
                                    "view_as_complex = aten.view_as_complex.default(%permute)\n");
}

TEST_CASE("a product of complex numbers is real arithmetic") {
  SampleGraph sample;
  const graph::Argument z = sample.input("z", DType::c64, {4});
  const graph::Argument y = sample.call("y", "aten.mul.Tensor", {z, graph::Complex{0, 2}});
  const graph::Argument x = sample.call("x", "aten.abs.default", {y});
  const std::string calls = testing::calls_of(run_graph_passes(sample.finish({x}), {}));
  CHECK(calls.find("complex") == std::string::npos);
  CHECK(calls.find("aten.hypot.default") != std::string::npos);
}
