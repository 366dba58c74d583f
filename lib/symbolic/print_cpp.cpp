// Text of an expression as C++ over signed integer variables.
#include "symbolic/node.h"

namespace tsc::symbolic {
namespace {

std::string parenthesized(const std::string &inner) {
  std::string text(1, '(');
  text += inner;
  text += ')';
  return text;
}

class CppPrinter {
public:
  explicit CppPrinter(const Ranges &ranges) : ranges_(ranges) {}

  std::string divisor_text(Expr divisor) {
    return bounds(divisor, ranges_).low > 0 ? text(divisor, true)
                                            : "tc_divisor(" + text(divisor) + ")";
  }

  /// `inside_product`: a sum or a negative number needs parentheses.
  std::string text(Expr e, bool inside_product = false) {
    switch (e.kind()) {
    case Kind::integer:
      return number(e.value(), inside_product);
    case Kind::symbol:
      return e.spelling();
    case Kind::add:
      return inside_product ? parenthesized(sum_text(e)) : sum_text(e);
    case Kind::mul:
      return product_text(e, inside_product);
    case Kind::power:
      return power_text(e);
    case Kind::floor_div:
      return quotient_text(e.operands()[0], e.operands()[1]);
    case Kind::modular_index:
      return remainder_text(floor_div(e.operands()[0], e.operands()[1]), e.operands()[2]);
    case Kind::mod:
      return remainder_text(e.operands()[0], e.operands()[1]);
    case Kind::identity:
      return text(e.operands()[0], inside_product);
    case Kind::minimum:
      return extremum_text(e, " < ");
    case Kind::maximum:
      return extremum_text(e, " > ");
    }
    return {};
  }

private:
  static std::string number(int64_t value, bool inside_product) {
    if (value == INT64_MIN) // has no literal
      return "(-9223372036854775807 - 1)";
    std::string digits = std::to_string(value);
    return value < 0 && inside_product ? parenthesized(digits) : digits;
  }

  std::string sum_text(Expr e) {
    std::string result;
    for (Expr term : e.operands()) {
      std::string part = text(term);
      if (result.empty())
        result = part;
      else if (part[0] == '-')
        result += " - " + part.substr(1);
      else
        result += " + " + part;
    }
    return result;
  }

  std::string product_text(Expr e, bool inside_product) {
    Term term = term_of(e);
    bool negated = term.coefficient == -1;
    std::string result = negated ? "-" : "";
    if (term.coefficient != 1 && !negated)
      result = number(term.coefficient, false) + "*";
    bool first = true;
    for (Expr factor : factors_of(term.monomial)) {
      if (!first)
        result += '*';
      result += text(factor, true);
      first = false;
    }
    return inside_product ? parenthesized(result) : result;
  }

  std::string power_text(Expr e) {
    std::string base = text(e.operands()[0], true), result = base;
    for (int64_t i = 1; i < e.operands()[1].value(); ++i)
      result += "*" + base;
    return parenthesized(result);
  }

  std::string quotient_text(Expr x, Expr divisor) {
    if (known_nonnegative(x, ranges_))
      return parenthesized(text(x, true) + " / " + divisor_text(divisor));
    return "tc_floor_div(" + text(x) + ", " + text(divisor) + ")";
  }

  std::string remainder_text(Expr x, Expr modulus) {
    if (wraps_once(x, modulus, ranges_))
      return "tc_wrap(" + text(x) + ", " + text(modulus) + ")";
    if (known_nonnegative(x, ranges_))
      return parenthesized(text(x, true) + " % " + divisor_text(modulus));
    return "tc_mod(" + text(x) + ", " + text(modulus) + ")";
  }

  std::string extremum_text(Expr e, const char *relation) {
    std::string result = text(e.operands()[0], true);
    for (Expr operand : e.operands().subspan(1)) {
      std::string other = text(operand, true);
      result = parenthesized(result + relation + other + " ? " + result + " : " + other);
    }
    return result;
  }

  const Ranges &ranges_;
};

} // namespace

std::string print_cpp(Expr e, const Ranges &ranges) { return CppPrinter(ranges).text(e); }

std::string print_cpp_divisor(Expr e, const Ranges &ranges) {
  return CppPrinter(ranges).divisor_text(e);
}

} // namespace tsc::symbolic
