#include "engine/host_device.h"

#include "engine/host_fourier.h"
#include "engine/host_matmul.h"
#include "engine/host_solver.h"
#include "engine/host_threads.h"

#define TC_HOST_ABI_ONLY
#include "tc_host.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>

namespace tsc_engine {
namespace {

constexpr size_t kAlignment = 256;
constexpr unsigned kMaxBlockThreads = 1024;
constexpr unsigned kMaxSharedBytes = 227 * 1024; // of the largest GPU (sm_90)

/// Kernels without barriers need nothing of a runtime; one that calls it all the same was exported
/// with the wrong flag. No frame in between needs unwinding but the kernel's.
[[noreturn]] void missing_flag(TcThread *, int line) {
  throw Error(Status::internal, "waits for other threads (line " + std::to_string(line) +
                                    "), but was exported without TC_HAS_BARRIERS");
}
const TcRuntime kSerialRuntime = {
    [](TcThread *self, int, int line) -> unsigned { missing_flag(self, line); },
    [](TcThread *self, unsigned, void *, TcDeliver, int line) { missing_flag(self, line); },
    [](TcThread *, const char *what, int line) {
      throw Error(Status::device, std::string(what) + " (line " + std::to_string(line) + ")");
    },
};

/// Shared memory of a block: static, then dynamic, each followed by bytes that must stay as they
/// are.
class SharedMemory {
public:
  void reserve(size_t static_bytes, size_t dynamic_bytes) {
    static_bytes_ = static_bytes;
    dynamic_bytes_ = dynamic_bytes;
    dynamic_at_ = (static_bytes + kGuard + 127) / 128 * 128;
    const size_t bytes = dynamic_at_ + (dynamic_bytes + kGuard + 127) / 128 * 128;
    if (bytes <= bytes_)
      return;
    memory_.reset(static_cast<unsigned char *>(std::aligned_alloc(128, bytes)));
    bytes_ = memory_ ? bytes : 0;
    if (!memory_)
      throw Error(Status::out_of_memory, "no memory for a block's shared memory");
  }
  bool used() const { return static_bytes_ + dynamic_bytes_ > 0; }
  void *static_part() const { return memory_.get(); }
  void *dynamic_part() const { return memory_.get() + dynamic_at_; }
  /// 0xFF is NaN in every float type: a read before the first write shows.
  void poison() {
    std::memset(memory_.get(), 0xff, static_bytes_);
    std::memset(memory_.get() + static_bytes_, kMark, kGuard);
    std::memset(memory_.get() + dynamic_at_, 0xff, dynamic_bytes_);
    std::memset(memory_.get() + dynamic_at_ + dynamic_bytes_, kMark, kGuard);
  }
  bool intact() const {
    return marked(memory_.get() + static_bytes_) &&
           marked(memory_.get() + dynamic_at_ + dynamic_bytes_);
  }

private:
  static constexpr size_t kGuard = 64;
  static constexpr int kMark = 0xa5;
  static bool marked(const unsigned char *bytes) {
    return std::all_of(bytes, bytes + kGuard, [](unsigned char byte) { return byte == kMark; });
  }
  struct Free {
    void operator()(unsigned char *memory) const { std::free(memory); }
  };
  std::unique_ptr<unsigned char, Free> memory_;
  size_t bytes_ = 0, static_bytes_ = 0, dynamic_bytes_ = 0, dynamic_at_ = 0;
};

/// What one core needs to run blocks.
struct Worker {
  SharedMemory shared;
  std::unique_ptr<BlockRunner> runner;
};

class HostDevice final : public Device {
public:
  HostDevice(std::vector<const TcKernelEntry *> kernels, const HostDeviceOptions &options)
      : kernels_(std::move(kernels)), options_(options), threads_(HostThreads::shared()),
        workers_(threads_->size()) {
    for (const TcKernelEntry *kernel : kernels_) {
      if (kernel->abi != TC_HOST_ABI)
        throw Error(Status::bad_argument,
                    std::string("kernel ") + kernel->name +
                        " was compiled against another version of the prelude (" +
                        std::to_string(kernel->abi) + ", not " + std::to_string(TC_HOST_ABI) + ")");
      if ((kernel->flags & TC_HAS_BARRIERS) && !options.make_block_runner)
        throw Error(Status::bad_argument,
                    std::string("kernel ") + kernel->name +
                        " has barriers, and this build runs serial kernels only");
    }
  }

  bool is_host() const override { return true; }
  void *allocate(size_t bytes) override {
    const size_t rounded = (std::max<size_t>(bytes, 1) + kAlignment - 1) / kAlignment * kAlignment;
    void *memory = rounded < bytes ? nullptr : std::aligned_alloc(kAlignment, rounded);
    if (!memory)
      throw Error(Status::out_of_memory, "no memory for " + std::to_string(bytes) + " bytes");
    return memory;
  }
  void release(void *memory) override { std::free(memory); }
  void upload(void *to, const void *from_host, size_t bytes, Stream) override {
    move(to, from_host, bytes);
  }
  void download(void *to_host, const void *from, size_t bytes, Stream) override {
    move(to_host, from, bytes);
  }
  void copy(void *to, const void *from, size_t bytes, Stream) override { move(to, from, bytes); }
  void fill(void *memory, int byte, size_t bytes, Stream) override {
    if (bytes)
      std::memset(memory, byte, bytes);
  }
  void synchronize(Stream) override {}
  Event make_timed_event() override { return new Clock::time_point; }
  void release_event(Event event) override { delete static_cast<Clock::time_point *>(event); }
  void record(Event event, Stream) override {
    if (event != nullptr) // else one that does not time: everything is in the order of the calls
      *static_cast<Clock::time_point *>(event) = Clock::now();
  }
  double milliseconds_between(Event first, Event second) override {
    return std::chrono::duration<double, std::milli>(*static_cast<Clock::time_point *>(second) -
                                                     *static_cast<Clock::time_point *>(first))
        .count();
  }

  void launch(size_t kernel, const LaunchGeometry &geometry, void **arguments, Stream) override;

  size_t prepare_matmul(const MatmulShape &shape) override {
    std::lock_guard<std::mutex> lock(mutex_);
    matmuls_.push_back(shape);
    return matmuls_.size() - 1;
  }
  size_t matmul_scratch_bytes(size_t) override { return 0; }
  void matmul(size_t plan, const void *a, const void *b, const void *c, void *out, void *,
              Stream) override {
    MatmulShape shape;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      shape = matmuls_.at(plan);
    }
    host_matmul(shape, a, b, c, out, options_.threads);
  }

  size_t prepare_solver(const SolverShape &shape) override {
    std::lock_guard<std::mutex> lock(mutex_);
    solvers_.push_back(shape);
    return solvers_.size() - 1;
  }
  void solve(size_t plan, const SolverMemory &memory, void *, Stream) override {
    SolverShape shape;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      shape = solvers_.at(plan);
    }
    if (is_transform(shape.routine))
      host_fourier(shape, memory, threads_.get(), options_.threads);
    else
      host_solver(shape, memory);
  }

private:
  using Clock = std::chrono::steady_clock;
  static void move(void *to, const void *from, size_t bytes) {
    if (bytes && to != from)
      std::memmove(to, from, bytes);
  }
  void run_blocks(Worker &worker, const TcKernelEntry &entry, const LaunchGeometry &geometry,
                  void **arguments, int64_t begin, int64_t end);

  const std::vector<const TcKernelEntry *> kernels_;
  const HostDeviceOptions options_;
  const std::shared_ptr<HostThreads> threads_;
  // Several instances may share a device: one of them launches at a time.
  std::mutex launch_mutex_, mutex_;
  std::vector<Worker> workers_;      // launch_mutex_
  std::vector<MatmulShape> matmuls_; // mutex_
  std::vector<SolverShape> solvers_; // mutex_
};

std::string block_text(const TcDim3 &block) {
  return "block (" + std::to_string(block.x) + ", " + std::to_string(block.y) + ", " +
         std::to_string(block.z) + ")";
}

void HostDevice::launch(size_t kernel, const LaunchGeometry &asked, void **arguments, Stream) {
  LaunchGeometry geometry = asked;
  if (geometry.together) // blocks run one after another
    geometry.grid[0] = 1;
  const TcKernelEntry &entry = *kernels_.at(kernel);
  const uint64_t threads = uint64_t(geometry.block[0]) * geometry.block[1] * geometry.block[2];
  if (threads == 0 || threads > kMaxBlockThreads)
    throw Error(Status::bad_argument, std::string("kernel ") + entry.name + ": blocks of " +
                                          std::to_string(threads) + " threads (1 to 1024 can be)");
  if (uint64_t(geometry.shared_bytes) + entry.shared_bytes > kMaxSharedBytes)
    throw Error(Status::bad_argument,
                std::string("kernel ") + entry.name + ": " +
                    std::to_string(uint64_t(geometry.shared_bytes) + entry.shared_bytes) +
                    " bytes of shared memory (at most " + std::to_string(kMaxSharedBytes) + ")");
  const int64_t blocks = int64_t(geometry.grid[0]) * geometry.grid[1] * geometry.grid[2];
  std::lock_guard<std::mutex> lock(launch_mutex_);
  threads_->run(blocks, options_.threads, [&](unsigned worker, int64_t begin, int64_t end) {
    run_blocks(workers_[worker], entry, geometry, arguments, begin, end);
  });
}

void HostDevice::run_blocks(Worker &worker, const TcKernelEntry &entry,
                            const LaunchGeometry &geometry, void **arguments, int64_t begin,
                            int64_t end) {
  const bool barriers = (entry.flags & TC_HAS_BARRIERS) != 0;
  if (barriers && !worker.runner)
    worker.runner = options_.make_block_runner(options_.reversed);
  worker.shared.reserve(entry.shared_bytes, geometry.shared_bytes);
  TcThread thread{};
  thread.block_size = {geometry.block[0], geometry.block[1], geometry.block[2]};
  thread.grid_size = {geometry.grid[0], geometry.grid[1], geometry.grid[2]};
  thread.shared_bytes = entry.shared_bytes;
  thread.reversed = options_.reversed;
  thread.static_shared = worker.shared.static_part();
  thread.dynamic_shared = worker.shared.dynamic_part();
  thread.runtime = &kSerialRuntime;
  for (int64_t i = begin; i < end; ++i) {
    const int64_t plane = i / geometry.grid[0];
    thread.block = {static_cast<unsigned>(i % geometry.grid[0]),
                    static_cast<unsigned>(plane % geometry.grid[1]),
                    static_cast<unsigned>(plane / geometry.grid[1])};
    if (worker.shared.used())
      worker.shared.poison();
    try {
      if (barriers)
        worker.runner->run(entry, arguments, thread);
      else
        entry.thunk(arguments, &thread);
    } catch (const Error &error) {
      throw Error(error.status, std::string("kernel ") + entry.name + ", " +
                                    block_text(thread.block) + ", " + error.what());
    }
    if (worker.shared.used() && !worker.shared.intact())
      throw Error(Status::device, std::string("kernel ") + entry.name + ", " +
                                      block_text(thread.block) +
                                      ", wrote past the end of its shared memory");
  }
}

} // namespace

std::unique_ptr<Device> make_host_device(std::vector<const TcKernelEntry *> kernels,
                                         const HostDeviceOptions &options) {
  return std::make_unique<HostDevice>(std::move(kernels), options);
}

} // namespace tsc_engine
