// What integer division makes of operands that trap on x86: PyTorch's own process ends there, so no
// case can be recorded from it.
#include "driver/compile.h"
#include "driver/reference.h"
#include "graph/read.h"
#include "runtime/session.h"

#include "testing/catch.h"

#include <climits>
#include <tuple>

using namespace tsc;
using tensor::HostTensor;

namespace {

graph::Graph divisions(const std::string &dtype) {
  const std::string operand =
      R"(", "op": "placeholder", "val": {"dtype": ")" + dtype + R"(", "size": [4]}}, )";
  const std::string both = R"("args": [{"node": "x"}, {"node": "y"}])";
  return graph::parse_graph(R"({"format": "tsc-graph", "version": 1, "nodes": [{"name": "x)" +
                                operand + R"({"name": "y)" + operand + R"(
        {"name": "down", "op": "call_function", "target": "aten.div.Tensor_mode", )" +
                                both +
                                R"(, "kwargs": {"rounding_mode": "floor"}},
        {"name": "zero", "op": "call_function", "target": "aten.div.Tensor_mode", )" +
                                both +
                                R"(, "kwargs": {"rounding_mode": "trunc"}},
        {"name": "rest", "op": "call_function", "target": "aten.remainder.Tensor", )" +
                                both + R"(},
        {"name": "left", "op": "call_function", "target": "aten.fmod.Tensor", )" +
                                both + R"(},
        {"name": "output", "op": "output",
         "args": [[{"node": "down"}, {"node": "zero"}, {"node": "rest"}, {"node": "left"}]]}]})",
                            "g.json");
}

std::vector<int64_t> values(const HostTensor &tensor) {
  std::vector<int64_t> result;
  for (int64_t i = 0; i < tensor.numel(); ++i)
    result.push_back(tensor.get_int64(i));
  return result;
}

} // namespace

TEST_CASE("the smallest integer divided by -1 wraps, and nothing ends the process") {
  for (const auto &[name, dtype, least] :
       {std::tuple{"int32", tensor::DType::i32, int64_t{INT32_MIN}},
        std::tuple{"int64", tensor::DType::i64, INT64_MIN}}) {
    HostTensor x(dtype, {4}), y(dtype, {4});
    for (int64_t i = 0; i < 4; ++i) {
      x.set_int64(i, i % 2 == 0 ? least : 7);
      y.set_int64(i, i < 2 ? -1 : 2);
    }
    const driver::Compilation compilation = driver::compile(divisions(name), {});
    const std::vector<std::vector<int64_t>> expected = {
        {least, -7, least / 2, 3}, {least, -7, least / 2, 3}, {0, 0, 0, 1}, {0, 0, 0, 1}};
    const auto check = [&](const std::vector<HostTensor> &outputs) {
      REQUIRE(outputs.size() == 4);
      for (size_t i = 0; i < 4; ++i)
        CHECK(values(outputs[i]) == expected[i]);
    };
    check(driver::run_reference(compilation, {x, y}, {}));
    for (const runtime::Plan plan : {runtime::Plan::serial, runtime::Plan::cuda}) {
      runtime::SessionOptions options;
      options.plan = plan;
      check(runtime::Session::create(compilation.program, {}, options)->run({x, y}));
    }
  }
}
