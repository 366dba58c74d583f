#include "engine/cuda_device.h"

#include "engine/cuda_error.h"
#include "engine/cuda_matmul.h"
#include "engine/cuda_solver.h"

#include <cuda.h>
#include <cudaTypedefs.h>
#if __has_include(<nvtx3/nvToolsExt.h>)
#include <nvtx3/nvToolsExt.h> // headers alone: calls go nowhere unless a profiler is attached
#define TSC_WITH_NVTX
#endif

#include <algorithm>
#include <atomic>
#include <cstring>
#include <deque>
#include <map>

namespace tsc_engine {
namespace {

/// Dynamic shared memory that a kernel gets without asking.
constexpr uint32_t kDefaultSharedBytes = 48 * 1024;

void need_device(int device_index) {
  int count = 0;
  const cudaError_t result = cudaGetDeviceCount(&count);
  if (result == cudaErrorInsufficientDriver) {
    int driver = 0;
    cudaDriverGetVersion(&driver);
    cudaGetLastError();
    throw Error(Status::device,
                driver == 0 ? std::string("no CUDA driver is installed")
                            : "the CUDA driver is for CUDA " + std::to_string(driver / 1000) + "." +
                                  std::to_string(driver % 1000 / 10) + ", too old for CUDA " +
                                  std::to_string(CUDART_VERSION / 1000) + "." +
                                  std::to_string(CUDART_VERSION % 1000 / 10));
  }
  if (result == cudaErrorNoDevice || (result == cudaSuccess && count == 0)) {
    cudaGetLastError();
    throw Error(Status::device, "no CUDA GPU was found");
  }
  check_cuda(result, "cudaGetDeviceCount");
  if (device_index < 0 || device_index >= count)
    throw Error(Status::bad_argument, "there is no CUDA GPU number " +
                                          std::to_string(device_index) + " (" +
                                          std::to_string(count) + " found)");
}

int attribute(cudaDeviceAttr name, int device_index) {
  int value = 0;
  check_cuda(cudaDeviceGetAttribute(&value, name, device_index), "cudaDeviceGetAttribute");
  return value;
}

/// A function that drivers from 12.0 on have; else null.
template <class Function> Function driver_function(const char *name) {
  void *function = nullptr;
  cudaDriverEntryPointQueryResult result = cudaDriverEntryPointSymbolNotFound;
  if (cudaGetDriverEntryPointByVersion(name, &function, 12000, cudaEnableDefault, &result) !=
          cudaSuccess ||
      result != cudaDriverEntryPointSuccess)
    function = nullptr;
  cudaGetLastError();
  return reinterpret_cast<Function>(function);
}

CUtensorMapDataType tensor_map_type(DType dtype, bool tf32) {
  switch (dtype) {
  case DType::f16:
    return CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
  case DType::bf16:
    return CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
  case DType::f32:
    return tf32 ? CU_TENSOR_MAP_DATA_TYPE_TFLOAT32 : CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
  default: // bytes as they are
    switch (size_in_bytes(dtype)) {
    case 1:
      return CU_TENSOR_MAP_DATA_TYPE_UINT8;
    case 2:
      return CU_TENSOR_MAP_DATA_TYPE_UINT16;
    case 4:
      return CU_TENSOR_MAP_DATA_TYPE_UINT32;
    default:
      return CU_TENSOR_MAP_DATA_TYPE_UINT64;
    }
  }
}

struct Kernel {
  cudaKernel_t handle = nullptr;
  std::string name;
  std::atomic<uint32_t> shared_bytes{kDefaultSharedBytes}; // dynamic, allowed so far
  std::atomic<uint64_t> held{0}; // blocks that the GPU holds at once; above: with that much of it
};

/// Events, graphs and the like, destroyed with their scope.
template <class Handle, cudaError_t (*Destroy)(Handle)> struct Scoped {
  Handle handle = nullptr;
  Scoped() = default;
  ~Scoped() {
    if (handle)
      Destroy(handle);
  }
  Scoped(const Scoped &) = delete;
  Scoped &operator=(const Scoped &) = delete;
};
using TimedEvent = Scoped<cudaEvent_t, &cudaEventDestroy>;
using Graph = Scoped<cudaGraph_t, &cudaGraphDestroy>;

class CudaDeviceImplementation final : public CudaDevice {
public:
  explicit CudaDeviceImplementation(const CudaDeviceOptions &options);
  ~CudaDeviceImplementation() override;

  bool is_host() const override { return false; }
  Stream stream() const override { return stream_; }
  void *allocate(size_t bytes) override {
    make_current();
    void *memory = nullptr;
    const cudaError_t result = cudaMalloc(&memory, std::max<size_t>(bytes, 256));
    if (result == cudaErrorMemoryAllocation) {
      cudaGetLastError();
      throw Error(Status::out_of_memory,
                  "the GPU has no memory for " + std::to_string(bytes) + " bytes");
    }
    check_cuda(result, "cudaMalloc");
    return memory;
  }
  void release(void *memory) override { cudaFree(memory); }
  void upload(void *to, const void *from, size_t bytes, Stream stream) override {
    move(to, from, bytes, cudaMemcpyHostToDevice, stream);
  }
  void download(void *to, const void *from, size_t bytes, Stream stream) override {
    move(to, from, bytes, cudaMemcpyDeviceToHost, stream);
  }
  void copy(void *to, const void *from, size_t bytes, Stream stream) override {
    if (to != from)
      move(to, from, bytes, cudaMemcpyDeviceToDevice, stream);
  }
  void fill(void *memory, int byte, size_t bytes, Stream stream) override {
    make_current();
    if (bytes)
      check_cuda(cudaMemsetAsync(memory, byte, bytes, static_cast<cudaStream_t>(stream)),
                 "cudaMemsetAsync");
  }
  void synchronize(Stream stream) override {
    make_current();
    check_cuda(cudaStreamSynchronize(static_cast<cudaStream_t>(stream)),
               "kernels or copies failed");
  }
  Stream make_stream() override {
    make_current();
    cudaStream_t stream = nullptr;
    check_cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate");
    return stream;
  }
  void release_stream(Stream stream) override {
    if (stream != nullptr)
      cudaStreamDestroy(static_cast<cudaStream_t>(stream));
  }
  Event make_event() override {
    make_current();
    cudaEvent_t event = nullptr;
    check_cuda(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "cudaEventCreate");
    return event;
  }
  void release_event(Event event) override {
    if (event != nullptr)
      cudaEventDestroy(static_cast<cudaEvent_t>(event));
  }
  Event make_timed_event() override {
    make_current();
    cudaEvent_t event = nullptr;
    check_cuda(cudaEventCreate(&event), "cudaEventCreate");
    return event;
  }
  double milliseconds_between(Event first, Event second) override {
    float milliseconds = 0;
    check_cuda(cudaEventElapsedTime(&milliseconds, static_cast<cudaEvent_t>(first),
                                    static_cast<cudaEvent_t>(second)),
               "cudaEventElapsedTime");
    return static_cast<double>(milliseconds);
  }
#ifdef TSC_WITH_NVTX
  void begin_range(const char *name) override { nvtxRangePushA(name); }
  void end_range() override { nvtxRangePop(); }
#endif
  void record(Event event, Stream stream) override {
    make_current();
    check_cuda(cudaEventRecord(static_cast<cudaEvent_t>(event), static_cast<cudaStream_t>(stream)),
               "cudaEventRecord");
  }
  void wait(Stream stream, Event event) override {
    make_current();
    check_cuda(
        cudaStreamWaitEvent(static_cast<cudaStream_t>(stream), static_cast<cudaEvent_t>(event), 0),
        "cudaStreamWaitEvent");
  }
  void make_tensor_map(const TensorMapShape &shape, const void *address, void *map) override;
  void launch(size_t kernel, const LaunchGeometry &geometry, void **arguments,
              Stream stream) override;
  size_t prepare_matmul(const MatmulShape &shape) override {
    make_current();
    return matmuls_->prepare(shape);
  }
  size_t matmul_scratch_bytes(size_t plan) override { return matmuls_->scratch_bytes(plan); }
  size_t most_matmul_scratch_bytes() override { return kMostScratchBytes; }
  void matmul(size_t plan, const void *a, const void *b, const void *c, void *out, void *scratch,
              Stream stream) override {
    make_current();
    matmuls_->run(plan, a, b, c, out, scratch, stream);
  }
  size_t prepare_solver(const SolverShape &shape) override {
    make_current();
    return solvers_->prepare(shape);
  }
  size_t solver_scratch_bytes(size_t plan) override { return solvers_->scratch_bytes(plan); }
  void solve(size_t plan, const SolverMemory &memory, void *scratch, Stream stream) override {
    make_current();
    solvers_->run(plan, memory, scratch, stream);
  }
  std::unique_ptr<Recording> record_work(const std::function<void(Stream)> &queue,
                                         std::unique_ptr<Recording> earlier) override;
  bool is_captured(Stream stream) override;
  std::vector<double> time(const std::function<void(Stream)> &run, int repeats,
                           int warm_ups) override;

private:
  unsigned blocks_held(Kernel &kernel, const LaunchGeometry &geometry);
  void make_current() const { check_cuda(cudaSetDevice(device_index_), "cudaSetDevice"); }
  void move(void *to, const void *from, size_t bytes, cudaMemcpyKind kind, Stream stream) {
    make_current();
    if (bytes)
      check_cuda(cudaMemcpyAsync(to, from, bytes, kind, static_cast<cudaStream_t>(stream)),
                 "cudaMemcpyAsync");
  }
  void load(const CudaDeviceOptions &options);
  void unload();
  std::map<std::string, cudaKernel_t> loaded_kernels() const;

  const int device_index_;
  bool has_bulk_copies_ = false; // of tensors, from compute capability 9.0 on
  cudaStream_t stream_ = nullptr;
  std::vector<cudaLibrary_t> libraries_;
  std::deque<Kernel> kernels_;
  std::unique_ptr<CudaMatmuls> matmuls_;
  std::unique_ptr<CudaSolvers> solvers_;
};

CudaDeviceImplementation::CudaDeviceImplementation(const CudaDeviceOptions &options)
    : device_index_(options.device_index) {
  need_device(device_index_);
  make_current();
  has_bulk_copies_ = attribute(cudaDevAttrComputeCapabilityMajor, device_index_) >= 9;
  try {
    load(options);
  } catch (...) {
    unload();
    throw;
  }
}

CudaDeviceImplementation::~CudaDeviceImplementation() { unload(); }

void CudaDeviceImplementation::load(const CudaDeviceOptions &options) {
  check_cuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreate");
  for (const CudaImage &image : options.images) {
    cudaLibrary_t library = nullptr;
    check_cuda(cudaLibraryLoadData(&library, image.data, nullptr, nullptr, 0, nullptr, nullptr, 0),
               "kernels cannot be loaded");
    libraries_.push_back(library);
  }
  const std::map<std::string, cudaKernel_t> loaded = loaded_kernels();
  for (const std::string &name : options.kernels) {
    const auto found = loaded.find(name);
    if (found == loaded.end())
      throw Error(Status::device, "no loaded image has a kernel " + name);
    kernels_.emplace_back();
    kernels_.back().name = name;
    kernels_.back().handle = found->second;
  }
  matmuls_ = CudaMatmuls::make(device_index_);
  solvers_ = CudaSolvers::make();
}

void CudaDeviceImplementation::unload() {
  cudaSetDevice(device_index_);
  matmuls_.reset();
  solvers_.reset();
  for (cudaLibrary_t library : libraries_)
    cudaLibraryUnload(library);
  if (stream_)
    cudaStreamDestroy(stream_);
}

/// Kernels of the loaded images by name. (Asking each image for each name would be simpler, but a
/// name that is elsewhere counts as an error for compute-sanitizer.)
std::map<std::string, cudaKernel_t> CudaDeviceImplementation::loaded_kernels() const {
  std::map<std::string, cudaKernel_t> loaded;
  for (cudaLibrary_t library : libraries_) {
    unsigned count = 0;
    check_cuda(cudaLibraryGetKernelCount(&count, library), "cudaLibraryGetKernelCount");
    std::vector<cudaKernel_t> kernels(count);
    check_cuda(cudaLibraryEnumerateKernels(kernels.data(), count, library),
               "cudaLibraryEnumerateKernels");
    for (cudaKernel_t kernel : kernels) {
      const char *name = nullptr;
      check_cuda(cudaFuncGetName(&name, reinterpret_cast<const void *>(kernel)), "cudaFuncGetName");
      loaded.emplace(name, kernel);
    }
  }
  return loaded;
}

void CudaDeviceImplementation::make_tensor_map(const TensorMapShape &shape, const void *address,
                                               void *map) {
  if (!has_bulk_copies_)
    return;
  static const auto encode_tiled =
      driver_function<PFN_cuTensorMapEncodeTiled_v12000>("cuTensorMapEncodeTiled");
  static const auto encode_windows =
      driver_function<PFN_cuTensorMapEncodeIm2col_v12000>("cuTensorMapEncodeIm2col");
  if (encode_tiled == nullptr || encode_windows == nullptr)
    throw Error(Status::device, "the CUDA driver makes no tensor maps: it is older than 12.0");
  cuuint64_t sizes[5] = {}, strides[4] = {};
  cuuint32_t box[5] = {}, steps[5] = {};
  for (int k = 0; k < shape.rank; ++k) {
    sizes[k] = static_cast<cuuint64_t>(shape.sizes[k]);
    box[k] = shape.box[k];
    const bool slides = k > 0 && k <= shape.windows;
    steps[k] = slides ? shape.step[k - 1] : 1;
    if (k > 0)
      strides[k - 1] = static_cast<cuuint64_t>(shape.strides[k]);
  }
  CUtensorMap made; // as aligned as the driver wants it
  static_assert(sizeof(made) == kTensorMapBytes);
  const auto type = tensor_map_type(shape.dtype, shape.tf32);
  const auto rank = static_cast<cuuint32_t>(shape.rank);
  void *start = const_cast<void *>(address);
  const uint64_t line = box[0] * size_in_bytes(shape.dtype); // the words of a line are permuted
  const auto swizzle = line == 16   ? CU_TENSOR_MAP_SWIZZLE_NONE
                       : line == 32 ? CU_TENSOR_MAP_SWIZZLE_32B
                       : line == 64 ? CU_TENSOR_MAP_SWIZZLE_64B
                                    : CU_TENSOR_MAP_SWIZZLE_128B;
  const CUresult result =
      shape.windows > 0
          ? encode_windows(&made, type, rank, start, sizes, strides, shape.lower, shape.upper,
                           box[0], box[1], steps, CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle,
                           CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE)
          : encode_tiled(&made, type, rank, start, sizes, strides, box, steps,
                         CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                         CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (result != CUDA_SUCCESS)
    throw Error(Status::device,
                "the CUDA driver makes no tensor map (" + std::to_string(static_cast<int>(result)) +
                    ") for a tensor at " + std::to_string(reinterpret_cast<uintptr_t>(address)));
  std::memcpy(map, &made, sizeof(made));
}

unsigned CudaDeviceImplementation::blocks_held(Kernel &kernel, const LaunchGeometry &geometry) {
  uint64_t held = kernel.held.load(std::memory_order_acquire);
  if (held == 0 || held >> 32 != geometry.shared_bytes) {
    int of_each = 0;
    check_cuda(cudaOccupancyMaxActiveBlocksPerMultiprocessor(
                   &of_each, reinterpret_cast<const void *>(kernel.handle),
                   static_cast<int>(geometry.block[0] * geometry.block[1] * geometry.block[2]),
                   geometry.shared_bytes),
               ("occupancy of kernel " + kernel.name).c_str());
    held =
        uint64_t{geometry.shared_bytes} << 32 |
        static_cast<uint64_t>(of_each * attribute(cudaDevAttrMultiProcessorCount, device_index_));
    kernel.held.store(held, std::memory_order_release);
  }
  return static_cast<unsigned>(held);
}

void CudaDeviceImplementation::launch(size_t number, const LaunchGeometry &geometry,
                                      void **arguments, Stream stream) {
  make_current();
  Kernel &kernel = kernels_.at(number);
  const auto *function = reinterpret_cast<const void *>(kernel.handle);
  if (geometry.grid[0] == 0 || geometry.grid[1] == 0 || geometry.grid[2] == 0)
    return;
  if (geometry.shared_bytes > kernel.shared_bytes.load(std::memory_order_acquire)) {
    check_cuda(cudaFuncSetAttribute(function, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                    static_cast<int>(geometry.shared_bytes)),
               ("kernel " + kernel.name + " cannot have " + std::to_string(geometry.shared_bytes) +
                " bytes of shared memory")
                   .c_str());
    kernel.shared_bytes.store(geometry.shared_bytes, std::memory_order_release);
  }
  const dim3 block(geometry.block[0], geometry.block[1], geometry.block[2]);
  dim3 grid(geometry.grid[0], geometry.grid[1], geometry.grid[2]);
  const auto on = static_cast<cudaStream_t>(stream);
  cudaError_t result = cudaSuccess;
  if (geometry.together) {
    grid.x = std::min(grid.x, blocks_held(kernel, geometry));
    result =
        cudaLaunchCooperativeKernel(function, grid, block, arguments, geometry.shared_bytes, on);
  } else {
    result = cudaLaunchKernel(function, grid, block, arguments, geometry.shared_bytes, on);
  }
  if (result != cudaSuccess)
    check_cuda(result, ("launch of kernel " + kernel.name).c_str());
}

/// A graph that can be launched, and the stream that it is captured on.
class CudaRecording final : public Recording {
public:
  explicit CudaRecording(int device_index) : device_index_(device_index) {
    check_cuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreate");
  }
  ~CudaRecording() override {
    cudaSetDevice(device_index_);
    if (execution_ != nullptr) {
      cudaDeviceSynchronize(); // it may be at work on a stream that is nobody's to ask any more
      cudaGraphExecDestroy(execution_);
    }
    cudaStreamDestroy(stream_);
  }
  CudaRecording(const CudaRecording &) = delete;
  CudaRecording &operator=(const CudaRecording &) = delete;

  /// False if something in the work cannot be captured, or an earlier graph cannot be updated.
  bool record(const std::function<void(Stream)> &queue) {
    Graph graph;
    const bool is_ready =
        capture(queue, graph) &&
        (execution_ != nullptr ? update(graph.handle)
                               : cudaGraphInstantiate(&execution_, graph.handle, 0) == cudaSuccess);
    cudaGetLastError();
    return is_ready;
  }
  void replay(Stream stream) override {
    check_cuda(cudaSetDevice(device_index_), "cudaSetDevice");
    check_cuda(cudaGraphLaunch(execution_, static_cast<cudaStream_t>(stream)), "cudaGraphLaunch");
  }

private:
  bool capture(const std::function<void(Stream)> &queue, Graph &graph) {
    if (cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal) != cudaSuccess)
      return false;
    bool is_whole = true;
    try {
      queue(stream_);
    } catch (const Error &) { // queued step by step it says why
      is_whole = false;
    }
    return cudaStreamEndCapture(stream_, &graph.handle) == cudaSuccess && is_whole &&
           graph.handle != nullptr;
  }
  /// The same steps with other addresses: an update of the nodes, far cheaper than a new graph.
  /// What is at work keeps the old ones.
  bool update(cudaGraph_t graph) {
    cudaGraphExecUpdateResultInfo result;
    return cudaGraphExecUpdate(execution_, graph, &result) == cudaSuccess;
  }

  const int device_index_;
  cudaStream_t stream_ = nullptr;
  cudaGraphExec_t execution_ = nullptr;
};

std::unique_ptr<Recording>
CudaDeviceImplementation::record_work(const std::function<void(Stream)> &queue,
                                      std::unique_ptr<Recording> earlier) {
  make_current();
  // Of this device, as everything that it is given.
  std::unique_ptr<CudaRecording> recording(static_cast<CudaRecording *>(earlier.release()));
  if (recording == nullptr)
    recording = std::make_unique<CudaRecording>(device_index_);
  if (!recording->record(queue))
    return nullptr;
  return recording;
}

bool CudaDeviceImplementation::is_captured(Stream stream) {
  make_current();
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  // An error: the default stream, while another stream is captured that waits for it.
  if (cudaStreamIsCapturing(static_cast<cudaStream_t>(stream), &status) != cudaSuccess) {
    cudaGetLastError();
    return true;
  }
  return status != cudaStreamCaptureStatusNone;
}

std::vector<double> CudaDeviceImplementation::time(const std::function<void(Stream)> &run,
                                                   int repeats, int warm_ups) {
  make_current();
  for (int i = 0; i < warm_ups; ++i)
    run(stream_);
  synchronize(stream_);
  struct Memory {
    void *data = nullptr;
    ~Memory() { cudaFree(data); }
  } flush;
  const size_t flush_bytes =
      2 * static_cast<size_t>(attribute(cudaDevAttrL2CacheSize, device_index_));
  check_cuda(cudaMalloc(&flush.data, std::max<size_t>(flush_bytes, 256)), "cudaMalloc");
  TimedEvent start, stop;
  check_cuda(cudaEventCreate(&start.handle), "cudaEventCreate");
  check_cuda(cudaEventCreate(&stop.handle), "cudaEventCreate");
  std::vector<double> samples;
  for (int i = 0; i < repeats; ++i) {
    // Long enough for what follows to be queued before it starts: no launch latency is measured.
    fill(flush.data, i, flush_bytes, stream_);
    check_cuda(cudaEventRecord(start.handle, stream_), "cudaEventRecord");
    run(stream_);
    check_cuda(cudaEventRecord(stop.handle, stream_), "cudaEventRecord");
    synchronize(stream_);
    float milliseconds = 0;
    check_cuda(cudaEventElapsedTime(&milliseconds, start.handle, stop.handle),
               "cudaEventElapsedTime");
    samples.push_back(static_cast<double>(milliseconds));
  }
  return samples;
}

} // namespace

std::unique_ptr<CudaDevice> make_cuda_device(const CudaDeviceOptions &options) {
  return std::make_unique<CudaDeviceImplementation>(options);
}

int cuda_shared_bytes(int device_index) {
  need_device(device_index);
  return attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin, device_index);
}

std::string cuda_device_name(int device_index) {
  need_device(device_index);
  cudaDeviceProp properties{};
  check_cuda(cudaGetDeviceProperties(&properties, device_index), "cudaGetDeviceProperties");
  int version = 0;
  check_cuda(cudaDriverGetVersion(&version), "cudaDriverGetVersion");
  return std::string(properties.name) + ", CUDA " + std::to_string(version / 1000) + "." +
         std::to_string(version % 1000 / 10);
}

std::string cuda_arch(int device_index) {
  need_device(device_index);
  return "sm_" + std::to_string(attribute(cudaDevAttrComputeCapabilityMajor, device_index)) +
         std::to_string(attribute(cudaDevAttrComputeCapabilityMinor, device_index));
}

CudaPart cuda_part(int device_index) {
  need_device(device_index);
  constexpr double kKilohertz = 1e3, kBitsPerByte = 8, kTransfers = 2; // of a cycle
  CudaPart part;
  part.multiprocessors = attribute(cudaDevAttrMultiProcessorCount, device_index);
  part.l2_bytes = attribute(cudaDevAttrL2CacheSize, device_index);
  int clock = 0, width = 0;
  if (cudaDeviceGetAttribute(&clock, cudaDevAttrMemoryClockRate, device_index) == cudaSuccess &&
      cudaDeviceGetAttribute(&width, cudaDevAttrGlobalMemoryBusWidth, device_index) == cudaSuccess)
    part.bandwidth = clock * kKilohertz * kTransfers * width / kBitsPerByte;
  else
    cudaGetLastError(); // it is told here; later calls are not to find it
  return part;
}

void make_cuda_context(int device_index) {
  need_device(device_index);
  check_cuda(cudaSetDevice(device_index), "cudaSetDevice");
  check_cuda(cudaFree(nullptr), "cudaFree");
}

} // namespace tsc_engine
