// torch.export's model.json, whatever its outermost keys are.
#include "check_graph.h"
#include "graph/export_reader.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  using namespace tsc::graph;
  try {
    JsonDocument document =
        JsonDocument::parse({reinterpret_cast<const char *>(data), size}, "fuzz");
    tsc::fuzz::check_graph(read_export_program(document.root(), "fuzz"));
  } catch (const tsc::support::UserError &) {
  }
  return 0;
}
