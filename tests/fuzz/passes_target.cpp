// What follows the reader: graph passes, lowering, scheduling, kernels. A graph yields a program,
// sound as read back, or a UserError.
#include "driver/compile.h"
#include "graph/read.h"
#include "support/diagnostic.h"

#include <cstdio>
#include <cstdlib>

namespace {

// Larger graphs only make a run slower: what they could show, small ones show.
constexpr size_t kMaxNodes = 64, kMaxBytes = 1 << 16;

size_t count_nodes(const tsc::graph::Graph &graph) {
  size_t count = graph.nodes.size();
  for (const auto &subgraph : graph.subgraphs)
    count += count_nodes(subgraph.second);
  return count;
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size > kMaxBytes)
    return 0;
  try {
    tsc::graph::Graph graph =
        tsc::graph::parse_graph({reinterpret_cast<const char *>(data), size}, "fuzz");
    if (count_nodes(graph) > kMaxNodes)
      return 0;
    tsc::program::Program program = tsc::driver::compile(std::move(graph), {}).program;
    std::string text = tsc::program::to_json(program);
    tsc::program::Program again;
    try {
      again = tsc::program::from_json(text, "again");
    } catch (const tsc::support::UserError &error) { // what tsc compiles, tsc must take
      std::fprintf(stderr, "the program does not read back: %s\n", error.what());
      std::abort();
    }
    if (tsc::program::to_json(again) != text)
      std::abort();
  } catch (const tsc::support::UserError &) {
  }
  return 0;
}
