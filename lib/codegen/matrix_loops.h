// A kernel's loops over other variables: the rows and columns of a matrix, or one for all.
#pragma once

#include "codegen/plan.h"

#include <optional>
#include <vector>

namespace tsc::codegen {

/// The same loops over `rows` rows and `columns` columns (or terms) of a matrix. Precondition: the
/// graph has rows * columns elements, in the matrix's order.
KernelGraph over_matrix(KernelGraph graph, Expr row, Expr column, Expr rows, int64_t columns);

/// Leaves of the outermost loop, over `count` matrices, the first one's.
void take_first(KernelGraph &graph, Expr count);

/// The loops as one: runs of what is stored go on from one row to the next, where rows are no whole
/// runs. Nothing where sizes are symbols, what is stored has gaps or lies in another order, places
/// are looked up, or there is one loop.
struct OneLoop {
  KernelGraph graph; // over a variable that the given one does not have
  JoinedLoops loops;
};
std::optional<OneLoop> as_one_loop(const KernelGraph &graph);

/// What indices take from a matrix's row alone by dividing it: found once a row. Symbols of sort
/// `row` stand for it.
class RowParts {
public:
  struct Part {
    Expr symbol, value; // over the row
  };
  RowParts(Expr row, Expr term) : row_(row), term_(term) {}
  /// `e` with symbols for such parts; `ranges` gets what they are bounded by.
  Expr without(Expr e, symbolic::Ranges &ranges);
  const std::vector<Part> &list() const { return list_; }

private:
  Expr row_, term_;
  std::vector<Part> list_;

  Expr of_operands(Expr e, symbolic::Ranges &ranges);
};

} // namespace tsc::codegen
