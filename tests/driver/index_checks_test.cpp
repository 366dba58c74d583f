// Which run-time indices a kernel checks: those that data decides, not those that positions do.
#include "driver/compile.h"
#include "graph/read.h"

#include "testing/catch.h"

using namespace tsc;

namespace {

/// The kernels of `target` on x: float32[1, 2, 4, 4] and i: int64[3], after `nodes`.
std::string kernels_of(const std::string &target, const std::string &arguments,
                       const std::string &nodes = "") {
  const graph::Graph graph =
      graph::parse_graph(R"({"format": "tsc-graph", "version": 1, "nodes": [
        {"name": "x", "op": "placeholder", "val": {"dtype": "float32", "size": [1, 2, 4, 4]}},
        {"name": "i", "op": "placeholder", "val": {"dtype": "int64", "size": [3]}},)" +
                             nodes + R"({"name": "y", "op": "call_function", "target": ")" +
                             target + R"(", "args": )" + arguments + R"(},
        {"name": "output", "op": "output", "args": [{"node": "y"}]}]})",
                         "graph.json");
  std::string texts;
  for (const program::Kernel &kernel : driver::compile(graph, {}).program.kernels)
    texts += kernel.cuda.text + kernel.serial.text;
  return texts;
}

} // namespace

TEST_CASE("an index that positions decide is not checked, one that data decides is") {
  const std::string x = R"({"node": "x"})", i = R"({"node": "i"})";
  const std::string resampled =
      kernels_of("aten.upsample_bilinear2d.default", "[" + x + ", [8, 7], false]");
  CHECK(resampled.find("const int tmp") != std::string::npos);
  CHECK(resampled.find("tc_check_index") == std::string::npos);
  CHECK(
      kernels_of("aten.index_select.default", "[" + x + ", 2, " + i + "]").find("tc_check_index") !=
      std::string::npos);
  // Whatever the data is, a clamp leaves places of x.
  const std::string clamped =
      R"({"name": "n", "op": "call_function", "target": "aten.neg.default", "args": [{"node": "i"}]},
         {"name": "m", "op": "call_function", "target": "aten.add.Tensor", "args": [{"node": "n"}, 7]},
         {"name": "c", "op": "call_function", "target": "aten.clamp.default",
          "args": [{"node": "m"}, 0, 3]},)";
  CHECK(kernels_of("aten.index_select.default", "[" + x + R"(, 2, {"node": "c"}])", clamped)
            .find("tc_check_index") == std::string::npos);
}
