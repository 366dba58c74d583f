// Which of several plans of one model a device runs: each was made for one architecture.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace tsc_engine {

/// `name`: "sm_90", "host". `shared_bytes`: of a plan, the most dynamic shared memory that a block
/// asks for, as far as no size decides it; of a device, what a block may ask for.
struct Arch {
  std::string name;
  long long shared_bytes = 0;
};

/// 90 of "sm_90"; 0 of the host.
inline long arch_number(const std::string &name) {
  return name.rfind("sm_", 0) == 0 ? std::strtol(name.c_str() + 3, nullptr, 10) : 0;
}

/// The position in `plans`, which is not empty, of the one for `device`: its own architecture's;
/// else, of those that are not newer and whose blocks fit, the newest. Where there is none the
/// first: the device itself says what it cannot do.
inline size_t choose_arch(const std::vector<Arch> &plans, const Arch &device) {
  size_t best = plans.size();
  for (size_t i = 0; i < plans.size(); ++i) {
    if (plans[i].name == device.name)
      return i;
    const long number = arch_number(plans[i].name);
    const bool serves = number != 0 && number <= arch_number(device.name) &&
                        plans[i].shared_bytes <= device.shared_bytes;
    if (serves && (best == plans.size() || number > arch_number(plans[best].name)))
      best = i;
  }
  return best == plans.size() ? 0 : best;
}

} // namespace tsc_engine
