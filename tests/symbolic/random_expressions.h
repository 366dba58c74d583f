// Random index expressions, each made twice: through the constructors of lib/symbolic, which
// rewrite, and as postfix words that say what was asked for. Whoever evaluates the words depends on
// no rule.
#pragma once

#include "symbolic/expr.h"

#include <algorithm>
#include <vector>

namespace tsc::testing {

using namespace tsc::symbolic;

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
  bool one_in(int64_t n) { return between(1, n) == 1; }
  template <size_t n> int64_t pick(const int64_t (&choices)[n]) { return choices[next() % n]; }

private:
  uint64_t state_;
};

/// What an expression was asked to be.
enum class Word : uint8_t {
  number,
  variable,
  add,
  multiply,
  floor_divide, // toward minus infinity
  modular,      // (x // d) mod m
  modulo,       // in [0, m)
  ceil_divide,
  smallest,
  largest,
};
struct Item {
  Word word = Word::number;
  int64_t value = 0;
  Expr symbol;
};
struct Sample {
  Expr e;
  std::vector<Item> postfix;

  Sample(int64_t value) : e(value), postfix{{Word::number, value, 0}} {}
  static Sample variable(Expr symbol) {
    Sample sample(0);
    sample.e = symbol;
    sample.postfix = {{Word::variable, 0, symbol}};
    return sample;
  }
};

inline Sample combine(Word word, Expr e, std::initializer_list<Sample> operands) {
  Sample result(0);
  result.e = e;
  result.postfix.clear();
  for (const Sample &operand : operands)
    result.postfix.insert(result.postfix.end(), operand.postfix.begin(), operand.postfix.end());
  result.postfix.push_back({word, 0, 0});
  return result;
}
inline Sample operator+(const Sample &a, const Sample &b) {
  return combine(Word::add, a.e + b.e, {a, b});
}
inline Sample operator*(const Sample &a, const Sample &b) {
  return combine(Word::multiply, a.e * b.e, {a, b});
}
inline Sample floor_div(const Sample &x, const Sample &d) {
  return combine(Word::floor_divide, symbolic::floor_div(x.e, d.e), {x, d});
}
inline Sample modular_index(const Sample &x, const Sample &d, const Sample &m) {
  return combine(Word::modular, symbolic::modular_index(x.e, d.e, m.e), {x, d, m});
}
inline Sample mod(const Sample &x, const Sample &m) {
  return combine(Word::modulo, symbolic::mod(x.e, m.e), {x, m});
}
inline Sample ceil_div(const Sample &x, const Sample &d) {
  return combine(Word::ceil_divide, symbolic::ceil_div(x.e, d.e), {x, d});
}
inline Sample minimum(const Sample &a, const Sample &b) {
  return combine(Word::smallest, symbolic::minimum(a.e, b.e), {a, b});
}
inline Sample maximum(const Sample &a, const Sample &b) {
  return combine(Word::largest, symbolic::maximum(a.e, b.e), {a, b});
}

/// The value of the words, by the definitions in symbolic/expr.h.
inline int64_t value_of(const Sample &sample, const Bindings &bindings) {
  const auto floored = [](int64_t a, int64_t b) {
    int64_t quotient = a / b;
    return a % b != 0 && (a < 0) != (b < 0) ? quotient - 1 : quotient;
  };
  std::vector<int64_t> stack;
  const auto pop = [&] {
    const int64_t value = stack.back();
    stack.pop_back();
    return value;
  };
  for (const Item &item : sample.postfix) {
    if (item.word == Word::number || item.word == Word::variable) {
      stack.push_back(item.word == Word::number ? item.value : bindings.at(item.symbol));
      continue;
    }
    const int64_t last = pop(), before = pop();
    switch (item.word) {
    case Word::add:
      stack.push_back(before + last);
      break;
    case Word::multiply:
      stack.push_back(before * last);
      break;
    case Word::floor_divide:
      stack.push_back(floored(before, last));
      break;
    case Word::modular: {
      const int64_t quotient = floored(pop(), before);
      stack.push_back(quotient - last * floored(quotient, last));
      break;
    }
    case Word::modulo:
      stack.push_back(before - last * floored(before, last));
      break;
    case Word::ceil_divide:
      stack.push_back(-floored(-before, last));
      break;
    case Word::smallest:
      stack.push_back(std::min(before, last));
      break;
    default:
      stack.push_back(std::max(before, last));
    }
  }
  return stack.back();
}

inline constexpr int64_t kFactors[] = {1, 1, 2, 3, 4, 6, 8, 12, 16, 24, 64, 256, -1, -4, -3};
inline constexpr int64_t kDivisors[] = {1, 2, 3, 4, 6, 8, 12, 16, 24, 64, 256};
inline constexpr int64_t kSizes[] = {1, 2, 3, 4, 6, 8, 12, 16, 64, 256};

/// Variables with ranges: loops of constant size, of size s0, and of sizes such as (s0 - 1)//2 + 1,
/// which strided convolutions give; n0 is possibly negative.
struct Space {
  struct Loop {
    Expr variable;
    Sample size;
  };
  std::vector<Loop> loops;
  Expr s0 = symbol(SymbolSort::size, 0), s1 = symbol(SymbolSort::size, 1),
       signed_variable = symbol(SymbolSort::operand, 0);
  Ranges ranges;

  explicit Space(Random &random) {
    ranges.set(s0, {1, random.pick(kSizes)});
    ranges.set(s1, {1, random.pick(kSizes)});
    for (int i = 0; i < 3; ++i)
      add_loop(random.pick(kSizes));
    add_loop(Sample::variable(s0));
    for (const Expr size : {s0, s1})
      add_loop(floor_div(Sample::variable(size) + Sample(random.between(-1, 3)),
                         Sample(random.between(1, 4))) +
               Sample(1));
    const int64_t low = random.between(-40, 10);
    ranges.set(signed_variable, {low, low + random.between(0, 40)});
  }

  Bindings point(Random &random) const {
    Bindings bindings;
    const auto draw = [&](Expr e, int64_t low, int64_t high) {
      // The ends are where rules go wrong.
      const int64_t choice = random.between(0, 3);
      bindings[e] = choice == 0 ? low : choice == 1 ? high : random.between(low, high);
    };
    for (const Expr e : {s0, s1, signed_variable})
      draw(e, ranges.interval_of(e).low, ranges.interval_of(e).high);
    for (const Loop &loop : loops)
      draw(loop.variable, 0, value_of(loop.size, bindings) - 1);
    return bindings;
  }

  Sample variable(Random &random) const {
    const int64_t which = random.between(0, 11);
    if (which < 9)
      return Sample::variable(loops[static_cast<size_t>(which) % 4].variable);
    return Sample::variable(which == 9 ? signed_variable : which == 10 ? s0 : s1);
  }
  const Loop &loop(Random &random) const { return loops[random.next() % loops.size()]; }

private:
  void add_loop(const Sample &size) {
    loops.push_back({symbol(SymbolSort::loop, loops.size()), size});
    ranges.set_size(loops.back().variable, size.e);
  }
};

Sample random_expression(Random &random, const Space &space, int depth);

inline Sample random_divisor(Random &random, const Space &space) {
  Sample divisor = random.pick(kDivisors);
  if (random.one_in(8))
    return divisor * Sample::variable(space.s0);
  return random.one_in(12) ? space.loop(random).size : divisor;
}

inline Sample random_atom(Random &random, const Space &space, int depth) {
  if (depth == 0)
    return space.variable(random);
  const Sample x = random_expression(random, space, depth - 1);
  switch (random.between(0, 8)) {
  case 0:
  case 1:
    return floor_div(x, random_divisor(random, space));
  case 2:
  case 3: {
    const Sample divisor = random_divisor(random, space);
    return modular_index(x, divisor, random_divisor(random, space));
  }
  case 4:
    return mod(x, random_divisor(random, space));
  case 5:
    return minimum(x, random_expression(random, space, depth - 1));
  case 6:
    return maximum(x, random_expression(random, space, depth - 1));
  case 7:
    return ceil_div(x, random_divisor(random, space));
  default:
    return space.variable(random);
  }
}

inline Sample random_expression(Random &random, const Space &space, int depth) {
  Sample result = random.one_in(4) ? random.between(-20, 300) : 0;
  const int64_t terms = random.between(1, 3);
  for (int64_t i = 0; i < terms; ++i) {
    Sample atom = random_atom(random, space, depth);
    if (random.one_in(10))
      atom = atom * space.variable(random);
    result = result + Sample(random.pick(kFactors)) * atom;
  }
  return result;
}

/// Quotient and remainder of one value, which simplification may join.
inline Sample split_value(Random &random, const Space &space) {
  const Sample x = random_expression(random, space, 1);
  const auto part = [&] {
    return random.one_in(4) ? space.loop(random).size : Sample(random.pick(kDivisors));
  };
  const Sample a = part(), b = part(), c = part();
  const Sample high = random.one_in(2) ? floor_div(x, a * b) : modular_index(x, a * b, c);
  return modular_index(x, a, b) + b * high;
}

/// A tensor of three dimensions at its loops, flattened and taken apart again as reshapes do.
inline Sample reshaped(Random &random, const Space &space) {
  Sample position = 0, stride = 1;
  std::vector<Sample> strides;
  for (int i = 0; i < 3; ++i) {
    const Space::Loop &loop = space.loop(random);
    position = position + Sample::variable(loop.variable) * stride;
    stride = stride * loop.size;
    strides.push_back(stride);
  }
  const Sample &inner = strides[0], &middle = strides[1];
  switch (random.between(0, 3)) {
  case 0:
    return floor_div(position, inner) + inner * mod(position, inner);
  case 1:
    return modular_index(position, inner, space.loop(random).size) + mod(position, middle);
  case 2:
    return floor_div(position, middle) * middle + modular_index(position, 1, middle);
  default:
    return ceil_div(position, inner) + modular_index(position, inner, strides[2]);
  }
}

/// Number `i` of a family: all kinds in turn.
inline Sample sample(Random &random, const Space &space, int64_t i) {
  switch (random.between(0, 5)) {
  case 0:
    return split_value(random, space);
  case 1:
    return reshaped(random, space);
  default:
    return random_expression(random, space, static_cast<int>(i % 4));
  }
}

} // namespace tsc::testing
