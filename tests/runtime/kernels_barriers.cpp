// Kernels as the code generator writes them for the cuda plan, and broken ones.
#include "tc_host.h"

struct RowSums {
  float partial[32];
};

/// out[row] = sum of in[row, :], one block a row.
TC_KERNEL __launch_bounds__(256) void row_sum(float *TC_RESTRICT out, const float *TC_RESTRICT in,
                                              long long columns) {
  TC_SMEM(RowSums, shared);
  const int thread = static_cast<int>(threadIdx.x), warps = static_cast<int>(blockDim.x) / 32;
  float sum = 0;
  for (long long j = thread; j < columns; j += blockDim.x)
    sum += in[blockIdx.x * columns + j];
  TC_UNROLL
  for (int distance = 16; distance > 0; distance /= 2)
    sum += tc_shfl_xor(sum, distance);
  if (thread % 32 == 0)
    shared.partial[thread / 32] = sum;
  __syncthreads();
  if (thread < 32) {
    sum = thread < warps ? shared.partial[thread] : 0.0f;
    sum = tc_warp_butterfly(sum, [](float a, float b) { return a + b; });
    if (thread == 0)
      out[blockIdx.x] = sum;
  }
}
TC_EXPORT(row_sum, TC_HAS_BARRIERS, RowSums)

/// Reverses each block's elements through dynamic shared memory.
TC_KERNEL void reverse_tile(int *TC_RESTRICT out, const int *TC_RESTRICT in) {
  TC_DYN_SMEM(int, tile);
  const int n = static_cast<int>(blockDim.x), i = static_cast<int>(threadIdx.x);
  const int base = static_cast<int>(blockIdx.x) * n;
  tile[i] = in[base + i];
  TC_BARRIER();
  out[base + i] = tile[n - 1 - i];
}
TC_EXPORT(reverse_tile, TC_HAS_BARRIERS)

/// The same without its barrier.
TC_KERNEL void reverse_tile_racy(int *TC_RESTRICT out, const int *TC_RESTRICT in) {
  TC_DYN_SMEM(int, tile);
  const int n = static_cast<int>(blockDim.x), i = static_cast<int>(threadIdx.x);
  tile[i] = in[i];
  out[i] = tile[n - 1 - i];
}
TC_EXPORT(reverse_tile_racy, TC_HAS_BARRIERS)

/// tile[0] is NaN or thread 0's value by the order of threads; a barrier is missing.
TC_KERNEL void neighbour_racy(float *TC_RESTRICT out) {
  TC_DYN_SMEM(float, tile);
  const int i = static_cast<int>(threadIdx.x);
  tile[i] = 1.0f;
  out[i] = i == 0 ? tile[0] : tile[i - 1];
}
TC_EXPORT(neighbour_racy, TC_HAS_BARRIERS)

/// Every warp operation, 16 results a thread.
TC_KERNEL void warp_operations(int *out) {
  const unsigned full = 0xffffffffu;
  const int i = static_cast<int>(threadIdx.x + blockDim.x * threadIdx.y);
  int *mine = out + 16 * i;
  mine[0] = __shfl_sync(full, i, 3);
  mine[1] = __shfl_up_sync(full, i, 1u);
  mine[2] = __shfl_down_sync(full, i, 2u);
  mine[3] = __shfl_xor_sync(full, i, 5);
  mine[4] = __shfl_sync(full, i, 9, 8);
  mine[5] = __shfl_up_sync(full, i, 3u, 8);
  mine[6] = __shfl_down_sync(full, i, 3u, 16);
  mine[7] = __shfl_xor_sync(full, i, 6, 8);
  mine[8] = static_cast<int>(__ballot_sync(full, i % 3 == 0));
  mine[9] = __any_sync(full, i == 40);
  mine[10] = __all_sync(full, i < 40);
  __syncwarp();
  // Two halves of a warp, each with a mask of its own.
  const unsigned lane = threadIdx.x % 32;
  if (lane < 16)
    mine[11] = __shfl_xor_sync(0x0000ffffu, i, 1);
  else
    mine[11] = -__shfl_xor_sync(0xffff0000u, i, 2);
  mine[12] = __syncthreads_count(i % 2);
  mine[13] = __syncthreads_or(i == 5);
  mine[14] = __syncthreads_and(i >= 0);
  mine[15] = static_cast<int>(__shfl_sync(full, static_cast<long long>(i) << 40, 7) >> 40);
}
TC_EXPORT(warp_operations, TC_HAS_BARRIERS)

/// Threads that returned do not hold up a barrier (the rule since sm_70).
TC_KERNEL void early_return(int *out, int limit) {
  const int i = static_cast<int>(threadIdx.x);
  if (i >= limit)
    return;
  const int count = __syncthreads_count(1);
  const unsigned lanes = __ballot_sync(0xffffffffu, 1);
  out[i] = count * 1000 + __builtin_popcount(lanes);
}
TC_EXPORT(early_return, TC_HAS_BARRIERS)

#line 100 // stated in the error that the test expects
TC_KERNEL void divergent_barriers(int *out) {
  if (threadIdx.x < 32)
    __syncthreads();
  else
    __syncthreads();
  out[threadIdx.x] = 1;
}
TC_EXPORT(divergent_barriers, TC_HAS_BARRIERS)

#line 200 // stated in the error that the test expects
TC_KERNEL void deadlock(int *out) {
  if (threadIdx.x % 32 == 5)
    __syncthreads();
  out[threadIdx.x] = static_cast<int>(__ballot_sync(0xffffffffu, 1));
}
TC_EXPORT(deadlock, TC_HAS_BARRIERS)

#line 300 // stated in the error that the test expects
TC_KERNEL void divergent_shuffles(int *out) {
  if (threadIdx.x % 2)
    out[threadIdx.x] = tc_shfl_xor(1, 1);
  else
    out[threadIdx.x] = tc_shfl_xor(2, 1);
}
TC_EXPORT(divergent_shuffles, TC_HAS_BARRIERS)

#line 400 // stated in the error that the test expects
TC_KERNEL void left_out(int *out) { out[threadIdx.x] = __shfl_xor_sync(0x0fu, 1, 1); }
TC_EXPORT(left_out, TC_HAS_BARRIERS)

TC_KERNEL void writes_past_its_end(int n) {
  TC_DYN_SMEM(int, tile);
  tile[n] = 1;
}
TC_EXPORT(writes_past_its_end, TC_HAS_BARRIERS)

TC_KERNEL void reads_unwritten(float *out) {
  TC_SMEM(RowSums, shared);
  out[0] = shared.partial[3];
}
TC_EXPORT(reads_unwritten, TC_HAS_BARRIERS, RowSums)

#line 500 // stated in the error that the test expects
TC_KERNEL void wrong_shared_type(float *out) {
  TC_SMEM(RowSums, shared);
  out[0] = shared.partial[3];
}
TC_EXPORT(wrong_shared_type, TC_HAS_BARRIERS)

/// A float that lanes of a partial warp cannot have.
TC_KERNEL void absent_lane(float *out) {
  out[threadIdx.x] = __shfl_down_sync(0xffffffffu, static_cast<float>(threadIdx.x), 1u);
}
TC_EXPORT(absent_lane, TC_HAS_BARRIERS)
