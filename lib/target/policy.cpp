#include "target/policy.h"

#include "support/diagnostic.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

namespace tsc::target {

namespace {

/// TorchInductor 2.5 as the seed logs show it.
constexpr Policy make_inductor_2_5() {
  Policy policy;
  policy.name = "inductor-2.5";
#define TSC_POLICY(type, member, under_default, under_inductor) policy.member = under_inductor;
#include "target/policy.def"
#undef TSC_POLICY
  return policy;
}

/// A threshold by its name. Counts and sizes are never negative.
struct NamedOption {
  std::string_view name;
  std::variant<bool Policy::*, int64_t Policy::*, size_t Policy::*, Concatenation Policy::*,
               Tf32 Policy::*>
      member;
};

constexpr NamedOption kOptions[] = {
#define TSC_POLICY(type, member, under_default, under_inductor) {#member, &Policy::member},
#include "target/policy.def"
#undef TSC_POLICY
};

std::string_view name_of(Concatenation way) {
  return way == Concatenation::inductor ? "inductor" : "fewest_launches";
}

constexpr std::array<std::string_view, 3> kTf32Names = {"off", "conv", "on"}; // as Tf32 has them

std::string value_of(const Policy &policy, const NamedOption &option) {
  return std::visit(
      [&](auto member) -> std::string {
        if constexpr (std::is_same_v<decltype(member), bool Policy::*>)
          return policy.*member ? "on" : "off";
        else if constexpr (std::is_same_v<decltype(member), Concatenation Policy::*>)
          return std::string(name_of(policy.*member));
        else if constexpr (std::is_same_v<decltype(member), Tf32 Policy::*>)
          return std::string(kTf32Names.at(static_cast<size_t>(policy.*member)));
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
        } else if constexpr (std::is_same_v<decltype(member), Tf32 Policy::*>) {
          const auto *const found = std::find(kTf32Names.begin(), kTf32Names.end(), text);
          if (found == kTf32Names.end())
            return false;
          policy.*member = static_cast<Tf32>(found - kTf32Names.begin());
          return true;
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
                               : std::holds_alternative<Tf32 Policy::*>(option.member)
                                   ? "=off, =conv or =on"
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
