// Positions that a narrow dtype does not hold: they wrap where they are made, on every device.
#include "driver/reference.h"
#include "made_graph.h"
#include "tensor/host_tensor.h"
#include "testing/catch.h"

using namespace tsc;

TEST_CASE("positions wrap in their dtype before anything is done with them") {
  struct Case {
    std::string dtype;
    int64_t start, least, largest;
  };
  for (const Case &one : {Case{"uint8", -1, 0, 255}, Case{"int8", 126, -128, 127},
                          Case{"int16", 32766, -32768, 32767}, Case{"int64", -1, -1, 2}}) {
    testing::MadeGraph graph;
    graph.name = one.dtype;
    const nlohmann::json dtype = {{"dtype", one.dtype}};
    graph.calls = {{"c", "aten.arange.start", {one.start, one.start + 4}, {{"dtype", dtype}}},
                   {"x", "aten.amin.default", {"$c", {0}, false}},
                   {"y", "aten.amax.default", {"$c", {0}, false}}};
    graph.outputs = {"x", "y"};
    const driver::Compilation compilation = testing::compile_made(graph, false);
    INFO(one.dtype);
    const auto check = [&](const std::vector<tensor::HostTensor> &outputs) {
      CHECK(outputs[0].get_int64(0) == one.least);
      CHECK(outputs[1].get_int64(0) == one.largest);
    };
    check(driver::run_reference(compilation, {}, {}));
    for (const runtime::SessionOptions &way : testing::host_ways())
      check(runtime::Session::create(compilation.program, {}, way)->run({}));
  }
}
