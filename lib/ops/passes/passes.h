// The graph passes, Graph -> Graph, in one table.
#pragma once

#include "graph/graph.h"

#include <functional>
#include <string>
#include <string_view>
#include <vector>

struct tc_few_work; // templates/attention/tc_attention_geometry.h

namespace tsc::ops {

/// A product of 16-bit floats whose rows start anywhere, and copies that would mend it.
struct ProductCopies {
  double operations = 0, bytes = 0; // of the product
  double tiles = 0, tile_bytes = 0; // of 128 x 128 results; of both factors, that each reads
  double shared_terms = 0;          // that blocks of one tile may share; 0: of a batch
  double copied_bytes = 0;          // read and written
  int copies = 0;
};
/// Attention that a program writes out, in the sizes that are known, guesses else.
struct AttentionWork {
  int64_t batches = 1, heads = 1, key_heads = 1, queries = 1, keys = 1, depth = 8;
  int64_t changes = 0;    // of scores, before the softmax
  bool in_floats = false; // scores are float32
};
/// A product of rows x terms by terms x columns.
struct ProductSizes {
  int64_t rows = 0, terms = 0, columns = 0;
  tensor::DType dtype = tensor::DType::f32; // of its factors
};
/// Products of the same rows that one collective brings or takes.
struct OverlapWork {
  ProductSizes product; // columns: of all of them
  int64_t ranks = 2;    // that exchange
  int64_t cut_rows = 0; // that can be cut: of a rank
  double sent = 0;      // bytes that a rank sends
  double copied = 0;    // bytes read and written because results come in pieces
  /// Products that can run beside the collective as it is, the likeliest first.
  std::vector<ProductSizes> beside;
};
struct Overlap {
  int64_t pieces = 1;
  double computing = 0, sending = 0; // nanoseconds of both as they are
  double whole = 0, in_pieces = 0;   // together; in pieces: of the best number of them
  size_t beside = 0;                 // how many of OverlapWork::beside the collective hides behind
};
struct PassOptions {
  int64_t fused_attention = 0;    // keep attention that one kernel can compute, up to this depth
  int64_t attention_backward = 0; // the same of its backward pass
  /// Into how many parts keys are cut where queries are few; 0: as many queries are. May be empty:
  /// products then.
  std::function<int64_t(const tc_few_work &)> attention_parts;
  /// Whether one kernel of float32 is faster than products and a softmax; may be empty: there is
  /// none.
  std::function<bool(const tc_few_work &, bool causal)> float_attention_pays;
  /// Whether one kernel is faster than products and a softmax; may be empty: always.
  std::function<bool(const AttentionWork &)> attention_pays;
  /// Whether a product is so much faster in whole vectors that copies pay; may be empty: never.
  std::function<bool(const ProductCopies &)> pays_to_align;
  bool attention_backward_groups = false; // groups of warps divide its work
  bool product_kernels = false;           // products may read windows where they come from
  bool tf32_convolutions = false;         // tell products that convolutions are made of from others
  bool sorted_sums = false;               // sums at run-time indices may be sorted, where that pays
  bool deterministic =
      false;                // the same bits from the same input: floats are never added atomically
  int64_t bucket_bytes = 0; // that collectives which become one yield at most; 0: none do
  /// In how many pieces products and a collective beside them run; may be empty: they stay whole.
  std::function<Overlap(const OverlapWork &)> overlap;
  bool cleanup = true; // dead nodes, no-op views and copies, CSE; off for "post_grad" graphs
  /// Gets a sentence about each thing that was chosen for the graph as a whole; may be null.
  std::vector<std::string> *choices = nullptr;
};
struct GraphPass {
  std::string_view name;
  graph::Graph (*function)(graph::Graph, const PassOptions &);
};
/// check_operators, infer_shapes, functionalize, decompose, clean_up ...: one line each, in running
/// order.
const std::vector<GraphPass> &graph_passes();
/// Runs all of them; `after` (may be empty) is called with each pass's name and result.
graph::Graph
run_graph_passes(graph::Graph graph, const PassOptions &options,
                 const std::function<void(std::string_view, const graph::Graph &)> &after = {});

/// Every problem that can be found without lowering: unknown operators (ALL in one report, each
/// with its count and a "did you mean"), arguments that contradict the schema, val that contradicts
/// the shape rules. Throws UserError: unsupported (TSC-O001) if an operator is unknown, else
/// bad_input.
graph::Graph check_operators(graph::Graph graph, const PassOptions &options);
/// Gives each size that the data decides (of nonzero, of x[mask]) a symbol of its own, and makes
/// sizes of all symbols that a recorded size mentions: from here on they are of the sort of sizes,
/// and what says that two are one is in Graph::equal_sizes. Before: as read.
graph::Graph name_data_sizes(graph::Graph graph, const PassOptions &options);
/// The same of symbols that only inferred sizes mention; then shapes are inferred again.
graph::Graph settle_data_sizes(graph::Graph graph, const PassOptions &options);
/// Sizes that are one number of the data become one symbol, which is read once. After clean_up,
/// which finds what is computed twice.
graph::Graph merge_data_sizes(graph::Graph graph, const PassOptions &options);
/// Fills `value` of every node from the shape rules; a present `val` must agree in dtype and sizes.
graph::Graph infer_shapes(graph::Graph graph, const PassOptions &options);
/// What the file stores in an input or buffer gets its dtype and sizes (a decomposed export leaves
/// that to the copy).
graph::Graph grow_memory(graph::Graph graph, const PassOptions &options);
graph::Graph match_mutations(graph::Graph graph, const PassOptions &options);

/// Results get the strides that the file records, where those are of a dense tensor and not the
/// ones that were inferred (PyTorch's own differ between its kernels for a CPU and for a GPU):
/// whoever runs the program need not copy them. Before decompose, which forgets what was recorded.
graph::Graph lay_out_results(graph::Graph graph, const PassOptions &options);

/// Runs the passes over the subgraphs of branches and loops, each call of a subgraph getting a
/// graph of its own whose placeholders are the operands that are tensors; nodes name their
/// subgraphs directly. Before: decomposed. Errors: TSC-O125 for what a subgraph may not do.
graph::Graph prepare_subgraphs(graph::Graph graph, const PassOptions &options);

/// Numbers the assertions that depend on data and has the graph note the first that fails in its
/// input `failure` (int64 of rank 0, never read by the user); messages go to Graph::assertions.
/// What a subgraph asserts is noted by the graph around it. Those about sizes stay, for bind to
/// check. Errors: TSC-O123 for one that never holds.
graph::Graph record_assertions(graph::Graph graph, const PassOptions &options);

} // namespace tsc::ops
