#include "files.h"
#include "graph/read.h"
#include "testing/catch.h"

using namespace tsc::graph;
using tsc::testing::file_text;
using tsc::testing::source_path;

TEST_CASE("the FX text of every exported anchor is PyTorch's, byte for byte") {
  for (const char *name : {"seed_sum", "seed_mm_chain", "seed_add_sum", "softmax", "layernorm_gelu",
                           "mlp_gelu", "gpt2"}) {
    INFO(name);
    std::string folder = std::string("graphs/anchors/") + name;
    Graph graph = read_graph(
        source_path(folder + (std::string(name) == "gpt2" ? "/model.pt2" : "/model.json")));
    CHECK(to_text(graph) == file_text(folder + "/graph.txt"));
  }
}

TEST_CASE("the FX text of an archive is what torch.export.load gives") {
  for (const char *name : {"tiny", "branch"}) {
    INFO(name);
    std::string path = std::string("tests/graph/data/") + name;
    CHECK(to_text(read_graph(source_path(path + ".pt2"))) == file_text(path + ".txt"));
  }
}

TEST_CASE("a node that uses another twice is one user") {
  Graph graph = parse_graph(R"({"format": "tsc-graph", "version": 1, "nodes": [
    {"name": "x", "op": "placeholder", "val": {"dtype": "float32", "size": [2]}},
    {"name": "a", "op": "call_function", "target": "aten.add.Tensor", "args": [{"node": "x"}, {"node": "x"}]},
    {"name": "output", "op": "output", "args": [[{"node": "a"}, {"node": "x"}]]}]})",
                            "g");
  CHECK(count_users(graph) == std::vector<uint32_t>{2, 1, 0});
}

TEST_CASE("arguments print as Python prints them") {
  Graph graph =
      parse_graph(R"({"format": "tsc-graph", "version": 1, "symbols": {"s0": [1, null]}, "nodes": [
    {"name": "x", "op": "placeholder", "val": {"dtype": "float32", "size": ["s0"]}},
    {"name": "f", "op": "call_function", "target": "aten.f.default",
     "args": [null, true, -3, 1.0, 1e-05, {"float": "inf"}, "tanh", {"expr": "2*s0"}, [{"node": "x"}, null], []],
     "kwargs": {"dtype": {"dtype": "bfloat16"}, "layout": {"layout": "strided"}, "device": {"device": "cuda:1"},
                "memory_format": {"memory_format": "channels_last"}}},
    {"name": "g", "op": "call_function", "target": "operator.getitem", "args": [{"node": "f"}, 0]},
    {"name": "output", "op": "output", "args": [[{"node": "g"}, "s", 2, null, 0.5]]}]})",
                  "g");
  CHECK(to_text(graph) ==
        "graph():\n"
        "    %x : [num_users=1] = placeholder[target=x]\n"
        "    %f : [num_users=1] = call_function[target=torch.ops.aten.f.default](args = (None, "
        "True, -3, 1.0, "
        "1e-05, inf, tanh, 2*s0, [%x, None], []), kwargs = {dtype: torch.bfloat16, layout: "
        "torch.strided, "
        "device: cuda:1, memory_format: torch.channels_last})\n"
        "    %g : [num_users=1] = call_function[target=operator.getitem](args = (%f, 0), kwargs = "
        "{})\n"
        "    return (g, 's', 2, None, 0.5)");
}
