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

/// Connections of device number `index` with the other ranks of one group, whatever it is called:
/// by a communicator of the caller's, or, where that is null, one made of the id. Throws Error
/// (bad_argument) on devices that have none.
struct ModelGroup {
  void *communicator = nullptr;
  const void *id = nullptr; // TSC_COMMUNICATOR_ID_BYTES
  int64_t rank = 0, ranks = 1;
  double timeout_seconds = 300;
};
std::unique_ptr<Groups> connect_model_group(int index, const ModelGroup &group);
/// Fills TSC_COMMUNICATOR_ID_BYTES. Throws likewise.
void make_model_communicator_id(void *id);

/// The C ABI over the model, by abi.cpp. What model.cpp exports gives this, and is called by nobody
/// inside: of an exported name the process may hold another library's.
const TscModel *model_functions();

} // namespace tsc_engine
