// A graph over single elements, computed for a whole batch of them at once (torch.vmap).
#pragma once

#include "ops/table/builder.h"

#include <optional>
#include <string>

namespace tsc::ops {

/// The subgraph that `parameter` of a higher-order call names. Throws TSC-O125 if it is none.
const Graph &subgraph_of(const Call &call, std::string_view parameter);
const Graph &subgraph_of(const Call &call, const Argument &argument);

/// `body` as it is called with tensors like `operands`: checked, functional and decomposed, every
/// node with its value; an operand that is no tensor (nullopt) stands for itself and keeps its
/// placeholder. Errors: TSC-O125 for another number of operands, for writes to an operand and for
/// results that are no tensors; what the passes refuse.
Graph prepared_body(const Call &call, const Graph &body,
                    const std::vector<std::optional<TensorMeta>> &operands);

/// Its results, emitted into `builder` with `inputs` in the place of the placeholders.
std::vector<Argument> spliced(GraphBuilder &builder, const Graph &prepared,
                              const std::vector<Argument> &inputs);

/// A value for every element of a batch: its sizes are those of the batch, each 1 where the value
/// is the same along it, then its own, as many as the prepared graph says. Or one for all of them.
struct BatchedValue {
  Argument value;
  bool is_batched = false;
};

/// Whether an operator that can reach lowering computes each element from those of its operands, of
/// whatever sizes; and whether it only copies them.
bool is_elementwise(std::string_view target);
bool copies_elements(std::string_view target);

/// Whether each element of the results of `prepared` is computed from single elements: by
/// elementwise operators, views and look-ups.
bool computes_single_elements(const Graph &prepared);

/// The operator of `prepared` that cannot be computed for a batch, if there is one.
std::optional<std::string> unbatched_operator(const Graph &prepared);

/// The results of a prepared graph without such an operator, for a batch of sizes `batch`.
std::vector<BatchedValue> batched(GraphBuilder &builder, const Graph &prepared,
                                  std::vector<BatchedValue> inputs, const std::vector<Expr> &batch);

/// `value` with all sizes of the batch.
Argument expanded_to_batch(GraphBuilder &builder, const BatchedValue &value, size_t rank,
                           const std::vector<Expr> &batch);

} // namespace tsc::ops
