// Each head of each row is divided by its root mean square, and its halves are rotated by the row's
// angles. One block a head.
__device__ inline float wide(float x) { return x; }
__device__ inline float wide(tc_f16 x) { return tc_float(x); }
__device__ inline float wide(tc_bf16 x) { return tc_float(x); }
__device__ inline void store(float *to, float x) { *to = x; }
__device__ inline void store(tc_f16 *to, float x) { *to = tc_to_f16(x); }
__device__ inline void store(tc_bf16 *to, float x) { *to = tc_to_bf16(x); }

template <class T>
__global__ void __launch_bounds__(128)
    fused_rope(const T *q, const float *cosine, const float *sine, T *rotated, float *scale,
               int length, int heads, int half, float eps) {
  extern __shared__ float sums[];
  const long long head = blockIdx.x;
  const long long angle = head / heads % length * half;
  const T *from = q + head * 2 * half;
  T *to = rotated + head * 2 * half;

  float sum = 0;
  for (int i = threadIdx.x; i < 2 * half; i += blockDim.x)
    sum += wide(from[i]) * wide(from[i]);
  sums[threadIdx.x] = sum;
  __syncthreads();
  for (int distance = blockDim.x / 2; distance > 0; distance /= 2) {
    if (threadIdx.x < distance)
      sums[threadIdx.x] += sums[threadIdx.x + distance];
    __syncthreads();
  }
  const float factor = rsqrtf(sums[0] / (2 * half) + eps);
  if (threadIdx.x == 0)
    scale[head] = factor;

  for (int i = threadIdx.x; i < half; i += blockDim.x) {
    const float a = wide(from[i]) * factor, b = wide(from[i + half]) * factor;
    const float c = cosine[angle + i], s = sine[angle + i];
    store(to + i, a * c - b * s);
    store(to + i + half, b * c + a * s);
  }
}
