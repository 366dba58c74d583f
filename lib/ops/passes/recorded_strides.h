// Strides that a file records beside those that are inferred. Whether a reshape is a view or a copy
// depends on them, and so do the elements that as_strided sees: where they differ, one of the two
// is wrong, and what would depend on them is refused.
#pragma once

#include "ops/table/builder.h"

namespace tsc::ops {

class RecordedStrides {
public:
  explicit RecordedStrides(const Graph &graph) : graph_(&graph) {}

  /// Sets `node.recorded_strides` if `recorded`, the value in the file, has other strides than
  /// `node.value`, or what it views is in doubt. Strides of views follow from what they view:
  /// theirs alone are not looked at. Dimensions of one element have no strides.
  void note(Node &node, const TensorMeta &recorded);
  /// Throws TSC-O082 if `node` is as_strided of a tensor whose strides are in doubt.
  void check_use(const Node &node) const;

private:
  const Graph *graph_;
  // Numbers for each symbol, filled when they are needed: unlike ones, and the likely ones, at
  // which every size has a value.
  std::vector<symbolic::Bindings> samples_;

  bool differ(const TensorMeta &recorded, const TensorMeta &inferred);
  void fill_samples();
};

/// Whether `node`, of whose first argument the strides are in doubt, is a view of it by the strides
/// that the file records. `row` has a decomposition.
bool is_view_as_recorded(const Graph &graph, const Node &node, const Operator &row,
                         const std::shared_ptr<const symbolic::Ranges> &ranges);

} // namespace tsc::ops
