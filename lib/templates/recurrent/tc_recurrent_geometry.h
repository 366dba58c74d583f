// The shape of the kernel of recurrent layers: what the compiler plans with, and the device text
// counts on. Plain constexpr.
#pragma once

static constexpr int tc_recurrent_threads = 256, tc_recurrent_warps = 8;
static constexpr int tc_recurrent_columns = 128;    // that a block computes at a time
static constexpr int tc_recurrent_group_words = 16; // of the counters, 64-bit, for each group
