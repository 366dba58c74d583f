// Blocks whose threads wait for each other, on the host: every thread of a block is a fiber.
#pragma once

#include "engine/host_device.h"

namespace tsc_engine {

/// One runner serves one core. Between two points where threads wait, they run in ascending order
/// of their number (`reversed`: descending), so a missing barrier gives other results in one of the
/// two.
std::unique_ptr<BlockRunner> make_fiber_runner(bool reversed);

} // namespace tsc_engine
