// Convolutions of many groups: the way that GPUs take against that of the host.
#include "tsc_process.h"

#include "testing/catch.h"

using namespace tsc;

namespace {

/// A convolution of 16-bit floats with its channels innermost, `each` of them a group, that a ReLU
/// follows: more than a million results.
std::string grouped(const std::string &dtype, int channels, int each, int height, int width) {
  const auto number = [](int value) { return std::to_string(value); };
  const auto tensor = [&](const std::string &name, const std::string &sizes,
                          const std::string &strides) {
    return R"({"name": ")" + name + R"(", "op": "placeholder", "val": {"dtype": ")" + dtype +
           R"(", "size": [)" + sizes + R"(], "stride": [)" + strides + R"(], "device": "cpu"}},)";
  };
  return R"({"format": "tsc-graph", "version": 1, "name": "grouped", "nodes": [)" +
         tensor("x", "1, " + number(channels) + ", " + number(height) + ", " + number(width),
                number(channels * height * width) + ", 1, " + number(width * channels) + ", " +
                    number(channels)) +
         tensor("w", number(channels) + ", " + number(each) + ", 3, 3",
                number(each * 9) + ", 9, 3, 1") +
         R"({"name": "conv", "op": "call_function", "target": "aten.convolution.default", "args": )"
         R"([{"node": "x"}, {"node": "w"}, null, [1, 1], [1, 1], [1, 1], false, [0, 0], )" +
         number(channels / each) +
         R"(]}, {"name": "r", "op": "call_function", "target": "aten.relu.default", "args": )"
         R"([{"node": "conv"}]}, {"name": "output", "op": "output", "args": [[{"node": "r"}]]}]})";
}

} // namespace

TEST_CASE("groups of a few channels are summed up in tiles of neighbouring outputs") {
  struct Sizes {
    std::string dtype;
    int channels, each, height, width;
  };
  const Sizes cases[] = {{"bfloat16", 16, 8, 256, 259}, {"float16", 48, 6, 149, 150}};
  for (const Sizes &c : cases) {
    const testing::Workplace place;
    const std::string graph =
        place.file("graph.json", grouped(c.dtype, c.channels, c.each, c.height, c.width));
    const testing::Outcome told = place.run({"explain", graph, "--arch=sm_90"});
    INFO(told.out << told.err);
    CHECK(told.out.find("plan: short rows, a thread ") != std::string::npos);
    CHECK(told.out.find("that share") != std::string::npos);
    CHECK(told.out.find("library call") == std::string::npos);
    REQUIRE(place
                .run({"run", graph, "--arch=host", "--device=host", "--inputs=random:5",
                      "--outputs=columns.safetensors"})
                .exit_code == 0);
    const testing::Outcome run =
        place.run({"run", graph, "--arch=sm_90", "--device=host", "--plan=cuda",
                   "--inputs=random:5", "--expect=columns.safetensors"});
    INFO(run.out << run.err);
    CHECK(run.exit_code == 0);
    CHECK(run.out.find("output_0: agrees") != std::string::npos);
  }
}
