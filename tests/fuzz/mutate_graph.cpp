// libFuzzer's hooks for graphs that go through the compiler: operators are swapped for others of
// the table.
#include "json_mutator.h"
#include "ops/table/operator.h"

namespace {

const tsc::fuzz::JsonVocabulary &operators() {
  static const tsc::fuzz::JsonVocabulary vocabulary = [] {
    tsc::fuzz::JsonVocabulary result;
    for (const tsc::ops::Operator &row : tsc::ops::operators())
      result.tokens.push_back("\"" + std::string(row.name) + "\"");
    return result;
  }();
  return vocabulary;
}

} // namespace

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size,
                                          unsigned seed) {
  tsc::fuzz::Random random(seed);
  return tsc::fuzz::give(tsc::fuzz::mutate_json({reinterpret_cast<const char *>(data), size},
                                                max_size, random, operators()),
                         data, max_size);
}

extern "C" size_t LLVMFuzzerCustomCrossOver(const uint8_t *a, size_t a_size, const uint8_t *b,
                                            size_t b_size, uint8_t *out, size_t max_size,
                                            unsigned seed) {
  tsc::fuzz::Random random(seed);
  return tsc::fuzz::give(tsc::fuzz::cross_json({reinterpret_cast<const char *>(a), a_size},
                                               {reinterpret_cast<const char *>(b), b_size},
                                               max_size, random),
                         out, max_size);
}
