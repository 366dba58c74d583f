#include "engine/cuda_solver.h"

#if __has_include(<cusolverDn.h>) && __has_include(<cublas_v2.h>)

#include "engine/cuda_batched_solver.h"
#include "engine/cuda_fourier.h"
#include "engine/cuda_solver_library.h"

#include <algorithm>
#include <mutex>
#include <vector>

namespace tsc_engine {
namespace {

/// The routines of symmetric matrices gave wrong results on a busy GPU, and right ones with nothing
/// else under way (cuSOLVER 12, CUDA 13.0): it looks as if they queued part of their work where the
/// handle's stream does not order it. While one of these lives, nothing else of this stream is.
class AloneOnDevice {
public:
  explicit AloneOnDevice(cudaStream_t stream) : stream_(stream) {
    check_cuda(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
  }
  AloneOnDevice(const AloneOnDevice &) = delete;
  AloneOnDevice &operator=(const AloneOnDevice &) = delete;
  ~AloneOnDevice() { // a fault comes to light with the next call
    cudaStreamSynchronize(stream_);
    cudaStreamSynchronize(cudaStreamLegacy);
  }

private:
  cudaStream_t stream_;
};

/// One shape, over T. Scratch memory: an info that nobody asked for, of svd a copy of the matrix
/// and v, then the routine's own.
template <class T> class Plan {
public:
  using Real = typename Element<T>::Real;

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
    Real *no_values = nullptr;
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
      check(call_.syevd_size(solver, job_, uplo_, n_, none, n_, no_values, &size),
            "syevd_bufferSize");
      break;
    case Routine::ldl:
      check(call_.sytrf_size(solver, n_, none, n_, &size), "sytrf_bufferSize");
      break;
    case Routine::svd:
      check(call_.gesvdj_size(solver, job_, economic(), m_, n_, none, m_, no_values, none, m_, none,
                              n_, &size, handles_.jacobi),
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
                               static_cast<size_t>(elements) * sizeof(Real),
                               cudaMemcpyDeviceToDevice, stream),
               "cudaMemcpyAsync");
    const cublasOperation_t operation = shape_.has(kTransposed) ? CUBLAS_OP_T : CUBLAS_OP_N;
    const T one = Element<T>::one(), zero{};
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
      check(call_.syevd(solver, job_, uplo_, n_, out, n_, static_cast<Real *>(second), work,
                        work_size, info),
            "syevd");
      break;
    case Routine::ldl: {
      const AloneOnDevice alone(stream);
      check(call_.sytrf(solver, uplo_, n_, out, n_, static_cast<int *>(second), work, work_size,
                        info),
            "sytrf");
      break;
    }
    case Routine::svd:
      check(call_.gesvdj(solver, job_, economic(), m_, n_, copy, m_, static_cast<Real *>(second),
                         out, m_, v, n_, work, work_size, info, handles_.jacobi),
            "gesvdj");
      if (shape_.has(kVectors)) // v' of v
        check(call_.geam(handles_.blas, Element<T>::kIsComplex ? CUBLAS_OP_C : CUBLAS_OP_T,
                         CUBLAS_OP_N, v_columns(), n_, &one, v, n_, &zero, third, v_columns(),
                         third, v_columns()),
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
    return shape_.routine == Routine::svd ? aligned(static_cast<size_t>(extents_.a) * sizeof(Real))
                                          : 0;
  }
  size_t v_bytes() const {
    return shape_.routine == Routine::svd
               ? aligned(static_cast<size_t>(extents_.third) * sizeof(Real))
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
      values[static_cast<size_t>(i) * static_cast<size_t>(rows) + static_cast<size_t>(i)] =
          Element<T>::one();
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

/// A solution by what sytrf left, of symmetric matrices. Scratch memory: an info, the pivots as
/// 64-bit integers, the routine's own.
class SymmetricSolvePlan {
public:
  SymmetricSolvePlan(const SolverShape &shape, cusolverDnHandle_t solver)
      : shape_(shape), solver_(solver), type_(type_of(shape)),
        item_((shape.has(kComplex) ? 2 : 1) *
              (shape.dtype == DType::f64 ? sizeof(double) : sizeof(float))) {
    libraries().solver.find(size_, "cusolverDnXsytrs_bufferSize");
    libraries().solver.find(run_, "cusolverDnXsytrs");
    if (!is_trivial())
      check(size_(solver_, uplo(), shape_.n, shape_.k, type_, nullptr, shape_.n, nullptr, type_,
                  nullptr, shape_.n, &device_bytes_, &host_bytes_),
            "Xsytrs_bufferSize");
  }

  size_t scratch_bytes() const { return kInfoBytes + pivot_bytes() + aligned(device_bytes_); }
  void run(const void *a, const void *b, const int *pivots, void *out, char *scratch,
           cudaStream_t stream) const {
    if (is_trivial())
      return;
    check_cuda(cudaMemcpyAsync(out, b, static_cast<size_t>(shape_.n * shape_.k) * item_,
                               cudaMemcpyDeviceToDevice, stream),
               "cudaMemcpyAsync");
    std::vector<int> narrow(static_cast<size_t>(shape_.n));
    check_cuda(cudaMemcpyAsync(narrow.data(), pivots, narrow.size() * sizeof(int),
                               cudaMemcpyDeviceToHost, stream),
               "cudaMemcpyAsync");
    check_cuda(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
    check_pivots(narrow.data(), static_cast<int>(shape_.n), true);
    const std::vector<int64_t> wide(narrow.begin(), narrow.end());
    auto *at = reinterpret_cast<int64_t *>(scratch + kInfoBytes);
    check_cuda(cudaMemcpyAsync(at, wide.data(), wide.size() * sizeof(int64_t),
                               cudaMemcpyHostToDevice, stream),
               "cudaMemcpyAsync");
    std::vector<char> host(std::max<size_t>(host_bytes_, 1));
    const AloneOnDevice alone(stream); // and host memory may go
    check(run_(solver_, uplo(), shape_.n, shape_.k, type_, a, shape_.n, at, type_, out, shape_.n,
               scratch + kInfoBytes + pivot_bytes(), device_bytes_, host.data(), host_bytes_,
               reinterpret_cast<int *>(scratch)),
          "Xsytrs");
  }

private:
  static constexpr size_t kInfoBytes = 256;
  const SolverShape shape_;
  const cusolverDnHandle_t solver_;
  const cudaDataType type_;
  const size_t item_; // bytes
  size_t device_bytes_ = 0, host_bytes_ = 0;
  decltype(&cusolverDnXsytrs_bufferSize) size_;
  decltype(&cusolverDnXsytrs) run_;

  static cudaDataType type_of(const SolverShape &shape) {
    const bool is_wide = shape.dtype == DType::f64;
    return shape.has(kComplex) ? (is_wide ? CUDA_C_64F : CUDA_C_32F)
                               : (is_wide ? CUDA_R_64F : CUDA_R_32F);
  }
  cublasFillMode_t uplo() const {
    return shape_.has(kUpper) ? CUBLAS_FILL_MODE_UPPER : CUBLAS_FILL_MODE_LOWER;
  }
  bool is_trivial() const { return shape_.n == 0 || shape_.k == 0; }
  size_t pivot_bytes() const { return aligned(static_cast<size_t>(shape_.n) * sizeof(int64_t)); }
};

#if CUSOLVER_VERSION >= 11701

/// Eigenvalues of a general matrix, which cuSOLVER has since CUDA 12.6: in complex numbers also of
/// a real one. Scratch memory: an info, a copy of the matrix, the routine's own.
class EigenPlan {
public:
  EigenPlan(const SolverShape &shape, cusolverDnHandle_t solver)
      : shape_(shape), solver_(solver), type_(shape.dtype == DType::f64 ? CUDA_C_64F : CUDA_C_32F),
        part_bytes_(shape.dtype == DType::f64 ? sizeof(double) : sizeof(float)) {
    libraries().solver.find(create_, "cusolverDnCreateParams");
    libraries().solver.find(destroy_, "cusolverDnDestroyParams");
    libraries().solver.find(size_, "cusolverDnXgeev_bufferSize");
    libraries().solver.find(run_, "cusolverDnXgeev");
    check(create_(&params_), "CreateParams");
    if (shape_.n > 0)
      check(size_(solver_, params_, CUSOLVER_EIG_MODE_NOVECTOR, job(), shape_.n, type_, nullptr,
                  shape_.n, type_, nullptr, type_, nullptr, shape_.n, type_, nullptr, shape_.n,
                  type_, &device_bytes_, &host_bytes_),
            "Xgeev_bufferSize");
  }
  EigenPlan(const EigenPlan &) = delete;
  EigenPlan &operator=(const EigenPlan &) = delete;
  ~EigenPlan() { destroy_(params_); }

  size_t scratch_bytes() const { return kInfoBytes + matrix_bytes() + aligned(device_bytes_); }
  void run(const void *a, void *vectors, void *values, int *info, char *scratch,
           cudaStream_t stream) const {
    info = info ? info : reinterpret_cast<int *>(scratch);
    check_cuda(cudaMemsetAsync(info, 0, sizeof(int), stream), "cudaMemsetAsync");
    if (shape_.n == 0)
      return;
    void *matrix = scratch + kInfoBytes;
    const size_t elements = static_cast<size_t>(shape_.n) * static_cast<size_t>(shape_.n);
    const size_t given = (shape_.has(kComplex) ? 2 : 1) * part_bytes_;
    check_cuda(cudaMemsetAsync(matrix, 0, 2 * elements * part_bytes_, stream), "cudaMemsetAsync");
    check_cuda(cudaMemcpy2DAsync(matrix, 2 * part_bytes_, a, given, given, elements,
                                 cudaMemcpyDeviceToDevice, stream),
               "cudaMemcpy2DAsync");
    std::vector<char> host(std::max<size_t>(host_bytes_, 1));
    check(run_(solver_, params_, CUSOLVER_EIG_MODE_NOVECTOR, job(), shape_.n, type_, matrix,
               shape_.n, type_, values, type_, nullptr, shape_.n, type_, vectors, shape_.n, type_,
               scratch + kInfoBytes + matrix_bytes(), device_bytes_, host.data(), host_bytes_,
               info),
          "Xgeev");
    check_cuda(cudaStreamSynchronize(stream), "cudaStreamSynchronize"); // host memory goes
  }

private:
  static constexpr size_t kInfoBytes = 256;
  const SolverShape shape_;
  const cusolverDnHandle_t solver_;
  const cudaDataType type_;
  const size_t part_bytes_;
  size_t device_bytes_ = 0, host_bytes_ = 0;
  cusolverDnParams_t params_ = nullptr;
  decltype(&cusolverDnCreateParams) create_;
  decltype(&cusolverDnDestroyParams) destroy_;
  decltype(&cusolverDnXgeev_bufferSize) size_;
  decltype(&cusolverDnXgeev) run_;

  cusolverEigMode_t job() const {
    return shape_.has(kVectors) ? CUSOLVER_EIG_MODE_VECTOR : CUSOLVER_EIG_MODE_NOVECTOR;
  }
  size_t matrix_bytes() const {
    return aligned(2 * static_cast<size_t>(shape_.n) * static_cast<size_t>(shape_.n) * part_bytes_);
  }
};

#else

class EigenPlan {
public:
  EigenPlan(const SolverShape &, cusolverDnHandle_t) {
    throw Error(Status::device, "eigenvalues of matrices that are not symmetric need cuSOLVER "
                                "11.7.1 on a GPU, which comes with CUDA 12.6");
  }
  size_t scratch_bytes() const { return 0; }
  void run(const void *, void *, void *, int *, char *, cudaStream_t) const {}
};

#endif

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
    if (shape.has(kHermitian) && shape.has(kComplex))
      throw Error(Status::device, "cuSOLVER has no LDL factorization of Hermitian matrices; "
                                  "factor on the host, or use eigh or solve");
    if (is_transform(shape.routine)) {
      plans_.push_back({shape, 0, nullptr, nullptr, CudaFourier::make(shape), nullptr});
      return plans_.size() - 1;
    }
    make_handles();
    if (shape.routine == Routine::eigen) {
      plans_.push_back({shape, 0, std::make_unique<EigenPlan>(shape, handles_.solver), nullptr,
                        nullptr, nullptr});
      return plans_.size() - 1;
    }
    if (shape.routine == Routine::ldl_solve) {
      plans_.push_back({shape, 0, nullptr,
                        std::make_unique<SymmetricSolvePlan>(shape, handles_.solver), nullptr,
                        nullptr});
      return plans_.size() - 1;
    }
    if (std::unique_ptr<BatchPlan> batch = BatchPlan::make(shape, handles_)) {
      plans_.push_back({shape, 0, nullptr, nullptr, nullptr, std::move(batch)});
      return plans_.size() - 1;
    }
    const int work = of_elements(shape, [&](auto element) {
      return Plan<decltype(element)>(shape, handles_).work_elements();
    });
    plans_.push_back({shape, work, nullptr, nullptr, nullptr, nullptr});
    return plans_.size() - 1;
  }
  size_t scratch_bytes(size_t number) override {
    std::lock_guard<std::mutex> lock(mutex_);
    const Prepared &plan = plans_.at(number);
    if (plan.fourier)
      return plan.fourier->scratch_bytes();
    if (plan.eigen)
      return plan.eigen->scratch_bytes();
    if (plan.symmetric_solve)
      return plan.symmetric_solve->scratch_bytes();
    if (plan.batch)
      return plan.batch->scratch_bytes();
    return of_elements(plan.shape, [&](auto element) {
      return Plan<decltype(element)>(plan.shape, handles_).scratch_bytes(plan.work);
    });
  }
  void run(size_t number, const SolverMemory &memory, void *scratch, Stream stream) override {
    std::lock_guard<std::mutex> lock(mutex_);
    const Prepared &plan = plans_.at(number);
    if (plan.fourier) {
      plan.fourier->run(memory, scratch, stream);
      return;
    }
    const auto on = static_cast<cudaStream_t>(stream);
    check(libraries().set_solver_stream(handles_.solver, on), "SetStream");
    check(libraries().set_blas_stream(handles_.blas, on), "SetStream");
    if (plan.batch) {
      plan.batch->run(memory, static_cast<char *>(scratch), on);
      return;
    }
    of_elements(plan.shape, [&](auto element) {
      run_batch<decltype(element)>(plan, memory, static_cast<char *>(scratch), on);
    });
  }

private:
  struct Prepared {
    SolverShape shape;
    int work = 0;
    std::unique_ptr<EigenPlan> eigen;                    // of that routine alone
    std::unique_ptr<SymmetricSolvePlan> symmetric_solve; // of ldl_solve
    std::unique_ptr<CudaFourier> fourier;                // of transforms
    std::unique_ptr<BatchPlan> batch;                    // of all matrices in one call
  };
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
  void run_batch(const Prepared &prepared, const SolverMemory &memory, char *scratch,
                 cudaStream_t stream) {
    using Real = typename Element<T>::Real;
    const SolverShape &shape = prepared.shape;
    const Plan<T> plan(shape, handles_);
    const SolverExtents extents = solver_extents(shape);
    const bool has_pivots = shape.routine == Routine::lu || shape.routine == Routine::ldl;
    const size_t second_item = has_pivots ? sizeof(int) : sizeof(Real);
    const auto read = [](const void *base, int64_t extent, size_t item, int64_t i) -> const void * {
      return base ? static_cast<const char *>(base) + static_cast<size_t>(i * extent) * item
                  : nullptr;
    };
    const auto written = [](void *base, int64_t extent, size_t item, int64_t i) -> void * {
      return base ? static_cast<char *>(base) + static_cast<size_t>(i * extent) * item : nullptr;
    };
    for (int64_t i = 0; i < shape.batch; ++i) {
      const void *a = read(memory.a, extents.a, sizeof(Real), i);
      void *out = written(memory.out, extents.out, sizeof(Real), i),
           *second = written(memory.second, extents.second, second_item, i);
      int *info = static_cast<int *>(written(memory.info, extents.info, sizeof(int), i));
      if (prepared.eigen) {
        prepared.eigen->run(a, out, second, info, scratch, stream);
        continue;
      }
      const void *b = read(memory.b, extents.b, sizeof(Real), i);
      const auto *c = static_cast<const int *>(read(memory.c, extents.c, sizeof(int), i));
      if (prepared.symmetric_solve) {
        prepared.symmetric_solve->run(a, b, c, out, scratch, stream);
        continue;
      }
      plan.run(static_cast<const T *>(a), b, c, static_cast<T *>(out), second,
               static_cast<T *>(written(memory.third, extents.third, sizeof(Real), i)), info,
               scratch, prepared.work, stream);
    }
  }

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
