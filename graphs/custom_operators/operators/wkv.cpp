// The same on the host: channels in the inner loop, so that they are computed side by side.
#include <algorithm>
#include <cmath>
#include <vector>

namespace rwkv {

inline void wkv(const float *decay, const float *bonus, const float *key, const float *value,
                float *mixed, float *state, int batch, int length, int channels,
                long long key_batch, long long key_time, long long key_channel) {
  std::vector<float> w(channels), sum(channels), weight(channels), largest(channels);
  for (int c = 0; c < channels; ++c)
    w[c] = -std::exp(decay[c]);
  for (long long entry = 0; entry < batch; ++entry) {
    std::fill(sum.begin(), sum.end(), 0.0f);
    std::fill(weight.begin(), weight.end(), 0.0f);
    std::fill(largest.begin(), largest.end(), -1e38f);
    for (long long t = 0; t < length; ++t)
      for (int c = 0; c < channels; ++c) {
        const float k = key[entry * key_batch + t * key_time + c * key_channel];
        const long long place = (entry * length + t) * channels + c;
        const float v = value[place];
        float most = std::max(largest[c], bonus[c] + k);
        float old = std::exp(largest[c] - most), now = std::exp(bonus[c] + k - most);
        mixed[place] = (old * sum[c] + now * v) / (old * weight[c] + now);
        most = std::max(largest[c] + w[c], k);
        old = std::exp(largest[c] + w[c] - most);
        now = std::exp(k - most);
        sum[c] = old * sum[c] + now * v;
        weight[c] = old * weight[c] + now;
        largest[c] = most;
      }
    std::copy(sum.begin(), sum.end(), state + entry * 3 * channels);
    std::copy(weight.begin(), weight.end(), state + (entry * 3 + 1) * channels);
    std::copy(largest.begin(), largest.end(), state + (entry * 3 + 2) * channels);
  }
}

} // namespace rwkv
