// Linear algebra: what is refused, and how results lie.
#include "sample_graph.h"
#include "support/diagnostic.h"
#include "testing/catch.h"

using namespace tsc;
using namespace tsc::ops;
using tensor::DType;
using testing::SampleGraph;

namespace {

/// The first error that one call of `target` gives, without place.
std::string refusal(const std::string &target, DType dtype, std::vector<symbolic::Expr> sizes,
                    graph::Argument::List more = {},
                    std::vector<std::pair<std::string, graph::Argument>> keywords = {}) {
  SampleGraph sample;
  graph::Argument::List args = {sample.input("x", dtype, std::move(sizes))};
  args.insert(args.end(), more.begin(), more.end());
  const graph::Argument y = sample.call("y", target, args, std::move(keywords));
  graph::Graph graph = sample.finish({y});
  try {
    run_graph_passes(graph, {});
  } catch (const support::UserError &error) {
    const support::Diagnostic &first = error.diagnostics().front();
    return first.code + ": " + first.message + "; " + first.next_step;
  }
  return "no error";
}

} // namespace

TEST_CASE("linear algebra refuses what PyTorch does") {
  CHECK(refusal("aten.linalg_inv.default", DType::f16, {2, 2}) ==
        "TSC-O127: aten.linalg_inv.default of torch.float16; convert it to torch.float32 or "
        "torch.float64 first");
  CHECK(refusal("aten.linalg_svdvals.default", DType::i64, {2, 2}) ==
        "TSC-O127: aten.linalg_svdvals.default of torch.int64; convert it to torch.float32 or "
        "torch.float64 first");
  CHECK(refusal("aten.linalg_qr.default", DType::f32, {3}) ==
        "TSC-O128: aten.linalg_qr.default: 'A' has 1 dimensions, at least 2 are needed; give a "
        "matrix, or a batch of them");
  CHECK(refusal("aten.linalg_cholesky.default", DType::f32, {2, 3}) ==
        "TSC-O129: aten.linalg_cholesky.default: 'self' of sizes [2, 3] is not square; give square "
        "matrices");
  CHECK(refusal("aten.linalg_eigvals.default", DType::f32, {2, 3}) ==
        "TSC-O129: aten.linalg_eigvals.default: 'self' of sizes [2, 3] is not square; give square "
        "matrices");
  CHECK(refusal("aten.linalg_lu_factor.default", DType::f32, {2, 2}, {}, {{"pivot", false}}) ==
        "TSC-O142: aten.linalg_lu_factor.default without pivots; leave out pivot=False, which "
        "PyTorch has on a GPU alone");
  CHECK(refusal("aten.linalg_qr.default", DType::f32, {2, 2}, {std::string("full")}) ==
        "TSC-O143: aten.linalg_qr.default of mode 'full'; use 'reduced', 'complete' or 'r'");
  CHECK(refusal("aten.linalg_eigh.default", DType::f32, {2, 2}, {std::string("M")}) ==
        "TSC-O143: aten.linalg_eigh.default of the triangle 'M'; use 'L' or 'U'");
  CHECK(refusal("aten.linalg_matrix_norm.default", DType::f32, {2, 2}, {3.0}) ==
        "TSC-O096: aten.linalg_matrix_norm.default: there is no matrix norm of this order; use two "
        "dimensions and the order 'fro', 'nuc', 1, -1, 2, -2, inf or -inf");
  CHECK(refusal("aten.linalg_inv.default", DType::c64, {2, 3}) ==
        "TSC-O129: aten.linalg_inv.default: 'A' of sizes [2, 3] is not square; give square "
        "matrices");
}

TEST_CASE("factorizations lie column by column, as PyTorch has them") {
  SampleGraph sample;
  const graph::Argument x = sample.input("x", DType::f32, {2, 5, 4});
  const graph::Argument lu = sample.call("lu", "aten.linalg_lu_factor_ex.default", {x});
  const graph::Argument svd = sample.call("svd", "aten.linalg_svd.default", {x});
  graph::Graph graph = sample.finish({lu, svd});
  graph = infer_shapes(std::move(graph), {});
  const auto strides = [&](const char *name, size_t item) {
    for (const graph::Node &node : graph.nodes)
      if (node.name == name)
        return (*node.value->list())[item].tensor()->layout.strides;
    return std::vector<symbolic::Expr>{};
  };
  using Strides = std::vector<symbolic::Expr>;
  CHECK(strides("lu", 0) == Strides{20, 1, 5});
  CHECK(strides("lu", 1) == Strides{4, 1});
  CHECK(strides("svd", 0) == Strides{25, 1, 5});
  CHECK(strides("svd", 1) == Strides{4, 1});
  CHECK(strides("svd", 2) == Strides{16, 1, 4});
}

TEST_CASE("complex matrices go to a library as pairs of real numbers") {
  SampleGraph sample;
  const graph::Argument x = sample.input("x", DType::c64, {2, 5, 4});
  graph::Graph graph = sample.finish({sample.call("svd", "aten.linalg_svd.default", {x, false})});
  graph = run_graph_passes(std::move(graph), {});
  bool is_found = false;
  for (const graph::Node &node : graph.nodes) {
    if (node.target != "tsc.svd.default")
      continue;
    is_found = true;
    using Strides = std::vector<symbolic::Expr>;
    const graph::Value::List &results = *node.value->list();
    CHECK(results[0].tensor()->dtype == DType::f32);
    CHECK(results[0].tensor()->layout.sizes == Strides{2, 5, 4, 2});
    CHECK(results[0].tensor()->layout.strides == Strides{40, 2, 10, 1});
    CHECK(results[1].tensor()->layout.sizes == Strides{2, 4}); // singular values are real
  }
  CHECK(is_found);
}
