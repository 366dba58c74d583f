#include "support/hash.h"

namespace tsc::support {
namespace {

uint64_t mix(uint64_t x) { // splitmix64's finalizer
  x ^= x >> 30;
  x *= 0xbf58476d1ce4e5b9ull;
  x ^= x >> 27;
  x *= 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

} // namespace

uint64_t hash_bytes(std::string_view bytes, uint64_t seed) {
  uint64_t hash = 0xcbf29ce484222325ull ^ mix(seed);
  for (char c : bytes) {
    hash ^= static_cast<unsigned char>(c);
    hash *= 0x100000001b3ull;
  }
  return mix(hash);
}

uint64_t hash_combine(uint64_t a, uint64_t b) {
  return mix(a * 0x9e3779b97f4a7c15ull + b + 0x632be59bd9b4e019ull);
}

ContentHash &ContentHash::add(std::string_view part) {
  low_ = hash_combine(low_, part.size());
  high_ = hash_combine(high_, ~static_cast<uint64_t>(part.size()));
  low_ = hash_combine(low_, hash_bytes(part, 1));
  high_ = hash_combine(high_, hash_bytes(part, 0x5bd1e995));
  return *this;
}

std::string ContentHash::hex() const {
  static const char digits[] = "0123456789abcdef";
  std::string text;
  for (uint64_t half : {high_, low_}) {
    for (int shift = 60; shift >= 0; shift -= 4)
      text += digits[(half >> shift) & 15];
  }
  return text;
}

} // namespace tsc::support
