#include "scheduler/product_layouts.h"

#include <optional>

namespace tsc::scheduler {

using symbolic::Expr;

namespace {

/// Results and operands are counted in 32 bits.
constexpr int64_t kMostElements = (int64_t{1} << 31) - (int64_t{1} << 22);

std::optional<int64_t> constant(Expr e) { return e.as_integer(); }

/// Whether there are too many elements, as far as is known.
bool is_too_large(Expr elements) {
  return elements.is_integer() && elements.value() > kMostElements;
}

} // namespace

bool has_runs(const tensor::Layout &layout, int64_t run, const symbolic::Ranges &ranges) {
  const size_t rank = layout.rank();
  if (rank != 2 && rank != 3)
    return false;
  const Expr rows = layout.sizes[rank - 2], columns = layout.sizes[rank - 1],
             batches = rank == 3 ? layout.sizes[0] : Expr(1),
             apart = rank == 3 ? layout.strides[0] : Expr(0);
  const auto down = constant(layout.strides[rank - 2]), across = constant(layout.strides[rank - 1]),
             offset = constant(layout.offset);
  const auto are_runs = [&](Expr count) { return count.is_integer() && count.value() % run == 0; };
  if (!down || !across || !offset || *offset % run != 0 || is_too_large(rows * columns) ||
      (!batches.is_integer(1) && !(symbolic::known_nonnegative(apart, ranges) &&
                                   symbolic::known_multiple_of(apart, run, ranges))))
    return false;
  return (*across == 1 && *down % run == 0 && are_runs(columns)) ||
         (*down == 1 && *across % run == 0 && are_runs(rows));
}

bool has_rows(const tensor::Layout &layout) {
  const size_t rank = layout.rank();
  if ((rank != 2 && rank != 3) || !layout.offset.is_integer(0))
    return false;
  const Expr rows = layout.sizes[rank - 2], batches = rank == 3 ? layout.sizes[0] : Expr(1);
  const auto columns = constant(layout.sizes[rank - 1]), down = constant(layout.strides[rank - 2]);
  return columns && down && layout.strides[rank - 1].is_integer(1) && *down >= *columns &&
         (batches.is_integer(1) || layout.strides[0] == rows * Expr(*down)) &&
         !is_too_large(batches * rows * Expr(*down));
}

bool is_deep(const tensor::Layout &layout, size_t terms) {
  return layout.strides[layout.rank() - 2 + terms].is_integer(1);
}

} // namespace tsc::scheduler
