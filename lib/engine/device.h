// The support layer's view of a device: memory, launches, matrix products. The engine (engine.h)
// walks a program's steps over this interface; host_device.cpp and cuda_device.cpp implement it.
// These files are compiled into tsc and copied into every emitted folder: no dependency but the
// C++17 standard library (and CUDA's or CBLAS in the device that needs them).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace tsc_engine {

/// What crosses the C ABI as a status code (tsc_model.h) and error text.
enum class Status : int {
  ok = 0,
  bad_argument = 1,
  device = 2,
  out_of_memory = 3,
  internal = 4,
  assertion = 5
};
class Error : public std::runtime_error {
public:
  /// `next_step`: what to do about it, where the status alone does not say.
  Error(Status status, const std::string &text, const char *next_step = "")
      : std::runtime_error(text), status(status), next_step(next_step) {}
  Status status;
  const char *next_step;
};

/// torch element types that steps meet; values are part of the ABI.
enum class DType : int32_t {
  boolean,
  u8,
  i8,
  i16,
  i32,
  i64,
  u16,
  u32,
  u64,
  f16,
  bf16,
  f32,
  f64,
  f8e4m3fn,
  f8e5m2,
  f8e4m3fnuz,
  f8e5m2fnuz,
  f8e8m0fnu
};
/// "f32", as program.json has it; "of another type" for what a caller made up.
const char *name_of(DType dtype);
size_t size_in_bytes(DType dtype);
/// What products of such elements are where they are wide: f32 of narrow floats, i32 of i8; of
/// others the same.
DType wide_product(DType dtype);

struct LaunchGeometry {
  uint32_t grid[3] = {1, 1, 1};
  uint32_t block[3] = {1, 1, 1};
  uint32_t shared_bytes = 0; // dynamic
  /// Blocks wait for one another: all run at once, of grid[0] as many as the device holds.
  bool together = false;
};

/// A tensor of which bulk copies bring boxes into shared memory, dimensions from the innermost one
/// on: sizes and box in elements, strides in bytes (of the first dimension one element). Lines of a
/// box have 128 bytes, their 16-byte words permuted by the line's number modulo 8; zeros outside.
struct TensorMapShape {
  DType dtype = DType::f32;
  int rank = 1;
  int64_t sizes[5] = {}, strides[5] = {};
  uint32_t box[5] = {};
  /// Not 0: one tap of sliding windows over this many dimensions, those between the first
  /// (channels) and the last (batch). Positions go from `lower` to size - 1 + `upper`, `step`
  /// apart; a copy brings box[1] of them.
  int windows = 0;
  int lower[3] = {}, upper[3] = {};
  uint32_t step[3] = {};
  bool tf32 = false; // of f32: copies round to 10 bits of mantissa
};
constexpr size_t kTensorMapBytes = 128;

/// out[b, i, j] = alpha * sum_k a[b, i, k] * b[b, k, j] + beta * c[b, i, j]; strides in elements, 0
/// broadcasts. Floats of 16 and 32 bits accumulate in f32, f64 in f64; f32 is f32 unless `tf32`
/// lets a GPU round factors to 10 bits of mantissa.
struct MatmulShape {
  DType dtype = DType::f32; // of a and b, and of c and out unless these are wide
  bool wide = false;        // c and out are of wide_product(dtype)
  int64_t batch = 1, m = 0, n = 0, k = 0;
  struct Strides {
    int64_t row = 0, column = 0, batch = 0;
  } a, b, c, out;
  bool has_c = false;
  double alpha = 1, beta = 0;
  bool tf32 = false;
};

struct SolverShape; // solver.h
struct SolverMemory;

/// The stream of a run: a cudaStream_t, or ignored by the host.
using Stream = void *;
/// A point on a stream that others can wait for: a cudaEvent_t.
using Event = void *;

/// Work that was queued once and can be queued again as one piece.
class Recording {
public:
  virtual ~Recording() = default; // waits until it is no longer at work
  virtual void replay(Stream stream) = 0;
};

class Device {
public:
  virtual ~Device() = default;
  virtual bool is_host() const = 0;
  virtual void *
  allocate(size_t bytes) = 0; // at least 256-byte aligned; never null (bytes 0 included)
  virtual void release(void *memory) = 0;
  virtual void upload(void *to, const void *from_host, size_t bytes, Stream stream) = 0;
  virtual void download(void *to_host, const void *from, size_t bytes, Stream stream) = 0;
  virtual void copy(void *to, const void *from, size_t bytes, Stream stream) = 0;
  virtual void fill(void *memory, int byte, size_t bytes, Stream stream) = 0;
  virtual void synchronize(Stream stream) = 0;

  /// Streams beside a caller's, and events, for programs that have several. As they are here, for a
  /// device that does everything in the order of the calls, the host: null, and nothing to wait
  /// for.
  virtual Stream make_stream() { return nullptr; }
  virtual void release_stream(Stream) {}
  virtual Event make_event() { return nullptr; }
  virtual void release_event(Event) {}
  /// The event is where `stream` is now; recording it again moves it.
  virtual void record(Event, Stream) {}
  /// What `stream` gets from now on waits until the event, as last recorded, is reached.
  virtual void wait(Stream, Event) {}
  /// An event that remembers when it was reached, released as others; null on a device that does
  /// not time.
  virtual Event make_timed_event() { return nullptr; }
  /// Between two that were reached: `first` when it was last recorded, then `second`.
  virtual double milliseconds_between(Event /*first*/, Event /*second*/) { return 0; }
  /// Names what this thread queues from here to the matching end, for profilers that ask (NVTX).
  virtual void begin_range(const char * /*name*/) {}
  virtual void end_range() {}

  /// What `queue` queues on the stream that it is given, and by events on others, as one piece of
  /// work; nothing of it runs. `earlier`, or null: a recording of the same work with other
  /// addresses, which is brought up to date rather than made anew. Null where this work, or any,
  /// cannot be recorded, as it is here, or where `earlier`, now gone, cannot be brought up to date.
  virtual std::unique_ptr<Recording> record_work(const std::function<void(Stream)> & /*queue*/,
                                                 std::unique_ptr<Recording> /*earlier*/) {
    return nullptr;
  }
  /// Whether the stream's owner is recording what it gets.
  virtual bool is_captured(Stream) { return false; }

  /// Writes the tensor map of `shape` at `address` to `map`, kTensorMapBytes; on a device that has
  /// no bulk copies it does nothing. Errors: Error (device) if the driver refuses.
  virtual void make_tensor_map(const TensorMapShape &, const void * /*address*/, void * /*map*/) {}
  /// Runs kernel number `kernel` of the program. `arguments[i]` points at the value of parameter i
  /// (a pointer, or an int64_t size), as cuLaunchKernel takes them.
  virtual void launch(size_t kernel, const LaunchGeometry &geometry, void **arguments,
                      Stream stream) = 0;
  /// Chooses how to run products of this shape (at bind time: may allocate). Returns a plan number.
  virtual size_t prepare_matmul(const MatmulShape &shape) = 0;
  /// Memory that the plan's product needs while it runs.
  virtual size_t matmul_scratch_bytes(size_t plan) = 0;
  /// No plan needs more.
  virtual size_t most_matmul_scratch_bytes() { return 0; }
  /// Never allocates or synchronizes on a GPU. `c` is null unless the shape has one; c may equal
  /// out. `scratch` is 256-byte aligned, of matmul_scratch_bytes, and used by nothing else on
  /// another stream meanwhile.
  virtual void matmul(size_t plan, const void *a, const void *b, const void *c, void *out,
                      void *scratch, Stream stream) = 0;

  /// The same for routines of linear algebra: a plan number, its scratch memory, the run. A run may
  /// synchronize. As they are here, for a device without them: Error (device).
  virtual size_t prepare_solver(const SolverShape &shape);
  virtual size_t solver_scratch_bytes(size_t) { return 0; }
  virtual void solve(size_t, const SolverMemory &, void *, Stream) {}
};

} // namespace tsc_engine
