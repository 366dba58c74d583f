// Linear algebra that fails while it runs: what PyTorch raises is an assertion about data.
#include "driver/reference.h"
#include "made_graph.h"
#include "support/diagnostic.h"
#include "testing/catch.h"

#include <cmath>
#include <functional>

using namespace tsc;
using tensor::HostTensor;

namespace {

/// `diagonal` on the diagonal of a matrix of zeros.
HostTensor diagonal_matrix(const std::vector<double> &diagonal) {
  const auto n = static_cast<int64_t>(diagonal.size());
  HostTensor matrix(tensor::DType::f32, {n, n});
  for (int64_t i = 0; i < n * n; ++i)
    matrix.set_double(i, i % (n + 1) == 0 ? diagonal[static_cast<size_t>(i / (n + 1))] : 0);
  return matrix;
}

/// What is said of `diagonal`, on every device without a GPU.
void check_said(const std::string &target, const std::vector<double> &diagonal,
                const std::string &expected) {
  testing::MadeGraph graph;
  graph.name = target;
  graph.inputs = {{"x",
                   "float32",
                   {static_cast<int64_t>(diagonal.size()), static_cast<int64_t>(diagonal.size())}}};
  graph.calls = {{"y", target, {"$x"}}};
  graph.outputs = {"y"};
  const driver::Compilation compilation = testing::compile_made(graph, false);
  const auto said = [&](const std::function<void()> &run) -> std::string {
    try {
      run();
    } catch (const support::UserError &error) {
      return error.diagnostics().front().code + ": " + error.diagnostics().front().message;
    }
    return "nothing";
  };
  const std::vector<HostTensor> inputs = {diagonal_matrix(diagonal)};
  INFO(target);
  const auto check = [&](const std::string &text) {
    CHECK(text.substr(0, expected.size()) == expected);
  };
  check(said([&] { driver::run_reference(compilation, inputs, {}); }));
  for (const runtime::SessionOptions &way : testing::host_ways()) {
    const auto session = runtime::Session::create(compilation.program, {}, way);
    check(said([&] { session->run(inputs); }));
  }
}

} // namespace

TEST_CASE("singular and indefinite matrices are errors of the run") {
  check_said("aten.linalg_inv.default", {1, 0, 2},
             "TSC-R127: the graph asserts: linalg.inv: A diagonal element is zero, the inversion "
             "could not be completed because the input matrix is singular.");
  check_said("aten.linalg_cholesky.default", {1, -1},
             "TSC-R127: the graph asserts: linalg.cholesky: The factorization could not be "
             "completed because the input is not positive-definite.");
  check_said("aten.cholesky_inverse.default", {0, 1},
             "TSC-R127: the graph asserts: cholesky_inverse: A diagonal element is zero");
  check_said("aten.linalg_svdvals.default", {1, NAN},
             "TSC-R127: the graph asserts: linalg.svd: The algorithm failed to converge because "
             "the input matrix contained non-finite values");
  check_said("aten.matrix_exp.default", {1e6, 1e7},
             "TSC-R127: the graph asserts: matrix_exp: the 1-norm of a matrix is above 2**16");
  check_said("aten.linalg_eigvals.default", {1, NAN},
             "TSC-R127: the graph asserts: torch.linalg.eig: input tensor should not contain infs "
             "or NaNs.");
  check_said("aten.linalg_inv.default", {1, 3}, "nothing");
}

TEST_CASE("what no library has for a GPU is refused there", "[gpu]") {
  const auto ways = testing::gpu_ways();
  if (ways.empty())
    return;
  testing::MadeGraph graph;
  graph.name = "ldl";
  graph.inputs = {{"x", "float32", {2, 2}}};
  graph.calls = {{"z", "aten.complex.default", {"$x", "$x"}},
                 {"y", "aten.linalg_ldl_factor.default", {"$z"}, {{"hermitian", true}}},
                 {"ld", "operator.getitem", {"$y", 0}}};
  graph.outputs = {"ld"};
  const driver::Compilation compilation = testing::compile_made(graph, false);
  for (const runtime::SessionOptions &way : ways) {
    const auto session = runtime::Session::create(compilation.program, {}, way);
    try {
      session->run({diagonal_matrix({1, 1})});
      FAIL_CHECK("nothing is said");
    } catch (const support::UserError &error) {
      CHECK(error.diagnostics().front().code == "TSC-R013");
    }
  }
}

TEST_CASE("pivots that no factorization gives are refused, not followed") {
  testing::MadeGraph graph;
  graph.name = "ldl_solve";
  graph.inputs = {{"ldl", "float32", {2, 2}}, {"b", "float32", {2, 1}}};
  graph.calls = {{"pivots", "aten.full.default", {{2}, 7}, {{"dtype", {{"dtype", "int32"}}}}},
                 {"x", "aten.linalg_ldl_solve.default", {"$ldl", "$pivots", "$b"}}};
  graph.outputs = {"x"};
  const driver::Compilation compilation = testing::compile_made(graph, false);
  const std::vector<HostTensor> inputs = {diagonal_matrix({1, 1}),
                                          HostTensor(tensor::DType::f32, {2, 1})};
  const auto refuses = [&](const std::string &code, const std::function<void()> &run) {
    try {
      run();
      FAIL_CHECK("nothing is said");
    } catch (const support::UserError &error) {
      CHECK(error.diagnostics().front().code == code);
      CHECK(std::string(error.what()).find("pivots that no factorization gives") !=
            std::string::npos);
    }
  };
  refuses("TSC-R131", [&] { driver::run_reference(compilation, inputs, {}); });
  for (const runtime::SessionOptions &way : testing::host_ways()) {
    const auto session = runtime::Session::create(compilation.program, {}, way);
    refuses("TSC-R117", [&] { session->run(inputs); });
  }
}

TEST_CASE("systems with symbols in their sizes") {
  testing::MadeGraph graph;
  graph.name = "dynamic";
  graph.inputs = {{"x", "float32", {3, 4, 4}, 0.1, 0.5}};
  graph.calls = {{"unit", "aten.eye.default", {4}},
                 {"a", "aten.add.Tensor", {"$x", "$unit"}},
                 {"inverse", "aten.linalg_inv.default", {"$a"}},
                 {"det", "aten.linalg_det.default", {"$a"}},
                 {"values", "aten.linalg_svdvals.default", {"$a"}},
                 {"b", "aten.select.int", {"$x", 2, 0}},
                 {"solved", "aten.linalg_solve.default", {"$a", "$b"}}};
  graph.outputs = {"inverse", "det", "values", "solved"};
  const driver::Compilation compilation = testing::compile_made(graph, true);
  for (const int64_t batch : {2, 5})
    testing::check_made(graph, compilation, batch, testing::host_ways());

  graph.inputs = {{"x", "float32", {3, 5}}};
  graph.calls = {{"t", "aten.t.default", {"$x"}},
                 {"gram", "aten.matmul.default", {"$x", "$t"}},
                 {"n", "aten.ones_like.default", {"$gram"}},
                 {"d", "aten.diagonal.default", {"$n"}},
                 {"unit", "aten.diag_embed.default", {"$d"}},
                 {"a", "aten.add.Tensor", {"$gram", "$unit"}},
                 {"factor", "aten.linalg_cholesky.default", {"$a"}},
                 {"values", "aten.linalg_svdvals.default", {"$x"}}};
  graph.outputs = {"factor", "values"};
  const driver::Compilation square = testing::compile_made(graph, true);
  for (const int64_t rows : {2, 7})
    testing::check_made(graph, square, rows, testing::host_ways());
}

TEST_CASE("the largest singular value is not above itself on any device") {
  testing::MadeGraph graph;
  graph.name = "singular values at the threshold";
  graph.inputs = {{"x", "float32", {40, 2, 1}}};
  graph.calls = {{"s", "aten.linalg_svdvals.default", {"$x"}},
                 {"largest", "aten.amax.default", {"$s", {-1}, true}},
                 {"above", "aten.gt.Tensor", {"$s", "$largest"}},
                 {"inverse", "aten.pinverse.default", {"$x", 1.0}}};
  graph.outputs = {"above", "inverse"};
  const driver::Compilation compilation = testing::compile_made(graph, false);
  testing::check_made(graph, compilation, 0, testing::host_ways());
  HostTensor x(tensor::DType::f32, {40, 2, 1});
  for (int64_t i = 0; i < x.numel(); ++i)
    x.set_double(i, static_cast<float>(std::sin(static_cast<double>(i + 1))));
  const auto results = driver::run_reference(compilation, {x}, {});
  for (int64_t i = 0; i < results[0].numel(); ++i)
    CHECK(results[0].get_int64(i) == 0);
  for (int64_t i = 0; i < results[1].numel(); ++i)
    CHECK(results[1].get_double(i) == 0);
}
