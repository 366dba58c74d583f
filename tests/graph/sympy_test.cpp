#include "graph/sympy_text.h"
#include "support/diagnostic.h"
#include "testing/catch.h"

using tsc::symbolic::Expr;
using tsc::symbolic::print;
using tsc::symbolic::SymbolSort;

namespace {

/// n and m stand for s8 and s9.
Expr parse_sympy(std::string_view text) {
  return tsc::graph::parse_sympy(text, [](std::string_view name) {
    return name == "n"   ? tsc::symbolic::symbol(SymbolSort::size, 8)
           : name == "m" ? tsc::symbolic::symbol(SymbolSort::size, 9)
                         : tsc::symbolic::symbol_spelled(name);
  });
}

} // namespace

TEST_CASE("sympy's srepr form reads as expressions") {
  const std::string s0 = "Symbol('s0', positive=True, integer=True)";
  const std::string u1 = "Symbol('u1', integer=True)";
  CHECK(print(parse_sympy("Integer(-3)")) == "-3");
  CHECK(print(parse_sympy(s0)) == "s0");
  CHECK(parse_sympy("Mul(Integer(4), " + s0 + ")") == parse_sympy("4*s0"));
  CHECK(parse_sympy("Add(Mul(Integer(-1), " + s0 + "), " + u1 + ", Integer(7))") ==
        parse_sympy("u1 - s0 + 7"));
  CHECK(parse_sympy("Pow(" + s0 + ", Integer(2))") == parse_sympy("s0**2"));
  CHECK(parse_sympy("FloorDiv(" + s0 + ", Integer(2))") == parse_sympy("s0//2"));
  CHECK(parse_sympy("PythonMod(" + s0 + ", Integer(8))") == parse_sympy("Mod(s0, 8)"));
  CHECK(parse_sympy("Max(Integer(1), " + s0 + ", " + u1 + ")") ==
        parse_sympy("Max(Max(1, s0), u1)"));
  CHECK(parse_sympy("CeilToInt(IntTrueDiv(" + s0 + ", Integer(3)))") ==
        tsc::symbolic::ceil_div(parse_sympy("s0"), 3));
  // What interpolate with a scale factor writes.
  std::string real = "ToFloat(" + s0 + ")";
  CHECK(parse_sympy("TruncToInt(Mul(Float('1.5', precision=53), " + real + "))") ==
        tsc::symbolic::floor_div(3 * parse_sympy("s0"), 2));
  CHECK(parse_sympy("FloorToInt(Mul(Float('2.0', precision=53), " + real + "))") ==
        2 * parse_sympy("s0"));
  CHECK(parse_sympy("CeilToInt(Mul(Float('0.25', precision=53), " + real + ", Integer(3)))") ==
        tsc::symbolic::ceil_div(3 * parse_sympy("s0"), 4));
  CHECK(parse_sympy("FloorToInt(IntTrueDiv(" + s0 + ", " + s0 + "))") ==
        tsc::symbolic::floor_div(parse_sympy("s0"), parse_sympy("s0")));
  CHECK(parse_sympy("ModularIndexing(" + s0 + ", Integer(2), Integer(4))") ==
        parse_sympy("ModularIndexing(s0, 2, 4)"));
}

TEST_CASE("choices read as arithmetic with conditions that are 1 or 0") {
  const std::string n = "Symbol('n')", m = "Symbol('m')";
  const auto value = [&](const std::string &condition, int64_t at_n, int64_t at_m) {
    const tsc::symbolic::Expr e = parse_sympy("Piecewise(ExprCondPair(Integer(5), " + condition +
                                              "), ExprCondPair(" + n + ", true))");
    return tsc::symbolic::evaluate(e, {{parse_sympy("n"), at_n}, {parse_sympy("m"), at_m}});
  };
  const std::string operands = "(" + n + ", " + m + ")";
  for (int64_t m_value : {2, 3, 4}) { // n is 3
    CHECK(value("StrictLessThan" + operands, 3, m_value) == (3 < m_value ? 5 : 3));
    CHECK(value("LessThan" + operands, 3, m_value) == (3 <= m_value ? 5 : 3));
    CHECK(value("StrictGreaterThan" + operands, 3, m_value) == (3 > m_value ? 5 : 3));
    CHECK(value("GreaterThan" + operands, 3, m_value) == (3 >= m_value ? 5 : 3));
    CHECK(value("Equality" + operands, 3, m_value) == (3 == m_value ? 5 : 3));
    CHECK(value("Unequality" + operands, 3, m_value) == (3 != m_value ? 5 : 3));
    CHECK(value("Not(Equality" + operands + ")", 3, m_value) == (3 != m_value ? 5 : 3));
    CHECK(value("And(LessThan" + operands + ", Unequality" + operands + ")", 3, m_value) ==
          (3 < m_value ? 5 : 3));
    CHECK(value("Or(StrictLessThan" + operands + ", Equality" + operands + ")", 3, m_value) ==
          (3 <= m_value ? 5 : 3));
  }
}

TEST_CASE("expressions that cannot be read say where") {
  CHECK_THROWS_WITH(
      parse_sympy("Piecewise(Integer(1))"),
      "error TSC-G016: cannot read the size expression 'Piecewise(Integer(1))': expected "
      "ExprCondPair at column 11");
  CHECK_THROWS_WITH(parse_sympy("Add(Integer(1), Integer(2)"),
                    "error TSC-G016: cannot read the size expression 'Add(Integer(1), Integer(2)': "
                    "expected ')' at column 27");
  CHECK_THROWS_WITH(
      parse_sympy("Integer(99999999999999999999)"),
      "error TSC-G016: cannot read the size expression 'Integer(99999999999999999999)': "
      "expected an integer of 64 bits at column 9");
  CHECK_THROWS_WITH(parse_sympy("FloorDiv(Integer(7), Integer(0))"),
                    "error TSC-G016: cannot read the size expression 'FloorDiv(Integer(7), "
                    "Integer(0))': a divisor is not positive at column 33");
  CHECK_THROWS_WITH(
      parse_sympy("TruncToInt(Mul(Float('0.1', precision=53), ToFloat(Symbol('s0'))))"),
      "error TSC-G016: cannot read the size expression 'TruncToInt(Mul(Float('0.1', "
      "precision=53), ToFloat(Symbol('s0'))))': the float is no sum of few powers of 2 at column "
      "22");
  CHECK_THROWS_WITH(
      parse_sympy("TruncToInt(FloatPow(Integer(2), Integer(3)))"),
      "error TSC-G016: cannot read the size expression 'TruncToInt(FloatPow(Integer(2), "
      "Integer(3)))': the rounding of 'FloatPow' is not supported at column 12");
  CHECK_THROWS_WITH(
      parse_sympy("sin(Integer(1))"),
      "error TSC-G016: cannot read the size expression 'sin(Integer(1))': the function "
      "'sin' is not supported at column 1");
  CHECK_THROWS_WITH(
      parse_sympy("Pow(Integer(2), Integer(64))"),
      "error TSC-G016: cannot read the size expression 'Pow(Integer(2), Integer(64))': an "
      "exponent is not an integer from 0 to 16 at column 29");
  std::string deep;
  for (int i = 0; i < 1000; ++i)
    deep += "Add(";
  CHECK_THROWS_AS(parse_sympy(deep + "Integer(1)"), tsc::support::UserError);
  std::string wide = "Pow(Pow(Add(";
  for (char c = 'a'; c <= 'z'; ++c)
    wide += std::string("Symbol('") + c + "'), ";
  CHECK_THROWS_AS(parse_sympy(wide + "Integer(1)), Integer(16)), Integer(16))"),
                  tsc::support::UserError);
}
