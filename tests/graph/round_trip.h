// Written and read again: the same graph, JSON and text.
#pragma once

#include "graph/read.h"
#include "testing/catch.h"

namespace tsc::graph {

inline void check_round_trip(const Graph &graph) {
  const std::string json = to_json(graph);
  const Graph again = parse_graph(json, "again");
  CHECK(again == graph);
  CHECK(to_json(again) == json);
  CHECK(to_text(again) == to_text(graph));
}

} // namespace tsc::graph
