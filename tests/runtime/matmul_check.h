// Matrix products of a device against their definition, element by element; numbers are small
// integers, so that every element type gives them exactly.
#pragma once

#include "engine/device.h"

namespace matmul_check {

void check_strides(tsc_engine::Device &device); // every dtype, every pair of strides
void check_sizes(tsc_engine::Device &device);   // 0, 1, and operands that broadcast
void check_added(tsc_engine::Device &device); // alpha, beta, a bias over columns, c of any strides
void check_large(tsc_engine::Device &device);

// Conversions written independently of the product's: through doubles and powers of two.
double f16_value(uint16_t bits);
double bf16_value(uint16_t bits);

} // namespace matmul_check
