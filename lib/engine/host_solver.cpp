#include "engine/host_solver.h"

#include "engine/host_blas.h"

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstring>
#include <type_traits>
#include <vector>

namespace tsc_engine {
namespace {

template <class T> const LapackRoutines<T> &lapack();
[[noreturn]] void fail_without() {
  throw Error(Status::device, "linear algebra on the host needs LAPACK, which no library here has",
              "install OpenBLAS, and build tsc with it");
}
template <class T> const LapackRoutines<T> &found(const LapackRoutines<T> *HostBlas::*member) {
  const HostBlas *blas = host_blas();
  if (!blas || !(blas->*member))
    fail_without();
  return *(blas->*member);
}
template <> const LapackRoutines<float> &lapack() { return found(&HostBlas::lapack_f32); }
template <> const LapackRoutines<double> &lapack() { return found(&HostBlas::lapack_f64); }
template <> const LapackRoutines<std::complex<float>> &lapack() {
  return found(&HostBlas::lapack_c64);
}
template <> const LapackRoutines<std::complex<double>> &lapack() {
  return found(&HostBlas::lapack_c128);
}

/// One matrix of the batch.
template <class T> class Solver {
public:
  using Real = typename RealOf<T>::type;

  explicit Solver(const SolverShape &shape)
      : shape_(shape), lapack_(lapack<T>()), m_(static_cast<int>(shape.m)),
        n_(static_cast<int>(shape.n)), k_(static_cast<int>(shape.k)),
        uplo_(shape.has(kUpper) ? 'U' : 'L'), trans_(shape.has(kTransposed) ? 'T' : 'N') {}

  void run(const T *a, const void *b, const int *c, void *first, void *second, T *third,
           int *info) {
    T *out = static_cast<T *>(first);
    int unused = 0;
    info = info ? info : &unused;
    *info = 0;
    const SolverExtents extents = solver_extents(shape_);
    const int rows = std::max(m_, 1), order = std::max(n_, 1);
    const auto copied = [&](const void *from) {
      if (extents.out > 0)
        std::memcpy(out, from, static_cast<size_t>(extents.out) * sizeof(Real));
    };
    switch (shape_.routine) {
    case Routine::fourier:
    case Routine::fourier_of_real:
    case Routine::fourier_to_real:
      break; // host_fourier.cpp's
    case Routine::cholesky:
      copied(a);
      lapack_.potrf(uplo_, n_, out, order, info);
      break;
    case Routine::lu:
      copied(a);
      lapack_.getrf(m_, n_, out, rows, static_cast<int *>(second), info);
      break;
    case Routine::lu_solve:
      check_pivots(c, n_, false);
      copied(b);
      lapack_.getrs(trans_, n_, k_, a, order, c, out, order, info);
      break;
    case Routine::triangular_solve:
      copied(b);
      lapack_.trsm('L', uplo_, trans_, shape_.has(kUnit) ? 'U' : 'N', n_, k_, T(1), a, order, out,
                   order);
      break;
    case Routine::qr:
      copied(a);
      with_work([&](T *work, int size) {
        lapack_.geqrf(m_, n_, out, rows, static_cast<T *>(second), work, size, info);
      });
      break;
    case Routine::orthogonal:
      copied(a);
      with_work([&](T *work, int size) {
        lapack_.orgqr(m_, n_, k_, out, rows, static_cast<const T *>(b), work, size, info);
      });
      break;
    case Routine::symmetric_eigen:
      copied(a);
      symmetric_eigen(out, static_cast<Real *>(second), info);
      break;
    case Routine::svd:
      svd(a, out, static_cast<Real *>(second), third, info);
      break;
    case Routine::ldl:
      copied(a);
      with_work([&](T *work, int size) {
        (is_hermitian() ? lapack_.hetrf : lapack_.sytrf)(
            uplo_, n_, out, order, static_cast<int *>(second), work, size, info);
      });
      break;
    case Routine::ldl_solve:
      check_pivots(c, n_, true);
      copied(b);
      (is_hermitian() ? lapack_.hetrs : lapack_.sytrs)(uplo_, n_, k_, a, order, c, out, order,
                                                       info);
      break;
    case Routine::eigen:
      eigen(a, static_cast<std::complex<Real> *>(first), static_cast<std::complex<Real> *>(second),
            info);
      break;
    }
  }

private:
  bool is_hermitian() const { return shape_.has(kHermitian); }
  static size_t at_least_1(double size) { return std::max<size_t>(1, static_cast<size_t>(size)); }
  /// Calls `routine` to ask for the size of its work memory, then with that.
  template <class Call> void with_work(const Call &routine) {
    T size = 1;
    routine(&size, -1);
    work_.resize(at_least_1(std::real(size)));
    routine(work_.data(), static_cast<int>(work_.size()));
  }
  void symmetric_eigen(T *matrix, Real *values, int *info) {
    const char job = shape_.has(kVectors) ? 'V' : 'N';
    if (n_ == 0)
      return;
    T size = 0;
    Real reals = 0;
    int integers = 0;
    lapack_.syevd(job, uplo_, n_, matrix, n_, values, &size, -1, &reals, -1, &integers, -1, info);
    work_.resize(at_least_1(std::real(size)));
    reals_.resize(at_least_1(reals));
    integers_.resize(static_cast<size_t>(std::max(1, integers)));
    lapack_.syevd(job, uplo_, n_, matrix, n_, values, work_.data(), static_cast<int>(work_.size()),
                  reals_.data(), static_cast<int>(reals_.size()), integers_.data(),
                  static_cast<int>(integers_.size()), info);
  }
  void svd(const T *a, T *u, Real *values, T *v, int *info) {
    const auto least = static_cast<int>(shape_.least());
    const bool full = shape_.has(kFull);
    if (least == 0) {
      identity(u, m_, full ? m_ : 0);
      identity(v, full ? n_ : 0, n_);
      return;
    }
    std::vector<T> matrix(a, a + shape_.m * shape_.n); // destroyed
    integers_.resize(8 * static_cast<size_t>(least));
    if (shape_.has(kComplex)) { // LAPACK's bounds, of which older versions ask for the larger
      const auto p = static_cast<size_t>(least), q = static_cast<size_t>(std::max(m_, n_));
      reals_.resize(p * std::max(5 * p + 7, 2 * q + 2 * p + 1));
    }
    const char job = !shape_.has(kVectors) ? 'N' : full ? 'A' : 'S';
    with_work([&](T *work, int size) {
      lapack_.gesdd(job, m_, n_, matrix.data(), m_, values, u, m_, v, full ? n_ : least, work, size,
                    reals_.data(), integers_.data(), info);
    });
  }
  /// Of real matrices LAPACK gives complex vectors as two columns, for both values of a pair.
  void eigen(const T *a, std::complex<Real> *vectors, std::complex<Real> *values, int *info) {
    if (n_ == 0)
      return;
    const auto n = static_cast<size_t>(n_);
    std::vector<T> matrix(a, a + n * n), columns(n * n); // the first is destroyed
    if (!std::all_of(a, a + n * n, [](T x) {
          return std::isfinite(std::real(x)) && std::isfinite(std::imag(x));
        })) {
      std::fill_n(vectors, n * n, std::complex<Real>());
      std::fill_n(values, n, std::complex<Real>());
      *info = -1;
      return;
    }
    std::vector<Real> found(2 * n);
    reals_.resize(2 * n);
    with_work([&](T *work, int size) {
      lapack_.geev(shape_.has(kVectors) ? 'V' : 'N', n_, matrix.data(), n_, found.data(),
                   columns.data(), n_, work, size, reals_.data(), info);
    });
    constexpr bool is_complex = !std::is_same_v<T, Real>;
    for (size_t j = 0; j < n; ++j)
      values[j] = is_complex ? std::complex<Real>(found[2 * j], found[2 * j + 1])
                             : std::complex<Real>(found[j], found[n + j]);
    for (size_t j = 0; j < n; ++j) {
      const bool is_pair = !is_complex && std::imag(values[j]) != 0 && j + 1 < n;
      for (size_t i = 0; i < n; ++i) {
        const T x = columns[j * n + i];
        if (!is_pair) {
          vectors[j * n + i] = x;
          continue;
        }
        const Real re = std::real(x), im = std::real(columns[(j + 1) * n + i]);
        vectors[j * n + i] = {re, im};
        vectors[(j + 1) * n + i] = {re, -im};
      }
      j += is_pair ? 1 : 0;
    }
  }
  static void identity(T *matrix, int rows, int columns) {
    for (int j = 0; j < columns; ++j)
      for (int i = 0; i < rows; ++i)
        matrix[i + static_cast<int64_t>(j) * rows] = i == j ? T(1) : T(0);
  }

  const SolverShape shape_;
  const LapackRoutines<T> &lapack_;
  const int m_, n_, k_;
  const char uplo_, trans_;
  std::vector<T> work_;
  std::vector<Real> reals_;
  std::vector<int> integers_;
};

template <class T> void run_batch(const SolverShape &shape, const SolverMemory &memory) {
  Solver<T> solver(shape);
  const SolverExtents extents = solver_extents(shape);
  // Pivots and infos are integers of four bytes; b and second are of the matrices' type but there.
  const bool pivots = shape.routine == Routine::lu || shape.routine == Routine::ldl;
  const auto at = [](auto *memory, int64_t extent, size_t item, int64_t i) {
    using Byte = std::conditional_t<std::is_const_v<std::remove_pointer_t<decltype(memory)>>,
                                    const char, char>;
    return memory ? static_cast<decltype(memory)>(static_cast<Byte *>(memory) +
                                                  static_cast<size_t>(i * extent) * item)
                  : nullptr;
  };
  using Real = typename RealOf<T>::type;
  for (int64_t i = 0; i < shape.batch; ++i)
    solver.run(static_cast<const T *>(at(memory.a, extents.a, sizeof(Real), i)),
               at(memory.b, extents.b, sizeof(Real), i),
               static_cast<const int *>(at(memory.c, extents.c, sizeof(int), i)),
               at(memory.out, extents.out, sizeof(Real), i),
               at(memory.second, extents.second, pivots ? sizeof(int) : sizeof(Real), i),
               static_cast<T *>(at(memory.third, extents.third, sizeof(Real), i)),
               static_cast<int *>(at(memory.info, extents.info, sizeof(int), i)));
}

} // namespace

void host_solver(const SolverShape &shape, const SolverMemory &memory) {
  const bool is_complex = shape.has(kComplex);
  if (shape.dtype == DType::f32)
    return is_complex ? run_batch<std::complex<float>>(shape, memory)
                      : run_batch<float>(shape, memory);
  if (shape.dtype == DType::f64)
    return is_complex ? run_batch<std::complex<double>>(shape, memory)
                      : run_batch<double>(shape, memory);
  throw Error(Status::bad_argument, "linear algebra of an element type that LAPACK does not have");
}

} // namespace tsc_engine
