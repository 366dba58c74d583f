#include "support/thread_pool.h"
#include "tensor/host_tensor.h"

#include <algorithm>

namespace tsc::tensor {

namespace {

constexpr int64_t kChunk = int64_t{1} << 18; // elements a task fills
constexpr double kSqrt3 = 1.7320508075688772;

/// SplitMix64 at position `counter` of the stream `seed`: every element has its own number, so that
/// neither the order nor the number of threads matters.
uint64_t random_bits(uint64_t seed, uint64_t counter) {
  uint64_t z = seed * 0xd1342543de82ef95ull + (counter + 1) * 0x9e3779b97f4a7c15ull;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}

/// Mean 0, variance 1, within 3.5 of 0: the sum of four uniforms, which needs no libm and is
/// therefore the same on every machine.
double bell(uint64_t bits) {
  double sum = 0;
  for (int shift = 0; shift < 64; shift += 16)
    sum += static_cast<double>((bits >> shift) & 0xffff) + 0.5;
  return (sum / 65536.0 - 2.0) * kSqrt3;
}

double uniform(uint64_t bits) { return static_cast<double>(bits >> 11) * 0x1.0p-53; }

int64_t integer_between(uint64_t bits, int64_t low, int64_t high) {
  uint64_t span = static_cast<uint64_t>(high) - static_cast<uint64_t>(low) + 1;
  uint64_t step = span == 0 ? bits : bits % span; // 0: the full range
  return static_cast<int64_t>(static_cast<uint64_t>(low) + step);
}

double float_of(uint64_t bits, const RandomSpec &spec) {
  return (spec.positive ? 0.5 + uniform(bits) : bell(bits)) * spec.scale;
}

/// Weights of a model are hundreds of millions of elements: their type is asked once, not for each.
template <typename Stored, typename Convert>
void fill_floats(HostTensor &tensor, const RandomSpec &spec, int64_t begin, int64_t end,
                 Convert convert) {
  auto *to = reinterpret_cast<Stored *>(tensor.data());
  for (int64_t i = begin; i < end; ++i)
    to[i] = convert(float_of(random_bits(spec.seed, static_cast<uint64_t>(i)), spec));
}

void fill_one_by_one(HostTensor &tensor, const RandomSpec &spec, int64_t begin, int64_t end) {
  const DType dtype = tensor.dtype();
  for (int64_t i = begin; i < end; ++i) {
    uint64_t bits = random_bits(spec.seed, static_cast<uint64_t>(i));
    if (dtype == DType::boolean)
      tensor.set_int64(i, static_cast<int64_t>(bits >> 63));
    else if (is_integral(dtype))
      tensor.set_int64(i, integer_between(bits, spec.low, std::max(spec.low, spec.high)));
    else
      tensor.set_double(i, float_of(bits, spec));
  }
}

void fill(HostTensor &tensor, const RandomSpec &spec, int64_t begin, int64_t end) {
  const auto to_float = [](double value) { return static_cast<float>(value); };
  switch (tensor.dtype()) {
  case DType::f32:
    return fill_floats<float>(tensor, spec, begin, end, to_float);
  case DType::f16:
    return fill_floats<uint16_t>(tensor, spec, begin, end,
                                 [&](double value) { return float_to_f16(to_float(value)); });
  case DType::bf16:
    return fill_floats<uint16_t>(tensor, spec, begin, end,
                                 [&](double value) { return float_to_bf16(to_float(value)); });
  default:
    return fill_one_by_one(tensor, spec, begin, end);
  }
}

} // namespace

HostTensor random_tensor(DType dtype, std::vector<int64_t> sizes, const RandomSpec &spec) {
  HostTensor tensor(dtype, std::move(sizes));
  int64_t count = tensor.numel();
  auto chunks = static_cast<size_t>((count + kChunk - 1) / kChunk);
  support::parallel_for(chunks, [&](size_t chunk) {
    int64_t begin = static_cast<int64_t>(chunk) * kChunk;
    fill(tensor, spec, begin, std::min(begin + kChunk, count));
  });
  return tensor;
}

} // namespace tsc::tensor
