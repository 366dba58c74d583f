// Factorizations, solutions of linear systems and Fourier transforms: what a library is asked for,
// of a batch of dense matrices. Every matrix lies column by column without gaps, matrices one after
// another; vectors likewise. Elements are f32 or f64, or complex numbers of two such (kComplex);
// pivots and infos are i32, as LAPACK has them. Signals and spectra lie row by row.
#pragma once

#include "engine/device.h"

namespace tsc_engine {

/// Operands by routine; sizes of one matrix in brackets. `info` is one number a matrix: 0, or what
/// LAPACK's routine of that name says.
///   cholesky          a [n, n] -> out [n, n]: potrf; the other triangle is a's
///   lu                a [m, n] -> out [m, n], second [min(m, n)] pivots: getrf
///   lu_solve          a [n, n] as lu left it, b [n, k], c [n] pivots -> out [n, k]: getrs; no info
///   triangular_solve  a [n, n], b [n, k] -> out [n, k]: trsm from the left; no info
///   qr                a [m, n] -> out [m, n], second [min(m, n)] factors: geqrf; no info
///   orthogonal        a [m, n], b [k] factors -> out [m, n]: orgqr, m >= n >= k; no info
///   symmetric_eigen   a [n, n] -> out [n, n] vectors, second [n] real values: syevd (heevd);
///                     without kVectors `out` holds nothing of use
///   svd               a [m, n] -> out u [m, p or m], second [p] real, third v' [p or n, n]: gesdd,
///                     p = min(m, n); without kVectors out and third hold nothing of use
///   ldl               a [n, n] -> out [n, n], second [n] pivots: sytrf (kHermitian: hetrf); the
///                     other triangle is a's
///   ldl_solve         a [n, n] as ldl left it, b [n, k], c [n] pivots -> out [n, k]: sytrs; no
///                     info
///   eigen             a [n, n] -> out [n, n] vectors, second [n] values, both complex whatever a
///                     is: geev; without kVectors `out` holds nothing of use; info is below 0
///                     where a is not finite
/// Transforms of signals [m, n, k], over all three sizes (1: none), not scaled; exp(-i..), with
/// kBackward exp(i..). No info; kComplex is not for them.
///   fourier           a [m, n, k] complex -> out [m, n, k] complex
///   fourier_of_real   a [m, n, k] real -> out [m, n, k/2 + 1] complex, forward
///   fourier_to_real   a [m, n, k/2 + 1] complex -> out [m, n, k] real, backward; m = n = 1, and
///   the
///                     elements at 0 and, for an even k, at k/2 have imaginary parts of 0
enum class Routine : int32_t {
  cholesky,
  lu,
  lu_solve,
  triangular_solve,
  qr,
  orthogonal,
  symmetric_eigen,
  svd,
  ldl,
  ldl_solve,
  eigen,
  fourier,
  fourier_of_real,
  fourier_to_real
};
constexpr int kRoutines = 14;
/// True for Fourier transforms.
inline bool is_transform(Routine routine) { return routine >= Routine::fourier; }
enum SolverFlag : int64_t {
  kUpper = 1,      // the triangle that is read or made; else the lower one
  kTransposed = 2, // lu_solve, triangular_solve: of a's transpose, not conjugated
  kUnit = 4,       // triangular_solve: the diagonal is ones, and not read
  kFull = 8,       // svd: u and v' are square
  kVectors = 16,   // symmetric_eigen, svd, eigen: not values alone
  kComplex = 32,   // elements are pairs (re, im) of `dtype`
  kHermitian = 64, // ldl, ldl_solve of complex elements: a is its own adjoint, not its transpose
  kBackward = 128, // fourier: exp(i..)
};
constexpr int64_t kSolverFlags = 255; // all of them

struct SolverShape {
  Routine routine = Routine::cholesky;
  DType dtype = DType::f32;
  int64_t flags = 0;
  int64_t batch = 1, m = 0, n = 0, k = 0;
  bool has(SolverFlag flag) const { return (flags & flag) != 0; }
  int64_t least() const { return m < n ? m : n; }
};
/// What a routine does not have is null.
struct SolverMemory {
  const void *a = nullptr, *b = nullptr, *c = nullptr;
  void *out = nullptr, *second = nullptr, *third = nullptr, *info = nullptr;
};
/// Numbers of each operand of one matrix, in the order of SolverMemory; 0 for what is not there. A
/// complex element is two of them.
struct SolverExtents {
  int64_t a = 0, b = 0, c = 0, out = 0, second = 0, third = 0, info = 0;
};
SolverExtents solver_extents(const SolverShape &shape);

/// Throws where lu_solve (ldl_solve: `has_blocks`) could not have been given `pivots` [n] by a
/// factorization: libraries exchange the rows that they name without looking. Those of sytrf
/// (lower) are negative, and two of a kind, where D has a block of two rows.
void check_pivots(const int *pivots, int n, bool has_blocks);

} // namespace tsc_engine
