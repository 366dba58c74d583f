// Graph JSON, model.json and .pt2: reading may refuse, never crash; what was read can be written,
// and written again the same.
#include "graph/read.h"
#include "support/diagnostic.h"

#include <cstdlib>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  std::string_view bytes(reinterpret_cast<const char *>(data), size);
  tsc::graph::Graph graph;
  try {
    graph = tsc::graph::parse_graph(bytes, "fuzz");
  } catch (const tsc::support::UserError &) {
    return 0;
  }
  tsc::graph::to_text(graph);
  for (const auto &weight : graph.weights)
    if (!tsc::tensor::is_complex(weight.second.dtype()) && weight.second.numel() != 0) {
      weight.second.get_double(0);
      weight.second.get_double(weight.second.numel() - 1);
    }
  std::string json;
  try {
    json = tsc::graph::to_json(graph);
  } catch (const tsc::support::UserError &) { // a complex constant
    return 0;
  }
  std::string again;
  try {
    again = tsc::graph::to_json(tsc::graph::parse_graph(json, "again"));
  } catch (const tsc::support::UserError &) {
    // What an export holds may be more than graph JSON admits, such as symbols without a range.
    return 0;
  }
  if (again != json)
    std::abort();
  return 0;
}
