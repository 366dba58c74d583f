// The two policies: the same code with other named constants and steps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

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
  int64_t max_fusion_rounds = 10;
  /// Fusing is refused where buffers that would else be reused at once live longer for more than
  /// this many times the bytes that it saves.
  int64_t peak_memory_factor = 32;
  /// Loops of a node are turned, or its index inverted, where that makes two nodes' accesses equal.
  /// Off: measured, it does not pay yet (docs/scheduler.md).
  bool loop_ordering_after_fusion = false;
  /// Groups run in another order where that lowers the peak of memory alive at once.
  bool reorder_for_peak_memory = true;
  /// Computation is moved beside collectives until their estimated times are equal.
  bool reorder_for_overlap = false;
  /// Attention of 16-bit floats is one kernel where it can be; else products and a softmax.
  bool fused_attention = true;
  /// A product of 16-bit floats may be a kernel of ours, together with what computes its operand
  /// and what reads its result, where that is estimated to be faster than the matrix library.
  bool product_templates = true;
  /// What depends on weights alone and takes functions to compute is stored once, when weights are
  /// loaded, and not computed again where it is used.
  bool compute_weights_ahead = true;
  /// How a value lies in memory follows what it reads, whose layouts are decided first, even where
  /// a library reads it through an index map that leaves it rows or columns. Else values are
  /// contiguous there, and reads count as they lie when asked.
  bool layouts_follow_reads = true;
  /// Rows of a large product start at multiples of this many bytes, as the matrix library's fast
  /// kernels want; whoever needs other strides copies. 0: rows are never padded.
  int64_t product_row_alignment = 16;
  Concatenation concatenation = Concatenation::fewest_launches;
  /// Under Concatenation::inductor: more parts than this are never joined under masks.
  size_t max_masked_parts = 8;
  /// The elements of a list operator (aten._foreach_*) are scheduled as one: they fuse with another
  /// list element by element, or not at all, and are one launch. Seed: always. Off here: chains of
  /// list operators fuse better one element at a time, and combo kernels join what is left.
  bool foreach_lists = false;
  /// After fusion, kernels that do not wait for each other become one launch. Seed: off. On here: a
  /// launch costs 2 to 4 us (1 us in a CUDA graph), as much as 4 to 16 MB of memory traffic.
  bool combo_kernels = true;
  /// Kernels in one launch at most. Seed: 8. Here equal kernels share their text, so that code does
  /// not grow with them: the bound is what parameters have room for.
  size_t combo_max_kernels = 64;
  /// Kernels that move more bytes are launched alone. Seed: no bound. Here: what 132
  /// multiprocessors with 2,048 threads each have in flight with 16 bytes a thread; a kernel of
  /// more fills the machine by itself, and would only take over the registers of the others.
  int64_t combo_max_bytes = int64_t{4} << 20;
  /// Nodes between the first and the last kernel of a launch at most: what is launched early or
  /// late keeps memory longer. Seed: no bound. Here as for horizontal fusion.
  size_t combo_max_distance = 64;
};

const Policy &default_policy();
const Policy &inductor_2_5_policy();
/// Throws UserError (usage) TSC-C002.
const Policy &find_policy(std::string_view name);

/// One threshold as text, for `--policy-option NAME=VALUE`.
struct PolicyOption {
  std::string_view name;
  std::string value;
};
/// Every threshold that may be set, with its value under `policy`; switches are on or off.
std::vector<PolicyOption> options_of(const Policy &policy);
/// Sets one by "NAME=VALUE". Throws UserError (usage) TSC-C012 for an unknown name, TSC-C013 for a
/// value that it cannot have.
void set_option(Policy &policy, std::string_view assignment);

} // namespace tsc::target
