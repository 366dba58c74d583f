// Functions that a call applies to slices or to scores: what they become, and what is refused.
// Recorded cases of scan, map and associative_scan stand in tests/cases/slice_loops; flex_attention
// cannot be exported to a file, so that its graphs are written here.
#include "driver/compile.h"
#include "driver/reference.h"
#include "graph/read.h"
#include "support/diagnostic.h"
#include "testing/catch.h"

#include <tuple>

using namespace tsc;
using tensor::HostTensor;

namespace {

graph::Graph read(const std::string &nodes, const std::string &subgraphs = "{}",
                  const std::string &symbols = "{}") {
  return graph::parse_graph(R"({"format": "tsc-graph", "version": 1, "symbols": )" + symbols +
                                R"(, "subgraphs": )" + subgraphs + R"(, "nodes": [)" + nodes + "]}",
                            "g.json");
}
std::string input(const std::string &name, const std::string &sizes,
                  const std::string &dtype = "float32") {
  return R"({"name": ")" + name + R"(", "op": "placeholder", "val": {"dtype": ")" + dtype +
         R"(", "size": )" + sizes + "}},\n";
}
/// "$x" in the arguments stands for the node x, "@f" for the subgraph f.
std::string call(const std::string &name, const std::string &target, std::string args) {
  for (const auto &[mark, key] : {std::pair{'$', "node"}, std::pair{'@', "graph"}})
    for (size_t at = args.find(mark); at != std::string::npos; at = args.find(mark, at)) {
      size_t end = at + 1;
      while (end < args.size() && (std::isalnum(args[end]) != 0 || args[end] == '_'))
        ++end;
      args.replace(at, end - at,
                   std::string("{\"") + key + "\": \"" + args.substr(at + 1, end - at - 1) + "\"}");
    }
  return R"({"name": ")" + name + R"(", "op": "call_function", "target": ")" + target +
         R"(", "args": )" + args + "},\n";
}
std::string output(const std::string &name) {
  return R"({"name": "output", "op": "output", "args": [[{"node": ")" + name + R"("}]]})";
}
std::string subgraph(const std::string &name, const std::string &nodes) {
  return '"' + name + R"(": {"nodes": [)" + nodes + "]}";
}

HostTensor numbers(std::vector<int64_t> sizes, int64_t step, tensor::DType dtype) {
  HostTensor tensor(dtype, std::move(sizes));
  for (int64_t i = 0; i < tensor.numel(); ++i)
    tensor.set_double(i, static_cast<double>((i * step) % 17 - 8) / 8);
  return tensor;
}

std::vector<double> run(graph::Graph graph, const std::vector<HostTensor> &inputs) {
  driver::CompileOptions options;
  const driver::Compilation compilation = driver::compile(std::move(graph), options);
  const HostTensor result = driver::run_reference(compilation, inputs, {}).front();
  std::vector<double> values;
  for (int64_t i = 0; i < result.numel(); ++i)
    values.push_back(result.get_double(i));
  return values;
}

std::string refusal_of(graph::Graph graph) {
  try {
    driver::compile(std::move(graph), {});
  } catch (const support::UserError &error) {
    return error.diagnostics().front().code + " " + error.diagnostics().front().message + " | " +
           error.diagnostics().front().next_step;
  }
  return "compiled";
}

const std::string kPlaces = input("b", "[]", "int32") + input("h", "[]", "int32") +
                            input("i", "[]", "int32") + input("j", "[]", "int32");

/// Attention of 5 rows over 7, 4 heads that share 2; the functions as nodes behind their inputs.
graph::Graph flex(const std::string &score, const std::string &mask, const std::string &dtype) {
  return read(
      input("q", "[1, 4, 5, 8]", dtype) + input("k", "[1, 2, 7, 8]", dtype) +
          input("v", "[1, 2, 7, 8]", dtype) + input("t", "[4, 12]") +
          call("flex", "higher_order.flex_attention",
               R"([$q, $k, $v, @score, [128, 128, null, @mask], 0.25, {"dict": {}}, [$t]])") +
          call("first", "operator.getitem", "[$flex, 0]") + output("first"),
      "{" + subgraph("score", input("s", "[]", dtype) + kPlaces + input("t", "[4, 12]") + score) +
          ", " + subgraph("mask", kPlaces + mask) + "}");
}

/// The same, written out: `bias` is what is added to the scores.
graph::Graph attention(const std::string &bias, const std::string &dtype) {
  return read(
      input("q", "[1, 4, 5, 8]", dtype) + input("k", "[1, 2, 7, 8]", dtype) +
      input("v", "[1, 2, 7, 8]", dtype) + input("t", "[4, 12]") +
      call("rows", "aten.arange.default", "[5]") +
      call("i", "aten.unsqueeze.default", "[$rows, 1]") + call("j", "aten.arange.default", "[7]") +
      bias + call("added", "aten.to.dtype", R"([$bias, {"dtype": ")" + dtype + "\"}]") +
      call("keys", "aten.repeat_interleave.self_int", "[$k, 2, 1]") +
      call("values", "aten.repeat_interleave.self_int", "[$v, 2, 1]") +
      R"({"name": "y", "op": "call_function", "target": "aten.scaled_dot_product_attention.default",
          "args": [{"node": "q"}, {"node": "keys"}, {"node": "values"}, {"node": "added"}],
          "kwargs": {"scale": 0.25}},)" +
      output("y"));
}

void check_same(const std::vector<double> &computed, const std::vector<double> &expected,
                double margin) {
  REQUIRE(computed.size() == expected.size());
  for (size_t i = 0; i < computed.size(); ++i)
    CHECK(computed[i] == Approx(expected[i]).margin(margin));
}

} // namespace

TEST_CASE("flex_attention is attention with functions of scores and places") {
  const std::string table =
      call("apart", "aten.sub.Tensor", "[$i, $j]") + call("at", "aten.add.Tensor", "[$apart, 6]");
  const std::string score = table + call("bias", "aten.index.Tensor", "[$t, [$h, $at]]") +
                            call("y", "aten.add.Tensor", "[$s, $bias]") + output("y");
  const std::string mask = call("y", "aten.ge.Tensor", "[$i, $j]") + output("y");
  const std::string bias =
      table + call("heads", "aten.arange.default", "[4]") +
      call("h", "aten.view.default", "[$heads, [4, 1, 1]]") +
      call("looked_up", "aten.index.Tensor", "[$t, [$h, $at]]") +
      call("shown", "aten.ge.Tensor", "[$i, $j]") +
      call("hidden", "aten.logical_not.default", "[$shown]") +
      call("bias", "aten.masked_fill.Scalar", R"([$looked_up, $hidden, {"float": "-inf"}])");
  for (const auto &[dtype, name, margin] :
       {std::tuple{tensor::DType::f32, "float32", 1e-6}, {tensor::DType::f16, "float16", 4e-3}}) {
    const std::vector<HostTensor> inputs = {
        numbers({1, 4, 5, 8}, 3, dtype), numbers({1, 2, 7, 8}, 5, dtype),
        numbers({1, 2, 7, 8}, 7, dtype), numbers({4, 12}, 11, tensor::DType::f32)};
    check_same(run(flex(score, mask, name), inputs), run(attention(bias, name), inputs), margin);
  }
}

TEST_CASE("flex_attention refuses functions that elements do not have") {
  const std::string mask = call("y", "aten.ge.Tensor", "[$i, $j]") + output("y");
  CHECK(refusal_of(flex(call("sorted", "aten.sort.default", "[$t]") +
                            call("value", "operator.getitem", "[$sorted, 0]") +
                            call("y", "aten.index.Tensor", "[$value, [$h, $i]]") + output("y"),
                        mask, "float32")) ==
        "TSC-O125 higher_order.flex_attention: a function of the scores calls tsc.sort.default | "
        "compute with elements, and look them up by index");
}

TEST_CASE("gradients of what a score function captures are sums at indices") {
  const std::string places = kPlaces + input("g", "[]") + input("t", "[4]");
  const auto backward = [&](const std::string &joint) {
    return read(
        input("q", "[1, 2, 3, 8]") + input("k", "[1, 2, 4, 8]") + input("v", "[1, 2, 4, 8]") +
            input("out", "[1, 2, 3, 8]") + input("sums", "[1, 2, 3]") +
            input("above", "[1, 2, 3, 8]") + input("t", "[4]") +
            call("flex", "higher_order.flex_attention_backward",
                 R"([$q, $k, $v, $out, $sums, $above, null, @score, @joint,
                     [128, 128, null, @mask], 0.25, {"dict": {}}, [$t]])") +
            call("all", "operator.getitem", "[$flex, 3]") +
            call("first", "operator.getitem", "[$all, 0]") + output("first"),
        "{" +
            subgraph("score", input("s", "[]") + kPlaces + input("t", "[4]") +
                                  call("at", "aten.index.Tensor", "[$t, [$j]]") +
                                  call("y", "aten.add.Tensor", "[$s, $at]") + output("y")) +
            ", " +
            subgraph("mask", kPlaces + call("y", "aten.ge.Scalar", "[$i, 0]") + output("y")) +
            ", " + subgraph("joint", input("s", "[]") + places + joint) + "}");
  };
  const std::string result = R"({"name": "output", "op": "output", "args": [[{"node": "g"}, null,
      null, null, null, {"node": "y"}]]})";
  CHECK(refusal_of(backward(call("y", "flex_lib.zeros_and_scatter.default", "[[4], [$j], $g]") +
                            result)) == "compiled");
  CHECK(refusal_of(backward(call("y", "aten.mul.Tensor", "[$t, $g]") + result)) ==
        "TSC-O190 higher_order.flex_attention_backward: what comes to captured tensor 0 is no sum "
        "at indices | look its elements up by index in the score function");
}

TEST_CASE("a scan of many slices, or of a symbol's number of them, is a loop") {
  const auto scan = [](const std::string &rows) {
    return read(input("x", "[" + rows + ", 2]", "int64") + input("c", "[2]", "int64") +
                    call("y", "higher_order.scan", "[@f, [$c], [$x], []]") +
                    call("state", "operator.getitem", "[$y, 0]") +
                    call("sums", "operator.getitem", "[$y, 1]") +
                    call("column", "aten.unsqueeze.default", "[$state, 0]") +
                    call("all", "aten.cat.default", "[[$column, $sums]]") + output("all"),
                "{" +
                    subgraph("f", input("a", "[2]", "int64") + input("b", "[2]", "int64") +
                                      call("thrice", "aten.mul.Tensor", "[$a, 3]") +
                                      call("sum", "aten.add.Tensor", "[$thrice, $b]") +
                                      call("rest", "aten.remainder.Scalar", "[$sum, 7]") +
                                      R"({"name": "output", "op": "output",
                                            "args": [[{"node": "rest"}, {"node": "sum"}]]})") +
                    "}",
                R"({"s0": [1, 5000]})");
  };
  for (const int64_t rows : {int64_t{1}, int64_t{13}, int64_t{1300}}) {
    HostTensor x(tensor::DType::i64, {rows, 2}), c(tensor::DType::i64, {2});
    for (int64_t i = 0; i < 2 * rows; ++i)
      x.set_double(i, static_cast<double>(i % 5));
    for (int64_t i = 0; i < 2; ++i)
      c.set_double(i, 0);
    std::vector<double> sums;
    int64_t state[2] = {0, 0};
    for (int64_t i = 0; i < 2 * rows; ++i) {
      const int64_t sum = 3 * state[i % 2] + i % 5;
      sums.push_back(static_cast<double>(sum));
      state[i % 2] = sum % 7;
    }
    sums.insert(sums.begin(), {static_cast<double>(state[0]), static_cast<double>(state[1])});
    CHECK(run(scan(std::to_string(rows)), {x, c}) == sums);
    CHECK(run(scan("\"s0\""), {x, c}) == sums);
  }
}

TEST_CASE("functions of slices that cannot be computed are refused") {
  const auto over = [](const std::string &target, const std::string &args, const std::string &nodes,
                       const std::string &rows = "4") {
    return read(input("x", "[" + rows + ", 3]") + input("c", "[3]") + input("n", "[0]") +
                    call("y", target, args) + call("first", "operator.getitem", "[$y, 0]") +
                    output("first"),
                "{" + subgraph("f", input("a", "[3]") + input("b", "[3]") + nodes) + "}",
                R"({"s0": [2, 9]})");
  };
  const std::string sum = call("y", "aten.add.Tensor", "[$a, $b]") + output("y");
  CHECK(refusal_of(over("higher_order.scan", "[@f, [$c], [$x], []]", sum)) == "compiled");
  CHECK(refusal_of(over("higher_order.scan", "[@f, [$c], [$x], []]", sum, "\"s0\"")) == "compiled");
  CHECK(refusal_of(over("higher_order.scan", "[@f, [$c], [$x], []]", sum, "0")) ==
        "TSC-O125 higher_order.scan over no slices | pass at least one slice");
  CHECK(refusal_of(over("higher_order.scan", "[@f, [$c], [$x], [$c]]", sum)) ==
        "TSC-O125 higher_order.scan: a subgraph takes 2 operands, and the call gives 3 | export "
        "the graph again");
  const std::string flags = call("y", "aten.gt.Tensor", "[$a, $b]") + output("y");
  CHECK(refusal_of(over("higher_order.scan", "[@f, [$c], [$x], []]", flags)) ==
        "TSC-O125 higher_order.scan: carried value 0 changes its dtype or sizes | carry a tensor "
        "that stays as it is");
  const std::string cumulative = call("sums", "aten.cumsum.default", "[$a, 0]") +
                                 call("y", "aten.sort.default", "[$sums]") +
                                 call("z", "operator.getitem", "[$y, 0]") + output("z");
  CHECK(refusal_of(over("higher_order.associative_scan", "[@f, [$x], []]", cumulative)) ==
        "TSC-O125 higher_order.associative_scan: its function calls tsc.sort.default | combine "
        "elements, or use scan");
  const std::string larger = call("y", "aten.maximum.default", "[$a, $b]") + output("y");
  CHECK(refusal_of(over("higher_order.associative_scan", "[@f, [$x], []]", larger, "\"s0\"")) ==
        "compiled");
  const std::string mixed = call("turned", "aten.flip.default", "[$a, [0]]") +
                            call("twice", "aten.flip.default", "[$turned, [0]]") +
                            call("y", "aten.maximum.default", "[$twice, $b]") + output("y");
  CHECK(refusal_of(over("higher_order.associative_scan", "[@f, [$x], []]", mixed)) ==
        "TSC-O125 higher_order.associative_scan: its function calls aten.flip.default | combine "
        "elements, or use scan");
  const std::string viewed = call("row", "aten.unsqueeze.default", "[$a, 0]") +
                             call("one", "aten.squeeze.dims", "[$row, [0]]") +
                             call("y", "aten.maximum.default", "[$one, $b]") + output("y");
  CHECK(refusal_of(over("higher_order.associative_scan", "[@f, [$x], []]", viewed)) == "compiled");
  CHECK(refusal_of(over("higher_order.associative_scan", "[@f, [$x], []]", viewed, "\"s0\"")) ==
        "TSC-O125 higher_order.associative_scan over 's0' slices, a number is needed | make this "
        "value static when exporting");
}

TEST_CASE("combinations stand in lexicographic order") {
  const auto of = [](int64_t count, int64_t chosen, bool repeats) {
    HostTensor x(tensor::DType::i64, {count});
    for (int64_t i = 0; i < count; ++i)
      x.set_double(i, static_cast<double>(i));
    return run(read(input("x", "[" + std::to_string(count) + "]", "int64") +
                    call("y", "aten.combinations.default",
                         "[$x, " + std::to_string(chosen) + (repeats ? ", true]" : ", false]")) +
                    output("y")),
               {x});
  };
  CHECK(of(4, 2, false) == std::vector<double>{0, 1, 0, 2, 0, 3, 1, 2, 1, 3, 2, 3});
  CHECK(of(4, 3, false) == std::vector<double>{0, 1, 2, 0, 1, 3, 0, 2, 3, 1, 2, 3});
  CHECK(of(2, 3, true) == std::vector<double>{0, 0, 0, 0, 0, 1, 0, 1, 1, 1, 1, 1});
  CHECK(of(2, 3, false).empty());
}
