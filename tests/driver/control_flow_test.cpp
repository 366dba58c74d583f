// Branches, loops, assertions and numbers of the data: what is refused, what is checked when sizes
// are known, and how a program and its log hold them.
#include "driver/compile.h"
#include "driver/inputs.h"
#include "driver/reference.h"
#include "graph/read.h"
#include "program/partition.h"
#include "runtime/session.h"
#include "support/diagnostic.h"

#include "testing/catch.h"

using namespace tsc;
using tensor::HostTensor;

namespace {

/// Graph JSON with these symbols, nodes (without placeholders' and outputs' common parts) and
/// subgraphs.
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
std::string call(const std::string &name, const std::string &target, const std::string &args,
                 const std::string &more = "") {
  return R"({"name": ")" + name + R"(", "op": "call_function", "target": ")" + target +
         R"(", "args": )" + args + more + "},\n";
}
std::string output(const std::string &values) {
  return R"({"name": "output", "op": "output", "args": [)" + values + "]}";
}
std::string node(const std::string &name) { return R"({"node": ")" + name + R"("})"; }
std::string subgraph(const std::string &name, const std::string &nodes) {
  return '"' + name + R"(": {"nodes": [)" + nodes + "]}";
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

HostTensor vector(const std::vector<double> &values) {
  HostTensor tensor(tensor::DType::f32, {static_cast<int64_t>(values.size())});
  for (size_t i = 0; i < values.size(); ++i)
    tensor.set_double(static_cast<int64_t>(i), values[i]);
  return tensor;
}

/// x [3] -> a branch on sum(x) > 0; `yes` and `no` are the nodes of the branches, which take x.
graph::Graph branch(const std::string &yes, const std::string &no,
                    const std::string &condition = node("positive")) {
  return read(
      input("x", "[3]") + call("sum", "aten.sum.default", "[" + node("x") + "]") +
          call("positive", "aten.gt.Scalar", "[" + node("sum") + ", 0]") +
          call("cond", "higher_order.cond",
               "[" + condition + R"(, {"graph": "yes"}, {"graph": "no"}, [)" + node("x") + "]]") +
          call("getitem", "operator.getitem", "[" + node("cond") + ", 0]") +
          output("[" + node("getitem") + "]"),
      "{" + subgraph("yes", input("a", "[3]") + yes) + ", " +
          subgraph("no", input("a", "[3]") + no) + "}");
}
const std::string kTwice =
    call("twice", "aten.mul.Tensor", "[" + node("a") + ", 2]") + output("[" + node("twice") + "]");
const std::string kSame = output("[" + node("a") + "]");

} // namespace

TEST_CASE("what subgraphs may not do is refused") {
  CHECK(refusal_of(branch(kTwice, kSame)) == "compiled");
  const std::string write = call("added", "aten.add_.Tensor", "[" + node("a") + ", 1]");
  CHECK(refusal_of(branch(write + kTwice, kSame)) ==
        "TSC-O125 the call of higher_order.cond: a subgraph writes to its operand a | return the "
        "new value "
        "instead, and write it outside of the branch");
  const std::string draw = call("drawn", "aten.rand_like.default", "[" + node("a") + "]") +
                           output("[" + node("drawn") + "]");
  CHECK(refusal_of(branch(draw, kSame)) == "compiled"); // random_test.cpp runs such
  CHECK(refusal_of(branch(output("[3]"), kSame)) ==
        "TSC-O125 higher_order.cond: a subgraph yields something not a tensor | make "
        "it a tensor: "
        "torch.tensor(number)");
  CHECK(refusal_of(branch(input("b", "[3]") + kTwice, kSame)) ==
        "TSC-O125 the call of higher_order.cond: a subgraph takes 2 operands, and the call gives 1 "
        "| export "
        "the graph again");
  const std::string nodes =
      input("x", "[3]") + input("n", "[]", "int64") +
      call("item", "aten.item.default", "[" + node("n") + "]", R"(, "val": {"int": "u0"})") +
      call("more", "operator.add", "[" + node("item") + ", 1]");
  const auto cond = [&](const std::string &graph, const std::string &operand) {
    return read(
        nodes +
            call("cond", "higher_order.cond",
                 R"([true, )" + graph + R"(, {"graph": "yes"}, [)" + node("x") + ", " +
                     node(operand) + "]]") +
            call("getitem", "operator.getitem", "[" + node("cond") + ", 0]") +
            output("[" + node("getitem") + "]"),
        "{" +
            subgraph("yes",
                     input("a", "[3]") +
                         R"({"name": "k", "op": "placeholder", "val": {"int": "u0"}},)" +
                         call("sum", "aten.add.Tensor", "[" + node("a") + ", " + node("k") + "]") +
                         output("[" + node("sum") + "]")) +
            "}",
        R"({"u0": [0, 7]})");
  };
  const driver::Compilation passed = driver::compile(cond(R"({"graph": "yes"})", "item"), {});
  HostTensor three(tensor::DType::i64, {});
  three.set_int64(0, 3);
  auto session = runtime::Session::create(passed.program, {}, {});
  CHECK(session->run({vector({1, 2, 4}), three})[0].get_double(2) == 7);
  CHECK(driver::run_reference(passed, {vector({1, 2, 4}), three}, {})[0].get_double(2) == 7);
  CHECK(refusal_of(cond(R"({"graph": "yes"})", "more")) ==
        "TSC-O125 the call of higher_order.cond: an operand is computed from a number that the "
        "data decides | "
        "compute it inside of the subgraphs");
  CHECK(refusal_of(cond("3", "item")) == "TSC-O125 higher_order.cond: argument "
                                         "'true_graph' is no subgraph | name one of the "
                                         "graph's subgraphs");
  CHECK(refusal_of(
            branch(call("odd", "aten.no_such.default", "[" + node("a") + "]") + kTwice, kSame)) ==
        "TSC-O001 the operator aten.no_such.default is not supported (1 call) | did "
        "you mean aten.cosh.default? docs/operators.md lists what is supported");
}

TEST_CASE("branches agree on every device, and print behind their call") {
  const driver::Compilation compilation =
      driver::compile(branch(kTwice, kSame), {.policy = "default"});
  auto session = runtime::Session::create(compilation.program, {}, {});
  for (const std::vector<double> &values :
       {std::vector<double>{1, 2, 3}, std::vector<double>{-1, -2, 0.5}}) {
    const double factor = values[0] > 0 ? 2 : 1;
    for (const HostTensor &result : {session->run({vector(values)})[0],
                                     driver::run_reference(compilation, {vector(values)}, {})[0]})
      for (int64_t i = 0; i < 3; ++i)
        CHECK(result.get_double(i) == factor * values[static_cast<size_t>(i)]);
  }
  const std::string log = driver::render(compilation, driver::Form::schedule);
  CHECK(log.find("op1: ExternKernelSchedulerNode(Conditional)") != std::string::npos);
  CHECK(log.find("yes: Subgraph\nyes.caller = op1\nyes.outputs = ['buf0']\n") != std::string::npos);
  CHECK(log.find("no: end of Subgraph\n") != std::string::npos);
}

TEST_CASE("what a branch or a loop yields as one tensor is that tensor") {
  // The branches (one holds a branch again) and the loop's body return a tensor, not a tuple.
  const auto tensor_of = [](const std::string &name, const std::string &nodes,
                            const std::string &result) {
    return subgraph(name, input("a", "[3]") + nodes + output(node(result)));
  };
  const std::string twice = call("twice", "aten.mul.Tensor", "[" + node("a") + ", 2]");
  const std::string same = tensor_of("same", "", "a");
  const std::string inner =
      R"("yes": {"subgraphs": {)" + same + R"(}, "nodes": [)" + input("a", "[3]") +
      call("inner", "higher_order.cond",
           R"([true, {"graph": "same"}, {"graph": "same"}, [)" + node("a") + "]]") +
      call("more", "aten.mul.Tensor", "[" + node("inner") + ", 2]") + output(node("more")) + "]}";
  const std::string small = call("sum", "aten.sum.default", "[" + node("a") + "]") +
                            call("lt", "aten.lt.Scalar", "[" + node("sum") + ", 20]");
  const std::string nodes =
      input("x", "[3]") + call("sum", "aten.sum.default", "[" + node("x") + "]") +
      call("positive", "aten.gt.Scalar", "[" + node("sum") + ", 0]") +
      call("cond", "higher_order.cond",
           "[" + node("positive") + R"(, {"graph": "yes"}, {"graph": "same"}, [)" + node("x") +
               "]]") +
      call("loop", "higher_order.while_loop",
           R"([{"graph": "small"}, {"graph": "double"}, [)" + node("x") + "]]") +
      call("next", "aten.add.Tensor", "[" + node("cond") + ", 1]") +
      output("[" + node("cond") + ", " + node("next") + ", " + node("loop") + "]");
  const driver::Compilation compilation = driver::compile(
      read(nodes, "{" + inner + ", " + same + ", " + tensor_of("double", twice, "twice") + ", " +
                      tensor_of("small", small, "lt") + "}"),
      {.policy = "default"});
  auto session = runtime::Session::create(compilation.program, {}, {});
  for (const std::vector<HostTensor> &results :
       {session->run({vector({1, 2, 3})}),
        driver::run_reference(compilation, {vector({1, 2, 3})}, {})}) {
    REQUIRE(results.size() == 3);
    CHECK(results[0].get_double(2) == 6);
    CHECK(results[1].get_double(2) == 7);
    CHECK(results[2].get_double(2) == 12);
  }
}

TEST_CASE("a program is cut where the host decides what runs next") {
  const program::Program program =
      driver::compile(branch(kTwice, kSame), {.policy = "default"}).program;
  const std::vector<program::Partition> parts = program::partition(program);
  REQUIRE(parts.size() == 4);
  CHECK(parts[0].capturable);
  CHECK_FALSE(parts[1].capturable);
  CHECK(parts[1].inputs == parts[0].outputs);
  CHECK(parts[2].depth == 1);
  CHECK(parts[3].outputs == parts[2].outputs);
  const std::string text = program::to_text(program, parts);
  CHECK(text.find("partition 1: by the host\n  steps = [cond_op1]\n  inputs = [buf0 "
                  "torch.bool[]]\n  outputs = []\n  partition 2: captured\n") != std::string::npos);
}

TEST_CASE("conditions on sizes are decided when sizes are bound, those that data breaks are said") {
  const std::string nodes =
      input("x", R"(["s0"])") + call("size", "aten.sym_size.int", "[" + node("x") + ", 0]") +
      call("odd", "operator.mod", "[" + node("size") + ", 2]") +
      call("is_odd", "operator.eq", "[" + node("odd") + ", 1]") +
      call("check", "aten._assert_scalar.default",
           "[" + node("is_odd") + R"(, "x has an odd size"])") +
      call("positive", "aten.gt.Scalar", "[" + node("x") + ", 0]") +
      call("all", "aten.all.default", "[" + node("positive") + "]") +
      call("check_data", "aten._assert_async.msg", "[" + node("all") + R"(, "x is positive"])") +
      call("result", "aten.neg.default", "[" + node("x") + "]") +
      output("[" + node("result") + "]");
  const driver::Compilation compilation =
      driver::compile(read(nodes, "{}", R"({"s0": [2, 100]})"), {});
  REQUIRE(compilation.program.size_assertions.size() == 1);
  REQUIRE(compilation.program.assertions.size() == 1);
  auto session = runtime::Session::create(compilation.program, {}, {});
  const auto message = [&](const std::vector<double> &values, bool reference) -> std::string {
    try {
      if (reference)
        driver::run_reference(compilation, {vector(values)}, {});
      else
        session->run({vector(values)});
    } catch (const support::UserError &error) {
      return error.diagnostics().front().code + " " + error.diagnostics().front().message;
    }
    return "ran";
  };
  for (bool reference : {true, false}) {
    CHECK(message({1, 2}, reference) ==
          "TSC-R127 the graph asserts: x has an odd size (node check)");
    CHECK(message({1, -2, 3}, reference) ==
          "TSC-R127 the graph asserts: x is positive (node check_data)");
    CHECK(message({1, 2, 3}, reference) == "ran");
  }
}

TEST_CASE("views of symbolic sizes are held to their memory when sizes are bound") {
  const auto message = [&](const std::string &target, const std::string &args, size_t count,
                           bool reference) -> std::string {
    const std::vector<HostTensor> inputs = {vector(std::vector<double>(count, 1))};
    try {
      const driver::Compilation compilation = driver::compile(
          read(input("x", R"(["s0"])") + call("v", target, "[" + node("x") + ", " + args + "]") +
                   call("y", "aten.neg.default", "[" + node("v") + "]") +
                   output("[" + node("y") + "]"),
               "{}", R"({"s0": [2, 100]})"),
          {});
      if (reference)
        driver::run_reference(compilation, inputs, {});
      else
        runtime::Session::create(compilation.program, {}, {})->run(inputs);
    } catch (const support::UserError &error) {
      return error.diagnostics().front().code + " " + error.diagnostics().front().message;
    }
    return "ran";
  };
  for (bool reference : {true, false}) {
    CHECK(message("aten.as_strided.default", R"([{"expr": "s0"}, 2], [1, 3], 0)", 5, reference) ==
          "TSC-O079 aten.as_strided.default leaves its memory: sizes [s0, 2] with strides [1, 3] "
          "from element 0 on reach s0 + 3 elements, the memory has s0");
    CHECK(message("aten.as_strided.default", "[3, 2], [1, 2], 1", 5, reference) ==
          "TSC-R127 the graph asserts: aten.as_strided.default: sizes [3, 2] with strides [1, 2] "
          "from element 1 on reach 6 elements, the memory has s0 (node v)");
    CHECK(message("aten.as_strided.default", "[3, 2], [1, 2], 1", 6, reference) == "ran");
    CHECK(message("aten.select.int", "0, 5", 5, reference) ==
          "TSC-R127 the graph asserts: aten.select.int: index 5 is outside size s0 (node v)");
    CHECK(message("aten.select.int", "0, -5", 5, reference) == "ran");
  }
}

TEST_CASE("sizes that a graph takes to be one are held to it when they are known") {
  const auto message = [](const std::string &sizes, const std::string &target,
                          const std::string &args, std::vector<std::vector<int64_t>> shapes,
                          bool reference, bool is_read = true) -> std::string {
    const std::string other = sizes.substr(sizes.find('|') + 1);
    const driver::Compilation compilation = driver::compile(
        read(input("a", sizes.substr(0, sizes.find('|'))) + input("b", other) +
                 call("y", target, args) +
                 (is_read ? "" : call("z", "aten.fill.Scalar", "[" + node("y") + ", 1]")) +
                 output("[" + node(is_read ? "y" : "z") + "]"),
             "{}", R"({"s0": [2, 100], "s1": [2, 100]})"),
        {});
    std::vector<HostTensor> inputs;
    for (std::vector<int64_t> &shape : shapes)
      inputs.emplace_back(tensor::DType::f32, std::move(shape));
    try {
      if (reference)
        driver::run_reference(compilation, inputs, {});
      else
        runtime::Session::create(compilation.program, {}, {})->run(inputs);
    } catch (const support::UserError &error) {
      return error.diagnostics().front().code + " " + error.diagnostics().front().message;
    }
    return "ran";
  };
  const std::string both = "[" + node("a") + ", " + node("b") + "]";
  for (bool reference : {true, false}) {
    CHECK(message(R"(["s0"]|["s1"])", "aten.add.Tensor", both, {{3}, {5}}, reference) ==
          "TSC-R127 the graph asserts: aten.add.Tensor: sizes s1 and s0 are equal (node y)");
    CHECK(message(R"(["s0"]|["s1"])", "aten.add.Tensor", both, {{5}, {5}}, reference) == "ran");
    // Also where only the size of what it yields is of use.
    CHECK(message(R"(["s0"]|["s1"])", "aten.add.Tensor", both, {{3}, {5}}, reference, false) ==
          "TSC-R127 the graph asserts: aten.add.Tensor: sizes s0 and s1 are equal (node y)");
    CHECK(message(R"(["s0"]|["s1"])", "aten.add.Tensor", both, {{5}, {5}}, reference, false) ==
          "ran");
    CHECK(message(R"([4, "s0"]|["s1", 4])", "aten.mm.default", both, {{4, 3}, {5, 4}}, reference) ==
          "TSC-R127 the graph asserts: aten.mm.default: sizes s0 and s1 are equal (node y)");
    CHECK(message(R"([4, "s0"]|[4, "s1"])", "aten.cat.default", "[" + both + ", 0]",
                  {{4, 3}, {4, 5}}, reference) ==
          "TSC-R127 the graph asserts: aten.cat.default: sizes s1 and s0 are equal (node y)");
    CHECK(message(R"(["s0"]|["s1"])", "aten.view_as.default", both, {{5}, {5}}, reference) ==
          "ran");
    const std::string a = "[" + node("a") + "]";
    CHECK(message(R"(["s0 - 1"]|["s0"])", "aten.squeeze.default", a, {{1}, {2}}, reference) ==
          "TSC-R127 the graph asserts: aten.squeeze.dims: size s0 - 1 is not 1 (node y)");
    CHECK(message(R"(["s0 - 1"]|["s0"])", "aten.squeeze.default", a, {{2}, {3}}, reference) ==
          "ran");
    CHECK(message(R"(["s0"]|["s1"])", "aten.view_as.default", both, {{3}, {5}}, reference) ==
          "TSC-R127 the graph asserts: aten.view.default: sizes [s1] do not hold the s0 elements "
          "of [s0] (node y)");
  }
}

TEST_CASE("assertions in branches count where the branch is taken") {
  const std::string check =
      call("small", "aten.lt.Scalar", "[" + node("a") + ", 10]") +
      call("all", "aten.all.default", "[" + node("small") + "]") +
      call("check", "aten._assert_async.msg", "[" + node("all") + R"(, "a is small"])");
  const driver::Compilation compilation = driver::compile(branch(check + kTwice, kSame), {});
  auto session = runtime::Session::create(compilation.program, {}, {});
  CHECK_THROWS_WITH(session->run({vector({1, 2, 30})}),
                    "error TSC-R127: the graph asserts: a is small (node check)\n  next: give "
                    "inputs of which it holds");
  CHECK_THROWS_WITH(driver::run_reference(compilation, {vector({1, 2, 30})}, {}),
                    "error TSC-R127: the graph asserts: a is small (node check)\n  next: give "
                    "inputs of which it holds");
  CHECK(session->run({vector({-50, 2, 30})})[0].get_double(2) == 30);
  const std::string never = call("check", "aten._assert_scalar.default", R"([false, "no"])");
  CHECK(refusal_of(branch(never + kTwice, kSame)) == "compiled");
  CHECK(refusal_of(read(input("x", "[3]") + never + output("[" + node("x") + "]"))) ==
        "TSC-O123 the graph asserts what never holds: no | export again with inputs of which it "
        "holds");
}

namespace {

/// x [3] -> x doubled until its sum is large; `more` stands in the condition's graph, over a.
graph::Graph loop(const std::string &more, const std::string &in_body = "",
                  const std::string &carried = node("x")) {
  return read(
      input("x", "[3]") +
          call("loop", "higher_order.while_loop",
               R"([{"graph": "condition"}, {"graph": "body"}, [)" + carried + "], []]") +
          call("getitem", "operator.getitem", "[" + node("loop") + ", 0]") +
          output("[" + node("getitem") + "]"),
      "{" +
          subgraph("condition", input("a", "[3]") + more +
                                    call("sum", "aten.sum.default", "[" + node("a") + "]") +
                                    call("small", "aten.lt.Scalar", "[" + node("sum") + ", 100]") +
                                    output(node("small"))) +
          ", " + subgraph("body", input("a", "[3]") + in_body + kTwice) + "}");
}

} // namespace

TEST_CASE("loops run until their condition fails, and say which assertion did") {
  const std::string check =
      call("low", "aten.lt.Scalar", "[" + node("a") + ", 40]") +
      call("all", "aten.all.default", "[" + node("low") + "]") +
      call("check", "aten._assert_async.msg", "[" + node("all") + R"(, "a is low"])");
  const driver::Compilation compilation = driver::compile(loop("", check), {});
  auto session = runtime::Session::create(compilation.program, {}, {});
  // 1 2 3 -> 2 4 6 -> ... -> 32 64 96: sum 192; 64 is not low, but nothing is doubled then.
  const std::vector<HostTensor> low = session->run({vector({5, 6, 7})}); // 40 48 56: sum 144
  CHECK(low[0].get_double(1) == 48);
  CHECK(driver::run_reference(compilation, {vector({5, 6, 7})}, {})[0].get_double(1) == 48);
  for (const std::vector<double> &values : {std::vector<double>{0, -60, 41}, {0, 0, 99}}) {
    CHECK_THROWS_WITH(session->run({vector(values)}),
                      "error TSC-R127: the graph asserts: a is low (node check)\n  next: give "
                      "inputs of which it holds");
    CHECK_THROWS_WITH(driver::run_reference(compilation, {vector(values)}, {}),
                      "error TSC-R127: the graph asserts: a is low (node check)\n  next: give "
                      "inputs of which it holds");
  }
  CHECK(refusal_of(loop(check)) ==
        "TSC-O124 higher_order.while_loop: the condition of a loop asserts something | assert it "
        "in the body, or before the loop");
  CHECK(refusal_of(loop("", "", "3")) ==
        "TSC-O125 the call of higher_order.while_loop: it carries a number | carry a tensor: "
        "torch.tensor(number)");
}

TEST_CASE("effect tokens vanish, and their calls stay where they are") {
  const std::string effects =
      R"({"name": "token", "op": "placeholder", "val": {"dtype": "float32", "size": [0]}},)" +
      input("x", "[3]") + call("positive", "aten.gt.Scalar", "[" + node("x") + ", 0]") +
      call("all", "aten.all.default", "[" + node("positive") + "]") +
      call("first", "higher_order.with_effects",
           "[" + node("token") + R"(, "aten._assert_async.msg", )" + node("all") +
               R"(, "x is positive"])") +
      call("after", "operator.getitem", "[" + node("first") + ", 0]") +
      call("second", "higher_order.with_effects",
           "[" + node("after") + R"(, "aten.mul.Tensor", )" + node("x") + ", 3]",
           R"(, "val": [{"dtype": "float32", "size": [0]}, {"dtype": "float32", "size": [3]}])") +
      call("last", "operator.getitem", "[" + node("second") + ", 0]") +
      call("result", "operator.getitem", "[" + node("second") + ", 1]") +
      output("[" + node("last") + ", " + node("result") + "]");
  const std::string signature =
      R"({"inputs": [{"node": "token", "kind": "token"}, {"node": "x", "kind": "user"}],
          "outputs": [{"kind": "token", "value": {"node": "last"}},
                      {"kind": "user", "value": {"node": "result"}}]})";
  const graph::Graph graph =
      graph::parse_graph(R"({"format": "tsc-graph", "version": 1, "nodes": [)" + effects +
                             R"(], "signature": )" + signature + "}",
                         "g.json");
  const auto changed = [&](std::string text, const std::string &from, const std::string &to) {
    text.replace(text.find(from), from.size(), to);
    return refusal_of(graph::parse_graph(R"({"format": "tsc-graph", "version": 1, "nodes": [)" +
                                             text + R"(], "signature": )" + signature + "}",
                                         "g.json"));
  };
  CHECK(changed(effects, R"("aten._assert_async.msg")", "7") ==
        "TSC-O017 higher_order.with_effects: argument 1 is no operator's name | export the graph "
        "again");
  CHECK(changed(effects, R"("aten._assert_async.msg", )" + node("all") + ",",
                R"("aten._print.default", )") ==
        "TSC-O070 aten._print.default prints while the graph runs (1 call) | print outside of the "
        "model");
  const driver::Compilation compilation = driver::compile(graph, {});
  REQUIRE(compilation.program.inputs.size() == 1);
  REQUIRE(compilation.program.outputs.size() == 1);
  auto session = runtime::Session::create(compilation.program, {}, {});
  CHECK(session->run({vector({1, 2, 3})})[0].get_double(2) == 9);
  CHECK_THROWS_WITH(session->run({vector({1, -2, 3})}),
                    "error TSC-R127: the graph asserts: x is positive (node first)\n  next: give "
                    "inputs of which it holds");
}

TEST_CASE("numbers of the data have names, and sizes may depend on them") {
  const auto item = [](const std::string &value, const std::string &rest) {
    return read(input("x", "[8]") + input("n", "[]", "int64") +
                    call("item", "aten.item.default", "[" + node("n") + "]", value) + rest,
                "{}", R"({"u0": [0, 7], "u3": [0, 7]})");
  };
  const std::string named = R"(, "val": {"int": "u0"})";
  const std::string add =
      call("sum", "aten.add.Tensor", "[" + node("x") + ", " + node("item") + "]") +
      output("[" + node("sum") + "]");
  CHECK(refusal_of(item(named, add)) == "compiled");
  CHECK(refusal_of(item("", add)) == "compiled");
  CHECK(refusal_of(item(R"(, "val": {"int": "u0 + 1"})", add)) ==
        "TSC-O004 aten.item.default: its val is not the name of a number of the data | leave the "
        "node's val out, or name it {\"int\": \"u0\"}");
  const std::string sized = call("ones", "aten.ones.default", "[[" + node("item") + "]]") +
                            output("[" + node("ones") + "]");
  CHECK(refusal_of(item(named, sized)) == "compiled");
  const std::string unknown =
      call("sum", "aten.add.Tensor", "[" + node("x") + R"(, {"expr": "u0 + u3"}])") +
      output("[" + node("sum") + "]");
  CHECK(refusal_of(item(named, unknown)) ==
        "TSC-O126 nothing in the graph says what u3 is | sizes have other names than u0, u1, ..., "
        "which item() defines");
}
