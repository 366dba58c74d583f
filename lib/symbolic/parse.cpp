// Reads expressions: what print writes, and the spellings of torch.export and TorchInductor's logs.
#include "symbolic/node.h"

#include "support/diagnostic.h"

#include <cctype>
#include <charconv>

namespace tsc::symbolic {
namespace {

constexpr int kMaxNesting = 200;

struct Parsed {
  Expr value;
  int parentheses = 0;           // pairs around it beyond those that a FloorDiv prints for itself
  bool is_bare_division = false; // "a//b" and nothing else
};

class Parser {
public:
  Parser(std::string_view text, bool keep_groups, const SymbolReader &symbol_of)
      : text_(text), keep_groups_(keep_groups), symbol_of_(symbol_of) {}

  Expr parse_all() {
    Expr value = parse_whole();
    skip_space();
    if (at_ != text_.size())
      fail("unexpected '" + std::string(1, text_[at_]) + "'");
    return value;
  }

private:
  /// A whole text or argument: print writes no parentheses around it, so any pair is a group.
  Expr parse_whole() { return settle(parse_sum(), 0); }

  Expr settle(const Parsed &parsed, int plain_parentheses) const {
    if (keep_groups_ && parsed.parentheses > plain_parentheses)
      return identity(parsed.value);
    return parsed.value;
  }
  /// An operand: one pair may be needed for precedence, a second makes a group.
  Expr settle_operand(const Parsed &parsed) const { return settle(parsed, 1); }

  Parsed parse_sum() {
    Nesting nesting(*this);
    Parsed left = parse_product();
    std::vector<Expr> terms;
    while (true) {
      skip_space();
      char sign = peek();
      if (sign != '+' && sign != '-')
        break;
      if (terms.empty())
        terms.push_back(settle_operand(left));
      ++at_;
      Expr term = settle_operand(parse_product());
      terms.push_back(sign == '+' ? term : -term);
    }
    if (terms.empty())
      return left;
    return {sum(terms)};
  }

  Parsed parse_product() {
    Parsed left = parse_unary();
    for (bool first = true;; first = false) {
      skip_space();
      if (peek() == '*' && peek(1) != '*') {
        ++at_;
        Expr right = settle_operand(parse_unary());
        left = {settle_operand(left) * right};
      } else if (peek() == '/' && peek(1) == '/') {
        at_ += 2;
        Expr right = settle_operand(parse_unary());
        left = {floor_div(settle_operand(left), right), 0, first};
      } else if (peek() == '%') {
        ++at_;
        Expr right = settle_operand(parse_unary());
        left = {mod(settle_operand(left), right)};
      } else {
        return left;
      }
      skip_space();
      if (!first || peek() == '*' || peek() == '/' || peek() == '%')
        left.is_bare_division = false;
    }
  }

  Parsed parse_unary() {
    Nesting nesting(*this);
    skip_space();
    if (peek() == '-') {
      ++at_;
      skip_space();
      if (std::isdigit(static_cast<unsigned char>(peek())) != 0)
        return parse_power(true);
      return {-settle_operand(parse_unary())};
    }
    if (peek() == '+') {
      ++at_;
      return parse_unary();
    }
    return parse_power(false);
  }

  Parsed parse_power(bool negative) {
    Parsed base = parse_primary(negative);
    skip_space();
    if (peek() != '*' || peek(1) != '*')
      return base;
    at_ += 2;
    size_t start = at_;
    Expr exponent = settle_operand(parse_unary());
    if (!exponent.is_integer() || exponent.value() < 0 || exponent.value() > 64) {
      at_ = start;
      fail("an exponent must be an integer from 0 to 64");
    }
    // Python: -2**2 is -(2**2).
    Expr value = settle_operand(base);
    return {negative ? -power(-value, exponent.value()) : power(value, exponent.value())};
  }

  Parsed parse_primary(bool negative) {
    skip_space();
    char c = peek();
    if (std::isdigit(static_cast<unsigned char>(c)) != 0)
      return {parse_number(negative)};
    if (std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_')
      return {parse_name()};
    if (c != '(')
      fail("expected a number, a name or '('");
    ++at_;
    Parsed inner = parse_sum();
    expect(')');
    if (inner.is_bare_division && inner.parentheses == 0)
      return {inner.value};
    return {inner.value, inner.parentheses + 1};
  }

  Expr parse_number(bool negative) {
    size_t start = at_;
    std::string digits = negative ? "-" : "";
    while (std::isdigit(static_cast<unsigned char>(peek())) != 0)
      digits += text_[at_++];
    int64_t value = 0;
    if (std::from_chars(digits.data(), digits.data() + digits.size(), value).ec != std::errc()) {
      at_ = start;
      fail("'" + digits + "' does not fit into 64 bits");
    }
    return value;
  }

  Expr parse_name() {
    size_t start = at_;
    while (std::isalnum(static_cast<unsigned char>(peek())) != 0 || peek() == '_')
      ++at_;
    std::string name(text_.substr(start, at_ - start));
    skip_space();
    if (peek() != '(') {
      const std::optional<Expr> found = symbol_of_(name);
      if (!found) {
        at_ = start;
        fail("no symbol is called '" + name + "'");
      }
      return *found;
    }
    ++at_;
    std::vector<Expr> arguments;
    do {
      arguments.push_back(parse_whole());
      skip_space();
    } while (take(','));
    expect(')');
    return call(name, arguments, start);
  }

  Expr call(const std::string &name, const std::vector<Expr> &arguments, size_t start) {
    auto is = [&](const char *spelling, size_t count) {
      return name == spelling && arguments.size() == count;
    };
    if (is("FloorDiv", 2) || is("CleanDiv", 2))
      return floor_div(arguments[0], arguments[1]);
    if (is("ModularIndexing", 3))
      return modular_index(arguments[0], arguments[1], arguments[2]);
    if (is("Mod", 2) || is("PythonMod", 2))
      return mod(arguments[0], arguments[1]);
    if (is("CeilDiv", 2))
      return ceil_div(arguments[0], arguments[1]);
    if (is("Identity", 1))
      return identity(arguments[0]);
    bool smallest = name == "Min" || name == "min";
    if (smallest || name == "Max" || name == "max") {
      Expr result = arguments[0];
      for (Expr argument : arguments)
        result = smallest ? minimum(result, argument) : maximum(result, argument);
      return result;
    }
    at_ = start;
    fail("no function '" + name + "' of " + std::to_string(arguments.size()) + " arguments",
         support::did_you_mean(name, {"FloorDiv", "CleanDiv", "ModularIndexing", "Mod", "PythonMod",
                                      "CeilDiv", "Identity", "Min", "Max"}));
  }

  struct Nesting {
    explicit Nesting(Parser &parser) : parser_(parser) {
      if (++parser_.nesting_ > kMaxNesting)
        parser_.fail("nested too deeply");
    }
    ~Nesting() { --parser_.nesting_; }
    Parser &parser_;
  };

  char peek(size_t ahead = 0) const {
    return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0';
  }
  void skip_space() {
    while (std::isspace(static_cast<unsigned char>(peek())) != 0)
      ++at_;
  }
  bool take(char c) {
    if (peek() != c)
      return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    skip_space();
    if (!take(c))
      fail("expected '" + std::string(1, c) + "'");
  }

  [[noreturn]] void fail(const std::string &what, const std::string &suggestion = "") const {
    throw support::UserError(
        support::ExitCode::bad_input,
        support::Diagnostic{"TSC-G091",
                            "cannot read the expression '" + std::string(text_) + "': " + what +
                                " at column " + std::to_string(at_ + 1),
                            "", "", "", "",
                            suggestion.empty()
                                ? "write integers and symbols with + - * // % ** and "
                                  "FloorDiv, ModularIndexing, Mod, Min, Max"
                                : "did you mean '" + suggestion + "'?"});
  }

  std::string_view text_;
  bool keep_groups_;
  const SymbolReader &symbol_of_;
  size_t at_ = 0;
  int nesting_ = 0;
};

} // namespace

Expr parse(std::string_view text) { return parse(text, symbol_spelled); }
Expr parse(std::string_view text, const SymbolReader &symbol_of) {
  return Parser(text, false, symbol_of).parse_all();
}
Expr parse_log(std::string_view text) {
  const SymbolReader spelled = symbol_spelled;
  return Parser(text, true, spelled).parse_all();
}

} // namespace tsc::symbolic
