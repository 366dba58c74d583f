#include "driver/graph_source.h"

#include "graph/read.h"

#include <iostream>
#include <iterator>

namespace tsc::driver {

graph::Graph read_graph_from(const std::string &path) {
  if (path != "-")
    return graph::read_graph(path);
  static const std::string kBytes{std::istreambuf_iterator<char>(std::cin), {}};
  return graph::parse_graph(kBytes, path);
}

} // namespace tsc::driver
