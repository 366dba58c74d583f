#if __has_include(<cusolverDn.h>) && __has_include(<cublas_v2.h>)

#include "engine/cuda_batched_solver.h"

#include <algorithm>
#include <vector>

namespace tsc_engine {
namespace {

/// Sizes up to which a call for a batch is the faster one: larger matrices fill the GPU alone.
constexpr int64_t kMostRows = 512;
/// Of gesvdjBatched, which takes no larger ones.
constexpr int64_t kMostOfJacobi = 32;

bool has_batched_call(const SolverShape &shape) {
  if (shape.batch < 2 || shape.batch > INT32_MAX || std::max(shape.m, shape.n) > kMostRows)
    return false;
  switch (shape.routine) {
  case Routine::cholesky:
    return shape.n > 0;
  case Routine::lu:
    return shape.m == shape.n && shape.n > 0;
  case Routine::lu_solve:
  case Routine::triangular_solve:
    return shape.n > 0 && shape.k > 0;
  case Routine::qr:
    return shape.least() > 0;
  case Routine::symmetric_eigen:
    return CUSOLVER_VERSION >= 11701 && shape.n > 0;
  case Routine::svd:
    return shape.least() > 0 && std::max(shape.m, shape.n) <= kMostOfJacobi;
  default:
    return false;
  }
}

#if CUSOLVER_VERSION >= 11701

/// cusolverDnXsyevBatched, which CUDA has since 12.6.
class SymmetricEigen {
public:
  SymmetricEigen(const SolverShape &shape, cusolverDnHandle_t solver)
      : shape_(shape), solver_(solver) {
    libraries().solver.find(create_, "cusolverDnCreateParams");
    libraries().solver.find(destroy_, "cusolverDnDestroyParams");
    libraries().solver.find(size_, "cusolverDnXsyevBatched_bufferSize");
    libraries().solver.find(run_, "cusolverDnXsyevBatched");
    check(create_(&params_), "CreateParams");
    const cusolverStatus_t status =
        size_(solver_, params_, job(), uplo(), shape.n, element(), nullptr, shape.n, real(),
              nullptr, element(), &device_bytes_, &host_bytes_, shape.batch);
    if (status != CUSOLVER_STATUS_SUCCESS)
      destroy_(params_);
    check(status, "XsyevBatched_bufferSize");
  }
  SymmetricEigen(const SymmetricEigen &) = delete;
  SymmetricEigen &operator=(const SymmetricEigen &) = delete;
  ~SymmetricEigen() { destroy_(params_); }

  size_t scratch_bytes() const { return aligned(device_bytes_); }
  /// Of `matrices`, in place.
  void run(void *matrices, void *values, int *info, void *scratch, cudaStream_t stream) const {
    std::vector<char> host(std::max<size_t>(host_bytes_, 1));
    check(run_(solver_, params_, job(), uplo(), shape_.n, element(), matrices, shape_.n, real(),
               values, element(), scratch, device_bytes_, host.data(), host_bytes_, info,
               shape_.batch),
          "XsyevBatched");
    if (host_bytes_ > 0)
      check_cuda(cudaStreamSynchronize(stream), "cudaStreamSynchronize"); // host memory goes
  }

private:
  const SolverShape shape_;
  const cusolverDnHandle_t solver_;
  cusolverDnParams_t params_ = nullptr;
  size_t device_bytes_ = 0, host_bytes_ = 0;
  decltype(&cusolverDnCreateParams) create_;
  decltype(&cusolverDnDestroyParams) destroy_;
  decltype(&cusolverDnXsyevBatched_bufferSize) size_;
  decltype(&cusolverDnXsyevBatched) run_;

  cusolverEigMode_t job() const {
    return shape_.has(kVectors) ? CUSOLVER_EIG_MODE_VECTOR : CUSOLVER_EIG_MODE_NOVECTOR;
  }
  cublasFillMode_t uplo() const {
    return shape_.has(kUpper) ? CUBLAS_FILL_MODE_UPPER : CUBLAS_FILL_MODE_LOWER;
  }
  cudaDataType real() const { return shape_.dtype == DType::f64 ? CUDA_R_64F : CUDA_R_32F; }
  cudaDataType element() const {
    if (!shape_.has(kComplex))
      return real();
    return shape_.dtype == DType::f64 ? CUDA_C_64F : CUDA_C_32F;
  }
};

#else

class SymmetricEigen {
public:
  SymmetricEigen(const SolverShape &, cusolverDnHandle_t) {}
  size_t scratch_bytes() const { return 0; }
  void run(void *, void *, int *, void *, cudaStream_t) const {}
};

#endif

/// Scratch memory: infos that nobody asked for, then what the routine needs.
///   pointers of the matrices that are written, and of others    calls that take them so
///   a copy of the matrices, u, v, a unit matrix, work           svd
template <class T> class Batch final : public BatchPlan {
public:
  using Real = typename Element<T>::Real;

  Batch(const SolverShape &shape, const Handles &handles)
      : shape_(shape), handles_(handles), call_(libraries().routines(static_cast<T *>(nullptr))),
        extents_(solver_extents(shape)), m_(static_cast<int>(shape.m)),
        n_(static_cast<int>(shape.n)), k_(static_cast<int>(shape.k)),
        batch_(static_cast<int>(shape.batch)), count_(static_cast<size_t>(shape.batch)),
        uplo_(shape.has(kUpper) ? CUBLAS_FILL_MODE_UPPER : CUBLAS_FILL_MODE_LOWER),
        job_(shape.has(kVectors) ? CUSOLVER_EIG_MODE_VECTOR : CUSOLVER_EIG_MODE_NOVECTOR) {
    if (shape.routine == Routine::symmetric_eigen)
      eigen_ = std::make_unique<SymmetricEigen>(shape, handles.solver);
    if (shape.routine == Routine::svd) {
      T *none = nullptr;
      Real *no_values = nullptr;
      check(call_.gesvdj_batched_size(handles.solver, job_, m_, n_, none, m_, no_values, none, m_,
                                      none, n_, &work_, handles.jacobi, batch_),
            "gesvdjBatched_bufferSize");
    }
  }

  size_t scratch_bytes() const override {
    size_t bytes = info_bytes() + 2 * pointer_bytes();
    if (eigen_)
      bytes = info_bytes() + eigen_->scratch_bytes();
    if (shape_.routine == Routine::svd)
      bytes = info_bytes() + matrices(m_, n_) + matrices(m_, m_) + matrices(n_, n_) +
              aligned(static_cast<size_t>(n_ * n_) * sizeof(T)) +
              aligned(static_cast<size_t>(std::max(work_, 1)) * sizeof(T));
    return bytes;
  }

  void run(const SolverMemory &memory, char *scratch, cudaStream_t stream) const override {
    int *info = memory.info ? static_cast<int *>(memory.info) : reinterpret_cast<int *>(scratch);
    check_cuda(cudaMemsetAsync(info, 0, count_ * sizeof(int), stream), "cudaMemsetAsync");
    char *const rest = scratch + info_bytes();
    if (shape_.routine == Routine::svd) {
      decompose(memory, info, rest, stream);
      return;
    }
    const bool has_side =
        shape_.routine == Routine::lu_solve || shape_.routine == Routine::triangular_solve;
    T *out = static_cast<T *>(memory.out);
    check_cuda(cudaMemcpyAsync(out, has_side ? memory.b : memory.a,
                               count_ * static_cast<size_t>(extents_.out) * sizeof(Real),
                               cudaMemcpyDeviceToDevice, stream),
               "cudaMemcpyAsync");
    if (eigen_) {
      eigen_->run(out, memory.second, info, rest, stream);
      return;
    }
    T **results = reinterpret_cast<T **>(rest);
    T **others = reinterpret_cast<T **>(rest + pointer_bytes());
    point(results, out, extents_.out, stream);
    const cublasOperation_t operation = shape_.has(kTransposed) ? CUBLAS_OP_T : CUBLAS_OP_N;
    const T one = Element<T>::one();
    int wrong_argument = 0; // what the libraries say at once
    switch (shape_.routine) {
    case Routine::cholesky:
      check(call_.potrf_batched(handles_.solver, uplo_, n_, results, n_, info, batch_),
            "potrfBatched");
      break;
    case Routine::lu:
      check(call_.getrf_batched(handles_.blas, n_, results, n_, static_cast<int *>(memory.second),
                                info, batch_),
            "getrfBatched");
      break;
    case Routine::lu_solve:
      point(others, static_cast<const T *>(memory.a), extents_.a, stream);
      check(call_.getrs_batched(handles_.blas, operation, n_, k_, others, n_,
                                static_cast<const int *>(memory.c), results, n_, &wrong_argument,
                                batch_),
            "getrsBatched");
      break;
    case Routine::triangular_solve:
      point(others, static_cast<const T *>(memory.a), extents_.a, stream);
      check(call_.trsm_batched(handles_.blas, CUBLAS_SIDE_LEFT, uplo_, operation,
                               shape_.has(kUnit) ? CUBLAS_DIAG_UNIT : CUBLAS_DIAG_NON_UNIT, n_, k_,
                               &one, others, n_, results, n_, batch_),
            "trsmBatched");
      break;
    case Routine::qr:
      point(others, static_cast<const T *>(memory.second), extents_.second, stream);
      check(
          call_.geqrf_batched(handles_.blas, m_, n_, results, m_, others, &wrong_argument, batch_),
          "geqrfBatched");
      break;
    default:
      break;
    }
    if (wrong_argument != 0)
      throw Error(Status::device, "cuBLAS refused argument " + std::to_string(-wrong_argument) +
                                      " of a call for a batch of matrices");
  }

private:
  const SolverShape shape_;
  const Handles &handles_;
  const Routines<T> &call_;
  const SolverExtents extents_;
  const int m_, n_, k_, batch_;
  const size_t count_;
  const cublasFillMode_t uplo_;
  const cusolverEigMode_t job_;
  std::unique_ptr<SymmetricEigen> eigen_;
  int work_ = 0; // svd

  size_t info_bytes() const { return aligned(count_ * sizeof(int)); }
  size_t pointer_bytes() const { return aligned(count_ * sizeof(T *)); }
  size_t matrices(int rows, int columns) const {
    return aligned(count_ * static_cast<size_t>(rows) * static_cast<size_t>(columns) * sizeof(T));
  }
  /// `pointers`, of the GPU, to operands of `extent` numbers from `first` on.
  void point(T **pointers, const T *first, int64_t extent, cudaStream_t stream) const {
    const int64_t elements = extent / (Element<T>::kIsComplex ? 2 : 1);
    std::vector<const T *> all(count_);
    for (size_t i = 0; i < count_; ++i)
      all[i] = first + static_cast<int64_t>(i) * elements;
    check_cuda(
        cudaMemcpyAsync(pointers, all.data(), count_ * sizeof(T *), cudaMemcpyHostToDevice, stream),
        "cudaMemcpyAsync");
  }

  /// gesvdjBatched gives all of u and v: what is asked for is copied, v as its adjoint.
  void decompose(const SolverMemory &memory, int *info, char *scratch, cudaStream_t stream) const {
    T *copy = reinterpret_cast<T *>(scratch),
      *u = reinterpret_cast<T *>(scratch += matrices(m_, n_)),
      *v = reinterpret_cast<T *>(scratch += matrices(m_, m_)),
      *unit = reinterpret_cast<T *>(scratch += matrices(n_, n_)),
      *work = reinterpret_cast<T *>(scratch + aligned(static_cast<size_t>(n_ * n_) * sizeof(T)));
    check_cuda(cudaMemcpyAsync(copy, memory.a,
                               count_ * static_cast<size_t>(extents_.a) * sizeof(Real),
                               cudaMemcpyDeviceToDevice, stream),
               "cudaMemcpyAsync");
    check(call_.gesvdj_batched(handles_.solver, job_, m_, n_, copy, m_,
                               static_cast<Real *>(memory.second), u, m_, v, n_, work, work_, info,
                               handles_.jacobi, batch_),
          "gesvdjBatched");
    if (!shape_.has(kVectors))
      return;
    const size_t asked = static_cast<size_t>(extents_.out) * sizeof(Real);
    check_cuda(cudaMemcpy2DAsync(memory.out, asked, u, static_cast<size_t>(m_ * m_) * sizeof(T),
                                 asked, count_, cudaMemcpyDeviceToDevice, stream),
               "cudaMemcpy2DAsync");
    std::vector<T> ones(static_cast<size_t>(n_ * n_));
    for (int i = 0; i < n_; ++i)
      ones[static_cast<size_t>(i * n_ + i)] = Element<T>::one();
    check_cuda(
        cudaMemcpyAsync(unit, ones.data(), ones.size() * sizeof(T), cudaMemcpyHostToDevice, stream),
        "cudaMemcpyAsync");
    const int rows = static_cast<int>(shape_.has(kFull) ? shape_.n : shape_.least());
    const T one = Element<T>::one(), zero{};
    check(call_.gemm_batched(handles_.blas, Element<T>::kIsComplex ? CUBLAS_OP_C : CUBLAS_OP_T,
                             CUBLAS_OP_N, rows, n_, n_, &one, v, n_, int64_t{n_} * n_, unit, n_, 0,
                             &zero, static_cast<T *>(memory.third), rows, int64_t{rows} * n_,
                             batch_),
          "gemmStridedBatched");
  }
};

} // namespace

std::unique_ptr<BatchPlan> BatchPlan::make(const SolverShape &shape, const Handles &handles) {
  if (!has_batched_call(shape))
    return nullptr;
  return of_elements(shape, [&](auto element) -> std::unique_ptr<BatchPlan> {
    return std::make_unique<Batch<decltype(element)>>(shape, handles);
  });
}

} // namespace tsc_engine

#endif
