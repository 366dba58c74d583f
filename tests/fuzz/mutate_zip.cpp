// libFuzzer's hooks for zip archives.
#include "zip_mutator.h"

#include <cstring>

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size,
                                          unsigned seed) {
  tsc::fuzz::Random random(seed);
  std::string result =
      tsc::fuzz::mutate_zip({reinterpret_cast<const char *>(data), size}, max_size, random);
  std::memcpy(data, result.data(), result.size());
  return result.size();
}

extern "C" size_t LLVMFuzzerCustomCrossOver(const uint8_t *a, size_t a_size, const uint8_t *b,
                                            size_t b_size, uint8_t *out, size_t max_size,
                                            unsigned seed) {
  tsc::fuzz::Random random(seed);
  std::string result =
      tsc::fuzz::cross_zip({reinterpret_cast<const char *>(a), a_size},
                           {reinterpret_cast<const char *>(b), b_size}, max_size, random);
  std::memcpy(out, result.data(), result.size());
  return result.size();
}
