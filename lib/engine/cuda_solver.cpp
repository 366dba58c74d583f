#include "engine/cuda_solver.h"

#if __has_include(<cusolverDn.h>) && __has_include(<cublas_v2.h>)

#include "engine/cuda_error.h"
#include "engine/cuda_library.h"

#include <algorithm>
#include <cublas_v2.h>
#include <cusolverDn.h>
#include <mutex>
#include <string>
#include <vector>

namespace tsc_engine {
namespace {

/// Routines of one element type: cuSOLVER's, which are given column-major matrices one at a time,
/// and two of cuBLAS.
template <class T> struct Routines;
#define TSC_ROUTINES(letter, T)                                                                    \
  template <> struct Routines<T> {                                                                 \
    decltype(&cusolverDn##letter##potrf_bufferSize) potrf_size;                                    \
    decltype(&cusolverDn##letter##potrf) potrf;                                                    \
    decltype(&cusolverDn##letter##getrf_bufferSize) getrf_size;                                    \
    decltype(&cusolverDn##letter##getrf) getrf;                                                    \
    decltype(&cusolverDn##letter##getrs) getrs;                                                    \
    decltype(&cusolverDn##letter##geqrf_bufferSize) geqrf_size;                                    \
    decltype(&cusolverDn##letter##geqrf) geqrf;                                                    \
    decltype(&cusolverDn##letter##orgqr_bufferSize) orgqr_size;                                    \
    decltype(&cusolverDn##letter##orgqr) orgqr;                                                    \
    decltype(&cusolverDn##letter##syevd_bufferSize) syevd_size;                                    \
    decltype(&cusolverDn##letter##syevd) syevd;                                                    \
    decltype(&cusolverDn##letter##gesvdj_bufferSize) gesvdj_size;                                  \
    decltype(&cusolverDn##letter##gesvdj) gesvdj;                                                  \
    decltype(&cublas##letter##trsm_v2) trsm;                                                       \
    decltype(&cublas##letter##geam) geam;                                                          \
    Routines(const CudaLibrary &solver, const CudaLibrary &blas) {                                 \
      solver.find(potrf_size, "cusolverDn" #letter "potrf_bufferSize");                            \
      solver.find(potrf, "cusolverDn" #letter "potrf");                                            \
      solver.find(getrf_size, "cusolverDn" #letter "getrf_bufferSize");                            \
      solver.find(getrf, "cusolverDn" #letter "getrf");                                            \
      solver.find(getrs, "cusolverDn" #letter "getrs");                                            \
      solver.find(geqrf_size, "cusolverDn" #letter "geqrf_bufferSize");                            \
      solver.find(geqrf, "cusolverDn" #letter "geqrf");                                            \
      solver.find(orgqr_size, "cusolverDn" #letter "orgqr_bufferSize");                            \
      solver.find(orgqr, "cusolverDn" #letter "orgqr");                                            \
      solver.find(syevd_size, "cusolverDn" #letter "syevd_bufferSize");                            \
      solver.find(syevd, "cusolverDn" #letter "syevd");                                            \
      solver.find(gesvdj_size, "cusolverDn" #letter "gesvdj_bufferSize");                          \
      solver.find(gesvdj, "cusolverDn" #letter "gesvdj");                                          \
      blas.find(trsm, "cublas" #letter "trsm_v2");                                                 \
      blas.find(geam, "cublas" #letter "geam");                                                    \
    }                                                                                              \
  };
TSC_ROUTINES(S, float)
TSC_ROUTINES(D, double)
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
};

const Libraries &libraries() {
  static const Libraries loaded; // a failure is tried again by the next call
  return loaded;
}

void check(cusolverStatus_t status, const char *what) {
  if (status != CUSOLVER_STATUS_SUCCESS)
    throw Error(status == CUSOLVER_STATUS_ALLOC_FAILED ? Status::out_of_memory : Status::device,
                std::string("cuSOLVER's ") + what + " failed with status " +
                    std::to_string(static_cast<int>(status)));
}
void check(cublasStatus_t status, const char *what) {
  if (status != CUBLAS_STATUS_SUCCESS)
    throw Error(status == CUBLAS_STATUS_ALLOC_FAILED ? Status::out_of_memory : Status::device,
                std::string("cuBLAS's ") + what + " failed with status " +
                    std::to_string(static_cast<int>(status)));
}

size_t aligned(size_t bytes) { return (bytes + 255) / 256 * 256; }

struct Handles {
  cusolverDnHandle_t solver = nullptr;
  cublasHandle_t blas = nullptr;
  gesvdjInfo_t jacobi = nullptr;
};

/// One shape, over T. Scratch memory: an info that nobody asked for, of svd a copy of the matrix
/// and v, then the routine's own.
template <class T> class Plan {
public:
  Plan(const SolverShape &shape, const Handles &handles)
      : shape_(shape), handles_(handles), call_(libraries().routines(static_cast<T *>(nullptr))),
        extents_(solver_extents(shape)), m_(static_cast<int>(shape.m)),
        n_(static_cast<int>(shape.n)), k_(static_cast<int>(shape.k)),
        uplo_(shape.has(kUpper) ? CUBLAS_FILL_MODE_UPPER : CUBLAS_FILL_MODE_LOWER),
        job_(shape.has(kVectors) ? CUSOLVER_EIG_MODE_VECTOR : CUSOLVER_EIG_MODE_NOVECTOR) {}

  /// Elements of the routine's own work memory.
  int work_elements() const {
    int size = 0;
    if (is_trivial())
      return size;
    T *none = nullptr;
    const cusolverDnHandle_t solver = handles_.solver;
    switch (shape_.routine) {
    case Routine::cholesky:
      check(call_.potrf_size(solver, uplo_, n_, none, n_, &size), "potrf_bufferSize");
      break;
    case Routine::lu:
      check(call_.getrf_size(solver, m_, n_, none, m_, &size), "getrf_bufferSize");
      break;
    case Routine::qr:
      check(call_.geqrf_size(solver, m_, n_, none, m_, &size), "geqrf_bufferSize");
      break;
    case Routine::orthogonal:
      check(call_.orgqr_size(solver, m_, n_, k_, none, m_, none, &size), "orgqr_bufferSize");
      break;
    case Routine::symmetric_eigen:
      check(call_.syevd_size(solver, job_, uplo_, n_, none, n_, none, &size), "syevd_bufferSize");
      break;
    case Routine::svd:
      check(call_.gesvdj_size(solver, job_, economic(), m_, n_, none, m_, none, none, m_, none, n_,
                              &size, handles_.jacobi),
            "gesvdj_bufferSize");
      break;
    default:
      break;
    }
    return size;
  }
  size_t scratch_bytes(int work) const {
    return kInfoBytes + copy_bytes() + v_bytes() +
           aligned(static_cast<size_t>(std::max(work, 1)) * sizeof(T));
  }

  void run(const T *a, const void *b, const int *c, T *out, void *second, T *third, int *info,
           char *scratch, int work_size, cudaStream_t stream) const {
    T *copy = reinterpret_cast<T *>(scratch + kInfoBytes);
    T *v = reinterpret_cast<T *>(scratch + kInfoBytes + copy_bytes());
    T *work = reinterpret_cast<T *>(scratch + kInfoBytes + copy_bytes() + v_bytes());
    info = info ? info : reinterpret_cast<int *>(scratch);
    check_cuda(cudaMemsetAsync(info, 0, sizeof(int), stream), "cudaMemsetAsync");
    if (is_trivial()) {
      trivial(out, third, stream);
      return;
    }
    const cusolverDnHandle_t solver = handles_.solver;
    const bool has_side =
        shape_.routine == Routine::lu_solve || shape_.routine == Routine::triangular_solve;
    const T *start = has_side ? static_cast<const T *>(b) : a;
    const int64_t elements = shape_.routine == Routine::svd ? extents_.a : extents_.out;
    check_cuda(cudaMemcpyAsync(shape_.routine == Routine::svd ? copy : out, start,
                               static_cast<size_t>(elements) * sizeof(T), cudaMemcpyDeviceToDevice,
                               stream),
               "cudaMemcpyAsync");
    const cublasOperation_t operation = shape_.has(kTransposed) ? CUBLAS_OP_T : CUBLAS_OP_N;
    const T one = 1, zero = 0;
    switch (shape_.routine) {
    case Routine::cholesky:
      check(call_.potrf(solver, uplo_, n_, out, n_, work, work_size, info), "potrf");
      break;
    case Routine::lu:
      check(call_.getrf(solver, m_, n_, out, m_, work, static_cast<int *>(second), info), "getrf");
      break;
    case Routine::lu_solve:
      check(call_.getrs(solver, operation, n_, k_, a, n_, c, out, n_, info), "getrs");
      break;
    case Routine::triangular_solve:
      check(call_.trsm(handles_.blas, CUBLAS_SIDE_LEFT, uplo_, operation,
                       shape_.has(kUnit) ? CUBLAS_DIAG_UNIT : CUBLAS_DIAG_NON_UNIT, n_, k_, &one, a,
                       n_, out, n_),
            "trsm");
      break;
    case Routine::qr:
      check(call_.geqrf(solver, m_, n_, out, m_, static_cast<T *>(second), work, work_size, info),
            "geqrf");
      break;
    case Routine::orthogonal:
      check(call_.orgqr(solver, m_, n_, k_, out, m_, static_cast<const T *>(b), work, work_size,
                        info),
            "orgqr");
      break;
    case Routine::symmetric_eigen:
      check(call_.syevd(solver, job_, uplo_, n_, out, n_, static_cast<T *>(second), work, work_size,
                        info),
            "syevd");
      break;
    case Routine::svd:
      check(call_.gesvdj(solver, job_, economic(), m_, n_, copy, m_, static_cast<T *>(second), out,
                         m_, v, n_, work, work_size, info, handles_.jacobi),
            "gesvdj");
      if (shape_.has(kVectors)) // v' of v
        check(call_.geam(handles_.blas, CUBLAS_OP_T, CUBLAS_OP_N, v_columns(), n_, &one, v, n_,
                         &zero, third, v_columns(), third, v_columns()),
              "geam");
      break;
    default:
      break;
    }
  }

private:
  static constexpr size_t kInfoBytes = 256;

  int economic() const { return shape_.has(kFull) ? 0 : 1; }
  int v_columns() const { return static_cast<int>(shape_.has(kFull) ? shape_.n : shape_.least()); }
  size_t copy_bytes() const {
    return shape_.routine == Routine::svd ? aligned(static_cast<size_t>(extents_.a) * sizeof(T))
                                          : 0;
  }
  size_t v_bytes() const {
    return shape_.routine == Routine::svd ? aligned(static_cast<size_t>(extents_.third) * sizeof(T))
                                          : 0;
  }
  /// Matrices without elements, or without reflections: nothing that a library would compute.
  bool is_trivial() const {
    switch (shape_.routine) {
    case Routine::lu:
    case Routine::qr:
    case Routine::svd:
      return shape_.least() == 0;
    case Routine::orthogonal:
      return m_ == 0 || n_ == 0 || k_ == 0;
    case Routine::lu_solve:
    case Routine::triangular_solve:
      return n_ == 0 || k_ == 0;
    default:
      return n_ == 0;
    }
  }
  void trivial(T *out, T *third, cudaStream_t stream) const {
    if (shape_.routine == Routine::orthogonal)
      identity(out, m_, n_, stream);
    if (shape_.routine == Routine::svd) {
      identity(out, m_, shape_.has(kFull) ? m_ : 0, stream);
      identity(third, shape_.has(kFull) ? n_ : 0, n_, stream);
    }
  }
  static void identity(T *matrix, int rows, int columns, cudaStream_t stream) {
    std::vector<T> values(static_cast<size_t>(rows) * static_cast<size_t>(columns));
    if (values.empty())
      return;
    for (int i = 0; i < std::min(rows, columns); ++i)
      values[static_cast<size_t>(i) * static_cast<size_t>(rows) + static_cast<size_t>(i)] = 1;
    check_cuda(cudaMemcpyAsync(matrix, values.data(), values.size() * sizeof(T),
                               cudaMemcpyHostToDevice, stream),
               "cudaMemcpyAsync");
    check_cuda(cudaStreamSynchronize(stream), "cudaStreamSynchronize"); // values go
  }

  const SolverShape shape_;
  const Handles &handles_;
  const Routines<T> &call_;
  const SolverExtents extents_;
  const int m_, n_, k_;
  const cublasFillMode_t uplo_;
  const cusolverEigMode_t job_;
};

class Solvers final : public CudaSolvers {
public:
  ~Solvers() override {
    if (handles_.jacobi)
      libraries().destroy_jacobi(handles_.jacobi);
    if (handles_.solver)
      libraries().destroy_solver(handles_.solver);
    if (handles_.blas)
      libraries().destroy_blas(handles_.blas);
  }

  size_t prepare(const SolverShape &shape) override {
    std::lock_guard<std::mutex> lock(mutex_);
    if (shape.routine == Routine::ldl || shape.routine == Routine::ldl_solve)
      throw Error(Status::device, "the LDL factorization is not there on a GPU");
    make_handles();
    const int work = shape.dtype == DType::f64 ? Plan<double>(shape, handles_).work_elements()
                                               : Plan<float>(shape, handles_).work_elements();
    plans_.push_back({shape, work});
    return plans_.size() - 1;
  }
  size_t scratch_bytes(size_t number) override {
    std::lock_guard<std::mutex> lock(mutex_);
    const auto &[shape, work] = plans_.at(number);
    return shape.dtype == DType::f64 ? Plan<double>(shape, handles_).scratch_bytes(work)
                                     : Plan<float>(shape, handles_).scratch_bytes(work);
  }
  void run(size_t number, const SolverMemory &memory, void *scratch, Stream stream) override {
    std::lock_guard<std::mutex> lock(mutex_);
    const auto &[shape, work] = plans_.at(number);
    const auto on = static_cast<cudaStream_t>(stream);
    check(libraries().set_solver_stream(handles_.solver, on), "SetStream");
    check(libraries().set_blas_stream(handles_.blas, on), "SetStream");
    if (shape.dtype == DType::f64)
      run_batch<double>(shape, work, memory, static_cast<char *>(scratch), on);
    else
      run_batch<float>(shape, work, memory, static_cast<char *>(scratch), on);
  }

private:
  void make_handles() {
    const Libraries &library = libraries();
    if (!handles_.solver)
      check(library.create_solver(&handles_.solver), "Create");
    if (!handles_.blas)
      check(library.create_blas(&handles_.blas), "Create");
    if (!handles_.jacobi)
      check(library.create_jacobi(&handles_.jacobi), "CreateGesvdjInfo");
  }
  template <class T>
  void run_batch(const SolverShape &shape, int work, const SolverMemory &memory, char *scratch,
                 cudaStream_t stream) {
    const Plan<T> plan(shape, handles_);
    const SolverExtents extents = solver_extents(shape);
    const size_t second_item = shape.routine == Routine::lu ? sizeof(int) : sizeof(T);
    const auto read = [](const void *base, int64_t extent, size_t item, int64_t i) -> const void * {
      return base ? static_cast<const char *>(base) + static_cast<size_t>(i * extent) * item
                  : nullptr;
    };
    const auto written = [](void *base, int64_t extent, size_t item, int64_t i) -> void * {
      return base ? static_cast<char *>(base) + static_cast<size_t>(i * extent) * item : nullptr;
    };
    for (int64_t i = 0; i < shape.batch; ++i)
      plan.run(static_cast<const T *>(read(memory.a, extents.a, sizeof(T), i)),
               read(memory.b, extents.b, sizeof(T), i),
               static_cast<const int *>(read(memory.c, extents.c, sizeof(int), i)),
               static_cast<T *>(written(memory.out, extents.out, sizeof(T), i)),
               written(memory.second, extents.second, second_item, i),
               static_cast<T *>(written(memory.third, extents.third, sizeof(T), i)),
               static_cast<int *>(written(memory.info, extents.info, sizeof(int), i)), scratch,
               work, stream);
  }

  struct Prepared {
    SolverShape shape;
    int work = 0;
  };
  std::mutex mutex_;
  Handles handles_;
  std::vector<Prepared> plans_;
};

} // namespace

std::unique_ptr<CudaSolvers> CudaSolvers::make() { return std::make_unique<Solvers>(); }

} // namespace tsc_engine

#else // a toolkit without them

namespace tsc_engine {
namespace {

class NoSolvers final : public CudaSolvers {
public:
  size_t prepare(const SolverShape &) override {
    throw Error(Status::device, "linear algebra on a GPU needs cuSOLVER, and this was compiled "
                                "without its headers; install the whole CUDA toolkit");
  }
  size_t scratch_bytes(size_t) override { return 0; }
  void run(size_t, const SolverMemory &, void *, Stream) override {}
};

} // namespace

std::unique_ptr<CudaSolvers> CudaSolvers::make() { return std::make_unique<NoSolvers>(); }

} // namespace tsc_engine

#endif
