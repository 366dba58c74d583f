// Elements that move: tiles whose edges are several short dimensions, short innermost dimensions
// that lie apart, rows of odd length beside what they share.
#include "made_graph.h"
#include "testing/catch.h"

using namespace tsc;
using nlohmann::json;

namespace {

struct Case {
  std::string name;
  std::vector<testing::MadeInput> inputs;
  json calls;
  std::vector<std::string> outputs;
  std::string plan; // of one kernel of the GPU's, a part of its text
};

constexpr const char *kTiles = "tiles of", *kRows = "pointwise by rows",
                     *kShortLoop = "a short loop a thread", *kExchanged = "side by side";

json clone(const std::string &of) {
  return {"y",
          "aten.clone.default",
          {of},
          {{"memory_format", {{"memory_format", "contiguous_format"}}}}};
}

std::vector<Case> tiles() {
  const auto permuted = [](const std::string &name, const std::string &dtype,
                           const std::vector<int64_t> &sizes, const std::vector<int64_t> &order) {
    return Case{name,
                {{"x", dtype, sizes}},
                {{"p", "aten.permute.default", {"$x", order}}, clone("$p")},
                {"y"},
                kTiles};
  };
  const auto in_groups = [&](const std::string &name, const std::string &dtype,
                             const std::vector<int64_t> &sizes, const std::string &plan) {
    Case each = permuted(name + " that stay together", dtype, sizes, {0, 2, 1, 3});
    each.plan = plan;
    return each;
  };
  return {
      permuted("five dimensions", "float32", {3, 16, 5, 12, 64}, {4, 2, 0, 3, 1}),
      permuted("edges that fit, of floats", "float32", {68, 37, 18}, {2, 1, 0}),
      permuted("edges that fit, of 16 bits", "float16", {52, 68, 24}, {0, 2, 1}),
      permuted("edges that fit, single elements", "bfloat16", {7, 65, 27}, {0, 2, 1}),
      permuted("edges that fit, bytes", "int8", {5, 67, 21}, {0, 2, 1}),
      permuted("edges that fit, doubles", "float64", {5, 34, 19}, {0, 2, 1}),
      permuted("five odd dimensions", "float32", {3, 7, 5, 11, 67}, {4, 2, 0, 3, 1}),
      permuted("three short ones in a row", "float16", {4, 6, 3, 129}, {3, 0, 1, 2}),
      permuted("short where loads are neighbours", "bfloat16", {70, 5, 9, 8}, {2, 3, 1, 0}),
      permuted("bytes", "int8", {5, 40, 6, 33}, {3, 0, 2, 1}),
      permuted("doubles", "float64", {3, 9, 5, 24}, {3, 2, 0, 1}),
      permuted("lines that leave threads over", "bfloat16", {3, 67, 77}, {0, 2, 1}),
      permuted("whole lines beside runs", "float16", {2, 544, 77}, {0, 2, 1}),
      permuted("wide edges", "int8", {2, 301, 131}, {0, 2, 1}),
      in_groups("pairs of 16 bits", "float16", {3, 300, 299, 2}, "1 groups of 2"),
      in_groups("pairs of doubles", "float64", {2, 300, 267, 2}, "1 groups of 2"),
      in_groups("three floats", "float32", {2, 300, 267, 3}, "1 groups of 3"),
      in_groups("three bytes", "uint8", {2, 480, 496, 3}, "4 groups of 3"),
      in_groups("four of 16 bits", "bfloat16", {2, 270, 301, 4}, "1 groups of 4"),
      in_groups("whole accesses", "float32", {2, 300, 267, 4}, "1 groups of 4"),
      {"blocks of pixels of channels that are innermost",
       {{"x", "float16", {2, 60, 64, 256}}},
       {{"p", "aten.permute.default", {"$x", {0, 3, 1, 2}}},
        {"s", "aten.pixel_shuffle.default", {"$p", 2}},
        clone("$s")},
       {"y"},
       "4 groups of 2"},
      {"groups of four, their weights and what lies as the result does",
       {{"x", "float16", {2, 200, 166, 4}},
        {"z", "float16", {2, 166, 200, 4}},
        {"b", "float16", {4}}},
       {{"p", "aten.permute.default", {"$x", {0, 2, 1, 3}}},
        {"m", "aten.mul.Tensor", {"$p", "$b"}},
        {"y", "aten.add.Tensor", {"$z", "$m"}}},
       {"y"},
       "groups of 4"},
      {"an operand of a short dimension alone",
       {{"x", "float32", {3, 16, 5, 12, 64}}, {"b", "float32", {16}}},
       {{"p", "aten.permute.default", {"$x", {4, 2, 0, 3, 1}}},
        {"a", "aten.add.Tensor", {"$p", "$b"}},
        clone("$a")},
       {"y"},
       kTiles},
      {"flipped along what is across",
       {{"x", "float32", {3, 70, 45}}},
       {{"f", "aten.flip.default", {"$x", {2}}},
        {"p", "aten.permute.default", {"$f", {0, 2, 1}}},
        clone("$p")},
       {"y"},
       kTiles},
      {"looked up by relative positions, from across",
       {{"x", "float16", {3, 70, 66}}, {"c", "float16", {3, 70, 70}}},
       {{"i", "aten.arange.default", {70}},
        {"down", "aten.unsqueeze.default", {"$i", 1}},
        {"right", "aten.unsqueeze.default", {"$i", 0}},
        {"apart", "aten.sub.Tensor", {"$right", "$down"}},
        {"moved", "aten.add.Tensor", {"$apart", 33}},
        {"held", "aten.clamp.default", {"$moved", 0, 65}},
        {"one", "aten.unsqueeze.default", {"$held", 0}},
        {"all", "aten.expand.default", {"$one", {3, 70, 70}}},
        {"g", "aten.gather.default", {"$x", -1, "$all"}},
        {"t", "aten.transpose.int", {"$g", -1, -2}},
        {"y", "aten.add.Tensor", {"$c", "$t"}}},
       {"y"},
       kTiles},
      {"padded behind, then turned", // a run lies inside or outside
       {{"x", "bfloat16", {6, 500, 96}}},
       {{"p", "aten.constant_pad_nd.default", {"$x", {0, 0, 0, 12}, 0.0}},
        {"t", "aten.permute.default", {"$p", {0, 2, 1}}},
        {"s", "aten.silu.default", {"$t"}},
        clone("$s")},
       {"y"},
       "through shared memory"},
      {"padded around, then turned", // an element lies inside or outside
       {{"x", "float32", {6, 500, 97}}},
       {{"p", "aten.constant_pad_nd.default", {"$x", {2, 3, 7, 5}, 1.5}},
        {"t", "aten.permute.default", {"$p", {2, 0, 1}}},
        {"s", "aten.exp.default", {"$t"}},
        clone("$s")},
       {"y"},
       "through shared memory"},
      {"joined, then turned",
       {{"x", "float16", {6, 300, 96}}, {"z", "float16", {6, 212, 96}}},
       {{"p", "aten.cat.default", {{"$x", "$z"}, 1}},
        {"t", "aten.permute.default", {"$p", {0, 2, 1}}},
        {"s", "aten.silu.default", {"$t"}},
        clone("$s")},
       {"y"},
       "through shared memory"},
      {"one of each head, turned, beside columns of all heads", // the same for a run of columns
       {{"x", "float32", {2, 4, 256, 256}},
        {"a", "float32", {2, 4, 256}},
        {"g", "float32", {2, 13, 1024}}},
       {{"xs", "aten.slice.Tensor", {"$x", 2, 0, 13}},
        {"as", "aten.slice.Tensor", {"$a", 2, 0, 13}},
        {"e", "aten.exp.default", {"$as"}},
        {"u", "aten.unsqueeze.default", {"$e", -1}},
        {"m", "aten.mul.Tensor", {"$xs", "$u"}},
        {"t", "aten.permute.default", {"$m", {0, 2, 1, 3}}},
        {"v", "aten.reshape.default", {"$t", {2, 13, 1024}}},
        {"y", "aten.add.Tensor", {"$v", "$g"}}},
       {"y"},
       "through shared memory, runs of 4"},
  };
}

/// A shuffle by `factor` of pixels whose channels lie innermost, and lie so afterwards.
Case shuffled_inside(const std::string &dtype, const std::vector<int64_t> &sizes, int64_t factor,
                     const std::string &plan) {
  return {"shuffled, channels innermost",
          {{"x", dtype, sizes}},
          {{"c", "aten.permute.default", {"$x", {0, 3, 1, 2}}},
           {"s", "aten.pixel_shuffle.default", {"$c", factor}},
           {"a", "aten.silu.default", {"$s"}},
           {"p", "aten.permute.default", {"$a", {0, 2, 3, 1}}},
           clone("$p")},
          {"y"},
          plan};
}

std::vector<Case> short_loops() {
  const auto shuffled = [](const std::string &name, const std::string &dtype,
                           const std::vector<int64_t> &sizes, int factor,
                           const std::string &target = "aten.pixel_shuffle.default") {
    return Case{name, {{"x", dtype, sizes}}, {{"y", target, {"$x", factor}}}, {"y"}, kShortLoop};
  };
  const auto permuted = [](const std::string &name, const std::string &dtype,
                           const std::vector<int64_t> &sizes, const std::vector<int64_t> &order) {
    return Case{name,
                {{"x", dtype, sizes}},
                {{"p", "aten.permute.default", {"$x", order}}, clone("$p")},
                {"y"},
                kShortLoop};
  };
  return {
      shuffled("pixel shuffle", "bfloat16", {3, 32, 7, 10}, 4),
      shuffled("pixel shuffle by two", "float32", {3, 12, 5, 14}, 2),
      shuffled("pixel shuffle by three", "float16", {2, 18, 5, 24}, 3),
      shuffled("pixel shuffle of odd width", "float32", {2, 32, 5, 13}, 4),
      shuffled("pixel shuffle by three, accesses of 8 bytes", "float16", {2, 18, 5, 20}, 3),
      shuffled("pixel shuffle by three, accesses of 4 bytes", "bfloat16", {2, 18, 5, 10}, 3),
      shuffled("pixels apart by three, accesses of 8 bytes", "float16", {2, 4, 15, 36}, 3,
               "aten.pixel_unshuffle.default"),
      permuted("three channels of bytes last, accesses of 4", "uint8", {5, 3, 6, 6}, {0, 2, 3, 1}),
      permuted("three channels first, accesses of 8 bytes", "float32", {5, 5, 6, 3}, {0, 3, 1, 2}),
      {"enlarged by three",
       {{"x", "float16", {3, 4, 5, 20}}},
       {{"y", "aten.upsample_nearest2d.default", {"$x", {15, 60}}}},
       {"y"},
       kExchanged},
      {"enlarged by three of a width that leaves single elements",
       {{"x", "float16", {3, 4, 5, 7}}},
       {{"y", "aten.upsample_nearest2d.default", {"$x", {15, 21}}}},
       {"y"},
       ""},
      shuffled("pixels apart", "bfloat16", {3, 5, 28, 40}, 4, "aten.pixel_unshuffle.default"),
      shuffled("pixels apart by three", "float32", {2, 4, 15, 24}, 3,
               "aten.pixel_unshuffle.default"),
      permuted("three channels last", "float16", {5, 3, 12, 16}, {0, 2, 3, 1}),
      permuted("three channels first", "float16", {5, 12, 16, 3}, {0, 3, 1, 2}),
      permuted("five channels last", "bfloat16", {7, 5, 8, 29}, {0, 2, 3, 1}),
      permuted("five channels first", "float16", {7, 8, 29, 5}, {0, 3, 1, 2}),
      permuted("seven channels last", "float32", {9, 7, 4, 37}, {0, 2, 3, 1}),
      permuted("seven channels first", "int8", {5, 16, 11, 7}, {0, 3, 1, 2}),
      permuted("eight channels last", "float32", {3, 8, 11, 13}, {0, 2, 3, 1}),
      permuted("four channels of doubles last", "float64", {3, 4, 9, 7}, {0, 2, 3, 1}),
      permuted("eight channels of doubles first", "float64", {3, 9, 7, 8}, {0, 3, 1, 2}),
      {"three channels last, in a wider image",
       {{"x", "float32", {3, 3, 10, 12}}, {"p", "float32", {3, 2, 12, 3}}},
       {{"t", "aten.permute.default", {"$x", {0, 2, 3, 1}}},
        {"y", "aten.cat.default", {{"$t", "$p"}, 1}}},
       {"y"},
       ""},
      permuted("six channels of bytes last", "int8", {5, 6, 12, 24}, {0, 2, 3, 1}),
      permuted("pairs of doubles", "float64", {7, 2, 37}, {0, 2, 1}),
      shuffled_inside("bfloat16", {2, 5, 7, 256}, 2, kShortLoop),
      shuffled_inside("float32", {2, 3, 11, 36}, 2, kShortLoop),
      shuffled_inside("float16", {3, 5, 4, 72}, 3, ""), // nine of a pixel
      {"side by side",
       {{"a", "bfloat16", {30, 36}}, {"b", "bfloat16", {30, 36}}},
       {{"n", "aten.neg.default", {"$b"}}, {"y", "aten.stack.default", {{"$n", "$a"}, -1}}},
       {"y"},
       ""},
      {"computed on the way, with a bias of channels",
       {{"x", "float16", {3, 32, 60, 200}}, {"b", "float32", {2, 1, 1}}},
       {{"s", "aten.pixel_shuffle.default", {"$x", 4}},
        {"a", "aten.add.Tensor", {"$s", "$b"}},
        {"y", "aten.sigmoid.default", {"$a"}}},
       {"y"},
       kShortLoop},
      {"computed on the way apart, with positions",
       {{"x", "bfloat16", {3, 2, 12, 40}}},
       {{"s", "aten.pixel_unshuffle.default", {"$x", 2}},
        {"t", "aten.tril.default", {"$s", 2}},
        {"y", "aten.sigmoid.default", {"$t"}}},
       {"y"},
       ""},
      {"stored both ways",
       {{"x", "float32", {4, 3, 10, 12}}},
       {{"r", "aten.relu.default", {"$x"}},
        {"p", "aten.permute.default", {"$r", {0, 2, 3, 1}}},
        clone("$p"),
        {"z", "aten.exp.default", {"$r"}}},
       {"y", "z"},
       ""},
  };
}

/// Several elements a thread along a loop that is not the innermost one.
std::vector<Case> besides() {
  const auto windows = [](const std::string &name, const std::vector<int64_t> &sizes,
                          const std::vector<int> &order, const std::string &plan) {
    return Case{name,
                {{"x", "float16", sizes}},
                {{"p", "aten.permute.default", {"$x", order}},
                 {"u", "aten.unfold.default", {"$p", 2, 5, 3}},
                 clone("$u")},
                {"y"},
                plan};
  };
  return {
      windows("windows of five channels that lie beside each other", {6, 101, 331, 5}, {0, 3, 1, 2},
              "5 elements along i1 a thread, which lie beside each other"),
      windows("windows of channels that lie apart", {2, 53, 91, 71}, {0, 1, 2, 3},
              "a thread, which share their places"),
      {"pixels apart by three, of odd width",
       {{"x", "float16", {4, 8, 201, 201}}},
       {{"y", "aten.pixel_unshuffle.default", {"$x", 3}}},
       {"y"},
       "which lie beside each other"},
      {"bytes that are repeated the other way round",
       {{"x", "uint8", {100003, 14}}},
       {{"p", "aten.permute.default", {"$x", {1, 0}}},
        {"y", "aten.repeat.default", {"$p", {1, 2}}}},
       {"y"},
       ""},
  };
}

/// Loads that start between two aligned places, and some that only nearly always do.
std::vector<Case> shifts() {
  const auto rolled = [](const std::string &name, const std::string &dtype,
                         const std::vector<int64_t> &sizes, const std::vector<int> &by,
                         const std::vector<int> &dims) {
    return Case{name,
                {{"x", dtype, sizes}},
                {{"y", "aten.roll.default", {"$x", by, dims}}},
                {"y"},
                "16-byte accesses"};
  };
  return {
      rolled("rolled", "float16", {6, 3, 24, 64}, {5, -7}, {2, 3}),
      rolled("rolled on", "bfloat16", {6, 24, 64}, {3}, {2}),
      rolled("rolled floats", "float32", {6, 24, 60}, {-57}, {2}),
      rolled("rolled bytes", "int8", {6, 24, 64}, {11}, {2}),
      {"rolled and flipped",
       {{"x", "float16", {6, 3, 24, 64}}},
       {{"r", "aten.roll.default", {"$x", {5, -7}, {2, 3}}},
        {"y", "aten.flip.default", {"$r", {1}}}},
       {"y"},
       "16-byte accesses"},
      {"three neighbours",
       {{"x", "float32", {50, 136}}},
       {{"a", "aten.slice.Tensor", {"$x", 1, 3, 131}},
        {"b", "aten.slice.Tensor", {"$x", 1, 4, 132}},
        {"c", "aten.slice.Tensor", {"$x", 1, 5, 133}},
        {"d", "aten.add.Tensor", {"$a", "$b"}},
        {"y", "aten.mul.Tensor", {"$d", "$c"}}},
       {"y"},
       "16-byte accesses"},
      {"up to the last element",
       {{"x", "bfloat16", {50, 136}}},
       {{"a", "aten.slice.Tensor", {"$x", 1, 8, 136}},
        {"b", "aten.slice.Tensor", {"$x", 1, 5, 133}},
        {"y", "aten.sub.Tensor", {"$a", "$b"}}},
       {"y"},
       "16-byte accesses"},
      {"neighbours whose rows lie anywhere",
       {{"x", "float16", {50, 67}}},
       {{"a", "aten.slice.Tensor", {"$x", 1, 0, 64}},
        {"b", "aten.slice.Tensor", {"$x", 1, 3, 67}},
        {"y", "aten.add.Tensor", {"$a", "$b"}}},
       {"y"},
       ""},
      {"a halo of zeros",
       {{"x", "float32", {20, 64}}},
       {{"p", "aten.constant_pad_nd.default", {"$x", {1, 3}}}, {"y", "aten.neg.default", {"$p"}}},
       {"y"},
       ""},
  };
}

std::vector<Case> rows() {
  return {
      {"a weight of columns and one of rows",
       {{"x", "bfloat16", {300, 777}}, {"b", "bfloat16", {777}}, {"c", "bfloat16", {300, 1}}},
       {{"a", "aten.add.Tensor", {"$x", "$b"}},
        {"m", "aten.mul.Tensor", {"$a", "$c"}},
        {"y", "aten.silu.default", {"$m"}}},
       {"y"},
       kRows},
      {"parts of rows",
       {{"x", "float16", {70, 20011}}, {"b", "float32", {20011}}},
       {{"y", "aten.add.Tensor", {"$x", "$b"}}},
       {"y"},
       ""},
      {"parts of rows of one width",
       {{"x", "float16", {70, 20011}}, {"b", "float16", {20011}}},
       {{"y", "aten.add.Tensor", {"$x", "$b"}}},
       {"y"},
       kRows},
      {"images and their channels",
       {{"x", "float32", {6, 50, 33, 37}},
        {"s", "float32", {50, 1, 1}},
        {"m", "float32", {33, 37}}},
       {{"a", "aten.mul.Tensor", {"$x", "$s"}}, {"y", "aten.add.Tensor", {"$a", "$m"}}},
       {"y"},
       kRows},
      {"two results of other widths",
       {{"x", "bfloat16", {400, 517}}, {"b", "float32", {517}}},
       {{"y", "aten.add.Tensor", {"$x", "$b"}}, {"z", "aten.mul.Tensor", {"$x", "$x"}}},
       {"y", "z"},
       ""},
      {"in place",
       {{"x", "bfloat16", {300, 1025}}, {"b", "bfloat16", {1025}}},
       {{"y", "aten.add_.Tensor", {"$x", "$b"}}, {"z", "aten.neg.default", {"$y"}}},
       {"z"},
       kRows},
      {"bytes and truths",
       {{"x", "int8", {300, 999}}, {"b", "int8", {999}}},
       {{"y", "aten.gt.Tensor", {"$x", "$b"}}},
       {"y"},
       kRows},
      {"positions",
       {{"x", "bfloat16", {300, 777}}, {"c", "bfloat16", {300, 1}}},
       {{"t", "aten.tril.default", {"$x", 100}}, {"y", "aten.add.Tensor", {"$t", "$c"}}},
       {"y"},
       kRows},
      {"one row of an odd length",
       {{"x", "bfloat16", {1200007}}},
       {{"y", "aten.silu.default", {"$x"}}},
       {"y"},
       kRows},
      {"one row of an odd length in place, beside one that starts elsewhere",
       {{"x", "int8", {2300003}}, {"z", "int8", {2300010}}},
       {{"p", "aten.slice.Tensor", {"$z", 0, 5, 2300008}}, {"y", "aten.add_.Tensor", {"$x", "$p"}}},
       {"y"},
       ""},
      {"rows of another pitch",
       {{"x", "float16", {300, 1027}}, {"z", "float16", {300, 1023}}, {"b", "float16", {1023}}},
       {{"p", "aten.slice.Tensor", {"$x", 1, 3, 1026}},
        {"a", "aten.add.Tensor", {"$p", "$z"}},
        {"y", "aten.add.Tensor", {"$a", "$b"}}},
       {"y"},
       kRows},
  };
}

void check_all(const std::vector<Case> &cases, const std::vector<runtime::SessionOptions> &ways) {
  for (const Case &each : cases) {
    INFO(each.name);
    const testing::MadeGraph graph{each.name, each.inputs, each.calls, each.outputs, {}};
    const driver::Compilation compilation = testing::compile_made(graph, false);
    std::string plans;
    for (const program::Kernel &kernel : compilation.program.kernels)
      plans += kernel.plan + "\n";
    INFO(plans);
    CHECK(plans.find(each.plan) != std::string::npos);
    testing::check_made(graph, compilation, 0, ways);
  }
}

} // namespace

TEST_CASE("tiles of several dimensions on the host") { check_all(tiles(), testing::plan_ways()); }

TEST_CASE("tiles of several dimensions on the GPU", "[gpu]") {
  if (const auto ways = testing::gpu_ways(); !ways.empty())
    check_all(tiles(), ways);
}

TEST_CASE("an image with its channels innermost is a list of pixels without a copy") {
  testing::MadeGraph graph{
      "depthwise between lists of pixels",
      {{"x", "float16", {2, 1024, 64}}, {"w", "float16", {64, 1, 3, 3}}, {"b", "float16", {64}}},
      {{"t", "aten.transpose.int", {"$x", 1, 2}},
       {"image", "aten.view.default", {"$t", {2, 64, 32, 32}}},
       {"c",
        "aten.convolution.default",
        {"$image", "$w", "$b", {1, 1}, {1, 1}, {1, 1}, false, {0, 0}, 64}},
       {"pixels", "aten.view.default", {"$c", {2, 64, 1024}}},
       {"back", "aten.transpose.int", {"$pixels", 1, 2}},
       {"y", "aten.gelu.default", {"$back"}}},
      {"y"},
      {}};
  for (const char *device : {"cpu", "cuda:0"}) {
    graph.device = device;
    const driver::Compilation compilation = testing::compile_made(graph, false);
    CHECK(compilation.program.kernels.size() == 2); // weights turned, and all else
    testing::check_made(graph, compilation, 0, testing::plan_ways());
  }
}

TEST_CASE("short loops that are innermost in some accesses on the host") {
  check_all(short_loops(), testing::plan_ways());
}

TEST_CASE("short loops that are innermost in some accesses on the GPU", "[gpu]") {
  if (const auto ways = testing::gpu_ways(); !ways.empty())
    check_all(short_loops(), ways);
}

TEST_CASE("a short loop of tables does not take its runs from what is streamed") {
  const testing::MadeGraph graph{"tables whose rows are short",
                                 {{"x", "bfloat16", {48, 2, 2, 1032}},
                                  {"scale", "float32", {48, 2, 2, 1}},
                                  {"shift", "bfloat16", {48, 1, 1, 1}}},
                                 {{"a", "aten.mul.Tensor", {"$x", "$scale"}},
                                  {"t", "aten.tanh.default", {"$a"}},
                                  {"y", "aten.mul.Tensor", {"$t", "$shift"}}},
                                 {"y"},
                                 {}};
  const driver::Compilation compilation = testing::compile_made(graph, false);
  REQUIRE(compilation.program.kernels.size() == 1);
  CHECK(compilation.program.kernels[0].plan.find("runs of 1 ") == std::string::npos);
  CHECK(compilation.program.kernels[0].plan.find("run of 1 ") == std::string::npos);
  CHECK(compilation.program.kernels[0].plan.find("16-byte accesses") != std::string::npos);
  testing::check_made(graph, compilation, 0, testing::plan_ways());
}

TEST_CASE("elements beside each other a thread on the host") {
  check_all(besides(), testing::plan_ways());
}

TEST_CASE("elements beside each other a thread on the GPU", "[gpu]") {
  if (const auto ways = testing::gpu_ways(); !ways.empty())
    check_all(besides(), ways);
}

TEST_CASE("loads between aligned places on the host") { check_all(shifts(), testing::plan_ways()); }

TEST_CASE("loads between aligned places on the GPU", "[gpu]") {
  if (const auto ways = testing::gpu_ways(); !ways.empty())
    check_all(shifts(), ways);
}

TEST_CASE("pointwise rows of odd length on the host") { check_all(rows(), testing::plan_ways()); }

TEST_CASE("any number of pointwise rows of odd length on the host") {
  const testing::MadeGraph graph{
      "rows",
      {{"x", "bfloat16", {300, 777}}, {"b", "bfloat16", {777}}},
      {{"a", "aten.add.Tensor", {"$x", "$b"}}, {"y", "aten.silu.default", {"$a"}}},
      {"y"},
      {}};
  const driver::Compilation compilation = testing::compile_made(graph, true);
  REQUIRE(compilation.program.kernels.size() == 1);
  CHECK(compilation.program.kernels[0].plan.find(kRows) == 0);
  for (const int64_t rows : {int64_t{2}, int64_t{7}, int64_t{301}})
    testing::check_made(graph, compilation, rows, testing::plan_ways());
}

TEST_CASE("pointwise rows of odd length on the GPU", "[gpu]") {
  if (const auto ways = testing::gpu_ways(); !ways.empty())
    check_all(rows(), ways);
}
