// The two policies: the same code with other named constants and steps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace tsc::target {

/// How tensors are joined: in one kernel that reads each part under a mask, or in memory that the
/// parts' own kernels store into.
enum class Concatenation : uint8_t {
  fewest_launches, // in memory where some part is stored there at once and no launch is added
  inductor,        // TorchInductor's choice, see max_masked_parts
};

/// Every threshold of lowering and scheduling, with its seed value. See docs/scheduler.md.
struct Policy {
  std::string_view name = "default";
  size_t realize_reads_threshold = 4;
  size_t realize_accumulated_reads_threshold = 8;
  size_t realize_opcount_threshold = 30;
  int64_t unroll_reductions_threshold = 8;
  bool split_reductions = false; // in lowering; under default the kernel plan splits
  bool online_softmax = true;
  bool casts_in_bodies = true; // explicit to_dtype for f16 and bf16, as newer Inductor
  size_t max_fusion_size = 64;
  int64_t fusion_memory_threshold = 10; // bytes
  size_t max_distance = 64;             // nodes apart, horizontal fusion
  size_t max_candidates_per_buffer = 64;
  bool loop_ordering_after_fusion = true;
  /// Attention of 16-bit floats is one kernel where it can be; else products and a softmax.
  bool fused_attention = true;
  /// Rows of a large product start at multiples of this many bytes, as the matrix library's fast
  /// kernels want; whoever needs other strides copies. 0: rows are never padded.
  int64_t product_row_alignment = 16;
  Concatenation concatenation = Concatenation::fewest_launches;
  /// Under Concatenation::inductor: more parts than this are never joined under masks.
  size_t max_masked_parts = 8;
};

const Policy &default_policy();
const Policy &inductor_2_5_policy();
/// Throws UserError (usage) TSC-C002.
const Policy &find_policy(std::string_view name);

} // namespace tsc::target
