#include "target/policy.h"

#include "support/diagnostic.h"

#include <array>
#include <charconv>
#include <string>
#include <type_traits>
#include <variant>
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
  policy.max_fusion_rounds = 10;
  policy.peak_memory_factor = 32;
  policy.loop_ordering_after_fusion = false; // on by default in later versions
  policy.reorder_for_peak_memory = false;    // likewise
  policy.fused_attention = false; // a library's kernel there; the products show what it computes
  policy.compute_weights_ahead = false; // freezing is another option there
  policy.layouts_follow_reads = false;
  policy.product_templates = false; // max_autotune is off there: products are the library's
  policy.product_row_alignment = 0; // 2.5 pads in a graph pass of its own, before the logs begin
  policy.concatenation = Concatenation::inductor;
  policy.foreach_lists = true;
  policy.combo_kernels = false; // when they are asked for, without any bound but their number
  policy.combo_max_kernels = 8;
  policy.combo_max_bytes = INT64_MAX;
  policy.combo_max_distance = SIZE_MAX;
  return policy;
}

/// A threshold by its name. Counts and sizes are never negative.
struct NamedOption {
  std::string_view name;
  std::variant<bool Policy::*, int64_t Policy::*, size_t Policy::*, Concatenation Policy::*> member;
};

constexpr NamedOption kOptions[] = {
    {"realize_reads_threshold", &Policy::realize_reads_threshold},
    {"realize_accumulated_reads_threshold", &Policy::realize_accumulated_reads_threshold},
    {"realize_opcount_threshold", &Policy::realize_opcount_threshold},
    {"unroll_reductions_threshold", &Policy::unroll_reductions_threshold},
    {"split_reductions", &Policy::split_reductions},
    {"online_softmax", &Policy::online_softmax},
    {"casts_in_bodies", &Policy::casts_in_bodies},
    {"max_fusion_size", &Policy::max_fusion_size},
    {"fusion_memory_threshold", &Policy::fusion_memory_threshold},
    {"max_distance", &Policy::max_distance},
    {"max_candidates_per_buffer", &Policy::max_candidates_per_buffer},
    {"max_fusion_rounds", &Policy::max_fusion_rounds},
    {"peak_memory_factor", &Policy::peak_memory_factor},
    {"loop_ordering_after_fusion", &Policy::loop_ordering_after_fusion},
    {"reorder_for_peak_memory", &Policy::reorder_for_peak_memory},
    {"reorder_for_overlap", &Policy::reorder_for_overlap},
    {"fused_attention", &Policy::fused_attention},
    {"product_templates", &Policy::product_templates},
    {"compute_weights_ahead", &Policy::compute_weights_ahead},
    {"layouts_follow_reads", &Policy::layouts_follow_reads},
    {"product_row_alignment", &Policy::product_row_alignment},
    {"concatenation", &Policy::concatenation},
    {"max_masked_parts", &Policy::max_masked_parts},
    {"foreach_lists", &Policy::foreach_lists},
    {"combo_kernels", &Policy::combo_kernels},
    {"combo_max_kernels", &Policy::combo_max_kernels},
    {"combo_max_bytes", &Policy::combo_max_bytes},
    {"combo_max_distance", &Policy::combo_max_distance},
};

std::string_view name_of(Concatenation way) {
  return way == Concatenation::inductor ? "inductor" : "fewest_launches";
}

std::string value_of(const Policy &policy, const NamedOption &option) {
  return std::visit(
      [&](auto member) -> std::string {
        if constexpr (std::is_same_v<decltype(member), bool Policy::*>)
          return policy.*member ? "on" : "off";
        else if constexpr (std::is_same_v<decltype(member), Concatenation Policy::*>)
          return std::string(name_of(policy.*member));
        else
          return std::to_string(policy.*member);
      },
      option.member);
}

/// False if `text` is no value of the option.
bool set_value(Policy &policy, const NamedOption &option, std::string_view text) {
  return std::visit(
      [&](auto member) {
        if constexpr (std::is_same_v<decltype(member), bool Policy::*>) {
          if (text != "on" && text != "off")
            return false;
          policy.*member = text == "on";
          return true;
        } else if constexpr (std::is_same_v<decltype(member), Concatenation Policy::*>) {
          for (const Concatenation way :
               {Concatenation::fewest_launches, Concatenation::inductor}) {
            if (text == name_of(way)) {
              policy.*member = way;
              return true;
            }
          }
          return false;
        } else {
          std::remove_reference_t<decltype(policy.*member)> value = 0;
          const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
          if (error != std::errc() || end != text.data() + text.size() || value < 0)
            return false;
          policy.*member = value;
          return true;
        }
      },
      option.member);
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

std::vector<PolicyOption> options_of(const Policy &policy) {
  std::vector<PolicyOption> options;
  for (const NamedOption &option : kOptions)
    options.push_back({option.name, value_of(policy, option)});
  return options;
}

void set_option(Policy &policy, std::string_view assignment) {
  const size_t equals = assignment.find('=');
  const std::string_view name = assignment.substr(0, equals);
  std::vector<std::string> names;
  for (const NamedOption &option : kOptions) {
    names.emplace_back(option.name);
    if (option.name != name)
      continue;
    if (equals != std::string_view::npos &&
        set_value(policy, option, assignment.substr(equals + 1)))
      return;
    const std::string values = std::holds_alternative<bool Policy::*>(option.member) ? "=on or =off"
                               : std::holds_alternative<Concatenation Policy::*>(option.member)
                                   ? "=fewest_launches or =inductor"
                                   : "=NUMBER";
    support::Diagnostic problem;
    problem.code = "TSC-C013";
    problem.message = "'" + std::string(assignment) + "' sets no value of " + names.back();
    problem.next_step = "write " + names.back() + values + "; under the policy " +
                        std::string(policy.name) + " it is " + value_of(policy, option);
    throw support::UserError(support::ExitCode::usage, problem);
  }
  support::Diagnostic problem;
  problem.code = "TSC-C012";
  problem.message = "no policy has the option '" + std::string(name) + "'";
  const std::string closest = support::did_you_mean(std::string(name), names);
  problem.next_step = closest.empty() ? "options: " : "did you mean '" + closest + "'? options: ";
  for (size_t i = 0; i < names.size(); ++i)
    problem.next_step += (i == 0 ? "" : ", ") + names[i];
  throw support::UserError(support::ExitCode::usage, problem);
}

} // namespace tsc::target
