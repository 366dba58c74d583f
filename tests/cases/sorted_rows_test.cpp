// Rows that no block sorts, by the digits of their elements, and rows that a block sorts as words
// of an element and its place: values, positions and both, as the standard library sorts them.
#include "made_graph.h"
#include "tensor/host_tensor.h"
#include "testing/catch.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

using namespace tsc;
using nlohmann::json;

namespace {

struct Rows {
  std::string dtype; // as graphs spell it
  std::vector<int64_t> sizes;
  size_t dim = 0;
  bool descending = false;
  bool values = true, positions = true; // what is asked for
};

/// What random numbers hardly hold: many equal elements, and the ends of the dtype.
void add_special(tensor::HostTensor &x) {
  const int64_t count = x.numel();
  if (tensor::is_floating(x.dtype())) {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    const double smallest = x.dtype() == tensor::DType::f64   ? 5e-324
                            : x.dtype() == tensor::DType::f16 ? 6e-8
                                                              : 1e-40; // subnormal
    const double special[] = {std::nan(""), -0.0, 0.0, kInfinity, -kInfinity, smallest, -smallest};
    for (int64_t i = 0; i < count; ++i)
      if (i % 11 == 3)
        x.set_double(i, special[static_cast<size_t>(i / 11) % std::size(special)]);
      else if (i % 5 == 0)
        x.set_double(i, std::floor(x.get_double(i)));
  } else if (x.dtype() != tensor::DType::boolean) {
    const bool is_signed = x.dtype() == tensor::DType::i8 || x.dtype() == tensor::DType::i16 ||
                           x.dtype() == tensor::DType::i32 || x.dtype() == tensor::DType::i64;
    const int bits = static_cast<int>(tensor::size_in_bytes(x.dtype())) * 8;
    const int64_t highest = static_cast<int64_t>(~uint64_t{0} >> (64 - bits + (is_signed ? 1 : 0)));
    for (int64_t i = 0; i < count; ++i)
      if (i % 13 == 3)
        x.set_int64(i, i % 2 == 0 ? highest : is_signed ? -highest - 1 : 0);
      else if (i % 7 == 0)
        x.set_int64(i, is_signed ? i % 5 - 2 : i % 5);
      else if (i % 3 == 0) // every byte
        x.set_int64(i, static_cast<int64_t>(static_cast<uint64_t>(i) * 0x9e3779b97f4a7c15u >> 17));
  }
}

/// A NaN's bits and the sign of a zero are to arrive as they were.
void add_odd_nans(tensor::HostTensor &x) {
  if (x.dtype() != tensor::DType::f32)
    return;
  for (int64_t i = 5; i < x.numel(); i += 1009) {
    const auto bits = static_cast<uint32_t>(0xffc00000u + i % 31); // negative, with a payload
    std::memcpy(x.data() + i * 4, &bits, 4);
  }
}

bool comes_before(const tensor::HostTensor &x, int64_t a, int64_t b) {
  if (tensor::is_floating(x.dtype())) {
    const double first = x.get_double(a), second = x.get_double(b);
    return first < second || (std::isnan(second) && !std::isnan(first));
  }
  if (x.dtype() == tensor::DType::u64)
    return static_cast<uint64_t>(x.get_int64(a)) < static_cast<uint64_t>(x.get_int64(b));
  return x.get_int64(a) < x.get_int64(b);
}

testing::MadeGraph graph_of(const Rows &rows) {
  testing::MadeGraph graph{"sort", {{"x", rows.dtype, rows.sizes, -100, 100}}, {}, {}};
  graph.calls = {{"y",
                  "aten.sort.stable",
                  {"$x"},
                  {{"stable", true}, {"dim", rows.dim}, {"descending", rows.descending}}}};
  if (rows.values) {
    graph.calls.push_back({"v", "operator.getitem", {"$y", 0}});
    graph.outputs.push_back("v");
  }
  if (rows.positions) {
    graph.calls.push_back({"i", "operator.getitem", {"$y", 1}});
    graph.outputs.push_back("i");
  }
  return graph;
}

/// `outputs` against the standard library's order of `x`.
void check_order(const Rows &rows, const tensor::HostTensor &x,
                 const std::vector<tensor::HostTensor> &outputs) {
  const int64_t length = x.sizes()[rows.dim];
  int64_t stride = 1;
  for (size_t k = rows.dim + 1; k < x.sizes().size(); ++k)
    stride *= x.sizes()[k];
  const size_t bytes = tensor::size_in_bytes(x.dtype());
  std::vector<tensor::HostTensor> dense;
  for (const tensor::HostTensor &output : outputs)
    dense.push_back(output.contiguous());
  int64_t wrong_values = 0, wrong_places = 0;
  std::vector<int64_t> order(static_cast<size_t>(length));
  for (int64_t row = 0; length > 0 && row < x.numel() / length; ++row) {
    const int64_t start = row / stride * stride * length + row % stride;
    std::iota(order.begin(), order.end(), int64_t{0});
    std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
      const int64_t first = start + a * stride, second = start + b * stride;
      return rows.descending ? comes_before(x, second, first) : comes_before(x, first, second);
    });
    for (int64_t i = 0; i < length; ++i) {
      const int64_t source = order[static_cast<size_t>(i)], at = start + i * stride;
      const bool is_nan = bytes == 2 && tensor::is_floating(x.dtype()) && // one of all, by a block
                          std::isnan(x.get_double(start + source * stride));
      if (rows.values && is_nan)
        wrong_values += !std::isnan(dense.front().get_double(at));
      else if (rows.values)
        wrong_values += std::memcmp(dense.front().data() + static_cast<size_t>(at) * bytes,
                                    x.data() + static_cast<size_t>(start + source * stride) * bytes,
                                    bytes) != 0;
      if (rows.positions)
        wrong_places += dense.back().get_int64(at) != source;
    }
  }
  CHECK(wrong_values == 0);
  CHECK(wrong_places == 0);
}

tensor::HostTensor input_of(const Rows &rows, std::vector<int64_t> sizes) {
  tensor::RandomSpec spec{.seed = 3};
  spec.low = rows.dtype[0] == 'u' ? 0 : -100;
  spec.high = 100;
  tensor::HostTensor x =
      tensor::random_tensor(tensor::parse_dtype(rows.dtype).value(), std::move(sizes), spec);
  add_special(x);
  add_odd_nans(x);
  return x;
}

/// Threads of a block in descending order, too.
std::vector<runtime::SessionOptions> both_orders() {
  std::vector<runtime::SessionOptions> ways = testing::plan_ways();
  ways.push_back(ways.back());
  ways.back().thread_order = runtime::SessionOptions::ThreadOrder::reverse;
  return ways;
}

bool sorts_by_digits(const driver::Compilation &compilation) {
  return std::any_of(compilation.program.kernels.begin(), compilation.program.kernels.end(),
                     [](const program::Kernel &kernel) {
                       return kernel.cuda.text.find("tc_radix_move") != std::string::npos;
                     });
}

std::string text_of(const Rows &rows, const std::vector<int64_t> &sizes) {
  std::string text = rows.dtype + " [";
  for (const int64_t size : sizes)
    text += std::to_string(size) + " ";
  return text + "], dim " + std::to_string(rows.dim) + (rows.descending ? ", descending" : "");
}

void check_static(const std::vector<runtime::SessionOptions> &ways) {
  const std::vector<Rows> all = {
      {"float32", {70001}},
      {"float32", {3, 40009}, 1, true},
      {"float32", {2, 33001, 2}, 1, false, true, false}, // the values alone, of columns
      {"float32", {81920}, 0, true, false, true},        // the positions alone
      {"float16", {50021}, 0, true},
      {"float16", {2, 20480}, 1, false, true, false},
      {"bfloat16", {5, 17001}, 1},
      {"bfloat16", {40001}, 0, true, false, true},
      {"float64", {140003}},
      {"float64", {2, 70001}, 1, true, false, true},
      {"int64", {140003}, 0, true},
      {"int64", {70001, 2}, 0, false, true, false},
      {"int32", {70001}},
      {"int16", {4, 16385}, 1, true},
      {"int8", {20001}},
      {"int8", {3, 16385}, 1, true, false, true},
      {"uint8", {20001}, 0, true},
      {"uint8", {40001}, 0, false, true, false},
      {"bool", {2, 20001}, 1},
      {"bool", {20001}, 0, true},
      {"uint16", {40001}, 0, true},
      {"uint32", {70001}},
      {"uint64", {140003}, 0, true},
      {"int8", {280, 16385}, 1}, // parts of several tiles
  };
  for (const Rows &rows : all) {
    INFO(text_of(rows, rows.sizes));
    const driver::Compilation compilation = testing::compile_made(graph_of(rows), false);
    CHECK(sorts_by_digits(compilation));
    const tensor::HostTensor x = input_of(rows, rows.sizes);
    for (const runtime::SessionOptions &way : ways)
      check_order(rows, x, runtime::Session::create(compilation.program, {}, way)->run({x}));
  }
}

/// Kernels that are launched where the symbol is this size.
int64_t launched(const driver::Compilation &compilation, int64_t size) {
  const std::vector<program::Kernel> &kernels = compilation.program.kernels;
  return std::count_if(kernels.begin(), kernels.end(), [&](const program::Kernel &kernel) {
    symbolic::Substitution values;
    for (const symbolic::Expr symbol : symbolic::free_symbols(kernel.cuda.grid[0]))
      values.emplace(symbol, size);
    return !symbolic::substitute(kernel.cuda.grid[0], values).is_integer(0);
  });
}

/// Lengths and numbers of rows that only a run knows.
void check_dynamic(const std::vector<runtime::SessionOptions> &ways) {
  struct Dynamic {
    Rows rows;
    std::vector<int64_t> first; // sizes of the first dimension
    int64_t longest = 16384;    // of the rows that one kernel sorts; 0: the length is known
  };
  const std::vector<Dynamic> all = {
      {{"float32", {50021}}, {2, 127, 1025, 4097, 8193, 16384, 16385, 50021}},
      {{"float32", {9001, 3}, 0, true}, {2, 600, 10007, 30011}},
      {{"int32", {9001, 2}, 0, true, false, true}, {5565, 9000}},
      {{"bfloat16", {3, 17001}, 1}, {2, 7}, 0},
      {{"bfloat16", {9001, 2}, 0}, {100, 5416, 8193, 16385}},
      {{"float16", {9001}, 0, true, true, false}, {4097, 16384}},
      {{"uint8", {9001}, 0, true}, {8192}},
      {{"int64", {5000}, 0, true, false, true}, {2, 8192, 8193, 20011}, 8192},
      {{"float64", {5000, 2}}, {4500}, 8192},
      {{"bool", {5000}}, {4095, 4098, 20011}},
  };
  for (const Dynamic &one : all) {
    const driver::Compilation compilation = testing::compile_made(graph_of(one.rows), true);
    CHECK(sorts_by_digits(compilation));
    for (const int64_t first : one.first) {
      std::vector<int64_t> sizes = one.rows.sizes;
      sizes[0] = first;
      INFO(text_of(one.rows, sizes));
      if (one.longest > 0 && one.rows.sizes.size() == 1)
        CHECK((launched(compilation, first) == 1) == (first <= one.longest));
      const tensor::HostTensor x = input_of(one.rows, sizes);
      for (const runtime::SessionOptions &way : ways)
        check_order(one.rows, x, runtime::Session::create(compilation.program, {}, way)->run({x}));
    }
  }
}

/// What stands around a sort: elements that are computed, views, slices of the result.
std::vector<testing::MadeGraph> neighbours() {
  return {
      {"computed, and looked up",
       {{"x", "float32", {2, 40003}, -40, 40}},
       {{"s", "aten.mul.Tensor", {"$x", -2}},
        {"y", "aten.sort.default", {"$s", 1, true}},
        {"v", "operator.getitem", {"$y", 0}},
        {"i", "operator.getitem", {"$y", 1}},
        {"e", "aten.exp.default", {"$v"}},
        {"g", "aten.gather.default", {"$x", 1, "$i"}}},
       {"e", "g"}},
      {"a slice of a turned tensor",
       {{"x", "int32", {70001, 3}, -1000, 1000}},
       {{"t", "aten.slice.Tensor", {"$x", 1, 1, 3}},
        {"y", "aten.sort.default", {"$t", 0, false}},
        {"v", "operator.getitem", {"$y", 0}},
        {"i", "operator.getitem", {"$y", 1}}},
       {"v", "i"}},
      {"many of the first",
       {{"x", "int32", {2, 70001}, -100000, 100000}},
       {{"y", "aten.topk.default", {"$x", 5000}}, {"v", "operator.getitem", {"$y", 0}}},
       {"v"}},
      {"the median",
       {{"x", "float32", {200001}, -40, 40}},
       {{"y", "aten.median.default", {"$x"}}},
       {"y"}},
      {"twice",
       {{"x", "float32", {70001}, -40, 40}},
       {{"y", "aten.argsort.default", {"$x"}}, {"z", "aten.argsort.default", {"$y"}}},
       {"y", "z"}},
      {"joined",
       {{"x", "float32", {70001}, -40, 40}},
       {{"n", "aten.neg.default", {"$x"}},
        {"y", "aten.sort.default", {"$n"}},
        {"v", "operator.getitem", {"$y", 0}},
        {"z", "aten.cat.default", json::array({json::array({"$n", "$v"})})}},
       {"z"}},
  };
}

void check_neighbours(const std::vector<runtime::SessionOptions> &ways) {
  for (const testing::MadeGraph &graph : neighbours()) {
    INFO(graph.name);
    const driver::Compilation compilation = testing::compile_made(graph, false);
    CHECK(sorts_by_digits(compilation));
    testing::check_made(graph, compilation, 0, ways);
  }
}

/// Rows that a block sorts as words: lengths around what a thread, a warp and a block hold.
void check_packed(const std::vector<runtime::SessionOptions> &ways) {
  const auto check = [&](const Rows &rows, bool is_packed) {
    INFO(text_of(rows, rows.sizes));
    const driver::Compilation compilation = testing::compile_made(graph_of(rows), false);
    CHECK(std::any_of(compilation.program.kernels.begin(), compilation.program.kernels.end(),
                      [](const program::Kernel &kernel) {
                        return kernel.cuda.text.find("tc_row_sort_packed") != std::string::npos;
                      }) == is_packed);
    const tensor::HostTensor x = input_of(rows, rows.sizes);
    for (const runtime::SessionOptions &way : ways)
      check_order(rows, x, runtime::Session::create(compilation.program, {}, way)->run({x}));
  };
  bool descending = false;
  for (const char *dtype : {"float16", "bfloat16", "int16", "uint16", "int8", "uint8", "bool"})
    for (const int64_t length : {5, 8, 9, 17, 31, 33, 128, 511, 513, 640, 2053}) {
      check({dtype, {19, length}, 1, descending}, true);
      descending = !descending;
    }
  for (const int64_t length : {7, 100, 1000}) { // integers of 32 bits have no room for a place
    check({"int32", {19, length}, 1, false, true, false}, true);
    check({"uint32", {19, length}, 1, true, true, false}, true);
    check({"int32", {19, length}, 1, false, true, true}, false);
    check({"float32", {19, length}, 1, false, true, false}, false);
  }
  check({"float16", {3, 16384}, 1}, true);
  check({"int16", {2, 8193}, 1, true}, true);
  check({"bfloat16", {2, 9001, 3}, 1, true, false, true}, true);
  check({"bfloat16", {64, 4}, 1}, false); // comparing four takes less
}

/// What follows in the same kernel goes through the sorted row in its order.
void check_scans_of_packed(const std::vector<runtime::SessionOptions> &ways) {
  for (const int64_t length : {12, 100, 640, 1000, 5000}) {
    const testing::MadeGraph graph = {"summed up",
                                      {{"x", "float16", {5, length}, -3, 3}},
                                      {{"y", "aten.sort.default", {"$x", 1, true}},
                                       {"v", "operator.getitem", {"$y", 0}},
                                       {"i", "operator.getitem", {"$y", 1}},
                                       {"s", "aten.cumsum.default", {"$v", 1}}},
                                      {"s", "i"}};
    INFO(length);
    const driver::Compilation compilation = testing::compile_made(graph, false);
    CHECK(std::any_of(compilation.program.kernels.begin(), compilation.program.kernels.end(),
                      [](const program::Kernel &kernel) {
                        return kernel.cuda.text.find("tc_row_sort_packed") != std::string::npos &&
                               kernel.cuda.text.find("tc_row_scan") != std::string::npos;
                      }));
    testing::check_made(graph, compilation, 0, ways);
  }
}

} // namespace

TEST_CASE("rows sorted as words of an element and its place") { check_packed(both_orders()); }
TEST_CASE("rows sorted as words of an element and its place, on the GPU", "[gpu]") {
  if (const auto ways = testing::gpu_ways(); !ways.empty())
    check_packed(ways);
}
TEST_CASE("scans of rows sorted as words") { check_scans_of_packed(both_orders()); }
TEST_CASE("scans of rows sorted as words, on the GPU", "[gpu]") {
  if (const auto ways = testing::gpu_ways(); !ways.empty())
    check_scans_of_packed(ways);
}
TEST_CASE("rows sorted by digits are in the standard library's order") {
  check_static(both_orders());
}
TEST_CASE("rows sorted by digits are in order on the GPU", "[gpu]") {
  if (const auto ways = testing::gpu_ways(); !ways.empty())
    check_static(ways);
}
TEST_CASE("rows of a length that a run decides are sorted by digits") {
  check_dynamic(both_orders());
}
TEST_CASE("rows of a length that a run decides are sorted by digits on the GPU", "[gpu]") {
  if (const auto ways = testing::gpu_ways(); !ways.empty())
    check_dynamic(ways);
}
TEST_CASE("what stands around rows that are sorted by digits") { check_neighbours(both_orders()); }
TEST_CASE("what stands around rows that are sorted by digits, on the GPU", "[gpu]") {
  if (const auto ways = testing::gpu_ways(); !ways.empty())
    check_neighbours(ways);
}
