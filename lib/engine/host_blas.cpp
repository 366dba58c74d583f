#include "engine/host_blas.h"

#ifdef TSC_WITH_CBLAS
#include <cblas.h>
#endif

#ifdef TSC_WITH_LAPACK
#include <cstddef>

// Fortran's own names: libraries differ in whether they come with a header.
#define TSC_LAPACK_REAL(letter, T)                                                                 \
  extern "C" {                                                                                     \
  void letter##syevd_(const char *, const char *, const int *, T *, const int *, T *, T *,         \
                      const int *, int *, const int *, int *, size_t, size_t);                     \
  void letter##gesdd_(const char *, const int *, const int *, T *, const int *, T *, T *,          \
                      const int *, T *, const int *, T *, const int *, int *, int *, size_t);      \
  void letter##geev_(const char *, const char *, const int *, T *, const int *, T *, T *, T *,     \
                     const int *, T *, const int *, T *, const int *, int *, size_t, size_t);      \
  }                                                                                                \
  namespace {                                                                                      \
  void letter##_syevd(char job, char uplo, int n, T *a, int lda, T *w, T *work, int size, T *,     \
                      int, int *iwork, int isize, int *info) {                                     \
    letter##syevd_(&job, &uplo, &n, a, &lda, w, work, &size, iwork, &isize, info, 1, 1);           \
  }                                                                                                \
  void letter##_gesdd(char job, int m, int n, T *a, int lda, T *s, T *u, int ldu, T *vt, int ldvt, \
                      T *work, int size, T *, int *iwork, int *info) {                             \
    letter##gesdd_(&job, &m, &n, a, &lda, s, u, &ldu, vt, &ldvt, work, &size, iwork, info, 1);     \
  }                                                                                                \
  void letter##_geev(char job, int n, T *a, int lda, T *w, T *v, int ldv, T *work, int size, T *,  \
                     int *info) {                                                                  \
    const char none = 'N';                                                                         \
    letter##geev_(&none, &job, &n, a, &lda, w, w + n, v, &ldv, v, &ldv, work, &size, info, 1, 1);  \
  }                                                                                                \
  }
#define TSC_LAPACK_COMPLEX(letter, T, Real)                                                        \
  extern "C" {                                                                                     \
  void letter##heevd_(const char *, const char *, const int *, T *, const int *, Real *, T *,      \
                      const int *, Real *, const int *, int *, const int *, int *, size_t,         \
                      size_t);                                                                     \
  void letter##gesdd_(const char *, const int *, const int *, T *, const int *, Real *, T *,       \
                      const int *, T *, const int *, T *, const int *, Real *, int *, int *,       \
                      size_t);                                                                     \
  void letter##geev_(const char *, const char *, const int *, T *, const int *, T *, T *,          \
                     const int *, T *, const int *, T *, const int *, Real *, int *, size_t,       \
                     size_t);                                                                      \
  }                                                                                                \
  namespace {                                                                                      \
  void letter##_syevd(char job, char uplo, int n, T *a, int lda, Real *w, T *work, int size,       \
                      Real *rwork, int rsize, int *iwork, int isize, int *info) {                  \
    letter##heevd_(&job, &uplo, &n, a, &lda, w, work, &size, rwork, &rsize, iwork, &isize, info,   \
                   1, 1);                                                                          \
  }                                                                                                \
  void letter##_gesdd(char job, int m, int n, T *a, int lda, Real *s, T *u, int ldu, T *vt,        \
                      int ldvt, T *work, int size, Real *rwork, int *iwork, int *info) {           \
    letter##gesdd_(&job, &m, &n, a, &lda, s, u, &ldu, vt, &ldvt, work, &size, rwork, iwork, info,  \
                   1);                                                                             \
  }                                                                                                \
  void letter##_geev(char job, int n, T *a, int lda, Real *w, T *v, int ldv, T *work, int size,    \
                     Real *rwork, int *info) {                                                     \
    const char none = 'N';                                                                         \
    letter##geev_(&none, &job, &n, a, &lda, reinterpret_cast<T *>(w), v, &ldv, v, &ldv, work,      \
                  &size, rwork, info, 1, 1);                                                       \
  }                                                                                                \
  }
/// `gqr`, `hetrf` and `hetrs` are called otherwise of real and of complex elements.
#define TSC_LAPACK(letter, T, gqr, hetrf, hetrs)                                                   \
  extern "C" {                                                                                     \
  void letter##potrf_(const char *, const int *, T *, const int *, int *, size_t);                 \
  void letter##getrf_(const int *, const int *, T *, const int *, int *, int *);                   \
  void letter##getrs_(const char *, const int *, const int *, const T *, const int *, const int *, \
                      T *, const int *, int *, size_t);                                            \
  void letter##trsm_(const char *, const char *, const char *, const char *, const int *,          \
                     const int *, const T *, const T *, const int *, T *, const int *, size_t,     \
                     size_t, size_t, size_t);                                                      \
  void letter##geqrf_(const int *, const int *, T *, const int *, T *, T *, const int *, int *);   \
  void letter##gqr##_(const int *, const int *, const int *, T *, const int *, const T *, T *,     \
                      const int *, int *);                                                         \
  void letter##sytrf_(const char *, const int *, T *, const int *, int *, T *, const int *, int *, \
                      size_t);                                                                     \
  void letter##sytrs_(const char *, const int *, const int *, const T *, const int *, const int *, \
                      T *, const int *, int *, size_t);                                            \
  void letter##hetrf##_(const char *, const int *, T *, const int *, int *, T *, const int *,      \
                        int *, size_t);                                                            \
  void letter##hetrs##_(const char *, const int *, const int *, const T *, const int *,            \
                        const int *, T *, const int *, int *, size_t);                             \
  }                                                                                                \
  namespace {                                                                                      \
  constexpr tsc_engine::LapackRoutines<T> letter##_lapack = {                                      \
      [](char uplo, int n, T *a, int lda, int *info) {                                             \
        letter##potrf_(&uplo, &n, a, &lda, info, 1);                                               \
      },                                                                                           \
      [](int m, int n, T *a, int lda, int *pivots, int *info) {                                    \
        letter##getrf_(&m, &n, a, &lda, pivots, info);                                             \
      },                                                                                           \
      [](char trans, int n, int k, const T *a, int lda, const int *pivots, T *b, int ldb,          \
         int *info) { letter##getrs_(&trans, &n, &k, a, &lda, pivots, b, &ldb, info, 1); },        \
      [](char side, char uplo, char trans, char diag, int m, int n, T alpha, const T *a, int lda,  \
         T *b, int ldb) {                                                                          \
        letter##trsm_(&side, &uplo, &trans, &diag, &m, &n, &alpha, a, &lda, b, &ldb, 1, 1, 1, 1);  \
      },                                                                                           \
      [](int m, int n, T *a, int lda, T *tau, T *work, int size, int *info) {                      \
        letter##geqrf_(&m, &n, a, &lda, tau, work, &size, info);                                   \
      },                                                                                           \
      [](int m, int n, int k, T *a, int lda, const T *tau, T *work, int size, int *info) {         \
        letter##gqr##_(&m, &n, &k, a, &lda, tau, work, &size, info);                               \
      },                                                                                           \
      [](char uplo, int n, T *a, int lda, int *pivots, T *work, int size, int *info) {             \
        letter##sytrf_(&uplo, &n, a, &lda, pivots, work, &size, info, 1);                          \
      },                                                                                           \
      [](char uplo, int n, int k, const T *a, int lda, const int *pivots, T *b, int ldb,           \
         int *info) { letter##sytrs_(&uplo, &n, &k, a, &lda, pivots, b, &ldb, info, 1); },         \
      [](char uplo, int n, T *a, int lda, int *pivots, T *work, int size, int *info) {             \
        letter##hetrf##_(&uplo, &n, a, &lda, pivots, work, &size, info, 1);                        \
      },                                                                                           \
      [](char uplo, int n, int k, const T *a, int lda, const int *pivots, T *b, int ldb,           \
         int *info) { letter##hetrs##_(&uplo, &n, &k, a, &lda, pivots, b, &ldb, info, 1); },       \
      letter##_syevd,                                                                              \
      letter##_gesdd,                                                                              \
      letter##_geev,                                                                               \
  };                                                                                               \
  }
TSC_LAPACK_REAL(s, float)
TSC_LAPACK_REAL(d, double)
TSC_LAPACK_COMPLEX(c, std::complex<float>, float)
TSC_LAPACK_COMPLEX(z, std::complex<double>, double)
TSC_LAPACK(s, float, orgqr, sytrf, sytrs)
TSC_LAPACK(d, double, orgqr, sytrf, sytrs)
TSC_LAPACK(c, std::complex<float>, ungqr, hetrf, hetrs)
TSC_LAPACK(z, std::complex<double>, ungqr, hetrf, hetrs)
#undef TSC_LAPACK
#undef TSC_LAPACK_COMPLEX
#undef TSC_LAPACK_REAL
#endif

namespace tsc_engine {

#ifdef TSC_WITH_CBLAS
namespace {

CBLAS_TRANSPOSE flag(bool transpose) { return transpose ? CblasTrans : CblasNoTrans; }

constexpr HostBlas kBlas = {
    [](bool transpose_a, bool transpose_b, int m, int n, int k, float alpha, const float *a,
       int lda, const float *b, int ldb, float beta, float *out, int ldo) {
      cblas_sgemm(CblasRowMajor, flag(transpose_a), flag(transpose_b), m, n, k, alpha, a, lda, b,
                  ldb, beta, out, ldo);
    },
    [](bool transpose_a, bool transpose_b, int m, int n, int k, double alpha, const double *a,
       int lda, const double *b, int ldb, double beta, double *out, int ldo) {
      cblas_dgemm(CblasRowMajor, flag(transpose_a), flag(transpose_b), m, n, k, alpha, a, lda, b,
                  ldb, beta, out, ldo);
    },
#ifdef TSC_WITH_LAPACK
    &s_lapack,
    &d_lapack,
    &c_lapack,
    &z_lapack,
#else
    nullptr,
    nullptr,
    nullptr,
    nullptr,
#endif
};

} // namespace

const HostBlas *host_blas() { return &kBlas; }
#else
const HostBlas *host_blas() { return nullptr; }
#endif

} // namespace tsc_engine
