// tsc check: all problems in one report, and the same answer as the pipeline's.
#include "case_archive.h"

#include "driver/check.h"
#include "driver/operators_folder.h"
#include "graph/read.h"
#include "testing/catch.h"
#include "wrong_graph.h"

#include <algorithm>
#include <random>

using namespace tsc;
using nlohmann::json;
using testing::WrongGraph;

namespace {

/// With the operators that the family custom_operators calls.
driver::CompileOptions options() {
  static const auto operators =
      driver::read_operators(std::string(TSC_SOURCE_DIR) + "/graphs/custom_operators/operators");
  driver::CompileOptions result;
  result.operators = operators;
  return result;
}

std::string report_of(const graph::Graph &graph) {
  std::string text;
  for (const driver::Problem &problem : driver::check(graph, options()).problems)
    text += driver::to_string(problem, "wrong.json") + "\n";
  return text;
}

/// What the pipeline alone says: "" if it accepts the graph.
std::string refusal_of(graph::Graph graph) {
  try {
    driver::compile(std::move(graph), options());
  } catch (const support::UserError &error) {
    return error.what();
  }
  return "";
}

const json kSmall = {{"dtype", "float32"}, {"size", {2, 3}}};

} // namespace

TEST_CASE("a wrong node hides no problem of the others") {
  WrongGraph wrong;
  wrong.input("x", "float32", {2, 3})
      .input("c", "float8_e4m3fn", {2, 3})
      .input("h", "bfloat16", {4});
  wrong.call("unknown", "aten.expp.default", {"$x"}, json::object(), kSmall)
      .call("shapes", "aten.add.Tensor", {"$unknown", "$h"}, json::object(), kSmall)
      .call("arity", "aten.neg.default", {"$shapes", 3})
      .call("kind", "aten.softmax.int", {"$shapes"}, {{"dim", "one"}}, kSmall)
      .call("dtype", "aten.mul.Tensor", {"$c", "$c"})
      .call("dtype_again", "aten.neg.default", {"$dtype"})
      .call("bits", "aten.view.dtype", {"$h", {{"dtype", "bool"}}})
      .call("dim", "aten.amax.default", {"$kind", {5}})
      .call("sizes", "aten.nonzero.default", {"$kind"})
      .call("again", "aten.expp.default", {"$sizes"})
      .call("own", "mine.op.default", {"$again"})
      .call("after_own", "aten.neg.default", {"$own", "$own"})
      .call("contradiction", "aten.sum.default", {"$x"}, json::object(),
            {{"dtype", "float32"}, {"size", {3}}});
  const graph::Graph graph =
      wrong.graph({"arity", "dtype_again", "bits", "dim", "after_own", "contradiction"});
  CHECK(report_of(graph) ==
        R"(error TSC-O001: the operator aten.expp.default is not supported (2 calls)
  at wrong.json (node unknown)
  in File "model.py", line 1, in forward: unknown = f(x)
  call aten.expp.default(x: float32[2, 3])
  also at node again in File "model.py", line 10, in forward: again = f(x)
  next: did you mean aten.exp.default? docs/operators.md lists what is supported
error TSC-O020: aten.add.Tensor: sizes [2, 3] and [4] do not broadcast (dimension 1)
  at wrong.json (node shapes)
  in File "model.py", line 2, in forward: shapes = f(x)
  call aten.add.Tensor(self=unknown: float32[2, 3], other=h: bfloat16[4])
  next: make the sizes equal, or one of them 1
error TSC-O010: aten.neg.default takes 1 arguments, 2 given
  at wrong.json (node arity)
  in File "model.py", line 3, in forward: arity = f(x)
  call aten.neg.default(self=shapes: float32[2, 3], 3)
  next: the form that tsc knows: aten.neg.default(Tensor self)
error TSC-O017: aten.softmax.int: argument 'dim' is 'one', the schema says int
  at wrong.json (node kind)
  in File "model.py", line 4, in forward: kind = f(x)
  call aten.softmax.int(self=shapes: float32[2, 3], dim='one')
  next: the form that tsc knows: aten.softmax.int(Tensor self, int dim, ScalarType? dtype=None)
error TSC-K001: kernels cannot compute with torch.float8_e4m3fn
  at wrong.json (node dtype)
  in File "model.py", line 5, in forward: dtype = f(x)
  call aten.mul.Tensor(self=c: float8_e4m3fn[2, 3], other=c: float8_e4m3fn[2, 3])
  next: convert the tensor to float32 or a 16-bit float first
error TSC-O002: aten.view.dtype between bool and wider elements is not supported
  at wrong.json (node bits)
  in File "model.py", line 7, in forward: bits = f(x)
  call aten.view.dtype(self=h: bfloat16[4], dtype=torch.bool)
  next: view bool as uint8 first
error TSC-O021: aten.amax.default: dimension 5 is not in [-2, 1]
  at wrong.json (node dim)
  in File "model.py", line 8, in forward: dim = f(x)
  call aten.amax.default(self=kind: float32[2, 3], dim=[5])
  next: choose a dimension that the tensor has
error TSC-O004: aten.nonzero.default: the result's size depends on data, and its val does not name it
  at wrong.json (node sizes)
  in File "model.py", line 9, in forward: sizes = f(x)
  call aten.nonzero.default(self=kind: float32[2, 3])
  next: export the graph with torch.export, which names the size u0
error TSC-O001: the operator mine.op.default is not supported (1 call)
  at wrong.json (node own)
  in File "model.py", line 11, in forward: own = f(x)
  call mine.op.default(again)
  next: this is an operator of your own: bring its kernel with --operators FOLDER (docs/custom-operators.md), or replace it by ATen's with run_decompositions({op: function}) before saving
error TSC-O010: aten.neg.default takes 1 arguments, 2 given
  at wrong.json (node after_own)
  in File "model.py", line 12, in forward: after_own = f(x)
  call aten.neg.default(self=own, own)
  next: the form that tsc knows: aten.neg.default(Tensor self)
error TSC-O050: aten.sum.default yields torch.float32 [], the file says torch.float32 [3]
  at wrong.json (node contradiction)
  in File "model.py", line 13, in forward: contradiction = f(x)
  call aten.sum.default(self=x: float32[2, 3])
  next: correct the node's val, or leave it out
)");
  CHECK(driver::check(graph, {}).exit_code == support::ExitCode::bad_input);
}

TEST_CASE("what every pass refuses is in one report") {
  WrongGraph wrong;
  wrong.input("x", "float32", {2, 3}).input("row", "float32", {1, 3});
  wrong.input("empty", "float32", {2, 0}).input("c", "float8_e4m3fn", {2});
  wrong.call("wide", "aten.expand.default", {"$row", {2, 3}})
      .call("stored", "aten.zero_.default", {"$wide"})
      .call("larger", "aten.add_.Tensor", {"$row", "$x"})
      .call("padded", "aten.pad.default", {"$x", {1, 1}, "circle"})
      .call("most", "aten.amax.default", {"$empty", {1}})
      .call("conjugate", "aten.neg.default", {"$c"})
      .call("doubled", "aten.add.Tensor", {"$most", "$most"})
      .call("seen", "aten.view.default", {"$doubled", {5}});
  std::vector<std::string> found;
  for (const driver::Problem &problem :
       driver::check(wrong.graph({"stored", "larger", "padded", "conjugate", "seen"}), {}).problems)
    found.push_back(problem.diagnostic.code + " " + problem.diagnostic.node);
  // Functionalization (its first and its second problem), decomposition, lowering, kernels, shapes.
  CHECK(found == std::vector<std::string>{"TSC-O072 stored", "TSC-O047 larger", "TSC-O005 padded",
                                          "TSC-O062 most", "TSC-K001 conjugate", "TSC-O022 seen"});
}

TEST_CASE("an unsupported operator is one problem, with all its places") {
  WrongGraph wrong;
  wrong.input("x", "float32", {2, 3});
  std::string last = "$x";
  for (int i = 0; i < 8; ++i) {
    const std::string name = "call_" + std::to_string(i);
    wrong.call(name, "aten.unheard_of_thing.default", {last}, json::object(), kSmall);
    last = "$" + name;
  }
  const driver::CheckReport report = driver::check(wrong.graph({"call_7"}), {});
  CHECK(report.exit_code == support::ExitCode::unsupported);
  REQUIRE(report.problems.size() == 1);
  REQUIRE(report.problems[0].places.size() == 8);
  CHECK(report.problems[0].places[7].node == "call_7");
  const std::string text = driver::to_string(report.problems[0], "wrong.json");
  CHECK(text.find("(8 calls)\n") != std::string::npos);
  CHECK(text.find("  also at node call_4 in File \"model.py\", line 5, in forward: call_4 = f(x)\n"
                  "  also at 3 more nodes\n") != std::string::npos);
}

TEST_CASE("equal calls are all places of what lowering refuses") {
  WrongGraph wrong;
  wrong.input("c", "float8_e4m3fn", {2, 3});
  std::vector<std::string> outputs;
  for (int i = 0; i < 120; ++i) {
    outputs.push_back("call_" + std::to_string(i));
    wrong.call(outputs.back(), "aten.neg.default", {"$c"});
  }
  const driver::CheckReport report = driver::check(wrong.graph(outputs), {});
  REQUIRE(report.problems.size() == 1);
  CHECK(report.problems[0].places.size() == 120);
  CHECK(report.problems[0].diagnostic.next_step ==
        "convert the tensor to float32 or a 16-bit float first");
}

TEST_CASE("the next step of an unsupported operator is the best that is known") {
  const auto next_step = [](const std::string &target) {
    WrongGraph wrong;
    wrong.input("x", "float32", {2, 3}).call("y", target, {"$x"});
    return driver::check(wrong.graph({"y"}), {}).problems.at(0).diagnostic.next_step;
  };
  CHECK(next_step("aten._print.default") == "print outside of the model");
  CHECK(next_step("quantized.conv2d_relu.new") ==
        "quantized models are not compiled: export the floating model");
  CHECK(next_step("aten.pow.Complex") == "supported forms of it: aten.pow.Scalar, "
                                         "aten.pow.Tensor_Scalar, aten.pow.Tensor_Tensor");
  CHECK(next_step("aten.rsqqrt.default") ==
        "did you mean aten.rsqrt.default? docs/operators.md lists what is supported");
  CHECK(next_step("mine.op.default") == "this is an operator of your own: bring its kernel with "
                                        "--operators FOLDER (docs/custom-operators.md), or replace "
                                        "it by ATen's with run_decompositions({op: function}) "
                                        "before saving");
  CHECK(next_step("aten.unheard_of_thing.default") == "docs/operators.md lists what is supported");
}

TEST_CASE("frames inside of PyTorch are not the user's line") {
  WrongGraph wrong;
  wrong.input("x", "float32", {2, 3}).call("y", "aten.unheard_of_thing.default", {"$x"});
  graph::Graph graph = wrong.graph({"y"});
  graph.nodes[1].stack_trace = "  File \"my/model.py\", line 7, in forward\n    h = self.fc(x)\n"
                               "  File \"/venv/torch/nn/modules/linear.py\", line 134, in forward\n"
                               "    return F.linear(input, self.weight, self.bias)\n";
  CHECK(driver::check(graph, {}).problems.at(0).diagnostic.source_line ==
        "File \"my/model.py\", line 7, in forward: h = self.fc(x)");
  graph.nodes[1].stack_trace = "  File \"torch/nn/modules/linear.py\", line 134, in forward\n"
                               "    return F.linear(input, self.weight, self.bias)\n";
  CHECK(driver::check(graph, {}).problems.at(0).diagnostic.source_line ==
        "File \"torch/nn/modules/linear.py\", line 134, in forward: return F.linear(input, "
        "self.weight, self.bias)");
}

TEST_CASE("what a symbol decides is refused where a number is needed") {
  WrongGraph wrong;
  wrong.symbol("s0", 2, 64).input("x", "float32", {"s0", 4});
  wrong.call("parts", "aten.unbind.int", {"$x", 0})
      .call("part", "operator.getitem", {"$parts", 0})
      .call("chunks", "aten.split.Tensor", {"$x", 2})
      .call("chunk", "operator.getitem", {"$chunks", 0})
      .call("size", "aten.sym_size.int", {"$x", 0})
      .call("moved", "aten.transpose.int", {"$x", "$size", 0})
      .call("summed", "aten.sum.dim_IntList", {"$x", {"$size"}});
  CHECK(report_of(wrong.graph({"part", "chunk", "moved", "summed"})) ==
        R"(error TSC-O016: aten.unbind of a dimension of symbolic size s0
  at wrong.json (node parts)
  in File "model.py", line 1, in forward: parts = f(x)
  call aten.unbind.int(self=x: float32[s0, 4], dim=0)
  next: make the size of the dimension static
error TSC-O016: aten.split.Tensor: the number of parts, ((s0 + 1)//2), depends on a symbol
  at wrong.json (node chunks)
  in File "model.py", line 3, in forward: chunks = f(x)
  call aten.split.Tensor(self=x: float32[s0, 4], split_size=2)
  next: make the size of the dimension static
error TSC-O016: aten.transpose.int: argument 'dim0' is 's0', a number is needed
  at wrong.json (node moved)
  in File "model.py", line 6, in forward: moved = f(x)
  call aten.transpose.int(self=x: float32[s0, 4], dim0=size, dim1=0)
  next: make this value static when exporting
error TSC-O016: aten.sum.dim_IntList: argument 'dim' holds 's0', numbers are needed
  at wrong.json (node summed)
  in File "model.py", line 7, in forward: summed = f(x)
  call aten.sum.dim_IntList(self=x: float32[s0, 4], dim=[size])
  next: make this value static when exporting
)");
}

TEST_CASE("every recorded case passes the check and the pipeline") {
  size_t count = 0;
  for (const std::string &family : testing::case_families()) {
    for (const json &one : json::parse(testing::read_case_files(family).graphs)) {
      const std::string name = one.at("name");
      INFO(family << "/" << name);
      CHECK(report_of(graph::parse_graph(one.at("model").dump(), name)) == "");
      ++count;
    }
  }
  CHECK(count > 300);
}

namespace {

/// Breaks one call, as a slip in a file or another version of PyTorch would.
void break_one(graph::Graph &graph, std::mt19937 &random) {
  const auto pick = [&](size_t count) { return static_cast<size_t>(random() % count); };
  std::vector<graph::NodeId> calls;
  for (graph::NodeId id = 0; id < graph.nodes.size(); ++id)
    if (graph.node(id).kind == graph::NodeKind::call_function && !graph.node(id).args.empty())
      calls.push_back(id);
  if (calls.empty())
    return;
  graph::Node &node = graph.nodes[calls[pick(calls.size())]];
  graph::Argument &argument = node.args[pick(node.args.size())];
  const std::vector<graph::Argument> others = {
      graph::None{},
      true,
      -7,
      3,
      0.5,
      "text",
      tensor::DType::i64,
      graph::Argument::List{},
      graph::Argument::List{graph::Argument(2), graph::Argument(-1)}};
  const auto flip = [&](tensor::DType dtype) {
    return dtype == tensor::DType::f32 ? tensor::DType::c64 : tensor::DType::f32;
  };
  static const char *const kTargets[] = {
      "aten.add.Tensor",  "aten.neg.default",       "aten.mm.default",
      "aten.glu.default", "aten.view.default",      "aten.permute.default",
      "aten.cat.default", "aten.sum.dim_IntList",   "aten.gather.default",
      "aten.softmax.int", "aten.embedding.default", "aten.expp.default"};
  switch (pick(7)) {
  case 0:
    node.args.pop_back();
    break;
  case 1:
    node.args.push_back(others[pick(others.size())]);
    break;
  case 2:
    argument = others[pick(others.size())];
    break;
  case 3:
    node.target = kTargets[pick(std::size(kTargets))];
    break;
  case 4:
    node.kwargs.emplace_back("dim", 1);
    break;
  case 5: // as it was
    break;
  default: // an input of another dtype or shape, with all that follows
    for (graph::Node &input : graph.nodes) {
      graph::TensorMeta *meta =
          input.value ? std::get_if<graph::TensorMeta>(&input.value->value) : nullptr;
      if (!meta || input.kind != graph::NodeKind::placeholder)
        continue;
      if (random() % 2)
        meta->dtype = flip(meta->dtype);
      else if (meta->layout.rank() > 0)
        meta->layout = tensor::contiguous_layout({5});
      break;
    }
  }
}

} // namespace

TEST_CASE("the check accepts exactly what the pipeline accepts") {
  std::mt19937 random(1);
  size_t refused = 0, accepted = 0;
  for (const std::string &family : testing::case_families()) {
    const json cases = json::parse(testing::read_case_files(family).graphs);
    for (int i = 0; i < 25; ++i) {
      const json &one = cases[random() % cases.size()];
      graph::Graph graph = graph::parse_graph(one.at("model").dump(), one.at("name"));
      break_one(graph, random);
      std::string report, refusal;
      try {
        report = report_of(graph);
        refusal = refusal_of(graph);
      } catch (const std::exception &fault) {
        FAIL_CHECK(family << "/" << one.at("name") << " (" << i << "): " << fault.what() << "\n"
                          << graph::to_text(graph));
        continue;
      }
      INFO(family << "/" << one.at("name").get<std::string>() << " (" << i << ")\n"
                  << graph::to_text(graph) << "\nreport: " << report << "\nrefusal: " << refusal);
      CHECK(report.empty() == refusal.empty());
      ++(refusal.empty() ? accepted : refused);
    }
  }
  CHECK(refused > 100);
  CHECK(accepted > 20);
}
