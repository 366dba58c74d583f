// The same on the host: called once, for all heads of all rows.
#include <cmath>

inline float wide(float x) { return x; }
inline float wide(tc_f16 x) { return tc_float(x); }
inline float wide(tc_bf16 x) { return tc_float(x); }
inline void store(float *to, float x) { *to = x; }
inline void store(tc_f16 *to, float x) { *to = tc_to_f16(x); }
inline void store(tc_bf16 *to, float x) { *to = tc_to_bf16(x); }

template <class T>
void fused_rope_on_host(const T *q, const float *cosine, const float *sine, T *rotated,
                        float *scale, long long all_heads, int length, int heads, int half,
                        float eps) {
  for (long long head = 0; head < all_heads; ++head) {
    const long long angle = head / heads % length * half;
    const T *from = q + head * 2 * half;
    T *to = rotated + head * 2 * half;
    double sum = 0;
    for (int i = 0; i < 2 * half; ++i)
      sum += double(wide(from[i])) * wide(from[i]);
    const float factor = float(1 / std::sqrt(sum / (2 * half) + eps));
    scale[head] = factor;
    for (int i = 0; i < half; ++i) {
      const float a = wide(from[i]) * factor, b = wide(from[i + half]) * factor;
      const float c = cosine[angle + i], s = sine[angle + i];
      store(to + i, a * c - b * s);
      store(to + i + half, b * c + a * s);
    }
  }
}
