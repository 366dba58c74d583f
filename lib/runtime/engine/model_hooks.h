// What the C ABI (abi.cpp) needs of the model it is linked with: an emitted folder defines these in
// model.cpp and in the file of its device.
#pragma once

#include "engine/engine.h"

namespace tsc_engine {

const Tables &model_tables();
Plan model_plan();
const char *model_device_name(); // "host" or "cuda"
std::shared_ptr<Device> open_model_device(int index);

} // namespace tsc_engine
