// Canonical form, simplification rules, ranges, substitution.
#include "support/diagnostic.h"
#include "support/thread_pool.h"
#include "symbolic/expr.h"
#include "testing/catch.h"

#include <algorithm>

using namespace tsc::symbolic;

namespace {

const Expr z0 = symbol(SymbolSort::loop, 0), z1 = symbol(SymbolSort::loop, 1),
           z2 = symbol(SymbolSort::loop, 2), s0 = symbol(SymbolSort::size, 0),
           s1 = symbol(SymbolSort::size, 1);

} // namespace

TEST_CASE("equal expressions are one node, whatever way they were built") {
  CHECK(z0 + z1 == z1 + z0);
  CHECK((z0 + 1) * (z0 - 1) == z0 * z0 - 1);
  CHECK(z0 - z0 == Expr(0));
  CHECK(2 * z0 + 3 * z0 == 5 * z0);
  CHECK(z0 * 0 == Expr(0));
  CHECK(Expr() == integer(0));
  CHECK(symbol(SymbolSort::loop, 0) == z0);
  std::vector<Expr> parts = {z1, 3, 256 * z0, -1};
  CHECK(sum(parts) == 256 * z0 + z1 + 2);
  CHECK(product(parts) == -768 * z0 * z1);
  CHECK(numel({}) == Expr(1));
  CHECK((s0 * s1 * s0).operands()[0] == s0 * s0);
  CHECK((4 * s0).operands()[0] == Expr(4));
  CHECK((z0 + 4).operands()[1] == Expr(4));
}

TEST_CASE("interning is the same from many threads") {
  std::vector<std::vector<Expr>> made(8);
  tsc::support::parallel_for(made.size(), [&](size_t thread) {
    for (int64_t i = 0; i < 2000; ++i)
      made[thread].push_back(
          floor_div(symbol(SymbolSort::loaded, static_cast<size_t>(i % 50)) * i + z0, i + 7) + i);
  });
  for (const std::vector<Expr> &row : made)
    CHECK(row == made[0]);
}

TEST_CASE("division takes multiples out and cancels what is common") {
  CHECK(floor_div(256 * z0 + z1, 256) == z0 + floor_div(z1, 256));
  CHECK(floor_div(s0 * z0 + z1, s0) == z0 + floor_div(z1, s0));
  CHECK(floor_div(6 * z0 + 4, 8) == floor_div(3 * z0 + 2, 4));
  CHECK(floor_div(s0 * s1 * 3, s0 * 2) == floor_div(3 * s1, 2));
  CHECK(floor_div(floor_div(z0, 3), 4) == floor_div(z0, 12));
  CHECK(floor_div(Expr(-7), 2) == Expr(-4));
  CHECK(modular_index(256 * z0 + z1, 1, 256) == modular_index(z1, 1, 256));
  CHECK(modular_index(z0, 1, 1) == Expr(0));
  CHECK(modular_index(floor_div(z0, 4), 2, 3) == modular_index(z0, 8, 3));
  CHECK(modular_index(Expr(-7), 2, 3) == Expr(2));
  CHECK(mod(4 * z0 + z1 + 9, 4) == mod(z1 + 9, 4));
  CHECK(mod(Expr(-1), 4) == Expr(3));
  CHECK(ceil_div(Expr(9), 4) == Expr(3));
  CHECK(minimum(s0, minimum(3, minimum(s0, 5))) == minimum(3, s0));
  CHECK(maximum(s0, s0) == s0);
}

TEST_CASE("simplification uses the ranges of loop variables") {
  Ranges ranges;
  ranges.set_size(z0, 128);
  ranges.set_size(z1, 256);
  ranges.set_size(z2, s0);
  CHECK(simplify(floor_div(256 * z0 + z1, 256), ranges) == z0);
  CHECK(simplify(modular_index(256 * z0 + z1, 1, 256), ranges) == z1);
  CHECK(simplify(modular_index(256 * z0 + z1, 256, 128), ranges) == z0);
  CHECK(simplify(modular_index(256 * z0 + z1, 256, 64), ranges) == modular_index(z0, 1, 64));
  CHECK(simplify(floor_div(64 * z0 + modular_index(z1, 1, 64), 128), ranges) == floor_div(z0, 2));
  CHECK(simplify(modular_index(modular_index(z1, 1, 64), 4, 16), ranges) ==
        modular_index(z1, 4, 16));
  CHECK(simplify(64 * floor_div(z1, 64) + modular_index(z1, 1, 64), ranges) == z1);
  CHECK(simplify(2 * (8 * modular_index(z1, 64, 2) + modular_index(z1, 8, 8)) + 7, ranges) ==
        2 * modular_index(z1, 8, 16) + 7);
  const Expr rest = modular_index(z1, 1, 4); // a head of a group of four, seen by the head's number
  CHECK(simplify(32 * floor_div(z0, 8) + modular_index(4 * z0 + rest, 1, 32), ranges) ==
        4 * z0 + rest);
  CHECK(simplify(96 * modular_index(z0, 8, 5) + 3 * modular_index(4 * z0 + rest, 1, 32), ranges) ==
        12 * modular_index(z0, 1, 40) + 3 * rest);
  CHECK(simplify(32 * floor_div(z0, 4) + modular_index(4 * z0 + rest, 1, 32), ranges) ==
        32 * floor_div(z0, 4) + modular_index(4 * z0 + rest, 1, 32));
  CHECK(simplify(mod(z0, 128), ranges) == z0);
  CHECK(simplify(mod(z0, 100), ranges) == mod(z0, 100));
  CHECK(simplify(floor_div(z2, s0), ranges) == Expr(0));
  CHECK(simplify(floor_div(s0 * z0 + z2, s0), ranges) == z0);
  CHECK(simplify(modular_index(s0 * z0 + z2, 1, s0), ranges) == z2);
  CHECK(simplify(modular_index(s0 * z0 + z2, s0, 128), ranges) == z0);
  CHECK(simplify(minimum(z0, 500), ranges) == z0);
  CHECK(simplify(maximum(z0 - 1, z0), ranges) == z0);
  Expr cut = s0; // [1:] again and again
  for (int i = 0; i < 40; ++i)
    cut = simplify(maximum(cut - 1, 0), ranges);
  CHECK(cut == maximum(s0 - 40, 0));
  CHECK(simplify(minimum(minimum(s0, 9) + 2, 5), ranges) == minimum(s0 + 2, 5));
  CHECK(simplify(modular_index(z0 - 128, 1, 128), ranges) == z0);
  CHECK(simplify(256 * z0 + z1, ranges) == 256 * z0 + z1);
  CHECK(simplify(128 * z0 + identity(z1 - 64), ranges) == 128 * z0 + identity(z1 - 64));
}

TEST_CASE("bounds and provable facts") {
  Ranges ranges;
  ranges.set_size(z0, 10);
  ranges.set_size(z1, s0);
  ranges.set(s0, {2, 64});
  CHECK(bounds(3 * z0 - 5, ranges) == Interval{-5, 22});
  CHECK(bounds(floor_div(z0, 4), ranges) == Interval{0, 2});
  CHECK(bounds(modular_index(z0 - 20, 1, 7), ranges) == Interval{0, 6});
  CHECK(bounds(symbol(SymbolSort::size, 9), ranges) == Interval{0, INT64_MAX});
  CHECK(bounds(symbol(SymbolSort::whole_reduced), ranges) == Interval{});
  CHECK(bounds(symbol(SymbolSort::size, 9) * -2 + 1, ranges) == Interval{INT64_MIN, 1});
  CHECK(known_less(z1, s0, ranges));
  CHECK_FALSE(known_less(s0, z1, ranges));
  CHECK(known_less_equal(z0, 9, ranges));
  CHECK_FALSE(known_less(z0, 9, ranges));
  CHECK(known_nonnegative(s0 * z0, ranges));
  CHECK_FALSE(known_nonnegative(z0 - 1, ranges));
  // What a quotient times its divisor leaves of the whole.
  const Expr half = floor_div(s0, 2), eighth = floor_div(s0, 8);
  CHECK(known_less_equal(2 * half * z0, s0 * z0, ranges));
  CHECK(known_less_equal(floor_div(s0, eighth) * eighth, s0, ranges));
  CHECK(known_less_equal(2 * half + 2 * floor_div(s1, 2), s0 + s1, ranges));
  CHECK(known_less_equal(4 * floor_div(half, 2), s0, ranges));
  CHECK_FALSE(known_less_equal(s0, 2 * half, ranges));
  CHECK_FALSE(known_less(2 * half, s0, ranges)); // equal if it is even
  CHECK_FALSE(known_less_equal(3 * half, s0, ranges));
  CHECK_FALSE(known_less_equal(-s0, -3 * half, ranges));
  CHECK(known_nonnegative(z1 * s0 - z1, ranges)); // by what z1 is multiplied with
  CHECK(known_less(2 * floor_div(z1, 2), s0, ranges));
  // A rotation: what is beyond the end goes on from the start, once.
  CHECK(wraps_once(z1 + mod(-1, s0), s0, ranges));
  CHECK_FALSE(wraps_once(z1 + s0 + 1, s0, ranges));
  CHECK(wraps_once(z1 - 1, s0, ranges));
  CHECK_FALSE(wraps_once(z1 - s0 - 1, s0, ranges));
  CHECK_FALSE(wraps_once(z0, 7, ranges)); // a number is divided by as it is
  CHECK(print_cpp(mod(z1 + mod(-1, s0), s0), ranges) == "tc_wrap(z1 + tc_wrap(-1, s0), s0)");
  CHECK(known_multiple_of(4 * s0 + 8 * z0, 4));
  CHECK_FALSE(known_multiple_of(4 * s0 + 6, 4));
  CHECK(ranges.size_of(z1) == s0);
  CHECK_FALSE(ranges.size_of(z0).has_value());
}

TEST_CASE("substitution, coefficients and strides") {
  std::vector<Expr> variables = {z0, z1};
  Expr e = 256 * z0 + s0 * z1 + 7;
  CHECK(substitute(e, {{z0, z1}, {z1, z0}}) == 256 * z1 + s0 * z0 + 7);
  CHECK(substitute(floor_div(z0, 4), {{z0, 8}}) == Expr(2));
  CHECK(coefficient_of(e, z1) == s0);
  CHECK(coefficient_of(e, z2) == Expr(0));
  CHECK_FALSE(coefficient_of(z0 * z0, z0).has_value());
  CHECK_FALSE(coefficient_of(floor_div(z0, 2), z0).has_value());
  CHECK(stride_vars(e, variables) == std::vector<Expr>{256, s0});
  CHECK(offset_of(e, variables) == Expr(7));
  CHECK(is_affine(e, variables));
  CHECK_FALSE(is_affine(z0 * z1, variables));
  CHECK_FALSE(is_affine(floor_div(z0, 2) + z1, variables));
  CHECK(free_symbols(e) == std::vector<Expr>{s0, z0, z1});
  CHECK(depends_on(floor_div(z0, s1), s1));
  CHECK_FALSE(depends_on(e, z2));
}

TEST_CASE("evaluation is checked") {
  CHECK(evaluate(floor_div(z0 - 7, 2) + s0 * s0, {{z0, 0}, {s0, 3}}) == 5);
  CHECK_THROWS_WITH(evaluate(z0 * z1, {{z0, INT64_MAX}, {z1, 2}}),
                    "error TSC-G090: a size or index leaves 64 bits: the product of "
                    "9223372036854775807 and 2\n  next: use smaller tensor sizes");
  CHECK_THROWS_AS(evaluate(z0, {}), tsc::support::InternalError);
  CHECK_THROWS_WITH(Expr(INT64_MAX) + 1,
                    "error TSC-G090: a size or index leaves 64 bits: the sum of "
                    "9223372036854775807 and 1\n  next: use smaller tensor sizes");
}

TEST_CASE("nesting beyond the limit is a coded error, not a crash") {
  Expr e = z0;
  std::string code;
  try {
    for (int i = 0; i < 2000; ++i)
      e = floor_div(e + z1, 3);
  } catch (const tsc::support::UserError &error) {
    code = error.diagnostics()[0].code;
  }
  CHECK(code == "TSC-G092");
}

TEST_CASE("sharing cannot make an expression that takes forever to print or evaluate") {
  Expr e = z0;
  std::string message;
  try {
    for (int i = 0; i < 100; ++i) // a tree of 2^i parts
      e = floor_div(e, 3) * mod(e, 5);
  } catch (const tsc::support::UserError &error) {
    message = error.what();
  }
  CHECK(message == "error TSC-G092: an index or size expression has more than 200000 parts\n"
                   "  next: split the graph, or make the tensors in between contiguous");
}

TEST_CASE("powers stay small: evaluating and cancelling them takes steps") {
  Expr power = 1;
  for (int i = 0; i < 64; ++i)
    power *= s0;
  CHECK(evaluate(power, {{s0, -1}}) == 1);
  CHECK_THROWS_WITH(power * s0,
                    "error TSC-G092: an index or size expression has the power 65, more than 64\n"
                    "  next: simplify the sizes that the graph computes");
}

TEST_CASE("the least integer is not divided by -1") {
  CHECK_THROWS_WITH(floor_div(Expr(INT64_MIN) * s0, -1 * s0),
                    "error TSC-G093: FloorDiv by -1; divisors and moduli must be positive\n"
                    "  next: correct the size expression");
}

TEST_CASE("the order of expressions is sympy's") {
  std::vector<Expr> sorted = {
      5, s0, z0, z0 * s0, s0 + z0, floor_div(z0, 2), mod(z0, 2), minimum(z0, s0)};
  std::vector<Expr> shuffled(sorted.rbegin(), sorted.rend());
  std::sort(shuffled.begin(), shuffled.end(), ExprLess());
  CHECK(shuffled == sorted);
}
