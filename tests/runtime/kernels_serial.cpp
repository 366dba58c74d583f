// Kernels without barriers.
#include "tc_host.h"

/// out[i] = its block and thread as one number; 3-dimensional blocks and grids.
TC_KERNEL void coordinates(long long *out) {
  const unsigned thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  const unsigned block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
  out[block * (blockDim.x * blockDim.y * blockDim.z) + thread] =
      ((blockIdx.x * 10LL + blockIdx.y) * 10 + blockIdx.z) * 1000 +
      (threadIdx.x * 10LL + threadIdx.y) * 10 + threadIdx.z;
}
TC_EXPORT(coordinates, 0)

/// Threads append their number in the order in which they run.
TC_KERNEL void running_order(int *order, int *count) {
  order[atomicAdd(count, 1)] = static_cast<int>(threadIdx.x);
}
TC_EXPORT(running_order, 0)

/// Every kind of atomic, from many blocks.
TC_KERNEL void atomics(int *integers, float *sum, double *wide_sum) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  atomicAdd(&integers[0], 1);
  atomicMax(&integers[1], i);
  atomicMin(&integers[2], -i);
  for (int old = integers[3];;) { // counts by hand
    int seen = atomicCAS(&integers[3], old, old + 1);
    if (seen == old)
      break;
    old = seen;
  }
  atomicAdd(sum, 0.5f);
  atomicAdd(wide_sum, 0.25);
}
TC_EXPORT(atomics, 0)

#line 100 // stated in the error that the test expects
TC_KERNEL void forgot_the_flag(int *) { __syncthreads(); }
TC_EXPORT(forgot_the_flag, 0)

#line 200 // stated in the error that the test expects
TC_KERNEL void traps(int *) { __trap(); }
TC_EXPORT(traps, 0)
