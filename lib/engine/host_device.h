// The host as a device: kernels are functions of the process (TC_EXPORT in tc_host.h), blocks run
// on the machine's cores, matrix products are CBLAS's.
#pragma once

#include "engine/device.h"

#include <memory>
#include <vector>

struct TcKernelEntry; // tc_host.h
struct TcThread;

namespace tsc_engine {

/// Runs blocks whose threads wait for each other. Used by one thread at a time.
class BlockRunner {
public:
  virtual ~BlockRunner() = default;
  /// Runs all threads of one block. `thread` holds everything but the thread's own index, which is
  /// set here. Errors: Error (device) for a deadlock, divergent barriers and misused warp
  /// operations.
  virtual void run(const TcKernelEntry &kernel, void **arguments, const TcThread &thread) = 0;
};
using MakeBlockRunner = std::unique_ptr<BlockRunner> (*)(bool reversed);

struct HostDeviceOptions {
  /// make_fiber_runner (fibers.h), or null where no kernel has barriers: then nothing of it is
  /// linked.
  MakeBlockRunner make_block_runner = nullptr;
  /// Threads of a block run in descending order between barriers.
  bool reversed = false;
  /// Cores that blocks are spread over; 0: all.
  unsigned threads = 0;
};

/// kernels[i] is kernel number i; they outlive the device. Errors: Error (bad_argument) for an
/// entry of another version of the prelude, or one with barriers where there is no runner for them.
std::unique_ptr<Device> make_host_device(std::vector<const TcKernelEntry *> kernels,
                                         const HostDeviceOptions &options);

} // namespace tsc_engine
