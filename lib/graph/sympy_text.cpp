#include "graph/sympy_text.h"

#include "graph/indicators.h"
#include "support/diagnostic.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tsc::graph {

using support::Diagnostic;
using support::ExitCode;
using support::UserError;
using symbolic::Expr;

namespace {

constexpr int kMaxNesting = 100;
constexpr int64_t kMaxExponent = 16;
constexpr size_t kMaxTerms = 1000;
// A size times such a fraction is exact in double precision, as PyTorch computes it.
constexpr int64_t kMaxDenominator = int64_t{1} << 20;
constexpr double kMaxNumerator = 1048576;

/// Recursive descent over CALL := NAME '(' [CALL | 'text' | integer | NAME '=' NAME]... ')'.
class Reader {
public:
  Reader(std::string_view text, const symbolic::SymbolReader &symbol_of)
      : text_(text), symbol_of_(symbol_of) {}

  Expr read_all() {
    Expr result = read(0);
    skip_spaces();
    if (position_ != text_.size())
      fail("something follows the expression");
    return result;
  }

private:
  [[noreturn]] void fail(const std::string &reason, ExitCode code = ExitCode::bad_input) {
    std::string shown(text_.substr(0, 200));
    throw UserError(code, Diagnostic{"TSC-G016",
                                     "cannot read the size expression '" + shown + "': " + reason +
                                         " at column " + std::to_string(position_ + 1),
                                     "", "", "", "", ""});
  }

  void skip_spaces() {
    while (position_ < text_.size() && text_[position_] == ' ')
      ++position_;
  }
  bool accept(char c) {
    skip_spaces();
    if (position_ >= text_.size() || text_[position_] != c)
      return false;
    ++position_;
    return true;
  }
  void expect(char c) {
    if (!accept(c))
      fail(std::string("expected '") + c + "'");
  }

  static bool is_word(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  }
  std::string_view word() {
    skip_spaces();
    size_t start = position_;
    while (position_ < text_.size() && is_word(text_[position_]))
      ++position_;
    if (start == position_)
      fail("expected a name");
    return text_.substr(start, position_ - start);
  }

  int64_t integer_literal() {
    skip_spaces();
    const char *begin = text_.data() + position_;
    int64_t value = 0;
    auto parsed = std::from_chars(begin, text_.data() + text_.size(), value);
    if (parsed.ec != std::errc())
      fail("expected an integer of 64 bits");
    position_ += static_cast<size_t>(parsed.ptr - begin);
    return value;
  }

  /// After "Symbol(": 'name', positive=True, integer=True).
  Expr symbol() {
    expect('\'');
    std::string_view name = word();
    if (name[0] >= '0' && name[0] <= '9')
      fail("expected a symbol's name");
    expect('\'');
    while (accept(',')) { // assumptions: sizes are integers, and ranges are in range_constraints
      word();
      expect('=');
      word();
    }
    expect(')');
    const std::optional<Expr> symbol = symbol_of_(name);
    if (!symbol)
      fail("no symbol is called '" + std::string(name) + "'");
    return *symbol;
  }

  Expr read(int depth) {
    if (depth > kMaxNesting)
      fail("it is nested too deep");
    size_t start = position_;
    std::string name(word());
    if (name == "true" || name == "false")
      return name == "true" ? 1 : 0;
    expect('(');
    if (name == "Symbol")
      return symbol();
    if (name == "Integer") {
      int64_t value = integer_literal();
      expect(')');
      return value;
    }
    // ceil(a / b) and floor(1.5 * a) arrive as roundings of floats.
    if (name == "CeilToInt" || name == "FloorToInt" || name == "TruncToInt" ||
        name == "RoundToInt") {
      const Ratio ratio = real(depth + 1);
      expect(')');
      return rounded(name, ratio.numerator, divisor(ratio.denominator), ratio.may_be_negative);
    }
    if (name == "ToFloat" || name == "Identity") { // a size that is a whole number all the same
      const Expr value = read(depth + 1);
      expect(')');
      return value;
    }
    if (name == "Piecewise")
      return piecewise(depth + 1);
    std::vector<Expr> operands = list(depth + 1);
    return apply(name, operands, start);
  }

  /// A float that depends on sizes; both parts are integers.
  struct Ratio {
    Expr numerator, denominator = 1;
    bool may_be_negative = false; // sizes are not, but what is subtracted is
  };

  /// numerator / denominator as an integer.
  static Expr rounded(const std::string &name, Expr numerator, Expr denominator,
                      bool may_be_negative) {
    if (name == "CeilToInt")
      return symbolic::ceil_div(numerator, denominator);
    if (name == "RoundToInt") { // half to even
      const Expr twice = numerator * 2 + denominator, whole = denominator * 2;
      const Expr up = symbolic::floor_div(twice, whole);
      return up - negation(positive(symbolic::mod(twice, whole))) * symbolic::mod(up, 2);
    }
    if (name == "FloorToInt" || !may_be_negative)
      return symbolic::floor_div(numerator, denominator);
    return symbolic::floor_div(symbolic::maximum(0, numerator), denominator) -
           symbolic::floor_div(symbolic::maximum(0, numerator * -1), denominator);
  }

  /// PyTorch rounds each step to 53 bits. Quotients are rounded once, which does not cross an
  /// integer; what is computed with rounded numbers might, unless it scales by a power of 2.
  static bool is_exact(const Ratio &ratio) {
    const std::optional<int64_t> denominator = ratio.denominator.as_integer();
    return denominator && (*denominator & (*denominator - 1)) == 0;
  }
  static bool is_power_of_two(const Ratio &ratio) {
    const std::optional<int64_t> numerator = ratio.numerator.as_integer();
    return is_exact(ratio) && numerator && *numerator > 0 && (*numerator & (*numerator - 1)) == 0;
  }
  void require_exact(bool exact) {
    if (!exact)
      fail("a float that is rounded more than once is not supported", ExitCode::unsupported);
  }

  Ratio product(const Ratio &a, const Ratio &b) {
    require_exact((is_exact(a) && is_exact(b)) || is_power_of_two(a) || is_power_of_two(b));
    return {multiply(a.numerator, b.numerator), multiply(a.denominator, b.denominator),
            a.may_be_negative || b.may_be_negative};
  }
  Ratio sum(const Ratio &a, const Ratio &b) {
    require_exact(is_exact(a) && is_exact(b));
    return {multiply(a.numerator, b.denominator) + multiply(b.numerator, a.denominator),
            multiply(a.denominator, b.denominator), a.may_be_negative || b.may_be_negative};
  }
  Ratio quotient(const Ratio &a, const Ratio &b) {
    require_exact((is_exact(a) && is_exact(b)) || is_power_of_two(b));
    const std::optional<int64_t> whole = b.numerator.as_integer();
    if (whole && *whole < 0)
      return quotient({a.numerator * -1, a.denominator, true}, {b.numerator * -1, b.denominator});
    return {multiply(a.numerator, b.denominator), multiply(a.denominator, divisor(b.numerator)),
            a.may_be_negative || b.may_be_negative};
  }

  Ratio real(int depth) {
    if (depth > kMaxNesting)
      fail("it is nested too deep");
    skip_spaces();
    size_t start = position_;
    std::string name(word());
    expect('(');
    if (name == "Float")
      return float_literal();
    if (name == "ToFloat") {
      std::vector<Expr> operands = list(depth + 1);
      require_count(operands, 1);
      return {operands[0]};
    }
    if (name == "IntTrueDiv") {
      std::vector<Expr> operands = list(depth + 1);
      require_count(operands, 2);
      return {operands[0], operands[1]};
    }
    if (name == "Mul" || name == "Add" || name == "FloatTrueDiv") {
      Ratio result = real(depth + 1);
      while (accept(',')) {
        const Ratio next = real(depth + 1);
        result = name == "Mul"   ? product(result, next)
                 : name == "Add" ? sum(result, next)
                                 : quotient(result, next);
      }
      expect(')');
      return result;
    }
    position_ = start;
    if (name == "Integer" || name == "Symbol" || is_whole(name)) {
      const Expr value = read(depth + 1);
      return {value, 1, value.is_integer() && value.value() < 0};
    }
    fail("the rounding of '" + name + "' is not supported", ExitCode::unsupported);
  }

  /// Functions whose results are integers.
  static bool is_whole(const std::string &name) {
    static constexpr std::string_view kNames[] = {
        "CeilToInt", "FloorToInt",  "TruncToInt", "RoundToInt", "Max",     "Min",
        "Mod",       "PythonMod",   "FloorDiv",   "CleanDiv",   "CeilDiv", "ModularIndexing",
        "Pow",       "PowByNatural"};
    return std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames);
  }

  /// After "Float(": '1.5', precision=53). As a fraction, which is exact where floats are.
  Ratio float_literal() {
    size_t start = position_;
    expect('\'');
    double value = 0;
    auto parsed = std::from_chars(text_.data() + position_, text_.data() + text_.size(), value);
    if (parsed.ec != std::errc())
      fail("expected a number");
    position_ = static_cast<size_t>(parsed.ptr - text_.data());
    expect('\'');
    while (accept(',')) {
      word();
      expect('=');
      word();
    }
    expect(')');
    for (int64_t denominator = 1; denominator <= kMaxDenominator; denominator *= 2) {
      double numerator = value * static_cast<double>(denominator);
      if (std::fabs(numerator) <= kMaxNumerator && numerator == std::floor(numerator))
        return {static_cast<int64_t>(numerator), denominator, value < 0};
    }
    position_ = start;
    fail("the float is no sum of few powers of 2", ExitCode::unsupported);
  }

  /// After "Piecewise(": ExprCondPair(value, condition), ...; the first whose condition holds, and
  /// the last one holds always.
  Expr piecewise(int depth) {
    std::vector<std::vector<Expr>> pairs;
    do {
      size_t start = position_;
      if (word() != "ExprCondPair") {
        position_ = start;
        fail("expected ExprCondPair");
      }
      expect('(');
      pairs.push_back(list(depth + 1));
      require_count(pairs.back(), 2);
    } while (accept(','));
    expect(')');
    Expr result = pairs.back()[0];
    for (size_t i = pairs.size() - 1; i-- > 0;)
      result = chosen(pairs[i][1], pairs[i][0], result);
    return result;
  }

  /// 1 or 0; nothing if `name` is no relation.
  std::optional<Expr> relation(const std::string &name, const std::vector<Expr> &operands) {
    if (name == "Not") {
      require_count(operands, 1);
      return negation(operands[0]);
    }
    static constexpr std::string_view kRelations[] = {"StrictLessThan",
                                                      "LessThan",
                                                      "StrictGreaterThan",
                                                      "GreaterThan",
                                                      "Equality",
                                                      "Unequality",
                                                      "And",
                                                      "Or"};
    const auto *found = std::find(std::begin(kRelations), std::end(kRelations), name);
    if (found == std::end(kRelations))
      return std::nullopt;
    require_count(operands, 2);
    const Expr a = operands[0], b = operands[1];
    switch (found - std::begin(kRelations)) {
    case 0:
      return less(a, b);
    case 1:
      return less_or_equal(a, b);
    case 2:
      return less(b, a);
    case 3:
      return less_or_equal(b, a);
    case 4:
      return negation(unequal(a, b));
    case 5:
      return unequal(a, b);
    case 6:
      return symbolic::minimum(a, b);
    default:
      return symbolic::maximum(a, b);
    }
  }

  /// Operands up to the closing parenthesis.
  std::vector<Expr> list(int depth) {
    std::vector<Expr> operands;
    if (accept(')'))
      return operands;
    do {
      operands.push_back(read(depth));
    } while (accept(','));
    expect(')');
    return operands;
  }

  void require_count(const std::vector<Expr> &operands, size_t count) {
    if (operands.size() != count)
      fail("expected " + std::to_string(count) + " operands");
  }

  Expr apply(const std::string &name, const std::vector<Expr> &operands, size_t start) {
    if (name == "Add")
      return symbolic::sum(operands);
    if (name == "Mul") {
      Expr result = 1;
      for (Expr operand : operands)
        result = multiply(result, operand);
      return result;
    }
    if (name == "Pow" || name == "PowByNatural")
      return power(operands);
    if (name == "LShift" || name == "RShift") {
      require_count(operands, 2);
      const Expr factor = power({2, operands[1]});
      return name == "LShift" ? multiply(operands[0], factor)
                              : symbolic::floor_div(operands[0], factor);
    }
    if (name == "Abs") {
      require_count(operands, 1);
      return symbolic::maximum(operands[0], operands[0] * -1);
    }
    if (name == "Where") {
      require_count(operands, 3);
      return chosen(operands[0], operands[1], operands[2]);
    }
    static constexpr std::string_view kBitwise = "BitwiseFn_bitwise_";
    if (name.compare(0, kBitwise.size(), kBitwise) == 0) {
      require_count(operands, 2);
      if (const std::optional<Expr> value =
              bitwise(name.substr(kBitwise.size()), operands[0], operands[1]))
        return *value;
    }
    if (name == "Min" || name == "Max") {
      if (operands.empty())
        fail("expected operands");
      Expr result = operands[0];
      for (size_t i = 1; i < operands.size(); ++i)
        result = name == "Min" ? symbolic::minimum(result, operands[i])
                               : symbolic::maximum(result, operands[i]);
      return result;
    }
    if (name == "ModularIndexing") {
      require_count(operands, 3);
      return symbolic::modular_index(operands[0], divisor(operands[1]), divisor(operands[2]));
    }
    if (name == "FloorDiv" || name == "CleanDiv") {
      require_count(operands, 2);
      return symbolic::floor_div(operands[0], divisor(operands[1]));
    }
    if (name == "CeilDiv") {
      require_count(operands, 2);
      return symbolic::ceil_div(operands[0], divisor(operands[1]));
    }
    if (name == "Mod" || name == "PythonMod") {
      require_count(operands, 2);
      return symbolic::mod(operands[0], divisor(operands[1]));
    }
    if (std::optional<Expr> condition = relation(name, operands))
      return *condition;
    position_ = start;
    fail("the function '" + name + "' is not supported", ExitCode::unsupported);
  }

  /// Products of sums are expanded: what would grow without measure is refused first.
  Expr multiply(Expr a, Expr b) {
    auto terms = [](Expr e) { return e.kind() == symbolic::Kind::add ? e.operands().size() : 1; };
    if (terms(a) * terms(b) > kMaxTerms)
      fail("it has more than " + std::to_string(kMaxTerms) + " terms");
    return a * b;
  }

  Expr divisor(Expr e) {
    if (e.is_integer() && e.value() <= 0)
      fail("a divisor is not positive");
    return e;
  }

  Expr power(const std::vector<Expr> &operands) {
    require_count(operands, 2);
    std::optional<int64_t> exponent = operands[1].as_integer();
    if (!exponent)
      fail("an exponent that is no number is not supported", ExitCode::unsupported);
    if (*exponent < 0 || *exponent > kMaxExponent)
      fail("an exponent is not an integer from 0 to " + std::to_string(kMaxExponent));
    Expr result = 1;
    for (int64_t i = 0; i < *exponent; ++i)
      result = multiply(result, operands[0]);
    return result;
  }

  std::string_view text_;
  const symbolic::SymbolReader &symbol_of_;
  size_t position_ = 0;
};

} // namespace

namespace {

/// a & mask for a mask that is not negative: its runs of ones, each a remainder of a quotient.
Expr masked_by(Expr a, int64_t mask) {
  Expr result = 0;
  for (int first = 0; first < 62 && (mask >> first) != 0; ++first) {
    if ((mask >> first) % 2 == 0)
      continue;
    int end = first;
    while (end < 62 && (mask >> end) % 2 != 0)
      ++end;
    const Expr shifted = symbolic::floor_div(a, int64_t{1} << first);
    result = result + symbolic::mod(shifted, int64_t{1} << (end - first)) * (int64_t{1} << first);
    first = end;
  }
  return result;
}

} // namespace

std::optional<Expr> bitwise(std::string_view operation, Expr a, Expr b) {
  if (!b.is_integer())
    std::swap(a, b);
  const std::optional<int64_t> mask = b.as_integer();
  constexpr int64_t kMost = int64_t{1} << 60;
  if (!mask || *mask >= kMost || *mask <= -kMost)
    return std::nullopt;
  // -m is the complement of m - 1.
  const Expr both = *mask >= 0 ? masked_by(a, *mask) : a - masked_by(a, -*mask - 1);
  if (operation == "and")
    return both;
  if (operation == "or")
    return a + b - both;
  return operation == "xor" ? std::optional(a + b - both * 2) : std::nullopt;
}

Expr parse_sympy(std::string_view text, const symbolic::SymbolReader &symbol_of) {
  bool is_srepr = text.find("Symbol(") != std::string_view::npos ||
                  text.find("Integer(") != std::string_view::npos;
  return is_srepr ? Reader(text, symbol_of).read_all() : symbolic::parse(text, symbol_of);
}

} // namespace tsc::graph
