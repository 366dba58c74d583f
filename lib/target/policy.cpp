#include "target/policy.h"

#include "support/diagnostic.h"

#include <array>
#include <string>
#include <vector>

namespace tsc::target {

namespace {

/// TorchInductor 2.5 as the seed logs show it. The counts are the defaults of its configuration;
/// what differs from the default policy is stated line by line.
constexpr Policy make_inductor_2_5() {
  Policy policy;
  policy.name = "inductor-2.5";
  policy.realize_reads_threshold = 4;
  policy.realize_accumulated_reads_threshold = 8;
  policy.realize_opcount_threshold = 30;
  policy.unroll_reductions_threshold = 8;
  policy.split_reductions = true; // lowering makes two operations of a reduction with few outputs
  policy.online_softmax = false;  // introduced in 2.7
  policy.casts_in_bodies = false; // f16 and bf16 are upcast by the kernel text, not in the body
  policy.max_fusion_size = 64;
  policy.fusion_memory_threshold = 10;
  policy.max_distance = 64;
  policy.max_candidates_per_buffer = 64;
  policy.loop_ordering_after_fusion = false;
  policy.fused_attention = false;   // a library's kernel there; the products show what it computes
  policy.product_row_alignment = 0; // 2.5 pads in a graph pass of its own, before the logs begin
  policy.concatenation = Concatenation::inductor;
  policy.foreach_lists = true;
  policy.combo_kernels = false; // when they are asked for, without any bound but their number
  policy.combo_max_kernels = 8;
  policy.combo_max_bytes = INT64_MAX;
  policy.combo_max_distance = SIZE_MAX;
  return policy;
}

constexpr Policy kDefault{};
constexpr Policy kInductor25 = make_inductor_2_5();
constexpr std::array<const Policy *, 2> kPolicies = {&kDefault, &kInductor25};

} // namespace

const Policy &default_policy() { return kDefault; }

const Policy &inductor_2_5_policy() { return kInductor25; }

const Policy &find_policy(std::string_view name) {
  std::vector<std::string> names;
  for (const Policy *policy : kPolicies) {
    if (policy->name == name)
      return *policy;
    names.emplace_back(policy->name);
  }
  support::Diagnostic problem;
  problem.code = "TSC-C002";
  problem.message = "unknown policy '" + std::string(name) + "'";
  const std::string closest = support::did_you_mean(std::string(name), names);
  problem.next_step = closest.empty() ? "" : "did you mean '" + closest + "'? ";
  problem.next_step += "known policies: " + names[0] + ", " + names[1];
  throw support::UserError(support::ExitCode::usage, problem);
}

} // namespace tsc::target
