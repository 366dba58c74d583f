// What must hold for every graph that a reader accepted.
#pragma once

#include "graph/read.h"
#include "support/diagnostic.h"

#include <cstdlib>

namespace tsc::fuzz {

/// Its text can be made, its weights read to the last element; graph JSON of it reads back to the
/// same bytes. What an export holds may be more than graph JSON admits, such as symbols without a
/// range: that may be refused.
inline void check_graph(const graph::Graph &graph) {
  graph::to_text(graph);
  for (const auto &weight : graph.weights)
    if (!tensor::is_complex(weight.second.dtype()) && weight.second.numel() != 0) {
      weight.second.get_double(0);
      weight.second.get_double(weight.second.numel() - 1);
    }
  std::string json, again;
  try {
    json = graph::to_json(graph);
    again = graph::to_json(graph::parse_graph(json, "again"));
  } catch (const support::UserError &) {
    return;
  }
  if (again != json)
    std::abort();
}

} // namespace tsc::fuzz
