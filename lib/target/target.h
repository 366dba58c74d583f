// What a program is planned for: the facts and the abilities of a GPU architecture, or of the host.
// Whoever plans asks for an ability or a limit, never for a name or a number of a version.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tsc::target {

struct Target {
  std::string name;         // "sm_90"; "host": of the architecture, whose code it runs
  std::string part;         // how find_target finds it: "sm_90", "sm_90:gigabytes_per_second=3350"
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

/// What one part has of an architecture; 0 where that is not known.
struct PartFacts {
  int multiprocessors = 0;
  double bandwidth = 0; // bytes a second
  int l2_bytes = 0;
};

/// By a name, or by a name and the facts of a part that are not those that stand for its
/// architecture: "sm_90:multiprocessors=114:gigabytes_per_second=2039:l2_mebibytes=50". Arithmetic
/// goes with the multiprocessors. Such a target stays for the life of the process.
/// Throws UserError (usage) TSC-C001 with the known names for an unknown one, TSC-C035 for facts
/// that are none.
const Target &find_target(std::string_view part);
/// The part of an architecture with those facts, as find_target finds it. A fact stays the
/// architecture's where it differs by less than a twentieth, or so much that it cannot be true.
std::string part_of(const Target &architecture, const PartFacts &facts);
/// Every GPU architecture that is planned for, oldest first.
const std::vector<Target> &targets();
/// What to plan for where the GPU is an `arch` ("sm_103"): the newest architecture that is not
/// newer; null where that GPU is older than all.
const Target *nearest_target(std::string_view arch);

} // namespace tsc::target
