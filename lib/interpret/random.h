// Random numbers of the oracle: written anew from docs/random.md, so that the prelude's are
// checked.
#pragma once

#include "ir/ir.h"

#include <array>

namespace tsc::interpret {

/// Philox 4x32-10.
std::array<uint32_t, 4> philox(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key);

/// rand, randn and rand_exponential as `dtype` (f32 or f64) computes them.
double random_real(ir::Op op, tensor::DType dtype, int64_t seed, int64_t stream, int64_t offset);
/// rand_bits.
int64_t random_bits(int64_t seed, int64_t stream, int64_t offset);

} // namespace tsc::interpret
