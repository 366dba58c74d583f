// The C functions of libtsc_api.so: graphs in, numbers out, and what misuse gives.
#include "api/tsc_api.h"
#include "testing/catch.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

using nlohmann::json;
using tsc::contains_text;

namespace {

constexpr int32_t kF32 = 11, kI64 = 5;

/// relu(x) + y of [s0, 4], y [4], and n, an integer that is s1: multiplied in.
const char *const kGraph = R"({"format": "tsc-graph", "version": 1,
  "symbols": {"s0": [1, 64], "s1": [0, 100]},
  "nodes": [
    {"name": "x", "op": "placeholder", "val": {"dtype": "float32", "size": ["s0", 4]}},
    {"name": "y", "op": "placeholder", "val": {"dtype": "float32", "size": [4]}},
    {"name": "n", "op": "placeholder", "val": {"int": "s1"}},
    {"name": "relu", "op": "call_function", "target": "aten.relu.default", "args": [{"node": "x"}]},
    {"name": "add", "op": "call_function", "target": "aten.add.Tensor", "args": [{"node": "relu"}, {"node": "y"}]},
    {"name": "mul", "op": "call_function", "target": "aten.mul.Tensor", "args": [{"node": "add"}, {"expr": "s1"}]},
    {"name": "output", "op": "output", "args": [[{"node": "mul"}, null]]}]})";
const char *const kHost = R"({"device": "host", "use_cache": false})";

struct Program {
  explicit Program(const char *graph, const char *options = kHost) {
    status = tsc_api_compile(graph, std::strlen(graph), "test.json", options, &handle);
  }
  ~Program() { tsc_api_destroy(handle); }
  TscApiStatus status;
  TscApiProgram *handle = nullptr;
};

json describe(const TscApiProgram *program) {
  const char *text = nullptr;
  REQUIRE(tsc_api_describe(program, &text) == TSC_API_OK);
  return json::parse(text);
}

/// The first output for x = index - 3, y = index, n.
std::vector<float> run(TscApiProgram *program, int64_t rows, int64_t n) {
  alignas(64) static float x[256], y[4], result[256];
  alignas(256) static char workspace[1 << 16];
  for (int i = 0; i < 4 * rows; ++i)
    x[i] = static_cast<float>(i - 3);
  for (int i = 0; i < 4; ++i)
    y[i] = static_cast<float>(i);
  const int64_t x_sizes[] = {rows, 4}, y_sizes[] = {4};
  const TscApiTensor inputs[] = {{nullptr, kF32, 2, x_sizes, nullptr},
                                 {nullptr, kF32, 1, y_sizes, nullptr},
                                 {&n, kI64, 0, nullptr, nullptr}};
  size_t workspace_bytes = 0, bytes = 0;
  int64_t sizes[2] = {}, strides[2] = {}, offset = -1;
  REQUIRE(tsc_api_bind(program, inputs, 3, &workspace_bytes) == TSC_API_OK);
  REQUIRE(workspace_bytes <= sizeof workspace);
  REQUIRE(tsc_api_output(program, 0, sizes, strides, &offset) == TSC_API_OK);
  REQUIRE(tsc_api_output_bytes(program, 0, &bytes) == TSC_API_OK);
  CHECK(sizes[0] == rows);
  CHECK(sizes[1] == 4);
  CHECK(strides[0] == 4);
  CHECK(strides[1] == 1);
  CHECK(offset == 0);
  CHECK(bytes == static_cast<size_t>(rows) * 16);
  void *const in[] = {x, y, nullptr};
  void *const out[] = {result, nullptr};
  REQUIRE(tsc_api_run(program, nullptr, in, out, workspace) == TSC_API_OK);
  return {result, result + 4 * rows};
}

} // namespace

TEST_CASE("A program runs in the caller's memory, for any sizes in range") {
  Program program(kGraph);
  INFO(tsc_api_error());
  REQUIRE(program.status == TSC_API_OK);
  for (int64_t rows : {1, 3, 64}) {
    const std::vector<float> found = run(program.handle, rows, 5);
    for (int i = 0; i < 4 * rows; ++i)
      CHECK(found[i] == static_cast<float>(5 * (std::max(i - 3, 0) + i % 4)));
  }
}

TEST_CASE("An output that nothing bounds is memory of the program's") {
  const char *const graph = R"({"format": "tsc-graph", "version": 1,
    "symbols": {"u0": [0, null]},
    "nodes": [
      {"name": "n", "op": "placeholder", "val": {"dtype": "int64", "size": []}},
      {"name": "item", "op": "call_function", "target": "aten.item.default", "args": [{"node": "n"}], "val": {"int": "u0"}},
      {"name": "full", "op": "call_function", "target": "aten.full.default", "args": [[{"expr": "u0"}], 7],
       "kwargs": {"dtype": {"dtype": "int64"}}, "val": {"dtype": "int64", "size": ["u0"]}},
      {"name": "output", "op": "output", "args": [[{"node": "full"}]]}]})";
  Program program(graph);
  INFO(tsc_api_error());
  REQUIRE(program.status == TSC_API_OK);
  const TscApiTensor input = {nullptr, kI64, 0, nullptr, nullptr};
  size_t workspace_bytes = 0, bytes = 1;
  REQUIRE(tsc_api_bind(program.handle, &input, 1, &workspace_bytes) == TSC_API_OK);
  REQUIRE(tsc_api_output_bytes(program.handle, 0, &bytes) == TSC_API_OK);
  CHECK(bytes == 0);
  alignas(256) static char workspace[1 << 12], nothing[64];
  REQUIRE(workspace_bytes <= sizeof workspace);
  for (int64_t count : {3, 500, 500, 1}) {
    alignas(64) int64_t n = count;
    int64_t sizes[1] = {};
    void *const in[] = {&n};
    void *const out[] = {nothing};
    void *memory = nullptr;
    REQUIRE(tsc_api_run(program.handle, nullptr, in, out, workspace) == TSC_API_OK);
    REQUIRE(tsc_api_output(program.handle, 0, sizes, nullptr, nullptr) == TSC_API_OK);
    REQUIRE(tsc_api_output_memory(program.handle, 0, nothing, &memory) == TSC_API_OK);
    CHECK(sizes[0] == count);
    REQUIRE(memory != nothing);
    for (int64_t i = 0; i < count; ++i)
      REQUIRE(static_cast<const int64_t *>(memory)[i] == 7);
  }
}

TEST_CASE("The description is the graph's signature") {
  Program program(kGraph);
  REQUIRE(program.status == TSC_API_OK);
  const json found = describe(program.handle);
  CHECK(found["device"] == "host");
  CHECK(found["draws"] == false);
  REQUIRE(found["inputs"].size() == 3);
  CHECK(found["inputs"][0]["name"] == "x");
  CHECK(found["inputs"][0]["dtype"] == "torch.float32");
  CHECK(found["inputs"][2]["is_integer"] == true);
  REQUIRE(found["outputs"].size() == 2);
  CHECK(found["outputs"][0]["constant"].is_null());
  CHECK(found["outputs"][1]["constant"] == "None");
}

TEST_CASE("What does not fit is refused with its name, and the binding before stays") {
  Program program(kGraph);
  REQUIRE(program.status == TSC_API_OK);
  CHECK(tsc_api_run(program.handle, nullptr, nullptr, nullptr, nullptr) == TSC_API_USAGE);
  CHECK_THAT(tsc_api_error(), contains_text("no shapes are bound"));
  run(program.handle, 2, 1);
  const int64_t n = 1, x_sizes[] = {65, 4}, y_sizes[] = {4};
  TscApiTensor inputs[] = {{nullptr, kF32, 2, x_sizes, nullptr},
                           {nullptr, kF32, 1, y_sizes, nullptr},
                           {const_cast<int64_t *>(&n), kI64, 0, nullptr, nullptr}};
  CHECK(tsc_api_bind(program.handle, inputs, 3, nullptr) == TSC_API_BAD_INPUT);
  CHECK_THAT(tsc_api_error(), contains_text("65"));
  CHECK(tsc_api_bind(program.handle, inputs, 2, nullptr) == TSC_API_USAGE);
  inputs[1].dtype = kI64;
  CHECK(tsc_api_bind(program.handle, inputs, 3, nullptr) == TSC_API_USAGE);
  CHECK_THAT(tsc_api_error(), contains_text("input y has another dtype"));
  int64_t sizes[2] = {};
  REQUIRE(tsc_api_output(program.handle, 0, sizes, nullptr, nullptr) == TSC_API_OK);
  CHECK(sizes[0] == 2);
}

TEST_CASE("A graph that is refused says which nodes are") {
  std::string graph = kGraph;
  graph.replace(graph.find("aten.relu.default"), 17, "aten.nothing.here");
  Program program(graph.c_str());
  CHECK(program.status != TSC_API_OK);
  CHECK(program.handle == nullptr);
  CHECK_THAT(tsc_api_error(), contains_text("aten.nothing"));
  const char *text = nullptr;
  REQUIRE(tsc_api_check(graph.data(), graph.size(), "test.json", kHost, &text) == TSC_API_OK);
  const json report = json::parse(text);
  REQUIRE(report["problems"].size() == 1);
  CHECK(report["problems"][0]["nodes"] == json{"relu"});
  CHECK(report["status"] == static_cast<int>(TSC_API_UNSUPPORTED));
}

TEST_CASE("Bad options, bytes and handles are statuses, not crashes") {
  CHECK(Program(kGraph, "{\"devise\": \"host\"}").status == TSC_API_USAGE);
  CHECK_THAT(tsc_api_error(), contains_text("nothing is called 'devise'"));
  CHECK_THAT(tsc_api_error(), contains_text("TSC-C031"));
  CHECK(Program(kGraph, "{\"device\": \"tpu\"}").status == TSC_API_USAGE);
  CHECK(Program(kGraph, "{\"device\": 3}").status == TSC_API_USAGE);
  CHECK(Program(kGraph, "[").status == TSC_API_USAGE);
  CHECK(Program("{", kHost).status == TSC_API_BAD_INPUT);
  CHECK(tsc_api_load("/nowhere", kHost, nullptr) == TSC_API_USAGE);
  TscApiProgram *program = nullptr;
  CHECK(tsc_api_load("/nowhere", kHost, &program) == TSC_API_USAGE);
  CHECK_THAT(tsc_api_error(), contains_text("TSC-C009"));
  CHECK(tsc_api_compile(nullptr, 0, nullptr, nullptr, &program) == TSC_API_USAGE);
  CHECK(tsc_api_bind(nullptr, nullptr, 0, nullptr) == TSC_API_USAGE);
  CHECK(tsc_api_describe(nullptr, nullptr) == TSC_API_USAGE);
  tsc_api_destroy(nullptr);
}

TEST_CASE("Expressions of a compilation go with it") {
  const auto compile = [](int number) {
    std::string graph = kGraph; // another size each time
    const std::string size = std::to_string(5000 + number);
    for (const std::string before : {", 4]", "[4]"})
      for (size_t at; (at = graph.find(before)) != std::string::npos;)
        graph.replace(graph.find('4', at), 1, size);
    const char *report = nullptr;
    Program program(graph.c_str(), R"({"device": "host"})");
    REQUIRE(program.status == TSC_API_OK);
    REQUIRE(tsc_api_check(graph.data(), graph.size(), "", kHost, &report) == TSC_API_OK);
  };
  for (int number = 0; number < 4; ++number) // sizes of all remainders: symbols stay
    compile(number);
  const size_t first = tsc_api_expression_count();
  for (int number = 4; number < 8; ++number)
    compile(number);
  CHECK(tsc_api_expression_count() == first);
}
