// What the C ABI (abi.cpp) needs of the model it is linked with: an emitted folder defines these in
// model.cpp and in the file of its device.
#pragma once

#include "engine/arch_choice.h"
#include "engine/engine.h"
#include "tsc_model.h"

namespace tsc_engine {

/// The model as it was planned for one architecture. All have the same signature and weights.
struct ArchPlan {
  const char *arch = "";
  long long shared_bytes = 0; // as in Arch
  const Tables *tables = nullptr;
};
/// One or more; what no device decides is asked of the first.
Table<ArchPlan> arch_plans();
Plan model_plan();
const char *model_device_name(); // "host" or "cuda"
Arch model_device_arch(int index);
/// Device number `index` with the kernels of plan number `plan`.
std::shared_ptr<Device> open_model_device(int index, size_t plan);

/// The C ABI over the model, by abi.cpp. What model.cpp exports gives this, and is called by nobody
/// inside: of an exported name the process may hold another library's.
const TscModel *model_functions();

} // namespace tsc_engine
