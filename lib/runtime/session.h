// Runs programs on devices: the C++ face of the support layer, used by `tsc run`.
#pragma once

#include "program/kernel_images.h"
#include "program/program.h"
#include "tensor/host_tensor.h"

#include <future>
#include <memory>
#include <string>
#include <vector>

namespace tsc_engine {
class Groups;
}

namespace tsc::runtime {

enum class DeviceKind : uint8_t { host, cuda };
enum class Plan : uint8_t { serial, cuda };

struct SessionOptions {
  DeviceKind device = DeviceKind::host;
  Plan plan = Plan::serial; // host only; the GPU always takes the cuda plan
  int device_index = 0;
  /// host, cuda plan: order in which the threads of a block run between barriers.
  enum class ThreadOrder : uint8_t { forward, reverse } thread_order = ThreadOrder::forward;
  std::string cache_folder; // "" : $XDG_CACHE_HOME/tsc or ~/.cache/tsc
  bool use_cache = true;
  /// Compiled code of the program's kernels, taken where it is for what runs here; else (and of
  /// null) they are compiled.
  std::shared_ptr<const program::KernelImages> images;
  bool use_graphs = true; // GPU: runs of the same shapes are captured once, then replayed
};

struct Timing {
  double compile_ms = 0; // kernels, cold or from the cache
  size_t compiled = 0, from_cache = 0;
  double load_ms = 0;                    // weights
  size_t kernels = 0, library_calls = 0; // steps of one run
  size_t workspace_bytes = 0, weight_bytes = 0;
  /// Of the last run(): inputs to the device, steps, results back.
  double upload_ms = 0, steps_ms = 0, download_ms = 0;
  std::vector<double> warm_up_ms; // of the last bench: its runs that are no samples, in order
  size_t replayed_runs = 0;       // until the last bench: from CUDA graphs
};

/// When a step of a run was queued and when it was at work: microseconds of the steady clock.
struct StepSpan {
  uint32_t step = 0; // of program.steps; in a loop once a round
  double queued_us = 0, queued_for_us = 0;
  double began_us = 0, took_us = 0; // on the GPU by events, and the clocks are put side by side
};
struct RunSpan {
  double began_us = 0, queued_for_us = 0, took_us = 0;
  std::vector<StepSpan> steps;
};

/// The kernels of a program on their way to a device: a thread of their own compiles and loads
/// them, so that inputs and weights can be read meanwhile.
class Preparation {
public:
  /// `program` must outlive this. No errors: they come from Session::create.
  Preparation(const program::Program &program, const SessionOptions &options);
  ~Preparation(); // waits for what is under way
  Preparation(const Preparation &) = delete;
  Preparation &operator=(const Preparation &) = delete;

private:
  friend class Session;
  struct Ready;
  const program::Program &program_;
  std::future<std::unique_ptr<Ready>> ready_;
};

/// A program made ready on a device. Not thread-safe; several sessions may exist.
class Session {
public:
  /// Compiles the kernels and loads the weights. Errors: UserError (device) TSC-R0nn with the
  /// compiler's or driver's message; UserError (bad_input) when a weight is missing or its dtype or
  /// size differs.
  static std::unique_ptr<Session> create(const program::Program &program,
                                         const tensor::TensorMap &weights,
                                         const SessionOptions &options);
  /// Likewise, with what a thread has made ready or is about to; once.
  static std::unique_ptr<Session> create(Preparation &preparation,
                                         const tensor::TensorMap &weights);
  virtual ~Session() = default;

  /// One run. `inputs` parallel to program.inputs, contiguous; results parallel to program.outputs
  /// (constant outputs give empty tensors). Memory that steps write is poisoned (0xFF) first.
  /// Errors: UserError (bad_input) TSC-R1nn when a count, dtype, rank or size differs from the
  /// signature, with both sides.
  virtual std::vector<tensor::HostTensor> run(const std::vector<tensor::HostTensor> &inputs) = 0;
  /// The next run draws the numbers of (seed, 0), the one after it those of (seed, 1), ...; a new
  /// session starts so with seed 0.
  virtual void set_seed(uint64_t seed) = 0;
  /// The connections to the other ranks of a program with collectives, for all runs from now on;
  /// they must outlive them. Null: there are none, and collectives are refused.
  virtual void set_groups(tsc_engine::Groups *groups) = 0;
  /// Milliseconds per run (events on the GPU, L2 flushed between runs; wall clock on the host),
  /// `repeats` samples.
  virtual std::vector<double> bench(const std::vector<tensor::HostTensor> &inputs, int repeats) = 0;
  /// Milliseconds of each step of program.steps, the median of `repeats` runs of the step alone
  /// (as bench times them); 0 for steps that a run does not come to. What assertions say of the
  /// numbers is ignored.
  virtual std::vector<double> time_steps(const std::vector<tensor::HostTensor> &inputs,
                                         int repeats) = 0;
  /// What happens in each of `repeats` runs, after two that are not looked at. A GPU is given step
  /// by step what it replays as a graph otherwise, and events between the steps, which take time
  /// themselves.
  virtual std::vector<RunSpan> profile(const std::vector<tensor::HostTensor> &inputs,
                                       int repeats) = 0;
  virtual const Timing &timing() const = 0;
};

/// Compiles the kernels of a program that is planned for "host" or a GPU ("sm_90"), which need not
/// be here. Errors: UserError (device) TSC-R0nn.
program::KernelImages compile_images(const program::Program &program, const std::string &arch);

/// Now, as spans have it.
double now_us();

/// The architecture of the first GPU ("sm_90"); "" if there is none or the CUDA module is missing,
/// and `why` (may be null) says so.
std::string cuda_arch(std::string *why);
/// What to plan for on the first GPU, as target::find_target takes it: the newest architecture that
/// is not newer, with the facts of this part. "" if there is no such GPU, and `why` (may be null)
/// says so.
std::string native_part(std::string *why);
/// The first GPU and its driver, in words; "" as cuda_arch.
std::string cuda_device_name();
/// True if a GPU and the CUDA module are there; `why` (may be null) says why not.
bool cuda_available(std::string *why);

} // namespace tsc::runtime
