// Reading and printing.
#include "support/diagnostic.h"
#include "symbolic/expr.h"
#include "testing/catch.h"

#include <fstream>

using namespace tsc::symbolic;

namespace {

std::vector<std::string> lines_of(const std::string &name) {
  std::ifstream file(std::string(TSC_SOURCE_DIR) + "/tests/symbolic/data/" + name);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);)
    lines.push_back(line);
  return lines;
}

} // namespace

TEST_CASE("expressions print as sympy prints them") {
  for (const char *text : {"256*z0 + z1",
                           "-z1 + z2",
                           "16384*z0 + 128*z2 + z3",
                           "4096*d0 + d1",
                           "(z0//4)",
                           "ModularIndexing(z0, 1, 64)",
                           "s0**2",
                           "Min(s0, s1)",
                           "((3*s0)//(2*s1))",
                           "-(((-s0)//3))",
                           "4*(((s0 + 1)//2)) + (Mod(s0, 3))",
                           "s0**2 - 2*s0*s1 + s1**2",
                           "Max(3, (s0//2))",
                           "((s0//2))*((s1//3))",
                           "((ModularIndexing(s0, 2, 5))//3)",
                           "s0*s1**2*(Mod(s0, 2))",
                           "-9223372036854775808",
                           "0",
                           "-z0 - 7",
                           "((s0//s1))**2",
                           "((((s0//s1)) + 1)//3)",
                           "((s0 + 1)//(2*s1))",
                           "(s0//Max(s0, s1))",
                           "((s0**2 + 1)//(s0*s1))",
                           "Min(s0, s1)**2 - 5",
                           "s0*s1**2*(Mod(s0, 2))*(Mod(s1, 2))",
                           "3*Max(1, s0, s1) + Min(s0, s1)",
                           "-s0 - ((s0//3))",
                           "z10 + 5*z2"})
    CHECK(print(parse(text)) == text);
}

TEST_CASE("every index expression of TorchInductor's logs is printed as it was read") {
  for (const char *file : {"index_expressions.txt", "dependency_expressions.txt"}) {
    std::vector<std::string> lines = lines_of(file);
    REQUIRE(lines.size() > 181);
    for (const std::string &line : lines) {
      CHECK(print(parse_log(line)) == line);
      Expr plain = parse(line); // without groups it is the same number and stable
      CHECK(parse(print(plain)) == plain);
    }
  }
  CHECK(lines_of("index_expressions.txt").size() == 182);
}

TEST_CASE("a group of a log stays closed, and plain parentheses do not make one") {
  Expr p1 = symbol(SymbolSort::log_loop, 1);
  CHECK(parse("128*p0 + ((p1 - 64))") == 128 * symbol(SymbolSort::log_loop, 0) + p1 - 64);
  CHECK(parse_log("(p1 - 64)") == identity(p1 - 64));
  CHECK(parse_log("((p1 + 1)) - 1") == identity(p1 + 1) - 1);
  CHECK(parse_log("2*(((64*p2 + p3)//768))") ==
        2 * floor_div(64 * symbol(SymbolSort::log_loop, 2) + symbol(SymbolSort::log_loop, 3), 768));
  CHECK(parse_log("4*((p1//2))") == 4 * floor_div(p1, 2));
}

TEST_CASE("other spellings are read") {
  Expr s77 = symbol(SymbolSort::size, 77), s0 = symbol(SymbolSort::size, 0);
  CHECK(parse("s77*4") == 4 * s77);
  CHECK(parse(" 4 * ( s77 + 1 ) ") == 4 * s77 + 4);
  CHECK(parse("FloorDiv(s77, 2)") == floor_div(s77, 2));
  CHECK(parse("CleanDiv(s77, 2)") == floor_div(s77, 2));
  CHECK(parse("CeilDiv(s77, 2)") == floor_div(s77 + 1, 2));
  CHECK(parse("PythonMod(s77, 2)") == mod(s77, 2));
  CHECK(parse("s77 % 2") == mod(s77, 2));
  CHECK(parse("s77 // 2 // 3") == floor_div(s77, 6));
  CHECK(parse("max(1, s77)") == maximum(1, s77));
  CHECK(parse("-s0**2") == -(s0 * s0));
  CHECK(parse("-2**2") == Expr(-4));
  CHECK(parse("2 - 3 - 4") == Expr(-5));
  CHECK(parse("(s0 + 1)**2") == s0 * s0 + 2 * s0 + 1);
}

TEST_CASE("what cannot be read is reported with its column") {
  auto message = [](const char *text) -> std::string {
    try {
      parse(text);
    } catch (const tsc::support::UserError &error) {
      return error.diagnostics()[0].code + " " + error.diagnostics()[0].message + "; " +
             error.diagnostics()[0].next_step;
    }
    return "";
  };
  const std::string next = "; write integers and symbols with + - * // % ** and FloorDiv, "
                           "ModularIndexing, Mod, Min, Max";
  CHECK(message("4*s0 +") == "TSC-G091 cannot read the expression '4*s0 +': expected a number, a "
                             "name or '(' at column 7" +
                                 next);
  CHECK(message("(s0") ==
        "TSC-G091 cannot read the expression '(s0': expected ')' at column 4" + next);
  CHECK(message("s0 s1") ==
        "TSC-G091 cannot read the expression 's0 s1': unexpected 's' at column 4" + next);
  CHECK(
      message("FlorDiv(s0, 2)") ==
      "TSC-G091 cannot read the expression 'FlorDiv(s0, 2)': no function 'FlorDiv' of 2 arguments "
      "at column 1; did you mean 'FloorDiv'?");
  CHECK(message("9223372036854775808") ==
        "TSC-G091 cannot read the expression '9223372036854775808': '9223372036854775808' does not "
        "fit into 64 bits at column 1" +
            next);
  CHECK(message("s0**s1") == "TSC-G091 cannot read the expression 's0**s1': an exponent must be an "
                             "integer from 0 to 64 at column 5" +
                                 next);
  for (const char *word : {"k", "s", "s00", "row0", "batch", "s2147483648", "z99999999999"})
    CHECK(message(word) == "TSC-G091 cannot read the expression '" + std::string(word) +
                               "': no symbol is called '" + word + "' at column 1" + next);
  CHECK(message("s0//0") == "TSC-G093 FloorDiv by 0; divisors and moduli must be positive; correct "
                            "the size expression");
  CHECK(message("4611686018427387904*s0 + 4611686018427387904*s0") ==
        "TSC-G090 a size or index leaves 64 bits: the sum of 4611686018427387904 and "
        "4611686018427387904; use smaller tensor sizes");
  std::string deep(5000, '(');
  CHECK(message(deep.c_str()).find("nested too deeply at column") != std::string::npos);
}

TEST_CASE("a symbol is its sort and number; names are the reader's and the printer's") {
  for (size_t sort = 0; sort < kSymbolSorts; ++sort)
    for (const size_t number : {size_t{0}, size_t{1}, size_t{10}, kMostSymbols - 1}) {
      const auto kind = static_cast<SymbolSort>(sort);
      if (!has_numbers(kind) && number != 0)
        continue;
      const Expr made = symbol(kind, number);
      CHECK(made.sort() == kind);
      CHECK(made.number() == number);
      CHECK(symbol_spelled(made.spelling()) == made);
      CHECK(parse(made.spelling()) == made);
    }
  const auto mine = [](std::string_view name) -> std::optional<Expr> {
    if (name == "z1")
      return symbol(SymbolSort::size, 0);
    if (name == "int")
      return symbol(SymbolSort::size, 1);
    return std::nullopt;
  };
  const Expr e = parse("4*z1 + int//2", mine);
  CHECK(print(e) == "4*s0 + ((s1//2))");
  const auto called = [](Expr symbol) { return std::string(symbol.number() == 0 ? "z1" : "int"); };
  CHECK(print(e, called) == "4*z1 + ((int//2))");
  CHECK(parse(print(e, called), mine) == e);
  CHECK_THROWS(parse("s0", mine));
}
