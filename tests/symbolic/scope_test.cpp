// Whose expressions are, and when they go.
#include "support/diagnostic.h"
#include "symbolic/expr.h"
#include "symbolic/expression_scope.h"
#include "testing/catch.h"

#include <thread>
#include <vector>

using namespace tsc::symbolic;
using tsc::contains_text;

namespace {

Expr size(size_t number) { return symbol(SymbolSort::size, number); }

/// Of a symbol that is not everybody's, an integer that is not, and one that is.
Expr something() { return floor_div(size(5000) * 7000 + 3 * size(1), 9001) + 4; }

} // namespace

TEST_CASE("Expressions of a scope go with it") {
  size(1);
  const size_t before = expression_count();
  {
    const ExpressionScope scope;
    CHECK(something() == something());
    CHECK(expression_count() > before + 4);
  }
  CHECK(expression_count() == before);
}

TEST_CASE("A scope inside of another is nothing by itself") {
  size(1);
  const size_t before = expression_count();
  {
    const ExpressionScope scope;
    Expr made;
    {
      const ExpressionScope inner;
      made = something();
    }
    CHECK(made == something());
  }
  CHECK(expression_count() == before);
}

TEST_CASE("Each thread's scope is its own, small integers and symbols are everybody's") {
  size(1);
  const size_t before = expression_count();
  const ExpressionScope scope;
  const Expr mine = something(), symbol = size(7), integer = -3;
  std::vector<std::thread> threads;
  std::vector<int> right(8);
  for (int &ok : right)
    threads.emplace_back([&] {
      const ExpressionScope own;
      const Expr theirs = something();
      bool all = theirs != mine && size(7) == symbol && Expr(-3) == integer;
      all = all && theirs.hash() == mine.hash() && print(theirs) == print(mine);
      for (int64_t i = 0; i < 20000; ++i) // many tables grow at once
        all = all && floor_div(size(6) * i + 1, i + 3) == floor_div(size(6) * i + 1, i + 3);
      ok = all;
    });
  for (std::thread &thread : threads)
    thread.join();
  CHECK(right == std::vector<int>(8, 1));
  CHECK(mine == something());
  CHECK(expression_count() < before + 20); // mine alone
}

TEST_CASE("Expressions of two scopes do not meet") {
  const ExpressionScope scope;
  const Expr mine = something();
  std::string message;
  std::thread([&] {
    try {
      const ExpressionScope own;
      floor_div(mine, 5);
    } catch (const tsc::support::InternalError &error) {
      message = error.what();
    }
  }).join();
  CHECK_THAT(message, contains_text("expressions of two compilations meet"));
  message.clear();
  std::thread([&] {
    try {
      mine + 1; // of no scope
    } catch (const tsc::support::InternalError &error) {
      message = error.what();
    }
  }).join();
  CHECK_THAT(message, contains_text("expressions of two compilations meet"));
  CHECK(floor_div(mine, 5) == floor_div(something(), 5));
}
