// The host as the model's device: kernels are functions of this library.
#include "engine/host_device.h"
#include "engine/model_hooks.h"

#define TC_HOST_ABI_ONLY
#include "tc_host.h"

#define TSC_KERNEL(plan_number, name) extern "C" const TcKernelEntry name##_entry;
#include "kernels/kernels.def"
#undef TSC_KERNEL

namespace tsc_engine {

Plan model_plan() { return Plan::serial; }
const char *model_device_name() { return "host"; }

Arch model_device_arch(int) { return {"host", 0}; }

std::shared_ptr<Device> open_model_device(int index, size_t plan) {
  if (index != 0)
    throw Error(Status::bad_argument, "the host is device 0");
  std::vector<const TcKernelEntry *> kernels;
#define TSC_KERNEL(plan_number, name)                                                              \
  if (plan == plan_number)                                                                         \
    kernels.push_back(&name##_entry);
#include "kernels/kernels.def"
#undef TSC_KERNEL
  (void)plan; // a program may have no kernels
  return make_host_device(std::move(kernels), HostDeviceOptions());
}

namespace {

[[noreturn]] void refuse_ranks() {
  throw Error(Status::bad_argument, "a build for the host has no communicators");
}

} // namespace

std::unique_ptr<Groups> connect_model_group(int, const ModelGroup &) { refuse_ranks(); }
void make_model_communicator_id(void *) { refuse_ranks(); }

} // namespace tsc_engine
