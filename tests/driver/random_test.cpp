// Random operators through the whole house: the same bits on every device, the distributions they
// promise, and what repeats (docs/random.md).
#include "driver/compile.h"
#include "driver/reference.h"
#include "graph/read.h"
#include "runtime/session.h"
#include "testing/catch.h"

#include <algorithm>
#include <cmath>
#include <cstring>

using namespace tsc;
using tensor::HostTensor;

namespace {

/// A graph JSON: inputs as given, one node a line of `nodes`, `outputs` returned.
driver::Compilation compile_graph(const std::string &inputs, const std::string &nodes,
                                  const std::string &outputs) {
  const std::string text = R"({"format": "tsc-graph", "version": 1, "nodes": [)" + inputs +
                           (inputs.empty() ? "" : ", ") + nodes +
                           R"(, {"name": "output", "op": "output", "args": [[)" + outputs + "]]}]}";
  return driver::compile(graph::parse_graph(text, "random"), {});
}
std::string input(const std::string &name, const std::string &dtype, const std::string &sizes) {
  return R"({"name": ")" + name + R"(", "op": "placeholder", "val": {"dtype": ")" + dtype +
         R"(", "size": )" + sizes + "}}";
}
std::string node(const std::string &name, const std::string &target, const std::string &args,
                 const std::string &keywords = "{}") {
  return R"({"name": ")" + name + R"(", "op": "call_function", "target": ")" + target +
         R"(", "args": )" + args + R"(, "kwargs": )" + keywords + "}";
}
std::string reference(const std::string &name) { return R"({"node": ")" + name + "\"}"; }

std::unique_ptr<runtime::Session> session(const driver::Compilation &compilation,
                                          runtime::Plan plan = runtime::Plan::serial,
                                          bool reverse = false) {
  runtime::SessionOptions options;
  options.plan = plan;
  if (reverse)
    options.thread_order = runtime::SessionOptions::ThreadOrder::reverse;
  return runtime::Session::create(compilation.program, {}, options);
}

std::vector<HostTensor> on_reference(const driver::Compilation &compilation,
                                     const std::vector<HostTensor> &inputs, uint64_t seed,
                                     uint64_t call) {
  driver::ReferenceOptions options;
  options.seed = seed;
  options.call = call;
  return driver::run_reference(compilation, inputs, {}, options);
}

bool same_bytes(const HostTensor &a, const HostTensor &b) {
  return a.dtype() == b.dtype() && a.sizes() == b.sizes() &&
         std::memcmp(a.data(), b.data(), a.size_in_bytes()) == 0;
}

/// `outputs` of a session's next run against the oracle's.
void check_run(runtime::Session &session, const driver::Compilation &compilation,
               const std::vector<HostTensor> &inputs, uint64_t seed, uint64_t call) {
  const std::vector<HostTensor> expected = on_reference(compilation, inputs, seed, call);
  const std::vector<HostTensor> outputs = session.run(inputs);
  REQUIRE(outputs.size() == expected.size());
  for (size_t i = 0; i < outputs.size(); ++i) {
    INFO("output " << i << ", seed " << seed << ", call " << call);
    CHECK(same_bytes(outputs[i], expected[i]));
  }
}

std::vector<double> doubles(const HostTensor &tensor) {
  std::vector<double> values;
  for (int64_t i = 0; i < tensor.numel(); ++i)
    values.push_back(tensor.get_double(i));
  return values;
}

HostTensor ramp(std::vector<int64_t> sizes, tensor::DType dtype = tensor::DType::f32) {
  HostTensor tensor(dtype, std::move(sizes));
  for (int64_t i = 0; i < tensor.numel(); ++i)
    tensor.set_double(i, static_cast<double>(i % 13) - 6.5);
  return tensor;
}

struct Moments {
  double mean = 0, variance = 0, skewness = 0, kurtosis = 0;
};
Moments moments(const std::vector<double> &values) {
  Moments m;
  const auto n = static_cast<double>(values.size());
  for (double x : values)
    m.mean += x / n;
  double third = 0, fourth = 0;
  for (double x : values) {
    const double d = x - m.mean;
    m.variance += d * d / n;
    third += d * d * d / n;
    fourth += d * d * d * d / n;
  }
  m.skewness = third / std::pow(m.variance, 1.5);
  m.kurtosis = fourth / (m.variance * m.variance);
  return m;
}

/// Pearson's statistic over 50 cells that are equally likely under `distribution` (a cumulative
/// distribution function). With 49 degrees of freedom it is below 85.4 but for one sample in 1,000.
double chi_square(const std::vector<double> &values, double (*distribution)(double)) {
  constexpr size_t kCells = 50;
  std::vector<double> counts(kCells, 0);
  for (double x : values)
    counts[std::min(kCells - 1, static_cast<size_t>(distribution(x) * kCells))] += 1;
  const double expected = static_cast<double>(values.size()) / kCells;
  double statistic = 0;
  for (double count : counts)
    statistic += (count - expected) * (count - expected) / expected;
  return statistic;
}
constexpr double kChiSquareBound = 85.4;

/// Correlation of neighbours `distance` apart.
double correlation(const std::vector<double> &values, size_t distance) {
  const Moments m = moments(values);
  double sum = 0;
  for (size_t i = 0; i + distance < values.size(); ++i)
    sum += (values[i] - m.mean) * (values[i + distance] - m.mean);
  return sum / (static_cast<double>(values.size() - distance) * m.variance);
}

const std::string kF64 = R"({"dtype": {"dtype": "float64"}})";
const std::string kBf16 = R"({"dtype": {"dtype": "bfloat16"}})";
const std::string kF16 = R"({"dtype": {"dtype": "float16"}})";

} // namespace

TEST_CASE("every draw has the same bits on every device, run after run") {
  // Sizes that no vector or block divides, and a transposed input.
  std::string nodes, outputs;
  size_t count = 0;
  const auto add = [&](const std::string &target, const std::string &args,
                       const std::string &keywords = "{}") {
    const std::string name = "n" + std::to_string(count++);
    nodes += (nodes.empty() ? "" : ",\n") + node(name, target, args, keywords);
    outputs += (outputs.empty() ? "" : ", ") + reference(name);
  };
  add("aten.rand.default", "[[7, 13]]");
  add("aten.rand.default", "[[3, 5, 2]]", kF64);
  add("aten.rand.default", "[[129]]", kBf16);
  add("aten.rand.default", "[[129]]", kF16);
  add("aten.randn.default", "[[1031]]");
  add("aten.randn.default", "[[17]]", kF64);
  add("aten.randn.default", "[[33]]", kBf16);
  add("aten.randint.low", "[-3, 1000, [19, 3]]");
  add("aten.randint.default", "[2, [5]]", R"({"dtype": {"dtype": "int32"}})");
  add("aten.randint.low", "[-4611686018427387904, 4611686018427387903, [6]]");
  add("aten.uniform.default", R"([{"node": "t"}, -2.5, 7.25])");
  add("aten.normal_functional.default", R"([{"node": "t"}, 3.0, 0.1])");
  add("aten.exponential.default", R"([{"node": "x"}, 2.0])");
  add("aten.bernoulli.p", R"([{"node": "x"}, 0.3])");
  add("aten.rand_like.default", R"([{"node": "t"}])");
  add("aten.rand.default", "[[]]");
  add("aten.rand.default", "[[0, 4]]");
  add("aten.randn.default", "[[1, 1]]");
  const driver::Compilation compilation = compile_graph(
      input("x", "float32", "[9, 31]") + ", " +
          R"({"name": "t", "op": "placeholder", "val": {"dtype": "float32", "size": [6, 10],
          "stride": [1, 6]}})",
      nodes, outputs);
  const std::vector<HostTensor> inputs = {ramp({9, 31}), ramp({6, 10})};
  CHECK(compilation.program.outputs.size() == 18);
  CHECK(compilation.program.inputs.size() == 2); // the state is nobody's input
  for (int variant = 0; variant < 3; ++variant) {
    auto made = session(compilation, variant == 0 ? runtime::Plan::serial : runtime::Plan::cuda,
                        variant == 2);
    for (uint64_t call = 0; call < 3; ++call)
      check_run(*made, compilation, inputs, 0, call);
    made->set_seed(0xfedcba9876543210);
    for (uint64_t call = 0; call < 2; ++call)
      check_run(*made, compilation, inputs, 0xfedcba9876543210, call);
  }
  SECTION("runs, streams and seeds differ") {
    const auto first = on_reference(compilation, inputs, 0, 0);
    CHECK_FALSE(same_bytes(first[0], on_reference(compilation, inputs, 0, 1)[0]));
    CHECK_FALSE(same_bytes(first[0], on_reference(compilation, inputs, 1, 0)[0]));
    CHECK_FALSE(same_bytes(first[2], first[14]));
  }
}

TEST_CASE("tensors as small as the random state are drawn before it moves on") {
  const std::string nodes = node("a", "aten.rand.default", "[[2]]") + "," +
                            node("b", "aten.rand.default", "[[1]]") + "," +
                            node("c", "aten.randint.default", "[100, [2]]") + "," +
                            node("d", "aten.add.Tensor", R"([{"node": "c"}, {"node": "x"}])");
  const driver::Compilation compilation =
      compile_graph(input("x", "int64", "[2]"), nodes,
                    reference("a") + "," + reference("b") + "," + reference("d"));
  const std::vector<HostTensor> inputs = {HostTensor(tensor::DType::i64, {2})};
  for (runtime::Plan plan : {runtime::Plan::serial, runtime::Plan::cuda}) {
    auto made = session(compilation, plan);
    for (uint64_t call = 0; call < 4; ++call)
      check_run(*made, compilation, inputs, 0, call);
  }
}

TEST_CASE("uniform, normal and exponential numbers are distributed as they say") {
  const std::string size = "[[200000]]";
  const driver::Compilation compilation = compile_graph(
      input("x", "float32", "[200000]"),
      node("u", "aten.rand.default", size) + "," + node("n", "aten.randn.default", size) + "," +
          node("e", "aten.exponential.default", R"([{"node": "x"}, 0.5])") + "," +
          node("ud", "aten.rand.default", size, kF64) + "," +
          node("nd", "aten.randn.default", size, kF64) + "," +
          node("ub", "aten.rand.default", size, kBf16) + "," +
          node("uh", "aten.rand.default", size, kF16) + "," +
          node("r", "aten.uniform.default", R"([{"node": "x"}, -3.0, 5.0])"),
      reference("u") + "," + reference("n") + "," + reference("e") + "," + reference("ud") + "," +
          reference("nd") + "," + reference("ub") + "," + reference("uh") + "," + reference("r"));
  auto made = session(compilation);
  made->set_seed(2026);
  const std::vector<HostTensor> outputs = made->run({HostTensor(tensor::DType::f32, {200000})});
  // Bounds are 4 standard errors of the statistic (1 / sqrt(200000) = 0.0022).
  for (size_t which : {0, 3}) {
    const std::vector<double> u = doubles(outputs[which]);
    const Moments m = moments(u);
    CHECK(std::fabs(m.mean - 0.5) < 4 * 0.2887 * 0.0022);
    CHECK(std::fabs(m.variance - 1.0 / 12) < 4 * 0.0745 * 0.0022);
    CHECK(chi_square(u, [](double x) { return x; }) < kChiSquareBound);
    CHECK(*std::min_element(u.begin(), u.end()) >= 0);
    CHECK(*std::max_element(u.begin(), u.end()) < 1);
    for (size_t distance : {1, 2, 3, 4, 256})
      CHECK(std::fabs(correlation(u, distance)) < 4 * 0.0022);
  }
  for (size_t which : {1, 4}) {
    const std::vector<double> n = doubles(outputs[which]);
    const Moments m = moments(n);
    CHECK(std::fabs(m.mean) < 4 * 0.0022);
    CHECK(std::fabs(m.variance - 1) < 4 * 1.414 * 0.0022);
    CHECK(std::fabs(m.skewness) < 4 * 2.449 * 0.0022);
    CHECK(std::fabs(m.kurtosis - 3) < 4 * 4.899 * 0.0022);
    CHECK(chi_square(n, [](double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); }) <
          kChiSquareBound);
    for (size_t distance : {1, 2, 3, 4})
      CHECK(std::fabs(correlation(n, distance)) < 4 * 0.0022);
    CHECK(*std::max_element(n.begin(), n.end()) > 3.9); // tails are there
  }
  const std::vector<double> e = doubles(outputs[2]);
  CHECK(std::fabs(moments(e).mean - 2) < 4 * 2 * 0.0022);
  CHECK(chi_square(e, [](double x) { return -std::expm1(-0.5 * x); }) < kChiSquareBound);
  CHECK(*std::min_element(e.begin(), e.end()) > 0);
  for (size_t which : {5, 6}) { // 8 and 11 bits
    const std::vector<double> u = doubles(outputs[which]);
    const double steps = which == 5 ? 256 : 2048;
    CHECK(std::fabs(moments(u).mean - (0.5 - 0.5 / steps)) < 4 * 0.2887 * 0.0022);
    CHECK(*std::max_element(u.begin(), u.end()) == 1 - 1 / steps);
    CHECK(std::all_of(u.begin(), u.end(),
                      [&](double x) { return x * steps == std::floor(x * steps); }));
  }
  const std::vector<double> r = doubles(outputs[7]);
  CHECK(chi_square(r, [](double x) { return (x + 3) / 8; }) < kChiSquareBound);
  CHECK(*std::min_element(r.begin(), r.end()) >= -3);
  CHECK(*std::max_element(r.begin(), r.end()) < 5);
}

TEST_CASE("integers and coins are fair") {
  const driver::Compilation compilation = compile_graph(
      input("p", "float32", "[100000]"),
      node("i", "aten.randint.low", "[-10, 40, [100000]]") + "," +
          node("b", "aten.bernoulli.p", R"([{"node": "p"}, 0.3])") + "," +
          node("c", "aten.bernoulli.default", R"([{"node": "p"}])") + "," +
          node("m", "aten.multinomial.default", R"([{"node": "p"}, 1])"),
      reference("i") + "," + reference("b") + "," + reference("c") + "," + reference("m"));
  HostTensor p(tensor::DType::f32, {100000});
  for (int64_t i = 0; i < p.numel(); ++i)
    p.set_double(i, i % 2 == 0 ? 0.75 : 0.0);
  auto made = session(compilation);
  const std::vector<HostTensor> outputs = made->run({p});
  const std::vector<double> integers = doubles(outputs[0]);
  CHECK(chi_square(integers, [](double x) { return (x + 10.5) / 50; }) < kChiSquareBound);
  CHECK(*std::min_element(integers.begin(), integers.end()) == -10);
  CHECK(*std::max_element(integers.begin(), integers.end()) == 39);
  CHECK(std::fabs(moments(doubles(outputs[1])).mean - 0.3) < 4 * 0.4583 * 0.00316);
  CHECK(std::fabs(moments(doubles(outputs[2])).mean - 0.375) < 4 * 0.4331 * 0.00316);
  for (int64_t i = 1; i < p.numel(); i += 2)
    REQUIRE(outputs[2].get_double(i) == 0); // what is impossible never happens
  CHECK(outputs[3].get_int64(0) % 2 == 0);
}

TEST_CASE("multinomial draws categories by their weights") {
  const driver::Compilation compilation = compile_graph(
      input("w", "float32", "[2, 4]"),
      node("m", "aten.multinomial.default", R"([{"node": "w"}, 20000, true])"), reference("m"));
  HostTensor w(tensor::DType::f32, {2, 4});
  const double weights[] = {1, 2, 0, 5, 3, 3, 3, 0};
  for (int64_t i = 0; i < 8; ++i)
    w.set_double(i, weights[i]);
  const HostTensor drawn = session(compilation)->run({w})[0];
  REQUIRE(drawn.sizes() == std::vector<int64_t>{2, 20000});
  for (int64_t row = 0; row < 2; ++row) {
    double counts[4] = {};
    for (int64_t i = 0; i < 20000; ++i)
      counts[drawn.get_int64(row * 20000 + i)] += 1;
    const double total = row == 0 ? 8 : 9;
    for (int category = 0; category < 4; ++category) {
      const double share = weights[row * 4 + category] / total;
      CHECK(std::fabs(counts[category] / 20000 - share) <=
            4 * std::sqrt(share * (1 - share) / 20000));
    }
  }
}

TEST_CASE("dropout keeps x / (1 - p), drops p of it, and says which") {
  const std::string nodes =
      node("d", "aten.dropout.default", R"([{"node": "x"}, 0.25, true])") + "," +
      node("n", "aten.native_dropout.default", R"([{"node": "x"}, 0.25, true])") + "," +
      node("out", "operator.getitem", R"([{"node": "n"}, 0])") + "," +
      node("mask", "operator.getitem", R"([{"node": "n"}, 1])") + "," +
      node("back", "aten.native_dropout_backward.default",
           R"([{"node": "x"}, {"node": "mask"}, 1.3333333333333333])") +
      "," + node("f", "aten.feature_dropout.default", R"([{"node": "x"}, 0.5, true])");
  const driver::Compilation compilation =
      compile_graph(input("x", "float32", "[40, 50, 6]"), nodes,
                    reference("d") + "," + reference("out") + "," + reference("mask") + "," +
                        reference("back") + "," + reference("f"));
  const HostTensor x = ramp({40, 50, 6});
  auto made = session(compilation, runtime::Plan::cuda);
  const std::vector<HostTensor> outputs = made->run({x});
  int64_t kept[2] = {}, common = 0, wrong = 0;
  for (int64_t i = 0; i < x.numel(); ++i) {
    const float scaled = static_cast<float>(x.get_double(i)) * static_cast<float>(1 / 0.75);
    const bool stays = outputs[2].get_int64(i) != 0;
    wrong += outputs[1].get_double(i) != (stays ? scaled : 0);
    wrong += outputs[3].get_double(i) != (stays ? scaled : 0);
    const double alone = outputs[0].get_double(i);
    wrong += alone != 0 && alone != scaled;
    kept[0] += alone != 0;
    kept[1] += stays;
    common += alone != 0 && stays;
    wrong += (outputs[4].get_double(i) != 0) != (outputs[4].get_double(i / 6 * 6) != 0);
  }
  CHECK(wrong == 0);
  // 4 standard deviations of 12,000 coins
  CHECK(std::llabs(kept[0] - 9000) < 4 * 48);
  CHECK(std::llabs(kept[1] - 9000) < 4 * 48);
  CHECK(std::llabs(common - 6750) < 4 * 55); // two nodes draw independently
}

TEST_CASE("dropout that drops nothing, or everything") {
  const std::string nodes =
      node("a", "aten.dropout.default", R"([{"node": "x"}, 0.0, true])") + "," +
      node("b", "aten.dropout.default", R"([{"node": "x"}, 1.0, true])") + "," +
      node("c", "aten.dropout.default", R"([{"node": "x"}, 0.5, false])") + "," +
      node("n", "aten.native_dropout.default", R"([{"node": "x"}, 1.0, true])") + "," +
      node("d", "operator.getitem", R"([{"node": "n"}, 0])") + "," +
      node("e", "operator.getitem", R"([{"node": "n"}, 1])") + "," +
      node("g", "aten.alpha_dropout.default", R"([{"node": "x"}, 0.0, true])");
  const driver::Compilation compilation =
      compile_graph(input("x", "float32", "[5, 7]"), nodes,
                    reference("a") + "," + reference("b") + "," + reference("c") + "," +
                        reference("d") + "," + reference("e") + "," + reference("g"));
  HostTensor x = ramp({5, 7});
  x.set_double(0, NAN);
  const std::vector<HostTensor> outputs = session(compilation)->run({x});
  CHECK(same_bytes(outputs[0], x));
  CHECK(std::isnan(outputs[1].get_double(0)));
  CHECK(same_bytes(outputs[2], x));
  for (int64_t i = 0; i < x.numel(); ++i) {
    if (i > 0)
      CHECK(outputs[1].get_double(i) == 0);
    CHECK(outputs[3].get_double(i) == 0);
    CHECK(outputs[4].get_int64(i) == 0);
  }
  CHECK(same_bytes(outputs[5], x));
  CHECK(compilation.program.steps.size() > 0);
  for (const program::Buffer &buffer : compilation.program.buffers)
    CHECK(buffer.role != program::Role::random_state); // nothing draws
}

TEST_CASE("alpha dropout keeps mean and variance of what SELU yields") {
  const driver::Compilation compilation =
      compile_graph("",
                    node("n", "aten.randn.default", "[[200000]]") + "," +
                        node("d", "aten.alpha_dropout.default", R"([{"node": "n"}, 0.3, true])") +
                        "," + node("r", "aten.rrelu.default", R"([{"node": "n"}, 0.1, 0.4, true])"),
                    reference("n") + "," + reference("d") + "," + reference("r"));
  const std::vector<HostTensor> outputs = session(compilation)->run({});
  const Moments m = moments(doubles(outputs[1]));
  CHECK(std::fabs(m.mean) < 0.01);
  CHECK(std::fabs(m.variance - 1) < 0.02);
  double slopes = 0, negative = 0;
  for (int64_t i = 0; i < 200000; ++i) {
    const double x = outputs[0].get_double(i), y = outputs[2].get_double(i);
    if (x > 0) {
      REQUIRE(y == x);
      continue;
    }
    slopes += y / x;
    negative += 1;
    REQUIRE((y >= 0.41 * x && y <= 0.09 * x));
  }
  CHECK(std::fabs(slopes / negative - 0.25) < 4 * 0.0866 / std::sqrt(negative));
}

TEST_CASE("operators in place draw into their memory") {
  const std::string nodes = node("u", "aten.uniform_.default", R"([{"node": "a"}, 2.0, 3.0])") +
                            "," + node("b", "aten.bernoulli_.float", R"([{"node": "x"}, 0.5])") +
                            "," + node("y", "aten.add.Tensor", R"([{"node": "a"}, {"node": "x"}])");
  const driver::Compilation compilation = compile_graph(
      input("a", "float32", "[300]") + "," + input("x", "float32", "[300]"), nodes, reference("y"));
  REQUIRE(compilation.program.outputs.size() == 3);
  CHECK(compilation.program.outputs[0].name == "mutated_a");
  CHECK(compilation.program.outputs[1].name == "mutated_x");
  for (runtime::Plan plan : {runtime::Plan::serial, runtime::Plan::cuda}) {
    auto made = session(compilation, plan);
    for (uint64_t call = 0; call < 2; ++call)
      check_run(*made, compilation, {ramp({300}), ramp({300})}, 0, call);
  }
  const std::vector<HostTensor> outputs =
      on_reference(compilation, {ramp({300}), ramp({300})}, 0, 0);
  for (int64_t i = 0; i < 300; ++i) {
    const double a = outputs[0].get_double(i), x = outputs[1].get_double(i);
    REQUIRE((a >= 2 && a < 3));
    REQUIRE((x == 0 || x == 1));
    REQUIRE(outputs[2].get_double(i) == static_cast<double>(static_cast<float>(a + x)));
  }
}

TEST_CASE("what dropout yields is its input's memory outside of training only") {
  for (const bool trains : {true, false}) {
    const std::string train = trains ? "true" : "false";
    const driver::Compilation compilation =
        compile_graph(input("x", "float32", "[8]"),
                      node("d", "aten.dropout.default", R"([{"node": "x"}, 0.5, )" + train + "]") +
                          "," + node("w", "aten.add_.Tensor", R"([{"node": "d"}, 1])") + "," +
                          node("y", "aten.mul.Tensor", R"([{"node": "x"}, 2])"),
                      reference("y"));
    CHECK(compilation.program.outputs.size() == (trains ? 1 : 2));
    const std::vector<HostTensor> outputs = on_reference(compilation, {ramp({8})}, 0, 0);
    CHECK(outputs.back().get_double(0) == 2 * (ramp({8}).get_double(0) + (trains ? 0 : 1)));
  }
}

TEST_CASE("attention with dropout drops weights, not values") {
  const std::string value = R"({"node": "q"}, {"node": "q"}, {"node": "ones"}, null, )";
  const driver::Compilation compilation = compile_graph(
      input("q", "float32", "[4, 8, 64, 4]"),
      node("ones", "aten.ones_like.default", R"([{"node": "q"}])") + "," +
          node("d", "aten.scaled_dot_product_attention.default", "[" + value + "0.5]") + "," +
          node("n", "aten.scaled_dot_product_attention.default", "[" + value + "0.0]"),
      reference("d") + "," + reference("n"));
  HostTensor q = ramp({4, 8, 64, 4});
  auto made = session(compilation);
  const std::vector<HostTensor> outputs = made->run({q});
  // Over values that are all 1, attention is the sum of its weights: 1, and 1 on average.
  const std::vector<double> dropped = doubles(outputs[0]), plain = doubles(outputs[1]);
  for (double x : plain)
    REQUIRE(std::fabs(x - 1) < 1e-5);
  const Moments m = moments(dropped);
  CHECK(std::fabs(m.mean - 1) < 0.05);
  CHECK(m.variance > 0.01);
  const std::vector<HostTensor> expected = on_reference(compilation, {q}, 0, 0);
  for (size_t i = 0; i < dropped.size(); ++i)
    REQUIRE(std::fabs(dropped[i] - expected[0].get_double(static_cast<int64_t>(i))) < 1e-5);
}

TEST_CASE("a mask that a forward and a backward pass share is drawn once") {
  const driver::Compilation compilation =
      compile_graph(input("x", "float32", "[64, 64]") + "," + input("g", "float32", "[64, 64]"),
                    node("r", "aten.rand_like.default", R"([{"node": "x"}])") + "," +
                        node("mask", "aten.gt.Scalar", R"([{"node": "r"}, 0.1])") + "," +
                        node("y", "aten.mul.Tensor", R"([{"node": "x"}, {"node": "mask"}])") + "," +
                        node("s", "aten.amax.default", R"([{"node": "y"}])") + "," +
                        node("z", "aten.mul.Tensor", R"([{"node": "g"}, {"node": "s"}])") + "," +
                        node("b", "aten.mul.Tensor", R"([{"node": "z"}, {"node": "mask"}])"),
                    reference("y") + "," + reference("b"));
  size_t drawing = 0;
  for (const program::Kernel &kernel : compilation.program.kernels)
    drawing += kernel.cuda.text.find("tc_rand<float>(") != std::string::npos;
  CHECK(drawing == 1);
  check_run(*session(compilation, runtime::Plan::cuda), compilation,
            {ramp({64, 64}), ramp({64, 64})}, 0, 0);
}

namespace {

/// x [4] -> what a branch on its sum draws, and rows that a loop of three rounds draws.
const char *const kBranches = R"({"format": "tsc-graph", "version": 1, "subgraphs": {
  "yes": {"nodes": [{"name": "a", "op": "placeholder", "val": {"dtype": "float32", "size": [4]}},
    {"name": "u", "op": "call_function", "target": "aten.rand_like.default", "args": [{"node": "a"}]},
    {"name": "output", "op": "output", "args": [[{"node": "u"}]]}]},
  "no": {"nodes": [{"name": "a", "op": "placeholder", "val": {"dtype": "float32", "size": [4]}},
    {"name": "u", "op": "call_function", "target": "aten.rand_like.default", "args": [{"node": "a"}]},
    {"name": "n", "op": "call_function", "target": "aten.neg.default", "args": [{"node": "u"}]},
    {"name": "output", "op": "output", "args": [[{"node": "n"}]]}]},
  "goes_on": {"nodes": [{"name": "i", "op": "placeholder", "val": {"dtype": "int64", "size": []}},
    {"name": "r", "op": "placeholder", "val": {"dtype": "float32", "size": [12]}},
    {"name": "c", "op": "call_function", "target": "aten.lt.Scalar", "args": [{"node": "i"}, 3]},
    {"name": "output", "op": "output", "args": [{"node": "c"}]}]},
  "round": {"nodes": [{"name": "i", "op": "placeholder", "val": {"dtype": "int64", "size": []}},
    {"name": "r", "op": "placeholder", "val": {"dtype": "float32", "size": [12]}},
    {"name": "u", "op": "call_function", "target": "aten.rand.default", "args": [[4]]},
    {"name": "s", "op": "call_function", "target": "aten.slice.Tensor", "args": [{"node": "r"}, 0, 4, 12]},
    {"name": "t", "op": "call_function", "target": "aten.cat.default", "args": [[{"node": "s"}, {"node": "u"}]]},
    {"name": "j", "op": "call_function", "target": "aten.add.Tensor", "args": [{"node": "i"}, 1]},
    {"name": "output", "op": "output", "args": [[{"node": "j"}, {"node": "t"}]]}]}},
  "nodes": [{"name": "x", "op": "placeholder", "val": {"dtype": "float32", "size": [4]}},
    {"name": "before", "op": "call_function", "target": "aten.rand_like.default", "args": [{"node": "x"}]},
    {"name": "sum", "op": "call_function", "target": "aten.sum.default", "args": [{"node": "x"}]},
    {"name": "p", "op": "call_function", "target": "aten.gt.Scalar", "args": [{"node": "sum"}, 0]},
    {"name": "cond", "op": "call_function", "target": "higher_order.cond",
     "args": [{"node": "p"}, {"graph": "yes"}, {"graph": "no"}, [{"node": "x"}]]},
    {"name": "branch", "op": "call_function", "target": "operator.getitem", "args": [{"node": "cond"}, 0]},
    {"name": "zero", "op": "call_function", "target": "aten.full.default", "args": [[], 0],
     "kwargs": {"dtype": {"dtype": "int64"}}},
    {"name": "zeros", "op": "call_function", "target": "aten.full.default", "args": [[12], 0.0]},
    {"name": "loop", "op": "call_function", "target": "higher_order.while_loop",
     "args": [{"graph": "goes_on"}, {"graph": "round"}, [{"node": "zero"}, {"node": "zeros"}], []]},
    {"name": "rows", "op": "call_function", "target": "operator.getitem", "args": [{"node": "loop"}, 1]},
    {"name": "output", "op": "output", "args": [[{"node": "before"}, {"node": "branch"}, {"node": "rows"}]]}]})";

} // namespace

TEST_CASE("branches and loops draw numbers of their own, every round others") {
  const driver::Compilation compilation =
      driver::compile(graph::parse_graph(kBranches, "random"), {});
  HostTensor x(tensor::DType::f32, {4});
  for (const double sign : {1.0, -1.0}) {
    for (int64_t i = 0; i < 4; ++i)
      x.set_double(i, sign);
    for (const runtime::Plan plan : {runtime::Plan::serial, runtime::Plan::cuda}) {
      const auto running = session(compilation, plan);
      for (uint64_t call = 0; call < 2; ++call)
        check_run(*running, compilation, {x}, 0, call);
    }
    std::vector<double> all;
    for (const uint64_t call : {0, 1})
      for (const HostTensor &output : on_reference(compilation, {x}, 0, call))
        for (const double value : doubles(output))
          all.push_back(std::abs(value));
    std::sort(all.begin(), all.end());
    CHECK(all.size() == 40);
    CHECK(std::adjacent_find(all.begin(), all.end()) == all.end()); // none twice
    CHECK(all.front() > 0);
    CHECK(all.back() < 1);
  }
}
