// Views of memory by strides are held to that memory.
#pragma once

#include "ops/table/builder.h"

namespace tsc::ops {

/// `id`, what it is a view of, and so on to what is no view.
std::vector<graph::NodeId> chain_of_views(const Graph &graph, graph::NodeId id);

/// Throws TSC-O079 unless there is a stride for each size.
void require_strides(const Call &call, const std::vector<Expr> &sizes,
                     const std::vector<Expr> &strides);

/// Sizes, strides and an offset, in elements, by which memory is seen.
struct StridedRegion {
  const std::vector<Expr> &sizes, &strides;
  Expr offset;
};
/// Throws TSC-O079 where `region` is known to reach beyond memory of `elements` elements, or has a
/// negative size, stride or offset; asserts what only concrete sizes decide. A region without
/// elements may lie anywhere. Errors: TSC-O004 where the data decides the region.
void require_within(GraphBuilder &builder, const Call &call, const StridedRegion &region,
                    Expr elements);
/// The same where `region` begins before an input's first element: who runs the program hands its
/// memory over from there on.
void require_behind_start(GraphBuilder &builder, const Call &call, const StridedRegion &region,
                          Expr start);

} // namespace tsc::ops
