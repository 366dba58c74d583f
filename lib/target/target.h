// What a program is planned for: the facts and the abilities of a GPU architecture, or of the host.
// Whoever plans asks for an ability or a limit, never for a name or a number of a version.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tsc::target {

struct Target {
  std::string name;         // "sm_90"; "host"
  int major = 9, minor = 0; // compute capability; 0.0 for the host
  /// Kernels run as plain loops on the CPU, products in the host's library. What else stands here
  /// is of a GPU that the program can also run on.
  bool is_host = false;
  bool has_async_copies = false;  // cp.async: global to shared memory past the registers
  bool has_matrix_16bit = false;  // mma.sync of f16 and bf16 with f32 sums (m16n8k16), ldmatrix
  bool has_matrix_float8 = false; // products of 8-bit floats with f32 sums
  bool has_wgmma = false;         // products by warp groups from shared memory
  bool has_bulk_copies = false;   // cp.async.bulk and its tensor form, mbarrier transactions
  int multiprocessors = 132;
  int max_threads_per_multiprocessor = 2048;
  int max_threads_per_block = 1024;
  int registers_per_multiprocessor = 65536;
  int shared_bytes_per_block = 232448; // opt-in limit
  int shared_bytes_per_multiprocessor = 233472;
  double bandwidth = 4.8e12;  // bytes a second, data sheet
  double bytes_in_flight = 0; // bandwidth * latency: what must be outstanding to saturate memory
  int l2_bytes = 0;
  // Operations a second at most, data sheet, a multiplication with its addition counting two.
  double flops_f64 = 0, flops_f32 = 0; // f32 without TF32, as products are computed here
  double flops_16bit = 0;              // products of f16 and bf16, no sparsity
  double link_bandwidth = 0;           // bytes a second and direction to other GPUs of the host
};

/// Throws UserError (usage) TSC-C001 with the known names for an unknown one.
const Target &find_target(std::string_view name);
/// Every GPU architecture that is planned for, oldest first.
const std::vector<Target> &targets();
/// What to plan for where the GPU is an `arch` ("sm_103"): the newest architecture that is not
/// newer; null where that GPU is older than all.
const Target *nearest_target(std::string_view arch);

} // namespace tsc::target
