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

/// Which products of f32 a GPU may compute with factors of 10 bits of mantissa (docs/numbers.md).
enum class Tf32 : uint8_t {
  off,
  conv, // those that convolutions are made of
  on,
};

/// Every threshold of lowering and scheduling, as policy.def lists and explains them.
struct Policy {
  std::string_view name = "default";
#define TSC_POLICY(type, member, under_default, under_inductor) type member = under_default;
#include "target/policy.def"
#undef TSC_POLICY
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
