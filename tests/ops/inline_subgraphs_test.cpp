#include "../graph/files.h"
#include "graph/read.h"
#include "ops/passes/inline_subgraphs.h"
#include "sample_graph.h"
#include "support/diagnostic.h"
#include "testing/catch.h"

using namespace tsc;
using namespace tsc::graph;
using ops::inline_subgraphs;
using support::UserError;
using testing::source_path;

namespace {

Graph recorded(const std::string &version, const std::string &name) {
  return read_graph(source_path("tests/graph/data/" + version + "/" + name + ".pt2"));
}

size_t count(const std::string &text, const std::string &part) {
  size_t found = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1))
    ++found;
  return found;
}

/// x -> WRAPPER(ARGUMENTS) -> getitem INDEX; the subgraph "body" is sin of its one input.
std::string wrapped(const std::string &target, const std::string &arguments,
                    const std::string &index = "0") {
  const std::string text = R"json({"format": "tsc-graph", "version": 1,
    "subgraphs": {"body": {"nodes": [
      {"name": "a", "op": "placeholder", "val": {"dtype": "float32", "size": [3]}},
      {"name": "sin", "op": "call_function", "target": "aten.sin.default", "args": [{"node": "a"}]},
      {"name": "output", "op": "output", "args": [[{"node": "sin"}]]}]}},
    "nodes": [
      {"name": "x", "op": "placeholder", "val": {"dtype": "float32", "size": [3]}},
      {"name": "body", "op": "get_attr", "target": "body"},
      {"name": "w", "op": "call_function", "target": "@TARGET", "args": [@ARGUMENTS],
       "stack_trace": "File \"m.py\", line 3, in forward\n    y = f(x)"},
      {"name": "g", "op": "call_function", "target": "operator.getitem", "args": [{"node": "w"}, @INDEX],
       "stack_trace": "File \"m.py\", line 4, in forward\n    z = y[0]"},
      {"name": "output", "op": "output", "args": [[{"node": "g"}]]}]})json";
  return testing::replaced(
      testing::replaced(testing::replaced(text, "@TARGET", target), "@ARGUMENTS", arguments),
      "@INDEX", index);
}

std::string report(const std::string &json) {
  try {
    inline_subgraphs(parse_graph(json, "g.json"), {});
  } catch (const UserError &error) {
    return error.what();
  }
  return "nothing";
}

} // namespace

TEST_CASE("the wrappers that only set a mode vanish, each with its own arguments") {
  const char *forms[][2] = {
      {"higher_order.wrap_with_set_grad_enabled", R"(false, {"node": "body"}, {"node": "x"})"},
      {"higher_order.wrap_with_autocast",
       R"("cpu", {"dtype": "bfloat16"}, true, false, {"node": "body"}, {"node": "x"})"},
      {"higher_order.wrap", R"({"graph": "body"}, {"node": "x"})"},
      {"higher_order.tag_activation_checkpoint", R"({"node": "body"}, {"node": "x"})"},
      {"higher_order.invoke_subgraph", R"({"node": "body"}, "body_0", {"node": "x"})"},
      {"higher_order.hints_wrapper",
       R"({"node": "body"}, [{"node": "x"}], {"dict": {}}, {"dict": {}})"},
      {"higher_order.strict_mode", R"({"node": "body"}, [{"node": "x"}])"}};
  for (const auto &form : forms) {
    INFO(form[0]);
    Graph graph = inline_subgraphs(parse_graph(wrapped(form[0], form[1]), "g.json"), {});
    CHECK(to_text(graph) ==
          "graph():\n"
          "    %x : [num_users=1] = placeholder[target=x]\n"
          "    %sin : [num_users=1] = call_function[target=torch.ops.aten.sin.default](args = "
          "(%x,), kwargs = {})\n"
          "    return (sin,)");
    CHECK(graph.subgraphs.empty());
    CHECK(graph.nodes[1].stack_trace == "File \"m.py\", line 3, in forward\n    y = f(x)");
  }
}

TEST_CASE("what PyTorch 2.8 to 2.11 write of modes is inlined, with the casts of autocast") {
  for (const char *version : {"2.8", "2.9", "2.10", "2.11"})
    for (const char *name : {"modes", "modes_nested"}) {
      if (std::string(name) == "modes_nested" && std::string(version) != "2.8" &&
          std::string(version) != "2.11")
        continue; // not recorded
      INFO(version << " " << name);
      Graph graph = inline_subgraphs(recorded(version, name), {});
      CHECK(to_text(graph).find("higher_order") == std::string::npos);
      CHECK(graph.subgraphs.empty());
      // infer_shapes compares every result with what the file records.
      Graph lowered = ops::run_graph_passes(std::move(graph), {}, nullptr);
      CHECK_FALSE(lowered.nodes.empty());
    }
  // linear(y) takes three casts, y.t() another; cat promotes as it does outside.
  std::string text = to_text(inline_subgraphs(recorded("2.11", "modes"), {}));
  INFO(text);
  CHECK(count(text, "prims.convert_element_type.default](args = (%mul_1, torch.bfloat16)") == 1);
  CHECK(count(text,
              "prims.convert_element_type.default](args = (%p_linear_weight, torch.bfloat16)") ==
        1);
  CHECK(count(text,
              "prims.convert_element_type.default](args = (%p_linear_bias, torch.bfloat16)") == 1);
  CHECK(count(text, "prims.convert_element_type") == 4);
}

TEST_CASE("subgraphs of what is inlined keep their own graphs") {
  // Two regions, each with a branch of its own that is called body.
  std::string region = R"({
    "subgraphs": {"body": {"nodes": [
      {"name": "a", "op": "placeholder", "val": {"dtype": "float32", "size": [3]}},
      {"name": "f", "op": "call_function", "target": "aten.@.default", "args": [{"node": "a"}]},
      {"name": "output", "op": "output", "args": [[{"node": "f"}]]}]}},
    "nodes": [
      {"name": "a", "op": "placeholder", "val": {"dtype": "float32", "size": [3]}},
      {"name": "body", "op": "get_attr", "target": "body"},
      {"name": "m", "op": "call_function", "target": "higher_order.other", "args": [{"node": "body"}, [{"node": "a"}]]},
      {"name": "output", "op": "output", "args": [[{"node": "m"}]]}]})";
  std::string json = R"({"format": "tsc-graph", "version": 1, "subgraphs": {"first": )" +
                     testing::replaced(region, "@", "sin") + R"(, "second": )" +
                     testing::replaced(region, "@", "cos") + R"(}, "nodes": [
      {"name": "x", "op": "placeholder", "val": {"dtype": "float32", "size": [3]}},
      {"name": "w", "op": "call_function", "target": "higher_order.wrap", "args": [{"graph": "first"}, {"node": "x"}]},
      {"name": "v", "op": "call_function", "target": "higher_order.wrap", "args": [{"graph": "second"}, {"node": "x"}]},
      {"name": "output", "op": "output", "args": [[{"node": "w"}, {"node": "v"}]]}]})";
  Graph graph = inline_subgraphs(parse_graph(json, "g.json"), {});
  REQUIRE(graph.subgraphs.size() == 2);
  CHECK(graph.subgraphs.at("body").nodes[1].target == "aten.sin.default");
  CHECK(graph.subgraphs.at("body_1").nodes[1].target == "aten.cos.default");
  CHECK(to_text(graph).find("%body_1 : [num_users=1] = get_attr[target=body_1]") !=
        std::string::npos);
}

TEST_CASE("wrappers inside of graphs that stay are inlined there") {
  for (const char *version : {"2.8", "2.11"}) {
    Graph graph = inline_subgraphs(recorded(version, "branches"), {});
    CHECK(graph.subgraphs.size() == 4);
    CHECK(graph.subgraphs.at("true_graph_0").subgraphs.size() == 2);
  }
  std::string json = testing::replaced(
      wrapped("higher_order.other", R"({"node": "body"}, [{"node": "x"}])"),
      R"({"name": "sin", "op": "call_function", "target": "aten.sin.default", "args": [{"node": "a"}]})",
      R"({"name": "inner", "op": "call_function", "target": "higher_order.wrap", "args": [{"graph": "deep"}, {"node": "a"}]},
         {"name": "sin", "op": "call_function", "target": "operator.getitem", "args": [{"node": "inner"}, 0]})");
  json = testing::replaced(json, R"({"body": {"nodes": [)",
                           R"({"body": {"subgraphs": {"deep": {"nodes": [
      {"name": "a", "op": "placeholder", "val": {"dtype": "float32", "size": [3]}},
      {"name": "cos", "op": "call_function", "target": "aten.cos.default", "args": [{"node": "a"}]},
      {"name": "output", "op": "output", "args": [[{"node": "cos"}]]}]}}, "nodes": [)");
  Graph graph = inline_subgraphs(parse_graph(json, "g.json"), {});
  CHECK(to_text(graph.subgraphs.at("body")) ==
        "graph():\n"
        "    %a : [num_users=1] = placeholder[target=a]\n"
        "    %cos : [num_users=1] = call_function[target=torch.ops.aten.cos.default](args = (%a,), "
        "kwargs = {})\n"
        "    return (cos,)");
}

TEST_CASE("wrappers that contradict their subgraphs") {
  CHECK(
      report(wrapped("higher_order.wrap", R"({"node": "body"}, {"node": "x"}, {"node": "x"})")) ==
      "error TSC-O010: higher_order.wrap takes 1 arguments for its subgraph, 2 given\n  at node w\n"
      "  in File \"m.py\", line 3, in forward: y = f(x)\n"
      "  next: export the graph again with a PyTorch between 2.8 and 2.11");
  CHECK(report(wrapped("higher_order.wrap", R"({"node": "body"}, {"node": "x"})", "1"))
            .find("error TSC-O046: operator.getitem: index 1 of 1 results") == 0);
  CHECK(report(wrapped("higher_order.wrap", R"({"node": "body"}, {"node": "x"})", "\"a\""))
            .find("error TSC-O046: operator.getitem: index that is no integer of 1 results") == 0);
  // Without a subgraph it is an operator like any other, which check_operators refuses.
  CHECK(report(wrapped("higher_order.wrap", R"({"node": "x"})")) == "nothing");
}
