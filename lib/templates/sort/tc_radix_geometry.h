// The shape of the kernels that sort long rows by digits, for the compiler that plans their
// launches and for the texts that are launched.
#pragma once

#ifndef TC_CONSTEXPR
#ifdef __CUDACC__ // NVRTC takes no function of the host alone
#define TC_CONSTEXPR constexpr __host__ __device__
#else
#define TC_CONSTEXPR constexpr
#endif
#endif

constexpr int tc_radix_bits = 8, tc_radix_digits = 256; // of a pass
constexpr int tc_radix_threads = 256;                   // of a block: one a digit
constexpr int tc_radix_warps = tc_radix_threads / 32;
constexpr int tc_radix_keys = 16; // that a thread holds
constexpr int tc_radix_tile = tc_radix_threads * tc_radix_keys;
constexpr int tc_radix_blocks = 2; // of the last kernel on a multiprocessor: 128 registers a thread
// The kernel between them: a block takes neighbouring digits, a thread one digit of several parts.
constexpr int tc_radix_scan_digits = 8, tc_radix_scan_threads = 512, tc_radix_scan_parts = 16;
constexpr int tc_radix_scan_warps = tc_radix_scan_threads / 32;
constexpr int tc_radix_scan_round =
    tc_radix_scan_threads / tc_radix_scan_digits * tc_radix_scan_parts; // parts of a block at once
// Or a block a row, a thread a digit of all its parts, so many at a time: of rows of few parts.
constexpr int tc_radix_few_parts = 128, tc_radix_parts_at_once = 16;

// Rows whose length a launch finds to be short enough are sorted whole by threads of one block: as
// few as hold them, up to tc_short_keys elements each. A kernel for each number of threads, of
// which one runs, and none of the others above.
constexpr int tc_short_kinds = 5, tc_short_keys = 16;
TC_CONSTEXPR int tc_short_threads(int kind) {
  return kind == 0 ? 8 : kind == 1 ? 64 : tc_radix_threads << (kind - 2);
}
/// Elements of the longest row.
TC_CONSTEXPR int tc_short_length(int kind) { return tc_short_threads(kind) * tc_short_keys; }
TC_CONSTEXPR int tc_short_block(int kind) {
  return kind <= 2 ? tc_radix_threads : tc_short_threads(kind);
}
TC_CONSTEXPR int tc_short_rows(int kind) { return tc_short_block(kind) / tc_short_threads(kind); }
/// Whether a row of elements of so many bytes is sorted as words of an element and its place.
TC_CONSTEXPR bool tc_short_packs(int kind, int bytes) { return kind > 2 && bytes <= 2; }
/// Of a row, in elements: what tc_sort_slot counts.
TC_CONSTEXPR int tc_short_slots(int kind) {
  return tc_short_length(kind) + (tc_short_length(kind) - 1) / 32;
}
/// Bytes of shared memory that a launch sets: keys, and places of 16 bits.
TC_CONSTEXPR int tc_short_dynamic(int kind, int bytes) {
  return kind <= 2                     ? 0
         : tc_short_packs(kind, bytes) ? 4 * tc_short_slots(kind)
                                       : ((bytes <= 4 ? 4 : 8) + 2) * tc_short_slots(kind);
}
/// How many kinds there are for elements of so many bytes, where a block may have so much shared
/// memory: 1024 threads have too few registers for 64-bit keys.
TC_CONSTEXPR int tc_short_kinds_of(int bytes, int shared_bytes) {
  int kinds = bytes <= 4 ? tc_short_kinds : tc_short_kinds - 1;
  while (tc_short_dynamic(kinds - 1, bytes) > shared_bytes)
    --kinds;
  return kinds;
}
