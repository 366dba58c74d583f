// Operators whose results have a size that the data decides. Such a size is a symbol that
// tsc.define gives its value; loops over it begin when the host knows it (docs/control-flow.md).
#pragma once

#include "ops/table/builder.h"

#include <optional>

namespace tsc::ops {

/// Dimension `dim` of result `result` (0 where there is one result).
struct DataSize {
  size_t result = 0, dim = 0;
};
/// The sizes of the results of `node` that its data decides: all the same number. Empty for other
/// calls, and where the node's recorded value is not of the results' ranks.
std::vector<DataSize> data_sizes_of(const Graph &graph, const Node &node);

/// The symbol that the size `dim` of result `result` of `call` is. Throws TSC-O004 if the node has
/// no val that names it.
Expr data_size(const Call &call, size_t result, size_t dim);

/// From here on `symbol` is `count` (integers, rank 0), which is at most `bound` (none: nothing is
/// known of it).
void define_size(GraphBuilder &builder, const Argument &count, Expr symbol,
                 std::optional<Expr> bound);

/// Where the flat tensor `mask` (bool, rank 1) holds, in order: int64 [count]. `count` is a symbol
/// that this defines, or with `is_known` a size that the number of places is asserted to be.
Argument true_places(GraphBuilder &builder, const Argument &mask, Expr count,
                     bool is_known = false);

/// Row-major positions in `sizes` as one index a dimension.
Arguments unflattened(GraphBuilder &builder, const Argument &positions,
                      const std::vector<Expr> &sizes);

/// Of a call of aten.index: how many elements its masks pick, nothing if it has no mask. Throws as
/// data_size does.
std::optional<Expr> masked_size(const Call &call);
/// The call with integer indices in the place of its masks. Precondition: it has a mask.
Argument index_by_masks(GraphBuilder &builder, const Call &call);

/// Throws TSC-R127 at run time, with `message`, where `count` (integers, rank 0) is not `size`.
void assert_count(GraphBuilder &builder, const Argument &count, Expr size, std::string message);

} // namespace tsc::ops
