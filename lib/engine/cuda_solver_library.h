// cuSOLVER and cuBLAS as routines of linear algebra need them: loaded with the first use, by
// element type. Included where both libraries' headers are.
#pragma once

#include "engine/cuda_error.h"
#include "engine/cuda_library.h"
#include "engine/solver.h"

#include <cublas_v2.h>
#include <cusolverDn.h>
#include <string>

namespace tsc_engine {

/// An element type: what its parts are, and how 1 is written.
template <class T> struct Element {
  using Real = T;
  static constexpr bool kIsComplex = false;
  static T one() { return 1; }
};
template <> struct Element<cuComplex> {
  using Real = float;
  static constexpr bool kIsComplex = true;
  static cuComplex one() { return {1, 0}; }
};
template <> struct Element<cuDoubleComplex> {
  using Real = double;
  static constexpr bool kIsComplex = true;
  static cuDoubleComplex one() { return {1, 0}; }
};

/// Routines of one element type: cuSOLVER's, which are given column-major matrices one at a time,
/// and two of cuBLAS. `gqr` and `evd` are called otherwise of real and of complex elements.
template <class T> struct Routines;
#define TSC_ROUTINES(letter, T, gqr, evd)                                                          \
  template <> struct Routines<T> {                                                                 \
    decltype(&cusolverDn##letter##potrf_bufferSize) potrf_size;                                    \
    decltype(&cusolverDn##letter##potrf) potrf;                                                    \
    decltype(&cusolverDn##letter##getrf_bufferSize) getrf_size;                                    \
    decltype(&cusolverDn##letter##getrf) getrf;                                                    \
    decltype(&cusolverDn##letter##getrs) getrs;                                                    \
    decltype(&cusolverDn##letter##geqrf_bufferSize) geqrf_size;                                    \
    decltype(&cusolverDn##letter##geqrf) geqrf;                                                    \
    decltype(&cusolverDn##letter##gqr##_bufferSize) orgqr_size;                                    \
    decltype(&cusolverDn##letter##gqr) orgqr;                                                      \
    decltype(&cusolverDn##letter##evd##_bufferSize) syevd_size;                                    \
    decltype(&cusolverDn##letter##evd) syevd;                                                      \
    decltype(&cusolverDn##letter##sytrf_bufferSize) sytrf_size;                                    \
    decltype(&cusolverDn##letter##sytrf) sytrf;                                                    \
    decltype(&cusolverDn##letter##gesvdj_bufferSize) gesvdj_size;                                  \
    decltype(&cusolverDn##letter##gesvdj) gesvdj;                                                  \
    decltype(&cublas##letter##trsm_v2) trsm;                                                       \
    decltype(&cublas##letter##geam) geam;                                                          \
    decltype(&cusolverDn##letter##potrfBatched) potrf_batched;                                     \
    decltype(&cusolverDn##letter##gesvdjBatched_bufferSize) gesvdj_batched_size;                   \
    decltype(&cusolverDn##letter##gesvdjBatched) gesvdj_batched;                                   \
    decltype(&cublas##letter##getrfBatched) getrf_batched;                                         \
    decltype(&cublas##letter##getrsBatched) getrs_batched;                                         \
    decltype(&cublas##letter##trsmBatched) trsm_batched;                                           \
    decltype(&cublas##letter##geqrfBatched) geqrf_batched;                                         \
    decltype(&cublas##letter##gemmStridedBatched) gemm_batched;                                    \
    Routines(const CudaLibrary &solver, const CudaLibrary &blas) {                                 \
      solver.find(potrf_size, "cusolverDn" #letter "potrf_bufferSize");                            \
      solver.find(potrf, "cusolverDn" #letter "potrf");                                            \
      solver.find(getrf_size, "cusolverDn" #letter "getrf_bufferSize");                            \
      solver.find(getrf, "cusolverDn" #letter "getrf");                                            \
      solver.find(getrs, "cusolverDn" #letter "getrs");                                            \
      solver.find(geqrf_size, "cusolverDn" #letter "geqrf_bufferSize");                            \
      solver.find(geqrf, "cusolverDn" #letter "geqrf");                                            \
      solver.find(orgqr_size, "cusolverDn" #letter #gqr "_bufferSize");                            \
      solver.find(orgqr, "cusolverDn" #letter #gqr);                                               \
      solver.find(syevd_size, "cusolverDn" #letter #evd "_bufferSize");                            \
      solver.find(syevd, "cusolverDn" #letter #evd);                                               \
      solver.find(sytrf_size, "cusolverDn" #letter "sytrf_bufferSize");                            \
      solver.find(sytrf, "cusolverDn" #letter "sytrf");                                            \
      solver.find(gesvdj_size, "cusolverDn" #letter "gesvdj_bufferSize");                          \
      solver.find(gesvdj, "cusolverDn" #letter "gesvdj");                                          \
      blas.find(trsm, "cublas" #letter "trsm_v2");                                                 \
      blas.find(geam, "cublas" #letter "geam");                                                    \
      solver.find(potrf_batched, "cusolverDn" #letter "potrfBatched");                             \
      solver.find(gesvdj_batched_size, "cusolverDn" #letter "gesvdjBatched_bufferSize");           \
      solver.find(gesvdj_batched, "cusolverDn" #letter "gesvdjBatched");                           \
      blas.find(getrf_batched, "cublas" #letter "getrfBatched");                                   \
      blas.find(getrs_batched, "cublas" #letter "getrsBatched");                                   \
      blas.find(trsm_batched, "cublas" #letter "trsmBatched");                                     \
      blas.find(geqrf_batched, "cublas" #letter "geqrfBatched");                                   \
      blas.find(gemm_batched, "cublas" #letter "gemmStridedBatched");                              \
    }                                                                                              \
  };
TSC_ROUTINES(S, float, orgqr, syevd)
TSC_ROUTINES(D, double, orgqr, syevd)
TSC_ROUTINES(C, cuComplex, ungqr, heevd)
TSC_ROUTINES(Z, cuDoubleComplex, ungqr, heevd)
#undef TSC_ROUTINES

struct Libraries {
  CudaLibrary solver{"cusolver", CUSOLVER_VER_MAJOR};
  CudaLibrary blas{"cublas", CUDART_VERSION / 1000};
  decltype(&cusolverDnCreate) create_solver;
  decltype(&cusolverDnDestroy) destroy_solver;
  decltype(&cusolverDnSetStream) set_solver_stream;
  decltype(&cusolverDnCreateGesvdjInfo) create_jacobi;
  decltype(&cusolverDnDestroyGesvdjInfo) destroy_jacobi;
  decltype(&cublasCreate_v2) create_blas;
  decltype(&cublasDestroy_v2) destroy_blas;
  decltype(&cublasSetStream_v2) set_blas_stream;
  Routines<float> f32{solver, blas};
  Routines<double> f64{solver, blas};
  Routines<cuComplex> c64{solver, blas};
  Routines<cuDoubleComplex> c128{solver, blas};

  Libraries() {
    solver.find(create_solver, "cusolverDnCreate");
    solver.find(destroy_solver, "cusolverDnDestroy");
    solver.find(set_solver_stream, "cusolverDnSetStream");
    solver.find(create_jacobi, "cusolverDnCreateGesvdjInfo");
    solver.find(destroy_jacobi, "cusolverDnDestroyGesvdjInfo");
    blas.find(create_blas, "cublasCreate_v2");
    blas.find(destroy_blas, "cublasDestroy_v2");
    blas.find(set_blas_stream, "cublasSetStream_v2");
  }
  const Routines<float> &routines(const float *) const { return f32; }
  const Routines<double> &routines(const double *) const { return f64; }
  const Routines<cuComplex> &routines(const cuComplex *) const { return c64; }
  const Routines<cuDoubleComplex> &routines(const cuDoubleComplex *) const { return c128; }
};

inline const Libraries &libraries() {
  static const Libraries loaded; // a failure is tried again by the next call
  return loaded;
}

inline void check(cusolverStatus_t status, const char *what) {
  if (status != CUSOLVER_STATUS_SUCCESS)
    throw Error(status == CUSOLVER_STATUS_ALLOC_FAILED ? Status::out_of_memory : Status::device,
                std::string("cuSOLVER's ") + what + " failed with status " +
                    std::to_string(static_cast<int>(status)));
}
inline void check(cublasStatus_t status, const char *what) {
  if (status != CUBLAS_STATUS_SUCCESS)
    throw Error(status == CUBLAS_STATUS_ALLOC_FAILED ? Status::out_of_memory : Status::device,
                std::string("cuBLAS's ") + what + " failed with status " +
                    std::to_string(static_cast<int>(status)));
}

inline size_t aligned(size_t bytes) { return (bytes + 255) / 256 * 256; }

struct Handles {
  cusolverDnHandle_t solver = nullptr;
  cublasHandle_t blas = nullptr;
  gesvdjInfo_t jacobi = nullptr;
};

/// `function` of a number of the element type of `shape`.
template <class Function> auto of_elements(const SolverShape &shape, const Function &function) {
  if (shape.has(kComplex))
    return shape.dtype == DType::f64 ? function(cuDoubleComplex{}) : function(cuComplex{});
  return shape.dtype == DType::f64 ? function(double{}) : function(float{});
}

} // namespace tsc_engine
