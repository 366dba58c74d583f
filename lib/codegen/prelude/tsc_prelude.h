// What every kernel text includes: an execution model (CUDA's own, or the host's), numbers, math,
// reductions. No standard header is included, so that NVRTC, nvcc, g++ and clang++ compile the same
// text in milliseconds.
#pragma once

#if defined(__CUDACC__)
#include "tc_device.h"
#else
#include "tc_host.h"
#endif

#include "tc_numeric.h"

#include "tc_math.h"

#include "tc_reduce.h"
