// Names in kernels and names of kernels: nothing has two meanings, and equal names are no identity.
#include "codegen/build_kernel.h"
#include "codegen/kernel_words.h"
#include "testing/catch.h"

#include <algorithm>

using namespace tsc;
using codegen::BuiltKernel;
using codegen::KernelNames;

namespace {

bool is_in_kernels(symbolic::Expr symbol) {
  return std::count(std::begin(codegen::kKernelSorts), std::end(codegen::kKernelSorts),
                    symbol.sort()) != 0;
}

/// As finish_kernel leaves it, under a name that its hash would give another kernel too.
BuiltKernel kernel_of(const std::string &body, symbolic::Expr grid = 1) {
  BuiltKernel built;
  built.kernel.name = "tsc_mul_0123abcd";
  built.kernel.cuda.text = "// tsc_mul_0123abcd\nvoid tsc_mul_0123abcd() {" + body +
                           "}\nTC_EXPORT(tsc_mul_0123abcd, 0)\n";
  built.kernel.serial.text = built.kernel.cuda.text;
  built.content = body + symbolic::print(grid);
  return built;
}

} // namespace

TEST_CASE("no word of a kernel spells a symbol that kernels mention") {
  for (const std::string_view word : codegen::kNumberedWords)
    for (const char *number : {"0", "1", "17"}) {
      INFO(word << number);
      const auto symbol = symbolic::symbol_spelled(std::string(word) + number);
      CHECK((!symbol || !is_in_kernels(*symbol)));
    }
  for (const std::string_view word : codegen::kWords) {
    INFO(word);
    CHECK(!symbolic::symbol_spelled(word));
  }
}

TEST_CASE("kernels of one name and two contents are two kernels") {
  KernelNames names;
  BuiltKernel first = kernel_of("a"), second = kernel_of("b"), third = kernel_of("a", 2),
              again = kernel_of("b");
  CHECK(names.number_of(first, 0) == 0);
  CHECK(first.kernel.name == "tsc_mul_0123abcd");
  CHECK(names.number_of(second, 1) == 1);
  CHECK(second.kernel.name == "tsc_mul_0123abcd_2");
  CHECK(second.kernel.cuda.text == "// tsc_mul_0123abcd_2\nvoid tsc_mul_0123abcd_2() {b}\n"
                                   "TC_EXPORT(tsc_mul_0123abcd_2, 0)\n");
  CHECK(names.number_of(third, 2) == 2); // the same text over another grid
  CHECK(third.kernel.name == "tsc_mul_0123abcd_3");
  CHECK(names.number_of(again, 3) == 1);
}
