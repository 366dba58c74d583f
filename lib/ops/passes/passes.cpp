#include "ops/passes/passes.h"

#include "ops/families/assertions.h"
#include "ops/families/control_flow.h"
#include "ops/passes/align_products.h"
#include "ops/passes/bucket_collectives.h"
#include "ops/passes/clean_up.h"
#include "ops/passes/cut_by_tensors.h"
#include "ops/passes/decompose.h"
#include "ops/passes/functionalize.h"
#include "ops/passes/inline_effects.h"
#include "ops/passes/inline_subgraphs.h"
#include "ops/passes/match_attention.h"
#include "ops/passes/overlap_products.h"
#include "ops/passes/seed_random.h"
#include "ops/passes/split_complex.h"
#include "ops/passes/verify_graph.h"
#include "ops/passes/write_out_products.h"
#include "ops/passes/write_results.h"
#include "support/verify.h"

namespace tsc::ops {

const std::vector<GraphPass> &graph_passes() {
  static const std::vector<GraphPass> passes = {
      {"inline_effects", inline_effects},
      {"inline_subgraphs", inline_subgraphs},
      {"write_results", write_results},
      {"cut_by_tensors", cut_by_tensors},
      {"check_operators", check_operators},
      {"name_data_sizes", name_data_sizes},
      {"infer_shapes", infer_shapes},
      {"settle_data_sizes", settle_data_sizes},
      {"grow_memory", grow_memory},
      {"match_mutations", match_mutations},
      {"functionalize", functionalize},
      {"lay_out_results", lay_out_results},
      {"match_attention", match_attention},
      {"decompose", decompose},
      {"split_complex", split_complex},
      {"decompose_attention", decompose_attention},
      {"decompose_convolution", decompose_convolution},
      {"order_sums", order_sums},
      {"write_out_products", write_out_products},
      {"align_products", align_products},
      {"overlap_products", overlap_products},
      {"bucket_collectives", bucket_collectives},
      {"prepare_subgraphs", prepare_subgraphs},
      {"seed_random", seed_random},
      {"record_assertions", record_assertions},
      {"clean_up", clean_up},
      {"merge_data_sizes", merge_data_sizes},
  };
  return passes;
}

graph::Graph
run_graph_passes(graph::Graph graph, const PassOptions &options,
                 const std::function<void(std::string_view, const graph::Graph &)> &after) {
  const bool verifies = support::verifies_passes();
  bool has_values = false;
  for (const GraphPass &pass : graph_passes()) {
    graph = pass.function(std::move(graph), options);
    has_values |= pass.name == "infer_shapes";
    if (verifies && has_values) // before, it is what was read
      verify_graph(graph, pass.name, has_values);
    if (after)
      after(pass.name, graph);
  }
  return graph;
}

graph::Graph decomposed(graph::Graph graph) {
  for (const GraphPass &pass : graph_passes()) {
    if (pass.name == "split_complex")
      break;
    graph = pass.function(std::move(graph), {});
  }
  return order_sums(decompose_convolution(decompose_attention(std::move(graph), {}), {}), {});
}

} // namespace tsc::ops
