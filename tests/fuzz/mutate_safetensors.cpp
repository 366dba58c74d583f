// libFuzzer's hook for .safetensors.
#include "tensor_mutator.h"

#include <cstring>

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size,
                                          unsigned seed) {
  tsc::fuzz::Random random(seed);
  std::string_view bytes(reinterpret_cast<const char *>(data), size);
  std::string result = tsc::fuzz::mutate_safetensors(bytes, max_size, random);
  std::memcpy(data, result.data(), result.size());
  return result.size();
}
