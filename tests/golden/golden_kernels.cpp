#include "golden_kernels.h"

#include "driver/compile.h"
#include "graph/read.h"

namespace tsc::test {

const std::vector<GoldenGraph> &golden_graphs() {
  static const std::vector<GoldenGraph> graphs = {
      {"seed_000", "graphs/seed_000.json"},
      {"seed_002", "graphs/seed_002.json"},
      {"seed_004", "graphs/seed_004.json"},
      {"adam_step", "graphs/adam_step.json"},
      {"gpt2", "graphs/anchors/gpt2/model.pt2"},
      {"gpt2_small", "graphs/gpt2_small/default.pt2"},
      {"layernorm_gelu", "graphs/anchors/layernorm_gelu/model.json"},
      {"mlp_gelu", "graphs/anchors/mlp_gelu/model.json"},
      {"control_flow", "graphs/control_flow.json"},
      {"seed_add_sum", "graphs/anchors/seed_add_sum/model.json"},
      {"seed_mm_chain", "graphs/anchors/seed_mm_chain/model.json"},
      {"seed_sum", "graphs/anchors/seed_sum/model.json"},
      {"softmax", "graphs/anchors/softmax/model.json"},
      {"concatenation", "graphs/concatenation.json"},
      {"top_p", "graphs/top_p.json"},
      {"resample", "graphs/resample.json"},
  };
  return graphs;
}

program::Program compile_golden(const GoldenGraph &graph) {
  const std::string path = std::string(TSC_SOURCE_DIR) + "/" + graph.path;
  return driver::compile(graph::read_graph(path), {}).program;
}

} // namespace tsc::test
