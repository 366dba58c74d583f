// Text that is a graph: graph JSON, recognized by content.
#include "check_graph.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size != 0 && data[0] == 'P') // an archive: the target pt2
    return 0;
  try {
    tsc::fuzz::check_graph(
        tsc::graph::parse_graph({reinterpret_cast<const char *>(data), size}, "fuzz"));
  } catch (const tsc::support::UserError &) {
  }
  return 0;
}
