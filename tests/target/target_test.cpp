#include "support/diagnostic.h"
#include "target/policy.h"
#include "target/target.h"
#include "testing/catch.h"

#include <map>
#include <set>

using namespace tsc;

namespace {

/// The text of the UserError that `function` throws.
template <class Function> std::string user_error(Function function) {
  try {
    function();
  } catch (const support::UserError &error) {
    REQUIRE(error.exit_code() == support::ExitCode::usage);
    return support::to_string(error.diagnostics().at(0));
  }
  return "no error";
}

} // namespace

TEST_CASE("architectures are found by name") {
  CHECK(target::find_target("sm_80").multiprocessors == 108);
  CHECK(target::find_target("sm_80").shared_bytes_per_block == 166912);
  CHECK(target::find_target("sm_90").multiprocessors == 132);
  CHECK(target::find_target("sm_90").shared_bytes_per_block == 232448);
  CHECK(target::find_target("sm_90").shared_bytes_per_multiprocessor == 233472);
  CHECK(target::find_target("sm_120").major == 12);
}

TEST_CASE("a part has facts of its own") {
  const target::Target &whole = target::find_target("sm_90");
  CHECK(whole.part == "sm_90");
  const target::Target &part =
      target::find_target("sm_90:multiprocessors=66:gigabytes_per_second=2039:l2_mebibytes=25");
  CHECK(part.name == "sm_90");
  CHECK(part.part == "sm_90:multiprocessors=66:gigabytes_per_second=2039:l2_mebibytes=25");
  CHECK(part.multiprocessors == 66);
  CHECK(part.flops_16bit == whole.flops_16bit / 2);
  CHECK(part.bandwidth == 2.039e12);
  CHECK(part.bytes_in_flight == Approx(whole.bytes_in_flight * 2.039e12 / whole.bandwidth));
  CHECK(part.l2_bytes == 25 << 20);
  CHECK(part.has_wgmma);
  CHECK(&target::find_target(part.part) == &part);
  CHECK(whole.multiprocessors == 132);
}

TEST_CASE("what a GPU says of itself counts where it differs and can be true") {
  const target::Target &arch = target::find_target("sm_90");
  CHECK(part_of(arch, {}) == "sm_90");
  CHECK(part_of(arch, {132, 4.917e12, 50 << 20}) == "sm_90"); // H200
  CHECK(part_of(arch, {132, 3.352e12, 50 << 20}) == "sm_90:gigabytes_per_second=3352");
  CHECK(part_of(arch, {114, 2.039e12, 50 << 20}) ==
        "sm_90:multiprocessors=114:gigabytes_per_second=2039");
  CHECK(part_of(arch, {16, 1e9, 60 << 20}) == "sm_90:l2_mebibytes=60");
  CHECK(target::find_target(part_of(arch, {114, 2.039e12, 0})).multiprocessors == 114);
}

TEST_CASE("facts that are none are refused") {
  const std::string next = "\n  next: write ARCH:multiprocessors=N:gigabytes_per_second=N:"
                           "l2_mebibytes=N, or some of these";
  const auto error = [](const char *part) {
    return user_error([&] { target::find_target(part); });
  };
  CHECK(error("sm_90:clock=3") == "error TSC-C035: 'sm_90:clock=3' is no part of an architecture: "
                                  "'clock' is no fact of a part" +
                                      next);
  for (const char *number : {"", "=", "=0", "=-4", "=5000", "=1.5", "=99999999999999999999", "=1x"})
    CHECK(error(("sm_90:multiprocessors" + std::string(number)).c_str()) ==
          "error TSC-C035: 'sm_90:multiprocessors" + std::string(number) +
              "' is no part of an architecture: multiprocessors is no number from 1 to 4096" +
              next);
  CHECK(error("sm_90:") ==
        "error TSC-C035: 'sm_90:' is no part of an architecture: '' is no fact of a part" + next);
  CHECK(
      error("host:multiprocessors=4") ==
      "error TSC-C035: 'host:multiprocessors=4' is no part of an architecture: the host has none" +
          next);
  CHECK(error("sm_91:multiprocessors=4").rfind("error TSC-C001: unknown architecture", 0) == 0);
}

TEST_CASE("every architecture is complete and named after its capability") {
  std::set<std::string> names;
  for (const target::Target &t : target::targets()) {
    CHECK(t.name == "sm_" + std::to_string(t.major) + std::to_string(t.minor));
    CHECK(names.insert(t.name).second);
    CHECK(t.shared_bytes_per_block == t.shared_bytes_per_multiprocessor - 1024);
    CHECK(t.max_threads_per_multiprocessor % 512 == 0);
    CHECK(t.bytes_in_flight > 0);
    CHECK(t.bytes_in_flight < t.bandwidth * 1e-6);
    CHECK(t.l2_bytes >= 6 << 20);
    CHECK(t.flops_f64 > 0);
    CHECK(t.flops_f32 >= t.flops_f64);
    CHECK(t.flops_16bit > t.flops_f32);
    CHECK(t.link_bandwidth < t.bandwidth);
  }
  CHECK(names ==
        std::set<std::string>{"sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_103", "sm_120"});
}

TEST_CASE("abilities are those of the architecture's generation") {
  const target::Target &ampere = target::find_target("sm_80"),
                       &hopper = target::find_target("sm_90"),
                       &blackwell = target::find_target("sm_100"),
                       &graphics = target::find_target("sm_120"),
                       &host = target::find_target("host");
  for (const target::Target &t : target::targets()) {
    CHECK_FALSE(t.is_host);
    CHECK(t.has_async_copies);
    CHECK(t.has_matrix_16bit);
    CHECK(t.has_wgmma == (&t == &hopper));
  }
  CHECK_FALSE(ampere.has_bulk_copies);
  CHECK(hopper.has_bulk_copies);
  CHECK(blackwell.has_bulk_copies);
  CHECK(graphics.has_bulk_copies);
  CHECK(host.is_host);
  CHECK_FALSE(
      (host.has_async_copies || host.has_matrix_16bit || host.has_wgmma || host.has_bulk_copies));
  CHECK(host.shared_bytes_per_block <= graphics.shared_bytes_per_block);
}

TEST_CASE("a GPU that nobody planned for is planned for as the newest one before it") {
  const auto nearest = [](const char *arch) {
    const target::Target *target = target::nearest_target(arch);
    return target ? target->name : "none";
  };
  CHECK(nearest("sm_80") == "sm_80");
  CHECK(nearest("sm_87") == "sm_86");
  CHECK(nearest("sm_90") == "sm_90");
  CHECK(nearest("sm_101") == "sm_100");
  CHECK(nearest("sm_121") == "sm_120");
  CHECK(nearest("sm_75") == "none");
  CHECK(nearest("") == "none");
  CHECK(nearest("sm_") == "none");
  CHECK(nearest("sm_90a") == "none");
  CHECK(nearest("host") == "none");
}

TEST_CASE("an unknown architecture is a usage error that names the known ones") {
  CHECK(user_error([] { target::find_target("sm_91"); }) ==
        "error TSC-C001: unknown architecture 'sm_91'\n"
        "  next: did you mean 'sm_90'? known architectures: sm_80, sm_86, sm_89, sm_90, sm_100, "
        "sm_103, sm_120, host");
}

/// Another number that fits 64 bits.
static std::string other_number(const std::string &number) {
  return number.size() < 18 ? "1" + number : "7";
}

TEST_CASE("every threshold can be set, and only that one changes") {
  const std::vector<target::PolicyOption> defaults = target::options_of(target::default_policy());
  CHECK(defaults.size() == target::options_of(target::inductor_2_5_policy()).size());
  for (const target::PolicyOption &option : defaults) {
    const std::string other = option.value == "on"                ? "off"
                              : option.value == "off"             ? "on"
                              : option.value == "fewest_launches" ? "inductor"
                                                                  : other_number(option.value);
    target::Policy policy = target::default_policy();
    target::set_option(policy, std::string(option.name) + "=" + other);
    const std::vector<target::PolicyOption> changed = target::options_of(policy);
    for (size_t i = 0; i < changed.size(); ++i)
      CHECK(changed[i].value == (changed[i].name == option.name ? other : defaults[i].value));
  }
}

TEST_CASE("policies carry the thresholds of the seeds") {
  const target::Policy &seeds = target::find_policy("inductor-2.5");
  CHECK(&seeds == &target::inductor_2_5_policy());
  CHECK(seeds.realize_reads_threshold == 4);
  CHECK(seeds.realize_accumulated_reads_threshold == 8);
  CHECK(seeds.realize_opcount_threshold == 30);
  CHECK(seeds.unroll_reductions_threshold == 8);
  CHECK(seeds.max_fusion_size == 64);
  CHECK(seeds.split_reductions);
  CHECK_FALSE(seeds.casts_in_bodies);
  CHECK_FALSE(seeds.loop_ordering_after_fusion);
  CHECK_FALSE(seeds.columns_turn_readers);
  CHECK_FALSE(seeds.elements_turn_readers);
  CHECK_FALSE(seeds.reorder_for_peak_memory);
  CHECK(seeds.fusion_memory_threshold == 10);
  CHECK(seeds.max_distance == 64);
  CHECK(seeds.max_fusion_rounds == 10);
  CHECK(seeds.peak_memory_factor == 32);
  CHECK(&target::find_policy("default") == &target::default_policy());
  CHECK(target::default_policy().casts_in_bodies);
  CHECK_FALSE(target::default_policy().split_reductions);
}

TEST_CASE("an unknown policy is a usage error that names the known ones") {
  CHECK(user_error([] { target::find_policy("inductor-2.4"); }) ==
        "error TSC-C002: unknown policy 'inductor-2.4'\n"
        "  next: did you mean 'inductor-2.5'? known policies: default, inductor-2.5");
}

TEST_CASE("every threshold of a policy has a name, and can be set by it") {
  target::Policy policy = target::default_policy();
  const std::vector<target::PolicyOption> options = target::options_of(policy);
  for (const target::PolicyOption &option : options) { // to something else and back
    const std::string name(option.name);
    const std::map<std::string, std::string> opposites = {{"on", "off"},
                                                          {"off", "on"},
                                                          {"inductor", "fewest_launches"},
                                                          {"fewest_launches", "inductor"}};
    const auto opposite = opposites.find(option.value);
    const std::string other =
        opposite == opposites.end() ? other_number(option.value) : opposite->second;
    target::set_option(policy, name + "=" + other);
    size_t differences = 0;
    const std::vector<target::PolicyOption> changed = target::options_of(policy);
    for (size_t i = 0; i < options.size(); ++i)
      differences += options[i].value != changed[i].value;
    CHECK(differences == 1);
    target::set_option(policy, name + "=" + option.value);
  }
  for (const target::PolicyOption &seed : target::options_of(target::inductor_2_5_policy()))
    target::set_option(policy, std::string(seed.name) + "=" + seed.value);
  CHECK_FALSE(policy.product_templates);
  CHECK_FALSE(policy.compute_weights_ahead);
  CHECK_FALSE(policy.layouts_follow_reads);
  CHECK_FALSE(policy.scatters_choose);
  policy = target::default_policy();
  target::set_option(policy, "max_fusion_size=7");
  CHECK(policy.max_fusion_size == 7);
  target::set_option(policy, "tf32=conv");
  CHECK(policy.tf32 == target::Tf32::conv);
  CHECK(user_error([&] { target::set_option(policy, "tf32=yes"); }) ==
        "error TSC-C013: 'tf32=yes' sets no value of tf32\n"
        "  next: write tf32=off, =conv or =on; under the policy default it is conv");
  CHECK(user_error([&] { target::set_option(policy, "max_fusion_size=7x"); }) ==
        "error TSC-C013: 'max_fusion_size=7x' sets no value of max_fusion_size\n"
        "  next: write max_fusion_size=NUMBER; under the policy default it is 7");
  CHECK(user_error([&] {
          target::set_option(policy, "max_fusion_size");
        }).rfind("error TSC-C013", 0) == 0);
  CHECK(user_error([&] {
          target::set_option(policy, "zzz=1");
        }).rfind("error TSC-C012: no policy has the option 'zzz'\n  next: options: realize", 0) ==
        0);
}
