#include "driver/graph_source.h"

#include "graph/read.h"
#include "support/standard_input.h"

namespace tsc::driver {

graph::Graph read_graph_from(const std::string &path) {
  if (path != "-")
    return graph::read_graph(path);
  return graph::parse_graph(*support::standard_input(), path);
}

} // namespace tsc::driver
