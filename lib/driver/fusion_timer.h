// Times fused groups on a device, for fusion by measurement.
#pragma once

#include "ir/ir.h"
#include "runtime/session.h"
#include "scheduler/schedule.h"
#include "target/target.h"

#include <functional>
#include <optional>
#include <string>

namespace tsc::driver {

/// Where fusions are timed: "host" (the serial plan), "host-cuda" (the GPU's plan on the host,
/// which says nothing about a GPU's speed: for tests), or "cuda". Throws UserError (usage) TSC-C014
/// for another name, UserError (device) TSC-C015 if there is no such device.
runtime::SessionOptions timing_device(const std::string &name);

/// ScheduleOptions::fusion_timer: makes a program of the group alone, with the buffers that it
/// reads as inputs and those that it stores as outputs, and gives the median of several runs over
/// random inputs, in nanoseconds. Groups that do the same to buffers of the same layouts are timed
/// once. Nothing for groups with symbolic sizes, random numbers, or indices computed at run time
/// from more than one loaded integer: for those no input can be made up that stands for a real one.
/// `module` and `target` must outlive what is returned.
std::function<std::optional<double>(const scheduler::Schedule &)>
make_fusion_timer(const ir::Module &module, const target::Target &target,
                  const runtime::SessionOptions &device);

} // namespace tsc::driver
