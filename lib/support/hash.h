// Content hashes: the same bytes give the same hash in every run, build and machine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace tsc::support {

/// 64-bit hash of `bytes` (FNV-1a with a final mix); for hash tables and structural keys.
uint64_t hash_bytes(std::string_view bytes, uint64_t seed = 0);

/// Combines two hashes; not commutative.
uint64_t hash_combine(uint64_t a, uint64_t b);

/// 128-bit content address as 32 hexadecimal digits, for cache keys and file names. Parts are
/// length-prefixed, so {"ab", "c"} and {"a", "bc"} differ.
class ContentHash {
public:
  ContentHash &add(std::string_view part);
  std::string hex() const;

private:
  uint64_t low_ = 0x9e3779b97f4a7c15ull;
  uint64_t high_ = 0xc2b2ae3d27d4eb4full;
};

} // namespace tsc::support
