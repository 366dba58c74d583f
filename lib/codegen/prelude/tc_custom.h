// What kernels of users find besides the prelude. Their texts are CUDA C++; on the host, where the
// GPU's plan is emulated, CUDA's words stand for what comes nearest: a block runs on one thread of
// the machine, so that what its threads share is that thread's own.
#pragma once

#include "tsc_prelude.h"

#define TC_NO_BOUNDS(...) // launch bounds stand at the kernel around a user's

#ifndef TC_DEVICE
#include <math.h>

#define __device__
#define __host__
#define __global__
#define __forceinline__ inline
#define __constant__ static const
#define __shared__ static __thread
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __ldg(pointer) (*(pointer))
#define __expf(x) expf(x)
#define __logf(x) logf(x)
#define __log2f(x) log2f(x)
#define __sinf(x) sinf(x)
#define __cosf(x) cosf(x)
#define __powf(x, y) powf(x, y)
#define __fdividef(x, y) ((x) / (y))
#define __fmaf_rn(x, y, z) fmaf(x, y, z)
#define rsqrtf(x) (1.0f / sqrtf(x))
#define rsqrt(x) (1.0 / sqrt(x))

struct float2 {
  float x, y;
};
struct alignas(16) float4 {
  float x, y, z, w;
};
TC_FN float2 make_float2(float x, float y) { return {x, y}; }
TC_FN float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }

#define TC_LEAST_AND_MOST(T)                                                                       \
  TC_FN T min(T a, T b) { return b < a ? b : a; }                                                  \
  TC_FN T max(T a, T b) { return a < b ? b : a; }
TC_LEAST_AND_MOST(int)
TC_LEAST_AND_MOST(unsigned)
TC_LEAST_AND_MOST(long long)
TC_LEAST_AND_MOST(unsigned long long)
#undef TC_LEAST_AND_MOST
TC_FN float min(float a, float b) { return fminf(a, b); }
TC_FN float max(float a, float b) { return fmaxf(a, b); }
TC_FN double min(double a, double b) { return fmin(a, b); }
TC_FN double max(double a, double b) { return fmax(a, b); }
#endif
