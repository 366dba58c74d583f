// Random expressions, checked by evaluation at random points of their ranges.
#include "random_expressions.h"

#include "testing/catch.h"

#include <cctype>
#include <cstdlib>
#include <stdexcept>

using namespace tsc::testing;

namespace {

/// Evaluates the C++ text that print_cpp writes: + - * / % ?: < > and the two prelude functions.
class CppText {
public:
  CppText(const std::string &text, const Bindings &bindings) : text_(text), bindings_(bindings) {}
  int64_t value() {
    int64_t result = choice();
    if (at_ != text_.size())
      throw std::runtime_error("trailing text in " + text_);
    return result;
  }

private:
  bool take(const std::string &token) {
    while (at_ < text_.size() && text_[at_] == ' ')
      ++at_;
    if (text_.compare(at_, token.size(), token) != 0)
      return false;
    at_ += token.size();
    return true;
  }
  void need(const std::string &token) {
    if (!take(token))
      throw std::runtime_error("expected " + token + " in " + text_);
  }
  int64_t choice() {
    int64_t left = sum();
    if (bool less = take("<"); less || take(">")) {
      int64_t right = sum();
      left = less ? left < right : left > right;
    }
    if (!take("?"))
      return left;
    int64_t yes = choice();
    need(":");
    int64_t no = choice();
    return left != 0 ? yes : no;
  }
  int64_t sum() {
    int64_t result = term();
    while (true)
      if (take("+"))
        result += term();
      else if (take("-"))
        result -= term();
      else
        return result;
  }
  int64_t term() {
    int64_t result = unary();
    while (true)
      if (take("*"))
        result *= unary();
      else if (take("/"))
        result /= unary(); // C++: toward zero
      else if (take("%"))
        result %= unary();
      else
        return result;
  }
  int64_t unary() {
    if (take("-"))
      return -unary();
    if (take("(")) {
      int64_t result = choice();
      need(")");
      return result;
    }
    std::string word;
    while (at_ < text_.size() &&
           (std::isalnum(static_cast<unsigned char>(text_[at_])) != 0 || text_[at_] == '_'))
      word += text_[at_++];
    if (word == "tc_floor_div" || word == "tc_mod" || word == "tc_wrap") {
      need("(");
      int64_t x = choice();
      need(",");
      int64_t y = choice();
      need(")");
      if (word == "tc_wrap")
        return x < 0 ? x + y : x >= y ? x - y : x;
      int64_t rest = (x % y + y) % y;
      return word == "tc_mod" ? rest : (x - rest) / y;
    }
    if (!word.empty() && std::isdigit(static_cast<unsigned char>(word[0])) != 0)
      return std::stoll(word);
    return bindings_.at(*symbol_spelled(word));
  }

  const std::string &text_;
  const Bindings &bindings_;
  size_t at_ = 0;
};

int64_t count_from_environment() {
  const char *text = std::getenv("TSC_RANDOM_EXPRESSIONS");
  return text == nullptr ? 50000 : std::atoll(text);
}

} // namespace

TEST_CASE("simplification keeps every value, is idempotent, and prints what reads back") {
  Random random(20240607);
  int64_t wrong_made = 0, wrong_value = 0, wrong_again = 0, wrong_text = 0, wrong_cpp = 0,
          wrong_bounds = 0;
  int64_t simplified = 0;
  std::string example;
  auto note = [&](int64_t &count, const char *what, Expr e) {
    if (++count == 1)
      example += std::string(what) + ": " + print(e) + "\n";
  };
  const int64_t count = count_from_environment();
  for (int64_t i = 0; i < count; ++i) {
    Space space(random);
    const Sample asked = sample(random, space, i);
    const Expr e = asked.e;
    Expr simple = simplify(e, space.ranges);
    simplified += simple != e ? 1 : 0;
    if (simplify(simple, space.ranges) != simple)
      note(wrong_again, "not idempotent", e);
    if (parse(print(e)) != e || parse(print(simple)) != simple)
      note(wrong_text, "not read back", e);
    std::string cpp = print_cpp(simple, space.ranges);
    Interval interval = bounds(e, space.ranges);
    for (int point = 0; point < 4; ++point) {
      Bindings bindings = space.point(random);
      int64_t value = value_of(asked, bindings);
      if (evaluate(e, bindings) != value)
        note(wrong_made, "wrong as made", e);
      if (evaluate(simple, bindings) != value)
        note(wrong_value, "wrong value", e);
      if (value < interval.low || value > interval.high)
        note(wrong_bounds, "out of bounds", e);
      if (CppText(cpp, bindings).value() != value)
        note(wrong_cpp, "wrong C++", e);
    }
  }
  INFO(example);
  CHECK(wrong_made == 0);
  CHECK(wrong_value == 0);
  CHECK(wrong_again == 0);
  CHECK(wrong_text == 0);
  CHECK(wrong_cpp == 0);
  CHECK(wrong_bounds == 0);
  CHECK(simplified > count / 10);
  CHECK(simplified < count);
}

TEST_CASE("substitution agrees with evaluation") {
  Random random(7);
  for (int i = 0; i < 2000; ++i) {
    Space space(random);
    Expr e = random_expression(random, space, 2).e;
    Bindings bindings = space.point(random);
    Substitution values;
    for (const auto &binding : bindings)
      values.emplace(binding.first, Expr(binding.second));
    REQUIRE(substitute(e, values) == Expr(evaluate(e, bindings)));
  }
}
