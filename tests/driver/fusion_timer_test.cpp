// Kernels timed on the host, and fusion that follows those times.
#include "driver/compile.h"
#include "driver/fusion_timer.h"
#include "graph/read.h"
#include "support/diagnostic.h"
#include "target/target.h"
#include "testing/catch.h"

using namespace tsc;

namespace {

graph::Graph graph_of(const std::string &inputs, const std::string &nodes,
                      const std::string &outputs, const std::string &symbols = "") {
  return graph::parse_graph(
      R"({"format": "tsc-graph", "version": 1, )" + symbols + R"("nodes": [)" + inputs + ", " +
          nodes + R"(, {"name": "output", "op": "output", "args": [[)" + outputs + "]]}]}",
      "timed");
}
std::string input(const std::string &name, const std::string &dtype, const std::string &sizes) {
  return R"({"name": ")" + name + R"(", "op": "placeholder", "val": {"dtype": ")" + dtype +
         R"(", "size": )" + sizes + "}}";
}
std::string node(const std::string &name, const std::string &target, const std::string &args) {
  return R"({"name": ")" + name + R"(", "op": "call_function", "target": ")" + target +
         R"(", "args": )" + args + "}";
}
std::string reference(const std::string &name) { return R"({"node": ")" + name + "\"}"; }

scheduler::Schedule only(const scheduler::Schedule &schedule, size_t index) {
  scheduler::Schedule result;
  result.groups = {schedule.groups.at(index)};
  for (scheduler::NodeId &member : result.groups[0].members) {
    result.nodes.push_back(schedule.nodes[member]);
    member = static_cast<scheduler::NodeId>(result.nodes.size() - 1);
  }
  return result;
}

driver::Compilation compile(graph::Graph graph, const std::string &device = "") {
  driver::CompileOptions options;
  options.benchmark_fusion = device;
  return driver::compile(std::move(graph), options);
}

std::optional<double> time_of(const driver::Compilation &compilation, size_t group = 0) {
  const auto timer = driver::make_fusion_timer(compilation.module, target::find_target("sm_90"),
                                               driver::timing_device("host"));
  return timer(only(compilation.schedule, group));
}

} // namespace

TEST_CASE("a group is timed once, and so is one that does the same to other buffers") {
  // Two products keep two equal kernels apart; a third kernel does something else.
  const driver::Compilation compilation = compile(graph_of(
      input("x", "float64", "[64, 64]"),
      node("a", "aten.exp.default", "[" + reference("x") + "]") + ", " +
          node("p", "aten.mm.default", "[" + reference("a") + ", " + reference("a") + "]") + ", " +
          node("b", "aten.exp.default", "[" + reference("p") + "]") + ", " +
          node("q", "aten.mm.default", "[" + reference("b") + ", " + reference("b") + "]") + ", " +
          node("c", "aten.sin.default", "[" + reference("q") + "]"),
      reference("c")));
  const scheduler::Schedule &schedule = compilation.schedule;
  REQUIRE(schedule.groups.size() == 5);
  const auto timer = driver::make_fusion_timer(compilation.module, target::find_target("sm_90"),
                                               driver::timing_device("host"));
  const auto first = timer(only(schedule, 0));
  REQUIRE(first);
  CHECK(*first > 0);
  CHECK(timer(only(schedule, 0)) == first);
  CHECK(timer(only(schedule, 2)) == first); // the very same number: it did not run again
  CHECK(timer(only(schedule, 4)) != first);
}

TEST_CASE("larger kernels take longer") {
  const auto time = [](const std::string &sizes) {
    return *time_of(compile(graph_of(input("x", "float32", sizes),
                                     node("a", "aten.sin.default", "[" + reference("x") + "]"),
                                     reference("a"))));
  };
  CHECK(time("[2048, 2048]") > 4 * time("[16, 16]")); // 16384 times the work
}

TEST_CASE("rows that an index picks are timed with indices in range") {
  const driver::Compilation compilation = compile(
      graph_of(input("table", "float32", "[7, 64]") + ", " + input("rows", "int64", "[100]"),
               node("e", "aten.embedding.default",
                    "[" + reference("table") + ", " + reference("rows") + "]"),
               reference("e")));
  CHECK(time_of(compilation).has_value());
}

TEST_CASE("no inputs are made up for indices that are computed, random numbers and symbols") {
  const driver::Compilation computed = compile(
      graph_of(input("table", "float32", "[7, 64]") + ", " + input("rows", "int64", "[100]"),
               node("r", "aten.add.Tensor", "[" + reference("rows") + ", 1]") + ", " +
                   node("e", "aten.embedding.default",
                        "[" + reference("table") + ", " + reference("r") + "]"),
               reference("e")));
  CHECK_FALSE(time_of(computed).has_value());
  const driver::Compilation random = compile(
      graph_of(input("x", "float32", "[64]"),
               node("r", "aten.rand_like.default", "[" + reference("x") + "]"), reference("r")));
  CHECK_FALSE(time_of(random).has_value());
  const driver::Compilation symbolic = compile(graph_of(
      input("x", "float32", R"(["s0"])"), node("a", "aten.sin.default", "[" + reference("x") + "]"),
      reference("a"), R"("symbols": {"s0": [2, 100]}, )"));
  CHECK_FALSE(time_of(symbolic).has_value());
}

TEST_CASE("a graph is scheduled by what the host's clock says") {
  const auto nodes = node("e", "aten.exp.default", "[" + reference("x") + "]") + ", " +
                     node("n", "aten.neg.default", "[" + reference("x") + "]");
  for (const std::string device : {"host", "host-cuda"}) {
    const driver::Compilation compilation =
        compile(graph_of(input("x", "float32", "[256, 256]"), nodes,
                         reference("e") + ", " + reference("n")),
                device);
    REQUIRE(!compilation.schedule.decisions.empty());
    for (const scheduler::FusionDecision &decision : compilation.schedule.decisions) {
      INFO(decision.detail);
      CHECK(decision.detail.find(" ns as one kernel, ") != std::string::npos);
      CHECK((decision.refusal == scheduler::Refusal::none ||
             decision.refusal == scheduler::Refusal::slower));
    }
  }
}

TEST_CASE("fusions are timed on a GPU only where there is one") {
  std::string why;
  if (runtime::cuda_available(&why)) {
    CHECK(driver::timing_device("cuda").device == runtime::DeviceKind::cuda);
    return;
  }
  try {
    driver::timing_device("cuda");
    FAIL("there is no GPU");
  } catch (const support::UserError &error) {
    CHECK(error.exit_code() == support::ExitCode::device);
    CHECK(support::to_string(error.diagnostics().at(0)) ==
          "error TSC-C015: fusions cannot be timed on a GPU: " + why +
              "\n  next: compile where the GPU is, or leave --benchmark-fusion out");
  }
}
