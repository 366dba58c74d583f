// Device half of the kernel prelude: the names of tc_host.h with their CUDA meaning.
#pragma once

#define TC_DEVICE 1
#define TC_HAS_BARRIERS 1u
#define TC_KERNEL extern "C" __global__
#define TC_FN static __device__ __forceinline__
#define TC_MEMBER __device__ __forceinline__ // a member function that is not static
#define TC_RESTRICT __restrict__
#define TC_UNROLL _Pragma("unroll")
#define TC_NO_UNROLL _Pragma("unroll 1")
#define TC_INF __int_as_float(0x7f800000)
#define TC_NAN __int_as_float(0x7fc00000)
#define TC_SMEM(struct_type, name) __shared__ struct_type name
#define TC_DYN_SMEM(T, name)                                                                       \
  extern __shared__ __align__(16) unsigned char tc_dynamic_##name[];                               \
  T *name = reinterpret_cast<T *>(tc_dynamic_##name)
#define TC_BARRIER() __syncthreads()
#define TC_EXPORT(...)

template <class T> TC_FN T tc_shfl_xor(T value, int lane_mask) {
  return __shfl_xor_sync(0xffffffffu, value, lane_mask);
}
template <class T> TC_FN T tc_shfl_down(T value, unsigned delta) {
  return __shfl_down_sync(0xffffffffu, value, delta);
}
template <class T> TC_FN T tc_shfl_up(T value, unsigned delta) {
  return __shfl_up_sync(0xffffffffu, value, delta);
}
