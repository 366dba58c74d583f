// Results of branches whose sizes only the branches know.
#pragma once

#include "graph/graph.h"
#include "ops/table/builder.h"

#include <vector>

namespace tsc::ops {

/// Gives the results of a call of cond, whose branches are prepared, sizes that are known before a
/// branch runs: where the call's value says a symbol and a branch something else, each branch pads
/// its result to the most that the symbol can be, and yields the size as a number behind all
/// results. Afterwards the call's value is that of such branches.
class BranchResults {
public:
  /// Errors: TSC-O125 for a size that nothing bounds.
  BranchResults(graph::Node &call, std::vector<graph::Graph> &branches,
                const symbolic::Ranges &ranges);
  /// Whether there are such sizes; else nothing was changed.
  bool any() const { return !sizes_.empty(); }
  /// What stands for the call's results: defines the symbols, then cuts what was padded.
  Arguments cut(GraphBuilder &builder, const Argument &call) const;

private:
  struct Size {
    Expr symbol = 0;
    int64_t bound = 0;
    size_t result = 0, dim = 0; // where the branches say what it is
  };
  std::vector<Size> sizes_;
  std::vector<graph::TensorMeta> results_; // as the call's value said

  void find(const graph::Node &call, const std::vector<graph::Graph> &branches,
            const symbolic::Ranges &ranges);
  const Size *size_of(Expr size) const;
  graph::Graph padded(graph::Graph branch) const;
};

} // namespace tsc::ops
