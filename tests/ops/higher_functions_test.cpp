// What special functions and prims.* refuse.
#include "sample_graph.h"
#include "support/diagnostic.h"
#include "testing/catch.h"

using namespace tsc;
using namespace tsc::ops;
using graph::Argument;
using tensor::DType;
using testing::SampleGraph;

namespace {

using List = Argument::List;

/// The error of one call of `target` on arguments made by `arguments` of a sample's inputs.
template <class Make> std::string error_of(const char *target, const Make &arguments) {
  SampleGraph sample;
  const Argument result = sample.call("y", target, arguments(sample));
  try {
    run_graph_passes(sample.finish({result}), {});
  } catch (const support::UserError &error) {
    const std::string text = error.what();
    return text.substr(0, text.find('\n')) + text.substr(text.rfind('\n'));
  }
  return "no error";
}

Argument matrix(SampleGraph &sample, DType dtype = DType::f32) {
  return sample.input("x", dtype, {2, 3});
}

} // namespace

TEST_CASE("special functions say what is wrong with their arguments") {
  CHECK(error_of("aten.polygamma.default",
                 [](SampleGraph &s) {
                   return List{-1, matrix(s)};
                 }) == "error TSC-O195: aten.polygamma.default: the order -1 is negative\n"
                       "  next: give an order of at least 0");
  CHECK(error_of("aten.mvlgamma.default",
                 [](SampleGraph &s) {
                   return List{matrix(s), 0};
                 }) == "error TSC-O195: aten.mvlgamma.default: the dimension 0 is below 1\n"
                       "  next: give a dimension of at least 1");
  CHECK(error_of("aten.mvlgamma.default",
                 [](SampleGraph &s) {
                   return List{matrix(s), 2000};
                 }) == "error TSC-O036: aten.mvlgamma.default in 2000 dimensions\n"
                       "  next: use at most 1024");
  CHECK(error_of("aten.frexp.Tensor", [](SampleGraph &s) { return List{matrix(s, DType::i64)}; }) ==
        "error TSC-O127: aten.frexp.Tensor of torch.int64\n"
        "  next: convert it to a floating dtype first");
  for (const char *target : {"aten.igamma.default", "aten.special_gammaincc.default"})
    CHECK(error_of(target,
                   [](SampleGraph &s) {
                     return List{matrix(s, DType::i32), s.input("n", DType::i64, {3})};
                   }) == "error TSC-O127: " + std::string(target) +
                             " of torch.int32\n  next: convert it to a floating dtype first");
  CHECK(error_of("aten.gcd.default",
                 [](SampleGraph &s) {
                   return List{matrix(s), s.input("n", DType::i64, {3})};
                 }) == "error TSC-O127: aten.gcd.default of torch.float32\n"
                       "  next: give integers or booleans");
  CHECK(error_of("aten.lcm.default",
                 [](SampleGraph &s) {
                   return List{matrix(s, DType::boolean), s.input("n", DType::boolean, {3})};
                 }) == "error TSC-O127: aten.lcm.default of torch.bool\n"
                       "  next: give an integer tensor or number");
}

TEST_CASE("prims say what is wrong with their arguments") {
  CHECK(error_of("prims.broadcast_in_dim.default",
                 [](SampleGraph &s) {
                   return List{matrix(s), List{2, 3, 4}, List{1, 0}};
                 }) == "error TSC-O024: prims.broadcast_in_dim.default: the dimensions do not name "
                       "each of the 2 dimensions once, in order\n"
                       "  next: give each dimension of the tensor its place in the shape");
  CHECK(error_of("prims.collapse.default",
                 [](SampleGraph &s) {
                   return List{matrix(s), 0, 2};
                 }) == "error TSC-O021: prims.collapse.default: dimension 2 is not in [0, 1]\n"
                       "  next: use a dimension of the tensor");
  CHECK(error_of("prims.collapse_view.default",
                 [](SampleGraph &s) {
                   return List{matrix(s), 1, 0};
                 }) == "error TSC-O021: prims.collapse_view.default: dimension 0 is before "
                       "dimension 1\n"
                       "  next: give the first dimension first");
  CHECK(error_of("prims.copy_strided.default",
                 [](SampleGraph &s) {
                   return List{matrix(s), List{1}};
                 }) == "error TSC-O079: prims.copy_strided.default: 2 sizes and 1 strides\n"
                       "  next: give each dimension a stride");
  CHECK(error_of("prims.copy_strided.default",
                 [](SampleGraph &s) {
                   return List{matrix(s), List{0, 1}};
                 }) == "error TSC-O002: prims.copy_strided.default with strides that leave gaps or "
                       "overlap\n"
                       "  next: give strides of a dense tensor");
  CHECK(error_of("prims.xor_sum.default",
                 [](SampleGraph &s) {
                   return List{matrix(s), List{0}};
                 }) == "error TSC-O127: prims.xor_sum.default of torch.float32\n"
                       "  next: give integers or booleans");
}
