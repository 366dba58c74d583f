// Copies that a scatter changes, made where a concatenation wants them: no part is copied again,
// and readers before the concatenation read it there.
#include "made_graph.h"
#include "testing/catch.h"

#include <algorithm>

using namespace tsc;
using nlohmann::json;

namespace {

struct Case {
  std::string name;
  testing::MadeGraph graph;
  int64_t most; // bytes of the program's own memory and results, beside what is listed: or any
};

/// Two layers' caches [layers, heads, rows, depth] of which each takes new rows, is read, and
/// stacked.
testing::MadeGraph graph(const std::string &name, json calls, std::vector<std::string> outputs) {
  testing::MadeGraph made;
  made.name = name;
  made.inputs = {
      {"c", "float32", {2, 3, 64, 16}}, {"k", "float32", {3, 2, 16}}, {"i", "int64", {2}, 0, 63}};
  made.calls = std::move(calls);
  made.outputs = std::move(outputs);
  return made;
}

std::vector<Case> cases() {
  const json first = {{"a", "aten.select.int", {"$c", 0, 0}},
                      {"b", "aten.select.int", {"$c", 0, 1}},
                      {"m", "aten.mul.Tensor", {"$k", 2.0}},
                      {"p", "aten.index_copy.default", {"$a", 1, "$i", "$k"}},
                      {"q", "aten.index_copy.default", {"$b", 1, "$i", "$m"}}};
  const auto with = [&](json more) {
    json calls = first;
    calls.insert(calls.end(), more.begin(), more.end());
    return calls;
  };
  constexpr int64_t kCache = 3 * 64 * 16 * 4, kAny = INT64_MAX;
  return {
      {"stacked, and read before",
       graph("stacked, and read before",
             with({{"s", "aten.sum.dim_IntList", {"$p", {2}}},
                   {"t", "aten.stack.default", json::array({json::array({"$p", "$q"})})},
                   {"u", "aten.amax.default", {"$q", {1}, false}}}),
             {"t", "s", "u"}),
       2 * kCache + 8192},
      {"one behind the other",
       graph("one behind the other",
             with({{"t", "aten.cat.default", json::array({json::array({"$p", "$q"}), 0})}}), {"t"}),
       2 * kCache + 8192},
      {"side by side",
       graph("side by side",
             with({{"t", "aten.cat.default", json::array({json::array({"$p", "$q"}), 2})}}), {"t"}),
       kAny},
      {"one part twice",
       graph("one part twice",
             with({{"t", "aten.stack.default", json::array({json::array({"$p", "$q", "$p"})})}}),
             {"t"}),
       kAny},
      {"a part of two stacks",
       graph("a part of two stacks",
             with({{"t", "aten.stack.default", json::array({json::array({"$p", "$q"})})},
                   {"u", "aten.stack.default", json::array({json::array({"$q", "$p"})})},
                   {"y", "aten.neg.default", {"$t"}}}),
             {"t", "u", "y"}),
       kAny},
      {"beside what is computed and what is given",
       graph("beside what is computed and what is given",
             with({{"n", "aten.neg.default", {"$a"}},
                   {"t", "aten.stack.default", json::array({json::array({"$n", "$p", "$b"})})}}),
             {"t"}),
       kAny},
      {"changed again",
       graph("changed again",
             with({{"r", "aten.index_add.default", {"$p", 1, "$i", "$k"}},
                   {"t", "aten.stack.default", json::array({json::array({"$r", "$q"})})}}),
             {"t"}),
       kAny},
      {"read once more when it is changed",
       graph("read once more when it is changed",
             with({{"r", "aten.index_add.default", {"$p", 1, "$i", "$k"}},
                   {"t", "aten.stack.default", json::array({json::array({"$r", "$q", "$p"})})}}),
             {"t"}),
       kAny},
      {"given back by itself, too",
       graph("given back by itself, too",
             with({{"t", "aten.stack.default", json::array({json::array({"$p", "$q"})})}}),
             {"t", "p"}),
       kAny},
  };
}

void check_all(const std::vector<runtime::SessionOptions> &ways) {
  for (const Case &test : cases()) {
    INFO(test.name);
    const driver::Compilation compilation = testing::compile_made(test.graph, false);
    int64_t bytes = 0;
    for (const program::Buffer &buffer : compilation.program.buffers)
      if (buffer.role == program::Role::intermediate || buffer.role == program::Role::output)
        bytes += buffer.bytes.value();
    CHECK(bytes <= test.most);
    testing::check_made(test.graph, compilation, 0, ways);
  }
}

} // namespace

TEST_CASE("caches are changed where they are stacked on the host") {
  check_all(testing::host_ways());
}

TEST_CASE("caches are changed where they are stacked on the GPU", "[gpu]") {
  if (const auto ways = testing::gpu_ways(); !ways.empty())
    check_all(ways);
}
