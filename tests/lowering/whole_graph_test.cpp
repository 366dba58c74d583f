#include "graph_maker.h"
#include "testing/catch.h"

#include <map>

using namespace tsc;
using namespace tsc::lowering::testing;

namespace {

/// "12 pointwise, 3 sum, ...", kinds in name order.
std::string count_kinds(const ir::Module &module) {
  std::map<std::string, int> counts;
  const std::string text = summary(module);
  for (size_t at = 0; at < text.size(); at = text.find('\n', at) + 1) {
    const size_t first = text.find(' ', at) + 1;
    ++counts[text.substr(first, text.find(' ', first) - first)];
  }
  std::string result;
  for (const auto &[kind, count] : counts)
    result += (result.empty() ? "" : ", ") + std::to_string(count) + " " + kind;
  return result;
}

} // namespace

TEST_CASE("layer norm and GELU: statistics, then one elementwise kernel in two pieces") {
  const ir::Module module = lower_file("graphs/anchors/layernorm_gelu/model.json");
  CHECK(summary(module) ==
        "op0 welford_reduce buf0 f32 [32768, 1] [1, 32768] <- a_0, a_3\n"
        "op1 welford_reduce buf1 f32 [32768, 1] [1, 32768] <- a_0, a_3\n"
        "op2 welford_reduce buf2 f32 [32768, 1] [1, 32768] <- a_0, a_3\n"
        "op3 pointwise buf3 bf16 [32768, 4096] [4096, 1] <- a_0, a_3, buf0, buf1, a_1, a_2\n"
        "op4 pointwise buf4 bf16 [32768, 4096] [4096, 1] <- buf3\n");
}

TEST_CASE("a whole GPT-2 lowers") {
  CHECK(count_kinds(lower_file("graphs/anchors/gpt2/model.pt2")) ==
        "48 extern_kernels.addmm, 24 extern_kernels.bmm, 1 extern_kernels.mm, 12 max, "
        "120 pointwise, 1 scan, 12 sum, 75 welford_reduce");
}

TEST_CASE("both export forms of a small GPT-2 lower") {
  CHECK(count_kinds(lower_file("graphs/gpt2_small/default.pt2")) ==
        "8 extern_kernels.addmm, 4 extern_kernels.bmm, 1 extern_kernels.mm, 2 max, 19 pointwise, 1 "
        "scan, "
        "2 sum, 15 welford_reduce");
  CHECK(count_kinds(lower_file("graphs/gpt2_small/decomposed.pt2")) ==
        "8 extern_kernels.addmm, 4 extern_kernels.bmm, 1 extern_kernels.mm, 2 max, 19 pointwise, 1 "
        "scan, "
        "2 sum, 15 welford_reduce");
}
