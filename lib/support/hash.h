// Content hashes: the same bytes give the same hash in every run, build and machine.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace tsc::support {

/// 64-bit hash of `bytes` (FNV-1a with a final mix); for hash tables and structural keys.
uint64_t hash_bytes(std::string_view bytes, uint64_t seed = 0);

/// Combines two hashes; not commutative.
uint64_t hash_combine(uint64_t a, uint64_t b);

/// Content address as 32 hexadecimal digits, for cache keys: 128 bits of SHA-256, so that nobody
/// can make two contents of one address. Parts are length-prefixed, so {"ab", "c"} and {"a", "bc"}
/// differ.
class ContentHash {
public:
  ContentHash &add(std::string_view part);
  std::string hex() const;

private:
  std::array<uint32_t, 8> state_ = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                    0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<unsigned char, 64> block_ = {}; // that is not full yet
  uint64_t bytes_ = 0;

  void write(const unsigned char *bytes, size_t count);
};

} // namespace tsc::support
