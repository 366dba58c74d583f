// libFuzzer's hooks for targets that read one JSON text.
#include "json_mutator.h"

namespace {

std::string_view view(const uint8_t *data, size_t size) {
  return {reinterpret_cast<const char *>(data), size};
}

} // namespace

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size,
                                          unsigned seed) {
  tsc::fuzz::Random random(seed);
  return tsc::fuzz::give(tsc::fuzz::mutate_json(view(data, size), max_size, random), data,
                         max_size);
}

extern "C" size_t LLVMFuzzerCustomCrossOver(const uint8_t *a, size_t a_size, const uint8_t *b,
                                            size_t b_size, uint8_t *out, size_t max_size,
                                            unsigned seed) {
  tsc::fuzz::Random random(seed);
  return tsc::fuzz::give(tsc::fuzz::cross_json(view(a, a_size), view(b, b_size), max_size, random),
                         out, max_size);
}
