#include "engine/solver.h"

namespace tsc_engine {

SolverExtents solver_extents(const SolverShape &shape) {
  const int64_t m = shape.m, n = shape.n, k = shape.k, least = shape.least();
  const bool full = shape.has(kFull);
  SolverExtents extents;
  switch (shape.routine) {
  case Routine::cholesky:
    extents.a = extents.out = n * n;
    extents.info = 1;
    break;
  case Routine::lu:
    extents.a = extents.out = m * n;
    extents.second = least;
    extents.info = 1;
    break;
  case Routine::ldl:
    extents.a = extents.out = n * n;
    extents.second = n;
    extents.info = 1;
    break;
  case Routine::lu_solve:
  case Routine::ldl_solve:
    extents.c = n;
    [[fallthrough]];
  case Routine::triangular_solve:
    extents.a = n * n;
    extents.b = extents.out = n * k;
    break;
  case Routine::qr:
    extents.a = extents.out = m * n;
    extents.second = least;
    break;
  case Routine::orthogonal:
    extents.a = extents.out = m * n;
    extents.b = k;
    break;
  case Routine::symmetric_eigen:
    extents.a = extents.out = n * n;
    extents.second = n;
    extents.info = 1;
    break;
  case Routine::svd:
    extents.a = m * n;
    extents.out = m * (full ? m : least);
    extents.second = least;
    extents.third = (full ? n : least) * n;
    extents.info = 1;
    break;
  case Routine::fourier:
    extents.a = extents.out = 2 * m * n * k;
    break;
  case Routine::fourier_of_real:
    extents.a = m * n * k;
    extents.out = 2 * m * n * (k / 2 + 1);
    break;
  case Routine::fourier_to_real:
    extents.a = 2 * m * n * (k / 2 + 1);
    extents.out = m * n * k;
    break;
  case Routine::eigen:
    extents.a = n * n;
    extents.out = 2 * n * n;
    extents.second = 2 * n;
    extents.info = 1;
    break;
  }
  if (shape.has(kComplex)) {
    extents.a *= 2;
    extents.b *= 2;
    if (shape.routine != Routine::eigen)
      extents.out *= 2;
    if (shape.routine == Routine::qr)
      extents.second *= 2;
    extents.third *= 2;
  }
  return extents;
}

void check_pivots(const int *pivots, int n, bool has_blocks) {
  for (int row = 0; row < n; ++row) {
    const bool is_block = has_blocks && pivots[row] < 0;
    const int place = is_block ? -pivots[row] : pivots[row];
    const int least = !has_blocks ? 1 : is_block ? row + 2 : row + 1;
    if (place < least || place > n || (is_block && pivots[row + 1] != pivots[row]))
      throw Error(Status::bad_argument, "pivots that no factorization gives");
    row += is_block ? 1 : 0;
  }
}

size_t Device::prepare_solver(const SolverShape &) {
  throw Error(Status::device, "this device has no linear algebra and no Fourier transforms");
}

} // namespace tsc_engine
