// verify, diff, --shapes, and graphs and tensors through standard streams.
#include "tsc_process.h"

#include "testing/catch.h"

#include <nlohmann/json.hpp>

#include <string>

using namespace tsc;
using testing::Outcome;
using testing::sample;
using testing::Workplace;

namespace {

/// An operator of the user's whose text for GPUs is wrong by a factor, and its host function is
/// not.
void write_wrong_operator(const Workplace &place) {
  CHECK(place.run_after("mkdir operators", {"--version"}).exit_code == 0);
  place.file("operators/twice.cu", "__global__ void twice(const float *x, float *y, int n) {\n"
                                   "  const int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
                                   "  if (i < n)\n    y[i] = x[i] * 2.5f;\n}\n");
  place.file("operators/twice.cpp", "extern \"C\" void twice(const float *x, float *y, int n) {\n"
                                    "  for (int i = 0; i < n; ++i)\n    y[i] = x[i] * 2;\n}\n");
  place.file("operators/twice.json", R"row({
    "schema": "mine::twice(Tensor x) -> Tensor", "results": [{"dtype": "x", "sizes": "x"}],
    "cuda": {"file": "twice.cu", "function": "twice", "arguments": ["x", "out", "int x.numel()"],
             "grid": ["ceil_div(x.numel(), 128)"], "block": [128]},
    "host": {"file": "twice.cpp", "function": "twice",
             "arguments": ["x", "out", "int x.numel()"]}})row");
}

const char *kGraph = R"({"format": "tsc-graph", "version": 1, "nodes": [
  {"name": "x", "op": "placeholder", "val": {"dtype": "float32", "size": [6, 8]}},
  {"name": "a", "op": "call_function", "target": "aten.exp.default", "args": [{"node": "x"}]},
  {"name": "b", "op": "call_function", "target": "aten.sin.default", "args": [{"node": "a"}]},
  {"name": "bad", "op": "call_function", "target": "mine.twice.default", "args": [{"node": "b"}],
   "stack_trace": "  File \"model.py\", line 9, in forward\n    y = twice(b)\n"},
  {"name": "c", "op": "call_function", "target": "aten.cos.default", "args": [{"node": "bad"}]},
  {"name": "d", "op": "call_function", "target": "aten.add.Tensor",
   "args": [{"node": "c"}, {"node": "a"}]},
  {"name": "output", "op": "output", "args": [[{"node": "d"}]]}],
  "signature": {"inputs": [{"node": "x", "kind": "user"}],
                "outputs": [{"kind": "user", "value": {"node": "d"}}],
                "structure": {"dict": [["scaled", "*"]]}}})";

const char *kDynamic = R"({"format": "tsc-graph", "version": 1,
  "symbols": {"batch": [2, 64], "seq": [1, null]}, "nodes": [
  {"name": "x", "op": "placeholder", "val": {"dtype": "float32", "size": ["batch", "seq"]}},
  {"name": "a", "op": "call_function", "target": "aten.exp.default", "args": [{"node": "x"}]},
  {"name": "output", "op": "output", "args": [[{"node": "a"}]]}],
  "signature": {"inputs": [{"node": "x", "kind": "user"}],
                "outputs": [{"kind": "user", "value": {"node": "a"}}]}})";

} // namespace

TEST_CASE("verify agrees with itself, and names the first node that differs") {
  Workplace place;
  const Outcome good = place.run({"verify", sample("seed_002.json"), "--device=host"});
  CHECK(good.exit_code == 0);
  CHECK(good.err == "");
  CHECK(good.out.rfind("output_0: agrees, relative error ", 0) == 0);

  write_wrong_operator(place);
  place.file("g.json", kGraph);
  const std::vector<std::string> words = {"verify", "g.json", "--operators=operators",
                                          "--device=host", "--plan=cuda"};
  const Outcome wrong = place.run(words);
  INFO(wrong.out << wrong.err);
  CHECK(wrong.exit_code == 1);
  CHECK(wrong.out.rfind("output_0: DIFFERS, ", 0) == 0);
  CHECK(wrong.out.find("the first node that differs is bad, mine.twice.default (") !=
        std::string::npos);
  CHECK(wrong.out.find("  in File \"model.py\", line 9, in forward: y = twice(b)\n") !=
        std::string::npos);
  std::vector<std::string> as_json = words;
  as_json.emplace_back("--json");
  const nlohmann::json report = nlohmann::json::parse(place.run(as_json).out);
  CHECK(report.at("agrees") == false);
  CHECK(report.at("first_wrong").at("node") == "bad");
  CHECK(report.at("parts_run") == 3); // of five nodes: all, and two halves
}

TEST_CASE("diff tells which kernels two programs share") {
  Workplace place;
  const std::string graph = sample("anchors/softmax/model.json");
  const nlohmann::json same =
      nlohmann::json::parse(place.run({"diff", graph, graph, "--json"}).out);
  CHECK(same.at("changes").empty());
  CHECK(same.at("same_kernels") == same.at("before").at("kernels"));
  CHECK(same.at("before") == same.at("after"));
  CHECK(same.at("before").at("bytes") > 0);
  REQUIRE(place.run({"compile", graph, "-o", "apart", "--policy-option", "max_fusion_size=1"})
              .exit_code == 0);
  const nlohmann::json apart =
      nlohmann::json::parse(place.run({"diff", graph, "apart", "--json"}).out);
  CHECK(apart.at("after").at("launches") > apart.at("before").at("launches"));
  CHECK(apart.at("after").at("bytes") > apart.at("before").at("bytes"));
  CHECK(apart.at("changes").size() > 1);
  const Outcome text = place.run({"diff", graph, "apart"});
  CHECK(text.exit_code == 0);
  CHECK(text.out.find("\nlaunches ") != std::string::npos);
  const Outcome none = place.run({"diff", graph, "apart", "--arch=sm_80"});
  CHECK(none.exit_code == 2);
  CHECK(none.err == "error TSC-C030: what was compiled has no plan for sm_80\n  at apart\n"
                    "  next: it has plans for sm_90\n");
}

TEST_CASE("sizes of symbols are chosen by their names") {
  Workplace place;
  place.file("g.json", kDynamic);
  const Outcome run = place.run({"run", "g.json", "--device=host", "--inputs=random",
                                 "--shapes=batch=3,seq=5", "--outputs=y.npz"});
  INFO(run.err);
  REQUIRE(run.exit_code == 0);
  CHECK(tensor::read_tensors(place.path("y.npz")).at("output_0").sizes() ==
        std::vector<int64_t>{3, 5});
  CHECK(place.run({"check", "g.json", "--shapes=batch=3"}).exit_code == 0);
  CHECK(place.run({"explain", "g.json", "--shapes=batch=3"}).exit_code == 0);
  const Outcome unknown = place.run({"run", "g.json", "--shapes=bath=3,seq=0"});
  CHECK(unknown.exit_code == 2);
  CHECK(unknown.err == "error TSC-C027: no size of the graph is called 'bath'\n"
                       "  next: the graph has batch (2 to 64), seq (1 to any)\n"
                       "error TSC-C028: seq=0 is not in its range, 1 to any\n"
                       "  next: the graph has batch (2 to 64), seq (1 to any)\n");
  const Outcome malformed = place.run({"explain", "g.json", "--shapes=batch"});
  CHECK(malformed.exit_code == 2);
  CHECK(malformed.err == "error TSC-C026: 'batch' gives no size to a name\n"
                         "  next: write each name once, as in --shapes batch=8,seq=512\n");
}

TEST_CASE("a hyphen is standard input, or standard output") {
  Workplace place;
  place.file("g.json", kDynamic);
  CHECK(place.run_after("exec < g.json", {"check", "-"}).out == "-: 3 nodes, no problems\n");
  const Outcome run =
      place.run({"run", "g.json", "--device=host", "--inputs=random:3", "--outputs=-"});
  CHECK(run.exit_code == 0);
  CHECK(run.err.rfind("device: host\n", 0) == 0);
  place.file("y.safetensors", run.out);
  CHECK(tensor::read_tensors(place.path("y.safetensors")).at("output_0").sizes() ==
        std::vector<int64_t>{8, 8});
}
