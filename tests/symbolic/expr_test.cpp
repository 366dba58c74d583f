#include "symbolic/expr.h"
#include "testing/catch.h"

using namespace tsc::symbolic;

TEST_CASE("expressions print as sympy prints them") {
  for (const char *text :
       {"256*z0 + z1", "-z1 + z2", "16384*z0 + 128*z2 + z3", "4096*d0 + d1", "(z0//4)",
        "ModularIndexing(z0, 1, 64)", "s0**2", "Min(s0, s1)", "((3*s0)//(2*s1))", "-(((-s0)//3))",
        "4*(((s0 + 1)//2)) + (Mod(s0, 3))", "s0**2 - 2*s0*s1 + s1**2", "Max(3, (s0//2))",
        "((s0//2))*((s1//3))", "((ModularIndexing(s0, 2, 5))//3)", "s0*s1**2*(Mod(s0, 2))",
        "-9223372036854775808", "0", "-z0 - 7"}) {
    CHECK(print(parse(text)) == text);
  }
}
