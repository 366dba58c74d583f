// libFuzzer's hooks for program.json, a zero byte, weights.safetensors.
#include "tensor_mutator.h"

#include <algorithm>

namespace {

struct Parts {
  std::string_view program, weights;
};
Parts split(const uint8_t *data, size_t size) {
  std::string_view bytes(reinterpret_cast<const char *>(data), size);
  size_t end = std::min(bytes.find('\0'), bytes.size());
  return {bytes.substr(0, end), bytes.substr(std::min(end + 1, bytes.size()))};
}

size_t give(const std::string &program, std::string_view weights, uint8_t *data, size_t max_size) {
  std::string text = program;
  if (!weights.empty())
    (text += '\0') += weights;
  return tsc::fuzz::give(text, data, max_size);
}

} // namespace

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size,
                                          unsigned seed) {
  tsc::fuzz::Random random(seed);
  Parts parts = split(data, size);
  std::string program(parts.program), weights(parts.weights);
  if (!weights.empty() && tsc::fuzz::one_in(random, 5))
    weights = tsc::fuzz::mutate_safetensors(weights, max_size, random);
  else
    program = tsc::fuzz::mutate_json(program, max_size, random);
  return give(program, weights, data, max_size);
}

extern "C" size_t LLVMFuzzerCustomCrossOver(const uint8_t *a, size_t a_size, const uint8_t *b,
                                            size_t b_size, uint8_t *out, size_t max_size,
                                            unsigned seed) {
  tsc::fuzz::Random random(seed);
  Parts to = split(a, a_size), from = split(b, b_size);
  if (tsc::fuzz::one_in(random, 4)) // one's program with the other's weights
    return give(std::string(to.program), from.weights, out, max_size);
  return give(tsc::fuzz::cross_json(to.program, from.program, max_size, random), to.weights, out,
              max_size);
}
