// Linear algebra of many small matrices: factorizations and solutions as LAPACK has them
// (engine/solver.h says of each routine what its operands are), of real numbers. Matrices lie
// column by column, one after another.
//
// `tc_matrix_lanes` neighbouring lanes share a matrix: each holds a row of it in registers, of a
// size that is known when the kernel is compiled, and gets the other rows' elements by shuffles.
// All lanes of a warp take the same way: what one of them has nothing to do with is selected away.
#pragma once

#include "tsc_prelude.h"

/// Lanes that share a matrix of so many rows, at most 32.
static constexpr int tc_matrix_most = 32;
TC_FN constexpr int tc_matrix_lanes(int rows) {
  int lanes = 1;
  while (lanes < rows)
    lanes *= 2;
  return lanes;
}

// ---- alone: one matrix after the other, on one thread

/// Element (row, column) of matrix `n` of those at `a`.
template <int Rows, int Columns, class T>
TC_FN T &tc_matrix_at(T *a, long long n, int row, int column) {
  return a[(n * Columns + column) * Rows + row];
}

template <int M, int N, class T>
TC_FN void tc_matrix_lu_alone(const T *a, T *out, int *pivots, int *info, long long batch) {
  constexpr int steps = M < N ? M : N;
  for (long long i = 0; i < batch * M * N; ++i)
    out[i] = a[i];
  for (long long n = 0; n < batch; ++n) {
    info[n] = 0;
    for (int j = 0; j < steps; ++j) {
      int found = j;
      for (int row = j + 1; row < M; ++row)
        if (tc_abs(tc_matrix_at<M, N>(out, n, row, j)) >
            tc_abs(tc_matrix_at<M, N>(out, n, found, j)))
          found = row;
      pivots[n * steps + j] = found + 1;
      for (int k = 0; k < N && found != j; ++k) {
        const T x = tc_matrix_at<M, N>(out, n, j, k);
        tc_matrix_at<M, N>(out, n, j, k) = tc_matrix_at<M, N>(out, n, found, k);
        tc_matrix_at<M, N>(out, n, found, k) = x;
      }
      const T pivot = tc_matrix_at<M, N>(out, n, j, j);
      if (pivot == T(0) && info[n] == 0)
        info[n] = j + 1;
      for (int row = j + 1; row < M; ++row) {
        T &factor = tc_matrix_at<M, N>(out, n, row, j);
        factor = pivot != T(0) ? factor / pivot : factor;
        for (int k = j + 1; k < N; ++k)
          tc_matrix_at<M, N>(out, n, row, k) -= factor * tc_matrix_at<M, N>(out, n, j, k);
      }
    }
  }
}

/// x of op(a) x = y in place of y, for a triangle of a: `Lower` is that of op(a), op its transpose
/// if `Transposed`.
template <int N, bool Lower, bool Transposed, bool Unit, class T>
TC_FN void tc_matrix_substitute_alone(const T *a, long long n, T *y) {
  for (int step = 0; step < N; ++step) {
    const int i = Lower ? step : N - 1 - step;
    if (!Unit)
      y[i] /= tc_matrix_at<N, N>(a, n, i, i);
    for (int row = Lower ? i + 1 : 0; row < (Lower ? N : i); ++row)
      y[row] -=
          (Transposed ? tc_matrix_at<N, N>(a, n, i, row) : tc_matrix_at<N, N>(a, n, row, i)) * y[i];
  }
}

template <int N, bool Transposed, class T>
TC_FN void tc_matrix_lu_solve_alone(const T *a, const T *b, const int *pivots, T *out,
                                    long long columns, long long batch) {
  for (long long n = 0; n < batch; ++n) {
    int from[N]; // row of the matrix that was factored
    for (int i = 0; i < N; ++i)
      from[i] = i;
    for (int i = 0; i < N; ++i) {
      int with = pivots[n * N + i] - 1;
      with = with < 0 ? 0 : with >= N ? N - 1 : with;
      const int was = from[i];
      from[i] = from[with];
      from[with] = was;
    }
    for (long long k = 0; k < columns; ++k) {
      const T *given = b + (n * columns + k) * N;
      T *x = out + (n * columns + k) * N, y[N];
      for (int i = 0; i < N; ++i)
        y[i] = given[Transposed ? i : from[i]];
      tc_matrix_substitute_alone<N, true, Transposed, !Transposed>(a, n, y);
      tc_matrix_substitute_alone<N, false, Transposed, Transposed>(a, n, y);
      for (int i = 0; i < N; ++i)
        x[Transposed ? from[i] : i] = y[i];
    }
  }
}

template <int N, bool Upper, bool Transposed, bool Unit, class T>
TC_FN void tc_matrix_triangular_solve_alone(const T *a, const T *b, T *out, long long columns,
                                            long long batch) {
  for (long long n = 0; n < batch; ++n)
    for (long long k = n * columns; k < (n + 1) * columns; ++k) {
      for (int i = 0; i < N; ++i)
        out[k * N + i] = b[k * N + i];
      tc_matrix_substitute_alone<N, Upper == Transposed, Transposed, Unit>(a, n, out + k * N);
    }
}

template <int N, bool Upper, class T>
TC_FN void tc_matrix_cholesky_alone(const T *a, T *out, int *info, long long batch) {
  for (long long i = 0; i < batch * N * N; ++i)
    out[i] = a[i];
  for (long long n = 0; n < batch; ++n) {
    const auto at = [&](int row, int column) -> T & { // of the lower factor
      return Upper ? tc_matrix_at<N, N>(out, n, column, row)
                   : tc_matrix_at<N, N>(out, n, row, column);
    };
    info[n] = 0;
    for (int j = 0; j < N && info[n] == 0; ++j) {
      if (!(at(j, j) > T(0))) {
        info[n] = j + 1;
        break;
      }
      const T root = tc_sqrt(at(j, j));
      at(j, j) = root;
      for (int row = j + 1; row < N; ++row)
        at(row, j) /= root;
      for (int k = j + 1; k < N; ++k)
        for (int row = k; row < N; ++row)
          at(row, k) -= at(row, j) * at(k, j);
    }
  }
}

/// A reflection that leads (first, rest) to (beta, 0): its factor, what `rest` is multiplied by,
/// and beta. `most` is the largest magnitude of rest, `squares` the sum of squares of rest / most.
template <class T> struct tc_reflection {
  T factor, scale, beta;
  TC_MEMBER tc_reflection(T first, T most, T squares) : factor(0), scale(1), beta(first) {
    if (most == T(0))
      return;
    const T larger = tc_abs(first) > most ? tc_abs(first) : most, part = first / larger,
            rest = most / larger, norm = larger * tc_sqrt(part * part + rest * rest * squares);
    beta = first > T(0) ? -norm : norm;
    factor = (beta - first) / beta;
    scale = T(1) / (first - beta);
  }
};

template <int M, int N, class T>
TC_FN void tc_matrix_qr_alone(const T *a, T *out, T *factors, long long batch) {
  constexpr int steps = M < N ? M : N;
  for (long long i = 0; i < batch * M * N; ++i)
    out[i] = a[i];
  for (long long n = 0; n < batch; ++n)
    for (int j = 0; j < steps; ++j) {
      T most = 0, squares = 0;
      for (int row = j + 1; row < M; ++row) {
        const T size = tc_abs(tc_matrix_at<M, N>(out, n, row, j));
        most = size > most ? size : most;
      }
      for (int row = j + 1; row < M && most != T(0); ++row) {
        const T part = tc_matrix_at<M, N>(out, n, row, j) / most;
        squares += part * part;
      }
      const tc_reflection<T> reflection(tc_matrix_at<M, N>(out, n, j, j), most, squares);
      tc_matrix_at<M, N>(out, n, j, j) = reflection.beta;
      factors[n * steps + j] = reflection.factor;
      for (int row = j + 1; row < M; ++row)
        tc_matrix_at<M, N>(out, n, row, j) *= reflection.scale;
      for (int k = j + 1; k < N; ++k) {
        T sum = tc_matrix_at<M, N>(out, n, j, k);
        for (int row = j + 1; row < M; ++row)
          sum += tc_matrix_at<M, N>(out, n, row, j) * tc_matrix_at<M, N>(out, n, row, k);
        sum *= reflection.factor;
        tc_matrix_at<M, N>(out, n, j, k) -= sum;
        for (int row = j + 1; row < M; ++row)
          tc_matrix_at<M, N>(out, n, row, k) -= sum * tc_matrix_at<M, N>(out, n, row, j);
      }
    }
}

template <int M, int N, int K, class T>
TC_FN void tc_matrix_orthogonal_alone(const T *a, const T *factors, T *out, long long batch) {
  for (long long n = 0; n < batch; ++n) {
    for (int k = 0; k < N; ++k)
      for (int row = 0; row < M; ++row)
        tc_matrix_at<M, N>(out, n, row, k) = T(row == k ? 1 : 0);
    for (int j = K - 1; j >= 0; --j)
      for (int k = j; k < N; ++k) {
        T sum = tc_matrix_at<M, N>(out, n, j, k);
        for (int row = j + 1; row < M; ++row)
          sum += tc_matrix_at<M, N>(a, n, row, j) * tc_matrix_at<M, N>(out, n, row, k);
        sum *= factors[n * K + j];
        tc_matrix_at<M, N>(out, n, j, k) -= sum;
        for (int row = j + 1; row < M; ++row)
          tc_matrix_at<M, N>(out, n, row, k) -= sum * tc_matrix_at<M, N>(a, n, row, j);
      }
  }
}

// ---- lanes together

/// A lane of the group that shares matrix `n`, and its row. Groups behind the batch compute the
/// last matrix and store nothing.
template <int Rows> struct tc_matrix_lane {
  static constexpr int lanes = tc_matrix_lanes(Rows);
  static_assert(Rows <= tc_matrix_most, "a row is a lane's");
  long long n;
  int row;
  bool has_row, stores;

  TC_MEMBER explicit tc_matrix_lane(long long batch) {
    const long long thread = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
    n = thread / lanes;
    row = static_cast<int>(threadIdx.x) % lanes;
    has_row = row < Rows;
    stores = has_row && n < batch;
    n = n < batch ? n : batch - 1;
  }
  /// The value that lane `from` of the group has.
  template <class T> TC_MEMBER static T of(T x, int from) {
    return __shfl_sync(0xffffffffu, x, from, lanes);
  }
  template <class T> TC_MEMBER static T sum(T x) {
    TC_UNROLL
    for (int apart = lanes / 2; apart > 0; apart /= 2)
      x += tc_shfl_xor(x, apart);
    return x;
  }
  template <class T> TC_MEMBER static T most(T x) {
    TC_UNROLL
    for (int apart = lanes / 2; apart > 0; apart /= 2) {
      const T other = tc_shfl_xor(x, apart);
      x = other > x ? other : x;
    }
    return x;
  }
};

template <int M, int N, class T>
TC_FN void tc_matrix_lu(const T *a, T *out, int *pivots, int *info, long long batch) {
  using lane = tc_matrix_lane<M>;
  constexpr int steps = M < N ? M : N;
  const lane self(batch);
  T x[N];
  TC_UNROLL
  for (int k = 0; k < N; ++k)
    x[k] = self.has_row ? tc_matrix_at<M, N>(a, self.n, self.row, k) : T(0);
  int place = self.row, failed = 0; // rows are not moved: each knows its place
  TC_UNROLL
  for (int j = 0; j < steps; ++j) {
    T most = place >= j && self.has_row ? tc_abs(x[j]) : T(-1);
    int found = place * 32 + self.row; // the first of equals by its place
    TC_UNROLL
    for (int apart = lane::lanes / 2; apart > 0; apart /= 2) {
      const T other = tc_shfl_xor(most, apart);
      const int where = tc_shfl_xor(found, apart);
      if (other > most || (other == most && where < found)) {
        most = other;
        found = where;
      }
    }
    found = lane::of(found, 0); // of one mind, also where there are NaN
    const int owner = found % 32, from = found / 32;
    if (self.stores && self.row == 0)
      pivots[self.n * steps + j] = from + 1;
    place = self.row == owner ? j : place == j ? from : place;
    const T pivot = lane::of(x[j], owner);
    failed = failed == 0 && pivot == T(0) ? j + 1 : failed;
    const bool below = place > j && pivot != T(0);
    x[j] = below ? x[j] / pivot : x[j];
    TC_UNROLL
    for (int k = j + 1; k < N; ++k) {
      const T above = lane::of(x[k], owner);
      x[k] = below ? x[k] - x[j] * above : x[k];
    }
  }
  if (!self.stores)
    return;
  if (self.row == 0)
    info[self.n] = failed;
  TC_UNROLL
  for (int k = 0; k < N; ++k)
    tc_matrix_at<M, N>(out, self.n, place, k) = x[k];
}

static constexpr int tc_matrix_together = 4; // right sides

/// As tc_matrix_substitute_alone, of several right sides: m is the lane's row of op(a), y its
/// elements of them.
template <int N, bool Lower, bool Unit, class T>
TC_FN void tc_matrix_substitute(const T (&m)[N], T (&y)[tc_matrix_together],
                                const tc_matrix_lane<N> &self) {
  TC_UNROLL
  for (int step = 0; step < N; ++step) {
    const int i = Lower ? step : N - 1 - step;
    const bool follows = Lower ? self.row > i : self.row < i;
    TC_UNROLL
    for (int c = 0; c < tc_matrix_together; ++c) {
      if (!Unit)
        y[c] = self.row == i ? y[c] / m[i] : y[c];
      const T known = tc_matrix_lane<N>::of(y[c], i);
      y[c] = follows ? y[c] - m[i] * known : y[c];
    }
  }
}

/// The lane's row of a matrix, or of its transpose.
template <int N, bool Transposed, class T>
TC_FN void tc_matrix_row(const T *a, const tc_matrix_lane<N> &self, T (&m)[N]) {
  TC_UNROLL
  for (int i = 0; i < N; ++i)
    m[i] = !self.has_row ? T(0)
           : Transposed  ? tc_matrix_at<N, N>(a, self.n, i, self.row)
                         : tc_matrix_at<N, N>(a, self.n, self.row, i);
}

/// What substitute(y) makes of all right sides: lane `i` reads row `from`, and stores row `to`.
template <int N, class T, class Substitute>
TC_FN void tc_matrix_columns(const T *b, T *out, long long columns, int from, int to,
                             const tc_matrix_lane<N> &self, const Substitute &substitute) {
  for (long long k = 0; k < columns; k += tc_matrix_together) {
    T y[tc_matrix_together];
    TC_UNROLL
    for (int c = 0; c < tc_matrix_together; ++c)
      y[c] = self.has_row && k + c < columns ? b[(self.n * columns + k + c) * N + from] : T(0);
    substitute(y);
    TC_UNROLL
    for (int c = 0; c < tc_matrix_together; ++c)
      if (self.stores && k + c < columns)
        out[(self.n * columns + k + c) * N + to] = y[c];
  }
}

template <int N, bool Transposed, class T>
TC_FN void tc_matrix_lu_solve(const T *a, const T *b, const int *pivots, T *out, long long columns,
                              long long batch) {
  using lane = tc_matrix_lane<N>;
  const lane self(batch);
  T m[N];
  tc_matrix_row<N, Transposed>(a, self, m);
  int from = self.row; // row of the matrix that was factored
  TC_UNROLL
  for (int i = 0; i < N; ++i) {
    int with = pivots[self.n * N + i] - 1;
    with = with < 0 ? 0 : with >= N ? N - 1 : with;
    const int here = lane::of(from, i), there = lane::of(from, with);
    from = self.row == i ? there : self.row == with ? here : from;
  }
  tc_matrix_columns<N>(b, out, columns, Transposed ? self.row : from, Transposed ? from : self.row,
                       self, [&](T(&y)[tc_matrix_together]) {
                         tc_matrix_substitute<N, true, !Transposed>(m, y, self);
                         tc_matrix_substitute<N, false, Transposed>(m, y, self);
                       });
}

template <int N, bool Upper, bool Transposed, bool Unit, class T>
TC_FN void tc_matrix_triangular_solve(const T *a, const T *b, T *out, long long columns,
                                      long long batch) {
  const tc_matrix_lane<N> self(batch);
  T m[N];
  tc_matrix_row<N, Transposed>(a, self, m);
  tc_matrix_columns<N>(b, out, columns, self.row, self.row, self, [&](T(&y)[tc_matrix_together]) {
    tc_matrix_substitute<N, Upper == Transposed, Unit>(m, y, self);
  });
}

template <int N, bool Upper, class T>
TC_FN void tc_matrix_cholesky(const T *a, T *out, int *info, long long batch) {
  using lane = tc_matrix_lane<N>;
  const lane self(batch);
  T x[N]; // a row of the lower factor, and of what is left as it is
  tc_matrix_row<N, Upper>(a, self, x);
  int failed = 0;
  TC_UNROLL
  for (int j = 0; j < N; ++j) {
    const T square = lane::of(x[j], j);
    failed = failed == 0 && !(square > T(0)) ? j + 1 : failed;
    const T root = tc_sqrt(square);
    if (failed == 0)
      x[j] = self.row == j ? root : self.row > j ? x[j] / root : x[j];
    TC_UNROLL
    for (int k = j + 1; k < N; ++k) {
      const T factor = lane::of(x[j], k);
      x[k] = failed == 0 && self.row >= k ? x[k] - x[j] * factor : x[k];
    }
  }
  if (!self.stores)
    return;
  if (self.row == 0)
    info[self.n] = failed;
  TC_UNROLL
  for (int k = 0; k < N; ++k)
    tc_matrix_at<N, N>(out, self.n, Upper ? k : self.row, Upper ? self.row : k) = x[k];
}

template <int M, int N, class T>
TC_FN void tc_matrix_qr(const T *a, T *out, T *factors, long long batch) {
  using lane = tc_matrix_lane<M>;
  constexpr int steps = M < N ? M : N;
  const lane self(batch);
  T x[N];
  TC_UNROLL
  for (int k = 0; k < N; ++k)
    x[k] = self.has_row ? tc_matrix_at<M, N>(a, self.n, self.row, k) : T(0);
  TC_UNROLL
  for (int j = 0; j < steps; ++j) {
    const bool below = self.row > j;
    const T most = lane::most(below ? tc_abs(x[j]) : T(0));
    const T part = below && most != T(0) ? x[j] / most : T(0);
    const T squares = lane::sum(part * part);
    const tc_reflection<T> reflection(lane::of(x[j], j), most, squares);
    x[j] = self.row == j ? reflection.beta : below ? x[j] * reflection.scale : x[j];
    if (self.stores && self.row == j)
      factors[self.n * steps + j] = reflection.factor;
    const T v = self.row == j ? T(1) : below ? x[j] : T(0);
    TC_UNROLL
    for (int k = j + 1; k < N; ++k)
      x[k] -= reflection.factor * lane::sum(v * x[k]) * v;
  }
  TC_UNROLL
  for (int k = 0; k < N; ++k)
    if (self.stores)
      tc_matrix_at<M, N>(out, self.n, self.row, k) = x[k];
}

template <int M, int N, int K, class T>
TC_FN void tc_matrix_orthogonal(const T *a, const T *factors, T *out, long long batch) {
  using lane = tc_matrix_lane<M>;
  const lane self(batch);
  T q[N];
  TC_UNROLL
  for (int k = 0; k < N; ++k)
    q[k] = T(self.row == k ? 1 : 0);
  TC_UNROLL
  for (int j = K - 1; j >= 0; --j) {
    const T given = self.has_row ? tc_matrix_at<M, N>(a, self.n, self.row, j) : T(0);
    const T v = self.row == j ? T(1) : self.row > j ? given : T(0);
    const T factor = factors[self.n * K + j];
    TC_UNROLL
    for (int k = j; k < N; ++k)
      q[k] -= factor * lane::sum(v * q[k]) * v;
  }
  TC_UNROLL
  for (int k = 0; k < N; ++k)
    if (self.stores)
      tc_matrix_at<M, N>(out, self.n, self.row, k) = q[k];
}
