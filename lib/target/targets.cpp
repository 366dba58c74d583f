#include "target/target.h"

#include "support/diagnostic.h"
#include "support/text.h"

#include <charconv>
#include <cmath>
#include <functional>
#include <iterator>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

namespace tsc::target {

namespace {

constexpr int kKib = 1024;
constexpr int kMib = 1024 * kKib;

/// Seconds from a load's issue to its data under a saturated memory system. Unloaded latencies of
/// these parts are 450 to 650 ns; queues add to that. An assumption, not a data-sheet figure.
constexpr double kLoadedLatency = 700e-9;

struct PerMultiprocessor { // limits that follow from the compute capability (CUDA programming
                           // guide)
  int max_threads;
  int shared_bytes;           // of the multiprocessor
  int shared_bytes_per_block; // opt-in: 1 KiB less, which the system takes
};
constexpr PerMultiprocessor kDataCenterAmpere = {2048, 164 * kKib, 163 * kKib};
constexpr PerMultiprocessor kHopper = {2048, 228 * kKib, 227 * kKib};
constexpr PerMultiprocessor kGraphicsClass = {1536, 100 * kKib, 99 * kKib};

constexpr double kTera = 1e12, kGiga = 1e9;

struct Peaks { // of arithmetic, in TFLOP/s
  double f64, f32, half;
};

Target make(int major, int minor, int multiprocessors, const PerMultiprocessor &limits,
            double bandwidth, int l2_bytes, const Peaks &peaks, double link_bandwidth) {
  Target target;
  target.name = target.part = "sm_" + std::to_string(major) + std::to_string(minor);
  target.major = major;
  target.minor = minor;
  target.has_async_copies = major >= 8;
  target.has_matrix_16bit = major >= 8;
  target.has_matrix_float8 = major > 8 || (major == 8 && minor >= 9);
  target.has_wgmma = major == 9; // later generations have other instructions in its place
  target.has_bulk_copies = major >= 9;
  target.multiprocessors = multiprocessors;
  target.max_threads_per_multiprocessor = limits.max_threads;
  target.max_threads_per_block = 1024;
  target.registers_per_multiprocessor = 65536;
  target.shared_bytes_per_block = limits.shared_bytes_per_block;
  target.shared_bytes_per_multiprocessor = limits.shared_bytes;
  target.bandwidth = bandwidth;
  target.bytes_in_flight = bandwidth * kLoadedLatency;
  target.l2_bytes = l2_bytes;
  target.flops_f64 = peaks.f64 * kTera;
  target.flops_f32 = peaks.f32 * kTera;
  target.flops_16bit = peaks.half * kTera;
  target.link_bandwidth = link_bandwidth;
  return target;
}

/// One part stands for each architecture: its data sheet gives multiprocessors, bandwidth, cache,
/// arithmetic (tensor cores where products use them: f64 where the part has such, 16-bit floats
/// with f32 sums) and links, half of what both directions have together; parts without NVLink talk
/// through PCI Express.
std::vector<Target> make_targets() {
  return {
      // A100 80 GB SXM
      make(8, 0, 108, kDataCenterAmpere, 2.039e12, 40 * kMib, {19.5, 19.5, 312}, 300 * kGiga),
      // A40
      make(8, 6, 84, kGraphicsClass, 0.696e12, 6 * kMib, {0.58, 37.4, 149.7}, 56.25 * kGiga),
      // L40S
      make(8, 9, 142, kGraphicsClass, 0.864e12, 96 * kMib, {1.43, 91.6, 362}, 32 * kGiga),
      // H200; H100 has 3.35e12 bytes a second
      make(9, 0, 132, kHopper, 4.8e12, 50 * kMib, {67, 67, 989}, 450 * kGiga),
      // B200
      make(10, 0, 148, kHopper, 8.0e12, 126 * kMib, {37, 75, 2250}, 900 * kGiga),
      // B300
      make(10, 3, 148, kHopper, 8.0e12, 126 * kMib, {1.25, 75, 2250}, 900 * kGiga),
      // RTX 5090
      make(12, 0, 170, kGraphicsClass, 1.792e12, 96 * kMib, {1.64, 104.8, 209.5}, 64 * kGiga),
  };
}

/// The limits are those of the smallest GPU here, so that kernels planned for the host also run on
/// any of them.
const Target &host() {
  static const Target target = [] {
    Target made = find_target("sm_86");
    made.name = made.part = "host";
    made.major = made.minor = 0;
    made.is_host = true;
    made.has_async_copies = made.has_matrix_16bit = made.has_wgmma = made.has_bulk_copies = false;
    return made;
  }();
  return target;
}

/// Compute capability of "sm_103": {10, 3}.
std::optional<std::pair<int, int>> capability_of(std::string_view arch) {
  constexpr std::string_view kPrefix = "sm_";
  int number = 0;
  if (arch.substr(0, kPrefix.size()) != kPrefix)
    return std::nullopt;
  const char *first = arch.data() + kPrefix.size(), *last = arch.data() + arch.size();
  const auto [end, error] = std::from_chars(first, last, number);
  if (error != std::errc() || end != last)
    return std::nullopt;
  return std::pair(number / 10, number % 10);
}

} // namespace

const std::vector<Target> &targets() {
  static const std::vector<Target> all = make_targets();
  return all;
}

const Target *nearest_target(std::string_view arch) {
  const auto capability = capability_of(arch);
  const Target *nearest = nullptr;
  for (const Target &target : targets())
    if (capability && std::pair(target.major, target.minor) <= *capability)
      nearest = &target;
  return nearest;
}

namespace {

struct Fact {
  std::string_view name;
  double unit;  // what 1 stands for
  double limit; // the largest number that is taken
  double (*get)(const Target &);
  void (*set)(Target &, double);
};

void scale_arithmetic(Target &target, double multiprocessors) {
  const double ratio = multiprocessors / target.multiprocessors;
  target.multiprocessors = static_cast<int>(multiprocessors);
  for (double *rate : {&target.flops_f64, &target.flops_f32, &target.flops_16bit})
    *rate *= ratio;
}

constexpr Fact kFacts[] = {
    {"multiprocessors", 1, 4096,
     [](const Target &target) { return static_cast<double>(target.multiprocessors); },
     scale_arithmetic},
    {"gigabytes_per_second", kGiga, 1e6, [](const Target &target) { return target.bandwidth; },
     [](Target &target, double value) {
       target.bandwidth = value;
       target.bytes_in_flight = value * kLoadedLatency;
     }},
    {"l2_mebibytes", kMib, 1024,
     [](const Target &target) { return static_cast<double>(target.l2_bytes); },
     [](Target &target, double value) { target.l2_bytes = static_cast<int>(value); }}};

[[noreturn]] void refuse(std::string_view part, const std::string &what) {
  throw support::UserError(
      support::ExitCode::usage,
      {.code = "TSC-C035",
       .message = "'" + std::string(part) + "' is no part of an architecture: " + what,
       .next_step = "write ARCH:multiprocessors=N:gigabytes_per_second=N:"
                    "l2_mebibytes=N, or some of these"});
}

/// `fact`: "multiprocessors=114".
void set_fact(Target &target, std::string_view part, std::string_view fact) {
  const size_t middle = fact.find('=');
  const std::string_view name = fact.substr(0, middle);
  for (const Fact &known : kFacts) {
    if (known.name != name)
      continue;
    const std::string_view text = middle == fact.npos ? "" : fact.substr(middle + 1);
    int number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc() || end != text.data() + text.size() || number < 1 ||
        number > known.limit)
      refuse(part, std::string(name) + " is no number from 1 to " +
                       std::to_string(static_cast<int>(known.limit)));
    return known.set(target, number * known.unit);
  }
  refuse(part, "'" + std::string(name) + "' is no fact of a part");
}

/// Parts that were asked for, by their text.
const Target &find_part(const Target &architecture, std::string_view part) {
  static std::mutex mutex;
  static std::map<std::string, Target, std::less<>> parts;
  const std::lock_guard lock(mutex);
  if (const auto found = parts.find(part); found != parts.end())
    return found->second;
  Target made = architecture;
  made.part = part;
  size_t begin = part.find(':');
  while (begin != part.npos) {
    const size_t end = part.find(':', begin + 1);
    set_fact(made, part, part.substr(begin + 1, end == part.npos ? end : end - begin - 1));
    begin = end;
  }
  return parts.emplace(part, std::move(made)).first->second;
}

} // namespace

std::string part_of(const Target &architecture, const PartFacts &facts) {
  constexpr double kSame = 0.05, kFarthest = 8;
  const double known[] = {static_cast<double>(facts.multiprocessors), facts.bandwidth,
                          static_cast<double>(facts.l2_bytes)};
  std::string part = architecture.name;
  for (size_t i = 0; i < std::size(kFacts); ++i) {
    const double usual = kFacts[i].get(architecture), ratio = known[i] / usual;
    if (ratio < 1 / kFarthest || ratio > kFarthest || std::abs(ratio - 1) < kSame)
      continue;
    const double number = std::round(known[i] / kFacts[i].unit);
    if (number >= 1 && number <= kFacts[i].limit)
      part += ":" + std::string(kFacts[i].name) + "=" + std::to_string(static_cast<int>(number));
  }
  return part;
}

const Target &find_target(std::string_view part) {
  const std::string_view name = part.substr(0, part.find(':'));
  if (name.size() < part.size() && name == "host")
    refuse(part, "the host has none");
  std::vector<std::string> names;
  if (name == "host")
    return host();
  for (const Target &target : targets()) {
    if (target.name == name)
      return name.size() < part.size() ? find_part(target, part) : target;
    names.push_back(target.name);
  }
  names.emplace_back("host");
  support::Diagnostic problem;
  problem.code = "TSC-C001";
  problem.message = "unknown architecture '" + std::string(name) + "'";
  const std::string closest = support::did_you_mean(std::string(name), names);
  problem.next_step = closest.empty() ? "" : "did you mean '" + closest + "'? ";
  problem.next_step += "known architectures: " + support::join(names, ", ");
  throw support::UserError(support::ExitCode::usage, problem);
}

} // namespace tsc::target
