// The mixing over time of RWKV-4: sequential in time, one thread a channel of a batch entry. Sums
// are kept relative to the largest exponent so far, which `state` holds with them in the end.
namespace rwkv {

__global__ void wkv(const float *decay, const float *bonus, const float *key, const float *value,
                    float *mixed, float *state, int batch, int length, int channels,
                    long long key_batch, long long key_time, long long key_channel) {
  const long long at = (long long)blockIdx.x * blockDim.x + threadIdx.x;
  if (at >= (long long)batch * channels)
    return;
  const long long entry = at / channels, channel = at % channels;
  const float w = -expf(decay[channel]), u = bonus[channel];
  float sum = 0, weight = 0, largest = -1e38f;
  for (long long t = 0; t < length; ++t) {
    const float k = key[entry * key_batch + t * key_time + channel * key_channel];
    const long long place = (entry * length + t) * channels + channel;
    const float v = value[place];
    float most = fmaxf(largest, u + k);
    float old = expf(largest - most), now = expf(u + k - most);
    mixed[place] = (old * sum + now * v) / (old * weight + now);
    most = fmaxf(largest + w, k);
    old = expf(largest + w - most);
    now = expf(k - most);
    sum = old * sum + now * v;
    weight = old * weight + now;
    largest = most;
  }
  state[(entry * 3 + 0) * channels + channel] = sum;
  state[(entry * 3 + 1) * channels + channel] = weight;
  state[(entry * 3 + 2) * channels + channel] = largest;
}

} // namespace rwkv
