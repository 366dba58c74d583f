// Rows that start anywhere in memory, so that runs begin before them and end behind them; narrow
// columns whose neighbours share an access; scans in the order of warps.
#include "made_graph.h"
#include "testing/catch.h"

#include <algorithm>

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

constexpr const char *kAnywhere = "rows start anywhere", *kWide = "1 walk over the column, 16-byte";
constexpr const char *kHeld = "a thread a column, which it holds";

json one(const std::string &target, const json &arguments) {
  return json::array({{"y", target, arguments}});
}

std::vector<Case> rows() {
  const json moments = {{"y", "aten.var_mean.dim", {"$x", {-1}}},
                        {"v", "operator.getitem", {"$y", 0}},
                        {"m", "operator.getitem", {"$y", 1}}};
  return {
      {"log of sums",
       {{"x", "bfloat16", {7, 515}}},
       one("aten.logsumexp.default", {"$x", {-1}}),
       {"y"},
       kAnywhere},
      {"walked again",
       {{"x", "bfloat16", {3, 150001}}},
       one("aten._softmax.default", {"$x", -1, false}),
       {"y"},
       kAnywhere},
      {"softmax of 197",
       {{"x", "float16", {3, 5, 197}}},
       one("aten._softmax.default", {"$x", -1, false}),
       {"y"},
       kAnywhere},
      {"mixed widths and a weight that all rows share",
       {{"x", "bfloat16", {9, 777}}, {"z", "float32", {9, 777}}, {"w", "float32", {777}}},
       {{"s", "aten.add.Tensor", {"$x", "$z"}},
        {"n", "aten.native_layer_norm.default", {"$s", {777}, "$w", nullptr, 1e-5}},
        {"y", "operator.getitem", {"$n", 0}}},
       {"y"},
       kAnywhere},
      {"a part of each row",
       {{"x", "float16", {21, 1601}}},
       {{"p", "aten.slice.Tensor", {"$x", 1, 3, 1500}},
        {"y", "aten.amax.default", {"$p", {1}, false}}},
       {"y"},
       kAnywhere},
      {"results that lie otherwise than what is read",
       {{"x", "float16", {21, 1601}}},
       {{"p", "aten.slice.Tensor", {"$x", 1, 3, 1500}},
        {"m", "aten.amax.default", {"$p", {1}, true}},
        {"y", "aten.sub.Tensor", {"$p", "$m"}}},
       {"y"},
       "one element an access"},
      {"the place of the largest",
       {{"x", "int8", {17, 999}}},
       one("aten.argmax.default", {"$x", 1}),
       {"y"},
       kAnywhere},
      {"moments", {{"x", "float32", {33, 2047}}}, moments, {"m", "v"}, kAnywhere},
      {"one row", {{"x", "float16", {8191}}}, one("aten.sum.default", {"$x"}), {"y"}, kAnywhere},
      {"rows that an index picks start where it says",
       {{"x", "bfloat16", {50, 515}}, {"i", "int64", {17}, 0, 49}},
       {{"e", "aten.embedding.default", {"$x", "$i"}}, {"y", "aten.sum.dim_IntList", {"$e", {-1}}}},
       {"y"},
       ""},
      {"numbers drawn along rows, some of which are skipped",
       {{"x", "bfloat16", {1031, 511}}, {"z", "bfloat16", {1031, 516}}},
       {{"p", "aten.slice.Tensor", {"$z", 1, 3, 514}},
        {"r", "aten.rand_like.default", {"$x"}, {{"dtype", {{"dtype", "float32"}}}}},
        {"d", "aten.mul.Tensor", {"$x", "$r"}},
        {"y", "aten.add.Tensor", {"$d", "$p"}}},
       {"y"},
       kAnywhere},
      {"any of a row",
       {{"x", "float32", {37, 1023}}},
       {{"c", "aten.gt.Scalar", {"$x", 1.9}}, {"y", "aten.any.dim", {"$c", -1}}},
       {"y"},
       kAnywhere},
      {"running sums",
       {{"x", "float16", {64, 5001}}},
       one("aten.cumsum.default", {"$x", -1}),
       {"y"},
       kAnywhere},
      {"running sums that are stored elsewhere than their numbers lie",
       {{"x", "bfloat16", {13, 2005}}},
       {{"p", "aten.slice.Tensor", {"$x", 1, 3, 2005}}, {"y", "aten.cumsum.default", {"$p", -1}}},
       {"y"},
       kAnywhere},
      {"the same of few threads a row",
       {{"x", "float16", {3001, 133}}},
       {{"p", "aten.slice.Tensor", {"$x", 1, 1, 133}}, {"y", "aten.cumsum.default", {"$p", -1}}},
       {"y"},
       ""},
      {"the same in parts that look back",
       {{"x", "bfloat16", {3, 200003}}},
       {{"p", "aten.slice.Tensor", {"$x", 1, 1, 200003}}, {"y", "aten.cumsum.default", {"$p", -1}}},
       {"y"},
       "look back"},
      {"numbers drawn for elements that are no runs",
       {{"x", "float32", {2003, 1004}}},
       {{"p", "aten.slice.Tensor", {"$x", 1, 1, 1002}},
        {"q", "aten.permute.default", {"$p", {1, 0}}},
        {"c", "aten.slice.Tensor", {"$x", 0, 0, 1001}},
        {"r", "aten.rand_like.default", {"$p"}},
        {"n", "aten.randn_like.default", {"$p"}},
        {"e", "aten.mul.Tensor", {"$r", "$p"}},
        {"y", "aten.add.Tensor", {"$e", "$n"}}},
       {"y"},
       ""},
      {"running sums of few",
       {{"x", "float32", {300, 37}}},
       one("aten.cumsum.default", {"$x", -1}),
       {"y"},
       ""},
      {"running sums of probabilities in order",
       {{"x", "float32", {4, 999}}},
       {{"s", "aten.sort.default", {"$x", -1, true}},
        {"v", "operator.getitem", {"$s", 0}},
        {"p", "aten._softmax.default", {"$v", -1, false}},
        {"y", "aten.cumsum.default", {"$p", -1}}},
       {"y"},
       ""},
      {"running log of sums",
       {{"x", "float32", {6, 2049}}},
       one("aten.logcumsumexp.default", {"$x", -1}),
       {"y"},
       kAnywhere},
      {"statistics of rows that fill a multiprocessor are read once",
       {{"x", "float32", {150, 97248}}},
       moments,
       {"m", "v"},
       "1 walk over the row"},
  };
}

/// Rows in short pieces that are neighbours in memory.
std::vector<Case> pieces() {
  return {
      {"the second and the last of four",
       {{"x", "float16", {140, 96, 3, 28}}},
       one("aten.sum.dim_IntList", {"$x", {1, 3}}),
       {"y"},
       "64 threads a row, 3 rows a block, 1 walk over the row, 9 pieces at a time"},
      {"a number of pieces that nothing divides",
       {{"x", "float32", {140, 97, 3, 28}}},
       one("aten.sum.dim_IntList", {"$x", {1, 3}}),
       {"y"},
       "9 pieces at a time"},
      {"pieces of two loops",
       {{"x", "bfloat16", {140, 13, 2, 11, 3, 20}}},
       one("aten.sum.dim_IntList", {"$x", {1, 3, 5}}),
       {"y"},
       "12 pieces at a time"},
      {"pieces that leave too many threads over",
       {{"x", "float32", {140, 40, 3, 44}}},
       one("aten.sum.dim_IntList", {"$x", {1, 3}}),
       {"y"},
       "64 threads a row, 3 rows a block, 1 walk over the row, 8-byte"},
      {"of many neighbours",
       {{"x", "float32", {60, 64, 35, 12}}},
       one("aten.amax.default", {"$x", {1, 3}, false}),
       {"y"},
       ""},
      {"of many neighbours that share blocks",
       {{"x", "float32", {40, 150, 80, 12}}},
       one("aten.amax.default", {"$x", {1, 3}, false}),
       {"y"},
       "32 threads a row, 16 rows a block, 1 walk"},
      {"moments",
       {{"x", "float32", {140, 96, 3, 28}}},
       {{"y", "aten.var_mean.dim", {"$x", {1, 3}}},
        {"v", "operator.getitem", {"$y", 0}},
        {"m", "operator.getitem", {"$y", 1}}},
       {"m", "v"},
       ""},
      {"groups of channels that lie innermost",
       {{"x", "float16", {4, 24, 24, 40}}},
       {{"c", "aten.permute.default", {"$x", {0, 3, 1, 2}}},
        {"n", "aten.native_group_norm.default", {"$c", nullptr, nullptr, 4, 40, 576, 4, 1e-5}},
        {"y", "operator.getitem", {"$n", 0}},
        {"m", "operator.getitem", {"$n", 1}},
        {"r", "operator.getitem", {"$n", 2}}},
       {"y", "m", "r"},
       "4-byte accesses"},
      {"walked again",
       {{"x", "float32", {140, 96, 3, 28}}},
       {{"m", "aten.mean.dim", {"$x", {1, 3}, true}}, {"y", "aten.sub.Tensor", {"$x", "$m"}}},
       {"y"},
       ""},
  };
}

std::vector<Case> columns() {
  const json moments = {{"y", "aten.var_mean.dim", {"$x", {0}}},
                        {"v", "operator.getitem", {"$y", 0}},
                        {"m", "operator.getitem", {"$y", 1}}};
  return {
      {"sums",
       {{"x", "bfloat16", {777, 1024}}},
       one("aten.sum.dim_IntList", {"$x", {0}}),
       {"y"},
       kWide},
      {"sums that do not fill blocks",
       {{"x", "bfloat16", {300, 2056}}},
       one("aten.sum.dim_IntList", {"$x", {0}}),
       {"y"},
       kWide},
      {"columns in the middle",
       {{"x", "float16", {16, 512, 64}}},
       one("aten.amax.default", {"$x", {1}, false}),
       {"y"},
       kWide},
      {"two dimensions",
       {{"x", "float16", {40, 60, 2056}}},
       one("aten.amin.default", {"$x", {0, 1}, false}),
       {"y"},
       kWide},
      {"moments", {{"x", "float16", {900, 2048}}}, moments, {"m", "v"}, kWide},
      {"places",
       {{"x", "float16", {8, 600, 72}}},
       one("aten.argmax.default", {"$x", 1}),
       {"y"},
       kWide},
      {"bytes",
       {{"x", "int8", {999, 4096}}},
       one("aten.sum.dim_IntList", {"$x", {0}}),
       {"y"},
       kWide},
      {"mixed widths, a factor of each column and one of each row",
       {{"x", "bfloat16", {500, 2048}},
        {"z", "float32", {500, 2048}},
        {"c", "float32", {2048}},
        {"r", "bfloat16", {500, 1}}},
       {{"a", "aten.mul.Tensor", {"$x", "$z"}},
        {"b", "aten.mul.Tensor", {"$a", "$c"}},
        {"d", "aten.mul.Tensor", {"$b", "$r"}},
        {"s", "aten.sum.dim_IntList", {"$d", {0}}},
        {"y", "aten.add.Tensor", {"$s", "$c"}}},
       {"y"},
       kWide},
      {"floats whose loads wait together",
       {{"x", "float32", {777, 4130}}},
       one("aten.sum.dim_IntList", {"$x", {0}}),
       {"y"},
       "threads a column, 32 columns a block, 1 walk over the column"},
      {"where the least of a middle is",
       {{"x", "float32", {33, 301, 130}}},
       one("aten.argmin.default", {"$x", 1}),
       {"y"},
       "32 columns a block, 1 walk over the column"},
      {"means under a mask of rows",
       {{"x", "float16", {32, 81, 769}}, {"m", "float16", {32, 81, 1}}},
       {{"p", "aten.mul.Tensor", {"$x", "$m"}}, {"y", "aten.sum.dim_IntList", {"$p", {1}}}},
       {"y"},
       "32 columns a block, 1 walk over the column"},
      {"few rows of many channels",
       {{"x", "float16", {8, 64, 28, 28}}},
       one("aten.mean.dim", {"$x", {1}}),
       {"y"},
       kWide},
      {"probabilities of channels",
       {{"x", "float32", {3, 21, 4003}}},
       one("aten._softmax.default", {"$x", 1, false}),
       {"y"},
       kHeld},
      {"probabilities of few channels, of 16 bits",
       {{"x", "bfloat16", {2, 12, 3001}}},
       one("aten._softmax.default", {"$x", 1, false}),
       {"y"},
       kHeld},
      {"probabilities of more channels than a thread holds",
       {{"x", "float32", {3, 65, 1001}}},
       one("aten._softmax.default", {"$x", 1, false}),
       {"y"},
       "1 walk over the column"},
      {"gradients of probabilities of channels",
       {{"g", "float32", {3, 21, 1001}}, {"p", "float32", {3, 21, 1001}}},
       one("aten._softmax_backward_data.default", {"$g", "$p", 1, {{"dtype", "float32"}}}),
       {"y"},
       kHeld},
      {"doubles of channels, what is kept twice as wide",
       {{"x", "float64", {5, 31, 1009}}},
       one("aten._log_softmax.default", {"$x", 1, false}),
       {"y"},
       kHeld},
      {"sums of channels in one walk",
       {{"x", "float32", {3, 29, 1003}}},
       {{"a", "aten.mul.Tensor", {"$x", 2.5}}, {"y", "aten.sum.dim_IntList", {"$a", {1}}}},
       {"y"},
       "1 walk over the column"},
      {"deviations of channels",
       {{"x", "float32", {2, 24, 2003}}, {"w", "float32", {24, 1}}},
       {{"n", "aten.var_mean.correction", {"$x", {1}}, {{"correction", 0}, {"keepdim", true}}},
        {"v", "operator.getitem", {"$n", 0}},
        {"m", "operator.getitem", {"$n", 1}},
        {"a", "aten.sub.Tensor", {"$x", "$m"}},
        {"b", "aten.rsqrt.default", {"$v"}},
        {"c", "aten.mul.Tensor", {"$a", "$b"}},
        {"y", "aten.mul.Tensor", {"$c", "$w"}}},
       {"y"},
       ""},
      {"logarithms of probabilities of channels",
       {{"x", "float16", {2, 40, 1001}}},
       one("aten._log_softmax.default", {"$x", 1, false}),
       {"y"},
       ""},
      {"no whole runs",
       {{"x", "bfloat16", {500, 1531}}},
       one("aten.sum.dim_IntList", {"$x", {0}}),
       {"y"},
       ""},
  };
}

/// The same kernels for any number of rows.
void check_any_number(const std::vector<runtime::SessionOptions> &ways) {
  for (const Case &each : rows()) {
    if (each.plan != kAnywhere || each.inputs[0].sizes.size() != 2 || each.calls.size() > 2)
      continue;
    INFO(each.name);
    const testing::MadeGraph graph{each.name, each.inputs, each.calls, each.outputs, {}};
    const driver::Compilation compilation = testing::compile_made(graph, true);
    std::string plans;
    for (const program::Kernel &kernel : compilation.program.kernels)
      plans += kernel.plan + "\n";
    INFO(plans);
    CHECK(plans.find(kAnywhere) != std::string::npos);
    for (const int64_t first : {int64_t{2}, each.inputs[0].sizes[0] + 1})
      testing::check_made(graph, compilation, first, ways);
  }
}

/// Few rows of loops that memory is contiguous along in odd lengths only: each part lies inside of
/// one turn of the loops around them.
std::vector<Case> turns() {
  const std::vector<testing::MadeInput> turned = {{"x", "float16", {5, 64, 513}},
                                                  {"z", "float16", {64, 5, 513}}};
  const auto of_turned = [](const json &last) {
    json calls = {{"p", "aten.permute.default", {"$z", {1, 0, 2}}},
                  {"s", "aten.sub.Tensor", {"$x", "$p"}}};
    for (const json &call : last)
      calls.push_back(call);
    return calls;
  };
  return {
      {"two parts a turn, the last one shorter",
       {{"x", "float16", {37, 4099}}, {"m", "float32", {37, 1}}},
       {{"s", "aten.sub.Tensor", {"$x", "$m"}}, {"y", "aten.sum.default", {"$s"}}},
       {"y"},
       kAnywhere},
      {"operands that lie in another order",
       turned,
       of_turned({{"y", "aten.amax.default", {"$s"}}}),
       {"y"},
       "row reduction"},
      {"the place of the smallest in another order",
       turned,
       of_turned({{"y", "aten.argmin.default", {"$s"}}}),
       {"y"},
       "row reduction"},
      {"moments of two rows",
       {{"x", "float32", {2, 41, 3001}}, {"m", "float32", {41, 1}}},
       {{"s", "aten.mul.Tensor", {"$x", "$m"}},
        {"n", "aten.var_mean.dim", {"$s", {1, 2}}},
        {"v", "operator.getitem", {"$n", 0}},
        {"y", "operator.getitem", {"$n", 1}}},
       {"v", "y"},
       kAnywhere},
      {"what is subtracted again",
       {{"x", "bfloat16", {43, 6007}}, {"m", "bfloat16", {43, 1}}},
       {{"s", "aten.add.Tensor", {"$x", "$m"}},
        {"t", "aten.mean.default", {"$s"}},
        {"y", "aten.sub.Tensor", {"$s", "$t"}}},
       {"y"},
       "row reduction"},
      {"turns shorter than a block",
       {{"x", "uint8", {701, 257}}, {"m", "uint8", {701, 1}}},
       {{"s", "aten.bitwise_xor.Tensor", {"$x", "$m"}}, {"y", "aten.sum.default", {"$s"}}},
       {"y"},
       kAnywhere},
  };
}

/// Many short rows that are scanned, a thread a row.
std::vector<Case> own_rows() {
  const std::string plan = "1 threads a row, ";
  const auto scan = [&](const std::string &name, const std::string &dtype, int64_t rows,
                        int64_t elements) {
    return Case{name + " of rows of " + std::to_string(elements),
                {{"x", dtype, {rows, elements}}},
                one("aten." + name + ".default", {"$x", 1}),
                {"y"},
                plan};
  };
  const json places = {{"s", "aten.cummax.default", {"$x", 1}},
                       {"y", "operator.getitem", {"$s", 0}},
                       {"i", "operator.getitem", {"$s", 1}}};
  return {
      scan("cumsum", "float32", 34001, 7),
      scan("cumsum", "float16", 33999, 10),
      scan("cumsum", "bool", 34003, 6),
      scan("cumsum", "int64", 33793, 3),
      scan("cumprod", "bfloat16", 33797, 49),
      scan("logcumsumexp", "float32", 33801, 33),
      scan("cumsum", "int32", 33792, 64),
      {"maxima and where they are", {{"x", "float32", {40001, 8}}}, places, {"y", "i"}, plan},
      {"maxima of odd rows", {{"x", "float16", {34001, 5}}}, places, {"y", "i"}, plan},
      {"rows of one run that are sorted",
       {{"x", "int64", {40001, 4}}},
       {{"s", "aten.sort.default", {"$x", 1, false}},
        {"y", "operator.getitem", {"$s", 0}},
        {"i", "operator.getitem", {"$s", 1}}},
       {"y", "i"},
       plan},
      {"beside what rows are divided by",
       {{"x", "float32", {33, 1031, 12}}},
       {{"s", "aten.cumsum.default", {"$x", 2}},
        {"t", "aten.amax.default", {"$x", {2}, true}},
        {"y", "aten.div.Tensor", {"$s", "$t"}}},
       {"y"},
       plan},
      {"results that lie across rows",
       {{"x", "float16", {34001, 41}}},
       {{"p", "aten.permute.default", {"$x", {1, 0}}}, {"y", "aten.cumprod.default", {"$p", 0}}},
       {"y"},
       plan},
      {"parts of rows, which have gaps between them",
       {{"x", "float32", {34001, 9}}},
       {{"p", "aten.slice.Tensor", {"$x", 1, 1, 8}}, {"y", "aten.cumsum.default", {"$p", 1}}},
       {"y"},
       plan},
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

/// Operands of 1, 2 and 4 bytes whose runs start wherever their rows do, beside results that lie in
/// whole accesses; the last ones end with their memory, the first ones begin with it.
void check_loads_anywhere(const std::vector<runtime::SessionOptions> &ways) {
  for (const char *dtype : {"uint8", "int8", "bool", "int16", "float16", "bfloat16"})
    for (const int64_t apart : {1, 2, 3, 5, 7, 9, 13}) // elements that a row has more
      for (const bool at_end : {false, true}) {
        const int64_t width = 64, first = at_end ? apart : 0;
        const testing::MadeGraph graph = {
            "a part of rows",
            {{"x", dtype, {37, width}, 0, 2}, {"z", dtype, {37, width + apart}, 0, 2}},
            {{"s", "aten.slice.Tensor", {"$z", 1, first, first + width}},
             {"y",
              dtype == std::string("bool") ? "aten.logical_xor.default" : "aten.sub.Tensor",
              {"$x", "$s"}}},
            {"y"}};
        INFO(dtype << ", " << apart << " more, from " << first);
        const driver::Compilation compilation = testing::compile_made(graph, false);
        CHECK(std::any_of(compilation.program.kernels.begin(), compilation.program.kernels.end(),
                          [](const program::Kernel &kernel) {
                            return kernel.cuda.text.find("tc_load_anywhere") != std::string::npos;
                          }));
        testing::check_made(graph, compilation, 0, ways);
      }
  for (const int64_t apart : {1, 2, 3, 5, 6, 7}) // floats beside 16 bits, in runs of eight
    for (const bool at_end : {false, true}) {
      const int64_t width = 64, first = at_end ? apart : 0;
      const testing::MadeGraph graph = {
          "floats of a part of rows",
          {{"x", "float16", {37, width}, 0, 2}, {"z", "float32", {37, width + apart}, 0, 2}},
          {{"s", "aten.slice.Tensor", {"$z", 1, first, first + width}},
           {"a", "aten.add.Tensor", {"$x", "$s"}},
           {"y", "prims.convert_element_type.default", {"$a", {{"dtype", "float16"}}}}},
          {"y"}};
      INFO("floats, " << apart << " more, from " << first);
      const driver::Compilation compilation = testing::compile_made(graph, false);
      CHECK(std::any_of(compilation.program.kernels.begin(), compilation.program.kernels.end(),
                        [](const program::Kernel &kernel) {
                          return kernel.cuda.text.find("tc_load_anywhere<8>") != std::string::npos;
                        }));
      testing::check_made(graph, compilation, 0, ways);
    }
}

} // namespace

TEST_CASE("runs that start anywhere are read whole on the host") {
  check_loads_anywhere(testing::plan_ways());
}
TEST_CASE("runs that start anywhere are read whole on the GPU", "[gpu]") {
  if (const auto ways = testing::gpu_ways(); !ways.empty())
    check_loads_anywhere(ways);
}

TEST_CASE("rows that start anywhere on the host") { check_all(rows(), testing::plan_ways()); }

TEST_CASE("rows that start anywhere on the GPU", "[gpu]") {
  if (const auto ways = testing::gpu_ways(); !ways.empty())
    check_all(rows(), ways);
}

TEST_CASE("any number of rows that start anywhere on the host") {
  check_any_number(testing::plan_ways());
}

TEST_CASE("any number of rows that start anywhere on the GPU", "[gpu]") {
  if (const auto ways = testing::gpu_ways(); !ways.empty())
    check_any_number(ways);
}

TEST_CASE("rows in short pieces on the host") { check_all(pieces(), testing::plan_ways()); }

TEST_CASE("rows in short pieces on the GPU", "[gpu]") {
  if (const auto ways = testing::gpu_ways(); !ways.empty())
    check_all(pieces(), ways);
}

TEST_CASE("runs of narrow columns on the host") { check_all(columns(), testing::plan_ways()); }

TEST_CASE("runs of narrow columns on the GPU", "[gpu]") {
  if (const auto ways = testing::gpu_ways(); !ways.empty())
    check_all(columns(), ways);
}

TEST_CASE("parts lie inside of turns on the host") { check_all(turns(), testing::plan_ways()); }

TEST_CASE("parts lie inside of turns on the GPU", "[gpu]") {
  if (const auto ways = testing::gpu_ways(); !ways.empty())
    check_all(turns(), ways);
}

TEST_CASE("short rows are scanned a thread each on the host") {
  check_all(own_rows(), testing::plan_ways());
}

TEST_CASE("short rows are scanned a thread each on the GPU", "[gpu]") {
  if (const auto ways = testing::gpu_ways(); !ways.empty())
    check_all(own_rows(), ways);
}
