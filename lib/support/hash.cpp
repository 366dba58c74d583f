#include "support/hash.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace tsc::support {
namespace {

uint64_t mix(uint64_t x) { // splitmix64's finalizer
  x ^= x >> 30;
  x *= 0xbf58476d1ce4e5b9ull;
  x ^= x >> 27;
  x *= 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

constexpr uint32_t kRounds[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

/// SHA-256's compression function (FIPS 180-4, 6.2.2).
void compress(std::array<uint32_t, 8> &state, const std::array<unsigned char, 64> &block) {
  uint32_t words[64];
  for (size_t i = 0; i < 16; ++i)
    words[i] = uint32_t{block[4 * i]} << 24 | uint32_t{block[4 * i + 1]} << 16 |
               uint32_t{block[4 * i + 2]} << 8 | block[4 * i + 3];
  for (size_t i = 16; i < 64; ++i) {
    const uint32_t x = words[i - 15], y = words[i - 2];
    words[i] = words[i - 16] + (std::rotr(x, 7) ^ std::rotr(x, 18) ^ x >> 3) + words[i - 7] +
               (std::rotr(y, 17) ^ std::rotr(y, 19) ^ y >> 10);
  }
  auto [a, b, c, d, e, f, g, h] = state;
  for (size_t i = 0; i < 64; ++i) {
    const uint32_t first = h + (std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25)) +
                           ((e & f) ^ (~e & g)) + kRounds[i] + words[i];
    const uint32_t second =
        (std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
    h = g;
    g = f;
    f = e;
    e = d + first;
    d = c;
    c = b;
    b = a;
    a = first + second;
  }
  const uint32_t last[8] = {a, b, c, d, e, f, g, h};
  for (size_t i = 0; i < 8; ++i)
    state[i] += last[i];
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
  unsigned char size[8];
  for (size_t i = 0; i < 8; ++i)
    size[i] = static_cast<unsigned char>(static_cast<uint64_t>(part.size()) >> (8 * i));
  write(size, sizeof size);
  write(reinterpret_cast<const unsigned char *>(part.data()), part.size());
  return *this;
}

void ContentHash::write(const unsigned char *bytes, size_t count) {
  while (count > 0) {
    const size_t used = bytes_ % block_.size(), taken = std::min(count, block_.size() - used);
    std::memcpy(block_.data() + used, bytes, taken);
    bytes_ += taken;
    bytes += taken;
    count -= taken;
    if (bytes_ % block_.size() == 0)
      compress(state_, block_);
  }
}

std::string ContentHash::hex() const {
  ContentHash whole = *this; // padded: a bit, zeros, the number of bits
  const uint64_t bits = bytes_ * 8;
  static constexpr unsigned char kPadding[64] = {0x80};
  const size_t used = bytes_ % 64;
  whole.write(kPadding, used < 56 ? 56 - used : 120 - used);
  unsigned char length[8];
  for (size_t i = 0; i < 8; ++i)
    length[i] = static_cast<unsigned char>(bits >> (56 - 8 * i));
  whole.write(length, sizeof length);
  std::string text;
  for (size_t word = 0; word < 4; ++word)
    for (int shift = 28; shift >= 0; shift -= 4)
      text += "0123456789abcdef"[whole.state_[word] >> shift & 15];
  return text;
}

} // namespace tsc::support
