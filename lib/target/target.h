// Facts per GPU architecture.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tsc::target {

struct Target {
  std::string name; // "sm_90"
  int major = 9, minor = 0;
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
const std::vector<Target> &targets();

} // namespace tsc::target
