// Matrix products on the host.
#pragma once

#include "engine/device.h"

namespace tsc_engine {

/// out = alpha * a b + beta * c for every batch (MatmulShape says which elements). f32 and f64 go
/// to CBLAS where the build has it (TSC_WITH_CBLAS), f16 and bf16 too, a block at a time in f32,
/// rounded once when stored; integers wrap around. `c` may equal `out` (same strides); it is not
/// read when beta is 0. Uses at most `threads` cores (0: all) in our own loops. Errors: Error
/// (bad_argument) for boolean.
void host_matmul(const MatmulShape &shape, const void *a, const void *b, const void *c, void *out,
                 unsigned threads);

} // namespace tsc_engine
