#include "driver/graph_source.h"

#include "emit/emit.h"
#include "graph/read.h"
#include "support/diagnostic.h"
#include "support/standard_input.h"

namespace tsc::driver {

graph::Graph read_graph_from(const std::string &path) {
  if (path == "-")
    return graph::parse_graph(*support::standard_input(), path);
  need_graph(path);
  return graph::read_graph(path);
}

void need_graph(const std::string &path) {
  if (emit::is_emitted(path))
    refuse_compiled(path,
                    "give the graph that it was compiled from; run, diff, explain, report and "
                    "dump-schedule --stage=partitions take what was compiled");
}

void refuse_compiled(const std::string &path, const std::string &next_step) {
  throw support::UserError(
      support::ExitCode::usage,
      {.code = "TSC-C034",
       .message = "this was compiled before, and keeps neither its graph nor its schedule",
       .file = path,
       .next_step = next_step});
}

} // namespace tsc::driver
