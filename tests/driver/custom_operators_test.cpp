// Operators that the user brings: what is said of wrong rows and calls, the two worked examples of
// docs/custom-operators.md, and what is fused around them.
#include "custom_folder.h"
#include "wrong_graph.h"

#include "driver/check.h"
#include "driver/expected.h"
#include "driver/inputs.h"
#include "driver/operators_folder.h"
#include "driver/reference.h"
#include "graph/read.h"
#include "runtime/session.h"
#include "testing/catch.h"

#include <algorithm>

using namespace tsc;
using nlohmann::json;
using testing::CustomFolder;
using testing::WrongGraph;

namespace {

const std::string kExamples = std::string(TSC_SOURCE_DIR) + "/graphs/custom_operators/";

/// "TSC-O203 /cuda/grid/0" of each problem.
std::vector<std::string> codes_of(const CustomFolder &folder) {
  std::vector<std::string> codes;
  try {
    driver::read_operators(folder.path());
  } catch (const support::UserError &error) {
    for (const support::Diagnostic &problem : error.diagnostics())
      codes.push_back(problem.code + " " + problem.place);
  }
  return codes;
}
std::string report_of(const CustomFolder &folder) {
  try {
    driver::read_operators(folder.path());
  } catch (const support::UserError &error) {
    return error.what();
  }
  return "";
}

/// What compiling says of one call, "" if nothing: "TSC-O210 MESSAGE".
std::string refusal_of(const CustomFolder &folder, const WrongGraph &graph,
                       const std::string &arch = "sm_90") {
  driver::CompileOptions options;
  options.operators = driver::read_operators(folder.path());
  options.arch = arch;
  try {
    driver::compile(graph.graph({"y"}), options);
  } catch (const support::UserError &error) {
    const support::Diagnostic &first = error.diagnostics().front();
    return first.code + " " + first.message;
  }
  return "";
}

driver::Compilation compile_example(const std::string &name, const std::string &arch) {
  driver::CompileOptions options;
  options.operators = driver::read_operators(kExamples + "operators");
  options.arch = arch;
  return driver::compile(graph::read_graph(kExamples + name + "/model.pt2"), options);
}

std::vector<tensor::HostTensor> run(const driver::Compilation &compilation,
                                    const std::string &device,
                                    const std::vector<tensor::HostTensor> &inputs) {
  if (device == "reference")
    return driver::run_reference(compilation, inputs, compilation.graph.weights);
  runtime::SessionOptions options;
  options.plan = device == "host" ? runtime::Plan::serial : runtime::Plan::cuda;
  return runtime::Session::create(compilation.program, compilation.graph.weights, options)
      ->run(inputs);
}

void check_example(const std::string &name, int runs) {
  for (const std::string arch : {"host", "sm_90"}) {
    const driver::Compilation compilation = compile_example(name, arch);
    for (const std::string device : {"reference", "host", "host-cuda"})
      for (int i = 0; i < runs; ++i) {
        const std::string file = kExamples + name + "/inputs_" + std::to_string(i) + ".safetensors";
        const auto outputs =
            run(compilation, device, driver::load_inputs(compilation.program, {file}, {}));
        for (const driver::OutputAgreement &one : driver::compare_with_file(
                 compilation.program, outputs,
                 kExamples + name + "/expected_" + std::to_string(i) + ".safetensors")) {
          INFO(name << " " << i << " " << one.name << " on " << device << ", planned for " << arch
                    << ": " << one.agreement.reason);
          CHECK(one.agreement.ok);
        }
      }
  }
}

/// x of [n, 3] -> twice(x + 1) * 2, n a symbol from `low` on.
WrongGraph twice_of(int64_t low = 2, int64_t high = 1000) {
  WrongGraph graph;
  graph.symbol("n", low, high)
      .input("x", "float32", {"n", 3})
      .call("a", "aten.add.Tensor", {"$x", 1})
      .call("t", "mine.twice.default", {"$a"})
      .call("y", "aten.mul.Tensor", {"$t", 2});
  return graph;
}

} // namespace

TEST_CASE("wkv, sequential over time, is what PyTorch computes, of sizes that are symbols") {
  check_example("wkv", 3);
}
TEST_CASE("the fused rope is what PyTorch computes") { check_example("fused_rope", 1); }

TEST_CASE("what stands around a custom operator is fused among itself") {
  const driver::Compilation compilation = compile_example("wkv", "sm_90");
  size_t launches = 0, own = 0;
  for (const program::Step &step : compilation.program.steps)
    if (const auto *launch = std::get_if<program::Launch>(&step.kind)) {
      ++launches;
      own += compilation.program.kernels[launch->kernel].plan == "rwkv::wkv of wkv.cu";
    }
  CHECK(own == 1);
  CHECK(launches == 4); // layer norm; wkv; sigmoid and product; sum with x
}

TEST_CASE("all problems of a folder of operators are in one report") {
  CustomFolder folder;
  folder.row("a_keys", [](json &row) {
    row["sizes"] = 1;
    row["cuda"]["blok"] = {1};
    row["cuda"].erase("block");
    row["cuda"]["file"] = "../twice.cu";
    row["host"]["file"] = "nothing.cpp";
    row["inputs"] = {{"x", {{"layout", "dense"}, {"rank", -1}, {"dtypes", {"real"}}}}};
  });
  folder.row("b_expressions", [](json &row) {
    row["schema"] = "mine::b(Tensor x, int n=1, float f=0.5) -> Tensor";
    row["require"] = {"x.size(0)", "x.size(0) == m", "f > 1"};
    row["results"] = {{{"dtype", "x"}, {"sizes", {"x.size(0) / 2", "x.sice(0)", "x.stride(0)"}}}};
    row["cuda"]["grid"] = {"n // 0", "9999999999999999999", "(n"};
    row["cuda"]["shared_bytes"] = "f + out.size(0)";
  });
  folder.row("c_names", [](json &row) {
    row["schema"] = "aten::relu(Tensor x, Tensor x) -> Tensor";
    row["results"][0]["name"] = "x";
    row["results"][0]["dtype"] = "complex64";
    row["inputs"] = {{"z", json::object()}};
    row["cuda"]["arguments"] = {"x", "half x", "workspace", "float x", "int x.size(9)"};
    row["cuda"]["function"] = "thrice";
    row["cuda"]["block"] = {64, 64};
  });
  folder.row("d_again", [](json &row) { row["cuda"]["arguments"] = {"x", "int x.numel()"}; });
  folder.row("e_again", [](json &) {});
  folder.write("f_text.json", "{\"schema\": \"mine::f(Tensor x) -> Tensor\", \"schema\": 1}");
  folder.write("g_text.json", "{]");
  folder.row("h_schema", [](json &row) {
    row["schema"] = "mine::h(Tensor(a!) x, int[] sizes, bool b=1, Generator) -> int";
  });
  folder.row("i_schema", [](json &row) { row["schema"] = "twice(x)"; });
  CHECK(codes_of(folder) == std::vector<std::string>{"TSC-O201 /sizes",
                                                     "TSC-O201 /inputs/x/dtypes",
                                                     "TSC-O201 /inputs/x/rank",
                                                     "TSC-O201 /inputs/x/layout",
                                                     "TSC-O201 /cuda/blok",
                                                     "TSC-O208 /cuda/file",
                                                     "TSC-O201 /cuda/block",
                                                     "TSC-O208 /host/file", //
                                                     "TSC-O203 /require/0",
                                                     "TSC-O203 /require/1",
                                                     "TSC-O203 /require/2",
                                                     "TSC-O203 /results/0/sizes/0",
                                                     "TSC-O203 /results/0/sizes/1",
                                                     "TSC-O203 /results/0/sizes/2",
                                                     "TSC-O203 /cuda/grid/0",
                                                     "TSC-O203 /cuda/grid/1",
                                                     "TSC-O203 /cuda/grid/2",
                                                     "TSC-O203 /cuda/shared_bytes", //
                                                     "TSC-O204 /schema",
                                                     "TSC-O204 /schema",
                                                     "TSC-O204 /results/0/name",
                                                     "TSC-O204 /inputs/z",
                                                     "TSC-O206 /results/0/dtype",
                                                     "TSC-O205 /cuda/function",
                                                     "TSC-O206 /cuda/arguments/1",
                                                     "TSC-O206 /cuda/arguments/2",
                                                     "TSC-O206 /cuda/arguments/3",
                                                     "TSC-O206 /cuda/block",
                                                     "TSC-O206 /cuda/arguments",
                                                     "TSC-O204 /schema",
                                                     "TSC-O204 /schema", //
                                                     "TSC-O201 ",
                                                     "TSC-O201 byte 2", //
                                                     "TSC-O207 /schema",
                                                     "TSC-O202 /schema",
                                                     "TSC-O202 /schema",
                                                     "TSC-O202 /schema",
                                                     "TSC-O202 /schema",
                                                     "TSC-O202 /schema"});
}

TEST_CASE("a problem of a row is told with file, place and next step") {
  CustomFolder folder;
  folder.row("twice", [](json &row) { row["cuda"]["grid"] = {"ceil_div(query.size(0), 128)"}; });
  CHECK(report_of(folder) == "error TSC-O203: there is no tensor 'query' here\n  at " +
                                 folder.path() +
                                 "/twice.json: /cuda/grid/0\n"
                                 "  next: there are workspace, x, out");
  CustomFolder none;
  CHECK(codes_of(none) == std::vector<std::string>{"TSC-O200 "});
}

TEST_CASE("a call that does not fit its row is refused") {
  CustomFolder folder;
  folder.row("twice", [](json &row) {
    row["inputs"] = {{"x", {{"rank", 2}, {"dtypes", {"float32"}}}}};
    row["require"] = {"x.size(1) % 3 == 0"};
    row["results"][0]["sizes"] = {"x.size(0) - 1", "x.size(1)"};
    row["cuda"]["grid"] = {1, "x.size(1) * 30000"};
    row.erase("host");
  });
  const auto of = [&](const std::string &dtype, const json &size, const std::string &arch) {
    WrongGraph graph;
    graph.input("x", dtype, size).call("y", "mine.twice.default", {"$x"});
    return refusal_of(folder, graph, arch);
  };
  CHECK(of("float32", {2, 3, 1}, "sm_90") ==
        "TSC-O210 mine.twice.default: 'x' has rank 3, the operator's row says 2");
  CHECK(
      of("float64", {2, 3}, "sm_90") ==
      "TSC-O210 mine.twice.default: 'x' is torch.float64, which the operator's row does not take");
  CHECK(of("float32", {2, 4}, "sm_90") ==
        "TSC-O211 mine.twice.default: the operator's row requires x.size(1) % 3 == 0");
  CHECK(of("float32", {0, 3}, "sm_90") ==
        "TSC-O211 mine.twice.default: the size x.size(0) - 1 of 'out' is -1");
  CHECK(of("float32", {2, 3}, "sm_90") ==
        "TSC-O215 mine.twice.default: the grid size x.size(1) * 30000 is 90000, the device takes 0 "
        "to 65535");
  CHECK(of("float32", {2, 0}, "host") ==
        "TSC-O213 mine.twice.default has no host function, and the program is for the host");
}

TEST_CASE("expressions that a call gives no value are refused") {
  CustomFolder folder;
  folder.row("twice", [](json &row) {
    row["schema"] = "mine::twice(Tensor x, Tensor? m=None, int k=0) -> Tensor";
    row["cuda"]["grid"] = {"x.size(2)", "m.size(0)", "8 // k"};
  });
  WrongGraph graph;
  graph.input("x", "float32", {2, 3}).call("y", "mine.twice.default", {"$x"});
  CHECK(refusal_of(folder, graph) == "TSC-O212 mine.twice.default: \"x.size(2)\" of the operator's "
                                     "row, column 1: 'x' of rank 2 has no dimension 2");
  folder.row("twice", [](json &row) {
    row["schema"] = "mine::twice(Tensor x, Tensor? m=None, int k=0) -> Tensor";
    row["require"] = {"8 // k == 1"};
  });
  CHECK(refusal_of(folder, graph) ==
        "TSC-O212 mine.twice.default: \"8 // k == 1\" of the operator's row, column 6: the divisor "
        "0 may be less than 1");
}

TEST_CASE("conditions of symbolic sizes are held when sizes are known") {
  CustomFolder folder;
  folder.row("twice", [](json &row) { row["require"] = {"x.size(0) % 2 == 0"}; });
  driver::CompileOptions options;
  options.operators = driver::read_operators(folder.path());
  const driver::Compilation compilation = driver::compile(twice_of().graph({"y"}), options);
  for (const std::string device : {"reference", "host", "host-cuda"}) {
    tensor::HostTensor even = tensor::random_tensor(tensor::DType::f32, {4, 3}, {});
    const tensor::HostTensor doubled = run(compilation, device, {even})[0];
    for (int64_t i = 0; i < 12; ++i)
      CHECK(doubled.get_double(i) == (static_cast<float>(even.get_double(i)) + 1.0f) * 4);
    CHECK_THROWS_WITH(
        run(compilation, device, {tensor::random_tensor(tensor::DType::f32, {5, 3}, {})}),
        contains_text("x.size(0) % 2 == 0"));
  }
}

TEST_CASE("a number passed as int that may not fit is held to it") {
  CustomFolder folder;
  folder.row("twice", [](json &) {});
  driver::CompileOptions options;
  options.operators = driver::read_operators(folder.path());
  const auto assertions = [&](int64_t high) {
    return driver::compile(twice_of(2, high).graph({"y"}), options).program.size_assertions.size();
  };
  CHECK(assertions(1000) == 0);
  CHECK(assertions(int64_t{1} << 40) == 1);
}

TEST_CASE("a condition that nobody would look at is refused") {
  CustomFolder folder;
  folder.row("twice", [](json &row) {
    row["schema"] = "mine::twice(Tensor x, int k) -> Tensor";
    row["require"] = {"k % 2 == 0"};
  });
  const std::string text = R"({
    "format": "tsc-graph", "version": 1, "name": "item",
    "symbols": {"u0": [0, 9]},
    "nodes": [
      {"name": "x", "op": "placeholder", "val": {"dtype": "float32", "size": [4]}},
      {"name": "n", "op": "placeholder", "val": {"dtype": "int64", "size": []}},
      {"name": "k", "op": "call_function", "target": "aten.item.default", "args": [{"node": "n"}],
       "val": {"int": "u0"}},
      {"name": "y", "op": "call_function", "target": "mine.twice.default",
       "args": [{"node": "x"}, {"node": "k"}]},
      {"name": "output", "op": "output", "args": [[{"node": "y"}]]}],
    "signature": {"inputs": [{"node": "x", "kind": "user"}, {"node": "n", "kind": "user"}],
                  "outputs": [{"kind": "user", "value": {"node": "y"}}]}})";
  driver::CompileOptions options;
  options.operators = driver::read_operators(folder.path());
  CHECK_THROWS_WITH(
      driver::compile(graph::parse_graph(text, "item.json"), options),
      contains_text(
          "TSC-O214: mine.twice.default: nothing says whether k % 2 == 0 when sizes are given"));
}

TEST_CASE("products of groups in forms that are not computed are refused") {
  WrongGraph graph;
  graph.input("x", "bfloat16", {6, 16})
      .input("w", "bfloat16", {16, 8})
      .call("y", "aten._grouped_mm.default", {"$x", "$w"});
  const driver::CheckReport report = driver::check(graph.graph({"y"}), {});
  REQUIRE(report.problems.size() == 1);
  CHECK(report.problems[0].diagnostic.code == "TSC-O217");
  CHECK(report.problems[0].diagnostic.message ==
        "aten._grouped_mm.default of [6, 16] and [16, 8] without offsets");
}

TEST_CASE("without a host function the host and the reference refuse") {
  CustomFolder folder;
  folder.row("twice", [](json &row) { row.erase("host"); });
  driver::CompileOptions options;
  options.operators = driver::read_operators(folder.path());
  const driver::Compilation compilation = driver::compile(twice_of().graph({"y"}), options);
  const std::vector<tensor::HostTensor> inputs = {
      tensor::random_tensor(tensor::DType::f32, {4, 3}, {})};
  CHECK_THROWS_WITH(run(compilation, "reference", inputs), contains_text("TSC-R030"));
  CHECK_THROWS_WITH(run(compilation, "host", inputs), contains_text("TSC-R031"));
  CHECK(run(compilation, "host-cuda", inputs).size() == 1);
}

TEST_CASE("what a compiler says of a user's text names the user's file and line") {
  CustomFolder folder;
  folder.row("twice", [](json &) {});
  folder.write("twice.cu", "#include <stddef.h>\n\n__global__ void twice(const float *x, float *y, "
                           "int n) {\n  y[0] = missing;\n}\n");
  driver::CompileOptions options;
  options.operators = driver::read_operators(folder.path());
  const driver::Compilation compilation = driver::compile(twice_of().graph({"y"}), options);
  CHECK_THROWS_WITH(
      run(compilation, "host-cuda", {tensor::random_tensor(tensor::DType::f32, {4, 3}, {})}),
      contains_text("twice.cu:4"));
}

TEST_CASE("a workspace is memory of the kernel's own") {
  CustomFolder folder;
  folder.row("twice", [](json &row) {
    row["workspace_bytes"] = "x.numel() * x.itemsize()";
    row["cuda"]["arguments"] = {"x", "out", "int x.numel()", "workspace"};
  });
  folder.write(
      "twice.cu",
      "__global__ void twice(const float *x, float *y, int n, unsigned char *w) {\n"
      "  float *kept = reinterpret_cast<float *>(w);\n"
      "  for (int i = threadIdx.x; i < n; i += blockDim.x) kept[n - 1 - i] = x[i];\n"
      "  __syncthreads();\n"
      "  for (int i = threadIdx.x; i < n; i += blockDim.x) y[i] = kept[n - 1 - i] * 2;\n}\n");
  folder.write("twice.cpp", "#include <cstring>\n"
                            "void twice(const float *x, float *y, int n, unsigned char *w) {\n"
                            "  std::memcpy(w, x, n * 4);\n"
                            "  for (int i = 0; i < n; ++i) { float v; std::memcpy(&v, w + i * 4, "
                            "4); y[i] = v * 2; }\n}\n");
  driver::CompileOptions options;
  options.operators = driver::read_operators(folder.path());
  const driver::Compilation compilation = driver::compile(twice_of().graph({"y"}), options);
  const tensor::HostTensor input = tensor::random_tensor(tensor::DType::f32, {5, 3}, {});
  for (const std::string device : {"reference", "host", "host-cuda"}) {
    const tensor::HostTensor output = run(compilation, device, {input})[0];
    for (int64_t i = 0; i < 15; ++i)
      CHECK(output.get_double(i) == (static_cast<float>(input.get_double(i)) + 1.0f) * 4);
  }
}

TEST_CASE("a Triton kernel in a graph is refused with what to do") {
  for (const char *target : {"higher_order.triton_kernel_wrapper_functional",
                             "higher_order.triton_kernel_wrapper_mutation"}) {
    WrongGraph graph;
    graph.input("x", "float32", {2, 3}).call("y", target, {"$x"});
    const driver::CheckReport report = driver::check(graph.graph({"y"}), {});
    REQUIRE(report.problems.size() == 1);
    CHECK(report.exit_code == support::ExitCode::unsupported);
    const support::Diagnostic &problem = report.problems[0].diagnostic;
    CHECK(problem.code == "TSC-O216");
    CHECK(problem.message ==
          std::string(target) + " calls a Triton kernel, which Triton alone compiles (1 call)");
    CHECK(problem.next_step.find("--operators FOLDER") != std::string::npos);
  }
}
