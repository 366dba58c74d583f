// Random expressions, checked by evaluation at random points of their ranges.
#include "symbolic/expr.h"
#include "testing/catch.h"

#include <cctype>
#include <cstdlib>

using namespace tsc::symbolic;

namespace {

class Random {
public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t next() { // splitmix64
    uint64_t x = state_ += 0x9e3779b97f4a7c15ull;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    return x ^ (x >> 31);
  }
  int64_t between(int64_t low, int64_t high) { // inclusive
    return low + static_cast<int64_t>(next() % static_cast<uint64_t>(high - low + 1));
  }
  template <size_t n> int64_t pick(const int64_t (&choices)[n]) { return choices[next() % n]; }

private:
  uint64_t state_;
};

constexpr int64_t kFactors[] = {1, 1, 2, 3, 4, 6, 8, 12, 16, 24, 64, 256, -1, -4, -3};
constexpr int64_t kDivisors[] = {1, 2, 3, 4, 6, 8, 12, 16, 24, 64, 256};
constexpr int64_t kSizes[] = {1, 2, 3, 4, 6, 8, 12, 16, 64, 256};

/// Variables with ranges: z0..z2 of constant size, z3 of size s0, n0 possibly negative.
struct Space {
  std::vector<Expr> loops = {symbol("z0"), symbol("z1"), symbol("z2")};
  Expr size = symbol("s0"), bounded = symbol("z3"), signed_variable = symbol("n0");
  Ranges ranges;

  explicit Space(Random &random) {
    ranges.set(size, {1, random.pick(kSizes)});
    for (Expr loop : loops)
      ranges.set_size(loop, random.pick(kSizes));
    ranges.set_size(bounded, size);
    int64_t low = random.between(-40, 10);
    ranges.set(signed_variable, {low, low + random.between(0, 40)});
  }

  Bindings point(Random &random) const {
    Bindings bindings;
    auto draw = [&](Expr e) {
      Interval interval = ranges.interval_of(e);
      // The ends are where rules go wrong.
      int64_t choice = random.between(0, 3);
      bindings[e] = choice == 0   ? interval.low
                    : choice == 1 ? interval.high
                                  : random.between(interval.low, interval.high);
    };
    draw(size);
    for (Expr loop : loops)
      draw(loop);
    draw(signed_variable);
    bindings[bounded] = random.between(0, bindings[size] - 1);
    return bindings;
  }

  Expr variable(Random &random) const {
    int64_t which = random.between(0, 9);
    if (which < 7)
      return loops[static_cast<size_t>(which % 3)];
    return which == 7 ? bounded : which == 8 ? signed_variable : size;
  }
};

Expr random_expression(Random &random, const Space &space, int depth);

Expr random_divisor(Random &random, const Space &space) {
  Expr divisor = random.pick(kDivisors);
  return random.between(0, 7) == 0 ? divisor * space.size : divisor;
}

Expr random_atom(Random &random, const Space &space, int depth) {
  if (depth == 0)
    return space.variable(random);
  Expr x = random_expression(random, space, depth - 1);
  switch (random.between(0, 7)) {
  case 0:
  case 1:
    return floor_div(x, random_divisor(random, space));
  case 2:
  case 3: {
    Expr divisor = random_divisor(random, space);
    return modular_index(x, divisor, random_divisor(random, space));
  }
  case 4:
    return mod(x, random_divisor(random, space));
  case 5:
    return minimum(x, random_expression(random, space, depth - 1));
  case 6:
    return maximum(x, random_expression(random, space, depth - 1));
  default:
    return space.variable(random);
  }
}

Expr random_expression(Random &random, const Space &space, int depth) {
  Expr result = random.between(0, 3) == 0 ? random.between(-20, 300) : 0;
  int64_t terms = random.between(1, 3);
  for (int64_t i = 0; i < terms; ++i) {
    Expr atom = random_atom(random, space, depth);
    if (random.between(0, 9) == 0)
      atom = atom * space.variable(random);
    result = result + random.pick(kFactors) * atom;
  }
  return result;
}

/// Quotient and remainder of one value, which simplification may join.
Expr split_value(Random &random, const Space &space) {
  Expr x = random_expression(random, space, 1);
  int64_t a = random.pick(kDivisors), b = random.pick(kDivisors), c = random.pick(kDivisors);
  Expr high = random.between(0, 1) == 0 ? floor_div(x, a * b) : modular_index(x, a * b, c);
  return modular_index(x, a, b) + b * high;
}

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
    while (true) {
      if (take("+"))
        result += term();
      else if (take("-"))
        result -= term();
      else
        return result;
    }
  }
  int64_t term() {
    int64_t result = unary();
    while (true) {
      if (take("*"))
        result *= unary();
      else if (take("/"))
        result /= unary(); // C++: toward zero
      else if (take("%"))
        result %= unary();
      else
        return result;
    }
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
    if (word == "tc_floor_div" || word == "tc_mod") {
      need("(");
      int64_t x = choice();
      need(",");
      int64_t y = choice();
      need(")");
      int64_t rest = (x % y + y) % y;
      return word == "tc_mod" ? rest : (x - rest) / y;
    }
    if (!word.empty() && std::isdigit(static_cast<unsigned char>(word[0])) != 0)
      return std::stoll(word);
    return bindings_.at(symbol(word));
  }

  const std::string &text_;
  const Bindings &bindings_;
  size_t at_ = 0;
};

int64_t count_from_environment() {
  const char *text = std::getenv("TSC_RANDOM_EXPRESSIONS");
  return text == nullptr ? 100000 : std::atoll(text);
}

} // namespace

TEST_CASE("simplification keeps every value, is idempotent, and prints what reads back") {
  Random random(20240607);
  int64_t wrong_value = 0, wrong_again = 0, wrong_text = 0, wrong_cpp = 0, wrong_bounds = 0;
  int64_t simplified = 0;
  std::string example;
  auto note = [&](int64_t &count, const char *what, Expr e) {
    if (++count == 1)
      example += std::string(what) + ": " + print(e) + "\n";
  };
  const int64_t count = count_from_environment();
  for (int64_t i = 0; i < count; ++i) {
    Space space(random);
    Expr e = random.between(0, 4) == 0 ? split_value(random, space)
                                       : random_expression(random, space, static_cast<int>(i % 4));
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
      int64_t value = evaluate(e, bindings);
      if (evaluate(simple, bindings) != value)
        note(wrong_value, "wrong value", e);
      if (value < interval.low || value > interval.high)
        note(wrong_bounds, "out of bounds", e);
      if (CppText(cpp, bindings).value() != value)
        note(wrong_cpp, "wrong C++", e);
    }
  }
  INFO(example);
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
    Expr e = random_expression(random, space, 2);
    Bindings bindings = space.point(random);
    Substitution values;
    for (const auto &binding : bindings)
      values.emplace(binding.first, Expr(binding.second));
    REQUIRE(substitute(e, values) == Expr(evaluate(e, bindings)));
  }
}
