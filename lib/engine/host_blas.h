// Products of matrices and linear algebra by a library with CBLAS and LAPACK, where there is one.
#pragma once

#include <complex>

namespace tsc_engine {

/// float of std::complex<float>, double of double.
template <class T> struct RealOf { using type = T; };
template <class T> struct RealOf<std::complex<T>> { using type = T; };

/// LAPACK's routines of one element type, by the names of real ones without the type's letter
/// (orgqr is ungqr of complex elements, syevd heevd), as Fortran has them: all by address, matrices
/// by columns. Its hidden lengths of texts, all 1, are put in. `rwork` is of complex elements
/// alone.
template <class T> struct LapackRoutines {
  using Int = int;
  using Real = typename RealOf<T>::type;
  void (*potrf)(char uplo, Int n, T *a, Int lda, Int *info);
  void (*getrf)(Int m, Int n, T *a, Int lda, Int *pivots, Int *info);
  void (*getrs)(char trans, Int n, Int k, const T *a, Int lda, const Int *pivots, T *b, Int ldb,
                Int *info);
  void (*trsm)(char side, char uplo, char trans, char diag, Int m, Int n, T alpha, const T *a,
               Int lda, T *b, Int ldb);
  void (*geqrf)(Int m, Int n, T *a, Int lda, T *tau, T *work, Int size, Int *info);
  void (*orgqr)(Int m, Int n, Int k, T *a, Int lda, const T *tau, T *work, Int size, Int *info);
  void (*sytrf)(char uplo, Int n, T *a, Int lda, Int *pivots, T *work, Int size, Int *info);
  void (*sytrs)(char uplo, Int n, Int k, const T *a, Int lda, const Int *pivots, T *b, Int ldb,
                Int *info);
  void (*hetrf)(char uplo, Int n, T *a, Int lda, Int *pivots, T *work, Int size, Int *info);
  void (*hetrs)(char uplo, Int n, Int k, const T *a, Int lda, const Int *pivots, T *b, Int ldb,
                Int *info);
  void (*syevd)(char job, char uplo, Int n, T *a, Int lda, Real *w, T *work, Int size, Real *rwork,
                Int rsize, Int *iwork, Int isize, Int *info);
  void (*gesdd)(char job, Int m, Int n, T *a, Int lda, Real *s, T *u, Int ldu, T *vt, Int ldvt,
                T *work, Int size, Real *rwork, Int *iwork, Int *info);
  /// Right vectors alone. `w` has 2 n numbers: of real elements all real parts first, of complex
  /// ones the parts of each value.
  void (*geev)(char job, Int n, T *a, Int lda, Real *w, T *v, Int ldv, T *work, Int size,
               Real *rwork, Int *info);
};

/// Row-major out = alpha op(a) op(b) + beta out, with leading dimensions, as CBLAS has it.
struct HostBlas {
  void (*sgemm)(bool transpose_a, bool transpose_b, int m, int n, int k, float alpha,
                const float *a, int lda, const float *b, int ldb, float beta, float *out, int ldo);
  void (*dgemm)(bool transpose_a, bool transpose_b, int m, int n, int k, double alpha,
                const double *a, int lda, const double *b, int ldb, double beta, double *out,
                int ldo);
  /// Null where the library was linked without LAPACK.
  const LapackRoutines<float> *lapack_f32;
  const LapackRoutines<double> *lapack_f64;
  const LapackRoutines<std::complex<float>> *lapack_c64;
  const LapackRoutines<std::complex<double>> *lapack_c128;
};

/// Null if there is none: products are then loops of our own. The first call may start its threads.
const HostBlas *host_blas();

} // namespace tsc_engine
