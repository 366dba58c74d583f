#include "engine/cuda_fourier.h"

#if __has_include(<cufft.h>)

#include "engine/cuda_error.h"
#include "engine/cuda_library.h"

#include <cufft.h>
#include <string>
#include <vector>

namespace tsc_engine {
namespace {

struct Library {
  CudaLibrary fft{"cufft", CUFFT_VER_MAJOR};
  decltype(&cufftCreate) create;
  decltype(&cufftDestroy) destroy;
  decltype(&cufftSetAutoAllocation) set_auto_allocation;
  decltype(&cufftMakePlanMany64) make_plan;
  decltype(&cufftSetStream) set_stream;
  decltype(&cufftSetWorkArea) set_work_area;
  decltype(&cufftExecC2C) c2c;
  decltype(&cufftExecZ2Z) z2z;
  decltype(&cufftExecR2C) r2c;
  decltype(&cufftExecD2Z) d2z;
  decltype(&cufftExecC2R) c2r;
  decltype(&cufftExecZ2D) z2d;

  Library() {
    fft.find(create, "cufftCreate");
    fft.find(destroy, "cufftDestroy");
    fft.find(set_auto_allocation, "cufftSetAutoAllocation");
    fft.find(make_plan, "cufftMakePlanMany64");
    fft.find(set_stream, "cufftSetStream");
    fft.find(set_work_area, "cufftSetWorkArea");
    fft.find(c2c, "cufftExecC2C");
    fft.find(z2z, "cufftExecZ2Z");
    fft.find(r2c, "cufftExecR2C");
    fft.find(d2z, "cufftExecD2Z");
    fft.find(c2r, "cufftExecC2R");
    fft.find(z2d, "cufftExecZ2D");
  }
};

const Library &library() {
  static const Library loaded; // a failure is tried again by the next call
  return loaded;
}

void check(cufftResult status, const char *what) {
  if (status != CUFFT_SUCCESS)
    throw Error(status == CUFFT_ALLOC_FAILED ? Status::out_of_memory : Status::device,
                std::string("cuFFT's ") + what + " failed with status " +
                    std::to_string(static_cast<int>(status)));
}

size_t aligned(size_t bytes) { return (bytes + 255) / 256 * 256; }

/// Scratch memory: of fourier_to_real a copy of the spectrum, which cuFFT may overwrite; then
/// cuFFT's own.
class Fourier final : public CudaFourier {
public:
  explicit Fourier(const SolverShape &shape) : shape_(shape) {
    check(library().create(&plan_), "Create");
    try {
      prepare();
    } catch (...) {
      library().destroy(plan_);
      throw;
    }
  }
  Fourier(const Fourier &) = delete;
  Fourier &operator=(const Fourier &) = delete;
  ~Fourier() override { library().destroy(plan_); }

  size_t scratch_bytes() const override { return copy_bytes() + work_bytes_; }

  void run(const SolverMemory &memory, void *scratch, Stream stream) override {
    const auto on = static_cast<cudaStream_t>(stream);
    check(library().set_stream(plan_, on), "SetStream");
    check(library().set_work_area(plan_, static_cast<char *>(scratch) + copy_bytes()),
          "SetWorkArea");
    on_ = on;
    void *from = const_cast<void *>(memory.a); // read by cuFFT, though it asks for more
    if (shape_.routine == Routine::fourier_to_real) {
      check_cuda(cudaMemcpyAsync(scratch, memory.a, spectrum_bytes(), cudaMemcpyDeviceToDevice, on),
                 "cudaMemcpyAsync");
      from = scratch;
    }
    if (shape_.dtype == DType::f64)
      execute<cufftDoubleComplex, cufftDoubleReal>(from, memory.out, library().z2z, library().d2z,
                                                   library().z2d);
    else
      execute<cufftComplex, cufftReal>(from, memory.out, library().c2c, library().r2c,
                                       library().c2r);
  }

private:
  const SolverShape shape_;
  cufftHandle plan_ = 0;
  size_t work_bytes_ = 0;
  cudaStream_t on_ = nullptr; // of the call that runs

  void prepare() {
    check(library().set_auto_allocation(plan_, 0), "SetAutoAllocation");
    std::vector<long long> lengths;
    for (const int64_t length : {shape_.m, shape_.n})
      if (length != 1)
        lengths.push_back(length);
    lengths.push_back(shape_.k);
    check(library().make_plan(plan_, static_cast<int>(lengths.size()), lengths.data(), nullptr, 1,
                              0, nullptr, 1, 0, type(), shape_.batch, &work_bytes_),
          "MakePlanMany64");
  }
  cufftType type() const {
    const bool wide = shape_.dtype == DType::f64;
    switch (shape_.routine) {
    case Routine::fourier_of_real:
      return wide ? CUFFT_D2Z : CUFFT_R2C;
    case Routine::fourier_to_real:
      return wide ? CUFFT_Z2D : CUFFT_C2R;
    default:
      return wide ? CUFFT_Z2Z : CUFFT_C2C;
    }
  }
  size_t spectrum_bytes() const {
    return static_cast<size_t>(shape_.batch) * static_cast<size_t>(solver_extents(shape_).a) *
           (shape_.dtype == DType::f64 ? sizeof(double) : sizeof(float));
  }
  size_t copy_bytes() const {
    return shape_.routine == Routine::fourier_to_real ? aligned(spectrum_bytes()) : 0;
  }
  /// What failed may have been queued before: cuFFT does not say, the stream does.
  void check_run(cufftResult status, const char *what) const {
    if (status == CUFFT_EXEC_FAILED) {
      const cudaError_t last = cudaGetLastError();
      const cudaError_t state = cudaStreamQuery(on_);
      if (state != cudaSuccess && state != cudaErrorNotReady)
        throw Error(Status::device, std::string("cuFFT's ") + what + " failed on a stream where " +
                                        cudaGetErrorString(state));
      throw Error(Status::device, std::string("cuFFT's ") + what + " failed to launch (" +
                                      cudaGetErrorString(last) + "): a batch of " +
                                      std::to_string(shape_.batch) + " x [" +
                                      std::to_string(shape_.m) + ", " + std::to_string(shape_.n) +
                                      ", " + std::to_string(shape_.k) + "], " +
                                      std::to_string(work_bytes_) + " bytes of work memory");
    }
    check(status, what);
  }
  template <class Complex, class Real, class ToComplex, class OfReal, class ToReal>
  void execute(void *from, void *to, ToComplex complex, OfReal of_real, ToReal to_real) const {
    cudaGetLastError(); // cuFFT would take what somebody left there for an error of its own
    if (shape_.routine == Routine::fourier_of_real)
      check_run(of_real(plan_, static_cast<Real *>(from), static_cast<Complex *>(to)), "ExecR2C");
    else if (shape_.routine == Routine::fourier_to_real)
      check_run(to_real(plan_, static_cast<Complex *>(from), static_cast<Real *>(to)), "ExecC2R");
    else
      check_run(complex(plan_, static_cast<Complex *>(from), static_cast<Complex *>(to),
                        shape_.has(kBackward) ? CUFFT_INVERSE : CUFFT_FORWARD),
                "ExecC2C");
  }
};

} // namespace

std::unique_ptr<CudaFourier> CudaFourier::make(const SolverShape &shape) {
  return std::make_unique<Fourier>(shape);
}

} // namespace tsc_engine

#else // a toolkit without it

namespace tsc_engine {

std::unique_ptr<CudaFourier> CudaFourier::make(const SolverShape &) {
  throw Error(Status::device, "Fourier transforms on a GPU need cuFFT, and this was compiled "
                              "without its headers; install the whole CUDA toolkit");
}

} // namespace tsc_engine

#endif
