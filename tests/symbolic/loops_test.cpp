#include "symbolic/loops.h"
#include "testing/catch.h"

#include <algorithm>

using namespace tsc::symbolic;

namespace {

const Expr a = symbol(SymbolSort::row, 0), b = symbol(SymbolSort::row, 1),
           c = symbol(SymbolSort::row, 2), s0 = symbol(SymbolSort::size, 0);

std::vector<std::vector<int64_t>> shapes_of(int64_t numel, size_t max_rank) {
  std::vector<std::vector<int64_t>> shapes;
  if (numel == 1)
    shapes.push_back({});
  if (max_rank == 0)
    return shapes;
  for (int64_t size = 1; size <= 6; ++size) {
    if (numel % size != 0)
      continue;
    for (std::vector<int64_t> rest : shapes_of(numel / size, max_rank - 1)) {
      rest.insert(rest.begin(), size);
      shapes.push_back(rest);
    }
  }
  return shapes;
}

/// Row-major position -> index along every dimension.
std::vector<int64_t> unravel(int64_t position, const std::vector<int64_t> &shape) {
  std::vector<int64_t> index(shape.size());
  for (size_t i = shape.size(); i-- > 0;) {
    index[i] = position % shape[i];
    position /= shape[i];
  }
  return index;
}

/// Points at which reading `from` as `to` gives another element than it should.
int64_t count_wrong(const std::vector<int64_t> &from, const std::vector<int64_t> &to,
                    int64_t numel) {
  std::vector<Expr> from_sizes(from.begin(), from.end()), to_sizes(to.begin(), to.end()), index;
  for (size_t i = 0; i < to.size(); ++i)
    index.push_back(symbol(SymbolSort::dimension, i));
  std::vector<Expr> result = reshape_index(from_sizes, to_sizes, index);
  if (result.size() != from.size())
    return numel;
  int64_t wrong = 0;
  for (int64_t position = 0; position < numel; ++position) {
    std::vector<int64_t> at = unravel(position, to), expected = unravel(position, from);
    Bindings bindings;
    for (size_t i = 0; i < at.size(); ++i)
      bindings[index[i]] = at[i];
    for (size_t i = 0; i < from.size(); ++i)
      wrong += evaluate(result[i], bindings) != expected[i] ? 1 : 0;
  }
  return wrong;
}

} // namespace

TEST_CASE("neighbours merge where every index agrees") {
  std::vector<Expr> variables = {a, b, c}, sizes = {8, 4, 16};
  std::vector<Expr> contiguous = {64 * a + 16 * b + c};
  MergedLoops all = merge_loops(variables, sizes, contiguous, SymbolSort::loop);
  CHECK(all.sizes == std::vector<Expr>{512});
  std::vector<Expr> mixed = {64 * a + 16 * b + c, 4 * a + b};
  MergedLoops two = merge_loops(variables, sizes, mixed, SymbolSort::loop);
  REQUIRE(two.sizes == std::vector<Expr>{32, 16});
  Substitution replacement;
  for (size_t i = 0; i < 3; ++i)
    replacement[variables[i]] = two.old_variables[i];
  CHECK(print(substitute(mixed[0], replacement)) == "16*z0 + z1");
  CHECK(print(substitute(mixed[1], replacement)) == "z0");
}

TEST_CASE("merging keeps every index the same number") {
  std::vector<Expr> variables = {a, b, c}, sizes = {3, 4, 5};
  for (const std::vector<Expr> &indices :
       std::vector<std::vector<Expr>>{{20 * a + 5 * b + c},
                                      {20 * a + 5 * b + c, c},
                                      {5 * b + c, b},
                                      {floor_div(20 * a + 5 * b + c, 6)},
                                      {modular_index(5 * b + c, 1, 7) + 20 * a},
                                      {a + 3 * b, a + 3 * b + 12 * c},
                                      {a * b + c},
                                      {}}) {
    MergedLoops merged = merge_loops(variables, sizes, indices, SymbolSort::passing);
    Substitution replacement;
    for (size_t i = 0; i < 3; ++i)
      replacement[variables[i]] = merged.old_variables[i];
    std::vector<std::vector<int64_t>> old_values, new_values;
    for (int64_t i = 0; i < 3; ++i) {
      for (int64_t j = 0; j < 4; ++j) {
        for (int64_t k = 0; k < 5; ++k) {
          std::vector<int64_t> &row = old_values.emplace_back();
          for (Expr index : indices)
            row.push_back(evaluate(index, {{a, i}, {b, j}, {c, k}}));
        }
      }
    }
    std::vector<int64_t> new_sizes;
    int64_t numel = 1;
    for (Expr size : merged.sizes) {
      new_sizes.push_back(size.value());
      numel *= size.value();
    }
    REQUIRE(numel == 60);
    for (int64_t position = 0; position < numel; ++position) {
      std::vector<int64_t> at = unravel(position, new_sizes);
      Bindings bindings;
      for (size_t i = 0; i < at.size(); ++i)
        bindings[merged.variables[i]] = at[i];
      std::vector<int64_t> &row = new_values.emplace_back();
      for (Expr index : indices)
        row.push_back(evaluate(substitute(index, replacement), bindings));
    }
    // The nests may walk in another order; together they must touch the same combinations.
    std::sort(old_values.begin(), old_values.end());
    std::sort(new_values.begin(), new_values.end());
    CHECK(old_values == new_values);
  }
}

TEST_CASE("loops of size 1 vanish and symbolic sizes merge") {
  std::vector<Expr> variables = {a, b, c}, sizes = {s0, 1, 16};
  std::vector<Expr> indices = {16 * a + 5 * b + c};
  MergedLoops merged = merge_loops(variables, sizes, indices, SymbolSort::loop);
  CHECK(merged.sizes == std::vector<Expr>{16 * s0});
  CHECK(merged.old_variables[1] == Expr(0));
}

TEST_CASE("loop order follows strides, ties keep the larger index first") {
  using Rows = std::vector<std::vector<Expr>>;
  auto order = [](const Rows &strides, std::vector<Expr> sizes) {
    return pick_loop_order(strides, sizes);
  };
  using Order = std::vector<size_t>;
  CHECK(order(Rows{{256, 1}}, {8, 256}) == Order{1, 0});
  CHECK(order(Rows{{1, 256}}, {256, 8}) == Order{0, 1});
  CHECK(order(Rows{{1, 256}, {8, 1}}, {256, 8}) == Order{1, 0}); // a tie
  CHECK(order(Rows{{1, 0, 64}}, {64, 1, 8}) == Order{0, 2, 1});
  CHECK(order(Rows{{-1, 256}}, {256, 8}) == Order{0, 1});
  CHECK(order(Rows{{s0, 1}}, {4, s0}) == Order{1, 0});
  CHECK(order(Rows{{0, 1}}, {4, 8}) == Order{1, 0});
}

TEST_CASE("a reshape reads the right element: all small shapes") {
  int64_t wrong = 0, pairs = 0;
  for (int64_t numel = 1; numel <= 24; ++numel) {
    std::vector<std::vector<int64_t>> shapes = shapes_of(numel, 5);
    for (const std::vector<int64_t> &from : shapes) {
      for (const std::vector<int64_t> &to : shapes) {
        if (from.size() + to.size() > 8) // keeps the test under a second
          continue;
        wrong += count_wrong(from, to, numel);
        ++pairs;
      }
    }
  }
  CHECK(pairs > 5000);
  CHECK(wrong == 0);
}

TEST_CASE("a reshape splits and joins as the reference does") {
  std::vector<Expr> i = {symbol(SymbolSort::dimension, 0), symbol(SymbolSort::dimension, 1),
                         symbol(SymbolSort::dimension, 2)};
  auto text = [&](std::vector<Expr> from, std::vector<Expr> to) {
    std::string result;
    for (Expr e : reshape_index(from, to, std::span<const Expr>(i.data(), to.size())))
      result += print(e) + "; ";
    return result;
  };
  CHECK(text({8, 768}, {8, 12, 64}) == "i0; 64*i1 + i2; ");
  CHECK(text({8, 12, 64}, {8, 768}) ==
        "i0; ModularIndexing(i1, 64, 12); ModularIndexing(i1, 1, 64); ");
  CHECK(text({s0, 768}, {s0, 12, 64}) == "i0; 64*i1 + i2; ");
  CHECK(text({4, 1, s0}, {4, s0}) == "i0; 0; i1; ");
  CHECK(text({4 * s0}, {s0, 4}) == "4*i0 + i1; ");
  CHECK(text({2, 3}, {3, 2}) ==
        "ModularIndexing(2*i0 + i1, 3, 2); ModularIndexing(2*i0 + i1, 1, 3); ");
  CHECK(text({0, 3}, {3, 0}) == "0; 0; ");
}
