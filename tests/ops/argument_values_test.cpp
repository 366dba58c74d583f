// Calls that PyTorch refuses for what their arguments are: tsc does, too.
#include "sample_graph.h"
#include "support/diagnostic.h"
#include "testing/catch.h"

#include <cmath>

using namespace tsc;
using namespace tsc::ops;
using graph::Argument;
using tensor::DType;
using testing::SampleGraph;

namespace {

using List = Argument::List;

struct Input {
  std::vector<symbolic::Expr> sizes;
  DType dtype = DType::f32;
};

/// The error of `target` of these inputs and what follows them.
std::string error_of(const char *target, const std::vector<Input> &inputs, List others = {}) {
  SampleGraph sample;
  List args;
  for (size_t i = 0; i < inputs.size(); ++i)
    args.push_back(sample.input("x" + std::to_string(i), inputs[i].dtype, inputs[i].sizes));
  args.insert(args.end(), others.begin(), others.end());
  const Argument result = sample.call("y", target, args);
  try {
    run_graph_passes(sample.finish({result}), {});
  } catch (const support::UserError &error) {
    const std::string text = error.what();
    return text.substr(0, text.find('\n')) + text.substr(text.rfind('\n'));
  }
  return "no error";
}

} // namespace

TEST_CASE("numbers that an operator does not take are refused") {
  CHECK(error_of("aten.huber_loss.default", {{{5, 4}}, {{5, 4}}}, {1, 0.0}) ==
        "error TSC-O156: aten.huber_loss.default: argument 'delta' is 0\n"
        "  next: use a number above 0");
  CHECK(error_of("aten.softshrink.default", {{{1}}}, {-0.5}) ==
        "error TSC-O156: aten.softshrink.default: argument 'lambd' is -0.5\n"
        "  next: use a number of at least 0");
  CHECK(error_of("aten.avg_pool2d.default", {{{3, 3, 3}}},
                 {List{2, 2}, List{}, List{0, 0}, false, true, 0}) ==
        "error TSC-O156: aten.avg_pool2d.default: argument 'divisor_override' is 0\n"
        "  next: use another number, or None");
  CHECK(error_of("aten.multinomial.default", {{{2}}}, {0}) ==
        "error TSC-O156: aten.multinomial.default: argument 'num_samples' is 0\n"
        "  next: draw at least one");
  CHECK(error_of("aten.arange.start_step", {}, {5, 2, 3}) ==
        "error TSC-O156: aten.arange.start_step: argument 'step' is 3\n"
        "  next: step from the start towards the end");
  CHECK(
      error_of("aten.diff.default", {{{1, 3}}}, {-1}) ==
      "error TSC-O156: aten.diff.default: argument 'n' is -1\n  next: use a number of at least 0");
  CHECK(error_of("aten.isclose.default", {{{3}}, {{3}}}, {-0.4}) ==
        "error TSC-O156: aten.isclose.default: argument 'rtol' is -0.4\n"
        "  next: use a number of at least 0");
  CHECK(error_of("aten.rrelu.default", {{{5, 5}}}, {0.3, 0.1}) ==
        "error TSC-O156: aten.rrelu.default: argument 'lower' is 0.3\n"
        "  next: use a number up to 'upper'");
  CHECK(error_of("aten.group_norm.default", {{{2, 7, 4}}}, {2}) ==
        "error TSC-O156: aten.group_norm.default: argument 'num_groups' is 2\n"
        "  next: divide the channels into equal groups");
  CHECK(error_of("aten.amax.default", {{{5, 5, 5}}}, {List{0, -3}}) ==
        "error TSC-O156: aten.amax.default: argument 'dim' is dimension 0 twice\n"
        "  next: name each dimension once");
  CHECK(error_of("aten.roll.default", {{{5, 5}}}, {List{2, 1}, List{0}}) ==
        "error TSC-O156: aten.roll.default: argument 'shifts' is 2 numbers for 1 dimensions\n"
        "  next: give one shift a dimension");
  CHECK(error_of("aten.adaptive_max_pool2d.default", {{{1, 2, 3, 4}}}, {List{}}) ==
        "error TSC-O156: aten.adaptive_max_pool2d.default: argument 'output_size' is empty\n"
        "  next: give one size a dimension");
}

TEST_CASE("ranks, sizes and dtypes that an operator does not take are refused") {
  CHECK(error_of("aten.roll.default", {{{}}}, {List{0}, List{0}}) ==
        "error TSC-O128: aten.roll.default: 'self' has 0 dimensions, at least 1 are needed\n"
        "  next: reshape it");
  CHECK(error_of("aten.trace.default", {{{3, 4, 5}}}) ==
        "error TSC-O128: aten.trace.default: 'self' has 3 dimensions, at most 2 are needed\n"
        "  next: reshape it");
  CHECK(error_of("aten.linalg_cross.default", {{{5, 3}}, {{5, 1}}}) ==
        "error TSC-O129: aten.linalg_cross.default of sizes [5, 3] and [5, 1]\n"
        "  next: give tensors of as many dimensions, 3 elements along one");
  CHECK(error_of("aten.max_pool3d_with_indices.default", {{{0, 1, 2, 10}}}, {List{1, 1, 1}}) ==
        "error TSC-O129: aten.max_pool3d_with_indices.default of sizes [0, 1, 2, 10]\n"
        "  next: give planes that are not empty");
  CHECK(error_of("aten.max_pool1d.default", {{{0, 10}}}, {List{1}}) ==
        "error TSC-O129: aten.max_pool1d.default of sizes [0, 10]\n"
        "  next: give planes that are not empty");
  CHECK(error_of("aten.conv1d.default",
                 {{{1, 1, 4}, DType::i64}, {{1, 1, 2}, DType::i64}, {{1}, DType::f64}}) ==
        "error TSC-O127: aten.conv1d.default: 'bias' is torch.float64\n"
        "  next: convert the input to its dtype");
  CHECK(error_of("aten._chunk_cat.default", {}, {List{}, 0, 1}) != "no error");
  CHECK(error_of("aten.neg.default", {{{2}, DType::boolean}}) ==
        "error TSC-O127: aten.neg.default of torch.bool\n"
        "  next: use logical_not");
  CHECK(error_of("aten.masked_scatter.default", {{{1, 3}}, {{1, 3}}, {{3, 4}}}) ==
        "error TSC-O127: aten.masked_scatter.default: 'mask' is torch.float32\n"
        "  next: compare it, so that it is bool");
}

TEST_CASE(
    "histograms, combinations and distances of pairs say what is wrong with their arguments") {
  CHECK(error_of("aten.histogram.bin_ct", {{{3}, DType::i64}}) ==
        "error TSC-O127: aten.histogram.bin_ct of torch.int64\n"
        "  next: convert it to a floating dtype first");
  CHECK(error_of("aten.histogram.bin_ct", {{{3}}}, {0}) ==
        "error TSC-O031: aten.histogram.bin_ct: 0 bins\n  next: ask for one at least");
  CHECK(error_of("aten.histogramdd.default", {{{3, 2}}}, {List{4}}) ==
        "error TSC-O031: aten.histogramdd.default: numbers of bins for 1 of 2 dimensions\n"
        "  next: pass one a dimension");
  CHECK(error_of("aten.combinations.default", {{{3, 2}}}) ==
        "error TSC-O128: aten.combinations.default: 'self' has 2 dimensions, 1 is needed\n"
        "  next: pass a vector");
  CHECK(error_of("aten.pdist.default", {{{3}}}) ==
        "error TSC-O128: aten.pdist.default: 'self' has 1 dimensions, 2 are needed\n"
        "  next: pass [rows, columns]");
  CHECK(error_of("aten.equal.default", {{{3}}, {{3}, DType::i64}}) ==
        "error TSC-O127: aten.equal.default of torch.float32 and torch.int64\n"
        "  next: convert one to the dtype of the other");
}

TEST_CASE("unique of long slices is refused") {
  SampleGraph sample;
  const Argument x = sample.input("x", DType::f32, {3, 65});
  const Argument y = sample.call("y", "aten.unique_dim.default", {x, 0});
  graph::Graph graph = sample.finish({y});
  const symbolic::Expr count = symbolic::symbol(symbolic::SymbolSort::data, 0);
  graph.symbols.push_back({count, 0, 3});
  graph::Value::List values;
  for (const auto &[dtype, sizes] : {std::pair{DType::f32, std::vector<symbolic::Expr>{count, 65}},
                                     std::pair{DType::i64, std::vector<symbolic::Expr>{3}},
                                     std::pair{DType::i64, std::vector<symbolic::Expr>{count}}}) {
    graph::TensorMeta meta;
    meta.dtype = dtype;
    meta.layout = tensor::contiguous_layout(sizes);
    values.push_back(graph::Value{meta});
  }
  graph.nodes[1].value = graph::Value{values};
  try {
    run_graph_passes(graph, {});
    FAIL("it is accepted");
  } catch (const support::UserError &error) {
    CHECK_THAT(error.what(),
               contains_text("TSC-O103: aten.unique_dim.default of slices of 65 elements"));
  }
}

TEST_CASE("dtypes that an operator does not take or mix are refused") {
  const Input reals{{3, 2}}, bytes{{3, 2}, DType::u8}, places{{3, 2}, DType::i64};
  CHECK(error_of("aten.masked_fill.Scalar", {reals, bytes}, {1.0}) ==
        "error TSC-O127: aten.masked_fill.Scalar: 'mask' is torch.uint8\n"
        "  next: compare it, so that it is bool");
  CHECK(error_of("aten.silu.default", {places}) ==
        "error TSC-O127: aten.silu.default of torch.int64\n"
        "  next: convert it to a floating dtype first");
  CHECK(error_of("aten.linalg_vector_norm.default", {places}) ==
        "error TSC-O127: aten.linalg_vector_norm.default of torch.int64\n"
        "  next: convert it to a floating dtype first");
  CHECK(error_of("aten.heaviside.default", {reals, {{3, 2}, DType::f64}}) ==
        "error TSC-O041: aten.heaviside.default of torch.float32 and torch.float64\n"
        "  next: convert both to one dtype");
  CHECK(error_of("aten.ormqr.default", {{{2, 2}}, {{2}, DType::c64}, {{2, 2}}}) ==
        "error TSC-O041: aten.ormqr.default of torch.float32 and torch.complex64\n"
        "  next: convert both to one dtype");
}

TEST_CASE("pivots are a row for each matrix, factors of sizes are finite") {
  CHECK(error_of("aten.lu_unpack.default", {{{3, 5}}, {{}, DType::i32}}) ==
        "error TSC-O129: aten.lu_unpack.default: 'LU_pivots' of sizes [] for 'LU_data' of sizes "
        "[3, 5]\n  next: give what lu_factor gave: a row for each matrix");
  CHECK(error_of("aten._upsample_nearest_exact2d.default", {{{2, 3, 4, 4}}},
                 {List{3, 3}, Argument(), INFINITY}) ==
        "error TSC-O097: aten._upsample_nearest_exact2d.default by an infinite factor\n"
        "  next: give a finite scale factor");
}

TEST_CASE("a truth value is a number of a range") {
  SampleGraph sample;
  const Argument result = sample.call("y", "aten.arange.start_step", {true, 5.0, 2.0});
  CHECK_NOTHROW(run_graph_passes(sample.finish({result}), {}));
}
